//! Where the memory comes from: regions, each with a heap of its own, and who owns an address.
//!
//! ```text
//! address space, in grains of 32 MiB    . . 1 1 1 1 1 1 . . . D . . 2 2 2 2 2 2 2 2 2 2 . . F D . .
//!                                           region 1          |     region 2                |
//!                                                             direct block                  direct block of a wide alignment
//! ```
//!
//! A region begins at a grain's start, and so does a direct block ([`direct`]). So a byte for every grain tells who owns
//! an address: one shift, one load. The table of 4 MiB is untouched but for the bytes of grains that are used.
//!
//! The first region is made at the first allocation; where memory is not fixed it is large, and costs nothing until it is touched. When
//! no region serves a request, a further one is made, as large as all before it together: their number stays small.

use crate::kinds::{self, Kind};
use crate::lock::Lock;
use crate::seat::{self, Seat};
use crate::settings::{OnMisuse, Report, Settings};
use crate::tell::{Bytes, refuse_to_run};
use crate::{direct, libc, life, lock, misuse, ring, seat as who, system, thread};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicUsize};
use rtalloc::Tlsf;
use rtalloc::adapt::Failures;
use rtalloc::contract::InitError;
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::word::Wide;

/// The heap in an arena.
pub type ArenaHeap = Tlsf<'static, 5, RoundUp, Wide>;
/// The default allocator.
pub type Arenas = rtalloc::Arenas<'static, ArenaHeap>;

/// Alignment of every block, that of `max_align_t`, in bytes.
pub const ALIGN_BYTES: usize = 16;

/// log2 of a grain.
pub const GRAIN_SHIFT: u32 = 25;
/// Bytes of a grain of the address space.
pub const GRAIN_BYTES: usize = 1 << GRAIN_SHIFT;
/// Grains of the address space that programs get without asking for more.
const GRAINS: usize = 1 << (if cfg!(target_arch = "aarch64") { 48 } else { 47 } - GRAIN_SHIFT);
/// Most regions. As each is as large as all before it, the address space ends first.
pub const MOST: usize = 200;
/// A grain in which a direct block begins, behind its header.
pub const DIRECT: u8 = 254;
/// A grain at whose start a direct block begins, whose header is in the grain before.
pub const DIRECT_FAR: u8 = 255;

/// Slots where nothing is said: threads that work at a time without sharing, and one more.
const SLOTS: usize = 16;
/// Address space of the first region for heaps that touch what they use, for each slot.
const ROOM_BYTES: usize = 1 << 30;
/// The first region of heaps whose control structure has to be written first.
const MODEST_BYTES: usize = 64 << 20;
/// The first region where memory is fixed or locked, and nobody says how much.
const PLANNED_BYTES: usize = 256 << 20;

/// Of the address space, where it is limited, the first region is one of so many parts.
const SHARE: usize = 4;

/// A region. Its number is its place in the table, plus 1.
struct Region {
    start: AtomicUsize,
    end: AtomicUsize,
    heap: AtomicUsize,
}

static REGIONS: [Region; MOST] =
    [const { Region { start: AtomicUsize::new(0), end: AtomicUsize::new(0), heap: AtomicUsize::new(0) } }; MOST];
/// Regions there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Bytes of all of them.
static TOTAL_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Whose each grain is.
static GRAIN_OWNERS: [AtomicU8; GRAINS] = [const { AtomicU8::new(0) }; GRAINS];
/// Held by who makes a region.
static GROWTH: Lock = Lock::new();

/// Value of [`LIFE`]: nothing has happened yet.
const UNTOUCHED: usize = 0;
/// Value of [`LIFE`]: everything is set up. Every other value is who does that.
const READY: usize = 1;
static LIFE: AtomicUsize = AtomicUsize::new(UNTOUCHED);

struct Place(UnsafeCell<Settings>);
// SAFETY: written once, before `LIFE` says so.
unsafe impl Sync for Place {}
static SETTINGS: Place = Place(UnsafeCell::new(Settings::DEFAULT));
/// Slots of a region.
static SLOT_COUNT: AtomicUsize = AtomicUsize::new(1);

/// What was asked for.
#[must_use]
pub fn settings() -> &'static Settings {
    // SAFETY: not written any more by whoever gets here through `ready`.
    unsafe { &*SETTINGS.0.get() }
}

/// The allocator in use.
#[must_use]
pub fn kind() -> &'static Kind {
    kinds::ALL.get(settings().kind).unwrap_or(&kinds::ALL[0])
}

