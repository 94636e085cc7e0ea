//! What a paper says, held against our figures.

use serde::{Deserialize, Serialize};

/// What the paper says, and what our figures say of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// Whether it was confirmed; `None` where a figure is missing.
    pub confirmed: Option<bool>,
    /// The figures, published and ours.
    pub figures: String,
}
