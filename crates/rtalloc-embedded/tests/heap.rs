//! The heap against a model of its statistics, and what embedded-alloc's interface promises.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use rand_pcg::rand_core::Rng;
use rtalloc_embedded::{LlffHeap, TlsfHeap};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A heap in `bytes` bytes, which begin `shift` bytes after a multiple of 16.
fn heap(bytes: usize, shift: usize) -> TlsfHeap {
    // Of `u128`, which has that alignment.
    let memory = vec![0_u128; (bytes + shift).div_ceil(16)].leak();
    let heap = TlsfHeap::empty();
    // SAFETY: the memory is leaked, and this heap's alone.
    unsafe { heap.init(memory.as_mut_ptr().expose_provenance() + shift, bytes) };
    heap
}

fn bytes(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("a legal layout")
}

fn allocate(heap: &TlsfHeap, layout: Layout) -> Option<*mut u8> {
    // SAFETY: no layout here is empty.
    let block = unsafe { heap.alloc(layout) };
    (!block.is_null()).then_some(block)
}

/// Verifies that the largest request succeeds, and that one byte more does not.
fn largest_is_exact(heap: &TlsfHeap) {
    let before = (heap.used(), heap.free(), heap.largest_free());
    let largest = before.2;
    assert_eq!(allocate(heap, bytes(largest + 1, 1)), None, "more than the largest");
    if largest != 0 {
        let layout = bytes(largest, 8);
        let block = allocate(heap, layout).expect("the largest");
        assert_eq!(heap.used(), before.0 + largest);
        // SAFETY: the block is live.
        unsafe { heap.dealloc(block, layout) };
    }
    assert_eq!((heap.used(), heap.free(), heap.largest_free()), before);
}

/// Random operations keep contents, alignment and statistics; at the end all memory is back.
fn random_operations(region: usize, shift: usize) {
    let heap = heap(region, shift);
    let fresh = (heap.free(), heap.largest_free());
    assert_eq!(heap.used(), 0);
    let mut random = rand_pcg::Pcg64Mcg::new(region as u128 + shift as u128);
    let mut draw = |below: usize| random.next_u64() as usize % below;
    let mut live: Vec<(*mut u8, Layout, u8)> = Vec::new();
    let (mut refused, mut resized) = (0, 0);
    for round in 0..20_000 {
        let size = 1 + draw(region / 2) / (1 << draw(8));
        // SAFETY: blocks are live, and have the sizes of their layouts.
        unsafe {
            match draw(3) {
                0 if !live.is_empty() => {
                    let (block, layout, fill) = live.swap_remove(draw(live.len()));
                    assert!(core::slice::from_raw_parts(block, layout.size()).iter().all(|&byte| byte == fill));
                    heap.dealloc(block, layout);
                }
                1 if !live.is_empty() => {
                    let at = draw(live.len());
                    let (block, layout, fill) = live[at];
                    let moved = heap.realloc(block, layout, size);
                    if moved.is_null() {
                        refused += 1;
                    } else {
                        let kept = core::slice::from_raw_parts(moved, size.min(layout.size()));
                        assert!(kept.iter().all(|&byte| byte == fill));
                        assert!(moved.addr().is_multiple_of(layout.align()));
                        moved.write_bytes(fill, size);
                        live[at] = (moved, bytes(size, layout.align()), fill);
                        resized += 1;
                    }
                }
                _ => {
                    let layout = bytes(size, 1 << draw(8));
                    match allocate(&heap, layout) {
                        Some(block) => {
                            assert!(block.addr().is_multiple_of(layout.align()));
                            block.write_bytes(round as u8, layout.size());
                            live.push((block, layout, round as u8));
                        }
                        None => refused += 1,
                    }
                }
            }
        }
        assert_eq!(heap.used(), live.iter().map(|(_, layout, _)| layout.size()).sum());
        assert!(heap.used() + heap.free() <= fresh.0 && heap.largest_free() <= heap.free());
        if round % 64 == 0 {
            largest_is_exact(&heap);
        }
    }
    assert!(refused > 100 && resized > 100, "{refused} refused, {resized} resized");
    for (block, layout, _) in live {
        // SAFETY: the block is live.
        unsafe { heap.dealloc(block, layout) };
    }
    assert_eq!((heap.used(), heap.free(), heap.largest_free()), (0, fresh.0, fresh.1));
}

