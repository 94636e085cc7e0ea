//! How a heap handles misuse: it reports to a hook and stays intact; a check finds overwritten memory.
//!
//! `cargo run -p rtalloc --example misuse`

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use rtalloc::contract::Misuse;
use rtalloc::hook::set_misuse_hook;
use rtalloc::{RegionAllocator, Tlsf};

/// Firmware stops here. The hook must not use the heap that reports.
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

    // SAFETY: none: these calls are misuse that the tags of a block reveal. The heap ignores them.
    unsafe {
        heap.deallocate(block);
        heap.deallocate(block);
        heap.deallocate(NonNull::from(&mut elsewhere).cast());
    }
    heap.check()?;
    println!("unharmed: {}", heap.allocate_bytes(100, 8)? == block);

    // SAFETY: none: this demonstrates a write after a block, which overwrites the tag of the next block.
    unsafe { neighbour.sub(4).cast::<u32>().write(0xFFFF_FFFF) };
    println!("found by a check: {}", heap.check().is_err());
    Ok(())
}
