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
//! If sizes and addresses differ, there is exactly one such tree, so it cannot be balanced. One search from the root by
//! address finds both neighbours of any place. The root is the largest block.
//!
//! - *insert* descends by address past the nodes that are at least as large, replaces the first node that is smaller,
//!   and splits the subtree below into the blocks left and right of the new one.
//! - *remove* joins the two subtrees below a node, from the top, the larger root first.
//! - *shrink* moves the larger child up as long as it is larger than the rest of the node.

use super::{Side, link_at, size_or_zero};
use crate::contract::{Corruption, LoopBound, loop_bound};
use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::word::Width;

/// Which of the large enough blocks serves a request.
pub trait CartesianFit: Sealed + Copy + core::fmt::Debug + 'static {
    /// The name of the policy.
    const NAME: &'static str;

    /// The child of a node with which the search continues, given the sizes of the node and of its children; `None` if
    /// the node serves. Only a child that is large enough may be chosen.
    fn descend(need: usize, node: usize, left: usize, right: usize) -> Option<Side>;
}

/// Better fit (Stephenson 1983): descends to the smaller child that is large enough, until there is none. This
/// approximates best fit: the subtree of the larger child is not searched.
#[derive(Clone, Copy, Debug)]
pub struct BetterFit;

impl Sealed for BetterFit {}

impl CartesianFit for BetterFit {
    const NAME: &'static str = "better fit";

    #[inline(always)]
    fn descend(need: usize, node: usize, left: usize, right: usize) -> Option<Side> {
        if node == need {
            // No node below is smaller and large enough.
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

/// Leftmost fit (Stephenson 1983): the lowest block that is large enough, as in address-ordered first-fit.
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

/// A word that leads to a node, or to [`NULL`]: the root's, or one of a node's two.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link(pub(crate) Offset);

/// The free blocks next to a place, and the links that lead to them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    /// The last free block before the place; [`NULL`] if there is none.
    pub(crate) before: Offset,
    /// The first free block at or after the place; the heap's end if there is none.
    pub(crate) after: Offset,
    before_link: Link,
    after_link: Link,
    /// Whether `before` is further from the root.
    is_before_deeper: bool,
}

/// The tree of a heap. The link to its root is two words before the first block, which is at one granule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cartesian<W> {
    memory: Memory<W>,
}

impl<W: Width> Cartesian<W> {
    /// The link to the root.
    pub(crate) const ROOT: Link = Link(Offset::new(W::GRANULE - 2 * W::BYTES));

    /// The tree in a heap's memory.
    #[inline(always)]
    pub(crate) fn new(memory: Memory<W>) -> Self {
        Cartesian { memory }
    }

    /// The link to a child.
    #[inline(always)]
    fn link(node: Offset, side: Side) -> Link {
        Link(link_at::<W, 0>(node, side))
    }

    /// Reads a link.
    ///
    /// # Safety
    ///
    /// `link` is the root's link or a node's.
    #[inline(always)]
    pub(crate) unsafe fn load(self, link: Link) -> Offset {
        // SAFETY: `link` is the root's link or a node's, so it is an initialised word of the heap.
        unsafe { self.memory.load_link(link.0) }
    }

    /// Writes a link.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load), or `link` is that of a free block which becomes a node.
    #[inline(always)]
    pub(crate) unsafe fn store(self, link: Link, node: Offset) {
        // SAFETY: `link` is the root's link, or a word of a free block, which the heap owns.
        unsafe { self.memory.store_link(link.0, node) }
    }

    /// Both children of a node.
    ///
    /// # Safety
    ///
    /// `node` is a node of the tree.
    #[inline(always)]
    pub(crate) unsafe fn children(self, node: Offset) -> (Offset, Offset) {
        // SAFETY: `node` is a node, so it has two links.
        unsafe { (self.load(Self::link(node, Side::Left)), self.load(Self::link(node, Side::Right))) }
    }

