//! Decodes instructions by the Arm Architecture Reference Manual for A-profile (DDI0487), chapter C4.

use crate::arch::bits::{bit, bits, signed};
use crate::arch::linked::{Effect, ZERO, set};
use crate::arch::{Target, Transfer};

/// The link register, which holds the return address.
pub(super) const LR: u8 = 30;
/// The stack pointer.
pub(super) const SP: u8 = 31;

/// Where execution goes from an instruction of four bytes, and what it does to registers and memory. As an operand, the
/// number 31 is the stack pointer or zero.
pub(super) type Instruction = (Transfer, Effect);

/// The set with one register, or with that of zero.
fn written(register: u8) -> u64 {
    set(or_zero(register))
}

/// A register, where number 31 is zero.
fn or_zero(register: u8) -> u8 {
    if register == SP { ZERO } else { register }
}

fn register(word: u32, low: u32) -> u8 {
    bits(word, low + 4, low) as u8
}

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
pub(super) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
    if !address.is_multiple_of(4) {
        return None;
    }
    let word = u32::from_le_bytes(*code.first_chunk()?);
    Some(match bits(word, 28, 25) {
        0b0000 if word >> 16 == 0 => (Transfer::Trap, Effect::NOTHING),
        0b1000 | 0b1001 => (Transfer::Next, constant(word, address)?),
        0b1010 | 0b1011 => transfer(word, address)?,
        0b0100 | 0b0110 | 0b1100 | 0b1110 => (Transfer::Next, memory(word)?),
        0b0101 | 0b1101 => (Transfer::Next, registers(word)),
        // Conversions and moves write general registers; others, vectors with the same number.
        0b0111 | 0b1111 => (Transfer::Next, Effect::Writes(written(register(word, 0)))),
        _ => return None,
    })
}

/// Data processing with a constant (section C4.1.92).
fn constant(word: u32, address: u64) -> Option<Effect> {
    let (rd, rn) = (register(word, 0), register(word, 5));
    let other = Effect::Writes(written(rd));
    Some(match bits(word, 25, 23) {
        0b000 | 0b001 => {
            let rd = or_zero(rd);
            let distance = signed(bits(word, 23, 5) << 2 | bits(word, 30, 29), 21);
            if bit(word, 31) {
                let page = (address & !0xfff).cast_signed().wrapping_add(distance << 12);
                Effect::Upper { rd, value: page, fixed: false }
            } else {
                Effect::Here { rd, value: address.cast_signed().wrapping_add(distance) }
            }
        }
        0b010 => {
            let number = i64::from(bits(word, 21, 10)) << if bit(word, 22) { 12 } else { 0 };
            let value = if bit(word, 30) { -number } else { number };
            // With flags, number 31 is zero; with 32 bits, addresses are cut off.
            let rd = if bit(word, 29) { or_zero(rd) } else { rd };
            if bit(word, 31) { Effect::AddImmediate { rd, rn, value } } else { Effect::Writes(set(rd)) }
        }
        // With tags.
        0b011 => return None,
        // With flags, number 31 is zero.
        0b100 => Effect::Writes(if bits(word, 30, 29) == 3 { written(rd) } else { set(rd) }),
        0b101 => {
            let shift = 16 * bits(word, 22, 21);
            let part = i64::from(bits(word, 20, 5)) << shift;
            let cut = |value: i64| if bit(word, 31) { value } else { value & 0xffff_ffff };
            let rd = or_zero(rd);
            match bits(word, 30, 29) {
                0 => Effect::Constant { rd, value: cut(!part) },
                2 => Effect::Constant { rd, value: cut(part) },
                3 if bit(word, 31) => Effect::Part { rd, value: part, shift },
                3 => other,
                _ => return None,
            }
        }
        _ => other,
    })
}

