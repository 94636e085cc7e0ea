//! x86-64 instructions, decoded by iced-x86.

mod frame;
mod second;

use super::{Decoded, InstructionSet, Relocation, Target, Transfer};
use crate::graph::{Graph, unmatched_returns};
use crate::image::Image;
use crate::second_decoder::Second;
use frame::Frame;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter as _, Instruction, IntelFormatter, Mnemonic, OpKind, Register,
};
use object::elf;
use std::collections::BTreeSet;

/// Length of the longest instruction.
pub const LONGEST_INSTRUCTION_BYTES: usize = 15;

/// The instruction set.
pub(crate) struct X86_64;

impl InstructionSet for X86_64 {
    fn name(&self) -> &'static str {
        "x86-64"
    }

    fn machine(&self) -> elf::Machine {
        elf::EM_X86_64
    }

    fn pointer_bytes(&self) -> u64 {
        8
    }

    fn has_pages(&self) -> bool {
        true
    }

    fn decode(&self, image: &dyn Image, address: u64) -> Option<Decoded> {
        decode(image.code(address)?, address)
    }

    fn text(&self, image: &dyn Image, address: u64) -> Option<String> {
        text(image.code(address)?, address)
    }

    fn second_decoder(&self) -> Result<Box<dyn Second>, String> {
        second::Decoder::new().map(|decoder| Box::new(decoder) as Box<dyn Second>)
    }

    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64> {
        taken(&instruction(image.code(address)?, address)?, image.fixed())
    }

    fn unmatched_returns(&self, graph: &Graph, image: &dyn Image) -> (BTreeSet<u64>, BTreeSet<u64>) {
        unmatched_returns::<Frame>(graph, image)
    }

    fn relocation(&self, kind: elf::RelocationType) -> Relocation {
        match kind {
            elf::R_X86_64_NONE => Relocation::Nothing,
            elf::R_X86_64_JUMP_SLOT => Relocation::JumpSlot,
            elf::R_X86_64_GLOB_DAT => Relocation::GlobalData,
            elf::R_X86_64_IRELATIVE => Relocation::Chosen,
            elf::R_X86_64_RELATIVE => Relocation::Relative,
            elf::R_X86_64_64 => Relocation::Absolute,
            _ => Relocation::Unknown,
        }
    }

    /// `jmp [rip + distance]`
    fn stub_pointer(&self, code: &[u8], address: u64) -> Option<u64> {
        let at = code.windows(6).position(|window| window.starts_with(&[0xff, 0x25]))?;
        let distance = i32::from_le_bytes(*code[at + 2..].first_chunk()?);
        Some(address.wrapping_add(at as u64 + 6).wrapping_add_signed(distance.into()))
    }

    fn unwind_sections(&self) -> Option<elf::SectionType> {
        Some(elf::SHT_X86_64_UNWIND)
    }
}

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
#[must_use]
pub fn decode(code: &[u8], address: u64) -> Option<Decoded> {
    let instruction = instruction(code, address)?;
    let length = u8::try_from(instruction.len()).ok()?;
    let transfer = match transfer(&instruction) {
        transfer @ (Transfer::Next | Transfer::Repeat | Transfer::Kernel) => transfer,
        // Intel processors ignore an operand-size prefix before a near branch, AMD processors do not.
        _ if decoded(code, address, DecoderOptions::AMD) != instruction => Transfer::Elsewhere,
        transfer => transfer,
    };
    Some(Decoded { length, transfer, after: None })
}

/// The instruction at the beginning of `code`, in the decoder's form; `None` if it is invalid.
fn instruction(code: &[u8], address: u64) -> Option<Instruction> {
    let instruction = decoded(code, address, DecoderOptions::NONE);
    (!instruction.is_invalid()).then_some(instruction)
}

fn decoded(code: &[u8], address: u64, options: u32) -> Instruction {
    Decoder::with_ip(64, &code[..code.len().min(LONGEST_INSTRUCTION_BYTES)], address, options).decode()
}

/// The instruction at the beginning of `code` as text, in Intel's syntax; `None` where there is none.
fn text(code: &[u8], address: u64) -> Option<String> {
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

/// The address that an instruction takes, if any: other code may jump there. With `fixed`, constants may be addresses.
fn taken(instruction: &Instruction, fixed: bool) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => Some(instruction.ip_rel_memory_address()),
        Mnemonic::Mov | Mnemonic::Push if fixed => instruction.try_immediate(instruction.op_count() - 1).ok(),
        _ => None,
    }
}

/// Whether an instruction begins a transaction or may go back to where one began.
fn is_transactional(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Xbegin | Mnemonic::Xabort | Mnemonic::Xend)
}

