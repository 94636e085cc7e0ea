//! On TLSF under a lock, in as much memory as the pooled arenas.

use rtalloc::Tlsf;
use rtalloc::adapt::{AnySlot, BackoffLock, Global, Locked, Memory};

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

#[global_allocator]
static HEAP: Global<Locked<'static, Tlsf<'static>, BackoffLock>, AnySlot> = Global::new(&MEMORY, AnySlot);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    applications::main()
}
