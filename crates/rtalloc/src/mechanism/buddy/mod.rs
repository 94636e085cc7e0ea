//! Buddy systems: blocks of few sizes. Each size splits into two *buddies* in one way, and only buddies merge.
//!
//! A [`System`] defines the sizes, how a block splits and where its buddy is. The code common to all systems is here:
//! the forest of largest blocks that a region is divided into, a doubly linked list of free blocks for every size
//! (embedded in the free blocks, Puaut 2002, 2.5), one word with a bit for each list that has a block, splitting,
//! merging, alignment and resizing. A block's *tag* is its class and whether it is free. A [`Placement`] decides where
//! it is stored: in a header before the block, as in the papers, or in a side table with one cell for every smallest
//! block.
//!
//! ```text
//! request 100:   [free 1024]
//!             -> [free 512][free 512]
//!             -> [free 256][free 256][free 512]
//!             -> [used 128][free 128][free 256][free 512]        freeing reverses the steps
//! ```
//!
//! The control structure and the blocks:
//!
//! ```text
//! base: [null][head of the smallest class] ... [head of the largest][side table, if any] origin: [top block][top
//! block]...
//! ```
//!
//! # Loop bounds
//!
//! Allocate splits a block until neither part suffices; deallocate merges until a buddy is not free. Both loops iterate
//! over the levels of the system only. No list is searched: one bit scan finds the class, and arithmetic finds the
//! buddy. With n the number of smallest blocks in the region, and `k = floor(log2 n)`:
//!
//! | system | splits | merges |
//! |---|---|---|
//! | binary | k, or log2 of the quotient of the largest and the smallest block | the same |
//! | Fibonacci | half the merges, rounded up | f - 1, where F(f) is the largest Fibonacci number up to n: about 1.44·k |
//! | weighted | k + 1 at most | 2·k - 1 at most |
//! | double | k | the same |
//!
//! [`Buddies::max_splits`] and [`Buddies::max_merges`] compute them from the system.
//!
//! # Misuse
//!
//! A freed block's own tag is marked free before the block is merged, and only another allocation of that memory
//! changes the tag. So a stale pointer is always detected. So is a pointer into the middle of a block, where the side
//! table has no live tag. With headers, the word there would have to contain the number of its unit ([`Headers`]).

mod tags;
mod verify;
#[cfg(test)]
mod white_box;

pub use tags::{Cell, Headers, Placement, SideTable, Tag};

use crate::contract::{
    AllocError, Block, Coalescing, Contract, Corruption, Cost, LoopBound, Mechanism, MisuseKind, loop_bound,
};
use crate::mechanism::bits::{computed, first_set_of_64};
use crate::mechanism::free_list::{NULL, link, next_at, unlink_or_empty};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::policy_heap::{Policy, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;
use crate::region::round_up;
use core::marker::PhantomData;
use core::num::NonZeroU64;
use core::ptr::NonNull;
use tags::State;

/// A position in the hierarchy: an actual or possible block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Address of the first byte after its header.
    pub address: usize,
    /// The class of its size.
    pub class: Class,
    /// [`UPPER`] and [`INHERITED`], in a system that has sides.
    pub sides: usize,
}

impl Piece {
    /// The piece at an address whose tag is `tag`.
    #[inline(always)]
    fn tagged(address: usize, tag: Tag) -> Self {
        Piece { address, class: tag.class(), sides: tag.sides() }
    }

    /// The tag of the piece as a block in a state.
    #[inline(always)]
    fn tag(self, state: State) -> Tag {
        Tag::new(self.class, self.sides, state)
    }
}

/// A number of units: blocks of [`System::UNIT_BYTES`].
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Units(usize);

impl Units {
    /// The whole units in a number of bytes.
    #[inline(always)]
    pub fn within<S: System>(bytes: usize) -> Self {
        Units(bytes / S::UNIT_BYTES)
    }

    /// Their bytes.
    #[inline(always)]
    pub fn bytes<S: System>(self) -> usize {
        self.0 * S::UNIT_BYTES
    }

    /// The number.
    #[inline(always)]
    pub const fn count(self) -> usize {
        self.0
    }

    /// Distances of the units from the first, in bytes.
    fn distances_bytes<S: System>(self) -> impl Iterator<Item = usize> {
        (0..self.0).map(|unit| unit * S::UNIT_BYTES)
    }
}

