//! White-box tests: what the paper states about the non-moving variant, and the invariants of frames.

extern crate std;
use super::frames::Frame;
use super::*;
use crate::compact_fit::page;
use std::{vec, vec::Vec};

/// 1 KB pages of 32 blocks; classes of 1, 2, 3, ... frames.
type Small = crate::compact_fit::Geometric<1024, 32, 16>;
type Heap<'r> = CompactFitNonMoving<'r, Small, 32>;

fn always_compact() -> NonMovingConfig {
    NonMovingConfig::default()
}

fn memory(bytes: usize) -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::new(0xA5); bytes]
}

/// The numbers of an object's frames, in order.
fn frames_of(heap: &Heap<'_>, handle: Handle) -> Vec<Frame> {
    let base = heap.blocks().frames().base;
    let mut numbers = vec![];
    let mut offset = 0;
    while offset < heap.size(handle).unwrap() {
        let (address, len_bytes) = heap.locate(handle, offset).unwrap();
        numbers.push(((address.addr().get() - base) / 32) as Frame);
        offset += len_bytes;
    }
    numbers
}

/// The virtual page and the page-block of an object.
fn place_of(heap: &Heap<'_>, handle: Handle) -> (u32, usize) {
    let blocks = heap.blocks();
    // SAFETY: the object is live.
    unsafe {
        let (block, ..) = blocks.block_of(blocks.table_of(blocks.find(handle).unwrap()));
        ((*block.header).page, block.number)
    }
}

/// Fills an object with a pattern that depends on the seed.
fn fill(heap: &Heap<'_>, handle: Handle, seed: u8) {
    for offset in 0..heap.size(handle).unwrap() {
        let (address, _) = heap.locate_mut(handle, offset).unwrap();
        // SAFETY: the byte is the object's.
        unsafe { address.write(seed.wrapping_add((offset * 7) as u8)) };
    }
}

/// Whether the first bytes of an object still have the pattern.
fn holds(heap: &Heap<'_>, handle: Handle, seed: u8, bytes: usize) -> bool {
    (0..bytes).all(|offset| {
        // SAFETY: the byte was written.
        unsafe { heap.dereference(handle, offset).read() == seed.wrapping_add((offset * 7) as u8) }
    })
}

#[test]
fn a_page_is_divided_as_the_documentation_says() {
    type Default = Frames<DefaultLadder, 32>;
    assert_eq!((Default::PER_PAGE, Default::IN_PAGE), (512, 390));
    let header = Directory::<Framed<DefaultLadder, 32>, Own<DefaultLadder, 32, NoStats>>::HEADER;
    if size_of::<usize>() == 8 {
        assert_eq!(header, 96 + 2048);
    }
}

