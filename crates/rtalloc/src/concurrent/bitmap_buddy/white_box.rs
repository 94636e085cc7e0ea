//! White-box tests: an operation interrupted at each of its steps by another one, and damaged bytes.

extern crate std;
use super::shape::longest_run;
use super::{BitmapBuddy, BitmapConfig, Shape, Trimmed, Whole, tag};
use crate::concurrent::atomics::{Listener, Step, WithListener};
use crate::contract::{Operation, SharedAllocator, SharedError, Slot, Steps};
use core::cell::{Cell, RefCell};
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use std::boxed::Box;
use std::vec::Vec;

const LEAF: usize = 16;

type Heap<S> = BitmapBuddy<'static, LEAF, WithListener<Interrupter>, S>;
type Answer = Result<NonNull<u8>, SharedError>;

std::thread_local! {
    /// Steps of the operation under test until the interruption.
    static UNTIL: Cell<Option<usize>> = const { Cell::new(None) };
    static INTERRUPTION: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static TAKEN: Cell<Steps> = const { Cell::new(Steps { read_modify_writes: 0, loads: 0, stores: 0 }) };
}

/// Runs another operation before one step.
#[derive(Clone, Copy, Debug, Default)]
struct Interrupter;

// SAFETY: a panic fails the test, and the heap is not used after it.
unsafe impl Listener for Interrupter {
    fn before(step: Step) {
        let Some(until) = UNTIL.get() else { return };
        if until == 0 {
            UNTIL.set(None);
            if let Some(interruption) = INTERRUPTION.take() {
                interruption();
            }
        }
        // There are no further interruptions.
        UNTIL.set(Some(until.wrapping_sub(1)));
        let mut taken = TAKEN.get();
        match step {
            Step::Load => taken.loads += 1,
            Step::Store => taken.stores += 1,
            Step::Modify(_) | Step::CompareExchange => taken.read_modify_writes += 1,
        }
        TAKEN.set(taken);
    }
}

/// `max_words` bounds the words of the bitmaps, and not by much, wherever the region begins.
#[test]
fn most_words_is_a_tight_bound() {
    let memory = std::vec![MaybeUninit::new(0_u8); 3 << 16].leak();
    for (start, len_bytes) in [(0, 1 << 17), (16, 1 << 17), (8 << 10, 100_000), (40_000, 9_999), (100, 700)] {
        let Ok(heap) = BitmapBuddy::<'_, LEAF>::new(&mut memory[start..start + len_bytes], BitmapConfig { slots: 1 })
        else {
            panic!("no heap in {len_bytes} bytes");
        };
        // SAFETY: the heap is initialised.
        let control = unsafe { heap.control.as_ref() };
        let words: usize = (0..=control.top).map(|level| control.planned(level).words).sum();
        let bound = BitmapBuddy::<'_, LEAF>::max_words(len_bytes);
        assert!(words <= bound && bound <= words + words / 4 + 6, "{words} words of {len_bytes} bytes, bound {bound}");
    }
}

/// Runs an operation, and another one before its step number `step`, if it has that many. Returns the operation's
/// result, its own steps, and whether it was interrupted.
fn interrupted<R>(step: usize, operation: impl FnOnce() -> R, other: impl FnOnce() + 'static) -> (R, Steps, bool) {
    INTERRUPTION.set(Some(Box::new(other)));
    TAKEN.set(Steps::default());
    UNTIL.set(Some(step));
    let answer = operation();
    UNTIL.set(None);
    (answer, TAKEN.get(), INTERRUPTION.take().is_none())
}

/// A heap of `leaves` leaves, all taken one by one, in memory that is never freed.
struct Scene<S: Shape> {
    heap: &'static Heap<S>,
    leaves: Vec<NonNull<u8>>,
}

