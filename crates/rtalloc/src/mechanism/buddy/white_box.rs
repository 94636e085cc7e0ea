//! White-box tests of the buddy systems: the arithmetic of sizes and buddies, and what the papers are explicit about.

extern crate std;
use super::{Aside, Buddies, INHERITED, InFront, Piece, Placement, System, UPPER};
use crate::buddy::binary::{Binary, UNLIMITED};
use crate::buddy::double::Double;
use crate::buddy::fibonacci::Fibonacci;
use crate::buddy::weighted::Weighted;
use crate::contract::{Contract, RegionAllocator};
use crate::mechanism::tally::Untallied;
use crate::mechanism::word::{Offset16, Offset32};
use crate::{BinaryBuddy, DoubleBuddy, FibonacciBuddy, ThesisBuddy, WeightedBuddy};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::vec::Vec;

/// The systems in units of 16 bytes.
type Halves = Binary<16, UNLIMITED>;
type Capped = Binary<32, 1024>;

const MEMORY_BYTES: usize = 1 << 14;

/// Memory at a fixed alignment, never freed.
fn memory() -> *mut u8 {
    let layout = Layout::from_size_align(MEMORY_BYTES, 4096).unwrap();
    // SAFETY: the layout has a size.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    assert!(!start.is_null());
    start
}

/// Size of every block, and whether it is live.
fn blocks<A: RegionAllocator<'static>>(heap: &A) -> Vec<(usize, bool)> {
    let mut blocks = Vec::new();
    heap.walk(&mut |block| blocks.push((block.size_bytes, !block.free)));
    blocks
}

/// Binary buddies with the same unit on machines of any width.
type Sixteen<'r> = BinaryBuddy<'r, Offset32, Untallied, Aside, 16>;

/// A heap whose fresh blocks are exactly these.
fn fresh<A: RegionAllocator<'static>>(sizes: &[usize]) -> A {
    let start = memory();
    let wanted: Vec<(usize, bool)> = sizes.iter().map(|&size| (size, false)).collect();
    let least = sizes.iter().sum();
    for shift in (0..MEMORY_BYTES / 2).step_by(16) {
        for len in (least..least + least / 8 + 512).step_by(8) {
            // SAFETY: the part lies in the memory, which the heap that is returned has for itself.
            let region = unsafe { core::slice::from_raw_parts_mut(start.add(shift).cast::<MaybeUninit<u8>>(), len) };
            if let Some(heap) = A::new(region, A::Config::default()).ok().filter(|heap| blocks(heap) == wanted) {
                return heap;
            }
        }
    }
    panic!("no region has the blocks {wanted:?}");
}

fn take<A: RegionAllocator<'static>>(heap: &mut A, size_bytes: usize) -> NonNull<u8> {
    let block = heap.allocate_bytes(size_bytes, 1).unwrap();
    assert_eq!(heap.check(), Ok(()));
    block
}

fn give<A: RegionAllocator<'static>>(heap: &mut A, block: NonNull<u8>) {
    // SAFETY: the block is live.
    unsafe { heap.deallocate(block) }
    assert_eq!(heap.check(), Ok(()));
}

/// Every division of a top block, all the way down: parts tile the whole, each finds the other, both give the whole back,
/// sides included.
fn divisions_agree<S: System>(piece: Piece, anchor: usize) {
    if !S::is_divisible(piece.class) {
        return;
    }
    let (lower, upper) = Buddies::<S, Aside, Offset32>::parts(piece);
    assert_eq!(lower.address, piece.address);
    assert_eq!(lower.address + S::bytes(lower.class), upper.address);
    assert_eq!(upper.address + S::bytes(upper.class), piece.address + S::bytes(piece.class));
    let told = |piece: Piece| Piece { sides: piece.sides & !INHERITED, ..piece };
    assert_eq!(S::buddy(anchor, lower), Some(told(upper)));
    assert_eq!(S::buddy(anchor, upper), Some(told(lower)));
    assert_eq!(Buddies::<S, Aside, Offset32>::whole(lower, upper), piece);
    assert_eq!(Buddies::<S, Aside, Offset32>::whole(upper, lower), piece);
    divisions_agree::<S>(lower, anchor);
    divisions_agree::<S>(upper, anchor);
}

