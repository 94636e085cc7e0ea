//! The errors of C: one enumeration for all functions.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use rt_error::*;
use rtalloc::contract::{AllocError, InitError, RemoveError};

/// Defines the errors with their texts.
macro_rules! errors {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$about:meta])* $error:ident = $number:literal => $text:literal,)* }) => {
        $(#[$meta])*
        pub enum $name {
            $($(#[$about])* $error = $number,)*
        }

        /// Every error, with its text.
        const ALL: &[($name, &CStr)] = &[$(($name::$error, $text)),*];
    };
}

errors! {
    /// The reason why an operation failed. A failed operation changes nothing.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(C)]
    pub enum rt_error {
        /// Success.
        RT_OK = 0 => c"done",
        /// A request for zero bytes.
        RT_ERROR_ZERO_SIZE = 1 => c"a request for zero bytes",
        /// An alignment that is not a power of two, larger than any block of the heap, or beyond the contract's
        /// `largest_alignment_bytes`.
        RT_ERROR_ALIGNMENT = 2 => c"an alignment that is not a power of two or exceeds the heap",
        /// A request larger than this heap could ever serve.
        RT_ERROR_TOO_LARGE = 3 => c"a request larger than the heap could ever serve",
        /// No free block is large enough now.
        RT_ERROR_EXHAUSTED = 4 => c"no free block is large enough",
        /// No free block is large enough now, but one may be after pending compaction or reclaiming. Try again.
        RT_ERROR_PENDING = 5 => c"no free block is large enough until pending compaction or reclaiming is done: try again",
        /// The block's tags are not those of a live block of this heap. The misuse hook was called.
        RT_ERROR_MISUSED = 6 => c"the block's tags are not those of a live block",
        /// A region that reaches beyond the end of the address space, or is larger than half of it.
        RT_ERROR_OVERFLOW = 7 => c"the region reaches beyond the address space",
        /// A required pointer is NULL.
        RT_ERROR_NULL = 8 => c"a required pointer is NULL",
        /// The region cannot hold the control structure and one block.
        RT_ERROR_REGION_TOO_SMALL = 9 => c"the region is too small for the control structure and one block",
        /// The region is larger than the tags can address, or too far from the heap's first region (4 GiB with 32-bit
        /// tags).
        RT_ERROR_OUT_OF_REACH = 10 => c"the region is out of reach of the heap's tags",
        /// The region is larger than the heap's control structure was sized for: set `max_region_bytes` when the heap
        /// is made.
        RT_ERROR_LARGER_THAN_PLANNED = 11 => c"the region is larger than the control structure was sized for: set max_region_bytes when the heap is made",
        /// The configuration is invalid, or sets something that this allocator does not support.
        RT_ERROR_CONFIGURATION = 12 => c"a configuration that this allocator does not support",
        /// Blocks of the region are live.
        RT_ERROR_IN_USE = 13 => c"blocks of the region are live",
        /// The heap has no such region, or it is the first region, which contains the control structure.
        RT_ERROR_NOT_REMOVABLE = 14 => c"not a region of this heap, or the region of its control structure",
        /// The object of this handle was freed.
        RT_ERROR_STALE_HANDLE = 15 => c"the object of this handle was freed",
        /// An access beyond the object's end.
        RT_ERROR_OUT_OF_RANGE = 16 => c"an access beyond the object's end",
        /// A broken invariant: memory of the heap was overwritten.
        RT_ERROR_CORRUPTION = 17 => c"a broken invariant: memory of the heap was overwritten",
        /// A handle that this heap never returned.
        RT_ERROR_FOREIGN_HANDLE = 18 => c"a handle that this heap never returned",
        /// No block was found while other threads used the heap. Try again.
        RT_ERROR_CONTENDED = 19 => c"no block was found while other threads used the heap: try again",
        /// The heap has no such slot, or the slot is claimed.
        RT_ERROR_SLOT = 20 => c"no such slot, or the slot is claimed",
        /// This heap keeps no statistics.
        RT_ERROR_NO_STATS = 21 => c"this heap keeps no statistics",
        /// The object has the maximum number of pins.
        RT_ERROR_PINS = 22 => c"the object has the maximum number of pins",
        /// There is no bound: the heap lacks the operation, or it may have to wait for other threads.
        RT_ERROR_UNBOUNDED = 23 => c"there is no bound: the heap lacks the operation, or it may have to wait for other threads",
        /// The component has used up its quota, regardless of free memory.
        RT_ERROR_QUOTA = 24 => c"the component has used up its quota",
        /// An injected failure: the request was refused on purpose, to test how the program handles it.
        RT_ERROR_INJECTED = 25 => c"an injected failure, to test how the program handles it",
        /// The region overlaps a region of the heap.
        RT_ERROR_OVERLAP = 26 => c"the region overlaps a region of the heap",
        /// The block cannot have this size where it is.
        RT_ERROR_NOT_IN_PLACE = 27 => c"the block cannot be resized without moving it: allocate, copy and free",
    }
}

/// Returns the text of an error: a static NUL-terminated string, never NULL, whatever the number.
///
/// # Time
///
/// O(number of errors).
#[unsafe(no_mangle)]
pub extern "C" fn rt_strerror(error: MaybeUninit<rt_error>) -> *const c_char {
    let known = ALL.iter().find(|(known, _)| is(error, *known));
    known.map_or(c"not an error of rtalloc", |(_, text)| text).as_ptr()
}

/// Whether a value from C, which may be any number, is this variant of an enumeration.
#[inline(always)]
pub(crate) fn is<E: Copy>(given: MaybeUninit<E>, known: E) -> bool {
    /// The bytes of a value of an enumeration without fields.
    fn bytes<E>(value: &MaybeUninit<E>) -> &[u8] {
        // SAFETY: an enumeration without fields has no padding, and C passes an initialised integer of its size.
        unsafe { core::slice::from_raw_parts(value.as_ptr().cast(), size_of::<E>()) }
    }
    let known = MaybeUninit::new(known);
    // `==` on slices may call the C library's memcmp.
    bytes(&given).iter().zip(bytes(&known)).all(|(one, other)| one == other)
}

impl From<AllocError> for rt_error {
    #[inline(always)]
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::ZeroSize => RT_ERROR_ZERO_SIZE,
            AllocError::Alignment => RT_ERROR_ALIGNMENT,
            AllocError::TooLarge => RT_ERROR_TOO_LARGE,
            AllocError::Exhausted => RT_ERROR_EXHAUSTED,
            AllocError::Pending => RT_ERROR_PENDING,
            AllocError::Misused => RT_ERROR_MISUSED,
            AllocError::Quota => RT_ERROR_QUOTA,
            AllocError::Injected => RT_ERROR_INJECTED,
        }
    }
}

impl From<InitError> for rt_error {
    fn from(error: InitError) -> Self {
        match error {
            InitError::TooSmall { .. } => RT_ERROR_REGION_TOO_SMALL,
            InitError::OutOfReach { .. } => RT_ERROR_OUT_OF_REACH,
            InitError::LargerThanPlanned { .. } => RT_ERROR_LARGER_THAN_PLANNED,
            InitError::Overlap => RT_ERROR_OVERLAP,
            InitError::Configuration { .. } => RT_ERROR_CONFIGURATION,
        }
    }
}

impl From<RemoveError> for rt_error {
    fn from(error: RemoveError) -> Self {
        match error {
            RemoveError::InUse => RT_ERROR_IN_USE,
            RemoveError::NotRemovable => RT_ERROR_NOT_REMOVABLE,
        }
    }
}

impl<E: Into<rt_error>> From<Result<(), E>> for rt_error {
    #[inline(always)]
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => RT_OK,
            Err(error) => error.into(),
        }
    }
}
