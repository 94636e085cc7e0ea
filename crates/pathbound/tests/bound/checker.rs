//! What the checker must reject: all changes of a true certificate.

use super::program::{I, Program};
use super::verified;
use I::{Call, Hang, Jmp, Jne, Nop, Ret};
use pathbound::certificate::{Address, BoundedLoop, Certificate, CertificateError, FORMAT, NeverReturning, Proof};
use pathbound::check::check_proof;
use pathbound::facts::{Conflict, Place};
use pathbound::image::Provenance;
use pathbound::{Assumption, Core, Facts, Unit, check};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Every path is a longest one: calls, a tail call, and a loop entered by a call in a loop entered by a jump.
fn tight() -> (Program, Proof) {
    let instructions = [Nop, Call(6), Nop, Jne(1), Nop, Jmp(9), Nop, Jne(6), Ret, Nop, Ret];
    let program = Program::new(&instructions, &[(0, "main"), (6, "callee"), (9, "tail")]);
    let facts = Facts { loops: vec![program.at_most(3, 4), program.at_most(6, 3)], ..Facts::default() };
    let bound = verified(&program, 0, &facts).expect("a bound");
    assert_eq!(bound.most, 1 + 4 * (3 + 3 * 2 + 1) + 2 + 2);
    (program, bound.proof)
}

/// A call of a function that never returns, an endless loop, and a conflict of an instruction with itself, which means
/// that it is never executed.
fn pruned() -> (Program, Proof) {
    let instructions = [Jne(6), Nop, Jne(9), Jne(5), Nop, Ret, Nop, Call(10), Ret, Hang, Hang];
    let program = Program::new(&instructions, &[(0, "main"), (10, "abort")]);
    let at = |index| Place::Address(program.at(index));
    let facts = Facts { conflicts: vec![Conflict { first: at(4), second: at(4) }], ..Facts::default() };
    let bound = verified(&program, 0, &facts).expect("a bound");
    assert_eq!(bound.most, 5);
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
        proof.most -= 1;
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
            rejected(&program, &other, "a multiplier is changed");
        }
        let mut negative = proof.clone();
        negative.cases[0].multipliers[index] = -1;
        rejected(&program, &negative, "a multiplier is negative");
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
        rejected(&program, &more, "a loop iterates once more");
    }
}

