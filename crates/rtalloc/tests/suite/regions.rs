//! Regions added and removed at run time.

use super::memory::{Buffer, foreign, within_reach};
use super::misuse::{is_checked, reports};
use super::ops::{self, Op};
use super::property::holds;
use super::shadow::Shadow;
use super::subject::{Subject, facts};
use proptest::prelude::*;
use rtalloc::contract::{InitError, RegionId, RemoveError};
use std::ops::Range;

/// Bytes of the first region, and of each of the places for others after it.
const FIRST_BYTES: usize = 8192;
const PLACE_BYTES: usize = 4096;
const PLACES: usize = 3;
const ALL_BYTES: usize = FIRST_BYTES + PLACES * PLACE_BYTES;

/// The address range of a place. The first two touch each other and the first region; odd lengths and offsets give
/// unaligned regions.
fn place(buffer: &Buffer, number: usize) -> Range<usize> {
    let start = buffer.start() + FIRST_BYTES + number * PLACE_BYTES;
    match number {
        0 => start..start + PLACE_BYTES,
        1 => start..start + PLACE_BYTES / 2 + 5,
        _ => start + 3..start + PLACE_BYTES - 9,
    }
}

/// Adds the region at a place.
fn add(shadow: &mut Shadow<'_>, number: usize) -> Result<RegionId, InitError> {
    let range = place(shadow.buffer, number);
    // SAFETY: the shadow owns the heap and ends before its buffer; each place is given once at a time.
    let region = unsafe { shadow.buffer.region(range.start - shadow.buffer.start(), range.len()) };
    let id = shadow.allocator.add_region(region)?;
    shadow.learn_extent(range);
    Ok(id)
}

/// Removes the region at a place and verifies that it is the one that was added.
fn remove(shadow: &mut Shadow<'_>, number: usize, id: RegionId) -> Result<(), RemoveError> {
    let range = place(shadow.buffer, number);
    let region = shadow.allocator.remove_region(id)?;
    assert_eq!((region.as_ptr().addr(), region.len()), (range.start, range.len()), "another region came back");
    // The memory is the user's again.
    region.fill(std::mem::MaybeUninit::new(0x77));
    shadow.forget_extent(range);
    Ok(())
}

/// Whether a live block lies in a place.
fn is_used(shadow: &Shadow<'_>, number: usize) -> bool {
    let range = place(shadow.buffer, number);
    shadow.live.iter().any(|block| range.contains(&block.address()))
}

/// Add, use both, fail to remove while blocks are live, remove.
pub fn add_use_remove() {
    let buffer = Buffer::new(ALL_BYTES);
    for number in 0..PLACES {
        let mut shadow = Shadow::new(&buffer, FIRST_BYTES, 1);
        while shadow.allocate(100) {}
        let id = add(&mut shadow, number).expect("a region in reach");
        assert!(shadow.allocate(100), "the added region serves nothing");
        assert!(is_used(&shadow, number));
        assert_eq!(remove(&mut shadow, number, id), Err(RemoveError::InUse));
        while shadow.allocate(100) {}
        while let Some(index) = shadow.live.iter().position(|block| place(&buffer, number).contains(&block.address())) {
            assert_eq!(remove(&mut shadow, number, id), Err(RemoveError::InUse));
            shadow.apply(&Op::Free { index });
        }
        shadow.audit();
        assert_eq!(remove(&mut shadow, number, id), Ok(()));
        shadow.audit();
        assert_eq!(remove(&mut shadow, number, id), Err(RemoveError::NotRemovable));
        assert!(!shadow.allocate(100), "a removed region still serves");
        let id = add(&mut shadow, number).expect("the same region again");
        assert!(shadow.allocate(100));
        shadow.free(shadow.live.len() - 1);
        assert_eq!(remove(&mut shadow, number, id), Ok(()));
        shadow.finish();
    }
}

/// Blocks never span regions, even ones that touch: with all regions added and everything freed, each region is one
/// block, and no request larger than the largest region's succeeds.
pub fn regions_stay_apart() {
    let buffer = Buffer::new(ALL_BYTES);
    let mut shadow = Shadow::new(&buffer, FIRST_BYTES, 1);
    for number in 0..PLACES {
        add(&mut shadow, number).expect("a region in reach");
    }
    for size_bytes in [1, 100, 700, 1900] {
        while shadow.allocate(size_bytes) {}
        while !shadow.live.is_empty() {
            // From the middle outwards, so that blocks at the regions' ends have free neighbours.
            let index = shadow.live.len() / 2;
            shadow.apply(&Op::Free { index });
        }
        shadow.assert_recovered();
    }
}

