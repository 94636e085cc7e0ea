//! Heaps under every kind of lock: several threads at a time, refusals, regions, and the invariants that the lock adds.
//! The suite's other tests cover the heaps themselves.

use rtalloc::adapt::{BackoffLock, Lock, Locked, Masked};
use rtalloc::contract::{AllocError, InitError, Refusals, SharedError};
use rtalloc::mechanism::stats::WithStats;
use rtalloc::{BinaryBuddy, QuickFit, RegionAllocator, SharedAllocator, Slot, Tlsf};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

type Spinning = spin::Mutex<()>;
type Ticket = spin::mutex::TicketMutex<()>;
type Parking = parking_lot::RawMutex;

const THREADS: usize = 4;
const ROUNDS: usize = 20_000;

/// A leaked region.
fn region(len_bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    vec![MaybeUninit::new(0xA5); len_bytes].leak()
}

/// Threads allocate, resize and free blocks, each filled with its thread's byte, and verify the content.
fn threads_share<H: RegionAllocator<'static> + Send, L: Lock>(threads: usize, rounds: usize) {
    let mut heap = Locked::<H, L>::new(region(64 << 10), H::Config::default()).expect("large enough");
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (heap, refused) = (&heap, &refused);
            scope.spawn(move || {
                let mark = thread as u8 + 1;
                let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
                let mut random = thread * 7919 + 1;
                for round in 0..rounds {
                    random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345) & 0x7FFF_FFFF;
                    let size_bytes = 1 + (random >> 8) % 700;
                    if round % 3 == 2 || blocks.len() > 40 {
                        if !blocks.is_empty() {
                            let (block, len_bytes) = blocks.swap_remove(random % blocks.len());
                            assert_marked(block, len_bytes, mark);
                            // SAFETY: the block is live and forgotten here.
                            unsafe { heap.deallocate(block) };
                        }
                    } else if round % 7 == 0 && !blocks.is_empty() {
                        let (block, len_bytes) = blocks.swap_remove(random % blocks.len());
                        // SAFETY: the block is live; the thread keeps the result of a success, or else the block.
                        match unsafe { heap.reallocate_bytes(block, size_bytes, 8) } {
                            Ok(moved) => {
                                assert_marked(moved, len_bytes.min(size_bytes), mark);
                                blocks.push(marked(moved, size_bytes, mark));
                            }
                            Err(_) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                                blocks.push((block, len_bytes));
                            }
                        }
                    } else {
                        match heap.allocate_bytes(size_bytes, 8) {
                            Ok(block) => blocks.push(marked(block, size_bytes, mark)),
                            Err(_) => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                }
                for (block, len_bytes) in blocks {
                    assert_marked(block, len_bytes, mark);
                    // SAFETY: the block is live and forgotten here.
                    unsafe { heap.deallocate(block) };
                }
            });
        }
    });
    assert_eq!(heap.check(), Ok(()));
    let mut live = 0;
    heap.walk(&mut |block| live += usize::from(!block.free));
    assert_eq!(live, 0, "every block was freed");
    let counted = heap.refusals();
    assert_eq!(counted.request + counted.exhausted + counted.contended + counted.pending, refused.into_inner());
}

fn marked(block: NonNull<u8>, len_bytes: usize, mark: u8) -> (NonNull<u8>, usize) {
    // SAFETY: the block is live and that large.
    unsafe { block.write_bytes(mark, len_bytes) };
    (block, len_bytes)
}

fn assert_marked(block: NonNull<u8>, len_bytes: usize, mark: u8) {
    // SAFETY: the block is live, that large, and was written.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), len_bytes) };
    assert!(bytes.iter().all(|&byte| byte == mark), "another thread wrote into a block");
}

#[test]
fn threads_share_a_heap_under_a_spin_lock() {
    threads_share::<Tlsf<'static>, Spinning>(THREADS, ROUNDS);
}

#[test]
fn threads_share_a_heap_under_a_ticket_lock() {
    // The next thread may not be running: with more threads than processors, each handover can take a time slice.
    threads_share::<BinaryBuddy<'static>, Ticket>(2, ROUNDS / 20);
}

#[test]
fn threads_share_a_heap_under_a_mutex() {
    threads_share::<QuickFit<'static>, Parking>(THREADS, ROUNDS);
}

#[test]
fn threads_share_a_heap_in_critical_sections() {
    threads_share::<Tlsf<'static>, Masked>(THREADS, ROUNDS);
}

#[test]
fn threads_share_a_heap_under_a_patient_lock() {
    threads_share::<Tlsf<'static>, BackoffLock>(THREADS, ROUNDS);
}

#[test]
fn refusals_are_classified_and_counted() {
    let heap = Locked::<Tlsf<'_>, Spinning>::new(region(8 << 10), Default::default()).expect("large enough");
    assert_eq!(heap.allocate_bytes(0, 1), Err(AllocError::ZeroSize));
    assert_eq!(heap.allocate_bytes(1, 3), Err(AllocError::Alignment));
    assert_eq!(heap.allocate_bytes(1 << 20, 1), Err(AllocError::TooLarge));
    // SAFETY: slots of `Locked` need not be exclusive.
    let mut slot = unsafe { heap.slot(17) };
    while Slot::allocate_bytes(&mut slot, 100, 1).is_ok() {}
    assert_eq!(Slot::allocate_bytes(&mut slot, 100, 1), Err(SharedError::Exhausted));
    assert_eq!(Slot::allocate_bytes(&mut slot, 0, 1), Err(SharedError::Request(AllocError::ZeroSize)));
    assert_eq!(heap.refusals(), Refusals { request: 4, exhausted: 2, contended: 0, pending: 0 });
}

