//! What instructions do to the registers that hold the return address and addresses of the stack. By the procedure call
//! standard (AAPCS32), a callee preserves `r4` to `r11` and `sp`.

use super::decode::{self, Effect, Flow, Instruction, LR, PC, SP};
use super::{Thumb, blocks};
use crate::arch::linked::{Linked, Registers, Value};
use crate::image::Image;
use std::ops::Range;

impl Linked for Thumb {
    const LINK: u8 = LR;
    const STACK: u8 = SP;
    const WORD: i64 = 4;
    /// `r0` to `r3`, `r12`, `lr`.
    const VOLATILE: u32 = 0x500f;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        use crate::arch::Frame as _;
        let (before, instruction) = (*registers, read(image, address)?);
        let conditional = blocks::is_conditional(&decode::flow, image, address);
        if conditional && !matches!(instruction.flow, Flow::Next | Flow::IfThen { .. }) {
            // This node is the one where the condition failed.
            return None;
        }
        let written = perform(registers, &instruction, image);
        if conditional {
            *registers = registers.join(before);
        }
        written
    }

    /// The return address is in `lr` or, if the instruction loads the program counter, on the stack.
    fn is_level(registers: &Registers<Self>, image: &dyn Image, address: u64) -> bool {
        let Some(instruction) = read(image, address) else { return false };
        let mut after = *registers;
        let _ = perform(&mut after, &instruction, image);
        after.are_back(if instruction.effect.writes() >> PC & 1 == 1 { PC } else { LR })
    }
}

fn read(image: &dyn Image, address: u64) -> Option<Instruction> {
    decode::decode(image.code(address & !1)?, address & !1)
}

fn perform(registers: &mut Registers<Thumb>, instruction: &Instruction, image: &dyn Image) -> Option<Range<i64>> {
    type R = Registers<Thumb>;
    if matches!(instruction.flow, Flow::Call(_) | Flow::ComputedCall) {
        registers.call();
        return None;
    }
    let each = |list: u16| (0..16).filter(move |register| list >> register & 1 == 1);
    match instruction.effect {
        Effect::Writes(list) => registers.forget(list.into()),
        Effect::Constant { rd, value } | Effect::Here { rd, value } => registers.set(rd, R::number(value)),
        Effect::ConstantHigh { rd, value } => {
            let whole = match registers.get(rd) {
                Some(Value::Constant(low)) => R::number(value << 16 | low & 0xffff),
                _ => None,
            };
            registers.set(rd, whole);
        }
        Effect::Literal { rd, address } => {
            registers.set(rd, image.constant(address).and_then(|word| R::number(word.into())));
        }
        Effect::AddImmediate { rd, rn, value } => registers.set(rd, R::moved(registers.get(rn), value)),
        Effect::Add { rd, rn, rm } => registers.set(rd, R::sum(registers.get(rn), registers.get(rm))),
        Effect::Subtract { rd, rn, rm } => registers.set(rd, R::difference(registers.get(rn), registers.get(rm))),
        Effect::Words { base, offset, registers: list, load, writeback } => {
            let start = registers.on_stack(base).map(|base| base.wrapping_add(offset));
            let written = if load { None } else { registers.store_words(start, each(list)) };
            registers.write_back(base, writeback);
            if load {
                registers.load_words(start, each(list));
            }
            return written;
        }
        Effect::Store { base, offset, bytes, writeback, also } => {
            let start = registers.on_stack(base).map(|base| base.wrapping_add(offset));
            let written = registers.store(start, bytes);
            registers.write_back(base, writeback);
            registers.forget(also.into());
            return written;
        }
        Effect::Load { base, writeback, registers: list } => {
            registers.write_back(base, writeback);
            registers.forget(list.into());
        }
    }
    None
}
