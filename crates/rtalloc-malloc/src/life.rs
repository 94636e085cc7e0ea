//! What happens at the edges: when the library is loaded, around a fork, when a thread ends, when the process ends.

use crate::{libc, regions, report, ring, seat, settings};
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

/// The key of the word that calls [`thread_ends`], plus one; 0 before there is one.
static KEY: AtomicUsize = AtomicUsize::new(0);

/// Rounds of destructors that a thread waits for before it gives up its seat: the destructors of others allocate and free too. The C
/// library makes four rounds at least.
const ROUNDS: usize = 3;

/// Called by the dynamic linker, before all constructors (`build.rs`). The linker itself may have allocated before.
extern "C" fn loaded(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    settings::set_environment(environment);
    seat::announce_barriers();
    // For a program whose constructors have allocated nothing.
    regions::ready();
    // SAFETY: the function may be called as it is declared, as long as the process lives: a preloaded library is never unloaded.
    unsafe {
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
static LOADED: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;
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

/// Has the functions below called around forks: at the first allocation of the process, which comes before any constructor. So
/// they are the last before a fork and the first behind it: other libraries' functions around forks wait for locks whose holders
/// may be allocating.
pub fn watch_forks() {
    // SAFETY: the functions may be called as they are declared, as long as the process lives: a preloaded library is never unloaded.
    unsafe {
        libc::__register_atfork(
            Some(before_fork),
            Some(in_parent),
            Some(in_child),
            (&raw const libc::__dso_handle).cast_mut().cast(),
        );
    }
}

/// Whether the fork under way holds the lock of the C library's list of streams for us. Written under that lock.
static STREAMS: AtomicBool = AtomicBool::new(false);

/// See [`seat::pause`]. The C library's own `fork` locks its list of streams behind this. Who has that lock waits for whoever has a stream
/// (`fflush(NULL)`), and who has a stream may be allocating (`getline`): so it is taken before anybody has to wait here.
unsafe extern "C" fn before_fork() {
    // SAFETY: a word of the C library's, and its lock, which knows its holder and may be taken twice.
    unsafe {
        if core::ptr::read_volatile(&raw const libc::__libc_single_threaded) == 0 {
            libc::_IO_list_lock();
            STREAMS.store(true, Relaxed);
        }
    }
    if regions::ready() && seat::pause() {
        ring::before_fork();
    }
}

unsafe extern "C" fn in_parent() {
    if seat::is_pausing() {
        ring::in_parent();
        seat::resume();
    }
    if STREAMS.swap(false, Relaxed) {
        // SAFETY: taken before the fork.
        unsafe { libc::_IO_list_unlock() };
    }
}

unsafe extern "C" fn in_child() {
    if STREAMS.swap(false, Relaxed) {
        // SAFETY: nobody else is there; the C library does so too.
        unsafe { libc::_IO_list_resetlock() };
    }
    if seat::is_pausing() {
        ring::in_child();
        seat::alone_now();
        seat::resume();
    }
}
