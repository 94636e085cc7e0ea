//! x86-64 instructions, decoded by iced-x86.

mod frame;

pub(crate) use frame::Frame;

use super::{Decoded, Target, Transfer};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction, IntelFormatter, Mnemonic, OpKind, Register,
};

/// Bytes of the longest instruction.
pub const LONGEST_INSTRUCTION_BYTES: usize = 15;

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
#[must_use]
pub fn decode(code: &[u8], address: u64) -> Option<Decoded> {
    let instruction = instruction(code, address)?;
    let length = u8::try_from(instruction.len()).ok()?;
    Some(Decoded { length, transfer: transfer(&instruction) })
}

/// The instruction at the beginning of `code` as the decoder gives it.
pub(crate) fn instruction(code: &[u8], address: u64) -> Option<Instruction> {
    let code = &code[..code.len().min(LONGEST_INSTRUCTION_BYTES)];
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// The instruction at the beginning of `code` as text, in Intel's syntax; `None` where there is none.
#[must_use]
pub fn text(code: &[u8], address: u64) -> Option<String> {
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_space_after_operand_separator(true);
    formatter.options_mut().set_hex_prefix("0x");
    formatter.options_mut().set_hex_suffix("");
    formatter.options_mut().set_uppercase_hex(false);
    formatter.options_mut().set_branch_leading_zeros(false);
    formatter.options_mut().set_rip_relative_addresses(true);
    let mut text = String::new();
    formatter.format(&instruction(code, address)?, &mut text);
    Some(text)
}

fn transfer(instruction: &Instruction) -> Transfer {
    match instruction.flow_control() {
        // These have a flow of control that hangs on the mode or on what the kernel makes of them.
        // A handler of the signal that a breakpoint raises goes on behind it.
        _ if matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int | Mnemonic::Int3 | Mnemonic::Int1
        ) =>
        {
            Transfer::Kernel
        }
        // The decoder takes an abort for an instruction like any other; in a transaction it goes to where that began.
        _ if matches!(instruction.mnemonic(), Mnemonic::Hlt | Mnemonic::Xabort | Mnemonic::Xend) => Transfer::Elsewhere,
        FlowControl::Next if repeats(instruction) => Transfer::Repeat,
        FlowControl::Next => Transfer::Next,
        FlowControl::UnconditionalBranch => near(instruction).map_or(Transfer::Elsewhere, Transfer::Jump),
        FlowControl::IndirectBranch => computed(instruction).map_or(Transfer::Elsewhere, Transfer::Jump),
        FlowControl::ConditionalBranch => match near(instruction) {
            Some(Target::Address(target)) => Transfer::Branch(target),
            _ => Transfer::Elsewhere,
        },
        FlowControl::Call => near(instruction).map_or(Transfer::Elsewhere, Transfer::Call),
        FlowControl::IndirectCall => computed(instruction).map_or(Transfer::Elsewhere, Transfer::Call),
        FlowControl::Return if instruction.code() == Code::Retnq => Transfer::Return,
        FlowControl::Exception => Transfer::Trap,
        FlowControl::Return | FlowControl::Interrupt | FlowControl::XbeginXabortXend => Transfer::Elsewhere,
    }
}

fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Where a near jump or call with its target in the instruction goes; none if it is a far one.
fn near(instruction: &Instruction) -> Option<Target> {
    (instruction.op0_kind() == OpKind::NearBranch64).then(|| Target::Address(instruction.near_branch64()))
}

