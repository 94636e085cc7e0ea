//! Which pointers of a file are constant, and what they hold once the dynamic linker is done.
//!
//! A pointer is constant when nothing can write it while the program runs: its segment is read-only, or it is read-only
//! after relocation (RELRO). Slots of the global offset table count as constant wherever they lie (`GLOB_DAT`,
//! `JUMP_SLOT`, `IRELATIVE`): only the dynamic linker writes them, and it only writes what the symbol resolves to.

use super::super::Pointer;
use super::layout::{Layout, entries};
use super::symbols::Symbols;
use crate::arch::Relocation;
use object::LittleEndian as LE;
use object::elf::{self, DynamicTag, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader, Rela as _, RelrIterator, Sym as _};
use std::collections::HashMap;
use std::ops::Range;

/// The pointers that the dynamic linker fills in.
#[derive(Debug)]
pub(super) struct Pointers {
    /// By address.
    relocated: Vec<Relocated>,
    /// Bytes of a pointer.
    pointer_bytes: u64,
    /// Whether there are relocation tables that are not read.
    incomplete: bool,
    /// Whether relocations may change code.
    in_code: bool,
}

/// A pointer that the dynamic linker fills in.
#[derive(Debug)]
struct Relocated {
    address: u64,
    /// Its content after relocation; `None` if that is not a known address.
    pointer: Option<Pointer>,
    /// Whether the program never changes it.
    constant: bool,
}

/// The dynamic section, and what it implies for the binding of symbols.
struct Linking<'a> {
    file: &'a [u8],
    layout: &'a Layout,
    tags: HashMap<i64, u64>,
    /// Whether no other file can interpose a symbol that this file defines.
    binds_own: bool,
    /// Whether functions are bound before the program runs, rather than at their first call.
    binds_now: bool,
}

impl Pointers {
    /// Reads the relocations.
    pub fn read(file: &[u8], layout: &Layout, symbols: &Symbols) -> Self {
        match layout.arch.0.pointer_bytes() {
            4 => Self::of_class::<FileHeader32<LE>>(file, layout, symbols),
            _ => Self::of_class::<FileHeader64<LE>>(file, layout, symbols),
        }
    }

    fn of_class<E: FileHeader<Endian = LE>>(file: &[u8], layout: &Layout, symbols: &Symbols) -> Self {
        let linking = Linking::read::<E>(file, layout);
        let mut relocated = Vec::new();
        for table in linking.tables() {
            for entry in entries::<E::Rela>(table) {
                relocated.extend(linking.relocated::<E>(entry, symbols));
            }
        }
        for address in linking.packed::<E>() {
            let pointer = word(file, layout, address).map(Pointer::Address);
            relocated.push(Relocated { address, pointer, constant: layout.constant(address) });
        }
        // If a damaged file relocates an address twice, the last relocation wins.
        relocated.reverse();
        relocated.sort_by_key(|one| one.address);
        relocated.dedup_by_key(|one| one.address);
        Self {
            relocated,
            pointer_bytes: layout.arch.0.pointer_bytes(),
            incomplete: linking.incomplete(),
            in_code: linking.in_code(),
        }
    }

    /// The content of the pointer at an address.
    pub fn at(&self, file: &[u8], layout: &Layout, address: u64) -> Option<Pointer> {
        match self.relocation(address)? {
            Some(relocated) => return relocated.pointer.clone().filter(|_| relocated.constant),
            None if self.incomplete => return None,
            None => {}
        }
        // Without a relocation, a pointer of a program at fixed addresses holds the file's content. Start-up code may
        // have written memory that becomes read-only after relocation, but not the global offset table.
        let (_, segment) = layout.at(file, address)?;
        let offset_table = [b".got".as_slice(), b".got.plt"]
            .iter()
            .any(|name| layout.section(name).is_some_and(|section| section.address.contains(&address)));
        if !layout.fixed || !layout.constant(address) || segment.writable && !offset_table {
            return None;
        }
        word(file, layout, address).filter(|value| layout.loaded(*value)).map(Pointer::Address)
    }

