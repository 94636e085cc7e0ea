//! What the debug adapters detect and do: each kind of misuse, injected failures, and quotas.

use super::misuse;
use rtalloc::adapt::guarded::{FREED, FRESH};
use rtalloc::adapt::{
    Failing, Failures, Guarded, GuardedConfig, Locked, Masked, Quota, QuotaConfig, QuotaLimit, QuotaLimits,
};
use rtalloc::contract::{AllocError, InitError, MisuseKind};
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::WithStats;
use rtalloc::mechanism::validation::Full;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{BestFit, BinaryBuddy, Bitframe, HalfFit, RegionAllocator, SharedAllocator, Tlsf};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Bytes of a machine word.
const WORD: usize = size_of::<usize>();
/// Bytes of a record, and before a guarded payload with the default fence, where the granule is two words.
const RECORD_BYTES: usize = 4 * WORD;
const FRONT_BYTES: usize = RECORD_BYTES + 16;

/// What was reported on this thread since the last call.
fn reports() -> Vec<(MisuseKind, usize)> {
    misuse::reports().iter().map(|misuse| (misuse.kind, misuse.address)).collect()
}

fn region(len_bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    vec![MaybeUninit::new(0x11); len_bytes].leak()
}

fn at(block: NonNull<u8>) -> usize {
    block.addr().get()
}

fn guarded<H: RegionAllocator<'static>>(quarantine_blocks: usize) -> Guarded<'static, H> {
    reports();
    let config = GuardedConfig { quarantine_blocks, ..Default::default() };
    Guarded::new(region(64 << 10), config).expect("large enough")
}

fn quota<const PARTS: usize>(limits: [QuotaLimits; PARTS]) -> Quota<'static, Tlsf<'static>, PARTS> {
    reports();
    let config = QuotaConfig { limits, period_ticks: 100, ..Default::default() };
    Quota::new(region(64 << 10), config).expect("large enough")
}

/// The bytes of a block.
fn bytes<'b>(block: NonNull<u8>, len_bytes: usize) -> &'b [u8] {
    // SAFETY: the guard filled the block when it allocated it.
    unsafe { std::slice::from_raw_parts(block.as_ptr(), len_bytes) }
}

/// The guard detects a write to any byte of the fences on either side of a block, for every size and alignment.
fn every_byte_beside_a_block<H: RegionAllocator<'static>>() {
    let mut heap = guarded::<H>(4);
    let alignments = [1, 16, 64, 4096].into_iter().filter(|&align| align <= heap_alignment::<H>());
    for (size_bytes, align_bytes) in alignments.flat_map(|align| (1..70).map(move |size| (size, align))) {
        let block = heap.allocate_bytes(size_bytes, align_bytes).expect("a large heap");
        assert_eq!(at(block) % align_bytes, 0);
        let neighbour = heap.allocate_bytes(32, 1).expect("a large heap");
        let beside = (0..16).map(|after| size_bytes as isize + after).chain((1..=16).map(|before| -before));
        for offset in beside {
            let kind = if offset < 0 { MisuseKind::Underrun } else { MisuseKind::Overrun };
            // SAFETY: violates the contract on purpose; the byte is in the region, and restored.
            unsafe {
                let place = block.offset(offset);
                let whole = place.read();
                for wrong in [0, 0xFF, b'a', FRESH, FREED, !whole] {
                    place.write(wrong);
                    assert!(heap.check().is_err(), "{wrong:#x} at {offset} of {size_bytes}");
                    heap.deallocate(block);
                    assert_eq!(reports(), [(kind, at(block))], "{wrong:#x} at {offset} of {size_bytes}");
                    assert_eq!(heap.reallocate_bytes(block, 5, 1), Err(AllocError::Misused));
                    assert_eq!(reports(), [(kind, at(block))]);
                }
                place.write(whole);
            }
            assert_eq!(heap.check(), Ok(()));
        }
        // SAFETY: both are live.
        unsafe {
            heap.deallocate(block);
            heap.deallocate(neighbour);
        }
        assert_eq!(reports(), []);
    }
    heap.flush();
    assert_eq!((reports(), heap.check()), (vec![], Ok(())));
}

/// The largest alignment that a guarded heap serves.
fn heap_alignment<H: RegionAllocator<'static>>() -> usize {
    Guarded::<'static, H>::CONTRACT.largest_alignment_bytes
}

#[test]
fn overruns_and_underruns_by_one_byte() {
    every_byte_beside_a_block::<Tlsf<'static>>();
    every_byte_beside_a_block::<BinaryBuddy<'static>>();
    every_byte_beside_a_block::<Bitframe<'static>>();
    every_byte_beside_a_block::<Failing<'static, Quota<'static, HalfFit<'static>>>>();
}

