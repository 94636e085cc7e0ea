//! The suite for heaps of handles: the tests of [`crate`] for objects that move.
//!
//! | module | what it tests |
//! |---|---|
//! | [`subject`] | the heap under test, type-erased |
//! | [`shadow`] | a model of the heap |
//! | [`ops`] | operations |
//! | [`property`] | random sequences, shrunk; the largest request, regions, errors |
//! | [`misuse`] | stale and foreign handles |
//! | [`exhaustion`] | fill, empty in several orders, as good as new; long runs |
//! | [`explore`] | every reachable state of a tiny heap |
//! | [`layers`] | arraylets of one and two levels, grown and shrunk through all of them |
//! | [`access`] | bytes and boxes |

mod access;
mod exhaustion;
mod explore;
mod layers;
mod misuse;
mod ops;
mod property;
mod shadow;
mod subject;

use crate::apart;
use rtalloc::compact_fit::ladder::Geometric;
use rtalloc::compact_fit::{CompactFit, CompactFitNonMoving, DefaultLadder, PaperLadder};
use rtalloc::handles::Arraylets;
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::{CompactFitConfig, HandleAllocator};

/// A heap as an instance of the suite.
macro_rules! instance {
    ($type:ty, $max_not_full:literal $(, $trait:ident)*) => {
        struct Subject;

        impl subject::Instance for Subject {
            type Heap = $type;
            const MAX_NOT_FULL: usize = $max_not_full;
            const IS_INCREMENTAL: bool = false $(|| instance!(@incremental $trait))*;
            const IS_LAYERED: bool = false $(|| instance!(@layered $trait))*;
            const KEEPS_PAGES: bool = false $(|| instance!(@keeps $trait))*;

            fn config() -> <$type as HandleAllocator<'static>>::Config {
                CompactFitConfig::with_max_not_full($max_not_full).into()
            }
        }
    };
    (@incremental incremental) => { true };
    (@layered layered) => { true };
    (@keeps keeps_pages) => { true };
    (@$question:ident $trait:ident) => { false };
}

/// Instantiates tests for the heap of the module. Those marked `apart` may crash if they fail.
macro_rules! tests {
    ($($test:ident $(($apart:ident))?: $path:path;)*) => {
        $(
            #[test]
            fn $test() {
                tests!(@call $test, || subject::with::<Subject, _>($path) $(, $apart)?);
            }
        )*
    };
    (@call $test:ident, $function:expr) => {
        ($function)()
    };
    (@call $test:ident, $function:expr, apart) => {
        apart::run(concat!(module_path!(), "::", stringify!($test)), $function)
    };
}

/// Instantiates every test for each heap, in a module of the given name, with the number of not-full pages that a class
/// may have.
macro_rules! suite {
    ($($name:ident: $type:ty, $max_not_full:literal not full $(, $trait:ident)*;)*) => {
        $(
            mod $name {
                use super::*;

                instance!($type, $max_not_full $(, $trait)*);
                tests! {
                    any_sequence: property::any_sequence;
                    largest_allocatable_is_kept: property::largest_allocatable_is_kept;
                    small_and_misaligned_regions: property::small_and_misaligned_regions;
                    errors_are_typed: property::errors_are_typed;
                    stale_handles (apart): misuse::stale_handles;
                    foreign_handles (apart): misuse::foreign_handles;
                    fill_and_empty: exhaustion::fill_and_empty;
                    freed_memory_serves_other_sizes: exhaustion::freed_memory_serves_other_sizes;
                    long_run: exhaustion::long_run;
                }
            }
        )*
    };
}

/// Tests of large objects, in pages small enough to need two levels.
macro_rules! layers {
    ($($name:ident: $type:ty, $max_not_full:literal not full $(, $trait:ident)*;)*) => {
        $(
            mod $name {
                use super::*;

                instance!($type, $max_not_full $(, $trait)*);
                tests! {
                    levels_come_and_go: layers::levels_come_and_go;
                    refused_growth_changes_nothing: layers::refused_growth_changes_nothing;
                }
            }
        )*
    };
}

