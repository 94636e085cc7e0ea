//! The Cartesian tree of free blocks (Vuillemin 1980): ordered by address from left to right, and by size from the root
//! down.
//!
//! ```text
//! memory  [live][64][live][96][live][32][live][400 ...........][live][128]
//!
//!                                              [400]
//!                                             /     \
//!                                         [96]      [128]      no node is larger than the one above it
//!                                        /    \
//!                                     [64]    [32]             left of a node: lower addresses
//! ```
//!
//! Where sizes and addresses differ there is one such tree and no other: nothing can be balanced. One search from the root by
//! address finds both neighbours of any place; the root is the largest block.
//!
//! - *insert* goes down by address past the nodes that are at least as large, takes the place of the
//!   first that is smaller, and splits what was below it into what lies left and right.
//! - *remove* joins the trees below a node, from the top the larger root first.
//! - *shrink* lets the larger child come up as long as it is larger than what is left of the node.

use super::{Side, link_at, size_or_zero};
use crate::contract::Corruption;
use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::Memory;
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;

/// Which of the blocks that are large enough serves a request.
pub trait CartesianFit: Sealed + Copy + core::fmt::Debug + 'static {
    /// The policy in words.
    const NAME: &'static str;

    /// The child below `node` at which the search goes on, given the sizes of node and children; `None` if the node
    /// serves. Only a child that is large enough may be chosen.
    fn descend(need: usize, node: usize, left: usize, right: usize) -> Option<Side>;
}

/// Better fit (Stephenson 1983): to the smaller child that is large enough, until there is none. An approximation of best
/// fit: what lies below the larger child is not looked at.
#[derive(Clone, Copy, Debug)]
pub struct BetterFit;

impl Sealed for BetterFit {}

impl CartesianFit for BetterFit {
    const NAME: &'static str = "better fit";

    #[inline(always)]
    fn descend(need: usize, node: usize, left: usize, right: usize) -> Option<Side> {
        if node == need {
            // Nothing below is smaller and large enough.
            return None;
        }
        let is_right_better = right >= need && (left < need || right < left);
        match (is_right_better, left >= need) {
            (true, _) => Some(Side::Right),
            (false, true) => Some(Side::Left),
            (false, false) => None,
        }
    }
}

/// Leftmost fit (Stephenson 1983): the block with the lowest address that is large enough, which is what address-ordered
/// first-fit finds.
#[derive(Clone, Copy, Debug)]
pub struct LeftmostFit;

impl Sealed for LeftmostFit {}

impl CartesianFit for LeftmostFit {
    const NAME: &'static str = "leftmost fit";

    #[inline(always)]
    fn descend(need: usize, _: usize, left: usize, _: usize) -> Option<Side> {
        (left >= need).then_some(Side::Left)
    }
}

/// The free blocks next to a place, and where the links to them are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    /// The last free block in front of the place; [`NULL`] if there is none.
    pub(crate) before: usize,
    /// The first free block at the place or behind it; the heap's end if there is none.
    pub(crate) behind: usize,
    before_link: usize,
    behind_link: usize,
    /// Whether `before` is further from the root.
    is_before_deeper: bool,
}

/// The tree of a heap. Its root's link is the word two words in front of the first block, which is at one granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cartesian<W> {
    memory: Memory<W>,
}

impl<W: Width> Cartesian<W> {
    /// Offset of the link to the root.
    pub(crate) const ROOT: usize = W::GRANULE - 2 * W::BYTES;

    /// The tree in a heap's memory.
    #[inline(always)]
    pub(crate) fn new(memory: Memory<W>) -> Self {
        Cartesian { memory }
    }

    /// Offset of the link to a child.
    #[inline(always)]
    fn link(node: usize, side: Side) -> usize {
        link_at::<W, 0>(node, side)
    }

