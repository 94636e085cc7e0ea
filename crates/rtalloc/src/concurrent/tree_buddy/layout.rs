//! Where the counters are, and what tells the height of a block.
//!
//! ```text
//! OutOfBand  [control][counter of node 0, 1, 2, ...][tag of node 0, 1, 2, ...]..[node 0][node 1][node 2]...
//!
//! InBand     [control]..[node 0          |c][node 1          |c][node 2          |c]...
//!            a block:   [length|payload ............................|canary|counter]
//! ```
//!
//! | | costs | payloads are aligned to | a tag can be overwritten |
//! |---|---|---|---|
//! | [`OutOfBand`] | 5 bytes per node | the node | by nobody who stays near a block |
//! | [`InBand`] | a header and 8 bytes at the end of every block | the header | by a block that is written past its end |
//!
//! The paper's header has 4 bytes; ours is as wide as its payload's alignment.

use crate::concurrent::atomics::{Atomics, Shared};
use crate::mechanism::sealed::Sealed;
use core::fmt::Debug;
use core::sync::atomic::Ordering::Relaxed;

/// The parts of a tag.
pub(super) mod tag {
    /// The height.
    pub const HEIGHT: usize = 0x1F;
    /// Kind: a block begins here, and its payload does.
    pub const PLAIN: usize = 0x20;
    /// Kind: a block begins here whose payload is displaced.
    pub const BEGIN: usize = 0x40;
    /// Kind: the payload of a displaced block.
    pub const DISPLACED: usize = PLAIN | BEGIN;
    /// Nothing of a live block is here.
    pub const NONE: usize = 0;
}

/// Where the parts of a heap are.
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

/// Where counters and tags are kept. Sealed: aside, or in the nodes.
///
/// # Safety
///
/// What was written for a node or payload is what is read for it as long as nobody writes where they should not. Counters and
/// tags lie in no payload, but those inside a block may lie in its.
pub unsafe trait Layout: Sealed + Copy + Debug + Send + Sync + 'static {
    /// Whether counters and tags are in the nodes.
    const IN_BAND: bool;
    /// Bytes in front of every payload.
    const HEADER_BYTES: usize;
    /// Bytes behind every payload.
    const FOOTER_BYTES: usize;

    /// Where a tree of a depth is whose room begins at an address, and the address behind it; `None` beyond the address space.
    fn plan(room: usize, count: usize, node_bytes: usize) -> Option<(Place, usize)>;

    /// Clears all tags that are beside the nodes.
    ///
    /// # Safety
    ///
    /// Nobody shares the heap yet, whose room is planned so.
    unsafe fn begin_tags(place: Place);

    /// How many tags there are, where they are beside the nodes.
    ///
    /// # Safety
    ///
    /// The heap has begun.
    unsafe fn tags<A: Atomics>(place: Place) -> Option<usize>;

    /// The counter of a node.
    fn counter(place: Place, node_bytes: usize, at: usize) -> *mut u32;

    /// The tag for a payload: 0 where none is, and something beyond every tag where somebody wrote over it.
    ///
    /// # Safety
    ///
    /// The address is, or could be, that of a payload of this heap.
    unsafe fn tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize) -> usize;

    /// Writes the tag for a payload, in memory that the caller owns.
    ///
    /// # Safety
    ///
    /// As [`tag`](Self::tag).
    unsafe fn set_tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize, tag: usize);

    /// Notes at the begin of a block, whose tag says so, where its displaced payload is.
    ///
    /// # Safety
    ///
    /// As [`tag`](Self::tag); the block is the caller's.
    unsafe fn note_displaced<A: Atomics>(begin: usize, payload: usize);

    /// Where the displaced payload of a block is whose first payload would be at `begin`; no address of the block if that is
    /// damaged.
    ///
    /// # Safety
    ///
    /// The heap is at rest, and a block of this root begins there that has a displaced payload.
    unsafe fn displaced<A: Atomics>(place: Place, node_bytes: usize, root: usize, begin: usize) -> usize;

    /// Writes the canary at the end of a block.
    ///
    /// # Safety
    ///
    /// The block with this root is the caller's.
    unsafe fn seal<A: Atomics>(place: Place, node_bytes: usize, root: usize);

    /// Whether the canary at the end of a block is whole.
    ///
    /// # Safety
    ///
    /// There is a node at `root`.
    unsafe fn is_sealed<A: Atomics>(place: Place, node_bytes: usize, root: usize) -> bool;
}

/// Counters and tags beside the nodes: a block is its payload, and nobody overwrites what the allocator knows.
#[derive(Clone, Copy, Debug)]
pub struct OutOfBand;

