//! Metadata of a trace: [`Meta`] at its head, [`Totals`] at its end.

use crate::number::grouped;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The subject and origin of a trace; stored as JSON in the file's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Short name: the program or the model.
    pub name: String,
    /// One-line description of what was running.
    pub about: String,
    /// How to obtain the same trace again.
    pub origin: Origin,
    /// What [`Event::tick`](super::Event::tick) counts.
    pub tick_unit: TickUnit,
    /// Unix time of the recording in seconds. `None` in generated traces: they are reproduced bit for bit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_unix_seconds: Option<u64>,
    /// Why a recording is incomplete; `None` if it is complete, and in traces from before this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<Incomplete>,
}

/// What a recording lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incomplete {
    /// Why.
    pub cause: Cause,
    /// Operations that are missing; `None` where that is unknown.
    pub missing: Option<u64>,
    /// The signal that ended the program, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
}

/// Why a recording is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The raw log reached its size limit.
    LogLimit,
    /// The disk of the raw log was full.
    DiskFull,
    /// The kernel was too old to record.
    KernelTooOld,
    /// A signal ended the program.
    Killed,
    /// The program ended in the middle of operations.
    Unfinished,
    /// A flight recorder holds only the last operations.
    Overwritten,
    /// A flight recorder was overwritten.
    Damaged,
    /// An imported log is not complete.
    LogLines,
    /// An imported log holds only the blocks that were still live.
    LiveOnly,
    /// A cause defined by a later version.
    #[serde(other)]
    Other,
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Cause::LogLimit => "the raw log reached its limit",
            Cause::DiskFull => "the disk of the raw log was full",
            Cause::KernelTooOld => "the kernel was older than Linux 4.14",
            Cause::Killed => "the program was killed",
            Cause::Unfinished => "the program ended in the middle of operations",
            Cause::Overwritten => "the flight recorder holds only the last operations",
            Cause::Damaged => "the flight recorder was overwritten",
            Cause::LogLines => "the log is not complete",
            Cause::LiveOnly => "the log holds only the blocks that were still live",
            Cause::Other => "a cause that this version of rtalloc does not know",
        })?;
        if let Some(signal) = self.signal {
            write!(f, " (signal {signal} ended the program)")?;
        }
        match self.missing {
            Some(0) => f.write_str("; every operation up to there is in the trace"),
            Some(1) => f.write_str("; 1 operation is missing"),
            Some(missing) => write!(f, "; {} operations are missing", grouped(missing)),
            None => f.write_str("; how many operations are missing is unknown"),
        }
    }
}

/// How to obtain the same trace again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// Recorded from a running program.
    Program {
        /// The program and its arguments as they were called.
        command: Vec<String>,
    },
    /// Generated: the model, the seed and the parameters determine every event.
    Model {
        /// Name as in `rtalloc generate`.
        model: String,
        /// Seed of the random numbers.
        seed: u64,
        /// The random number generator and how it was seeded.
        random: String,
        /// Every parameter, including defaults, with its unit in the name.
        parameters: BTreeMap<String, String>,
    },
}

/// The unit of a trace's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TickUnit {
    /// Nanoseconds of a monotonic clock.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Steps of the model's own clock.
    #[serde(rename = "logical")]
    Logical,
}

impl TickUnit {
    /// The unit as text after a number: "ns" or "ticks".
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            TickUnit::Nanoseconds => "ns",
            TickUnit::Logical => "ticks",
        }
    }
}

/// Sums over a whole trace. The writer stores them in the end record; the reader recomputes and compares them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Operations of every kind.
    pub events: u64,
    /// `malloc` and its relatives.
    pub allocations: u64,
    /// `free`.
    pub frees: u64,
    /// `realloc` of a live block.
    pub reallocations: u64,
    /// Threads that called.
    pub threads: u32,
    /// Slots used: every slot of the trace is below this number.
    pub slots: u32,
    /// M: largest sum of the requested sizes of the live blocks, bytes.
    pub peak_live_bytes: u64,
    /// Largest number of live blocks.
    pub peak_live_blocks: u64,
    /// n: largest single request, bytes.
    pub largest_request_bytes: u64,
    /// Sum of all requested sizes of allocations and reallocations, bytes.
    pub requested_bytes: u64,
}
