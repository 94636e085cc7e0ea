//! What happens at the edges: when the library is loaded, around a fork, when a thread ends, when the process ends.

use crate::{libc, regions, report, ring, seat};
use core::ffi::{c_uint, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Release};

/// The key of the word that calls [`thread_ends`], plus one; 0 before there is one.
static KEY: AtomicUsize = AtomicUsize::new(0);

/// Rounds of destructors that a thread waits for before it gives up its seat: the destructors of others allocate and free too. The C
/// library makes four rounds at least.
const ROUNDS: usize = 3;

/// Called by the dynamic linker, behind the constructors of the C library. Allocations have been made before.
extern "C" fn loaded() {
    seat::announce_barriers();
    report::prepare();
    // SAFETY: the functions may be called as they are declared, as long as the process lives: a preloaded library is never unloaded.
    unsafe {
        libc::__register_atfork(
            Some(before_fork),
            Some(in_parent),
            Some(in_child),
            (&raw const libc::__dso_handle).cast_mut().cast(),
        );
        let mut key: c_uint = 0;
        if libc::pthread_key_create(&raw mut key, Some(thread_ends)) == 0 {
            KEY.store(key as usize + 1, Release);
        }
    }
    if seat::Seat::mine().is_some() {
        give_back_at_end();
    }
}

/// Called by the dynamic linker when the process ends by `exit`.
extern "C" fn unloaded() {
    report::at_exit();
    report::check_at_exit();
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = unloaded;

/// Has the calling thread's seat given back when it ends.
pub fn give_back_at_end() {
    set_round(1);
}

fn set_round(round: usize) {
    if let Some(key) = KEY.load(Acquire).checked_sub(1) {
        // SAFETY: the key exists; the value is a number and not followed.
        unsafe { libc::pthread_setspecific(key as c_uint, core::ptr::without_provenance(round)) };
    }
}

/// A thread ends, and destructors of its words run.
unsafe extern "C" fn thread_ends(round: *mut c_void) {
    let round = round.addr();
    if round < ROUNDS { set_round(round + 1) } else { seat::stand_up() }
}

/// See [`seat::pause`].
unsafe extern "C" fn before_fork() {
    if regions::ready() && seat::pause() {
        ring::before_fork();
    }
}

unsafe extern "C" fn in_parent() {
    if seat::is_pausing() {
        ring::in_parent();
        seat::resume();
    }
}

unsafe extern "C" fn in_child() {
    if seat::is_pausing() {
        ring::in_child();
        seat::alone_now();
        seat::resume();
    }
}
