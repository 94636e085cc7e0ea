//! An allocator whose blocks have longer headers.

use crate::adapter::{Made, Target};
use crate::{Reach, View};
use std::ffi::c_void;
use std::marker::PhantomData;

/// `T` with headers of `MORE` more bytes: each request is that much larger, and the bytes count as header.
#[derive(Debug)]
pub struct Headed<T, const MORE: usize>(PhantomData<T>);

impl<T: Target, const MORE: usize> Headed<T, MORE> {
    unsafe fn walk(context: *mut c_void, visit: &mut dyn FnMut(rtalloc::contract::Block)) {
        let Some(view) = T::VIEW else { return };
        // SAFETY: `context` comes from `T::make`, because `make` returns it as it is, and is not yet released.
        unsafe {
            (view.walk)(context, &mut |block| {
                let more = if block.free { 0 } else { MORE };
                visit(rtalloc::contract::Block {
                    address: block.address + more,
                    front_bytes: block.front_bytes + more,
                    usable_bytes: block.usable_bytes - more,
                    ..block
                });
            });
        }
    }
}

// SAFETY: as `T`, whose blocks are only larger.
unsafe impl<T: Target, const MORE: usize> Target for Headed<T, MORE> {
    const OWN_PAGES: bool = T::OWN_PAGES;
    const REPORTS_GRANTED: bool = T::REPORTS_GRANTED;
    const NATURAL_ALIGN_BYTES: usize = T::NATURAL_ALIGN_BYTES;
    const REACH: Reach =
        Reach { request_bytes: T::REACH.request_bytes.saturating_sub(MORE), alignment_bytes: T::REACH.alignment_bytes };
    const VIEW: Option<View> = match T::VIEW {
        Some(view) => Some(View { walk: Self::walk, largest: None, ..view }),
        None => None,
    };

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        // SAFETY: the caller's region is readable, writable and used by nothing else, as `T` needs it.
        unsafe { T::make(region, bytes) }
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `context` comes from `T::make`, because `make` returns it as it is, and is not yet released.
        unsafe { T::release(context) }
    }

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `context` comes from `T::make`; `T` refuses a request near the largest possible.
        unsafe { T::allocate(context, size.saturating_add(MORE), align) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the block was requested from `T` with this size.
        unsafe { T::deallocate(context, block, size + MORE, align) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the block was requested from `T` with the old size.
        unsafe { T::reallocate(context, block, old + MORE, align, new.saturating_add(MORE)) }
    }

    unsafe fn granted(context: *mut c_void, block: *mut u8, size: usize, align: usize) -> usize {
        // SAFETY: the block was requested from `T` with this size.
        unsafe { T::granted(context, block, size + MORE, align) - MORE }
    }
}
