//! An entry: the target of a handle, and the one word on which readers, the mover and threads that free synchronise.
//!
//! ```text
//! state   [ generation ][ LIVE | MOVING | SECOND ][ pins ]
//!           half a word    3 bits                   the rest
//! places  [ address ][ address ]       SECOND: which of them is the object's
//! ```
//!
//! Because the word holds the generation, one addition pins the object and returns whether the handle is of this
//! object, whether it is live, whether it is being moved, and which of the two places is its own. The other place
//! belongs to the mover, which writes it before the word makes it the object's.
//!
//! A thread that pins without right (with an old handle, or beyond the most pins) removes its pin and touches nothing
//! else. So pins are counted even for entries without an object, and every other RMW of the word preserves them.
//!
//! | step | ordering | what it orders |
//! |---|---|---|
//! | the addition of `pin` | acquire | reading place, size and bytes comes after their writes: the allocation, a move, earlier pins |
//! | the subtraction of `unpin` | release | accesses to the bytes come first |
//! | the addition of `settle` | release | place and size come before the object is live |
//! | the compare-and-swap of `begin_move` | acquire | the copy comes after accesses under earlier pins |
//! | the compare-and-swap of `commit` | release | the copy, and its place, come before it is the object |
//! | clearing LIVE in `end`, the subtraction of `arrive`, the load of `is_left` | acquire | reuse of the memory comes after accesses under earlier pins |

use crate::concurrent::atomics::{Atomics, Shared};
use crate::contract::HandleError;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Half of the bits of a word.
const HALF: u32 = usize::BITS / 2;
/// One generation.
const GENERATION: usize = 1 << HALF;
/// There is an object, and its handle is valid.
const LIVE: usize = 1 << (HALF - 1);
/// The owner is copying the object.
const MOVING: usize = 1 << (HALF - 2);
/// The second place is the object's.
const SECOND: usize = 1 << (HALF - 3);
/// One pin.
const PIN: usize = 1;
/// All pins.
const PINS: usize = SECOND - 1;

/// Most pins of an object at a time. Pins beyond this are refused, but counted for a moment: that many threads may be
/// refused at a time.
pub const MAX_PINS: usize = PINS / 2;

/// Why an object was not pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinError {
    /// The handle names no live object.
    Handle(HandleError),
    /// The object has [`MAX_PINS`] already.
    TooMany,
}

impl core::fmt::Display for PinError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PinError::Handle(error) => error.fmt(f),
            PinError::TooMany => f.write_str("the object has the largest number of pins already"),
        }
    }
}

impl core::error::Error for PinError {}

/// An entry.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Entry<A: Atomics> {
    state: Shared<usize, A>,
    /// Addresses of the object: one is its own, the other the mover's.
    places: [Shared<usize, A>; 2],
    /// Bytes requested.
    size: Shared<u32, A>,
    /// Link of a queued free, of an unused entry, or of one that waits for its last pin.
    link: Shared<u32, A>,
}

/// The fields of a state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) generation: u32,
    pub(super) is_live: bool,
    pub(super) is_moving: bool,
    pub(super) pins: usize,
}

/// The generation of a state.
#[inline(always)]
const fn generation_of(state: usize) -> u32 {
    (state >> HALF) as u32
}

/// Which place is the object's.
#[inline(always)]
const fn place_of(state: usize) -> usize {
    (state & SECOND != 0) as usize
}

/// Whether a state is that of the live object that a handle of this generation names.
///
/// # Errors
///
/// What is wrong with the handle.
#[inline(always)]
fn agree(state: usize, generation: u32) -> Result<(), HandleError> {
    if generation_of(state) == generation && state & LIVE != 0 {
        return Ok(());
    }
    Err(if generation <= generation_of(state) { HandleError::Stale } else { HandleError::Foreign })
}

impl<A: Atomics> Entry<A> {
    /// An entry that never had an object. Its places are an address of its owner's pages, so that they are never null.
    #[inline(always)]
    pub(super) const fn empty(page: usize) -> Self {
        Entry {
            state: Shared::new(0),
            places: [Shared::new(page), Shared::new(page)],
            size: Shared::new(0),
            link: Shared::new(0),
        }
    }

    /// The word of its link.
    #[inline(always)]
    pub(super) fn link(&self) -> &Shared<u32, A> {
        &self.link
    }

