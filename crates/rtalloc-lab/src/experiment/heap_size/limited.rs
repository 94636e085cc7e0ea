//! What a program within limits can make an allocator need.

use super::adversary::limited::{Thinning, play};
use super::need::smallest;
use super::world::World;
use super::{Game, Over, unit_of};
use rtalloc::limits::Limit;
use rtalloc_subjects::{Heap, Region, Subject};

/// Granularity of heap sizes.
const GRANULE_BYTES: usize = 16;

/// The smallest region that the worst of the adversaries leaves, and its name: a region smaller by a granule refuses
/// one of its requests.
///
/// # Errors
///
/// If memory is exhausted, or if the subject refuses a request in ample memory.
pub fn forced(subject: &Subject, limits: &[Limit]) -> Result<(usize, Thinning), String> {
    let unit = unit_of(subject)?;
    let world = World::of(limits, unit);
    let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
    let live_units: usize = match &world {
        World::Limits(limits) => limits.iter().map(|limit| limit.objects * limit.largest).sum(),
        World::Live { m, .. } => *m,
    };
    let ample = (live_units * unit.bytes * 2 * (2 + world.largest().max(1).ilog2() as usize) + 128 * page_bytes + (1 << 20))
        .next_multiple_of(4096);
    let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
    let mut worst = None;
    for thinning in Thinning::ALL {
        let mut suffices = |bytes: usize| {
            let heap = Heap::new(subject, &mut region, bytes).ok()?;
            let mut game = Game::new(&heap, unit, usize::MAX);
            (play(&mut game, &world, thinning) == Over::Spent).then_some(())
        };
        suffices(ample).ok_or("refused a request in ample memory")?;
        let (bytes, ()) = smallest(ample / 2, GRANULE_BYTES, (ample, ()), suffices);
        if worst.is_none_or(|(most, _)| bytes > most) {
            worst = Some((bytes, thinning));
        }
    }
    worst.ok_or_else(|| "no adversary".into())
}

/// The smallest region, to a granule, whose fresh heap has at least so many bytes for blocks.
///
/// # Errors
///
/// If memory is exhausted, or the subject's blocks cannot be visited.
pub fn region_bytes(subject: &Subject, block_bytes: usize) -> Result<usize, String> {
    let view = subject.view.ok_or("its blocks cannot be visited")?;
    let ample = (2 * block_bytes + (1 << 20)).next_multiple_of(4096);
    let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
    let mut suffices = |bytes: usize| {
        let tiny = crate::observe::tiny::Tiny::new(subject, view, &mut region, bytes).ok()?;
        (tiny.block_bytes() >= block_bytes).then_some(())
    };
    suffices(ample).ok_or("no region is large enough")?;
    Ok(smallest(block_bytes, GRANULE_BYTES, (ample, ()), suffices).0)
}
