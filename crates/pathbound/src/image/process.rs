//! The code of this process, as it is in memory.
//!
//! The dynamic linker reports the loaded objects (`dl_iterate_phdr`), the kernel the access rights of memory
//! (`/proc/self/maps`). Bytes come from memory; names and lines come from the objects' files, while these are
//! unchanged.

use super::{ElfFile, Image, ImageError, Pointer, Source, Symbol};
use crate::arch::Arch;
use crate::graph::Examined;
use std::cell::OnceCell;
use std::ffi::{OsStr, c_int, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The code of this process, as it is in memory.
///
/// This is a snapshot of the loaded objects and their access rights. While it is used, none of them may be unloaded
/// (`dlclose`), unmapped or made inaccessible.
#[derive(Debug)]
pub struct Process {
    /// Memory that can be read, by address.
    mappings: Vec<Mapping>,
    /// Loaded objects in the order of the dynamic linker's search: the main program first.
    objects: Vec<Object>,
    examined: Examined,
}

/// Readable memory with one set of access rights.
#[derive(Debug)]
struct Mapping {
    address: Range<u64>,
    /// Whether it can be written, by this process or through another mapping.
    writable: bool,
    executable: bool,
    /// The file it comes from.
    path: Option<PathBuf>,
}

/// A loaded program or library.
#[derive(Debug)]
struct Object {
    /// Added (wrapping) to the file's addresses, it gives those of the process.
    bias: u64,
    /// From its first address to its last, gaps included.
    address: Range<u64>,
    /// Its segments as they were when it was loaded: flags, offset, address, size in the file and in memory.
    segments: Vec<[u64; 5]>,
    /// The file it was loaded from; `None` for objects that the kernel provides.
    path: Option<PathBuf>,
    /// Where that file can be opened, even if it has been deleted.
    handle: PathBuf,
    /// The file, opened at first use; `None` if it is missing or no longer the one that was loaded.
    file: OnceLock<Option<ElfFile>>,
}

impl Process {
    /// Takes a snapshot of what is loaded now.
    ///
    /// # Errors
    ///
    /// [`ImageError::Unreadable`] if `/proc/self/maps` cannot be read; [`ImageError::Unsuitable`] except on 64-bit
    /// x86-64 Linux.
    pub fn current() -> Result<Self, ImageError> {
        const MAPS: &str = "/proc/self/maps";
        let maps = std::fs::read(MAPS).map_err(|source| ImageError::Unreadable { path: MAPS.to_owned(), source })?;
        let mappings: Vec<Mapping> = maps.split(|byte| *byte == b'\n').filter_map(Mapping::read).collect();
        let objects = loaded_objects(&mappings);
        Ok(Self { mappings, objects, examined: Examined::default() })
    }

    /// The process as it was when this thread first asked, for a program that unloads nothing. All users on the thread
    /// share what explorations find, and so do children that it forks. No other thread does, so that a child never
    /// waits for a thread that it does not have.
    ///
    /// # Errors
    ///
    /// As [`current`](Self::current).
    pub fn shared() -> Result<Arc<Self>, ImageError> {
        thread_local! {
            static SHARED: OnceCell<Arc<Process>> = const { OnceCell::new() };
        }
        SHARED.with(|shared| match shared.get() {
            Some(process) => Ok(Arc::clone(process)),
            None => Self::current().map(|process| Arc::clone(shared.get_or_init(|| Arc::new(process)))),
        })
    }

    /// The file that an address comes from, and the address in it.
    #[must_use]
    pub fn in_file(&self, address: u64) -> Option<(&Path, u64)> {
        let object = self.object(address)?;
        Some((object.path.as_deref()?, address.wrapping_sub(object.bias)))
    }

    /// The whole address range of the loaded object (program or library) that contains an address.
    #[must_use]
    pub fn module(&self, address: u64) -> Option<Range<u64>> {
        self.object(address).map(|object| object.address.clone())
    }

    /// The file of the main program, and its load bias, which is added (wrapping) to the file's addresses. `None` if
    /// the file is no longer the one that was loaded.
    #[must_use]
    pub fn executable(&self) -> Option<(&ElfFile, u64)> {
        let program = self.objects.first()?;
        Some((program.file()?, program.bias))
    }

    fn object(&self, address: u64) -> Option<&Object> {
        self.objects.iter().find(|object| object.address.contains(&address))
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.address.end <= address);
        self.mappings.get(after).filter(|mapping| mapping.address.contains(&address))
    }

    /// The end of the memory from an address on, over adjacent mappings, that is not writable and, if asked,
    /// `executable`.
    fn constant_until(&self, address: u64, executable: bool) -> Option<u64> {
        let suits = |mapping: &Mapping| !mapping.writable && (mapping.executable || !executable);
        let mut end = self.mapping(address).filter(|mapping| suits(mapping))?.address.end;
        while let Some(next) = self.mapping(end).filter(|next| next.address.start == end && suits(next)) {
            end = next.address.end;
        }
        Some(end)
    }
}

