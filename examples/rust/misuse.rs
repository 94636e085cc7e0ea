//! What a heap does about a caller's faults: it reports them to one hook and stays whole, and a check finds what was overwritten.
//!
//! `cargo run -p rtalloc --example misuse`

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use rtalloc::contract::Misuse;
use rtalloc::hook::set_misuse_hook;
use rtalloc::{RegionAllocator, Tlsf};

/// Firmware would stop here. The hook must not use the heap that reports.
fn report(misuse: &Misuse) {
    println!("{}: {:?}", misuse.allocator, misuse.kind);
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    set_misuse_hook(Some(report));
    let mut memory = [MaybeUninit::uninit(); 8 << 10];
    let mut heap: Tlsf<'_> = Tlsf::new(&mut memory, Default::default())?;
    let block = heap.allocate_bytes(100, 8)?;
    let neighbour = heap.allocate_bytes(100, 8)?;
    let mut elsewhere = 0_u64;

    // SAFETY: none: these calls are the faults that the tags of a block show. The heap ignores them.
    unsafe {
        heap.deallocate(block);
        heap.deallocate(block);
        heap.deallocate(NonNull::from(&mut elsewhere).cast());
    }
    heap.check()?;
    println!("unharmed: {}", heap.allocate_bytes(100, 8)? == block);

    // SAFETY: one of the worst faults, for the sake of the example: it writes behind a block, over its neighbour's tag.
    unsafe { neighbour.sub(4).cast::<u32>().write(0xFFFF_FFFF) };
    println!("found by a check: {}", heap.check().is_err());
    Ok(())
}
