//! The version of the program that measures, as the environment of its runs names it.

use std::sync::OnceLock;

static PROGRAM: OnceLock<&str> = OnceLock::new();

/// Says what program this is, as the command does when it starts. Only the first call has an effect.
pub fn set(program: &'static str) {
    PROGRAM.get_or_init(|| program);
}

/// What the program said it is; else the version of this crate.
#[must_use]
pub fn text() -> &'static str {
    PROGRAM.get().copied().unwrap_or(env!("CARGO_PKG_VERSION"))
}