/// The word at an address of the heap.
#[inline(always)]
unsafe fn word<'a, A: Atomics>(address: usize) -> &'a Shared<u32, A> {
    // SAFETY: the caller's promise: an aligned word of the heap's own.
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
        // SAFETY: every node has a tag behind the counters.
        unsafe { Shared::at(Self::tag_of(place, (payload - place.nodes) / node_bytes)) }
    }
}

impl Sealed for OutOfBand {}

// SAFETY: every node has a counter and a tag of its own, which no node covers.
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
        // SAFETY: every node has a tag behind the counters.
        unsafe { Self::tag_of(place, 0).write_bytes(tag::NONE as u8, place.count) }
    }

    unsafe fn tags<A: Atomics>(place: Place) -> Option<usize> {
        // SAFETY: as above.
        let is_tag = |&at: &usize| unsafe { Shared::<u8, A>::at(Self::tag_of(place, at)) }.load(Relaxed) != 0;
        Some((0..place.count).filter(is_tag).count())
    }

    #[inline(always)]
    fn counter(place: Place, _: usize, at: usize) -> *mut u32 {
        core::ptr::with_exposed_provenance_mut(place.counters + size_of::<u32>() * at)
    }

    #[inline(always)]
    unsafe fn tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize) -> usize {
        // SAFETY: the caller's promise, here and below.
        unsafe { Self::cell::<A>(place, node_bytes, payload) }.load(Relaxed).into()
    }

    #[inline(always)]
    unsafe fn set_tag<A: Atomics>(place: Place, node_bytes: usize, payload: usize, tag: usize) {
        // SAFETY: as above.
        unsafe { Self::cell::<A>(place, node_bytes, payload) }.store(tag as u8, Relaxed);
    }

    unsafe fn note_displaced<A: Atomics>(_: usize, _: usize) {}

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

/// The paper's layout (3.2.3, Fig. 6 and 7): the height in front of the payload, a canary and the counter at the end of the
/// block's last node. What is between belongs to the block's user while it is live.
///
/// The word in front has the height in its lowest byte and the payload's number in the rest, so that what is no header of
/// this place has to look like one in all of its bits.
#[derive(Clone, Copy, Debug)]
pub struct InBand;

impl InBand {
    /// What the canary is made of.
    const CANARY: u32 = 0x5EA1_C0DE;

    /// What the word in front of a payload holds beside the tag.
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

// SAFETY: a header lies in front of its payload in the block's first nodes, canary and counter in its last one; counters of
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
        // SAFETY: the caller's promise, here and below: a header's first word is there.
        let word = unsafe { word::<A>(payload - Self::HEADER_BYTES) }.load(Relaxed);
        if word == 0 { tag::NONE } else { (word ^ Self::number(place, payload)) as usize }
    }

    #[inline(always)]
    unsafe fn set_tag<A: Atomics>(place: Place, _: usize, payload: usize, tag: usize) {
        let word_there = if tag == tag::NONE { 0 } else { Self::number(place, payload) | tag as u32 };
        // SAFETY: as above.
        unsafe { word::<A>(payload - Self::HEADER_BYTES) }.store(word_there, Relaxed);
    }

    unsafe fn note_displaced<A: Atomics>(begin: usize, payload: usize) {
        let second = begin - Self::HEADER_BYTES + size_of::<u32>();
        // SAFETY: as above; a header has two words.
        unsafe { word::<A>(second) }.store(((payload - begin) / Self::HEADER_BYTES) as u32, Relaxed);
    }

    unsafe fn displaced<A: Atomics>(_: Place, _: usize, _: usize, begin: usize) -> usize {
        let second = begin - Self::HEADER_BYTES + size_of::<u32>();
        // SAFETY: as above.
        begin.wrapping_add((unsafe { word::<A>(second) }.load(Relaxed) as usize).wrapping_mul(Self::HEADER_BYTES))
    }

    #[inline(always)]
    unsafe fn seal<A: Atomics>(place: Place, node_bytes: usize, root: usize) {
        // SAFETY: as above; every node has a canary's place in front of its counter.
        unsafe { word::<A>(Self::canary_at(place, node_bytes, root)) }.store(Self::canary(root), Relaxed);
    }

    #[inline(always)]
    unsafe fn is_sealed<A: Atomics>(place: Place, node_bytes: usize, root: usize) -> bool {
        // SAFETY: as above.
        unsafe { word::<A>(Self::canary_at(place, node_bytes, root)) }.load(Relaxed) == Self::canary(root)
    }
}
