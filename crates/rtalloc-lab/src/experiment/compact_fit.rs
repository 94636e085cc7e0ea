//! The experiments of the Compact-fit paper (2008, section 5), with every allocator of it in the same run.
//!
//! What the paper leaves open is chosen here, and said below the tables: the heap of the experiments on time, which is large
//! enough for every allocator, so that none fails; the parameters of the five tasks of figure 7; the sizes of figure 8.

use crate::replay::{Block, Observer, Replay};
use crate::result::compact_fit::{
    Claim, CompactFit, Counts, Dereference, Fragmentation, Frame, Initialisation, Left, Overhead, Panel, Room, Series,
};
use crate::subject::compact_fit::{self as variants, Variant};
use crate::subject::{Counted, Entries, Heap, Region, Subject, handles, one};
use crate::trace::{Event, Op};
use crate::workload::random::Random;
use pathbound::counter::{Record, executed};
use pathbound::image::Process;
use std::collections::HashMap;
use std::ffi::c_void;

/// The heap of figures 6 and 7, in bytes: of the paper's 7 MB of objects, none of the allocators loses more than half.
pub const HEAP_BYTES: usize = 16 << 20;

/// Bytes of objects that figure 6 allocates, and the heap of figure 8.
const FULL_BYTES: usize = 7 << 20;

/// Operations of figure 7.
const OPERATIONS: usize = 5000;
/// Figure 7 once more with so many times the objects, since with ours no size class ever fills a page.
const CROWD: u64 = 24;
/// Operations of that.
const CROWDED_OPERATIONS: usize = 40_000;

/// Mean and deviation of allocate with the moving implementation, in figure 6 and, to the digit, in figure 7.
const PUBLISHED_ALLOCATE: (f64, f64) = (169.61, 8.63);
/// The same of free with partial compaction, in figure 6 and in figure 7.
const PUBLISHED_FREE: [(f64, f64); 2] = [(185.91, 16.58), (171.61, 5.09)];

/// The paper's peers: name there and here.
const PEERS: [(&str, &str); 5] = [
    ("First-fit", "first-fit"),
    ("Best-fit", "best-fit"),
    ("DL", "dlmalloc"),
    ("Half-fit", "half-fit"),
    ("TLSF", "tlsf"),
];

/// Heaps whose making is counted, in bytes.
const INITIALISED: [usize; 2] = [64 << 10, 1 << 30];

