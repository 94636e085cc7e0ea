//! What the analysis needs to know about instructions. An instruction set is a folder here and an entry of
//! [`Arch::ALL`]. `graph`, `bound` and `check` name none; `image` does where a process or a part of a file format
//! belongs to one, and the [`counter`](crate::counter) writes x86-64 code.

mod a64;
mod bits;
mod linked;
mod riscv;
#[cfg(test)]
mod tests;
mod thumb;
pub mod x86_64;

use crate::graph::Graph;
use crate::image::Image;
use crate::second_decoder::Second;
use crate::unit::Cost;
use object::elf;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

/// An instruction set.
#[derive(Clone, Copy)]
pub struct Arch(pub(crate) &'static dyn InstructionSet);

impl Arch {
    /// x86-64.
    pub const X86_64: Self = Self(&x86_64::X86_64);
    /// RV32 with the extensions M, A, F, D, C, Zicsr, Zifencei, Zba, Zbb and Zbs.
    pub const RV32: Self = Self(&riscv::RV32);
    /// RV64 with the same extensions.
    pub const RV64: Self = Self(&riscv::RV64);
    /// Thumb, as on Armv6-M, Armv7-M, Armv7E-M and Armv8-M.
    pub const THUMB: Self = Self(&thumb::Thumb);
    /// A64, without SVE and SME.
    pub const A64: Self = Self(&a64::A64);

    /// All instruction sets.
    pub const ALL: [Self; 5] = [Self::X86_64, Self::RV32, Self::RV64, Self::THUMB, Self::A64];

    /// The instruction set of ELF files with a machine number and pointers of so many bytes, little-endian.
    pub(crate) fn of_file(machine: elf::Machine, pointer_bytes: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.0.machine() == machine && arch.0.pointer_bytes() == pointer_bytes)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The function that a pointer leads to: on Thumb, pointers to code are odd.
    #[must_use]
    pub fn function_at(self, pointer: u64) -> u64 {
        self.0.code_at(pointer).unwrap_or(pointer)
    }

    /// Decodes the instruction at an address; `None` where there is none.
    #[must_use]
    pub fn decode(self, image: &dyn Image, address: u64) -> Option<Decoded> {
        self.0.decode(image, address)
    }

    /// The instruction at an address as text; `None` where there is none.
    #[must_use]
    pub fn text(self, image: &dyn Image, address: u64) -> Option<String> {
        self.0.text(image, address)
    }
}

impl PartialEq for Arch {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Arch {}

impl fmt::Debug for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A processor's core whose cycles can be bounded, with the memory that it reads code from.
#[derive(Clone, Copy)]
pub struct Core {
    model: &'static dyn CostModel,
    wait_states: u8,
}

impl Core {
    /// All cores, with memory that answers at once.
    pub fn all() -> impl Iterator<Item = Self> {
        riscv::CORES.iter().chain(thumb::CORES).map(|model| Self { model: *model, wait_states: 0 })
    }

    /// The core with a name, in upper or lower case, or with what [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let named = |name: &str| Self::all().find(|core| core.name().eq_ignore_ascii_case(name));
        named(name).or_else(|| {
            let (name, number) = name.strip_suffix(WAIT_STATES)?.split_once(", ")?;
            named(name)?.with_wait_states(number.parse().ok()?).ok()
        })
    }

    /// The same core with code in memory that takes `number` cycles more for each word than memory that answers at once.
    ///
    /// # Errors
    ///
    /// If the core's model is for memory that answers at once only.
    pub fn with_wait_states(self, number: u8) -> Result<Self, String> {
        if number > 0 && self.model.memory(number).is_none() {
            return Err(format!("the model of {} is for memory without wait states", self.name()));
        }
        Ok(Self { wait_states: number, ..self })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.model.about().name
    }

    /// Its instruction set.
    #[must_use]
    pub fn arch(self) -> Arch {
        self.model.about().arch
    }

    /// What it is, and the configuration and memory for which its cycles hold.
    #[must_use]
    pub fn conditions(self) -> String {
        let memory = self.model.memory(self.wait_states).unwrap_or_default();
        self.model.about().conditions.replace("{memory}", &memory)
    }

    /// Where its cycles come from.
    #[must_use]
    pub fn source(self) -> &'static str {
        self.model.about().source
    }

    /// The cycles of the instruction at an address if `next` is executed after it, or, for `None`, anything outside of
    /// its function; `None` if they are not known. The callee's first instruction follows a call. `operand` is the
    /// value of the second operand, such as a divisor, where it is known.
    #[must_use]
    pub fn cycles(self, image: &dyn Image, at: u64, next: Option<u64>, operand: Option<u32>) -> Option<Cost> {
        self.cycles_by(Decoder::First, image, at, next, operand)
    }

    /// [`cycles`](Self::cycles) by one of the decoders.
    pub(crate) fn cycles_by(
        self,
        by: Decoder,
        image: &dyn Image,
        at: u64,
        next: Option<u64>,
        operand: Option<u32>,
    ) -> Option<Cost> {
        let cost = self.model.cost(by, image, at, next, operand)?;
        let waits = if self.wait_states == 0 { 0 } else { self.model.waits(by, image, at)? };
        Some(Cost { most: cost.most + waits * i64::from(self.wait_states), ..cost })
    }
}

