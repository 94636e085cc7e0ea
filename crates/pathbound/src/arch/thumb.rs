//! Thumb instructions of Armv6-M, Armv7-M, Armv7E-M and Armv8-M.
//!
//! The decoder reads what the analysis needs: the length, the flow, and what registers hold. It does not check every
//! encoding; the [second decoder](second) does, and an instruction that one of the two does not know is disputed.
//! Both use the same rules for if-then blocks.
//!
//! # If-then blocks
//!
//! An instruction of an if-then block (IT) is executed whether its condition holds or not: it counts, and does nothing
//! if the condition fails. Only the last of a block may transfer control. It becomes two nodes of the graph: at its own
//! address, with the condition failed, it goes to the next instruction; at its address plus one, which no instruction
//! has, it does what it says. The instruction before it, in the block, branches to either.

mod blocks;
mod decode;
mod frame;
mod second;

use super::linked::Registers;
use super::{APART, Decoded, InstructionSet, Relocation, Target, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Effect, Flow};
use object::elf;
use std::collections::BTreeSet;

/// The instruction set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thumb;

impl InstructionSet for Thumb {
    fn name(&self) -> &'static str {
        "Thumb"
    }

    fn machine(&self) -> elf::Machine {
        elf::EM_ARM
    }

    fn pointer_bytes(&self) -> u64 {
        4
    }

    fn decode(&self, image: &dyn Image, address: u64) -> Option<Decoded> {
        let (length, flow, after) = blocks::flow(&decode::flow, image, address)?;
        let transfer = match flow {
            Flow::Next | Flow::IfThen { .. } => Transfer::Next,
            Flow::Jump(target) => Transfer::Jump(Target::Address(target)),
            Flow::Branch(target) => Transfer::Branch(target),
            Flow::Call(target) => Transfer::Call(Target::Address(target)),
            Flow::JumpThrough(pointer) => Transfer::Jump(Target::Pointer(pointer)),
            Flow::ComputedJump => Transfer::Jump(Target::Computed),
            Flow::ComputedCall => Transfer::Call(Target::Computed),
            Flow::Return => Transfer::Return,
            Flow::Kernel => Transfer::Kernel,
            Flow::Trap => Transfer::Trap,
            Flow::Elsewhere => Transfer::Elsewhere,
        };
        Some(Decoded { length, transfer, after })
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(image, address)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder::new()))
    }

    /// What an instruction loads into a register, an address relative to itself or a constant.
    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        let address = address & !1;
        let instruction = decode::decode(image.code(address)?, address)?;
        // Addresses of code are odd.
        let code = |value: i64| (value & 1 == 1).then_some((value & 0xffff_fffe).cast_unsigned());
        match instruction.effect {
            Effect::Here { value, .. } => code(value).or(Some(value.cast_unsigned())),
            Effect::Literal { address, .. } if image.fixed() => code(i64::from(image.constant(address)?)),
            Effect::Constant { rd, value } if image.fixed() => {
                let mut at = address + u64::from(instruction.length);
                for _ in 0..APART {
                    let next = decode::decode(image.code(at)?, at)?;
                    match next.effect {
                        Effect::ConstantHigh { rd: other, value: high } if other == rd => {
                            return code(value & 0xffff | high << 16);
                        }
                        effect if effect.writes() >> rd & 1 == 1 || next.flow != Flow::Next => return None,
                        _ => at += u64::from(next.length),
                    }
                }
                None
            }
            _ => None,
        }
    }

    fn unmatched_returns(&self, graph: &Graph, image: &dyn Image) -> (BTreeSet<u64>, BTreeSet<u64>) {
        unmatched_returns::<Registers<Self>>(graph, image)
    }

    /// Programs for these processors are linked at fixed addresses.
    fn relocation(&self, _kind: elf::RelocationType) -> Relocation {
        Relocation::Unknown
    }

    fn code_mark(&self) -> Option<u8> {
        Some(b't')
    }

    fn is_mixed(&self) -> bool {
        true
    }

    /// The lowest bit of an address says that the code is Thumb.
    fn code_at(&self, pointer: u64) -> Option<u64> {
        (pointer & 1 == 1).then_some(pointer & !1)
    }

    fn has_handler_index(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
