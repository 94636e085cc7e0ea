//! The self-adjusting tree of free blocks by size (Sleator and Tarjan 1985), one node per size, and its index.
//!
//! A free block is in the list of all free blocks of its size; the first block of a list is the tree's node. List links
//! are those of [`free_list`](crate::mechanism::free_list), with the node as the head. The tree's links follow them:
//!
//! ```text
//! node   [size][0   ][next][left][right] ... [size]
//!                 |
//! block  [size][prev][next]              ... [size]     all of one size: list links only
//! ```
//!
//! The null node, before the first block, has four words: its `next` is the tree's root, and its `left` and `right`
//! hold the two trees that a splay takes apart and joins again.
//!
//! # Splaying
//!
//! Every search ends with a splay, which makes the node found the root and roughly halves the depth of every node on
//! the path to it. It runs top down in one loop: smaller nodes are appended to the right end of one tree, larger nodes
//! to the left end of another. Two steps to the same side rotate first.
//!
//! ```text
//!       y          the size sought is below x:  y joins the larger nodes, x's larger child
//!     x   C                                     is rotated below it, and the search continues at w
//!   w   B
//! ```
//!
//! A sequence of m operations on k nodes costs O((m + k)·log k); a single one may visit every node.

use super::{Side, link_at, size_or_zero};
use crate::contract::{Corruption, LoopBound, loop_bound};
use crate::mechanism::boundary_tag::{FreeIndex, bytes_through, free_size};
use crate::mechanism::free_list::{NULL, check_list, link, next_at, unlink};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::word::Width;

/// The index made of a splay tree of the sizes of free blocks: best fit. Of equal blocks, the one freed last serves
/// first, but the node itself only if no other is left.
#[derive(Clone, Copy, Debug)]
pub struct SizeTree;

/// Words of a list node before the tree's links.
const LIST_WORDS: usize = 2;

/// A child of a node.
///
/// # Safety
///
/// `node` is a node of the tree, or the null node.
#[inline(always)]
unsafe fn child<W: Width>(memory: Memory<W>, node: Offset, side: Side) -> Offset {
    // SAFETY: `node` is a node of the tree or the null node, and both have links.
    unsafe { memory.load_link(link_at::<W, LIST_WORDS>(node, side)) }
}

/// Sets a child of a node.
///
/// # Safety
///
/// As [`child`].
#[inline(always)]
unsafe fn set_child<W: Width>(memory: Memory<W>, node: Offset, side: Side, child: Offset) {
    // SAFETY: `node` is a node of the tree or the null node, and both have links.
    unsafe { memory.store_link(link_at::<W, LIST_WORDS>(node, side), child) }
}

/// Makes the node of this size the root of the tree at `root`; otherwise one of its neighbours. Returns the new root.
///
/// # Safety
///
/// `root` is a node, and the tree below it is ordered.
unsafe fn splay<W: Width>(memory: Memory<W>, root: Offset, size: usize) -> Offset {
    // SAFETY: every node visited was reached by links of the tree; the null node has links, too.
    unsafe {
        set_child(memory, NULL, Side::Left, NULL);
        set_child(memory, NULL, Side::Right, NULL);
        // The nodes at which the next smaller, or larger, tree is appended.
        let mut smaller_end = NULL;
        let mut larger_end = NULL;
        let mut node = root;
        loop {
            loop_bound!(LoopBound::FreeBlocks);
            let here = free_size(memory, node);
            if size == here {
                break;
            }
            let side = Side::right_if(size > here);
            let mut below = child(memory, node, side);
            if below == NULL {
                break;
            }
            let there = free_size(memory, below);
            if size != there && Side::right_if(size > there) == side {
                set_child(memory, node, side, child(memory, below, side.other()));
                set_child(memory, below, side.other(), node);
                node = below;
                below = child(memory, node, side);
                if below == NULL {
                    break;
                }
            }
            // The node and its other subtree lie beyond the size.
            let end = if side == Side::Right { &mut smaller_end } else { &mut larger_end };
            set_child(memory, *end, side, node);
            *end = node;
            node = below;
        }
        set_child(memory, smaller_end, Side::Right, child(memory, node, Side::Left));
        set_child(memory, larger_end, Side::Left, child(memory, node, Side::Right));
        // The null node's right link leads to the smaller nodes, its left link to the larger ones.
        let (smaller, larger) = (child(memory, NULL, Side::Right), child(memory, NULL, Side::Left));
        set_child(memory, node, Side::Left, smaller);
        set_child(memory, node, Side::Right, larger);
        node
    }
}

