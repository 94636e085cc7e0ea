//! White-box tests.

extern crate std;

use super::super::ladder::Geometric;
use super::super::page::Record;
use super::*;
use std::collections::HashSet;
use std::vec::Vec;

/// Small pages, so that few objects fill a page, and few entries: 64.
type Small = Geometric<1024, 32, 16>;
/// The default ladder of 64-bit machines, independent of the machine word.
type Large = Geometric<16384, 32, 16>;
type Heap<'r, L = DefaultLadder, const IOTA: usize = AT_ONCE> = CompactFit<'r, L, NoStats, IOTA>;

/// Calls `test` with a heap of this many pages.
fn with_heap<L: Ladder, const IOTA: usize>(
    pages: usize,
    config: CompactFitConfig,
    test: impl FnOnce(&mut Heap<'_, L, IOTA>),
) {
    let mut memory = std::vec![MaybeUninit::new(0xC5_u8); Heap::<L, IOTA>::region_bytes(pages)];
    let mut heap = Heap::<L, IOTA>::new(&mut memory, config).unwrap();
    assert_eq!(heap.pages(), pages);
    test(&mut heap);
    assert_eq!(heap.check(), Ok(()));
}

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    }
}

fn fill<L: Ladder, const IOTA: usize>(heap: &Heap<'_, L, IOTA>, handle: Handle, from: usize, to: usize, stamp: u8) {
    if from < to {
        let (place, contiguous) = heap.locate_mut(handle, from).unwrap();
        assert!(contiguous >= to - from);
        // SAFETY: the object has this many bytes at its place.
        unsafe { place.write_bytes(stamp, to - from) };
    }
}

fn holds<L: Ladder, const IOTA: usize>(heap: &Heap<'_, L, IOTA>, handle: Handle, size: usize, stamp: u8) {
    let (place, contiguous) = heap.locate(handle, 0).unwrap();
    assert_eq!(contiguous, size);
    // SAFETY: the object was filled.
    let bytes = unsafe { core::slice::from_raw_parts(place.as_ptr(), size) };
    assert!(bytes.iter().all(|&byte| byte == stamp), "{handle:?}");
}

fn place<L: Ladder, const IOTA: usize>(heap: &Heap<'_, L, IOTA>, handle: Handle) -> usize {
    heap.locate(handle, 0).unwrap().0.addr().get()
}

fn state<L: Ladder, const IOTA: usize>(heap: &Heap<'_, L, IOTA>) -> Vec<usize> {
    let mut words = Vec::new();
    heap.fingerprint(&mut |word| words.push(word));
    words
}

fn record<'h, L: Ladder, const IOTA: usize>(heap: &'h Heap<'_, L, IOTA>, size: usize) -> &'h Record {
    // SAFETY: the heap is initialised, and the size has a class.
    unsafe { &*heap.directory().record(class_for::<L>(size)) }
}

fn free_pages<L: Ladder, const IOTA: usize>(heap: &Heap<'_, L, IOTA>) -> u32 {
    // SAFETY: the heap is initialised.
    unsafe { heap.directory().free_pages() }
}

