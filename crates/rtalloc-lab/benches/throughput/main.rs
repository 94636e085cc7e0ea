//! Nanoseconds per operation: TLSF and half-fit beside bounded peers, as a stranger would measure them.
//!
//! `cargo bench -p rtalloc-lab --bench throughput` builds the subjects as static libraries of their own, once to be
//! called through pointers and once inlined into the loop (`apart/`), and performs lists of operations from memory: the
//! TLSF paper's profiles and two mixes in steady state, with seeds that are drawn for each run and printed, and the
//! recordings named after `--`. A round performs a list on a fresh heap, for all subjects in random order. The time of
//! a list is the sum of those of its chunks of 2,048 operations, for each the lowest octile of the rounds. The table
//! has the ratios to rlsf in the same run, with the central 95 % of what other rounds would have given (bootstrap).
//!
//! A reallocation in a recording becomes an allocation and a free; alignments beyond 16 bytes are not requested.

mod replay;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use replay::{CHUNK, Operation, Slot};
use rtalloc_lab::trace::{Event, Op, Reader};
use rtalloc_lab::workload::{Model, random::Random};
use rtalloc_subjects::Region;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Times allocators in lists of operations.
#[derive(Parser)]
#[command(name = "throughput", bin_name = "cargo bench -p rtalloc-lab --bench throughput --")]
struct Arguments {
    /// Recordings (.rtrace) to measure with, beside the models
    recordings: Vec<PathBuf>,
    /// Rounds
    #[arg(long, default_value_t = 17, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Lists of each model, with a seed each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    lists: u64,
    /// Seed of the lists and of the order of subjects; drawn if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Only these subjects, beside rlsf and the harness
    #[arg(long, value_delimiter = ',')]
    subjects: Vec<String>,
    /// A shared library with further subjects: an array THROUGHPUT_SUBJECTS as in apart/src/lib.rs
    #[arg(long)]
    library: Vec<PathBuf>,
    /// Counts instructions and mispredicted branches with valgrind's model of a processor, instead of time
    #[arg(long)]
    simulate: bool,
    /// Performs the lists once with the subject of this number
    #[arg(long, hide = true)]
    once: Option<usize>,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

const MODELS: [(&str, &str, usize); 5] = [
    ("P1", "p1 --mallocs 200000", 16 << 20),
    ("P2", "p2 --mallocs 200000", 16 << 20),
    ("P3", "p3 --mallocs 200000", 16 << 20),
    ("small", "steady --mallocs 200000", 16 << 20),
    ("large", "loguniform --mallocs 200000", 256 << 20),
];
const REFERENCE: &str = "rlsf";
const HARNESS: &str = "(harness)";
/// Resamples of the rounds.
const RESAMPLES: u64 = 200;

/// As in `apart/src/lib.rs`.
#[repr(C)]
struct Exported {
    name: *const c_char,
    make: Option<unsafe extern "C" fn(*mut u8, usize) -> *mut c_void>,
    allocate: Option<unsafe extern "C" fn(*mut c_void, usize) -> *mut u8>,
    free: Option<unsafe extern "C" fn(*mut c_void, *mut u8, usize)>,
    replay: Option<unsafe extern "C" fn(*mut c_void, *const Operation, usize, *mut Slot, usize, *mut u64) -> bool>,
}

struct Subject {
    name: String,
    exported: &'static Exported,
}

/// Operations of one model and seed, or of a recording.
struct List {
    /// The column, by number and by name.
    column: usize,
    name: String,
    operations: Vec<Operation>,
    slots: usize,
    region_bytes: usize,
}

/// Turns events into operations. A reallocated block gets another slot, because both are live at once.
#[derive(Default)]
struct Compiler {
    operations: Vec<Operation>,
    /// Slot and size of every live block of the trace.
    live: HashMap<u32, (u32, u64)>,
    unused: Vec<u32>,
    slots: u32,
    live_bytes: u64,
    peak_bytes: u64,
}

impl Compiler {
    fn allocate(&mut self, name: u32, size: u64) -> anyhow::Result<()> {
        let slot = self.unused.pop().unwrap_or(self.slots);
        self.slots = self.slots.max(slot + 1);
        self.live.insert(name, (slot, size));
        self.live_bytes += size;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        self.operations.push(Operation { slot, size: u32::try_from(size).context("a block of 4 GiB or more")? });
        Ok(())
    }

    fn free(&mut self, (slot, size): (u32, u64)) {
        self.operations.push(Operation { slot, size: 0 });
        self.unused.push(slot);
        self.live_bytes -= size;
    }

