//! The library preloaded into C programs, each of which checks itself. The tests compile the programs, and build the
//! library as it is shipped: without `std`, in a target folder of its own.

#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

/// The folder for files of the tests.
fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The library, built once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let target = folder().join("malloc");
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--offline", "--profile", "c", "--package", "rtalloc-malloc", "--target-dir"])
            .arg(&target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("RUSTFLAGS")
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the library does not build");
        target.join("c/librtalloc_malloc.so")
    })
}

/// A program of `programs/`, compiled once.
fn program(name: &str) -> PathBuf {
    static COMPILED: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let target = folder().join(name);
    let mut compiled = COMPILED.lock().expect("no test panics in between");
    if !compiled.iter().any(|other| other == name) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name).with_extension("c");
        let mut compiler = Command::new(std::env::var_os("CC").unwrap_or("cc".into()));
        compiler.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        // The programs misuse the heap on purpose, and declare functions that older headers lack.
        compiler.args([
            "-fno-builtin",
            "-Wno-use-after-free",
            "-Wno-free-nonheap-object",
            "-Wno-unknown-warning-option",
        ]);
        let status = compiler.arg("-o").arg(&target).arg(&source).status().expect("a C compiler runs as cc");
        assert!(status.success(), "{} does not compile", source.display());
        compiled.push(name.into());
    }
    target
}

/// Runs a program on the library.
fn run(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program(name));
    command.args(arguments).env("LD_PRELOAD", library()).envs(variables.iter().copied());
    command.output().expect("the program runs")
}

/// Runs a program that must pass; returns its standard output before the final line.
#[track_caller]
fn passes(name: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = run(name, arguments, variables);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{name} {arguments:?} with {variables:?}: {}\n{error}", output.status);
    out.strip_suffix("passed\n").unwrap_or_else(|| panic!("{name}: {out}{error}")).into()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into()
}

/// Names of all allocators: the message lists them.
fn names() -> Vec<String> {
    let output = run("edges", &["nothing"], &[("RTALLOC", "none-of-them")]);
    let message = text(&output.stderr);
    let list = message.split("one of: ").nth(1).expect("the message lists the allocators").trim();
    list.split(' ').map(str::to_string).collect()
}

/// Every process maps it, and reads what it runs of it.
#[test]
fn the_library_is_small() {
    let bytes = library().metadata().expect("the library was built").len();
    assert!(bytes < 350_000, "{bytes}");
}

#[test]
fn every_function_keeps_its_rules_on_every_allocator() {
    let names = names();
    assert!(names.len() == 7 && names[0] == "arenas", "{names:?}");
    for name in &names {
        let output = run("rules", &[], &[("RTALLOC", name), ("RTALLOC_REPORT", "1")]);
        let report = text(&output.stderr);
        assert!(
            output.status.success() && report.contains("heaps         intact"),
            "{name}: {} {report}",
            output.status
        );
    }
    passes("rules", &[], &[]);
}

#[test]
fn every_function_keeps_its_rules_where_the_heap_is_small_and_grows() {
    passes("rules", &[], &[("RTALLOC_HEAP", "1M")]);
    passes("rules", &[], &[("RTALLOC_HEAP", "1M"), ("RTALLOC_SLOTS", "5"), ("RTALLOC_DIRECT", "64K")]);
}

#[test]
fn threads_come_and_go() {
    passes("threads", &[], &[]);
    passes("threads", &[], &[("RTALLOC_SLOTS", "3")]);
    passes("threads", &[], &[("RTALLOC_SLOTS", "1")]);
    passes("threads", &[], &[("RTALLOC_SLOTS", "64"), ("RTALLOC_REPORT", "/dev/null")]);
    for name in ["tree-buddy", "bitmap-buddy", "tlsf"] {
        passes("threads", &[], &[("RTALLOC", name)]);
    }
}

