//! The allocators that C has: one line each.

use crate::bound::{Bounds, rt_operation};
#[cfg(target_has_atomic = "ptr")]
use crate::contract::rt_shared_contract;
use crate::contract::{c_text, rt_contract, same};
use crate::debug::*;
use crate::error::rt_error;
use crate::heap::handle::{self, answered, rt_compact_fit_config, rt_fragmentation, rt_handle, rt_object_visitor};
#[cfg(target_has_atomic = "ptr")]
use crate::heap::shared::{self, rt_refusals, rt_shared_config, rt_steps};
use crate::heap::{region, rt_heap_config, rt_region};
use crate::report::{rt_corruption, rt_stats, rt_visitor};
#[cfg(target_has_atomic = "ptr")]
use crate::verbs::shared_heaps;
use crate::verbs::{config_of, debug_verbs, get_verb, handle_heaps, more_verbs, region_heaps};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use rtalloc::adapt::{Failing, Guarded, Quota, Traced};
use rtalloc::bitmapped::bitframe::{
    BITFRAME_PAGE, Bitframe, Bitframe4, Bitframe16, BitframeCrossing, BitframeEager, Lazy,
};
use rtalloc::compact_fit::DefaultLadder;
#[cfg(target_has_atomic = "ptr")]
use rtalloc::concurrent::tree_buddy::InBand;
use rtalloc::contract::Contract;
#[cfg(target_has_atomic = "ptr")]
use rtalloc::contract::SharedContract;
use rtalloc::mechanism::buddy::{Aside, InFront};
use rtalloc::mechanism::frame::Frames;
use rtalloc::mechanism::page::QUANTUM;
use rtalloc::mechanism::scrutiny::Thorough;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::tally::{Tallied, Untallied};
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, ClassRegions, CompactFit, CompactFitNonMoving, DoubleBuddy, FastFit,
    FibonacciBuddy, FirstFit, HalfFit, HandleAllocator, Kingsley, LeftmostFastFit, LifoNextFit, NextFit, QuickFit,
    Reaps, RegionAllocator, SimpleSegregated, SingleRegion, ThesisBuddy, Tlsf, TreeBestFit, WeightedBuddy,
};

#[cfg(target_has_atomic = "ptr")]
use rtalloc::{Arenas, BitmapBuddy, SharedAllocator, TreeBuddy};

/// The default granule: two machine words.
const WORDS: usize = 2 * size_of::<usize>();