/// An underrun that overwrites the whole record: the guard knows the block from the heap beneath.
#[test]
fn a_lost_record_is_an_underrun() {
    let mut heap = guarded::<Tlsf<'_>>(4);
    let block = heap.allocate_bytes(40, 1).expect("a large heap");
    // SAFETY: violates the contract on purpose; the bytes are in the region.
    unsafe {
        block.sub(FRONT_BYTES).write_bytes(0, FRONT_BYTES);
        heap.deallocate(block);
        assert_eq!(reports(), [(MisuseKind::Underrun, at(block))]);
        assert_eq!(heap.usable_size(block), 0);
    }
    assert!(heap.check().is_err_and(|corruption| corruption.address == at(block)));
}

/// A write after a free is found when the block leaves the quarantine, and by a check before, for every byte of the
/// block and its fences.
#[test]
fn writes_after_a_free() {
    for offset in (-16..40).chain([-16 - WORD as isize]) {
        let mut heap = guarded::<Tlsf<'_>>(2);
        let [first, second, third] = [24; 3].map(|size| heap.allocate_bytes(size, 1).expect("a large heap"));
        // SAFETY: the blocks are live until the write, which violates the contract on purpose.
        unsafe {
            heap.deallocate(first);
            assert_eq!(bytes(first, 24), [FREED; 24]);
            let place = first.offset(offset);
            place.write(place.read() ^ 1);
            assert!(heap.check().is_err_and(|corruption| corruption.address == at(first)), "at {offset}");
            heap.deallocate(second);
            assert_eq!(reports(), []);
            heap.deallocate(third);
        }
        assert_eq!(reports(), [(MisuseKind::UseAfterFree, at(first))], "at {offset}");
        assert_eq!(heap.check(), Ok(()));
        heap.flush();
        assert_eq!((reports(), heap.check()), (vec![], Ok(())));
    }
}

/// The quarantine is first in, first out, and has the configured length.
#[test]
fn freed_blocks_leave_in_order() {
    for places in [0, 1, 5] {
        let mut heap = guarded::<Tlsf<'_>>(places);
        let blocks: Vec<_> = (0..9).map(|_| heap.allocate_bytes(64, 1).expect("a large heap")).collect();
        for (freed, &block) in blocks.iter().enumerate() {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
            assert_eq!(heap.quarantined(), (freed + 1).min(places));
            let mut held = Vec::new();
            // The walk shows quarantined blocks at their payload, with its size; free blocks beneath are larger.
            heap.walk(&mut |shown| held.extend((shown.free && shown.usable_bytes == 64).then_some(shown.address)));
            let expected: Vec<usize> =
                blocks[..=freed].iter().skip((freed + 1).saturating_sub(places)).map(|&block| at(block)).collect();
            if places != 0 {
                assert_eq!(held, expected);
            }
        }
    }
}

/// Blocks of 1,000 bytes in a full list: each has 1,008.
#[cfg(target_pointer_width = "64")]
const FULL: usize = rtalloc::adapt::cached::LIST_BYTES / 1008;

/// A heap with a full list of blocks of 1,000 bytes, and four live blocks side by side.
#[cfg(target_pointer_width = "64")]
fn cached_with_a_full_list() -> (CachedTlsf, [NonNull<u8>; 4]) {
    let mut heap =
        CachedTlsf::new(vec![MaybeUninit::new(0); 1 << 18].leak(), Default::default()).expect("large enough");
    // Three neighbours, and a fence after them.
    let four = [(); 4].map(|()| heap.allocate_bytes(1000, 1).expect("a fresh heap"));
    let more: Vec<_> = (0..FULL).map(|_| heap.allocate_bytes(1000, 1).expect("a fresh heap")).collect();
    for block in more {
        // SAFETY: the block is live.
        unsafe { heap.deallocate(block) };
    }
    assert_eq!((heap.kept(), reports()), (FULL, vec![]));
    (heap, four)
}

#[cfg(target_pointer_width = "64")]
use rtalloc::{
    adapt::Cached,
    mechanism::{stats::NoStats, validation::BasicSettingAside, word::Wide},
};

#[cfg(target_pointer_width = "64")]
type CachedTlsf = Cached<'static, Tlsf<'static, 5, RoundUp, Wide, NoStats, BasicSettingAside>>;

/// A block whose neighbours and which itself were freed into the inner heap is in no list when it is freed again.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_merged_block_does_not_enter_a_list() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (mut heap, four) = cached_with_a_full_list();
        for index in order {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(four[index]) };
        }
        let one = heap.allocate_bytes(1000, 1).expect("a block from the list");
        assert_eq!((heap.kept(), reports()), (FULL - 1, vec![]));
        for index in order {
            // SAFETY: violates the contract on purpose: the block is free, which the heap must detect.
            unsafe { heap.deallocate(four[index]) };
            assert_eq!(reports().len(), 1, "block {index}, freed in the order {order:?}");
        }
        assert_eq!((heap.kept(), heap.check()), (FULL - 1, Ok(())));
        // SAFETY: the block is live.
        unsafe { heap.deallocate(one) };
    }
}