impl SizeTree {
    /// The tree's root.
    ///
    /// # Safety
    ///
    /// The index is initialised.
    #[inline(always)]
    unsafe fn root<W: Width>(memory: Memory<W>) -> Offset {
        // SAFETY: the index is initialised, so the null node's `next` is the root.
        unsafe { memory.load_link(next_at::<W>(NULL)) }
    }

    /// Sets the root.
    ///
    /// # Safety
    ///
    /// As [`root`](Self::root).
    #[inline(always)]
    unsafe fn set_root<W: Width>(memory: Memory<W>, root: Offset) {
        // SAFETY: the index is initialised, so the null node has a `next`.
        unsafe { memory.store_link(next_at::<W>(NULL), root) }
    }

    /// Removes the root from the tree: the next block of its size replaces it, or the subtrees below it are joined.
    ///
    /// ```text
    ///      root                  a: the largest of the left subtree, splayed to its top
    ///     /    \        ->      / \
    ///   ..a     B              ..  B
    /// ```
    ///
    /// # Safety
    ///
    /// `root` is the tree's root.
    unsafe fn remove_root<W: Width>(memory: Memory<W>, root: Offset) {
        // SAFETY: the root is a node; its links lead to nodes, or to blocks of its size.
        unsafe {
            let (left, right) = (child(memory, root, Side::Left), child(memory, root, Side::Right));
            let heir = memory.load_link(next_at::<W>(root));
            let new_root = if heir != NULL {
                memory.store_link(heir, NULL);
                set_child(memory, heir, Side::Left, left);
                set_child(memory, heir, Side::Right, right);
                heir
            } else if left == NULL {
                right
            } else {
                // All nodes are smaller than the size sought, so the largest becomes the root, without a right child.
                let largest = splay(memory, left, free_size(memory, root));
                set_child(memory, largest, Side::Right, right);
                largest
            };
            Self::set_root(memory, new_root);
        }
    }

    /// The node of the smallest size above `size`, with its depth, or `None`. Follows only links to places.
    ///
    /// # Errors
    ///
    /// The path to it is out of order, or longer than `limit`.
    ///
    /// # Safety
    ///
    /// The index is initialised, and wherever `is_place` accepts an offset, a header and links may be read.
    unsafe fn node_above<W: Width>(
        memory: Memory<W>,
        size: usize,
        limit: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<Option<(Offset, usize)>, Corruption> {
        // SAFETY: the index is initialised, which the caller guarantees.
        let mut node = unsafe { Self::root(memory) };
        let mut found = None;
        let mut between = 0..usize::MAX;
        let mut depth = 0;
        while node != NULL {
            let broken = |invariant| Err(Corruption { invariant, address: memory.address(node) });
            if !is_place(node) {
                return broken("the tree's links lead to blocks");
            }
            if depth >= limit {
                return broken("the tree holds each free block once");
            }
            // SAFETY: `is_place` accepted the node, so the word before it and its links may be read.
            unsafe {
                let here = free_size(memory, node);
                if here <= between.start || here >= between.end || here & (W::GRANULE - 1) != 0 {
                    return broken("the tree is ordered by size, each size once");
                }
                if here > size {
                    found = Some((node, depth));
                    between.end = here;
                    node = child(memory, node, Side::Left);
                } else {
                    between.start = here;
                    node = child(memory, node, Side::Right);
                }
            }
            depth += 1;
        }
        Ok(found)
    }
}

// SAFETY: the tree has one node for every size of the blocks that were inserted and not removed, and the node's list
// has all blocks of that size. `take` returns a block of the smallest size that has the byte `last`.
unsafe impl<W: Width> FreeIndex<W> for SizeTree {
    /// Header, four links, footer.
    const MIN_BLOCK: usize = (6 * W::BYTES).next_multiple_of(W::GRANULE);

    type Place = ();
    const NOWHERE: () = ();
    type Summary = ();

    fn bytes(_: usize) -> usize {
        (LIST_WORDS + 2) * W::BYTES
    }

    unsafe fn init(memory: Memory<W>, _: usize) {
        for word in 0..LIST_WORDS + 2 {
            // SAFETY: the control structure has `bytes` bytes, which the index initialises.
            unsafe { memory.store_link(NULL.up(word * W::BYTES), NULL) }
        }
    }

    #[inline(always)]
    unsafe fn load(_: Memory<W>) {}

    #[inline(always)]
    unsafe fn store(_: Memory<W>, (): ()) {}

    fn granted(last: usize) -> usize {
        bytes_through::<W>(last)
    }

