//! Frames: a record in front of every block of a heap, and fences on both sides, which show who wrote where.
//!
//! ```text
//! block of the heap beneath
//! [offset] ... [offset][size][tag][seal][fence] payload [fence] ...
//!              \------- record -------/
//! \------------- offset ----------------------/\ size -/
//! ```
//!
//! The offset leads from the payload back to the block. It is larger than the front only where a payload was displaced for
//! its alignment; then it stands at the block's start as well, so that a walk of the heap beneath finds the payload.
//!
//! The *seal* is a number that follows from the payload's address, from all the record says, from its state and from a
//! secret of the heap: no other word in memory is taken for it but by a chance of one in 2^64 (2^32 on a 32-bit machine). So a
//! pointer whose record has the seal of a live block *is* that of a live block, and nothing else is.
//!
//! A fence's bytes follow from their address and the secret. None is a letter, zero, all ones or one of the bytes that
//! memory is filled with, so that what overruns a block by one byte is mostly not what was there before: never where
//! that byte is one of those.

use crate::contract::{AllocError, Block, MisuseKind, RegionAllocator};
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Bytes of a machine word.
const WORD: usize = size_of::<usize>();
/// Bytes of a record.
const RECORD_BYTES: usize = 4 * WORD;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// From the block of the heap beneath to the payload, in bytes.
    pub(super) offset_bytes: usize,
    /// What was requested.
    pub(super) size_bytes: usize,
    /// What the adapter wants to know of a block.
    pub(super) tag: usize,
}

/// What has become of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Somebody has it.
    Live,
    /// It was freed, and is held back.
    Held,
    /// It was given back to the heap beneath, or is about to be.
    Gone,
}

impl State {
    /// What tells the seals of the states apart.
    const fn salt(self) -> usize {
        match self {
            State::Live => 0,
            State::Held => 0x55,
            State::Gone => 0xAA,
        }
    }
}

/// Where frames are, and the secret of their seals, for the blocks of a heap `H` and fences of `FENCE` bytes.
#[derive(Debug)]
pub(super) struct Frames<H, const FENCE: usize> {
    secret: usize,
    /// The region of the heap beneath.
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

/// The word at an address.
///
/// # Safety
///
/// The address is a multiple of a word's size, in a region whose provenance is exposed.
#[inline(always)]
unsafe fn word_at(address: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::with_exposed_provenance::<usize>(address).read() }
}

/// Writes the word at an address.
///
/// # Safety
///
/// As [`word_at`]; nobody else uses the word.
#[inline(always)]
unsafe fn write_word(address: usize, word: usize) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::with_exposed_provenance_mut::<usize>(address).write(word) }
}

/// Sets `len_bytes` bytes from an address on.
///
/// # Safety
///
/// They lie in a region whose provenance is exposed, and nobody else uses them.
#[inline(always)]
pub(super) unsafe fn fill(address: usize, len_bytes: usize, byte: u8) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(byte, len_bytes) }
}

/// Whether `len_bytes` bytes from an address on are what they were set to.
///
/// # Safety
///
/// They lie in a region whose provenance is exposed, and are initialised.
pub(super) unsafe fn is_filled(address: usize, len_bytes: usize, byte: u8) -> bool {
    // SAFETY: the caller's promise, here and below.
    let bytes = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len_bytes) };
    // All differences together, so that eight or more bytes are compared at a time.
    // turns: bytes of the block
    bytes.iter().fold(0, |difference, other| difference | (other ^ byte)) == 0
}

impl<'r, H: RegionAllocator<'r>, const FENCE: usize> Frames<H, FENCE> {
    /// Alignment of blocks.
    pub(super) const UNIT: usize = {
        let unit_bytes = H::CONTRACT.alignment_bytes;
        assert!(unit_bytes.is_power_of_two() && unit_bytes >= WORD, "blocks of the heap beneath are aligned to words");
        assert!(FENCE.is_multiple_of(WORD), "a fence is whole words");
        unit_bytes
    };

    /// From the front of a block to its payload, at least.
    pub(super) const FRONT_BYTES: usize = (RECORD_BYTES + FENCE).next_multiple_of(Self::UNIT);

    /// Room in every block of limited size for a payload to be displaced to the largest alignment there.
    const SLACK_BYTES: usize = match H::CONTRACT.largest_request_bytes {
        usize::MAX => 0,
        _ => Self::LARGEST_ALIGNMENT_BYTES - Self::UNIT,
    };

