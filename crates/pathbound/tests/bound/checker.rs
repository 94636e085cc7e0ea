//! What the checker must reject: everything that a true certificate can be changed into.

use super::program::{I, Program};
use super::verified;
use I::{Call, Jmp, Jne, Nop, Ret, Ud2};
use pathbound::certificate::{Address, Certificate, CertificateError, NeverReturning, Proof};
use pathbound::check::check_proof;
use pathbound::facts::{Conflict, Place};
use pathbound::image::Provenance;
use pathbound::{Facts, check};

/// Every path is a longest one: calls, a tail call, and a loop entered by a call in a loop entered by a jump.
fn tight() -> (Program, Proof) {
    let instructions = [Nop, Call(6), Nop, Jne(1), Nop, Jmp(9), Nop, Jne(6), Ret, Nop, Ret];
    let program = Program::new(&instructions, &[(0, "main"), (6, "callee"), (9, "tail")]);
    let facts = Facts { loops: vec![program.at_most(3, 4), program.at_most(6, 3)], ..Facts::default() };
    let bound = verified(&program, 0, &facts).expect("a bound");
    assert_eq!(bound.instructions, 1 + 4 * (3 + 3 * 2 + 1) + 2 + 2);
    (program, bound.proof)
}

/// A call of what never returns, a trap, and a conflict of an instruction with itself, which says it is never executed.
fn pruned() -> (Program, Proof) {
    let instructions = [Jne(6), Nop, Jne(9), Jne(5), Nop, Ret, Nop, Call(10), Ret, Ud2, Ud2];
    let program = Program::new(&instructions, &[(0, "main"), (10, "abort")]);
    let at = |index| Place::Address(program.at(index));
    let facts = Facts { conflicts: vec![Conflict { first: at(4), second: at(4) }], ..Facts::default() };
    let bound = verified(&program, 0, &facts).expect("a bound");
    assert_eq!(bound.instructions, 5);
    (program, bound.proof)
}

#[track_caller]
fn rejected(program: &Program, proof: &Proof, why: &str) {
    if let Ok(checked) = check_proof(proof, program) {
        panic!("accepted though {why}: {checked:?}");
    }
}

#[test]
fn a_lower_claim_is_rejected() {
    for (program, mut proof) in [tight(), pruned()] {
        proof.instructions -= 1;
        rejected(&program, &proof, "the claim is lower by one");
    }
}

#[test]
fn a_lower_potential_is_rejected_at_its_instruction() {
    let (program, proof) = tight();
    for address in proof.cases[0].potentials.keys() {
        let mut lower = proof.clone();
        *lower.cases[0].potentials.get_mut(address).expect("its own key") -= 1;
        let rejection = check_proof(&lower, &program).expect_err("the potential is lower by one");
        assert_eq!(rejection.address, Some(address.0), "{rejection}");
    }
}

#[test]
fn a_missing_potential_is_rejected() {
    let (program, proof) = tight();
    for address in proof.cases[0].potentials.keys() {
        let mut missing = proof.clone();
        missing.cases[0].potentials.remove(address);
        rejected(&program, &missing, "an instruction has no potential");
    }
}

#[test]
fn other_multipliers_are_rejected() {
    let (program, proof) = tight();
    for index in 0..proof.loops.len() {
        for change in [-1, 1] {
            let mut other = proof.clone();
            other.cases[0].multipliers[index] += change;
            rejected(&program, &other, "a multiplier is another");
        }
        let mut negative = proof.clone();
        negative.cases[0].multipliers[index] = -1;
        rejected(&program, &negative, "a multiplier is below zero");
    }
    let mut fewer = proof;
    fewer.cases[0].multipliers.pop();
    rejected(&program, &fewer, "a loop has no multiplier");
}

#[test]
fn other_loops_are_rejected() {
    let (program, proof) = tight();
    for index in 0..proof.loops.len() {
        for member in &proof.loops[index].members {
            let mut fewer = proof.clone();
            fewer.loops[index].members.remove(member);
            rejected(&program, &fewer, "a loop lacks an instruction");
        }
        let mut more = proof.clone();
        more.loops[index].at_most += 1;
        rejected(&program, &more, "a loop runs once more");
    }
}

