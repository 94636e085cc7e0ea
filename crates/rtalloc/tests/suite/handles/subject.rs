//! The heap under test, type-erased: as [`crate::subject`], for heaps of handles.

use crate::memory::Buffer;
use crate::subject::{Memory, Word, heap_of, set_facts, word_of};
use rtalloc::contract::{
    AccessError, AllocError, Contract, Corruption, Fragmentation, Handle, HandleAllocator, HandleError, InitError,
    Object, ResizeError, Stats,
};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A byte's place, and how many bytes are contiguous with it.
type Place = Result<(NonNull<u8>, usize), AccessError>;

/// A heap under test: its type and configuration.
pub trait Instance {
    /// The heap.
    type Heap: HandleAllocator<'static>;
    /// Not-full pages that a class may have when no compaction is pending.
    const MAX_NOT_FULL: usize;
    /// Whether compaction is incremental.
    const IS_INCREMENTAL: bool;
    /// Whether an object may be made of several objects of a heap beneath.
    const IS_LAYERED: bool;
    /// Whether pages keep their kind: then an emptied heap may serve less than a new one.
    const KEEPS_PAGES: bool;

    /// The heap's configuration.
    fn config() -> <Self::Heap as HandleAllocator<'static>>::Config;
}

/// A heap as a table of functions.
struct Table {
    contract: Contract,
    traits: Traits,
    new: fn(Memory) -> Result<Word, InitError>,
    allocate: fn(Word, usize) -> Result<Handle, AllocError>,
    free: fn(Word, Handle) -> Result<(), HandleError>,
    resize: fn(Word, Handle, usize) -> Result<(), ResizeError>,
    size: fn(Word, Handle) -> Result<usize, HandleError>,
    locate: fn(Word, Handle, usize) -> Place,
    locate_mut: fn(Word, Handle, usize) -> Place,
    dereference: unsafe fn(Word, Handle, usize) -> NonNull<u8>,
    pending_bytes: fn(Word) -> usize,
    compact: fn(Word, usize) -> usize,
    largest_allocatable: fn(Word) -> usize,
    stats: fn(Word) -> Option<Stats>,
    fragmentation: fn(Word) -> Fragmentation,
    walk: fn(Word, &mut dyn FnMut(Object)),
    check: fn(Word) -> Result<(), Corruption>,
    fingerprint: fn(Word, &mut dyn FnMut(usize)),
}

/// Properties of the heap that its contract does not have.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// [`HandleAllocator::PIECE_BYTES`], or `usize::MAX`.
    pub piece_bytes: usize,
    /// [`Instance::MAX_NOT_FULL`].
    pub max_not_full: usize,
    /// [`Instance::IS_INCREMENTAL`].
    pub is_incremental: bool,
    /// [`Instance::IS_LAYERED`].
    pub is_layered: bool,
    /// [`Instance::KEEPS_PAGES`].
    pub keeps_pages: bool,
}

thread_local! {
    static TABLE: Cell<Option<&'static Table>> = const { Cell::new(None) };
}

fn table() -> &'static Table {
    TABLE.get().expect("`with` selects the heap")
}

/// The properties of the heap under test on this thread.
pub fn traits() -> Traits {
    table().traits
}

/// Runs a test on a heap of handles.
pub fn with<I: Instance, R>(test: impl FnOnce() -> R) -> R {
    TABLE.set(Some(Erased::<I>::TABLE));
    set_facts(&Erased::<I>::TABLE.contract);
    test()
}

/// Makes the table of an instance.
struct Erased<I>(I);

impl<I: Instance> Erased<I> {
    const TABLE: &'static Table = &Table {
        contract: I::Heap::CONTRACT,
        traits: Traits {
            piece_bytes: if I::Heap::IS_CONTIGUOUS { usize::MAX } else { I::Heap::PIECE_BYTES },
            max_not_full: I::MAX_NOT_FULL,
            is_incremental: I::IS_INCREMENTAL,
            is_layered: I::IS_LAYERED,
            keeps_pages: I::KEEPS_PAGES,
        },
        new: |memory| I::Heap::new(memory, I::config()).map(word_of),
        allocate: |word, size_bytes| Self::heap(word).allocate(size_bytes),
        free: |word, handle| Self::heap(word).free(handle),
        resize: |word, handle, size_bytes| Self::heap(word).resize(handle, size_bytes),
        size: |word, handle| Self::heap(word).size(handle),
        locate: |word, handle, offset_bytes| Self::heap(word).locate(handle, offset_bytes),
        locate_mut: |word, handle, offset_bytes| Self::heap(word).locate_mut(handle, offset_bytes),
        // SAFETY: the object is live and has this byte, as the caller guarantees.
        dereference: |word, handle, offset_bytes| unsafe { Self::heap(word).dereference(handle, offset_bytes) },
        pending_bytes: |word| Self::heap(word).pending_bytes(),
        compact: |word, budget_bytes| Self::heap(word).compact(budget_bytes),
        largest_allocatable: |word| Self::heap(word).largest_allocatable(),
        stats: |word| Self::heap(word).stats(),
        fragmentation: |word| Self::heap(word).fragmentation(),
        walk: |word, visitor| Self::heap(word).walk(visitor),
        check: |word| Self::heap(word).check(),
        fingerprint: |word, emit| Self::heap(word).fingerprint(emit),
    };

    fn heap(word: Word) -> ManuallyDrop<I::Heap> {
        // SAFETY: the word was made from this type of heap: a thread's table changes only between tests.
        unsafe { heap_of(word) }
    }
}

