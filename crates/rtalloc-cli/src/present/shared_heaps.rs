//! Common parts of the figures of shared allocators: styles, and the curve of rare durations.

use super::palette;
use super::summary::Standing;
use rtalloc_lab::result::schema::{Distribution, Origin, SubjectFacts};

/// An allocator that threads share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharer<'a> {
    pub(crate) name: &'a str,
    pub(crate) origin: Origin,
    /// The kind of lock, if it has one.
    pub(crate) lock: Option<&'a str>,
    /// Whether it takes its pages from the system.
    pub(crate) own_pages: bool,
}

impl Sharer<'_> {
    /// The label of a curve.
    pub(crate) fn standing(self) -> Standing {
        let subject = SubjectFacts {
            name: self.name.into(),
            origin: if self.lock.is_some() { Origin::Peer } else { self.origin },
            family: family(self.name, self.lock).into(),
            cost: String::new(),
            largest_request_bytes: None,
            largest_alignment_bytes: None,
            read_instructions: None,
        };
        Standing { own_pages: self.own_pages, ..Standing::of(subject) }
    }
}

/// The family, as in single-threaded figures; allocators with a lock are a family of their own.
pub(crate) fn family(name: &str, lock: Option<&str>) -> &'static str {
    match name {
        _ if lock.is_some() => palette::LOCKED,
        _ if name.contains("buddy") => "buddy",
        _ if name.starts_with("pooled-arenas") => "segregated",
        _ if name.starts_with("compact-fit") => "compacting",
        _ => "hybrid",
    }
}

/// The x-axis label of a [`rarity`].
pub(crate) const RARITY: &str = "one in this many operations takes at least this long";

/// For each duration in ticks, the number of operations per one that takes at least as long.
#[allow(clippy::cast_precision_loss)] // drawn
pub(crate) fn rarity(ticks: &Distribution) -> Vec<(f64, f64)> {
    let mut shorter = 0;
    let mut points = Vec::new();
    for (value, operations) in &ticks.histogram {
        points.push((ticks.count as f64 / (ticks.count - shorter) as f64, (*value as f64).max(1.0)));
        shorter += operations;
    }
    if let Some((_, longest)) = points.last().copied() {
        points.push((ticks.count as f64, longest));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_ten_operations_is_one_in_ten() {
        let ticks =
            Distribution { count: 10, histogram: vec![(5, 8), (7, 1), (100, 1)], max: 100, ..Distribution::default() };
        assert_eq!(rarity(&ticks), [(1.0, 5.0), (5.0, 7.0), (10.0, 100.0), (10.0, 100.0)]);
    }
}
