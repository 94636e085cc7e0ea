//! Decodes single instructions, outside if-then blocks, by the Armv8-M Architecture Reference Manual (DDI0553), chapter
//! C2; Armv6-M and Armv7-M have subsets of its encodings. `BLX` with an offset, the vector extension and loops of
//! Armv8.1-M are not read.

use super::blocks::Single;
use crate::arch::bits::{bit, bits, signed};
use crate::arch::linked::{Effect, set};
use crate::arch::{Target, Transfer};
use crate::image::Image;

/// The stack pointer.
pub(super) const SP: u8 = 13;
/// The link register, which holds the return address.
pub(super) const LR: u8 = 14;
/// The program counter.
pub(super) const PC: u8 = 15;

/// An instruction, as it is outside if-then blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Length, transfer, and the block that it begins.
    pub single: Single,
    /// What it does to registers and memory.
    pub effect: Effect,
}

/// The length, the transfer and the block of the instruction at an address.
pub(super) fn single(image: &dyn Image, address: u64) -> Option<Single> {
    decode(image.code(address)?, address).map(|instruction| instruction.single)
}

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
pub(super) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
    if !address.is_multiple_of(2) {
        return None;
    }
    let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
    if half >> 11 < 0b11101 {
        let (transfer, effect) = short(half, address)?;
        let block = instructions_of_block(half);
        return Some(Instruction { single: Single { length: 2, transfer, block }, effect });
    }
    let second = u32::from(u16::from_le_bytes(*code.get(2..)?.first_chunk()?));
    let (transfer, effect) = long(half, second, address)?;
    Some(Instruction { single: Single { length: 4, transfer, block: 0 }, effect })
}

/// The program counter, as instructions see it, plus an offset.
fn relative(address: u64, offset: i64) -> u64 {
    address.wrapping_add(4).wrapping_add_signed(offset) & 0xffff_ffff
}

fn aligned(address: u64, offset: i64) -> u64 {
    (address.wrapping_add(4) & !3).wrapping_add_signed(offset) & 0xffff_ffff
}

fn register(word: u32, low: u32) -> u8 {
    bits(word, low + 3, low) as u8
}

fn low_register(word: u32, low: u32) -> u8 {
    bits(word, low + 2, low) as u8
}

