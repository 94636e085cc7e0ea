//! The code that is reached from an entry, and its loops. The checker finds them by other algorithms than the solver.

use crate::certificate::{Address, Proof};
use crate::graph::NeverReturns;
use crate::second_decoder::{Flow, Reader, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Code that is reached from a function.
pub(super) struct Code<'a> {
    reader: &'a Reader<'a>,
    /// Whether no execution that returns takes a jump or call.
    ends: &'a dyn Fn(Address, &Target) -> bool,
    /// Where execution may go from each instruction without leaving its function; a tail call is a jump.
    next: BTreeMap<Address, Vec<Address>>,
    /// Instructions that return, or may do so.
    leaving: BTreeSet<Address>,
    /// Calls: call site, callee, and the next instruction.
    calls: Vec<(Address, Address, Address)>,
    /// Where functions begin, and whether they may return.
    functions: BTreeMap<Address, bool>,
    /// Whether anything is called.
    pub has_calls: bool,
}

impl<'a> Code<'a> {
    /// Follows a function and everything it calls.
    pub fn reached(reader: &'a Reader<'a>, entry: Address, ends: &'a dyn Fn(Address, &Target) -> bool) -> Self {
        let mut code = Self {
            reader,
            ends,
            next: BTreeMap::new(),
            leaving: BTreeSet::new(),
            calls: Vec::new(),
            functions: BTreeMap::from([(entry, false)]),
            has_calls: false,
        };
        let mut waiting = vec![entry];
        loop {
            while let Some(at) = waiting.pop() {
                if !code.next.contains_key(&at) {
                    code.read(at, &mut waiting);
                }
            }
            // The code after a call is reached only once the callee is found to return.
            let not_returning: Vec<Address> =
                code.functions.iter().filter_map(|(function, returns)| (!returns).then_some(*function)).collect();
            let found: Vec<Address> = not_returning.into_iter().filter(|function| code.leaves(*function)).collect();
            if found.is_empty() {
                return code;
            }
            code.functions.extend(found.iter().map(|function| (*function, true)));
            for (from, callee, next) in &code.calls {
                if found.contains(callee) {
                    code.next.entry(*from).or_default().push(*next);
                    waiting.push(*next);
                }
            }
        }
    }

    /// Whether a function may return.
    pub fn returns(&self, function: Address) -> bool {
        self.functions.get(&function).copied().unwrap_or(true)
    }

    /// Whether an instruction is reached.
    pub fn reaches(&self, at: Address) -> bool {
        self.next.contains_key(&at)
    }

    fn read(&mut self, at: Address, waiting: &mut Vec<Address>) {
        // An instruction that cannot be decoded may do anything, including return.
        let (next, flow) = self.reader.decode(at).unwrap_or((at, Flow::Elsewhere));
        self.has_calls |= matches!(flow, Flow::Call(_));
        let successors = match flow {
            Flow::Next | Flow::Uncounted => vec![next],
            Flow::Branch(target) => vec![next, target],
            Flow::Jump(target) | Flow::Call(target) if (self.ends)(at, &target) => Vec::new(),
            Flow::Jump(Target::Address(target)) => vec![target],
            Flow::Call(Target::Address(callee)) => {
                let returns = *self.functions.entry(callee).or_insert_with(|| {
                    waiting.push(callee);
                    false
                });
                self.calls.push((at, callee, next));
                if returns { vec![next] } else { Vec::new() }
            }
            Flow::Call(Target::External(_) | Target::Computed) => vec![next],
            // A signal handler may continue after a trap.
            Flow::Trap if self.reader.image.code(next.0).is_some() => vec![next],
            Flow::Trap => Vec::new(),
            Flow::Return | Flow::Elsewhere | Flow::Jump(Target::External(_) | Target::Computed) => {
                self.leaving.insert(at);
                Vec::new()
            }
        };
        waiting.extend(&successors);
        self.next.insert(at, successors);
    }

    /// Whether a return can be reached from an instruction within its function.
    fn leaves(&self, from: Address) -> bool {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(at) = waiting.pop() {
            if self.leaving.contains(&at) {
                return true;
            }
            if seen.insert(at) {
                waiting.extend(self.next.get(&at).into_iter().flatten());
            }
        }
        false
    }

