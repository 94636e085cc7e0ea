//! `rtalloc bound`

use super::destination::{Output, is_stdout};
use super::inspect::print;
use super::progress::Bar;
use super::shipped;
use crate::analysis::{Analysis, places, proved_as_fits};
use crate::experiment::size_classes;
use crate::observe::Operation;
use crate::present;
use crate::present::number::counted;
use crate::present::table::Look;
use crate::replay::campaign::Progress;
use crate::result::bounds::{Answer, Baseline, Study};
use crate::study::{self, Load, Loads};
use crate::subject::{self, Subject};
use crate::trace::{Event, Writer};
use crate::workload::Model;
use anyhow::Context as _;
use pathbound::facts::{Conflict, LoopFact};
use pathbound::graph::NeverReturns;
use pathbound::image::{ElfFile, Image};
use pathbound::{Bound, Certificate, Facts, check};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bounds the instructions of operations, proved from the machine code, with path and certificate.
///
/// Of every allocator's entry points (allocate, at natural and at larger alignment, deallocate,
/// reallocate), prints side by side:
///
///   shortest path     no operation that returns executes fewer instructions
///   scenario maximum  the most in the worst case a paper describes, in a heap of 16 MiB
///   observed maximum  the most in anything else performed: the shipped traces, every generated profile,
///                     every state of a tiny heap, a directed enumeration and a random search
///   static bound      no operation that returns executes more
///
/// Where the source of our allocators says what bounds a loop, the bound is told as a function of
/// its turns (`52 + 31 per merge`), and shown for a heap of 16 MiB; of a search, what each free
/// block costs.
///
/// Of Compact-fit, whose free may copy an object, a second table tells the bounds by size class,
/// and the most measured in heaps of two sizes, new and worn.
///
/// The bound is read off the machine code of this very program: control flow from the entry point
/// on, the longest path, and a certificate that a checker with another decoder verifies. What
/// cannot be bounded gets no number but the reason, with address, function and source line: loops
/// that no fact bounds, recursion, indirect jumps, repeated string instructions, calls of code
/// that is elsewhere.
///
/// With --binary and --symbol it bounds any function of an x86-64 ELF program or library.
///
/// A bound counts instructions. It is no time; METHODOLOGY.md says how to get from one to the
/// other. The whole table takes a minute or two, that of one allocator some ten seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Allocators, separated by spaces or commas: names, families (sequential, indexed, segregated, buddy, bitmapped,
    /// regional, compacting, hybrid), or the groups ours, peers, dozen, all. `rtalloc allocators` lists them; those that threads
    /// share (arenas, bitmap-buddy, tree-buddy) are bounded as one thread uses them. Without any, all.
    #[arg(value_name = "ALLOCATOR", value_delimiter = ',', conflicts_with = "binary")]
    allocators: Vec<String>,

    /// Only these operations, separated by commas: allocate, allocate-aligned, deallocate (or free), reallocate.
    #[arg(long, value_name = "OP,OP", value_delimiter = ',', value_parser = operation, conflicts_with = "binary")]
    operation: Vec<Operation>,

    /// Prints the longest path of each operation, instruction by instruction with source lines, and what of it
    /// no operation performed executed.
    #[arg(long)]
    explain: bool,

    /// Proves only: performs no operations, so that there are no observed maxima. Takes a second.
    #[arg(long = "static")]
    proves_only: bool,

    /// Takes it that the loop around a place runs at most N times each time it is entered. A place is FILE:LINE, where
    /// the file's last path components suffice, or the address of an instruction (0x...). Count executions of the body:
    /// the condition of a `while` is tested once more.
    #[arg(long = "loop", value_name = "PLACE=N")]
    loops: Vec<LoopFact>,

    /// Takes it that no single execution of an operation executes both places.
    #[arg(long, value_name = "PLACE,PLACE")]
    conflict: Vec<Conflict>,

    /// Writes the certificates of the bounds to FILE, as JSON.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,

    /// Verifies the certificates in FILE against the binary: this program, or that of --binary.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "allocators", "operation", "explain", "proves_only", "loops", "conflict", "certificate", "symbol", "never_returns", "against",
        "save", "json",
    ])]
    check: Option<PathBuf>,

    /// Bounds functions of this ELF program or shared library instead of allocators.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Function of the binary: its name, mangled or not, or its address (0x...). May be given several times.
    #[arg(long, value_name = "NAME", requires = "binary")]
    symbol: Vec<String>,

    /// Takes it that functions of this name never return, besides those known to (abort, panics, ...). For --binary.
    #[arg(long, value_name = "NAME", requires = "binary")]
    never_returns: Vec<String>,

    /// Fails when a bound of an allocator is above the one in FILE, or gone.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binary", "save"])]
    against: Option<PathBuf>,

    /// Writes the bounds of the allocators to FILE for --against.
    #[arg(long, value_name = "FILE", conflicts_with = "binary")]
    save: Option<PathBuf>,

    /// Writes everything found out as JSON to FILE, or to standard output in place of the table for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc bound                                        the table of all allocators
  rtalloc bound tlsf --operation deallocate --explain  the longest path of TLSF's free
  rtalloc bound first-fit --static --loop PLACE=100
                                                       a search of at most 100 blocks
  rtalloc bound tlsf --static --certificate tlsf.json  the proof, for somebody else
  rtalloc bound --check tlsf.json                      to verify
  rtalloc bound --binary ./filter --symbol step --loop filter.c:40=16
                                                       a function of your own program

