//! Heaps on a core without compare-and-swap, which the main program and two interrupt levels share.
//!
//! Each level has a slot. It allocates, frees, and passes blocks to the other levels, which free them. Timers interrupt
//! the main program and the lower handler at arbitrary instructions. Blocks contain patterns; at the end every block is
//! freed, and the heap must be empty and intact. The argument is the heap's name; one is used as a `Global`, which
//! gets the number of the level from `board::level`.
//!
//! `ci/firmware.sh` runs this, and then a copy of the program whose RMWs leave interrupts on: there each heap must
//! fail.

#![no_std]
#![no_main]

#[cfg_attr(target_arch = "arm", path = "microbit.rs")]
#[cfg_attr(target_arch = "riscv32", path = "virt.rs")]
mod board;
mod console;

use console::{Console, argument, stop};
use core::cell::UnsafeCell;
use core::fmt::Write;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, compiler_fence};
use rtalloc::adapt::{Global, Numbered};
use rtalloc::concurrent::atomics::masking::{InterruptMasking, SingleCore};
use rtalloc::concurrent::tree_buddy::{Faithful, OutOfBand};
use rtalloc::contract::Misuse;
use rtalloc::{BitmapBuddy, BitmapConfig, PooledArenas, PooledArenasConfig, SharedAllocator, Slot, Tlsf, TreeBuddy};

/// The main program, and the interrupt levels in the order of their priorities.
const LEVELS: usize = 3;
/// Blocks that a level has at most.
const BLOCKS: usize = 6;
/// Words of the largest block.
const MOST_WORDS: usize = 160;

#[derive(Clone, Copy, Default)]
struct Board;
// SAFETY: the boards have one core, which starts in its most privileged mode and stays there. The handlers of faults
// use no heap.
unsafe impl SingleCore for Board {}
type Rmws = InterruptMasking<Board>;
type Pooled = PooledArenas<'static, Tlsf<'static>, Rmws>;
type Shared = Global<Pooled, Numbered>;

critical_section::set_impl!(Board);
// SAFETY: the program's only critical section is in `Global::init_in`, before interrupts are on.
unsafe impl critical_section::Impl for Board {
    unsafe fn acquire() -> critical_section::RawRestoreState {}
    unsafe fn release(_: critical_section::RawRestoreState) {}
}

/// A static that the program accesses where a comment says why it may.
struct Place<T>(UnsafeCell<T>);
// SAFETY: a place is accessed by one level alone, or by the main program while interrupts are off.
unsafe impl<T> Sync for Place<T> {}

#[repr(align(128))]
struct Region([MaybeUninit<u8>; 8 << 10]);

/// The region of the heap that is tested.
static REGION: Place<Region> = Place(UnsafeCell::new(Region([MaybeUninit::new(0); 8 << 10])));
/// The heap, one pointer, while interrupts are on.
static HEAP: Place<MaybeUninit<usize>> = Place(UnsafeCell::new(MaybeUninit::uninit()));
/// The heap as a `Global`, in the test of that.
static GLOBAL: Place<MaybeUninit<Shared>> = Place(UnsafeCell::new(MaybeUninit::uninit()));
/// The `fn(usize)` that executes an operation of a level in the heap.
static OPERATION: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// What only the level itself accesses, except when interrupts are off.
static STATES: [Place<State>; LEVELS] = [const { Place(UnsafeCell::new(State::new())) }; LEVELS];
/// A block on its way from one level to another, or null. The one writes it where it is null, the other clears it.
static PASSED: [[AtomicPtr<u32>; LEVELS]; LEVELS] = [const { [const { AtomicPtr::new(null_mut()) }; LEVELS] }; LEVELS];
/// Whether a level is in the middle of an operation of the heap.
static IS_OPERATING: [AtomicBool; LEVELS] = [const { AtomicBool::new(false) }; LEVELS];
/// How often each interrupt level preempted an operation of a lower level, by both.
static PREEMPTED: [[AtomicUsize; LEVELS]; LEVELS] = [const { [const { AtomicUsize::new(0) }; LEVELS] }; LEVELS];
static IS_DAMAGED: AtomicBool = AtomicBool::new(false);

struct State {
    random: u32,
    blocks: [*mut u32; BLOCKS],
    operations: usize,
    /// Frees of other levels' blocks.
    remote_frees: usize,
}

impl State {
    const fn new() -> Self {
        State { random: 0, blocks: [null_mut(); BLOCKS], operations: 0, remote_frees: 0 }
    }

    /// A number below `end`, by Marsaglia's xorshift.
    fn below(&mut self, end: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        (self.random >> 8) as usize % end
    }
}

/// Calls an operation of the heap.
fn operate<T>(level: usize, operation: impl FnOnce() -> T) -> T {
    IS_OPERATING[level].store(true, Relaxed);
    compiler_fence(SeqCst);
    let result = operation();
    compiler_fence(SeqCst);
    IS_OPERATING[level].store(false, Relaxed);
    result
}

/// The word of a block at an index, given its first.
fn pattern(first: u32, index: usize) -> u32 {
    first.wrapping_mul(0x9E37_79B9).wrapping_add(index as u32)
}

