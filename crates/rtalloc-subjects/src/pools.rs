//! The sizes of pools that need the smallest region for given limits.

use crate::adapter::{Choice, configured};
use crate::{Reach, Subject};
use rtalloc::Pools;
use rtalloc::limits::{Limit, largest_bytes, most_objects};
use rtalloc::mechanism::word::{Offset32, Width as _};
use rtalloc::segregated::pools::{MOST_POOLS, PoolSizes};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Sizes that are tried in each power of two, where live bytes are limited.
const SIZES_PER_POWER: u32 = 8;

thread_local! {
    /// The sizes of the next heap.
    static SIZES: Cell<PoolSizes> = const { Cell::new(PoolSizes::DEFAULT) };
}

/// The sizes that [`for_limits`] chose.
#[derive(Clone, Copy, Debug)]
struct Chosen;

impl Choice<PoolSizes> for Chosen {
    fn config() -> PoolSizes {
        SIZES.get()
    }
}

/// The subject as it is used for given limits: pools get the sizes of [`sizes_for`]. Heaps must be created by this
/// thread, or by a child process of it, before the next call.
#[must_use]
pub fn for_limits(subject: &'static Subject, limits: &[Limit]) -> &'static Subject {
    let Some(sizes) = subject.about.sizes_for.map(|sizes_for| sizes_for(&[limits])) else { return subject };
    let Some(&request_bytes) = sizes.last() else { return subject };
    SIZES.set(PoolSizes::of(&sizes));
    let reach = Reach { request_bytes, ..subject.reach };
    let with_sizes = configured::<Pools<'static>, Chosen>(subject.name, subject.about);
    Box::leak(Box::new(Subject { reach, ..with_sizes }))
}

/// The largest request of each pool, such that the region is the smallest. Empty if nothing is ever live, or if a
/// request is too large for any pool.
///
/// Some choice of the smallest region has sizes that are the largest of a limit, or one less than the smallest of one,
/// as long as limits count objects; where they count bytes, more sizes are tried.
#[must_use]
pub fn sizes_for(modes: &[&[Limit]]) -> Vec<usize> {
    let largest = largest_bytes(modes);
    if largest == 0 || PoolSizes::checked(&[largest]).is_none() {
        return Vec::new();
    }
    let block = |bytes: usize| (bytes + Offset32::BYTES).next_multiple_of(Offset32::GRANULE);
    // The largest of the requests that take a block of the same size.
    let mut candidates: BTreeMap<usize, usize> = BTreeMap::new();
    let mut consider = |bytes: usize| {
        if (1..=largest).contains(&bytes) {
            let place = candidates.entry(block(bytes)).or_default();
            *place = bytes.max(*place);
        }
    };
    for limit in modes.iter().copied().flatten() {
        consider(limit.largest_bytes());
        consider(limit.smallest_bytes() - 1);
        if limit.live_bytes() != usize::MAX {
            for step in 0..SIZES_PER_POWER * u32::BITS {
                consider(2_f64.powf(f64::from(step) / f64::from(SIZES_PER_POWER)) as usize);
            }
        }
    }
    let candidates: Vec<(usize, usize)> = candidates.into_iter().collect();
    let usable = |index: usize| candidates[index].0 - Offset32::BYTES;
    // The fewest bytes of blocks up to a candidate with some number of pools, and the candidate before it.
    let mut best = vec![[(usize::MAX, 0); MOST_POOLS]; candidates.len()];
    for last in 0..candidates.len() {
        let bytes = |below: usize| most_objects(modes, below + 1, usable(last)).saturating_mul(candidates[last].0);
        best[last][0] = (bytes(0), last);
        for before in 0..last {
            let more = bytes(usable(before));
            for pools in 1..MOST_POOLS {
                let sum = best[before][pools - 1].0.saturating_add(more);
                if sum < best[last][pools].0 {
                    best[last][pools] = (sum, before);
                }
            }
        }
    }
    let mut at = candidates.len() - 1;
    let fewest = (0..MOST_POOLS).min_by_key(|pools| best[at][*pools].0).unwrap_or(0);
    let mut sizes = vec![candidates[at].1];
    for pools in (1..=fewest).rev() {
        at = best[at][pools].1;
        sizes.push(candidates[at].1);
    }
    sizes.reverse();
    sizes
}

/// Bytes of a region in which pools of the best sizes never refuse a request within the limits.
pub(crate) fn region_bytes_for(modes: &[&[Limit]]) -> usize {
    match PoolSizes::checked(&sizes_for(modes)) {
        Some(sizes) => <Pools<'_>>::region_bytes_for_modes(sizes, modes),
        None if largest_bytes(modes) == 0 => 0,
        None => usize::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_limits() {
        let limits = [Limit::up_to(64, 200), Limit::up_to(8, 1500), Limit::up_to(1, 4096)];
        assert_eq!(sizes_for(&[&limits]), [200, 1500, 4096]);
        // Sizes that are close share a pool if few objects have them.
        let limits = [Limit::of(64, 200), Limit::of(1, 230), Limit::of(1, 300)];
        assert_eq!(sizes_for(&[&limits]), [200, 230, 300]);
        let limits = [Limit::up_to(64, 200), Limit::up_to(64, 190)];
        assert_eq!(sizes_for(&[&limits]), [200]);
        assert_eq!(sizes_for(&[&[]]), []);
        assert_eq!(sizes_for(&[&[Limit::of(1, 1 << 31)]]), []);
    }

    /// Against every choice of up to three sizes among all multiples of the granule.
    #[test]
    fn no_other_sizes_need_less() {
        for (a, b, c) in [(1, 50, 3), (9, 50, 3), (40, 100, 90), (3, 160, 1)] {
            let limits = [Limit::between(c, 1, a + 20), Limit::between(7, a + 3, b + 40), Limit::up_to(a, 200)];
            let region =
                |sizes: &[usize]| PoolSizes::checked(sizes).map(|sizes| <Pools<'_>>::region_bytes_for(sizes, &limits));
            let chosen = region_bytes_for(&[&limits]);
            let ends: Vec<usize> = (1..=13).map(|blocks| blocks * Offset32::GRANULE - Offset32::BYTES).collect();
            for first in &ends {
                for second in &ends {
                    let sizes = [*first, *second, 204];
                    let least = [region(&sizes), region(&[*first, 204]), region(&[204])];
                    assert!(least.iter().flatten().all(|bytes| chosen <= *bytes), "{limits:?}: {sizes:?}");
                }
            }
        }
    }

    #[test]
    fn limits_on_bytes_divide_a_power_of_two_further() {
        let sizes = sizes_for(&[&[Limit::live(28 << 10, 16, 4096)]]);
        assert!(sizes.len() > 4 && sizes.last() == Some(&4096), "{sizes:?}");
    }
}
