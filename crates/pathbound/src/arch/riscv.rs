//! RISC-V instructions: RV32 and RV64 with the extensions M, A, F, D, C, Zicsr, Zifencei, Zba, Zbb and Zbs.
//!
//! The decoder reads what the analysis needs: the length, the flow, and what integer registers hold. It does not check
//! every encoding; the [second decoder](second) does, and an instruction that one of the two does not know is disputed.

mod cores;
mod decode;
mod second;
mod work;

use super::linked::{Effect, Linked, Registers, ZERO, taken};
use super::{Decoded, InstructionSet, Relocation, Target, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Instruction, RA, SP};
use object::elf;
use std::collections::BTreeSet;
use std::ops::Range;

pub(super) use cores::CORES;

/// RV32.
pub(super) const RV32: RiscV<false> = RiscV;
/// RV64.
pub(super) const RV64: RiscV<true> = RiscV;

/// RISC-V with registers of 64 bits or, if not `WIDE`, 32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RiscV<const WIDE: bool>;

impl<const WIDE: bool> InstructionSet for RiscV<WIDE> {
    fn name(&self) -> &'static str {
        if WIDE { "RV64" } else { "RV32" }
    }

    fn machine(&self) -> elf::Machine {
        elf::EM_RISCV
    }

    fn pointer_bytes(&self) -> u64 {
        if WIDE { 8 } else { 4 }
    }

    fn decode(&self, image: &dyn Image, address: u64) -> Option<Decoded> {
        let Instruction { length, transfer, target, .. } = instruction::<WIDE>(image, address)?;
        let far = target.and_then(|(register, offset)| far::<WIDE>(image, address, register, offset));
        let Some((first, target)) = far else { return Some(Decoded { length, transfer, after: None }) };
        let transfer = match transfer {
            Transfer::Call(_) => Transfer::Call(Target::Address(target)),
            _ => Transfer::Jump(Target::Address(target)),
        };
        Some(Decoded { length, transfer, after: Some(first) })
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(WIDE, image.code(address)?, address)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder { wide: WIDE }))
    }

    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        let read = |at| instruction::<WIDE>(image, at).map(|read| (read.length, read.transfer, read.effect));
        taken(read, image, address).map(wrapped::<WIDE>)
    }

    fn unmatched_returns(&self, graph: &Graph, image: &dyn Image) -> (BTreeSet<u64>, BTreeSet<u64>) {
        unmatched_returns::<Registers<Self>>(graph, image)
    }

    fn code_mark(&self) -> Option<u8> {
        Some(b'x')
    }

    fn relocation(&self, kind: elf::RelocationType) -> Relocation {
        match kind {
            elf::R_RISCV_NONE => Relocation::Nothing,
            elf::R_RISCV_JUMP_SLOT => Relocation::JumpSlot,
            elf::R_RISCV_IRELATIVE => Relocation::Chosen,
            elf::R_RISCV_RELATIVE => Relocation::Relative,
            // The global offset table has no relocations of its own.
            elf::R_RISCV_32 if !WIDE => Relocation::Absolute,
            elf::R_RISCV_64 if WIDE => Relocation::Absolute,
            _ => Relocation::Unknown,
        }
    }
}

/// The instruction at an address of an image.
fn instruction<const WIDE: bool>(image: &dyn Image, address: u64) -> Option<Instruction> {
    decode::decode::<WIDE>(image.code(address)?, address)
}

/// An address, in registers of the given width.
fn wrapped<const WIDE: bool>(address: i64) -> u64 {
    if WIDE { address.cast_unsigned() } else { address.cast_unsigned() & 0xffff_ffff }
}

/// The target of a jump to a register plus an offset, and the instruction just before it that sets the register:
/// `auipc`.
fn far<const WIDE: bool>(image: &dyn Image, address: u64, register: u8, offset: i64) -> Option<(u64, u64)> {
    let first = address.wrapping_sub(4);
    match instruction::<WIDE>(image, first)? {
        Instruction { length: 4, effect: Effect::Upper { rd, value, fixed: false }, .. }
            if rd == register && rd != ZERO =>
        {
            // The lowest bit of the sum is ignored.
            Some((first, wrapped::<WIDE>(value.wrapping_add(offset)) & !1))
        }
        _ => None,
    }
}

/// By the RISC-V calling convention (psABI), a callee preserves `sp`, `gp`, `tp` and `s0` to `s11`.
impl<const WIDE: bool> Linked for RiscV<WIDE> {
    const LINK: u8 = RA;
    const STACK: u8 = SP;
    const WORD: i64 = if WIDE { 8 } else { 4 };
    /// `ra`, `t0` to `t6`, `a0` to `a7`.
    const VOLATILE: u64 = 0xf003_fce2;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        registers.perform(instruction::<WIDE>(image, address)?.effect, image)
    }
}

#[cfg(test)]
mod tests;