#[test]
fn children_of_busy_parents_allocate() {
    let intact = |variables: &[(&str, &str)]| {
        let output = run("forks", &[], variables);
        let error = text(&output.stderr);
        assert!(output.status.success(), "{variables:?}: {} {error}", output.status);
        // Each child prints the state of its heaps.
        let heaps: Vec<&str> = error.lines().filter(|line| line.starts_with("  heaps ")).collect();
        assert!(heaps.len() == 15 && heaps.iter().all(|line| line.ends_with(" intact")), "{variables:?}: {heaps:?}");
    };
    intact(&[]);
    intact(&[("RTALLOC_SLOTS", "2")]);
    intact(&[("RTALLOC", "tlsf")]);
    intact(&[("RTALLOC", "bitmap-buddy")]);
}

#[test]
fn a_fork_does_not_deadlock_with_other_locks() {
    passes("locks", &["streams"], &[]);
    // A library that is loaded before this one, whose fork handlers take a lock under which other threads allocate.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/locks.c");
    let other = folder().join("locks.so");
    let compiler = std::env::var_os("CC").unwrap_or("cc".into());
    let built = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-pthread", "-DLIBRARY", "-o"])
        .args([&other, &source])
        .status()
        .expect("a C compiler runs as cc");
    assert!(built.success(), "the library does not compile");
    let both = format!("{}:{}", library().display(), other.display());
    let output = Command::new(program("locks")).arg("library").env("LD_PRELOAD", both).output().expect("it runs");
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    assert_eq!(text(&output.stdout), "passed\n");
}

#[test]
fn nothing_is_a_cancellation_point() {
    passes("cancels", &[], &[]);
    passes("cancels", &[], &[("RTALLOC_SLOTS", "2")]);
    passes("cancels", &[], &[("RTALLOC", "tlsf")]);
}

#[test]
fn direct_blocks_that_the_system_cannot_resize_are_copied() {
    passes("edges", &["resizing"], &[]);
    passes("edges", &["resizing"], &[("RTALLOC_REPORT", "/dev/null")]);
}

#[test]
fn constructors_and_destructors_allocate() {
    passes("edges", &["nothing"], &[]);
    // With a large environment, and variables of other programs.
    let long = "x".repeat(100_000);
    passes("edges", &["nothing"], &[("RTALLOC", ""), ("RTALLOCATE", "no variable of ours"), ("LONG", &long)]);
}

#[test]
fn signal_handlers_allocate() {
    passes("edges", &["signals"], &[]);
    passes("edges", &["signals"], &[("RTALLOC_SLOTS", "2")]);
    passes("edges", &["signals in threads"], &[]);
    passes("edges", &["signals in threads"], &[("RTALLOC", "guarded")]);
}

#[test]
fn a_fixed_heap_is_exhausted_and_serves_again() {
    let served = |variables: &[(&str, &str)]| {
        let fixed = [variables, &[("RTALLOC_FIXED", "1")]].concat();
        let out = passes("edges", &["exhaustion"], &fixed);
        out.trim().parse::<usize>().expect("a number of bytes")
    };
    // One thread gets nearly all memory, whatever the number of slots: the shared slot and slots without an owner serve
    // it too.
    for slots in ["1", "2", "8"] {
        let bytes = served(&[("RTALLOC_HEAP", "16M"), ("RTALLOC_SLOTS", slots)]);
        assert!(bytes > 15 << 20 && bytes < 16 << 20, "{bytes} with {slots} slots");
    }
    let bytes = served(&[("RTALLOC_HEAP", "16M")]);
    assert!(bytes > 15 << 20 && bytes < 16 << 20, "{bytes}");
    for name in names() {
        let bytes = served(&[("RTALLOC", &name), ("RTALLOC_HEAP", "16M")]);
        assert!(bytes > 3 << 20 && bytes < 16 << 20, "{bytes} on {name}");
    }
}

#[test]
fn a_process_forks_while_its_memory_runs_out() {
    for slots in ["1", "3", "8"] {
        passes("edges", &["scarcity"], &[("RTALLOC_HEAP", "4M"), ("RTALLOC_FIXED", "1"), ("RTALLOC_SLOTS", slots)]);
    }
    passes("edges", &["scarcity"], &[("RTALLOC_HEAP", "4M"), ("RTALLOC_FIXED", "1"), ("RTALLOC", "bitmap-buddy")]);
}

