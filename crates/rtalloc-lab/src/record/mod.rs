//! Recording: from a running program to a trace.
//!
//! ```text
//! RawLog::create -> launch(program, with the recorder preloaded) -> convert(raw log) -> trace
//! ```
//!
//! The recorder itself is the crate `rtalloc-preload`; the raw log's [`layout`] is the interface between the two.
//! However the program ends (a return, a signal, a full disk), the log up to there becomes the trace.

mod convert;
mod diagnose;
mod launch;
mod log;

/// The layout of the raw log, one source for both sides.
#[path = "../../../rtalloc-preload/src/layout.rs"]
pub mod layout;

pub use convert::{Findings, convert, incomplete};
pub use diagnose::{Obstacle, obstacle, resolve};
pub use launch::{exit_code, launch};
pub use log::{DEFAULT_LIMIT_BYTES, RawLog, RawReader, RawRecord, Step, StopReason};

use crate::trace::TraceError;
use std::io;
use std::path::PathBuf;

/// Why a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A temporary file could not be created.
    #[error("cannot {action} {}; choose a directory with free space with --log-directory", path.display())]
    Temporary {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The raw log could not be read back.
    #[error("cannot read the raw log {}", path.display())]
    Log {
        /// The log.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is not a raw log.
    #[error("{} is not a raw log of this version of rtalloc", path.display())]
    ForeignLog {
        /// The file.
        path: PathBuf,
    },
    /// The program did not start.
    #[error("cannot run {program}; check its name, or give its path")]
    Start {
        /// The program as called.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The trace could not be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
}
