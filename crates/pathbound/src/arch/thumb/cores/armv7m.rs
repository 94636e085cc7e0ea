//! Cores with Armv7-M and Armv7E-M.
//!
//! The table of a manual gives ranges where cycles depend on the state of the pipeline: a refill takes 1 to 3 cycles, an
//! access that follows a load may take one less. The section after it (load/store timings) adds a cycle to an access
//! whose address was computed just before, and to one relative to the program counter, which competes with the fetch of
//! instructions. A bound takes the most of each, wherever the instruction stands, and the latter for every word that is
//! loaded, because constants usually lie beside the code. An instruction of four bytes may wait for its second half if that
//! lies in another word (ARM DDI 0337G, section 12.3): one cycle more, wherever it lies.

use super::{Kind, Table, Version};
use crate::arch::bits::{bit, bits};
use crate::arch::{About, Arch};

/// The program counter as a register.
const PC: u32 = 15;

/// The kind of an instruction, by its halves; `None` if Armv7E-M has none there, or one that waits for an event or
/// interrupt, raises an exception, is a hint to a cache, or belongs to a coprocessor or the floating-point unit.
pub(super) fn kind(first: u32, second: Option<u32>) -> Option<Kind> {
    let Some(second) = second else {
        return match first {
            // `cbz` and `cbnz`
            0xb100..=0xbfff if first & 0xf500 == 0xb100 => Some(Kind::Branch),
            0xbf00..=0xbfff if bits(first, 3, 0) != 0 => Some(Kind::IfThen),
            _ => Kind::of_short(first),
        };
    };
    match first >> 9 {
        0b111_0100 if bit(first, 6) => pairs(first, second),
        0b111_0100 => {
            let registers = second.count_ones() as u8;
            let (loads, counter) = (bit(first, 4), bit(second, 15));
            match bits(first, 8, 7) {
                1 | 2 if registers < 2 || bit(second, 13) || counter && !loads => None,
                1 | 2 if counter => Some(Kind::AccessesAndJump(registers)),
                // `pop`
                1 if loads && bits(first, 5, 0) == 0b11_1101 => Some(Kind::Accesses(registers)),
                1 | 2 => Some(if loads { Kind::Loads(registers) } else { Kind::Accesses(registers) }),
                _ => None,
            }
        }
        // With a shifted register; `pkhbt` and `pkhtb`.
        0b111_0101 if bit(second, 15) => None,
        0b111_0101 if bits(first, 8, 5) == 6 => Some(Kind::Signal),
        0b111_0101 => Some(Kind::Plain),
        0b111_1000..=0b111_1011 if bit(second, 15) => branches(first, second),
        // `ssat16` and `usat16`
        0b111_1001 | 0b111_1011 if matches!(first & 0xfbf0, 0xf320 | 0xf3a0) && second & 0x70c0 == 0 => {
            Some(Kind::Signal)
        }
        0b111_1000..=0b111_1011 => Some(Kind::Plain),
        0b111_1100 => one_register(first, second),
        0b111_1101 => arithmetic(first, second),
        _ => None,
    }
}

/// Loads and stores of two registers, exclusive ones, and jumps through tables.
fn pairs(first: u32, second: u32) -> Option<Kind> {
    let (rn, loads) = (bits(first, 3, 0), bit(first, 4));
    if bit(first, 8) || bit(first, 5) {
        return match (rn == PC, loads && !bit(first, 5)) {
            (false, _) => Some(if loads { Kind::Loads(2) } else { Kind::Accesses(2) }),
            (true, true) => Some(Kind::Literal(2)),
            (true, false) => None,
        };
    }
    match (bit(first, 7), bits(second, 7, 4)) {
        // `strex` with the program counter is `tt` of Armv8-M.
        (false, _) if !loads && bits(second, 15, 12) == PC => None,
        (false, _) => Some(if loads { Kind::Load } else { Kind::Store }),
        (true, 0 | 1) if loads => Some(Kind::TableJump),
        // Bytes and halfwords.
        (true, 4 | 5) => Some(if loads { Kind::Load } else { Kind::Store }),
        _ => None,
    }
}

/// Branches and control.
fn branches(first: u32, second: u32) -> Option<Kind> {
    match (bit(second, 14), bit(second, 12)) {
        (true, true) => Some(Kind::Call),
        (true, false) => None,
        (false, true) => Some(Kind::Jump),
        (false, false) if bits(first, 9, 6) < 14 => Some(Kind::Branch),
        (false, false) => match bits(first, 10, 4) {
            0b011_1000 | 0b011_1110 if Version::Armv7M.has_register(second) => Some(Kind::System),
            0b011_1010 if matches!(bits(second, 10, 0), 0 | 1 | 4) => Some(Kind::Hint),
            // `clrex`
            0b011_1011 if bits(second, 7, 4) == 2 => Some(Kind::Plain),
            0b011_1011 if matches!(bits(second, 7, 4), 4..=6) => Some(Kind::Barrier),
            _ => None,
        },
    }
}

