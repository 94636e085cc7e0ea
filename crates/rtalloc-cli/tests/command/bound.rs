//! `rtalloc bound` from the outside.
//!
//! The allocators here are those of a test build, with overflow checks and panics in them: how large their bounds are,
//! and which operations have none, is `ci/bounds.sh`'s business; here, allocate has one. What a bound must be is shown
//! on functions written by hand.

use super::{rtalloc, text};
use assert_cmd::Command;
use rtalloc_lab::result::bounds::{Answer, Baseline, Bounded, Study};
use rtalloc_lab::result::cycles::Cycles;
use rtalloc_lab::result::document::{self, Schema};
use rtalloc_lab::result::targets::Targets;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Functions with known counts.
const FUNCTIONS: &str = r#"
    .text
    .file 1 "weights.c"

# 3 instructions, 3 in each turn of the loop, and the return
    .globl weigh
    .type weigh, @function
weigh:
    .loc 1 3
    xor %eax, %eax
    test %edi, %edi
    jz 2f
    .loc 1 4
1:  add %edi, %eax
    .loc 1 5
    dec %edi
    jnz 1b
    .loc 1 7
2:  ret
    .size weigh, .-weigh

# 2 instructions, and two loops, one in the other, of 4 and 2 in each turn
    .globl nest
    .type nest, @function
nest:
    .loc 1 50
    mov %edi, %eax
    .loc 1 51
1:  mov %edi, %ecx
    .loc 1 52
2:  dec %ecx
    jnz 2b
    .loc 1 53
    test %esi, %esi
    .loc 1 51
    dec %eax
    jnz 1b
    .loc 1 54
    ret
    .size nest, .-nest

# A turn of the loop may pass line 62 by.
    .globl seldom
    .type seldom, @function
seldom:
    .loc 1 60
    test %edi, %edi
    .loc 1 61
1:  jz 2f
    .loc 1 62
    nop
    .loc 1 63
2:  dec %edi
    jnz 1b
    .loc 1 64
    ret
    .size seldom, .-seldom

# 2 branches, 2 instructions behind the first, 3 behind the second, and the return: 10 at most, but the second is never
# executed where the first is: 8
    .globl choose
    .type choose, @function
choose:
    .loc 1 10
    test %edi, %edi
    jz 1f
    .loc 1 11
    nop
    nop
    .loc 1 12
1:  test %edi, %edi
    jnz 2f
    .loc 1 13
    nop
    nop
    nop
    .loc 1 14
2:  ret
    .size choose, .-choose

# Ends in a jump to anywhere.
    .globl dispatch
    .type dispatch, @function
dispatch:
    .loc 1 20
    jmp *%rdi
    .size dispatch, .-dispatch

# 3 instructions, unless it calls what another file has: then 4 and those of that
    .globl guard
    .type guard, @function
guard:
    .loc 1 30
    test %edi, %edi
    jz 1f
    ret
    .loc 1 31
1:  push %rax
    call fatal@PLT
    pop %rcx
    ret
    .size guard, .-guard

# 2 instructions; only the symbol table knows of it
    .type hidden, @function
hidden:
    .loc 1 40
    nop
    ret
    .size hidden, .-hidden
    .section .note.GNU-stack,"",@progbits
"#;

/// Functions that report misuse, and a user's functions with similar names.
const MISUSE: &str = r#"
    .text
    .type _ZN7rtalloc4hook6report17h0123456789abcdefE, @function
_ZN7rtalloc4hook6report17h0123456789abcdefE:
    jmp *%rdi
    .size _ZN7rtalloc4hook6report17h0123456789abcdefE, .-_ZN7rtalloc4hook6report17h0123456789abcdefE

    .type _ZN7rtalloc4heap13report_misuse17h0123456789abcdefE, @function
_ZN7rtalloc4heap13report_misuse17h0123456789abcdefE:
    nop
    jmp _ZN7rtalloc4hook6report17h0123456789abcdefE
    .size _ZN7rtalloc4heap13report_misuse17h0123456789abcdefE, .-_ZN7rtalloc4heap13report_misuse17h0123456789abcdefE

    .type _ZN7mycrate7rtalloc4hook6report17h0123456789abcdefE, @function
_ZN7mycrate7rtalloc4hook6report17h0123456789abcdefE:
    nop
    nop
    ret
    .size _ZN7mycrate7rtalloc4hook6report17h0123456789abcdefE, .-_ZN7mycrate7rtalloc4hook6report17h0123456789abcdefE

    .type _ZN7rtalloc4heap6report17h0123456789abcdefE, @function
_ZN7rtalloc4heap6report17h0123456789abcdefE:
    jmp _ZN7rtalloc4heap6report17h0123456789abcdefE
    .size _ZN7rtalloc4heap6report17h0123456789abcdefE, .-_ZN7rtalloc4heap6report17h0123456789abcdefE

    .globl misused
    .type misused, @function
misused:
    test %edi, %edi
    jz 1f
    jmp _ZN7rtalloc4heap13report_misuse17h0123456789abcdefE
1:  ret
    .size misused, .-misused

    .globl similar
    .type similar, @function
similar:
    test %edi, %edi
    jz 1f
    jmp _ZN7mycrate7rtalloc4hook6report17h0123456789abcdefE
1:  ret
    .size similar, .-similar

    .globl aborts
    .type aborts, @function
aborts:
    test %edi, %edi
    jz 1f
    push %rax
    call _ZN7rtalloc4heap6report17h0123456789abcdefE
1:  ret
    .size aborts, .-aborts
    .section .note.GNU-stack,"",@progbits
