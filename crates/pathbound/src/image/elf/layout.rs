//! The layout of an ELF file, from its headers: which bytes are loaded where, with which rights, and where code ends.
//!
//! Bytes at an address always come from the segments, as for a loader; sections only give the ends of code. The headers
//! are checked once, here, so that all other code can rely on ranges that lie within the file.

use crate::arch::Arch;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader32, FileHeader64, SectionType};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::read::{ReadRef, StringTable};
use std::ops::Range;

/// Bytes of a page, to which access rights apply where there are pages.
const PAGE: u64 = 4096;

/// The contents of the headers.
#[derive(Debug)]
pub(super) struct Layout {
    /// The instruction set.
    pub arch: Arch,
    /// Bytes to which access rights apply: a page, or 1 for a program that is not made for a system with pages.
    pub page: u64,
    /// Whether the program is loaded at the addresses in the file (`ET_EXEC`).
    pub fixed: bool,
    /// Segments in the order of the file.
    pub segments: Vec<Segment>,
    /// Addresses that are read-only once the dynamic linker is done (`PT_GNU_RELRO`).
    pub relro: Vec<Range<u64>>,
    /// The dynamic section's bytes in the file.
    pub dynamic: Option<Range<usize>>,
    /// Where the header of the unwind tables is (`PT_GNU_EH_FRAME`).
    pub unwind_header: Option<u64>,
    /// Where an index of exception handlers is (`PT_ARM_EXIDX`).
    pub handler_index: Option<Range<u64>>,
    /// Sections in the order of the file; empty if they are stripped.
    pub sections: Vec<Section>,
}

/// A part of the file that is loaded (`PT_LOAD`).
#[derive(Debug)]
pub(super) struct Segment {
    /// Addresses of the bytes that come from the file.
    pub address: Range<u64>,
    /// End of the addresses, including zero-initialised memory.
    pub memory_end: u64,
    /// Its bytes in the file, of the same length as `address`.
    pub bytes: Range<usize>,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// The header's flags, offset, address and sizes, which identify a loaded file.
    pub header: [u64; 5],
}

/// A section.
#[derive(Debug)]
pub(super) struct Section {
    /// Its name; empty if unknown.
    pub name: Vec<u8>,
    /// What it holds.
    pub kind: SectionType,
    /// Its addresses; empty if it is not loaded.
    pub address: Range<u64>,
    /// Its bytes in the file; empty if it has none.
    pub bytes: Range<usize>,
    /// Whether it holds code.
    pub executable: bool,
    /// Number of the section it refers to.
    pub link: usize,
    /// Size of its entries; 0 if it has none.
    pub entry: u64,
}

impl Layout {
    /// Reads the headers.
    ///
    /// # Errors
    ///
    /// What the file is instead of a program or shared library for a known instruction set, and what to do about it.
    pub fn read(file: &[u8]) -> Result<Self, String> {
        let arch = recognised(file)?;
        match arch.0.pointer_bytes() {
            4 => Self::of_class::<FileHeader32<LE>>(arch, file),
            _ => Self::of_class::<FileHeader64<LE>>(arch, file),
        }
    }

    fn of_class<E: FileHeader<Endian = LE>>(arch: Arch, file: &[u8]) -> Result<Self, String> {
        let cut = |what: &str| format!("is truncated or damaged: {what} lie outside its {} bytes", file.len());
        let header = E::parse(file).map_err(|_| cut("its headers"))?;
        let programs = header.program_headers(LE, file).map_err(|_| cut("its program headers"))?;
        let mut layout = Self {
            arch,
            page: PAGE,
            fixed: header.e_type(LE) == elf::ET_EXEC,
            segments: Vec::new(),
            relro: Vec::new(),
            dynamic: None,
            unwind_header: None,
            handler_index: None,
            sections: Vec::new(),
        };
        for program in programs {
            layout.add_segment(program, file).ok_or_else(|| cut("its segments"))?;
        }
        if !arch.0.has_pages() && layout.dynamic.is_none() {
            layout.page = 1;
        }
        if layout.segments_collide() {
            return Err(
                "has segments that are loaded over each other, so that its code is ambiguous; link it again".to_owned()
            );
        }
        layout.add_sections(header, file).ok_or_else(|| cut("its sections"))?;
        if !layout.segments.iter().any(|segment| segment.executable && !segment.bytes.is_empty()) {
            return Err("holds no code; give the program or library itself, not its debug information".to_owned());
        }
        Ok(layout)
    }