/// Fills a block. Its first word is the number of words, and a random number.
///
/// # Safety
///
/// The block has `words` words and is the caller's.
unsafe fn fill(block: *mut u32, words: usize, random: usize) {
    let first = words as u32 | (random as u32) << 8;
    // SAFETY: the caller guarantees as many words.
    unsafe {
        block.write_volatile(first);
        (1..words).for_each(|index| block.add(index).write_volatile(pattern(first, index)));
    }
}

/// Compares a block with its pattern.
///
/// # Safety
///
/// The block was filled.
unsafe fn verify(block: *mut u32) {
    // SAFETY: the first word was written; if another value is there, no more than the largest block is read.
    let right = unsafe {
        let first = block.read_volatile();
        let words = (first & 0xFF) as usize;
        (1..=MOST_WORDS).contains(&words)
            && (1..words).all(|index| block.add(index).read_volatile() == pattern(first, index))
    };
    if !right {
        IS_DAMAGED.store(true, Relaxed);
    }
}

/// How the levels use a heap.
trait Operations {
    fn allocate(level: usize, size_bytes: usize) -> Option<NonNull<u8>>;

    /// # Safety
    ///
    /// The block is live, and no longer used.
    unsafe fn deallocate(level: usize, block: NonNull<u8>);
}

/// Each level uses the slot with its number.
struct BySlot<H>(PhantomData<H>);

impl<H: SharedAllocator<'static> + 'static> BySlot<H> {
    fn slot(level: usize) -> H::Slot<'static> {
        // SAFETY: the heap was written before interrupts were on, and is not written while they are. The main program
        // took the slots, one for each level.
        unsafe { (*HEAP.0.get().cast::<H>()).slot(level) }
    }
}

impl<H: SharedAllocator<'static> + 'static> Operations for BySlot<H> {
    fn allocate(level: usize, size_bytes: usize) -> Option<NonNull<u8>> {
        Self::slot(level).allocate_bytes(size_bytes, 4).ok()
    }

    unsafe fn deallocate(level: usize, block: NonNull<u8>) {
        // SAFETY: by this function's contract.
        unsafe { Self::slot(level).deallocate(block) }
    }
}

/// All levels use `GLOBAL`.
struct ByGlobal;

impl Operations for ByGlobal {
    fn allocate(_: usize, size_bytes: usize) -> Option<NonNull<u8>> {
        // SAFETY: `GLOBAL` was written before interrupts were on, and is not written while they are.
        unsafe { (*GLOBAL.0.get()).assume_init_ref() }.allocate_bytes(size_bytes, 4).ok()
    }

    unsafe fn deallocate(_: usize, block: NonNull<u8>) {
        // SAFETY: `GLOBAL` was written before interrupts were on, and is not written while they are. By this function's
        // contract, the block is live, and no longer used.
        unsafe { (*GLOBAL.0.get()).assume_init_ref().deallocate(block) }
    }
}

/// An operation of a level: frees a block that was passed to it, or frees, passes or allocates one of its own.
fn step<O: Operations>(level: usize) {
    // SAFETY: only this level accesses its state now.
    let state = unsafe { &mut *STATES[level].0.get() };
    state.operations += 1;
    let (index, other) = (state.below(BLOCKS), state.below(LEVELS));
    let passed = PASSED[other][level].load(Acquire);
    if let Some(block) = NonNull::new(passed) {
        PASSED[other][level].store(null_mut(), Relaxed);
        state.remote_frees += 1;
        // SAFETY: the other level filled the block and passed it on.
        unsafe {
            verify(passed);
            operate(level, || O::deallocate(level, block.cast()));
        }
        return;
    }
    let own = state.blocks[index];
    if let Some(block) = NonNull::new(own) {
        // SAFETY: the block is this level's, filled.
        unsafe { verify(own) };
        state.blocks[index] = null_mut();
        if other != level && PASSED[level][other].load(Relaxed).is_null() {
            PASSED[level][other].store(own, Release);
        } else {
            // SAFETY: the block is this level's.
            operate(level, || unsafe { O::deallocate(level, block.cast()) });
        }
        return;
    }
    let words = if state.below(32) == 0 { MOST_WORDS } else { 1 + state.below(24) };
    if let Some(block) = operate(level, || O::allocate(level, 4 * words)) {
        // SAFETY: the block has as many words.
        unsafe { fill(block.as_ptr().cast(), words, state.below(1 << 16)) };
        state.blocks[index] = block.as_ptr().cast();
    }
}

/// An interrupt of a level; returns after how many ticks of its timer the next one comes.
fn interrupt(level: usize) -> u32 {
    for lower in 0..level {
        if IS_OPERATING[lower].load(Relaxed) {
            let count = &PREEMPTED[level][lower];
            count.store(count.load(Relaxed) + 1, Relaxed);
        }
    }
    // SAFETY: the main program stored the function before interrupts were on.
    let operation = unsafe { core::mem::transmute::<*mut (), fn(usize)>(OPERATION.load(Relaxed)) };
    operation(level);
    // SAFETY: only this level accesses its state now.
    1 + unsafe { &mut *STATES[level].0.get() }.below(board::MOST_TICKS) as u32
}

