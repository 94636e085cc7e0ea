//! What a program within limits can make an allocator need.

use super::adversary;
use super::adversary::limited::{self, Thinning};
use super::need::smallest;
use super::world::World;
use super::{Game, Over, unit_of};
use crate::observe::tiny::Tiny;
use crate::result::heap_size::{Adversary, Witness};
use rtalloc::limits::Limit;
use rtalloc_subjects::{Heap, Region, Subject};

/// The most bytes of a heap that is tried.
const MOST_BYTES: usize = 1 << 31;
/// The most live objects of a program that is tried: the work grows faster than their number.
const MOST_OBJECTS: usize = 20_000;
/// Granularity of heap sizes.
const GRANULE_BYTES: usize = 16;

/// The smallest region that the worst of the adversaries leaves, and its name: a region smaller by a granule refuses
/// one of its requests; where the allocator's largest heap does, that is all that is known. `None` if limits on live
/// bytes are among several, if objects have handles, or if every adversary is refused in the largest heap that is tried.
///
/// # Errors
///
/// If memory is exhausted, or if the subject has no unit.
pub fn forced(subject: &Subject, limits: &[Limit]) -> Result<Option<(usize, &'static str)>, String> {
    Ok(worst(subject, limits)?.map(|(bytes, name, _)| (bytes, name)))
}

/// The program of the worst of the adversaries, in a region that refuses its last request; `None` as in [`forced`].
///
/// # Errors
///
/// As [`forced`].
pub fn witness(subject: &Subject, limits: &[Limit]) -> Result<Option<Witness>, String> {
    let Some((bytes, _, play)) = worst(subject, limits)? else { return Ok(None) };
    let unit = unit_of(subject)?;
    let world = World::of(limits, unit).ok_or("the limits are not of one kind")?;
    let region_bytes = bytes - GRANULE_BYTES;
    let mut region = Region::new(region_bytes, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, region_bytes)
        .map_err(|_| "--witness: no adversary is refused in the smallest heap that there is")?;
    let mut game = Game::logged(&heap, unit, usize::MAX);
    let over = play.perform(&mut game, &world, subject);
    let steps = game.log.take().filter(|_| over == Over::Refused).ok_or("the adversary is not repeatable")?;
    Ok(Some(Witness { region_bytes, block_bytes: heap.end - heap.start, steps }))
}

fn worst(subject: &Subject, limits: &[Limit]) -> Result<Option<(usize, &'static str, Play)>, String> {
    // The programs look at addresses.
    if subject.entries.handles.is_some() {
        return Ok(None);
    }
    let unit = unit_of(subject)?;
    let Some(world) = World::of(limits, unit) else { return Ok(None) };
    if world.most_objects() > MOST_OBJECTS || world.most_units() > MOST_BYTES / 4 / unit.bytes {
        return Ok(None);
    }
    let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
    let n = largest_power(&world);
    let against_live: &[Adversary] = match world {
        World::Live { least: 1, .. } if n >= 4 => {
            &[Adversary::Powers, Adversary::March, Adversary::Teeth, Adversary::Pages]
        }
        _ => &[],
    };
    let limited = Thinning::ALL.map(|thinning| (thinning.name(), Play::Limited(thinning)));
    let named = against_live.iter().map(|adversary| (adversary.name(), Play::Named(*adversary)));
    // More than any of them makes most allocators need; where it does not suffice, an adversary says nothing.
    let factor = if against_live.is_empty() { 2 + n.max(1).ilog2() as usize } else { n };
    let ample = 2 * (world.most_units() + 2) * factor.max(page_bytes.div_ceil(unit.bytes).min(4)) * unit.bytes;
    let ample = (ample + 128 * page_bytes + (1 << 20)).min(MOST_BYTES).next_multiple_of(4096);
    let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
    let mut worst: Option<(usize, &'static str, Play)> = None;
    for (name, play) in limited.into_iter().chain(named) {
        let mut suffices = |bytes: usize| {
            let heap = Heap::new(subject, &mut region, bytes).ok()?;
            let over = play.perform(&mut Game::new(&heap, unit, usize::MAX), &world, subject);
            (over == Over::Spent).then_some(())
        };
        if suffices(ample).is_none() {
            // In the largest heap that there is, a refusal says something.
            let largest = subject.largest_heap_bytes();
            if ample as u64 > largest {
                worst = Some((largest as usize + GRANULE_BYTES, name, play));
            }
            continue;
        }
        let guess = (4 * world.most_units() * unit.bytes + page_bytes).min(ample).next_multiple_of(GRANULE_BYTES);
        let (bytes, ()) = smallest(guess, GRANULE_BYTES, (ample, ()), suffices);
        if worst.is_none_or(|(most, ..)| bytes > most) {
            worst = Some((bytes, name, play));
        }
    }
    Ok(worst)
}

/// The addresses at which a region is tried: all within the alignment of every control structure.
const STARTS: usize = 64;

/// A program.
#[derive(Clone, Copy, Debug)]
enum Play {
    Limited(Thinning),
    Named(Adversary),
}

impl Play {
    fn perform(self, game: &mut Game<'_, '_>, world: &World, subject: &Subject) -> Over {
        match self {
            Self::Limited(thinning) => limited::play(game, world, thinning),
            Self::Named(named) => {
                game.limit(world.most_units());
                let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
                adversary::play(named, game, largest_power(world), page_bytes)
            }
        }
    }
}

/// The largest request of adversaries against M and n, which request single units, and powers of two at most.
fn largest_power(world: &World) -> usize {
    world.largest().checked_ilog2().map_or(0, |log2| 1_usize << log2)
}

/// The smallest region, to a granule, whose fresh heap has at least so many bytes for blocks, wherever it starts.
///
/// # Errors
///
/// If memory is exhausted, or the subject's blocks cannot be visited.
pub fn region_bytes(subject: &Subject, block_bytes: usize) -> Result<usize, String> {
    let view = subject.view.ok_or("its blocks cannot be visited")?;
    let ample = (2 * block_bytes + (1 << 20)).next_multiple_of(4096);
    let mut region = Region::new(ample + STARTS, false).map_err(|error| error.to_string())?;
    let mut suffices = |bytes: usize| {
        let mut is_enough = |start: usize| {
            let tiny = Tiny::within(subject, view, &mut region, start, bytes);
            tiny.is_ok_and(|tiny| tiny.block_bytes() >= block_bytes)
        };
        (0..STARTS).all(&mut is_enough).then_some(())
    };
    suffices(ample).ok_or("no region is large enough")?;
    Ok(smallest(block_bytes, GRANULE_BYTES, (ample, ()), suffices).0)
}
