//! Verifies a certificate with another decoder, trusting neither the solver nor the graph.
//!
//! # Why it is sound
//!
//! Consider an execution of the entry that returns, and for which the facts of the claim hold. It executes nothing of
//! one side of each conflict, nor the place of any loop with a fact of 0. Some case avoids no more than that: it is the
//! case below. Let `rest(a)` be the remaining execution of a function from its instruction `a` to its own return,
//! callees included. Then, with the multiplier `m` of each loop,
//!
//! ```text
//! cost of rest(a) <= potential(a)
//!     + sum over loops of m * (executions of the place in rest(a) - at_most * entries in rest(a))
//! ```
//!
//! by induction on the number of instructions in `rest(a)`. An instruction `a` costs `cost(a -> b)`: 1, or by the model
//! of a core the most cycles that it takes if `b` follows. A return is the last instruction: its cost, whatever
//! follows, is at most its potential, plus m if it is a place. Any other instruction is followed by `rest(b)` of a
//! successor; a call is followed by the whole of its callee and then by `rest(b)`. The checker verifies that
//!
//! ```text
//! potential(a) >= cost(a -> b) - (m if a is a place) + (m * at_most of the loops a -> b enters) + potential(b)
//! ```
//!
//! and for calls, where `b` in the cost is the callee's first instruction, the same with the potential of that, and the
//! value of the loops that entering it enters, added on the right. Adding the bounds of the parts gives the bound of
//! the whole. A tail call is a jump. For the whole execution, the facts make the sum over loops negative or zero: each
//! place is executed at most `at_most` times for each entry. What remains is the entry's potential and the value of the
//! loops that entering it enters; the claim must not be below that.
//!
//! Avoided successors are not in this execution. Neither are those in `no_return`: every path from one of them is
//! verified to lead to another of them, to a trap that no code follows, to a function that is assumed never to return,
//! or to an avoided instruction. So an execution that gets there runs forever or ends there.
//!
//! The second decoder sees neither stack frames nor the tables of exception handlers. So the graph is explored anew,
//! and no instruction that is counted or left out may have an obstacle in it.
//!
//! The loops must be those of the code: the checker finds all of them itself (`check/code.rs`), and the listed
//! instructions, entry and place of a loop must be those of one of them.
//!
//! The remaining assumptions are in [`Checked::assumptions`], which contains no others than the published list, and in
//! [`Checked::facts`], which the user stated beyond it.

mod code;

use crate::assumption::Assumption;
use crate::certificate::{Address, BoundedLoop, Case, Certificate, Proof};
use crate::graph::{self, Callee, Graph, NeverReturns, Obstacle};
use crate::image::{Image, Provenance};
use crate::second_decoder::{Flow, Reader, Target};
use crate::unit::Unit;
use code::Code;
use std::collections::BTreeSet;
use std::fmt;

/// What a certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// What is counted.
    pub unit: Unit,
    /// No execution of the entry that returns costs more, if all of the following holds.
    pub most: u64,
    /// The assumptions from the published list.
    pub assumptions: BTreeSet<Assumption>,
    /// The functions that are known by name never to return, one line each.
    pub never_returning: Vec<String>,
    /// The functions that a user stated not to be called, by name.
    pub not_called: BTreeSet<String>,
    /// The facts that a user stated, one line each; those about functions that are not called too.
    pub facts: Vec<String>,
}

/// Why a certificate is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The instruction at which verification fails, if any.
    pub address: Option<u64>,
    /// The reason.
    pub reason: String,
}

impl std::error::Error for Rejection {}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "rejected at {address:#x}: {}", self.reason),
            None => write!(f, "rejected: {}", self.reason),
        }
    }
}

/// Verifies a certificate about a file.
///
/// # Errors
///
/// [`Rejection`] says at which instruction it fails, or that it is about another file.
pub fn check(certificate: &Certificate, image: &dyn Image, provenance: &Provenance) -> Result<Checked, Rejection> {
    if certificate.binary.sha256 != provenance.sha256 {
        return reject(
            None,
            format!(
                "it is about {:?}, SHA-256 {:?}, not {:?}: check it with that file",
                certificate.binary.file, certificate.binary.sha256, provenance.sha256
            ),
        );
    }
    if certificate.binary.compilers != provenance.compilers {
        return reject(None, "it names other compilers than the file does");
    }
    check_proof(&certificate.proof, image)
}

