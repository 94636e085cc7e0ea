//! The thesis' four traces: two parts of a recording, and two models.

use crate::papers::thesis::published::ALLOCATORS;
use crate::papers::thesis::result::{CLASS_BYTES, Facts, LARGEST_BYTES, Load, Part};
use rtalloc_lab::result::schema::Curve;
use rtalloc_lab::trace::{Event, Meta, Op, Origin, SlotTable, TickUnit, TraceError, Writer};
use rtalloc_lab::workload::Model;
use std::path::Path;

/// Alignment of every request: the thesis' blocks are aligned to 8 bytes, and no other alignment is supported.
const ALIGN_BYTES: u32 = 8;

/// The share of the peak live memory at which the heap counts as fully grown; above it, the curve depends on single
/// requests.
const GROWN: f64 = 0.9;

/// Maximum number of points of a curve of live memory.
const CURVE_POINTS: usize = 400;

/// The recordings that replace the thesis', which are not available. The first has the live memory closest to theirs,
/// the second the same number of operations.
pub const RECORDINGS: [&str; 2] = ["sqlite-shop", "lua-entities"];

/// A program's requests, split into two parts.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The properties of the trace.
    pub name: String,
    boot: Vec<Event>,
    stable: Vec<Event>,
}

impl Recording {
    /// Small requests of a program up to the point at which its heap stops growing, and the rest.
    #[must_use]
    pub fn new(name: &str, events: &[Event]) -> Self {
        let (boot, stable) = split(&small(events));
        Self { name: name.into(), boot, stable }
    }
}

/// All traces, in the thesis' order.
#[must_use]
pub fn loads(recordings: &[Recording]) -> Vec<Load> {
    let recorded = recordings.iter().flat_map(|recording| {
        [Part::Boot, Part::Stable].map(|part| Load { part, recording: Some(recording.name.clone()) })
    });
    recorded.chain([Part::Uniform, Part::Small].map(|part| Load { part, recording: None })).collect()
}

/// The events of a trace.
///
/// # Errors
///
/// If the recording does not exist.
pub fn events(recordings: &[Recording], load: &Load, seed: u64) -> Result<Vec<Event>, String> {
    let recorded = || {
        let recording = recordings.iter().find(|recording| Some(&recording.name) == load.recording.as_ref());
        recording.ok_or_else(|| format!("there is no recording for {}", load.name()))
    };
    match load.part {
        Part::Boot => recorded().map(|recording| recording.boot.clone()),
        Part::Stable => recorded().map(|recording| recording.stable.clone()),
        Part::Uniform | Part::Small => {
            let mut events = Vec::new();
            let model = Model::parse(&format!("{} --align {ALIGN_BYTES}", load.part.name())).expect("words of ours");
            model.generate(seed, &mut events).map_err(|error| error.to_string())?;
            Ok(events)
        }
    }
}

/// Writes events as a trace.
///
/// # Errors
///
/// Errors of the file system.
pub fn write(path: &Path, load: &Load, events: &[Event]) -> Result<(), TraceError> {
    let meta = Meta {
        name: load.name(),
        about: format!(
            "requests of up to {LARGEST_BYTES} B, for one of the {} allocators of the thesis",
            ALLOCATORS.len()
        ),
        origin: Origin::Program { command: Vec::new() },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    };
    let mut writer = Writer::create(path, &meta)?;
    for event in events {
        writer.push(event)?;
    }
    writer.finish().map(|_| ())
}

/// The contents of a trace of this module.
#[must_use]
pub fn facts(events: &[Event]) -> Facts {
    let mut facts = Facts {
        operations: events.len() as u64,
        classes: vec![0; (LARGEST_BYTES / CLASS_BYTES) as usize],
        ..Facts::default()
    };
    let (mut live, mut blocks) = (Live::default(), 0_u64);
    let stride = events.len().div_ceil(CURVE_POINTS).max(1);
    for (chunk, events) in events.chunks(stride).enumerate() {
        let mut most = (0, 0);
        for (place, event) in events.iter().enumerate() {
            live.note(event);
            match event.op {
                Op::Allocate { size, .. } => {
                    facts.mallocs += 1;
                    facts.classes[(size.div_ceil(CLASS_BYTES) - 1) as usize] += 1;
                    blocks += 1;
                }
                Op::Free { .. } | Op::Reallocate { .. } => blocks -= 1,
            }
            facts.peak_live_blocks = facts.peak_live_blocks.max(blocks);
            if live.bytes >= most.1 {
                most = ((chunk * stride + place) as u64, live.bytes);
            }
        }
        facts.peak_live_bytes = facts.peak_live_bytes.max(most.1);
        facts.live.points.push(most);
    }
    facts.live = Curve { points: facts.live.points };
    facts
}

/// Live memory of a trace without reallocations.
#[derive(Default)]
struct Live {
    sizes: Vec<u64>,
    bytes: u64,
}

impl Live {
    fn note(&mut self, event: &Event) {
        match event.op {
            Op::Allocate { slot, size, .. } => {
                let slot = slot as usize;
                if slot >= self.sizes.len() {
                    self.sizes.resize(slot + 1, 0);
                }
                self.sizes[slot] = size;
                self.bytes += size;
            }
            Op::Free { slot } | Op::Reallocate { slot, .. } => self.bytes -= self.sizes[slot as usize],
        }
    }
}

/// Collects events of one thread, one per tick.
#[derive(Default)]
struct Sequence {
    events: Vec<Event>,
    slots: SlotTable,
}

impl Sequence {
    fn push(&mut self, op: Op) {
        self.events.push(Event { tick: self.events.len() as u64, thread: 0, op });
    }

