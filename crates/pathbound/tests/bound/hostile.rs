//! Attacks that were tried to get a wrong number: programs that do not do what they seem to, and false proofs.

use super::program::{I, Program};
use super::verified;
use I::{Call, Jmp, Jne, Nop, Ret};
use pathbound::check::check_proof;
use pathbound::decline::Refusal;
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::image::Source;
use pathbound::{Bound, Decline, ElfFile, Facts, Graph, Image, bound};
use std::process::Command;

/// A call that may throw, from a function that catches and from one that only cleans up; and functions with names of
/// the C library that behave differently.
const SOURCE: &str = r#"
        .text
        .type thrower, @function
thrower:
        test %edi, %edi
        js 1f
        ret
1:      call *__cxa_throw@GOTPCREL(%rip)
        .size thrower, .-thrower

        .globl catches
        .type catches, @function
catches:
        .cfi_startproc
        .cfi_lsda 0x1b, .Lcatches
        sub $8, %rsp
.Lc1:   call thrower
.Lc2:   add $8, %rsp
        ret
.Lc3:   mov $7, %eax
        add $8, %rsp
        ret
        .cfi_endproc
        .size catches, .-catches

        .globl cleans
        .type cleans, @function
cleans:
        .cfi_startproc
        .cfi_lsda 0x1b, .Lcleans
        sub $8, %rsp
.Ld1:   call thrower
.Ld2:   add $8, %rsp
        ret
.Ld3:   mov %rax, %rdi
        call *_Unwind_Resume@GOTPCREL(%rip)
        .cfi_endproc
        .size cleans, .-cleans

        .type exit, @function
exit:
        nop
        nop
        ret
        .size exit, .-exit

        .type abort, @function
abort:
        call abort
        .size abort, .-abort

        .globl f
        .type f, @function
f:
        test %edi, %edi
        jz 1f
        js 2f
        jmp exit
1:      ret
2:      call abort
        .size f, .-f

        .globl stops
        .type stops, @function
stops:
        test %edi, %edi
        jz 1f
        int3
1:      ret
        .size stops, .-stops

        .section .gcc_except_table, "a", @progbits
.Lcatches:
        .byte 0xff, 0xff, 1
        .uleb128 2f - 1f
1:      .uleb128 .Lc1 - catches
        .uleb128 .Lc2 - .Lc1
        .uleb128 .Lc3 - catches
        .uleb128 1
2:
.Lcleans:
        .byte 0xff, 0xff, 1
        .uleb128 4f - 3f
3:      .uleb128 .Ld1 - cleans
        .uleb128 .Ld2 - .Ld1
        .uleb128 .Ld3 - cleans
        .uleb128 0
4:
        .section .note.GNU-stack, "", @progbits
"#;

