//! A program whose global allocator is `PooledArenas` in a static, with the number of each thread in a thread-local
//! variable. ci/bounds.sh proves the bounds of its `__rust_alloc` and `__rust_dealloc`, which `Box`, `Vec` and all others
//! call.

use core::cell::Cell;
use rtalloc::adapt::{CurrentSlot, Global, Memory};
use rtalloc::concurrent::pooled_arenas::PooledArenasConfig;
use rtalloc::{PooledArenas, Tlsf};

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Copy, Debug)]
struct ThreadNumber;

// SAFETY: the program has one thread.
unsafe impl CurrentSlot for ThreadNumber {
    const EXCLUSIVE: bool = true;

    #[inline(always)]
    fn hint(&self) -> usize {
        NUMBER.get()
    }

    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        let number = NUMBER.get();
        (number < slots).then_some(number)
    }
}

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

#[global_allocator]
static HEAP: Global<PooledArenas<'static, Tlsf<'static>>, ThreadNumber> =
    Global::configured(&MEMORY, ThreadNumber, PooledArenasConfig { slots: 9, reclaim_budget: 2, chunk_bytes: 0 });

fn main() {
    HEAP.init().expect("memory for the heap");
    // A number that the compiler does not know.
    NUMBER.set(std::env::args().len() % 9);
    let blocks: Vec<Vec<u8>> = (1..1000).map(Vec::with_capacity).collect();
    assert!(blocks.iter().all(|block| block.capacity() != 0));
}
