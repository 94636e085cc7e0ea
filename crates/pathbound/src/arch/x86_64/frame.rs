//! Whether a return goes back to where the call came from.
//!
//! A bound follows calls, so a `ret` must find the return address that its call pushed. Most code keeps to that; a
//! return trampoline or a hand-written switch of stacks does not, and would make the bound wrong. A [`Frame`] follows
//! what registers hold relative to the stack pointer at the function's entry: at a return the stack pointer must
//! be back there, and nothing that is known to go to the stack may have gone over the return address.
//!
//! What the frame cannot see is taken from the calling convention of System V: a callee preserves `rbx`, `rbp`, `rsp` and `r12`
//! to `r15`, and a store through an ordinary pointer does not hit a return address.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

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

/// What the general registers hold: a distance in bytes from the stack pointer at the entry, or something unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame([Option<i64>; 16]);

impl Frame {
    /// At the first instruction of a function: the stack pointer is where it is, and points to the return address.
    pub(crate) fn at_entry() -> Self {
        let mut registers = [None; 16];
        registers[Register::RSP.number()] = Some(0);
        Self(registers)
    }

    /// What holds on both of two ways to an instruction.
    pub(crate) fn join(self, other: Self) -> Self {
        let mut registers = self.0;
        for (register, other) in registers.iter_mut().zip(other.0) {
            if *register != other {
                *register = None;
            }
        }
        Self(registers)
    }

    /// Whether the stack pointer is where it was at the entry, so that a return finds its address.
    pub(crate) fn is_level(&self) -> bool {
        self.get(Register::RSP) == Some(0)
    }

