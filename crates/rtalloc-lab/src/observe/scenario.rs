//! Worst cases that papers describe, by name: where the *scenario maximum* comes from.
//!
//! A scenario is one operation on a heap prepared for it. What its author took for the worst case need not be: that is
//! what the table shows, with the observed maximum and the bound beside it.

use super::{Meter, Observation, ObserveError, Operation, Script, Stage};

/// A worst case as somebody described it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is, in a few words.
    pub name: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// The operation it is the worst case of, the last one that is performed.
    pub operation: Operation,
    /// Size of the heap in bytes.
    pub heap_bytes: usize,
    /// Writes down the operations.
    build: fn(&mut Script),
}

/// A small request in bytes: the smallest block of most allocators.
const SMALL_BYTES: usize = 16;
/// TLSF paper, section 7: the pool, "initially one free block".
const TLSF_POOL_BYTES: usize = 16 << 20;
const TLSF_PAPER: &str = "Masmano et al. 2008, section 6.1";

/// Every scenario.
pub const ALL: &[Scenario] = &[
    Scenario {
        name: "one large free block, small request",
        source: TLSF_PAPER,
        operation: Operation::Allocate,
        heap_bytes: TLSF_POOL_BYTES,
        build: |script| {
            script.allocate(SMALL_BYTES);
        },
    },
    Scenario {
        name: "both neighbours free",
        source: TLSF_PAPER,
        operation: Operation::Deallocate,
        heap_bytes: TLSF_POOL_BYTES,
        build: |script| {
            let [before, block, after] = [(); 3].map(|()| script.allocate(SMALL_BYTES));
            script.fence();
            script.deallocate(before);
            script.deallocate(after);
            script.deallocate(block);
        },
    },
];

impl Scenario {
    /// The operations; the last one is the scenario's.
    #[must_use]
    pub fn script(&self) -> Script {
        let mut script = Script::new();
        (self.build)(&mut script);
        script
    }
}

/// Performs every scenario, and hands the last operation of each to `sink`.
///
/// # Errors
///
/// [`ObserveError::Refusal`] and [`ObserveError::Fault`].
pub fn drive<M: Meter>(
    stage: &mut Stage<'_, M>,
    mut sink: impl FnMut(&Scenario, &Observation<'_>),
) -> Result<(), ObserveError> {
    for scenario in ALL {
        let script = scenario.script();
        let last = script.events().len() as u64 - 1;
        let scene = format_args!("{} ({})", scenario.name, scenario.source);
        stage.perform(scenario.heap_bytes, &script, &scene, &mut |observation: &Observation<'_>| {
            if observation.index == last {
                sink(scenario, observation);
            }
        })?;
    }
    Ok(())
}
