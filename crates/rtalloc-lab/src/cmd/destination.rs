//! Files for results, found writable before the measuring, so that minutes of work are not lost to a typing error.

use super::inspect::print;
use anyhow::Context as _;
use std::fs::OpenOptions;
use std::path::Path;

/// A file whose name was found writable; nothing of it exists before [`Destination::write`], so that an interrupted
/// run leaves nothing and spoils nothing.
#[derive(Debug)]
pub struct Destination<'a> {
    path: &'a Path,
}

impl<'a> Destination<'a> {
    /// Finds out whether `path` can be written.
    ///
    /// # Errors
    ///
    /// A place that cannot be written.
    pub fn open(path: &'a Path) -> anyhow::Result<Self> {
        Self::probe(path).with_context(|| format!("cannot write {}; choose another place", path.display()))?;
        Ok(Self { path })
    }

    fn probe(path: &Path) -> std::io::Result<()> {
        match std::fs::metadata(path) {
            // Opening a pipe could wait for its reader: pipes and devices are left until there is something to write.
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
            Ok(_) => OpenOptions::new().append(true).open(path).map(drop),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if path.as_os_str().is_empty() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
                    return Err(std::io::ErrorKind::IsADirectory.into());
                }
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                // A file without a name, gone as soon as it is closed, however this process ends.
                tempfile::tempfile_in(folder.unwrap_or(Path::new("."))).map(drop)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the file, in place of what it held.
    ///
    /// # Errors
    ///
    /// A file that can no longer be written.
    pub fn write(self, text: &str) -> anyhow::Result<()> {
        std::fs::write(self.path, text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Where results go.
pub enum Output<'a> {
    Standard,
    File(Destination<'a>),
}

impl<'a> Output<'a> {
    /// Finds out whether results can go there; `-` is standard output.
    ///
    /// # Errors
    ///
    /// A place that cannot be written.
    pub fn open(path: &'a Path) -> anyhow::Result<Self> {
        if is_stdout(Some(path)) { Ok(Self::Standard) } else { Destination::open(path).map(Self::File) }
    }

    /// Writes `text`; tells whether it took the place of the tables.
    ///
    /// # Errors
    ///
    /// A place that can no longer be written.
    pub fn write(self, text: &str) -> anyhow::Result<bool> {
        match self {
            Self::Standard => print(text).context("standard output").map(|()| true),
            Self::File(file) => file.write(text).map(|()| false),
        }
    }
}

/// Whether results are asked for on standard output.
#[must_use]
pub fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwritable_place_is_refused_before_anything_is_measured() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let nowhere = directory.path().join("no/such/folder/report.html");
        let error = Destination::open(&nowhere).expect_err("refused").to_string();
        assert!(error.contains("no/such/folder/report.html"), "{error}");
        assert!(Destination::open(directory.path()).is_err(), "a directory is no file");
        assert!(Destination::open(&directory.path().join("new/")).is_err(), "nor is what only a directory can be");
        assert!(Destination::open(&directory.path().join("n".repeat(300))).is_err(), "a name too long");
        assert!(Destination::open(Path::new("")).is_err(), "no name");
    }

    #[test]
    fn nothing_is_there_before_it_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let new = directory.path().join("new.html");
        let destination = Destination::open(&new).expect("writable");
        assert_eq!(std::fs::read_dir(directory.path()).expect("the directory").count(), 0);
        destination.write("today's").expect("written");
        assert_eq!(std::fs::read_to_string(&new).expect("read"), "today's");
    }

    #[test]
    fn an_old_file_stays_as_it_is_until_it_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let old = directory.path().join("old.html");
        std::fs::write(&old, "yesterday's").expect("written");
        let destination = Destination::open(&old).expect("writable");
        assert_eq!(std::fs::read_to_string(&old).expect("read"), "yesterday's");
        destination.write("today's").expect("written");
        assert_eq!(std::fs::read_to_string(&old).expect("read"), "today's");
    }
}
