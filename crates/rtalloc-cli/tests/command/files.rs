//! What all verbs owe to files and to other programs: inputs and old outputs stay whole, JSON says what it is, notes
//! can be silenced, versions and completions are there.

use super::{RTALLOC, rtalloc_in, text};
use rtalloc::adapt::{Traced, TracedConfig};
use rtalloc::{RegionAllocator, Tlsf};
use rtalloc_cli::version;
use rtalloc_lab::campaign::store::{Origin as StoreOrigin, Store};
use rtalloc_lab::result::document::Schema;
use rtalloc_lab::trace::{Cause, Incomplete, Meta, Origin, TickUnit, Writer};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Every file of a folder with its content.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().into(), std::fs::read(path).unwrap())).collect()
}

/// A folder with an input of every kind.
fn inputs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    rtalloc_in(folder.path(), "generate p1 --mallocs 300 -o t.rtrace").success();
    std::os::unix::fs::symlink("t.rtrace", at("soft")).unwrap();
    std::fs::hard_link(at("t.rtrace"), at("hard")).unwrap();
    std::fs::copy("/bin/true", at("lib.so")).unwrap();
    let bounds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bounds/x86_64.json");
    std::fs::copy(bounds, at("bounds.json")).unwrap();
    std::fs::write(at("dump"), dump()).unwrap();
    std::fs::write(at("log"), "traceMALLOC(0x2000, 8, 0)\n").unwrap();
    let origin = StoreOrigin { binary: "sha256:b".into(), traces: "sha256:t".into() };
    drop(Store::open(&at("store.db"), origin).unwrap());
    folder
}

/// The memory of a heap with a flight recorder.
fn dump() -> Vec<u8> {
    let mut memory = vec![MaybeUninit::new(0_u8); 1 << 16];
    {
        let config = TracedConfig { records: 64, heap: Default::default() };
        let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config).expect("a heap");
        heap.allocate_bytes(100, 16).expect("room");
    }
    // SAFETY: `memory` was initialised, and heaps write initialised bytes only.
    memory.iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

#[test]
fn no_verb_overwrites_its_input_or_writes_two_outputs_to_one_file() {
    let folder = inputs();
    let before = content(folder.path());
    let overwrites = [
        "recover dump -o dump",
        "recover dump --summary dump",
        "import log -o log",
        "import log -o new --summary ./log",
        "inspect t.rtrace --on tlsf --plot soft",
        "bound --binary lib.so --symbol main --certificate lib.so",
        "bound --binary lib.so --symbol main --json ./lib.so",
        "bound tlsf --static --against bounds.json --json bounds.json",
        "run t.rtrace --json t.rtrace",
        "run t.rtrace --csv soft",
        "run soft --json hard",
        "threads t.rtrace --report t.rtrace",
        "threads t.rtrace --json hard",
        "advise t.rtrace --plot t.rtrace",
        "tune compact-fit t.rtrace --plot t.rtrace",
        "tune compact-fit t.rtrace --json soft",
        "compare tlsf half-fit t.rtrace --json t.rtrace",
        "export store.db --json store.db",
        "export store.db --csv store.db",
        "merge store.db store.db",
        "record -o lib.so -- ./lib.so",
        "record -o soft -- cat t.rtrace",
        "record -o new --summary dump -- cat dump",
    ];
    let twice = [
        "recover dump -o new --summary new",
        "import log -o new --summary new",
        "record -o new --summary ./new -- true",
        "bound tlsf --static --json new --certificate new",
        "bound tlsf --static --certificate new --save new",
        "run t.rtrace --json new --csv new",
        "threads t.rtrace --json new --report new",
        "advise t.rtrace --json new --plot new",
        "tune compact-fit t.rtrace --json new --plot new",
        "export store.db --json new --csv new",
        "costs tlsf --json new --plot new",
        "reproduce robson --store store.db --json store.db",
        "reproduce tlsf --store new --report new",
        "reproduce wait-free --json new --csv new",
        "reproduce all --report new --json new",
        "--report new --json new",
    ];
    let cases = overwrites.map(|case| (case, "would overwrite")).into_iter();
    for (arguments, complaint) in cases.chain(twice.map(|case| (case, "name the same file"))) {
        let refused = rtalloc_in(folder.path(), arguments).failure();
        let said = text(&refused.get_output().stderr);
        assert!(said.contains(complaint) && said.contains("another name"), "{arguments}: {said}");
        assert!(content(folder.path()) == before, "{arguments}: a file changed: {said}");
    }
}

