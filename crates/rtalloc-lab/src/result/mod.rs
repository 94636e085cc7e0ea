//! The schemas of results: the interface between measurement and everything downstream.

pub mod advice;
pub mod bounds;
pub mod catalogue;
pub mod comparison;
pub mod contention;
pub mod costs;
pub mod cycles;
pub mod document;
pub mod headroom;
pub mod heap_size;
pub mod interleave;
pub mod schema;
pub mod targets;
pub mod threads;
pub mod tune;
pub mod version;
