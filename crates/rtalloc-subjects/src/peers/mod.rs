//! The peers: one file each, with its entry for the table.
//!
//! Peers in a given region keep their control structure in a Rust value outside of it; a replay counts that value
//! (`outside_bytes`) in the same way as the control structure of our allocators. Peers with their own pages have one
//! heap per process. Each cell runs in a fresh process, but their pages fault in while they are measured, and the C
//! library's heap serves the laboratory as well.

/// Declares the peers, each a module under its feature, in the order of tables.
macro_rules! peers {
    ($($peer:ident: $feature:literal;)*) => {
        $(
            #[cfg(feature = $feature)]
            pub(crate) mod $peer;
        )*
        pub(crate) mod system;

        /// The entries for the table: the peers of this build, and the C library.
        pub(crate) const ALL: &[Subject] = &[
            $(
                #[cfg(feature = $feature)]
                $peer::SUBJECT,
            )*
            system::SUBJECT,
        ];

        /// The features of all peers, which are their names: a build may leave any of them out.
        pub(crate) const FEATURES: &[&str] = &[$($feature),*];
    };
}

peers! {
    rlsf: "rlsf";
    talc: "talc";
    dlmalloc: "dlmalloc";
    buddy_system: "buddy-system";
    linked_list: "linked-list";
    good_memory: "good-memory";
    mimalloc: "mimalloc";
    jemalloc: "jemalloc";
}

use crate::Subject;
use crate::adapter::{Made, Target};
use std::alloc::Layout;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

/// The context of a peer: its boxed value.
fn boxed<T>(peer: T) -> *mut c_void {
    Box::into_raw(Box::new(peer)).cast()
}

/// # Safety
///
/// `context` came from `boxed::<T>` and is not used again.
unsafe fn unbox<T>(context: *mut c_void) {
    // SAFETY: `boxed::<T>` made the context from a `Box<T>`, and nothing uses it afterwards.
    drop(unsafe { Box::from_raw(context.cast::<T>()) });
}

/// # Safety
///
/// `context` came from `boxed::<T>`, and no other reference to the peer is alive.
#[inline(always)]
unsafe fn peer<'a, T>(context: *mut c_void) -> &'a mut T {
    // SAFETY: the context is a live `Box<T>` of `boxed`, and this reference to its value is the only one.
    unsafe { &mut *context.cast::<T>() }
}

/// # Safety
///
/// As [`Layout::from_size_align_unchecked`]; a replay makes only such requests.
#[inline(always)]
unsafe fn layout(size: usize, align: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and the size rounded up to it is at most `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(size, align) }
}

#[inline(always)]
fn pointer(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

/// The reallocation of an allocator that has none, as `GlobalAlloc` defines it: allocate, copy, deallocate.
///
/// # Safety
///
/// As [`Target::reallocate`].
#[inline(always)]
unsafe fn reallocate_by_moving<T: Target>(
    context: *mut c_void,
    block: *mut u8,
    old: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: `block` is live and has `old` bytes; the new block has `new` and is distinct from it, so both hold the
    // copied bytes.
    unsafe {
        let moved = T::allocate(context, new, align);
        if !moved.is_null() {
            std::ptr::copy_nonoverlapping(block, moved, old.min(new));
            T::deallocate(context, block, old, align);
        }
        moved
    }
}

/// The return value of `make` for a peer that takes its own pages.
fn no_heap() -> Made {
    Made { context: null_mut(), first_block_address: 0, outside_bytes: 0 }
}
