//! Counts the instructions of a trace's operations, and lets another tool count the same operations.
//!
//! ```sh
//! cargo run --release -p rtalloc-lab --example count -- tlsf traces/lua-entities.rtrace 20000
//! ```
//!
//! replays the first operations of a trace twice. First by the counter of pathbound, whose totals it prints, one line
//! for each entry point: name, operations, instructions. Then by the entry points as they are, each called from a
//! function of its own, `witness_allocate` and so on: a profiler that attributes instructions to calls, such as
//! callgrind, has what the calls made by these four functions cost, whatever the names of what they call.
//! `ci/callgrind.sh` compares.
//!
//! Programs rarely ask for alignment. So that its entry point is compared too, every eighth allocation of the trace
//! asks for 32, 64, 128 or 256 bytes instead of what it asked for.

use anyhow::{Context as _, bail, ensure};
use pathbound::counter::{Record, executed};
use pathbound::image::Process;
use rtalloc_lab::observe::Operation;
use rtalloc_lab::probe::Counted;
use rtalloc_lab::replay::{Observer, Replay};
use rtalloc_lab::trace::{Event, Op, Reader};
use rtalloc_subjects::{AllocateEntry, DeallocateEntry, Heap, ReallocateEntry, Region, Subject, select};
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::hint::black_box;
use std::path::Path;

const HEAP_BYTES: usize = 64 << 20;
/// Replays that look for code computed jumps lead to, at most.
const ROUNDS: usize = 24;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [subject, trace, operations] = arguments.as_slice() else {
        bail!("three arguments: an allocator, a trace, and how many of its operations to count");
    };
    let [subject] = select(&[subject])?[..] else { bail!("{subject} is a group; name one allocator") };
    ensure!(!subject.own_pages, "{subject} cannot be begun anew", subject = subject.name);
    let events = beginning(Path::new(trace), operations.parse().context("operations")?)?;
    let mut region = Region::new(HEAP_BYTES, false)?;

    let totals = counted(subject, &mut region, &events)?;
    for operation in Operation::ALL {
        let Total { operations, instructions } = totals[operation as usize];
        println!("{} {operations} {instructions}", operation.name().replace(' ', "-"));
    }
    let heap = Heap::new(subject, &mut region, HEAP_BYTES)?;
    Ok(Replay::new().run::<false, _>(&heap, &events, &mut Witnessed)?)
}

/// The first operations of a trace, some with larger alignment.
fn beginning(trace: &Path, operations: usize) -> anyhow::Result<Vec<Event>> {
    let mut reader = Reader::open(trace)?;
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    while events.len() < operations && reader.next_chunk(&mut chunk)? {
        events.append(&mut chunk);
    }
    ensure!(events.len() >= operations, "the trace has {} operations only", events.len());
    events.truncate(operations);
    let mut allocations = 0;
    for event in &mut events {
        if let Op::Allocate { align, .. } = &mut event.op {
            if allocations % 8 == 0 {
                *align = 32 << (allocations / 8 % 4);
            }
            allocations += 1;
        }
    }
    Ok(events)
}

/// Of one entry point.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    operations: u64,
    instructions: u64,
}

/// Replays with counting entry points, again and again until they hold all code that is executed.
fn counted(subject: &Subject, region: &mut Region, events: &[Event]) -> anyhow::Result<[Total; 4]> {
    let process = Process::current()?;
    let mut further = BTreeSet::new();
    for _ in 0..ROUNDS {
        let roots: Vec<u64> = further.iter().copied().collect();
        let counted = Counted::new(&process, subject, &roots, Record::Count)?;
        let mut heap = Heap::new(subject, region, HEAP_BYTES)?;
        heap.entries = counted.entries();
        let mut counting = Counting::default();
        Replay::new().run::<false, _>(&heap, events, &mut counting)?;
        let missed = counted.counter().misses();
        if missed.is_empty() {
            ensure!(counted.counter().departures().is_empty(), "the copy was left for code that cannot be copied");
            return Ok(counting.totals);
        }
        further.extend(missed);
    }
    bail!("{ROUNDS} replays did not find all code that computed jumps lead to")
}

#[derive(Debug, Default)]
struct Counting {
    totals: [Total; 4],
}

impl Counting {
    fn count<R>(&mut self, operation: Operation, call: impl FnOnce() -> R) -> R {
        let before = executed();
        let result = call();
        let total = &mut self.totals[operation as usize];
        total.operations += 1;
        total.instructions += executed() - before;
        result
    }
}

impl Observer for Counting {
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let natural = heap.entries.is_natural(align);
        let operation = if natural { Operation::Allocate } else { Operation::AllocateAligned };
        let entry = heap.entries.allocate_at(align);
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        self.count(operation, || unsafe { entry(heap.context, size, align) })
    }

    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let entry = heap.entries.deallocate;
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.count(Operation::Deallocate, || unsafe { entry(heap.context, block, size, align) });
    }

    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        let entry = heap.entries.reallocate;
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.count(Operation::Reallocate, || unsafe { entry(heap.context, block, old, align, new) })
    }
}

/// Calls each entry point from a function that does nothing else.
struct Witnessed;

impl Observer for Witnessed {
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        let witness = if heap.entries.is_natural(align) { witness_allocate } else { witness_allocate_aligned };
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        unsafe { witness(entry, heap.context, size, align) }
    }

    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { witness_deallocate(heap.entries.deallocate, heap.context, block, size, align) };
    }

    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { witness_reallocate(heap.entries.reallocate, heap.context, block, old, align, new) }
    }
}

// Each puts another constant beside the call's result: functions that do the same might be folded into one, and a call
// that comes last might become a jump.

/// Calls an entry point.
///
/// # Safety
///
/// As the entry point.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn witness_allocate(entry: AllocateEntry, context: *mut c_void, size: usize, align: usize) -> *mut u8 {
    // SAFETY: the context belongs to `entry`, and the size and alignment are valid.
    black_box((unsafe { entry(context, size, align) }, Operation::Allocate)).0
}

/// Calls an entry point.
///
/// # Safety
///
/// As the entry point.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn witness_allocate_aligned(entry: AllocateEntry, context: *mut c_void, size: usize, align: usize) -> *mut u8 {
    // SAFETY: the context belongs to `entry`, and the size and alignment are valid.
    black_box((unsafe { entry(context, size, align) }, Operation::AllocateAligned)).0
}

/// Calls an entry point.
///
/// # Safety
///
/// As the entry point.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn witness_deallocate(entry: DeallocateEntry, context: *mut c_void, block: *mut u8, size: usize, align: usize) {
    // SAFETY: the context belongs to `entry`, and the block is live with this size and alignment.
    black_box((unsafe { entry(context, block, size, align) }, Operation::Deallocate)).0
}

/// Calls an entry point.
///
/// # Safety
///
/// As the entry point.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn witness_reallocate(
    entry: ReallocateEntry,
    context: *mut c_void,
    block: *mut u8,
    old: usize,
    align: usize,
    new: usize,
) -> *mut u8 {
    // SAFETY: the context belongs to `entry`, and the block is live with this size and alignment.
    black_box((unsafe { entry(context, block, old, align, new) }, Operation::Reallocate)).0
}
