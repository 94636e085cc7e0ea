//! Against every allocator, within limits on the number of live objects of each size: sieves and combs, each from the
//! smallest size to the largest.

use super::super::game::{Game, Over};
use super::super::world::World;
use super::{just_above_powers, sieve};

/// What stays live before the next size is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinning {
    /// As little as possible so that no gap is as large as the next request.
    Gaps,
    /// The same for the next power of two.
    Powers,
    /// One object in each aligned block of the next power of two.
    Buddies,
    /// Everything, from the largest size down.
    Nothing,
}

impl Thinning {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Gaps, Self::Powers, Self::Buddies, Self::Nothing];

    /// The adversary's name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gaps => "sieve",
            Self::Powers => "sieve of powers",
            Self::Buddies => "one in each buddy",
            Self::Nothing => "all at once",
        }
    }
}

/// Requests as many objects of each size as the world allows, from the smallest size to the largest.
#[must_use]
pub fn play(game: &mut Game<'_, '_>, world: &World, thinning: Thinning) -> Over {
    let largest = world.largest();
    let mut sizes = world.ends();
    sizes.extend(just_above_powers(largest.next_power_of_two()).chain((0..usize::BITS).map_while(|power| {
        let size = 1_usize << power;
        (size <= largest).then_some(size)
    })));
    sizes.sort_unstable();
    sizes.dedup();
    if thinning == Thinning::Nothing {
        sizes.reverse();
    }
    for size in sizes {
        if !world.allows(&mut [size]) {
            continue;
        }
        match thinning {
            Thinning::Gaps => sieve::thin(game, size - 1),
            Thinning::Powers => sieve::thin(game, size.next_power_of_two() - 1),
            Thinning::Buddies => {
                let block = game.bytes(size.next_power_of_two());
                sieve::one_of_each(game, |at| at.div_euclid(block));
            }
            Thinning::Nothing => {}
        }
        let live: Vec<usize> = game.placed().iter().map(|placed| placed.units).collect();
        let are_allowed = |more: usize| world.allows(&mut [live.as_slice(), &vec![size; more]].concat());
        let (mut allowed, mut too_many) = (0, 1);
        while are_allowed(too_many) {
            (allowed, too_many) = (too_many, 2 * too_many);
        }
        while too_many - allowed > 1 {
            let middle = allowed.midpoint(too_many);
            if are_allowed(middle) { allowed = middle } else { too_many = middle }
        }
        for _ in 0..allowed {
            if game.take(size).is_err() {
                return Over::Refused;
            }
        }
    }
    Over::Spent
}
