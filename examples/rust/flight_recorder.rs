//! A heap that records its last operations in its own region, for a dump after a fault in the field.
//!
//! `cargo run -p rtalloc --example flight_recorder -- dump.bin`, then `rtalloc recover dump.bin`

use core::mem::MaybeUninit;
use rtalloc::adapt::{Traced, TracedConfig};
use rtalloc::{RegionAllocator, TagConfig, Tlsf};

/// Operations that the ring keeps; each takes four words.
const RECORDS: usize = 64;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut memory = vec![MaybeUninit::uninit(); 64 << 10];
    let config = TracedConfig { records: RECORDS, heap: TagConfig::default() };
    let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config)?;

    let mut live = Vec::new();
    for frame in 0..100_u32 {
        // A mark, for orientation in the dump.
        heap.mark(frame);
        live.push(heap.allocate_bytes(16 + 8 * (frame as usize % 20), 8)?);
        if frame % 3 == 2 {
            let block = live.swap_remove(live.len() / 2);
            // SAFETY: the block came from this heap, is freed once, and is not used afterwards.
            unsafe { heap.deallocate(block) };
        }
    }
    println!("written down: {}, of which the last {RECORDS} are in the region", heap.recorded());
    println!("the ring takes less than 4 KiB: {}", heap.ring().len() < 4096);

    // In the field a debugger reads the ring, or all of memory. This program writes it to a file.
    if let Some(file) = std::env::args().nth(1) {
        std::fs::write(&file, heap.ring())?;
        println!("`rtalloc recover {file}` shows it");
    }
    heap.check()?;
    Ok(())
}