#[test]
fn a_heap_grows_by_further_regions() {
    for name in names() {
        passes("edges", &["growth"], &[("RTALLOC", &name), ("RTALLOC_HEAP", "2M")]);
    }
    let output = run("edges", &["growth"], &[("RTALLOC_HEAP", "2M"), ("RTALLOC_SLOTS", "4"), ("RTALLOC_REPORT", "1")]);
    let report = text(&output.stderr);
    let regions: usize = figure(&report, "regions", 0);
    assert!((4..20).contains(&regions), "{report}");
}

#[test]
fn memory_follows_what_is_live() {
    let pairs = |case: &str, variables: &[(&str, &str)]| -> Vec<(usize, usize)> {
        let lines = passes("edges", &[case], variables);
        let pair = |line: &str| line.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        lines.lines().map(|line| pair(line).expect("two numbers")).collect()
    };
    let [peaks @ .., untouched] = &pairs("peaks", &[])[..] else { panic!("a line for untouched blocks") };
    assert!(peaks.iter().all(|(full, _)| *full > 190 << 10), "{peaks:?}");
    assert!(peaks[0].1 < 50 << 10, "{peaks:?}");
    // A process whose peaks return keeps its pages after a few.
    assert!(peaks.iter().skip(3).filter(|(_, after)| *after > 150 << 10).count() >= 2, "{peaks:?}");
    // 8 blocks of 16 MiB, and 400 of 300 KiB.
    assert!(untouched.1 < untouched.0 + (4 << 10), "{untouched:?}");
    // A heap of fixed size keeps its pages from the beginning.
    let fixed = pairs("peaks", &[("RTALLOC_HEAP", "300M"), ("RTALLOC_FIXED", "1")]);
    assert!(fixed.iter().take(8).all(|(full, after)| *after > *full - 1024), "{fixed:?}");
    // A thread that ends gives pages back, too; threads that follow each other at once keep those of one at most.
    let ends = pairs("ends", &[]);
    let [(first, one), (_, many), (_, late), (_, kept)] = ends[..] else { panic!("four lines") };
    assert!(one < first + 3000 && many < first + 9000 && late < first + 3000 && kept < first + 5000, "KiB: {ends:?}");
}

/// The number with an index after a word at the start of a line of the report.
#[track_caller]
fn figure(report: &str, word: &str, index: usize) -> usize {
    let line = report.lines().find(|line| line.trim_start().starts_with(word));
    let line = line.unwrap_or_else(|| panic!("no {word:?} in: {report}"));
    let mut numbers = line.split(|character: char| !character.is_ascii_digit()).filter(|number| !number.is_empty());
    numbers.nth(index).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no number in: {line}"))
}

#[test]
fn memory_is_locked_on_request() {
    let output = run("edges", &["locked"], &[("RTALLOC_HEAP", "8M"), ("RTALLOC_FIXED", "1"), ("RTALLOC_MLOCK", "1")]);
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() {
        let locked: usize = out.lines().next().and_then(|line| line.parse().ok()).expect("a number of KiB");
        assert!(locked >= 8 << 10, "{out}");
    } else {
        // If the limit forbids it, the program does not run, and the message says what to do.
        assert!(output.status.code() == Some(127) && error.contains("ulimit -l"), "{error}");
    }
    let without = passes("edges", &["locked"], &[("RTALLOC_HEAP", "8M"), ("RTALLOC_FIXED", "1")]);
    assert_eq!(without.trim(), "0");
}

