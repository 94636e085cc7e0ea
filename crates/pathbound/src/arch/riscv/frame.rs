//! What instructions do to the registers that hold the return address and addresses of the stack. By the RISC-V calling
//! convention (psABI), a callee preserves `sp`, `gp`, `tp` and `s0` to `s11`.

use super::decode::{Operation, RA, SP, ZERO};
use super::{RiscV, instruction};
use crate::arch::linked::{Linked, Registers, Value};
use crate::image::Image;
use std::ops::Range;

impl<const WIDE: bool> Linked for RiscV<WIDE> {
    const LINK: u8 = RA;
    const STACK: u8 = SP;
    const WORD: i64 = if WIDE { 8 } else { 4 };
    /// `ra`, `t0` to `t6`, `a0` to `a7`.
    const VOLATILE: u32 = 0xf003_fce2;

    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>> {
        perform(registers, instruction::<WIDE>(image, address)?.operation)
    }
}

fn perform<const WIDE: bool>(registers: &mut Registers<RiscV<WIDE>>, operation: Operation) -> Option<Range<i64>> {
    type R<const WIDE: bool> = Registers<RiscV<WIDE>>;
    let read =
        |registers: &R<WIDE>, register| if register == ZERO { R::<WIDE>::number(0) } else { registers.get(register) };
    let whole = |bytes: u8| i64::from(bytes) == RiscV::<WIDE>::WORD;
    let mut written = None;
    let value = match operation {
        Operation::Jal { rd, .. } | Operation::Jalr { rd, .. } if rd != ZERO => {
            registers.call();
            None
        }
        Operation::Constant { value, .. } => R::<WIDE>::number(value),
        Operation::AddImmediate { rs1, immediate, .. } => R::<WIDE>::moved(read(registers, rs1), immediate),
        Operation::AddWord { rs1, immediate, .. } => match read(registers, rs1) {
            Some(Value::Constant(value)) => R::<WIDE>::number(i64::from(value.wrapping_add(immediate) as i32)),
            _ => None,
        },
        Operation::Add { rs1, rs2, .. } => R::<WIDE>::sum(read(registers, rs1), read(registers, rs2)),
        Operation::Subtract { rs1, rs2, .. } => R::<WIDE>::difference(read(registers, rs1), read(registers, rs2)),
        Operation::Load { rd, rs1, offset, bytes } if whole(bytes) && rd != ZERO => {
            let start = registers.on_stack(rs1).map(|base| base.wrapping_add(offset));
            registers.load_words(start, [rd]);
            return None;
        }
        Operation::Store { rs1, rs2: Some(rs2), offset, bytes } if whole(bytes) => {
            let start = registers.on_stack(rs1).map(|base| base.wrapping_add(offset));
            written = registers.store_words(start, [rs2]);
            None
        }
        Operation::Store { rs1, offset, bytes, .. } => {
            let start = registers.on_stack(rs1).map(|base| base.wrapping_add(offset));
            written = registers.store(start, bytes.into());
            None
        }
        Operation::Atomic { rs1, bytes, .. } => {
            written = registers.store(registers.on_stack(rs1), bytes.into());
            None
        }
        _ => None,
    };
    if let Some(register) = operation.writes().filter(|register| *register != ZERO) {
        registers.set(register, value);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::*;
    use crate::arch::Frame as _;

    /// Executes machine code up to its end; returns the frame there.
    fn execute<const WIDE: bool>(halves: &[u16]) -> Registers<RiscV<WIDE>> {
        let code: Vec<u8> = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
        let (mut frame, mut at) = (Registers::at_entry(), 0);
        while at < code.len() {
            let instruction = decode::<WIDE>(&code[at..], at as u64).expect("an instruction");
            let _ = perform(&mut frame, instruction.operation);
            at += usize::from(instruction.length);
        }
        frame
    }

    /// `c.addi sp,-16; c.swsp ra,12(sp)`
    const PROLOGUE: [u16; 2] = [0x1141, 0xc606];

    fn after_prologue(rest: &[u16]) -> Registers<RiscV<false>> {
        execute(&[&PROLOGUE[..], rest].concat())
    }

    #[test]
    fn prologues_and_epilogues_restore_the_return_address() {
        assert!(execute::<false>(&[]).are_back(RA));
        assert!(execute::<false>(&[0x1141, 0x0141]).are_back(RA)); // addi sp,-16; addi sp,16
        assert!(after_prologue(&[0x2001, 0x40b2, 0x0141]).are_back(RA)); // jal; lw ra,12(sp); addi sp,16
        // A frame pointer: sp,-32; sw ra,28(sp); sw s0,24(sp); addi s0,sp,32; jal; addi sp,s0,-32; lw ...; addi sp,32
        let framed = [0x1101, 0xce06, 0xcc22, 0x1000, 0x2001, 0x0113, 0xfe04, 0x40f2, 0x4462, 0x6105];
        assert!(execute::<false>(&framed).are_back(RA));
        // A large frame: lui t0,0x1; sub sp,sp,t0; lui t0,0x1; add sp,sp,t0
        assert!(execute::<false>(&[0x6285, 0x0133, 0x4051, 0x6285, 0x9116]).are_back(RA));
        // addi sp,-16; sd ra,8(sp); jal; ld ra,8(sp); addi sp,16
        assert!(execute::<true>(&[0x1141, 0xe406, 0x00ef, 0x0000, 0x60a2, 0x0141]).are_back(RA));
    }

    #[test]
    fn a_lost_return_address_is_detected() {
        assert!(after_prologue(&[0x40b2, 0x0141]).are_back(RA)); // lw ra,12(sp); addi sp,16
        assert!(!after_prologue(&[0x40b2]).are_back(RA)); // without the stack pointer
        assert!(!after_prologue(&[0x2001, 0x0141]).are_back(RA)); // without the return address
        assert!(!after_prologue(&[0xc62a, 0x40b2, 0x0141]).are_back(RA)); // sw a0,12(sp): overwritten
        assert!(!after_prologue(&[0x40a2, 0x0141]).are_back(RA)); // lw ra,8(sp): another word
        assert!(after_prologue(&[0xc42a, 0x40b2, 0x0141]).are_back(RA)); // sw a0,8(sp): beside it
        assert!(!execute::<false>(&[0x8286, 0x2001, 0x8096]).are_back(RA)); // mv t0,ra; jal; mv ra,t0: t0 is volatile
        assert!(!execute::<true>(&[0x1141, 0xc606, 0x40b2, 0x0141]).are_back(RA)); // half of the return address
    }
}
