//! The test suite: one macro instantiates every test for every allocator.
//!
//! It runs on every entry of the library's table, and on the lines below. The tests read what an allocator can do from
//! its [`Contract`](rtalloc::contract::Contract). Properties that are needed at compile time, or that no contract has,
//! follow the type: `regions` for a heap that accepts more regions, `serves_again` for one that reuses any freed block
//! for the same request, `short_reach` for one whose address range a test can allocate. `explored.txt` pins what
//! exhaustive exploration finds.
//!
//! | module | what it tests |
//! |---|---|
//! | [`subject`] | the allocator under test, type-erased |
//! | [`pattern`] | what the tests write into blocks |
//! | [`shadow`] | a model of the heap, which every other test compares it with |
//! | [`property`] | random sequences, shrunk; the largest request |
//! | [`exhaustion`] | fill, empty in several orders, as good as new |
//! | [`bad_input`] | impossible requests and regions |
//! | [`misuse`] | double free, foreign pointers, overwritten tags |
//! | [`resize`] | reallocation |
//! | [`regions`] | regions that come and go |
//! | [`long_run`] | 10^6 operations with fixed seeds |
//! | [`explore`] | every reachable state of a tiny heap |
//! | [`limits`] | regions in which nothing within limits is refused |
//! | [`handles`] | the same for heaps whose objects move |
//! | [`detection`] | that the suite finds faults: a naive allocator with each of many faults |
//! | [`adapters`], [`locks`], [`collections`], [`thread_slots`], [`hook`] | the adapters, by what only they do |

mod adapted;
mod adapters;
mod apart;
mod arena;
mod bad_input;
mod collections;
// The effect of the faults depends on the granule. 64-bit machines suffice to judge the suite.
#[cfg(target_pointer_width = "64")]
mod detection;
mod exhaustion;
mod explore;
mod handles;
mod hook;
mod limits;
mod locks;
mod long_run;
mod memory;
mod misuse;
mod ops;
mod pattern;
mod property;
mod reference;
mod regions;
mod resize;
mod shadow;
mod subject;
mod thread_slots;
#[path = "../tier/mod.rs"]
mod tier;

use adapted::{Armed, Holding, WithRecords};
use arena::WithSlots;
use rtalloc::adapt::{Cached, Failing, Guarded, Locked, Masked, Quota, SingleUser};
use rtalloc::bitmapped::bitframe::{Bitframe, Eager, Lazy};
use rtalloc::buddy::binary::Binary;
use rtalloc::concurrent::atomics::Native;
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, Trimmed, Whole};
use rtalloc::concurrent::tree_buddy::{
    Everything, Faithful, InBand, Lazy as LazyTree, OutOfBand, ReadsFirst, Rotated, TreeBuddy, Watched,
};
use rtalloc::mechanism::boundary_tag::{TagHeap, Thresholds};
use rtalloc::mechanism::buddy::{Buddies, Headers, SideTable};
use rtalloc::mechanism::frame::Frames;
use rtalloc::mechanism::free_list::{AddressOrder, Best, Fifo, First, Lifo, Next, OneList};
use rtalloc::mechanism::page::QUANTUM;
use rtalloc::mechanism::policy_heap::PolicyHeap;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::mechanism::tree::splay::SizeTree;
use rtalloc::mechanism::validation::{BasicSettingAside, Full, OwnTag, Unchecked};
use rtalloc::mechanism::word::{Offset16, Offset32, Offset32By8, Wide};
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, ClassRegions, DoubleBuddy, FastFit, FibonacciBuddy, FirstFit,
    HalfFit, Kingsley, LeftmostFastFit, NextFit, QuickFit, Reaps, SimpleSegregated, SingleRegion, Tlsf, TreeBestFit,
    WeightedBuddy,
};
use subject::{with, with_regions};