/// The piece is the upper one of two buddies.
///
/// In a system whose buddies differ in size, merging must know on which side of its parent a block is, then on which
/// side the merged block is, and so on. Two bits suffice for all levels (Cranston and Thomas 1975): when a block
/// splits, its lower part inherits the parent's side, and its upper part inherits what the parent inherited. Merging
/// restores both.
///
/// ```text
///                 [side s, inherited m]
///     [lower, inherited s]      [UPPER, inherited m]
/// ```
pub const UPPER: usize = 1 << 8;

/// What the piece inherited: the parent's side if it is a lower piece, otherwise what the parent inherited.
pub const INHERITED: usize = 1 << 9;

/// The sizes of a buddy system, and how they split. Classes ascend with the size. The lower of two buddies is the
/// larger one, or both are equal.
///
/// # Safety
///
/// The [`bytes`](Self::bytes) of a divisible class are the sum of its two parts'. [`buddy`](Self::buddy) matches the
/// split of the parent. [`top`](Self::top) tiles a region. The top blocks of the forest have no buddies: for a top
/// block, `buddy` returns a piece that no split of the neighbouring top block contains, or one outside the region if
/// [`LEAVES`](Self::LEAVES).
pub unsafe trait System: Sealed + Copy + core::fmt::Debug + 'static {
    /// Name in the laboratory.
    const NAME: &'static str;
    /// The paper and section that describe it.
    const SOURCE: &'static str;
    /// The sizes in words.
    const POLICY: &'static str;
    /// All sizes are multiples of this power of two, in bytes.
    const UNIT_BYTES: usize;
    /// Bytes of the smallest block, a power of two.
    const SMALLEST_BYTES: usize = Self::UNIT_BYTES;
    /// The smallest class.
    const FIRST: Class;
    /// The largest class, below 63.
    const LAST: Class;
    /// Whether the largest class limits a request, rather than the region.
    const IS_CAPPED: bool = false;
    /// The class of a parent less that of its lower part.
    const STEP: usize = 1;
    /// Whether pieces have sides.
    const HAS_SIDES: bool;
    /// Whether the buddy of a top block may lie outside the region.
    const LEAVES: bool;
    /// The set of classes whose blocks are aligned to every power of two up to their size.
    const ALIGNED: u64;
    /// Whether a block splits into two of one class, and [`find`](Self::find) returns the lowest class with a free
    /// block among those that its split passes through. Each block that the split frees is then alone in its list.
    const HALVES: bool = false;
    /// The integer that holds a tag in a side table.
    type Cell: Cell;

    /// Bytes of a block, header included.
    fn bytes(class: Class) -> usize;

    /// The smallest class of at least `bytes`, which is at least 1 and at most the size of some class.
    fn class_for(bytes: usize) -> Class;

    /// The largest class of at most `bytes`, which is at least a unit.
    fn class_within(bytes: usize) -> Class;

    /// Whether a block of the class splits.
    fn is_divisible(class: Class) -> bool;

    /// The class of a divisible block's upper part.
    fn upper(class: Class) -> Class;

    /// The address from which [`buddy`](Self::buddy) counts, in a region from `origin`, a multiple of the smallest
    /// block's size, to `end`.
    fn anchor(origin: usize, end: usize) -> usize {
        let _ = end;
        origin
    }

    /// The buddy of a piece, without regard to `INHERITED`. `None` if the class has no parent.
    fn buddy(anchor: usize, piece: Piece) -> Option<Piece>;

    /// The class of the top block that begins at `at`, in a region from `origin` to `end`.
    fn top(origin: usize, end: usize, at: usize) -> Class;

    /// Where some top block begins, at or before `address`.
    fn top_near(origin: usize, address: usize) -> usize {
        let _ = address;
        origin
    }

    /// The class that serves a request for `class`, given the set of those that have a free block.
    #[inline(always)]
    fn find(free: u64, class: Class) -> Option<Class> {
        lowest_from(free, class)
    }
}

/// The lowest member of a set that is at least `class`.
#[inline(always)]
pub(crate) fn lowest_from(set: u64, class: Class) -> Option<Class> {
    let candidates = NonZeroU64::new(set & u64::MAX.wrapping_shl(class.number() as u32))?;
    Some(Class::new(first_set_of_64(candidates) as usize))
}

/// One of two values, without a branch. A loop over levels that depends on sides then stays one loop, whose iterations
/// can be bounded.
#[inline(always)]
pub(crate) fn select(is_second: bool, first: usize, second: usize) -> usize {
    first ^ ((first ^ second) & usize::from(is_second).wrapping_neg())
}

