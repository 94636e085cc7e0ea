//! The allocators under test: ours, and the peers published as crates.
