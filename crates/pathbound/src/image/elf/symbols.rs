//! The functions of a file, by address and by name.

use super::super::Symbol;
use super::layout::{Layout, Section, entries};
use addr2line::demangle_auto;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, Sym as _};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

/// The functions of a file.
#[derive(Debug)]
pub(super) struct Symbols {
    /// All names, by address; of the names at one address, the best first.
    named: Vec<Named>,
    /// The best name of each function, by address.
    functions: Vec<Function>,
    /// Where code begins and ends among data, by address: whether code follows. Empty if nothing is marked.
    marks: Vec<(u64, bool)>,
    /// Hashes of linkage and demangled names with their indexes in `named`, sorted. Made at first use.
    by_name: OnceLock<Vec<(u64, u32)>>,
}

/// A name of an address.
#[derive(Clone, Debug)]
struct Named {
    address: u64,
    /// Size of its code in bytes; 0 if the file does not give it.
    size: u64,
    /// The bytes of the name in the file.
    name: Range<usize>,
    /// Whether it is a local label without type or size, as in assembly: usually a place within a function.
    label: bool,
    /// Whether it is local to this file.
    local: bool,
    /// Whether it is an indirect function (IFUNC), so that the address is that of its resolver.
    indirect: bool,
}

/// A function in [`Symbols::functions`].
#[derive(Debug)]
struct Function {
    /// Index of its best name.
    named: usize,
    /// The highest end address of this and all earlier functions.
    reach: u64,
}

impl Symbols {
    /// Reads the symbol table, or the dynamic one if there is no other.
    pub fn read(file: &[u8], layout: &Layout) -> Self {
        let table = |kind| layout.sections.iter().find(|section| section.kind == kind);
        let table = table(elf::SHT_SYMTAB).or_else(|| table(elf::SHT_DYNSYM));
        let read = match layout.arch.0.pointer_bytes() {
            4 => read_table::<FileHeader32<LE>>,
            _ => read_table::<FileHeader64<LE>>,
        };
        let (mut named, mut marks) = table.map_or_else(Default::default, |table| read(file, layout, table));
        // Of marks at one address, the last counts.
        marks.sort_by_key(|(address, _)| *address);
        // Identical functions may be folded into one, so that an address has several names. The choice among them is
        // arbitrary, but must not depend on the order of the table.
        named.sort_by(|a, b| {
            let key = |n: &Named| (n.address, n.label, n.size == 0, n.local, n.name.len());
            key(a).cmp(&key(b)).then_with(|| file[a.name.clone()].cmp(&file[b.name.clone()]))
        });
        let mut functions: Vec<Function> = Vec::new();
        for (index, symbol) in named.iter().enumerate() {
            let last = functions.last();
            if symbol.label || last.is_some_and(|last| named[last.named].address == symbol.address) {
                continue;
            }
            let reach = last.map_or(0, |last| last.reach).max(symbol.address.saturating_add(symbol.size));
            functions.push(Function { named: index, reach });
        }
        Self { named, functions, marks, by_name: OnceLock::new() }
    }

    /// Whether symbols mark where code begins and ends.
    pub fn are_marked(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Where the code that contains an address ends; `None` if there is data.
    pub fn code_until(&self, address: u64) -> Option<u64> {
        let after = self.marks.partition_point(|(mark, _)| *mark <= address);
        let is_code = after.checked_sub(1).is_none_or(|last| self.marks[last].1);
        let end = self.marks[after..].iter().find(|(_, is_code)| !is_code).map_or(u64::MAX, |(end, _)| *end);
        is_code.then_some(end)
    }

    /// The function that covers an address, or the nearest one before it in its section if that has no size.
    pub fn at(&self, file: &[u8], layout: &Layout, address: u64) -> Option<Symbol> {
        let before = self.functions.partition_point(|function| self.named[function.named].address <= address);
        for function in self.functions[..before].iter().rev() {
            let named = &self.named[function.named];
            if address - named.address < named.size {
                return Some(named.symbol(file));
            }
            if function.reach <= address {
                break;
            }
        }
        let section = layout.code(address)?;
        let nearest = self.functions[..before].last().map(|function| &self.named[function.named]);
        if let Some(named) = nearest.filter(|named| named.size == 0 && section.contains(&named.address)) {
            return Some(named.symbol(file));
        }
        // A label, if no function is nearer.
        let labels = self.named.partition_point(|named| named.address <= address);
        let label = self.named[..labels].last().filter(|named| named.label && section.contains(&named.address))?;
        let first = self.named.partition_point(|named| named.address < label.address);
        Some(self.named[first].symbol(file))
    }

    /// The functions with a name, in order of address.
    pub fn find(&self, file: &[u8], name: &str) -> Vec<Symbol> {
        let short = without_hash(name);
        let index = self.by_name.get_or_init(|| self.index(file));
        let mut found: Vec<Symbol> = Vec::new();
        for wanted in [Some(name), short].into_iter().flatten() {
            let hash = hash(wanted);
            let first = index.partition_point(|(other, _)| *other < hash);
            let same = index[first..].iter().take_while(|(other, _)| *other == hash);
            let symbols = same.map(|(_, index)| self.named[*index as usize].symbol(file));
            found.extend(
                symbols.filter(|symbol| symbol.linkage_name == name || symbol.name == name || has_hash(symbol, name)),
            );
        }
        found.sort_by_key(|symbol| symbol.address);
        found.dedup_by_key(|symbol| symbol.address);
        found
    }

    /// The name of the indirect function (IFUNC) whose resolver is at an address.
    pub fn chosen_at(&self, file: &[u8], address: u64) -> Option<String> {
        let first = self.named.partition_point(|named| named.address < address);
        let here = self.named[first..].iter().take_while(|named| named.address == address);
        here.clone().find(|named| named.indirect).map(|named| named.linkage_name(file).into_owned())
    }

    fn index(&self, file: &[u8]) -> Vec<(u64, u32)> {
        let mut index = Vec::with_capacity(self.named.len() * 2);
        for (number, named) in (0..).zip(&self.named) {
            let linkage_name = named.linkage_name(file);
            let name = demangled(&linkage_name);
            index.push((hash(&linkage_name), number));
            index.push((hash(&name), number));
        }
        index.sort_unstable();
        index.dedup();
        index
    }
}

impl Named {
    fn linkage_name<'a>(&self, file: &'a [u8]) -> Cow<'a, str> {
        String::from_utf8_lossy(&file[self.name.clone()])
    }

    fn symbol(&self, file: &[u8]) -> Symbol {
        let linkage_name = self.linkage_name(file);
        let name = demangled(&linkage_name);
        Symbol { name, linkage_name: linkage_name.into_owned(), address: self.address, size: self.size }
    }
}