#[test]
fn little_address_space_is_enough() {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 300000; exec \"$0\" nothing"]).arg(program("edges")).env("LD_PRELOAD", library());
    let output = command.output().expect("sh runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn limited_address_space_is_left_for_the_stacks_of_threads() {
    // Limits just above what a halved reservation leaves, and others.
    for (kib, least) in [(300_000, 15), (600_000, 40), (1_150_000, 80), (17_500_000, 100)] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" stacks")]).arg(program("edges"));
        let output = command.env("LD_PRELOAD", library()).output().expect("sh runs");
        let threads: usize = text(&output.stdout).trim().parse().expect("a number of threads");
        assert!(threads >= least, "{threads} with {kib} KiB: {}", text(&output.stderr));
    }
}

#[test]
fn the_report_is_written_though_standard_error_is_closed() {
    let report = [("RTALLOC_REPORT", "1")];
    let output = run("edges", &["closed"], &report);
    assert!(text(&output.stderr).contains("heaps         intact"), "{}", text(&output.stderr));
    // Another file with its descriptor is not written to.
    let output = run("edges", &["used"], &report);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("passed\n", ""));
    let output = run("edges", &["overrun, closed"], &[("RTALLOC", "guarded")]);
    assert!(text(&output.stderr).contains("broken invariant"), "{}", text(&output.stderr));
    // Standard error was closed from the start, and another file has its descriptor.
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" used 2>&-"]).arg(program("edges")).env("LD_PRELOAD", library()).envs(report);
    assert_eq!(text(&command.output().expect("sh runs").stdout), "passed\n");
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" nothing 2>&-"]).arg(program("edges")).env("LD_PRELOAD", library()).envs(report);
    assert_eq!(text(&command.output().expect("sh runs").stdout), "passed\n");
}

#[test]
fn the_report_counts_operations_and_memory() {
    let file = folder().join("report");
    let _ = std::fs::remove_file(&file);
    let path = file.to_str().expect("a path that is text");
    let fixed = [("RTALLOC_HEAP", "16M"), ("RTALLOC_FIXED", "1"), ("RTALLOC_REPORT", path)];
    passes("edges", &["exhaustion"], &fixed);
    let report = std::fs::read_to_string(&file).expect("the report was written");
    assert!(report.starts_with("rtalloc: arenas in process ") && report.contains("fixed"), "{report}");
    let (peak, used) = (figure(&report, "peak M", 0), figure(&report, "heap H", 0));
    assert!(peak > 15 << 20 && used > peak && used <= 16 << 20, "{report}");
    assert!(figure(&report, "operations", 0) > 3 * 15_000, "{report}");
    assert_eq!(figure(&report, "failures", 0), 4, "{report}");
    assert_eq!(figure(&report, "failures", 1), 1 << 40, "{report}");
    assert!(figure(&report, "free", 2) > 14 << 20, "{report}");
    assert_eq!(figure(&report, "misuse", 0), 0, "{report}");
    // A second process appends its report.
    passes("edges", &["nothing"], &fixed);
    let both = std::fs::read_to_string(&file).expect("the report was written");
    assert_eq!(both.matches("rtalloc: ").count(), 2, "{both}");
}

#[test]
fn misuse_is_reported_and_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    for (misuse, words) in [
        ("double free", "it is free already"),
        ("foreign", "not a block of this heap"),
        ("interior", "block 0x"),
        ("misaligned", "not a block of this heap"),
        ("direct interior", "not a block of this heap"),
        ("direct twice", "not a block of this heap"),
    ] {
        let output = run("edges", &[misuse], &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{misuse}: {}", output.status);
        assert!(error.starts_with("rtalloc: ") && error.contains(words), "{misuse}: {error}");
        let output = run("edges", &[misuse], &[("RTALLOC_MISUSE", "report")]);
        let error = text(&output.stderr);
        assert!(output.status.success() && error.contains(words), "{misuse}: {} {error}", output.status);
        let output = run("edges", &[misuse], &[("RTALLOC_MISUSE", "ignore")]);
        assert!(output.status.success() && output.stderr.is_empty(), "{misuse}: {}", text(&output.stderr));
    }
    for name in names() {
        let output = run("edges", &["double free"], &[("RTALLOC", &name)]);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{name}: {}", output.status);
    }
}

