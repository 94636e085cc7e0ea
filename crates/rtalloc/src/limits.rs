//! What a program may have live at the same time, for heaps that must never refuse.
//!
//! A program is described by [`Limit`]s. An allocator with a proof computes from them the region in which no request
//! within the limits is ever refused, whatever the order of requests and frees. The computation is a `const fn`, so the
//! region can be a static array, and a program that does not fit its memory does not compile:
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::limits::Limit;
//! use rtalloc::{PoolSizes, Pools, RegionAllocator};
//!
//! // At most 64 messages of up to 200 bytes, 8 packets of up to 1,500, and one image of up to 4,096.
//! const LIMITS: [Limit; 3] = [Limit::up_to(64, 200), Limit::up_to(8, 1500), Limit::up_to(1, 4096)];
//! const SIZES: PoolSizes = PoolSizes::of(&[200, 1500, 4096]);
//! const REGION_BYTES: usize = <Pools>::region_bytes_for(SIZES, &LIMITS);
//! const _: () = assert!(REGION_BYTES <= 33 << 10, "the heap does not fit");
//!
//! let mut region = [MaybeUninit::uninit(); REGION_BYTES];
//! let mut heap: Pools = Pools::new(&mut region, SIZES)?;
//! for _ in 0..8 {
//!     heap.allocate_bytes(1500, 1)?;
//! }
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! | allocator | function | the region, in short |
//! |---|---|---|
//! | pools | [`region_bytes_for`](crate::Pools::region_bytes_for) | the most live bytes of each chosen size; in constant time |
//! | binary buddies | [`region_bytes_for`](crate::BinaryBuddy::region_bytes_for) | the most live bytes of each power of two, and one largest block; in logarithmic time |
//! | simple segregated storage | [`region_bytes_for`](crate::SimpleSegregated::region_bytes_for) | the most live bytes of each size; in constant time, small requests only |
//! | Kingsley's allocator | [`region_bytes_for`](crate::Kingsley::region_bytes_for) | the most live bytes of each power of two, in whole pages; in constant time |
//! | Compact-fit | [`compact_fit::guarantee`](crate::compact_fit::guarantee) | pages, for objects of known sizes |
//!
//! The region depends on the target: on a 32-bit machine the smallest block has 8 bytes by default, and the side table
//! of a binary buddy is twice as large as with 16. A larger region is as good. `usize::MAX` as the length of an array
//! does not compile; then a request is larger than the allocator's largest block, or the region larger than it can
//! address.
//!
//! Theorems, proofs and the tests of their assumptions: `docs/guarantees/` in the repository.
//!
//! # Assumptions
//!
//! - Blocks are allocated and freed, never resized. `reallocate`, and so a growing `Vec`, is not covered, because it
//!   may resize in place. Allocate, copy and free instead; both blocks must be within the limits at the same time.
//! - Alignments are at most the allocator's natural one (`Contract::alignment_bytes`). For binary buddies and, up to a
//!   page, Kingsley's allocator, a request of s bytes at a larger alignment a counts as one of max(s, a - h) bytes, h
//!   being the header (`Contract::header_bytes`).

/// Objects that may be live at the same time: a number of them, or a number of bytes, and the sizes that are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    objects: usize,
    live_bytes: usize,
    smallest_bytes: usize,
    largest_bytes: usize,
}

impl Limit {
    /// At most `objects` live objects of 1 to `bytes` bytes each.
    ///
    /// # Panics
    ///
    /// If `bytes` is 0; in a constant, that does not compile. So do the other constructors if the largest request is
    /// smaller than the smallest.
    #[must_use]
    pub const fn up_to(objects: usize, bytes: usize) -> Self {
        Self::between(objects, 1, bytes)
    }

    /// At most `objects` live objects of exactly `bytes` bytes each. A program that rounds its requests up to a few
    /// sizes is described in this way, and needs less memory.
    #[must_use]
    pub const fn of(objects: usize, bytes: usize) -> Self {
        Self::between(objects, bytes, bytes)
    }

    /// At most `objects` live objects of `smallest_bytes` to `largest_bytes` bytes each.
    #[must_use]
    pub const fn between(objects: usize, smallest_bytes: usize, largest_bytes: usize) -> Self {
        Self::valid(Self::checked(objects, usize::MAX, smallest_bytes, largest_bytes))
    }

    /// At most `live_bytes` requested bytes live, in objects of `smallest_bytes` to `largest_bytes` bytes each.
    #[must_use]
    pub const fn live(live_bytes: usize, smallest_bytes: usize, largest_bytes: usize) -> Self {
        Self::valid(Self::checked(usize::MAX, live_bytes, smallest_bytes, largest_bytes))
    }

    /// At most `objects` live objects and `live_bytes` requested bytes, [`usize::MAX`] for no limit; `None` if the
    /// largest request is smaller than the smallest. A smallest request of 0 bytes is treated as 1, and no request is
    /// larger than what may be live.
    #[must_use]
    pub const fn checked(
        objects: usize,
        live_bytes: usize,
        smallest_bytes: usize,
        largest_bytes: usize,
    ) -> Option<Self> {
        let smallest_bytes = if smallest_bytes == 0 { 1 } else { smallest_bytes };
        if smallest_bytes > largest_bytes {
            return None;
        }
        let largest_bytes = if largest_bytes > live_bytes { live_bytes } else { largest_bytes };
        Some(Self { objects, live_bytes, smallest_bytes, largest_bytes })
    }

