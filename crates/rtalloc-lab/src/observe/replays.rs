//! Whole traces, of programs and of models, replayed on a watched subject.

use super::stage::Metered;
use super::{Meter, Observation, ObserveError};
use crate::replay::Replay;
use crate::replay::isolate::Board;
use crate::replay::processor::Budget;
use crate::replay::whole_trace::{End, WholeTrace, WholeTraceError};
use rtalloc_subjects::{Heap, Region, Subject};
use std::path::Path;

/// Replays a trace in a heap of `heap_bytes`, and passes every operation to `sink`. Returns false if the budget ran out
/// first: an allocator whose operations are not bounded may take arbitrarily long.
///
/// # Errors
///
/// [`ObserveError`]: no memory, a refused heap, a broken allocator, a trace that cannot be read.
pub fn drive<M: Meter>(
    subject: &Subject,
    meter: &M,
    trace: &Path,
    name: &str,
    heap_bytes: usize,
    budget: Budget,
    mut sink: impl FnMut(&Observation<'_>),
) -> Result<bool, ObserveError> {
    let mut region = Region::new(heap_bytes, false)?;
    let heap = Heap::new(subject, &mut region, heap_bytes)?;
    let board = Board::new()?;
    let mut metered = Metered { meter, sink: &mut sink, scene: &name, index: 0 };
    let whole_trace = WholeTrace { trace, budget, board: &board };
    match whole_trace.run::<false, false, _>(&heap, &mut Replay::new(), &mut metered) {
        Ok(end) => Ok(end != End::TimedOut),
        Err(WholeTraceError::Fault(fault)) => Err(ObserveError::Fault { scene: name.into(), fault }),
        Err(WholeTraceError::Trace(error)) => Err(ObserveError::Trace(error)),
    }
}
