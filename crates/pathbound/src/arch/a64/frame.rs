//! What instructions do to the registers that hold the return address and addresses of the stack. By the procedure call
//! standard (AAPCS64), a callee preserves `x19` to `x29` and `sp`; `x18` may be reserved for the platform.

use super::decode::{Effect, Flow, Instruction, LR, SP};
use super::{A64, instruction};
use crate::arch::linked::{Linked, Registers, Value};
use crate::image::Image;
use std::ops::Range;

impl Linked for A64 {
    const LINK: u8 = LR;
    const STACK: u8 = SP;
    const WORD: i64 = 8;
    /// `x0` to `x18`, `x30`.
    const VOLATILE: u32 = 0x4007_ffff;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        perform(registers, &instruction(image, address)?)
    }
}

fn perform(registers: &mut Registers<A64>, instruction: &Instruction) -> Option<Range<i64>> {
    type R = Registers<A64>;
    if matches!(instruction.flow, Flow::Call(_) | Flow::ComputedCall) {
        registers.call();
        return None;
    }
    match instruction.effect {
        Effect::Writes(list) => registers.forget(list),
        Effect::Constant { rd, value } | Effect::Here { rd, value } | Effect::Page { rd, value } => {
            registers.set(rd, R::number(value));
        }
        Effect::Part { rd, value, shift } => {
            let whole = match registers.get(rd) {
                Some(Value::Constant(rest)) => R::number(rest & !(0xffff << shift) | value),
                _ => None,
            };
            registers.set(rd, whole);
        }
        Effect::AddImmediate { rd, rn, value } => registers.set(rd, R::moved(registers.get(rn), value)),
        Effect::Combine { rd, rn, rm, subtract } => {
            let (one, other) = (registers.get(rn), registers.get(rm));
            registers.set(rd, if subtract { R::difference(one, other) } else { R::sum(one, other) });
        }
        Effect::Words { base, offset, first, second, load, writeback } => {
            let start = registers.on_stack(base).map(|base| base.wrapping_add(offset));
            let each = [Some(first), second].into_iter().flatten();
            // As an operand, the number of the stack pointer is zero.
            let stack = registers.get(SP);
            let written = if load {
                None
            } else {
                registers.set(SP, None);
                let written = registers.store_words(start, each.clone());
                registers.set(SP, stack);
                written
            };
            registers.write_back(base, writeback);
            if load {
                let stack = registers.get(SP);
                registers.load_words(start, each);
                registers.set(SP, stack);
            }
            return written;
        }
        Effect::Store { base, offset, bytes, writeback, also } => {
            let start = registers.on_stack(base).map(|base| base.wrapping_add(offset));
            let written = registers.store(start, bytes);
            registers.write_back(base, writeback);
            registers.forget(also);
            return written;
        }
        Effect::Load { base, writeback, registers: list } => {
            registers.write_back(base, writeback);
            registers.forget(list);
        }
    }
    None
}
