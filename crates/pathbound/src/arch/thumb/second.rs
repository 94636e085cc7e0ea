//! The second decoder of Thumb, yaxpeax-arm.

use super::blocks::{self, Single};
use super::cores::{self, Kind};
use crate::address::Address;
use crate::arch::{Target, Transfer};
use crate::image::Image;
use crate::second_decoder::{Flow, NO_INSTRUCTION, Second};
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

    fn single(&self, image: &dyn Image, address: u64) -> Option<Single> {
        let instruction = self.read(image, address)?;
        let length = if instruction.wide() { 4 } else { 2 };
        let block = match (instruction.opcode, instruction.operands[1]) {
            (Opcode::IT, Operand::Imm32(mask @ 1..)) => 4 - mask.trailing_zeros() as u8,
            (Opcode::IT, _) => return None,
            _ => 0,
        };
        // The decoder ignores the bits that ask for another security state.
        let half = u16::from_le_bytes(*image.code(address)?.first_chunk()?);
        if matches!(instruction.opcode, Opcode::BX | Opcode::BLX) && length == 2 && half & 7 != 0 {
            return (half & 7 == 4).then_some(Single { length, transfer: Transfer::Elsewhere, block });
        }
        Some(Single { length, transfer: transfer(&instruction, address)?, block })
    }
}

/// An instruction as text; `None` where there is none.
pub(super) fn text(image: &dyn Image, address: u64) -> Option<String> {
    Decoder::new().read(image, address & !1).map(|instruction| instruction.to_string())
}

/// An instruction, and its kind on cores with Armv6-M; `None` where they have none.
pub(super) fn kind(image: &dyn Image, address: u64) -> Option<(Kind, Single)> {
    let decoder = Decoder::new();
    let instruction = decoder.read(image, address)?;
    if matches!(instruction.opcode, Opcode::MRS | Opcode::MSR) {
        let second = u16::from_le_bytes(*image.code(address + 2)?.first_chunk()?);
        cores::is_register(second.into()).then_some(())?;
    }
    Some((kind_of(&instruction)?, decoder.single(image, address)?))
}

fn kind_of(instruction: &Instruction) -> Option<Kind> {
    let listed = || {
        instruction.operands.iter().find_map(|operand| match operand {
            Operand::RegList(list) => Some(list.count_ones() as u8),
            _ => None,
        })
    };
    let writes_counter = matches!(instruction.operands[0], Operand::Reg(register) if register.number() == PC);
    if instruction.wide() {
        return match instruction.opcode {
            Opcode::BL => Some(Kind::Call),
            Opcode::MRS | Opcode::MSR | Opcode::DSB | Opcode::DMB | Opcode::ISB => Some(Kind::System),
            _ => None,
        };
    }
    Some(match instruction.opcode {
        Opcode::ADD | Opcode::MOV if writes_counter => Kind::IndirectJump,
        Opcode::BX | Opcode::BLX => Kind::IndirectJump,
        Opcode::B if instruction.condition == ConditionCode::AL => Kind::Jump,
        Opcode::B => Kind::Branch,
        Opcode::POP if lists_counter(instruction) => Kind::PopAndReturn(listed()?),
        Opcode::POP | Opcode::PUSH | Opcode::LDM(..) | Opcode::STM(..) => Kind::Accesses(listed()?),
        Opcode::LDR | Opcode::LDRB | Opcode::LDRH | Opcode::LDRSB | Opcode::LDRSH => Kind::Access,
        Opcode::STR | Opcode::STRB | Opcode::STRH => Kind::Access,
        Opcode::MOV | Opcode::MVN | Opcode::ADD | Opcode::ADC | Opcode::SUB | Opcode::SBC | Opcode::RSB => Kind::Plain,
        Opcode::CMP | Opcode::CMN | Opcode::TST | Opcode::MUL | Opcode::ADR | Opcode::CPS(_) => Kind::Plain,
        Opcode::AND | Opcode::EOR | Opcode::ORR | Opcode::BIC => Kind::Plain,
        Opcode::LSL | Opcode::LSR | Opcode::ASR | Opcode::ROR => Kind::Plain,
        Opcode::SXTH | Opcode::SXTB | Opcode::UXTH | Opcode::UXTB => Kind::Plain,
        Opcode::REV | Opcode::REV16 | Opcode::REVSH => Kind::Plain,
        Opcode::NOP | Opcode::YIELD | Opcode::SEV => Kind::Plain,
        _ => return None,
    })
}

impl Second for Decoder {
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, Flow), String> {
        let decoder = |image: &dyn Image, address| self.single(image, address);
        let decoded = blocks::decoded(&decoder, image, at.0).ok_or(NO_INSTRUCTION)?;
        Ok((Address(at.0 + u64::from(decoded.length)), Flow::of(image, decoded.transfer)))
    }
}

const LR: u8 = 14;
const PC: u8 = 15;

/// Whether the program counter is in its list of registers.
fn lists_counter(instruction: &Instruction) -> bool {
    instruction.operands.iter().any(|operand| matches!(operand, Operand::RegList(list) if list >> PC & 1 == 1))
}

fn transfer(instruction: &Instruction, address: u64) -> Option<Transfer> {
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
    Some(match instruction.opcode {
        Opcode::Invalid => return None,
        Opcode::B if instruction.condition == ConditionCode::AL => Transfer::Jump(Target::Address(target()?)),
        Opcode::B | Opcode::CBZ | Opcode::CBNZ => Transfer::Branch(target()?),
        Opcode::BL => Transfer::Call(Target::Address(target()?)),
        Opcode::BLX if register(0).is_some() => Transfer::Call(Target::Computed),
        Opcode::BX if register(0) == Some(LR) => Transfer::Return,
        Opcode::BX | Opcode::TBB | Opcode::TBH => Transfer::Jump(Target::Computed),
        Opcode::BLX | Opcode::BXJ | Opcode::ERET | Opcode::SMC | Opcode::HVC => Transfer::Elsewhere,
        Opcode::POP if lists_counter(instruction) || register(0) == Some(PC) => Transfer::Return,
        Opcode::LDM(..) if lists_counter(instruction) => Transfer::Jump(Target::Computed),
        Opcode::LDR if register(0) == Some(PC) => match instruction.operands[1] {
            Operand::RegDerefPreindexOffset(base, offset, add, false) if is_counter(base) => {
                let offset = i64::from(offset);
                let place = (address.wrapping_add(4) & !3).wrapping_add_signed(if add { offset } else { -offset });
                Transfer::Jump(Target::Pointer(place & 0xffff_ffff))
            }
            Operand::RegDerefPostindexOffset(base, 4, true, true) if base.number() == 13 => Transfer::Return,
            _ => Transfer::Jump(Target::Computed),
        },
        Opcode::MOV if register(0) == Some(PC) => {
            if register(1) == Some(LR) {
                Transfer::Return
            } else {
                Transfer::Jump(Target::Computed)
            }
        }
        Opcode::ADD if register(0) == Some(PC) => Transfer::Jump(Target::Computed),
        Opcode::SVC | Opcode::BKPT => Transfer::Kernel,
        Opcode::UDF => Transfer::Trap,
        _ => Transfer::Next,
    })
}
