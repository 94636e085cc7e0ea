//! What is known about the stack of a function. A [`Frame`] tracks the contents of registers relative to the stack
//! pointer at the function's entry. At a return, the stack pointer must be back there, and no known write to the stack
//! may have overwritten the return address. By the System V calling convention, a callee preserves `rbx`, `rbp`, `rsp`
//! and `r12` to `r15`.

use super::{instruction, is_transactional};
use crate::arch::{self, Frame as _, hull};
use crate::image::Image;
use iced_x86::{Code, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};
use std::ops::Range;

/// Registers a callee may change.
const VOLATILE: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

/// What finds the registers and memory that instructions use.
pub(super) struct Factory(InstructionInfoFactory);

impl Default for Factory {
    fn default() -> Self {
        Self(InstructionInfoFactory::new())
    }
}

/// Where the return address is, as offsets from the stack pointer at entry.
const RETURN_ADDRESS: Range<i64> = 0..8;

/// The contents of general-purpose registers: a byte offset from the stack pointer at entry, or `None` if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    registers: [Option<i64>; 16],
    /// Whether a stack pointer that is not known exactly is known not to be above the return address, because it was
    /// only lowered since it was last known.
    lowered: bool,
}

impl arch::Frame for Frame {
    type Scratch = Factory;

    const PUSHED_BYTES: i64 = 8;
    const CALLER: i64 = RETURN_ADDRESS.end;

    fn at_entry() -> Self {
        let mut registers = [None; 16];
        registers[Register::RSP.number()] = Some(0);
        Self { registers, lowered: false }
    }

    fn join(self, other: Self) -> Self {
        let mut joined = self;
        for (register, other) in joined.registers.iter_mut().zip(other.registers) {
            if *register != other {
                *register = None;
            }
        }
        let keep = self.keeps_return_address() && other.keeps_return_address();
        joined.lowered = keep && joined.get(Register::RSP).is_none();
        joined
    }

    fn is_level(&self, _: &dyn Image, _: u64) -> bool {
        self.is_back()
    }

    /// Whether the stack pointer is known not to be above the return address.
    fn keeps_return_address(&self) -> bool {
        self.stack_pointer().map_or(self.lowered, |stack| stack <= 0)
    }

    fn stack_pointer(&self) -> Option<i64> {
        self.get(Register::RSP)
    }

    fn return_address(&self) -> Range<i64> {
        RETURN_ADDRESS
    }

    fn execute(&mut self, image: &dyn Image, address: u64, Factory(factory): &mut Factory) -> Option<Range<i64>> {
        let instruction = image.code(address).and_then(|code| instruction(code, address))?;
        self.perform(&instruction, factory)
    }

    /// A transaction restores the stack pointer when it aborts.
    fn restores_stack(image: &dyn Image, address: u64) -> bool {
        let instruction = image.code(address).and_then(|code| instruction(code, address));
        instruction.as_ref().is_some_and(is_transactional)
    }
}

impl Frame {
    /// Whether the stack pointer is where it was at the entry, so that a return finds its address.
    fn is_back(&self) -> bool {
        self.get(Register::RSP) == Some(0)
    }