The exit status is 0 when the question was answered, an allocator without a bound included; 1 when an
argument was of no use, a function of --binary has no bound, a certificate was rejected, or a bound
grew (--against) or was exceeded; 2 when the command line cannot be read.";

/// Runs the verb.
///
/// # Errors
///
/// Whatever stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.check {
        return verify(file, arguments.binary.as_deref());
    }
    let files = [&arguments.json, &arguments.certificate, &arguments.save];
    let standard = files.into_iter().filter(|file| file.as_deref().is_some_and(|file| is_stdout(Some(file)))).count();
    anyhow::ensure!(
        standard <= 1,
        "--json, --certificate and --save cannot share standard output; give all but one a file"
    );
    let facts = Facts { loops: arguments.loops.clone(), conflicts: arguments.conflict.clone() };
    if let Some(binary) = &arguments.binary {
        return functions(binary, arguments, &facts);
    }
    allocators(arguments, &facts)
}

/// Bounds allocators of this program.
fn allocators(arguments: &Arguments, facts: &Facts) -> anyhow::Result<ExitCode> {
    let subjects = subject::select(&arguments.allocators)?;
    let committed = arguments.against.as_deref().map(baseline).transpose().context("--against")?;
    let json = arguments.json.as_deref().map(Output::open).transpose().context("--json")?;
    let certificate = arguments.certificate.as_deref().map(Output::open).transpose().context("--certificate")?;
    let save = arguments.save.as_deref().map(Output::open).transpose().context("--save")?;
    let operations = if arguments.operation.is_empty() { &Operation::ALL[..] } else { &arguments.operation[..] };

    let analysis = Analysis::of_this_program()?;
    let bar = Bar::new();
    let loads = if arguments.proves_only {
        None
    } else {
        bar.show(Progress { done: 0, total: 0, last: "unpacking and generating traces" });
        Some(Everything::unpack()?)
    };
    let loads = loads.as_ref().map(|everything| &everything.loads);
    let (mut study, bounds) =
        study::study(&analysis, &subjects, operations, facts, loads, &mut |progress| bar.show(progress))?;
    // A class's bounds are those of the whole: with somebody's facts, or of other operations, there is nothing to add.
    if facts.loops.is_empty() && facts.conflicts.is_empty() && arguments.operation.is_empty() {
        let classes = |subject: &&Subject| size_classes::of_subject(&analysis, subject, !arguments.proves_only);
        study.classes = subjects.iter().copied().filter_map(|subject| classes(&subject)).collect();
    }
    bar.clear();

    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&pretty(&study)?)?;
    }
    if let Some(certificate) = certificate {
        anyhow::ensure!(!bounds.is_empty(), "--certificate: there is no bound to certify: {}", declines(&study));
        replaced |= certificate.write(&certificates(&bounds, analysis.file())?)?;
    }
    if let Some(save) = save {
        replaced |= save.write(&pretty(&Baseline::of(&study))?)?;
    }
    if !replaced {
        print(&told(&study, arguments.explain)).context("standard output")?;
    }
    // A fact may be wrong. Then it has to be said, and loudly.
    let contradictions = study.contradictions();
    anyhow::ensure!(
        contradictions.is_empty(),
        "{}; a fact that was assumed is wrong, or, without facts, pathbound is: please report it",
        contradictions.join("; ")
    );
    match committed {
        Some(committed) => {
            let (text, held) = compare(committed, &study, &subjects, operations)?;
            // What goes to standard output for another program stays as it is.
            if replaced {
                eprint!("{text}")
            } else {
                print(&text).context("standard output")?
            }
            Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The table, or the paths.
fn told(study: &Study, explain: bool) -> String {
    let look = Look::of_stdout();
    let mut text = String::new();
    if explain {
        for subject in &study.subjects {
            for operation in &subject.operations {
                let _ = writeln!(text, "{}", present::bounds::explanation(subject, operation));
            }
        }
    }
    // Reasons are long: with paths, or for a single subject, there is room for them.
    let reasons = explain || study.subjects.len() == 1;
    text + &present::bounds::table(study, reasons, Look { columns: look.columns.min(120), ..look })
}

/// Holds a study against those committed bounds that are of what was asked for, or of what there no longer is. Tells
/// the outcome in words, and whether none grew.
fn compare(
    mut committed: Baseline,
    study: &Study,
    subjects: &[&'static Subject],
    operations: &[Operation],
) -> anyhow::Result<(String, bool)> {
    let now = Baseline::of(study);
    committed.bounds.retain(|name, bounds| {
        bounds.retain(|what, _| {
            // "allocate", or "allocate, per split".
            let name = what.split(',').next().unwrap_or(what);
            let exists = Operation::ALL.iter().any(|operation| operation.name() == name);
            !exists || operations.iter().any(|asked| asked.name() == name)
        });
        let exists = subject::all().iter().any(|subject| subject.name == name);
        !bounds.is_empty() && (!exists || subjects.iter().any(|subject| subject.name == name))
    });
    let count: usize = committed.bounds.values().map(BTreeMap::len).sum();
    anyhow::ensure!(count > 0, "--against: the file has no bounds of what was asked for; --save writes them");
    let (worse, better, new) = (committed.regressions(&now), committed.improvements(&now), committed.additions(&now));
    let mut text = String::new();
    if committed.rustc != now.rustc {
        let _ =
            writeln!(text, "The committed bounds are of code by {}, these of code by {}.", committed.rustc, now.rustc);
    }
    let lists = [
        ("Bounds that grew or are gone:", &worse),
        ("Better than committed; commit them with --save:", &better),
        ("Not among the committed:", &new),
    ];
    for (title, lines) in lists {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}\n  {}", lines.join("\n  "));
        }
    }
    if worse.is_empty() {
        let _ = writeln!(text, "None of the {} grew.", counted(count as u64, "committed bound"));
    }
    Ok((text, worse.is_empty()))
}

fn baseline(path: &Path) -> anyhow::Result<Baseline> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no file of bounds; --save writes one", path.display()))
}

