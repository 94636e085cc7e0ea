//! Threads that share a heap: the cost of calls under contention, throughput, memory over time.

pub mod cases;
pub mod concurrent;
pub mod crew;
