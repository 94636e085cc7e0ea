//! Frames: a record before every block of a heap, and fences on both sides, which detect out-of-bounds writes.
//!
//! ```text
//! block of the inner heap
//! [offset] ... [offset][size][tag][seal][fence] payload [fence] ...
//!              \------- record -------/
//! \------------- offset ----------------------/\ size -/
//! ```
//!
//! The offset leads from the payload back to the block. It is larger than the front only where a payload was displaced
//! for its alignment; then it is also stored at the block's start, so that a walk of the inner heap finds the payload.
//!
//! The *seal* is computed from the payload's address, the record's content, the block's state and a secret of the heap:
//! another word in memory equals it with a probability of one in 2^64 (2^32 on a 32-bit machine). So only a live
//! block's pointer has a record with the seal of a live block. Part of the secret is how many heaps with frames the
//! program has made: blocks of an earlier heap in the region have other seals.
//!
//! A fence's bytes are computed from their address and the secret. None is an ASCII letter, zero, all ones or one of
//! the bytes with which memory is filled. So overrunning a block by one byte mostly changes the fence, and always if
//! the byte written is one of those.

use crate::contract::{AllocError, Block, MisuseKind, RegionAllocator};
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of a machine word.
const WORD: usize = size_of::<usize>();
/// Bytes of a record.
const RECORD_BYTES: usize = 4 * WORD;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// From the block of the inner heap to the payload, in bytes.
    pub(super) offset_bytes: usize,
    /// Bytes requested.
    pub(super) size_bytes: usize,
    /// The adapter's own data about a block.
    pub(super) tag: usize,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In use.
    Live,
    /// Freed, and held back.
    Held,
    /// Returned to the inner heap, or about to be.
    Gone,
}

impl State {
    /// Distinguishes the seals of the states.
    #[inline(always)]
    const fn salt(self) -> usize {
        match self {
            State::Live => 0,
            State::Held => 0x55,
            State::Gone => 0xAA,
        }
    }
}

/// The addresses of frames and the secret of their seals, for the blocks of a heap `H` and fences of `FENCE` bytes.
#[derive(Debug)]
pub(super) struct Frames<H, const FENCE: usize> {
    secret: usize,
    /// The region of the inner heap.
    start: usize,
    end: usize,
    heap: PhantomData<fn() -> H>,
}

impl<H, const FENCE: usize> Clone for Frames<H, FENCE> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H, const FENCE: usize> Copy for Frames<H, FENCE> {}

/// A well-known mixer of bits (Fibonacci hashing and a shift), for words of either width.
#[inline(always)]
const fn mix(word: usize) -> usize {
    const FACTOR: usize = 0x9E37_79B9_7F4A_7C15_u64 as usize;
    let word = (word ^ word >> (usize::BITS / 2 - 3)).wrapping_mul(FACTOR);
    word ^ word >> (usize::BITS / 2 + 1)
}

/// The number of the next heap with frames in this program.
fn number() -> usize {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    #[cfg(target_has_atomic = "ptr")]
    return MADE.fetch_add(1, Relaxed);
    // Without atomic RMWs, an interrupt that makes a heap meanwhile gets the same number, in another region.
    #[cfg(not(target_has_atomic = "ptr"))]
    {
        let made = MADE.load(Relaxed);
        MADE.store(made.wrapping_add(1), Relaxed);
        made
    }
}

/// The word at an address.
///
/// # Safety
///
/// The address is a multiple of a word's size, in a region whose provenance is exposed.
#[inline(always)]
unsafe fn word_at(address: usize) -> usize {
    // SAFETY: the caller guarantees that the address is aligned, and in a region whose provenance is exposed.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read() }
}

/// Writes the word at an address.
///
/// # Safety
///
/// As [`word_at`]; there is no other access to the word.
#[inline(always)]
unsafe fn write_word(address: usize, word: usize) {
    // SAFETY: the caller guarantees that the address is aligned, in an exposed region, and not accessed otherwise.
    unsafe { core::ptr::with_exposed_provenance_mut::<usize>(address).write(word) }
}

/// Sets `len_bytes` bytes from an address on.
///
/// # Safety
///
/// They lie in a region whose provenance is exposed, and there is no other access to them.
#[inline(always)]
pub(super) unsafe fn fill(address: usize, len_bytes: usize, byte: u8) {
    // SAFETY: the caller guarantees that the bytes lie in an exposed region and are not accessed otherwise.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(byte, len_bytes) }
}