    /// A block that serves `need` bytes by the policy `F`, as the link to it.
    ///
    /// # Safety
    ///
    /// The tree is intact.
    #[inline(always)]
    pub(crate) unsafe fn choose<F: CartesianFit>(self, need: usize) -> Option<Link> {
        // SAFETY: the tree is intact, so links lead to nodes.
        unsafe {
            let mut link = Self::ROOT;
            let mut node = self.load(link);
            let mut size = size_or_zero(self.memory, node);
            if size < need {
                return None;
            }
            loop {
                loop_bound!(LoopBound::FreeBlocks);
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

    /// The free blocks next to a place, in a heap that ends at `end`. `None` if a node on the path is out of order or
    /// unaligned, or `is_size` rejects its size. Such a node was overwritten, and its links are not followed.
    ///
    /// # Safety
    ///
    /// The tree is intact, except where a write past the end of a block overwrote a node from its front on.
    #[inline(always)]
    pub(crate) unsafe fn neighbours(
        self,
        place: Offset,
        end: Offset,
        is_size: impl Fn(usize) -> bool,
    ) -> Option<Neighbours> {
        let mut found = Neighbours {
            before: NULL,
            after: end,
            before_link: Self::ROOT,
            after_link: Self::ROOT,
            is_before_deeper: false,
        };
        let mut link = Self::ROOT;
        loop {
            loop_bound!(LoopBound::FreeBlocks);
            // SAFETY: the link is the root's or that of a verified node. A node is read only between the nodes passed
            // before, which is within the heap.
            unsafe {
                let node = self.load(link);
                if node == NULL {
                    return Some(found);
                }
                let is_between = node > found.before && node < found.after && node.is_aligned(W::GRANULE);
                if !is_between || !is_size(free_size(self.memory, node)) {
                    return None;
                }
                if node < place {
                    found = Neighbours { before: node, before_link: link, is_before_deeper: true, ..found };
                    link = Self::link(node, Side::Right);
                } else {
                    found = Neighbours { after: node, after_link: link, is_before_deeper: false, ..found };
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
    ///   [64]         ->     [96]           the subtree below the place is split at the new address
    ///   /  \                /  \
    /// [8]  [32]          [64]  [32]
    ///                    /
    ///                  [8]
    /// ```
    ///
    /// # Safety
    ///
    /// The tree is intact; the block is free, has that size in its header, and is not in the tree.
    #[inline]
    pub(crate) unsafe fn insert(self, block: Offset, size: usize) {
        // SAFETY: links lead to nodes, and the first words of the free block are available for its links.
        unsafe {
            let mut link = Self::ROOT;
            let mut node = self.load(link);
            while node != NULL && free_size(self.memory, node) >= size {
                loop_bound!(LoopBound::FreeBlocks);
                link = Self::link(node, Side::right_if(node < block));
                node = self.load(link);
            }
            self.store(link, block);
            let mut lower = Self::link(block, Side::Left);
            let mut higher = Self::link(block, Side::Right);
            while node != NULL {
                loop_bound!(LoopBound::FreeBlocks);
                if node < block {
                    self.store(lower, node);
                    lower = Self::link(node, Side::Right);
                    node = self.load(lower);
                } else {
                    self.store(higher, node);
                    higher = Self::link(node, Side::Left);
                    node = self.load(higher);
                }
            }
            self.store(lower, NULL);
            self.store(higher, NULL);
        }
    }

    /// Removes the node to which `link` leads, and joins the subtrees below it.
    ///
    /// # Safety
    ///
    /// The tree is intact, and `link` leads to a node.
    #[inline]
    pub(crate) unsafe fn remove(self, link: Link) {
        // SAFETY: the tree is intact, so links lead to nodes.
        unsafe {
            let (left, right) = self.children(self.load(link));
            self.join(link, left, right);
        }
    }

    /// Removes the selected neighbours of a place, the deeper one first, so that the link to the other remains valid.
    ///
    /// # Safety
    ///
    /// The tree is unchanged since the neighbours were found, and the selected ones exist.
    #[inline]
    pub(crate) unsafe fn remove_neighbours(self, found: Neighbours, is_before: bool, is_after: bool) {
        let Neighbours { before_link, after_link, is_before_deeper, .. } = found;
        // SAFETY: the tree is unchanged, so both links are valid; the deeper one goes first.
        unsafe {
            if is_before && (is_before_deeper || !is_after) {
                self.remove(before_link);
            }
            if is_after {
                self.remove(after_link);
            }
            if is_before && is_after && !is_before_deeper {
                self.remove(before_link);
            }
        }
    }

    /// Joins the trees at `left` and `right` into one tree at `link`. Blocks of the left one come first.
    ///
    /// # Safety
    ///
    /// `link` is the root's or a node's, and is in neither tree.
    #[inline]
    pub(crate) unsafe fn join(self, mut link: Link, mut left: Offset, mut right: Offset) {
        // SAFETY: both trees are intact, so links lead to nodes.
        unsafe {
            while left != NULL && right != NULL {
                loop_bound!(LoopBound::FreeBlocks);
                if free_size(self.memory, left) >= free_size(self.memory, right) {
                    self.store(link, left);
                    link = Self::link(left, Side::Right);
                    left = self.load(link);
                } else {
                    self.store(link, right);
                    link = Self::link(right, Side::Left);
                    right = self.load(link);
                }
            }
            self.store(link, if left == NULL { right } else { left });
        }
    }

    /// Inserts `node`, the rest of a block that was at `link` with these children, as far down as its size requires.
    ///
    /// # Safety
    ///
    /// `link` is the root's or a node's; `node` is free, of `size` bytes, between the two trees.
    #[inline]
    pub(crate) unsafe fn shrink(self, mut link: Link, node: Offset, size: usize, mut left: Offset, mut right: Offset) {
        // SAFETY: links lead to nodes, and the first words of the free node are available for its links.
        unsafe {
            let (mut left_size, mut right_size) = (size_or_zero(self.memory, left), size_or_zero(self.memory, right));
            while size < left_size || size < right_size {
                loop_bound!(LoopBound::FreeBlocks);
                if left_size >= right_size {
                    self.store(link, left);
                    link = Self::link(left, Side::Right);
                    left = self.load(link);
                    left_size = size_or_zero(self.memory, left);
                } else {
                    self.store(link, right);
                    link = Self::link(right, Side::Left);
                    right = self.load(link);
                    right_size = size_or_zero(self.memory, right);
                }
            }
            self.store(link, node);
            self.store(Self::link(node, Side::Left), left);
            self.store(Self::link(node, Side::Right), right);
        }
    }

    /// Verifies the path from the root to a free block; returns the number of its children.
    ///
    /// # Errors
    ///
    /// A node on the path is out of order, or the path does not lead to the block.
    ///
    /// # Safety
    ///
    /// The word before any multiple of the granule below `end`, and two words after it, may be read.
    pub(crate) unsafe fn check_path(self, block: Offset, end: Offset) -> Result<usize, Corruption> {
        let mut between = NULL..end;
        let mut largest = usize::MAX;
        // SAFETY: the root's link exists; a node is read only between the nodes passed before.
        unsafe {
            let mut node = self.load(Self::ROOT);
            loop {
                let broken = |invariant| Err(Corruption { invariant, address: self.memory.address(node) });
                if node <= between.start || node >= between.end || !node.is_aligned(W::GRANULE) {
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
