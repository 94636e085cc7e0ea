//! Code from an ELF file: a program or shared library.
//!
//! The file is read once, and everything in it is checked before use. A query that meets damage returns nothing.

mod handlers;
mod layout;
mod lines;
mod pointers;
mod symbols;

use super::{Image, ImageError, Pointer, Provenance, Source, Symbol};
use crate::arch::Arch;
use crate::graph::Examined;
use handlers::{Handlers, References};
use layout::Layout;
use lines::Lines;
use pointers::Pointers;
use sha2::{Digest, Sha256};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use symbols::Symbols;

pub(crate) use symbols::without_hash;

/// An executable or shared library in a file.
pub struct ElfFile {
    path: PathBuf,
    bytes: Vec<u8>,
    layout: Layout,
    symbols: Symbols,
    pointers: OnceLock<Pointers>,
    lines: Lines,
    handlers: Handlers,
    handles_exceptions: OnceLock<bool>,
    provenance: OnceLock<Provenance>,
    examined: Examined,
}

impl ElfFile {
    /// Opens a program or shared library.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unreadable`] if the file cannot be read, [`ImageError::Unsuitable`] if it has no linked code
    /// of an instruction set in [`Arch::ALL`].
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        Self::open_as(path, path)
    }

    /// Opens a file under the name it had when it was loaded.
    pub(super) fn open_as(path: &Path, name: &Path) -> Result<Self, ImageError> {
        let unreadable = |source| ImageError::Unreadable { path: name.display().to_string(), source };
        // Reading a directory, a pipe or a device might not end, or fail with an unhelpful error.
        let metadata = std::fs::metadata(path).map_err(unreadable)?;
        if !metadata.is_file() {
            let what = if metadata.is_dir() { "is a directory" } else { "is not a regular file" };
            return Err(ImageError::Unsuitable {
                path: name.display().to_string(),
                reason: format!("{what}; give a program or shared library"),
            });
        }
        Self::new(name, std::fs::read(path).map_err(unreadable)?)
    }

    /// Makes an image of the content of a file.
    fn new(path: &Path, bytes: Vec<u8>) -> Result<Self, ImageError> {
        let unsuitable = |reason| ImageError::Unsuitable { path: path.display().to_string(), reason };
        let layout = Layout::read(&bytes).map_err(unsuitable)?;
        let symbols = Symbols::read(&bytes, &layout);
        if layout.arch.0.is_mixed() && !symbols.are_marked() {
            return Err(unsuitable(
                "has no mapping symbols ($t, $d), which tell code from data and from code of another instruction set; \
                 give the file with its symbol table, as it is before `strip`"
                    .to_owned(),
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            bytes,
            layout,
            symbols,
            pointers: OnceLock::new(),
            lines: Lines::default(),
            handlers: Handlers::default(),
            handles_exceptions: OnceLock::new(),
            provenance: OnceLock::new(),
            examined: Examined::default(),
        })
    }

    /// The identity of this file.
    #[must_use]
    pub fn provenance(&self) -> &Provenance {
        self.provenance.get_or_init(|| Provenance {
            file: self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            sha256: Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
            compilers: self.compilers(),
        })
    }

    /// The symbol versions of a function, as the linker appends them: `@@` and the default version, `@` and any other.
    #[must_use]
    pub fn versions(&self, function: &Symbol) -> Vec<String> {
        symbols::versions(&self.bytes, function).unwrap_or_default()
    }

    /// The segments' headers: flags, offset, address, size in the file and in memory.
    pub(super) fn segment_headers(&self) -> impl Iterator<Item = [u64; 5]> {
        self.layout.segments.iter().map(|segment| segment.header)
    }

    fn pointers(&self) -> &Pointers {
        self.pointers.get_or_init(|| Pointers::read(&self.bytes, &self.layout, &self.symbols))
    }

    /// Whether a personality routine is in the file.
    fn handles_exceptions(&self) -> bool {
        *self.handles_exceptions.get_or_init(|| handlers::PERSONALITIES.iter().any(|name| !self.find(name).is_empty()))
    }

    fn compilers(&self) -> Vec<String> {
        let Some(section) = self.layout.section(b".comment") else { return Vec::new() };
        let mut compilers: Vec<String> = Vec::new();
        for text in self.bytes[section.bytes.clone()].split(|byte| *byte == 0) {
            let text = String::from_utf8_lossy(text).trim().to_owned();
            if !text.is_empty() && !compilers.contains(&text) {
                compilers.push(text);
            }
        }
        compilers
    }

    /// Names a stub of the procedure linkage table after the function it jumps to.
    fn stub(&self, address: u64) -> Option<Symbol> {
        let tables = [b".plt".as_slice(), b".plt.sec", b".plt.got"];
        let mut sections = tables.iter().filter_map(|name| self.layout.section(name));
        let section = sections.find(|section| section.address.contains(&address))?;
        let size = if section.entry == 8 { 8 } else { 16 };
        let start = address - (address - section.address.start) % size;
        let code = self.code(start)?;
        let code = &code[..code.len().min(size as usize)];
        let name = match self.pointer(self.layout.arch.0.stub_pointer(code, start)?)? {
            Pointer::External(name) => name,
            Pointer::Address(function) => self.symbols.at(&self.bytes, &self.layout, function)?.linkage_name,
        };
        let name = format!("{name}@plt");
        Some(Symbol { name: name.clone(), linkage_name: name, address: start, size })
    }
}

