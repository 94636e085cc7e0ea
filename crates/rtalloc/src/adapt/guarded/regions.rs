//! The regions of guarded heaps, to distinguish a pointer to another heap's block from a stray one.
//!
//! A process remembers the addresses of the most recent heaps' regions. It never reads there, because a region may be
//! gone. A region that overlaps the start of an older one replaces it. This decides only the kind in a report.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many regions are remembered.
const PLACES: usize = 16;

/// A region, and a mix of both addresses, by which a half-written entry is detected.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    seal: AtomicUsize,
}

/// Entries are zero where no region is remembered.
static PLACE: [Place; PLACES] =
    [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), seal: AtomicUsize::new(0) } }; PLACES];
/// The entry that the next region takes if no other is suitable.
static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Place {
    fn get(&self) -> Option<(usize, usize)> {
        let (start, end) = (self.start.load(Relaxed), self.end.load(Relaxed));
        (start < end && self.seal.load(Relaxed) == sealed(start, end)).then_some((start, end))
    }

    fn set(&self, start: usize, end: usize) {
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
        self.seal.store(sealed(start, end), Relaxed);
    }
}

#[inline(always)]
const fn sealed(start: usize, end: usize) -> usize {
    !(start ^ end.rotate_left(usize::BITS / 2))
}

/// Remembers a region.
pub(super) fn remember(start: usize, end: usize) {
    let mut chosen = None;
    // Loop bound: 16
    for place in &PLACE {
        match place.get() {
            // A region that began inside this one is gone. (A region around this one lent a block for it.)
            Some((other_start, _)) if (start..end).contains(&other_start) => {
                place.set(0, 0);
                chosen = Some(place);
            }
            Some(_) => {}
            None => chosen = chosen.or(Some(place)),
        }
    }
    let next = NEXT.load(Relaxed);
    if let Some(place) = chosen.or(PLACE.get(next % PLACES)) {
        place.set(start, end);
    }
    NEXT.store(next.wrapping_add(1), Relaxed);
}

/// Whether an address is in a remembered region that does not contain `own_start`.
pub(super) fn is_elsewhere(address: usize, own_start: usize) -> bool {
    // Loop bound: 16
    PLACE.iter().filter_map(Place::get).any(|(start, end)| {
        let is_around = start <= own_start && own_start < end;
        (start..end).contains(&address) && !is_around
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests make guarded heaps concurrently: these addresses are beyond theirs, and half of the entries suffice.
    #[test]
    fn regions_are_remembered_and_replaced() {
        let base = 7 << 10;
        remember(base, base + 100);
        assert!(is_elsewhere(base + 99, base + 200));
        assert!(!is_elsewhere(base + 100, base + 200) && !is_elsewhere(base + 99, base));
        // A heap in a block of another: its region is its own, for the outer heap as well.
        remember(base + 10, base + 20);
        assert!(is_elsewhere(base + 15, base) && !is_elsewhere(base + 25, base + 10));
        // Another heap at the same place as both.
        remember(base, base + 50);
        assert!(!is_elsewhere(base + 15, base));
    }
}
