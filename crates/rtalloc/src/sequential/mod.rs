//! Sequential fits: one list of free blocks, searched.

pub mod best_fit;
pub mod first_fit;

pub use best_fit::BestFit;
pub use first_fit::{AddressOrderedFirstFit, FirstFit};
