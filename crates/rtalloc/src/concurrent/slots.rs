//! What heaps whose slots own memory have in common: who holds a slot, what waits in its queues, what was refused.

use crate::concurrent::atomics::{Atomics, Shared};
use crate::concurrent::pooled_arenas::remote_queue::{PendingBits, QueuedFree, RemoteQueue};
use crate::contract::{Corruption, Refusals, SharedError, Steps};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A value in a cache line of its own, because other threads write it than its neighbours in memory.
#[derive(Debug)]
#[cfg_attr(target_arch = "aarch64", repr(C, align(128)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(64)))]
pub(super) struct Line<T>(pub(super) T);

/// The part of a slot's state that other threads write.
#[repr(C)]
pub(super) struct Common<A: Atomics> {
    pub(super) pending_bits: PendingBits<A>,
    /// 1 while the slot is claimed.
    pub(super) claim: Shared<usize, A>,
}

impl<A: Atomics> Common<A> {
    /// Of a slot that is not claimed.
    pub(super) const fn new() -> Self {
        Common { pending_bits: PendingBits::new(), claim: Shared::new(0) }
    }

    /// Claims the slot, unless it is claimed.
    pub(super) fn take(&self) -> bool {
        // Acquire: everything the last user of the slot did to its memory and its chain comes before this.
        self.claim.compare_exchange(0, 1, Acquire).is_ok()
    }

    /// Ends the caller's claim.
    pub(super) fn release(&self) {
        // Release: everything this user did to the memory comes before what the next user does.
        self.claim.store(0, Release);
    }

    /// Whether the slot is claimed, as a number. Exact only while no other thread uses the slot.
    pub(super) fn claimed(&self) -> usize {
        self.claim.load(Relaxed)
    }

    /// Verifies the claim of a slot, and its queued remote frees: `queue` returns the queue of each of the `slots`, and
    /// `visit` verifies a queued free and returns the one below it. The slot's own chain begins with `chain`.
    pub(super) fn verify<'a>(
        &self,
        slot: usize,
        slots: usize,
        chain: Option<QueuedFree>,
        queue: impl Fn(usize) -> &'a RemoteQueue<A>,
        visit: &mut dyn FnMut(QueuedFree) -> Result<Option<QueuedFree>, Corruption>,
    ) -> Result<(), Corruption>
    where
        A: 'a,
    {
        let broken = |invariant| Err(Corruption { invariant, address: core::ptr::from_ref(self).addr() });
        if self.claimed() > 1 {
            return broken("a slot is claimed (1) or not (0)");
        }
        let mut follow = |top: Option<QueuedFree>| {
            let mut queued = top;
            while let Some(found) = queued {
                queued = visit(found)?;
            }
            Ok(())
        };
        follow(chain)?;
        let bits = usize::BITS as usize;
        for producer in 0..slots {
            let top = queue(producer).top();
            let is_set = self.pending_bits.is_set(producer);
            // With more producers than bits, one may be set for another's queue.
            if top.is_some() && (producer == slot || !is_set) || top.is_none() && slots <= bits && is_set {
                return broken("a pending bit is set for every queue that is not empty, and for no other");
            }
            follow(top)?;
        }
        let has_producer = |bit: usize| (bit..slots).step_by(bits).any(|producer| producer != slot);
        if (0..bits).any(|bit| self.pending_bits.is_set(bit) && !has_producer(bit)) {
            return broken("pending bits belong to producers");
        }
        Ok(())
    }

    /// Emits the claim and the queued remote frees of a slot; `below` returns what is below a queued free.
    pub(super) fn emit<'a>(
        &self,
        slots: usize,
        chain: Option<QueuedFree>,
        queue: impl Fn(usize) -> &'a RemoteQueue<A>,
        below: &dyn Fn(QueuedFree) -> Option<QueuedFree>,
        word: &mut dyn FnMut(usize),
    ) where
        A: 'a,
    {
        word(self.claimed());
        for top in core::iter::once(chain).chain((0..slots).map(|producer| queue(producer).top())) {
            let mut queued = top;
            while let Some(found) = queued {
                word(found.get() as usize);
                queued = below(found);
            }
            word(0);
        }
        (0..slots).for_each(|producer| word(usize::from(self.pending_bits.is_set(producer))));
    }
}

/// Requests refused: in the order in which the reasons are numbered, invalid requests last, so that the address of a
/// counter is computed without a branch.
#[repr(C)]
pub(super) struct Refused<A: Atomics> {
    exhausted: Shared<usize, A>,
    contended: Shared<usize, A>,
    pending: Shared<usize, A>,
    request: Shared<usize, A>,
}

impl<A: Atomics> Refused<A> {
    /// None.
    pub(super) const fn new() -> Self {
        Refused {
            request: Shared::new(0),
            exhausted: Shared::new(0),
            contended: Shared::new(0),
            pending: Shared::new(0),
        }
    }

    /// Counts a refusal, and returns it.
    #[inline(always)]
    pub(super) fn count(&self, error: SharedError) -> SharedError {
        let counter = match error {
            SharedError::Request(_) => &self.request,
            SharedError::Exhausted => &self.exhausted,
            SharedError::Contended => &self.contended,
            SharedError::Pending => &self.pending,
        };
        counter.fetch_add(1, Relaxed);
        error
    }

    /// How many so far.
    pub(super) fn so_far(&self) -> Refusals {
        Refusals {
            request: self.request.load(Relaxed),
            exhausted: self.exhausted.load(Relaxed),
            contended: self.contended.load(Relaxed),
            pending: self.pending.load(Relaxed),
        }
    }
}

/// The steps of `count` repetitions.
pub(super) fn times(count: usize, steps: Steps) -> Steps {
    Steps {
        read_modify_writes: count.saturating_mul(steps.read_modify_writes),
        loads: count.saturating_mul(steps.loads),
        stores: count.saturating_mul(steps.stores),
    }
}