    /// What a frame takes of a block.
    pub(super) const FRAME_BYTES: usize = Self::FRONT_BYTES + FENCE + Self::SLACK_BYTES;

    /// What the heap beneath needs, in bytes, beyond what it needs to be made, for one block in a frame; generous, because
    /// blocks may come in few sizes.
    pub(super) const SPARE_BYTES: usize = 4 * (Self::FRAME_BYTES + Self::UNIT + H::CONTRACT.min_block_bytes);

    /// Smallest block of the heap beneath that has a frame.
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

    /// Largest alignment: any in a block of any size; in blocks of limited size a payload is displaced for the largest that C
    /// programs expect of malloc, and no further.
    pub(super) const LARGEST_ALIGNMENT_BYTES: usize = match H::CONTRACT.largest_request_bytes {
        usize::MAX => usize::MAX,
        _ if Self::UNIT > 16 => Self::UNIT,
        _ => 16,
    };

    /// Frames in the region that ends at `end`, `len_bytes` long.
    pub(super) fn new(start: usize, end: usize, secret: usize) -> Self {
        // Heaps of the same secret differ by where they are.
        Frames { secret: mix(mix(secret ^ start) ^ end), start, end, heap: PhantomData }
    }

    /// The region of the heap beneath.
    pub(super) fn region(&self) -> (usize, usize) {
        (self.start, self.end)
    }

    /// One word by which it is known that nobody wrote over these.
    pub(super) fn digest(&self) -> usize {
        mix(self.secret) ^ mix(self.start ^ mix(self.end))
    }

    /// What to ask of the heap beneath for a payload of `size_bytes` at `align_bytes`, a power of two; `None` if that is beyond
    /// the whole region.
    #[inline(always)]
    fn request_bytes(&self, size_bytes: usize, align_bytes: usize) -> Option<usize> {
        let room_to_align_bytes = align_bytes.saturating_sub(Self::UNIT + Self::SLACK_BYTES);
        let request_bytes = size_bytes.checked_add(Self::FRAME_BYTES)?.checked_add(room_to_align_bytes)?;
        (request_bytes <= self.end - self.start).then_some(request_bytes)
    }

