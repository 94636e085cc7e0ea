//! The library's only mutable static.
//!
//! Modules below this one define its parts and never name [`STATE`]; modules above it do. Every part starts as zeros,
//! so that the static, of five megabytes of which most are never touched, is in `.bss`.

use crate::counters::Counters;
use crate::lock::Lock;
use crate::output::StderrCopy;
use crate::region_table::RegionTable;
use crate::settings::Settings;
use crate::threads::Threads;
use core::cell::UnsafeCell;
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize};
use rtalloc_sys::thread;

/// The state of the library.
pub static STATE: State = State::new();

/// What all threads share. Fields are independent unless their comments say otherwise.
pub struct State {
    /// [`UNTOUCHED`], [`READY`], or the [`thread::identity`] of the thread that sets up the library.
    setup: AtomicUsize,
    /// Written once, by the thread that sets up the library, before [`Self::settings_ready`] points to it.
    settings: UnsafeCell<MaybeUninit<Settings>>,
    /// Null, or the address of `settings`; set once.
    settings_ready: AtomicPtr<Settings>,
    /// Slots of every region, minus one. Set once, during setup.
    last_slot: AtomicUsize,
    /// The environment as the library's constructor receives it; null before.
    pub environment: AtomicPtr<*const c_char>,
    /// Thread states and pauses.
    pub threads: Threads,
    /// Regions, and owners of addresses.
    pub regions: RegionTable,
    /// Index of the region that the shared slot allocates from first.
    pub shared_slot_region: AtomicU8,
    /// The word of the pools of arenas that is looked at next for pages that may go back, modulo their number.
    pub next_pool_word: AtomicUsize,
    /// Locked while pages of free memory in a pool of arenas go back: no request finds that memory meanwhile.
    pub pool_visits: Lock,
    /// Locked during every operation of a sequential heap, whatever its region.
    pub heap_lock: Lock,
    /// Blocks that are mappings of their own.
    pub direct: DirectBlocks,
    /// The flight recorder's file.
    pub ring: RingFile,
    /// Counters for the report.
    pub counters: Counters,
    /// The duplicate of standard error.
    pub stderr: StderrCopy,
    /// The key whose destructor runs when a thread ends, plus one; 0 before it is created.
    pub thread_end_key: AtomicUsize,
    /// Whether the current fork holds the lock of the C library's list of streams. Written under that lock.
    pub streams_locked: AtomicBool,
}

// SAFETY: `settings` is written once, by the one thread whose identity is in `setup`, before `settings_ready` publishes
// it with release and acquire; afterwards it is only read. All other fields are `Sync`.
unsafe impl Sync for State {}

/// Blocks that are mappings of their own.
pub struct DirectBlocks {
    /// Bytes mapped.
    pub mapped_bytes: AtomicUsize,
    /// Maximum of `mapped_bytes`.
    pub peak_bytes: AtomicUsize,
    /// Number of blocks.
    pub count: AtomicUsize,
    /// Smallest size of a direct block as set by `mallopt`; 0 if the setting applies.
    pub from_bytes: AtomicUsize,
}

/// The flight recorder's file: its pages are the first ones of the first region.
pub struct RingFile {
    /// Address of the pages in the region; 0 if there is no file. Set last.
    pub start: AtomicUsize,
    /// Address of the second mapping of the file.
    pub second: AtomicUsize,
    /// Bytes of each mapping; 0 in a forked child, whose pages are its own.
    pub len: AtomicUsize,
    /// During a fork: whether the pages in the region are a private copy.
    pub is_copied: AtomicBool,
}

/// Value of [`State::setup`]: no allocation yet.
const UNTOUCHED: usize = 0;
/// Value of [`State::setup`]: set up.
const READY: usize = 1;

/// Progress of the library's setup, for the calling thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// Finished.
    Ready,
    /// Just claimed by the calling thread, which must do it.
    Claimed,
    /// The calling thread is inside it.
    Mine,
    /// Another thread does it.
    Another,
}

impl State {
    const fn new() -> Self {
        State {
            setup: AtomicUsize::new(UNTOUCHED),
            settings: UnsafeCell::new(MaybeUninit::zeroed()),
            settings_ready: AtomicPtr::new(core::ptr::null_mut()),
            last_slot: AtomicUsize::new(0),
            environment: AtomicPtr::new(core::ptr::null_mut()),
            threads: Threads::new(),
            regions: RegionTable::new(),
            shared_slot_region: AtomicU8::new(0),
            next_pool_word: AtomicUsize::new(0),
            pool_visits: Lock::new(),
            heap_lock: Lock::new(),
            direct: DirectBlocks {
                mapped_bytes: AtomicUsize::new(0),
                peak_bytes: AtomicUsize::new(0),
                count: AtomicUsize::new(0),
                from_bytes: AtomicUsize::new(0),
            },
            ring: RingFile {
                start: AtomicUsize::new(0),
                second: AtomicUsize::new(0),
                len: AtomicUsize::new(0),
                is_copied: AtomicBool::new(false),
            },
            counters: Counters::new(),
            stderr: StderrCopy::new(),
            thread_end_key: AtomicUsize::new(0),
            streams_locked: AtomicBool::new(false),
        }
    }

    /// The settings; the defaults before they are read.
    pub fn settings(&self) -> &Settings {
        // SAFETY: null, or the address of `settings`, which was initialised before and does not change any more.
        unsafe { self.settings_ready.load(Acquire).as_ref() }.unwrap_or(&Settings::DEFAULT)
    }

    /// Slots of every region.
    pub fn slots(&self) -> usize {
        self.last_slot() + 1
    }

    /// The slot that threads share.
    pub fn last_slot(&self) -> usize {
        self.last_slot.load(Relaxed)
    }

    /// Whether the library is set up.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.setup.load(Acquire) == READY
    }

    /// Claims the setup for the calling thread, if no thread has.
    pub fn claim_setup(&self) -> Setup {
        let me = thread::identity();
        match self.setup.compare_exchange(UNTOUCHED, me, Acquire, Acquire) {
            Ok(_) => Setup::Claimed,
            Err(READY) => Setup::Ready,
            Err(other) if other == me => Setup::Mine,
            Err(_) => Setup::Another,
        }
    }

    /// Publishes the settings and the number of slots.
    ///
    /// # Safety
    ///
    /// The calling thread has claimed the setup and calls this once.
    pub unsafe fn set_settings(&self, settings: Settings, slots: usize) {
        let place = self.settings.get().cast::<Settings>();
        // SAFETY: only the thread that claimed the setup gets here, once, and `settings_ready` is still null: no
        // reference exists.
        unsafe { place.write(settings) };
        self.last_slot.store(slots - 1, Relaxed);
        self.settings_ready.store(place, Release);
    }

    /// Whether the calling thread is inside an operation that owns a lock.
    pub fn owns_lock(&self) -> bool {
        [&self.heap_lock, &self.regions.growth, &self.pool_visits].iter().any(|lock| lock.is_mine())
    }

    /// Ends the setup.
    pub fn set_ready(&self) {
        self.setup.store(READY, Release);
    }
}