    /// Executes an instruction; see [`execute`](arch::Frame::execute).
    fn perform(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<Range<i64>> {
        if instruction.is_call_near() || instruction.is_call_near_indirect() {
            // The call pushes its own return address.
            let written = self.stack_pointer().and_then(|stack| from_return_address(stack.saturating_sub(8), 8));
            VOLATILE.iter().for_each(|register| self.set(*register, None));
            return written;
        }
        let info = factory.info(instruction);
        let low = self.keeps_return_address();
        let mut written = None;
        for memory in info.used_memory() {
            let writes = !matches!(
                memory.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            );
            let base = self.get(memory.base()).filter(|_| memory.index() == Register::None);
            if let Some(base) = base.filter(|_| writes) {
                // The displacement of a push includes the change of the stack pointer.
                let start = base.wrapping_add(memory.displacement().cast_signed());
                // Only the first element's address of a repeated store is known.
                let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
                let size = if repeated { instruction.memory_size() } else { memory.memory_size() };
                written = hull(written, from_return_address(start, size.size()));
            }
        }
        let value = self.value(instruction);
        for register in info.used_registers() {
            if !matches!(register.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None) {
                let full = register.register().full_register();
                if full.is_gpr64() && full != Register::RSP {
                    self.set(full, None);
                }
            }
        }
        let stays = !info.used_registers().iter().any(|used| {
            used.register().full_register() == Register::RSP
                && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None)
        });
        let moved = match self.stack_pointer() {
            stack if stays => stack,
            Some(stack) if only_moves_stack_pointer(instruction) => {
                Some(stack.wrapping_add(i64::from(instruction.stack_pointer_increment())))
            }
            _ => None,
        };
        self.set(Register::RSP, moved);
        if let Some((register, value)) = value {
            self.set(register, value);
        }
        self.lowered = low && (stays || lowers_stack_pointer(instruction)) && self.stack_pointer().is_none();
        written
    }

    /// The register whose content an instruction sets in a tracked way, with the new content.
    fn value(&self, instruction: &Instruction) -> Option<(Register, Option<i64>)> {
        let register = instruction.op0_register();
        if instruction.code() == Code::Leaveq {
            // The stack pointer ends just above the frame pointer that is popped.
            return Some((Register::RSP, self.get(Register::RBP).map(|frame| frame + 8)));
        }
        if instruction.op0_kind() != OpKind::Register || !register.is_gpr64() {
            return None;
        }
        let immediate = || instruction.try_immediate(1).ok().map(u64::cast_signed);
        let value = match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => self.get(instruction.op1_register()),
            Mnemonic::Lea if instruction.memory_index() == Register::None => self
                .get(instruction.memory_base())
                .map(|base| base.wrapping_add(instruction.memory_displacement64().cast_signed())),
            Mnemonic::Add => Some(self.get(register)?.wrapping_add(immediate()?)),
            Mnemonic::Sub => Some(self.get(register)?.wrapping_sub(immediate()?)),
            _ => return None,
        };
        Some((register, value))
    }

    fn get(&self, register: Register) -> Option<i64> {
        if register.is_gpr64() { self.registers[register.number()] } else { None }
    }

    fn set(&mut self, register: Register, value: Option<i64>) {
        self.registers[register.number()] = value;
    }
}

/// Whether an instruction changes the stack pointer by a constant and in no other way: a push or a pop, but not into
/// the stack pointer itself.
fn only_moves_stack_pointer(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushf | Mnemonic::Pushfq | Mnemonic::Popf | Mnemonic::Popfq => true,
        Mnemonic::Pop => instruction.op0_register().full_register() != Register::RSP,
        _ => false,
    }
}

/// Whether an instruction only lowers the stack pointer, for objects of varying size or to align it.
fn lowers_stack_pointer(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        Mnemonic::Push | Mnemonic::Pushf | Mnemonic::Pushfq => true,
        Mnemonic::Sub | Mnemonic::And => instruction.op0_register() == Register::RSP,
        _ => false,
    }
}

