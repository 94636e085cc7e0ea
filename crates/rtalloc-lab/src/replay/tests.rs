//! Whole cells: every subject, and allocators with deliberate faults.

use super::isolate::Board;
use super::processor::Budget;
use super::settings::{Probes, Settings, automatic_heap_bytes};
use super::whole_trace::{End, WholeTrace};
use super::{Fault, NoObserver, Replay};
use crate::experiment::cells::measure;
use crate::probe::{Task, space};
use crate::result::schema::{Cell, Origin, Outcome};
use crate::tier::is_full;
use crate::trace::{self, Event, Meta, Op, TickUnit, Totals, Writer};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rtalloc_subjects::adapter::{self, Made, Target};
use rtalloc_subjects::{About, Handles, Heap, NATURAL_ALIGN_BYTES, Reach, Region, Subject, all, select};
use std::cell::Cell as StdCell;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;
use tempfile::NamedTempFile;

/// A random program of `count` operations: mostly small blocks, some aligned, some reallocated.
pub(crate) fn random_events(count: usize, seed: u64) -> Vec<Event> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut live: Vec<(u32, u32)> = Vec::new();
    let mut free: Vec<u32> = Vec::new();
    let mut used = 0;
    (0..count as u64)
        .map(|tick| {
            let op = match random.random_range(0..10) {
                0..=2 if live.len() > 4 => {
                    let (slot, _) = live.swap_remove(random.random_range(0..live.len()));
                    free.push(slot);
                    Op::Free { slot }
                }
                3 if !live.is_empty() => {
                    let (slot, align) = live[random.random_range(0..live.len())];
                    Op::Reallocate { slot, size: random.random_range(1..3000), align }
                }
                kind => {
                    let slot = free.pop().unwrap_or_else(|| {
                        used += 1;
                        used - 1
                    });
                    let align = if kind == 4 { 1 << random.random_range(0..9) } else { 16 };
                    live.push((slot, align));
                    let size = if kind == 5 { random.random_range(1..5000) } else { random.random_range(1..200) };
                    Op::Allocate { slot, size, align }
                }
            };
            Event { tick, thread: 0, op }
        })
        .collect()
}

/// The same program with every request within a reach.
pub(crate) fn within(reach: Reach, mut events: Vec<Event>) -> Vec<Event> {
    for event in &mut events {
        if let Op::Allocate { size, align, .. } | Op::Reallocate { size, align, .. } = &mut event.op {
            *size = (*size).min(reach.request_bytes as u64);
            *align = (*align).min(u32::try_from(reach.alignment_bytes).unwrap_or(u32::MAX));
        }
    }
    events
}

pub(crate) fn written(events: &[Event]) -> (NamedTempFile, Totals) {
    let file = NamedTempFile::new().expect("a temporary file");
    let meta = Meta {
        name: "test".into(),
        about: "made by a test".into(),
        origin: trace::Origin::Program { command: vec!["test".into()] },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    };
    let mut writer = Writer::new(file.reopen().expect("the file"), &meta).expect("a writer");
    for event in events {
        writer.push(event).expect("a valid event");
    }
    let totals = writer.finish().expect("a trace");
    (file, totals)
}

fn quick() -> Settings {
    Settings { replicas: 2, limit: Duration::from_secs(300), parallel: 2, ..Settings::default() }
}

