//! The functions under test, with inputs that reach both extremes.
//!
//! Inputs take every path that can be a longest or shortest one after instructions are added anywhere, so the same
//! inputs reach the extremes of mutants.

use super::assembly::{Assembly, facts};
use super::library::{Input, Library, compile};
use pathbound::facts::LoopFact;
use std::path::{Path, PathBuf};

/// A function, and what is known about it.
#[derive(Debug)]
pub struct Fixture {
    pub name: &'static str,
    /// Its text, and the name of the file it is assembled from.
    pub assembly: Assembly,
    pub file: String,
    pub facts: Vec<LoopFact>,
    pub inputs: Vec<Input>,
    /// Its counts; unknown for compiled code.
    pub known: Option<Known>,
}

/// The instruction counts of a function.
#[derive(Debug)]
pub struct Known {
    /// Of the shortest and of the longest path, by the facts.
    pub bounds: (u64, u64),
    /// The least and the most that calls with the inputs execute.
    pub counts: (u64, u64),
}

impl Fixture {
    /// A library of mutants.
    pub fn library(&self, mutants: &[Assembly]) -> Library {
        let parts: Vec<_> = mutants.iter().map(|mutant| (mutant.clone(), self.name)).collect();
        Library::new(&self.file, &parts)
    }
}

fn words(inputs: &[[u64; 3]]) -> Vec<Input> {
    inputs.iter().map(|words| Input { words: *words, memory: Vec::new() }).collect()
}

/// The functions of `fixtures/known.s` whose calls reach the bounds: name, shortest, longest, inputs.
const KNOWN: &[(&str, u64, u64, &[[u64; 3]])] = &[
    ("straight", 3, 3, &[[1, 2, 3]]),
    ("diamond", 5, 6, &[[1, 1, 0], [1, 2, 0]]),
    ("diamonds", 5, 8, &[[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 1, 0]]),
    ("nested_diamonds", 3, 8, &[[0, 0, 0], [1, 0, 0], [1, 1, 0]]),
    ("conditional_returns", 4, 5, &[[1, 2, 0], [2, 2, 0], [3, 2, 0]]),
    ("loop_bottom", 5, 23, &[[1, 0, 0], [2, 0, 0], [7, 0, 0]]),
    ("loop_top", 3, 23, &[[0, 0, 0], [1, 0, 0], [5, 0, 0]]),
    ("loop_rotated", 3, 15, &[[0, 0, 0], [1, 0, 0], [4, 0, 0]]),
    ("loop_entered_at_its_test", 4, 16, &[[0, 0, 0], [1, 0, 0], [4, 0, 0]]),
    ("loop_instruction", 3, 9, &[[0, 0, 0], [1, 0, 0], [6, 0, 0]]),
    ("diamond_in_loop", 6, 17, &[[1, 0, 0], [1, 1, 0], [3, 0, 0], [3, 1, 0]]),
    ("search", 4, 26, &[[1, 1, 1], [9, 5, 9], [9, 0, 5], [9, 0, 1]]),
    ("nested", 8, 74, &[[1, 1, 0], [4, 1, 0], [4, 5, 0]]),
    ("three_deep", 11, 44, &[[1, 1, 1], [1, 2, 2], [2, 2, 2]]),
    ("calls", 7, 7, &[[1, 2, 3]]),
    ("calls_twice", 15, 17, &[[1, 1, 0], [1, 2, 0]]),
    ("calls_by_table", 6, 6, &[[1, 2, 3]]),
    ("calls_in_loop", 10, 28, &[[1, 0, 0], [4, 0, 0]]),
    ("loops_in_loop", 13, 85, &[[1, 1, 0], [3, 7, 0]]),
    ("tail", 5, 5, &[[1, 2, 3]]),
    ("tail_by_table", 5, 5, &[[1, 2, 3]]),
    ("conditional_tail", 5, 13, &[[1, 1, 0], [1, 1, 1], [1, 2, 1]]),
    ("calls_tail", 8, 8, &[[1, 2, 3]]),
    ("aborts", 4, 4, &[[1, 0, 0]]),
    ("aborts_by_table", 4, 4, &[[1, 0, 0]]),
    ("traps", 5, 5, &[[1, 0, 0], [5, 0, 0]]),
];

/// The functions of `fixtures/known.s`.
pub fn known() -> Vec<Fixture> {
    let text = include_str!("fixtures/known.s");
    let fixture = |name, bounds, counts, inputs: &[_]| Fixture {
        name,
        assembly: Assembly::new(text),
        file: "known.s".to_owned(),
        facts: facts("known.s", text),
        inputs: words(inputs),
        known: Some(Known { bounds, counts }),
    };
    let exact = KNOWN
        .iter()
        .map(|(name, shortest, longest, inputs)| fixture(*name, (*shortest, *longest), (*shortest, *longest), inputs));
    let mut all: Vec<_> = exact.collect();
    // The facts do not state that the inner loop has fewer iterations in later rounds.
    all.push(fixture("triangular", (8, 62), (8, 44), &[[1, 0, 0], [4, 0, 0]]));
    all
}

/// Compiles a C file to assembly, without alignment, which would differ between mutants.
fn compiled(name: &'static str, file: &str, text: &str, inputs: Vec<Input>) -> Fixture {
    const OPTIONS: &[&str] = &[
        "-O2",
        "-g",
        "-S",
        "-fpic",
        "-fno-align-functions",
        "-fno-align-loops",
        "-fno-align-jumps",
        "-fno-align-labels",
        "-fcf-protection=none",
    ];
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trust/fixtures").join(file);
    let directory = tempfile::tempdir().expect("a directory");
    let output: PathBuf = directory.path().join("out.s");
    compile(OPTIONS, &[source], &output);
    let assembly = Assembly::new(&std::fs::read_to_string(output).expect("assembly"));
    Fixture { name, assembly, file: format!("{file}.s"), facts: facts(file, text), inputs, known: None }
}

/// The functions of the C files.
pub fn real() -> Vec<Fixture> {
    // head, count, words.
    let ring = |count: u64| [[6, count].as_slice(), &[1; 8]].concat();
    let push = [(8, 0), (8, 5), (0, 0), (0, 5), (7, 0), (7, 5)];
    let push = push.iter().map(|(count, total)| Input { words: [0, 3, *total], memory: ring(*count) });
    let lists = [[2, 0, 0, 0], [0, 0, 0, 1 << 63], [0; 4]];
    let find =
        lists.iter().flat_map(|words| [0, 3].map(|class| Input { words: [0, class, 0], memory: words.to_vec() }));
    vec![
        compiled("push", "ring.c", include_str!("fixtures/ring.c"), push.collect()),
        compiled("first_free", "bits.c", include_str!("fixtures/bits.c"), find.collect()),
        compiled("crc", "crc.c", include_str!("fixtures/crc.c"), words(&[[0, u64::MAX, 0], [1, 2, 0]])),
    ]
}
