//! Decodes instructions, compressed ones too, by the RISC-V manual, volume I (version 20240411), chapters 2, 4, 13, 26
//! and 35.
//!
//! Encodings that extensions use differently are read as the one that knows less, or not at all: arithmetic of
//! floating-point numbers may write an integer register (Zfinx), `c.fsdsp` may return (Zcmp), the compressed loads of
//! double precision may be of integers (XW), and those of single precision, on RV32, of pairs (Zclsd).

use crate::arch::bits::{self, signed};

/// The register that always holds zero.
pub(super) const ZERO: u8 = 0;
/// The register of the return address.
pub(super) const RA: u8 = 1;
/// The stack pointer.
pub(super) const SP: u8 = 2;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Length in bytes.
    pub length: u8,
    /// What it does.
    pub operation: Operation,
}

/// What an instruction does, as far as the analysis needs it. Numbers are registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// `lui`
    Constant { rd: u8, value: i64 },
    /// `auipc`
    FromHere { rd: u8, value: i64 },
    /// `addi`
    AddImmediate { rd: u8, rs1: u8, immediate: i64 },
    /// `addiw`
    AddWord { rd: u8, rs1: u8, immediate: i64 },
    /// `add`
    Add { rd: u8, rs1: u8, rs2: u8 },
    /// `sub`
    Subtract { rd: u8, rs1: u8, rs2: u8 },
    /// A load into an integer register.
    Load { rd: u8, rs1: u8, offset: i64, bytes: u8 },
    /// A store; of no integer register if `rs2` is `None`.
    Store { rs1: u8, rs2: Option<u8>, offset: i64, bytes: u8 },
    /// An atomic operation that may store, and writes an integer register.
    Atomic { rd: u8, rs1: u8, bytes: u8 },
    /// Anything else that writes an integer register.
    Other { rd: u8 },
    /// Anything else that writes none.
    Nothing,
    /// `jal`
    Jal { rd: u8, target: u64 },
    /// `jalr`
    Jalr { rd: u8, rs1: u8, offset: i64 },
    /// A conditional branch.
    Branch { target: u64 },
    /// `ecall`, `ebreak`
    Kernel,
    /// An illegal instruction that is meant to be one.
    Trap,
    /// A return from an interrupt.
    Elsewhere,
}

impl Operation {
    /// The integer register that it writes.
    pub fn writes(self) -> Option<u8> {
        match self {
            Self::Constant { rd, .. }
            | Self::FromHere { rd, .. }
            | Self::AddImmediate { rd, .. }
            | Self::AddWord { rd, .. }
            | Self::Add { rd, .. }
            | Self::Subtract { rd, .. }
            | Self::Load { rd, .. }
            | Self::Atomic { rd, .. }
            | Self::Other { rd }
            | Self::Jal { rd, .. }
            | Self::Jalr { rd, .. } => Some(rd),
            Self::Store { .. } | Self::Nothing | Self::Branch { .. } | Self::Kernel | Self::Trap | Self::Elsewhere => {
                None
            }
        }
    }

