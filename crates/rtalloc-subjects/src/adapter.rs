//! Adapts an allocator in Rust to the four entry points of a replay.

use crate::{About, Entries, Handles, NATURAL_ALIGN_BYTES, Origin, Reach, Subject, View};
use rtalloc::contract::{Block, RegionAllocator};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// A created heap.
#[derive(Debug)]
pub struct Made {
    /// First argument of every entry point.
    pub context: *mut c_void,
    /// Address at which the block area starts (the first block's header, not its payload).
    pub first_block_address: usize,
    /// Bytes of control structure outside the region.
    pub outside_bytes: usize,
}

/// Creates a heap in `bytes` bytes at an address, or returns the reason for a failure.
pub type Make = unsafe fn(*mut u8, usize) -> Result<Made, String>;
/// Frees the memory that a `Make` allocated for itself.
pub type Release = unsafe fn(*mut c_void);

/// An allocator to be measured. The methods are inlined into one function each, the entry points.
///
/// # Safety
///
/// The blocks returned are live memory of the given region (or the subject's own pages) until they are freed.
pub unsafe trait Target {
    /// Whether memory comes from the system instead of the region.
    const OWN_PAGES: bool = false;
    /// Whether [`granted`](Self::granted) returns more information than the request.
    const REPORTS_GRANTED: bool = false;
    /// Alignment of a block for which no larger one is requested, as [`Entries::natural_align_bytes`].
    const NATURAL_ALIGN_BYTES: usize = NATURAL_ALIGN_BYTES;
    /// The requests it never serves, whatever the region.
    const REACH: Reach = Reach::UNLIMITED;
    /// How the heap's state is read, if all of it is in the region and is reached through a constant context.
    const VIEW: Option<View> = None;
    /// How objects are accessed, if they move.
    const HANDLES: Option<Handles> = None;

    /// Creates a heap.
    ///
    /// # Errors
    ///
    /// The region is unsuitable.
    ///
    /// # Safety
    ///
    /// The region is writable and exclusively the heap's until `release`. It is page-aligned, unless the subject is one
    /// of ours.
    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String>;

    /// Frees the memory that `make` allocated for itself.
    ///
    /// # Safety
    ///
    /// `context` came from `make` and is not used again.
    unsafe fn release(context: *mut c_void);

    /// Allocates; null if refused.
    ///
    /// # Safety
    ///
    /// `context` came from `make`; `size` is at least 1 and `align` a power of two that make a valid `Layout`.
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8;

    /// Deallocates.
    ///
    /// # Safety
    ///
    /// `block` is live and was last requested with this size and alignment.
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize);

    /// Reallocates; null if refused.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate) and [`allocate`](Self::allocate).
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8;

    /// Bytes the block occupies from its address on.
    ///
    /// # Safety
    ///
    /// As [`deallocate`](Self::deallocate).
    unsafe fn granted(_context: *mut c_void, _block: *mut u8, size: usize, _align: usize) -> usize {
        size
    }
}

#[inline(never)]
unsafe extern "C-unwind" fn allocate<T: Target>(context: *mut c_void, size: usize, _align: usize) -> *mut u8 {
    // SAFETY: the caller's guarantee is passed on; natural alignment makes a valid layout wherever a smaller one does.
    unsafe { T::allocate(context, size, T::NATURAL_ALIGN_BYTES) }
}

#[inline(never)]
unsafe extern "C-unwind" fn allocate_aligned<T: Target>(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller's guarantee is passed on unchanged.
    unsafe { T::allocate(context, size, align) }
}

#[inline(never)]
unsafe extern "C-unwind" fn deallocate<T: Target>(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
    // SAFETY: the caller's guarantee is passed on unchanged.
    unsafe { T::deallocate(context, block, size, align) }
}

#[inline(never)]
unsafe extern "C-unwind" fn reallocate<T: Target>(
    context: *mut c_void,
    block: *mut u8,
    old: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: the caller's guarantee is passed on unchanged.
    unsafe { T::reallocate(context, block, old, align, new) }
}

/// A subject of the table.
pub const fn subject<T: Target>(
    name: &'static str,
    origin: Origin,
    family: &'static str,
    cost: &'static str,
    about: About,
) -> Subject {
    Subject {
        name,
        origin,
        family,
        cost,
        own_pages: T::OWN_PAGES,
        entries: Entries {
            allocate: allocate::<T>,
            allocate_aligned: allocate_aligned::<T>,
            deallocate: deallocate::<T>,
            reallocate: reallocate::<T>,
            granted: if T::REPORTS_GRANTED { Some(T::granted) } else { None },
            natural_align_bytes: T::NATURAL_ALIGN_BYTES,
            handles: T::HANDLES,
        },
        reach: T::REACH,
        make: T::make,
        release: T::release,
        view: T::VIEW,
        about,
    }
}