    /// A refused request changes nothing, not even the shape of the tree: the search comes first, and the splay only if
    /// it succeeds.
    #[inline]
    unsafe fn take(memory: Memory<W>, (): &mut (), last: usize) -> Option<(Offset, usize, ())> {
        let need = bytes_through::<W>(last);
        // SAFETY: the index is initialised, and links lead to nodes.
        unsafe {
            let root = Self::root(memory);
            let mut best = NULL;
            let mut best_size = 0;
            let mut node = root;
            while node != NULL {
                loop_bound!(LoopBound::FreeBlocks);
                let size = free_size(memory, node);
                let side = if size >= need {
                    best = node;
                    best_size = size;
                    if size == need {
                        break;
                    }
                    Side::Left
                } else {
                    Side::Right
                };
                node = child(memory, node, side);
            }
            if best == NULL {
                return None;
            }
            splay(memory, root, best_size);
            let second = memory.load_link(next_at::<W>(best));
            if second == NULL {
                Self::remove_root(memory, best);
                return Some((best, need, ()));
            }
            Self::set_root(memory, best);
            unlink(memory, second);
            Some((second, need, ()))
        }
    }

    #[inline]
    unsafe fn insert(memory: Memory<W>, (): &mut (), block: Offset, size: usize, (): ()) {
        // SAFETY: the caller guarantees that the block is free, and in neither the tree nor a list.
        unsafe {
            let mut root = Self::root(memory);
            let (mut left, mut right) = (NULL, NULL);
            if root != NULL {
                root = splay(memory, root, size);
                let nearest = free_size(memory, root);
                if nearest == size {
                    Self::set_root(memory, root);
                    link(memory, root, block);
                    return;
                }
                // The nearest node goes to one side, with the subtree beyond it.
                if size < nearest {
                    left = child(memory, root, Side::Left);
                    set_child(memory, root, Side::Left, NULL);
                    right = root;
                } else {
                    right = child(memory, root, Side::Right);
                    set_child(memory, root, Side::Right, NULL);
                    left = root;
                }
            }
            memory.store_link(block, NULL);
            memory.store_link(next_at::<W>(block), NULL);
            set_child(memory, block, Side::Left, left);
            set_child(memory, block, Side::Right, right);
            Self::set_root(memory, block);
        }
    }

    #[inline]
    unsafe fn remove(memory: Memory<W>, (): &mut (), block: Offset) {
        // SAFETY: the caller guarantees that the block is in the index: in the list of a node, or a node.
        unsafe {
            if memory.load_link(block) != NULL {
                unlink(memory, block);
                return;
            }
            splay(memory, Self::root(memory), free_size(memory, block));
            Self::remove_root(memory, block);
        }
    }

    #[inline(always)]
    fn first_of((): (), (): ()) {}

    unsafe fn largest(memory: Memory<W>) -> usize {
        // SAFETY: the index is initialised, and links lead to nodes.
        unsafe {
            let mut largest = NULL;
            let mut node = Self::root(memory);
            while node != NULL {
                largest = node;
                node = child(memory, node, Side::Right);
            }
            size_or_zero(memory, largest)
        }
    }

    /// Nodes by ascending size, each with its depth, which determines the tree's shape, and each followed by its list.
    unsafe fn lists(memory: Memory<W>, visit: &mut dyn FnMut(usize, Offset)) {
        let mut size = 0;
        // SAFETY: the index is initialised, and links lead to nodes and blocks.
        unsafe {
            while let Ok(Some((node, depth))) = Self::node_above(memory, size, usize::MAX, &|_| true) {
                size = free_size(memory, node);
                let mut block = node;
                while block != NULL {
                    visit(depth, block);
                    block = memory.load_link(next_at::<W>(block));
                }
            }
        }
    }

