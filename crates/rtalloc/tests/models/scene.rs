//! Where a model plays: the words that the threads share, as the model checker's; the memory they own, and who owns it.
//!
//! A heap's words lie in its region as numbers; loom wants an atomic of its own for each, made before the threads are.
//! Which words are shared is not known beforehand: it is learned. An access to a word that the scene has no atomic for
//! ends the exploration, and the next one begins with an atomic more. Whatever loom says a word is, is also written to
//! its memory, so that a heap can be verified when the threads are gone.
//!
//! The memory that is handed out is a loom cell for every granule. Its owner writes it when it comes and before it
//! goes, so that loom finds an owner before whom the last one's writes did not happen.

use crate::controls::{Control, Half, Site};
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

/// Memory is owned by so many bytes at least.
const GRANULE_BYTES: usize = 16;
/// Regions begin at a multiple of this, so that a model is the same in every run.
const ALIGN_BYTES: usize = 1 << 16;
/// What fresh memory holds.
const FRESH: u8 = 0xA5;

/// The exploration met a word that it has no atomic for, and must begin anew.
pub struct NewWord;

/// A word in the hands of loom.
enum Atom {
    Byte(AtomicU8),
    Half(AtomicU32),
    Full(AtomicUsize),
}

/// A shared word.
struct SharedWord {
    atom: Atom,
    /// What was last written by loom's doing.
    last: Cell<usize>,
    /// How often it was written.
    writes: Cell<usize>,
    /// Whether it was ever changed by a step that reads and writes.
    is_changed: Cell<bool>,
    /// Written by stores, read by changes, where these must be ordered.
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

/// The steps of a thread's operation.
#[derive(Clone, Copy)]
struct Ledger {
    taken: Steps,
    most: Option<Steps>,
}

/// What a thread of the operating system knows of the model it explores; loom's threads all run on it.
#[derive(Default)]
struct Stage {
    model: &'static str,
    memory: Option<NonNull<u8>>,
    region_bytes: usize,
    is_shared: bool,
    /// Every store of a word must come before or after each change of it, by what the threads know of each other: it is
    /// the owner's. (loom lets a change read the last write there is, known or not.)
    stores_are_ordered: bool,
    /// This execution is none of the language's: nothing in it counts.
    is_void: bool,
    /// The words of this execution, by address.
    words: BTreeMap<usize, Rc<SharedWord>>,
    /// Widths of all words met in any execution of this model, by address.
    known: BTreeMap<usize, usize>,
    /// Memory that may be owned, by granule.
    granules: BTreeMap<usize, Rc<UnsafeCell<()>>>,
    owned: BTreeSet<usize>,
    ledgers: HashMap<loom::thread::ThreadId, Ledger>,
    /// Every access that orders anything, and which halves it has.
    ordered: BTreeSet<(Site, Half)>,
    weakened: Option<Control>,
    executions: usize,
    /// Most steps that an operation took.
    longest: usize,
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::default();
    /// What was learned of the words of each model.
    static LEARNED: RefCell<HashMap<&'static str, BTreeMap<usize, usize>>> = RefCell::default();
}

fn stage<R>(look: impl FnOnce(&mut Stage) -> R) -> R {
    STAGE.with_borrow_mut(look)
}

/// Begins to explore a model from nothing but its shared words, as far as they were learned.
pub fn reset(model: &'static str, region_bytes: usize, stores_are_ordered: bool, weakened: Option<Control>) {
    let memory = stage(|stage| stage.memory.filter(|_| stage.region_bytes == region_bytes && stage.model == model));
    let memory = memory.unwrap_or_else(|| {
        let layout = Layout::from_size_align(region_bytes, ALIGN_BYTES).expect("a small layout");
        // SAFETY: the layout is not empty. The memory is never given back: threads of an execution that failed may
        // still have pointers into it.
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
            weakened,
            known,
            ..Stage::default()
        };
    });
}

/// What an exploration was: executions, and the longest operation in steps.
pub fn explored() -> (usize, usize) {
    stage(|stage| (stage.executions, stage.longest))
}

/// The accesses of the exploration that order anything.
pub fn ordered() -> BTreeSet<(Site, Half)> {
    stage(|stage| stage.ordered.clone())
}

