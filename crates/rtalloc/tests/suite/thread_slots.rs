//! Threads as users of slots: no two have the same number, however many start and end at any time.
//!
//! Numbers belong to the process. So one test runs at a time, and its threads have ended when the next begins.

use allocator_api2::vec::Vec as VecIn;
use rtalloc::adapt::{CurrentSlot, Joint, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig, SharedAllocator};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a test while no other thread of the process has a number.
pub fn alone(test: impl FnOnce() + Send) {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let result = thread::scope(|scope| scope.spawn(test).join());
    drop(guard);
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a function in several threads, and joins them: a scope alone does not wait for the destructors of their
/// thread-local values, which release numbers.
fn together(threads: usize, run: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    });
}

/// The number of this thread in a heap with `count` slots.
fn number(slots: &ThreadSlots, count: usize) -> usize {
    slots.with(count, |number| number).expect("a slot")
}

/// The thread in each slot plus one; 0 for none.
struct Busy(Vec<AtomicUsize>);

impl Busy {
    fn new(count: usize) -> Self {
        Busy((0..count).map(|_| AtomicUsize::new(0)).collect())
    }

    /// Occupies a slot for a while.
    fn visit(&self, slot: usize, thread: usize) {
        let before = self.0[slot].swap(thread + 1, Ordering::Relaxed);
        assert_eq!(before, 0, "threads {before} and {} are in slot {slot}", thread + 1);
        if thread.is_multiple_of(3) {
            thread::yield_now();
        }
        assert_eq!(self.0[slot].swap(0, Ordering::Relaxed), thread + 1);
    }
}

#[test]
fn no_two_threads_are_in_a_slot() {
    const SLOTS: usize = 5;
    alone(|| {
        let slots = ThreadSlots::new();
        let busy = Busy::new(SLOTS);
        // While four threads are in slots of their own, the others meet in the last one.
        let (entered, left) = (Barrier::new(SLOTS), Barrier::new(SLOTS));
        together(SLOTS, |thread| {
            if thread + 1 == SLOTS {
                entered.wait();
                slots.with(SLOTS, |slot| busy.visit(slot, thread)).expect("a slot");
                left.wait();
                return;
            }
            let inside = |slot| {
                entered.wait();
                busy.visit(slot, thread);
                left.wait();
            };
            slots.with(SLOTS, inside).expect("a slot");
        });
        assert!(slots.overflow_operations() > 0, "five threads and four slots of their own");
        for _ in 0..30 {
            together(12, |thread| {
                for round in 0..200 {
                    slots.with(SLOTS, |slot| busy.visit(slot, thread)).expect("a slot");
                    if round % 20 == 0 {
                        let found = slots.elsewhere(SLOTS, |slot| {
                            busy.visit(slot, thread);
                            (slot == round % SLOTS).then_some(slot)
                        });
                        assert!(found.is_none_or(|slot| slot == round % SLOTS));
                    }
                }
            });
        }
    });
}

#[test]
fn numbers_come_back() {
    alone(|| {
        let slots = ThreadSlots::new();
        // More threads than there are numbers, one after the other, and a few at a time.
        for _ in 0..1500 {
            together(1, |_| assert_eq!(number(&slots, 9), 0));
        }
        for _ in 0..100 {
            together(8, |_| assert!(number(&slots, 9) < 8));
        }
        assert_eq!(slots.overflow_operations(), 0);
    });
}

#[test]
fn a_number_that_becomes_free_is_taken() {
    alone(|| {
        let slots = ThreadSlots::new();
        let (end, ended) = channel::<()>();
        let (begin, begun) = channel::<usize>();
        thread::scope(|scope| {
            let slots = &slots;
            let first = scope.spawn(move || {
                begin.send(number(slots, 2)).expect("the test waits");
                ended.recv().expect("the test ends it");
            });
            assert_eq!(begun.recv(), Ok(0));
            assert_eq!(number(slots, 2), 1, "the last slot is for threads without a number");
            assert_eq!(number(slots, 3), 1, "a heap with more slots has one for this thread");
            assert_eq!(number(slots, 2), 1, "a number beyond the heap's slots does not count");
            assert_eq!(slots.overflow_operations(), 2);
            end.send(()).expect("the thread waits");
            first.join().expect("no panic");
            assert_eq!(number(slots, 2), 0, "the first thread has ended");
            assert_eq!(number(slots, 3), 1, "the number was borrowed for one operation");
            assert_eq!(slots.overflow_operations(), 2);
            together(1, |_| assert_eq!(number(slots, 3), 0));
        });
    });
}

