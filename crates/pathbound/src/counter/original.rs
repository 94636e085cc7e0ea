//! The original code, decoded for copying.

use super::CounterError;
use crate::arch::x86_64::LONGEST_INSTRUCTION_BYTES;
use crate::graph::{Block, Callee, Flow, Graph, Obstacle};
use crate::image::{Image, Process};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};
use std::collections::BTreeSet;
use std::ops::Range;

/// An instruction of a block.
#[derive(Debug)]
pub struct Original<'a> {
    pub instruction: Instruction,
    pub bytes: &'a [u8],
    /// Offset of the 4 bytes by which it addresses memory relative to itself, if it does.
    pub relative: Option<usize>,
    pub flow: &'a Flow,
}

/// How an instruction that ends a block, or calls, is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// As the flow says.
    Followed,
    /// By the dispatcher.
    Dispatched,
    /// By a call of the original callee, at this address.
    CallsOriginal(u64),
    /// Not at all: the original is executed, and the original code after it.
    Departs,
}

impl Original<'_> {
    pub fn address(&self) -> u64 {
        self.instruction.ip()
    }

    /// The address after the instruction.
    pub fn next(&self) -> u64 {
        self.instruction.next_ip()
    }

    /// Whether it is copied unchanged and always continues at the next instruction.
    pub fn is_plain(&self) -> bool {
        matches!(self.flow, Flow::Next | Flow::NextPast(Obstacle::Repeat))
    }

    pub fn treatment(&self) -> Treatment {
        match self.flow {
            Flow::Unknown(_) | Flow::Call(Callee::Unknown(_)) | Flow::Tail(Callee::Unknown(_)) => {
                match self.instruction.code() {
                    Code::Jmp_rm64 | Code::Call_rm64 => Treatment::Dispatched,
                    Code::Call_rel32_64 => Treatment::CallsOriginal(self.instruction.near_branch_target()),
                    _ => Treatment::Departs,
                }
            }
            _ => Treatment::Followed,
        }
    }
}

/// Decodes the instructions of blocks.
pub fn decode<'a>(
    process: &'a Process,
    graph: &'a Graph,
    blocks: &[Block],
) -> Result<Vec<Vec<Original<'a>>>, CounterError> {
    blocks
        .iter()
        .map(|block| block.instructions.iter().map(|address| one(process, graph, *address)).collect())
        .collect()
}

fn one<'a>(process: &'a Process, graph: &'a Graph, address: u64) -> Result<Original<'a>, CounterError> {
    let different = || CounterError::DifferentCode { address };
    let node = graph.node(address).ok_or_else(different)?;
    let code = process.code(address).unwrap_or_default();
    let code = &code[..code.len().min(LONGEST_INSTRUCTION_BYTES)];
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    let relative = instruction
        .is_ip_rel_memory_operand()
        .then(|| decoder.get_constant_offsets(&instruction).displacement_offset());
    if instruction.memory_base() == Register::EIP {
        // 32-bit addresses may not reach the copy.
        return Err(CounterError::OutOfReach { address });
    }
    match node.flow {
        Flow::Unknown(Obstacle::Undecodable) => {}
        _ if instruction.is_invalid() || instruction.len() != usize::from(node.length) => return Err(different()),
        _ => {}
    }
    Ok(Original { instruction, bytes: &code[..usize::from(node.length).min(code.len())], relative, flow: &node.flow })
}

/// The blocks that come from one object of the process: the program, or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The addresses of the object.
    pub object: Range<u64>,
    /// The numbers of the blocks.
    pub blocks: Range<usize>,
}

/// Groups blocks, which are in order of address, by the objects they come from.
pub fn parts(process: &Process, blocks: &[Block]) -> Result<Vec<Part>, CounterError> {
    let mut parts: Vec<Part> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let address = block.instructions[0];
        match parts.last_mut() {
            Some(part) if part.object.contains(&address) => part.blocks.end = number + 1,
            _ => {
                let object = process.module(address).ok_or(CounterError::NoObject { address })?;
                parts.push(Part { object, blocks: number..number + 1 });
            }
        }
    }
    Ok(parts)
}

/// The returns that may not go back to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// These.
    Some(BTreeSet<u64>),
    /// Any: other instructions overwrite return addresses or leave them on the stack.
    Any,
}

impl Unmatched {
    /// Those of a graph.
    pub fn of(graph: &Graph) -> Self {
        let mut unmatched = BTreeSet::new();
        for (address, node) in graph.nodes() {
            if graph.is_unmatched(address) {
                if node.flow != Flow::Return {
                    return Self::Any;
                }
                unmatched.insert(address);
            }
        }
        Self::Some(unmatched)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Some(returns) if returns.is_empty())
    }

    /// Whether this return is among them.
    pub fn has(&self, address: u64) -> bool {
        match self {
            Self::Some(returns) => returns.contains(&address),
            Self::Any => true,
        }
    }
}
