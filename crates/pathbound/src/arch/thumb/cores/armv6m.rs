//! Cores with Armv6-M.

use super::{Kind, Table, Version};
use crate::arch::{About, Arch};

/// The kind of an instruction, by its halves; `None` if Armv6-M has none there, or one that waits for an event or
/// interrupt, or raises an exception.
pub(super) fn kind(first: u32, second: Option<u32>) -> Option<Kind> {
    let Some(second) = second else { return Kind::of_short(first) };
    Some(match first {
        0xf000..=0xf7ff if second & 0xd000 == 0xd000 => Kind::Call,
        0xf380..=0xf38f if second & 0xff00 == 0x8800 && Version::Armv6M.has_register(second) => Kind::System,
        0xf3ef if second & 0xf000 == 0x8000 && Version::Armv6M.has_register(second) => Kind::System,
        0xf3bf if matches!(second, 0x8f40..=0x8f6f) => Kind::Barrier,
        _ => return None,
    })
}

/// Where a load or store of one register takes `access` cycles, what is taken `taken` and `bl` `call`.
fn cycles(kind: Kind, transfers: bool, access: [i64; 2], taken: i64, call: i64) -> Option<[i64; 2]> {
    let fixed = |cycles| Some([cycles, cycles]);
    match kind {
        Kind::Plain | Kind::Hint | Kind::Mask => fixed(1),
        Kind::Load | Kind::Store | Kind::Literal(1) => Some(access),
        Kind::Loads(registers) | Kind::Accesses(registers) => fixed(1 + i64::from(registers)),
        Kind::AccessesAndJump(registers) => fixed(call + i64::from(registers)),
        Kind::Branch => fixed(if transfers { taken } else { 1 }),
        Kind::Jump | Kind::IndirectJump => fixed(taken),
        Kind::Call | Kind::System | Kind::Barrier => fixed(call),
        _ => None,
    }
}

pub(super) const CORTEX_M0: Table = Table {
    about: About {
        name: "cortex-m0",
        arch: Arch::THUMB,
        conditions: "Cortex-M0 with the single-cycle multiplier, {memory} that nothing else accesses, no interrupts or \
                     debug halts",
        source: "Cortex-M0 Technical Reference Manual (ARM DDI 0432C), table 3-1; from the manual, not validated here; \
                 the alignment of code is taken to have no effect, which the manual does not discuss",
    },
    version: Version::Armv6M,
    cycles: |kind, transfers| cycles(kind, transfers, [2, 2], 3, 4),
};

pub(super) const CORTEX_M0_PLUS: Table = Table {
    about: About {
        name: "cortex-m0+",
        arch: Arch::THUMB,
        conditions: "Cortex-M0+ with the single-cycle multiplier and 32-bit instruction fetches, {memory} that nothing \
                     else accesses, no interrupts or debug halts",
        source: "Cortex-M0+ Technical Reference Manual (ARM DDI 0484C), table 3-1; from the manual, not validated \
                 here; the alignment of code is taken to have no effect, which the manual does not discuss",
    },
    version: Version::Armv6M,
    cycles: |kind, transfers| cycles(kind, transfers, [1, 2], 2, 3),
};
