//! A flight recorder: a heap that records its last operations in a ring in its own region.
//!
//! # Idea
//!
//! A machine that failed in the field leaves its memory: a dump, a core file, or what a debugger reads. With [`Traced`]
//! it contains the last operations of the heap, with every address, in a self-contained format:
//!
//! ```text
//! region: [head, 128 bytes][record][record] ... [record] [the heap's region ...]
//! ```
//!
//! `rtalloc recover` finds the ring in a dump, converts it to a trace for the laboratory, and replays it to the same
//! addresses, if the ring still has the heap's first operation. `docs/FLIGHT-RECORDER.md` and [`layout`] define the
//! format.
//!
//! # Costs
//!
//! A record is four machine words, written twice: before the operation, as one under way, so that a dump shows in which
//! operation the heap crashed; and when its outcome is known. That is a dozen stores, some thirty instructions on
//! x86-64 in all, no loop, and no branch except for the outcome. A ring for R records takes 128 bytes and (R + 1) · 4
//! words, rounded up to 64 bytes. Making the heap writes all of it.
//!
//! # What a dump shows
//!
//! A record is counted after it was written. So a dump shows the R operations before the one under way, if any,
//! wherever the machine stopped. (The oldest place of the ring may then be half overwritten; it is never read, which is
//! why there are R + 1 places.) The compiler must keep the stores in this order. A processor that reorders stores shows
//! them to other cores later, but not to a debugger that halts it.
//!
//! # When it wins, when it loses
//!
//! It can stay in production. Addresses are those of the heap in a region that is shorter by the ring: a buddy system
//! loses more by that than the ring's bytes. If the heap is wrapped by other adapters as well, this one should be the
//! innermost: it then records the requests to the heap itself, which can be replayed on the heap alone.

use super::lock::Lock;
use super::locked::Locked;
use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, MultiRegion, RegionAllocator, RegionId, RemoveError,
    ResizeInPlace, Stats,
};
use crate::region::overlaps;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, offset_of};
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

/// The bytes of a ring, for programs that read it.
///
/// Numbers are in the byte order of the machine that wrote them. A *word* field is a machine word at the beginning of 8
/// bytes, the rest of which are zero; other fields have the same width on every machine.
pub mod layout {
    use crate::contract::Block;

    /// First bytes of a ring: not valid text, so that no text contains them.
    pub const MAGIC: [u8; 16] = *b"\x89rtalloc-ring\r\n\0";
    /// Version of this layout.
    pub const VERSION: u8 = 1;
    /// The value at [`at::BYTE_ORDER`], which shows the byte order.
    pub const BYTE_ORDER: u16 = 0x1234;
    /// Bytes before the first record.
    pub const HEAD_BYTES: usize = 128;
    /// The head starts at a multiple of this in memory, and so does the heap's region after the ring.
    pub const ALIGN_BYTES: usize = 64;
    /// Words of a record: what, address, size, from.
    pub const RECORD_WORDS: usize = 4;
    /// Longest name of an allocator, in bytes; longer ones are truncated.
    pub const NAME_BYTES: usize = 32;

    /// Offsets of the fields in the head, in bytes.
    pub mod at {
        /// [`MAGIC`](super::MAGIC).
        pub const MAGIC: usize = 0;
        /// One byte: [`VERSION`](super::VERSION).
        pub const VERSION: usize = 16;
        /// One byte: bytes of a machine word, 4 or 8.
        pub const WORD_BYTES: usize = 17;
        /// Two bytes: [`BYTE_ORDER`](super::BYTE_ORDER).
        pub const BYTE_ORDER: usize = 18;
        /// Four bytes: [`HEAD_BYTES`](super::HEAD_BYTES).
        pub const HEAD_BYTES: usize = 20;
        /// The allocator's name ([`Contract::name`](crate::contract::Contract::name)), filled up with zeros.
        pub const NAME: usize = 24;
        /// Word: length of the heap's region, in bytes.
        pub const LENGTH: usize = 56;
        /// Word: first byte of the heap's first block, front included, as an offset from the region's first byte.
        pub const FIRST_BLOCK: usize = 64;
        /// Eight bytes: the hash of the fresh heap's blocks ([`Fresh`](super::Fresh)).
        pub const FRESH: usize = 72;
        /// Word: address of the first byte of the heap's region.
        pub const BASE: usize = 80;
        /// Word: number of places for records.
        pub const PLACES: usize = 88;
        /// Word: the heap's own pointer.
        pub const HEAP: usize = 96;
        /// Eight bytes: [`hash`](super::hash) of all bytes before it.
        pub const CHECKSUM: usize = 104;
        /// Word: the place to be written next.
        pub const NEXT: usize = 112;
        /// Eight bytes: records ever written.
        pub const COUNT: usize = 120;
    }

    /// The operation: the lowest byte of a record's first word.
    pub mod kind {
        /// Allocate: the returned address, the size.
        pub const ALLOCATE: usize = 1;
        /// Deallocate: the address.
        pub const DEALLOCATE: usize = 2;
        /// Reallocate: the returned address, the size, the old address.
        pub const REALLOCATE: usize = 3;
        /// A mark of the user: its number instead of the size.
        pub const MARK: usize = 4;
        /// A region was added: its address and length.
        pub const ADD_REGION: usize = 5;
        /// A region was removed: its address and length.
        pub const REMOVE_REGION: usize = 6;
    }

