//! The second decoder of RISC-V, disc-v.

use super::work::{Kind, Work};
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

/// What the instruction at the beginning of `code` takes of a core; `None` if it is of no known kind.
pub(super) fn work(code: &[u8], address: u64) -> Option<Work> {
    let instruction = decoded(false, code, address)?;
    let operands = instruction.operands().to_string();
    let operands: Vec<&str> = operands.split([',', '(', ')']).filter(|operand| !operand.is_empty()).collect();
    let number = |name: &&str| NAMES.iter().position(|known| known == name).map(|number| number as u8);
    let registers: Vec<u8> = operands.iter().filter_map(number).collect();
    // The first register is written. `c.add` and compressed shifts read it too and name it once.
    let mnemonic = instruction.mnemonic();
    let read = match mnemonic {
        "c.add" | "c.slli" | "c.srli" | "c.srai" | "c.jr" | "c.jalr" => &registers[..],
        _ => registers.get(1..).unwrap_or_default(),
    };
    let amount = || operands.last().and_then(|amount| amount_of(amount));
    let name = mnemonic.strip_prefix("c.").unwrap_or(mnemonic);
    let kind = match name {
        "lb" | "lh" | "lw" | "lbu" | "lhu" | "lwsp" => {
            return Some(Work { loads: *registers.first()?, ..Work::reading(Kind::Load, read) });
        }
        "sb" | "sh" | "sw" | "swsp" => return Some(Work::reading(Kind::Store, &registers)),
        "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "beqz" | "bnez" => {
            return Some(Work::reading(Kind::Branch, &registers));
        }
        "jal" | "j" => Kind::Jump,
        "jalr" | "jr" => Kind::IndirectJump,
        "slli" => Kind::ShiftLeft(Some(amount()?)),
        "srli" | "srai" => Kind::ShiftRight(Some(amount()?)),
        "sll" => Kind::ShiftLeft(None),
        "srl" | "sra" => Kind::ShiftRight(None),
        "ror" | "rori" | "rol" => Kind::Rotate,
        "slt" | "slti" | "sltu" | "sltiu" => Kind::Compare,
        "mul" => Kind::Multiply,
        "mulh" | "mulhu" | "mulhsu" => Kind::MultiplyHigh,
        "div" | "divu" | "rem" | "remu" => Kind::Divide,
        "nop" | "li" | "mv" | "lui" | "auipc" | "add" | "addi" | "addi4spn" | "addi16sp" | "sub" | "and" | "andi"
        | "or" | "ori" | "xor" | "xori" => Kind::Plain,
        "sh1add" | "sh2add" | "sh3add" | "andn" | "orn" | "xnor" | "clz" | "ctz" | "cpop" | "sext.b" | "sext.h"
        | "zext.h" | "orc.b" | "rev8" | "min" | "minu" | "max" | "maxu" | "bset" | "bseti" | "bclr" | "bclri"
        | "binv" | "binvi" | "bext" | "bexti" => Kind::Bits,
        _ => return None,
    };
    Some(Work::reading(kind, read))
}

/// Where a branch goes if it is taken.
pub(super) fn target(image: &dyn Image, at: u64) -> Option<u64> {
    match (Decoder { wide: false }).decode(image, Address(at)).ok()?.1 {
        Flow::Branch(target) => Some(target.0),
        _ => None,
    }
}

/// `5`, `0x5`
fn amount_of(text: &str) -> Option<u8> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u8::from_str_radix(digits, 16).ok())
}

/// The registers.
const NAMES: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2",
    "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];
