//! A shared heap as the global allocator.
//!
//! Everything is constant until the first use: a static with the memory, a static with the heap-to-be. Whoever allocates
//! first makes the heap; others who come meanwhile wait for it. Where nobody can wait, because an interrupt handler may be first,
//! or a task of a higher priority, call [`Global::init`] before those run.

use super::current::CurrentSlot;
use super::joint::{Verbs, take_all};
use crate::concurrent::atomics::Shared;
use crate::contract::{AllocError, InitError, SharedAllocator, SharedError};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Memory for a heap in a static, where it takes no room in the program's file.
///
/// ```
/// use rtalloc::adapt::Memory;
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// static MEMORY: Memory<4096> = Memory::new();
/// let mut heap: Tlsf<'static> = Tlsf::new(MEMORY.take().expect("nobody took it"), Default::default())?;
/// # heap.allocate_bytes(100, 1).expect("a fresh heap");
/// # Ok::<(), rtalloc::contract::InitError>(())
/// ```
#[repr(C, align(128))]
pub struct Memory<const BYTES: usize> {
    bytes: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
    /// 1 once somebody has the bytes.
    taken: Shared<u32>,
}

// SAFETY: one user alone gets the bytes.
unsafe impl<const BYTES: usize> Sync for Memory<BYTES> {}

impl<const BYTES: usize> Memory<BYTES> {
    /// Memory that nobody has.
    pub const fn new() -> Self {
        // Zeros: what is not initialised may be stored in the file nevertheless.
        Memory { bytes: UnsafeCell::new([MaybeUninit::new(0); BYTES]), taken: Shared::new(0) }
    }

    /// The bytes, for who asks first.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn take(&'static self) -> Option<&'static mut [MaybeUninit<u8>]> {
        self.source().take()
    }

    const fn source(&'static self) -> Source {
        Source { start: self.bytes.get().cast(), len_bytes: BYTES, taken: &self.taken }
    }
}

impl<const BYTES: usize> Default for Memory<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const BYTES: usize> fmt::Debug for Memory<BYTES> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{BYTES} bytes at {:p}", self.bytes.get())
    }
}

/// Memory of any length.
#[derive(Clone, Copy)]
struct Source {
    start: *mut MaybeUninit<u8>,
    len_bytes: usize,
    taken: &'static Shared<u32>,
}

impl Source {
    fn take(self) -> Option<&'static mut [MaybeUninit<u8>]> {
        let is_first = self.taken.swap(1, Relaxed) == 0;
        // SAFETY: the bytes are a static's, and nobody else gets them.
        is_first.then(|| unsafe { core::slice::from_raw_parts_mut(self.start, self.len_bytes) })
    }
}

/// The heap is not made yet,
const FRESH: u32 = 0;
/// is being made,
const MAKING: u32 = 1;
/// is there,
const READY: u32 = 2;
/// or cannot be made.
const REFUSED: u32 = 3;

/// The shared heap `H` in a static's memory, as the global allocator of a program or as one of several; `C` tells whose
/// slot an operation is.
///
/// Refusals that only say *try again* are tried again here, and with `ThreadSlots` memory that the caller's slot has not got is asked
/// of slots that nobody uses: a global allocator that refuses ends the program. What is larger than any slot's share is
/// refused all the same. With [`Numbered`](super::Numbered) nobody else is asked.
///
/// A caller without a slot, who has a number that the heap has no slot for, is refused (a null pointer), and what he frees stays
/// allocated for ever, which nothing reports.
///
/// Where slots own memory, blocks that others freed wait until their owner allocates or calls [`reclaim`](Self::reclaim): so a
/// thread that seldom allocates does that when it is idle. A thread that has ended is no owner: the next thread takes its slot and what waits.
///
/// ```standalone_crate
/// # #[cfg(feature = "std")] {
/// use rtalloc::Tlsf;
/// use rtalloc::adapt::{Anyone, Global, Locked, Memory, Patient};
///
/// static MEMORY: Memory<{ 1 << 20 }> = Memory::new();
///
/// #[global_allocator]
/// static HEAP: Global<Locked<'static, Tlsf<'static>, Patient>, Anyone> = Global::new(&MEMORY, Anyone);
///
/// let words: Vec<String> = "all of this is in MEMORY".split(' ').map(String::from).collect();
/// assert_eq!(words.len(), 6);
/// assert!(HEAP.heap().is_some());
/// # }
/// ```
pub struct Global<H: SharedAllocator<'static>, C> {
    source: Source,
    /// `None`: the default.
    config: Option<H::Config>,
    current: C,
    /// `FRESH` -> `MAKING` -> `READY` or `REFUSED`.
    state: Shared<u32>,
    /// Written by who made the state `MAKING`; not before, and not after it is `READY`.
    heap: UnsafeCell<MaybeUninit<H>>,
    /// The same, until the state is `REFUSED`.
    error: UnsafeCell<InitError>,
}