/// A subject that is one of our allocators: its facts are those of its contract.
pub const fn ours<A: RegionAllocator<'static>>(name: &'static str, about: About) -> Subject {
    subject::<Ours<A>>(name, Origin::Ours, A::CONTRACT.mechanism.name(), A::CONTRACT.allocate.notation(), about)
}

/// A subject that is one of our allocators with a specific configuration. Subjects of one allocator that differ only in
/// their configuration have the same entry points.
pub const fn configured<A: RegionAllocator<'static>, C: Choice<A::Config>>(
    name: &'static str,
    about: About,
) -> Subject {
    Subject { make: Ours::<A>::configured::<C>, ..ours::<A>(name, about) }
}

/// A configuration with which a heap is created.
pub trait Choice<Config> {
    /// The configuration.
    fn config() -> Config;
}

/// The allocator's own default.
#[derive(Clone, Copy, Debug)]
pub struct AsDefault;

impl<Config: Default> Choice<Config> for AsDefault {
    fn config() -> Config {
        Config::default()
    }
}

/// One of our allocators. The value is one pointer into the region, so the context of the entry points is the allocator
/// itself, as in its C interface.
#[derive(Debug)]
pub struct Ours<A>(PhantomData<A>);

impl<A: RegionAllocator<'static>> Ours<A> {
    const IS_ONE_POINTER: () = assert!(size_of::<A>() == size_of::<*mut c_void>(), "the value is one pointer");

    #[inline(always)]
    unsafe fn of(context: *mut c_void) -> ManuallyDrop<A> {
        let () = Self::IS_ONE_POINTER;
        // SAFETY: `context` is the value that `make` converted to a pointer, and an `A` is exactly that pointer.
        unsafe { std::mem::transmute_copy(&context) }
    }

    unsafe fn configured<C: Choice<A::Config>>(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let () = Self::IS_ONE_POINTER;
        // Of a longer region it uses the part within reach of its tags.
        let bytes = bytes.min(A::CONTRACT.max_span_bytes);
        // SAFETY: the caller gives the region exclusively to this heap, for as long as it is used.
        let memory: &'static mut [MaybeUninit<u8>] = unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
        let heap = A::new(memory, C::config()).map_err(|error| error.to_string())?;
        let mut first_block_address = usize::MAX;
        heap.walk(&mut |block| {
            first_block_address = first_block_address.min(block.address - block.front_bytes);
        });
        let heap = ManuallyDrop::new(heap);
        // SAFETY: an `A` is exactly one pointer.
        let context = unsafe { std::mem::transmute_copy(&heap) };
        Ok(Made { context, first_block_address, outside_bytes: 0 })
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.fingerprint(word);
    }

    unsafe fn walk(context: *mut c_void, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.walk(visitor);
    }

    unsafe fn largest(context: *mut c_void) -> usize {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.largest_allocatable()
    }
}

// SAFETY: the contract of RegionAllocator guarantees it for every implementation.
unsafe impl<A: RegionAllocator<'static>> Target for Ours<A> {
    const REPORTS_GRANTED: bool = true;
    const NATURAL_ALIGN_BYTES: usize = {
        let own = A::CONTRACT.alignment_bytes;
        if own < NATURAL_ALIGN_BYTES { own } else { NATURAL_ALIGN_BYTES }
    };
    const REACH: Reach = Reach {
        request_bytes: A::CONTRACT.largest_request_bytes,
        alignment_bytes: A::CONTRACT.largest_alignment_bytes,
    };
    const VIEW: Option<View> = Some(View {
        contract: A::CONTRACT,
        fingerprint: Self::fingerprint,
        walk: Self::walk,
        largest: Some(Self::largest),
    });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        // SAFETY: the region outlives the heap, which alone uses it.
        unsafe { Self::configured::<AsDefault>(region, bytes) }
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`.
        let mut heap = unsafe { Self::of(context) };
        heap.allocate_bytes(size, align).map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: `context` came from `make`, `block` from `allocate`, so it is not null and live.
        unsafe { Self::of(context).deallocate(NonNull::new_unchecked(block)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate`, so it is not null and live.
        let answer = unsafe { Self::of(context).reallocate_bytes(NonNull::new_unchecked(block), new, align) };
        answer.map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn granted(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) -> usize {
        // SAFETY: `context` came from `make`, `block` from `allocate`, so it is not null and live.
        unsafe { Self::of(context).usable_size(NonNull::new_unchecked(block)) }
    }
}
