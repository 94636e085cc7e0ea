//! The word before a block, its header: the block's size and two flags.

use crate::mechanism::bits::computed;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;
use core::marker::PhantomData;

/// Flag: the block is live.
const LIVE: usize = 1;
/// Flag: the previous block is free.
const PREV_FREE: usize = 2;
/// Flag, in heaps that [set blocks aside](Validation::SETS_ASIDE): the block is live, and its user has freed it.
const ASIDE: usize = 4;

/// The flags of a live block that follows a free one, or not.
#[inline(always)]
fn live_flags(follows_free: bool) -> usize {
    if follows_free { LIVE | PREV_FREE } else { LIVE }
}

/// Size and flags of a block. The size is a multiple of the granule, and the flags are below it:
///
/// ```text
/// live block   [size | PREV_FREE | LIVE]      set aside: [size | ASIDE | PREV_FREE | LIVE]
/// free block   [size]                         no flags, because a free block follows a live one
/// sentinel     that of a live block of size 0
/// ```
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Tag<W>(usize, PhantomData<W>);

impl<W: Width> Tag<W> {
    /// The size of the block.
    #[inline(always)]
    pub(super) fn size(self) -> usize {
        self.0 & !(W::GRANULE - 1)
    }

    /// The size of a live block that follows a free one, or not; `None` if any flag differs from that. Without checks,
    /// only the flag of the previous block counts.
    #[inline(always)]
    pub(super) fn live_size<G: Validation>(self, follows_free: bool) -> Option<usize> {
        if !G::IS_CHECKED {
            return (self.is_prev_free() == follows_free).then_some(self.size());
        }
        // One test for all bits below the size.
        let size = self.0.wrapping_sub(live_flags(follows_free));
        (size & (W::GRANULE - 1) == 0).then_some(size)
    }

    /// The size of a live block, whatever is before it; `None` if it is more than `most`. Where that is checked, `None`,
    /// too, if the size is zero or a bit is set that is neither size nor flag.
    #[inline(always)]
    pub(super) fn any_live_size<G: Validation>(self, most: usize) -> Option<usize> {
        if !G::IS_CHECKED {
            return (self.size() <= most).then_some(self.size());
        }
        // The bits below the size rotate to the top: one test for all.
        let granules = (self.0 & !PREV_FREE).wrapping_sub(LIVE).rotate_right(W::GRANULE.ilog2());
        (granules.wrapping_sub(1) < most / W::GRANULE).then_some(granules << W::GRANULE.ilog2())
    }

    /// Whether the block is live.
    #[inline(always)]
    pub(super) fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// Whether the previous block is free.
    #[inline(always)]
    pub(super) fn is_prev_free(self) -> bool {
        self.0 & PREV_FREE != 0
    }

    /// Whether a bit is set that is neither size nor flag of a heap with validation `G`.
    #[inline(always)]
    pub(super) fn has_unused_bits<G: Validation>(self) -> bool {
        self.0 & Header::<W, G>::UNUSED != 0
    }

    /// Whether the block is set aside.
    #[inline(always)]
    pub(super) fn is_aside<G: Validation>(self) -> bool {
        G::SETS_ASIDE && self.0 & ASIDE != 0
    }
}

/// A tag as it is stored. That of a live block is sealed in heaps with
/// [`Full`](crate::mechanism::validation::Full) validation, which hides the size, but not the flags.
///
/// The seal combines the tag's highest byte with its lowest by exclusive or. The first and the last byte of a header
/// are next to other blocks' payloads. If either is overwritten, the highest byte of the tag changes, and the size is
/// larger than any heap below 16 MiB (with 32-bit tags).
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Header<W, G>(usize, PhantomData<(W, G)>);

impl<W: Width, G: Validation> Header<W, G> {
    /// Whether the headers of live blocks are sealed. A 16-bit header has no bits to spare.
    pub(super) const IS_SEALED: bool = G::IS_FULL && W::BYTES > 2;
    /// Bits that are neither size nor flag, and zero.
    const UNUSED: usize = {
        assert!(!G::SETS_ASIDE || W::GRANULE >= 8, "a header has no bit for a third flag");
        (W::GRANULE - 1) & !(LIVE | PREV_FREE | if G::SETS_ASIDE { ASIDE } else { 0 })
    };

