//! The smallest heap that an allocator which moves nothing can manage with: a game of two players.
//!
//! The program requests and frees, the allocator chooses the place of every object, and loses when no gap is as large
//! as a request. A position is the set of live objects with their places. It is *lost* for the allocator
//!
//! - if freeing an object leads to a lost position, or
//! - if there is a request such that every place for it leads to a lost position, or no place is left.
//!
//! The lost positions are the smallest set with these two properties; an allocator that keeps to the others is never
//! refused. It may be any algorithm, with any memory of the past: a position that is not lost now stays winnable.
//!
//! Known value, as a check: with requests of 1 and 2, M units need `floor((3M - 1) / 2)` (Knuth, The Art of Computer
//! Programming, volume 1, section 2.5, exercises 36 to 38).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The smallest heap in which some allocator serves every program with at most `m` units live and requests of 1 to `n`,
/// found by trying all heaps from `least_units` on. `None` if a heap has more than `most_positions` positions.
#[must_use]
pub fn smallest_heap(m: usize, n: usize, least_units: usize, most_positions: u64) -> Option<Found> {
    for cells in least_units.max(m).. {
        let game = Game::new(cells, m, n);
        if game.positions() > most_positions {
            return None;
        }
        if !game.is_lost() {
            return Some(Found { cells, positions: game.positions() });
        }
    }
    None
}

/// A heap that suffices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its units.
    pub cells: usize,
    /// The positions of the game in it.
    pub positions: u64,
}

struct Game {
    cells: usize,
    m: usize,
    n: usize,
    /// The number of positions of h cells with at most b units is `counts[h][b]`: positions are numbered by it.
    counts: Vec<Vec<u64>>,
    /// The number of positions before those that begin with an object of k units is `before[h][b][k]`.
    before: Vec<Vec<Vec<u64>>>,
}

/// A bit for every position.
type Lost = [AtomicU64];

fn is_lost(lost: &Lost, position: u64) -> bool {
    lost[(position / 64) as usize].load(Ordering::Relaxed) >> (position % 64) & 1 != 0
}

impl Game {
    fn new(cells: usize, m: usize, n: usize) -> Self {
        let mut game = Self { cells, m, n, counts: vec![vec![1; m + 1]], before: vec![Vec::new()] };
        for h in 1..=cells {
            let (mut counts, mut before) = (Vec::new(), Vec::new());
            for b in 0..=m {
                let mut count = game.counts[h - 1][b];
                let mut of_sizes = vec![0];
                for k in 1..=n.min(h).min(b) {
                    of_sizes.push(count);
                    count += game.counts[h - k][b - k];
                }
                counts.push(count);
                before.push(of_sizes);
            }
            game.counts.push(counts);
            game.before.push(before);
        }
        game
    }

    fn positions(&self) -> u64 {
        self.counts[self.cells][self.m]
    }

    /// Whether the empty heap is lost.
    fn is_lost(&self) -> bool {
        let words = self.positions().div_ceil(64) as usize;
        let lost: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        loop {
            let has_changed = AtomicBool::new(false);
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            std::thread::scope(|scope| {
                for thread in 0..threads {
                    let (lost, has_changed) = (&lost[..], &has_changed);
                    scope.spawn(move || {
                        let mut sweep = Sweep { game: self, lost, has_changed, objects: Vec::new(), thread, threads };
                        sweep.from(0, self.m, 0);
                    });
                }
            });
            if is_lost(&lost, 0) {
                return true;
            }
            if !has_changed.into_inner() {
                return false;
            }
        }
    }
}

/// An object of a position: its place, and the number and the units left before it.
#[derive(Clone, Copy, Debug)]
struct Object {
    at: usize,
    units: usize,
    number: u64,
    left: usize,
}

/// Visits every position and marks those that are lost.
struct Sweep<'a> {
    game: &'a Game,
    lost: &'a Lost,
    has_changed: &'a AtomicBool,
    /// Of the position, in the order of their places.
    objects: Vec<Object>,
    thread: usize,
    threads: usize,
}

/// The cell at which positions are divided between threads. A position with an object across it is visited by all.
const DIVIDED_AT: usize = 6;

impl Sweep<'_> {
    /// Visits the positions that begin with the present objects and go on at a cell, with `left` units left; `number`
    /// is that of the first of them.
    fn from(&mut self, at: usize, left: usize, number: u64) {
        if at >= self.game.cells {
            if !is_lost(self.lost, number) && self.loses(number, left) {
                self.lost[(number / 64) as usize].fetch_or(1 << (number % 64), Ordering::Relaxed);
                self.has_changed.store(true, Ordering::Relaxed);
            }
            return;
        }
        if at == DIVIDED_AT && number as usize % self.threads != self.thread {
            return;
        }
        self.from(at + 1, left, number);
        for units in 1..=self.game.n.min(left).min(self.game.cells - at) {
            self.objects.push(Object { at, units, number, left });
            let number = number + self.game.before[self.game.cells - at][left][units];
            self.from(at + units, left - units, number);
            self.objects.pop();
        }
    }

    /// The number of a position that is as far as cell `at` the one with this number and these units left, and then has
    /// the objects given.
    fn number(&self, mut number: u64, mut left: usize, objects: &[Object]) -> u64 {
        for object in objects {
            number += self.game.before[self.game.cells - object.at][left][object.units];
            left -= object.units;
        }
        number
    }

    /// Whether the position with the present objects leads to lost ones.
    fn loses(&self, number: u64, left: usize) -> bool {
        for (freed, object) in self.objects.iter().enumerate() {
            if is_lost(self.lost, self.number(object.number, object.left, &self.objects[freed + 1..])) {
                return true;
            }
        }
        (1..=self.game.n.min(left)).any(|units| !self.can_place(units, number, left))
    }

    /// Whether a request can be placed so that the position is not lost.
    fn can_place(&self, units: usize, number: u64, left: usize) -> bool {
        let mut begin = 0;
        for place in 0..=self.objects.len() {
            let next = self.objects.get(place);
            let (end, number, left) =
                next.map_or((self.game.cells, number, left), |next| (next.at, next.number, next.left));
            for at in begin..(end + 1).saturating_sub(units).max(begin) {
                let number = number + self.game.before[self.game.cells - at][left][units];
                if !is_lost(self.lost, self.number(number, left - units, &self.objects[place..])) {
                    return true;
                }
            }
            begin = next.map_or(end, |next| next.at + next.units);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_games_have_the_published_values() {
        for m in 1..=8 {
            let found = smallest_heap(m, 2.min(m), 1, 1 << 24).expect("few positions");
            assert_eq!(found.cells, ((3 * m - 1) / 2).max(m), "M = {m}");
        }
    }
}
