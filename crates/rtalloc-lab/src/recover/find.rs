//! Finds rings in a dump: by their signature, at any position.

use super::ring::Head;
use super::{Problem, RecoverError, Ring};
use rtalloc::adapt::traced::layout::{HEAD_BYTES, MAGIC};
use std::io::{self, Read, Seek, SeekFrom};

/// Bytes that are searched at a time. Whatever the dump's length, only this and the rings are in memory.
const WINDOW_BYTES: usize = 1 << 20;

/// A position with the beginning of a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Offset of its first byte in the dump.
    pub offset: u64,
    /// The ring there.
    pub ring: Result<Ring, Problem>,
}

/// Finds all rings of a dump: a program's output, a whole region, or a core file. Positions with the signature but
/// without a ring, such as the program's own constant in a core file, are found too, with the problem.
///
/// # Errors
///
/// The dump cannot be read.
pub fn find<D: Read + Seek>(dump: &mut D) -> Result<Vec<Found>, RecoverError> {
    let mut found = Vec::new();
    for offset in signatures(dump).map_err(|(offset, source)| RecoverError::Io { offset, source })? {
        let ring = ring_at(dump, offset).map_err(|source| RecoverError::Io { offset, source })?;
        found.push(Found { offset, ring });
    }
    Ok(found)
}

/// Selects the ring at an offset, or the only one.
///
/// # Errors
///
/// There is none, none there, more than one, or none that can be read.
pub fn choose(found: Vec<Found>, at: Option<u64>, dump_bytes: u64) -> Result<(u64, Ring), RecoverError> {
    if let Some(at) = at {
        return match found.iter().position(|found| found.offset == at) {
            Some(index) => readable(found.into_iter().nth(index)),
            None if found.iter().any(|found| found.ring.is_ok()) => {
                Err(RecoverError::NotThere { offset: at, there: listed(&found) })
            }
            None => Err(RecoverError::Nothing { bytes: dump_bytes }),
        };
    }
    let good = found.iter().filter(|found| found.ring.is_ok()).count();
    if good > 1 {
        return Err(RecoverError::Several(listed(&found)));
    }
    // If one can be read, the unreadable ones are only the signature.
    let index = found.iter().position(|found| good == 0 || found.ring.is_ok());
    match index {
        Some(index) => readable(found.into_iter().nth(index)),
        None => Err(RecoverError::Nothing { bytes: dump_bytes }),
    }
}

fn readable(found: Option<Found>) -> Result<(u64, Ring), RecoverError> {
    match found {
        Some(Found { offset, ring: Ok(ring) }) => Ok((offset, ring)),
        Some(Found { offset, ring: Err(problem) }) => Err(RecoverError::Unreadable { offset, problem }),
        None => Err(RecoverError::Nothing { bytes: 0 }),
    }
}

/// The readable rings, as listed in errors.
fn listed(found: &[Found]) -> Vec<String> {
    let good = found.iter().filter_map(|found| Some((found.offset, found.ring.as_ref().ok()?)));
    good.map(|(offset, ring)| format!("{offset} ({}, {} records)", ring.name, ring.entries.len())).collect()
}

/// Reads the ring at an offset.
fn ring_at<D: Read + Seek>(dump: &mut D, offset: u64) -> io::Result<Result<Ring, Problem>> {
    let mut read = |length: u64| {
        dump.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        dump.by_ref().take(length).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let head = match Head::read(&read(HEAD_BYTES as u64)?) {
        Ok(head) => head,
        Err(problem) => return Ok(Err(problem)),
    };
    Ok(Ring::read(&head, &read(head.needed())?))
}

/// The offsets of the signature.
fn signatures<D: Read + Seek>(dump: &mut D) -> Result<Vec<u64>, (u64, io::Error)> {
    let mut offsets = Vec::new();
    let mut window = Vec::with_capacity(WINDOW_BYTES);
    // Offset of the window's first byte.
    let mut offset = 0;
    dump.rewind().map_err(|error| (0, error))?;
    loop {
        let more = (WINDOW_BYTES - window.len()) as u64;
        let count = dump.by_ref().take(more).read_to_end(&mut window).map_err(|error| (offset, error))?;
        let mut from = 0;
        while let Some(first) = window[from..].iter().position(|&byte| byte == MAGIC[0]) {
            let at = from + first;
            if window[at..].starts_with(&MAGIC) {
                offsets.push(offset + at as u64);
            }
            from = at + 1;
        }
        if count == 0 {
            return Ok(offsets);
        }
        // A signature may begin in this window and end in the next.
        let searched = window.len().saturating_sub(MAGIC.len() - 1);
        window.drain(..searched);
        offset += searched as u64;
    }
}