#[test]
fn a_guarded_heap_distinguishes_misuses() {
    use std::os::unix::process::ExitStatusExt;
    const SIGABRT: i32 = 6;
    let guarded = [("RTALLOC", "guarded")];
    for (misuse, words) in [
        ("overrun", "bytes after it were written"),
        ("underrun", "bytes before it were written"),
        ("use after free", "it was written after it was freed"),
        ("double free", "it is free already"),
        ("interior", "inside a block"),
        ("overrun, kept", "broken invariant"),
    ] {
        let output = run("edges", &[misuse], &guarded);
        let error = text(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{misuse}: {} {error}", output.status);
        assert!(error.starts_with("rtalloc: guarded") && error.contains(words), "{misuse}: {error}");
    }
    passes("threads", &[], &guarded);
    passes("forks", &[], &guarded);
}

#[test]
fn requests_fail_on_purpose() {
    let answers = |plan: &str| passes("edges", &["requests"], &[("RTALLOC_FAIL", plan)]);
    let refused = |plan: &str| answers(plan).matches('x').count();
    assert_eq!(refused("nth:1000000"), 0);
    // Requests before `main` count as well.
    let asked = (1..).find(|n| refused(&format!("from:{n}")) < 100).expect("the program asks a hundred times") - 2;
    let nth = answers(&format!("nth:{}", asked + 10));
    assert!(nth.matches('x').count() == 1 && nth.find('x') == Some(9), "{nth}");
    let every = answers("every:10");
    let places: Vec<usize> = every.match_indices('x').map(|(at, _)| at).collect();
    assert!(places.len() == 10 && places.windows(2).all(|pair| pair[1] - pair[0] == 10), "{every}");
    let share = answers("share:0.25,seed:3");
    assert_eq!(share, answers("share:0.25,seed:3"));
    assert!((10..45).contains(&share.matches('x').count()), "{share}");
    assert_ne!(share, answers("share:0.25,seed:4"));
    for name in names() {
        let output =
            run("edges", &["requests"], &[("RTALLOC", &name), ("RTALLOC_FAIL", "every:7"), ("RTALLOC_REPORT", "1")]);
        assert!((13..=15).contains(&text(&output.stdout).matches('x').count()), "{name}: {}", text(&output.stdout));
        assert!(figure(&text(&output.stderr), "injected", 0) >= 14, "{name}");
    }
}

#[test]
fn a_quota_limits_what_is_live() {
    let answers = passes("edges", &["requests"], &[("RTALLOC_QUOTA", "50K")]);
    assert!((45..52).contains(&answers.matches('.').count()), "{answers}");
    let output = run("edges", &["requests"], &[("RTALLOC_QUOTA", "50K"), ("RTALLOC_REPORT", "1")]);
    let report = text(&output.stderr);
    assert_eq!((figure(&report, "quota", 0), figure(&report, "failures", 1)), (50 << 10, 1000), "{report}");
    assert!(figure(&report, "peak M", 0) <= 51 << 10, "{report}");
}

#[test]
fn the_ring_survives_the_process() {
    let file = folder().join("ring");
    let path = file.to_str().expect("a path that is text");
    for allocator in ["traced", "guarded"] {
        let ring =
            [("RTALLOC", allocator), ("RTALLOC_SLOTS", "1"), ("RTALLOC_RING", path), ("RTALLOC_RECORDS", "5000")];
        // A forked child that needs another region does not replace its parent's file.
        for end in ["killed", "child grows"] {
            assert!(!run("edges", &[end], &ring).status.success());
            let bytes = std::fs::read(&file).expect("the ring is there");
            let magic = b"\x89rtalloc-ring\r\n\0";
            let at = bytes.windows(16).position(|bytes| bytes == magic).expect("a ring is in the file");
            let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
            assert_eq!(word(at + 88), 5001, "places");
            let (next, written) = (word(at + 112), word(at + 120));
            // A guarded heap keeps the last blocks in quarantine.
            assert!(next < 5001 && written > 1700, "{end}: {next} {written}");
            // The last record: an allocation of 4,321 bytes, more on a guarded heap.
            let last = at + 128 + 32 * ((next + 5000) % 5001) as usize;
            assert_eq!(word(last) & 0xff, 1, "{end}: an allocation");
            let size = word(last + 16);
            assert!((4321..4500).contains(&size), "{end}: {size}");
        }
        // Children continue with a copy, and the parent keeps the file. Without memory for a copy, there is no child.
        passes("forks", &[], &ring);
        let output = run("edges", &["forks without memory"], &ring);
        let error = text(&output.stderr);
        assert!(output.status.success() && error.contains("no memory for a copy"), "{}: {error}", output.status);
    }
    // Each process has its own file.
    passes("edges", &["nothing"], &[("RTALLOC_RING", &format!("{path}.%p"))]);
    let rings = std::fs::read_dir(folder()).expect("the folder is there").filter_map(Result::ok);
    let own: Vec<_> = rings.filter(|entry| entry.file_name().to_string_lossy().starts_with("ring.")).collect();
    assert!(!own.is_empty() && own.iter().all(|entry| !entry.file_name().to_string_lossy().contains('%')));
    for entry in own {
        std::fs::remove_file(entry.path()).expect("the file may be removed");
    }
    // An allocator without a recorder.
    let output = run("edges", &["nothing"], &[("RTALLOC", "half-fit"), ("RTALLOC_RING", path)]);
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn invalid_settings_abort_at_startup() {
    for (name, value, words) in [
        ("RTALLOC", "jemalloc", "one of: arenas "),
        ("RTALLOC_HEAP", "lots", "such as"),
        ("RTALLOC_HEAP", "12Q", "such as"),
        ("RTALLOC_HEAP", "-5", "such as"),
        ("RTALLOC_HEAP", "0", "such as"),
        ("RTALLOC_HEAP", "99999999999999999999", "such as"),
        ("RTALLOC_HEAP", "9999999T", "such as"),
        ("RTALLOC_SLOTS", "0", "1 to 1024"),
        ("RTALLOC_SLOTS", "1025", "1 to 1024"),
        ("RTALLOC_FIXED", "yes", "choose 1 for yes"),
        ("RTALLOC_MLOCK", "2", "choose 1 for yes"),
        ("RTALLOC_DIRECT", "x", "such as"),
        ("RTALLOC_FAIL", "often", "nth:5"),
        ("RTALLOC_FAIL", "nth:0", "nth:5"),
        ("RTALLOC_FAIL", "share:2", "nth:5"),
        ("RTALLOC_FAIL", "share:0.1,seed:x", "nth:5"),
        ("RTALLOC_QUOTA", "some", "such as"),
        ("RTALLOC_RECORDS", "0", "at least 1"),
        ("RTALLOC_RING", "/nowhere/at/all", "cannot be created"),
        ("RTALLOC_MISUSE", "panic", "abort, report or ignore"),
        ("RTALLOC_FIXD", "1", "unknown setting; the settings are RTALLOC and RTALLOC_ followed by HEAP, "),
    ] {
        let output = run("edges", &["nothing"], &[(name, value)]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(127), "{name}={value}: {} {error}", output.status);
        assert!(error.starts_with("rtalloc: ") && error.contains(words) && error.lines().count() == 1, "{error}");
        assert!(output.stdout.is_empty());
    }
    // Variables of other programs, and of the recorder, are ignored.
    passes("edges", &["nothing"], &[("RTALLOCATE", "x"), ("RTALLOC_RECORD_LOG", "log")]);
    // If the heap is too small, the message has a size that suffices.
    let output = run("edges", &["nothing"], &[("RTALLOC_HEAP", "100"), ("RTALLOC_SLOTS", "64")]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{error}");
    let needed = error.split("RTALLOC_HEAP=").nth(1).expect("a figure").split(' ').next().expect("a figure");
    passes("edges", &["nothing"], &[("RTALLOC_HEAP", needed), ("RTALLOC_SLOTS", "64")]);
}