"#;

/// The function that reports misuse in another version of the library.
const SECOND: &str = r#"
    .text
    .type _ZN7rtalloc4hook6report17hfedcba9876543210E, @function
_ZN7rtalloc4hook6report17hfedcba9876543210E:
    jmp *%rdi
    .size _ZN7rtalloc4hook6report17hfedcba9876543210E, .-_ZN7rtalloc4hook6report17hfedcba9876543210E
"#;

/// A function that no other file sees.
const TWIN: &str = r#"
    .text
    .type twin, @function
twin:
    nop
    ret
    .size twin, .-twin
    .section .note.GNU-stack,"",@progbits
"#;

fn bound() -> Command {
    let mut command = rtalloc();
    command.arg("bound");
    command
}

/// Standard output of a command that succeeds.
fn answer(command: &mut Command) -> String {
    text(&command.assert().success().get_output().stdout)
}

/// What a command that is refused says. It prints no result.
fn refusal(command: &mut Command) -> String {
    let refused = command.assert().failure();
    let output = refused.get_output();
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Text without its line breaks, which depend on the width.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_has(text: &str, parts: &[&str]) {
    let text = words(text);
    for part in parts.iter().map(|part| words(part)) {
        assert!(text.contains(&part), "no {part:?} in: {text}");
    }
}

/// A folder with the library of hand-written functions.
struct Folder {
    folder: TempDir,
    library: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("weights.so");
        let made = Self { folder, library };
        std::fs::write(made.path("weights.s"), FUNCTIONS).expect("written");
        made.compile(&["-shared", "-nostdlib", "-o", "weights.so", "weights.s"]);
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, arguments: &[&str]) {
        let status = std::process::Command::new("cc").current_dir(&self.folder).args(arguments).status();
        assert!(status.expect("a C compiler").success(), "cc {arguments:?}");
    }

    /// Asks about a function of the library.
    fn function(&self, name: &str) -> Command {
        let mut command = bound();
        command.current_dir(&self.folder).arg("--binary").arg(&self.library).args(["--symbol", name]);
        command
    }

    /// Writes certificates of the library's loop, and reads them.
    fn certified(&self) -> (PathBuf, Value) {
        let file = self.path("weigh.json");
        answer(self.function("weigh").args(["--loop", "weights.c:5=16", "--certificate"]).arg(&file));
        let certificates = read(&file);
        (file, certificates)
    }

    fn checked(&self, certificates: &Value) -> Command {
        let file = self.path("checked.json");
        std::fs::write(&file, certificates.to_string()).expect("written");
        let mut command = bound();
        command.arg("--check").arg(file).arg("--binary").arg(&self.library);
        command
    }
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).expect("a file")).expect("JSON")
}

/// The answers in a study, by subject and operation.
fn answers(json: &str) -> Vec<(String, String, Answer)> {
    let study: Study = serde_json::from_str(json).expect("nothing but a study");
    let of = |subject: rtalloc_lab::result::bounds::SubjectBounds| {
        let name = subject.subject;
        subject.operations.into_iter().map(move |operation| (name.clone(), operation.operation, operation.answer))
    };
    study.subjects.into_iter().flat_map(of).collect()
}

fn bounded(json: &str) -> Bounded {
    match answers(json).pop() {
        Some((_, _, Answer::Bounded(bounded))) => bounded,
        other => panic!("no bound: {other:?}"),
    }
}

#[test]
fn every_entry_point_has_a_bound_or_the_reason_why_not() {
    let static_of_two = ["--static", "tlsf", "half-fit"];
    let found = answers(&answer(bound().args(static_of_two).args(["--json", "-"])));
    let asked: Vec<(&str, &str)> = found.iter().map(|(subject, operation, _)| (&**subject, &**operation)).collect();
    let operations = ["allocate", "allocate aligned", "deallocate", "reallocate"];
    let expected: Vec<(&str, &str)> =
        ["tlsf", "half-fit"].into_iter().flat_map(|subject| operations.map(|operation| (subject, operation))).collect();
    assert_eq!(asked, expected);
    let table = answer(bound().args(static_of_two));
    assert_has(&table, &["shortest path", "static bound", "proved from the machine code", "tlsf", "half-fit"]);
    let mut bounds = 0;
    for (subject, operation, found) in found {
        match found {
            Answer::Bounded(bounded) => {
                bounds += 1;
                assert!(0 < bounded.fewest && bounded.fewest <= bounded.most, "{subject} {operation}");
                let on_the_path: u64 = bounded.path.iter().map(|step| step.executions).sum();
                assert_eq!(on_the_path, bounded.most, "{subject} {operation}");
                assert!(bounded.path.iter().all(|step| step.reached.is_none()), "nothing was performed");
                assert_has(&table, &[&format!("{operation} {} {}", bounded.fewest, bounded.most)]);
            }
            Answer::Declined { brief, why } => {
                assert!(why.contains(" at 0x") && why.contains(" in ") && why.contains(".rs:"), "{why}");
                assert_has(&table, &[&format!("{operation} - - {brief}"), "--explain"]);
                let explained = answer(bound().args(["--static", "--explain", &subject]));
                assert_has(&explained, &[&why]);
            }
        }
    }
    assert!(bounds >= 2, "{bounds} bounds");
}

