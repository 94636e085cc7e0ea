//! placeholder
use super::{Image, ImageError, Pointer, Source, Symbol};

/// The code of this process, as it is in memory.
#[derive(Debug)]
pub struct Process(());
impl Process {
    /// Looks at what is mapped now.
    ///
    /// # Errors
    ///
    /// [`ImageError`]
    pub fn current() -> Result<Self, ImageError> {
        todo!()
    }
    /// The file an address comes from, and the address there.
    #[must_use]
    pub fn in_file(&self, _address: u64) -> Option<(&std::path::Path, u64)> {
        todo!()
    }
    /// The whole address range of the loaded object (program or library) that contains an address.
    #[must_use]
    pub fn module(&self, _address: u64) -> Option<std::ops::Range<u64>> {
        todo!()
    }
    /// The file of the main program, and what is added to its addresses to get those of this process.
    #[must_use]
    pub fn executable(&self) -> Option<(&super::ElfFile, u64)> {
        todo!()
    }
}
impl Image for Process {
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