/// Verifies a proof about the code of an image.
///
/// # Errors
///
/// [`Rejection`] says at which instruction it fails.
pub fn check_proof(proof: &Proof, image: &dyn Image) -> Result<Checked, Rejection> {
    if let Some(core) = proof.unit.core().filter(|core| core.arch() != image.arch()) {
        return reject(None, format!("{} executes {}, not {}", core.name(), core.arch().name(), image.arch().name()));
    }
    let reader = Reader::new(image).map_err(|reason| rejection(None, reason))?;
    check_names(proof, image)?;
    check_never_returning(proof, &reader)?;
    let ends = |at: Address, target: &Target| ends(proof, image, at, target);
    let code = Code::reached(&reader, proof.entry, &ends);
    code::check_loops(proof, &code).or_else(|(at, reason)| reject(Some(at), reason))?;
    let graph = check_against_graph(proof, image, &code)?;
    if let Some(missing) = assumed(proof, &code, &graph).difference(&proof.assumptions).next() {
        return reject(None, format!("it does not list an assumption that it rests on: {}", missing.text()));
    }
    check_cases(proof)?;
    for case in &proof.cases {
        Checker { proof, reader: &reader, case }.check()?;
    }
    let (never_returning, not_called, facts) = stated(proof, &reader, &graph);
    let (unit, most, assumptions) = (proof.unit, proof.most, proof.assumptions.clone());
    Ok(Checked { unit, most, assumptions, never_returning, not_called, facts })
}

/// Verifies that the second decoder agrees with a graph: on the length of every instruction, on whether and how it
/// transfers control, and on the target.
///
/// # Errors
///
/// [`Rejection`] names the first instruction, by address, about which the two disagree.
pub fn second_opinion(graph: &Graph, image: &dyn Image) -> Result<(), Rejection> {
    let reader = Reader::new(image).map_err(|reason| rejection(None, reason))?;
    for (at, node) in graph.nodes() {
        let address = Address(at);
        if node.flow == graph::Flow::Unknown(Obstacle::Undecodable) {
            if reader.decode(address).is_ok() {
                return reject(Some(address), "one decoder finds no instruction, the other does");
            }
            continue;
        }
        let (next, flow) = decode(&reader, address)?;
        let length = next.0.wrapping_sub(at);
        if length != u64::from(node.length) {
            return reject(Some(address), format!("one decoder finds {} bytes, the other {length}", node.length));
        }
        if !node.flow.is_read_as(&flow) {
            return reject(Some(address), format!("one decoder finds {:?}, the other {flow:?}", node.flow));
        }
    }
    Ok(())
}

