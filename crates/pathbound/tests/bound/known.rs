//! Programs small enough to count by hand.

use super::program::{I, Program};
use super::verified;
use I::{Bad, Call, CallRax, Hang, Jmp, JmpRax, Jne, Kernel, Nop, Rep, Ret, RetPop, Ud2};
use pathbound::bound::BoundableLoop;
use pathbound::decline::Refusal;
use pathbound::facts::{Conflict, LoopFact, Place};
use pathbound::graph::Obstacle;
use pathbound::{Decline, Facts};

/// The most and the fewest instructions.
fn counts(program: &Program, facts: &Facts) -> Result<(u64, u64), Decline> {
    verified(program, 0, facts).map(|bound| (bound.most, bound.least))
}

fn loops(loops: Vec<LoopFact>) -> Facts {
    Facts { loops, ..Facts::default() }
}

fn alone(instructions: &[I]) -> Program {
    Program::new(instructions, &[(0, "main")])
}

#[test]
fn straight_code_costs_its_length() {
    assert_eq!(counts(&alone(&[Nop, Nop, Ret]), &Facts::default()), Ok((3, 3)));
    assert_eq!(counts(&alone(&[Ret]), &Facts::default()), Ok((1, 1)));
}

#[test]
fn a_diamond_costs_its_longer_side() {
    // jne -> [nop nop nop jmp | nop] -> ret
    let program = alone(&[Jne(5), Nop, Nop, Nop, Jmp(6), Nop, Ret]);
    assert_eq!(counts(&program, &Facts::default()), Ok((6, 3)));
    let bound = verified(&program, 0, &Facts::default()).expect("a bound");
    let path: Vec<usize> = bound.witness.iter().map(|step| program.index(step.address)).collect();
    assert_eq!(path, [0, 1, 2, 3, 4, 6]);
}

#[test]
fn conditional_returns_end_early() {
    assert_eq!(counts(&alone(&[Jne(2), Ret, Jne(4), Ret, Nop, Nop, Ret]), &Facts::default()), Ok((5, 2)));
}

#[test]
fn a_loop_costs_its_header_once_more_than_its_body() {
    // header: jne out; body: nop nop jmp header; out: ret
    let program = alone(&[Jne(4), Nop, Nop, Jmp(0), Ret]);
    let header = loops(vec![program.at_most(0, 11)]);
    assert_eq!(counts(&program, &header), Ok((10 * 4 + 1 + 1, 2)));
    let body = loops(vec![program.at_most(2, 10)]);
    assert_eq!(counts(&program, &body), Ok((10 * 4 + 1 + 1, 2)));
}

#[test]
fn a_rotated_loop_is_bounded_by_its_body() {
    // nop; top: nop nop (body) nop jne top; ret. 10 iterations jump back 9 times.
    let program = alone(&[Nop, Nop, Nop, Nop, Jne(1), Ret]);
    assert_eq!(counts(&program, &loops(vec![program.at_most(2, 10)])), Ok((1 + 10 * 4 + 1, 6)));
    // A single iteration of a loop that is left in its middle costs no more than an iteration.
    let program = alone(&[Nop, Jne(4), Nop, Jne(0), Ret]);
    assert_eq!(counts(&program, &loops(vec![program.at_most(2, 1)])), Ok((4 + 2 + 1, 3)));
    assert_eq!(counts(&program, &loops(vec![program.at_most(0, 1)])), Ok((5, 3)));
}

#[test]
fn a_loop_whose_place_is_never_executed_does_not_iterate() {
    let program = alone(&[Nop, Jne(4), Nop, Jne(0), Ret]);
    assert_eq!(counts(&program, &loops(vec![program.at_most(2, 0)])), Ok((3, 3)));
}

#[test]
fn nested_loops_multiply() {
    // outer: nop; inner: nop nop jne inner; jne outer; ret
    let program = alone(&[Nop, Nop, Nop, Jne(1), Jne(0), Ret]);
    let facts = loops(vec![program.at_most(2, 5), program.at_most(4, 3)]);
    assert_eq!(counts(&program, &facts), Ok((3 * (2 + 5 * 3) + 1, 6)));
}

