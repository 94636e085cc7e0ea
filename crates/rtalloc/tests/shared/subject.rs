//! The heap under test, type-erased: the suite is compiled once, not once per heap.
//!
//! A [`Heap`] calls the heap through a table of functions, and does nothing else.

use rtalloc::contract::{
    Corruption, InitError, Operation, Refusals, SharedAllocator, SharedContract, SharedError, Slot, Steps,
};
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// A heap as one word.
type Word = NonNull<u8>;
type Memory = &'static mut [MaybeUninit<u8>];
type Answer = Result<NonNull<u8>, SharedError>;

/// A kind of heap, by type.
pub trait Family: 'static {
    /// Its configuration.
    type Config;
    /// The heap with watched steps.
    type Watched: SharedAllocator<'static, Config = Self::Config> + 'static;
    /// The heap with the processor's atomics.
    type Bare: SharedAllocator<'static, Config = Self::Config> + 'static;
    /// As the fields of [`Subject`].
    const SMALL_BYTES: usize;
    /// As above.
    const LARGE_BYTES: usize;
    /// As above.
    const SIZES: &'static [usize];
    /// The configuration for `users`.
    fn config(users: usize) -> Self::Config;

    /// The subject of the tests.
    const SUBJECT: &'static Subject = &Subject {
        contract: <Self::Bare as SharedAllocator<'static>>::CONTRACT,
        watched: Erased::<Self, Self::Watched>::TABLE,
        bare: Erased::<Self, Self::Bare>::TABLE,
        small_bytes: Self::SMALL_BYTES,
        large_bytes: Self::LARGE_BYTES,
        sizes: Self::SIZES,
    };
}

/// A kind of heap.
#[derive(Debug)]
pub struct Subject {
    /// Its contract.
    pub contract: SharedContract,
    /// The heap with watched steps.
    pub watched: &'static Table,
    /// The heap with the processor's atomics.
    pub bare: &'static Table,
    /// Length of a region in which memory is short for a few users.
    pub small_bytes: usize,
    /// Length of a region in which memory is not short.
    pub large_bytes: usize,
    /// Requested sizes.
    pub sizes: &'static [usize],
}

impl Subject {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.contract.single_user.name
    }
}

/// A heap as a table of functions. Unsafe ones have the requirements of the methods of the same name; a number is a
/// slot's.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    new: fn(Memory, usize) -> Result<Word, InitError>,
    take: fn(Word, usize) -> bool,
    release: unsafe fn(Word, usize),
    allocate_bytes: unsafe fn(Word, usize, usize, usize) -> Answer,
    deallocate: unsafe fn(Word, usize, NonNull<u8>),
    reallocate_bytes: unsafe fn(Word, usize, NonNull<u8>, usize, usize) -> Answer,
    usable_size: unsafe fn(Word, usize, NonNull<u8>) -> usize,
    reclaim: unsafe fn(Word, usize, usize) -> usize,
    max_steps: fn(Word, Operation) -> Option<Steps>,
    refusals: fn(Word) -> Refusals,
    largest_allocatable: unsafe fn(Word) -> usize,
    check: unsafe fn(Word) -> Result<(), Corruption>,
}

/// Makes the table of a heap.
struct Erased<F: ?Sized, H>(PhantomData<(H, F)>);

impl<F: Family + ?Sized, H: SharedAllocator<'static, Config = F::Config> + 'static> Erased<F, H> {
    const TABLE: &'static Table = &Table {
        name: H::CONTRACT.single_user.name,
        new: |memory, users| {
            const { assert!(size_of::<H>() == size_of::<Word>(), "a heap is one pointer") }
            let heap = ManuallyDrop::new(H::new(memory, F::config(users))?);
            // SAFETY: a heap is one pointer, which is not null.
            Ok(unsafe { std::mem::transmute_copy(&heap) })
        },
        take: |word, slot| Self::heap(word).take(slot),
        // SAFETY: the caller owns the slot.
        release: |word, slot| unsafe { Self::heap(word).release(slot) },
        allocate_bytes: |word, slot, size_bytes, align_bytes| {
            // SAFETY: the caller owns the slot.
            unsafe { Self::heap(word).slot(slot).allocate_bytes(size_bytes, align_bytes) }
        },
        // SAFETY: the caller owns the slot, and the block is live.
        deallocate: |word, slot, block| unsafe { Self::heap(word).slot(slot).deallocate(block) },
        reallocate_bytes: |word, slot, block, size_bytes, align_bytes| {
            // SAFETY: the caller owns the slot, and the block is live.
            unsafe { Self::heap(word).slot(slot).reallocate_bytes(block, size_bytes, align_bytes) }
        },
        // SAFETY: the caller owns the slot, and the block is live.
        usable_size: |word, slot, block| unsafe { Self::heap(word).slot(slot).usable_size(block) },
        // SAFETY: the caller owns the slot.
        reclaim: |word, slot, budget| unsafe { Self::heap(word).slot(slot).reclaim(budget) },
        max_steps: |word, operation| Self::heap(word).max_steps(operation),
        refusals: |word| Self::heap(word).refusals(),
        largest_allocatable: |word| Self::heap(word).largest_allocatable(),
        check: |word| Self::heap(word).check(),
    };

    fn heap(word: Word) -> ManuallyDrop<H> {
        // SAFETY: the word was made from an `H`: a `Heap` keeps it with this table.
        unsafe { std::mem::transmute_copy(&word) }
    }
}

