//! The allocator under test, type-erased: the suite is compiled once, not once per allocator.
//!
//! [`with`] selects the allocator for a thread. From then on, [`facts`] returns its contract, and heaps are heaps of
//! its type. A [`Subject`] calls the allocator through a table of functions, and does nothing else.

use rtalloc::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, InitError, Mechanism, MultiRegion, RegionAllocator, RegionId,
    RemoveError, Stats,
};
use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

pub type Memory = &'static mut [MaybeUninit<u8>];

/// A heap as one word.
pub type Word = NonNull<u8>;

/// The result of a request.
type Answer = Result<NonNull<u8>, AllocError>;

/// An allocator as a table of functions. Unsafe ones have the requirements of the methods of the same name.
struct Table {
    contract: Contract,
    new: fn(Memory) -> Result<Word, InitError>,
    allocate_bytes: fn(Word, usize, usize) -> Answer,
    deallocate: unsafe fn(Word, NonNull<u8>),
    reallocate_bytes: unsafe fn(Word, NonNull<u8>, usize, usize) -> Answer,
    usable_size: unsafe fn(Word, NonNull<u8>) -> usize,
    largest_allocatable: fn(Word) -> usize,
    stats: fn(Word) -> Option<Stats>,
    walk: fn(Word, &mut dyn FnMut(Block)),
    check: fn(Word) -> Result<(), Corruption>,
    fingerprint: fn(Word, &mut dyn FnMut(usize)),
    counts_refusals: fn() -> bool,
    is_recorded: fn() -> bool,
    checks_own_tag_only: fn() -> bool,
}

/// The functions of a heap that accepts more regions.
struct RegionTable {
    add_region: fn(Word, Memory) -> Result<RegionId, InitError>,
    remove_region: fn(Word, RegionId) -> Result<Memory, RemoveError>,
}

thread_local! {
    static CONTRACT: Cell<Option<&'static Contract>> = const { Cell::new(None) };
    static TABLE: Cell<Option<&'static Table>> = const { Cell::new(None) };
    static REGION_TABLE: Cell<Option<&'static RegionTable>> = const { Cell::new(None) };
}

/// A heap of the allocator under test on this thread.
#[derive(Debug)]
pub struct Subject {
    word: Word,
}

/// The contract of the allocator under test on this thread.
pub fn facts() -> Contract {
    *CONTRACT.get().expect("`with` selects the allocator")
}

/// Whether an exhausted heap may have given memory back before it refused: from a quarantine, or a slot's spare chunk.
pub fn may_let_go() -> bool {
    facts().coalescing == Coalescing::Deferred || facts().mechanism == Mechanism::Arenas
}

/// Whether the allocator under test believes all tags but that of the block it frees.
pub fn checks_own_tag_only() -> bool {
    (table().checks_own_tag_only)()
}

/// Whether the allocator under test frames the blocks of another, whose free blocks may be too small for a frame.
pub fn has_frames() -> bool {
    facts().name.contains("guarded-") || facts().name.contains("quota-")
}

/// Whether the outermost frame is a guard's, which has a fence after the payload.
pub fn has_fences() -> bool {
    let name = facts().name;
    name.find("guarded-").is_some_and(|guard| name.find("quota-").is_none_or(|quota| guard < quota))
}

/// A number that identifies the allocator under test on this thread.
pub fn identity() -> usize {
    CONTRACT.get().map_or(0, |contract| std::ptr::from_ref(contract).addr())
}

/// Sets the contract of the allocator under test on this thread.
pub fn set_facts(contract: &'static Contract) {
    CONTRACT.set(Some(contract));
}

/// Whether the allocator under test may count refusals in its memory: shared heaps, heaps that count requests, and
/// heaps with statistics do.
pub fn counts_refusals(allocator: &Subject) -> bool {
    (table().counts_refusals)() || allocator.stats().is_some()
}

/// Whether the allocator under test records its operations in the region, before its blocks.
pub fn is_recorded() -> bool {
    (table().is_recorded)()
}

fn table() -> &'static Table {
    TABLE.get().expect("`with` selects the allocator")
}

fn region_table() -> &'static RegionTable {
    REGION_TABLE.get().expect("the allocator accepts more regions")
}

/// Runs a test on an allocator.
pub fn with<A: RegionAllocator<'static>, R>(test: impl FnOnce() -> R) -> R {
    TABLE.set(Some(Erased::<A>::TABLE));
    set_facts(&Erased::<A>::TABLE.contract);
    test()
}

/// Runs a test on an allocator that accepts more regions.
pub fn with_regions<A: MultiRegion<'static>>(test: fn()) {
    REGION_TABLE.set(Some(Erased::<A>::REGION_TABLE));
    with::<A, _>(test);
}

/// Makes the tables of an allocator.
struct Erased<A>(A);

