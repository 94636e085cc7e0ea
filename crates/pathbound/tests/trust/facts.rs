//! Facts about loops of compiled code: a bound that follows from true facts is not exceeded. Counts that a reader of
//! the source may state about lines are refused, or lead to a bound that is not exceeded either.

use super::is_installed;
use super::library::{Input, Library};
use super::loops::{FUNCTIONS, Outcomes, SOURCE, hold};
use pathbound::facts::LoopFact;

const LEVELS: &[&[&str]] =
    &[&["-O0"], &["-O1"], &["-O2"], &["-O3"], &["-Os"], &["-O3", "-funroll-loops"], &["-O3", "-march=x86-64-v2"]];

#[test]
fn no_fact_about_compiled_loops_leads_to_a_bound_that_is_exceeded() {
    let mut lines = Outcomes::default();
    let keys: Vec<u64> = (0..200).map(|key| 10 * key).collect();
    let compilers: Vec<&str> = ["gcc", "clang"].into_iter().filter(|compiler| is_installed(compiler)).collect();
    for compiler in &compilers {
        for options in LEVELS {
            let library = Library::compiled(compiler, options, "facts.c", SOURCE, &FUNCTIONS.map(|(name, _)| name));
            for (part, (function, calls)) in FUNCTIONS.iter().enumerate() {
                let (what, entry) = (format!("{function} by {compiler} {options:?}"), library.entry(part));
                let input = |[a, b]: &[u64; 2]| Input { words: [0, *a, *b], memory: keys.clone() };
                let traces: Vec<Vec<u64>> = calls.iter().map(|words| library.trace(entry, &input(words))).collect();
                let bound = |facts: &[LoopFact]| library.bound(entry, facts);
                hold(&library.file, entry.address, &what, &traces, &bound, &mut lines);
            }
        }
    }
    let few = 50 * compilers.len();
    assert!(lines.bounded > few && lines.refused > few, "{} and {}", lines.bounded, lines.refused);
}
