//! Checking and fingerprinting arenas, while nobody is at work.

use super::mailbox::{Letter, Mailbox};
use super::{Arenas, LINE_BYTES, Place};
use crate::concurrent::atomics::Atomics;
use crate::contract::{Corruption, Observable};
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

impl<'r, H: Observable<'r>, A: Atomics> Arenas<'r, H, A> {
    /// The place of a slot, which is less than their number.
    fn place(&self, slot: usize) -> &Place<H, A> {
        // SAFETY: there is such a slot, and its place is initialised.
        unsafe { self.view().place(slot).as_ref() }
    }

    /// The heap of a slot, which is less than their number.
    pub(super) fn heap_of(&mut self, slot: usize) -> ManuallyDrop<H> {
        Self::copy_of(&self.place(slot).own.0)
    }

    /// The mailbox of a pair of slots, which are less than their number.
    fn mailbox(&self, producer: usize, owner: usize) -> &Mailbox<A> {
        // SAFETY: there are such slots.
        unsafe { self.view().mailbox(producer, owner) }
    }

    /// Verifies what was planned, then each arena with its mail.
    pub(super) fn verify(&mut self) -> Result<(), Corruption> {
        self.verify_plan()?;
        (0..self.view().plan().slots).try_for_each(|slot| {
            self.verify_place(slot)?;
            self.heap_of(slot).check()?;
            self.verify_mail(slot)
        })
    }

    /// Verifies that places and mailboxes are where they must be for so many slots.
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
        if front != Some((plan.mailboxes, plan.arenas, plan.row_bytes)) || !is_whole {
            return Err(Corruption {
                invariant: "mailboxes follow the places, and arenas the mailboxes",
                address: control,
            });
        }
        if plan.taken_back == 0 || plan.taken_back_on_miss == 0 {
            return Err(Corruption { invariant: "blocks are taken back", address: control });
        }
        Ok(())
    }

    /// Verifies that a slot's place leads into its arena.
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
        if place.common.0.claim.load(Relaxed) > 1 {
            return Err(Corruption { invariant: "somebody has a slot, or nobody", address: own.first });
        }
        Ok(())
    }

    /// Verifies that the letters of a slot are live blocks of its arena, in chains that end, and that there are notices of
    /// them.
    fn verify_mail(&mut self, owner: usize) -> Result<(), Corruption> {
        let heap = self.heap_of(owner);
        let mut live_blocks = 0_usize;
        heap.walk(&mut |block| live_blocks += usize::from(!block.free));
        let slots = self.view().plan().slots;
        let place = self.place(owner);
        let place_at = core::ptr::from_ref(place).addr();
        let broken = |invariant, address| Err(Corruption { invariant, address });
        let mut letters = 0;
        let mut follow = |top: Option<Letter>| {
            let mut letter = top;
            while let Some(found) = letter {
                let Some(address) = Self::address_of(&place.own.0, found) else {
                    return broken("a letter's block lies in the arena", place_at);
                };
                // SAFETY: the address is in the arena, on the grid of its blocks, and not zero.
                let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
                letters += 1;
                // SAFETY: as above.
                if letters > live_blocks || !unsafe { heap.looks_live(block) } {
                    return broken("a letter is a live block, once", address);
                }
                // SAFETY: the block is live in its arena, and in the mail.
                letter = unsafe { Self::link_at(address) }.next();
            }
            Ok(())
        };
        let chain = place.own.0.chain.get();
        if u32::try_from(chain).is_err() {
            return broken("a letter's block lies in the arena", place_at);
        }
        follow(Letter::new(chain as u32))?;
        let notices = &place.common.0.notices;
        for producer in 0..slots {
            let top = self.mailbox(producer, owner).top();
            let is_alone = slots <= usize::BITS as usize;
            if top.is_some() && (producer == owner || !notices.names(producer))
                || top.is_none() && is_alone && notices.names(producer)
            {
                return broken("there is a notice of every mailbox that is not empty, and of no other", place_at);
            }
            follow(top)?;
        }
        let is_told = |bit: usize| (bit..slots).step_by(usize::BITS as usize).any(|slot| slot != owner);
        if (0..usize::BITS as usize).any(|bit| notices.names(bit) && !is_told(bit)) {
            return broken("notices are of mailboxes", place_at);
        }
        Ok(())
    }

    /// Emits what was chosen, then each arena with its mail.
    pub(super) fn emit_state(&mut self, word: &mut dyn FnMut(usize)) {
        let plan = *self.view().plan();
        [plan.slots, plan.taken_back, plan.taken_back_on_miss, plan.share_bytes.get(), plan.end]
            .into_iter()
            .for_each(&mut *word);
        for owner in 0..plan.slots {
            self.heap_of(owner).fingerprint(word);
            let place = self.place(owner);
            word(place.common.0.claim.load(Relaxed));
            let mut chain = |top: Option<Letter>| {
                let mut letter = top;
                while let Some(found) = letter {
                    word(found.get() as usize);
                    let address = Self::address_of(&place.own.0, found);
                    // SAFETY: a letter's block is in the mail.
                    letter = address.and_then(|at| unsafe { Self::link_at(at) }.next());
                }
                word(0);
            };
            chain(Letter::new(place.own.0.chain.get() as u32));
            (0..plan.slots).for_each(|producer| chain(self.mailbox(producer, owner).top()));
            (0..plan.slots).for_each(|producer| word(usize::from(place.common.0.notices.names(producer))));
        }
    }
}