#[test]
fn buddies_find_each_other_and_merging_restores_the_sides() {
    let address = 1 << 20;
    for sides in [0, UPPER, INHERITED, UPPER | INHERITED] {
        divisions_agree::<Fibonacci<16>>(Piece { address, class: 14, sides }, address);
    }
    divisions_agree::<Halves>(Piece { address, class: 14, sides: 0 }, address);
    divisions_agree::<Capped>(Piece { address, class: 10, sides: 0 }, address);
    divisions_agree::<Weighted<16>>(Piece { address, class: 18, sides: 0 }, address);
    divisions_agree::<Weighted<16>>(Piece { address, class: 17, sides: 0 }, address);
    divisions_agree::<Double<16>>(Piece { address, class: 18, sides: 0 }, 3);
    divisions_agree::<Double<16>>(Piece { address: address + 48, class: 17, sides: 0 }, address + 48);
}

/// The classes of `sizes`, in units, are those that a search over all would find.
fn classes_are_the_nearest<S: System>(sizes: &[usize]) {
    let is_size = |class: usize| sizes.contains(&(S::bytes(class) / S::UNIT_BYTES));
    for bytes in 1..=S::UNIT_BYTES * sizes[sizes.len() - 1] {
        let least = sizes.iter().map(|units| units * S::UNIT_BYTES).find(|&size| size >= bytes).unwrap();
        assert_eq!(S::bytes(S::class_for(bytes)), least, "{bytes} bytes");
        assert!(is_size(S::class_for(bytes)));
        if bytes >= sizes[0] * S::UNIT_BYTES {
            let most = sizes.iter().rev().map(|units| units * S::UNIT_BYTES).find(|&size| size <= bytes).unwrap();
            assert_eq!(S::bytes(S::class_within(bytes)), most, "{bytes} bytes");
        }
    }
}

#[test]
fn sizes_are_those_of_the_series() {
    classes_are_the_nearest::<Halves>(&[1, 2, 4, 8, 16, 32, 64, 128, 256]);
    classes_are_the_nearest::<Capped>(&[1, 2, 4, 8, 16, 32]);
    classes_are_the_nearest::<Fibonacci<16>>(&[1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233]);
    classes_are_the_nearest::<Weighted<16>>(&[1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]);
    classes_are_the_nearest::<Double<16>>(&[2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]);
}

#[test]
fn loops_turn_as_often_as_documented() {
    type Turns<S> = Buddies<S, Aside, Offset32>;
    for log2 in 3..=24 {
        let bytes = 16 << log2;
        assert_eq!(Turns::<Halves>::most_splits(bytes), log2);
        assert_eq!(Turns::<Halves>::most_merges(bytes), log2);
        assert_eq!(Turns::<Weighted<16>>::most_merges(bytes), 2 * log2 - 2);
        assert_eq!(Turns::<Weighted<16>>::most_merges(bytes + bytes / 2), 2 * log2 - 1);
        assert!(Turns::<Weighted<16>>::most_splits(bytes + bytes / 2) <= log2 + 1);
        assert_eq!(Turns::<Double<16>>::most_splits(bytes), log2 - 1);
        assert_eq!(Turns::<Double<16>>::most_merges(bytes), log2 - 1);
    }
    for region_bytes in [1024, 1 << 16, 1 << 30] {
        assert_eq!(Buddies::<Capped, InFront<16>, Offset32>::most_splits(region_bytes), 5);
        assert_eq!(Buddies::<Capped, InFront<16>, Offset32>::most_merges(region_bytes), 5);
    }
    // F(7) = 13 units: 8 5 3 2 1 below it.
    assert_eq!(Turns::<Fibonacci<16>>::most_merges(16 * 13), 5);
    assert_eq!(Turns::<Fibonacci<16>>::most_splits(16 * 13), 3);
    assert_eq!(Turns::<Fibonacci<16>>::most_merges(16), 0);
    assert_eq!(Turns::<Fibonacci<16>>::most_merges(0), 0);
}

