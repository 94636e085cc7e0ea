//! Cycles of cores with RV32. `ci/cycles.sh` compares them with simulations of the cores' own RTL.

use super::second;
use super::work::{Kind, Work};
use crate::arch::{About, Arch, CostModel, Decoder, Transfer};
use crate::image::Image;
use crate::unit::Cost;

/// The cores.
pub(in crate::arch) const CORES: &[&dyn CostModel] =
    &[&PICORV32, &IBEX_SMALL, &IBEX_SMALL_ZB, &IBEX_MAXPERF, &IBEX_MAXPERF_ZB, &SERV];

/// The cycles of a core's instructions, by kind.
struct Table {
    about: About,
    plain: i64,
    compare: i64,
    /// With Zba, Zbb and Zbs: rotations, and the others.
    bits: Option<[i64; 2]>,
    left_shift: i64,
    right_shift: i64,
    /// For each bit of a shift to the right.
    right_shift_bit: i64,
    load: i64,
    store: i64,
    /// `mul`, and `mulh` with its variants.
    multiply: Option<[i64; 2]>,
    /// With M: by zero, and otherwise.
    divide: Option<[i64; 2]>,
    /// Not taken and taken.
    branch: [i64; 2],
    jump: i64,
    indirect_jump: i64,
    /// If the next instruction reads the register that is loaded.
    load_use: i64,
    straddling: Straddling,
}

/// Which instructions take a cycle more because one of four bytes crosses the border of a word.
#[derive(Clone, Copy, PartialEq)]
enum Straddling {
    /// None: all instructions have four bytes.
    Never,
    /// Taken branches and jumps to one.
    Target,
    /// Any instruction before one; and a taken branch, one cycle more, that one follows in memory.
    Next,
}

impl CostModel for Table {
    fn about(&self) -> &About {
        &self.about
    }

    fn cost(&self, by: Decoder, image: &dyn Image, at: u64, next: Option<u64>, operand: Option<u32>) -> Option<Cost> {
        let work = |at| match by {
            Decoder::First => Work::of(image.code(at)?),
            Decoder::Second => second::work(image.code(at)?, at),
        };
        let (this, after) = (work(at)?, at + length(image, at)?);
        // A core without compressed instructions.
        let whole = |at: u64| at.is_multiple_of(4) && length(image, at) == Some(4);
        if self.straddling == Straddling::Never && !(whole(at) && next.is_none_or(whole)) {
            return None;
        }
        // A return may go to any instruction.
        let straddles = |next: Option<u64>| match next {
            Some(next) => Some(fixed(i64::from(next % 4 == 2 && length(image, next)? == 4))),
            None => Some(Cost { least: 0, most: 1 }),
        };
        let going = |taken: bool| {
            let mut cost = self.own(this.kind, taken, operand)?;
            match self.straddling {
                Straddling::Never => {}
                Straddling::Target if taken => cost = cost + straddles(next)?,
                Straddling::Target => {}
                Straddling::Next => {
                    cost = cost + straddles(next)?;
                    if taken && this.kind == Kind::Branch {
                        cost = cost + straddles(Some(after))?;
                    }
                }
            }
            Some(cost)
        };
        let cost = match (this.kind, next) {
            (Kind::Jump | Kind::IndirectJump, _) => going(true)?,
            (Kind::Branch, Some(next)) => {
                let target = match by {
                    Decoder::First => target(image, at)?,
                    Decoder::Second => second::target(image, at)?,
                };
                match (next == after, next == target) {
                    (true, true) => going(true)?.or(going(false)?),
                    (true, false) => going(false)?,
                    (false, true) => going(true)?,
                    (false, false) => return None,
                }
            }
            (_, Some(next)) if next == after => going(false)?,
            _ => return None,
        };
        let waits =
            this.loads != 0 && next.is_some_and(|next| work(next).is_none_or(|next| next.reads >> this.loads & 1 == 1));
        Some(if waits { cost + fixed(self.load_use) } else { cost })
    }
}

impl Table {
    /// The cycles of an instruction, whatever follows.
    fn own(&self, kind: Kind, taken: bool, operand: Option<u32>) -> Option<Cost> {
        Some(match kind {
            Kind::Plain => fixed(self.plain),
            Kind::Compare => fixed(self.compare),
            Kind::Rotate => fixed(self.bits?[0]),
            Kind::Bits => fixed(self.bits?[1]),
            Kind::ShiftLeft(_) => fixed(self.left_shift),
            Kind::ShiftRight(fixed_bits) => {
                let bits = fixed_bits.map(u32::from).or(operand.map(|bits| bits & 31));
                let of = |bits: u32| self.right_shift + self.right_shift_bit * i64::from(bits);
                Cost { least: of(bits.unwrap_or(0)), most: of(bits.unwrap_or(31)) }
            }
            Kind::Load => fixed(self.load),
            Kind::Store => fixed(self.store),
            Kind::Multiply => fixed(self.multiply?[0]),
            Kind::MultiplyHigh => fixed(self.multiply?[1]),
            Kind::Divide => match (self.divide?, operand) {
                ([by_zero, _], Some(0)) => fixed(by_zero),
                ([_, most], Some(_)) => fixed(most),
                ([least, most], None) => Cost { least, most },
            },
            Kind::Branch => fixed(self.branch[usize::from(taken)]),
            Kind::Jump => fixed(self.jump),
            Kind::IndirectJump => fixed(self.indirect_jump),
        })
    }
}

