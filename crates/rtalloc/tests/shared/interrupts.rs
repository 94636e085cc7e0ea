//! Signals: a handler with its own slot allocates and frees while the thread that it interrupts is in an operation.
//!
//! Each of these tests runs in its own process. The handler and the thread share statics; the handler takes no lock and
//! does not allocate from the system.

use crate::subject::{Heap, Subject};
use crate::tier::Tiers;
use crate::watch;
use crate::world::{Books, User, World};
use rtalloc::contract::{Operation, Refusals, SharedError};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How long the timer runs.
const SECONDS: Tiers<u64> = Tiers { daily: 1, full: 3 };
/// Between two signals of the timer, in nanoseconds.
const PERIOD_NS: libc::c_long = 60_000;
/// Operations of the interrupted thread; a signal arrives at every step.
pub const ACTS: Tiers<usize> = Tiers { daily: 2_000, full: 10_000 };
/// Slots of the thread and of the handler.
const THREAD: usize = 0;
const HANDLER: usize = 1;

/// The world of the handler, and the size it requests.
static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
static SIZE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// A block in transit between the thread and the handler; all have the same size.
static PARCEL: AtomicUsize = AtomicUsize::new(0);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static SERVED: AtomicUsize = AtomicUsize::new(0);
/// Refusals of exchanges: exhausted, contended, pending.
static REFUSED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

extern "C" fn on_signal(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    let world = WORLD.load(Ordering::Acquire);
    // SAFETY: the world exists as long as signals arrive.
    let world = unsafe { &*world };
    exchange(&world.heap, &world.books, HANDLER, SIZE_BYTES.load(Ordering::Acquire));
}

/// Frees the block in the parcel and replaces it by a new one, as the handler or the thread.
fn exchange(heap: &Heap, books: &Books, number: usize, size_bytes: usize) {
    // SAFETY: thread and handler each have their slot.
    let mut slot = unsafe { heap.slot(number) };
    if let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(PARCEL.swap(0, Ordering::AcqRel))) {
        books.disown(block, size_bytes);
        let most = heap.max_steps(Operation::Deallocate { size_bytes, align_bytes: 1 });
        // SAFETY: the block was in the parcel, so this caller alone owns it.
        watch::measured(most, || unsafe { slot.deallocate(block) });
    }
    let most = heap.max_steps(Operation::Allocate { size_bytes, align_bytes: 1 });
    let block = match watch::measured(most, || slot.allocate_bytes(size_bytes, 1)) {
        Ok(block) => block,
        Err(error) => {
            let reasons = [SharedError::Exhausted, SharedError::Contended, SharedError::Pending];
            let reason = reasons.iter().position(|&reason| reason == error).expect("a request that can be served");
            REFUSED[reason].fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    SERVED.fetch_add(1, Ordering::Relaxed);
    books.own(block, size_bytes, number);
    // SAFETY: this caller owns the block.
    unsafe { block.write_bytes(number as u8, size_bytes) };
    let other = PARCEL.swap(block.expose_provenance().get(), Ordering::AcqRel);
    if let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(other)) {
        books.disown(block, size_bytes);
        let most = heap.max_steps(Operation::Deallocate { size_bytes, align_bytes: 1 });
        // SAFETY: the block was in the parcel, so this caller alone owns it.
        watch::measured(most, || unsafe { slot.deallocate(block) });
    }
    let most = heap.max_steps(Operation::Reclaim { budget: 1 });
    watch::measured(most, || slot.reclaim(1));
}

thread_local! {
    static WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Raises a signal at this step, unless the handler is running.
pub fn raise() {
    if !WITHIN.replace(true) {
        // SAFETY: the handler is installed.
        unsafe { libc::raise(libc::SIGUSR1) };
        WITHIN.set(false);
    }
}

/// Installs a handler for both signals.
pub fn install(handler: extern "C" fn(libc::c_int)) {
    for signal in [libc::SIGUSR1, libc::SIGALRM] {
        // SAFETY: an empty action, and then one with a function of the right kind.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            // Interrupted system calls restart; the other signal is blocked during the handler.
            action.sa_flags = libc::SA_RESTART;
            libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
            libc::sigaddset(&mut action.sa_mask, libc::SIGALRM);
            assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
        }
    }
}

/// Calls `act` while signals may arrive, for a world of two users.
fn interrupted(subject: &'static Subject, begin: fn(), act: impl FnOnce(&mut User, &World), end: fn()) {
    let fresh = || World::new(subject.watched, subject.small_bytes, 2);
    let capacity = fresh().capacity(2, subject.sizes[0]);
    let world = fresh();
    assert!(world.heap.take(HANDLER), "the handler's slot is free");
    SIZE_BYTES.store(subject.sizes[0], Ordering::Release);
    WORLD.store(Arc::as_ptr(&world).cast_mut(), Ordering::Release);
    install(on_signal);
    let mut user = User::new(&world, THREAD, 0xBE11);
    begin();
    act(&mut user, &world);
    end();
    let (signals, served) = (SIGNALS.load(Ordering::Relaxed), SERVED.load(Ordering::Relaxed));
    println!("{}: {signals} signals, {served} blocks exchanged", subject.name());
    assert!(signals > 100 && served > 100, "{signals} signals, {served} blocks");

    if let Some(block) = NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(PARCEL.swap(0, Ordering::AcqRel))) {
        world.books.disown(block, subject.sizes[0]);
        // SAFETY: the block was in the parcel.
        unsafe { world.heap.slot(THREAD).deallocate(block) };
    }
    drop(user);
    // SAFETY: no more signals arrive.
    unsafe { world.heap.release(HANDLER) };
    let [exhausted, contended, pending] = REFUSED.each_ref().map(|count| count.load(Ordering::Relaxed));
    world.add_refusals(Refusals { request: 0, exhausted, contended, pending });
    world.close(2, subject.sizes[0], capacity);
}

/// A signal at every step of the thread.
pub fn at_every_step(subject: &'static Subject) {
    let begin = || watch::at_every_step(Some(raise), None);
    let end = || watch::at_every_step(None, None);
    let act = |user: &mut User, world: &World| {
        for _ in 0..ACTS.now() {
            user.act(subject.sizes);
            exchange(&world.heap, &world.books, THREAD, subject.sizes[0]);
        }
    };
    interrupted(subject, begin, act, end);
}

/// Calls `act` repeatedly for some seconds, while a timer's signals interrupt the thread anywhere.
pub fn timed(mut act: impl FnMut()) {
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: a valid event that signals this thread, not the one that waits for it. All out pointers are valid.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
    }
    let set = |nanoseconds: libc::c_long| {
        let period = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
        let period = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: a timer made above, and a valid period.
        assert_eq!(unsafe { libc::timer_settime(timer, 0, &period, std::ptr::null_mut()) }, 0);
    };
    set(PERIOD_NS);
    let begin = std::time::Instant::now();
    while begin.elapsed().as_secs() < SECONDS.now() {
        (0..1_000).for_each(|_| act());
    }
    set(0);
}

/// Signals from a timer, anywhere in the thread.
pub fn at_any_time(subject: &'static Subject) {
    let act = |user: &mut User, world: &World| {
        timed(|| {
            user.act(subject.sizes);
            exchange(&world.heap, &world.books, THREAD, subject.sizes[0]);
        });
    };
    interrupted(subject, || (), act, || ());
}