#[test]
fn questions_are_answered_under_the_lock() {
    type Watched<'r> =
        Tlsf<'r, 5, rtalloc::mechanism::segregated::RoundUp, rtalloc::mechanism::word::Offset32, WithStats>;
    let heap = Locked::<Watched<'_>, Ticket>::new(region(8 << 10), Default::default()).expect("large enough");
    let block = heap.allocate_bytes(100, 1).expect("a fresh heap");
    // SAFETY: the block is live.
    let usable_bytes = unsafe { heap.usable_size(block) };
    assert!(usable_bytes >= 100);
    let stats = heap.stats().expect("a heap that keeps statistics");
    assert_eq!((stats.live_blocks, stats.live_bytes), (1, usable_bytes));
    assert_eq!(heap.inspect(|heap| heap.largest_allocatable()), stats.largest_free_bytes);
}

/// Sizes in errors include the lock before the heap.
#[test]
fn regions_too_large_are_refused_with_the_front() {
    use rtalloc::mechanism::word::Offset16;
    type Short<'r> = Tlsf<'r, 3, rtalloc::mechanism::segregated::RoundUp, Offset16>;
    let answer = Locked::<Short<'_>, Parking>::new(region(1 << 17), Default::default());
    assert_eq!(answer.err(), Some(InitError::OutOfReach { max_span_bytes: 0xFFFF }));
    let answer = Locked::<Short<'_>, Parking>::new(region(10), Default::default());
    let Err(InitError::TooSmall { needed_bytes }) = answer else { panic!("ten bytes are too few") };
    assert!(Locked::<Short<'_>, Parking>::new(region(needed_bytes), Default::default()).is_ok());
}

#[test]
fn an_overwritten_front_is_found() {
    let memory = region(8 << 10);
    let bytes = NonNull::from(&mut *memory).cast::<u8>();
    let len_bytes = memory.len();
    let mut heap = Locked::<Tlsf<'_>, Ticket>::new(memory, Default::default()).expect("large enough");
    assert_eq!(heap.check(), Ok(()));
    // `check` locates the lock: it reports an error where it finds the lock held.
    let front = (0..len_bytes).find_map(|offset| {
        // SAFETY: the byte lies in the region, whose only user is this test, and is restored.
        unsafe {
            let byte = bytes.add(offset);
            let saved = byte.read();
            byte.write(saved ^ 0x10);
            let answer = heap.check();
            byte.write(saved);
            answer.err().filter(|corruption| corruption.invariant.contains("lock")).map(|corruption| corruption.address)
        }
    });
    let front = front.expect("one byte of the region is the lock's");
    let mut found = 0;
    // The heap's word and its seal follow the ticket lock's two words.
    for offset in 2 * size_of::<usize>()..4 * size_of::<usize>() {
        // SAFETY: the byte lies in the region, whose only user is this test, and is restored.
        unsafe {
            let byte = bytes.add(front - bytes.addr().get() + offset);
            let saved = byte.read();
            byte.write(saved ^ 0x10);
            let answer = heap.check();
            byte.write(saved);
            found += usize::from(answer.is_err_and(|corruption| corruption.invariant.contains("seal")));
        }
    }
    assert_eq!(found, 2 * size_of::<usize>());
    assert_eq!(heap.check(), Ok(()));
}

/// A panic under the lock, as in a hook, releases the lock.
fn panics_free_the_lock<L: Lock>() {
    let mut heap = Locked::<Tlsf<'_>, L>::new(region(8 << 10), Default::default()).expect("large enough");
    let result = catch_unwind(AssertUnwindSafe(|| heap.inspect(|_| panic!("under the lock"))));
    assert!(result.is_err());
    assert!(heap.allocate_bytes(100, 1).is_ok());
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn panics_free_every_lock() {
    panics_free_the_lock::<Spinning>();
    panics_free_the_lock::<Ticket>();
    panics_free_the_lock::<Parking>();
    panics_free_the_lock::<Masked>();
    panics_free_the_lock::<BackoffLock>();
}

/// A held lock reports that it is held, and others wait for it.
fn a_held_lock_is_reported<L: Lock>() {
    let lock = L::FREE;
    assert!(!lock.is_held());
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..1000 {
                    lock.hold(|| {
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two inside one lock");
                        assert!(lock.is_held());
                        inside.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            });
        }
    });
    assert!(!lock.is_held());
}

#[test]
fn every_lock_is_held_by_one() {
    a_held_lock_is_reported::<Spinning>();
    a_held_lock_is_reported::<Ticket>();
    a_held_lock_is_reported::<Parking>();
    a_held_lock_is_reported::<Masked>();
    a_held_lock_is_reported::<BackoffLock>();
}
