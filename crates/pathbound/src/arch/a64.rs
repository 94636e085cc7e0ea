//! A64 instructions, of Armv8-A and Armv8-R, without the scalable extensions.
//!
//! The decoder reads what the analysis needs: the flow, and what registers hold. It does not check every encoding; the
//! [second decoder](second) does, and an instruction that one of the two does not know is disputed.

mod decode;
mod second;

use super::linked::{Linked, Registers, taken};
use super::{Decoded, InstructionSet, Relocation};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Instruction, LR, SP};
use object::elf;
use std::collections::BTreeSet;
use std::ops::Range;

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
        let (transfer, _) = instruction(image, address)?;
        Some(Decoded { length: 4, transfer, after: None })
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(image.code(address)?)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder))
    }

    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        let read = |at| instruction(image, at).map(|(transfer, effect)| (4, transfer, effect));
        taken(read, image, address).map(i64::cast_unsigned)
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

/// By the procedure call standard (AAPCS64), a callee preserves `x19` to `x29` and `sp`; `x18` may be reserved for the
/// platform.
impl Linked for A64 {
    const LINK: u8 = LR;
    const STACK: u8 = SP;
    const WORD: i64 = 8;
    /// `x0` to `x18`, `x30`.
    const VOLATILE: u64 = 0x4007_ffff;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        let (_, effect) = instruction(image, address)?;
        registers.perform(effect, image)
    }
}

fn instruction(image: &dyn Image, address: u64) -> Option<Instruction> {
    decode::decode(image.code(address)?, address)
}

#[cfg(test)]
mod tests;
