//! White-box tests: every step of the owner interrupted by a reader, a writer or a free; the cost of pins; steps.

extern crate std;
use super::*;
use crate::compact_fit::Geometric;
use crate::concurrent::atomics::{Listener, Step, WithListener};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::{vec, vec::Vec};

/// Pages of 1 KiB; 32 page-blocks of the smallest class.
type Ladder = Geometric<1024, 32, 8>;
type Heap<const IOTA: usize = 64> = SharedCompactFit<'static, IOTA, Ladder, WithListener<Count>>;
type User<'h, const IOTA: usize> = CompactFitSlot<'h, 'static, IOTA, Ladder, WithListener<Count>>;
/// An action before a step.
type Event = (usize, Box<dyn FnOnce()>);

const NO_STEPS: Steps = Steps { read_modify_writes: 0, loads: 0, stores: 0 };

std::thread_local! {
    static STEPS: Cell<Steps> = const { Cell::new(NO_STEPS) };
    /// The number of a step, and the action before it.
    static EVENT: RefCell<Option<Event>> = const { RefCell::new(None) };
}

/// Counts steps, and interrupts one.
#[derive(Clone, Copy, Default)]
struct Count;

// SAFETY: a panic fails the test, and the heap is not used after it.
unsafe impl Listener for Count {
    fn before(step: Step) {
        let due = EVENT.with_borrow_mut(|event| event.take_if(|(at, _)| *at == STEPS.get().total()));
        if let Some((_, act)) = due {
            let mine = STEPS.get();
            act();
            STEPS.set(mine);
        }
        let mut steps = STEPS.get();
        match step {
            Step::Load => steps.loads += 1,
            Step::Store => steps.stores += 1,
            Step::Modify(_) | Step::CompareExchange => steps.read_modify_writes += 1,
        }
        STEPS.set(steps);
    }
}

/// Runs an operation that must end within `most` steps.
fn within<R>(most: Steps, operation: impl FnOnce() -> R) -> R {
    STEPS.set(NO_STEPS);
    let answer = operation();
    assert!(STEPS.get().within(most), "{:?} of {most:?}", STEPS.get());
    answer
}

/// A heap with `pages` pages for each slot, in memory that is never freed.
fn heap<const IOTA: usize>(slots: usize, pages: usize, config: SharedCompactFitConfig) -> Heap<IOTA> {
    let config = SharedCompactFitConfig { slots, ..config };
    let bytes = Heap::<IOTA>::region_bytes(slots, config.objects, pages);
    let heap = Heap::new(vec![0xA5_u8; bytes].leak(), config).unwrap();
    // SAFETY: there is at least one slot.
    assert!(unsafe { (*heap.instance(0).pool()).room } as usize >= pages);
    heap
}

fn stamp<const IOTA: usize>(heap: &Heap<IOTA>, handle: Handle, value: u8) {
    let guard = heap.pin(handle).unwrap();
    guard.write(0, &vec![value; guard.size_bytes()]).unwrap();
}

#[track_caller]
fn holds<const IOTA: usize>(heap: &Heap<IOTA>, handle: Handle, value: u8) {
    let guard = heap.pin(handle).unwrap();
    let mut bytes = vec![0; guard.size_bytes()];
    guard.read(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == value), "{value} in {bytes:?}");
}

fn place<const IOTA: usize>(heap: &Heap<IOTA>, handle: Handle) -> usize {
    heap.pin(handle).unwrap().as_ptr().addr().get()
}

/// Not-full pages of the class for a size.
fn not_full<const IOTA: usize>(user: &User<'_, IOTA>, size_bytes: usize) -> usize {
    // SAFETY: the size belongs to a class.
    unsafe {
        (*user.instance.record(<Ladder as crate::compact_fit::Ladder>::class_of(size_bytes + BACK_BYTES))).not_full
            as usize
    }
}

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

