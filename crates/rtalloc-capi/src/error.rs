//! Errors as C has them: one enumeration for all verbs.

use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use rt_error::*;
use rtalloc::contract::{AllocError, InitError, RemoveError};

/// Makes [`rt_error`], with each error's text, of one list.
macro_rules! errors {
    ($($(#[$about:meta])* $error:ident = $number:literal: $text:literal;)*) => {
        /// Why something was not done. What was not done changed nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(C)]
        pub enum rt_error {
            $($(#[$about])* $error = $number,)*
        }

        /// Every error, with its text.
        const ALL: &[(rt_error, &CStr)] = &[$(($error, $text)),*];
    };
}

errors! {
    /// It was done.
    RT_OK = 0: c"done";
    /// A request for zero bytes.
    RT_ERROR_ZERO_SIZE = 1: c"a request for zero bytes";
    /// An alignment that is no power of two, larger than any block of the heap, or beyond the contract's
    /// `largest_alignment_bytes`.
    RT_ERROR_ALIGNMENT = 2: c"an alignment that is no power of two or exceeds the heap";
    /// A request larger than this heap could ever serve.
    RT_ERROR_TOO_LARGE = 3: c"a request larger than the heap could ever serve";
    /// No free block is large enough now.
    RT_ERROR_EXHAUSTED = 4: c"no free block is large enough";
    /// No free block is large enough now; one may be when the compaction or the reclaiming that is owed is done. Try again.
    RT_ERROR_PENDING = 5: c"no free block is large enough until what is owed is done: try again";
    /// The block's tags are not those of a live block of this heap; the misuse hook was told.
    RT_ERROR_MISUSED = 6: c"the block's tags are not those of a live block";
    /// A region that reaches beyond the end of the address space, or is larger than half of it.
    RT_ERROR_OVERFLOW = 7: c"the region reaches beyond the address space";
    /// A pointer that is needed is NULL.
    RT_ERROR_NULL = 8: c"a pointer that is needed is NULL";
    /// The region cannot hold the control structure and one block.
    RT_ERROR_REGION_TOO_SMALL = 9: c"the region is too small for the control structure and one block";
    /// The region is larger, or further from the heap's first one, than the tags reach (4 GiB with tags of 32 bits).
    RT_ERROR_OUT_OF_REACH = 10: c"the region is out of the reach of the heap's tags";
    /// The region is larger than the heap's control structure was sized for: set `max_region_bytes` when the heap is made.
    RT_ERROR_LARGER_THAN_PLANNED = 11: c"the region is larger than the control structure was sized for: set max_region_bytes when the heap is made";
    /// The configuration cannot be, or says what this allocator has no use for.
    RT_ERROR_CONFIGURATION = 12: c"a configuration that this allocator cannot have";
    /// Blocks of the region are live.
    RT_ERROR_IN_USE = 13: c"blocks of the region are live";
    /// The heap has no such region, or it is the first one, which holds the control structure.
    RT_ERROR_NOT_REMOVABLE = 14: c"no region of this heap, or the one that holds its control structure";
    /// The object of this handle was freed.
    RT_ERROR_STALE_HANDLE = 15: c"the object of this handle was freed";
    /// An access beyond the object's end.
    RT_ERROR_OUT_OF_RANGE = 16: c"an access beyond the object's end";
    /// A broken invariant: somebody wrote where they should not.
    RT_ERROR_CORRUPTION = 17: c"a broken invariant: memory of the heap was overwritten";
    /// A handle that this heap never gave.
    RT_ERROR_FOREIGN_HANDLE = 18: c"a handle that this heap never gave";
    /// No block was found while others were at work. Try again.
    RT_ERROR_CONTENDED = 19: c"no block was found while others were at work: try again";
    /// The heap has no such slot, or somebody has it.
    RT_ERROR_SLOT = 20: c"no such slot, or somebody has it";
    /// This heap keeps no tallies.
    RT_ERROR_NO_TALLIES = 21: c"this heap keeps no tallies";
    /// The object has as many pins as are counted.
    RT_ERROR_PINS = 22: c"the object has as many pins as are counted";
    /// There is no bound: the operation may have to wait for others.
    RT_ERROR_UNBOUNDED = 23: c"there is no bound: the operation may have to wait for others";
    /// Whoever asks has used up what it may, however much is free.
    RT_ERROR_QUOTA = 24: c"the component has used up its quota";
    /// The heap was told to refuse this very request, to test what the program does then.
    RT_ERROR_INJECTED = 25: c"refused on purpose, to test what the program does then";
}

/// The error in words: a static string that ends with NUL, never NULL, whatever the number.
///
/// # Time
///
/// O(number of errors).
#[unsafe(no_mangle)]
pub extern "C" fn rt_strerror(error: MaybeUninit<rt_error>) -> *const c_char {
    let known = ALL.iter().find(|(known, _)| is(error, *known));
    known.map_or(c"not an error of rtalloc", |(_, text)| text).as_ptr()
}

/// Whether a value that C gave, which may be any number, is this one of an enumeration.
#[inline(always)]
pub(crate) fn is<E: Copy>(given: MaybeUninit<E>, known: E) -> bool {
    /// The bytes of a value of an enumeration without fields.
    fn bytes<E>(value: &MaybeUninit<E>) -> &[u8] {
        // SAFETY: an enumeration without fields has no padding, and C passes an initialised integer of its size.
        unsafe { core::slice::from_raw_parts(value.as_ptr().cast(), size_of::<E>()) }
    }
    let known = MaybeUninit::new(known);
    // Not by `==` on slices, which may be a call of the C library's memcmp.
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
