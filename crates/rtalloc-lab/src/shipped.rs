//! The traces that ship with rtalloc, inside the binary: an installed one needs no checkout.

use crate::campaign::store::Origin;
use crate::probe::environment::written;
use crate::result::schema::Environment;
use crate::trace::{Event, Reader};
use anyhow::Context as _;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// Traces as temporary files, deleted when this is dropped.
#[derive(Debug, Default)]
pub struct Unpacked {
    /// The traces' paths, which this process and its children can open.
    pub paths: Vec<PathBuf>,
    /// Unnamed files: deleted when the last process that holds them ends, however it ends.
    files: Vec<File>,
}

impl Unpacked {
    /// Adds a file with the output of `write`.
    ///
    /// # Errors
    ///
    /// What `write` returns, or a system that has no room for temporary files.
    pub fn add(&mut self, write: impl FnOnce(&mut File) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut file =
            tempfile::tempfile().context("cannot create a temporary file; set TMPDIR to a writable directory")?;
        write(&mut file)?;
        self.paths.push(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
        self.files.push(file);
        Ok(())
    }

    /// Adds the shipped trace of this [name](names); `false` where there is none.
    ///
    /// # Errors
    ///
    /// A system that has no room for temporary files.
    pub fn add_shipped(&mut self, name: &str) -> anyhow::Result<bool> {
        let Some((_, content)) = TRACES.iter().find(|(file, _)| stem(file) == name) else { return Ok(false) };
        self.add(|file| {
            file.write_all(content).with_context(|| {
                format!(
                    "cannot write the shipped trace {name} to a temporary file; set TMPDIR to a directory with free \
                     space"
                )
            })
        })?;
        Ok(true)
    }
}

fn stem(file: &'static str) -> &'static str {
    file.strip_suffix(".rtrace").unwrap_or(file)
}

/// Name of every shipped trace: its file's, without `.rtrace`.
pub fn names() -> impl Iterator<Item = &'static str> {
    TRACES.iter().map(|(file, _)| stem(file))
}

/// The operations of the shipped trace of this [name](names).
///
/// # Errors
///
/// A binary that was built without it, or a system without room for temporary files.
pub fn events(name: &str) -> anyhow::Result<Vec<Event>> {
    let mut unpacked = Unpacked::default();
    anyhow::ensure!(unpacked.add_shipped(name)?, "this binary was built without the trace {name}");
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    for path in &unpacked.paths {
        let mut reader = Reader::open(path)?;
        while reader.next_chunk(&mut chunk)? {
            events.append(&mut chunk);
        }
    }
    Ok(events)
}

/// The origin of this program's results.
#[must_use]
pub fn origin(here: &Environment) -> Origin {
    let mut traces = Sha256::new();
    for (name, content) in TRACES {
        for part in [name.as_bytes(), content] {
            traces.update((part.len() as u64).to_le_bytes());
            traces.update(part);
        }
    }
    Origin { binary: here.binary.clone(), traces: written(&traces.finalize()) }
}

/// Writes the shipped traces to unnamed temporary files.
///
/// # Errors
///
/// A system without room for a few megabytes of temporary files, or a binary built without traces.
pub fn unpack() -> anyhow::Result<Unpacked> {
    anyhow::ensure!(
        !TRACES.is_empty(),
        "this binary was built without traces; build it in a checkout whose folder traces/ holds .rtrace files"
    );
    let mut unpacked = Unpacked::default();
    for name in names() {
        unpacked.add_shipped(name)?;
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_traces_are_those_of_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
        let mut names: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of traces")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a plain name"))
            .filter(|name| name.ends_with(".rtrace"))
            .collect();
        names.sort();
        assert!(names.len() >= 6, "fewer than six real programs: {names:?}");
        assert_eq!(TRACES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
        let unpacked = unpack().expect("room for the traces");
        for (path, (_, content)) in unpacked.paths.iter().zip(TRACES) {
            assert_eq!(&std::fs::read(path).expect("an unpacked trace"), content);
        }
    }
}
