//! `rtalloc bound`

use super::arguments::operation;
use super::destination::{Files, print};
use super::link::{allocators_for, is_unlinked, link};
use super::note;
use super::progress::Bar;
use crate::present;
use crate::present::table::Look;
use crate::present::verdict::wrapped;
use anyhow::Context as _;
use pathbound::facts::{Conflict, LoopFact};
use pathbound::graph::NeverReturns;
use pathbound::image::{ElfFile, Image, Symbol};
use pathbound::{Bound, Certificate, Core, Facts, Unit, check};
use rtalloc::contract::LoopBound;
use rtalloc_lab::analysis::loop_bounds::facts_of;
use rtalloc_lab::analysis::{Analysis, places, proved_as_fits};
use rtalloc_lab::experiment::size_classes;
use rtalloc_lab::number::{counted, date, grouped};
use rtalloc_lab::observe::Operation;
use rtalloc_lab::replay::isolate::Progress;
use rtalloc_lab::result;
use rtalloc_lab::result::bounds::{Answer, Baseline, Study};
use rtalloc_lab::result::cycles::{Cycles, Range};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::targets::Elsewhere;
use rtalloc_lab::shipped;
use rtalloc_lab::study::{self, Load, Loads};
use rtalloc_lab::trace::{Event, Writer};
use rtalloc_lab::workload::Model;
use rtalloc_subjects::Subject;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Bounds the instructions of operations, proved from the machine code, with path and certificate.
///
/// Of every allocator's entry points (allocate, at natural and at larger alignment, deallocate,
/// reallocate), prints side by side:
///
///   shortest path     no operation that returns executes fewer instructions
///   scenario maximum  the most in the worst case a paper describes, in a heap of 16 MiB
///   observed maximum  the most in anything else performed: the shipped traces, every generated
///                     profile, every state of a tiny heap, a directed enumeration and a random
///                     search
///   static bound      no operation that returns executes more
///
/// Where the source of our allocators states what bounds a loop, the bound is a function of the
/// number of its iterations (`52 + 31 per merge`), evaluated for a heap of 16 MiB; for a search,
/// it is the cost per free block.
///
/// For Compact-fit, whose free may copy an object, a second table shows the bounds by size class,
/// and the most measured in heaps of two sizes, new and aged.
///
/// The bound is computed from the machine code of this very program: control flow from the entry
/// point on, the longest path, and a certificate that a checker with another decoder verifies. What
/// cannot be bounded gets no number but the reason, with address, function and source line: loops
/// that no fact bounds, recursion, indirect jumps, repeated string instructions, calls of code
/// outside this program.
///
/// With --binary and --symbol it bounds any function of an ELF file: a program, a library or
/// firmware for x86-64, Cortex-M (Thumb), RISC-V (RV32, RV64) or A64. A static library or an
/// object file is linked first, alone; everything that the function calls must be in it.
///
/// A bound counts instructions, not time, or with --core the cycles of some RISC-V and Cortex-M
/// cores. METHODOLOGY.md describes how to get from instructions to time. The whole table takes a
/// minute or two, that of one allocator some ten seconds.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
pub struct Arguments {
    /// Allocators, separated by spaces or commas: names, families (sequential, indexed, segregated, buddy, bitmapped,
    /// regional, compacting, hybrid), or the groups ours, peers, dozen, all. `rtalloc allocators` lists them; those
    /// that threads share (pooled-arenas, bitmap-buddy, tree-buddy) are bounded as one thread uses
    /// them. Without any, all.
    #[arg(value_name = "ALLOCATOR", value_delimiter = ',', conflicts_with = "binary")]
    allocators: Vec<String>,

    /// Only these operations, separated by commas: allocate, allocate-aligned, deallocate (or free), reallocate.
    #[arg(long, value_name = "OP,OP", value_delimiter = ',', value_parser = operation, conflicts_with = "binary")]
    operation: Vec<Operation>,

    /// Prints the longest path of each operation, instruction by instruction with source lines, and marks the parts
    /// that no performed operation executed.
    #[arg(long)]
    explain: bool,

    /// Only proves: performs no operations, so there are no observed maxima. Takes a second.
    #[arg(long = "static")]
    proves_only: bool,

