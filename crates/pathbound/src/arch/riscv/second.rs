//! The second decoder of RISC-V, disc-v.

use crate::address::Address;
use crate::image::Image;
use crate::second_decoder::{Flow, NO_INSTRUCTION, Second, Target};
use disc_v::{Instruction, Isa, decode_bytes};

/// The decoder.
pub(super) struct Decoder {
    /// Whether registers have 64 bits.
    pub wide: bool,
}

fn decoded(wide: bool, code: &[u8], address: u64) -> Option<Instruction> {
    let instruction = decode_bytes(if wide { Isa::Rv64 } else { Isa::Rv32 }, address, code)?;
    (!instruction.is_illegal() || instruction.raw() == 0).then(|| instruction.without_aliases())
}

/// The instruction at the beginning of `code` as text, as the assembler writes it; `None` where there is none.
pub(super) fn text(wide: bool, code: &[u8], address: u64) -> Option<String> {
    let instruction = decode_bytes(if wide { Isa::Rv64 } else { Isa::Rv32 }, address, code)?;
    (!instruction.is_illegal()).then(|| instruction.to_string())
}

impl Second for Decoder {
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, Flow), String> {
        let code = image.code(at.0).unwrap_or_default();
        let instruction = decoded(self.wide, code, at.0).ok_or(NO_INSTRUCTION)?;
        let next = Address(at.0.wrapping_add(instruction.length() as u64));
        let operands = instruction.operands().to_string();
        let operands: Vec<&str> = operands.split(',').collect();
        let mnemonic = instruction.mnemonic();
        let flow = match (mnemonic, &operands[..]) {
            _ if instruction.raw() == 0 || mnemonic == "unimp" => Flow::Trap,
            ("csrrw", ["zero", "cycle", "zero"]) => Flow::Trap,
            ("ecall" | "ebreak" | "c.ebreak", _) => Flow::Uncounted,
            ("mret" | "sret" | "uret" | "dret" | "mnret", _) => Flow::Elsewhere,
            ("jal" | "c.j", ["zero", target]) => Flow::Jump(fixed(target)),
            ("jal" | "c.jal", ["ra", target]) => Flow::Call(fixed(target)),
            ("c.jr", ["ra"]) => Flow::Return,
            ("c.jr", [base]) => Flow::Jump(self.sum(image, at, base, 0)),
            ("c.jalr", [base]) => Flow::Call(self.sum(image, at, base, 0)),
            ("jalr", [link @ ("zero" | "ra"), sum]) => match (*link, parts(sum)) {
                ("zero", Some((0, "ra"))) => Flow::Return,
                ("zero", Some((_, "ra"))) | (_, None) => Flow::Elsewhere,
                ("zero", Some((offset, base))) => Flow::Jump(self.sum(image, at, base, offset)),
                (_, Some((offset, base))) => Flow::Call(self.sum(image, at, base, offset)),
            },
            ("jal" | "c.j" | "c.jal" | "jalr" | "c.jr" | "c.jalr", _) => Flow::Elsewhere,
            ("beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "c.beqz" | "c.bnez", [.., target]) => {
                address(target).map_or(Flow::Elsewhere, Flow::Branch)
            }
            _ => Flow::Next,
        };
        Ok((next, flow))
    }
}

impl Decoder {
    /// The target of a jump to a register plus an offset: known if the instruction before it computes the register.
    fn sum(&self, image: &dyn Image, at: Address, base: &str, offset: i64) -> Target {
        let before = at.0.wrapping_sub(4);
        let first = image.code(before).and_then(|code| decoded(self.wide, code, before));
        let upper = first.filter(|first| first.length() == 4 && first.mnemonic() == "auipc").and_then(|first| {
            let operands = first.operands().to_string();
            let (register, upper) = operands.split_once(',')?;
            (register == base && base != "zero")
                .then(|| i64::from_str_radix(upper.strip_prefix("0x")?, 16).ok())
                .flatten()
        });
        let Some(upper) = upper else { return Target::Computed };
        let target = before.wrapping_add_signed(i64::from((upper << 12) as i32).wrapping_add(offset)) & !1;
        Target::Address(Address(if self.wide { target } else { target & 0xffff_ffff }))
    }
}

/// `0x1234`
fn address(text: &str) -> Option<Address> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok().map(Address)
}

fn fixed(text: &str) -> Target {
    address(text).map_or(Target::Computed, Target::Address)
}

/// `-8(ra)`
fn parts(text: &str) -> Option<(i64, &str)> {
    let (offset, base) = text.strip_suffix(')')?.split_once('(')?;
    Some((offset.parse().ok()?, base))
}