/// Branches, exceptions and the system (section C4.1.93).
fn transfer(word: u32, address: u64) -> Option<Instruction> {
    let target = |distance: i64| address.wrapping_add_signed(4 * distance);
    let address_of = |distance: i64| Target::Address(target(distance));
    let by_19 = || target(signed(bits(word, 23, 5), 19));
    Some(match word >> 24 {
        0x14..=0x17 => (Transfer::Jump(address_of(signed(bits(word, 25, 0), 26))), Effect::NOTHING),
        0x94..=0x97 => (Transfer::Call(address_of(signed(bits(word, 25, 0), 26))), Effect::Call),
        // `bc.cond` is not read.
        0x54 if !bit(word, 4) => (Transfer::Branch(by_19()), Effect::NOTHING),
        0x34 | 0x35 | 0xb4 | 0xb5 => (Transfer::Branch(by_19()), Effect::NOTHING),
        0x36 | 0x37 | 0xb6 | 0xb7 => (Transfer::Branch(target(signed(bits(word, 18, 5), 14))), Effect::NOTHING),
        0xd4 => match (bits(word, 23, 21), bits(word, 4, 0)) {
            (0, 1) | (1 | 2, 0) => (Transfer::Kernel, Effect::NOTHING),
            (0, 2 | 3) | (5, 1..=3) => (Transfer::Elsewhere, Effect::NOTHING),
            _ => return None,
        },
        // Another stack pointer is selected, or the one that is not selected is set.
        0xd5 if word & 0xffff_f0ff == 0xd500_40bf || matches!(word >> 5, 0x6a8_c210 | 0x6a8_c208) => {
            (Transfer::Next, Effect::Writes(set(SP)))
        }
        // `dc zva` clears a block of up to 2 KiB around an address.
        0xd5 if word >> 5 == 0x6a8_5ba1 => {
            let base = register(word, 0);
            (Transfer::Next, Effect::Store { base, offset: -2048, bytes: 4096, writeback: None, also: 0 })
        }
        // Hints, barriers, and the system's registers, some of which are read into a general one.
        0xd5 if bits(word, 23, 22) == 0 => {
            (Transfer::Next, if bit(word, 21) { Effect::Writes(written(register(word, 0))) } else { Effect::NOTHING })
        }
        0xd6 if bits(word, 20, 16) == 31 && bits(word, 15, 10) == 0 && bits(word, 4, 0) == 0 => {
            match (bits(word, 24, 21), register(word, 5)) {
                (0, _) => (Transfer::Jump(Target::Computed), Effect::NOTHING),
                (1, _) => (Transfer::Call(Target::Computed), Effect::Call),
                (2, LR) => (Transfer::Return, Effect::NOTHING),
                (2, _) | (4 | 5, SP) => (Transfer::Elsewhere, Effect::NOTHING),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// Loads and stores (section C4.1.94).
fn memory(word: u32) -> Option<Effect> {
    let (rt, rn, rt2) = (register(word, 0), register(word, 5), register(word, 10));
    let vector = bit(word, 26);
    Some(match (bits(word, 29, 27), bits(word, 25, 23)) {
        // Several structures of vectors, and one; after them, the base may be moved.
        (0b001, 0b000..=0b011) if vector && !bit(word, 31) => {
            let moves = bit(word, 23);
            let effect = match bit(word, 22) {
                true => Effect::Load { base: rn, writeback: None, registers: 0 },
                false => Effect::Store { base: rn, offset: 0, bytes: 64, writeback: None, also: 0 },
            };
            match (moves, effect) {
                // The stack pointer is then unknown.
                (true, Effect::Store { .. }) => {
                    Effect::Store { base: rn, offset: 0, bytes: 64, writeback: None, also: set(rn) }
                }
                (true, _) => Effect::Writes(set(rn)),
                (false, effect) => effect,
            }
        }
        // Exclusive and ordered accesses, compare and swap.
        (0b001, 0b000 | 0b001) if !vector && !bit(word, 24) => {
            let rs = register(word, 16);
            let store = |also| Effect::Store { base: rn, offset: 0, bytes: 16, writeback: None, also };
            match (bit(word, 23), bit(word, 21), bit(word, 22)) {
                // Pairs, of which both are loaded.
                (false, true, _) if !bit(word, 31) => store(written(rs) | written((rs + 1) & 31)),
                (true, true, _) => store(written(rs)),
                // The status of an exclusive store.
                (false, _, false) => store(written(rs)),
                (true, false, false) => store(0),
                (_, _, true) => Effect::Writes(written(rt) | written(rt2)),
            }
        }
        // Literals; the prefetch of one.
        (0b011, 0b000 | 0b001) => Effect::Writes(if vector || bits(word, 31, 30) == 3 { 0 } else { written(rt) }),
        // Accesses with release and acquire semantics and an offset.
        (0b011, 0b010 | 0b011) if !vector && bits(word, 11, 10) == 0 && !bit(word, 21) => match bits(word, 23, 22) {
            0 => Effect::Store { base: rn, offset: signed(bits(word, 20, 12), 9), bytes: 8, writeback: None, also: 0 },
            _ => Effect::Writes(written(rt)),
        },
        // Pairs.
        (0b101, 0b000..=0b011) if bits(word, 31, 30) != 3 || vector => {
            let (load, wide) = (bit(word, 22), bits(word, 31, 30));
            let size = if vector {
                4 << wide
            } else if wide == 2 {
                8
            } else {
                4
            };
            let distance = size * signed(bits(word, 21, 15), 7);
            let (offset, writeback) = match bits(word, 24, 23) {
                0 | 2 => (distance, None),
                1 => (0, Some(distance)),
                _ => (distance, Some(distance)),
            };
            match (vector, wide, load) {
                (true, 3, _) => return None,
                (true, _, true) => Effect::Load { base: rn, writeback, registers: 0 },
                (true, _, false) => Effect::Store { base: rn, offset, bytes: 2 * size, writeback, also: 0 },
                // With tags.
                (false, 1, false) => return None,
                (false, 2, _) => {
                    let (first, second) = (or_zero(rt), or_zero(rt2));
                    let (registers, descending) = (set(first) | set(second), first > second);
                    if first == second {
                        // Zero twice; a load of the same register twice has no meaning.
                        return (!load).then_some(Effect::Store { base: rn, offset, bytes: 16, writeback, also: 0 });
                    }
                    Effect::Words { base: rn, offset, registers, descending, load, writeback }
                }
                (_, _, true) => Effect::Load { base: rn, writeback, registers: written(rt) | written(rt2) },
                (_, _, false) => Effect::Store { base: rn, offset, bytes: 2 * size, writeback, also: 0 },
            }
        }
        // One register.
        (0b111, _) => return single(word),
        _ => return None,
    })
}

/// Loads and stores of one register.
fn single(word: u32) -> Option<Effect> {
    let (rt, rn) = (register(word, 0), register(word, 5));
    let (vector, size, operation) = (bit(word, 26), bits(word, 31, 30), bits(word, 23, 22));
    let bytes = if vector && bit(word, 23) { 16 } else { 1 << size };
    let store = operation == 0 || vector && operation == 2;
    let prefetch = !vector && size == 3 && operation == 2;
    let whole = !vector && size == 3 && operation < 2;
    let (offset, writeback) = match (bit(word, 24), bit(word, 21), bits(word, 11, 10)) {
        (true, ..) => (Some(bytes * i64::from(bits(word, 21, 10))), None),
        (false, false, kind) => {
            let distance = signed(bits(word, 20, 12), 9);
            match kind {
                1 => (Some(0), Some(distance)),
                3 => (Some(distance), Some(distance)),
                _ => (Some(distance), None),
            }
        }
        (false, true, 2) => (None, None),
        // Atomic operations: what was in memory is loaded.
        (false, true, 0) if !vector && (!bit(word, 15) || matches!(bits(word, 14, 12), 0 | 4)) => {
            return Some(Effect::Store { base: rn, offset: 0, bytes, writeback: None, also: written(rt) });
        }
        _ => return None,
    };
    Some(match offset {
        _ if prefetch => Effect::NOTHING,
        Some(offset) if whole => Effect::words(rn, offset, written(rt), operation == 1, writeback),
        Some(offset) if store => Effect::Store { base: rn, offset, bytes, writeback, also: 0 },
        None if store => Effect::NOTHING,
        _ => Effect::Load { base: rn, writeback, registers: if vector { 0 } else { written(rt) } },
    })
}

/// Data processing with registers (section C4.1.95).
fn registers(word: u32) -> Effect {
    let (rd, rn, rm) = (register(word, 0), register(word, 5), register(word, 16));
    let wide = bit(word, 31);
    match (bits(word, 28, 24), bit(word, 21)) {
        // `orr` with zero and without a shift is `mov`.
        (0b01010, false) if wide && bits(word, 30, 29) == 1 && rn == SP && bits(word, 15, 10) == 0 => {
            Effect::AddImmediate { rd: or_zero(rd), rn: or_zero(rm), value: 0 }
        }
        // Without a shift; number 31 is zero.
        (0b01011, false) if wide && bits(word, 23, 22) == 0 && bits(word, 15, 10) == 0 => {
            Effect::Combine { rd: or_zero(rd), rn: or_zero(rn), rm: or_zero(rm), subtract: bit(word, 30) }
        }
        // Extended; number 31 is the stack pointer, except as `rm`, and as `rd` with flags.
        (0b01011, true) => {
            let plain = wide && matches!(bits(word, 15, 13), 3 | 7) && bits(word, 12, 10) == 0;
            let rd = if bit(word, 29) { or_zero(rd) } else { rd };
            if plain {
                Effect::Combine { rd, rn, rm: or_zero(rm), subtract: bit(word, 30) }
            } else {
                Effect::Writes(set(rd))
            }
        }
        // Conditional comparisons write flags.
        (0b11010, false) if bits(word, 23, 22) == 1 => Effect::NOTHING,
        _ => Effect::Writes(written(rd)),
    }
}