/// Of the global allocator, a bound is that of 17 attempts, with that of one beside it, and does not cover the making of
/// the heap, as the output says.
#[test]
fn a_bound_of_the_global_allocator_covers_every_attempt() {
    let command = || {
        let mut command = bound();
        command.args(["--static", "pooled-arenas-global", "--operation", "allocate,allocate-aligned,deallocate"]);
        command
    };
    let study: Study = serde_json::from_str(&answer(command().args(["--json", "-"]))).expect("a study");
    let table = answer(&mut command());
    let [allocate, aligned, deallocate] = &study.subjects[0].operations[..] else { panic!("three operations") };
    for operation in [allocate, aligned, deallocate] {
        let Answer::Bounded(bounded) = &operation.answer else { panic!("{operation:?}") };
        let begin = "rtalloc::adapt::global::Global<H,C,A>::begin";
        let makes_heap = bounded.not_called.iter().any(|function| function == begin);
        if operation.operation == "deallocate" {
            assert_eq!((makes_heap, operation.one_attempt), (false, None));
            continue;
        }
        assert!(makes_heap, "{:?}", bounded.not_called);
        assert_has(&table, &[begin]);
        let once = operation.one_attempt.expect("some calls are repeated");
        assert!(16 * once < bounded.most && bounded.most < 18 * once, "{once}, {}", bounded.most);
        assert_has(&table, &[&format!("{} without contention, in one attempt: {once}.", operation.operation)]);
    }
}

#[test]
fn only_the_operations_asked_for_are_bounded() {
    let found = answers(&answer(
        bound().args(["--static", "tlsf", "--operation", "deallocate,allocate-aligned"]).args(["--json", "-"]),
    ));
    let operations: Vec<&str> = found.iter().map(|(_, operation, _)| &**operation).collect();
    assert_eq!(operations, ["deallocate", "allocate aligned"]);
}

#[test]
fn an_explanation_has_addresses_and_source_lines() {
    let text = answer(bound().args(["--static", "half-fit", "--operation", "allocate", "--explain"]));
    let steps = text.lines().filter(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().is_some_and(|word| u64::from_str_radix(word, 16).is_ok());
        address && words.next().is_some_and(|word| word.contains(".rs:"))
    });
    assert!(text.starts_with("half-fit allocate: at most ") && steps.count() >= 10, "{text}");
}

#[test]
fn certificates_of_this_program_are_verified() {
    let folder = Folder::new();
    let (file, study) = (folder.path("certificates.json"), folder.path("study.json"));
    answer(bound().args(["--static", "half-fit", "--certificate"]).arg(&file).arg("--json").arg(&study));
    let verdict = answer(bound().arg("--check").arg(&file));
    let mut number = 0;
    for (_, operation, answer) in answers(&std::fs::read_to_string(study).expect("the study")) {
        let Answer::Bounded(bounded) = answer else { continue };
        // The operation is that of the entry's address, not one that the certificate claims to be of.
        let line = verdict.lines().find(|line| {
            line.contains(&format!("half-fit {operation}:")) || line.contains(&format!("half-fit {operation} and"))
        });
        let line = line.unwrap_or_else(|| panic!("no {operation}: {verdict}"));
        assert_has(line, &[", entry 0x", &format!("at most {} instructions", bounded.most)]);
        number += 1;
    }
    assert_eq!(verdict.matches("at most").count(), number, "{verdict}");
    assert_has(&verdict, &["Assumed (METHODOLOGY.md): the file is loaded", "Verified against rtalloc, SHA-256"]);
    let elsewhere = refusal(bound().arg("--check").arg(&file).arg("--binary").arg(&folder.library));
    assert_has(&elsewhere, &["rejected: it is about", "rtalloc", "SHA-256"]);
}

#[test]
fn a_function_of_a_file_has_the_bound_that_its_code_has() {
    let folder = Folder::new();
    let declined = text(&folder.function("weigh").assert().code(1).get_output().stdout);
    let (_, place) = declined.split_once("--loop=").expect("a fact to fill in");
    let (place, _) = place.split_once("=N").expect("a fact to fill in");
    for (at_most, most) in [(1, 7), (16, 52), (1_000_000, 3_000_004)] {
        let fact = format!("{place}={at_most}");
        let weigh = bounded(&answer(folder.function("weigh").args(["--loop", &fact, "--json", "-"])));
        assert_eq!((weigh.fewest, weigh.most), (4, most));
        assert_eq!(weigh.facts.len(), 1);
    }
    // Going around 16 times begins 17 iterations.
    let table = answer(folder.function("weigh").args(["--loop", "weights.c:5=16"]));
    assert_has(&table, &["weights.so weigh 4 55", ") is executed at most 17 times each time its loop is entered"]);
    assert_has(&table, &["Assumed (METHODOLOGY.md): the file is loaded unchanged"]);
    let path = answer(folder.function("weigh").args(["--loop", "weights.c:5=16", "--explain"]));
    assert_has(&path, &["weigh: at most 55 instructions, at least 4", "17 x", "weights.c:5 dec edi"]);
    let assumed =
        bounded(&answer(folder.function("weigh").args(["--loop", "weights.c:5=16", "--json", "-"]))).assumptions;
    assert!(assumed.contains(&pathbound::Assumption::ReturnAddresses), "{assumed:?}");

    let choose = bounded(&answer(folder.function("choose").args(["--json", "-"])));
    assert_eq!((choose.fewest, choose.most), (5, 10));
    let conflict = ["--conflict", "weights.c:11,weights.c:13", "--json", "-"];
    assert_eq!(bounded(&answer(folder.function("choose").args(conflict))).most, 8);

    let guard = bounded(&answer(folder.function("guard").args(["--never-returns", "fatal", "--json", "-"])));
    assert_eq!((guard.fewest, guard.most), (3, 3));
    assert_eq!((guard.not_called, guard.never_returning), (vec!["fatal".to_string()], vec![]));
    assert!(!guard.assumptions.contains(&pathbound::Assumption::NeverReturns), "{:?}", guard.assumptions);
    let table = answer(folder.function("guard").args(["--never-returns", "fatal"]));
    assert_eq!(table.matches("fatal").count(), 1, "{table}");
    assert_has(&table, &["functions that are stated not to be called are not called, or do not return (fatal)"]);
    assert_eq!(bounded(&answer(folder.function("hidden").args(["--json", "-"]))).most, 2);
}

