//! Regions, each with a heap of its own.
//!
//! The first region is made at the first allocation. Unless memory is fixed, it is large and consists of addresses
//! only: pages are allocated when they are touched. If no region serves a request, another one is added, as large as
//! all regions before it together, so there are few.

use crate::kinds::{self, HeapConfig, Kind};
use crate::mapping::Mapping;
use crate::output::{Bytes, refuse_to_run};
use crate::region_table::{GRAIN_BYTES, MAX_REGIONS};
use crate::state::STATE;
use crate::threads::ThreadState;
use crate::{direct, pages, ring};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::InitError;
use rtalloc_sys::errno::keeping_errno;
use rtalloc_sys::libc::{self, O_CLOEXEC, O_RDONLY};
use rtalloc_sys::{page_bytes, syscall};

/// Bytes of the first region for arenas, which touch only what they use.
const LARGEST_BYTES: usize = 16 << 30;
/// Bytes of the first region for other heaps that touch only what they use.
const LARGE_BYTES: usize = 1 << 30;
/// Bytes of the first region for heaps that initialise a control structure of the region's size.
const MODEST_BYTES: usize = 64 << 20;
/// Bytes of the first region if memory is fixed or locked and no size is given.
const PLANNED_BYTES: usize = 256 << 20;
/// If address space is limited, the first region is at most this part of it.
const SHARE: usize = 4;
/// Smallest first region that is tried.
const SMALLEST_BYTES: usize = GRAIN_BYTES / 8;

/// Makes the first region. Ends the process if the settings ask for one that is not available.
pub fn add_first() {
    let settings = STATE.settings();
    if settings.is_planned() {
        let bytes = settings.heap_bytes.unwrap_or(PLANNED_BYTES);
        if let Err(error) = add(bytes, true) {
            refuse_to_run(format_args!("no heap of {}: {error}", Bytes(bytes)));
        }
        return;
    }
    let kind = kinds::current();
    let bytes = match (kind.starts_small && !is_overcommit_off(), kind.has_slots) {
        (false, _) => MODEST_BYTES,
        (true, false) => LARGE_BYTES,
        (true, true) => LARGEST_BYTES,
    };
    // Stacks of threads and other mappings need the rest of a limited address space. If there is none at all, requests
    // are refused one by one.
    let mut bytes = bytes.min((address_space_bytes() / SHARE).max(SMALLEST_BYTES));
    while add(bytes, false).is_err() && bytes > SMALLEST_BYTES {
        bytes /= 2;
    }
}

/// The process's limit of address space, in whole pages.
fn address_space_bytes() -> usize {
    let mut limits = [u64::MAX; 2];
    // SAFETY: `limits` is as long as what is written.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limits) };
    usize::try_from(limits[0]).unwrap_or(usize::MAX) / page_bytes() * page_bytes()
}

/// Whether the kernel accounts for every mapping, touched or not (`vm.overcommit_memory = 2`). Address space is then
/// expensive.
fn is_overcommit_off() -> bool {
    let mut mode = 0u8;
    // SAFETY: the literal ends with a zero, and `mode` is as long as what is read.
    unsafe {
        let file = syscall::open(c"/proc/sys/vm/overcommit_memory".as_ptr(), O_RDONLY | O_CLOEXEC, 0);
        if file >= 0 {
            syscall::read(file, (&raw mut mode).cast(), 1);
            syscall::close(file);
        }
    }
    mode == b'2'
}

/// Why a region was not added.
#[derive(Clone, Copy, Debug)]
pub enum RegionError {
    /// The system does not provide the memory.
    Memory,
    /// The memory cannot be locked.
    Locking,
    /// The table of regions is full.
    Number,
    /// The heap does not accept the region.
    Heap(InitError),
}

impl core::fmt::Display for RegionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let name = kinds::current().name;
        let error = match self {
            RegionError::Memory => {
                return f.write_str(
                    "the system cannot provide that much memory: set a smaller RTALLOC_HEAP, or raise ulimit -v",
                );
            }
            RegionError::Locking => {
                return f.write_str(
                    "it cannot be locked in memory: raise the limit (ulimit -l, LimitMEMLOCK=), \
                     or run without RTALLOC_MLOCK",
                );
            }
            RegionError::Number => return f.write_str("there are too many regions"),
            RegionError::Heap(error) => error,
        };
        match *error {
            InitError::TooSmall { needed_bytes } => write!(
                f,
                "{name} with {} slots needs at least RTALLOC_HEAP={needed_bytes} and, in practice, much more",
                STATE.slots()
            ),
            InitError::OutOfReach { max_span_bytes: bytes } => {
                write!(f, "a heap of {name} spans at most {}: set RTALLOC_HEAP={bytes}", Bytes(bytes))
            }
            InitError::LargerThanPlanned { max_region_bytes: bytes } => {
                write!(f, "{name} supports at most {}: set RTALLOC_HEAP={bytes}", Bytes(bytes))
            }
            InitError::Overlap => error.fmt(f),
            InitError::Configuration { what } => write!(f, "{name} must have {what}"),
        }
    }
}

