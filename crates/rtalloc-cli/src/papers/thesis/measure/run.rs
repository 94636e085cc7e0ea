//! Runs an allocator on a trace: memory and instructions in one pass, up to the first request that fails, or ticks.

use crate::papers::thesis::result::{Costs, Figures, Moment, Run};
use pathbound::counter::executed;
use pathbound::image::Process;
use rtalloc::contract::Mechanism;
use rtalloc_lab::probe::counting;
use rtalloc_lab::probe::cycles::{self, Clock};
use rtalloc_lab::probe::{Counts, Task};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::processor::Budget;
use rtalloc_lab::replay::{Block, NoObserver, Observer, Replay};
use rtalloc_lab::result::schema::Outcome;
use rtalloc_lab::trace::Event;
use rtalloc_subjects::{Entries, Heap, Region, Subject, View};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// Number of times the bookkeeping is computed in a run.
const SAMPLES: usize = 200;

/// Step between the tried start addresses of a region.
const PLACES_BYTES: usize = 8;

/// Operations between two checks for a refused request.
const STRIDE: usize = 1024;

/// Time limit for the replicas of a trace.
const LIMIT: Duration = Duration::from_secs(3600);

/// Replays events until the first request that fails.
///
/// # Errors
///
/// If the run failed, with a message.
pub fn run(process: &Process, subject: &Subject, events: &[Event], heap_bytes: usize) -> Result<Run, String> {
    counting(process, subject, |entries| of_entries(subject, entries, events, heap_bytes))
}

fn of_entries(subject: &Subject, entries: Entries, events: &[Event], heap_bytes: usize) -> Result<Run, String> {
    let view = subject.view.as_ref().ok_or("only our allocators report their metadata")?;
    let mut region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
    let heap =
        Heap::new(&Subject { entries, ..*subject }, &mut region, heap_bytes).map_err(|refusal| refusal.to_string())?;
    let control_bytes = unpadded(subject, heap_bytes)?;
    let mut replay = Replay::new();
    let mut watch = Watch { high: heap.start, ..Watch::default() };
    let stride = events.len().div_ceil(SAMPLES).max(1);
    let mut timeline = Vec::new();
    for events in events.chunks(stride) {
        // One at a time, so that nothing is performed after a request that failed.
        for event in events {
            replay.perform(&heap, std::slice::from_ref(event), true, &mut watch).map_err(|fault| fault.to_string())?;
            if replay.refused() > 0 {
                break;
            }
        }
        let own = bookkeeping(&heap, view, watch.high);
        let bookkeeping_bytes = (control_bytes + own.bytes) as u64;
        timeline.push(Moment {
            operation: replay.index() - replay.refused(),
            used_bytes: (watch.high - heap.start + control_bytes) as u64,
            bookkeeping_bytes,
            internal_bytes: own.room_bytes.map_or(watch.granted_bytes, |room| room as u64) - watch.live_bytes,
            live_bytes: watch.live_bytes,
        });
        if replay.refused() > 0 {
            break;
        }
    }
    let completed = replay.refused() == 0;
    let high_water_bytes = (watch.high - heap.start + control_bytes) as f64;
    let live_bytes = watch.peak_live_bytes as f64;
    let waste = high_water_bytes - live_bytes;
    let most_bookkeeping = timeline.iter().map(|moment| moment.bookkeeping_bytes).max().unwrap_or(0);
    Ok(Run {
        figures: Figures {
            high_water_bytes,
            live_bytes,
            fragmentation: waste / live_bytes,
            overhead: most_bookkeeping as f64 / waste,
        },
        operations: replay.index() - replay.refused(),
        completed,
        instructions: Costs { malloc: watch.malloc.distribution(), free: watch.free.distribution() },
        timeline,
    })
}

/// Ticks of the operations up to the first request that fails: each operation's minimum over `replicas`. The trace is
/// written to `path` temporarily.
///
/// # Errors
///
/// If the run failed, with a message.
pub fn time(
    subject: &Subject,
    write: impl FnOnce(&Path, &[Event]) -> Result<(), String>,
    events: &[Event],
    heap_bytes: usize,
    path: &Path,
    (replicas, board): (u32, &Board),
) -> Result<Costs, String> {
    let events = &events[..served(subject, events, heap_bytes)?];
    write(path, events)?;
    let task = Task {
        trace: path,
        events: events.len() as u64,
        peak_live_bytes: super::traces::facts(events).peak_live_bytes,
        subject,
        heap_bytes,
        budget: Budget::new(LIMIT),
        board,
    };
    let report = cycles::measure(&task, Clock::calibrate(), replicas);
    std::fs::remove_file(path).map_err(|error| error.to_string())?;
    match (report.outcome, report.figures) {
        (Outcome::Completed, Some(time)) => Ok(Costs { malloc: time.allocate, free: time.free }),
        (Outcome::Broken { what }, _) => Err(what),
        (outcome, _) => Err(format!("it was not timed to the end: {outcome:?}")),
    }
}

