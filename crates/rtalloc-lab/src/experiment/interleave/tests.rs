use super::*;
use rtalloc::concurrent::atomics::{Atomics, Shared};
use rtalloc::contract::{
    AllocError, Block, Corruption, InitError, Operation, Progress, Refusals, SharedContract, SharedError, Slot, Steps,
};
use rtalloc::{RegionAllocator as _, Tlsf};
use rtalloc_subjects::shared::Tuned;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

const CELL_BYTES: usize = 1024;
const CELLS: usize = 8;

/// Cells of one size after a word with a bit for each free cell. `LOOPS` retries the compare-and-swap on a bit until it
/// succeeds, which depends on the other threads; otherwise each bit is tried once. Both claim the bound of the second
/// variant.
struct Pool<const LOOPS: bool, const LEAKS: bool, A: Atomics>(*mut u8, PhantomData<A>);

// SAFETY: the region is shared only through atomic words, and a cell belongs to the thread that took its bit.
unsafe impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> Send for Pool<LOOPS, LEAKS, A> {}
// SAFETY: several threads access the region only through atomic words.
unsafe impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> Sync for Pool<LOOPS, LEAKS, A> {}

impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> Pool<LOOPS, LEAKS, A> {
    fn free(&self) -> &Shared<usize, A> {
        // SAFETY: the region begins with the word.
        unsafe { Shared::at(self.0.cast()) }
    }

    fn cell(&self, index: usize) -> NonNull<u8> {
        // SAFETY: the cells follow the word, within the region.
        unsafe { NonNull::new_unchecked(self.0.add(CELL_BYTES * (index + 1))) }
    }
}

// SAFETY: a cell belongs to the thread that took its bit, and to no other until the bit is set again.
unsafe impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> SharedAllocator<'static> for Pool<LOOPS, LEAKS, A> {
    type Config = ();
    type Slot<'h> = Hand<'h, LOOPS, LEAKS, A>;

    const CONTRACT: SharedContract = SharedContract {
        single_user: <Tlsf<'static>>::CONTRACT,
        allocate: Progress::WaitFree,
        deallocate: Progress::WaitFree,
        slots_are_exclusive: false,
        exhaustion_is_certain: false,
    };

    fn new(region: &'static mut [MaybeUninit<u8>], (): ()) -> Result<Self, InitError> {
        let start: *mut u8 = region.as_mut_ptr().cast();
        // SAFETY: the region is large enough, aligned, and not in use.
        unsafe { start.cast::<usize>().write((1 << CELLS) - 1) };
        Ok(Self(start, PhantomData))
    }

    fn slots(&self) -> usize {
        usize::MAX
    }

    fn take(&self, _slot: usize) -> bool {
        true
    }

    unsafe fn release(&self, _slot: usize) {}

    unsafe fn slot(&self, _slot: usize) -> Self::Slot<'_> {
        Hand(self)
    }

    fn max_steps(&self, operation: Operation) -> Option<Steps> {
        Some(match operation {
            Operation::Allocate { .. } => Steps { read_modify_writes: CELLS, loads: 1, stores: 0 },
            Operation::Deallocate { .. } => Steps { read_modify_writes: 1, loads: 0, stores: 0 },
            Operation::Reallocate { .. } | Operation::Reclaim { .. } => Steps::default(),
        })
    }

    fn refusals(&self) -> Refusals {
        Refusals::default()
    }

    fn largest_allocatable(&mut self) -> usize {
        if self.free().load(Ordering::Relaxed) == 0 { 0 } else { CELL_BYTES }
    }

    fn walk(&mut self, _visitor: &mut dyn FnMut(Block)) {}

    fn check(&mut self) -> Result<(), Corruption> {
        Ok(())
    }

    fn fingerprint(&mut self, word: &mut dyn FnMut(usize)) {
        word(self.free().load(Ordering::Relaxed));
    }
}

impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> Tuned for Pool<LOOPS, LEAKS, A> {}

struct Hand<'h, const LOOPS: bool, const LEAKS: bool, A: Atomics>(&'h Pool<LOOPS, LEAKS, A>);

