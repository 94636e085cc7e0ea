//! A heap of values of any type, named by typed handles.
//!
//! A [`TypedHandle<T>`](TypedHandle) names a `T` that was moved into the heap, and nothing else: it cannot be made from
//! a number, and no other handle can overwrite the value. It belongs to one heap, by a lifetime that is the heap's own
//! (a *brand*). Handles of two heaps have different types, so no part of the handle is needed to distinguish the heaps
//! at run time. A brand is made by [`Boxes::scope`].
//!
//! Handles are `Copy`, and dropping one drops no value. [`Boxes::remove`] returns the value; values that are still in
//! the heap at its end are forgotten, as by [`core::mem::forget`].
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::CompactFit;
//! use rtalloc::handles::{Boxes, TypedHandle};
//!
//! /// A node of a list in a heap.
//! struct Node<'id> {
//!     value: u32,
//!     next: Option<TypedHandle<'id, Node<'id>>>,
//! }
//!
//! let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! let sum = Boxes::<CompactFit>::scope(&mut memory, Default::default(), |mut heap| {
//!     let mut list = None;
//!     for value in 1..=10 {
//!         list = heap.insert(Node { value, next: list }).ok();
//!     }
//!     let mut sum = 0;
//!     while let Some(node) = list.and_then(|handle| heap.remove(handle).ok()) {
//!         sum += node.value;
//!         list = node.next;
//!     }
//!     sum
//! })?;
//! assert_eq!(sum, 55);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # What does not compile
//!
//! A reference that is alive while a value is inserted, or removed, or the heap compacts:
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(mut heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>) {
//! let value = heap.borrow(object).unwrap();
//! heap.insert(1_u8).unwrap();
//! assert_eq!(*value, 0);
//! # }
//! ```
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(mut heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>, other: TypedHandle<'id, u32>) {
//! let value = heap.borrow(object).unwrap();
//! heap.remove(other).unwrap();
//! assert_eq!(*value, 0);
//! # }
//! ```
//!
//! ```compile_fail,E0502
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(mut heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>) {
//! let value = heap.borrow(object).unwrap();
//! heap.compact(64);
//! assert_eq!(*value, 0);
//! # }
//! ```
//!
//! or while another, mutable reference is alive:
//!
//! ```compile_fail,E0499
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(mut heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>, other: TypedHandle<'id, u32>) {
//! let value = heap.borrow_mut(object).unwrap();
//! let another = heap.borrow_mut(other).unwrap();
//! *value = *another;
//! # }
//! ```
//!
//! or when the heap is gone:
//!
//! ```compile_fail,E0505
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>) {
//! let value = heap.borrow(object).unwrap();
//! drop(heap);
//! assert_eq!(*value, 0);
//! # }
//! ```
//!
//! A handle that leaves the scope of its heap, or is used with another heap:
//!
//! ```compile_fail
//! # use core::mem::MaybeUninit;
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! let handle = Boxes::<CompactFit>::scope(&mut memory, Default::default(), |mut heap| heap.insert(1).ok());
//! ```
//!
//! ```compile_fail
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'a, 'b>(heap: Boxes<'a, '_, CompactFit>, of_another: TypedHandle<'b, u32>) {
//! heap.borrow(of_another).unwrap();
//! # }
//! ```
//!
//! A handle of another type, even if only the lifetime is shorter, since a value could be written through one and read
//! through the other:
//!
//! ```compile_fail,E0308
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # fn forbidden<'id>(heap: Boxes<'id, '_, CompactFit>, object: TypedHandle<'id, u32>) {
//! let value: &char = heap.borrow::<char>(object).unwrap();
//! # }
//! ```
//!
//! ```compile_fail
//! # use rtalloc::handles::TypedHandle;
//! fn forbidden<'id, 'a>(object: TypedHandle<'id, &'static str>) -> TypedHandle<'id, &'a str> {
//!     object
//! }
//! ```
//!
//! A handle that is sent to another thread although its value must not be:
//!
//! ```compile_fail,E0277
//! # use rtalloc::handles::TypedHandle;
//! fn needs_send<T: Send>() {}
//! needs_send::<TypedHandle<'static, std::rc::Rc<u8>>>();
//! ```
//!
//! A value whose alignment or size exceeds the heap's:
//!
//! ```compile_fail,E0080
//! # use core::mem::MaybeUninit;
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! #[repr(align(4096))]
//! struct Page([u8; 4096]);
//! # let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! Boxes::<CompactFit>::scope(&mut memory, Default::default(), |mut heap| {
//!     heap.insert(Page([0; 4096])).ok();
//! });
//! ```
//!
//! ```compile_fail,E0080
//! # use core::mem::MaybeUninit;
//! # use rtalloc::{CompactFit, handles::{Boxes, TypedHandle}};
//! # let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! Boxes::<CompactFit>::scope(&mut memory, Default::default(), |mut heap| {
//!     heap.insert([0_u8; 100_000]).ok();
//! });
//! ```

use super::access::{DisjointError, all_distinct};
use crate::contract::{
    AccessError, AllocError, Corruption, Fragmentation, Handle, HandleAllocator, HandleError, InitError, Stats,
};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// A lifetime that equals no other.
type Brand<'id> = PhantomData<fn(&'id ()) -> &'id ()>;

/// Names a value of type `T` in the heap whose brand is `'id`.
pub struct TypedHandle<'id, T> {
    handle: Handle,
    brand: Brand<'id>,
    /// A copy can write a `T` and another read it, so the type is invariant.
    value: PhantomData<*mut T>,
}

// SAFETY: a handle is a number; it gives access only together with the heap, which is in one thread at a time.
unsafe impl<T: Send> Send for TypedHandle<'_, T> {}
// SAFETY: as for `Send`; a shared handle can be copied.
unsafe impl<T: Send> Sync for TypedHandle<'_, T> {}

impl<T> Clone for TypedHandle<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for TypedHandle<'_, T> {}

impl<T> PartialEq for TypedHandle<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.handle == other.handle
    }
}

impl<T> Eq for TypedHandle<'_, T> {}

impl<T> fmt::Debug for TypedHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// Why a value was not inserted, and the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsertError<T> {
    /// The heap's error.
    pub error: AllocError,
    /// The value that was not inserted.
    pub value: T,
}

