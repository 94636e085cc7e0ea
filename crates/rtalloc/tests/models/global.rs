//! A shared heap as the global allocator: who makes it, who has which slot, and what happens to a request that its slot
//! refuses.
//!
//! The models compile [`Global`] with its repetitions of refused requests, and [`ThreadSlots`] with its numbers, its
//! lock and its reservations. Not modelled: the thread-local variable with a thread's number, and the destructor that
//! releases it (a map, and a call at the end of each thread, replace them); and the first use of a
//! [`Memory`](rtalloc::adapt::Memory), since loom needs the words of a real heap before the threads start.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::adapt::threads::{Numbers, Threads, UNASKED, WORDS, end, own, reserve};
use rtalloc::adapt::{AnySlot, CurrentSlot, Global, Locked, ThreadSlots};
use rtalloc::concurrent::atomics::{Atomics, Rmw, Word, reading};
use rtalloc::contract::{InitError, SharedAllocator, SharedError, Slot};
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::word::Offset16;
use rtalloc::{PooledArenas, PooledArenasConfig, Tlsf};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Bytes before the heap's region: the numbers, then the `Global`.
const FRONT_BYTES: usize = 0x400;
const NUMBERS_BYTES: usize = 0x80;
const HEAP_BYTES: usize = crate::bytes(0x900, 0xD00);
const REGION_BYTES: usize = FRONT_BYTES + HEAP_BYTES;
/// A chunk has one such block.
const SIZE_BYTES: usize = 200;
/// Bytes that belong to each slot, in models without a heap.
const SLOT_BYTES: usize = 16;

/// loom's atomics; a thread that reads 1 in a word of 32 bits (a heap that is being made, a lock that is held) lets
/// others run before it reads again. If `TORN`, an intentional fault: RMWs that take are torn into a read and a write.
/// All its writes are swaps, since loom may lose a store (see [`reach`](crate::reach)).
#[derive(Clone, Copy, Debug, Default)]
struct Waiting<const TORN: bool>;

/// A read and a write in place of an RMW.
///
/// # Safety
///
/// As [`Atomics::load`].
#[track_caller]
unsafe fn torn<W: Word>(cell: *mut W, new: impl FnOnce(W) -> Option<W>, order: Ordering) -> Result<W, W> {
    // SAFETY: by this function's contract. An RMW that changes nothing reads the latest value.
    unsafe {
        let old = Loomed::modify(cell, Rmw::Or, W::narrow(0), reading(order));
        let Some(new) = new(old) else { return Err(old) };
        Loomed::modify(cell, Rmw::Swap, new, Ordering::Relaxed);
        Ok(old)
    }
}

// SAFETY: loom's atomics, but for the intentional fault.
unsafe impl<const TORN: bool> Atomics for Waiting<TORN> {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
        let word = unsafe { Loomed::load(cell, order) };
        if size_of::<W>() == 4 && word.widen() == 1 {
            loom::thread::yield_now();
        }
        word
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
        unsafe {
            if TORN {
                Loomed::modify(cell, Rmw::Swap, value, order);
                return;
            }
            Loomed::store(cell, value, order)
        }
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
        // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
        unsafe {
            if TORN && change == Rmw::Or {
                let new = |old: W| Some(W::narrow(old.widen() | operand.widen()));
                return torn(cell, new, order).unwrap_or_else(|old| old);
            }
            Loomed::modify(cell, change, operand, order)
        }
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        // SAFETY: the caller guarantees a valid cell, which this type accesses only through `Loomed`.
        unsafe {
            if TORN {
                return torn(cell, |old| (old == current).then_some(new), order);
            }
            Loomed::compare_exchange(cell, current, new, order)
        }
    }
}

thread_local! {
    /// The numbers of this execution; loom's threads all run on one thread of the operating system.
    static NUMBERS: Cell<usize> = const { Cell::new(0) };
    /// The number of each thread.
    static OWN: RefCell<HashMap<loom::thread::ThreadId, usize>> = RefCell::default();
}

/// loom's threads.
#[derive(Debug)]
struct LoomThreads<const TORN: bool>;

// SAFETY: the numbers are those that `start` made, and each thread has a place of its own in the map.
unsafe impl<const TORN: bool> Threads for LoomThreads<TORN> {
    type Atomics = Waiting<TORN>;