/// A header that was overwritten while its block is in a list is reported when the block leaves it, by a request or
/// because all lists are emptied, and the block is not allocated again.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_block_leaves_its_list_only_with_its_header() {
    for flipped in 0..64_u32 {
        for is_flushed in [false, true] {
            let (mut heap, four) = cached_with_a_full_list();
            let [last, kept] = [0, 1].map(|_| heap.allocate_bytes(1000, 1).expect("a block from the list"));
            // SAFETY: the block is live. Its header is overwritten on purpose.
            unsafe {
                heap.deallocate(last);
                let header = last.sub(8).cast::<u64>();
                header.write(header.read() ^ 1 << flipped);
            }
            assert_eq!(reports(), []);
            let again = if is_flushed {
                heap.flush();
                None
            } else {
                Some(heap.allocate_bytes(1000, 1).expect("a block of the inner heap"))
            };
            // Only a free looks at the flag that says whether the previous block is free.
            assert_eq!(reports().len(), usize::from(flipped != 1 || is_flushed), "bit {flipped}");
            assert!(flipped == 1 || again != Some(last), "bit {flipped}");
            let others = [four.as_slice(), &[kept]].concat();
            assert!(again.is_none_or(|again| !others.contains(&again)));
        }
    }
}

/// Where the inner heap grants more than a request needs, lists would hold what no request looks for.
#[test]
#[cfg(target_pointer_width = "64")]
fn lists_need_a_heap_that_grants_exactly() {
    type Coarse = Cached<'static, HalfFit<'static, RoundUp, Wide, NoStats, BasicSettingAside>>;
    let region = vec![MaybeUninit::new(0); 1 << 16].leak();
    let error = Coarse::new(region, Default::default()).err();
    assert!(matches!(error, Some(InitError::Configuration { what }) if what.contains("no more than")), "{error:?}");
}

/// No request is refused while the quarantine has memory, and the quarantine releases no more than the request needs.
#[test]
fn the_quarantine_is_let_go_before_a_refusal() {
    let mut heap = guarded::<BestFit<'_>>(8);
    let most_bytes = heap.largest_allocatable();
    let size_bytes = most_bytes / 8;
    for _ in 0..3 {
        let mut blocks = Vec::new();
        while let Ok(block) = heap.allocate_bytes(size_bytes, 1) {
            blocks.push(block);
        }
        assert_eq!((blocks.len(), heap.quarantined()), (7, 0));
        for &block in &blocks {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
        assert_eq!(heap.quarantined(), 7);
        // There may be room for one more of this size besides them; two need at most two.
        let again = [size_bytes; 2].map(|size| heap.allocate_bytes(size, 1).expect("the quarantine releases memory"));
        assert!((5..7).contains(&heap.quarantined()), "{} of 7 are quarantined", heap.quarantined());
        let whole = heap.allocate_bytes(most_bytes, 1);
        assert_eq!((whole, heap.quarantined()), (Err(AllocError::Exhausted), 0));
        for block in again {
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
        let whole = heap.allocate_bytes(most_bytes, 1).expect("all of a fresh heap");
        // SAFETY: the block is live.
        unsafe { heap.deallocate(whole) };
        heap.flush();
    }
    assert_eq!((reports(), heap.check()), (vec![], Ok(())));
}

/// Double frees: at once, in the quarantine, after it, and with an overwritten record.
#[test]
fn double_frees() {
    let mut heap = guarded::<Tlsf<'_>>(1);
    let [first, second] = [24, 24].map(|size| heap.allocate_bytes(size, 1).expect("a large heap"));
    // SAFETY: violates the contract on purpose where a report is expected.
    unsafe {
        heap.deallocate(first);
        heap.deallocate(first);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(first))]);
        assert_eq!(heap.reallocate_bytes(first, 100, 1), Err(AllocError::Misused));
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(first))]);
        // The record is gone, but the ring knows the block.
        first.sub(FRONT_BYTES).write_bytes(0xEE, RECORD_BYTES);
        heap.deallocate(first);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(first))]);
        // It leaves the quarantine, and the guard and the heap both find the write.
        heap.deallocate(second);
        assert_eq!(reports(), [(MisuseKind::UseAfterFree, at(first))]);
        heap.flush();
        heap.deallocate(first);
        heap.deallocate(second);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(first)), (MisuseKind::DoubleFree, at(second))]);
    }
    assert_eq!(heap.check(), Ok(()));
}

