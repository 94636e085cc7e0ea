//! The tiers of tests: `cargo test` runs the daily tier; `TESTS_TIER=full` asks for the full one (`ci/exhaustive.sh`,
//! `ci/concurrency.sh`).

/// A value for each tier.
#[derive(Clone, Copy, Debug)]
pub struct Tiers<T> {
    pub daily: T,
    pub full: T,
}

impl<T> Tiers<T> {
    /// The value for the tier that runs.
    pub fn now(self) -> T {
        if is_full() { self.full } else { self.daily }
    }
}

/// Whether the full tier runs.
pub fn is_full() -> bool {
    match std::env::var("TESTS_TIER").as_deref() {
        Ok("full") => true,
        Ok("daily") | Err(std::env::VarError::NotPresent) => false,
        other => panic!("TESTS_TIER is {other:?}; set it to `daily` or `full`"),
    }
}
