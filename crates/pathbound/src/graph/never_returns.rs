//! Functions that are known by name never to return.
//!
//! Following them would lead through all the code of a panic. A path that reaches one belongs to no execution that
//! returns.
//!
//! For a function in the image, a name proves nothing: a program may have its own function called `exit` that returns.
//! Its code is examined, and if it has a path to a return, it is followed like any other. For a function of another
//! file, the name is an [assumption](crate::Assumption::NeverReturns).

/// Functions that never return, by name.
#[derive(Clone, Debug, Default)]
pub struct NeverReturns {
    /// Names, demangled and without a Rust hash, in addition to the built-in ones.
    pub names: Vec<String>,
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
    /// Whether the user gave this name.
    pub(super) fn is_given(&self, name: &str) -> bool {
        let name = without_hash(name);
        self.names.iter().any(|known| known == name || known == bare(name))
    }

    /// A name without a Rust hash and without a version, as users give it.
    pub(crate) fn short(name: &str) -> &str {
        bare(without_hash(name))
    }

    /// Whether a function of this name never returns.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        let short = without_hash(name);
        NAMES.contains(&bare(short)) || FAMILIES.iter().any(|family| short.starts_with(family)) || self.is_given(name)
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
        let known = NeverReturns { names: vec!["fatal".into()] };
        for name in [
            "abort",
            "abort@GLIBC_2.2.5",
            "core::panicking::panic_fmt",
            "core::panicking::panic::h0123456789abcdef",
            "core::option::unwrap_failed::h0123456789abcdef",
            "std::__throw_bad_alloc()",
            "fatal",
        ] {
            assert!(known.knows(name), "{name}");
        }
        for name in ["aborted", "core::panicking", "core::option::Option<T>::unwrap", "malloc", "fatality", "longjmp"] {
            assert!(!known.knows(name), "{name}");
        }
    }
}
