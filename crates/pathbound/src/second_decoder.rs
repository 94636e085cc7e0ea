//! The second decoder of an instruction set. The checker uses it instead of the one in [`arch`]; a graph
//! marks instructions that the two read differently.

use crate::address::Address;
use crate::arch::{self, Transfer};
use crate::image::{Image, Pointer};

/// Where execution goes from an instruction.
#[derive(Debug, PartialEq)]
pub(crate) enum Flow {
    Next,
    /// To the next instruction, after an unknown number of others (`rep`, the kernel).
    Uncounted,
    Jump(Target),
    Branch(Address),
    Call(Target),
    Return,
    Trap,
    Elsewhere,
}

impl Flow {
    /// What a transfer is in an image.
    pub(crate) fn of(image: &dyn Image, transfer: Transfer) -> Self {
        let target = |target| match target {
            arch::Target::Address(address) => Target::Address(Address(address)),
            arch::Target::Pointer(pointer) => Target::held(image, pointer),
            arch::Target::Computed => Target::Computed,
        };
        match transfer {
            Transfer::Next => Self::Next,
            Transfer::Repeat | Transfer::Kernel => Self::Uncounted,
            Transfer::Jump(to) => Self::Jump(target(to)),
            Transfer::Branch(to) => Self::Branch(Address(to)),
            Transfer::Call(to) => Self::Call(target(to)),
            Transfer::Return => Self::Return,
            Transfer::Trap => Self::Trap,
            Transfer::Elsewhere => Self::Elsewhere,
        }
    }
}

/// The target of a jump or call.
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    Address(Address),
    External(String),
    Computed,
}

impl Target {
    /// The target that a pointer of an image holds.
    pub(crate) fn held(image: &dyn Image, pointer: u64) -> Self {
        match image.pointer(pointer) {
            Some(Pointer::Address(address)) => {
                image.arch().0.code_at(address).map_or(Self::Computed, |address| Self::Address(Address(address)))
            }
            Some(Pointer::External(name)) => Self::External(name),
            None => Self::Computed,
        }
    }
}

/// A second decoder.
pub(crate) trait Second {
    /// The address after an instruction, and where execution goes from it.
    fn decode(&self, image: &dyn Image, at: Address) -> Result<(Address, Flow), String>;
}

/// The error where there is no instruction.
pub(crate) const NO_INSTRUCTION: &str = "there is no valid instruction";

/// The code of an image, with the second decoder.
pub(crate) struct Reader<'a> {
    pub(crate) image: &'a dyn Image,
    decoder: Box<dyn Second>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(image: &'a dyn Image) -> Result<Self, String> {
        Ok(Self { image, decoder: image.arch().0.second_decoder()? })
    }

    /// The address after an instruction, and where execution goes from it.
    pub(crate) fn decode(&self, at: Address) -> Result<(Address, Flow), String> {
        self.decoder.decode(self.image, at)
    }
}