/// Loops are listed with a place each. Facts about these places give a bound: a base plus the cost of each iteration.
#[test]
fn loops_are_listed_with_the_places_that_bound_them() {
    // nop; outer: nop; inner: nop nop jne inner; jne outer; while: jne out; nop; jmp while; out: ret
    let program = alone(&[Nop, Nop, Nop, Nop, Jne(2), Jne(1), Jne(9), Nop, Jmp(6), Ret]);
    let listed = pathbound::loops(&program, &program.graph(0), program.at(0)).expect("nothing in the way");
    let described: Vec<_> = listed
        .iter()
        .map(|one| {
            let own: Vec<usize> = one.own.iter().map(|address| program.index(*address)).collect();
            (program.index(one.header), program.index(one.place), own, one.around, one.once_more)
        })
        .collect();
    let expected =
        [(6, 8, vec![6, 7, 8], None, false), (1, 5, vec![1, 5], None, false), (2, 4, vec![2, 3, 4], Some(1), false)];
    assert_eq!(described, expected);
    let costs = |iterations: [u64; 3]| {
        let fact = |(one, at_most): (&BoundableLoop, u64)| LoopFact { place: Place::Address(one.place), at_most };
        counts(&program, &loops(listed.iter().zip(iterations).map(fact).collect())).expect("a bound").0
    };
    for [tested, outer, inner] in [[1, 1, 1], [1, 7, 1], [1, 7, 5], [9, 7, 5]] {
        assert_eq!(costs([tested, outer, inner]), 3 + outer * (2 + 3 * inner) + 3 * tested, "{outer} {inner} {tested}");
    }
    // A body without a common instruction is counted at its header.
    let program = alone(&[Jne(3), Jne(0), Jmp(0), Jne(0), Ret]);
    let listed = pathbound::loops(&program, &program.graph(0), program.at(0)).expect("nothing in the way");
    assert!(matches!(listed.as_slice(), [one] if one.once_more && one.place == one.header), "{listed:?}");
}

#[test]
fn the_least_of_several_facts_about_a_loop_is_used() {
    let program = alone(&[Nop, Nop, Jne(0), Ret]);
    let facts = loops(vec![program.at_most(1, 9), program.at_most(2, 4), program.at_most(0, 6)]);
    assert_eq!(counts(&program, &facts), Ok((4 * 3 + 1, 4)));
}

#[test]
fn every_iteration_takes_the_costlier_path() {
    // top: jne long; nop; jmp end; long: nop nop nop; end: jne top; ret
    let program = alone(&[Jne(3), Nop, Jmp(6), Nop, Nop, Nop, Jne(0), Ret]);
    assert_eq!(counts(&program, &loops(vec![program.at_most(0, 7)])), Ok((7 * 5 + 1, 5)));
}

#[test]
fn very_many_iterations_are_counted_exactly() {
    let program = alone(&[Nop, Nop, Nop, Jne(1), Jne(0), Ret]);
    for (inner, outer) in [(1_000_000, 1_000), (1_000_000, 1_000_000), (4_294_967_295, 1), (4_294_967_295, 100_000)] {
        let facts = loops(vec![program.at_most(1, inner), program.at_most(0, outer)]);
        assert_eq!(counts(&program, &facts), Ok((outer * (2 + inner * 3) + 1, 6)), "{inner} * {outer}");
    }
    let facts = loops(vec![program.at_most(1, u64::MAX), program.at_most(0, 2)]);
    assert!(matches!(counts(&program, &facts), Err(Decline::TooLarge(_))));
    let facts = loops(vec![program.at_most(1, 1 << 30), program.at_most(0, 1 << 30)]);
    assert!(matches!(counts(&program, &facts), Err(Decline::TooLarge(_))));
}

#[test]
fn a_call_costs_itself_and_its_callee() {
    let program = Program::new(&[Nop, Call(4), Call(4), Ret, Jne(6), Nop, Ret], &[(0, "main"), (4, "callee")]);
    assert_eq!(counts(&program, &Facts::default()), Ok((4 + 2 * 3, 4 + 2 * 2)));
    let bound = verified(&program, 0, &Facts::default()).expect("a bound");
    let steps: Vec<(usize, u32)> = bound.witness.iter().map(|step| (program.index(step.address), step.depth)).collect();
    assert_eq!(steps, [(0, 0), (1, 0), (4, 1), (5, 1), (6, 1), (2, 0), (4, 1), (5, 1), (6, 1), (3, 0)]);
}

