//! Builds a graph from code.
//!
//! Instructions are decoded as they are reached. The code after a call is reached only once the callee is known to
//! return, because compilers may put anything after a call that never returns. So a function counts as never returning
//! until a return is found in it. That reaches new code, which may hold further returns: a least fixed point. Functions
//! of the image that are known by name never to return are examined in the same way, and left out if no path returns.
//!
//! A return whose address was overwritten, or was not pushed by a call, may be the return of any active function: a
//! retpoline, for example, returns to its caller although none of its own paths does. Functions that reach such a
//! return, directly or through calls, *escape*, and count as returning.

use super::{Callee, Examined, Flow, Graph, GraphError, NeverReturns, Node, Obstacle};
use crate::arch::{Arch, Decoded, Target, Transfer};
use crate::image::{Image, Pointer, Symbol};
use crate::second_decoder::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Graph {
    /// Follows all code from the entries. An image that keeps [`Examined`] is explored once for the same question, and
    /// keeps the graph as long as it lives.
    ///
    /// # Errors
    ///
    /// [`GraphError::NoCode`] if an entry is not the address of code.
    pub fn explore(image: &dyn Image, entries: &[u64], never: &NeverReturns) -> Result<Arc<Self>, GraphError> {
        Self::kept(image, entries, never, true)
    }

    /// Like [`explore`](Self::explore), but for a [counter](crate::counter::Counter) instead of a bound: functions that
    /// return through an overwritten address do not count as returning. A counter follows returns wherever they go. In
    /// a process nearly all functions would escape, because every panic leads to the C library and the unwinder.
    ///
    /// # Errors
    ///
    /// As `explore`.
    pub fn explore_to_count(image: &dyn Image, entries: &[u64], never: &NeverReturns) -> Result<Arc<Self>, GraphError> {
        Self::kept(image, entries, never, false)
    }

    /// The graph that the image keeps, or a new one.
    fn kept(
        image: &dyn Image,
        entries: &[u64],
        never: &NeverReturns,
        finds_escapes: bool,
    ) -> Result<Arc<Self>, GraphError> {
        let explored = || Self::explored(image, entries, never, finds_escapes).map(Arc::new);
        let Some(examined) = image.examined() else { return explored() };
        let question = (finds_escapes, entries.to_vec(), never.clone());
        if let Some(graph) = examined.graph(&question) {
            return Ok(graph);
        }
        let graph = explored()?;
        examined.add_graph(question, Arc::clone(&graph));
        Ok(graph)
    }

    /// As [`explore`](Self::explore), with nothing kept of the graph: for the checker.
    pub(crate) fn explored_anew(image: &dyn Image, entries: &[u64], never: &NeverReturns) -> Result<Self, GraphError> {
        Self::explored(image, entries, never, true)
    }

    fn explored(
        image: &dyn Image,
        entries: &[u64],
        never: &NeverReturns,
        finds_escapes: bool,
    ) -> Result<Self, GraphError> {
        if let Some(entry) = entries.iter().find(|entry| image.code(**entry).is_none()) {
            return Err(GraphError::NoCode(*entry));
        }
        let reader = Reader::new(image).ok();
        let mut explorer = Explorer { finds_escapes, ..Explorer::new(image, never, reader.as_ref()) };
        for entry in entries {
            explorer.function(*entry);
            if let Some(name) = image.chosen(*entry) {
                explorer.graph.elsewhere.insert(*entry, Obstacle::Chosen(name));
            }
        }
        explorer.follow();
        let mut graph = explorer.without_handlers(entries);
        (graph.unmatched, _) = image.arch().0.unmatched_returns(&graph, image);
        Ok(graph)
    }
}

static NOTHING_STATED: NeverReturns = NeverReturns { functions: BTreeSet::new(), names: BTreeSet::new() };

struct Explorer<'a> {
    image: &'a dyn Image,
    arch: Arch,
    never: &'a NeverReturns,
    /// The second decoder; `None` if it is unavailable, and then every instruction is disputed.
    reader: Option<&'a Reader<'a>>,
    graph: Graph,
    /// The landing pads of instructions.
    pads: BTreeMap<u64, Vec<u64>>,
    /// Instructions that compute a target together with the one before them, and its address.
    pairs: BTreeMap<u64, u64>,
    /// Addresses that are reached, and may not be decoded yet.
    waiting: Vec<u64>,
    /// Whether functions in the image that are known by name never to return are left out, if their code agrees.
    leaves_out: bool,
    /// Whether functions that return through an overwritten address count as returning.
    finds_escapes: bool,
    /// The results for images that keep none.
    examined: Examined,
}

