//! `rtalloc size`

use super::arguments::{MOST_BYTES, limit, parse_size, per_cent, refuse_streams};
use super::destination::{Files, Output, is_stdout, print};
use super::progress::Bar;
use super::{note, note_incomplete};
use crate::present;
use crate::present::table::Look;
use anyhow::Context as _;
use rtalloc::limits::Limit;
use rtalloc_lab::experiment::heap_size::{attack, limited, program, sizes, unit_of, worlds};
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::heap_size::{Attack, ExactCell, Witness};
use rtalloc_subjects::{NATURAL_ALIGN_BYTES, Subject, Unit, one, region_allocators};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Computes how large a heap must be so that no request is ever refused.
///
/// State what your program has live at the same time, at most: with --limit, a number of objects of
/// each size; with --live, bytes and the largest request; or with --from, a recording, whose most live
/// objects of each size are taken as limits. For every allocator, this prints the region
///
///   recording    that serves the recording (with --from);
///   forced       that an adversary within the limits makes necessary;
///   guaranteed   in which no request within the limits is refused, with the theorem
///
/// With --heap, the reverse: how many bytes may be live in a region of that size.
///
/// With --exact, checks small heaps exhaustively, through every state of the allocator's own code. For
/// each M and n up to those given, this finds the smallest heap in which no program with at most M
/// live units and requests of 1 to n units is ever refused, and compares it with what the allocator
/// guarantees; a unit is its smallest block. The first table is what the best possible allocator that
/// moves nothing would need: the value of a game between program and allocator.
///
/// With --attack, runs adversarial programs, which see the addresses of their blocks, for M and n of
/// any size: nine named adversaries, and those found by a beam search and by evolution against the
/// allocator's own code. This prints the heap that the worst one needs, and the guaranteed one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, verbatim_doc_comment)]
#[command(group(
    clap::ArgGroup::new("program").args(["limit", "live", "from", "heap", "exact", "attack"]).required(true)
))]
pub struct Arguments {
    /// At most COUNT live objects of up to SIZE bytes; of exactly SIZE bytes: COUNTx=SIZE; of a range: COUNTxMIN-MAX.
    /// May be given several times.
    #[arg(long, value_name = "COUNTxSIZE", value_parser = limit)]
    limit: Vec<Limit>,

    /// At most SIZE live bytes (as requested), with suffix K, M or G.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "largest")]
    live: Option<u64>,

    /// The largest request in bytes, for --live and --heap.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, 
        conflicts_with_all = ["limit", "from", "exact", "attack"])]
    largest: Option<u64>,

    /// The smallest request in bytes, for --live and --heap; 1 by default. A request of one byte takes a whole unit, so
    /// state it: 16 can make a guarantee 16 times smaller.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "largest")]
    smallest: Option<u64>,

    /// The limits of a recording: the peak number of live objects in each power-of-two size range.
    #[arg(long, value_name = "TRACE")]
    from: Option<PathBuf>,

    /// With --from: increases each number of objects by this percentage; 0 by default.
    #[arg(long, value_name = "PERCENT", value_parser = per_cent)]
    margin: Option<u64>,

    /// Computes how many bytes may be live in a region of SIZE bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "largest")]
    heap: Option<u64>,

    /// Finds the exact smallest heaps for up to M live units and requests of up to n units.
    #[arg(long, value_name = "M,n", value_parser = world)]
    exact: Option<(usize, usize)>,

    /// Searches for programs with at most M live units and requests of 1 to n that make an allocator need the most
    /// memory.
    #[arg(long, value_name = "M,n", value_parser = large_world)]
    attack: Option<(usize, usize)>,

    /// With --attack: programs that evolution tries for each allocator, after the beam search.
    #[arg(long, value_name = "N", default_value_t = 50_000, requires = "attack",
        conflicts_with_all = ["limit", "live", "from", "heap", "exact"])]
    programs: usize,

    /// Allocators, separated by commas: names, families or groups. By default the region allocators of the library.
    /// With --exact, `any` is the best possible one, included by default.
    #[arg(long, value_name = "ALLOCATORS", value_delimiter = ',')]
    on: Vec<String>,

    /// With --exact: the most states of a heap that are explored; 10 million take about 1 GiB and a minute.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "exact",
        conflicts_with_all = ["limit", "live", "from", "heap", "attack"])]
    states: usize,

    /// Writes a program that a heap refuses as a trace to FILE. With --exact, a shortest one for the largest M and n
    /// that were decided; with --attack, the worst that was found; otherwise that of the adversary that forces the
    /// most.
    #[arg(long, value_name = "FILE", conflicts_with = "heap")]
    witness: Option<PathBuf>,

    /// Writes everything as JSON to FILE, or to standard output in place of the tables for `-`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  rtalloc size --limit 64x200 --limit 8x1500 --limit 1x4096
  rtalloc size --limit 64x200 --limit 8x1500 --on kingsley --witness worst.rtrace
  rtalloc size --live 28K --largest 4096 --smallest 16
  rtalloc size --from mine.rtrace --margin 20%
  rtalloc size --heap 64K --largest 1500 --smallest 64
  rtalloc size --exact 8,4 --on tlsf,half-fit
  rtalloc size --exact 7,4 --on half-fit --witness teeth.rtrace
  rtalloc size --attack 1024,16 --on kingsley,binary-buddy,tlsf

