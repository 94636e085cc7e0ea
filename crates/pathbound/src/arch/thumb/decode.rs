//! Decodes single instructions, outside if-then blocks, by the Armv8-M Architecture Reference Manual (DDI0553), chapter
//! C2; Armv6-M and Armv7-M have subsets of its encodings. `BLX` with an offset, the vector extension and loops of
//! Armv8.1-M are not read.

use crate::arch::bits::{bit, bits, signed};
use crate::image::Image;

/// The stack pointer.
pub(super) const SP: u8 = 13;
/// The link register, which holds the return address.
pub(super) const LR: u8 = 14;
/// The program counter.
pub(super) const PC: u8 = 15;

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes.
    pub flow: Flow,
    /// What it does to registers and memory.
    pub effect: Effect,
}

/// Where execution goes from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// To the next instruction.
    Next,
    /// To the next instruction: `it`, with so many instructions in its block.
    IfThen { instructions: u8 },
    /// `b`
    Jump(u64),
    /// `b` with a condition, `cbz`, `cbnz`
    Branch(u64),
    /// `bl`
    Call(u64),
    /// `ldr pc` from a constant place.
    JumpThrough(u64),
    /// `bx` of a register, `tbb`, and the like.
    ComputedJump,
    /// `blx` of a register.
    ComputedCall,
    /// `bx lr`, `pop` of the program counter.
    Return,
    /// `svc`, `bkpt`
    Kernel,
    /// `udf`
    Trap,
    /// Other instruction sets, security states, exception returns.
    Elsewhere,
}

/// What an instruction does to registers and memory, as far as the analysis needs it. Numbers are registers; sets of
/// registers have a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Writes these registers, in a way that is not followed.
    Writes(u16),
    /// `mov` of a constant.
    Constant { rd: u8, value: i64 },
    /// `movt`: the upper half.
    ConstantHigh { rd: u8, value: i64 },
    /// A load of the constant at an address.
    Literal { rd: u8, address: u64 },
    /// `adr`
    Here { rd: u8, value: i64 },
    /// `add`, `sub` of a constant; `mov` of a register with a constant of 0.
    AddImmediate { rd: u8, rn: u8, value: i64 },
    /// `add`
    Add { rd: u8, rn: u8, rm: u8 },
    /// `sub`
    Subtract { rd: u8, rn: u8, rm: u8 },
    /// Loads or stores registers, 4 bytes each in ascending order, from an offset from the base on.
    Words { base: u8, offset: i64, registers: u16, load: bool, writeback: Option<i64> },
    /// A store of so many bytes of something else.
    Store { base: u8, offset: i64, bytes: i64, writeback: Option<i64>, also: u16 },
    /// A load or a change of the base, beside registers that are not followed.
    Load { base: u8, writeback: Option<i64>, registers: u16 },
}

const NOTHING: Effect = Effect::Writes(0);

impl Effect {
    /// The registers that it writes.
    pub fn writes(self) -> u16 {
        let back = |base: u8, writeback: Option<i64>| if writeback.is_some() { 1 << base } else { 0 };
        match self {
            Self::Writes(registers) => registers,
            Self::Constant { rd, .. }
            | Self::ConstantHigh { rd, .. }
            | Self::Literal { rd, .. }
            | Self::Here { rd, .. }
            | Self::AddImmediate { rd, .. }
            | Self::Add { rd, .. }
            | Self::Subtract { rd, .. } => 1 << rd,
            Self::Words { base, registers, load, writeback, .. } => {
                back(base, writeback) | if load { registers } else { 0 }
            }
            Self::Store { base, writeback, also, .. } => back(base, writeback) | also,
            Self::Load { base, writeback, registers } => back(base, writeback) | registers,
        }
    }
}

/// Length and flow of the instruction at an address.
pub(super) fn flow(image: &dyn Image, address: u64) -> Option<(u8, Flow)> {
    decode(image.code(address)?, address).map(|instruction| (instruction.length, instruction.flow))
}

