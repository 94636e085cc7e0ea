//! White-box tests of the buddy systems: the arithmetic of sizes and buddies, and the examples of the papers.

extern crate std;
use super::{Buddies, Headers, INHERITED, Piece, Placement, SideTable, System, UPPER};
use crate::buddy::binary::{Binary, UNLIMITED};
use crate::buddy::double::Double;
use crate::buddy::fibonacci::Fibonacci;
use crate::buddy::weighted::Weighted;
use crate::contract::{Contract, RegionAllocator};
use crate::mechanism::policy_heap::PolicyHeap;
use crate::mechanism::size_class::Class;
use crate::mechanism::stats::NoStats;
use crate::mechanism::word::{Offset16, Offset32};
use crate::{BinaryBuddy, DoubleBuddy, FibonacciBuddy, WeightedBuddy};
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
type Sixteen<'r> = BinaryBuddy<'r, Offset32, NoStats, SideTable, 16>;

/// The thesis' `bbuddy`.
type ThesisBuddy<'r> = PolicyHeap<'r, Buddies<Capped, Headers<16>, Offset32>, NoStats>;

/// A heap whose initial blocks are exactly these.
fn fresh<A: RegionAllocator<'static>>(sizes: &[usize]) -> A {
    let start = memory();
    let wanted: Vec<(usize, bool)> = sizes.iter().map(|&size| (size, false)).collect();
    let least = sizes.iter().sum();
    for shift in (0..MEMORY_BYTES / 2).step_by(16) {
        for len in (least..least + least / 8 + 512).step_by(8) {
            // SAFETY: the part lies in the memory, and only the returned heap uses it.
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

/// Checks every split of a top block, recursively: the parts tile the whole, each is the other's buddy, and merging
/// them restores the whole with its sides.
fn divisions_agree<S: System>(piece: Piece, anchor: usize) {
    if !S::is_divisible(piece.class) {
        return;
    }
    let (lower, upper) = Buddies::<S, SideTable, Offset32>::parts(piece);
    assert_eq!(lower.address, piece.address);
    assert_eq!(lower.address + S::bytes(lower.class), upper.address);
    assert_eq!(upper.address + S::bytes(upper.class), piece.address + S::bytes(piece.class));
    let without_inherited = |piece: Piece| Piece { sides: piece.sides & !INHERITED, ..piece };
    assert_eq!(S::buddy(anchor, lower), Some(without_inherited(upper)));
    assert_eq!(S::buddy(anchor, upper), Some(without_inherited(lower)));
    assert_eq!(Buddies::<S, SideTable, Offset32>::whole(lower, upper), piece);
    assert_eq!(Buddies::<S, SideTable, Offset32>::whole(upper, lower), piece);
    divisions_agree::<S>(lower, anchor);
    divisions_agree::<S>(upper, anchor);
}

#[test]
fn buddies_find_each_other_and_merging_restores_the_sides() {
    let address = 1 << 20;
    for sides in [0, UPPER, INHERITED, UPPER | INHERITED] {
        divisions_agree::<Fibonacci<16>>(Piece { address, class: Class::new(14), sides }, address);
    }
    divisions_agree::<Halves>(Piece { address, class: Class::new(14), sides: 0 }, address);
    divisions_agree::<Capped>(Piece { address, class: Class::new(10), sides: 0 }, address);
    divisions_agree::<Weighted<16>>(Piece { address, class: Class::new(18), sides: 0 }, address);
    divisions_agree::<Weighted<16>>(Piece { address, class: Class::new(17), sides: 0 }, address);
    divisions_agree::<Double<16>>(Piece { address, class: Class::new(18), sides: 0 }, 3);
    divisions_agree::<Double<16>>(Piece { address: address + 48, class: Class::new(17), sides: 0 }, address + 48);
}

/// The classes of `sizes`, in units, are those that a search over all sizes would find.
fn classes_are_the_nearest<S: System>(sizes: &[usize]) {
    let is_size = |class: Class| sizes.contains(&(S::bytes(class) / S::UNIT_BYTES));
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
fn loop_bounds_are_as_documented() {
    type Bounds<S> = Buddies<S, SideTable, Offset32>;
    for log2 in 3..=24 {
        let bytes = 16 << log2;
        assert_eq!(Bounds::<Halves>::max_splits(bytes), log2);
        assert_eq!(Bounds::<Halves>::max_merges(bytes), log2);
        assert_eq!(Bounds::<Weighted<16>>::max_merges(bytes), 2 * log2 - 2);
        assert_eq!(Bounds::<Weighted<16>>::max_merges(bytes + bytes / 2), 2 * log2 - 1);
        assert!(Bounds::<Weighted<16>>::max_splits(bytes + bytes / 2) <= log2 + 1);
        assert_eq!(Bounds::<Double<16>>::max_splits(bytes), log2 - 1);
        assert_eq!(Bounds::<Double<16>>::max_merges(bytes), log2 - 1);
    }
    for region_bytes in [1024, 1 << 16, 1 << 30] {
        assert_eq!(Buddies::<Capped, Headers<16>, Offset32>::max_splits(region_bytes), 5);
        assert_eq!(Buddies::<Capped, Headers<16>, Offset32>::max_merges(region_bytes), 5);
    }
    // F(7) = 13 units: 8 5 3 2 1 below it.
    assert_eq!(Bounds::<Fibonacci<16>>::max_merges(16 * 13), 5);
    assert_eq!(Bounds::<Fibonacci<16>>::max_splits(16 * 13), 3);
    assert_eq!(Bounds::<Fibonacci<16>>::max_merges(16), 0);
    assert_eq!(Bounds::<Fibonacci<16>>::max_merges(0), 0);
}

/// The hierarchy of the thesis' figure 5: split into halves, and merged again.
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

/// With a header, as in the papers, a power of two takes a block of twice its size. The payload is still aligned.
#[test]
fn headers_double_the_block_of_a_power_of_two() {
    let mut heap: BinaryBuddy<'_, Offset32, NoStats, Headers, 16> = fresh(&[1024]);
    let block = take(&mut heap, 128);
    assert_eq!(blocks(&heap)[0], (256, true));
    assert!(block.addr().get().is_multiple_of(256));
    // SAFETY: the block is live.
    assert_eq!(unsafe { heap.usable_size(block) }, 252);
}

/// The thesis' 6.2: blocks of 32 to 1024 bytes with headers of 16, at most five splits, and the 512-byte request of its
/// footnote 13, which takes a block of 1024.
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

/// 13 = 8 + 5, 5 = 3 + 2. A request takes the smaller part that suffices, and freed blocks merge in any order.
#[test]
fn fibonacci_blocks_split_as_the_series() {
    let units = |units: usize| 16 * units;
    let mut heap: FibonacciBuddy<'_> = fresh(&[units(13)]);
    let two = take(&mut heap, units(2) - 4);
    assert_eq!(blocks(&heap), [(units(8), false), (units(3), false), (units(2), true)]);
    let five = take(&mut heap, units(4));
    assert_eq!(blocks(&heap), [(units(5), true), (units(3), false), (units(3), false), (units(2), true)]);
    let one = take(&mut heap, 1);
    // The list is LIFO: the 3 that was split from the 8 splits into 2 and 1.
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

/// The ratios are three to one and two to one.
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

/// Each size comes from its own part, or from the other part if its own has no room.
#[test]
fn double_blocks_come_from_the_part_that_has_their_size() {
    let units = |units: usize| 16 * units;
    let mut heap: DoubleBuddy<'_> = fresh(&[units(16), units(12)]);
    let three = take(&mut heap, units(3));
    let four = take(&mut heap, units(4));
    let divided = [(4, true), (4, false), (8, false), (3, true), (3, false), (6, false)];
    assert_eq!(blocks(&heap), divided.map(|(size, is_live)| (units(size), is_live)));
    let large = [take(&mut heap, units(8)), take(&mut heap, units(4))];
    // The powers of two are used up: a block of the other part, of 3 units, serves.
    let next = take(&mut heap, units(2));
    let divided = [(4, true), (4, true), (8, true), (3, true), (3, true), (6, false)];
    assert_eq!(blocks(&heap), divided.map(|(size, is_live)| (units(size), is_live)));
    for block in [three, four, large[0], large[1], next] {
        give(&mut heap, block);
    }
    assert_eq!(blocks(&heap), [(units(16), false), (units(12), false)]);
}

/// A block grows into free upper buddies, as far as necessary, and returns them when it shrinks.
#[test]
fn blocks_grow_into_free_upper_buddies() {
    let mut heap: Sixteen<'_> = fresh(&[1024]);
    let block = take(&mut heap, 64);
    // SAFETY: the block is live and stays at its address.
    unsafe {
        assert_eq!(heap.reallocate_bytes(block, 300, 1), Ok(block));
        assert_eq!(blocks(&heap), [(512, true), (512, false)]);
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.reallocate_bytes(block, 100, 1), Ok(block));
    }
    assert_eq!(blocks(&heap), [(128, true), (128, false), (256, false), (512, false)]);
    let fence = take(&mut heap, 128);
    // SAFETY: the block is live, and so is its buddy.
    let moved = unsafe { heap.reallocate_bytes(block, 200, 1) }.unwrap();
    assert_ne!(moved, block);
    give(&mut heap, moved);
    give(&mut heap, fence);
    assert_eq!(blocks(&heap), [(1024, false)]);
}

/// For an alignment that blocks do not have, the payload is displaced; the block is found from the payload.
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

/// Flips every bit of every header and link of a mixed heap: `check` must report each and must not follow it out of the
/// heap. (A changed class of a live block is accepted where it covers live blocks only.)
fn check_reports_damage<A: RegionAllocator<'static>>(link_bytes: usize) {
    let start = memory();
    // SAFETY: the memory is the heap's, and the damage is done through addresses that the heap exposes as well.
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
            // SAFETY: the byte lies in the heap's memory, and no other reference to it is in use.
            let flip = || unsafe { byte.write(byte.read() ^ 1 << bit) };
            flip();
            assert!(heap.check().is_err(), "{}: bit {bit} of byte {}", A::CONTRACT.name, place - start.addr());
            flip();
        }
    }
    give(&mut heap, aligned);
}