/// Pointers into a block, to a block of another guarded heap, and to no block.
#[test]
fn wrong_pointers_are_classified() {
    let mut heap = guarded::<Tlsf<'_>>(4);
    let mut other = guarded::<BinaryBuddy<'_>>(4);
    let block = heap.allocate_bytes(100, 256).expect("a large heap");
    let others = other.allocate_bytes(100, 1).expect("a large heap");
    let local = Box::new([0_u64; 4]);
    let mut free = |address: usize| {
        // SAFETY: violates the contract on purpose, to test the report.
        unsafe { heap.deallocate(NonNull::new(std::ptr::without_provenance_mut(address)).expect("not null")) };
        match reports()[..] {
            [(kind, reported)] => {
                assert_eq!(reported, address);
                kind
            }
            ref other => panic!("{other:?}"),
        }
    };
    for offset in 1..100 {
        assert_eq!(free(at(block) + offset), MisuseKind::InteriorPointer, "at {offset}");
    }
    assert_eq!(free(at(block) - 8), MisuseKind::InteriorPointer, "in the frame");
    assert_eq!(free(at(others)), MisuseKind::WrongHeap);
    assert_eq!(free((&raw const *local).addr()), MisuseKind::ForeignPointer);
    assert_eq!(free(8), MisuseKind::ForeignPointer);
    // SAFETY: the blocks are live.
    unsafe {
        heap.deallocate(block);
        other.deallocate(others);
    }
    assert_eq!((reports(), heap.check(), other.check()), (vec![], Ok(()), Ok(())));
}

/// A heap in a block of another: each distinguishes the other's blocks from its own.
#[test]
fn a_heap_inside_a_heap() {
    let mut outer = guarded::<Tlsf<'_>>(4);
    let lent = outer.allocate_bytes(16 << 10, 16).expect("a large heap");
    // SAFETY: the block is live, and only the inner heap uses it.
    let inner_region = unsafe { std::slice::from_raw_parts_mut(lent.as_ptr().cast::<MaybeUninit<u8>>(), 16 << 10) };
    let mut inner: Guarded<'_, Tlsf<'_>> = Guarded::new(inner_region, Default::default()).expect("large enough");
    let block = inner.allocate_bytes(100, 1).expect("a large heap");
    // SAFETY: violates the contract on purpose; then the block's own heap frees it.
    unsafe {
        outer.deallocate(block);
        assert_eq!(reports(), [(MisuseKind::WrongHeap, at(block))]);
        inner.deallocate(block);
        outer.deallocate(lent);
    }
    assert_eq!((reports(), outer.check()), (vec![], Ok(())));
}

/// Fresh and freed memory is filled; a resized block keeps its content, and gets fresh bytes.
#[test]
fn memory_is_filled() {
    let mut heap = guarded::<Tlsf<'_>>(8);
    let block = heap.allocate_bytes(50, 1).expect("a large heap");
    assert_eq!(bytes(block, 50), [FRESH; 50]);
    // SAFETY: the blocks are live, and used within their sizes; the memory read after a free is in the quarantine.
    unsafe {
        assert_eq!(heap.usable_size(block), 50);
        block.write_bytes(7, 50);
        let larger = heap.reallocate_bytes(block, 200, 1).expect("a large heap");
        assert_ne!(larger, block, "a block that grows moves");
        assert_eq!((bytes(larger, 50), &bytes(larger, 200)[50..]), (&[7; 50][..], &[FRESH; 150][..]));
        assert_eq!(bytes(block, 50), [FREED; 50]);
        larger.write_bytes(8, 200);
        let smaller = heap.reallocate_bytes(larger, 20, 1).expect("less is served");
        assert_eq!((smaller, bytes(smaller, 20)), (larger, &[8; 20][..]));
        // The twenty-first byte is a fence now.
        smaller.add(20).write(8);
        heap.deallocate(smaller);
    }
    assert_eq!(reports(), [(MisuseKind::Overrun, at(block) + (heap_distance(&heap)))]);
}

/// Bytes from the first block's payload to the only live one's.
fn heap_distance(heap: &Guarded<'_, Tlsf<'_>>) -> usize {
    let (mut first, mut live) = (None, None);
    heap.walk(&mut |block| {
        first = first.or(Some(block.address));
        live = live.or((!block.free).then_some(block.address));
    });
    live.expect("a live block") - first.expect("a block")
}

