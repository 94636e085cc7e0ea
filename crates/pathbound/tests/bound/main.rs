//! Bounds with known answers, bounds against an exhaustive search, and what the checker must reject.

mod checker;
mod file;
mod hostile;
mod known;
mod program;
mod random;

use pathbound::check::check_proof;
use pathbound::{Bound, Decline, Facts, bound};
use program::Program;

/// The bound of a program, after verifying everything that must hold for any bound.
fn verified(program: &Program, entry: usize, facts: &Facts) -> Result<Bound, Decline> {
    let bound = bound(program, &program.graph(entry), program.at(entry), facts)?;
    let executed: u64 = bound.witness.iter().map(|step| step.executions).sum();
    assert_eq!(executed, bound.most, "the witness is as long as the bound");
    assert!(bound.least <= bound.most);
    let checked = check_proof(&bound.proof, program).unwrap_or_else(|rejection| panic!("{rejection}"));
    assert_eq!(checked.most, bound.most);
    Ok(bound)
}