/// [`select`] for classes.
#[inline(always)]
pub(crate) fn select_class(is_second: bool, first: Class, second: Class) -> Class {
    Class::new(select(is_second, first.number(), second.number()))
}

/// The set with one member.
#[inline(always)]
fn only(class: Class) -> u64 {
    1u64.wrapping_shl(class.number() as u32)
}

/// The buddy system `S` with tags stored by `P` and links of width `W`.
#[derive(Debug)]
pub struct Buddies<S, P, W> {
    /// Offsets count from the null node, which the heads follow.
    memory: Memory<W>,
    /// The set of classes whose list has a block.
    free: u64,
    /// Address of the first block, a multiple of the unit.
    origin: usize,
    /// Bytes that the top blocks tile, in whole units.
    span_bytes: usize,
    /// See [`System::anchor`].
    anchor: usize,
    /// The placement of tags.
    tags: P,
    /// The largest class that has a head.
    last: Class,
    /// The largest top block without its header, in bytes.
    limit_bytes: usize,
    system: PhantomData<S>,
}

impl<S: System, P: Placement, W: Width> Sealed for Buddies<S, P, W> {}

impl<S: System, P: Placement, W: Width> Buddies<S, P, W> {
    /// Checks that the parameters are compatible.
    const VALID: () = {
        assert!(S::UNIT_BYTES.is_power_of_two(), "a unit of a power of two");
        assert!(S::UNIT_BYTES >= P::HEADER_BYTES + 2 * W::BYTES, "a unit that holds a header and two links");
        assert!(
            S::UNIT_BYTES >= W::GRANULE || S::UNIT_BYTES.is_multiple_of(2 * W::BYTES),
            "links at a multiple of theirs"
        );
        assert!(S::UNIT_BYTES >= align_of::<usize>(), "blocks at a multiple of a word");
        assert!(P::HEADER_BYTES == 0 || P::HEADER_BYTES >= W::BYTES, "a header that holds a word");
        assert!(P::HEADER_BYTES.is_multiple_of(W::BYTES), "a header of whole words");
        let (first, last) = (S::FIRST.number(), S::LAST.number());
        assert!(first <= last && last < Tag::CLASSES, "classes that a tag expresses");
    };

    /// Whether every block is aligned to its size, so that a large enough block satisfies an alignment.
    const IS_ALIGNED: bool = S::ALIGNED == u64::MAX;

    /// A working copy in registers: the compiler must assume that a write to a block changes the fields in memory.
    #[inline(always)]
    fn copy(&self) -> Self {
        Buddies { ..*self }
    }

    /// First address after the last block.
    fn end(&self) -> usize {
        self.origin + self.span_bytes
    }

    /// Bytes of the null node and of the heads, for blocks up to `class`.
    #[inline(always)]
    const fn heads_bytes(class: Class) -> usize {
        (class.rank(S::FIRST).number() + 2) * W::BYTES
    }

    /// Bytes of a tag in a side table.
    const CELL_BYTES: usize = if P::HEADER_BYTES == 0 { size_of::<S::Cell>() } else { 0 };

    /// Bytes of a side table for this many units. A system whose buddies stay inside has a tag at its end.
    #[inline(always)]
    const fn map_bytes(units: Units) -> usize {
        (units.count() + if S::LEAVES { 0 } else { 1 }) * Self::CELL_BYTES
    }

    /// Bytes of a room, wherever it starts, in which blocks tile at least `span_bytes`, a whole number of units, the
    /// largest of which is at most of the class `last`.
    pub(crate) const fn room_bytes(span_bytes: usize, last: Class) -> usize {
        let map_bytes = Self::map_bytes(Units(span_bytes / S::UNIT_BYTES));
        Self::heads_bytes(last) + map_bytes + (S::SMALLEST_BYTES - 1) + span_bytes + Self::end_tag_bytes()
    }

    /// Bytes after the last block for the tag at the end, read only for the buddy of a top block.
    #[inline(always)]
    const fn end_tag_bytes() -> usize {
        if S::LEAVES || P::HEADER_BYTES == 0 { 0 } else { P::HEADER_BYTES }
    }

    /// Addresses of the side table and of the first of `units` in a room from `start`; `None` on overflow.
    fn layout(start: usize, units: Units) -> Option<(usize, usize)> {
        let map = start.checked_add(Self::heads_bytes(S::class_within(units.bytes::<S>())))?;
        let origin = map.checked_add(Self::map_bytes(units) + P::HEADER_BYTES)?;
        Some((map, round_up(origin, S::SMALLEST_BYTES)?))
    }