impl<A: RegionAllocator<'static>> Erased<A> {
    const TABLE: &'static Table = &Table {
        contract: A::CONTRACT,
        new: |memory| A::new(memory, A::Config::default()).map(word_of),
        allocate_bytes: |word, size_bytes, align_bytes| Self::heap(word).allocate_bytes(size_bytes, align_bytes),
        // SAFETY: the table's caller passes a live block of this heap, as the method requires.
        deallocate: |word, block| unsafe { Self::heap(word).deallocate(block) },
        reallocate_bytes: |word, block, size_bytes, align_bytes| {
            // SAFETY: as for `deallocate`.
            unsafe { Self::heap(word).reallocate_bytes(block, size_bytes, align_bytes) }
        },
        // SAFETY: as for `deallocate`.
        usable_size: |word, block| unsafe { Self::heap(word).usable_size(block) },
        largest_allocatable: |word| Self::heap(word).largest_allocatable(),
        stats: |word| Self::heap(word).stats(),
        walk: |word, visitor| Self::heap(word).walk(visitor),
        check: |word| Self::heap(word).check(),
        fingerprint: |word, emit| Self::heap(word).fingerprint(emit),
        counts_refusals: || {
            let name = std::any::type_name::<A>();
            let counts = ["::adapted::Armed<", "::arena::WithSlots<"];
            name.starts_with("rtalloc::adapt::single_user::SingleUser<")
                || counts.iter().any(|counting| name.contains(counting))
        },
        is_recorded: || std::any::type_name::<A>().contains("::adapted::WithRecords<"),
        checks_own_tag_only: || std::any::type_name::<A>().contains("::validation::OwnTag"),
    };

    fn heap(word: Word) -> ManuallyDrop<A> {
        // SAFETY: the word was made from an `A`: a thread's table changes only between tests.
        unsafe { heap_of(word) }
    }
}

/// Turns a heap into a word.
pub fn word_of<A>(heap: A) -> Word {
    const { assert!(size_of::<A>() == size_of::<Word>(), "a heap is one pointer") }
    let heap = ManuallyDrop::new(heap);
    // SAFETY: a heap is one pointer, which is not null, because the region it points into does not begin at zero.
    unsafe { std::mem::transmute_copy(&heap) }
}

/// Turns a word back into a heap.
///
/// # Safety
///
/// [`word_of`] made the word from an `A`.
pub unsafe fn heap_of<A>(word: Word) -> ManuallyDrop<A> {
    // SAFETY: the word was an `A`, which has the size of a word.
    unsafe { std::mem::transmute_copy(&word) }
}

impl<A: MultiRegion<'static>> Erased<A> {
    const REGION_TABLE: &'static RegionTable = &RegionTable {
        add_region: |word, memory| Self::heap(word).add_region(memory),
        remove_region: |word, region| Self::heap(word).remove_region(region),
    };
}

impl Subject {
    /// [`RegionAllocator::new`] with the default configuration.
    pub fn new(memory: Memory) -> Result<Self, InitError> {
        (table().new)(memory).map(|word| Subject { word })
    }

    /// [`RegionAllocator::allocate_bytes`].
    pub fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Answer {
        (table().allocate_bytes)(self.word, size_bytes, align_bytes)
    }

    /// [`RegionAllocator::deallocate`].
    ///
    /// # Safety
    ///
    /// As the method requires.
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        // SAFETY: the block is live in this heap, as the caller guarantees.
        unsafe { (table().deallocate)(self.word, block) }
    }

    /// [`RegionAllocator::reallocate_bytes`].
    ///
    /// # Safety
    ///
    /// As the method requires.
    pub unsafe fn reallocate_bytes(&mut self, block: NonNull<u8>, size_bytes: usize, align_bytes: usize) -> Answer {
        // SAFETY: the block is live in this heap, as the caller guarantees.
        unsafe { (table().reallocate_bytes)(self.word, block, size_bytes, align_bytes) }
    }

    /// [`RegionAllocator::usable_size`].
    ///
    /// # Safety
    ///
    /// As the method requires.
    pub unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the block is live in this heap, as the caller guarantees.
        unsafe { (table().usable_size)(self.word, block) }
    }

    /// [`RegionAllocator::largest_allocatable`].
    pub fn largest_allocatable(&self) -> usize {
        (table().largest_allocatable)(self.word)
    }

    /// [`RegionAllocator::stats`].
    pub fn stats(&self) -> Option<Stats> {
        (table().stats)(self.word)
    }

    /// [`RegionAllocator::walk`].
    pub fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        (table().walk)(self.word, visitor);
    }

    /// [`RegionAllocator::check`].
    pub fn check(&self) -> Result<(), Corruption> {
        (table().check)(self.word)
    }

    /// [`RegionAllocator::fingerprint`].
    pub fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        (table().fingerprint)(self.word, word);
    }

    /// [`MultiRegion::add_region`].
    pub fn add_region(&mut self, memory: Memory) -> Result<RegionId, InitError> {
        (region_table().add_region)(self.word, memory)
    }

    /// [`MultiRegion::remove_region`].
    pub fn remove_region(&mut self, region: RegionId) -> Result<Memory, RemoveError> {
        (region_table().remove_region)(self.word, region)
    }
}
