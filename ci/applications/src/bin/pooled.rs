//! On pooled arenas, as the book configures them for a program with threads.

use rtalloc::adapt::{Global, Memory, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig};

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

const CONFIG: PooledArenasConfig = PooledArenasConfig { slots: 9, reclaim_budget: 2, chunk_bytes: 0 };

#[global_allocator]
static HEAP: Global<PooledArenas<'static>, ThreadSlots> = Global::configured(&MEMORY, ThreadSlots::new(), CONFIG);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    applications::main()
}
