//! The assumptions of a bound. The list is closed: anything else that is unknown makes a bound impossible.
//!
//! Of the user's statements, loop facts and conflicts are not in this list. Functions stated not to be called are
//! ([`Assumption::NotCalled`]), but the list does not justify the statement: a certificate shows it as a fact too.

use crate::certificate::Proof;
use crate::graph::{Callee, Flow, Graph};
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
    /// A function that a user's statement is about is not called, or does not return.
    NotCalled,
    /// Exceptions are caught only where the file's unwind tables say so.
    UnwindTables,
    /// A core takes the cycles of its model.
    CoreModel,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Self; 8] = [
        Self::Loading,
        Self::Signals,
        Self::CallingConvention,
        Self::ReturnAddresses,
        Self::NeverReturns,
        Self::NotCalled,
        Self::UnwindTables,
        Self::CoreModel,
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
                "functions preserve the registers that the platform's calling convention (System V, AAPCS, RISC-V \
                 psABI) requires them to preserve, the stack pointer among them, and return, if at all, to where \
                 they were called"
            }
            Self::ReturnAddresses => {
                "stores whose address is not known relative to the stack pointer at the function's entry do not overwrite return \
                 addresses"
            }
            Self::NeverReturns => "imported functions that are known by name never to return do not return",
            Self::NotCalled => "functions that are stated not to be called are not called, or do not return",
            Self::UnwindTables => {
                "exceptions are caught only where the file's unwind tables say so; no tables are registered at run time"
            }
            Self::CoreModel => {
                "the core takes the cycles of its model, in the configuration and with the memory that are stated with \
                 it; accesses to data are aligned, and nothing interrupts the function"
            }
        }
    }

    /// The assumptions of a proof about a graph.
    #[must_use]
    pub fn of(graph: &Graph, proof: &Proof) -> BTreeSet<Self> {
        let mut assumed =
            BTreeSet::from([Self::Loading, Self::Signals, Self::CallingConvention, Self::ReturnAddresses]);
        for at in proof.never_returning.iter().flat_map(|end| &end.calls) {
            if let Some(
                Flow::Call(Callee::NeverReturns { stated, .. }) | Flow::Tail(Callee::NeverReturns { stated, .. }),
            ) = graph.node(at.0).map(|node| &node.flow)
            {
                assumed.insert(if *stated { Self::NotCalled } else { Self::NeverReturns });
            }
        }
        if graph.has_calls() {
            assumed.insert(Self::UnwindTables);
        }
        if proof.unit.core().is_some() {
            assumed.insert(Self::CoreModel);
        }
        assumed
    }
}
