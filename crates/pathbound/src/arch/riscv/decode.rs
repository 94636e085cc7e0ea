//! Decodes instructions, compressed ones too, by the RISC-V manual, volume I (version 20240411), chapters 2, 4, 13, 26
//! and 35.
//!
//! Encodings that extensions use differently are read as the one that knows less, or not at all: arithmetic of
//! floating-point numbers may write an integer register (Zfinx), `c.fsdsp` may return (Zcmp), the compressed loads of
//! double precision may be of integers (XW), and those of single precision, on RV32, of pairs (Zclsd).

use crate::arch::bits::{self, signed};
use crate::arch::linked::{Effect, ZERO, set};
use crate::arch::{Target, Transfer};

/// The register of the return address.
pub(super) const RA: u8 = 1;
/// The stack pointer.
pub(super) const SP: u8 = 2;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes.
    pub transfer: Transfer,
    /// The register and the number whose sum is a computed target.
    pub target: Option<(u8, i64)>,
    /// What it does to registers and memory.
    pub effect: Effect,
}

/// Transfer, sum and effect, as in [`Instruction`].
type Parts = (Transfer, Option<(u8, i64)>, Effect);

const fn next(effect: Effect) -> Parts {
    (Transfer::Next, None, effect)
}

const fn goes(transfer: Transfer) -> Parts {
    (transfer, None, Effect::NOTHING)
}

/// `jal`
fn jal(rd: u8, target: u64) -> Parts {
    match rd {
        ZERO => goes(Transfer::Jump(Target::Address(target))),
        RA => (Transfer::Call(Target::Address(target)), None, Effect::Call),
        // Other registers hold the return address of millicode, such as `__riscv_save_0`.
        _ => goes(Transfer::Elsewhere),
    }
}

/// `jalr`
fn jalr(rd: u8, rs1: u8, offset: i64) -> Parts {
    match (rd, rs1, offset) {
        (ZERO, RA, 0) => goes(Transfer::Return),
        (ZERO, RA, _) => goes(Transfer::Elsewhere),
        (ZERO, ..) => (Transfer::Jump(Target::Computed), Some((rs1, offset)), Effect::NOTHING),
        (RA, ..) => (Transfer::Call(Target::Computed), Some((rs1, offset)), Effect::Call),
        _ => goes(Transfer::Elsewhere),
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
        let (transfer, target, effect) = compressed::<WIDE>(half.into(), address)?;
        return Some(Instruction { length: 2, transfer, target, effect });
    }
    if half & 0x1c == 0x1c {
        // Instructions of 6 bytes and more have no standard encodings.
        return None;
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    let (transfer, target, effect) = full::<WIDE>(word, address)?;
    Some(Instruction { length: 4, transfer, target, effect })
}

/// Bits `low` to `high` of a word, shifted to `to`.
const fn bits(word: u32, high: u32, low: u32, to: u32) -> u32 {
    bits::bits(word, high, low) << to
}

/// A register; number 0 is zero.
fn register(word: u32, low: u32) -> u8 {
    match bits(word, low + 4, low, 0) {
        0 => ZERO,
        number => number as u8,
    }
}

/// The register that three bits of a compressed instruction name.
fn short_register(word: u32, low: u32) -> u8 {
    8 + bits(word, low + 2, low, 0) as u8
}

fn target<const WIDE: bool>(address: u64, offset: i64) -> u64 {
    let target = address.wrapping_add_signed(offset);
    if WIDE { target } else { target & 0xffff_ffff }
}

fn full<const WIDE: bool>(word: u32, address: u64) -> Option<Parts> {
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
            load::<WIDE>(rd, rs1, immediate, bytes)
        }
        // Loads of floating-point numbers of 2 to 16 bytes; the others are of vectors.
        0x07 if (1..=4).contains(&function) => next(Effect::NOTHING),
        0x0f if function < 2 => next(Effect::NOTHING),
        0x13 if function == 0 => next(Effect::AddImmediate { rd, rn: rs1, value: immediate }),
        0x13 | 0x33 => match (word & 0x7f, function, word >> 25) {
            (0x33, 0, 0) => next(Effect::Combine { rd, rn: rs1, rm: rs2, subtract: false }),
            (0x33, 0, 0x20) => next(Effect::Combine { rd, rn: rs1, rm: rs2, subtract: true }),
            _ => next(Effect::Writes(set(rd))),
        },
        0x17 => {
            let value = address.cast_signed().wrapping_add(upper);
            next(Effect::Upper { rd, value: if WIDE { value } else { value & 0xffff_ffff }, fixed: false })
        }
        0x1b if WIDE && function == 0 => next(Effect::AddWord { rd, rn: rs1, value: immediate }),
        0x1b | 0x3b if WIDE => next(Effect::Writes(set(rd))),
        0x23 if function < 3 || WIDE && function == 3 => store::<WIDE>(rs1, Some(rs2), of_store, 1 << function),
        0x27 if (1..=4).contains(&function) => store::<WIDE>(rs1, None, of_store, 1 << function),
        // `lr` writes no memory.
        0x2f if word >> 27 == 2 && (function == 2 || WIDE && function == 3) => next(Effect::Writes(set(rd))),
        0x2f if function == 2 || WIDE && function == 3 => {
            next(Effect::Store { base: rs1, offset: 0, bytes: 1 << function, writeback: None, also: set(rd) })
        }
        0x37 => next(Effect::Upper { rd, value: upper, fixed: true }),
        0x43 | 0x47 | 0x4b | 0x4f | 0x53 => next(Effect::Writes(set(rd))),
        0x63 if !matches!(function, 2 | 3) => {
            let offset = bits(word, 31, 31, 12) | bits(word, 7, 7, 11) | bits(word, 30, 25, 5) | bits(word, 11, 8, 1);
            goes(Transfer::Branch(target::<WIDE>(address, signed(offset, 13))))
        }
        0x67 if function == 0 => jalr(rd, rs1, immediate),
        0x6f => {
            let offset =
                bits(word, 31, 31, 20) | bits(word, 19, 12, 12) | bits(word, 20, 20, 11) | bits(word, 30, 21, 1);
            jal(rd, target::<WIDE>(address, signed(offset, 21)))
        }
        0x73 => return system(word, rd, function),
        _ => return None,
    })
}

