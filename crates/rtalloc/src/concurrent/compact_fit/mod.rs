//! Compact-fit for several threads: an instance for every slot, objects that any thread pins, remote-free queues.
//!
//! # Idea
//!
//! The authors of Compact-fit found that separate instances scale and a shared one does not. So every slot has an
//! instance of the moving heap ([`compact_fit`](crate::compact_fit)) in its share of the region: pages, size classes
//! and compaction, used by its owner alone. Threads share only the *entries*. A handle names an entry, wherever it is
//! used; the entry holds the object's address, and keeps the object from being moved while it is accessed.
//!
//! ```text
//! handle { entry, generation }
//!            |          '----------- must be equal --.
//!            '--> state  [ generation ][ live | moving | second ][ pins ]       one word
//!                 places [ address ][ address ]                                 second: which one is the object's
//!
//! region: [plan][refusals][places of the slots][queues][entries of slot 0][of slot 1] ... [instance 0][instance 1] ...
//! ```
//!
//! *Pin.* A reader adds one to the entry's word. The previous value shows whether the handle is valid and which place
//! is the object's. If the object is being moved, the reader clears the moving bit, by one RMW that cannot fail, and
//! uses the old copy, which is still complete. A [`Guard`] represents the pin, and is the only access:
//! no pointer outlives it.
//!
//! *Move.* The owner sets the moving bit of an object without pins, by a compare-and-swap. It copies `IOTA` bytes
//! whenever one of its objects is allocated or freed. One more compare-and-swap makes the copy the object; it fails if
//! another thread has pinned or freed the object since:
//!
//! ```text
//!                     owner: move, commit                     owner: move; a reader comes; commit
//! state    g live - - 0   ->   g live moving - 0   ->   g live - 2nd 0
//!                                     |  reader: + 1, then & !moving
//!                                     '->   g live - - 1   ->   the owner finds the bit clear, drops its copy, and
//!                                                               chooses another object
//! first    [..o.]              [..o.]                   [....]                [..o.]   old copy: whole until the commit
//! last     [xx..]              [xxc.]                   [xxo.]                [xx..]   c: reserved, copied in pieces
//! ```
//!
//! So a reader never waits, and a move never damages what a reader sees: the memory of the old copy is reused only
//! after the commit, which found no pin, and every later pin leads to the new copy. The state includes the generation,
//! so one comparison covers both, and there is no ABA: within a generation the moving bit is set only when there is no
//! pin, and only a thread with a pin clears it.
//!
//! *Free.* A thread that frees an object clears its live bit; of several that try, one succeeds. If the object is the
//! slot's own and not pinned, its memory is free at once. If it is pinned, the entry waits for the last pin to end, and
//! the owner checks whenever it allocates. The entry of another slot's object goes to its owner's remote-free queue
//! ([`remote_queue`](super::pooled_arenas::remote_queue)).
//!
//! # Memory
//!
//! When nothing is left that can be moved ([`compact`](CompactFitSlot::compact) reports it), a class has at most k
//! not-full pages and one for each object that is pinned, or was freed and is not yet back at its owner: not-full pages
//! <= k + pinned. The search takes objects from every not-full page except the last, which receives them. If a class
//! has more than k >= 1 and no object can be moved, every page except the last has only pinned objects, at least one.
//! In between, its pending compaction is at most that of the sequential variant, and each object that is allocated or
//! freed compacts at most `IOTA` bytes.
//!
//! An entry is three words and eight bytes: 32 B on 64-bit machines. The number of entries is chosen when the heap is
//! made, because a thread with an old handle must find an entry after the object is freed.
//!
//! # Progress, and why
//!
//! Every operation except [`compact`](CompactFitSlot::compact) is *wait-free*. The bound of `compact` is its budget and
//! the objects of the classes with pending compaction. [`max_steps`](SharedCompactFit::max_steps) returns the bounds;
//! with K for `reclaim_budget` and K_miss for `reclaim_budget_on_miss`:
//!
//! | operation | steps on shared words |
//! |---|---|
//! | pin | 2 RMWs, 2 loads |
//! | drop of a guard | 1 RMW |
//! | allocate | a few, and those of at most 2 (K + K_miss) + 2 compaction steps |
//! | deallocate, of this slot's object | 2 loads, 2 RMWs, a few loads and stores, and a compaction step |
//! | deallocate, of another slot's | 1 load, 3 stores, at most 5 RMWs |
//! | a compaction step | `IOTA` / 4 loads and stores, and at most 8 objects examined |
//!
//! (The remote-free queue takes two of the five RMWs; ending the object exactly once takes the others.) No loop ends
//! because another thread does something. A thread that stops forever keeps its pins: each pinned object stays where it
//! is, and its memory is not reused. Other threads are not affected.
//!
//! # Weak points
//!
//! - An object that is pinned most of the time is not moved: each such object may cost a page.
//! - A pin and its end are two RMWs of a word that all readers of the object write: readers of one object contend for a
//!   cache line; readers of different objects do not.
//! - Objects are read and written in words of four bytes; see [`Guard`].
//! - Generations wrap around: after exactly a multiple of 2^32 - 1 objects of one entry (2^16 - 1 on 32-bit machines)
//!   an old handle is taken for a new one.
//! - An object is not resized: allocate, copy, deallocate.
//! - The weak points of [pooled arenas](super::pooled_arenas) about queues and about owners that never allocate.
//!
//! # When it wins, when it loses
//!
//! It wins where threads hand objects to each other and memory must stay predictable for years. It loses where each
//! access to an object is only a few instructions: a pin costs two atomic RMWs.