/// A removed region's pointers are foreign.
pub fn removed_region_is_foreign() {
    if !is_checked() {
        return;
    }
    let buffer = Buffer::new(ALL_BYTES);
    let mut shadow = Shadow::new(&buffer, FIRST_BYTES, 1);
    let id = add(&mut shadow, 2).expect("a region in reach");
    while shadow.allocate(200) {}
    let inside = place(&buffer, 2);
    let addresses: Vec<usize> = shadow.live.iter().map(|block| block.address()).collect();
    while !shadow.live.is_empty() {
        shadow.free(0);
    }
    assert_eq!(remove(&mut shadow, 2, id), Ok(()));
    reports();
    for address in addresses.into_iter().filter(|address| inside.contains(address)) {
        let pointer = foreign(address).expect("not zero");
        // SAFETY: violates the contract on purpose: the pointer is foreign now, which the heap must detect.
        unsafe { shadow.allocator.deallocate(pointer) };
        assert_eq!(reports().len(), 1, "a free in a removed region was not reported");
    }
    shadow.finish();
}

/// Regions of every length below what a heap can use, larger than planned, or out of reach: a typed error, and neither
/// heap nor region changed.
pub fn refused_regions() {
    let buffer = Buffer::new(within_reach(1 << 16));
    let first_bytes = 4096;
    let mut shadow = Shadow::new(&buffer, first_bytes, 1);
    assert!(shadow.allocate(100));
    let untouched = buffer.save();
    for offset_bytes in 0..32 {
        let mut is_accepted = false;
        for len_bytes in 0..300 {
            // SAFETY: the heap ends before the buffer, and the region is removed or refused in this iteration.
            let region = unsafe { buffer.region(first_bytes + offset_bytes, len_bytes) };
            let range = region.as_ptr().addr()..region.as_ptr().addr() + len_bytes;
            match shadow.allocator.add_region(region) {
                Err(InitError::TooSmall { needed_bytes }) => {
                    assert!(
                        !is_accepted && needed_bytes > len_bytes,
                        "{len_bytes} bytes refused, needs {needed_bytes}"
                    );
                    assert!(untouched == buffer.bytes(), "a refused region changed bytes");
                    // SAFETY: the heap ends before the buffer, and the region is removed in this iteration.
                    let region = unsafe { buffer.region(first_bytes + offset_bytes, needed_bytes) };
                    let id = shadow.allocator.add_region(region);
                    let id = id.unwrap_or_else(|error| panic!("{needed_bytes} bytes should do: {error}"));
                    assert!(shadow.allocator.remove_region(id).is_ok());
                    buffer.restore(&untouched);
                }
                Err(error) => panic!("{len_bytes} bytes at offset {offset_bytes}: {error}"),
                Ok(id) => {
                    is_accepted = true;
                    shadow.learn_extent(range.clone());
                    shadow.audit();
                    let back = shadow.allocator.remove_region(id).expect("nothing is live in it");
                    assert_eq!((back.as_ptr().addr(), back.len()), (range.start, range.len()));
                    shadow.forget_extent(range);
                    buffer.restore(&untouched);
                }
            }
        }
        assert!(is_accepted);
    }
    // SAFETY: the heap ends before the buffer; all of these are refused.
    unsafe {
        let larger = buffer.region(first_bytes, 2 * first_bytes);
        let answer = shadow.allocator.add_region(larger);
        let Err(InitError::LargerThanPlanned { max_region_bytes }) = answer else { panic!("{answer:?}") };
        assert!(untouched == buffer.bytes());
        let largest = buffer.region(first_bytes, max_region_bytes);
        let id = shadow.allocator.add_region(largest).expect("as large as planned");
        assert!(shadow.allocator.remove_region(id).is_ok());
    }
    buffer.restore(&untouched);
    shadow.finish();
}