    /// The loops: from their instructions to the one through which each is entered. A loop is a strongly connected
    /// component that is entered through a single instruction; the components that remain without that instruction are
    /// the loops inside it.
    pub fn loops(&self) -> BTreeMap<BTreeSet<Address>, Address> {
        let mut before: BTreeMap<Address, Vec<Address>> = BTreeMap::new();
        for (at, next) in &self.next {
            next.iter().for_each(|next| before.entry(*next).or_default().push(*at));
        }
        let mut loops = BTreeMap::new();
        let mut waiting: Vec<BTreeSet<Address>> = vec![self.next.keys().copied().collect()];
        while let Some(among) = waiting.pop() {
            for members in self.cycles(among, &before) {
                let from_outside = |at: &&Address| {
                    let jumps = before.get(at).into_iter().flatten().any(|from| !members.contains(from));
                    jumps || self.functions.contains_key(at)
                };
                let mut entries = members.iter().filter(from_outside);
                if let (Some(entry), None) = (entries.next().copied(), entries.next()) {
                    let mut inside = members.clone();
                    inside.remove(&entry);
                    waiting.push(inside);
                    loops.insert(members, entry);
                }
            }
        }
        loops
    }

    /// The strongly connected components of these instructions that contain a cycle: what can be reached both forwards
    /// and backwards from one of them, after instructions without predecessors or successors are removed.
    fn cycles(&self, mut among: BTreeSet<Address>, before: &BTreeMap<Address, Vec<Address>>) -> Vec<BTreeSet<Address>> {
        let mut cycles = Vec::new();
        loop {
            let mut waiting: Vec<Address> = among.iter().copied().collect();
            while let Some(at) = waiting.pop() {
                let goes_on = |ways: &BTreeMap<Address, Vec<Address>>| {
                    ways.get(&at).into_iter().flatten().any(|other| among.contains(other))
                };
                if among.contains(&at) && !(goes_on(&self.next) && goes_on(before)) {
                    among.remove(&at);
                    waiting.extend(self.next.get(&at).into_iter().flatten());
                    waiting.extend(before.get(&at).into_iter().flatten());
                }
            }
            let Some(first) = among.first().copied() else { return cycles };
            let reach = |ways: &BTreeMap<Address, Vec<Address>>| {
                let (mut seen, mut waiting) = (BTreeSet::new(), vec![first]);
                while let Some(at) = waiting.pop() {
                    for other in ways.get(&at).into_iter().flatten() {
                        if among.contains(other) && seen.insert(*other) {
                            waiting.push(*other);
                        }
                    }
                }
                seen
            };
            let cycle: BTreeSet<Address> = reach(&self.next).intersection(&reach(before)).copied().collect();
            // An instruction between two cycles is in neither.
            among.remove(&first);
            if cycle.contains(&first) {
                among.retain(|at| !cycle.contains(at));
                cycles.push(cycle);
            }
        }
    }
}

/// Whether a function of the image never returns by its code, and by the names of functions in other files.
pub(super) fn never_returns(reader: &Reader<'_>, function: Address) -> bool {
    let by_name = |_: Address, target: &Target| matches!(target, Target::External(name) if NeverReturns::knows(name));
    let find = || !Code::reached(reader, function, &by_name).returns(function);
    reader.image.examined().map_or_else(find, |examined| examined.never_returns(function.0, find))
}

/// Checks that the loops of a proof are those of the code, each listed once, with its place outside inner loops.
pub(super) fn check_loops(proof: &Proof, code: &Code<'_>) -> Result<(), (Address, &'static str)> {
    if proof.loops.is_empty() {
        return Ok(());
    }
    let loops = code.loops();
    let mut listed = BTreeSet::new();
    for assumed in &proof.loops {
        match loops.get(&assumed.members) {
            None => return Err((assumed.place, "the instructions listed as a loop are not a loop")),
            Some(entry) if *entry != assumed.entry => {
                return Err((assumed.entry, "the loop is entered through another instruction"));
            }
            Some(_) => {}
        }
        let inner =
            |members: &BTreeSet<Address>| members.contains(&assumed.place) && members.len() < assumed.members.len();
        if !assumed.members.contains(&assumed.place) || loops.keys().any(inner) {
            return Err((assumed.place, "the place of a loop is outside of it, or in a loop inside it"));
        }
        if !listed.insert(&assumed.members) {
            return Err((assumed.place, "a loop is listed twice"));
        }
    }
    Ok(())
}
