//! The remote-free queues of a slot by themselves: producers that share the pending bits, and an owner.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::concurrent::pooled_arenas::remote_queue::{
    Link, PUSH_STEPS, PendingBits, Pushed, QueuedFree, RemoteQueue, collect_steps,
};
use std::ptr::NonNull;

/// Queued frees of each producer.
const FREES: usize = 2;
const PRODUCERS: usize = 2;
/// Memory of each queued block, which begins with its link.
const BLOCK_BYTES: usize = 16;
const REGION_BYTES: usize = 0x100;

/// The state shared by producers and owner: `BITS` pending bits for both producers.
struct Queues<const BITS: usize> {
    pending: PendingBits<Loomed, BITS>,
    queues: [RemoteQueue<Loomed>; PRODUCERS],
    memory: NonNull<u8>,
}

impl<const BITS: usize> Queues<BITS> {
    /// In a fresh region, which two threads will share.
    fn new() -> &'static Self {
        let start = NonNull::from(scene::region()).cast::<u8>();
        start.expose_provenance();
        // SAFETY: the region is aligned, and longer than the queues and the blocks, which lie in its second half.
        unsafe {
            let memory = start.add(REGION_BYTES / 2);
            let queues = start.cast::<Self>();
            queues.write(Queues {
                pending: PendingBits::new(),
                queues: [RemoteQueue::new(), RemoteQueue::new()],
                memory,
            });
            scene::share();
            queues.as_ref()
        }
    }

    fn memory_of(&self, block: QueuedFree) -> NonNull<u8> {
        // SAFETY: the blocks are adjacent, and all in the region.
        unsafe { self.memory.add(block.get() as usize * BLOCK_BYTES) }
    }

    fn link(&self, block: QueuedFree) -> &Link<Loomed> {
        // SAFETY: the link is the first word of the block's memory, which is used only as a link.
        unsafe { Link::at(self.memory_of(block).as_ptr().cast()) }
    }

    /// Frees the producer's blocks, one after another.
    fn free_all(&self, producer: usize) {
        for index in 0..FREES {
            let block = QueuedFree::MIN.saturating_add((producer * FREES + index) as u32);
            scene::own(self.memory_of(block), BLOCK_BYTES);
            scene::disown(self.memory_of(block), BLOCK_BYTES);
            scene::measured(Some(PUSH_STEPS), || {
                // SAFETY: this is the producer, and the block is not queued yet.
                match unsafe { self.queues[producer].push(block, self.link(block)) } {
                    Pushed::First => self.pending.set(producer),
                    Pushed::Queued => {}
                    Pushed::Duplicate => panic!("block {block} is already queued"),
                }
            });
        }
    }

    /// Processes the queued frees, and returns their number.
    fn collect(&self) -> usize {
        let most = collect_steps(PRODUCERS, BITS);
        // SAFETY: this is the owner.
        let mut next = scene::measured(Some(most), || unsafe {
            self.pending.collect(PRODUCERS, |producer| &self.queues[producer])
        });
        let mut count = 0;
        while let Some(block) = next {
            scene::own(self.memory_of(block), BLOCK_BYTES);
            next = self.link(block).next();
            count += 1;
        }
        count
    }
}

fn two_producers<const BITS: usize>() {
    let queues = Queues::<BITS>::new();
    let producers = [0, 1].map(|producer| loom::thread::spawn(move || queues.free_all(producer)));
    let mut count = queues.collect() + queues.collect();
    for producer in producers {
        producer.join().expect("a thread that ends");
    }
    if scene::is_void() {
        return;
    }
    while queues.pending.any_now() {
        count += queues.collect();
    }
    assert_eq!(count, PRODUCERS * FREES, "queued frees that were processed");
    scene::gather();
}

/// Two producers and an owner. If the producers share a bit, one's pending bit leads the owner to the other's queue.
pub fn models() -> [Model; 2] {
    let model = |name, execution| {
        Model { name, region_bytes: REGION_BYTES, preemptions: None, stores_are_ordered: false, execution }.fewer(2)
    };
    [
        model("remote frees with a pending bit for each", two_producers::<2>),
        model("remote frees with a shared pending bit", two_producers::<1>),
    ]
}