/// Whether `len_bytes` bytes from an address on have a value.
///
/// # Safety
///
/// They lie in a region whose provenance is exposed, and are initialised.
pub(super) unsafe fn is_filled(address: usize, len_bytes: usize, byte: u8) -> bool {
    // SAFETY: the caller guarantees that the bytes lie in an exposed region and are initialised.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len_bytes) };
    // Accumulates all differences, so that eight or more bytes are compared at a time.
    // Loop bound: bytes of the block
    bytes.iter().fold(0, |difference, other| difference | (other ^ byte)) == 0
}

impl<'r, H: RegionAllocator<'r>, const FENCE: usize> Frames<H, FENCE> {
    /// Alignment of blocks.
    pub(super) const UNIT: usize = {
        let unit_bytes = H::CONTRACT.alignment_bytes;
        assert!(
            unit_bytes.is_power_of_two() && unit_bytes >= WORD,
            "blocks of the inner heap must be aligned to words"
        );
        assert!(FENCE.is_multiple_of(WORD), "a fence must be whole words");
        unit_bytes
    };

    /// Smallest distance from the front of a block to its payload.
    pub(super) const FRONT_BYTES: usize = (RECORD_BYTES + FENCE).next_multiple_of(Self::UNIT);

    /// In blocks of limited size: room to displace a payload to the largest alignment there.
    const SLACK_BYTES: usize = match H::CONTRACT.largest_request_bytes {
        usize::MAX => 0,
        _ => Self::LARGEST_ALIGNMENT_BYTES - Self::UNIT,
    };

    /// Bytes of a block that its frame takes.
    pub(super) const FRAME_BYTES: usize = Self::FRONT_BYTES + FENCE + Self::SLACK_BYTES;

    /// Bytes that the inner heap needs for one block in a frame, besides its initial need; generous: sizes may be few.
    pub(super) const SPARE_BYTES: usize = 4 * (Self::FRAME_BYTES + Self::UNIT + H::CONTRACT.min_block_bytes);

    /// Smallest block of the inner heap with a frame.
    pub(super) const MIN_BLOCK_BYTES: usize = {
        let contract = H::CONTRACT;
        let bytes = contract.header_bytes + Self::FRAME_BYTES + 1;
        let bytes = if bytes > contract.min_block_bytes { bytes } else { contract.min_block_bytes };
        bytes.next_multiple_of(contract.granule_bytes)
    };

    /// Largest request that leaves room for a frame.
    pub(super) const LARGEST_REQUEST_BYTES: usize = match H::CONTRACT.largest_request_bytes {
        usize::MAX => usize::MAX,
        bytes => bytes.saturating_sub(Self::FRAME_BYTES),
    };

    /// Largest alignment: unlimited in blocks of unlimited size; in blocks of limited size a payload is displaced up to
    /// the largest alignment that C programs expect of malloc.
    pub(super) const LARGEST_ALIGNMENT_BYTES: usize = match H::CONTRACT.largest_request_bytes {
        usize::MAX => usize::MAX,
        _ if Self::UNIT > 16 => Self::UNIT,
        _ => 16,
    };

    /// Frames in the region from `start` to `end`.
    pub(super) fn new(start: usize, end: usize, secret: usize) -> Self {
        // The addresses distinguish heaps of the same secret, and the number those at the same place.
        Frames { secret: mix(mix(mix(secret ^ start) ^ end) ^ number()), start, end, heap: PhantomData }
    }

    /// The region of the inner heap.
    pub(super) fn region(&self) -> (usize, usize) {
        (self.start, self.end)
    }

    /// A checksum of these fields, which detects an overwrite.
    pub(super) fn digest(&self) -> usize {
        mix(self.secret) ^ mix(self.start ^ mix(self.end))
    }

    /// The request to the inner heap for a payload of `size_bytes` at `align_bytes`, a power of two; `None` if it
    /// exceeds the region.
    #[inline(always)]
    fn request_bytes(&self, size_bytes: usize, align_bytes: usize) -> Option<usize> {
        let room_to_align_bytes = align_bytes.saturating_sub(Self::UNIT + Self::SLACK_BYTES);
        let request_bytes = size_bytes.checked_add(Self::FRAME_BYTES)?.checked_add(room_to_align_bytes)?;
        (request_bytes <= self.end - self.start).then_some(request_bytes)
    }

    /// The request to the inner heap, if a heap whose largest payload is `most_bytes` could serve it.
    ///
    /// # Errors
    ///
    /// Why no such heap could.
    #[inline(always)]
    pub(super) fn validate(
        &self,
        size_bytes: usize,
        align_bytes: usize,
        most_bytes: usize,
    ) -> Result<usize, AllocError> {
        if !align_bytes.is_power_of_two() {
            return Err(AllocError::Alignment);
        }
        if size_bytes == 0 {
            return Err(AllocError::ZeroSize);
        }
        if align_bytes > Self::UNIT && align_bytes > most_bytes.min(Self::LARGEST_ALIGNMENT_BYTES) {
            return Err(AllocError::Alignment);
        }
        self.request_bytes(size_bytes, align_bytes).ok_or(AllocError::TooLarge)
    }