/// Sequences of pseudo-random operations. Verifies every object's bytes and the invariants, that no handle is given
/// twice, and that no old one is accepted.
fn survives<L: Ladder, const IOTA: usize>(pages: usize, max_not_full: u32, largest: usize, seed: u64) {
    with_heap::<L, IOTA>(pages, CompactFitConfig::with_max_not_full(max_not_full), |heap| {
        let mut live: Vec<(Handle, usize, u8)> = Vec::new();
        let mut dead: HashSet<Handle> = HashSet::new();
        let mut next = random(seed);
        for round in 0..2000 {
            // Waves, so that classes fill and empty.
            let (choice, grows) = (next(10), round / 200 % 2 == 0);
            let size = if round % 16 == 0 { heap.largest_allocatable().max(1) } else { 1 + next(largest) };
            if (choice < 7) == grows {
                let before = state(heap);
                match heap.allocate(size) {
                    Ok(handle) => {
                        assert!(!dead.contains(&handle), "a handle was given again");
                        fill(heap, handle, 0, size, round as u8);
                        live.push((handle, size, round as u8));
                    }
                    Err(error) => {
                        assert_eq!(error == AllocError::Pending, heap.pending_bytes() != 0);
                        assert!(IOTA != AT_ONCE || state(heap) == before, "a refusal changes nothing");
                        assert!(IOTA != AT_ONCE || size > heap.largest_allocatable() || round % 16 != 0);
                    }
                }
            } else if live.is_empty() {
                continue;
            } else if choice == 7 {
                let index = next(live.len());
                let (handle, old, stamp) = live[index];
                match heap.resize(handle, size) {
                    Ok(()) => {
                        fill(heap, handle, old, size, stamp);
                        live[index].1 = size;
                    }
                    Err(_) => assert!(size > old, "an object can always shrink"),
                }
            } else {
                let (handle, size, stamp) = live.swap_remove(next(live.len()));
                holds(heap, handle, size, stamp);
                assert_eq!(heap.free(handle), Ok(()));
                assert_eq!(heap.free(handle), Err(HandleError::Stale));
                dead.insert(handle);
            }
            assert_eq!(heap.check(), Ok(()), "round {round}");
            if round % 16 == 0 {
                live.iter().for_each(|&(handle, size, stamp)| holds(heap, handle, size, stamp));
                assert!(dead.iter().all(|&handle| heap.size(handle).is_err()));
            }
        }
        let mut walked: Vec<_> = Vec::new();
        heap.walk(&mut |object| walked.push((object.handle, object.size_bytes)));
        let mut expected: Vec<_> = live.iter().map(|&(handle, size, _)| (handle, size)).collect();
        walked.sort_unstable();
        expected.sort_unstable();
        assert_eq!(walked, expected);
        for (handle, size, stamp) in live {
            holds(heap, handle, size, stamp);
            heap.free(handle).unwrap();
        }
        let pending = heap.pending_bytes();
        assert!(heap.compact(pending) <= pending);
        assert_eq!((heap.pending_bytes(), heap.fragmentation()), (0, Fragmentation::default()));
    });
}

#[test]
fn objects_keep_their_bytes_and_invariants_hold() {
    for (seed, largest) in [(1, 60), (2, 4000), (3, 16000)] {
        survives::<DefaultLadder, AT_ONCE>(12, 1, largest, seed);
        survives::<DefaultLadder, AT_ONCE>(12, 3, largest, seed);
        survives::<DefaultLadder, 16>(12, 1, largest, seed);
        survives::<DefaultLadder, 4096>(12, 2, largest, seed);
    }
    for (seed, largest) in [(4, 30), (5, 200), (6, 1000)] {
        survives::<Small, AT_ONCE>(20, 1, largest, seed);
        survives::<Small, AT_ONCE>(20, 2, largest, seed);
        survives::<Small, 32>(20, 1, largest, seed);
    }
    survives::<super::super::PaperLadder, AT_ONCE>(12, 1, 300, 7);
}

#[test]
fn a_heap_is_made_in_constant_time() {
    let touched = |bytes: usize| {
        let mut memory = std::vec![MaybeUninit::new(0xA5_u8); bytes];
        let start = memory.as_ptr().addr();
        let heap: Heap<'_> = CompactFit::new(&mut memory, Default::default()).unwrap();
        let fixed_end = heap.base.addr().get() - start;
        let fixed_start = fixed_end - At::<DefaultLadder, NoStats>::FIXED;
        // SAFETY: the memory was initialised.
        let is_untouched = |byte: &MaybeUninit<u8>| unsafe { byte.assume_init() } == 0xA5;
        assert!(memory[..fixed_start].iter().all(is_untouched));
        assert!(memory[fixed_end..].iter().all(is_untouched));
        fixed_end - fixed_start
    };
    assert_eq!(touched(64 << 10), touched(64 << 20));
    assert!(touched(64 << 10) < 1400);
}

