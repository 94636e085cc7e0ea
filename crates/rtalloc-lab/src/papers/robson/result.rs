//! The schema of worst-case memory: what adversaries make each allocator need.

pub use crate::papers::claims::Claim;
use serde::{Deserialize, Serialize};

/// An adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adversary {
    /// Robson's program for powers of two, against everybody who moves nothing.
    Powers,
    /// Requests of every size, one after another, against everybody who moves nothing.
    Sizes,
    /// Requests just above powers of two behind gaps of just less than the next one, against half-fit.
    Halves,
    /// The same with one object left in each block of a buddy system, against binary buddies.
    Buddies,
    /// Small objects as far apart as the largest request is long, against best-fit.
    Comb,
    /// The same where the search goes on from the last place, against next-fit.
    March,
    /// The same where a search skips gaps that are large enough, against half-fit.
    Teeth,
    /// All memory in one size after another, against those who coalesce nothing.
    Classes,
    /// One object left in each page, against those who give a page back when it is empty.
    Pages,
}

impl Adversary {
    /// All of them.
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

    /// The name, as in tables.
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
    /// A letter for it, in tables.
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

    /// What it does.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Powers => "Robson's program, against everyone who moves nothing",
            Self::Sizes => "requests of every size behind gaps of one unit less",
            Self::Halves => "requests just above powers of two, against half-fit",
            Self::Buddies => "the same, with one object in each buddy",
            Self::Comb => "single units n - 2 apart, against best-fit",
            Self::March => "single units n - 1 apart, against next-fit",
            Self::Teeth => "single units n - 1 apart, against half-fit",
            Self::Classes => "everything in one size after another, against classes that keep their memory",
            Self::Pages => "one object left in each page",
        }
    }
}

/// A curve of theory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Law {
    /// Its name, as in figures.
    pub name: String,
    /// Its formula.
    pub formula: String,
    /// Largest request in units, and memory over what is live at the most.
    pub points: Vec<(u64, f64)>,
}

/// Everything.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Robson {
    /// Units that may be live.
    pub m: u64,
    /// The same for the comb, whose work grows with their square.
    pub comb_m: u64,
    /// Largest requests, in units.
    pub sizes: Vec<u64>,
    /// The lower bound for everyone who moves nothing, then guarantees.
    pub laws: Vec<Law>,
    /// A row for each allocator.
    pub rows: Vec<Row>,
    /// What theory says, and whether our figures say so too.
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
    /// The guarantee that is known of it, in words.
    pub guarantee: Option<String>,
    /// What each adversary came to.
    pub answers: Vec<Answer>,
}

/// What an adversary came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// Which.
    pub adversary: Adversary,
    /// For each largest request that the allocator serves; or what went wrong.
    pub needs: Result<Vec<Need>, String>,
}

/// The smallest heap in which an adversary is refused nothing; in one that is smaller by a granule, it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Need {
    /// Largest request, in units.
    pub n: u64,
    /// Most units live.
    pub m: u64,
    /// Bytes of a unit.
    pub unit_bytes: u64,
    /// Of these, what cannot be requested.
    pub header_bytes: u64,
    /// Bytes that blocks may have.
    pub needed_bytes: u64,
    /// Bytes of control structure in front of them.
    pub control_bytes: u64,
    /// By so much smaller is the largest heap that was seen to fail.
    pub granule_bytes: u64,
    /// The highest end of a block in ample memory, in bytes.
    pub ample_bytes: u64,
    /// Requests served.
    pub served: u64,
    /// Games played until this was found.
    pub games: u64,
    /// What is guaranteed to suffice, in bytes; as far as a guarantee is known.
    pub guaranteed_bytes: Option<u64>,
}

impl Need {
    /// Memory needed in units of what is live at the most.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.needed_bytes as f64 / (self.m * self.unit_bytes) as f64
    }

    /// The guarantee, likewise.
    #[must_use]
    pub fn guaranteed(&self) -> Option<f64> {
        self.guaranteed_bytes.map(|bytes| bytes as f64 / (self.m * self.unit_bytes) as f64)
    }
}

impl Row {
    /// What an adversary came to with requests of up to `n` units.
    #[must_use]
    pub fn need(&self, adversary: Adversary, n: u64) -> Option<&Need> {
        let answer = self.answers.iter().find(|answer| answer.adversary == adversary)?;
        answer.needs.as_ref().ok()?.iter().find(|need| need.n == n)
    }

    /// The adversary that makes the allocator need most with requests of up to `n` units: one that asks for less than
    /// it may is legal, too. `None` where `n` is more than the allocator serves.
    #[must_use]
    pub fn worst(&self, n: u64) -> Option<(Adversary, &Need)> {
        self.answers.iter().find(|answer| answer.needs.iter().flatten().any(|need| need.n == n))?;
        let all =
            self.answers.iter().flat_map(|answer| answer.needs.iter().flatten().map(|need| (answer.adversary, need)));
        all.filter(|(_, need)| need.n <= n).max_by(|(_, one), (_, other)| one.ratio().total_cmp(&other.ratio()))
    }
}