    fn add_segment(&mut self, program: &impl ProgramHeader<Endian = LE>, file: &[u8]) -> Option<()> {
        let kind = program.p_type(LE);
        let address: u64 = program.p_vaddr(LE).into();
        let memory_end = address.checked_add(program.p_memsz(LE).into())?;
        let bytes = within(file, program.p_offset(LE).into(), program.p_filesz(LE).into());
        if kind == elf::PT_LOAD {
            let bytes = bytes?;
            let flags = program.p_flags(LE);
            let (offset, sizes) =
                (program.p_offset(LE).into(), [program.p_filesz(LE).into(), program.p_memsz(LE).into()]);
            self.segments.push(Segment {
                address: address..address.checked_add(bytes.len() as u64)?,
                memory_end,
                bytes,
                writable: flags.contains(elf::PF_W),
                executable: flags.contains(elf::PF_X),
                header: [u64::from(flags.0), offset, address, sizes[0], sizes[1]],
            });
        } else if kind == elf::PT_GNU_RELRO {
            // The dynamic linker protects whole pages: bytes after the last page boundary stay writable.
            self.relro.push(address..memory_end / PAGE * PAGE);
        } else if kind == elf::PT_DYNAMIC {
            self.dynamic = Some(bytes?);
        } else if kind == elf::PT_GNU_EH_FRAME {
            self.unwind_header = Some(address);
        } else if kind == elf::PT_ARM_EXIDX && self.arch.0.has_handler_index() {
            self.handler_index = Some(address..memory_end);
        }
        Some(())
    }

    /// Whether any page is loaded from two places of the file.
    fn segments_collide(&self) -> bool {
        let shift = |s: &Segment| s.address.start.wrapping_sub(s.bytes.start as u64);
        self.segments.iter().enumerate().any(|(number, one)| {
            self.segments[..number].iter().any(|other| {
                let within = one.address.start < other.memory_end && other.address.start < one.memory_end;
                let (pages, others) = (one.pages(self.page), other.pages(self.page));
                within || shift(one) != shift(other) && pages.start < others.end && others.start < pages.end
            })
        })
    }

    fn add_sections(&mut self, header: &impl FileHeader<Endian = LE>, file: &[u8]) -> Option<()> {
        let sections = header.section_headers(LE, file).ok()?;
        let names = header.section_strings(LE, file, sections).unwrap_or_default();
        for section in sections {
            self.sections.push(Section::read(section, names, file)?);
        }
        Some(())
    }

    /// The bytes loaded from an address on, up to the end of its segment's bytes in the file, and the segment.
    pub fn at<'a>(&self, file: &'a [u8], address: u64) -> Option<(&'a [u8], &Segment)> {
        let segment = self.segments.iter().find(|segment| segment.address.contains(&address))?;
        let skipped = usize::try_from(address - segment.address.start).ok()?;
        Some((file.get(segment.bytes.clone())?.get(skipped..)?, segment))
    }

    /// The addresses of the code section that contains an address, or of the segment if the file has no sections.
    pub fn code(&self, address: u64) -> Option<Range<u64>> {
        if self.sections.is_empty() {
            let mut segments = self.segments.iter();
            return segments.find(|s| s.executable && s.address.contains(&address)).map(|s| s.address.clone());
        }
        self.sections.iter().find(|s| s.executable && s.address.contains(&address)).map(|s| s.address.clone())
    }

    /// Whether the program cannot write the pointer at an address while it runs.
    pub fn constant(&self, address: u64) -> bool {
        let Some(end) = address.checked_add(self.arch.0.pointer_bytes()) else { return false };
        let within = |range: &Range<u64>| range.start <= address && end <= range.end;
        self.relro.iter().any(within)
            || self.segments.iter().any(|s| within(&(s.address.start..s.memory_end)))
                && self.read_only_until(address).is_some_and(|limit| end <= limit)
    }

    /// The start of the first writable page after an address; `None` if the address itself is in a writable page. Of
    /// segments that share a page, the last determines its rights and content.
    pub fn read_only_until(&self, address: u64) -> Option<u64> {
        let writable =
            self.segments.iter().filter(|s| s.writable).map(|s| s.pages(self.page)).filter(|pages| pages.end > address);
        let next = writable.map(|pages| pages.start).min().unwrap_or(u64::MAX);
        (next > address).then_some(next)
    }

    /// Whether an address is loaded.
    pub fn loaded(&self, address: u64) -> bool {
        self.segments.iter().any(|s| (s.address.start..s.memory_end).contains(&address))
    }

    /// The section with a name.
    pub fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }
}