/// Adds a region. The caller owns the growth lock, or sets up the library. `committed` as in [`Mapping::new`].
fn add(bytes: usize, committed: bool) -> Result<(), RegionError> {
    if STATE.regions.count() == MAX_REGIONS {
        return Err(RegionError::Number);
    }
    let settings = STATE.settings();
    let len = bytes.checked_next_multiple_of(page_bytes()).ok_or(RegionError::Memory)?;
    let mapping = Mapping::new(len, GRAIN_BYTES, committed).ok_or(RegionError::Memory)?;
    let undo = |error| {
        mapping.unmap();
        Err(error)
    };
    if !committed && !settings.locked {
        // Each slot writes the first bytes of its memory. A huge page for each would be most of a small program's
        // memory.
        // SAFETY: the advice is for pages that were mapped above. A kernel without huge pages refuses it.
        unsafe { libc::madvise(mapping.start.cast(), len, libc::MADV_NOHUGEPAGE) };
    }
    ring::map_file(mapping.start, len);
    // SAFETY: the pages were mapped above.
    if settings.locked && unsafe { libc::mlock(mapping.start.cast(), len) } != 0 {
        return undo(RegionError::Locking);
    }
    // A heap of fixed size is for programs with deadlines: no operation empties lists.
    let list_bytes = if settings.fixed { 0 } else { rtalloc::adapt::cached::LIST_BYTES };
    let config = HeapConfig { slots: STATE.slots(), records: settings.records_per_region(), list_bytes };
    // SAFETY: only the heap uses the region from here on, and it is never unmapped.
    match unsafe { (kinds::current().make)(mapping.start, len, config) } {
        Ok(heap) => STATE.regions.push(mapping.start.addr(), len, heap),
        Err(error) => return undo(RegionError::Heap(error)),
    }
    Ok(())
}

/// Adds a region in which a request fits, unless the number of regions is not `seen` any more. False if that is
/// impossible.
pub fn grow(seen: usize, size: usize, align: usize) -> bool {
    if STATE.settings().fixed {
        return false;
    }
    let grown = STATE.regions.growth.with(|| {
        if STATE.regions.count() != seen {
            return true;
        }
        let &Kind { max_region_bytes, .. } = kinds::current();
        // Two and a half times: for the rounding of buddy systems, and for headers.
        let needed = size.saturating_add(align).saturating_mul(5) / 2;
        let needed = needed.saturating_add(1 << 20);
        let mut bytes = STATE.regions.total_bytes().max(needed).min(max_region_bytes);
        keeping_errno(|| {
            loop {
                match add(bytes, false) {
                    Ok(()) => return true,
                    Err(RegionError::Number) => return false,
                    Err(_) if bytes / 2 < needed => return bytes > needed && add(needed, false).is_ok(),
                    Err(_) => bytes /= 2,
                }
            }
        })
    });
    grown.unwrap_or(false)
}

/// Lets a thread allocate from a region first; by the fast path, if the allocator has one and operations are not
/// counted.
///
/// # Safety
///
/// As [`ThreadState::fast_path`]; the thread has the slot number.
pub unsafe fn assign(state: &ThreadState, number: usize, index: usize) {
    state.region.store(index as u8, Relaxed);
    let has_fast_path = kinds::current().has_slots && !STATE.settings().is_counting();
    // SAFETY: by the caller's guarantee.
    let fast = unsafe { state.fast_path() };
    match STATE.regions.get(index).filter(|_| has_fast_path) {
        Some(region) => {
            // SAFETY: an allocator with slots of its own is the arenas, and the slot is the thread's as long as it has
            // the number.
            fast.slot = MaybeUninit::new(unsafe { kinds::arena_slot(region.heap, number) });
            fast.start = region.start;
            fast.span_bytes = region.end - region.start;
            fast.below_bytes = direct::from_bytes();
            pages::begin(fast);
        }
        None => {
            fast.below_bytes = 0;
            fast.span_bytes = 0;
            fast.before_return = isize::MAX;
            if kinds::current().has_slots {
                // Operations are counted; their memory follows what is live all the same.
                pages::begin(fast);
            }
        }
    }
}