#[test]
fn an_object_comes_and_goes() {
    let mut heap = heap::<64>(2, 4, SharedCompactFitConfig::default());
    {
        let mut user = heap.claim(0).unwrap();
        assert!(heap.claim(0).is_none() && heap.claim(2).is_none());
        let handle = user.allocate(100).unwrap();
        let guard = heap.pin(handle).unwrap();
        assert_eq!(guard.size_bytes(), 100);
        guard.write(97, b"end").unwrap();
        assert_eq!(guard.write(98, b"end"), Err(crate::contract::AccessError::OutOfBounds { size_bytes: 100 }));
        assert!(guard.read(usize::MAX, &mut [0]).is_err() && guard.read(100, &mut []).is_ok());
        let mut bytes = [0; 6];
        guard.write(93, &[1, 2, 3]).unwrap();
        guard.read(93, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, bytes[3], b'e', b'n']);
        drop(guard);
        assert_eq!(user.deallocate(handle), Ok(()));
        assert_eq!(user.deallocate(handle), Err(HandleError::Stale));
        assert_eq!(heap.pin(handle).unwrap_err(), PinError::Handle(HandleError::Stale));
        let foreign = Handle::new(handle.address(), NonZeroU32::new(7).unwrap());
        assert_eq!(heap.pin(foreign).unwrap_err(), PinError::Handle(HandleError::Foreign));
        let beyond = Handle::new(2 * 1024, NonZeroU32::MIN);
        assert_eq!(heap.pin(beyond).unwrap_err(), PinError::Handle(HandleError::Foreign));
        assert_eq!(user.allocate(0), Err(SharedError::Request(AllocError::ZeroSize)));
        assert_eq!(user.allocate(1021), Err(SharedError::Request(AllocError::TooLarge)));
        assert_eq!(heap.refusals().request, 2);
    }
    assert_eq!(heap.check(), Ok(()));
    assert!(heap.claim(0).is_some());
}

#[test]
fn region_bytes_is_exact() {
    let config = SharedCompactFitConfig { slots: 3, objects: 5, ..Default::default() };
    let needed = Heap::<64>::region_bytes(3, 5, 1);
    let memory = vec![0_u8; needed + 64].leak();
    for start in [0, 1, 8, 63] {
        // SAFETY: the memory is this test's own, and earlier heaps in it are no longer used.
        let region = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().add(start), needed) };
        let mut heap = Heap::<64>::new(region, config).unwrap();
        assert_eq!(heap.check(), Ok(()));
        for slot in 0..3 {
            let mut user = heap.claim(slot).unwrap();
            // One page of the largest class.
            assert!(user.allocate(1020).is_ok());
            assert_eq!(user.allocate(1), Err(SharedError::Exhausted));
        }
    }
    let short = Heap::<64>::new(vec![0; 600].leak(), config).unwrap_err();
    assert_eq!(short, InitError::TooSmall { needed_bytes: needed });
    let none = SharedCompactFitConfig { slots: 0, ..config };
    assert!(matches!(Heap::<64>::new(vec![0; needed].leak(), none), Err(InitError::Configuration { .. })));
}

