//! Reactions to misuse of the heap.

use crate::kinds;
use crate::settings::OnMisuse;
use crate::state::STATE;
use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::contract::{Corruption, Misuse, MisuseKind};

/// Called by a heap that detected a misuse, inside the operation.
pub fn detected(misuse: &Misuse) {
    react(format_args!("rtalloc: {misuse}\n"));
}

/// A heap is damaged: the program wrote to its data.
pub fn damaged(damage: &Corruption) {
    react(format_args!("rtalloc: {}: {damage}\n", kinds::current().name));
}

/// An address passed to this library is not the address of a live block.
#[cold]
pub fn invalid_pointer(address: usize) {
    detected(&Misuse { allocator: kinds::current().name, kind: MisuseKind::ForeignPointer, address });
}

/// Counts the misuse, and reacts as the settings say.
fn react(message: fmt::Arguments<'_>) {
    STATE.counters.misuses.fetch_add(1, Relaxed);
    match STATE.settings().on_misuse {
        OnMisuse::Ignore => {}
        OnMisuse::Report => STATE.stderr.print(message),
        OnMisuse::Abort => {
            STATE.stderr.print(message);
            // SAFETY: `abort` has no precondition.
            unsafe { rtalloc_sys::libc::abort() }
        }
    }
}
