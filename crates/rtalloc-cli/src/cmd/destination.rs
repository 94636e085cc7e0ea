//! The files of one call: inputs and outputs. No output may destroy an input or another output.
//!
//! Outputs are found writable before the measurement, so that a typing error does not cost minutes of work, and get
//! their name when they are complete ([`Draft`]).

use anyhow::Context as _;
use rtalloc_lab::draft::{Draft, is_stream, resolve};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The inputs and outputs of one call. Every subcommand registers all of its files here.
#[derive(Debug)]
pub struct Files {
    known: Vec<Known>,
}

/// A file that was named.
#[derive(Debug)]
struct Known {
    /// The argument that names it: `--json`, `TRACE`.
    argument: String,
    path: PathBuf,
    identity: Identity,
    is_written: bool,
}

/// What decides whether two names denote one file.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// Device and inode number of an existing file, whatever links lead to it.
    Existing(u64, u64),
    /// The path of a file that does not exist yet.
    New(PathBuf),
    Standard,
}

impl Files {
    /// No files yet, except this program's own.
    #[must_use]
    pub fn new() -> Self {
        let mut files = Self { known: Vec::new() };
        if let Ok(own) = std::env::current_exe() {
            let (argument, is_written) = ("this program's own file".into(), false);
            files.known.extend(identity(&own).map(|identity| Known { argument, path: own, identity, is_written }));
        }
        files
    }

    /// Registers an input.
    ///
    /// # Errors
    ///
    /// It is an output as well.
    pub fn reads(&mut self, argument: &str, path: &Path) -> anyhow::Result<()> {
        self.note(argument, path, false)
    }

    /// Registers a file that is changed in place, such as a store of results.
    ///
    /// # Errors
    ///
    /// It is an input or another output as well.
    pub fn changes(&mut self, argument: &str, path: &Path) -> anyhow::Result<()> {
        self.note(argument, path, true)
    }

    /// Registers an output that is a file, and checks that it can be written.
    ///
    /// # Errors
    ///
    /// It is an input or another output as well, or cannot be written.
    pub fn file(&mut self, argument: &str, path: Option<&Path>) -> anyhow::Result<Option<Destination>> {
        let Some(path) = path else { return Ok(None) };
        self.note(argument, path, true)?;
        Destination::open(path).with_context(|| argument.to_string()).map(Some)
    }

    /// Registers an output that is a file, or standard output for `-`, and checks that it can be written.
    ///
    /// # Errors
    ///
    /// It is an input or another output as well, or cannot be written.
    pub fn output(&mut self, argument: &str, path: Option<&Path>) -> anyhow::Result<Option<Output>> {
        match path {
            Some(path) if is_stdout(path) => {
                self.admit(argument, path, Identity::Standard, true)?;
                Ok(Some(Output::Standard))
            }
            path => Ok(self.file(argument, path)?.map(Output::File)),
        }
    }

    fn note(&mut self, argument: &str, path: &Path, is_written: bool) -> anyhow::Result<()> {
        match identity(path) {
            Some(identity) => self.admit(argument, path, identity, is_written),
            None => Ok(()),
        }
    }

    fn admit(&mut self, argument: &str, path: &Path, identity: Identity, is_written: bool) -> anyhow::Result<()> {
        let clash = |known: &&Known| known.identity == identity && (known.is_written || is_written);
        if let Some(known) = self.known.iter().find(clash) {
            let new = Known { argument: argument.into(), path: path.into(), identity, is_written };
            anyhow::bail!(refusal(known, &new));
        }
        self.known.push(Known { argument: argument.into(), path: path.into(), identity, is_written });
        Ok(())
    }
}

impl Default for Files {
    fn default() -> Self {
        Self::new()
    }
}

/// Why two arguments cannot name one file, and what to do.
fn refusal(first: &Known, second: &Known) -> String {
    let (read, written) = if first.is_written { (second, first) } else { (first, second) };
    let file = if read.path == written.path {
        written.path.display().to_string()
    } else {
        format!("{} and {} are one file", written.path.display(), read.path.display())
    };
    let (one, other) = (&first.argument, &second.argument);
    if first.identity == Identity::Standard {
        format!("{one} and {other} cannot both go to standard output; give one of them a file")
    } else if first.is_written && second.is_written {
        format!("{one} and {other} name the same file ({file}); give one of them another name")
    } else {
        let (written, read) = (&written.argument, &read.argument);
        format!("{written} would overwrite {read} ({file}); give {written} another name")
    }
}

/// The identity of a path; `None` for streams and devices, which can be shared, and for a file that does not exist and
/// cannot be created.
fn identity(path: &Path) -> Option<Identity> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() && !is_stream(path) => {
            Some(Identity::Existing(metadata.dev(), metadata.ino()))
        }
        Ok(_) => None,
        Err(_) => resolve(path).ok().map(Identity::New),
    }
}

