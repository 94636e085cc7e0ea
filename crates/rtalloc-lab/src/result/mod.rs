//! What was measured: the one vocabulary between measuring and everything downstream.

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