    /// Follows the path to every node, which takes quadratic time in the worst case.
    unsafe fn check(
        memory: Memory<W>,
        free_blocks: usize,
        _: usize,
        is_place: &dyn Fn(Offset) -> bool,
    ) -> Result<usize, Corruption> {
        let mut total = 0;
        let mut size = 0;
        // SAFETY: the caller guarantees that the index is initialised. Nodes are read only at places.
        unsafe {
            while let Some((node, _)) = Self::node_above(memory, size, free_blocks, is_place)? {
                size = free_size(memory, node);
                let broken = |invariant, block| Corruption { invariant, address: memory.address(block) };
                if memory.load_link(node) != NULL {
                    return Err(broken("a node is the first block of its list", node));
                }
                let (more, _) = check_list(memory, next_at::<W>(node), node, free_blocks, is_place, &mut |block| {
                    if free_size(memory, block) == size {
                        Ok(())
                    } else {
                        Err(broken("a list holds blocks of one size", block))
                    }
                })?;
                total += 1 + more;
                if total > free_blocks {
                    return Err(broken("the tree holds each free block once", node));
                }
            }
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::mechanism::word::Offset32;
    use core::ptr::NonNull;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// Memory of the index, with blocks that consist only of a header and links, 64 bytes apart.
    struct Bench {
        memory: Memory<Offset32>,
        _bytes: Vec<u128>,
    }

    impl Bench {
        fn new(blocks: usize) -> Self {
            let mut bytes = std::vec![0u128; 4 * (blocks + 1)];
            let start = bytes.as_mut_ptr().expose_provenance() + 16;
            let memory = Memory::new(NonNull::new(core::ptr::with_exposed_provenance_mut(start)).unwrap());
            // SAFETY: the bench owns the memory.
            unsafe { <SizeTree as FreeIndex<Offset32>>::init(memory, 0) };
            Bench { memory, _bytes: bytes }
        }

        fn insert(&self, number: usize, size: usize) {
            let block = Offset::new(64 * (number + 1) - 16);
            // SAFETY: the bench owns the block, which is in no tree.
            unsafe {
                self.memory.store(block.down(4), size);
                SizeTree::insert(self.memory, &mut (), block, size, ());
            }
        }

        /// Depth of every node, by ascending size.
        fn depths(&self) -> Vec<usize> {
            let mut depths = Vec::new();
            // SAFETY: the index is initialised.
            unsafe { SizeTree::lists(self.memory, &mut |depth, _| depths.push(depth)) };
            depths
        }

        fn count(&self, most: usize) -> usize {
            // SAFETY: the index is initialised, and every multiple of 16 in the memory has room for a block.
            unsafe { SizeTree::check(self.memory, most, 0, &|block| block != NULL && block.is_aligned(16)) }.unwrap()
        }
    }

    #[test]
    fn a_splay_brings_the_node_up_and_halves_the_path() {
        let bench = Bench::new(100);
        for number in 0..100 {
            bench.insert(number, 16 * (number + 2));
        }
        // With ascending sizes each node becomes the root, and the tree is a path to the left.
        assert!(bench.depths().into_iter().eq((0..100).rev()));
        // SAFETY: the index is initialised.
        let found = unsafe { SizeTree::take(bench.memory, &mut (), 15) }.unwrap().0;
        assert_eq!(found, Offset::new(48), "the smallest block");
        let deepest = bench.depths().into_iter().max().unwrap();
        assert!((48..=52).contains(&deepest), "{deepest}");
        assert_eq!(bench.count(99), 99);
    }

    #[test]
    fn every_answer_is_the_best_fit_of_a_sorted_map() {
        let blocks = 64;
        let bench = Bench::new(blocks);
        let mut model: BTreeMap<usize, Vec<Offset>> = BTreeMap::new();
        let mut sizes = std::vec![0; blocks];
        let mut random = 1usize;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(0x5851_F42D).wrapping_add(0x1405_7B7E) & 0x7FFF_FFFF;
            (random >> 8) % bound
        };
        for _ in 0..20_000 {
            let number = below(blocks);
            let block = Offset::new(64 * (number + 1) - 16);
            let size = 16 * (1 + below(24));
            if sizes[number] == 0 {
                bench.insert(number, size);
                model.entry(size).or_default().push(block);
                sizes[number] = size;
            } else if below(2) == 0 {
                // SAFETY: the block is in the index.
                unsafe { SizeTree::remove(bench.memory, &mut (), block) };
                model.get_mut(&sizes[number]).unwrap().retain(|&other| other != block);
                sizes[number] = 0;
            } else {
                let best = model.iter().find(|(best, blocks)| **best >= size && !blocks.is_empty());
                // SAFETY: the index is initialised.
                let taken = unsafe { SizeTree::take(bench.memory, &mut (), size - 1) };
                assert_eq!(taken.is_some(), best.is_some());
                let Some((taken, _, ())) = taken else { continue };
                let best = *best.unwrap().0;
                let blocks = model.get_mut(&best).unwrap();
                assert!(blocks.contains(&taken), "not of the smallest size that fits");
                blocks.retain(|&other| other != taken);
                sizes[taken.bytes() / 64] = 0;
            }
            let total = model.values().map(Vec::len).sum();
            assert_eq!(bench.count(blocks), total);
            let largest = model.iter().rev().find(|(_, blocks)| !blocks.is_empty()).map_or(0, |(size, _)| *size);
            // SAFETY: the index is initialised.
            assert_eq!(unsafe { SizeTree::largest(bench.memory) }, largest);
        }
    }
}