    fn push(&mut self, event: &Event) -> anyhow::Result<()> {
        match event.op {
            Op::Allocate { slot, size, .. } => self.allocate(slot, size)?,
            Op::Free { slot } => {
                let block = self.live[&slot];
                self.free(block);
            }
            Op::Reallocate { slot, size, .. } => {
                let old = self.live[&slot];
                self.allocate(slot, size)?;
                self.free(old);
            }
        }
        Ok(())
    }

    fn list(self, column: usize, name: String, region_bytes: Option<usize>) -> List {
        // Room for any of the subjects: they need at most four times the live bytes.
        let room = (4 * self.peak_bytes as usize).max(1 << 20).next_power_of_two();
        List {
            column,
            name,
            operations: self.operations,
            slots: self.slots as usize,
            region_bytes: region_bytes.unwrap_or(room),
        }
    }
}

fn lists(arguments: &Arguments, seed: u64) -> anyhow::Result<Vec<List>> {
    let mut lists = Vec::new();
    for (column, (name, words, bytes)) in MODELS.into_iter().enumerate() {
        let model = Model::parse(words)?;
        for number in 0..arguments.lists {
            let mut events = Vec::new();
            model.generate(seed + number, &mut events)?;
            let mut compiler = Compiler::default();
            events.iter().try_for_each(|event| compiler.push(event))?;
            lists.push(compiler.list(column, name.into(), Some(bytes)));
        }
    }
    for (number, path) in arguments.recordings.iter().enumerate() {
        let mut reader = Reader::open(path).with_context(|| path.display().to_string())?;
        let mut compiler = Compiler::default();
        let mut events = Vec::new();
        while reader.next_chunk(&mut events)? {
            events.iter().try_for_each(|event| compiler.push(event))?;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let list = compiler.list(MODELS.len() + number, name.chars().take(9).collect(), None);
        anyhow::ensure!(!list.operations.is_empty(), "{} has no operations", path.display());
        lists.push(list);
    }
    Ok(lists)
}

/// The subjects a library exports.
fn load(library: &Path) -> anyhow::Result<&'static [Exported]> {
    let path = CString::new(std::fs::canonicalize(library)?.into_os_string().into_encoded_bytes())?;
    // SAFETY: loading runs the library's initialisers, which its author answers for; the array ends with a null name.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        ensure!(!handle.is_null(), "{}: {}", library.display(), CStr::from_ptr(libc::dlerror()).to_string_lossy());
        let array = libc::dlsym(handle, c"THROUGHPUT_SUBJECTS".as_ptr()).cast::<Exported>();
        ensure!(!array.is_null(), "{} has no THROUGHPUT_SUBJECTS", library.display());
        let count = (0..).take_while(|&index| !(*array.add(index)).name.is_null()).count();
        Ok(std::slice::from_raw_parts(array, count))
    }
}

/// Compiles `apart/`, and links the static library into a shared one.
fn build(inlined: bool) -> anyhow::Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/throughput/apart/Cargo.toml");
    let target = std::env::current_exe()?;
    let target = target.ancestors().nth(3).context("the benchmark is not in a target directory")?;
    let target = target.join(if inlined { "apart-inlined" } else { "apart" });
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--manifest-path"]).arg(manifest).arg("--target-dir").arg(&target);
    if inlined {
        cargo.args(["--features", "inlined"]);
    }
    ensure!(cargo.status()?.success(), "the static library was not built");
    let library = target.join("subjects.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-Wl,-u,THROUGHPUT_SUBJECTS", "-o"]).arg(&library);
    cc.arg(target.join("release/libapart.a")).args(["-lpthread", "-ldl", "-lm"]);
    ensure!(cc.status()?.success(), "cc did not link {}", library.display());
    Ok(library)
}

fn subjects(arguments: &Arguments) -> anyhow::Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for (library, how) in [(build(false)?, "called"), (build(true)?, "inlined")] {
        for exported in load(&library)? {
            // SAFETY: a name that is not null is a C string.
            let name = unsafe { CStr::from_ptr(exported.name) }.to_string_lossy();
            subjects.push(Subject { name: format!("{name} {how}"), exported });
        }
    }
    for library in &arguments.library {
        for exported in load(library)? {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(exported.name) }.to_string_lossy();
            subjects.push(Subject { name: format!("{name} called"), exported });
        }
    }
    if !arguments.subjects.is_empty() {
        let stem = |subject: &Subject| subject.name.split(' ').next().unwrap_or_default().to_owned();
        for name in &arguments.subjects {
            ensure!(subjects.iter().any(|subject| stem(subject) == *name), "no subject is called {name}");
        }
        subjects.retain(|subject| {
            let stem = stem(subject);
            stem == REFERENCE || stem == HARNESS || arguments.subjects.contains(&stem)
        });
    }
    Ok(subjects)
}

