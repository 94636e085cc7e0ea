//! Where code comes from: an ELF file, or this process.
//!
//! An [`Image`] answers what the analysis asks of code: its bytes, what a constant pointer holds, which function and which
//! source line an address belongs to. Addresses of an [`ElfFile`] are the virtual addresses the file gives; those of a
//! [`Process`] are where things are.

mod elf;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
mod no_process;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
mod process;

pub use elf::ElfFile;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
pub use no_process::Process;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64"))]
pub use process::Process;

use serde::{Deserialize, Serialize};
use std::fmt;

/// Executable code with what is known of it.
pub trait Image {
    /// Code from `address` to the end of the executable range it lies in; `None` where there is no code.
    fn code(&self, address: u64) -> Option<&[u8]>;

    /// What the 8 bytes at `address` hold whenever the code runs; `None` where a program may change them, or nothing is
    /// known of them.
    fn pointer(&self, address: u64) -> Option<Pointer>;

    /// The function that covers an address, or, where symbols have no sizes, the nearest one before it.
    fn symbol(&self, address: u64) -> Option<Symbol>;

    /// The functions of this name, one per address, by address. The name is the linker's or the demangled one, the latter
    /// with or without the hash that ends a Rust name. There are several where a generic function has several
    /// instances, or where several source files have a private function of the same name.
    fn find(&self, name: &str) -> Vec<Symbol>;

    /// Source lines of an instruction, innermost inlined function first; empty without debug information.
    fn source(&self, address: u64) -> Vec<Source>;

    /// Where execution goes on in the same function when what a call calls throws an exception or panics; `None` where
    /// that leaves the function, or nothing is known of it.
    fn landing_pad(&self, _call: u64) -> Option<u64> {
        None
    }
}

/// The content of a constant pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// An address of this image.
    Address(u64),
    /// A function that another file defines or may define, or one that is chosen when the program starts (an indirect
    /// function), by its name.
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
    /// Bytes of its code; 0 where the file does not say.
    pub size: u64,
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
    /// Of an instruction's source lines, innermost inlined function first, the one to name: the innermost that is not in
    /// Rust's own library, where everything inlined ends. The innermost if all are.
    #[must_use]
    pub fn named(lines: &[Self]) -> Option<&Self> {
        lines.iter().find(|line| !line.file.starts_with("/rustc/")).or(lines.first())
    }

    /// File and line, of the path no more than the last folder: `src/list.rs:120`.
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

/// What a binary is and who made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name of the file, without its directory.
    pub file: String,
    /// SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// What the compilers and linkers wrote about themselves (section `.comment`).
    pub compilers: Vec<String>,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is not what can be analysed.
    #[error("{path} {reason}")]
    Unsuitable {
        /// The file.
        path: String,
        /// What it is, and what to do about it.
        reason: String,
    },
}
