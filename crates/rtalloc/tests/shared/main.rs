//! The test suite of the concurrent heaps: one macro instantiates every test for every heap.
//!
//! | module | what it tests |
//! |---|---|
//! | [`subject`] | the heap under test, type-erased |
//! | [`watch`] | every step of a heap: counts it, checks it against the bound, and runs an event |
//! | [`world`] | a heap, its users, and a record of owners and refusals |
//! | [`stress`], [`compact_fit_threads`] | threads of the operating system |
//! | [`schedules`] | a scheduler orders the users' steps |
//! | [`stalls`] | one user stops for good, at each of its steps |
//! | [`bounds`] | step bounds hold however a block got its size |
//! | [`refusals`] | a refusal gives the right reason |
//! | [`certainty`] | no request reports exhaustion while a block is free |
//! | [`history`] | linearizability: one user alone could do the same |
//! | [`interrupts`] | signal handlers that use the heap they interrupt |
//! | [`processes`] | processes that share a heap, one of them stopped |
//! | [`objects`] | the same for a heap of handles, whose objects move and are pinned |
//! | [`bits`] | the simplest shared heap, with faults |
//! | [`detection`] | the tests find these faults |

#[path = "../suite/apart.rs"]
mod apart;
mod bits;
mod bounds;
#[cfg(target_pointer_width = "64")]
mod certainty;
mod compact_fit_threads;
#[cfg(target_pointer_width = "64")]
mod detection;
#[cfg(target_pointer_width = "64")]
mod history;
#[cfg(target_os = "linux")]
mod interrupts;
#[cfg(target_pointer_width = "64")]
mod objects;
#[path = "../suite/pattern.rs"]
mod pattern;
#[cfg(target_os = "linux")]
mod processes;
mod refusals;
#[cfg(target_pointer_width = "64")]
mod schedules;
#[cfg(target_pointer_width = "64")]
mod stalls;
mod stress;
mod subject;
#[path = "../tier/mod.rs"]
mod tier;
mod watch;
mod world;

use bits::{Bits, fault};
use rtalloc::adapt::{BackoffLock, Cached, Locked};
use rtalloc::concurrent::atomics::Native;
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, BitmapConfig, Trimmed, Whole};
use rtalloc::concurrent::tree_buddy::{Everything, Faithful, InBand, OutOfBand, TreeBuddy};
use rtalloc::concurrent::{PooledArenas, PooledArenasConfig};
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::BasicSettingAside;
use rtalloc::mechanism::word::Wide;
use rtalloc::{TagConfig, Tlsf};
use subject::{Family, family};
use watch::Watched;

/// Calls a macro with a family and every test for heaps whose users may wait for each other.
macro_rules! tests_of_blocking {
    ($with:ident, $family:ty) => {
        $with! { $family;
            short_of_memory: crate::stress::short_of_memory,
            with_memory_to_spare: crate::stress::with_memory_to_spare,
            threads_come_and_go: crate::stress::threads_come_and_go,
            refused_alone: crate::refusals::alone,
            freed_by_another: crate::refusals::freed_by_another,
            larger_than_freed: crate::refusals::larger_than_freed,
            resized_in_place: crate::bounds::resized_in_place,
        }
    };
}

/// Calls a macro with a family and every test.
macro_rules! every_test {
    ($with:ident, $family:ty) => {
        tests_of_blocking!($with, $family);
        #[cfg(target_os = "linux")]
        $with! { $family;
            signal_at_every_step (apart): crate::interrupts::at_every_step,
            signal_at_any_time (apart): crate::interrupts::at_any_time,
            process_stopped_at_every_step (apart): crate::processes::stopped_at_every_step,
        }
        #[cfg(target_pointer_width = "64")]
        $with! { $family;
            schedules_at_random: crate::schedules::at_random,
            schedules_by_priorities: crate::schedules::by_priorities,
            stalled_at_every_step: crate::stalls::at_every_step,
            slow_among_fast: crate::stalls::slow_among_fast,
            exhaustion_is_certain: crate::certainty::exhaustion_is_certain,
            history_without_refusal: crate::history::without_refusal,
        }
    };
}

