//! Dynamic memory for real-time systems: bounded time, bounded memory.
//!
//! A heap lives entirely in memory that its user gives: no operating system, no `alloc`, no dependency, no panic, no
//! lock. Several heaps can coexist; the value of each is one pointer.
//!
//! ```
//! use core::alloc::Layout;
//! use core::mem::MaybeUninit;
//! use rtalloc::{RegionAllocator, Tlsf};
//!
//! let mut memory = [MaybeUninit::<u8>::uninit(); 64 * 1024];
//! let mut heap: Tlsf = Tlsf::new(&mut memory, Default::default())?;
//!
//! let block = heap.allocate(Layout::new::<[u64; 32]>())?;
//! assert!(heap.largest_allocatable() < 64 * 1024);
//! // SAFETY: the block came from this heap, once, and is no longer used.
//! unsafe { heap.deallocate(block) };
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # By type
//!
//! The type of a heap chooses its costs and checks; the defaults are 32-bit tags, no statistics, and basic validation:
//!
//! ```
//! use rtalloc::Tlsf;
//! use rtalloc::mechanism::validation::Full;
//! use rtalloc::mechanism::segregated::RoundUp;
//! use rtalloc::mechanism::stats::WithStats;
//! use rtalloc::mechanism::word::{Offset16, Offset32};
//!
//! /// For a heap of 4 KiB: 186 bytes of control structure, 2 bytes before every block.
//! type Small<'r> = Tlsf<'r, 3, RoundUp, Offset16>;
//! /// Statistics, and every tag tested when a block is freed.
//! type Watched<'r> = Tlsf<'r, 5, RoundUp, Offset32, WithStats, Full>;
//! ```
//!
//! # The map
//!
//! | folder | what is in it |
//! |---|---|
//! | [`contract`] | what every allocator promises: the traits and their vocabulary |
//! | [`hook`] | the one place where misuse is reported |
//! | [`sequential`] | one list, searched: [`FirstFit`], [`AddressOrderedFirstFit`], [`NextFit`], [`LifoNextFit`], [`BestFit`] |
//! | [`segregated`] | lists by size class: [`Tlsf`], [`HalfFit`], [`QuickFit`], [`SimpleSegregated`], [`Kingsley`] |
//! | [`indexed`] | a tree of free blocks: [`TreeBestFit`], [`FastFit`], [`LeftmostFastFit`] |
//! | [`buddy`] | blocks that divide in two, and merge with the other half only: [`BinaryBuddy`], [`FibonacciBuddy`], [`WeightedBuddy`], [`DoubleBuddy`] |
//! | [`regional`] | pages cut into blocks one after the other: [`SingleRegion`], [`ClassRegions`], [`Reaps`] |
//! | [`bitmapped`] | a bit for every chunk: [`Bitframe`] |
//! | [`compact_fit`] | objects that are named by handles, so that memory can be compacted: [`CompactFit`], [`CompactFitNonMoving`], and [how much memory they ever need](compact_fit::guarantee) |
//! | [`concurrent`] | heaps for several users at a time, without a lock: [`TreeBuddy`], [`BitmapBuddy`], [`Arenas`], [`SharedCompactFit`]; where there is a compare-and-swap |
//! | [`adapt`] | converts one kind of allocator into another: a lock around a heap, a heap as the global allocator; and wraps a heap: a [guard](adapt::guarded) that finds misuse, [failures](adapt::failing) on purpose, [quotas](adapt::quota), a [flight recorder](adapt::traced) |
//! | [`handles`] | built on heaps whose objects move: bytes, boxes, objects larger than a page |
//! | [`mechanism`] | the parts that allocators share |
//!
//! The folders are the field's taxonomy (Wilson, Johnstone, Neely and Boles 1995). Layers: contract and region, then
//! mechanism, then allocators; a lower layer never names a higher one.
//!
//! # Which one
//!
//! | | allocate, deallocate | memory | header |
//! |---|---|---|---|
//! | [`Tlsf`] | O(1) | little, as best-fit | 2, 4 or 8 B |
//! | [`HalfFit`] | O(1), fewer instructions | more: free blocks of the request's own range are not used; at worst about n times live memory | 2, 4 or 8 B |
//! | [`SimpleSegregated`] | O(1), fewest instructions | memory of one size never serves another: the sum of the peaks of all sizes; requests of at most 1 KiB | 2, 4 or 8 B |
//! | [`Kingsley`] | O(1), few instructions | the same, and up to half of every block | 2, 4 or 8 B |
//! | [`Bitframe`] | O(1) | little for small blocks, which coalesce within 8 chunks; requests of at most 1 KiB | none; half a byte per 16 B |
//! | [`BestFit`] | O(free blocks), O(1) | little | 2, 4 or 8 B |
//! | [`FirstFit`] | O(free blocks), O(1) | more | 2, 4 or 8 B |
//! | [`AddressOrderedFirstFit`] | O(free blocks) both | little, and far less than the other fits in the worst case | 2, 4 or 8 B |
//! | [`NextFit`] | O(free blocks) both, the shortest mean list search | most of the lists in address order | 2, 4 or 8 B |
//! | [`LifoNextFit`] | O(free blocks), O(1) | more | 2, 4 or 8 B |
//! | [`TreeBestFit`] | O(free blocks) both, logarithmic on average | as best-fit; blocks of two granules and more | 2, 4 or 8 B |
//! | [`FastFit`] | O(free blocks) both, logarithmic on average | little, nearly best fit | 2, 4 or 8 B |
//! | [`LeftmostFastFit`] | O(free blocks) both, logarithmic on average | as first-fit in address order | 2, 4 or 8 B |
//! | [`BinaryBuddy`] | O(log region) | up to twice the request | none; 1/16 of the region |
//! | [`FibonacciBuddy`] | O(log region), more iterations | up to 1.67 times the request | 2, 4 or 8 B |
//! | [`WeightedBuddy`] | O(log region), most iterations | up to 1.5 times, more between blocks | 2, 4 or 8 B |
//! | [`DoubleBuddy`] | O(log region) | up to 1.5 times; two parts | none; 1/16 of the region |
//! | [`TreeBuddy`] | O(region), O(s + log region), wait-free for many users | up to twice the request, and half of the heap if all blocks are the smallest | none; 5 B per 64 B |
//! | [`BitmapBuddy`] | O(region), O(log region), wait-free for many users | up to twice the request, of which less than a leaf is lost: the tail is free | none; 9.2 bits per 64 B |
//! | [`QuickFit`] | O(region), O(1) | up to twice the request | none; a header per page |
//! | [`Reaps`] | O(1) | little if most blocks are small; no large blocks | none |
//! | [`ClassRegions`] | O(1) | most: a live block keeps its page | none |
//! | [`SingleRegion`] | O(1), fewest instructions | most: a live block keeps its page | none |
//! | [`CompactFit`] | O(1), O(s) when a free moves an object of s bytes | predictable: it depends on live objects, not on history; requests below 16 KiB | 4 B, and 16 B of entry |
//! | [`CompactFitNonMoving`] | O(s), O(1) but O(s) when a free compacts | the same; a free page-block costs only its entry in a block table | 14 B per 32 B: entry and block table |
//! | [`SharedCompactFit`] | O(1) and IOTA bytes moved, wait-free for many users; pinned objects do not move | as [`CompactFit`], for each slot, and a page for each pinned object | 4 B, and 32 B of entry |
//! | [`Arenas`] | O(1) as [`Tlsf`], for several threads, whatever the other threads do | as [`Tlsf`], for each slot; remote frees are reused a little later | as [`Tlsf`] |