/// Calls a macro with a type and every test that any allocator must pass. Those marked `apart` may crash if they fail.
macro_rules! every_test {
    ($with:ident $(, $argument:tt)*) => {
        $with! { $($argument)*
            errors_are_typed: crate::bad_input::errors_are_typed,
            documented_size_serves: crate::exhaustion::documented_size_serves,
            request_leaves_the_rest: crate::exhaustion::request_leaves_the_rest,
            same_size_is_nothing: crate::resize::same_size_is_nothing,
            shrinking_returns_the_tail: crate::resize::shrinking_returns_the_tail,
            moving_keeps_content_and_alignment: crate::resize::moving_keeps_content_and_alignment,
            exhaustion_keeps_the_old_block: crate::resize::exhaustion_keeps_the_old_block,
            grows_in_place: crate::resize::grows_in_place,
            double_free (apart): crate::misuse::double_free,
            foreign_pointers (apart): crate::misuse::foreign_pointers,
            overwritten_header (apart): crate::misuse::overwritten_header,
            overwritten_next_header (apart): crate::misuse::overwritten_next_header,
            one_byte_overruns (apart): crate::misuse::one_byte_overruns,
            blocks_of_the_previous_heap (apart): crate::misuse::blocks_of_the_previous_heap,
            large_alignments: crate::bad_input::large_alignments,
            fill_and_empty: crate::exhaustion::fill_and_empty,
            small_and_misaligned_regions: crate::bad_input::small_and_misaligned_regions,
            any_sequence: crate::property::any_sequence,
            largest_allocatable_is_kept: crate::property::largest_allocatable_is_kept,
            stale_pointers (apart): crate::misuse::stale_pointers,
            impossible_requests: crate::bad_input::impossible_requests,
            long_run: crate::long_run::fixed_seed,
        }
    };
}

/// The tests of one allocator.
macro_rules! instantiate {
    ([$type:ty] $($test:ident $(($apart:ident))?: $path:path,)*) => {
        $(
            #[test]
            fn $test() {
                use $path as run;
                call!($test, || with::<$type, _>(run) $(, $apart)?);
            }
        )*
    };
}

/// Calls a test, in its own process if it is marked `apart`.
macro_rules! call {
    ($test:ident, $function:expr) => {
        ($function)()
    };
    ($test:ident, $function:expr, apart) => {
        crate::apart::run(concat!(module_path!(), "::", stringify!($test)), $function)
    };
}

/// Tests of properties that are not in the contract.
macro_rules! ability {
    ($type:ty, regions) => {
        #[test]
        fn regions_are_added_used_and_removed() {
            with_regions::<$type>(crate::regions::add_use_remove);
        }
        #[test]
        fn regions_stay_apart() {
            with_regions::<$type>(crate::regions::regions_stay_apart);
        }
        #[test]
        fn removed_region_is_foreign() {
            with_regions::<$type>(crate::regions::removed_region_is_foreign);
        }
        #[test]
        fn refused_regions() {
            with_regions::<$type>(crate::regions::refused_regions);
        }
        #[test]
        fn overlapping_regions() {
            with_regions::<$type>(crate::regions::overlapping_regions);
        }
        #[test]
        fn region_below() {
            with_regions::<$type>(crate::regions::region_below);
        }
        #[test]
        fn any_sequence_with_regions() {
            with_regions::<$type>(crate::regions::any_sequence);
        }
    };
    // Tested in `limits`.
    ($type:ty, limits) => {};
    ($type:ty, limits_for_sizes) => {};
    ($type:ty, serves_again) => {
        #[test]
        fn freed_block_serves_again() {
            with::<$type, _>(crate::property::freed_block_serves_again);
        }
    };
    ($type:ty, short_reach) => {
        #[test]
        fn regions_out_of_reach() {
            with::<$type, _>(crate::bad_input::regions_out_of_reach);
        }
    };
}

/// The exploration of every state.
macro_rules! exploration {
    ($type:ty) => {
        #[test]
        fn every_state() {
            crate::explore::assert_explored(module_path!(), crate::explore::GRANULES, &|limits, granules| {
                with::<$type, _>(|| crate::explore::states_within(limits, granules))
            });
        }
    };
}

/// Instantiates every test for each allocator, in a module of the given name.
macro_rules! suite {
    ($($name:ident: $type:ty $(, $ability:ident)*;)*) => {
        $(
            mod $name {
                use super::*;

                every_test!(instantiate, [$type]);
                $(ability!($type, $ability);)*

                exploration!($type);
            }
        )*
    };
}