struct Checker<'a> {
    proof: &'a Proof,
    reader: &'a Reader<'a>,
    case: &'a Case,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), Rejection> {
        if self.case.multipliers.len() != self.proof.loops.len() || self.case.multipliers.iter().any(|m| *m < 0) {
            return reject(None, "a case must have one multiplier for each loop, none of them negative");
        }
        let claimed = i128::from(self.proof.most);
        if self.potential(None, self.proof.entry)?.is_some_and(|most| most > claimed) {
            return reject(
                Some(self.proof.entry),
                format!("the potential is above the {claimed} {} of the claim", self.proof.unit),
            );
        }
        for (address, potential) in &self.case.potentials {
            // The value of what follows may be the largest number: adding to it must not wrap around.
            let least = self.rest(*address)?.map(|rest| rest.saturating_sub(self.executing(*address)));
            if let Some(least) = least.filter(|least| i128::from(*potential) < *least) {
                return reject(Some(*address), format!("the potential {potential} is below {least}"));
            }
        }
        let ends = self.case.no_return.iter().map(|address| Ok((*address, self.never_returns(*address)?)));
        match ends.collect::<Result<Vec<_>, _>>()?.into_iter().find(|(_, ends)| !ends) {
            Some((address, _)) => reject(Some(address), "it is listed as never returning, but may return"),
            None => Ok(()),
        }
    }

    /// The highest value of a path from an instruction on, what it gains as a place aside; `None` if no path from it
    /// returns.
    fn rest(&self, at: Address) -> Result<Option<i128>, Rejection> {
        let (next, flow) = decode(self.reader, at)?;
        match flow {
            Flow::Next => self.costing(at, next),
            Flow::Jump(target) if self.ends(at, &target) => Ok(None),
            Flow::Jump(Target::Address(target)) => self.costing(at, target),
            Flow::Branch(target) => Ok(self.costing(at, next)?.max(self.costing(at, target)?)),
            Flow::Call(target) if self.ends(at, &target) || self.is_left_out(next) => Ok(None),
            Flow::Call(Target::Address(callee)) => {
                let cost = self.cost(at, Some(callee))?;
                let (callee, next) = (self.potential(None, callee)?, self.potential(Some(at), next)?);
                Ok(callee.zip(next).map(|(callee, next)| callee.saturating_add(next).saturating_add(cost)))
            }
            Flow::Return => self.cost(at, None).map(Some),
            Flow::Trap if self.reader.image.code(next.0).is_none() => Ok(None),
            Flow::Uncounted | Flow::Trap | Flow::Elsewhere => reject(Some(at), "it cannot be bounded"),
            Flow::Jump(Target::External(name)) | Flow::Call(Target::External(name)) => {
                reject(Some(at), format!("{name} is in another file and may return"))
            }
            Flow::Jump(Target::Computed) | Flow::Call(Target::Computed) => reject(Some(at), "its target is not known"),
        }
    }

    /// Whether every path from an instruction leads to what is left out.
    fn never_returns(&self, at: Address) -> Result<bool, Rejection> {
        let (next, flow) = decode(self.reader, at)?;
        Ok(match flow {
            Flow::Next | Flow::Uncounted => self.is_left_out(next),
            Flow::Jump(target) => self.ends(at, &target),
            Flow::Branch(target) => self.is_left_out(next) && self.is_left_out(target),
            Flow::Call(target) => self.ends(at, &target) || self.is_left_out(next),
            Flow::Trap => self.is_left_out(next) || self.reader.image.code(next.0).is_none(),
            Flow::Return | Flow::Elsewhere => false,
        })
    }

    /// The highest value of a path that goes to an instruction, from another one of its function or, with `None`, by a
    /// call; `None` if no such path returns.
    fn potential(&self, from: Option<Address>, to: Address) -> Result<Option<i128>, Rejection> {
        if self.is_left_out(to) {
            return Ok(None);
        }
        let Some(potential) = self.case.potentials.get(&to) else {
            return reject(from.or(Some(to)), format!("its successor {to} has no potential"));
        };
        let enters =
            |members: &BTreeSet<Address>| members.contains(&to) && from.is_none_or(|from| !members.contains(&from));
        let loops = self.proof.loops.iter().zip(&self.case.multipliers).filter(|(entered, _)| enters(&entered.members));
        let worth = loops.map(|(entered, m)| i128::from(entered.at_most).saturating_mul(i128::from(*m)));
        Ok(Some(worth.fold(i128::from(*potential), i128::saturating_add)))
    }

    /// The highest value of a path that executes an instruction and then another one of its function.
    fn costing(&self, at: Address, next: Address) -> Result<Option<i128>, Rejection> {
        let Some(potential) = self.potential(Some(at), next)? else { return Ok(None) };
        Ok(Some(potential.saturating_add(self.cost(at, Some(next))?)))
    }

    /// What an instruction costs.
    fn cost(&self, at: Address, next: Option<Address>) -> Result<i128, Rejection> {
        let cost = self.proof.unit.most_by_second(self.reader.image, at.0, next.map(|next| next.0));
        cost.map(i128::from).ok_or_else(|| rejection(Some(at), "its cost is not known"))
    }

    /// The sum of the multipliers of the loops whose place is an instruction.
    fn executing(&self, at: Address) -> i128 {
        let loops = self.proof.loops.iter().zip(&self.case.multipliers);
        loops.filter(|(executed, _)| executed.place == at).map(|(_, m)| i128::from(*m)).sum()
    }

    /// Whether no execution of this case that returns reaches an instruction.
    fn is_left_out(&self, at: Address) -> bool {
        self.case.avoid.contains(&at) || self.case.no_return.contains(&at)
    }

    /// Whether no execution that returns takes a jump or call.
    fn ends(&self, at: Address, target: &Target) -> bool {
        matches!(target, Target::Address(address) if self.is_left_out(*address))
            || ends(self.proof, self.reader.image, at, target)
    }
}