#[test]
fn a_tail_call_costs_itself_and_its_callee() {
    let program = Program::new(&[Jne(2), Ret, Jmp(3), Nop, Nop, Ret], &[(0, "main"), (3, "callee")]);
    assert_eq!(counts(&program, &Facts::default()), Ok((2 + 3, 2)));
}

#[test]
fn a_loop_in_a_callee_is_entered_by_every_call() {
    let instructions = [Call(3), Call(3), Ret, Nop, Jne(3), Ret];
    let program = Program::new(&instructions, &[(0, "main"), (3, "callee")]);
    // The loop's header is the callee's first instruction.
    assert_eq!(counts(&program, &loops(vec![program.at_most(4, 6)])), Ok((3 + 2 * (6 * 2 + 1), 3 + 2 * 3)));
}

#[test]
fn a_call_in_a_loop_costs_its_callee_in_each_iteration() {
    let instructions = [Call(3), Jne(0), Ret, Nop, Nop, Jne(3), Ret];
    let program = Program::new(&instructions, &[(0, "main"), (3, "callee")]);
    let facts = loops(vec![program.at_most(0, 5), program.at_most(3, 4)]);
    assert_eq!(counts(&program, &facts), Ok((5 * (2 + 4 * 3 + 1) + 1, 2 + 4 + 1)));
    let bound = verified(&program, 0, &facts).expect("a bound");
    let executions =
        bound.witness.iter().find(|step| step.address == program.at(3)).map(|step| (step.executions, step.depth));
    assert_eq!(executions, Some((20, 1)));
}

#[test]
fn a_jump_into_another_function_shares_its_potentials() {
    // `main` and `other` share the code from 3 on, with its loop.
    let instructions = [Jne(6), Call(5), Nop, Nop, Jne(3), Ret, Jmp(2)];
    let program = Program::new(&instructions, &[(0, "main"), (5, "other")]);
    assert_eq!(counts(&program, &loops(vec![program.at_most(3, 4)])), Ok((2 + 1 + 1 + 8 + 1, 2 + 1 + 2 + 1)));
}

#[test]
fn paths_that_do_not_return_are_left_out_and_listed() {
    let instructions = [Jne(3), Jne(6), Ret, Nop, Nop, Call(8), Nop, Jmp(9), Hang, Ud2];
    let program = Program::new(&instructions, &[(0, "main"), (8, "abort")]);
    let bound = verified(&program, 0, &Facts::default()).expect("a bound");
    assert_eq!((bound.most, bound.least), (3, 3));
    let mut listed: Vec<_> = bound.never_returning.iter().map(|(name, site)| (name.as_str(), site.address)).collect();
    listed.sort_unstable();
    assert_eq!(listed, [("abort", program.at(5)), ("trap", program.at(9))]);
    let assumed: Vec<_> = bound.proof.never_returning.iter().map(|end| end.name.as_str()).collect();
    assert_eq!(assumed, ["abort"]);
}

#[test]
fn a_function_that_never_returns_need_not_be_known_by_name() {
    // The callee loops forever, past a `rep` and a system call.
    let instructions = [Jne(2), Ret, Call(4), Bad, Rep, Kernel, Jmp(4)];
    let program = Program::new(&instructions, &[(0, "main"), (4, "hang")]);
    let bound = verified(&program, 0, &Facts::default()).expect("a bound");
    assert_eq!(bound.most, 2);
    assert_eq!(bound.never_returning[0].0, "hang");
    assert_eq!(bound.proof.never_returning, [], "nothing is assumed");
}

#[test]
fn conflicts_hold_across_functions() {
    // main: jne -> [nop nop nop | ] call; callee: jne -> [nop nop | ] ret
    let instructions = [Jne(4), Nop, Nop, Nop, Call(6), Ret, Jne(9), Nop, Nop, Ret];
    let program = Program::new(&instructions, &[(0, "main"), (6, "callee")]).with_lines(&[(2, 10), (3, 10), (7, 20)]);
    assert_eq!(counts(&program, &Facts::default()), Ok((10, 5)));
    let line = |line| Place::Line { file: "test.rs".to_owned(), line };
    let mut facts = Facts { conflicts: vec![Conflict { first: line(10), second: line(20) }], ..Facts::default() };
    assert_eq!(counts(&program, &facts), Ok((8, 5)));
    // A second conflict, which allows neither side of the first.
    let at = |index| Place::Address(program.at(index));
    facts.conflicts.push(Conflict { first: at(1), second: at(3) });
    assert_eq!(counts(&program, &facts), Ok((7, 5)));
}

