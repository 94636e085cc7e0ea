//! Programs written as lists of instructions and assembled by hand, without either decoder.

use pathbound::arch::Arch;
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::NeverReturns;
use pathbound::image::{Pointer, Source, Symbol};
use pathbound::{Graph, Image};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first address of programs.
const START: u64 = 0x40_1000;

/// An instruction; targets are positions in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum I {
    Nop,
    /// `jne`
    Jne(usize),
    Jmp(usize),
    Call(usize),
    Ret,
    Ud2,
    /// `jmp` to itself.
    Hang,
    /// `rep movsb`
    Rep,
    /// `syscall`
    Kernel,
    /// `jmp rax`
    JmpRax,
    /// `call rax`
    CallRax,
    /// `ret 8`
    RetPop,
    /// An invalid instruction (`push es`).
    Bad,
}

impl I {
    fn length(self) -> u64 {
        match self {
            Self::Nop | Self::Ret | Self::Bad => 1,
            Self::Ud2 | Self::Hang | Self::Rep | Self::Kernel | Self::JmpRax | Self::CallRax => 2,
            Self::RetPop => 3,
            Self::Jmp(_) | Self::Call(_) => 5,
            Self::Jne(_) => 6,
        }
    }
}

/// A program in memory. Function symbols and source lines are given by position.
#[derive(Clone, Debug)]
pub struct Program {
    pub bytes: Vec<u8>,
    addresses: Vec<u64>,
    symbols: BTreeMap<u64, String>,
    lines: BTreeMap<u64, u32>,
}

impl Program {
    pub fn new(instructions: &[I], functions: &[(usize, &str)]) -> Self {
        let mut addresses = vec![START];
        for instruction in instructions {
            addresses.push(addresses[addresses.len() - 1] + instruction.length());
        }
        let mut bytes = Vec::new();
        for (index, instruction) in instructions.iter().enumerate() {
            let relative = |target: usize| {
                let distance = addresses[target].wrapping_sub(addresses[index + 1]) as u32;
                distance.to_le_bytes()
            };
            match *instruction {
                I::Nop => bytes.push(0x90),
                I::Jne(target) => bytes.extend([&[0x0f, 0x85][..], &relative(target)].concat()),
                I::Jmp(target) => bytes.extend([&[0xe9][..], &relative(target)].concat()),
                I::Call(target) => bytes.extend([&[0xe8][..], &relative(target)].concat()),
                I::Ret => bytes.push(0xc3),
                I::Ud2 => bytes.extend([0x0f, 0x0b]),
                I::Hang => bytes.extend([0xeb, 0xfe]),
                I::Rep => bytes.extend([0xf3, 0xa4]),
                I::Kernel => bytes.extend([0x0f, 0x05]),
                I::JmpRax => bytes.extend([0xff, 0xe0]),
                I::CallRax => bytes.extend([0xff, 0xd0]),
                I::RetPop => bytes.extend([0xc2, 8, 0]),
                I::Bad => bytes.push(0x06),
            }
        }
        let symbols = functions.iter().map(|(index, name)| (addresses[*index], (*name).to_owned())).collect();
        Self { bytes, addresses, symbols, lines: BTreeMap::new() }
    }

    /// Sets the lines in `test.rs` of some instructions.
    pub fn with_lines(mut self, lines: &[(usize, u32)]) -> Self {
        self.lines = lines.iter().map(|(index, line)| (self.at(*index), *line)).collect();
        self
    }

    /// The address of an instruction.
    pub fn at(&self, index: usize) -> u64 {
        self.addresses[index]
    }

    /// The number of instructions.
    pub fn len(&self) -> usize {
        self.addresses.len() - 1
    }

    /// The index of the instruction at an address.
    pub fn index(&self, address: u64) -> usize {
        self.addresses.binary_search(&address).expect("an instruction's address")
    }

    pub fn graph(&self, entry: usize) -> Arc<Graph> {
        Graph::explore(self, &[self.at(entry)], &NeverReturns::default()).expect("there is code")
    }

    /// The fact that an instruction is executed at most `at_most` times per entry into the innermost loop around it.
    pub fn at_most(&self, index: usize, at_most: u64) -> LoopFact {
        LoopFact { place: Place::Address(self.at(index)), at_most }
    }
}

impl Image for Program {
    fn arch(&self) -> Arch {
        Arch::X86_64
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(START)?).ok()?;
        self.bytes.get(offset..).filter(|code| !code.is_empty())
    }

    fn pointer(&self, _address: u64) -> Option<Pointer> {
        None
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        let (start, name) = self.symbols.range(..=address).next_back()?;
        Some(Symbol { name: name.clone(), linkage_name: name.clone(), address: *start, size: 0 })
    }

    fn find(&self, name: &str) -> Vec<Symbol> {
        self.symbols.keys().filter_map(|address| self.symbol(*address)).filter(|symbol| symbol.name == name).collect()
    }

    fn source(&self, address: u64) -> Vec<Source> {
        let line = self.lines.get(&address);
        line.map(|line| Source { file: "src/test.rs".to_owned(), line: *line, function: None }).into_iter().collect()
    }
}