#[test]
fn statistics_follow_every_operation() {
    for (region, shift) in [(4096, 0), (4097, 3), (65_536, 0), (65_537, 0), (1 << 20, 8)] {
        random_operations(region, shift);
    }
}

#[test]
fn every_small_region_serves_what_it_says() {
    let mut heaps = 0;
    for region in 1..600 {
        for shift in 0..8 {
            let heap = heap(region, shift);
            largest_is_exact(&heap);
            assert!(heap.free() <= region);
            if let Some(_first) = allocate(&heap, bytes(1, 1))
                && allocate(&heap, bytes(1, 1)).is_some()
            {
                heaps += 1;
            } else {
                assert!(region < if usize::BITS == 64 { 120 } else { 88 }, "one block in {region} bytes");
            }
        }
    }
    assert!(heaps > 3000, "{heaps}");
}

/// embedded-alloc's examples have heaps of 16 bytes.
#[test]
fn a_region_too_small_for_a_control_structure_is_one_block() {
    let heap = heap(24, 4);
    assert_eq!((heap.used(), heap.free(), heap.largest_free()), (0, 20, 20));
    let layout = bytes(3, 1);
    let block = allocate(&heap, layout).expect("nothing is live");
    assert_eq!((heap.used(), heap.free(), heap.largest_free()), (3, 0, 0));
    assert_eq!(allocate(&heap, layout), None);
    // SAFETY: the block is live, and no longer used in the end.
    unsafe {
        assert_eq!(heap.realloc(block, layout, 20), block);
        assert!(heap.realloc(block, bytes(20, 1), 21).is_null());
        assert_eq!((heap.used(), heap.free()), (20, 0));
        heap.dealloc(block, bytes(20, 1));
    }
    assert_eq!((heap.used(), heap.free()), (0, 20));
    // From 8 bytes after a multiple of 16, 8 bytes remain at the next one.
    let aligned = allocate(&heap, bytes(12, 16)).expect("12 bytes at a multiple of 16");
    assert!(aligned.addr().is_multiple_of(16));
    // SAFETY: the block is live.
    unsafe {
        assert!(heap.realloc(aligned, bytes(12, 16), 13).is_null());
        heap.dealloc(aligned, bytes(12, 16));
    }
    assert_eq!(allocate(&heap, bytes(13, 16)), None);
    assert_eq!(allocate(&heap, bytes(1, 1 << (usize::BITS - 2))), None);
}

#[test]
fn a_block_grows_in_place() {
    for region in [4096, 1 << 17] {
        let heap = heap(region, 0);
        let block = allocate(&heap, bytes(100, 8)).expect("a fresh heap");
        // SAFETY: the block is live.
        unsafe {
            assert_eq!(heap.realloc(block, bytes(100, 8), 1000), block);
            assert_eq!(heap.realloc(block, bytes(1000, 8), 10), block);
        }
    }
}

#[test]
fn without_memory_every_request_is_refused() {
    let heap = LlffHeap::empty();
    assert_eq!((heap.used(), heap.free(), heap.largest_free()), (0, 0, 0));
    assert_eq!(allocate(&heap, bytes(1, 1)), None);
    // SAFETY: as for any null pointer.
    assert!(unsafe { heap.realloc(core::ptr::null_mut(), bytes(1, 1), 2) }.is_null());
}

