//! Sequential fits: one list of free blocks, searched.

mod best_fit;
mod first_fit;

pub use best_fit::BestFit;
pub use first_fit::{AddressOrderedFirstFit, FirstFit};