/// Slots of every region.
#[must_use]
pub fn slots() -> usize {
    SLOT_COUNT.load(Relaxed)
}

/// Numbers that threads have for themselves: all slots but the last, and the only one as long as nobody else needs it.
#[must_use]
pub fn own_slots() -> usize {
    if kind().has_slots { last_slot().max(1) } else { seat::MOST }
}

/// The slot that is shared.
#[must_use]
pub fn last_slot() -> usize {
    slots() - 1
}

/// Whether every operation is counted, and therefore takes the long way: for the report, or to refuse some.
#[must_use]
pub fn is_counting() -> bool {
    let settings = settings();
    settings.report != Report::No || settings.failures != Failures::Never || settings.quota_bytes.is_some()
}

/// Sees to it that everything is set up: by the first allocation of the process. False inside of that.
#[inline]
pub fn ready() -> bool {
    LIFE.load(Acquire) == READY || set_up()
}

#[cold]
fn set_up() -> bool {
    let me = thread::identity();
    match LIFE.compare_exchange(UNTOUCHED, me, Acquire, Acquire) {
        Ok(_) => {}
        Err(READY) => return true,
        Err(other) if other == me => return false,
        Err(_) => {
            let mut patience = lock::Patience::new();
            while LIFE.load(Acquire) != READY {
                patience.wait();
            }
            return true;
        }
    }
    crate::tell::keeping_errno(|| {
        // SAFETY: nobody reads it before LIFE is READY, but this thread, behind this.
        unsafe { SETTINGS.0.get().write(Settings::read()) };
        let settings = settings();
        let planned = settings.heap_bytes.is_some() || settings.fixed || settings.locked;
        let slots = settings.slots.unwrap_or(if planned { 1 } else { SLOTS });
        SLOT_COUNT.store(if kind().has_slots { slots } else { 1 }, Relaxed);
        if settings.on_misuse != OnMisuse::Ignore {
            rtalloc::hook::set_misuse_hook(Some(misuse::noticed));
        }
        if settings.report == Report::Stderr || kind().name == "guarded" {
            crate::tell::keep_stderr();
        }
        make_first(settings, planned);
    });
    LIFE.store(READY, Release);
    life::watch_forks();
    true
}

/// Makes the first region.
fn make_first(settings: &Settings, planned: bool) {
    let kind = kind();
    if planned {
        let bytes = settings.heap_bytes.unwrap_or(PLANNED_BYTES);
        if let Err(error) = add(bytes, true) {
            refuse_to_run(format_args!("no heap of {}: {error}", Bytes(bytes)));
        }
        return;
    }
    let bytes = if kind.starts_small && !is_strict() { ROOM_BYTES * slots() } else { MODEST_BYTES };
    // Where address space is limited, a part of it: stacks of threads and other mappings need theirs. Where there is none at all,
    // requests are refused one by one.
    let mut bytes = bytes.min((address_space() / SHARE).max(GRAIN_BYTES / 8));
    while add(bytes, false).is_err() && bytes > GRAIN_BYTES / 8 {
        bytes /= 2;
    }
}

/// Bytes of address space that the process may have.
fn address_space() -> usize {
    let mut limits = [u64::MAX; 2];
    // SAFETY: the place is as long as what is written.
    unsafe { libc::getrlimit(libc::ADDRESS_SPACE, &raw mut limits) };
    usize::try_from(limits[0]).unwrap_or(usize::MAX) / page_bytes() * page_bytes()
}

/// Whether the system sets memory aside for every mapping, touched or not (`vm.overcommit_memory = 2`): address space is dear then.
fn is_strict() -> bool {
    let mut mode = 0u8;
    // SAFETY: the literal ends with a zero, and the place is as long as what is read.
    unsafe {
        let file = system::open(c"/proc/sys/vm/overcommit_memory".as_ptr(), system::READ_ONLY);
        if file >= 0 {
            system::read(file, (&raw mut mode).cast(), 1);
            system::close(file);
        }
    }
    mode == b'2'
}

/// Why there is no further region.
#[derive(Clone, Copy, Debug)]
pub enum NoRegion {
    /// The system has no more memory.
    Memory,
    /// It has, and cannot lock it.
    Locking,
    /// The table is full.
    Number,
    /// The heap refuses.
    Heap(InitError),
}

