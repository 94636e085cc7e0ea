//! The allocators of the C library, one line each. Variants that only a paper compares are in the laboratory.

use crate::bound::{Proof, rt_operation};
#[cfg(target_has_atomic = "ptr")]
use crate::contract::rt_shared_contract;
use crate::contract::{c_text, rt_contract, same};
use crate::debug::*;
use crate::error::rt_error;
use crate::heap::handle::{self, rt_compact_fit_config, rt_fragmentation, rt_handle, rt_object_visitor, status_of};
#[cfg(target_has_atomic = "ptr")]
use crate::heap::shared::{self, rt_refusals, rt_shared_config, rt_steps};
use crate::heap::{region, rt_heap_config, rt_region};
use crate::report::{rt_corruption, rt_stats, rt_visitor};
#[cfg(target_has_atomic = "ptr")]
use crate::verbs::shared_heaps;
use crate::verbs::{config_of, debug_verbs, forwarded, get_verb, handle_heaps, more_verbs, region_heaps};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null};
use rtalloc::adapt::{Failing, Guarded, Quota, Traced};
use rtalloc::bitmapped::bitframe::{BITFRAME_PAGE, Bitframe, Lazy};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::contract::Contract;
#[cfg(target_has_atomic = "ptr")]
use rtalloc::contract::SharedContract;
use rtalloc::mechanism::buddy::{Headers, SideTable};
use rtalloc::mechanism::frame::Frames;
use rtalloc::mechanism::page::QUANTUM;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::mechanism::validation::Full;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, ClassRegions, CompactFit, CompactFitNonMoving, DoubleBuddy, FastFit,
    FibonacciBuddy, FirstFit, HalfFit, HandleAllocator, Kingsley, LeftmostFastFit, LifoNextFit, NextFit, QuickFit,
    Reaps, RegionAllocator, SimpleSegregated, SingleRegion, Tlsf, TreeBestFit, WeightedBuddy,
};

#[cfg(target_has_atomic = "ptr")]
use rtalloc::{Arenas, BitmapBuddy, SharedAllocator, TreeBuddy};

/// The default granule: two machine words.
const WORDS: usize = 2 * size_of::<usize>();

region_heaps! {
    /// TLSF: two levels of size-class lists, no search. The allocator to start with.
    rt_tlsf, tlsf: Tlsf<'static, 5, RoundUp, Offset32, WithStats>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF without statistics: a few instructions fewer per operation.
    rt_tlsf_no_stats, tlsf_no_stats: Tlsf<'static>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF that grants the requested size instead of the size of the class.
    rt_tlsf_exact, tlsf_exact: Tlsf<'static, 5, Exact, Offset32, WithStats>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF that validates every related tag when a block is freed.
    rt_tlsf_full_validation, tlsf_full_validation: Tlsf<'static, 5, RoundUp, Offset32, WithStats, Full>, "O(1)" "O(1)" "O(1)", regions;
    /// Half-fit: a list for each power of two. Fewer instructions than TLSF but more memory: up to n times the live
    /// memory, where n is the largest request in smallest blocks, rounded up to a power of two.
    rt_half_fit, half_fit: HalfFit<'static, Offset32, WithStats>, "O(1)" "O(1)" "O(1)", regions;
    /// Quick-fit: pages divided into blocks of powers of two.
    rt_quick_fit, quick_fit: QuickFit<'static, 4096, QUANTUM, WithStats>, "O(H)" "O(1)" "O(H)";
    /// Simple segregated storage: a list for each size. Requests of at most 1,020 bytes.
    rt_simple_segregated, simple_segregated: SimpleSegregated<'static, WORDS, 64, Offset32, WithStats>, "O(1)" "O(1)" "O(1)";
    /// Kingsley's allocator: powers of two, no coalescing.
    rt_kingsley, kingsley: Kingsley<'static, 4096, Offset32, WithStats>, "O(1)" "O(1)" "O(1)";
    /// First-fit with a LIFO free list.
    rt_first_fit, first_fit: FirstFit<'static, Offset32, WithStats>, "O(n)" "O(1)" "O(n)", regions;
    /// First-fit with an address-ordered free list: least memory in the worst case.
    rt_first_fit_address, first_fit_address: AddressOrderedFirstFit<'static, Offset32, WithStats>, "O(n)" "O(n)" "O(n)", regions;
    /// Next-fit with an address-ordered free list.
    rt_next_fit, next_fit: NextFit<'static, Offset32, WithStats>, "O(n)" "O(n)" "O(n)", regions;
    /// Next-fit with a LIFO free list.
    rt_next_fit_lifo, next_fit_lifo: LifoNextFit<'static, Offset32, WithStats>, "O(n)" "O(1)" "O(n)", regions;
    /// Best-fit with a free list.
    rt_best_fit, best_fit: BestFit<'static, Offset32, WithStats>, "O(n)" "O(1)" "O(n)", regions;
    /// Best-fit with a self-adjusting tree.
    rt_tree_best_fit, tree_best_fit: TreeBestFit<'static, Offset32, WithStats>, "O(n)" "O(n)" "O(n)", regions;
    /// Fast-fit: a Cartesian tree ordered by address and size.
    rt_fast_fit, fast_fit: FastFit<'static, Offset32, WithStats>, "O(n)" "O(n)" "O(n)";
    /// Fast-fit that takes the block at the lowest address.
    rt_fast_fit_leftmost, fast_fit_leftmost: LeftmostFastFit<'static, Offset32, WithStats>, "O(n)" "O(n)" "O(n)";
    /// Binary buddy.
    rt_binary_buddy, binary_buddy: BinaryBuddy<'static, Offset32, WithStats>, "O(log H)" "O(log H)" "O(log H)";
    /// Fibonacci buddy.
    rt_fibonacci_buddy, fibonacci_buddy: FibonacciBuddy<'static, Offset32, WithStats, Headers>, "O(log H)" "O(log H)" "O(log H)";
    /// Weighted buddy.
    rt_weighted_buddy, weighted_buddy: WeightedBuddy<'static, Offset32, WithStats, Headers>, "O(log H)" "O(log H)" "O(log H)";
    /// Double buddy.
    rt_double_buddy, double_buddy: DoubleBuddy<'static, Offset32, WithStats, SideTable>, "O(log H)" "O(log H)" "O(log H)";
    /// Bitframe: a bit for each chunk. Requests of at most 1 KiB.
    rt_bitframe, bitframe: Bitframe<'static, Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, QUANTUM, 2, WithStats>, "O(1)" "O(1)" "O(1)";
    /// Regis1: allocates sequentially from pages, and frees a page when all of its blocks are free.
    rt_regis1, regis1: SingleRegion<'static, 1024, QUANTUM, WithStats>, "O(1)" "O(1)" "O(1)";
    /// Regis2: as regis1, with separate pages for each size.
    rt_regis2, regis2: ClassRegions<'static, 1024, QUANTUM, 64, WithStats>, "O(1)" "O(1)" "O(1)";
    /// Reaps: pages of blocks of one size, without headers.
    rt_reaps, reaps: Reaps<'static, 1024, QUANTUM, 64, WithStats>, "O(1)" "O(1)" "O(1)";
}