/// The end of the text of a core whose memory has wait states.
const WAIT_STATES: &str = " wait states";

impl PartialEq for Core {
    fn eq(&self, other: &Self) -> bool {
        (self.name(), self.wait_states) == (other.name(), other.wait_states)
    }
}

impl Eq for Core {}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wait_states {
            0 => f.write_str(self.name()),
            number => write!(f, "{}, {number}{WAIT_STATES}", self.name()),
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One of the two decoders.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decoder {
    First,
    Second,
}

/// What is known about a core as a whole.
pub(crate) struct About {
    /// See [`Core::name`].
    pub name: &'static str,
    /// See [`Core::arch`].
    pub arch: Arch,
    /// See [`Core::conditions`]; `{memory}` is replaced with [`CostModel::memory`].
    pub conditions: &'static str,
    /// See [`Core::source`].
    pub source: &'static str,
}

/// How many cycles a core takes. An instruction's cycles may depend on the next one that is executed, and on nothing
/// else of the past or future; operands give a range.
pub(crate) trait CostModel: Sync {
    /// The core.
    fn about(&self) -> &About;

    /// See [`Core::cycles`]; with memory that answers at once.
    fn cost(&self, by: Decoder, image: &dyn Image, at: u64, next: Option<u64>, operand: Option<u32>) -> Option<Cost>;

    /// Memory of code with this many wait states, in words; `None` if the model does not take them.
    fn memory(&self, _wait_states: u8) -> Option<String> {
        None
    }

    /// How many waits for the memory of code an instruction costs at most.
    fn waits(&self, _by: Decoder, _image: &dyn Image, _at: u64) -> Option<i64> {
        None
    }
}

/// What an instruction set provides.
pub(crate) trait InstructionSet: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The machine number of its ELF files.
    fn machine(&self) -> elf::Machine;

    /// Bytes of a pointer.
    fn pointer_bytes(&self) -> u64;

    /// Decodes an instruction.
    fn decode(&self, image: &dyn Image, address: u64) -> Option<Decoded>;

    /// An instruction as text.
    fn text(&self, image: &dyn Image, address: u64) -> Option<String>;

    /// The second decoder. It shares no decoding with the first; on Thumb, both use the same rules for if-then blocks.
    fn second_decoder(&self) -> Result<Box<dyn Second>, String>;

    /// The address that an instruction takes, alone or with those that follow it, if any: other code may jump there.
    fn taken(&self, image: &dyn Image, address: u64) -> Option<u64>;

    /// [`unmatched_returns`](crate::graph::unmatched_returns) with the frames of this instruction set.
    fn unmatched_returns(&self, graph: &Graph, image: &dyn Image) -> (BTreeSet<u64>, BTreeSet<u64>);

    /// What a relocation with this number does.
    fn relocation(&self, kind: elf::RelocationType) -> Relocation;

