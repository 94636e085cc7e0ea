//! The slot of the caller.
//!
//! The operations of a shared heap belong to a slot, and where slots are exclusive no two users may have the same one
//! at a time. An allocator whose operations have no slot, like Rust's global allocator, gets it from a [`CurrentSlot`]:
//!
//! | | the caller's slot | needs |
//! |---|---|---|
//! | [`AnySlot`] | not distinguished: only for heaps whose slots are not exclusive | nothing |
//! | [`Numbered`] | the result of a platform function: the core, the interrupt level, the task | nothing |
//! | `ThreadSlots` | the thread's number, assigned at first use and released when the thread ends | feature `std` |
//! | [`Bounded`] | that of another type, whose requests get a bound | the other type |

/// Returns the slot of the caller.
///
/// # Safety
///
/// While an operation with a number runs, this value gives the same number to no other operation: not in another thread
/// or core, and not in an interrupt. An operation happens before the next one with the same number. Numbers are less
/// than the requested `slots`, for any up to `usize::MAX / 2`. All this is required only if
/// [`EXCLUSIVE`](Self::EXCLUSIVE).
pub unsafe trait CurrentSlot: Send + Sync {
    /// Whether numbers are exclusive, as above. If not, a heap that requires exclusive slots
    /// ([`SharedContract::slots_are_exclusive`](crate::contract::SharedContract::slots_are_exclusive)) does not compile
    /// with it.
    const EXCLUSIVE: bool;

    /// Whether callers insist on memory: a request that their slot refuses is repeated there until no queued remote
    /// free is left, and then tried [`elsewhere`](Self::elsewhere), which has no bound. Otherwise a request is one
    /// operation of the slot, and is refused as the slot refuses it.
    const INSISTS: bool = false;

    /// Whether [`with`](Self::with) serves callers that have no number of [their own](Self::own). If not, their requests
    /// are refused at once.
    const SERVES_OTHERS: bool = true;

    /// A number that other callers may have too: where to start, for heaps whose slots are not exclusive.
    fn hint(&self) -> usize;

    /// The caller's number, if it has one of its own: less than `slots` (at most `usize::MAX / 2`), and no other caller
    /// has it until the operation that follows has ended. [`with`](Self::with) serves the others.
    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        let _ = slots;
        None
    }

    /// Calls an operation with a number less than `slots` that no other caller has until it returns; by default with
    /// the caller's [own](Self::own). `None` if there is no such number: a request is then refused, and a block that
    /// was to be freed stays allocated forever. A type whose numbers are exclusive overrides one of the two, or both.
    /// Must not be called inside another operation of this value.
    #[inline(always)]
    fn with<T>(&self, slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T> {
        self.own(slots).map(operation)
    }

    /// Calls an operation with unused numbers, one after the other, until it returns a value: for when the caller's
    /// slot has no memory left but others may. Must not be called inside another operation. Called only for callers
    /// that [insist](Self::INSISTS), those of `ThreadSlots`.
    fn elsewhere<T>(&self, slots: usize, operation: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let _ = (slots, operation);
        None
    }
}

/// Does not distinguish callers: for heaps whose slots are not exclusive.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnySlot;

// SAFETY: `EXCLUSIVE` is false, so nothing is required.
unsafe impl CurrentSlot for AnySlot {
    const EXCLUSIVE: bool = false;

    #[inline(always)]
    fn hint(&self) -> usize {
        0
    }
}

/// The result of a platform function: for example the core's number, times the interrupt levels, plus the level.
///
/// Where slots are exclusive, a caller whose number is not less than the heap's slots has none: its requests are
/// refused ([`Contended`](crate::contract::SharedError::Contended); by [`Global`](super::Global) a null pointer), and
/// what it frees stays allocated forever, without a report. So a heap needs as many slots as the function has values.
/// Callers do not borrow other slots: a slot that has no memory left refuses, whatever the others have. So a request
/// has the bound of the slot's operation, or of up to 17 where it is refused as `Contended`, as buddies and pooled
/// arenas do. It may be refused while freed blocks wait to be taken back
/// ([`Pending`](crate::contract::SharedError::Pending)): every request takes back some, as many as the heap was
/// configured for (`reclaim_budget`), and [`Global::reclaim`](super::Global::reclaim) takes back more in idle time.
///
/// The function is called by a pointer, through which no bound in instructions is proved: for that, implement
/// [`CurrentSlot`] for a type of your own.
///
/// ```
/// use rtalloc::adapt::Numbered;
///
/// fn core_and_level() -> usize {
///     # fn core_number() -> usize { 0 }
///     # fn interrupt_level() -> usize { 0 }
///     const LEVELS: usize = 4;
///     core_number() * LEVELS + interrupt_level()
/// }
/// // SAFETY: tasks are not moved from core to core, nor preempted by others of their level, and an interrupt of a
/// // higher level has another number.
/// static WHO: Numbered = unsafe { Numbered::new(core_and_level) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    number: fn() -> usize,
}

impl Numbered {
    /// Uses this function.
    ///
    /// # Safety
    ///
    /// From a call of the function until the end of the operation that called it, no other call returns the same
    /// number, and an operation happens before the next one with the same number.
    pub const unsafe fn new(number: fn() -> usize) -> Self {
        Numbered { number }
    }
}

// SAFETY: the caller of `new` guarantees that numbers are exclusive and ordered; `own` checks that they are less than
// `slots`.
unsafe impl CurrentSlot for Numbered {
    const EXCLUSIVE: bool = true;
    const SERVES_OTHERS: bool = false;

    #[inline(always)]
    fn hint(&self) -> usize {
        (self.number)()
    }

    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        let number = (self.number)();
        (number < slots).then_some(number)
    }
}

/// The slots of another type, whose callers do not [insist](CurrentSlot::INSISTS): a request that their slot refuses is
/// refused. So one of a caller with a slot of its own has the bound of the slot's operation, or of up to 17 where it is
/// refused as `Contended`, also with `ThreadSlots`. It may be refused as
/// [`Pending`](crate::contract::SharedError::Pending), as with [`Numbered`]. A caller without a slot of its own is
/// served as the other type does it: with `ThreadSlots` it takes a free one, or waits for the lock of the last one.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use rtalloc::adapt::{Bounded, Global, Memory, ThreadSlots};
/// use rtalloc::{PooledArenas, PooledArenasConfig};
///
/// type Heap = Global<PooledArenas<'static>, Bounded<ThreadSlots>>;
/// static MEMORY: Memory<{ 1 << 20 }> = Memory::new();
/// static HEAP: Heap = Global::configured(
///     &MEMORY,
///     Bounded(ThreadSlots::new()),
///     PooledArenasConfig { slots: 3, reclaim_budget: 2, chunk_bytes: 0 },
/// );
///
/// let own = ThreadSlots::own(3);
/// assert!(own.is_some(), "this thread's requests have a bound");
/// assert!(HEAP.allocate_bytes(100, 8).is_ok());
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounded<C>(pub C);

// SAFETY: the numbers are those of the other type.
unsafe impl<C: CurrentSlot> CurrentSlot for Bounded<C> {
    const EXCLUSIVE: bool = C::EXCLUSIVE;
    const SERVES_OTHERS: bool = C::SERVES_OTHERS;

    #[inline(always)]
    fn hint(&self) -> usize {
        self.0.hint()
    }

    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        self.0.own(slots)
    }

    #[inline(always)]
    fn with<T>(&self, slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T> {
        self.0.with(slots, operation)
    }
}