    /// The head of a class: a node of which only the `next` word exists. The null node precedes the first head.
    #[inline(always)]
    fn head(class: Class) -> Offset {
        NULL.up(class.rank(S::FIRST).number() * W::BYTES)
    }

    /// The tag of the unit at an address.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run, and the address is a unit of the heap or its end.
    #[inline(always)]
    unsafe fn tag(&self, address: usize) -> Tag {
        // SAFETY: `begin` initialised the tags, and the address is a unit of the heap or its end.
        unsafe { self.tags.load::<S, W>(self.memory, address) }
    }

    /// Writes a tag.
    ///
    /// # Safety
    ///
    /// As [`tag`](Self::tag), and the new tag keeps the invariants.
    #[inline(always)]
    unsafe fn set_tag(&self, address: usize, tag: Tag) {
        // SAFETY: the address is a unit of the heap or its end, so its tag is the heap's.
        unsafe { self.tags.store::<S, W>(self.memory, address, tag) }
    }

    /// Links a piece at the head of its list. The caller updates the set of lists that have a block.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the piece is a free block in no list.
    #[inline(always)]
    unsafe fn list(&mut self, piece: Piece) {
        // SAFETY: tag and links of a free block belong to the heap, and its class has a head.
        unsafe {
            self.set_tag(piece.address, piece.tag(State::Free));
            link(self.memory, Self::head(piece.class), self.memory.offset(piece.address));
        }
    }

    /// [`list`](Self::list) for an empty list: does not load the head or write the null node.
    ///
    /// # Safety
    ///
    /// As [`list`](Self::list); the list is empty.
    #[inline(always)]
    unsafe fn list_alone(&mut self, piece: Piece) {
        let (head, block) = (Self::head(piece.class), self.memory.offset(piece.address));
        // SAFETY: tag and links of a free block belong to the heap, and its class has a head.
        unsafe {
            self.set_tag(piece.address, piece.tag(State::Free));
            W::store_pair(self.memory, block, head, NULL);
            self.memory.store_link(next_at::<W>(head), block);
        }
    }

    /// Takes a free block out of its list.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the piece is a free block.
    #[inline(always)]
    unsafe fn remove(&mut self, piece: Piece) {
        let first_block = self.memory.offset(self.origin);
        // SAFETY: a free block is in the list of its class, and heads lie below the first block.
        if unsafe { unlink_or_empty(self.memory, self.memory.offset(piece.address), first_block) }.is_some() {
            self.free &= !only(piece.class);
        }
    }

    /// Takes the first block of a class. `None` if its header, and perhaps its links, were overwritten.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the class has a free block.
    #[inline(always)]
    unsafe fn pop(&mut self, class: Class) -> Option<Piece> {
        let head = Self::head(class);
        // SAFETY: the class has a free block, and links lead to free blocks or the null node.
        unsafe {
            let block = self.memory.load_link(next_at::<W>(head));
            let address = self.memory.address(block);
            let mut sides = 0;
            if S::HAS_SIDES || P::HEADER_BYTES != 0 {
                let tag = self.tag(address);
                sides = tag.sides();
                if P::HEADER_BYTES != 0 && tag.without(sides) != Tag::new(class, 0, State::Free) {
                    return None;
                }
            }
            let after = self.memory.load_link(next_at::<W>(block));
            self.memory.store_link(next_at::<W>(head), after);
            self.memory.store_link(after, head);
            // Branch-free, because the condition is hard to predict.
            let emptied = computed(self.free & !only(class));
            self.free = core::hint::select_unpredictable(after == NULL, emptied, self.free);
            Some(Piece { address, class, sides })
        }
    }

    /// The two parts of a divisible piece.
    #[inline(always)]
    fn parts(piece: Piece) -> (Piece, Piece) {
        let class = piece.class.down(S::STEP);
        let (lower_sides, upper_sides) = match S::HAS_SIDES {
            true => ((piece.sides & UPPER) << 1, UPPER | piece.sides & INHERITED),
            false => (0, 0),
        };
        (
            Piece { address: piece.address, class, sides: lower_sides },
            Piece { address: piece.address + S::bytes(class), class: S::upper(piece.class), sides: upper_sides },
        )
    }

    /// The parent of two buddies.
    #[inline(always)]
    fn whole(one: Piece, other: Piece) -> Piece {
        let (lower, upper) = if one.address < other.address { (one, other) } else { (other, one) };
        let sides = if S::HAS_SIDES { (lower.sides & INHERITED) >> 1 | upper.sides & INHERITED } else { 0 };
        Piece { address: lower.address, class: lower.class.up(S::STEP), sides }
    }