/// Damage to the guard's own words is found.
#[test]
fn control_structures_are_checked() {
    let memory = region(16 << 10);
    let start: *mut u8 = memory.as_mut_ptr().cast();
    let config = GuardedConfig { quarantine_blocks: 3, ..Default::default() };
    let mut heap: Guarded<'_, Tlsf<'_>> = Guarded::new(memory, config).expect("large enough");
    let block = heap.allocate_bytes(10, 1).expect("a large heap");
    // SAFETY: the block is live.
    unsafe { heap.deallocate(block) };
    // After the pointer to the heap beneath: the secret, the region, and their seal.
    for offset in WORD..5 * WORD {
        for bit in 0..8 {
            // SAFETY: the byte is in the region, and restored.
            let answer = unsafe {
                let place = start.add(offset);
                place.write(place.read() ^ 1 << bit);
                let answer = heap.check();
                place.write(place.read() ^ 1 << bit);
                answer
            };
            assert!(answer.is_err(), "bit {bit} of byte {offset}");
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

/// The region that a quarantine of any length needs, and one that is too long.
#[test]
fn regions_of_guarded_heaps() {
    for quarantine_blocks in [0, 1, 100] {
        let config = || GuardedConfig { quarantine_blocks, ..Default::default() };
        let new =
            |len_bytes| Guarded::<Tlsf<'_>>::new(region(len_bytes), config()).map(|heap| heap.largest_allocatable());
        let Err(InitError::TooSmall { needed_bytes }) = new(10) else { panic!("10 bytes are too few") };
        assert!(new(needed_bytes).is_ok_and(|largest_bytes| largest_bytes > 0));
        assert!(needed_bytes > 2 * WORD * quarantine_blocks);
    }
    let absurd = GuardedConfig { quarantine_blocks: usize::MAX, ..Default::default() };
    let answer = Guarded::<Tlsf<'_>>::new(region(1000), absurd).err();
    assert!(matches!(answer, Some(InitError::Configuration { .. })));
    let huge = GuardedConfig { quarantine_blocks: usize::MAX / (2 * WORD), ..Default::default() };
    let answer = Guarded::<Tlsf<'_>>::new(region(1000), huge).err();
    assert!(matches!(answer, Some(InitError::TooSmall { needed_bytes }) if needed_bytes > usize::MAX / 2));
}

/// A program that allocates, grows and frees; it frees everything even if requests are refused.
fn program<'r>(heap: &mut impl RegionAllocator<'r>) -> Result<(), AllocError> {
    let mut blocks = Vec::new();
    let mut answer = Ok(());
    for size_bytes in [10, 200, 30, 1000, 5] {
        match heap.allocate_bytes(size_bytes, 8) {
            Ok(block) => blocks.push(block),
            Err(error) => answer = Err(error),
        }
    }
    for block in &mut blocks {
        // SAFETY: the block is live; a refusal does not change it.
        match unsafe { heap.reallocate_bytes(*block, 1500, 8) } {
            Ok(moved) => *block = moved,
            Err(error) => answer = Err(error),
        }
        // SAFETY: the block is live; shrinking never needs memory.
        *block = unsafe { heap.reallocate_bytes(*block, 4, 8) }?;
    }
    for block in blocks {
        // SAFETY: the block is live.
        unsafe { heap.deallocate(block) };
    }
    answer
}

fn live_blocks<'r>(heap: &impl RegionAllocator<'r>) -> usize {
    let mut live = 0;
    heap.walk(&mut |block| live += usize::from(!block.free));
    live
}

/// Fails the 1st, 2nd, ... request until the program finishes.
fn every_way_out<H: RegionAllocator<'static>>(
    heap: &mut H,
    failing: impl Fn(&H, Failures),
    failed: impl Fn(&H) -> usize,
) -> usize {
    reports();
    for number in 1.. {
        failing(heap, Failures::Nth(number));
        let answer = program(heap);
        assert_eq!((live_blocks(heap), heap.check(), reports()), (0, Ok(()), vec![]), "{number}");
        if failed(heap) == 0 {
            assert_eq!(answer, Ok(()));
            return number - 1;
        }
        assert_eq!((answer, failed(heap)), (Err(AllocError::Injected), 1));
    }
    unreachable!("some request number is never reached")
}

type Inside = Guarded<'static, Failing<'static, Tlsf<'static>>>;
type Outside = Failing<'static, Guarded<'static, Tlsf<'static>>>;

#[test]
fn every_way_out_of_memory() {
    let mut plain: Failing<'_, Tlsf<'_>> = Failing::new(region(64 << 10), Default::default()).expect("large enough");
    // Five allocations, and five that grow.
    assert_eq!(every_way_out(&mut plain, |heap, plan| heap.arm(plan), |heap| heap.failed()), 10);
    assert_eq!((plain.requests(), plain.last_failed()), (10, None));
    let mut inside: Inside = Guarded::new(region(64 << 10), Default::default()).expect("large enough");
    let ways = every_way_out(&mut inside, |heap, plan| heap.inner().arm(plan), |heap| heap.inner().failed());
    // Under a guard, shrinking is a request to the heap beneath that needs no memory, and growing is an allocation.
    assert_eq!(ways, 10);
    let mut outside: Outside = Failing::new(region(64 << 10), Default::default()).expect("large enough");
    assert_eq!(every_way_out(&mut outside, |heap, plan| heap.arm(plan), |heap| heap.failed()), 10);
}

/// The same plan refuses the same requests, and reports which.
#[test]
fn failures_repeat_and_can_be_asked() {
    let mut heap: Failing<'_, Tlsf<'_, 5, RoundUp, Offset32, WithStats>> =
        Failing::new(region(64 << 10), Default::default()).expect("large enough");
    for plan in [Failures::EveryNth(3), Failures::From(20), Failures::per_mille(300, 9), Failures::Nth(0)] {
        let before = heap.stats().expect("statistics").failures;
        let mut run = || -> Vec<usize> {
            heap.arm(plan);
            (1..=50)
                .filter(|_| heap.allocate_bytes(8, 8).map_err(|error| assert_eq!(error, AllocError::Injected)).is_err())
                .collect()
        };
        let refused = run();
        assert_eq!(run(), refused, "{plan:?}");
        assert_eq!(heap.failed_requests().collect::<Vec<_>>(), refused);
        assert_eq!((heap.requests(), heap.failed(), heap.last_failed()), (50, refused.len(), refused.last().copied()));
        assert_eq!(heap.failures(), plan);
        assert_eq!(heap.stats().expect("statistics").failures, before + 2 * refused.len());
        // Requests that are refused anyway do not count.
        assert_eq!(heap.allocate_bytes(0, 8), Err(AllocError::ZeroSize));
        assert_eq!(heap.allocate_bytes(8, 3), Err(AllocError::Alignment));
        assert_eq!((heap.requests(), heap.check()), (50, Ok(())));
    }
}

