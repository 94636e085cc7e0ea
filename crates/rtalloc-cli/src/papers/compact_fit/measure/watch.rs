//! Instruction counts of the operations of a load, and which of them move an object.

use super::loads::Load;
use crate::papers::compact_fit::result::Counts;
use pathbound::counter::{Record, executed};
use pathbound::image::Process;
use rtalloc_lab::probe::Counted;
use rtalloc_lab::replay::{Block, NoObserver, Observer, Replay};
use rtalloc_subjects::{Entries, Heap, Region, Subject};
use std::collections::HashMap;
use std::ffi::c_void;

/// Counts the allocations or frees of a load in a heap. Code reachable only through computed jumps is found by
/// retrying.
pub(super) fn counts(
    process: &Process,
    subject: &Subject,
    load: &Load,
    frees: bool,
    heap_bytes: usize,
) -> Result<Counts, String> {
    const ROUNDS: usize = 24;
    let mut further = Vec::new();
    for _ in 0..ROUNDS {
        let counted = Counted::new(process, subject, &further, Record::Count).map_err(|error| error.to_string())?;
        let mut region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
        let mut heap = Heap::new(subject, &mut region, heap_bytes).map_err(|error| error.to_string())?;
        heap.entries = counted.entries();
        let mut watch = Watch { entries: subject.entries, context: heap.context, load, frees, ..Watch::of(subject) };
        let mut replay = Replay::new();
        replay.perform(&heap, &load.events, false, &mut watch).map_err(|fault| fault.to_string())?;
        let missed = counted.counter().misses();
        if missed.is_empty() {
            return Ok(Counts { refused: replay.refused(), ..watch.counts() });
        }
        further.extend(missed);
    }
    Err("not all code that its computed jumps lead to was found".into())
}

/// The smallest heap, in whole KiB, that serves the operations of a load before the measured ones: just full then.
pub(super) fn just_full(subject: &Subject, load: &Load, most_bytes: usize) -> Result<usize, String> {
    const STEP_BYTES: usize = 1024;
    let mut region = Region::new(most_bytes, false).map_err(|error| error.to_string())?;
    let mut serves = |steps: usize| -> Result<bool, String> {
        let Ok(heap) = Heap::new(subject, &mut region, steps * STEP_BYTES) else { return Ok(false) };
        let mut replay = Replay::new();
        let events = &load.events[..load.from as usize];
        replay.perform(&heap, events, false, &mut NoObserver).map_err(|fault| fault.to_string())?;
        Ok(replay.refused() == 0)
    };
    let (mut too_few, mut enough) = (0, most_bytes / STEP_BYTES);
    if !serves(enough)? {
        return Err(format!("{most_bytes} bytes do not serve the load"));
    }
    while enough - too_few > 1 {
        let steps = usize::midpoint(too_few, enough);
        if serves(steps)? { enough = steps } else { too_few = steps }
    }
    Ok(enough * STEP_BYTES)
}

/// Records the count of every measured operation, and whether it moved an object.
struct Watch<'a> {
    entries: Entries,
    context: *mut c_void,
    load: &'a Load,
    frees: bool,
    before: u64,
    operations: Vec<(u32, u32)>,
    /// Flags the operations that moved an object.
    movers: Vec<(u32, u32)>,
    /// The address of every live object, if objects are contiguous and move.
    places: Option<HashMap<usize, usize>>,
    moves: u64,
    last_move: Option<u64>,
}

static NOTHING: Load = Load { events: Vec::new(), from: 0 };

impl Watch<'_> {
    fn of(subject: &Subject) -> Self {
        let moves = subject.entries.handles.is_some_and(|handles| handles.piece_bytes == usize::MAX);
        Self {
            entries: subject.entries,
            context: std::ptr::null_mut(),
            load: &NOTHING,
            frees: false,
            before: 0,
            operations: Vec::new(),
            movers: Vec::new(),
            places: moves.then(HashMap::new),
            moves: 0,
            last_move: None,
        }
    }

    fn place(&self, block: usize) -> usize {
        self.entries.handles.map_or(block, |handles| {
            // SAFETY: the block is live.
            unsafe { (handles.dereference)(self.context, block as *mut u8, 0) as usize }
        })
    }

    fn note(&mut self, index: u64, size: usize) {
        if index >= self.load.from {
            self.operations.push((size as u32, (executed() - self.before) as u32));
        }
    }

    fn counts(self) -> Counts {
        let (mean, deviation) = moments(self.operations.iter().map(|(_, count)| f64::from(*count)));
        // Operations that move nothing are constant, so the line is fitted to those that move something, if any.
        let (per_byte, explained) = line(if self.movers.is_empty() { &self.operations } else { &self.movers });
        let moves = self.places.is_some();
        Counts {
            mean,
            deviation,
            least: self.operations.iter().map(|(_, count)| u64::from(*count)).min().unwrap_or(0),
            most: self.operations.iter().map(|(_, count)| u64::from(*count)).max().unwrap_or(0),
            per_byte,
            explained,
            moves: (moves && self.frees).then_some(self.moves),
            last_move: self.last_move.filter(|_| self.frees),
            refused: 0,
            operations: self.operations,
        }
    }
}

/// The least-squares line of counts over sizes: its slope, and the share of the variance that it explains.
fn line(operations: &[(u32, u32)]) -> (f64, f64) {
    let (counts, sizes) =
        (operations.iter().map(|(_, count)| f64::from(*count)), operations.iter().map(|(size, _)| f64::from(*size)));
    let ((mean, deviation), (mean_size, size_deviation)) = (moments(counts.clone()), moments(sizes.clone()));
    if deviation == 0.0 || size_deviation == 0.0 {
        return (0.0, 0.0);
    }
    let products = sizes.zip(counts).map(|(size, count)| (size - mean_size) * (count - mean));
    let covariance = products.sum::<f64>() / operations.len() as f64;
    (covariance / size_deviation.powi(2), (covariance / (deviation * size_deviation)).powi(2))
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

impl Observer for Watch<'_> {
    fn before(&mut self, _: u64) {
        self.before = executed();
    }

    fn granted(&mut self, _: &Heap<'_>, index: u64, block: &Block, _: Option<usize>) {
        if !self.frees {
            self.note(index, block.size);
        }
        let place = self.place(block.address);
        if let Some(places) = &mut self.places {
            places.insert(block.address, place);
        }
    }

    fn freed(&mut self, index: u64, block: &Block) {
        if !self.frees {
            return;
        }
        self.note(index, block.size);
        let Some(mut places) = self.places.take() else { return };
        places.remove(&block.address);
        let mut moved = false;
        for (block, place) in &mut places {
            let now = self.place(*block);
            moved |= now != *place;
            *place = now;
        }
        self.places = Some(places);
        if moved {
            self.moves += 1;
            self.movers.extend(self.operations.last().filter(|_| index >= self.load.from));
            self.last_move = Some(self.operations.len() as u64);
        }
    }
}

/// The results of operations: size of the object and instructions.
#[cfg(test)]
pub(in crate::papers::compact_fit) fn of_operations(operations: &[(u32, u32)]) -> Counts {
    let subject = rtalloc_subjects::one("tlsf").expect("a subject");
    Watch { operations: operations.to_vec(), ..Watch::of(subject) }.counts()
}
