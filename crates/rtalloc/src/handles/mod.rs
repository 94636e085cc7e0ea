//! Layers on any heap of handles: access by references, bytes, boxes, objects larger than a page.
//!
//! A [`HandleAllocator`](crate::contract::HandleAllocator) returns the address of an object, never a reference. A
//! reference must not outlive the place of its object, and must not expose uninitialised bytes. Types ensure both:
//!
//! - **A reference borrows the heap.** Every method that may move an object takes the heap by `&mut`, so it does not
//!   compile while a reference into an object is alive.
//! - **A wrapper knows the heap's content.** In a bare heap an object is memory that may be uninitialised, and
//!   [`Access`] exposes it as such. [`Bytes`] owns a heap whose objects are all initialised when they are made, and
//!   exposes bytes. [`Boxes`] owns a heap whose objects are values of their handles' types, and exposes values.
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
//! | for | use |
//! |---|---|
//! | values of types, lists and trees of them | [`Boxes`] on [`CompactFit`](crate::CompactFit) |
//! | buffers, messages, text | [`Bytes`] on [`CompactFit`](crate::CompactFit): an object is a slice |
//! | buffers in pieces or larger than a page | [`Bytes`] on [`CompactFitNonMoving`](crate::CompactFitNonMoving) or [`Arraylets`]: [pieces](Bytes::pieces), [`read_at`](Bytes::read_at), [`write_at`](Bytes::write_at) |
//! | uninitialised memory, in constant time | [`Access`] on any heap |
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
//! A wrapper takes a region, not a heap, because objects that already exist in a heap could hold anything.

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