/// Performs every experiment.
#[must_use]
pub fn measure(process: &Process, seed: u64, progress: &mut dyn FnMut(u64, u64)) -> CompactFit {
    const STEPS: u64 = 12;
    let mut done = 0;
    let mut step = || {
        progress(done, STEPS);
        done += 1;
    };
    let mut panels = Vec::new();
    let mut panel = |figure: &str, what: &str, ours: &[Variant], load: &Load, frees: bool| {
        step();
        let published = |name: &str| match figure {
            "6a" | "7a" if name == "CFM" => Some(PUBLISHED_ALLOCATE),
            "6c" if name == "CFM" => Some(PUBLISHED_FREE[0]),
            "7c" if name == "CFM" => Some(PUBLISHED_FREE[1]),
            _ => None,
        };
        let peers = PEERS.map(|(published_as, name)| (published_as, one(name).expect("a peer of the paper")));
        let all = peers.into_iter().chain(ours.iter().map(|(name, subject)| (*name, subject)));
        let series = all.map(|(published_as, subject)| Series {
            published_as: published_as.into(),
            subject: subject.name.into(),
            published: published(published_as),
            ours: counts(process, subject, load, frees),
        });
        panels.push(Panel { figure: figure.into(), what: what.into(), series: series.collect() });
    };
    let load = incremental();
    let [full, wide, tuned] = [variants::FULL, variants::WIDE, variants::RATE_MONOTONIC];
    panel("6a", "incremental: allocate again what every second free gave back", full, &load, false);
    panel("6b", "incremental: free every second object, full compaction", full, &load, true);
    panel("6c", "incremental: free every second object, partial compaction", wide, &load, true);
    let load = rate_monotonic(seed, 1, OPERATIONS);
    panel("7a", "rate-monotonic: allocate", full, &load, false);
    panel("7b", "rate-monotonic: free, full compaction", full, &load, true);
    panel("7c", "rate-monotonic: free, partial compaction", tuned, &load, true);
    let load = rate_monotonic(seed, CROWD, CROWDED_OPERATIONS);
    let crowded = |what: &str| format!("{what}, {CROWD} times as many objects");
    panel("7a*", &crowded("rate-monotonic: allocate"), full, &load, false);
    panel("7b*", &crowded("rate-monotonic: free, full compaction"), full, &load, true);
    panel("7c*", &crowded("rate-monotonic: free, partial compaction"), tuned, &load, true);
    let load = incremental();
    step();
    let frames = variants::FRAMES.iter().map(|(frame_bytes, subject)| Frame {
        frame_bytes: *frame_bytes,
        ours: counts(process, subject, &load, true).map(|counts| counts.mean),
    });
    let frames = frames.collect();
    step();
    let fragmentation = fragmentation(seed);
    step();
    let dereference = dereference(process);
    let initialisation = full.iter().map(|(_, subject)| Initialisation {
        subject: subject.name.into(),
        ours: INITIALISED.iter().map(|bytes| Ok((*bytes as u64, initialised(process, subject, *bytes)?))).collect(),
    });
    let mut found = CompactFit {
        heap_bytes: HEAP_BYTES as u64,
        panels,
        fragmentation,
        dereference,
        initialisation: initialisation.collect(),
        overhead: overhead(),
        frames,
        claims: Vec::new(),
    };
    found.claims = claims(&found);
    found
}

/// Operations to perform, and which of them are measured.
struct Load {
    events: Vec<Event>,
    /// Index of the first event that is measured.
    from: u64,
}

struct Script {
    events: Vec<Event>,
}

impl Script {
    fn push(&mut self, tick: u64, op: Op) {
        self.events.push(Event { tick, thread: 0, op });
    }
}

/// Section 5.2: objects of 8, 12, 16, ... bytes until there are 7 MB of them; every second one is freed; those are allocated
/// once more. Frees and the later allocations are measured.
fn incremental() -> Load {
    let mut script = Script { events: Vec::new() };
    let mut bytes = 0;
    let sizes: Vec<u64> = (2..)
        .map(|quarter| 4 * quarter)
        .take_while(|size| {
            bytes += size;
            bytes <= FULL_BYTES as u64
        })
        .collect();
    for (slot, size) in (0..).zip(&sizes) {
        script.push(0, Op::Allocate { slot, size: *size, align: 1 });
    }
    let from = sizes.len() as u64;
    let second = || (0..).zip(&sizes).skip(1).step_by(2);
    second().for_each(|(slot, _)| script.push(1, Op::Free { slot }));
    second().for_each(|(slot, size)| script.push(2, Op::Allocate { slot, size: *size, align: 1 }));
    Load { events: script.events, from }
}

/// A periodic task; times in ticks.
struct Task {
    period: u64,
    hold: u64,
    sizes: (u64, u64),
    objects: u64,
}

/// The five tasks of section 5.3, whose parameters the paper does not tell: two with small objects held shortly, three with
/// large ones held long.
const TASKS: [Task; 5] = [
    Task { period: 10, hold: 20, sizes: (24, 100), objects: 4 },
    Task { period: 15, hold: 30, sizes: (32, 200), objects: 3 },
    Task { period: 40, hold: 400, sizes: (228, 428), objects: 3 },
    Task { period: 60, hold: 600, sizes: (380, 1000), objects: 2 },
    Task { period: 100, hold: 1000, sizes: (788, 1272), objects: 2 },
];

