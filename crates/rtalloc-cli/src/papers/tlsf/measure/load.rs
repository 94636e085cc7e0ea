//! A task set on one allocator: instructions and memory in one pass, ticks, or memory over time.

use crate::papers::published::Both;
use crate::papers::tlsf::result::{Costs, Load, Moment, Profile, Run, Runs, SHOWN, Space, Variants};
use pathbound::counter::executed;
use pathbound::image::Process;
use rtalloc_lab::probe::counting;
use rtalloc_lab::probe::cycles::{self, Clock};
use rtalloc_lab::probe::{Counts, Task};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::processor::Budget;
use rtalloc_lab::replay::{Block, Fault, Observer, Replay};
use rtalloc_lab::result::schema::Outcome;
use rtalloc_lab::trace::{Event, TraceError};
use rtalloc_lab::workload::{Model, Sink};
use rtalloc_subjects::{Heap, Region, Subject, one};
use std::path::Path;
use std::time::Duration;

/// Number of events per batch.
const CHUNK: usize = 1024;

/// The generator of a load's events.
fn model(load: &Load) -> Model {
    let model = match load.profile {
        Profile::P1 => "p1",
        Profile::P2 => "p2",
        Profile::P3 => "p3",
    };
    Model::parse(&format!("{model} --holding {} --mallocs {}", load.holding.name(), load.mallocs))
        .expect("words of ours")
}

/// Instructions and memory of `sets` consecutive sets, the first of which is the load's: determined by the parameters
/// and the program, bit for bit.
///
/// # Errors
///
/// If the load failed, with a message.
pub fn run(process: &Process, load: &Load, sets: u64) -> Result<Runs, String> {
    let subject = one(&load.subject).map_err(|error| error.to_string())?;
    counting(process, subject, |entries| {
        let counted = Subject { entries, ..*subject };
        let (mut malloc, mut free) = (Counts::default(), Counts::default());
        let mut each = Vec::new();
        for set in load.set..load.set + sets {
            let mut watch = Watch::default();
            let refused = performed(&counted, &Load { set, ..load.clone() }, &mut watch)?;
            let costs = Costs { malloc: watch.malloc.distribution(), free: watch.free.distribution() };
            malloc.merge(&costs.malloc.histogram);
            free.merge(&costs.free.histogram);
            let instructions = Both { malloc: costs.malloc.mean, free: costs.free.mean };
            each.push(Run { instructions, space: watch.space(), refused });
        }
        Ok(Runs { instructions: Costs { malloc: malloc.distribution(), free: free.distribution() }, each })
    })
}

/// Memory after the mallocs that figure 9 shows.
///
/// # Errors
///
/// As [`run`].
pub fn timeline(load: &Load) -> Result<Vec<Moment>, String> {
    let subject = one(&load.subject).map_err(|error| error.to_string())?;
    let mut watch = Watch { shown: Some(load.mallocs), ..Watch::default() };
    performed(subject, load, &mut watch)?;
    Ok(watch.moments)
}

/// Ticks of a load: each operation's minimum over `replicas`. The trace is written to `folder` temporarily.
///
/// # Errors
///
/// As [`run`].
pub fn time(folder: &Path, load: &Load, replicas: u32, board: &Board) -> Result<Costs, String> {
    const LIMIT: Duration = Duration::from_secs(3600);
    let subject = one(&load.subject).map_err(|error| error.to_string())?;
    let trace = folder.join(format!("{}-{}.rtrace", load.profile.name(), load.set));
    let totals = model(load).write_to(load.set, &trace).map_err(|error| error.to_string())?;
    let task = Task {
        trace: &trace,
        events: totals.events,
        peak_live_bytes: totals.peak_live_bytes,
        subject,
        heap_bytes: load.pool_bytes as usize,
        budget: Budget::new(LIMIT),
        board,
    };
    let report = cycles::measure(&task, Clock::calibrate(), replicas);
    std::fs::remove_file(&trace).map_err(|error| error.to_string())?;
    match (report.outcome, report.figures) {
        (Outcome::Completed | Outcome::Failures { .. }, Some(time)) => {
            Ok(Costs { malloc: time.allocate, free: time.free })
        }
        (Outcome::Broken { what }, _) => Err(what),
        (outcome, _) => Err(format!("it was not timed to the end: {outcome:?}")),
    }
}