    /// Whether it may go elsewhere than to the next instruction.
    pub fn transfers(self) -> bool {
        matches!(
            self,
            Self::Jal { .. } | Self::Jalr { .. } | Self::Branch { .. } | Self::Kernel | Self::Trap | Self::Elsewhere
        )
    }
}

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
pub(super) fn decode<const WIDE: bool>(code: &[u8], address: u64) -> Option<Instruction> {
    // An odd address is never executed.
    if !address.is_multiple_of(2) {
        return None;
    }
    let half = u16::from_le_bytes(*code.first_chunk()?);
    if half & 3 != 3 {
        return Some(Instruction { length: 2, operation: compressed::<WIDE>(half.into(), address)? });
    }
    if half & 0x1c == 0x1c {
        // Instructions of 6 bytes and more have no standard encodings.
        return None;
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    Some(Instruction { length: 4, operation: full::<WIDE>(word, address)? })
}

/// Bits `low` to `high` of a word, shifted to `to`.
const fn bits(word: u32, high: u32, low: u32, to: u32) -> u32 {
    bits::bits(word, high, low) << to
}

fn register(word: u32, low: u32) -> u8 {
    bits(word, low + 4, low, 0) as u8
}

/// The register that three bits of a compressed instruction name.
fn short_register(word: u32, low: u32) -> u8 {
    8 + bits(word, low + 2, low, 0) as u8
}

fn target<const WIDE: bool>(address: u64, offset: i64) -> u64 {
    let target = address.wrapping_add_signed(offset);
    if WIDE { target } else { target & 0xffff_ffff }
}

fn full<const WIDE: bool>(word: u32, address: u64) -> Option<Operation> {
    let (rd, rs1, rs2) = (register(word, 7), register(word, 15), register(word, 20));
    let function = bits(word, 14, 12, 0);
    let immediate = signed(word >> 20, 12);
    let upper = signed(word & !0xfff, 32);
    let of_store = signed(bits(word, 31, 25, 5) | bits(word, 11, 7, 0), 12);
    Some(match word & 0x7f {
        0x03 => {
            let bytes = match function {
                0 | 4 => 1,
                1 | 5 => 2,
                2 => 4,
                6 if WIDE => 4,
                3 if WIDE => 8,
                _ => return None,
            };
            Operation::Load { rd, rs1, offset: immediate, bytes }
        }
        // Loads of floating-point numbers of 2 to 16 bytes; the others are of vectors.
        0x07 if (1..=4).contains(&function) => Operation::Nothing,
        0x0f if function < 2 => Operation::Nothing,
        0x13 if function == 0 => Operation::AddImmediate { rd, rs1, immediate },
        0x13 | 0x33 => match (word & 0x7f, function, word >> 25) {
            (0x33, 0, 0) => Operation::Add { rd, rs1, rs2 },
            (0x33, 0, 0x20) => Operation::Subtract { rd, rs1, rs2 },
            _ => Operation::Other { rd },
        },
        0x17 => {
            let value = address.cast_signed().wrapping_add(upper);
            Operation::FromHere { rd, value: if WIDE { value } else { value & 0xffff_ffff } }
        }
        0x1b if WIDE && function == 0 => Operation::AddWord { rd, rs1, immediate },
        0x1b | 0x3b if WIDE => Operation::Other { rd },
        0x23 if function < 3 || WIDE && function == 3 => {
            Operation::Store { rs1, rs2: Some(rs2), offset: of_store, bytes: 1 << function }
        }
        0x27 if (1..=4).contains(&function) => {
            Operation::Store { rs1, rs2: None, offset: of_store, bytes: 1 << function }
        }
        // `lr` writes no memory.
        0x2f if word >> 27 == 2 && (function == 2 || WIDE && function == 3) => Operation::Other { rd },
        0x2f if function == 2 || WIDE && function == 3 => Operation::Atomic { rd, rs1, bytes: 1 << function },
        0x37 => Operation::Constant { rd, value: upper },
        0x43 | 0x47 | 0x4b | 0x4f | 0x53 => Operation::Other { rd },
        0x63 if !matches!(function, 2 | 3) => {
            let offset = bits(word, 31, 31, 12) | bits(word, 7, 7, 11) | bits(word, 30, 25, 5) | bits(word, 11, 8, 1);
            Operation::Branch { target: target::<WIDE>(address, signed(offset, 13)) }
        }
        0x67 if function == 0 => Operation::Jalr { rd, rs1, offset: immediate },
        0x6f => {
            let offset =
                bits(word, 31, 31, 20) | bits(word, 19, 12, 12) | bits(word, 20, 20, 11) | bits(word, 30, 21, 1);
            Operation::Jal { rd, target: target::<WIDE>(address, signed(offset, 21)) }
        }
        0x73 => return system(word, rd, function),
        _ => return None,
    })
}

/// `unimp`: a write to a counter that cannot be written.
pub(super) const UNIMPLEMENTED: u32 = 0xc000_1073;

fn system(word: u32, rd: u8, function: u32) -> Option<Operation> {
    Some(match (function, word) {
        (_, UNIMPLEMENTED) => Operation::Trap,
        // `ecall`, `ebreak`
        (0, 0x0000_0073 | 0x0010_0073) => Operation::Kernel,
        // `sret`, `mret`, `dret`
        (0, 0x1020_0073 | 0x3020_0073 | 0x7b20_0073) => Operation::Elsewhere,
        // `wfi`; `sfence.vma`
        (0, 0x1050_0073) => Operation::Nothing,
        (0, _) if word >> 25 == 0x09 && rd == 0 => Operation::Nothing,
        (0 | 4, _) => return None,
        _ => Operation::Other { rd },
    })
}

fn compressed<const WIDE: bool>(half: u32, address: u64) -> Option<Operation> {
    let (rd, rs2) = (register(half, 7), register(half, 2));
    let (short_1, short_2) = (short_register(half, 7), short_register(half, 2));
    let immediate = signed(bits(half, 12, 12, 5) | bits(half, 6, 2, 0), 6);
    let shift_fits = WIDE || bits(half, 12, 12, 0) == 0;
    // Offsets of loads and stores of words and double words.
    let of_word = i64::from(bits(half, 12, 10, 3) | bits(half, 6, 6, 2) | bits(half, 5, 5, 6));
    let of_double = i64::from(bits(half, 12, 10, 3) | bits(half, 6, 5, 6));
    let load = |rd, rs1, offset, bytes| Operation::Load { rd, rs1, offset, bytes };
    let store = |rs1, rs2, offset, bytes| Operation::Store { rs1, rs2, offset, bytes };
    Some(match (half & 3, half >> 13) {
        _ if half == 0 => Operation::Trap,
        (0, 0) => {
            let immediate = bits(half, 12, 11, 4) | bits(half, 10, 7, 6) | bits(half, 6, 6, 2) | bits(half, 5, 5, 3);
            (immediate != 0).then_some(())?;
            Operation::AddImmediate { rd: short_2, rs1: SP, immediate: immediate.into() }
        }
        (0, 1) => Operation::Other { rd: short_2 },
        (0, 2) => load(short_2, short_1, of_word, 4),
        (0, 3) if WIDE => load(short_2, short_1, of_double, 8),
        (0, 5) => store(short_1, None, of_double, 8),
        (0, 6) => store(short_1, Some(short_2), of_word, 4),
        (0, 7) if WIDE => store(short_1, Some(short_2), of_double, 8),
        (1, 0) => Operation::AddImmediate { rd, rs1: rd, immediate },
        (1, 1) if WIDE => {
            (rd != ZERO).then_some(())?;
            Operation::AddWord { rd, rs1: rd, immediate }
        }
        (1, 1) => Operation::Jal { rd: RA, target: target::<WIDE>(address, of_jump(half)) },
        (1, 2) => Operation::AddImmediate { rd, rs1: ZERO, immediate },
        (1, 3) if rd == SP => {
            let immediate = bits(half, 12, 12, 9)
                | bits(half, 6, 6, 4)
                | bits(half, 5, 5, 6)
                | bits(half, 4, 3, 7)
                | bits(half, 2, 2, 5);
            (immediate != 0).then_some(())?;
            Operation::AddImmediate { rd: SP, rs1: SP, immediate: signed(immediate, 10) }
        }
        (1, 3) => {
            (immediate != 0).then_some(())?;
            Operation::Constant { rd, value: immediate << 12 }
        }
        (1, 4) => match (bits(half, 11, 10, 0), bits(half, 12, 12, 0), bits(half, 6, 5, 0)) {
            (0 | 1, ..) if shift_fits => Operation::Other { rd: short_1 },
            (2, ..) => Operation::Other { rd: short_1 },
            (3, 0, 0) => Operation::Subtract { rd: short_1, rs1: short_1, rs2: short_2 },
            (3, 0, _) => Operation::Other { rd: short_1 },
            (3, 1, 0 | 1) if WIDE => Operation::Other { rd: short_1 },
            _ => return None,
        },
        (1, 5) => Operation::Jal { rd: ZERO, target: target::<WIDE>(address, of_jump(half)) },
        (1, _) => {
            let offset = bits(half, 12, 12, 8)
                | bits(half, 11, 10, 3)
                | bits(half, 6, 5, 6)
                | bits(half, 4, 3, 1)
                | bits(half, 2, 2, 5);
            Operation::Branch { target: target::<WIDE>(address, signed(offset, 9)) }
        }
        (2, 0) if shift_fits => Operation::Other { rd },
        (2, 1) => Operation::Other { rd },
        (2, 2) => {
            (rd != ZERO).then_some(())?;
            load(rd, SP, (bits(half, 12, 12, 5) | bits(half, 6, 4, 2) | bits(half, 3, 2, 6)).into(), 4)
        }
        (2, 3) if WIDE => {
            (rd != ZERO).then_some(())?;
            load(rd, SP, (bits(half, 12, 12, 5) | bits(half, 6, 5, 3) | bits(half, 4, 2, 6)).into(), 8)
        }
        (2, 4) => match (bits(half, 12, 12, 0), rd, rs2) {
            (0, ZERO, ZERO) => return None,
            (0, _, ZERO) => Operation::Jalr { rd: ZERO, rs1: rd, offset: 0 },
            (0, ..) => Operation::Add { rd, rs1: ZERO, rs2 },
            (_, ZERO, ZERO) => Operation::Kernel,
            (_, _, ZERO) => Operation::Jalr { rd: RA, rs1: rd, offset: 0 },
            _ => Operation::Add { rd, rs1: rd, rs2 },
        },
        (2, 6) => store(SP, Some(rs2), (bits(half, 12, 9, 2) | bits(half, 8, 7, 6)).into(), 4),
        (2, 7) if WIDE => store(SP, Some(rs2), (bits(half, 12, 10, 3) | bits(half, 9, 7, 6)).into(), 8),
        _ => return None,
    })
}

/// The offset of `c.j` and `c.jal`.
fn of_jump(half: u32) -> i64 {
    let offset = bits(half, 12, 12, 11)
        | bits(half, 11, 11, 4)
        | bits(half, 10, 9, 8)
        | bits(half, 8, 8, 10)
        | bits(half, 7, 7, 6)
        | bits(half, 6, 6, 7)
        | bits(half, 5, 3, 1)
        | bits(half, 2, 2, 5);
    signed(offset, 12)
}