    /// The buddy of a piece, if it is a free block.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the piece is a block, or the parent of two free buddies.
    #[inline(always)]
    unsafe fn free_buddy(&self, piece: Piece) -> Option<Piece> {
        let buddy = S::buddy(self.anchor, piece)?;
        if S::LEAVES && buddy.address.wrapping_sub(self.origin) >= self.span_bytes {
            return None;
        }
        // SAFETY: the buddy is a unit of the heap, or its end, whose tag matches no piece.
        let tag = unsafe { self.tag(buddy.address) };
        let (own, inherited) = if S::HAS_SIDES { tag.without_inherited() } else { (tag, 0) };
        (own == buddy.tag(State::Free)).then_some(Piece { sides: buddy.sides | inherited, ..buddy })
    }

    /// Splits a piece as long as one of its parts fits, the smaller one first. The other parts become free, each alone
    /// in its list if `are_alone`.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the piece is a block in no list. If `are_alone`, the lists of the parts that
    /// become free are empty.
    #[inline(always)]
    unsafe fn divide(&mut self, mut piece: Piece, are_alone: bool, fits: impl Fn(Piece) -> bool) -> Piece {
        // Stored once at the end: a store in each iteration would delay the next one.
        let mut freed = 0;
        while S::is_divisible(piece.class) {
            loop_bound!(LoopBound::Splits);
            let (lower, upper) = Self::parts(piece);
            let (first, second) = if lower.class > upper.class { (upper, lower) } else { (lower, upper) };
            let (kept, other) = if fits(first) {
                (first, second)
            } else if fits(second) {
                (second, first)
            } else {
                break;
            };
            // SAFETY: the other part belongs to the piece, which is the heap's, and is in no list.
            unsafe { if are_alone { self.list_alone(other) } else { self.list(other) } };
            freed |= only(other.class);
            piece = kept;
        }
        self.free |= freed;
        piece
    }

    /// Takes a block of at least `bytes`, header included, from one of the classes in `among`.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; `bytes` is at most the size of some class.
    #[inline(always)]
    unsafe fn take_plain(&mut self, bytes: usize, among: u64) -> Option<Served> {
        let class = S::class_for(bytes);
        let mut heap = self.copy();
        // SAFETY: the class found has a free block of at least the size asked for; the tag of a live block is its own.
        unsafe {
            // Predictable branch: avoids the latency of the bit scan.
            let piece = if heap.free & among & only(class) != 0 {
                heap.pop(class)?
            } else {
                core::hint::cold_path();
                let found = heap.pop(S::find(heap.free & among, class)?)?;
                heap.divide(found, S::HALVES, |part| part.class >= class)
            };
            heap.set_tag(piece.address, piece.tag(State::Live));
            self.free = heap.free;
            Some(Served { address: piece.address, usable_bytes: S::bytes(piece.class) - P::HEADER_BYTES })
        }
    }

    /// Takes a block at an alignment that not every block has: a block of an aligned class or, failing that, any block
    /// with room to displace the payload.
    ///
    /// # Errors
    ///
    /// As [`Policy::take`].
    ///
    /// # Safety
    ///
    /// As [`Policy::take`].
    #[cold]
    #[inline(never)]
    unsafe fn take_aligned(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let size_bytes = size_bytes + P::HEADER_BYTES;
        if S::ALIGNED != 0 {
            // SAFETY: `begin` has run, and both sizes are at most that of the largest top block.
            let served = unsafe { self.take_plain(size_bytes.max(align_bytes), S::ALIGNED) };
            if let Some(served) = served {
                return Ok(served);
            }
        }
        let room_bytes = size_bytes + (align_bytes - S::UNIT_BYTES);
        if room_bytes > self.limit_bytes + P::HEADER_BYTES {
            return Err(if S::ALIGNED == 0 { AllocError::TooLarge } else { AllocError::Exhausted });
        }
        let found = S::find(self.free & !S::ALIGNED, S::class_for(room_bytes)).ok_or(AllocError::Exhausted)?;
        let aligned = |part: Piece| (part.address + (align_bytes - 1)) & !(align_bytes - 1);
        // SAFETY: the class found has a free block, with room for the payload and its displacement.
        unsafe {
            let popped = self.pop(found).ok_or(AllocError::Exhausted)?;
            let fits = |part| aligned(part) - part.address + size_bytes <= S::bytes(part.class);
            let piece = self.divide(popped, false, fits);
            Ok(self.occupy(piece, aligned(piece)))
        }
    }

