//! The most and the least that an execution costs between an entry and its return.
//!
//! Every instruction costs 1 or, in [cycles](crate::Unit), what the model of a core says. The bound covers executions
//! that *return*: paths into calls of functions that never return, and into traps that no code follows, are left out
//! and listed. Functions are solved callees first; a call costs what its callee costs. Longest paths are found twice:
//! by potentials (`bound/longest.rs`), which form the certificate, and, if there are loops, as a linear program
//! (`bound/ipet.rs`), which gives the witness. If the two differ, there is no bound.
//!
//! [`LoopFact`](crate::facts::LoopFact) defines what a fact about a loop means. Of several facts that bound one loop,
//! the least is used; facts about addresses take precedence over facts about lines. Conflicts are resolved by cases: in
//! each, the instructions of one place of every conflict are not executed. The bound is the maximum over all cases.
//!
//! # Time
//!
//! Per case, O(m log m) for m instructions without loops; each level of nesting adds a round. k conflicts give up to
//! 2^k cases.

mod ipet;
mod longest;
mod loops;
mod paths;
mod witness;

use crate::assumption::Assumption;
use crate::certificate::{Address, BoundedLoop, Case, Exclusion, NeverReturning, Proof};
use crate::decline::{Decline, Site};
use crate::facts::{Conflict, Facts, Place};
use crate::graph::{Callee, Flow, Graph, Obstacle};
use crate::image::Image;
use crate::unit::Unit;
use longest::{Longest, TooLarge};
use loops::Loops;
use paths::Paths;
use std::collections::{BTreeMap, BTreeSet};

/// The most conflicts that are resolved, by 2^8 cases.
pub const MOST_CONFLICTS: usize = 8;

/// The most and the least that an execution costs between an entry and its return.
#[derive(Clone, Debug)]
pub struct Bound {
    /// The entry point.
    pub entry: u64,
    /// What is counted.
    pub unit: Unit,
    /// The most that an execution costs that returns, the entry's first instruction and its return included.
    pub most: u64,
    /// The least.
    pub least: u64,
    /// A longest path, in order of execution; in functions with loops, in order of address. Callees follow their calls.
    /// If the path has more than a million steps, each function is listed once, after all its callers. The costs add up
    /// to [`most`](Self::most).
    pub witness: Vec<Step>,
    /// Calls that never return, whose paths are not bounded: the name of the callee, and the call. Calls that lead to
    /// [`not_called`](Self::not_called) alone are not listed.
    pub never_returning: Vec<(String, Site)>,
    /// Functions that a user's statement excludes: the bound does not cover executions that call them.
    pub not_called: BTreeSet<String>,
    /// The assumptions of the bound besides the facts.
    pub assumptions: BTreeSet<Assumption>,
    /// The proof; [`Certificate::of`](crate::Certificate::of) binds it to a file.
    pub proof: Proof,
}

/// An instruction of the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its address.
    pub address: u64,
    /// How often it is executed.
    pub executions: u64,
    /// What its executions cost.
    pub cost: u64,
    /// Depth of calls: 0 in the entry.
    pub depth: u32,
}

/// A loop on the paths of an entry that return, which a fact can bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundableLoop {
    /// The instruction through which it is entered.
    pub header: u64,
    /// The instruction at which to count its iterations: the last one that every iteration executes.
    pub place: u64,
    /// Whether that is the header: a loop that tests first executes it once more than its body.
    pub once_more: bool,
    /// Its instructions without those of loops inside it.
    pub own: BTreeSet<u64>,
    /// The index of the loop around it.
    pub around: Option<usize>,
}

/// The loops that a bound of an entry needs facts about, outer loops before inner ones.
///
/// # Errors
///
/// Reasons that no fact removes: [`Decline::Obstacle`], [`Decline::Recursion`], [`Decline::IrreducibleLoop`],
/// [`Decline::NeverReturns`].
pub fn loops(image: &dyn Image, graph: &Graph, entry: u64) -> Result<Vec<BoundableLoop>, Decline> {
    let paths = Paths::new(image, graph, entry, &BTreeSet::new(), Unit::Instructions)?;
    if !paths.exist() {
        return Err(Decline::NeverReturns(Site::of(image, entry)));
    }
    passable(image, graph, &paths)?;
    Loops::found(image, &paths).map(|loops| loops.boundable(&paths))
}

