//! The copy: the blocks of the original code in their order, with code that counts in between.
//!
//! ```text
//!     original            copy
//!     L: cmp rdi, rsi     L': add qword ptr fs:[executed], 2
//!        je M                 cmp rdi, rsi
//!        jmp rcx              je M'
//!                             mov fs:[rax], rax
//!                             mov rax, fs:[executed]
//!                             lea rax, [rax + 1]
//!                             mov fs:[executed], rax
//!                             mov rax, fs:[rax]
//!                             mov fs:[rax], rax
//!                             mov rax, rcx
//!                             jmp dispatcher
//! ```
//!
//! Each object of the process (the program, a library) has its own nearby memory, a *room*, so that what its
//! instructions address relative to themselves stays in reach:
//!
//! ```text
//!     [missed targets, marks: writable][table, dispatcher, code, pointers: executable]
//! ```

use super::dispatch::{self, Dispatch, Table};
use super::emit::{Emitter, Label, Labels};
use super::original::{Original, Part, Treatment, Unmatched, decode, parts};
use super::plan::Plan;
use super::room::{Room, pages};
use super::slots::Offsets;
use super::write::{BLOCK_BYTES, INSTRUCTION_BYTES, Whole, Writer};
use super::{CounterError, Coverage, Record};
use crate::graph::Graph;
use crate::image::Process;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Rewritten code in executable memory.
#[derive(Debug)]
pub struct Copy {
    /// Where the copy of each function is entered.
    entries: BTreeMap<u64, u64>,
    plan: Plan,
    layouts: Vec<Layout>,
    /// Instructions that are not executed in the copy, and the addresses of their marks.
    departures: Vec<(u64, u64)>,
}

/// A room, and the layout of its content.
#[derive(Debug)]
struct Layout {
    room: Room,
    /// The slots for missed targets, in the first room only.
    misses: Range<u64>,
    departures: Range<u64>,
    marks: Range<u64>,
    /// The number of the first mark.
    first_mark: usize,
    code: u64,
}

impl Layout {
    /// Reserves the room for the copy of a part, and makes its writable part accessible. `extra` bytes of executable
    /// memory are for the table and the dispatcher.
    fn new(
        part: &Part,
        originals: &[Vec<Original<'_>>],
        plan: &Plan,
        misses: usize,
        extra: usize,
    ) -> Result<Self, CounterError> {
        let own = &originals[part.blocks.clone()];
        let instructions: usize = own.iter().map(Vec::len).sum();
        let leaves =
            |original: &&Original<'_>| matches!(original.treatment(), Treatment::CallsOriginal(_) | Treatment::Departs);
        let departures = own.iter().flatten().filter(leaves).count();
        let first_mark = plan.of_block(part.blocks.start);
        let marks = (plan.of_block(part.blocks.end) - first_mark).next_multiple_of(size_of::<u64>());
        let written = pages(size_of::<u64>() * misses + departures + marks);
        let executed = instructions * INSTRUCTION_BYTES + own.len() * BLOCK_BYTES + extra;
        let room = Room::near(&part.object, written + pages(executed))?;

        let start = room.range().start;
        let code = start + written as u64;
        room.open(start..code)?;
        let mut at = start;
        let mut next = |bytes: usize| {
            at += bytes as u64;
            at - bytes as u64..at
        };
        let (misses, marks, departures) = (next(size_of::<u64>() * misses), next(marks), next(departures));
        Ok(Self { room, misses, departures, marks, first_mark, code })
    }

    /// Eight marks in each word, a byte each: the first in the lowest. Unused bytes of the last word are zero.
    fn marks(&self) -> &[AtomicU64] {
        let count = (self.marks.end - self.marks.start) as usize / size_of::<u64>();
        // SAFETY: the range is in the writable part of the room after whole words, so it is aligned, zero-initialised
        // and mapped as long as `self` lives. Rewritten code stores single bytes of it, each 1.
        unsafe { std::slice::from_raw_parts(self.marks.start as *const AtomicU64, count) }
    }

    fn misses(&self) -> &[AtomicU64] {
        let count = (self.misses.end - self.misses.start) as usize / size_of::<u64>();
        // SAFETY: the range begins the writable part of the room, so it is aligned, zero-initialised and mapped as long
        // as `self` lives. Rewritten code stores whole words in it.
        unsafe { std::slice::from_raw_parts(self.misses.start as *const AtomicU64, count) }
    }
}

impl Copy {
    /// Rewrites the code of a graph.
    pub fn new(process: &Process, graph: &Graph, record: Record) -> Result<Self, CounterError> {
        let offsets = Offsets::find()?;
        let blocks = graph.blocks();
        let originals = decode(process, graph, &blocks)?;
        let parts = parts(process, &blocks)?;
        let unmatched = Unmatched::of(graph);
        let computed = originals.iter().flatten().any(|original| original.treatment() == Treatment::Dispatched);
        let dispatched = computed || !unmatched.is_empty();
        let plan = match record {
            Record::Count => Plan::default(),
            Record::Coverage => Plan::new(graph, &blocks, dispatched),
        };

        let mut labels = Labels::default();
        let places: BTreeMap<u64, Label> =
            blocks.iter().map(|block| (block.instructions[0], labels.create())).collect();
        let table = dispatched.then(|| Table::new(&places));
        let dispatcher_bytes = dispatch::BYTES + parts.len() * dispatch::PER_ROOM;
        let mut layouts = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let (misses, table_bytes) =
                if number == 0 { (dispatch::MISSES, table.as_ref().map_or(0, Table::bytes)) } else { (0, 0) };
            layouts.push(Layout::new(part, &originals, &plan, misses, table_bytes + dispatcher_bytes)?);
        }
        let rooms: Vec<Range<u64>> = layouts.iter().map(|layout| layout.room.range()).collect();

