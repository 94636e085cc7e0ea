//! How counters change: the conditional decrement, the search, and the increments up to the root.

use super::layout::Layout;
use super::options::Options;
use super::shape::{Node, leaves};
use super::{FLAG, Tree};
use crate::concurrent::atomics::Atomics;
use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::computed;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a visit of a node found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Too little.
    Little,
    /// Enough, as far as this node knows.
    Enough,
    /// All of the subtree, whose inner counters are stale.
    Whole,
}

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// Decrements the counter of a node by `size` leaves if it has them (the paper's `atomic_decr`), and returns
    /// whether it had. Above the height `wanted`, a node whose inner counters were not reset when it was freed is
    /// opened first; while another search opens it, it counts as having too little.
    #[inline(always)]
    fn reserve(self, node: Node, size: usize, wanted: u32) -> bool {
        // Acquire, for the success case: frees and failed searches in this subtree come before new accesses.
        let counter = self.counter(node.at);
        let old = counter.fetch_add(Self::amount(size).wrapping_neg(), Acquire);
        let has_enough = Self::count(old) >= size as isize;
        if has_enough && !Self::is_closed(old, node, wanted) {
            return true;
        }
        if Self::is_closed(old, node, wanted) && Self::count(old) == leaves(node.height) as isize {
            self.open(node);
            return true;
        }
        // Relaxed: nothing was done below this node.
        counter.fetch_add(Self::amount(size), Relaxed);
        false
    }

    /// Whether a search must not continue below this node, because its children's counters are stale.
    #[inline(always)]
    fn is_closed(word: u32, node: Node, wanted: u32) -> bool {
        Self::FLAGGED && word & FLAG != 0 && node.height > wanted
    }

    /// Initialises the children of a closed node. Only the search that took all of it does so.
    fn open(self, node: Node) {
        self.close_whole(node.towards(0));
        self.close_whole(node.towards(usize::MAX));
        // Release: a thread that sees the node open sees the counters of its children.
        self.counter(node.at).fetch_add(FLAG.wrapping_neg(), Release);
    }

    /// Makes a node in memory that belongs to the caller a free subtree, closed if it has inner counters.
    pub(super) fn close_whole(self, node: Node) {
        let flag = if Self::FLAGGED && node.height > 1 { FLAG } else { 0 };
        self.counter(node.at).store(Self::amount(leaves(node.height)) | flag, Relaxed);
    }

    /// Visits nodes down to a height, depth first, in the order of children given by `order`. `enter` examines a node,
    /// and `leave` is called for each whose children both failed. Returns the first node of that height that was
    /// entered.
    #[inline(always)]
    fn visit(
        self,
        wanted: u32,
        order: usize,
        mut enter: impl FnMut(Node) -> Found,
        mut leave: impl FnMut(Node),
    ) -> Option<Node> {
        let depth = self.depth();
        let mut node = Node::root(depth);
        let mut arrives = true;
        loop {
            loop_bound!(LoopBound::Visits);
            // Kept as one loop, so that one number bounds it: the compiler would split it by the last outcome.
            node.height = computed(node.height.into()) as u32;
            node.way = computed(node.way as u64) as usize;
            let found = if computed(arrives.into()) != 0 {
                enter(node)
            } else {
                leave(node);
                Found::Little
            };
            arrives = true;
            if found == Found::Enough && node.height > wanted {
                node = node.towards(order);
            } else if found != Found::Little {
                return Some(self.first_below(node, wanted, order));
            } else if node.height == depth {
                return None;
            } else if (node.way ^ order) >> node.height & 1 == 0 {
                node = node.sibling();
            } else {
                node = node.parent();
                arrives = false;
            }
        }
    }

    /// The first node of a height in visiting order below another.
    #[inline(always)]
    fn first_below(self, mut node: Node, wanted: u32, order: usize) -> Node {
        if Self::FLAGGED {
            while node.height > wanted {
                loop_bound!(LoopBound::Levels);
                node = node.towards(order);
            }
        }
        node
    }

    /// Reserves a subtree of a height (the paper's `try_allocate`); `None` if the search found none.
    #[inline(always)]
    pub(super) fn search(self, wanted: u32, order: usize) -> Option<Node> {
        let size = leaves(wanted);
        let enter = |node| if self.reserve(node, size, wanted) { Found::Enough } else { Found::Little };
        // Release: our steps inside this subtree come before those of a thread that later takes it whole.
        let leave = |node: Node| {
            self.counter(node.at).fetch_add(Self::amount(size), Release);
        };
        self.visit(wanted, order, enter, leave)
    }

    /// Searches a subtree of a height by loads.
    #[inline(always)]
    pub(super) fn look(self, wanted: u32, order: usize) -> Option<Node> {
        let size = leaves(wanted) as isize;
        let enter = |node: Node| {
            let word = self.counter(node.at).load(Relaxed);
            match Self::is_closed(word, node, wanted) {
                true if Self::count(word) == leaves(node.height) as isize => Found::Whole,
                false if Self::count(word) >= size => Found::Enough,
                _ => Found::Little,
            }
        };
        self.visit(wanted, order, enter, |_| {})
    }

    /// Whether the root has too little, confirmed by an RMW because a load may be stale.
    #[inline(always)]
    pub(super) fn is_lacking(self, wanted: u32) -> bool {
        let word = self.counter(self.root()).fetch_add(0, Relaxed);
        Self::count(word) < leaves(wanted) as isize
    }

    /// Reserves `size` leaves of every node from the root down to `target`, or of none.
    #[inline(always)]
    pub(super) fn reserve_way(self, target: Node, size: usize) -> bool {
        let mut node = Node::root(self.depth());
        loop {
            loop_bound!(LoopBound::Levels);
            if !self.reserve(node, size, target.height) {
                break;
            }
            if node.height == target.height {
                return true;
            }
            node = node.towards(target.way);
        }
        while node.height < self.depth() {
            loop_bound!(LoopBound::Levels);
            node = node.parent();
            // Release: as in `search`.
            self.counter(node.at).fetch_add(Self::amount(size), Release);
        }
        false
    }

    /// Adds `size` leaves to a node, whose word changes by `first`, and to every ancestor of it.
    ///
    /// # Errors
    ///
    /// The first node whose counter would exceed its leaves: it and those above stay unchanged.
    #[inline(always)]
    pub(super) fn give_back(self, mut node: Node, size: usize, first: u32) -> Result<(), Node> {
        let depth = self.depth();
        let mut amount = first;
        loop {
            loop_bound!(LoopBound::Levels);
            let counter = self.counter(node.at);
            // Release, at every node: a thread that takes this subtree later, whole or in part, must see what was
            // written in it, and the counters in it that were reset.
            let old = counter.fetch_add(amount, Release);
            if Self::count(old) + size as isize > leaves(node.height) as isize {
                counter.fetch_add(amount.wrapping_neg(), Relaxed);
                return Err(node);
            }
            if node.height == depth {
                return Ok(());
            }
            node = node.parent();
            amount = Self::amount(size);
        }
    }

    /// Resets the counters inside a subtree that belongs to the caller, except its root's.
    #[inline(always)]
    pub(super) fn reset_inside(self, root: Node) {
        let (mut leaf, mut value) = (1, 1);
        let mut at = root.first();
        while at != root.at {
            loop_bound!(LoopBound::BlockNodes);
            self.counter(at).store(Self::amount(value), Relaxed);
            at += 1;
            if leaf & value != 0 {
                (leaf, value) = (leaf + 1, 1);
            } else {
                value <<= 1;
            }
        }
    }

    /// Cuts a node below a block's root out of the block, whose other nodes become free. The caller owns the block.
    ///
    /// ```text
    /// [used 7            ] -> [used 3][free 3] 1        keeps the left child
    /// ```
    ///
    /// # Errors
    ///
    /// As [`give_back`](Self::give_back).
    pub(super) fn trim(self, root: Node, kept: Node) -> Result<(), Node> {
        let mut node = root;
        while node.height > kept.height {
            loop_bound!(LoopBound::Levels);
            node = node.towards(kept.way);
            self.counter(node.at).store(Self::amount(leaves(node.height) - leaves(kept.height)), Relaxed);
            if L::IN_BAND {
                let other = node.sibling();
                self.close_whole(other);
                if !Self::FLAGGED {
                    self.reset_inside(other);
                }
            }
        }
        let size = leaves(root.height) - leaves(kept.height);
        let is_closed = Self::FLAGGED && self.counter(root.at).load(Relaxed) & FLAG != 0;
        let first = Self::amount(size).wrapping_sub(if is_closed { FLAG } else { 0 });
        self.give_back(root, size, first)
    }

    /// Makes a block as large as the subtree of an ancestor, of which it is the leftmost part. Fails if others use it.
    ///
    /// ```text
    /// [used 3][free 3] 1 -> [used 7            ]
    /// ```
    ///
    /// An operation that reserves, in this ancestor, all but the block owns all of it: the counter was at most its
    /// leaves less those of the block and of all operations inside. So no other operation is inside, and the block's
    /// sibling and those of its ancestors below are entirely free.
    pub(super) fn grow(self, root: Node, to: Node) -> bool {
        if !self.reserve_way(to, leaves(to.height) - leaves(root.height)) {
            return false;
        }
        if !L::IN_BAND {
            // The counters inside a block keep their initial values.
            let mut node = root;
            while node.height < to.height {
                loop_bound!(LoopBound::Levels);
                self.counter(node.at).store(Self::amount(leaves(node.height)), Relaxed);
                node = node.parent();
            }
        }
        true
    }
}
