//! The environment of a model: the shared words, as the model checker's atomics; the memory that threads own, and its
//! owners.
//!
//! A heap's words lie in its region as plain numbers; loom needs an atomic object for each, created before the threads.
//! Which words are shared is not known in advance: it is learned. An access to a word without an atomic ends the
//! exploration, and the next one begins with one more atomic. Every value that loom assigns to a word is also written
//! to its memory, so that the heap can be verified after the threads have ended.
//!
//! Each granule of allocated memory is a loom cell. Its owner writes it after the allocation and before the free, so
//! that loom detects an owner whose accesses are not ordered after the previous owner's.

use crate::controls::{Half, Mutation, Site};
use crate::mutants::{Change, Moment};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize};
use rtalloc::concurrent::atomics::{Atomics, Rmw, Step, Word, reading};
use rtalloc::contract::Steps;
use std::alloc::{Layout, alloc};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::panic::{Location, panic_any};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Ownership is recorded per granule of this many bytes.
const GRANULE_BYTES: usize = 16;
/// Regions begin at a multiple of this, so that a model is the same in every run.
const ALIGN_BYTES: usize = 1 << 16;
/// The content of fresh memory.
const FRESH: u8 = 0xA5;

/// The exploration accessed a word without an atomic, and must restart.
pub struct NewWord;

/// A word as a loom atomic.
enum Atom {
    Byte(AtomicU8),
    Half(AtomicU32),
    Full(AtomicUsize),
}

/// A shared word.
struct SharedWord {
    atom: Atom,
    /// The last value that loom wrote.
    last: Cell<usize>,
    /// Number of writes.
    writes: Cell<usize>,
    /// Whether it was ever changed by an RMW.
    is_changed: Cell<bool>,
    /// Written by stores and read by RMWs, if these must be ordered.
    stores: UnsafeCell<()>,
}

/// Calls a method of the atomic with numbers of its width.
macro_rules! with_width {
    ($atom:expr, $atomic:ident, $narrow:ident => $body:expr) => {
        match $atom {
            Atom::Byte($atomic) => {
                let $narrow = |wide: usize| wide as u8;
                let value = $body;
                value as usize
            }
            Atom::Half($atomic) => {
                let $narrow = |wide: usize| wide as u32;
                let value = $body;
                value as usize
            }
            Atom::Full($atomic) => {
                let $narrow = |wide: usize| wide;
                $body
            }
        }
    };
}

/// The steps of a thread's current operation.
#[derive(Clone, Copy)]
struct Ledger {
    taken: Steps,
    most: Option<Steps>,
}

/// A step that a mutation postpones.
struct Postponed {
    until: Moment,
    step: Box<dyn FnOnce()>,
}

/// What a thread did, for mutations that depend on it.
#[derive(Default)]
struct Trace {
    /// Its last load of each word.
    loaded: HashMap<usize, usize>,
    /// The words that its current operation has changed.
    changed: BTreeSet<usize>,
    postponed: Vec<Postponed>,
}

/// State of the explored model in an operating-system thread; all of loom's threads run on it.
#[derive(Default)]
struct Stage {
    model: &'static str,
    memory: Option<NonNull<u8>>,
    region_bytes: usize,
    is_shared: bool,
    /// Every store to a word must be ordered before or after each RMW of it by happens-before: only the owner stores.
    /// (loom lets an RMW read the last write, whether ordered or not.)
    stores_are_ordered: bool,
    /// This execution is impossible in the language: its results are ignored.
    is_void: bool,
    /// The words of this execution, by address.
    words: BTreeMap<usize, Rc<SharedWord>>,
    /// Widths of all words accessed in any execution of this model, by address.
    known: BTreeMap<usize, usize>,
    /// Memory that may be owned, by granule.
    granules: BTreeMap<usize, Rc<UnsafeCell<()>>>,
    owned: BTreeSet<usize>,
    ledgers: HashMap<loom::thread::ThreadId, Ledger>,
    /// Every access that orders anything, with its halves.
    ordered: BTreeSet<(Site, Half)>,
    mutation: Option<Mutation>,
    /// What each thread did, if a step is changed.
    traces: HashMap<loom::thread::ThreadId, Trace>,
    executions: usize,
    /// Most steps of any operation.
    longest: usize,
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::default();
    /// The learned words of each model.
    static LEARNED: RefCell<HashMap<&'static str, BTreeMap<usize, usize>>> = RefCell::default();
}

fn stage<R>(look: impl FnOnce(&mut Stage) -> R) -> R {
    STAGE.with_borrow_mut(look)
}

