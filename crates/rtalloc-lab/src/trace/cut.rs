//! Reduces a trace to its small requests, as the Bitframe thesis (2012, section 6.1) reduces its recordings to 512
//! bytes.

use super::{Event, Op, Reader, TraceError, Writer};
use std::io::{Read, Write};

/// What a cut retained of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Requests (allocations and reallocations) of the whole trace.
    pub requests: u64,
    /// Those in the cut trace, including the allocations by which a block entered it.
    pub kept: u64,
}

/// Writes the operations of `reader` on blocks of at most `largest` bytes to `writer`: a block that a reallocation
/// makes larger is freed there, and one that a reallocation makes small enough is allocated there, so that the live
/// memory is that of the small blocks at any time. Slots and threads are renumbered; ticks are unchanged.
///
/// # Errors
///
/// Errors of the reader and of the writer.
pub fn at_most<R: Read, W: Write>(
    reader: &mut Reader<R>,
    largest: u64,
    writer: &mut Writer<W>,
) -> Result<Cut, TraceError> {
    let (mut cut, mut slots, mut threads) = (Cut::default(), Slots::default(), Vec::new());
    let mut events = Vec::new();
    while reader.next_chunk(&mut events)? {
        for event in &events {
            let op = match event.op {
                Op::Allocate { slot, size, align } => {
                    cut.requests += 1;
                    (size <= largest).then(|| Op::Allocate { slot: slots.enter(slot), size, align })
                }
                Op::Reallocate { slot, size, align } => {
                    cut.requests += 1;
                    match slots.of(slot) {
                        Some(slot) if size <= largest => Some(Op::Reallocate { slot, size, align }),
                        Some(_) => slots.leave(slot).map(|slot| Op::Free { slot }),
                        None => (size <= largest).then(|| Op::Allocate { slot: slots.enter(slot), size, align }),
                    }
                }
                Op::Free { slot } => slots.leave(slot).map(|slot| Op::Free { slot }),
            };
            let Some(op) = op else { continue };
            cut.kept += u64::from(!matches!(op, Op::Free { .. }));
            writer.push(&Event { tick: event.tick, thread: renumbered(&mut threads, event.thread), op })?;
        }
    }
    Ok(cut)
}

/// The new number of a thread, in the order of the remaining threads' first operations.
fn renumbered(threads: &mut Vec<u32>, thread: u32) -> u32 {
    let place = threads.iter().position(|known| *known == thread).unwrap_or_else(|| {
        threads.push(thread);
        threads.len() - 1
    });
    place as u32
}

/// Maps slots of the whole trace to those of the cut one, reusing the most recently freed first.
#[derive(Default)]
struct Slots {
    of: Vec<Option<u32>>,
    free: Vec<u32>,
    used: u32,
}

impl Slots {
    fn of(&self, slot: u32) -> Option<u32> {
        self.of.get(slot as usize).copied().flatten()
    }

    fn enter(&mut self, slot: u32) -> u32 {
        let new = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.used - 1
        });
        if self.of.len() <= slot as usize {
            self.of.resize(slot as usize + 1, None);
        }
        self.of[slot as usize] = Some(new);
        new
    }

    fn leave(&mut self, slot: u32) -> Option<u32> {
        let left = self.of.get_mut(slot as usize)?.take()?;
        self.free.push(left);
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Meta, Origin, TickUnit};
    use super::*;

    fn meta() -> Meta {
        Meta {
            name: "test".into(),
            about: "made by a test".into(),
            origin: Origin::Program { command: vec!["test".into()] },
            tick_unit: TickUnit::Logical,
            created_unix_seconds: None,
            incomplete: None,
        }
    }

    fn cut(ops: &[(u32, Op)], largest: u64) -> (Cut, Vec<Event>) {
        let (mut whole, mut small) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(&mut whole, &meta()).expect("a writer");
        for (tick, (thread, op)) in ops.iter().enumerate() {
            writer.push(&Event { tick: tick as u64, thread: *thread, op: *op }).expect("a valid event");
        }
        writer.finish().expect("a trace");
        let mut writer = Writer::new(&mut small, &meta()).expect("a writer");
        let mut reader = Reader::new(whole.as_slice()).expect("a trace");
        let cut = at_most(&mut reader, largest, &mut writer).expect("a cut");
        writer.finish().expect("a trace");
        let (mut events, mut all) = (Vec::new(), Vec::new());
        let mut reader = Reader::new(small.as_slice()).expect("a trace");
        while reader.next_chunk(&mut events).expect("a chunk") {
            all.append(&mut events);
        }
        (cut, all)
    }

    fn allocate(slot: u32, size: u64) -> Op {
        Op::Allocate { slot, size, align: 16 }
    }

    fn reallocate(slot: u32, size: u64) -> Op {
        Op::Reallocate { slot, size, align: 16 }
    }

    #[test]
    fn blocks_are_in_the_cut_while_they_are_small() {
        let whole = [
            (0, allocate(0, 513)),
            (1, allocate(1, 512)),
            (2, reallocate(1, 600)),
            (0, reallocate(0, 100)),
            (2, allocate(2, 7)),
            (0, reallocate(0, 50)),
            (0, reallocate(1, 900)),
            (1, Op::Free { slot: 1 }),
            (0, Op::Free { slot: 0 }),
        ];
        let (cut, events) = cut(&whole, 512);
        assert_eq!(cut, Cut { requests: 7, kept: 4 });
        let ops: Vec<(u64, u32, Op)> = events.iter().map(|event| (event.tick, event.thread, event.op)).collect();
        assert_eq!(
            ops,
            [
                (1, 0, allocate(0, 512)),
                (2, 1, Op::Free { slot: 0 }),
                (3, 2, allocate(0, 100)),
                (4, 1, allocate(1, 7)),
                (5, 2, reallocate(0, 50)),
                (8, 2, Op::Free { slot: 0 }),
            ]
        );
    }

    #[test]
    fn a_cut_above_every_request_is_the_trace_itself() {
        let whole = [(0, allocate(0, 10)), (1, allocate(1, 20)), (1, Op::Free { slot: 0 }), (0, reallocate(1, 30))];
        let (cut, events) = cut(&whole, 30);
        assert_eq!((cut.requests, cut.kept), (3, 3));
        assert!(events.iter().map(|event| (event.thread, event.op)).eq(whole));
    }
}
