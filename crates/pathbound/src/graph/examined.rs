//! Whether functions of an image may return, kept for every exploration of the image.
//!
//! From a panic, nearly the whole C library is reached. Each exploration of a process would examine it anew.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Whether functions may return, for those whose code was examined and their callees, with and without the search for
/// escapes.
#[derive(Debug, Default)]
pub struct Examined(Mutex<BTreeMap<(bool, u64), bool>>);

impl Examined {
    pub(super) fn get(&self, finds_escapes: bool, function: u64) -> Option<bool> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(finds_escapes, function)).copied()
    }

    pub(super) fn add(&self, finds_escapes: bool, functions: BTreeMap<u64, bool>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(functions.into_iter().map(|(function, returns)| ((finds_escapes, function), returns)));
    }
}
