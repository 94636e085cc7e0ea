//! Longest and shortest paths.
//!
//! An instruction costs 1, or cycles that depend on what follows it. Loops are priced from the inside out: a loop's
//! *multiplier* is the cost of its most expensive cycle through its place. Executing the place lowers the value of a
//! path by the multiplier; entering the loop raises it by `at_most` multipliers. Then no cycle has a positive value, so
//! that relaxation finds the longest path from each instruction to the return, its *potential*. Every cycle through the
//! place passes the header, so a path of the highest value can be extended by cycles until its cost equals its value.
//! Potentials are therefore exact, not only upper bounds.

use super::loops::Loops;
use super::paths::Paths;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// The largest bound: up to here, floating-point numbers represent all integers.
pub(super) const LARGEST: i64 = 1 << 53;

/// The longest paths.
#[derive(Clone, Debug)]
pub(super) struct Longest<'a> {
    paths: &'a Paths,
    loops: &'a Loops,
    /// The multiplier of each loop.
    pub multipliers: Vec<i64>,
    /// By instruction: the longest path to the return of its function, itself included, loops priced.
    pub potentials: BTreeMap<u64, i64>,
    /// By function: the most that one execution costs, callees included.
    pub bounds: BTreeMap<u64, i64>,
}

/// A function costs more than [`LARGEST`], or computing its bound overflows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLarge(pub u64);

impl<'a> Longest<'a> {
    /// Solves function by function, callees first.
    pub fn new(paths: &'a Paths, loops: &'a Loops) -> Result<Self, TooLarge> {
        let multipliers = vec![0; loops.iter().count()];
        let mut longest = Self { paths, loops, multipliers, potentials: BTreeMap::new(), bounds: BTreeMap::new() };
        for function in &paths.functions {
            longest.solve(*function).ok_or(TooLarge(*function))?;
        }
        Ok(longest)
    }

    /// What an instruction costs with all that it calls, if a successor follows.
    pub fn cost(&self, address: u64, next: Option<u64>) -> Option<i64> {
        let point = &self.paths.points[&address];
        let own = point.cost(next).most;
        point.callee.map_or(Some(own), |callee| self.bounds[&callee].checked_add(own))
    }

    /// The next instruction on a longest path; `None` if the function is left.
    pub fn next(&self, address: u64) -> Option<u64> {
        let worth = |next: &u64| {
            let cost = self.cost(address, Some(*next))?;
            Some(cost + self.entering(Some(address), *next)? + self.potentials[next])
        };
        self.paths.points[&address].next.iter().copied().max_by_key(|next| (worth(next), Reverse(*next)))
    }

    fn solve(&mut self, function: u64) -> Option<()> {
        let mut body = self.paths.body(function);
        // Code that several functions jump to has the same potentials in each of them.
        body.retain(|address| !self.potentials.contains_key(address));
        for (index, priced) in self.loops.iter().rev().filter(|(_, priced)| body.contains(&priced.header)) {
            let mut inside: BTreeSet<u64> = priced.members.intersection(&body).copied().collect();
            if inside.remove(&priced.place) {
                let mut values = BTreeMap::from([(priced.place, 0)]);
                self.relax(&inside, &mut values)?;
                self.multipliers[index] = self.value(priced.place, &values)?.unwrap_or(0);
            }
        }
        let mut potentials = std::mem::take(&mut self.potentials);
        let relaxed = self.relax(&body, &mut potentials);
        self.potentials = potentials;
        relaxed?;
        let bound = self.entering(None, function)?.checked_add(self.potentials[&function])?;
        self.bounds.insert(function, bound);
        (bound <= LARGEST).then_some(())
    }

    /// Raises values until each is that of the longest path. Without a cycle of positive value, there are at most as
    /// many rounds as instructions; with one, numbers would grow until they overflow.
    fn relax(&self, instructions: &BTreeSet<u64>, values: &mut BTreeMap<u64, i64>) -> Option<()> {
        let order = postorder(self.paths, instructions);
        let mut changed = true;
        while changed {
            changed = false;
            for address in &order {
                let value = self.value(*address, values)?;
                if value.is_some() && value.as_ref() != values.get(address) {
                    values.extend(value.map(|value| (*address, value)));
                    changed = true;
                }
            }
        }
        Some(())
    }

    /// The highest value of a path from an instruction on, given the values of its successors. The inner `None` means
    /// that no path continues, the outer one an overflow.
    fn value(&self, address: u64, values: &BTreeMap<u64, i64>) -> Option<Option<i64>> {
        let point = &self.paths.points[&address];
        let mut best = if point.leaves() { Some(self.cost(address, None)?) } else { None };
        for next in &point.next {
            if let Some(value) = values.get(next) {
                let value = value.checked_add(self.entering(Some(address), *next)?)?;
                best = best.max(Some(value.checked_add(self.cost(address, Some(*next))?)?));
            }
        }
        let Some(best) = best else { return Some(None) };
        Some(Some(best.checked_sub(self.executing(address))?))
    }

    /// What a path gains by entering loops.
    fn entering(&self, from: Option<u64>, to: u64) -> Option<i64> {
        self.loops.entered(from, to).try_fold(0i64, |sum, (index, entered)| {
            let at_most = i64::try_from(entered.at_most).ok()?;
            sum.checked_add(self.multipliers[index].checked_mul(at_most)?)
        })
    }

    /// What a path loses by executing the place of a loop.
    fn executing(&self, address: u64) -> i64 {
        self.loops
            .around(address)
            .find(|(_, around)| around.place == address)
            .map_or(0, |(index, _)| self.multipliers[index])
    }
}

/// The least that each function costs (Dijkstra).
pub(super) fn shortest(paths: &Paths) -> BTreeMap<u64, i64> {
    let mut shortest: BTreeMap<u64, i64> = BTreeMap::new();
    for function in &paths.functions {
        let mut seen = BTreeSet::new();
        let mut waiting = BinaryHeap::from([Reverse((0i64, *function))]);
        while let Some(Reverse((before, address))) = waiting.pop() {
            if !seen.insert(address) {
                continue;
            }
            let point = &paths.points[&address];
            let before = before + point.callee.map_or(0, |callee| shortest[&callee]);
            if point.leaves() {
                let after = before + point.cost(None).least;
                // Not necessarily the least: an instruction that is reached sooner may call a longer callee.
                let least = shortest.entry(*function).or_insert(after);
                *least = after.min(*least);
            }
            waiting.extend(point.next.iter().map(|next| Reverse((before + point.cost(Some(*next)).least, *next))));
        }
    }
    shortest
}

/// The instructions in postorder: loops aside, successors come first.
fn postorder(paths: &Paths, instructions: &BTreeSet<u64>) -> Vec<u64> {
    let mut order = Vec::with_capacity(instructions.len());
    let mut seen = BTreeSet::new();
    for root in instructions {
        let mut path = Vec::new();
        if seen.insert(*root) {
            path.push((*root, 0));
        }
        while let Some((address, taken)) = path.last_mut() {
            match paths.points[address].next.get(*taken) {
                Some(next) => {
                    *taken += 1;
                    if instructions.contains(next) && seen.insert(*next) {
                        path.push((*next, 0));
                    }
                }
                None => {
                    order.push(*address);
                    path.pop();
                }
            }
        }
    }
    order
}