/// Instructions of two bytes (section C2.2).
fn short(half: u32, address: u64) -> Option<(Transfer, Effect)> {
    let (rd, rn) = (low_register(half, 0), low_register(half, 3));
    let writes = |register: u8| (Transfer::Next, Effect::Writes(set(register)));
    let words = |base, offset, registers, load, writeback| {
        (Transfer::Next, Effect::words(base, offset, registers, load, writeback))
    };
    let store = |base, offset, bytes| (Transfer::Next, Effect::Store { base, offset, bytes, writeback: None, also: 0 });
    let add = |rd, rn, value| (Transfer::Next, Effect::AddImmediate { rd, rn, value });
    Some(match half >> 11 {
        // `lsls rd, rm, #0` is `movs rd, rm`.
        0b00000 if bits(half, 10, 6) == 0 => add(rd, rn, 0),
        0b00000..=0b00010 => writes(rd),
        0b00011 => {
            let (other, number) = (low_register(half, 6), i64::from(bits(half, 8, 6)));
            match bits(half, 10, 9) {
                0 => (Transfer::Next, Effect::Combine { rd, rn, rm: other, subtract: false }),
                1 => (Transfer::Next, Effect::Combine { rd, rn, rm: other, subtract: true }),
                2 => add(rd, rn, number),
                _ => add(rd, rn, -number),
            }
        }
        0b00100 => (Transfer::Next, Effect::Constant { rd: low_register(half, 8), value: i64::from(bits(half, 7, 0)) }),
        0b00101 => (Transfer::Next, Effect::NOTHING),
        0b00110 => add(low_register(half, 8), low_register(half, 8), i64::from(bits(half, 7, 0))),
        0b00111 => add(low_register(half, 8), low_register(half, 8), -i64::from(bits(half, 7, 0))),
        // `rsbs`, `adcs` and others; comparisons write nothing.
        0b01000 if !bit(half, 10) => match bits(half, 9, 6) {
            8 | 10 | 11 => (Transfer::Next, Effect::NOTHING),
            _ => writes(rd),
        },
        0b01000 => return special(half),
        0b01001 => {
            let place = aligned(address, i64::from(bits(half, 7, 0)) * 4);
            (Transfer::Next, Effect::Literal { rd: low_register(half, 8), address: place })
        }
        // Register offsets: the address is not known. Loads write `rd`.
        0b01010 if bits(half, 10, 9) < 3 => (Transfer::Next, Effect::NOTHING),
        0b01010 | 0b01011 => writes(rd),
        0b01100 => words(rn, i64::from(bits(half, 10, 6)) * 4, set(rd), false, None),
        0b01101 => words(rn, i64::from(bits(half, 10, 6)) * 4, set(rd), true, None),
        0b01110 => store(rn, i64::from(bits(half, 10, 6)), 1),
        0b10000 => store(rn, i64::from(bits(half, 10, 6)) * 2, 2),
        0b01111 | 0b10001 => writes(rd),
        0b10010 | 0b10011 => {
            let rd = low_register(half, 8);
            words(SP, i64::from(bits(half, 7, 0)) * 4, set(rd), bit(half, 11), None)
        }
        0b10100 => {
            let value = aligned(address, i64::from(bits(half, 7, 0)) * 4);
            (Transfer::Next, Effect::Here { rd: low_register(half, 8), value: value.cast_signed() })
        }
        0b10101 => add(low_register(half, 8), SP, i64::from(bits(half, 7, 0)) * 4),
        0b10110 | 0b10111 => return miscellaneous(half, address),
        0b11000 | 0b11001 => {
            let (base, registers, load) = (low_register(half, 8), u64::from(bits(half, 7, 0)), bit(half, 11));
            let bytes = 4 * i64::from(registers.count_ones());
            // A loaded base is not written back.
            let writeback = (!load || registers >> base & 1 == 0).then_some(bytes);
            words(base, 0, registers, load, writeback)
        }
        0b11010 | 0b11011 => match bits(half, 11, 8) {
            14 => (Transfer::Trap, Effect::NOTHING),
            15 => (Transfer::Kernel, Effect::NOTHING),
            _ => (Transfer::Branch(relative(address, signed(bits(half, 7, 0), 8) * 2)), Effect::NOTHING),
        },
        0b11100 => {
            (Transfer::Jump(Target::Address(relative(address, signed(bits(half, 10, 0), 11) * 2))), Effect::NOTHING)
        }
        _ => return None,
    })
}

/// `add`, `cmp` and `mov` of any registers, `bx` and `blx`.
fn special(half: u32) -> Option<(Transfer, Effect)> {
    let (rm, rd) = (register(half, 3), low_register(half, 0) | (bits(half, 7, 7) as u8) << 3);
    Some(match bits(half, 9, 8) {
        0 if rd == PC => (Transfer::Jump(Target::Computed), Effect::NOTHING),
        0 => (Transfer::Next, Effect::Combine { rd, rn: rd, rm, subtract: false }),
        1 => (Transfer::Next, Effect::NOTHING),
        2 if rd == PC => (if rm == LR { Transfer::Return } else { Transfer::Jump(Target::Computed) }, Effect::NOTHING),
        2 => (Transfer::Next, Effect::AddImmediate { rd, rn: rm, value: 0 }),
        // `bxns` and `blxns` change the security state.
        _ if bits(half, 2, 0) == 4 => (Transfer::Elsewhere, Effect::NOTHING),
        _ if bits(half, 2, 0) != 0 => return None,
        _ if bit(half, 7) => (Transfer::Call(Target::Computed), Effect::Call),
        _ => (if rm == LR { Transfer::Return } else { Transfer::Jump(Target::Computed) }, Effect::NOTHING),
    })
}