/// Loads and stores of one register.
fn one_register(first: u32, second: u32) -> Option<Kind> {
    let (rn, rt) = (bits(first, 3, 0), bits(second, 15, 12));
    match (bit(first, 4), rn, rt, bits(first, 6, 5)) {
        (.., 3) => None,
        (true, _, PC, 2) => Some(Kind::AccessesAndJump(1)),
        // Hints to a cache; of stores, none.
        (_, _, PC, _) => None,
        (true, PC, ..) => Some(Kind::Literal(1)),
        (false, PC, ..) => None,
        (true, ..) => Some(Kind::Load),
        (false, ..) => Some(Kind::Store),
    }
}

/// Shifts, extensions, bits and multiplications.
fn arithmetic(first: u32, second: u32) -> Option<Kind> {
    let (rn, operation) = (bits(first, 3, 0), bits(second, 7, 4));
    Some(match (bits(first, 8, 4), operation) {
        // Shifts by a register; extensions, alone and with an addition or of two halves.
        (0b00000..=0b00111, 0) => Kind::Plain,
        (0b00000 | 0b00001 | 0b00100 | 0b00101, 8..) if rn == PC => Kind::Plain,
        (0b00000..=0b00101, 8..) => Kind::Signal,
        // In parallel.
        (0b01000..=0b01110, 0..=2 | 4..=6) => Kind::Signal,
        (0b01000, 8..=11) | (0b01010, 8) => Kind::Signal,
        // `rev`, `rev16`, `rbit`, `revsh`; `clz`
        (0b01001, 8..=11) | (0b01011, 8) => Kind::Plain,
        (0b10000, 0) if bits(second, 15, 12) == PC => Kind::Plain,
        (0b10000, 0 | 1) => Kind::MultiplyAdd,
        (0b10001, 0..=3) | (0b10010..=0b10110, 0 | 1) | (0b10111, 0) => Kind::Signal,
        (0b11000 | 0b11010, 0) => Kind::LongMultiply,
        (0b11001 | 0b11011, 15) => Kind::Divide,
        (0b11100 | 0b11110, 0) => Kind::LongMultiplyAdd,
        (0b11100, 8..=13) | (0b11101, 12 | 13) | (0b11110, 6) => Kind::Signal,
        _ => return None,
    })
}

/// Cycles of what both cores share.
fn cycles(kind: Kind, transfers: bool) -> Option<[i64; 2]> {
    let registers = |number: u8| i64::from(number);
    Some(match kind {
        Kind::Plain => [1, 1],
        Kind::Hint | Kind::IfThen => [0, 1],
        Kind::Mask | Kind::System => [1, 2],
        Kind::Store => [1, 3],
        // Competition with fetches where a constant is loaded; the address of a literal is not computed before.
        Kind::Load => [1, 4],
        Kind::Literal(number) => [registers(number), 1 + 2 * registers(number)],
        Kind::Accesses(number) => [registers(number), 2 + registers(number)],
        Kind::Loads(number) => [registers(number), 2 + 2 * registers(number)],
        Kind::AccessesAndJump(number) => [1 + registers(number), 5 + 2 * registers(number)],
        Kind::Branch if !transfers => [1, 1],
        Kind::Branch | Kind::Jump | Kind::Call | Kind::IndirectJump => [2, 4],
        // Two for the load, one for the addition, three for the refill, and one each for address and competition.
        Kind::TableJump => [3, 8],
        Kind::Divide => [2, 12],
        // The manuals give no limit for barriers.
        _ => return None,
    })
}

const CONDITIONS: &str = "{memory} that nothing else accesses, code below 0x20000000 and data other than constants above, \
                          no accesses to bit-band aliases, aligned accesses to data, no interrupts or debug halts";

pub(super) const CORTEX_M3: Table = Table {
    about: About {
        name: "cortex-m3",
        arch: Arch::THUMB,
        conditions: CONDITIONS,
        source: "Cortex-M3 Technical Reference Manual (ARM DDI 0337I), sections 3.3.1 and 3.3.2; from the manual, not \
                 validated here",
    },
    version: Version::Armv7M,
    cycles: |kind, transfers| match kind {
        Kind::MultiplyAdd => Some([2, 2]),
        Kind::LongMultiply => Some([3, 5]),
        Kind::LongMultiplyAdd => Some([4, 7]),
        _ => cycles(kind, transfers),
    },
};

pub(super) const CORTEX_M4: Table = Table {
    about: About {
        name: "cortex-m4",
        arch: Arch::THUMB,
        conditions: CONDITIONS,
        source: "Cortex-M4 Technical Reference Manual (ARM 100166), sections 3.3.1 to 3.3.3; from the manual, not \
                 validated here; floating-point instructions are not in the model",
    },
    version: Version::Armv7M,
    cycles: |kind, transfers| match kind {
        Kind::MultiplyAdd | Kind::LongMultiply | Kind::LongMultiplyAdd | Kind::Signal => Some([1, 1]),
        _ => cycles(kind, transfers),
    },
};
