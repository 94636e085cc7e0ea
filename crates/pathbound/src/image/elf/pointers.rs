//! Which pointers of a file are constant, and what they hold once the dynamic linker is done.
//!
//! A pointer is constant when nothing can write it while the program runs: its segment is read-only, or it is read-only after
//! relocation (RELRO). Slots of the global offset table count as constant wherever they lie (`GLOB_DAT`, `JUMP_SLOT`,
//! `IRELATIVE`): no code but the dynamic linker's writes them, and it only ever writes what the symbol stands for.

use super::super::Pointer;
use super::layout::{Layout, entries};
use super::symbols::Symbols;
use object::LittleEndian as LE;
use object::elf::{self, Dyn64, DynamicTag, Rela64, Relr64, Sym64};
use object::read::ReadRef;
use object::read::elf::RelrIterator;
use std::collections::HashMap;

/// The pointers that the dynamic linker fills in.
#[derive(Debug)]
pub(super) struct Pointers {
    /// By address; `None` where they are not constant or hold no known address.
    relocated: Vec<(u64, Option<Pointer>)>,
}

/// The dynamic section, and what follows from it.
struct Linking<'a> {
    file: &'a [u8],
    layout: &'a Layout,
    tags: HashMap<i64, u64>,
    /// Whether no other file's symbol can take the place of one that this file defines.
    binds_own: bool,
    /// Whether functions are bound before the program runs, rather than at their first call.
    binds_now: bool,
}

impl Pointers {
    /// Reads the relocations.
    pub fn read(file: &[u8], layout: &Layout, symbols: &Symbols) -> Self {
        let linking = Linking::read(file, layout);
        let mut relocated = Vec::new();
        for table in linking.tables() {
            for entry in entries::<Rela64<LE>>(table) {
                relocated.push((entry.r_offset.get(LE), linking.pointer(entry, symbols)));
            }
        }
        for address in linking.packed() {
            let pointer = layout.constant(address).then(|| word(file, layout, address)).flatten();
            relocated.push((address, pointer.map(Pointer::Address)));
        }
        // Where a damaged file relocates an address twice, the last relocation is the one that stays.
        relocated.reverse();
        relocated.sort_by_key(|(address, _)| *address);
        relocated.dedup_by_key(|(address, _)| *address);
        Self { relocated }
    }

    /// What the pointer at an address holds.
    pub fn at(&self, file: &[u8], layout: &Layout, address: u64) -> Option<Pointer> {
        // Relocations before the last byte of the pointer; the last of them may reach into it.
        let end = address.checked_add(8)?;
        let before = self.relocated.partition_point(|(at, _)| *at < end);
        match self.relocated[..before].last() {
            Some((at, pointer)) if *at == address => return pointer.clone(),
            Some((at, _)) if at.saturating_add(8) > address => return None,
            _ => {}
        }
        // Without a relocation the file's content is the pointer's where the program is not moved. What is read-only only
        // after relocation may have been written by the start-up code, but not in the global offset table.
        let (_, segment) = layout.at(file, address)?;
        let offset_table = [b".got".as_slice(), b".got.plt"]
            .iter()
            .any(|name| layout.section(name).is_some_and(|section| section.address.contains(&address)));
        if !layout.fixed || !layout.constant(address) || segment.writable && !offset_table {
            return None;
        }
        word(file, layout, address).filter(|value| layout.loaded(*value)).map(Pointer::Address)
    }
}

impl<'a> Linking<'a> {
    fn read(file: &'a [u8], layout: &'a Layout) -> Self {
        let bytes = layout.dynamic.clone().and_then(|range| file.get(range)).unwrap_or_default();
        let mut tags = HashMap::new();
        for entry in entries::<Dyn64<LE>>(bytes) {
            let tag = entry.d_tag.get(LE);
            if tag == elf::DT_NULL {
                break;
            }
            tags.entry(tag.0).or_insert_with(|| entry.d_val.get(LE));
        }
        let value = |tag: DynamicTag| tags.get(&tag.0).copied();
        let flag = |tag: DynamicTag, bits: u64| value(tag).unwrap_or(0) & bits != 0;
        // A program comes first in the search for symbols, so that its own definitions win. One that is moved says so; one of
        // an older linker asks for a dynamic linker and has no name as a library, which tells it from a library that
        // can also be run.
        let program = layout.fixed
            || flag(elf::DT_FLAGS_1, elf::DF_1_PIE.0)
            || layout.interpreter && value(elf::DT_SONAME).is_none();
        let binds_own = program || value(elf::DT_SYMBOLIC).is_some() || flag(elf::DT_FLAGS, elf::DF_SYMBOLIC.0);
        let binds_now = value(elf::DT_BIND_NOW).is_some()
            || flag(elf::DT_FLAGS, elf::DF_BIND_NOW.0)
            || flag(elf::DT_FLAGS_1, elf::DF_1_NOW.0);
        Self { file, layout, tags, binds_own, binds_now }
    }

