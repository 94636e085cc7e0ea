//! Converts the operations of a log to a trace: addresses become slots.

use super::{Entry, Format, Log, Mode, Part, Step};
use crate::trace::{Cause, Event, Incomplete, Op, SlotTable, TraceError, Writer};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;

/// How often something was found, and where first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// How often.
    pub count: u64,
    /// The first line; 0 if there is none.
    pub first_line: u64,
}

impl Noted {
    fn at(&mut self, line: u64) {
        if self.count == 0 {
            self.first_line = line;
        }
        self.count += 1;
    }
}

/// Findings of a log, in addition to the events of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Requests that returned null; not in the trace.
    pub refused: Noted,
    /// Requests of 0 bytes, which the trace holds as 1 byte.
    pub zero_sized: Noted,
    /// Frees of a null address, which do nothing; not in the trace.
    pub null_frees: Noted,
    /// Frees of other addresses, which are not those of known blocks; not in the trace.
    pub unknown_frees: Noted,
    /// Frees of blocks that were freed before and not handed out since; not in the trace.
    pub repeated_frees: Noted,
    /// Blocks in whose memory another one was handed out, without a line that frees them: the trace frees them just
    /// before.
    pub missed_frees: Noted,
    /// Frees that state another size than the allocation, which counts.
    pub other_sizes: Noted,
    /// Blocks of a dump that were freed at an unknown time: the trace frees them as late as the addresses permit.
    pub late_frees: u64,
    /// Operations in other heaps; not in the trace.
    pub other_heaps: u64,
}

/// Streams a part of a log into `writer`: the operations of all heaps, or of the one at a place of [`Log::heaps`]. The
/// caller finishes the writer.
///
/// # Errors
///
/// The trace cannot be written.
pub fn convert<W: Write>(
    log: &Log,
    part: &Part,
    heap: Option<usize>,
    writer: &mut Writer<W>,
) -> Result<Findings, TraceError> {
    let mut conversion = Conversion {
        writer,
        align: log.format.align(),
        slots: SlotTable::new(),
        live: BTreeMap::new(),
        dead: HashSet::new(),
        tick: 0,
        findings: Findings::default(),
    };
    let mut clocks = Clocks::default();
    let is_wanted = |entry: &&Entry| heap.is_none_or(|heap| heap == entry.heap);
    let mut entries = part.entries.iter().filter(is_wanted).peekable();
    let mut index = 0;
    while let Some(entry) = entries.next() {
        conversion.tick = match (log.format, entry.number) {
            (Format::EspDump, Some(reading)) => clocks.read(entry.processor, reading),
            (_, number) => conversion.tick.max(number.map_or(index, u64::from)),
        };
        index += 1;
        match entry.step {
            Step::Free => conversion.free(entry)?,
            Step::Allocate { freed } => {
                let next = entries.peek().filter(|_| log.format == Format::Zephyr);
                if next.is_some_and(|next| conversion.is_resize(entry, next)) {
                    entries.next();
                    index += 1;
                    conversion.resize(entry)?;
                } else {
                    conversion.allocate(entry, freed)?;
                }
            }
        }
    }
    conversion.free_at_the_end()?;
    let other_heaps = (part.entries.len() as u64) - index;
    Ok(Findings { other_heaps, ..conversion.findings })
}

/// What a part of a log lacks.
#[must_use]
pub fn incomplete(log: &Log, part: &Part, findings: &Findings) -> Option<Incomplete> {
    let of = |cause, missing| Some(Incomplete { cause, missing, signal: None });
    let dump = &part.dump;
    if log.format == Format::EspDump {
        // Frees of blocks from before the trace count, too; so only allocations tell.
        let there = part.entries.len() as u64;
        let lost = dump.allocations.map(|allocations| allocations.saturating_sub(there));
        let is_whole = lost == Some(0) && dump.records.is_none_or(|records| records <= there) && part.damaged == 0;
        return match dump.mode {
            _ if dump.has_overflowed => of(Cause::Overwritten, None),
            Some(_) if is_whole => None,
            // An allocation and a free for each.
            Some(Mode::Leaks) => of(Cause::LiveOnly, lost.map(|lost| 2 * lost)),
            Some(Mode::All) | None => of(Cause::LogLines, None),
        };
    }
    match part.missing {
        Some(0) => None,
        Some(missing) => of(Cause::LogLines, Some(missing)),
        None if part.damaged + findings.missed_frees.count + findings.unknown_frees.count > 0 => {
            of(Cause::LogLines, None)
        }
        None => None,
    }
}

/// The cycle counters of the processors, as one clock that never goes back.
///
/// A reading is taken before the allocation, and the record made after it, so a reading may be a little below the last
/// one. Therefore a difference of 2^31 or more is a step back, which counts as 0: a counter that wrapped around is read
/// right if less than 2^31 cycles passed between two records of its processor. The counters of two processors have
/// nothing to do with each other: that of each runs from its first record on.
#[derive(Default)]
struct Clocks {
    /// By processor: the last reading, and the time.
    processors: BTreeMap<u32, (u32, u64)>,
    now: u64,
}