/// Decodes the instruction at the beginning of `code`, which lies at `address`; `None` where there is none.
pub(super) fn decode(code: &[u8], address: u64) -> Option<Instruction> {
    if !address.is_multiple_of(2) {
        return None;
    }
    let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
    if half >> 11 < 0b11101 {
        let (flow, effect) = short(half, address)?;
        return Some(Instruction { length: 2, flow, effect });
    }
    let second = u32::from(u16::from_le_bytes(*code.get(2..)?.first_chunk()?));
    let (flow, effect) = long(half, second, address)?;
    Some(Instruction { length: 4, flow, effect })
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
fn short(half: u32, address: u64) -> Option<(Flow, Effect)> {
    let (rd, rn) = (low_register(half, 0), low_register(half, 3));
    let writes = |register: u8| (Flow::Next, Effect::Writes(1 << register));
    let words = |base, offset, registers, load, writeback| {
        (Flow::Next, Effect::Words { base, offset, registers, load, writeback })
    };
    let store = |base, offset, bytes| (Flow::Next, Effect::Store { base, offset, bytes, writeback: None, also: 0 });
    let add = |rd, rn, value| (Flow::Next, Effect::AddImmediate { rd, rn, value });
    Some(match half >> 11 {
        // `lsls rd, rm, #0` is `movs rd, rm`.
        0b00000 if bits(half, 10, 6) == 0 => add(rd, rn, 0),
        0b00000..=0b00010 => writes(rd),
        0b00011 => {
            let (other, number) = (low_register(half, 6), i64::from(bits(half, 8, 6)));
            match bits(half, 10, 9) {
                0 => (Flow::Next, Effect::Add { rd, rn, rm: other }),
                1 => (Flow::Next, Effect::Subtract { rd, rn, rm: other }),
                2 => add(rd, rn, number),
                _ => add(rd, rn, -number),
            }
        }
        0b00100 => (Flow::Next, Effect::Constant { rd: low_register(half, 8), value: i64::from(bits(half, 7, 0)) }),
        0b00101 => (Flow::Next, NOTHING),
        0b00110 => add(low_register(half, 8), low_register(half, 8), i64::from(bits(half, 7, 0))),
        0b00111 => add(low_register(half, 8), low_register(half, 8), -i64::from(bits(half, 7, 0))),
        // `rsbs`, `adcs` and others; comparisons write nothing.
        0b01000 if !bit(half, 10) => match bits(half, 9, 6) {
            8 | 10 | 11 => (Flow::Next, NOTHING),
            _ => writes(rd),
        },
        0b01000 => return special(half),
        0b01001 => {
            let place = aligned(address, i64::from(bits(half, 7, 0)) * 4);
            (Flow::Next, Effect::Literal { rd: low_register(half, 8), address: place })
        }
        // Register offsets: the address is not known. Loads write `rd`.
        0b01010 if bits(half, 10, 9) < 3 => (Flow::Next, NOTHING),
        0b01010 | 0b01011 => writes(rd),
        0b01100 => words(rn, i64::from(bits(half, 10, 6)) * 4, 1 << rd, false, None),
        0b01101 => words(rn, i64::from(bits(half, 10, 6)) * 4, 1 << rd, true, None),
        0b01110 => store(rn, i64::from(bits(half, 10, 6)), 1),
        0b10000 => store(rn, i64::from(bits(half, 10, 6)) * 2, 2),
        0b01111 | 0b10001 => writes(rd),
        0b10010 | 0b10011 => {
            let rd = low_register(half, 8);
            words(SP, i64::from(bits(half, 7, 0)) * 4, 1 << rd, bit(half, 11), None)
        }
        0b10100 => {
            let value = aligned(address, i64::from(bits(half, 7, 0)) * 4);
            (Flow::Next, Effect::Here { rd: low_register(half, 8), value: value.cast_signed() })
        }
        0b10101 => add(low_register(half, 8), SP, i64::from(bits(half, 7, 0)) * 4),
        0b10110 | 0b10111 => return miscellaneous(half, address),
        0b11000 | 0b11001 => {
            let (base, registers, load) = (low_register(half, 8), bits(half, 7, 0) as u16, bit(half, 11));
            let bytes = 4 * i64::from(registers.count_ones());
            // A loaded base is not written back.
            let writeback = (!load || registers >> base & 1 == 0).then_some(bytes);
            words(base, 0, registers, load, writeback)
        }
        0b11010 | 0b11011 => match bits(half, 11, 8) {
            14 => (Flow::Trap, NOTHING),
            15 => (Flow::Kernel, NOTHING),
            _ => (Flow::Branch(relative(address, signed(bits(half, 7, 0), 8) * 2)), NOTHING),
        },
        0b11100 => (Flow::Jump(relative(address, signed(bits(half, 10, 0), 11) * 2)), NOTHING),
        _ => return None,
    })
}

/// `add`, `cmp` and `mov` of any registers, `bx` and `blx`.
fn special(half: u32) -> Option<(Flow, Effect)> {
    let (rm, rd) = (register(half, 3), low_register(half, 0) | (bits(half, 7, 7) as u8) << 3);
    Some(match bits(half, 9, 8) {
        0 if rd == PC => (Flow::ComputedJump, NOTHING),
        0 => (Flow::Next, Effect::Add { rd, rn: rd, rm }),
        1 => (Flow::Next, NOTHING),
        2 if rd == PC => (if rm == LR { Flow::Return } else { Flow::ComputedJump }, NOTHING),
        2 => (Flow::Next, Effect::AddImmediate { rd, rn: rm, value: 0 }),
        // `bxns` and `blxns` change the security state.
        _ if bits(half, 2, 0) == 4 => (Flow::Elsewhere, NOTHING),
        _ if bits(half, 2, 0) != 0 => return None,
        _ if bit(half, 7) => (Flow::ComputedCall, NOTHING),
        _ => (if rm == LR { Flow::Return } else { Flow::ComputedJump }, NOTHING),
    })
}

/// Section C2.2.6.
fn miscellaneous(half: u32, address: u64) -> Option<(Flow, Effect)> {
    let rd = low_register(half, 0);
    Some(match bits(half, 11, 8) {
        0b0000 => {
            let value = i64::from(bits(half, 6, 0)) * 4;
            let value = if bit(half, 7) { -value } else { value };
            (Flow::Next, Effect::AddImmediate { rd: SP, rn: SP, value })
        }
        0b0001 | 0b0011 | 0b1001 | 0b1011 => {
            let offset = bits(half, 9, 9) << 6 | bits(half, 7, 3) << 1;
            (Flow::Branch(relative(address, offset.into())), NOTHING)
        }
        // Extensions; byte orders.
        0b0010 => (Flow::Next, Effect::Writes(1 << rd)),
        0b1010 if bits(half, 7, 6) != 2 => (Flow::Next, Effect::Writes(1 << rd)),
        0b0100 | 0b0101 => {
            let registers = bits(half, 7, 0) as u16 | (bits(half, 8, 8) as u16) << LR;
            let bytes = 4 * i64::from(registers.count_ones());
            let effect = Effect::Words { base: SP, offset: -bytes, registers, load: false, writeback: Some(-bytes) };
            (Flow::Next, effect)
        }
        0b1100 | 0b1101 => {
            let registers = bits(half, 7, 0) as u16 | (bits(half, 8, 8) as u16) << PC;
            let bytes = 4 * i64::from(registers.count_ones());
            let effect = Effect::Words { base: SP, offset: 0, registers, load: true, writeback: Some(bytes) };
            (if bit(half, 8) { Flow::Return } else { Flow::Next }, effect)
        }
        // `cps`
        0b0110 if bits(half, 7, 5) == 0b011 => (Flow::Next, NOTHING),
        0b1110 => (Flow::Kernel, NOTHING),
        // Hints; `it`.
        0b1111 if bits(half, 3, 0) == 0 => (Flow::Next, NOTHING),
        0b1111 => (Flow::IfThen { instructions: 4 - bits(half, 3, 0).trailing_zeros() as u8 }, NOTHING),
        _ => return None,
    })
}

/// Instructions of four bytes (section C2.3).
fn long(first: u32, second: u32, address: u64) -> Option<(Flow, Effect)> {
    let (rn, rd, rt) = (register(first, 0), register(second, 8), register(second, 12));
    Some(match first >> 9 {
        // Loads and stores of several registers, of two, exclusive ones, and jumps through tables.
        0b111_0100 => {
            if bit(first, 6) {
                return pairs(first, second);
            }
            let registers = second as u16;
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
                (false, _) => Flow::Next,
                (true, true) => Flow::Return,
                (true, false) => Flow::ComputedJump,
            };
            (flow, Effect::Words { base: rn, offset, registers, load, writeback })
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
                (0 | 4 | 8 | 13, ..) if rd == PC && bit(first, 4) => NOTHING,
                _ if rd == PC => return None,
                (2, PC, 0, 0) => Effect::AddImmediate { rd, rn: rm, value: 0 },
                (8, _, 0, 0) => Effect::Add { rd, rn, rm },
                (13, _, 0, 0) => Effect::Subtract { rd, rn, rm },
                _ => Effect::Writes(1 << rd),
            };
            (Flow::Next, effect)
        }
        // Coprocessors and floating point: transfers to core registers, and stores.
        0b111_0110 | 0b111_0111 | 0b111_1110 | 0b111_1111 => return coprocessor(first, second),
        0b111_1000..=0b111_1011 if bit(second, 15) => return branches(first, second, address),
        0b111_1000..=0b111_1011 => (Flow::Next, immediate(first, second, address)?),
        0b111_1100 => return single(first, second, address),
        0b111_1101 if rd != PC => (Flow::Next, Effect::Writes(1 << rd)),
        _ => return None,
    })
    .map(|(flow, effect)| {
        // Multiplications with long results, and divisions, are among those with `111_1101`.
        let long = first >> 7 == 0b1_1111_0111;
        (flow, if long && rt != PC && rd != PC { Effect::Writes(1 << rd | 1 << rt) } else { effect })
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
        return compares.then_some(NOTHING);
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
            0b01100 => Effect::ConstantHigh { rd, value: half },
            _ => Effect::Writes(1 << rd),
        });
    }
    let value = i64::from(expanded(plain));
    Some(match bits(first, 8, 5) {
        2 if rn == PC => Effect::Constant { rd, value },
        8 => Effect::AddImmediate { rd, rn, value },
        13 => Effect::AddImmediate { rd, rn, value: -value },
        _ => Effect::Writes(1 << rd),
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
fn branches(first: u32, second: u32, address: u64) -> Option<(Flow, Effect)> {
    let (sign, one, two) = (bits(first, 10, 10), bits(second, 13, 13), bits(second, 11, 11));
    let far = || {
        let high = sign << 24 | (1 ^ one ^ sign) << 23 | (1 ^ two ^ sign) << 22;
        relative(address, signed(high | bits(first, 9, 0) << 12 | bits(second, 10, 0) << 1, 25))
    };
    Some(match (bit(second, 14), bit(second, 12)) {
        (true, true) => (Flow::Call(far()), NOTHING),
        // `blx` to code of another instruction set; the loops of Armv8.1-M.
        (true, false) => (Flow::Elsewhere, NOTHING),
        (false, true) => (Flow::Jump(far()), NOTHING),
        (false, false) if bits(first, 9, 6) < 14 => {
            let offset = sign << 20 | two << 19 | one << 18 | bits(first, 5, 0) << 12 | bits(second, 10, 0) << 1;
            (Flow::Branch(relative(address, signed(offset, 21))), NOTHING)
        }
        (false, false) => match bits(first, 10, 4) {
            // `msr`: to the flags, or to the masks of interrupts. All else may exchange the stack pointer.
            0b011_1000 | 0b011_1001 => match bits(second, 9, 0) {
                0..=3 | 16..=19 => (Flow::Next, NOTHING),
                _ => (Flow::Next, Effect::Writes(1 << SP | 1 << LR)),
            },
            // Hints and barriers; some other hints sign the return address.
            0b011_1010 if matches!(bits(second, 10, 0), 0..=4 | 0x0f | 0x14 | 0xf0..=0xff) => (Flow::Next, NOTHING),
            0b011_1011 if matches!(bits(second, 7, 4), 2 | 4..=6) => (Flow::Next, NOTHING),
            0b011_1110 | 0b011_1111 => (Flow::Next, Effect::Writes(1 << register(second, 8))),
            0b111_1111 if bits(second, 15, 12) == 0b1010 => (Flow::Trap, NOTHING),
            _ => return None,
        },
    })
}

/// Loads and stores of two registers, exclusive ones, and jumps through tables (section C2.3.1).
fn pairs(first: u32, second: u32) -> Option<(Flow, Effect)> {
    let (rn, rt, rt2) = (register(first, 0), register(second, 12), register(second, 8));
    let load = bit(first, 4);
    if !bit(first, 8) && !bit(first, 5) {
        return Some(match (bit(first, 7), load, bits(second, 7, 4)) {
            // `strex`, which writes a register too; `ldrex`; `tt`.
            (false, false, _) if rt == PC => (Flow::Next, Effect::Writes(1 << rt2)),
            (false, false, _) => exclusive(rn, 1 << rt2, i64::from(bits(second, 7, 0)) * 4, 4),
            (false, true, _) => (Flow::Next, Effect::Writes(1 << rt)),
            (true, true, 0 | 1) => (Flow::ComputedJump, NOTHING),
            (true, true, _) => (Flow::Next, Effect::Writes((1 << rt | 1 << rt2) & !(1 << PC))),
            // `strexb`, `strexh`, and stores with release.
            (true, false, _) => exclusive(rn, 1 << register(second, 0) & !(1 << PC), 0, 8),
        });
    }
    let distance = i64::from(bits(second, 7, 0)) * 4;
    let distance = if bit(first, 7) { distance } else { -distance };
    let offset = if bit(first, 8) { distance } else { 0 };
    let writeback = bit(first, 5).then_some(distance);
    if rn == PC {
        return load.then_some((Flow::Next, Effect::Writes(1 << rt | 1 << rt2)));
    }
    // In ascending order of registers they are as if stored by `stm`.
    if rt < rt2 {
        let registers = 1 << rt | 1 << rt2;
        return Some((Flow::Next, Effect::Words { base: rn, offset, registers, load, writeback }));
    }
    Some((
        Flow::Next,
        match load {
            true => Effect::Load { base: rn, writeback, registers: 1 << rt | 1 << rt2 },
            false => Effect::Store { base: rn, offset, bytes: 8, writeback, also: 0 },
        },
    ))
}

fn exclusive(base: u8, also: u16, offset: i64, bytes: i64) -> (Flow, Effect) {
    (Flow::Next, Effect::Store { base, offset, bytes, writeback: None, also })
}

/// Loads and stores of one register (section C2.3.4).
fn single(first: u32, second: u32, address: u64) -> Option<(Flow, Effect)> {
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
            (true, PC) => (Flow::JumpThrough(place), NOTHING),
            (true, rd) => (Flow::Next, Effect::Literal { rd, address: place }),
            // Hints to the cache.
            (false, PC) => (Flow::Next, NOTHING),
            (false, rt) => (Flow::Next, Effect::Writes(1 << rt)),
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
        (false, _) => Flow::Next,
        // A hint to the cache.
        (true, false) => return Some((Flow::Next, NOTHING)),
        (true, true) if rn == SP && offset == Some(0) && writeback == Some(4) => Flow::Return,
        (true, true) => Flow::ComputedJump,
    };
    let effect = match offset {
        Some(offset) if whole => Effect::Words { base: rn, offset, registers: 1 << rt, load, writeback },
        Some(offset) if !load => Effect::Store { base: rn, offset, bytes, writeback, also: 0 },
        _ if load => Effect::Load { base: rn, writeback, registers: 1 << rt },
        _ => NOTHING,
    };
    Some((flow, effect))
}

/// Coprocessor and floating-point instructions (section C2.3.7): what they do to core registers and to the stack.
fn coprocessor(first: u32, second: u32) -> Option<(Flow, Effect)> {
    let (rn, rt) = (register(first, 0), register(second, 12));
    // The vector extension of Armv8.1-M has other encodings here, some of them loops.
    if bits(second, 11, 9) != 0b101 || bits(first, 12, 12) == 1 && bits(first, 11, 8) != 0b1110 {
        return None;
    }
    Some(match bits(first, 9, 8) {
        // Two core registers.
        0 if bits(first, 7, 5) == 0b010 => {
            (Flow::Next, if bit(first, 4) { Effect::Writes(1 << rt | 1 << rn) } else { NOTHING })
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
                true => (Flow::Next, Effect::Load { base: rn, writeback, registers: 0 }),
                false => (Flow::Next, Effect::Store { base: rn, offset, bytes, writeback, also: 0 }),
            }
        }
        // A core register, or the flags.
        _ if bits(first, 9, 8) == 2 && bit(second, 4) && bit(first, 4) => {
            (Flow::Next, if rt == PC { NOTHING } else { Effect::Writes(1 << rt) })
        }
        2 => (Flow::Next, NOTHING),
        _ => return None,
    })
}
