//! What a program within limits can make an allocator need.

use super::adversary;
use super::adversary::limited::{self, Thinning};
use super::need::smallest;
use super::world::World;
use super::{Game, Over, unit_of};
use crate::observe::tiny::Tiny;
use crate::result::heap_size::Adversary;
use rtalloc::limits::Limit;
use rtalloc_subjects::{Heap, Region, Subject};

/// The most bytes of a heap that is tried.
const MOST_BYTES: usize = 1 << 31;
/// The most live objects of a program that is tried: the work grows faster than their number.
const MOST_OBJECTS: usize = 20_000;
/// Granularity of heap sizes.
const GRANULE_BYTES: usize = 16;

/// The smallest region that the worst of the adversaries leaves, and its name: a region smaller by a granule refuses
/// one of its requests. `None` if limits on live bytes are among several, or if every adversary is refused in the
/// largest heap that is tried.
///
/// # Errors
///
/// If memory is exhausted, or if the subject has no unit.
pub fn forced(subject: &Subject, limits: &[Limit]) -> Result<Option<(usize, &'static str)>, String> {
    let unit = unit_of(subject)?;
    let Some(world) = World::of(limits, unit) else { return Ok(None) };
    if world.most_objects() > MOST_OBJECTS || world.most_units() > MOST_BYTES / 4 / unit.bytes {
        return Ok(None);
    }
    let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
    // Those against M and n request single units, and powers of two at most.
    let n = world.largest().checked_ilog2().map_or(0, |log2| 1_usize << log2);
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
    let mut worst = None;
    for (name, play) in limited.into_iter().chain(named) {
        let mut suffices = |bytes: usize| {
            let heap = Heap::new(subject, &mut region, bytes).ok()?;
            let over = match play {
                Play::Limited(thinning) => limited::play(&mut Game::new(&heap, unit, usize::MAX), &world, thinning),
                Play::Named(named) => {
                    adversary::play(named, &mut Game::new(&heap, unit, world.most_units()), n, page_bytes)
                }
            };
            (over == Over::Spent).then_some(())
        };
        if suffices(ample).is_none() {
            continue;
        }
        let guess = (4 * world.most_units() * unit.bytes + page_bytes).min(ample).next_multiple_of(GRANULE_BYTES);
        let (bytes, ()) = smallest(guess, GRANULE_BYTES, (ample, ()), suffices);
        if worst.is_none_or(|(most, _)| bytes > most) {
            worst = Some((bytes, name));
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
