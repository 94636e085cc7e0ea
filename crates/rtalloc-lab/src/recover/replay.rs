//! Replays the operations of a ring on the same allocator in memory with the same layout: the addresses must be the
//! same.

use super::{Entry, Kind, Outcome, RecoverError, Ring};
use crate::result::schema::Origin;
use rtalloc::adapt::traced::layout::{Fresh, NAME_BYTES};
use rtalloc::mechanism::stats::WithStats;
use rtalloc_subjects::{Heap, NATURAL_ALIGN_BYTES, Region, Subject};
use serde::Serialize;
use std::collections::HashMap;

/// The outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The laboratory's name of the allocator.
    pub subject: &'static str,
    /// Results compared: addresses of blocks, and refusals.
    pub compared: u64,
    /// Those that were the same.
    pub same: u64,
    /// The first that differed; the replay ended there.
    pub difference: Option<Difference>,
    /// Frees and reallocations of blocks that were not live, which were skipped, as the heap ignored them.
    pub misuses: u64,
    /// The record that added another region to the heap; the replay ended there, as it has only one region.
    pub region_added: Option<u64>,
}

/// A result that differs from the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What was recorded.
    pub recorded: Entry,
    /// Offset of the block in the replay; `None` if the request was refused.
    pub now: Option<u64>,
}

/// Performs the operations of a complete ring on its allocator, in a region of the same length, at an address that is
/// equal modulo every relevant alignment, and compares every result.
///
/// # Errors
///
/// Why it is not possible: the ring is not complete, the machine or the allocator is another one, or there is no
/// memory.
pub fn replay(ring: &Ring) -> Result<Replayed, RecoverError> {
    if !ring.is_complete() {
        return Err(RecoverError::Incomplete { overwritten: ring.overwritten(), damaged: ring.damaged });
    }
    if ring.bits != usize::BITS {
        return Err(RecoverError::OtherMachine { bits: ring.bits });
    }
    let candidates = candidates(&ring.name);
    if candidates.is_empty() {
        return Err(RecoverError::UnknownAllocator { name: ring.name.clone() });
    }
    let mut ground = Ground::of(ring)?;
    // Allocators with the same name that differ in a decision begin alike: the right one gives the recorded results.
    let mut best: Option<Replayed> = None;
    for subject in candidates {
        let Some(shift) = ground.shift_for(subject, ring) else { continue };
        let base = ground.base();
        let Some(heap) = ground.heap(subject, shift) else { continue };
        let replayed = perform(ring, subject, &heap, base);
        if best.as_ref().is_none_or(|best| best.same < replayed.same) {
            best = Some(replayed);
        }
    }
    best.ok_or_else(|| RecoverError::OtherHeap { name: ring.name.clone(), length: ring.length })
}

/// The laboratory's allocators whose contract has this name, truncated as in a ring.
fn candidates(name: &str) -> Vec<&'static Subject> {
    let cut = |name: &str| name.chars().take(NAME_BYTES).collect::<String>();
    let is_named = |subject: &&Subject| {
        let name_of = subject.view.map(|view| cut(view.contract.name));
        subject.origin == Origin::Ours && subject.entries.handles.is_none() && name_of.as_deref() == Some(name)
    };
    rtalloc_subjects::all().iter().filter(is_named).collect()
}

/// Upper bound on the bytes that statistics add to a control structure, alignment included, and the step of the search
/// for their number.
const MOST_SHIFT_BYTES: usize = size_of::<WithStats>() + 2 * NATURAL_ALIGN_BYTES;
const SHIFT_STEP_BYTES: usize = 4;

/// Memory that contains the replayed region.
struct Ground {
    region: Region,
    /// Offset of the replayed region in it.
    place: usize,
    length: usize,
}

impl Ground {
    /// Largest alignment that is preserved: that of the largest mapping.
    const MOST_ALIGN_BYTES: u64 = 1 << 30;

    fn of(ring: &Ring) -> Result<Self, RecoverError> {
        let asked = ring.entries.iter().filter(|entry| !entry.is_refused()).map(Entry::align).max().unwrap_or(1);
        let align = ring.length.checked_next_power_of_two().unwrap_or(u64::MAX).max(asked).min(Self::MOST_ALIGN_BYTES);
        let bytes = ring.length.saturating_add(align);
        let memory = |source| RecoverError::Memory { bytes, source };
        let region = Region::new(usize::try_from(bytes).unwrap_or(usize::MAX), false).map_err(memory)?;
        // The region is aligned to `align` at least.
        Ok(Self { region, place: (ring.base % align) as usize, length: ring.length as usize })
    }

