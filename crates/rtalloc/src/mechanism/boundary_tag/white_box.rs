//! White-box tests of the tag heap, for properties that the public suite cannot see.

extern crate std;
use super::{TagConfig, TagHeap, Thresholds};
use crate::contract::{AllocError, InPieces, MultiRegion, RegionAllocator};
use crate::mechanism::free_list::{First, Lifo, OneList};
use crate::mechanism::segregated::{Exact, RoundUp};
use crate::mechanism::stats::{NoStats, WithStats};
use crate::mechanism::validation::{Full, OwnTag};
use crate::mechanism::word::{Offset16, Offset32, Wide, Width};
use crate::{AddressOrderedFirstFit, BestFit, FirstFit, HalfFit, LifoNextFit, Tlsf, TreeBestFit};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::vec::Vec;

const MEMORY_BYTES: usize = 8192;

/// Memory for a heap, at a fixed alignment so that layouts repeat, and a pointer to it for the damage.
fn memory() -> (&'static mut [MaybeUninit<u8>], *mut u8) {
    let layout = Layout::from_size_align(MEMORY_BYTES, 4096).unwrap();
    // SAFETY: the layout has a size.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!start.is_null());
    // SAFETY: the memory is never freed, and the damage is done through addresses that the heap exposes as well.
    (unsafe { core::slice::from_raw_parts_mut(start.cast(), MEMORY_BYTES) }, start)
}