#[test]
fn a_conflict_with_the_entry_excludes_the_other_side() {
    let program = alone(&[Jne(3), Nop, Nop, Ret]);
    let at = |index| Place::Address(program.at(index));
    let mut facts = Facts { conflicts: vec![Conflict { first: at(0), second: at(1) }], ..Facts::default() };
    assert_eq!(counts(&program, &facts), Ok((2, 2)));
    facts.conflicts.push(Conflict { first: at(0), second: at(3) });
    assert!(matches!(counts(&program, &facts), Err(Decline::NeverReturns(_))));
}

#[test]
fn a_conflict_with_the_body_of_a_loop_removes_its_iterations() {
    // jne over; nop (first); over: jne out; nop (second) jmp over; out: ret
    let program = alone(&[Jne(3), Nop, Nop, Jne(6), Nop, Jmp(3), Ret]);
    let conflict = Conflict { first: Place::Address(program.at(1)), second: Place::Address(program.at(4)) };
    let facts = Facts { loops: vec![program.at_most(4, 2)], conflicts: vec![conflict] };
    assert_eq!(counts(&program, &facts), Ok((1 + 2 * 3 + 1 + 1, 3)));
}

#[test]
fn a_line_bounds_the_loops_whose_condition_is_on_it() {
    // Line 7 has an instruction of the outer loop, which prepares the inner one, and the inner loop itself.
    let program = alone(&[Nop, Nop, Nop, Jne(2), Jne(0), Ret]).with_lines(&[(0, 6), (1, 7), (2, 7), (3, 7), (4, 6)]);
    let facts = loops(vec!["test.rs:6=3".parse().expect("a fact"), "src/test.rs:7=5".parse().expect("a fact")]);
    assert_eq!(counts(&program, &facts), Ok((4 * (3 + 6 * 2) + 1, 6)));
    // One line with two loops, as when a function is inlined twice.
    let program = alone(&[Nop, Jne(0), Nop, Nop, Jne(2), Ret]).with_lines(&[(1, 7), (4, 7)]);
    assert_eq!(counts(&program, &loops(vec!["test.rs:7=4".parse().expect("a fact")])), Ok((10 + 15 + 1, 6)));
}

fn declined(program: &Program, facts: &Facts) -> Decline {
    counts(program, facts).expect_err("there is no bound")
}

#[test]
fn obstacles_on_paths_that_return_are_declined() {
    for (obstacle, instruction) in [
        (Obstacle::Repeat, Rep),
        (Obstacle::Kernel, Kernel),
        (Obstacle::IndirectJump, JmpRax),
        (Obstacle::IndirectCall, CallRax),
        (Obstacle::Elsewhere, RetPop),
        (Obstacle::Undecodable, Bad),
    ] {
        let program = alone(&[Jne(2), Ret, Nop, instruction, Ret]);
        let decline = declined(&program, &Facts::default());
        assert!(
            matches!(&decline, Decline::Obstacle(found, site) if *found == obstacle && site.address == program.at(3)),
            "{decline}"
        );
        let text = decline.to_string();
        assert!(text.contains(&format!("{:#x} in main", program.at(3))), "{text}");
    }
}

#[test]
fn recursion_is_declined_at_the_call_that_closes_it() {
    let instructions = [Jne(2), Ret, Call(4), Ret, Nop, Call(0), Ret];
    let program = Program::new(&instructions, &[(0, "main"), (4, "other")]);
    let decline = declined(&program, &Facts::default());
    assert!(matches!(&decline, Decline::Recursion(site) if site.address == program.at(5)), "{decline}");
    let by_tail_calls = Program::new(&[Jne(2), Ret, Jmp(3), Nop, Jmp(0)], &[(0, "main"), (3, "other")]);
    assert!(matches!(declined(&by_tail_calls, &Facts::default()), Decline::Recursion(_)));
}

