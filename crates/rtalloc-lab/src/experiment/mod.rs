//! Experiments: what is measured to answer one question, beyond the replay of traces.

pub mod cells;
pub mod costs;
pub mod duel;
mod fit;
pub mod interleave;
pub mod size_classes;
pub mod threads;
pub mod tune;
