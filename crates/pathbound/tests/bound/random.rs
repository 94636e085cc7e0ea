//! Random programs whose executions are searched exhaustively.
//!
//! The search does not use potentials: it follows every execution and counts for each loop how often its place was
//! executed since the loop was entered. Each state is searched once.

use super::program::{I, Program};
use super::verified;
use pathbound::facts::{Conflict, Place};
use pathbound::{Decline, Facts};
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

/// A part of a structured program.
#[derive(Clone, Debug)]
enum Part {
    Straight(u8),
    If(Vec<Part>, Vec<Part>),
    /// `while`, bounded at its header (if the second field is set) or in its body.
    While(Vec<Part>, bool, u64),
    /// `do`-`while`, bounded at its first instruction or at its last.
    Until(Vec<Part>, bool, u64),
    /// A call of one of the later functions.
    Call(u8),
    Return,
    Panic,
}

/// A loop of a program, by positions.
#[derive(Clone, Debug)]
struct Loop {
    members: Range<usize>,
    place: usize,
    at_most: u64,
}

#[derive(Default)]
struct Writer {
    instructions: Vec<I>,
    loops: Vec<Loop>,
    /// Calls by position, with the number of the function.
    calls: Vec<(usize, usize)>,
}

impl Writer {
    fn here(&self) -> usize {
        self.instructions.len()
    }

    fn push(&mut self, instruction: I) -> usize {
        self.instructions.push(instruction);
        self.here() - 1
    }

    fn write(&mut self, parts: &[Part], function: usize, functions: usize) {
        for part in parts {
            match part {
                Part::Straight(length) => (0..*length).for_each(|_| {
                    self.push(I::Nop);
                }),
                Part::If(then, otherwise) => {
                    let branch = self.push(I::Jne(0));
                    self.write(then, function, functions);
                    let jump = self.push(I::Jmp(0));
                    self.instructions[branch] = I::Jne(self.here());
                    self.write(otherwise, function, functions);
                    self.instructions[jump] = I::Jmp(self.here());
                }
                Part::While(body, by_header, at_most) => {
                    let header = self.push(I::Jne(0));
                    let first = self.push(I::Nop);
                    self.write(body, function, functions);
                    self.push(I::Jmp(header));
                    self.instructions[header] = I::Jne(self.here());
                    let place = if *by_header { header } else { first };
                    self.loops.push(Loop { members: header..self.here(), place, at_most: *at_most });
                }
                Part::Until(body, by_header, at_most) => {
                    let header = self.push(I::Nop);
                    self.write(body, function, functions);
                    let last = self.push(I::Jne(header));
                    let place = if *by_header { header } else { last };
                    self.loops.push(Loop { members: header..self.here(), place, at_most: *at_most });
                }
                Part::Call(callee) if function + 1 < functions => {
                    let callee = function + 1 + usize::from(*callee) % (functions - function - 1);
                    self.calls.push((self.here(), callee));
                    self.push(I::Call(0));
                }
                Part::Call(_) => {}
                Part::Return => {
                    // After a branch, so that what follows can be reached.
                    let branch = self.push(I::Jne(0));
                    self.push(I::Ret);
                    self.instructions[branch] = I::Jne(self.here());
                }
                Part::Panic => {
                    let branch = self.push(I::Jne(0));
                    self.push(I::Hang);
                    self.instructions[branch] = I::Jne(self.here());
                }
            }
        }
    }
}

/// A program of functions that only call later ones, with its loops.
fn structured(functions: &[Vec<Part>]) -> (Vec<I>, Vec<Loop>) {
    let mut writer = Writer::default();
    let mut starts = Vec::new();
    for (number, parts) in functions.iter().enumerate() {
        starts.push(writer.here());
        writer.write(parts, number, functions.len());
        writer.push(I::Ret);
    }
    for (site, callee) in &writer.calls {
        writer.instructions[*site] = I::Call(starts[*callee]);
    }
    (writer.instructions, writer.loops)
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let leaf = prop_oneof![
        4 => (0..5u8).prop_map(Part::Straight),
        3 => any::<u8>().prop_map(Part::Call),
        1 => Just(Part::Return),
        1 => Just(Part::Panic),
    ];
    let part = leaf.prop_recursive(3, 12, 3, |part| {
        let some = prop::collection::vec(part, 0..3);
        prop_oneof![
            3 => (some.clone(), some.clone()).prop_map(|(then, otherwise)| Part::If(then, otherwise)),
            2 => (some.clone(), any::<bool>(), 1..4u64).prop_map(|(body, by, n)| Part::While(body, by, n)),
            1 => (some, any::<bool>(), 1..4u64).prop_map(|(body, by, n)| Part::Until(body, by, n)),
        ]
    });
    prop::collection::vec(part, 0..4)
}

/// Programs that jump, branch and call only forward.
fn acyclic() -> impl Strategy<Value = Vec<I>> {
    prop::collection::vec((0..8u8, 0..100usize), 2..24).prop_map(|choices| {
        let last = choices.len();
        let at = |index: usize, distance: usize| (index + 1 + distance % 7).min(last);
        let instructions = choices.iter().enumerate().map(|(index, (kind, distance))| match kind {
            0..=1 => I::Nop,
            2..=4 => I::Jne(at(index, *distance)),
            5 => I::Jmp(at(index, *distance)),
            6 => I::Call(at(index, *distance)),
            _ if distance % 3 == 0 => I::Hang,
            _ => I::Ret,
        });
        instructions.chain([I::Ret]).collect()
    })
}

