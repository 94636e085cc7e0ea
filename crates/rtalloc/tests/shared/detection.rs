//! The suite finds faults: the tests' own pool with each of many faults, pooled arenas with two, and the tests that
//! must fail for them.

use crate::bits::{Bits, fault};
use crate::chunks;
use crate::subject::{Family, Subject};
use crate::watch::{self, Watched};
use crate::{certainty, history, refusals, schedules, stalls};
use rtalloc::concurrent::atomics::{Atomics, Native, Rmw, Word};
use rtalloc::{PooledArenas, PooledArenasConfig, Tlsf};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::Ordering;

/// The pool with a fault.
struct Faulty<const FAULT: u8>;

impl<const FAULT: u8> Family for Faulty<FAULT> {
    type Config = ();
    type Watched = Bits<'static, FAULT, Watched>;
    type Bare = Bits<'static, FAULT, Native>;
    const SMALL_BYTES: usize = 0x240;
    const LARGE_BYTES: usize = 0x8000;
    const SIZES: &'static [usize] = &[64, 8, 40];

    fn config(_users: usize) {}
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Fails unless a test fails.
fn must_fail(test: fn(&'static Subject), subject: &'static Subject) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = take_hook();
        set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let answer = catch_unwind(|| test(subject));
    QUIET.set(false);
    watch::at_every_step(None, None);
    schedules::end();
    assert!(answer.is_err(), "the fault was not found");
}

macro_rules! detection {
    ($($name:ident: $fault:ident by $($module:ident::$test:ident)*;)*) => {
        $(
            mod $name {
                use super::*;

                $(
                    #[test]
                    fn $test() {
                        must_fail($module::$test, Faulty::<{ fault::$fault }>::SUBJECT);
                    }
                )*
            }
        )*
    };
}

detection! {
    torn_claim: TORN_CLAIM by schedules::at_random schedules::by_priorities stalls::slow_among_fast;
    torn_free: TORN_FREE by schedules::at_random schedules::by_priorities stalls::slow_among_fast;
    retries: RETRIES by stalls::slow_among_fast;
    locked: LOCKED by schedules::at_random schedules::by_priorities stalls::at_every_step stalls::slow_among_fast history::without_refusal;
    rash_exhaustion: RASH_EXHAUSTION by certainty::exhaustion_is_certain;
    torn_tally: TORN_TALLY by schedules::at_random schedules::by_priorities;
    scratch: SCRATCH by schedules::at_random schedules::by_priorities history::without_refusal;
    too_long: TOO_LONG by schedules::at_random schedules::by_priorities;
    long_way: LONG_WAY by refusals::alone;
    late_write: LATE_WRITE by schedules::at_random schedules::by_priorities;
    leak: LEAK by schedules::at_random refusals::freed_by_another;
    reserve: RESERVE by history::without_refusal;
}

thread_local! {
    /// What each user loaded last from each word.
    static LOADED: RefCell<HashMap<(usize, usize), usize>> = RefCell::default();
}

/// Atomics for pooled arenas that are rash in one of two ways. They read the pool's versions once instead of twice, so
/// that every search that finds no run is taken for exhaustion. With `LAST_LOOK`, they leave out the last look at the
/// pending bits instead. Both are the only RMWs of their kind that change nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Rash<const LAST_LOOK: bool>;

// SAFETY: the atomics of the tests, but for RMWs that change nothing.
unsafe impl<const LAST_LOOK: bool> Atomics for Rash<LAST_LOOK> {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        // SAFETY: by this function's contract, here and below.
        let word = unsafe { Watched::load(cell, order) };
        LOADED.with_borrow_mut(|loaded| loaded.insert((watch::who(), cell.addr()), word.widen()));
        word
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        // SAFETY: as above.
        unsafe { Watched::store(cell, value, order) }
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
        match change {
            Rmw::Add if operand.widen() == 0 && !LAST_LOOK => {
                W::narrow(LOADED.with_borrow(|loaded| loaded[&(watch::who(), cell.addr())]))
            }
            Rmw::Or if operand.widen() == 0 && LAST_LOOK => W::narrow(0),
            // SAFETY: as above.
            _ => unsafe { Watched::modify(cell, change, operand, order) },
        }
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        // SAFETY: as above.
        unsafe { Watched::compare_exchange(cell, current, new, order) }
    }
}

/// Pooled arenas with rash atomics.
struct RashArenas<const LAST_LOOK: bool>;

impl<const LAST_LOOK: bool> Family for RashArenas<LAST_LOOK> {
    type Config = PooledArenasConfig;
    type Watched = PooledArenas<'static, Tlsf<'static>, Rash<LAST_LOOK>>;
    type Bare = PooledArenas<'static, Tlsf<'static>, Native>;
    const SMALL_BYTES: usize = 0x3800;
    const LARGE_BYTES: usize = 0x40000;
    const SIZES: &'static [usize] = &[64, 200, 700, 16];

    fn config(users: usize) -> PooledArenasConfig {
        chunks(users)
    }
}

#[test]
fn versions_read_once() {
    must_fail(certainty::exhaustion_is_certain, RashArenas::<false>::SUBJECT);
}

#[test]
fn last_look_left_out() {
    must_fail(certainty::exhaustion_is_certain, RashArenas::<true>::SUBJECT);
}
