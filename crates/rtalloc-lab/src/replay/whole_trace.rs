//! Replays a whole trace: reads it, performs it, and checks the processor time.

use super::isolate::Board;
use super::processor::Budget;
use super::{Fault, Observer, Replay};
use crate::result::schema::Outcome;
use crate::trace::{Event, Reader, TraceError};
use rtalloc_subjects::Heap;
use std::path::Path;

/// Operations between two checks of the clock.
const STRIDE: usize = 1024;

/// The source of a replay's operations, and its time limit.
#[derive(Clone, Copy, Debug)]
pub struct WholeTrace<'a> {
    /// The trace.
    pub trace: &'a Path,
    /// Limit of its processor time.
    pub budget: Budget,
    /// Where progress is reported.
    pub board: &'a Board,
}

/// How a replay ended that found no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the end of the trace.
    Completed,
    /// When the budget was spent.
    TimedOut,
    /// At the first refused request, if requested.
    Refused,
}

/// Why a replay cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum WholeTraceError {
    /// The trace cannot be read.
    #[error("the trace cannot be read: {0}")]
    Trace(#[from] TraceError),
    /// The allocator is broken.
    #[error("{0}")]
    Fault(#[from] Fault),
}

impl WholeTrace<'_> {
    /// Replays the trace. `VERIFYING` as in [`Replay::run`]; `FIRM` stops at the first refused request.
    ///
    /// # Errors
    ///
    /// [`WholeTraceError`].
    pub fn run<const VERIFYING: bool, const FIRM: bool, O: Observer>(
        &self,
        heap: &Heap<'_>,
        replay: &mut Replay,
        observer: &mut O,
    ) -> Result<End, WholeTraceError> {
        let mut reader = Reader::open(self.trace)?;
        let mut events = Vec::new();
        while reader.next_chunk(&mut events)? {
            for stride in events.chunks(STRIDE) {
                self.step::<VERIFYING, O>(heap, stride, replay, observer)?;
                if FIRM && replay.refused() > 0 {
                    return Ok(End::Refused);
                }
                if self.budget.is_spent() {
                    return Ok(End::TimedOut);
                }
            }
        }
        Ok(End::Completed)
    }

    /// Performs one stride. The current operation is reported on the board, in case it does not return.
    fn step<const VERIFYING: bool, O: Observer>(
        &self,
        heap: &Heap<'_>,
        events: &[Event],
        replay: &mut Replay,
        observer: &mut O,
    ) -> Result<(), Fault> {
        replay.run::<VERIFYING, _>(heap, events, &mut Noted { board: self.board, observer })
    }
}

/// The outcome of a replay that ended in this way.
#[must_use]
pub fn outcome(end: End, replay: &Replay) -> Outcome {
    match (end, replay.first_refused()) {
        (End::TimedOut, _) => Outcome::TimedOut { at: replay.index() },
        (_, Some(first)) => Outcome::Failures { failed: replay.refused(), first, beyond_reach: replay.beyond_reach() },
        (End::Completed | End::Refused, None) => Outcome::Completed,
    }
}

/// An observer whose operations are first reported on a board.
pub(crate) struct Noted<'a, O> {
    pub(crate) board: &'a Board,
    pub(crate) observer: &'a mut O,
}

impl<O: Observer> Observer for Noted<'_, O> {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the caller's guarantee is passed on unchanged.
        unsafe { self.observer.allocate(heap, size, align) }
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the caller's guarantee is passed on unchanged.
        unsafe { self.observer.deallocate(heap, block, size, align) }
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: the caller's guarantee is passed on unchanged.
        unsafe { self.observer.reallocate(heap, block, old, align, new) }
    }

    #[inline(always)]
    fn before(&mut self, index: u64) {
        self.board.at(index);
        self.observer.before(index);
    }

    #[inline(always)]
    fn granted(&mut self, heap: &Heap<'_>, index: u64, block: &super::Block, old_size: Option<usize>) {
        self.observer.granted(heap, index, block, old_size);
    }

    #[inline(always)]
    fn freed(&mut self, index: u64, block: &super::Block) {
        self.observer.freed(index, block);
    }

    #[inline(always)]
    fn refused(&mut self, index: u64, beyond_reach: bool) {
        self.observer.refused(index, beyond_reach);
    }

    #[inline(always)]
    fn left_out(&mut self, index: u64) {
        self.observer.left_out(index);
    }
}
