//! The schema of heap sizes: what adversaries make an allocator need, and the exact smallest heaps of small worlds.

use rtalloc::limits::Limit;
use serde::{Deserialize, Serialize};

/// An adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Robson's program for powers of two, against all non-moving allocators.
    Powers,
    /// Requests of every size in turn, against all non-moving allocators.
    Sizes,
    /// Requests just above powers of two, with gaps just smaller than the next power, against half-fit.
    Halves,
    /// The same with one remaining object in each block of a buddy system, against binary buddies.
    Buddies,
    /// Small objects as far apart as the largest request is long, against best-fit.
    Comb,
    /// The same for a search that continues from its last position, against next-fit.
    March,
    /// The same for a search that skips gaps that are large enough, against half-fit.
    Teeth,
    /// All memory in one size after another, against allocators without coalescing.
    Classes,
    /// One remaining object per page, against allocators that release a page only when it is empty.
    Pages,
}

impl Adversary {
    /// All adversaries.
    pub const ALL: [Self; 9] = [
        Self::Powers,
        Self::Sizes,
        Self::Halves,
        Self::Buddies,
        Self::Comb,
        Self::March,
        Self::Teeth,
        Self::Classes,
        Self::Pages,
    ];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Powers => "powers",
            Self::Sizes => "sizes",
            Self::Halves => "halves",
            Self::Buddies => "buddies",
            Self::Comb => "comb",
            Self::March => "march",
            Self::Teeth => "teeth",
            Self::Classes => "classes",
            Self::Pages => "pages",
        }
    }
}

impl Adversary {
    /// The letter in tables.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Powers => 'p',
            Self::Sizes => 's',
            Self::Halves => 'h',
            Self::Buddies => 'b',
            Self::Comb => 'c',
            Self::March => 'm',
            Self::Teeth => 't',
            Self::Classes => 'k',
            Self::Pages => 'g',
        }
    }

    /// A description.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Powers => "Robson's program, against every non-moving allocator",
            Self::Sizes => "requests of every size behind gaps of one unit less",
            Self::Halves => "requests just above powers of two, against half-fit",
            Self::Buddies => "the same, with one object in each buddy",
            Self::Comb => "single units n - 2 apart, against best-fit",
            Self::March => "single units n - 1 apart, against next-fit",
            Self::Teeth => "single units n - 1 apart, against half-fit",
            Self::Classes => "all memory in one size after another, against classes that keep their memory",
            Self::Pages => "one object left in each page",
        }
    }
}

/// The smallest heap in which no request of an adversary is refused; in a heap smaller by one granule, one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Largest request, in units.
    pub n: u64,
    /// Maximum live units.
    pub m: u64,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Of these, the bytes that cannot be requested.
    pub header_bytes: u64,
    /// Bytes available to blocks.
    pub needed_bytes: u64,
    /// Bytes of control structure before them.
    pub control_bytes: u64,
    /// The difference to the largest heap that was observed to fail.
    pub granule_bytes: u64,
    /// The highest end of a block in ample memory, in bytes.
    pub ample_bytes: u64,
    /// Requests served.
    pub served: u64,
    /// Number of games until this was found.
    pub games: u64,
    /// The guaranteed size in bytes, if a guarantee is known.
    pub guaranteed_bytes: Option<u64>,
}

impl Need {
    /// Memory needed, in units, divided by the maximum live memory.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.needed_bytes as f64 / (self.m * self.unit_bytes) as f64
    }

    /// The guarantee, in the same form.
    #[must_use]
    pub fn guaranteed(&self) -> Option<f64> {
        self.guaranteed_bytes.map(|bytes| bytes as f64 / (self.m * self.unit_bytes) as f64)
    }
}

/// A move of a program, in units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Requests an object of this many units.
    Take(usize),
    /// Frees an object, numbered in the order of requests from 0 on.
    Give(usize),
}

/// The exact smallest heaps of small worlds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Exact {
    /// Most live units of the largest world.
    pub m: usize,
    /// Its largest request, in units.
    pub n: usize,
    /// The most states of a search.
    pub most_states: usize,
    /// One row per allocator.
    pub rows: Vec<ExactRow>,
}

/// The name of the row of the best that any allocator which moves nothing could do.
pub const ANY: &str = "any allocator";

/// The small worlds of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactRow {
    /// Name.
    pub subject: String,
    /// Bytes of a unit.
    pub unit_bytes: usize,
    /// Of these, the bytes that cannot be requested.
    pub header_bytes: usize,
    /// Bytes of a page, 0 if the allocator has none.
    pub page_bytes: usize,
    /// The formula of its guarantee.
    pub guarantee: Option<String>,
    /// The worlds, by n and then by M, as far as states allow.
    pub cells: Vec<ExactCell>,
}