The exit status is 0 on success, and 1 when a guarantee is refuted.";

fn pair(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("{text:?} is not a world; write the most live units and the largest request: 8,4");
    let (m, n) = text.split_once(',').ok_or_else(wrong)?;
    Ok((m.trim().parse().map_err(|_| wrong())?, n.trim().parse().map_err(|_| wrong())?))
}

/// Parses `M,n`.
fn world(text: &str) -> Result<(usize, usize), String> {
    match pair(text)? {
        (_, 0 | 1) => Err("n must be at least 2: objects of one unit leave no useless gaps".into()),
        (m, n) if m < n => Err(format!("M must be at least n, which is {n}")),
        (m, _) if m > worlds::MOST_UNITS => Err(format!("M must be at most {}", worlds::MOST_UNITS)),
        world => Ok(world),
    }
}

/// Parses the `M,n` of a search.
fn large_world(text: &str) -> Result<(usize, usize), String> {
    const MOST: (usize, usize) = (1 << 14, 1 << 8);
    let (m, n) = pair(text)?;
    match (m, n) {
        (_, n) if n < 4 || n > MOST.1 || !n.is_power_of_two() => {
            Err(format!("n must be a power of two from 4 to {}", MOST.1))
        }
        (m, n) if m < 2 * n || m > MOST.0 => Err(format!("M must be from 2 n to {}", MOST.0)),
        world => Ok(world),
    }
}