impl<S: Shape> Scene<S> {
    /// The heap's leaves begin at a multiple of `LEAF * leaves`.
    fn new(leaves: usize) -> Self {
        let most = leaves * LEAF;
        let bytes = most.max(4096) + most;
        let layout = std::alloc::Layout::from_size_align(bytes, most.max(4096)).unwrap();
        // SAFETY: the layout is not empty; the memory is initialised where it is read, and never freed.
        let region =
            unsafe { core::slice::from_raw_parts_mut(std::alloc::alloc(layout).cast::<MaybeUninit<u8>>(), bytes) };
        // The leaves before the last ones are not needed: they are taken, and stay so.
        let heap: &'static Heap<S> = Box::leak(Box::new(BitmapBuddy::new(region, BitmapConfig { slots: 2 }).unwrap()));
        let from = heap_end(heap) - most;
        let mut taken = Vec::new();
        // SAFETY: slot numbers are hints: any number is valid.
        while let Ok(block) = unsafe { heap.slot(0) }.allocate_bytes(1, 1) {
            taken.push(block);
        }
        taken.retain(|block| block.addr().get() >= from);
        taken.sort();
        assert_eq!(taken.len(), leaves);
        Scene { heap, leaves: taken }
    }

    fn allocate(&self, slot: usize, leaves: usize) -> Answer {
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.heap.slot(slot) }.allocate_bytes(leaves * LEAF, 1)
    }

    fn free(&self, slot: usize, block: NonNull<u8>) {
        // SAFETY: slot numbers are hints; callers free live blocks.
        unsafe { self.heap.slot(slot).deallocate(block) };
    }

    /// Whether a block of this many leaves is live.
    fn has(&self, block: NonNull<u8>, leaves: usize) -> bool {
        // SAFETY: slot numbers are hints; the size of a block that is not live is 0.
        unsafe { self.heap.slot(0).usable_size(block) == leaves * LEAF }
    }

    /// At rest: all invariants hold.
    fn assert_whole(&self) {
        // SAFETY: slot numbers are hints: any number is valid.
        let slot = unsafe { self.heap.slot(0) };
        assert_eq!(slot.verify(), Ok(()));
    }

    /// Clears entries of lists whose words have nothing.
    fn list_afresh(&self) {
        // SAFETY: slot numbers are hints; levels have their words, and nodes for the words above.
        unsafe {
            let slot = self.heap.slot(0);
            for level in 0..slot.control.top {
                for above in level + 1..=slot.control.top {
                    let nodes = slot.control.level(above);
                    for list in 0..S::FAN_LOG2 as usize {
                        for node in nodes.first..nodes.first + nodes.words {
                            slot.control.node(level, list, above, node).store(0, Relaxed);
                        }
                    }
                }
                let words = slot.control.level(level);
                for word in words.first..words.first + words.words {
                    if let Some(value) = NonZeroUsize::new(slot.control.word(level, word).load(Relaxed)) {
                        slot.list(level, longest_run::<S>(value), level + 1, word);
                    }
                }
            }
        }
    }

    /// Bytes of the largest block.
    fn largest(&self) -> usize {
        // SAFETY: slot numbers are hints: any number is valid.
        unsafe { self.heap.slot(0) }.largest()
    }

    fn assert_within(&self, steps: Steps, operation: Operation) {
        let most = self.heap.max_steps(operation).unwrap();
        assert!(steps.within(most), "{operation:?} took {steps:?}, at most {most:?}");
    }
}

fn heap_end<S: Shape>(heap: &Heap<S>) -> usize {
    // SAFETY: the heap is initialised.
    unsafe { heap.control.as_ref() }.end * LEAF
}

/// Runs a scene once for each step of an operation, until the operation ends before the interruption.
fn at_every_step(mut once: impl FnMut(usize) -> bool) {
    let mut step = 0;
    while once(step) {
        step += 1;
    }
    assert!(step > 2, "an operation of {step} steps");
}

/// While the last of four leaves is freed and their word closed, no search for all four returns `Exhausted`: not even
/// between the two words, when no bit stands for any of them.
fn closing<S: Shape>() {
    let mut answers = Vec::new();
    at_every_step(|step| {
        let scene: Scene<S> = Scene::new(16);
        let scene: &'static Scene<S> = Box::leak(Box::new(scene));
        (0..3).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
        let answer: &'static Cell<Option<Answer>> = Box::leak(Box::new(Cell::new(None)));
        let ((), steps, is_interrupted) =
            interrupted(step, || scene.free(0, scene.leaves[3]), || answer.set(Some(scene.allocate(1, 4))));
        scene.assert_within(steps, Operation::Deallocate { size_bytes: LEAF, align_bytes: 1 });
        if is_interrupted {
            answers.extend(answer.get());
        }
        scene.assert_whole();
        is_interrupted
    });
    let begun = answers.iter().position(|answer| *answer != Err(SharedError::Exhausted)).unwrap();
    let set = answers.iter().position(Result::is_ok).unwrap();
    assert!(answers[begun..set].iter().all(|answer| *answer == Err(SharedError::Contended)), "{answers:?}");
    assert!(answers[set..].iter().all(Result::is_ok), "{answers:?}");
    // The bits, the closing and the bit above, at least.
    assert!(set - begun >= 3, "{answers:?}");
}