    /// Makes a piece a live block whose payload is at `address`.
    ///
    /// The tag of a displaced payload is a marker, and the word before it is its distance from the start of the block.
    /// The first word of the block is the same distance, and the tag of the block says that its payload is displaced:
    ///
    /// ```text
    /// tag: displaced [distance]....[distance] tag: marker [payload]
    /// ```
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the piece is a block in no list, and the address is a unit of it.
    unsafe fn occupy(&mut self, piece: Piece, address: usize) -> Served {
        let distance = address - piece.address;
        // SAFETY: the tags are the block's own; the gap is at least a unit, which holds two words and a header.
        unsafe {
            if distance == 0 {
                self.set_tag(address, piece.tag(State::Live));
            } else {
                self.set_tag(piece.address, piece.tag(State::Displaced));
                self.memory.store(self.memory.offset(piece.address), distance);
                self.memory.store(self.distance_at(address), distance);
                self.set_tag(address, Tag::MARKER);
            }
        }
        Served { address, usable_bytes: S::bytes(piece.class) - P::HEADER_BYTES - distance }
    }

    /// Offset of the word before a displaced payload.
    fn distance_at(&self, address: usize) -> Offset {
        self.memory.offset(address).down(P::HEADER_BYTES + W::BYTES)
    }

    /// Whether an address is a unit of the heap: one comparison for range and alignment.
    #[inline(always)]
    fn is_unit(&self, address: usize) -> bool {
        let unit = address.wrapping_sub(self.origin).rotate_right(S::UNIT_BYTES.trailing_zeros());
        unit < self.span_bytes / S::UNIT_BYTES
    }

    /// The live block whose payload is at an address.
    ///
    /// # Errors
    ///
    /// The misuse that the address or its tag shows.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn locate(&self, address: usize) -> Result<Piece, MisuseKind> {
        if !self.is_unit(address) {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: the address is a unit of the heap.
        let tag = unsafe { self.tag(address) };
        let piece = Piece::tagged(address, tag);
        if tag.is(State::Live) {
            return Ok(piece);
        }
        if tag == Tag::MARKER && !Self::IS_ALIGNED {
            // SAFETY: the address is a unit of the heap.
            return unsafe { self.locate_displaced(address) };
        }
        Err(if tag.is(State::Free) { MisuseKind::DoubleFree } else { MisuseKind::ContradictoryTags })
    }

    /// The live block whose displaced payload is at an address with a marker.
    ///
    /// # Errors
    ///
    /// The two distances do not agree.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run; the address is a unit of the heap.
    #[cold]
    #[inline(never)]
    unsafe fn locate_displaced(&self, address: usize) -> Result<Piece, MisuseKind> {
        let contradiction = Err(MisuseKind::ContradictoryTags);
        if address == self.origin {
            return contradiction;
        }
        // SAFETY: the unit before the address belongs to the heap, and so does any address that is a unit. The tag is
        // checked before the word after it is read.
        unsafe {
            let distance = self.memory.load(self.distance_at(address));
            let start = address.wrapping_sub(distance);
            if distance == 0 || start > address || !self.is_unit(start) {
                return contradiction;
            }
            let tag = self.tag(start);
            if !tag.is(State::Displaced) || self.memory.load(self.memory.offset(start)) != distance {
                return contradiction;
            }
            Ok(Piece::tagged(start, tag))
        }
    }

    /// Largest number of iterations of allocate's loop in a region of this many bytes.
    pub fn max_splits(region_bytes: usize) -> usize {
        if region_bytes < S::UNIT_BYTES {
            return 0;
        }
        let mut most = 0;
        for from in S::FIRST.through(S::class_within(region_bytes)) {
            for target in S::FIRST.through(from) {
                let (mut class, mut iterations) = (from, 0);
                while S::is_divisible(class) && class.down(S::STEP) >= target {
                    class = if S::upper(class) >= target { S::upper(class) } else { class.down(S::STEP) };
                    iterations += 1;
                }
                most = most.max(iterations);
            }
        }
        most
    }

    /// Largest number of iterations of deallocate's loop in a region of this many bytes.
    pub fn max_merges(region_bytes: usize) -> usize {
        let mut most = 0;
        if region_bytes >= S::UNIT_BYTES {
            // No part splits more often than the lower one, which is the larger.
            for top in S::FIRST.through(S::class_within(region_bytes)) {
                let (mut class, mut iterations) = (top, 0);
                while S::is_divisible(class) {
                    class = class.down(S::STEP);
                    iterations += 1;
                }
                most = most.max(iterations);
            }
        }
        most
    }
}

