//! Collections in shared heaps, through `allocator_api2`, and the first use of heaps in statics.

use super::thread_slots;
use allocator_api2::alloc::Allocator;
use allocator_api2::boxed::Box as BoxIn;
use allocator_api2::vec::Vec as VecIn;
use hashbrown::{DefaultHashBuilder, HashMap};
use rtalloc::adapt::traced::layout::{ALIGN_SHIFT, HEAD_BYTES};
use rtalloc::adapt::{AnySlot, Global, Joint, Local, Locked, Masked, Memory, Numbered, ThreadSlots, Traced};
use rtalloc::contract::{AllocError, InitError, SharedError};
use rtalloc::{BinaryBuddy, PooledArenas, PooledArenasConfig, RegionAllocator, SharedAllocator, Tlsf};
use std::alloc::{GlobalAlloc, Layout};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::thread;

type Spinning<H> = Locked<'static, H, spin::Mutex<()>>;

fn region(len_bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    vec![MaybeUninit::new(0xA5); len_bytes].leak()
}

fn spinning(len_bytes: usize) -> Spinning<Tlsf<'static>> {
    Locked::new(region(len_bytes), Default::default()).expect("large enough")
}

fn live_blocks(heap: &Spinning<Tlsf<'static>>) -> usize {
    let mut live = 0;
    heap.inspect(|heap| heap.walk(&mut |block| live += usize::from(!block.free)));
    live
}

/// Collections in one heap, used by several threads.
fn collections<A: Allocator + Copy + Send + Sync>(heap: A) {
    let mut numbers = VecIn::new_in(heap);
    for number in 0..1000u32 {
        numbers.push(number);
    }
    numbers.retain(|number| number % 3 == 0);
    numbers.shrink_to_fit();
    assert!(numbers.iter().copied().eq((0..1000).step_by(3)));

    let mut map: HashMap<u32, BoxIn<[u8; 40], A>, DefaultHashBuilder, A> = HashMap::new_in(heap);
    for &number in &numbers {
        map.insert(number, BoxIn::new_in([number as u8; 40], heap));
    }
    thread::scope(|scope| {
        for remainder in 0..2 {
            let map = &map;
            scope.spawn(move || {
                let mut copies = VecIn::new_in(heap);
                copies.extend(map.iter().filter(|(number, _)| **number % 2 == remainder).map(|(_, bytes)| **bytes));
                let sum: u64 = copies.iter().map(|bytes| u64::from(bytes[39])).sum();
                let all = (0..1000u32).step_by(3).filter(|number| number % 2 == remainder);
                assert_eq!(sum, all.map(|number| u64::from(number as u8)).sum());
            });
        }
        // Threads free what other threads allocated.
        let moved = VecIn::from_iter_in(0..100u64, heap);
        scope.spawn(move || assert_eq!(moved.iter().sum::<u64>(), 4950));
    });
}

/// `from_iter` for a vector in a heap.
trait FromIterIn<T, A> {
    fn from_iter_in(items: impl IntoIterator<Item = T>, heap: A) -> Self;
}

impl<T, A: Allocator> FromIterIn<T, A> for VecIn<T, A> {
    fn from_iter_in(items: impl IntoIterator<Item = T>, heap: A) -> Self {
        let mut vec = VecIn::new_in(heap);
        vec.extend(items);
        vec
    }
}

#[test]
fn collections_live_in_a_heap_under_a_lock() {
    let heap = spinning(256 << 10);
    collections(&heap);
    assert_eq!(live_blocks(&heap), 0);
    let heap: Locked<'_, BinaryBuddy<'_>, Masked> = Locked::new(region(256 << 10), ()).expect("large enough");
    collections(&heap);
}

#[test]
fn collections_live_in_a_joint_heap() {
    let heap = spinning(256 << 10);
    let joint = Joint::new(&heap, AnySlot).expect("all slots are free");
    collections(&joint);
    drop(joint);
    assert_eq!(live_blocks(&heap), 0);
}

