//! Compiles every example of examples/c and examples/cpp, and those of the README, without warnings, runs them, and
//! compares their output.

mod toolchain;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use toolchain::{compiled, cpp_compilers, krate, output_of};

const IN_C: [(&str, &[&str]); 10] = [
    (
        "flight_recorder",
        &["written down: 290, of which the last 64 are in the region", "the ring takes less than 4 KiB: yes"],
    ),
    // It has no output; the exit status is the result.
    ("freestanding", &[]),
    (
        "heap",
        &[
            "in bounded time",
            "a block of the whole memory: a request larger than the heap could ever serve",
            "1004 bytes live in 1 block, at most 1004 ever",
            "misuse seen by tlsf",
            "the heap is whole",
        ],
    ),
    ("limits", &["33 KiB are enough: yes", "refused: 0", "a limit without a number: no region"]),
    (
        "misuse_hook",
        &[
            "tlsf reports a double free",
            "tlsf reports a foreign pointer",
            "still whole: done",
            "tlsf reports tags that contradict each other",
            "a check: a broken invariant: memory of the heap was overwritten",
        ],
    ),
    (
        "objects",
        &[
            "object 42",
            "object 142",
            "object 242",
            "object 342",
            "object 442",
            "object 542",
            "object 642",
            "object 742",
            "object 842",
            "object 942",
            "handle 7: the object of this handle was freed",
        ],
    ),
    ("out_of_memory", &["requests that were refused, one in each run: 20; nothing was lost"]),
    (
        "pool_sizing",
        &[
            "refused in 256 KiB: 0",
            "needed: less than 64 KiB: yes, more than the peak: yes",
            "refused in what is needed: 0",
            "refused in three quarters of it: some",
        ],
    ),
    (
        "several_heaps",
        &[
            "the log took more than 30 lines: yes",
            "the others are unharmed: yes",
            "the packet is aligned: yes",
            "10 KiB in 4 KiB: refused",
            "with 16 KiB more, done: granted",
            "given back: done",
        ],
    ),
    ("threads", &["400000 blocks"]),
];

const IN_CPP: [(&str, &[&str]); 5] = [
    (
        "memory_resource",
        &[
            "words: 300, live blocks: more than 300: yes",
            "live blocks: 0",
            "refused: a request larger than the heap could ever serve",
        ],
    ),
    ("moving_objects", &["unharmed: 100, alive: 100", "an old handle: the object of this handle was freed"]),
    (
        "quick_start",
        &[
            "tlsf: header of 4 bytes",
            "100 numbers, the root of 4900 is 70",
            "live blocks with it: 102",
            "live blocks without: 101",
            "a request larger than the heap could ever serve; still 100 numbers",
            "free blocks: some, broken: no",
        ],
    ),
    (
        "threads_with_deadlines",
        &["a free takes at most 3 atomic changes, whatever the other thread does", "played: 199960000", "broken: no"],
    ),
    (
        "without_exceptions",
        &[
            "16 bytes: the region is too small for the control structure and one block",
            "100 bytes: granted",
            "20 KiB: a request larger than the heap could ever serve",
            "a point: made",
        ],
    ),
];

/// The examples of a language, by name.
fn examples(language: &str) -> BTreeMap<String, PathBuf> {
    let folder = krate().join("../../examples").join(language);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files = files.map(|file| file.expect("an entry").path());
    let named = |file: PathBuf| Some((file.file_stem()?.to_str()?.to_owned(), file));
    files.filter(|file| file.extension().is_some_and(|extension| extension == language)).filter_map(named).collect()
}

/// The compiler flags that an example names.
fn flags(name: &str) -> &'static [&'static str] {
    match name {
        "freestanding" => &["-ffreestanding", "-nostdlib", "-static", "-Wl,--gc-sections"],
        "without_exceptions" => &["-fno-exceptions", "-fno-rtti"],
        _ => &[],
    }
}

fn run_all(language: &str, compiler: &str, standard: &str, expected: &[(&str, &[&str])]) {
    let examples = examples(language);
    for name in examples.keys() {
        assert!(
            expected.iter().any(|(known, _)| known == name),
            "the expected output of {name}.{language} is missing here"
        );
    }
    assert_eq!(examples.len(), expected.len(), "every example listed here is in the folder");
    for &(name, lines) in expected {
        if name == "freestanding" && !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            // It calls only this system and runs only on this processor.
            continue;
        }
        let flags = [&[standard, "-O1"], flags(name)].concat();
        let program = compiled(compiler, &flags, &examples[name], &format!("example_{language}_{name}"));
        let output = output_of(&program);
        // Bounds are known only where they were proved.
        let output: Vec<_> = output.lines().filter(|line| !line.starts_with("malloc executes at most ")).collect();
        assert_eq!(output, lines, "output of {name}.{language}");
    }
}

#[test]
fn examples_in_c_print_their_expected_output() {
    run_all("c", "cc", "-std=c11", &IN_C);
}

#[test]
fn examples_in_cpp_print_their_expected_output() {
    run_all("cpp", cpp_compilers()[0], "-std=c++17", &IN_CPP);
}

#[test]
fn the_program_of_the_readme_runs() {
    let readme = fs::read_to_string(krate().join("../../README.md")).expect("the README");
    let programs: Vec<_> = readme.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(programs.len(), 1, "a program in C in the README");
    let source = toolchain::out("readme.c");
    fs::write(&source, programs[0]).expect("a file");
    output_of(&compiled("cc", &["-std=c11"], &source, "readme_c"));
}
