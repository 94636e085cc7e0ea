//! The one source of atomic words.
//!
//! Every word that several threads access is a [`Shared`], in the region like all state. Its parameter [`Atomics`]
//! decides what an access does. [`Native`] executes the processor's instructions. [`masking::InterruptMasking`] does
//! without those that some single cores lack. [`WithListener`] first calls a listener, which counts accesses or
//! schedules threads, and then does the same as `Native`. The tests implement it with a model checker.
//!
//! An implementation of `Atomics` can identify the access in the source by the caller's location. `Native` does not use
//! it, so its machine code does not contain it.
//!
//! A word belongs to one implementation of `Atomics` as long as threads share it. Before and after that, it may be
//! accessed by plain reads and writes: a heap initialises its control structure by plain writes.

// Where the processor has no compare-and-swap, and in the documentation of every target.
#[cfg(any(doc, all(not(target_has_atomic = "ptr"), any(target_arch = "arm", target_arch = "riscv32"))))]
pub mod masking;

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// How shared words are accessed.
///
/// # Safety
///
/// Each function accesses the word like the function of the same name in [`core::sync::atomic`].
pub unsafe trait Atomics: Copy + Default + Send + Sync + 'static {
    /// Reads a word.
    ///
    /// # Safety
    ///
    /// `cell` is valid for reads and writes and aligned, and accessed only through this implementation of `Atomics`.
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W;

    /// Writes a word.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering);

    /// Modifies a word atomically, and returns its previous value.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, rmw: Rmw, operand: W, order: Ordering) -> W;

    /// Writes `new` if the word equals `current`. Returns the previous value, as an error if it differs. Never fails
    /// spuriously. A failure is ordered as a load with the load half of `order`.
    ///
    /// # Errors
    ///
    /// The previous value.
    ///
    /// # Safety
    ///
    /// As [`load`](Self::load).
    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W>;
}

/// An atomic read-modify-write (RMW).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rmw {
    /// Adds the operand, wrapping around.
    Add,
    /// Bitwise and with the operand.
    And,
    /// Bitwise or with the operand.
    Or,
    /// Replaces the word by the operand.
    Swap,
}

/// A type with atomic accesses.
pub trait Word: Copy + Eq + fmt::Debug + Send + Sync + 'static + sealed::Native {
    /// Widens to `usize`.
    fn widen(self) -> usize;
    /// The low bits of a `usize`.
    fn narrow(wide: usize) -> Self;
}

mod sealed {
    use super::Ordering;

    /// The processor's atomic instructions for one width.
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
        #[cfg(target_has_atomic = "ptr")]
        unsafe fn modify(cell: *mut Self, rmw: super::Rmw, operand: Self, order: Ordering) -> Self;
        /// # Safety
        ///
        /// As above.
        #[cfg(target_has_atomic = "ptr")]
        unsafe fn compare_exchange(cell: *mut Self, current: Self, new: Self, order: Ordering) -> Result<Self, Self>;
    }
}

/// The load half of `order`, for a compare-and-swap that fails.
#[inline(always)]
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
                // SAFETY: `cell` is valid, aligned and only accessed atomically, by this function's contract.
                unsafe { <$atomic>::from_ptr(cell) }.load(order)
            }

            #[inline(always)]
            unsafe fn store(cell: *mut Self, value: Self, order: Ordering) {
                // SAFETY: `cell` is valid, aligned and only accessed atomically, by this function's contract.
                unsafe { <$atomic>::from_ptr(cell) }.store(value, order);
            }

            #[cfg(target_has_atomic = "ptr")]
            #[inline(always)]
            unsafe fn modify(cell: *mut Self, rmw: Rmw, operand: Self, order: Ordering) -> Self {
                // SAFETY: `cell` is valid, aligned and only accessed atomically, by this function's contract.
                let cell = unsafe { <$atomic>::from_ptr(cell) };
                match rmw {
                    Rmw::Add => cell.fetch_add(operand, order),
                    Rmw::And => cell.fetch_and(operand, order),
                    Rmw::Or => cell.fetch_or(operand, order),
                    Rmw::Swap => cell.swap(operand, order),
                }
            }

            #[cfg(target_has_atomic = "ptr")]
            #[inline(always)]
            unsafe fn compare_exchange(
                cell: *mut Self,
                current: Self,
                new: Self,
                order: Ordering,
            ) -> Result<Self, Self> {
                // SAFETY: `cell` is valid, aligned and only accessed atomically, by this function's contract.
                unsafe { <$atomic>::from_ptr(cell) }.compare_exchange(current, new, order, reading(order))
            }
        }
    };
}

word!(u8, AtomicU8);
word!(u32, AtomicU32);
word!(usize, AtomicUsize);

/// The processor's atomic instructions. Where it has no compare-and-swap, a program with a heap that needs one does not
/// compile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