/// Where a near indirect jump or call goes; none if it is a far one.
fn computed(instruction: &Instruction) -> Option<Target> {
    if instruction.is_jmp_far_indirect() || instruction.is_call_far_indirect() {
        return None;
    }
    let fixed = instruction.op0_kind() == OpKind::Memory
        && matches!(instruction.memory_base(), Register::None | Register::RIP)
        && instruction.memory_index() == Register::None
        && !matches!(instruction.memory_segment(), Register::FS | Register::GS);
    Some(if fixed { Target::Pointer(instruction.memory_displacement64()) } else { Target::Computed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer_of(code: &[u8]) -> Transfer {
        decode(code, 0x1000).expect("an instruction").transfer
    }

    #[test]
    fn every_kind_of_transfer_is_told_from_the_others() {
        let cases: &[(&[u8], Transfer)] = &[
            (&[0x90], Transfer::Next),
            (&[0xf3, 0x90], Transfer::Next),             // pause
            (&[0xf3, 0x0f, 0x1e, 0xfa], Transfer::Next), // endbr64
            (&[0xa4], Transfer::Next),                   // movsb
            (&[0xf3, 0xa4], Transfer::Repeat),           // rep movsb
            (&[0xf3, 0x48, 0xab], Transfer::Repeat),     // rep stosq
            (&[0xf2, 0xae], Transfer::Repeat),           // repne scasb
            (&[0xf3, 0xa6], Transfer::Repeat),           // repe cmpsb
            (&[0x0f, 0x05], Transfer::Kernel),
            (&[0xcd, 0x80], Transfer::Kernel),
            (&[0xeb, 0x10], Transfer::Jump(Target::Address(0x1012))),
            (&[0xe9, 0, 1, 0, 0], Transfer::Jump(Target::Address(0x1105))),
            (&[0xff, 0xe0], Transfer::Jump(Target::Computed)),
            (&[0x3e, 0xff, 0xe0], Transfer::Jump(Target::Computed)), // notrack
            (&[0xff, 0x24, 0xc5, 0, 0, 0, 0], Transfer::Jump(Target::Computed)), // jmp [rax*8]
            (&[0xff, 0x25, 0, 1, 0, 0], Transfer::Jump(Target::Pointer(0x1106))), // jmp [rip+0x100]
            (&[0xff, 0x24, 0x25, 0, 0x20, 0, 0], Transfer::Jump(Target::Pointer(0x2000))), // jmp [0x2000]
            (&[0x64, 0xff, 0x24, 0x25, 0, 0x20, 0, 0], Transfer::Jump(Target::Computed)), // jmp fs:[0x2000]
            (&[0xff, 0x2d, 0, 1, 0, 0], Transfer::Elsewhere),        // jmp far [rip+0x100]
            (&[0x74, 0xfe], Transfer::Branch(0x1000)),
            (&[0x0f, 0x85, 0, 1, 0, 0], Transfer::Branch(0x1106)),
            (&[0xe2, 0x02], Transfer::Branch(0x1004)), // loop
            (&[0xe3, 0x02], Transfer::Branch(0x1004)), // jrcxz
            (&[0xe8, 0, 0, 0, 0], Transfer::Call(Target::Address(0x1005))),
            (&[0xff, 0xd0], Transfer::Call(Target::Computed)),
            (&[0xff, 0x15, 0, 1, 0, 0], Transfer::Call(Target::Pointer(0x1106))),
            (&[0xff, 0x54, 0x24, 0x08], Transfer::Call(Target::Computed)), // call [rsp+8]
            (&[0xff, 0x1d, 0, 1, 0, 0], Transfer::Elsewhere),              // call far [rip+0x100]
            (&[0xc3], Transfer::Return),
            (&[0xf3, 0xc3], Transfer::Return),                // rep ret
            (&[0xc2, 8, 0], Transfer::Elsewhere),             // ret 8: moves the caller's stack pointer
            (&[0xcb], Transfer::Elsewhere),                   // retf
            (&[0x48, 0xcf], Transfer::Elsewhere),             // iretq
            (&[0x0f, 0x0b], Transfer::Trap),                  // ud2
            (&[0xcc], Transfer::Kernel),                      // int3: a handler goes on behind it
            (&[0xf1], Transfer::Kernel),                      // int1
            (&[0xf4], Transfer::Elsewhere),                   // hlt
            (&[0xc7, 0xf8, 0, 0, 0, 0], Transfer::Elsewhere), // xbegin
            (&[0xc6, 0xf8, 0xfd], Transfer::Elsewhere),       // xabort
            (&[0x0f, 0x01, 0xd5], Transfer::Elsewhere),       // xend
        ];
        for (code, expected) in cases {
            assert_eq!(transfer_of(code), *expected, "{code:02x?}");
        }
    }

    #[test]
    fn instructions_are_written_as_people_know_them() {
        assert_eq!(text(&[0x48, 0x8d, 0x04, 0x37], 0).as_deref(), Some("lea rax, [rdi+rsi]"));
        assert_eq!(text(&[0x74, 0xfe], 0x1000).as_deref(), Some("je short 0x1000"));
        assert_eq!(text(&[0x06], 0), None);
    }

    #[test]
    fn what_is_no_instruction_is_not_decoded() {
        assert_eq!(decode(&[0x06], 0), None, "push es is none in 64-bit mode");
        assert_eq!(decode(&[0x48], 0), None, "a prefix alone");
        assert_eq!(decode(&[], 0), None);
    }
}