/// The most and the fewest instructions until the function returns, if it does.
type Extent = Option<(u64, u64)>;

fn join(a: Extent, b: Extent) -> Extent {
    match (a, b) {
        (Some((most_a, fewest_a)), Some((most_b, fewest_b))) => Some((most_a.max(most_b), fewest_a.min(fewest_b))),
        (a, b) => a.or(b),
    }
}

fn add(a: Extent, b: Extent) -> Extent {
    a.zip(b).map(|((most_a, fewest_a), (most_b, fewest_b))| (most_a + most_b, fewest_a + fewest_b))
}

/// Follows every execution.
struct Search<'a> {
    instructions: &'a [I],
    loops: &'a [Loop],
    /// Instructions that no execution executes.
    avoid: &'a [usize],
    known: HashMap<(usize, Vec<u64>), Extent>,
}

impl Search<'_> {
    fn from(&mut self, at: usize, mut executed: Vec<u64>) -> Extent {
        if self.avoid.contains(&at) {
            return None;
        }
        for (count, around) in executed.iter_mut().zip(self.loops) {
            if !around.members.contains(&at) {
                *count = 0;
            } else if around.place == at {
                *count += 1;
                if *count > around.at_most {
                    return None;
                }
            }
        }
        let state = (at, executed.clone());
        if let Some(known) = self.known.get(&state) {
            return *known;
        }
        let one = Some((1, 1));
        let extent = match self.instructions[at] {
            I::Jne(target) => {
                let (stay, go) = (self.from(at + 1, executed.clone()), self.from(target, executed));
                add(one, join(stay, go))
            }
            I::Jmp(target) => add(one, self.from(target, executed)),
            I::Call(target) => {
                let callee = self.from(target, vec![0; executed.len()]);
                add(add(one, callee), self.from(at + 1, executed))
            }
            I::Ret => one,
            I::Hang => None,
            _ => add(one, self.from(at + 1, executed)),
        };
        self.known.insert(state, extent);
        extent
    }
}

fn searched(instructions: &[I], loops: &[Loop], avoid: &[usize]) -> Extent {
    Search { instructions, loops, avoid, known: HashMap::new() }.from(0, vec![0; loops.len()])
}

fn bounded(program: &Program, facts: &Facts) -> Result<Extent, Decline> {
    match verified(program, 0, facts) {
        Ok(bound) => Ok(Some((bound.most, bound.least))),
        Err(Decline::NeverReturns(_)) => Ok(None),
        Err(decline) => Err(decline),
    }
}

/// Facts about the loops on paths that return: facts about others are refused.
fn facts(program: &Program, loops: &[Loop]) -> Facts {
    let mut facts =
        Facts { loops: loops.iter().map(|l| program.at_most(l.place, l.at_most)).collect(), ..Facts::default() };
    while let Err(Decline::UselessFact(Place::Address(useless))) = verified(program, 0, &facts) {
        facts.loops.retain(|fact| fact.place != Place::Address(useless));
    }
    facts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn acyclic_programs_have_the_extent_of_their_executions(instructions in acyclic()) {
        let program = Program::new(&instructions, &[(0, "main")]);
        prop_assert_eq!(bounded(&program, &Facts::default()), Ok(searched(&instructions, &[], &[])));
    }

    #[test]
    fn tail_calls_change_nothing(instructions in acyclic(), begins in prop::collection::vec(1..24usize, 1..4)) {
        let begins: Vec<_> = begins.into_iter().filter(|begin| *begin < instructions.len()).map(|begin| (begin, "part")).collect();
        let program = Program::new(&instructions, &[&[(0, "main")][..], &begins].concat());
        prop_assert_eq!(bounded(&program, &Facts::default()), Ok(searched(&instructions, &[], &[])));
    }

    #[test]
    fn loops_have_the_extent_of_their_executions(functions in prop::collection::vec(parts(), 1..4)) {
        let (instructions, loops) = structured(&functions);
        let program = Program::new(&instructions, &[(0, "main")]);
        prop_assert_eq!(bounded(&program, &facts(&program, &loops)), Ok(searched(&instructions, &loops, &[])));
    }

    #[test]
    fn conflicts_leave_the_executions_that_avoid_one_side(
        functions in prop::collection::vec(parts(), 1..3),
        (first, second) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let (instructions, loops) = structured(&functions);
        let program = Program::new(&instructions, &[(0, "main")]);
        let mut facts = facts(&program, &loops);
        let (first, second) = (first.index(instructions.len()), second.index(instructions.len()));
        let place = |index| Place::Address(program.at(index));
        facts.conflicts.push(Conflict { first: place(first), second: place(second) });
        let outcome = bounded(&program, &facts);
        if !matches!(outcome, Err(Decline::UselessFact(_))) {
            let without = |side| searched(&instructions, &loops, &[side]);
            prop_assert_eq!(outcome, Ok(join(without(first), without(second))));
        }
    }
}