/// The part of `bytes` bytes from the offset `start` on that is not below the return address. Zero bytes stand for a
/// size that depends on the processor (`xsave`).
fn from_return_address(start: i64, bytes: usize) -> Option<Range<i64>> {
    let end = if bytes == 0 { i64::MAX } else { start.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)) };
    let start = start.max(RETURN_ADDRESS.start);
    (start < end).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes machine code up to its end. Returns the frame there, and whether the return address is unchanged.
    fn execute(mut code: &[u8]) -> (Frame, bool) {
        let mut frame = Frame::at_entry();
        let mut keeps = true;
        let mut factory = InstructionInfoFactory::new();
        while !code.is_empty() {
            let instruction = instruction(code, 0).expect("an instruction");
            let written = frame.perform(&instruction, &mut factory);
            keeps &= written.is_none_or(|written| written.start >= RETURN_ADDRESS.end);
            code = &code[instruction.len()..];
        }
        (frame, keeps)
    }

    #[test]
    fn prologues_and_epilogues_restore_the_stack_pointer() {
        let level: &[&[u8]] = &[
            &[0x55, 0x48, 0x89, 0xe5, 0x5d],                         // push rbp; mov rbp,rsp; pop rbp
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xc9], // ...; sub rsp,32; leave
            &[0x48, 0x83, 0xec, 0x18, 0x48, 0x83, 0xc4, 0x18],       // sub rsp,24; add rsp,24
            // push rbp; mov rbp,rsp; and rsp,-64; lea rsp,[rbp]; pop rbp
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x8d, 0x65, 0, 0x5d],
            &[0x41, 0x57, 0x53, 0xe8, 0, 0, 0, 0, 0x5b, 0x41, 0x5f], // push r15,rbx; call; pop
            &[0x48, 0x89, 0x7c, 0x24, 0xf8],                         // mov [rsp-8],rdi: the red zone
            &[0x48, 0x89, 0x7c, 0x24, 0x08],                         // mov [rsp+8],rdi: an argument
            &[0x48, 0x8d, 0x7c, 0x24, 0xf8, 0xf3, 0xab],             // lea rdi,[rsp-8]; rep stosd
        ];
        for code in level {
            let (frame, keeps) = execute(code);
            assert!(frame.is_back() && keeps, "{code:02x?}: {frame:?}");
        }
    }

    #[test]
    fn a_displaced_stack_pointer_is_detected() {
        let displaced: &[&[u8]] = &[
            &[0x50],                                                 // push rax
            &[0x58],                                                 // pop rax: the return address
            &[0x48, 0x89, 0xfc],                                     // mov rsp,rdi
            &[0x48, 0x83, 0xe4, 0xf0],                               // and rsp,-16
            &[0x48, 0x29, 0xc4],                                     // sub rsp,rax
            &[0x48, 0x94],                                           // xchg rax,rsp
            &[0xc8, 0x10, 0, 0],                                     // enter 16,0
            &[0x55, 0x48, 0x89, 0xe5, 0x31, 0xed, 0xc9],             // push rbp; mov rbp,rsp; xor ebp,ebp; leave
            &[0x57, 0x5c],                                           // push rdi; pop rsp
            &[0x57, 0x66, 0x5c, 0x5f],                               // push rdi; pop sp; pop rdi
            &[0x57, 0x8f, 0xc4],                                     // push rdi; pop rsp, the longer encoding
            &[0x89, 0xe4],                                           // mov esp,esp
            &[0x66, 0x89, 0xc4],                                     // mov sp,ax
            &[0x48, 0x0f, 0x44, 0xe0],                               // cmovz rsp,rax
            &[0x67, 0x8d, 0x24, 0x24],                               // lea esp,[esp]
            &[0x67, 0x48, 0x8d, 0x24, 0x24],                         // lea rsp,[esp]
            &[0x48, 0x8d, 0x24, 0x04],                               // lea rsp,[rsp+rax]
            &[0x48, 0x0f, 0xc1, 0xc4],                               // xadd rsp,rax
            &[0x48, 0x0f, 0xb1, 0xc4],                               // cmpxchg rsp,rax
            &[0x48, 0x8b, 0x24, 0x24],                               // mov rsp,[rsp]
            &[0x48, 0x03, 0x24, 0x24],                               // add rsp,[rsp]
            &[0x48, 0xff, 0xc4],                                     // inc rsp
            &[0x48, 0x0f, 0xcc],                                     // bswap rsp
            &[0x48, 0x0f, 0xb2, 0x24, 0x24],                         // lss rsp,[rsp]
            &[0x55, 0x48, 0x89, 0xe5, 0x66, 0xc9],                   // push rbp; mov rbp,rsp; leavew
            &[0x55, 0x48, 0x89, 0xe5, 0x66, 0x5d, 0x66, 0x55, 0xc9], // push rbp; mov rbp,rsp; pop bp; push bp; leave
        ];
        for code in displaced {
            assert!(!execute(code).0.is_back(), "{code:02x?}");
        }
    }

    #[test]
    fn an_overwritten_return_address_is_detected() {
        let over: &[&[u8]] = &[
            &[0x4c, 0x89, 0x1c, 0x24],                               // mov [rsp],r11: a return trampoline
            &[0x48, 0x83, 0xec, 0x08, 0x4c, 0x89, 0x5c, 0x24, 0x08], // sub rsp,8; mov [rsp+8],r11
            &[0x48, 0x89, 0xe0, 0x88, 0x50, 0x07],                   // mov rax,rsp; mov [rax+7],dl
            &[0x58, 0x50],                                           // pop rax; push rax
            &[0x48, 0x83, 0xc4, 0x08, 0xe8, 0, 0, 0, 0],             // add rsp,8; call
            &[0x48, 0x83, 0x04, 0x24, 0x05],                         // add qword [rsp],5
            &[0x57, 0x8f, 0x04, 0x24],                               // push rdi; pop [rsp]: after the increment
            &[0x57, 0x8f, 0x44, 0x24, 0x04],                         // push rdi; pop [rsp+4]
            &[0x48, 0x87, 0x3c, 0x24],                               // xchg [rsp],rdi
            &[0x0f, 0x11, 0x44, 0x24, 0xf8],                         // movups [rsp-8],xmm0
            &[0x0f, 0xae, 0x64, 0x24, 0x80],                         // xsave [rsp-128]
            &[0x48, 0x0f, 0xc7, 0x4c, 0x24, 0xf8],                   // cmpxchg16b [rsp-8]
            &[0x48, 0x89, 0xe7, 0xaa],                               // mov rdi,rsp; stosb
            &[0x48, 0x89, 0xe7, 0xf3, 0xab],                         // mov rdi,rsp; rep stosd
            &[0x48, 0x89, 0xe7, 0x48, 0xff, 0xc7, 0x48, 0x8d, 0x7c, 0x24, 0xff, 0xab], // ...; lea rdi,[rsp-1]; stosd
        ];
        for code in over {
            assert!(!execute(code).1, "{code:02x?}");
        }
    }

    #[test]
    fn a_stack_pointer_that_was_only_lowered_is_recognised() {
        let cases: &[(&[u8], bool)] = &[
            (&[0x50], true),                                                          // push rax
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4], true), // push rbp; mov rbp,rsp; sub rsp,rax
            (&[0x48, 0x83, 0xe4, 0xc0, 0x50, 0x90], true),       // and rsp,-64; push rax; nop
            (&[0x58], false),                                    // pop rax
            (&[0x48, 0x29, 0xc4, 0x58], false),                  // sub rsp,rax; pop rax
            (&[0x48, 0x01, 0xc4], false),                        // add rsp,rax
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x24, 0x24], false), // push rbp; mov rbp,rsp; mov rsp,[rsp]
            (&[0x48, 0x29, 0xc4, 0x48, 0x89, 0xfc], false),      // sub rsp,rax; mov rsp,rdi
            (&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x29, 0xc4, 0x48, 0x8d, 0x65, 0], true), // ...; lea rsp,[rbp]
        ];
        for (code, keeps) in cases {
            assert_eq!(execute(code).0.keeps_return_address(), *keeps, "{code:02x?}");
        }
        let (varying, _) = execute(&[0x48, 0x29, 0xc4]);
        assert!(varying.join(execute(&[0x50]).0).keeps_return_address());
        assert!(!varying.join(execute(&[0x58]).0).keeps_return_address());
    }

    #[test]
    fn joined_paths_keep_only_what_both_know() {
        let (pushed, _) = execute(&[0x50]);
        let joined = Frame::at_entry().join(pushed);
        assert!(!joined.is_back());
        assert_eq!(Frame::at_entry().join(Frame::at_entry()), Frame::at_entry());
    }
}