    /// A pointer to an address of the region, whose provenance heaps expose at once, and adapters by block.
    #[inline(always)]
    pub(super) fn pointer(address: usize) -> NonNull<u8> {
        // SAFETY: no region contains address zero.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// The payload's address in a block of [`request_bytes`](Self::request_bytes).
    #[inline(always)]
    pub(super) fn payload_in(block: usize, align_bytes: usize) -> usize {
        (block + Self::FRONT_BYTES).wrapping_add(align_bytes.max(1) - 1) & !(align_bytes.max(1) - 1)
    }

    /// The seal of a live block's record.
    #[inline(always)]
    fn seal(&self, payload: usize, record: &Record) -> usize {
        let place = mix(self.secret ^ payload);
        mix(mix(mix(place ^ record.offset_bytes) ^ record.size_bytes) ^ record.tag)
    }

    /// The record before an address, if there is one.
    #[inline(always)]
    pub(super) fn find(&self, payload: usize) -> Option<(Record, State)> {
        let room_bytes = (self.end - self.start).saturating_sub(Self::FRONT_BYTES + FENCE);
        let place = payload.wrapping_sub(self.start + Self::FRONT_BYTES);
        if place >= room_bytes || payload & (Self::UNIT - 1) != 0 {
            return None;
        }
        let at = payload - Self::FRONT_BYTES;
        // SAFETY: the record would lie in the region, on the grid of its blocks, which are aligned at least to words.
        let (record, seal) = unsafe {
            // Not `map` of an array, which is a call where the compiler optimises in several units.
            let word = |index| word_at(at + index * WORD);
            (Record { offset_bytes: word(0), size_bytes: word(1), tag: word(2) }, word(3))
        };
        let salt = seal ^ self.seal(payload, &record);
        let state = if salt == State::Live.salt() {
            State::Live
        } else if salt == State::Held.salt() {
            State::Held
        } else if salt == State::Gone.salt() {
            State::Gone
        } else {
            return None;
        };
        // True of every record that was ever written; a forged seal cannot lead out of the region.
        let is_inside = record.offset_bytes >= Self::FRONT_BYTES
            && record.offset_bytes <= payload - self.start
            && record.size_bytes <= self.end - payload - FENCE;
        is_inside.then_some((record, state))
    }

    /// The payload of a live block of the inner heap, as reported by its walk; `None` if the record was damaged.
    pub(super) fn find_in(&self, block: &Block) -> Option<(usize, Record, State)> {
        let payload = self.likely_payload(block)?;
        let (record, state) = self.find(payload)?;
        (record.offset_bytes == payload - block.address).then_some((payload, record, state))
    }

    /// The payload's address in a live block of the inner heap, according to the word at the block's start.
    fn likely_payload(&self, block: &Block) -> Option<usize> {
        if block.usable_bytes < Self::FRONT_BYTES + FENCE || !block.address.is_multiple_of(WORD) {
            return None;
        }
        // SAFETY: the heap reports a live block of at least one word, at a multiple of a word's size.
        let offset_bytes = unsafe { word_at(block.address) };
        (offset_bytes <= block.usable_bytes - FENCE).then(|| block.address + offset_bytes)
    }

    /// Writes the record of a payload.
    ///
    /// # Safety
    ///
    /// The payload's address is that of [`payload_in`](Self::payload_in), in a block that belongs to the adapter.
    #[inline(always)]
    pub(super) unsafe fn write(&self, payload: usize, record: Record, state: State) {
        let at = payload - Self::FRONT_BYTES;
        let seal = self.seal(payload, &record) ^ state.salt();
        // SAFETY: the record lies in the block, before the payload, on the grid of blocks. The block's first word is
        // the record's first, or lies before the record.
        unsafe {
            write_word(payload - record.offset_bytes, record.offset_bytes);
            write_word(at, record.offset_bytes);
            write_word(at + WORD, record.size_bytes);
            write_word(at + 2 * WORD, record.tag);
            write_word(at + 3 * WORD, seal);
        }
    }

    /// Invalidates a record until it is written again.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn unseal(&self, payload: usize) {
        let at = payload - Self::FRONT_BYTES + 3 * WORD;
        // SAFETY: the record lies in the block, as for `write`. No state has this salt.
        unsafe { write_word(at, !word_at(at)) }
    }

    /// The value of the words of a fence at an address.
    #[inline(always)]
    fn canary(&self, address: usize) -> usize {
        /// These bits of every byte are those of the mixed address ...
        const FREE: usize = usize::from_ne_bytes([0x3C; WORD]);
        /// ... and these are set: 0x82, 0x86, ... 0xBE.
        const SET: usize = usize::from_ne_bytes([0x82; WORD]);
        mix(!self.secret ^ address) & FREE | SET
    }

