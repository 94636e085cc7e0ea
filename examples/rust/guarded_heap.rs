//! A heap that detects faults of its user, for tests and for suspicious programs in the field: fences around blocks,
//! fills, and a quarantine.
//!
//! `cargo run -p rtalloc --example guarded_heap`

use core::mem::MaybeUninit;
use rtalloc::adapt::Guarded;
use rtalloc::contract::Misuse;
use rtalloc::hook::set_misuse_hook;
use rtalloc::{RegionAllocator, Tlsf};

fn report(misuse: &Misuse) {
    println!("{:?}", misuse.kind);
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    set_misuse_hook(Some(report));
    let mut memory = [MaybeUninit::uninit(); 32 << 10];
    // Any heap; code that uses a heap can use this one.
    let mut heap: Guarded<'_, Tlsf<'_>> = Guarded::new(&mut memory, Default::default())?;

    let block = heap.allocate_bytes(101, 8)?;
    // SAFETY: none: these are the faults that the example demonstrates. Each writes only to bytes of the heap.
    unsafe {
        print!("one byte too many: ");
        block.add(101).write(7);
        heap.deallocate(block);

        print!("one byte too early: ");
        let block = heap.allocate_bytes(100, 8)?;
        block.sub(1).write(7);
        heap.deallocate(block);

        print!("freed twice: ");
        let block = heap.allocate_bytes(100, 8)?;
        heap.deallocate(block);
        heap.deallocate(block);

        print!("an address inside: ");
        let inside = heap.allocate_bytes(100, 8)?;
        heap.deallocate(inside.add(16));
        heap.deallocate(inside);

        print!("written after it was freed: ");
        block.write(7);
        // The freed blocks leave the quarantine.
        heap.flush();
    }
    // The two blocks with broken fences are kept for inspection.
    let mut kept = 0;
    heap.walk(&mut |block| kept += usize::from(!block.free));
    println!("kept: {kept}, and a check says so: {}", heap.check().is_err());
    Ok(())
}
