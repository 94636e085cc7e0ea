//! The assumptions of a bound. The list is closed: anything else that is unknown makes a bound impossible.
//!
//! The user's statements (loop facts, conflicts, names given as never returning) are not in this list.

use crate::certificate::Proof;
use crate::graph::Graph;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// An assumption of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assumption {
    /// The file is loaded unmodified, and does not change.
    Loading,
    /// Nothing interrupts the function.
    Signals,
    /// Callees follow the calling convention.
    CallingConvention,
    /// Stores through pointers do not overwrite return addresses.
    ReturnAddresses,
    /// Imported functions that are known by name never to return do not return.
    NeverReturns,
    /// Exceptions are caught only where the file's unwind tables say so.
    UnwindTables,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Self; 6] = [
        Self::Loading,
        Self::Signals,
        Self::CallingConvention,
        Self::ReturnAddresses,
        Self::NeverReturns,
        Self::UnwindTables,
    ];

    /// The assumption as a sentence.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Loading => {
                "the file is loaded unchanged, by a dynamic linker without audit modules (LD_AUDIT), and its code, \
                 read-only data and global offset table do not change while it runs"
            }
            Self::Signals => {
                "no signal handler, sigreturn system call or debugger changes where execution continues; their instructions \
                 are not counted"
            }
            Self::CallingConvention => {
                "functions preserve rsp, rbx, rbp and r12 to r15, as the System V calling convention requires, and return, if \
                 they do, to where they were called"
            }
            Self::ReturnAddresses => {
                "stores whose address is not known relative to the stack pointer at the function's entry do not overwrite return \
                 addresses"
            }
            Self::NeverReturns => "imported functions that are known by name never to return do not return",
            Self::UnwindTables => {
                "exceptions are caught only where the file's unwind tables say so; no tables are registered at run time"
            }
        }
    }

    /// The assumptions of a proof about a graph.
    #[must_use]
    pub fn of(graph: &Graph, proof: &Proof) -> BTreeSet<Self> {
        let mut assumed =
            BTreeSet::from([Self::Loading, Self::Signals, Self::CallingConvention, Self::ReturnAddresses]);
        if !proof.never_returning.is_empty() {
            assumed.insert(Self::NeverReturns);
        }
        if graph.has_calls() {
            assumed.insert(Self::UnwindTables);
        }
        assumed
    }
}