/// Whether a proof assumes that the target of a jump or call never returns.
fn ends(proof: &Proof, image: &dyn Image, at: Address, target: &Target) -> bool {
    proof.never_returning.iter().any(|end| end.calls.contains(&at) && is_of_name(image, target, &end.name))
}

/// Whether a jump or call goes to a function with this name.
fn is_of_name(image: &dyn Image, target: &Target, name: &str) -> bool {
    match target {
        Target::External(external) => external == name,
        Target::Computed => false,
        Target::Address(address) => {
            image.symbol(address.0).is_some_and(|symbol| symbol.address == address.0 && symbol.name == name)
        }
    }
}

/// Checks that the entry and the places of loops have the names and lines in the proof, so that a bound of one function
/// is not read as that of another.
fn check_names(proof: &Proof, image: &dyn Image) -> Result<(), Rejection> {
    let name = image.symbol(proof.entry.0).filter(|symbol| symbol.address == proof.entry.0).map(|symbol| symbol.name);
    if proof.function != name {
        let named =
            |name: &Option<String>| name.as_ref().map_or_else(|| "unnamed".to_owned(), |name| format!("{name:?}"));
        let reason = format!("the entry is {}, not {}", named(&name), named(&proof.function));
        return reject(Some(proof.entry), reason);
    }
    let wrong = |assumed: &&BoundedLoop| assumed.source != image.source(assumed.place.0).into_iter().next();
    match proof.loops.iter().find(wrong) {
        Some(assumed) => reject(Some(assumed.place), "the place of a loop is on another source line than listed"),
        None => Ok(()),
    }
}

/// Checks, on a graph explored anew, that no instruction that is counted or left out has an obstacle.
fn check_against_graph(proof: &Proof, image: &dyn Image, code: &Code<'_>) -> Result<Graph, Rejection> {
    let stated = || proof.never_returning.iter().filter(|end| !NeverReturns::knows(&end.name));
    let never = NeverReturns {
        functions: stated().filter_map(|end| Some(end.address?.0)).collect(),
        names: stated().map(|end| NeverReturns::short(&end.name).to_owned()).collect(),
    };
    let graph = Graph::explored_anew(image, &[proof.entry.0], &never);
    let graph = graph.map_err(|error| rejection(Some(proof.entry), error.to_string()))?;
    for case in &proof.cases {
        // If the code after a call is left out, the call must not escape: it may still lead to a return.
        let passed = |at: &&Address| {
            let next = graph.node(at.0).map(|node| Address(at.0 + u64::from(node.length)));
            graph.escapes(at.0) && next.is_some_and(|next| case.avoid.contains(&next) || case.no_return.contains(&next))
        };
        if let Some(at) = case.potentials.keys().find(passed) {
            return reject(Some(*at), "it may return through an overwritten return address");
        }
        for at in case.potentials.keys().filter(|at| code.reaches(**at)) {
            if graph.node(at.0).is_none() {
                return reject(Some(*at), "the graph does not reach it");
            }
            if let Some(obstacle) = graph.obstacle(at.0) {
                return reject(Some(*at), format!("it cannot be bounded: {obstacle:?}"));
            }
        }
        if let Some(at) = case.no_return.iter().find(|at| graph.goes_elsewhere(at.0) || graph.escapes(at.0)) {
            return reject(Some(*at), "it may return through a handler or an overwritten return address");
        }
    }
    Ok(graph)
}

/// Checks that the calls listed for functions that are assumed never to return are calls of these functions.
fn check_never_returning(proof: &Proof, reader: &Reader<'_>) -> Result<(), Rejection> {
    for end in &proof.never_returning {
        if end.calls.is_empty() {
            return reject(end.address, format!("{} is listed as never returning, but none of its calls is", end.name));
        }
        for at in &end.calls {
            let (Flow::Call(target) | Flow::Jump(target)) = decode(reader, *at)?.1 else {
                return reject(Some(*at), format!("it does not call {}", end.name));
            };
            let address = match &target {
                Target::Address(address) => Some(*address),
                Target::External(_) | Target::Computed => None,
            };
            if !is_of_name(reader.image, &target, &end.name) || address != end.address {
                return reject(Some(*at), format!("it does not call {}", end.name));
            }
        }
    }
    Ok(())
}