/// Section 5.3: at every tick, what was held long enough is freed, and then the tasks whose period begins allocate, those of the
/// shortest period first.
fn rate_monotonic(seed: u64, times: u64, operations: usize) -> Load {
    let mut random = Random::new(seed);
    let mut script = Script { events: Vec::new() };
    let mut held: std::collections::BTreeMap<u64, Vec<u32>> = std::collections::BTreeMap::new();
    let mut free: Vec<u32> = Vec::new();
    let mut slots = 0;
    for tick in 0.. {
        for slot in held.remove(&tick).unwrap_or_default() {
            script.push(tick, Op::Free { slot });
            free.push(slot);
        }
        for task in TASKS.iter().filter(|task| tick.is_multiple_of(task.period)) {
            for _ in 0..times * task.objects {
                let slot = free.pop().unwrap_or_else(|| {
                    slots += 1;
                    slots - 1
                });
                let size = random.within(task.sizes.0, task.sizes.1);
                script.push(tick, Op::Allocate { slot, size, align: 1 });
                held.entry(tick + task.hold).or_default().push(slot);
            }
        }
        if script.events.len() >= operations {
            break;
        }
    }
    script.events.truncate(operations);
    Load { events: script.events, from: 0 }
}

/// Counts the allocations or frees of a load. Code that only a computed jump reaches is found by trying.
fn counts(process: &Process, subject: &Subject, load: &Load, frees: bool) -> Result<Counts, String> {
    const ROUNDS: usize = 24;
    let mut further = Vec::new();
    for _ in 0..ROUNDS {
        let counted = Counted::new(process, subject, &further, Record::Count).map_err(|error| error.to_string())?;
        let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
        let mut heap = Heap::new(subject, &mut region, HEAP_BYTES).map_err(|error| error.to_string())?;
        heap.entries = counted.entries();
        let mut watch = Watch { entries: subject.entries, context: heap.context, load, frees, ..Watch::of(subject) };
        let mut replay = Replay::new();
        replay.run::<false, _>(&heap, &load.events, &mut watch).map_err(|fault| fault.to_string())?;
        let missed = counted.counter().misses();
        if replay.refused() > 0 {
            return Err(format!("refused {} requests", replay.refused()));
        }
        if missed.is_empty() {
            return Ok(watch.counts());
        }
        further.extend(missed);
    }
    Err("not all code that its computed jumps lead to was found".into())
}

/// Notes what every measured operation counts, and whether an object has moved.
struct Watch<'a> {
    entries: Entries,
    context: *mut c_void,
    load: &'a Load,
    frees: bool,
    before: u64,
    operations: Vec<(u32, u32)>,
    /// Of the operations, those that moved an object.
    movers: Vec<(u32, u32)>,
    /// Where every live object is, where objects are contiguous and move.
    places: Option<HashMap<usize, usize>>,
    moves: u64,
    last_move: Option<u64>,
}

static NOTHING: Load = Load { events: Vec::new(), from: 0 };

impl Watch<'_> {
    fn of(subject: &Subject) -> Self {
        let moves = subject.entries.handles.is_some_and(|handles| handles.piece_bytes == usize::MAX);
        Self {
            entries: subject.entries,
            context: std::ptr::null_mut(),
            load: &NOTHING,
            frees: false,
            before: 0,
            operations: Vec::new(),
            movers: Vec::new(),
            places: moves.then(HashMap::new),
            moves: 0,
            last_move: None,
        }
    }

    fn place(&self, block: usize) -> usize {
        self.entries.handles.map_or(block, |handles| {
            // SAFETY: the block is live.
            unsafe { (handles.dereference)(self.context, block as *mut u8, 0) as usize }
        })
    }

    fn note(&mut self, index: u64, size: usize) {
        if index >= self.load.from {
            self.operations.push((size as u32, (executed() - self.before) as u32));
        }
    }

    fn counts(self) -> Counts {
        let (mean, deviation) = moments(self.operations.iter().map(|(_, count)| f64::from(*count)));
        // What moves nothing is constant: the line is that of what moves something, where anything does.
        let (per_byte, explained) = line(if self.movers.is_empty() { &self.operations } else { &self.movers });
        let moves = self.places.is_some();
        Counts {
            mean,
            deviation,
            least: self.operations.iter().map(|(_, count)| u64::from(*count)).min().unwrap_or(0),
            most: self.operations.iter().map(|(_, count)| u64::from(*count)).max().unwrap_or(0),
            per_byte,
            explained,
            moves: (moves && self.frees).then_some(self.moves),
            last_move: self.last_move.filter(|_| self.frees),
            operations: self.operations,
        }
    }
}