impl<'a> Explorer<'a> {
    fn new(image: &'a dyn Image, never: &'a NeverReturns, reader: Option<&'a Reader<'a>>) -> Self {
        let graph = Graph {
            nodes: BTreeMap::new(),
            functions: BTreeMap::new(),
            unmatched: BTreeSet::new(),
            escapes: BTreeSet::new(),
            elsewhere: BTreeMap::new(),
        };
        Self {
            image,
            arch: image.arch(),
            never,
            reader,
            graph,
            pads: BTreeMap::new(),
            pairs: BTreeMap::new(),
            waiting: Vec::new(),
            leaves_out: true,
            finds_escapes: true,
            examined: Examined::default(),
        }
    }

    /// Decodes all code that is reached from the functions added so far.
    fn follow(&mut self) {
        loop {
            self.decode_reached();
            self.separate_pairs();
            let found_more = self.find_returning_functions() || (self.finds_escapes && self.find_escapes());
            if !found_more {
                break;
            }
        }
    }

    /// Adds a function to the graph. Its code is not decoded if only whether it may return is asked, and known: another
    /// panic function leads to much the same code.
    fn function(&mut self, address: u64) {
        if self.graph.functions.contains_key(&address) {
            return;
        }
        // Escapes are a property of the code, of which this is no more than a summary.
        let suffices = !self.leaves_out && !self.finds_escapes;
        let known = suffices.then(|| self.examined().get(false, address)).flatten();
        if known.is_none() {
            self.waiting.push(address);
        }
        self.graph.functions.insert(address, known.unwrap_or(false));
    }

    fn decode_reached(&mut self) {
        while let Some(address) = self.waiting.pop() {
            if self.graph.nodes.contains_key(&address) {
                continue;
            }
            let node = self.decode(address);
            if !matches!(node.flow, Flow::Unknown(_)) && self.reader.is_none_or(|reader| !node.agrees(address, reader))
            {
                self.graph.elsewhere.insert(address, Obstacle::Disputed);
            }
            if self.takes_a_place(address, address.saturating_add(node.length.into())) {
                self.graph.elsewhere.entry(address).or_insert(Obstacle::TakenPlace);
            }
            match self.image.landing_pads(address..address.saturating_add(node.length.max(1).into())) {
                Some(pads) if pads.iter().all(|pad| self.image.code(*pad).is_some()) => {
                    self.waiting.extend(&pads);
                    if !pads.is_empty() {
                        self.pads.insert(address, pads);
                    }
                }
                _ => {
                    self.graph.elsewhere.entry(address).or_insert(Obstacle::UnknownHandlers);
                }
            }
            self.graph.nodes.insert(address, node);
            self.waiting.extend(self.graph.successors(address));
        }
    }

    /// Marks instructions that are reached without the one that computes their target with them.
    fn separate_pairs(&mut self) {
        if self.pairs.is_empty() {
            return;
        }
        let entered = |address: &u64| self.graph.functions.contains_key(address);
        let mut apart: BTreeSet<u64> = self.pairs.keys().copied().filter(entered).collect();
        for (address, _) in self.graph.nodes() {
            let pads = self.pads.get(&address).into_iter().flatten().copied();
            let reached = self.graph.successors(address).chain(pads);
            apart.extend(reached.filter(|next| self.pairs.get(next).is_some_and(|first| *first != address)));
        }
        for address in apart {
            self.graph.elsewhere.entry(address).or_insert(Obstacle::IndirectJump);
        }
    }

    /// Whether an instruction takes the address of an instruction in the middle of a function, other than its own or
    /// the next one's, which code takes to find its own position. Or the address of a function that takes such an
    /// address in this one, as nested functions of GNU C do.
    fn takes_a_place(&self, address: u64, next: u64) -> bool {
        let Some(taken) = self.arch.0.taken(self.image, address) else { return false };
        if taken == address || taken == next || self.image.code(taken).is_none() {
            return false;
        }
        let Some(function) = self.image.symbol(taken).filter(|symbol| symbol.size > 0) else { return false };
        if function.address != taken || function.is_cold() {
            return true;
        }
        self.image.symbol(address).is_some_and(|around| self.takes_a_place_in(&function, &around))
    }

