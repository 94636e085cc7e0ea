//! Concurrent Compact-fit: readers, writers and freeing threads, against an owner that moves, frees and reuses memory.
//!
//! The bytes of objects are shared words, so a reader that is not ordered after the writer reads the earlier content.
//! In addition, each user of an object accesses its memory, a loom cell, so that premature reuse of memory is detected.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::compact_fit::Geometric;
use rtalloc::concurrent::atomics::{Atomics, Rmw, Word, reading};
use rtalloc::concurrent::compact_fit::{CompactFitSlot, Guard, Operation, SharedCompactFit};
use rtalloc::contract::Handle;
use rtalloc::{SharedCompactFitConfig, compact_fit::CompactFitConfig};
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Pages of 1 KiB, page-blocks of 16 bytes: 64 in a page.
type Ladder = Geometric<1024, 16, 8>;
/// A move takes one step.
type Heap<A> = SharedCompactFit<'static, 16, Ladder, A>;
type Hand<A> = CompactFitSlot<'static, 'static, 16, Ladder, A>;

/// Objects of a full page.
const PAGE: usize = 64;
/// Bytes of an object.
const BYTES: usize = 12;
const REGION_BYTES: usize = 0x4000;

/// Written to objects while threads share the heap.
const NEW: [u8; BYTES] = [200; BYTES];

/// Initial content of an object: the low byte of its handle.
fn old(handle: Handle) -> [u8; BYTES] {
    [handle.to_bits().get() as u8; BYTES]
}

/// A heap for two threads: slot 0 with some objects, and a second slot.
struct Set<A: Atomics> {
    heap: &'static Heap<A>,
    owner: Hand<A>,
    other: Hand<A>,
    handles: Vec<Handle>,
}

impl<A: Atomics> Set<A> {
    fn new(objects: usize) -> Self {
        let region = scene::region();
        // SAFETY: the scene has initialised the region.
        let region = unsafe { std::slice::from_raw_parts_mut(region.as_mut_ptr().cast::<u8>(), region.len()) };
        let not_full = CompactFitConfig::with_max_not_full(1);
        let config =
            SharedCompactFitConfig { slots: 2, objects: 72, reclaim_budget: 1, reclaim_budget_on_miss: 1, not_full };
        let heap: &'static Heap<A> =
            Box::leak(Box::new(Heap::new(region, config).expect("a region that is long enough")));
        let mut owner = heap.claim(0).expect("the slot is free");
        let other = heap.claim(1).expect("the slot is free");
        let handles: Vec<_> = (0..objects).map(|_| owner.allocate(BYTES).expect("room for some objects")).collect();
        for &handle in &handles {
            let guard = heap.pin(handle).expect("live");
            write(&guard, &old(handle));
            scene::write(guard.as_ptr(), BYTES);
        }
        scene::share();
        Set { heap, owner, other, handles }
    }

    /// After all threads have ended: the heap is intact.
    fn close(heap: &'static Heap<A>, owner: Hand<A>) {
        scene::gather();
        drop(owner);
        let heap: *mut Heap<A> = std::ptr::from_ref(heap).cast_mut();
        // SAFETY: the heap was leaked above, and no other reference exists.
        let mut heap = unsafe { Box::from_raw(heap) };
        heap.check().expect("an intact heap");
    }
}

/// Writes all bytes of an object.
fn write<A: Atomics>(guard: &Guard<'_, A>, bytes: &[u8; BYTES]) {
    guard.write(0, bytes).expect("inside");
}

fn read<A: Atomics>(guard: &Guard<'_, A>) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    guard.read(0, &mut bytes).expect("inside");
    bytes
}

