//! Binary trees whose nodes are the free blocks themselves.
//!
//! | module | order | what it is for |
//! |---|---|---|
//! | [`splay`] | by size, one node per size | the index of tree best-fit: what was used last is near the root |
//! | [`cartesian`] | by address, and each node at least as large as those below it | fast-fit: found by size, coalesced by address |
//!
//! A node's two links are words of its block, left before right; [`NULL`] is no node. Every operation is a loop down one
//! path: none recurses, none needs a stack or a link to the parent.

pub mod cartesian;
pub mod splay;

use crate::mechanism::boundary_tag::free_size;
use crate::mechanism::free_list::NULL;
use crate::mechanism::memory::Memory;
use crate::mechanism::word::Width;

/// One of the two sides of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// What comes before the node in the tree's order.
    Left,
    /// What comes behind it.
    Right,
}

impl Side {
    /// The right side, or the left.
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
pub(crate) fn link_at<W: Width, const FIRST: usize>(node: usize, side: Side) -> usize {
    node.wrapping_add((FIRST + side as usize) * W::BYTES)
}

/// The size of a node's block; 0 if there is none.
///
/// # Safety
///
/// `node` is a free block, or [`NULL`].
#[inline(always)]
pub(crate) unsafe fn size_or_zero<W: Width>(memory: Memory<W>, node: usize) -> usize {
    // SAFETY: the caller's promise.
    if node == NULL { 0 } else { unsafe { free_size(memory, node) } }
}
