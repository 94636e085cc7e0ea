//! A program whose global allocator is TLSF under a spin lock, in a static.

mod program;

use rtalloc::adapt::{AnySlot, Global, Locked, Memory};
use rtalloc::contract::Refusals;
use rtalloc::{RegionAllocator, SharedAllocator, Tlsf};

const BYTES: usize = 64 << 20;

static MEMORY: Memory<BYTES> = Memory::new();

#[global_allocator]
static HEAP: Global<Locked<'static, Tlsf<'static>, spin::Mutex<()>>, AnySlot> = Global::new(&MEMORY, AnySlot);

#[test]
fn a_program_runs() {
    program::runs(24);
    let heap = HEAP.heap().expect("enough memory");
    assert_eq!(heap.refusals(), Refusals::default());
    assert_eq!(heap.inspect(|heap| heap.check()), Ok(()));
    let mut live_bytes = 0;
    heap.inspect(|heap| heap.walk(&mut |block| live_bytes += if block.free { 0 } else { block.size_bytes }));
    assert!(live_bytes < 1 << 20, "{live_bytes} bytes are live after a program that keeps nothing");
}

/// Blocks lie in the static, which takes no space in the file.
#[test]
fn memory_is_in_the_static() {
    let block = vec![1; 1000];
    let start = (&raw const MEMORY).addr();
    assert!((start..start + BYTES).contains(&block.as_ptr().addr()));
    let file = std::env::current_exe().and_then(std::fs::metadata).expect("this test is a file");
    assert!(file.len() < BYTES as u64, "{} bytes of program for {BYTES} bytes of memory", file.len());
}