/// Figure 5: a page-block is contiguous in its virtual page, its frames are anywhere, and the block table maps them.
#[test]
fn frames_of_an_object_lie_anywhere() {
    let mut memory = memory(16 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let small: Vec<_> = (0..6).map(|_| heap.allocate(32).unwrap()).collect();
    for index in [1, 4, 2] {
        heap.free(small[index]).unwrap();
    }
    let freed = [2, 4, 1].map(|index: usize| small[index].address());
    let object = heap.allocate(96).unwrap();
    // The frames returned last are taken first.
    let frames = frames_of(&heap, object);
    assert_eq!(frames.iter().map(|&frame| Frames::<Small, 32>::entry_of(frame)).collect::<Vec<_>>(), freed);
    let blocks = heap.blocks();
    // SAFETY: the object is live.
    let table = unsafe { core::slice::from_raw_parts(blocks.table_of(object.address()), 3) };
    assert_eq!(table, frames);
    assert_eq!(heap.check(), Ok(()));
}

/// The frames of a freed object are one chain of the free list, even if the object was resized.
#[test]
fn frames_go_back_as_a_chain() {
    let mut memory = memory(32 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let objects: Vec<_> = [64, 160, 32, 96].map(|size| heap.allocate(size).unwrap()).into();
    let gap = frames_of(&heap, objects[2])[0];
    heap.free(objects[2]).unwrap();
    heap.resize(objects[0], 128).unwrap();
    heap.resize(objects[1], 70).unwrap();
    let mut free = frames_of(&heap, objects[0]);
    assert_eq!(free[2], gap);
    free.extend(frames_of(&heap, objects[1]));
    heap.free(objects[1]).unwrap();
    heap.free(objects[0]).unwrap();
    let mut listed = vec![];
    // SAFETY: the frames belong to the heap.
    unsafe { heap.blocks().frames().walk_free(&mut |frame| listed.push(frame)) };
    assert_eq!(listed[..7], free);
    assert_eq!((listed.len(), heap.check()), (9, Ok(())));
}

/// Implicit references: the abstract address is the ordinal of the first frame, and leads to the object wherever its
/// table entries are moved.
#[test]
fn the_first_frame_is_the_abstract_address() {
    let mut memory = memory(32 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    for size in [1, 32, 33, 64, 96, 500, 1024] {
        let object = heap.allocate(size).unwrap();
        let first = frames_of(&heap, object)[0];
        assert_eq!(Frames::<Small, 32>::entry_of(first), object.address());
        assert!(heap.blocks().frames().is_frame(first) && heap.blocks().frames().has_entry(object.address()));
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn entries_and_frames_follow_from_each_other() {
    fn follow<L: Ladder, const FRAME: usize>() {
        let mut frames = Frames::<L, FRAME>::plan(1 << 20).unwrap();
        frames.list.fresh = (3 * Frames::<L, FRAME>::PER_PAGE) as u32;
        let mut entries = 0;
        for frame in frames.frames_ever() {
            let entry = Frames::<L, FRAME>::entry_of(frame);
            assert!(frames.has_entry(entry) && frames.is_frame(frame));
            // The data of an entry is before the frames of its own page.
            let page = (1 << 20) + (frame as usize / Frames::<L, FRAME>::PER_PAGE) * L::PAGE;
            let first = page + (Frames::<L, FRAME>::PER_PAGE - Frames::<L, FRAME>::IN_PAGE) * FRAME;
            for end in
                [frames.link(entry).addr() + 4, frames.generation(entry).addr() + 4, frames.size(entry).addr() + 2]
            {
                assert!(page < end && end <= first);
            }
            entries += 1;
        }
        assert_eq!(entries, 3 * Frames::<L, FRAME>::IN_PAGE);
        let named = (0..(4 * L::PAGE / 4) as u32).filter(|&entry| frames.has_entry(entry)).count();
        assert_eq!(named, entries, "no other number is an entry");
    }
    follow::<Small, 32>();
    follow::<Small, 16>();
    follow::<Small, 256>();
    follow::<DefaultLadder, 32>();
    follow::<DefaultLadder, 128>();
}

/// Page-block sizes are multiples of the block size: a page of 1 KB holds 10 objects of 3 frames, and the rest of its
/// table is page-internal fragmentation.
#[test]
fn sizes_are_rounded_up_to_frames() {
    let mut memory = memory(32 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let objects: Vec<_> = (0..10).map(|index| heap.allocate(65 + 3 * index).unwrap()).collect();
    assert!(objects.iter().all(|&object| place_of(&heap, object).0 == 0));
    let requested: usize = (0..10).map(|index| 65 + 3 * index).sum();
    let whole =
        Fragmentation { block_internal_bytes: 960 - requested, page_internal_bytes: 2 * 4, size_external_bytes: 0 };
    assert_eq!(heap.fragmentation(), whole);
    let other = heap.allocate(96).unwrap();
    assert_eq!(place_of(&heap, other), (1, 0));
    assert_eq!(heap.fragmentation().size_external_bytes, 9 * 3 * 4, "free page-blocks are words, not memory");
}

/// Rule 2 moves table entries: the object keeps its frames, its bytes and its handle.
#[test]
fn compaction_moves_table_entries_only() {
    let mut memory = memory(32 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let objects: Vec<_> = (0..11).map(|_| heap.allocate(96).unwrap()).collect();
    let last = objects[10];
    assert_eq!((place_of(&heap, objects[4]), place_of(&heap, last)), ((0, 4), (1, 0)));
    fill(&heap, last, 9);
    let frames = frames_of(&heap, last);
    heap.free(objects[4]).unwrap();
    assert_eq!(place_of(&heap, last), (0, 4));
    assert_eq!(frames_of(&heap, last), frames);
    assert!(holds(&heap, last, 9, 96));
    // The page that it left is available to any class.
    let other = heap.allocate(500).unwrap();
    assert_eq!(place_of(&heap, other).0, 1);
    assert_eq!((heap.pending_bytes(), heap.compact(usize::MAX), heap.check()), (0, 0, Ok(())));
}

#[test]
fn two_not_full_pages_may_be_left_alone() {
    let mut memory = memory(32 * 1024);
    let config = CompactFitConfig::with_max_not_full(2).into();
    let mut heap = Heap::new(&mut memory, config).unwrap();
    let objects: Vec<_> = (0..21).map(|_| heap.allocate(96).unwrap()).collect();
    heap.free(objects[4]).unwrap();
    assert_eq!(place_of(&heap, objects[20]), (2, 0), "nothing moved");
    heap.free(objects[14]).unwrap();
    assert_eq!(place_of(&heap, objects[20]), (1, 4));
    assert_eq!(heap.check(), Ok(()));
}

/// A resized object keeps its first frame, so its handle remains valid, and no byte is copied.
#[test]
fn resizing_keeps_the_frames() {
    let mut memory = memory(32 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let neighbours: Vec<_> = (0..3).map(|_| heap.allocate(64).unwrap()).collect();
    let object = heap.allocate(64).unwrap();
    fill(&heap, object, 1);
    let two = frames_of(&heap, object);
    heap.resize(object, 200).unwrap();
    assert_eq!((heap.size(object), &frames_of(&heap, object)[..2]), (Ok(200), &two[..]));
    assert!(holds(&heap, object, 1, 64));
    let taken = heap.blocks().frames().taken;
    heap.resize(object, 10).unwrap();
    assert_eq!((frames_of(&heap, object), heap.blocks().frames().taken), (vec![two[0]], taken - 6));
    assert!(holds(&heap, object, 1, 10));
    heap.resize(object, 32).unwrap();
    assert_eq!((heap.size(object), heap.check()), (Ok(32), Ok(())));
    assert_eq!(heap.resize(object, 0), Err(ResizeError::Refused(AllocError::ZeroSize)));
    assert_eq!(heap.resize(object, 1025), Err(ResizeError::Refused(AllocError::TooLarge)));
    neighbours.into_iter().chain([object]).for_each(|object| heap.free(object).unwrap());
    assert_eq!((heap.blocks().frames().taken, heap.check()), (0, Ok(())));
}

/// A refused resize changes nothing, whether pages or frames are missing.
#[test]
fn a_refused_resize_changes_nothing() {
    let mut memory = memory(8 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let object = heap.allocate(100).unwrap();
    let mut others = vec![];
    while let Ok(other) = heap.allocate(32) {
        others.push(other);
    }
    let state = |heap: &Heap<'_>| {
        let mut words = vec![];
        heap.fingerprint(&mut |word| words.push(word));
        words
    };
    let before = state(&heap);
    assert_eq!(heap.resize(object, 1000), Err(ResizeError::Refused(AllocError::Exhausted)));
    assert_eq!((state(&heap), heap.check()), (before, Ok(())));
}

#[test]
fn shrinking_keeps_the_place_where_no_virtual_page_is_left() {
    let mut memory = memory(Heap::region_bytes(1, 0));
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let object = heap.allocate(1000).unwrap();
    fill(&heap, object, 3);
    let (frames, place) = (frames_of(&heap, object), place_of(&heap, object));
    assert_eq!(heap.resize(object, 40), Ok(()));
    assert_eq!((heap.size(object), place_of(&heap, object), heap.check()), (Ok(40), place, Ok(())));
    assert_eq!(heap.resize(object, 1024), Ok(()));
    assert!(frames_of(&heap, object) == frames && holds(&heap, object, 3, 40));
    assert_eq!(heap.resize(object, 40), Ok(()));
    // All frames are returned.
    heap.free(object).unwrap();
    assert_eq!((heap.check(), heap.largest_allocatable()), (Ok(()), 1024));
}

#[test]
fn handles_of_freed_objects_are_stale() {
    let mut memory = memory(8 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let first = heap.allocate(40).unwrap();
    heap.free(first).unwrap();
    assert_eq!(heap.free(first), Err(HandleError::Stale));
    let second = heap.allocate(32).unwrap();
    let third = heap.allocate(32).unwrap();
    // The frames of the first object are used again, its own first frame with another generation.
    assert!([second, third].iter().any(|object| object.address() == first.address()));
    assert_eq!((heap.size(first), heap.size(second)), (Err(HandleError::Stale), Ok(32)));
    for (address, generation) in [
        (first.address(), 2),
        (first.address(), 5),
        (second.address(), 99),
        (first.address() + 2, 1),
        (u32::MAX, 1),
        ((Frames::<Small, 32>::IN_PAGE) as u32, 1),
    ] {
        let forged = Handle::new(address, NonZeroU32::new(generation).unwrap());
        assert_eq!(heap.free(forged), Err(HandleError::Foreign), "{forged:?}");
        assert_eq!(heap.locate(forged, 0), Err(AccessError::Handle(HandleError::Foreign)));
    }
    assert_eq!(heap.check(), Ok(()));
}

/// Generations never repeat: a frame whose entry has used all of them is not taken again.
#[test]
fn an_entry_that_is_used_up_is_retired() {
    let mut memory = memory(8 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let object = heap.allocate(64).unwrap();
    // SAFETY: the object is live.
    unsafe { heap.blocks().frames().generation(object.address()).write(USED_UP - 1) };
    let last = Handle::new(object.address(), NonZeroU32::new(USED_UP - 1).unwrap());
    heap.free(last).unwrap();
    assert_eq!((heap.free(last), heap.blocks().frames().taken), (Err(HandleError::Stale), 1));
    assert_eq!(heap.check(), Ok(()));
    let mut addresses = vec![];
    while let Ok(object) = heap.allocate(32) {
        addresses.push(object.address());
    }
    assert!(!addresses.contains(&last.address()));
    assert_eq!(heap.check(), Ok(()));
}

/// Pages and frames grow towards each other, and neither takes the room of the other.
#[test]
fn frames_and_pages_share_what_is_between_them() {
    let mut memory = memory(8 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let header = Directory::<Framed<Small, 32>, Own<Small, 32, NoStats>>::HEADER;
    let mut objects = vec![];
    // One object of every class in turn takes as many virtual pages as fit.
    for size in (32..=1024).step_by(32) {
        match heap.allocate(size) {
            Ok(object) => objects.push(object),
            Err(error) => assert_eq!(error, AllocError::Exhausted),
        }
        assert_eq!(heap.check(), Ok(()));
        let gap = heap.blocks().end_now() - heap.blocks().frames().reach();
        assert!(gap < 8 * 1024);
        let largest = heap.largest_allocatable();
        assert!(largest == 0 || heap.allocate(largest).map(|object| heap.free(object)).is_ok());
    }
    assert!(heap.blocks().end_now() - heap.blocks().frames().reach() < 1024 + header);
    objects.into_iter().for_each(|object| heap.free(object).unwrap());
    assert_eq!((heap.blocks().frames().taken, heap.check()), (0, Ok(())));
}

/// Room reserved for virtual pages remains theirs, however many frames were taken before.
#[test]
fn reserved_pages_are_kept_from_frames() {
    for (reserved_pages, classes_served) in [(0, 1), (8, 8)] {
        let mut memory = memory(16 * 1024);
        let config = NonMovingConfig { reserved_pages, ..NonMovingConfig::default() };
        let mut heap = Heap::new(&mut memory, config).unwrap();
        let mut objects = vec![];
        while let Ok(object) = heap.allocate(32) {
            objects.push(object);
        }
        let pages = objects.len().div_ceil(32);
        objects.into_iter().for_each(|object| heap.free(object).unwrap());
        let served = (1..=20).filter(|&class| heap.allocate(class * 32).is_ok()).count();
        assert!(served >= classes_served.max(pages), "{served} classes, {pages} pages");
        assert_eq!(heap.check(), Ok(()));
    }
}

#[test]
fn making_a_heap_writes_the_fixed_part_alone() {
    let mut memory = memory(64 * 1024);
    let heap = Heap::new(&mut memory, always_compact()).unwrap();
    let fixed = Directory::<Framed<Small, 32>, Own<Small, 32, NoStats>>::FIXED;
    let untouched = 64 * 1024 - fixed - align_of::<usize>();
    let _ = heap;
    // SAFETY: every byte was initialised.
    assert!(memory[..untouched].iter().all(|byte| unsafe { byte.assume_init() } == 0xA5));
}

#[test]
fn regions_of_any_place_and_size() {
    let mut memory = memory(16 * 1024);
    let needed_bytes = match Heap::new(&mut memory[..1], always_compact()) {
        Err(InitError::TooSmall { needed_bytes }) => needed_bytes,
        other => panic!("{other:?}"),
    };
    for shift in 0..64 {
        for len in [needed_bytes, needed_bytes + 1, needed_bytes + 777] {
            let mut heap = Heap::new(&mut memory[shift..shift + len], always_compact()).unwrap();
            let object = heap.allocate(1024).unwrap();
            fill(&heap, object, 3);
            assert_eq!((heap.check(), holds(&heap, object, 3, 1024)), (Ok(()), true));
        }
        assert!(Heap::new(&mut memory[shift..shift + needed_bytes - 64], always_compact()).is_err());
    }
}

/// Random sequences compared with a model: contents, sizes and stale handles. In the end, everything is freed.
#[test]
fn any_history() {
    for (seed, pages) in [(1, 1), (2, 2), (3, u32::MAX), (4, 1)] {
        let mut memory = memory(40 * 1024);
        let mut heap = Heap::new(&mut memory, CompactFitConfig::with_max_not_full(pages).into()).unwrap();
        let mut live: Vec<(Handle, u8, usize)> = vec![];
        let mut dead: Vec<Handle> = vec![];
        let mut state = seed * 0x9E37_79B9_u64;
        let mut random = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        for step in 0..3000 {
            let size = if random(4) == 0 { 1 + random(1024) } else { 1 + random(100) };
            match random(5) {
                0 | 1 => {
                    if let Ok(object) = heap.allocate(size) {
                        fill(&heap, object, step as u8);
                        live.push((object, step as u8, size));
                    }
                }
                2 | 3 if !live.is_empty() => {
                    let (object, seed, size) = live.swap_remove(random(live.len()));
                    assert!(holds(&heap, object, seed, size));
                    heap.free(object).unwrap();
                    dead.push(object);
                }
                _ if !live.is_empty() => {
                    let index = random(live.len());
                    let (object, seed, old_size) = live[index];
                    if heap.resize(object, size).is_ok() {
                        assert!(holds(&heap, object, seed, size.min(old_size)));
                        fill(&heap, object, seed);
                        live[index].2 = size;
                    }
                }
                _ => {}
            }
            if let Some(&object) = dead.last() {
                assert_eq!(heap.free(object), Err(HandleError::Stale));
            }
            if step % 16 == 0 {
                assert_eq!(heap.check(), Ok(()));
                let largest = heap.largest_allocatable();
                let more = (largest < 1024).then(|| heap.allocate(largest + 1));
                assert!(more.is_none_or(|answer| answer.is_err()), "the largest request is exact");
                if largest != 0 {
                    let object = heap.allocate(largest).unwrap();
                    heap.free(object).unwrap();
                }
                let mut seen = 0;
                heap.walk(&mut |object| {
                    let known = live.iter().find(|&&(handle, ..)| handle == object.handle).unwrap();
                    assert_eq!(known.2, object.size_bytes);
                    seen += 1;
                });
                assert_eq!(seen, live.len());
            }
        }
        assert!(live.iter().all(|&(object, seed, size)| holds(&heap, object, seed, size)));
        live.into_iter().for_each(|(object, ..)| heap.free(object).unwrap());
        assert_eq!((heap.blocks().frames().taken, heap.check()), (0, Ok(())));
        // SAFETY: the directory is initialised.
        let headers = unsafe { heap.blocks().directory.headers() };
        // SAFETY: the headers of pages that have been taken are initialised.
        assert!(headers.map(|header| unsafe { (*header).state.class }).all(|class| class == page::FREE));
    }
}

#[test]
fn damage_is_found() {
    let mut memory = memory(16 * 1024);
    let mut heap = Heap::new(&mut memory, always_compact()).unwrap();
    let objects: Vec<_> = (0..12).map(|index| heap.allocate(30 + 20 * index).unwrap()).collect();
    heap.free(objects[2]).unwrap();
    heap.free(objects[7]).unwrap();
    let frames = heap.blocks().frames();
    // The frames of the object that was freed last precede others in the list.
    let (object, free) = (objects[3].address(), objects[7].address());
    // SAFETY: the words belong to the heap, and their values are restored.
    unsafe {
        let found = |word: *mut u32, value: u32| {
            let whole = word.read();
            word.write(value);
            let found = heap.check().map_err(|corruption| corruption.invariant);
            word.write(whole);
            found.unwrap_err()
        };
        let table = heap.blocks().table_of(object);
        let once = "a frame is free, used up, or of one object: each once";
        let first = "an object's first frame, and no other, has the generation of a live object";
        let listed = "the list of free frames leads to frames that begin no object, and ends";
        let chained = "an object's frames lead from one to the next";
        let pair = heap.blocks().table_of(objects[1].address());
        assert_eq!(found(pair.add(1), frames.list.returned), once);
        assert_eq!(found(pair.add(1), table.add(1).read()), once);
        assert_eq!(found(table.add(1), table.add(2).read()), chained);
        assert_eq!(found(table.add(2), frames.list.returned), chained);
        assert_eq!(found(table.add(1), table.read()), first);
        assert_eq!(found(table, table.add(1).read()), first);
        assert_eq!(found(table.add(1), 0), "a block of an object is a frame");
        assert_eq!(found(table.add(1), u32::MAX), "a block of an object is a frame");
        assert_eq!(found(frames.generation(object), 2), first);
        assert_eq!(found(frames.generation(free), 1), listed);
        assert_eq!(
            found(frames.link(object), frames.link(objects[4].address()).read()),
            "an object's entry leads to the start of its page-block"
        );
        assert_eq!(found(frames.link(free), u32::MAX), once);
        assert_eq!(found(frames.link(free), 0), listed);
        assert_eq!(found(frames.link(free), table.read()), listed);
        let size = frames.size(object).replace(u16::MAX);
        assert_eq!(heap.check().unwrap_err().invariant, "an object fits its page-block");
        frames.size(object).write(size);
        let taken = &raw mut (*heap.blocks().own()).frames.taken;
        assert_eq!(
            found(taken, taken.read() + 1),
            "the frames counted as taken are those of objects and those used up"
        );
        let fresh = &raw mut (*heap.blocks().own()).frames.list.fresh;
        for value in [fresh.read() + 1, fresh.read() - 1, u32::MAX, 0] {
            found(fresh, value);
        }
    }
    assert_eq!(heap.check(), Ok(()));
}