impl core::fmt::Display for NoRegion {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NoRegion::Memory => f.write_str("the system has not so much memory for this process (ulimit -v? RTALLOC_HEAP?)"),
            NoRegion::Locking => f.write_str(
                "it cannot be locked in memory: raise the limit (ulimit -l, LimitMEMLOCK=), or run without RTALLOC_MLOCK",
            ),
            NoRegion::Number => f.write_str("there are too many regions"),
            NoRegion::Heap(InitError::TooSmall { needed_bytes }) => write!(
                f,
                "{} with {} slots needs RTALLOC_HEAP={needed_bytes} at least, and much more to be of use",
                kind().name,
                slots()
            ),
            NoRegion::Heap(InitError::OutOfReach { max_span_bytes }) => {
                write!(f, "{} reaches {} at most: RTALLOC_HEAP={max_span_bytes}", kind().name, Bytes(*max_span_bytes))
            }
            NoRegion::Heap(InitError::LargerThanPlanned { max_region_bytes }) => {
                write!(f, "{} takes {} at most: RTALLOC_HEAP={max_region_bytes}", kind().name, Bytes(*max_region_bytes))
            }
            NoRegion::Heap(InitError::Configuration { what }) => write!(f, "{} must have {what}", kind().name),
        }
    }
}

/// Adds a region of a size. What is promised is memory that the system has set aside (or says that it has not), not just addresses.
fn add(bytes: usize, promised: bool) -> Result<(), NoRegion> {
    let index = COUNT.load(Relaxed);
    let region = REGIONS.get(index).ok_or(NoRegion::Number)?;
    let len = bytes.checked_next_multiple_of(page_bytes()).ok_or(NoRegion::Memory)?;
    let mapping = Mapping::new(len, GRAIN_BYTES, promised).ok_or(NoRegion::Memory)?;
    let undo = |error| {
        mapping.undo();
        Err(error)
    };
    if !promised && !settings().locked {
        // A page of two megabytes for each slot that writes its first bytes would be most of what a small program has.
        // SAFETY: advice about pages that were mapped just now; where the kernel has no such pages, it is refused.
        unsafe { system::madvise(mapping.start.cast(), len, libc::ADVICE_SMALL_PAGES) };
    }
    ring::lay_under(mapping.start, len);
    // SAFETY: the pages were mapped just now.
    if settings().locked && unsafe { libc::mlock(mapping.start.cast(), len) } != 0 {
        return undo(NoRegion::Locking);
    }
    // SAFETY: the region is nobody else's, for ever.
    let heap = match unsafe { (kind().make)(mapping.start, len, slots()) } {
        Ok(heap) => heap,
        Err(error) => return undo(NoRegion::Heap(error)),
    };
    let start = mapping.start.addr();
    region.start.store(start, Relaxed);
    region.end.store(start + len, Relaxed);
    region.heap.store(heap, Relaxed);
    TOTAL_BYTES.fetch_add(len, Relaxed);
    for grain in start >> GRAIN_SHIFT..=(start + len - 1) >> GRAIN_SHIFT {
        set_owner(grain << GRAIN_SHIFT, (index + 1) as u8);
    }
    // Release: the region is there before its number is.
    COUNT.store(index + 1, Release);
    Ok(())
}

/// Adds a region in which a request finds room, unless somebody else has added one since there were `seen`. False if there is none
/// to be had.
pub fn grow(seen: usize, size: usize, align: usize) -> bool {
    if settings().fixed {
        return false;
    }
    let grown = GROWTH.hold(|| {
        if COUNT.load(Acquire) != seen {
            return true;
        }
        // Twice and a half: room for what buddies round up to, and for what stands around the block.
        let needed = size.saturating_add(align).saturating_mul(5) / 2;
        let needed = needed.saturating_add(1 << 20).saturating_mul(slots());
        let most = kind().max_region_bytes.saturating_mul(slots());
        let wanted = TOTAL_BYTES.load(Relaxed).max(needed).min(most);
        crate::tell::keeping_errno(|| {
            let mut bytes = wanted;
            loop {
                match add(bytes, false) {
                    Ok(()) => return true,
                    Err(NoRegion::Number) => return false,
                    Err(_) if bytes / 2 < needed => return bytes > needed && add(needed, false).is_ok(),
                    Err(_) => bytes /= 2,
                }
            }
        })
    });
    grown.unwrap_or(false)
}

