//! From code to graph.
//!
//! Instructions are decoded as they are reached. Behind a call the code is reached only once the callee is known to return,
//! because behind a call that never does compilers put anything. So functions count as never returning until a
//! return is found in them; finding one reaches new code, which may hold further returns: a least fixed point.

use super::{Callee, Flow, Graph, GraphError, NeverReturns, Node, Obstacle};
use crate::arch::x86_64::{self, Frame};
use crate::arch::{Target, Transfer};
use crate::image::{Image, Pointer, Symbol};
use iced_x86::InstructionInfoFactory;
use std::collections::{BTreeMap, BTreeSet};

impl Graph {
    /// Follows everything from the entries on.
    ///
    /// # Errors
    ///
    /// [`GraphError::NoCode`] where an entry is not the address of code.
    pub fn explore(image: &dyn Image, entries: &[u64], never: &NeverReturns) -> Result<Self, GraphError> {
        if let Some(entry) = entries.iter().find(|entry| image.code(**entry).is_none()) {
            return Err(GraphError::NoCode(*entry));
        }
        let graph = Self {
            nodes: BTreeMap::new(),
            functions: BTreeMap::new(),
            unmatched: BTreeSet::new(),
            catching: BTreeSet::new(),
        };
        let mut explorer = Explorer { image, never, graph, pads: BTreeMap::new(), waiting: Vec::new() };
        entries.iter().for_each(|entry| explorer.function(*entry));
        loop {
            explorer.decode_what_is_reached();
            if !explorer.find_returning_functions() {
                break;
            }
        }
        let mut graph = explorer.without_handlers(entries);
        graph.unmatched = unmatched_returns(&graph, image);
        Ok(graph)
    }
}

struct Explorer<'a> {
    image: &'a dyn Image,
    never: &'a NeverReturns,
    graph: Graph,
    /// Where calls go on if their callee throws.
    pads: BTreeMap<u64, u64>,
    /// Addresses that are reached and may not have been decoded.
    waiting: Vec<u64>,
}