/// Begins an execution: the region, fresh.
pub fn region() -> &'static mut [MaybeUninit<u8>] {
    stage(|stage| {
        stage.executions += 1;
        stage.is_shared = false;
        stage.is_void = false;
        stage.words.clear();
        stage.granules.clear();
        stage.owned.clear();
        stage.ledgers.clear();
        let memory = stage.memory.expect("a model that was begun");
        // SAFETY: the memory is this long; the heap of the execution before this one is gone.
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
        // SAFETY: the word was accessed at this width in the region, which is still there.
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

/// Whether nothing in this execution counts.
pub fn is_void() -> bool {
    stage(|stage| stage.is_void)
}

/// The threads are gone: the region is one user's again.
pub fn gather() {
    stage(|stage| stage.is_shared = false);
}

/// # Safety
///
/// `address` is that of an aligned word of `width` bytes in the region.
unsafe fn read(address: usize, width: usize) -> usize {
    let pointer = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the caller's promise.
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
        let start = stage.memory.expect("a model that was begun").addr().get();
        let offset = block.addr().get().checked_sub(start).expect("a block lies in the region");
        assert!(offset + len_bytes <= stage.region_bytes, "a block reaches beyond the region");
        offset / GRANULE_BYTES..(offset + len_bytes).div_ceil(GRANULE_BYTES)
    })
}

/// The cell of a granule. Its first owner makes it.
fn cell_of(granule: usize) -> Rc<UnsafeCell<()>> {
    let known = stage(|stage| stage.granules.get(&granule).cloned());
    known.unwrap_or_else(|| {
        let cell = Rc::new(UnsafeCell::new(()));
        stage(|stage| stage.granules.insert(granule, cell.clone()));
        cell
    })
}

/// A thread was given a block: nobody else has it, and it may write it.
pub fn own(block: NonNull<u8>, len_bytes: usize) {
    if is_void() || !stage(|stage| stage.is_shared) {
        return;
    }
    for granule in granules_of(block, len_bytes) {
        stage(|stage| assert!(stage.owned.insert(granule), "two threads own granule {granule}"));
        cell_of(granule).with_mut(|_| ());
    }
}

/// The owner of a block writes it for the last time, and is about to free it.
pub fn disown(block: NonNull<u8>, len_bytes: usize) {
    if is_void() {
        return;
    }
    for granule in granules_of(block, len_bytes) {
        cell_of(granule).with_mut(|_| ());
        stage(|stage| assert!(stage.owned.remove(&granule), "nobody owns granule {granule}"));
    }
}

/// A thread reads memory that others may read at the same time. Whoever comes to it first writes it, as far as loom is
/// concerned.
pub fn look(block: NonNull<u8>, len_bytes: usize) {
    granules_of(block, len_bytes).for_each(|granule| cell_of(granule).with(|_| ()));
}

/// A thread writes memory, which nobody else uses at the same time.
pub fn write(block: NonNull<u8>, len_bytes: usize) {
    granules_of(block, len_bytes).for_each(|granule| cell_of(granule).with_mut(|_| ()));
}

/// Performs an operation of this thread, which must end within `most` steps.
pub fn measured<R>(most: Option<Steps>, operation: impl FnOnce() -> R) -> R {
    let me = loom::thread::current().id();
    stage(|stage| stage.ledgers.insert(me, Ledger { taken: Steps::default(), most }));
    let answer = operation();
    stage(|stage| {
        let ledger = stage.ledgers.remove(&me).expect("inserted above");
        stage.longest = stage.longest.max(ledger.taken.total());
    });
    answer
}

/// The atomics of the model checker, each step counted and each order weakened that the control is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loomed;

/// What an access needs to know: its word, unless nobody shares it, and its order.
#[track_caller]
fn meet<W: Word>(cell: *mut W, step: Step, order: Ordering) -> (Option<Rc<SharedWord>>, Ordering) {
    let site = Site::of(Location::caller(), step);
    let address = cell.expose_provenance();
    // What is dropped because an execution failed is no more a part of it.
    let is_shared = stage(|stage| stage.is_shared) && !std::thread::panicking();
    if !is_shared {
        return (None, order);
    }
    let me = loom::thread::current().id();
    let (word, order) = stage(|stage| {
        stage.ordered.extend(site.halves(order).map(|half| (site, half)));
        let order = stage.weakened.map_or(order, |control| control.weaken(site, order));
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
            return (stage.words.get(&address).cloned(), order);
        }
        let width = size_of::<W>();
        let start = stage.memory.expect("a model that was begun").addr().get();
        assert!((start..start + stage.region_bytes).contains(&address), "a shared word outside the region, at {site}");
        let near = stage.known.range(..address + width).next_back();
        assert!(near.is_none_or(|(&at, &wide)| at + wide <= address), "a word of two widths, at {site}");
        LEARNED.with_borrow_mut(|learned| learned.entry(stage.model).or_default().insert(address - start, width));
        (None, order)
    });
    let Some(word) = word else { panic_any(NewWord) };
    if step != Step::Store {
        // SAFETY: the caller of the access promised a word that is valid for reads; loom's threads take turns.
        let raw = unsafe { cell.read() }.widen();
        assert!(is_void() || raw == word.last.get(), "a shared word was written by a plain write, before {site}");
    }
    (Some(word), order)
}