/// The number of operations served before the first request that fails.
fn served(subject: &Subject, events: &[Event], heap_bytes: usize) -> Result<usize, String> {
    let mut region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, heap_bytes).map_err(|refusal| refusal.to_string())?;
    let mut replay = Replay::new();
    for events in events.chunks(STRIDE) {
        replay.perform(&heap, events, false, &mut NoObserver).map_err(|fault| fault.to_string())?;
        if let Some(first) = replay.first_refused() {
            return Ok(first as usize);
        }
    }
    Ok(events.len())
}

/// Bytes of the control structure, without padding after it to align the first page: the thesis (6.5) omits the
/// padding. Measured as the bytes before the first page, minimised over the start addresses of the region.
fn unpadded(subject: &Subject, heap_bytes: usize) -> Result<usize, String> {
    let page_bytes = subject.view.as_ref().map_or(0, |view| view.contract.page_bytes);
    let region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
    let control_bytes = |skipped_bytes: usize| {
        // SAFETY: our allocators accept regions at any address; this region is exclusively owned, and the heaps are
        // forgotten one after the other. The offset is less than the region's length.
        unsafe {
            let start = region.start().add(skipped_bytes);
            let made = (subject.make)(start, heap_bytes - skipped_bytes)?;
            (subject.release)(made.context);
            Ok(made.first_block_address - start as usize + made.outside_bytes)
        }
    };
    let trials = (0..page_bytes.clamp(1, heap_bytes)).step_by(PLACES_BYTES);
    trials.map(control_bytes).try_fold(usize::MAX, |least, one| one.map(|one| least.min(one)))
}

/// The memory overhead of an allocator, excluding the control structure.
struct Own {
    /// Bytes below the highest address handed out.
    bytes: usize,
    /// For regions: the unused rest of the pages in use.
    room_bytes: Option<usize>,
}

/// Adds up the allocator's overhead in the block area below the address `high`.
fn bookkeeping(heap: &Heap<'_>, view: &View, high: usize) -> Own {
    let page_bytes = view.contract.page_bytes;
    let regional = view.contract.mechanism == Mechanism::Regional;
    let (mut fronts, mut sum) = (0, 0);
    // The blocks of a regional allocator and the pages in use, in address order, as the walk is.
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut in_use: Vec<usize> = Vec::new();
    // SAFETY: the context belongs to a live heap.
    unsafe {
        (view.walk)(heap.context, &mut |block| {
            let start = block.address - block.front_bytes;
            if start >= high {
                return;
            }
            let end = (start + block.size_bytes).min(high);
            sum += end - start;
            if !block.free {
                fronts += block.front_bytes;
            }
            if regional {
                blocks.push(start..end);
                let page = block.address / page_bytes;
                if !block.free && in_use.last() != Some(&page) {
                    in_use.push(page);
                }
            }
        });
    }
    if !regional {
        return Own { bytes: fronts + (high - heap.start - sum), room_bytes: None };
    }
    // A page's blocks are of one class, or laid out consecutively: the rest at its end, too short for a block, is lost
    // like the inside of a block.
    let own_bytes = in_use.iter().map(|page| page_bytes - covered(&blocks, page * page_bytes, page_bytes)).min();
    let pages_bytes = in_use.len() * own_bytes.unwrap_or(0);
    // A region's dead blocks stay unused until its last block dies; a reap reuses them.
    let wait = view.contract.name.starts_with("regis");
    let room_bytes = wait.then(|| in_use.len() * page_bytes - pages_bytes);
    Own { bytes: fronts + pages_bytes, room_bytes }
}

/// Bytes of the page at an address that belong to blocks, which are in address order.
fn covered(blocks: &[Range<usize>], page: usize, page_bytes: usize) -> usize {
    let end = page + page_bytes;
    let first = blocks.partition_point(|block| block.end <= page);
    let overlapping = blocks[first..].iter().take_while(|block| block.start < end);
    overlapping.map(|block| block.end.min(end) - block.start.max(page)).sum()
}

/// Records instructions, live memory and addresses.
#[derive(Default)]
struct Watch {
    malloc: Counts,
    free: Counts,
    /// For the operation in progress.
    instructions: u64,
    /// For the block that is being freed.
    freed_bytes: u64,
    high: usize,
    live_bytes: u64,
    granted_bytes: u64,
    peak_live_bytes: u64,
}

