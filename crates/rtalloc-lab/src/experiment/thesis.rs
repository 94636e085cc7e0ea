//! Tables 7 and 8 of the Bitframe thesis (2012, section 6.8): H, F and I of seven allocators on the traces *uniform* and
//! *small*, in a heap of 3 MiB.
//!
//! The thesis' runs end at the first request that fails, so that its figures are of different lengths of the trace; beside
//! them stand ours at the *equal prefix*, up to the first failure of any allocator.
//!
//! H includes the control structure here, as it must in the thesis, where it exceeds the heap. L, the *bookkeeping*, is the
//! control structure, the headers of live blocks, and what pages keep for themselves (`bookkeeping`). It is sampled
//! `SAMPLES` times in a run.

use crate::replay::isolate::{Child, Death};
use crate::replay::{Block, Observer, Replay};
use crate::result::thesis::{Figures, Measured, Row, Table, Thesis};
use crate::subject::{Heap, Region, Subject, View, select};
use crate::trace::Event;
use crate::workload::Model;
use rtalloc::contract::Mechanism;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// The heap of the thesis, in bytes.
pub const HEAP_BYTES: usize = 3 << 20;

/// How often the bookkeeping is added up in a run.
const SAMPLES: usize = 200;

/// Time an allocator may take for all seeds of a trace.
const LIMIT: Duration = Duration::from_secs(120);

/// A row of the thesis: its name there and here; H, M, F and I of tables 7 and 8.
type Published = (&'static str, &'static str, [f64; 4], [f64; 4]);

/// Tables 7 and 8 as published: bytes, bytes, per cent, per cent.
const PUBLISHED: [Published; 7] = [
    ("bbuddy", "bbuddy", [3_149_928.0, 2_164_377.0, 45.54, 13.68], [3_149_928.0, 1_518_551.0, 107.43, 42.10]),
    ("bframe", "bitframe-8", [3_130_004.0, 2_418_900.0, 29.40, 28.13], [2_310_804.0, 1_693_554.0, 36.45, 23.96]),
    ("reaps", "reaps-8", [3_149_328.0, 2_599_579.0, 21.15, 15.76], [2_010_640.0, 1_693_554.0, 18.72, 17.50]),
    ("regis1", "regis1-8", [3_148_824.0, 1_716_651.0, 83.43, 0.86], [3_148_824.0, 1_466_063.0, 114.78, 0.73]),
    ("regis2", "regis2-8", [3_149_328.0, 1_825_517.0, 72.52, 1.90], [3_149_328.0, 1_482_624.0, 112.42, 1.51]),
    ("sss", "simple-segregated-8", [3_149_724.0, 3_000_743.0, 4.96, 62.94], [2_259_628.0, 1_693_554.0, 33.43, 67.62]),
    ("tlsf", "tlsf", [3_149_744.0, 2_970_255.0, 6.04, 53.33], [2_305_224.0, 1_693_554.0, 36.12, 63.06]),
];

/// The traces, as `rtalloc generate` makes them, and their tables.
const TRACES: [(u32, &str); 2] = [(7, "uniform --align 8"), (8, "small --align 8")];

/// Measures both tables, each figure the mean over `seeds` traces.
///
/// # Errors
///
/// The system's refusal of a process.
pub fn measure(seeds: u64, heap_bytes: usize, progress: &mut dyn FnMut(u64, u64)) -> std::io::Result<Thesis> {
    let total = (TRACES.len() * PUBLISHED.len() * 2) as u64;
    let mut done = 0;
    let mut step = || {
        progress(done, total);
        done += 1;
    };
    let mut tables = Vec::new();
    for (column, (number, words)) in TRACES.into_iter().enumerate() {
        let model = Model::parse(words).expect("words of ours");
        let traces: Vec<Vec<Event>> = (1..=seeds)
            .map(|seed| {
                let mut events = Vec::new();
                model.generate(seed, &mut events).expect("a vector takes every event");
                events
            })
            .collect();
        let mut cuts = Vec::new();
        for (_, name, ..) in PUBLISHED {
            step();
            cuts.push(apart(name, &traces, heap_bytes, usize::MAX)?);
        }
        let prefixes: Vec<usize> = (0..traces.len())
            .map(|seed| {
                let served = cuts.iter().flatten().map(|runs| runs[seed].operations as usize);
                served.min().unwrap_or(0)
            })
            .collect();
        let mut rows = Vec::new();
        for ((published_as, name, uniform, small), cut) in PUBLISHED.into_iter().zip(cuts) {
            step();
            let published = if column == 0 { uniform } else { small };
            let ours = match cut {
                Ok(cut) => prefixed(name, &traces, &prefixes, heap_bytes)?.map(|prefix| Measured {
                    cut: mean(&cut),
                    prefix: mean(&prefix),
                    operations: average(&cut, |run| run.operations as f64),
                    completed: cut.iter().filter(|run| run.completed).count() as u64,
                }),
                Err(what) => Err(what),
            };
            let [high_water_bytes, live_bytes, fragmentation, overhead] = published;
            let published = Figures {
                high_water_bytes,
                live_bytes,
                fragmentation: fragmentation / 100.0,
                overhead: overhead / 100.0,
            };
            rows.push(Row { published_as: published_as.into(), subject: name.into(), published, ours });
        }
        tables.push(Table {
            number,
            trace: model.name().into(),
            operations: traces.first().map_or(0, |events| events.len() as u64),
            prefix_operations: prefixes.iter().copied().min().unwrap_or(0) as u64,
            rows,
        });
    }
    Ok(Thesis { heap_bytes: heap_bytes as u64, seeds, tables })
}