/// Bounds functions of somebody's file.
fn functions(path: &Path, arguments: &Arguments, facts: &Facts) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!arguments.symbol.is_empty(), "--binary needs a function to bound: --symbol NAME");
    let file = ElfFile::open(path)?;
    let json = arguments.json.as_deref().map(Output::open).transpose().context("--json")?;
    let certificate = arguments.certificate.as_deref().map(Output::open).transpose().context("--certificate")?;
    let never = NeverReturns { names: arguments.never_returns.clone() };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let mut bounds = Vec::new();
    let mut answers = Vec::new();
    let mut useful = HashSet::new();
    let mut has_lines = false;
    for symbol in &arguments.symbol {
        let entry = entry(&file, symbol).context("--symbol")?;
        has_lines |= !file.source(entry).is_empty();
        let answer = proved_as_fits(&file, entry, facts, &never, &mut useful);
        bounds.extend(answer.as_ref().ok().cloned());
        answers.push((symbol.clone(), answer));
    }
    if let Some(place) = places(facts).find(|place| !useful.contains(*place)) {
        let lines = if has_lines { "" } else { ". There is no line information: compile with -g, or give addresses" };
        anyhow::bail!("a fact names {place}, where there is no such loop or instruction: correct or remove it{lines}");
    }
    let study = study::of_functions(&file, &name, answers);
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&pretty(&study)?)?;
    }
    if let Some(certificate) = certificate {
        anyhow::ensure!(!bounds.is_empty(), "--certificate: there is no bound to certify: {}", declines(&study));
        replaced |= certificate.write(&certificates(&bounds, &file)?)?;
    }
    if !replaced {
        print(&told(&study, arguments.explain)).context("standard output")?;
    }
    Ok(if bounds.len() == arguments.symbol.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where a function begins, by name or address.
fn entry(file: &ElfFile, symbol: &str) -> anyhow::Result<u64> {
    if let Some(digits) = symbol.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).with_context(|| format!("{symbol} is no address, such as 0x1139"));
    }
    match file.find(symbol).as_slice() {
        [one] => Ok(one.address),
        [] => anyhow::bail!(
            "there is no function {symbol:?} in the file; `nm -C` lists what it has. It may have been inlined, or stripped"
        ),
        several => {
            let list: Vec<String> =
                several.iter().map(|symbol| format!("{:#x} {}", symbol.address, symbol.linkage_name)).collect();
            anyhow::bail!("{symbol:?} is the name of several functions; give one's address:\n  {}", list.join("\n  "))
        }
    }
}

