//! What a program may have live, in units.

use rtalloc::limits::Limit;
use rtalloc_subjects::Unit;

/// At most so many live objects of a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLimit {
    /// Most live objects.
    pub objects: usize,
    /// Smallest request, in units.
    pub smallest: usize,
    /// Largest request, in units.
    pub largest: usize,
}

/// What a program may have live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum World {
    /// At most `m` units, in requests of `least` to `n`.
    Live {
        /// Most live units.
        m: usize,
        /// Smallest request.
        least: usize,
        /// Largest request.
        n: usize,
    },
    /// Objects that can be assigned to limits.
    Limits(Vec<UnitLimit>),
}

impl World {
    /// What limits allow, in the units of an allocator; `None` if several limits include one on live bytes.
    #[must_use]
    pub fn of(limits: &[Limit], unit: Unit) -> Option<Self> {
        let units = |bytes: usize| (bytes + unit.header_bytes).div_ceil(unit.bytes);
        if let [limit] = limits
            && limit.live_bytes() != usize::MAX
        {
            // An object of k units has at most k units of requested bytes.
            let m = limit.live_bytes() / unit.bytes;
            return Some(Self::Live {
                m,
                least: units(limit.smallest_bytes()),
                n: units(limit.largest_bytes()).min(m),
            });
        }
        let limit = |limit: &Limit| UnitLimit {
            objects: limit.objects(),
            smallest: units(limit.smallest_bytes()),
            largest: units(limit.largest_bytes()),
        };
        let are_counted = limits.iter().all(|limit| limit.live_bytes() == usize::MAX);
        are_counted.then(|| Self::Limits(limits.iter().map(limit).filter(|limit| limit.objects > 0).collect()))
    }

    /// The most units that can be live.
    #[must_use]
    pub fn most_units(&self) -> usize {
        match self {
            Self::Live { m, .. } => *m,
            Self::Limits(limits) => {
                let units = |limit: &UnitLimit| limit.objects.saturating_mul(limit.largest);
                limits.iter().map(units).fold(0, usize::saturating_add)
            }
        }
    }

    /// The most objects that can be live.
    #[must_use]
    pub fn most_objects(&self) -> usize {
        match self {
            Self::Live { m, least, .. } => m / least,
            Self::Limits(limits) => limits.iter().map(|limit| limit.objects).fold(0, usize::saturating_add),
        }
    }

    /// The smallest and largest requests of every limit, in units.
    #[must_use]
    pub fn ends(&self) -> Vec<usize> {
        match self {
            Self::Live { least, n, .. } => vec![*least, *n],
            Self::Limits(limits) => limits.iter().flat_map(|limit| [limit.smallest, limit.largest]).collect(),
        }
    }

    /// The largest request, in units.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.ends().into_iter().max().unwrap_or(0)
    }

    /// Whether objects of these sizes may be live at the same time.
    ///
    /// Objects in order of size, each assigned to the limit that ends first of those with room: if that fails, every
    /// assignment does.
    #[must_use]
    pub fn allows(&self, units: &mut [usize]) -> bool {
        match self {
            Self::Live { m, least, n } => {
                units.iter().sum::<usize>() <= *m && units.iter().all(|units| (least..=n).contains(&units))
            }
            Self::Limits(limits) => {
                let mut limits = limits.clone();
                units.sort_unstable();
                units.iter().all(|&units| {
                    let fitting = limits
                        .iter_mut()
                        .filter(|limit| limit.objects > 0 && (limit.smallest..=limit.largest).contains(&units));
                    fitting.min_by_key(|limit| limit.largest).is_some_and(|limit| {
                        limit.objects -= 1;
                        true
                    })
                })
            }
        }
    }
}
