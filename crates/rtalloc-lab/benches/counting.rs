//! What counting costs: replays with entry points that count their instructions beside replays with the entry points as
//! they are, and how fast the instruction probe is.
//!
//! `cargo bench -p rtalloc-lab --bench counting` replays the TLSF paper's profiles. *plain*: the operations, from a
//! list in memory. *counted*: the same operations by the copies that count, with the count of every operation read and
//! entered into a table of counts, as the probe does it. *probe*: the probe itself, which `rtalloc run` measures a cell
//! with: the trace read from its file, and the figures of the counts worked out. All in nanoseconds per operation, the
//! median of nine rounds, interleaved; the speeds are in millions of operations each second, on one core.
//!
//! Then, for each allocator, what has to be done once: the graph of the code and the copy that counts.

use pathbound::Graph;
use pathbound::counter::{Counter, Record, executed};
use pathbound::graph::NeverReturns;
use pathbound::image::Process;
use rtalloc_lab::probe::Counted;
use rtalloc_lab::probe::{Counts, Task, instructions};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::processor::Budget;
use rtalloc_lab::replay::{NoObserver, Observer, Replay};
use rtalloc_lab::result::schema::Outcome;
use rtalloc_lab::trace::Event;
use rtalloc_lab::workload::Model;
use rtalloc_subjects::{Heap, Region, Subject};
use std::path::Path;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const SUBJECTS: [&str; 5] = ["tlsf", "half-fit", "rlsf", "talc", "dlmalloc"];
const MODELS: [&str; 3] = ["p1", "p2", "p3"];
const MALLOCS: u32 = 500_000;
const SEED: u64 = 1;
const HEAP_BYTES: usize = 16 << 20;

/// Notes the count of every operation.
#[derive(Default)]
struct Counting {
    allocate: Counts,
    deallocate: Counts,
}

/// Calls, and enters what the call counted.
#[inline(always)]
fn count<R>(counts: &mut Counts, call: impl FnOnce() -> R) -> R {
    let before = executed();
    let result = call();
    counts.add(executed().wrapping_sub(before));
    result
}

impl Observer for Counting {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        count(&mut self.allocate, || unsafe { entry(heap.context, size, align) })
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let entry = heap.entries.deallocate;
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        count(&mut self.deallocate, || unsafe { entry(heap.context, block, size, align) });
    }
}

/// Nanoseconds per operation of one replay on a fresh heap.
fn replayed(subject: &Subject, region: &mut Region, events: &[Event], observer: &mut impl Observer) -> f64 {
    let heap = Heap::new(subject, region, HEAP_BYTES).expect("the region suffices");
    let mut replay = Replay::new();
    let begin = Instant::now();
    replay.run::<false, _>(&heap, events, observer).expect("no fault");
    let taken = begin.elapsed();
    assert_eq!(replay.refused(), 0, "{} is exhausted", subject.name);
    taken.as_nanos() as f64 / events.len() as f64
}

/// Nanoseconds per operation of the probe.
fn probed(subject: &Subject, trace: &Path, events: u64, process: &Process, counted: &Counted, board: &Board) -> f64 {
    let begin = Instant::now();
    let task = Task {
        trace,
        events,
        peak_live_bytes: 0,
        subject,
        heap_bytes: HEAP_BYTES,
        budget: Budget::new(Duration::from_secs(60)),
        board,
    };
    let report = instructions::measure(&task, process, counted, [None; 4]);
    let taken = begin.elapsed();
    assert_eq!(report.outcome, Outcome::Completed, "{}", subject.name);
    taken.as_nanos() as f64 / events as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let subjects = rtalloc_subjects::select(&SUBJECTS).expect("names of the table");
    let process = Process::current().expect("x86-64 Linux");
    let counted: Vec<Counted> = subjects
        .iter()
        .map(|subject| Counted::new(&process, subject, &[], Record::Count).expect("code that can be copied"))
        .collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let board = Board::new().expect("memory");

    println!(
        "{:<11}{:<7}{:>8}{:>9}{:>7}{:>12}{:>9}{:>12}",
        "allocator", "trace", "plain", "counted", "ratio", "M counted/s", "probe", "M probed/s"
    );
    for name in MODELS {
        let model = Model::parse(&format!("{name} --mallocs {MALLOCS}")).expect("a model of the laboratory");
        let mut events: Vec<Event> = Vec::new();
        model.generate(SEED, &mut events).expect("a list in memory");
        let trace = folder.path().join(name);
        model.write_to(SEED, &trace).expect("a file");
        let mut region = Region::new(HEAP_BYTES, true).expect("memory");
        let mut samples = vec![[Vec::new(), Vec::new(), Vec::new()]; subjects.len()];
        for _ in 0..ROUNDS {
            for ((subject, counted), [plain, counting, probe]) in subjects.iter().zip(&counted).zip(&mut samples) {
                plain.push(replayed(subject, &mut region, &events, &mut NoObserver));
                let copied = Subject { entries: counted.entries(), ..**subject };
                counting.push(replayed(&copied, &mut region, &events, &mut Counting::default()));
                assert!(counted.counter().misses().is_empty(), "{}: something was not copied", subject.name);
                probe.push(probed(subject, &trace, events.len() as u64, &process, counted, &board));
            }
        }
        for (subject, samples) in subjects.iter().zip(&mut samples) {
            let [plain, counting, probe] = samples.each_mut().map(|samples| median(samples));
            println!(
                "{:<11}{name:<7}{plain:>8.1}{counting:>9.1}{:>7.2}{:>12.1}{probe:>9.1}{:>12.1}",
                subject.name,
                counting / plain,
                1e3 / counting,
                1e3 / probe
            );
        }
    }

    println!("\n{:<11}{:>13}{:>10}{:>10}", "allocator", "instructions", "graph/ms", "copy/ms");
    for subject in &subjects {
        let (mut exploring, mut copying, mut instructions) = (Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            let roots = subject.entries.addresses();
            let graph = Graph::explore_to_count(&process, &roots, &NeverReturns::default()).expect("there is code");
            let explored = Instant::now();
            let counter = Counter::new(&process, &graph, Record::Count).expect("code that can be copied");
            copying.push(explored.elapsed().as_secs_f64() * 1e3);
            exploring.push((explored - begin).as_secs_f64() * 1e3);
            instructions = graph.nodes().count();
            drop(counter);
        }
        println!(
            "{:<11}{instructions:>13}{:>10.2}{:>10.2}",
            subject.name,
            median(&mut exploring),
            median(&mut copying)
        );
    }
}
