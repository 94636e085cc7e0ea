//! The path that has the most instructions, callees expanded at their calls.

use super::Step;
use super::ipet;
use super::longest::Longest;
use super::loops::Loops;
use super::paths::Paths;
use std::collections::BTreeMap;

/// Finds a longest path, and that it is as long as the bound says. It has a step for every instruction executed outside loops.
///
/// # Errors
///
/// How it differs.
pub(super) fn witness(paths: &Paths, loops: &Loops, longest: &Longest<'_>) -> Result<Vec<Step>, String> {
    let functions = paths.functions.iter().map(|function| Ok((*function, within(paths, loops, longest, *function)?)));
    let functions: BTreeMap<u64, Vec<(u64, u64)>> = functions.collect::<Result<_, String>>()?;
    let call = |waiting: &mut Vec<Step>, function: u64, times: u64, depth: u32| {
        for (address, executions) in functions[&function].iter().rev() {
            let executions =
                executions.checked_mul(times).ok_or("the witness has more executions than can be counted")?;
            waiting.push(Step { address: *address, executions, depth });
        }
        Ok::<(), String>(())
    };

    let mut witness = Vec::new();
    let mut total: u64 = 0;
    // What is still to be written, the last first.
    let mut waiting = Vec::new();
    call(&mut waiting, paths.entry, 1, 0)?;
    while let Some(step) = waiting.pop() {
        witness.push(step);
        total = total.checked_add(step.executions).ok_or("the witness has more executions than can be counted")?;
        if let Some(callee) = paths.points[&step.address].callee {
            call(&mut waiting, callee, step.executions, step.depth + 1)?;
        }
    }
    let bound = longest.bounds[&paths.entry];
    if i128::from(total) == i128::from(bound) {
        Ok(witness)
    } else {
        Err(format!("the bound is {bound}, the longest path has {total}"))
    }
}

/// The instructions of one execution of a function: the very path, or, where there are loops, by address with how often they
/// are executed.
fn within(paths: &Paths, loops: &Loops, longest: &Longest<'_>, function: u64) -> Result<Vec<(u64, u64)>, String> {
    if paths.body(function).iter().any(|address| loops.around(*address).next().is_some()) {
        return Ok(ipet::executions(paths, loops, longest, function)?.into_iter().collect());
    }
    let path = std::iter::successors(Some(function), |address| longest.next(*address));
    Ok(path.map(|address| (address, 1)).collect())
}
