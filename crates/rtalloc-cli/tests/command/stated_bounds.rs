//! The bounds that prose and tables written by hand state are those of `bounds/x86_64.json`. (`ci/book.py` compares the
//! tables that the book marks, `figures` those in the documentation of the allocators.)

use rtalloc_lab::number::grouped;
use rtalloc_lab::result::bounds::Baseline;
use rtalloc_lab::result::document::{self, Schema};
use serde_json::Value;
use std::path::Path;

/// Files and what stands in them, line breaks apart: `{tlsf, allocate}` is the bound of this allocator and operation.
const STATED: &[(&str, &str)] = &[
    ("README.md", "TLSF (circled) executes at most {tlsf, allocate} instructions"),
    ("README.md", "| `Tlsf` | {tlsf, allocate}, {tlsf, deallocate} instructions |"),
    ("README.md", "| `HalfFit` | {half-fit, allocate}, {half-fit, deallocate} |"),
    ("README.md", "| `Pools` | {pools, allocate}, {pools, deallocate} |"),
    ("README.md", "| `BinaryBuddy` | {binary-buddy, allocate}, {binary-buddy, deallocate} |"),
    (
        "README.md",
        "| `PooledArenas`, used by slot | {pooled-arenas, allocate}, {pooled-arenas, deallocate} (8 slots) |",
    ),
    ("README.md", "with a larger alignment, `Tlsf` takes at most {tlsf, allocate aligned}."),
    ("CHANGELOG.md", "28.2 KiB live, with at most {pools, allocate} instructions"),
    ("docs/book/src/sizing.md", "with plain pointers, in at most {pools, allocate} instructions"),
    ("docs/book/src/introduction.md", "// at most {tlsf, allocate} instructions, in any state"),
    ("docs/book/src/guarantees.md", "no allocate executes more than {tlsf, allocate} instructions"),
    (
        "docs/book/src/guarantees.md",
        "({tlsf, allocate aligned} at alignments above 16), no free more than {tlsf, deallocate},",
    ),
    (
        "docs/book/src/choosing.md",
        "executes at most {pools, allocate} instructions; `SimpleSegregated` (requests of up to 1,020 bytes by default) \
         {simple-segregated, allocate}.",
    ),
    ("docs/book/src/introduction.md", "// at most {tlsf, deallocate}"),
    ("docs/book/src/choosing.md", "(at most {half-fit, deallocate} instructions per call instead of {tlsf, allocate})"),
    (
        "docs/book/src/choosing.md",
        "{pooled-arenas, allocate} is for a pool of 8 words, 256 chunks, and 2 blocks taken back",
    ),
    (
        "CHANGELOG.md",
        "an allocation takes at most {pooled-arenas, allocate} instructions and a free {pooled-arenas, deallocate}",
    ),
    (
        "docs/SHARED-HEAPS.md",
        "| a slot of `PooledArenas` | {pooled-arenas, allocate} | {pooled-arenas, allocate aligned} | \
         {pooled-arenas, deallocate} |",
    ),
    (
        "docs/SHARED-HEAPS.md",
        "| `Global` in the laboratory | {pooled-arenas-global, allocate, one attempt} | \
         {pooled-arenas-global, allocate aligned, one attempt} | {pooled-arenas-global, deallocate} |",
    ),
    (
        "docs/SHARED-HEAPS.md",
        "`Global::alloc` in the laboratory takes at most {pooled-arenas-global, allocate aligned} instructions at any \
         alignment, and {pooled-arenas-global, allocate} where",
    ),
    ("docs/book/src/choosing.md", "takes at most {tlsf, allocate aligned} instructions in `tlsf`"),
    (
        "docs/book/src/choosing.md",
        "and {half-fit, allocate aligned} in `half-fit`; in `rlsf`, by the same tool, {rlsf, allocate aligned}.",
    ),
];

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn committed() -> Baseline {
    document::read(Schema::BASELINE, &read("bounds/x86_64.json")).expect("bounds")
}

#[test]
fn stated_bounds_are_the_committed_ones() {
    let committed = committed();
    for (file, pattern) in STATED {
        let mut stated = String::new();
        for (position, part) in pattern.split(['{', '}']).enumerate() {
            if position % 2 == 0 {
                stated.push_str(part);
            } else {
                let (allocator, operation) = part.split_once(", ").expect("an allocator and an operation");
                let of = |bounds: &Baseline| Some(*bounds.bounds.get(allocator)?.get(operation)?);
                stated.push_str(&grouped(of(&committed).unwrap_or_else(|| panic!("no bound of {part}"))));
            }
        }
        let text = read(file).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&stated), "{file} does not state: {stated}");
    }
}

/// A report that is older than the committed bounds is noticed, for peers too.
#[test]
fn the_report_has_the_committed_bounds() {
    let committed = committed();
    let report: Value = serde_json::from_str(&read("docs/reproduction.json")).expect("JSON");
    let rows = report["tables"]["All allocators"].as_object().expect("a table");
    let heads = rows["allocator"].as_array().expect("a heading");
    let mut compared = 0;
    for (allocator, bounds) in &committed.bounds {
        for (head, operation) in [("allocate at most", "allocate"), ("free at most", "deallocate")] {
            let column = heads.iter().position(|one| one == head).expect("a column");
            let (Some(row), Some(most)) = (rows.get(allocator), bounds.get(operation)) else { continue };
            assert_eq!(row[column], grouped(*most), "{allocator}, {operation}");
            compared += usize::from(allocator == "rlsf");
        }
    }
    assert_eq!(compared, 2, "rlsf has a baseline");
}
