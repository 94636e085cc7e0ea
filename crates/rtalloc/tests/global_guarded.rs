//! A program whose global allocator is guarded TLSF under a lock, in a static: no misuse is reported.

mod program;

use rtalloc::adapt::{AnySlot, Failing, Global, Guarded, Locked, Memory};
use rtalloc::contract::Misuse;
use rtalloc::{RegionAllocator, Tlsf};
use std::sync::atomic::{AtomicUsize, Ordering};

const BYTES: usize = 64 << 20;

type Heap = Guarded<'static, Failing<'static, Tlsf<'static>>>;

static MEMORY: Memory<BYTES> = Memory::new();
static MISUSES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static HEAP: Global<Locked<'static, Heap, spin::Mutex<()>>, AnySlot> = Global::new(&MEMORY, AnySlot);

fn count(_: &Misuse) {
    MISUSES.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_program_runs_under_guard() {
    rtalloc::hook::set_misuse_hook(Some(count));
    program::runs(24);
    let heap = HEAP.heap().expect("enough memory");
    heap.inspect(|heap| {
        assert_eq!(heap.check(), Ok(()));
        assert_eq!((heap.quarantined(), heap.inner().failed()), (16, 0));
    });
    assert_eq!(MISUSES.load(Ordering::Relaxed), 0);
}
