//! Real-time memory allocators.
#![no_std]
pub mod contract;
pub mod hook;