impl Subject {
    /// Performs a list on a fresh heap; returns the ticks of each chunk.
    fn perform(&self, list: &List, region: &mut Region) -> anyhow::Result<Vec<u64>> {
        let Exported { make, allocate, free, replay: inlined, .. } = *self.exported;
        let mut slots: Vec<Slot> = vec![Slot { block: std::ptr::null_mut(), size: 0 }; list.slots];
        let mut ticks = vec![0; list.operations.len().div_ceil(CHUNK)];
        let operations = &list.operations[..];
        // SAFETY: the region is this heap's alone until the next one is made in it; a list frees only live blocks.
        let is_served = unsafe {
            let heap = make.context("no function makes a heap")?(region.start(), list.region_bytes);
            ensure!(!heap.is_null(), "{} refused {} bytes", self.name, list.region_bytes);
            match (inlined, allocate, free) {
                (Some(inlined), ..) => inlined(
                    heap,
                    operations.as_ptr(),
                    operations.len(),
                    slots.as_mut_ptr(),
                    slots.len(),
                    ticks.as_mut_ptr(),
                ),
                (None, Some(allocate), Some(free)) => replay::replay(
                    operations,
                    &mut slots,
                    &mut ticks,
                    |size| allocate(heap, size),
                    |block, size| free(heap, block, size),
                ),
                _ => bail!("{} has neither functions nor a loop", self.name),
            }
        };
        ensure!(is_served, "{} is exhausted in {} of {} bytes", self.name, list.name, list.region_bytes);
        Ok(ticks)
    }
}

/// The sum over the chunks of each one's lowest octile in these rounds.
fn lowest_octiles(rounds: &[Vec<u64>], chosen: &[usize]) -> f64 {
    let lowest_octile = |chunk: usize| {
        let mut samples: Vec<u64> = chosen.iter().map(|&round| rounds[round][chunk]).collect();
        let octile = samples.len() / 8;
        *samples.select_nth_unstable(octile).1
    };
    (0..rounds[0].len()).map(lowest_octile).sum::<u64>() as f64
}

/// Ticks of the time-stamp counter per nanosecond.
fn ticks_per_ns() -> f64 {
    // SAFETY: every x86-64 processor has the instruction.
    let now = || unsafe { core::arch::x86_64::_rdtsc() };
    let (begin, start) = (Instant::now(), now());
    while begin.elapsed().as_millis() < 50 {}
    (now() - start) as f64 / begin.elapsed().as_nanos() as f64
}

/// Indices of the lists of each column.
fn columns(lists: &[List]) -> Vec<(String, Vec<usize>)> {
    let mut columns: Vec<(String, Vec<usize>)> = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        match columns.get_mut(list.column) {
            Some((_, members)) => members.push(index),
            None => columns.push((list.name.clone(), vec![index])),
        }
    }
    columns
}

fn measure(arguments: &Arguments, subjects: &[Subject], lists: &[List], random: &mut Random) -> anyhow::Result<()> {
    // By list, subject and round: the ticks of each chunk.
    let mut ticks = vec![vec![Vec::new(); subjects.len()]; lists.len()];
    for (number, (list, ticks)) in lists.iter().zip(&mut ticks).enumerate() {
        eprint!("\r{:>3} of {} lists: {:<10}", number + 1, lists.len(), list.name);
        let mut region = Region::new(list.region_bytes, true)?;
        for _ in 0..arguments.rounds {
            let mut order: Vec<usize> = (0..subjects.len()).collect();
            for left in (1..order.len()).rev() {
                order.swap(left, random.below(left as u64 + 1) as usize);
            }
            for subject in order {
                ticks[subject].push(subjects[subject].perform(list, &mut region)?);
            }
        }
    }
    eprint!("\r{:40}\r", "");
    let columns = columns(lists);
    let reference = |subject: usize| {
        let how = subjects[subject].name.split(' ').next_back();
        let is_reference = |other: &Subject| {
            other.name.split(' ').next() == Some(REFERENCE) && other.name.split(' ').next_back() == how
        };
        subjects.iter().position(is_reference).expect("rlsf is always measured")
    };
    let every: Vec<usize> = (0..arguments.rounds as usize).collect();
    let resamples: Vec<Vec<usize>> =
        (0..RESAMPLES).map(|_| every.iter().map(|_| random.below(arguments.rounds) as usize).collect()).collect();
    let per_ns = ticks_per_ns();
    for table in ["ns/operation", "ratio to rlsf"] {
        print!("{table:<29}");
        columns.iter().for_each(|(name, _)| print!("{name:>17}"));
        println!();
        for (row, subject) in subjects.iter().enumerate() {
            print!("{:<29}", subject.name);
            for (_, members) in &columns {
                // Geometric means over the lists of a model.
                let mean = |chosen: &[usize], subject: usize| {
                    let log = |&list: &usize| {
                        (lowest_octiles(&ticks[list][subject], chosen) / lists[list].operations.len() as f64).ln()
                    };
                    (members.iter().map(log).sum::<f64>() / members.len() as f64).exp()
                };
                if table.starts_with("ns") {
                    print!("{:>17.1}", mean(&every, row) / per_ns);
                    continue;
                }
                let ratio = |chosen: &[usize]| mean(chosen, row) / mean(chosen, reference(row));
                let mut others: Vec<f64> = resamples.iter().map(|chosen| ratio(chosen)).collect();
                others.sort_by(f64::total_cmp);
                let (low, high) = (others[others.len() / 40], others[others.len() - 1 - others.len() / 40]);
                print!("  {:>4.2} ({low:.2}-{high:.2})", ratio(&every));
            }
            println!();
        }
        println!();
    }
    Ok(())
}

