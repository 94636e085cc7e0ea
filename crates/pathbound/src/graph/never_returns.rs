//! Functions that are known by name never to return.
//!
//! Following them would lead through all the code of a panic. A path that reaches one belongs to no execution that
//! returns.
//!
//! For a function in the image, a name proves nothing: a program may have its own function called `exit` that returns.
//! Its code is examined, and if it has a path to a return, it is followed like any other. For a function of another
//! file, the name is an [assumption](crate::Assumption::NeverReturns).
//!
//! A user can state of further functions that they are not called or never return
//! ([`Assumption::NotCalled`](crate::Assumption::NotCalled)). In the image these are addresses, never names: several
//! functions can have one name.

use crate::image::{Image, Symbol};
use std::collections::BTreeSet;

/// The functions of the user's statement; the built-in names are always known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeverReturns {
    /// Functions of the image.
    pub functions: BTreeSet<u64>,
    /// Names of functions of other files.
    pub names: BTreeSet<String>,
}

/// A name of a statement that several functions of the image have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is the name of several functions; give one's address:{}", lines(.functions))]
pub struct Ambiguous {
    /// The name.
    pub name: String,
    /// The functions.
    pub functions: Vec<Symbol>,
}

fn lines(functions: &[Symbol]) -> String {
    let line = |function: &Symbol| format!("\n  {:#x} {}", function.address, function.linkage_name);
    functions.iter().map(line).collect()
}

/// Full names from Rust, C and C++.
const NAMES: &[&str] = &[
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "__assert_fail",
    "__assert",
    "__stack_chk_fail",
    "__chk_fail",
    "__fortify_fail",
    "_Unwind_Resume",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_bad_cast",
    "__cxa_pure_virtual",
    "__cxa_call_terminate",
    "__clang_call_terminate",
    "std::terminate()",
    "rust_begin_unwind",
    "rust_panic",
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::str::slice_error_fail",
    "core::cell::panic_already_borrowed",
    "core::cell::panic_already_mutably_borrowed",
    "alloc::alloc::handle_alloc_error",
    "alloc::raw_vec::handle_error",
    "alloc::raw_vec::capacity_overflow",
    "std::process::abort",
    "std::process::exit",
    "std::alloc::rust_oom",
];

/// Prefixes of names from Rust and C++. No function with such a prefix returns.
const FAMILIES: &[&str] = &[
    "core::panicking::panic",
    "core::panicking::assert_failed",
    "core::panicking::unreachable",
    "core::slice::index::slice_start_index_len_fail",
    "core::slice::index::slice_end_index_len_fail",
    "core::slice::index::slice_index_order_fail",
    "core::slice::index::slice_index_fail",
    "core::slice::copy_from_slice_impl::len_mismatch_fail",
    "std::__throw_",
];

impl NeverReturns {
    /// The statement about the function with this name, demangled or not. A name that the image does not have is that
    /// of a function of another file; so is one that it has, since the other file's function may take its place.
    ///
    /// # Errors
    ///
    /// [`Ambiguous`]: several functions of the image have this name.
    pub fn add(&mut self, image: &dyn Image, name: &str) -> Result<(), Ambiguous> {
        match image.find(name).as_slice() {
            [] => {}
            [one] => drop(self.functions.insert(one.address)),
            several => return Err(Ambiguous { name: name.to_owned(), functions: several.to_vec() }),
        }
        self.names.insert(name.to_owned());
        Ok(())
    }

    /// Whether the statement is about a function of another file.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.names.contains(without_hash(name)) || self.names.contains(Self::short(name))
    }

    /// A name without a Rust hash and without a version, as users give it.
    pub(crate) fn short(name: &str) -> &str {
        bare(without_hash(name))
    }

    /// Whether functions of this name are known never to return.
    #[must_use]
    pub fn knows(name: &str) -> bool {
        let short = without_hash(name);
        NAMES.contains(&bare(short)) || FAMILIES.iter().any(|family| short.starts_with(family))
    }
}

/// A name without its version.
fn bare(name: &str) -> &str {
    name.split_once('@').map_or(name, |(bare, _)| bare)
}

/// A demangled Rust name without its hash.
fn without_hash(name: &str) -> &str {
    crate::image::without_hash(name).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_aborts_are_known_and_similar_names_are_not() {
        for name in [
            "abort",
            "abort@GLIBC_2.2.5",
            "core::panicking::panic_fmt",
            "core::panicking::panic::h0123456789abcdef",
            "core::option::unwrap_failed::h0123456789abcdef",
            "std::__throw_bad_alloc()",
        ] {
            assert!(NeverReturns::knows(name), "{name}");
        }
        for name in ["aborted", "core::panicking", "core::option::Option<T>::unwrap", "malloc", "longjmp"] {
            assert!(!NeverReturns::knows(name), "{name}");
        }
    }
}