#[test]
fn further_functions_that_never_return_are_rejected() {
    let (program, proof) = tight();
    let calls = [Address(program.at(1)), Address(program.at(5))];
    // With the function's own name, this is an assumption for the reader to judge; with another, it must be rejected.
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
fn instructions_that_return_cannot_be_left_out() {
    for (program, proof) in [tight(), pruned()] {
        for address in proof.cases[0].potentials.keys() {
            let mut out = proof.clone();
            out.cases[0].no_return.insert(*address);
            rejected(&program, &out, "an instruction that returns is listed as never returning");
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
    let unbounded: [(usize, &[u8]); 11] = [
        (offset(5), &[0xff, 0xe0]),       // jmp rax
        (offset(1), &[0xff, 0xd0]),       // call rax
        (offset(1), &[0xf3, 0xa4]),       // rep movsb
        (offset(1), &[0x0f, 0x05]),       // syscall
        (offset(1), &[0xc2, 0, 0]),       // ret 0
        (offset(1), &[0xcb]),             // retf
        (offset(1), &[0x48, 0xcf]),       // iretq
        (offset(1), &[0xf4]),             // hlt
        (offset(1), &[0x0f, 0x0b]),       // ud2
        (offset(1), &[0x06]),             // invalid
        (offset(3), &[0xc7, 0xf8, 0, 0]), // xbegin
    ];
    for (at, bytes) in unbounded {
        rejected(&changed(at, bytes), &proof, "it has an instruction that cannot be bounded");
    }
    // A jump to another target, past the tail call into the callee's loop; and a return replaced by a nop.
    rejected(&changed(offset(5) + 1, &(-6i32).to_le_bytes()), &proof, "a jump goes elsewhere");
    rejected(&changed(offset(10), &[0x90]), &proof, "execution runs off the end");
    rejected(&changed(offset(0), &[0xeb]), &proof, "an instruction has another length");
}

#[test]
fn certificates_are_about_one_file_and_one_format() {
    let (program, proof) = tight();
    let binary = Provenance { file: "a".to_owned(), sha256: "00".repeat(32), compilers: vec!["cc 1".to_owned()] };
    let certificate = Certificate { format: FORMAT, binary: binary.clone(), proof };
    let text = certificate.to_json();
    let read = Certificate::from_json(&text).expect("what was written");
    assert_eq!(read, certificate);
    let checked = check(&read, &program, &binary).expect("true");
    assert_eq!(checked.facts.len(), 2, "two loops: {checked:?}");
    assert_eq!(checked.assumptions, certificate.proof.assumptions);
    let other = Provenance { sha256: "01".repeat(32), ..binary };
    assert!(check(&read, &program, &other).is_err(), "it is about another file");
    let other = Provenance { compilers: Vec::new(), ..read.binary.clone() };
    assert!(check(&read, &program, &other).is_err(), "it is about the code of another compiler");
    let other = FORMAT + 1;
    let newer = text.replace(&format!("\"format\": {FORMAT}"), &format!("\"format\": {other}"));
    assert!(matches!(Certificate::from_json(&newer), Err(CertificateError::Format(format)) if format == other));
    let misspelt = text.replace("\"no_return\"", "\"no_returns\"");
    assert!(matches!(Certificate::from_json(&misspelt), Err(CertificateError::Unreadable(_))));
}

/// The attack: a "loop" of one straight-line instruction with a fact of 0, whose multiplier lowers other potentials.
#[test]
fn straight_code_is_not_a_loop() {
    let program = Program::new(&[Nop, Nop, Nop, Nop, Ret], &[(0, "main")]);
    let sound = verified(&program, 0, &Facts::default()).expect("a bound").proof;
    let forged = |at_most: u64| {
        let place = Address(program.at(3));
        let mut proof = sound.clone();
        proof.loops = vec![BoundedLoop { entry: place, place, at_most, source: None, members: [place].into() }];
        proof.cases[0].multipliers = vec![3];
        for index in 0..4 {
            *proof.cases[0].potentials.get_mut(&Address(program.at(index))).expect("its own key") -= 3;
        }
        proof.most -= 3;
        proof
    };
    rejected(&program, &forged(0), "one instruction that does not lead to itself is not a loop");
    rejected(&program, &forged(1), "one instruction that does not lead to itself is not a loop");
}

#[test]
fn loops_are_those_of_the_code() {
    // A loop with two cycles through its header, and a loop inside the first of them.
    let instructions = [Nop, Jne(5), Nop, Jne(2), Jmp(6), Nop, Jne(0), Ret];
    let program = Program::new(&instructions, &[(0, "main")]);
    let facts = Facts { loops: vec![program.at_most(0, 4), program.at_most(2, 3)], ..Facts::default() };
    let sound = verified(&program, 0, &facts).expect("a bound").proof;
    let inner = sound.loops.iter().position(|one| one.members.len() == 2).expect("two loops");
    let with = |index: usize, change: &dyn Fn(&mut BoundedLoop)| {
        let mut proof = sound.clone();
        change(&mut proof.loops[index]);
        rejected(&program, &proof, "a loop is changed");
    };
    for member in 0..8 {
        let at = Address(program.at(member));
        for index in 0..2 {
            if !sound.loops[index].members.contains(&at) {
                with(index, &|one| one.members.extend([at]));
            }
            if sound.loops[index].entry != at {
                with(index, &|one| one.entry = at);
            }
        }
    }
    // The inner loop's place is an instruction of the outer loop, but not one outside inner loops.
    with(1 - inner, &|one| one.place = Address(program.at(2)));
    // One cycle only, which the other one enters where it joins.
    with(1 - inner, &|one| one.members = [0, 1, 5, 6].map(|index| Address(program.at(index))).into());
    let mut twice = sound.clone();
    twice.loops.push(sound.loops[0].clone());
    twice.cases[0].multipliers.push(0);
    rejected(&program, &twice, "a loop is listed twice");
}

#[test]
fn only_the_user_can_state_that_a_function_with_a_return_never_returns() {
    // `exit` returns.
    let program = Program::new(&[Jne(2), Ret, Call(4), Ret, Nop, Ret], &[(0, "main"), (4, "exit")]);
    let mut proof = verified(&program, 0, &Facts::default()).expect("a bound").proof;
    assert_eq!(proof.most, 5);
    let call = Address(program.at(2));
    let exit = Address(program.at(4));
    proof.never_returning = vec![NeverReturning { name: "exit".to_owned(), address: Some(exit), calls: [call].into() }];
    proof.cases[0].no_return = [call].into();
    proof.cases[0].potentials = [(Address(program.at(0)), 2), (Address(program.at(1)), 1)].into();
    proof.most = 2;
    // The published list vouches for names of other files only.
    proof.assumptions.insert(Assumption::NeverReturns);
    rejected(&program, &proof, "functions that are stated not to be called");
    proof.assumptions.remove(&Assumption::NeverReturns);
    proof.assumptions.insert(Assumption::NotCalled);
    let checked = check_proof(&proof, &program).expect("true of executions that do not return from `exit`");
    assert!(matches!(&checked.facts[..], [line] if line.starts_with("exit is not called")), "{checked:?}");
    // `abort` does not return.
    let (program, proof) = pruned();
    let checked = check_proof(&proof, &program).expect("true");
    assert!(matches!(&checked.never_returning[..], [line] if line.starts_with("abort never returns")), "{checked:?}");
    assert_eq!(checked.facts.len(), 1, "the conflict: {checked:?}");
}

#[test]
fn cycles_of_a_core_with_another_instruction_set_are_not_certified() {
    let program = Program::new(&[Nop, Ret], &[(0, "main")]);
    let mut proof = verified(&program, 0, &Facts::default()).expect("a bound").proof;
    proof.unit = Unit::Cycles(Core::find("serv").expect("a core"));
    rejected(&program, &proof, "serv executes RV32");
}

/// The checker's own decoder sees neither frames nor handlers.
#[test]
fn a_return_to_another_place_is_not_certified() {
    // push rdi; pop rsp; ret
    let mut program = Program::new(&[Nop, Nop, Ret], &[(0, "main")]);
    let proof = verified(&program, 0, &Facts::default()).expect("a bound").proof;
    program.bytes[..2].copy_from_slice(&[0x57, 0x5c]);
    rejected(&program, &proof, "the return goes to an address that the caller passed");
}

/// Every change of one field of a certificate is rejected, or claims no less and shows its assumptions.
#[test]
fn no_changed_field_lowers_a_claim_or_hides_an_assumption() {
    let conflicting = {
        let program = Program::new(&[Jne(3), Nop, Nop, Jne(5), Nop, Ret], &[(0, "main")]).with_lines(&[(1, 7)]);
        let at = |index| Place::Address(program.at(index));
        let facts = Facts { conflicts: vec![Conflict { first: at(1), second: at(4) }], ..Facts::default() };
        let proof = verified(&program, 0, &facts).expect("a bound").proof;
        (program, proof)
    };
    let (mut changed, mut accepted) = (0, BTreeSet::new());
    for (program, proof) in [tight(), pruned(), conflicting] {
        let sound = check_proof(&proof, &program).expect("true");
        let whole = serde_json::to_value(&proof).expect("JSON");
        let mut paths = Vec::new();
        leaves(&whole, String::new(), &mut paths);
        for path in paths {
            for value in changes(whole.pointer(&path).expect("a path of its own"), &program) {
                let mut other = whole.clone();
                *other.pointer_mut(&path).expect("the same") = value;
                let Ok(other) = serde_json::from_value::<Proof>(other) else { continue };
                if other == proof {
                    continue;
                }
                changed += 1;
                let Ok(checked) = check_proof(&other, &program) else { continue };
                assert!(checked.most >= sound.most, "{path}: {other:?}");
                assert!(checked.assumptions.is_superset(&sound.assumptions), "{path}: {other:?}");
                let facts = (other.loops != proof.loops) || (other.conflicts != proof.conflicts);
                assert_eq!(facts, checked.facts != sound.facts, "{path}: {checked:?}");
                let field: String = path
                    .split('/')
                    .filter(|part| part.parse::<u64>().is_err() && !part.starts_with("0x"))
                    .collect::<Vec<_>>()
                    .join("/");
                accepted.insert(field);
            }
        }
    }
    assert!(changed > 500, "{changed}");
    // The claim and potentials may be larger. Changed facts are shown. `abort` is found to trap even if the proof does
    // not list it. Fewer instructions may be left out as avoided or as never returning.
    let may = [
        "/most",
        "/assumptions",
        "/loops/at_most",
        "/conflicts",
        "/conflicts/first",
        "/conflicts/second",
        "/never_returning",
        "/never_returning/calls",
        "/cases",
        "/cases/avoid",
        "/cases/multipliers",
        "/cases/no_return",
        "/cases/potentials",
    ];
    assert!(accepted.iter().all(|field| may.contains(&field.as_str())), "{accepted:?}");
}

/// The paths to all values.
fn leaves(value: &Value, path: String, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(value, format!("{path}/{name}"), paths));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(index, value)| leaves(value, format!("{path}/{index}"), paths));
        }
        _ => {}
    }
    paths.push(path);
}

