//! Source lines of addresses, from the debug information.
//!
//! The sections are copied at first use from the bytes that were analysed, so that later changes of the file have no
//! effect. Debug information in other files (`.dwo`, `.dwp`) is not read: lines are then known, but not inlined
//! functions.

use super::super::Source;
use addr2line::{Context, Frame, LookupContinuation, LookupResult};
use gimli::{Dwarf, EndianArcSlice, LittleEndian};
use object::{Object, ObjectSection};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Reader = EndianArcSlice<LittleEndian>;

/// The debug information of a file.
#[derive(Default)]
pub(super) struct Lines {
    /// `None` if there is none that can be read. It reads further data on demand, so it is behind a lock.
    context: OnceLock<Option<Mutex<Context<Reader>>>>,
}

impl Lines {
    /// The lines of an address, innermost inlined function first.
    pub fn at(&self, file: &[u8], address: u64) -> Vec<Source> {
        let Some(context) = self.context.get_or_init(|| read(file).map(Mutex::new)) else { return Vec::new() };
        let context = context.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lookup = context.find_frames(address);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { continuation, .. } => lookup = continuation.resume(None),
            }
        };
        let Ok(mut frames) = frames else { return Vec::new() };
        let mut sources = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            sources.extend(source(&frame));
        }
        sources
    }
}

fn source(frame: &Frame<'_, Reader>) -> Option<Source> {
    let location = frame.location.as_ref()?;
    let function = frame.function.as_ref().and_then(|name| Some(name.demangle().ok()?.into_owned()));
    Some(Source { file: location.file?.to_owned(), line: location.line.filter(|line| *line > 0)?, function })
}

fn read(file: &[u8]) -> Option<Context<Reader>> {
    let file = object::File::parse(file).ok()?;
    let dwarf = Dwarf::load(|section| {
        let data = match file.section_by_name(section.name()) {
            Some(section) => Arc::from(section.uncompressed_data()?),
            None => Arc::default(),
        };
        Ok::<_, object::Error>(Reader::new(data, LittleEndian))
    });
    Context::from_dwarf(dwarf.ok()?).ok()
}
