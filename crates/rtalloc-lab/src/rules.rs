//! The rules by which an allocator is recommended: by `rtalloc advise`, by the default command's verdict, and by the
//! overview of the papers.
//!
//! An allocator that meets every [rule](RULES) is a *candidate*. [`choose`] selects among candidates:
//!
//! 1. TLSF if it is one, unless a guarantee is wanted. It is the default because of its known properties, not because
//!    of a formula over two figures: constant time (74 and 68 instructions, by `rtalloc bound`), and on recorded
//!    programs a heap within 1 % of best-fit's (`docs/reproduction.json`).
//! 2. Otherwise the one with the smallest product of time and heap, each relative to the best candidate's. If a
//!    deadline is given, a shorter time has no further value, and the smallest heap decides; if the heap is given, the
//!    shortest time.
//!
//! Ties go to the shorter time, then to our allocators, then to the name that sorts first. The default command has
//! neither deadline nor heap; its time is the observed maximum instead of the bound, and its heap is relative to the
//! live memory.

use crate::result::advice::{Candidate, Rule, Wishes};
use rtalloc_subjects::C_MORE_BYTES;

/// A rule as text, and the figure that it rests on.
#[derive(Clone, Copy, Debug)]
pub struct Stated {
    /// The rule.
    pub rule: Rule,
    /// What an allocator must do to be recommended.
    pub text: &'static str,
    /// Why, with the source of the figure.
    pub because: &'static str,
}

/// All rules.
pub const RULES: [Stated; 7] = [
    Stated {
        rule: Rule::Serves,
        text: "serves every request of the recording in its region, and sizes up to the largest limit",
        because: "counted by replaying the recording",
    },
    Stated {
        rule: Rule::Bounded,
        text: "allocate and free have static bounds in a region of that size",
        because: "a search takes 7 instructions per free block in first-fit-address, 15 in best-fit (`rtalloc bound`)",
    },
    Stated {
        rule: Rule::Deadline,
        text: "the larger bound is within --deadline",
        because: "no performed operation exceeded its bound (`rtalloc bound`, ci/bounds.sh)",
    },
    Stated {
        rule: Rule::Checked,
        text: "reports a double free",
        because: "in tlsf-unchecked it damages the heap, and so does a foreign pointer (docs/MISUSE.md, Tiers)",
    },
    Stated {
        rule: Rule::Shared,
        text: "with --threads, several threads use it at once, and none waits for another",
        because: "under a lock, each waits for up to 240 instructions per thread before it, and longer if one is \
                  preempted (`rtalloc bound`)",
    },
    Stated {
        rule: Rule::Guaranteed,
        text: "with --never-refuse, docs/guarantees/ proves a region in which no request within the limits is refused",
        because: "an attack makes TLSF need 13.2 times the live memory and half-fit 15.5 times, with requests of up \
                  to 16 smallest blocks (`rtalloc size --attack 1024,16`), where recorded programs need at most 1.32 \
                  times",
    },
    Stated {
        rule: Rule::Fits,
        text: "what it needs, and the statistics that C heaps keep, is within --heap and the largest heap it takes",
        because: "the smallest region that serves the recording, or the guaranteed one; in C, up to 64 bytes more",
    },
];

/// Bytes of a given region that statistics take in C and C++.
pub const MORE_IN_C: u64 = C_MORE_BYTES as u64;

/// Bytes that an allocator needs under the given wishes: guaranteed, or measured and increased by the margin unless the
/// region is given.
#[must_use]
pub fn needed_bytes(candidate: &Candidate, wishes: &Wishes, margin_per_cent: u64) -> Option<u64> {
    match (wishes.never_refuse, wishes.heap_bytes) {
        (true, _) => candidate.size.guaranteed_bytes,
        (false, _) if candidate.is_shared => candidate.shared_bytes,
        (false, Some(_)) => candidate.size.measured_bytes,
        (false, None) => with_margin(candidate.size.measured_bytes?, margin_per_cent),
    }
}

/// Bytes of the region to give it: what it needs, or all of a given region that it takes.
#[must_use]
pub fn region_bytes(candidate: &Candidate, wishes: &Wishes, margin_per_cent: u64) -> Option<u64> {
    let needed = needed_bytes(candidate, wishes, margin_per_cent)?;
    let region = wishes.heap_bytes.map_or(needed, |heap| heap.max(needed));
    Some(region.min(candidate.largest_bytes.unwrap_or(u64::MAX)))
}

/// Measured bytes and the margin, in whole cache lines.
#[must_use]
pub fn with_margin(measured_bytes: u64, margin_per_cent: u64) -> Option<u64> {
    measured_bytes.checked_add(measured_bytes.checked_mul(margin_per_cent)? / 100)?.checked_next_multiple_of(64)
}