/// Explores heaps, each in a module of the given name, by requests of some sizes. `explored.txt` has their pages.
macro_rules! explore {
    ($(
        $name:ident: $type:ty, $max_not_full:literal not full $(, $trait:ident)*
        => by $sizes:expr;
    )*) => {
        $(
            mod $name {
                use super::*;

                instance!($type, $max_not_full $(, $trait)*);

                #[test]
                fn every_state() {
                    crate::explore::assert_explored(module_path!(), explore::PAGES, &|limits, pages| {
                        subject::with::<Subject, _>(|| explore::states_within(limits, pages, &$sizes))
                    });
                }
            }
        )*
    };
}

/// Pages small enough that a short sequence fills many.
type SmallPages = Geometric<1024, 32, 16>;
/// Page-blocks of half a page and of a whole page.
type Halves = Geometric<1024, 512, 16, 1>;
/// Page-blocks of a third of a page and of a whole page.
type Thirds = Geometric<1024, 320, 16, 1>;

suite! {
    moving: CompactFit<'static>, 1 not full;
    moving_with_stats: CompactFit<'static, DefaultLadder, WithStats>, 2 not full;
    moving_relaxed: CompactFit<'static>, 9 not full;
    moving_paper: CompactFit<'static, PaperLadder>, 1 not full;
    moving_small_pages: CompactFit<'static, SmallPages, WithStats>, 2 not full;
    moving_in_steps: CompactFit<'static, DefaultLadder, NoStats, 64>, 1 not full, incremental;
    moving_in_steps_small_pages: CompactFit<'static, SmallPages, WithStats, 64>, 2 not full, incremental;
    non_moving: CompactFitNonMoving<'static>, 1 not full, keeps_pages;
    non_moving_with_stats: CompactFitNonMoving<'static, DefaultLadder, 64, WithStats>, 9 not full, keeps_pages;
    non_moving_small_pages: CompactFitNonMoving<'static, SmallPages, 32>, 2 not full, keeps_pages;
    arraylets: Arraylets<'static, CompactFit<'static>>, 1 not full, layered;
    arraylets_paper: Arraylets<'static, CompactFit<'static, PaperLadder>>, 1 not full, layered;
    arraylets_small_pages: Arraylets<'static, CompactFit<'static, SmallPages>>, 2 not full, layered;
    arraylets_in_steps: Arraylets<'static, CompactFit<'static, SmallPages, NoStats, 64>>, 1 not full, incremental, layered;
    arraylets_non_moving: Arraylets<'static, CompactFitNonMoving<'static>>, 1 not full, keeps_pages, layered;
    arraylets_non_moving_small_pages: Arraylets<'static, CompactFitNonMoving<'static, SmallPages, 64>>, 2 not full, keeps_pages, layered;
}

layers! {
    two_levels: Arraylets<'static, CompactFit<'static, SmallPages>>, 1 not full, layered;
    two_levels_in_steps: Arraylets<'static, CompactFit<'static, SmallPages, NoStats, 64>>, 2 not full, incremental, layered;
    two_levels_non_moving: Arraylets<'static, CompactFitNonMoving<'static, SmallPages, 64>>, 1 not full, keeps_pages, layered;
}

explore! {
    tiny_moving_halves: CompactFit<'static, Halves>, 1 not full => by [1, 1020];
    tiny_moving_thirds: CompactFit<'static, Thirds>, 1 not full => by [1, 1020];
    tiny_moving_relaxed: CompactFit<'static, Halves>, 2 not full => by [1, 1020];
    tiny_non_moving: CompactFitNonMoving<'static, Halves, 256>, 1 not full, keeps_pages => by [1, 1020];
    tiny_moving_in_steps: CompactFit<'static, Halves, NoStats, 256>, 1 not full, incremental => by [1, 1020];
    tiny_arraylets: Arraylets<'static, CompactFit<'static, Halves>>, 1 not full, layered => by [1, 1500];
}