    /// The pointer through which a stub of the procedure linkage table jumps, given its code and address.
    fn stub_pointer(&self, _code: &[u8], _address: u64) -> Option<u64> {
        None
    }

    /// The character after the dollar sign of symbols that mark where code begins (`$x`), if data among code is marked.
    fn code_mark(&self) -> Option<u8> {
        None
    }

    /// Whether all its programs run on systems with pages, to which access rights apply.
    fn has_pages(&self) -> bool {
        false
    }

    /// Whether files may mix it with code of another instruction set, so that code without marks may be either.
    fn is_mixed(&self) -> bool {
        false
    }

    /// The code that a pointer leads to; `None` if it is of another instruction set.
    fn code_at(&self, pointer: u64) -> Option<u64> {
        Some(pointer)
    }

    /// Whether files have exception handlers in an index of their own (`.ARM.exidx`) instead of `.eh_frame`.
    fn has_handler_index(&self) -> bool {
        false
    }

    /// The type of sections with unwind tables in the form of `.eh_frame`, if they have one of their own.
    fn unwind_sections(&self) -> Option<elf::SectionType> {
        None
    }
}

/// What a relocation of the dynamic linker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relocation {
    /// Nothing.
    Nothing,
    /// It writes the address of a function into the slot of a stub.
    JumpSlot,
    /// It writes the address of a symbol into the global offset table.
    GlobalData,
    /// It writes what the resolver at the addend chooses.
    Chosen,
    /// It writes the addend, relative to where the file is loaded.
    Relative,
    /// It writes the address of a symbol plus the addend.
    Absolute,
    /// Anything else.
    Unknown,
}

/// What is known on a path from a function's entry about the stack pointer and the return address.
///
/// A bound follows calls, so a return must go back to the instruction after its call. Most code does that; a return
/// trampoline or a hand-written stack switch does not, and would make the bound wrong. What a frame cannot see is
/// assumed from the calling convention: a callee preserves the registers that it must, and a store through an ordinary
/// pointer does not hit a return address.
pub(crate) trait Frame: Copy + PartialEq {
    /// What the execution of instructions may reuse.
    type Scratch: Default;

    /// Bytes that a call pushes.
    const PUSHED_BYTES: i64;

    /// Where the memory of callers begins, as an offset from the stack pointer at entry.
    const CALLER: i64;

    /// The frame at the first instruction of a function.
    fn at_entry() -> Self;

    /// What holds on both of two paths to an instruction.
    #[must_use]
    fn join(self, other: Self) -> Self;

    /// Whether the return or tail call at an address goes back to the caller, or lets the callee do so, with the stack
    /// pointer as it was at the entry.
    fn is_level(&self, image: &dyn Image, address: u64) -> bool;

    /// Whether the return address is known to be intact.
    fn keeps_return_address(&self) -> bool;

    /// The stack pointer's offset from its value at entry; `None` if unknown.
    fn stack_pointer(&self) -> Option<i64>;

    /// Where in memory the return address is, as offsets from the stack pointer at entry; empty if it is in none, or
    /// if that is not known.
    fn return_address(&self) -> Range<i64>;

    /// Executes an instruction that does not leave the function; a call is executed together with its callee. Returns
    /// the range of the stack, from the return address of the function or the memory of its caller upwards, that the
    /// instruction is known to write.
    #[must_use]
    fn execute(&mut self, image: &dyn Image, address: u64, scratch: &mut Self::Scratch) -> Option<Range<i64>>;

    /// Forgets the link register, if there is one: a call is about to write it.
    fn forget_link(&mut self) {}

    /// Whether the flow of an instruction that goes elsewhere restores the stack pointer.
    fn restores_stack(_image: &dyn Image, _address: u64) -> bool {
        false
    }
}

/// The smallest range that contains both.
pub(crate) fn hull(one: Option<Range<i64>>, other: Option<Range<i64>>) -> Option<Range<i64>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.start.min(other.start)..one.end.max(other.end)),
        (one, other) => one.or(other),
    }
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes from here.
    pub transfer: Transfer,
    /// The instruction that must be executed just before this one, for the transfer to be right: the first of two that
    /// compute the target together.
    pub after: Option<u64>,
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