/// The line of least squares of counts over sizes: its climb, and the share of the variance that it explains.
fn line(operations: &[(u32, u32)]) -> (f64, f64) {
    let (counts, sizes) =
        (operations.iter().map(|(_, count)| f64::from(*count)), operations.iter().map(|(size, _)| f64::from(*size)));
    let ((mean, deviation), (mean_size, size_deviation)) = (moments(counts.clone()), moments(sizes.clone()));
    if deviation == 0.0 || size_deviation == 0.0 {
        return (0.0, 0.0);
    }
    let products = sizes.zip(counts).map(|(size, count)| (size - mean_size) * (count - mean));
    let covariance = products.sum::<f64>() / operations.len() as f64;
    (covariance / size_deviation.powi(2), (covariance / (deviation * size_deviation)).powi(2))
}

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt())
}

impl Observer for Watch<'_> {
    fn before(&mut self, _: u64) {
        self.before = executed();
    }

    fn granted(&mut self, _: &Heap<'_>, index: u64, block: &Block, _: Option<usize>) {
        if !self.frees {
            self.note(index, block.size);
        }
        let place = self.place(block.address);
        if let Some(places) = &mut self.places {
            places.insert(block.address, place);
        }
    }

    fn freed(&mut self, index: u64, block: &Block) {
        if !self.frees {
            return;
        }
        self.note(index, block.size);
        let Some(mut places) = self.places.take() else { return };
        places.remove(&block.address);
        let mut moved = false;
        for (block, place) in &mut places {
            let now = self.place(*block);
            moved |= now != *place;
            *place = now;
        }
        self.places = Some(places);
        if moved {
            self.moves += 1;
            self.movers.extend(self.operations.last().filter(|_| index >= self.load.from));
            self.last_move = Some(self.operations.len() as u64);
        }
    }
}

/// Section 5.4: a heap of 7 MB is filled with objects of 20 to 100 bytes, a fifth of them is freed at random, and then, on a
/// heap of its own for each size, objects of one size are allocated until that is refused.
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
        // SAFETY: the heap is live, and sizes are those of a `Layout`.
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
            // SAFETY: the block is live and was asked for with this size.
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

/// What a program executes to read a byte: a function of its own for each, the call apart.
fn dereference(process: &Process) -> Vec<Dereference> {
    let row =
        |through: String, published: Option<u64>, ours: Result<u64, String>| Dereference { through, published, ours };
    let mut rows = vec![
        row(POINTER.into(), Some(6), handles::counted_read(process, None)),
        row(ABSTRACT.into(), Some(7), variants::abstract_read(process)),
    ];
    rows.extend(variants::FULL.iter().map(|(name, subject)| {
        // The paper's handles of the non-moving implementation are all there is; those of the moving one are unchecked.
        let published = (*name == "CFNM").then_some(11);
        row(format!("a handle, {name}"), published, handles::counted_read(process, Some(subject)))
    }));
    rows
}

/// Through what an object is read.
const POINTER: &str = "a pointer";
/// The place where its address is kept.
const ABSTRACT: &str = "an abstract address, CFM";