#[test]
fn a_region_of_the_bytes_that_are_needed_has_the_pages_wherever_it_starts() {
    let bytes = Heap::<Small>::region_bytes(5);
    let mut memory = std::vec![MaybeUninit::new(0); bytes + 64];
    for offset in 0..64 {
        let heap = Heap::<Small>::new(&mut memory[offset..offset + bytes], Default::default()).unwrap();
        assert_eq!(heap.pages(), 5);
    }
    let needed = Heap::<Small>::new(&mut memory[..1000], Default::default()).unwrap_err();
    assert_eq!(needed, InitError::TooSmall { needed_bytes: Heap::<Small>::region_bytes(2) });
}

#[test]
fn rule_1_a_full_page_becomes_the_not_full_one() {
    with_heap::<Small, AT_ONCE>(8, Default::default(), |heap| {
        // Seven page-blocks of 144 bytes a page.
        let handles: Vec<_> = (0..14).map(|_| heap.allocate(140).unwrap()).collect();
        assert_eq!(record(heap, 140).not_full, 0);
        let places: Vec<_> = handles.iter().map(|&handle| place(heap, handle)).collect();
        heap.free(handles[3]).unwrap();
        assert_eq!(record(heap, 140).not_full, 1);
        assert!((0..14).filter(|&index| index != 3).all(|index| place(heap, handles[index]) == places[index]));
        // The next object of the class takes the gap.
        let handle = heap.allocate(140).unwrap();
        assert_eq!((place(heap, handle), record(heap, 140).not_full), (places[3], 0));
    });
}

#[test]
fn rule_2_an_object_of_the_not_full_page_moves_into_the_gap() {
    with_heap::<Small, AT_ONCE>(8, Default::default(), |heap| {
        let handles: Vec<_> = (0..9).map(|_| heap.allocate(140).unwrap()).collect();
        handles.iter().zip(0..).for_each(|(&handle, stamp)| fill(heap, handle, 0, 140, stamp));
        let places: Vec<_> = handles.iter().map(|&handle| place(heap, handle)).collect();
        let pages = free_pages(heap);
        heap.free(handles[2]).unwrap();
        // One of the two objects of the second page moved to the place of the freed one.
        assert_eq!(place(heap, handles[7]), places[2]);
        assert_eq!((place(heap, handles[8]), record(heap, 140).not_full), (places[8], 1));
        holds(heap, handles[7], 140, 7);
        heap.free(handles[0]).unwrap();
        // The second page had one object left, and is now in the pool.
        assert_eq!((place(heap, handles[8]), record(heap, 140).not_full), (places[0], 0));
        assert_eq!(free_pages(heap), pages + 1);
        holds(heap, handles[8], 140, 8);
    });
}

/// The page of an object.
fn page(heap: &Heap<'_, Small>, handle: Handle) -> usize {
    heap.directory().page_of(place(heap, handle))
}

/// The not-full pages of the class that serves `bytes`, in order, with the numbers of their used page-blocks.
fn ring(heap: &Heap<'_, Small>, bytes: usize) -> Vec<(usize, u16)> {
    let mut used = Vec::new();
    let head = core::ptr::from_ref(record(heap, bytes)).addr();
    // SAFETY: the heap is initialised; a record begins with its head.
    let _ = unsafe {
        heap.directory().check_ring(head, &mut |header| {
            used.push(((*header).page as usize, (*header).state.used));
            Ok(())
        })
    };
    used
}

