//! Who is calling: the slot of whoever runs now.
//!
//! The operations of a shared heap belong to a slot, and where slots are exclusive no two users may have the same one at a time.
//! An allocator without a slot in its operations, as Rust's global allocator is, has to find out. That is a
//! [`CurrentSlot`]:
//!
//! | | who | needs |
//! |---|---|---|
//! | [`Anyone`] | everybody is the same: for heaps whose slots are not exclusive, and only for those | nothing |
//! | [`Numbered`] | what a function of the platform says: the core, the interrupt level, the task | nothing |
//! | `ThreadSlots` | threads, numbered as they come, the numbers given back when they end | feature `std` |

/// Tells the slot of whoever runs now.
///
/// # Safety
///
/// While an operation that was given a number runs, no other is given the same one, by this value: not in another thread or
/// core, and not in an interrupt. What an operation did happened before the next with the same number. Numbers
/// are less than the `slots` asked for. All this only if [`EXCLUSIVE`](Self::EXCLUSIVE).
pub unsafe trait CurrentSlot: Send + Sync {
    /// Whether numbers are exclusive, as above. If not, the heap must not ask for it
    /// ([`SharedContract::slots_are_exclusive`](crate::contract::SharedContract::slots_are_exclusive)), or nothing
    /// compiles.
    const EXCLUSIVE: bool;

    /// A number that others may have too: where to begin, for heaps whose slots are not exclusive.
    fn hint(&self) -> usize;

    /// Calls an operation with a number less than `slots` that nobody else has meanwhile. `None` if there is none for the
    /// caller: a request is then refused, and a block that was to be freed stays as it is, for ever. Not called by this value inside
    /// another of its operations.
    fn with<T>(&self, slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T>;

    /// Calls an operation with numbers that nobody has otherwise, one after the other, until it returns something: where
    /// memory may be left when the caller's slot has none. Not called inside another operation. Only `ThreadSlots` knows such
    /// numbers; the others call nothing.
    fn elsewhere<T>(&self, slots: usize, operation: impl FnMut(usize) -> Option<T>) -> Option<T> {
        let _ = (slots, operation);
        None
    }
}

/// Everybody is the same: for heaps whose slots mean nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anyone;

// SAFETY: nothing is promised.
unsafe impl CurrentSlot for Anyone {
    const EXCLUSIVE: bool = false;

    #[inline(always)]
    fn hint(&self) -> usize {
        0
    }

    #[inline(always)]
    fn with<T>(&self, _slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T> {
        Some(operation(0))
    }
}

/// What a function of the platform says: the number of the core, say, times the number of interrupt levels, plus the level.
///
/// Who has a number that is not less than the heap's slots has none: what it requests is refused
/// ([`Contended`](crate::contract::SharedError::Contended); by [`Global`](super::Global) a null pointer), and what it frees is not
/// freed, then or later, and not reported. So a heap needs as many slots as the function has values. Nobody is lent another's
/// slot: one that has no memory left refuses, whatever the others have.
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
/// // SAFETY: tasks are not moved from core to core, nor preempted by others of their level, and an interrupt of a higher level
/// // has another number.
/// static WHO: Numbered = unsafe { Numbered::new(core_and_level) };
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    number: fn() -> usize,
}

impl Numbered {
    /// Takes the function.
    ///
    /// # Safety
    ///
    /// From a call of the function until the end of the operation that asked, no other call returns the same number, and what one
    /// operation did happened before the next of the same number.
    pub const unsafe fn new(number: fn() -> usize) -> Self {
        Numbered { number }
    }
}

// SAFETY: as promised to `new`.
unsafe impl CurrentSlot for Numbered {
    const EXCLUSIVE: bool = true;

    #[inline(always)]
    fn hint(&self) -> usize {
        (self.number)()
    }

    #[inline(always)]
    fn with<T>(&self, slots: usize, operation: impl FnOnce(usize) -> T) -> Option<T> {
        let number = (self.number)();
        (number < slots).then(|| operation(number))
    }
}