    /// The outcome: the second byte of the first word.
    pub mod outcome {
        /// Not known yet.
        pub const UNDER_WAY: usize = 0;
        /// Success.
        pub const DONE: usize = 1;
        /// Refused, in the order of [`AllocError`](crate::contract::AllocError): zero size.
        pub const ZERO_SIZE: usize = 2;
        /// Refused: the alignment.
        pub const ALIGNMENT: usize = 3;
        /// Refused: larger than the heap could ever serve.
        pub const TOO_LARGE: usize = 4;
        /// Refused: no free block is large enough.
        pub const EXHAUSTED: usize = 5;
        /// Refused: pending compaction has to be done first.
        pub const PENDING: usize = 6;
        /// Refused: the block was not live.
        pub const MISUSED: usize = 7;
        /// Refused: the component's quota is used up.
        pub const QUOTA: usize = 8;
        /// Refused: on purpose.
        pub const INJECTED: usize = 9;
    }

    /// Bits of the first word below the outcome.
    pub const OUTCOME_SHIFT: u32 = 8;
    /// Bits below the alignment, a byte: the number of its trailing zero bits, which is its binary logarithm unless the
    /// alignment was refused.
    pub const ALIGN_SHIFT: u32 = 16;
    /// Bits below the low bits of the record's number, from 0: all remaining bits.
    pub const NUMBER_SHIFT: u32 = 24;

    const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
    const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

    /// FNV-1a, 64 bits.
    #[must_use]
    pub fn hash(bytes: &[u8]) -> u64 {
        bytes.iter().fold(FNV_START, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
    }

    /// The blocks of a fresh heap as one number, which shows whether another heap begins in the same way. It is the
    /// FNV-1a hash of five 64-bit numbers for each block that [`walk`](crate::RegionAllocator::walk) reports: its start
    /// relative to that of the first one, bytes before its payload, its size, its usable size, and whether it is free;
    /// each number taken as one step of the hash.
    #[derive(Clone, Copy, Debug)]
    pub struct Fresh {
        /// Start of the first block, its front included.
        first: Option<usize>,
        hash: u64,
    }

    impl Default for Fresh {
        fn default() -> Self {
            Fresh { first: None, hash: FNV_START }
        }
    }

    impl Fresh {
        /// Adds the next block of the walk.
        pub fn visit(&mut self, block: Block) {
            let start = block.address.wrapping_sub(block.front_bytes);
            let first = *self.first.get_or_insert(start);
            let distance = start.wrapping_sub(first);
            for number in [distance, block.front_bytes, block.size_bytes, block.usable_bytes, usize::from(block.free)] {
                self.hash = (self.hash ^ number as u64).wrapping_mul(FNV_PRIME);
            }
        }

        /// Address of the first block's start, front included; `None` if there was none.
        #[must_use]
        pub fn first(&self) -> Option<usize> {
            self.first
        }

        /// The number.
        #[must_use]
        pub fn hash(&self) -> u64 {
            self.hash
        }
    }
}

use layout::{ALIGN_BYTES, ALIGN_SHIFT, NUMBER_SHIFT, OUTCOME_SHIFT, at, kind, outcome};

/// 32-bit units of padding from a machine word to 8 bytes.
const PAD: usize = 2 - size_of::<usize>() / 4;

/// A machine word in 8 bytes, all of them initialised.
#[derive(Clone, Copy)]
#[repr(C)]
struct Padded<T> {
    value: T,
    zero: [u32; PAD],
}

impl<T> Padded<T> {
    const fn new(value: T) -> Self {
        const { assert!(size_of::<T>() == size_of::<usize>() && size_of::<Self>() == 8, "a machine word in 8 bytes") }
        Padded { value, zero: [0; PAD] }
    }
}

/// The head, before the ring. The fields that every operation needs are on the second cache line.
#[repr(C, align(64))]
struct Head<H> {
    magic: [u8; 16],
    version: u8,
    word_bytes: u8,
    byte_order: u16,
    head_bytes: u32,
    name: [u8; layout::NAME_BYTES],
    length: Padded<usize>,
    first_block: Padded<usize>,
    fresh: u64,
    base: Padded<usize>,
    /// At least two.
    places: Padded<usize>,
    /// The heap, in the region after the ring.
    heap: Padded<H>,
    /// Of all fields above, which never change: a heap's value is one pointer.
    checksum: u64,
    /// Less than `places`; the remainder of `count`.
    next: Padded<usize>,
    count: u64,
}

const _: () = {
    type Any = Head<usize>;
    assert!(size_of::<Any>() == layout::HEAD_BYTES && align_of::<Any>() == ALIGN_BYTES);
    assert!(offset_of!(Any, magic) == at::MAGIC && offset_of!(Any, version) == at::VERSION);
    assert!(offset_of!(Any, word_bytes) == at::WORD_BYTES && offset_of!(Any, byte_order) == at::BYTE_ORDER);
    assert!(offset_of!(Any, head_bytes) == at::HEAD_BYTES && offset_of!(Any, name) == at::NAME);
    assert!(offset_of!(Any, length) == at::LENGTH && offset_of!(Any, first_block) == at::FIRST_BLOCK);
    assert!(offset_of!(Any, fresh) == at::FRESH && offset_of!(Any, base) == at::BASE);
    assert!(offset_of!(Any, places) == at::PLACES && offset_of!(Any, heap) == at::HEAP);
    assert!(offset_of!(Any, checksum) == at::CHECKSUM && offset_of!(Any, next) == at::NEXT);
    assert!(offset_of!(Any, count) == at::COUNT);
    assert!(size_of::<Record>() == layout::RECORD_WORDS * size_of::<usize>());
};

/// An operation. Addresses are offsets from the first byte of the heap's region, modulo the address space.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Record {
    /// Kind, outcome, alignment, and low bits of the number.
    what: usize,
    address: usize,
    size_bytes: usize,
    from: usize,
}

