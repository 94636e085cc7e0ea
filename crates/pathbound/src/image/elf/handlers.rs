//! Landing pads, where exceptions and panics are caught: from the unwind tables and the call-site tables they refer to,
//! in the form that GCC, Clang and rustc write.
//!
//! The unwind tables are those that the unwinder finds (`PT_GNU_EH_FRAME`) and those in sections, found by type and by
//! name. A call-site table that cannot be read makes the landing pads of its code unknown. An unwind entry that cannot
//! be read may concern any code, and makes all landing pads unknown.

use super::layout::{Layout, Section};
use gimli::{
    BaseAddresses, DwEhPe, EhFrame, EhFrameOffset, EndianSlice, FrameDescriptionEntry, LittleEndian, UnwindSection,
};
use object::elf;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// Personality routines that read call sites in this form, and continue only at their landing pads.
pub(super) const PERSONALITIES: &[&str] = &[
    "__gxx_personality_v0",
    "__gcc_personality_v0",
    "__gnat_personality_v0",
    "__gdc_personality_v0",
    "__gccgo_personality_v0",
    "__gnu_objc_personality_v0",
    "rust_eh_personality",
];

/// What the unwind tables refer to in their file.
pub(super) trait References {
    /// Name of the function at an address, or of the one that a pointer there holds once the file is loaded.
    fn name(&self, place: gimli::Pointer) -> Option<String>;

    /// Whether the dynamic linker changes any of these bytes.
    fn relocated(&self, bytes: Range<u64>) -> bool;
}

/// The landing pads of a file.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    /// Read at first use; `None` if they cannot be read.
    tables: OnceLock<Option<Vec<Covered>>>,
}

/// Code that an entry of the unwind tables covers.
#[derive(Debug)]
struct Covered {
    address: Range<u64>,
    /// The highest end address of this and all earlier code.
    reach: u64,
    /// Ranges of instructions with their landing pads; `None` if unknown.
    sites: Option<Vec<(Range<u64>, u64)>>,
}

impl Handlers {
    /// Whether there are no unwind tables.
    pub fn are_missing(&self, file: &[u8], layout: &Layout, references: &dyn References) -> bool {
        self.tables.get_or_init(|| tables(file, layout, references)).as_ref().is_some_and(Vec::is_empty)
    }

    /// The landing pads, in the same function, of an instruction given by its address range; `None` if unknown.
    pub fn at(
        &self,
        file: &[u8],
        layout: &Layout,
        references: &dyn References,
        instruction: Range<u64>,
    ) -> Option<Vec<u64>> {
        let covered = self.tables.get_or_init(|| tables(file, layout, references)).as_ref()?;
        let overlaps = |range: &Range<u64>| range.start < instruction.end && instruction.start < range.end;
        let before = covered.partition_point(|function| function.address.start < instruction.end);
        let mut pads = Vec::new();
        for function in covered[..before].iter().rev().take_while(|function| function.reach > instruction.start) {
            if overlaps(&function.address) {
                let sites = function.sites.as_ref()?.iter();
                pads.extend(sites.filter(|(range, _)| overlaps(range)).map(|(_, pad)| *pad));
            }
        }
        Some(pads)
    }
}

