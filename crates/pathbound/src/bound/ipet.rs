//! The second solver: implicit path enumeration (Li and Malik, DAC 1995).
//!
//! The variables of a linear program are how often each edge is taken. The flow into a block equals the flow out of it,
//! the function is entered once, and a loop's place is executed at most as often as the loop is entered times the
//! number in its fact. The solution with the highest cost gives the number of executions of each instruction. The
//! problem is the dual of that of potentials: a solution and potentials that agree prove each other optimal. The
//! program is solved in floating-point numbers; the solution is verified in integers.

use super::longest::Longest;
use super::loops::Loops;
use super::paths::Paths;
use microlp::{ComparisonOp, OptimizationDirection, Problem};
use std::collections::BTreeMap;

/// A basic block.
#[derive(Debug, Default)]
struct Block {
    instructions: Vec<u64>,
    /// Indexes of the edges that lead in and out.
    into: Vec<usize>,
    out: Vec<usize>,
}

impl Block {
    fn last(&self) -> u64 {
        self.instructions[self.instructions.len() - 1]
    }
}

/// How often each instruction of a function is executed on a longest path, and what its executions cost without
/// callees.
///
/// # Errors
///
/// How the solution differs from the bound the potentials give.
pub(super) fn executions(
    paths: &Paths,
    loops: &Loops,
    longest: &Longest<'_>,
    function: u64,
) -> Result<BTreeMap<u64, Executed>, String> {
    let (mut blocks, leader) = blocks(paths, function);
    let mut edges = Vec::new();
    for from in 0..blocks.len() {
        let last = blocks[from].last();
        for next in &paths.points[&last].next {
            blocks[from].out.push(edges.len());
            blocks[leader[next]].into.push(edges.len());
            edges.push((last, *next));
        }
    }
    // Without the last instruction, whose cost is that of the edge that is taken, or of leaving the function.
    let costs: Vec<i64> = blocks
        .iter()
        .map(|block| {
            let pairs = block.instructions.windows(2).map(|pair| longest.cost(pair[0], Some(pair[1])));
            let leaving = block.out.is_empty().then(|| longest.cost(block.last(), None));
            pairs.chain(leaving).try_fold(0i64, |sum, cost| sum.checked_add(cost?))
        })
        .collect::<Option<_>>()
        .ok_or("the cost of a block overflows")?;
    let edge_costs = edges.iter().map(|(from, to)| longest.cost(*from, Some(*to))).collect::<Option<Vec<i64>>>();
    let edge_costs = edge_costs.ok_or("the cost of an edge overflows")?;

    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let unlimited = (0.0, f64::INFINITY);
    let worth = |edge: usize| edge_costs[edge] as f64 + costs[leader[&edges[edge].1]] as f64;
    let variables: Vec<_> = (0..edges.len()).map(|edge| problem.add_var(worth(edge), unlimited)).collect();
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| !block.out.is_empty()) {
        let mut flow: BTreeMap<usize, f64> = block.into.iter().map(|edge| (*edge, 1.0)).collect();
        block.out.iter().for_each(|edge| *flow.entry(*edge).or_default() -= 1.0);
        let terms: Vec<_> = flow.into_iter().filter(|(_, c)| *c != 0.0).map(|(edge, c)| (variables[edge], c)).collect();
        problem.add_constraint(terms, ComparisonOp::Eq, -entered(index) as f64);
    }
    // Loops that do not iterate in this case need no constraint, and their headers may lie within blocks.
    let iterating =
        loops.iter().filter(|(index, one)| longest.multipliers[*index] > 0 && leader.contains_key(&one.header));
    let limits: Vec<Limit> = iterating
        .map(|(_, one)| Limit {
            block: blocks.iter().position(|block| block.instructions.contains(&one.place)),
            entries: (0..edges.len())
                .filter(|edge| {
                    let (from, to) = edges[*edge];
                    one.members.contains(&to) && !one.members.contains(&from)
                })
                .collect(),
            entered: i128::from(one.members.contains(&function)),
            at_most: i128::from(one.at_most),
        })
        .collect();
    for limit in &limits {
        let place = limit.block.ok_or("the place of a loop is in no block of its function")?;
        let mut terms: BTreeMap<usize, f64> = blocks[place].into.iter().map(|edge| (*edge, 1.0)).collect();
        limit.entries.iter().for_each(|edge| *terms.entry(*edge).or_default() -= limit.at_most as f64);
        let terms: Vec<_> =
            terms.into_iter().filter(|(_, c)| *c != 0.0).map(|(edge, c)| (variables[edge], c)).collect();
        problem.add_constraint(terms, ComparisonOp::Le, (limit.entered * limit.at_most - entered(place)) as f64);
    }
    let outcome = problem.solve().map_err(|error| format!("the linear program of {function:#x}: {error}"))?;
    let solution =
        outcome.into_solution().map_err(|error| format!("the linear program of {function:#x}: {error:?}"))?;
    let taken: Vec<i128> = variables.iter().map(|variable| solution.var_value(*variable).round() as i128).collect();

    let executed = |block: usize| blocks[block].into.iter().map(|edge| taken[*edge]).sum::<i128>() + entered(block);
    let flows = (0..blocks.len()).all(|block| {
        let out: i128 = blocks[block].out.iter().map(|edge| taken[*edge]).sum();
        blocks[block].out.is_empty() || executed(block) == out
    });
    let within = limits.iter().all(|limit| {
        let entries = limit.entries.iter().map(|edge| taken[*edge]).sum::<i128>() + limit.entered;
        limit.block.is_some_and(|place| executed(place) <= limit.at_most * entries)
    });
    let in_blocks: i128 = (0..blocks.len()).map(|block| executed(block) * i128::from(costs[block])).sum();
    let total = in_blocks + taken.iter().zip(&edge_costs).map(|(taken, cost)| taken * i128::from(*cost)).sum::<i128>();
    let bound = longest.bounds[&function];
    if !flows || !within || taken.iter().any(|taken| *taken < 0) || total != i128::from(bound) {
        return Err(format!(
            "{function:#x} costs {bound} by its potentials, {} by its linear program ({total} rounded)",
            solution.objective() + costs[0] as f64,
        ));
    }
    let mut executions = BTreeMap::new();
    for (index, block) in blocks.iter().enumerate().filter(|(index, _)| executed(*index) > 0) {
        let times = executed(index);
        let mut enter = |address, cost| {
            let (times, cost) = (u64::try_from(times), u64::try_from(cost));
            executions.insert(address, Executed { times: times.ok()?, cost: cost.ok()? });
            Some(())
        };
        let own = |address: u64, next: Option<u64>| i128::from(paths.points[&address].cost(next).most);
        let within =
            block.instructions.windows(2).try_for_each(|pair| enter(pair[0], times * own(pair[0], Some(pair[1]))));
        let last = match block.out.as_slice() {
            [] => times * own(block.last(), None),
            out => out.iter().map(|edge| taken[*edge] * own(block.last(), Some(edges[*edge].1))).sum(),
        };
        within.and_then(|()| enter(block.last(), last)).ok_or("more executions than can be counted")?;
    }
    Ok(executions)
}