impl Record {
    const SIZE: usize = size_of::<Self>();

    /// The first word, before the outcome is known.
    #[inline(always)]
    const fn begun(kind: usize, align_bytes: usize) -> usize {
        kind | (align_bytes.trailing_zeros() as usize) << ALIGN_SHIFT
    }
}

/// Configuration of a recorded heap.
#[derive(Clone, Copy, Debug)]
pub struct TracedConfig<C> {
    /// Operations that the ring keeps, at least 1. Each takes four machine words.
    pub records: usize,
    /// Configuration of the heap.
    pub heap: C,
}

impl<C: Default> Default for TracedConfig<C> {
    /// The last 256 operations.
    fn default() -> Self {
        TracedConfig { records: 256, heap: C::default() }
    }
}

/// A region allocator whose last operations are recorded; see the [module](self).
///
/// The value is one pointer.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::{Traced, TracedConfig};
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// let mut memory = [MaybeUninit::uninit(); 16384];
/// let config = TracedConfig { records: 100, ..TracedConfig::default() };
/// let mut heap: Traced<Tlsf> = Traced::new(&mut memory, config)?;
/// heap.mark(1);
/// let block = heap.allocate(Layout::new::<[u64; 8]>())?;
/// // SAFETY: the block came from this heap, once, and is no longer used.
/// unsafe { heap.deallocate(block) };
/// assert_eq!(heap.recorded(), 3);
/// // For `rtalloc recover`. A dump of the whole region will do as well.
/// let bytes: &[u8] = heap.ring();
/// # assert_eq!(bytes.len(), 128 + 101 * 4 * size_of::<usize>());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct Traced<'r, H> {
    /// Initialised, in the region, followed by the ring.
    head: NonNull<Head<H>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the head and the ring belong to this value alone, and `H: Send` lets the heap move between threads.
unsafe impl<H: Send> Send for Traced<'_, H> {}

/// An operation under way.
struct Begun {
    place: NonNull<Record>,
    /// The first word of its record, without an outcome.
    what: usize,
}

impl<'r, H> Traced<'r, H> {
    #[inline(always)]
    fn head(&self) -> &Head<H> {
        // SAFETY: initialised when the heap was made, and changed only under `&mut self`.
        unsafe { self.head.as_ref() }
    }

    #[inline(always)]
    fn head_mut(&mut self) -> &mut Head<H> {
        // SAFETY: initialised when the heap was made; `self` is borrowed exclusively.
        unsafe { self.head.as_mut() }
    }

    #[inline(always)]
    fn heap(&mut self) -> &mut H {
        &mut self.head_mut().heap.value
    }

    /// An address in the format of records.
    #[inline(always)]
    fn offset(&self, address: NonNull<u8>) -> usize {
        address.addr().get().wrapping_sub(self.head().base.value)
    }

    /// Records an operation as under way.
    #[inline(always)]
    fn begin(&mut self, what: usize, address: usize, size_bytes: usize, from: usize) -> Begun {
        let head = self.head();
        let what = what | (head.count as usize) << NUMBER_SHIFT;
        // SAFETY: the ring lies after the head, is aligned like it, and has more than `next` places.
        let place = unsafe { self.head.add(1).cast::<Record>().add(head.next.value) };
        let record = place.as_ptr();
        // SAFETY: the place is a record of the ring, which is borrowed exclusively.
        unsafe {
            (*record).address = address;
            (*record).size_bytes = size_bytes;
            (*record).from = from;
            // A reader that sees the first word sees the others.
            compiler_fence(Ordering::Release);
            (*record).what = what;
            // The heap's operation begins only after the record is written.
            compiler_fence(Ordering::SeqCst);
        }
        Begun { place, what }
    }

    /// Records the outcome. The record is not read until it is counted.
    #[inline(always)]
    fn close(&mut self, begun: Begun, ended: usize, address: usize) {
        let record = begun.place.as_ptr();
        // SAFETY: the place is a record of the ring, which is borrowed exclusively.
        unsafe {
            (*record).address = address;
            (*record).what = begun.what | ended << OUTCOME_SHIFT;
        }
    }