/// All code that unwind tables cover, by address; `None` if any entry cannot be read.
fn tables(file: &[u8], layout: &Layout, references: &dyn References) -> Option<Vec<Covered>> {
    if layout.arch.0.has_handler_index() {
        return index(file, layout);
    }
    let mut found = BTreeMap::new();
    let is_table = |section: &&Section| {
        !section.address.is_empty()
            && (layout.arch.0.unwind_sections() == Some(section.kind) || section.name == b".eh_frame")
    };
    // The header section has the same type, but is not a table.
    for section in layout.sections.iter().filter(is_table).filter(|section| section.name != b".eh_frame_hdr") {
        let (bytes, _) = layout.at(file, section.address.start)?;
        let bytes = bytes.get(..usize::try_from(section.address.end - section.address.start).ok()?)?;
        Table::new(layout, section.address.start, bytes, references).read(true, &mut found)?;
    }
    if let Some(header) = layout.unwind_header {
        let (bytes, _) = layout.at(file, header)?;
        let mut header = Encoded { start: header, bytes, at: 0, pointer_bytes: layout.arch.0.pointer_bytes() };
        let [version, pointer, count, entries] = [(); 4].map(|()| header.byte());
        if version? != 1 {
            return None;
        }
        let start = header.value(pointer?, None)?;
        let (bytes, _) = layout.at(file, start)?;
        let table = Table::new(layout, start, bytes, references);
        table.read(false, &mut found)?;
        // The sorted list in the header may lead to entries after an early end of the table. The unwinder ignores the
        // list in any other encoding.
        const OF_HEADER: u8 = gimli::DW_EH_PE_datarel.0 | gimli::DW_EH_PE_sdata4.0;
        let (count, entries) = (count?, entries?);
        if count != OMITTED && entries == OF_HEADER {
            for _ in 0..header.value(count, None)? {
                header.signed(4)?;
                let entry = header.start.wrapping_add_signed(header.signed(4)?);
                table.entry(usize::try_from(entry.checked_sub(start)?).ok()?, &mut found)?;
            }
        }
    }
    let mut found: Vec<Found> = found.into_values().collect();
    found.sort_by_key(|covered| covered.address.start);
    let mut covered: Vec<Covered> = Vec::new();
    for Found { address, sites } in found {
        let reach = covered.last().map_or(0, |last| last.reach).max(address.end);
        let sites = sites.and_then(|at| match at {
            None => Some(Vec::new()),
            Some(at) => call_sites(file, layout, references, at, address.start),
        });
        covered.push(Covered { address, reach, sites });
    }
    Some(covered)
}

/// The functions of an exception index table (`.ARM.exidx`), by address, as the Exception Handling ABI for the Arm
/// Architecture (section 6) describes it. Handlers of a personality routine are unknown.
fn index(file: &[u8], layout: &Layout) -> Option<Vec<Covered>> {
    let word = |address: u64| layout.at(file, address)?.0.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    // An address relative to its own place, in 31 bits.
    let relative = |place: u64, word: u32| place.wrapping_add_signed(i64::from((word << 1).cast_signed() >> 1));
    let mut covered: Vec<Covered> = Vec::new();
    let sections = layout.sections.iter().filter(|section| section.kind == elf::SHT_ARM_EXIDX);
    let mut tables: Vec<Range<u64>> = sections.map(|section| section.address.clone()).collect();
    tables.extend(layout.handler_index.clone().filter(|_| tables.is_empty()));
    for table in tables {
        let first = covered.len();
        for place in table.step_by(8) {
            let start = relative(place, word(place)?) & 0xffff_fffe;
            let entry = word(place + 4)?;
            let is_compact = |word: u32| word >> 31 == 1;
            let sites = if entry == CANNOT_UNWIND || is_compact(entry) {
                Some(Vec::new())
            } else {
                let table = relative(place + 4, entry) & 0xffff_ffff;
                let first = word(table)?;
                let more = if first >> 24 & 0xf == 0 { 0 } else { u64::from(first >> 16 & 0xff) };
                (is_compact(first) && word(table + 4 * (1 + more)) == Some(0)).then(Vec::new)
            };
            if let Some(last) = covered[first..].last_mut() {
                last.address.end = start;
            }
            // The linker adds an entry at the end of all code.
            if let Some(code) = layout.code(start) {
                covered.push(Covered { address: start..code.end, reach: 0, sites });
            }
        }
    }
    covered.sort_by_key(|function| function.address.start);
    let mut reach = 0;
    for function in &mut covered {
        reach = reach.max(function.address.end);
        function.reach = reach;
    }
    Some(covered)
}

/// The entry of a function through which no exception passes.
const CANNOT_UNWIND: u32 = 1;

/// An entry of an unwind table.
struct Found {
    address: Range<u64>,
    /// Address of the call-site table, if there is one; the outer `None` if the personality routine is unknown.
    sites: Option<Option<u64>>,
}

/// An unwind table (`.eh_frame`).
struct Table<'a> {
    start: u64,
    bytes: &'a [u8],
    frames: EhFrame<Reader<'a>>,
    bases: BaseAddresses,
    references: &'a dyn References,
}

impl<'a> Table<'a> {
    fn new(layout: &Layout, start: u64, bytes: &'a [u8], references: &'a dyn References) -> Self {
        let mut frames = EhFrame::new(bytes, LittleEndian);
        frames.set_address_size(layout.arch.0.pointer_bytes() as u8);
        Self { start, bytes, frames, bases: BaseAddresses::default().set_eh_frame(start), references }
    }