    /// The header stored in a word.
    #[inline(always)]
    pub(super) fn of(word: usize) -> Self {
        Header(word, PhantomData)
    }

    /// The word that stores it.
    #[inline(always)]
    pub(super) fn word(self) -> usize {
        self.0
    }

    /// Seals the tag of a live block, and removes the seal.
    #[inline(always)]
    fn sealed(word: usize) -> usize {
        if Self::IS_SEALED { W::get(W::put(word ^ word.wrapping_shl(W::BITS - 8))) } else { word }
    }

    /// The header of a free block.
    #[inline(always)]
    pub(super) fn free(size: usize) -> Self {
        Self::of(size)
    }

    /// The header of a live block that follows a free one, or not.
    #[inline(always)]
    pub(super) fn live(size: usize, follows_free: bool) -> Self {
        Self::of_live(Tag(size + live_flags(follows_free), PhantomData))
    }

    /// The header of a live block.
    #[inline(always)]
    pub(super) fn of_live(tag: Tag<W>) -> Self {
        Self::of(Self::sealed(tag.0))
    }

    /// The tag of the block, which is live.
    #[inline(always)]
    pub(super) fn live_tag(self) -> Tag<W> {
        Tag(Self::sealed(self.0), PhantomData)
    }

    /// The tag of the block, live or free.
    #[inline(always)]
    pub(super) fn tag(self) -> Tag<W> {
        if self.is_live() { self.live_tag() } else { Tag(self.0, PhantomData) }
    }

    /// The header of the same live block, set aside.
    #[inline(always)]
    pub(super) fn aside(self) -> Self {
        Self::of(self.0 | ASIDE)
    }

    /// The header of the same live block, not set aside any more; `None` if it is not that of one of this size which
    /// is.
    #[inline(always)]
    pub(super) fn taken_back(self, size: usize) -> Option<Self> {
        let header = Self::of(self.0 ^ ASIDE);
        (header.0 & !PREV_FREE == size | LIVE).then_some(header)
    }

    /// The size of the block, which is free.
    #[inline(always)]
    pub(super) fn free_size(self) -> usize {
        self.0
    }

    /// Whether the block is live.
    #[inline(always)]
    pub(super) fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    /// Whether the previous block is free.
    #[inline(always)]
    pub(super) fn is_prev_free(self) -> bool {
        self.0 & PREV_FREE != 0
    }

    /// Whether the block is free, and every bit of the header is one of its size: one test.
    #[inline(always)]
    pub(super) fn is_free(self) -> bool {
        self.0 & (W::GRANULE - 1) == 0
    }

    /// Whether the previous block is live, and every bit is size or flag: one test, where that is checked.
    #[inline(always)]
    pub(super) fn is_after_live(self) -> bool {
        !G::CHECKS_NEIGHBOURS || self.0 & (PREV_FREE | Self::UNUSED) == 0
    }

    /// Whether the block is live and the previous one, too, and every bit is size or flag, where that is checked.
    #[inline(always)]
    pub(super) fn follows_live(self) -> bool {
        // A test in place, like that of `is_free`; otherwise both would compare a copy of the flags.
        !G::CHECKS_NEIGHBOURS || computed(self.0 as u64) as usize & (LIVE | PREV_FREE | Self::UNUSED) == LIVE
    }

    /// The header of the same live block after the previous one was allocated or freed.
    #[inline(always)]
    pub(super) fn with_prev_free(self, is_free: bool) -> Self {
        let word = Self::sealed(self.0);
        Self::of(Self::sealed(if is_free { word | PREV_FREE } else { word & !PREV_FREE }))
    }

    /// [`with_prev_free`](Self::with_prev_free) with the opposite of the present flag.
    #[inline(always)]
    pub(super) fn with_prev_flipped(self) -> Self {
        Self::of(self.0 ^ Self::sealed(PREV_FREE))
    }
}
