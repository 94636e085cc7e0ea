//! rtalloc for C.
//!
//! `include/rtalloc.h` is generated from this crate (`ci/header.sh`), and tells users all they need.
//!
//! A heap is one pointer into the caller's region, so that pointer is what C holds: no handle, no table, no memory besides. Each verb
//! is written once for any allocator ([`heap`]), named and documented for all of a kind by a macro (`verbs`), and the macros are called
//! with tables of one line for each allocator ([`allocators`]). The heaps keep tallies, unlike Rust's by default: users of C
//! want the high-water mark, and have no type parameter to ask for it. `rt_lean_tlsf` keeps none.
//!
//! # Building
//!
//! The profile `c` says `panic=abort`, and then this is a library without `std` whose panic handler calls a function that exists
//! nowhere: that it links proves that no panic edge is in it. A workspace build, where the profile says `panic=unwind`, links
//! `std` for its panic runtime alone and is otherwise the same.

#![cfg_attr(panic = "abort", no_std)]
#![allow(non_camel_case_types, reason = "these are the names of C's types")]

pub mod allocators;
pub mod bound;
pub mod contract;
pub mod debug;
pub mod error;
pub mod heap;
// Where there is no operating system, the compiler's own library has these functions.
#[cfg(all(panic = "abort", not(target_os = "none")))]
mod memory;
#[cfg(target_has_atomic = "ptr")]
pub mod objects;
pub mod report;
mod verbs;

/// Version of this header and library: the first number changes when a program must be adapted; as long as it is 0, the second one does.
pub const RT_VERSION_MAJOR: u32 = 0;
/// The second number.
pub const RT_VERSION_MINOR: u32 = 1;
/// The third number.
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
    assert!(is(RT_VERSION_MAJOR, env!("CARGO_PKG_VERSION_MAJOR")), "the header's version is the package's");
    assert!(is(RT_VERSION_MINOR, env!("CARGO_PKG_VERSION_MINOR")), "the header's version is the package's");
    assert!(is(RT_VERSION_PATCH, env!("CARGO_PKG_VERSION_PATCH")), "the header's version is the package's");
};

/// Version of the library that was linked, as one number: major times 10000, minor times 100, and patch. A program that finds its library at
/// run time compares it with what RT_VERSION_MAJOR and its like were when it was compiled.
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
    /// Exists nowhere: a library with a panic edge does not link.
    fn rtalloc_has_a_panic_edge() -> !;
}

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: never linked.
    unsafe { rtalloc_has_a_panic_edge() }
}