/// The rules that an allocator does not meet.
#[must_use]
pub fn broken(candidate: &Candidate, wishes: &Wishes, margin_per_cent: u64) -> Vec<Rule> {
    let needed = needed_bytes(candidate, wishes, margin_per_cent);
    let meets = |rule: Rule| match rule {
        Rule::Serves => {
            let is_served = match candidate.size.measured_bytes {
                // A guaranteed region may be smaller if the recording resizes blocks.
                Some(measured) => needed.is_none_or(|needed| needed >= measured),
                // Without a bound it is not replayed, and without a recording there is only the guarantee.
                None => wishes.never_refuse || candidate.time_bound.is_none(),
            };
            candidate.size.trouble.is_none() && is_served && candidate.refused.is_none_or(|refused| refused == 0)
        }
        Rule::Bounded => candidate.time_bound.is_some(),
        Rule::Deadline => wishes.deadline.is_none_or(|most| candidate.time_bound.is_none_or(|bound| bound <= most)),
        Rule::Checked => !candidate.is_unchecked,
        Rule::Shared => wishes.threads.is_some() == candidate.is_shared,
        Rule::Guaranteed => !wishes.never_refuse || candidate.size.guaranteed_bytes.is_some(),
        Rule::Fits => [wishes.heap_bytes, candidate.largest_bytes]
            .into_iter()
            .flatten()
            .all(|room| needed.is_none_or(|needed| needed.saturating_add(MORE_IN_C) <= room)),
    };
    RULES.iter().map(|stated| stated.rule).filter(|rule| !meets(*rule)).collect()
}

/// The figures that are compared, of an allocator that meets the rules.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The caller's number for it.
    pub index: usize,
    /// Its name.
    pub name: &'a str,
    /// Whether it is one of this library.
    pub is_ours: bool,
    /// Instructions of the longest allocate or free.
    pub time: f64,
    /// The heap that it needs, in any unit.
    pub heap: f64,
}

/// Always selected if it is a candidate and no guarantee is wanted.
pub const DEFAULT: &str = "tlsf";

/// Up to this ratio of products, two candidates count as equivalent.
pub const AS_GOOD_AS: f64 = 1.05;

