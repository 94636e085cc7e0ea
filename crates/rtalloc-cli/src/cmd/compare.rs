//! `rtalloc compare`

use super::arguments::parse_size;
use super::destination::{Files, print};
use super::note_incomplete;
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc_lab::campaign::difference;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::experiment::comparison::{self, Pair, Settings};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::shipped::{self, Unpacked};
use rtalloc_lab::trace::Writer;
use rtalloc_lab::workload::Model;
use std::fs::File;
use std::io::{BufWriter, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Compares the times of two allocators: the same trace, in one process, alternating.
///
/// `rtalloc run` gives every allocator a process of its own, one after another,
/// and the speed of a shared machine changes in between: the ratio of its ticks
/// for two allocators may be off by half. Here both replay the trace alternately,
/// round after round, in fresh heaps of the same memory, so that disturbances of
/// the machine affect both alike.
///
/// Without allocators, our allocators are compared with the published crates of
/// the same algorithm:
///
///   tlsf / rlsf, first-fit-address / linked-list, binary-buddy / buddy-system
///
/// Without traces, they replay p1, p2 and p3 of the TLSF paper and the shipped
/// traces of real programs. All that takes about two minutes.
///
/// Three figures are shown for each, and their ratio, first / second:
///
///   allocate, free   mean ticks of the time-stamp counter: of every operation
///                    the least over the rounds, the cost of reading the
///                    counter subtracted
///   replay           nanoseconds per operation of the whole trace without
///                    timers, reallocations included: the median over the
///                    rounds, and the quartiles of the ratio. The loop that
///                    replays is part of it, and the same for both.
///
/// Where one of a pair refuses a request, the pair is not compared; the refusals
/// are shown instead.
///
/// Two stores of results (`rtalloc reproduce --store`) are compared by their
/// contents: which tasks have another result, and whether it matters. Counts are
/// the same wherever the same code runs, so any difference matters; times matter
/// where the quartiles of second / first are on the same side of 1 and the median
/// is at least 5 % away from it. The exit status does not depend on that: see the
/// column `matters`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Two allocators, then what they replay: files, names of shipped traces, or workloads as
    /// `rtalloc generate` takes them, in quotes where there are parameters. Either may be left out.
    /// Or two stores of results.
    #[arg(value_name = "A B | STORE STORE] [TRACE|WORKLOAD")]
    words: Vec<String>,

    /// Bytes of the heap, with suffix K, M or G (powers of 1024). Without it, the next power of two above eight times
    /// the largest live memory, at least 64K.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    heap: Option<u64>,

    /// Seconds that the rounds of one pair on one trace may take. At least two rounds are made, at
    /// most 400.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(0..=3600))]
    seconds: u64,

    /// Writes the figures as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc compare                       our allocators and the crates with the same algorithm
  rtalloc compare p2 lua-entities       the same on one workload and one shipped trace
  rtalloc compare tlsf half-fit         another pair on all of them
  rtalloc compare tlsf talc server.rtrace \"p3 --mallocs 50000\" --seconds 10
  rtalloc compare before.db after.db    what changed between two campaigns

The exit status is 0 when every pair was compared on every trace, or two stores were, and 1 when a
pair was not.";

/// Our allocators, and the published crates with the same algorithm.
const PAIRS: [(&str, &str); 3] =
    [("tlsf", "rlsf"), ("first-fit-address", "linked-list"), ("binary-buddy", "buddy-system")];

/// The workloads that are replayed in addition to the shipped traces.
const WORKLOADS: [&str; 3] = ["p1", "p2", "p3"];

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let [first, second] = &arguments.words[..]
        && [first, second].iter().any(|path| is_store(Path::new(path)))
    {
        let Arguments { heap, json, .. } = arguments;
        anyhow::ensure!(heap.is_none() && json.is_none(), "--heap and --json are for allocators, not for stores");
        return stores(Path::new(first), Path::new(second));
    }
    let (names, loads) = split_words(&arguments.words);
    let pairs = pairs(names)?;
    let mut files = Files::new();
    for word in loads.iter().filter(|word| Path::new(word).exists()) {
        files.reads("TRACE", Path::new(word))?;
        note_incomplete(Path::new(word));
    }
    let json = files.output("--json", arguments.json.as_deref())?;
    let traces = if loads.is_empty() { Traces::all()? } else { Traces::named(loads)? };
    let settings = Settings { heap_bytes: arguments.heap, budget: Duration::from_secs(arguments.seconds) };
    let bar = Bar::new();
    let comparisons = comparison::measure(&pairs, &traces.paths, &settings, &mut |progress| bar.show(progress))?;
    bar.clear();
    let replaced = match json {
        Some(json) => json.write(&document::pretty(Schema::COMPARE, &comparisons).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        print(&present::comparison::tables(&comparisons, Look::of_stdout())).context("standard output")?;
    }
    let compared =
        comparisons.traces.iter().flat_map(|trace| &trace.comparisons).all(|comparison| comparison.outcome.is_ok());
    Ok(if compared { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a file is a database of SQLite.
fn is_store(path: &Path) -> bool {
    let mut start = [0; 16];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"SQLite format 3\0"
}

fn stores(first: &Path, second: &Path) -> anyhow::Result<ExitCode> {
    let all = |path: &Path| Store::read(path).and_then(|store| store.all()).with_context(|| path.display().to_string());
    let difference = difference::between(&all(first)?, &all(second)?);
    print(&present::campaign::differences(&difference, Look::of_stdout())).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Splits the words into the allocators' names and the rest; where the first word names something to replay, there are
/// no allocators.
fn split_words(words: &[String]) -> (&[String], &[String]) {
    match words {
        [first, ..] if is_load(first) => (&[], words),
        _ => words.split_at(words.len().min(2)),
    }
}

/// Whether a word names something to replay rather than an allocator.
fn is_load(word: &str) -> bool {
    let is_allocator = rtalloc_subjects::one(word).is_ok();
    !is_allocator
        && (model_name(word).is_some() || shipped::names().any(|name| name == word) || Path::new(word).exists())
}

/// The model named by a workload's first word.
fn model_name(words: &str) -> Option<&str> {
    words.split_whitespace().next().filter(|name| Model::NAMES.contains(name))
}

fn pairs(names: &[String]) -> anyhow::Result<Vec<Pair>> {
    let pair = |first: &str, second: &str| -> anyhow::Result<Pair> {
        let pair = Pair { first: rtalloc_subjects::one(first)?, second: rtalloc_subjects::one(second)? };
        for one in [pair.first, pair.second] {
            anyhow::ensure!(
                !one.own_pages,
                "{} takes its pages from the system, so no fresh heap can be created for each round; time it with \
                 `rtalloc run --probe cycles`",
                one.name
            );
        }
        Ok(pair)
    };
    match names {
        [] => PAIRS.into_iter().map(|(first, second)| pair(first, second)).collect(),
        [first, rest @ ..] => {
            let unknown = || format!("{first} is neither an allocator nor a trace or workload");
            rtalloc_subjects::one(first).with_context(unknown)?;
            let [second] = rest else {
                anyhow::bail!("{first}: name a second allocator to compare it with; `rtalloc allocators` lists them")
            };
            Ok(vec![pair(first, second)?])
        }
    }
}

/// What is replayed.
#[derive(Default)]
struct Traces {
    paths: Vec<PathBuf>,
    /// The temporary files among the paths.
    unpacked: Unpacked,
}

impl Traces {
    fn all() -> anyhow::Result<Self> {
        let mut traces = Self::default();
        for word in WORKLOADS.into_iter().chain(shipped::names()) {
            traces.add(word)?;
        }
        Ok(traces)
    }

    fn named(words: &[String]) -> anyhow::Result<Self> {
        let mut traces = Self::default();
        words.iter().try_for_each(|word| traces.add(word))?;
        Ok(traces)
    }

    fn add(&mut self, word: &str) -> anyhow::Result<()> {
        if model_name(word).is_some() {
            self.generate(word).with_context(|| format!("the workload {word:?}"))?;
        } else if !self.unpacked.add_shipped(word)? {
            anyhow::ensure!(
                Path::new(word).exists(),
                "{word:?} cannot be replayed: it is neither a file, nor a workload ({}), nor a shipped trace ({})",
                Model::NAMES.join(", "),
                shipped::names().collect::<Vec<_>>().join(", ")
            );
            self.paths.push(word.into());
            return Ok(());
        }
        self.paths.extend(self.unpacked.paths.last().cloned());
        Ok(())
    }

    /// The trace of a workload, with the seed that `rtalloc generate` takes.
    fn generate(&mut self, words: &str) -> anyhow::Result<()> {
        const SEED: u64 = 1;
        let model = Model::parse(words)?;
        self.unpacked.add(|file| {
            let mut writer = Writer::new(BufWriter::new(file), &model.meta(SEED))?;
            model.generate(SEED, &mut writer)?;
            writer
                .finish()
                .context("cannot write it to a temporary file; set TMPDIR to a directory with free space")?;
            Ok(())
        })
    }
}