/// Reports of misuse are errors of the heap: the program makes none.
fn misused(_: &Misuse) {
    IS_DAMAGED.store(true, Relaxed);
}

/// The region of the heap.
///
/// # Safety
///
/// Called once.
unsafe fn region() -> &'static mut [MaybeUninit<u8>] {
    // SAFETY: by this function's contract there is no other reference.
    unsafe { &mut (*REGION.0.get()).0 }
}

/// Tests a heap by its slots.
fn test<H: SharedAllocator<'static> + 'static>(name: &str, config: H::Config) -> bool {
    // SAFETY: one heap is tested.
    let heap = H::new(unsafe { region() }, config).expect("the region is large enough");
    assert!((0..LEVELS).all(|level| heap.take(level)), "a fresh heap has three free slots");
    test_by::<H, BySlot<H>>(name, heap)
}

/// Tests a heap as a `Global`, which takes the slots.
fn test_global(name: &str, config: PooledArenasConfig) -> bool {
    // SAFETY: an interrupt of a higher level has another number, and each level executes one operation at a time.
    let current = unsafe { Numbered::new(board::level) };
    // SAFETY: interrupts are off, and one heap is tested. A heap is one pointer; the copy is used only while interrupts
    // are off.
    let heap = unsafe {
        let global = (*GLOBAL.0.get()).write(Global::without_memory(current, Some(config)));
        core::ptr::read(global.init_in(region()).expect("the region is large enough"))
    };
    test_by::<Pooled, ByGlobal>(name, heap)
}

/// Tests a heap whose slots are taken; returns whether it stayed intact, and was interrupted often enough to show it.
fn test_by<H: SharedAllocator<'static>, O: Operations>(name: &str, mut heap: H) -> bool {
    // SAFETY: interrupts are off. A heap is one pointer; the copy is not used while this one is.
    unsafe { HEAP.0.get().cast::<H>().write(core::ptr::read(&heap)) };
    OPERATION.store(step::<O> as fn(usize) as *mut (), Relaxed);
    for (level, state) in STATES.iter().enumerate() {
        // SAFETY: interrupts are off.
        unsafe { state.0.get().write(State { random: 0x2545_F491 + level as u32, ..State::new() }) };
    }

    board::start_interrupts();
    let mut steps = 0;
    while steps < board::OPERATIONS && !IS_DAMAGED.load(Relaxed) {
        step::<O>(0);
        steps += 1;
    }
    board::stop_interrupts();

    let (mut operations, mut remote_frees) = (0, 0);
    {
        // SAFETY: interrupts are off, so no other slot is used.
        let mut slot = unsafe { heap.slot(0) };
        let mut free = |block: *mut u32| {
            if let Some(block) = NonNull::new(block) {
                // SAFETY: the block is filled, and its level does not use it any more.
                unsafe {
                    verify(block.as_ptr());
                    slot.deallocate(block.cast());
                }
            }
        };
        for state in &STATES {
            // SAFETY: interrupts are off.
            let state = unsafe { &*state.0.get() };
            state.blocks.into_iter().for_each(&mut free);
            operations += state.operations;
            remote_frees += state.remote_frees;
        }
        PASSED.iter().flatten().for_each(|passed| free(passed.load(Relaxed)));
    }
    for level in 0..LEVELS {
        // SAFETY: interrupts are off, so no other slot is used.
        unsafe { heap.slot(level) }.reclaim(1_000);
    }
    let mut live = 0;
    heap.walk(&mut |block| live += usize::from(!block.free));
    let intact = heap.check().is_ok() && live == 0 && !IS_DAMAGED.load(Relaxed);
    let preempted = [(1, 0), (2, 0), (2, 1)].map(|(by, lower)| PREEMPTED[by][lower].load(Relaxed));
    let [low, high, nested] = preempted;
    let said = writeln!(
        Console,
        "{name}: {operations} operations, {remote_frees} frees of other levels' blocks; preempted within an \
         operation: main by low {low}, main by high {high}, low by high {nested}; live blocks: {live}, intact: {intact}"
    );
    said.is_ok() && intact && preempted.iter().all(|&count| count > board::OPERATIONS / 100)
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    rtalloc::hook::set_misuse_hook(Some(misused));
    let pooled = PooledArenasConfig { slots: LEVELS, reclaim_budget: 2, chunk_bytes: 64 };
    let mut line = [0; 64];
    let name = argument(&mut line);
    let passed = match name {
        "pooled-arenas" => test::<Pooled>(name, pooled),
        "pooled-arenas-global" => test_global(name, pooled),
        "tree-buddy" => test::<TreeBuddy<'static, 64, OutOfBand, Faithful, Rmws>>(name, ()),
        "bitmap-buddy" => test::<BitmapBuddy<'static, 64, Rmws>>(name, BitmapConfig { slots: LEVELS }),
        other => panic!("no heap has the name {other:?}"),
    };
    stop(passed)
}