/// A slot is kept for a thread that starts when all others are taken.
#[test]
fn a_reserved_number_is_for_the_thread_that_enters() {
    alone(|| {
        let slots = ThreadSlots::new();
        let reserved = ThreadSlots::reserve(3).expect("all are free");
        assert_eq!(ThreadSlots::own(3), Some(1), "the reserved number is taken");
        assert_eq!(ThreadSlots::own(2), None, "no thread has the last slot as its own");
        assert!(ThreadSlots::reserve(3).is_none());
        together(1, |_| {
            assert_eq!((ThreadSlots::own(3), number(&slots, 3)), (None, 2));
        });
        let shared = slots.overflow_operations();
        // A thread that has a number already keeps it, and the reservation holds.
        let reserved = reserved.enter().expect_err("this thread has a number");
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                assert_eq!(reserved.enter().expect("no number yet"), 0);
                assert_eq!((ThreadSlots::own(3), number(&slots, 3)), (Some(0), 0));
            });
            thread.join().expect("no panic");
        });
        assert_eq!(slots.overflow_operations(), shared, "it never shared");
        // Its end released the number; dropping a reservation does, too.
        drop(ThreadSlots::reserve(3).expect("free again"));
        together(1, |_| assert_eq!(ThreadSlots::own(3), Some(0)));
    });
}

/// A thread that has no number keeps the first that becomes free.
#[test]
fn a_thread_without_a_number_keeps_one() {
    alone(|| {
        let slots = ThreadSlots::new();
        let (end, ended) = channel::<()>();
        let (begin, begun) = channel::<usize>();
        thread::scope(|scope| {
            let slots = &slots;
            let first = scope.spawn(move || {
                begin.send(number(slots, 2)).expect("the test waits");
                ended.recv().expect("the test ends it");
            });
            assert_eq!(begun.recv(), Ok(0));
            // It requested a number below the last slot, and has none so far.
            assert_eq!([number(slots, 2), number(slots, 2)], [1, 1]);
            end.send(()).expect("the thread waits");
            first.join().expect("no panic");
            assert_eq!(number(slots, 2), 0);
            together(1, |_| assert_eq!(number(slots, 3), 1));
        });
    });
}

/// During an operation of one heap, a thread uses another with fewer slots: no other thread gets its number in the
/// first.
#[test]
fn a_number_in_use_is_not_released() {
    alone(|| {
        let (many, few) = (ThreadSlots::new(), ThreadSlots::new());
        let (end, ended) = channel::<()>();
        let (begin, begun) = channel::<usize>();
        thread::scope(|scope| {
            let many = &many;
            let first = scope.spawn(move || {
                begin.send(number(many, 9)).expect("the test waits");
                ended.recv().expect("the test ends it");
            });
            assert_eq!(begun.recv(), Ok(0));
            let visited = many.with(9, |mine| {
                assert_eq!(mine, 1);
                end.send(()).expect("the thread waits");
                first.join().expect("no panic");
                assert_eq!(number(&few, 2), 0);
                together(3, |_| assert_ne!(number(many, 9), mine));
            });
            assert_eq!(visited, Some(()));
        });
    });
}

#[test]
fn one_slot_is_shared_by_all() {
    alone(|| {
        let slots = ThreadSlots::new();
        let busy = Busy::new(1);
        together(4, |thread| {
            for _ in 0..100 {
                slots.with(1, |slot| busy.visit(slot, thread)).expect("a slot");
            }
        });
        assert_eq!(slots.overflow_operations(), 400);
        assert_eq!(slots.with(0, |_| ()), None, "no slots, no number");
        assert_eq!(slots.elsewhere(0, |_| Some(())), None);
    });
}

#[test]
fn elsewhere_is_an_idle_slot() {
    alone(|| {
        let slots = ThreadSlots::new();
        assert_eq!(number(&slots, 70), 0);
        let mut seen = Vec::new();
        let none: Option<()> = slots.elsewhere(70, |slot| {
            seen.push(slot);
            None
        });
        assert_eq!(none, None);
        assert_eq!(seen, std::iter::once(69).chain(1..69).collect::<Vec<_>>());
        assert_eq!(slots.elsewhere(70, |slot| (slot == 66).then_some(slot)), Some(66));
        // The borrowed slots are free again.
        together(1, |_| assert_eq!(number(&slots, 70), 1));
    });
}

