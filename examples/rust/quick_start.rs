//! A heap in an array: allocate, free, and query its contract, its contents, and the reasons for refusals.
//!
//! `cargo run -p rtalloc --example quick_start`

use core::alloc::Layout;
use core::mem::MaybeUninit;
use rtalloc::contract::AllocError;
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::WithStats;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{RegionAllocator, Tlsf};

/// TLSF with statistics, which cost a few instructions per operation; plain `Tlsf` keeps none.
type Heap<'r> = Tlsf<'r, 5, RoundUp, Offset32, WithStats>;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut memory = [MaybeUninit::<u8>::uninit(); 64 << 10];
    let mut heap = Heap::new(&mut memory, Default::default())?;
    let contract = Heap::CONTRACT;
    println!("{}: allocate {}, free {}", contract.name, contract.allocate.notation(), contract.deallocate.notation());

    let samples = heap.allocate(Layout::new::<[f32; 256]>())?;
    // A larger alignment costs at most a gap.
    let page = heap.allocate_bytes(100, 4096)?;
    println!("aligned to 4096: {}", page.addr().get().is_multiple_of(4096));

    // A refusal returns the reason and changes nothing.
    assert_eq!(heap.allocate_bytes(1 << 20, 8), Err(AllocError::TooLarge));
    // The largest request that succeeds is known in advance.
    let rest = heap.allocate_bytes(heap.largest_allocatable(), 8)?;
    assert_eq!(heap.allocate_bytes(50_000, 8), Err(AllocError::Exhausted));

    // SAFETY: each block came from this heap, is freed once, and is not used afterwards.
    unsafe {
        heap.deallocate(rest);
        heap.deallocate(samples);
        heap.deallocate(page);
    }
    let stats = heap.stats().ok_or("this type keeps statistics")?;
    println!("live blocks: {}, refusals: {}", stats.live_blocks, stats.failures);
    println!("more than 48 KiB were live at a time: {}", stats.peak_live_bytes > 48 << 10);

    // Check every invariant of the heap, and visit every block.
    heap.check()?;
    let mut blocks = 0;
    heap.walk(&mut |block| blocks += usize::from(block.free));
    println!("free blocks: {blocks}");
    Ok(())
}