/// Begins the exploration of a model, with only the learned shared words.
pub fn reset(model: &'static str, region_bytes: usize, stores_are_ordered: bool, mutation: Option<Mutation>) {
    let memory = stage(|stage| stage.memory.filter(|_| stage.region_bytes == region_bytes && stage.model == model));
    let memory = memory.unwrap_or_else(|| {
        let layout = Layout::from_size_align(region_bytes, ALIGN_BYTES).expect("a small layout");
        // SAFETY: the layout is not empty. The memory is never freed: threads of a failed execution may still have
        // pointers into it.
        NonNull::new(unsafe { alloc(layout) }).expect("memory for a small heap")
    });
    let start = memory.addr().get();
    let known = LEARNED.with_borrow(|learned| learned.get(model).cloned()).unwrap_or_default();
    let known = known.into_iter().map(|(offset, width)| (start + offset, width)).collect();
    stage(|stage| {
        *stage = Stage {
            model,
            memory: Some(memory),
            region_bytes,
            stores_are_ordered,
            mutation,
            known,
            ..Stage::default()
        };
    });
}

/// Statistics of an exploration: executions, and the longest operation in steps.
pub fn explored() -> (usize, usize) {
    stage(|stage| (stage.executions, stage.longest))
}

/// The accesses of the exploration that order anything.
pub fn ordered() -> BTreeSet<(Site, Half)> {
    stage(|stage| stage.ordered.clone())
}

/// Begins an execution: returns the region, with fresh content.
pub fn region() -> &'static mut [MaybeUninit<u8>] {
    stage(|stage| {
        stage.executions += 1;
        stage.is_shared = false;
        stage.is_void = false;
        stage.words.clear();
        stage.granules.clear();
        stage.owned.clear();
        stage.ledgers.clear();
        stage.traces.clear();
        let memory = stage.memory.expect("a model was started");
        // SAFETY: the memory is this long; the heap of the previous execution no longer exists.
        unsafe {
            memory.write_bytes(FRESH, stage.region_bytes);
            std::slice::from_raw_parts_mut(memory.as_ptr().cast(), stage.region_bytes)
        }
    })
}

/// From now on, until [`gather`], threads share the region.
pub fn share() {
    let known = stage(|stage| stage.known.clone());
    let words = known.into_iter().map(|(address, width)| {
        // SAFETY: the word was accessed at this width in the region, which is never freed.
        let value = unsafe { read(address, width) };
        let atom = match width {
            1 => Atom::Byte(AtomicU8::new(value as u8)),
            4 => Atom::Half(AtomicU32::new(value as u32)),
            _ => Atom::Full(AtomicUsize::new(value)),
        };
        (
            address,
            Rc::new(SharedWord {
                atom,
                last: Cell::new(value),
                writes: Cell::new(0),
                is_changed: Cell::new(false),
                stores: UnsafeCell::new(()),
            }),
        )
    });
    let words = words.collect();
    stage(|stage| {
        stage.words = words;
        stage.is_shared = true;
    });
}

/// Whether this execution is ignored.
pub fn is_void() -> bool {
    stage(|stage| stage.is_void)
}

/// The threads have ended: the region has one user again.
pub fn gather() {
    perform(None, &[Moment::AfterNextRmw, Moment::AfterOperation]);
    stage(|stage| stage.is_shared = false);
}

/// Performs what a mutation postponed to one of these moments: of this thread, or of all.
fn perform(thread: Option<loom::thread::ThreadId>, moments: &[Moment]) {
    let due: Vec<Postponed> = stage(|stage| {
        let traces = stage.traces.iter_mut().filter(|(id, _)| thread.is_none_or(|thread| thread == **id));
        traces.flat_map(|(_, trace)| trace.postponed.extract_if(.., |one| moments.contains(&one.until))).collect()
    });
    due.into_iter().for_each(|postponed| (postponed.step)());
}

/// Whether a step of the algorithm is changed in this exploration.
fn has_changed_step() -> bool {
    stage(|stage| matches!(stage.mutation, Some(Mutation::Step(_))))
}

/// The trace of this thread.
fn trace<R>(look: impl FnOnce(&mut Trace) -> R) -> R {
    let me = loom::thread::current().id();
    stage(|stage| look(stage.traces.entry(me).or_default()))
}

/// Postpones a step of this thread.
fn postpone(until: Moment, step: impl FnOnce() + 'static) {
    trace(|trace| trace.postponed.push(Postponed { until, step: Box::new(step) }));
}