/// Checks that whichever side of each conflict an execution avoids, some case avoids no more.
fn check_cases(proof: &Proof) -> Result<(), Rejection> {
    if proof.conflicts.len() > crate::bound::MOST_CONFLICTS {
        return reject(None, format!("it has {} conflicts, more than are checked", proof.conflicts.len()));
    }
    let never = proof.loops.iter().filter(|assumed| assumed.at_most == 0).map(|assumed| assumed.place);
    let never: BTreeSet<Address> = never.collect();
    for way in 0..1u32 << proof.conflicts.len() {
        let sides = proof.conflicts.iter().enumerate();
        let sides = sides.flat_map(|(i, conflict)| if way >> i & 1 == 0 { &conflict.first } else { &conflict.second });
        let avoided: BTreeSet<Address> = sides.chain(&never).copied().collect();
        if !proof.cases.iter().any(|case| case.avoid.is_subset(&avoided)) {
            return reject(None, "there is no case for one choice of a side of each conflict");
        }
    }
    Ok(())
}

/// The assumptions from the published list that a proof must name.
fn assumed(proof: &Proof, code: &Code<'_>, graph: &Graph) -> BTreeSet<Assumption> {
    let always = [Assumption::Loading, Assumption::Signals, Assumption::CallingConvention, Assumption::ReturnAddresses];
    let mut assumed = BTreeSet::from(always);
    for end in &proof.never_returning {
        let known = NeverReturns::knows(&end.name) && end.calls.iter().all(|at| ends_in(graph, *at));
        assumed.insert(if known { Assumption::NeverReturns } else { Assumption::NotCalled });
    }
    if code.has_calls {
        assumed.insert(Assumption::UnwindTables);
    }
    if proof.unit.core().is_some() {
        assumed.insert(Assumption::CoreModel);
    }
    assumed
}

/// The functions that are known by name never to return, a line each; the names of those that a user stated not to be
/// called; and the facts that a user stated, a line each.
fn stated(proof: &Proof, reader: &Reader<'_>, graph: &Graph) -> (Vec<String>, BTreeSet<String>, Vec<String>) {
    let list = |addresses: &BTreeSet<Address>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut facts: Vec<String> = Vec::new();
    facts.extend(proof.loops.iter().map(|assumed| {
        let source = assumed.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
        let (place, at_most, entry, members) = (assumed.place, assumed.at_most, assumed.entry, assumed.members.len());
        format!(
            "{place}{source} is executed at most {at_most} times each time its loop is entered, which begins at {entry} and has \
             {members} instructions"
        )
    }));
    facts.extend(proof.conflicts.iter().map(|conflict| {
        format!("no execution has one of {} and one of {}", list(&conflict.first), list(&conflict.second))
    }));
    let (mut never_returning, mut not_called) = (Vec::new(), BTreeSet::new());
    for end in &proof.never_returning {
        // A name proves nothing about a function that this file defines or may define.
        let by_its_code = |address: Address| code::never_returns(reader, address);
        let by_the_graph = end.calls.iter().all(|at| ends_in(graph, *at));
        let calls = list(&end.calls);
        if NeverReturns::knows(&end.name) && end.address.is_none_or(by_its_code) && by_the_graph {
            let name = &end.name;
            never_returning.push(format!("{name} never returns and its exceptions are not caught (called at {calls})"));
        } else {
            let name = NeverReturns::short(&end.name);
            facts.push(format!(
                "{name} is not called, or it does not return and its exceptions are not caught (at {calls})"
            ));
            not_called.insert(name.to_owned());
        }
    }
    (never_returning, not_called, facts)
}

/// Whether a call never returns in a graph, or is not reached there.
fn ends_in(graph: &Graph, at: Address) -> bool {
    match graph.node(at.0).map(|node| &node.flow) {
        Some(graph::Flow::Call(callee) | graph::Flow::Tail(callee)) => matches!(callee, Callee::NeverReturns { .. }),
        flow => flow.is_none(),
    }
}

fn decode(reader: &Reader<'_>, at: Address) -> Result<(Address, Flow), Rejection> {
    reader.decode(at).map_err(|reason| rejection(Some(at), reason))
}

fn rejection(address: Option<Address>, reason: impl Into<String>) -> Rejection {
    Rejection { address: address.map(|address| address.0), reason: reason.into() }
}

fn reject<T>(address: Option<Address>, reason: impl Into<String>) -> Result<T, Rejection> {
    Err(rejection(address, reason))
}