// SAFETY: heap and error are written by one thread before the state says so, and only read from then on; whichever thread makes the
// heap copies the configuration.
unsafe impl<H: SharedAllocator<'static, Config: Send + Sync>, C: CurrentSlot> Sync for Global<H, C> {}
// SAFETY: nothing of it is tied to a thread.
unsafe impl<H: SharedAllocator<'static, Config: Send + Sync>, C: CurrentSlot> Send for Global<H, C> {}

impl<H: SharedAllocator<'static>, C: CurrentSlot> Global<H, C> {
    /// A heap-to-be with its default configuration.
    pub const fn new<const BYTES: usize>(memory: &'static Memory<BYTES>, current: C) -> Self {
        Self::made(memory.source(), current, None)
    }

    /// A heap-to-be.
    pub const fn configured<const BYTES: usize>(memory: &'static Memory<BYTES>, current: C, config: H::Config) -> Self {
        Self::made(memory.source(), current, Some(config))
    }

    const fn made(source: Source, current: C, config: Option<H::Config>) -> Self {
        Global {
            source,
            config,
            current,
            state: Shared::new(FRESH),
            heap: UnsafeCell::new(MaybeUninit::uninit()),
            error: UnsafeCell::new(NO_MEMORY),
        }
    }

    /// Makes the heap now, if it is not made yet.
    ///
    /// # Errors
    ///
    /// Why it cannot be made: as [`SharedAllocator::new`], and if somebody took the memory. Every request is then refused.
    ///
    /// # Time
    ///
    /// The heap's initialisation, or the rest of it that another thread is at.
    pub fn init(&self) -> Result<&H, InitError> {
        match self.heap() {
            Some(heap) => Ok(heap),
            // SAFETY: nobody writes it once the heap is refused.
            None => Err(unsafe { *self.error.get() }),
        }
    }

    /// The heap, which is made now if it is not made yet; `None` if it cannot be.
    ///
    /// # Time
    ///
    /// Constant, once it is made.
    #[inline(always)]
    pub fn heap(&self) -> Option<&H> {
        // Acquire: that the heap was made comes before its use.
        if self.state.load(Acquire) == READY || self.begin() {
            // SAFETY: made, and nobody writes it any more.
            Some(unsafe { (*self.heap.get()).assume_init_ref() })
        } else {
            None
        }
    }

    /// Allocates `size_bytes` bytes at a multiple of `align_bytes`, for who wants to know why a request is refused; every value of both
    /// is legal and answered.
    ///
    /// # Errors
    ///
    /// [`SharedError`]; [`SharedError::Contended`] too if the caller has no slot, and [`AllocError::TooLarge`] if there is no heap:
    /// [`init`](Self::init) tells why.
    ///
    /// # Time
    ///
    /// As [`Joint::allocate_bytes`](super::Joint::allocate_bytes), once the heap is made.
    #[inline]
    pub fn allocate_bytes(&self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        match self.verbs() {
            Some(verbs) => verbs.allocate(size_bytes, align_bytes),
            None => Err(SharedError::Request(AllocError::TooLarge)),
        }
    }

    /// Gives a block back.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`](crate::contract::Slot::deallocate).
    ///
    /// # Time
    ///
    /// As [`Slot::deallocate`](crate::contract::Slot::deallocate).
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        if let Some(verbs) = self.verbs() {
            // SAFETY: the caller's promise.
            unsafe { verbs.deallocate(block) }
        }
    }

    /// Takes back at most `budget` blocks of the caller's slot that others freed, and says how many it took, as
    /// [`Slot::reclaim`](crate::contract::Slot::reclaim): for idle time. 0 before the first use, and for a caller without a slot.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    pub fn reclaim(&self, budget: usize) -> usize {
        // Acquire: as in `heap`.
        if self.state.load(Acquire) != READY {
            return 0;
        }
        self.verbs().map_or(0, |verbs| verbs.reclaim(budget))
    }

    /// Who tells slots.
    pub fn current(&self) -> &C {
        &self.current
    }

    /// Makes the heap, or waits for who does; says whether there is one.
    #[cold]
    #[inline(never)]
    fn begin(&self) -> bool {
        if self.state.compare_exchange(FRESH, MAKING, Relaxed).is_ok() {
            let made = self.make();
            let state = if made.is_ok() { READY } else { REFUSED };
            // SAFETY: this thread alone made the state `MAKING`, and until it changes nobody reads either.
            unsafe {
                match made {
                    Ok(heap) => drop((*self.heap.get()).write(heap)),
                    Err(error) => *self.error.get() = error,
                }
            }
            // Release: both come before whatever others read.
            self.state.store(state, Release);
        }
        // turns: until the heap is made
        loop {
            // Acquire: as in `heap`.
            match self.state.load(Acquire) {
                READY => return true,
                REFUSED => return false,
                _ => wait(),
            }
        }
    }

    fn make(&self) -> Result<H, InitError> {
        let memory = self.source.take().ok_or(NO_MEMORY)?;
        let heap = H::new(memory, self.config.unwrap_or_default())?;
        // Nobody else knows the heap yet, so that every slot can be taken; `current` tells them apart from now on.
        if take_all(&heap) { Ok(heap) } else { Err(NO_MEMORY) }
    }

    /// The operations, if there is a heap.
    #[inline(always)]
    pub(super) fn verbs(&self) -> Option<Verbs<'_, 'static, H, C>> {
        Some(Verbs { heap: self.heap()?, current: &self.current, region: PhantomData })
    }
}

