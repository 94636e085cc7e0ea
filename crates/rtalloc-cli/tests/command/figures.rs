//! The tables under `# Figures` in the documentation of the library's allocators, and of those that only papers compare,
//! against what the laboratory finds.
//!
//! Between the lines
//!
//! ```text
//! //! <!-- figures: first-fit first-fit-address -->
//! //! <!-- end of figures -->
//! ```
//!
//! of a module's documentation stands a table with a row for each allocator named; for how long they hold locks,
//! between `holds: tlsf` and the same end. `UPDATE_FIGURES=1 cargo test -p rtalloc-cli --test command figures` writes
//! those that changed anew, with the day and the commit. The bounds are those in `bounds/x86_64.json`.

use rtalloc_cli::version;
use rtalloc_lab::number::{bytes, date, grouped};
use rtalloc_lab::observe::scenario::HEAP_BYTES;
use rtalloc_lab::probe::{Task, space};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::processor::Budget;
use rtalloc_lab::replay::settings::automatic_heap_bytes;
use rtalloc_lab::result::bounds::Baseline;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::schema::{Origin, Outcome};
use rtalloc_lab::trace::{Reader, Writer, at_most};
use rtalloc_lab::workload::Model;
use rtalloc_subjects::Subject;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const BEGIN: &str = "//! <!-- figures:";
const END: &str = "//! <!-- end of figures -->";
const HEADING: &str = "\
//! | | static bound: allocate, aligned, deallocate | header | smallest block | control: 64 KB, 1 MB | F in `run`'s heap, above 8·M: P3, lua-entities |
//! |---|---|---|---|---|---|
";

/// Begins the line below a table.
const MEASURED: &str = "//! Measured ";

const HOLDS: &str = "//! <!-- holds:";
const HOLDS_HEADING: &str = "\
//! | heap, lock | longest hold: allocate, aligned, deallocate |
//! |---|---|
";

#[test]
fn the_tables_in_the_documentation_are_what_the_laboratory_finds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    list(&root.join("crates/rtalloc/src"), &mut sources);
    sources.push(root.join("crates/rtalloc-subjects/src/ablations.rs"));
    let mut laboratory = Laboratory::new(&root);
    let update = std::env::var_os("UPDATE_FIGURES").is_some();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut stale = Vec::new();
    for path in sources {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let with_figures = tabled(&text, BEGIN, HEADING, |name| {
            *seen.entry(name.into()).or_default() += 1;
            vec![laboratory.row(name)]
        });
        let fresh = tabled(&with_figures, HOLDS, HOLDS_HEADING, |name| laboratory.holds(name));
        if fresh != text {
            if update {
                std::fs::write(&path, fresh).expect("a source file that can be written");
            } else {
                let differences = text.lines().zip(fresh.lines()).filter(|(old, new)| old != new);
                let lines: String = differences.map(|(old, new)| format!("\n  - {old}\n  + {new}")).collect();
                stale.push(format!("{}:{lines}", path.strip_prefix(&root).unwrap_or(&path).display()));
            }
        }
    }
    assert!(stale.is_empty(), "run it again with UPDATE_FIGURES=1:\n{}", stale.join("\n"));
    // A heap of handles has its figures by size class, which `rtalloc bound` prints.
    let has_addresses = |subject: &&Subject| subject.entries.handles.is_none();
    let ours = rtalloc_subjects::all().iter().filter(|subject| subject.origin == Origin::Ours).filter(has_addresses);
    for subject in ours {
        assert_eq!(seen.get(subject.name), Some(&1), "{} has its figures in one place", subject.name);
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).expect("a folder of sources");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The text with those of its tables written anew that begin so.
fn tabled(text: &str, begin: &str, heading: &str, mut rows: impl FnMut(&str) -> Vec<String>) -> String {
    let mut fresh = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(fresh, "{line}");
        let Some(names) = line.strip_prefix(begin) else { continue };
        let mut table = String::from(heading);
        for row in names.trim_end_matches("-->").split_whitespace().flat_map(&mut rows) {
            let _ = writeln!(table, "//! | {row} |");
        }
        assert!(lines.clone().any(|line| line == END), "no {END:?} after {line:?}");
        let old: String = lines.by_ref().take_while(|line| *line != END).map(|line| format!("{line}\n")).collect();
        let (figures, measured) = old.split_once(MEASURED).unwrap_or((&old, ""));
        // The same figures are not measured anew.
        let is_known = figures.trim_end_matches("//!\n") == table && !measured.is_empty();
        fresh.push_str(&if is_known { old } else { format!("{table}//!\n{MEASURED}{}\n", now()) });
        let _ = writeln!(fresh, "{END}");
    }
    fresh
}

/// The day, the commit and the command.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let day = date(seconds);
    let day = day.split(' ').next().unwrap_or(&day);
    let commit = version::commit().map_or("an unknown commit", |commit| &commit.hash[..7]);
    format!("{day} at {commit} by `cargo test -p rtalloc-cli --test command figures`.")
}

/// What rows are made of.
struct Laboratory {
    bounds: Baseline,
    folder: tempfile::TempDir,
    /// P3 and lua-entities, whole, and by the size to which they are cut.
    traces: [PathBuf; 2],
    cut: BTreeMap<(usize, u64), Option<PathBuf>>,
}