impl Observer for Watch {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        let before = executed();
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        let block = unsafe { entry(heap.context, size, align) };
        self.instructions = executed().wrapping_sub(before);
        block
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the block is live with this size and alignment.
        self.freed_bytes = unsafe { heap.granted_bytes(block as usize, size, align) } as u64;
        let before = executed();
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) };
        self.instructions = executed().wrapping_sub(before);
    }

    fn granted(&mut self, heap: &Heap<'_>, _index: u64, block: &Block, _old_size: Option<usize>) {
        self.malloc.add(self.instructions);
        self.live_bytes += block.size as u64;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);
        // SAFETY: the block was just granted with this size and alignment.
        let bytes = unsafe { heap.granted_bytes(block.address, block.size, block.align as usize) };
        self.granted_bytes += bytes as u64;
        self.high = self.high.max(block.address + bytes);
    }

    fn freed(&mut self, _index: u64, block: &Block) {
        self.free.add(self.instructions);
        self.live_bytes -= block.size as u64;
        self.granted_bytes -= self.freed_bytes;
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::super::allocators::{names, subject};
    use super::*;
    use crate::papers::thesis::result::{Load, Part};
    use std::sync::Arc;

    fn process() -> Arc<Process> {
        Process::shared().expect("this process")
    }

    fn uniform(mallocs: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let words = format!("uniform --align 8 --mallocs {mallocs}");
        rtalloc_lab::workload::Model::parse(&words).expect("words").generate(1, &mut events).expect("events");
        events
    }

    #[test]
    fn bookkeeping_is_a_header_for_every_live_block() {
        let subject = subject("tlsf").expect("tlsf");
        let view = subject.view.as_ref().expect("ours");
        let mut region = Region::new(1 << 20, false).expect("a region");
        let heap = Heap::new(subject, &mut region, 1 << 20).expect("a heap");
        assert_eq!(bookkeeping(&heap, view, heap.start).bytes, 0);
        let mut watch = Watch { high: heap.start, ..Watch::default() };
        Replay::new().perform(&heap, &uniform(100), true, &mut watch).expect("no fault");
        // As published, headers have four bytes more than the library's.
        assert_eq!(bookkeeping(&heap, view, watch.high).bytes, 50 * (view.contract.header_bytes + 4));
    }

    #[test]
    fn control_structures_exclude_the_padding_before_the_first_page() {
        let unpadded = |name: &str| unpadded(subject(name).expect("known"), 1 << 20).expect("heaps");
        for (name, most) in [("bframe", 512), ("reaps", 2048), ("regis1", 128), ("regis2", 1024)] {
            assert!((16..most).contains(&unpadded(name)), "{name}: {}", unpadded(name));
        }
        let subject = subject("tlsf").expect("tlsf");
        let mut region = Region::new(1 << 20, false).expect("a region");
        assert_eq!(unpadded("tlsf"), Heap::new(subject, &mut region, 1 << 20).expect("a heap").control_bytes());
    }

    #[test]
    fn a_page_is_covered_by_what_of_its_blocks_lies_in_it() {
        let blocks = [0..10, 10..90, 95..130, 200..350];
        assert_eq!([0, 100, 200, 300, 400].map(|page| covered(&blocks, page, 100)), [95, 30, 100, 50, 0]);
    }

    #[test]
    fn a_run_ends_at_the_first_failure() {
        let (process, events) = (process(), uniform(10_000));
        let subject = subject("tlsf").expect("tlsf");
        let cut = run(&process, subject, &events, 64 << 10).expect("no fault");
        assert!(!cut.completed && cut.operations < 2000, "{cut:?}");
        assert!(cut.figures.high_water_bytes <= 65_536.0 && cut.figures.live_bytes > 50_000.0, "{cut:?}");
        assert!((0.0..1.0).contains(&cut.figures.overhead), "{cut:?}");
        assert_eq!(cut.instructions.malloc.count + cut.instructions.free.count, cut.operations);
        assert_eq!(served(subject, &events, 64 << 10), Ok(cut.operations as usize));
        let whole = run(&process, subject, &events[..cut.operations as usize], 64 << 10).expect("no fault");
        assert!(whole.completed && whole.figures == cut.figures, "{whole:?}");
        assert_eq!(whole.instructions.malloc.histogram, cut.instructions.malloc.histogram);
    }

    #[test]
    fn used_memory_is_what_is_live_lost_kept_and_free() {
        let (process, events) = (process(), uniform(2000));
        for name in names() {
            let run = run(&process, subject(name).expect("known"), &events, 1 << 20).expect("no fault");
            assert!(run.completed && !run.timeline.is_empty(), "{name}");
            let last = run.timeline.last().expect("moments");
            assert_eq!(last.used_bytes as f64, run.figures.high_water_bytes, "{name}");
            for moment in &run.timeline {
                let taken = moment.live_bytes + moment.internal_bytes + moment.bookkeeping_bytes;
                assert!(taken <= moment.used_bytes + 1024, "{name}: {moment:?}");
            }
            // At least a 32nd of a block for 8-byte classes, since sizes are uniform.
            assert!(last.internal_bytes > last.live_bytes / 100, "{name}: {last:?}");
        }
    }

    #[test]
    fn the_operations_up_to_the_first_failure_are_timed() {
        let (folder, board) = (tempfile::tempdir().expect("a folder"), Board::new().expect("a board"));
        let events = uniform(1000);
        let load = Load { part: Part::Uniform, recording: None };
        let write = |path: &Path, events: &[Event]| {
            super::super::traces::write(path, &load, events).map_err(|error| error.to_string())
        };
        let path = folder.path().join("uniform.rtrace");
        let costs = time(subject("tlsf").expect("tlsf"), write, &events, 64 << 10, &path, (2, &board)).expect("timed");
        assert!(costs.malloc.count > 100 && costs.malloc.count < 1000 && costs.free.count > 50, "{costs:?}");
        assert!(costs.malloc.min > 0 && !path.exists());
    }
}
