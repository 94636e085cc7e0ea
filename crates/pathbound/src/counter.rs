//! Counts the instructions that code executes, exactly and at nearly native speed.
//!
//! A [`Counter`] is a copy of the code of a [`Graph`] in executable memory, with code that counts before or within each
//! basic block. Counting changes no flag and no register that is read later, and nothing on or below the stack. Each
//! thread has its own count, which [`executed`] reads; a call's instructions are the difference:
//!
//! ```no_run
//! # use pathbound::{counter::{Counter, Record, executed}, graph::NeverReturns, Graph, Process};
//! # extern "C" fn double(x: u64) -> u64 { 2 * x }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let process = Process::current()?;
//! let function = double as extern "C" fn(u64) -> u64 as usize as u64;
//! let graph = Graph::explore_to_count(&process, &[function], &NeverReturns::default())?;
//! let counter = Counter::new(&process, &graph, Record::Count)?;
//! let copy = counter.entry(function).expect("the function is in the graph");
//! // SAFETY: the copy has the signature of the function, and `counter` is still alive.
//! let copy: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(copy) };
//! let before = executed();
//! let result = copy(21);
//! println!("{result}, in {} instructions", executed() - before);
//! # Ok(())
//! # }
//! ```
//!
//! A count runs from the entry's first instruction to its return, both included. A repeated string instruction counts
//! as one, and so does a system call. Not counted are:
//! - code outside the graph that computed jumps and calls lead to: [`Counter::misses`] lists its addresses, so that a
//!   larger graph can be explored with these as further entries;
//! - code after an instruction of the graph that cannot be copied, such as the beginning of a transaction, until the
//!   function returns: [`Counter::departures`] lists such instructions;
//! - calls that never return: the process ends, or unwinds, in the original code. There is no unwind information for
//!   the copy, so a panic in it aborts;
//! - signal handlers.
//!
//! A count is exact if there are neither misses nor departures. A signal handler must not call a counter's copy while
//! the thread it interrupts is in one. Code that looks at its own return addresses sees those of the copy.

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

/// Why a counter cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CounterError {
    /// The processor or system is not supported.
    #[error("instructions can be counted on x86-64 Linux only")]
    Unsupported,
    /// The counts of threads are at different offsets from their control blocks.
    #[error("counting does not work in a library that is loaded at run time: link it into the program")]
    ThreadLocal,
    /// The code is in no loaded program or library.
    #[error("the code at {address:#x} belongs to no loaded program or library")]
    NoObject {
        /// The code.
        address: u64,
    },
    /// The code is not that of the graph.
    #[error("the code at {address:#x} is not that of the graph: explore the graph again")]
    DifferentCode {
        /// The code, or the target of a jump in the graph.
        address: u64,
    },
    /// There is no free memory near the code.
    #[error("there is no free memory within 2 GiB of the code at {near:#x}")]
    NoRoom {
        /// The program or library.
        near: u64,
    },
    /// The copy cannot address what the original does.
    #[error("{address:#x} is too far from the copy to be addressed")]
    OutOfReach {
        /// What is addressed, or the instruction that addresses it.
        address: u64,
    },
    /// The copy would be too large.
    #[error("the copy would exceed 2 GiB: explore fewer functions")]
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
/// Threads may call the copy concurrently; each counts its own instructions. Dropping the counter unmaps the copy: no
/// thread may be executing it then, or call it later.
#[derive(Debug)]
pub struct Counter {
    copy: Copy,
}

impl Counter {
    /// Rewrites the code of a graph of this process.
    ///
    /// # Errors
    ///
    /// [`CounterError`], for problems of the machine or the graph. What only executions show is reported by
    /// [`misses`](Self::misses) and [`departures`](Self::departures) instead.
    pub fn new(process: &Process, graph: &Graph, record: Record) -> Result<Self, CounterError> {
        Copy::new(process, graph, record).map(|copy| Self { copy })
    }

    /// The first instruction of the copy of a function; `None` if the function is not in the graph.
    ///
    /// It is called like the original, and only while the counter exists.
    #[must_use]
    pub fn entry(&self, function: u64) -> Option<*const c_void> {
        self.copy.entry(function)
    }

    /// Targets of computed jumps and calls, and of returns, that are not in the graph: the code there was not counted.
    /// If there are many, some may be missing: a graph with these as further entries shows the others.
    #[must_use]
    pub fn misses(&self) -> BTreeSet<u64> {
        self.copy.misses()
    }

    /// Instructions that were reached but cannot be executed in a copy: the code after them was not counted.
    #[must_use]
    pub fn departures(&self) -> BTreeSet<u64> {
        self.copy.departures()
    }

    /// Reads the marks that the copy set, in all threads, since the counter was made or
    /// [`clear_coverage`](Self::clear_coverage) was last called, and replaces the content of `into`. This costs about a
    /// nanosecond for each block of the graph; [`instructions`](Self::instructions) and [`edges`](Self::edges)
    /// interpret the marks later.
    pub fn coverage(&self, into: &mut Coverage) {
        self.copy.coverage(into);
    }

    /// Clears all marks.
    pub fn clear_coverage(&self) {
        self.copy.clear_coverage();
    }

    /// Instructions that were executed according to a coverage of this counter. One after a call that did not return is
    /// included if it is in the same block.
    #[must_use]
    pub fn instructions(&self, coverage: &Coverage) -> BTreeSet<u64> {
        self.copy.instructions(coverage)
    }

    /// Edges between blocks that were executed according to a coverage of this counter: from the last instruction of
    /// one to the first of the next.
    #[must_use]
    pub fn edges(&self, coverage: &Coverage) -> BTreeSet<(u64, u64)> {
        self.copy.edges(coverage)
    }

    /// Instructions that were executed so far, by [`coverage`](Self::coverage). Empty if only counts are recorded.
    #[must_use]
    pub fn covered(&self) -> BTreeSet<u64> {
        let mut coverage = Coverage::default();
        self.coverage(&mut coverage);
        self.instructions(&coverage)
    }

    /// Edges between blocks that were executed so far, by [`coverage`](Self::coverage).
    #[must_use]
    pub fn covered_edges(&self) -> BTreeSet<(u64, u64)> {
        let mut coverage = Coverage::default();
        self.coverage(&mut coverage);
        self.edges(&coverage)
    }
}

/// Instructions that copies have counted in this thread since it began. Costs one load from memory.
#[inline(always)]
#[must_use]
pub fn executed() -> u64 {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return slots::executed();
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    return unsupported::executed();
}