    fn numbers() -> &'static Numbers<WORDS, Waiting<TORN>> {
        // SAFETY: `start` wrote the numbers at this address, and the region is never freed.
        unsafe { &*std::ptr::with_exposed_provenance(NUMBERS.get()) }
    }

    fn own() -> usize {
        let me = loom::thread::current().id();
        OWN.with_borrow(|own| own.get(&me).copied().unwrap_or(UNASKED))
    }

    unsafe fn set_own(number: usize) {
        let me = loom::thread::current().id();
        OWN.with_borrow_mut(|own| own.insert(me, number));
    }

    fn end_at_exit() -> bool {
        true
    }
}

/// A number for each thread, given by the model: the caller's own slot, and no other.
struct Given;

// SAFETY: each model gives a number to one thread.
unsafe impl CurrentSlot for Given {
    const EXCLUSIVE: bool = true;

    fn hint(&self) -> usize {
        <LoomThreads<false> as Threads>::own()
    }

    fn own(&self, slots: usize) -> Option<usize> {
        Some(self.hint()).filter(|&number| number < slots)
    }
}

type Pooled = PooledArenas<'static, Tlsf<'static, 3, RoundUp, Offset16>, Loomed>;

/// A `Global` in a fresh region, without memory, and the region of its heap.
fn start<H: SharedAllocator<'static>, C: CurrentSlot, const TORN: bool>(
    current: C,
    config: Option<H::Config>,
) -> (&'static Global<H, C, Waiting<TORN>>, &'static mut [MaybeUninit<u8>]) {
    const { assert!(size_of::<Numbers<WORDS, Waiting<TORN>>>() <= NUMBERS_BYTES) }
    const { assert!(size_of::<Global<H, C, Waiting<TORN>>>() <= FRONT_BYTES - NUMBERS_BYTES) }
    OWN.with_borrow_mut(HashMap::clear);
    let (front, region) = scene::region().split_at_mut(FRONT_BYTES);
    let front = NonNull::from(front).cast::<u8>();
    NUMBERS.set(front.expose_provenance().get());
    // SAFETY: both are aligned, disjoint and in the front part, which is never freed.
    unsafe {
        front.cast().write(Numbers::<WORDS, Waiting<TORN>>::new());
        let global = front.add(NUMBERS_BYTES).cast::<Global<H, C, Waiting<TORN>>>();
        global.write(Global::without_memory_by(current, config));
        (global.as_ref(), region)
    }
}

/// A heap of a few chunks with so many slots.
fn config(slots: usize) -> Option<PooledArenasConfig> {
    Some(PooledArenasConfig { slots, chunk_bytes: 256, ..PooledArenasConfig::default() })
}

/// A heap whose only shared word is the state of its `Global`.
type Plain = Locked<'static, Tlsf<'static>, spin::Mutex<()>>;

/// Memory that a thread writes before it makes the heap.
fn note() -> NonNull<u8> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(NUMBERS.get())).expect("in the region")
}

/// A thread makes the heap; what it did before, happens before another uses the heap.
fn one_makes() {
    let (global, region) = start::<Plain, _, false>(AnySlot, None);
    scene::share();
    let other = loom::thread::spawn(move || {
        if global.heap().is_some() {
            scene::look(note(), 1);
        }
    });
    scene::write(note(), 1);
    assert!(global.init_in(region).is_ok(), "a region that is long enough");
    other.join().expect("the thread ends");
}

/// A thread fails to make the heap: the same for another that learns the reason.
fn one_fails() {
    let (global, region) = start::<Plain, _, false>(AnySlot, None);
    scene::share();
    let is_cause = |error| !matches!(error, InitError::Configuration { .. });
    let other = loom::thread::spawn(move || {
        if global.init().err().is_some_and(is_cause) {
            scene::look(note(), 1);
        }
    });
    scene::write(note(), 1);
    assert!(global.init_in(&mut region[..8]).err().is_some_and(is_cause), "a region that is too short");
    other.join().expect("the thread ends");
}

