//! The raw log: the format that the recorder writes and the laboratory reads.
//!
//! ```text
//! offset 0                    4096                4096 + 32 i
//! [ Header, one page         ][ Record 0 ][ Record 1 ] ... [ Record i ] ... (holes up to the capacity)
//! ```
//!
//! The laboratory creates the file sparse, at its full size, so that it takes no disk space until it is written. The
//! recorder maps it shared and takes record after record by adding one to `Header::next`: **a record's index is its
//! position in the order of the whole process**. A record is complete once its `Record::tag` is not zero, and the tag
//! is stored last: a process that dies in the middle of a record leaves a zero there, and nothing else is damaged.
//!
//! All integers are in the byte order of the machine; a raw log never leaves it.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// First eight bytes of a raw log; the last character is the version of this layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RTALRAW1");

/// Bytes of the file before the first record.
pub const HEADER_BYTES: usize = 4096;

/// Bytes of one record.
pub const RECORD_BYTES: usize = size_of::<Record>();

/// Environment variable that names the raw log to the recorder.
pub const LOG_VARIABLE: &str = "RTALLOC_RECORD_LOG";

/// Every record was kept: value of [`Header::status`].
pub const STATUS_WHOLE: u32 = 0;
/// The log reached its size limit: value of [`Header::status`].
pub const STATUS_LIMIT: u32 = 1;
/// The file system could not take another page: value of [`Header::status`].
pub const STATUS_DISK_FULL: u32 = 2;
/// The kernel lacks what keeps a forked child out of the log (Linux 4.14): value of [`Header::status`].
pub const STATUS_KERNEL_TOO_OLD: u32 = 3;

/// The first page of the log.
#[repr(C)]
pub struct Header {
    /// [`MAGIC`], written by the laboratory.
    pub magic: u64,
    /// Records reserved so far; may exceed what fits, never what was requested.
    pub next: AtomicU64,
    /// Index of the first record of the current program: an `exec` in the same process sets it.
    pub first: AtomicU64,
    /// Operations that were not recorded because recording had stopped.
    pub lost: AtomicU64,
    /// Process that records; 0 until a recorder attaches. The first process to set it keeps it.
    pub owner: AtomicU32,
    /// One of the `STATUS_` values: why recording stopped, if it did.
    pub status: AtomicU32,
    /// Thread numbers assigned in the current program.
    pub threads: AtomicU32,
    /// Programs that ran in the owning process one after another: 1 plus the number of `exec`s.
    pub programs: AtomicU32,
}

/// One step of one operation.
#[repr(C)]
pub struct Record {
    /// Address of the block; its meaning depends on the kind.
    pub address: u64,
    /// Requested bytes; 0 if the kind has no size.
    pub size: u64,
    /// Monotonic clock in nanoseconds.
    pub tick_ns: u64,
    /// Kind, alignment and thread, see [`tag`]; 0 until the record is complete.
    pub tag: AtomicU64,
}

/// A block of `size` bytes was allocated at `address`; written after the call.
pub const ALLOCATE: u8 = 1;
/// The block at `address` is freed; written before the call.
pub const FREE: u8 = 2;
/// The block at `address` is reallocated to `size` bytes; written before the call.
pub const REALLOCATE_BEGIN: u8 = 3;
/// The same thread's reallocation returned `address`; written after the call.
pub const REALLOCATE_END: u8 = 4;
/// The same thread's reallocation failed, and the block at `address` is unchanged; written after the call.
pub const REALLOCATE_REFUSED: u8 = 5;
/// A request of `size` bytes returned null.
pub const REFUSED: u8 = 6;

/// Packs a record's tag: kind in bits 0..8, log2 of the alignment in bits 8..16, thread number in bits 32..64.
#[must_use]
pub const fn tag(kind: u8, align_log2: u8, thread: u32) -> u64 {
    kind as u64 | (align_log2 as u64) << 8 | (thread as u64) << 32
}

/// The kind, the log2 of the alignment and the thread number of a tag.
#[must_use]
pub const fn untag(tag: u64) -> (u8, u8, u32) {
    (tag as u8, (tag >> 8) as u8, (tag >> 32) as u32)
}