/// A run of one allocator on one trace.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Run {
    figures: Figures,
    operations: u64,
    completed: bool,
}

fn average(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
}

fn mean(runs: &[Run]) -> Figures {
    Figures {
        high_water_bytes: average(runs, |run| run.figures.high_water_bytes),
        live_bytes: average(runs, |run| run.figures.live_bytes),
        fragmentation: average(runs, |run| run.figures.fragmentation),
        overhead: average(runs, |run| run.figures.overhead),
    }
}

/// All traces up to the same number of operations, in a process of their own.
fn apart(
    name: &str,
    traces: &[Vec<Event>],
    heap_bytes: usize,
    most: usize,
) -> std::io::Result<Result<Vec<Run>, String>> {
    prefixed(name, traces, &vec![most; traces.len()], heap_bytes)
}

fn prefixed(
    name: &str,
    traces: &[Vec<Event>],
    most: &[usize],
    heap_bytes: usize,
) -> std::io::Result<Result<Vec<Run>, String>> {
    let subject = match select(&[name]) {
        Ok(subjects) => subjects[0],
        Err(error) => return Ok(Err(error.to_string())),
    };
    let child = Child::spawn(|board| {
        traces
            .iter()
            .zip(most)
            .map(|(events, most)| {
                board.at(0);
                run(subject, &events[..events.len().min(*most)], heap_bytes)
            })
            .collect::<Result<Vec<Run>, String>>()
    })?;
    Ok(match child.wait::<Result<Vec<Run>, String>>(LIMIT) {
        Ok(runs) => runs,
        Err(Death::Crashed(what)) => Err(what),
        Err(Death::Hung { .. }) => Err(format!("not done within {} seconds", LIMIT.as_secs())),
    })
}

/// Replays events until the first request that fails.
fn run(subject: &Subject, events: &[Event], heap_bytes: usize) -> Result<Run, String> {
    let view = subject.view.as_ref().ok_or("only ours tell what they keep for themselves")?;
    let mut region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, heap_bytes).map_err(|refusal| refusal.to_string())?;
    let mut replay = Replay::new();
    let mut watch = Watch { high: heap.start, ..Watch::default() };
    let stride = events.len().div_ceil(SAMPLES).max(1);
    let mut most_bookkeeping = 0;
    for events in events.chunks(stride) {
        // One by one, so that nothing happens behind a request that failed.
        for event in events {
            replay.run::<true, _>(&heap, std::slice::from_ref(event), &mut watch).map_err(|fault| fault.to_string())?;
            if replay.refused() > 0 {
                break;
            }
        }
        most_bookkeeping = most_bookkeeping.max(bookkeeping(&heap, view, watch.high));
        if replay.refused() > 0 {
            break;
        }
    }
    let refused = replay.refused() > 0;
    let high_water_bytes = (watch.high - heap.start + heap.control_bytes()) as f64;
    let live_bytes = watch.peak_live_bytes as f64;
    let waste = high_water_bytes - live_bytes;
    Ok(Run {
        figures: Figures {
            high_water_bytes,
            live_bytes,
            fragmentation: waste / live_bytes,
            overhead: most_bookkeeping as f64 / waste,
        },
        operations: replay.index() - u64::from(refused),
        completed: !refused,
    })
}

