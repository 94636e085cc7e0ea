//! Counting the instructions that code executes, exactly and at its own speed.
//!
//! A [`Counter`] is a copy of the code of a [`Graph`] in executable memory, with counting in front of, or within, each basic
//! block. Counting changes no flag and no register that is read later, and nothing on the stack nor below it. Each thread has
//! a count of its own, which [`executed`] reads; what a call executed is the difference:
//!
//! ```no_run
//! # use pathbound::{counter::{Counter, Record, executed}, graph::NeverReturns, Graph, Process};
//! # extern "C" fn double(x: u64) -> u64 { 2 * x }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let process = Process::current()?;
//! let function = double as extern "C" fn(u64) -> u64 as usize as u64;
//! let graph = Graph::explore(&process, &[function], &NeverReturns::default())?;
//! let counter = Counter::new(&process, &graph, Record::Count)?;
//! let copy = counter.entry(function).expect("the function is in the graph");
//! // SAFETY: the copy of a function is called as the function.
//! let copy: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(copy) };
//! let before = executed();
//! let result = copy(21);
//! println!("{result}, in {} instructions", executed() - before);
//! # Ok(())
//! # }
//! ```
//!
//! Counted is from the entry's first instruction to its return, both included. A repeated string instruction counts one, and
//! so does a call of the kernel. Uncounted is:
//! - what computed jumps and calls lead to outside of the graph: [`Counter::misses`] says where, so that a larger graph can
//!   be explored with these as further entries;
//! - what follows an instruction of the graph that cannot be copied, such as the beginning of a transaction, until the function
//!   returns: [`Counter::departures`] says which it was;
//! - calls that never return: the process ends, or unwinds, in the original code. There is no unwind information for the copy,
//!   so a panic in it aborts;
//! - what signal handlers do.
//!
//! A count is exact if there are neither misses nor departures. A signal handler must not call a counter's copy while the thread
//! it interrupts is in one. Code that looks at its own return addresses sees those of the copy.

mod coverage;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod copy;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod dispatch;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod emit;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod original;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod place;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod plan;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod room;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod slots;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod write;

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod unsupported;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use copy::Copy;
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
use unsupported::Copy;

pub use coverage::Coverage;

use crate::graph::Graph;
use crate::image::Process;
use std::collections::BTreeSet;
use std::ffi::c_void;

/// What a counter records besides the count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Record {
    /// Nothing.
    #[default]
    Count,
    /// Which blocks and edges are executed.
    Coverage,
}

/// Why there is no counter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// Another processor or system.
    #[error("instructions can be counted on x86-64 Linux only")]
    Unsupported,
    /// Threads have their counts at different distances from their control blocks.
    #[error("counting needs to be linked into the program, not loaded into it later")]
    ThreadLocal,
    /// Code that is in no loaded program or library.
    #[error("the code at {address:#x} belongs to no loaded program or library")]
    NoObject {
        /// The code.
        address: u64,
    },
    /// The code is not that of the graph.
    #[error("at {address:#x} there is other code than in the graph")]
    DifferentCode {
        /// The code, or where a jump of the graph goes.
        address: u64,
    },
    /// There is no free memory near the code.
    #[error("there is no free memory within 2 GiB of the code at {near:#x}")]
    NoRoom {
        /// The program or library.
        near: u64,
    },
    /// The copy cannot address what the original does.
    #[error("{address:#x} is too far away to be addressed from a copy")]
    OutOfReach {
        /// What is addressed, or the instruction that addresses it.
        address: u64,
    },
    /// The copy would be too large.
    #[error("the copy would exceed 2 GiB")]
    TooLarge,
    /// The system refused memory.
    #[error("the system refused executable memory (error {errno})")]
    System {
        /// Its reason.
        errno: i32,
    },
}

/// A copy of the code of a graph that counts its own instructions.
///
/// Any thread may call the copy, several at a time, and counts its own instructions. Dropping the counter removes the copy: no
/// thread may be in it then, nor call it later.
#[derive(Debug)]
pub struct Counter {
    copy: Copy,
}

impl Counter {
    /// Rewrites the code of a graph of this process.
    ///
    /// # Errors
    ///
    /// [`CounterError`]: all of it concerns the machine or the graph; what only executions show is not an error but in
    /// [`misses`](Self::misses) and [`departures`](Self::departures).
    pub fn new(process: &Process, graph: &Graph, record: Record) -> Result<Self, CounterError> {
        Copy::new(process, graph, record).map(|copy| Self { copy })
    }

    /// Where the copy of a function of the graph begins; `None` for what is not a function of the graph.
    ///
    /// It is to be called as the original is, as long as the counter exists.
    #[must_use]
    pub fn entry(&self, function: u64) -> Option<*const c_void> {
        self.copy.entry(function)
    }

    /// Targets of computed jumps and calls, and of returns, that are not in the graph: what they led to was not counted. Of
    /// many, some may be missing: a graph that has these as further entries shows the others.
    #[must_use]
    pub fn misses(&self) -> BTreeSet<u64> {
        self.copy.misses()
    }

    /// Instructions of the graph that were reached but cannot be executed in a copy: what followed was not counted.
    #[must_use]
    pub fn departures(&self) -> BTreeSet<u64> {
        self.copy.departures()
    }

    /// Which marks the copy left, in all threads, since the counter was made or [`clear_coverage`](Self::clear_coverage) was
    /// called last. It replaces what `into` held. This costs about a nanosecond for each block of the graph;
    /// [`instructions`](Self::instructions) and [`edges`](Self::edges) say later what the marks mean.
    pub fn coverage(&self, into: &mut Coverage) {
        self.copy.coverage(into);
    }

    /// Forgets what was covered.
    pub fn clear_coverage(&self) {
        self.copy.clear_coverage();
    }

    /// Instructions that were executed according to a coverage of this counter. One behind a call that did not come back is
    /// among them if it is in the same block.
    #[must_use]
    pub fn instructions(&self, coverage: &Coverage) -> BTreeSet<u64> {
        self.copy.instructions(coverage)
    }

    /// Edges between blocks that were executed according to a coverage of this counter: from the last instruction of one to
    /// the first of the next.
    #[must_use]
    pub fn edges(&self, coverage: &Coverage) -> BTreeSet<(u64, u64)> {
        self.copy.edges(coverage)
    }

    /// Instructions that were executed, as [`coverage`](Self::coverage) knows now. Nothing where only counts are recorded.
    #[must_use]
    pub fn covered(&self) -> BTreeSet<u64> {
        let mut coverage = Coverage::default();
        self.coverage(&mut coverage);
        self.instructions(&coverage)
    }

    /// Edges between blocks that were executed, as [`coverage`](Self::coverage) knows now.
    #[must_use]
    pub fn covered_edges(&self) -> BTreeSet<(u64, u64)> {
        let mut coverage = Coverage::default();
        self.coverage(&mut coverage);
        self.edges(&coverage)
    }
}

/// Instructions that copies have counted in this thread since it began: a load from memory.
#[inline(always)]
#[must_use]
pub fn executed() -> u64 {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return slots::executed();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    return unsupported::executed();
}