/// While a bit is opened for one leaf, no search for another returns `Exhausted`.
fn opening<S: Shape>() {
    let mut seen = [0; 2];
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        (0..4).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
        let answer: &'static Cell<Option<Answer>> = Box::leak(Box::new(Cell::new(None)));
        let (mine, steps, is_interrupted) =
            interrupted(step, || scene.allocate(0, 1), || answer.set(Some(scene.allocate(1, 1))));
        scene.assert_within(steps, Operation::Allocate { size_bytes: LEAF, align_bytes: 1 });
        if let Some(answer) = answer.get() {
            assert_ne!(answer, Err(SharedError::Exhausted), "at step {step}");
            seen[usize::from(answer.is_ok())] += 1;
            if let (Ok(mine), Ok(other)) = (mine, answer) {
                assert_ne!(mine, other);
            }
        }
        assert_ne!(mine.err(), Some(SharedError::Exhausted));
        scene.assert_whole();
        is_interrupted
    });
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// Two concurrent frees of leaves of one word close it once, in either order.
fn closing_together<S: Shape>() {
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        (0..14).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
        let ((), steps, is_interrupted) =
            interrupted(step, || scene.free(0, scene.leaves[14]), || scene.free(1, scene.leaves[15]));
        scene.assert_within(steps, Operation::Deallocate { size_bytes: LEAF, align_bytes: 1 });
        if !is_interrupted {
            scene.free(1, scene.leaves[15]);
        }
        scene.assert_whole();
        assert_eq!(scene.largest(), 16 * LEAF);
        is_interrupted
    });
}

/// A word that closes is taken from, and freed to, by another operation: it stays open, or closes later.
fn closing_against_a_taker<S: Shape>() {
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        (0..15).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
        let ((), _, is_interrupted) = interrupted(
            step,
            || scene.free(0, scene.leaves[15]),
            || {
                let taken = [scene.allocate(1, 1), scene.allocate(1, 2)];
                taken.into_iter().flatten().for_each(|block| scene.free(1, block));
            },
        );
        scene.assert_whole();
        assert_eq!(scene.largest(), 16 * LEAF);
        is_interrupted
    });
}

/// A word is full, and another operation takes a leaf of it before it is closed: it stays open and is found.
fn kept_open<S: Shape>() {
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        (0..4).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
        let three = scene.allocate(0, 3).unwrap();
        scene.list_afresh();
        let other = || {
            let _ = scene.allocate(1, 1);
        };
        let ((), steps, is_interrupted) = interrupted(step, || scene.free(0, three), other);
        scene.assert_within(steps, Operation::Deallocate { size_bytes: 3 * LEAF, align_bytes: 1 });
        scene.assert_whole();
        is_interrupted
    });
}

/// A word is unlisted while another operation frees a bit of it: it is listed afterwards.
fn striking_out<S: Shape>() {
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(64)));
        // One free leaf in each of four words, all listed; then none in three of them, unknown to the searches.
        let free = [0, 20, 40, 60].map(|leaf| scene.leaves[leaf]);
        free.iter().for_each(|&block| scene.free(0, block));
        // SAFETY: slot numbers are hints: any number is valid.
        let slot = unsafe { scene.heap.slot(0) };
        for &block in &free[..3] {
            let leaf = block.addr().get() / LEAF;
            // SAFETY: the level has the word of the leaf.
            unsafe {
                let word = super::layout::word_of::<S>(leaf);
                slot.control.word(0, word).fetch_and(!(1 << super::layout::place_of::<S>(leaf)), Relaxed);
                slot.write_tag(leaf, 1);
                // The word that the slot served last is another one.
                let level = slot.control.level(0);
                slot.control.served(0, 0).store(level.first, Relaxed);
            }
        }
        let (mine, steps, is_interrupted) = interrupted(step, || scene.allocate(0, 1), move || scene.free(1, free[0]));
        scene.assert_within(steps, Operation::Allocate { size_bytes: LEAF, align_bytes: 1 });
        assert!(mine.is_ok());
        scene.assert_whole();
        is_interrupted
    });
}

