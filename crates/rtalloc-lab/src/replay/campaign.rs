//! Every trace on every subject: the plan of a run, and its results put together.

use super::settings::Settings;
use crate::result::schema::Run;
use crate::subject::Subject;
use crate::trace::TraceError;
use std::path::PathBuf;

/// How far a campaign is. A *step* is one probe on one cell.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Steps done.
    pub done: u64,
    /// Steps in all.
    pub total: u64,
    /// What was done last, e.g. "lua / talc / space".
    pub last: &'a str,
}

/// A campaign that could not take place.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// A trace could not be read.
    #[error("{}: {source}", path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// What is wrong with it.
        source: TraceError,
    },
    /// The system refused a process, a pipe or memory.
    #[error("the system refused to {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// Replays every trace on every subject and returns what was measured. Each cell works in processes of its own: a
/// subject that crashes, hangs or fails is a result.
///
/// The calling process should have one thread only: the cells are forked from it.
///
/// # Errors
///
/// A trace that cannot be read, or a system without processes to spare.
pub fn measure(
    _traces: &[PathBuf],
    _subjects: &[&'static Subject],
    _settings: &Settings,
    _progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Run, CampaignError> {
    let source = std::io::ErrorKind::Unsupported.into();
    Err(CampaignError::System { action: "measure before this is built", source })
}
