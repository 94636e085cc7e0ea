//! Where code comes from: an ELF file, or this process.
//!
//! An [`Image`] provides what the analysis needs: the bytes of code, the contents of constant pointers, and the
//! function and source line of an address. Addresses of an [`ElfFile`] are the file's virtual addresses; those of a
//! [`Process`] are the addresses in memory.

mod elf;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
mod no_process;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod process;

pub use elf::ElfFile;
pub(crate) use elf::without_hash;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
pub use no_process::Process;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
pub use process::Process;

use crate::arch::Arch;
use crate::graph::Examined;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Executable code, and what is known about it.
pub trait Image {
    /// The instruction set of the code.
    fn arch(&self) -> Arch;

    /// Code from `address` to the end of the executable range it lies in; `None` where there is no code.
    fn code(&self, address: u64) -> Option<&[u8]>;

    /// The content of the pointer at `address` whenever the code runs; `None` if the program may change them, or if
    /// their content is unknown.
    fn pointer(&self, address: u64) -> Option<Pointer>;

    /// The word of 4 bytes at `address`, if the program never changes it and nothing relocates it.
    fn constant(&self, _address: u64) -> Option<u32> {
        None
    }

    /// The function that covers an address, or, where symbols have no sizes, the nearest one before it.
    fn symbol(&self, address: u64) -> Option<Symbol>;

    /// The functions with this name, one per address, in order of address. The name is the linker's or the demangled
    /// one, the latter with or without the hash of a Rust name. There are several if a generic function has several
    /// instances, or if several source files have a private function with this name.
    fn find(&self, name: &str) -> Vec<Symbol>;

    /// Source lines of an instruction, innermost inlined function first; empty without debug information.
    fn source(&self, address: u64) -> Vec<Source>;

    /// Whether the code is loaded at the addresses in its file, so that constants in it may be addresses.
    fn fixed(&self) -> bool {
        false
    }

    /// The name of the indirect function (IFUNC) whose resolver, which chooses it at program start, is at an address.
    fn chosen(&self, _address: u64) -> Option<String> {
        None
    }

    /// What explorations of this image, and the checker, found out; `None` if the image keeps nothing. It belongs to
    /// one image, none of whose answers ever changes: an image that changes another's answers must not pass it on.
    fn examined(&self) -> Option<&Examined> {
        None
    }

    /// Where execution may continue in the same function when an exception or a panic is thrown by an instruction,
    /// given by its address range, or by a function it calls. Empty if the exception leaves the function; `None` if
    /// unknown.
    fn landing_pads(&self, _instruction: Range<u64>) -> Option<Vec<u64>> {
        Some(Vec::new())
    }
}

/// The content of a constant pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// An address of this image.
    Address(u64),
    /// The name of a function that another file defines or may define, or of an indirect one, chosen at program start.
    External(String),
}

/// A function's symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Name, demangled.
    pub name: String,
    /// Name as the linker sees it.
    pub linkage_name: String,
    /// Address of its first instruction.
    pub address: u64,
    /// Size of its code in bytes; 0 if the file does not give it.
    pub size: u64,
}

impl Symbol {
    /// Whether this is the rarely executed part of a function, which the compiler split off.
    pub(crate) fn is_cold(&self) -> bool {
        self.linkage_name.contains(".cold")
    }

    /// Whether LLVM's machine outliner made this function of code that several have in common: epilogues, to which they
    /// jump, and parts that they call, which need not follow the calling convention.
    pub(crate) fn is_outlined(&self) -> bool {
        self.linkage_name.starts_with("OUTLINED_FUNCTION_")
    }
}

/// A place in source text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Source {
    /// File, as the compiler recorded it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function, demangled, if known.
    pub function: Option<String>,
}

impl Source {
    /// The source line to report for an instruction, given all its lines, innermost inlined function first: the
    /// innermost line outside Rust's own library, or the innermost if there is none.
    #[must_use]
    pub fn named(lines: &[Self]) -> Option<&Self> {
        lines.iter().find(|line| !line.file.starts_with("/rustc/")).or(lines.first())
    }

    /// File and line, with at most the last folder of the path: `src/list.rs:120`.
    #[must_use]
    pub fn short(&self) -> String {
        let mut components: Vec<&str> = self.file.rsplit('/').take(2).collect();
        components.reverse();
        format!("{}:{}", components.join("/"), self.line)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The identity of a binary, and the tools that built it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the file, without its directory.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// What the compilers and linkers wrote about themselves (section `.comment`).
    pub compilers: Vec<String>,
}

/// Why an image cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not of a kind that can be analysed.
    #[error("{path} {reason}")]
    Unsuitable {
        /// The file.
        path: String,
        /// What it is, and what to do about it.
        reason: String,
    },
}