/// Instantiates every test for each entry of the library's table.
macro_rules! suite_of_the_library {
    ($(
        $(#[$summary:meta])*
        $name:ident, $command:literal: $type:ty, [$($ability:ident),*] { $($exposed:tt)* }
    )*) => {
        suite! { $($name: $type $(, $ability)*;)* }
    };
}

/// Only explores allocators, each in a module of the given name.
macro_rules! explore {
    ($($name:ident: $type:ty;)*) => {
        $(
            mod $name {
                use super::*;

                exploration!($type);
            }
        )*
    };
}

/// The finest division of size classes whose bitmap fits a machine word.
const FINEST: u32 = if cfg!(target_pointer_width = "64") { 6 } else { 5 };

/// Two machine words: the default granule.
const WORDS: usize = 2 * size_of::<usize>();

/// A tree buddy with options, with one user.
type Tree<O, L = OutOfBand, const NODE: usize = 64> = SingleUser<'static, TreeBuddy<'static, NODE, L, O>>;

/// First-fit and best-fit with the parameters of Puaut's table 1, and with parameters unlike every default.
type PuautFirstFit = TagHeap<'static, Thresholds<OneList<First, Lifo>, 16, 16>, Offset32, WithStats, Full>;
type PuautBestFit = TagHeap<'static, Thresholds<OneList<Best, Fifo>, 16, 16>, Offset32, NoStats, Full>;
type LargeBlocks = TagHeap<'static, Thresholds<OneList<First, AddressOrder>, 16, 32>, Offset16, WithStats, Full>;
/// A LIFO ring has too many states if every remainder is a block.
type FewerLifoBlocks = TagHeap<'static, Thresholds<OneList<Next, Lifo>, 0, 32>, Offset32, WithStats>;
/// Trees of wide blocks have too many states as well, so the smallest block is three granules.
type FewerWideBlocks = TagHeap<'static, Thresholds<SizeTree, 0, 96>, Wide, NoStats, Full>;

/// TLSF behind lists of freed blocks.
type CachedTlsf<P> = Cached<'static, Tlsf<'static, 5, P, Wide, NoStats, BasicSettingAside>>;

/// Bitmap buddies with one user.
type SingleUserBitmapBuddy<const LEAF: usize = 64, S = Trimmed> =
    SingleUser<'static, BitmapBuddy<'static, LEAF, Native, S>>;

rtalloc::region_allocators!(suite_of_the_library, Offset32, WithStats);

// The same with other parameters, in adapters, and shared heaps with one user.
suite! {
    naive: reference::Reference<'static, { reference::fault::NONE }>, serves_again, short_reach;
    tlsf_coarse: Tlsf<'static, 1, RoundUp, Offset16, NoStats, Full>, regions, serves_again, short_reach;
    tlsf_exact_short: Tlsf<'static, 3, Exact, Offset16, WithStats>, regions, short_reach;
    tlsf_by_8_unchecked: Tlsf<'static, 5, RoundUp, Offset32By8, NoStats, Unchecked>, regions, serves_again;
    tlsf_short_own_tag: Tlsf<'static, 3, Exact, Offset16, NoStats, OwnTag>, regions, short_reach;
    tlsf_by_8: Tlsf<'static, 5, RoundUp, Offset32By8, WithStats, Full>, regions, serves_again;
    tlsf_wide: Tlsf<'static, FINEST, RoundUp, Wide, WithStats, Full>, regions, serves_again;
    half_fit_wide_unchecked: HalfFit<'static, Exact, Wide, WithStats, Unchecked>, regions;
    half_fit_wide_own_tag: HalfFit<'static, Exact, Wide, WithStats, OwnTag>, regions;
    half_fit_wide: HalfFit<'static, Exact, Wide, WithStats, Full>, regions;
    simple_segregated_short: SimpleSegregated<'static, 8, 65, Offset16>, serves_again, short_reach;
    simple_segregated_wide: SimpleSegregated<'static, WORDS, 64, Wide>, serves_again;
    kingsley_small_pages: Kingsley<'static, 32, Offset32, WithStats>, serves_again;
    kingsley_short: Kingsley<'static, 16, Offset16>, serves_again, short_reach;
    first_fit_short: AddressOrderedFirstFit<'static, Offset16, NoStats, Full>, regions, serves_again, short_reach;
    first_fit_puaut: PuautFirstFit, regions, serves_again;
    first_fit_large_blocks: LargeBlocks, regions, serves_again, short_reach;
    next_fit_short: NextFit<'static, Offset16, NoStats, Full>, regions, serves_again, short_reach;
    next_fit_lifo_fewer_blocks: FewerLifoBlocks, regions, serves_again;
    best_fit_wide: BestFit<'static, Wide, NoStats, Full>, regions, serves_again;
    best_fit_puaut: PuautBestFit, regions, serves_again;
    tree_best_fit_short: TreeBestFit<'static, Offset16, NoStats, Full>, regions, serves_again, short_reach;
    tree_best_fit_short_own_tag: TreeBestFit<'static, Offset16, NoStats, OwnTag>, regions, serves_again, short_reach;
    tree_best_fit_wide: FewerWideBlocks, regions, serves_again;
    fast_fit_leftmost_short: LeftmostFastFit<'static, Offset16>, serves_again, short_reach;
    fast_fit_wide: FastFit<'static, Wide>, serves_again;
    binary_buddy_short: BinaryBuddy<'static, Offset16, WithStats, SideTable, 8>, short_reach;
    binary_buddy_header: BinaryBuddy<'static, Offset32, WithStats, Headers, 16>;
    binary_buddy_wide: BinaryBuddy<'static, Wide, NoStats, Headers<8>, 32>;
    thesis_buddy: PolicyHeap<'static, Buddies<Binary<32, 1024>, Headers<16>, Offset32>, WithStats>;
    fibonacci_buddy_side_table: FibonacciBuddy<'static, Offset32, WithStats, SideTable>;
    fibonacci_buddy_wide_header: FibonacciBuddy<'static, Offset32, WithStats, Headers<16>, 32>;
    weighted_buddy_side_table: WeightedBuddy<'static, Offset32, WithStats, SideTable>;
    double_buddy_header: DoubleBuddy<'static, Offset32, WithStats, Headers, 16>;
    regis1_paper: SingleRegion<'static, 1024, 8>;
    regis1_small_pages: SingleRegion<'static, 64, 8, WithStats>;
    regis2_paper: ClassRegions<'static, 1024, 8, 64>;
    regis2_small_pages: ClassRegions<'static, 64, 8, 64, WithStats>;
    reaps_paper: Reaps<'static, 1024, 8, 64>, serves_again;
    reaps_small_pages: Reaps<'static, 64, 8, 64, WithStats>, serves_again;
    quick_fit_eights: QuickFit<'static, 512, 8>, serves_again;
    quick_fit_quarters: QuickFit<'static, 64, 16>, serves_again;
    quick_fit_halves: QuickFit<'static, 64, 32, WithStats>, serves_again;
    bitframe_small_pages: Bitframe<'static, Frames<8, 8, 0>, Lazy, 2048, WORDS, 2, WithStats>;
    bitframe_eager: Bitframe<'static, Frames<8, 8, 0>, Eager, 2048, WORDS, 2>;
    bitframe_16: Bitframe<'static, Frames<16, 16, 0>, Lazy, 8192, WORDS, 2, WithStats>;
    bitframe_4: Bitframe<'static, Frames<8, 4, 0>, Lazy, 4096, WORDS, 3>;
    bitframe_crossing: Bitframe<'static, Frames<8, 4, 3>, Lazy, 4096, WORDS, 3, WithStats>;
    pooled_arenas: WithSlots<1>, serves_again;
    pooled_arenas_of_two: WithSlots<2>, serves_again;
    pooled_arenas_full_validation: WithSlots<2, Tlsf<'static, 3, RoundUp, Offset16, WithStats, Full>>, serves_again;
    bitmap_buddy: SingleUserBitmapBuddy, serves_again;
    bitmap_buddy_whole: SingleUserBitmapBuddy<64, Whole>, serves_again;
    bitmap_buddy_small_leaves: SingleUserBitmapBuddy<16>, serves_again;
    bitmap_buddy_deep: SingleUserBitmapBuddy<32, Trimmed<2>>, serves_again;
    locked_tlsf: SingleUser<'static, Locked<'static, Tlsf<'static>, spin::Mutex<()>>>, serves_again;
    locked_bitframe: SingleUser<'static, Locked<'static, Bitframe<'static>, Masked>>;
    traced_tlsf: WithRecords<5, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>, regions, serves_again;
    traced_first_fit: WithRecords<1, FirstFit<'static, Offset32, WithStats, Full>>, regions, serves_again;
    traced_reaps: WithRecords<30, Reaps<'static, 64, 8, 64, WithStats>>, serves_again;
    guarded_tlsf: Guarded<'static, Tlsf<'static>>;
    guarded_tlsf_at_once: Holding<0, Tlsf<'static>>, serves_again;
    guarded_tlsf_holding_one: Holding<1, Tlsf<'static>, 32>;
    guarded_best_fit: Holding<0, BestFit<'static, Wide, NoStats, Full>, 8>, serves_again;
    guarded_binary_buddy: Guarded<'static, BinaryBuddy<'static>>;
    guarded_bitframe: Holding<3, Bitframe<'static>>;
    guarded_bitmap_buddy: Holding<0, SingleUserBitmapBuddy<16>, 8>, serves_again;
    guarded_locked: SingleUser<'static, Locked<'static, Guarded<'static, FirstFit<'static, Offset32, WithStats, Full>, 24>, Masked>>;
    cached_tlsf: CachedTlsf<RoundUp>, serves_again;
    cached_half_fit: Cached<'static, HalfFit<'static, Exact, Wide, NoStats, BasicSettingAside>>;
    cached_in_pooled_arenas: WithSlots<1, CachedTlsf<RoundUp>>, serves_again;
    failing_tlsf: Failing<'static, Tlsf<'static>>, regions, serves_again;
    failing_best_fit: Armed<BestFit<'static, Wide, WithStats, Full>>, regions, serves_again;
    failing_kingsley: Armed<Kingsley<'static, 1024, Offset32, WithStats>>, serves_again;
    failing_reaps: Armed<Reaps<'static, 1024, QUANTUM, 64, WithStats>>, serves_again;
    failing_quick_fit: Armed<QuickFit<'static, 512, 8>>, serves_again;
    failing_bitframe: Armed<Bitframe<'static>>;
    failing_locked_buddy: SingleUser<'static, Locked<'static, Armed<BinaryBuddy<'static>>, Masked>>;
    failing_guarded: Armed<Holding<1, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>>;
    quota_tlsf: Quota<'static, Tlsf<'static>>, serves_again;
    quota_first_fit: Quota<'static, FirstFit<'static, Offset32, WithStats, Full>, 1>, serves_again;
    quota_binary_buddy: Quota<'static, BinaryBuddy<'static>, 3>;
    quota_quick_fit: Quota<'static, QuickFit<'static, 1024, QUANTUM, WithStats>>, serves_again;
    quota_kingsley: Quota<'static, Kingsley<'static, 1024, Offset32, WithStats>, 2>;
    nested: Holding<2, Armed<Quota<'static, Tlsf<'static>, 2>>>;
    nested_otherwise: Quota<'static, Failing<'static, Holding<1, HalfFit<'static>, 8>>>;
    tree_buddy: Tree<Faithful>;
    tree_buddy_in_band: Tree<Faithful, InBand>;
    tree_buddy_small_nodes: Tree<Faithful, OutOfBand, 16>;
    tree_buddy_small_nodes_in_band: Tree<Faithful, InBand, 32>;
    tree_buddy_reads_first: Tree<ReadsFirst>;
    tree_buddy_lazy: Tree<LazyTree>;
    tree_buddy_lazy_in_band: Tree<LazyTree, InBand>;
    tree_buddy_rotated: Tree<Rotated>;
    tree_buddy_watched: Tree<Watched>;
    tree_buddy_everything: Tree<Everything>;
    tree_buddy_everything_in_band: Tree<Everything, InBand>;
}

// Too small for the other tests; these stand in for types with too many states.
explore! {
    tiny_bitframe: Bitframe<'static, Frames<4, 4, 0>, Lazy, 256, 16, 1>;
    tiny_bitframe_eager: Bitframe<'static, Frames<4, 4, 0>, Eager, 256, 16, 1>;
    tiny_bitframe_pages: Bitframe<'static, Frames<4, 4, 0>, Lazy, 128, 16, 1>;
    tiny_bitframe_4: Bitframe<'static, Frames<4, 2, 0>, Lazy, 256, 16, 2>;
    tiny_bitframe_crossing: Bitframe<'static, Frames<4, 2, 1>, Lazy, 256, 16, 2>;
    bitmap_buddy_of_eight: SingleUserBitmapBuddy<128, Trimmed<3>>;
    bitmap_buddy_of_eight_whole: SingleUserBitmapBuddy<128, Whole<3>>;
}