    /// The loaded bytes that two tags give the address and the size of.
    fn bytes(&self, address: DynamicTag, size: DynamicTag) -> Option<&'a [u8]> {
        let (bytes, _) = self.layout.at(self.file, *self.tags.get(&address.0)?)?;
        bytes.get(..usize::try_from(*self.tags.get(&size.0)?).ok()?)
    }

    /// The tables of relocations.
    fn tables(&self) -> Vec<&'a [u8]> {
        if self.layout.dynamic.is_some() {
            let pairs = [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ)];
            return pairs.into_iter().filter_map(|(address, size)| self.bytes(address, size)).collect();
        }
        // A program without dynamic linking relocates its indirect functions itself.
        let tables = self.layout.sections.iter().filter(|s| s.kind == elf::SHT_RELA && !s.address.is_empty());
        tables.filter_map(|section| self.file.get(section.bytes.clone())).collect()
    }

    /// The addresses of packed relative relocations.
    fn packed(&self) -> impl Iterator<Item = u64> + use<'a> {
        let table = self.bytes(elf::DT_RELR, elf::DT_RELRSZ).unwrap_or_default();
        RelrIterator::<elf::FileHeader64<LE>>::new(LE, entries::<Relr64<LE>>(table))
    }

    /// What a relocation makes of the pointer it is for.
    fn pointer(&self, entry: &Rela64<LE>, symbols: &Symbols) -> Option<Pointer> {
        let kind = entry.r_type(LE, false);
        let (address, addend) = (entry.r_offset.get(LE), entry.r_addend.get(LE));
        match kind {
            elf::R_X86_64_JUMP_SLOT => match self.symbol(entry.r_sym(LE, false), 0)? {
                // The first call through the slot goes through the dynamic linker, which a bound of the function
                // itself would not contain.
                (name, Pointer::Address(_)) if !self.binds_now => Some(Pointer::External(name)),
                (_, pointer) => Some(pointer),
            },
            elf::R_X86_64_GLOB_DAT => self.symbol(entry.r_sym(LE, false), 0).map(|(_, pointer)| pointer),
            // Which function it is, is decided when the program starts.
            elf::R_X86_64_IRELATIVE => symbols.chosen_at(self.file, addend.cast_unsigned()).map(Pointer::External),
            elf::R_X86_64_RELATIVE if self.layout.constant(address) => Some(Pointer::Address(addend.cast_unsigned())),
            elf::R_X86_64_64 if self.layout.constant(address) => {
                self.symbol(entry.r_sym(LE, false), addend).map(|(_, pointer)| pointer)
            }
            _ => None,
        }
    }

    /// The name of a symbol, and what a pointer to it, so many bytes further on, holds.
    fn symbol(&self, index: u32, addend: i64) -> Option<(String, Pointer)> {
        let table = *self.tags.get(&elf::DT_SYMTAB.0)?;
        let (bytes, _) =
            self.layout.at(self.file, table.checked_add(u64::from(index) * size_of::<Sym64<LE>>() as u64)?)?;
        let symbol = bytes.read_at::<Sym64<LE>>(0).ok()?;
        let names = self.bytes(elf::DT_STRTAB, elf::DT_STRSZ)?;
        let name = names.get(symbol.st_name.get(LE) as usize..)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        let section = symbol.st_shndx.get(LE);
        let own = symbol.st_bind() == elf::STB_LOCAL || symbol.st_visibility() != elf::STV_DEFAULT || self.binds_own;
        if section == elf::SHN_UNDEF || symbol.st_type() == elf::STT_GNU_IFUNC || !own {
            return (!name.is_empty() && addend == 0).then(|| (name.clone(), Pointer::External(name)));
        }
        if section.is_special() && section != elf::SHN_XINDEX || symbol.st_type() == elf::STT_TLS {
            return None;
        }
        Some((name, Pointer::Address(symbol.st_value.get(LE).wrapping_add_signed(addend))))
    }
}

/// The 8 bytes that the file loads at an address.
fn word(file: &[u8], layout: &Layout, address: u64) -> Option<u64> {
    layout.at(file, address)?.0.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
