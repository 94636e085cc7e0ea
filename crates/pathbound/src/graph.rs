//! The control flow of entry points and of everything they call, one node per instruction.
//!
//! Direct jumps and calls are followed, calls through constant pointers too. A jump to the beginning of another function is
//! a tail call: a call and a return. Calls to functions that never return are found: those that no path leaves by a return,
//! and those known by name ([`NeverReturns`]). What is not followed is recorded at its instruction, and
//! it is left to the user of the graph whether that matters: a bound declines, a counter goes on.

mod explore;
mod never_returns;

pub use never_returns::NeverReturns;

use std::collections::{BTreeMap, BTreeSet};

/// The control flow of entry points and of everything they call.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Instructions by address.
    nodes: BTreeMap<u64, Node>,
    /// Beginnings of functions: entries and callees; whether they can return.
    functions: BTreeMap<u64, bool>,
    /// Returns that may not go to where the call came from, and instructions that write over a return address.
    unmatched: BTreeSet<u64>,
    /// Calls behind which the function may return even if the callee throws.
    catching: BTreeSet<u64>,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes from here.
    pub flow: Flow,
}

/// Where execution goes from an instruction, in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flow {
    /// To the next instruction.
    Next,
    /// To the next instruction, but this one is an obstacle to a bound.
    NextPast(Obstacle),
    /// To the address, in the same function.
    Jump(u64),
    /// To the address or to the next instruction, in the same function.
    Branch(u64),
    /// Through the callee to the next instruction; not to the next instruction where the callee never returns.
    Call(Callee),
    /// Through the callee back to the caller: a tail call.
    Tail(Callee),
    /// Back to the caller.
    Return,
    /// Nowhere: it traps.
    Stop,
    /// Not known.
    Unknown(Obstacle),
}

/// Who is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The function at this address, which is in the graph.
    Function(u64),
    /// A function known by its name never to return; not in the graph.
    NeverReturns {
        /// Its address, where it is in the image.
        address: Option<u64>,
        /// Its name.
        name: String,
    },
    /// Not known.
    Unknown(Obstacle),
}

/// What stands in the way of a bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A repeated string instruction.
    Repeat,
    /// A call of the kernel, or a breakpoint, whose signal may be handled.
    Kernel,
    /// A jump to a computed address, or to one that a variable holds.
    IndirectJump,
    /// A call of a computed address, or of one that a variable holds.
    IndirectCall,
    /// A call of a function that another file defines.
    ExternalCall(String),
    /// A jump or call to an address without code.
    NoCode(u64),
    /// Bytes that are no instruction.
    Undecodable,
    /// A transfer that is not followed (far, transactional, out of an interrupt).
    Elsewhere,
    /// A call during which an exception or a panic may be caught, by a handler from which the function returns.
    CaughtException,
    /// A return that may not go to where the call came from: the return address is overwritten, or the stack
    /// pointer cannot be followed.
    UnmatchedReturn,
}

/// A run of instructions that is entered at its first and left at its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Addresses of its instructions, in order of execution.
    pub instructions: Vec<u64>,
}

/// Why there is no graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An entry is not the address of code.
    #[error("there is no code at {0:#x}")]
    NoCode(u64),
}

impl Callee {
    /// The function of the graph that is called.
    #[must_use]
    pub fn function(&self) -> Option<u64> {
        match self {
            Self::Function(function) => Some(*function),
            Self::NeverReturns { .. } | Self::Unknown(_) => None,
        }
    }
}

impl Graph {
    /// The instruction at an address.
    #[must_use]
    pub fn node(&self, address: u64) -> Option<&Node> {
        self.nodes.get(&address)
    }

    /// Every instruction, by address.
    pub fn nodes(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.nodes.iter().map(|(address, node)| (*address, node))
    }

    /// The functions: entries and callees.
    pub fn functions(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    /// Whether a function of the graph can return.
    #[must_use]
    pub fn returns(&self, function: u64) -> bool {
        self.functions.get(&function).copied().unwrap_or(false)
    }

    /// Where execution may go from an instruction without leaving the function: behind a call its return, behind a branch
    /// both ways.
    pub fn successors(&self, address: u64) -> impl Iterator<Item = u64> + use<> {
        let Some(node) = self.nodes.get(&address) else { return [None, None].into_iter().flatten() };
        let next = address + u64::from(node.length);
        let both = match &node.flow {
            Flow::Next | Flow::NextPast(_) => [Some(next), None],
            Flow::Jump(target) => [Some(*target), None],
            Flow::Branch(target) => [Some(next), Some(*target)],
            Flow::Call(callee) if self.comes_back(callee) => [Some(next), None],
            Flow::Call(_) | Flow::Tail(_) | Flow::Return | Flow::Stop | Flow::Unknown(_) => [None, None],
        };
        both.into_iter().flatten()
    }

    /// Whether a call may come back.
    #[must_use]
    pub fn comes_back(&self, callee: &Callee) -> bool {
        match callee {
            Callee::Function(function) => self.returns(*function),
            Callee::NeverReturns { .. } => false,
            Callee::Unknown(_) => true,
        }
    }

    /// The instructions of a function, by address: those that are reached from its first without following calls.
    #[must_use]
    pub fn body(&self, function: u64) -> BTreeSet<u64> {
        let mut body = BTreeSet::new();
        let mut waiting = vec![function];
        while let Some(address) = waiting.pop() {
            if self.nodes.contains_key(&address) && body.insert(address) {
                waiting.extend(self.successors(address));
            }
        }
        body
    }

    /// What stands in the way of a bound at an instruction.
    #[must_use]
    pub fn obstacle(&self, address: u64) -> Option<Obstacle> {
        match &self.nodes.get(&address)?.flow {
            _ if self.catching.contains(&address) => Some(Obstacle::CaughtException),
            Flow::NextPast(obstacle) | Flow::Unknown(obstacle) => Some(obstacle.clone()),
            Flow::Call(Callee::Unknown(obstacle)) | Flow::Tail(Callee::Unknown(obstacle)) => Some(obstacle.clone()),
            _ => self.unmatched.contains(&address).then_some(Obstacle::UnmatchedReturn),
        }
    }

    /// The instructions in blocks, by the address of their first. Calls that come back do not end a block.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let mut predecessors: BTreeMap<u64, u32> = BTreeMap::new();
        let mut first: BTreeSet<u64> = self.functions.keys().copied().collect();
        for (address, node) in &self.nodes {
            for successor in self.successors(*address) {
                *predecessors.entry(successor).or_default() += 1;
                if matches!(node.flow, Flow::Jump(_) | Flow::Branch(_)) {
                    first.insert(successor);
                }
            }
        }
        // Two streams of instructions that overlap meet where both go on.
        first.extend(predecessors.into_iter().filter_map(|(address, count)| (count > 1).then_some(address)));
        let block = |start: u64| {
            let mut instructions = vec![start];
            let mut last = start;
            while let Some(next) = self.successors(last).next().filter(|next| !first.contains(next)) {
                instructions.push(next);
                last = next;
            }
            Block { instructions }
        };
        first.iter().filter(|start| self.nodes.contains_key(start)).map(|start| block(*start)).collect()
    }
}
