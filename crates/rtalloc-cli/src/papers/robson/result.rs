//! The schema of worst-case memory: the memory that adversaries make each allocator need.

pub use crate::papers::claims::Claim;
pub use rtalloc_lab::result::heap_size::{Adversary, Need};
use serde::{Deserialize, Serialize};

/// A theoretical curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Law {
    /// Its name in figures.
    pub name: String,
    /// Its formula.
    pub formula: String,
    /// Largest request in units, and memory relative to the maximum live memory.
    pub points: Vec<(u64, f64)>,
}

/// The results of all experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Robson {
    /// Maximum live units.
    pub m: u64,
    /// The same for the comb, whose work is quadratic in the number of units.
    pub comb_m: u64,
    /// Largest requests, in units.
    pub sizes: Vec<u64>,
    /// The lower bound for all non-moving allocators, then guarantees.
    pub laws: Vec<Law>,
    /// One row per allocator.
    pub rows: Vec<Row>,
    /// The theoretical statements, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name.
    pub subject: String,
    /// Family of the field's taxonomy.
    pub family: String,
    /// Whether its objects move.
    pub moves: bool,
    /// Its known guarantee, as text.
    pub guarantee: Option<String>,
    /// The results of each adversary.
    pub answers: Vec<Answer>,
}

/// The results of an adversary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The adversary.
    pub adversary: Adversary,
    /// One result for each largest request that the allocator serves, or an error message.
    pub needs: Result<Vec<Need>, String>,
}

impl Row {
    /// The results of an adversary for requests of up to `n` units.
    #[must_use]
    pub fn need(&self, adversary: Adversary, n: u64) -> Option<&Need> {
        let answer = self.answers.iter().find(|answer| answer.adversary == adversary)?;
        answer.needs.as_ref().ok()?.iter().find(|need| need.n == n)
    }

    /// The adversary with the largest need for requests of up to `n` units: an adversary may also request less than
    /// allowed. `None` if `n` is more than the allocator serves.
    #[must_use]
    pub fn worst(&self, n: u64) -> Option<(Adversary, &Need)> {
        self.answers.iter().find(|answer| answer.needs.iter().flatten().any(|need| need.n == n))?;
        let all =
            self.answers.iter().flat_map(|answer| answer.needs.iter().flatten().map(|need| (answer.adversary, need)));
        all.filter(|(_, need)| need.n <= n).max_by(|(_, one), (_, other)| one.ratio().total_cmp(&other.ratio()))
    }
}
