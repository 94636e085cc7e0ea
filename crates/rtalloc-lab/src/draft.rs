//! Files that are written completely or not at all.
//!
//! A [`Draft`] is an unnamed file (`O_TMPFILE`) in the folder of its target. If the process ends before
//! [`Draft::commit`], for any reason, the system removes it, and an existing file at the target is unchanged.

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of a new file before the process' umask.
const NEW_FILE_MODE: u32 = 0o666;

/// A file that gets its name when it is complete.
#[derive(Debug)]
pub struct Draft {
    file: File,
    /// `None`: a device, a pipe or an open stream, which is written to directly.
    target: Option<PathBuf>,
    /// The permissions of the replaced file.
    permissions: Option<Permissions>,
}

impl Draft {
    /// Starts a file that appears at `path` when it is committed. The target of a symbolic link is replaced, not the
    /// link. Devices, pipes and paths in /dev or /proc are written to directly.
    ///
    /// # Errors
    ///
    /// An error of the file system: a directory, a file or folder without write permission.
    pub fn create(path: &Path) -> io::Result<Self> {
        if let Some(stream) = stream(path)? {
            return Ok(Self { file: stream, target: None, permissions: None });
        }
        let target = resolve(path)?;
        let permissions = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                let file = OpenOptions::new().write(true).open(&target)?;
                return Ok(Self { file, target: None, permissions: None });
            }
            Ok(metadata) => {
                // Renaming would replace a read-only file or a running program.
                OpenOptions::new().append(true).open(&target)?;
                Some(metadata.permissions())
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let file = unnamed(folder(&target))?;
        if let Some(permissions) = &permissions {
            file.set_permissions(permissions.clone())?;
        }
        Ok(Self { file, target: Some(target), permissions })
    }

    /// The file to write to.
    ///
    /// # Errors
    ///
    /// No file descriptor is left.
    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its name, replacing an existing one, once its content is on the disk.
    ///
    /// # Errors
    ///
    /// An error of the file system; then nothing changed.
    pub fn commit(self) -> io::Result<()> {
        let Some(target) = &self.target else { return Ok(()) };
        self.file.sync_all()?;
        // An interrupt between linking and renaming would leave the temporary name.
        let _uninterrupted = Uninterrupted::begin()?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".rtalloc-").suffix(".partial").permissions(Permissions::from_mode(NEW_FILE_MODE));
        let link = |path: &Path| {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let here = nix::fcntl::AT_FDCWD;
            Ok(nix::unistd::linkat(here, own.as_str(), here, path, nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW)?)
        };
        let named = match builder.make_in(folder(target), link) {
            Ok(named) => named.into_temp_path(),
            // A file system without O_TMPFILE: the draft has no name to link from.
            Err(_) => {
                let mut copy = builder.tempfile_in(folder(target))?;
                io::copy(&mut whole(&self.file)?, copy.as_file_mut())?;
                if let Some(permissions) = &self.permissions {
                    copy.as_file().set_permissions(permissions.clone())?;
                }
                copy.as_file().sync_all()?;
                copy.into_temp_path()
            }
        };
        match named.persist(target) {
            Ok(()) => Ok(()),
            // A file that is itself a mount point, as in containers, cannot be replaced but can be written.
            Err(error) if error.error.raw_os_error() == Some(nix::libc::EBUSY) => {
                let mut place = OpenOptions::new().write(true).truncate(true).open(target)?;
                io::copy(&mut whole(&self.file)?, &mut place)?;
                place.sync_all()
            }
            Err(error) => Err(error.error),
        }
    }
}

/// The draft, positioned at its first byte.
fn whole(file: &File) -> io::Result<File> {
    use std::io::Seek as _;
    let mut file = file.try_clone()?;
    file.rewind()?;
    Ok(file)
}

/// The open stream or device that a path in /dev or /proc names. Standard output and standard error keep their position
/// in a file that they were redirected to.
fn stream(path: &Path) -> io::Result<Option<File>> {
    let clone = |stream: std::os::fd::BorrowedFd<'_>| Ok(Some(File::from(stream.try_clone_to_owned()?)));
    if path == Path::new("/dev/stdout") {
        clone(io::stdout().as_fd())
    } else if path == Path::new("/dev/stderr") {
        clone(io::stderr().as_fd())
    } else if is_stream(path) && fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
        OpenOptions::new().append(true).open(path).map(Some)
    } else {
        Ok(None)
    }
}

