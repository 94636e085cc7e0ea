//! The concurrent heaps in the hands of a model checker: every execution of a few threads with a few operations, as the
//! language's memory model allows it.
//!
//! loom explores them. It knows no load that sees a later store (load buffering), and treats what is sequentially consistent
//! as acquire and release. Explorations with a bound on preemptions say so.
//!
//! | module | what is in it |
//! |---|---|
//! | [`scene`] | the words that threads share, as loom's atomics; who owns the memory |
//! | [`controls`] | explorations, and every order weakened alone |
//! | [`numbers`] | numbers that threads take and give back |
//! | [`plays`] | what threads do to any shared heap |
#![cfg(target_pointer_width = "64")]

#[path = "../shared/bits.rs"]
mod bits;
mod controls;
mod numbers;
mod plays;
mod scene;

use bits::{Bits, fault};
use controls::Model;
use scene::Loomed;

/// The bound on preemptions of the larger models: the tests of every day explore fewer executions than those in release.
const FEWER: Option<usize> = if cfg!(debug_assertions) { Some(2) } else { None };

/// A word of two blocks of the pool, and three words.
const ONE_WORD: usize = 64 + 64 + 64 + 2 * 64;
const THREE_WORDS: usize = 2 * ONE_WORD;

fn bits_models<const FAULT: u8>() -> [Model; 5] {
    [
        Model {
            name: "each its own",
            region_bytes: ONE_WORD,
            preemptions: None,
            execution: plays::each_its_own::<Bits<'static, FAULT, Loomed>, 64>,
        },
        Model {
            name: "both are refused",
            region_bytes: ONE_WORD,
            preemptions: None,
            execution: plays::both_are_refused::<Bits<'static, FAULT, Loomed>>,
        },
        Model {
            name: "one is left",
            region_bytes: THREE_WORDS,
            preemptions: None,
            execution: plays::one_is_left::<Bits<'static, FAULT, Loomed>, 64>,
        },
        Model {
            name: "one frees",
            region_bytes: ONE_WORD,
            preemptions: FEWER,
            execution: plays::one_frees::<Bits<'static, FAULT, Loomed>, 64>,
        },
        Model {
            name: "one frees twice",
            region_bytes: ONE_WORD,
            preemptions: FEWER,
            execution: plays::one_frees_twice::<Bits<'static, FAULT, Loomed>, 64>,
        },
    ]
}

/// The pool without a fault satisfies every model, and every order that it asks for is needed.
#[test]
fn bits() {
    controls::verify("bits", &bits_models::<{ fault::NONE }>());
}

/// Every fault of the pool that threads alone can bring to light makes a model fail.
#[test]
fn bits_with_faults() {
    controls::refute("torn claim", &bits_models::<{ fault::TORN_CLAIM }>());
    controls::refute("torn free", &bits_models::<{ fault::TORN_FREE }>());
    controls::refute("locked", &bits_models::<{ fault::LOCKED }>());
    controls::refute("rash exhaustion", &bits_models::<{ fault::RASH_EXHAUSTION }>());
    controls::refute("torn tally", &bits_models::<{ fault::TORN_TALLY }>());
    controls::refute("scratch", &bits_models::<{ fault::SCRATCH }>());
    controls::refute("long way", &bits_models::<{ fault::LONG_WAY }>());
}

/// Nobody has a number that another has, and whatever an owner did comes before the next one's.
#[test]
fn numbers_of_threads() {
    controls::verify("numbers", &numbers::MODELS);
}