/// The instructions of the if-then block that `it` begins; 0 for any other instruction.
fn instructions_of_block(half: u32) -> u8 {
    if half >> 8 == 0xbf && bits(half, 3, 0) != 0 { 4 - bits(half, 3, 0).trailing_zeros() as u8 } else { 0 }
}

/// Section C2.2.6.
fn miscellaneous(half: u32, address: u64) -> Option<(Transfer, Effect)> {
    let rd = low_register(half, 0);
    Some(match bits(half, 11, 8) {
        0b0000 => {
            let value = i64::from(bits(half, 6, 0)) * 4;
            let value = if bit(half, 7) { -value } else { value };
            (Transfer::Next, Effect::AddImmediate { rd: SP, rn: SP, value })
        }
        0b0001 | 0b0011 | 0b1001 | 0b1011 => {
            let offset = bits(half, 9, 9) << 6 | bits(half, 7, 3) << 1;
            (Transfer::Branch(relative(address, offset.into())), Effect::NOTHING)
        }
        // Extensions; byte orders.
        0b0010 => (Transfer::Next, Effect::Writes(set(rd))),
        0b1010 if bits(half, 7, 6) != 2 => (Transfer::Next, Effect::Writes(set(rd))),
        0b0100 | 0b0101 => {
            let registers = u64::from(bits(half, 7, 0) | bits(half, 8, 8) << LR);
            let bytes = 4 * i64::from(registers.count_ones());
            let effect = Effect::words(SP, -bytes, registers, false, Some(-bytes));
            (Transfer::Next, effect)
        }
        0b1100 | 0b1101 => {
            let registers = u64::from(bits(half, 7, 0) | bits(half, 8, 8) << PC);
            let bytes = 4 * i64::from(registers.count_ones());
            let effect = Effect::words(SP, 0, registers, true, Some(bytes));
            (if bit(half, 8) { Transfer::Return } else { Transfer::Next }, effect)
        }
        // `cps`
        0b0110 if bits(half, 7, 5) == 0b011 => (Transfer::Next, Effect::NOTHING),
        0b1110 => (Transfer::Kernel, Effect::NOTHING),
        // Hints; `it`.
        0b1111 => (Transfer::Next, Effect::NOTHING),
        _ => return None,
    })
}

/// Instructions of four bytes (section C2.3).
fn long(first: u32, second: u32, address: u64) -> Option<(Transfer, Effect)> {
    let (rn, rd, rt) = (register(first, 0), register(second, 8), register(second, 12));
    Some(match first >> 9 {
        // Loads and stores of several registers, of two, exclusive ones, and jumps through tables.
        0b111_0100 => {
            if bit(first, 6) {
                return pairs(first, second);
            }
            let registers = u64::from(second);
            let bytes = 4 * i64::from(registers.count_ones());
            let load = bit(first, 4);
            let offset = match bits(first, 8, 7) {
                1 => 0,
                2 => -bytes,
                _ => return None,
            };
            let writeback = bit(first, 5).then_some(if offset == 0 { bytes } else { offset });
            let to_counter = load && bit(second, 15);
            let flow = match (to_counter, rn == SP && offset == 0 && writeback.is_some()) {
                (false, _) => Transfer::Next,
                (true, true) => Transfer::Return,
                (true, false) => Transfer::Jump(Target::Computed),
            };
            (flow, Effect::words(rn, offset, registers, load, writeback))
        }
        // Data processing with a shifted register; comparisons have PC as destination.
        0b111_0101 => {
            let (operation, shift) = (bits(first, 8, 5), bits(second, 14, 12) << 2 | bits(second, 7, 6));
            let rm = register(second, 0);
            // Conditional selections and long shifts of Armv8.1-M.
            if bit(second, 15) || operation == 2 && bit(first, 4) && (rm == SP || rm == PC) {
                return None;
            }
            let effect = match (operation, rn, shift, bits(second, 5, 4)) {
                (0 | 4 | 8 | 13, ..) if rd == PC && bit(first, 4) => Effect::NOTHING,
                _ if rd == PC => return None,
                (2, PC, 0, 0) => Effect::AddImmediate { rd, rn: rm, value: 0 },
                (8, _, 0, 0) => Effect::Combine { rd, rn, rm, subtract: false },
                (13, _, 0, 0) => Effect::Combine { rd, rn, rm, subtract: true },
                _ => Effect::Writes(set(rd)),
            };
            (Transfer::Next, effect)
        }
        // Coprocessors and floating point: transfers to core registers, and stores.
        0b111_0110 | 0b111_0111 | 0b111_1110 | 0b111_1111 => return coprocessor(first, second),
        0b111_1000..=0b111_1011 if bit(second, 15) => return branches(first, second, address),
        0b111_1000..=0b111_1011 => (Transfer::Next, immediate(first, second, address)?),
        0b111_1100 => return one_register(first, second, address),
        0b111_1101 if rd != PC => (Transfer::Next, Effect::Writes(set(rd))),
        _ => return None,
    })
    .map(|(flow, effect)| {
        // Multiplications with long results, and divisions, are among those with `111_1101`.
        let long = first >> 7 == 0b1_1111_0111;
        (flow, if long && rt != PC && rd != PC { Effect::Writes(set(rd) | set(rt)) } else { effect })
    })
}