#[test]
fn check_reports_any_damaged_bit() {
    check_reports_damage::<BinaryBuddy<'_>>(4);
    check_reports_damage::<BinaryBuddy<'_, Offset16, NoStats, Headers<4>>>(2);
    check_reports_damage::<ThesisBuddy<'_>>(4);
    check_reports_damage::<FibonacciBuddy<'_>>(4);
    check_reports_damage::<WeightedBuddy<'_>>(4);
    check_reports_damage::<DoubleBuddy<'_, Offset32, NoStats, Headers, 16>>(4);
}

/// The bytes of a region outside its blocks: fields, heads, and one byte for every sixteen.
#[test]
fn control_structures_are_small() {
    fn beside_blocks<A: RegionAllocator<'static>>() -> usize {
        let start = memory();
        // SAFETY: the memory is the heap's alone.
        let region = unsafe { core::slice::from_raw_parts_mut(start.cast::<MaybeUninit<u8>>(), MEMORY_BYTES) };
        let heap = A::new(region, A::Config::default()).unwrap();
        MEMORY_BYTES - blocks(&heap).iter().map(|&(size, _)| size).sum::<usize>()
    }
    assert!(beside_blocks::<Sixteen<'_>>() < MEMORY_BYTES / 16 + 160);
    assert!(beside_blocks::<BinaryBuddy<'_, Offset32, NoStats, Headers, 16>>() < 160);
    assert!(beside_blocks::<FibonacciBuddy<'_>>() < 176);
    assert!(beside_blocks::<WeightedBuddy<'_>>() < 192);
    assert!(beside_blocks::<DoubleBuddy<'_, Offset32, NoStats, SideTable, 16>>() < MEMORY_BYTES / 16 + 224);
    assert_eq!(<Headers as Placement>::HEADER_BYTES, 4);
}
