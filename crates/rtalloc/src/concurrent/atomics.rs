//! The one source of atomic words.
//!
//! Every word that several threads access is a [`Shared`], in the region like all state. What an access does is up to its
//! parameter [`Atomics`]: the processor's instructions ([`Native`]); the same, told to somebody first ([`Told`]), who counts
//! them or decides which thread goes on; or those of a model checker, which the tests bring.
//!
//! Who brings a kind of `Atomics` knows where an access stands in the source: it is the caller's location. The processor's
//! instructions do not ask for it, and their code has nothing of it.
//!
//! A word belongs to one kind of `Atomics` as long as threads share it. Before that, and after, plain accesses to its memory
//! are accesses to it: a heap's control structure is laid out by plain writes.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// How shared words are accessed.
///
/// # Safety
///
/// Each function accesses the word as the function of that name of [`core::sync::atomic`] does.
pub unsafe trait Atomics: Copy + Default + Send + Sync + 'static {
    /// Reads a word.
    ///
    /// # Safety
    ///
    /// `cell` is valid for reads and writes and aligned, and accessed by this kind of `Atomics` alone, here and below.
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W;

    /// Writes a word.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering);

    /// Changes a word, and returns what it was.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Change, operand: W, order: Ordering) -> W;

    /// Writes `new` where `current` stands; returns what stood there, as an error if it was something else. Never fails
    /// spuriously. A failure is ordered as a load with the reading half of `order`.
    ///
    /// # Errors
    ///
    /// What stood there.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W>;
}

/// What is done to a word in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The operand is added, around the end.
    Add,
    /// The bits stay that are set in the operand.
    And,
    /// The bits of the operand are set.
    Or,
    /// The operand takes the word's place.
    Swap,
}

/// A word of which there are atomics.
pub trait Word: Copy + Eq + fmt::Debug + Send + Sync + 'static + sealed::Native {
    /// As the widest word.
    fn widen(self) -> usize;
    /// The low bits of the widest word.
    fn narrow(wide: usize) -> Self;
}

mod sealed {
    use super::{Change, Ordering};

    /// The processor's atomics of a width.
    pub trait Native: Sized {
        /// # Safety
        ///
        /// As [`super::Atomics::load`], here and below.
        unsafe fn load(cell: *mut Self, order: Ordering) -> Self;
        /// # Safety
        ///
        /// As above.
        unsafe fn store(cell: *mut Self, value: Self, order: Ordering);
        /// # Safety
        ///
        /// As above.
        unsafe fn modify(cell: *mut Self, change: Change, operand: Self, order: Ordering) -> Self;
        /// # Safety
        ///
        /// As above.
        unsafe fn compare_exchange(cell: *mut Self, current: Self, new: Self, order: Ordering) -> Result<Self, Self>;
    }
}

/// The order of a compare-and-swap that fails: the half of `order` that reads.
pub const fn reading(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel | Ordering::Acquire => Ordering::Acquire,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

macro_rules! word {
    ($word:ty, $atomic:ty) => {
        impl Word for $word {
            #[inline(always)]
            fn widen(self) -> usize {
                self as usize
            }

            #[inline(always)]
            fn narrow(wide: usize) -> Self {
                wide as Self
            }
        }

        impl sealed::Native for $word {
            #[inline(always)]
            unsafe fn load(cell: *mut Self, order: Ordering) -> Self {
                // SAFETY: the caller's promise, here and below.
                unsafe { <$atomic>::from_ptr(cell) }.load(order)
            }

            #[inline(always)]
            unsafe fn store(cell: *mut Self, value: Self, order: Ordering) {
                // SAFETY: as above.
                unsafe { <$atomic>::from_ptr(cell) }.store(value, order);
            }

            #[inline(always)]
            unsafe fn modify(cell: *mut Self, change: Change, operand: Self, order: Ordering) -> Self {
                // SAFETY: as above.
                let cell = unsafe { <$atomic>::from_ptr(cell) };
                match change {
                    Change::Add => cell.fetch_add(operand, order),
                    Change::And => cell.fetch_and(operand, order),
                    Change::Or => cell.fetch_or(operand, order),
                    Change::Swap => cell.swap(operand, order),
                }
            }

            #[inline(always)]
            unsafe fn compare_exchange(
                cell: *mut Self,
                current: Self,
                new: Self,
                order: Ordering,
            ) -> Result<Self, Self> {
                // SAFETY: as above.
                unsafe { <$atomic>::from_ptr(cell) }.compare_exchange(current, new, order, reading(order))
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u32, AtomicU32);
word!(usize, AtomicUsize);

/// The processor's atomic instructions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

// SAFETY: each is the function of that name.
unsafe impl Atomics for Native {
    #[inline(always)]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        // SAFETY: the caller's promise, here and below.
        unsafe { <W as sealed::Native>::load(cell, order) }
    }

    #[inline(always)]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        // SAFETY: as above.
        unsafe { <W as sealed::Native>::store(cell, value, order) }
    }

    #[inline(always)]
    unsafe fn modify<W: Word>(cell: *mut W, change: Change, operand: W, order: Ordering) -> W {
        // SAFETY: as above.
        unsafe { <W as sealed::Native>::modify(cell, change, operand, order) }
    }

    #[inline(always)]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        // SAFETY: as above.
        unsafe { <W as sealed::Native>::compare_exchange(cell, current, new, order) }
    }
}

/// Which kind of step an access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A change in one step.
    Modify(Change),
    /// A compare-and-swap.
    CompareExchange,
}