/// Data processing with a constant (section C2.3.2).
fn immediate(first: u32, second: u32, address: u64) -> Option<Effect> {
    let (rn, rd) = (register(first, 0), register(second, 8));
    let plain = bits(first, 10, 10) << 11 | bits(second, 14, 12) << 8 | bits(second, 7, 0);
    let half = i64::from(bits(first, 3, 0) << 12 | plain);
    // Comparisons have no destination.
    if rd == PC {
        let compares = !bit(first, 9) && bit(first, 4) && matches!(bits(first, 8, 5), 0 | 4 | 8 | 13);
        return compares.then_some(Effect::NOTHING);
    }
    if bit(first, 9) {
        return Some(match bits(first, 8, 4) {
            0b00000 | 0b01010 if rn == PC => {
                let offset = if bit(first, 7) { -i64::from(plain) } else { i64::from(plain) };
                Effect::Here { rd, value: aligned(address, offset).cast_signed() }
            }
            0b00000 => Effect::AddImmediate { rd, rn, value: plain.into() },
            0b01010 => Effect::AddImmediate { rd, rn, value: -i64::from(plain) },
            0b00100 => Effect::Constant { rd, value: half },
            0b01100 => Effect::Part { rd, value: half << 16, shift: 16 },
            _ => Effect::Writes(set(rd)),
        });
    }
    let value = i64::from(expanded(plain));
    Some(match bits(first, 8, 5) {
        2 if rn == PC => Effect::Constant { rd, value },
        8 => Effect::AddImmediate { rd, rn, value },
        13 => Effect::AddImmediate { rd, rn, value: -value },
        _ => Effect::Writes(set(rd)),
    })
}

/// The constant that twelve bits stand for (`ThumbExpandImm`).
const fn expanded(immediate: u32) -> u32 {
    let byte = bits(immediate, 7, 0);
    match bits(immediate, 11, 8) {
        0 => byte,
        1 => byte << 16 | byte,
        2 => byte << 24 | byte << 8,
        3 => byte << 24 | byte << 16 | byte << 8 | byte,
        _ => (0x80 | bits(immediate, 6, 0)).rotate_right(bits(immediate, 11, 7)),
    }
}

