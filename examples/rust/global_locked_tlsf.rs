//! TLSF under a lock as the global allocator: all allocations of this program are in one static array.
//!
//! `cargo run -p rtalloc --features std --example global_locked_tlsf`

use rtalloc::adapt::{AnySlot, BackoffLock, Global, Locked, Memory};
use rtalloc::{RegionAllocator, SharedAllocator, Tlsf};
use std::collections::BTreeMap;
use std::thread;

const BYTES: usize = 8 << 20;

/// Takes no space in the executable file.
static MEMORY: Memory<BYTES> = Memory::new();

/// `BackoffLock` waits without busy-waiting. Firmware uses `Masked` instead: interrupts off.
#[global_allocator]
static HEAP: Global<Locked<'static, Tlsf<'static>, BackoffLock>, AnySlot> = Global::new(&MEMORY, AnySlot);

fn main() {
    let workers: Vec<_> = (0..4)
        .map(|worker: usize| {
            thread::spawn(move || {
                let words = (0..1000).map(|index| (index, format!("word {index} of worker {worker}")));
                words.collect::<BTreeMap<usize, String>>()
            })
        })
        .collect();
    // One thread frees what another allocated.
    let letters: usize = workers
        .into_iter()
        .map(|worker| worker.join().expect("no panic"))
        .map(|words| words.values().map(String::len).sum::<usize>())
        .sum();
    println!("letters: {letters}");

    let text = String::from("where am I?");
    let start = (&raw const MEMORY).addr();
    println!("in the static array: {}", (start..start + BYTES).contains(&text.as_ptr().addr()));

    let heap = HEAP.heap().expect("8 MiB are enough for a heap");
    println!("requests refused: {}", heap.refusals().exhausted);
    println!("intact: {}", heap.inspect(|heap| heap.check()).is_ok());
}
