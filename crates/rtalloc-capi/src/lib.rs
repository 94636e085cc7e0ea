//! rtalloc for C.
//!
//! `include/rtalloc.h` is generated from this crate (`ci/header.sh`) and is the documentation for users.
//!
//! A heap is one pointer into the caller's region, and C holds that pointer: there is no handle, no table and no other
//! memory. Each function is implemented once for all allocators ([`heap`]) and is exported and documented once for each
//! kind of heap by a macro (`verbs`). The macros take tables of one line for each allocator ([`allocators`]). Unlike
//! the default of the Rust library, the heaps keep statistics: C has no type parameter to request the high-water mark.
//! `rt_tlsf_no_stats` keeps none.
//!
//! # Building
//!
//! The profile `c` sets `panic=abort`. Then this is a library without `std` whose panic handler calls an undefined
//! function: linking succeeds only if the library has no panic edge. A workspace build, with `panic=unwind`, links
//! `std` only for its panic runtime and is otherwise the same.

#![cfg_attr(panic = "abort", no_std)]
#![allow(non_camel_case_types, reason = "the names of C types")]

pub mod allocators;
pub mod bound;
pub mod contract;
pub mod debug;
pub mod error;
pub mod heap;
// Without an operating system, `compiler_builtins` defines these functions.
#[cfg(all(panic = "abort", not(target_os = "none")))]
mod memory;
#[cfg(target_has_atomic = "ptr")]
pub mod objects;
pub mod report;
mod verbs;

/// Version of this header and library. The major number changes with incompatible changes; while it is 0, the minor
/// number does.
pub const RT_VERSION_MAJOR: u32 = 0;
/// The minor number.
pub const RT_VERSION_MINOR: u32 = 1;
/// The patch number.
pub const RT_VERSION_PATCH: u32 = 0;

const _: () = {
    const fn is(number: u32, text: &str) -> bool {
        let text = text.as_bytes();
        let (mut value, mut at) = (0, 0);
        while at < text.len() {
            value = 10 * value + (text[at] - b'0') as u32;
            at += 1;
        }
        value == number
    }
    assert!(is(RT_VERSION_MAJOR, env!("CARGO_PKG_VERSION_MAJOR")), "the header has the version of the package");
    assert!(is(RT_VERSION_MINOR, env!("CARGO_PKG_VERSION_MINOR")), "the header has the version of the package");
    assert!(is(RT_VERSION_PATCH, env!("CARGO_PKG_VERSION_PATCH")), "the header has the version of the package");
};

/// Returns the version of the linked library as one number: major * 10000 + minor * 100 + patch. A program that loads
/// the library at run time compares it with the RT_VERSION macros it was compiled with.
///
/// # Time
///
/// O(1).
#[unsafe(no_mangle)]
pub extern "C" fn rt_version() -> u32 {
    RT_VERSION_MAJOR * 10_000 + RT_VERSION_MINOR * 100 + RT_VERSION_PATCH
}

#[cfg(panic = "abort")]
unsafe extern "C" {
    /// Undefined, so that a library with a panic edge does not link.
    fn rtalloc_has_a_panic_edge() -> !;
}

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never linked.
    unsafe { rtalloc_has_a_panic_edge() }
}