/// Names the file and its segments, and omits its bytes.
impl fmt::Debug for ElfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments: Vec<_> = self.segment_headers().collect();
        f.debug_struct("ElfFile").field("path", &self.path).field("segments", &segments).finish_non_exhaustive()
    }
}

impl Image for ElfFile {
    fn arch(&self) -> Arch {
        self.layout.arch
    }

    fn examined(&self) -> Option<&Examined> {
        Some(&self.examined)
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let section = self.layout.code(address)?;
        let (bytes, segment) = self.layout.at(&self.bytes, address)?;
        // Bytes that the dynamic linker or the program may write are unknown.
        let known = self.layout.read_only_until(address)?.min(self.pointers().unchanged_until(address)?);
        let end = section.end.min(known).min(self.symbols.code_until(address)?);
        let length = usize::try_from(end - address).unwrap_or(usize::MAX).min(bytes.len());
        segment.executable.then(|| &bytes[..length])
    }

    fn pointer(&self, address: u64) -> Option<Pointer> {
        self.pointers().at(&self.bytes, &self.layout, address)
    }

    fn constant(&self, address: u64) -> Option<u32> {
        let end = address.checked_add(4)?;
        let unchanged = self.layout.read_only_until(address)?.min(self.pointers().unchanged_until(address)?);
        let (bytes, _) = self.layout.at(&self.bytes, address)?;
        bytes.first_chunk().filter(|_| end <= unchanged).map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.symbols.at(&self.bytes, &self.layout, address).or_else(|| self.stub(address))
    }

    fn find(&self, name: &str) -> Vec<Symbol> {
        self.symbols.find(&self.bytes, name)
    }

    fn source(&self, address: u64) -> Vec<Source> {
        self.lines.at(&self.bytes, address)
    }

    fn fixed(&self) -> bool {
        self.layout.fixed
    }

    fn chosen(&self, address: u64) -> Option<String> {
        self.symbols.chosen_at(&self.bytes, address)
    }

    fn landing_pads(&self, instruction: Range<u64>) -> Option<Vec<u64>> {
        // A linker script may hide the tables in another section.
        if self.handlers.are_missing(&self.bytes, &self.layout, self) && self.handles_exceptions() {
            return None;
        }
        self.handlers.at(&self.bytes, &self.layout, self, instruction)
    }
}

impl References for ElfFile {
    fn name(&self, place: gimli::Pointer) -> Option<String> {
        let function = match place {
            gimli::Pointer::Direct(function) => function,
            gimli::Pointer::Indirect(at) => match self.pointers().initially(&self.bytes, &self.layout, at)? {
                Pointer::External(name) => return Some(name),
                Pointer::Address(function) => function,
            },
        };
        self.symbol(function).filter(|symbol| symbol.address == function).map(|symbol| symbol.linkage_name)
    }

    fn relocated(&self, bytes: Range<u64>) -> bool {
        self.pointers().relocated(bytes)
    }
}
