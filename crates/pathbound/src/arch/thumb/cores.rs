//! Cycles of Cortex-M cores, from their manuals, and what slow memory of code adds to them.
//!
//! # Wait states
//!
//! The tables of the manuals are for memory that answers at once. In memory with `w` wait states, reading a word takes
//! `w` cycles more. If nothing overlaps, these are, for each instruction, at most `w` for
//!
//! - each word that it touches;
//! - each of two words that were requested ahead and are not executed, at a branch, taken or not, every other transfer,
//!   and a barrier;
//! - each word that it loads, because constants usually lie beside the code, and two requests before the first.
//!
//! What is stored, and pushed or popped without a jump, is elsewhere.
//!
//! Caches and buffers between core and memory that are slower than the memory in the worst case are not covered.

mod armv6m;
mod armv7m;

use super::blocks::{self, Single};
use super::{decode, second};
use crate::arch::bits::{bit, bits};
use crate::arch::{About, CostModel, Decoder, Transfer};
use crate::image::Image;
use crate::unit::Cost;

/// The cores.
pub(in crate::arch) const CORES: &[&dyn CostModel] =
    &[&armv6m::CORTEX_M0, &armv6m::CORTEX_M0_PLUS, &armv7m::CORTEX_M3, &armv7m::CORTEX_M4];

/// A kind of instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Arithmetic, logic, shifts and short multiplications.
    Plain,
    /// `nop` and others that do nothing.
    Hint,
    /// `cps`
    Mask,
    /// A load of one register, perhaps from the memory of code.
    Load,
    /// A store of one register.
    Store,
    /// A load of this many words relative to the program counter.
    Literal(u8),
    /// A load of this many registers, perhaps from the memory of code.
    Loads(u8),
    /// A store of this many registers, or a load from the stack.
    Accesses(u8),
    /// A load of this many registers, of which the program counter is one.
    AccessesAndJump(u8),
    Branch,
    /// To a fixed target.
    Jump,
    /// `bl`
    Call,
    /// `bx`, `blx`, and `mov` and `add` to the program counter.
    IndirectJump,
    /// `tbb` and `tbh`
    TableJump,
    /// `mrs` and `msr`
    System,
    /// `dsb`, `dmb` and `isb`
    Barrier,
    /// `it`
    IfThen,
    /// `mla` and `mls`
    MultiplyAdd,
    /// `umull` and `smull`
    LongMultiply,
    /// `umlal` and `smlal`
    LongMultiplyAdd,
    /// `udiv` and `sdiv`
    Divide,
    /// What Armv7E-M adds to Armv7-M.
    Signal,
}

impl Kind {
    /// The kind of an instruction of two bytes that Armv6-M and Armv7-M have; `None` if they have none, or one that waits
    /// for an event or interrupt, or raises an exception.
    fn of_short(half: u32) -> Option<Self> {
        let registers = bits(half, 7, 0).count_ones() as u8;
        let with_one_more = registers + bits(half, 8, 8) as u8;
        let writes_counter = bits(half, 2, 0) | bits(half, 7, 7) << 3 == u32::from(decode::PC);
        Some(match half >> 11 {
            0b01000 if bit(half, 10) => match bits(half, 9, 8) {
                0 | 2 if writes_counter => Self::IndirectJump,
                0..=2 => Self::Plain,
                _ if bits(half, 2, 0) == 0 => Self::IndirectJump,
                _ => return None,
            },
            0b00000..=0b01000 | 0b10100 | 0b10101 => Self::Plain,
            0b01001 => Self::Literal(1),
            0b01010 | 0b01011 if bits(half, 11, 9) < 3 => Self::Store,
            0b01010 | 0b01011 => Self::Load,
            0b01100..=0b10011 => {
                if bit(half, 11) {
                    Self::Load
                } else {
                    Self::Store
                }
            }
            0b10110 | 0b10111 => match bits(half, 11, 8) {
                // `add` and `sub` of the stack pointer; `sxth` and others
                0 | 2 => Self::Plain,
                4 | 5 if with_one_more > 0 => Self::Accesses(with_one_more),
                6 if matches!(half, 0xb662 | 0xb672) => Self::Mask,
                // `rev`, `rev16`, `revsh`
                10 if bits(half, 7, 6) != 2 => Self::Plain,
                12 if registers > 0 => Self::Accesses(registers),
                13 => Self::AccessesAndJump(with_one_more),
                // `nop`, `yield`, `sev`
                15 if matches!(half, 0xbf00 | 0xbf10 | 0xbf40) => Self::Hint,
                _ => return None,
            },
            0b11000 if registers > 0 => Self::Accesses(registers),
            0b11001 if registers > 0 => Self::Loads(registers),
            0b11010 | 0b11011 if bits(half, 11, 8) < 14 => Self::Branch,
            0b11100 => Self::Jump,
            _ => return None,
        })
    }
}