/// A change of a word comes after every store of it that is not to come after the change.
fn meet_stores(word: &SharedWord) {
    if stage(|stage| stage.stores_are_ordered && !stage.is_void) {
        word.stores.with(|_| ());
    }
}

/// Notes what the word is now.
///
/// # Safety
///
/// `cell` is valid for writes.
unsafe fn put<W: Word>(cell: *mut W, word: &SharedWord, value: usize) {
    word.last.set(W::narrow(value).widen());
    word.writes.set(word.writes.get() + 1);
    // SAFETY: the caller's promise; loom's threads take turns.
    unsafe { cell.write(W::narrow(value)) }
}

/// A word after a change.
fn changed<W: Word>(old: usize, change: Rmw, operand: usize) -> usize {
    let new = match change {
        Rmw::Add => old.wrapping_add(operand),
        Rmw::And => old & operand,
        Rmw::Or => old | operand,
        Rmw::Swap => operand,
    };
    W::narrow(new).widen()
}

// SAFETY: loom's atomics of the same name, or plain accesses while one thread alone has the region.
unsafe impl Atomics for Loomed {
    #[track_caller]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        let (word, order) = meet(cell, Step::Load, order);
        let Some(word) = word else {
            // SAFETY: the caller's promise; nobody shares the word, here and below.
            return unsafe { cell.read() };
        };
        W::narrow(with_width!(&word.atom, atomic, _narrow => atomic.load(order)))
    }

    #[track_caller]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        let (word, order) = meet(cell, Step::Store, order);
        let Some(word) = word else {
            // SAFETY: as above.
            return unsafe { cell.write(value) };
        };
        let value = value.widen();
        if stage(|stage| stage.stores_are_ordered && !stage.is_void) {
            word.stores.with_mut(|_| ());
        }
        // A step that reads and writes reads what was written last before it. loom forgets that: to it, a store may
        // come before a change that is over, by another thread, of an older value, and is lost (`reach`). So the store
        // follows a change of nothing, and an execution in which somebody writes between the two is none.
        if word.is_changed.get() {
            with_width!(&word.atom, atomic, narrow => atomic.fetch_or(narrow(0), Ordering::Relaxed));
        }
        let writes = word.writes.get();
        with_width!(&word.atom, atomic, narrow => {
            atomic.store(narrow(value), order);
            narrow(0)
        });
        if word.is_changed.get() && word.writes.get() != writes {
            stage(|stage| stage.is_void = true);
            loom::skip_branch();
        }
        // SAFETY: the caller's promise, here and below.
        unsafe { put(cell, &word, value) };
    }

    #[track_caller]
    unsafe fn modify<W: Word>(cell: *mut W, change: Rmw, operand: W, order: Ordering) -> W {
        let (word, order) = meet(cell, Step::Modify(change), order);
        let operand = operand.widen();
        let Some(word) = word else {
            // SAFETY: as above.
            let old = unsafe { cell.read() };
            // SAFETY: as above.
            unsafe { cell.write(W::narrow(changed::<W>(old.widen(), change, operand))) };
            return old;
        };
        word.is_changed.set(true);
        let old = with_width!(&word.atom, atomic, narrow => match change {
            Rmw::Add => atomic.fetch_add(narrow(operand), order),
            Rmw::And => atomic.fetch_and(narrow(operand), order),
            Rmw::Or => atomic.fetch_or(narrow(operand), order),
            Rmw::Swap => atomic.swap(narrow(operand), order),
        });
        meet_stores(&word);
        // SAFETY: as above.
        unsafe { put(cell, &word, changed::<W>(old, change, operand)) };
        W::narrow(old)
    }

    #[track_caller]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, order: Ordering) -> Result<W, W> {
        let (word, order) = meet(cell, Step::CompareExchange, order);
        let Some(word) = word else {
            // SAFETY: as above.
            let old = unsafe { cell.read() };
            if old != current {
                return Err(old);
            }
            // SAFETY: as above.
            unsafe { cell.write(new) };
            return Ok(old);
        };
        let (expected, value) = (current.widen(), new.widen());
        let mut is_exchanged = false;
        word.is_changed.set(true);
        let old = with_width!(&word.atom, atomic, narrow => {
            match atomic.compare_exchange(narrow(expected), narrow(value), order, reading(order)) {
                Ok(old) => {
                    is_exchanged = true;
                    old
                }
                Err(old) => old,
            }
        });
        meet_stores(&word);
        if is_exchanged {
            // SAFETY: as above.
            unsafe { put(cell, &word, value) };
            return Ok(W::narrow(old));
        }
        Err(W::narrow(old))
    }
}