/// `unimp`: a write to a counter that cannot be written.
pub(super) const UNIMPLEMENTED: u32 = 0xc000_1073;

/// A load into an integer register.
fn load<const WIDE: bool>(rd: u8, rs1: u8, offset: i64, bytes: u8) -> Parts {
    next(match bytes == if WIDE { 8 } else { 4 } {
        true => Effect::words(rs1, offset, set(rd), true, None),
        false => Effect::Writes(set(rd)),
    })
}

/// A store; of no integer register if `rs2` is `None`.
fn store<const WIDE: bool>(rs1: u8, rs2: Option<u8>, offset: i64, bytes: u8) -> Parts {
    next(match rs2 {
        Some(rs2) if bytes == if WIDE { 8 } else { 4 } => Effect::words(rs1, offset, set(rs2), false, None),
        _ => Effect::Store { base: rs1, offset, bytes: bytes.into(), writeback: None, also: 0 },
    })
}

fn system(word: u32, rd: u8, function: u32) -> Option<Parts> {
    Some(match (function, word) {
        (_, UNIMPLEMENTED) => goes(Transfer::Trap),
        // `ecall`, `ebreak`
        (0, 0x0000_0073 | 0x0010_0073) => goes(Transfer::Kernel),
        // `sret`, `mret`, `dret`
        (0, 0x1020_0073 | 0x3020_0073 | 0x7b20_0073) => goes(Transfer::Elsewhere),
        // `wfi`; `sfence.vma`
        (0, 0x1050_0073) => next(Effect::NOTHING),
        (0, _) if word >> 25 == 0x09 && rd == ZERO => next(Effect::NOTHING),
        (0 | 4, _) => return None,
        _ => next(Effect::Writes(set(rd))),
    })
}

