//! Dynamic memory for real-time systems: bounded time, bounded memory.
//!
//! A heap lives entirely in memory that its user gives: no operating system, no `alloc`, no dependency, no panic, no
//! lock. Several heaps can coexist; the value of each is one pointer.
//!
//! *No panic* holds where the library is compiled without overflow checks, as in cargo's profile `release`. A program that
//! turns them on for itself leaves the library out (its own tests run with them):
//!
//! ```toml
//! [profile.release]
//! overflow-checks = true
//!
//! [profile.release.package.rtalloc]
//! overflow-checks = false
//! ```
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
//! /// `tlsf-small`, here for a heap of 4 KiB: 182 bytes of control structure, 2 bytes before every block.
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
//! | [`sequential`] | one list, searched |
//! | [`segregated`] | lists by size class |
//! | [`indexed`] | a tree of free blocks |
//! | [`buddy`] | blocks that divide in two, and merge with the other half only |
//! | [`regional`] | pages cut into blocks one after the other |
//! | [`bitmapped`] | a bit for every chunk |
//! | [`compact_fit`] | objects that are named by handles, so that memory can be compacted, and [how much memory they ever need](compact_fit::guarantee) |
//! | [`concurrent`] | heaps for several users at a time, without a lock; on a single core also [without compare-and-swap](concurrent::atomics::masking) |
//! | [`adapt`] | converts one kind of allocator into another: a lock around a heap, a heap as the global allocator; and wraps a heap: a [guard](adapt::guarded) that finds misuse, [failures](adapt::failing) on purpose, [quotas](adapt::quota), a [flight recorder](adapt::traced) |
//! | [`handles`] | built on heaps whose objects move: bytes, boxes, objects larger than a page |
//! | [`mechanism`] | the parts that allocators share |
//!
//! The folders are the field's taxonomy (Wilson, Johnstone, Neely and Boles 1995). Layers: contract and region, then
//! mechanism, then allocators; a lower layer never names a higher one.
//!
//! # Which one
//!
//! Start with [`Tlsf`]. Costs are in n, the free blocks, H, the region, and s, the block; bounds on memory in M, the live
//! memory, and n, the largest request, both in smallest blocks. A header of 4 bytes is the default of the type, which
//! may choose 2 or 8.
//!
//! <!-- region allocators -->
//! | | type | allocate, deallocate | header | requests | wins | loses |
//! |---|---|---|---|---|---|---|
//! | `tlsf` | [`Tlsf`] | O(1), O(1) | 4 B | any | the default choice: constant time with a low bound, and the memory of best-fit | half-fit executes fewer instructions; allocators of one size, or of pages of one class, fewer still |
//! | `tlsf-exact` | [`Tlsf`] | O(1), O(1) | 4 B | any | less internal fragmentation than the paper's split | a freed block may be too small for the class of the same request, so a steady load can keep splitting |
//! | `tlsf-small` | [`Tlsf`] | O(1), O(1) | 2 B | any | in a heap of 4 KiB a control structure of 182 bytes where TLSF has 628; half its header; blocks of 8 bytes | heaps of at most 65,535 bytes, blocks aligned to 8; seldom detects a byte written before a block; up to a ninth of a block is lost to fewer classes, instead of a thirty-third |
//! | `tlsf-unchecked` | [`Tlsf`] | O(1), O(1) | 4 B | any | the instructions of the checks, which docs/MISUSE.md lists | a double free or a foreign pointer damages the heap, and nothing reports it |
//! | `tlsf-own-tag` | [`Tlsf`] | O(1), O(1) | 4 B | any | reports a double free, until the memory is allocated again, and a foreign pointer, in fewer instructions than tlsf outside x86-64 | an overwritten tag damages the heap, and nothing reports it |
//! | `tlsf-full-validation` | [`Tlsf`] | O(1), O(1) | 4 B | any | reports every one-byte overrun in heaps below 16 MiB; a stale pointer until its memory is allocated again | more instructions per operation than tlsf: docs/MISUSE.md has them for each processor |
//! | `half-fit` | [`HalfFit`] | O(1), O(1) | 4 B | any | lower bounds than TLSF, and the smallest control structure of the constant-time allocators for any size | a block never serves a request in its own power of two, so an adversary makes it need nearly n times M |
//! | `half-fit-rounded` | [`HalfFit`] | O(1), O(1) | 4 B | any | a freed block serves the same request again, and attacks make it need less than half-fit | up to half of every block is lost |
//! | `quick-fit` | [`QuickFit`] | O(H), O(1) | 0 B | any | a few instructions where a freed block serves the next request of its size while another block of its page is live | an empty class cuts a whole page at once; a program that alternates around the last block of a page cuts and releases it every time |
//! | `simple-segregated` | [`SimpleSegregated`] | O(1), O(1) | 4 B | at most 1020 B | one of the lowest bounds of all, and constant time | a block serves its class forever: memory of sizes no longer requested is lost |
//! | `kingsley` | [`Kingsley`] | O(1), O(1) | 4 B | any | a handful of instructions for any size | up to half of every block is lost, and memory of one size never serves another |
//! | `pools` | [`Pools`] | O(1), O(1) | 4 B | any | a guaranteed region little larger than what is live, where the numbers of objects are known, and constant time | memory of one size never serves another |
//! | `first-fit` | [`FirstFit`] | O(n), O(1) | 4 B | any | few instructions on average, and a constant-time deallocate | the search has no bound other than the heap's size |
//! | `first-fit-address` | [`AddressOrderedFirstFit`] | O(n), O(n) | 4 B | any | the least memory in the worst case: M(1 + ⌈log2 n⌉) | both operations walk the list |
//! | `next-fit` | [`NextFit`] | O(n), O(n) | 4 B | any | shorter searches than first-fit's on most loads | it cuts every large block in turn: more memory than first-fit, and the same unbounded search |
//! | `next-fit-lifo` | [`LifoNextFit`] | O(n), O(1) | 4 B | any | a constant-time deallocate | neighbours in memory are not neighbours in the list, so blocks of one kind scatter |
//! | `best-fit` | [`BestFit`] | O(n), O(1) | 4 B | any | the least memory on most programs | every allocate walks the list |
//! | `tree-best-fit` | [`TreeBestFit`] | O(n), O(n) | 4 B | any | best-fit's memory at a logarithmic cost on average | a single operation may walk a degenerate tree from end to end |
//! | `fast-fit` | [`FastFit`] | O(n), O(n) | 4 B | any | no tag at the end of blocks, and short trees on average | operations are linear in the depth of the tree, which has no bound |
//! | `fast-fit-leftmost` | [`LeftmostFastFit`] | O(n), O(n) | 4 B | any | live blocks stay at the low end, as with address-ordered first-fit | deeper descents than better fit |
//! | `binary-buddy` | [`BinaryBuddy`] | O(log H), O(log H) | 0 B | any | any size in logarithmic time, natural alignment at no cost, and a guarantee against fragmentation | requests are rounded up to powers of two: a quarter of the memory on average |
//! | `fibonacci-buddy` | [`FibonacciBuddy`] | O(log H), O(log H) | 4 B | any | sizes closer to each other than powers of two: less internal fragmentation | the remainders of splits have sizes that are rarely requested |
//! | `weighted-buddy` | [`WeightedBuddy`] | O(log H), O(log H) | 4 B | any | twice as many sizes as a binary buddy | more external fragmentation; a block's buddy depends on how it was split |
//! | `double-buddy` | [`DoubleBuddy`] | O(log H), O(log H) | 0 B | any | less internal fragmentation than a binary buddy | memory of one half never serves the other |
//! | `bitframe` | [`Bitframe`] | O(1), O(1) | 0 B | at most 1024 B | blocks of any number of chunks in one page without headers, in constant time | more instructions than lists; a sequence cannot cross the end of its frame |
//! | `regis1` | [`SingleRegion`] | O(1), O(1) | 0 B | at most 992 B | next to no bookkeeping, and the least code | one live block keeps its page: memory grows with the longest lifetime in every page |
//! | `regis2` | [`ClassRegions`] | O(1), O(1) | 0 B | at most 1008 B | blocks of one size die together more often than blocks of all sizes | as regis1, and a page in use for every size |
//! | `reaps` | [`Reaps`] | O(1), O(1) | 0 B | at most 992 B | no header, constant time, pages that serve any class again: the least memory with many small blocks | a page of its own for the only block of a size |
//! <!-- end of region allocators -->
//!
//! Heaps that several users share, and heaps whose objects have handles:
//!
//! | | allocate, deallocate | memory | header |
//! |---|---|---|---|
//! | [`TreeBuddy`] | O(region), O(s + log region), wait-free for many users | up to twice the request, and half of the heap if all blocks are the smallest | none; 5 B per 64 B |
//! | [`BitmapBuddy`] | O(region), O(log region), wait-free for many users | up to twice the request, of which less than a leaf is lost: the tail is free | none; 9.2 bits per 64 B |
//! | [`CompactFit`] | O(1), O(s) when a free moves an object of s bytes | predictable: it depends on live objects, not on history; requests below 16 KiB | 4 B, and 16 B of entry |
//! | [`CompactFitNonMoving`] | O(s), O(1) but O(s) when a free compacts | the same; a free page-block costs only its entry in a block table | 14 B per 32 B: entry and block table |
//! | [`SharedCompactFit`] | O(1) and IOTA bytes moved, wait-free for many users; pinned objects do not move | as [`CompactFit`], for each slot, and a page for each pinned object | 4 B, and 32 B of entry |
//! | [`PooledArenas`] | O(1) as [`Tlsf`], for several threads, whatever the other threads do; O(words of the pool), at most 8 by default, where the slot needs memory | as [`Tlsf`] in chunks, of one region for all slots | as [`Tlsf`]; none for a long block |

#![no_std]

#[cfg(feature = "std")]
extern crate std;

pub mod adapt;
mod allocators;
mod arithmetic;
pub mod bitmapped;
pub mod buddy;
pub mod compact_fit;
pub mod concurrent;
pub mod contract;
pub mod handles;
pub mod hook;
pub mod indexed;
pub mod limits;
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
#[doc(inline)]
pub use concurrent::{
    BitmapBuddy, BitmapConfig, PooledArenas, PooledArenasConfig, SharedCompactFit, SharedCompactFitConfig, TreeBuddy,
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
pub use segregated::{HalfFit, Kingsley, PoolSizes, Pools, QuickFit, SimpleSegregated, Tlsf};
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