#[test]
fn collections_live_in_arenas() {
    thread_slots::alone(|| {
        let mut heap = thread_slots::arenas(4, 1 << 20);
        let joint = Joint::new(&heap, ThreadSlots::new()).expect("no slot is taken");
        for _ in 0..20 {
            collections(&joint);
        }
        drop(joint);
        assert_eq!(heap.check(), Ok(()));
        assert_eq!(heap.refusals().request, 0);
    });
}

#[test]
fn a_joint_heap_has_every_slot() {
    let heap = thread_slots::arenas(3, 1 << 16);
    let claim = heap.claim(1).expect("the slot is free");
    assert!(Joint::new(&heap, ThreadSlots::new()).is_none());
    drop(claim);
    let joint = Joint::new(&heap, ThreadSlots::new()).expect("all slots are free");
    assert!(heap.claim_any().is_none());
    assert!(Joint::new(&heap, ThreadSlots::new()).is_none());
    drop(joint);
    assert_eq!((0..4).filter_map(|slot| heap.claim(slot)).count(), 3);
}

#[test]
fn collections_live_in_a_static() {
    static MEMORY: Memory<{ 256 << 10 }> = Memory::new();
    static HEAP: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    collections(&HEAP);
    assert_eq!(live_blocks(HEAP.heap().expect("large enough")), 0);
}

/// One thread's collections in a heap without a lock: they share it, fill it, and leave no live block.
fn collections_of_one_thread<H: RegionAllocator<'static>>(config: H::Config) {
    let mut heap = Local::<H>::new(region(64 << 10), config).expect("large enough");
    let before = heap.largest_allocatable();
    {
        let mut map: HashMap<u32, BoxIn<[u8; 40], _>, DefaultHashBuilder, _> = HashMap::new_in(&heap);
        let mut numbers = VecIn::new_in(&heap);
        for number in 0..100u32 {
            map.insert(number, BoxIn::new_in([number as u8; 40], &heap));
            numbers.push(number);
        }
        numbers.retain(|number| number % 3 == 0);
        numbers.shrink_to_fit();
        assert!(numbers.iter().all(|number| *map[number] == [*number as u8; 40]));
        let mut full = VecIn::<BoxIn<[u64; 16], _>, _>::with_capacity_in(500, &heap);
        while let Ok(block) = BoxIn::try_new_in([7; 16], &heap) {
            full.push(block);
        }
        assert!((100..500).contains(&full.len()), "{} blocks fill 64 KiB", full.len());
        assert!(full.iter().all(|block| **block == [7; 16]));
        assert!(numbers.try_reserve(1 << 20).is_err());
        assert!(numbers.iter().copied().eq((0..100).step_by(3)));
        assert_eq!(heap.check(), Ok(()));
    }
    assert_eq!(heap.allocate_bytes(0, 1), Err(AllocError::ZeroSize));
    let mut live = 0;
    heap.get_mut().walk(&mut |block| live += usize::from(!block.free));
    assert_eq!(live, 0);
    assert_eq!(heap.into_inner().largest_allocatable(), before);
}

#[test]
fn collections_live_in_one_threads_heap() {
    collections_of_one_thread::<Tlsf<'static>>(Default::default());
    collections_of_one_thread::<BinaryBuddy<'static>>(());
}

/// A heap of one thread may move to another thread with its blocks.
#[test]
fn one_threads_heap_moves_to_another() {
    let heap = Local::<Tlsf<'static>>::new(region(16 << 10), Default::default()).expect("large enough");
    let block = heap.allocate_bytes(100, 8).expect("a fresh heap").addr();
    let heap = thread::spawn(move || {
        let other = heap.allocate_bytes(100, 8).expect("a fresh heap");
        assert_ne!(other.addr(), block);
        // SAFETY: this heap allocated the block, and it is no longer used.
        unsafe { heap.deallocate(other) };
        heap
    })
    .join()
    .expect("no panic");
    assert_eq!(heap.check(), Ok(()));
}

