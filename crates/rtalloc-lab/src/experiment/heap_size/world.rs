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
    /// At most `m` units, in requests of 1 to `n`.
    Live {
        /// Most live units.
        m: usize,
        /// Largest request.
        n: usize,
    },
    /// Objects that can be assigned to limits.
    Limits(Vec<UnitLimit>),
}

impl World {
    /// Limits in the units of an allocator.
    #[must_use]
    pub fn of(limits: &[Limit], unit: Unit) -> Self {
        let units = |bytes: usize| (bytes + unit.header_bytes).div_ceil(unit.bytes);
        let limit = |limit: &Limit| UnitLimit {
            objects: limit.most_objects(1, usize::MAX),
            smallest: units(limit.smallest_bytes()),
            largest: units(limit.largest_bytes()),
        };
        Self::Limits(limits.iter().map(limit).filter(|limit| limit.objects > 0).collect())
    }

    /// The largest request, in units.
    #[must_use]
    pub fn largest(&self) -> usize {
        match self {
            Self::Live { n, .. } => *n,
            Self::Limits(limits) => limits.iter().map(|limit| limit.largest).max().unwrap_or(0),
        }
    }

    /// Whether objects of these sizes may be live at the same time.
    ///
    /// Objects in order of size, each assigned to the limit that ends first of those with room: if that fails, every
    /// assignment does.
    #[must_use]
    pub fn allows(&self, units: &mut [usize]) -> bool {
        match self {
            Self::Live { m, n } => units.iter().sum::<usize>() <= *m && units.iter().all(|units| units <= n),
            Self::Limits(limits) => {
                let mut limits = limits.clone();
                units.sort_unstable();
                units.iter().all(|&units| {
                    let fitting = limits.iter_mut().filter(|limit| {
                        limit.objects > 0 && (limit.smallest..=limit.largest).contains(&units)
                    });
                    fitting.min_by_key(|limit| limit.largest).is_some_and(|limit| {
                        limit.objects -= 1;
                        true
                    })
                })
            }
        }
    }
}