impl Explorer<'_> {
    /// Enters a function into the graph.
    fn function(&mut self, address: u64) {
        self.graph.functions.entry(address).or_insert_with(|| {
            self.waiting.push(address);
            false
        });
    }

    fn decode_what_is_reached(&mut self) {
        while let Some(address) = self.waiting.pop() {
            if self.graph.nodes.contains_key(&address) {
                continue;
            }
            let node = self.decode(address);
            if matches!(node.flow, Flow::Call(_))
                && let Some(pad) = self.image.landing_pad(address).filter(|pad| self.image.code(*pad).is_some())
            {
                self.pads.insert(address, pad);
                self.waiting.push(pad);
            }
            self.graph.nodes.insert(address, node);
            self.waiting.extend(self.graph.successors(address));
        }
    }

    fn decode(&mut self, address: u64) -> Node {
        let Some(decoded) = self.image.code(address).and_then(|code| x86_64::decode(code, address)) else {
            return Node { length: 0, flow: Flow::Unknown(Obstacle::Undecodable) };
        };
        let flow = match decoded.transfer {
            Transfer::Next => Flow::Next,
            Transfer::Repeat => Flow::NextPast(Obstacle::Repeat),
            Transfer::Kernel => Flow::NextPast(Obstacle::Kernel),
            Transfer::Jump(target) => self.jump(address, target),
            Transfer::Branch(target) if self.image.code(target).is_none() => Flow::Unknown(Obstacle::NoCode(target)),
            Transfer::Branch(target) => Flow::Branch(target),
            Transfer::Call(target) => Flow::Call(self.callee(target, Obstacle::IndirectCall)),
            Transfer::Return => Flow::Return,
            Transfer::Trap => Flow::Stop,
            Transfer::Elsewhere => Flow::Unknown(Obstacle::Elsewhere),
        };
        Node { length: decoded.length, flow }
    }

    /// A jump within the function, or a tail call.
    fn jump(&mut self, from: u64, target: Target) -> Flow {
        match target {
            Target::Address(target) if self.image.code(target).is_none() => Flow::Unknown(Obstacle::NoCode(target)),
            Target::Address(target) if !self.begins_other_function(from, target) => Flow::Jump(target),
            Target::Address(_) | Target::Pointer(_) => Flow::Tail(self.callee(target, Obstacle::IndirectJump)),
            Target::Computed => Flow::Unknown(Obstacle::IndirectJump),
        }
    }

    /// Whether a function begins at the target that is not the one the jump is in. A part that the compiler split off
    /// because it is seldom executed (`.cold`) has a symbol, but is no function.
    fn begins_other_function(&self, from: u64, target: u64) -> bool {
        self.image.symbol(target).is_some_and(|callee| {
            callee.address == target
                && !callee.linkage_name.contains(".cold")
                && self
                    .image
                    .symbol(from)
                    .is_some_and(|caller| caller.address != target && !caller.linkage_name.contains(".cold"))
        })
    }

    fn callee(&mut self, target: Target, otherwise: Obstacle) -> Callee {
        let address = match target {
            Target::Address(address) => address,
            Target::Pointer(pointer) => match self.image.pointer(pointer) {
                Some(Pointer::Address(address)) => address,
                Some(Pointer::External(name)) if self.never.knows(&name) => {
                    return Callee::NeverReturns { address: None, name };
                }
                Some(Pointer::External(name)) => return Callee::Unknown(Obstacle::ExternalCall(name)),
                None => return Callee::Unknown(otherwise),
            },
            Target::Computed => return Callee::Unknown(otherwise),
        };
        if self.image.code(address).is_none() {
            return Callee::Unknown(Obstacle::NoCode(address));
        }
        let symbol = self.image.symbol(address).filter(|symbol| symbol.address == address);
        if let Some(symbol) = symbol.filter(|symbol| self.never_returns(symbol)) {
            return Callee::NeverReturns { address: Some(address), name: symbol.name };
        }
        self.function(address);
        Callee::Function(address)
    }

    /// Whether a function never returns by its name, and nothing is to be seen that speaks against it.
    fn never_returns(&self, symbol: &Symbol) -> bool {
        self.never.knows(&symbol.name)
            && !(self.never.is_doubtful(&symbol.name) && self.has_way_to_return(symbol.address, &mut BTreeMap::new()))
    }

    /// Whether there is a way from an address to a return on which every function that is called has one too. `known` are
    /// the answers for functions; being asked for, a function counts as having none.
    fn has_way_to_return(&self, function: u64, known: &mut BTreeMap<u64, bool>) -> bool {
        known.insert(function, false);
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![function]);
        while let Some(address) = waiting.pop() {
            let decoded = self.image.code(address).and_then(|code| x86_64::decode(code, address));
            let Some(decoded) = decoded.filter(|_| seen.insert(address)) else { continue };
            let next = address + u64::from(decoded.length);
            let returns = match decoded.transfer {
                Transfer::Next | Transfer::Repeat | Transfer::Kernel => {
                    waiting.push(next);
                    false
                }
                Transfer::Branch(target) => {
                    waiting.extend([next, target]);
                    false
                }
                Transfer::Jump(target) => match self.place(target) {
                    Some(Pointer::Address(target)) => {
                        waiting.push(target);
                        false
                    }
                    Some(Pointer::External(name)) => !self.never.knows(&name),
                    None => false,
                },
                Transfer::Call(target) => {
                    let passes = match self.place(target) {
                        Some(Pointer::Address(callee)) => match known.get(&callee) {
                            Some(returns) => *returns,
                            None => self.has_way_to_return(callee, known),
                        },
                        Some(Pointer::External(name)) => !self.never.knows(&name),
                        None => true,
                    };
                    waiting.extend(passes.then_some(next));
                    false
                }
                Transfer::Return => true,
                Transfer::Trap | Transfer::Elsewhere => false,
            };
            if returns {
                known.insert(function, true);
                return true;
            }
        }
        false
    }

    /// Where a jump or call goes, if that is known.
    fn place(&self, target: Target) -> Option<Pointer> {
        match target {
            Target::Address(address) => Some(Pointer::Address(address)),
            Target::Pointer(pointer) => self.image.pointer(pointer),
            Target::Computed => None,
        }
    }

    /// Finds functions that return by what has been reached of them so far; what is behind calls of them is reached then.
    fn find_returning_functions(&mut self) -> bool {
        let silent: Vec<u64> =
            self.graph.functions.iter().filter_map(|(function, returns)| (!returns).then_some(*function)).collect();
        let mut found = BTreeSet::new();
        for function in silent {
            if self.may_return_from(function) {
                self.graph.functions.insert(function, true);
                found.insert(function);
            }
        }
        for (address, node) in &self.graph.nodes {
            if let Flow::Call(Callee::Function(callee)) = node.flow
                && found.contains(&callee)
            {
                self.waiting.push(address + u64::from(node.length));
            }
        }
        !found.is_empty()
    }

    /// Whether a return may be reached, handlers of exceptions included.
    fn may_return_from(&self, address: u64) -> bool {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![address];
        while let Some(address) = waiting.pop() {
            if self.graph.nodes.contains_key(&address) && seen.insert(address) {
                if self.may_return_at(address) {
                    return true;
                }
                waiting.extend(self.graph.successors(address).chain(self.pads.get(&address).copied()));
            }
        }
        false
    }

    /// The graph without what only handlers of exceptions lead to. Which calls may be left by way of one from which the
    /// function returns stays known. Most only clean up and go on unwinding.
    fn without_handlers(self, entries: &[u64]) -> Graph {
        let pads = self.pads.iter().filter(|(_, pad)| self.may_return_from(**pad));
        let catching: BTreeSet<u64> = pads.map(|(call, _)| *call).collect();
        let mut reached = BTreeSet::new();
        let mut waiting = entries.to_vec();
        while let Some(address) = waiting.pop() {
            if reached.insert(address) {
                waiting.extend(self.graph.successors(address));
                if let Some(Flow::Call(callee) | Flow::Tail(callee)) = self.graph.node(address).map(|node| &node.flow) {
                    waiting.extend(callee.function());
                }
            }
        }
        let mut graph = self.graph;
        graph.nodes.retain(|address, _| reached.contains(address));
        graph.functions.retain(|address, _| reached.contains(address));
        graph.catching = catching.intersection(&reached).copied().collect();
        graph
    }

    /// Where it is not known what happens, a return is among what may.
    fn may_return_at(&self, address: u64) -> bool {
        match &self.graph.nodes[&address].flow {
            Flow::Return | Flow::Unknown(_) => true,
            Flow::Tail(callee) => self.graph.comes_back(callee),
            _ => false,
        }
    }
}