    /// Address corresponding to the region's first byte.
    fn base(&self) -> usize {
        (self.region.start() as usize).wrapping_add(self.place)
    }

    /// Creates a heap whose region begins `shift` bytes after the recorded one's, and ends where that ended.
    fn heap(&mut self, subject: &Subject, shift: usize) -> Option<Heap<'_>> {
        let length = self.length.checked_sub(shift)?;
        Heap::within(subject, &mut self.region, self.place + shift, length).ok()
    }

    /// The number of bytes after the recorded region's start at which the subject's region must begin so that the
    /// blocks are those of the recorded heap, if there is such a number: zero if both are of one type, and a few if the
    /// recorded one keeps statistics before its blocks.
    fn shift_for(&mut self, subject: &Subject, ring: &Ring) -> Option<usize> {
        let mut shifts = (0..=MOST_SHIFT_BYTES).step_by(SHIFT_STEP_BYTES);
        shifts.find(|&shift| self.fresh(subject, shift) == Some((ring.first_block, ring.fresh)))
    }

    /// First block and hash of a fresh heap.
    fn fresh(&mut self, subject: &Subject, shift: usize) -> Option<(u64, u64)> {
        let base = self.base();
        let heap = self.heap(subject, shift)?;
        let walk = subject.view?.walk;
        let mut fresh = Fresh::default();
        // SAFETY: the context is the heap's, and the heap is not modified meanwhile.
        unsafe { walk(heap.context, &mut |block| fresh.visit(block)) };
        Some((fresh.first()?.wrapping_sub(base) as u64, fresh.hash()))
    }
}

/// Performs the operations and compares.
fn perform(ring: &Ring, subject: &Subject, heap: &Heap<'_>, base: usize) -> Replayed {
    let mut replayed =
        Replayed { subject: subject.name, compared: 0, same: 0, difference: None, misuses: 0, region_added: None };
    // By recorded offset, with the requested size and alignment: as long as all results are the same, the block is
    // there.
    let mut live: HashMap<u64, (usize, usize)> = HashMap::new();
    for entry in &ring.entries {
        let (size, align) = (entry.size as usize, entry.align() as usize);
        let block = |offset: u64| base.wrapping_add(offset as usize) as *mut u8;
        let entries = &heap.entries;
        let answer = match (entry.kind, entry.outcome) {
            // Refused for the request itself, or by an adapter around the heap: the heap need not be called.
            (_, Outcome::ZeroSize | Outcome::Alignment | Outcome::Quota | Outcome::Injected) | (Kind::Mark, _) => {
                continue;
            }
            (Kind::AddRegion | Kind::RemoveRegion, _) => {
                replayed.region_added = Some(entry.number);
                break;
            }
            (Kind::Allocate, _) => {
                // SAFETY: the context is the heap's; the size is not 0 and the alignment is a power of two, or the
                // request would have been refused for that.
                unsafe { (entries.allocate_aligned)(heap.context, size, align) }
            }
            (Kind::Deallocate, _) => {
                match live.remove(&entry.address) {
                    // SAFETY: the block is live, because every result so far was the recorded one.
                    Some((size, align)) => unsafe {
                        (entries.deallocate)(heap.context, block(entry.address), size, align);
                    },
                    None => replayed.misuses += 1,
                }
                continue;
            }
            (Kind::Reallocate, _) => {
                let Some(&(old, _)) = live.get(&entry.from) else {
                    replayed.misuses += 1;
                    continue;
                };
                // SAFETY: the block is live with this size and alignment, because `live` contains it.
                unsafe { (entries.reallocate)(heap.context, block(entry.from), old, align, size) }
            }
        };
        let now = (!answer.is_null()).then(|| (answer as usize).wrapping_sub(base) as u64);
        let recorded = (entry.outcome == Outcome::Done).then_some(entry.address);
        replayed.compared += 1;
        if now != recorded {
            replayed.difference = Some(Difference { recorded: *entry, now });
            break;
        }
        replayed.same += 1;
        if let Some(address) = recorded {
            if entry.kind == Kind::Reallocate {
                live.remove(&entry.from);
            }
            live.insert(address, (size, align));
        }
    }
    replayed
}