fn pin<A: Atomics>(heap: &'static Heap<A>, handle: Handle) -> Option<Guard<'static, A>> {
    scene::measured(Some(heap.max_steps(Operation::Pin)), || heap.pin(handle).ok())
}

fn unpin<A: Atomics>(heap: &'static Heap<A>, guard: Guard<'static, A>) {
    scene::measured(Some(heap.max_steps(Operation::Unpin)), || drop(guard));
}

fn free<A: Atomics>(heap: &'static Heap<A>, hand: &mut Hand<A>, handle: Handle) {
    let most = heap.max_steps(Operation::Deallocate);
    scene::measured(Some(most), || hand.deallocate(handle).expect("a live object"));
}

/// Allocates an object, and writes its memory as its only user.
fn use_memory<A: Atomics>(heap: &'static Heap<A>, hand: &mut Hand<A>) {
    let most = heap.max_steps(Operation::Allocate);
    let handle = scene::measured(Some(most), || hand.allocate(BYTES).expect("there is room"));
    let guard = pin(heap, handle).expect("live");
    scene::write(guard.as_ptr(), BYTES);
    write(&guard, &NEW);
    unpin(heap, guard);
}

/// Allocates an object; if it has the place of a freed one, writes its memory before anything else orders the two.
fn use_place<A: Atomics>(heap: &'static Heap<A>, hand: &mut Hand<A>, before: Handle, place: NonNull<u8>) {
    let most = heap.max_steps(Operation::Allocate);
    let handle = scene::measured(Some(most), || hand.allocate(BYTES).expect("there is room"));
    // One object of a full page was freed; its entry is reused first.
    if handle.to_bits().get() as u32 == before.to_bits().get() as u32 {
        scene::write(place, BYTES);
    }
}

/// Reads an object if it is live, and verifies that it is unchanged; returns whether it was live.
fn visit<A: Atomics>(heap: &'static Heap<A>, handle: Handle) -> bool {
    let Some(guard) = pin(heap, handle) else { return false };
    assert_eq!(read(&guard), old(handle), "what a reader sees");
    scene::look(guard.as_ptr(), BYTES);
    unpin(heap, guard);
    true
}

/// The owner frees an object of the full page, so that the first of the other objects is moved there, and reuses the
/// freed memory.
fn move_one<A: Atomics>(heap: &'static Heap<A>, owner: &mut Hand<A>, full: Handle) {
    free(heap, owner, full);
    use_memory(heap, owner);
}

/// Readers against the mover: they read the object intact at either place, and its old place is not reused while they
/// read it there.
fn readers<A: Atomics, const READERS: usize>() {
    let Set { heap, mut owner, handles, other } = Set::<A>::new(PAGE + 2);
    let moved = handles[PAGE];
    let readers: [_; READERS] = std::array::from_fn(|_| loom::thread::spawn(move || assert!(visit(heap, moved))));
    move_one(heap, &mut owner, handles[3]);
    for reader in readers {
        reader.join().expect("the thread ends");
    }
    scene::gather();
    drop(other);
    assert!(visit(heap, moved));
    Set::close(heap, owner);
}

/// A writer against the mover: its writes are not lost.
fn writer<A: Atomics>() {
    let Set { heap, mut owner, handles, other } = Set::<A>::new(PAGE + 2);
    let moved = handles[PAGE];
    let writer = loom::thread::spawn(move || {
        let guard = pin(heap, moved).expect("live");
        scene::write(guard.as_ptr(), BYTES);
        write(&guard, &NEW);
        unpin(heap, guard);
    });
    move_one(heap, &mut owner, handles[3]);
    writer.join().expect("the thread ends");
    let guard = pin(heap, moved).expect("live");
    assert_eq!(read(&guard), NEW, "what was written");
    unpin(heap, guard);
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// Another slot frees the object that the owner moves.
fn remote_free<A: Atomics>() {
    let Set { heap, mut owner, handles, mut other } = Set::<A>::new(PAGE + 2);
    let moved = handles[PAGE];
    let freer = loom::thread::spawn(move || {
        assert!(visit(heap, moved));
        free(heap, &mut other, moved);
        other
    });
    move_one(heap, &mut owner, handles[3]);
    let other = freer.join().expect("the thread ends");
    assert!(pin(heap, moved).is_none(), "it was freed");
    use_memory(heap, &mut owner);
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// A reader against a thread that frees an object, and against its owner, which reuses the memory.
fn reader_and_freer<A: Atomics>() {
    let Set { heap, mut owner, handles, mut other } = Set::<A>::new(PAGE);
    let handle = handles[0];
    let place = heap.pin(handle).expect("live").as_ptr();
    let reader = loom::thread::spawn(move || visit(heap, handle));
    let freer = loom::thread::spawn(move || {
        free(heap, &mut other, handle);
        other
    });
    let most = heap.max_steps(Operation::Reclaim { budget: 1 });
    scene::measured(Some(most), || owner.reclaim(1));
    use_place(heap, &mut owner, handle, place);
    reader.join().expect("the thread ends");
    let other = freer.join().expect("the thread ends");
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// A reader against the owner, which frees the object and reuses its memory: immediately, or after the reader has
/// unpinned.
fn owner_frees<A: Atomics>() {
    let Set { heap, mut owner, handles, other } = Set::<A>::new(PAGE);
    let handle = handles[0];
    let place = heap.pin(handle).expect("live").as_ptr();
    let reader = loom::thread::spawn(move || visit(heap, handle));
    free(heap, &mut owner, handle);
    use_place(heap, &mut owner, handle, place);
    reader.join().expect("the thread ends");
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// Two threads free one object; exactly one succeeds.
fn both_free<A: Atomics>() {
    let Set { heap, mut owner, handles, mut other } = Set::<A>::new(2);
    let handle = handles[0];
    let most = Some(heap.max_steps(Operation::Deallocate));
    let freer = loom::thread::spawn(move || {
        let answer = scene::measured(most, || other.deallocate(handle));
        (answer, other)
    });
    let mine = scene::measured(most, || owner.deallocate(handle));
    let (theirs, other) = freer.join().expect("the thread ends");
    assert!(mine.is_ok() != theirs.is_ok(), "{mine:?}, {theirs:?}");
    use_memory(heap, &mut owner);
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// A thread pins an object that is about to be allocated, by a guessed handle: it is refused, or gets the object.
fn guessed_handle<A: Atomics>() {
    let Set { heap, mut owner, handles, other } = Set::<A>::new(1);
    let next = NonZeroU64::new((1 << 32) | ((handles[0].to_bits().get() & 0xFFFF_FFFF) + 1)).expect("a generation");
    let reader = loom::thread::spawn(move || {
        if let Some(guard) = pin(heap, Handle::from_bits(next)) {
            read(&guard);
            unpin(heap, guard);
        }
    });
    use_memory(heap, &mut owner);
    reader.join().expect("the thread ends");
    scene::gather();
    drop(other);
    Set::close(heap, owner);
}

/// Two threads own a slot one after the other, and use the same memory.
fn slot_is_adopted<A: Atomics>() {
    let Set { heap, owner, handles, other } = Set::<A>::new(0);
    assert!(handles.is_empty());
    let turn = move || {
        if let Some(mut hand) = heap.claim(0) {
            let handle = hand.allocate(BYTES).expect("there is room");
            let guard = pin(heap, handle).expect("live");
            scene::write(guard.as_ptr(), BYTES);
            unpin(heap, guard);
            free(heap, &mut hand, handle);
        }
    };
    drop(owner);
    let next = loom::thread::spawn(turn);
    turn();
    next.join().expect("the thread ends");
    scene::gather();
    drop(other);
    Set::close(heap, heap.claim(0).expect("the slot is free again"));
}

/// All models. Those of three threads with fewer preemptions.
pub fn models<A: Atomics>() -> Vec<Model> {
    let model = |name, execution| Model {
        name,
        region_bytes: REGION_BYTES,
        preemptions: None,
        stores_are_ordered: false,
        execution,
    };
    vec![
        model("owner frees", owner_frees::<A>),
        model("both free", both_free::<A>),
        model("guessed handle", guessed_handle::<A>),
        model("slot is adopted", slot_is_adopted::<A>),
        model("reader against mover", readers::<A, 1>),
        model("writer against mover", writer::<A>),
        model("remote free against mover", remote_free::<A>),
        model("reader and freer", reader_and_freer::<A>).fewer(3),
        model("two readers against mover", readers::<A, 2>).fewer(2),
    ]
}

/// Faults of the atomics that the models must detect.
pub mod faults {
    use super::*;

    /// The mover's compare-and-swap torn into a load and a store: at the beginning of a move, or at its commit.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct Torn<const BEGINS: bool>;
    /// A pin does not clear the mover's bit.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct NoAbort;

    /// The mover's bit of an entry's word.
    const MOVING: usize = 1 << (usize::BITS / 2 - 2);

    // SAFETY: an intentional fault; otherwise loom's atomics.
    unsafe impl<const BEGINS: bool> Atomics for Torn<BEGINS> {
        #[track_caller]
        unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::load(cell, order) }
        }

        #[track_caller]
        unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::store(cell, value, order) }
        }

        #[track_caller]
        unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::modify(cell, change, operand, order) }
        }

        #[track_caller]
        unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
            let marked = if BEGINS { new } else { current };
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe {
                if marked.widen() & MOVING == 0 {
                    return Loomed::compare_exchange(cell, current, new, order);
                }
                // An RMW that changes nothing reads the latest value.
                let old = Loomed::modify(cell, Rmw::Or, W::narrow(0), reading(order));
                if old != current {
                    return Err(old);
                }
                Loomed::store(cell, new, if order == Ordering::Acquire { Ordering::Relaxed } else { order });
            }
            Ok(current)
        }
    }

    // SAFETY: an intentional fault, `And` with `!MOVING` changes nothing; otherwise loom's atomics.
    unsafe impl Atomics for NoAbort {
        #[track_caller]
        unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::load(cell, order) }
        }

        #[track_caller]
        unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::store(cell, value, order) }
        }

        #[track_caller]
        unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
            let is_abort = change == Rmw::And && operand.widen() == !MOVING;
            let operand = if is_abort { W::narrow(usize::MAX) } else { operand };
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::modify(cell, change, operand, order) }
        }

        #[track_caller]
        unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
            // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
            unsafe { Loomed::compare_exchange(cell, current, new, order) }
        }
    }
}