region_heaps! {
    /// TLSF: lists by size class in two levels, no search. The allocator to begin with.
    rt_tlsf, tlsf: Tlsf<'static, 5, RoundUp, Offset32, Tallied>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF without tallies: some instructions less in each operation.
    rt_lean_tlsf, lean_tlsf: Tlsf<'static>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF that grants what was asked instead of the size class' size.
    rt_tlsf_exact, tlsf_exact: Tlsf<'static, 5, Exact, Offset32, Tallied>, "O(1)" "O(1)" "O(1)", regions;
    /// TLSF that tests every tag it could when a block is freed.
    rt_tlsf_thorough, tlsf_thorough: Tlsf<'static, 5, RoundUp, Offset32, Tallied, Thorough>, "O(1)" "O(1)" "O(1)", regions;
    /// Half-fit: a list for each power of two; fewer instructions than TLSF, more memory.
    rt_half_fit, half_fit: HalfFit<'static, Offset32, Tallied>, "O(1)" "O(1)" "O(1)", regions;
    /// Quick-fit: pages cut into powers of two.
    rt_quick_fit, quick_fit: QuickFit<'static, 4096, QUANTUM, Tallied>, "O(H)" "O(1)" "O(H)";
    /// Simple segregated storage: a list for each size; requests of at most 1 KiB.
    rt_simple_segregated, simple_segregated: SimpleSegregated<'static, WORDS, 64, Offset32, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Simple segregated storage with sizes 8 bytes apart, and blocks aligned to 8.
    rt_simple_segregated_8, simple_segregated_8: SimpleSegregated<'static, 8, 65, Offset32, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Kingsley's allocator: powers of two, never coalesced.
    rt_kingsley, kingsley: Kingsley<'static, 4096, Offset32, Tallied>, "O(1)" "O(1)" "O(1)";
    /// First-fit over a list in the order of the frees.
    rt_first_fit, first_fit: FirstFit<'static, Offset32, Tallied>, "O(n)" "O(1)" "O(n)", regions;
    /// First-fit over a list in the order of addresses: least memory in the worst case.
    rt_first_fit_address, first_fit_address: AddressOrderedFirstFit<'static, Offset32, Tallied>, "O(n)" "O(n)" "O(n)", regions;
    /// Next-fit over a list in the order of addresses.
    rt_next_fit, next_fit: NextFit<'static, Offset32, Tallied>, "O(n)" "O(n)" "O(n)", regions;
    /// Next-fit over a list in the order of the frees.
    rt_next_fit_lifo, next_fit_lifo: LifoNextFit<'static, Offset32, Tallied>, "O(n)" "O(1)" "O(n)", regions;
    /// Best-fit over a list.
    rt_best_fit, best_fit: BestFit<'static, Offset32, Tallied>, "O(n)" "O(1)" "O(n)", regions;
    /// Best-fit over a self-adjusting tree.
    rt_tree_best_fit, tree_best_fit: TreeBestFit<'static, Offset32, Tallied>, "O(n)" "O(n)" "O(n)", regions;
    /// Fast-fit: a Cartesian tree by address and size.
    rt_fast_fit, fast_fit: FastFit<'static, Offset32, Tallied>, "O(n)" "O(n)" "O(n)";
    /// Fast-fit that takes the lowest address.
    rt_fast_fit_leftmost, fast_fit_leftmost: LeftmostFastFit<'static, Offset32, Tallied>, "O(n)" "O(n)" "O(n)";
    /// Binary buddy.
    rt_binary_buddy, binary_buddy: BinaryBuddy<'static, Offset32, Tallied>, "O(log H)" "O(log H)" "O(log H)";
    /// Binary buddy as in the thesis on memory allocation for FPGAs: blocks of at most 1 KiB.
    rt_bbuddy, bbuddy: ThesisBuddy<'static, Offset32, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Fibonacci buddy.
    rt_fibonacci_buddy, fibonacci_buddy: FibonacciBuddy<'static, Offset32, Tallied, InFront>, "O(log H)" "O(log H)" "O(log H)";
    /// Weighted buddy.
    rt_weighted_buddy, weighted_buddy: WeightedBuddy<'static, Offset32, Tallied, InFront>, "O(log H)" "O(log H)" "O(log H)";
    /// Double buddy.
    rt_double_buddy, double_buddy: DoubleBuddy<'static, Offset32, Tallied, Aside>, "O(log H)" "O(log H)" "O(log H)";
    /// Bitframe: a bit for every chunk; requests of at most 1 KiB.
    rt_bitframe, bitframe: Bitframe<'static, Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, QUANTUM, 2, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Bitframe with chunks from 8 bytes on, and blocks aligned to 8.
    rt_bitframe_8, bitframe_8: Bitframe<'static, Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, 8, 2, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Bitframe whose pages are initialised whole.
    rt_bitframe_eager, bitframe_eager: BitframeEager<'static, BITFRAME_PAGE, QUANTUM, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Bitframe with frames of 16 chunks.
    rt_bitframe_16, bitframe_16: Bitframe16<'static, BITFRAME_PAGE, QUANTUM, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Bitframe with sequences of at most 4 chunks.
    rt_bitframe_4, bitframe_4: Bitframe4<'static, BITFRAME_PAGE, QUANTUM, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Bitframe with sequences of at most 4 chunks that cross frames.
    rt_bitframe_crossing, bitframe_crossing: BitframeCrossing<'static, BITFRAME_PAGE, QUANTUM, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Regis1: memory cut off page by page, a page freed when all of its blocks are.
    rt_regis1, regis1: SingleRegion<'static, 1024, QUANTUM, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Regis1 with blocks aligned to 8 bytes.
    rt_regis1_8, regis1_8: SingleRegion<'static, 1024, 8, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Regis2: as regis1, with pages for each size.
    rt_regis2, regis2: ClassRegions<'static, 1024, QUANTUM, 64, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Regis2 with blocks aligned to 8 bytes.
    rt_regis2_8, regis2_8: ClassRegions<'static, 1024, 8, 64, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Reaps: pages of blocks of one size, without headers.
    rt_reaps, reaps: Reaps<'static, 1024, QUANTUM, 64, Tallied>, "O(1)" "O(1)" "O(1)";
    /// Reaps with blocks aligned to 8 bytes.
    rt_reaps_8, reaps_8: Reaps<'static, 1024, 8, 64, Tallied>, "O(1)" "O(1)" "O(1)";
}