/// TLSF inside adapters: the adapters keep the statistics, and TLSF validates every tag before it trusts one.
type Inner = Tlsf<'static, 5, RoundUp, Offset32, NoStats, Full>;

region_heaps! {
    /// TLSF with guards: fences around blocks, fill patterns and a quarantine detect and classify misuse. For tests and
    /// for debugging.
    rt_guarded_tlsf, guarded_tlsf: Guarded<'static, Inner>, "O(H)" "O(H)" "O(H)" by rt_guarded_tlsf_config, guarded [];
    /// TLSF that refuses requests on purpose, to test how a program handles exhaustion.
    rt_failing_tlsf, failing_tlsf: Failing<'static, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>, "O(1)" "O(1)" "O(1)"
        by rt_failing_tlsf_config, regions, failing [];
    /// TLSF shared by several components, each limited to its quota.
    rt_quota_tlsf, quota_tlsf: Quota<'static, Inner>, "O(1)" "O(1)" "O(1)" by rt_quota_tlsf_config, quota [];
    /// TLSF with a flight recorder: records the last operations in its region, for a dump.
    rt_traced_tlsf, traced_tlsf: Traced<'static, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>, "O(1)" "O(1)" "O(1)"
        by rt_traced_tlsf_config, regions, traced [];
    /// TLSF with all four adapters: guards, then injected failures, then quotas, then the flight recorder.
    rt_debug_tlsf, debug_tlsf: Guarded<'static, Failing<'static, Quota<'static, Traced<'static, Inner>>>>, "O(H)" "O(H)" "O(H)"
        by rt_debug_tlsf_config, guarded [], failing [.inner()], quota [.inner().inner()], traced [.inner().inner().inner()];
}

handle_heaps! {
    /// Compact-fit: objects with handles that move, so that memory use depends on the live objects only, not on
    /// history.
    rt_compact_fit, compact_fit: CompactFit<'static, DefaultLadder, WithStats>, "O(1)" "O(s)", contiguous;
    /// Compact-fit with incremental compaction: moves at most 256 bytes per operation.
    rt_compact_fit_iota, compact_fit_iota: CompactFit<'static, DefaultLadder, WithStats, 256>, "O(s)" "O(s)", contiguous;
    /// Compact-fit without moves: an object consists of pieces that stay in place.
    rt_compact_fit_non_moving, compact_fit_non_moving: CompactFitNonMoving<'static, DefaultLadder, 32, WithStats>, "O(s)" "O(s)";
}

#[cfg(target_has_atomic = "ptr")]
shared_heaps! {
    /// Arenas: a TLSF heap for each slot. The only atomic instruction of operations on own blocks is a load.
    rt_arenas, arenas: Arenas<'static>, "O(1)" "O(1)" "O(1)";
    /// Binary buddy with bitmaps.
    rt_bitmap_buddy, bitmap_buddy: BitmapBuddy<'static>, "O(H)" "O(log H)" "O(H)";
    /// Binary buddy with a tree of counters.
    rt_tree_buddy, tree_buddy: TreeBuddy<'static>, "O(H)" "O(H)" "O(H)";
}