impl Segment {
    /// The pages it is loaded to.
    fn pages(&self, page: u64) -> Range<u64> {
        self.address.start / page * page..self.memory_end.saturating_add(page - 1) / page * page
    }
}

impl Section {
    fn read(section: &impl SectionHeader<Endian = LE>, names: StringTable<'_>, file: &[u8]) -> Option<Self> {
        let (kind, flags, size) = (section.sh_type(LE), section.sh_flags(LE), section.sh_size(LE).into());
        let loaded = flags.contains(elf::SHF_ALLOC);
        let address: u64 = section.sh_addr(LE).into();
        Some(Self {
            name: section.name(LE, names).unwrap_or_default().to_vec(),
            kind,
            address: if loaded { address..address.checked_add(size)? } else { 0..0 },
            bytes: match kind {
                elf::SHT_NOBITS | elf::SHT_NULL => 0..0,
                _ => within(file, section.sh_offset(LE).into(), size)?,
            },
            executable: loaded && flags.contains(elf::SHF_EXECINSTR),
            link: section.sh_link(LE) as usize,
            entry: section.sh_entsize(LE).into(),
        })
    }
}

/// A range of the file; `None` if it lies outside.
fn within(file: &[u8], offset: u64, size: u64) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= file.len()).then_some(start..end)
}

/// The instruction set of a linked ELF file; refuses any other file, and says what it is.
fn recognised(file: &[u8]) -> Result<Arch, String> {
    if file.is_empty() {
        return Err("is empty".to_owned());
    }
    if file.starts_with(b"!<arch>\n") || file.starts_with(b"!<thin>\n") {
        return Err("is an archive of object files; link it first, for instance with \
                    `cc -shared -Wl,--whole-archive`"
            .to_owned());
    }
    if !file.starts_with(&elf::ELFMAG) {
        return Err("is not an ELF file".to_owned());
    }
    // The smaller header, of 32-bit files; the larger one is checked when it is read.
    let Some(header) = file.first_chunk::<52>() else {
        return Err(format!("is truncated: {} bytes are too few for the header of an ELF file", file.len()));
    };
    let big_endian = header[5] == elf::ELFDATA2MSB.0;
    let half = |at: usize| match big_endian {
        true => u16::from_be_bytes([header[at], header[at + 1]]),
        false => u16::from_le_bytes([header[at], header[at + 1]]),
    };
    let (kind, machine) = (half(16), half(18));
    let pointer_bytes = if header[4] == elf::ELFCLASS32.0 { 4 } else { 8 };
    let Some(arch) = Arch::of_file(elf::Machine(machine), pointer_bytes).filter(|_| !big_endian) else {
        let bits = if pointer_bytes == 4 { "32-bit " } else { "" };
        let order = if big_endian { "big-endian " } else { "" };
        let known: Vec<&str> = Arch::ALL.iter().map(|arch| arch.name()).collect();
        return Err(format!(
            "holds {order}{bits}code for {}; only little-endian {} are supported",
            machine_name(machine),
            known.join(", ")
        ));
    };
    match elf::FileType(kind) {
        elf::ET_EXEC | elf::ET_DYN => Ok(arch),
        elf::ET_REL => Err("is an object file, whose addresses are not final; link it first, for instance with \
                            `cc -shared`"
            .to_owned()),
        elf::ET_CORE => Err("is a core dump; give the program that wrote it".to_owned()),
        _ => Err(format!("is neither a program nor a shared library, but an ELF file of type {kind}")),
    }
}

/// The name of a machine number.
fn machine_name(machine: u16) -> String {
    let known = match elf::Machine(machine) {
        elf::EM_X86_64 => "x86-64",
        elf::EM_386 => "x86",
        elf::EM_ARM => "ARM",
        elf::EM_AARCH64 => "AArch64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_MIPS => "MIPS",
        elf::EM_PPC => "PowerPC",
        elf::EM_PPC64 => "64-bit PowerPC",
        elf::EM_S390 => "S/390",
        elf::EM_SPARC => "SPARC",
        elf::EM_SPARCV9 => "64-bit SPARC",
        elf::EM_LOONGARCH => "LoongArch",
        elf::EM_XTENSA => "Xtensa",
        elf::EM_AVR => "AVR",
        _ => return format!("machine number {machine}"),
    };
    known.to_owned()
}

/// Bytes as an array of whole entries; an incomplete last entry is ignored.
pub(super) fn entries<T: object::Pod>(bytes: &[u8]) -> &[T] {
    bytes.read_slice_at(0, bytes.len() / size_of::<T>()).unwrap_or_default()
}