    /// Writes a fence.
    ///
    /// # Safety
    ///
    /// `len_bytes` bytes from the address on lie in a block that belongs to the adapter.
    #[inline(always)]
    unsafe fn write_fence(&self, address: usize, len_bytes: usize) {
        // Loop bound: words of a fence
        for at in (address..address + len_bytes).step_by(WORD) {
            // SAFETY: the caller guarantees that the bytes lie in a block that belongs to the adapter.
            unsafe { core::ptr::with_exposed_provenance_mut::<usize>(at).write_unaligned(self.canary(at)) }
        }
    }

    /// Whether a fence is unchanged.
    ///
    /// # Safety
    ///
    /// As [`write_fence`](Self::write_fence).
    #[inline(always)]
    unsafe fn is_whole(&self, address: usize, len_bytes: usize) -> bool {
        let mut difference = 0;
        // Loop bound: words of a fence
        for at in (address..address + len_bytes).step_by(WORD) {
            // SAFETY: the caller guarantees that the bytes lie in a block of the adapter's, and are initialised.
            difference |= self.canary(at) ^ unsafe { core::ptr::with_exposed_provenance::<usize>(at).read_unaligned() };
        }
        difference == 0
    }

    /// Writes the fences of a payload.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn write_fences(&self, payload: usize, size_bytes: usize) {
        // SAFETY: both fences lie in the block.
        unsafe {
            self.write_fence(payload - Self::FRONT_BYTES + RECORD_BYTES, Self::FRONT_BYTES - RECORD_BYTES);
            self.write_fence(payload + size_bytes, FENCE);
        }
    }

    /// Whether both fences of a payload are unchanged.
    ///
    /// # Errors
    ///
    /// Which fence is not.
    ///
    /// # Safety
    ///
    /// The payload has this size, according to its record.
    #[inline(always)]
    pub(super) unsafe fn check_fences(&self, payload: usize, size_bytes: usize) -> Result<(), MisuseKind> {
        let front = payload - Self::FRONT_BYTES + RECORD_BYTES;
        // SAFETY: both fences lie in the block.
        unsafe {
            if !self.is_whole(front, Self::FRONT_BYTES - RECORD_BYTES) {
                return Err(MisuseKind::Underrun);
            }
            if !self.is_whole(payload + size_bytes, FENCE) {
                return Err(MisuseKind::Overrun);
            }
        }
        Ok(())
    }

    /// The kind of misuse of an address without a live block. Slow: it verifies and walks the inner heap.
    #[cold]
    #[inline(never)]
    pub(super) fn diagnose(&self, heap: &H, address: usize) -> MisuseKind {
        if address.wrapping_sub(self.start) >= self.end - self.start {
            return MisuseKind::ForeignPointer;
        }
        if self.find(address).is_some() {
            return MisuseKind::DoubleFree;
        }
        // The walk relies on these invariants.
        if heap.check().is_err() {
            return MisuseKind::ContradictoryTags;
        }
        let is_on_grid = address.is_multiple_of(Self::UNIT);
        let mut kind = MisuseKind::ForeignPointer;
        heap.walk(&mut |block| {
            let inside = address.wrapping_sub(block.address - block.front_bytes);
            if inside >= block.size_bytes {
                return;
            }
            kind = match (block.free, self.find_in(&block)) {
                (true, _) if is_on_grid => MisuseKind::DoubleFree,
                (true, _) => MisuseKind::ForeignPointer,
                (false, Some(_)) => MisuseKind::InteriorPointer,
                (false, None) => {
                    let is_payload = address == block.address.wrapping_add(Self::FRONT_BYTES)
                        || self.likely_payload(&block) == Some(address);
                    if is_payload { MisuseKind::Underrun } else { MisuseKind::InteriorPointer }
                }
            };
        });
        kind
    }

    /// A block of the inner heap as reported to the adapter's user.
    pub(super) fn shown(&self, block: Block) -> Block {
        if block.free {
            return block;
        }
        match self.find_in(&block) {
            Some((payload, record, state)) => Block {
                address: payload,
                front_bytes: block.front_bytes + record.offset_bytes,
                size_bytes: block.size_bytes,
                usable_bytes: record.size_bytes,
                free: state != State::Live,
            },
            None => block,
        }
    }

    /// The address of the first block's front.
    pub(super) fn origin(heap: &H) -> usize {
        let mut origin = usize::MAX;
        heap.walk(&mut |block| origin = origin.min(block.address - block.front_bytes));
        origin
    }
}