/// Reallocations that need no memory are not counted, and the block survives one that is refused.
#[test]
fn reallocations_that_need_memory_count() {
    let mut heap: Failing<'_, Tlsf<'_>> = Failing::new(region(64 << 10), Default::default()).expect("large enough");
    let block = heap.allocate_bytes(100, 8).expect("a large heap");
    heap.arm(Failures::From(1));
    // SAFETY: the block is live.
    unsafe {
        block.write_bytes(5, 100);
        let usable_bytes = heap.usable_size(block);
        for size_bytes in [100, 50, 100, usable_bytes] {
            assert_eq!(heap.reallocate_bytes(block, size_bytes.min(heap.usable_size(block)), 8), Ok(block));
        }
        assert_eq!(heap.requests(), 0);
        let usable_bytes = heap.usable_size(block);
        assert_eq!(heap.reallocate_bytes(block, usable_bytes + 1, 8), Err(AllocError::Injected));
        let beyond = 1 << (at(block).trailing_zeros() + 1);
        assert_eq!(heap.reallocate_bytes(block, 10, beyond), Err(AllocError::Injected));
        assert_eq!((heap.requests(), bytes(block, 50)), (2, &[5; 50][..]));
        heap.deallocate(block);
    }
}

/// Each limit refuses with its reason, and to the byte.
#[test]
fn quotas_refuse_to_the_byte() {
    let limit = |live_bytes, operations, bytes| QuotaLimits { live_bytes, operations, bytes };
    const NONE: usize = usize::MAX;
    let mut heap =
        quota([limit(NONE, NONE, NONE), limit(1000, NONE, NONE), limit(NONE, 3, NONE), limit(NONE, NONE, 500)]);
    assert_eq!((heap.component(), heap.enter(1), heap.enter(9), heap.component()), (0, Some(0), None, 1));
    assert_eq!(heap.largest_allocatable(), 1000);
    let block = heap.allocate_bytes(400, 8).expect("within the quota");
    assert_eq!(heap.allocate_bytes(601, 8), Err(AllocError::Quota));
    assert_eq!(heap.last_refusal(), Some((1, QuotaLimit::LiveBytes)));
    // SAFETY: the block is live.
    let block = unsafe {
        assert_eq!(heap.reallocate_bytes(block, 1001, 8), Err(AllocError::Quota));
        let block = heap.reallocate_bytes(block, 1000, 8).expect("within the quota");
        assert_eq!((heap.largest_allocatable(), heap.owner(block)), (0, Some(1)));
        block
    };

    heap.enter(2);
    // SAFETY: the block is live. A free credits the block's owner, and costs the component that frees it one operation.
    unsafe {
        heap.deallocate(block);
        assert_eq!(heap.owner(block), None);
    }
    let own = [8, 8].map(|size| heap.allocate_bytes(size, 8).expect("within the quota"));
    assert_eq!((heap.allocate_bytes(8, 8), heap.largest_allocatable()), (Err(AllocError::Quota), 0));
    assert_eq!(heap.last_refusal(), Some((2, QuotaLimit::Operations)));
    // SAFETY: the blocks are live. A free is never refused, but a resize is.
    unsafe {
        assert_eq!(heap.reallocate_bytes(own[0], 4, 8), Err(AllocError::Quota));
        for block in own {
            heap.deallocate(block);
        }
    }
    assert_eq!(heap.used(2).map(|used| (used.operations, used.live_blocks)), Some((5, 0)));

    heap.enter(3);
    let block = heap.allocate_bytes(500, 8).expect("within the quota");
    // SAFETY: the block is live. Its bytes are not available again in this period.
    unsafe { heap.deallocate(block) };
    assert_eq!(heap.allocate_bytes(1, 8), Err(AllocError::Quota));
    assert_eq!(heap.last_refusal(), Some((3, QuotaLimit::Bytes)));

    let used = heap.used(1).expect("a component");
    assert_eq!((used.live_bytes, used.peak_live_bytes, used.live_blocks, used.refused), (0, 1000, 0, [2, 0, 0]));
    assert_eq!(heap.used(2).map(|used| used.refused), Some([0, 2, 0]));
    assert_eq!(heap.used(3).map(|used| used.refused), Some([0, 0, 1]));
    assert_eq!((heap.used(4), heap.limits(4), heap.set_limits(4, limit(1, 1, 1))), (None, None, false));
    assert_eq!(heap.stats().map(|stats| (stats.live_bytes, stats.failures)), Some((0, 5)));
    assert_eq!((reports(), heap.check()), (vec![], Ok(())));
}

