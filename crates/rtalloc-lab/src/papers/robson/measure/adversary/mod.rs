//! Adversaries: programs that read the addresses they are given, and spend at most M units to make an allocator need as
//! much memory as they can.
//!
//! Each is aimed at one kind of allocator, and each plays against all of them: what does not go as it expects, it gives
//! up.

mod comb;
mod pages;
mod powers;
pub(super) mod sieve;

use super::game::{Game, Over};
use crate::papers::robson::result::Adversary;

/// Plays with requests of at most `n` units (a power of two, at least 4) against pages of so many bytes, 0 where there
/// are none. At the end the largest request that is left is made, for which there is no room if all went well.
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

/// Requests of the sizes 1, 2, 3, 5, 9, ... up to `n`: each but the first is the least that needs the next power of
/// two.
fn just_above_powers(n: usize) -> impl Iterator<Item = usize> {
    std::iter::once(1).chain((0..n.ilog2()).map(|power| (1 << power) + 1))
}
