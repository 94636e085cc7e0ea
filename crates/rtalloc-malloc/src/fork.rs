//! Handlers around `fork`.

use crate::ring;
use crate::state::STATE;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc_sys::libc;

/// Registers the handlers. The first allocation of the process does this, before any constructor runs. So they are the
/// last ones before a fork and the first ones after it: handlers of other libraries may wait for locks whose owners are
/// allocating.
pub fn register_handlers() {
    // SAFETY: the handlers may be called as long as the process lives, because a preloaded library is never unloaded.
    unsafe {
        libc::__register_atfork(
            Some(before_fork),
            Some(after_fork_in_parent),
            Some(after_fork_in_child),
            (&raw const libc::__dso_handle).cast_mut().cast(),
        );
    }
}

/// Pauses the process. Locks the C library's list of streams first, as `fork` itself does after this: the owner of that
/// lock may wait for a stream (`fflush(NULL)`), whose owner may be allocating (`getline`) and must not find the gate
/// closed.
unsafe extern "C" fn before_fork() {
    // SAFETY: reads a variable of the C library and locks its lock, which is recursive.
    unsafe {
        if core::ptr::read_volatile(&raw const libc::__libc_single_threaded) == 0 {
            libc::_IO_list_lock();
            STATE.streams_locked.store(true, Relaxed);
        }
    }
    if STATE.threads.pause() {
        ring::before_fork();
    }
}

unsafe extern "C" fn after_fork_in_parent() {
    if STATE.threads.is_pausing() {
        ring::after_fork_in_parent();
        STATE.threads.resume();
    }
    if STATE.streams_locked.swap(false, Relaxed) {
        // SAFETY: `before_fork` locked it.
        unsafe { libc::_IO_list_unlock() };
    }
}

unsafe extern "C" fn after_fork_in_child() {
    if STATE.streams_locked.swap(false, Relaxed) {
        // SAFETY: no other thread exists. The C library does the same.
        unsafe { libc::_IO_list_resetlock() };
    }
    if STATE.threads.is_pausing() {
        ring::after_fork_in_child();
        STATE.threads.forget_others();
        STATE.threads.resume();
    }
}