/// # Safety
///
/// `address` is that of an aligned word of `width` bytes in the region.
unsafe fn read(address: usize, width: usize) -> usize {
    let pointer = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the address is that of an aligned word of this width in the region, whose provenance is exposed.
    unsafe {
        match width {
            1 => usize::from(pointer.read()),
            4 => pointer.cast::<u32>().read() as usize,
            _ => pointer.cast::<usize>().read(),
        }
    }
}

/// The granules of a block.
fn granules_of(block: NonNull<u8>, len_bytes: usize) -> std::ops::Range<usize> {
    stage(|stage| {
        let start = stage.memory.expect("a model was started").addr().get();
        let offset = block.addr().get().checked_sub(start).expect("a block lies in the region");
        assert!(offset + len_bytes <= stage.region_bytes, "a block reaches beyond the region");
        offset / GRANULE_BYTES..(offset + len_bytes).div_ceil(GRANULE_BYTES)
    })
}

/// The cell of a granule, created by its first owner.
fn cell_of(granule: usize) -> Rc<UnsafeCell<()>> {
    let known = stage(|stage| stage.granules.get(&granule).cloned());
    known.unwrap_or_else(|| {
        let cell = Rc::new(UnsafeCell::new(()));
        stage(|stage| stage.granules.insert(granule, cell.clone()));
        cell
    })
}

/// Records that a thread owns a block: no other thread may own it, and the owner may write it.
pub fn own(block: NonNull<u8>, len_bytes: usize) {
    if is_void() || !stage(|stage| stage.is_shared) {
        return;
    }
    for granule in granules_of(block, len_bytes) {
        stage(|stage| assert!(stage.owned.insert(granule), "two threads own granule {granule}"));
        cell_of(granule).with_mut(|_| ());
    }
}

/// Records the owner's last write to a block, before it is freed.
pub fn disown(block: NonNull<u8>, len_bytes: usize) {
    if is_void() {
        return;
    }
    for granule in granules_of(block, len_bytes) {
        cell_of(granule).with_mut(|_| ());
        stage(|stage| assert!(stage.owned.remove(&granule), "granule {granule} has no owner"));
    }
}

/// A thread reads memory that others may read concurrently. The first thread to access it counts as its writer in loom.
pub fn look(block: NonNull<u8>, len_bytes: usize) {
    granules_of(block, len_bytes).for_each(|granule| cell_of(granule).with(|_| ()));
}

/// A thread writes memory exclusively.
pub fn write(block: NonNull<u8>, len_bytes: usize) {
    granules_of(block, len_bytes).for_each(|granule| cell_of(granule).with_mut(|_| ()));
}

/// Performs an operation of this thread, which must end within `most` steps.
pub fn measured<R>(most: Option<Steps>, operation: impl FnOnce() -> R) -> R {
    let me = loom::thread::current().id();
    perform(Some(me), &[Moment::AfterOperation]);
    stage(|stage| {
        stage.ledgers.insert(me, Ledger { taken: Steps::default(), most });
        stage.traces.entry(me).and_modify(|trace| trace.changed.clear());
    });
    let answer = operation();
    perform(Some(me), &[Moment::AfterNextRmw]);
    stage(|stage| {
        let ledger = stage.ledgers.remove(&me).expect("inserted above");
        stage.longest = stage.longest.max(ledger.taken.total());
    });
    answer
}

/// The model checker's atomics, with steps counted and with the mutation of the exploration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loomed;

/// An access to a shared word: the word, its order, and how a mutation changes it.
struct Access {
    word: Rc<SharedWord>,
    order: Ordering,
    change: Option<Change>,
}