/// Returns and tail calls at which the stack pointer is not known to be where it was at the function's entry, and
/// instructions that write over the return address.
fn unmatched_returns(graph: &Graph, image: &dyn Image) -> BTreeSet<u64> {
    let mut unmatched = BTreeSet::new();
    let mut factory = InstructionInfoFactory::new();
    for function in graph.functions() {
        let mut frames: BTreeMap<u64, Frame> = BTreeMap::from([(function, Frame::at_entry())]);
        let mut waiting = BTreeSet::from([function]);
        while let Some(address) = waiting.pop_first() {
            let Some(node) = graph.node(address) else { continue };
            let mut frame = frames[&address];
            match node.flow {
                Flow::Return | Flow::Tail(_) if !frame.is_level() => {
                    unmatched.insert(address);
                }
                _ => {}
            }
            let instruction = image.code(address).and_then(|code| x86_64::instruction(code, address));
            if instruction.is_some_and(|instruction| !frame.execute(&instruction, &mut factory)) {
                unmatched.insert(address);
            }
            for successor in graph.successors(address) {
                let joined = frames.get(&successor).map_or(frame, |known| known.join(frame));
                if frames.insert(successor, joined) != Some(joined) {
                    waiting.insert(successor);
                }
            }
        }
    }
    unmatched
}