    /// The content of the pointer at an address when the program starts; it may change later.
    pub fn initially(&self, file: &[u8], layout: &Layout, address: u64) -> Option<Pointer> {
        match self.relocation(address)? {
            Some(relocated) => relocated.pointer.clone(),
            None if self.incomplete || !layout.fixed => None,
            None => word(file, layout, address).map(Pointer::Address),
        }
    }

    /// The relocation of a pointer, if there is one; the outer `None` if one changes only a part of it.
    fn relocation(&self, address: u64) -> Option<Option<&Relocated>> {
        // Relocations before the last byte of the pointer; the last of them may reach into it.
        let end = address.checked_add(self.pointer_bytes)?;
        let before = self.relocated.partition_point(|one| one.address < end);
        match self.relocated[..before].last() {
            Some(one) if one.address == address => Some(Some(one)),
            Some(one) if one.address.saturating_add(self.pointer_bytes) > address => None,
            _ => Some(None),
        }
    }

    /// Whether a relocation changes any of these bytes.
    pub fn relocated(&self, bytes: Range<u64>) -> bool {
        let before = self.relocated.partition_point(|one| one.address < bytes.end);
        self.relocated[..before].last().is_some_and(|one| one.address.saturating_add(self.pointer_bytes) > bytes.start)
    }

    /// Where the first relocation after an address begins; `None` if one changes the byte at the address.
    pub fn unchanged_until(&self, address: u64) -> Option<u64> {
        let after = self.relocated.partition_point(|one| one.address <= address);
        let here =
            self.relocated[..after].last().is_some_and(|one| one.address.saturating_add(self.pointer_bytes) > address);
        let next = self.relocated.get(after).map_or(u64::MAX, |one| one.address);
        (!(here || self.incomplete && self.in_code)).then_some(next)
    }
}

impl<'a> Linking<'a> {
    fn read<E: FileHeader<Endian = LE>>(file: &'a [u8], layout: &'a Layout) -> Self {
        let bytes = layout.dynamic.clone().and_then(|range| file.get(range)).unwrap_or_default();
        let mut tags = HashMap::new();
        for entry in entries::<E::Dyn>(bytes) {
            let tag = entry.d_tag(LE);
            if tag == elf::DT_NULL {
                break;
            }
            // Of several entries with a tag, the dynamic linker uses the last.
            tags.insert(tag.0, entry.d_val(LE).into());
        }
        let mut linking = Self { file, layout, tags, binds_own: false, binds_now: false };
        // A program comes first in the search for symbols, so that its own definitions win. A position-independent
        // program is marked as such; without the mark, from an older linker, it looks like a library that can be run.
        linking.binds_own = layout.fixed
            || linking.flag(elf::DT_FLAGS_1, elf::DF_1_PIE.0)
            || linking.tags.contains_key(&elf::DT_SYMBOLIC.0)
            || linking.flag(elf::DT_FLAGS, elf::DF_SYMBOLIC.0);
        linking.binds_now = linking.tags.contains_key(&elf::DT_BIND_NOW.0)
            || linking.flag(elf::DT_FLAGS, elf::DF_BIND_NOW.0)
            || linking.flag(elf::DT_FLAGS_1, elf::DF_1_NOW.0);
        linking
    }

    /// Whether the value of a tag has any of these bits.
    fn flag(&self, tag: DynamicTag, bits: u64) -> bool {
        self.tags.get(&tag.0).is_some_and(|number| number & bits != 0)
    }

