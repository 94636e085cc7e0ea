//! The live blocks of a trace while it is written or read: validates every event and computes the totals.

use super::{Event, MAX_SIZE_BYTES, MAX_SLOTS, MAX_THREADS, Op, Totals, Violation};

/// End of the list of free slots.
const NONE: u32 = u32::MAX;

/// A slot that has been used.
#[derive(Clone, Copy)]
struct Slot {
    /// Requested size of the live block in bytes; 0 while the slot is free.
    size: u64,
    /// While free: the slot freed just after this one, or `NONE`.
    newer: u32,
    /// While free: the slot freed just before this one, or `NONE`.
    older: u32,
}

/// The live blocks, and their totals.
///
/// Free slots are doubly linked in the order in which they were freed, so that [`Ledger::expected_slot`] is O(1)
/// although a trace may take any free slot.
#[derive(Default)]
pub(super) struct Ledger {
    slots: Vec<Slot>,
    /// The most recently freed slot plus one; 0 where none is free.
    newest_free_plus_one: u32,
    live_bytes: u64,
    live_blocks: u64,
    last_tick: u64,
    totals: Totals,
}

impl Ledger {
    /// The slot of the next allocation in a trace that reuses the most recently freed slot first.
    #[inline]
    pub(super) fn expected_slot(&self) -> u32 {
        match self.newest_free_plus_one {
            0 => self.totals.slots,
            slot => slot - 1,
        }
    }

    /// Tick of the last event, 0 before the first.
    #[inline]
    pub(super) fn last_tick(&self) -> u64 {
        self.last_tick
    }

    /// The totals so far.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Validates `event` and, if it obeys the rules, applies it. On an error nothing has changed.
    #[inline]
    pub(super) fn book(&mut self, event: &Event) -> Result<(), Violation> {
        if event.tick < self.last_tick {
            return Err(Violation::TickDecreases { tick: event.tick, previous: self.last_tick });
        }
        if event.thread > self.totals.threads {
            return Err(Violation::ThreadSkipped { thread: event.thread, next: self.totals.threads });
        }
        if event.thread == MAX_THREADS {
            return Err(Violation::TooManyThreads);
        }
        match event.op {
            Op::Allocate { slot, size, align } => self.allocate(slot, size, align)?,
            Op::Free { slot } => self.free(slot)?,
            Op::Reallocate { slot, size, align } => self.reallocate(slot, size, align)?,
        }
        self.last_tick = event.tick;
        self.totals.threads = self.totals.threads.max(event.thread + 1);
        self.totals.events += 1;
        Ok(())
    }

    fn allocate(&mut self, slot: u32, size: u64, align: u32) -> Result<(), Violation> {
        let next = self.totals.slots;
        if slot > next {
            return Err(Violation::LeavesGap { slot, next });
        }
        if slot < next && self.slots[slot as usize].size != 0 {
            return Err(Violation::AllocatesLive(slot));
        }
        if slot == MAX_SLOTS {
            return Err(Violation::TooManyBlocks);
        }
        self.charge(0, size, align)?;
        if slot == next {
            self.slots.push(Slot { size, newer: NONE, older: NONE });
            self.totals.slots += 1;
        } else {
            self.unlink(slot);
            self.slots[slot as usize].size = size;
        }
        self.live_blocks += 1;
        self.totals.peak_live_blocks = self.totals.peak_live_blocks.max(self.live_blocks);
        self.totals.allocations += 1;
        Ok(())
    }

    fn free(&mut self, slot: u32) -> Result<(), Violation> {
        let size = self.live_size(slot).ok_or(Violation::FreesDead(slot))?;
        self.live_bytes -= size;
        self.live_blocks -= 1;
        self.totals.frees += 1;
        let older = self.newest_free_plus_one.checked_sub(1).unwrap_or(NONE);
        if older != NONE {
            self.slots[older as usize].newer = slot;
        }
        self.slots[slot as usize] = Slot { size: 0, newer: NONE, older };
        self.newest_free_plus_one = slot + 1;
        Ok(())
    }

    fn reallocate(&mut self, slot: u32, size: u64, align: u32) -> Result<(), Violation> {
        let before = self.live_size(slot).ok_or(Violation::ReallocatesDead(slot))?;
        self.charge(before, size, align)?;
        self.slots[slot as usize].size = size;
        self.totals.reallocations += 1;
        Ok(())
    }

    /// Requested size of `slot` if it is live.
    #[inline]
    fn live_size(&self, slot: u32) -> Option<u64> {
        self.slots.get(slot as usize).map(|slot| slot.size).filter(|&size| size != 0)
    }