/// L: bytes that the allocator keeps for itself below the address `high`.
fn bookkeeping(heap: &Heap<'_>, view: &View, high: usize) -> usize {
    let mut fronts = 0;
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut in_use: BTreeSet<usize> = BTreeSet::new();
    let page_bytes = view.contract.page_bytes;
    // SAFETY: the context is that of a live heap.
    unsafe {
        (view.walk)(heap.context, &mut |block| {
            let start = block.address - block.front_bytes;
            if start >= high {
                return;
            }
            blocks.push(start..(start + block.size_bytes).min(high));
            if !block.free {
                fronts += block.front_bytes;
                in_use.extend(block.address.checked_div(page_bytes));
            }
        });
    }
    heap.control_bytes()
        + fronts
        + if view.contract.mechanism == Mechanism::Regional {
            // A page's blocks are of one class, or one behind the other: what is left at its end, too short for a block, is
            // as lost as the inside of a block.
            let own_bytes =
                in_use.iter().map(|page| page_bytes - covered(&blocks, page * page_bytes, page_bytes)).min();
            in_use.len() * own_bytes.unwrap_or(0)
        } else {
            high - heap.start - blocks.iter().map(Range::len).sum::<usize>()
        }
}

/// Bytes of the page at an address that belong to blocks, which are in the order of their addresses.
fn covered(blocks: &[Range<usize>], page: usize, page_bytes: usize) -> usize {
    let end = page + page_bytes;
    let first = blocks.partition_point(|block| block.end <= page);
    let overlapping = blocks[first..].iter().take_while(|block| block.start < end);
    overlapping.map(|block| block.end.min(end) - block.start.max(page)).sum()
}

/// Watches live memory and addresses.
#[derive(Debug, Default)]
struct Watch {
    high: usize,
    live_bytes: u64,
    peak_live_bytes: u64,
}

impl Observer for Watch {
    fn granted(&mut self, heap: &Heap<'_>, _index: u64, block: &Block, old_size: Option<usize>) {
        self.live_bytes = self.live_bytes + block.size as u64 - old_size.unwrap_or(0) as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        // SAFETY: the block is live and was asked for with this size and alignment.
        let bytes = heap.entries.granted.map_or(block.size, |granted| unsafe {
            granted(heap.context, block.address as *mut u8, block.size, block.align as usize)
        });
        self.high = self.high.max(block.address + bytes);
    }

    fn freed(&mut self, _index: u64, block: &Block) {
        self.live_bytes -= block.size as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_consistent_with_itself() {
        for (name, _, uniform, small) in PUBLISHED {
            for [high, live, fragmentation, _] in [uniform, small] {
                assert!(((high - live) / live * 100.0 - fragmentation).abs() < 0.01, "{name}");
            }
        }
    }

    #[test]
    fn bookkeeping_is_the_control_structure_and_a_header_for_every_live_block() {
        let subject = select(&["tlsf"]).expect("tlsf")[0];
        let view = subject.view.as_ref().expect("ours");
        let mut region = Region::new(1 << 20, false).expect("a region");
        let heap = Heap::new(subject, &mut region, 1 << 20).expect("a heap");
        assert_eq!(bookkeeping(&heap, view, heap.start), heap.control_bytes());
        let mut events = Vec::new();
        Model::parse("uniform --mallocs 100").expect("words").generate(1, &mut events).expect("events");
        let mut watch = Watch { high: heap.start, ..Watch::default() };
        Replay::new().run::<true, _>(&heap, &events, &mut watch).expect("no fault");
        assert_eq!(bookkeeping(&heap, view, watch.high), heap.control_bytes() + 50 * view.contract.header_bytes);
    }

    #[test]
    fn a_page_is_covered_by_what_of_its_blocks_lies_in_it() {
        let blocks = [0..10, 10..90, 95..130, 200..350];
        assert_eq!([0, 100, 200, 300, 400].map(|page| covered(&blocks, page, 100)), [95, 30, 100, 50, 0]);
    }

    #[test]
    fn a_run_ends_at_the_first_failure() {
        let subject = select(&["tlsf"]).expect("tlsf")[0];
        let mut events = Vec::new();
        Model::parse("uniform --mallocs 10000").expect("words").generate(1, &mut events).expect("events");
        let cut = run(subject, &events, 64 << 10).expect("no fault");
        assert!(!cut.completed && cut.operations < 2000, "{cut:?}");
        assert!(cut.figures.high_water_bytes <= 65_536.0 && cut.figures.live_bytes > 50_000.0, "{cut:?}");
        assert!((0.0..1.0).contains(&cut.figures.overhead), "{cut:?}");
        let whole = run(subject, &events[..cut.operations as usize], 64 << 10).expect("no fault");
        assert!(whole.completed && whole.figures == cut.figures, "{whole:?}");
    }
}