impl<T> fmt::Display for InsertError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T: fmt::Debug> core::error::Error for InsertError<T> {}

/// A heap of values, whose handles have the brand `'id`.
#[derive(Debug)]
pub struct Boxes<'id, 'r, H> {
    /// Every object in it is a value of the type that its typed handles name. The heap is never lent, not even by `&`:
    /// there must be no reference to the memory of a value that is written through shared references.
    heap: H,
    brand: Brand<'id>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
    /// Values with interior mutability are written through a shared heap, in one thread.
    not_sync: PhantomData<Cell<()>>,
}

impl<'r, H: HandleAllocator<'r>> Boxes<'static, 'r, H> {
    /// Makes a heap with a brand of its own, and lends it to `body`.
    ///
    /// # Errors
    ///
    /// [`InitError`]; the region is then untouched and `body` was not called.
    ///
    /// # Time
    ///
    /// Constant, and that of `body`.
    pub fn scope<R>(
        region: &'r mut [MaybeUninit<u8>],
        config: H::Config,
        body: impl for<'id> FnOnce(Boxes<'id, 'r, H>) -> R,
    ) -> Result<R, InitError> {
        let heap = H::new(region, config)?;
        Ok(body(Boxes { heap, brand: PhantomData, region: PhantomData, not_sync: PhantomData }))
    }
}

