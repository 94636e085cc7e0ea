//! The experiments of the Compact-fit paper (2008, section 5), with all of its allocators in the same run.
//!
//! Parameters that the paper omits are chosen here and listed below the tables: the heap of the time experiments, which
//! is large enough that no allocator fails; the parameters of the five tasks of figure 7; the sizes of figure 8.

mod loads;
mod proposition;
pub(super) mod watch;

use crate::papers::compact_fit::claims;
use crate::papers::compact_fit::published::PEERS;
use crate::papers::compact_fit::result::{
    CompactFit, Dereference, Fragmentation, Frame, Initialisation, Left, Overhead, Panel, Room, Series,
};
use crate::papers::published::COMPACT_FIT;
use loads::{Load, incremental, rate_monotonic};
use pathbound::image::Process;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::probe::reads;
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::workload::random::Random;
use rtalloc_subjects::compact_fit::{self as variants, Variant};
use rtalloc_subjects::{Heap, InitialiseEntry, Region, Subject, one};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::c_void;
use watch::{counts, just_full};

/// The heap of figure 7, in bytes, and the largest one of figure 6: no allocator loses more than half of it for the
/// paper's 7 MB of objects.
pub const HEAP_BYTES: usize = 16 << 20;

/// Bytes of objects that figure 6 allocates, and the heap of figure 8.
const FULL_BYTES: usize = 7 << 20;

/// Number of operations of figure 7.
const OPERATIONS: usize = 5000;

/// Heap sizes for which initialisation is counted, in bytes.
const INITIALISED: [usize; 2] = [64 << 10, 1 << 30];

/// A panel of figures 6 and 7: its load, its implementations, and the counted operations.
struct Drawn {
    figure: &'static str,
    what: &'static str,
    ours: &'static [Variant],
    load: Loads,
    frees: bool,
}

/// The loads of the panels.
#[derive(Clone, Copy)]
enum Loads {
    Incremental,
    RateMonotonic,
}

impl Loads {
    fn make(self, seed: u64) -> Load {
        match self {
            Loads::Incremental => incremental(),
            Loads::RateMonotonic => rate_monotonic(seed),
        }
    }
}

const fn drawn(figure: &'static str, what: &'static str, ours: &'static [Variant], load: Loads, frees: bool) -> Drawn {
    Drawn { figure, what, ours, load, frees }
}

/// Figures 6 and 7.
const PANELS: [Drawn; 6] = {
    use Loads::{Incremental, RateMonotonic};
    let (full, wide, tuned) = (variants::FULL, variants::WIDE, variants::RATE_MONOTONIC);
    [
        drawn("6a", "incremental: allocate again what was freed", full, Incremental, false),
        drawn("6b", "incremental: free every second object, full compaction", full, Incremental, true),
        drawn("6c", "incremental: free every second object, partial compaction", wide, Incremental, true),
        drawn("7a", "rate-monotonic: allocate", full, RateMonotonic, false),
        drawn("7b", "rate-monotonic: free, full compaction", full, RateMonotonic, true),
        drawn("7c", "rate-monotonic: free, partial compaction", tuned, RateMonotonic, true),
    ]
};

/// The tasks that are not counted over a load.
#[derive(Serialize, Deserialize)]
struct Facts {
    dereference: Vec<Dereference>,
    initialisation: Vec<Initialisation>,
    overhead: Vec<Overhead>,
    page_losses: Result<bool, String>,
}

/// Every experiment.
pub struct Experiments<'a> {
    /// The machine code whose instructions are counted.
    pub process: &'a Process,
    /// Seed of the tasks' sizes and of the random frees.
    pub seed: u64,
}

/// Default seed.
pub const SEED: u64 = 1;

/// The tasks after those of [`PANELS`].
const OTHERS: [(&str, u64); 4] =
    [("frames", 4), ("figure 8", 12), ("proposition 1", 1), ("dereference, initialisation, overhead", 1)];

impl Tasks for Experiments<'_> {
    fn name(&self) -> &'static str {
        "compact-fit"
    }

    fn tasks(&self) -> Vec<Task> {
        let panels = PANELS.iter().map(|panel| (format!("figure {}", panel.figure), 4));
        let others = OTHERS.iter().map(|(what, seconds)| ((*what).into(), *seconds));
        let task = |(what, seconds)| Task::counted(format!("compact-fit {what} seed={}", self.seed), seconds);
        panels.chain(others).map(task).collect()
    }

    fn perform(&self, task: usize, _: &Board) -> Value {
        match task.checked_sub(PANELS.len()) {
            None => campaign::found(&self.panel(&PANELS[task])),
            Some(0) => campaign::found(&self.frames()),
            Some(1) => campaign::found(&fragmentation(self.seed)),
            Some(2) => campaign::found(&proposition::tried(self.seed)),
            Some(_) => campaign::found(&self.facts()),
        }
    }
}