    /// Records the outcome, and counts the record.
    #[inline(always)]
    fn end(&mut self, begun: Begun, ended: usize, address: usize) {
        self.close(begun, ended, address);
        let head = self.head_mut();
        let next = head.next.value.wrapping_add(1);
        let count = head.count.wrapping_add(1);
        compiler_fence(Ordering::Release);
        head.next.value = if next == head.places.value { 0 } else { next };
        head.count = count;
        compiler_fence(Ordering::Release);
    }

    /// Records an event that is complete at once.
    #[inline(always)]
    fn note(&mut self, kind: usize, address: usize, size_bytes: usize) {
        let begun = self.begin(kind, address, size_bytes, 0);
        self.end(begun, outcome::DONE, address);
    }

    /// Records the result of a request.
    #[inline(always)]
    fn answered(&mut self, begun: Begun, answer: Result<NonNull<u8>, AllocError>) -> Result<NonNull<u8>, AllocError> {
        let (ended, address) = match answer {
            Ok(block) => (outcome::DONE, self.offset(block)),
            Err(error) => (refusal(error), 0),
        };
        self.end(begun, ended, address);
        answer
    }

    /// Records a number of the user: a clock tick, or what the program is about to do. In the trace that
    /// `rtalloc recover` makes, the operations that follow have this tick; a clock may wrap around. It takes a record.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn mark(&mut self, number: u32) {
        self.note(kind::MARK, 0, number as usize);
    }

    /// Operations and marks recorded so far, including overwritten ones.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn recorded(&self) -> u64 {
        self.head().count
    }

    /// The bytes of head and ring: what `rtalloc recover` needs in a file.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn ring(&self) -> &[u8] {
        let bytes = layout::HEAD_BYTES + self.head().places.value * Record::SIZE;
        // SAFETY: head and ring have this length, are fully initialised, and borrow the heap.
        unsafe { core::slice::from_raw_parts(self.head.as_ptr().cast(), bytes) }
    }

    /// Bytes of head and ring, such that the heap's region after them is aligned; `None` beyond the address space.
    const fn front_bytes(records: usize) -> Option<usize> {
        // One additional place, which may be half overwritten.
        let Some(places) = records.checked_add(1) else { return None };
        let Some(ring_bytes) = places.checked_mul(Record::SIZE) else { return None };
        let Some(bytes) = ring_bytes.checked_add(layout::HEAD_BYTES) else { return None };
        crate::region::round_up(bytes, ALIGN_BYTES)
    }
}

/// An error in the format of records: errors are numbered like their outcomes. (A comparison with each would become a
/// jump table, which has no bound.)
#[inline(always)]
const fn refusal(error: AllocError) -> usize {
    error as usize + outcome::ZERO_SIZE
}

const _: () = {
    assert!(refusal(AllocError::ZeroSize) == outcome::ZERO_SIZE);
    assert!(refusal(AllocError::Alignment) == outcome::ALIGNMENT);
    assert!(refusal(AllocError::TooLarge) == outcome::TOO_LARGE);
    assert!(refusal(AllocError::Exhausted) == outcome::EXHAUSTED);
    assert!(refusal(AllocError::Pending) == outcome::PENDING);
    assert!(refusal(AllocError::Misused) == outcome::MISUSED);
    assert!(refusal(AllocError::Quota) == outcome::QUOTA);
    assert!(refusal(AllocError::Injected) == outcome::INJECTED);
};

