//! Reports of heaps: statistics, blocks, misuse, corruption.

use crate::error::is;
use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, with_exposed_provenance};
use core::sync::atomic::{AtomicPtr, Ordering};
use rtalloc::contract::{Block, Corruption, Misuse, MisuseKind, Stats};

/// Bytes of the name of an allocator in a report, including the NUL.
pub const RT_NAME_BYTES: usize = 32;
/// Bytes of the text in a report, including the NUL.
pub const RT_TEXT_BYTES: usize = 128;

/// Running statistics of a heap.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_stats {
    /// Usable bytes of all live blocks. The heap does not record the requested sizes.
    pub live_bytes: usize,
    /// Largest value of `live_bytes` so far.
    pub peak_live_bytes: usize,
    /// Number of live blocks.
    pub live_blocks: usize,
    /// The highest end of any allocated block so far, in bytes from the first block of the heap's first region: the
    /// room that a region needs after its control structure to serve the same sequence again.
    pub high_water_bytes: usize,
    /// Largest request that would succeed now, in bytes.
    pub largest_free_bytes: usize,
    /// Number of requests refused so far, for any reason.
    pub failures: usize,
}

impl From<Stats> for rt_stats {
    fn from(stats: Stats) -> Self {
        rt_stats {
            live_bytes: stats.live_bytes,
            peak_live_bytes: stats.peak_live_bytes,
            live_blocks: stats.live_blocks,
            high_water_bytes: stats.high_water_bytes,
            largest_free_bytes: stats.largest_free_bytes,
            failures: stats.failures,
        }
    }
}

/// A block, as passed to a visitor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_block {
    /// The address that malloc returned.
    pub address: *const c_void,
    /// Bytes of the block before its address: the header and the padding for its alignment.
    pub front_bytes: usize,
    /// Bytes of the block, including `front_bytes`.
    pub size_bytes: usize,
    /// Bytes that are usable while the block is live.
    pub usable_bytes: usize,
    /// Whether the block is free.
    pub is_free: bool,
}

impl From<Block> for rt_block {
    fn from(block: Block) -> Self {
        rt_block {
            address: with_exposed_provenance(block.address),
            front_bytes: block.front_bytes,
            size_bytes: block.size_bytes,
            usable_bytes: block.usable_bytes,
            is_free: block.free,
        }
    }
}

/// Called for each block, with the context passed to the walk. It must return and must not modify the heap.
pub type rt_visitor = Option<unsafe extern "C" fn(block: *const rt_block, context: *mut c_void)>;

/// A broken invariant.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_corruption {
    /// The invariant: a NUL-terminated text.
    pub invariant: [c_char; RT_TEXT_BYTES],
    /// The address of the block, or of the word in the control structure.
    pub address: *const c_void,
}

impl From<Corruption> for rt_corruption {
    fn from(corruption: Corruption) -> Self {
        rt_corruption { invariant: copied(corruption.invariant), address: with_exposed_provenance(corruption.address) }
    }
}

/// Kinds of misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_misuse_kind {
    /// The address is outside the heap, or lacks the alignment of every block.
    RT_MISUSE_FOREIGN_POINTER,
    /// The block is free.
    RT_MISUSE_DOUBLE_FREE,
    /// The tags around the block contradict each other: one was overwritten, or the block was freed before and is now
    /// inside a larger free block.
    RT_MISUSE_CONTRADICTORY_TAGS,
    /// Bytes after the block were written: after the requested size, not only after the granted size.
    RT_MISUSE_OVERRUN,
    /// Bytes before the block were written.
    RT_MISUSE_UNDERRUN,
    /// The block was written after it was freed.
    RT_MISUSE_USE_AFTER_FREE,
    /// The address is inside a block, not at its start.
    RT_MISUSE_INTERIOR_POINTER,
    /// The address is in the region of another heap.
    RT_MISUSE_WRONG_HEAP,
}

/// Every kind, by number.
const KINDS: [rt_misuse_kind; 8] = [
    rt_misuse_kind::RT_MISUSE_FOREIGN_POINTER,
    rt_misuse_kind::RT_MISUSE_DOUBLE_FREE,
    rt_misuse_kind::RT_MISUSE_CONTRADICTORY_TAGS,
    rt_misuse_kind::RT_MISUSE_OVERRUN,
    rt_misuse_kind::RT_MISUSE_UNDERRUN,
    rt_misuse_kind::RT_MISUSE_USE_AFTER_FREE,
    rt_misuse_kind::RT_MISUSE_INTERIOR_POINTER,
    rt_misuse_kind::RT_MISUSE_WRONG_HEAP,
];

