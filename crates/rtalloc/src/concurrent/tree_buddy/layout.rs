//! Where the counters are, and where the height of a block is kept.
//!
//! ```text
//! OutOfBand  [control][counter of node 0, 1, 2, ...][tag of node 0, 1, 2, ...]..[node 0][node 1][node 2]...
//!
//! InBand     [control]..[node 0          |c][node 1          |c][node 2          |c]...
//!            a block:   [length|payload ............................|canary|counter]
//! ```
//!
//! | | costs | payloads are aligned to | a tag can be overwritten by |
//! |---|---|---|---|
//! | [`OutOfBand`] | 5 bytes per node | the node | no write near a block |
//! | [`InBand`] | a header and 8 bytes at the end of every block | the header | a write past the end of a block |
//!
//! The paper's header has 4 bytes; ours is as wide as its payload's alignment.

use crate::arithmetic::count;
use crate::concurrent::atomics::{Atomics, Shared};
use crate::mechanism::sealed::Sealed;
use core::fmt::Debug;
use core::sync::atomic::Ordering::Relaxed;

/// The parts of a tag.
pub(super) mod tag {
    /// The height.
    pub const HEIGHT: usize = 0x1F;
    /// Kind: a block begins here, and its payload too.
    pub const PLAIN: usize = 0x20;
    /// Kind: a block begins here whose payload is displaced.
    pub const BEGIN: usize = 0x40;
    /// Kind: the payload of a displaced block.
    pub const DISPLACED: usize = PLAIN | BEGIN;
    /// No live block begins here, and no payload.
    pub const NONE: usize = 0;
}

/// Addresses of the parts of a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Place {
    /// Address of node 0.
    pub(super) nodes: usize,
    /// Address of the counter of node 0.
    pub(super) counters: usize,
    /// Nodes of the tree.
    pub(super) count: usize,
}

/// Where counters and tags are kept: in a side table, or in the nodes. Sealed.
///
/// # Safety
///
/// Reading a node's or payload's counter or tag returns what was last written for it, unless a user writes out of
/// bounds. No counter or tag lies in a payload, except those inside the block of the payload.
pub unsafe trait Layout: Sealed + Copy + Debug + Send + Sync + 'static {
    /// Whether counters and tags are in the nodes.
    const IN_BAND: bool;
    /// Bytes before every payload.
    const HEADER_BYTES: usize;
    /// Bytes after every payload.
    const FOOTER_BYTES: usize;

    /// The layout of `count` nodes from an address on, and the first address after it; `None` on overflow.
    fn plan(room: usize, count: usize, node_bytes: usize) -> Option<(Place, usize)>;

    /// Clears all tags that are in a side table.
    ///
    /// # Safety
    ///
    /// The heap is not shared yet, and its layout is `place`.
    unsafe fn begin_tags(place: Place);

    /// Number of tags that are set, where they are in a side table.
    ///
    /// # Safety
    ///
    /// The heap is initialised.
    unsafe fn tags<A: Atomics>(place: Place) -> Option<usize>;

    /// The counter of a node.
    fn counter(place: Place, node_bytes: usize, at: usize) -> *mut u32;

    /// The tag for a payload: 0 where there is none, and a value larger than any tag where it was overwritten.
    ///
    /// # Safety
    ///
    /// The address is a possible payload address of this heap.
    unsafe fn tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize) -> usize;

    /// Writes the tag for a payload, in memory that the caller owns.
    ///
    /// # Safety
    ///
    /// As [`tag`](Self::tag).
    unsafe fn set_tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize, tag: usize);

    /// Records at the start of a block, whose tag is `BEGIN`, where its displaced payload is.
    ///
    /// # Safety
    ///
    /// As [`tag`](Self::tag); the block is the caller's.
    unsafe fn note_displaced<A: Atomics>(begin: usize, payload: usize);

    /// The address of the displaced payload of a block, whose undisplaced payload would be at `begin`; an address
    /// outside of the block if the record is damaged.
    ///
    /// # Safety
    ///
    /// The heap is at rest, and a block with this root and a displaced payload begins there.
    unsafe fn displaced<A: Atomics>(place: Place, node_bytes: usize, root: usize, begin: usize) -> usize;

    /// Writes the canary at the end of a block.
    ///
    /// # Safety
    ///
    /// The block with this root belongs to the caller.
    unsafe fn seal<A: Atomics>(place: Place, node_bytes: usize, root: usize);

    /// Whether the canary at the end of a block is intact.
    ///
    /// # Safety
    ///
    /// There is a node at `root`.
    unsafe fn is_sealed<A: Atomics>(place: Place, node_bytes: usize, root: usize) -> bool;
}

