//! Heaps that several threads, cores or interrupt levels use at a time, without a lock.

pub mod atomics;