/// The hierarchy of the thesis' figure 5: halves of halves, and back.
#[test]
fn binary_blocks_are_halved_and_become_one_again() {
    let mut heap: Sixteen<'_> = fresh(&[1024]);
    let first = take(&mut heap, 100);
    assert_eq!(blocks(&heap), [(128, true), (128, false), (256, false), (512, false)]);
    let second = take(&mut heap, 128);
    assert_eq!(second.addr().get(), first.addr().get() ^ 128);
    let third = take(&mut heap, 129);
    assert_eq!(third.addr().get(), first.addr().get() ^ 256);
    assert_eq!(blocks(&heap), [(128, true), (128, true), (256, true), (512, false)]);
    give(&mut heap, first);
    give(&mut heap, third);
    assert_eq!(blocks(&heap), [(128, false), (128, true), (256, false), (512, false)]);
    give(&mut heap, second);
    assert_eq!(blocks(&heap), [(1024, false)]);
}

/// A header costs a power of two its size, as the papers' do; the payload's alignment it does not cost.
#[test]
fn headers_double_what_powers_of_two_take() {
    let mut heap: BinaryBuddy<'_, Offset32, Untallied, InFront, 16> = fresh(&[1024]);
    let block = take(&mut heap, 128);
    assert_eq!(blocks(&heap)[0], (256, true));
    assert!(block.addr().get().is_multiple_of(256));
    // SAFETY: the block is live.
    assert_eq!(unsafe { heap.usable_size(block) }, 252);
}

/// The thesis' 6.2: blocks of 32 to 1024 bytes with headers of 16, at most five splits, and the 512-byte request of its
/// footnote 13 that takes a block of 1024.
#[test]
fn thesis_configuration() {
    const CONTRACT: Contract = <ThesisBuddy<'static> as RegionAllocator<'static>>::CONTRACT;
    assert_eq!((CONTRACT.name, CONTRACT.header_bytes, CONTRACT.min_block_bytes), ("bbuddy", 16, 32));
    assert_eq!(CONTRACT.largest_request_bytes, 1008);
    let mut heap: ThesisBuddy<'_> = fresh(&[1024, 1024]);
    let block = take(&mut heap, 1);
    let split = [(32, true), (32, false), (64, false), (128, false), (256, false), (512, false), (1024, false)];
    assert_eq!(blocks(&heap), split, "five splits");
    give(&mut heap, block);
    assert_eq!(blocks(&heap), [(1024, false), (1024, false)]);
    for (size_bytes, block_bytes) in [(16, 32), (48, 64), (112, 128), (240, 256), (496, 512), (512, 1024), (1008, 1024)]
    {
        let block = take(&mut heap, size_bytes);
        assert_eq!(blocks(&heap)[0], (block_bytes, true), "{size_bytes} bytes");
        // SAFETY: the block is live.
        assert_eq!(unsafe { heap.usable_size(block) }, block_bytes - 16);
        give(&mut heap, block);
    }
    assert!(heap.allocate_bytes(1009, 1).is_err());
}

/// 13 = 8 + 5, 5 = 3 + 2; a request takes the smaller part that suffices, and what is freed merges whatever the order.
#[test]
fn fibonacci_blocks_are_divided_as_the_series_is() {
    let units = |units: usize| 16 * units;
    let mut heap: FibonacciBuddy<'_> = fresh(&[units(13)]);
    let two = take(&mut heap, units(2) - 4);
    assert_eq!(blocks(&heap), [(units(8), false), (units(3), false), (units(2), true)]);
    let five = take(&mut heap, units(4));
    assert_eq!(blocks(&heap), [(units(5), true), (units(3), false), (units(3), false), (units(2), true)]);
    let one = take(&mut heap, 1);
    // The list is last in, first out: the 3 that was cut from the 8 is divided, in 2 and 1.
    let divided = [(units(5), true), (units(2), false), (units(1), true), (units(3), false), (units(2), true)];
    assert_eq!(blocks(&heap), divided);
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut heap: FibonacciBuddy<'_> = fresh(&[units(13)]);
        let taken = [take(&mut heap, units(2) - 4), take(&mut heap, units(4)), take(&mut heap, 1)];
        order.iter().for_each(|&index| give(&mut heap, taken[index]));
        assert_eq!(blocks(&heap), [(units(13), false)], "freed in order {order:?}");
    }
    for block in [one, two, five] {
        give(&mut heap, block);
    }
    assert_eq!(blocks(&heap), [(units(13), false)]);
}