/// Flips, one at a time, every bit of every header, of every free block's links and footer, and of the last bytes of
/// the control structure. `check` must report each and must not follow it out of the heap.
fn check_reports_damage<W: Width, A: RegionAllocator<'static, Config = TagConfig>>(control: core::ops::Range<usize>) {
    let (region, start) = memory();
    let mut heap = A::new(region, TagConfig::default()).unwrap();
    let sizes = [40, 100, 24, 200, 8, 64, 48, 30];
    let live: Vec<_> = sizes.iter().map(|&size| heap.allocate_bytes(size, 1).unwrap()).collect();
    for index in [1, 4, 6] {
        // SAFETY: the block is live.
        unsafe { heap.deallocate(live[index]) };
    }
    assert_eq!(heap.check(), Ok(()));
    let mut places: Vec<usize> = control.map(|offset| start.addr() + offset).collect();
    heap.walk(&mut |block| {
        places.extend(block.address - W::BYTES..block.address);
        if block.free {
            let end = block.address + block.size_bytes - W::BYTES;
            places.extend(block.address..block.address + 2 * W::BYTES);
            places.extend(end - W::BYTES..end);
        }
    });
    for place in places {
        for bit in 0..8 {
            let byte = core::ptr::with_exposed_provenance_mut::<u8>(place);
            // SAFETY: the byte lies in the heap's memory, and no other reference to it is in use.
            let flip = || unsafe { byte.write(byte.read() ^ 1 << bit) };
            flip();
            assert!(heap.check().is_err(), "{}: bit {bit} of byte {}", A::CONTRACT.name, place - start.addr());
            flip();
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn check_reports_every_flipped_bit_of_tags_and_links() {
    check_reports_damage::<Offset32, FirstFit<'_>>(0..0);
    check_reports_damage::<Offset32, BestFit<'_>>(0..0);
    check_reports_damage::<Offset16, AddressOrderedFirstFit<'_, Offset16>>(0..0);
    check_reports_damage::<Wide, HalfFit<'_, Exact, Wide>>(0..0);
    check_reports_damage::<Wide, LifoNextFit<'_, Wide>>(0..0);
    check_reports_damage::<Offset32, TreeBestFit<'_>>(0..0);
    // The heads of the last 40 classes.
    let heads = |control: usize, word: usize| control - 40 * word..control;
    check_reports_damage::<Offset32, Tlsf<'_>>(heads(Tlsf::<5>::control_bytes(MEMORY_BYTES), 4));
    check_reports_damage::<Offset32, Tlsf<'_, 5, RoundUp, Offset32, NoStats, Full>>(0..0);
    check_reports_damage::<Wide, FirstFit<'_, Wide, NoStats, Full>>(0..0);
    type Short<'r> = Tlsf<'r, 3, RoundUp, Offset16, NoStats, Full>;
    check_reports_damage::<Offset16, Short<'_>>(heads(Short::control_bytes(MEMORY_BYTES), 2));
}

/// Zeros or a class of the heap over the links of a free block, as programs write small numbers after a free: when a
/// neighbour is freed, too, the heap changes its control structure and free memory, but no live block, and nothing
/// outside of its region.
fn small_numbers_over_links_harm_nothing_else<W: Width, A: RegionAllocator<'static, Config = TagConfig>>() {
    const REGION: core::ops::Range<usize> = 4096..7168;
    let (region, start) = memory();
    // SAFETY: the memory is used by the heaps, one after the other, and by this test.
    let all = || unsafe { core::slice::from_raw_parts(start.cast_const(), MEMORY_BYTES) };
    let region = &raw mut region[REGION];
    let fresh = || {
        // SAFETY: the last heap is not used any more.
        unsafe { start.write_bytes(0xA5, MEMORY_BYTES) };
        // SAFETY: as above.
        A::new(unsafe { &mut *region }, TagConfig::default()).unwrap()
    };
    let links = |block: NonNull<u8>| core::ptr::with_exposed_provenance_mut::<W::Word>(block.addr().get());
    let mut numbers = std::vec![0];
    for size in 1..1000 {
        let mut heap = fresh();
        let [block, _fence] = [size, 1].map(|size| heap.allocate_bytes(size, 1).unwrap());
        // SAFETY: the block is live; then it begins with its links.
        numbers.push(unsafe {
            heap.deallocate(block);
            W::get(links(block).read())
        });
    }
    numbers.dedup();
    assert!(numbers.len() > 3, "{numbers:?}");
    for number in numbers {
        for (keeps_next, frees) in [(true, &[3][..]), (true, &[7, 3]), (true, &[3, 7]), (false, &[3, 7])] {
            let mut heap = fresh();
            let blocks: Vec<_> = (0..9).map(|_| heap.allocate_bytes(60, 1).unwrap()).collect();
            let place = |index: usize| blocks[index].addr().get() - start.addr();
            // SAFETY: the blocks are live; the damage is to a free one.
            let before = unsafe {
                frees.iter().for_each(|&freed| heap.deallocate(blocks[freed]));
                links(blocks[3]).write(W::put(number));
                if !keeps_next {
                    links(blocks[3]).add(1).write(W::put(0));
                }
                let before = all().to_vec();
                heap.deallocate(blocks[4]);
                before
            };
            // The control structure; the free block, and the flag after it; the links of the other one.
            let free = [REGION.start..place(0), place(3) - W::BYTES..place(5), place(7)..place(7) + 2 * W::BYTES];
            let changed = before.iter().zip(all()).enumerate().filter(|(_, (was, is))| was != is);
            for (place, _) in changed {
                let is_free = free.iter().any(|free| free.contains(&place));
                assert!(is_free, "{}: {number} over a link of {frees:?} changes byte {place}", A::CONTRACT.name);
            }
        }
    }
}

#[test]
fn stale_writes_of_small_numbers_harm_nothing_but_free_memory() {
    small_numbers_over_links_harm_nothing_else::<Offset32, Tlsf<'_>>();
    small_numbers_over_links_harm_nothing_else::<Offset32, Tlsf<'_, 1>>();
    small_numbers_over_links_harm_nothing_else::<Offset32, Tlsf<'_, 2>>();
    small_numbers_over_links_harm_nothing_else::<Offset16, Tlsf<'_, 3, RoundUp, Offset16>>();
    small_numbers_over_links_harm_nothing_else::<Wide, Tlsf<'_, 4, Exact, Wide, WithStats>>();
    small_numbers_over_links_harm_nothing_else::<Offset32, Tlsf<'_, 5, RoundUp, Offset32, NoStats, Full>>();
    small_numbers_over_links_harm_nothing_else::<Offset32, HalfFit<'_>>();
    small_numbers_over_links_harm_nothing_else::<Offset16, HalfFit<'_, Exact, Offset16>>();
    small_numbers_over_links_harm_nothing_else::<Wide, HalfFit<'_, RoundUp, Wide>>();
}

/// Every request returns a block or an error, whatever the configuration plans for later regions.
fn any_plan_answers_every_request<A: RegionAllocator<'static, Config = TagConfig>>() {
    let extremes = [0, 1, 2, 3].map(|less: usize| usize::MAX >> less);
    for max_region_bytes in extremes.into_iter().chain([1, 100, 5000, 1 << 20]) {
        let (region, _) = memory();
        let Ok(mut heap) = A::new(region, TagConfig { max_region_bytes }) else { continue };
        let fresh = heap.largest_allocatable();
        for shift in 0..usize::BITS {
            for size in
                [usize::MAX >> shift, (usize::MAX >> shift).wrapping_add(1), (usize::MAX >> shift).wrapping_add(2)]
            {
                for align in [1, 64, 1 << (usize::BITS - 2), 1 << (usize::BITS - 1)] {
                    match heap.allocate_bytes(size, align) {
                        Ok(block) => {
                            assert!(size <= fresh, "{size} bytes at {align} granted");
                            // SAFETY: the block is live.
                            unsafe { heap.deallocate(block) };
                        }
                        Err(error) => assert_eq!(error == AllocError::ZeroSize, size == 0, "{size}: {error}"),
                    }
                }
            }
        }
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.largest_allocatable(), fresh);
    }
}

