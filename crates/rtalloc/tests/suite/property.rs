//! Property tests: random operation sequences on heaps of many sizes, shrunk to the shortest that fails.
//!
//! The seed is fixed, so that failures are reproducible; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` override it.

use super::memory::{Buffer, servable, smallest_region_bytes, within_reach};
use super::ops::{self, Op};
use super::shadow::Shadow;
use super::subject::facts;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use rtalloc::contract::Coalescing;
use std::cell::Cell;
use std::fmt::Debug;

/// The largest heap of a property test, in bytes.
const MOST_BYTES: usize = 1 << 16;

thread_local! {
    static IS_SHRINKING: Cell<bool> = const { Cell::new(true) };
}

/// Runs `body` with properties that do not shrink the first failure: enough to know that there is one.
#[cfg(target_pointer_width = "64")]
pub fn without_shrinking(body: impl FnOnce()) {
    IS_SHRINKING.set(false);
    body();
    IS_SHRINKING.set(true);
}

/// Runs a property over values of a strategy.
pub fn holds<S: Strategy>(cases: u32, strategy: S, property: impl Fn(S::Value))
where
    S::Value: Debug,
{
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config.failure_persistence = None;
    config.max_shrink_iters = if IS_SHRINKING.get() { 4096 } else { 0 };
    let outcome = TestRunner::new(config).run(&strategy, |value| {
        property(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// Lengths of regions: the smallest accepted, those just above it, and up to 64 KiB.
pub fn region_lengths() -> impl Strategy<Value = usize> {
    let smallest = smallest_region_bytes();
    let most = within_reach(MOST_BYTES);
    prop_oneof![
        1 => Just(smallest),
        3 => smallest..smallest + 300,
        4 => (smallest + 300).min(4000).max(smallest)..4096usize.max(smallest + 301),
        2 => 4096usize.max(smallest)..most,
        1 => Just(most),
    ]
}

/// The heap keeps the contract through any sequence.
pub fn any_sequence() {
    let buffer = Buffer::new(within_reach(MOST_BYTES).max(MOST_BYTES));
    let case = (region_lengths(), prop::collection::vec(ops::op(), 1..160));
    holds(160, case, |(len_bytes, ops)| {
        let mut shadow = Shadow::new(&buffer, len_bytes, 1);
        for op in &ops {
            shadow.apply(op);
        }
        shadow.finish();
    });
}

/// In every state that a sequence reaches, the largest allocatable request succeeds, and one byte more is refused if
/// the contract says that the promise is exact.
pub fn largest_allocatable_is_kept() {
    let buffer = Buffer::new(within_reach(MOST_BYTES).max(MOST_BYTES));
    let case = (region_lengths(), prop::collection::vec(ops::op(), 1..80));
    holds(96, case, |(len_bytes, ops)| {
        let mut shadow = Shadow::new(&buffer, len_bytes, 16);
        for op in &ops {
            assert_largest(&mut shadow);
            shadow.apply(op);
        }
        assert_largest(&mut shadow);
    });
}

/// Tries the promise of the heap's present state, and undoes the attempt.
pub fn assert_largest(shadow: &mut Shadow<'_>) {
    let most = shadow.allocator.largest_allocatable();
    let align_bytes = facts().alignment_bytes;
    let saved = shadow.buffer.save();
    if most == 0 && facts().coalescing != Coalescing::Deferred {
        let answer = shadow.allocator.allocate_bytes(1, 1);
        assert!(answer.is_err(), "one byte was allocatable although the heap reported that nothing is");
    } else if most != 0 {
        let answer = shadow.allocator.allocate_bytes(most, align_bytes);
        assert!(answer.is_ok(), "{most} bytes were promised and refused: {answer:?}");
        shadow.buffer.restore(&saved);
        if facts().largest_is_exact {
            let answer = shadow.allocator.allocate_bytes(most + 1, align_bytes);
            assert!(answer.is_err(), "{} bytes were allocatable, one more than promised", most + 1);
        }
    }
    shadow.buffer.restore(&saved);
}

/// A freed block serves the same request again, in every allocator that does not skip the class of a block it granted.
/// For every size, the heap is filled and single blocks are replaced.
pub fn freed_block_serves_again() {
    let len_bytes = within_reach(1 << 15);
    let buffer = Buffer::new(len_bytes);
    for size_bytes in (1..servable(2100)).step_by(7) {
        let mut shadow = Shadow::new(&buffer, len_bytes, 1 << 20);
        while shadow.allocate(size_bytes) {}
        for index in [0, shadow.live.len() / 2, shadow.live.len() - 1] {
            let address = shadow.live[index].address();
            shadow.apply(&Op::Free { index });
            assert!(shadow.allocate(size_bytes), "a freed block of {size_bytes} bytes did not serve again");
            assert!(
                shadow.find(address).is_some(),
                "{size_bytes} bytes came from elsewhere although the heap was full"
            );
        }
        shadow.audit();
    }
}
