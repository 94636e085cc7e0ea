//! A64 instructions, of Armv8-A and Armv8-R, without the scalable extensions.
//!
//! The decoder reads what the analysis needs: the flow, and what registers hold. It does not check every encoding; the
//! [second decoder](second) does, and an instruction that one of the two does not know is disputed.

mod decode;
mod frame;
mod second;

use super::linked::Registers;
use super::{APART, Decoded, InstructionSet, Relocation, Target, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Effect, Flow, Instruction};
use object::elf;
use std::collections::BTreeSet;

/// The instruction set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct A64;

impl InstructionSet for A64 {
    fn name(&self) -> &'static str {
        "A64"
    }

    fn machine(&self) -> elf::Machine {
        elf::EM_AARCH64
    }

    fn pointer_bytes(&self) -> u64 {
        8
    }

    fn decode(&self, image: &dyn Image, address: u64) -> Option<Decoded> {
        let transfer = match instruction(image, address)?.flow {
            Flow::Next => Transfer::Next,
            Flow::Jump(target) => Transfer::Jump(Target::Address(target)),
            Flow::Branch(target) => Transfer::Branch(target),
            Flow::Call(target) => Transfer::Call(Target::Address(target)),
            Flow::ComputedJump => Transfer::Jump(Target::Computed),
            Flow::ComputedCall => Transfer::Call(Target::Computed),
            Flow::Return => Transfer::Return,
            Flow::Kernel => Transfer::Kernel,
            Flow::Trap => Transfer::Trap,
            Flow::Elsewhere => Transfer::Elsewhere,
        };
        Some(Decoded { length: 4, transfer, after: None })
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(image.code(address)?)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder))
    }

    /// What `adr` computes, or `adrp` and a later addition.
    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        match instruction(image, address)?.effect {
            Effect::Here { value, .. } => Some(value.cast_unsigned()),
            Effect::Page { rd, value } => {
                for at in (1..=APART).map(|distance| address + 4 * distance) {
                    let next = instruction(image, at)?;
                    match next.effect {
                        Effect::AddImmediate { rn, value: more, .. } if rn == rd => {
                            return Some(value.wrapping_add(more).cast_unsigned());
                        }
                        effect if effect.writes() >> rd & 1 == 1 || next.flow != Flow::Next => return None,
                        _ => {}
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

    fn relocation(&self, kind: elf::RelocationType) -> Relocation {
        match kind {
            elf::R_AARCH64_NONE => Relocation::Nothing,
            elf::R_AARCH64_JUMP_SLOT => Relocation::JumpSlot,
            elf::R_AARCH64_GLOB_DAT => Relocation::GlobalData,
            elf::R_AARCH64_IRELATIVE => Relocation::Chosen,
            elf::R_AARCH64_RELATIVE => Relocation::Relative,
            elf::R_AARCH64_ABS64 => Relocation::Absolute,
            _ => Relocation::Unknown,
        }
    }

    fn code_mark(&self) -> Option<u8> {
        Some(b'x')
    }
}

fn instruction(image: &dyn Image, address: u64) -> Option<Instruction> {
    decode::decode(image.code(address)?, address)
}

#[cfg(test)]
mod tests;