/// Bounds the instructions of an entry point.
///
/// # Errors
///
/// [`Decline`] says what cannot be bounded and where.
pub fn bound(image: &dyn Image, graph: &Graph, entry: u64, facts: &Facts) -> Result<Bound, Decline> {
    bound_in(Unit::Instructions, image, graph, entry, facts)
}

/// Bounds what an entry point costs in a unit.
///
/// # Errors
///
/// [`Decline`] says what cannot be bounded and where.
pub fn bound_in(unit: Unit, image: &dyn Image, graph: &Graph, entry: u64, facts: &Facts) -> Result<Bound, Decline> {
    if let Some(core) = unit.core().filter(|core| core.arch() != image.arch()) {
        return Err(Decline::OtherCore(core, image.arch()));
    }
    if facts.conflicts.len() > MOST_CONFLICTS {
        return Err(Decline::TooManyConflicts(facts.conflicts.len()));
    }
    let paths = Paths::new(image, graph, entry, &BTreeSet::new(), unit)?;
    if !paths.exist() {
        return Err(Decline::NeverReturns(Site::of(image, entry)));
    }
    if facts.conflicts.is_empty() {
        // Reasons that no fact removes are reported before facts are asked for.
        passable(image, graph, &paths)?;
    }
    let loops = Loops::new(image, &paths, &facts.loops)?;
    let conflicts = facts.conflicts.iter().map(|conflict| exclusion(image, &paths, conflict));
    let conflicts = conflicts.collect::<Result<Vec<_>, _>>()?;

    let mut cases = Vec::new();
    let mut shortest: Option<i64> = None;
    let mut best: Option<(i64, Vec<Step>)> = None;
    for avoid in avoidances(&loops, &conflicts) {
        let paths = Paths::new(image, graph, entry, &avoid, unit)?;
        passable(image, graph, &paths)?;
        let longest = Longest::new(&paths, &loops).map_err(|TooLarge(at)| Decline::TooLarge(Site::of(image, at)))?;
        if let (Some(most), Some(fewest)) = (longest.bounds.get(&entry), longest::shortest(&paths).get(&entry)) {
            // Both solvers solve every case, because each is part of the proof.
            let witness = witness::witness(&paths, &loops, &longest).map_err(Decline::Disagreement)?;
            if best.as_ref().is_none_or(|(best, _)| best < most) {
                best = Some((*most, witness));
            }
            shortest = Some(shortest.map_or(*fewest, |shortest| shortest.min(*fewest)));
        }
        cases.push(Case {
            avoid: addresses(avoid),
            multipliers: longest.multipliers,
            potentials: longest.potentials.into_iter().map(|(address, most)| (Address(address), most)).collect(),
            no_return: addresses(paths.dead),
        });
    }
    let (Some((most, witness)), Some(shortest)) = (best, shortest) else {
        return Err(Decline::NeverReturns(Site::of(image, entry)));
    };
    let natural =
        |cost: i64| u64::try_from(cost).map_err(|_| Decline::Disagreement(format!("a bound is negative: {cost}")));
    let (most, least) = (natural(most)?, natural(shortest)?);
    let mut proof = Proof {
        entry: Address(entry),
        function: image.symbol(entry).filter(|symbol| symbol.address == entry).map(|symbol| symbol.name),
        unit,
        most,
        assumptions: BTreeSet::new(),
        loops: described(image, loops),
        conflicts,
        never_returning: assumed_never_returning(graph, &paths, &cases),
        cases,
    };
    let (never_returning, not_called) = paths.never_returning(image, graph);
    let assumptions = Assumption::of(graph, &proof);
    proof.assumptions.clone_from(&assumptions);
    Ok(Bound { entry, unit, most, least, witness, never_returning, not_called, assumptions, proof })
}

