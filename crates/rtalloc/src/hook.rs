//! The one hook through which every allocator reports misuse.
//!
//! A process has one hook, because misuse is a mistake of the program, not of a heap. Initially there is none: the
//! misused call is then ignored, which leaves the heap intact. Firmware sets one that traps, a test one that records.

use crate::contract::{Misuse, MisuseKind};
use core::sync::atomic::{AtomicPtr, Ordering};

/// The type of a hook. It must not use the heap that reported, which is in the middle of an operation; if the hook
/// unwinds out of it, that heap must not be used again.
pub type Hook = fn(&Misuse);

static HOOK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the hook of this process; `None` removes it.
pub fn set_misuse_hook(hook: Option<Hook>) {
    let raw = hook.map_or(core::ptr::null_mut(), |function| function as *mut ());
    HOOK.store(raw, Ordering::Release);
}

/// Reports misuse. Cold and out of line, so that the hot paths contain one call.
#[cold]
#[inline(never)]
pub(crate) fn report(allocator: &'static str, kind: MisuseKind, address: usize) {
    let raw = HOOK.load(Ordering::Acquire);
    if !raw.is_null() {
        // SAFETY: `set_misuse_hook` stores only `Hook` functions and null, and `raw` is not null.
        let hook = unsafe { core::mem::transmute::<*mut (), Hook>(raw) };
        hook(&Misuse { allocator, kind, address });
    }
}