/// Branches and control (section C2.3.3).
fn branches(first: u32, second: u32, address: u64) -> Option<(Transfer, Effect)> {
    let (sign, one, two) = (bits(first, 10, 10), bits(second, 13, 13), bits(second, 11, 11));
    let far = || {
        let high = sign << 24 | (1 ^ one ^ sign) << 23 | (1 ^ two ^ sign) << 22;
        relative(address, signed(high | bits(first, 9, 0) << 12 | bits(second, 10, 0) << 1, 25))
    };
    Some(match (bit(second, 14), bit(second, 12)) {
        (true, true) => (Transfer::Call(Target::Address(far())), Effect::Call),
        // `blx` to code of another instruction set; the loops of Armv8.1-M.
        (true, false) => (Transfer::Elsewhere, Effect::NOTHING),
        (false, true) => (Transfer::Jump(Target::Address(far())), Effect::NOTHING),
        (false, false) if bits(first, 9, 6) < 14 => {
            let offset = sign << 20 | two << 19 | one << 18 | bits(first, 5, 0) << 12 | bits(second, 10, 0) << 1;
            (Transfer::Branch(relative(address, signed(offset, 21))), Effect::NOTHING)
        }
        (false, false) => match bits(first, 10, 4) {
            // `msr`: to the flags, or to the masks of interrupts. All else may exchange the stack pointer.
            0b011_1000 | 0b011_1001 => match bits(second, 9, 0) {
                0..=3 | 16..=19 => (Transfer::Next, Effect::NOTHING),
                _ => (Transfer::Next, Effect::Writes(set(SP) | set(LR))),
            },
            // Hints and barriers; some other hints sign the return address.
            0b011_1010 if matches!(bits(second, 10, 0), 0..=4 | 0x0f | 0x14 | 0xf0..=0xff) => {
                (Transfer::Next, Effect::NOTHING)
            }
            0b011_1011 if matches!(bits(second, 7, 4), 2 | 4..=6) => (Transfer::Next, Effect::NOTHING),
            0b011_1110 | 0b011_1111 => (Transfer::Next, Effect::Writes(set(register(second, 8)))),
            0b111_1111 if bits(second, 15, 12) == 0b1010 => (Transfer::Trap, Effect::NOTHING),
            _ => return None,
        },
    })
}

/// Loads and stores of two registers, exclusive ones, and jumps through tables (section C2.3.1).
fn pairs(first: u32, second: u32) -> Option<(Transfer, Effect)> {
    let (rn, rt, rt2) = (register(first, 0), register(second, 12), register(second, 8));
    let load = bit(first, 4);
    if !bit(first, 8) && !bit(first, 5) {
        return Some(match (bit(first, 7), load, bits(second, 7, 4)) {
            // `strex`, which writes a register too; `ldrex`; `tt`.
            (false, false, _) if rt == PC => (Transfer::Next, Effect::Writes(set(rt2))),
            (false, false, _) => exclusive(rn, set(rt2), i64::from(bits(second, 7, 0)) * 4, 4),
            (false, true, _) => (Transfer::Next, Effect::Writes(set(rt))),
            (true, true, 0 | 1) => (Transfer::Jump(Target::Computed), Effect::NOTHING),
            (true, true, _) => (Transfer::Next, Effect::Writes((set(rt) | set(rt2)) & !set(PC))),
            // `strexb`, `strexh`, and stores with release.
            (true, false, _) => exclusive(rn, set(register(second, 0)) & !set(PC), 0, 8),
        });
    }
    let distance = i64::from(bits(second, 7, 0)) * 4;
    let distance = if bit(first, 7) { distance } else { -distance };
    let offset = if bit(first, 8) { distance } else { 0 };
    let writeback = bit(first, 5).then_some(distance);
    if rn == PC {
        return load.then_some((Transfer::Next, Effect::Writes(set(rt) | set(rt2))));
    }
    // In ascending order of registers they are as if stored by `stm`.
    if rt < rt2 {
        let registers = set(rt) | set(rt2);
        return Some((Transfer::Next, Effect::words(rn, offset, registers, load, writeback)));
    }
    Some((
        Transfer::Next,
        match load {
            true => Effect::Load { base: rn, writeback, registers: set(rt) | set(rt2) },
            false => Effect::Store { base: rn, offset, bytes: 8, writeback, also: 0 },
        },
    ))
}

fn exclusive(base: u8, also: u64, offset: i64, bytes: i64) -> (Transfer, Effect) {
    (Transfer::Next, Effect::Store { base, offset, bytes, writeback: None, also })
}