#[test]
fn allocation_is_served_from_the_last_page_and_compaction_from_the_first() {
    with_heap::<Small, AT_ONCE>(12, CompactFitConfig::with_max_not_full(3), |heap| {
        let handles: Vec<_> = (0..28).map(|_| heap.allocate(140).unwrap()).collect();
        let pages: Vec<_> = (0..4).map(|index| page(heap, handles[7 * index])).collect();
        heap.free(handles[0]).unwrap();
        heap.free(handles[7]).unwrap();
        assert_eq!(ring(heap, 140), [(pages[0], 6), (pages[1], 6)], "more than half full: last");
        (1..4).for_each(|index| heap.free(handles[7 + index]).unwrap());
        assert_eq!(ring(heap, 140), [(pages[1], 3), (pages[0], 6)], "at most half full: first");
        heap.free(handles[14]).unwrap();
        assert_eq!(ring(heap, 140), [(pages[1], 3), (pages[0], 6), (pages[2], 6)]);
        // A fourth not-full page is not allowed: an object of the first one moves.
        heap.free(handles[21]).unwrap();
        assert_eq!(ring(heap, 140), [(pages[1], 2), (pages[0], 6), (pages[2], 6)]);
        assert_eq!(page(heap, handles[11]), pages[3]);
        let new = heap.allocate(140).unwrap();
        assert_eq!(page(heap, new), pages[2]);
        assert_eq!(ring(heap, 140), [(pages[1], 2), (pages[0], 6)]);
    });
}

/// With the order of section 3.4, Proposition 1 fails by one page (see `classes`): a free moves an object while n_f = 0
/// and max_nr_nf_pages = 2.
#[test]
fn proposition_1_fails_where_pages_are_ordered_by_half() {
    with_heap::<Small, AT_ONCE>(40, CompactFitConfig::with_max_not_full(2), |heap| {
        // Four page-blocks a page: [xxxx] [xxxx] [x...]
        let handles: Vec<_> = (0..9).map(|_| heap.allocate(230).unwrap()).collect();
        let pages = [page(heap, handles[0]), page(heap, handles[4]), page(heap, handles[8])];
        // n_f = 2:                      [xxxx] [x..x] [x...], and the half-full page is now the first
        heap.free(handles[5]).unwrap();
        heap.free(handles[6]).unwrap();
        // n_f = 0, but two not-full pages: [xxxx] [x..x] [xxx.]
        heap.allocate(230).unwrap();
        heap.allocate(230).unwrap();
        assert_eq!(ring(heap, 230), [(pages[1], 2), (pages[2], 3)]);
        heap.free(handles[0]).unwrap();
        assert_eq!(ring(heap, 230), [(pages[1], 1), (pages[2], 3)], "an object was moved to the first page");
    });
}

/// The variant of Proposition 1 that does hold (n_f and one more page), over pseudo-random sequences with 4 and with 7
/// page-blocks a page.
#[test]
fn no_compaction_while_few_frees_lack_an_allocation() {
    let mut compactions = 0;
    let mut beyond_the_paper = 0;
    for (most, bytes) in (1..6_u32).flat_map(|most| [(most, 140), (most, 230)]) {
        with_heap::<Small, AT_ONCE>(40, CompactFitConfig::with_max_not_full(most), |heap| {
            let mut next = random(most.into());
            let mut live: Vec<Handle> = Vec::new();
            // Deallocations for which no subsequent allocation was done (section 3.4).
            let mut frees = 0_u32;
            for round in 0..4000 {
                if next(10) < if round / 300 % 2 == 0 { 6 } else { 4 } {
                    if let Ok(handle) = heap.allocate(bytes) {
                        live.push(handle);
                        frees = frees.saturating_sub(1);
                    }
                } else if !live.is_empty() {
                    let handle = live.swap_remove(next(live.len()));
                    let before: Vec<_> = live.iter().map(|&handle| place(heap, handle)).collect();
                    heap.free(handle).unwrap();
                    let moved = live.iter().zip(before).filter(|&(&handle, old)| place(heap, handle) != old).count();
                    assert!(moved <= 1, "a free moves one object at the most");
                    assert!(moved == 0 || frees + 2 >= most, "Proposition 1, and a page");
                    compactions += moved;
                    frees += 1;
                }
                let not_full = record(heap, bytes).not_full;
                assert!(not_full <= frees + 2 && not_full <= most);
                beyond_the_paper += u32::from(not_full == frees + 2);
            }
        });
    }
    assert!(compactions > 100 && beyond_the_paper > 0, "{compactions}, {beyond_the_paper}");
}