mod entry;
mod guard;
mod instance;
#[cfg(test)]
mod tests;
mod verify;

pub use entry::{MAX_PINS, PinError};
pub use guard::Guard;

use crate::compact_fit::free_list::NONE;
use crate::compact_fit::ladder::{DefaultLadder, Ladder};
use crate::compact_fit::page::{Directory, Header, Pool, Record};
use crate::compact_fit::{CompactFitConfig, steps};
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::{Atomics, Native};
use crate::concurrent::pooled_arenas::remote_queue::{
    Link, PUSH_STEPS, Pushed, QueuedFree, RemoteQueue, collect_steps,
};
use crate::concurrent::slots::{Common, Line, Refused, times};
use crate::contract::{
    AllocError, Corruption, Handle, HandleError, InitError, LoopBound, Refusals, SharedError, Steps, loop_bound,
};
use crate::region::round_up;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use entry::Entry;
use instance::{At, BACK_BYTES, Cursor, LOOKS};

/// How [`SharedCompactFit`] is made.
#[derive(Clone, Copy, Debug)]
pub struct SharedCompactFitConfig {
    /// Number of slots, at least 1: threads, cores, interrupt levels. Each gets the same share of the region.
    pub slots: usize,
    /// Most objects that a slot may have at a time, at least 1; rounded up to a multiple of 4.
    pub objects: usize,
    /// Most objects that an allocation takes back before it serves its request, at least 1.
    pub reclaim_budget: usize,
    /// Most objects that an allocation takes back when it finds no memory, before it tries again, at least 1.
    pub reclaim_budget_on_miss: usize,
    /// Most not-full pages of each size class of a slot: k.
    pub not_full: CompactFitConfig,
}

impl Default for SharedCompactFitConfig {
    /// 4 slots of 1024 objects each; 2 taken back, 32 on a miss; one not-full page.
    fn default() -> Self {
        let not_full = CompactFitConfig::with_max_not_full(1);
        SharedCompactFitConfig { slots: 4, objects: 1024, reclaim_budget: 2, reclaim_budget_on_miss: 32, not_full }
    }
}

/// An operation whose steps are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// [`CompactFitSlot::allocate`], whether it succeeds or not.
    Allocate,
    /// [`CompactFitSlot::deallocate`], of an object of any slot.
    Deallocate,
    /// [`SharedCompactFit::pin`].
    Pin,
    /// The drop of a [`Guard`].
    Unpin,
    /// [`CompactFitSlot::reclaim`].
    Reclaim {
        /// Most objects taken back.
        budget: usize,
    },
}

/// The start of the region.
#[repr(C)]
struct Control<A: Atomics> {
    plan: Line<Plan>,
    refused: Line<Refused<A>>,
}

/// What is fixed when the heap is made.
#[derive(Clone, Copy, Debug)]
struct Plan {
    slots: u32,
    /// Entries of a slot, at least 1.
    objects: NonZeroU32,
    reclaim_budget: usize,
    reclaim_budget_on_miss: usize,
    /// Bytes of one producer's queues, whole cache lines.
    row_bytes: usize,
    /// Address of the first queue.
    queues: usize,
    /// Address of the first entry.
    entries: usize,
    /// Address of the first instance.
    instances: usize,
    /// Bytes of an instance, whole cache lines.
    share_bytes: usize,
}

impl Plan {
    /// Address range of a slot's instance.
    fn share(&self, slot: usize) -> Range<usize> {
        let start = self.instances.wrapping_add(slot.wrapping_mul(self.share_bytes));
        start..start.wrapping_add(self.share_bytes)
    }
}