/// Instructions to make a heap of a subject whose objects move.
fn initialised(process: &Process, subject: &Subject, bytes: usize) -> Result<u64, String> {
    let handles = subject.entries.handles.ok_or("no allocator of objects that move")?;
    let region = Region::new(bytes, false).map_err(|error| error.to_string())?;
    let start = region.start();
    let mut made = std::ptr::null_mut();
    let count = handles::count_call(process, handles.initialise as usize as u64, |entry| {
        // SAFETY: the copy of a function is called as the function is.
        let initialise = unsafe { std::mem::transmute::<*const c_void, handles::InitialiseEntry>(entry) };
        // SAFETY: the region is nobody else's.
        made = unsafe { initialise(start, bytes) };
    })?;
    if made.is_null() { Err("the heap was refused".into()) } else { Ok(count) }
}

/// What pages and page-blocks cost, read off heaps: the directory's bytes for a page more, and what a page-block of the smallest
/// class has beyond what its object may use.
fn overhead() -> Vec<Overhead> {
    let told = |(page, share): (f64, f64)| {
        let pages = format!("{page:.0} B ({:.2} %)", page / 16384.0 * 100.0);
        [pages, format!("{:.1} %", share * 100.0)]
    };
    // Virtual pages are at the other end of the region, where nobody looks from outside.
    let of = |(name, subject): &Variant| {
        let [page, share] = kept(subject).map_or_else(|| ["-".into(), "-".into()], told);
        [
            Overhead {
                what: format!("administration of a page of 16 KB, {name}"),
                published: "78 B (0.47 %)".into(),
                ours: page,
            },
            Overhead {
                what: format!("of the smallest page-block not the object's, {name}"),
                published: "12.5 %".into(),
                ours: share,
            },
        ]
    };
    variants::FULL.iter().take(1).flat_map(of).collect()
}

/// Bytes kept for each page, and the share of the smallest page-block that is not the object's.
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
    // A page costs its own bytes and those in the directory.
    let (more, page) = (large? - small?, view.contract.page_bytes as f64);
    let pages = ((REGIONS[1] - REGIONS[0]) as f64 - more) / page;
    Some((more / pages, share))
}

/// Whether counts do not depend on the object's size: the most of the larger half of the sizes is at most a tenth above that of
/// the smaller half.
fn is_constant(counts: &Counts) -> bool {
    let mut sizes: Vec<u32> = counts.operations.iter().map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    let middle = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    let most = |large: bool| {
        counts
            .operations
            .iter()
            .filter(|(size, _)| (*size >= middle) == large)
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    };
    f64::from(most(true)) <= 1.1 * f64::from(most(false))
}

/// Whether counts climb with the object's size along a line that explains nine tenths of their variance.
fn is_linear(counts: &Counts) -> bool {
    counts.per_byte > 0.0 && counts.explained >= 0.9
}

/// Whether all counts of objects of nearly one size (an eighth apart) are within a tenth of their mean.
fn is_step(counts: &Counts) -> bool {
    let mut by_class: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for (size, count) in &counts.operations {
        by_class.entry((f64::from(*size).ln() / 1.125_f64.ln()) as u32).or_default().push(f64::from(*count));
    }
    by_class.values().all(|counts| {
        let (mean, deviation) = moments(counts.iter().copied());
        deviation <= mean / 10.0
    })
}

