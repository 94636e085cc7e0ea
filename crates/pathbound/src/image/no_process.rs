//! The stand-in for a process on systems other than 64-bit x86-64 Linux.

use super::{ElfFile, Image, ImageError, Pointer, Source, Symbol};
use crate::arch::Arch;
use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The code of this process. It cannot be made on this system: only files can be analysed.
#[derive(Debug)]
pub struct Process(Infallible);

impl Process {
    /// Takes a snapshot of what is loaded now.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unsuitable`], always, on this system.
    pub fn current() -> Result<Self, ImageError> {
        let reason = "is not a 64-bit x86-64 process on Linux; analyse a file instead".to_owned();
        Err(ImageError::Unsuitable { path: "this process".to_owned(), reason })
    }

    /// The process as it was when this thread first asked.
    ///
    /// # Errors
    ///
    /// As [`current`](Self::current).
    pub fn shared() -> Result<Arc<Self>, ImageError> {
        Self::current().map(|process| match process.0 {})
    }

    /// The file that an address comes from, and the address in it.
    #[must_use]
    pub fn in_file(&self, _address: u64) -> Option<(&Path, u64)> {
        match self.0 {}
    }

    /// The whole address range of the loaded object (program or library) that contains an address.
    #[must_use]
    pub fn module(&self, _address: u64) -> Option<Range<u64>> {
        match self.0 {}
    }

    /// The file of the main program, and its load bias, which is added (wrapping) to the file's addresses.
    #[must_use]
    pub fn executable(&self) -> Option<(&ElfFile, u64)> {
        match self.0 {}
    }
}

impl Image for Process {
    fn arch(&self) -> Arch {
        match self.0 {}
    }

    fn code(&self, _address: u64) -> Option<&[u8]> {
        match self.0 {}
    }

    fn pointer(&self, _address: u64) -> Option<Pointer> {
        match self.0 {}
    }

    fn symbol(&self, _address: u64) -> Option<Symbol> {
        match self.0 {}
    }

    fn find(&self, _name: &str) -> Vec<Symbol> {
        match self.0 {}
    }

    fn source(&self, _address: u64) -> Vec<Source> {
        match self.0 {}
    }
}