#[test]
fn further_functions_that_never_return_are_rejected() {
    let (program, proof) = tight();
    let calls = [Address(program.at(1)), Address(program.at(5))];
    // Taking a true name makes it an assumption, which is for the reader to judge; another name is no assumption at all.
    let named = |name: &str| NeverReturning { name: name.to_owned(), address: None, calls: calls.into() };
    let mut further = proof.clone();
    further.never_returning.push(named("abort"));
    further.cases[0].potentials.remove(&Address(program.at(6)));
    rejected(&program, &further, "the callee has another name");
    let (program, proof) = pruned();
    let mut renamed = proof.clone();
    renamed.never_returning[0].name = "exit".to_owned();
    rejected(&program, &renamed, "the callee has another name");
    let mut elsewhere = proof.clone();
    elsewhere.never_returning[0].calls = [Address(program.at(0))].into();
    rejected(&program, &elsewhere, "the call is not on the list");
}

#[test]
fn what_returns_cannot_be_left_out() {
    for (program, proof) in [tight(), pruned()] {
        for address in proof.cases[0].potentials.keys() {
            let mut out = proof.clone();
            out.cases[0].no_return.insert(*address);
            rejected(&program, &out, "an instruction that returns is said not to");
            let mut out = proof.clone();
            out.cases[0].avoid.insert(*address);
            rejected(&program, &out, "an instruction is avoided without a reason");
        }
    }
}

#[test]
fn a_missing_case_is_rejected() {
    let program = Program::new(&[Jne(3), Nop, Nop, Jne(5), Nop, Ret], &[(0, "main")]);
    let at = |index| Place::Address(program.at(index));
    let facts = Facts { conflicts: vec![Conflict { first: at(1), second: at(4) }], ..Facts::default() };
    let proof = verified(&program, 0, &facts).expect("a bound").proof;
    assert_eq!(proof.cases.len(), 2);
    for missing in 0..2 {
        let mut fewer = proof.clone();
        fewer.cases.remove(missing);
        rejected(&program, &fewer, "a case is missing");
    }
}

#[test]
fn other_code_is_rejected() {
    let (program, proof) = tight();
    let offset = |index: usize| usize::try_from(program.at(index) - program.at(0)).expect("a few bytes");
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = program.clone();
        changed.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let unbounded: [(usize, &[u8]); 10] = [
        (offset(5), &[0xff, 0xe0]),       // jmp rax
        (offset(1), &[0xff, 0xd0]),       // call rax
        (offset(1), &[0xf3, 0xa4]),       // rep movsb
        (offset(1), &[0x0f, 0x05]),       // syscall
        (offset(1), &[0xc2, 0, 0]),       // ret 0
        (offset(1), &[0xcb]),             // retf
        (offset(1), &[0x48, 0xcf]),       // iretq
        (offset(1), &[0xf4]),             // hlt
        (offset(1), &[0x06]),             // no instruction
        (offset(3), &[0xc7, 0xf8, 0, 0]), // xbegin
    ];
    for (at, bytes) in unbounded {
        rejected(&changed(at, bytes), &proof, "it holds what cannot be bounded");
    }
    // A jump that goes elsewhere: over the tail call into the callee's loop; and a return that is none.
    rejected(&changed(offset(5) + 1, &(-6i32).to_le_bytes()), &proof, "a jump goes elsewhere");
    rejected(&changed(offset(10), &[0x90]), &proof, "execution runs off the end");
    rejected(&changed(offset(0), &[0xeb]), &proof, "an instruction has another length");
}

#[test]
fn certificates_are_about_one_file_and_one_format() {
    let (program, proof) = tight();
    let binary = Provenance { file: "a".to_owned(), sha256: "00".repeat(32), compilers: vec!["cc 1".to_owned()] };
    let certificate = Certificate { format: 1, binary: binary.clone(), proof };
    let text = certificate.to_json();
    let read = Certificate::from_json(&text).expect("what was written");
    assert_eq!(read, certificate);
    let checked = check(&read, &program, &binary).expect("true");
    assert_eq!(checked.assumptions.len(), 3, "returns and two loops: {:?}", checked.assumptions);
    let other = Provenance { sha256: "01".repeat(32), ..binary };
    assert!(check(&read, &program, &other).is_err(), "it is about another file");
    let newer = text.replace("\"format\": 1", "\"format\": 2");
    assert!(matches!(Certificate::from_json(&newer), Err(CertificateError::Format(2))));
    let misspelt = text.replace("\"no_return\"", "\"no_returns\"");
    assert!(matches!(Certificate::from_json(&misspelt), Err(CertificateError::Unreadable(_))));
}