    /// Reads all entries up to the end mark, or, if the size of the table is known (`past_marks`), past such marks.
    fn read(&self, past_marks: bool, found: &mut BTreeMap<u64, Found>) -> Option<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            let bytes = &self.bytes[at..];
            let (field, length) = match u32::from_le_bytes(*bytes.first_chunk()?) {
                0 if past_marks => {
                    at += 4;
                    continue;
                }
                0 => return Some(()),
                u32::MAX => (12, u64::from_le_bytes(*bytes.get(4..)?.first_chunk()?)),
                length => (4, u64::from(length)),
            };
            // Common information entries (CIE) cover no code.
            if u32::from_le_bytes(*bytes.get(field..)?.first_chunk()?) != 0 {
                self.entry(at, found)?;
            }
            at = at.checked_add(field)?.checked_add(usize::try_from(length).ok()?)?;
        }
        (past_marks && at == self.bytes.len()).then_some(())
    }

    /// Reads the entry at an offset.
    fn entry(&self, offset: usize, found: &mut BTreeMap<u64, Found>) -> Option<()> {
        let start = self.start.checked_add(offset as u64)?;
        if found.contains_key(&start) {
            return Some(());
        }
        let at = EhFrameOffset(offset);
        let entry = self.frames.fde_from_offset(&self.bases, at, EhFrame::cie_from_offset).ok()?;
        let length = entry.entry_len() as u64;
        if self.references.relocated(start..start.checked_add(length)?.checked_add(12)?) {
            return None;
        }
        let address = entry.initial_address()..entry.initial_address().checked_add(entry.len())?;
        found.insert(start, Found { address, sites: self.sites(&entry) });
        Some(())
    }

    fn sites(&self, entry: &FrameDescriptionEntry<Reader<'a>>) -> Option<Option<u64>> {
        if let Some(personality) = entry.personality() {
            let name = self.references.name(personality)?;
            let name = name.split('@').next().unwrap_or_default();
            if !PERSONALITIES.contains(&name) {
                return None;
            }
        }
        match entry.lsda() {
            None => Some(None),
            Some(gimli::Pointer::Direct(table)) => Some(Some(table)),
            Some(gimli::Pointer::Indirect(_)) => None,
        }
    }
}

/// Reads a call-site table: ranges of instructions with their landing pads.
fn call_sites(
    file: &[u8],
    layout: &Layout,
    references: &dyn References,
    at: u64,
    function: u64,
) -> Option<Vec<(Range<u64>, u64)>> {
    let (bytes, _) = layout.at(file, at)?;
    let mut table = Encoded { start: at, bytes, at: 0, pointer_bytes: layout.arch.0.pointer_bytes() };
    let pads = match table.byte()? {
        OMITTED => function,
        encoding => table.value(encoding, Some(function))?,
    };
    if table.byte()? != OMITTED {
        table.unsigned_leb()?;
    }
    let encoding = table.byte()?;
    let bytes = usize::try_from(table.unsigned_leb()?).ok()?;
    let end = table.at.checked_add(bytes).filter(|end| *end <= table.bytes.len())?;
    if references.relocated(at..at.checked_add(end as u64)?) {
        return None;
    }
    // The numbers must not be relative to an address.
    if encoding & !FORMAT != 0 {
        return None;
    }
    let mut sites = Vec::new();
    while table.at < end {
        let [start, length, pad] = [(); 3].map(|()| table.value(encoding, None));
        let (start, length, pad) = (function.wrapping_add(start?), length?, pad?);
        table.unsigned_leb()?;
        if pad != 0 {
            sites.push((start..start.checked_add(length)?, pads.wrapping_add(pad)));
        }
    }
    (table.at == end).then_some(sites)
}

/// The encoding of an omitted field.
const OMITTED: u8 = gimli::DW_EH_PE_omit.0;

/// The bits of an encoding that give the format of a number.
const FORMAT: u8 = 0x0f;

/// Bytes at an address, with numbers in the encodings of unwind tables.
struct Encoded<'a> {
    start: u64,
    bytes: &'a [u8],
    at: usize,
    pointer_bytes: u64,
}