#[test]
fn an_interrupted_trace_leaves_nothing_and_the_old_file_as_it_was() {
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1), ("-KILL", 9)] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.rtrace"), "yesterday's").unwrap();
        // A shell that runs these tests in the background may have them ignore interrupts.
        let mut running = std::process::Command::new("env")
            .current_dir(folder.path())
            .args(["--default-signal", RTALLOC])
            .args(["generate", "p1", "--mallocs", "1000000000", "-o", "t.rtrace"])
            .spawn()
            .unwrap();
        // It is at work when it has the folder's new file open.
        let files = format!("/proc/{}/fd", running.id());
        let is_open = || {
            let entries =
                std::fs::read_dir(&files).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
            entries.filter(|path| path.starts_with(folder.path())).count() > 0
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_open() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = std::process::Command::new("kill").args([signal, &running.id().to_string()]).status().unwrap();
        assert!(sent.success());
        assert_eq!(running.wait().unwrap().signal(), Some(number));
        let expected = BTreeMap::from([("t.rtrace".to_string(), b"yesterday's".to_vec())]);
        assert_eq!(content(folder.path()), expected, "{signal}");
    }
}

#[test]
fn every_json_says_what_it_is() {
    let folder = inputs();
    let mut seen = BTreeSet::new();
    let mut judge = |arguments: &str, json: &[u8]| {
        let document: Value = serde_json::from_slice(json).unwrap_or_else(|error| panic!("{arguments}: {error}"));
        let name = document["schema"]["name"].as_str().unwrap_or_else(|| panic!("{arguments}: no schema"));
        let schema = Schema::ALL.iter().find(|schema| schema.name == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(document["schema"]["version"], schema.version, "{arguments}");
        seen.insert(name.to_string());
    };
    for arguments in [
        "run t.rtrace --on tlsf --probe space --json -",
        "threads t.rtrace --copies 2 --on tlsf-mutex --replays 1 --json -",
        "compare tlsf half-fit t.rtrace --seconds 0 --json -",
        "bound half-fit --static --operation deallocate --json -",
        "allocators half-fit --json",
        "costs half-fit --json -",
        "advise --limit 4x100 --json -",
        "size --limit 4x100 --on binary-buddy --json -",
        "size --heap 64K --largest 100 --on binary-buddy --json -",
        "size --exact 4,2 --on half-fit --json -",
        "size --attack 16,4 --on half-fit --programs 10 --json -",
        "interleave pooled-arenas --schedules 1 --load I --json -",
        "tune compact-fit t.rtrace --json -",
        "inspect t.rtrace --json",
        "export store.db --json",
        "reproduce robson --on half-fit --m 64 --n 4 --json",
    ] {
        judge(arguments, &rtalloc_in(folder.path(), arguments).success().get_output().stdout);
    }
    for arguments in [
        "record -o new --summary summary.json -- true",
        "recover dump --summary summary.json",
        "import log -o new --summary summary.json",
        "bound half-fit --static --save summary.json",
    ] {
        rtalloc_in(folder.path(), arguments).success();
        judge(arguments, &std::fs::read(folder.path().join("summary.json")).unwrap());
    }
    // These take minutes. They write through the same function, which takes no document without a schema.
    let long = ["tlsf", "puaut", "wait-free", "thesis", "compact-fit", "all"];
    let long = long.map(|paper| format!("rtalloc-reproduce-{paper}"));
    for schema in Schema::ALL {
        assert!(
            seen.contains(schema.name) || long.iter().any(|name| name == schema.name),
            "{} is not tested",
            schema.name
        );
    }
}

#[test]
fn a_verb_with_json_has_a_schema() {
    let folder = tempfile::tempdir().unwrap();
    let help = text(&rtalloc_in(folder.path(), "--help").success().get_output().stdout);
    let verbs = help
        .split("Commands:")
        .nth(1)
        .expect("commands")
        .lines()
        .skip(1)
        .map_while(|line| line.strip_prefix("  ").filter(|line| !line.is_empty()));
    let mut with_json = 0;
    for verb in verbs.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next()) {
        // These have verbs of their own; the papers are listed above.
        let inner = match verb {
            "help" => continue,
            "reproduce" => " robson",
            "tune" => " compact-fit",
            _ => "",
        };
        let help = text(&rtalloc_in(folder.path(), &format!("{verb}{inner} --help")).success().get_output().stdout);
        if help.contains("--json") || help.contains("--summary") {
            with_json += 1;
            let found = Schema::ALL.iter().any(|schema| schema.name.starts_with(&format!("rtalloc-{verb}")));
            assert!(found, "{verb} has no schema");
        }
    }
    assert_eq!(with_json, 16, "verbs with JSON");
}