/// Two threads make the heap: one does.
fn both_make<const TORN: bool>() {
    let (global, region) = start::<Plain, _, TORN>(AnySlot, None);
    let (one, other) = region.split_at_mut(HEAP_BYTES / 2);
    scene::share();
    let other = loom::thread::spawn(move || global.init_in(other).is_ok());
    let is_mine = global.init_in(one).is_ok();
    let is_yours = other.join().expect("the thread ends");
    assert!(scene::is_void() || is_mine != is_yours, "two threads made the heap, or none");
}

/// Allocates all that there is, as one thread.
fn fill<C: CurrentSlot, const TORN: bool>(global: &Global<Pooled, C, Waiting<TORN>>) -> Vec<NonNull<u8>> {
    std::iter::from_fn(|| global.allocate_bytes(SIZE_BYTES, 1).ok()).collect()
}

/// Frees a block in its owner's thread.
fn free<C: CurrentSlot, const TORN: bool>(global: &Global<Pooled, C, Waiting<TORN>>, block: NonNull<u8>) {
    scene::disown(block, SIZE_BYTES);
    // SAFETY: the block is live, and this was its last use.
    unsafe { global.deallocate(block) }
}

/// So many threads share a heap with `SLOTS` slots, each allocates a block, frees it and ends. A slot has one thread at
/// a time, and in the end no memory and no number is lost. With one slot, every operation takes its lock; with more
/// slots than threads, none does.
fn threads_come_and_go<const SLOTS: usize, const THREADS: usize, const TORN: bool>() {
    let (global, region) = start::<Pooled, _, TORN>(ThreadSlots::<LoomThreads<TORN>>::of_threads(), config(SLOTS));
    global.init_in(region).expect("a region that is long enough");
    let all = fill(global);
    let fresh = all.len();
    assert!(fresh >= THREADS, "a block for each thread, not {fresh}");
    // SAFETY: the blocks are live, and no longer used.
    all.into_iter().for_each(|block| unsafe { global.deallocate(block) });
    // SAFETY: outside of operations.
    unsafe { end::<LoomThreads<TORN>>() };
    OWN.with_borrow_mut(HashMap::clear);
    let before = global.current().overflow_operations();
    scene::share();
    let come_and_go = move || {
        let answer = global.allocate_bytes(SIZE_BYTES, 1);
        assert!(TORN || scene::is_void() || answer.is_ok(), "{answer:?} beside free memory");
        if let Ok(block) = answer {
            scene::own(block, SIZE_BYTES);
            free(global, block);
        }
        // SAFETY: outside of operations.
        unsafe { end::<LoomThreads<TORN>>() };
    };
    let others: Vec<_> = (1..THREADS).map(|_| loom::thread::spawn(come_and_go)).collect();
    come_and_go();
    others.into_iter().for_each(|other| other.join().expect("the thread ends"));
    scene::gather();
    if scene::is_void() {
        return;
    }
    OWN.with_borrow_mut(HashMap::clear);
    let locked = global.current().overflow_operations() - before;
    assert!(SLOTS != 1 || locked == 2 * THREADS, "{locked} operations took the lock of the only slot");
    assert!(SLOTS <= THREADS || locked == 0, "{locked} operations took the lock beside free slots");
    let numbers = <LoomThreads<TORN> as Threads>::numbers();
    for number in 0..THREADS {
        assert_eq!(numbers.take(number, number + 1), Some(number), "a number was lost");
        // SAFETY: just taken.
        unsafe { numbers.release(number) };
    }
    assert_eq!(fill(global).len(), fresh, "memory was lost");
}

/// All memory is a thread's, which frees it; another requests a block meanwhile. Where `REPEATED`, the request is one of
/// `Global`, and is never refused as contended, since the first thread does less than 17 operations; otherwise it is
/// one of the slot: an intentional fault.
fn one_is_patient<const REPEATED: bool>() {
    let (global, region) = start::<Pooled, _, false>(Given, config(2));
    global.init_in(region).expect("a region that is long enough");
    // SAFETY: no other thread of this model has the number.
    unsafe { <LoomThreads<false> as Threads>::set_own(0) };
    let all = fill(global);
    scene::share();
    all.iter().for_each(|&block| scene::own(block, SIZE_BYTES));
    let other = loom::thread::spawn(move || {
        // SAFETY: no other thread of this model has the number.
        unsafe { <LoomThreads<false> as Threads>::set_own(1) };
        let answer = if REPEATED {
            global.allocate_bytes(SIZE_BYTES, 1)
        } else {
            let heap = global.heap().expect("it was made");
            // SAFETY: the slot is this thread's.
            unsafe { heap.slot(1) }.allocate_bytes(SIZE_BYTES, 1)
        };
        assert!(scene::is_void() || answer != Err(SharedError::Contended), "a request was refused as contended");
        if let Ok(block) = answer {
            scene::own(block, SIZE_BYTES);
            free(global, block);
        }
    });
    all.into_iter().for_each(|block| free(global, block));
    other.join().expect("the thread ends");
}