#[test]
fn a_function_without_a_bound_is_a_failure_that_says_where() {
    let folder = Folder::new();
    let declined = |name: &str| {
        let refused = folder.function(name).assert().code(1);
        text(&refused.get_output().stdout)
    };
    assert_has(&declined("weigh"), &["unbounded loop at 0x", "in weigh", "weights.c:4", "--loop"]);
    assert_has(&declined("dispatch"), &["indirect jump at 0x", "in dispatch", "weights.c:20"]);
    assert_has(&declined("guard"), &["calls fatal", "call of fatal", "another file", "at 0x"]);
    // One without a bound beside one with.
    let both = folder.function("choose").args(["--symbol", "dispatch"]).assert().code(1);
    assert_has(&text(&both.get_output().stdout), &["choose 5 10", "dispatch - -"]);
}

#[test]
fn a_certificate_of_a_file_is_verified_against_that_file_only() {
    let folder = Folder::new();
    let (file, certificates) = folder.certified();
    let verdict = answer(&mut folder.checked(&certificates));
    let sha256 = certificates[0]["binary"]["sha256"].as_str().expect("a hash");
    let entry = certificates[0]["proof"]["entry"].as_str().expect("an address");
    let named = format!("weights.so: weigh, entry {entry}: at most 55 instructions");
    assert_has(&verdict, &[&named, "is executed at most 17 times", "Assumed", "weights.so", sha256]);
    let rejected = bound().arg("--check").arg(&file).assert().code(1);
    assert_has(
        &text(&rejected.get_output().stderr),
        &["weigh (name its file with --binary): rejected: it is about", "weights.so", sha256],
    );
    // The same functions, one byte longer.
    let mut longer = std::fs::read(&folder.library).expect("the library");
    longer.push(0);
    std::fs::write(&folder.library, longer).expect("written");
    assert_has(&refusal(&mut folder.checked(&certificates)), &["rejected: it is about", "weights.so"]);
}

#[test]
fn all_loops_are_listed_at_once_with_facts_to_fill_in() {
    let folder = Folder::new();
    let declined = text(&folder.function("nest").assert().code(1).get_output().stdout);
    assert_has(&declined, &["2 unbounded loops", "in nest (", "/weights.c:51)", "/weights.c:52)"]);
    let facts: Vec<&str> =
        declined.split("--loop=").skip(1).filter_map(|fact| fact.split_once("=N")).map(|(place, _)| place).collect();
    assert_eq!(facts.len(), 2, "{declined}");
    let mut filled = folder.function("nest");
    for (place, at_most) in facts.iter().zip([5, 3]) {
        filled.args(["--loop", &format!("{place}={at_most}")]);
    }
    assert_eq!(bounded(&answer(filled.args(["--json", "-"]))).most, 2 + 5 * (4 + 3 * 2));
    let lines = ["--loop", "weights.c:51=5", "--loop", "weights.c:52=3", "--json", "-"];
    assert_eq!(bounded(&answer(folder.function("nest").args(lines))).most, 2 + 6 * (4 + 4 * 2));
}

#[test]
fn a_place_that_is_not_on_every_way_around_its_loop_is_refused() {
    let folder = Folder::new();
    for line in ["weights.c:61=2", "weights.c:62=2"] {
        let refused = text(&folder.function("seldom").args(["--loop", line]).assert().code(1).get_output().stdout);
        assert_has(&refused, &["is not the line of its loop's condition", "--loop=0x", "/weights.c:63)"]);
    }
    let placed = bounded(&answer(folder.function("seldom").args(["--loop", "weights.c:63=2", "--json", "-"])));
    assert_eq!(placed.most, 1 + 3 * 4 + 1);
    let header = placed.path.iter().find(|step| step.text == "nop").expect("line 62").address;
    let fact = format!("{header:#x}=2");
    let refused = text(&folder.function("seldom").args(["--loop", &fact]).assert().code(1).get_output().stdout);
    assert_has(&refused, &["which an iteration of its loop can skip", "--loop=0x"]);
}

#[test]
fn a_strict_check_accepts_no_fact_beyond_the_published_assumptions() {
    let folder = Folder::new();
    let status = |arguments: &[&str]| {
        let file = folder.path("strict.json");
        answer(folder.function(arguments[0]).args(&arguments[1..]).arg("--certificate").arg(&file));
        let check = |strict: &[&str]| {
            let mut command = bound();
            command.arg("--check").arg(&file).args(strict).arg("--binary").arg(&folder.library);
            let checked = command.assert();
            let output = checked.get_output();
            (output.status.code(), text(&output.stdout))
        };
        let (plain, verdict) = check(&[]);
        assert_eq!(plain, Some(0), "{verdict}");
        let (strict, output) = check(&["--strict"]);
        assert_eq!(output, verdict);
        (strict, verdict)
    };
    let (strict, verdict) = status(&["choose"]);
    assert_eq!(strict, Some(0), "{verdict}");
    assert_has(&verdict, &["Nothing beyond the published list is assumed"]);
    let stated: [&[&str]; 3] = [
        &["weigh", "--loop", "weights.c:5=16"],
        &["choose", "--conflict", "weights.c:11,weights.c:13"],
        &["guard", "--never-returns", "fatal"],
    ];
    for arguments in stated {
        let (strict, verdict) = status(arguments);
        assert_eq!(strict, Some(3), "{verdict}");
        assert_has(&verdict, &["Stated by a user or by the library's source, and not verified: 1 fact.", "  if "]);
    }
    // Rejected is rejected.
    let (_, mut certificates) = folder.certified();
    certificates[0]["proof"]["most"] = json!(1);
    folder.checked(&certificates).arg("--strict").assert().code(1);
    assert_has(&refusal(bound().args(["--strict", "--static", "tlsf"])), &["--strict requires --check"]);
}

