//! Combs: objects of one unit, as far from each other as the largest request is long.
//!
//! # Against best-fit
//!
//! Best-fit takes the smallest gap that suffices, so that a small object cannot simply be put where one wants it: it
//! goes to the smallest gap there is. Robson (1977) found how it can be led nevertheless; exercise 42 of Knuth's
//! section 2.5 (The Art of Computer Programming, volume 1, third edition) tells the idea, and this is an own working
//! out, with a step `c` that Robson needs to be 1. Let R be what is live and F what is free, n the largest request, p =
//! n - 2c, f = 2p - n - c.
//!
//! The state is `R_p (F_(p-1) R_1)*`: each tooth of one unit takes p units of memory, and a request of p finds none of
//! the gaps large enough. A tooth more is made so:
//!
//! ```text
//! ... R_1                      two blocks of p: nothing but the end of the heap is large enough
//! ... R_1 R_p R_p              the last tooth and the first block are freed: the only gap above p - 1
//! ... [    F_2p   ]            n, then f: both go there, and leave the smallest gap of all; so 1 goes there, too
//! ... R_n R_f R_1              n is freed
//! ... F_n R_f R_1              a tooth that is n + f = 2p - c behind the one before: one is missing between them
//! ```
//!
//! The missing tooth cannot be put there, but the place where it is missing can be moved towards the start of the heap,
//! tooth by tooth:
//!
//! ```text
//! F_(p-1) R_1   F_n R_f R_1    p goes to the gap of n, and 2c fills it
//! F_(p-1) R_1 R_p R_2c R_f R_1 the left tooth and p are freed: a gap of 2p, the only one above p - 1
//! R_n R_f R_1      R_2c R_f R_1  n, f and 1 go there as above; n, 2c and the right f are freed
//! F_n R_f R_1   F_(p-1) R_1    (2c + f = p - c, and c - 1 units lie between the 1 and 2c)
//! ```
//!
//! until it meets `R_p`. With that the same step leaves `F_n R_f R_1` in front of everything, where f is freed and p
//! requested: `R_p (F_(p-1) R_1)*` with one tooth more, for p units of memory and one unit live. (Where c is not 1, a
//! gap here and there has p - c units.) Some 4n units are needed besides, so that (M - 4n + 11)(n - 2) units of ample
//! memory are used (c = 1).
//!
//! In a heap that is about to be full, the end of the heap is a gap like the others, and may be chosen instead of the
//! one that is meant. Two blocks of n tell that it is not yet so: they are refused, or the end has more than 2p. They
//! cost n units more, and so heaps of up to (M - 5n)(n - 2) units are sure to be too small; of larger ones, most.
//!
//! A class of sizes must not hold both p - 1 and p, or both f and p - 1; `c` is the distance of classes that can be
//! told apart.
//!
//! # Against next-fit
//!
//! Next-fit goes on where it was, so that whatever is requested next lies behind what was requested last: n - 1, then
//! 1, and n - 1 is freed. So that the next search does not begin with the gap that this leaves, n is requested, for
//! which it is too small, and freed.
//!
//! # Against half-fit
//!
//! Half-fit takes the block that was freed last of a list, and never searches the list that a request's own size
//! belongs to, unless the size is a power of two. With n a power of two, F = n - 1 and A = B = n/2 + 1 units, all of
//! which are of one list and ask for the next one:
//!
//! ```text
//! ... R_F                      A and B go to the end of the heap
//! ... R_F R_A R_B              A is freed; 1 takes it, the last block of the first list that is not empty: a tooth
//! ... R_F R_1 [   ] R_B        F and B are freed; F is requested: the gap of n - 1 is of the wrong list
//! ... [ F ] R_1 R_F            a tooth more, for n units of memory and one unit live
//! ```
//!
//! It goes on until 2n units are left: (M - 2n) n units.

use super::super::game::{Game, Id, Over};

/// The comb with the smallest step that goes on until too little is left.
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

/// Why a comb ends.
enum End {
    Over(Over),
    /// A block is not where it was expected.
    Elsewhere,
}

impl From<Over> for End {
    fn from(over: Over) -> Self {
        Self::Over(over)
    }
}

/// A comb that is being made.
struct Comb<'g, 'h, 'r> {
    game: &'g mut Game<'h, 'r>,
    n: usize,
    step: usize,
    /// In the order of addresses.
    teeth: Vec<Id>,
}

/// The place where a tooth is missing: `F_n R_f R_1`.
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

    /// Makes a tooth more; returns the block of p in front of all of them.
    fn one_more(&mut self, wall: Id) -> Result<Id, End> {
        // Those in front of the missing one, the wall first.
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

    /// Sees to it that the end of the heap is a larger gap than any other, of 2p at the most: where two blocks of n
    /// have no room there, the heap does not suffice. As long as there are units enough to ask.
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

    /// `F_2p` becomes `F_n R_f R_1`, and at most c - 1 units behind it that nothing needs.
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

/// Two blocks at a time, of which the smaller stays.
pub(super) fn march(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    loop {
        let gap = game.take(n - 1)?;
        game.take(1)?;
        game.give(gap);
        let behind = game.take(n)?;
        game.give(behind);
    }
}

/// Blocks of a list that requests of their size never search, with a tooth behind each.
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