impl Laboratory {
    fn new(root: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let text = std::fs::read_to_string(root.join("bounds/x86_64.json")).expect("the bounds that are committed");
        let bounds = document::read(Schema::BASELINE, &text).expect("bounds");
        let p3 = folder.path().join("p3.rtrace");
        Model::parse("p3 --mallocs 50000").expect("a model").write_to(1, &p3).expect("a trace");
        let traces = [p3, root.join("traces/lua-entities.rtrace")];
        Self { bounds, folder, traces, cut: BTreeMap::new() }
    }

    fn row(&mut self, name: &str) -> String {
        let subject = *rtalloc_subjects::select(&[name]).expect("the name of a subject").first().expect("one");
        let contract = &subject.view.as_ref().expect("one of ours").contract;
        let bounds = self.bounds.bounds.get(name);
        let bound = |operation: &str| {
            let of = |name: &str| bounds.and_then(|bounds| bounds.get(name));
            // A number of so many digits says less than what it is made of.
            if let Some(bound) = of(operation).filter(|bound| **bound < 10_000) {
                return grouped(*bound);
            }
            // Of loops whose bound the heap determines.
            let per = format!("{operation}, per ");
            let terms = bounds.into_iter().flatten().filter_map(|(name, cost)| Some((name.strip_prefix(&per)?, cost)));
            let terms: String = terms.map(|(unit, cost)| format!(" + {cost} per {unit}")).collect();
            let at_once = of(&format!("{operation}, at once")).map_or_else(String::new, |most| format!("{most}, or "));
            match of(&format!("{operation}, base")) {
                Some(base) if !terms.is_empty() => {
                    let at_least = of(&format!("{operation}, iterations at least"));
                    let at_least =
                        at_least.map_or_else(String::new, |least| format!(" (linear from {least} iterations)"));
                    format!("{at_once}{base}{terms}{at_least}")
                }
                // Or of loops that iterate together: then the number is all there is.
                _ => of(operation)
                    .map_or_else(|| "-".into(), |bound| format!("{} in {}", grouped(*bound), bytes(HEAP_BYTES as u64))),
            }
        };
        let control = |heap_bytes: u64| {
            // A region of 64 KiB less a byte is one of 64 KB here.
            if heap_bytes - 1 > subject.largest_heap_bytes() {
                return "-".into();
            }
            let control = rtalloc_lab::catalogue::control(subject, heap_bytes).control_bytes;
            control.map_or_else(|| "-".into(), |bytes| format!("{} B", grouped(bytes)))
        };
        format!(
            "`{name}` | {}, {}, {} | {} B | {} B | {}, {} | {}, {}",
            bound("allocate"),
            bound("allocate aligned"),
            bound("deallocate"),
            contract.header_bytes,
            contract.min_block_bytes,
            control(64 << 10),
            control(1 << 20),
            self.fragmentation(subject, 0),
            self.fragmentation(subject, 1),
        )
    }

    /// A row for each lock that an allocator is put under.
    fn holds(&mut self, name: &str) -> Vec<String> {
        let bounds = &self.bounds.bounds[name];
        let locks = bounds.keys().filter_map(|what| what.strip_prefix("allocate, under "));
        let row = |lock: &str| {
            let operations = ["allocate", "allocate aligned", "deallocate"];
            let hold = |operation| grouped(bounds[&format!("{operation}, under {lock}")]);
            format!("`{name}`, {lock} | {}", operations.map(hold).join(", "))
        };
        locks.map(row).collect()
    }

    /// F on the blocks of a trace that the subject serves; a dash where they are less than half of it, or none, since
    /// both traces ask for the alignment of C's malloc, or are more than its largest heap.
    fn fragmentation(&mut self, subject: &Subject, trace: usize) -> String {
        if subject.reach.alignment_bytes < rtalloc_subjects::NATURAL_ALIGN_BYTES {
            return "-".into();
        }
        let largest = subject.reach.request_bytes as u64;
        let whole = self.traces[trace].clone();
        let path = self.cut.entry((trace, largest)).or_insert_with(|| {
            if largest >= 1 << 40 {
                return Some(whole);
            }
            let target = self.folder.path().join(format!("{trace}-{largest}.rtrace"));
            let mut reader = Reader::open(&whole).expect("a trace");
            let file = File::create(&target).expect("a file");
            let mut writer = Writer::new(std::io::BufWriter::new(file), reader.meta()).expect("a writer");
            let cut = at_most(&mut reader, largest, &mut writer).expect("a cut");
            writer.finish().expect("a trace");
            (cut.kept * 2 >= cut.requests).then_some(target)
        });
        let Some(path) = path else { return "-".into() };
        let mut reader = Reader::open(&*path).expect("a trace");
        let mut events = Vec::new();
        while reader.next_chunk(&mut events).expect("a chunk") {}
        let totals = reader.totals().expect("read to its end");
        if totals.peak_live_bytes > subject.largest_heap_bytes() {
            return "-".into();
        }
        let task = Task {
            trace: path,
            events: totals.events,
            peak_live_bytes: totals.peak_live_bytes,
            subject,
            heap_bytes: automatic_heap_bytes(totals.peak_live_bytes) as usize,
            // The tests beside this one use the same process's time.
            budget: Budget::new(Duration::from_secs(3600)),
            board: &Board::new().expect("a board"),
        };
        let report = space::measure(&task, false);
        assert_eq!(report.outcome, Outcome::Completed, "{} on {}", subject.name, path.display());
        let space = report.figures.expect("figures");
        let cut = if largest < 1 << 40 { format!(" (blocks up to {} B)", grouped(largest)) } else { String::new() };
        format!("{:.1} %{cut}", space.fragmentation * 100.0)
    }
}
