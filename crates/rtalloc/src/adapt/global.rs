//! A shared heap as the global allocator.
//!
//! Everything is constant until the first use: a static with the memory, and a static with the heap to be made. The
//! first caller makes the heap; concurrent callers wait for it. If a caller must not wait, because an interrupt handler
//! or a task of a higher priority may be the first, call [`Global::init`] before those run.
//!
//! # Figures
//!
//! Of pooled arenas as the global allocator. The bound of an allocation is that of all 17 attempts, each with a search
//! of the pool.
//!
//! <!-- figures: pooled-arenas-global -->
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
//! | `pooled-arenas-global` | 502, or 6069 + 3247 per reclaimed block + 663 per word (linear from 128 iterations), 8547 + 3247 per reclaimed block + 663 per word (linear from 128 iterations), 128 | 4 B | 16 B | 2,048 B, 4,096 B | 13.3 %, 21.7 % |
//!
//! Measured 2026-11-29 at fe84c70 by `cargo test -p rtalloc-cli --test command figures`.
//! <!-- end of figures -->

use super::current::CurrentSlot;
use super::joint::{Operations, take_all};
use crate::concurrent::atomics::{Atomics, Native, Shared};
use crate::contract::{AllocError, InitError, MisuseKind, SharedAllocator, SharedError};
use crate::hook::report;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What has become of something that is made once.
struct State<A: Atomics = Native>(Shared<u32, A>);

impl<A: Atomics> State<A> {
    const fn new() -> Self {
        State(Shared::new(FRESH))
    }

    /// Changes it from `FRESH` to another state. False if another caller has done so.
    fn begin(&self, state: u32) -> bool {
        #[cfg(target_has_atomic = "ptr")]
        {
            self.0.compare_exchange(FRESH, state, Relaxed).is_ok()
        }
        // A processor with one core, whose interrupts wait meanwhile.
        #[cfg(not(target_has_atomic = "ptr"))]
        critical_section::with(|_| {
            let is_fresh = self.0.load(Relaxed) == FRESH;
            if is_fresh {
                self.0.store(state, Relaxed);
            }
            is_fresh
        })
    }
}

/// Memory for a heap in a static, which takes no space in the program's file.
///
/// ```
/// use rtalloc::adapt::Memory;
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// static MEMORY: Memory<4096> = Memory::new();
/// let mut heap: Tlsf<'static> = Tlsf::new(MEMORY.take().expect("the memory is not taken"), Default::default())?;
/// # heap.allocate_bytes(100, 1).expect("a fresh heap");
/// # Ok::<(), rtalloc::contract::InitError>(())
/// ```
#[repr(C, align(128))]
pub struct Memory<const BYTES: usize> {
    bytes: UnsafeCell<[MaybeUninit<u8>; BYTES]>,
    /// `READY` once the bytes are taken.
    taken: State,
}

// SAFETY: the bytes are handed out once.
unsafe impl<const BYTES: usize> Sync for Memory<BYTES> {}

impl<const BYTES: usize> Memory<BYTES> {
    /// Memory that is not taken.
    pub const fn new() -> Self {
        // Zeros: uninitialised bytes may be stored in the file nevertheless.
        Memory { bytes: UnsafeCell::new([MaybeUninit::new(0); BYTES]), taken: State::new() }
    }

    /// The bytes, for the first caller.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn take(&'static self) -> Option<&'static mut [MaybeUninit<u8>]> {
        self.source().take()
    }

    #[inline(always)]
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
    taken: &'static State,
}