/// Loads and stores of one register (section C2.3.4).
fn one_register(first: u32, second: u32, address: u64) -> Option<(Transfer, Effect)> {
    let (rn, rt) = (register(first, 0), register(second, 12));
    let (load, size) = (bit(first, 4), bits(first, 6, 5));
    let bytes = 1 << size;
    if size == 3 {
        return None;
    }
    let whole = size == 2;
    if load && rn == PC {
        let distance = i64::from(bits(second, 11, 0));
        let place = aligned(address, if bit(first, 7) { distance } else { -distance });
        return Some(match (whole, rt) {
            (true, PC) => (Transfer::Jump(Target::Pointer(place)), Effect::NOTHING),
            (true, rd) => (Transfer::Next, Effect::Literal { rd, address: place }),
            // Hints to the cache.
            (false, PC) => (Transfer::Next, Effect::NOTHING),
            (false, rt) => (Transfer::Next, Effect::Writes(set(rt))),
        });
    }
    if rt == PC && !bit(first, 7) && bits(second, 11, 8) == 0b1110 {
        return None;
    }
    let (offset, writeback) = if bit(first, 7) {
        (Some(i64::from(bits(second, 11, 0))), None)
    } else if bit(second, 11) {
        let distance = i64::from(bits(second, 7, 0));
        let distance = if bit(second, 9) { distance } else { -distance };
        (Some(if bit(second, 10) { distance } else { 0 }), bit(second, 8).then_some(distance))
    } else if bits(second, 10, 6) == 0 {
        // A register is added to the base.
        (None, None)
    } else {
        return None;
    };
    let to_counter = load && rt == PC;
    let flow = match (to_counter, whole) {
        (false, _) => Transfer::Next,
        // A hint to the cache.
        (true, false) => return Some((Transfer::Next, Effect::NOTHING)),
        (true, true) if rn == SP && offset == Some(0) && writeback == Some(4) => Transfer::Return,
        (true, true) => Transfer::Jump(Target::Computed),
    };
    let effect = match offset {
        Some(offset) if whole => Effect::words(rn, offset, set(rt), load, writeback),
        Some(offset) if !load => Effect::Store { base: rn, offset, bytes, writeback, also: 0 },
        _ if load => Effect::Load { base: rn, writeback, registers: set(rt) },
        _ => Effect::NOTHING,
    };
    Some((flow, effect))
}

/// Coprocessor and floating-point instructions (section C2.3.7): what they do to core registers and to the stack.
fn coprocessor(first: u32, second: u32) -> Option<(Transfer, Effect)> {
    let (rn, rt) = (register(first, 0), register(second, 12));
    // The vector extension of Armv8.1-M has other encodings here, some of them loops.
    if bits(second, 11, 9) != 0b101 || bits(first, 12, 12) == 1 && bits(first, 11, 8) != 0b1110 {
        return None;
    }
    Some(match bits(first, 9, 8) {
        // Two core registers.
        0 if bits(first, 7, 5) == 0b010 => {
            (Transfer::Next, if bit(first, 4) { Effect::Writes(set(rt) | 1 << rn) } else { Effect::NOTHING })
        }
        // `vldr` and `vstr` have an offset, `vldm` and `vstm` a number of words.
        0 | 1 => {
            let (before, up, back, load) = (bit(first, 8), bit(first, 7), bit(first, 5), bit(first, 4));
            // `vlstm` and the like.
            if !before && !up {
                return None;
            }
            let distance = 4 * i64::from(bits(second, 7, 0));
            let signed = if up { distance } else { -distance };
            let bytes = match (before && !back, bit(second, 8)) {
                (true, true) => 8,
                (true, false) => 4,
                (false, _) => distance,
            };
            let (offset, writeback) = (if before { signed } else { 0 }, back.then_some(signed));
            match load {
                true => (Transfer::Next, Effect::Load { base: rn, writeback, registers: 0 }),
                false => (Transfer::Next, Effect::Store { base: rn, offset, bytes, writeback, also: 0 }),
            }
        }
        // A core register, or the flags.
        _ if bits(first, 9, 8) == 2 && bit(second, 4) && bit(first, 4) => {
            (Transfer::Next, if rt == PC { Effect::NOTHING } else { Effect::Writes(set(rt)) })
        }
        2 => (Transfer::Next, Effect::NOTHING),
        _ => return None,
    })
}
