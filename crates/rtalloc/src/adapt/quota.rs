//! A heap shared by several components of a program, each limited to its quota.
//!
//! # Idea
//!
//! The program sets which component is current ([`Quota::enter`]), and when a period begins ([`Quota::begin_period`],
//! [`Quota::tick`]). Each component has limits ([`QuotaLimits`]): live bytes, operations in a period, bytes allocated
//! in a period. A request that would exceed one is refused with [`AllocError::Quota`], without asking the inner heap.
//!
//! ```text
//! region: [limits and use of each component] [the region of the inner heap ...]
//!
//! block:  [record: size, owner, seal] payload
//! ```
//!
//! | | charged to |
//! |---|---|
//! | live bytes | the component that allocated the block, its *owner*, until any component frees it; resizing does not change the owner |
//! | operations: each allocate, deallocate and reallocate passed to the inner heap, whether refused by it or not | the current component |
//! | bytes of a period: those of an allocation, and those by which a block grows | the current component |
//!
//! Bytes are requested bytes. A deallocate is counted and never refused, so a component may exceed its operations; it
//! can then allocate nothing until the next period.
//!
//! This bounds how much of the others' time a component uses: with an allocator of constant time, a component with n
//! operations in a period takes at most n times its bound. And the live limits determine the heap's size: a heap that
//! holds the sum of all limits in the worst case ([`guarantee`](crate::compact_fit::guarantee) of Compact-fit, or a
//! formula where the allocator has one: the book, Sizing a heap) never refuses a component within its quota.
//!
//! # Costs, when it wins, when it loses
//!
//! One operation of the inner heap and a constant number of instructions: the contract has the heap's own cost classes.
//! Memory: four words before each block, and a dozen words for each component. A record with a wrong seal is reported
//! as misuse before any component is credited: a double free never credits twice. Only such a report verifies and walks
//! the heap, and it is not charged to any component.
//!
//! A block aligned beyond the heap's natural alignment moves when it grows, as its record may be anywhere before it:
//! there must be room for both.
//!
//! It trusts the program to set the current component correctly: it separates honest components, not hostile ones.

use super::frames::{Frames, Record, State};
use super::front::{Name, divide};
use crate::contract::{
    AllocError, Block, Contract, Corruption, InitError, MisuseKind, RegionAllocator, ResizeInPlace, Stats,
};
use crate::hook;
use crate::mechanism::stats::{StatsPolicy, WithStats};
use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Components of a heap by default.
pub const COMPONENTS: usize = 8;

/// Limits of a component. `usize::MAX`, the default of each, means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes live at a time.
    pub live_bytes: usize,
    /// Operations in a period.
    pub operations: usize,
    /// Bytes allocated in a period, regardless of frees.
    pub bytes: usize,
}

impl Default for QuotaLimits {
    fn default() -> Self {
        QuotaLimits { live_bytes: usize::MAX, operations: usize::MAX, bytes: usize::MAX }
    }
}

/// The use of a component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// Bytes of its live blocks.
    pub live_bytes: usize,
    /// The largest value that `live_bytes` ever had.
    pub peak_live_bytes: usize,
    /// Number of its live blocks.
    pub live_blocks: usize,
    /// Operations in this period, saturating.
    pub operations: usize,
    /// Bytes allocated in this period, saturating.
    pub bytes: usize,
    /// Requests refused because of each limit, since the heap was made: live bytes, operations, bytes.
    pub refused: [usize; 3],
}

/// The limit that a request would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaLimit {
    /// [`QuotaLimits::live_bytes`] of the block's owner.
    LiveBytes,
    /// [`QuotaLimits::operations`] of the current component.
    Operations,
    /// [`QuotaLimits::bytes`] of the current component.
    Bytes,
}

