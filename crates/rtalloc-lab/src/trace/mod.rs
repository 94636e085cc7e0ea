//! Traces: a program's requests to its allocator, operation by operation.
//!
//! A trace is a file (layout in `docs/TRACE-FORMAT.md`) that is only ever streamed: [`Writer`] takes one [`Event`] at a
//! time, [`Reader`] returns a chunk of at most [`CHUNK_EVENTS`] at a time; both need memory proportional to the live
//! blocks, never to the length of the trace. Both maintain a ledger of the live blocks, so a trace that passed either
//! of them obeys the rules every consumer relies on:
//!
//! - a slot is allocated only while it is free, reallocated and freed only while it is live;
//! - a slot used for the first time is the smallest unused number, so that a table indexed by slot grows by one entry
//!   at a time;
//! - threads are numbered from 0 in the order of their first operation;
//! - sizes are 1..=[`MAX_SIZE_BYTES`], alignments are powers of two, ticks never decrease;
//! - the sum of the live sizes, and of all requested sizes, fits 64 bits.
//!
//! ```
//! use rtalloc_lab::trace::{Event, Meta, Op, Origin, Reader, TickUnit, Writer};
//!
//! let meta = Meta {
//!     name: "two-blocks".into(),
//!     about: "the smallest interesting trace".into(),
//!     origin: Origin::Program { command: vec!["/bin/true".into()] },
//!     tick_unit: TickUnit::Nanoseconds,
//!     created_unix_seconds: None,
//!     incomplete: None,
//! };
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, &meta)?;
//! writer.push(&Event { tick: 0, thread: 0, op: Op::Allocate { slot: 0, size: 24, align: 16 } })?;
//! writer.push(&Event { tick: 5, thread: 0, op: Op::Free { slot: 0 } })?;
//! let totals = writer.finish()?;
//! assert_eq!(totals.peak_live_bytes, 24);
//!
//! let mut reader = Reader::new(file.as_slice())?;
//! let mut chunk = Vec::new();
//! while reader.next_chunk(&mut chunk)? {
//!     assert_eq!(chunk.len(), 2);
//! }
//! assert_eq!(reader.totals(), Some(&totals));
//! # Ok::<(), rtalloc_lab::trace::TraceError>(())
//! ```

mod cut;
mod error;
mod format;
mod ledger;
mod meta;
mod reader;
mod slots;
mod survey;
#[cfg(test)]
mod tests;
mod writer;

pub use cut::{Cut, at_most};
pub use error::{TraceError, Violation};
pub(crate) use format::MAGIC;
pub use format::{CHUNK_EVENTS, FORMAT_VERSION, MAX_SIZE_BYTES, MAX_SLOTS, MAX_THREADS};
pub use meta::{Cause, Incomplete, Meta, Origin, TickUnit, Totals};
pub use reader::Reader;
pub use slots::SlotTable;
pub use survey::{Bin, Fingerprint, Lifetimes, Reallocations, Spread, Survey, ThreadFacts, survey, survey_with};
pub use writer::Writer;

/// One operation of a program on its heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time of the operation in the trace's tick unit, never decreasing.
    pub tick: u64,
    /// Dense number of the thread that called, from 0.
    pub thread: u32,
    /// The request.
    pub op: Op,
}

/// The operation of an [`Event`]. A *slot* names a live block: dense numbers from 0, the most recently freed one is
/// reused first, so the largest slot + 1 is the largest number of blocks live at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `malloc`, `calloc`, `aligned_alloc`: `slot` was free and is live afterwards.
    Allocate {
        /// The block's name.
        slot: u32,
        /// Requested size in bytes, at least 1.
        size: u64,
        /// Requested alignment in bytes, a power of two.
        align: u32,
    },
    /// `realloc` of a live block: its content survives up to the smaller size.
    Reallocate {
        /// The block's name, before and after.
        slot: u32,
        /// New requested size in bytes, at least 1.
        size: u64,
        /// Alignment in bytes, a power of two (that of the first allocation).
        align: u32,
    },
    /// `free`: `slot` was live and is free afterwards.
    Free {
        /// The block's name.
        slot: u32,
    },
}
