//! Combs: objects of one unit, as far apart as the largest request is long.
//!
//! # Against best-fit
//!
//! Best-fit takes the smallest gap that suffices, so the adversary cannot place a small object freely: it goes to the
//! smallest gap. Robson (1977) found a way around this; exercise 42 of Knuth's section 2.5 (The Art of Computer
//! Programming, volume 1, third edition) gives the idea. This is our own construction, with a step `c`, which is 1 in
//! Robson's. Let R denote live units and F free units, n the largest request, p = n - 2c, f = 2p - n - c.
//!
//! The state is `R_p (F_(p-1) R_1)*`: each tooth of one unit uses p units of memory, and no gap is large enough for a
//! request of p. A tooth is added as follows:
//!
//! ```text
//! ... R_1                      two blocks of p: only the end of the heap is large enough
//! ... R_1 R_p R_p              the last tooth and the first block are freed: the only gap above p - 1
//! ... [    F_2p   ]            n, then f: both are placed there and leave the smallest gap, so 1 is placed there too
//! ... R_n R_f R_1              n is freed
//! ... F_n R_f R_1              a tooth n + f = 2p - c after the previous one: one is missing between them
//! ```
//!
//! The missing tooth cannot be placed there directly, but its position can be moved towards the start of the heap,
//! tooth by tooth:
//!
//! ```text
//! F_(p-1) R_1   F_n R_f R_1    p is placed in the gap of n, and 2c fills it
//! F_(p-1) R_1 R_p R_2c R_f R_1 the left tooth and p are freed: a gap of 2p, the only one above p - 1
//! R_n R_f R_1      R_2c R_f R_1  n, f and 1 are placed as above; n, 2c and the right f are freed
//! F_n R_f R_1   F_(p-1) R_1    (2c + f = p - c, and c - 1 units lie between the 1 and 2c)
//! ```
//!
//! until it reaches `R_p`. The same step then leaves `F_n R_f R_1` before everything else; f is freed and p requested.
//! The result is `R_p (F_(p-1) R_1)*` with one more tooth, for p units of memory and one live unit. (If c is not 1,
//! some gaps have p - c units.) About 4n further units are needed, so (M - 4n + 11)(n - 2) units of ample memory are
//! used (c = 1).
//!
//! In a heap that is almost full, the end of the heap is a gap like the others, and may be chosen instead of the
//! intended one. Two blocks of n detect this case: either they are refused, or the end has more than 2p units. They
//! cost n more units, so heaps of up to (M - 5n)(n - 2) units are certain to be too small; of larger ones, most are.
//!
//! No size class may contain both p - 1 and p, or both f and p - 1; `c` is the resolution of the size classes.
//!
//! # Against next-fit
//!
//! Next-fit continues from its last position, so each request is placed after the previous one: n - 1, then 1, and n -
//! 1 is freed. To keep the next search from starting at the resulting gap, a block of n, for which the gap is too
//! small, is requested and freed.
//!
//! # Against half-fit
//!
//! Half-fit takes the most recently freed block of a list, and never searches the list of the request's own size,
//! unless the size is a power of two. Let n be a power of two, F = n - 1, and A = B = n/2 + 1 units; all of these
//! belong to one list, and requests for them search the next one:
//!
//! ```text
//! ... R_F                      A and B are placed at the end of the heap
//! ... R_F R_A R_B              A is freed; 1 takes it, the last block of the first nonempty list: a tooth
//! ... R_F R_1 [   ] R_B        F and B are freed; F is requested: the gap of n - 1 is in the wrong list
//! ... [ F ] R_1 R_F            one more tooth, for n units of memory and one live unit
//! ```
//!
//! This continues until 2n units are left: (M - 2n) n units.

use super::super::game::{Game, Id, Over};

/// The comb with the smallest step that runs until too few units are left.
pub(super) fn comb(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    let mut step = 1;
    while 5 * step < n {
        match (Comb { game, n, step, teeth: Vec::new() }).play() {
            End::Elsewhere => game.give_all(game.placed(), |_| false),
            End::Over(Over::Spent) => break,
            End::Over(Over::Refused) => return Err(Over::Refused),
        }
        step *= 2;
    }
    Ok(())
}

/// Why a comb stops.
enum End {
    Over(Over),
    /// A block is not at the expected address.
    Elsewhere,
}

impl From<Over> for End {
    fn from(over: Over) -> Self {
        Self::Over(over)
    }
}

