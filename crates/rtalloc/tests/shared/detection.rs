//! The suite finds faults: the pool with each of many faults, and the tests that must fail for it.

use crate::bits::{Bits, fault};
use crate::subject::{Family, Subject};
use crate::watch::{self, Watched};
use crate::{certainty, history, refusals, schedules, stalls};
use rtalloc::concurrent::atomics::Native;
use std::cell::Cell;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::Once;

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
