//! Heaps whose objects move: adapts a [`HandleAllocator`] to the entry points of a replay.
//!
//! Such a heap identifies its objects by handles. Its entry points take and return a handle's bits in place of an
//! address, so code that only allocates and frees is independent of that. Code that accesses memory must ask the heap
//! for an object's [place](crate::Heap::pieces) each time, since a free may have moved it.

use crate::adapter::{self, AsDefault, Choice, Made, Make, Target};
use crate::{About, NATURAL_ALIGN_BYTES, Origin, Reach, Subject, View};
use rtalloc::contract::{Block, Handle, HandleAllocator, ResizeError};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::num::NonZeroU64;

/// `dereference(context, handle, offset)`: the current address of that byte of an object.
pub type DereferenceEntry = unsafe extern "C-unwind" fn(*mut c_void, *mut u8, usize) -> *mut u8;
/// `read(context, block, offset)`: that byte of a block; the code by which a program accesses its data.
pub type ReadEntry = unsafe extern "C-unwind" fn(*mut c_void, *mut u8, usize) -> u8;

/// `initialise(region, bytes)`: creates a heap in the region; null on failure. For counting.
pub type InitialiseEntry = unsafe extern "C-unwind" fn(*mut u8, usize) -> *mut c_void;

/// Additional functions of a heap whose objects move.
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    /// Returns the address of a byte.
    pub dereference: DereferenceEntry,
    /// Reads a byte; for counting, in comparison with a plain read.
    pub read: ReadEntry,
    /// Creates a heap with the default configuration; for counting.
    pub initialise: InitialiseEntry,
    /// Bytes of an object that are contiguous in memory, from each multiple of it on; `usize::MAX` where all are.
    pub piece_bytes: usize,
}

/// A subject that is one of our allocators of objects that move. Subjects of one allocator that differ only in their
/// configuration have the same entry points.
pub const fn subject<A: HandleAllocator<'static>, C: Choice<A::Config>>(name: &'static str, about: About) -> Subject {
    let make: Make = OurHandles::<A>::configured::<C>;
    let cost = A::CONTRACT.allocate.notation();
    Subject { make, ..adapter::subject::<OurHandles<A>>(name, Origin::Ours, FAMILY, cost, about) }
}

/// The family: not the name of a subject, so that a selection can name either.
const FAMILY: &str = "compacting";

/// One of our allocators of objects that move. The value is one pointer into the region.
#[derive(Debug)]
struct OurHandles<A>(PhantomData<A>);

