//! Tables, plots and the report: what a person sees of results.
//!
//! Everything here is computed from a [`Run`](crate::result::schema::Run) alone, so that what was measured yesterday
//! can be shown again today.

pub mod csv;
pub mod metric;
pub mod number;
pub mod palette;
pub mod plot;
pub mod report;
pub mod standing;
pub mod table;
pub mod verdict;

#[cfg(test)]
mod fixture;

pub use csv::csv;
pub use verdict::verdict;
