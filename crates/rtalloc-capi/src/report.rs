//! What heaps tell: tallies, blocks, misuse, corruption.

use crate::error::is;
use core::ffi::{CStr, c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, with_exposed_provenance};
use core::sync::atomic::{AtomicPtr, Ordering};
use rtalloc::contract::{Block, Corruption, Misuse, MisuseKind, Stats};

/// Bytes of the name of an allocator in a report, NUL included.
pub const RT_NAME_BYTES: usize = 32;
/// Bytes of the words of a report, NUL included.
pub const RT_TEXT_BYTES: usize = 128;

/// Running tallies of a heap.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct rt_stats {
    /// Usable bytes of all live blocks now; the heap does not know what was requested of them.
    pub live_bytes: usize,
    /// Largest value `live_bytes` ever had.
    pub peak_live_bytes: usize,
    /// Live blocks now.
    pub live_blocks: usize,
    /// The highest end ever handed out, as a distance from the first block of the heap's first region, in bytes: what a region
    /// must hold behind its control structure for the same again.
    pub high_water_bytes: usize,
    /// Largest request that succeeds now, in bytes.
    pub largest_free_bytes: usize,
    /// Requests refused so far, for any reason.
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

/// A block as a walk shows it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_block {
    /// What malloc returned.
    pub address: *const c_void,
    /// Bytes of the block in front of its address: the header, and whatever an alignment cost.
    pub front_bytes: usize,
    /// Bytes of the block, front included.
    pub size_bytes: usize,
    /// Bytes that may be used while the block is live.
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

/// Is shown one block after the other, with the context that the walk was given. It returns, and may not change the heap.
pub type rt_visitor = Option<unsafe extern "C" fn(block: *const rt_block, context: *mut c_void)>;

/// A broken invariant.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_corruption {
    /// Which invariant: words that end with NUL.
    pub invariant: [c_char; RT_TEXT_BYTES],
    /// Where: the address of the block, or of the control structure's word.
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
    /// The address is outside the heap or is not aligned as every block is.
    RT_MISUSE_FOREIGN_POINTER,
    /// The block is free.
    RT_MISUSE_DOUBLE_FREE,
    /// The tags around the block contradict each other: somebody wrote over one, or the block was freed before and is now
    /// inside a larger free block.
    RT_MISUSE_CONTRADICTORY_TAGS,
    /// Bytes behind the block were written: behind what was requested, not only behind what was granted.
    RT_MISUSE_OVERRUN,
    /// Bytes in front of the block were written.
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

/// The kind of misuse in a word or two: a static string that ends with NUL, never NULL, whatever the number.
///
/// # Time
///
/// O(number of kinds).
#[unsafe(no_mangle)]
pub extern "C" fn rt_misuse_name(kind: MaybeUninit<rt_misuse_kind>) -> *const c_char {
    let known = KINDS.into_iter().find(|&known| is(kind, known));
    known.map_or(c"not a kind of misuse", rt_misuse_kind::text).as_ptr()
}

/// A caller's fault that the tags of a block show. The heap is as it was.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct rt_misuse {
    /// The allocator that saw it: a name that ends with NUL.
    pub allocator: [c_char; RT_NAME_BYTES],
    /// What was seen.
    pub kind: rt_misuse_kind,
    /// The address the caller passed.
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

/// Is told of every misuse that a heap of this program sees. It may not use the heap that reported.
pub type rt_misuse_hook = Option<unsafe extern "C" fn(misuse: *const rt_misuse)>;

/// C's hook, or null.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn tell(misuse: &Misuse) {
    let raw = HOOK.load(Ordering::Acquire);
    // SAFETY: what is stored is an `rt_misuse_hook`, whose `None` is the null pointer.
    if let Some(hook) = unsafe { core::mem::transmute::<*mut c_void, rt_misuse_hook>(raw) } {
        // SAFETY: the hook is C's function of this type, and is shown a whole report.
        unsafe { hook(&rt_misuse::from(misuse)) };
    }
}

/// Sets the one hook of this program that is told of misuse; NULL removes it. Without one, misuse is ignored, which leaves the
/// heap whole.
///
/// # Time
///
/// O(1).
#[unsafe(no_mangle)]
pub extern "C" fn rt_set_misuse_hook(hook: rt_misuse_hook) {
    HOOK.store(hook.map_or(null_mut(), |function| function as *mut c_void), Ordering::Release);
    rtalloc::hook::set_misuse_hook(Some(tell));
}

/// As much of a text as there is room for, and NUL.
pub(crate) const fn copied<const N: usize>(text: &str) -> [c_char; N] {
    let mut copy = [0; N];
    let text = text.as_bytes();
    let mut at = 0;
    // turns: bytes of the text.
    while at < text.len() && at + 1 < N {
        copy[at] = text[at] as c_char;
        at += 1;
    }
    copy
}