/// Configuration of a heap with quotas.
#[derive(Clone, Copy, Debug)]
pub struct QuotaConfig<C, const PARTS: usize = COMPONENTS> {
    /// The configuration of the inner heap.
    pub heap: C,
    /// The limits of each component; unlimited by default.
    pub limits: [QuotaLimits; PARTS],
    /// Length of a period, in the unit of [`Quota::tick`]; 0, the default, leaves periods to [`Quota::begin_period`].
    pub period_ticks: u64,
}

impl<C: Default, const PARTS: usize> Default for QuotaConfig<C, PARTS> {
    fn default() -> Self {
        QuotaConfig { heap: C::default(), limits: [QuotaLimits::default(); PARTS], period_ticks: 0 }
    }
}

/// A component.
#[derive(Debug)]
struct Part {
    limits: Cell<QuotaLimits>,
    used: Cell<QuotaUse>,
}

impl Part {
    /// Updates its use.
    #[inline(always)]
    fn note(&self, change: impl FnOnce(&mut QuotaUse)) {
        let mut used = self.used.get();
        change(&mut used);
        self.used.set(used);
    }

    /// Whether `more_bytes` more bytes may be live.
    ///
    /// # Errors
    ///
    /// The limit that would be exceeded.
    #[inline(always)]
    fn may_hold(&self, more_bytes: usize) -> Result<(), QuotaLimit> {
        let left_bytes = self.limits.get().live_bytes.saturating_sub(self.used.get().live_bytes);
        if more_bytes > left_bytes { Err(QuotaLimit::LiveBytes) } else { Ok(()) }
    }

    /// Operations and bytes that are left in this period.
    #[inline(always)]
    fn left(&self) -> (usize, usize) {
        // `usize::MAX` means unlimited. Without new periods, a 32-bit counter saturates within minutes.
        let left = |limit: usize, used| if limit == usize::MAX { limit } else { limit.saturating_sub(used) };
        let (limits, used) = (self.limits.get(), self.used.get());
        (left(limits.operations, used.operations), left(limits.bytes, used.bytes))
    }

    /// Whether one more operation may allocate `more_bytes` bytes in this period.
    ///
    /// # Errors
    ///
    /// The limit that would be exceeded.
    #[inline(always)]
    fn may_take(&self, more_bytes: usize) -> Result<(), QuotaLimit> {
        let (left_operations, left_bytes) = self.left();
        if left_operations == 0 {
            Err(QuotaLimit::Operations)
        } else if more_bytes > left_bytes {
            Err(QuotaLimit::Bytes)
        } else {
            Ok(())
        }
    }

    /// Counts an operation, saturating: a limit stays reached, however many frees follow.
    #[inline(always)]
    fn count(&self) {
        self.note(|used| used.operations = used.operations.saturating_add(1));
    }

    /// Updates its live bytes.
    #[inline(always)]
    fn hold(&self, old_bytes: usize, new_bytes: usize) {
        self.note(|used| {
            used.live_bytes = used.live_bytes.wrapping_sub(old_bytes).wrapping_add(new_bytes);
            used.peak_live_bytes = used.peak_live_bytes.max(used.live_bytes);
            used.live_blocks = used.live_blocks.wrapping_add(usize::from(old_bytes == 0));
            used.live_blocks = used.live_blocks.wrapping_sub(usize::from(new_bytes == 0));
        });
    }
}

/// The control structure.
#[repr(C)]
struct Control<H, const PARTS: usize> {
    heap: H,
    frames: Frames<H, 0>,
    /// The digest of `frames`.
    seal: usize,
    /// The largest payload that the fresh heap guaranteed; no alignment is larger.
    most_bytes: usize,
    /// Address of the first block's front, from which the high-water mark counts.
    origin: usize,
    counters: WithStats,
    /// The current component: less than `PARTS`.
    current: Cell<usize>,
    period_ticks: u64,
    /// When the current period began.
    begun: Cell<u64>,
    /// The last refusal: the component, and the limit.
    last_refusal: Cell<Option<(usize, QuotaLimit)>>,
    parts: [Part; PARTS],
}