    fn allocate(&mut self, name: u64, size: u64) {
        let slot = self.slots.allocate(name).expect("a name is given once");
        self.push(Op::Allocate { slot, size, align: ALIGN_BYTES });
    }

    /// Does nothing if the block is not in this sequence.
    fn free(&mut self, name: u64) {
        if let Some(slot) = self.slots.free(name) {
            self.push(Op::Free { slot });
        }
    }
}

/// The requests of up to 512 bytes. A reallocation counts as an allocation and a free, as in the thesis (1.2).
fn small(events: &[Event]) -> Vec<Event> {
    /// Not a valid slot number.
    const NEW: u64 = u64::MAX;
    let mut sequence = Sequence::default();
    for event in events {
        match event.op {
            Op::Allocate { slot, size, .. } if size <= LARGEST_BYTES => sequence.allocate(slot.into(), size),
            Op::Allocate { .. } => {}
            Op::Free { slot } => sequence.free(slot.into()),
            Op::Reallocate { slot, size, .. } if size <= LARGEST_BYTES => {
                sequence.allocate(NEW, size);
                sequence.free(slot.into());
                sequence.slots.relocate(NEW, slot.into()).expect("the old block is gone");
            }
            Op::Reallocate { slot, .. } => sequence.free(slot.into()),
        }
    }
    sequence.events
}

/// The part up to the operation after which [`GROWN`] of the peak live memory is live, and the rest without the frees
/// of blocks allocated before: the thesis' *stable* also starts with an empty heap, since its live memory is below that
/// of *boot*.
fn split(events: &[Event]) -> (Vec<Event>, Vec<Event>) {
    let mut live = Live::default();
    let after: Vec<u64> = events
        .iter()
        .map(|event| {
            live.note(event);
            live.bytes
        })
        .collect();
    let grown = after.iter().max().map_or(0.0, |most| *most as f64 * GROWN);
    let end = after.iter().position(|bytes| *bytes as f64 >= grown).map_or(0, |place| place + 1);
    let mut rest = Sequence::default();
    for event in &events[end..] {
        match event.op {
            Op::Allocate { slot, size, .. } => rest.allocate(slot.into(), size),
            Op::Free { slot } | Op::Reallocate { slot, .. } => rest.free(slot.into()),
        }
    }
    (events[..end].to_vec(), rest.events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(ops: &[Op]) -> Vec<Event> {
        (0..).zip(ops).map(|(tick, op)| Event { tick, thread: 3, op: *op }).collect()
    }

    fn ops(events: &[Event]) -> Vec<Op> {
        events.iter().map(|event| event.op).collect()
    }

    const fn allocate(slot: u32, size: u64) -> Op {
        Op::Allocate { slot, size, align: 8 }
    }

    const fn free(slot: u32) -> Op {
        Op::Free { slot }
    }

    #[test]
    fn large_requests_are_left_out_and_reallocations_are_two_operations() {
        let whole = events(&[
            Op::Allocate { slot: 0, size: 513, align: 16 },
            Op::Allocate { slot: 1, size: 512, align: 64 },
            Op::Reallocate { slot: 1, size: 40, align: 64 },
            Op::Reallocate { slot: 0, size: 9, align: 16 },
            Op::Reallocate { slot: 1, size: 4000, align: 64 },
            free(0),
            free(1),
        ]);
        assert_eq!(ops(&small(&whole)), [allocate(0, 512), allocate(1, 40), free(0), allocate(0, 9), free(1), free(0)]);
    }

    #[test]
    fn the_boot_ends_where_the_heap_stops_growing_and_the_rest_begins_with_an_empty_heap() {
        let whole = events(&[
            allocate(0, 50),
            allocate(1, 45),
            free(0),
            allocate(0, 10),
            allocate(2, 20),
            free(1),
            free(2),
            allocate(1, 65),
        ]);
        // The peak is 95, and 90 per cent of it are live after the second operation.
        let (boot, stable) = split(&whole);
        assert_eq!(ops(&boot), [allocate(0, 50), allocate(1, 45)]);
        assert_eq!(ops(&stable), [allocate(0, 10), allocate(1, 20), free(1), allocate(1, 65)]);
        assert_eq!((facts(&boot).peak_live_bytes, facts(&stable).peak_live_bytes), (95, 75));
    }

    #[test]
    fn facts_are_of_every_operation() {
        let facts = facts(&events(&[allocate(0, 1), allocate(1, 8), free(0), allocate(0, 9), allocate(2, 512)]));
        assert_eq!((facts.operations, facts.mallocs, facts.peak_live_bytes, facts.peak_live_blocks), (5, 4, 529, 3));
        assert_eq!((facts.classes[0], facts.classes[1], facts.classes[63], facts.classes.len()), (2, 1, 1, 64));
        assert_eq!(facts.live.points, [(0, 1), (1, 9), (2, 8), (3, 17), (4, 529)]);
    }

    #[test]
    fn a_trace_can_be_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("boot.rtrace");
        let recording = Recording::new(
            "test",
            &events(&[allocate(0, 100), Op::Reallocate { slot: 0, size: 200, align: 8 }, free(0)]),
        );
        let load = loads(std::slice::from_ref(&recording)).remove(0);
        let events = super::events(std::slice::from_ref(&recording), &load, 0).expect("recorded");
        write(&path, &load, &events).expect("obeys the rules of traces");
        let mut chunk = Vec::new();
        rtalloc_lab::trace::Reader::open(&path).expect("a trace").next_chunk(&mut chunk).expect("its events");
        assert_eq!(chunk, events);
    }
}