    /// The loaded bytes whose address and size are given by two tags.
    fn bytes(&self, address: DynamicTag, size: DynamicTag) -> Option<&'a [u8]> {
        let (bytes, _) = self.layout.at(self.file, *self.tags.get(&address.0)?)?;
        bytes.get(..usize::try_from(*self.tags.get(&size.0)?).ok()?)
    }

    /// The relocation tables.
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
    fn packed<E: FileHeader<Endian = LE>>(&self) -> impl Iterator<Item = u64> + use<'a, E> {
        let table = self.bytes(elf::DT_RELR, elf::DT_RELRSZ).unwrap_or_default();
        RelrIterator::<E>::new(LE, entries::<E::Relr>(table)).map(Into::into)
    }

    /// Whether there are relocation tables in a form that is not read, or outside the file.
    fn incomplete(&self) -> bool {
        // `DT_REL`, and the compact forms of LLVM and of Android.
        const OTHERS: [i64; 4] = [17, 0x26, 0x6000_000f, 0x6000_0011];
        let tables =
            [(elf::DT_RELA, elf::DT_RELASZ), (elf::DT_JMPREL, elf::DT_PLTRELSZ), (elf::DT_RELR, elf::DT_RELRSZ)];
        OTHERS.iter().any(|tag| self.tags.contains_key(tag))
            || tables
                .into_iter()
                .any(|(address, size)| self.tags.contains_key(&address.0) && self.bytes(address, size).is_none())
    }

    /// Whether the dynamic linker may write to code.
    fn in_code(&self) -> bool {
        self.tags.contains_key(&elf::DT_TEXTREL.0) || self.flag(elf::DT_FLAGS, elf::DF_TEXTREL.0)
    }

    /// The pointer that a relocation fills in; `None` if it changes nothing.
    fn relocated<E: FileHeader<Endian = LE>>(&self, entry: &E::Rela, symbols: &Symbols) -> Option<Relocated> {
        let kind = self.layout.arch.0.relocation(entry.r_type(LE, false));
        let (address, addend): (u64, i64) = (entry.r_offset(LE).into(), entry.r_addend(LE).into());
        let symbol = |addend| self.symbol::<E>(kind, entry.r_sym(LE, false), addend);
        let mut constant = self.layout.constant(address);
        let pointer = match kind {
            Relocation::Nothing => return None,
            Relocation::JumpSlot => {
                constant = true;
                match symbol(0) {
                    // The first call through the slot goes through the dynamic linker, which a bound of the function
                    // itself would not contain.
                    Some((name, Pointer::Address(_))) if !self.binds_now => Some(Pointer::External(name)),
                    symbol => symbol.map(|(_, pointer)| pointer),
                }
            }
            Relocation::GlobalData => {
                constant = true;
                symbol(0).map(|(_, pointer)| pointer)
            }
            // The resolver chooses the function when the program starts.
            Relocation::Chosen => {
                constant = true;
                symbols.chosen_at(self.file, addend.cast_unsigned()).map(Pointer::External)
            }
            Relocation::Relative => Some(Pointer::Address(addend.cast_unsigned())),
            Relocation::Absolute => symbol(addend).map(|(_, pointer)| pointer),
            Relocation::Unknown => None,
        };
        Some(Relocated { address, pointer, constant })
    }

    /// The name of a symbol, and the content of a pointer to `addend` bytes after it.
    fn symbol<E: FileHeader<Endian = LE>>(
        &self,
        kind: Relocation,
        index: u32,
        addend: i64,
    ) -> Option<(String, Pointer)> {
        let table = *self.tags.get(&elf::DT_SYMTAB.0)?;
        let (bytes, _) =
            self.layout.at(self.file, table.checked_add(u64::from(index) * size_of::<E::Sym>() as u64)?)?;
        let symbol = bytes.read_at::<E::Sym>(0).ok()?;
        let names = self.bytes(elf::DT_STRTAB, elf::DT_STRSZ)?;
        let name = names.get(symbol.st_name(LE) as usize..)?.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(name).into_owned();
        let section = symbol.st_shndx(LE);
        // The address of a protected function may be that of a stub in the program.
        let sees_own = match symbol.st_visibility() {
            elf::STV_DEFAULT => false,
            elf::STV_PROTECTED => kind == Relocation::JumpSlot,
            _ => true,
        };
        let own = symbol.st_bind() == elf::STB_LOCAL || sees_own || self.binds_own;
        if section == elf::SHN_UNDEF || symbol.st_type() == elf::STT_GNU_IFUNC || !own {
            return (!name.is_empty() && addend == 0).then(|| (name.clone(), Pointer::External(name)));
        }
        if section.is_special() && section != elf::SHN_XINDEX || symbol.st_type() == elf::STT_TLS {
            return None;
        }
        Some((name, Pointer::Address(symbol.st_value(LE).into().wrapping_add_signed(addend))))
    }
}

/// The pointer that the file loads at an address.
fn word(file: &[u8], layout: &Layout, address: u64) -> Option<u64> {
    let bytes = layout.at(file, address)?.0.get(..layout.arch.0.pointer_bytes() as usize)?;
    Some(bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}