/// The executions of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Executed {
    pub times: u64,
    /// What all of them cost, without callees.
    pub cost: u64,
}

/// A loop fact, as a constraint on edges.
struct Limit {
    /// The block of the place.
    block: Option<usize>,
    /// The edges that enter the loop.
    entries: Vec<usize>,
    /// How often calls enter the loop.
    entered: i128,
    at_most: i128,
}

/// How often calls enter a block: the first block is the function's entry.
fn entered(block: usize) -> i128 {
    i128::from(block == 0)
}

/// The blocks of a function, the entry block first, and the index of the block that each leader begins.
fn blocks(paths: &Paths, function: u64) -> (Vec<Block>, BTreeMap<u64, usize>) {
    let body = paths.body(function);
    let mut before: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for address in &body {
        for next in &paths.points[address].next {
            before.entry(*next).or_default().push(*address);
        }
    }
    let leads = |address: u64| match before.get(&address).map(Vec::as_slice) {
        Some(&[only]) => address == function || paths.points[&only].next.len() > 1,
        _ => true,
    };
    let rest = body.iter().copied().filter(|address| *address != function && leads(*address));
    let mut blocks = Vec::new();
    let mut leader = BTreeMap::new();
    for first in std::iter::once(function).chain(rest) {
        let mut instructions = vec![first];
        while let [next] = paths.points[&instructions[instructions.len() - 1]].next.as_slice()
            && !leads(*next)
        {
            instructions.push(*next);
        }
        leader.insert(first, blocks.len());
        blocks.push(Block { instructions, ..Block::default() });
    }
    (blocks, leader)
}