    /// Whether a function, read from first instruction to last, takes the address of one in the middle of another.
    fn takes_a_place_in(&self, function: &Symbol, around: &Symbol) -> bool {
        let (mut at, end) = (function.address, function.address.saturating_add(function.size));
        while at < end {
            let Some(decoded) = self.arch.decode(self.image, at) else { break };
            let taken = self.arch.0.taken(self.image, at);
            if taken.is_some_and(|taken| around.address < taken && taken - around.address < around.size) {
                return true;
            }
            at += u64::from(decoded.length);
        }
        false
    }

    fn decode(&mut self, address: u64) -> Node {
        let Some(Decoded { length, transfer, after }) = self.arch.decode(self.image, address) else {
            return Node { length: 0, flow: Flow::Unknown(Obstacle::Undecodable) };
        };
        self.pairs.extend(after.map(|first| (address, first)));
        let flow = match transfer {
            Transfer::Next => Flow::Next,
            Transfer::Repeat => Flow::NextPast(Obstacle::Repeat),
            Transfer::Kernel => Flow::NextPast(Obstacle::Kernel),
            Transfer::Jump(target) => self.jump(address, target),
            Transfer::Branch(target) if self.image.code(target).is_none() => Flow::Unknown(Obstacle::NoCode(target)),
            Transfer::Branch(target) => Flow::Branch(target),
            Transfer::Call(target) => Flow::Call(self.callee(target, Obstacle::IndirectCall)),
            Transfer::Return => Flow::Return,
            Transfer::Trap if self.image.code(address + u64::from(length)).is_none() => Flow::Stop,
            Transfer::Trap => Flow::NextPast(Obstacle::Trap),
            Transfer::Elsewhere => Flow::Unknown(Obstacle::Elsewhere),
        };
        Node { length, flow }
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

    /// Whether another function than the one with the jump begins at the target. Parts that the compiler split
    /// off have symbols, too.
    fn begins_other_function(&self, from: u64, target: u64) -> bool {
        self.image.symbol(target).is_some_and(|callee| {
            callee.address == target
                && !callee.is_cold()
                && !callee.is_outlined()
                && self.image.symbol(from).is_some_and(|caller| caller.address != target && !caller.is_cold())
        })
    }

    fn callee(&mut self, target: Target, otherwise: Obstacle) -> Callee {
        let address = match target {
            Target::Address(address) => address,
            Target::Pointer(pointer) => match self.image.pointer(pointer) {
                Some(Pointer::Address(address)) => match self.arch.0.code_at(address) {
                    Some(address) => address,
                    None => return Callee::Unknown(otherwise),
                },
                Some(Pointer::External(name)) => return self.external(name),
                None => return Callee::Unknown(otherwise),
            },
            Target::Computed => return Callee::Unknown(otherwise),
        };
        if self.image.code(address).is_none() {
            return Callee::Unknown(Obstacle::NoCode(address));
        }
        if let Some(name) = self.image.chosen(address) {
            return Callee::Unknown(Obstacle::ExternalCall(name));
        }
        let symbol = self.image.symbol(address).filter(|symbol| symbol.address == address);
        let known = symbol.as_ref().is_some_and(|symbol| self.is_known_not_to_return(symbol));
        if known || self.never.functions.contains(&address) {
            let name = symbol.map_or_else(|| format!("{address:#x}"), |symbol| symbol.name);
            return Callee::NeverReturns { address: Some(address), name, stated: !known };
        }
        self.function(address);
        Callee::Function(address)
    }

    /// A function that another file defines, or may define instead of this one.
    fn external(&mut self, name: String) -> Callee {
        let mut known = NeverReturns::knows(&name);
        if known {
            let own: Vec<Symbol> = self.image.find(&name).into_iter().filter(|own| own.linkage_name == name).collect();
            // If nothing is left out, whether this file's own function returns is the question being answered.
            known = own.is_empty() || self.leaves_out && own.iter().all(|own| !self.code_may_return(own.address));
        }
        if known || self.never.is_given(&name) {
            Callee::NeverReturns { address: None, name, stated: !known }
        } else {
            Callee::Unknown(Obstacle::ExternalCall(name))
        }
    }

    /// Whether the name and the code of a function of the image agree that it never returns.
    fn is_known_not_to_return(&mut self, symbol: &Symbol) -> bool {
        self.leaves_out && NeverReturns::knows(&symbol.name) && !self.code_may_return(symbol.address)
    }

    /// Whether the code of a function may return, ignoring the user's statement and the names of the image's functions.
    /// So it depends on the image alone, and on whether escapes are found.
    fn code_may_return(&self, function: u64) -> bool {
        if let Some(known) = self.examined().get(self.finds_escapes, function) {
            return known;
        }
        let mut explorer = Explorer {
            leaves_out: false,
            finds_escapes: self.finds_escapes,
            ..Explorer::new(self.image, &NOTHING_STATED, self.reader)
        };
        explorer.function(function);
        explorer.follow();
        let returns = explorer.graph.functions[&function];
        self.examined().add(self.finds_escapes, explorer.graph.functions);
        returns
    }

    fn examined(&self) -> &Examined {
        self.image.examined().unwrap_or(&self.examined)
    }

    /// Finds functions that return in the code reached so far; the code after their calls is then reached.
    fn find_returning_functions(&mut self) -> bool {
        let not_returning: Vec<u64> =
            self.graph.functions.iter().filter_map(|(function, returns)| (!returns).then_some(*function)).collect();
        let mut found = BTreeSet::new();
        for function in not_returning {
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

    /// Finds the instructions that escape in the code reached so far, including calls of functions that escape.
    fn find_escapes(&mut self) -> bool {
        let before = self.graph.escapes.len();
        let (unmatched, unseen) = self.arch.0.unmatched_returns(&self.graph, self.image);
        self.graph.escapes.extend(unmatched.into_iter().chain(unseen));
        if self.graph.escapes.is_empty() {
            return false;
        }
        let mut callers: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut waiting = Vec::new();
        for function in self.graph.functions() {
            let escapes = self.reaches(function, |at| {
                if let Some(callee) = self.graph.node(at).and_then(Node::callee) {
                    callers.entry(callee).or_default().push(function);
                }
                self.graph.escapes(at)
            });
            if escapes {
                waiting.push(function);
            }
        }
        let mut escaping = BTreeSet::new();
        while let Some(function) = waiting.pop() {
            if escaping.insert(function) {
                waiting.extend(callers.remove(&function).unwrap_or_default());
            }
        }
        let calls =
            self.graph.nodes().filter(|(_, node)| node.callee().is_some_and(|callee| escaping.contains(&callee)));
        let calls: Vec<u64> = calls.map(|(address, _)| address).collect();
        self.graph.escapes.extend(calls);
        self.graph.escapes.len() > before
    }

    /// Whether a return can be reached, also through exception handlers.
    fn may_return_from(&self, address: u64) -> bool {
        self.reaches(address, |at| self.may_return_at(at))
    }

    /// Whether an instruction that is `wanted` can be reached in the function, also through exception handlers.
    fn reaches(&self, address: u64, mut wanted: impl FnMut(u64) -> bool) -> bool {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![address];
        while let Some(address) = waiting.pop() {
            if self.graph.nodes.contains_key(&address) && seen.insert(address) {
                if wanted(address) {
                    return true;
                }
                waiting.extend(
                    self.graph.successors(address).chain(self.pads.get(&address).into_iter().flatten().copied()),
                );
            }
        }
        false
    }

    /// The graph without the code that only exception handlers reach. Instructions with a handler from which the
    /// function may return stay marked. Most handlers only clean up and continue unwinding.
    fn without_handlers(self, entries: &[u64]) -> Graph {
        let returns = |pads: &[u64]| pads.iter().any(|pad| self.may_return_from(*pad));
        let catching: Vec<u64> =
            self.pads.iter().filter(|(_, pads)| returns(pads)).map(|(address, _)| *address).collect();
        let mut reached = BTreeSet::new();
        let mut waiting = entries.to_vec();
        while let Some(address) = waiting.pop() {
            if reached.insert(address) {
                waiting.extend(self.graph.successors(address));
                waiting.extend(self.graph.node(address).and_then(Node::callee));
            }
        }
        let mut graph = self.graph;
        graph.nodes.retain(|address, _| reached.contains(address));
        graph.functions.retain(|address, _| reached.contains(address));
        for address in catching {
            graph.elsewhere.entry(address).or_insert(Obstacle::CaughtException);
        }
        graph.elsewhere.retain(|address, _| reached.contains(address));
        graph.escapes.retain(|address| reached.contains(address));
        graph
    }

    /// Whether an instruction may return. Unknown flow may.
    fn may_return_at(&self, address: u64) -> bool {
        if self.graph.goes_elsewhere(address) || self.graph.escapes(address) {
            return true;
        }
        match &self.graph.nodes[&address].flow {
            Flow::Return | Flow::Unknown(_) => true,
            Flow::Tail(callee) => self.graph.comes_back(callee),
            _ => false,
        }
    }
}