impl Image for Process {
    fn arch(&self) -> Arch {
        Arch::X86_64
    }

    fn examined(&self) -> Option<&Examined> {
        Some(&self.examined)
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let end = self.constant_until(address, true)?;
        let length = usize::try_from(end - address).ok()?;
        // SAFETY: `/proc/self/maps` listed the range as readable and not writable when `self` was made, and `Process`
        // requires that it stays so while `self` is used. User space is half of all addresses: the length fits `isize`.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, length) })
    }

    fn pointer(&self, address: u64) -> Option<Pointer> {
        // Outside loaded objects, even memory that is not writable may change, such as the kernel's clock.
        self.object(address)?;
        let end = self.constant_until(address, false)?;
        if end - address < 8 {
            return None;
        }
        // SAFETY: the 8 bytes are in memory that `/proc/self/maps` listed as readable and not writable, and `Process`
        // requires that it stays so while `self` is used.
        let value = unsafe { (address as *const u64).read_unaligned() };
        Some(Pointer::Address(value))
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        let object = self.object(address)?;
        object.file()?.symbol(address.wrapping_sub(object.bias)).map(|symbol| object.in_process(symbol))
    }

    /// The functions with this name in the first object that has any: the main program, then the libraries in the order
    /// in which the dynamic linker searches them.
    fn find(&self, name: &str) -> Vec<Symbol> {
        for object in &self.objects {
            let found = object.file().map_or_else(Vec::new, |file| file.find(name));
            if !found.is_empty() {
                return found.into_iter().map(|symbol| object.in_process(symbol)).collect();
            }
        }
        Vec::new()
    }

    fn source(&self, address: u64) -> Vec<Source> {
        let file = self.object(address).and_then(|object| Some((object.file()?, object.bias)));
        file.map_or_else(Vec::new, |(file, bias)| file.source(address.wrapping_sub(bias)))
    }

    fn chosen(&self, address: u64) -> Option<String> {
        let object = self.object(address)?;
        object.file()?.chosen(address.wrapping_sub(object.bias))
    }

    fn landing_pads(&self, instruction: Range<u64>) -> Option<Vec<u64>> {
        let object = self.object(instruction.start)?;
        let in_file = |address: u64| address.wrapping_sub(object.bias);
        let pads = object.file()?.landing_pads(in_file(instruction.start)..in_file(instruction.end))?;
        Some(pads.into_iter().map(|pad| pad.wrapping_add(object.bias)).collect())
    }
}

impl Object {
    /// The file it was loaded from.
    fn file(&self) -> Option<&ElfFile> {
        let open = || {
            let file = ElfFile::open_as(&self.handle, self.path.as_deref()?).ok()?;
            file.segment_headers().eq(self.segments.iter().copied()).then_some(file)
        };
        self.file.get_or_init(open).as_ref()
    }

    /// A symbol of the file, at its address in the process.
    fn in_process(&self, symbol: Symbol) -> Symbol {
        Symbol { address: symbol.address.wrapping_add(self.bias), ..symbol }
    }
}

