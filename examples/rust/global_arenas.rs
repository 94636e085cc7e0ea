//! Arenas as the global allocator of a program with threads, without a lock as long as each thread has a slot with
//! memory left.
//!
//! `Global` has no bound: when a slot is full it takes back all queued remote frees, and then asks other slots under a
//! lock. A thread with a deadline claims a slot of its own instead (see `audio_callback`).
//!
//! `cargo run -p rtalloc --features std --example global_arenas`

use rtalloc::adapt::{Global, Memory, ThreadSlots};
use rtalloc::{Arenas, ArenasConfig, SharedAllocator, TagConfig};
use std::sync::mpsc::sync_channel;
use std::thread;

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

/// One slot more than there are threads. Each has an equal share of the memory and refuses larger requests.
const CONFIG: ArenasConfig<TagConfig> =
    ArenasConfig { slots: 8, reclaim_budget: 2, reclaim_budget_on_miss: 32, heap: TagConfig { max_region_bytes: 0 } };

#[global_allocator]
static HEAP: Global<Arenas<'static>, ThreadSlots> = Global::configured(&MEMORY, ThreadSlots::new(), CONFIG);

fn main() {
    let heap = HEAP.init().expect("64 MiB are enough for eight arenas");
    println!("progress: {}", <Arenas<'static> as SharedAllocator<'static>>::CONTRACT.allocate.name());

    // One consumer frees what three producers allocate: each block is queued for its producer's slot.
    let (sender, receiver) = sync_channel::<Vec<u64>>(16);
    let producers: Vec<_> = (1..=3)
        .map(|factor| {
            let sender = sender.clone();
            thread::spawn(move || {
                for length in 0..1000 {
                    sender.send(vec![factor; length]).expect("the receiver exists");
                }
            })
        })
        .collect();
    drop(sender);
    let sum: u64 = receiver.into_iter().map(|message| message.iter().sum::<u64>()).sum();
    for producer in producers {
        producer.join().expect("no panic");
    }
    println!("sum: {sum}");

    // Operations that used the last slot because no other was free. Requests that found their slot full and asked other
    // slots are not counted.
    println!("operations that shared a slot: {}", HEAP.current().overflow_operations());
    println!("requests refused: {}", heap.refusals().exhausted);
}