/// What a value can be changed into.
fn changes(value: &Value, program: &Program) -> Vec<Value> {
    let addresses = || (0..program.len()).map(|index| json!(Address(program.at(index))));
    match value {
        Value::Null => vec![json!("main"), json!({"file": "src/test.rs", "line": 1, "function": null})],
        Value::Bool(bit) => vec![json!(!bit)],
        Value::Number(number) => {
            let number = i128::from(number.as_i64().unwrap_or_default());
            let near = [number - 1, number + 1, -number, 0, 1, i128::from(i64::MIN), i128::from(i64::MAX)];
            let near = near.into_iter().filter_map(|number| i64::try_from(number).ok()).map(|number| json!(number));
            near.chain([json!(u64::MAX)]).collect()
        }
        Value::String(text) if text.starts_with("0x") => {
            addresses().chain([json!("0x0"), json!(Address(u64::MAX))]).collect()
        }
        Value::String(_) => vec![json!("exit"), json!("main"), json!("loading"), Value::Null],
        Value::Array(values) => {
            let without = (0..values.len()).map(|index| {
                let mut fewer = values.clone();
                fewer.remove(index);
                Value::Array(fewer)
            });
            let twice =
                values.iter().map(|value| Value::Array([values.as_slice(), std::slice::from_ref(value)].concat()));
            let more = addresses().map(|address| Value::Array([values.as_slice(), &[address]].concat()));
            without.chain(twice).chain(more).chain([json!([])]).collect()
        }
        Value::Object(fields) => {
            let without = fields.keys().map(|key| {
                let mut fewer = fields.clone();
                fewer.remove(key);
                Value::Object(fewer)
            });
            let more = addresses().map(|address| {
                let mut more = fields.clone();
                more.entry(address.as_str().unwrap_or_default()).or_insert(json!(1));
                Value::Object(more)
            });
            without.chain(more).collect()
        }
    }
}
