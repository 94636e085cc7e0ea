//! The second decoder of x86-64, Capstone.

use super::LONGEST_INSTRUCTION_BYTES;
use crate::address::Address;
use crate::image::Image;
use crate::second_decoder::{Flow, NO_INSTRUCTION, Second, Target};
use capstone::arch::x86::{X86Insn, X86InsnGroup, X86OperandType, X86Reg};
use capstone::prelude::*;

/// The decoder.
pub(super) struct Decoder(Capstone);

impl Decoder {
    pub fn new() -> Result<Self, String> {
        let decoder = Capstone::new().x86().mode(arch::x86::ArchMode::Mode64).detail(true).build();
        decoder.map(Self).map_err(|error| error.to_string())
    }
}

impl Second for Decoder {
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, Flow), String> {
        let code = image.code(at.0).unwrap_or_default();
        let instructions = self.0.disasm_count(&code[..code.len().min(LONGEST_INSTRUCTION_BYTES)], at.0, 1);
        let Some(instruction) = instructions.as_ref().ok().and_then(|instructions| instructions.first()) else {
            return Err(NO_INSTRUCTION.to_owned());
        };
        let detail = self.0.insn_detail(instruction).map_err(|error| error.to_string())?;
        let operand = detail.arch_detail().x86().and_then(|x86| x86.operands().next()).map(|operand| operand.op_type);
        let next = Address(at.0.wrapping_add(instruction.len() as u64));
        let is_in = |groups: &[X86InsnGroup::Type]| {
            detail.groups().iter().any(|group| groups.contains(&X86InsnGroup::Type::from(group.0)))
        };
        let mnemonic = instruction.mnemonic().unwrap_or_default();
        let flow = match X86Insn::from(instruction.id().0) {
            X86Insn::X86_INS_RET if operand.is_none() => Flow::Return,
            X86Insn::X86_INS_UD0 | X86Insn::X86_INS_UD1 | X86Insn::X86_INS_UD2 | X86Insn::X86_INS_HLT => Flow::Trap,
            X86Insn::X86_INS_SYSCALL | X86Insn::X86_INS_SYSENTER | X86Insn::X86_INS_INT => Flow::Uncounted,
            // A signal handler continues after them.
            X86Insn::X86_INS_INT1 | X86Insn::X86_INS_INT3 => Flow::Uncounted,
            X86Insn::X86_INS_JMP => Flow::Jump(target(image, operand, next)),
            X86Insn::X86_INS_CALL => Flow::Call(target(image, operand, next)),
            X86Insn::X86_INS_XBEGIN | X86Insn::X86_INS_XABORT | X86Insn::X86_INS_XEND => Flow::Elsewhere,
            X86Insn::X86_INS_LJMP | X86Insn::X86_INS_LCALL => Flow::Elsewhere,
            _ if is_in(&[X86InsnGroup::X86_GRP_JUMP, X86InsnGroup::X86_GRP_BRANCH_RELATIVE]) => match operand {
                Some(X86OperandType::Imm(target)) => Flow::Branch(Address(target.cast_unsigned())),
                _ => Flow::Elsewhere,
            },
            _ if is_in(&[X86InsnGroup::X86_GRP_CALL, X86InsnGroup::X86_GRP_RET]) => Flow::Elsewhere,
            _ if is_in(&[X86InsnGroup::X86_GRP_INT, X86InsnGroup::X86_GRP_IRET]) => Flow::Elsewhere,
            _ if mnemonic.starts_with("rep") => Flow::Uncounted,
            _ => Flow::Next,
        };
        Ok((next, flow))
    }
}

/// The target of a jump or call, as far as the image determines it.
fn target(image: &dyn Image, operand: Option<X86OperandType>, next: Address) -> Target {
    match operand {
        Some(X86OperandType::Imm(target)) => Target::Address(Address(target.cast_unsigned())),
        Some(X86OperandType::Mem(memory)) if u32::from(memory.index().0) == X86Reg::X86_REG_INVALID => {
            let base = match u32::from(memory.base().0) {
                X86Reg::X86_REG_RIP => next.0,
                X86Reg::X86_REG_INVALID => 0,
                _ => return Target::Computed,
            };
            let elsewhere = [X86Reg::X86_REG_FS, X86Reg::X86_REG_GS].contains(&u32::from(memory.segment().0));
            if elsewhere {
                return Target::Computed;
            }
            Target::held(image, base.wrapping_add_signed(memory.disp()))
        }
        _ => Target::Computed,
    }
}
