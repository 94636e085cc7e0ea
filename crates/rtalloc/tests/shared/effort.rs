//! How much is tried: little in `cargo test`, much where `TESTS_IN_EARNEST` is set, as `ci/concurrency.sh` does.

/// A number for each.
#[derive(Clone, Copy, Debug)]
pub struct Effort<T> {
    /// In `cargo test`.
    pub daily: T,
    /// In earnest.
    pub in_earnest: T,
}

impl<T> Effort<T> {
    /// The one that counts now.
    pub fn now(self) -> T {
        if std::env::var_os("TESTS_IN_EARNEST").is_some() { self.in_earnest } else { self.daily }
    }
}