/// The access, unless the word is not shared.
#[track_caller]
fn access<W: Word>(cell: *mut W, step: Step, order: Ordering) -> Option<Access> {
    let site = Site::of(Location::caller(), step);
    let address = cell.expose_provenance();
    // Drops in a failed execution are not part of the model.
    let is_shared = stage(|stage| stage.is_shared) && !std::thread::panicking();
    if !is_shared {
        return None;
    }
    let me = loom::thread::current().id();
    let (word, order, change) = stage(|stage| {
        stage.ordered.extend(site.halves(order).map(|half| (site, half)));
        let (order, change) = match stage.mutation {
            Some(Mutation::Order(control)) => (control.weaken(site, order), None),
            Some(Mutation::Step(changed)) => (order, changed.at(site)),
            None => (order, None),
        };
        if let Some(ledger) = stage.ledgers.get_mut(&me) {
            match step {
                Step::Load => ledger.taken.loads += 1,
                Step::Store => ledger.taken.stores += 1,
                Step::Modify(_) | Step::CompareExchange => ledger.taken.read_modify_writes += 1,
            }
            let is_within = stage.is_void || ledger.most.is_none_or(|most| ledger.taken.within(most));
            assert!(
                is_within,
                "an operation takes {:?}, at most {:?} are promised, at {site}",
                ledger.taken, ledger.most
            );
        }
        if stage.words.contains_key(&address) {
            return (stage.words.get(&address).cloned(), order, change);
        }
        let width = size_of::<W>();
        let start = stage.memory.expect("a model was started").addr().get();
        assert!((start..start + stage.region_bytes).contains(&address), "a shared word outside the region, at {site}");
        let near = stage.known.range(..address + width).next_back();
        assert!(near.is_none_or(|(&at, &wide)| at + wide <= address), "a word of two widths, at {site}");
        LEARNED.with_borrow_mut(|learned| learned.entry(stage.model).or_default().insert(address - start, width));
        (None, order, change)
    });
    let Some(word) = word else { panic_any(NewWord) };
    if step != Step::Store {
        // SAFETY: the caller guarantees that the word is valid for reads; loom's threads run one at a time.
        let raw = unsafe { cell.read() }.widen();
        assert!(is_void() || raw == word.last.get(), "a shared word was written by a plain write, before {site}");
    }
    Some(Access { word, order, change })
}

/// An RMW of a word is ordered after every store to it that is not ordered after the RMW.
fn order_after_stores(word: &SharedWord) {
    if stage(|stage| stage.stores_are_ordered && !stage.is_void) {
        word.stores.with(|_| ());
    }
}

/// Stores the new value of a word.
///
/// # Safety
///
/// `cell` is valid for writes.
unsafe fn put<W: Word>(cell: *mut W, word: &SharedWord, value: usize) {
    word.last.set(W::narrow(value).widen());
    word.writes.set(word.writes.get() + 1);
    // SAFETY: the cell is valid for writes, and loom's threads run one at a time.
    unsafe { cell.write(W::narrow(value)) }
}

/// The value of a word after an RMW.
fn changed<W: Word>(old: usize, change: Rmw, operand: usize) -> usize {
    let new = match change {
        Rmw::Add => old.wrapping_add(operand),
        Rmw::And => old & operand,
        Rmw::Or => old | operand,
        Rmw::Swap => operand,
    };
    W::narrow(new).widen()
}

impl SharedWord {
    fn load(&self, order: Ordering) -> usize {
        with_width!(&self.atom, atomic, _narrow => atomic.load(order))
    }

    /// # Safety
    ///
    /// `cell` is this word's, valid for writes; here and below.
    unsafe fn store<W: Word>(&self, cell: *mut W, value: usize, order: Ordering) {
        if stage(|stage| stage.stores_are_ordered && !stage.is_void) {
            self.stores.with_mut(|_| ());
        }
        // An RMW reads the last write before it. loom does not preserve that: it may order a store of another thread
        // before a finished RMW that read an older value, and the store is lost (`reach`). So the store follows an RMW
        // that changes nothing, and an execution in which another thread writes between the two is ignored.
        if self.is_changed.get() {
            with_width!(&self.atom, atomic, narrow => atomic.fetch_or(narrow(0), Ordering::Relaxed));
        }
        let writes = self.writes.get();
        with_width!(&self.atom, atomic, narrow => {
            atomic.store(narrow(value), order);
            narrow(0)
        });
        if self.is_changed.get() && self.writes.get() != writes {
            stage(|stage| stage.is_void = true);
            loom::skip_branch();
        }
        // SAFETY: `cell` is valid for writes.
        unsafe { put(cell, self, value) };
    }

