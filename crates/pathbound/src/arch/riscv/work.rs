//! What the cost models of cores distinguish: kinds of RV32 instructions, with Zba, Zbb and Zbs, and their registers.

use crate::arch::bits::bits;

/// The kind of an instruction, and the registers that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub kind: Kind,
    /// The register that memory is loaded into; 0 if none.
    pub loads: u8,
    /// The registers that are read, a bit each, except `zero`.
    pub reads: u32,
}

/// A kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Sums, logic and constants.
    Plain,
    /// `slt` and its variants.
    Compare,
    /// By this number of bits; `None` if a register holds it.
    ShiftLeft(Option<u8>),
    /// By this number of bits; `None` if a register holds it.
    ShiftRight(Option<u8>),
    Rotate,
    /// Other instructions of Zba, Zbb and Zbs.
    Bits,
    Load,
    Store,
    Multiply,
    MultiplyHigh,
    Divide,
    Branch,
    /// To a fixed target; calls too.
    Jump,
    /// To a register plus an offset: returns too.
    IndirectJump,
}

impl Work {
    /// An instruction that loads nothing, and the registers that it reads.
    pub(super) fn reading(kind: Kind, registers: &[u8]) -> Self {
        Self { kind, loads: 0, reads: registers.iter().fold(0, |reads, register| reads | 1 << register) & !1 }
    }

    fn loading(register: u8, base: u8) -> Self {
        Self { loads: register, ..Self::reading(Kind::Load, &[base]) }
    }

    /// What the instruction at the beginning of `code` takes; `None` if it is none of these kinds.
    pub(super) fn of(code: &[u8]) -> Option<Self> {
        let half = u16::from_le_bytes(*code.first_chunk()?);
        if half & 3 == 3 { Self::of_word(u32::from_le_bytes(*code.first_chunk()?)) } else { Self::of_half(half.into()) }
    }

    fn of_word(word: u32) -> Option<Self> {
        let register = |low| bits(word, low + 4, low) as u8;
        let (rd, rs1, rs2) = (register(7), register(15), register(20));
        let amount = Some(rs2);
        let (function, variant) = (bits(word, 14, 12), word >> 25);
        let unary = |kind| Some(Self::reading(kind, &[rs1]));
        let binary = |kind| Some(Self::reading(kind, &[rs1, rs2]));
        match (word & 0x7f, function, variant) {
            (0x03, 0 | 1 | 2 | 4 | 5, _) => Some(Self::loading(rd, rs1)),
            (0x23, 0..=2, _) => binary(Kind::Store),
            (0x13, 1, 0) => unary(Kind::ShiftLeft(amount)),
            (0x13, 5, 0 | 0x20) => unary(Kind::ShiftRight(amount)),
            (0x13, 5, 0x30) => unary(Kind::Rotate),
            // `bclri`, `bseti`, `binvi`, `bexti`
            (0x13, 1, 0x14 | 0x24 | 0x34) | (0x13, 5, 0x24) => unary(Kind::Bits),
            // `clz`, `ctz`, `cpop`, `sext.b`, `sext.h`, `orc.b`, `rev8`
            (0x13, 1, 0x30) if matches!(rs2, 0 | 1 | 2 | 4 | 5) => unary(Kind::Bits),
            (0x13, 5, 0x14) if rs2 == 7 => unary(Kind::Bits),
            (0x13, 5, 0x34) if rs2 == 0x18 => unary(Kind::Bits),
            (0x13, 2 | 3, _) => unary(Kind::Compare),
            (0x13, 0 | 4 | 6 | 7, _) => unary(Kind::Plain),
            (0x33, 1, 0) => binary(Kind::ShiftLeft(None)),
            (0x33, 5, 0 | 0x20) => binary(Kind::ShiftRight(None)),
            (0x33, 1 | 5, 0x30) => binary(Kind::Rotate),
            (0x33, 2 | 3, 0) => binary(Kind::Compare),
            (0x33, 0, 0 | 0x20) | (0x33, 4 | 6 | 7, 0) => binary(Kind::Plain),
            // `xnor`, `orn`, `andn`
            (0x33, 4 | 6 | 7, 0x20) => binary(Kind::Bits),
            // `sh1add` to `sh3add`; `min` to `maxu`; `bset`, `bclr`, `binv`, `bext`
            (0x33, 2 | 4 | 6, 0x10) | (0x33, 4..=7, 0x05) => binary(Kind::Bits),
            (0x33, 1, 0x14 | 0x24 | 0x34) | (0x33, 5, 0x24) => binary(Kind::Bits),
            // `zext.h`
            (0x33, 4, 0x04) if rs2 == 0 => unary(Kind::Bits),
            (0x33, 0, 1) => binary(Kind::Multiply),
            (0x33, 1..=3, 1) => binary(Kind::MultiplyHigh),
            (0x33, 4.., 1) => binary(Kind::Divide),
            (0x17 | 0x37, ..) => Some(Self::reading(Kind::Plain, &[])),
            (0x63, 0 | 1 | 4.., _) => binary(Kind::Branch),
            (0x67, 0, _) => unary(Kind::IndirectJump),
            (0x6f, ..) => Some(Self::reading(Kind::Jump, &[])),
            _ => None,
        }
    }

    fn of_half(half: u32) -> Option<Self> {
        let (rd, rs2) = (bits(half, 11, 7) as u8, bits(half, 6, 2) as u8);
        let (short_1, short_2) = (8 + bits(half, 9, 7) as u8, 8 + bits(half, 4, 2) as u8);
        let reading = |kind, registers: &[u8]| Some(Self::reading(kind, registers));
        match (half & 3, half >> 13) {
            (0, 0) if half != 0 => reading(Kind::Plain, &[2]),
            (0, 2) => Some(Self::loading(short_2, short_1)),
            (0, 6) => reading(Kind::Store, &[short_1, short_2]),
            (1, 0) => reading(Kind::Plain, &[rd]),
            (1, 1 | 5) => reading(Kind::Jump, &[]),
            (1, 3) if rd == 2 => reading(Kind::Plain, &[2]),
            (1, 2 | 3) => reading(Kind::Plain, &[]),
            (1, 4) => match (bits(half, 11, 10), bits(half, 12, 12)) {
                (0 | 1, 0) => reading(Kind::ShiftRight(Some(rs2)), &[short_1]),
                (2, _) => reading(Kind::Plain, &[short_1]),
                (3, 0) => reading(Kind::Plain, &[short_1, short_2]),
                _ => None,
            },
            (1, 6 | 7) => reading(Kind::Branch, &[short_1]),
            (2, 0) if bits(half, 12, 12) == 0 => reading(Kind::ShiftLeft(Some(rs2)), &[rd]),
            (2, 2) => Some(Self::loading(rd, 2)),
            (2, 4) => match (bits(half, 12, 12), rd, rs2) {
                // `c.ebreak`
                (_, 0, 0) => None,
                (_, _, 0) => reading(Kind::IndirectJump, &[rd]),
                (0, ..) => reading(Kind::Plain, &[rs2]),
                _ => reading(Kind::Plain, &[rd, rs2]),
            },
            (2, 6) => reading(Kind::Store, &[2, rs2]),
            _ => None,
        }
    }
}
