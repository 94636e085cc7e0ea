//! Where a process cannot look at itself: elsewhere than on 64-bit x86-64 Linux.

use super::{ElfFile, Image, ImageError, Pointer, Source, Symbol};
use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;

/// The code of this process. There is none on this system: only files can be analysed.
#[derive(Debug)]
pub struct Process(Infallible);

impl Process {
    /// Looks at what is loaded now.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unsuitable`], always, on this system.
    pub fn current() -> Result<Self, ImageError> {
        let reason = "is no 64-bit x86-64 process on Linux; only files can be analysed here".to_owned();
        Err(ImageError::Unsuitable { path: "this process".to_owned(), reason })
    }

    /// The file an address comes from, and the address there.
    #[must_use]
    pub fn in_file(&self, _address: u64) -> Option<(&Path, u64)> {
        match self.0 {}
    }

    /// The whole address range of the loaded object (program or library) that contains an address.
    #[must_use]
    pub fn module(&self, _address: u64) -> Option<Range<u64>> {
        match self.0 {}
    }

    /// The file of the main program, and what is added (wrapping around) to its addresses to get those of this process.
    #[must_use]
    pub fn executable(&self) -> Option<(&ElfFile, u64)> {
        match self.0 {}
    }
}

impl Image for Process {
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