/// Who is told of every step before it is made.
///
/// # Safety
///
/// A heap in the midst of an operation is not whole: where [`before`](Self::before) unwinds out of one, that heap is not used any
/// more.
pub unsafe trait Listener: Copy + Default + Send + Sync + 'static {
    /// A step follows. The caller's location is that of the access.
    #[track_caller]
    fn before(step: Step);
}

/// The processor's atomic instructions, each told to `L` first: to count them, or to let other threads go first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told<L: Listener>(PhantomData<L>);

// SAFETY: those of `Native`, after a function that does not access the word.
unsafe impl<L: Listener> Atomics for Told<L> {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        L::before(Step::Load);
        // SAFETY: the caller's promise, here and below.
        unsafe { Native::load(cell, order) }
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        L::before(Step::Store);
        // SAFETY: as above.
        unsafe { Native::store(cell, value, order) }
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Change, operand: W, order: Ordering) -> W {
        L::before(Step::Modify(change));
        // SAFETY: as above.
        unsafe { Native::modify(cell, change, operand, order) }
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        L::before(Step::CompareExchange);
        // SAFETY: as above.
        unsafe { Native::compare_exchange(cell, current, new, order) }
    }
}

/// A word that several threads may access.
#[repr(transparent)]
pub struct Shared<W: Word, A: Atomics = Native> {
    /// Accessed by `A` alone while threads share it.
    word: UnsafeCell<W>,
    atomics: PhantomData<A>,
}

// SAFETY: every access by several threads is an atomic one.
unsafe impl<W: Word, A: Atomics> Sync for Shared<W, A> {}

impl<W: Word, A: Atomics> Shared<W, A> {
    /// A word that nobody shares yet.
    pub const fn new(word: W) -> Self {
        Shared { word: UnsafeCell::new(word), atomics: PhantomData }
    }

    /// The word at an address.
    ///
    /// # Safety
    ///
    /// `word` is aligned and valid for reads and writes for `'a`, and others access it by `A` alone meanwhile.
    #[inline(always)]
    pub const unsafe fn at<'a>(word: *mut W) -> &'a Self {
        // SAFETY: a `Shared` is its word; the caller's promise.
        unsafe { &*word.cast() }
    }

    /// Reads the word.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> W {
        // SAFETY: the word is this one's own, here and below.
        unsafe { A::load(self.word.get(), order) }
    }

    /// Writes the word.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, value: W, order: Ordering) {
        // SAFETY: as above.
        unsafe { A::store(self.word.get(), value, order) }
    }

    /// Adds, around the end, and returns what was there.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as above.
        unsafe { A::modify(self.word.get(), Change::Add, operand, order) }
    }

    /// Clears the bits that the operand lacks, and returns what was there.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as above.
        unsafe { A::modify(self.word.get(), Change::And, operand, order) }
    }

    /// Sets the bits that the operand has, and returns what was there.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as above.
        unsafe { A::modify(self.word.get(), Change::Or, operand, order) }
    }

    /// Puts the operand in the word's place, and returns what was there.
    #[inline(always)]
    #[track_caller]
    pub fn swap(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as above.
        unsafe { A::modify(self.word.get(), Change::Swap, operand, order) }
    }

    /// Writes `new` where `current` stands.
    ///
    /// # Errors
    ///
    /// What stands there instead.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(&self, current: W, new: W, order: Ordering) -> Result<W, W> {
        // SAFETY: as above.
        unsafe { A::compare_exchange(self.word.get(), current, new, order) }
    }
}

impl<W: Word, A: Atomics> fmt::Debug for Shared<W, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}