        let whole = Whole {
            graph,
            originals: &originals,
            plan: (record == Record::Coverage).then_some(&plan),
            places: &places,
            unmatched: &unmatched,
            offsets,
        };
        let (mut departures, mut entries, mut emitters) = (Vec::new(), Vec::new(), Vec::new());
        for (part, layout) in parts.iter().zip(&layouts) {
            let mut emitter = Emitter::new(layout.code);
            let dispatcher = labels.create();
            if let Some(table) = &table {
                if emitters.is_empty() {
                    table.write(&mut emitter);
                }
                emitter.mark(&mut labels, dispatcher);
                let dispatch = Dispatch {
                    offsets,
                    table,
                    table_at: layouts[0].code,
                    misses_at: layouts[0].misses.start,
                    rooms: &rooms,
                };
                dispatch.write(&mut emitter, &mut labels)?;
            }
            let writer = Writer {
                whole: &whole,
                part,
                marks_at: layout.marks.start,
                first_mark: layout.first_mark,
                departure_at: layout.departures.start,
                dispatcher,
                emitter,
                labels: &mut labels,
                departures: &mut departures,
            };
            let mut emitter = writer.write()?;
            for function in graph.functions().filter(|function| part.object.contains(function)) {
                let Some(label) = places.get(&function) else { continue };
                let mut entry = *label;
                if dispatched {
                    entry = labels.create();
                    emitter.mark(&mut labels, entry);
                    dispatch::write_entry(&mut emitter, &offsets, *label);
                }
                entries.push((function, entry));
            }
            emitter.write_pointers();
            emitters.push(emitter);
        }
        for (emitter, layout) in emitters.into_iter().zip(&layouts) {
            layout.room.seal(layout.code, &emitter.finish(&labels)?)?;
        }
        let entries = entries.into_iter().map(|(function, entry)| (function, labels.place(entry))).collect();
        Ok(Self { entries, plan, layouts, departures })
    }

    pub fn entry(&self, function: u64) -> Option<*const c_void> {
        self.entries.get(&function).map(|entry| *entry as *const c_void)
    }

    pub fn misses(&self) -> BTreeSet<u64> {
        let slots = self.layouts.iter().flat_map(Layout::misses);
        slots.map(|slot| slot.load(Ordering::Relaxed)).filter(|target| *target != 0).collect()
    }

    pub fn departures(&self) -> BTreeSet<u64> {
        // SAFETY: each mark is a byte in the writable part of a room, which is zero-initialised and mapped as long as
        // `self` lives. Rewritten code stores single bytes in it.
        let left = |mark: u64| unsafe { &*(mark as *const AtomicU8) }.load(Ordering::Relaxed) != 0;
        self.departures.iter().filter(|(_, mark)| left(*mark)).map(|(address, _)| *address).collect()
    }

    pub fn instructions(&self, coverage: &Coverage) -> BTreeSet<u64> {
        self.plan.instructions(coverage)
    }

    pub fn edges(&self, coverage: &Coverage) -> BTreeSet<(u64, u64)> {
        self.plan.edges(coverage)
    }

    pub fn coverage(&self, into: &mut Coverage) {
        into.clear();
        for layout in &self.layouts {
            for (number, word) in layout.marks().iter().enumerate() {
                // An operation sets few of the marks.
                let mut set = word.load(Ordering::Relaxed);
                while set != 0 {
                    into.set(layout.first_mark + number * size_of::<u64>() + set.trailing_zeros() as usize / 8);
                    set &= set - 1;
                }
            }
        }
    }

    pub fn clear_coverage(&self) {
        for word in self.layouts.iter().flat_map(Layout::marks) {
            word.store(0, Ordering::Relaxed);
        }
    }
}