    /// Pins the object: until [`unpin`](Self::unpin), it stays where it is. Returns its address and size.
    ///
    /// Aborts a move that is under way: from the addition on it cannot be committed, and once MOVING is clear, it
    /// cannot be committed after this pin is gone either.
    ///
    /// # Time
    ///
    /// Constant: 2 RMWs, 2 loads.
    #[inline(always)]
    pub(super) fn pin(&self, generation: u32) -> Result<(usize, usize), PinError> {
        // Acquire: place, size and bytes are read after their writes.
        let state = self.state.fetch_add(PIN, Acquire);
        if let Err(error) = agree(state, generation) {
            self.step_back();
            return Err(PinError::Handle(error));
        }
        if state & PINS >= MAX_PINS {
            self.step_back();
            return Err(PinError::TooMany);
        }
        if state & MOVING != 0 {
            // Relaxed: the mover has only read what it copied, and discards the copy.
            self.state.fetch_and(!MOVING, Relaxed);
        }
        let address = self.places[place_of(state)].load(Relaxed);
        Ok((address, self.size.load(Relaxed) as usize))
    }

    /// Removes a pin under which nothing was accessed.
    #[cold]
    #[inline(never)]
    fn step_back(&self) {
        self.state.fetch_add(PIN.wrapping_neg(), Relaxed);
    }

    /// Ends a pin.
    ///
    /// # Time
    ///
    /// Constant: 1 RMW.
    #[inline(always)]
    pub(super) fn unpin(&self) {
        // Release: accesses to the bytes come before the pin is gone.
        self.state.fetch_add(PIN.wrapping_neg(), Release);
    }

    /// Ends the life of an object of another slot: from now on its handle is stale, and its entry has a pin that the
    /// owner removes when it processes the queued free. Of several threads that try, one succeeds.
    ///
    /// # Errors
    ///
    /// What is wrong with the handle.
    ///
    /// # Time
    ///
    /// Constant: 3 RMWs.
    #[inline(always)]
    pub(super) fn end_for_owner(&self, generation: u32) -> Result<(), HandleError> {
        // The pin keeps the entry from being reused for another object. Relaxed: the remote-free queue orders.
        let state = self.state.fetch_add(PIN, Relaxed);
        if let Err(error) = agree(state, generation) {
            self.step_back();
            return Err(error);
        }
        // One bit for each RMW, so that each is one instruction: a machine without an instruction that returns all bits
        // would loop while readers pin and unpin. Under the pin no move begins or is committed in between.
        if self.state.fetch_and(!LIVE, Relaxed) & LIVE == 0 {
            self.step_back();
            return Err(HandleError::Stale);
        }
        self.state.fetch_and(!MOVING, Relaxed);
        Ok(())
    }

    /// Ends the life of an object, for its owner. Returns whether it has no pins.
    ///
    /// # Errors
    ///
    /// What is wrong with the handle.
    ///
    /// # Time
    ///
    /// Constant: 2 loads, 2 RMWs.
    #[inline(always)]
    pub(super) fn end(&self, generation: u32) -> Result<bool, HandleError> {
        // Only the owner changes the generation.
        agree(self.state.load(Relaxed), generation)?;
        // One bit for each RMW, as in `end_for_owner`. Only the caller moves objects.
        if self.state.fetch_and(!LIVE, Relaxed) & LIVE == 0 {
            return Err(HandleError::Stale);
        }
        self.state.fetch_and(!MOVING, Relaxed);
        // Acquire: the memory is reused after accesses under earlier pins.
        Ok(self.state.load(Acquire) & PINS == 0)
    }

    /// The owner processes the queued free: removes its pin. Returns whether it was the last one.
    #[inline(always)]
    pub(super) fn arrive(&self) -> bool {
        // Acquire: as in `end`.
        self.state.fetch_add(PIN.wrapping_neg(), Acquire) & PINS == PIN
    }

    /// Whether the last pin of a freed object is gone.
    #[inline(always)]
    pub(super) fn is_left(&self) -> bool {
        // Acquire: as in `end`.
        self.state.load(Acquire) & PINS == 0
    }

    /// Gives the entry a new object, and returns its generation, which is not 0. For the owner.
    ///
    /// # Time
    ///
    /// Constant: 1 load, 2 stores, 1 RMW.
    #[inline(always)]
    pub(super) fn settle(&self, address: usize, size_bytes: usize) -> u32 {
        let state = self.state.load(Relaxed);
        self.places[place_of(state)].store(address, Relaxed);
        self.size.store(size_bytes as u32, Relaxed);
        let next = state.wrapping_add(GENERATION);
        let skipped = if next & !(GENERATION - 1) == 0 { GENERATION } else { 0 };
        // Release: place and size are written before the object is live.
        self.state.fetch_add(GENERATION.wrapping_add(skipped).wrapping_add(LIVE), Release);
        generation_of(next.wrapping_add(skipped))
    }

    /// The object's address. For the owner.
    #[inline(always)]
    pub(super) fn place(&self) -> usize {
        self.places[place_of(self.state.load(Relaxed))].load(Relaxed)
    }

    /// Bytes requested. For the owner.
    pub(super) fn size(&self) -> usize {
        self.size.load(Relaxed) as usize
    }

