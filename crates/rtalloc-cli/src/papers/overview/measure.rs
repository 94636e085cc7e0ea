//! The selection criteria for all allocators: the static bounds of their operations, and the smallest heap that serves
//! each of several traces.

use crate::papers::overview::result::{Bounds, Need, Overview, Row};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks, found};
use rtalloc_lab::catalogue;
use rtalloc_lab::experiment::cells::survey_of;
use rtalloc_lab::observe::Operation;
use rtalloc_lab::observe::scenario::HEAP_BYTES;
use rtalloc_lab::probe::{self, Report, space};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::processor::Budget;
use rtalloc_lab::replay::settings::automatic_heap_bytes;
use rtalloc_lab::result::schema::Outcome;
use rtalloc_subjects::Subject;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for one trace on one allocator: far more than needed, because a search that reaches the limit has no
/// result.
const LIMIT: Duration = Duration::from_secs(3600);

/// The operations that are compared.
const OPERATIONS: [Operation; 2] = [Operation::Allocate, Operation::Deallocate];

/// Every allocator on every trace.
pub struct Everybody<'a> {
    /// The static bounds.
    pub analysis: &'a Analysis,
    /// The allocators.
    pub subjects: Vec<&'static Subject>,
    /// The traces, by name.
    pub traces: Vec<(&'static str, PathBuf)>,
}

impl Everybody<'_> {
    /// The traces of an allocator: none if its heap size cannot be set.
    fn traces_of(&self, subject: &Subject) -> &[(&'static str, PathBuf)] {
        if subject.own_pages { &[] } else { &self.traces }
    }

    /// The subject of each task: an allocator, and a trace or its bounds.
    fn plan(&self) -> Vec<(&'static Subject, Option<&(&'static str, PathBuf)>)> {
        let of = |subject: &&'static Subject| {
            let subject = *subject;
            std::iter::once((subject, None))
                .chain(self.traces_of(subject).iter().map(move |trace| (subject, Some(trace))))
        };
        self.subjects.iter().flat_map(of).collect()
    }

    fn bounds(&self, subject: &Subject) -> Bounds {
        let limits = self.analysis.limits(subject);
        Bounds {
            in_heap: OPERATIONS.map(|operation| self.analysis.limit_in_heap(subject, operation)),
            in_largest: OPERATIONS.map(|operation| limits[operation as usize]),
        }
    }
}

/// The smallest heap for a trace.
fn need(subject: &Subject, trace: &PathBuf, board: &Board) -> Need {
    let survey = match survey_of(trace) {
        Ok(survey) => survey,
        Err(error) => return broken(&error.to_string()),
    };
    let peak_live_bytes = survey.totals.peak_live_bytes;
    let task = probe::Task {
        trace,
        events: survey.totals.events,
        peak_live_bytes,
        subject,
        heap_bytes: automatic_heap_bytes(peak_live_bytes) as usize,
        budget: Budget::new(LIMIT),
        board,
    };
    let Report { outcome, figures } = space::measure(&task, true);
    Need { outcome, peak_live_bytes, smallest_heap_bytes: figures.and_then(|space| space.smallest_heap_bytes) }
}

fn broken(what: &str) -> Need {
    Need { outcome: Outcome::Broken { what: what.into() }, peak_live_bytes: 0, smallest_heap_bytes: None }
}

impl Tasks for Everybody<'_> {
    fn name(&self) -> &'static str {
        "overview"
    }

    fn tasks(&self) -> Vec<Task> {
        let task = |(subject, trace): (&Subject, Option<&(&str, PathBuf)>)| {
            /// Proportional to the size of the trace's file, about 1.5 bytes per operation.
            const BYTES_A_SECOND: u64 = 150_000;
            let what = trace.map_or_else(|| "bounds".into(), |(name, _)| format!("smallest heap for {name}"));
            let bytes = trace.and_then(|(_, path)| path.metadata().ok()).map_or(0, |file| file.len());
            let key = format!("overview {} {what}", subject.name);
            Task { limit: LIMIT, ..Task::counted(key, bytes / BYTES_A_SECOND) }
        };
        self.plan().into_iter().map(task).collect()
    }

    fn perform(&self, number: usize, board: &Board) -> Value {
        match self.plan()[number] {
            (subject, None) => found(&self.bounds(subject)),
            (subject, Some((_, trace))) => found(&need(subject, trace, board)),
        }
    }

    fn died(&self, number: usize, what: &str) -> Option<Value> {
        self.plan()[number].1.map(|_| found(&broken(what)))
    }
}

impl Everybody<'_> {
    /// Combines the results of all tasks, in their order.
    pub(crate) fn conclude(&self, kept: Vec<Kept>) -> anyhow::Result<Overview> {
        let mut kept = kept.into_iter();
        let mut rows = Vec::new();
        for subject in &self.subjects {
            let mut own = kept.by_ref().take(1 + self.traces_of(subject).len());
            let bounds = own.next().map(|kept| serde_json::from_value(kept.result)).transpose()?.unwrap_or_default();
            let needs = campaign::results(own.collect())?;
            rows.push(Row { subject: catalogue::facts(subject), bounds, needs });
        }
        let traces = self.traces.iter().map(|(name, _)| (*name).into()).collect();
        Ok(Overview { heap_bytes: HEAP_BYTES as u64, traces, rows })
    }
}
