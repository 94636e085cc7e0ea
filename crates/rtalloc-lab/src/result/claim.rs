//! What a paper says, held against our figures.

use serde::{Deserialize, Serialize};

/// What the paper says, and what our figures say of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Whether our figures obey the rule in the claim; `None` where there is no judgement: a figure is missing or, in
    /// the TLSF paper's table VI alone, our mean is outside the published sets.
    pub confirmed: Option<bool>,
    /// The figures, published and ours.
    pub figures: String,
}
