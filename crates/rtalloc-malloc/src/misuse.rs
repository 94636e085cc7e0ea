//! What happens when a program misuses the heap.

use crate::regions;
use crate::settings::OnMisuse;
use crate::tally;
use crate::tell::tell;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::{Corruption, Misuse, MisuseKind};

/// Called by the heap that noticed it, in the midst of the operation.
pub fn noticed(misuse: &Misuse) {
    act(format_args!("rtalloc: {misuse}\n"));
}

/// A heap is not as it must be: somebody wrote over it.
pub fn damaged(damage: &Corruption) {
    act(format_args!("rtalloc: {}: {damage}\n", regions::kind().name));
}

/// Does what was asked for.
fn act(words: fmt::Arguments<'_>) {
    tally::MISUSES.fetch_add(1, Relaxed);
    match regions::settings().on_misuse {
        OnMisuse::Ignore => {}
        OnMisuse::Report => tell(words),
        OnMisuse::Abort => {
            tell(words);
            // SAFETY: no precondition.
            unsafe { crate::libc::abort() }
        }
    }
}

/// Notices a misuse here.
#[cold]
pub fn found(kind: MisuseKind, address: usize) {
    noticed(&Misuse { allocator: regions::kind().name, kind, address });
}