/// The state of a slot.
#[repr(C)]
struct Place<A: Atomics> {
    /// The base of its directory, which is never written again.
    base: Line<usize>,
    common: Line<Common<A>>,
}

/// Compact-fit for several threads, on the ladder `L`. Every slot has an instance, whose owner moves at most `IOTA`
/// bytes of its objects at a time; `IOTA` is a multiple of 16.
///
/// The value is one pointer; everything else is in the region, whose bytes are initialised. New objects are not
/// cleared.
///
/// ```standalone_crate
/// use rtalloc::{SharedCompactFit, SharedCompactFitConfig};
///
/// let mut memory = vec![0; 1 << 20];
/// let heap: SharedCompactFit = SharedCompactFit::new(&mut memory, SharedCompactFitConfig::default())?;
/// let mut mine = heap.claim(0).expect("the slot is free");
/// let handle = mine.allocate(100)?;
/// heap.pin(handle)?.write(0, b"to whom it may concern")?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let mut others = heap.claim_any().expect("one of four");
///         let mut word = [0; 4];
///         heap.pin(handle).and_then(|guard| Ok(guard.read(8, &mut word))).expect("live").expect("inside");
///         assert_eq!(&word, b"it m");
///         others.deallocate(handle).expect("live");
///     });
/// });
/// assert!(heap.pin(handle).is_err(), "it was freed");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct SharedCompactFit<'r, const IOTA: usize = 256, L: Ladder = DefaultLadder, A: Atomics = Native> {
    /// The start of the region.
    control: NonNull<Control<A>>,
    region: PhantomData<(&'r mut [u8], L)>,
}

// SAFETY: threads share only atomic words and words that are never written again; an instance is used by one thread at
// a time, and holds nothing that is bound to a thread.
unsafe impl<const IOTA: usize, L: Ladder, A: Atomics> Send for SharedCompactFit<'_, IOTA, L, A> {}
// SAFETY: as for `Send`; methods through `&self` access only those shared words.
unsafe impl<const IOTA: usize, L: Ladder, A: Atomics> Sync for SharedCompactFit<'_, IOTA, L, A> {}

impl<const IOTA: usize, L: Ladder, A: Atomics> fmt::Debug for SharedCompactFit<'_, IOTA, L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan().fmt(f)
    }
}

/// A claimed slot; dropping this releases it.
pub struct CompactFitSlot<'h, 'r, const IOTA: usize, L: Ladder, A: Atomics = Native> {
    heap: &'h SharedCompactFit<'r, IOTA, L, A>,
    number: usize,
    /// The slot's instance, which only this value uses.
    instance: At<L, A>,
}

impl<const IOTA: usize, L: Ladder, A: Atomics> fmt::Debug for CompactFitSlot<'_, '_, IOTA, L, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {}", self.number)
    }
}

impl<const IOTA: usize, L: Ladder, A: Atomics> Drop for CompactFitSlot<'_, '_, IOTA, L, A> {
    fn drop(&mut self) {
        // SAFETY: the slot was claimed, so it exists.
        let place = unsafe { self.heap.place(self.number) };
        place.common.0.release();
    }
}

impl<'r, const IOTA: usize, L: Ladder, A: Atomics> SharedCompactFit<'r, IOTA, L, A> {
    const VALID: () = assert!(IOTA != 0 && IOTA.is_multiple_of(16), "IOTA must be a nonzero multiple of 16");

    /// Values written to the region have no padding: padding bytes are uninitialised, and the region's owner may read
    /// every byte after the heap is gone.
    const DENSE: () = {
        const fn sum(words: usize, bytes: usize) -> usize {
            words * size_of::<usize>() + bytes
        }
        assert!(size_of::<Plan>() == sum(7, 8) && size_of::<Refused<A>>() == sum(4, 0));
        assert!(size_of::<Common<A>>() == sum(2, 0) && size_of::<Entry<A>>() == sum(3, 8));
        assert!(size_of::<Pool>() == sum(0, 16) && size_of::<Record>() == sum(2, 8));
        assert!(size_of::<Header>() == sum(2, 16) && size_of::<steps::Steps>() == 40 && size_of::<Cursor>() == 16);
    };

    const ENTRY_BYTES: usize = size_of::<Entry<A>>();

    /// Largest request, in bytes.
    pub const LARGEST_BYTES: usize = L::PAGE - BACK_BYTES;

