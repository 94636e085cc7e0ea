//! Sieves: keep a minimal set of objects such that no gap between them can serve the next request.
//!
//! ```text
//! objects  [1][1][1][1][1][1][2   ][2   ]
//! stay     [1]      [1]      [2   ]          no gap of 3: the next requests, of 3, are placed after all of them
//! ```

use super::super::game::{Game, Id, Over, Placed};
use super::just_above_powers;
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Requests of 1, 2, 3, ... n units, each with all gaps at least one unit smaller.
pub(super) fn sizes(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    rounds(game, (1..=n).map(|size| (size, size - 1)))
}

/// Requests just above powers of two, with gaps one unit smaller than the next power. Half-fit does not use such gaps,
/// because their list might contain blocks that are too small, although all of these suffice.
pub(super) fn halves(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    rounds(game, just_above_powers(n).map(|size| (size, size.next_power_of_two() - 1)))
}

/// For each size and gap in turn: keeps as few objects as possible such that no gap is larger, and requests the
/// remaining units in blocks of the size.
pub fn rounds(game: &mut Game<'_, '_>, sizes: impl Iterator<Item = (usize, usize)>) -> Result<(), Over> {
    for (size, gap) in sizes {
        thin(game, gap);
        game.take_all(size)?;
    }
    Ok(())
}

/// Frees as much as possible such that no gap is larger than `gap` units.
pub fn thin(game: &mut Game<'_, '_>, gap: usize) {
    let placed = game.placed();
    let kept = lightest(game, &placed, game.bytes(gap));
    game.give_all(placed, |placed| kept.contains(&placed.id));
}

/// The objects with the fewest total units that leave no gap above `gap_bytes` between them, before them, or after them
/// up to the highest end so far. Gaps that are already larger remain.
fn lightest(game: &Game<'_, '_>, placed: &[Placed], gap_bytes: i64) -> HashSet<Id> {
    struct Chain {
        end: i64,
        units: usize,
        last: Option<usize>,
    }
    let Some(first) = placed.first() else { return HashSet::new() };
    let mut before: Vec<Option<usize>> = Vec::with_capacity(placed.len());
    // Chains that an object can extend, in increasing order of both end and units.
    let mut chains = VecDeque::from([Chain { end: first.at.min(0), units: 0, last: None }]);
    for (place, object) in placed.iter().enumerate() {
        while chains.len() > 1 && object.at - chains[0].end > gap_bytes {
            chains.pop_front();
        }
        before.push(chains[0].last);
        let chain = Chain {
            end: object.at + game.bytes(object.units),
            units: chains[0].units + object.units,
            last: Some(place),
        };
        while chains.back().is_some_and(|other| other.units >= chain.units) {
            chains.pop_back();
        }
        chains.push_back(chain);
    }
    while chains.len() > 1 && game.highest_bytes - chains[0].end > gap_bytes {
        chains.pop_front();
    }
    let mut kept = HashSet::new();
    let mut place = chains[0].last;
    while let Some(at) = place {
        kept.insert(placed[at].id);
        place = before[at];
    }
    kept
}

/// As [`halves`], but keeps one object, the smallest, in each block of the next power of two, counted from the first
/// address available to blocks. A buddy system uses no such block for a request of that size.
///
/// What is kept is made smaller still: smaller objects are requested, which fill the gaps in these blocks, and again the
/// smallest of each block is kept.
///
/// ```text
/// blocks of 4    [1  ][1  ] [2   ][2   ]      all that may be live
/// one of each    [1  ]      [2   ]
/// requests of 1  [1 1][1 1] [2   ][1 1 ]      the gap beside 2 too
/// one of each    [1  ]             [1  ]      less is live, and no block of 4 is free
/// ```
pub(super) fn buddies(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    let sizes: Vec<usize> = just_above_powers(n).collect();
    for (level, &size) in sizes.iter().enumerate() {
        let block = game.bytes(size.next_power_of_two());
        let group = |at: i64| at.div_euclid(block);
        one_of_each(game, group);
        for &smaller in sizes[..level.saturating_sub(1)].iter().rev() {
            game.take_all(smaller)?;
            one_of_each(game, group);
        }
        game.take_all(size)?;
    }
    Ok(())
}

/// Frees all but the smallest object of each group.
pub fn one_of_each(game: &mut Game<'_, '_>, group: impl Fn(i64) -> i64) {
    let placed = game.placed();
    let mut least: BTreeMap<i64, Placed> = BTreeMap::new();
    for object in &placed {
        let kept = least.entry(group(object.at)).or_insert(*object);
        if object.units < kept.units {
            *kept = *object;
        }
    }
    game.give_all(placed, |object| least[&group(object.at)].id == object.id);
}
