//! Arraylets: objects larger than a page (the future work of Compact-fit 2008, section 6; Bacon, Cheng and Rajan 2003).
//!
//! A large object consists of *leaves* of [`LEAF_BYTES`](Arraylets::LEAF_BYTES) bytes, each an object of the inner
//! heap, and a *spine* of their handles, which is an object too; the last leaf is only as large as needed. Where the
//! handles do not fit in one object, there are two levels of them. The spine's handle is the large object's, and
//! remains so when the object grows into a spine, or shrinks out of one.
//!
//! ```text
//!   small  [ bytes                          |kind]
//!
//!   large  [ size | h0 | h1 | h2            |kind]          one level
//!                    |    |    `-> [ bytes            |root|2|kind]
//!                    |    `------> [ LEAF_BYTES bytes |root|1|kind]
//!                    `-----------> [ LEAF_BYTES bytes |root|0|kind]
//!
//!   larger [ size | s0 | s1                 |kind]          two levels
//!                    |    `-> [ h.. h..     |root|1|kind]
//!                    `------> [ h0 h1 h2 .. |root|0|kind]
//!                               `-> leaves
//! ```
//!
//! The byte after each object's own bytes is its kind. So a made-up handle cannot reach the inside of a large object:
//! using the handle of a leaf returns that this heap has no such object. The byte lies beyond the user's reach, and
//! costs each small object one byte. Leaves and inner spines also hold their position, so that
//! [`check`](HandleAllocator::check) verifies that each has one.
//!
//! | operation | cost |
//! |---|---|
//! | access at any offset | the heap's, twice or three times |
//! | allocate, free | the heap's, once per leaf |
//! | resize | the heap's, once per leaf added or removed; the remaining bytes are copied only where the object gains or loses its spine |
//!
//! It wins where few objects are larger than a page and must not be refused: no adjacent pages are needed, and a large
//! object moves one leaf at a time. It loses against contiguous memory in every access, and at worst a page for the
//! last leaf.
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::handles::{AbstractPointer, Arraylets, Bytes};
//! use rtalloc::{CompactFit, HandleAllocator};
//!
//! let mut memory = [MaybeUninit::uninit(); 512 * 1024];
//! let mut heap: Bytes<'_, Arraylets<'_, CompactFit<'_>>> = Bytes::new(&mut memory, Default::default())?;
//!
//! let picture = heap.allocate(100_000)?; // Zeros, in seven leaves.
//! heap.write_at(AbstractPointer::new(picture, 70_000), b"compact")?;
//! let mut word = [0; 7];
//! heap.read_at(AbstractPointer::new(picture, 70_000), &mut word)?;
//! assert_eq!(&word, b"compact");
//! assert_eq!(heap.pieces(picture)?.count(), 7);
//! heap.free(picture)?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! If a leaf of a large object is refused, the allocation is undone: no object is left, or changed. But unlike in the
//! inner heap, the places of later allocations may have changed.

mod verify;

use super::access::AbstractPointer;
use crate::arithmetic::rounded_up;
use crate::contract::{
    AccessError, AllocError, Contract, Corruption, Cost, Fragmentation, Handle, HandleAllocator, HandleError,
    InitError, LoopBound, Object, ResizeError, Stats, loop_bound,
};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroU64;
use core::ptr::NonNull;

/// Bytes of a handle in a spine.
const HANDLE_BYTES: usize = size_of::<Handle>();

/// Bytes before a root's handles: the size of the object.
const SIZE_BYTES: usize = HANDLE_BYTES;

/// Bytes after a user's own and after a root's handles: the kind.
const KIND_BYTES: usize = 1;

/// Bytes after those of a leaf or an inner spine: its root, its index, and the kind.
const PART_BYTES: usize = HANDLE_BYTES + size_of::<u32>() + KIND_BYTES;

