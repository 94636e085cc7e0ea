//! Cycles of cores with Armv6-M, from their manuals.

use super::blocks::Single;
use super::decode::{self, PC};
use super::second;
use crate::arch::bits::{bit, bits};
use crate::arch::{About, Arch, CostModel, Decoder, Transfer};
use crate::image::Image;
use crate::unit::Cost;

/// The cores.
pub(in crate::arch) const CORES: &[&dyn CostModel] = &[&CORTEX_M0, &CORTEX_M0_PLUS];

/// A kind of instruction of Armv6-M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Arithmetic, logic, shifts, multiplications and hints.
    Plain,
    /// A load or a store of one register.
    Access,
    /// `ldm`, `stm`, `push` or `pop` of this many registers.
    Accesses(u8),
    /// `pop` of this many registers, of which the program counter is one.
    PopAndReturn(u8),
    Branch,
    /// To a fixed target.
    Jump,
    /// `bl`
    Call,
    /// `bx`, `blx`, and `mov` and `add` to the program counter.
    IndirectJump,
    /// `mrs`, `msr` and barriers.
    System,
}

impl Kind {
    /// The kind of the instruction at the beginning of `code`; `None` if Armv6-M has none there, or one that waits for
    /// an event or interrupt, or raises an exception.
    pub(super) fn of(code: &[u8]) -> Option<Self> {
        let half = u32::from(u16::from_le_bytes(*code.first_chunk()?));
        if half >> 11 >= 0b11101 {
            let second = u32::from(u16::from_le_bytes(*code.get(2..)?.first_chunk()?));
            return Self::of_pair(half, second);
        }
        let registers = bits(half, 7, 0).count_ones() as u8;
        let with_one_more = registers + bits(half, 8, 8) as u8;
        let writes_counter = bits(half, 2, 0) | bits(half, 7, 7) << 3 == u32::from(PC);
        Some(match half >> 11 {
            0b01000 if bit(half, 10) => match bits(half, 9, 8) {
                0 | 2 if writes_counter => Self::IndirectJump,
                0..=2 => Self::Plain,
                _ if bits(half, 2, 0) == 0 => Self::IndirectJump,
                _ => return None,
            },
            0b00000..=0b01000 | 0b10100 | 0b10101 => Self::Plain,
            0b01001..=0b10011 => Self::Access,
            0b10110 | 0b10111 => match bits(half, 11, 8) {
                // `add` and `sub` of the stack pointer; `sxth` and others
                0 | 2 => Self::Plain,
                4 | 5 if with_one_more > 0 => Self::Accesses(with_one_more),
                // `cps`
                6 if matches!(half, 0xb662 | 0xb672) => Self::Plain,
                // `rev`, `rev16`, `revsh`
                10 if bits(half, 7, 6) != 2 => Self::Plain,
                12 if registers > 0 => Self::Accesses(registers),
                13 => Self::PopAndReturn(with_one_more),
                // `nop`, `yield`, `sev`
                15 if matches!(half, 0xbf00 | 0xbf10 | 0xbf40) => Self::Plain,
                _ => return None,
            },
            0b11000 | 0b11001 if registers > 0 => Self::Accesses(registers),
            0b11010 | 0b11011 if bits(half, 11, 8) < 14 => Self::Branch,
            0b11100 => Self::Jump,
            _ => return None,
        })
    }

    fn of_pair(half: u32, second: u32) -> Option<Self> {
        Some(match (half, second) {
            (0xf000..=0xf7ff, second) if second & 0xd000 == 0xd000 => Self::Call,
            (0xf380..=0xf38f, second) if second & 0xff00 == 0x8800 && is_register(second) => Self::System,
            (0xf3ef, second) if second & 0xf000 == 0x8000 && is_register(second) => Self::System,
            (0xf3bf, 0x8f40..=0x8f6f) => Self::System,
            _ => return None,
        })
    }
}

/// Whether Armv6-M has the special register that `mrs` and `msr` name in their second half.
pub(super) fn is_register(second: u32) -> bool {
    matches!(bits(second, 7, 0), 0..=3 | 5..=9 | 16 | 20)
}

/// The cycles of a core's instructions, by kind. Plain ones take one cycle, and loads and stores of N registers 1 + N.
struct Table {
    about: About,
    /// A load or store of one register: the least, and the most.
    access: [i64; 2],
    /// A branch that is taken, a jump to a fixed target or to a register.
    taken: i64,
    call: i64,
    /// In addition to one for each register, the program counter included.
    pop_and_return: i64,
    system: i64,
}

impl CostModel for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn cost(&self, by: Decoder, image: &dyn Image, at: u64, next: Option<u64>, _operand: Option<u32>) -> Option<Cost> {
        // Odd: the last instruction of an if-then block, which Armv6-M lacks.
        if !at.is_multiple_of(2) {
            return None;
        }
        let (kind, Single { length, transfer, .. }) = match by {
            Decoder::First => (Kind::of(image.code(at)?)?, decode::single(image, at)?),
            Decoder::Second => second::kind(image, at)?,
        };
        let after = at + u64::from(length);
        let fixed = |cycles: i64| Some(Cost { least: cycles, most: cycles });
        match (kind, next) {
            (Kind::Branch, Some(next)) => {
                let (passed, taken) = (Cost { least: 1, most: 1 }, Cost { least: self.taken, most: self.taken });
                match (next == after, transfer == Transfer::Branch(next)) {
                    (true, true) => Some(passed.or(taken)),
                    (true, false) => Some(passed),
                    (false, true) => Some(taken),
                    (false, false) => None,
                }
            }
            (Kind::Jump | Kind::IndirectJump, _) => fixed(self.taken),
            (Kind::Call, _) => fixed(self.call),
            (Kind::PopAndReturn(registers), _) => fixed(self.pop_and_return + i64::from(registers)),
            (_, Some(next)) if next == after => match kind {
                Kind::Access => Some(Cost { least: self.access[0], most: self.access[1] }),
                Kind::Accesses(registers) => fixed(1 + i64::from(registers)),
                Kind::System => fixed(self.system),
                _ => fixed(1),
            },
            _ => None,
        }
    }
}

const CORTEX_M0: Table = Table {
    about: About {
        name: "cortex-m0",
        arch: Arch::THUMB,
        conditions: "Cortex-M0 with the single-cycle multiplier, memory without wait states that nothing else \
                     accesses, no interrupts or debug halts",
        source: "Cortex-M0 Technical Reference Manual (ARM DDI 0432C), table 3-1; from the manual, not validated here; \
                 the alignment of code is taken to have no effect, which the manual does not discuss",
    },
    access: [2, 2],
    taken: 3,
    call: 4,
    pop_and_return: 4,
    system: 4,
};

const CORTEX_M0_PLUS: Table = Table {
    about: About {
        name: "cortex-m0+",
        arch: Arch::THUMB,
        conditions: "Cortex-M0+ with the single-cycle multiplier and 32-bit instruction fetches, memory without wait \
                     states that nothing else accesses, no interrupts or debug halts",
        source: "Cortex-M0+ Technical Reference Manual (ARM DDI 0484C), table 3-1; from the manual, not validated \
                 here; the alignment of code is taken to have no effect, which the manual does not discuss",
    },
    access: [1, 2],
    taken: 2,
    call: 3,
    pop_and_return: 3,
    system: 3,
};
