//! What happens when a program misuses the heap.

use crate::regions;
use crate::settings::OnMisuse;
use crate::tally;
use crate::tell::tell;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::{Misuse, MisuseKind};

/// Called by the heap that noticed it, in the midst of the operation.
pub fn noticed(misuse: &Misuse) {
    tally::MISUSES.fetch_add(1, Relaxed);
    match regions::settings().on_misuse {
        OnMisuse::Ignore => {}
        OnMisuse::Report => tell(format_args!("rtalloc: {misuse}\n")),
        OnMisuse::Abort => {
            tell(format_args!("rtalloc: {misuse}\n"));
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