/// The paper's claims, held against our figures. Every rule stands in its claim.
fn claims(found: &CompactFit) -> Vec<Claim> {
    let series = |figure: &str, name: &str| {
        let panel = found.panels.iter().find(|panel| panel.figure == figure)?;
        panel.series.iter().find(|series| series.published_as == name)?.ours.as_ref().ok()
    };
    let about = |counts: Option<&Counts>| {
        counts.map_or_else(|| "-".into(), |counts| format!("{:.2} \u{b1} {:.2}", counts.mean, counts.deviation))
    };
    let mean = |figure: &str, name: &str| series(figure, name).map(|counts| counts.mean);
    let told = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let mut claims = Vec::new();
    let mut claim =
        |claim: String, confirmed: Option<bool>, figures: String| claims.push(Claim { claim, confirmed, figures });
    const CONSTANT: &str = "the most of the larger half of the sizes is at most a tenth above that of the smaller half";
    const LINEAR: &str = "a line over the size explains nine tenths of the variance";

    let spread = |name: &str| series("6a", name).map(|counts| counts.deviation / counts.mean);
    claim(
        "6a: first-fit and best-fit allocate highly unpredictably (deviations above half the mean), DL more boundedly (below theirs)".into(),
        spread("First-fit").zip(spread("Best-fit")).zip(spread("DL")).map(|((first, best), dl)| first.min(best) > 0.5 && dl < first.min(best)),
        ["First-fit", "Best-fit", "DL"].map(|name| format!("{name} {}", about(series("6a", name)))).join(", "),
    );
    for (figure, published, load) in
        [("6a", "169.61 \u{b1} 8.63", "incremental"), ("7a", "169.61 \u{b1} 8.63", "rate-monotonic")]
    {
        let ours = series(figure, "CFM");
        claim(
            format!("{figure}: allocate with CFM is constant, {load} ({CONSTANT})"),
            ours.map(is_constant),
            format!("{published} published; {} ours", about(ours)),
        );
        let ours = series(figure, "CFNM");
        claim(
            format!("{figure}: allocate with CFNM is linear in the object, {load} ({LINEAR})"),
            ours.map(is_linear),
            format!("{:.2} instructions per byte ours", ours.map_or(f64::NAN, |counts| counts.per_byte)),
        );
        let order = |names: [&str; 7]| -> Option<[f64; 7]> {
            let means: Option<Vec<f64>> = names.iter().map(|name| mean(figure, name)).collect();
            means?.try_into().ok()
        };
        let means = order(["Half-fit", "TLSF", "CFM", "DL", "First-fit", "Best-fit", "CFNM"]);
        claim(
            format!(
                "{figure}: in the mean, half-fit and TLSF allocate with fewer instructions than CFM, CFM about as DL (within a factor \
                 of two), and first-fit and best-fit need more"
            ),
            means.map(|[half, tlsf, cfm, dl, first, best, _]| {
                half.max(tlsf) < cfm && (0.5..=2.0).contains(&(cfm / dl)) && cfm.max(dl) < first.min(best)
            }),
            format!(
                "half-fit {}, TLSF {}, CFM {}, DL {}, first-fit {}, best-fit {}",
                told(mean(figure, "Half-fit")),
                told(mean(figure, "TLSF")),
                told(mean(figure, "CFM")),
                told(mean(figure, "DL")),
                told(mean(figure, "First-fit")),
                told(mean(figure, "Best-fit"))
            ),
        );
    }
    let peers = ["First-fit", "Best-fit", "DL", "Half-fit", "TLSF"];
    let all = peers.iter().map(|name| series("6b", name).map(is_constant)).try_fold(true, |all, one| Some(all & one?));
    claim(
        format!("6b: everybody but Compact-fit frees in constant time ({CONSTANT})"),
        all,
        peers
            .map(|name| {
                let but =
                    if series("6b", name).is_some_and(|counts| !is_constant(counts)) { ", which is not" } else { "" };
                format!("{name} {}{but}", told(mean("6b", name)))
            })
            .join(", "),
    );
    let ours = series("6b", "CFM");
    claim(
        format!("6b: free with full compaction is linear in the object with CFM ({LINEAR})"),
        ours.map(is_linear),
        ours.map_or_else(
            || "-".into(),
            |counts| {
                let operations = counts.operations.len();
                format!(
                    "{:.3} instructions per byte, {} of {operations} frees move an object",
                    counts.per_byte,
                    counts.moves.unwrap_or(0)
                )
            },
        ),
    );
    for (figure, published) in
        [("6c", "185.91 \u{b1} 16.58"), ("7c", "171.61 \u{b1} 5.09"), ("7c*", "171.61 \u{b1} 5.09")]
    {
        let ours = series(figure, "CFM");
        claim(
            format!("{figure}: free with partial compaction is constant with CFM and moves nothing ({CONSTANT})"),
            ours.map(|counts| is_constant(counts) && counts.moves == Some(0)),
            format!(
                "{published} published; {} ours, {} moves",
                about(ours),
                ours.and_then(|counts| counts.moves).map_or_else(|| "-".into(), |moves| moves.to_string())
            ),
        );
    }
    let ours = series("6c", "CFNM");
    claim(
        format!(
            "6c: free is linear in the object with CFNM always ({LINEAR}), a step for each size class (deviation within a class at most a tenth)"
        ),
        ours.map(|counts| is_linear(counts) && is_step(counts)),
        format!("{} ours", about(ours)),
    );
    for figure in ["7b", "7b*"] {
        let ours = series(figure, "CFM");
        claim(
            format!(
                "{figure}: with full compaction the first 550 frees or so move objects, and none after that (some do, and none in the \
             second half of the run)"
            ),
            ours.map(|counts| counts.last_move.is_some_and(|last| last as usize <= counts.operations.len() / 2)),
            ours.map_or_else(
                || "-".into(),
                |counts| {
                    let last = counts.last_move.map(|last| format!(", the last one free {last}"));
                    format!(
                        "{} of {} frees move an object{}",
                        counts.moves.unwrap_or(0),
                        counts.operations.len(),
                        last.unwrap_or_default()
                    )
                },
            ),
        );
    }
    claim(
        "7b: all frees together take CFM fewer instructions than DL, full compaction included".to_string(),
        mean("7b", "CFM").zip(mean("7b", "DL")).map(|(ours, dl)| ours < dl),
        format!("means: CFM {}, DL {}", told(mean("7b", "CFM")), told(mean("7b", "DL"))),
    );
    let frame =
        |bytes: Option<u64>| found.frames.iter().find(|frame| frame.frame_bytes == bytes)?.ours.as_ref().ok().copied();
    let moving = frame(None);
    let fewer = |bytes: u64| Some(frame(Some(bytes))? < moving?);
    let known: Vec<u64> = found.frames.iter().filter_map(|frame| frame.frame_bytes).collect();
    let least = known.iter().copied().find(|bytes| fewer(*bytes) == Some(true));
    let judged: Option<Vec<bool>> = known.iter().map(|bytes| Some(fewer(*bytes)? == (*bytes >= 80))).collect();
    claim(
        "CFNM frees with fewer instructions than CFM with full compaction from block-frames of 80 B on (means of 6b)"
            .into(),
        judged.filter(|judged| !judged.is_empty()).map(|judged| judged.into_iter().all(|agrees| agrees)),
        least.map_or_else(|| "never, ours".into(), |least| format!("from {least} B on, ours")),
    );
    let room = |label: &str| found.fragmentation.rows.iter().find(|row| row.label == label)?.ours.as_ref().ok();
    let above = |label: &str| {
        let (ours, tlsf) = (room(label)?, room("TLSF")?);
        Some(ours.more.iter().zip(&tlsf.more).filter(|(ours, tlsf)| ours >= tlsf).count())
    };
    let sizes = found.fragmentation.sizes.len();
    let counts: Option<Vec<usize>> = (1..=9).map(|pages| above(&format!("CFM {pages}"))).collect();
    claim(
        "8: with 1 to 9 not-full pages CFM has room for at least as many objects as TLSF, of every size".into(),
        counts.as_ref().map(|counts| counts.iter().all(|count| *count == sizes)),
        counts.map_or_else(
            || "-".into(),
            |counts| {
                let list: Vec<String> = counts.iter().map(usize::to_string).collect();
                let few = found.fragmentation.sizes.iter().enumerate().filter(|(at, _)| {
                    let ours = (1..=9).filter_map(|pages| Some(room(&format!("CFM {pages}"))?.more[*at]));
                    room("TLSF").is_some_and(|tlsf| ours.into_iter().any(|more| more < tlsf.more[*at]))
                });
                let largest = few.map(|(_, size)| *size).max();
                let below = largest.map_or_else(String::new, |size| format!("; less room up to {size} B alone"));
                format!("of {sizes} sizes, CFM 1 to 9: {}{below}", list.join(", "))
            },
        ),
    );
    let read = |through: &str| found.dereference.iter().find(|row| row.through == through)?.ours.as_ref().ok().copied();
    let more = |through: &str| Some(read(through)? as i64 - read(POINTER)? as i64);
    let kinds = [ABSTRACT, "a handle, CFNM", "a handle, CFM"].map(more);
    claim(
        "a dereference takes CFM one instruction more than a pointer, and CFNM five".into(),
        kinds[0].zip(kinds[1]).map(|(moving, non_moving)| moving == 1 && non_moving == 5),
        {
            let [moving, non_moving, handle] =
                kinds.map(|more| more.map_or_else(|| "-".into(), |more| more.to_string()));
            format!("{moving} and {non_moving} more, ours, and {handle} through a handle of CFM, which can be checked")
        },
    );
    let constant = found.initialisation.iter().map(|row| {
        let counts = row.ours.as_ref().ok()?;
        Some(counts.iter().all(|(_, count)| *count == counts[0].1))
    });
    claim(
        "a heap is made in constant time (the same count for 64 KB and for 1 GB)".into(),
        constant.clone().try_fold(true, |all, one| Some(all & one?)),
        found
            .initialisation
            .iter()
            .filter_map(|row| {
                let counts: Vec<String> = row.ours.as_ref().ok()?.iter().map(|(_, count)| count.to_string()).collect();
                Some(format!("{} {}", row.subject, counts.join(" and ")))
            })
            .collect::<Vec<_>>()
            .join(", "),
    );
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_incremental_load_is_the_papers() {
        let load = incremental();
        let allocations = load.from as usize;
        assert_eq!(allocations, 1914);
        let Op::Allocate { size, .. } = load.events[allocations - 1].op else { panic!("an allocation") };
        assert_eq!(size, 7660);
        assert_eq!(load.events.len(), allocations + 2 * (allocations / 2));
    }

    #[test]
    fn the_tasks_free_what_they_held_long_enough() {
        let load = rate_monotonic(1, 1, OPERATIONS);
        assert_eq!(load.events.len(), OPERATIONS);
        let mut live = std::collections::BTreeMap::new();
        for event in &load.events {
            match event.op {
                Op::Allocate { slot, size, .. } => assert_eq!(live.insert(slot, (event.tick, size)), None),
                Op::Free { slot } => {
                    let (since, size) = live.remove(&slot).expect("live");
                    let fits =
                        |task: &Task| task.hold == event.tick - since && (task.sizes.0..=task.sizes.1).contains(&size);
                    assert!(TASKS.iter().any(fits), "{event:?}");
                }
                Op::Reallocate { .. } => panic!("tasks do not reallocate"),
            }
        }
    }

    fn counted(operations: &[(u32, u32)]) -> Counts {
        let subject = one("tlsf").expect("a subject");
        Watch { operations: operations.to_vec(), ..Watch::of(subject) }.counts()
    }

    #[test]
    fn rules_tell_constant_from_linear_and_steps() {
        let constant: Vec<(u32, u32)> = (1..500).map(|size| (8 * size, 80 + size % 7)).collect();
        assert!(is_constant(&counted(&constant)) && !is_linear(&counted(&constant)));
        let linear: Vec<(u32, u32)> = (1..500).map(|size| (8 * size, 80 + 2 * size)).collect();
        assert!(is_linear(&counted(&linear)) && !is_constant(&counted(&linear)));
        assert!(is_step(&counted(&linear)));
        let mixed: Vec<(u32, u32)> =
            (1..500).map(|size| (8 * size, if size % 2 == 0 { 80 } else { 80 + 2 * size })).collect();
        assert!(!is_step(&counted(&mixed)) && !is_linear(&counted(&mixed)));
        let even = counted(&[(8, 10), (16, 10)]);
        assert!((even.deviation, even.explained) == (0.0, 0.0) && is_constant(&even));
    }
}