impl Clocks {
    fn read(&mut self, processor: u32, reading: u32) -> u64 {
        let (last, time) = self.processors.entry(processor).or_insert((reading, self.now));
        let passed = reading.wrapping_sub(*last);
        if passed < 1 << 31 {
            *last = reading;
            *time += u64::from(passed);
        }
        self.now = self.now.max(*time);
        self.now
    }
}

/// A live block.
struct Block {
    size: u64,
    /// Freed before the log was printed, at an unknown time.
    freed: bool,
}

/// The state between two operations.
struct Conversion<'a, W: Write> {
    writer: &'a mut Writer<W>,
    align: u32,
    slots: SlotTable,
    /// By address. No two overlap.
    live: BTreeMap<u64, Block>,
    /// Addresses of blocks that were freed and not allocated again.
    dead: HashSet<u64>,
    tick: u64,
    findings: Findings,
}

impl<W: Write> Conversion<'_, W> {
    fn allocate(&mut self, entry: &Entry, freed: bool) -> Result<(), TraceError> {
        if entry.address == 0 {
            self.findings.refused.at(entry.line);
            return Ok(());
        }
        if entry.size == 0 {
            self.findings.zero_sized.at(entry.line);
        }
        let size = entry.size.max(1);
        self.vacate(entry.address, size, entry.line)?;
        self.dead.remove(&entry.address);
        self.live.insert(entry.address, Block { size, freed });
        // `vacate` has just ensured it.
        let Some(slot) = self.slots.allocate(entry.address) else { return Ok(()) };
        self.push(Op::Allocate { slot, size, align: self.align })
    }

    fn free(&mut self, entry: &Entry) -> Result<(), TraceError> {
        if entry.address == 0 {
            self.findings.null_frees.at(entry.line);
            return Ok(());
        }
        let Some(block) = self.live.get(&entry.address) else {
            let is_dead = self.dead.contains(&entry.address);
            let noted = if is_dead { &mut self.findings.repeated_frees } else { &mut self.findings.unknown_frees };
            noted.at(entry.line);
            return Ok(());
        };
        if entry.size != 0 && entry.size != block.size {
            self.findings.other_sizes.at(entry.line);
        }
        self.release(entry.address)
    }

    /// Whether two operations of Zephyr are a reallocation in place: it reports the new size as an allocation, then the
    /// old one as a free, both at the same address.
    fn is_resize(&self, entry: &Entry, next: &Entry) -> bool {
        let is_live = self.live.get(&entry.address).is_some_and(|block| block.size == next.size);
        is_live && entry.size > 0 && next.step == Step::Free && next.address == entry.address
    }

    fn resize(&mut self, entry: &Entry) -> Result<(), TraceError> {
        // A block that grows reaches into memory that must be free.
        let old = self.live.remove(&entry.address);
        self.vacate(entry.address, entry.size, entry.line)?;
        self.live.insert(entry.address, Block { size: entry.size, ..old.unwrap_or(Block { size: 0, freed: false }) });
        // `is_resize` has just ensured it.
        let Some(slot) = self.slots.get(entry.address) else { return Ok(()) };
        self.push(Op::Reallocate { slot, size: entry.size, align: self.align })
    }

    /// Frees the blocks recorded as live in the memory that was just handed out.
    fn vacate(&mut self, address: u64, size: u64, line: u64) -> Result<(), TraceError> {
        // The last bytes, because the end may be beyond the address space. No size is 0.
        let last = address.saturating_add(size - 1);
        while let Some((start, block)) = self.live.range(..=last).next_back() {
            if start.saturating_add(block.size - 1) < address {
                break;
            }
            if block.freed {
                self.findings.late_frees += 1;
            } else {
                self.findings.missed_frees.at(line);
            }
            let start = *start;
            self.release(start)?;
        }
        Ok(())
    }

    /// Frees the rest of the blocks that were freed before the log was printed, in the order of their addresses.
    fn free_at_the_end(&mut self) -> Result<(), TraceError> {
        let freed: Vec<u64> = self.live.iter().filter(|(_, block)| block.freed).map(|(address, _)| *address).collect();
        self.findings.late_frees += freed.len() as u64;
        freed.into_iter().try_for_each(|address| self.release(address))
    }

    /// Frees a live block.
    fn release(&mut self, address: u64) -> Result<(), TraceError> {
        self.live.remove(&address);
        self.dead.insert(address);
        match self.slots.free(address) {
            Some(slot) => self.push(Op::Free { slot }),
            None => Ok(()),
        }
    }

    fn push(&mut self, op: Op) -> Result<(), TraceError> {
        self.writer.push(&Event { tick: self.tick, thread: 0, op })
    }
}