/// A world of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExactCell {
    /// Most live units.
    pub m: usize,
    /// Largest request, in units.
    pub n: usize,
    /// Bytes for blocks of the smallest heap that refuses nothing; where that is not known, of the smallest heap that
    /// was not decided. All smaller heaps refuse some program.
    pub block_bytes: usize,
    /// Whether that heap refuses nothing.
    pub is_exact: bool,
    /// States of the last search.
    pub states: usize,
    /// Bytes of the region whose heap is the next smaller one, and a shortest program that it refuses; `None` if there
    /// is no smaller heap, or if only a smaller world decided it.
    pub witness: Option<Witness>,
    /// Bytes that the formula promises to suffice.
    pub guaranteed_bytes: Option<u64>,
}

/// A program that a heap refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Bytes of the heap's region.
    pub region_bytes: usize,
    /// Bytes for blocks in it.
    pub block_bytes: usize,
    /// The program; its last request is refused.
    pub steps: Vec<Step>,
}

/// The worst programs that are known, in a world of any size.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attacks {
    /// Most live units.
    pub m: usize,
    /// Largest request, in units.
    pub n: usize,
    /// Programs that the search tried for each allocator, in addition to a beam.
    pub programs: usize,
    /// One row per allocator.
    pub rows: Vec<Attack>,
}

/// What makes an allocator need the most memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Attack {
    /// Name.
    pub subject: String,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// The worst named adversary.
    pub named: Option<Named>,
    /// The worst program that was found.
    pub found: Option<Found>,
    /// Bytes for blocks that are guaranteed to suffice.
    pub guaranteed_bytes: Option<u64>,
    /// Why there are no figures.
    pub trouble: Option<String>,
}

impl Attack {
    /// Bytes for blocks that the worst of all makes necessary.
    #[must_use]
    pub fn worst(&self) -> Option<u64> {
        let named = self.named.as_ref().map(|named| named.block_bytes);
        named.max(self.found.as_ref().map(|found| found.block_bytes))
    }
}

/// A named adversary, and what it makes necessary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Named {
    /// Bytes for blocks of the smallest heap that it leaves.
    pub block_bytes: u64,
    /// Its name.
    pub adversary: String,
}

/// A program that a search found, and what it makes necessary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Bytes for blocks of the smallest heap that it leaves.
    pub block_bytes: u64,
    /// The program, in a heap that refuses its last request.
    pub witness: Witness,
}

/// Heap sizes for a program within limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sizes {
    /// The limits.
    pub limits: Vec<LimitFacts>,
    /// A row for each allocator.
    pub rows: Vec<Size>,
}

/// Objects that may be live at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitFacts {
    /// Most live objects, if they are limited.
    pub objects: Option<usize>,
    /// Most live requested bytes, if they are limited.
    pub live_bytes: Option<usize>,
    /// Smallest request in bytes.
    pub smallest_bytes: usize,
    /// Largest request in bytes.
    pub largest_bytes: usize,
}

impl From<&Limit> for LimitFacts {
    fn from(limit: &Limit) -> Self {
        let finite = |number: usize| (number != usize::MAX).then_some(number);
        Self {
            objects: finite(limit.objects()),
            live_bytes: finite(limit.live_bytes()),
            smallest_bytes: limit.smallest_bytes(),
            largest_bytes: limit.largest_bytes(),
        }
    }
}

/// The heap sizes of an allocator, control structure included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Name.
    pub subject: String,
    /// Cost class of allocate.
    pub cost: String,
    /// The largest request of each pool, where sizes are chosen for the limits.
    pub pools: Vec<u64>,
    /// The smallest region that serves the recording, if there is one.
    pub measured_bytes: Option<u64>,
    /// What the worst adversary forces.
    pub forced: Option<Forced>,
    /// The region in which nothing within the limits is refused.
    pub guaranteed_bytes: Option<u64>,
    /// The name of the theorem.
    pub theorem: Option<String>,
    /// Static bound of allocate in instructions.
    pub allocate_bound: Option<u64>,
    /// The same of deallocate.
    pub deallocate_bound: Option<u64>,
    /// Why figures are missing.
    pub trouble: Option<String>,
}

/// What an adversary forces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// The smallest region that it leaves.
    pub region_bytes: u64,
    /// The adversary.
    pub adversary: String,
}

/// How many bytes may be live in a region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MayBeLive {
    /// Bytes of the region.
    pub heap_bytes: u64,
    /// Smallest request in bytes.
    pub smallest_bytes: u64,
    /// Largest request in bytes.
    pub largest_bytes: u64,
    /// A row for each allocator.
    pub rows: Vec<LiveRow>,
}

/// What may be live in the region of an allocator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRow {
    /// Name.
    pub subject: String,
    /// Requested bytes that may be live; `None` if nothing is guaranteed.
    pub live_bytes: Option<u64>,
    /// The largest request of each pool, where sizes are chosen for these bytes.
    pub pools: Vec<u64>,
    /// The name of the theorem.
    pub theorem: Option<String>,
}
