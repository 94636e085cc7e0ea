//! What is built on handles, whichever heap gives them: access by references, bytes, boxes, objects larger than a page.
//!
//! A [`HandleAllocator`](crate::contract::HandleAllocator) answers where an object is; it hands out no reference. A
//! reference must not outlive the place of its object, and must not show bytes that nobody wrote. Both are matters of types:
//!
//! - **A reference borrows the heap.** Whatever may move an object takes the heap by `&mut`, so that it does not compile while
//!   a reference into an object is alive.
//! - **What a heap holds is known by its wrapper.** In a bare heap an object is memory that may be uninitialised, and that
//!   is how [`Access`] shows it. [`Bytes`] owns a heap all of whose objects are written when they are made, and shows bytes.
//!   [`Boxes`] owns a heap all of whose objects are values of the types that their handles name, and shows values.
//!
//! ```text
//!   Boxes: TypedHandle<T> -> &T      Bytes: Handle -> &[u8]
//!                    \                /
//!                     Access: Handle -> &[MaybeUninit<u8>]
//!                              |
//!             [Arraylets: objects larger than a page]
//!                              |
//!                HandleAllocator: Handle -> address
//! ```
//!
//! | to have | take |
//! |---|---|
//! | values of types, lists and trees of them | [`Boxes`] on [`CompactFit`](crate::CompactFit) |
//! | buffers, messages, text | [`Bytes`] on [`CompactFit`](crate::CompactFit): an object is a slice |
//! | the same, of objects in pieces or larger than a page | [`Bytes`] on [`CompactFitNonMoving`](crate::CompactFitNonMoving) or [`Arraylets`]: [pieces](Bytes::pieces), [`read_at`](Bytes::read_at), [`write_at`](Bytes::write_at) |
//! | memory that is not initialised, in constant time | [`Access`] on any heap |
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::handles::Access;
//! use rtalloc::{CompactFit, HandleAllocator};
//!
//! let mut memory = [MaybeUninit::uninit(); 256 * 1024];
//! let mut heap = <CompactFit>::new(&mut memory, Default::default())?;
//! let (handle, other) = (heap.allocate(100)?, heap.allocate(100)?);
//! heap.slice_mut(handle)?[0].write(7);
//! heap.free(other)?; // May move the object of `handle`: no reference into the heap may be alive here.
//! // SAFETY: this byte was written, and keeps its value wherever the object is.
//! assert_eq!(unsafe { heap.slice(handle)?[0].assume_init() }, 7);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! A wrapper takes a region, not a heap, because objects that are in a heap already would be anything.

pub mod access;
pub mod arraylet;
pub mod boxes;
pub mod bytes;

#[doc(inline)]
pub use access::{AbstractPointer, Access, DisjointError};
#[doc(inline)]
pub use arraylet::Arraylets;
#[doc(inline)]
pub use boxes::{Boxes, TypedHandle};
#[doc(inline)]
pub use bytes::Bytes;