    /// Makes a heap in `region`, divided equally among its slots.
    ///
    /// # Errors
    ///
    /// [`InitError`]; the region is then untouched.
    ///
    /// # Time
    ///
    /// Linear in slots and objects.
    pub fn new(region: &'r mut [u8], config: SharedCompactFitConfig) -> Result<Self, InitError> {
        const { (Self::VALID, Self::DENSE) };
        let SharedCompactFitConfig { slots, objects, reclaim_budget, reclaim_budget_on_miss, not_full } = config;
        if slots == 0 || objects == 0 || reclaim_budget == 0 || reclaim_budget_on_miss == 0 {
            return Err(InitError::Configuration {
                what: "at least one slot, one object, and one object to take back",
            });
        }
        let too_small = InitError::TooSmall { needed_bytes: Self::region_bytes(slots, objects, 1) };
        let (control, plan) = Self::plan_of(region.as_ptr().addr(), region.len(), &config).ok_or(too_small)?;
        if plan.share_bytes > At::<L, A>::MOST_BYTES {
            return Err(InitError::OutOfReach { max_span_bytes: At::<L, A>::MOST_BYTES.saturating_mul(slots) });
        }
        if u64::from(plan.slots).saturating_mul(plan.objects.get().into()) >= u64::from(NONE) {
            return Err(InitError::Configuration { what: "fewer than 2^32 objects in all slots" });
        }
        if At::<L, A>::plan(plan.instances, plan.share_bytes).is_none() {
            return Err(too_small);
        }
        // Exposes the provenance of the region, which the heap keeps.
        let _ = region.as_mut_ptr().expose_provenance();
        let control: NonNull<Control<A>> =
            NonNull::new(core::ptr::with_exposed_provenance_mut(control)).ok_or(too_small)?;
        // SAFETY: the control structure lies in the region, aligned. Fields are written, because lines have padding.
        unsafe {
            (&raw mut (*control.as_ptr()).plan.0).write(plan);
            (&raw mut (*control.as_ptr()).refused.0).write(Refused::new());
        }
        let heap = SharedCompactFit { control, region: PhantomData };
        let entries: *mut Entry<A> = core::ptr::with_exposed_provenance_mut(plan.entries);
        let row: *mut u8 = core::ptr::with_exposed_provenance_mut(plan.queues);
        // SAFETY: the queues lie in the region, where the plan places them.
        unsafe { row.write_bytes(0, plan.row_bytes.wrapping_mul(slots)) };
        for slot in 0..slots {
            let share = plan.share(slot);
            // The first share has a plan, and the others are alike.
            let Some((directory, pages)) = At::<L, A>::plan(share.start, share.len()) else { return Err(too_small) };
            let own = entries.wrapping_add(slot.wrapping_mul(plan.objects.get() as usize));
            // SAFETY: the shares are disjoint in the region, the places follow the control structure, then the entries.
            unsafe {
                for number in 0..plan.objects.get() as usize {
                    own.wrapping_add(number).write(Entry::empty(directory.base()));
                }
                directory.begin(pages as u32, &|class| not_full.max_not_full(class));
                instance::begin(directory, own.addr(), plan.objects.get());
                (&raw mut (*heap.place_at(slot)).base.0).write(directory.base());
                (&raw mut (*heap.place_at(slot)).common.0).write(Common::new());
            }
        }
        Ok(heap)
    }

    /// Length of a region that holds `slots` slots, each with `objects` objects at a time and `pages` pages of the
    /// ladder, for any start address; `usize::MAX` beyond the address space.
    pub const fn region_bytes(slots: usize, objects: usize, pages: usize) -> usize {
        let share = At::<L, A>::needed_bytes(pages).saturating_add(LINE_BYTES);
        match Self::front_bytes(slots, objects) {
            Some((front_bytes, ..)) => {
                front_bytes.saturating_add(slots.saturating_mul(share)).saturating_add(LINE_BYTES)
            }
            None => usize::MAX,
        }
    }

    /// Bytes before the instances, bytes before the entries, and bytes of one producer's queues, in whole lines.
    const fn front_bytes(slots: usize, objects: usize) -> Option<(usize, usize, usize)> {
        let row_bytes = match slots.checked_mul(size_of::<RemoteQueue<A>>()) {
            Some(bytes) => round_up(bytes, LINE_BYTES),
            None => None,
        };
        let (Some(row_bytes), Some(objects)) = (row_bytes, round_up(objects, 4)) else { return None };
        let Some(place) = row_bytes.checked_add(size_of::<Place<A>>()) else { return None };
        let Some(places) = slots.checked_mul(place) else { return None };
        let Some(before) = places.checked_add(size_of::<Control<A>>()) else { return None };
        let Some(number) = objects.checked_mul(slots) else { return None };
        let Some(entries) = number.checked_mul(size_of::<Entry<A>>()) else { return None };
        let Some(front) = before.checked_add(entries) else { return None };
        match round_up(front, LINE_BYTES) {
            Some(front) => Some((front, before, row_bytes)),
            None => None,
        }
    }