fn cells(trace: &Path, subjects: &[&'static Subject], settings: &Settings) -> Vec<Cell> {
    let (mut steps, mut finished) = (0, Vec::new());
    let run = measure(&[trace.into()], subjects, settings, &mut |progress| steps = progress.done, &mut |run, trace| {
        let has_time = |cell: &Cell| cell.time.is_some();
        finished.push((trace, run.traces[trace].cells.iter().filter(|cell| has_time(cell)).count()));
    });
    let run = run.expect("a run");
    let timed = run.traces[0].cells.iter().filter(|cell| cell.time.is_some()).count();
    assert_eq!(finished, [(0, timed)], "once, with all its times");
    let probes = [settings.probes.cycles, settings.probes.instructions, settings.probes.space];
    assert_eq!(steps as usize, subjects.len() * probes.iter().filter(|wanted| **wanted).count());
    run.traces.into_iter().next().expect("one trace").cells
}

#[test]
fn every_subject_completes_with_all_its_figures() {
    let daily = |subject: &&Subject| subject.about.in_dozen || is_full();
    let mut reaches: Vec<Reach> = Vec::new();
    for subject in all().iter().filter(daily) {
        if !reaches.contains(&subject.reach) {
            reaches.push(subject.reach);
        }
    }
    for reach in reaches {
        // A small block at a large alignment may be impossible for an allocator that serves the two separately.
        let plain = Reach { alignment_bytes: reach.alignment_bytes.min(NATURAL_ALIGN_BYTES), ..reach };
        let (file, totals) =
            written(&within(if reach == Reach::UNLIMITED { reach } else { plain }, random_events(3000, 1)));
        let subjects: Vec<&Subject> = all().iter().filter(daily).filter(|subject| subject.reach == reach).collect();
        complete_with_all_their_figures(file.path(), &totals, &subjects);
    }
}

fn complete_with_all_their_figures(trace: &Path, totals: &Totals, subjects: &[&'static Subject]) {
    let cells = cells(trace, subjects, &quick());
    assert_eq!(cells.len(), subjects.len());
    for (cell, subject) in cells.iter().zip(subjects) {
        let name = subject.name;
        assert_eq!(cell.outcome, Outcome::Completed, "{name}");
        let time = cell.time.as_ref().expect(name);
        assert_eq!(
            (time.allocate.count, time.free.count, time.reallocate.count, time.replicas),
            (totals.allocations, totals.frees, totals.reallocations, 2),
            "{name}"
        );
        let instructions = cell.instructions.as_ref().expect(name);
        assert_eq!(
            (instructions.allocate.count, instructions.free.count, instructions.reallocate.count),
            (totals.allocations, totals.frees, totals.reallocations),
            "{name}"
        );
        assert!(instructions.allocate.min > 3 && instructions.free.min > 3, "{name}");
        assert_eq!(cell.space.is_some(), !subject.own_pages, "{name}");
        if let Some(space) = &cell.space {
            assert_eq!(space.peak_live_bytes, totals.peak_live_bytes, "{name}");
            assert!(space.high_water_bytes >= totals.peak_live_bytes, "{name}");
            assert!(space.high_water_with_control_bytes > space.high_water_bytes, "{name}");
            assert!(space.fragmentation >= 0.0, "{name}");
            assert!(space.smallest_heap_bytes.expect(name) >= totals.peak_live_bytes, "{name}");
            let points = &space.used.points;
            assert!(points.len() <= 401 && points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{name}");
            assert_eq!(points.last().expect(name).1, space.high_water_bytes, "{name}");
        }
    }
}

#[test]
fn a_heap_that_is_too_small_gives_failures_and_one_without_room_is_refused() {
    let (file, totals) = written(&random_events(2000, 2));
    let subjects = select(&["tlsf", "half-fit", "best-fit", "rlsf", "talc"]).expect("subjects");
    let small = Settings { heap_bytes: Some(totals.peak_live_bytes / 2), ..quick() };
    for cell in cells(file.path(), &subjects, &small) {
        let Outcome::Failures { failed, first, beyond_reach: 0 } = cell.outcome else { panic!("{cell:?}") };
        assert!(failed > 0 && failed < totals.events && first < totals.events, "{failed} {first}");
        assert_eq!(cell.space.expect("space").smallest_heap_bytes, None);
    }
    let none = Settings { heap_bytes: Some(16), ..quick() };
    for cell in cells(file.path(), &subjects, &none) {
        let Outcome::Broken { what } = &cell.outcome else { panic!("{cell:?}") };
        assert!(what.starts_with("no heap of 16 bytes: "), "{what}");
    }
}

#[test]
fn a_maximum_of_instructions_includes_refused_requests() {
    let mut events: Vec<Op> = (0..200).map(|slot| Op::Allocate { slot, size: 64, align: 16 }).collect();
    events.extend((0..100).map(|pair| Op::Free { slot: 2 * pair }));
    // First fit searches all hundred holes and the rest of the heap, and refuses.
    events.extend([198, 196].map(|slot| Op::Allocate { slot, size: 60 << 10, align: 16 }));
    // Refused by the replay itself: no allocator executes anything.
    events.push(Op::Allocate { slot: 194, size: 1 << 50, align: 16 });
    // Searches all but the rest of the heap.
    events.push(Op::Reallocate { slot: 1, size: 60 << 10, align: 16 });
    let events: Vec<Event> =
        events.into_iter().enumerate().map(|(tick, op)| Event { tick: tick as u64, thread: 0, op }).collect();
    let (file, _) = written(&events);
    let settings = Settings { heap_bytes: Some(64 << 10), ..quick() };
    let [cell] = &cells(file.path(), &select(&["first-fit-address"]).expect("a subject"), &settings)[..] else {
        panic!("one cell")
    };
    assert_eq!(cell.outcome, Outcome::Failures { failed: 4, first: 300, beyond_reach: 0 });
    let counted = cell.instructions.as_ref().expect("counted");
    assert_eq!((counted.refused_allocate.count, counted.refused_reallocate.count), (2, 1));
    assert_eq!((counted.allocate.count, counted.reallocate.count), (200, 0));
    assert!(counted.refused_allocate.max > counted.allocate.max, "{counted:?}");
    assert_eq!(counted.max_allocate(), Some(counted.most[0].max(counted.most[1])));
    assert_eq!(counted.max_reallocate(), Some(counted.most[3]));
    assert_eq!(counted.max_allocate(), Some(counted.refused_allocate.max));
}

/// A bump allocator that never reuses memory, with one deliberate fault.
struct Bump<const WRONG: u8>;
const NOTHING: u8 = 0;
const CRASHES: u8 = 1;
const OVERLAPS: u8 = 2;
const MISALIGNS: u8 = 3;
const ESCAPES: u8 = 4;
const HANGS: u8 = 5;
const BLOCKS: u8 = 8;
const WAITS: u8 = 9;
const SCRIBBLES: u8 = 6;
const SERVES_512_AT_8: u8 = 7;

struct BumpHeap {
    next: StdCell<usize>,
    end: usize,
    calls: StdCell<u64>,
}

// SAFETY: violates the trait's contract on purpose, as `WRONG` says; the replay must detect it.
unsafe impl<const WRONG: u8> Target for Bump<WRONG> {
    const NATURAL_ALIGN_BYTES: usize = if WRONG == SERVES_512_AT_8 { 8 } else { NATURAL_ALIGN_BYTES };
    const REACH: Reach = match WRONG {
        SERVES_512_AT_8 => Reach { request_bytes: 512, alignment_bytes: 64 },
        _ => Reach::UNLIMITED,
    };

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let (next, calls) = (StdCell::new(region as usize), StdCell::new(0));
        let heap = Box::new(BumpHeap { next, end: region as usize + bytes, calls });
        Ok(Made { context: Box::into_raw(heap).cast(), first_block_address: region as usize, outside_bytes: 0 })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        drop(unsafe { Box::from_raw(context.cast::<BumpHeap>()) });
    }

    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it.
        let heap = unsafe { &*context.cast::<BumpHeap>() };
        let call = heap.calls.replace(heap.calls.get() + 1);
        let start = heap.next.get().next_multiple_of(align);
        if start + size > heap.end || Self::REACH.is_beyond(size, align) {
            return null_mut();
        }
        heap.next.set(start + size);
        match WRONG {
            CRASHES if call == 100 => {
                // SAFETY: none; it crashes on purpose.
                unsafe { std::hint::black_box(8 as *mut u8).write_volatile(1) };
                null_mut()
            }
            OVERLAPS if call == 100 => (start - 16) as *mut u8,
            MISALIGNS if call == 100 => (start + 1) as *mut u8,
            ESCAPES if call == 100 => heap.end as *mut u8,
            SCRIBBLES if call == 100 => {
                // SAFETY: memory of this heap, in the previous block.
                unsafe { (start as *mut u8).sub(1).write(0xff) };
                start as *mut u8
            }
            HANGS if call == 100 => loop {
                std::hint::spin_loop();
            },
            BLOCKS if call == 100 => loop {
                std::thread::park();
            },
            WAITS if call == 100 => {
                let command = format!("sleep 6; kill -CONT {}", std::process::id());
                let helper = std::process::Command::new("sh").arg("-c").arg(command).spawn();
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP).expect("raised");
                helper.and_then(|mut helper| helper.wait()).expect("a shell");
                start as *mut u8
            }
            _ => start as *mut u8,
        }
    }

    unsafe fn deallocate(_context: *mut c_void, _block: *mut u8, _size: usize, _align: usize) {}

    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the old block is `old` bytes long and is not moved.
        unsafe {
            let moved = Self::allocate(context, new, align);
            if !moved.is_null() {
                std::ptr::copy_nonoverlapping(block, moved, old.min(new));
            }
            moved
        }
    }
}