fn fixed(cycles: i64) -> Cost {
    Cost { least: cycles, most: cycles }
}

fn length(image: &dyn Image, at: u64) -> Option<u64> {
    image.code(at)?.first().map(|byte| if byte & 3 == 3 { 4 } else { 2 })
}

fn target(image: &dyn Image, at: u64) -> Option<u64> {
    match Arch::RV32.decode(image, at)?.transfer {
        Transfer::Branch(target) => Some(target),
        _ => None,
    }
}

const PICORV32: Table = Table {
    about: About {
        name: "picorv32",
        arch: Arch::RV32,
        conditions: "PicoRV32, RV32IMC with the barrel shifter, the serial multiplier and otherwise default \
                     parameters, memory that is ready in the cycle of the request, aligned accesses to data, no \
                     interrupts",
        source: "README of PicoRV32, Cycles per Instruction Performance; compressed code: simulation",
    },
    plain: 3,
    compare: 3,
    bits: None,
    left_shift: 3,
    right_shift: 3,
    right_shift_bit: 0,
    load: 5,
    store: 5,
    multiply: Some([40, 72]),
    divide: Some([40, 40]),
    branch: [3, 5],
    jump: 3,
    indirect_jump: 6,
    load_use: 0,
    straddling: Straddling::Next,
};

const IBEX_SMALL: Table = Table {
    about: About {
        name: "ibex-small",
        arch: Arch::RV32,
        conditions: "Ibex, RV32IMC, two stages, fast multiplier, without instruction cache, branch predictor, PMP and \
                     SecureIbex; separate ports for instructions and data, without wait states; aligned accesses to \
                     data, no interrupts",
        source: "Ibex Reference Guide, Pipeline Details; alignment: simulation",
    },
    plain: 1,
    compare: 1,
    bits: None,
    left_shift: 1,
    right_shift: 1,
    right_shift_bit: 0,
    load: 2,
    store: 2,
    multiply: Some([3, 4]),
    divide: Some([2, 37]),
    branch: [1, 3],
    jump: 2,
    indirect_jump: 2,
    load_use: 0,
    straddling: Straddling::Target,
};

const IBEX_SMALL_ZB: Table = Table {
    about: About {
        name: "ibex-small-zb",
        arch: Arch::RV32,
        conditions: "Ibex, RV32IMC with Zba, Zbb and Zbs (RV32BBalanced), two stages, fast multiplier, without \
                     instruction cache, branch predictor, PMP and SecureIbex; separate ports for instructions and \
                     data, without wait states; aligned accesses to data, no interrupts",
        source: IBEX_SMALL.about.source,
    },
    bits: Some([2, 1]),
    ..IBEX_SMALL
};

const IBEX_MAXPERF: Table = Table {
    about: About {
        name: "ibex-maxperf",
        arch: Arch::RV32,
        conditions: "Ibex, RV32IMC, three stages, branch target ALU, single-cycle multiplier, without instruction \
                     cache, branch predictor, PMP and SecureIbex; separate ports for instructions and data, without \
                     wait states; aligned accesses to data, no interrupts",
        source: IBEX_SMALL.about.source,
    },
    load: 1,
    store: 1,
    multiply: Some([1, 2]),
    branch: [1, 2],
    load_use: 1,
    ..IBEX_SMALL
};

const IBEX_MAXPERF_ZB: Table = Table {
    about: About {
        name: "ibex-maxperf-zb",
        arch: Arch::RV32,
        conditions: "Ibex, RV32IMC with Zba, Zbb and Zbs (RV32BBalanced), three stages, branch target ALU, \
                     single-cycle multiplier, without instruction cache, branch predictor, PMP and SecureIbex; \
                     separate ports for instructions and data, without wait states; aligned accesses to data, no \
                     interrupts",
        source: IBEX_SMALL.about.source,
    },
    bits: IBEX_SMALL_ZB.bits,
    ..IBEX_MAXPERF
};

const SERV: Table = Table {
    about: About {
        name: "serv",
        arch: Arch::RV32,
        conditions: "SERV (serv_rf_top), RV32I with default parameters, memory that acknowledges in the cycle after \
                     the request, aligned accesses to data, no interrupts",
        source: "simulation",
    },
    plain: 36,
    compare: 69,
    bits: None,
    left_shift: 69,
    right_shift: 69,
    right_shift_bit: 1,
    load: 70,
    store: 70,
    multiply: None,
    divide: None,
    branch: [69, 69],
    jump: 69,
    indirect_jump: 69,
    load_use: 0,
    straddling: Straddling::Never,
};