#[test]
fn init_panics_without_bytes_and_the_second_time() {
    let mut memory = [MaybeUninit::<u8>::uninit(); 1024];
    let start = memory.as_mut_ptr().expose_provenance();
    let heap = TlsfHeap::empty();
    // SAFETY: the memory is valid, and used by this heap alone.
    let init = |bytes| catch_unwind(AssertUnwindSafe(|| unsafe { heap.init(start, bytes) })).is_ok();
    assert!(!init(0));
    assert!(init(1024));
    let free = heap.free();
    assert!(!init(1024));
    // The critical section has ended, and the heap is as it was.
    assert_eq!(heap.free(), free);
}

#[test]
fn what_a_heap_takes_is_what_the_documentation_says() {
    let expected = match usize::BITS {
        64 => [(4 << 10, 192), (64 << 10, 264), ((64 << 10) + 1, 1201), (1 << 20, 1712)],
        _ => [(4 << 10, 168), (64 << 10, 240), ((64 << 10) + 1, 1305), (1 << 20, 1824)],
    };
    for (region, taken) in expected {
        assert_eq!(region - heap(region, 0).free(), taken, "of {region} bytes");
    }
    assert_eq!(size_of::<TlsfHeap>(), 6 * size_of::<usize>());
}

#[test]
fn a_reported_misuse_leaves_blocks_intact() {
    let heap = heap(4096, 0);
    let layout = bytes(40, 8);
    let kept = allocate(&heap, layout).expect("a fresh heap");
    let freed = allocate(&heap, layout).expect("a fresh heap");
    // SAFETY: the second free is of a block that is not live, which its tags show.
    unsafe {
        kept.write_bytes(7, 40);
        heap.dealloc(freed, layout);
        heap.dealloc(freed, layout);
        assert!(core::slice::from_raw_parts(kept, 40).iter().all(|&byte| byte == 7));
    }
    let largest = heap.largest_free();
    let rest = allocate(&heap, bytes(largest, 1)).expect("the largest");
    assert!(rest.addr() >= kept.addr() + 40);
}

/// Unlike `realloc`, the traits `Allocator` may ask for another alignment.
#[cfg(feature = "allocator-api2")]
#[test]
fn a_block_grows_to_another_alignment_or_not_at_all() {
    use allocator_api2::alloc::Allocator;
    // Regions of 64 bytes have one block.
    for (region, shift, grows) in [(4096, 8, true), (1 << 17, 8, true), (64, 8, false), (64, 0, true)] {
        let heap = heap(region, shift);
        let block = heap.allocate(bytes(4, 1)).expect("a fresh heap").cast::<u8>();
        // SAFETY: the block is live.
        unsafe {
            block.write(7);
            match heap.grow(block, bytes(4, 1), bytes(32, 16)) {
                Ok(grown) => {
                    assert!(grows && grown.addr().get().is_multiple_of(16), "{region} bytes");
                    assert_eq!((grown.cast::<u8>().read(), heap.used()), (7, 32));
                    let shrunk = heap.shrink(grown.cast(), bytes(32, 16), bytes(0, 16)).expect("nothing");
                    assert!(shrunk.is_empty() && shrunk.addr().get().is_multiple_of(16));
                    assert_eq!(heap.used(), 0);
                }
                Err(_) => assert!(!grows && heap.used() == 4, "{region} bytes"),
            }
        }
    }
}

#[cfg(feature = "allocator-api2")]
#[test]
fn collections_grow_in_the_heap_that_they_own() {
    use allocator_api2::vec::Vec;
    let mut numbers = Vec::new_in(heap(4096, 0));
    numbers.extend(0..500_u32);
    let first = numbers.as_ptr();
    // Nothing else is live, so the vector grew, and shrinks, where it is.
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers.as_ptr(), first);
    assert_eq!((numbers.allocator().used(), &numbers[..]), (40, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9][..]));
    numbers.clear();
    numbers.shrink_to_fit();
    assert_eq!(numbers.allocator().used(), 0);
    assert!(numbers.try_reserve(1024).is_err());
    let mut nothing = Vec::<(), _>::new_in(numbers.allocator());
    nothing.push(());
    assert_eq!(numbers.allocator().used(), 0);
}
