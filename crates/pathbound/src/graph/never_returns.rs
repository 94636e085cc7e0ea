//! Functions that are known by their names never to return.
//!
//! Following them would lead through everything a panic does; that they never return is part of what their names mean.
//! A path that reaches one ends there: it belongs to no execution that returns.
//!
//! A C program may have a function of its own that is called `exit` and returns. So where a plain name of C is defined in the
//! image, its code is looked at: a function with a way to a return that passes no call of what never returns is one
//! like any other.

/// Functions that never return, by name.
#[derive(Clone, Debug, Default)]
pub struct NeverReturns {
    /// Names, demangled and without a Rust hash, besides those that are known anyway.
    pub names: Vec<String>,
}

/// Rust's, C's and C++'s, by their whole names.
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
    "_Unwind_RaiseException",
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

/// Rust's and C++'s, by the beginnings of their names. Only families of which no member returns.
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
    /// Whether the name alone does not say enough, if the function is in the image. Names that a program may not give to
    /// functions of its own are enough, and so is the user's word. The unwinder's functions return where unwinding fails,
    /// and then their callers abort.
    pub(super) fn is_doubtful(&self, name: &str) -> bool {
        !name.contains("::") && !name.starts_with("_Unwind_") && !self.names.iter().any(|known| known == name)
    }

    /// Whether a function of this name never returns.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        let name = without_hash(name);
        // glibc has names with and without underscores in front for one function, and versions behind.
        let bare = name.split_once("@").map_or(name, |(bare, _)| bare);
        NAMES.contains(&bare)
            || FAMILIES.iter().any(|family| name.starts_with(family))
            || self.names.iter().any(|known| known == name || known == bare)
    }
}

/// A demangled Rust name without the hash behind it.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => path,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_and_aborts_are_known_and_their_neighbours_are_not() {
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
