//! The most steps that an operation takes, whatever other threads do.

use super::Tree;
use super::layout::Layout;
use super::options::Options;
use super::shape::nodes;
use crate::concurrent::atomics::Atomics;
use crate::contract::{Operation, Steps};

/// A request that is refused without a search: the refusal is counted.
const REFUSED: Steps = Steps { read_modify_writes: 1, loads: 0, stores: 0 };

impl<const NODE: usize, L: Layout, O: Options, A: Atomics> Tree<NODE, L, O, A> {
    /// An operation is counted when it begins and when it ends.
    const WATCHING: usize = if O::WATCHED { 2 } else { 0 };

    /// The blocks that may serve a request; `None` if it is refused at once.
    fn served(self, size_bytes: usize, align_bytes: usize) -> Option<Served> {
        let more_bytes = align_bytes.saturating_sub(Self::ALIGN_BYTES);
        let room_bytes = size_bytes.checked_add(more_bytes)?;
        let is_served = size_bytes != 0 && align_bytes.is_power_of_two() && room_bytes <= self.limit();
        is_served.then(|| Served {
            least: Self::height_for(size_bytes),
            most: Self::height_for(room_bytes),
            displaced: usize::from(more_bytes != 0),
        })
    }

    /// The block that an earlier request of this size may have become. It is not refused, since it exists. It may have
    /// grown in place to a size that no heap serves at this alignment. `None` for a size that no block has.
    fn kept(self, size_bytes: usize, align_bytes: usize) -> Option<Served> {
        let more_bytes = align_bytes.saturating_sub(Self::ALIGN_BYTES);
        let room_bytes = size_bytes.saturating_add(more_bytes).min(self.limit());
        (size_bytes != 0 && size_bytes <= self.limit()).then(|| Served {
            least: Self::height_for(size_bytes),
            most: Self::height_for(room_bytes),
            displaced: usize::from(more_bytes != 0),
        })
    }

    /// See [`SharedAllocator::max_steps`](crate::contract::SharedAllocator::max_steps).
    pub(super) fn max_steps(self, operation: Operation) -> Steps {
        match operation {
            Operation::Allocate { size_bytes, align_bytes } => {
                self.served(size_bytes, align_bytes).map_or(REFUSED, |served| self.most_to_allocate(served))
            }
            Operation::Deallocate { size_bytes, align_bytes } => {
                self.kept(size_bytes, align_bytes).map_or(Steps::default(), |kept| self.most_to_deallocate(kept))
            }
            Operation::Reallocate { old_bytes, size_bytes, align_bytes } => {
                let old = self.kept(old_bytes, align_bytes);
                old.map_or(Steps::default(), |old| self.most_to_reallocate(old, self.served(size_bytes, align_bytes)))
            }
            Operation::Reclaim { .. } => Steps::default(),
        }
    }

    /// A failed search: every node is decremented and incremented again. A search that finds a block and trims it takes
    /// fewer: a failed search also adds everything that trimming adds to the counters of a path.
    fn most_to_allocate(self, Served { least, most, displaced }: Served) -> Steps {
        let depth = self.depth();
        let visited = nodes(depth - most + 1);
        let on_the_way = (depth - most + 1) as usize;
        let mut read_modify_writes = 2 * visited + REFUSED.read_modify_writes + Self::WATCHING;
        let mut loads = 0;
        let mut stores = Self::marks(displaced) + Self::stores_to_trim(least, most);
        if Self::READS_FIRST {
            loads += visited;
            read_modify_writes += 2 * on_the_way;
        }
        if Self::FLAGGED {
            // Every node above the wanted height may be closed, on the path that was read and again in the search.
            let opened = nodes(depth - most) + if Self::READS_FIRST { on_the_way - 1 } else { 0 };
            read_modify_writes += opened;
            stores += 2 * opened;
            loads += usize::from(least != most);
        }
        Steps { read_modify_writes, loads, stores }
    }

    /// Every ancestor is incremented, after the counters inside were reset.
    fn most_to_deallocate(self, Served { least, most, displaced }: Served) -> Steps {
        let on_the_way = (self.depth() - least + 1) as usize;
        Steps {
            read_modify_writes: on_the_way + Self::WATCHING,
            // The flag is loaded as well.
            loads: Self::loads_to_find(displaced) + usize::from(Self::FLAGGED && most > 1),
            stores: 1 + displaced + if Self::RESETS { nodes(most) - 1 } else { 0 },
        }
    }

    /// The tags; in band the canary, and the counter below it.
    fn loads_to_find(displaced: usize) -> usize {
        1 + displaced + if L::IN_BAND { 2 } else { 0 }
    }

    /// A block is found. It is cut in place; or it grows in place, reserving the path to its ancestor from the root
    /// down; or that fails, and it moves.
    fn most_to_reallocate(self, old: Served, new: Option<Served>) -> Steps {
        let found = Steps { read_modify_writes: 0, loads: Self::loads_to_find(old.displaced), stores: 0 };
        // The block may have room for a size that no heap serves at this alignment.
        let (least, moved) = match new {
            Some(new) => (new.least, self.most_to_allocate(new) + self.most_to_deallocate(old)),
            None => (1, REFUSED),
        };
        let on_the_way = (self.depth() - old.least + 1) as usize;
        let marks = 1 + old.displaced + Self::marks(old.displaced);
        let cut = Steps {
            read_modify_writes: on_the_way + Self::WATCHING,
            loads: usize::from(Self::FLAGGED),
            stores: marks + Self::stores_to_trim(least.min(old.most), old.most),
        };
        // The ancestors, each of which may be closed.
        let above = on_the_way - 1;
        let opened = if Self::FLAGGED { above } else { 0 };
        let grown =
            Steps { read_modify_writes: above + opened + Self::WATCHING, loads: 0, stores: 2 * opened + above + marks };
        let tried = Steps { read_modify_writes: 2 * above + opened + Self::WATCHING, loads: 0, stores: 2 * opened };
        found + cut.max(grown).max(tried + moved)
    }

    /// Stores that mark a block, whose payload may be displaced: the tags; in band also canary and payload position.
    fn marks(displaced: usize) -> usize {
        (1 + displaced) * (1 + usize::from(L::IN_BAND))
    }

    /// Stores that cut a block out of another: a counter for every node on the path and, in band, those beside it.
    fn stores_to_trim(least: u32, most: u32) -> usize {
        let levels = (most - least) as usize;
        match (L::IN_BAND, Self::FLAGGED) {
            (false, _) => levels,
            (true, true) => 2 * levels,
            (true, false) => nodes(most) - nodes(least),
        }
    }
}

/// Which blocks may serve a request.
#[derive(Clone, Copy, Debug)]
struct Served {
    /// Height of the smallest block.
    least: u32,
    /// Height of the subtree that is reserved.
    most: u32,
    /// 1 if the payload may be displaced.
    displaced: usize,
}