/// Three to one, and two to one.
#[test]
fn weighted_blocks_are_divided_three_to_one() {
    let units = |units: usize| 16 * units;
    let mut heap: WeightedBuddy<'_> = fresh(&[units(16)]);
    let one = take(&mut heap, 1);
    assert_eq!(blocks(&heap), [(units(12), false), (units(3), false), (units(1), true)]);
    let two = take(&mut heap, units(2) - 4);
    assert_eq!(blocks(&heap)[1..], [(units(2), true), (units(1), false), (units(1), true)]);
    let eight = take(&mut heap, units(7));
    assert_eq!(blocks(&heap)[..2], [(units(8), true), (units(4), false)]);
    for block in [two, eight, one] {
        give(&mut heap, block);
    }
    assert_eq!(blocks(&heap), [(units(16), false)]);
}

/// Each size from its own part; from the other one when that has no room.
#[test]
fn double_blocks_come_from_the_part_that_has_their_size() {
    let units = |units: usize| 16 * units;
    let mut heap: DoubleBuddy<'_> = fresh(&[units(16), units(12)]);
    let three = take(&mut heap, units(3));
    let four = take(&mut heap, units(4));
    let divided = [(4, true), (4, false), (8, false), (3, true), (3, false), (6, false)];
    assert_eq!(blocks(&heap), divided.map(|(size, is_live)| (units(size), is_live)));
    let large = [take(&mut heap, units(8)), take(&mut heap, units(4))];
    // Nothing is left of the powers of two: three halves of them serve.
    let next = take(&mut heap, units(2));
    let divided = [(4, true), (4, true), (8, true), (3, true), (3, true), (6, false)];
    assert_eq!(blocks(&heap), divided.map(|(size, is_live)| (units(size), is_live)));
    for block in [three, four, large[0], large[1], next] {
        give(&mut heap, block);
    }
    assert_eq!(blocks(&heap), [(units(16), false), (units(12), false)]);
}

/// A block grows into the upper buddies that are free, as far as it must, and gives them back.
#[test]
fn blocks_grow_into_free_upper_buddies() {
    let mut heap: Sixteen<'_> = fresh(&[1024]);
    let block = take(&mut heap, 64);
    // SAFETY: the block is live, and comes back where it is.
    unsafe {
        assert_eq!(heap.reallocate_bytes(block, 300, 1), Ok(block));
        assert_eq!(blocks(&heap), [(512, true), (512, false)]);
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.reallocate_bytes(block, 100, 1), Ok(block));
    }
    assert_eq!(blocks(&heap), [(128, true), (128, false), (256, false), (512, false)]);
    let fence = take(&mut heap, 128);
    // SAFETY: as above, but the buddy is live.
    let moved = unsafe { heap.reallocate_bytes(block, 200, 1) }.unwrap();
    assert_ne!(moved, block);
    give(&mut heap, moved);
    give(&mut heap, fence);
    assert_eq!(blocks(&heap), [(1024, false)]);
}