    /// Validates a request and adds it to the totals; `before` bytes of it were live already.
    #[inline]
    fn charge(&mut self, before: u64, size: u64, align: u32) -> Result<(), Violation> {
        if size == 0 || size > MAX_SIZE_BYTES {
            return Err(Violation::Size(size));
        }
        if !align.is_power_of_two() {
            return Err(Violation::Alignment(align));
        }
        // The sum of the live sizes is at most the sum of all sizes, so one check covers both.
        let requested = self.totals.requested_bytes.checked_add(size).ok_or(Violation::SumOverflows)?;
        self.totals.requested_bytes = requested;
        self.live_bytes = self.live_bytes - before + size;
        self.totals.peak_live_bytes = self.totals.peak_live_bytes.max(self.live_bytes);
        self.totals.largest_request_bytes = self.totals.largest_request_bytes.max(size);
        Ok(())
    }

    /// Takes a free slot out of the list of free slots.
    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        if older != NONE {
            self.slots[older as usize].newer = newer;
        }
        if newer == NONE {
            self.newest_free_plus_one = if older == NONE { 0 } else { older + 1 };
        } else {
            self.slots[newer as usize].older = older;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tick: u64, thread: u32, op: Op) -> Event {
        Event { tick, thread, op }
    }

    fn allocate(slot: u32, size: u64) -> Op {
        Op::Allocate { slot, size, align: 16 }
    }

    #[test]
    fn every_rule_is_enforced_and_a_refused_event_changes_nothing() {
        let mut ledger = Ledger::default();
        ledger.book(&event(5, 0, allocate(0, 10))).unwrap();
        ledger.book(&event(5, 1, allocate(1, 20))).unwrap();
        ledger.book(&event(5, 0, Op::Free { slot: 0 })).unwrap();
        let before = ledger.totals().clone();
        let align3 = Op::Allocate { slot: 0, size: 1, align: 3 };
        let align0 = Op::Reallocate { slot: 1, size: 1, align: 0 };
        let huge = Op::Reallocate { slot: 1, size: u64::MAX, align: 1 };
        for (wrong, violation) in [
            (event(6, 0, allocate(1, 1)), Violation::AllocatesLive(1)),
            (event(6, 0, allocate(3, 1)), Violation::LeavesGap { slot: 3, next: 2 }),
            (event(6, 0, Op::Free { slot: 0 }), Violation::FreesDead(0)),
            (event(6, 0, Op::Free { slot: 7 }), Violation::FreesDead(7)),
            (event(6, 0, Op::Reallocate { slot: 0, size: 1, align: 1 }), Violation::ReallocatesDead(0)),
            (event(6, 0, allocate(0, 0)), Violation::Size(0)),
            (event(6, 0, huge), Violation::Size(u64::MAX)),
            (event(6, 0, align3), Violation::Alignment(3)),
            (event(6, 0, align0), Violation::Alignment(0)),
            (event(4, 0, allocate(0, 1)), Violation::TickDecreases { tick: 4, previous: 5 }),
            (event(6, 3, allocate(0, 1)), Violation::ThreadSkipped { thread: 3, next: 2 }),
        ] {
            assert_eq!(ledger.book(&wrong), Err(violation));
            assert_eq!(ledger.totals(), &before);
            assert_eq!(ledger.expected_slot(), 0);
        }
        ledger.book(&event(5, 2, allocate(0, 1))).unwrap();
        assert_eq!(ledger.totals().threads, 3);
    }

    #[test]
    fn sums_beyond_64_bits_are_refused() {
        let mut ledger = Ledger::default();
        ledger.book(&event(0, 0, allocate(0, MAX_SIZE_BYTES))).unwrap();
        ledger.book(&event(0, 0, allocate(1, MAX_SIZE_BYTES))).unwrap();
        assert_eq!(ledger.book(&event(0, 0, allocate(2, MAX_SIZE_BYTES))), Err(Violation::SumOverflows));
        assert_eq!(ledger.book(&event(0, 0, allocate(2, 1))), Ok(()));
        assert_eq!(ledger.totals().requested_bytes, u64::MAX);
        assert_eq!(ledger.totals().peak_live_bytes, u64::MAX);
    }

    #[test]
    fn the_expected_slot_is_the_most_recently_freed_after_removals_from_the_middle() {
        let mut ledger = Ledger::default();
        let mut book = |op| {
            ledger.book(&event(0, 0, op)).unwrap();
            ledger.expected_slot()
        };
        for slot in 0..5 {
            assert_eq!(book(allocate(slot, 1)), slot + 1);
        }
        assert_eq!(book(Op::Free { slot: 1 }), 1);
        assert_eq!(book(Op::Free { slot: 3 }), 3);
        assert_eq!(book(Op::Free { slot: 0 }), 0);
        // Free, oldest to newest: 1 3 0. Remove the middle, the oldest, the newest.
        assert_eq!(book(allocate(3, 1)), 0);
        assert_eq!(book(allocate(1, 1)), 0);
        assert_eq!(book(allocate(0, 1)), 5);
    }
}