/// A static heap that is not a global allocator gives the reason for each refusal.
#[test]
fn a_static_heap_gives_reasons() {
    static MEMORY: Memory<{ 16 << 10 }> = Memory::new();
    static HEAP: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    let refused = |size_bytes, align_bytes| HEAP.allocate_bytes(size_bytes, align_bytes).expect_err("not served");
    assert_eq!(refused(0, 1), SharedError::Request(AllocError::ZeroSize));
    assert_eq!(refused(1, 3), SharedError::Request(AllocError::Alignment));
    assert_eq!(refused(1 << 20, 1), SharedError::Request(AllocError::TooLarge));
    let block = HEAP.allocate_bytes(10_000, 64).expect("a fresh heap");
    assert_eq!(block.addr().get() % 64, 0);
    assert_eq!(refused(10_000, 1), SharedError::Exhausted);
    // SAFETY: this heap allocated the block, and it is no longer used.
    unsafe { HEAP.deallocate(block) };
    assert_eq!(live_blocks(HEAP.heap().expect("it was made")), 0);

    static SMALL: Memory<100> = Memory::new();
    static NONE: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&SMALL, AnySlot);
    assert_eq!(NONE.allocate_bytes(8, 8), Err(SharedError::Request(AllocError::TooLarge)));
    assert!(NONE.init().is_err());
}

