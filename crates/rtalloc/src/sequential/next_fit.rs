//! Next-fit: first-fit that continues where the last search succeeded.
//!
//! # Idea
//!
//! As first-fit ([`FirstFit`](super::FirstFit)), but the list is a ring, and a roving pointer marks where the next
//! search begins (Knuth 1968, section 2.5; Puaut 2002 uses it for the pages of quick-fit, section 2.4). First-fit
//! gathers small remainders at the head of its list and passes them in every search; next-fit spreads them.
//!
//! ```text
//! request 100:   head -> [32] -> [64] -> [400] -> [128] -> head
//!                                 ^ rover ^ split: [100][300]     the next search begins at [300]
//! ```
//!
//! The rover is stored in the control structure as the node before the block that was found ([`Next`]). When that node
//! coalesces, its predecessor becomes the rover.
//!
//! # Order
//!
//! [`NextFit`] keeps the ring in address order, as Wilson et al. (1995, section 3.5) describe the classic version. The
//! rover then sweeps through memory, and blocks allocated together lie together. [`LifoNextFit`] puts freed blocks at
//! the head: deallocate is constant, and a freed block is found only when the rover has come around.
//!
//! # Costs
//!
//! Allocate visits at most every free block once: linear in their number. The mean is far below that of first-fit. The
//! worst case is the same: the only block that fits is the one before the rover. An address-ordered deallocate is
//! constant if a neighbour is free, because it takes the neighbour's place in the list, and linear otherwise; a LIFO
//! one is constant. The rover costs one word of control structure and a comparison for every coalesced neighbour.
//!
//! # When it wins, when it loses
//!
//! It has the shortest mean search of the sequential fits. It loses on memory: the rover splits every large block in
//! turn, so that none lasts, and fragmentation is the worst of the address-ordered fits (Wilson et al. 1995).
//!
//! # Figures
//!
//! <!-- figures: next-fit next-fit-lifo -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `next-fit` | 38 + 7 per free block, 73 + 12 per free block, 38 + 5 per free block | 4 B | 16 B | 60 B, 60 B | 779.0 %, 1335.8 % |
//! | `next-fit-lifo` | 38 + 7 per free block, 70 + 7 per free block, 49 | 4 B | 16 B | 60 B, 60 B | 454.9 %, 106.4 % |
//!
//! Measured 2026-11-27 at db7faa7 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use crate::contract::{Contract, Cost, Mechanism};
use crate::mechanism::boundary_tag::{Named, TagHeap, tag_contract};
use crate::mechanism::free_list::{AddressOrder, Lifo, Next, OneList};
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Basic;
use crate::mechanism::word::{Offset32, Width};

/// Next-fit over an address-ordered list.
pub type NextFit<'r, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, OneList<Next, AddressOrder>, W, T, G>;

/// Next-fit over a LIFO list.
pub type LifoNextFit<'r, W = Offset32, T = NoStats, G = Basic> = TagHeap<'r, OneList<Next, Lifo>, W, T, G>;

impl<W: Width> Named<W> for OneList<Next, AddressOrder> {
    const CONTRACT: Contract = Contract {
        name: "next-fit",
        source: "Knuth 1968, section 2.5; Wilson et al. 1995, section 3.5; Puaut 2002, section 2.4",
        policy: "next fit, address order",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        deallocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

impl<W: Width> Named<W> for OneList<Next, Lifo> {
    const CONTRACT: Contract = Contract {
        name: "next-fit-lifo",
        source: "Knuth 1968, section 2.5; Wilson et al. 1995, section 3.5",
        policy: "next fit, LIFO",
        mechanism: Mechanism::SequentialFit,
        allocate: Cost::LinearInFreeBlocks,
        reallocate: Cost::LinearInFreeBlocks,
        ..tag_contract::<W>()
    };
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::contract::RegionAllocator;
    use core::mem::MaybeUninit;
    use core::ptr::NonNull;
    use std::vec::Vec;

    /// A ring of holes of these sizes at ascending addresses, followed by the rest of the heap.
    fn holes<A: RegionAllocator<'static>>(sizes: &[usize]) -> (A, Vec<NonNull<u8>>) {
        let memory = std::vec![MaybeUninit::uninit(); 8192].leak();
        let mut heap = A::new(memory, A::Config::default()).unwrap();
        let mut holes = Vec::new();
        for &size in sizes {
            holes.push(heap.allocate_bytes(size, 1).unwrap());
            heap.allocate_bytes(1, 1).unwrap();
        }
        for &hole in holes.iter().rev() {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(hole) };
        }
        (heap, holes)
    }

    #[test]
    fn searches_begin_where_the_last_one_succeeded() {
        let (mut heap, holes) = holes::<NextFit<'static>>(&[60, 60, 124, 60, 60]);
        // The rest is at the end of the ring, so the next search wraps around.
        assert!(heap.allocate_bytes(heap.largest_allocatable(), 1).unwrap() > holes[4]);
        assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[0]));
        // Holes 1 and 2 are next. Hole 1 is too small, hole 2 is split, and the next search begins at the rest of it.
        assert_eq!(heap.allocate_bytes(61, 1), Ok(holes[2]));
        let left = heap.allocate_bytes(30, 1).unwrap();
        assert!(holes[2] < left && left < holes[3]);
        assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[3]));
        // A block freed before the rover is not reached in this round.
        // SAFETY: the block is live.
        unsafe { heap.deallocate(holes[0]) };
        assert_eq!(heap.allocate_bytes(30, 1), Ok(holes[4]));
        assert_eq!(heap.check(), Ok(()));
    }

    #[test]
    fn the_rover_survives_coalescing_of_its_block() {
        let (mut heap, holes) = holes::<NextFit<'static>>(&[60, 60, 60, 60]);
        heap.allocate_bytes(heap.largest_allocatable(), 1).unwrap();
        assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[0]));
        let fence = {
            let mut next = 0;
            heap.walk(&mut |block| {
                if block.address < holes[2].addr().get() {
                    next = block.address
                }
            });
            NonNull::new(core::ptr::with_exposed_provenance_mut(next)).unwrap()
        };
        // The rover is at the head. Move it to hole 1, which then coalesces with the fence after it and with hole 2.
        // SAFETY: the blocks are live.
        unsafe {
            heap.deallocate(holes[0]);
            assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[0]));
            assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[1]));
            heap.deallocate(holes[1]);
            heap.deallocate(fence);
        }
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.allocate_bytes(60, 1), Ok(holes[1]), "the merged block is searched where its first part stood");
    }

    #[test]
    fn a_lifo_ring_finds_what_was_freed_last_when_it_comes_around() {
        let (mut heap, holes) = holes::<LifoNextFit<'static>>(&[60, 60, 60]);
        // The holes were freed last to first, so the head leads to hole 0, and the rest is at the end of the ring.
        assert!(heap.allocate_bytes(heap.largest_allocatable(), 1).unwrap() > holes[2]);
        for hole in holes {
            assert_eq!(heap.allocate_bytes(60, 1), Ok(hole));
        }
        assert_eq!(heap.check(), Ok(()));
    }
}