impl<'id, 'r, H: HandleAllocator<'r>> Boxes<'id, 'r, H> {
    /// Bytes requested for a `T`, which an object of the heap holds in one piece.
    #[inline(always)]
    const fn bytes_of<T>() -> usize {
        const {
            assert!(align_of::<T>() <= H::CONTRACT.alignment_bytes, "the value's alignment exceeds the heap's");
            assert!(size_of::<T>() <= H::CONTRACT.largest_request_bytes, "the value is larger than the heap's objects");
            assert!(size_of::<T>() <= H::PIECE_BYTES, "the value is larger than a piece of the heap's objects");
            if size_of::<T>() == 0 { 1 } else { size_of::<T>() }
        }
    }

    /// Moves a value into the heap. Does not compile if no object of the heap can hold a `T` in one piece, or align it.
    ///
    /// # Errors
    ///
    /// [`InsertError`] returns the value; nothing changed.
    ///
    /// # Time
    ///
    /// That of the heap's allocate, and linear in the size.
    #[inline(always)]
    pub fn insert<T>(&mut self, value: T) -> Result<TypedHandle<'id, T>, InsertError<T>> {
        let handle = match self.heap.allocate(Self::bytes_of::<T>()) {
            Ok(handle) => handle,
            Err(error) => return Err(InsertError { error, value }),
        };
        // The compaction step of an allocation may have begun to move the new object.
        let begun_anew = self.heap.locate_mut(handle, 0);
        debug_assert!(begun_anew.is_ok(), "the object is live");
        // SAFETY: the object has just been allocated; it is in one piece, aligned and large enough for a `T`.
        unsafe { self.heap.dereference(handle, 0).cast::<T>().write(value) }
        Ok(TypedHandle { handle, brand: PhantomData, value: PhantomData })
    }

    /// Moves a value out of the heap and frees its object.
    ///
    /// # Errors
    ///
    /// [`HandleError`]; nothing changed.
    ///
    /// # Time
    ///
    /// That of the heap's free, and linear in the size.
    #[inline(always)]
    pub fn remove<T>(&mut self, handle: TypedHandle<'id, T>) -> Result<T, HandleError> {
        let place = self.place(handle, H::locate)?;
        // SAFETY: the object holds a `T`; once it is freed, the copy is the only value.
        let value = unsafe { place.cast::<MaybeUninit<T>>().read() };
        self.heap.free(handle.handle)?;
        // SAFETY: read from an object that held a `T`.
        Ok(unsafe { value.assume_init() })
    }

    /// A value, for reading. A pending move starts over, because shared references may write.
    ///
    /// # Errors
    ///
    /// [`HandleError`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn borrow<T>(&self, handle: TypedHandle<'id, T>) -> Result<&T, HandleError> {
        let place = self.place(handle, H::locate_mut)?;
        // SAFETY: the object holds a `T`; nothing moves or frees it while the heap is borrowed.
        Ok(unsafe { place.as_ref() })
    }

    /// A value, for writing.
    ///
    /// # Errors
    ///
    /// [`HandleError`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn borrow_mut<T>(&mut self, handle: TypedHandle<'id, T>) -> Result<&mut T, HandleError> {
        let mut place = self.place(handle, H::locate_mut)?;
        // SAFETY: the object holds a `T`; there is no other access to it while the heap is borrowed exclusively.
        Ok(unsafe { place.as_mut() })
    }

    /// Several values, for writing at the same time.
    ///
    /// # Errors
    ///
    /// [`DisjointError`]: two of the handles are the same, or the value of one was removed.
    ///
    /// # Time
    ///
    /// Quadratic in their number.
    #[inline(always)]
    pub fn borrow_many_mut<T, const N: usize>(
        &mut self,
        handles: [TypedHandle<'id, T>; N],
    ) -> Result<[&mut T; N], DisjointError> {
        let locate = |handle| self.place(handle, H::locate_mut).map_err(AccessError::from);
        let places = all_distinct(handles, locate)?;
        // SAFETY: the objects hold values of type `T`, and are different ones because they begin at different
        // addresses; there is no other access to them while the heap is borrowed exclusively.
        Ok(places.map(|mut place| unsafe { place.as_mut() }))
    }

    /// [`HandleAllocator::compact`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::compact`].
    #[inline(always)]
    pub fn compact(&mut self, budget_bytes: usize) -> usize {
        self.heap.compact(budget_bytes)
    }

    /// [`HandleAllocator::pending_bytes`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn pending_bytes(&self) -> usize {
        self.heap.pending_bytes()
    }

    /// [`HandleAllocator::largest_allocatable`].
    ///
    /// # Time
    ///
    /// Constant.
    #[inline(always)]
    pub fn largest_allocatable(&self) -> usize {
        self.heap.largest_allocatable()
    }

    /// [`HandleAllocator::stats`].
    ///
    /// # Time
    ///
    /// Constant.
    pub fn stats(&self) -> Option<Stats> {
        self.heap.stats()
    }

    /// [`HandleAllocator::fragmentation`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::fragmentation`].
    pub fn fragmentation(&self) -> Fragmentation {
        self.heap.fragmentation()
    }

    /// [`HandleAllocator::check`].
    ///
    /// # Errors
    ///
    /// As [`HandleAllocator::check`].
    ///
    /// # Time
    ///
    /// As [`HandleAllocator::check`].
    pub fn check(&self) -> Result<(), Corruption> {
        self.heap.check()
    }

    /// The address of a value: in this heap by the handle's brand, and of type `T` by the handle's type.
    #[inline(always)]
    fn place<T>(
        &self,
        handle: TypedHandle<'id, T>,
        locate: impl FnOnce(&H, Handle, usize) -> Result<(NonNull<u8>, usize), AccessError>,
    ) -> Result<NonNull<T>, HandleError> {
        match locate(&self.heap, handle.handle, 0) {
            Ok((place, _)) => Ok(place.cast()),
            Err(AccessError::Handle(error)) => Err(error),
            // Every object has a first byte.
            Err(AccessError::OutOfBounds { .. }) => Err(HandleError::Foreign),
        }
    }
}
