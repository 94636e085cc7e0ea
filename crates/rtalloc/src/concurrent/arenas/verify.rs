//! Verification and fingerprints of arenas, while no other thread uses them.

use super::remote_queue::{QueuedFree, RemoteQueue};
use super::{Arenas, Place};
use crate::concurrent::LINE_BYTES;
use crate::concurrent::atomics::Atomics;
use crate::contract::{Corruption, Observable};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

impl<'r, H: Observable<'r>, A: Atomics> Arenas<'r, H, A> {
    /// The state of a slot; `slot` is less than the number of slots.
    fn place(&self, slot: usize) -> &Place<H, A> {
        // SAFETY: the slot exists, and its place is initialised.
        unsafe { self.view().place(slot).as_ref() }
    }

    /// The heap of a slot; `slot` is less than the number of slots.
    pub(super) fn heap_of(&mut self, slot: usize) -> ManuallyDrop<H> {
        Self::copy_of(&self.place(slot).own.0)
    }

    /// The queue from one slot to another; both are less than the number of slots.
    fn queue(&self, producer: usize, owner: usize) -> &RemoteQueue<A> {
        // SAFETY: both slots exist.
        unsafe { self.view().queue(producer, owner) }
    }

    /// Verifies the plan, then each arena with its queued remote frees.
    pub(super) fn verify(&mut self) -> Result<(), Corruption> {
        self.verify_plan()?;
        (0..self.view().plan().slots).try_for_each(|slot| {
            self.verify_place(slot)?;
            self.heap_of(slot).check()?;
            self.verify_remote_frees(slot)
        })
    }

    /// Verifies that places and queues are where they must be for this number of slots.
    fn verify_plan(&self) -> Result<(), Corruption> {
        let control = self.control.addr().get();
        let plan = self.view().plan();
        let front = Self::front_bytes(plan.slots).map(|(front_bytes, row_bytes)| {
            let arenas = control.wrapping_add(front_bytes);
            (arenas.wrapping_sub(row_bytes.wrapping_mul(plan.slots)), arenas, row_bytes)
        });
        let rest = plan.end.wrapping_sub(plan.arenas.wrapping_add(plan.slots.wrapping_mul(plan.share_bytes.get())));
        let is_whole = plan.slots != 0
            && plan.share_bytes.get().is_multiple_of(LINE_BYTES)
            && rest / LINE_BYTES < plan.slots
            && plan.arenas.wrapping_add(plan.share_bytes.get()) <= plan.end;
        if front != Some((plan.queues, plan.arenas, plan.row_bytes)) || !is_whole {
            return Err(Corruption {
                invariant: "remote-free queues follow the slots' places, and arenas follow the queues",
                address: control,
            });
        }
        if plan.reclaim_budget == 0 || plan.reclaim_budget_on_miss == 0 {
            return Err(Corruption {
                invariant: "reclaim_budget and reclaim_budget_on_miss are at least 1",
                address: control,
            });
        }
        Ok(())
    }

    /// Verifies that a slot's heap and blocks lie in its arena.
    fn verify_place(&self, slot: usize) -> Result<(), Corruption> {
        let arena = self.view().plan().arena(slot);
        let place = self.place(slot);
        let own = &place.own.0;
        let is_inside = arena.contains(&own.heap_at())
            && arena.contains(&own.first)
            && own.span_bytes == arena.end.wrapping_sub(own.first)
            && own.seal == own.sealed();
        if !is_inside {
            return Err(Corruption { invariant: "a slot's heap lies in its arena", address: own.first });
        }
        Ok(())
    }

    /// Verifies that the queued frees of a slot are live blocks of its arena, in finite chains, and their pending bits
    /// set.
    fn verify_remote_frees(&mut self, owner: usize) -> Result<(), Corruption> {
        let heap = self.heap_of(owner);
        let mut live_blocks = 0_usize;
        heap.walk(&mut |block| live_blocks += usize::from(!block.free));
        let place = self.place(owner);
        let place_at = core::ptr::from_ref(place).addr();
        let broken = |invariant, address| Corruption { invariant, address };
        let mut count = 0;
        let chain = place.own.0.chain.get();
        if u32::try_from(chain).is_err() {
            return Err(broken("the block of a queued free lies in the arena", place_at));
        }
        let slots = self.view().plan().slots;
        let queue = |producer| self.queue(producer, owner);
        place.common.0.verify(owner, slots, QueuedFree::new(chain as u32), queue, &mut |queued| {
            let Some(address) = Self::address_of(&place.own.0, queued) else {
                return Err(broken("the block of a queued free lies in the arena", place_at));
            };
            // SAFETY: the address is in the arena, on the grid of its blocks, and not zero.
            let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
            count += 1;
            // SAFETY: the block lies in the arena, on its grid.
            if count > live_blocks || !unsafe { heap.looks_live(block) } {
                return Err(broken("a queued free is a live block, queued once", address));
            }
            // SAFETY: the block is live in its arena and queued, so its first word is a link.
            Ok(unsafe { Self::link_at(address) }.next())
        })
    }

    /// Emits the configuration, then each arena with its queued remote frees.
    pub(super) fn emit_state(&mut self, word: &mut dyn FnMut(usize)) {
        let plan = *self.view().plan();
        [plan.slots, plan.reclaim_budget, plan.reclaim_budget_on_miss, plan.share_bytes.get(), plan.end]
            .into_iter()
            .for_each(&mut *word);
        for owner in 0..plan.slots {
            self.heap_of(owner).fingerprint(word);
            let place = self.place(owner);
            let below = |queued: QueuedFree| {
                let address = Self::address_of(&place.own.0, queued);
                // SAFETY: the block is queued, so its first word is a link.
                address.and_then(|at| unsafe { Self::link_at(at) }.next())
            };
            let chain = QueuedFree::new(place.own.0.chain.get() as u32);
            place.common.0.emit(plan.slots, chain, |producer| self.queue(producer, owner), &below, word);
        }
    }
}