/// Runs the subcommand.
///
/// # Errors
///
/// Any error that stopped it, with its context.
pub fn main(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // The game of two players has no heap, and is played only with --exact.
    let is_world = arguments.exact.is_some() || arguments.attack.is_some();
    let has_any = arguments.exact.is_some() && arguments.on.iter().any(|name| name == "any");
    let chosen: Vec<&str> = arguments.on.iter().map(String::as_str).filter(|name| !has_any || *name != "any").collect();
    let subjects = match chosen.as_slice() {
        [] if has_any => Vec::new(),
        [] if is_world => region_allocators().iter().collect(),
        [] => region_allocators().iter().chain([one("compact-fit")?]).collect(),
        chosen => rtalloc_subjects::select(chosen)?,
    };
    for subject in &subjects {
        let has_addresses = subject.view.is_some() && subject.entries.handles.is_none();
        anyhow::ensure!(
            has_addresses || (!is_world && subject.about.region_for.is_some()),
            "{}: no guarantee can be known; choose a region allocator of ours (`rtalloc allocators` lists them)",
            subject.name
        );
    }
    if let Some(world) = arguments.exact {
        return exact(arguments, &subjects, has_any || arguments.on.is_empty(), world);
    }
    if let Some(world) = arguments.attack {
        return attack(arguments, &subjects, world);
    }
    anyhow::ensure!(arguments.margin.is_none() || arguments.from.is_some(), "--margin is for the limits of --from");
    anyhow::ensure!(
        (arguments.largest.is_none() && arguments.smallest.is_none())
            || arguments.live.is_some()
            || arguments.heap.is_some(),
        "--largest and --smallest are for --live and --heap; with --limit: COUNTxMIN-MAX"
    );
    if arguments.largest.is_some() && arguments.smallest.is_none() {
        note("rtalloc: --smallest is not given: requests of one byte are assumed, each of which takes a whole unit\n");
    }
    let (smallest, largest) = (arguments.smallest.unwrap_or(1) as usize, arguments.largest.unwrap_or(0) as usize);
    anyhow::ensure!(arguments.largest.is_none() || smallest <= largest, "--smallest is more than --largest");
    let mut files = Files::new();
    if let Some(trace) = &arguments.from {
        refuse_streams(trace)?;
        files.reads("--from", trace)?;
        note_incomplete(trace);
    }
    witness_of(arguments, &subjects, &mut files)?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let bar = Bar::new();
    if let Some(heap) = arguments.heap {
        anyhow::ensure!(heap <= MOST_BYTES, "--heap: more than 64G");
        let may =
            sizes::may_be_live_in(&subjects, heap as usize, smallest, largest, &mut |progress| bar.show(progress))?;
        bar.clear();
        return finish(json, Schema::SIZE_OF_HEAP, &may, &|| present::heap_size::may_be_live(&may, Look::of_stdout()));
    }
    let mut align_bytes = 1;
    let limits = match (arguments.live, &arguments.from) {
        (Some(live), _) => {
            anyhow::ensure!(live <= MOST_BYTES, "--live: more than 64G");
            vec![Limit::live(live as usize, smallest, largest)]
        }
        (None, Some(trace)) => {
            let recorded = sizes::limits_of(trace, arguments.margin.unwrap_or(0))?;
            if recorded.resizes > 0 {
                note(&format!(
                    "rtalloc: this recording resizes blocks {} times, which no guarantee covers: allocate, copy and free \
                     instead\n",
                    recorded.resizes
                ));
            }
            if recorded.aligned > 0 {
                note(&format!(
                    "rtalloc: {} requests have an alignment above {NATURAL_ALIGN_BYTES}; guarantees that assume less are left \
                     out\n",
                    recorded.aligned
                ));
            }
            align_bytes = recorded.align_bytes;
            recorded.limits
        }
        (None, None) => arguments.limit.clone(),
    };
    anyhow::ensure!(
        limits.iter().any(|limit| limit.largest_bytes() > 0),
        "nothing is ever live; there is nothing to compute"
    );
    let from = arguments.from.as_deref();
    let found = sizes::measure(&subjects, &limits, align_bytes, from, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(path) = &arguments.witness {
        let unit = unit_of(subjects[0]).map_err(anyhow::Error::msg)?;
        anyhow::ensure!(
            subjects[0].about.sizes_for.is_none(),
            "--witness: a replay has no pools of chosen sizes; its guarantee is exact (docs/guarantees/segregated.md)"
        );
        let witness = limited::witness(subjects[0], &limits).map_err(anyhow::Error::msg)?;
        let witness = witness.context("--witness: no adversary is known for these limits")?;
        write_witness(subjects[0].name, unit, "its limits", &witness, path)?;
    }
    finish(json, Schema::SIZE, &found, &|| present::heap_size::sizes(&found, Look::of_stdout()))
}

/// Writes results as JSON, or as tables to standard output.
fn finish(
    json: Option<Output>,
    schema: Schema,
    found: &impl serde::Serialize,
    tables: &dyn Fn() -> String,
) -> anyhow::Result<ExitCode> {
    let replaced = match json {
        Some(json) => json.write(&document::pretty(schema, found).context("as JSON")?)?,
        None => false,
    };
    if !replaced {
        print(&tables()).context("standard output")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn exact(
    arguments: &Arguments,
    subjects: &[&'static Subject],
    has_any: bool,
    (m, n): (usize, usize),
) -> anyhow::Result<ExitCode> {
    let mut files = Files::new();
    witness_of(arguments, subjects, &mut files)?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let bar = Bar::new();
    let exact = worlds::measure(subjects, has_any, m, n, arguments.states, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(path) = &arguments.witness {
        let row = exact.rows.last().context("no allocator")?;
        let refuted = row.cells.iter().filter(|cell| cell.witness.is_some());
        let cell = refuted
            .max_by_key(|cell| (cell.block_bytes, cell.m))
            .context("--witness: no heap was refuted; choose a larger world, or more --states")?;
        let witness = cell.witness.as_ref().context("a witness")?;
        let unit = Unit { bytes: row.unit_bytes, header_bytes: row.header_bytes };
        write_witness(&row.subject, unit, &format!("M = {} and n = {}", cell.m, cell.n), witness, path)?;
    }
    finish(json, Schema::SIZE_EXACT, &exact, &|| present::heap_size::exact(&exact, Look::of_stdout()))?;
    let is_refuted = |cell: &ExactCell| cell.guaranteed_bytes.is_some_and(|bytes| bytes < cell.block_bytes as u64);
    let refuted = exact.rows.iter().flat_map(|row| &row.cells).any(is_refuted);
    Ok(if refuted { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn attack(arguments: &Arguments, subjects: &[&'static Subject], world: (usize, usize)) -> anyhow::Result<ExitCode> {
    let mut files = Files::new();
    witness_of(arguments, subjects, &mut files)?;
    let json = files.output("--json", arguments.json.as_deref())?;
    let bar = Bar::new();
    let attacks = attack::measure(subjects, world, arguments.programs, &mut |progress| bar.show(progress))?;
    bar.clear();
    if let Some(path) = &arguments.witness {
        let found = attacks.rows.first().and_then(|row| Some((row, row.found.as_ref()?)));
        let (row, found) = found.context("--witness: no program was found")?;
        let unit = unit_of(subjects[0]).map_err(anyhow::Error::msg)?;
        let world = format!("M = {} and n = {}", world.0, world.1);
        write_witness(&row.subject, unit, &world, &found.witness, path)?;
    }
    finish(json, Schema::SIZE_ATTACK, &attacks, &|| present::heap_size::attacks(&attacks, Look::of_stdout()))?;
    let is_refuted = |row: &Attack| row.guaranteed_bytes.zip(row.worst()).is_some_and(|(bytes, worst)| bytes < worst);
    Ok(if attacks.rows.iter().any(is_refuted) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Checks the arguments of a witness before the search: the trace replaces the file at the end.
fn witness_of(arguments: &Arguments, subjects: &[&'static Subject], files: &mut Files) -> anyhow::Result<()> {
    anyhow::ensure!(!arguments.witness.as_deref().is_some_and(is_stdout), "--witness needs the name of a file");
    anyhow::ensure!(
        arguments.witness.is_none() || subjects.len() == 1,
        "--witness is a program against one allocator; name it with --on"
    );
    files.file("--witness", arguments.witness.as_deref())?;
    Ok(())
}

fn write_witness(subject: &str, unit: Unit, world: &str, witness: &Witness, path: &Path) -> anyhow::Result<()> {
    program::write(subject, unit, world, witness, path)?;
    let heap = witness.region_bytes;
    note(&format!("refused by: rtalloc run {} --on {subject} --heap {heap}\n", path.display()));
    Ok(())
}