impl Experiments<'_> {
    /// Combines the results of all tasks, in their order.
    pub(super) fn conclude(&self, mut kept: Vec<Kept>) -> anyhow::Result<CompactFit> {
        let others: [Kept; OTHERS.len()] = kept.split_off(PANELS.len()).try_into().expect("a result for each task");
        let [frames, fragmentation, promises, facts] = others.map(|kept| kept.result);
        let Facts { dereference, initialisation, overhead, page_losses } = serde_json::from_value(facts)?;
        let mut found = CompactFit {
            heap_bytes: HEAP_BYTES as u64,
            panels: campaign::results(kept)?,
            fragmentation: serde_json::from_value(fragmentation)?,
            dereference,
            initialisation,
            overhead,
            page_losses,
            frames: serde_json::from_value(frames)?,
            promises: serde_json::from_value(promises)?,
            claims: Vec::new(),
        };
        found.claims = claims::claims(&found);
        Ok(found)
    }
}

impl Experiments<'_> {
    fn panel(&self, panel: &Drawn) -> Panel {
        let published = |name: &str| match panel.figure {
            _ if name != "CFM" => None,
            "6a" => Some(COMPACT_FIT.section_5_2.allocate),
            "6c" => Some(COMPACT_FIT.section_5_2.free_partial),
            "7a" => Some(COMPACT_FIT.section_5_3.allocate),
            "7c" => Some(COMPACT_FIT.section_5_3.free_partial),
            _ => None,
        };
        let load = panel.load.make(self.seed);
        let peers = PEERS.map(|(published_as, name)| (published_as, one(name).expect("a peer of the paper")));
        let all = peers.into_iter().chain(panel.ours.iter().map(|(name, subject)| (*name, subject)));
        let series = all.map(|(published_as, subject)| {
            // The paper's memory is full at 7 MB: here, each allocator has the smallest heap that serves the load.
            let heap_bytes = match panel.load {
                Loads::Incremental => just_full(subject, &load, HEAP_BYTES),
                Loads::RateMonotonic => Ok(HEAP_BYTES),
            };
            Series {
                published_as: published_as.into(),
                subject: subject.name.into(),
                published: published(published_as),
                heap_bytes: heap_bytes.as_ref().map_or(0, |bytes| *bytes as u64),
                ours: heap_bytes.and_then(|bytes| counts(self.process, subject, &load, panel.frees, bytes)),
            }
        });
        Panel { figure: panel.figure.into(), what: panel.what.into(), series: series.collect() }
    }

    fn frames(&self) -> Vec<Frame> {
        let load = incremental();
        let frame = |(frame_bytes, subject): &(Option<u64>, Subject)| Frame {
            frame_bytes: *frame_bytes,
            ours: just_full(subject, &load, HEAP_BYTES)
                .and_then(|bytes| counts(self.process, subject, &load, true, bytes))
                .map(|counts| counts.mean),
        };
        variants::FRAMES.iter().map(frame).collect()
    }

    fn facts(&self) -> Facts {
        let initialisation = variants::FULL.iter().map(|(_, subject)| Initialisation {
            subject: subject.name.into(),
            ours: INITIALISED
                .iter()
                .map(|bytes| Ok((*bytes as u64, initialised(self.process, subject, *bytes)?)))
                .collect(),
        });
        Facts {
            dereference: dereference(self.process),
            initialisation: initialisation.collect(),
            overhead: overhead(),
            page_losses: page_losses(&variants::FULL[0].1),
        }
    }
}

/// Section 5.4: a heap of 7 MB is filled with objects of 20 to 100 bytes and a random fifth of them is freed; then
/// objects of one size are allocated until a request is refused, in a separate heap for each size.
fn fragmentation(seed: u64) -> Fragmentation {
    let mut sizes: Vec<u64> =
        (0..).map(|step| (20.0 * 1.15_f64.powi(step)).round() as u64).take_while(|size| *size < 16_000).collect();
    sizes.push(16_000);
    let partial = (1..).zip(variants::PARTIAL).map(|(pages, subject)| (format!("CFM {pages}"), subject));
    let others = [("TLSF", "tlsf"), ("rlsf", "rlsf"), ("DL", "dlmalloc")];
    let others = others.map(|(label, name)| (label.to_string(), one(name).expect("a peer")));
    let rows = partial.chain(others).map(|(label, subject)| Room {
        label,
        subject: subject.name.into(),
        ours: left(subject, seed, &sizes),
    });
    let rows = rows.collect();
    Fragmentation { heap_bytes: FULL_BYTES as u64, sizes, rows }
}