/// Declines if there is an obstacle on the paths.
fn passable(image: &dyn Image, graph: &Graph, paths: &Paths) -> Result<(), Decline> {
    match paths.obstacle(graph) {
        Some((address, obstacle)) => {
            let site = blamed(image, paths, address, &obstacle);
            Err(Decline::Obstacle(obstacle, Site::of(image, site)))
        }
        None => match paths.unpriced {
            Some(address) => Err(Decline::UnknownCost(Site::of(image, address))),
            None => Ok(()),
        },
    }
}

/// The instruction to report for an obstacle: for a stub that the linker made, which has no source line, a call of it.
fn blamed(image: &dyn Image, paths: &Paths, address: u64, obstacle: &Obstacle) -> u64 {
    if !matches!(obstacle, Obstacle::ExternalCall(_)) || !image.source(address).is_empty() {
        return address;
    }
    let Some(stub) = image.symbol(address) else { return address };
    let call = paths.points.iter().find(|(_, point)| point.callee == Some(stub.address));
    call.map_or(address, |(call, _)| *call)
}

/// The instructions a conflict is about.
fn exclusion(image: &dyn Image, paths: &Paths, conflict: &Conflict) -> Result<Exclusion, Decline> {
    let find = |place: &Place| {
        let found = place.find(image, paths.points.keys().copied());
        if found.is_empty() { Err(Decline::UselessFact(place.clone())) } else { Ok(addresses(found)) }
    };
    Ok(Exclusion { first: find(&conflict.first)?, second: find(&conflict.second)? })
}

/// The instructions that each case avoids: one place of every conflict, and the places of loops with a fact of 0.
fn avoidances(loops: &Loops, conflicts: &[Exclusion]) -> BTreeSet<BTreeSet<u64>> {
    let never = loops.iter().filter(|(_, bounded)| bounded.at_most == 0).map(|(_, bounded)| bounded.place);
    let mut cases = BTreeSet::from([never.collect::<BTreeSet<u64>>()]);
    for conflict in conflicts {
        let with = |side: &BTreeSet<Address>| {
            let side: Vec<u64> = side.iter().map(|address| address.0).collect();
            cases.iter().map(|case| case.iter().chain(&side).copied().collect()).collect::<Vec<BTreeSet<u64>>>()
        };
        cases = with(&conflict.first).into_iter().chain(with(&conflict.second)).collect();
    }
    cases
}

fn described(image: &dyn Image, loops: Loops) -> Vec<BoundedLoop> {
    let described = loops.take().map(|bounded| BoundedLoop {
        entry: Address(bounded.header),
        place: Address(bounded.place),
        at_most: bounded.at_most,
        source: image.source(bounded.place).into_iter().next(),
        members: addresses(bounded.members),
    });
    described.collect()
}

/// The functions known or stated never to return on which the cases and the extents of loops rely.
fn assumed_never_returning(graph: &Graph, paths: &Paths, cases: &[Case]) -> Vec<NeverReturning> {
    let mut assumed: BTreeMap<(&str, Option<u64>), BTreeSet<Address>> = BTreeMap::new();
    let passed_by = paths.dead.iter().map(|address| Address(*address));
    for site in cases.iter().flat_map(|case| case.no_return.iter().copied()).chain(passed_by) {
        if let Some(Flow::Call(callee) | Flow::Tail(callee)) = graph.node(site.0).map(|node| &node.flow)
            && let Callee::NeverReturns { address, name, .. } = callee
        {
            assumed.entry((name, *address)).or_default().insert(site);
        }
    }
    let described = assumed.into_iter().map(|((name, address), calls)| NeverReturning {
        name: name.to_owned(),
        address: address.map(Address),
        calls,
    });
    described.collect()
}

fn addresses(addresses: impl IntoIterator<Item = u64>) -> BTreeSet<Address> {
    addresses.into_iter().map(Address).collect()
}
