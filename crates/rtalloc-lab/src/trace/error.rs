//! Errors of traces, with their position.

use std::io;
use std::path::PathBuf;

/// A trace that could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A file system error.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The attempted action: "open", "create", "rename".
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Reading or writing failed.
    #[error("input or output failed at byte {offset}: {source}")]
    Io {
        /// Offset in the file.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not a trace.
    #[error(
        "not an rtalloc trace: {what} at byte {offset}; make one with `rtalloc record` or `rtalloc generate`, or of the \
         log of a heap with `rtalloc import`"
    )]
    Foreign {
        /// Offset of the first byte that does not match a trace.
        offset: u64,
        /// What was found there.
        what: &'static str,
    },
    /// A trace of a later rtalloc.
    #[error(
        "trace format version {found} at byte {offset} is not version {}, the one this program reads; \
         read it with the rtalloc that wrote it",
        super::FORMAT_VERSION
    )]
    Version {
        /// Offset of the version.
        offset: u64,
        /// The version found.
        found: u32,
    },
    /// The file is truncated: an interrupted copy or transfer.
    #[error("the trace is cut off at byte {offset}, inside its {part}; copy or record it again")]
    Truncated {
        /// Length of the file.
        offset: u64,
        /// The part that is not complete.
        part: &'static str,
    },
    /// A checksum does not match: bytes changed since the trace was written.
    #[error(
        "the trace is damaged: the {part} that starts at byte {offset} does not match its checksum; \
         copy or record it again"
    )]
    Checksum {
        /// First byte of the part.
        offset: u64,
        /// The part that does not match.
        part: &'static str,
    },
    /// Contents that no writer produces.
    #[error("the trace is invalid: {what} (in the part that starts at byte {offset})")]
    Invalid {
        /// First byte of the part.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// An event that breaks the rules of [`trace`](super).
    #[error("event {event} breaks the rules of a trace: {violation}{}",
        offset.map_or_else(String::new, |offset| format!(" (in the chunk that starts at byte {offset})")))]
    Rule {
        /// Index of the event from 0.
        event: u64,
        /// The rule.
        violation: Violation,
        /// First byte of the chunk, when reading.
        offset: Option<u64>,
    },
    /// Reading continued after an error.
    #[error("reading stopped at byte {offset} with an earlier error")]
    Stopped {
        /// Offset at which it stopped.
        offset: u64,
    },
}

/// The rule an event breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Allocation into a live slot.
    #[error("slot {0} is allocated although it is live")]
    AllocatesLive(u32),
    /// Allocation into a slot that leaves a gap.
    #[error("slot {slot} is allocated although the smallest slot never used is {next}")]
    LeavesGap {
        /// The slot.
        slot: u32,
        /// The only new slot allowed.
        next: u32,
    },
    /// More blocks live at once than a trace may hold.
    #[error("more than {} blocks are live at once", super::MAX_SLOTS)]
    TooManyBlocks,
    /// Free of a slot that is not live.
    #[error("slot {0} is freed although it is not live")]
    FreesDead(u32),
    /// Reallocation of a slot that is not live.
    #[error("slot {0} is reallocated although it is not live")]
    ReallocatesDead(u32),
    /// Size zero or beyond [`MAX_SIZE_BYTES`](super::MAX_SIZE_BYTES).
    #[error("size {0} is not within 1..={max}", max = super::MAX_SIZE_BYTES)]
    Size(u64),
    /// Alignment that is not a power of two.
    #[error("alignment {0} is not a power of two")]
    Alignment(u32),
    /// Time runs backwards.
    #[error("tick {tick} comes after tick {previous}")]
    TickDecreases {
        /// This event's tick.
        tick: u64,
        /// That of the previous event.
        previous: u64,
    },
    /// A thread number that skips one.
    #[error("thread {thread} comes first although thread {next} has done nothing yet")]
    ThreadSkipped {
        /// The thread.
        thread: u32,
        /// The only new number allowed.
        next: u32,
    },
    /// More threads than a trace may have.
    #[error("there are more than {} threads", super::MAX_THREADS)]
    TooManyThreads,
    /// A sum of sizes beyond 64 bits.
    #[error("the sum of all requested sizes exceeds 64 bits")]
    SumOverflows,
}
