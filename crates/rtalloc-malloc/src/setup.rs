//! Setup of the library, by the first allocation of the process.

use crate::lock::Backoff;
use crate::settings::{OnMisuse, Report, Settings};
use crate::state::{STATE, Setup};
use crate::{fork, kinds, misuse, regions};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc_sys::errno::keeping_errno;
use rtalloc_sys::libc;

/// Slots by default: threads that work at the same time without sharing, and one more.
const SLOTS: usize = 16;

/// Sets up the library unless it is. False inside the setup.
#[inline]
pub fn ready() -> bool {
    STATE.is_ready() || set_up()
}

#[cold]
fn set_up() -> bool {
    match STATE.claim_setup() {
        Setup::Claimed => {}
        Setup::Ready => return true,
        Setup::Mine => return false,
        Setup::Another => {
            let mut backoff = Backoff::new();
            while !STATE.is_ready() {
                backoff.wait();
            }
            return true;
        }
    }
    keeping_errno(|| {
        // SAFETY: `environ` is null, or an array of strings that ends with a null pointer. So is what constructors
        // receive.
        let settings = unsafe {
            let variables = libc::environ;
            let given = STATE.environment.load(Relaxed).cast_const();
            Settings::read(if variables.is_null() { given } else { variables }, &kinds::NAMES)
        };
        let kind = kinds::get(settings.kind);
        let slots = settings.slots.unwrap_or(SLOTS);
        // SAFETY: this thread has claimed the setup.
        unsafe { STATE.set_settings(settings, if kind.has_slots { slots } else { 1 }) };
        if settings.on_misuse != OnMisuse::Ignore {
            rtalloc::hook::set_misuse_hook(Some(misuse::detected));
        }
        if settings.report == Report::Stderr || kind.name == "guarded" {
            STATE.stderr.make();
        }
        regions::add_first();
    });
    STATE.set_ready();
    fork::register_handlers();
    true
}
