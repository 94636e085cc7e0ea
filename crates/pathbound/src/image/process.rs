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
    fn find(&self, _name: &str) -> Option<u64> {
        todo!()
    }
    fn source(&self, _address: u64) -> Vec<Source> {
        todo!()
    }
}