/// Pages at an aligned place.
pub struct Mapping {
    /// Where they begin.
    pub start: *mut u8,
    /// How many bytes.
    pub len: usize,
}

impl Mapping {
    /// Maps whole pages at a multiple of `align`, a power of two of at least a page.
    #[must_use]
    pub fn new(len: usize, align: usize, promised: bool) -> Option<Mapping> {
        let room = len.checked_add(align)?;
        // SAFETY: new mappings at places of the kernel's choice, parts of which are unmapped or mapped once more.
        unsafe {
            let at = system::mmap(null_mut(), room, system::ACCESS_NONE, libc::MAP_UNRESERVED, -1, 0);
            if system::is_failed(at) {
                return None;
            }
            let start = at.addr().checked_next_multiple_of(align)?;
            let before = start - at.addr();
            if before != 0 {
                system::munmap(at, before);
            }
            let start = at.byte_add(before);
            system::munmap(start.byte_add(len), room - before - len);
            let flags = libc::MAP_HERE | if promised { 0 } else { libc::MAP_UNRESERVED };
            if system::is_failed(system::mmap(start, len, system::ACCESS_BOTH, flags, -1, 0)) {
                system::munmap(start, len);
                return None;
            }
            Some(Mapping { start: start.cast(), len })
        }
    }

    /// Gives the pages back.
    pub fn undo(&self) {
        // SAFETY: they were mapped by `new`, and nobody uses them.
        unsafe { system::munmap(self.start.cast(), self.len) };
    }
}

/// Says whose a grain is.
pub fn set_owner(address: usize, owner: u8) {
    if let Some(grain) = GRAIN_OWNERS.get(address >> GRAIN_SHIFT) {
        // Release: what the owner is, is there before.
        grain.store(owner, Release);
    }
}

/// Whose the grain of an address is; 0: nobody's here.
#[inline]
#[must_use]
pub fn owner(address: usize) -> u8 {
    GRAIN_OWNERS.get(address >> GRAIN_SHIFT).map_or(0, |grain| grain.load(Acquire))
}

/// Regions there are.
#[must_use]
pub fn count() -> usize {
    COUNT.load(Acquire)
}

/// Bytes of all regions.
#[must_use]
pub fn total_bytes() -> usize {
    TOTAL_BYTES.load(Relaxed)
}

/// A region that exists.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its place in the table.
    pub index: usize,
    /// Its first address.
    pub start: usize,
    /// The first address behind it.
    pub end: usize,
    /// Its heap.
    pub heap: kinds::Heap,
}

/// The region at a place of the table.
#[must_use]
pub fn known(index: usize) -> Option<Known> {
    if index >= count() {
        return None;
    }
    let region = REGIONS.get(index)?;
    Some(Known { index, start: region.start.load(Relaxed), end: region.end.load(Relaxed), heap: &region.heap })
}

/// The region that an address lies in.
#[must_use]
pub fn region_of(address: usize) -> Option<Known> {
    let index = usize::from(owner(address)).checked_sub(1)?;
    known(index).filter(|region| (region.start..region.end).contains(&address))
}

/// Has a seat's thread allocate from a region, by the short way if there is one.
///
/// # Safety
///
/// The seat is the calling thread's, and it is not in the midst of an operation on the short way.
pub unsafe fn seat_in(seat: &Seat, number: usize, index: usize) {
    seat.region.store(index as u8, Relaxed);
    let region = known(index).filter(|_| kind().has_slots && !is_counting());
    // SAFETY: the caller's promise.
    let short = unsafe { seat.short() };
    match region {
        Some(region) => {
            // SAFETY: the region has arenas, and the number is the thread's as long as the seat is.
            short.slot = MaybeUninit::new(unsafe { kinds::arena_slot(region.heap, number) });
            short.start = region.start;
            short.span_bytes = region.end - region.start;
            short.below_bytes = direct::from_bytes();
        }
        None => {
            short.below_bytes = 0;
            short.span_bytes = 0;
        }
    }
}

/// Bytes of a page.
#[must_use]
pub fn page_bytes() -> usize {
    // SAFETY: asks a number only.
    unsafe { system::sysconf(system::PAGE_SIZE) as usize }
}

/// A pointer to an address in a region or a direct block.
#[must_use]
pub fn pointer(address: usize) -> Option<NonNull<u8>> {
    NonNull::new(core::ptr::with_exposed_provenance_mut(address))
}

/// The seats, for who looks at them from here.
pub use who::most_seated;