    /// What to ask of the heap beneath for a request, if a heap could serve it whose largest payload is `most_bytes`.
    ///
    /// # Errors
    ///
    /// Why none could.
    #[inline(always)]
    pub(super) fn judge(&self, size_bytes: usize, align_bytes: usize, most_bytes: usize) -> Result<usize, AllocError> {
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

    /// A pointer to an address of the region, which heaps expose when they take it, and adapters block by block.
    #[inline(always)]
    pub(super) fn pointer(address: usize) -> NonNull<u8> {
        // SAFETY: no region contains address zero.
        unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) }
    }

    /// Where the payload is in a block of so many bytes as [`request_bytes`](Self::request_bytes) said.
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

    /// The record in front of an address, if there is one.
    #[inline(always)]
    pub(super) fn find(&self, payload: usize) -> Option<(Record, State)> {
        let room_bytes = (self.end - self.start).saturating_sub(Self::FRONT_BYTES + FENCE);
        let place = payload.wrapping_sub(self.start + Self::FRONT_BYTES);
        if place >= room_bytes || payload & (Self::UNIT - 1) != 0 {
            return None;
        }
        let at = payload - Self::FRONT_BYTES;
        // SAFETY: the record would lie in the region, on the grid of its blocks, whose alignment is a word's at least.
        let (record, seal) = unsafe {
            let [offset_bytes, size_bytes, tag, seal] = [0, 1, 2, 3].map(|index| word_at(at + index * WORD));
            (Record { offset_bytes, size_bytes, tag }, seal)
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
        // True of every record that was ever written; whoever forged a seal does not lead out of the region.
        let is_inside = record.offset_bytes >= Self::FRONT_BYTES
            && record.offset_bytes <= payload - self.start
            && record.size_bytes <= self.end - payload - FENCE;
        is_inside.then_some((record, state))
    }

    /// The payload of a live block of the heap beneath, as its walk shows the block; `None` if the record was damaged.
    pub(super) fn find_in(&self, block: &Block) -> Option<(usize, Record, State)> {
        let payload = self.likely_payload(block)?;
        let (record, state) = self.find(payload)?;
        (record.offset_bytes == payload - block.address).then_some((payload, record, state))
    }

    /// Where the payload of a live block of the heap beneath is by the word at its start.
    fn likely_payload(&self, block: &Block) -> Option<usize> {
        if block.usable_bytes < Self::FRONT_BYTES + FENCE || !block.address.is_multiple_of(WORD) {
            return None;
        }
        // SAFETY: the heap shows a live block, of one word at least, at a multiple of a word's size.
        let offset_bytes = unsafe { word_at(block.address) };
        (offset_bytes <= block.usable_bytes - FENCE).then(|| block.address + offset_bytes)
    }

    /// Writes the record of a payload.
    ///
    /// # Safety
    ///
    /// The payload is where [`payload_in`](Self::payload_in) said, in a block that is the adapter's own.
    #[inline(always)]
    pub(super) unsafe fn write(&self, payload: usize, record: Record, state: State) {
        let at = payload - Self::FRONT_BYTES;
        let seal = self.seal(payload, &record) ^ state.salt();
        // SAFETY: the record lies in the block, in front of the payload, on the grid of blocks. The block's first word is
        // the record's first, or in front of the record.
        unsafe {
            write_word(payload - record.offset_bytes, record.offset_bytes);
            write_word(at, record.offset_bytes);
            write_word(at + WORD, record.size_bytes);
            write_word(at + 2 * WORD, record.tag);
            write_word(at + 3 * WORD, seal);
        }
    }

    /// Makes a record that of no block, until it is written again.
    ///
    /// # Safety
    ///
    /// As [`write`](Self::write).
    #[inline(always)]
    pub(super) unsafe fn unseal(&self, payload: usize) {
        let at = payload - Self::FRONT_BYTES + 3 * WORD;
        // SAFETY: as in `write`. No state has this salt.
        unsafe { write_word(at, !word_at(at)) }
    }

    /// What the words of a fence at an address are.
    #[inline(always)]
    fn canary(&self, address: usize) -> usize {
        /// Of every byte, these bits are those of the mixed address ...
        const FREE: usize = usize::from_ne_bytes([0x3C; WORD]);
        /// ... and these are set: 0x82, 0x86, ... 0xBE.
        const SET: usize = usize::from_ne_bytes([0x82; WORD]);
        mix(!self.secret ^ address) & FREE | SET
    }

    /// Writes a fence.
    ///
    /// # Safety
    ///
    /// So many bytes from the address on lie in a block that is the adapter's own.
    #[inline(always)]
    unsafe fn write_fence(&self, address: usize, len_bytes: usize) {
        // turns: words of a fence
        for at in (address..address + len_bytes).step_by(WORD) {
            // SAFETY: the caller's promise.
            unsafe { core::ptr::with_exposed_provenance_mut::<usize>(at).write_unaligned(self.canary(at)) }
        }
    }

    /// Whether a fence is as it was written.
    ///
    /// # Safety
    ///
    /// As [`write_fence`](Self::write_fence).
    #[inline(always)]
    unsafe fn is_whole(&self, address: usize, len_bytes: usize) -> bool {
        let mut difference = 0;
        // turns: words of a fence
        for at in (address..address + len_bytes).step_by(WORD) {
            // SAFETY: the caller's promise.
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
        // SAFETY: both lie in the block.
        unsafe {
            self.write_fence(payload - Self::FRONT_BYTES + RECORD_BYTES, Self::FRONT_BYTES - RECORD_BYTES);
            self.write_fence(payload + size_bytes, FENCE);
        }
    }

    /// Whether both fences of a payload are as they were written.
    ///
    /// # Errors
    ///
    /// Which is not.
    ///
    /// # Safety
    ///
    /// The payload has this size, by its record.
    #[inline(always)]
    pub(super) unsafe fn check_fences(&self, payload: usize, size_bytes: usize) -> Result<(), MisuseKind> {
        let front = payload - Self::FRONT_BYTES + RECORD_BYTES;
        // SAFETY: both lie in the block.
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

    /// What is wrong with an address that is no live block's. Only misuse pays for this: it verifies and walks the heap beneath.
    #[cold]
    #[inline(never)]
    pub(super) fn diagnose(&self, heap: &H, address: usize) -> MisuseKind {
        if address.wrapping_sub(self.start) >= self.end - self.start {
            return MisuseKind::ForeignPointer;
        }
        if self.find(address).is_some() {
            return MisuseKind::DoubleFree;
        }
        // A walk trusts what this verifies.
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

    /// A block of the heap beneath as the adapter's user sees it.
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