/// Another heap has the memory.
const NO_MEMORY: InitError = InitError::Configuration { what: "memory that no other heap has" };

/// Lets others run while one of them makes the heap.
fn wait() {
    #[cfg(feature = "std")]
    std::thread::yield_now();
    #[cfg(not(feature = "std"))]
    core::hint::spin_loop();
}

// SAFETY: blocks are a shared heap's, which keeps the contract; nothing here unwinds.
unsafe impl<H: SharedAllocator<'static>, C: CurrentSlot> GlobalAlloc for Global<H, C> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let answer = self.verbs().map(|verbs| verbs.allocate(layout.size(), layout.align()));
        raw(answer.and_then(Result::ok))
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        if let (Some(verbs), Some(block)) = (self.verbs(), NonNull::new(block)) {
            // SAFETY: the caller's promise.
            unsafe { verbs.deallocate(block) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        let (Some(verbs), Some(block)) = (self.verbs(), NonNull::new(block)) else {
            return core::ptr::null_mut();
        };
        // SAFETY: the caller's promise.
        raw(unsafe { verbs.reallocate(block, layout.size(), size_bytes, layout.align()) }.ok())
    }
}

/// A block, or null.
#[inline(always)]
fn raw(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

impl<H: SharedAllocator<'static>, C: CurrentSlot + fmt::Debug> fmt::Debug for Global<H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heap = if self.state.load(Acquire) == READY { self.heap() } else { None };
        f.debug_struct("Global")
            .field("memory", &(self.source.start, self.source.len_bytes))
            .field("current", &self.current)
            .field("refusals", &heap.map(H::refusals))
            .finish()
    }
}
