//! Converts the raw log to a trace: addresses become slots, pairs of records become one event.

use super::RecordError;
use super::log::{RawReader, Step, StopReason};
use crate::trace::{Cause, Event, Incomplete, Op, SlotTable, TraceError, Writer};
use serde::Serialize;
use std::collections::HashMap;
use std::io::Write;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Findings of a recording, in addition to the events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Whether the recorder ran in the program at all.
    pub is_attached: bool,
    /// Programs that the process ran one after another by `exec`; the trace is of the last one.
    pub programs: u32,
    /// Requests of size 0, which the trace holds as 1 byte.
    pub zero_sized: u64,
    /// Requests that returned null; not in the trace.
    pub refused: u64,
    /// Blocks freed by another thread than the one that allocated them.
    pub cross_thread_frees: u64,
    /// Frees of unknown blocks; not in the trace.
    pub unknown_frees: u64,
    /// Reallocations of unknown blocks; the trace holds an allocation.
    pub unknown_reallocations: u64,
    /// Blocks returned at the address of a live one: its free was missed, and the trace has one just before.
    pub missed_frees: u64,
    /// Records that were begun and never completed, because the program ended.
    pub unfinished: u64,
    /// Records that came after recording had stopped; not in the trace.
    pub lost: u64,
    /// Why recording stopped before the program did.
    pub stop_reason: Option<StopReason>,
}

/// What a raw log lacks of the operations of a program that ended with `status`. Reads the log to its end.
///
/// # Errors
///
/// The log cannot be read.
pub fn incomplete(mut reader: RawReader, status: ExitStatus) -> Result<Option<Incomplete>, RecordError> {
    while reader.next_record()?.is_some() {}
    let signal = status.signal();
    let missing = Some(reader.lost() + reader.unfinished());
    let cause = match reader.stop_reason() {
        Some(StopReason::Limit) => Cause::LogLimit,
        Some(StopReason::DiskFull) => Cause::DiskFull,
        Some(StopReason::KernelTooOld) => Cause::KernelTooOld,
        None if signal.is_some() => Cause::Killed,
        None if reader.unfinished() > 0 => Cause::Unfinished,
        None => return Ok(None),
    };
    // With a kernel that is too old, nothing was counted.
    let missing = missing.filter(|_| cause != Cause::KernelTooOld);
    Ok(Some(Incomplete { cause, missing, signal }))
}

/// Streams a raw log into `writer`. The caller finishes the writer.
///
/// The memory needed is proportional to the live blocks, never to the length of the log.
///
/// # Errors
///
/// The log cannot be read, or the trace cannot be written. A truncated log is not an error.
pub fn convert<W: Write>(mut reader: RawReader, writer: &mut Writer<W>) -> Result<Findings, RecordError> {
    let mut conversion = Conversion {
        writer,
        slots: SlotTable::new(),
        blocks: Vec::new(),
        threads: HashMap::new(),
        start_ns: None,
        tick_ns: 0,
        findings: Findings::default(),
    };
    while let Some(record) = reader.next_record()? {
        let start_ns = *conversion.start_ns.get_or_insert(record.tick_ns);
        // A thread reads the clock before it reserves its position in the order, so neighbouring ticks may be slightly
        // out of order.
        conversion.tick_ns = conversion.tick_ns.max(record.tick_ns.saturating_sub(start_ns));
        conversion.take(record.step, record.thread)?;
    }
    Ok(Findings {
        is_attached: reader.is_attached(),
        programs: reader.programs(),
        unfinished: reader.unfinished(),
        lost: reader.lost(),
        stop_reason: reader.stop_reason(),
        ..conversion.findings
    })
}

/// What `malloc` aligns to, as a power of two: 16 bytes.
const MALLOC_ALIGN_LOG2: u8 = 4;

/// Flag for a block that its thread is reallocating: no program address has the highest bit set.
const IN_FLIGHT: u64 = 1 << 63;

/// The request of a slot's block.
#[derive(Clone, Copy)]
struct Block {
    align: u32,
    thread: u32,
}

/// The state between two records.
struct Conversion<'a, W: Write> {
    writer: &'a mut Writer<W>,
    slots: SlotTable,
    /// By slot.
    blocks: Vec<Block>,
    /// From the log's thread numbers to the trace's, which follow the order of the events.
    threads: HashMap<u32, u32>,
    start_ns: Option<u64>,
    tick_ns: u64,
    findings: Findings,
}

impl<W: Write> Conversion<'_, W> {
    /// Processes one record. It becomes at most one event, and one more for a missed free.
    fn take(&mut self, step: Step, raw_thread: u32) -> Result<(), TraceError> {
        let in_flight = IN_FLIGHT | u64::from(raw_thread);
        match step {
            Step::Allocate { address, size, align_log2 } => self.allocate(address, size, align_log2, raw_thread)?,
            Step::Free { address } => match self.slots.free(address) {
                Some(slot) => {
                    let thread = self.push(raw_thread, Op::Free { slot })?;
                    self.findings.cross_thread_frees += u64::from(self.blocks[slot as usize].thread != thread);
                }
                None => self.findings.unknown_frees += 1,
            },
            // From here on another thread may get the old address. The end record shows whether the block was known.
            Step::ReallocateBegin { address } => {
                self.slots.relocate(address, in_flight);
            }
            Step::ReallocateRefused { address } => {
                self.findings.refused += 1;
                self.slots.relocate(in_flight, address);
            }
            Step::ReallocateEnd { address, size } => {
                self.vacate(address, raw_thread)?;
                match self.slots.relocate(in_flight, address) {
                    Some(slot) => {
                        let align = self.blocks[slot as usize].align;
                        self.push(raw_thread, Op::Reallocate { slot, size, align })?;
                    }
                    None => {
                        self.findings.unknown_reallocations += 1;
                        self.allocate(address, size, MALLOC_ALIGN_LOG2, raw_thread)?;
                    }
                }
            }
            Step::Refused => self.findings.refused += 1,
        }
        Ok(())
    }

    /// A new block.
    fn allocate(&mut self, address: u64, size: u64, align_log2: u8, raw_thread: u32) -> Result<(), TraceError> {
        self.vacate(address, raw_thread)?;
        // `vacate` has just ensured it.
        let Some(slot) = self.slots.allocate(address) else { return Ok(()) };
        // A trace has 32 bits for an alignment; one above 2 GiB was never observed.
        let align = 1 << align_log2.min(31);
        let thread = self.push(raw_thread, Op::Allocate { slot, size: size.max(1), align })?;
        self.findings.zero_sized += u64::from(size == 0);
        let block = Block { align, thread };
        match self.blocks.get_mut(slot as usize) {
            Some(place) => *place = block,
            // A new slot is the smallest unused number.
            None => self.blocks.push(block),
        }
        Ok(())
    }

    /// Frees the block recorded as live at `address`, where the allocator has just placed another one: its free was not
    /// recorded, or its record was not completed.
    fn vacate(&mut self, address: u64, raw_thread: u32) -> Result<(), TraceError> {
        if let Some(slot) = self.slots.free(address) {
            self.findings.missed_frees += 1;
            self.push(raw_thread, Op::Free { slot })?;
        }
        Ok(())
    }

    /// Writes an event and returns the trace's number of its thread.
    fn push(&mut self, raw_thread: u32, op: Op) -> Result<u32, TraceError> {
        let next = self.threads.len() as u32;
        let thread = *self.threads.entry(raw_thread).or_insert(next);
        self.writer.push(&Event { tick: self.tick_ns, thread, op })?;
        Ok(thread)
    }
}
