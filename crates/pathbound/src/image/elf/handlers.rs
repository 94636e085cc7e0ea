//! Where exceptions and panics are caught: the landing pads of calls, from the unwind tables (`.eh_frame`, and the language's
//! table of call sites that it refers to, in the form GCC, Clang and rustc write).

use super::layout::Layout;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, Pointer, Reader as _, UnwindSection};
use std::ops::Range;
use std::sync::OnceLock;

type Reader<'a> = EndianSlice<'a, LittleEndian>;

/// The landing pads of a file.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    /// Of functions with a table of call sites: their addresses, and where the table is. Read when first asked for.
    tables: OnceLock<Vec<(Range<u64>, u64)>>,
}

impl Handlers {
    /// Where execution goes when the callee of a call unwinds; `None` where it leaves the function.
    pub fn at(&self, file: &[u8], layout: &Layout, call: u64) -> Option<u64> {
        let tables = self.tables.get_or_init(|| tables(file, layout).unwrap_or_default());
        let after = tables.partition_point(|(function, _)| function.start <= call);
        let (function, table) = tables[..after].last().filter(|(function, _)| function.contains(&call))?;
        let (bytes, _) = layout.at(file, *table)?;
        landing_pad(Reader::new(bytes, LittleEndian), function.start, call).ok()?
    }
}

/// The functions that have a table of call sites, by address.
fn tables(file: &[u8], layout: &Layout) -> Option<Vec<(Range<u64>, u64)>> {
    let section = layout.section(b".eh_frame")?;
    let mut frames = EhFrame::new(file.get(section.bytes.clone())?, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address.start);
    let mut found = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(function) = partial.parse(EhFrame::cie_from_offset) else { continue };
        let start = function.initial_address();
        let table = match function.lsda() {
            Some(Pointer::Direct(table)) => Some(table),
            Some(Pointer::Indirect(at)) => {
                layout.at(file, at).and_then(|(bytes, _)| Some(u64::from_le_bytes(*bytes.first_chunk()?)))
            }
            None => None,
        };
        found.extend(table.map(|table| (start..start.saturating_add(function.len()), table)));
    }
    found.sort_by_key(|(function, _)| function.start);
    Some(found)
}

/// Looks a call up in a table of call sites.
fn landing_pad(mut table: Reader<'_>, function: u64, call: u64) -> gimli::Result<Option<u64>> {
    const OMITTED: u8 = 0xff;
    let pads = match table.read_u8()? {
        OMITTED => function,
        encoding => number(&mut table, encoding)?,
    };
    if table.read_u8()? != OMITTED {
        table.read_uleb128()?;
    }
    let encoding = table.read_u8()?;
    let bytes = usize::try_from(table.read_uleb128()?).map_err(|_| gimli::Error::UnsupportedOffset)?;
    let mut sites = table.split(bytes)?;
    while !sites.is_empty() {
        let (start, length) = (number(&mut sites, encoding)?, number(&mut sites, encoding)?);
        let pad = number(&mut sites, encoding)?;
        sites.read_uleb128()?;
        if call.wrapping_sub(function).checked_sub(start).is_some_and(|behind| behind < length) {
            return Ok((pad != 0).then_some(pads.wrapping_add(pad)));
        }
    }
    Ok(None)
}

/// A number in one of the encodings that are relative to nothing.
fn number(table: &mut Reader<'_>, encoding: u8) -> gimli::Result<u64> {
    match gimli::DwEhPe(encoding) {
        gimli::DW_EH_PE_absptr | gimli::DW_EH_PE_udata8 => table.read_u64(),
        gimli::DW_EH_PE_uleb128 => table.read_uleb128(),
        gimli::DW_EH_PE_udata2 => table.read_u16().map(u64::from),
        gimli::DW_EH_PE_udata4 => table.read_u32().map(u64::from),
        other => Err(gimli::Error::UnknownPointerEncoding(other)),
    }
}