impl Mapping {
    /// Parses a line of `/proc/self/maps`: `START-END RIGHTS OFFSET DEVICE INODE PATH`.
    fn read(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let (start, end) = std::str::from_utf8(fields.next()?).ok()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let [b'r', write, execute, share] = fields.next()? else { return None };
        // The path follows after blanks. Mappings without a file have a name in brackets, or none.
        let path = fields.nth(3).unwrap_or_default().trim_ascii_start();
        Some(Self {
            address: number(start)?..number(end)?,
            writable: *write == b'w' || *share == b's',
            executable: *execute == b'x',
            path: path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path))),
        })
    }
}

/// The loaded objects, the main program first.
fn loaded_objects(mappings: &[Mapping]) -> Vec<Object> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
        // SAFETY: `info` is valid during the call, by the contract of `dl_iterate_phdr`. `objects` is the pointer that
        // `loaded_objects` passes, to a vector that nothing else accesses during the call.
        let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Object>>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: `dlpi_phdr` points to `dlpi_phnum` program headers, which stay mapped while the object is loaded.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        objects.extend(Object::read(info.dlpi_addr, headers));
        0
    }
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: `add` casts the pointer back to its type, and does not unwind: it reads headers and appends to a vector.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut objects).cast()) };
    for (number, object) in objects.iter_mut().enumerate() {
        let first = mappings.iter().find(|mapping| object.address.contains(&mapping.address.start));
        object.path = first.and_then(|mapping| mapping.path.clone());
        object.handle = match number {
            // This leads to the program's file even if another file has taken its name, as after a build.
            0 => PathBuf::from("/proc/self/exe"),
            _ => object.path.clone().unwrap_or_default(),
        };
    }
    // The kernel appends this suffix to the name of a deleted file.
    if let Some(path) = objects.first_mut().and_then(|program| program.path.as_mut())
        && let Some(name) = path.as_os_str().as_bytes().strip_suffix(b" (deleted)")
    {
        *path = PathBuf::from(OsStr::from_bytes(name));
    }
    objects
}

impl Object {
    /// Reads the headers of a loaded object; `None` if no segment of it is loaded.
    fn read(bias: u64, headers: &[libc::Elf64_Phdr]) -> Option<Self> {
        let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let start = loaded().map(|header| header.p_vaddr).min()?;
        let end = loaded().map(|header| header.p_vaddr.wrapping_add(header.p_memsz)).max()?;
        // Segments are loaded as whole pages.
        const PAGE: u64 = 4096;
        let start = bias.wrapping_add(start) / PAGE * PAGE;
        let end = bias.wrapping_add(end).checked_next_multiple_of(PAGE)?;
        let segments = loaded()
            .map(|header| [u64::from(header.p_flags), header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz])
            .collect();
        let (path, handle) = (None, PathBuf::new());
        Some(Self { bias, address: start..end, segments, path, handle, file: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_with_its_rights_and_its_file() {
        let line = b"7f10-7f30 r-xp 00002000 fe:01 1234                       /lib/a name.so";
        let mapping = Mapping::read(line).expect("a mapping");
        assert_eq!(mapping.address, 0x7f10..0x7f30);
        assert!(mapping.executable && !mapping.writable);
        assert_eq!(mapping.path.as_deref(), Some(Path::new("/lib/a name.so")));
    }

    #[test]
    fn shared_mappings_are_writable_and_mappings_without_a_file_have_no_path() {
        let shared = Mapping::read(b"1000-2000 r--s 00000000 00:01 7   /dev/shm/x").expect("a mapping");
        assert!(shared.writable);
        let stack = Mapping::read(b"1000-2000 rw-p 00000000 00:00 0   [stack]").expect("a mapping");
        assert!(stack.writable && stack.path.is_none());
        let anonymous = Mapping::read(b"1000-2000 r--p 00000000 00:00 0 ").expect("a mapping");
        assert!(!anonymous.writable && anonymous.path.is_none());
    }

    #[test]
    fn unreadable_memory_is_skipped() {
        assert!(Mapping::read(b"1000-2000 ---p 00000000 00:00 0").is_none());
        assert!(Mapping::read(b"1000-2000 --xp 00000000 00:00 0").is_none());
        assert!(Mapping::read(b"").is_none());
    }
}
