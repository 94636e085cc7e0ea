//! Observations of subjects, merged from several processes.

use crate::observe::{Maxima, Operation};
use crate::result::bounds::{Explored, Reached, Seen};
use pathbound::Bound;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Observations of a subject.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Evidence {
    pub(super) of: [Sighting; Operation::ALL.len()],
    pub(super) explored: Option<Explored>,
    pub(super) troubles: Vec<String>,
}

/// Observations of one operation of a subject.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Sighting {
    pub(super) scenario: Option<Seen>,
    pub(super) observed: Option<Seen>,
    pub(super) by: BTreeMap<String, u64>,
    pub(super) paths: Option<Paths>,
}

/// The parts of the longest path that different operations executed: a bit for each of its steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Paths {
    each: HashSet<Vec<u64>>,
    union: Vec<u64>,
}

impl Paths {
    pub(super) fn of(bound: &Bound, each: &[BTreeSet<u64>], union: &BTreeSet<u64>, bias: u64) -> Self {
        let bits = |executed: &BTreeSet<u64>| {
            let mut bits = vec![0; bound.witness.len().div_ceil(64)];
            for (position, step) in bound.witness.iter().enumerate() {
                bits[position / 64] |=
                    u64::from(executed.contains(&(step.address.wrapping_add(bias)))) << (position % 64);
            }
            bits
        };
        Self { each: each.iter().map(bits).collect(), union: bits(union) }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.each.extend(other.each);
        self.union.resize(self.union.len().max(other.union.len()), 0);
        self.union.iter_mut().zip(other.union).for_each(|(bits, others)| *bits |= others);
    }

    /// For each step of the longest path, how it was reached.
    pub(super) fn reached(&self, bound: &Bound) -> Vec<Reached> {
        let has = |bits: &[u64], step: usize| bits.get(step / 64).is_some_and(|word| word >> (step % 64) & 1 == 1);
        let steps = bound.witness.len();
        let weight = |bits: &[u64]| -> u64 {
            (0..steps).filter(|step| has(bits, *step)).map(|step| bound.witness[step].executions).sum()
        };
        // Among equally near paths, the one with the earlier bits: the choice must not depend on hash order.
        let nearest = self.each.iter().max_by_key(|bits| (weight(bits), std::cmp::Reverse(*bits)));
        let nearest = nearest.map_or(&[][..], Vec::as_slice);
        let with = |step: usize, other: usize| self.each.iter().any(|bits| has(bits, step) && has(bits, other));
        (0..steps)
            .map(|step| {
                if has(nearest, step) {
                    Reached::Yes
                } else if !has(&self.union, step) {
                    Reached::Never
                } else {
                    match (0..steps).find(|other| has(nearest, *other) && !with(step, *other)) {
                        Some(other) => Reached::NeverWith { other: bound.witness[other].address },
                        None => Reached::Elsewhere,
                    }
                }
            })
            .collect()
    }
}

impl Sighting {
    pub(super) fn merge(&mut self, other: Self) {
        raise(&mut self.scenario, other.scenario);
        raise(&mut self.observed, other.observed);
        for (driver, most) in other.by {
            let known = self.by.entry(driver).or_default();
            *known = most.max(*known);
        }
        match (&mut self.paths, other.paths) {
            (Some(paths), Some(others)) => paths.merge(others),
            (paths, others) => *paths = paths.take().or(others),
        }
    }
}

impl Evidence {
    pub(super) fn of(&self, operation: Operation) -> Sighting {
        self.of[operation as usize].clone()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.of.iter_mut().zip(other.of).for_each(|(own, other)| own.merge(other));
        self.explored = self.explored.or(other.explored);
        self.troubles.extend(other.troubles);
    }

