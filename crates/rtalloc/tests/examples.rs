//! Every example of examples/rust runs and prints what this file expects.

mod process;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The output of each example.
const OUTPUT: [(&str, &[&str]); 10] = [
    (
        "audio_callback",
        &[
            "steps of an operation are bounded: true",
            "phrases: 500, notes: 4000, dropped: 0, sound: true",
            "intact: true",
        ],
    ),
    (
        "collections_in_a_region",
        &["orders: 50, the last says 98", "refused: true, then [7]", "live blocks: 0", "total: 1498500"],
    ),
    (
        "flight_recorder",
        &["written down: 233, of which the last 64 are in the region", "the ring takes less than 4 KiB: true"],
    ),
    (
        "global_arenas",
        &["progress: wait-free", "sum: 2997000", "operations that shared a slot: 0", "requests refused: 0"],
    ),
    ("global_locked_tlsf", &["letters: 79560", "in the static array: true", "requests refused: 0", "intact: true"]),
    (
        "guarded_heap",
        &[
            "one byte too many: Overrun",
            "one byte too early: Underrun",
            "freed twice: DoubleFree",
            "an address inside: InteriorPointer",
            "written after it was freed: UseAfterFree",
            "kept: 2, and a check says so: true",
        ],
    ),
    ("misuse", &["tlsf: DoubleFree", "tlsf: ForeignPointer", "unharmed: true", "found by a check: true"]),
    (
        "moving_objects",
        &[
            "pages that always suffice: 7",
            "messages alive and unharmed: 100",
            "an old handle: the object of this handle was freed",
            "sum of the list: 500500",
        ],
    ),
    (
        "quick_start",
        &[
            "tlsf: allocate O(1), free O(1)",
            "aligned to 4096: true",
            "live blocks: 0, refusals: 2",
            "more than 48 KiB were live at a time: true",
            "free blocks: 1",
        ],
    ),
    (
        "static_heap",
        &[
            "the log took more than 30 lines: true, then: no free block is large enough",
            "the network is unharmed",
            "taken twice: false",
            "states: 100",
        ],
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rust")
}

/// The program of an example, which cargo built with this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let built = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST").join("examples");
    let program = built.join(name).with_extension(std::env::consts::EXE_EXTENSION);
    let source = folder().join(name).with_extension("rs");
    let changed = |file: &Path| fs::metadata(file).and_then(|data| data.modified());
    match (changed(&program), changed(&source)) {
        (Ok(built), Ok(written)) if built >= written => program,
        _ => panic!(
            "{} is missing or older than its source: `cargo test -p rtalloc` builds it, and so does `cargo build \
             -p rtalloc --profile test --examples` (a new example needs its lines in Cargo.toml)",
            program.display()
        ),
    }
}

#[test]
fn every_example_is_run() {
    let outputs: BTreeMap<_, _> = OUTPUT.into_iter().collect();
    let files =
        fs::read_dir(folder()).expect("the folder of the examples").map(|entry| entry.expect("an entry").path());
    let names: Vec<String> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned()))
        .collect();
    for name in &names {
        assert!(outputs.contains_key(name.as_str()), "no expected output for {name}");
    }
    assert_eq!(names.len(), outputs.len(), "every example listed here is in the folder");
    for (name, expected) in outputs {
        let output = process::of(program(name)).output().unwrap_or_else(|error| panic!("{name}: {error}"));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {}\n{out}{err}", output.status);
        assert_eq!(out.lines().collect::<Vec<_>>(), expected, "output of {name}");
        assert_eq!(err, "", "errors of {name}");
    }
}