/// The beginning of a name, padded with zeros.
fn name_bytes(name: &str) -> [u8; layout::NAME_BYTES] {
    let mut bytes = [0; layout::NAME_BYTES];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

// SAFETY: the blocks are the heap's, and the ring lies before the heap's region.
unsafe impl<'r, H: RegionAllocator<'r>> RegionAllocator<'r> for Traced<'r, H> {
    type Config = TracedConfig<H::Config>;

    /// The heap's own. The largest region that a heap takes is longer by the ring.
    const CONTRACT: Contract = H::CONTRACT;

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        if config.records == 0 {
            return Err(InitError::Configuration { what: "a ring of at least one record" });
        }
        let beyond = InitError::TooSmall { needed_bytes: usize::MAX };
        let ring_bytes = Self::front_bytes(config.records).ok_or(beyond)?;
        let padding_bytes = region.as_ptr().addr().wrapping_neg() & (ALIGN_BYTES - 1);
        let front_bytes = ring_bytes.checked_add(padding_bytes).ok_or(beyond)?;
        // The heap needs the front in addition, which may be longer at another alignment of the region.
        let most_front_bytes = ring_bytes.saturating_add(ALIGN_BYTES - 1);
        let with_front = |error| match error {
            InitError::TooSmall { needed_bytes } => {
                InitError::TooSmall { needed_bytes: needed_bytes.saturating_add(most_front_bytes) }
            }
            InitError::LargerThanPlanned { max_region_bytes } => {
                InitError::LargerThanPlanned { max_region_bytes: max_region_bytes.saturating_add(front_bytes) }
            }
            InitError::OutOfReach { .. } | InitError::Overlap | InitError::Configuration { .. } => error,
        };
        let (front, rest): (_, &'r mut [_]) = match region.split_at_mut_checked(front_bytes) {
            Some((front, rest)) => (Some(front), rest),
            None => (None, &mut []),
        };
        let (base, length) = (rest.as_ptr().addr(), rest.len());
        let heap = H::new(rest, config.heap).map_err(with_front)?;
        let Some(front) = front else {
            return Err(with_front(InitError::TooSmall { needed_bytes: 0 }));
        };
        let mut fresh = layout::Fresh::default();
        heap.walk(&mut |block| fresh.visit(block));
        // SAFETY: after the padding, the front is as long as head and ring, and aligned for the head.
        let head = unsafe {
            let start = NonNull::from(front).cast::<u8>().add(padding_bytes);
            start.write_bytes(0, ring_bytes);
            start.cast::<Head<H>>()
        };
        // SAFETY: the head lies in the front, aligned, and is not used by the heap.
        unsafe {
            head.write(Head {
                magic: layout::MAGIC,
                version: layout::VERSION,
                word_bytes: size_of::<usize>() as u8,
                byte_order: layout::BYTE_ORDER,
                head_bytes: layout::HEAD_BYTES as u32,
                name: name_bytes(H::CONTRACT.name),
                length: Padded::new(length),
                first_block: Padded::new(fresh.first().unwrap_or(base).wrapping_sub(base)),
                fresh: fresh.hash(),
                base: Padded::new(base),
                places: Padded::new(config.records.wrapping_add(1)),
                heap: Padded::new(heap),
                checksum: 0,
                next: Padded::new(0),
                count: 0,
            });
        }
        let mut traced = Traced { head, region: PhantomData };
        traced.head_mut().checksum = traced.checksum();
        Ok(traced)
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        let begun = self.begin(Record::begun(kind::ALLOCATE, align_bytes), 0, size_bytes, 0);
        let answer = self.heap().allocate_bytes(size_bytes, align_bytes);
        self.answered(begun, answer)
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let address = self.offset(block);
        let begun = self.begin(kind::DEALLOCATE, address, 0, 0);
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.heap().deallocate(block) };
        self.end(begun, outcome::DONE, address);
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let from = self.offset(block);
        let begun = self.begin(Record::begun(kind::REALLOCATE, align_bytes), 0, size_bytes, from);
        // SAFETY: the caller guarantees that the block is live in this heap.
        let answer = unsafe { self.heap().reallocate_bytes(block, size_bytes, align_bytes) };
        self.answered(begun, answer)
    }

    #[inline(always)]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is live in this heap.
        unsafe { self.head().heap.value.usable_size(block) }
    }

    fn largest_allocatable(&self) -> usize {
        self.head().heap.value.largest_allocatable()
    }

    fn stats(&self) -> Option<Stats> {
        self.head().heap.value.stats()
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        self.head().heap.value.walk(visitor);
    }

    fn check(&self) -> Result<(), Corruption> {
        let broken = |invariant| Err(Corruption { invariant, address: self.head.addr().get() });
        let head = self.head();
        if head.checksum != self.checksum() {
            return broken("the ring's head matches its checksum");
        }
        let next = head.next.value;
        if next >= head.places.value || (head.count < head.places.value as u64 && head.count != next as u64) {
            return broken("the ring's next place is the remainder of the records written");
        }
        head.heap.value.check()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // The records do not affect behaviour.
        self.head().heap.value.fingerprint(word);
    }
}

impl<H> Traced<'_, H> {
    /// The checksum of the constant part of the head.
    fn checksum(&self) -> u64 {
        // SAFETY: the head is longer than this, and all of its bytes are initialised.
        layout::hash(unsafe { core::slice::from_raw_parts(self.head.as_ptr().cast(), at::CHECKSUM) })
    }
}

// SAFETY: the blocks are the heap's, over all its regions; the ring lies before the first region.
unsafe impl<'r, H: MultiRegion<'r>> MultiRegion<'r> for Traced<'r, H> {
    fn add_region(&mut self, region: &'r mut [MaybeUninit<u8>]) -> Result<RegionId, InitError> {
        let head = self.head.addr().get();
        if overlaps(region, head, head + layout::HEAD_BYTES + self.head().places.value * Record::SIZE) {
            return Err(InitError::Overlap);
        }
        let (start, len_bytes) = (NonNull::from(&mut *region).cast(), region.len());
        let added = self.heap().add_region(region)?;
        self.note(kind::ADD_REGION, self.offset(start), len_bytes);
        Ok(added)
    }

    fn remove_region(&mut self, region: RegionId) -> Result<&'r mut [MaybeUninit<u8>], RemoveError> {
        let removed = self.heap().remove_region(region)?;
        let start = self.offset(NonNull::from(&mut *removed).cast());
        self.note(kind::REMOVE_REGION, start, removed.len());
        Ok(removed)
    }
}