macro_rules! instantiate {
    ($family:ty; $($test:ident $(($apart:ident))?: $path:path,)*) => {
        $(
            #[test]
            fn $test() {
                use $path as run;
                call!($test, || run(<$family>::SUBJECT) $(, $apart)?);
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

/// Instantiates every test for each heap, in a module of the given name.
macro_rules! suite {
    ($($name:ident: $heap:ty, config: |$users:ident| $config:expr, regions: $small:literal $large:literal, sizes: $sizes:expr;)*) => {
        $(
            mod $name {
                use super::*;

                family!(Heaps: $heap, |$users| $config, $small, $large, $sizes);
                every_test!(instantiate, Heaps);
            }
        )*
    };
}

/// The same for heaps whose users may wait for each other: no signal handler uses them, and no user stops in an
/// operation.
macro_rules! suite_of_blocking {
    ($($name:ident: $heap:ty, config: |$users:ident| $config:expr, regions: $small:literal $large:literal, sizes: $sizes:expr;)*) => {
        $(
            mod $name {
                use super::*;

                family!(Heaps: $heap, |$users| $config, $small, $large, $sizes);
                tests_of_blocking!(instantiate, Heaps);
            }
        )*
    };
}

/// The heap in the slots of the malloc replacement.
type CachedTlsf = Cached<'static, Tlsf<'static, 5, RoundUp, Wide, NoStats, BasicSettingAside>>;

/// Pooled arenas for `users`.
fn chunks(users: usize) -> PooledArenasConfig {
    PooledArenasConfig { slots: users, ..PooledArenasConfig::default() }
}

suite! {
    sound_bits: Bits<'static, { fault::NONE }, A>, config: |_users| (), regions: 0x240 0x8000, sizes: &[64, 8, 40];
    pooled_arenas: PooledArenas<'static, Tlsf<'static>, A>, config: |users| chunks(users), regions: 0x3800 0x40000, sizes: &[64, 200, 700, 16];
    cached_pooled_arenas: PooledArenas<'static, CachedTlsf, A>, config: |users| chunks(users), regions: 0x8000 0x40000, sizes: &[64, 200, 700, 16];
    bitmap_buddy: BitmapBuddy<'static, 64, A>, config: |users| BitmapConfig { slots: users }, regions: 0x1000 0x40000, sizes: &[64, 200, 700, 16];
    bitmap_buddy_deep: BitmapBuddy<'static, 64, A, Trimmed<2>>, config: |users| BitmapConfig { slots: users }, regions: 0x1000 0x10000, sizes: &[64, 200, 700, 16];
    bitmap_buddy_whole: BitmapBuddy<'static, 64, A, Whole<1>>, config: |users| BitmapConfig { slots: users }, regions: 0x1000 0x10000, sizes: &[64, 200, 700, 16];
    tree_buddy: TreeBuddy<'static, 64, OutOfBand, Faithful, A>, config: |_users| (), regions: 0x1000 0x10000, sizes: &[64, 8, 150, 400];
    tree_buddy_in_band: TreeBuddy<'static, 64, InBand, Faithful, A>, config: |_users| (), regions: 0x1000 0x10000, sizes: &[40, 8, 150, 400];
    tree_buddy_everything: TreeBuddy<'static, 64, OutOfBand, Everything, A>, config: |_users| (), regions: 0x1000 0x10000, sizes: &[64, 8, 150, 400];
    tree_buddy_everything_in_band: TreeBuddy<'static, 64, InBand, Everything, A>, config: |_users| (), regions: 0x1000 0x10000, sizes: &[40, 8, 150, 400];
}

suite_of_blocking! {
    locked_tlsf: Locked<'static, Tlsf<'static>, BackoffLock<A>>, config: |_users| TagConfig::default(), regions: 0xC00 0x8000, sizes: &[64, 8, 40, 300];
}