/// A function is excluded by its address: another one whose name resembles it is counted.
#[test]
fn only_the_function_that_is_named_is_excluded() {
    let folder = Folder::new();
    std::fs::write(folder.path("misuse.s"), MISUSE).expect("written");
    folder.compile(&["-shared", "-nostdlib", "-o", "misuse.so", "misuse.s"]);
    let ask = |names: &[&str], symbol: &str| {
        let mut command = bound();
        command.current_dir(&folder.folder).args(["--binary", "misuse.so", "--symbol", symbol]);
        for name in names {
            command.args(["--never-returns", name]);
        }
        command
    };
    let of = |names: &[&str], symbol: &str| bounded(&answer(ask(names, symbol).args(["--json", "-"])));
    let report = ["rtalloc::hook::report"];
    let misused = of(&report, "misused");
    assert_eq!((misused.most, misused.never_returning, misused.not_called), (3, vec![], vec![report[0].into()]));
    let similar = of(&report, "similar");
    assert_eq!((similar.most, similar.not_called), (2 + 1 + 3, vec![]), "the user's function returns");
    let aborts = of(&report, "aborts");
    assert_eq!((aborts.never_returning, aborts.not_called), (vec!["rtalloc::heap::report".into()], vec![]));

    // Two versions of the library in one file.
    let both = format!("{MISUSE}\n{SECOND}");
    std::fs::write(folder.path("misuse.s"), both).expect("written");
    folder.compile(&["-shared", "-nostdlib", "-o", "misuse.so", "misuse.s"]);
    let refused = refusal(&mut ask(&report, "misused"));
    assert_has(&refused, &["--never-returns", "is the name of several functions; give one's address: 0x"]);
    let line = refused.lines().find(|line| line.contains("17h0123456789abcdefE")).expect("the first version");
    let first = of(&[line.split_whitespace().next().expect("an address")], "misused");
    assert_eq!((first.most, first.not_called), (3, vec![report[0].into()]));
}

/// What a fact about a loop means is said in the same words wherever it is said.
#[test]
fn a_fact_about_a_loop_means_the_same_everywhere() {
    let help = answer(bound().arg("--help"));
    assert_has(&help, &[MEANING, "3 when certificates were verified"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "METHODOLOGY.md",
        "docs/book/src/measuring.md",
        "crates/pathbound/src/facts.rs",
        "crates/rtalloc-lab/src/analysis/loop_bounds.rs",
    ] {
        let text = std::fs::read_to_string(root.join(file)).expect("a file of the project");
        let text: Vec<&str> =
            text.lines().map(|line| line.trim_start_matches("//!").trim_start_matches("///")).collect();
        assert_has(&text.join("\n").replace('`', ""), &[MEANING]);
    }
}

const MEANING: &str = "Each time the loop around PLACE is entered, the instruction at the address PLACE is executed at most N times; \
    or, where PLACE is a source line, each loop with its condition on that line goes around at most N times, and tests its condition \
    at most N + 1 times.";

/// The published assumptions are those that bounds name.
#[test]
fn the_methodology_lists_every_assumption() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../METHODOLOGY.md"))
        .expect("a file of the project");
    for assumption in pathbound::Assumption::ALL {
        assert_has(&text, &[assumption.text()]);
    }
}

#[test]
fn a_certificate_that_claims_less_is_rejected() {
    let folder = Folder::new();
    let (_, sound) = folder.certified();
    let rejected = |change: &dyn Fn(&mut Value)| {
        let mut changed = sound.clone();
        change(&mut changed[0]["proof"]);
        assert_ne!(changed, sound);
        let refused = folder.checked(&changed).assert().code(1);
        assert!(refused.get_output().stdout.is_empty());
        text(&refused.get_output().stderr)
    };
    assert_has(&rejected(&|proof| proof["most"] = json!(54)), &["weigh: rejected"]);
    let potentials = sound[0]["proof"]["cases"][0]["potentials"].as_object().expect("potentials").clone();
    assert_eq!(potentials.len(), 7);
    for (address, potential) in &potentials {
        // Each is exactly what the instruction and those behind it come to, so none can be less.
        let less = json!(potential.as_i64().expect("a number") - 1);
        let message = rejected(&|proof| proof["cases"][0]["potentials"][address] = less.clone());
        assert_has(&message, &["weigh: rejected", "0x"]);
        assert_has(&rejected(&|proof| drop(potentials_of(proof).remove(address))), &["weigh: rejected"]);
    }
    rejected(&|proof| proof["cases"][0]["multipliers"][0] = json!(2));
    rejected(&|proof| proof["cases"] = json!([]));
    rejected(&|proof| proof["loops"][0]["members"] = json!([]));
    rejected(&|proof| proof["assumptions"] = json!([]));
    rejected(&|proof| proof["entry"] = json!("0x1"));
}