/// A file whose path was found writable; it is not created before [`Destination::write`], so an interrupted run leaves
/// nothing behind and damages nothing.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
}

impl Destination {
    /// Checks that `path` can be written.
    fn open(path: &Path) -> anyhow::Result<Self> {
        let is_open = match fs::metadata(path) {
            // Opening a pipe could wait for its reader: pipes and devices are not opened until there is something to
            // write.
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
            _ => Draft::create(path).map(drop),
        };
        is_open.with_context(|| format!("cannot write {}; choose another place", path.display()))?;
        Ok(Self { path: path.into() })
    }

    /// Writes the file, replacing its content.
    ///
    /// # Errors
    ///
    /// A file that can no longer be written.
    pub fn write(self, text: &str) -> anyhow::Result<()> {
        let written = Draft::create(&self.path).and_then(|draft| {
            draft.file()?.write_all(text.as_bytes())?;
            draft.commit()
        });
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Where results go.
#[derive(Debug)]
pub enum Output {
    Standard,
    File(Destination),
}

impl Output {
    /// Writes `text`; returns whether it went to standard output, in place of the tables.
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

/// Whether results are requested on standard output.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Writes to standard output; a closed pipe (`| head`) is not an error.
pub(super) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
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
        assert!(Destination::open(directory.path()).is_err(), "a directory is not a file");
        assert!(Destination::open(&directory.path().join("new/")).is_err(), "nor is what only a directory can be");
        assert!(Destination::open(&directory.path().join("n".repeat(300))).is_err(), "a name too long");
        assert!(Destination::open(Path::new("")).is_err(), "no name");
    }

    #[test]
    fn no_file_exists_before_it_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let new = directory.path().join("new.html");
        let destination = Destination::open(&new).expect("writable");
        assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 0);
        destination.write("today's").expect("written");
        assert_eq!(fs::read_to_string(&new).expect("read"), "today's");
    }

    #[test]
    fn an_existing_file_is_unchanged_until_it_is_written() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let old = directory.path().join("old.html");
        fs::write(&old, "yesterday's").expect("written");
        let destination = Destination::open(&old).expect("writable");
        assert_eq!(fs::read_to_string(&old).expect("read"), "yesterday's");
        destination.write("today's").expect("written");
        assert_eq!(fs::read_to_string(&old).expect("read"), "today's");
    }

    #[test]
    fn an_output_is_neither_an_input_nor_another_output() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("dump"), "the evidence").expect("written");
        std::os::unix::fs::symlink("dump", at("soft")).expect("a link");
        fs::hard_link(at("dump"), at("hard")).expect("a link");
        std::os::unix::fs::symlink("new", at("dangling")).expect("a link");
        std::os::unix::fs::symlink(".", at("here")).expect("a link");
        for name in ["dump", "soft", "hard", "here/dump", "./dump"] {
            let mut files = Files::new();
            files.reads("DUMP", &at("dump")).expect("an input");
            let error = files.file("--output", Some(&at(name))).expect_err(name).to_string();
            assert!(error.starts_with("--output would overwrite DUMP"), "{error}");
            let mut files = Files::new();
            files.file("--output", Some(&at(name))).expect("an output");
            let error = files.reads("DUMP", &at("dump")).expect_err(name).to_string();
            assert!(error.starts_with("--output would overwrite DUMP"), "{error}");
        }
        for name in ["new", "dangling", "here/new"] {
            let mut files = Files::new();
            files.output("--json", Some(&at("new"))).expect("an output");
            let error = files.output("--csv", Some(&at(name))).expect_err(name).to_string();
            assert!(error.contains("--json and --csv name the same file"), "{error}");
            assert!(files.changes("--store", &at(name)).is_err(), "{name}");
        }
        let mut files = Files::new();
        let standard = Some(Path::new("-"));
        files.output("--json", standard).expect("standard output");
        let error = files.output("--csv", standard).expect_err("twice").to_string();
        assert!(error.contains("cannot both go to standard output"), "{error}");
        files.reads("A", &at("dump")).expect("an input");
        files.reads("B", &at("dump")).expect("is read twice");
        for argument in ["--json", "--csv"] {
            files.file(argument, Some(Path::new("/dev/null"))).expect("a device");
        }
        assert_eq!(fs::read_to_string(at("dump")).expect("read"), "the evidence");
    }

    #[test]
    fn this_program_is_not_overwritten() {
        let own = std::env::current_exe().expect("this test");
        let copy = tempfile::tempdir_in(own.parent().expect("a folder")).expect("a folder");
        let link = copy.path().join("link");
        fs::hard_link(&own, &link).expect("a link");
        let error = Files::new().file("--certificate", Some(&link)).expect_err("refused").to_string();
        assert!(error.contains("would overwrite this program's own file"), "{error}");
    }
}
