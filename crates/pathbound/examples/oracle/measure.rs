//! How often each loop iterated in one execution: facts that hold for it.

use pathbound::bound::BoundableLoop;
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::{Callee, Flow, Graph};
use std::collections::{HashMap, HashSet};

/// The first step of an execution that is not an edge of the graph, if any.
pub fn step_outside(graph: &Graph, executed: &[u64]) -> Option<(u64, u64)> {
    executed.windows(2).map(|step| (step[0], step[1])).find(|(from, to)| !is_edge(graph, *from, *to))
}

fn is_edge(graph: &Graph, from: u64, to: u64) -> bool {
    let Some(node) = graph.node(from) else { return false };
    match &node.flow {
        Flow::Call(Callee::Function(callee)) | Flow::Tail(Callee::Function(callee)) => to == *callee,
        // To any caller.
        Flow::Return => true,
        _ => graph.successors(from).any(|next| next == to),
    }
}

/// A call of a function.
#[derive(Default)]
struct Activation {
    /// The instruction executed last.
    last: Option<u64>,
    /// Executions of each loop's place since the loop was entered.
    counts: HashMap<usize, u64>,
}

/// For each loop, the most executions of its place per entry, in any activation. Every step must be an edge of `graph`.
pub fn facts(graph: &Graph, loops: &[BoundableLoop], executed: &[u64]) -> Vec<LoopFact> {
    let mut members: Vec<HashSet<u64>> = vec![HashSet::new(); loops.len()];
    let mut innermost = HashMap::new();
    for (index, one) in loops.iter().enumerate() {
        innermost.extend(one.own.iter().map(|address| (*address, index)));
        let mut around = Some(index);
        while let Some(outer) = around {
            members[outer].extend(&one.own);
            around = loops[outer].around;
        }
    }
    let mut most = vec![0; loops.len()];
    let mut activations = vec![Activation::default()];
    for &address in executed {
        let Some(activation) = activations.last_mut() else { break };
        let mut around = innermost.get(&address).copied();
        let mut inside = false;
        while let Some(index) = around {
            inside |= activation.last.is_some_and(|last| members[index].contains(&last));
            let count = activation.counts.entry(index).or_default();
            if !inside {
                *count = 0;
            }
            if loops[index].place == address {
                *count += 1;
                most[index] = most[index].max(*count);
            }
            around = loops[index].around;
        }
        activation.last = Some(address);
        match graph.node(address).map(|node| &node.flow) {
            Some(Flow::Call(_)) => activations.push(Activation::default()),
            Some(Flow::Tail(_)) => *activation = Activation::default(),
            Some(Flow::Return) => {
                activations.pop();
            }
            _ => {}
        }
    }
    let facts = loops.iter().zip(most);
    facts.map(|(one, at_most)| LoopFact { place: Place::Address(one.place), at_most }).collect()
}