    /// Each time the loop around PLACE is entered, the instruction at the address PLACE is executed at most N times;
    /// or, where PLACE is a source line, each loop with its condition on that line goes around at most N times, and
    /// tests its condition at most N + 1 times. An address is written 0x401136, a line list.rs:120, with as much of the
    /// path as is needed. A place that an iteration can bypass is refused. All loops that need a fact are listed, each
    /// with a fact to fill in.
    #[arg(long = "loop", value_name = "PLACE=N")]
    loops: Vec<LoopFact>,

    /// For --binary, in code of this library that was compiled with line tables: each loop that the source marks as KIND
    /// has at most N iterations each time it is entered. KIND is words (of a pool of chunks, or of a bitmap buddy),
    /// remote-frees (taken back by an allocation) or pending-words (one for each 64 slots). May be given several times.
    #[arg(long, value_name = "KIND=N", value_parser = marked, requires = "binary")]
    marked: Vec<(LoopBound, u64)>,

    /// Assumes that no single execution of an operation executes both places.
    #[arg(long, value_name = "PLACE,PLACE")]
    conflict: Vec<Conflict>,

    /// Writes the certificates of the bounds to FILE, as JSON.
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,

    /// Verifies the certificates in FILE against the binary: this program, or that of --binary.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "allocators", "operation", "explain", "proves_only", "loops", "marked", "conflict", "certificate", "symbol", "never_returns",
        "against", "save", "json",
    ])]
    check: Option<PathBuf>,

    /// With --check: exits with 3 where a certificate rests on a fact stated by a user, by the library's source or by
    /// this command (about a loop, a conflict, a function that is not called), beyond what METHODOLOGY.md assumes.
    #[arg(long)]
    strict: bool,

    /// Bounds functions of this ELF file instead of allocators: of a program, shared library or firmware, or of a static
    /// library or object file, which is linked first. It needs its symbol table.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,

    /// Function of the binary: its name, mangled or not, or its address (0x...); in a static library or object file, the
    /// name of a global function as in its symbol table. May be given several times.
    #[arg(long, value_name = "NAME", requires = "binary")]
    symbol: Vec<String>,

    /// Assumes that this function is not called, or never returns; abort, panics and others are known. Its name,
    /// mangled or not, or its address (0x...). For --binary. With rtalloc::hook::report, a bound of our allocators
    /// covers the calls that report no misuse.
    #[arg(long, value_name = "NAME", requires = "binary")]
    never_returns: Vec<String>,

    /// Bounds the allocators' operations without loops on another processor. For a Rust target, such as
    /// thumbv7em-none-eabihf, builds them with this machine's toolchain in half a minute, from the source that this rtalloc
    /// was built from and into its target folder, with RUSTFLAGS as they are; if it cannot, prints the committed bounds and
    /// the reason. For Armv6-M, Armv7-M, Armv7E-M, Armv7E-M-z (opt-level z), RV32IMC, RV32IMC+Zb or A64, prints the
    /// committed bounds; for a core, as --core.
    #[arg(long, value_name = "NAME", conflicts_with_all = [
        "operation", "explain", "proves_only", "loops", "conflict", "certificate", "check", "binary", "against", "save",
        "json",
    ])]
    target: Option<String>,

    /// Bounds the cycles of a core instead of instructions. The models of picorv32, serv, ibex-small and ibex-maxperf,
    /// the latter two also with Zba, Zbb and Zbs (-zb), were compared with their RTL; those of cortex-m0, cortex-m0+,
    /// cortex-m3 and cortex-m4 are the tables of their manuals, not validated here. With --binary, of its functions;
    /// otherwise prints the committed bounds of the allocators' operations without loops and, where the core was
    /// simulated, the most cycles of a call; --mhz is then the only other option.
    #[arg(long, value_name = "CORE", value_parser = core, conflicts_with_all = [
        "operation", "proves_only", "check", "against", "save", "target",
    ])]
    core: Option<Core>,

    /// With --core, or --target and a core: shows bounds in microseconds too, at this clock in MHz.
    #[arg(long, value_name = "N", value_parser = mhz, requires = "core")]
    mhz: Option<f64>,

    /// With --core and --binary, on Cortex-M: wait states of the memory of code and constants (.rodata), usually flash.
    /// All other data are taken to be in another memory without any.
    #[arg(long, value_name = "N", requires = "core", requires = "binary", default_value_t = 0)]
    wait_states: u8,

    /// Fails when a bound of an allocator is above the one in FILE, or missing.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binary", "save"])]
    against: Option<PathBuf>,

    /// Writes the bounds of the allocators to FILE for --against.
    #[arg(long, value_name = "FILE", conflicts_with = "binary")]
    save: Option<PathBuf>,

    /// Writes all results as JSON to FILE, or to standard output in place of the table for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc bound                                        the table of all allocators
  rtalloc bound tlsf --operation deallocate --explain  the longest path of TLSF's free
  rtalloc bound first-fit --static --loop PLACE=100
                                                       a search of at most 100 blocks
  rtalloc bound tlsf --static --certificate tlsf.json  the proof, for other users
  rtalloc bound --check tlsf.json                      verification, with all that is assumed
  rtalloc bound --binary ./filter --symbol step --loop filter.c:40=16
                                                       a function of your own program
  rtalloc bound --binary firmware.elf --symbol step    the same on a Cortex-M or RISC-V core
  rtalloc bound tlsf half-fit --target Armv7E-M        committed bounds for another processor
  rtalloc bound tlsf --target thumbv7em-none-eabihf    bounds of code that your toolchain builds now
  rtalloc bound --binary libfilter.a --symbol step     a function of a library, linked alone
  rtalloc bound tlsf --core ibex-small --mhz 100       cycles and microseconds
  rtalloc bound --binary firmware.elf --symbol step --core cortex-m4 --wait-states 5 --mhz 168
                                                       the same of a function of your own firmware

