//! The only loop that calls an allocator.