// SAFETY: each function is the one of the same name in `core::sync::atomic`.
unsafe impl Atomics for Native {
    #[inline(always)]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        // SAFETY: `cell` is valid, aligned and accessed through `Native` alone, by the contract of `Atomics::load`.
        unsafe { <W as sealed::Native>::load(cell, order) }
    }

    #[inline(always)]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        // SAFETY: `cell` is valid, aligned and accessed through `Native` alone, by the contract of `Atomics::load`.
        unsafe { <W as sealed::Native>::store(cell, value, order) }
    }

    #[inline(always)]
    unsafe fn modify<W: Word>(cell: *mut W, rmw: Rmw, operand: W, order: Ordering) -> W {
        #[cfg(target_has_atomic = "ptr")]
        // SAFETY: `cell` is valid, aligned and accessed through `Native` alone, by the contract of `Atomics::load`.
        return unsafe { <W as sealed::Native>::modify(cell, rmw, operand, order) };
        #[cfg(not(target_has_atomic = "ptr"))]
        {
            let _ = (cell, rmw, order);
            const { needs_compare_and_swap::<W>() }
            operand
        }
    }

    #[inline(always)]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        #[cfg(target_has_atomic = "ptr")]
        // SAFETY: `cell` is valid, aligned and accessed through `Native` alone, by the contract of `Atomics::load`.
        return unsafe { <W as sealed::Native>::compare_exchange(cell, current, new, order) };
        #[cfg(not(target_has_atomic = "ptr"))]
        {
            let _ = (cell, current, order);
            const { needs_compare_and_swap::<W>() }
            Err(new)
        }
    }
}

/// Ends the compilation of a program that uses an RMW of [`Native`].
#[cfg(not(target_has_atomic = "ptr"))]
const fn needs_compare_and_swap<W: Word>() {
    assert!(
        size_of::<W>() == 0,
        "this processor has no compare-and-swap: choose `InterruptMasking` instead of `Native`"
    );
}

/// The kinds of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An atomic read-modify-write.
    Modify(Rmw),
    /// A compare-and-swap.
    CompareExchange,
}

/// Is called before every access.
///
/// # Safety
///
/// In the middle of an operation a heap is inconsistent: if [`before`](Self::before) unwinds out of one, it must not be
/// used.
pub unsafe trait Listener: Copy + Default + Send + Sync + 'static {
    /// Called before an access, with the access as the caller's location.
    #[track_caller]
    fn before(step: Step);
}

/// The processor's atomic instructions, with a call of `L` before each: to count them, or to schedule other threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct WithListener<L: Listener>(PhantomData<L>);

// SAFETY: each access is that of `Native`, after a function that does not access the word.
unsafe impl<L: Listener> Atomics for WithListener<L> {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        L::before(Step::Load);
        // SAFETY: `cell` is valid, aligned and accessed through `WithListener<L>` alone, by the contract of `Atomics::load`.
        unsafe { Native::load(cell, order) }
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        L::before(Step::Store);
        // SAFETY: `cell` is valid, aligned and accessed through `WithListener<L>` alone, by the contract of `Atomics::load`.
        unsafe { Native::store(cell, value, order) }
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, rmw: Rmw, operand: W, order: Ordering) -> W {
        L::before(Step::Modify(rmw));
        // SAFETY: `cell` is valid, aligned and accessed through `WithListener<L>` alone, by the contract of `Atomics::load`.
        unsafe { Native::modify(cell, rmw, operand, order) }
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        L::before(Step::CompareExchange);
        // SAFETY: `cell` is valid, aligned and accessed through `WithListener<L>` alone, by the contract of `Atomics::load`.
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

// SAFETY: every access through a shared reference is atomic.
unsafe impl<W: Word, A: Atomics> Sync for Shared<W, A> {}

impl<W: Word, A: Atomics> Shared<W, A> {
    /// A word that is not shared yet.
    pub const fn new(word: W) -> Self {
        Shared { word: UnsafeCell::new(word), atomics: PhantomData }
    }

    /// The word at an address.
    ///
    /// # Safety
    ///
    /// `word` is aligned and valid for reads and writes for `'a`, and others access it only through `A` during `'a`.
    #[inline(always)]
    pub const unsafe fn at<'a>(word: *mut W) -> &'a Self {
        // SAFETY: a `Shared` is `repr(transparent)` over its word, which the caller guarantees is aligned and valid.
        unsafe { &*word.cast() }
    }

    /// Reads the word.
    #[inline(always)]
    #[track_caller]
    pub fn load(&self, order: Ordering) -> W {
        // SAFETY: the cell is this word's own: valid, aligned, and accessed through `A` alone.
        unsafe { A::load(self.word.get(), order) }
    }

    /// Writes the word.
    #[inline(always)]
    #[track_caller]
    pub fn store(&self, value: W, order: Ordering) {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::store(self.word.get(), value, order) }
    }

    /// Adds the operand, wrapping around, and returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::modify(self.word.get(), Rmw::Add, operand, order) }
    }

    /// Bitwise and with the operand; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::modify(self.word.get(), Rmw::And, operand, order) }
    }

    /// Bitwise or with the operand; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::modify(self.word.get(), Rmw::Or, operand, order) }
    }

    /// Replaces the word by the operand; returns the previous value.
    #[inline(always)]
    #[track_caller]
    pub fn swap(&self, operand: W, order: Ordering) -> W {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::modify(self.word.get(), Rmw::Swap, operand, order) }
    }

    /// Writes `new` if the word equals `current`.
    ///
    /// # Errors
    ///
    /// The word, if it differs from `current`.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(&self, current: W, new: W, order: Ordering) -> Result<W, W> {
        // SAFETY: as for `load`: the cell is this word's own, and accessed through `A` alone.
        unsafe { A::compare_exchange(self.word.get(), current, new, order) }
    }
}

impl<W: Word, A: Atomics> fmt::Debug for Shared<W, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load(Ordering::Relaxed).fmt(f)
    }
}