/// Counters and tags in a side table: a block is only its payload, and no overrun of a block reaches the heap's data.
#[derive(Clone, Copy, Debug)]
pub struct OutOfBand;

/// The word at an address of the heap.
#[inline(always)]
unsafe fn word<'a, A: Atomics>(address: usize) -> &'a Shared<u32, A> {
    // SAFETY: the caller guarantees that the address is that of an aligned word of the heap's own.
    unsafe { Shared::at(core::ptr::with_exposed_provenance_mut(address)) }
}

impl OutOfBand {
    /// The tag of a node.
    fn tag_of(place: Place, at: usize) -> *mut u8 {
        core::ptr::with_exposed_provenance_mut(place.counters + size_of::<u32>() * place.count + at)
    }

    /// The tag of the node that a payload begins with.
    #[inline(always)]
    unsafe fn cell<'a, A: Atomics>(place: Place, node_bytes: usize, payload: usize) -> &'a Shared<u8, A> {
        // SAFETY: every node has a tag, after the counters.
        unsafe { Shared::at(Self::tag_of(place, (payload - place.nodes) / node_bytes)) }
    }
}

impl Sealed for OutOfBand {}

// SAFETY: every node has a counter and a tag of its own, which no node overlaps.
unsafe impl Layout for OutOfBand {
    const IN_BAND: bool = false;
    const HEADER_BYTES: usize = 0;
    const FOOTER_BYTES: usize = 0;

    fn plan(room: usize, count: usize, node_bytes: usize) -> Option<(Place, usize)> {
        let end = room.checked_add((size_of::<u32>() + 1).checked_mul(count)?)?;
        let nodes = crate::region::round_up(end, node_bytes)?;
        Some((Place { nodes, counters: room, count }, nodes.checked_add(count.checked_mul(node_bytes)?)?))
    }

    unsafe fn begin_tags(place: Place) {
        // SAFETY: every node has a tag, after the counters; the heap is not shared yet.
        unsafe { Self::tag_of(place, 0).write_bytes(tag::NONE as u8, place.count) }
    }

    unsafe fn tags<A: Atomics>(place: Place) -> Option<usize> {
        // SAFETY: every node less than `count` has a tag.
        let is_tag = |&at: &usize| unsafe { Shared::<u8, A>::at(Self::tag_of(place, at)) }.load(Relaxed) != 0;
        Some(count((0..place.count).filter(is_tag)))
    }

    #[inline(always)]
    fn counter(place: Place, _: usize, at: usize) -> *mut u32 {
        core::ptr::with_exposed_provenance_mut(place.counters + size_of::<u32>() * at)
    }

    #[inline(always)]
    unsafe fn tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize) -> usize {
        // SAFETY: `payload` is a possible payload address, so it lies in a node, which has a tag.
        unsafe { Self::cell::<A>(place, node_bytes, payload) }.load(Relaxed).into()
    }

    #[inline(always)]
    unsafe fn set_tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize, tag: usize) {
        // SAFETY: `payload` is a possible payload address, so it lies in a node, which has a tag.
        unsafe { Self::cell::<A>(place, node_bytes, payload) }.store(tag as u8, Relaxed);
    }

    unsafe fn note_displaced<A: Atomics>(_: usize, _: usize) {}

    // Inlined, so that the size of a node is a constant: a division by a variable has a panic edge.
    #[inline(always)]
    unsafe fn displaced<A: Atomics>(place: Place, node_bytes: usize, root: usize, begin: usize) -> usize {
        let mut payload = begin + node_bytes;
        let last = place.nodes + root * node_bytes;
        // SAFETY: the addresses are nodes of the block.
        while payload <= last && unsafe { Self::tag::<A>(place, node_bytes, payload) } == tag::NONE {
            payload += node_bytes;
        }
        payload
    }

    #[inline(always)]
    unsafe fn seal<A: Atomics>(_: Place, _: usize, _: usize) {}

    #[inline(always)]
    unsafe fn is_sealed<A: Atomics>(_: Place, _: usize, _: usize) -> bool {
        true
    }
}

