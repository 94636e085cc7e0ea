//! What was measured: the one vocabulary between measuring and everything downstream.

pub mod environment;
pub mod schema;
