//! Sequential fits: one list of free blocks, searched for each request.

pub mod best_fit;
pub mod first_fit;
pub mod next_fit;

pub use best_fit::BestFit;
pub use first_fit::{AddressOrderedFirstFit, FirstFit};
pub use next_fit::{LifoNextFit, NextFit};