#[test]
fn loops_are_declined_unless_a_fact_bounds_every_iteration() {
    let program = alone(&[Nop, Jne(3), Nop, Jne(0), Ret]).with_lines(&[(0, 12)]);
    let decline = declined(&program, &Facts::default());
    assert!(matches!(&decline, Decline::UnboundedLoops(loops) if loops[0].entry.address == program.at(0)), "{decline}");
    // Iterations are counted at the last instruction that all of them execute.
    assert!(decline.to_string().contains("(src/test.rs:12)"), "{decline}");
    assert!(decline.to_string().contains(&format!("`--loop={:#x}=N`", program.at(3))), "{decline}");
    // An iteration can skip 2.
    let skipped = declined(&program, &loops(vec![program.at_most(2, 5)]));
    assert!(matches!(skipped, Decline::RefusedFact(_, Refusal::PassedBy, _)), "{skipped}");
    assert_eq!(counts(&program, &loops(vec![program.at_most(3, 5)])), Ok((5 * 4 + 1, 4)));
}

#[test]
fn all_loops_without_a_fact_are_listed_at_once() {
    let program = alone(&[Nop, Nop, Jne(1), Jne(0), Nop, Jne(4), Ret]).with_lines(&[(0, 3), (4, 9)]);
    let listed = |facts: Vec<LoopFact>| match declined(&program, &loops(facts)) {
        ref decline @ Decline::UnboundedLoops(ref open) => {
            let places: Vec<_> =
                open.iter().map(|one| (program.index(one.entry.address), program.index(one.place.address))).collect();
            for (_, place) in &places {
                assert!(decline.to_string().contains(&format!("`--loop={:#x}=N`", program.at(*place))), "{decline}");
            }
            assert_eq!(decline.to_string().matches("unbounded loop at 0x").count(), places.len(), "{decline}");
            places
        }
        other => panic!("{other}"),
    };
    assert_eq!(listed(Vec::new()), [(4, 5), (0, 3), (1, 2)]);
    assert_eq!(listed(vec![program.at_most(3, 5)]), [(4, 5), (1, 2)]);
    let facts = [5, 3, 2].map(|place| program.at_most(place, 2)).to_vec();
    assert_eq!(counts(&program, &loops(facts)), Ok((2 * (2 + 2 * 2) + 2 * 2 + 1, 7)));
}

#[test]
fn a_loop_with_two_entries_is_declined() {
    let program = alone(&[Jne(2), Nop, Nop, Jne(1), Ret]);
    let decline = declined(&program, &loops(vec![program.at_most(2, 5)]));
    assert!(matches!(decline, Decline::IrreducibleLoop(_)), "{decline}");
    // A call into the middle of a loop is a second entry.
    let program = Program::new(&[Call(4), Nop, Jmp(3), Nop, Nop, Jne(3), Ret], &[(0, "main")]);
    let decline = declined(&program, &loops(vec![program.at_most(3, 5)]));
    assert!(matches!(decline, Decline::IrreducibleLoop(_)), "{decline}");
}

#[test]
fn a_function_that_never_returns_has_no_bound() {
    let decline = declined(&alone(&[Nop, Ud2]), &Facts::default());
    assert!(matches!(decline, Decline::NeverReturns(_)), "{decline}");
    let decline = declined(&alone(&[Nop, Jmp(0)]), &Facts::default());
    assert!(matches!(decline, Decline::NeverReturns(_)), "{decline}");
}

#[test]
fn facts_that_apply_to_nothing_are_refused() {
    let program = alone(&[Nop, Jne(4), Hang, Nop, Ret]);
    let useless = Place::Address(program.at(0));
    assert_eq!(declined(&program, &loops(vec![program.at_most(0, 5)])), Decline::UselessFact(useless.clone()));
    let nowhere = Place::Line { file: "test.rs".to_owned(), line: 99 };
    let conflict = Conflict { first: useless.clone(), second: nowhere.clone() };
    let facts = Facts { conflicts: vec![conflict.clone()], ..Facts::default() };
    assert_eq!(declined(&program, &facts), Decline::UselessFact(nowhere));
    // An instruction from which no path returns is not bounded.
    let dead = Place::Address(program.at(2));
    let conflict = Conflict { first: useless, second: dead.clone() };
    let facts = Facts { conflicts: vec![conflict.clone()], ..Facts::default() };
    assert_eq!(declined(&program, &facts), Decline::UselessFact(dead));
    let facts = Facts { conflicts: vec![conflict; 9], ..Facts::default() };
    assert_eq!(declined(&program, &facts), Decline::TooManyConflicts(9));
}