fn potentials_of(proof: &mut Value) -> &mut serde_json::Map<String, Value> {
    proof["cases"][0]["potentials"].as_object_mut().expect("potentials")
}

#[test]
fn what_is_no_list_of_certificates_is_refused() {
    let folder = Folder::new();
    let (_, sound) = folder.certified();
    assert_has(&refusal(bound().args(["--check", "nowhere.json"])), &["cannot read nowhere.json"]);
    for (content, complaint) in
        [("", "not a list of certificates"), ("{}", "not a list of certificates"), ("[]", "holds no")]
    {
        let file = folder.path("wrong.json");
        std::fs::write(&file, content).expect("written");
        assert_has(&refusal(bound().arg("--check").arg(&file)), &["wrong.json", complaint]);
    }
    let mut newer = sound.clone();
    newer[0]["format"] = json!(99);
    assert_has(&refusal(&mut folder.checked(&newer)), &["format 99"]);
    let mut unknown = sound;
    unknown[0]["proof"]["comment"] = json!("trust me");
    assert_has(&refusal(&mut folder.checked(&unknown)), &["comment"]);
}

#[test]
fn a_function_that_is_not_there_or_not_alone_is_refused() {
    let folder = Folder::new();
    assert_has(&refusal(&mut folder.function("weight")), &["--symbol", "no function \"weight\"", "nm -C"]);
    assert_has(&refusal(&mut folder.function("0xg")), &["0xg is not an address"]);
    std::fs::write(folder.path("twin.s"), TWIN).expect("written");
    folder.compile(&["-shared", "-nostdlib", "-o", "weights.so", "twin.s", "twin.s"]);
    let message = refusal(&mut folder.function("twin"));
    assert_has(&message, &["\"twin\" is the name of several functions; give one's address"]);
    let addresses: Vec<&str> = message.split_whitespace().filter(|word| word.starts_with("0x")).collect();
    assert_eq!(addresses.len(), 2, "{message}");
    for address in addresses {
        assert_eq!(bounded(&answer(folder.function(address).args(["--json", "-"]))).most, 2);
    }
}

#[test]
fn what_is_no_linked_program_is_refused() {
    let folder = Folder::new();
    let refused =
        |binary: &str| refusal(bound().args(["--binary", binary, "--symbol", "weigh"]).current_dir(&folder.folder));
    assert_has(&refused("nowhere"), &["cannot read nowhere"]);
    assert_has(&refused("."), &["is a directory"]);
    assert_has(&refused("/dev/null"), &["is not a regular file"]);
    assert_has(&refused("weights.s"), &["weights.s is not an ELF file"]);
    folder.compile(&["-c", "-o", "weights.o", "weights.s"]);
    assert_has(&refused("weights.o"), &["weights.o cannot be linked alone", "undefined symbol: fatal"]);
    let whole = std::fs::read(&folder.library).expect("the library");
    std::fs::write(folder.path("half.so"), &whole[..whole.len() / 8]).expect("written");
    assert_has(&refused("half.so"), &["half.so"]);
    assert_has(&refusal(bound().arg("--binary").arg(&folder.library)), &["--binary needs a function"]);

    // What a stripped library offers to others is still found by name; the rest of it only by address.
    folder.compile(&["-s", "-shared", "-nostdlib", "-o", "weights.so", "weights.s"]);
    assert_eq!(bounded(&answer(folder.function("choose").args(["--json", "-"]))).most, 10);
    assert_has(&refusal(&mut folder.function("hidden")), &["no function \"hidden\"", "stripped"]);
    assert_has(&refusal(folder.function("weigh").args(["--loop", "weights.c:5=16"])), &["weights.c:5"]);
}

#[test]
fn facts_that_cannot_be_read_or_used_are_refused() {
    let folder = Folder::new();
    for fact in ["weights.c:4", "weights.c=4", "weights.c:4=many", "=4", "0xg=4"] {
        assert_has(&refusal(folder.function("weigh").args(["--loop", fact])), &["--loop", fact]);
    }
    for fact in ["weights.c:4", "weights.c:4,", "weights.c:4,weights.c"] {
        assert_has(&refusal(folder.function("weigh").args(["--conflict", fact])), &["--conflict", fact]);
    }
    assert_has(&refusal(folder.function("weigh").args(["--loop", "weights.c:99=16"])), &["weights.c:99"]);
    assert_has(&refusal(folder.function("choose").args(["--loop", "weights.c:11=16"])), &["weights.c:11"]);
    let useless = refusal(bound().args(["--static", "tlsf", "--operation", "allocate", "--loop", "nowhere.rs:1=16"]));
    assert_has(&useless, &["nowhere.rs:1", "fits no requested entry point"]);
}

