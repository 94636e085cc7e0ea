//! The control flow of entry points and of everything they call, one node per instruction.
//!
//! Direct jumps and calls are followed, and so are those through constant pointers. A jump to the beginning of another
//! function is a tail call: a call and a return. Functions that never return are recognised: those without a path to a
//! return, and those of other files that are known by name ([`NeverReturns`]). Flow that is not followed is recorded at
//! its instruction as an [`Obstacle`]: a bound then declines, a counter continues.

mod agreement;
mod examined;
mod explore;
mod never_returns;
mod returns;

pub use examined::Examined;
pub use never_returns::{Ambiguous, NeverReturns};
pub(crate) use returns::unmatched_returns;

use std::collections::{BTreeMap, BTreeSet};

/// The control flow of entry points and of everything they call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Instructions by address.
    nodes: BTreeMap<u64, Node>,
    /// Beginnings of functions: entries and callees; whether they can return.
    functions: BTreeMap<u64, bool>,
    /// Returns that may not go back to the caller, and instructions that overwrite a return address.
    unmatched: BTreeSet<u64>,
    /// Instructions that may act as the return of any active function: unmatched returns, and calls that lead to one.
    escapes: BTreeSet<u64>,
    /// Instructions after which execution may continue elsewhere than their flow says, and why.
    elsewhere: BTreeMap<u64, Obstacle>,
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
    /// Through the callee to the next instruction, unless the callee never returns.
    Call(Callee),
    /// Through the callee back to the caller: a tail call.
    Tail(Callee),
    /// Back to the caller.
    Return,
    /// Nowhere: it traps, and no code follows.
    Stop,
    /// Unknown.
    Unknown(Obstacle),
}

/// The target of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callee {
    /// The function at this address, which is in the graph.
    Function(u64),
    /// A function that never returns; it is not in the graph.
    NeverReturns {
        /// Its address, if it is in the image.
        address: Option<u64>,
        /// Its name.
        name: String,
        /// Whether this rests on a statement of the user alone.
        stated: bool,
    },
    /// Unknown.
    Unknown(Obstacle),
}

/// Why an instruction cannot be bounded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A repeated string instruction.
    Repeat,
    /// A system call, or a breakpoint, whose signal may be handled.
    Kernel,
    /// A jump to an address that is computed or held in a variable.
    IndirectJump,
    /// A call of an address that is computed or held in a variable.
    IndirectCall,
    /// A call of a function that another file defines.
    ExternalCall(String),
    /// A jump or call to an address without code.
    NoCode(u64),
    /// Bytes that are not an instruction.
    Undecodable,
    /// A transfer that is not followed (far, transactional, out of an interrupt).
    Elsewhere,
    /// An instruction that may trap, after which a signal handler may continue.
    Trap,
    /// The resolver of an indirect function (IFUNC), which chooses the function with this name when the program starts.
    Chosen(String),
    /// An instruction that the two decoders read differently, or that one of them does not know.
    Disputed,
    /// An instruction that may throw an exception or panic, which a handler catches from which the function may return.
    CaughtException,
    /// An instruction that takes the address of an instruction in the middle of a function, as `__builtin_setjmp` does:
    /// other code may jump there.
    TakenPlace,
    /// An instruction for which it is unknown whether a handler catches what it throws.
    UnknownHandlers,
    /// A return that may not go back to the caller: its address is overwritten, or the stack pointer cannot be
    /// followed.
    UnmatchedReturn,
}

/// A basic block: it is entered only at its first instruction and left only at its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Addresses of its instructions, in order of execution.
    pub instructions: Vec<u64>,
}

/// Why a graph cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// An entry is not the address of code.
    #[error("there is no code at {0:#x}: give the address of a function")]
    NoCode(u64),
}

impl Node {
    /// The function of the graph that is called, if any.
    #[must_use]
    pub fn callee(&self) -> Option<u64> {
        match &self.flow {
            Flow::Call(callee) | Flow::Tail(callee) => callee.function(),
            _ => None,
        }
    }
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

    /// Where execution may go from an instruction without leaving the function: after a call the next instruction, if
    /// the call may return; after a branch both targets.
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

    /// Whether anything is called.
    #[must_use]
    pub fn has_calls(&self) -> bool {
        self.nodes.values().any(|node| matches!(node.flow, Flow::Call(_)))
    }

    /// Whether a call may return.
    #[must_use]
    pub fn comes_back(&self, callee: &Callee) -> bool {
        match callee {
            Callee::Function(function) => self.returns(*function),
            Callee::NeverReturns { .. } => false,
            Callee::Unknown(_) => true,
        }
    }

    /// The instructions of a function, by address: those that can be reached from its first without following calls.
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

    /// Why an instruction cannot be bounded, if so.
    #[must_use]
    pub fn obstacle(&self, address: u64) -> Option<Obstacle> {
        match &self.nodes.get(&address)?.flow {
            _ if self.goes_elsewhere(address) => self.elsewhere.get(&address).cloned(),
            Flow::NextPast(obstacle) | Flow::Unknown(obstacle) => Some(obstacle.clone()),
            Flow::Call(Callee::Unknown(obstacle)) | Flow::Tail(Callee::Unknown(obstacle)) => Some(obstacle.clone()),
            _ => self.is_unmatched(address).then_some(Obstacle::UnmatchedReturn),
        }
    }

    /// Whether execution may continue elsewhere than the flow of an instruction says, and may then return.
    #[must_use]
    pub fn goes_elsewhere(&self, address: u64) -> bool {
        self.elsewhere.contains_key(&address)
    }

    /// Whether an instruction is a return that may not go back to the caller, or overwrites a return address.
    #[must_use]
    pub fn is_unmatched(&self, address: u64) -> bool {
        self.unmatched.contains(&address)
    }

    /// Whether an instruction may act as the return of any active function.
    #[must_use]
    pub fn escapes(&self, address: u64) -> bool {
        self.escapes.contains(&address)
    }

    /// The basic blocks, in order of the address of their first instruction. Calls that return do not end a block.
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
        // Overlapping streams of instructions merge at an instruction that both contain.
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
