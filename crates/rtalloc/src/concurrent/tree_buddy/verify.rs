//! A heap at rest: the walk, the check of every invariant, the abstract state.

use super::layout::{Layout, tag};
use super::options::Options;
use super::shape::{Node, leaves, nodes};
use super::{BEGUN, Control, FLAG, Live, MAX_DEPTH, Tree};
use crate::concurrent::atomics::Atomics;
use crate::contract::{Block, Corruption};
use core::sync::atomic::Ordering::Relaxed;

/// A part of the heap, in address order: the nodes of a tree in post-order.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// A live block.
    Live(Live),
    /// A free subtree that is part of no other.
    Free(Node),
    /// A node whose subtree is partly allocated. It is itself unusable.
    Divided(Node),
}

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// Gives all counters their initial values. The heap is not shared yet.
    pub(super) fn begin_counters(self) {
        let place = self.control().place;
        let root = Node::root(self.depth());
        let write = |at: usize, word: u32| {
            // SAFETY: the node has a counter, and the heap is not shared yet.
            unsafe { L::counter(place, NODE, at).write(word) }
        };
        if Self::FLAGGED && root.height > 1 {
            return write(root.at, Self::amount(leaves(root.height)) | FLAG);
        }
        let (mut leaf, mut value) = (1, 1);
        for at in 0..=root.at {
            write(at, Self::amount(value));
            (leaf, value) = if leaf & value != 0 { (leaf + 1, 1) } else { (leaf, value << 1) };
        }
        // SAFETY: the heap is not shared yet.
        unsafe { L::begin_tags(place) };
    }

    /// The live block whose root has a counter of zero; `None` if the subtree holds several blocks.
    fn live_at(self, root: Node) -> Result<Option<Live>, Corruption> {
        let place = self.control().place;
        let begin = self.begin(root.first());
        let height = root.height as usize;
        let corrupt =
            Err(Corruption { invariant: "a displaced payload and its block lead to each other", address: begin });
        // SAFETY: the first node of a fully allocated subtree begins a block.
        let found = unsafe { L::tag::<A>(place, NODE, begin) };
        if found == tag::PLAIN | height {
            return Ok(Some(Live { root, payload: begin }));
        }
        if found != tag::BEGIN | height {
            return Ok(None);
        }
        // SAFETY: a block with a displaced payload begins here.
        let payload = unsafe { L::displaced::<A>(place, NODE, root.at, begin) };
        if payload <= begin || payload >= self.end(root.at) || !(payload - begin).is_multiple_of(Self::ALIGN_BYTES) {
            return corrupt;
        }
        // SAFETY: the address is a possible payload address in the block.
        if unsafe { L::tag::<A>(place, NODE, payload) } != tag::DISPLACED | height {
            return corrupt;
        }
        Ok(Some(Live { root, payload }))
    }

    /// Classifies a node.
    fn part_at(self, node: Node) -> Result<Part, Corruption> {
        let corrupt = |invariant| Err(Corruption { invariant, address: self.counter_address(node) });
        let count = Self::count(self.counter(node.at).load(Relaxed));
        if count < 0 || count > leaves(node.height) as isize {
            return corrupt("a counter is from none of its node's leaves to all of them");
        }
        if count == leaves(node.height) as isize {
            return Ok(Part::Free(node));
        }
        if count == 0
            && let Some(live) = self.live_at(node)?
        {
            return Ok(Part::Live(live));
        }
        if node.height == 1 {
            return corrupt("a leaf that is not free is a block");
        }
        Ok(Part::Divided(node))
    }

    /// Address of a node's counter.
    fn counter_address(self, node: Node) -> usize {
        L::counter(self.control().place, NODE, node.at).addr()
    }

    /// Visits every part in address order, as far as no error is found.
    fn visit_parts(self, visit: &mut dyn FnMut(Part) -> Result<(), Corruption>) -> Result<(), Corruption> {
        let mut node = Node::root(self.depth());
        loop {
            let part = self.part_at(node)?;
            if let Part::Divided(_) = part {
                node = node.towards(0);
                continue;
            }
            visit(part)?;
            loop {
                if node.height == self.depth() {
                    return Ok(());
                }
                if !node.is_right() {
                    node = node.sibling();
                    break;
                }
                node = node.parent();
                visit(Part::Divided(node))?;
            }
        }
    }

    /// Visits the nodes of a free subtree whose counters are valid, parents first, and passes whether each is closed.
    fn visit_free(
        self,
        root: Node,
        visit: &mut dyn FnMut(Node, bool) -> Result<(), Corruption>,
    ) -> Result<(), Corruption> {
        let mut node = root;
        loop {
            let is_closed = Self::FLAGGED && self.counter(node.at).load(Relaxed) & FLAG != 0;
            visit(node, is_closed)?;
            if node.height > 1 && !is_closed {
                node = node.towards(0);
                continue;
            }
            loop {
                if node.height == root.height {
                    return Ok(());
                }
                if !node.is_right() {
                    node = node.sibling();
                    break;
                }
                node = node.parent();
            }
        }
    }

    /// Verifies that all counters of a free subtree have their initial values.
    fn verify_free(self, root: Node) -> Result<(), Corruption> {
        self.visit_free(root, &mut |node, is_closed| {
            let is_whole = Self::count(self.counter(node.at).load(Relaxed)) == leaves(node.height) as isize;
            if is_whole && !(is_closed && node.height == 1) {
                return Ok(());
            }
            Err(Corruption {
                invariant: "a counter inside a free subtree has its initial value",
                address: self.counter_address(node),
            })
        })
    }

    /// Whether the control structure is the one that its address and the tree's depth determine.
    fn agrees_with_its_place(self) -> bool {
        let control = self.control();
        let room = self.control.addr().get() + size_of::<Control<A>>();
        let depth = control.depth;
        let is_depth = depth >= 1 && depth <= MAX_DEPTH as usize;
        is_depth && L::plan(room, nodes(depth as u32), NODE).is_some_and(|(place, _)| place == control.place)
    }

    /// See [`SharedAllocator::check`](crate::contract::SharedAllocator::check).
    pub(super) fn check(self) -> Result<(), Corruption> {
        let control = self.control();
        let corrupt = |invariant| Err(Corruption { invariant, address: self.control.addr().get() });
        if !self.agrees_with_its_place() {
            return corrupt("the control structure matches its address and the tree's depth");
        }
        let watch = control.watch.load(Relaxed);
        if watch & (BEGUN - 1) != 0 || watch != 0 && !O::WATCHED {
            return corrupt("no operation is under way");
        }
        let mut tags = 0;
        self.visit_parts(&mut |part| match part {
            Part::Free(node) => self.verify_free(node),
            Part::Live(Live { root, payload }) => {
                tags += if payload == self.begin(root.first()) { 1 } else { 2 };
                // SAFETY: the root is a node.
                if !unsafe { L::is_sealed::<A>(control.place, NODE, root.at) } {
                    return Err(Corruption {
                        invariant: "the canary at the end of a block is intact",
                        address: payload,
                    });
                }
                if L::IN_BAND || root.height == 1 {
                    return Ok(());
                }
                self.verify_free(root.towards(0))?;
                self.verify_free(root.towards(usize::MAX))
            }
            Part::Divided(node) => {
                let word = |node: Node| self.counter(node.at).load(Relaxed);
                let below: isize = [0, usize::MAX].iter().map(|&side| Self::count(word(node.towards(side)))).sum();
                if Self::count(word(node)) == below && !(Self::FLAGGED && word(node) & FLAG != 0) {
                    return Ok(());
                }
                Err(Corruption {
                    invariant: "a counter is its node's leaves less those allocated below",
                    address: self.counter_address(node),
                })
            }
        })?;
        // SAFETY: the heap is at rest.
        if unsafe { L::tags::<A>(control.place) }.is_some_and(|found| found != tags) {
            return corrupt("every tag belongs to a live block");
        }
        Ok(())
    }

    /// See [`SharedAllocator::walk`](crate::contract::SharedAllocator::walk): the root of a divided subtree is reported
    /// as a free block of one node with no usable bytes.
    pub(super) fn walk(self, visitor: &mut dyn FnMut(Block)) {
        let mut show = |first: usize, root: usize, payload: usize, is_usable: bool, free: bool| {
            let start = self.begin(first) - L::HEADER_BYTES;
            let size_bytes = (root + 1 - first) * NODE;
            let usable_bytes = if is_usable { self.end(root) - payload } else { 0 };
            visitor(Block { address: payload, front_bytes: payload - start, size_bytes, usable_bytes, free });
        };
        // A damaged heap is reported up to the first error.
        let _ = self.visit_parts(&mut |part| {
            match part {
                Part::Live(Live { root, payload }) => show(root.first(), root.at, payload, true, false),
                Part::Free(node) => show(node.first(), node.at, self.begin(node.first()), true, true),
                Part::Divided(node) => show(node.at, node.at, self.begin(node.at), false, true),
            }
            Ok(())
        });
    }

    /// See [`SharedAllocator::largest_allocatable`](crate::contract::SharedAllocator::largest_allocatable).
    pub(super) fn largest(self) -> usize {
        let mut height = 0;
        let _ = self.visit_parts(&mut |part| {
            if let Part::Free(node) = part {
                height = height.max(node.height);
            }
            Ok(())
        });
        (nodes(height) * NODE).saturating_sub(Self::OVERHEAD_BYTES)
    }

    /// See [`SharedAllocator::fingerprint`](crate::contract::SharedAllocator::fingerprint): the live blocks and the
    /// free subtrees, from which all counters follow, and which of the free nodes are closed.
    pub(super) fn fingerprint(self, word: &mut dyn FnMut(usize)) {
        let _ = self.visit_parts(&mut |part| {
            match part {
                Part::Live(Live { root, payload }) => {
                    word(root.height as usize | tag::PLAIN | (payload - self.begin(root.first())) << 8);
                }
                Part::Free(node) if Self::FLAGGED => {
                    return self.visit_free(node, &mut |node, is_closed| {
                        word(node.height as usize | if is_closed { tag::BEGIN } else { tag::NONE });
                        Ok(())
                    });
                }
                Part::Free(node) => word(node.height as usize),
                Part::Divided(_) => {}
            }
            Ok(())
        });
    }
}