/// A heap of the instance under test on this thread.
#[derive(Debug)]
pub struct Subject {
    word: Word,
}

impl Subject {
    /// Makes a heap in a part of a buffer.
    ///
    /// # Safety
    ///
    /// As [`Buffer::region`].
    pub unsafe fn new(buffer: &Buffer, offset_bytes: usize, len_bytes: usize) -> Result<Self, InitError> {
        // SAFETY: the heap is dropped before the buffer and alone uses the part, as the caller guarantees.
        let memory = unsafe { buffer.region(offset_bytes, len_bytes) };
        (table().new)(memory).map(|word| Subject { word })
    }

    /// [`HandleAllocator::allocate`].
    pub fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        (table().allocate)(self.word, size_bytes)
    }

    /// [`HandleAllocator::free`].
    pub fn free(&mut self, handle: Handle) -> Result<(), HandleError> {
        (table().free)(self.word, handle)
    }

    /// [`HandleAllocator::resize`].
    pub fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        (table().resize)(self.word, handle, size_bytes)
    }

    /// [`HandleAllocator::size`].
    pub fn size(&self, handle: Handle) -> Result<usize, HandleError> {
        (table().size)(self.word, handle)
    }

    /// [`HandleAllocator::locate`].
    pub fn locate(&self, handle: Handle, offset_bytes: usize) -> Place {
        (table().locate)(self.word, handle, offset_bytes)
    }

    /// [`HandleAllocator::locate_mut`].
    pub fn locate_mut(&self, handle: Handle, offset_bytes: usize) -> Place {
        (table().locate_mut)(self.word, handle, offset_bytes)
    }

    /// [`HandleAllocator::dereference`].
    ///
    /// # Safety
    ///
    /// As the method requires.
    pub unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8> {
        // SAFETY: the object is live and has this byte, as the caller guarantees.
        unsafe { (table().dereference)(self.word, handle, offset_bytes) }
    }

    /// [`HandleAllocator::pending_bytes`].
    pub fn pending_bytes(&self) -> usize {
        (table().pending_bytes)(self.word)
    }

    /// [`HandleAllocator::compact`].
    pub fn compact(&mut self, budget_bytes: usize) -> usize {
        (table().compact)(self.word, budget_bytes)
    }

    /// [`HandleAllocator::largest_allocatable`].
    pub fn largest_allocatable(&self) -> usize {
        (table().largest_allocatable)(self.word)
    }

    /// [`HandleAllocator::stats`].
    pub fn stats(&self) -> Option<Stats> {
        (table().stats)(self.word)
    }

    /// [`HandleAllocator::fragmentation`].
    pub fn fragmentation(&self) -> Fragmentation {
        (table().fragmentation)(self.word)
    }

    /// What [`HandleAllocator::walk`] shows.
    pub fn objects(&self) -> Vec<Object> {
        let mut objects = Vec::new();
        (table().walk)(self.word, &mut |object| objects.push(object));
        objects
    }

    /// [`HandleAllocator::check`].
    pub fn check(&self) -> Result<(), Corruption> {
        (table().check)(self.word)
    }

    /// The words of [`HandleAllocator::fingerprint`].
    pub fn fingerprint(&self) -> Box<[usize]> {
        let mut words = Vec::new();
        (table().fingerprint)(self.word, &mut |word| words.push(word));
        words.into_boxed_slice()
    }

    /// Where an object is: the address and the length of each of its pieces.
    pub fn pieces(&self, handle: Handle) -> Vec<(NonNull<u8>, usize)> {
        self.pieces_by(handle, Self::locate)
    }

    /// The same, to write there.
    pub fn pieces_to_write(&self, handle: Handle) -> Vec<(NonNull<u8>, usize)> {
        self.pieces_by(handle, Self::locate_mut)
    }

    fn pieces_by(&self, handle: Handle, locate: fn(&Self, Handle, usize) -> Place) -> Vec<(NonNull<u8>, usize)> {
        let size_bytes = self.size(handle).expect("a live object");
        let mut pieces = Vec::new();
        let mut offset_bytes = 0;
        while offset_bytes < size_bytes {
            let (place, len_bytes) = locate(self, handle, offset_bytes).expect("within the object");
            let left_bytes = size_bytes - offset_bytes;
            assert!(len_bytes > 0 && len_bytes <= left_bytes, "{len_bytes} bytes of {handle:?} at {offset_bytes}");
            pieces.push((place, len_bytes));
            offset_bytes += len_bytes;
        }
        pieces
    }

    /// The bytes of an object.
    pub fn content(&self, handle: Handle) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (place, len_bytes) in self.pieces(handle) {
            // SAFETY: bytes of a live object, of initialised memory.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(place.as_ptr(), len_bytes) });
        }
        bytes
    }

    /// Writes all bytes of an object.
    pub fn set_content(&mut self, handle: Handle, bytes: &[u8]) {
        let mut rest = bytes;
        for (place, len_bytes) in self.pieces_to_write(handle) {
            let (now, later) = rest.split_at(len_bytes);
            // SAFETY: bytes of a live object.
            unsafe { place.copy_from_nonoverlapping(NonNull::from(now).cast(), len_bytes) }
            rest = later;
        }
        assert!(rest.is_empty(), "an object smaller than its size");
    }
}
