//! Pooled arenas as the global allocator of a program with threads, without a lock as long as each thread has a slot
//! and there is memory left.
//!
//! `Global` has no bound with `ThreadSlots`: when a slot finds no memory it takes back all queued remote frees, and
//! then asks other slots under a lock. A thread with a deadline claims a slot of its own instead (see
//! `audio_callback`).
//!
//! `cargo run -p rtalloc --features std --example global_arenas`

use rtalloc::adapt::{Global, Memory, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig, SharedAllocator};
use std::sync::mpsc::sync_channel;
use std::thread;

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

/// One slot more than there are threads. None has a share: all take chunks of the memory as they need them.
const CONFIG: PooledArenasConfig = PooledArenasConfig { slots: 8, reclaim_budget: 2, chunk_bytes: 0 };

#[global_allocator]
static HEAP: Global<PooledArenas<'static>, ThreadSlots> = Global::configured(&MEMORY, ThreadSlots::new(), CONFIG);

fn main() {
    let heap = HEAP.init().expect("64 MiB are enough for eight slots");
    println!("progress: {}", <PooledArenas<'static> as SharedAllocator<'static>>::CONTRACT.allocate.name());

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

    // Operations that used the last slot: because no other was free, or because their own was full.
    println!("operations that shared a slot: {}", HEAP.current().overflow_operations());
    println!("requests refused: {}", heap.refusals().exhausted);
}
