//! Performs sequences: one region, a fresh heap for each sequence, every operation reported with its count.

use super::scenario::{self, Scenario};
use super::{Meter, Observation, Operation, Request, Script};
use crate::replay::{Fault, NoObserver, Observer, Replay};
use crate::trace::TraceError;
use rtalloc_subjects::{Entries, Heap, Refusal, Region, Subject};
use std::{fmt, io};

/// Why nothing can be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The subject takes its own pages: its heap cannot be created afresh.
    #[error("no fresh heap of {0} can be created for each sequence")]
    OwnPages(&'static str),
    /// The subject's state is not in its region, or cannot be read.
    #[error("{0} keeps state outside its region, so its states cannot be distinguished and restored")]
    NoView(&'static str),
    /// No memory for the region.
    #[error("no memory for a heap: {0}")]
    Memory(#[from] io::Error),
    /// The allocator refused the heap.
    #[error("{0}")]
    Refusal(#[from] Refusal),
    /// The heap is too small for what a scenario arranges.
    #[error("a heap of {heap_bytes} bytes is too small for the scenario \"{scenario}\"")]
    NoRoom {
        /// Its name.
        scenario: &'static str,
        /// Size of the heap.
        heap_bytes: usize,
    },
    /// The trace cannot be read.
    #[error("the trace cannot be read: {0}")]
    Trace(#[from] TraceError),
    /// The allocator is broken.
    #[error("{fault}; in: {scene}")]
    Fault {
        /// The performed sequence.
        scene: String,
        /// The allocator's error.
        fault: Fault,
    },
}

/// A subject, memory for its heaps, and a meter.
#[derive(Debug)]
pub struct Stage<'a, M> {
    subject: Subject,
    region: Region,
    meter: &'a M,
    verifying: bool,
}

impl<'a, M: Meter> Stage<'a, M> {
    /// A stage for a subject with room for heaps of the papers' size; to count instructions, its entry points must be
    /// those that `meter` reads.
    ///
    /// # Errors
    ///
    /// [`ObserveError::OwnPages`] and [`ObserveError::Memory`].
    pub fn new(subject: &Subject, meter: &'a M) -> Result<Self, ObserveError> {
        Self::with_room(subject, meter, scenario::HEAP_BYTES)
    }

    /// As [`new`](Self::new), with room for heaps of `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`ObserveError::OwnPages`] and [`ObserveError::Memory`].
    pub fn with_room(subject: &Subject, meter: &'a M, bytes: usize) -> Result<Self, ObserveError> {
        if subject.own_pages {
            return Err(ObserveError::OwnPages(subject.name));
        }
        let region = Region::new(bytes, false)?;
        Ok(Self { subject: *subject, region, meter, verifying: false })
    }

    /// Verifies the subject's results as in a verifying replay, which writes into the blocks.
    #[must_use]
    pub fn verifying(mut self) -> Self {
        self.verifying = true;
        self
    }

    /// The meter.
    #[must_use]
    pub fn meter(&self) -> &'a M {
        self.meter
    }

    /// The subject.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether the subject can create a heap of `heap_bytes`.
    pub(super) fn accepts(&mut self, heap_bytes: usize) -> bool {
        Heap::new(&self.subject, &mut self.region, heap_bytes).is_ok()
    }

    /// The operations of a scenario in a heap of `heap_bytes`.
    ///
    /// # Errors
    ///
    /// As [`Scenario::script`].
    pub fn rehearse(&mut self, scenario: &Scenario, heap_bytes: usize) -> Result<Script, ObserveError> {
        scenario.script(&self.subject, &mut self.region, heap_bytes)
    }

    /// Performs a script on a fresh heap of `heap_bytes`, with only the last operation through counting entry points:
    /// for heaps of millions of blocks. `before` is called with the heap before the last operation.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Refusal`] and [`ObserveError::Fault`].
    pub fn perform_last<S: FnMut(&Observation<'_>)>(
        &mut self,
        heap_bytes: usize,
        script: &Script,
        counting: Entries,
        scene: &dyn fmt::Display,
        before: impl FnOnce(&Heap<'_>),
        sink: &mut S,
    ) -> Result<(), ObserveError> {
        let fault = |fault| ObserveError::Fault { scene: scene.to_string(), fault };
        let mut heap = Heap::new(&self.subject, &mut self.region, heap_bytes)?;
        let mut replay = Replay::new();
        let (preparation, last) = script.events().split_at(script.events().len().saturating_sub(1));
        replay.run::<false, _>(&heap, preparation, &mut NoObserver).map_err(fault)?;
        before(&heap);
        heap.entries = counting;
        let mut metered = Metered { meter: self.meter, sink, scene, index: preparation.len() as u64 };
        replay.run::<false, _>(&heap, last, &mut metered).map_err(fault)
    }

    /// Performs a script on a fresh heap of `heap_bytes`, and passes every operation to `sink`.
    ///
    /// # Errors
    ///
    /// [`ObserveError::Refusal`] and [`ObserveError::Fault`].
    pub fn perform<S: FnMut(&Observation<'_>)>(
        &mut self,
        heap_bytes: usize,
        script: &Script,
        scene: &dyn fmt::Display,
        sink: &mut S,
    ) -> Result<(), ObserveError> {
        let heap = Heap::new(&self.subject, &mut self.region, heap_bytes)?;
        let mut replay = Replay::new();
        let mut metered = Metered { meter: self.meter, sink, scene, index: 0 };
        let performed = if self.verifying {
            replay.run::<true, _>(&heap, script.events(), &mut metered)
        } else {
            replay.run::<false, _>(&heap, script.events(), &mut metered)
        };
        performed.map_err(|fault| ObserveError::Fault { scene: scene.to_string(), fault })
    }
}

/// The observer that counts every operation.
pub(super) struct Metered<'a, M, S> {
    pub(super) meter: &'a M,
    pub(super) sink: &'a mut S,
    pub(super) scene: &'a dyn fmt::Display,
    pub(super) index: u64,
}

impl<M: Meter, S: FnMut(&Observation<'_>)> Metered<'_, M, S> {
    #[inline(always)]
    fn note(&mut self, before: u64, operation: Operation, request: Request, served: bool) {
        let instructions = self.meter.executed() - before;
        let (index, scene) = (self.index, self.scene);
        (self.sink)(&Observation { operation, instructions, index, request, served, scene });
    }
}

impl<M: Meter, S: FnMut(&Observation<'_>)> Observer for Metered<'_, M, S> {
    #[inline(always)]
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let (entry, operation) = if heap.entries.is_natural(align) {
            (heap.entries.allocate, Operation::Allocate)
        } else {
            (heap.entries.allocate_aligned, Operation::AllocateAligned)
        };
        let before = self.meter.executed();
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        let block = unsafe { entry(heap.context, size, align) };
        self.note(before, operation, Request::Allocate { size, align }, !block.is_null());
        block
    }

    #[inline(always)]
    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let before = self.meter.executed();
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) };
        self.note(before, Operation::Deallocate, Request::Deallocate { size }, true);
    }

    #[inline(always)]
    unsafe fn reallocate(&mut self, heap: &Heap<'_>, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        let before = self.meter.executed();
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        let moved = unsafe { (heap.entries.reallocate)(heap.context, block, old, align, new) };
        self.note(before, Operation::Reallocate, Request::Reallocate { old, new, align }, !moved.is_null());
        moved
    }

    #[inline(always)]
    fn before(&mut self, index: u64) {
        self.index = index;
    }
}
