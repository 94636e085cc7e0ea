//! Nanoseconds per operation, without timers in between: TLSF and half-fit beside the bounded peers.
//!
//! `cargo bench -p rtalloc-lab` replays the TLSF paper's profiles and two mixes in steady state (small: uniform 8 to
//! 512 bytes, 2,000 blocks live; large: log-uniform 16 bytes to 64 KiB, 20,000 live) from lists in memory, every
//! allocator through the same indirect call, and prints the median of nine rounds, interleaved, with its ratio to rlsf
//! in the same run. The loop does nothing but call: what a replay verifies is verified elsewhere.

use rtalloc_lab::trace::{Event, Op};
use rtalloc_lab::workload::Model;
use rtalloc_subjects::{Heap, NATURAL_ALIGN_BYTES, Region, Subject};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;
const SUBJECTS: [&str; 6] = ["tlsf", "tlsf-exact", "tlsf-full-validation", "half-fit", "rlsf", "talc"];
const WORKLOADS: [(&str, &str, usize); 5] = [
    ("P1", "p1 --mallocs 500000", 16 << 20),
    ("P2", "p2 --mallocs 500000", 16 << 20),
    ("P3", "p3 --mallocs 500000", 16 << 20),
    ("small", "steady --mallocs 500000", 16 << 20),
    ("large", "loguniform --mallocs 500000", 256 << 20),
];

/// One operation in eight bytes, so that reading the list disturbs the caches as little as can be: the slot, and the
/// size to allocate or 0 to free.
#[derive(Clone, Copy)]
struct Operation {
    slot: u32,
    size: u32,
}

impl From<&Event> for Operation {
    fn from(event: &Event) -> Self {
        match event.op {
            Op::Allocate { slot, size, .. } => Operation { slot, size: u32::try_from(size).expect("a modest size") },
            Op::Free { slot } => Operation { slot, size: 0 },
            Op::Reallocate { .. } => unreachable!("these models do not reallocate"),
        }
    }
}

/// Replays `operations` once on a fresh heap; returns nanoseconds per operation.
fn round(subject: &Subject, region: &mut Region, bytes: usize, operations: &[Operation]) -> f64 {
    let heap = Heap::new(subject, region, bytes).expect("the region suffices");
    let entries = black_box(heap.entries);
    let slots = operations.iter().map(|operation| operation.slot as usize + 1).max().unwrap_or(0);
    let mut blocks: Vec<(*mut u8, usize)> = vec![(std::ptr::null_mut(), 0); slots];
    let begin = Instant::now();
    for operation in operations {
        let block = &mut blocks[operation.slot as usize];
        if operation.size != 0 {
            let size = operation.size as usize;
            // SAFETY: the size is not zero, and the heap is alive.
            let address = unsafe { (entries.allocate)(heap.context, size, NATURAL_ALIGN_BYTES) };
            assert!(!address.is_null(), "{} is exhausted", subject.name);
            *block = (address, size);
        } else {
            // SAFETY: the slot's block is live: the trace frees it once.
            unsafe { (entries.deallocate)(heap.context, block.0, block.1, NATURAL_ALIGN_BYTES) };
        }
    }
    begin.elapsed().as_nanos() as f64 / operations.len() as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let subjects = rtalloc_subjects::select(&SUBJECTS).expect("names of the table");
    let reference = subjects.iter().position(|subject| subject.name == "rlsf").expect("it is one of them");
    print!("{:<14}", "ns/operation");
    for (name, ..) in WORKLOADS {
        print!("{name:>8} {:>5}", "ratio");
    }
    println!();
    let mut columns = Vec::new();
    for (_, model, bytes) in WORKLOADS {
        let mut events = Vec::new();
        let model = Model::parse(model).expect("a model of the laboratory");
        model.generate(1, &mut events).expect("a list in memory");
        let operations: Vec<Operation> = events.iter().map(Operation::from).collect();
        drop(events);
        let mut region = Region::new(bytes, true).expect("memory");
        let mut samples = vec![Vec::new(); subjects.len()];
        for _ in 0..ROUNDS {
            for (subject, samples) in subjects.iter().zip(&mut samples) {
                samples.push(round(subject, &mut region, bytes, &operations));
            }
        }
        columns.push(samples.iter_mut().map(|samples| median(samples)).collect::<Vec<f64>>());
    }
    for (row, subject) in subjects.iter().enumerate() {
        print!("{:<14}", subject.name);
        for column in &columns {
            print!("{:>8.1} {:>5.2}", column[row], column[row] / column[reference]);
        }
        println!();
    }
}