/// Two pages, one of them full; a free there makes compaction pending. Objects hold their indices.
fn with_pending_compaction<const IOTA: usize>(
    test: impl FnOnce(&'static Heap<IOTA>, &mut User<'static, IOTA>, Vec<Handle>),
) {
    let heap: &'static Heap<IOTA> = Box::leak(Box::new(heap(2, 5, SharedCompactFitConfig::default())));
    let mut user = heap.claim(0).unwrap();
    let handles: Vec<_> = (0..8).map(|_| user.allocate(200).unwrap()).collect();
    handles.iter().zip(0..).for_each(|(&handle, index)| stamp(heap, handle, index));
    user.deallocate(handles[6]).unwrap();
    assert!(!user.has_pending_compaction());
    test(heap, &mut user, handles);
    // SAFETY: the heap was leaked by this function, and `user` is no longer used.
    let heap = unsafe { &mut *core::ptr::from_ref(heap).cast_mut() };
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn a_pinned_object_stays_and_others_are_moved() {
    with_pending_compaction::<16>(|heap, user, handles| {
        let guards = [4, 5].map(|index| heap.pin(handles[index]).unwrap());
        let before: Vec<_> = [4, 5, 7].map(|index| place(heap, handles[index])).to_vec();
        // An object of the first page is chosen, and its new place in the second one is reserved.
        user.deallocate(handles[2]).unwrap();
        assert_eq!((user.compact(10_000), user.has_pending_compaction()), (208 - 16, false));
        assert_eq!(not_full(user, 200), 1);
        assert_eq!([4, 5].map(|index| place(heap, handles[index])), before[..2]);
        assert_ne!(place(heap, handles[7]), before[2], "the only unpinned one");
        drop(guards);
        for index in [0, 1, 3, 4, 5, 7] {
            holds(heap, handles[index], index as u8);
        }
    });
}

#[test]
fn where_all_objects_are_pinned_nothing_moves() {
    with_pending_compaction::<64>(|heap, user, handles| {
        let live = [0, 1, 3, 4, 5, 7];
        let guards: Vec<_> = live.iter().map(|&index| heap.pin(handles[index]).unwrap()).collect();
        user.deallocate(handles[2]).unwrap();
        assert_eq!((user.compact(10_000), not_full(user, 200), user.has_pending_compaction()), (0, 2, true));
        drop(guards);
        assert_eq!((user.compact(10_000), not_full(user, 200), user.has_pending_compaction()), (208, 1, false));
    });
}

/// A reader, a writer, or a free comes before each step of a whole compaction: it sees the object whole, no write is
/// lost.
#[test]
fn every_visitor_during_a_move_sees_the_object_whole() {
    let (mut given_up, mut committed) = (0, 0);
    for visitor in 0..3 {
        for at in 0.. {
            let came = Box::leak(Box::new(Cell::new(false)));
            with_pending_compaction::<16>(|heap, user, handles| {
                let victims: Vec<_> = [4, 5, 7].map(|index| handles[index]).to_vec();
                let before: Vec<_> = victims.iter().map(|&handle| place(heap, handle)).collect();
                user.deallocate(handles[2]).unwrap();
                let came: &'static Cell<bool> = came;
                let named = victims.clone();
                let act = move || {
                    came.set(true);
                    for (&handle, value) in named.iter().zip([4, 5, 7]) {
                        holds(heap, handle, value);
                        match visitor {
                            0 => {}
                            1 => stamp(heap, handle, value + 100),
                            _ => heap.claim(1).unwrap().deallocate(handle).unwrap(),
                        }
                    }
                };
                STEPS.set(NO_STEPS);
                EVENT.set(Some((at, Box::new(act))));
                user.compact(400);
                EVENT.take();
                user.compact(10_000);
                if visitor == 2 && came.get() {
                    assert_eq!(user.reclaim(10), 3);
                    user.compact(10_000);
                    assert!(victims.iter().all(|&handle| heap.pin(handle).is_err()));
                    assert_eq!(not_full(user, 200), 1);
                    return;
                }
                assert_eq!(not_full(user, 200), 1);
                let moved = victims.iter().zip(&before).position(|(&handle, &old)| place(heap, handle) != old);
                given_up += usize::from(moved != Some(0));
                committed += usize::from(moved == Some(0));
                for (&handle, value) in victims.iter().zip([4, 5, 7]) {
                    holds(heap, handle, if visitor == 1 && came.get() { value + 100 } else { value });
                }
            });
            if !came.get() {
                assert!(at > 100, "a compaction is more than {at} steps");
                break;
            }
        }
    }
    assert!(given_up > 100 && committed == 3, "{given_up}, {committed}");
}

#[test]
fn a_freed_object_that_is_pinned_keeps_its_memory() {
    let config = SharedCompactFitConfig { objects: 8, ..Default::default() };
    let mut heap = heap::<64>(2, 1, config);
    {
        let (mut mine, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let handle = mine.allocate(1000).unwrap();
        stamp(&heap, handle, 9);
        for frees_remotely in [false, true] {
            let handle = if frees_remotely { mine.allocate(1000).unwrap() } else { handle };
            let (first, second) = (heap.pin(handle).unwrap(), heap.pin(handle).unwrap());
            if frees_remotely {
                other.deallocate(handle).unwrap();
                assert_eq!(other.deallocate(handle), Err(HandleError::Stale));
            } else {
                mine.deallocate(handle).unwrap();
            }
            assert_eq!(mine.deallocate(handle), Err(HandleError::Stale));
            assert!(heap.pin(handle).is_err(), "no new pin");
            assert_eq!(mine.allocate(1000), Err(SharedError::Contended), "two still use it");
            drop(first);
            assert_eq!(mine.allocate(1000), Err(SharedError::Contended), "one still uses it");
            let mut byte = [0];
            second.read(999, &mut byte).unwrap();
            assert_eq!(byte, [9]);
            drop(second);
        }
        assert!(mine.allocate(1000).is_ok());
        assert_eq!(mine.allocate(1000), Err(SharedError::Exhausted));
        assert_eq!(heap.refusals(), Refusals { contended: 4, exhausted: 1, ..Refusals::default() });
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn remote_frees_are_taken_back_within_budgets() {
    let config = SharedCompactFitConfig { reclaim_budget: 1, reclaim_budget_on_miss: 2, ..Default::default() };
    let mut heap = heap::<64>(2, 1, config);
    {
        let (mut mine, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let handles: Vec<_> = (0..32).map(|_| mine.allocate(20).unwrap()).collect();
        handles.iter().for_each(|&handle| other.deallocate(handle).unwrap());
        // One, two; one, two; ... of 32 before the page is another class's.
        let pending = (0..).take_while(|_| mine.allocate(500) == Err(SharedError::Pending)).count();
        assert_eq!((pending, heap.refusals().pending), (10, 10));
        assert_eq!(other.allocate(100).map(|handle| mine.deallocate(handle)), Ok(Ok(())));
        assert_eq!((other.reclaim(5), other.reclaim(5)), (1, 0));
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn the_number_of_entries_limits_objects() {
    let config = SharedCompactFitConfig { objects: 4, ..Default::default() };
    let mut heap = heap::<64>(1, 3, config);
    {
        let mut user = heap.claim(0).unwrap();
        let handles: Vec<_> = (0..4).map(|_| user.allocate(20).unwrap()).collect();
        assert_eq!(user.allocate(20), Err(SharedError::Exhausted));
        user.deallocate(handles[3]).unwrap();
        let again = user.allocate(20).unwrap();
        assert_eq!(again.address(), handles[3].address());
        assert_ne!(again, handles[3]);
    }
    assert_eq!(heap.check(), Ok(()));
}

/// Over pseudo-random histories of two slots, two classes and pins: bounds on not-full pages and steps, and content.
#[test]
fn not_full_pages_are_at_most_those_allowed_and_those_with_pins() {
    let (mut blocked, mut longest) = (0, NO_STEPS);
    for seed in 1..=6 {
        let k = 1 + seed as u32 % 3;
        let config = SharedCompactFitConfig {
            objects: 256,
            not_full: CompactFitConfig::with_max_not_full(k),
            ..Default::default()
        };
        let mut heap = heap::<32>(2, 60, config);
        let mut next = random(seed);
        {
            let mut users = [heap.claim(0).unwrap(), heap.claim(1).unwrap()];
            let mut live: Vec<(Handle, usize, u8)> = Vec::new();
            let mut guards: BTreeMap<Handle, (Guard<'_, WithListener<Count>>, usize)> = BTreeMap::new();
            for round in 0..4000 {
                let who = next(2);
                match next(20) {
                    0..10 if round / 300 % 2 == 0 || live.len() < 20 => {
                        let value = next(250) as u8;
                        let bytes = [140, 300][next(2)];
                        let most = heap.max_steps(Operation::Allocate);
                        if let Ok(handle) = within(most, || users[who].allocate(bytes)) {
                            stamp(&heap, handle, value);
                            live.push((handle, bytes, value));
                        }
                    }
                    0..15 if !live.is_empty() => {
                        let (handle, _, value) = live.swap_remove(next(live.len()));
                        holds(&heap, handle, value);
                        within(heap.max_steps(Operation::Deallocate), || users[who].deallocate(handle)).unwrap();
                        assert_eq!(users[1 - who].deallocate(handle), Err(HandleError::Stale));
                    }
                    15..18 if !live.is_empty() => {
                        let (handle, bytes, _) = live[next(live.len())];
                        let pinned = within(heap.max_steps(Operation::Pin), || heap.pin(handle)).unwrap();
                        if let Some((old, _)) = guards.insert(handle, (pinned, bytes)) {
                            within(heap.max_steps(Operation::Unpin), || drop(old));
                        }
                    }
                    _ => {
                        while guards.len() > next(12) {
                            guards.pop_first();
                        }
                    }
                }
                longest = if STEPS.get().total() > longest.total() { STEPS.get() } else { longest };
                if next(60) == 0 {
                    for user in &mut users {
                        within(heap.max_steps(Operation::Reclaim { budget: 300 }), || user.reclaim(300));
                        user.compact(1 << 20);
                        for bytes in [140, 300] {
                            let pinned = guards.values().filter(|(_, size)| *size == bytes).count();
                            let not_full = not_full(user, bytes);
                            assert!(not_full <= k as usize + pinned, "{not_full} pages, {k} and {pinned} pins");
                            blocked += usize::from(not_full > k as usize);
                        }
                    }
                    for &(handle, _, value) in &live {
                        holds(&heap, handle, value);
                    }
                }
            }
            guards.clear();
            live.into_iter().for_each(|(handle, ..)| users[0].deallocate(handle).unwrap());
            for user in &mut users {
                user.reclaim(1000);
                // SAFETY: the instance is initialised.
                assert_eq!(unsafe { user.instance.free_pages() }, unsafe { (*user.instance.pool()).room });
            }
        }
        assert_eq!(heap.check(), Ok(()));
    }
    assert!(blocked > 10, "{blocked} times a pin cost a page");
    std::println!("at most {longest:?}");
}
