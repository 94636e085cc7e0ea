//! Bitmapped fits: one bit for every piece of memory.

pub mod bitframe;

pub use bitframe::{Bitframe, BitframePolicy};
