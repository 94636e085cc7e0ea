//! Load and unload of the library.

use crate::state::STATE;
use crate::{report, setup, worker};
use core::ffi::{c_char, c_int};
use core::sync::atomic::Ordering::Relaxed;

/// The dynamic linker calls this before all constructors (`build.rs`). It may have allocated before.
extern "C" fn loaded(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    STATE.environment.store(environment.cast_mut(), Relaxed);
    STATE.threads.register_barriers();
    // If nothing has allocated yet.
    setup::ready();
    worker::create_key();
}

/// The dynamic linker calls this when the process ends by `exit`.
extern "C" fn unloaded() {
    report::at_exit();
    report::check_at_exit();
}

// SAFETY: the section is a list of functions of this type. They use nothing that is initialised later.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;
// SAFETY: the section is a list of functions of this type.
#[used]
#[unsafe(link_section = ".fini_array")]
static UNLOADED: extern "C" fn() = unloaded;