impl<'r, H: RegionAllocator<'r> + Send, L: Lock> Locked<'r, Traced<'r, H>, L> {
    /// [`Traced::mark`], under the lock.
    ///
    /// # Time
    ///
    /// Constant, under the lock.
    pub fn mark(&self, number: u32) {
        self.hold(|guarded| guarded.heap.mark(number));
    }
}

impl<'r, H: RegionAllocator<'r>> fmt::Debug for Traced<'r, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with a flight recorder, at {:p}", H::CONTRACT.name, self.head)
    }
}

// SAFETY: the inner heap resizes its block.
/// A block that does not fit where it is changes nothing, and is not recorded.
unsafe impl<'r, H: ResizeInPlace<'r>> ResizeInPlace<'r> for Traced<'r, H> {
    #[inline(always)]
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        let from = self.offset(block);
        let begun = self.begin(Record::begun(kind::REALLOCATE, align_bytes), 0, size_bytes, from);
        // SAFETY: the caller guarantees that the block is live in this heap.
        let answer = unsafe { self.heap().resize_in_place(block, size_bytes, align_bytes) };
        match answer {
            Ok(true) => self.end(begun, outcome::DONE, from),
            Ok(false) => self.close(begun, outcome::DONE, from),
            Err(error) => self.end(begun, refusal(error), 0),
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tlsf;
    use crate::mechanism::stats::WithStats;
    use core::alloc::Layout;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    type Recorded = Traced<'static, Tlsf<'static>>;

    const BASE_BYTES: usize = 1 << 16;

    /// Memory that begins at a multiple of 64 KiB, never freed.
    fn memory(len_bytes: usize) -> &'static mut [MaybeUninit<u8>] {
        let layout = Layout::from_size_align(len_bytes, BASE_BYTES).expect("a small layout");
        // SAFETY: the layout is not empty, and the memory is never freed. Initialised, for tests that read all of it.
        unsafe { std::slice::from_raw_parts_mut(std::alloc::alloc_zeroed(layout).cast(), len_bytes) }
    }

    fn heap(records: usize) -> Recorded {
        Recorded::new(memory(1 << 16), TracedConfig { records, heap: Default::default() }).expect("large enough")
    }

    fn word(bytes: &[u8], at: usize) -> usize {
        usize::from_ne_bytes(bytes[at..at + size_of::<usize>()].try_into().expect("a word"))
    }

    /// A place of the ring: kind, outcome, alignment, number, address, size, from.
    fn place(bytes: &[u8], place: usize) -> [usize; 7] {
        let words: Vec<usize> =
            (0..4).map(|index| word(bytes, layout::HEAD_BYTES + (4 * place + index) * size_of::<usize>())).collect();
        let what = words[0];
        let byte = |shift: u32| what >> shift & 0xFF;
        [byte(0), byte(OUTCOME_SHIFT), byte(ALIGN_SHIFT), byte(NUMBER_SHIFT), words[1], words[2], words[3]]
    }

    #[test]
    fn every_operation_is_a_record_with_its_addresses() {
        let mut heap = heap(20);
        let base = word(heap.ring(), at::BASE);
        let offset = |block: NonNull<u8>| block.addr().get() - base;
        let first = heap.allocate_bytes(100, 16).expect("room");
        let second = heap.allocate_bytes(24, 256).expect("room");
        heap.mark(77);
        // SAFETY: the blocks are live.
        let moved = unsafe {
            let moved = heap.reallocate_bytes(first, 1000, 8).expect("room");
            assert!(heap.reallocate_bytes(moved, 1 << 20, 8).is_err());
            heap.deallocate(second);
            moved
        };
        assert!(heap.allocate_bytes(0, 1).is_err());
        assert!(heap.allocate_bytes(8, 24).is_err());
        assert!(heap.allocate_bytes(heap.largest_allocatable() + 1, 1).is_err());
        assert_eq!(heap.recorded(), 9);
        assert_eq!(heap.check(), Ok(()));
        let ring = heap.ring();
        let expected = [
            [kind::ALLOCATE, outcome::DONE, 4, 0, offset(first), 100, 0],
            [kind::ALLOCATE, outcome::DONE, 8, 1, offset(second), 24, 0],
            [kind::MARK, outcome::DONE, 0, 2, 0, 77, 0],
            [kind::REALLOCATE, outcome::DONE, 3, 3, offset(moved), 1000, offset(first)],
            [kind::REALLOCATE, outcome::TOO_LARGE, 3, 4, 0, 1 << 20, offset(moved)],
            [kind::DEALLOCATE, outcome::DONE, 0, 5, offset(second), 0, 0],
            [kind::ALLOCATE, outcome::ZERO_SIZE, 0, 6, 0, 0, 0],
            [kind::ALLOCATE, outcome::ALIGNMENT, 3, 7, 0, 8, 0],
            [kind::ALLOCATE, outcome::EXHAUSTED, 0, 8, 0, 0, 0],
        ];
        for (index, mut expected) in expected.into_iter().enumerate() {
            let mut found = place(ring, index);
            if index == 8 {
                assert_eq!(found[5], heap.largest_allocatable() + 1);
                (found[5], expected[5]) = (0, 0);
                // Larger than this heap could ever serve, or than it can now.
                expected[1] = found[1];
                assert!([outcome::EXHAUSTED, outcome::TOO_LARGE].contains(&found[1]));
            }
            assert_eq!(found, expected, "record {index}");
        }
        assert_eq!(word(ring, at::NEXT), 9);
        assert_eq!(word(ring, at::PLACES), 21);
    }

