//! Maps addresses to slots, to convert a recording to a trace.

use std::collections::HashMap;

/// Assigns slots to live blocks: dense numbers from 0, the most recently freed slot is reused first.
///
/// A recorder sees addresses; a trace contains slots, because an address is meaningless to another allocator. The
/// number of slots is the largest number of blocks that were live at once.
///
/// # Time
///
/// O(1) expected for every operation.
#[derive(Debug, Default)]
pub struct SlotTable {
    by_address: HashMap<u64, u32>,
    /// Freed slots, the most recent one last.
    free: Vec<u32>,
    slots: u32,
}

impl SlotTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Assigns a slot to the block at `address`; `None` if one is live there already (then the recording has missed its
    /// free).
    pub fn allocate(&mut self, address: u64) -> Option<u32> {
        let std::collections::hash_map::Entry::Vacant(entry) = self.by_address.entry(address) else {
            return None;
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        entry.insert(slot);
        Some(slot)
    }

    /// Slot of the live block at `address`.
    #[must_use]
    pub fn get(&self, address: u64) -> Option<u32> {
        self.by_address.get(&address).copied()
    }

    /// Removes the block at `address` and returns its slot; `None` if none is live there.
    pub fn free(&mut self, address: u64) -> Option<u32> {
        let slot = self.by_address.remove(&address)?;
        self.free.push(slot);
        Some(slot)
    }

    /// Moves the block at `from` to `to`, under the same slot: a `realloc` that moved. `None`, without a change, if
    /// none is live at `from` or another one is live at `to`.
    pub fn relocate(&mut self, from: u64, to: u64) -> Option<u32> {
        if from != to && self.by_address.contains_key(&to) {
            return None;
        }
        let slot = self.by_address.remove(&from)?;
        self.by_address.insert(to, slot);
        Some(slot)
    }

    /// Number of live blocks.
    #[must_use]
    pub fn live(&self) -> usize {
        self.by_address.len()
    }

    /// Number of slots used so far.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_recently_freed_slot_is_taken_first() {
        let mut table = SlotTable::new();
        assert_eq!([0x10, 0x20, 0x30].map(|address| table.allocate(address)), [Some(0), Some(1), Some(2)]);
        assert_eq!(table.free(0x10), Some(0));
        assert_eq!(table.free(0x30), Some(2));
        assert_eq!(table.allocate(0x40), Some(2));
        assert_eq!(table.allocate(0x10), Some(0));
        assert_eq!(table.allocate(0x50), Some(3));
        assert_eq!((table.live(), table.slots()), (4, 4));
    }

    #[test]
    fn a_missed_event_is_reported_and_changes_nothing() {
        let mut table = SlotTable::new();
        assert_eq!(table.free(0x10), None);
        assert_eq!(table.allocate(0x10), Some(0));
        assert_eq!(table.allocate(0x10), None);
        assert_eq!(table.allocate(0x20), Some(1));
        assert_eq!(table.relocate(0x10, 0x20), None);
        assert_eq!(table.relocate(0x30, 0x40), None);
        assert_eq!((table.get(0x10), table.get(0x20)), (Some(0), Some(1)));
        assert_eq!(table.relocate(0x10, 0x10), Some(0));
        assert_eq!(table.relocate(0x10, 0x30), Some(0));
        assert_eq!((table.get(0x10), table.get(0x30)), (None, Some(0)));
    }
}