/// Performs a load while it is generated, and returns the number of refused requests.
fn performed(subject: &Subject, load: &Load, watch: &mut Watch) -> Result<u64, String> {
    let pool_bytes = load.pool_bytes as usize;
    let mut region = Region::new(pool_bytes, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, pool_bytes).map_err(|refusal| refusal.to_string())?;
    watch.start = heap.start;
    watch.high = heap.start;
    watch.control_bytes = heap.control_bytes() as u64;
    let mut driver =
        Driver { replay: Replay::new(), heap: &heap, watch, events: Vec::with_capacity(CHUNK), fault: None };
    model(load).generate(load.set, &mut driver).map_err(|error| error.to_string())?;
    driver.perform();
    match driver.fault {
        Some(fault) => Err(fault.to_string()),
        None => Ok(driver.replay.refused()),
    }
}

/// Performs events as they are generated.
struct Driver<'a, 'heap> {
    replay: Replay,
    heap: &'a Heap<'heap>,
    watch: &'a mut Watch,
    events: Vec<Event>,
    fault: Option<Fault>,
}

impl Driver<'_, '_> {
    fn perform(&mut self) {
        if self.fault.is_none() {
            self.fault = self.replay.perform(self.heap, &self.events, false, self.watch).err();
        }
        self.events.clear();
    }
}

impl Sink for Driver<'_, '_> {
    fn take(&mut self, event: &Event) -> Result<(), TraceError> {
        self.events.push(*event);
        if self.events.len() == CHUNK {
            self.perform();
        }
        Ok(())
    }
}

/// Records instructions and memory.
#[derive(Default)]
struct Watch {
    malloc: Counts,
    free: Counts,
    /// For the operation in progress.
    instructions: u64,
    /// For the block that is being freed.
    granted_bytes: u64,
    start: usize,
    high: usize,
    control_bytes: u64,
    mallocs: u64,
    now: Bytes,
    most: Bytes,
    /// Number of operations after which memory was compared, and the sum of the ratios of used to live memory.
    compared: (u64, f64),
    used_at_peak_live: u64,
    live_at_peak_used: u64,
    /// All mallocs, if some are to be shown.
    shown: Option<u64>,
    moments: Vec<Moment>,
}

/// Requested and granted bytes of live blocks.
#[derive(Clone, Copy, Default)]
struct Bytes {
    live: u64,
    granted: u64,
}

impl Watch {
    fn used(&self) -> u64 {
        (self.high - self.start) as u64
    }

    #[inline(always)]
    fn compare(&mut self) {
        if self.now.live > 0 {
            self.compared.0 += 1;
            self.compared.1 += self.used() as f64 / self.now.live as f64;
        }
    }