    /// Divides a region: returns the address of the control structure, and the plan.
    fn plan_of(start: usize, len_bytes: usize, config: &SharedCompactFitConfig) -> Option<(usize, Plan)> {
        let control = round_up(start, LINE_BYTES)?;
        let (front_bytes, before_bytes, row_bytes) = Self::front_bytes(config.slots, config.objects)?;
        let instances = control.checked_add(front_bytes)?;
        let room = start.checked_add(len_bytes)?.checked_sub(instances)?;
        let entries = control.checked_add(before_bytes)?;
        let plan = Plan {
            slots: u32::try_from(config.slots).ok()?,
            objects: NonZeroU32::new(u32::try_from(round_up(config.objects, 4)?).ok()?)?,
            reclaim_budget: config.reclaim_budget,
            reclaim_budget_on_miss: config.reclaim_budget_on_miss,
            row_bytes,
            queues: entries.checked_sub(config.slots.checked_mul(row_bytes)?)?,
            entries,
            instances,
            share_bytes: room.checked_div(config.slots)? & !(LINE_BYTES - 1),
        };
        Some((control, plan))
    }

    #[inline(always)]
    fn plan(&self) -> &Plan {
        // SAFETY: the control structure is initialised, and this part of it is never written again.
        unsafe { &(*self.control.as_ptr()).plan.0 }
    }

    #[inline(always)]
    fn place_at(&self, slot: usize) -> *mut Place<A> {
        self.control.as_ptr().wrapping_add(1).cast::<Place<A>>().wrapping_add(slot)
    }

    /// The state of a slot.
    ///
    /// # Safety
    ///
    /// `slot` is less than the number of slots.
    #[inline(always)]
    unsafe fn place(&self, slot: usize) -> &Place<A> {
        // SAFETY: the places follow the control structure, one for each slot.
        unsafe { &*self.place_at(slot) }
    }

    /// The instance of a slot.
    ///
    /// # Safety
    ///
    /// `slot` is less than the number of slots.
    #[inline(always)]
    unsafe fn instance(&self, slot: usize) -> At<L, A> {
        // SAFETY: `slot` is less than the number of slots, by this function's contract.
        Directory::at(unsafe { self.place(slot) }.base.0)
    }

    /// The queue from one slot to another.
    ///
    /// # Safety
    ///
    /// Both numbers are less than the number of slots.
    #[inline(always)]
    unsafe fn queue(&self, producer: usize, owner: usize) -> &RemoteQueue<A> {
        let plan = self.plan();
        let row = plan.queues.wrapping_add(producer.wrapping_mul(plan.row_bytes));
        let queue = row.wrapping_add(owner.wrapping_mul(size_of::<RemoteQueue<A>>()));
        // SAFETY: after the places lies a row of queues for every producer, one for each owner, initialised to 0.
        unsafe { &*core::ptr::with_exposed_provenance(queue) }
    }

    /// The entry that a handle names.
    #[inline(always)]
    fn entry(&self, handle: Handle) -> Result<&Entry<A>, HandleError> {
        let plan = self.plan();
        let number = handle.address() as usize;
        if number >= (plan.slots as usize).wrapping_mul(plan.objects.get() as usize) || handle.generation() == 0 {
            return Err(HandleError::Foreign);
        }
        let first: *const Entry<A> = core::ptr::with_exposed_provenance(plan.entries);
        // SAFETY: `number` is less than the number of entries; they lie after the queues and consist of atomic words.
        Ok(unsafe { &*first.wrapping_add(number) })
    }

    /// How many slots there are.
    #[inline(always)]
    pub fn slots(&self) -> usize {
        self.plan().slots as usize
    }

    /// Claims a slot, if it is free, until the value is dropped.
    ///
    /// # Time
    ///
    /// Constant: one step.
    pub fn claim(&self, slot: usize) -> Option<CompactFitSlot<'_, 'r, IOTA, L, A>> {
        if slot >= self.slots() {
            return None;
        }
        // SAFETY: `slot` is less than the number of slots.
        let (place, instance) = unsafe { (self.place(slot), self.instance(slot)) };
        // Made only if the slot was taken: its end releases the slot.
        place.common.0.take().then(|| CompactFitSlot { heap: self, number: slot, instance })
    }

