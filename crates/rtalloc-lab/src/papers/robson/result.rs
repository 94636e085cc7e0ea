//! The schema of worst-case memory: the memory that adversaries make each allocator need.

pub use crate::papers::claims::Claim;
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

/// A theoretical curve.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Law {
    /// Its name in figures.
    pub name: String,
    /// Its formula.
    pub formula: String,
    /// Largest request in units, and memory relative to the maximum live memory.
    pub points: Vec<(u64, f64)>,
}

/// The results of all experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Robson {
    /// Maximum live units.
    pub m: u64,
    /// The same for the comb, whose work is quadratic in the number of units.
    pub comb_m: u64,
    /// Largest requests, in units.
    pub sizes: Vec<u64>,
    /// The lower bound for all non-moving allocators, then guarantees.
    pub laws: Vec<Law>,
    /// One row per allocator.
    pub rows: Vec<Row>,
    /// The theoretical statements, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name.
    pub subject: String,
    /// Family of the field's taxonomy.
    pub family: String,
    /// Whether its objects move.
    pub moves: bool,
    /// Its known guarantee, as text.
    pub guarantee: Option<String>,
    /// The results of each adversary.
    pub answers: Vec<Answer>,
}

/// The results of an adversary.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The adversary.
    pub adversary: Adversary,
    /// One result for each largest request that the allocator serves, or an error message.
    pub needs: Result<Vec<Need>, String>,
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

impl Row {
    /// The results of an adversary for requests of up to `n` units.
    #[must_use]
    pub fn need(&self, adversary: Adversary, n: u64) -> Option<&Need> {
        let answer = self.answers.iter().find(|answer| answer.adversary == adversary)?;
        answer.needs.as_ref().ok()?.iter().find(|need| need.n == n)
    }

    /// The adversary with the largest need for requests of up to `n` units: an adversary may also request less than
    /// allowed. `None` if `n` is more than the allocator serves.
    #[must_use]
    pub fn worst(&self, n: u64) -> Option<(Adversary, &Need)> {
        self.answers.iter().find(|answer| answer.needs.iter().flatten().any(|need| need.n == n))?;
        let all =
            self.answers.iter().flat_map(|answer| answer.needs.iter().flatten().map(|need| (answer.adversary, need)));
        all.filter(|(_, need)| need.n <= n).max_by(|(_, one), (_, other)| one.ratio().total_cmp(&other.ratio()))
    }
}
