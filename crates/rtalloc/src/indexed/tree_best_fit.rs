//! Tree best-fit: the smallest free block that is large enough, found in a tree.
//!
//! # Idea
//!
//! The free blocks are in a self-adjusting binary tree ordered by size ([`SizeTree`]): one node for every size that
//! occurs, with a doubly linked list of the blocks of that size (Puaut 2002, section 2.3.1; Sleator and Tarjan 1985).
//! Coalescing uses boundary tags, as in [`BestFit`](crate::BestFit), from which this allocator differs only in its
//! index. Of blocks of one size, the one freed last serves first.
//!
//! ```text
//! request 100:            [128]-[128]
//!                        /           \
//!                     [64]          [400]-[400]-[400]
//!                    /    \              \
//!                 [32]    [96]           [1024]
//! ```
//!
//! # Costs
//!
//! Every operation walks down one path of the tree per block that it finds, adds or removes. Allocate finds one and may
//! add a remainder. Deallocate removes up to two neighbours and adds the merged block. Each walk ends with a *splay*
//! that makes the node the root. Removing a block from a node's list does not access the tree. The mean is logarithmic
//! in the number of sizes (amortised, with a constant near 3); a single operation may visit all of them.
//!
//! How many can that be? k different sizes, all multiples of the granule g, take at least
//! g + 2g + ... + kg = g·k·(k + 1)/2 bytes, so that in a heap of H bytes
//!
//! ```text
//! depth <= k <= sqrt(2·H / g)        H = 64 KiB: 90    4 MiB: 724    64 MiB: 2896    (g = 16)
//! ```
//!
//! The contract's class is [`Cost::LinearInFreeBlocks`], which holds for any heap; it is reached only while all free
//! blocks differ in size. Compared with the length of a list, H/2M for blocks of M bytes, even the worst tree is short:
//! nearly the square root of it.
//!
//! The worst case arises from freeing blocks of ascending sizes, one granule apart, with live blocks between them. Each
//! becomes the root, above all smaller ones; the tree is then one path, and the next request for the smallest size
//! walks down all of it (descending sizes: the mirror image). The splay on that path halves it. A refused request
//! changes nothing, so repeated requests that are too large for every block walk the right side of the tree each time.
//!
//! Free blocks hold four links, so the smallest block is larger than with lists:
//!
//! | | table 1 | [`Offset32`] | [`Offset16`](crate::mechanism::word::Offset16) | [`Wide`](crate::mechanism::word::Wide), 64-bit |
//! |---|---|---|---|---|
//! | minimum | 10 B | 24 B, in whole granules of 16 B: 32 B | 12 B: 16 B | 48 B |
//! | splitting threshold | 10 B | remainders from 32 B on | from 16 B on | from 48 B on |
//!
//! The paper's 10 bytes cannot hold four links of four bytes. None of the widths here reaches that figure, so
//! `Thresholds<SizeTree, 10, 10>` equals the default.
//!
//! # When it wins, when it loses
//!
//! It is exact best-fit at a logarithmic mean, and the reference for the cost of best-fit with a long list. It loses to
//! TLSF in everything except the exactness of the fit: its operations write to blocks all over the heap, its worst case
//! grows with the heap, and if most requests are small, its smallest block costs memory.
//!
//! # Figures
//!
//! <!-- figures: tree-best-fit -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `tree-best-fit` | 266 + 132 per free block, 393 + 172 per free block, 364 + 200 per free block | 4 B | 32 B | 76 B, 76 B | 7.7 %, 22.1 % |
//!
//! Measured 2026-11-28 at 166ce5f by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::stats::NoStats;
use crate::mechanism::tree::splay::SizeTree;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// Best-fit over a splay tree of sizes.
pub type TreeBestFit<'r, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, SizeTree, W, T, G>;

impl<W: Width> Named<W> for SizeTree {
    const CONTRACT: Contract = Contract {
        name: "tree-best-fit",
        source: "Puaut 2002, section 2.3.1; Sleator and Tarjan 1985",
        policy: "best fit",
        mechanism: Mechanism::IndexedFit,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::RegionAllocator;
    use crate::mechanism::boundary_tag::Thresholds;
    use crate::mechanism::word::Offset16;
    use core::mem::MaybeUninit;
    use std::vec::Vec;

    #[test]
    fn the_smallest_blocks_are_the_documented_ones() {
        type PuautTree<'r> = TagHeap<'r, Thresholds<SizeTree, 10, 10>>;
        let smallest = |contract: Contract| (contract.min_block_bytes, contract.splitting_threshold_bytes);
        assert_eq!(smallest(TreeBestFit::<Offset16>::CONTRACT), (16, 8));
        assert_eq!(smallest(PuautTree::CONTRACT), smallest(TreeBestFit::<Offset32>::CONTRACT));
        #[cfg(target_pointer_width = "64")]
        {
            use crate::mechanism::word::Wide;
            assert_eq!(smallest(TreeBestFit::<Offset32>::CONTRACT), (32, 16));
            assert_eq!(smallest(TreeBestFit::<Wide>::CONTRACT), (48, 32));
        }
    }

    /// The module's worst case: no pattern of free blocks makes the tree deeper than the heap's size allows.
    #[test]
    fn the_deepest_tree_has_the_documented_depth() {
        const HEAP_BYTES: usize = 1 << 16;
        let mut memory = std::vec![MaybeUninit::uninit(); HEAP_BYTES];
        let mut heap: TreeBestFit<'_> = TreeBestFit::new(&mut memory, Default::default()).unwrap();
        let granule = Offset32::GRANULE;
        let mut blocks = Vec::new();
        let mut size = <SizeTree as crate::mechanism::boundary_tag::FreeIndex<Offset32>>::MIN_BLOCK;
        while let Ok(block) = heap.allocate_bytes(size - Offset32::BYTES, 1) {
            if heap.allocate_bytes(1, 1).is_err() {
                break;
            }
            blocks.push(block);
            size += granule;
        }
        for &block in &blocks {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
        // The fingerprint ends with a pair of depth and address for every free block.
        let mut free = 0;
        heap.walk(&mut |block| free += usize::from(block.free));
        let mut words = Vec::new();
        heap.fingerprint(&mut |word| words.push(word));
        let depth = words[words.len() - 2 * free..].chunks(2).map(|pair| pair[0]).max().unwrap() + 1;
        let bound = (2 * HEAP_BYTES / granule).isqrt();
        assert!(depth <= bound && depth >= blocks.len() && blocks.len() > bound * 3 / 4, "{depth} of at most {bound}");
        assert_eq!(heap.check(), Ok(()));
    }
}
