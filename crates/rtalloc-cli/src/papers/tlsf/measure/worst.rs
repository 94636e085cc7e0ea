//! Section 6.1: worst-case scenarios (the papers' and harder ones), and static bounds.

use crate::papers::tlsf::result::{Scenario, Worst};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::observe::scenario::{self, Recipe};
use rtalloc_lab::observe::{Count, Observation, Operation, Stage};
use rtalloc_lab::probe::counting;
use rtalloc_subjects::one;

/// The results for both operations of an allocator.
///
/// # Errors
///
/// If the measurement failed, with a message.
pub fn worst(analysis: &Analysis, name: &str) -> Result<Vec<Worst>, String> {
    let subject = one(name).map_err(|error| error.to_string())?;
    let scenarios = counting(analysis.process(), subject, |entries| {
        let mut stage = Stage::new(subject, &Count).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for scenario in scenario::of(subject) {
            let performed = stage.rehearse(scenario, scenario::HEAP_BYTES).and_then(|script| {
                let mut sink = |observation: &Observation<'_>| {
                    found.push((
                        scenario.operation,
                        Scenario {
                            name: scenario.name.into(),
                            paper: scenario.recipe == Recipe::Paper,
                            instructions: observation.instructions,
                        },
                    ));
                };
                stage.perform_last(scenario::HEAP_BYTES, &script, entries, scenario, |_| {}, &mut sink)
            });
            performed.map_err(|error| error.to_string())?;
        }
        Ok(found)
    })?;
    let operations = [(Operation::Allocate, "malloc"), (Operation::Deallocate, "free")];
    Ok(operations
        .into_iter()
        .map(|(operation, name)| {
            let own = scenarios.iter().filter(|(other, _)| *other == operation).map(|(_, scenario)| scenario.clone());
            Worst {
                operation: name.into(),
                scenarios: own.collect(),
                bound: analysis.limit_in_heap(subject, operation),
            }
        })
        .collect())
}