/// The region allocator `H`, shared by `PARTS` components, numbered from 0; see the [module](self).
///
/// Everything besides requests takes `&self`, so that it works for a heap inside other adapters or under a lock as
/// well: `guarded.inner().enter(2)`, `locked.inspect(|heap| heap.enter(2))`. Initially component 0 is current.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::{Quota, QuotaLimits};
/// use rtalloc::contract::AllocError;
/// use rtalloc::{RegionAllocator, Tlsf};
///
/// const DISPLAY: usize = 1;
/// let mut memory = [MaybeUninit::uninit(); 8192];
/// let mut heap: Quota<Tlsf> = Quota::new(&mut memory, Default::default())?;
/// heap.set_limits(DISPLAY, QuotaLimits { live_bytes: 1000, operations: 10, ..Default::default() });
///
/// heap.enter(DISPLAY);
/// let block = heap.allocate_bytes(600, 8)?;
/// assert_eq!(heap.allocate_bytes(600, 8), Err(AllocError::Quota));
///
/// // Another component frees the block; the display is credited.
/// heap.enter(0);
/// let other = heap.allocate_bytes(600, 8)?;
/// // SAFETY: the block is live, and no longer used.
/// unsafe { heap.deallocate(block) };
/// assert_eq!(heap.used(DISPLAY).map(|used| used.live_bytes), Some(0));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[repr(transparent)]
pub struct Quota<'r, H, const PARTS: usize = COMPONENTS> {
    /// Initialised, in the region.
    control: NonNull<Control<H, PARTS>>,
    region: PhantomData<&'r mut [MaybeUninit<u8>]>,
}

// SAFETY: the control structure and the inner heap belong to this value alone, and the latter is `Send`.
unsafe impl<H: Send, const PARTS: usize> Send for Quota<'_, H, PARTS> {}