    /// The fields of the current state.
    pub(super) fn state(&self) -> State {
        let state = self.state.load(Relaxed);
        State {
            generation: generation_of(state),
            is_live: state & LIVE != 0,
            is_moving: state & MOVING != 0,
            pins: state & PINS,
        }
    }

    /// Begins to move the object, unless it is pinned or freed. For the owner.
    ///
    /// # Time
    ///
    /// Constant: 1 load, 1 RMW.
    #[inline(always)]
    pub(super) fn begin_move(&self) -> bool {
        let state = self.state.load(Relaxed);
        if state & LIVE == 0 || state & PINS != 0 {
            return false;
        }
        // Acquire: the copy is made after accesses under earlier pins.
        self.state.compare_exchange(state, state | MOVING, Acquire).is_ok()
    }

    /// Whether the move continues: the object has been neither pinned nor freed since it began. For the owner.
    #[inline(always)]
    pub(super) fn is_moving(&self) -> bool {
        self.state.load(Relaxed) & MOVING != 0
    }

    /// Makes the copy at `address` the object, unless the object has been pinned or freed since the move began: then it
    /// stays where it is, and the move is over. For the owner.
    ///
    /// # Time
    ///
    /// Constant: 1 load, 1 store, 2 RMWs.
    #[inline(always)]
    pub(super) fn commit(&self, address: usize) -> bool {
        let state = self.state.load(Relaxed);
        if state & MOVING == 0 {
            return false;
        }
        self.places[place_of(state) ^ 1].store(address, Relaxed);
        let moved = (state ^ SECOND) & !MOVING;
        // Release: the copy and its place are written before they become the object's.
        if state & PINS == 0 && self.state.compare_exchange(state, moved, Release).is_ok() {
            return true;
        }
        self.state.fetch_and(!MOVING, Relaxed);
        false
    }

    /// Sets the address of an object that no thread uses. For the owner.
    pub(super) fn relocate(&self, address: usize) {
        self.places[place_of(self.state.load(Relaxed))].store(address, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concurrent::atomics::Native;

    fn live() -> (Entry<Native>, u32) {
        let entry = Entry::empty(2048);
        let generation = entry.settle(4096, 10);
        (entry, generation)
    }

    #[test]
    fn pins_are_bounded() {
        let (entry, generation) = live();
        entry.state.fetch_add(MAX_PINS - 1, Relaxed);
        assert_eq!(entry.pin(generation), Ok((4096, 10)));
        assert_eq!(entry.pin(generation), Err(PinError::TooMany));
        entry.unpin();
        assert_eq!(entry.pin(generation), Ok((4096, 10)));
        assert_eq!(entry.state().pins, MAX_PINS);
    }

    #[test]
    fn generations_skip_0_and_refused_pins_leave_no_trace() {
        let (entry, first) = live();
        assert_eq!(entry.end(first), Ok(true));
        assert_eq!(entry.pin(first), Err(PinError::Handle(HandleError::Stale)));
        entry.state.fetch_add(GENERATION.wrapping_neg().wrapping_mul(2), Relaxed);
        assert_eq!(
            entry.state(),
            State { generation: generation_of(usize::MAX), is_live: false, is_moving: false, pins: 0 }
        );
        assert_eq!(entry.settle(4096, 10), 1, "wraps around, skipping 0");
        assert_eq!(entry.end_for_owner(2), Err(HandleError::Foreign));
        assert_eq!(entry.state().pins, 0);
    }

    #[test]
    fn a_move_is_committed_once_and_only_without_pins() {
        let (entry, generation) = live();
        assert!(entry.begin_move() && entry.commit(8192));
        assert_eq!((entry.place(), entry.commit(4096)), (8192, false));
        assert!(entry.begin_move());
        assert_eq!(entry.pin(generation), Ok((8192, 10)));
        assert!(!entry.is_moving() && !entry.begin_move() && !entry.commit(4096));
        entry.unpin();
        assert!(!entry.commit(4096), "the pin is gone, but the copy is out of date");
        assert_eq!(entry.place(), 8192);
        // A pin through an old handle is not one of the object's, but still prevents the commit.
        assert!(entry.begin_move());
        entry.state.fetch_add(PIN, Relaxed);
        assert!(!entry.commit(4096) && !entry.is_moving());
    }

    #[test]
    fn one_of_several_ends_an_object() {
        let (entry, generation) = live();
        assert_eq!(entry.pin(generation), Ok((4096, 10)));
        assert_eq!(entry.end_for_owner(generation), Ok(()));
        assert_eq!(entry.end_for_owner(generation), Err(HandleError::Stale));
        assert_eq!(entry.end(generation), Err(HandleError::Stale));
        assert!(!entry.arrive() && !entry.is_left());
        entry.unpin();
        assert!(entry.is_left());
    }
}
