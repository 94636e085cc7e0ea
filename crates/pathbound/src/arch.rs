//! What the analysis needs to know about an instruction, independent of the architecture.

pub mod x86_64;

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes from here.
    pub transfer: Transfer,
}

/// Where execution goes from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// To the next instruction.
    Next,
    /// To the next instruction, after an unknown number of repetitions of this one (`rep`).
    Repeat,
    /// To the next instruction, after what the kernel does (`syscall`) or a handler of the signal it sends (`int3`).
    Kernel,
    /// To the target.
    Jump(Target),
    /// To the address or to the next instruction.
    Branch(u64),
    /// To the target and, when that returns, to the next instruction.
    Call(Target),
    /// Back to the caller.
    Return,
    /// Nowhere, unless a handler of the signal that it raises continues after it.
    Trap,
    /// Somewhere that is not followed: far transfers, transactions, enclaves, virtual machines, returns from
    /// interrupts; or a target that depends on the vendor of the processor.
    Elsewhere,
}

/// Where a jump or call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To this address.
    Address(u64),
    /// To the address that the pointer at this address holds.
    Pointer(u64),
    /// To an address in a register, or in memory that registers address.
    Computed,
}