fn compressed<const WIDE: bool>(half: u32, address: u64) -> Option<Parts> {
    let (rd, rs2) = (register(half, 7), register(half, 2));
    let (short_1, short_2) = (short_register(half, 7), short_register(half, 2));
    let immediate = signed(bits(half, 12, 12, 5) | bits(half, 6, 2, 0), 6);
    let shift_fits = WIDE || bits(half, 12, 12, 0) == 0;
    // Offsets of loads and stores of words and double words.
    let of_word = i64::from(bits(half, 12, 10, 3) | bits(half, 6, 6, 2) | bits(half, 5, 5, 6));
    let of_double = i64::from(bits(half, 12, 10, 3) | bits(half, 6, 5, 6));
    Some(match (half & 3, half >> 13) {
        _ if half == 0 => goes(Transfer::Trap),
        (0, 0) => {
            let immediate = bits(half, 12, 11, 4) | bits(half, 10, 7, 6) | bits(half, 6, 6, 2) | bits(half, 5, 5, 3);
            (immediate != 0).then_some(())?;
            next(Effect::AddImmediate { rd: short_2, rn: SP, value: immediate.into() })
        }
        (0, 1) => next(Effect::Writes(set(short_2))),
        (0, 2) => load::<WIDE>(short_2, short_1, of_word, 4),
        (0, 3) if WIDE => load::<WIDE>(short_2, short_1, of_double, 8),
        (0, 5) => store::<WIDE>(short_1, None, of_double, 8),
        (0, 6) => store::<WIDE>(short_1, Some(short_2), of_word, 4),
        (0, 7) if WIDE => store::<WIDE>(short_1, Some(short_2), of_double, 8),
        (1, 0) => next(Effect::AddImmediate { rd, rn: rd, value: immediate }),
        (1, 1) if WIDE => {
            (rd != ZERO).then_some(())?;
            next(Effect::AddWord { rd, rn: rd, value: immediate })
        }
        (1, 1) => jal(RA, target::<WIDE>(address, of_jump(half))),
        (1, 2) => next(Effect::AddImmediate { rd, rn: ZERO, value: immediate }),
        (1, 3) if rd == SP => {
            let immediate = bits(half, 12, 12, 9)
                | bits(half, 6, 6, 4)
                | bits(half, 5, 5, 6)
                | bits(half, 4, 3, 7)
                | bits(half, 2, 2, 5);
            (immediate != 0).then_some(())?;
            next(Effect::AddImmediate { rd: SP, rn: SP, value: signed(immediate, 10) })
        }
        (1, 3) => {
            (immediate != 0).then_some(())?;
            next(Effect::Upper { rd, value: immediate << 12, fixed: true })
        }
        (1, 4) => match (bits(half, 11, 10, 0), bits(half, 12, 12, 0), bits(half, 6, 5, 0)) {
            (0 | 1, ..) if shift_fits => next(Effect::Writes(set(short_1))),
            (2, ..) => next(Effect::Writes(set(short_1))),
            (3, 0, 0) => next(Effect::Combine { rd: short_1, rn: short_1, rm: short_2, subtract: true }),
            (3, 0, _) => next(Effect::Writes(set(short_1))),
            (3, 1, 0 | 1) if WIDE => next(Effect::Writes(set(short_1))),
            _ => return None,
        },
        (1, 5) => jal(ZERO, target::<WIDE>(address, of_jump(half))),
        (1, _) => {
            let offset = bits(half, 12, 12, 8)
                | bits(half, 11, 10, 3)
                | bits(half, 6, 5, 6)
                | bits(half, 4, 3, 1)
                | bits(half, 2, 2, 5);
            goes(Transfer::Branch(target::<WIDE>(address, signed(offset, 9))))
        }
        (2, 0) if shift_fits => next(Effect::Writes(set(rd))),
        (2, 1) => next(Effect::Writes(set(rd))),
        (2, 2) => {
            (rd != ZERO).then_some(())?;
            load::<WIDE>(rd, SP, (bits(half, 12, 12, 5) | bits(half, 6, 4, 2) | bits(half, 3, 2, 6)).into(), 4)
        }
        (2, 3) if WIDE => {
            (rd != ZERO).then_some(())?;
            load::<WIDE>(rd, SP, (bits(half, 12, 12, 5) | bits(half, 6, 5, 3) | bits(half, 4, 2, 6)).into(), 8)
        }
        (2, 4) => match (bits(half, 12, 12, 0), rd, rs2) {
            (0, ZERO, ZERO) => return None,
            (0, _, ZERO) => jalr(ZERO, rd, 0),
            (0, ..) => next(Effect::Combine { rd, rn: ZERO, rm: rs2, subtract: false }),
            (_, ZERO, ZERO) => goes(Transfer::Kernel),
            (_, _, ZERO) => jalr(RA, rd, 0),
            _ => next(Effect::Combine { rd, rn: rd, rm: rs2, subtract: false }),
        },
        (2, 6) => store::<WIDE>(SP, Some(rs2), (bits(half, 12, 9, 2) | bits(half, 8, 7, 6)).into(), 4),
        (2, 7) if WIDE => store::<WIDE>(SP, Some(rs2), (bits(half, 12, 10, 3) | bits(half, 9, 7, 6)).into(), 8),
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