impl Source {
    fn take(self) -> Option<&'static mut [MaybeUninit<u8>]> {
        // SAFETY: the bytes are a static's, and are handed out once.
        self.taken.begin(READY).then(|| unsafe { core::slice::from_raw_parts_mut(self.start, self.len_bytes) })
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

/// The shared heap `H` in a static's memory, as the global allocator or as one of several; `C` gives the caller's slot.
/// `A` accesses the word that records whether the heap is made; only a test with a model checker needs another.
///
/// A request is one operation of the caller's slot, as of [`Joint`](super::Joint), with its bound
/// ([`max_steps`](SharedAllocator::max_steps)). One that is refused as contended is repeated up to 16 times. A
/// request may be refused while blocks that others freed wait to be taken back ([`SharedError::Pending`]): each request
/// takes back some, and [`reclaim`](Self::reclaim) more in idle time.
///
/// Its bound in instructions is proved from the machine code of `alloc` and `dealloc` on
/// [`PooledArenas`](crate::concurrent::PooledArenas): `rtalloc bound pooled-arenas-global --static` prints that of all
/// 17 attempts, and that of a call that needs one. Both cover calls once the heap is made ([`init`](Self::init)), with a
/// [`CurrentSlot`] that reads a thread-local variable; a longer one adds its instructions to each attempt.
/// [`Numbered`](super::Numbered) has no such bound: it calls a function by a pointer.
///
/// With `ThreadSlots` no request is refused as pending, since most programs end when their global allocator refuses. A
/// request that the caller's slot cannot serve takes back all that waits there, and is then tried in unused slots,
/// after waiting for a lock. So where a slot runs out of memory there is no bound.
///
/// Where slots are exclusive, a caller whose number is not less than the heap's slots gets null pointers, and what it
/// frees stays allocated, without a report.
///
/// Where slots own memory, blocks that others freed wait until their owner allocates or calls
/// [`reclaim`](Self::reclaim): so a thread that seldom allocates should call it when idle. After a thread has ended,
/// the next thread takes its slot and those blocks.
///
/// ```standalone_crate
/// # #[cfg(feature = "std")] {
/// use rtalloc::Tlsf;
/// use rtalloc::adapt::{AnySlot, Global, Locked, Memory, BackoffLock};
///
/// static MEMORY: Memory<{ 1 << 20 }> = Memory::new();
///
/// #[global_allocator]
/// static HEAP: Global<Locked<'static, Tlsf<'static>, BackoffLock>, AnySlot> = Global::new(&MEMORY, AnySlot);
///
/// let words: Vec<String> = "all of this is in MEMORY".split(' ').map(String::from).collect();
/// assert_eq!(words.len(), 6);
/// assert!(HEAP.heap().is_some());
/// # }
/// ```
pub struct Global<H: SharedAllocator<'static>, C, A: Atomics = Native> {
    /// `None`: the memory comes with [`init_in`](Self::init_in).
    source: Option<Source>,
    /// `None` means the default.
    config: Option<H::Config>,
    current: C,
    /// `FRESH` -> `MAKING` -> `READY` or `REFUSED`.
    state: State<A>,
    /// Written by the caller that set the state to `MAKING`; not before, and not after it is `READY`.
    heap: UnsafeCell<MaybeUninit<H>>,
    /// The same, until the state is `REFUSED`.
    error: UnsafeCell<InitError>,
}

// SAFETY: heap and error are written by one thread before the state changes, and only read from then on;
// `Config: Send + Sync` because any thread may make the heap from the configuration.
unsafe impl<H: SharedAllocator<'static, Config: Send + Sync>, C: CurrentSlot, A: Atomics> Sync for Global<H, C, A> {}
// SAFETY: no part of it is bound to a thread.
unsafe impl<H: SharedAllocator<'static, Config: Send + Sync>, C: CurrentSlot, A: Atomics> Send for Global<H, C, A> {}

impl<H: SharedAllocator<'static>, C: CurrentSlot> Global<H, C> {
    /// A heap to be made with its default configuration.
    pub const fn new<const BYTES: usize>(memory: &'static Memory<BYTES>, current: C) -> Self {
        Self::made(Some(memory.source()), current, None)
    }

    /// A heap to be made with a configuration.
    pub const fn configured<const BYTES: usize>(memory: &'static Memory<BYTES>, current: C, config: H::Config) -> Self {
        Self::made(Some(memory.source()), current, Some(config))
    }

    /// A heap in memory that the program finds when it runs, such as what a linker script leaves or a kernel gives.
    /// Until [`init_in`](Self::init_in), requests are refused.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use core::mem::MaybeUninit;
    /// use rtalloc::adapt::{AnySlot, BackoffLock, Global, Locked};
    /// use rtalloc::Tlsf;
    ///
    /// type Heap = Locked<'static, Tlsf<'static>, BackoffLock>;
    /// static HEAP: Global<Heap, AnySlot> = Global::without_memory(AnySlot, None);
    ///
    /// assert!(HEAP.allocate_bytes(100, 8).is_err());
    /// HEAP.init_in(vec![MaybeUninit::uninit(); 1 << 16].leak())?;
    /// HEAP.allocate_bytes(100, 8).expect("a fresh heap");
    /// # }
    /// # Ok::<(), rtalloc::contract::InitError>(())
    /// ```
    pub const fn without_memory(current: C, config: Option<H::Config>) -> Self {
        Self::without_memory_by(current, config)
    }
}