impl<'r, H: RegionAllocator<'r>, const PARTS: usize> Quota<'r, H, PARTS> {
    const JOINED: &'static Name = &Name::joined("quota-", H::CONTRACT.name);
    const NAME: &'static str = Self::JOINED.as_str();

    #[inline(always)]
    fn control(&self) -> &Control<H, PARTS> {
        // SAFETY: initialised when the heap was made; everything outside of cells changes only under `&mut self`.
        unsafe { self.control.as_ref() }
    }

    #[inline(always)]
    fn control_mut(&mut self) -> &mut Control<H, PARTS> {
        // SAFETY: initialised when the heap was made; `self` is borrowed exclusively.
        unsafe { self.control.as_mut() }
    }

    /// The inner heap, for queries.
    pub fn inner(&self) -> &H {
        &self.control().heap
    }

    /// Sets the current component, and returns the previous one. `None` if there is no such component: nothing changed.
    ///
    /// # Time
    ///
    /// Constant.
    #[inline]
    pub fn enter(&self, component: usize) -> Option<usize> {
        (component < PARTS).then(|| self.control().current.replace(component))
    }

    /// The current component.
    #[inline]
    pub fn component(&self) -> usize {
        self.control().current.get()
    }

    /// The limits of a component, if it exists.
    pub fn limits(&self, component: usize) -> Option<QuotaLimits> {
        Some(self.control().parts.get(component)?.limits.get())
    }

    /// Sets the limits of a component; false if it does not exist. A component beyond a new limit keeps what it has.
    pub fn set_limits(&self, component: usize, limits: QuotaLimits) -> bool {
        let part = self.control().parts.get(component);
        part.map(|part| part.limits.set(limits)).is_some()
    }

    /// The use of a component, if it exists.
    pub fn used(&self, component: usize) -> Option<QuotaUse> {
        Some(self.control().parts.get(component)?.used.get())
    }

    /// The component whose request was last refused because of a limit, and the limit; `None` if there was none.
    pub fn last_refusal(&self) -> Option<(usize, QuotaLimit)> {
        self.control().last_refusal.get()
    }

    /// The component that allocated a block. `None` if the block is no longer live.
    ///
    /// # Safety
    ///
    /// `block` was returned by this heap. If it is no longer live, no other thread writes meanwhile to memory that was
    /// allocated since: the bytes that may be its record are read.
    ///
    /// # Time
    ///
    /// Constant.
    pub unsafe fn owner(&self, block: NonNull<u8>) -> Option<usize> {
        match self.control().frames.find(block.addr().get()) {
            Some((record, State::Live)) => Some(record.tag),
            _ => None,
        }
    }

    /// Begins a period: operations and bytes of all components are counted from 0.
    ///
    /// # Time
    ///
    /// Linear in the number of components.
    pub fn begin_period(&self) {
        // Loop bound: components
        for part in &self.control().parts {
            part.note(|used| (used.operations, used.bytes) = (0, 0));
        }
    }

    /// Passes the current time. Begins a period if the last one has lasted as long as configured, and returns whether
    /// it did. Time may wrap around, and begins at 0. A period begins where the last one ended, however late this is
    /// called; if that is more than a whole period ago, it begins now.
    ///
    /// # Time
    ///
    /// Constant, linear in the number of components where a period begins.
    pub fn tick(&self, now: u64) -> bool {
        let control = self.control();
        let passed = now.wrapping_sub(control.begun.get());
        if control.period_ticks == 0 || passed < control.period_ticks {
            return false;
        }
        let late = passed - control.period_ticks;
        control.begun.set(if late < control.period_ticks { now.wrapping_sub(late) } else { now });
        self.begin_period();
        true
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, error: AllocError) -> AllocError {
        self.control_mut().counters.refused();
        error
    }

    /// Counts a refusal because of a component's limit.
    #[cold]
    #[inline(never)]
    fn beyond(&self, component: usize, limit: QuotaLimit) -> AllocError {
        let control = self.control();
        control.last_refusal.set(Some((component, limit)));
        if let Some(part) = control.parts.get(component) {
            part.note(|used| {
                let [live_bytes, operations, bytes] = &mut used.refused;
                let count = match limit {
                    QuotaLimit::LiveBytes => live_bytes,
                    QuotaLimit::Operations => operations,
                    QuotaLimit::Bytes => bytes,
                };
                *count = count.wrapping_add(1);
            });
        }
        AllocError::Quota
    }

    /// Reports a misuse.
    #[cold]
    #[inline(never)]
    fn report(kind: MisuseKind, address: usize) {
        hook::report(Self::NAME, kind, address);
    }

    /// Refuses requests that no heap of this size could serve.
    #[inline(always)]
    fn validate(&self, size_bytes: usize, align_bytes: usize) -> Result<usize, AllocError> {
        let control = self.control();
        control.frames.validate(size_bytes, align_bytes, control.most_bytes)
    }

    /// Whether the current component may have another operation of `more_bytes`, and `owner` as many more live bytes.
    #[inline(always)]
    fn admit(&self, owner: usize, more_bytes: usize) -> Result<(), AllocError> {
        let Control { parts, current, .. } = self.control();
        let current = current.get();
        let (Some(asking), Some(owning)) = (parts.get(current), parts.get(owner)) else {
            return Err(AllocError::Quota);
        };
        if let Err(limit) = asking.may_take(more_bytes) {
            return Err(self.beyond(current, limit));
        }
        if let Err(limit) = owning.may_hold(more_bytes) {
            return Err(self.beyond(owner, limit));
        }
        asking.count();
        Ok(())
    }

    /// Charges the growth to the current component's period, and the new size to the owner.
    #[inline(always)]
    fn charge(&self, owner: usize, old_bytes: usize, new_bytes: usize) {
        let Control { parts, current, .. } = self.control();
        if let Some(asking) = parts.get(current.get()) {
            asking.note(|used| used.bytes = used.bytes.saturating_add(new_bytes.saturating_sub(old_bytes)));
        }
        if let Some(owning) = parts.get(owner) {
            owning.hold(old_bytes, new_bytes);
        }
    }

    /// Takes a block from the inner heap and frames it, without charging it.
    #[inline(always)]
    fn take(
        &mut self,
        request_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
        owner: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let control = self.control_mut();
        let block = control.heap.allocate_bytes(request_bytes, Frames::<H, 0>::UNIT)?.expose_provenance().get();
        let payload = Frames::<H, 0>::payload_in(block, align_bytes);
        let record = Record { offset_bytes: payload - block, size_bytes, tag: owner };
        // SAFETY: the block belongs to this adapter, and is large enough for payload and frame.
        unsafe { control.frames.write(payload, record, State::Live) };
        control.counters.allocated(size_bytes, (payload + size_bytes).wrapping_sub(control.origin));
        Ok(Frames::<H, 0>::pointer(payload))
    }

    /// Returns a block to the inner heap, without crediting it.
    #[inline(always)]
    fn give_back(&mut self, payload: usize, record: Record) {
        let control = self.control_mut();
        control.counters.freed(record.size_bytes);
        // SAFETY: the block belongs to this adapter, and is no longer used.
        unsafe {
            control.frames.write(payload, record, State::Gone);
            control.heap.deallocate(Frames::<H, 0>::pointer(payload - record.offset_bytes));
        }
    }

    /// Allocates, as [`RegionAllocator::allocate_bytes`]; refusals are not counted.
    #[inline(always)]
    fn serve(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        let request_bytes = self.validate(size_bytes, align_bytes)?;
        let owner = self.component();
        self.admit(owner, size_bytes)?;
        let block = self.take(request_bytes, size_bytes, align_bytes, owner)?;
        self.charge(owner, 0, size_bytes);
        Ok(block)
    }

    /// Resizes, as [`RegionAllocator::reallocate_bytes`]; refusals are not counted.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(never)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        let request_bytes = self.validate(size_bytes, align_bytes)?;
        let payload = block.addr().get();
        let record = self.live(payload)?;
        self.admit(record.tag, size_bytes.saturating_sub(record.size_bytes))?;
        let old_bytes = record.size_bytes;
        // A block that shrinks stays. The inner heap may move one that grows to a place where its payload has only the
        // natural alignment, copying the bytes by which the payload was displaced too: then a new block takes less.
        let is_displaced = record.offset_bytes != Frames::<H, 0>::FRONT_BYTES;
        let may_move = align_bytes <= Frames::<H, 0>::UNIT && !is_displaced;
        let stays = payload & (align_bytes - 1) == 0 && size_bytes <= old_bytes;
        let answer = if stays || may_move {
            self.resize_beneath(payload, record, size_bytes, |heap, block, needed_bytes| {
                // SAFETY: the block is live. If it moves, it leaves no record that looks live.
                unsafe { heap.reallocate_bytes(block, needed_bytes, Frames::<H, 0>::UNIT) }
            })
        } else {
            self.take(request_bytes, size_bytes, align_bytes, record.tag).inspect(|moved| {
                // SAFETY: both blocks are live and disjoint, and both are at least as long as the copy.
                unsafe { block.copy_to_nonoverlapping(*moved, size_bytes.min(old_bytes)) };
                self.give_back(payload, record);
            })
        };
        if answer.is_ok() {
            self.charge(record.tag, old_bytes, size_bytes);
        }
        answer
    }

    /// The record of a live block; reports the address if there is none.
    #[inline(always)]
    fn live(&self, payload: usize) -> Result<Record, AllocError> {
        let control = self.control();
        match control.frames.find(payload) {
            Some((record, State::Live)) => Ok(record),
            _ => {
                Self::report(control.frames.diagnose(&control.heap, payload), payload);
                Err(AllocError::Misused)
            }
        }
    }

    /// Lets the inner heap resize a block, by a function of the heap, the inner block and its new size.
    #[inline(always)]
    fn resize_beneath(
        &mut self,
        payload: usize,
        record: Record,
        size_bytes: usize,
        resize: impl FnOnce(&mut H, NonNull<u8>, usize) -> Result<NonNull<u8>, AllocError>,
    ) -> Result<NonNull<u8>, AllocError> {
        let control = self.control_mut();
        let block = Frames::<H, 0>::pointer(payload - record.offset_bytes);
        // SAFETY: the block is live.
        unsafe { control.frames.unseal(payload) };
        let answer = resize(&mut control.heap, block, record.offset_bytes + size_bytes);
        let (payload, now) = match answer {
            Ok(block) => (block.expose_provenance().get() + record.offset_bytes, Record { size_bytes, ..record }),
            Err(_) => (payload, record),
        };
        // SAFETY: the block has room for record and payload.
        unsafe { control.frames.write(payload, now, State::Live) };
        answer?;
        control.counters.freed(record.size_bytes);
        control.counters.allocated(size_bytes, (payload + size_bytes).wrapping_sub(control.origin));
        Ok(Frames::<H, 0>::pointer(payload))
    }
}