The exit status is 0 on success, even if an allocator has no bound; 1 when a function of --binary
has no bound, a certificate was rejected, or a bound grew (--against) or was exceeded; 3 when
certificates were verified but rest on facts beyond the published assumptions (--check --strict).";

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    if let Some(file) = &arguments.check {
        return verify(file, arguments.binary.as_deref(), arguments.strict);
    }
    anyhow::ensure!(!arguments.strict, "--strict requires --check: without it no certificate is verified");
    let facts = Facts { loops: arguments.loops.clone(), conflicts: arguments.conflict.clone() };
    if let Some(binary) = &arguments.binary {
        return functions(binary, arguments, &facts);
    }
    // The parser does not see it, because allocators and --binary exclude each other.
    anyhow::ensure!(
        arguments.symbol.is_empty() && arguments.never_returns.is_empty(),
        "--symbol and --never-returns require --binary: they name functions of a file"
    );
    anyhow::ensure!(
        arguments.wait_states == 0,
        "--wait-states requires --binary: the committed bounds are for memory without wait states"
    );
    if let Some(name) = &arguments.target {
        let subjects = rtalloc_subjects::select(&arguments.allocators)?;
        return print(&on_target(name, arguments.mhz, &subjects)?)
            .context("standard output")
            .map(|()| ExitCode::SUCCESS);
    }
    if let Some(core) = arguments.core {
        let unused = arguments.explain || arguments.json.is_some() || arguments.certificate.is_some();
        anyhow::ensure!(
            !unused && facts.loops.is_empty() && facts.conflicts.is_empty(),
            "--core without --binary prints committed bounds: it accepts only allocators and --mhz"
        );
        let subjects = rtalloc_subjects::select(&arguments.allocators)?;
        let table = on_core(described(core, arguments.mhz), &subjects)?;
        return print(&table).context("standard output").map(|()| ExitCode::SUCCESS);
    }
    allocators(arguments, &facts)
}

/// A kind of marked loops, and the number of their iterations.
fn marked(text: &str) -> Result<(LoopBound, u64), String> {
    let (kind, most) = text.split_once('=').ok_or("it is not KIND=N, such as words=16")?;
    let kind = match kind {
        "words" => LoopBound::Words,
        "remote-frees" => LoopBound::RemoteFrees,
        "pending-words" => LoopBound::PendingWords,
        _ => return Err("the kinds are words, remote-frees and pending-words".into()),
    };
    Ok((kind, most.parse().map_err(|_| format!("{most} is not a number"))?))
}

/// A core by its name.
fn core(name: &str) -> Result<Core, String> {
    let known = || Core::all().map(Core::name).collect::<Vec<_>>().join(", ");
    let found = Core::all().find(|core| core.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("the cores are {}", known()))
}

/// A clock in MHz.
fn mhz(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is not a number, such as 100".to_owned())?;
    if (0.001..=100_000.0).contains(&number) { Ok(number) } else { Err("it must be from 0.001 to 100000".to_owned()) }
}