impl<H: SharedAllocator<'static>, C: CurrentSlot, A: Atomics> Global<H, C, A> {
    /// The same, with the state of its heap accessed by `A`.
    #[doc(hidden)]
    pub const fn without_memory_by(current: C, config: Option<H::Config>) -> Self {
        Self::made(None, current, config)
    }

    const fn made(source: Option<Source>, current: C, config: Option<H::Config>) -> Self {
        Global {
            source,
            config,
            current,
            state: State::new(),
            heap: UnsafeCell::new(MaybeUninit::uninit()),
            error: UnsafeCell::new(NO_MEMORY),
        }
    }

    /// Makes the heap now, if it is not made yet.
    ///
    /// # Errors
    ///
    /// Why it cannot be made: as [`SharedAllocator::new`], and if the memory was taken. Every request is then refused.
    ///
    /// # Time
    ///
    /// That of the heap's initialisation, or of the rest of it if another thread is making it.
    pub fn init(&self) -> Result<&H, InitError> {
        match self.heap() {
            Some(heap) => Ok(heap),
            // SAFETY: it is not written again once the heap is refused. Acquire: it was written before.
            None if self.state.0.load(Acquire) == REFUSED => Err(unsafe { *self.error.get() }),
            None => Err(NO_MEMORY),
        }
    }

    /// Makes the heap of [`without_memory`](Self::without_memory) in a region.
    ///
    /// # Errors
    ///
    /// As [`init`](Self::init), and if there is a heap already, or memory in a static for one. The region is lost.
    ///
    /// # Time
    ///
    /// That of the heap's initialisation.
    pub fn init_in(&self, region: &'static mut [MaybeUninit<u8>]) -> Result<&H, InitError> {
        if self.source.is_some() || !self.state.begin(MAKING) {
            return Err(NO_MEMORY);
        }
        self.finish(self.make(region));
        self.init()
    }

    /// The heap, which is made now if it is not made yet; `None` if it cannot be.
    ///
    /// # Time
    ///
    /// Constant, once it is made.
    #[inline(always)]
    pub fn heap(&self) -> Option<&H> {
        match self.made_heap() {
            // SAFETY: the heap is made.
            None if self.begin() => Some(unsafe { self.assume_made() }),
            heap => heap,
        }
    }

    /// The heap, if it is made already. A free needs no other: before that, no block is live.
    #[inline(always)]
    fn made_heap(&self) -> Option<&H> {
        // Acquire: making the heap comes before its use.
        // SAFETY: the heap is made.
        (self.state.0.load(Acquire) == READY).then(|| unsafe { self.assume_made() })
    }

    /// The heap.
    ///
    /// # Safety
    ///
    /// It is made, and that comes before this.
    #[inline(always)]
    unsafe fn assume_made(&self) -> &H {
        // SAFETY: as the caller guarantees; it is not written again.
        unsafe { (*self.heap.get()).assume_init_ref() }
    }

    /// Allocates `size_bytes` bytes at a multiple of `align_bytes`, for callers that need the reason of a refusal;
    /// every value of both is legal.
    ///
    /// # Errors
    ///
    /// [`SharedError`]; [`SharedError::Contended`] also if the caller has no slot, and [`AllocError::TooLarge`] if
    /// there is no heap: [`init`](Self::init) returns why.
    ///
    /// # Time
    ///
    /// As [`Joint::allocate_bytes`](super::Joint::allocate_bytes), once the heap is made.
    #[inline]
    pub fn allocate_bytes(&self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        match self.operations() {
            Some(operations) => operations.allocate(size_bytes, align_bytes),
            None => Err(SharedError::Request(AllocError::TooLarge)),
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`](crate::contract::Slot::deallocate).
    ///
    /// # Time
    ///
    /// As [`Slot::deallocate`](crate::contract::Slot::deallocate).
    #[inline(always)]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        match self.made_heap() {
            // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
            Some(heap) => unsafe { self.operations_on(heap).deallocate(block) },
            None => Self::report_foreign(block),
        }
    }

    /// Reports a block that was freed before there was any.
    #[cold]
    #[inline(never)]
    fn report_foreign(block: NonNull<u8>) {
        report(H::CONTRACT.single_user.name, MisuseKind::ForeignPointer, block.addr().get());
    }

    /// Takes back at most `budget` blocks of the caller's slot that others freed, and returns how many, as
    /// [`Slot::reclaim`](crate::contract::Slot::reclaim): for idle time. 0 before the first use, and without a slot.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    pub fn reclaim(&self, budget: usize) -> usize {
        self.made_heap().map_or(0, |heap| self.operations_on(heap).reclaim(budget))
    }

    /// The source of slots.
    pub fn current(&self) -> &C {
        &self.current
    }

    /// Makes the heap, or waits until another caller has; returns whether there is one.
    #[cold]
    #[inline(never)]
    fn begin(&self) -> bool {
        if let Some(source) = self.source
            && self.state.begin(MAKING)
        {
            self.finish(source.take().ok_or(NO_MEMORY).and_then(|memory| self.make(memory)));
        }
        // Loop bound: none; another thread makes the heap.
        loop {
            // Acquire: as in `heap`.
            match self.state.0.load(Acquire) {
                READY => return true,
                MAKING => wait(),
                _ => return false,
            }
        }
    }

    /// Ends what [`State::begin`] with `MAKING` has begun.
    fn finish(&self, made: Result<H, InitError>) {
        let state = if made.is_ok() { READY } else { REFUSED };
        // SAFETY: this thread alone set the state to `MAKING`, and no other thread reads either until it changes.
        unsafe {
            match made {
                Ok(heap) => drop((*self.heap.get()).write(heap)),
                Err(error) => *self.error.get() = error,
            }
        }
        // Release: both writes come before other threads' reads.
        self.state.0.store(state, Release);
    }

    fn make(&self, memory: &'static mut [MaybeUninit<u8>]) -> Result<H, InitError> {
        let heap = H::new(memory, self.config.unwrap_or_default())?;
        // The heap is not shared yet, so every slot can be taken; `current` distinguishes callers from now on.
        if take_all(&heap) { Ok(heap) } else { Err(NO_MEMORY) }
    }

    /// The operations, if there is a heap.
    #[inline(always)]
    pub(super) fn operations(&self) -> Option<Operations<'_, 'static, H, C>> {
        self.heap().map(|heap| self.operations_on(heap))
    }

    /// The operations on the heap.
    #[inline(always)]
    fn operations_on<'h>(&'h self, heap: &'h H) -> Operations<'h, 'static, H, C> {
        Operations { heap, current: &self.current, region: PhantomData }
    }
}

/// The memory belongs to another heap, or there is none.
const NO_MEMORY: InitError = InitError::Configuration { what: "memory that no other heap has" };

/// Lets other threads run while one of them makes the heap.
fn wait() {
    #[cfg(feature = "std")]
    std::thread::yield_now();
    #[cfg(not(feature = "std"))]
    core::hint::spin_loop();
}

// SAFETY: blocks are a shared heap's, which fulfils the contract; nothing here unwinds.
unsafe impl<H: SharedAllocator<'static>, C: CurrentSlot, A: Atomics> GlobalAlloc for Global<H, C, A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let answer = self.operations().map(|operations| operations.allocate(layout.size(), layout.align()));
        raw(answer.and_then(Result::ok))
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller guarantees that the block was allocated here, so it is not null, and is no longer used.
        unsafe { self.deallocate(NonNull::new_unchecked(block)) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        let (Some(operations), Some(block)) = (self.operations(), NonNull::new(block)) else {
            return core::ptr::null_mut();
        };
        // SAFETY: the caller guarantees that the block was allocated here with `layout`.
        raw(unsafe { operations.reallocate(block, layout.size(), size_bytes, layout.align()) }.ok())
    }
}

/// A block, or null.
#[inline(always)]
fn raw(block: Option<NonNull<u8>>) -> *mut u8 {
    block.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

impl<H: SharedAllocator<'static>, C: CurrentSlot + fmt::Debug, A: Atomics> fmt::Debug for Global<H, C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Global")
            .field("memory", &self.source.map(|source| (source.start, source.len_bytes)))
            .field("current", &self.current)
            .field("refusals", &self.made_heap().map(H::refusals))
            .finish()
    }
}
