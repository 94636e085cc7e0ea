//! That the suite finds faults: each fault of the [reference allocator](crate::reference) must fail the tests named
//! with it, which pass without the fault (the reference allocator is one of the suite's). So these tests are known to
//! be able to fail.

use crate::property;
use crate::reference::{Reference, fault};
use crate::subject::with;
use std::panic::catch_unwind;

macro_rules! detects {
    ($($name:ident: $fault:ident by $($module:ident::$test:ident)+;)*) => {
        $(
            #[test]
            fn $name() {
                type Faulty = Reference<'static, { fault::$fault }>;
                property::without_shrinking(|| {
                    $(
                        let outcome = catch_unwind(|| { with::<Faulty, _>(|| { crate::$module::$test(); }); });
                        assert!(outcome.is_err(), "{} passes with {}", stringify!($test), stringify!($fault));
                    )+
                });
            }
        )*
    };
}

detects! {
    overlapping_block: OVERLAPPING_BLOCK by property::any_sequence exhaustion::request_leaves_the_rest explore::every_state long_run::fixed_seed;
    lost_alignment: LOST_ALIGNMENT by property::any_sequence bad_input::large_alignments explore::every_state;
    usable_one_too_many: USABLE_ONE_TOO_MANY by exhaustion::documented_size_serves property::any_sequence explore::every_state;
    whole_pool: WHOLE_POOL by exhaustion::request_leaves_the_rest property::any_sequence;
    overflowing_size: OVERFLOWING_SIZE by bad_input::errors_are_typed bad_input::impossible_requests property::any_sequence;
    zero_size_served: ZERO_SIZE_SERVED by bad_input::errors_are_typed bad_input::impossible_requests property::any_sequence;
    no_coalescing: NO_COALESCING by exhaustion::fill_and_empty property::any_sequence explore::every_state;
    leaked_granule: LEAKED_GRANULE by exhaustion::fill_and_empty property::any_sequence explore::every_state long_run::fixed_seed;
    no_reuse: NO_REUSE by property::freed_block_serves_again;
    double_free_unreported: DOUBLE_FREE_UNREPORTED by misuse::double_free misuse::stale_pointers;
    double_free_harms: DOUBLE_FREE_HARMS by misuse::stale_pointers;
    foreign_pointer_rounded: FOREIGN_POINTER_ROUNDED by misuse::foreign_pointers;
    lost_content: LOST_CONTENT by resize::moving_keeps_content_and_alignment property::any_sequence explore::every_state long_run::fixed_seed;
    lost_alignment_on_move: LOST_ALIGNMENT_ON_MOVE by resize::moving_keeps_content_and_alignment property::any_sequence long_run::fixed_seed;
    old_block_freed_on_failure: OLD_BLOCK_FREED_ON_FAILURE by resize::exhaustion_keeps_the_old_block property::any_sequence explore::every_state;
    no_growth_in_place: NO_GROWTH_IN_PLACE by resize::grows_in_place;
    tail_kept: TAIL_KEPT by resize::shrinking_returns_the_tail;
    same_size_moves: SAME_SIZE_MOVES by resize::same_size_is_nothing;
    largest_too_much: LARGEST_TOO_MUCH by property::largest_allocatable_is_kept property::any_sequence;
    largest_too_little: LARGEST_TOO_LITTLE by property::largest_allocatable_is_kept property::any_sequence explore::every_state;
    largest_never_zero: LARGEST_NEVER_ZERO by property::largest_allocatable_is_kept;
    refusal_changes_state: REFUSAL_CHANGES_STATE by resize::exhaustion_keeps_the_old_block property::any_sequence bad_input::impossible_requests explore::every_state;
    wrong_error: WRONG_ERROR by bad_input::errors_are_typed property::any_sequence explore::every_state;
    early_exhaustion: EARLY_EXHAUSTION by property::largest_allocatable_is_kept property::any_sequence explore::every_state;
    walk_misses_free: WALK_MISSES_FREE by property::any_sequence explore::every_state;
    walk_twice: WALK_TWICE by property::any_sequence explore::every_state;
    peak_forgotten: PEAK_FORGOTTEN by property::any_sequence long_run::fixed_seed;
    failures_uncounted: FAILURES_UNCOUNTED by property::any_sequence;
    hidden_state: HIDDEN_STATE by explore::every_state;
    check_fails: CHECK_FAILS by property::any_sequence explore::every_state;
    touches_refused_region: TOUCHES_REFUSED_REGION by bad_input::small_and_misaligned_regions bad_input::regions_out_of_reach;
    wrong_needed_bytes: WRONG_NEEDED_BYTES by bad_input::small_and_misaligned_regions;
    writes_behind_region: WRITES_BEHIND_REGION by exhaustion::documented_size_serves bad_input::small_and_misaligned_regions;
}