/// Verifies certificates.
fn verify(path: &Path, binary: Option<&Path>) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: Vec<serde_json::Value> =
        serde_json::from_str(&text).with_context(|| format!("{} is no list of certificates", path.display()))?;
    anyhow::ensure!(!list.is_empty(), "{} holds no certificate", path.display());
    let analysis;
    let opened;
    let file = match binary {
        Some(binary) => {
            opened = ElfFile::open(binary)?;
            &opened
        }
        None => {
            analysis = Analysis::of_this_program()?;
            analysis.file()
        }
    };
    let mut text = String::new();
    for value in list {
        let certificate = Certificate::from_json(&value.to_string()).with_context(|| path.display().to_string())?;
        let name = certificate.proof.function.clone().unwrap_or_else(|| certificate.proof.entry.to_string());
        let another = binary.is_none() && certificate.binary.sha256 != file.provenance().sha256;
        let hint = if another { " (name its file with --binary)" } else { "" };
        let checked = check(&certificate, file, file.provenance()).with_context(|| format!("{name}{hint}"))?;
        let _ = writeln!(text, "{name}: at most {} instructions", checked.instructions);
        for assumption in checked.assumptions {
            let _ = writeln!(text, "  if {assumption}");
        }
    }
    let _ = writeln!(text, "Verified against {}, SHA-256 {}.", file.provenance().file, file.provenance().sha256);
    print(&text).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

/// Certificates as a list, one for each bound.
fn certificates(bounds: &[Bound], file: &ElfFile) -> anyhow::Result<String> {
    let list: Vec<Certificate> = bounds.iter().map(|bound| Certificate::of(bound, file.provenance())).collect();
    pretty(&list)
}

fn pretty(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("as JSON")? + "\n")
}

/// Why there is nothing, in one line.
fn declines(study: &Study) -> String {
    let operations = study.subjects.iter().flat_map(|subject| &subject.operations);
    let why = operations.filter_map(|operation| match &operation.answer {
        Answer::Declined { why, .. } => Some(format!("{}: {why}", operation.operation)),
        Answer::Bounded(_) => None,
    });
    why.collect::<Vec<_>>().join("; ")
}

pub(super) fn operation(text: &str) -> Result<Operation, String> {
    // `run` and its tables say free.
    let name = if text == "free" { "deallocate".into() } else { text.replace('-', " ") };
    let names = || Operation::ALL.map(|operation| operation.name().replace(' ', "-")).join(", ");
    Operation::ALL
        .into_iter()
        .find(|operation| operation.name() == name)
        .ok_or_else(|| format!("there is no operation {text:?}; there are: {}", names()))
}

/// Everything that operations are observed in, as files that are gone when this is.
struct Everything {
    loads: Loads,
    _programs: shipped::Unpacked,
    _models: Vec<std::fs::File>,
}

impl Everything {
    /// Unpacks the shipped traces and generates one of every model.
    fn unpack() -> anyhow::Result<Self> {
        let programs = shipped::unpack()?;
        let mut loads = Loads::default();
        for path in &programs.paths {
            loads.programs.push(Load::of(path.clone())?);
        }
        let mut models = Vec::new();
        for name in Model::NAMES {
            let model = Model::by_name(name).expect("every name is one of a model");
            let mut file =
                tempfile::tempfile().context("cannot create a temporary file; set TMPDIR to a writable directory")?;
            let mut writer = Writer::new(&mut file, &model.meta(SEED))?;
            let mut events: Vec<Event> = Vec::new();
            model.generate(SEED, &mut events)?;
            events.truncate(MOST_EVENTS);
            for event in &events {
                writer.push(event)?;
            }
            writer.finish()?;
            loads.models.push(Load::of(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))?);
            models.push(file);
        }
        Ok(Self { loads, _programs: programs, _models: models })
    }
}

/// Seed of the generated traces.
const SEED: u64 = 1;
/// Operations taken of each: what is to come by then has come.
const MOST_EVENTS: usize = 400_000;