    /// Reads a link.
    ///
    /// # Safety
    ///
    /// `link` is the root's link or a node's.
    #[inline(always)]
    pub(crate) unsafe fn load(self, link: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(link) }
    }

    /// Both children of a node.
    ///
    /// # Safety
    ///
    /// `node` is a node of the tree.
    #[inline(always)]
    pub(crate) unsafe fn children(self, node: usize) -> (usize, usize) {
        // SAFETY: a node has links.
        unsafe { (self.load(Self::link(node, Side::Left)), self.load(Self::link(node, Side::Right))) }
    }

    /// A block that serves `need` bytes by the policy `F`, as the link that leads to it.
    ///
    /// # Safety
    ///
    /// The tree is whole.
    #[inline(always)]
    pub(crate) unsafe fn choose<F: CartesianFit>(self, need: usize) -> Option<usize> {
        // SAFETY: links lead to nodes.
        unsafe {
            let mut link = Self::ROOT;
            let mut node = self.load(link);
            let mut size = size_or_zero(self.memory, node);
            if size < need {
                return None;
            }
            // turns: free blocks
            loop {
                let (left, right) = self.children(node);
                let (left_size, right_size) = (size_or_zero(self.memory, left), size_or_zero(self.memory, right));
                match F::descend(need, size, left_size, right_size) {
                    None => return Some(link),
                    Some(Side::Left) => (link, node, size) = (Self::link(node, Side::Left), left, left_size),
                    Some(Side::Right) => (link, node, size) = (Self::link(node, Side::Right), right, right_size),
                }
            }
        }
    }

    /// The free blocks next to a place, in a heap that ends at `end`. `None` if a node on the path to it is out of order or
    /// off the granule, or has a size that `is_size` does not allow, which somebody wrote over: its links are not followed.
    ///
    /// # Safety
    ///
    /// The tree is whole but for what somebody wrote over from the front of a node on.
    #[inline(always)]
    pub(crate) unsafe fn neighbours(
        self,
        place: usize,
        end: usize,
        is_size: impl Fn(usize) -> bool,
    ) -> Option<Neighbours> {
        let mut found = Neighbours {
            before: NULL,
            behind: end,
            before_link: Self::ROOT,
            behind_link: Self::ROOT,
            is_before_deeper: false,
        };
        let mut link = Self::ROOT;
        // turns: free blocks
        loop {
            // SAFETY: the link is the root's or that of a node that was looked at; a node is looked at only between those
            // that were passed, which is in the heap.
            unsafe {
                let node = self.load(link);
                if node == NULL {
                    return Some(found);
                }
                let is_between = node > found.before && node < found.behind && node & (W::GRANULE - 1) == 0;
                if !is_between || !is_size(free_size(self.memory, node)) {
                    return None;
                }
                if node < place {
                    found = Neighbours { before: node, before_link: link, is_before_deeper: true, ..found };
                    link = Self::link(node, Side::Right);
                } else {
                    found = Neighbours { behind: node, behind_link: link, is_before_deeper: false, ..found };
                    link = Self::link(node, Side::Left);
                }
            }
        }
    }

    /// Adds a free block of `size` bytes.
    ///
    /// ```text
    ///    [400]                [400]
    ///     /         + 96       /
    ///   [64]         ->     [96]           what was below the place is split at the new address
    ///   /  \                /  \
    /// [8]  [32]          [64]  [32]
    ///                    /
    ///                  [8]
    /// ```
    ///
    /// # Safety
    ///
    /// The tree is whole; the block is free, has that size in its header, and is not in it.
    #[inline]
    pub(crate) unsafe fn insert(self, block: usize, size: usize) {
        // SAFETY: links lead to nodes, and the block's first words are free for its links.
        unsafe {
            let mut link = Self::ROOT;
            let mut node = self.load(link);
            // turns: free blocks
            while node != NULL && free_size(self.memory, node) >= size {
                link = Self::link(node, Side::right_if(node < block));
                node = self.load(link);
            }
            self.memory.store(link, block);
            let mut lower = Self::link(block, Side::Left);
            let mut higher = Self::link(block, Side::Right);
            // turns: free blocks
            while node != NULL {
                if node < block {
                    self.memory.store(lower, node);
                    lower = Self::link(node, Side::Right);
                    node = self.load(lower);
                } else {
                    self.memory.store(higher, node);
                    higher = Self::link(node, Side::Left);
                    node = self.load(higher);
                }
            }
            self.memory.store(lower, NULL);
            self.memory.store(higher, NULL);
        }
    }

    /// Takes the node out to which `link` leads: joins the trees below it.
    ///
    /// # Safety
    ///
    /// The tree is whole, and `link` leads to a node.
    #[inline]
    pub(crate) unsafe fn remove(self, link: usize) {
        // SAFETY: links lead to nodes.
        unsafe {
            let (left, right) = self.children(self.load(link));
            self.join(link, left, right);
        }
    }

    /// Takes out those neighbours of a place that are asked for, the deeper one first, so that the link to the other stays
    /// where it is.
    ///
    /// # Safety
    ///
    /// The tree is as it was when the neighbours were found, and those asked for exist.
    #[inline]
    pub(crate) unsafe fn remove_neighbours(self, found: Neighbours, is_before: bool, is_behind: bool) {
        let Neighbours { before_link, behind_link, is_before_deeper, .. } = found;
        // SAFETY: the caller's promise.
        unsafe {
            if is_before && (is_before_deeper || !is_behind) {
                self.remove(before_link);
            }
            if is_behind {
                self.remove(behind_link);
            }
            if is_before && is_behind && !is_before_deeper {
                self.remove(before_link);
            }
        }
    }

    /// Makes the trees at `left` and `right`, all of whose blocks are in this order, one tree at `link`.
    ///
    /// # Safety
    ///
    /// `link` is the root's or a node's, and leads to neither.
    #[inline]
    pub(crate) unsafe fn join(self, mut link: usize, mut left: usize, mut right: usize) {
        // SAFETY: links lead to nodes.
        unsafe {
            // turns: free blocks
            while left != NULL && right != NULL {
                if free_size(self.memory, left) >= free_size(self.memory, right) {
                    self.memory.store(link, left);
                    link = Self::link(left, Side::Right);
                    left = self.load(link);
                } else {
                    self.memory.store(link, right);
                    link = Self::link(right, Side::Left);
                    right = self.load(link);
                }
            }
            self.memory.store(link, if left == NULL { right } else { left });
        }
    }

    /// Puts `node`, what is left of the block that stood at `link` with these children, where it belongs: as far down as
    /// its size demands.
    ///
    /// # Safety
    ///
    /// `link` is the root's or a node's; `node` is free, of `size` bytes, between the blocks left and right of it.
    #[inline]
    pub(crate) unsafe fn shrink(self, mut link: usize, node: usize, size: usize, mut left: usize, mut right: usize) {
        // SAFETY: links lead to nodes, and the node's first words are free for its links.
        unsafe {
            let (mut left_size, mut right_size) = (size_or_zero(self.memory, left), size_or_zero(self.memory, right));
            // turns: free blocks
            while size < left_size || size < right_size {
                if left_size >= right_size {
                    self.memory.store(link, left);
                    link = Self::link(left, Side::Right);
                    left = self.load(link);
                    left_size = size_or_zero(self.memory, left);
                } else {
                    self.memory.store(link, right);
                    link = Self::link(right, Side::Left);
                    right = self.load(link);
                    right_size = size_or_zero(self.memory, right);
                }
            }
            self.memory.store(link, node);
            self.memory.store(Self::link(node, Side::Left), left);
            self.memory.store(Self::link(node, Side::Right), right);
        }
    }

    /// Verifies the path from the root to a free block; returns how many children it has.
    ///
    /// # Errors
    ///
    /// A node on the path is out of order, or the path does not lead to the block.
    ///
    /// # Safety
    ///
    /// Every multiple of the granule below `end` can be looked at as a block.
    pub(crate) unsafe fn check_path(self, block: usize, end: usize) -> Result<usize, Corruption> {
        let mut between = NULL..end;
        let mut largest = usize::MAX;
        // SAFETY: the root's link exists; a node is looked at only between those that were passed.
        unsafe {
            let mut node = self.load(Self::ROOT);
            loop {
                let broken = |invariant| Err(Corruption { invariant, address: self.memory.address(node) });
                if node <= between.start || node >= between.end || node & (W::GRANULE - 1) != 0 {
                    return broken("the tree is ordered by address and holds each free block");
                }
                let size = free_size(self.memory, node);
                if size & (W::GRANULE - 1) != 0 {
                    return broken("a node is a free block");
                }
                if size > largest {
                    return broken("no block of the tree is larger than the one above it");
                }
                largest = size;
                if node == block {
                    let (left, right) = self.children(node);
                    return Ok(usize::from(left != NULL) + usize::from(right != NULL));
                }
                if node < block {
                    between.start = node;
                } else {
                    between.end = node;
                }
                node = self.load(Self::link(node, Side::right_if(node < block)));
            }
        }
    }
}