/// Periods begin when they are due, and reset operations and bytes; live bytes stay.
#[test]
fn periods_begin_when_due() {
    let mut heap = quota([QuotaLimits { live_bytes: 1000, operations: 2, bytes: 300 }]);
    let mut live = Vec::new();
    let mut fill = |heap: &mut Quota<'static, Tlsf<'static>, 1>| {
        let before = live.len();
        live.extend(std::iter::from_fn(|| heap.allocate_bytes(150, 8).ok()));
        live.len() - before
    };
    assert_eq!(fill(&mut heap), 2);
    assert!(!heap.tick(99));
    assert_eq!(fill(&mut heap), 0);
    assert!(heap.tick(130) && !heap.tick(199));
    assert_eq!(fill(&mut heap), 2);
    // The next period was due at 200, although the last call was at 130; after a long sleep the next one begins at
    // once.
    assert!(heap.tick(200) && !heap.tick(299) && heap.tick(1234) && !heap.tick(1333) && heap.tick(1334));
    assert_eq!(fill(&mut heap), 2);
    // Time may wrap.
    assert!(heap.tick(u64::MAX - 10) && !heap.tick(50) && heap.tick(89));
    // 900 bytes are live, so the limit on live bytes is next.
    assert_eq!(fill(&mut heap), 0);
    assert_eq!(heap.last_refusal(), Some((0, QuotaLimit::LiveBytes)));
    heap.begin_period();
    assert_eq!(heap.used(0).map(|used| (used.operations, used.bytes, used.live_bytes)), Some((0, 0, 900)));
}

/// A block that another component resizes keeps its owner, which is charged for it.
#[test]
fn blocks_stay_their_owners() {
    let mut heap = quota([QuotaLimits::default(), QuotaLimits { live_bytes: 500, ..Default::default() }]);
    heap.enter(1);
    let block = heap.allocate_bytes(100, 8).expect("within the quota");
    heap.enter(0);
    // SAFETY: the block is live.
    let block = unsafe {
        block.write_bytes(3, 100);
        let fence = heap.allocate_bytes(8, 8).expect("a large heap");
        let moved = heap.reallocate_bytes(block, 400, 8).expect("within the quota");
        assert_ne!(moved, block, "something was in the way");
        assert_eq!((heap.owner(moved), heap.owner(block)), (Some(1), None));
        let aligned = heap.reallocate_bytes(moved, 450, 1024).expect("within the quota");
        assert_eq!((at(aligned) % 1024, bytes(aligned, 100)), (0, &[3; 100][..]));
        assert_eq!(heap.reallocate_bytes(aligned, 501, 8), Err(AllocError::Quota));
        heap.deallocate(fence);
        aligned
    };
    assert_eq!(heap.used(1).map(|used| (used.live_bytes, used.live_blocks, used.bytes)), Some((450, 1, 100)));
    assert_eq!(heap.used(0).map(|used| (used.live_bytes, used.live_blocks, used.bytes)), Some((0, 0, 358)));
    assert_eq!(heap.check(), Ok(()));
    // SAFETY: the block is live; the later calls violate the contract on purpose.
    unsafe {
        heap.deallocate(block);
        heap.deallocate(block);
    }
    assert_eq!(reports(), [(MisuseKind::DoubleFree, at(block))]);
    assert_eq!(heap.used(1).map(|used| (used.live_bytes, used.live_blocks)), Some((0, 0)), "credited once");
}

/// Blocks of the usual alignment grow in place; others move, which needs room for both. The contract promises no more.
#[test]
fn aligned_blocks_with_owners_move_to_grow() {
    let mut heap = quota([QuotaLimits::default()]);
    let usual = Quota::<'static, Tlsf<'static>, 1>::CONTRACT.alignment_bytes;
    for align_bytes in [usual, 4 * usual, 1024] {
        let block = heap.allocate_bytes(20_000, align_bytes).expect("a large heap");
        // SAFETY: the block is live.
        unsafe {
            let grown = heap.reallocate_bytes(block, 50_000, align_bytes);
            assert_eq!(grown, if align_bytes == usual { Ok(block) } else { Err(AllocError::Exhausted) });
            assert!(grown.is_ok() || !Quota::<'static, Tlsf<'static>, 1>::CONTRACT.grows_in_place);
            heap.deallocate(block);
        }
    }
    assert_eq!((reports(), heap.check()), (vec![], Ok(())));
}