#[test]
fn an_entry_without_generations_is_retired() {
    with_heap::<Small, AT_ONCE>(8, Default::default(), |heap| {
        let first = heap.allocate(100).unwrap();
        // SAFETY: the entry is live.
        unsafe { (*entry_at(heap.directory(), first.address())).generation = u32::MAX };
        let last = Handle::new(first.address(), core::num::NonZeroU32::MAX);
        assert_eq!((heap.size(first), heap.size(last)), (Err(HandleError::Stale), Ok(100)));
        heap.free(last).unwrap();
        assert_eq!((heap.check(), heap.free(last)), (Ok(()), Err(HandleError::Stale)));
        // It is not given again, and its page is not reclaimed.
        let others: Vec<_> = (0..63).map(|_| heap.allocate(10).unwrap()).collect();
        assert!(others.iter().all(|other| other.address() != first.address()));
        others.into_iter().for_each(|other| heap.free(other).unwrap());
        assert_eq!(heap.check(), Ok(()));
        // SAFETY: the heap is initialised.
        assert!(!unsafe { entries::take_back(heap.directory(), false) });
    });
}

#[test]
fn a_page_of_entries_comes_back_with_later_generations() {
    with_heap::<Small, AT_ONCE>(3, Default::default(), |heap| {
        let mut old = Vec::new();
        for round in 1..6 {
            let handle = heap.allocate(100).unwrap();
            assert!(!old.contains(&handle));
            assert!(old.iter().all(|&handle| heap.size(handle) == Err(HandleError::Stale)));
            heap.free(handle).unwrap();
            old.push(handle);
            assert_eq!(free_pages(heap), 2, "the page stays one of entries until it is needed");
            // SAFETY: the heap is initialised.
            assert!(unsafe { entries::take_back(heap.directory(), false) });
            assert_eq!((free_pages(heap), heap.check()), (3, Ok(())));
            assert_eq!((handle.generation(), heap.size(handle)), (round, Err(HandleError::Stale)));
        }
        let never = Handle::new(old[0].address(), core::num::NonZeroU32::new(6).unwrap());
        assert_eq!(heap.size(never), Err(HandleError::Foreign));
    });
}

#[test]
fn a_page_with_a_high_generation_is_not_reclaimed() {
    with_heap::<Small, AT_ONCE>(3, Default::default(), |heap| {
        for (generation, goes) in [((1 << 31) - 1, true), (1 << 31, false)] {
            let handle = heap.allocate(100).unwrap();
            // SAFETY: the entry is live.
            unsafe { (*entry_at(heap.directory(), handle.address())).generation = generation };
            heap.free(Handle::new(handle.address(), core::num::NonZeroU32::new(generation).unwrap())).unwrap();
            // SAFETY: the heap is initialised.
            assert_eq!(unsafe { entries::take_back(heap.directory(), false) }, goes);
            assert_eq!(heap.check(), Ok(()));
        }
    });
}

#[test]
fn a_page_of_entries_serves_objects_when_no_other_page_does() {
    with_heap::<Small, AT_ONCE>(5, Default::default(), |heap| {
        // Three pages of 32 objects each, and two of 64 entries.
        let handles: Vec<_> = core::iter::from_fn(|| heap.allocate(20).ok()).collect();
        assert_eq!((handles.len(), free_pages(heap)), (96, 0));
        handles.into_iter().for_each(|handle| heap.free(handle).unwrap());
        assert_eq!(free_pages(heap), 3);
        // All pages serve objects except one, which has the entries.
        let objects = core::iter::from_fn(|| heap.allocate(1020).ok()).count();
        assert_eq!((objects, heap.largest_allocatable()), (4, 0));
    });
}