// SAFETY: blocks are pieces of the forest, of which two overlap only if one contains the other. A live block is in no
// list and is neither split nor merged.
unsafe impl<S: System, P: Placement, W: Width> Policy for Buddies<S, P, W> {
    type Config = ();

    const CONTRACT: Contract = {
        let top_bytes = if S::IS_CAPPED { S::UNIT_BYTES << S::LAST.rank(S::FIRST).number() } else { usize::MAX };
        Contract {
            name: S::NAME,
            source: S::SOURCE,
            policy: S::POLICY,
            mechanism: Mechanism::Buddy,
            granule_bytes: S::UNIT_BYTES,
            header_bytes: P::HEADER_BYTES,
            alignment_bytes: S::UNIT_BYTES,
            min_block_bytes: S::SMALLEST_BYTES,
            // A block splits as long as a part suffices, whatever the size of the rest.
            splitting_threshold_bytes: 0,
            max_span_bytes: W::MAX,
            largest_request_bytes: if S::IS_CAPPED { top_bytes - P::HEADER_BYTES } else { usize::MAX },
            largest_alignment_bytes: match (S::IS_CAPPED, P::HEADER_BYTES) {
                (false, _) => usize::MAX,
                (true, 0) => top_bytes,
                (true, _) => top_bytes / 2,
            },
            page_bytes: 0,
            coarsest_bytes: 0,
            allocate: if S::IS_CAPPED { Cost::Constant } else { Cost::LogarithmicInRegion },
            deallocate: if S::IS_CAPPED { Cost::Constant } else { Cost::LogarithmicInRegion },
            reallocate: if S::IS_CAPPED { Cost::Constant } else { Cost::LogarithmicInRegion },
            coalescing: Coalescing::Buddies,
            grows_in_place: false,
            shrinks_in_place: true,
            detects_double_free: true,
            detects_stale_pointers: true,
            detects_overwritten_tags: false,
            largest_is_exact: true,
            largest_covers_smaller: true,
        }
    };

    fn plan(start: usize, end: usize, (): ()) -> Option<Self> {
        const { Self::VALID }
        let base = NonNull::new(core::ptr::with_exposed_provenance_mut(start))?;
        // The last block ends one header before the next payload would begin.
        let end = end.checked_add(P::HEADER_BYTES - Self::end_tag_bytes())?;
        let fitting = |units| {
            let (map, origin) = Self::layout(start, units)?;
            (Units::within::<S>(end.checked_sub(origin)?) >= units).then_some((map, origin))
        };
        // The most units that fit together with their heads and tags: a few iterations, for heads and rounding.
        let mut units = Units(end.checked_sub(start)? / (S::UNIT_BYTES + Self::CELL_BYTES));
        let (map, origin) = loop {
            if units.bytes::<S>() < S::SMALLEST_BYTES {
                return None;
            }
            match fitting(units) {
                Some(places) => break places,
                None => units.0 -= 1,
            }
        };
        let span_bytes = units.bytes::<S>();
        let mut limit_bytes = 0;
        let mut at = origin;
        while at < origin + span_bytes {
            let bytes = S::bytes(S::top(origin, origin + span_bytes, at));
            limit_bytes = limit_bytes.max(bytes - P::HEADER_BYTES);
            at += bytes;
        }
        Some(Buddies {
            memory: Memory::new(base),
            free: 0,
            origin,
            span_bytes,
            anchor: S::anchor(origin, origin + span_bytes),
            tags: P::new::<S>(map, origin),
            last: S::class_within(span_bytes),
            limit_bytes,
            system: PhantomData,
        })
    }

    fn needed_bytes((): ()) -> usize {
        Self::room_bytes(S::SMALLEST_BYTES, S::class_within(S::SMALLEST_BYTES))
    }

