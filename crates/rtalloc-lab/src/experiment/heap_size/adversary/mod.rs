//! Adversaries: programs that observe the addresses they receive, and use at most M live units to make an allocator
//! need as much memory as possible.
//!
//! Each targets one kind of allocator, and each is run against all of them; it gives up when the allocator does not
//! behave as expected.

mod comb;
pub mod limited;
mod pages;
mod powers;
pub mod sieve;

use super::game::{Game, Over};
use crate::result::heap_size::Adversary;

/// Runs with requests of at most `n` units (a power of two, at least 4) against pages of this many bytes, 0 if there
/// are none. Finally the largest remaining request is made; it is refused if the adversary succeeded.
#[must_use]
pub fn play(adversary: Adversary, game: &mut Game<'_, '_>, n: usize, page_bytes: usize) -> Over {
    let played = match adversary {
        Adversary::Powers => powers::play(game, n),
        Adversary::Sizes => sieve::sizes(game, n),
        Adversary::Halves => sieve::halves(game, n),
        Adversary::Buddies => sieve::buddies(game, n),
        Adversary::Comb => comb::comb(game, n),
        Adversary::March => comb::march(game, n),
        Adversary::Teeth => comb::teeth(game, n),
        Adversary::Classes => pages::classes(game, n),
        Adversary::Pages => pages::pages(game, n, page_bytes),
    };
    let last = |game: &mut Game<'_, '_>| match n.min(game.left()) {
        0 => Ok(()),
        units => game.take(units).map(|_| ()),
    };
    match played {
        Err(Over::Refused) => Over::Refused,
        Ok(()) | Err(Over::Spent) => last(game).err().unwrap_or(Over::Spent),
    }
}

/// Requests of the sizes 1, 2, 3, 5, 9, ... up to `n`: each except the first is the smallest that is rounded up to the
/// next power of two.
fn just_above_powers(n: usize) -> impl Iterator<Item = usize> {
    std::iter::once(1).chain((0..n.ilog2()).map(|power| (1 << power) + 1))
}