/// Pooled arenas in a static, as in firmware: one slot for each number, and no slot for a larger number.
#[test]
fn numbered_users_have_collections_in_a_static() {
    thread_local! {
        static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }
    static MEMORY: Memory<{ 256 << 10 }> = Memory::new();
    const CONFIG: PooledArenasConfig = PooledArenasConfig { slots: 3, reclaim_budget: 2, chunk_bytes: 0 };
    // SAFETY: each thread below has its own number.
    static HEAP: Global<PooledArenas<'static>, Numbered> =
        Global::configured(&MEMORY, unsafe { Numbered::new(|| NUMBER.get()) }, CONFIG);
    let made: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (1..=3)
            .map(|number| {
                scope.spawn(move || {
                    NUMBER.set(number);
                    let mut numbers = VecIn::new_in(&HEAP);
                    numbers.try_reserve(1000).map(|()| {
                        numbers.extend(0..1000u32);
                        numbers
                    })
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(made[0].is_ok() && made[1].is_ok());
    assert!(made[2].is_err(), "there is no slot 3");
    assert_eq!(made.into_iter().flatten().map(|numbers| numbers.iter().sum::<u32>()).sum::<u32>(), 2 * 499_500);
}

/// Requests for zero bytes take no memory at any alignment, and can grow and shrink back to zero.
#[test]
fn nothing_is_served_without_memory() {
    let heap = spinning(16 << 10);
    let nothing = Layout::from_size_align(0, 64).expect("a layout");
    let some = Layout::from_size_align(100, 8).expect("a layout");
    let more = Layout::from_size_align(300, 128).expect("a layout");
    let heap_ref = &heap;
    let block = Allocator::allocate(&heap_ref, nothing).expect("zero bytes are always served");
    assert_eq!((block.len(), block.cast::<u8>().addr().get() % 64), (0, 0));
    assert_eq!(live_blocks(&heap), 0);
    // SAFETY: each block is freed or resized once, with its current layout.
    unsafe {
        let block = heap_ref.grow_zeroed(block.cast(), nothing, some).expect("a fresh heap");
        assert_eq!(block.as_ref(), [0; 100]);
        assert_eq!(live_blocks(&heap), 1);
        block.cast::<u8>().write_bytes(7, 100);
        let block = heap_ref.grow_zeroed(block.cast(), some, more).expect("a fresh heap");
        assert_eq!(block.cast::<u8>().addr().get() % 128, 0);
        assert_eq!((&block.as_ref()[..100], &block.as_ref()[100..]), (&[7; 100][..], &[0; 200][..]));
        let block = heap_ref.shrink(block.cast(), more, some).expect("less can be served");
        assert_eq!(block.as_ref(), [7; 100]);
        let block = heap_ref.shrink(block.cast(), some, nothing).expect("zero bytes are always served");
        assert_eq!((block.len(), live_blocks(&heap)), (0, 0));
        Allocator::deallocate(&heap_ref, block.cast(), nothing);
    }
    assert!(Allocator::allocate(&heap_ref, Layout::from_size_align(1 << 20, 1).expect("a layout")).is_err());
    assert_eq!(heap.inspect(|heap| heap.check()), Ok(()));
}

#[test]
fn the_first_users_of_a_static_agree() {
    const THREADS: usize = 8;
    static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
    static HEAP: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    let barrier = Barrier::new(THREADS);
    let mut blocks: Vec<usize> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    // SAFETY: the layout is not empty.
                    unsafe { HEAP.alloc(Layout::new::<[u64; 100]>()) }.addr()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), THREADS, "each has its own block");
    let start = (&raw const MEMORY).addr();
    assert!(blocks.iter().all(|block| (start..start + (64 << 10)).contains(block)));
    assert_eq!(live_blocks(HEAP.init().expect("large enough")), THREADS);
}

#[test]
fn layouts_of_a_global_allocator_are_kept() {
    static MEMORY: Memory<{ 64 << 10 }> = Memory::new();
    static HEAP: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    for align_bytes in (0..12).map(|shift| 1 << shift) {
        let layout = Layout::from_size_align(100, align_bytes).expect("a layout");
        // SAFETY: the layout is not empty, and each block is freed once, with its current layout.
        unsafe {
            let block = HEAP.alloc_zeroed(layout);
            assert_eq!(block.addr() % align_bytes, 0);
            assert_eq!(std::slice::from_raw_parts(block, 100), [0; 100]);
            block.write_bytes(9, 100);
            let block = HEAP.realloc(block, layout, 5000);
            assert_eq!(block.addr() % align_bytes, 0);
            assert_eq!(std::slice::from_raw_parts(block, 100), [9; 100]);
            let layout = Layout::from_size_align(5000, align_bytes).expect("a layout");
            assert!(HEAP.realloc(block, layout, 1 << 20).is_null(), "more than the memory");
            assert_eq!(std::slice::from_raw_parts(block, 100), [9; 100]);
            HEAP.dealloc(block, layout);
        }
    }
    assert_eq!(live_blocks(HEAP.heap().expect("large enough")), 0);
}

#[test]
fn memory_that_is_too_small_or_taken_is_refused() {
    static SMALL: Memory<100> = Memory::new();
    static HEAP: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&SMALL, AnySlot);
    let layout = Layout::new::<u64>();
    // SAFETY: the layout is not empty.
    assert!(unsafe { HEAP.alloc(layout) }.is_null());
    assert!(HEAP.heap().is_none());
    let Err(InitError::TooSmall { needed_bytes }) = HEAP.init() else { panic!("100 bytes are too few") };
    assert!(needed_bytes > 100);
    // SAFETY: nothing was allocated, so the free is ignored.
    unsafe { HEAP.dealloc(NonNull::<u64>::dangling().as_ptr().cast(), layout) };

    static MEMORY: Memory<4096> = Memory::new();
    static FIRST: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    static SECOND: Global<Spinning<Tlsf<'static>>, AnySlot> = Global::new(&MEMORY, AnySlot);
    assert!(FIRST.init().is_ok());
    assert!(matches!(SECOND.init().map(|_| ()), Err(InitError::Configuration { .. })));
    assert!(FIRST.init().is_ok());
    assert!(MEMORY.take().is_none());
}

/// A flight recorder behind a global allocator records the alignments that the program requests.
#[test]
fn alignments_reach_the_heap_as_requested() {
    let heap: Spinning<Traced<'_, Tlsf<'_>>> = Locked::new(region(1 << 16), Default::default()).expect("large enough");
    let joint = Joint::new(&heap, AnySlot).expect("its slots are not exclusive");
    const ALIGNMENTS: [usize; 6] = [1, 2, 4, 8, 16, 64];
    for align_bytes in ALIGNMENTS {
        joint.allocate_bytes(24, align_bytes).expect("room");
    }
    let recorded = heap.inspect(|heap| {
        let first_words = heap.ring()[HEAD_BYTES..].chunks_exact(4 * size_of::<usize>());
        let words = first_words.map(|record| usize::from_ne_bytes(*record.first_chunk().expect("a word")));
        words.take(ALIGNMENTS.len()).map(|word| 1 << (word >> ALIGN_SHIFT & 0xFF)).collect::<Vec<usize>>()
    });
    assert_eq!(recorded, ALIGNMENTS);
}