    /// Returns the previous value, as the following do.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn modify<W: Word>(&self, cell: *mut W, change: Rmw, operand: usize, order: Ordering) -> usize {
        self.is_changed.set(true);
        let old = with_width!(&self.atom, atomic, narrow => match change {
            Rmw::Add => atomic.fetch_add(narrow(operand), order),
            Rmw::And => atomic.fetch_and(narrow(operand), order),
            Rmw::Or => atomic.fetch_or(narrow(operand), order),
            Rmw::Swap => atomic.swap(narrow(operand), order),
        });
        order_after_stores(self);
        // SAFETY: `cell` is valid for writes.
        unsafe { put(cell, self, changed::<W>(old, change, operand)) };
        old
    }

    /// # Safety
    ///
    /// As above.
    unsafe fn compare_exchange<W: Word>(
        &self,
        cell: *mut W,
        expected: usize,
        value: usize,
        order: Ordering,
    ) -> Result<usize, usize> {
        let mut is_exchanged = false;
        self.is_changed.set(true);
        let old = with_width!(&self.atom, atomic, narrow => {
            match atomic.compare_exchange(narrow(expected), narrow(value), order, reading(order)) {
                Ok(old) => {
                    is_exchanged = true;
                    old
                }
                Err(old) => old,
            }
        });
        order_after_stores(self);
        if !is_exchanged {
            return Err(old);
        }
        // SAFETY: `cell` is valid for writes.
        unsafe { put(cell, self, value) };
        Ok(old)
    }

    /// Reads the latest value and then writes another, in two steps; nothing for `None`, which is an error.
    ///
    /// # Safety
    ///
    /// As above.
    unsafe fn torn<W: Word>(
        &self,
        cell: *mut W,
        new: impl FnOnce(usize) -> Option<usize>,
        order: Ordering,
    ) -> Result<usize, usize> {
        // SAFETY: by this function's contract. An RMW that changes nothing reads the latest value.
        unsafe {
            let old = self.modify(cell, Rmw::Or, 0, reading(order));
            let Some(new) = new(old) else { return Err(old) };
            self.modify(cell, Rmw::Swap, new, order);
            Ok(old)
        }
    }
}

/// The thread has performed an RMW.
fn performed(address: usize) {
    if has_changed_step() {
        trace(|trace| trace.changed.insert(address));
        perform(Some(loom::thread::current().id()), &[Moment::AfterNextRmw]);
    }
}

// SAFETY: loom's atomics of the same name, or plain accesses while only one thread uses the region; but for an
// intentional mutation.
unsafe impl Atomics for Loomed {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        let Some(Access { word, order, .. }) = access(cell, Step::Load, order) else {
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            return unsafe { cell.read() };
        };
        let value = word.load(order);
        if has_changed_step() {
            trace(|trace| trace.loaded.insert(cell.addr(), value));
        }
        W::narrow(value)
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        let Some(Access { word, order, change }) = access(cell, Step::Store, order) else {
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            return unsafe { cell.write(value) };
        };
        let value = if let Some(Change::Masked(mask)) = change { value.widen() & mask } else { value.widen() };
        // SAFETY: the cell is valid, and remains so: the region is never freed.
        let step = move || unsafe { word.store(cell, value, order) };
        match change {
            Some(Change::Postponed(until)) => postpone(until, step),
            Some(Change::PostponedIfZero(until)) if value == 0 => postpone(until, step),
            Some(Change::PostponedUnlessZero(until)) if value != 0 => postpone(until, step),
            _ => step(),
        }
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
        let operand = operand.widen();
        let Some(Access { word, order, change: mutant }) = access(cell, Step::Modify(change), order) else {
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            let old = unsafe { cell.read() };
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            unsafe { cell.write(W::narrow(changed::<W>(old.widen(), change, operand))) };
            return old;
        };
        // SAFETY: the cell is valid, and remains so: the region is never freed.
        let old = unsafe {
            match mutant {
                Some(Change::Load) => word.load(reading(order)),
                Some(Change::LeftOut) => 0,
                Some(Change::LeftOutAsUndo) if trace(|trace| trace.changed.contains(&cell.addr())) => 0,
                Some(Change::AsLoaded) => trace(|trace| trace.loaded[&cell.addr()]),
                Some(Change::Torn) => {
                    let new = |old| Some(changed::<W>(old, change, operand));
                    word.torn(cell, new, order).unwrap_or_else(|old| old)
                }
                Some(Change::Masked(mask)) => word.modify(cell, change, operand & mask, order),
                Some(Change::Postponed(until)) => {
                    let late = word.clone();
                    postpone(until, move || {
                        late.modify(cell, change, operand, order);
                    });
                    return W::narrow(word.last.get());
                }
                _ => word.modify(cell, change, operand, order),
            }
        };
        performed(cell.addr());
        W::narrow(old)
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        let Some(Access { word, order, change }) = access(cell, Step::CompareExchange, order) else {
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            let old = unsafe { cell.read() };
            if old != current {
                return Err(old);
            }
            // SAFETY: the cell is valid, and loom's threads run one at a time.
            unsafe { cell.write(new) };
            return Ok(old);
        };
        let (expected, value) = (current.widen(), new.widen());
        // SAFETY: the cell is valid.
        let answer = unsafe {
            match change {
                Some(Change::Torn) => word.torn(cell, |old| (old == expected).then_some(value), order),
                _ => word.compare_exchange(cell, expected, value, order),
            }
        };
        performed(cell.addr());
        answer.map(W::narrow).map_err(W::narrow)
    }
}