impl Encoded<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn unsigned(&mut self, size: usize) -> Option<u64> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, size: usize) -> Option<i64> {
        let unused = 64 - 8 * size;
        Some((self.unsigned(size)? << unused).cast_signed() >> unused)
    }

    fn unsigned_leb(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn signed_leb(&mut self) -> Option<i64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= i64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let unused = 64 - (shift + 7);
                return Some(number << unused >> unused);
            }
        }
        None
    }

    /// Reads a number, or an address relative to its own place or to the function; `None` for anything else.
    fn value(&mut self, encoding: u8, function: Option<u64>) -> Option<u64> {
        if encoding == gimli::DW_EH_PE_aligned.0 {
            let address = self.start.wrapping_add(self.at as u64);
            self.at += usize::try_from(address.checked_next_multiple_of(self.pointer_bytes)? - address).ok()?;
            return self.unsigned(self.pointer_bytes as usize);
        }
        let place = self.start.wrapping_add(self.at as u64);
        let value = match DwEhPe(encoding & FORMAT) {
            gimli::DW_EH_PE_absptr => self.unsigned(self.pointer_bytes as usize)?,
            gimli::DW_EH_PE_udata8 | gimli::DW_EH_PE_sdata8 => self.unsigned(8)?,
            gimli::DW_EH_PE_udata2 => self.unsigned(2)?,
            gimli::DW_EH_PE_udata4 => self.unsigned(4)?,
            gimli::DW_EH_PE_sdata2 => self.signed(2)?.cast_unsigned(),
            gimli::DW_EH_PE_sdata4 => self.signed(4)?.cast_unsigned(),
            gimli::DW_EH_PE_uleb128 => self.unsigned_leb()?,
            gimli::DW_EH_PE_sleb128 => self.signed_leb()?.cast_unsigned(),
            _ => return None,
        };
        match DwEhPe(encoding & !FORMAT) {
            gimli::DW_EH_PE_absptr => Some(value),
            // Zero means no address, whatever the encoding is relative to.
            _ if value == 0 => Some(0),
            gimli::DW_EH_PE_pcrel => Some(value.wrapping_add(place)),
            gimli::DW_EH_PE_funcrel => Some(value.wrapping_add(function?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8], encoding: u8) -> Option<u64> {
        let mut padded = vec![0xaa; 3];
        padded.extend(bytes);
        Encoded { start: 0x1000, bytes: &padded, at: 3, pointer_bytes: 8 }.value(encoding, Some(0x5000))
    }

    #[test]
    fn every_encoding_is_read_or_refused() {
        let cases: &[(u8, &[u8], Option<u64>)] = &[
            (0x00, &[1, 2, 3, 4, 5, 6, 7, 8], Some(0x0807_0605_0403_0201)),
            (0x01, &[0x80, 0x01], Some(128)),
            (0x02, &[0xfe, 0xff], Some(0xfffe)),
            (0x03, &[0xfe, 0xff, 0xff, 0xff], Some(0xffff_fffe)),
            (0x09, &[0x7e], Some(2u64.wrapping_neg())),
            (0x0a, &[0xfe, 0xff], Some(2u64.wrapping_neg())),
            (0x0b, &[0xfe, 0xff, 0xff, 0xff], Some(2u64.wrapping_neg())),
            (0x0c, &[2, 0, 0, 0, 0, 0, 0, 0], Some(2)),
            (0x10, &[2, 0, 0, 0, 0, 0, 0, 0], Some(0x1005)),
            (0x1b, &[0xfe, 0xff, 0xff, 0xff], Some(0x1001)),
            (0x1b, &[0; 4], Some(0)),
            (0x4b, &[2, 0, 0, 0], Some(0x5002)),
            (0x50, &[0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0], Some(9)),
            // Relative to the text, to the data, through a pointer; an undefined format; a truncated number.
            (0x2b, &[2, 0, 0, 0], None),
            (0x3b, &[2, 0, 0, 0], None),
            (0x9b, &[2, 0, 0, 0], None),
            (0x05, &[2, 0, 0, 0], None),
            (0x0b, &[2, 0], None),
        ];
        for (encoding, bytes, expected) in cases {
            assert_eq!(value(bytes, *encoding), *expected, "{encoding:#x} {bytes:02x?}");
        }
    }
}