    #[test]
    fn the_head_describes_the_heap() {
        let heap = heap(3);
        let ring = heap.ring();
        assert_eq!(ring.len(), layout::HEAD_BYTES + 4 * Record::SIZE);
        assert_eq!(ring[..16], layout::MAGIC);
        assert_eq!((ring[at::VERSION], usize::from(ring[at::WORD_BYTES])), (1, size_of::<usize>()));
        assert_eq!(ring[at::BYTE_ORDER..][..2], layout::BYTE_ORDER.to_ne_bytes());
        assert_eq!(ring[at::NAME..at::LENGTH], name_bytes("tlsf"));
        assert_eq!(name_bytes("tlsf")[..6], *b"tlsf\0\0");
        let checksum = u64::from_ne_bytes(ring[at::CHECKSUM..][..8].try_into().expect("eight"));
        assert_eq!(checksum, layout::hash(&ring[..at::CHECKSUM]));
        let front = (layout::HEAD_BYTES + 4 * Record::SIZE).next_multiple_of(ALIGN_BYTES);
        assert_eq!(word(ring, at::BASE), ring.as_ptr().addr() + front);
        assert_eq!(word(ring, at::LENGTH), (1 << 16) - front);
        assert_eq!(word(ring, at::NEXT), 0);
        assert_eq!(heap.recorded(), 0);
        // A name that is too long is truncated.
        assert_eq!(&name_bytes("an allocator whose name is longer than that"), b"an allocator whose name is longe");
    }

    #[test]
    fn every_refusal_has_an_outcome() {
        // A new refusal needs a line here, one in `layout::outcome` and in docs/FLIGHT-RECORDER.md, and a name in the
        // lab.
        let named = |error| match error {
            AllocError::ZeroSize => outcome::ZERO_SIZE,
            AllocError::Alignment => outcome::ALIGNMENT,
            AllocError::TooLarge => outcome::TOO_LARGE,
            AllocError::Exhausted => outcome::EXHAUSTED,
            AllocError::Pending => outcome::PENDING,
            AllocError::Misused => outcome::MISUSED,
            AllocError::Quota => outcome::QUOTA,
            AllocError::Injected => outcome::INJECTED,
        };
        for error in [AllocError::ZeroSize, AllocError::Exhausted, AllocError::Injected] {
            assert_eq!(refusal(error), named(error));
        }
    }

    #[test]
    fn the_oldest_records_are_overwritten() {
        let mut heap = heap(3);
        for number in 0..1000_u32 {
            heap.mark(number);
            assert_eq!(heap.recorded(), u64::from(number) + 1);
            let next = (number as usize + 1) % 4;
            assert_eq!(word(heap.ring(), at::NEXT), next);
            for back in 0..number.min(3) {
                let mark = (number - back) as usize;
                let [kind, ended, _, low, _, size, _] = place(heap.ring(), mark % 4);
                assert_eq!((kind, ended, low, size), (kind::MARK, outcome::DONE, mark & 0xFF, mark));
            }
            assert_eq!(heap.check(), Ok(()));
        }
    }

    #[test]
    fn an_operation_under_way_is_seen_and_not_counted() {
        let mut heap = heap(3);
        heap.mark(1);
        let begun = heap.begin(Record::begun(kind::ALLOCATE, 64), 0, 40, 0);
        assert_eq!((heap.recorded(), word(heap.ring(), at::NEXT)), (1, 1));
        assert_eq!(place(heap.ring(), 1), [kind::ALLOCATE, outcome::UNDER_WAY, 6, 1, 0, 40, 0]);
        heap.end(begun, outcome::EXHAUSTED, 0);
        assert_eq!((heap.recorded(), word(heap.ring(), at::NEXT)), (2, 2));
        assert_eq!(place(heap.ring(), 1), [kind::ALLOCATE, outcome::EXHAUSTED, 6, 1, 0, 40, 0]);
    }

    #[test]
    fn the_heap_is_the_one_of_the_region_that_is_left() {
        for records in [1, 2, 7, 100] {
            let mut heap = heap(records);
            let (base, len) = (word(heap.ring(), at::BASE), word(heap.ring(), at::LENGTH));
            // At the same offset from a multiple of 64 KiB, and with the same length.
            let bare = &mut memory(1 << 16)[base % BASE_BYTES..];
            assert_eq!(bare.len(), len);
            let bare_base = bare.as_ptr().addr();
            let mut bare: Tlsf<'static> = Tlsf::new(bare, Default::default()).expect("large enough");
            let mut fresh = layout::Fresh::default();
            bare.walk(&mut |block| fresh.visit(block));
            assert_eq!(fresh.first(), Some(bare_base + word(heap.ring(), at::FIRST_BLOCK)));
            assert_eq!(fresh.hash().to_ne_bytes(), heap.ring()[at::FRESH..][..8]);
            for size_bytes in [1, 100, 33, 4000, 17, 60_000, 512] {
                for align_bytes in [1, 64, 1024] {
                    let mine = heap.allocate_bytes(size_bytes, align_bytes);
                    let other = bare.allocate_bytes(size_bytes, align_bytes);
                    let offset = |base: usize| move |block: NonNull<u8>| block.addr().get() - base;
                    assert_eq!(mine.map(offset(base)), other.map(offset(bare_base)));
                }
            }
        }
    }