    /// Claims the first free slot, if there is one.
    ///
    /// # Time
    ///
    /// Linear in the number of slots: one step each.
    pub fn claim_any(&self) -> Option<CompactFitSlot<'_, 'r, IOTA, L, A>> {
        (0..self.slots()).find_map(|slot| self.claim(slot))
    }

    /// A claimed slot, for callers that keep its number instead of the value, as C does. Dropping that releases the
    /// slot.
    ///
    /// # Safety
    ///
    /// `slot` is less than [`slots`](Self::slots); the caller [claimed](Self::claim) it, and forgot the value it
    /// received. No two values of one slot are used at a time.
    #[inline(always)]
    pub unsafe fn slot(&self, slot: usize) -> ManuallyDrop<CompactFitSlot<'_, 'r, IOTA, L, A>> {
        // SAFETY: `slot` is less than the number of slots, by this function's contract.
        let instance = unsafe { self.instance(slot) };
        ManuallyDrop::new(CompactFitSlot { heap: self, number: slot, instance })
    }

    /// Pins an object, whichever slot allocated it: while the guard lives, the object stays where it is, and its memory
    /// is not reused even if it is freed. A handle of a freed object is refused, whichever thread freed it.
    ///
    /// # Errors
    ///
    /// [`PinError`]; nothing changed.
    ///
    /// # Time
    ///
    /// Constant, whatever others do: [`max_steps`](Self::max_steps).
    #[inline(always)]
    pub fn pin(&self, handle: Handle) -> Result<Guard<'_, A>, PinError> {
        let entry = self.entry(handle).map_err(PinError::Handle)?;
        let pinned = entry.pin(handle.generation())?;
        // SAFETY: the entry was pinned for this guard, which ends the pin.
        Ok(unsafe { Guard::new(entry, pinned) })
    }

    /// Most steps that one operation takes, whatever other threads do. Accesses through guards are not included.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn max_steps(&self, operation: Operation) -> Steps {
        let Plan { reclaim_budget, reclaim_budget_on_miss, .. } = *self.plan();
        let steps = |read_modify_writes, loads, stores| Steps { read_modify_writes, loads, stores };
        // The pending move is checked; another object is chosen; a piece is copied; the copy is published.
        let words = IOTA.min(L::PAGE) / guard::WORD_BYTES;
        let compaction_step = steps(LOOKS + 2, 2 + 2 * LOOKS + words + 2, words + 1);
        // The place is looked up, and the entry is linked into the free list.
        let release = steps(0, 2, 1);
        let dequeued = collect_steps(self.slots(), usize::BITS as usize) + steps(1, 1, 0);
        // Appended to the waiting list: two links. Releasing it instead takes more steps.
        let processed = dequeued + release + compaction_step + steps(0, 0, 1);
        let revisited = steps(0, 2, 1) + release + compaction_step;
        let taken = |most: usize| times(most, processed + revisited);
        // The entry's link and state, the object's place, size and entry; or the entry's link once more.
        let attempt = steps(1, 2, 3) + compaction_step;
        match operation {
            Operation::Allocate => {
                taken(reclaim_budget.saturating_add(reclaim_budget_on_miss)) + times(2, attempt) + steps(2, 1, 0)
            }
            Operation::Deallocate => {
                let own = steps(2, 2, 0) + release + compaction_step + steps(0, 0, 1);
                let others = PUSH_STEPS + steps(3, 0, 0);
                steps(
                    own.read_modify_writes.max(others.read_modify_writes),
                    own.loads.max(others.loads),
                    own.stores.max(others.stores),
                )
            }
            Operation::Pin => steps(2, 2, 0),
            Operation::Unpin => steps(1, 0, 0),
            Operation::Reclaim { budget } => taken(budget),
        }
    }

    /// Requests refused so far.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn refusals(&self) -> Refusals {
        self.refused().so_far()
    }

    fn refused(&self) -> &Refused<A> {
        // SAFETY: the control structure is initialised, and this part consists of atomic words.
        unsafe { &(*self.control.as_ptr()).refused.0 }
    }

    /// Verifies every invariant of the heap. No other thread uses it meanwhile.
    ///
    /// # Errors
    ///
    /// The first [`Corruption`] found.
    ///
    /// # Time
    ///
    /// Linear in the pages and entries.
    pub fn check(&mut self) -> Result<(), Corruption> {
        self.verify()
    }
}

