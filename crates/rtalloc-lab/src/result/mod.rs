//! What was measured: the one vocabulary between measuring and everything downstream.

pub mod schema;
