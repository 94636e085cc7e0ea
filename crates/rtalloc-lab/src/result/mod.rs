//! What was measured: the one vocabulary between measuring and everything downstream.

pub mod bounds;
pub mod catalogue;
pub mod claim;
pub mod compact_fit;
pub mod costs;
pub mod document;
pub mod duel;
pub mod environment;
pub mod interleave;
pub mod overview;
pub mod puaut;
pub mod robson;
pub mod schema;
pub mod thesis;
pub mod threads;
pub mod tlsf;
pub mod tune;
pub mod version;
pub mod wait_free;