/// The destructor of a thread-local value still gets a slot after the thread released its number.
#[test]
fn a_thread_that_ends_shares() {
    static SLOTS: ThreadSlots = ThreadSlots::new();
    static LAST: AtomicUsize = AtomicUsize::new(usize::MAX);

    struct Late(Cell<usize>);

    impl Drop for Late {
        fn drop(&mut self) {
            assert_eq!(self.0.get(), 0);
            LAST.store(number(&SLOTS, 9), Ordering::Relaxed);
        }
    }

    thread_local! {
        static LATE: Late = const { Late(Cell::new(usize::MAX)) };
    }

    alone(|| {
        together(1, |_| {
            // Destructors run in reverse order of first use.
            LATE.with(|late| late.0.set(usize::MAX));
            let number = number(&SLOTS, 9);
            LATE.with(|late| late.0.set(number));
        });
        assert_eq!(LAST.load(Ordering::Relaxed), 8);
        assert_eq!(SLOTS.overflow_operations(), 1);
    });
}

#[test]
fn hints_need_not_be_exclusive() {
    alone(|| {
        let slots = ThreadSlots::new();
        assert_eq!(slots.hint(), 0);
        together(1, |_| assert_eq!(slots.hint(), 1));
        assert_eq!(slots.overflow_operations(), 0);
    });
}

/// Pooled arenas for `slots` users at a time.
pub fn arenas(slots: usize, len_bytes: usize) -> PooledArenas<'static> {
    let region = vec![MaybeUninit::new(0xA5); len_bytes].leak();
    PooledArenas::new(region, PooledArenasConfig { slots, ..Default::default() }).expect("large enough")
}

type Together<'h> = Joint<'h, 'static, PooledArenas<'static>, ThreadSlots>;

/// Bytes of blocks that have a piece of one chunk each, in the slot that they were allocated in.
const BLOCK_BYTES: usize = 400;

/// Allocates blocks until none is left, and returns their addresses.
fn fill(joint: &Together<'_>) -> Vec<usize> {
    let block = || joint.allocate_bytes(BLOCK_BYTES, 8).ok();
    let filled = |block: NonNull<u8>| {
        // SAFETY: the block is live and that large.
        unsafe { block.write_bytes(0xBB, BLOCK_BYTES) };
        block.as_ptr().expose_provenance()
    };
    std::iter::from_fn(block).map(filled).collect()
}

fn free(joint: &Together<'_>, blocks: &[usize]) {
    for &block in blocks {
        let block = NonNull::new(std::ptr::with_exposed_provenance_mut(block)).expect("a block");
        // SAFETY: the block is live, and neither thread uses it again.
        unsafe { joint.deallocate(block) };
    }
}

/// Fills the heap in a thread that ends, and frees the blocks in this one: all wait in the queue of a slot that is idle.
fn queue_everything(joint: &Together<'_>) -> usize {
    let blocks = thread::scope(|scope| scope.spawn(|| fill(joint)).join().expect("no panic"));
    free(joint, &blocks);
    blocks.len()
}

/// A thread whose slot finds no memory takes back what other threads freed in idle slots.
#[test]
fn memory_of_idle_slots_is_used() {
    alone(|| {
        let mut heap = arenas(5, 5 << 16);
        let joint = Joint::new(&heap, ThreadSlots::new()).expect("all slots are free");
        // This thread has slot 0 from now on.
        let whole = fill(&joint);
        free(&joint, &whole);
        assert!(whole.len() > 500, "{} blocks", whole.len());
        for round in 1..=4 {
            assert_eq!(joint.reclaim(1), 0, "the spare chunk of this slot goes back");
            assert_eq!(queue_everything(&joint), whole.len(), "by a thread in slot 1");
            let blocks = fill(&joint);
            assert_eq!(blocks.len(), whole.len(), "by this thread");
            assert!(joint.current().overflow_operations() >= round, "the memory was in a queue of slot 1");
            free(&joint, &blocks);
        }
        drop(joint);
        assert_eq!(heap.check(), Ok(()));
    });
}

#[test]
fn blocks_are_moved_to_where_memory_is() {
    alone(|| {
        let mut heap = arenas(3, 3 << 16);
        let joint = Joint::new(&heap, ThreadSlots::new()).expect("all slots are free");
        let mut vec = VecIn::with_capacity_in(20_000, &joint);
        queue_everything(&joint);
        vec.resize(20_000, 5u8);
        vec.reserve_exact(20_000);
        assert_eq!(vec, [5; 20_000]);
        drop(vec);
        drop(joint);
        assert_eq!(heap.check(), Ok(()));
    });
}