/// A quota beneath a guard counts the quarantine; a quota around a guard does not.
#[test]
fn quotas_beneath_a_guard_count_its_quarantine() {
    let limits = [QuotaLimits { live_bytes: 1000, operations: 4, ..Default::default() }; 1];
    let refused = |answer: Result<NonNull<u8>, AllocError>| answer.err();
    let free = |block: NonNull<u8>, heap: &mut Guarded<'static, Quota<'static, Tlsf<'static>, 1>>| {
        // SAFETY: the block is live.
        unsafe { heap.deallocate(block) }
    };
    reports();
    let beneath = QuotaConfig { limits, ..Default::default() };
    let config = GuardedConfig { heap: beneath, quarantine_blocks: 4, secret: 0 };
    let mut heap: Guarded<'static, Quota<'static, Tlsf<'static>, 1>> =
        Guarded::new(region(64 << 10), config).expect("large enough");
    let block = heap.allocate_bytes(600, 8).expect("within the quota");
    free(block, &mut heap);
    assert_eq!(heap.inner().used(0).map(|used| (used.live_blocks, used.operations)), Some((1, 1)));
    assert_eq!(refused(heap.allocate_bytes(600, 8)), Some(AllocError::Quota));
    assert_eq!(heap.quarantined(), 1);
    heap.flush();
    assert_eq!(heap.inner().used(0).map(|used| (used.live_blocks, used.operations)), Some((0, 2)));
    assert!(heap.allocate_bytes(600, 8).is_ok());

    let config =
        QuotaConfig { heap: GuardedConfig { quarantine_blocks: 4, ..Default::default() }, limits, period_ticks: 0 };
    let mut around: Quota<'static, Guarded<'static, Tlsf<'static>>, 1> =
        Quota::new(region(64 << 10), config).expect("large enough");
    let block = around.allocate_bytes(600, 8).expect("within the quota");
    // SAFETY: the block is live.
    unsafe { around.deallocate(block) };
    assert!(around.allocate_bytes(600, 8).is_ok());
    assert_eq!(around.used(0).map(|used| (used.live_blocks, used.operations)), Some((1, 3)));
    assert_eq!((reports(), heap.check(), around.check()), (vec![], Ok(()), Ok(())));
}

/// An overwritten record is reported, and credits no component.
#[test]
fn damaged_owners_are_found() {
    let mut heap = quota([QuotaLimits::default(); 2]);
    let block = heap.allocate_bytes(100, 8).expect("a large heap");
    for before in 1..=RECORD_BYTES {
        for bit in 0..8 {
            // SAFETY: violates the contract on purpose; the byte is in the region, and restored.
            unsafe {
                let place = block.sub(before);
                place.write(place.read() ^ 1 << bit);
                heap.deallocate(block);
                assert_eq!(reports(), [(MisuseKind::Underrun, at(block))], "bit {bit}, {before} bytes before it");
                assert!(heap.check().is_err());
                place.write(place.read() ^ 1 << bit);
            }
        }
    }
    assert_eq!((heap.used(0).map(|used| used.live_bytes), heap.check()), (Some(100), Ok(())));
}

/// All adapters nested under a lock detect every kind of damage that each detects alone.
#[test]
fn adapters_nest() {
    type Nested =
        Guarded<'static, Quota<'static, Failing<'static, Tlsf<'static, 5, RoundUp, Offset32, WithStats, Full>>, 2>>;
    reports();
    assert_eq!(Nested::CONTRACT.name, "guarded-quota-failing-tlsf");
    assert_eq!(size_of::<Nested>(), size_of::<usize>());
    let mut heap: Locked<'_, Nested, Masked> = Locked::new(region(64 << 10), Default::default()).expect("large enough");
    heap.inspect(|heap| {
        heap.inner().enter(1);
        heap.inner().set_limits(1, QuotaLimits { live_bytes: 2000, ..Default::default() });
        heap.inner().inner().arm(Failures::Nth(3));
    });
    let block = heap.allocate_bytes(100, 64).expect("the first request");
    let other = heap.allocate_bytes(100, 64).expect("the second request");
    assert_eq!(heap.allocate_bytes(100, 64), Err(AllocError::Injected));
    assert_eq!(heap.allocate_bytes(5000, 64), Err(AllocError::Quota));
    // SAFETY: violates the contract on purpose; the written byte is in the fence.
    unsafe {
        block.add(100).write(0);
        heap.deallocate(block);
        heap.deallocate(other);
    }
    assert_eq!(reports(), [(MisuseKind::Overrun, at(block))]);
    assert_eq!(heap.refusals().request, 2);
    assert!(SharedAllocator::check(&mut heap).is_err());
}

/// Collections, in a guarded heap under a lock.
#[test]
fn collections_live_in_guarded_heaps() {
    use allocator_api2::vec::Vec as VecIn;
    type Heap = Locked<'static, Guarded<'static, Quota<'static, Tlsf<'static>>>, spin::Mutex<()>>;
    reports();
    let mut heap: Heap = Locked::new(region(256 << 10), Default::default()).expect("large enough");
    let mut numbers = VecIn::new_in(&heap);
    numbers.extend(0..1000_u32);
    numbers.retain(|number| number % 2 == 0);
    numbers.shrink_to_fit();
    assert!(numbers.iter().copied().eq((0..1000).step_by(2)));
    drop(numbers);
    assert_eq!((SharedAllocator::check(&mut heap), reports()), (Ok(()), vec![]));
}
