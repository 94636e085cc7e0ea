//! The schemas of results: the interface between measurement and everything downstream.

pub mod bounds;
pub mod catalogue;
pub mod costs;
pub mod document;
pub mod duel;
pub mod interleave;
pub mod schema;
pub mod threads;
pub mod tune;
pub mod version;
