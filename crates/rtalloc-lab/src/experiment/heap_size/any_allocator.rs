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
pub fn smallest_heap(m: usize, n: usize, least_units: usize, most_positions: u64) -> Option<usize> {
    for cells in least_units.max(m).. {
        let game = Game::new(cells, m, n);
        if game.positions() > most_positions {
            return None;
        }
        if !game.is_lost() {
            return Some(cells);
        }
    }
    None
}

/// An object in a heap of cells.
#[derive(Clone, Copy, Debug)]
struct Object {
    at: usize,
    units: usize,
}

struct Game {
    cells: usize,
    m: usize,
    n: usize,
    /// The number of positions of h cells with at most b units is `counts[h][b]`: positions are numbered by it.
    counts: Vec<Vec<u64>>,
}

/// A bit for every position.
type Lost = [AtomicU64];

fn is_lost(lost: &Lost, position: u64) -> bool {
    lost[(position / 64) as usize].load(Ordering::Relaxed) >> (position % 64) & 1 != 0
}

impl Game {
    fn new(cells: usize, m: usize, n: usize) -> Self {
        let mut counts: Vec<Vec<u64>> = vec![vec![1; m + 1]];
        for h in 1..=cells {
            let with = |b: usize, k: usize| counts[h - k][b - k];
            let count = |b: usize| counts[h - 1][b] + (1..=n.min(h).min(b)).map(|k| with(b, k)).sum::<u64>();
            let row = (0..=m).map(count).collect();
            counts.push(row);
        }
        Self { cells, m, n, counts }
    }

    fn positions(&self) -> u64 {
        self.counts[self.cells][self.m]
    }

    /// The number of positions before those that continue with an object of `units`, where `h` cells and `b` units are
    /// left.
    fn before(&self, h: usize, b: usize, units: usize) -> u64 {
        self.counts[h - 1][b] + (1..units).map(|k| self.counts[h - k][b - k]).sum::<u64>()
    }

    /// The number of the position with these objects, in the order of their places.
    fn number(&self, objects: impl Iterator<Item = Object>) -> u64 {
        let (mut number, mut left) = (0, self.m);
        for Object { at, units } in objects {
            number += self.before(self.cells - at, left, units);
            left -= units;
        }
        number
    }

    /// Whether the empty heap is lost.
    fn is_lost(&self) -> bool {
        let words = self.positions().div_ceil(64) as usize;
        let lost: Vec<AtomicU64> = std::iter::repeat_with(AtomicU64::default).take(words).collect();
        loop {
            let has_changed = AtomicBool::new(false);
            // The first cells of the positions of each thread.
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

/// Where the positions are divided between threads.
const DIVIDED_AT: usize = 6;

impl Sweep<'_> {
    /// Visits the positions that begin with the present objects and go on at a cell, with `left` units left; `number`
    /// is that of the first of them.
    fn from(&mut self, at: usize, left: usize, number: u64) {
        if at >= self.game.cells {
            if !is_lost(self.lost, number) && self.loses() {
                self.lost[(number / 64) as usize].fetch_or(1 << (number % 64), Ordering::Relaxed);
                self.has_changed.store(true, Ordering::Relaxed);
            }
            return;
        }
        if at == DIVIDED_AT.min(self.game.cells - 1) && number as usize % self.threads != self.thread {
            // An object across this cell is in no thread's part: it is visited by all.
            return;
        }
        self.from(at + 1, left, number);
        for units in 1..=self.game.n.min(left).min(self.game.cells - at) {
            self.objects.push(Object { at, units });
            let number = number + self.game.before(self.game.cells - at, left, units);
            self.from(at + units, left - units, number);
            self.objects.pop();
        }
    }

    /// Whether the position leads to lost ones.
    fn loses(&self) -> bool {
        let objects = &self.objects;
        let without = |freed: usize| objects.iter().enumerate().filter(move |(at, _)| *at != freed).map(|(_, one)| *one);
        if (0..objects.len()).any(|freed| is_lost(self.lost, self.game.number(without(freed)))) {
            return true;
        }
        let left = self.game.m - objects.iter().map(|object| object.units).sum::<usize>();
        (1..=self.game.n.min(left)).any(|units| !self.can_place(units))
    }

    /// Whether a request can be placed so that the position is not lost.
    fn can_place(&self, units: usize) -> bool {
        let mut begin = 0;
        for place in 0..=self.objects.len() {
            let end = self.objects.get(place).map_or(self.game.cells, |object| object.at);
            for at in begin..(end + 1).saturating_sub(units).max(begin) {
                let (before, after) = self.objects.split_at(place);
                let all = before.iter().copied().chain([Object { at, units }]).chain(after.iter().copied());
                if !is_lost(self.lost, self.game.number(all)) {
                    return true;
                }
            }
            begin = self.objects.get(place).map_or(end, |object| object.at + object.units);
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
            assert_eq!(smallest_heap(m, 2.min(m), 1, 1 << 24), Some((3 * m - 1) / 2), "M = {m}");
        }
    }
}
