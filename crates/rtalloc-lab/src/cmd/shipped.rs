//! The traces that ship with rtalloc, inside the binary: an installed one needs no checkout.

use anyhow::Context as _;
use std::path::PathBuf;

include!(concat!(env!("OUT_DIR"), "/shipped.rs"));

/// The shipped traces as files, for as long as this lives.
pub struct Unpacked {
    /// The traces by name.
    pub paths: Vec<PathBuf>,
    /// Removes the files when dropped.
    _directory: tempfile::TempDir,
}

/// Writes the shipped traces to a temporary directory.
///
/// # Errors
///
/// A system without room for a few megabytes of temporary files, or a binary built without traces.
pub fn unpack() -> anyhow::Result<Unpacked> {
    anyhow::ensure!(
        !TRACES.is_empty(),
        "this binary was built without traces; build it in a checkout whose folder traces/ holds .rtrace files"
    );
    let directory = tempfile::Builder::new()
        .prefix("rtalloc-")
        .tempdir()
        .context("cannot create a temporary directory for the shipped traces; set TMPDIR to a writable one")?;
    let paths = TRACES
        .iter()
        .map(|(name, content)| {
            let path = directory.path().join(name);
            std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
            Ok(path)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Unpacked { paths, _directory: directory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ships_is_what_lies_in_the_folder() {
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