/// A comb under construction.
struct Comb<'g, 'h, 'r> {
    game: &'g mut Game<'h, 'r>,
    n: usize,
    step: usize,
    /// In address order.
    teeth: Vec<Id>,
}

/// The position of the missing tooth: `F_n R_f R_1`.
struct Missing {
    /// Where it begins.
    at: i64,
    /// The block of f.
    filler: Id,
    /// The block of 1.
    tooth: Id,
}

impl Comb<'_, '_, '_> {
    fn period(&self) -> usize {
        self.n - 2 * self.step
    }

    fn play(mut self) -> End {
        let mut wall = match self.game.take(self.period()) {
            Ok(wall) => wall,
            Err(over) => return over.into(),
        };
        loop {
            match self.one_more(wall) {
                Ok(moved) => wall = moved,
                Err(end) => return end,
            }
        }
    }

    /// Adds a tooth; returns the block of p before all teeth.
    fn one_more(&mut self, wall: Id) -> Result<Id, End> {
        // The teeth before the missing one, starting with the wall.
        let mut before: Vec<Id> = std::iter::once(wall).chain(self.teeth.iter().copied()).collect();
        let Some(last) = before.pop() else { return Err(End::Elsewhere) };
        let first = self.game.take(self.period())?;
        let fence = self.game.take(self.period())?;
        if self.game.at(first) < self.game.end(last) || self.game.at(fence) < self.game.end(first) {
            return Err(End::Elsewhere);
        }
        self.probe()?;
        let begin = before.last().map_or(self.game.at(last), |front| self.game.end(*front));
        self.game.give(last);
        self.game.give(first);
        let mut missing = self.teeth_apart(begin)?;
        self.game.give(fence);
        let mut moved = Vec::new();
        while let Some(left) = before.pop() {
            let block = self.expect(self.period(), missing.at)?;
            let rest = self.expect(2 * self.step, self.game.end(block))?;
            let begin = before.last().map_or(self.game.at(left), |front| self.game.end(*front));
            self.game.give(left);
            self.game.give(block);
            let next = self.teeth_apart(begin)?;
            self.game.give(rest);
            self.game.give(missing.filler);
            moved.push(missing.tooth);
            missing = next;
        }
        self.game.give(missing.filler);
        moved.push(missing.tooth);
        moved.reverse();
        self.teeth = moved;
        self.expect(self.period(), missing.at)
    }

    /// Ensures that the end of the heap is larger than any other gap, which has at most 2p: if two blocks of n do not
    /// fit there, the heap is too small. Applies only while enough unused units are left for the requests.
    fn probe(&mut self) -> Result<(), Over> {
        let mut probes = Vec::new();
        for _ in 0..2 {
            match self.game.take(self.n) {
                Ok(probe) => probes.push(probe),
                Err(Over::Refused) => return Err(Over::Refused),
                Err(Over::Spent) if probes.is_empty() => return Err(Over::Spent),
                Err(Over::Spent) => break,
            }
        }
        probes.into_iter().for_each(|probe| self.game.give(probe));
        Ok(())
    }

    /// `F_2p` becomes `F_n R_f R_1`, followed by at most c - 1 unused units.
    fn teeth_apart(&mut self, begin: i64) -> Result<Missing, End> {
        let large = self.expect(self.n, begin)?;
        let filler = self.expect(2 * self.period() - self.n - self.step, self.game.end(large))?;
        let tooth = self.expect(1, self.game.end(filler))?;
        self.game.give(large);
        Ok(Missing { at: begin, filler, tooth })
    }

    fn expect(&mut self, units: usize, at: i64) -> Result<Id, End> {
        let id = self.game.take(units)?;
        if self.game.at(id) == at { Ok(id) } else { Err(End::Elsewhere) }
    }
}

/// Allocates two blocks at a time and keeps the smaller.
pub(super) fn march(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    loop {
        let gap = game.take(n - 1)?;
        game.take(1)?;
        game.give(gap);
        let behind = game.take(n)?;
        game.give(behind);
    }
}

/// Allocates blocks of a list that requests of their size never search, each followed by a tooth.
pub(super) fn teeth(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    let mut gap = game.take(n - 1)?;
    loop {
        let first = game.take(n / 2 + 1)?;
        let second = game.take(n / 2 + 1)?;
        game.give(first);
        game.take(1)?;
        game.give(gap);
        game.give(second);
        gap = game.take(n - 1)?;
    }
}
