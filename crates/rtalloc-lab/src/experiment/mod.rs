//! Experiments: what is measured to answer one question, beyond the replay of traces.

pub mod compact_fit;
pub mod costs;
pub mod duel;
mod fit;
pub mod interleave;
pub mod overview;
pub mod puaut;
pub mod robson;
pub mod size_classes;
pub mod thesis;
pub mod threads;
pub mod tlsf;
pub mod tune;
pub mod wait_free;