/// Uses the memory of the thread's slot, if it has one, and ends the thread. Returns whether it has one.
fn use_slot(own: Option<usize>) -> bool {
    if let Some(number) = own {
        let start = NUMBERS.get() + FRONT_BYTES + number * SLOT_BYTES;
        let memory = NonNull::new(std::ptr::with_exposed_provenance_mut(start)).expect("in the region");
        scene::own(memory, SLOT_BYTES);
        scene::disown(memory, SLOT_BYTES);
    }
    // SAFETY: outside of operations.
    unsafe { end::<LoomThreads<false>>() };
    own.is_some()
}

/// A slot is reserved, given back, and reserved again for a thread that starts then, while another thread takes one.
/// The thread with the reservation has that slot alone until it ends, and no slot is lost. With one slot at least one
/// thread is served, with two both. Unless `KEPT`, an intentional fault: the reserved slot is free as soon as its thread
/// enters.
fn one_is_reserved<const OWN_SLOTS: usize, const KEPT: bool>() {
    start::<Plain, _, false>(AnySlot, None);
    scene::share();
    let other = loom::thread::spawn(|| use_slot(own::<LoomThreads<false>>(OWN_SLOTS + 1)));
    drop(reserve::<LoomThreads<false>>(OWN_SLOTS + 1));
    let mine = reserve::<LoomThreads<false>>(OWN_SLOTS + 1).map(|reserved| {
        loom::thread::spawn(move || {
            let number = reserved.enter().expect("a thread without a slot");
            if !KEPT {
                // SAFETY: none; the fault.
                unsafe { LoomThreads::<false>::numbers().release(number) };
            }
            use_slot(Some(number))
        })
    });
    let is_reserved = mine.is_some_and(|mine| mine.join().expect("the thread ends"));
    let is_taken = other.join().expect("the thread ends");
    scene::gather();
    let served = usize::from(is_reserved) + usize::from(is_taken);
    assert!(served >= OWN_SLOTS, "{served} threads have one of {OWN_SLOTS} slots");
    let numbers = LoomThreads::<false>::numbers();
    assert!((0..OWN_SLOTS).all(|number| numbers.take(number, number + 1).is_some()), "a slot was lost");
}

const fn model(name: &'static str, execution: fn()) -> Model {
    Model { name, region_bytes: REGION_BYTES, preemptions: None, stores_are_ordered: false, execution }
}

/// The models of what is shipped.
pub fn models() -> [Model; 9] {
    [
        model("one makes the heap", one_makes),
        model("one fails to make the heap", one_fails),
        model("both make the heap", both_make::<false>),
        model("all in the last slot", threads_come_and_go::<1, 2, false>).within(2, 3),
        model("a slot for each", threads_come_and_go::<3, 2, false>).within(2, 3),
        model("three threads, two slots", threads_come_and_go::<2, 3, false>).within(1, 2),
        model("a request is repeated", one_is_patient::<true>).within(2, 3),
        model("a slot is reserved", one_is_reserved::<2, true>),
        model("the only slot is reserved", one_is_reserved::<1, true>),
    ]
}

/// Intentional faults, each with the model that must fail.
pub fn faults() -> [(&'static str, Model); 5] {
    [
        ("torn state of the global heap", model("both make the heap, torn", both_make::<true>)),
        (
            "torn lock of the last slot",
            model("all in the last slot, torn", threads_come_and_go::<1, 2, true>).within(2, 3),
        ),
        ("torn numbers of threads", model("a slot for each, torn", threads_come_and_go::<3, 2, true>).within(2, 3)),
        ("one attempt", model("a request is not repeated", one_is_patient::<false>).within(2, 3)),
        ("reserved slot released", model("a reserved slot is not kept", one_is_reserved::<1, false>)),
    ]
}
