//! Long runs with fixed seeds.

use super::memory::{Buffer, within_reach};
use super::ops::{Distribution, Random};
use super::shadow::Shadow;
use super::subject::facts;
use super::tier::Tiers;

/// Operations of a long run: 10^6 in the full tier without debug assertions.
pub const OPERATIONS: Tiers<usize> =
    Tiers { daily: 30_000, full: if cfg!(debug_assertions) { 100_000 } else { 1_000_000 } };

/// Random operations with three size distributions, on a heap of 1 MiB or as large as the tags reach.
pub fn fixed_seed() {
    let heap_bytes = within_reach(1 << 20);
    let buffer = Buffer::new(heap_bytes);
    let each = OPERATIONS.now() / Distribution::ALL.len() + 1;
    let mut done = 0;
    let mut most_live = 0;
    for (seed, distribution) in Distribution::ALL.into_iter().enumerate() {
        let mut shadow = Shadow::new(&buffer, heap_bytes, 2_003);
        let mut random = Random::new(seed as u64 + 1, distribution, heap_bytes, (heap_bytes / 200).min(3_000));
        for _ in 0..each {
            let op = random.next(shadow.live.len());
            shadow.apply(&op);
            most_live = most_live.max(shadow.live.len());
        }
        done += each;
        shadow.finish();
    }
    println!(
        "{}, {}: {done} operations in {heap_bytes} bytes, up to {most_live} live blocks",
        facts().name,
        facts().policy
    );
}