/// An alignment that blocks do not have displaces the payload, and the block is found again from there.
#[test]
fn payloads_are_displaced_to_be_aligned() {
    let mut heap: FibonacciBuddy<'_> = fresh(&[16 * 89]);
    let blocks_before = blocks(&heap);
    let mut displaced = 0;
    let mut live = Vec::new();
    while let Ok(block) = heap.allocate_bytes(40, 64) {
        assert!(block.addr().get().is_multiple_of(64));
        assert_eq!(heap.check(), Ok(()));
        live.push(block);
    }
    heap.walk(&mut |block| displaced += usize::from(block.front_bytes > 4));
    assert!(displaced > 0 && live.len() > 8, "{displaced} of {}", live.len());
    for block in live {
        give(&mut heap, block);
    }
    assert_eq!(blocks(&heap), blocks_before);
}

/// Flips every bit of every header and link of a mixed heap: `check` must notice each, and not follow it anywhere. (A live
/// block's class it believes, where that covers live blocks only.)
fn check_notices_damage<A: RegionAllocator<'static>>(link_bytes: usize) {
    let start = memory();
    // SAFETY: the memory is the heap's, and damaged through addresses that the heap exposes, too.
    let region = unsafe { core::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), MEMORY_BYTES / 4) };
    let mut heap = A::new(region, A::Config::default()).unwrap();
    let live: Vec<_> = [40, 100, 24, 200, 8, 64, 48, 30].map(|size| heap.allocate_bytes(size, 1).unwrap()).into();
    let aligned = heap.allocate_bytes(50, 128).unwrap();
    for index in [1, 4, 6] {
        give(&mut heap, live[index]);
    }
    let tag_bytes = link_bytes.min(A::CONTRACT.header_bytes);
    let mut places = Vec::new();
    heap.walk(&mut |block| {
        let tag = block.address - tag_bytes..block.address;
        let class = if cfg!(target_endian = "big") { tag.end - 1 } else { tag.start };
        places.extend(tag.map(|place| (place, block.free || place != class)));
        if block.free {
            places.extend((block.address..block.address + 2 * link_bytes).map(|place| (place, true)));
        }
    });
    for (place, is_all) in places {
        for bit in if is_all { 0..8 } else { 6..8 } {
            let byte = core::ptr::with_exposed_provenance_mut::<u8>(place);
            // SAFETY: the byte lies in the heap's memory, which nobody else touches now.
            let flip = || unsafe { byte.write(byte.read() ^ 1 << bit) };
            flip();
            assert!(heap.check().is_err(), "{}: bit {bit} of byte {}", A::CONTRACT.name, place - start.addr());
            flip();
        }
    }
    give(&mut heap, aligned);
}

#[test]
fn check_notices_any_damaged_bit() {
    check_notices_damage::<BinaryBuddy<'_>>(4);
    check_notices_damage::<BinaryBuddy<'_, Offset16, Untallied, InFront<4>>>(2);
    check_notices_damage::<ThesisBuddy<'_>>(4);
    check_notices_damage::<FibonacciBuddy<'_>>(4);
    check_notices_damage::<WeightedBuddy<'_>>(4);
    check_notices_damage::<DoubleBuddy<'_, Offset32, Untallied, InFront, 16>>(4);
}

/// What a region holds beside blocks: fields, heads, and a byte for every sixteen.
#[test]
fn control_structures_are_small() {
    fn beside_blocks<A: RegionAllocator<'static>>() -> usize {
        let start = memory();
        // SAFETY: the memory is the heap's.
        let region = unsafe { core::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), MEMORY_BYTES) };
        let heap = A::new(region, A::Config::default()).unwrap();
        MEMORY_BYTES - blocks(&heap).iter().map(|&(size, _)| size).sum::<usize>()
    }
    assert!(beside_blocks::<Sixteen<'_>>() < MEMORY_BYTES / 16 + 160);
    assert!(beside_blocks::<BinaryBuddy<'_, Offset32, Untallied, InFront, 16>>() < 160);
    assert!(beside_blocks::<FibonacciBuddy<'_>>() < 176);
    assert!(beside_blocks::<WeightedBuddy<'_>>() < 192);
    assert!(beside_blocks::<DoubleBuddy<'_, Offset32, Untallied, Aside, 16>>() < MEMORY_BYTES / 16 + 224);
    assert_eq!(<InFront as Placement>::HEADER_BYTES, 4);
}
