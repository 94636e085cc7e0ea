//! Handles without a live object: the heap refuses them, and nothing changes.

use super::ops;
use super::property::most_region_bytes;
use super::shadow::Shadow;
use super::subject::Subject;
use crate::memory::Buffer;
use crate::ops::{Distribution, Random};
use crate::property::holds;
use proptest::prelude::*;
use rtalloc::contract::Handle;
use std::num::NonZeroU64;

/// After every operation of any sequence, every handle that was ever freed is refused in every way.
pub fn stale_handles() {
    let buffer = Buffer::new(most_region_bytes());
    holds(48, prop::collection::vec(ops::op(), 1..100), |ops| {
        let mut shadow = Shadow::new(&buffer, most_region_bytes(), 1);
        for op in &ops {
            shadow.apply(op);
            let state = shadow.heap.fingerprint();
            shadow.assert_stale();
            assert!(state == shadow.heap.fingerprint(), "using stale handles changed the heap");
        }
        shadow.finish();
    });
}

/// Handles that the heap never returned: numbers near those it returned, random numbers, handles of another heap. Each
/// is refused, unless it happens to be the number of a live object.
pub fn foreign_handles() {
    let buffer = Buffer::new(most_region_bytes());
    let other_buffer = Buffer::new(most_region_bytes());
    let mut shadow = Shadow::new(&buffer, most_region_bytes(), 1 << 20);
    // SAFETY: the heap is not used after this function; the buffer outlives it.
    let mut other = unsafe { Subject::new(&other_buffer, 0, most_region_bytes()) }.expect("large enough");
    let mut random = Random::new(1, Distribution::Small, 0, 0);
    for number in 0..60 {
        shadow.try_allocate(1 + number * 37 % 300);
    }
    assert!(shadow.live.len() > 40, "{} objects are few", shadow.live.len());
    for index in [3, 40, 17, 17, 5, 9] {
        shadow.apply(&ops::HandleOp::Heap(crate::ops::Op::Free { index }));
    }
    let mut bits: Vec<u64> = (0..200).collect();
    for object in &shadow.live {
        let number = object.handle.to_bits().get();
        bits.extend((0..64).map(|bit| number ^ 1 << bit));
        bits.extend((0..40).map(|generation| u64::from(number as u32) | generation << 32));
        bits.extend((0..100).map(|_| u64::from(number as u32) | (random.below(1 << 31) as u64) << 32));
    }
    // Every address near those returned, with generations that were used.
    bits.extend((0..40_000).flat_map(|address| (0..4).map(move |generation| address | generation << 32)));
    bits.extend((0..10_000).map(|_| (random.below(1 << 31) as u64) << 33 | random.below(1 << 31) as u64));
    while let Ok(handle) = other.allocate(40) {
        bits.push(handle.to_bits().get());
    }
    let live: Vec<u64> = shadow.live.iter().map(|object| object.handle.to_bits().get()).collect();
    let state = shadow.heap.fingerprint();
    let bytes = shadow.heap.stats().is_none().then(|| buffer.save());
    let mut tried = 0;
    for handle in bits.into_iter().filter(|bits| !live.contains(bits)).filter_map(NonZeroU64::new) {
        shadow.assert_refused(Handle::from_bits(handle), None);
        tried += 1;
    }
    assert!(tried > 10_000);
    assert!(state == shadow.heap.fingerprint() && bytes.is_none_or(|bytes| bytes == buffer.bytes()));
    shadow.finish();
}