// SAFETY: a cell belongs to the thread that took its bit, until that thread frees it.
unsafe impl<const LOOPS: bool, const LEAKS: bool, A: Atomics> Slot for Hand<'_, LOOPS, LEAKS, A> {
    fn allocate_bytes(&mut self, size_bytes: usize, _align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if size_bytes > CELL_BYTES {
            return Err(SharedError::Request(AllocError::TooLarge));
        }
        let free = self.0.free();
        let mut seen = free.load(Ordering::Relaxed);
        if LOOPS {
            while seen != 0 {
                match free.compare_exchange(seen, seen & (seen - 1), Ordering::AcqRel) {
                    Ok(_) => return Ok(self.0.cell(seen.trailing_zeros() as usize)),
                    Err(now) => seen = now,
                }
            }
        } else if LEAKS {
            // A lost update: writes a value computed from a read, although another thread may have written in between.
            if seen != 0 {
                free.swap(seen & (seen - 1), Ordering::AcqRel);
                return Ok(self.0.cell(seen.trailing_zeros() as usize));
            }
        } else {
            for index in 0..CELLS {
                let bit = 1 << index;
                if free.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                    return Ok(self.0.cell(index));
                }
            }
        }
        Err(SharedError::Contended)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let index = (block.as_ptr() as usize - self.0.0 as usize) / CELL_BYTES - 1;
        self.0.free().fetch_or(1 << index, Ordering::AcqRel);
    }

    unsafe fn reallocate_bytes(
        &mut self,
        _block: NonNull<u8>,
        _size_bytes: usize,
        _align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        Err(SharedError::Request(AllocError::TooLarge))
    }

    unsafe fn usable_size(&self, _block: NonNull<u8>) -> usize {
        CELL_BYTES
    }
}

type Scheduled = rtalloc::concurrent::atomics::WithListener<Turnstile>;

const BYTES: usize = 16 << 10;

fn found<H: Tuned + 'static>(settings: &Settings) -> Explored {
    explore(candidate::<H>("pool", BYTES), settings, &mut |_| {})
}

fn few() -> Settings {
    Settings { schedules: 60, ..Settings::default() }
}

#[test]
fn a_wait_free_pool_keeps_its_bound_and_every_adversary_plays() {
    let explored = found::<Pool<false, false, Scheduled>>(&few());
    assert_eq!(explored.fault, None);
    // Three schedules without interleaving, sixty of each of the five other adversaries, on each of the six loads.
    assert_eq!(explored.schedules, (3 + 5 * 60) * 6);
    let allocate = &explored.operations[0];
    assert_eq!((allocate.operation.as_str(), allocate.most.loads), ("allocate", 1));
    assert_eq!(allocate.most.read_modify_writes, CELLS as u64, "a full pool is asked for every cell");
    let free = &explored.operations[1];
    assert_eq!((free.operation.as_str(), free.most_total), ("free", 1));
    assert!(allocate.refused.contended > 0 && allocate.refused.request > 0, "{:?}", allocate.refused);
}

#[test]
fn a_loop_that_others_can_keep_turning_is_found() {
    // Without contention, it takes one step for the load and one for the cell.
    let alone = Settings { threads: 1, ..few() };
    assert_eq!(found::<Pool<true, false, Scheduled>>(&alone).fault, None);
    // Other threads must interfere CELLS times, which is unlikely in this small number of random schedules.
    for load in [Load::II, Load::Mixed] {
        let settings = Settings { threads: 4, schedules: 400, loads: vec![load], ..Settings::default() };
        let fault = found::<Pool<true, false, Scheduled>>(&settings).fault.expect("the bound is exceeded");
        assert!(fault.contains("its bound is"), "{fault}");
    }
}

#[test]
fn two_owners_of_a_block_are_found() {
    let fault = found::<Pool<false, true, Scheduled>>(&few()).fault.expect("two threads read the same word");
    assert!(fault.contains("overlaps"), "{fault}");
}

#[test]
fn the_same_seed_finds_the_same_and_another_one_something_else() {
    let explored =
        |seed| found::<Pool<false, false, Scheduled>>(&Settings { seed, schedules: 30, ..Settings::default() });
    let first = explored(1);
    assert_eq!(first, explored(1));
    assert_ne!(first.decisions, explored(2).decisions);
}