impl<'h, const IOTA: usize, L: Ladder, A: Atomics> CompactFitSlot<'h, '_, IOTA, L, A> {
    /// Number of the slot.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The part that other threads write.
    #[inline(always)]
    fn common(&self) -> &'h Common<A> {
        // SAFETY: the slot was claimed, so it exists.
        &unsafe { self.heap.place(self.number) }.common.0
    }

    /// Counts a refusal, and returns it.
    #[cold]
    #[inline(never)]
    fn refuse(&self, error: SharedError) -> SharedError {
        self.heap.refused().count(error)
    }

    /// Why there is no memory: because freed objects have yet to be taken back or moved, because of pins, or for good.
    #[cold]
    #[inline(never)]
    fn reason(&self) -> SharedError {
        // SAFETY: the instance is the slot's, and only this value uses it.
        unsafe {
            let own = self.instance.extra();
            let is_pending = steps::is_pending(self.instance);
            if (*own).chain != 0 || self.common().pending_bits.any_now() || (is_pending && !self.instance.is_blocked())
            {
                SharedError::Pending
            } else if is_pending || (*own).waiting != [NONE; 2] {
                SharedError::Contended
            } else {
                SharedError::Exhausted
            }
        }
    }

    /// Allocates an object of `size_bytes` bytes. Moves at most `IOTA` bytes of others, and as many per object taken
    /// back.
    ///
    /// # Errors
    ///
    /// [`SharedError::Request`] for zero bytes or more than [`LARGEST_BYTES`](SharedCompactFit::LARGEST_BYTES);
    /// [`Pending`](SharedError::Pending) if remote frees have yet to be taken back, or objects to be moved: a retry
    /// continues; [`Contended`](SharedError::Contended) if objects that were freed, or have to be moved, are pinned;
    /// [`Exhausted`](SharedError::Exhausted) otherwise.
    ///
    /// # Time
    ///
    /// Constant, whatever others do: [`max_steps`](SharedCompactFit::max_steps).
    #[inline]
    pub fn allocate(&mut self, size_bytes: usize) -> Result<Handle, SharedError> {
        if size_bytes.wrapping_sub(1) >= SharedCompactFit::<IOTA, L, A>::LARGEST_BYTES {
            let error = if size_bytes == 0 { AllocError::ZeroSize } else { AllocError::TooLarge };
            return Err(self.refuse(SharedError::Request(error)));
        }
        // SAFETY: the instance is the slot's, and only this value uses it.
        let own = unsafe { &*self.instance.extra() };
        if (own.chain != 0) | (own.waiting != [NONE; 2]) | self.common().pending_bits.any() {
            self.take_back(self.heap.plan().reclaim_budget);
        }
        if let Some(handle) = self.attempt(size_bytes) {
            return Ok(handle);
        }
        self.allocate_after_miss(size_bytes)
    }

    /// Runs a compaction step, then allocates from the slot's own memory.
    #[inline(always)]
    fn attempt(&mut self, size_bytes: usize) -> Option<Handle> {
        // SAFETY: the instance is the slot's; the request is from 1 to the largest.
        unsafe {
            self.instance.compact_step(IOTA);
            let class = L::class_of(size_bytes.wrapping_add(BACK_BYTES));
            let (number, generation) = self.instance.take(size_bytes, class)?;
            let first = (self.number as u32).wrapping_mul(self.heap.plan().objects.get());
            Some(Handle::new(first.wrapping_add(number), NonZeroU32::new(generation)?))
        }
    }

    /// Takes back freed objects, and tries once more.
    #[cold]
    #[inline(never)]
    fn allocate_after_miss(&mut self, size_bytes: usize) -> Result<Handle, SharedError> {
        self.take_back(self.heap.plan().reclaim_budget_on_miss);
        match self.attempt(size_bytes) {
            Some(handle) => Ok(handle),
            None => Err(self.refuse(self.reason())),
        }
    }

    /// Frees an object, whichever slot allocated it. Its handle is stale at once; its memory is free after it has
    /// returned to its owner and the last guard is gone.
    ///
    /// # Errors
    ///
    /// [`HandleError`]; nothing changed. Of several threads that free an object, one succeeds.
    ///
    /// # Time
    ///
    /// Constant, whatever others do: [`max_steps`](SharedCompactFit::max_steps).
    #[inline]
    pub fn deallocate(&mut self, handle: Handle) -> Result<(), HandleError> {
        let entry = self.heap.entry(handle)?;
        let objects = self.heap.plan().objects;
        let number = handle.address().wrapping_sub((self.number as u32).wrapping_mul(objects.get()));
        if number >= objects.get() {
            return self.queue_remote_free(entry, handle, objects);
        }
        let is_left = entry.end(handle.generation())?;
        // SAFETY: the entry is the slot's own, not live, and in no list: `end` succeeded for this caller alone.
        unsafe { self.take_entry(number, is_left) };
        Ok(())
    }

    /// Pushes the entry of another slot's object to its owner's remote-free queue.
    fn queue_remote_free(&self, entry: &Entry<A>, handle: Handle, objects: NonZeroU32) -> Result<(), HandleError> {
        entry.end_for_owner(handle.generation())?;
        let owner = (handle.address() / objects) as usize;
        let queued = QueuedFree::MIN.saturating_add(handle.address() % objects);
        // SAFETY: both slots exist, and this one is the producer. Ending the object gave it the entry's link.
        unsafe {
            let link = Link::at(core::ptr::from_ref(entry.link()).cast_mut().cast());
            if self.heap.queue(self.number, owner).push(queued, link) == Pushed::First {
                self.heap.place(owner).common.0.pending_bits.set(self.number);
            }
        }
        Ok(())
    }

    /// Releases an entry without pins, and runs a compaction step; appends one with pins to the waiting list.
    ///
    /// # Safety
    ///
    /// The entry is the slot's, not live, and in no list; `is_left` is true only if it has no pin.
    #[inline(always)]
    unsafe fn take_entry(&mut self, number: u32, is_left: bool) {
        // SAFETY: the entry is the slot's, not live and in no list; it is released only without pins.
        unsafe {
            if is_left {
                self.instance.release(number);
                self.instance.compact_step(IOTA);
            } else {
                self.instance.wait(number);
            }
        }
    }

    /// Takes back at most `budget` remote frees, and examines as many entries that wait for their last pin. Returns
    /// both.
    #[cold]
    #[inline(never)]
    fn take_back(&mut self, budget: usize) -> usize {
        let slots = self.heap.slots();
        let own = self.instance.extra();
        let mut taken = 0;
        // SAFETY: the instance is the slot's, and this slot owns its queues; queued frees are numbers of its entries.
        unsafe {
            let [_, last] = (*own).waiting;
            while taken < budget {
                loop_bound!(LoopBound::Caller);
                let [first, _] = (*own).waiting;
                if first == NONE {
                    break;
                }
                if self.instance.revisit() {
                    self.instance.compact_step(IOTA);
                }
                taken += 1;
                if first == last {
                    break;
                }
            }
            let (mut processed, mut iteration) = (0, 0);
            while iteration < budget {
                loop_bound!(LoopBound::Caller);
                iteration += 1;
                let latest = match QueuedFree::new((*own).chain) {
                    Some(queued) => Some(queued),
                    None => {
                        self.common().pending_bits.collect(slots, |producer| self.heap.queue(producer, self.number))
                    }
                };
                match latest {
                    Some(queued) => {
                        let number = queued.get().wrapping_sub(1);
                        let entry = self.instance.entry(number);
                        // First, so that a free is processed once, whatever happens to the entry.
                        (*own).chain = entry.link().load(Relaxed);
                        self.take_entry(number, entry.arrive());
                        processed += 1;
                    }
                    // The bit's frees were collected earlier, but another bit is set.
                    None if self.common().pending_bits.any() => {}
                    None => break,
                }
            }
            taken.wrapping_add(processed)
        }
    }

    /// For idle time: takes back at most `budget` remote frees, and examines as many objects that were pinned when they
    /// were freed. Returns the sum of both.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        self.take_back(budget)
    }

    /// For idle time: moves at most `budget_bytes` bytes of pending compaction, and returns how many. Less than the
    /// budget, but for 15, if nothing is pending or the objects that could be moved are pinned.
    ///
    /// # Time
    ///
    /// Linear in the budget and in the objects of the classes with pending compaction.
    pub fn compact(&mut self, budget_bytes: usize) -> usize {
        // SAFETY: the instance is the slot's, and only this value uses it.
        unsafe { self.instance.compact(budget_bytes) }
    }

    /// Whether compaction is pending: a size class has more not-full pages than it may have, or a move is under way.
    ///
    /// # Time
    ///
    /// Constant.
    pub fn has_pending_compaction(&self) -> bool {
        // SAFETY: the instance is the slot's, and only this value uses it.
        unsafe { steps::is_pending(self.instance) }
    }
}
