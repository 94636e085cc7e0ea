//! A program whose global allocator is `PooledArenas` in a static, with a slot for each of its threads. ci/bounds.sh
//! proves the bounds of its `__rust_alloc` and `__rust_dealloc`, which `Box`, `Vec` and all others call.

use core::alloc::Layout;
use core::hint::black_box;
use rtalloc::adapt::{Bounded, Global, Memory, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig};
use std::alloc::{alloc, dealloc};

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

#[global_allocator]
static HEAP: Global<PooledArenas<'static>, Bounded<ThreadSlots>> = Global::configured(
    &MEMORY,
    Bounded(ThreadSlots::new()),
    PooledArenasConfig { slots: 9, reclaim_budget: 2, chunk_bytes: 0 },
);

fn main() {
    let heap = HEAP.init().expect("memory for the heap");
    let threads: Vec<_> = (1..8)
        .map(|thread| std::thread::spawn(move || (1..1000).map(|length| vec![thread; length]).collect::<Vec<_>>()))
        .collect();
    for thread in threads {
        assert_eq!(thread.join().expect("no panic").len(), 999);
    }
    assert_eq!(HEAP.current().0.overflow_operations(), 0, "a slot for every thread");
    // So that the program may ask for any alignment: the compiler sees the whole program.
    let layout = Layout::from_size_align(black_box(100), black_box(64)).expect("a power of two");
    // SAFETY: the layout is not empty, and the block is freed once, with its layout.
    unsafe { dealloc(alloc(layout), layout) };
    assert_eq!(heap.pool_words(), 8, "the bound is for so many");
}