/// TLSF beneath adapters that keep tallies themselves, and must not be misled by what they find.
type Beneath = Tlsf<'static, 5, RoundUp, Offset32, Untallied, Thorough>;

region_heaps! {
    /// TLSF under guard: fences around every block, fills, and a quarantine of freed blocks tell misuse apart. For tests, and for a program
    /// whose memory is suspected.
    rt_guarded_tlsf, guarded_tlsf: Guarded<'static, Beneath>, "O(H)" "O(H)" "O(H)" by rt_guarded_tlsf_config, guarded [];
    /// TLSF that refuses requests on purpose, to test what a program does when memory runs out.
    rt_failing_tlsf, failing_tlsf: Failing<'static, Tlsf<'static, 5, RoundUp, Offset32, Tallied>>, "O(1)" "O(1)" "O(1)"
        by rt_failing_tlsf_config, regions, failing [];
    /// TLSF that several components share, none of which gets more than its quota.
    rt_quota_tlsf, quota_tlsf: Quota<'static, Beneath>, "O(1)" "O(1)" "O(1)" by rt_quota_tlsf_config, quota [];
    /// TLSF with a flight recorder: its last operations are in its region, for a dump to show.
    rt_traced_tlsf, traced_tlsf: Traced<'static, Tlsf<'static, 5, RoundUp, Offset32, Tallied>>, "O(1)" "O(1)" "O(1)"
        by rt_traced_tlsf_config, regions, traced [];
    /// TLSF with all of these: guards around failures on purpose around quotas around a flight recorder.
    rt_debug_tlsf, debug_tlsf: Guarded<'static, Failing<'static, Quota<'static, Traced<'static, Beneath>>>>, "O(H)" "O(H)" "O(H)"
        by rt_debug_tlsf_config, guarded [], failing [.inner()], quota [.inner().inner()], traced [.inner().inner().inner()];
}

handle_heaps! {
    /// Compact-fit: objects that are named by handles and move, so that memory depends on live objects alone, not on history.
    rt_compact_fit, compact_fit: CompactFit<'static, DefaultLadder, Tallied>, "O(1)" "O(s)", contiguous;
    /// Compact-fit that moves at most 256 bytes in each operation, and owes the rest.
    rt_compact_fit_iota, compact_fit_iota: CompactFit<'static, DefaultLadder, Tallied, 256>, "O(s)" "O(s)", contiguous;
    /// Compact-fit whose objects are pieces that stay where they are.
    rt_compact_fit_non_moving, compact_fit_non_moving: CompactFitNonMoving<'static, DefaultLadder, 32, Tallied>, "O(s)" "O(s)";
}

#[cfg(target_has_atomic = "ptr")]
shared_heaps! {
    /// Arenas: a TLSF heap for each slot, whose own operations have no atomic instruction but a load.
    rt_arenas, arenas: Arenas<'static>, "O(1)" "O(1)" "O(1)";
    /// Binary buddies as bitmaps.
    rt_bitmap_buddy, bitmap_buddy: BitmapBuddy<'static>, "O(H)" "O(log H)" "O(H)";
    /// Binary buddies in a tree of counters.
    rt_tree_buddy, tree_buddy: TreeBuddy<'static>, "O(H)" "O(H)" "O(H)";
    /// Binary buddies in a tree of counters that lie in the blocks.
    rt_tree_buddy_in_band, tree_buddy_in_band: TreeBuddy<'static, 64, InBand>, "O(H)" "O(H)" "O(H)";
}