fn described(core: Core, mhz: Option<f64>) -> result::bounds::Core {
    result::bounds::Core { name: core.to_string(), conditions: core.conditions(), source: core.source().into(), mhz }
}

/// The committed bounds in cycles of a core, simulated or from its manual.
fn on_core(core: result::bounds::Core, subjects: &[&'static Subject]) -> anyhow::Result<String> {
    let Elsewhere { code, bounds, .. } = Elsewhere::find(&core.name).map_err(anyhow::Error::msg)?;
    let cycles = Cycles::committed();
    let simulated = cycles.cores.get(&core.name);
    let script = if simulated.is_some() { "ci/cycles.sh" } else { "ci/targets.sh" };
    let mut headings = vec!["allocator", "operation", "bound, cycles"];
    if simulated.is_some() {
        headings.splice(2..2, ["shortest path", "observed"]);
    }
    headings.extend(core.mhz.map(|_| "us"));
    let row = |subject: &str, operation: &String, bound: u64| {
        let mut row = vec![subject.to_owned(), operation.clone()];
        if let Some(Range { shortest, observed, .. }) = simulated.map(|one| &one.bounds[subject][operation]) {
            row.extend([shortest, observed].map(|number| grouped(*number)));
        }
        row.push(grouped(bound));
        row.extend(core.microseconds(bound));
        row
    };
    let rows: Vec<Vec<String>> = subjects
        .iter()
        .filter_map(|subject| Some((subject.name, bounds.get(subject.name)?)))
        .flat_map(|(name, bounds)| bounds.iter().map(move |(operation, bound)| row(name, operation, *bound)))
        .collect();
    anyhow::ensure!(
        !rows.is_empty(),
        "there are no committed bounds for these allocators on {}: {script} does not cover them, or their operations \
         have loops",
        core.name
    );
    let look = Look::of_stdout();
    let left_out: Vec<&str> =
        subjects.iter().map(|subject| subject.name).filter(|name| !bounds.contains_key(*name)).collect();
    let left_out = match left_out.as_slice() {
        [] => String::new(),
        names => format!("\nWithout committed bounds in cycles: {}.", names.join(", ")),
    };
    let observed = simulated.map_or_else(String::new, |simulated| {
        format!(
            "\nobserved: the most cycles of a call in a simulation of the core's RTL, which took exactly the cycles of the \
             model in {} calls of all allocators.",
            grouped(simulated.calls)
        )
    });
    let note = format!(
        "{}{observed}\nCalls that report misuse are not covered. Code by {code}, with 32-bit tags (tlsf-small: 16) and \
         without statistics. This table is committed, for the program that {script} links. Your firmware is other \
         code: bound it with --binary FILE --symbol NAME --core {} --never-returns rtalloc::hook::report.{left_out}",
        core.assumed(),
        core.name
    );
    let slow = if Core::find(&core.name).is_some_and(|known| known.with_wait_states(1).is_ok()) {
        "Flash usually has wait states at high clocks, with which these bounds do not hold: use --binary, --symbol and \
         --wait-states.\n"
    } else {
        ""
    };
    let note = format!("{slow}{note}");
    let mut text = present::table::table(&headings, 2, rows.into_iter(), look);
    for line in note.split('\n') {
        let _ = writeln!(text, "{}", wrapped(line, look.columns.min(120), 0));
    }
    Ok(text)
}

/// The bounds of code for another processor: for a Rust target, of code that this machine's toolchain builds, if it can;
/// otherwise the committed ones.
fn on_target(name: &str, mhz: Option<f64>, subjects: &[&'static Subject]) -> anyhow::Result<String> {
    const OPERATIONS: [&str; 3] = ["allocate", "allocate aligned", "deallocate"];
    if Core::find(name).is_some() {
        let core = Elsewhere::find(name).map_err(anyhow::Error::msg)?.name;
        return on_core(described(Core::find(&core).context("a core")?, mhz), subjects);
    }
    anyhow::ensure!(
        mhz.is_none(),
        "--mhz: bounds for {name} are in instructions; those for cores (--core) are in cycles"
    );
    let committed = Elsewhere::find(name);
    let is_processor = committed.as_ref().is_ok_and(|found| found.name.eq_ignore_ascii_case(name));
    let built = if is_processor { Err(String::new()) } else { built(name, subjects)? };
    let (code, whose, bounds) = match (built, committed) {
        (Ok(Built { rustc, archive, bounds }), _) => {
            let whose = format!("This machine's toolchain has just built the code, {}", archive.display());
            (format!("{name} code by {rustc}"), whose, bounds)
        }
        (Err(why), Ok(Elsewhere { name, code, bounds, .. })) => {
            let because = if why.is_empty() { why } else { format!(", because {why}") };
            (format!("{name} code by {code}"), format!("This table is committed{because}"), bounds)
        }
        (Err(why), Err(unknown)) => anyhow::bail!("{unknown}; and {name} cannot be built: {why}"),
    };
    let cell = |bounds: &BTreeMap<String, u64>, what| bounds.get(what).map_or_else(|| "-".into(), u64::to_string);
    let row = |subject: &&&Subject| {
        let bounds = bounds.get(subject.name)?;
        Some([vec![subject.name.to_string()], OPERATIONS.map(|what| cell(bounds, what)).to_vec()].concat())
    };
    let rows: Vec<Vec<String>> = subjects.iter().filter_map(|subject| row(&subject)).collect();
    anyhow::ensure!(
        !rows.is_empty(),
        "there are no bounds for these allocators on {name}: they are not among those that can be built without std, or \
         their operations have loops"
    );
    let look = Look::of_stdout();
    let headings = [&["allocator"][..], &OPERATIONS].concat();
    let note = format!(
        "Most instructions of a call that reports no misuse, by static bounds of {code}, with 32-bit tags (tlsf-small: \
         16) and without statistics. -: no bound without facts about loops. {whose}; your firmware is other code: bound \
         it with --binary FILE --symbol NAME --never-returns rtalloc::hook::report."
    );
    let table = present::table::table(&headings, 1, rows.into_iter(), look);
    Ok(format!("{table}{}\n", wrapped(&note, look.columns.min(120), 0)))
}

/// The allocators, built for a Rust target.
struct Built {
    rustc: String,
    archive: PathBuf,
    /// By allocator, then by operation.
    bounds: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Builds the allocators for a Rust target with this machine's toolchain, and bounds them; or says why it cannot.
fn built(target: &str, subjects: &[&'static Subject]) -> anyhow::Result<Result<Built, String>> {
    const ENDS: [(&str, &str); 3] =
        [("allocate", "allocate"), ("aligned", "allocate aligned"), ("deallocate", "deallocate")];
    let announce = || note(&format!("rtalloc: building the allocators for {target}\n"));
    let (archive, rustc) = match allocators_for(target, &announce) {
        Ok(built) => built,
        Err(why) => return Ok(Err(why)),
    };
    let symbol = |subject: &Subject, end: &str| format!("{}_{end}", subject.name.replace('-', "_"));
    let functions: Vec<String> =
        subjects.iter().flat_map(|subject| ENDS.map(|(end, _)| symbol(subject, end))).collect();
    let linked = match link(&archive, &functions) {
        Ok(linked) => linked,
        Err(why) => return Ok(Err(format!("{why:#}"))),
    };
    let file = ElfFile::open(&linked.program)?;
    let mut never = NeverReturns::default();
    // A file in which no chosen allocator has it.
    let _ = never.add(&file, "rtalloc::hook::report");
    let mut bounds = BTreeMap::<String, BTreeMap<String, u64>>::new();
    for subject in subjects {
        for (end, operation) in ENDS {
            let Ok(entry) = entry(&file, &symbol(subject, end)) else { continue };
            let answer =
                proved_as_fits(Unit::Instructions, &file, entry, &Facts::default(), &never, &mut HashSet::new());
            if let Ok(bound) = answer {
                bounds.entry(subject.name.into()).or_default().insert(operation.into(), bound.most);
            }
        }
    }
    Ok(Ok(Built { rustc, archive, bounds }))
}

/// Bounds allocators of this program.
fn allocators(arguments: &Arguments, facts: &Facts) -> anyhow::Result<ExitCode> {
    let subjects = rtalloc_subjects::select(&arguments.allocators)?;
    let committed = arguments.against.as_deref().map(baseline).transpose().context("--against")?;
    let mut files = Files::new();
    arguments.against.as_deref().map_or(Ok(()), |path| files.reads("--against", path))?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let certificate = files.output("--certificate", arguments.certificate.as_deref())?;
    let save = files.output("--save", arguments.save.as_deref())?;
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
    // The bounds by size class repeat those of the whole: with a user's facts, or for other operations, they add
    // nothing.
    if facts.loops.is_empty() && facts.conflicts.is_empty() && arguments.operation.is_empty() {
        let classes = |subject: &&Subject| size_classes::of_subject(&analysis, subject, !arguments.proves_only);
        study.classes = subjects.iter().copied().filter_map(|subject| classes(&subject)).collect();
    }
    bar.clear();

    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&document::pretty(Schema::BOUND, &study).context("as JSON")?)?;
    }
    if let Some(certificate) = certificate {
        anyhow::ensure!(!bounds.is_empty(), "--certificate: there is no bound to certify: {}", declines(&study));
        replaced |= certificate.write(&certificates(&bounds, analysis.file())?)?;
    }
    if let Some(save) = save {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let baseline = Baseline::of(&study);
        let measured = format!("{} {}", date(now), baseline.measured);
        replaced |= save.write(&document::pretty(Schema::BASELINE, &Baseline { measured, ..baseline })?)?;
    }
    if !replaced {
        print(&rendered(&study, arguments.explain)).context("standard output")?;
    }
    // A fact may be wrong; that must not go unnoticed.
    let contradictions = study.contradictions();
    anyhow::ensure!(
        contradictions.is_empty(),
        "{}; an assumed fact is wrong; if no facts were assumed, pathbound is wrong: please report it",
        contradictions.join("; ")
    );
    match committed {
        Some(committed) => {
            let (text, held) = compare(committed, &study, &subjects, operations)?;
            // The output for other programs on standard output stays as it is.
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
fn rendered(study: &Study, explain: bool) -> String {
    let look = Look::of_stdout();
    let mut text = String::new();
    if explain {
        for subject in &study.subjects {
            for operation in &subject.operations {
                let _ = writeln!(text, "{}", present::bounds::explanation(subject, operation, study.core.is_some()));
            }
        }
    }
    // Reasons are long: with paths, or for a single subject, there is room for them.
    let reasons = explain || study.subjects.len() == 1;
    text + &present::bounds::table(study, reasons, Look { columns: look.columns.min(120), ..look })
}

/// Compares a study with the committed bounds of the selected allocators and of those that no longer exist. Returns the
/// outcome as text, and whether no bound grew.
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
        let exists = rtalloc_subjects::all().iter().any(|subject| subject.name == name);
        !bounds.is_empty() && (!exists || subjects.iter().any(|subject| subject.name == name))
    });
    let count: usize = committed.bounds.values().map(BTreeMap::len).sum();
    anyhow::ensure!(count > 0, "--against: the file has no bounds for the selected allocators; write them with --save");
    let (worse, better, new) = (committed.regressions(&now), committed.improvements(&now), committed.additions(&now));
    let mut text = String::new();
    if committed.rustc != now.rustc {
        let _ = writeln!(
            text,
            "The committed bounds are for code compiled by {}, these for code compiled by {}.",
            committed.rustc, now.rustc
        );
    }
    let lists = [
        ("Bounds that grew or were lost:", &worse),
        ("Better than committed; commit them with --save:", &better),
        ("Not committed:", &new),
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
    document::read(Schema::BASELINE, &text)
        .with_context(|| format!("{} is not a file of bounds that can be read; write one with --save", path.display()))
}

/// Bounds functions of a user's file.
fn functions(path: &Path, arguments: &Arguments, facts: &Facts) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(!arguments.symbol.is_empty(), "--binary needs a function to bound: --symbol NAME");
    let linked = if is_unlinked(path) { Some(link(path, &arguments.symbol)?) } else { None };
    anyhow::ensure!(
        linked.is_none() || arguments.certificate.is_none(),
        "--certificate requires a linked file, and {} is not linked: link it, and pass the result to --binary",
        path.display()
    );
    if let Some(name) = linked.as_ref().and_then(|linked| linked.missing.first()) {
        anyhow::bail!(
            "{} has no global function {name}; give the name in its symbol table (nm lists them)",
            path.display()
        );
    }
    let file = ElfFile::open(linked.as_ref().map_or(path, |linked| &linked.program))?;
    let mut files = Files::new();
    files.reads("--binary", path)?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let certificate = files.output("--certificate", arguments.certificate.as_deref())?;
    let mut never = NeverReturns::default();
    for name in &arguments.never_returns {
        match name.strip_prefix("0x") {
            Some(_) => drop(never.functions.insert(entry(&file, name).context("--never-returns")?)),
            None => never.add(&file, name).context("--never-returns")?,
        }
    }
    let alone = if linked.is_some() { ", linked alone" } else { "" };
    let name = format!("{}{alone}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy());
    let core = arguments.core.map(|core| core.with_wait_states(arguments.wait_states));
    let core = core.transpose().map_err(anyhow::Error::msg).context("--wait-states")?;
    let unit = core.map_or(Unit::Instructions, Unit::Cycles);
    let mut bounds = Vec::new();
    let mut answers = Vec::new();
    let mut useful = HashSet::new();
    let mut has_lines = false;
    for symbol in &arguments.symbol {
        let entry = entry(&file, symbol).context("--symbol")?;
        has_lines |= !file.source(entry).is_empty();
        let most = |bound: LoopBound| match bound {
            LoopBound::Fixed(iterations) => Some(iterations),
            _ => arguments.marked.iter().find(|(kind, _)| *kind == bound).map(|(_, most)| *most),
        };
        let mut facts = facts.clone();
        if !arguments.marked.is_empty() {
            facts.loops.extend(facts_of(&file, entry, &never, &most).unwrap_or_default());
        }
        let answer = proved_as_fits(unit, &file, entry, &facts, &never, &mut useful);
        bounds.extend(answer.as_ref().ok().cloned());
        answers.push((symbol.clone(), answer));
    }
    if let Some(place) = places(facts).find(|place| !useful.contains(*place)) {
        let lines = if has_lines { "" } else { ". There is no line information: compile with -g, or give addresses" };
        anyhow::bail!("a fact names {place}, where there is no such loop or instruction: correct or remove it{lines}");
    }
    let study = study::of_functions(&file, &name, core.map(|core| described(core, arguments.mhz)), answers);
    let mut replaced = false;
    if let Some(json) = json {
        replaced |= json.write(&document::pretty(Schema::BOUND, &study).context("as JSON")?)?;
    }
    if let Some(certificate) = certificate {
        anyhow::ensure!(!bounds.is_empty(), "--certificate: there is no bound to certify: {}", declines(&study));
        replaced |= certificate.write(&certificates(&bounds, &file)?)?;
    }
    if !replaced {
        print(&rendered(&study, arguments.explain)).context("standard output")?;
    }
    if let Some(linked) = linked {
        let weak = match linked.weak.as_slice() {
            [] => String::new(),
            names => format!(" It may replace weak functions: {}.", names.join(", ")),
        };
        note(&format!(
            "rtalloc: {} is not linked: the functions and what they call were linked alone, and the SHA-256 is that of the \
             result. Your program has other addresses, on which cycles may depend, and perhaps more instructions, in \
             veneers and for thread-local data.{weak}\n",
            path.display()
        ));
    }
    Ok(if bounds.len() == arguments.symbol.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The address at which a function begins, by name or address.
fn entry(file: &ElfFile, symbol: &str) -> anyhow::Result<u64> {
    if let Some(digits) = symbol.strip_prefix("0x") {
        let address = u64::from_str_radix(digits, 16);
        let address = address.with_context(|| format!("{symbol} is not an address, such as 0x1139"))?;
        return Ok(file.arch().function_at(address));
    }
    match file.find(symbol).as_slice() {
        [one] => Ok(one.address),
        [] => anyhow::bail!(
            "there is no function {symbol:?} in the file; `nm -C` lists what it has. It may have been inlined, or stripped"
        ),
        several => {
            let line = |symbol: &Symbol| {
                format!("{:#x} {}{}", symbol.address, symbol.linkage_name, file.versions(symbol).join(", "))
            };
            let list: Vec<String> = several.iter().map(line).collect();
            anyhow::bail!("{symbol:?} is the name of several functions; give one's address:\n  {}", list.join("\n  "))
        }
    }
}

/// Verifies certificates.
fn verify(path: &Path, binary: Option<&Path>, strict: bool) -> anyhow::Result<ExitCode> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: Vec<serde_json::Value> =
        serde_json::from_str(&text).with_context(|| format!("{} is not a list of certificates", path.display()))?;
    anyhow::ensure!(!list.is_empty(), "{} holds no certificate", path.display());
    let this_program = binary.is_none().then(Analysis::of_this_program).transpose()?;
    let opened = binary.map(ElfFile::open).transpose()?;
    let Some(file) = opened.as_ref().or(this_program.as_ref().map(Analysis::file)) else { unreachable!("one of both") };
    let mut text = String::new();
    let columns = Look::of_stdout().columns.min(120);
    let (mut assumed, mut not_called, mut stated) = (BTreeSet::new(), BTreeSet::new(), 0);
    for value in list {
        let certificate = Certificate::from_json(&value.to_string()).with_context(|| path.display().to_string())?;
        let entry = certificate.proof.entry;
        let function = certificate.proof.function.clone().unwrap_or_else(|| "a function without a name".into());
        let another = binary.is_none() && certificate.binary.sha256 != file.provenance().sha256;
        let hint = if another { " (name its file with --binary)" } else { "" };
        let checked = check(&certificate, file, file.provenance()).with_context(|| format!("{function}{hint}"))?;
        // The address identifies the operation; the name in the certificate does not.
        let operations = this_program.as_ref().map(|analysis| operations_at(analysis, entry.0)).unwrap_or_default();
        let name = if operations.is_empty() { file.provenance().file.clone() } else { operations.join(" and ") };
        let core = checked.unit.core();
        let of_core = core.map_or_else(String::new, |core| format!(" of {core}"));
        let most = format!("{} {}{of_core}", checked.most, checked.unit);
        let _ = writeln!(text, "{name}: {function}, entry {entry}: at most {most}");
        if let Some(core) = core {
            let _ = writeln!(text, "{}", wrapped(&described(core, None).assumed(), columns, 2));
        }
        stated += checked.facts.len();
        for line in checked.never_returning.iter().chain(&checked.facts) {
            let _ = writeln!(text, "  if {line}");
        }
        assumed.extend(checked.assumptions);
        not_called.extend(checked.not_called);
    }
    let assumptions =
        present::bounds::assumptions(assumed, not_called.iter().map(String::as_str).collect()).unwrap_or_default();
    let beyond = match stated {
        0 => "Nothing beyond the published list is assumed.".into(),
        facts => {
            format!("Stated by a user or by the library's source, and not verified: {}.", counted(facts as u64, "fact"))
        }
    };
    for line in [assumptions, beyond] {
        let _ = writeln!(text, "{}", wrapped(&line, columns, 0));
    }
    let _ = writeln!(text, "Verified against {}, SHA-256 {}.", file.provenance().file, file.provenance().sha256);
    print(&text).context("standard output")?;
    Ok(if strict && stated > 0 { ExitCode::from(BEYOND_THE_LIST) } else { ExitCode::SUCCESS })
}

/// The exit status of `--check --strict` where certificates rest on facts that a user stated.
const BEYOND_THE_LIST: u8 = 3;

/// The operations of allocators in this program whose entry point is at an address of its file.
fn operations_at(analysis: &Analysis, entry: u64) -> Vec<String> {
    let named = |subject: &'static Subject| {
        let begins = move |operation: &Operation| analysis.entry(subject, *operation) == entry;
        let name = move |operation: Operation| format!("{} {}", subject.name, operation.name());
        Operation::ALL.into_iter().filter(begins).map(name)
    };
    rtalloc_subjects::all().iter().flat_map(named).collect()
}

/// Certificates as a list, one for each bound.
fn certificates(bounds: &[Bound], file: &ElfFile) -> anyhow::Result<String> {
    let list: Vec<Certificate> = bounds.iter().map(|bound| Certificate::of(bound, file.provenance())).collect();
    Ok(serde_json::to_string_pretty(&list).context("as JSON")? + "\n")
}

/// Why there is no bound, in one line.
fn declines(study: &Study) -> String {
    let operations = study.subjects.iter().flat_map(|subject| &subject.operations);
    let why = operations.filter_map(|operation| match &operation.answer {
        Answer::Declined { why, .. } => Some(format!("{}: {why}", operation.operation)),
        Answer::Bounded(_) => None,
    });
    why.collect::<Vec<_>>().join("; ")
}

/// Everything that operations are observed in, as temporary files, deleted when this is dropped.
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
/// Operations used of each trace; rare events have occurred by then.
const MOST_EVENTS: usize = 400_000;