/// Reads [`ElfFile::versions`](super::ElfFile::versions) from the dynamic symbol table.
pub(super) fn versions(file: &[u8], function: &Symbol) -> Option<Vec<String>> {
    let sections = FileHeader64::<LE>::parse(file).ok()?.sections(LE, file).ok()?;
    let symbols = sections.symbols(LE, file, elf::SHT_DYNSYM).ok()?;
    let versions = sections.versions(LE, file).ok()??;
    let mut found = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let name = symbol.name(LE, symbols.strings());
        if symbol.st_value.get(LE) == function.address && name == Ok(function.linkage_name.as_bytes()) {
            let version = versions.version_index(LE, index);
            if let Ok(Some(named)) = versions.version(version.index()) {
                let mark = if version.is_hidden() { "@" } else { "@@" };
                found.push(format!("{mark}{}", String::from_utf8_lossy(named.name())));
            }
        }
    }
    Some(found)
}

/// The symbols of a table that name code, and the marks of code and data.
fn read_table<E: FileHeader<Endian = LE>>(
    file: &[u8],
    layout: &Layout,
    table: &Section,
) -> (Vec<Named>, Vec<(u64, bool)>) {
    let (mut named, mut marks) = (Vec::new(), Vec::new());
    let Some(names) = layout.sections.get(table.link).map(|section| section.bytes.clone()) else {
        return (named, marks);
    };
    let mark = layout.arch.0.code_mark();
    for symbol in entries::<E::Sym>(&file[table.bytes.clone()]) {
        let (kind, section) = (symbol.st_type(), symbol.st_shndx(LE));
        let code = matches!(kind, elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE);
        let defined = section != elf::SHN_UNDEF && (!section.is_special() || section == elf::SHN_XINDEX);
        let value: u64 = symbol.st_value(LE).into();
        let address = if kind == elf::STT_NOTYPE { Some(value) } else { layout.arch.0.code_at(value) };
        let Some(address) = address.filter(|address| code && defined && layout.code(*address).is_some()) else {
            continue;
        };
        let start = names.start.saturating_add(symbol.st_name(LE) as usize);
        let Some(bytes) = file.get(start..names.end) else { continue };
        // The linker appends the version of a symbol to its name: `name@VERSION`.
        let length = bytes.iter().position(|byte| matches!(byte, 0 | b'@')).unwrap_or(bytes.len());
        if length == 0 {
            continue;
        }
        let local = symbol.st_bind() == elf::STB_LOCAL;
        if let (Some(mark), [b'$', kind, ..]) = (mark, &bytes[..length])
            && local
        {
            marks.push((address, *kind == mark));
            continue;
        }
        let size = symbol.st_size(LE).into();
        named.push(Named {
            address,
            size,
            name: start..start + length,
            label: local && size == 0 && kind == elf::STT_NOTYPE,
            local,
            indirect: kind == elf::STT_GNU_IFUNC,
        });
    }
    (named, marks)
}

/// The demangled name. A name that is not mangled stays as it is: `f` is also how C++ mangles `float`.
fn demangled(linkage_name: &str) -> String {
    let mangled = ["_Z", "__Z", "_R"].iter().any(|prefix| linkage_name.starts_with(prefix));
    if mangled { demangle_auto(Cow::Borrowed(linkage_name), None).into_owned() } else { linkage_name.to_owned() }
}

/// A Rust name without its hash; `None` if it has none.
pub(crate) fn without_hash(name: &str) -> Option<&str> {
    let (short, hash) = name.rsplit_once("::h")?;
    (hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(short)
}

/// Whether a name is a symbol's demangled name followed by the hash of its mangled one.
fn has_hash(symbol: &Symbol, name: &str) -> bool {
    let hash = without_hash(name).filter(|short| *short == symbol.name).map(|short| &name[short.len() + 2..]);
    hash.is_some_and(|hash| symbol.linkage_name.contains(&format!("17{hash}E")))
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
