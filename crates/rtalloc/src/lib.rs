//! Real-time memory allocators.

#![no_std]

pub mod contract;
pub mod hook;
pub mod mechanism;
mod region;
pub mod segregated;
pub mod sequential;

pub use contract::{MultiRegion, RegionAllocator};
pub use segregated::{HalfFit, Tlsf};
pub use sequential::{AddressOrderedFirstFit, BestFit, FirstFit};