#![no_std]

#[cfg(feature = "std")]
extern crate std;

pub mod adapt;
mod allocators;
pub mod bitmapped;
pub mod buddy;
pub mod compact_fit;
#[cfg(target_has_atomic = "ptr")]
pub mod concurrent;
pub mod contract;
pub mod handles;
pub mod hook;
pub mod indexed;
pub mod mechanism;
mod region;
pub mod regional;
pub mod segregated;
pub mod sequential;

#[doc(inline)]
pub use bitmapped::Bitframe;
#[doc(inline)]
pub use buddy::{BinaryBuddy, DoubleBuddy, FibonacciBuddy, WeightedBuddy};
#[doc(inline)]
pub use compact_fit::{CompactFit, CompactFitConfig, CompactFitNonMoving};
#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use concurrent::{
    Arenas, ArenasConfig, BitmapBuddy, BitmapConfig, SharedCompactFit, SharedCompactFitConfig, TreeBuddy,
};
#[doc(inline)]
pub use contract::{HandleAllocator, MultiRegion, RegionAllocator, SharedAllocator, Slot};
#[doc(inline)]
pub use indexed::{FastFit, LeftmostFastFit, TreeBestFit};
#[doc(inline)]
pub use mechanism::boundary_tag::TagConfig;
#[doc(inline)]
pub use regional::{ClassRegions, Reaps, SingleRegion};
#[doc(inline)]
pub use segregated::{HalfFit, Kingsley, QuickFit, SimpleSegregated, Tlsf};
#[doc(inline)]
pub use sequential::{AddressOrderedFirstFit, BestFit, FirstFit, LifoNextFit, NextFit};

/// The Rust code of the README and of the book, compiled and run as tests. One item each, so that failures name it.
#[cfg(doctest)]
mod books {
    macro_rules! chapters {
        ($($name:ident: $file:literal;)*) => {
            $(#[doc = include_str!(concat!("../../../", $file))] struct $name;)*
        };
    }

    chapters! {
        Readme: "README.md";
        Introduction: "docs/book/src/introduction.md";
        StartRust: "docs/book/src/start/rust.md";
        Choosing: "docs/book/src/choosing.md";
        Guarantees: "docs/book/src/guarantees.md";
        Debugging: "docs/book/src/debugging.md";
    }

    // Its figures are those of targets with 64-bit pointers.
    #[cfg(target_pointer_width = "64")]
    chapters! {
        Sizing: "docs/book/src/sizing.md";
    }
}