impl rt_misuse_kind {
    const fn text(self) -> &'static CStr {
        match self {
            rt_misuse_kind::RT_MISUSE_FOREIGN_POINTER => c"foreign pointer",
            rt_misuse_kind::RT_MISUSE_DOUBLE_FREE => c"double free",
            rt_misuse_kind::RT_MISUSE_CONTRADICTORY_TAGS => c"contradictory tags",
            rt_misuse_kind::RT_MISUSE_OVERRUN => c"overrun",
            rt_misuse_kind::RT_MISUSE_UNDERRUN => c"underrun",
            rt_misuse_kind::RT_MISUSE_USE_AFTER_FREE => c"use after free",
            rt_misuse_kind::RT_MISUSE_INTERIOR_POINTER => c"interior pointer",
            rt_misuse_kind::RT_MISUSE_WRONG_HEAP => c"wrong heap",
        }
    }
}

/// Returns the name of a kind of misuse: a static NUL-terminated string, never NULL, whatever the number.
///
/// # Time
///
/// O(number of kinds).
#[unsafe(no_mangle)]
pub extern "C" fn rt_misuse_name(kind: MaybeUninit<rt_misuse_kind>) -> *const c_char {
    let known = KINDS.into_iter().find(|&known| is(kind, known));
    known.map_or(c"not a kind of misuse", rt_misuse_kind::text).as_ptr()
}

/// Misuse of the heap by its caller, detected by the tags of a block. The heap is unchanged.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_misuse {
    /// The allocator that detected it: a NUL-terminated name.
    pub allocator: [c_char; RT_NAME_BYTES],
    /// The kind of misuse.
    pub kind: rt_misuse_kind,
    /// The address that the caller passed.
    pub address: *const c_void,
}

impl From<&Misuse> for rt_misuse {
    fn from(misuse: &Misuse) -> Self {
        rt_misuse {
            allocator: copied(misuse.allocator),
            kind: match misuse.kind {
                MisuseKind::ForeignPointer => rt_misuse_kind::RT_MISUSE_FOREIGN_POINTER,
                MisuseKind::DoubleFree => rt_misuse_kind::RT_MISUSE_DOUBLE_FREE,
                MisuseKind::ContradictoryTags => rt_misuse_kind::RT_MISUSE_CONTRADICTORY_TAGS,
                MisuseKind::Overrun => rt_misuse_kind::RT_MISUSE_OVERRUN,
                MisuseKind::Underrun => rt_misuse_kind::RT_MISUSE_UNDERRUN,
                MisuseKind::UseAfterFree => rt_misuse_kind::RT_MISUSE_USE_AFTER_FREE,
                MisuseKind::InteriorPointer => rt_misuse_kind::RT_MISUSE_INTERIOR_POINTER,
                MisuseKind::WrongHeap => rt_misuse_kind::RT_MISUSE_WRONG_HEAP,
            },
            address: with_exposed_provenance(misuse.address),
        }
    }
}

/// Called for every misuse that a heap of this program detects. It must not use the heap that reported it.
pub type rt_misuse_hook = Option<unsafe extern "C" fn(misuse: *const rt_misuse)>;

/// The hook of the program, or null.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn call_hook(misuse: &Misuse) {
    let raw = HOOK.load(Ordering::Acquire);
    // SAFETY: `HOOK` holds an `rt_misuse_hook`, whose `None` is the null pointer.
    if let Some(hook) = unsafe { core::mem::transmute::<*mut c_void, rt_misuse_hook>(raw) } {
        // SAFETY: the hook is a C function of this type, and the report is initialised.
        unsafe { hook(&rt_misuse::from(misuse)) };
    }
}

/// Sets the misuse hook of this program; there is only one. NULL removes it. Without a hook, misuse is ignored, and the
/// heap stays intact.
///
/// # Time
///
/// O(1).
#[unsafe(no_mangle)]
pub extern "C" fn rt_set_misuse_hook(hook: rt_misuse_hook) {
    HOOK.store(hook.map_or(null_mut(), |function| function as *mut c_void), Ordering::Release);
    rtalloc::hook::set_misuse_hook(Some(call_hook));
}

/// A text, truncated to fit, and a NUL.
pub(crate) const fn copied<const N: usize>(text: &str) -> [c_char; N] {
    let mut copy = [0; N];
    let text = text.as_bytes();
    let mut at = 0;
    // Loop bound: bytes of the text.
    while at < text.len() && at + 1 < N {
        copy[at] = text[at] as c_char;
        at += 1;
    }
    copy
}
