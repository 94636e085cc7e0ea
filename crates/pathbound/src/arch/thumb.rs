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
mod cores;
mod decode;
mod second;

pub(super) use cores::CORES;

use super::linked::{Effect, Linked, Registers, set, taken};
use super::{Decoded, InstructionSet, Relocation, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Instruction, LR, PC, SP};
use object::elf;
use std::collections::BTreeSet;
use std::ops::Range;

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
        blocks::decoded(&decode::single, image, address)
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(image, address)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder::new()))
    }

    /// Constants that are addresses of code are odd.
    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        let address = address & !1;
        let read = |at| instruction(image, at).map(|read| (read.single.length, read.single.transfer, read.effect));
        let value = taken(read, image, address)?.cast_unsigned();
        let here = matches!(instruction(image, address)?.effect, Effect::Here { .. });
        (here || value & 1 == 1).then_some(value & 0xffff_fffe)
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

/// The instruction at an address of an image, or at the address before an odd one.
fn instruction(image: &dyn Image, address: u64) -> Option<Instruction> {
    decode::decode(image.code(address & !1)?, address & !1)
}

/// By the procedure call standard (AAPCS32), a callee preserves `r4` to `r11` and `sp`.
impl Linked for Thumb {
    const LINK: u8 = LR;
    const STACK: u8 = SP;
    const WORD: i64 = 4;
    /// `r0` to `r3`, `r12`, `lr`.
    const VOLATILE: u64 = 0x500f;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        use super::Frame as _;
        let (before, instruction) = (*registers, instruction(image, address)?);
        let conditional = blocks::is_conditional(&decode::single, image, address);
        if conditional && instruction.single.transfer != Transfer::Next {
            // This node is the one where the condition failed.
            return None;
        }
        let written = registers.perform(instruction.effect, image);
        if conditional {
            *registers = registers.join(before);
        }
        written
    }

    /// The return address is in `lr` or, if the instruction loads the program counter, on the stack.
    fn is_level(registers: &Registers<Self>, image: &dyn Image, address: u64) -> bool {
        let Some(Instruction { effect, .. }) = instruction(image, address) else { return false };
        let mut after = *registers;
        let _ = after.perform(effect, image);
        after.are_back(if effect.writes() & set(PC) != 0 { PC } else { LR })
    }
}

#[cfg(test)]
mod tests;
