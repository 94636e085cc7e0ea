//! `rtalloc advise`: the recommendations follow from the wishes, and the code that it prints compiles.

use assert_cmd::Command;
use rtalloc_cli::present::code::{Code, Wanted, code};
use rtalloc_lab::result::heap_size::LimitFacts;
use rtalloc_lab::rules::RULES;
use rtalloc_subjects::{one, region_allocators};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const TELEMETRY: [&str; 6] = ["--limit", "64x200", "--limit", "8x1500", "--limit", "1x4096"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The exit status, and what is written.
fn advise(arguments: &[&str]) -> (Option<i32>, Value) {
    let run = Command::cargo_bin("rtalloc")
        .expect("the command")
        .args(["--quiet", "advise", "--json", "-"])
        .args(arguments)
        .output()
        .expect("a run");
    (run.status.code(), serde_json::from_slice(&run.stdout).expect("JSON"))
}

fn taken(advice: &Value) -> Option<&Value> {
    Some(&advice["candidates"][usize::try_from(advice["taken"].as_u64()?).ok()?])
}

#[test]
fn limits_and_wishes_decide() {
    let limits = |more: &[&'static str]| advise(&[&TELEMETRY[..], more].concat());
    let (status, advice) = limits(&["--heap", "64K"]);
    let found = taken(&advice).expect("a recommendation");
    assert_eq!((status, &found["size"]["subject"]), (Some(0), &Value::from("pools")));
    assert_eq!(found["size"]["pools"], serde_json::json!([200, 1500, 4096]));
    assert!(found["size"]["guaranteed_bytes"].as_u64() <= Some(33_000) && found["region_bytes"] == 64 << 10);
    let (_, advice) = limits(&[]);
    assert_eq!(advice["wishes"]["never_refuse"], true, "there is no recording");
    let (status, advice) = limits(&["--heap", "64K", "--deadline", "46"]);
    assert_eq!((status, taken(&advice)), (Some(1), None), "a contradiction");
    let others = advice["changes"].as_array().expect("a list");
    assert_eq!(
        others.iter().filter(|change| change["taken"].is_u64()).count(),
        2,
        "without the deadline, or with the nearest: {others:?}"
    );
}

/// The bounds of another processor, or of a core, decide in place of this program's.
#[test]
fn the_target_decides() {
    let on = |more: &[&'static str]| advise(&[&TELEMETRY[..], more].concat());
    let found = |advice: &Value| taken(advice).map(|one| one["size"]["subject"].as_str().map(str::to_owned));
    let bound_of = |advice: &Value, name: &str| {
        let all = advice["candidates"].as_array().expect("a list");
        all.iter().find(|one| one["size"]["subject"] == name).and_then(|one| one["time_bound"].as_u64())
    };
    let (_, here) = on(&["--deadline", "600"]);
    let (status, there) = on(&["--target", "thumbv7em-none-eabihf", "--deadline", "600"]);
    assert_eq!((status, found(&there)), (Some(0), found(&here)));
    assert_eq!((&here["elsewhere"], &there["elsewhere"]["name"]), (&Value::Null, &Value::from("Armv7E-M")));
    assert!(bound_of(&there, "tlsf") > bound_of(&here, "tlsf"));
    assert!(bound_of(&here, "binary-buddy").is_some() && bound_of(&there, "binary-buddy").is_none(), "it has a loop");
    let (status, core) = on(&["--target", "ibex-small", "--deadline", "20"]);
    assert_eq!((status, taken(&core), &core["elsewhere"]["unit"]), (Some(1), None, &Value::from("cycle")));
    assert!(bound_of(&core, "pools") > Some(20));
    let mut threads = Command::cargo_bin("rtalloc").expect("the command");
    let refused = threads.args(["advise", "--limit", "8x100", "--target", "A64", "--threads", "2"]).assert().failure();
    assert!(String::from_utf8_lossy(&refused.get_output().stderr).contains("under a lock"));
}

/// A binary buddy needs less than pools for live bytes.
#[test]
fn live_bytes_are_limits() {
    let live = ["--live", "28K", "--smallest", "16", "--largest", "4096"];
    let (status, advice) = advise(&[&live[..], &["--heap", "400K"]].concat());
    assert_eq!(
        (status, &taken(&advice).expect("a recommendation")["size"]["subject"]),
        (Some(0), &Value::from("binary-buddy"))
    );
    let wrong =
        Command::cargo_bin("rtalloc").expect("the command").args(["advise", "--live", "28K"]).assert().failure();
    assert!(String::from_utf8_lossy(&wrong.get_output().stderr).contains("--largest"));
}

#[test]
fn a_recording_is_served() {
    let trace = root().join("traces/espeak-speech.rtrace");
    let (status, advice) = advise(&[trace.to_str().expect("UTF-8")]);
    assert_eq!(status, Some(0));
    let found = taken(&advice).expect("a recommendation");
    assert_eq!((&found["size"]["subject"], &found["refused"]), (&Value::from("tlsf"), &Value::from(0)));
    let bytes = |of: &Value| of.as_u64().expect("bytes");
    assert!(bytes(&found["region_bytes"]) >= bytes(&found["size"]["measured_bytes"]) * 6 / 5);
    assert!(bytes(&found["size"]["measured_bytes"]) >= bytes(&advice["peak_live_bytes"]));
}

/// `tlsf-small` takes at most 65,535 bytes of a region, and its blocks are aligned to 8.
#[test]
fn no_region_is_beyond_reach_and_no_alignment_is_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("by-16.rtrace");
    let trace = trace.to_str().expect("UTF-8");
    let model = ["--quiet", "generate", "steady", "--mallocs", "300", "--live", "50", "--max", "64", "-o", trace];
    Command::cargo_bin("rtalloc").expect("the command").args(model).assert().success();
    let (_, advice) = advise(&[trace, "--heap", "64K"]);
    let of = |name: &str| {
        let all = advice["candidates"].as_array().expect("a list");
        all.iter().find(|one| one["size"]["subject"] == name).expect("a candidate")
    };
    let (tlsf, small) = (of("tlsf"), of("tlsf-small"));
    assert_eq!((&small["region_bytes"], &small["broken"]), (&65_535.into(), &serde_json::json!([])));
    let bound = |one: &Value| one["time_bound"].as_u64().expect("a bound");
    assert!(2 * bound(small) > 3 * bound(tlsf), "its aligned operation: {small} {tlsf}");
    assert!(tlsf["size"]["guaranteed_bytes"].is_u64(), "{tlsf}");
    assert!(small["size"]["guaranteed_bytes"].is_null(), "guarantees are for its own alignment: {small}");
}

#[test]
fn limits_that_a_recording_exceeds_are_refused() {
    let trace = root().join("traces/lame-decode.rtrace");
    let run = Command::cargo_bin("rtalloc")
        .expect("the command")
        .args(["advise", trace.to_str().expect("UTF-8"), "--limit", "1x600000"])
        .assert()
        .code(1);
    let error = String::from_utf8(run.get_output().stderr.clone()).expect("UTF-8");
    assert!(error.contains("--limit: the recording has 2 objects of more than 0 B live at a time"), "{error}");
}

/// Four threads at once need less than four times what one needs, in a heap without shares. Its region is that of the
/// recommendation, and of its code in every language.
#[test]
fn threads_without_shares_need_what_all_of_them_need() {
    let trace = root().join("traces/espeak-speech.rtrace");
    let (status, advice) = advise(&[trace.to_str().expect("UTF-8"), "--threads", "4"]);
    let found = taken(&advice).expect("a recommendation");
    assert_eq!(
        (status, &found["size"]["subject"], &found["refused"]),
        (Some(0), &Value::from("pooled-arenas"), &Value::from(0))
    );
    let bytes = |of: &Value| of.as_u64().expect("bytes");
    let region_bytes = bytes(&found["region_bytes"]);
    assert!(region_bytes > 4 * bytes(&advice["peak_live_bytes"]), "all are at their peaks together");
    assert!(region_bytes < 5 * bytes(&found["size"]["measured_bytes"]), "{region_bytes}");
    assert!(!code(wanted("pooled-arenas", region_bytes, 4)).expect("code").c.is_empty());
}

#[test]
fn the_help_has_every_rule() {
    let run = Command::cargo_bin("rtalloc").expect("the command").args(["advise", "--help"]).output().expect("a run");
    let help = String::from_utf8(run.stdout).expect("UTF-8");
    for stated in RULES {
        let name = serde_json::to_value(stated.rule).expect("a name");
        assert!(help.contains(&format!("\n  {:<10}  ", name.as_str().expect("text"))), "{name}");
    }
}

fn wanted(subject: &str, region_bytes: u64, slots: u64) -> Wanted<'_> {
    Wanted { subject, region_bytes, pools: &[], limits: &[], is_given: false, slots }
}

/// The code of every allocator, from limits and without.
fn codes() -> Vec<Code> {
    let limits = [
        LimitFacts { objects: Some(3), live_bytes: None, smallest_bytes: 1, largest_bytes: 100 },
        LimitFacts { objects: None, live_bytes: Some(900), smallest_bytes: 16, largest_bytes: 300 },
    ];
    let mut codes = Vec::new();
    for name in region_allocators().iter().map(|subject| subject.name).chain(["pooled-arenas"]) {
        let has_sizes = one(name).expect("an allocator").about.sizes_for.is_some();
        let pools: &[u64] = if has_sizes { &[100, 300] } else { &[] };
        for limits in [&limits[..], &[]] {
            let wanted = Wanted { subject: name, region_bytes: 1 << 20, pools, limits, is_given: false, slots: 2 };
            codes.extend(code(wanted));
        }
    }
    codes
}

fn compiles(compiler: &mut std::process::Command) {
    let run = compiler.output().expect("a compiler");
    assert!(run.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_code_of_every_allocator_compiles() {
    let codes = codes();
    assert!(codes.len() > 40, "{}", codes.len());
    let folder = tempfile::tempdir().expect("a folder");
    let (mut rust, mut cpp) = (String::from("#![no_std]\n"), String::from("#include <rtalloc.hpp>\n"));
    let include = root().join("crates/rtalloc-capi/include");
    for (number, code) in codes.iter().enumerate() {
        let _ = writeln!(rust, "pub mod n{number} {{\n{}}}", code.rust);
        let file = folder.path().join(format!("{number}.c"));
        let _ = writeln!(cpp, "namespace n{number} {{\n{}}}", code.cpp.replace("#include <rtalloc.hpp>\n", ""));
        std::fs::write(&file, &code.c).expect("a file");
        compiles(std::process::Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I"]).arg(&include).arg(file));
    }
    let file = folder.path().join("all.cpp");
    std::fs::write(&file, cpp).expect("a file");
    compiles(std::process::Command::new("c++").args(["-std=c++17", "-fsyntax-only", "-I"]).arg(&include).arg(file));
    let library = root().join("crates/rtalloc").canonicalize().expect("the library");
    let manifest = format!(
        "[package]\nname = \"all\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[lib]\npath = \
         \"all.rs\"\n[dependencies]\nrtalloc = {{ \
         path = {library:?} }}\n[workspace]\n"
    );
    std::fs::write(folder.path().join("Cargo.toml"), manifest).expect("a file");
    std::fs::write(folder.path().join("all.rs"), rust).expect("a file");
    let mut check = std::process::Command::new(env!("CARGO"));
    let target = folder.path().join("target");
    compiles(check.args(["check", "--quiet", "--offline"]).current_dir(folder.path()).env("CARGO_TARGET_DIR", target));
}