/// The paper's layout (3.2.3, Fig. 6 and 7): the height before the payload, a canary and the counter at the end of the
/// block's last node. The bytes between belong to the block's user while it is live.
///
/// The word before the payload has the height in its lowest byte and the payload's number in the rest, so that other
/// data rarely look like a header of this position.
#[derive(Clone, Copy, Debug)]
pub struct InBand;

impl InBand {
    /// The constant part of the canary.
    const CANARY: u32 = 0x5EA1_C0DE;

    /// The part of the word before a payload that is not the tag.
    #[inline(always)]
    fn number(place: Place, payload: usize) -> u32 {
        (((payload - place.nodes) / Self::HEADER_BYTES) << 8) as u32
    }

    /// The canary of the block with a root.
    #[inline(always)]
    fn canary(root: usize) -> u32 {
        Self::CANARY ^ (root as u32).wrapping_mul(0x9E37_79B1)
    }

    /// Address of the canary.
    #[inline(always)]
    fn canary_at(place: Place, node_bytes: usize, root: usize) -> usize {
        place.nodes + (root + 1) * node_bytes - Self::FOOTER_BYTES
    }
}

impl Sealed for InBand {}

// SAFETY: a header lies before its payload in the block's first nodes, canary and counter in its last one; counters of
// other nodes at the end of each.
unsafe impl Layout for InBand {
    const IN_BAND: bool = true;
    const HEADER_BYTES: usize = 2 * size_of::<usize>();
    const FOOTER_BYTES: usize = 2 * size_of::<u32>();

    fn plan(room: usize, count: usize, node_bytes: usize) -> Option<(Place, usize)> {
        let nodes = crate::region::round_up(room, Self::HEADER_BYTES)?;
        let counters = nodes + node_bytes - size_of::<u32>();
        Some((Place { nodes, counters, count }, nodes.checked_add(count.checked_mul(node_bytes)?)?))
    }

    unsafe fn begin_tags(_: Place) {}

    unsafe fn tags<A: Atomics>(_: Place) -> Option<usize> {
        None
    }

    #[inline(always)]
    fn counter(place: Place, node_bytes: usize, at: usize) -> *mut u32 {
        core::ptr::with_exposed_provenance_mut(place.counters + at * node_bytes)
    }

    #[inline(always)]
    unsafe fn tag<A: Atomics>(place: Place, _: usize, payload: usize) -> usize {
        // SAFETY: `payload` is a possible payload address, so the word of its header is before it.
        let word = unsafe { word::<A>(payload - Self::HEADER_BYTES) }.load(Relaxed);
        if word == 0 { tag::NONE } else { (word ^ Self::number(place, payload)) as usize }
    }

    #[inline(always)]
    unsafe fn set_tag<A: Atomics>(place: Place, _: usize, payload: usize, tag: usize) {
        let word_there = if tag == tag::NONE { 0 } else { Self::number(place, payload) | tag as u32 };
        // SAFETY: `payload` is a possible payload address, so the word of its header is before it.
        unsafe { word::<A>(payload - Self::HEADER_BYTES) }.store(word_there, Relaxed);
    }

    unsafe fn note_displaced<A: Atomics>(begin: usize, payload: usize) {
        let second = begin - Self::HEADER_BYTES + size_of::<u32>();
        // SAFETY: `begin` is a payload address of the caller's block; its header has two words.
        unsafe { word::<A>(second) }.store(((payload - begin) / Self::HEADER_BYTES) as u32, Relaxed);
    }

    unsafe fn displaced<A: Atomics>(_: Place, _: usize, _: usize, begin: usize) -> usize {
        let second = begin - Self::HEADER_BYTES + size_of::<u32>();
        // SAFETY: `begin` is a payload address; its header has two words.
        begin.wrapping_add((unsafe { word::<A>(second) }.load(Relaxed) as usize).wrapping_mul(Self::HEADER_BYTES))
    }

    #[inline(always)]
    unsafe fn seal<A: Atomics>(place: Place, node_bytes: usize, root: usize) {
        // SAFETY: every node has room for a canary before its counter, and the block belongs to the caller.
        unsafe { word::<A>(Self::canary_at(place, node_bytes, root)) }.store(Self::canary(root), Relaxed);
    }

    #[inline(always)]
    unsafe fn is_sealed<A: Atomics>(place: Place, node_bytes: usize, root: usize) -> bool {
        // SAFETY: there is a node at `root`, which has room for a canary before its counter.
        unsafe { word::<A>(Self::canary_at(place, node_bytes, root)) }.load(Relaxed) == Self::canary(root)
    }
}
