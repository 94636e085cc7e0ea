//! The slot in which the calling thread operates on the slow path, and what happens when the thread ends.

use crate::lock::Backoff;
use crate::state::STATE;
use crate::threads::{Closed, ThreadState};
use crate::{kinds, pages, regions, settings};
use core::ffi::{c_uint, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use rtalloc_sys::libc;

/// A slot for one operation.
#[derive(Clone, Copy)]
pub struct Worker {
    /// The slot. If slots have memory of their own, no other thread uses it during the operation.
    pub slot: usize,
    /// The thread's state; `None` in the shared slot.
    pub state: Option<&'static ThreadState>,
}

/// Runs an operation in the calling thread's slot, or in the shared one. `None` for a signal handler without a slot: it
/// interrupted an operation of the shared slot, or one that owns a lock while another thread has the shared slot.
#[inline]
pub fn run<T>(operation: impl FnOnce(Worker) -> T) -> Option<T> {
    let threads = &STATE.threads;
    let last = STATE.last_slot();
    let has_slots = kinds::current().has_slots;
    let state = ThreadState::mine().or_else(begin_thread);
    let mut may_wait = true;
    if let Some(state) = state {
        let worker = Worker { slot: threads.number(state), state: Some(state) };
        let mut backoff = Backoff::new();
        loop {
            if state.enter(&threads.gate) {
                let result = operation(worker);
                state.leave();
                return Some(result);
            }
            if state.is_busy() {
                // A signal handler. If it interrupted an operation in the only slot, it has none.
                if has_slots && worker.slot == last {
                    return None;
                }
                // Another thread may be waiting in the shared slot for a lock of the operation.
                may_wait = !STATE.owns_lock();
                break;
            }
            match threads.gate.state() {
                Closed::Shared => break,
                // Handlers that the program registered for forks allocate.
                Closed::ByMe => return Some(operation(worker)),
                Closed::ByAnother => backoff.wait(),
            }
        }
    } else if has_slots && last == 0 {
        threads.share_only_slot();
    }
    let worker = Worker { slot: last, state: None };
    if threads.is_pausing() {
        return Some(operation(worker));
    }
    let work = || {
        threads.shared_operations.fetch_add(1, Relaxed);
        operation(worker)
    };
    if may_wait { threads.shared_slot.with(work) } else { threads.shared_slot.try_with(work) }
}

/// Takes a slot for the calling thread, if one is free and the thread has not returned its slot.
#[cold]
fn begin_thread() -> Option<&'static ThreadState> {
    if ThreadState::has_ended() {
        return None;
    }
    // All but the shared slot; the only one until a second thread needs it. If slots have no memory of their own,
    // numbers are not limited.
    let own = if kinds::current().has_slots { STATE.last_slot().max(1) } else { settings::MAX_SLOTS };
    let state = STATE.threads.begin(own, |state, number| {
        // SAFETY: the state was free, the thread has its number now, and has not yet set its word.
        unsafe { regions::assign(state, number, 0) }
    })?;
    // After the thread has its slot: this may allocate.
    return_slot_at_end();
    Some(state)
}

/// Rounds of destructors that pass before an ending thread returns its slot, because destructors of other thread-local
/// values allocate and free too. The C library runs four rounds at least.
const ROUNDS: usize = 3;

/// Creates the key whose destructor returns the slot of an ending thread.
pub fn create_key() {
    let mut key: c_uint = 0;
    // SAFETY: `thread_ends` may be called as long as the process lives, because a preloaded library is never unloaded.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        STATE.thread_end_key.store(key as usize + 1, Release);
    }
    if ThreadState::mine().is_some() {
        return_slot_at_end();
    }
}

/// Makes the calling thread return its slot when it ends.
fn return_slot_at_end() {
    set_round(1);
}

fn set_round(round: usize) {
    if let Some(key) = STATE.thread_end_key.load(Acquire).checked_sub(1) {
        // SAFETY: the key exists. The value is a number that is never dereferenced.
        unsafe { libc::pthread_setspecific(key as c_uint, core::ptr::without_provenance(round)) };
    }
}

/// The key's destructor.
unsafe extern "C" fn thread_ends(round: *mut c_void) {
    let round = round.addr();
    if round < ROUNDS {
        return set_round(round + 1);
    }
    run(|worker| {
        if let Some(state) = worker.state {
            // SAFETY: the thread has the state, and is inside this operation. A heap without a fast path has no span.
            unsafe { pages::give_back_at_end(state) };
        }
    });
    STATE.threads.end();
}