// SAFETY: payloads lie in blocks of the inner heap, disjoint from records, aligned as requested, and stay in place.
unsafe impl<'r, H: RegionAllocator<'r>, const PARTS: usize> RegionAllocator<'r> for Quota<'r, H, PARTS> {
    type Config = QuotaConfig<H::Config, PARTS>;

    const CONTRACT: Contract = Contract {
        name: Self::NAME,
        header_bytes: H::CONTRACT.header_bytes + Frames::<H, 0>::FRONT_BYTES,
        min_block_bytes: Frames::<H, 0>::MIN_BLOCK_BYTES,
        largest_request_bytes: Frames::<H, 0>::LARGEST_REQUEST_BYTES,
        largest_alignment_bytes: Frames::<H, 0>::LARGEST_ALIGNMENT_BYTES,
        // Blocks of natural alignment do, if those of the inner heap do; others move.
        grows_in_place: false,
        detects_double_free: true,
        detects_stale_pointers: true,
        // Those of records are always detected; but the inner heap may find stale tags after a payload.
        detects_overwritten_tags: false,
        ..H::CONTRACT
    };

    fn new(region: &'r mut [MaybeUninit<u8>], config: Self::Config) -> Result<Self, InitError> {
        const { assert!(PARTS > 0, "there must be at least one component") }
        let len_bytes = region.len();
        let end = region.as_ptr().addr() + len_bytes;
        let (control, heap) = divide::<Control<H, PARTS>, H>(region, config.heap, 0, Frames::<H, 0>::SPARE_BYTES)?;
        let most_bytes = heap.largest_allocatable().saturating_sub(Frames::<H, 0>::FRAME_BYTES);
        if most_bytes == 0 {
            // A heap of this kind needs an unknown amount more for a block with a record.
            return Err(InitError::TooSmall { needed_bytes: len_bytes.saturating_mul(2) });
        }
        let frames = Frames::new(control.addr().get() + size_of::<Control<H, PARTS>>(), end, 0);
        let origin = Frames::<H, 0>::origin(&heap);
        let part = |limits| Part { limits: Cell::new(limits), used: Cell::default() };
        // SAFETY: the place is in the region, aligned, and not used by the inner heap.
        unsafe {
            control.write(Control {
                heap,
                frames,
                seal: !frames.digest(),
                most_bytes,
                origin,
                counters: WithStats::default(),
                current: Cell::new(0),
                period_ticks: config.period_ticks,
                begun: Cell::new(0),
                last_refusal: Cell::new(None),
                parts: config.limits.map(part),
            });
        }
        Ok(Quota { control, region: PhantomData })
    }