#[test]
fn notes_can_be_silenced_and_errors_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let meta = Meta {
        name: "cut".into(),
        about: "cut".into(),
        origin: Origin::Program { command: vec!["cut".into()] },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: Some(Incomplete { cause: Cause::LogLimit, missing: Some(567_261), signal: None }),
    };
    let mut writer = Writer::create(folder.path().join("cut.rtrace"), &meta).unwrap();
    let op = rtalloc_lab::trace::Op::Allocate { slot: 0, size: 64, align: 16 };
    writer.push(&rtalloc_lab::trace::Event { tick: 0, thread: 0, op }).unwrap();
    writer.finish().unwrap();
    let run = "run cut.rtrace --on half-fit --probe space";
    let note = "rtalloc: cut.rtrace is incomplete: the raw log reached its limit; 567,261 operations are missing\n";
    let loud = rtalloc_in(folder.path(), run).success();
    assert_eq!(text(&loud.get_output().stderr), note);
    let quiet = rtalloc_in(folder.path(), &format!("--quiet {run}")).success();
    assert_eq!(text(&quiet.get_output().stderr), "");
    assert!(!quiet.get_output().stdout.is_empty(), "results are no notes");
    let quiet = rtalloc_in(folder.path(), "record --quiet -o new -- true").success();
    assert_eq!(text(&quiet.get_output().stderr), "");
    let wrong = rtalloc_in(folder.path(), "run nowhere --quiet").failure();
    assert!(text(&wrong.get_output().stderr).contains("nowhere"));
}

#[test]
fn every_subcommand_records_version_and_commit() {
    let folder = tempfile::tempdir().unwrap();
    for verb in ["", "bound ", "reproduce tlsf ", "generate "] {
        let said = text(&rtalloc_in(folder.path(), &format!("{verb}--version")).success().get_output().stdout);
        assert!(said.starts_with("rtalloc") && said.trim_end().ends_with(version::TEXT), "{verb}: {said}");
        if let Some(commit) = version::commit() {
            assert!(said.contains(&commit.hash[..12]) && said.contains(commit.date), "{verb}: {said}");
        }
    }
}

#[test]
fn completions_know_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&rtalloc_in(folder.path(), &format!("completions {shell}")).success().get_output().stdout);
        for word in ["record", "inspect", "reproduce", "wait-free", "completions", "log-limit-mib", "quiet"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let script = rtalloc_in(folder.path(), "completions bash").success().get_output().stdout.clone();
    std::fs::write(folder.path().join("script"), script).unwrap();
    let parsed = std::process::Command::new("bash").arg("-n").arg(folder.path().join("script")).status().unwrap();
    assert!(parsed.success(), "bash cannot read its completions");
    rtalloc_in(folder.path(), "completions tcsh").failure();
}