#[test]
fn bounds_that_grew_or_are_gone_are_named() {
    let folder = Folder::new();
    let file = folder.path("bounds.json");
    let asked = ["--static", "half-fit"];
    answer(bound().args(asked).arg("--save").arg(&file));
    let saved: Baseline = serde_json::from_value(read(&file)).expect("bounds");
    assert!(saved.measured.contains(" UTC with rtalloc 0."), "{}", saved.measured);
    let most = saved.bounds["half-fit"]["allocate"];
    let against = |change: &dyn Fn(&mut Baseline)| {
        let mut changed = saved.clone();
        change(&mut changed);
        std::fs::write(&file, document::pretty(Schema::BASELINE, &changed).expect("JSON")).expect("written");
        let mut command = bound();
        command.args(asked).arg("--against").arg(&file);
        command
    };
    let equal = answer(&mut against(&|_| {}));
    assert_has(&equal, &[&format!("None of the {} committed bounds grew", saved.bounds["half-fit"].len())]);

    let set = |baseline: &mut Baseline, operation: &str, most: u64| {
        baseline.bounds.get_mut("half-fit").expect("there").insert(operation.into(), most);
    };
    let grown = against(&|baseline| set(baseline, "allocate", most - 1)).assert().code(1);
    let named = format!("grew or were lost: half-fit allocate: {most} instructions, {} committed", most - 1);
    assert_has(&text(&grown.get_output().stdout), &[&named]);
    let gone = against(&|baseline| set(baseline, "calloc", 7)).assert().code(1);
    assert_has(&text(&gone.get_output().stdout), &["half-fit calloc: no bound any more, 7 committed"]);
    let better = answer(&mut against(&|baseline| set(baseline, "allocate", most + 1)));
    assert_has(&better, &["commit them with --save", &format!("{most} instructions, {} committed", most + 1)]);

    assert_has(&refusal(bound().args(asked).args(["--against", "nowhere.json"])), &["--against", "nowhere.json"]);
    std::fs::write(&file, "{\"bounds\": {").expect("written");
    let cut = refusal(bound().args(asked).arg("--against").arg(&file));
    assert_has(&cut, &["bounds.json is not a file of bounds that can be read; write one with --save"]);
    let old = Schema { version: 1, ..Schema::BASELINE };
    std::fs::write(&file, document::pretty(old, &saved).expect("JSON")).expect("written");
    let old = refusal(bound().args(asked).arg("--against").arg(&file));
    assert_has(&old, &["write one with --save: it is rtalloc-bound-save version 1; this rtalloc reads"]);
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let folder = Folder::new();
    let unknown = refusal(bound().args(["--static", "tlfs"]));
    assert_has(&unknown, &["tlfs", "did you mean tlsf"]);
    assert_has(
        &refusal(bound().args(["tlsf", "--operation", "calloc"])),
        &["calloc", "deallocate", "allocate-aligned"],
    );
    assert_has(&refusal(bound().args(["--symbol", "weigh"])), &["--binary"]);
    assert_has(&refusal(folder.function("weigh").arg("tlsf")), &["--binary", "ALLOCATOR"]);
    assert_has(&refusal(folder.function("weigh").args(["--operation", "allocate"])), &["--operation"]);
    assert_has(&refusal(folder.function("weigh").args(["--save", "bounds.json"])), &["--save"]);
    let (file, _) = folder.certified();
    for beside in ["--explain", "--loop=a.c:1=1", "--certificate=new.json", "--save=new.json", "tlsf"] {
        let message = refusal(bound().current_dir(&folder.folder).arg("--check").arg(&file).arg(beside));
        assert_has(&message, &["--check", "cannot be used with"]);
    }
    assert!(!folder.path("new.json").exists());
}

#[test]
fn a_wrong_argument_spoils_no_file() {
    let folder = Folder::new();
    let outputs = ["--json", "--certificate", "--save"];
    let old = |option: &str| folder.path(&format!("old{option}.json"));
    for option in outputs {
        std::fs::write(old(option), "yesterday's").expect("written");
    }
    let untouched = |mut command: Command, options: &[&str]| {
        for option in options {
            command.arg(option).arg(old(option));
        }
        command.current_dir(&folder.folder).assert().failure();
        for option in outputs {
            assert_eq!(std::fs::read_to_string(old(option)).expect("still there"), "yesterday's", "{option}");
        }
    };
    let with = |arguments: &[&str]| {
        let mut command = bound();
        command.args(arguments);
        command
    };
    untouched(with(&["--static", "tlfs"]), &outputs);
    untouched(with(&["--static", "tlsf", "--operation", "allocate", "--loop", "nowhere.rs:1=16"]), &outputs);
    untouched(with(&["--static", "tlsf", "--loop", "nowhere.rs"]), &outputs);
    untouched(with(&["--static", "tlsf", "--against", "nowhere.json"]), &outputs);
    untouched(with(&["--static", "tlsf", "--json", "missing/study.json"]), &["--certificate", "--save"]);
    untouched(with(&["--static", "tlsf", "--save", "missing/bounds.json"]), &["--json", "--certificate"]);
    untouched(folder.function("weight"), &["--json", "--certificate"]);
    untouched(folder.function("weigh"), &["--certificate"]);
    let mut second_wrong = folder.function("choose");
    second_wrong.args(["--symbol", "weight"]);
    untouched(second_wrong, &["--json", "--certificate"]);
    let mut useless = folder.function("weigh");
    useless.args(["--loop", "weights.c:99=16"]);
    untouched(useless, &["--json", "--certificate"]);
    // Nothing is left behind either.
    let names =
        std::fs::read_dir(&folder.folder).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(names.count(), 2 + outputs.len());
}