fn left(subject: &Subject, seed: u64, sizes: &[u64]) -> Result<Left, String> {
    let mut region = Region::new(FULL_BYTES, false).map_err(|error| error.to_string())?;
    let mut left = Left { objects: 0, live_bytes: 0, left_bytes: 0, more: Vec::new() };
    for size in sizes {
        let heap = Heap::new(subject, &mut region, FULL_BYTES).map_err(|error| error.to_string())?;
        let (entries, context) = (heap.entries, heap.context);
        // SAFETY: the heap is live, and the sizes are those of a valid `Layout`.
        let allocate = |size: u64| unsafe { (entries.allocate)(context, size as usize, entries.natural_align_bytes) };
        let mut random = Random::new(seed);
        let mut blocks: Vec<(*mut u8, u64)> = Vec::new();
        loop {
            let size = random.within(20, 100);
            let block = allocate(size);
            if block.is_null() {
                break;
            }
            blocks.push((block, size));
        }
        left.objects = blocks.len() as u64;
        left.live_bytes = blocks.iter().map(|(_, size)| size).sum();
        for _ in 0..left.objects / 5 {
            let (block, size) = blocks.swap_remove(random.below(blocks.len() as u64) as usize);
            // SAFETY: the block is live and was requested with this size.
            unsafe { (entries.deallocate)(context, block, size as usize, entries.natural_align_bytes) };
        }
        left.left_bytes = blocks.iter().map(|(_, size)| size).sum();
        let mut more = 0;
        while !subject.reach.is_beyond(*size as usize, 1) && !allocate(*size).is_null() {
            more += 1;
        }
        left.more.push(more);
    }
    Ok(left)
}

/// Instructions to read a byte of an object: one function per kind of reference, without the call.
fn dereference(process: &Process) -> Vec<Dereference> {
    let published = COMPACT_FIT.section_3_5;
    let row =
        |through: String, published: Option<u64>, ours: Result<u64, String>| Dereference { through, published, ours };
    let mut rows = vec![
        row(POINTER.into(), Some(published.pointer), reads::counted_read(process, None)),
        row(ABSTRACT.into(), Some(published.moving), reads::abstract_read(process)),
    ];
    rows.extend(variants::FULL.iter().map(|(name, subject)| {
        // The non-moving implementation has only the paper's handles; those of the moving one are unchecked.
        let published = (*name == "CFNM").then_some(published.non_moving);
        row(format!("a handle, {name}"), published, reads::counted_read(process, Some(subject)))
    }));
    rows
}

/// The kind of reference through which an object is read.
pub(super) const POINTER: &str = "a pointer";
/// The location that stores its address.
pub(super) const ABSTRACT: &str = "an abstract address, CFM";

/// Instructions to initialise a heap of a subject whose objects move.
fn initialised(process: &Process, subject: &Subject, bytes: usize) -> Result<u64, String> {
    let handles = subject.entries.handles.ok_or("no allocator of objects that move")?;
    let region = Region::new(bytes, false).map_err(|error| error.to_string())?;
    let start = region.start();
    let mut made = std::ptr::null_mut();
    let count = reads::count_call(process, handles.initialise as usize as u64, |entry| {
        // SAFETY: the copy of a function has the same calling contract as the function.
        let initialise = unsafe { std::mem::transmute::<*const c_void, InitialiseEntry>(entry) };
        // SAFETY: the region is exclusively owned.
        made = unsafe { initialise(start, bytes) };
    })?;
    if made.is_null() { Err("the heap was refused".into()) } else { Ok(count) }
}

/// Overhead of pages and page-blocks, derived from heaps: the directory's bytes per additional page, and the bytes of
/// the smallest class's page-block that its object cannot use.
fn overhead() -> Vec<Overhead> {
    let (pages, page_blocks) = (&COMPACT_FIT.section_3_1, &COMPACT_FIT.section_3_2);
    let row = |what: &str, unit: &str, published: f64, ours| Overhead {
        what: what.into(),
        unit: unit.into(),
        published,
        ours,
    };
    // For the moving implementation only: virtual pages are at the other end of the region, where they cannot be
    // observed from outside.
    let kept = variants::FULL.first().and_then(|(_, subject)| kept(subject));
    let page_bytes = (pages.page_kilobytes << 10) as f64;
    let [bytes, share] = [kept.map(|(page, _)| page), kept.map(|(_, share)| 100.0 * share)];
    let percent = bytes.map(|bytes| bytes / page_bytes * 100.0);
    let lost = variants::FULL.first().and_then(|(_, subject)| of_objects(subject));
    vec![
        row(PAGE, "B", pages.administration_bytes as f64, bytes),
        row("the same of the page", "%", pages.administration_percent, percent),
        row(BACK_REFERENCE, "%", page_blocks.back_reference_percent, share),
        row(OF_OBJECTS, "%", 12.5, lost.map(|lost| lost[0])),
        row(OF_LARGE_OBJECTS, "%", 12.5, lost.map(|lost| lost[1])),
    ]
}

