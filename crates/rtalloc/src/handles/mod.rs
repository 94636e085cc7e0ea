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
