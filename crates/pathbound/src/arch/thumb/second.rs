//! The second decoder of Thumb, yaxpeax-arm.

use super::blocks::{self, Single};
use super::cores::{Kind, Read, Version};
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

/// An instruction, with its kind on cores of a version; `None` where they have none.
pub(super) fn read(image: &dyn Image, address: u64, version: Version) -> Option<Read> {
    let decoder = Decoder::new();
    let single = |image: &dyn Image, address| decoder.single(image, address);
    Some(Read {
        kind: kind(image, address, version)?,
        single: single(image, address)?,
        in_block: version == Version::Armv7M && blocks::is_conditional(&single, image, address),
    })
}

/// The kind of an instruction on cores of a version.
pub(super) fn kind(image: &dyn Image, address: u64, version: Version) -> Option<Kind> {
    let instruction = Decoder::new().read(image, address)?;
    if matches!(instruction.opcode, Opcode::MRS | Opcode::MSR) {
        let second = u16::from_le_bytes(*image.code(address + 2)?.first_chunk()?);
        version.has_register(second.into()).then_some(())?;
    }
    match (version, instruction.wide()) {
        (Version::Armv6M, true) => match instruction.opcode {
            Opcode::BL | Opcode::MRS | Opcode::MSR | Opcode::DSB | Opcode::DMB | Opcode::ISB => kind_of(&instruction),
            _ => None,
        },
        (Version::Armv6M, false) => match instruction.opcode {
            Opcode::CBZ | Opcode::CBNZ | Opcode::IT => None,
            _ => kind_of(&instruction),
        },
        (Version::Armv7M, _) => kind_of(&instruction),
    }
}

fn kind_of(instruction: &Instruction) -> Option<Kind> {
    use Opcode as O;
    let listed = || {
        instruction.operands.iter().find_map(|operand| match operand {
            Operand::RegList(list) => Some(list.count_ones() as u8),
            _ => None,
        })
    };
    let is_counter = |operand: &Operand| matches!(operand, Operand::Reg(register) if register.number() == PC);
    // Loads relative to the program counter.
    let from_counter = instruction.operands.iter().any(|operand| match operand {
        Operand::RegDerefPreindexOffset(base, ..) | Operand::RegDeref(base) => base.number() == PC,
        _ => false,
    });
    let writes_counter = is_counter(&instruction.operands[0]);
    Some(match instruction.opcode {
        O::ADD | O::MOV if writes_counter => Kind::IndirectJump,
        O::BX | O::BLX => Kind::IndirectJump,
        O::B if instruction.condition == ConditionCode::AL => Kind::Jump,
        O::B | O::CBZ | O::CBNZ => Kind::Branch,
        O::BL => Kind::Call,
        O::TBB | O::TBH => Kind::TableJump,
        O::POP | O::LDM(..) if lists_counter(instruction) => Kind::AccessesAndJump(listed()?),
        O::POP | O::PUSH | O::STM(..) if listed().is_some() => Kind::Accesses(listed()?),
        O::LDM(..) => Kind::Loads(listed()?),
        O::LDR | O::POP if writes_counter => Kind::AccessesAndJump(1),
        // One register.
        O::POP => Kind::Load,
        O::PUSH => Kind::Store,
        O::LDRD if from_counter => Kind::Literal(2),
        O::LDRD => Kind::Loads(2),
        O::STRD => Kind::Accesses(2),
        O::LDR | O::LDRB | O::LDRH | O::LDRSB | O::LDRSH if from_counter => Kind::Literal(1),
        O::LDR | O::LDRB | O::LDRH | O::LDRSB | O::LDRSH => Kind::Load,
        O::LDRT | O::LDRBT | O::LDRHT | O::LDRSBT | O::LDRSHT => Kind::Load,
        O::LDREX | O::LDREXB | O::LDREXH => Kind::Load,
        O::STR | O::STRB | O::STRH | O::STRT | O::STRBT | O::STRHT => Kind::Store,
        O::STREX | O::STREXB | O::STREXH => Kind::Store,
        O::MOV | O::MVN | O::ADD | O::ADC | O::SUB | O::SBC | O::RSB | O::MOVT | O::ADR => Kind::Plain,
        O::CMP | O::CMN | O::TST | O::TEQ | O::MUL | O::CLREX => Kind::Plain,
        O::AND | O::EOR | O::ORR | O::BIC | O::ORN => Kind::Plain,
        O::LSL | O::LSR | O::ASR | O::ROR | O::RRX => Kind::Plain,
        O::SXTH | O::SXTB | O::UXTH | O::UXTB => Kind::Plain,
        O::REV | O::REV16 | O::REVSH | O::RBIT | O::CLZ => Kind::Plain,
        O::SBFX | O::UBFX | O::BFI | O::BFC | O::SSAT | O::USAT => Kind::Plain,
        O::NOP | O::YIELD | O::SEV => Kind::Hint,
        O::CPS(_) => Kind::Mask,
        O::IT => Kind::IfThen,
        O::MRS | O::MSR => Kind::System,
        O::DSB | O::DMB | O::ISB => Kind::Barrier,
        O::MLA | O::MLS => Kind::MultiplyAdd,
        O::SMULL | O::UMULL => Kind::LongMultiply,
        O::SMLAL | O::UMLAL => Kind::LongMultiplyAdd,
        O::SDIV | O::UDIV => Kind::Divide,
        O::SXTB16 | O::UXTB16 | O::SXTAH | O::UXTAH | O::SXTAB16 | O::UXTAB16 | O::SXTAB | O::UXTAB => Kind::Signal,
        O::PKHTB | O::PKHBT | O::SSAT16 | O::USAT16 | O::SEL => Kind::Signal,
        O::QADD | O::QSUB | O::QDADD | O::QDSUB => Kind::Signal,
        O::SADD16 | O::QADD16 | O::SHADD16 | O::SASX | O::QASX | O::SHASX | O::SSAX | O::QSAX => Kind::Signal,
        O::SHSAX | O::SSUB16 | O::QSUB16 | O::SHSUB16 | O::SADD8 | O::QADD8 | O::SHADD8 => Kind::Signal,
        O::SSUB8 | O::QSUB8 | O::SHSUB8 | O::UADD16 | O::UQADD16 | O::UHADD16 | O::UASX => Kind::Signal,
        O::UQASX | O::UHASX | O::USAX | O::UQSAX | O::UHSAX | O::USUB16 | O::UQSUB16 => Kind::Signal,
        O::UHSUB16 | O::UADD8 | O::UQADD8 | O::UHADD8 | O::USUB8 | O::UQSUB8 | O::UHSUB8 => Kind::Signal,
        O::SMLSD | O::SMMLA | O::SMMLAR | O::SMMLS | O::SMMLSR | O::USADA8 | O::USAD8 | O::SMLAD => Kind::Signal,
        O::SMUSD | O::SMMUL | O::SMULW(_) | O::SMUAD | O::SMLALD(_) | O::SMLSLD(_) | O::UMAAL => Kind::Signal,
        O::SMUL(..) | O::SMLA(..) | O::SMLAL_halfword(..) | O::SMAL(..) | O::SMLAW(_) => Kind::Signal,
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