#[test]
fn cycles_of_a_core_are_printed_or_refused_with_the_reason() {
    let committed = &Cycles::committed().cores["ibex-small"].bounds["tlsf"]["allocate"];
    let printed = answer(bound().args(["tlsf", "--core", "ibex-small", "--mhz", "100"]));
    let microseconds = format!("{:.3}", committed.bound as f64 / 100.0);
    assert_has(&printed, &["tlsf", &committed.bound.to_string(), &microseconds, "without wait states"]);
    assert_has(&refusal(bound().args(["tlsf", "--core", "ibex"])), &["ibex-small"]);
    assert_has(&refusal(bound().args(["tlsf", "--mhz", "100"])), &["--core"]);
    assert_has(&refusal(bound().args(["tlsf", "--core", "serv", "--mhz", "0"])), &["from 0.001"]);
    assert_has(&refusal(bound().args(["first-fit", "--core", "serv"])), &["loops"]);
    assert_has(&refusal(bound().args(["tlsf", "--core", "serv", "--explain"])), &["only allocators and --mhz"]);
    for of_file in [["--symbol", "weigh"], ["--never-returns", "weigh"]] {
        for of_subjects in [&["--core", "serv"][..], &["--target", "A64"], &["--static"]] {
            let refused = refusal(bound().arg("tlsf").args(of_subjects).args(of_file));
            assert_has(&refused, &["require", "--binary"]);
        }
    }
    let manual = Targets::committed().targets["cortex-m0+"].bounds["tlsf"]["allocate"];
    let printed = answer(bound().args(["tlsf", "--target", "Cortex-M0+", "--mhz", "1"]));
    let microseconds = format!("{manual}.000");
    assert_has(&printed, &[&microseconds, "Cycles of cortex-m0+", "from the manual, not validated here"]);
    assert_has(&refusal(bound().args(["tlsf", "--target", "A64", "--mhz", "1"])), &["in instructions"]);
    // Rounded up: a time below the bound would be none.
    let third = answer(bound().args(["tlsf", "--core", "ibex-small", "--mhz", "300"]));
    assert_has(&third, &[&format!("{:.3}", (committed.bound as f64 / 300.0 * 1000.0).ceil() / 1000.0)]);
    assert_has(
        &refusal(bound().args(["tlsf", "--core", "cortex-m4", "--wait-states", "2"])),
        &["--wait-states", "--binary"],
    );
    assert_has(&refusal(bound().args(["tlsf", "--core", "cortex-m4, 2 wait states"])), &["the cores are"]);
    let folder = Folder::new();
    let mut none = folder.function("choose");
    assert_has(
        &refusal(none.args(["--core", "ibex-small", "--wait-states", "2"])),
        &["ibex-small is for memory without"],
    );
    let of_another = folder.function("choose").args(["--core", "serv"]).assert().failure();
    assert_has(&text(&of_another.get_output().stdout), &["serv executes RV32"]);
}

/// A library's function is linked with what it calls; what is not in the library is named.
#[test]
fn a_static_library_is_linked_alone() {
    let folder = Folder::new();
    let source = "__attribute__((weak)) void hook(void);\n\
                  int missing(int);\n\
                  int helper(int);\n\
                  int step(int x) { return 3 * helper(x); }\n\
                  int hooked(int x) { hook(); return x; }\n\
                  int lost(int x) { return missing(x); }\n\
                  __attribute__((weak)) int replaced(int x) { return x; }\n\
                  int weak(int x) { return 3 * replaced(x); }\n";
    std::fs::write(folder.path("step.c"), source).expect("written");
    std::fs::write(folder.path("helper.c"), "int helper(int x) { return x > 3 ? x + 1 : x - 1; }\n").expect("written");
    folder.compile(&["-O1", "-ffunction-sections", "-fcf-protection=none", "-c", "step.c", "helper.c"]);
    let mut archiver = std::process::Command::new("ar");
    archiver.current_dir(&folder.folder).args(["rcs", "lib.a", "step.o", "helper.o"]);
    assert!(archiver.status().expect("ar").success());
    let of = |file: &str, symbol: &str| {
        let mut command = bound();
        command.current_dir(&folder.folder).args(["--binary", file, "--symbol", symbol]);
        command
    };
    // The calls in the whole count: more than of the helper alone.
    let most = |symbol: &str| bounded(&answer(of("lib.a", symbol).args(["--json", "-"]))).most;
    assert!(most("step") >= most("helper") + 3);
    let noted = of("lib.a", "step").assert().success();
    assert_has(&text(&noted.get_output().stderr), &["lib.a is not linked", "linked alone"]);
    let noted = of("lib.a", "weak").assert().success();
    assert_has(&text(&noted.get_output().stderr), &["weak functions: replaced"]);
    std::fs::write(folder.path("empty.a"), "!<arch>\n").expect("written");
    assert_has(&refusal(&mut of("empty.a", "step")), &["empty.a is an archive without object files"]);
    // No file of options for the linker.
    std::fs::write(folder.path("options"), "step").expect("written");
    assert_has(&refusal(&mut of("lib.a", "@options")), &["no global function @options"]);
    assert_has(&refusal(&mut of("lib.a", "hooked")), &["weak functions", "hook"]);
    assert_has(&refusal(&mut of("lib.a", "lost")), &["cannot be linked alone", "undefined symbol: missing"]);
    assert_has(&refusal(&mut of("step.o", "step")), &["undefined symbol: helper"]);
    assert_has(&refusal(&mut of("lib.a", "nothing")), &["has no global function nothing"]);
    assert_has(&refusal(of("lib.a", "step").args(["--certificate", "step.json"])), &["link it"]);
}

/// Without a toolchain, bounds for a Rust target are the committed ones.
#[test]
fn without_a_toolchain_bounds_of_a_target_are_committed() {
    let mut command = bound();
    command.args(["tlsf", "--target", "thumbv7em-none-eabihf"]).env("PATH", "");
    let committed = Targets::committed().targets["Armv7E-M"].bounds["tlsf"]["allocate"].to_string();
    assert_has(&answer(&mut command), &["This table is committed, because there is no rustc", &committed]);
    assert_has(&refusal(bound().args(["tlsf", "--target", "z80"]).env("PATH", "")), &["cannot be built", "no rustc"]);
}