const fn bump<const WRONG: u8>() -> Subject {
    adapter::subject::<Bump<WRONG>>("bump", Origin::Peer, "none", "O(1)", About::NOTHING)
}

static CRASHING: Subject = bump::<CRASHES>();
static OVERLAPPING: Subject = bump::<OVERLAPS>();
static SCRIBBLING: Subject = bump::<SCRIBBLES>();
static MISALIGNING: Subject = bump::<MISALIGNS>();
static ESCAPING: Subject = bump::<ESCAPES>();
static HANGING: Subject = bump::<HANGS>();
static BLOCKING: Subject = bump::<BLOCKS>();
static WAITING: Subject = bump::<WAITS>();
static BUMPING: Subject = bump::<NOTHING>();
static SMALL: Subject = bump::<SERVES_512_AT_8>();

/// 16-byte blocks, none freed before the last allocation; every allocation's slot is its index.
fn plain_events(count: u32, size: u64) -> Vec<Event> {
    let allocate = |slot| Event { tick: u64::from(slot), thread: 0, op: Op::Allocate { slot, size, align: 16 } };
    let free = |slot| Event { tick: u64::from(count + slot), thread: 0, op: Op::Free { slot } };
    (0..count).map(allocate).chain((0..count).map(free)).collect()
}

#[test]
fn a_faulty_subject_is_reported_and_affects_no_other() {
    let (file, _) = written(&plain_events(300, 64));
    let expected: [(&'static Subject, &str); 5] = [
        (&CRASHING, "SIGSEGV in operation 100"),
        (&OVERLAPPING, "overlaps one that is live"),
        (&SCRIBBLING, "overwritten while it was live"),
        (&MISALIGNING, "operation 100: the block at"),
        (&ESCAPING, "is not within the heap"),
    ];
    for (subject, words) in expected {
        let cells = cells(file.path(), &[subject, &BUMPING], &quick());
        let Outcome::Broken { what } = &cells[0].outcome else { panic!("{:?}", cells[0].outcome) };
        assert!(what.contains(words), "{what}");
        assert_eq!(cells[1].outcome, Outcome::Completed);
    }
    let only_time = Settings { probes: Probes { cycles: true, instructions: false, space: false }, ..quick() };
    let crashed = &cells(file.path(), &[&CRASHING], &only_time)[0].outcome;
    let Outcome::Broken { what } = crashed else { panic!("{crashed:?}") };
    assert!(what.contains("SIGSEGV in operation 100"), "{what}");
}

#[test]
fn requests_beyond_the_reach_are_distinguished_from_exhaustion() {
    let mut events = plain_events(300, 64);
    for (place, size, align) in [(7, 513, 16), (8, 512, 128), (9, 512, 64)] {
        events[place].op = Op::Allocate { slot: place as u32, size, align };
    }
    let (file, _) = written(&events);
    for probe in 0..3 {
        let probes = Probes { cycles: probe == 0, instructions: probe == 1, space: probe == 2 };
        let cell = cells(file.path(), &[&SMALL], &Settings { probes, ..quick() }).remove(0);
        assert_eq!(cell.outcome, Outcome::Failures { failed: 2, first: 7, beyond_reach: 2 });
        assert_eq!(cell.space.and_then(|space| space.smallest_heap_bytes), None);
        assert_eq!((cell.subject.largest_request_bytes, cell.subject.largest_alignment_bytes), (Some(512), Some(64)));
    }
    let small = Settings { heap_bytes: Some(64 << 10), ..quick() };
    let (file, _) = written(&plain_events(3000, 64));
    let Outcome::Failures { failed, beyond_reach: 0, .. } = cells(file.path(), &[&SMALL], &small)[0].outcome else {
        panic!("a heap that is too small is not a limit of the allocator")
    };
    assert_eq!(failed, 3000 - (64 << 10) / 64);
}

#[test]
fn a_subject_with_a_smaller_quantum_is_asked_for_the_alignment_of_the_trace() {
    let mut events = plain_events(1000, 24);
    for event in &mut events {
        if let Op::Allocate { align, .. } = &mut event.op {
            *align = 8;
        }
    }
    let (file, _) = written(&events);
    let probes = Probes { cycles: false, instructions: false, space: true };
    let cells = cells(file.path(), &[&SMALL, &BUMPING], &Settings { probes, ..quick() });
    let high: Vec<u64> = cells.iter().map(|cell| cell.space.as_ref().expect("space").high_water_bytes).collect();
    assert_eq!(high, [24_000, 32_000 - 8]);
}

#[test]
fn a_subject_that_hangs_is_killed() {
    let (file, _) = written(&plain_events(300, 64));
    let probes = Probes { cycles: false, instructions: false, space: true };
    let settings = Settings { probes, limit: Duration::from_millis(100), ..quick() };
    assert_eq!(cells(file.path(), &[&HANGING], &settings)[0].outcome, Outcome::TimedOut { at: 100 });
}

#[test]
fn the_machine_does_not_decide_about_an_operation() {
    let (file, _) = written(&plain_events(300, 64));
    let probes = Probes { cycles: true, instructions: false, space: false };
    let subjects: [&Subject; 3] = [&WAITING, &HANGING, &BLOCKING];
    let cells = cells(file.path(), &subjects, &Settings { probes, replicas: 1, ..quick() });
    assert_eq!(cells[0].outcome, Outcome::Completed, "6 seconds without a processor");
    let broken = |cell: &Cell| match &cell.outcome {
        Outcome::Broken { what } => what.clone(),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(broken(&cells[1]), "operation 100 did not end within 4 seconds of processor time");
    assert_eq!(broken(&cells[2]), "blocked in operation 100: all threads slept for 4 s");
}

#[test]
fn a_replay_beyond_its_time_reports_how_far_it_came() {
    let (file, totals) = written(&random_events(300_000, 3));
    let settings = Settings { limit: Duration::ZERO, smallest_heap: false, ..quick() };
    for cell in cells(file.path(), &select(&["tlsf"]).expect("tlsf"), &settings) {
        let Outcome::TimedOut { at } = cell.outcome else { panic!("{:?}", cell.outcome) };
        assert!(at > 0 && at < totals.events, "{at}");
        assert!(cell.time.expect("time").allocate.count > 0);
        assert!(cell.space.expect("space").high_water_bytes > 0);
    }
}

/// Replays in a heap of exactly this size, everything included.
fn serves(trace: &Path, subject: &Subject, total_bytes: u64) -> bool {
    let mut region = Region::new(total_bytes as usize, false).expect("a region");
    let board = Board::new().expect("a board");
    let mut probing = Region::new(1 << 20, false).expect("a region");
    let outside = Heap::new(subject, &mut probing, 1 << 20).expect("a heap").outside_bytes;
    let Ok(heap) = Heap::new(subject, &mut region, total_bytes as usize - outside) else { return false };
    let whole_trace = WholeTrace { trace, budget: Budget::new(Duration::from_secs(60)), board: &board };
    whole_trace.run::<true, true, _>(&heap, &mut Replay::new(), &mut NoObserver).expect("no fault") == End::Completed
}

#[test]
fn the_smallest_heap_suffices_and_one_step_less_does_not() {
    let (file, totals) = written(&random_events(5000, 4));
    let step = (totals.peak_live_bytes / 256).max(64);
    for subject in select(&["tlsf", "first-fit", "rlsf", "talc", "dlmalloc", "linked-list"]).expect("subjects") {
        let board = Board::new().expect("a board");
        let task = Task {
            trace: file.path(),
            events: totals.events,
            peak_live_bytes: totals.peak_live_bytes,
            subject,
            heap_bytes: automatic_heap_bytes(totals.peak_live_bytes) as usize,
            budget: Budget::new(Duration::from_secs(60)),
            board: &board,
        };
        let smallest = space::measure(&task, true).figures.expect("figures").smallest_heap_bytes.expect("a heap");
        assert!(serves(file.path(), subject, smallest), "{}: {smallest}", subject.name);
        assert!(!serves(file.path(), subject, smallest - step), "{}: {smallest} - {step}", subject.name);
    }
}

#[test]
fn the_smallest_heap_of_an_allocator_without_overhead_is_its_live_memory() {
    // 1000 blocks of 96 bytes side by side: 96,000 bytes, in steps of 375 bytes exactly 256 of them.
    let (file, totals) = written(&plain_events(1000, 96));
    assert_eq!(totals.peak_live_bytes, 96_000);
    let probes = Probes { cycles: false, instructions: false, space: true };
    let settings = Settings { probes, ..quick() };
    let space = cells(file.path(), &[&BUMPING], &settings).remove(0).space.expect("space");
    assert_eq!(space.smallest_heap_bytes, Some(96_000));
    assert_eq!((space.high_water_bytes, space.fragmentation), (96_000, 0.0));
}

#[test]
fn a_trace_that_fills_its_heap_to_the_last_byte_has_a_smallest_heap() {
    // 96,096 bytes are not a multiple of the step of 375 bytes.
    let (file, totals) = written(&plain_events(1001, 96));
    let probes = Probes { cycles: false, instructions: false, space: true };
    let settings = Settings { probes, heap_bytes: Some(totals.peak_live_bytes), ..quick() };
    let space = cells(file.path(), &[&BUMPING], &settings).remove(0).space.expect("space");
    assert_eq!(space.smallest_heap_bytes, Some(96_096));
}

#[test]
fn the_automatic_heap_is_generous_within_reason() {
    assert_eq!(automatic_heap_bytes(0), 64 << 10);
    assert_eq!(automatic_heap_bytes(1 << 20), 8 << 20);
    assert_eq!(automatic_heap_bytes((1 << 20) + 1), 16 << 20);
    assert_eq!(automatic_heap_bytes(100 << 20), 256 << 20);
    assert_eq!(automatic_heap_bytes(200 << 20), 512 << 20);
}

/// Moves every object at every free to the other of its two places, with one deliberate fault. Blocks are numbers of
/// objects, from 1 on.
struct Restless<const WRONG: u8>;
const CONFUSES: u8 = 1;
const STRAYS: u8 = 2;
const COLLIDES: u8 = 3;

/// Bytes of a place.
const PLACE: usize = 256;
/// Bytes that are contiguous.
const PIECE: usize = 64;

struct RestlessHeap {
    start: usize,
    objects: usize,
    made: StdCell<usize>,
    frees: StdCell<usize>,
}

impl<const WRONG: u8> Restless<WRONG> {
    /// Pieces lie in the reverse order of their bytes.
    unsafe extern "C-unwind" fn dereference(context: *mut c_void, block: *mut u8, offset: usize) -> *mut u8 {
        // SAFETY: `make` boxed it.
        let heap = unsafe { &*context.cast::<RestlessHeap>() };
        let frees = heap.frees.get();
        let mut place = 2 * (block as usize - 1) + frees % 2;
        if frees > 100 && block as usize == 3 {
            match WRONG {
                STRAYS => place = 2 * heap.objects,
                COLLIDES => place = frees % 2,
                _ => {}
            }
        }
        (heap.start + place * PLACE + (PLACE - PIECE) - offset / PIECE * PIECE + offset % PIECE) as *mut u8
    }

    unsafe extern "C-unwind" fn initialise(region: *mut u8, bytes: usize) -> *mut c_void {
        // SAFETY: the region outlives the heap, which alone uses it.
        unsafe { Self::make(region, bytes) }.map_or(null_mut(), |made| made.context)
    }

    unsafe extern "C-unwind" fn read(context: *mut c_void, block: *mut u8, offset: usize) -> u8 {
        // SAFETY: the context is that of a heap of this type, and the block is longer than the offset.
        unsafe { Self::dereference(context, block, offset).read() }
    }
}

// SAFETY: violates the trait's contract on purpose, as `WRONG` says; the replay must detect it.
unsafe impl<const WRONG: u8> Target for Restless<WRONG> {
    const HANDLES: Option<Handles> = Some(Handles {
        dereference: Self::dereference,
        read: Self::read,
        initialise: Self::initialise,
        piece_bytes: PIECE,
    });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let heap = RestlessHeap {
            start: region as usize,
            objects: bytes / PLACE / 2,
            made: StdCell::new(0),
            frees: StdCell::new(0),
        };
        let context = Box::into_raw(Box::new(heap)).cast();
        Ok(Made { context, first_block_address: region as usize, outside_bytes: 0 })
    }

    unsafe fn release(context: *mut c_void) {
        // SAFETY: `make` boxed it.
        drop(unsafe { Box::from_raw(context.cast::<RestlessHeap>()) });
    }

    unsafe fn allocate(context: *mut c_void, size: usize, _align: usize) -> *mut u8 {
        // SAFETY: `make` boxed it.
        let heap = unsafe { &*context.cast::<RestlessHeap>() };
        let made = heap.made.get() + 1;
        if size > PLACE || made > heap.objects {
            return null_mut();
        }
        heap.made.set(made);
        made as *mut u8
    }

    unsafe fn deallocate(context: *mut c_void, _block: *mut u8, _size: usize, _align: usize) {
        // SAFETY: `make` boxed it.
        let heap = unsafe { &*context.cast::<RestlessHeap>() };
        let frees = heap.frees.get() + 1;
        for object in 1..=heap.made.get() {
            let source = if WRONG == CONFUSES && frees == 100 && object == 3 { 2 } else { object };
            let from = (heap.start + (2 * (source - 1) + (frees - 1) % 2) * PLACE) as *const u8;
            let to = (heap.start + (2 * (object - 1) + frees % 2) * PLACE) as *mut u8;
            // SAFETY: two places of the heap's region.
            unsafe { to.copy_from_nonoverlapping(from, PLACE) };
        }
        heap.frees.set(frees);
    }

    unsafe fn reallocate(_context: *mut c_void, block: *mut u8, _old: usize, _align: usize, new: usize) -> *mut u8 {
        if new > PLACE { null_mut() } else { block }
    }
}

/// Allocations of many sizes, three of them never freed, a free after each other one, occasional reallocations.
fn restless<const WRONG: u8>() -> Result<(), Fault> {
    let subject = adapter::subject::<Restless<WRONG>>("restless", Origin::Ours, "compacting", "O(1)", About::NOTHING);
    let mut region = Region::new(1 << 20, false).expect("a region");
    let heap = Heap::new(&subject, &mut region, 1 << 20).expect("a heap");
    let mut events = Vec::new();
    let mut perform = |op: Op| events.push(Event { tick: 0, thread: 0, op });
    for slot in 0..3 {
        perform(Op::Allocate { slot, size: 200, align: 1 });
    }
    for turn in 0..300_u64 {
        perform(Op::Allocate { slot: 3, size: 1 + turn % 250, align: 16 });
        if turn % 7 == 0 {
            perform(Op::Reallocate { slot: 3, size: 1 + (turn * 31) % 250, align: 1 });
        }
        perform(Op::Free { slot: 3 });
    }
    let mut replay = Replay::new();
    replay.run::<true, _>(&heap, &events, &mut NoObserver)?;
    assert_eq!((replay.refused(), replay.index()), (0, events.len() as u64));
    Ok(())
}

#[test]
fn objects_that_move_are_verified_where_they_are() {
    assert_eq!(restless::<NOTHING>(), Ok(()));
    assert!(matches!(restless::<CONFUSES>(), Err(Fault::Overwritten { size: 200, .. })));
    assert!(matches!(restless::<STRAYS>(), Err(Fault::Outside { .. })));
    assert!(matches!(restless::<COLLIDES>(), Err(Fault::Overlapping { .. } | Fault::Overwritten { size: 200, .. })));
}