    unsafe fn begin(&mut self) {
        let end = self.end();
        // SAFETY: heads, tags and blocks belong to the policy's room; each block that is linked is free and in no list.
        unsafe {
            for word in 0..Self::heads_bytes(self.last) / W::BYTES {
                self.memory.store_link(NULL.up(word * W::BYTES), NULL);
            }
            if P::HEADER_BYTES == 0 {
                for distance_bytes in Units::within::<S>(self.span_bytes).distances_bytes::<S>() {
                    self.set_tag(self.origin + distance_bytes, Tag::NONE);
                }
            }
            if !S::LEAVES {
                self.set_tag(end, Tag::NONE);
            }
            // Adjacent blocks of one class are listed in address order.
            let mut before: Option<Piece> = None;
            let mut address = self.origin;
            while address < end {
                let top = Piece { address, class: S::top(self.origin, end, address), sides: 0 };
                let node = match before {
                    Some(before) if before.class == top.class => self.memory.offset(before.address),
                    _ => Self::head(top.class),
                };
                self.set_tag(address, top.tag(State::Free));
                link(self.memory, node, self.memory.offset(address));
                self.free |= only(top.class);
                before = Some(top);
                address += S::bytes(top.class);
            }
        }
    }

    fn limit(&self) -> usize {
        self.limit_bytes
    }

    fn origin(&self) -> usize {
        self.origin - P::HEADER_BYTES
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        // SAFETY: `begin` has run, and size and alignment are within the limits.
        unsafe {
            if Self::IS_ALIGNED {
                // Rounds up to the same power of two as the larger of size and alignment, without a comparison.
                return self
                    .take_plain(((size_bytes + P::HEADER_BYTES - 1) | (align_bytes - 1)) + 1, u64::MAX)
                    .ok_or(AllocError::Exhausted);
            }
            if align_bytes > S::UNIT_BYTES {
                return self.take_aligned(size_bytes, align_bytes);
            }
            self.take_plain(size_bytes + P::HEADER_BYTES, u64::MAX).ok_or(AllocError::Exhausted)
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run. The located block is live, so its tag is its own, and a free buddy is in its list.
        unsafe {
            let mut piece = self.locate(address)?;
            let usable_bytes = S::bytes(piece.class) - P::HEADER_BYTES - (address - piece.address);
            if !Self::IS_ALIGNED && piece.address != address {
                self.set_tag(address, Tag::NONE);
            }
            self.set_tag(piece.address, piece.tag(State::Free));
            while let Some(buddy) = self.free_buddy(piece) {
                loop_bound!(LoopBound::Merges);
                self.remove(buddy);
                piece = Self::whole(piece, buddy);
            }
            self.list(piece);
            self.free |= only(piece.class);
            Ok(usable_bytes)
        }
    }

    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run.
        let piece = unsafe { self.locate(address)? };
        Ok(S::bytes(piece.class) - P::HEADER_BYTES - (address - piece.address))
    }

    unsafe fn fit_in_place(&mut self, address: usize, usable_bytes: usize, size_bytes: usize) -> Option<usize> {
        // SAFETY: `begin` has run.
        let block = unsafe { self.locate(address) }.ok()?;
        let fits = |part: Piece| {
            part.address <= address && address - part.address + size_bytes + P::HEADER_BYTES <= S::bytes(part.class)
        };
        // Dividing and merging change the class of a piece, so classes show whether there was any.
        if size_bytes <= usable_bytes {
            // SAFETY: the block is live and in no list; the parts without its payload become free.
            return Some(unsafe {
                let piece = self.divide(block, false, fits);
                if piece.class == block.class { usable_bytes } else { self.occupy(piece, address).usable_bytes }
            });
        }
        // Nothing may change unless the upper buddies, one after another, provide enough room.
        let upper_buddy = |this: &Self, piece: Piece| {
            // SAFETY: `begin` has run; the piece is the block, or what it would become.
            unsafe { this.free_buddy(piece) }.filter(|buddy| buddy.address > piece.address)
        };
        let mut piece = block;
        while !fits(piece) {
            loop_bound!(LoopBound::Merges);
            piece = Self::whole(piece, upper_buddy(self, piece)?);
        }
        let mut grown = block;
        while grown.class != piece.class {
            loop_bound!(LoopBound::Merges);
            let buddy = upper_buddy(self, grown)?;
            // SAFETY: the buddy is free, so it is in its list.
            unsafe { self.remove(buddy) };
            grown = Self::whole(grown, buddy);
        }
        // SAFETY: the whole piece now belongs to the block, and is in no list.
        Some(unsafe { self.occupy(grown, address) }.usable_bytes)
    }

    unsafe fn largest(&self) -> usize {
        match NonZeroU64::new(self.free) {
            Some(free) => S::bytes(Class::new(free.ilog2() as usize)) - P::HEADER_BYTES,
            None => 0,
        }
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` has run.
        unsafe { self.visit_blocks(visit) }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        // SAFETY: `begin` has run.
        unsafe { self.verify() }
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        // SAFETY: `begin` has run.
        unsafe { self.emit_state(word) }
    }
}