/// A region that shares a byte with one of the heap's is refused; one between two is accepted.
pub fn overlapping_regions() {
    let buffer = Buffer::new(ALL_BYTES);
    let first = PLACE_BYTES + 3..PLACE_BYTES + FIRST_BYTES;
    let second = first.end + 1000..first.end + 3001;
    // SAFETY: the heap ends with this function, before the buffer, and refuses what overlaps.
    unsafe {
        let mut allocator = buffer.heap(first.start, first.len()).expect("large enough");
        let id = allocator.add_region(buffer.region(second.start, second.len())).expect("in reach");
        let untouched = buffer.save();
        for start in (0..ALL_BYTES).step_by(61) {
            for len_bytes in [100, 700, 2000, 9000].into_iter().filter(|len_bytes| start + len_bytes <= ALL_BYTES) {
                // An adapter does not know which bytes alignment cut off the start of its region, and does not use
                // them.
                let known = first.start.next_multiple_of(64)..first.end;
                let is_part =
                    [&known, &second].iter().any(|taken| start < taken.end && taken.start < start + len_bytes);
                if is_part {
                    let answer = allocator.add_region(buffer.region(start, len_bytes));
                    assert_eq!(answer, Err(InitError::Overlap), "{len_bytes} bytes at {start}");
                    assert!(untouched == buffer.bytes(), "a refused region changed bytes");
                }
            }
        }
        let between = allocator.add_region(buffer.region(first.end, second.start - first.end)).expect("of no other");
        assert_eq!(allocator.check(), Ok(()));
        assert!(allocator.remove_region(id).is_ok() && allocator.remove_region(between).is_ok());
        assert!(
            allocator.add_region(buffer.region(second.start + 7, 500)).is_ok(),
            "what was removed is free to be added"
        );
    }
}

/// A region below the first is accepted if the tags are whole machine words, and refused as out of reach otherwise.
pub fn region_below() {
    let buffer = Buffer::new(ALL_BYTES);
    // SAFETY: heap and region end with this function, before the buffer.
    let (mut allocator, below) = unsafe {
        let heap: Subject = buffer.heap(PLACE_BYTES, FIRST_BYTES).expect("large enough");
        (heap, buffer.region(0, PLACE_BYTES))
    };
    let untouched = buffer.save();
    let max_span_bytes = facts().max_span_bytes;
    match allocator.add_region(below) {
        Ok(id) => {
            assert_eq!(max_span_bytes, usize::MAX, "a region below the first one is beyond narrow tags");
            assert_eq!(allocator.check(), Ok(()));
            let mut blocks = Vec::new();
            while let Ok(block) = allocator.allocate_bytes(100, 1) {
                // SAFETY: the block is live.
                unsafe { block.write_bytes(0x11, allocator.usable_size(block)) };
                blocks.push(block);
            }
            let inside = buffer.start()..buffer.start() + PLACE_BYTES;
            assert!(blocks.iter().any(|block| inside.contains(&block.addr().get())), "the region serves nothing");
            assert_eq!(allocator.check(), Ok(()));
            reports();
            for block in blocks {
                // SAFETY: the block is live.
                unsafe { allocator.deallocate(block) };
            }
            assert_eq!(reports(), [], "a correct free was reported");
            assert_eq!(allocator.check(), Ok(()));
            assert!(allocator.remove_region(id).is_ok());
        }
        Err(error) => {
            assert_eq!(error, InitError::OutOfReach { max_span_bytes });
            assert!(untouched == buffer.bytes());
        }
    }
}

/// One step of a heap with changing regions.
#[derive(Clone, Copy, Debug)]
enum Step {
    Heap(Op),
    Add(usize),
    Remove(usize),
}

/// For any sequence of operations, additions and removals, the heap keeps the contract, and a region can be removed if
/// and only if no block in it is live.
pub fn any_sequence() {
    let buffer = Buffer::new(ALL_BYTES);
    let step = prop_oneof![
        8 => ops::op().prop_map(Step::Heap),
        1 => (0..PLACES).prop_map(Step::Add),
        1 => (0..PLACES).prop_map(Step::Remove),
    ];
    holds(96, prop::collection::vec(step, 1..160), |steps| {
        let mut shadow = Shadow::new(&buffer, FIRST_BYTES, 1);
        let mut ids = [None; PLACES];
        for step in steps {
            match step {
                Step::Heap(op) => shadow.apply(&op),
                Step::Add(number) if ids[number].is_none() => {
                    ids[number] = Some(add(&mut shadow, number).expect("a region in reach"));
                }
                Step::Remove(number) => {
                    if let Some(id) = ids[number] {
                        let expected = if is_used(&shadow, number) { Err(RemoveError::InUse) } else { Ok(()) };
                        assert_eq!(remove(&mut shadow, number, id), expected);
                        if expected.is_ok() {
                            ids[number] = None;
                        }
                    }
                }
                Step::Add(_) => {}
            }
            shadow.audit();
        }
        shadow.finish();
    });
}