/// Whether a path names a stream or a device of the system, judged by its location.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm") || path.starts_with("/proc")
}

/// The file that writing to `path` creates or replaces: every symbolic link is followed, including a dangling one.
///
/// # Errors
///
/// An error of the file system, or a path that can only be a directory.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    const MOST_LINKS: usize = 40;
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::canonicalize(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            outcome => return outcome,
        }
        match fs::read_link(&path) {
            Ok(target) => path = folder(&path).join(target),
            Err(_) => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                return Ok(fs::canonicalize(folder(&path))?.join(name));
            }
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

/// The folder that contains a file.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An unnamed file in `folder`, deleted with its last descriptor.
fn unnamed(folder: &Path) -> io::Result<File> {
    let options =
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_TMPFILE).mode(NEW_FILE_MODE).open(folder);
    match options {
        Err(error) if matches!(error.raw_os_error(), Some(nix::libc::EOPNOTSUPP | nix::libc::EISDIR)) => {
            tempfile::tempfile_in(folder)
        }
        outcome => outcome,
    }
}

/// Blocks signals in this thread while it exists.
struct Uninterrupted {
    before: SigSet,
}

impl Uninterrupted {
    fn begin() -> io::Result<Self> {
        let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT].into_iter().collect();
        Ok(Self { before: signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)? })
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // The mask was this thread's own before.
        let _ = self.before.thread_set_mask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    fn write(path: &Path, text: &str) -> io::Result<()> {
        let draft = Draft::create(path)?;
        draft.file()?.write_all(text.as_bytes())?;
        draft.commit()
    }

    #[test]
    fn a_draft_has_no_name_until_it_is_committed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new");
        let draft = Draft::create(&path).unwrap();
        draft.file().unwrap().write_all(b"half").unwrap();
        assert!(names(directory.path()).is_empty());
        drop(draft);
        assert!(names(directory.path()).is_empty(), "dropped, it leaves nothing");
        write(&path, "whole").unwrap();
        assert_eq!((names(directory.path()), fs::read_to_string(&path).unwrap()), (vec!["new".into()], "whole".into()));
    }

    #[test]
    fn an_existing_file_is_replaced_with_its_permissions_and_through_its_links() {
        let directory = tempfile::tempdir().unwrap();
        let (old, link) = (directory.path().join("old"), directory.path().join("link"));
        fs::write(&old, "yesterday's").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("old", &link).unwrap();
        let draft = Draft::create(&link).unwrap();
        draft.file().unwrap().write_all(b"today's").unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "yesterday's");
        draft.commit().unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "today's");
        assert_eq!(fs::metadata(&old).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let dangling = directory.path().join("dangling");
        std::os::unix::fs::symlink("later", &dangling).unwrap();
        write(&dangling, "there").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("later")).unwrap(), "there");
        assert_eq!(names(directory.path()), ["dangling", "later", "link", "old"]);
    }

    /// As on a file system without O_TMPFILE: there is no name left to link from.
    #[test]
    fn a_draft_that_cannot_be_linked_is_copied() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old");
        fs::write(&path, "yesterday's").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let mut draft = Draft::create(&path).unwrap();
        draft.file = tempfile::NamedTempFile::new_in(directory.path()).unwrap().into_file();
        draft.file().unwrap().write_all(b"today's").unwrap();
        draft.commit().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "today's");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names(directory.path()), ["old"]);
    }

    #[test]
    fn devices_are_written_to_and_not_replaced() {
        write(Path::new("/dev/null"), "gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn an_unwritable_target_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["no/such/folder", "folder/", ".", ""] {
            let path = if name.is_empty() { PathBuf::new() } else { directory.path().join(name) };
            assert!(Draft::create(&path).is_err(), "{name:?}");
        }
        assert!(Draft::create(&directory.path().join("n".repeat(300))).is_err());
        let running = std::env::current_exe().unwrap();
        assert!(Draft::create(&running).is_err(), "a running program");
    }
}
