//! Experiments: what is measured to answer one question, beyond the replay of traces.

pub mod costs;
mod fit;
pub mod puaut;
pub mod thesis;
