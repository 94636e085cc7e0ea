//! Reads a flight recorder back: from a dump of memory to a trace, and to a replay with the same addresses.
//!
//! ```text
//! dump -> find(rings) -> Ring -> convert -> trace
//!                             -> replay on the same allocator -> every address compared
//! ```
//!
//! The recorder itself is [`rtalloc::adapt::Traced`]; the interface between the two is the ring's
//! [`layout`](rtalloc::adapt::traced::layout), which `docs/FLIGHT-RECORDER.md` specifies. A dump is untrusted input:
//! nothing in it is used before it was validated.

mod convert;
mod find;
mod replay;
mod ring;
#[cfg(test)]
mod tests;

pub use convert::{Findings, Refused, Ticks, convert};
pub use find::{Found, choose, find};
pub use replay::{Difference, Replayed, replay};
pub use ring::{Entry, Kind, Number, Outcome, Problem, Ring};

use crate::number::counted;
use crate::trace::TraceError;
use std::io;

/// Why nothing was recovered.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The dump cannot be read.
    #[error("the dump cannot be read from byte {offset} on")]
    Io {
        /// The offset.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// No ring at all.
    #[error(
        "no flight recorder in these {bytes} bytes; dump the whole region of a `Traced` heap, or the bytes that its \
         `ring` returns, or a core file that contains the heap's memory"
    )]
    Nothing {
        /// Length of the dump.
        bytes: u64,
    },
    /// There is something, but it cannot be used.
    #[error("the flight recorder at byte {offset} cannot be read: {problem}")]
    Unreadable {
        /// First byte of it.
        offset: u64,
        /// What is wrong with it.
        problem: Problem,
    },
    /// More than one.
    #[error("there are several flight recorders; choose one with --at: {}", .0.join(", "))]
    Several(Vec<String>),
    /// None at the requested offset.
    #[error("no flight recorder at byte {offset}; there is one at {}", .there.join(", "))]
    NotThere {
        /// The requested offset.
        offset: u64,
        /// Where there is one.
        there: Vec<String>,
    },
    /// The heap's first operations are gone.
    #[error(
        "the ring does not begin with the heap's first operation ({}), so the heap's initial state is unknown and \
         addresses cannot be compared; configure more records, or replay the trace written by --output",
        missing(*.overwritten, *.damaged)
    )]
    Incomplete {
        /// Records that were overwritten by others.
        overwritten: u64,
        /// Records that cannot be read.
        damaged: u64,
    },
    /// Another kind of machine.
    #[error(
        "it was recorded on a {bits}-bit machine, where the layout of blocks differs from this 64-bit machine: \
         addresses cannot be compared here; --output writes a trace that every allocator can replay"
    )]
    OtherMachine {
        /// Bits of a machine word on that machine.
        bits: u32,
    },
    /// The laboratory does not have the allocator.
    #[error(
        "the laboratory has no allocator {name:?}; `rtalloc allocators` lists its allocators. If other adapters are in \
         use, put the recorder directly around the heap. --output writes a trace nevertheless"
    )]
    UnknownAllocator {
        /// The name in the ring.
        name: String,
    },
    /// The laboratory has the allocator, but not this kind of heap.
    #[error(
        "the heap of {length} bytes does not begin like the laboratory's {name}: another version created it, it has \
         other types or a non-default configuration, or another adapter wraps it (put the recorder directly around the \
         heap). --output writes a trace nevertheless"
    )]
    OtherHeap {
        /// The name in the ring.
        name: String,
        /// Length of the recorded heap's region.
        length: u64,
    },
    /// No memory for the replay.
    #[error("cannot map {bytes} bytes for the replay")]
    Memory {
        /// The number of bytes.
        bytes: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

/// What a ring lacks, as text.
fn missing(overwritten: u64, damaged: u64) -> String {
    match (overwritten, damaged) {
        (overwritten, 0) => format!("{overwritten} were overwritten since"),
        (0, damaged) => format!("{} damaged", counted(damaged, "record")),
        (overwritten, damaged) => format!("{overwritten} were overwritten since, {damaged} are damaged"),
    }
}
