//! The only loop that calls an allocator.

pub mod campaign;
pub mod settings;