/// The number of the selected candidate.
#[must_use]
pub fn choose(offers: &[Offer<'_>], wishes: &Wishes) -> Option<usize> {
    if !wishes.never_refuse
        && let Some(default) = offers.iter().find(|offer| offer.name == DEFAULT)
    {
        return Some(default.index);
    }
    let least = |figure: fn(&Offer<'_>) -> f64| offers.iter().map(figure).fold(f64::INFINITY, f64::min);
    let (fewest, smallest) = (least(|offer| offer.time).max(1.0), least(|offer| offer.heap));
    let figure = |offer: &Offer<'_>| match (wishes.deadline, wishes.heap_bytes) {
        (Some(_), None) => offer.heap,
        (None, Some(_)) => offer.time,
        _ => offer.time / fewest * offer.heap / smallest,
    };
    let before = |left: &&Offer<'_>, right: &&Offer<'_>| {
        figure(left)
            .total_cmp(&figure(right))
            .then(left.time.total_cmp(&right.time))
            .then(right.is_ours.cmp(&left.is_ours))
            .then(left.name.cmp(right.name))
    };
    offers.iter().min_by(before).map(|offer| offer.index)
}

/// The Pareto front, by increasing time and decreasing heap.
#[must_use]
pub fn front(offers: &[Offer<'_>]) -> Vec<usize> {
    let mut sorted = offers.to_vec();
    sorted.sort_by(|a, b| a.time.total_cmp(&b.time).then(a.heap.total_cmp(&b.heap)));
    let mut smallest = f64::INFINITY;
    sorted.retain(|offer| {
        let unbeaten = offer.heap < smallest;
        smallest = smallest.min(offer.heap);
        unbeaten
    });
    sorted.into_iter().map(|offer| offer.index).collect()
}

/// The allocators that meet all rules, with the figures that are compared.
#[must_use]
pub fn offers<'a>(candidates: &'a [Candidate], wishes: &Wishes, margin_per_cent: u64) -> Vec<Offer<'a>> {
    let offer = |(index, candidate): (usize, &'a Candidate)| {
        let is_candidate = broken(candidate, wishes, margin_per_cent).is_empty();
        #[allow(clippy::cast_precision_loss)] // compared as quotients
        let (time, heap) = (candidate.time_bound? as f64, needed_bytes(candidate, wishes, margin_per_cent)? as f64);
        is_candidate.then_some(Offer { index, name: &candidate.size.subject, is_ours: true, time, heap })
    };
    candidates.iter().enumerate().filter_map(offer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::heap_size::Size;

    fn candidate(name: &str, time: Option<u64>, measured: u64, guaranteed: Option<u64>) -> Candidate {
        let size = Size {
            subject: name.into(),
            measured_bytes: Some(measured),
            guaranteed_bytes: guaranteed,
            ..Size::default()
        };
        Candidate { size, time_bound: time, refused: Some(0), ..Candidate::default() }
    }

    fn some() -> Vec<Candidate> {
        vec![
            candidate("tlsf", Some(89), 1000, Some(9000)),
            candidate("kingsley", Some(52), 1500, Some(3000)),
            candidate("binary-buddy", Some(674), 1400, Some(2000)),
            candidate("best-fit", None, 900, Some(8000)),
            Candidate {
                is_shared: true,
                shared_bytes: Some(4000),
                ..candidate("pooled-arenas", Some(2146), 1000, None)
            },
        ]
    }

    fn taken(wishes: Wishes) -> Option<&'static str> {
        let candidates = some();
        let index = choose(&offers(&candidates, &wishes, 0), &wishes)?;
        ["tlsf", "kingsley", "binary-buddy", "best-fit", "pooled-arenas"].get(index).copied()
    }

    #[test]
    fn each_wish_decides() {
        let none = Wishes::default();
        assert_eq!(taken(none), Some("tlsf"));
        assert_eq!(taken(Wishes { deadline: Some(60), ..none }), Some("kingsley"));
        assert_eq!(taken(Wishes { deadline: Some(51), ..none }), None);
        let never_refuse = Wishes { never_refuse: true, ..none };
        assert_eq!(taken(never_refuse), Some("kingsley"), "the smallest product");
        assert_eq!(taken(Wishes { deadline: Some(700), ..never_refuse }), Some("binary-buddy"), "the smallest heap");
        let within = |bytes: u64| Some(bytes + MORE_IN_C);
        assert_eq!(taken(Wishes { heap_bytes: within(3000), ..never_refuse }), Some("kingsley"), "the shortest time");
        assert_eq!(taken(Wishes { heap_bytes: within(2999), ..never_refuse }), Some("binary-buddy"));
        assert_eq!(taken(Wishes { heap_bytes: Some(1999), ..never_refuse }), None);
        assert_eq!(taken(Wishes { heap_bytes: Some(999), ..none }), None, "best-fit has no bound");
        assert_eq!(taken(Wishes { threads: Some(4), ..none }), Some("pooled-arenas"));
        assert_eq!(taken(Wishes { threads: Some(4), heap_bytes: Some(3999), ..none }), None, "of all threads");
    }

    #[test]
    fn every_rule_is_stated_once_and_can_be_broken() {
        let wishes = Wishes { deadline: Some(1), heap_bytes: Some(1), never_refuse: true, threads: Some(2) };
        let worst = Candidate { refused: Some(1), is_unchecked: true, ..candidate("worst", None, 1000, None) };
        let mut found = broken(&worst, &wishes, 0);
        assert_eq!(found, [Rule::Serves, Rule::Bounded, Rule::Checked, Rule::Shared, Rule::Guaranteed]);
        found.extend(broken(&candidate("large", Some(9), 1000, Some(1000)), &wishes, 0));
        assert!(RULES.iter().all(|stated| found.contains(&stated.rule)), "{found:?}");
    }

    #[test]
    fn no_region_is_longer_than_the_largest_heap() {
        let none = Wishes::default();
        let small = Candidate { largest_bytes: Some(65_535), ..candidate("tlsf-small", Some(93), 60_000, None) };
        let of = |wishes: &Wishes, margin| (region_bytes(&small, wishes, margin), broken(&small, wishes, margin));
        assert_eq!(of(&none, 5), (Some(63_040), vec![]));
        assert_eq!(of(&none, 20), (Some(65_535), vec![Rule::Fits]), "not with the margin");
        assert_eq!(of(&Wishes { heap_bytes: Some(1 << 17), ..none }, 20), (Some(65_535), vec![]));
        let most = Candidate { size: Size { measured_bytes: Some(65_472), ..small.size.clone() }, ..small.clone() };
        assert_eq!(broken(&most, &none, 0), [Rule::Fits], "not in C");
    }

    #[test]
    fn a_margin_increases_what_was_measured_alone() {
        let [tlsf, ..] = &some()[..] else { unreachable!() };
        let none = Wishes::default();
        assert_eq!(needed_bytes(tlsf, &none, 20), Some(1216));
        assert_eq!(needed_bytes(tlsf, &Wishes { heap_bytes: Some(5000), ..none }, 20), Some(1000));
        assert_eq!(needed_bytes(tlsf, &Wishes { never_refuse: true, ..none }, 20), Some(9000));
    }
}