    /// Enters a driver's maxima.
    pub(super) fn enter(&mut self, driver: &str, maxima: &Maxima) {
        for operation in Operation::ALL {
            let Some(maximum) = maxima.of(operation) else { continue };
            let seen = Seen { instructions: maximum.instructions, circumstance: maximum.circumstance.clone() };
            self.see(operation, driver, seen);
        }
    }

    /// Enters one maximum of a driver.
    pub(super) fn see(&mut self, operation: Operation, driver: &str, seen: Seen) {
        let by = BTreeMap::from([(driver.to_string(), seen.instructions)]);
        self.of[operation as usize].merge(Sighting { by, observed: Some(seen), ..Sighting::default() });
    }
}

/// Keeps the larger; if equal, the first.
pub(super) fn raise(known: &mut Option<Seen>, other: Option<Seen>) {
    let instructions = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.instructions);
    if instructions(&other) > instructions(known) {
        *known = other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pathbound::Unit;
    use pathbound::bound::Step;
    use pathbound::certificate::{Address, Proof};

    /// A bound whose longest path is these addresses, once each.
    fn bound(path: &[u64]) -> Bound {
        let proof = Proof {
            entry: Address(path[0]),
            function: None,
            unit: Unit::Instructions,
            most: path.len() as u64,
            assumptions: BTreeSet::new(),
            loops: Vec::new(),
            conflicts: Vec::new(),
            never_returning: Vec::new(),
            cases: Vec::new(),
        };
        let witness = path.iter().map(|address| Step { address: *address, executions: 1, cost: 1, depth: 0 }).collect();
        Bound {
            entry: path[0],
            unit: Unit::Instructions,
            most: path.len() as u64,
            least: 1,
            witness,
            never_returning: Vec::new(),
            not_called: BTreeSet::new(),
            assumptions: BTreeSet::new(),
            proof,
        }
    }

    fn paths(bound: &Bound, each: &[&[u64]]) -> Paths {
        let each: Vec<BTreeSet<u64>> = each.iter().map(|path| path.iter().copied().collect()).collect();
        let union = each.iter().flatten().copied().collect();
        Paths::of(bound, &each, &union, 0)
    }

    #[test]
    fn steps_missed_by_the_nearest_operation_are_classified() {
        let bound = bound(&[1, 2, 3, 4, 5]);
        // The nearest has 1, 2, 3; 4 was executed, but never with 2; 5 never.
        let reached = paths(&bound, &[&[1, 2, 3], &[1, 4]]).reached(&bound);
        let yes = Reached::Yes;
        assert_eq!(reached, [yes.clone(), yes.clone(), yes.clone(), Reached::NeverWith { other: 2 }, Reached::Never]);
        // 4 was executed with each of 1, 2 and 3, but not with all of them.
        let reached = paths(&bound, &[&[1, 2, 3], &[1, 2, 4], &[3, 4]]).reached(&bound);
        assert_eq!(reached, [yes.clone(), yes.clone(), yes, Reached::Elsewhere, Reached::Never]);
    }

    #[test]
    fn evidence_of_several_processes_adds_up() {
        let bound = bound(&[1, 2, 3]);
        let seen = |instructions: u64| Seen { instructions, circumstance: instructions.to_string() };
        let mut all = Evidence::default();
        for (driver, most, path) in [("search", 2, &[1, 2][..]), ("programs", 3, &[1, 2, 3]), ("search", 1, &[1])] {
            let mut one = Evidence::default();
            one.see(Operation::Deallocate, driver, seen(most));
            one.of[Operation::Deallocate as usize].paths = Some(paths(&bound, &[path]));
            all.merge(one);
        }
        let sighting = all.of(Operation::Deallocate);
        assert_eq!(sighting.observed, Some(seen(3)));
        assert_eq!(sighting.by, BTreeMap::from([("programs".into(), 3), ("search".into(), 2)]));
        assert!(sighting.paths.expect("paths").reached(&bound).iter().all(|reached| *reached == Reached::Yes));
        assert_eq!(all.of(Operation::Allocate).observed, None);
    }
}
