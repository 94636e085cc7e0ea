//! The second decoder of A64, yaxpeax-arm.

use crate::address::Address;
use crate::image::Image;
use crate::second_decoder::{Flow, NO_INSTRUCTION, Second, Target};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction, Opcode, Operand, SizeCode};

/// The decoder.
pub(super) struct Decoder;

fn read(code: &[u8]) -> Option<Instruction> {
    InstDecoder::default().decode(&mut U8Reader::new(code.get(..4)?)).ok()
}

/// An instruction as text; `None` where there is none.
pub(super) fn text(code: &[u8]) -> Option<String> {
    read(code).map(|instruction| instruction.to_string())
}

impl Second for Decoder {
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, Flow), String> {
        let code = image.code(at.0).filter(|_| at.0.is_multiple_of(4)).unwrap_or_default();
        let instruction = read(code).ok_or(NO_INSTRUCTION)?;
        let offset = instruction.operands.iter().find_map(|operand| match operand {
            Operand::PCOffset(offset) => Some(Address(at.0.wrapping_add_signed(*offset))),
            _ => None,
        });
        let target = || offset.map_or(Target::Computed, Target::Address);
        let flow = match instruction.opcode {
            Opcode::Invalid => return Err(NO_INSTRUCTION.to_owned()),
            Opcode::B => Flow::Jump(target()),
            Opcode::BL => Flow::Call(target()),
            Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => {
                offset.map_or(Flow::Elsewhere, Flow::Branch)
            }
            Opcode::BR => Flow::Jump(Target::Computed),
            Opcode::BLR => Flow::Call(Target::Computed),
            Opcode::RET if instruction.operands[0] == Operand::Register(SizeCode::X, 30) => Flow::Return,
            Opcode::RET | Opcode::ERET | Opcode::DRPS | Opcode::HVC | Opcode::SMC => Flow::Elsewhere,
            Opcode::DCPS1 | Opcode::DCPS2 | Opcode::DCPS3 => Flow::Elsewhere,
            Opcode::SVC | Opcode::BRK | Opcode::HLT => Flow::Uncounted,
            Opcode::UDF => Flow::Trap,
            _ => Flow::Next,
        };
        Ok((Address(at.0.wrapping_add(4)), flow))
    }
}