/// Overhead per page.
pub(super) const PAGE: &str = "metadata of a page of 16 KB";
/// Overhead per page-block.
pub(super) const BACK_REFERENCE: &str = "of the smallest page-block not usable by the object";

/// The largest shares of an object that its page-block loses (2.5.1).
pub(super) const OF_OBJECTS: &str = "lost in a page-block, of the object, at most";
/// See [`OF_OBJECTS`].
pub(super) const OF_LARGE_OBJECTS: &str = "the same of objects in a whole page";

/// A page of objects of a size: bytes of a page-block, those that an object can use, and the number of objects that the
/// page holds before the next one takes another page.
fn page_of(subject: &Subject, size: usize) -> Result<[usize; 3], String> {
    const BYTES: usize = 1 << 20;
    let view = subject.view.ok_or("its blocks cannot be visited")?;
    let handles = subject.entries.handles.ok_or("its objects do not move")?;
    let mut region = Region::new(BYTES, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, BYTES).map_err(|error| error.to_string())?;
    let (mut own, mut objects, mut first_page) = ([0; 2], 0, None);
    loop {
        // SAFETY: the heap is live, the size is that of a valid `Layout`, and the object is live.
        let address = unsafe {
            let object = (heap.entries.allocate)(heap.context, size, heap.entries.natural_align_bytes);
            if object.is_null() {
                return Err(format!("refused {size} bytes"));
            }
            (handles.dereference)(heap.context, object, 0) as usize
        };
        if objects == 0 {
            // SAFETY: the heap is live.
            unsafe {
                (view.walk)(heap.context, &mut |block| {
                    if !block.free {
                        own = [block.size_bytes, block.usable_bytes];
                    }
                });
            }
        }
        // Pages are as far apart as they are long, from wherever the first one begins.
        let page = (address - heap.start) / view.contract.page_bytes;
        if *first_page.get_or_insert(page) != page {
            return Ok([own[0], own[1], objects]);
        }
        objects += 1;
    }
}

/// The smallest object of each class, and what [`page_of`] finds for it.
fn of_classes(subject: &Subject) -> Result<Vec<(usize, [usize; 3])>, String> {
    let page_bytes = subject.view.ok_or("its blocks cannot be visited")?.contract.page_bytes;
    let most = subject.reach.request_bytes.min(page_bytes);
    let mut classes = Vec::new();
    let mut size = 1;
    while size <= most {
        let found = page_of(subject, size)?;
        classes.push((size, found));
        size = found[1] + 1;
    }
    Ok(classes)
}

/// The largest losses in per cent of an object that is larger than the smallest page-block: in page-blocks, and in
/// whole pages. The smallest object of a class loses most.
fn of_objects(subject: &Subject) -> Option<[f64; 2]> {
    let mut most = [0.0_f64; 2];
    for (size, [_, usable, objects]) in of_classes(subject).ok()?.into_iter().skip(1) {
        let is_page = usize::from(objects == 1);
        most[is_page] = most[is_page].max(100.0 * (usable - size) as f64 / size as f64);
    }
    Some(most)
}

/// Whether a page holds as many objects as its size divided by that of a page-block, in each class (2.5.2, 2.5.3).
fn page_losses(subject: &Subject) -> Result<bool, String> {
    let page_bytes = subject.view.ok_or("its blocks cannot be visited")?.contract.page_bytes;
    Ok(of_classes(subject)?.into_iter().all(|(_, [size, _, objects])| objects == page_bytes / size))
}

/// Bytes of overhead per page, and the share of the smallest page-block that is overhead.
fn kept(subject: &Subject) -> Option<(f64, f64)> {
    const REGIONS: [usize; 2] = [16 << 20, 32 << 20];
    let view = subject.view?;
    let mut share = 0.0;
    let control = REGIONS.map(|bytes| {
        let mut region = Region::new(bytes, false).ok()?;
        let heap = Heap::new(subject, &mut region, bytes).ok()?;
        // SAFETY: the heap is live.
        unsafe {
            (heap.entries.allocate)(heap.context, 1, heap.entries.natural_align_bytes);
            (view.walk)(heap.context, &mut |block| {
                share = 1.0 - block.usable_bytes as f64 / block.size_bytes as f64;
            });
        }
        Some(heap.control_bytes() as f64)
    });
    let [small, large] = control;
    // A page's overhead is its own bytes plus those in the directory.
    let (more, page) = (large? - small?, view.contract.page_bytes as f64);
    let pages = ((REGIONS[1] - REGIONS[0]) as f64 - more) / page;
    Some((more / pages, share))
}