/// The two halves of the instruction at the beginning of `code`; the second is `None` if it has two bytes.
fn halves(code: &[u8]) -> Option<(u32, Option<u32>)> {
    let half = |at: usize| Some(u32::from(u16::from_le_bytes(*code.get(at..)?.first_chunk()?)));
    let first = half(0)?;
    Some((first, if first >> 11 < 0b11101 { None } else { Some(half(2)?) }))
}

/// A version of the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Armv6M,
    Armv7M,
}

impl Version {
    /// The kind of the instruction at the beginning of `code`; `None` if it is not known.
    pub(super) fn kind(self, code: &[u8]) -> Option<Kind> {
        let (first, second) = halves(code)?;
        match self {
            Self::Armv6M => armv6m::kind(first, second),
            Self::Armv7M => armv7m::kind(first, second),
        }
    }

    /// Whether it has the special register that `mrs` and `msr` name in their second half.
    pub(super) fn has_register(self, second: u32) -> bool {
        match bits(second, 7, 0) {
            0..=3 | 5..=9 | 16 | 20 => true,
            // Base priorities and the mask of faults.
            17..=19 => self == Self::Armv7M,
            _ => false,
        }
    }
}

/// An instruction, as one of the decoders reads it.
pub(super) struct Read {
    pub kind: Kind,
    pub single: Single,
    /// Whether it is in an if-then block.
    pub in_block: bool,
}

/// The end of the region from which cores with Armv7-M fetch instructions by a bus of their own.
const END_OF_CODE: u64 = 0x2000_0000;

/// A core.
struct Table {
    about: About,
    version: Version,
    /// The least and most cycles of a kind of instruction, by whether it transfers control; `None` if the core has none,
    /// or if the manual gives no limit.
    cycles: fn(Kind, bool) -> Option<[i64; 2]>,
}

impl Table {
    /// Reads the instruction of a node of the graph.
    fn read(&self, by: Decoder, image: &dyn Image, at: u64) -> Option<Read> {
        let place = at & !1;
        match by {
            Decoder::First => Some(Read {
                kind: self.version.kind(image.code(place)?)?,
                single: decode::single(image, place)?,
                in_block: self.version == Version::Armv7M && blocks::is_conditional(&decode::single, image, place),
            }),
            Decoder::Second => second::read(image, place, self.version),
        }
    }
}

impl CostModel for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn cost(&self, by: Decoder, image: &dyn Image, at: u64, next: Option<u64>, _operand: Option<u32>) -> Option<Cost> {
        let Read { kind, single, in_block } = self.read(by, image, at)?;
        // An odd address is that of an instruction in a block that transfers control.
        if !at.is_multiple_of(2) && !in_block {
            return None;
        }
        let place = at & !1;
        if self.version == Version::Armv7M && place >= END_OF_CODE {
            return None;
        }
        let after = place + u64::from(single.length);
        // An instruction of four bytes may wait for its second half if it lies in two words. It counts wherever it lies,
        // so that a bound holds when code moves.
        let straddles = i64::from(self.version == Version::Armv7M && single.length == 4);
        let cycles =
            |transfers| (self.cycles)(kind, transfers).map(|[least, most]| Cost { least, most: most + straddles });
        let (passed, taken) = (|| cycles(false), || cycles(true));
        // An instruction whose condition fails counts as if it were executed. The next one may be such a node.
        let continues = next.is_some_and(|next| next & !1 == after);
        let cost = match (single.transfer, kind) {
            (Transfer::Branch(target), Kind::Branch) => match (continues, next == Some(target)) {
                (true, true) => passed()?.or(taken()?),
                (true, false) => passed()?,
                (false, true) => taken()?,
                (false, false) => return None,
            },
            (Transfer::Next, _) if continues => passed()?,
            (Transfer::Next, _) => return None,
            _ => taken()?,
        };
        Some(if in_block { cost.or(Cost { least: 1, most: 1 }) } else { cost })
    }

    fn memory(&self, wait_states: u8) -> Option<String> {
        Some(match wait_states {
            0 => "memory without wait states".to_owned(),
            1 => "code and constants in memory with 1 wait state, other data in another without any,".to_owned(),
            number => {
                format!("code and constants in memory with {number} wait states, other data in another without any,")
            }
        })
    }

    fn waits(&self, by: Decoder, image: &dyn Image, at: u64) -> Option<i64> {
        let Read { kind, single, .. } = self.read(by, image, at)?;
        let place = at & !1;
        let touched = (place + u64::from(single.length)).div_ceil(4) - place / 4;
        let requested = if single.transfer == Transfer::Next && kind != Kind::Barrier { 0 } else { 2 };
        let read = match kind {
            Kind::Load | Kind::TableJump => 3,
            Kind::Literal(words) | Kind::Loads(words) | Kind::AccessesAndJump(words) => 2 + i64::from(words),
            _ => 0,
        };
        Some(touched.cast_signed() + requested + read)
    }
}
