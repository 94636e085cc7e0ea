//! Converts a ring to a trace: offsets become slots.

use super::{Entry, Kind, Outcome, Ring};
use crate::trace::{Event, Op, SlotTable, TraceError, Writer};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// Unit of the trace's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Ticks {
    /// Numbers of the marks, as a 32-bit clock that may wrap around; of the records, if there are no marks
    #[default]
    Marks,
    /// Numbers of the records
    Records,
}

/// Refused requests of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Why.
    pub outcome: Outcome,
    /// How many.
    pub count: u64,
}

/// Findings of a ring, in addition to the events of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Marks.
    pub marks: u64,
    /// Refused requests; not in the trace.
    pub refused: Vec<Refused>,
    /// Frees of blocks that are older than the ring; not in the trace.
    pub older_frees: u64,
    /// Reallocations of blocks that are older than the ring; the trace holds an allocation.
    pub older_reallocations: u64,
    /// Frees and reallocations of blocks that were not live; not in the trace.
    pub misuses: u64,
    /// The first of them.
    pub first_misuse: Option<Entry>,
    /// Blocks returned at the address of a live one: its free is one of the damaged records. The trace has one just
    /// before.
    pub missed_frees: u64,
    /// Regions added and removed; not in the trace.
    pub regions: u64,
}

/// Streams a ring into `writer`. The caller finishes the writer.
///
/// Blocks that were allocated before the ring begins are not in the trace: their frees are omitted, their reallocations
/// become allocations. In a complete ring there are none, and a free of an unknown block is a misuse.
///
/// # Errors
///
/// The trace cannot be written.
pub fn convert<W: Write>(ring: &Ring, ticks: Ticks, writer: &mut Writer<W>) -> Result<Findings, TraceError> {
    let has_marks = ring.entries.iter().any(|entry| entry.kind == Kind::Mark);
    let mut conversion = Conversion {
        writer,
        is_complete: ring.is_complete(),
        slots: SlotTable::new(),
        dead: HashSet::new(),
        refused: BTreeMap::new(),
        clock: (ticks == Ticks::Marks && has_marks).then(Clock::default),
        tick: 0,
        findings: Findings::default(),
    };
    for entry in &ring.entries {
        conversion.take(entry)?;
    }
    let Conversion { refused, findings, .. } = conversion;
    let refused = refused.into_iter().map(|(outcome, count)| Refused { outcome, count }).collect();
    Ok(Findings { refused, ..findings })
}

/// A 32-bit clock whose readings are marks.
#[derive(Clone, Copy, Default)]
struct Clock {
    last: Option<u32>,
    ticks: u64,
}

impl Clock {
    /// Takes a reading. A reading below the last one means that the clock wrapped around.
    fn read(&mut self, reading: u32) {
        self.ticks += u64::from(self.last.map_or(reading, |last| reading.wrapping_sub(last)));
        self.last = Some(reading);
    }
}

/// The state between two records.
struct Conversion<'a, W: Write> {
    writer: &'a mut Writer<W>,
    is_complete: bool,
    /// Maps the offsets of live blocks to slots.
    slots: SlotTable,
    /// Offsets of blocks that were freed and not allocated again.
    dead: HashSet<u64>,
    refused: BTreeMap<Outcome, u64>,
    clock: Option<Clock>,
    tick: u64,
    findings: Findings,
}

impl<W: Write> Conversion<'_, W> {
    /// Processes one record. It becomes at most one event, and one more for a missed free.
    fn take(&mut self, entry: &Entry) -> Result<(), TraceError> {
        self.tick = self.clock.map_or(entry.number, |clock| clock.ticks);
        if entry.is_refused() {
            *self.refused.entry(entry.outcome).or_default() += 1;
            if entry.outcome == Outcome::Misused {
                self.misuse(entry);
            }
            return Ok(());
        }
        match entry.kind {
            Kind::Allocate => self.allocate(entry),
            Kind::Deallocate => self.free(entry),
            Kind::Reallocate => self.reallocate(entry),
            Kind::Mark => {
                self.findings.marks += 1;
                if let Some(clock) = &mut self.clock {
                    clock.read(entry.size as u32);
                }
                Ok(())
            }
            Kind::AddRegion | Kind::RemoveRegion => {
                self.findings.regions += 1;
                Ok(())
            }
        }
    }

    fn allocate(&mut self, entry: &Entry) -> Result<(), TraceError> {
        self.vacate(entry.address)?;
        self.dead.remove(&entry.address);
        // `vacate` has just ensured it.
        let Some(slot) = self.slots.allocate(entry.address) else { return Ok(()) };
        self.push(Op::Allocate { slot, size: entry.size, align: align(entry) })
    }

    fn free(&mut self, entry: &Entry) -> Result<(), TraceError> {
        match self.slots.free(entry.address) {
            Some(slot) => {
                self.dead.insert(entry.address);
                self.push(Op::Free { slot })
            }
            None if self.is_older(entry.address) => {
                self.findings.older_frees += 1;
                self.dead.insert(entry.address);
                Ok(())
            }
            None => {
                self.misuse(entry);
                Ok(())
            }
        }
    }

    fn reallocate(&mut self, entry: &Entry) -> Result<(), TraceError> {
        if self.slots.get(entry.from).is_none() {
            // The heap resized it, so it was live.
            self.findings.older_reallocations += 1;
            self.dead.insert(entry.from);
            return self.allocate(entry);
        }
        if entry.address != entry.from {
            self.vacate(entry.address)?;
            self.dead.insert(entry.from);
        }
        self.dead.remove(&entry.address);
        // `vacate` has just ensured it.
        let Some(slot) = self.slots.relocate(entry.from, entry.address) else { return Ok(()) };
        self.push(Op::Reallocate { slot, size: entry.size, align: align(entry) })
    }

    /// Whether a block that is not known to be live may be from before the ring begins.
    fn is_older(&self, address: u64) -> bool {
        !self.is_complete && !self.dead.contains(&address)
    }

    fn misuse(&mut self, entry: &Entry) {
        self.findings.misuses += 1;
        self.findings.first_misuse.get_or_insert(*entry);
    }

    /// Frees the block recorded as live where the heap has just placed another one: its free is a damaged record.
    fn vacate(&mut self, address: u64) -> Result<(), TraceError> {
        let Some(slot) = self.slots.free(address) else { return Ok(()) };
        self.findings.missed_frees += 1;
        self.push(Op::Free { slot })
    }

    fn push(&mut self, op: Op) -> Result<(), TraceError> {
        self.writer.push(&Event { tick: self.tick, thread: 0, op })
    }
}

/// The alignment as stored in traces, at most 2 GiB.
fn align(entry: &Entry) -> u32 {
    1 << entry.align_log2.min(31)
}
