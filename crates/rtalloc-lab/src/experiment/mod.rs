//! Experiments: measurements that answer one question each, in addition to trace replay.

pub mod advise;
pub mod cells;
pub mod comparison;
pub mod contention;
pub mod costs;
mod fit;
pub mod headroom;
pub mod heap_size;
pub mod interleave;
pub mod size_classes;
pub mod threads;
pub mod tune;
