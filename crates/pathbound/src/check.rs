//! placeholder
/// Checks
pub fn check() {}
