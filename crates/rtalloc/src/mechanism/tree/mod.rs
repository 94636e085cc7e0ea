//! Binary trees whose nodes are the free blocks themselves.
//!
//! | module | order | use |
//! |---|---|---|
//! | [`splay`] | by size, one node per size | the index of tree best-fit: recently used sizes are near the root |
//! | [`cartesian`] | by address, and each node at least as large as those below it | fast-fit: search by size, coalescing by address |
//!
//! A node's two links are words of its block, left before right; [`NULL`] means no node. Every operation is a loop down
//! one path: there is no recursion, no stack and no link to the parent.

pub mod cartesian;
pub mod splay;

use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::word::Width;

/// One of the two sides of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The nodes before the node in the tree's order.
    Left,
    /// The nodes after it.
    Right,
}

impl Side {
    /// The right side if `is_right`, otherwise the left.
    #[inline(always)]
    pub(crate) fn right_if(is_right: bool) -> Self {
        if is_right { Side::Right } else { Side::Left }
    }

    /// The other side.
    #[inline(always)]
    pub(crate) fn other(self) -> Self {
        Side::right_if(self == Side::Left)
    }
}

/// Offset of the link to a child, in nodes whose links begin at their word number `FIRST`.
#[inline(always)]
pub(crate) fn link_at<W: Width, const FIRST: usize>(node: Offset, side: Side) -> Offset {
    node.up((FIRST + side as usize) * W::BYTES)
}

/// The size of a node's block; 0 for [`NULL`].
///
/// # Safety
///
/// `node` is a free block, or [`NULL`].
#[inline(always)]
pub(crate) unsafe fn size_or_zero<W: Width>(memory: Memory<W>, node: Offset) -> usize {
    // SAFETY: `node` is not `NULL`, so it is a free block.
    if node == NULL { 0 } else { unsafe { free_size(memory, node) } }
}
