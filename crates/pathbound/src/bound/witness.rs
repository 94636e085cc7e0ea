//! A longest path, with callees expanded at their calls.

use super::Step;
use super::ipet::{self, Executed};
use super::longest::Longest;
use super::loops::Loops;
use super::paths::Paths;
use std::collections::BTreeMap;

/// The most steps that are written out: with nested calls, the full path can be too long to store.
const MOST_STEPS: u64 = 1 << 20;

const TOO_MANY: &str = "the witness has more executions than can be counted";

/// Finds a longest path, and verifies that it is as long as the bound. It has a step for every instruction executed
/// outside loops; if these are more than [`MOST_STEPS`], one for each instruction.
///
/// # Errors
///
/// How the length differs.
pub(super) fn witness(paths: &Paths, loops: &Loops, longest: &Longest<'_>) -> Result<Vec<Step>, String> {
    let functions = paths.functions.iter().map(|function| Ok((*function, within(paths, loops, longest, *function)?)));
    let functions: BTreeMap<u64, Vec<(u64, Executed)>> = functions.collect::<Result<_, String>>()?;
    let call = |waiting: &mut Vec<Step>, function: u64, times: u64, depth: u32| {
        for (address, executed) in functions[&function].iter().rev() {
            waiting.push(step(*address, *executed, times, depth)?);
        }
        Ok::<(), String>(())
    };

    let mut steps: BTreeMap<u64, u64> = BTreeMap::new();
    for function in &paths.functions {
        let of_callee = |address: &u64| paths.points[address].callee.map_or(0, |callee| steps[&callee]);
        let all = functions[function].iter().map(|(address, _)| of_callee(address).saturating_add(1));
        steps.insert(*function, all.fold(0, u64::saturating_add));
    }
    let bound = longest.bounds[&paths.entry];
    if steps[&paths.entry] > MOST_STEPS {
        return summary(paths, &functions, bound);
    }

    let mut witness = Vec::new();
    let mut total: u64 = 0;
    // The steps that are still to be written, in reverse.
    let mut waiting = Vec::new();
    call(&mut waiting, paths.entry, 1, 0)?;
    while let Some(step) = waiting.pop() {
        witness.push(step);
        total = total.checked_add(step.cost).ok_or(TOO_MANY)?;
        if let Some(callee) = paths.points[&step.address].callee {
            call(&mut waiting, callee, step.executions, step.depth + 1)?;
        }
    }
    as_long(witness, total, bound)
}

/// The path with every instruction once, callers before callees.
fn summary(paths: &Paths, functions: &BTreeMap<u64, Vec<(u64, Executed)>>, bound: i64) -> Result<Vec<Step>, String> {
    let mut called: BTreeMap<u64, (u64, u32)> = BTreeMap::from([(paths.entry, (1, 0))]);
    let (mut witness, mut total) = (Vec::new(), 0u64);
    for function in paths.functions.iter().rev() {
        // The longest path does not call this function.
        let Some((times, depth)) = called.get(function).copied() else { continue };
        for (address, executed) in &functions[function] {
            let step = step(*address, *executed, times, depth)?;
            total = total.checked_add(step.cost).ok_or(TOO_MANY)?;
            witness.push(step);
            if let Some(callee) = paths.points[address].callee {
                let (calls, deepest) = called.entry(callee).or_default();
                *calls = calls.checked_add(step.executions).ok_or(TOO_MANY)?;
                *deepest = (*deepest).max(depth + 1);
            }
        }
    }
    as_long(witness, total, bound)
}

fn as_long(witness: Vec<Step>, total: u64, bound: i64) -> Result<Vec<Step>, String> {
    if i128::from(total) == i128::from(bound) {
        Ok(witness)
    } else {
        Err(format!("the bound is {bound}, the longest path costs {total}"))
    }
}

/// The executions of an instruction in a function that is executed so often.
fn step(address: u64, executed: Executed, times: u64, depth: u32) -> Result<Step, String> {
    let executions = executed.times.checked_mul(times).ok_or(TOO_MANY)?;
    Ok(Step { address, executions, cost: executed.cost.checked_mul(times).ok_or(TOO_MANY)?, depth })
}

/// The instructions of one execution of a function, with their executions: in order of execution, or, if
/// there are loops, in order of address.
fn within(paths: &Paths, loops: &Loops, longest: &Longest<'_>, function: u64) -> Result<Vec<(u64, Executed)>, String> {
    if paths.body(function).iter().any(|address| loops.around(*address).next().is_some()) {
        return Ok(ipet::executions(paths, loops, longest, function)?.into_iter().collect());
    }
    let path: Vec<u64> = std::iter::successors(Some(function), |address| longest.next(*address)).collect();
    let next = path.iter().skip(1).copied().map(Some).chain([None]);
    let costs = path.iter().zip(next).map(|(address, next)| u64::try_from(paths.points[address].cost(next).most));
    let executed = path.iter().zip(costs).map(|(address, cost)| Ok((*address, Executed { times: 1, cost: cost? })));
    executed.collect::<Result<_, std::num::TryFromIntError>>().map_err(|_| "a cost is negative".to_owned())
}