/// The bound of a function of [`SOURCE`], and its address.
fn of_source(name: &str) -> (Result<Bound, Decline>, u64) {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, library) = (directory.path().join("hostile.s"), directory.path().join("libhostile.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let status = Command::new("cc").arg("-g0").arg("-shared").arg(&source).arg("-o").arg(&library).status();
    assert!(status.expect("a C compiler").success());
    let file = ElfFile::open(&library).expect("an ELF file");
    let found = file.find(name);
    assert_eq!(found[0].name, name, "what is not mangled is not demangled");
    let entry = found[0].address;
    let graph = Graph::explore(&file, &[entry], &NeverReturns::default()).expect("code");
    let answer = bound(&file, &graph, entry, &Facts::default());
    if let Ok(bound) = &answer {
        check_proof(&bound.proof, &file).unwrap_or_else(|rejection| panic!("{rejection}"));
    }
    (answer, entry)
}

#[test]
fn a_caught_exception_is_declined() {
    let (answer, entry) = of_source("catches");
    match answer {
        Err(Decline::Obstacle(Obstacle::CaughtException, site)) => assert_eq!(site.address, entry + 4),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handler_that_continues_unwinding_is_not_an_obstacle() {
    assert_eq!(of_source("cleans").0.expect("a bound").most, 4 + 3);
}

#[test]
fn a_function_that_returns_is_followed_whatever_its_name() {
    let bound = of_source("f").0.expect("a bound");
    assert_eq!((bound.most, bound.least), (4 + 3, 3), "through exit, which returns");
    assert_eq!(bound.never_returning.len(), 1, "abort does not");
}

#[test]
fn execution_may_continue_after_a_breakpoint() {
    let (answer, entry) = of_source("stops");
    match answer {
        Err(Decline::Obstacle(Obstacle::Kernel, site)) => assert_eq!(site.address, entry + 4),
        other => panic!("{other:?}"),
    }
}

/// A fact about a line of `test.rs`.
fn line(line: u32, at_most: u64) -> LoopFact {
    LoopFact { place: Place::Line { file: "test.rs".to_owned(), line }, at_most }
}

#[test]
fn a_loop_that_tests_first_tests_once_more_than_its_body_runs() {
    // test; body; jump back.
    let program = Program::new(&[Jne(3), Nop, Jmp(0), Ret], &[(0, "main")]).with_lines(&[(0, 1), (1, 2), (2, 1)]);
    let of = |facts: &[LoopFact]| {
        let facts = Facts { loops: facts.to_vec(), ..Facts::default() };
        verified(&program, 0, &facts).expect("a bound").most
    };
    assert_eq!(of(&[line(1, 4)]), 4 * 3 + 2, "stated for the condition, which is tested a fifth time");
    assert_eq!(of(&[program.at_most(0, 5)]), 4 * 3 + 2, "stated for the test");
    assert_eq!(of(&[program.at_most(1, 4)]), 4 * 3 + 2, "stated for the body");
}

/// Why a fact about a loop of a program is refused.
fn refused(program: &Program, fact: LoopFact) -> (Refusal, String) {
    let facts = Facts { loops: vec![fact], ..Facts::default() };
    match verified(program, 0, &facts).expect_err("there is no bound") {
        decline @ Decline::RefusedFact(_, why, _) => (why, decline.to_string()),
        other => panic!("{other}"),
    }
}

/// The attack: a fact about a line in an `if`, two executions in 50 iterations, was applied to the header, as three.
#[test]
fn a_place_that_an_iteration_can_skip_is_refused() {
    let program =
        Program::new(&[Jne(4), Jne(3), Nop, Jmp(0), Ret], &[(0, "main")]).with_lines(&[(0, 1), (1, 2), (2, 3)]);
    for fact in [line(2, 2), line(3, 2)] {
        assert_eq!(refused(&program, fact).0, Refusal::NotTheCondition);
    }
    let (why, text) = refused(&program, program.at_most(2, 2));
    assert_eq!(why, Refusal::PassedBy);
    assert!(text.contains(&format!("`--loop={:#x}=N`", program.at(3))), "{text}");
}

#[test]
fn the_lines_of_an_unrolled_loop_do_not_bound_the_loop_around_it() {
    // Line 2 was a loop of two iterations in a loop of nine, with or without an exit from both.
    let plain = Program::new(&[Nop, Nop, Nop, Jne(0), Ret], &[(0, "main")]);
    let leaving = Program::new(&[Nop, Jne(4), Jne(4), Jne(0), Ret], &[(0, "main")]);
    for program in [plain, leaving] {
        let program = program.with_lines(&[(0, 1), (1, 2), (2, 2), (3, 1)]);
        assert_eq!(refused(&program, line(2, 2)).0, Refusal::NotTheCondition);
        let facts = Facts { loops: vec![line(1, 9), line(2, 2)], ..Facts::default() };
        assert!(matches!(verified(&program, 0, &facts), Err(Decline::RefusedFact(..))));
    }
}

#[test]
fn a_line_with_two_conditions_names_none() {
    let nested = Program::new(&[Nop, Nop, Jne(1), Jne(0), Ret], &[(0, "main")]).with_lines(&[(2, 1), (3, 1)]);
    assert_eq!(refused(&nested, line(1, 4)).0, Refusal::Nested);
    let two_exits = Program::new(&[Jne(4), Nop, Jne(4), Jmp(0), Ret], &[(0, "main")]).with_lines(&[(0, 1), (2, 2)]);
    assert_eq!(refused(&two_exits, line(1, 4)).0, Refusal::NotTheCondition);
    assert_eq!(refused(&two_exits, line(2, 4)).0, Refusal::NotTheCondition);
}

#[test]
fn a_path_too_long_to_write_out_is_summarised() {
    // Each function calls the next one twice.
    let depth = 30;
    let code: Vec<I> = (1..=depth).flat_map(|next| [Call(3 * next), Call(3 * next), Ret]).chain([Ret]).collect();
    let names: Vec<String> = (0..=depth).map(|number| format!("f{number}")).collect();
    let functions: Vec<(usize, &str)> =
        names.iter().enumerate().map(|(number, name)| (3 * number, name.as_str())).collect();
    let program = Program::new(&code, &functions);
    let bound = verified(&program, 0, &Facts::default()).expect("a bound");
    assert_eq!(bound.most, 3 * ((1 << depth) - 1) + (1 << depth));
    assert_eq!(bound.witness.len(), 3 * depth + 1);
}

#[test]
fn numbers_that_overflow_do_not_make_a_proof() {
    let program = Program::new(&[Nop, Nop, Nop, Jne(1), Ret], &[(0, "main")]);
    let facts = Facts { loops: vec![program.at_most(2, 1)], ..Facts::default() };
    let mut proof = verified(&program, 0, &facts).expect("a bound").proof;
    // The value of entering the loop exceeds what potentials can hold.
    proof.loops[0].at_most = u64::MAX;
    proof.cases[0].multipliers = vec![i64::MAX];
    proof.cases[0].potentials.values_mut().for_each(|potential| *potential = i64::MAX);
    proof.cases[0].potentials.insert(proof.entry, 2);
    proof.most = 2;
    let rejection = check_proof(&proof, &program).expect_err("five instructions are not two");
    assert_eq!(rejection.address, Some(program.at(0)), "{rejection}");
}

#[test]
fn a_proof_about_one_function_is_rejected_for_another() {
    let program = Program::new(&[Nop, Ret, Nop, Nop, Ret], &[(0, "short"), (2, "long")]);
    let proof = verified(&program, 0, &Facts::default()).expect("a bound").proof;
    for name in [Some("long".to_owned()), None] {
        let lie = pathbound::certificate::Proof { function: name, ..proof.clone() };
        let rejection = check_proof(&lie, &program).expect_err("it is about `short`");
        assert_eq!(rejection.address, Some(program.at(0)));
    }
}

#[test]
fn a_fact_about_one_line_is_rejected_for_another() {
    let program = Program::new(&[Nop, Jne(0), Ret], &[(0, "main")]).with_lines(&[(0, 1), (1, 1)]);
    let facts = Facts { loops: vec![line(1, 4)], ..Facts::default() };
    let mut proof = verified(&program, 0, &facts).expect("a bound").proof;
    proof.loops[0].source = Some(Source { file: "src/test.rs".to_owned(), line: 2, function: None });
    let rejection = check_proof(&proof, &program).expect_err("the loop is on line 1");
    assert_eq!(rejection.address, Some(program.at(0)));
    proof.loops[0].source = None;
    assert!(check_proof(&proof, &program).is_err(), "the loop has a line");
}
