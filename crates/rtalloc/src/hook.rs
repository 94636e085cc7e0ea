//! The one hook through which every allocator reports misuse.
//!
//! A process has one hook, because the mistake it reports is one of the program, not of a heap. It starts
//! empty: the misused call is then ignored, which leaves the heap whole. Firmware sets a hook that traps, a test
//! one that records.

use crate::contract::{Misuse, MisuseKind};
use core::sync::atomic::{AtomicPtr, Ordering};

/// What a hook looks like. It may not use the heap that reported, which is in the midst of an operation; where the hook unwinds out of
/// it, nobody may use that heap any more.
pub type Hook = fn(&Misuse);

static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the hook of this process; `None` removes it.
pub fn set_misuse_hook(hook: Option<Hook>) {
    let raw = hook.map_or(core::ptr::null_mut(), |function| function as *mut ());
    HOOK.store(raw, Ordering::Release);
}

/// Reports a misuse. Cold and out of line, so that the hot paths carry one call.
#[cold]
#[inline(never)]
pub(crate) fn report(allocator: &'static str, kind: MisuseKind, address: usize) {
    let raw = HOOK.load(Ordering::Acquire);
    if !raw.is_null() {
        // SAFETY: the only non-null values stored are `Hook` functions (set_misuse_hook).
        let hook = unsafe { core::mem::transmute::<*mut (), Hook>(raw) };
        hook(&Misuse { allocator, kind, address });
    }
}