/// A heap of some kind.
#[derive(Debug)]
pub struct Heap {
    word: Word,
    table: &'static Table,
}

// SAFETY: shared heaps are `Send` and `Sync`.
unsafe impl Send for Heap {}
// SAFETY: a shared heap is `Sync`.
unsafe impl Sync for Heap {}

impl Heap {
    /// Makes a heap for `users`.
    pub fn new(table: &'static Table, memory: Memory, users: usize) -> Result<Self, InitError> {
        Ok(Heap { word: (table.new)(memory, users)?, table })
    }

    pub fn take(&self, slot: usize) -> bool {
        (self.table.take)(self.word, slot)
    }

    /// # Safety
    ///
    /// As the contract's method of the same name, here and below.
    pub unsafe fn release(&self, slot: usize) {
        // SAFETY: the caller owns the slot.
        unsafe { (self.table.release)(self.word, slot) }
    }

    /// # Safety
    ///
    /// As above.
    pub unsafe fn slot(&self, number: usize) -> HeapSlot {
        HeapSlot { word: self.word, table: self.table, number }
    }

    pub fn max_steps(&self, operation: Operation) -> Option<Steps> {
        (self.table.max_steps)(self.word, operation)
    }

    pub fn refusals(&self) -> Refusals {
        (self.table.refusals)(self.word)
    }

    /// # Safety
    ///
    /// No operation is running, here and below.
    pub unsafe fn largest_allocatable(&self) -> usize {
        // SAFETY: no operation is running.
        unsafe { (self.table.largest_allocatable)(self.word) }
    }

    /// # Safety
    ///
    /// As above.
    pub unsafe fn check(&self) -> Result<(), Corruption> {
        // SAFETY: no operation is running.
        unsafe { (self.table.check)(self.word) }
    }
}

/// A slot of a heap. Its maker ensures what [`Heap::slot`] requires.
pub struct HeapSlot {
    word: Word,
    table: &'static Table,
    number: usize,
}

impl HeapSlot {
    pub fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Answer {
        // SAFETY: the maker of this value owns the slot.
        unsafe { (self.table.allocate_bytes)(self.word, self.number, size_bytes, align_bytes) }
    }

    /// # Safety
    ///
    /// As the contract's method of the same name, here and below.
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the maker of this value owns the slot, and the block is live.
        unsafe { (self.table.deallocate)(self.word, self.number, block) }
    }

    /// # Safety
    ///
    /// As above.
    pub unsafe fn reallocate_bytes(&mut self, block: NonNull<u8>, size_bytes: usize, align_bytes: usize) -> Answer {
        // SAFETY: the maker of this value owns the slot, and the block is live.
        unsafe { (self.table.reallocate_bytes)(self.word, self.number, block, size_bytes, align_bytes) }
    }

    /// # Safety
    ///
    /// As above.
    pub unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the maker of this value owns the slot, and the block is live.
        unsafe { (self.table.usable_size)(self.word, self.number, block) }
    }

    pub fn reclaim(&mut self, budget: usize) -> usize {
        // SAFETY: the maker of this value owns the slot.
        unsafe { (self.table.reclaim)(self.word, self.number, budget) }
    }
}

/// Defines a [`Family`]. The heap's type has the parameter `A`, its atomics.
macro_rules! family {
    ($family:ident: $heap:ty, |$users:ident| $config:expr, $small:literal, $large:literal, $sizes:expr) => {
        struct $family;

        type Of<A> = $heap;

        impl $crate::subject::Family for $family {
            type Config = <Of<Native> as rtalloc::SharedAllocator<'static>>::Config;
            type Watched = Of<Watched>;
            type Bare = Of<Native>;
            const SMALL_BYTES: usize = $small;
            const LARGE_BYTES: usize = $large;
            const SIZES: &'static [usize] = $sizes;

            fn config($users: usize) -> Self::Config {
                $config
            }
        }
    };
}
pub(crate) use family;
