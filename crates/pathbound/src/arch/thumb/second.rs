//! The second decoder of Thumb, yaxpeax-arm.

use super::blocks;
use super::decode::Flow;
use crate::address::Address;
use crate::image::Image;
use crate::second_decoder::{self, NO_INSTRUCTION, Second, Target};
use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv7::{ConditionCode, InstDecoder, Instruction, Opcode, Operand, Reg};

/// The decoder.
pub(super) struct Decoder(InstDecoder);

impl Decoder {
    pub fn new() -> Self {
        Self(InstDecoder::default_thumb())
    }

    fn read(&self, image: &dyn Image, address: u64) -> Option<Instruction> {
        let code = image.code(address)?;
        self.0.decode(&mut U8Reader::new(&code[..code.len().min(4)])).ok()
    }

    fn flow(&self, image: &dyn Image, address: u64) -> Option<(u8, Flow)> {
        let instruction = self.read(image, address)?;
        // The decoder ignores the bits that ask for another security state.
        let half = u16::from_le_bytes(*image.code(address)?.first_chunk()?);
        if matches!(instruction.opcode, Opcode::BX | Opcode::BLX) && !instruction.wide() && half & 7 != 0 {
            return (half & 7 == 4).then_some((2, Flow::Elsewhere));
        }
        Some((if instruction.wide() { 4 } else { 2 }, flow(&instruction, address)?))
    }
}

/// An instruction as text; `None` where there is none.
pub(super) fn text(image: &dyn Image, address: u64) -> Option<String> {
    Decoder::new().read(image, address & !1).map(|instruction| instruction.to_string())
}

impl Second for Decoder {
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, second_decoder::Flow), String> {
        use second_decoder::Flow as S;
        let decoder = |image: &dyn Image, address| self.flow(image, address);
        let (length, flow, _) = blocks::flow(&decoder, image, at.0).ok_or(NO_INSTRUCTION)?;
        let fixed = |target| Target::Address(Address(target));
        let flow = match flow {
            Flow::Next | Flow::IfThen { .. } => S::Next,
            Flow::Jump(target) => S::Jump(fixed(target)),
            Flow::Branch(target) => S::Branch(Address(target)),
            Flow::Call(target) => S::Call(fixed(target)),
            Flow::JumpThrough(pointer) => S::Jump(Target::held(image, pointer)),
            Flow::ComputedJump => S::Jump(Target::Computed),
            Flow::ComputedCall => S::Call(Target::Computed),
            Flow::Return => S::Return,
            Flow::Kernel => S::Uncounted,
            Flow::Trap => S::Trap,
            Flow::Elsewhere => S::Elsewhere,
        };
        Ok((Address(at.0 + u64::from(length)), flow))
    }
}

const LR: u8 = 14;
const PC: u8 = 15;

fn flow(instruction: &Instruction, address: u64) -> Option<Flow> {
    let target = || {
        instruction.operands.iter().find_map(|operand| match operand {
            // Offsets of some narrow encodings are relative to the next instruction, of all others to the one after
            // the next halfword.
            Operand::BranchThumbOffset(offset) => {
                let narrow = !instruction.wide() && instruction.condition != ConditionCode::AL
                    || matches!(instruction.opcode, Opcode::CBZ | Opcode::CBNZ);
                let from = address.wrapping_add(if narrow { 2 } else { 4 });
                Some(from.wrapping_add_signed(2 * i64::from(*offset)) & 0xffff_ffff)
            }
            _ => None,
        })
    };
    let register = |place: usize| match instruction.operands[place] {
        Operand::Reg(register) => Some(register.number()),
        _ => None,
    };
    let is_counter = |register: Reg| register.number() == PC;
    let lists_counter =
        || instruction.operands.iter().any(|operand| matches!(operand, Operand::RegList(list) if list >> PC & 1 == 1));
    Some(match instruction.opcode {
        Opcode::Invalid => return None,
        Opcode::B if instruction.condition == ConditionCode::AL => Flow::Jump(target()?),
        Opcode::B | Opcode::CBZ | Opcode::CBNZ => Flow::Branch(target()?),
        Opcode::BL => Flow::Call(target()?),
        Opcode::BLX if register(0).is_some() => Flow::ComputedCall,
        Opcode::BX if register(0) == Some(LR) => Flow::Return,
        Opcode::BX | Opcode::TBB | Opcode::TBH => Flow::ComputedJump,
        Opcode::BLX | Opcode::BXJ | Opcode::ERET | Opcode::SMC | Opcode::HVC => Flow::Elsewhere,
        Opcode::POP if lists_counter() || register(0) == Some(PC) => Flow::Return,
        Opcode::LDM(..) if lists_counter() => Flow::ComputedJump,
        Opcode::LDR if register(0) == Some(PC) => match instruction.operands[1] {
            Operand::RegDerefPreindexOffset(base, offset, add, false) if is_counter(base) => {
                let offset = i64::from(offset);
                let place = (address.wrapping_add(4) & !3).wrapping_add_signed(if add { offset } else { -offset });
                Flow::JumpThrough(place & 0xffff_ffff)
            }
            Operand::RegDerefPostindexOffset(base, 4, true, true) if base.number() == 13 => Flow::Return,
            _ => Flow::ComputedJump,
        },
        Opcode::MOV if register(0) == Some(PC) => {
            if register(1) == Some(LR) {
                Flow::Return
            } else {
                Flow::ComputedJump
            }
        }
        Opcode::ADD if register(0) == Some(PC) => Flow::ComputedJump,
        Opcode::SVC | Opcode::BKPT => Flow::Kernel,
        Opcode::UDF => Flow::Trap,
        Opcode::IT => match instruction.operands[1] {
            Operand::Imm32(mask @ 1..) => Flow::IfThen { instructions: 4 - mask.trailing_zeros() as u8 },
            _ => return None,
        },
        _ => Flow::Next,
    })
}
