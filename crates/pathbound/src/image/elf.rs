//! placeholder
use super::{Image, ImageError, Pointer, Provenance, Source, Symbol};
use std::path::Path;

/// An executable or shared library in a file.
#[derive(Debug)]
pub struct ElfFile(());
impl ElfFile {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// [`ImageError`]
    pub fn open(_path: &Path) -> Result<Self, ImageError> {
        todo!()
    }
    /// What file this is.
    #[must_use]
    pub fn provenance(&self) -> &Provenance {
        todo!()
    }
}
impl Image for ElfFile {
    fn code(&self, _address: u64) -> Option<&[u8]> {
        todo!()
    }
    fn pointer(&self, _address: u64) -> Option<Pointer> {
        todo!()
    }
    fn symbol(&self, _address: u64) -> Option<Symbol> {
        todo!()
    }
    fn find(&self, _name: &str) -> Vec<Symbol> {
        todo!()
    }
    fn source(&self, _address: u64) -> Vec<Source> {
        todo!()
    }
}
