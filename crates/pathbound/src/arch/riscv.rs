//! RISC-V instructions: RV32 and RV64 with the extensions M, A, F, D, C, Zicsr, Zifencei, Zba, Zbb and Zbs.
//!
//! The decoder reads what the analysis needs: the length, the flow, and what integer registers hold. It does not check
//! every encoding; the [second decoder](second) does, and an instruction that one of the two does not know is disputed.

mod decode;
mod frame;
mod second;

use super::linked::Registers;
use super::{APART, Decoded, InstructionSet, Relocation, Target, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use decode::{Instruction, Operation, RA, ZERO};
use object::elf;
use std::collections::BTreeSet;

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
        let instruction = instruction::<WIDE>(image, address)?;
        let (transfer, after) = transfer::<WIDE>(image, address, instruction.operation);
        Some(Decoded { length: instruction.length, transfer, after })
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        second::text(WIDE, image.code(address)?, address)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        Ok(Box::new(second::Decoder { wide: WIDE }))
    }

    /// The sum of what an instruction loads into a register and what a later one adds to it.
    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        let first = instruction::<WIDE>(image, address)?;
        let (register, value) = match first.operation {
            Operation::Constant { rd, value } if image.fixed() => (rd, value),
            Operation::FromHere { rd, value } => (rd, value),
            _ => return None,
        };
        let mut at = address + u64::from(first.length);
        for _ in 0..APART {
            let next = instruction::<WIDE>(image, at)?;
            match next.operation {
                Operation::AddImmediate { rs1, immediate, .. } if rs1 == register => {
                    return Some(wrapped::<WIDE>(value.wrapping_add(immediate)));
                }
                operation if operation.writes() == Some(register) || operation.transfers() => return None,
                _ => at += u64::from(next.length),
            }
        }
        None
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

/// Where execution goes, and the instruction on which that depends.
fn transfer<const WIDE: bool>(image: &dyn Image, address: u64, operation: Operation) -> (Transfer, Option<u64>) {
    let transfer = match operation {
        Operation::Jal { rd: ZERO, target } => Transfer::Jump(Target::Address(target)),
        Operation::Jal { rd: RA, target } => Transfer::Call(Target::Address(target)),
        Operation::Jalr { rd: ZERO, rs1: RA, offset: 0 } => Transfer::Return,
        Operation::Jalr { rd: ZERO, rs1: RA, .. } => Transfer::Elsewhere,
        Operation::Jalr { rd: rd @ (ZERO | RA), rs1, offset } => {
            // `auipc` just before it sets the register: a jump or call to a fixed address.
            let first = address.wrapping_sub(4);
            let base = match instruction::<WIDE>(image, first) {
                Some(Instruction { length: 4, operation: Operation::FromHere { rd, value } })
                    if rd == rs1 && rd != ZERO =>
                {
                    value
                }
                _ => return (jump(rd, Target::Computed), None),
            };
            // The lowest bit of the sum is ignored.
            let target = wrapped::<WIDE>(base.wrapping_add(offset)) & !1;
            return (jump(rd, Target::Address(target)), Some(first));
        }
        // Other registers than `ra` hold the return address of millicode, such as `__riscv_save_0`.
        Operation::Jal { .. } | Operation::Jalr { .. } | Operation::Elsewhere => Transfer::Elsewhere,
        Operation::Branch { target } => Transfer::Branch(target),
        Operation::Kernel => Transfer::Kernel,
        Operation::Trap => Transfer::Trap,
        _ => Transfer::Next,
    };
    (transfer, None)
}

fn jump(rd: u8, target: Target) -> Transfer {
    if rd == ZERO { Transfer::Jump(target) } else { Transfer::Call(target) }
}

#[cfg(test)]
mod tests;