impl<A: HandleAllocator<'static>> OurHandles<A> {
    const IS_ONE_POINTER: () = assert!(size_of::<A>() == size_of::<*mut c_void>(), "the value is one pointer");
    const HANDLES_FIT: () = assert!(size_of::<Handle>() == size_of::<usize>(), "a handle is passed as an address");

    #[inline(always)]
    unsafe fn of(context: *mut c_void) -> ManuallyDrop<A> {
        let () = Self::IS_ONE_POINTER;
        // SAFETY: `context` is the value that `make` converted to a pointer, and an `A` is exactly that pointer.
        unsafe { std::mem::transmute_copy(&context) }
    }

    #[inline(always)]
    fn bits(handle: Handle) -> *mut u8 {
        let () = Self::HANDLES_FIT;
        std::ptr::without_provenance_mut(handle.to_bits().get() as usize)
    }

    #[inline(always)]
    unsafe fn handle(block: *mut u8) -> Handle {
        // SAFETY: blocks are handles' bits, which are not zero.
        Handle::from_bits(unsafe { NonZeroU64::new_unchecked(block as u64) })
    }

    unsafe fn configured<C: Choice<A::Config>>(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let heap = || {
            // SAFETY: the caller gives the region exclusively to this heap, for as long as it is used; of the two heaps
            // created here, the first no longer exists when the second is created.
            let memory: &'static mut [MaybeUninit<u8>] =
                unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
            A::new(memory, C::config()).map_err(|error| error.to_string())
        };
        // Objects lie after the heap's own address, or all of them before it, and then from the first one on.
        let mut first_block_address = region as usize + bytes;
        let mut trial = heap()?;
        if trial.allocate(1).is_ok() {
            trial.walk(&mut |object| first_block_address = object.address);
        }
        let heap = ManuallyDrop::new(heap()?);
        // SAFETY: an `A` is exactly one pointer.
        let context: *mut c_void = unsafe { std::mem::transmute_copy(&heap) };
        let first_block_address = first_block_address.min(context as usize);
        Ok(Made { context, first_block_address, outside_bytes: 0 })
    }

    unsafe extern "C-unwind" fn initialise(region: *mut u8, bytes: usize) -> *mut c_void {
        // SAFETY: the caller gives the region exclusively to this heap.
        let memory: &'static mut [MaybeUninit<u8>] = unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
        match A::new(memory, A::Config::default()) {
            Ok(heap) => {
                let () = Self::IS_ONE_POINTER;
                // SAFETY: an `A` is exactly one pointer.
                unsafe { std::mem::transmute_copy(&ManuallyDrop::new(heap)) }
            }
            Err(_) => std::ptr::null_mut(),
        }
    }

    unsafe extern "C-unwind" fn dereference(context: *mut c_void, block: *mut u8, offset: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate`; the caller guarantees the offset.
        unsafe { Self::of(context).dereference(Self::handle(block), offset).as_ptr() }
    }

    unsafe extern "C-unwind" fn read(context: *mut c_void, block: *mut u8, offset: usize) -> u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate`; the caller guarantees the offset.
        unsafe { Self::of(context).dereference(Self::handle(block), offset).read() }
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.fingerprint(word);
    }

    unsafe fn largest(context: *mut c_void) -> usize {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.largest_allocatable()
    }

    /// Visits the objects as blocks, at their addresses instead of their handles.
    unsafe fn walk(context: *mut c_void, visitor: &mut dyn FnMut(Block)) {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.walk(&mut |object| {
            visitor(Block {
                address: object.address,
                front_bytes: 0,
                size_bytes: object.page_block_bytes,
                usable_bytes: object.usable_bytes,
                free: false,
            });
        });
    }
}

// SAFETY: the contract of HandleAllocator guarantees it for every implementation.
unsafe impl<A: HandleAllocator<'static>> Target for OurHandles<A> {
    const NATURAL_ALIGN_BYTES: usize = {
        let own = A::CONTRACT.alignment_bytes;
        if own < NATURAL_ALIGN_BYTES { own } else { NATURAL_ALIGN_BYTES }
    };
    const REACH: Reach =
        Reach { request_bytes: A::CONTRACT.largest_request_bytes, alignment_bytes: A::CONTRACT.alignment_bytes };
    const VIEW: Option<View> = Some(View {
        contract: A::CONTRACT,
        fingerprint: Self::fingerprint,
        walk: Self::walk,
        largest: Some(Self::largest),
    });
    const HANDLES: Option<Handles> = Some(Handles {
        dereference: Self::dereference,
        read: Self::read,
        initialise: Self::initialise,
        piece_bytes: A::PIECE_BYTES,
    });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        // SAFETY: the region outlives the heap, which alone uses it.
        unsafe { Self::configured::<AsDefault>(region, bytes) }
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // A constant if natural alignment is requested.
        if align > A::CONTRACT.alignment_bytes {
            return std::ptr::null_mut();
        }
        // SAFETY: `context` came from `make`.
        let mut heap = unsafe { Self::of(context) };
        heap.allocate(size).map_or(std::ptr::null_mut(), Self::bits)
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // A replay frees only live blocks, so there is no error to report.
        // SAFETY: `context` came from `make`, `block` from `allocate`.
        let _ = unsafe { Self::of(context).free(Self::handle(block)) };
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, _old: usize, align: usize, new: usize) -> *mut u8 {
        if align > A::CONTRACT.alignment_bytes {
            return std::ptr::null_mut();
        }
        // SAFETY: `context` came from `make`, `block` from `allocate`.
        match unsafe { Self::of(context).resize(Self::handle(block), new) } {
            Ok(()) => block,
            Err(ResizeError::Handle(_) | ResizeError::Refused(_)) => std::ptr::null_mut(),
        }
    }
}