    /// Goes past an instruction that does not leave the function; a call is gone past together with its callee. False
    /// where the instruction writes over the return address.
    #[must_use]
    pub(crate) fn execute(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) -> bool {
        if instruction.is_call_near() || instruction.is_call_near_indirect() {
            // The call pushes an address of its own.
            let keeps = self.get(Register::RSP).is_none_or(|stack| !overlaps(stack - 8, 8));
            VOLATILE.iter().for_each(|register| self.set(*register, None));
            return keeps;
        }
        let info = factory.info(instruction);
        let mut keeps = true;
        for memory in info.used_memory() {
            let writes = !matches!(
                memory.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            );
            let base = self.get(memory.base()).filter(|_| memory.index() == Register::None);
            if let Some(base) = base.filter(|_| writes) {
                // A push is reported with the distance that it moves the stack pointer by.
                let start = base.wrapping_add(memory.displacement().cast_signed());
                keeps &= !overlaps(start, memory.memory_size().size());
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
        let moved = match self.get(Register::RSP) {
            _ if !info.used_registers().iter().any(|used| {
                used.register().full_register() == Register::RSP
                    && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None)
            }) =>
            {
                self.get(Register::RSP)
            }
            Some(stack) if instruction.is_stack_instruction() && instruction.mnemonic() != Mnemonic::Enter => {
                Some(stack.wrapping_add(i64::from(instruction.stack_pointer_increment())))
            }
            _ => None,
        };
        self.set(Register::RSP, moved);
        if let Some((register, value)) = value {
            self.set(register, value);
        }
        keeps
    }

    /// The register an instruction puts a known distance into, with it.
    fn value(&self, instruction: &Instruction) -> Option<(Register, Option<i64>)> {
        let register = instruction.op0_register();
        if instruction.mnemonic() == Mnemonic::Leave {
            // The stack pointer goes behind the frame pointer that is popped.
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
        if register.is_gpr64() { self.0[register.number()] } else { None }
    }

    fn set(&mut self, register: Register, value: Option<i64>) {
        self.0[register.number()] = value;
    }
}

/// Whether so many bytes from this distance on touch the return address.
fn overlaps(start: i64, bytes: usize) -> bool {
    start < 8 && start.saturating_add(i64::try_from(bytes.max(1)).unwrap_or(i64::MAX)) > 0
}

#[cfg(test)]
mod tests {
    use super::super::instruction;
    use super::*;

    /// Executes machine code up to its end; the frame there, and whether the return address is as it was.
    fn execute(mut code: &[u8]) -> (Frame, bool) {
        let mut frame = Frame::at_entry();
        let mut keeps = true;
        let mut factory = InstructionInfoFactory::new();
        while !code.is_empty() {
            let instruction = instruction(code, 0).expect("an instruction");
            keeps &= frame.execute(&instruction, &mut factory);
            code = &code[instruction.len()..];
        }
        (frame, keeps)
    }

    #[test]
    fn prologues_and_epilogues_end_level() {
        let level: &[&[u8]] = &[
            &[0x55, 0x48, 0x89, 0xe5, 0x5d],                         // push rbp; mov rbp,rsp; pop rbp
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xc9], // ...; sub rsp,32; leave
            &[0x48, 0x83, 0xec, 0x18, 0x48, 0x83, 0xc4, 0x18],       // sub rsp,24; add rsp,24
            &[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x8d, 0x65, 0, 0x5d], // ...; and rsp,-64; lea rsp,[rbp]; pop
            &[0x41, 0x57, 0x53, 0xe8, 0, 0, 0, 0, 0x5b, 0x41, 0x5f],                      // push r15,rbx; call; pop
            &[0x48, 0x89, 0x7c, 0x24, 0xf8], // mov [rsp-8],rdi: the red zone
            &[0x48, 0x89, 0x7c, 0x24, 0x08], // mov [rsp+8],rdi: an argument
        ];
        for code in level {
            let (frame, keeps) = execute(code);
            assert!(frame.is_level() && keeps, "{code:02x?}: {frame:?}");
        }
    }

    #[test]
    fn a_stack_pointer_out_of_place_is_seen() {
        let tilted: &[&[u8]] = &[
            &[0x50],                                     // push rax
            &[0x58],                                     // pop rax: the return address
            &[0x48, 0x89, 0xfc],                         // mov rsp,rdi
            &[0x48, 0x83, 0xe4, 0xf0],                   // and rsp,-16
            &[0x48, 0x29, 0xc4],                         // sub rsp,rax
            &[0x48, 0x94],                               // xchg rax,rsp
            &[0xc8, 0x10, 0, 0],                         // enter 16,0
            &[0x55, 0x48, 0x89, 0xe5, 0x31, 0xed, 0xc9], // push rbp; mov rbp,rsp; xor ebp,ebp; leave
        ];
        for code in tilted {
            assert!(!execute(code).0.is_level(), "{code:02x?}");
        }
    }

    #[test]
    fn a_write_over_the_return_address_is_seen() {
        let over: &[&[u8]] = &[
            &[0x4c, 0x89, 0x1c, 0x24],                               // mov [rsp],r11: a return trampoline
            &[0x48, 0x83, 0xec, 0x08, 0x4c, 0x89, 0x5c, 0x24, 0x08], // sub rsp,8; mov [rsp+8],r11
            &[0x48, 0x89, 0xe0, 0x88, 0x50, 0x07],                   // mov rax,rsp; mov [rax+7],dl
            &[0x58, 0x50],                                           // pop rax; push rax
            &[0x48, 0x83, 0xc4, 0x08, 0xe8, 0, 0, 0, 0],             // add rsp,8; call
            &[0x48, 0x83, 0x04, 0x24, 0x05],                         // add qword [rsp],5
        ];
        for code in over {
            assert!(!execute(code).1, "{code:02x?}");
        }
    }

    #[test]
    fn two_ways_agree_on_what_both_know() {
        let (pushed, _) = execute(&[0x50]);
        let joined = Frame::at_entry().join(pushed);
        assert!(!joined.is_level());
        assert_eq!(Frame::at_entry().join(Frame::at_entry()), Frame::at_entry());
    }
}