    #[test]
    fn another_heap_begins_in_another_way() {
        let plain = heap(4);
        let config = TracedConfig { records: 4, heap: Default::default() };
        type Watched = Traced<
            'static,
            Tlsf<'static, 5, crate::mechanism::segregated::RoundUp, crate::mechanism::word::Offset32, WithStats>,
        >;
        let counted = Watched::new(memory(1 << 16), config).expect("large enough");
        let fresh = |ring: &[u8]| (word(ring, at::FIRST_BLOCK), ring[at::FRESH..][..8].to_vec());
        assert_ne!(fresh(plain.ring()), fresh(counted.ring()));
    }

    #[test]
    fn impossible_rings_are_refused() {
        let refused = |records: usize, bytes: usize| {
            let config = TracedConfig { records, heap: Default::default() };
            Recorded::new(memory(bytes), config).map(drop).expect_err("refused")
        };
        assert_eq!(refused(0, 4096), InitError::Configuration { what: "a ring of at least one record" });
        for records in [usize::MAX, usize::MAX / 2, usize::MAX / Record::SIZE, usize::MAX / Record::SIZE - 10] {
            assert_eq!(refused(records, 4096), InitError::TooSmall { needed_bytes: usize::MAX }, "{records}");
        }
        let InitError::TooSmall { needed_bytes } = refused(1000, 4096) else { panic!("too small") };
        assert!(needed_bytes > 1000 * Record::SIZE);
        for misalignment in 0..64 {
            let region = &mut memory(needed_bytes + 64)[misalignment..misalignment + needed_bytes];
            let config = TracedConfig { records: 1000, heap: Default::default() };
            assert!(Recorded::new(region, config).is_ok(), "{needed_bytes} bytes at {misalignment}");
        }
    }

    #[test]
    fn a_damaged_head_is_found() {
        let heap = heap(3);
        for at in (0..at::CHECKSUM + 8).chain(at::NEXT..at::NEXT + size_of::<usize>()) {
            // SAFETY: a byte of the head, which is not accessed otherwise meanwhile.
            let byte = unsafe { heap.head.cast::<u8>().add(at) };
            // SAFETY: a byte of the head, which is not accessed otherwise meanwhile.
            unsafe { byte.write(byte.read() ^ 0x40) };
            let broken = heap.check().expect_err("a byte of the head was changed");
            assert_eq!(broken.address, heap.head.addr().get(), "byte {at}: {broken}");
            // SAFETY: a byte of the head, which is not accessed otherwise meanwhile.
            unsafe { byte.write(byte.read() ^ 0x40) };
            assert_eq!(heap.check(), Ok(()));
        }
    }

    #[test]
    fn regions_are_recorded() {
        // Within reach of the tags: after the heap.
        let (first, second) = memory(1 << 17).split_at_mut(1 << 16);
        let config = TracedConfig { records: 10, heap: Default::default() };
        let mut heap = Recorded::new(first, config).expect("large enough");
        let offset = second.as_ptr().addr() - word(heap.ring(), at::BASE);
        let id = heap.add_region(&mut second[..4096]).expect("in reach");
        assert_eq!(place(heap.ring(), 0), [kind::ADD_REGION, outcome::DONE, 0, 0, offset, 4096, 0]);
        assert!(heap.remove_region(id).is_ok());
        assert_eq!(place(heap.ring(), 1), [kind::REMOVE_REGION, outcome::DONE, 0, 1, offset, 4096, 0]);
        // A refused removal changed nothing, and is not recorded.
        assert!(heap.remove_region(id).is_err());
        assert_eq!(heap.recorded(), 2);
    }

    #[cfg(feature = "lock_api")]
    #[test]
    fn a_lock_goes_around_it() {
        use crate::SharedAllocator;
        let config = TracedConfig { records: 10, heap: Default::default() };
        let heap: Locked<'_, Recorded, spin::Mutex<()>> = Locked::new(memory(1 << 16), config).expect("large enough");
        std::thread::scope(|scope| {
            scope.spawn(|| heap.mark(5));
        });
        let block = heap.allocate_bytes(8, 8).expect("room");
        // SAFETY: the block is live.
        unsafe { heap.deallocate(block) };
        let bytes = heap.inspect(|heap| heap.ring().to_vec());
        assert_eq!(place(&bytes, 0)[5], 5);
        assert_eq!(heap.inspect(|heap| heap.recorded()), 3);
        let text: String = heap.inspect(|heap| format!("{heap:?}"));
        assert!(text.starts_with("tlsf with a flight recorder, at 0x"), "{text}");
    }
}
