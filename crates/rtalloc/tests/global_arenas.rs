//! A program whose global allocator is pooled arenas in a static, first with a slot for each thread, then with more
//! threads than slots.

mod program;

use rtalloc::adapt::{Global, Memory, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig, SharedAllocator};

const BYTES: usize = 256 << 20;
const SLOTS: usize = 9;
const CONFIG: PooledArenasConfig = PooledArenasConfig { slots: SLOTS, reclaim_budget: 2, chunk_bytes: 0 };

static MEMORY: Memory<BYTES> = Memory::new();

#[global_allocator]
static HEAP: Global<PooledArenas<'static>, ThreadSlots> = Global::configured(&MEMORY, ThreadSlots::new(), CONFIG);

/// One test, because threads and slots are counted.
#[test]
fn a_program_runs() {
    // The threads of the test harness, of this test, and those it starts, at most five at a time.
    program::runs(4);
    assert_eq!(HEAP.current().overflow_operations(), 0, "a slot for every thread");
    let boxes: Vec<Box<usize>> = (0..100).map(Box::new).collect();
    std::thread::spawn(move || drop(boxes)).join().expect("no panic");
    // All but the blocks that this thread reclaimed when it allocated.
    assert!(HEAP.reclaim(1000) > 50, "what another thread freed");
    program::runs(30);
    assert!(HEAP.current().overflow_operations() > 0, "thirty threads and {SLOTS} slots");
    let heap = HEAP.heap().expect("enough memory");
    let refusals = heap.refusals();
    assert_eq!((refusals.request, refusals.exhausted, refusals.contended), (0, 0, 0));

    let block = vec![1; 1000];
    let start = (&raw const MEMORY).addr();
    assert!((start..start + BYTES).contains(&block.as_ptr().addr()));
    let file = std::env::current_exe().and_then(std::fs::metadata).expect("this test is a file");
    assert!(file.len() < BYTES as u64, "{} bytes of program for {BYTES} bytes of memory", file.len());
}
