//! What explorations find, pinned in `explored.txt`: a line for each module of the suite that explores a heap.
//!
//! `UPDATE_EXPLORED=1 cargo test -p rtalloc --test suite every_state` writes the counts anew. An update keeps the size of
//! a heap and the depth of a limited exploration, which may be edited. A new line gets a limited one if not all states
//! can be explored, if they take long, or if another line has the same space.

use super::{Explored, Limits};
use crate::tier;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// The file.
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/explored.txt");

/// The head of the file.
const HEAD: &str = "\
# Written by UPDATE_EXPLORED=1 cargo test -p rtalloc --test suite every_state (explore/pinned.rs says what it keeps).
# size: granules, or pages for heaps of handles. all: states, operations and depth of the whole space; - if there are
# too many states, so that both tiers explore a part. part: the same to a depth, for the daily tier.
";

/// An update gives up on the whole space at these limits; the depth is that of the exploration.
const MOST: Limits = Limits { depth: usize::MAX, operations: 4_000_000, bytes: 16 << 30 };
/// The daily tier explores a space with more operations than this to a depth.
const MOST_OPERATIONS_DAILY: usize = 800_000;
/// The most operations of a limited exploration that has no depth yet.
const MOST_OPERATIONS_OF_PART: usize = 10_000;

/// A line of the file.
#[derive(Clone, Copy, Debug)]
struct Line {
    size: usize,
    all: Option<Explored>,
    part: Option<Explored>,
}

/// Explores the heap of a module as far as its line says; fails unless it finds what is pinned there. `explore` takes
/// the limits and the size of the heap.
pub fn assert_explored(module: &str, default_size: usize, explore: &dyn Fn(Limits, usize) -> Explored) {
    let (_crate_name, module) = module.split_once("::").expect("a path begins with the crate");
    if std::env::var_os("UPDATE_EXPLORED").is_some() {
        return update(module, default_size, explore);
    }
    let how = format!("UPDATE_EXPLORED=1 cargo test -p rtalloc --test suite {module}::every_state");
    let lines = lines();
    let line = lines.get(module).unwrap_or_else(|| panic!("explored.txt has no line for {module}: run {how}"));
    let part = line.part.filter(|_| !tier::is_full() || line.all.is_none());
    let depth = part.map_or(usize::MAX, |part| part.depth);
    let explored = explore(Limits { depth, ..Limits::NONE }, line.size);
    // Pinned for the granules of 64-bit machines; elsewhere the exploration itself is the test.
    if cfg!(target_pointer_width = "64") {
        assert_eq!(Some(explored), part.or(line.all), "{module}; if this is meant to change, run {how}");
    }
}

fn update(module: &str, default_size: usize, explore: &dyn Fn(Limits, usize) -> Explored) {
    static WRITING: Mutex<()> = Mutex::new(());
    let old = lines().get(module).copied();
    let size = old.map_or(default_size, |line| line.size);
    let to = |depth| explore(Limits { depth, ..MOST }, size);
    let all = Some(to(usize::MAX)).filter(|all| all.is_complete);
    let known_part = old.and_then(|line| line.part).map(|part| to(part.depth));

    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut lines = lines();
    let has_its_space = |(name, line): (&String, &Line)| name != module && line.all == all;
    let is_limited = all.is_none_or(|all| all.transitions > MOST_OPERATIONS_DAILY) || lines.iter().any(has_its_space);
    let part = known_part.or_else(|| {
        let parts = (1..).map(to).take_while(|part| !part.is_complete && part.transitions <= MOST_OPERATIONS_OF_PART);
        parts.last().filter(|_| is_limited && old.is_none())
    });
    lines.insert(module.into(), Line { size, all, part });
    std::fs::write(PATH, written(&lines)).expect("a file that can be written");
}

/// The lines of the file, by module. It is read when a test runs, so that an update needs no new build.
fn lines() -> BTreeMap<String, Line> {
    let explored = |fields: &str, is_complete| {
        let mut numbers = fields.split_whitespace().map(|field| field.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Explored { states: next()?, transitions: next()?, depth: next()?, is_complete })
    };
    let line = |line: &str| {
        let mut columns = line.split('|').map(str::trim);
        let mut next = || columns.next().expect("four columns");
        let (module, size) = (next().to_string(), next().parse().expect("a size"));
        (module, Line { size, all: explored(next(), true), part: explored(next(), false) })
    };
    let text = std::fs::read_to_string(PATH).expect("a file that can be read");
    text.lines().filter(|line| !line.starts_with('#')).map(line).collect()
}

fn written(lines: &BTreeMap<String, Line>) -> String {
    let mut text = HEAD.to_string();
    let _ = writeln!(text, "# {:<33}|{:>6} |{:>22} |{:>20}", "module", "size", "all", "part");
    let columns = |explored: Option<Explored>| {
        explored.map_or_else(|| "-".into(), |it| format!("{} {:>8} {:>3}", it.states, it.transitions, it.depth))
    };
    for (module, Line { size, all, part }) in lines {
        let _ = writeln!(text, "{module:<35}|{size:>6} |{:>22} |{:>20}", columns(*all), columns(*part));
    }
    text
}

#[test]
fn every_line_belongs_to_a_module() {
    let binary = std::env::current_exe().expect("the path of this binary");
    let list = crate::apart::process::of(binary).arg("--list").output().expect("the list of tests");
    let list = String::from_utf8_lossy(&list.stdout);
    let modules: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix("::every_state: test")).collect();
    assert!(!modules.is_empty(), "no module explores");
    for (module, _) in lines() {
        assert!(modules.contains(&module.as_str()), "explored.txt has a line for {module}, which explores nothing");
    }
}