    #[inline(always)]
    fn allocate_bytes(&mut self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, AllocError> {
        match self.serve(size_bytes, align_bytes) {
            Ok(block) => Ok(block),
            Err(error) => Err(self.refuse(error)),
        }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, block: NonNull<u8>) {
        let payload = block.addr().get();
        let Control { heap, frames, parts, current, .. } = self.control();
        match frames.find(payload) {
            Some((record, State::Live)) => {
                if let Some(asking) = parts.get(current.get()) {
                    asking.count();
                }
                if let Some(owning) = parts.get(record.tag) {
                    owning.hold(record.size_bytes, 0);
                }
                self.give_back(payload, record);
            }
            _ => Self::report(frames.diagnose(heap, payload), payload),
        }
    }

    #[inline(always)]
    unsafe fn reallocate_bytes(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        match unsafe { self.resize(block, size_bytes, align_bytes) } {
            Ok(block) => Ok(block),
            Err(error) => Err(self.refuse(error)),
        }
    }

    unsafe fn usable_size(&self, block: NonNull<u8>) -> usize {
        self.control().frames.find(block.addr().get()).map_or(0, |(record, _)| record.size_bytes)
    }

    /// The smaller of what the inner heap can serve and what the current component may have.
    fn largest_allocatable(&self) -> usize {
        let Control { heap, parts, current, .. } = self.control();
        let Some(part) = parts.get(current.get()) else { return 0 };
        let (left_operations, left_bytes) = part.left();
        if left_operations == 0 {
            return 0;
        }
        let left_live_bytes = part.limits.get().live_bytes.saturating_sub(part.used.get().live_bytes);
        let most_bytes = heap.largest_allocatable().saturating_sub(Frames::<H, 0>::FRAME_BYTES);
        most_bytes.min(left_live_bytes).min(left_bytes)
    }

    fn stats(&self) -> Option<Stats> {
        self.control().counters.stats(self.largest_allocatable())
    }

    fn walk(&self, visitor: &mut dyn FnMut(Block)) {
        let Control { heap, frames, .. } = self.control();
        heap.walk(&mut |block| visitor(frames.shown(block)));
    }

    fn check(&self) -> Result<(), Corruption> {
        let Control { heap, frames, seal, current, parts, .. } = self.control();
        let own = self.control.addr().get();
        let broken = |invariant, address| Err(Corruption { invariant, address });
        if *seal != !frames.digest() || current.get() >= PARTS {
            return broken("the quota's own words are unchanged", own);
        }
        heap.check()?;
        let mut sums = [(0_usize, 0_usize); PARTS];
        let mut found = Ok(());
        heap.walk(&mut |block| {
            if block.free || found.is_err() {
                return;
            }
            let owner = match frames.find_in(&block) {
                Some((_, record, State::Live)) => sums.get_mut(record.tag).map(|sum| (sum, record.size_bytes)),
                _ => None,
            };
            match owner {
                Some((sum, size_bytes)) => {
                    *sum = (sum.0.wrapping_add(1), sum.1.wrapping_add(size_bytes));
                }
                None => {
                    let payload = block.address + Frames::<H, 0>::FRONT_BYTES;
                    found = broken("a block's record, with its owner, is before its payload", payload);
                }
            }
        });
        found?;
        let is_right = |(part, sum): (&Part, &(usize, usize))| {
            let used = part.used.get();
            (used.live_blocks, used.live_bytes) == *sum
        };
        if !parts.iter().zip(&sums).all(is_right) {
            return broken("a component's use is the sum of its blocks", own);
        }
        Ok(())
    }

    fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        let Control { heap, frames, current, parts, .. } = self.control();
        heap.fingerprint(word);
        heap.walk(&mut |block| {
            if let (false, Some((_, record, _))) = (block.free, frames.find_in(&block)) {
                word(record.offset_bytes);
                word(record.size_bytes);
                word(record.tag);
            }
        });
        word(current.get());
        for part in parts {
            let (limits, used) = (part.limits.get(), part.used.get());
            // Use without a limit does not affect behaviour.
            let unlimited = QuotaLimits::default();
            word(limits.live_bytes);
            word(if limits.operations == unlimited.operations {
                0
            } else {
                limits.operations.saturating_sub(used.operations)
            });
            word(if limits.bytes == unlimited.bytes { 0 } else { limits.bytes.saturating_sub(used.bytes) });
        }
    }
}

