//! Heaps whose objects move: from a [`HandleAllocator`] to the entry points of a replay.
//!
//! Such a heap names its objects by handles. Its entry points take and return a handle's bits where others take and
//! return an address, so that everything that only allocates and frees needs not know. Whoever looks at memory asks the
//! heap where an object [is](crate::Heap::pieces), each time, since a free may have moved it.

use crate::adapter::{self, AsDefault, Choice, Made, Make, Target};
use crate::{About, NATURAL_ALIGN_BYTES, Origin, Reach, Subject, View};
use rtalloc::contract::{Block, Handle, HandleAllocator, ResizeError};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::num::NonZeroU64;

/// `dereference(context, handle, offset)`: where that byte of an object is now.
pub type DereferenceEntry = unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> *mut u8;
/// `read(context, block, offset)`: that byte of a block; what a program executes to get at its data.
pub type ReadEntry = unsafe extern "C" fn(*mut c_void, *mut u8, usize) -> u8;

/// `initialise(region, bytes)`: a heap in it, or null; to be counted.
pub type InitialiseEntry = unsafe extern "C" fn(*mut u8, usize) -> *mut c_void;

/// What a heap whose objects move has besides.
#[derive(Clone, Copy, Debug)]
pub struct Handles {
    /// Tells where a byte is.
    pub dereference: DereferenceEntry,
    /// Reads a byte; to be counted, beside a plain read.
    pub read: ReadEntry,
    /// Makes a heap as it is by default; to be counted.
    pub initialise: InitialiseEntry,
    /// Bytes of an object that are contiguous in memory, from each multiple of it on; `usize::MAX` where all are.
    pub piece_bytes: usize,
}

/// A subject that is one of our allocators of objects that move. Subjects of one allocator that differ in their
/// configuration have the same entry points.
pub const fn subject<A: HandleAllocator<'static>, C: Choice<A::Config>>(name: &'static str, about: About) -> Subject {
    let make: Make = OurHandles::<A>::configured::<C>;
    let cost = A::CONTRACT.allocate.notation();
    Subject { make, ..adapter::subject::<OurHandles<A>>(name, Origin::Ours, FAMILY, cost, about) }
}

/// The family: no name of a subject, so that a choice can name either.
const FAMILY: &str = "compacting";

/// One of our allocators of objects that move. The value is one pointer into the region.
#[derive(Debug)]
struct OurHandles<A>(PhantomData<A>);

impl<A: HandleAllocator<'static>> OurHandles<A> {
    const IS_ONE_POINTER: () = assert!(size_of::<A>() == size_of::<*mut c_void>(), "the value in hand is one pointer");
    const HANDLES_FIT: () = assert!(size_of::<Handle>() == size_of::<usize>(), "a handle travels as an address");

    #[inline(always)]
    unsafe fn of(context: *mut c_void) -> ManuallyDrop<A> {
        let () = Self::IS_ONE_POINTER;
        // SAFETY: `context` is the value `make` took apart, and an `A` is exactly that pointer.
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
            // SAFETY: the caller gives the region to this heap alone, for as long as anybody calls it; of the two that
            // are made here, the first is gone when the second is made.
            let memory: &'static mut [MaybeUninit<u8>] =
                unsafe { std::slice::from_raw_parts_mut(region.cast(), bytes) };
            A::new(memory, C::config()).map_err(|error| error.to_string())
        };
        // Objects lie behind the heap's own address, or all of them in front of it, and then from the first one on.
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

    unsafe extern "C" fn initialise(region: *mut u8, bytes: usize) -> *mut c_void {
        // SAFETY: the caller gives the region to this heap alone.
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

    unsafe extern "C" fn dereference(context: *mut c_void, block: *mut u8, offset: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate`; the caller's promise on the offset.
        unsafe { Self::of(context).dereference(Self::handle(block), offset).as_ptr() }
    }

    unsafe extern "C" fn read(context: *mut c_void, block: *mut u8, offset: usize) -> u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate`; the caller's promise on the offset.
        unsafe { Self::of(context).dereference(Self::handle(block), offset).read() }
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        // SAFETY: `context` came from `make`.
        unsafe { Self::of(context) }.fingerprint(word);
    }

    /// Shows the objects as blocks; where they lie, not their handles.
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

// SAFETY: a HandleAllocator promises it of every implementation.
unsafe impl<A: HandleAllocator<'static>> Target for OurHandles<A> {
    const NATURAL_ALIGN_BYTES: usize = {
        let own = A::CONTRACT.alignment_bytes;
        if own < NATURAL_ALIGN_BYTES { own } else { NATURAL_ALIGN_BYTES }
    };
    const REACH: Reach =
        Reach { request_bytes: A::CONTRACT.largest_request_bytes, alignment_bytes: A::CONTRACT.alignment_bytes };
    const VIEW: Option<View> = Some(View { contract: A::CONTRACT, fingerprint: Self::fingerprint, walk: Self::walk });
    const HANDLES: Option<Handles> = Some(Handles {
        dereference: Self::dereference,
        read: Self::read,
        initialise: Self::initialise,
        piece_bytes: A::PIECE_BYTES,
    });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        // SAFETY: the caller's promise.
        unsafe { Self::configured::<AsDefault>(region, bytes) }
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // A constant where natural alignment is asked for.
        if align > A::CONTRACT.alignment_bytes {
            return std::ptr::null_mut();
        }
        // SAFETY: `context` came from `make`.
        let mut heap = unsafe { Self::of(context) };
        heap.allocate(size).map_or(std::ptr::null_mut(), Self::bits)
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, _size: usize, _align: usize) {
        // A replay frees what is live, so that there is no error to hand on.
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