#[test]
fn foreign_handles_name_nothing() {
    with_heap::<Small, AT_ONCE>(4, Default::default(), |heap| {
        let handle = heap.allocate(100).unwrap();
        let object = (place(heap, handle) - heap.base.addr().get()) as u32 / 16;
        let generation = core::num::NonZeroU32::new(1).unwrap();
        fill(heap, handle, 0, 100, 1);
        for address in [object, object + 1, handle.address() + 1, u32::MAX, 1 << 28, handle.address() + (1 << 28)] {
            assert_eq!(heap.size(Handle::new(address, generation)), Err(HandleError::Foreign), "{address:#x}");
        }
        let bits = core::num::NonZeroU64::new((handle.address() | 1).into()).unwrap();
        assert_eq!(heap.size(Handle::from_bits(bits)), Err(HandleError::Foreign), "generation 0");
        heap.free(handle).unwrap();
        let bits = core::num::NonZeroU64::new(u64::from(handle.address()) | 2 << 32).unwrap();
        assert_eq!(heap.size(Handle::from_bits(bits)), Err(HandleError::Foreign), "a generation to come");
    });
}

/// A heap with two full pages of 20 page-blocks of 800 bytes, one of which loses an object; a free in the other one
/// makes the class pending.
fn with_pending_compaction<const IOTA: usize>(test: impl FnOnce(&mut Heap<'_, Large, IOTA>, Vec<Handle>)) {
    with_heap::<Large, IOTA>(6, Default::default(), |heap| {
        let handles: Vec<_> = (0..40).map(|_| heap.allocate(790).unwrap()).collect();
        handles.iter().zip(0..).for_each(|(&handle, stamp)| fill(heap, handle, 0, 790, stamp));
        // The second page becomes not full; then the first one would be one too many.
        heap.free(handles[25]).unwrap();
        assert_eq!(heap.pending_bytes(), 0);
        test(heap, handles);
    });
}

#[test]
fn an_operation_moves_no_more_than_its_bytes() {
    with_pending_compaction::<64>(|heap, handles| {
        heap.free(handles[3]).unwrap();
        // An object of the first page of the ring, which is the second page, goes to the last: 64 of 800 bytes.
        assert_eq!((record(heap, 790).not_full, heap.pending_bytes()), (1, 800 - 64));
        let moving = handles[20];
        let before = place(heap, moving);
        for step in 2..13 {
            holds(heap, moving, 790, 20);
            heap.size(moving).unwrap();
            let small = heap.allocate(20).unwrap();
            assert_eq!((heap.pending_bytes(), place(heap, moving)), (800 - 64 * step, before));
            fill(heap, small, 0, 20, 1);
            assert_eq!(heap.check(), Ok(()));
        }
        assert_eq!((heap.compact(16), heap.pending_bytes()), (16, 16));
        assert_eq!((heap.compact(1000), heap.pending_bytes()), (16, 0));
        assert_ne!(place(heap, moving), before);
        holds(heap, moving, 790, 20);
    });
}

#[test]
fn an_object_that_is_written_begins_its_move_anew_and_another_is_taken() {
    with_pending_compaction::<64>(|heap, handles| {
        heap.free(handles[3]).unwrap();
        heap.compact(128);
        assert_eq!(heap.pending_bytes(), 800 - 192);
        fill(heap, handles[20], 0, 790, 77);
        assert_eq!(heap.pending_bytes(), 800);
        let (before, next) = (place(heap, handles[20]), place(heap, handles[21]));
        assert_eq!(heap.compact(800), 800);
        assert_eq!((heap.pending_bytes(), place(heap, handles[20])), (0, before), "it is not moved");
        assert_ne!(place(heap, handles[21]), next, "the next one is");
        holds(heap, handles[20], 790, 77);
        holds(heap, handles[21], 790, 21);
    });
}

#[test]
fn an_object_that_is_freed_or_resized_drops_its_move() {
    for is_freed in [true, false] {
        with_pending_compaction::<64>(|heap, handles| {
            heap.free(handles[3]).unwrap();
            heap.compact(64);
            if is_freed {
                heap.free(handles[20]).unwrap();
            } else {
                heap.resize(handles[20], 100).unwrap();
                holds(heap, handles[20], 100, 20);
            }
            assert_eq!(heap.check(), Ok(()));
            // The class has two gaps in one page and one in the other, and one not-full page too many.
            assert!(heap.pending_bytes() > 700);
            let pending = heap.pending_bytes();
            assert_eq!(heap.compact(pending), pending);
            assert_eq!((heap.pending_bytes(), record(heap, 790).not_full), (0, 1));
            for index in (0..40).filter(|index| ![3, 20, 25].contains(index)) {
                holds(heap, handles[index], 790, index as u8);
            }
        });
    }
}

/// The source page of a move becomes full, and another one not full: when the move is complete, there are two.
#[test]
fn pending_bytes_cover_the_gap_that_a_move_leaves_in_a_full_page() {
    with_heap::<Large, 16>(5, Default::default(), |heap| {
        let handles: Vec<_> = (0..6).map(|_| heap.allocate(8000).unwrap()).collect();
        heap.free(handles[0]).unwrap();
        heap.free(handles[2]).unwrap();
        heap.allocate(8000).unwrap();
        heap.free(handles[4]).unwrap();
        assert_eq!(record(heap, 8000).not_full, 1);
        let pending = heap.pending_bytes();
        assert!(pending > 8000, "the rest of one object and another one: {pending}");
        assert_eq!((heap.compact(pending), heap.pending_bytes()), (pending, 0));
    });
}

/// Over pseudo-random sequences with two classes: moving the pending bytes leaves nothing pending, and the number of
/// pending bytes decreases by at least the bytes moved.
#[test]
fn compacting_all_pending_bytes_leaves_nothing_pending() {
    let mut total = 0;
    for seed in 1..=12 {
        with_heap::<Small, 16>(40, CompactFitConfig::with_max_not_full(1 + seed as u32 % 3), |heap| {
            let mut next = random(seed);
            let mut live: Vec<Handle> = Vec::new();
            for round in 0..3000 {
                if next(10) < if round / 200 % 2 == 0 { 7 } else { 4 } {
                    live.extend(heap.allocate([140, 340][next(2)]));
                } else if !live.is_empty() {
                    let handle = live.swap_remove(next(live.len()));
                    heap.free(handle).unwrap();
                }
                if next(20) == 0 {
                    let mut pending = heap.pending_bytes();
                    while pending != 0 {
                        let moved = heap.compact(pending.min(16 + next(500)));
                        assert!(moved != 0 && heap.pending_bytes() <= pending - moved, "{moved} of {pending} moved");
                        (total, pending) = (total + moved, heap.pending_bytes());
                    }
                }
            }
        });
    }
    assert!(total > 10_000, "{total}");
}

#[test]
fn a_request_is_pending_until_memory_is_compacted() {
    with_heap::<Large, 16>(3, Default::default(), |heap| {
        let first = heap.allocate(8000).unwrap();
        let handles = [first, heap.allocate(8000).unwrap(), heap.allocate(8000).unwrap(), heap.allocate(8000).unwrap()];
        handles.iter().zip(0..).for_each(|(&handle, stamp)| fill(heap, handle, 0, 8000, stamp));
        assert_eq!(heap.allocate(8000), Err(AllocError::Exhausted));
        heap.free(handles[0]).unwrap();
        heap.free(handles[2]).unwrap();
        assert_eq!(heap.allocate(16000), Err(AllocError::Pending));
        assert!(heap.compact(heap.pending_bytes()) > 8000);
        assert!(heap.allocate(16000).is_ok());
        holds(heap, handles[1], 8000, 1);
        holds(heap, handles[3], 8000, 3);
    });
}

/// Flips every bit of the control structure, of the headers in use and of an entry, one at a time: `check` must stay
/// within the heap, and must report a wrong ring or count.
#[test]
fn damage_is_found_and_not_followed() {
    with_heap::<Small, 32>(12, CompactFitConfig::with_max_not_full(2), |heap| {
        let handles: Vec<_> = (0..70).map(|number| heap.allocate(20 + number % 3 * 60).unwrap()).collect();
        handles.iter().step_by(3).for_each(|&handle| heap.free(handle).unwrap());
        assert_eq!(heap.check(), Ok(()));
        let directory = heap.directory();
        let base = heap.base.addr().get();
        // SAFETY: the heap is initialised.
        let taken = unsafe { (*directory.pool()).list.fresh } as usize;
        let headers = directory.header(taken - 1).addr();
        let records = core::ptr::from_ref(record(heap, 20)).addr();
        let entry = base + 16 * handles[1].address() as usize;
        let mut found = 0;
        for address in (headers..base).chain(entry..entry + 16) {
            let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
            for bit in 0..8 {
                // SAFETY: the byte belongs to the heap, and its value is restored.
                let answer = unsafe {
                    let whole = byte.read();
                    byte.write(whole ^ 1 << bit);
                    let answer = heap.check();
                    byte.write(whole);
                    answer
                };
                let is_link = (records..records + offset_of!(Record, max_not_full)).contains(&address);
                let is_pointer = (entry..entry + size_of::<usize>()).contains(&address);
                assert!(answer.is_err() || !(is_link || is_pointer), "bit {bit} of byte {address:#x}");
                found += usize::from(answer.is_err());
            }
        }
        assert!(found > 2000, "{found}");
    });
}

#[test]
fn shrinking_keeps_the_place_where_no_page_is_left() {
    with_heap::<Small, AT_ONCE>(2, Default::default(), |heap| {
        let handle = heap.allocate(1000).unwrap();
        fill(heap, handle, 0, 1000, 9);
        let before = place(heap, handle);
        assert_eq!(heap.resize(handle, 10), Ok(()));
        assert_eq!((heap.size(handle), place(heap, handle)), (Ok(10), before));
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.resize(handle, 500), Ok(()));
        assert_eq!(heap.resize(handle, 1021), Err(ResizeError::Refused(AllocError::TooLarge)));
        assert_eq!(heap.resize(handle, 0), Err(ResizeError::Refused(AllocError::ZeroSize)));
        holds(heap, handle, 500, 9);
    });
}

#[test]
fn the_abstract_address_stays_and_leads_to_the_object() {
    with_heap::<Large, AT_ONCE>(4, Default::default(), |heap| {
        let handles: Vec<_> = (0..6).map(|_| heap.allocate(8000).unwrap()).collect();
        let abstract_address = heap.abstract_address(handles[5]).unwrap();
        // SAFETY: the place belongs to the heap, and the object is live.
        let leads_to = || unsafe { abstract_address.read() };
        let before = leads_to();
        assert_eq!(before, place(heap, handles[5]));
        // The page with two objects becomes not full, then another one: its gap is filled with the last object.
        heap.free(handles[4]).unwrap();
        heap.free(handles[0]).unwrap();
        assert_ne!(leads_to(), before, "the object was moved");
        assert_eq!(leads_to(), place(heap, handles[5]));
        assert_eq!(heap.abstract_address(handles[5]), Ok(abstract_address));
        assert_eq!(heap.abstract_address(handles[4]), Err(HandleError::Stale));
    });
}