/// Instructions, conditional branches and mispredicted ones, of this benchmark with one subject.
fn simulated(arguments: &Arguments, seed: u64, subject: usize, lists: u64) -> anyhow::Result<[f64; 3]> {
    let file = tempfile::NamedTempFile::new()?;
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--branch-sim=yes", "--quiet"]);
    valgrind.arg(format!("--cachegrind-out-file={}", file.path().display())).arg(std::env::current_exe()?);
    valgrind.args([format!("--once={subject}"), format!("--seed={seed}"), format!("--lists={lists}")]);
    valgrind.args(&arguments.recordings);
    for library in &arguments.library {
        valgrind.arg("--library").arg(library);
    }
    ensure!(valgrind.status().context("valgrind is needed to simulate")?.success(), "valgrind failed");
    let text = std::fs::read_to_string(file.path())?;
    let line = |start| text.lines().find_map(|line| line.strip_prefix(start)).context("no totals of valgrind");
    let totals: Vec<f64> = line("summary:")?.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let event = |name| -> anyhow::Result<f64> {
        let place = line("events:")?.split_whitespace().position(|event| event == name);
        Ok(totals[place.context("an event that valgrind did not count")?])
    };
    Ok([event("Ir")?, event("Bc")?, event("Bcm")?])
}

fn simulate(arguments: &Arguments, subjects: &[Subject], seed: u64) -> anyhow::Result<()> {
    let operations: usize = lists(arguments, seed)?.iter().map(|list| list.operations.len()).sum();
    println!("{:<29}{:>14}{:>12}{:>14}", "per operation", "instructions", "branches", "mispredicted");
    let stem = |subject: &Subject| subject.name.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let all = self::subjects(&Arguments {
        subjects: Vec::new(),
        library: arguments.library.clone(),
        ..Arguments::parse_from([""])
    })?;
    let number =
        |name: &str| all.iter().position(|other| other.name == name).expect("every subject is in the list of all");
    for subject in subjects {
        let words = stem(subject);
        if words[0] == HARNESS {
            continue;
        }
        let harness = format!("{HARNESS} {}", words[1]);
        let with = simulated(arguments, seed, number(&subject.name), arguments.lists)?;
        let without = simulated(arguments, seed, number(&harness), arguments.lists)?;
        print!("{:<29}", subject.name);
        for (column, width) in [14, 12, 14].into_iter().enumerate() {
            print!("{:>width$.2}", (with[column] - without[column]) / operations as f64);
        }
        println!();
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let drawn = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
    let seed = arguments.seed.unwrap_or(drawn);
    let subjects = subjects(&arguments)?;
    if let Some(number) = arguments.once {
        for list in lists(&arguments, seed)? {
            let mut region = Region::new(list.region_bytes, false)?;
            subjects[number].perform(&list, &mut region)?;
        }
        return Ok(());
    }
    println!("seeds {seed} to {} (--seed {seed} repeats the lists)", seed + arguments.lists - 1);
    if arguments.simulate {
        return simulate(&arguments, &subjects, seed);
    }
    measure(&arguments, &subjects, &lists(&arguments, seed)?, &mut Random::new(seed))
}
