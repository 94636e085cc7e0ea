//! Experiments: measurements that answer one question each, in addition to trace replay.

pub mod cells;
pub mod costs;
pub mod duel;
mod fit;
pub mod interleave;
pub mod size_classes;
pub mod threads;
pub mod tune;