#[test]
fn no_plan_and_no_request_overflows() {
    any_plan_answers_every_request::<Tlsf<'_>>();
    any_plan_answers_every_request::<Tlsf<'_, 4, RoundUp, Offset16>>();
    any_plan_answers_every_request::<Tlsf<'_, 1, RoundUp, Wide>>();
    any_plan_answers_every_request::<HalfFit<'_>>();
    any_plan_answers_every_request::<HalfFit<'_, Exact, Wide>>();
    any_plan_answers_every_request::<BestFit<'_, Wide>>();
}

#[test]
fn blocks_below_the_first_region_leave_the_high_water_mark_alone() {
    let (both, _) = memory();
    let (below, region) = both.split_at_mut(MEMORY_BYTES / 2);
    let config = TagConfig { max_region_bytes: below.len() };
    let mut heap: HalfFit<'_, Exact, Wide, WithStats> = HalfFit::new(region, config).unwrap();
    heap.add_region(below).unwrap();
    while heap.allocate_bytes(500, 1).is_ok() {}
    let high_water = heap.stats().unwrap().high_water_bytes;
    assert!(0 < high_water && high_water <= MEMORY_BYTES / 2, "{high_water}");
}

#[test]
#[cfg(target_pointer_width = "64")]
fn half_fit_has_the_documented_control_structure() {
    let sizes = [4 << 10, 64 << 10, 16 << 20];
    assert_eq!(sizes.map(<HalfFit<'_>>::control_bytes), [96, 112, 144]);
}

/// Puaut 2002, section 2.1 and table 1: "split only if the remainder is larger than" the threshold.
#[test]
fn the_figures_of_table_1_are_kept() {
    type Puaut<'r> = TagHeap<'r, Thresholds<OneList<First, Lifo>, 16, 16>>;
    let contract = Puaut::CONTRACT;
    assert_eq!((contract.min_block_bytes, contract.splitting_threshold_bytes), (16, 16));
    for (size, usable) in [(60, 60), (44, 60), (28, 28), (12, 12)] {
        let (region, _) = memory();
        let mut heap = Puaut::new(region, TagConfig::default()).unwrap();
        let hole = heap.allocate_bytes(60, 1).unwrap();
        heap.allocate_bytes(heap.largest_allocatable(), 1).unwrap();
        // SAFETY: the block is live.
        unsafe { heap.deallocate(hole) };
        let block = heap.allocate_bytes(size, 1).unwrap();
        // SAFETY: the block is live.
        assert_eq!((block, unsafe { heap.usable_size(block) }), (hole, usable), "{size} bytes from a block of 64");
        assert_eq!(heap.check(), Ok(()));
    }
}

/// An overwritten header leads from a free block back to where its piece begins: the merged block has no bytes.
#[test]
fn a_piece_that_seems_to_end_where_it_begins_is_no_overflow() {
    type Whole<'r> = Tlsf<'r, 5, RoundUp, Wide>;
    let (region, start) = memory();
    let (control, pieces) = region.split_at_mut(MEMORY_BYTES / 2);
    let piece = start.addr() + MEMORY_BYTES * 3 / 4..start.addr() + MEMORY_BYTES;
    let span = pieces.as_ptr().addr()..piece.end;
    // SAFETY: the span is exclusive to the heap. The tags of the merged block are written before the piece, in the span.
    unsafe {
        let mut heap = Whole::without_pieces(control, span, MEMORY_BYTES / 4).unwrap();
        let block = heap.lend(piece.clone(), 40, 1);
        let next = block.addr().get() + heap.usable_size(block) + Wide::BYTES;
        let header = core::ptr::with_exposed_provenance_mut::<usize>(next - Wide::BYTES);
        header.write(piece.start.wrapping_sub(next));
        assert_eq!(heap.deallocate_in_piece(block, |_| true), Some(piece.start..piece.start));
    }
}

/// Added again at another place, its memory may be free where its record was: a later free there must find no header of
/// a live block.
#[test]
fn a_removed_region_has_no_header_of_a_live_block() {
    type OwnTagged<'r> = Tlsf<'r, 5, RoundUp, Offset32, NoStats, OwnTag>;
    let (memory, start) = memory();
    let (first, second) = memory.split_at_mut(MEMORY_BYTES / 2);
    // An odd number of bytes is cut off at either end.
    let second = &mut second[7..1000];
    let mut heap = OwnTagged::new(first, TagConfig { max_region_bytes: 1024 }).unwrap();
    let region = heap.add_region(second).unwrap();
    let block = heap.allocate_bytes(300, 1).unwrap();
    // SAFETY: the block is live.
    unsafe { heap.deallocate(block) };
    heap.remove_region(region).unwrap();
    for end in (MEMORY_BYTES / 2 + Offset32::GRANULE..MEMORY_BYTES).step_by(Offset32::GRANULE) {
        // SAFETY: the memory was zeroed before the heap was made.
        let header = unsafe { start.add(end - Offset32::BYTES).cast::<u32>().read() };
        assert_eq!(header & 1, 0, "at {end}");
    }
}