    const fn valid(limit: Option<Self>) -> Self {
        limit.expect("the largest request is not smaller than the smallest")
    }

    /// The most live objects; [`usize::MAX`] if only bytes are limited.
    #[must_use]
    pub const fn objects(&self) -> usize {
        self.objects
    }

    /// The most live requested bytes; [`usize::MAX`] if only objects are limited.
    #[must_use]
    pub const fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    /// The smallest request in bytes.
    #[must_use]
    pub const fn smallest_bytes(&self) -> usize {
        self.smallest_bytes
    }

    /// The largest request in bytes; 0 if nothing may be live.
    #[must_use]
    pub const fn largest_bytes(&self) -> usize {
        if self.most_objects(1, usize::MAX) == 0 { 0 } else { self.largest_bytes }
    }

    /// The most bytes in blocks of live objects, where a block is the request and `header_bytes`, rounded up to
    /// `granule_bytes`, at least 1.
    #[must_use]
    pub const fn most_block_bytes(&self, granule_bytes: usize, header_bytes: usize) -> usize {
        let objects = self.most_objects(1, usize::MAX);
        let added_bytes = header_bytes.saturating_add(granule_bytes.saturating_sub(1));
        let Some(granules) = self.largest_bytes.saturating_add(added_bytes).checked_div(granule_bytes) else {
            return usize::MAX;
        };
        let largest_bytes = granules * granule_bytes;
        let by_objects = objects.saturating_mul(largest_bytes);
        // Each of the most objects that the live bytes allow has at most this many more bytes.
        let by_bytes = self.live_bytes.saturating_add(objects.saturating_mul(added_bytes));
        if by_objects < by_bytes { by_objects } else { by_bytes }
    }

    /// The most live objects of up to `to` bytes, if at most `smaller` of them have up to `below` bytes:
    ///
    /// ```
    /// use rtalloc::limits::Limit;
    ///
    /// // 1,000 live bytes: 20 objects of 10 bytes leave 800 bytes, room for 8 of 100 bytes.
    /// assert_eq!(Limit::live(1000, 10, 400).most_objects_with(20, 99, 200), 28);
    /// ```
    #[must_use]
    pub const fn most_objects_with(&self, smaller: usize, below: usize, to: usize) -> usize {
        let most_smaller = self.most_objects(1, below);
        let smaller = if smaller < most_smaller { smaller } else { most_smaller };
        let rest = Self {
            objects: self.objects - smaller,
            live_bytes: self.live_bytes - smaller * self.smallest_bytes,
            ..*self
        };
        smaller + rest.most_objects(below + 1, to)
    }

    /// The most live objects of `from` to `to` bytes.
    #[must_use]
    pub const fn most_objects(&self, from: usize, to: usize) -> usize {
        let from = if from > self.smallest_bytes { from } else { self.smallest_bytes };
        if from > to || from > self.largest_bytes {
            return 0;
        }
        let Some(within_bytes) = self.live_bytes.checked_div(from) else { return self.objects };
        if within_bytes < self.objects { within_bytes } else { self.objects }
    }
}

/// The most live objects of `from` to `to` bytes in any of several modes: sets of limits of which one holds at a time.
///
/// # Time
///
/// Linear in the limits.
#[must_use]
pub const fn most_objects(modes: &[&[Limit]], from: usize, to: usize) -> usize {
    most(modes, Quantity::Objects { from, to })
}

/// The most bytes in blocks of live objects in any of several modes, where a block is the request and `header_bytes`,
/// rounded up to `granule_bytes`.
///
/// # Time
///
/// Linear in the limits.
#[must_use]
pub const fn most_block_bytes(modes: &[&[Limit]], granule_bytes: usize, header_bytes: usize) -> usize {
    most(modes, Quantity::BlockBytes { granule_bytes, header_bytes })
}

/// The largest request in any of several modes, in bytes; 0 if nothing may be live.
///
/// # Time
///
/// Linear in the limits.
#[must_use]
pub const fn largest_bytes(modes: &[&[Limit]]) -> usize {
    most(modes, Quantity::LargestBytes)
}

/// What is computed of limits. Functions of constants take no closures.
#[derive(Clone, Copy)]
enum Quantity {
    Objects { from: usize, to: usize },
    BlockBytes { granule_bytes: usize, header_bytes: usize },
    LargestBytes,
}

/// The most of a quantity in any mode: the sum over the limits of a mode, or the largest one of them.
const fn most(modes: &[&[Limit]], quantity: Quantity) -> usize {
    let (mut most, mut mode) = (0, 0);
    while mode < modes.len() {
        let (mut total, mut number) = (0_usize, 0);
        while number < modes[mode].len() {
            let limit = &modes[mode][number];
            total = match quantity {
                Quantity::Objects { from, to } => total.saturating_add(limit.most_objects(from, to)),
                Quantity::BlockBytes { granule_bytes, header_bytes } => {
                    total.saturating_add(limit.most_block_bytes(granule_bytes, header_bytes))
                }
                Quantity::LargestBytes if total < limit.largest_bytes() => limit.largest_bytes(),
                Quantity::LargestBytes => total,
            };
            number += 1;
        }
        if total > most {
            most = total;
        }
        mode += 1;
    }
    most
}