impl<'r, H: RegionAllocator<'r>, const PARTS: usize> fmt::Debug for Quota<'r, H, PARTS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", Self::NAME, self.control)
    }
}

// SAFETY: the inner heap's block has room for the record and the payload.
/// The request counts as an operation of its component, whether or not the block fits.
unsafe impl<'r, H: ResizeInPlace<'r>, const PARTS: usize> ResizeInPlace<'r> for Quota<'r, H, PARTS> {
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        match self.fit(block.addr().get(), size_bytes, align_bytes) {
            Ok(()) => Ok(true),
            Err(AllocError::Exhausted | AllocError::TooLarge) => Ok(false),
            Err(error) => Err(self.refuse(error)),
        }
    }
}

impl<'r, H: ResizeInPlace<'r>, const PARTS: usize> Quota<'r, H, PARTS> {
    /// Resizes a block where it is; [`AllocError::Exhausted`] or [`AllocError::TooLarge`] if it does not fit.
    fn fit(&mut self, payload: usize, size_bytes: usize, align_bytes: usize) -> Result<(), AllocError> {
        let valid = self.validate(size_bytes, align_bytes);
        if !matches!(valid, Ok(_) | Err(AllocError::TooLarge)) {
            valid?;
        }
        let record = self.live(payload)?;
        valid?;
        if payload & (align_bytes - 1) != 0 {
            return Err(AllocError::Exhausted);
        }
        self.admit(record.tag, size_bytes.saturating_sub(record.size_bytes))?;
        self.resize_beneath(payload, record, size_bytes, |heap, block, needed_bytes| {
            // SAFETY: the block is live.
            let is_done = unsafe { heap.resize_in_place(block, needed_bytes, Frames::<H, 0>::UNIT) }?;
            if is_done { Ok(block) } else { Err(AllocError::Exhausted) }
        })?;
        self.charge(record.tag, record.size_bytes, size_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tlsf;

    /// A heap of two components, the first of which has used, in its only period, nearly as much as a word can count.
    fn long_used(region: &mut [MaybeUninit<u8>]) -> Quota<'_, Tlsf<'_>, 2> {
        let heap: Quota<'_, Tlsf<'_>, 2> = Quota::new(region, Default::default()).expect("large enough");
        let [first, _] = &heap.control().parts;
        first.note(|used| (used.operations, used.bytes) = (usize::MAX - 3, usize::MAX - 3));
        heap
    }

    #[test]
    fn without_a_limit_nothing_is_refused_however_long_the_period() {
        let mut memory = [MaybeUninit::uninit(); 4096];
        let mut heap = long_used(&mut memory);
        let most_bytes = heap.largest_allocatable();
        for _ in 0..10 {
            let block = heap.allocate_bytes(100, 8).expect("no limit is reached");
            // SAFETY: the block is live.
            unsafe {
                let block = heap.reallocate_bytes(block, 200, 8).expect("no limit is reached");
                heap.deallocate(block);
            }
            assert_eq!(heap.largest_allocatable(), most_bytes);
        }
        assert_eq!(heap.used(0).map(|used| (used.operations, used.bytes)), Some((usize::MAX, usize::MAX)));
        assert_eq!(heap.check(), Ok(()));
    }

    #[test]
    fn a_limit_that_was_reached_stays_so_until_the_next_period() {
        let mut memory = [MaybeUninit::uninit(); 4096];
        let mut heap = long_used(&mut memory);
        let blocks: [_; 10] = core::array::from_fn(|_| heap.allocate_bytes(8, 8).expect("no limit is reached"));
        heap.set_limits(0, QuotaLimits { operations: 5, ..Default::default() });
        for block in blocks {
            assert_eq!(heap.allocate_bytes(8, 8), Err(AllocError::Quota));
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
        heap.begin_period();
        assert!(heap.allocate_bytes(8, 8).is_ok());
    }
}