/// The role of an object of the inner heap in this layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A user's object, stored directly.
    Small,
    /// The spine of a user's object, with the handles of leaves.
    Root,
    /// The spine of a user's object, with the handles of inner spines.
    RootOfSpines,
    /// Bytes of a large object.
    Leaf,
    /// Handles of leaves of an object with two levels.
    Spine,
}

impl Kind {
    #[inline(always)]
    const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Kind::Small,
            1 => Kind::Root,
            2 => Kind::RootOfSpines,
            3 => Kind::Leaf,
            4 => Kind::Spine,
            _ => return None,
        })
    }
}

/// A root that has been examined.
#[derive(Clone, Copy, Debug)]
struct Large {
    root: Handle,
    has_spines: bool,
    size_bytes: usize,
}

/// A user's object that has been examined.
#[derive(Clone, Copy, Debug)]
enum Whole {
    Small { size_bytes: usize },
    Large(Large),
}

/// A heap of handles for objects of any size, on a heap for objects that fit in a page.
#[derive(Debug)]
pub struct Arraylets<'r, H> {
    /// Each of its objects has its kind in its last byte; leaves and spines are reached from exactly one root. Never
    /// lent mutably.
    heap: H,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

impl<'r, H: HandleAllocator<'r>> Arraylets<'r, H> {
    /// Bytes of an object that one leaf holds; objects up to this size have no spine.
    pub const LEAF_BYTES: usize = {
        let align_bytes = H::CONTRACT.alignment_bytes;
        let granted_bytes = if H::IS_CONTIGUOUS { align_bytes } else { H::PIECE_BYTES };
        let unit_bytes = if granted_bytes > HANDLE_BYTES { granted_bytes } else { HANDLE_BYTES };
        assert!(granted_bytes.is_multiple_of(align_bytes), "a piece of a leaf must be aligned like an object");
        assert!(unit_bytes.is_multiple_of(granted_bytes), "a leaf must end with a piece");
        assert!(unit_bytes.is_multiple_of(HANDLE_BYTES), "a handle must lie in one piece of a spine");
        let most_bytes = H::CONTRACT.largest_request_bytes;
        assert!(most_bytes >= 2 * unit_bytes + PART_BYTES, "an object of the inner heap must hold a leaf");
        (most_bytes - PART_BYTES) / unit_bytes * unit_bytes
    };

    /// Handles in a spine.
    pub const FAN: usize = (H::CONTRACT.largest_request_bytes - PART_BYTES) / HANDLE_BYTES;

    /// Bytes of the largest object.
    pub const LARGEST_BYTES: usize = {
        let bytes = (Self::FAN * Self::FAN).saturating_mul(Self::LEAF_BYTES);
        if bytes < isize::MAX as usize { bytes } else { isize::MAX as usize }
    };

    /// The inner heap, for queries: its objects are small objects, spines and leaves.
    #[inline(always)]
    pub fn heap(&self) -> &H {
        &self.heap
    }

    /// Number of leaves of an object of this size.
    #[inline(always)]
    const fn leaves(size_bytes: usize) -> usize {
        size_bytes.div_ceil(Self::LEAF_BYTES)
    }

    /// Bytes in leaf number `index` of an object of this size, which has that leaf.
    #[inline(always)]
    const fn bytes_in_leaf(size_bytes: usize, index: usize) -> usize {
        let left_bytes = size_bytes - index * Self::LEAF_BYTES;
        if left_bytes < Self::LEAF_BYTES { left_bytes } else { Self::LEAF_BYTES }
    }

    /// Bytes to request for a leaf of this size: the data after it lies at a multiple of a handle's size, in one piece.
    #[inline(always)]
    const fn leaf_request(bytes: usize) -> usize {
        rounded_up(bytes, HANDLE_BYTES) + PART_BYTES
    }

    /// Bytes to request for an inner spine: all have the largest size.
    const SPINE_REQUEST: usize = Self::FAN * HANDLE_BYTES + PART_BYTES;

    /// Bytes to request for a root with this many handles.
    #[inline(always)]
    const fn root_request(handles: usize) -> usize {
        SIZE_BYTES + handles * HANDLE_BYTES + KIND_BYTES
    }

    /// Handles in the root of an object with this many leaves.
    #[inline(always)]
    const fn handles_in_root(leaves: usize, has_spines: bool) -> usize {
        if has_spines { leaves.div_ceil(Self::FAN) } else { leaves }
    }

    // Words and kinds of the heap's objects.

    /// Reads the handle at an offset of a spine.
    ///
    /// # Safety
    ///
    /// This layer wrote a handle there, and the spine is live.
    #[inline(always)]
    unsafe fn handle_at(&self, spine: Handle, offset_bytes: usize) -> Handle {
        // SAFETY: the spine is live, and this layer wrote a nonzero handle there, which lies in one piece.
        unsafe {
            let bits = self.heap.dereference(spine, offset_bytes).cast::<u64>().read_unaligned();
            Handle::from_bits(NonZeroU64::new_unchecked(bits))
        }
    }

    /// Writes a value into an object, never beyond the object's end.
    #[inline(always)]
    fn store<T>(&mut self, object: Handle, offset_bytes: usize, value: T) {
        match self.heap.locate_mut(object, offset_bytes) {
            // SAFETY: `len_bytes` bytes are there, enough for a `T`.
            Ok((place, len_bytes)) if len_bytes >= size_of::<T>() => unsafe {
                place.cast::<T>().write_unaligned(value)
            },
            _ => debug_assert!(false, "a live object with room for the value"),
        }
    }

    /// The kind of an object of the inner heap, and the object's size there.
    #[inline(always)]
    fn kind(&self, object: Handle) -> Result<(Option<Kind>, usize), HandleError> {
        let size_bytes = self.heap.size(object)?;
        // SAFETY: the object is live and has a last byte, which this layer wrote.
        let byte = unsafe { self.heap.dereference(object, size_bytes - KIND_BYTES).read() };
        Ok((Kind::from_byte(byte), size_bytes))
    }

    /// Writes the kind to the last byte of an object that was allocated or resized to `request_bytes`.
    #[inline(always)]
    fn set_kind(&mut self, object: Handle, request_bytes: usize, kind: Kind) {
        self.store(object, request_bytes - KIND_BYTES, kind as u8);
    }

    /// Writes the data after a leaf's or inner spine's own bytes.
    #[inline(always)]
    fn set_part(&mut self, object: Handle, request_bytes: usize, kind: Kind, root: Handle, index: usize) {
        self.store(object, request_bytes - PART_BYTES, root);
        self.store(object, request_bytes - PART_BYTES + HANDLE_BYTES, index as u32);
        self.set_kind(object, request_bytes, kind);
    }

    /// Examines a handle that a user passed.
    #[inline(always)]
    fn whole(&self, handle: Handle) -> Result<Whole, HandleError> {
        let (kind, request_bytes) = self.kind(handle)?;
        let has_spines = match kind {
            Some(Kind::Small) => return Ok(Whole::Small { size_bytes: request_bytes - KIND_BYTES }),
            Some(Kind::Root) => false,
            Some(Kind::RootOfSpines) => true,
            _ => return Err(HandleError::Foreign),
        };
        // SAFETY: a root is live, and begins with the size of its object.
        let size_bytes = unsafe { self.heap.dereference(handle, 0).cast::<usize>().read_unaligned() };
        Ok(Whole::Large(Large { root: handle, has_spines, size_bytes }))
    }

    /// The spine with the handle of leaf number `index`, and the handle's offset in it.
    #[inline(always)]
    fn slot(&self, large: Large, index: usize) -> AbstractPointer {
        if large.has_spines {
            // SAFETY: a root of spines has the handles of all its spines.
            let spine = unsafe { self.handle_at(large.root, SIZE_BYTES + index / Self::FAN * HANDLE_BYTES) };
            AbstractPointer::new(spine, index % Self::FAN * HANDLE_BYTES)
        } else {
            AbstractPointer::new(large.root, SIZE_BYTES + index * HANDLE_BYTES)
        }
    }

    /// Leaf number `index` of a large object.
    #[inline(always)]
    fn leaf(&self, large: Large, index: usize) -> Handle {
        let slot = self.slot(large, index);
        // SAFETY: a large object has the handles of all its leaves.
        unsafe { self.handle_at(slot.handle, slot.offset_bytes) }
    }

    /// The address of a byte of a user's object, by a function that locates a byte of the inner heap; and how many
    /// bytes are contiguous with it.
    #[inline(always)]
    fn find(
        &self,
        handle: Handle,
        offset_bytes: usize,
        locate: impl FnOnce(&H, Handle, usize) -> Result<(NonNull<u8>, usize), AccessError>,
    ) -> Result<(NonNull<u8>, usize), AccessError> {
        let whole = self.whole(handle)?;
        let (Whole::Small { size_bytes } | Whole::Large(Large { size_bytes, .. })) = whole;
        if offset_bytes >= size_bytes {
            return Err(AccessError::OutOfBounds { size_bytes });
        }
        let (object, begins_at) = match whole {
            Whole::Small { .. } => (handle, 0),
            Whole::Large(large) => {
                let index = offset_bytes / Self::LEAF_BYTES;
                (self.leaf(large, index), index * Self::LEAF_BYTES)
            }
        };
        let (place, len_bytes) = locate(&self.heap, object, offset_bytes - begins_at)?;
        let own_bytes = size_bytes.min(begins_at + Self::LEAF_BYTES) - offset_bytes;
        Ok((place, len_bytes.min(own_bytes)))
    }

    // Adding and removing leaves. Roots have room for their handles.

    /// Frees an object that this layer made for itself.
    #[inline(always)]
    fn free_own(&mut self, object: Handle) {
        let freed = self.heap.free(object);
        debug_assert!(freed.is_ok(), "an object of this layer is live until it frees it");
    }

    /// Adds leaf number `index`, of `bytes` bytes, after the others.
    fn push_leaf(&mut self, large: Large, index: usize, bytes: usize) -> Result<(), AllocError> {
        let is_first_of_spine = large.has_spines && index.is_multiple_of(Self::FAN);
        if is_first_of_spine {
            let spine = self.heap.allocate(Self::SPINE_REQUEST)?;
            self.set_part(spine, Self::SPINE_REQUEST, Kind::Spine, large.root, index / Self::FAN);
            self.store(large.root, SIZE_BYTES + index / Self::FAN * HANDLE_BYTES, spine);
        }
        let slot = self.slot(large, index);
        let request_bytes = Self::leaf_request(bytes);
        match self.heap.allocate(request_bytes) {
            Ok(leaf) => {
                self.set_part(leaf, request_bytes, Kind::Leaf, large.root, index);
                self.store(slot.handle, slot.offset_bytes, leaf);
                Ok(())
            }
            Err(error) => {
                if is_first_of_spine {
                    self.free_own(slot.handle);
                }
                Err(error)
            }
        }
    }

    /// Frees leaf number `index`, which is the last one.
    fn pop_leaf(&mut self, large: Large, index: usize) {
        let slot = self.slot(large, index);
        let leaf = self.leaf(large, index);
        self.free_own(leaf);
        if large.has_spines && index.is_multiple_of(Self::FAN) {
            self.free_own(slot.handle);
        }
    }

    /// Adds leaves after the first `have` until there are `wanted`, for a size of `size_bytes`; frees those it added if
    /// one is refused.
    fn push_leaves(&mut self, large: Large, have: usize, wanted: usize, size_bytes: usize) -> Result<(), AllocError> {
        for index in have..wanted {
            loop_bound!(LoopBound::Caller); // leaves to add
            if let Err(error) = self.push_leaf(large, index, Self::bytes_in_leaf(size_bytes, index)) {
                self.pop_leaves(large, index, have);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Frees leaves until there are `wanted`.
    fn pop_leaves(&mut self, large: Large, have: usize, wanted: usize) {
        for index in (wanted..have).rev() {
            loop_bound!(LoopBound::Caller); // leaves to remove
            self.pop_leaf(large, index);
        }
    }

    /// Resizes a leaf to hold `bytes` bytes. If the heap cannot shrink it, it stays larger than needed.
    fn resize_leaf(&mut self, large: Large, index: usize, bytes: usize) -> Result<(), ResizeError> {
        let leaf = self.leaf(large, index);
        let has_bytes = self.heap.size(leaf)?;
        let wants_bytes = Self::leaf_request(bytes);
        match self.heap.resize(leaf, wants_bytes) {
            Ok(()) => self.set_part(leaf, wants_bytes, Kind::Leaf, large.root, index),
            Err(error) if wants_bytes > has_bytes => return Err(error),
            Err(_) => {}
        }
        Ok(())
    }

    /// Resizes a root to hold `handles` handles. If the heap cannot shrink it, it stays larger than needed.
    fn resize_root(&mut self, large: Large, handles: usize) -> Result<(), ResizeError> {
        let has_bytes = self.heap.size(large.root)?;
        let wants_bytes = Self::root_request(handles);
        let kind = if large.has_spines { Kind::RootOfSpines } else { Kind::Root };
        match self.heap.resize(large.root, wants_bytes) {
            Ok(()) => self.set_kind(large.root, wants_bytes, kind),
            Err(error) if wants_bytes > has_bytes => return Err(error),
            Err(_) => self.set_kind(large.root, has_bytes, kind),
        }
        Ok(())
    }

    /// Copies bytes between the starts of two objects.
    fn copy(&mut self, from: AbstractPointer, to: AbstractPointer, len_bytes: usize) {
        let mut done_bytes = 0;
        while done_bytes < len_bytes {
            loop_bound!(LoopBound::Caller); // pieces of both
            let source = self.heap.locate(from.handle, from.offset_bytes + done_bytes);
            let target = self.heap.locate_mut(to.handle, to.offset_bytes + done_bytes);
            let (Ok((source, source_bytes)), Ok((target, target_bytes))) = (source, target) else {
                debug_assert!(false, "two live objects of at least this size");
                return;
            };
            let now_bytes = source_bytes.min(target_bytes).min(len_bytes - done_bytes);
            // SAFETY: both objects have `now_bytes` bytes there, and are different ones.
            unsafe { target.copy_from_nonoverlapping(source, now_bytes) }
            done_bytes += now_bytes;
        }
    }

    // Adding and removing levels.

    /// Turns a small object into a leaf, and its handle into that of a spine: `[bytes]` -> `[size | h0] -> [bytes]`.
    fn grow_spine(&mut self, root: Handle, size_bytes: usize) -> Result<Large, ResizeError> {
        let request_bytes = Self::leaf_request(size_bytes);
        let leaf = self.heap.allocate(request_bytes)?;
        self.set_part(leaf, request_bytes, Kind::Leaf, root, 0);
        self.copy(AbstractPointer::from(root), AbstractPointer::from(leaf), size_bytes);
        if let Err(error) = self.heap.resize(root, Self::root_request(1)) {
            self.free_own(leaf);
            return Err(error);
        }
        self.set_kind(root, Self::root_request(1), Kind::Root);
        self.store(root, 0, size_bytes);
        self.store(root, SIZE_BYTES, leaf);
        Ok(Large { root, has_spines: false, size_bytes })
    }

    /// The reverse, for an object whose one leaf is small enough; skipped if the heap cannot resize the root.
    fn shrink_spine(&mut self, large: Large) {
        let leaf = self.leaf(large, 0);
        let request_bytes = large.size_bytes + KIND_BYTES;
        if self.heap.resize(large.root, request_bytes).is_ok() {
            self.copy(AbstractPointer::from(leaf), AbstractPointer::from(large.root), large.size_bytes);
            self.set_kind(large.root, request_bytes, Kind::Small);
            self.free_own(leaf);
        }
    }

    /// Puts an inner spine between a root and its leaves: `[size | h..]` -> `[size | s0] -> [h..]`.
    fn grow_level(&mut self, large: Large) -> Result<Large, ResizeError> {
        let leaves = Self::leaves(large.size_bytes);
        let spine = self.heap.allocate(Self::SPINE_REQUEST)?;
        self.set_part(spine, Self::SPINE_REQUEST, Kind::Spine, large.root, 0);
        let handles = AbstractPointer::from(large.root) + SIZE_BYTES;
        self.copy(handles, AbstractPointer::from(spine), leaves * HANDLE_BYTES);
        self.store(large.root, SIZE_BYTES, spine);
        let large = Large { has_spines: true, ..large };
        self.resize_root(large, 1)?;
        Ok(large)
    }

    /// The reverse, for an object whose handles fit in one spine; skipped if the heap cannot resize the root.
    fn shrink_level(&mut self, large: Large) -> Large {
        let leaves = Self::leaves(large.size_bytes);
        let spine = self.slot(large, 0).handle;
        let one_level = Large { has_spines: false, ..large };
        if self.resize_root(one_level, leaves).is_err() {
            return large;
        }
        let handles = AbstractPointer::from(large.root) + SIZE_BYTES;
        self.copy(AbstractPointer::from(spine), handles, leaves * HANDLE_BYTES);
        self.free_own(spine);
        one_level
    }

    /// Removes the levels that an object of its size does not need.
    fn settle(&mut self, large: Large) {
        let mut large = large;
        if large.has_spines && Self::leaves(large.size_bytes) <= Self::FAN {
            large = self.shrink_level(large);
        }
        if !large.has_spines && large.size_bytes <= Self::LEAF_BYTES {
            self.shrink_spine(large);
        }
    }

    /// Adds leaves to an object, or enlarges its last one.
    fn grow(&mut self, large: Large, size_bytes: usize) -> Result<(), ResizeError> {
        let (have, wanted) = (Self::leaves(large.size_bytes), Self::leaves(size_bytes));
        let last = have - 1;
        self.resize_leaf(large, last, Self::bytes_in_leaf(size_bytes, last))?;
        let handles = Self::handles_in_root(wanted, large.has_spines);
        let grown = self.resize_root(large, handles);
        let grown = grown.and_then(|()| Ok(self.push_leaves(large, have, wanted, size_bytes)?));
        if grown.is_err() {
            // If the heap cannot shrink them, they stay larger than needed.
            let _ = self.resize_root(large, Self::handles_in_root(have, large.has_spines));
            let _ = self.resize_leaf(large, last, Self::bytes_in_leaf(large.size_bytes, last));
            return grown;
        }
        self.store(large.root, 0, size_bytes);
        Ok(())
    }

    /// Removes leaves from an object, or bytes from its last one.
    fn shrink(&mut self, large: Large, size_bytes: usize) {
        let (have, wanted) = (Self::leaves(large.size_bytes), Self::leaves(size_bytes));
        self.pop_leaves(large, have, wanted);
        self.store(large.root, 0, size_bytes);
        // If the heap cannot shrink them, they stay larger than needed.
        let _ = self.resize_leaf(large, wanted - 1, Self::bytes_in_leaf(size_bytes, wanted - 1));
        let _ = self.resize_root(large, Self::handles_in_root(wanted, large.has_spines));
    }

    /// Allocates an object with a spine.
    fn allocate_large(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        let leaves = Self::leaves(size_bytes);
        let has_spines = leaves > Self::FAN;
        let request_bytes = Self::root_request(Self::handles_in_root(leaves, has_spines));
        let root = self.heap.allocate(request_bytes)?;
        self.set_kind(root, request_bytes, if has_spines { Kind::RootOfSpines } else { Kind::Root });
        self.store(root, 0, size_bytes);
        if let Err(error) = self.push_leaves(Large { root, has_spines, size_bytes }, 0, leaves, size_bytes) {
            self.free_own(root);
            return Err(error);
        }
        Ok(root)
    }
}

// SAFETY: an object consists of objects of the inner heap, which keeps the contract; no two share one.
unsafe impl<'r, H: HandleAllocator<'r>> HandleAllocator<'r> for Arraylets<'r, H> {
    type Config = H::Config;

    const CONTRACT: Contract = Contract {
        name: "arraylets",
        source: "Craciunas et al. 2008, section 6; Bacon, Cheng and Rajan 2003",
        policy: "objects larger than a page are leaves and a spine",
        largest_request_bytes: Self::LARGEST_BYTES,
        allocate: Cost::LinearInBlock,
        deallocate: Cost::LinearInBlock,
        reallocate: Cost::LinearInBlock,
        largest_is_exact: false,
        ..H::CONTRACT
    };

    const IS_CONTIGUOUS: bool = false;

    const PIECE_BYTES: usize = if H::IS_CONTIGUOUS { Self::LEAF_BYTES } else { H::PIECE_BYTES };

    fn new(region: &'r mut [MaybeUninit<u8>], config: H::Config) -> Result<Self, InitError> {
        Ok(Arraylets { heap: H::new(region, config)?, region: PhantomData })
    }

    #[inline(always)]
    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, AllocError> {
        match size_bytes {
            0 => Err(AllocError::ZeroSize),
            _ if size_bytes <= Self::LEAF_BYTES => {
                let handle = self.heap.allocate(size_bytes + KIND_BYTES)?;
                self.set_kind(handle, size_bytes + KIND_BYTES, Kind::Small);
                Ok(handle)
            }
            _ if size_bytes <= Self::LARGEST_BYTES => self.allocate_large(size_bytes),
            _ => Err(AllocError::TooLarge),
        }
    }

    #[inline(always)]
    fn free(&mut self, handle: Handle) -> Result<(), HandleError> {
        if let Whole::Large(large) = self.whole(handle)? {
            self.pop_leaves(large, Self::leaves(large.size_bytes), 0);
        }
        self.heap.free(handle)
    }

    fn resize(&mut self, handle: Handle, size_bytes: usize) -> Result<(), ResizeError> {
        let whole = self.whole(handle)?;
        if size_bytes == 0 {
            return Err(ResizeError::Refused(AllocError::ZeroSize));
        }
        if size_bytes > Self::LARGEST_BYTES {
            return Err(ResizeError::Refused(AllocError::TooLarge));
        }
        let mut large = match whole {
            Whole::Small { .. } if size_bytes <= Self::LEAF_BYTES => {
                self.heap.resize(handle, size_bytes + KIND_BYTES)?;
                self.set_kind(handle, size_bytes + KIND_BYTES, Kind::Small);
                return Ok(());
            }
            Whole::Small { size_bytes: before_bytes } => self.grow_spine(handle, before_bytes)?,
            Whole::Large(large) => large,
        };
        let mut outcome = Ok(());
        if !large.has_spines && Self::leaves(size_bytes) > Self::FAN {
            match self.grow_level(large) {
                Ok(grown) => large = grown,
                Err(error) => outcome = Err(error),
            }
        }
        if outcome.is_ok() {
            if size_bytes > large.size_bytes {
                outcome = self.grow(large, size_bytes);
            } else {
                self.shrink(large, size_bytes);
            }
        }
        if outcome.is_ok() {
            large.size_bytes = size_bytes;
        }
        self.settle(large);
        outcome
    }

    #[inline(always)]
    fn size(&self, handle: Handle) -> Result<usize, HandleError> {
        let (Whole::Small { size_bytes } | Whole::Large(Large { size_bytes, .. })) = self.whole(handle)?;
        Ok(size_bytes)
    }

    #[inline(always)]
    fn locate(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        self.find(handle, offset_bytes, H::locate)
    }

    #[inline(always)]
    fn locate_mut(&self, handle: Handle, offset_bytes: usize) -> Result<(NonNull<u8>, usize), AccessError> {
        self.find(handle, offset_bytes, H::locate_mut)
    }

    #[inline(always)]
    unsafe fn dereference(&self, handle: Handle, offset_bytes: usize) -> NonNull<u8> {
        let (object, offset_bytes) = match self.whole(handle) {
            Ok(Whole::Large(large)) => {
                (self.leaf(large, offset_bytes / Self::LEAF_BYTES), offset_bytes % Self::LEAF_BYTES)
            }
            _ => (handle, offset_bytes),
        };
        // SAFETY: the caller guarantees that the object is live and has this byte; a large one's leaves are live, all
        // but the last full.
        unsafe { self.heap.dereference(object, offset_bytes) }
    }

    #[inline(always)]
    fn pending_bytes(&self) -> usize {
        self.heap.pending_bytes()
    }

    #[inline(always)]
    fn compact(&mut self, budget_bytes: usize) -> usize {
        self.heap.compact(budget_bytes)
    }

    /// The largest small object. Larger objects may succeed, and smaller ones only in sizes that the inner heap serves.
    #[inline(always)]
    fn largest_allocatable(&self) -> usize {
        self.heap.largest_allocatable().saturating_sub(KIND_BYTES).min(Self::LEAF_BYTES)
    }

    /// Those of the inner heap, which counts leaves and spines as objects.
    fn stats(&self) -> Option<Stats> {
        self.heap.stats()
    }

    /// That of the inner heap; spines, kinds and the leaves' own data count as lost within page-blocks.
    fn fragmentation(&self) -> Fragmentation {
        let inner = self.heap.fragmentation();
        let (mut requested_bytes, mut own_bytes) = (0, 0);
        self.heap.walk(&mut |object| requested_bytes += object.size_bytes);
        self.walk(&mut |object| own_bytes += object.size_bytes);
        let block_internal_bytes = inner.block_internal_bytes + (requested_bytes - own_bytes);
        Fragmentation { block_internal_bytes, ..inner }
    }

    /// The users' objects. For a large one, the page-block is its root's, and the usable size is the requested one.
    fn walk(&self, visitor: &mut dyn FnMut(Object)) {
        self.heap.walk(&mut |object| match self.whole(object.handle) {
            Ok(Whole::Small { size_bytes }) => {
                visitor(Object { size_bytes, usable_bytes: object.usable_bytes - KIND_BYTES, ..object });
            }
            Ok(Whole::Large(large)) => {
                // SAFETY: a large object has a first leaf, which is live.
                let first = unsafe { self.heap.dereference(self.leaf(large, 0), 0) };
                let size_bytes = large.size_bytes;
                visitor(Object { address: first.addr().get(), size_bytes, usable_bytes: size_bytes, ..object });
            }
            Err(_) => {}
        });
    }

    fn check(&self) -> Result<(), Corruption> {
        self.heap.check()?;
        self.check_trees()
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        self.heap.fingerprint(word);
        self.heap.walk(&mut |object| match self.whole(object.handle) {
            Ok(Whole::Small { .. }) => word(0),
            Ok(Whole::Large(large)) => {
                word(large.size_bytes);
                let mut last_spine = None;
                for index in 0..Self::leaves(large.size_bytes) {
                    let spine = self.slot(large, index).handle;
                    if last_spine != Some(spine) {
                        word(spine.address() as usize);
                        last_spine = Some(spine);
                    }
                    word(self.leaf(large, index).address() as usize);
                }
            }
            // Leaves and inner spines follow from their roots.
            Err(_) => word(1),
        });
    }
}