/// Of two concurrent frees of a block, one frees it.
fn freeing_twice<S: Shape>() {
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        let ((), _, is_interrupted) =
            interrupted(step, || scene.free(0, scene.leaves[5]), || scene.free(1, scene.leaves[5]));
        scene.assert_whole();
        assert_eq!(scene.largest(), LEAF);
        is_interrupted
    });
}

/// Of two frees of a block, the slower one finds a longer block there, allocated meanwhile: that one stays.
fn freed_and_handed_out_again<S: Shape>() {
    let mut seen = 0;
    at_every_step(|step| {
        let scene: &'static Scene<S> = Box::leak(Box::new(Scene::new(16)));
        scene.free(0, scene.leaves[1]);
        let longer: &'static Cell<Option<NonNull<u8>>> = Box::leak(Box::new(Cell::new(None)));
        let other = || {
            scene.free(1, scene.leaves[0]);
            longer.set(scene.allocate(1, 2).ok());
        };
        let ((), _, is_interrupted) = interrupted(step, || scene.free(0, scene.leaves[0]), other);
        if let Some(block) = longer.get() {
            assert_eq!(block, scene.leaves[0]);
            // Before the first look, it cannot be distinguished from the block that was freed.
            let is_live = scene.has(block, 2);
            assert!(step == 0 || is_live, "at step {step}");
            seen += usize::from(step != 0);
            if is_live {
                scene.free(1, block);
            }
        }
        scene.assert_whole();
        assert_eq!(scene.largest(), 2 * LEAF);
        is_interrupted
    });
    assert!(seen > 0);
}

/// If any bit of a live block's bytes is flipped, freeing the block is refused.
fn flipped_bits<S: Shape>() {
    let scene: Scene<S> = Scene::new(64);
    (0..64).for_each(|leaf| scene.free(0, scene.leaves[leaf]));
    // SAFETY: slot numbers are hints: any number is valid.
    let slot = unsafe { scene.heap.slot(0) };
    for leaves in 1..=32 {
        let block = scene.allocate(0, leaves).unwrap();
        let leaf = block.addr().get() / LEAF;
        let bytes = if S::TRIMS && !leaves.is_power_of_two() { 1 + tag::digits(leaves.ilog2() as usize) } else { 1 };
        for byte in 0..bytes {
            for bit in 0..8 {
                // SAFETY: the leaf is one of the heap's.
                let cell = unsafe { slot.control.tag(leaf + byte) };
                let whole = cell.load(Relaxed);
                cell.store(whole ^ 1 << bit, Relaxed);
                scene.free(0, block);
                // For a block that is not trimmed, only the first byte can be damaged.
                cell.store(whole, Relaxed);
                scene.assert_whole();
                // SAFETY: the block is live.
                let usable_bytes = unsafe { slot.usable_size(block) };
                assert!(usable_bytes >= leaves * LEAF, "bit {bit} of byte {byte} of {leaves} leaves");
            }
        }
        scene.free(0, block);
    }
    scene.assert_whole();
    assert_eq!(scene.largest(), 64 * LEAF);
}

macro_rules! shapes {
    ($($test:ident)*) => {
        $(
            mod $test {
                #[test]
                fn trimmed() {
                    super::$test::<super::Trimmed<2>>();
                }
                #[test]
                fn whole() {
                    super::$test::<super::Whole<2>>();
                }
                #[test]
                fn words_of_two() {
                    super::$test::<super::Trimmed<1>>();
                }
            }
        )*
    };
}

shapes! {
    closing
    opening
    closing_together
    closing_against_a_taker
    kept_open
    striking_out
    freeing_twice
    freed_and_handed_out_again
    flipped_bits
}
