//! Where guarded heaps are, so that a pointer to the block of another heap is told from a stray one.
//!
//! A process remembers the regions of the heaps that were made last, as numbers: nothing is ever read there, because a region may
//! be gone. One that was made where an older one had been takes its place. Whatever is remembered decides the word in a report,
//! nothing else.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many regions are remembered.
const PLACES: usize = 16;

/// A region, and both addresses mixed, by which a half-written place is told.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    seal: AtomicUsize,
}

/// Places are zero where nothing is remembered.
static PLACE: [Place; PLACES] =
    [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0), seal: AtomicUsize::new(0) } }; PLACES];
/// The place that the next region takes if no other offers itself.
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

const fn sealed(start: usize, end: usize) -> usize {
    !(start ^ end.rotate_left(usize::BITS / 2))
}

/// Remembers a region.
pub(super) fn remember(start: usize, end: usize) {
    let mut chosen = None;
    // turns: 16
    for place in &PLACE {
        match place.get() {
            // Whatever began inside is gone. (What this one is inside of is the region of a heap that lent a block for it.)
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

/// Whether an address is in a region other than that which begins at `own_start`, and not around it.
pub(super) fn is_elsewhere(address: usize, own_start: usize) -> bool {
    // turns: 16
    PLACE.iter().filter_map(Place::get).any(|(start, end)| {
        let is_around = start <= own_start && own_start < end;
        (start..end).contains(&address) && !is_around
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests make guarded heaps meanwhile: these addresses are beyond theirs, and half of the places enough.
    #[test]
    fn regions_are_remembered_and_replaced() {
        let base = 7 << 10;
        remember(base, base + 100);
        assert!(is_elsewhere(base + 99, base + 200));
        assert!(!is_elsewhere(base + 100, base + 200) && !is_elsewhere(base + 99, base));
        // A heap in a block of another: what is in its region is its own, for the other one as well.
        remember(base + 10, base + 20);
        assert!(is_elsewhere(base + 15, base) && !is_elsewhere(base + 25, base + 10));
        // Another heap where both were.
        remember(base, base + 50);
        assert!(!is_elsewhere(base + 15, base));
    }
}