    fn space(&self) -> Space {
        let over = |used: u64, live: u64| if live == 0 { 0.0 } else { used as f64 / live as f64 - 1.0 };
        let (compared, sum) = self.compared;
        let high_water_bytes = self.used();
        Space {
            peak_live_bytes: self.most.live,
            high_water_bytes,
            high_water_with_control_bytes: high_water_bytes + self.control_bytes,
            peak_granted_bytes: self.most.granted,
            fragmentation: Variants {
                mean: if compared == 0 { 0.0 } else { sum / compared as f64 - 1.0 },
                at_peak_live: over(self.used_at_peak_live, self.most.live),
                at_peak_used: over(high_water_bytes, self.live_at_peak_used),
                of_peaks: over(high_water_bytes, self.most.live),
            },
        }
    }
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
        self.granted_bytes = unsafe { heap.granted_bytes(block as usize, size, align) } as u64;
        let before = executed();
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) };
        self.instructions = executed().wrapping_sub(before);
    }

    #[inline(always)]
    fn granted(&mut self, heap: &Heap<'_>, _index: u64, block: &Block, _old_size: Option<usize>) {
        self.malloc.add(self.instructions);
        // SAFETY: the block was just granted with this size and alignment.
        let granted = unsafe { heap.granted_bytes(block.address, block.size, block.align as usize) };
        self.now = Bytes { live: self.now.live + block.size as u64, granted: self.now.granted + granted as u64 };
        self.most.granted = self.most.granted.max(self.now.granted);
        let end = heap.end_of(block.address, granted);
        if end > self.high {
            self.high = end;
            self.live_at_peak_used = self.now.live;
        }
        if self.now.live > self.most.live {
            self.most.live = self.now.live;
            self.used_at_peak_live = self.used();
        }
        self.compare();
        let malloc = self.mallocs;
        self.mallocs += 1;
        if self.shown.is_some_and(|all| malloc < SHOWN.0 || malloc + SHOWN.1 >= all) {
            self.moments.push(Moment { malloc, live_bytes: self.now.live, used_bytes: self.used() });
        }
    }

    #[inline(always)]
    fn freed(&mut self, _index: u64, block: &Block) {
        self.free.add(self.instructions);
        self.now.live -= block.size as u64;
        self.now.granted -= self.granted_bytes;
        self.compare();
    }

    #[inline(always)]
    fn refused(&mut self, _index: u64, _beyond_reach: bool) {
        self.mallocs += 1;
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use rtalloc_lab::workload::Holding;

    fn load(subject: &str, set: u64) -> Load {
        Load {
            profile: Profile::P2,
            holding: Holding::Fit,
            set,
            mallocs: 2000,
            pool_bytes: 16 << 20,
            subject: subject.into(),
        }
    }

    #[test]
    fn the_same_parameters_give_the_same_figures() {
        let process = Process::shared().expect("this process");
        for name in ["tlsf", "dlmalloc"] {
            let [first, second] = [(); 2].map(|()| run(&process, &load(name, 1), 2).expect("performed"));
            assert_eq!(first.each, second.each);
            assert_eq!(first.instructions.malloc.histogram, second.instructions.malloc.histogram);
            assert_eq!(first.instructions.free.histogram, second.instructions.free.histogram);
            let alone = run(&process, &load(name, 2), 1).expect("performed");
            assert_eq!(alone.each, first.each[1..]);
            assert_ne!(first.each[0].space, first.each[1].space);
        }
    }

    #[test]
    fn a_load_is_what_its_model_says_and_memory_what_its_blocks_take() {
        let process = Process::shared().expect("this process");
        let load = load("tlsf", 1);
        let mut events = Vec::new();
        model(&load).generate(1, &mut events).expect("events");
        let found = run(&process, &load, 1).expect("performed");
        assert_eq!((found.instructions.malloc.count, found.each[0].refused), (2000, 0));
        assert_eq!(found.instructions.free.count, events.len() as u64 - 2000);
        let Space { peak_live_bytes, high_water_bytes, peak_granted_bytes, fragmentation, .. } = found.each[0].space;
        assert!(peak_live_bytes < peak_granted_bytes && peak_granted_bytes < high_water_bytes, "{found:?}");
        // Used memory never decreases, and its maximum is compared with the peak live memory.
        assert!(fragmentation.of_peaks >= fragmentation.at_peak_live, "{fragmentation:?}");
        assert!(fragmentation.of_peaks <= fragmentation.at_peak_used, "{fragmentation:?}");
        assert!(fragmentation.mean > fragmentation.of_peaks, "{fragmentation:?}");
        // The same values as shown in figure 9.
        let moments = timeline(&load).expect("performed");
        assert_eq!(moments.len(), 2000);
        assert_eq!(moments.iter().map(|moment| moment.live_bytes).max(), Some(peak_live_bytes));
        assert_eq!(moments.last().map(|moment| moment.used_bytes), Some(high_water_bytes));
    }
}
