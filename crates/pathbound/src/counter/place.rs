//! Where in a block its instructions are counted, and what that overwrites.
//!
//! Counting adds to a word in memory. `add` takes one instruction but changes the flags; `lea` changes a register. Most
//! blocks have a place where the flags or some register are dead: right before an instruction that overwrites all of
//! them without reading them.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register, RflagsBits};

/// What counting may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// The status flags.
    Flags,
    /// A general-purpose register, by its number.
    Register(u8),
    /// Nothing.
    Nothing,
}

/// A place in a block, and what is spare there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The index of the instruction before which to count.
    pub before: usize,
    /// What may be overwritten there.
    pub spare: Spare,
}

/// Chooses the cheapest place among those before one of `instructions`, each of which continues at the next.
pub fn choose<'a>(instructions: impl Iterator<Item = &'a Instruction>, factory: &mut InstructionInfoFactory) -> Place {
    let mut with_register = None;
    for (before, instruction) in instructions.enumerate() {
        if overwrites_flags(instruction) {
            return Place { before, spare: Spare::Flags };
        }
        if with_register.is_none() {
            with_register = overwritten_register(instruction, factory)
                .map(|register| Place { before, spare: Spare::Register(register) });
        }
    }
    with_register.unwrap_or(Place { before: 0, spare: Spare::Nothing })
}

/// Whether all six status flags are overwritten, whatever the operands, and none is read. Some of these instructions
/// leave the auxiliary carry undefined, but no other flag. Shifts and rotations are not included: by 0 they change
/// none.
fn overwrites_flags(instruction: &Instruction) -> bool {
    const STATUS: u32 =
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF | RflagsBits::CF;
    matches!(
        instruction.mnemonic(),
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Neg
            | Mnemonic::Ucomiss
            | Mnemonic::Ucomisd
            | Mnemonic::Comiss
            | Mnemonic::Comisd
    ) && instruction.rflags_modified() & STATUS == STATUS
        && instruction.rflags_read() & STATUS == 0
}

/// A general-purpose register that is always overwritten in full, and not read.
fn overwritten_register(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Option<u8> {
    if matches!(instruction.mnemonic(), Mnemonic::Rdsspd | Mnemonic::Rdsspq) {
        // Without a shadow stack it does nothing, and the C library relies on the previous content of the register.
        return None;
    }
    let used = factory.info(instruction).used_registers();
    let written = used.iter().find(|one| {
        one.access() == OpAccess::Write
            && one.register().is_gpr()
            && one.register().size() >= 4
            && one.register().full_register() != Register::RSP
    })?;
    let full = written.register().full_register();
    let alone = used
        .iter()
        .filter(|other| other.register().full_register() == full)
        .all(|other| other.access() == OpAccess::Write);
    alone.then(|| full.number() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn chosen(code: &[u8]) -> Place {
        let instructions: Vec<_> = Decoder::new(64, code, DecoderOptions::NONE).iter().collect();
        assert!(instructions.iter().all(|instruction| !instruction.is_invalid()));
        choose(instructions.iter(), &mut InstructionInfoFactory::new())
    }

    #[test]
    fn counting_goes_where_flags_are_about_to_be_overwritten() {
        // mov [rdi], rsi; test rax, rax
        assert_eq!(chosen(&[0x48, 0x89, 0x37, 0x48, 0x85, 0xc0]), Place { before: 1, spare: Spare::Flags });
        // mov eax, edi; cmp eax, esi: the flags are cheaper than the register.
        assert_eq!(chosen(&[0x89, 0xf8, 0x39, 0xf0]), Place { before: 1, spare: Spare::Flags });
    }

    #[test]
    fn instructions_that_read_or_keep_flags_do_not_make_them_spare() {
        // adc rax, rax
        assert_eq!(chosen(&[0x48, 0x11, 0xc0]), Place { before: 0, spare: Spare::Nothing });
        // inc rax: keeps the carry.
        assert_eq!(chosen(&[0x48, 0xff, 0xc0]), Place { before: 0, spare: Spare::Nothing });
        // shl rax, cl: by 0 it keeps all.
        assert_eq!(chosen(&[0x48, 0xd3, 0xe0]), Place { before: 0, spare: Spare::Nothing });
        // shl rax, 4; rol rax, 4
        assert_eq!(chosen(&[0x48, 0xc1, 0xe0, 4, 0x48, 0xc1, 0xc0, 4]), Place { before: 0, spare: Spare::Nothing });
        // bsf rax, rcx: keeps rax where rcx is 0.
        assert_eq!(chosen(&[0x48, 0x0f, 0xbc, 0xc1]).spare, Spare::Nothing);
    }

    #[test]
    fn a_register_is_spare_before_it_is_overwritten_in_full_and_not_read() {
        // mov [rdi], rsi; mov r11d, [rdi]
        assert_eq!(chosen(&[0x48, 0x89, 0x37, 0x44, 0x8b, 0x1f]), Place { before: 1, spare: Spare::Register(11) });
        // mov rdi, [rdi + 8*rax]; mov al, 1; mov ax, cx; cmovz ecx, edx; movzx ecx, cl; xchg rax, rcx
        for code in [
            &[0x48, 0x8b, 0x3c, 0xc7][..],
            &[0xb0, 1],
            &[0x66, 0x89, 0xc8],
            &[0x0f, 0x44, 0xca],
            &[0x0f, 0xb6, 0xc9],
            &[0x48, 0x91],
            // rdsspq rax: keeps rax without a shadow stack. lar eax, ecx; lsl rax, rcx: keep it for some selectors.
            &[0xf3, 0x48, 0x0f, 0x1e, 0xc8],
            &[0x0f, 0x02, 0xc1],
            &[0x48, 0x0f, 0x03, 0xc1],
        ] {
            assert_eq!(chosen(code).spare, Spare::Nothing, "{code:x?}");
        }
        // pop rax; pop rsp
        assert_eq!(chosen(&[0x58]).spare, Spare::Register(0));
        assert_eq!(chosen(&[0x5c]).spare, Spare::Nothing);
        // lea rcx, [rdx + rdx]
        assert_eq!(chosen(&[0x48, 0x8d, 0x0c, 0x12]).spare, Spare::Register(1));
    }
}