fn transfer(instruction: &Instruction) -> Transfer {
    match instruction.flow_control() {
        // The control flow of these depends on the processor's mode or on the kernel. A handler of the signal that a
        // breakpoint raises continues after it.
        _ if matches!(
            instruction.mnemonic(),
            Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int | Mnemonic::Int3 | Mnemonic::Int1
        ) =>
        {
            Transfer::Kernel
        }
        // The decoder treats an abort like any other instruction; in a transaction it goes back to the beginning.
        _ if is_transactional(instruction) => Transfer::Elsewhere,
        // These enter and leave enclaves, virtual machines and other modes.
        _ if matches!(
            instruction.mnemonic(),
            Mnemonic::Enclu | Mnemonic::Encls | Mnemonic::Enclv | Mnemonic::Getsec | Mnemonic::Vmfunc | Mnemonic::Jmpe
        ) =>
        {
            Transfer::Elsewhere
        }
        // Programs may not halt the processor: this traps.
        _ if instruction.mnemonic() == Mnemonic::Hlt => Transfer::Trap,
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
        // Processors disagree on the length of this instruction.
        FlowControl::Exception if instruction.mnemonic() == Mnemonic::Ud0 => Transfer::Elsewhere,
        FlowControl::Exception => Transfer::Trap,
        FlowControl::Return | FlowControl::Interrupt | FlowControl::XbeginXabortXend => Transfer::Elsewhere,
    }
}

fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// The target of a direct near jump or call; `None` if it is far.
fn near(instruction: &Instruction) -> Option<Target> {
    (instruction.op0_kind() == OpKind::NearBranch64).then(|| Target::Address(instruction.near_branch64()))
}

/// The target of an indirect near jump or call; `None` if it is far.
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
    fn every_kind_of_transfer_is_recognised() {
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
            (&[0x0f, 0xff, 0xc0], Transfer::Elsewhere),       // ud0
            (&[0xcc], Transfer::Kernel),                      // int3: a handler continues after it
            (&[0xf1], Transfer::Kernel),                      // int1
            (&[0xf4], Transfer::Trap),                        // hlt
            (&[0xc7, 0xf8, 0, 0, 0, 0], Transfer::Elsewhere), // xbegin
            (&[0xc6, 0xf8, 0xfd], Transfer::Elsewhere),       // xabort
            (&[0x0f, 0x01, 0xd7], Transfer::Elsewhere),       // enclu
            (&[0x0f, 0x01, 0xc1], Transfer::Elsewhere),       // vmcall
            (&[0x0f, 0x01, 0xd4], Transfer::Elsewhere),       // vmfunc
            (&[0xf3, 0x0f, 0x01, 0xec], Transfer::Elsewhere), // uiret
            (&[0x48, 0x0f, 0x07], Transfer::Elsewhere),       // sysretq
            // AMD processors honour the operand-size prefix: a 16-bit distance, a 16-bit target.
            (&[0x66, 0x74, 0xfe], Transfer::Elsewhere),
            (&[0x66, 0x0f, 0x85, 0, 1, 0, 0], Transfer::Elsewhere),
            (&[0x66, 0xe9, 0, 1, 0, 0], Transfer::Elsewhere),
            (&[0x66, 0xeb, 0x10], Transfer::Elsewhere),
            (&[0x66, 0xe8, 0, 0, 0, 0], Transfer::Elsewhere),
            (&[0x66, 0xff, 0xe0], Transfer::Elsewhere),
            (&[0x66, 0xff, 0x25, 0, 1, 0, 0], Transfer::Elsewhere),
            (&[0x66, 0xff, 0xd0], Transfer::Elsewhere),
            (&[0x66, 0xc3], Transfer::Elsewhere),
            (&[0x66, 0xe2, 0x02], Transfer::Elsewhere),
            (&[0x66, 0xe3, 0x02], Transfer::Elsewhere),
            (&[0x66, 0x48, 0xc3], Transfer::Return),    // the 64-bit prefix wins
            (&[0x0f, 0x01, 0xd5], Transfer::Elsewhere), // xend
        ];
        for (code, expected) in cases {
            assert_eq!(transfer_of(code), *expected, "{code:02x?}");
        }
    }

    #[test]
    fn instructions_are_written_in_intel_syntax() {
        assert_eq!(text(&[0x48, 0x8d, 0x04, 0x37], 0).as_deref(), Some("lea rax, [rdi+rsi]"));
        assert_eq!(text(&[0x74, 0xfe], 0x1000).as_deref(), Some("je short 0x1000"));
        assert_eq!(text(&[0x06], 0), None);
    }

    #[test]
    fn invalid_bytes_are_not_decoded() {
        assert_eq!(decode(&[0x06], 0), None, "push es is invalid in 64-bit mode");
        assert_eq!(decode(&[0x48], 0), None, "a prefix alone");
        assert_eq!(decode(&[], 0), None);
    }
}
