//! `rtalloc generate` and `rtalloc inspect` as a person meets them.

use super::{rtalloc_in, stderr, stdout};
use rtalloc_lab::trace::{Event, Meta, Op, Origin, Reader, Survey, TickUnit, Writer, survey};
use std::path::PathBuf;

/// A folder and the names of the files in it.
fn folder() -> (tempfile::TempDir, impl Fn() -> Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().into();
    let files = move || {
        let mut names: Vec<String> =
            path.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    (folder, files)
}

#[test]
fn a_generated_trace_regenerates_bit_for_bit_and_another_seed_does_not() {
    let (folder, files) = folder();
    let at = folder.path();
    let said = stdout(rtalloc_in(at, "generate p2 --mallocs 5000 --seed 9").success());
    assert!(said.starts_with("p2.rtrace: 5,000 allocations, "), "{said}");
    rtalloc_in(at, "generate p2 --mallocs 5000 --seed 9 -o again").success();
    rtalloc_in(at, "generate --seed 10 p2 --mallocs 5000 --output other").success();
    let bytes = |name: &str| std::fs::read(at.join(name)).unwrap();
    assert!(bytes("p2.rtrace") == bytes("again"));
    assert!(bytes("p2.rtrace") != bytes("other"));
    assert_eq!(files(), ["again", "other", "p2.rtrace"]);
}

#[test]
fn every_model_can_be_generated_and_inspected() {
    let (folder, _) = folder();
    for model in rtalloc_lab::workload::Model::NAMES {
        rtalloc_in(folder.path(), &format!("generate {model} --mallocs 3000")).success();
        let text = stdout(rtalloc_in(folder.path(), &format!("inspect {model}.rtrace")).success());
        assert!(text.contains(&format!("{model}, seed 1")), "{text}");
        assert!(text.contains("allocations                  3,000\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
    }
}

#[test]
fn the_help_names_every_model_its_source_and_every_default() {
    let (folder, _) = folder();
    let help = stdout(rtalloc_in(folder.path(), "generate --help").success());
    for model in rtalloc_lab::workload::Model::NAMES {
        assert!(help.contains(&format!("rtalloc generate {model} [OPTIONS]")), "{help}");
    }
    for word in ["Masmano", "Puaut", "Bitframe", "[default: 8192..65536]", "[default: 64..49152]", "ticks", "bytes"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}

#[test]
fn the_json_is_the_whole_survey() {
    let (folder, _) = folder();
    rtalloc_in(folder.path(), "generate p3 --mallocs 2000").success();
    let json = stdout(rtalloc_in(folder.path(), "inspect --json p3.rtrace").success());
    let printed: Survey = serde_json::from_str(&json).unwrap();
    let own = survey(Reader::open(folder.path().join("p3.rtrace")).unwrap()).unwrap();
    assert_eq!(serde_json::to_value(&printed).unwrap(), serde_json::to_value(&own).unwrap());
    assert_eq!(printed.totals.allocations, 2000);
}

#[test]
fn threads_and_reallocations_are_printed() {
    let (folder, _) = folder();
    let meta = Meta {
        name: "pair".into(),
        about: "two threads \u{1b}[31mred".into(),
        origin: Origin::Program { command: vec!["/usr/bin/pair".into(), "two words".into(), "it's".into()] },
        tick_unit: TickUnit::Nanoseconds,
        created_unix_seconds: Some(0),
        incomplete: None,
    };
    let path = folder.path().join("pair.rtrace");
    let mut writer = Writer::create(&path, &meta).unwrap();
    for (tick, thread, op) in [
        (0, 0, Op::Allocate { slot: 0, size: 600, align: 64 }),
        (1_500_000_000, 1, Op::Reallocate { slot: 0, size: 900, align: 64 }),
        (2_000_000_000, 1, Op::Free { slot: 0 }),
    ] {
        writer.push(&Event { tick, thread, op }).unwrap();
    }
    writer.finish().unwrap();
    let text = stdout(rtalloc_in(folder.path(), "inspect pair.rtrace").success());
    for line in [
        "pair: two threads \u{fffd}[31mred",
        "recorded from     /usr/bin/pair 'two words' 'it'\\''s'",
        "recorded on       1970-01-01",
        "duration          2.000 s",
        "1 grew (+300 B)",
        "Threads: 2, 1 free of another thread's blocks (100.0 %)",
        "alignment: 64 B 100.0 %",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn an_empty_trace_is_a_trace() {
    let (folder, _) = folder();
    let meta = Meta {
        name: "nothing".into(),
        about: "a program without a heap".into(),
        origin: Origin::Program { command: vec!["nothing".into()] },
        tick_unit: TickUnit::Nanoseconds,
        created_unix_seconds: None,
        incomplete: None,
    };
    Writer::create(folder.path().join("nothing.rtrace"), &meta).unwrap().finish().unwrap();
    let text = stdout(rtalloc_in(folder.path(), "inspect nothing.rtrace").success());
    assert!(text.contains("allocations                      0\n"), "{text}");
    rtalloc_in(folder.path(), "inspect nothing.rtrace --json").success();
}

#[test]
fn an_invalid_trace_is_reported_with_its_offset() {
    let (folder, _) = folder();
    let at = folder.path();
    rtalloc_in(at, "generate steady --mallocs 3000").success();
    let good = std::fs::read(at.join("steady.rtrace")).unwrap();
    let middle = good.len() / 2;
    let mut changed = good.clone();
    changed[middle] ^= 1;
    std::fs::write(at.join("changed"), changed).unwrap();
    std::fs::write(at.join("short"), &good[..middle]).unwrap();
    std::fs::write(at.join("empty"), "").unwrap();
    std::fs::write(at.join("text"), "malloc 24\n").unwrap();
    for (arguments, complaint) in [
        ("inspect changed", "damaged"),
        ("inspect short", "cut off at byte"),
        ("inspect empty", "not an rtalloc trace: the file is empty at byte 0"),
        ("inspect text", "not an rtalloc trace: the signature is another at byte 0"),
        ("inspect missing", "cannot open missing"),
        ("inspect .", "cannot open ."),
        ("inspect --json short", "cut off at byte"),
    ] {
        let assert = rtalloc_in(at, arguments).failure();
        assert_eq!(assert.get_output().stdout, b"", "{arguments}");
        let said = stderr(assert);
        assert!(said.starts_with("rtalloc: ") && said.contains(complaint), "{arguments}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn a_refused_generation_leaves_no_file() {
    let (folder, files) = folder();
    for (arguments, complaint) in [
        ("generate", "rtalloc generate p1 [OPTIONS]"),
        ("generate p9", "unrecognized subcommand 'p9'"),
        ("generate p1 --mallocs few", "invalid value 'few'"),
        ("generate p1 --mallocs 0", "--mallocs must be at least 1, not 0"),
        ("generate p1 --align 24", "--align must be a power of two, not 24"),
        ("generate p1 --holding never", "possible values: periods, fit, literal"),
        ("generate steady --min 9 --max 8", "--max must be at least 9, not 8"),
        (
            "generate p1 --mallocs 10 -o no/such/folder/p1.rtrace",
            "cannot write no/such/folder/p1.rtrace; choose another place",
        ),
    ] {
        let said = stderr(rtalloc_in(folder.path(), arguments).failure());
        assert!(said.contains(complaint), "{arguments}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    assert_eq!(files(), [""; 0]);
}

#[test]
fn an_allocator_shows_where_a_heap_depends_on_what_becomes_free() {
    let (folder, _) = folder();
    let at = folder.path();
    let mut writer = Writer::create(
        at.join("pieces.rtrace"),
        &Meta {
            name: "pieces".into(),
            about: "every second block is freed".into(),
            origin: Origin::Program { command: vec!["pieces".into()] },
            tick_unit: TickUnit::Logical,
            created_unix_seconds: None,
            incomplete: None,
        },
    )
    .unwrap();
    let allocate = |slot, size| Op::Allocate { slot, size, align: 8 };
    let ops = (0..6).map(|slot| allocate(slot, 9000)).chain([0, 2, 4].map(|slot| Op::Free { slot }));
    for op in ops.chain([allocate(4, 64), allocate(2, 18_000)]) {
        writer.push(&Event { tick: 0, thread: 0, op }).unwrap();
    }
    writer.finish().unwrap();

    let said = stdout(rtalloc_in(at, "inspect pieces.rtrace --on tlsf --heap 60K --plot it.svg").success());
    assert!(
        said.contains("\nLargest request that succeeds on tlsf, in a heap of 60.0 KiB, and largest that follows\n"),
        "{said}"
    );
    let warning = said
        .split("WARNING: ")
        .nth(1)
        .unwrap_or_else(|| panic!("{said}"))
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(warning.starts_with("after operation 4, no request above "), "{warning}");
    assert!(
        warning.contains(" bytes are free in all. Operation 10 requests 18,000 bytes: it was refused. "),
        "{warning}"
    );
    assert!(warning.contains(" What succeeds is less than what follows after 6 of 11 operations. "), "{warning}");
    assert!(warning.contains(" REFUSED: 1 request. The first is operation 10, 18,000 bytes. "), "{warning}");
    let before = "The last time that this size would have succeeded was after operation 3, 7 operations before.";
    assert!(warning.contains(before), "{warning}");
    let figure = std::fs::read_to_string(at.join("it.svg")).unwrap();
    assert!(figure.starts_with("<svg") && figure.contains("pieces: largest request on tlsf"), "{figure}");
    for expected in ["on a logarithmic scale", "falls below</text>", "refused</text>"] {
        assert!(figure.contains(expected), "{expected}: {figure}");
    }
    // Two marks, and one beside each name.
    assert_eq!(figure.matches("class=\"ink-bad-f\" fill=\"#").count(), 1 + 1 + 2, "{figure}");
    assert!(!figure.contains("var("), "viewers other than browsers know no variables: {figure}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(rtalloc_in(at, "inspect pieces.rtrace --on tlsf --heap 60K --json").success()))
            .unwrap();
    assert_eq!((&json["headroom"]["below"], &json["headroom"]["first"]["request"]), (&6.into(), &10.into()));

    // By default, there is room for everything.
    let said = stdout(rtalloc_in(at, "inspect pieces.rtrace --on tlsf").success());
    assert!(
        said.contains("After every operation, the largest request that follows would succeed at once.\n"),
        "{said}"
    );
    assert!(!said.contains("WARNING") && !said.contains('!'), "{said}");
    rtalloc_in(at, "inspect pieces.rtrace --on tlsf --plot it.svg").success();
    let figure = std::fs::read_to_string(at.join("it.svg")).unwrap();
    assert!(!figure.contains("falls below") && !figure.contains("refused"), "{figure}");

    for (arguments, expected) in [
        ("--on system", "system does not report the largest request that succeeds; every allocator of ours but "),
        (
            "--on rlsf",
            "every allocator of ours but pooled-arenas-global does, such as tlsf: `rtalloc allocators ours` lists them",
        ),
        ("--on nothing", "nothing"),
        ("--on tlsf --heap 100", "no heap of 100 bytes"),
        ("--heap 64K", "--on <ALLOCATOR>"),
    ] {
        let refused = stderr(rtalloc_in(at, &format!("inspect pieces.rtrace {arguments}")).failure());
        assert!(refused.contains(expected), "{arguments}: {refused}");
    }
}
