//! The laboratory's side of the raw log: creating an empty one, and reading it afterwards.

use super::RecordError;
use super::layout::{self, HEADER_BYTES, Header, MAGIC, RECORD_BYTES, Record};
use std::fs::{File, Permissions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Default size limit of a raw log: 268 million records.
///
/// The file is sparse, so this is not used disk space, but it is address space in the program.
pub const DEFAULT_LIMIT_BYTES: u64 = 8 << 30;

/// The recorder, as built by the build script.
static RECORDER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/librtalloc_record.so"));

/// A private directory with the recorder and an empty raw log in it, removed when dropped.
#[derive(Debug)]
pub struct RawLog {
    directory: tempfile::TempDir,
}

impl RawLog {
    /// Creates the directory inside `parent` and the two files in it.
    ///
    /// # Errors
    ///
    /// An error of the file system.
    pub fn create(parent: &Path, limit_bytes: u64) -> Result<Self, RecordError> {
        let temporary = |action, path: &Path| {
            let path = path.to_path_buf();
            move |source| RecordError::Temporary { action, path, source }
        };
        let directory = tempfile::Builder::new()
            .prefix("rtalloc-record-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(temporary("make a directory in", parent))?;
        let this = Self { directory };
        std::fs::write(this.recorder_path(), RECORDER).map_err(temporary("write", &this.recorder_path()))?;
        let mut header = [0; offset_of!(Header, magic) + size_of::<u64>()];
        header[offset_of!(Header, magic)..].copy_from_slice(&MAGIC.to_ne_bytes());
        File::create_new(this.log_path())
            .and_then(|file| {
                file.set_len(limit_bytes.max(1 << 20))?;
                file.write_all_at(&header, 0)
            })
            .map_err(temporary("make", &this.log_path()))?;
        Ok(this)
    }

    /// Path of the library to be preloaded.
    #[must_use]
    pub fn recorder_path(&self) -> PathBuf {
        self.directory.path().join("librtalloc_record.so")
    }

    /// Path of the raw log.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join("raw.log")
    }
}

/// Why recording stopped before the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The log reached its size limit.
    Limit,
    /// The disk was full.
    DiskFull,
    /// The kernel is older than Linux 4.14.
    KernelTooOld,
}

/// One record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord {
    /// Its content.
    pub step: Step,
    /// Thread number in the order of the threads' first records.
    pub thread: u32,
    /// Monotonic clock in nanoseconds.
    pub tick_ns: u64,
}

/// The content of a record; the constants of [`layout`] with their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of a record: address, bytes, log2 of the alignment")]
pub enum Step {
    /// A block was allocated.
    Allocate { address: u64, size: u64, align_log2: u8 },
    /// A block is freed.
    Free { address: u64 },
    /// A reallocation of a block begins.
    ReallocateBegin { address: u64 },
    /// The thread's reallocation ended.
    ReallocateEnd { address: u64, size: u64 },
    /// The thread's reallocation failed and left the block in place.
    ReallocateRefused { address: u64 },
    /// A request was refused.
    Refused,
}

/// Reads a raw log from beginning to end, however it ended.
#[derive(Debug)]
pub struct RawReader {
    path: PathBuf,
    records: BufReader<File>,
    /// Records that were reserved and not read yet.
    left: u64,
    header: [u8; HEADER_BYTES],
    unfinished: u64,
}

impl RawReader {
    /// Opens the log at `path`.
    ///
    /// # Errors
    ///
    /// [`RecordError::ForeignLog`] for another file, [`RecordError::Log`] for a system error.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let failed = |source| RecordError::Log { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        match file.read_exact_at(&mut header, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(RecordError::ForeignLog { path: path.to_path_buf() });
            }
            outcome => outcome.map_err(failed)?,
        }
        let length = file.metadata().map_err(failed)?.len();
        let records = BufReader::with_capacity(1 << 20, file);
        let mut reader = Self { path: path.to_path_buf(), records, left: 0, header, unfinished: 0 };
        if reader.long(offset_of!(Header, magic)) != MAGIC {
            return Err(RecordError::ForeignLog { path: path.to_path_buf() });
        }
        let fitting = length.saturating_sub(HEADER_BYTES as u64) / RECORD_BYTES as u64;
        let first = reader.long(offset_of!(Header, first)).min(fitting);
        let next = reader.long(offset_of!(Header, next));
        reader.left = next.min(fitting).saturating_sub(first);
        // Where the recorder ran out of room, the records beyond the end are those it counted as lost.
        if reader.stop_reason().is_none() {
            reader.unfinished = next.saturating_sub(fitting);
        }
        let start = HEADER_BYTES as u64 + first * RECORD_BYTES as u64;
        reader.records.seek(SeekFrom::Start(start)).map_err(failed)?;
        Ok(reader)
    }

    /// The next complete record; `None` at the end of the log.
    ///
    /// # Errors
    ///
    /// [`RecordError::Log`] for a system error.
    pub fn next_record(&mut self) -> Result<Option<RawRecord>, RecordError> {
        while self.left > 0 {
            self.left -= 1;
            let mut bytes = [0; RECORD_BYTES];
            self.records
                .read_exact(&mut bytes)
                .map_err(|source| RecordError::Log { path: self.path.clone(), source })?;
            let long = |offset: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[offset + i]));
            let address = long(offset_of!(Record, address));
            let size = long(offset_of!(Record, size));
            let (kind, align_log2, thread) = layout::untag(long(offset_of!(Record, tag)));
            let step = match kind {
                layout::ALLOCATE => Step::Allocate { address, size, align_log2 },
                layout::FREE => Step::Free { address },
                layout::REALLOCATE_BEGIN => Step::ReallocateBegin { address },
                layout::REALLOCATE_END => Step::ReallocateEnd { address, size },
                layout::REALLOCATE_REFUSED => Step::ReallocateRefused { address },
                layout::REFUSED => Step::Refused,
                // Reserved, but its thread ended before completing it, or found the disk full and counted it as lost.
                _ => {
                    self.unfinished += u64::from(self.stop_reason().is_none());
                    continue;
                }
            };
            return Ok(Some(RawRecord { step, thread, tick_ns: long(offset_of!(Record, tick_ns)) }));
        }
        Ok(None)
    }

    /// Whether a recorder ever attached to this log.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.word(offset_of!(Header, owner)) != 0
    }

    /// Number of programs that the recorded process ran one after another.
    #[must_use]
    pub fn programs(&self) -> u32 {
        self.word(offset_of!(Header, programs))
    }

    /// Why recording stopped before the program ended, if it did.
    #[must_use]
    pub fn stop_reason(&self) -> Option<StopReason> {
        match self.word(offset_of!(Header, status)) {
            layout::STATUS_LIMIT => Some(StopReason::Limit),
            layout::STATUS_DISK_FULL => Some(StopReason::DiskFull),
            layout::STATUS_KERNEL_TOO_OLD => Some(StopReason::KernelTooOld),
            _ => None,
        }
    }

    /// Records that came after recording stopped.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.long(offset_of!(Header, lost))
    }

    /// Records read so far that were reserved but not complete, and those cut off by the end of the file.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.unfinished
    }

    fn long(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|i| self.header[offset + i]))
    }

    fn word(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|i| self.header[offset + i]))
    }
}
