//! Nanoseconds per operation, without timers in between: TLSF and half-fit beside the bounded peers.
//!
//! `cargo bench -p rtalloc-lab` replays the TLSF paper's profiles and two mixes in steady state (small: uniform 8 to
//! 512 bytes, 2,000 blocks live; large: log-uniform 16 bytes to 64 KiB, 20,000 live) from lists in memory, every
//! allocator through the same indirect call, and prints the median of nine rounds, interleaved, with its ratio to rlsf
//! in the same run. The loop does nothing but call: what a replay verifies is verified elsewhere.

use rtalloc_lab::subject::{self, Heap, NATURAL_ALIGN_BYTES, Region, Subject};
use rtalloc_lab::trace::{Event, Op};
use rtalloc_lab::workload::Model;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;
const SUBJECTS: [&str; 6] = ["tlsf", "tlsf-exact", "tlsf-thorough", "half-fit", "rlsf", "talc"];
const WORKLOADS: [(&str, &str, usize); 5] = [
    ("P1", "p1 --mallocs 500000", 16 << 20),
    ("P2", "p2 --mallocs 500000", 16 << 20),
    ("P3", "p3 --mallocs 500000", 16 << 20),
    ("small", "steady --mallocs 500000", 16 << 20),
    ("large", "loguniform --mallocs 500000", 256 << 20),
];

/// Replays `events` once on a fresh heap; returns nanoseconds per operation.
fn round(subject: &Subject, region: &mut Region, bytes: usize, events: &[Event]) -> f64 {
    let heap = Heap::new(subject, region, bytes).expect("the region suffices");
    let entries = black_box(heap.entries);
    let mut blocks: Vec<(*mut u8, usize)> = Vec::with_capacity(1 << 16);
    let begin = Instant::now();
    for event in events {
        match event.op {
            Op::Allocate { slot, size, .. } => {
                // SAFETY: sizes of a trace are not zero, and the heap is alive.
                let block = unsafe { (entries.allocate)(heap.context, size as usize, NATURAL_ALIGN_BYTES) };
                assert!(!block.is_null(), "{} is exhausted", subject.name);
                let slot = slot as usize;
                if slot == blocks.len() {
                    blocks.push((block, size as usize));
                } else {
                    blocks[slot] = (block, size as usize);
                }
            }
            Op::Free { slot } => {
                let (block, size) = blocks[slot as usize];
                // SAFETY: the slot's block is live: the trace frees it once.
                unsafe { (entries.deallocate)(heap.context, block, size, NATURAL_ALIGN_BYTES) };
            }
            Op::Reallocate { .. } => unreachable!("these models do not reallocate"),
        }
    }
    begin.elapsed().as_nanos() as f64 / events.len() as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let subjects = subject::select(&SUBJECTS).expect("names of the table");
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
        let mut region = Region::new(bytes, true).expect("memory");
        let mut samples = vec![Vec::new(); subjects.len()];
        for _ in 0..ROUNDS {
            for (subject, samples) in subjects.iter().zip(&mut samples) {
                samples.push(round(subject, &mut region, bytes, &events));
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
