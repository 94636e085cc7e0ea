//! Walk, verification and fingerprints of pooled arenas, while no other thread uses them.

use super::layout::Entry;
use super::pool::{MAX_CHUNKS, WORD_CHUNKS};
use super::remote_queue::{QueuedFree, RemoteQueue};
use super::{LEAST_CHUNK_BYTES, PIECE_CHUNKS, Place, PooledArenas};
use crate::arithmetic::count;
use crate::concurrent::atomics::Atomics;
use crate::contract::{Block, Corruption, InPieces};
use core::mem::ManuallyDrop;
use core::ops::Range;
use core::ptr::NonNull;

/// What a run of chunks is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// In the pool.
    Free,
    /// A piece of a slot's heap.
    Piece(usize),
    /// A long block.
    Long,
}

impl<'r, H: InPieces<'r>, A: Atomics> PooledArenas<'r, H, A> {
    /// The state of a slot; `slot` is less than the number of slots.
    pub(super) fn place(&self, slot: usize) -> &Place<H, A> {
        // SAFETY: the slot exists, and its place is initialised.
        unsafe { self.view().place(slot).as_ref() }
    }

    /// The heap of a slot; `slot` is less than the number of slots.
    pub(super) fn heap_of(&self, slot: usize) -> ManuallyDrop<H> {
        Self::copy_of(&self.place(slot).own.0)
    }

    /// The queue from one slot to another; both are less than the number of slots.
    fn queue(&self, producer: usize, owner: usize) -> &RemoteQueue<A> {
        // SAFETY: both slots exist.
        unsafe { self.view().queue(producer, owner) }
    }

    /// Calls `visit` with every run of chunks, in address order. An entry that contradicts the pool or itself ends it.
    ///
    /// # Errors
    ///
    /// The chunk.
    fn for_each_run(&self, visit: &mut dyn FnMut(Run, Range<usize>)) -> Result<(), usize> {
        let view = self.view();
        let (plan, pool) = (view.plan(), view.pool());
        let mut chunk = 0;
        while chunk < plan.chunks {
            let entry = view.entry(chunk);
            let (kind, run) = if entry == Entry::NONE {
                let rest = chunk..plan.chunks;
                let is_free = |chunk: &usize| view.entry(*chunk) == Entry::NONE && pool.has(*chunk);
                (Run::Free, count(rest.take_while(is_free)))
            } else if entry.owner() == Entry::LONG {
                (Run::Long, entry.run())
            } else {
                (Run::Piece((entry.owner() as usize).wrapping_sub(1)), entry.run())
            };
            let inner = match kind {
                Run::Piece(_) => Entry::first(entry.owner(), 0),
                _ => Entry::NONE,
            };
            let is_sound = run != 0
                && run <= plan.chunks - chunk
                && (chunk + 1..chunk + run).all(|chunk| view.entry(chunk) == inner)
                && (chunk..chunk + run).all(|chunk| pool.has(chunk) == (kind == Run::Free))
                && !matches!(kind, Run::Piece(slot) if slot >= plan.slots || run > PIECE_CHUNKS);
            if !is_sound {
                return Err(chunk);
            }
            visit(kind, plan.range(chunk, run));
            chunk += run;
        }
        Ok(())
    }

    /// Visits the blocks that serve one slot, or all.
    pub(super) fn visit(&self, only: Option<usize>, visitor: &mut dyn FnMut(Block)) {
        let walked = self.for_each_run(&mut |kind, range| match kind {
            Run::Free | Run::Long => {
                let (address, size_bytes) = (range.start, range.len());
                let free = kind == Run::Free;
                visitor(Block { address, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free });
            }
            Run::Piece(slot) if only.is_none_or(|only| only == slot) => {
                // SAFETY: the piece is lent to the slot's heap.
                unsafe { self.heap_of(slot).walk_piece(range, visitor) }
            }
            Run::Piece(_) => {}
        });
        debug_assert!(walked.is_ok(), "the entries contradict each other: {walked:?}");
    }

    /// The largest request that the pool serves, with what a slot would give back before.
    pub(super) fn largest_in_pool(&self, slot: usize) -> usize {
        let view = self.view();
        let plan = view.plan();
        let spare = view.entry_at(self.place(slot).own.0.spare.get());
        let spare = spare.map_or(0..0, |(first, entry)| first..first + entry.run());
        // SAFETY: the spare piece is the slot's.
        let is_given =
            !spare.is_empty() && unsafe { self.heap_of(slot).is_empty(plan.range(spare.start, spare.len())) };
        let (mut run, mut length) = (0, 0);
        for chunk in 0..plan.chunks {
            length = if view.pool().has(chunk) || is_given && spare.contains(&chunk) { length + 1 } else { 0 };
            run = run.max(length);
        }
        plan.bytes_of(run)
    }

    /// Verifies the plan and the entries, then each slot's heap with its queued remote frees.
    pub(super) fn verify(&mut self) -> Result<(), Corruption> {
        self.verify_plan()?;
        let view = self.view();
        for slot in 0..view.plan().slots {
            self.verify_place(slot)?;
        }
        self.for_each_run(&mut |_, _| ()).map_err(|chunk| Corruption {
            invariant: "every chunk is in the pool, in a piece of a slot, or in a long block",
            address: view.plan().address_of(chunk),
        })?;
        for slot in 0..view.plan().slots {
            // SAFETY: these are the pieces of this heap.
            unsafe {
                self.heap_of(slot).check_pieces(&|visit| {
                    let walked = self.for_each_run(&mut |kind, range| {
                        if kind == Run::Piece(slot) {
                            visit(range);
                        }
                    });
                    debug_assert!(walked.is_ok(), "verified before");
                })?;
            }
            let spare = self.place(slot).own.0.spare.get();
            let mut idle = None;
            let walked = self.for_each_run(&mut |kind, range| {
                // SAFETY: the piece is this heap's.
                let is_idle = kind == Run::Piece(slot) && unsafe { self.heap_of(slot).is_empty(range.clone()) };
                if is_idle && range.start != spare {
                    idle = Some(range.start);
                }
            });
            debug_assert!(walked.is_ok(), "verified before");
            if let Some(address) = idle {
                return Err(Corruption { invariant: "an empty piece is its slot's spare", address });
            }
            self.verify_remote_frees(slot)?;
        }
        Ok(())
    }

    /// Verifies that everything is where it must be for this number of slots and chunks.
    fn verify_plan(&self) -> Result<(), Corruption> {
        let control = self.control.addr().get();
        let plan = self.view().plan();
        let chunk_bytes = 1_usize.checked_shl(plan.chunk_log2).unwrap_or(0);
        let is_possible = (1..=MAX_CHUNKS).contains(&plan.chunks)
            && (1..Entry::LONG as usize).contains(&plan.slots)
            && chunk_bytes >= LEAST_CHUNK_BYTES
            && plan.chunk_mask == chunk_bytes - 1;
        let layout = if is_possible { Self::layout(plan.chunks, chunk_bytes, plan.slots) } else { None };
        let planned = layout.and_then(|layout| layout.plan(control, chunk_bytes, plan));
        if planned.is_none_or(|planned| planned != *plan) || plan.reclaim_budget == 0 {
            let invariant = "all parts of the control structure are where its numbers of slots and chunks require";
            return Err(Corruption { invariant, address: control });
        }
        let view = self.view();
        if (plan.chunks..plan.words as usize * WORD_CHUNKS).any(|chunk| view.pool().has(chunk))
            || (plan.chunks..plan.entries()).any(|chunk| view.entry(chunk) != Entry::NONE)
        {
            return Err(Corruption { invariant: "there is no chunk after the last", address: plan.entries });
        }
        Ok(())
    }

    /// Verifies that a slot's state is its own.
    fn verify_place(&self, slot: usize) -> Result<(), Corruption> {
        let place = self.place(slot);
        let own = &place.own.0;
        let broken = |invariant| Err(Corruption { invariant, address: core::ptr::from_ref(place).addr() });
        if own.owner != slot + 1 || own.seal != own.sealed() {
            return broken("a slot has its own heap");
        }
        if ![0, own.seal].contains(&own.fits_badly.get()) {
            return broken("a slot knows which piece it took last");
        }
        let spare = own.spare.get();
        let entry = self.view().entry_at(spare);
        if spare != 0
            && entry.is_none_or(|(chunk, entry)| {
                self.view().plan().address_of(chunk) != spare
                    || entry.owner() != own.owner as u32
                    || !(1..=PIECE_CHUNKS).contains(&entry.run())
            })
        {
            return broken("the spare is a piece of the slot");
        }
        Ok(())
    }

    /// Verifies that the queued frees of a slot are live blocks of its heap, in finite chains, and their pending bits
    /// set.
    fn verify_remote_frees(&self, owner: usize) -> Result<(), Corruption> {
        let view = self.view();
        let heap = self.heap_of(owner);
        let mut live_blocks = 0_usize;
        self.visit(Some(owner), &mut |block| live_blocks += usize::from(!block.free));
        let place = self.place(owner);
        let place_at = core::ptr::from_ref(place).addr();
        let broken = |invariant, address| Corruption { invariant, address };
        let mut count = 0;
        let chain = place.own.0.chain.get();
        if u32::try_from(chain).is_err() {
            return Err(broken("the block of a queued free lies in a piece of the slot", place_at));
        }
        let is_own =
            |address: &usize| view.entry_at(*address).is_some_and(|(_, entry)| entry.owner() as usize == owner + 1);
        let queue = |producer| self.queue(producer, owner);
        place.common.0.verify(owner, view.plan().slots, QueuedFree::new(chain as u32), queue, &mut |queued| {
            let Some(address) = Self::address_of(view.plan(), queued).filter(is_own) else {
                return Err(broken("the block of a queued free lies in a piece of the slot", place_at));
            };
            // SAFETY: the address is in a piece, on the grid of its blocks, and not zero.
            let block = unsafe { NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(address)) };
            count += 1;
            // SAFETY: the block lies in a piece, on its grid.
            if count > live_blocks || !unsafe { heap.looks_live(block) } {
                return Err(broken("a queued free is a live block, queued once", address));
            }
            // SAFETY: the block is live in its piece and queued, so its first word is a link.
            Ok(unsafe { Self::link_at(address) }.next())
        })
    }

    /// Emits the configuration, the chunks and the blocks, then each slot's state and queued remote frees.
    pub(super) fn emit_state(&self, word: &mut dyn FnMut(usize)) {
        let view = self.view();
        let plan = *view.plan();
        [plan.slots, plan.reclaim_budget, plan.chunk_bytes(), plan.chunks].into_iter().for_each(&mut *word);
        for chunk in 0..plan.chunks {
            word(view.entry(chunk).0 as usize);
        }
        self.visit(None, &mut |block| {
            word(block.address);
            word(block.size_bytes | usize::from(block.free));
        });
        for owner in 0..plan.slots {
            self.heap_of(owner).fingerprint_of_index(word);
            let place = self.place(owner);
            word(place.own.0.spare.get());
            word(usize::from(place.own.0.fits_badly.get() != 0));
            let below = |queued: QueuedFree| {
                let address = Self::address_of(&plan, queued);
                // SAFETY: the block is queued, so its first word is a link.
                address.and_then(|at| unsafe { Self::link_at(at) }.next())
            };
            let chain = QueuedFree::new(place.own.0.chain.get() as u32);
            place.common.0.emit(plan.slots, chain, |producer| self.queue(producer, owner), &below, word);
        }
    }
}
