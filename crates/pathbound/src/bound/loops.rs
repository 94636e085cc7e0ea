//! The loops of a graph, nested, and the facts that bound them.
//!
//! A loop is a strongly connected component of instructions. It must have one *header*, the only instruction through
//! which it is entered. The components that remain without the header are the loops inside it.

use super::BoundableLoop;
use super::paths::Paths;
use crate::decline::{Decline, OpenLoop, Refusal, Site};
use crate::facts::{LoopFact, Place};
use crate::image::Image;
use std::collections::{BTreeMap, BTreeSet};

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loop {
    /// The instruction through which it is entered.
    pub header: u64,
    /// Its instructions, those of the loops inside it included.
    pub members: BTreeSet<u64>,
    /// The loop around it.
    pub parent: Option<usize>,
    /// The instruction that is executed at most `at_most` times for each entry. Every cycle of the loop passes it,
    /// except cycles of the loops inside.
    pub place: u64,
    /// The number in the fact.
    pub at_most: u64,
}

/// The loops of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Loops {
    /// Outer loops before inner ones.
    all: Vec<Loop>,
    /// The innermost loop of each instruction that is in one.
    innermost: BTreeMap<u64, usize>,
}

impl Loops {
    /// Finds the loops and bounds each of them.
    ///
    /// # Errors
    ///
    /// [`Decline::IrreducibleLoop`], [`Decline::UselessFact`], [`Decline::RefusedFact`], [`Decline::UnboundedLoops`].
    pub fn new(image: &dyn Image, paths: &Paths, facts: &[LoopFact]) -> Result<Self, Decline> {
        let mut loops = Self::found(image, paths)?;
        loops.apply(image, paths, facts)?;
        Ok(loops)
    }

    /// Finds the loops, without their bounds.
    ///
    /// # Errors
    ///
    /// [`Decline::IrreducibleLoop`].
    pub fn found(image: &dyn Image, paths: &Paths) -> Result<Self, Decline> {
        let mut loops = Self::default();
        let entered = entered(paths);
        let everything: BTreeSet<u64> = paths.points.keys().copied().collect();
        loops.find(image, paths, &entered, &everything, None)?;
        Ok(loops)
    }

    /// The loops in the form in which users state facts about them.
    pub fn boundable(&self, paths: &Paths) -> Vec<BoundableLoop> {
        let boundable = |(index, found): (usize, &Loop)| {
            let own = |address: &&u64| self.innermost.get(*address) == Some(&index);
            let place = self.last_in_every_iteration(paths, index, &found.members).unwrap_or(found.header);
            BoundableLoop {
                header: found.header,
                place,
                once_more: place == found.header,
                own: found.members.iter().filter(own).copied().collect(),
                around: found.parent,
            }
        };
        self.iter().map(boundable).collect()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Loop)> {
        self.all.iter().enumerate()
    }

    pub fn take(self) -> impl Iterator<Item = Loop> {
        self.all.into_iter()
    }

    /// The loops around an instruction, from the inside out.
    pub fn around(&self, address: u64) -> impl Iterator<Item = (usize, &Loop)> {
        let mut index = self.innermost.get(&address).copied();
        std::iter::from_fn(move || {
            let current = index?;
            index = self.all[current].parent;
            Some((current, &self.all[current]))
        })
    }

    /// The loops that are entered by going to an instruction, from another one or, with `None`, by a call.
    pub fn entered(&self, from: Option<u64>, to: u64) -> impl Iterator<Item = (usize, &Loop)> {
        self.around(to).take_while(move |(_, entered)| from.is_none_or(|from| !entered.members.contains(&from)))
    }

    fn find(
        &mut self,
        image: &dyn Image,
        paths: &Paths,
        entered: &BTreeMap<u64, BTreeSet<Option<u64>>>,
        among: &BTreeSet<u64>,
        parent: Option<usize>,
    ) -> Result<(), Decline> {
        for members in cycles(paths, among) {
            let from_outside = |address: &&u64| {
                let from = entered.get(address).into_iter().flatten();
                from.into_iter().any(|from| from.is_none_or(|from| !members.contains(&from)))
            };
            let headers: Vec<u64> = members.iter().filter(from_outside).copied().collect();
            let &[header] = headers.as_slice() else {
                let site = headers.first().or(members.first()).copied().unwrap_or(paths.entry);
                return Err(Decline::IrreducibleLoop(Site::of(image, site)));
            };
            let index = self.all.len();
            self.innermost.extend(members.iter().map(|member| (*member, index)));
            let mut inside = members.clone();
            inside.remove(&header);
            self.all.push(Loop { header, members, parent, place: header, at_most: 0 });
            self.find(image, paths, entered, &inside, Some(index))?;
        }
        Ok(())
    }

    fn apply(&mut self, image: &dyn Image, paths: &Paths, facts: &[LoopFact]) -> Result<(), Decline> {
        // By loop: the number and the place, separately for facts about addresses and about lines.
        let mut exact: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let mut by_line: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for fact in facts {
            let meant = fact.place.find(image, paths.points.keys().copied());
            let around: BTreeSet<usize> =
                meant.iter().filter_map(|address| self.innermost.get(address).copied()).collect();
            if around.is_empty() {
                return Err(Decline::UselessFact(fact.place.clone()));
            }
            let refuse = |why| {
                let instead = around.iter().map(|index| self.open(image, paths, *index)).collect();
                Err(Decline::RefusedFact(fact.place.clone(), why, instead))
            };
            let least = |bounded: &mut BTreeMap<usize, (u64, u64)>, index: usize, fact: (u64, u64)| {
                let bound = bounded.entry(index).or_insert(fact);
                *bound = (*bound).min(fact);
            };
            match fact.place {
                Place::Address(place) => {
                    if around.iter().any(|index| !self.is_in_every_iteration(paths, *index, place)) {
                        return refuse(Refusal::PassedBy);
                    }
                    around.iter().for_each(|index| least(&mut exact, *index, (fact.at_most, place)));
                }
                Place::Line { .. } => {
                    let named = around.iter().copied().filter(|index| self.has_condition(paths, *index, &meant));
                    let named: BTreeSet<usize> = named.collect();
                    if named.is_empty() {
                        return refuse(Refusal::NotTheCondition);
                    }
                    let has_named_around = |index: &usize| {
                        self.around(self.all[*index].header).skip(1).any(|(outer, _)| named.contains(&outer))
                    };
                    if named.iter().any(has_named_around) {
                        return refuse(Refusal::Nested);
                    }
                    // Going around N times begins N + 1 iterations; the last may end at the condition.
                    let begun = fact.at_most.saturating_add(1);
                    named.iter().for_each(|index| least(&mut by_line, *index, (begun, self.all[*index].header)));
                }
            }
        }
        let said = |index: usize| exact.get(&index).or_else(|| by_line.get(&index)).copied();
        let open: Vec<usize> = (0..self.all.len()).filter(|index| said(*index).is_none()).collect();
        if !open.is_empty() {
            let open = open.into_iter().map(|index| self.open(image, paths, index)).collect();
            return Err(Decline::UnboundedLoops(open));
        }
        for index in 0..self.all.len() {
            if let Some((at_most, place)) = said(index) {
                (self.all[index].at_most, self.all[index].place) = (at_most, place);
            }
        }
        Ok(())
    }

    /// Describes a loop for the message that asks for a fact.
    fn open(&self, image: &dyn Image, paths: &Paths, index: usize) -> OpenLoop {
        let found = &self.all[index];
        let place = self.last_in_every_iteration(paths, index, &found.members).unwrap_or(found.header);
        OpenLoop { entry: Site::of(image, found.header), place: Site::of(image, place) }
    }

    /// Whether the loop's condition is among some instructions: the only branch outside inner loops that every
    /// iteration executes and that can leave the loop.
    ///
    /// Other lines may not belong to this loop: the instructions of a fully unrolled loop are in the loop around it,
    /// which iterates more often. And of several such branches, some may be copies of an unrolled loop's.
    fn has_condition(&self, paths: &Paths, index: usize, some: &BTreeSet<u64>) -> bool {
        let members = &self.all[index].members;
        let leaves = |address: &&u64| paths.points[*address].next.iter().any(|next| !members.contains(next));
        let own = members.iter().filter(|address| self.innermost.get(*address) == Some(&index)).filter(leaves);
        let conditions: Vec<u64> =
            own.copied().filter(|address| self.is_in_every_iteration(paths, index, *address)).collect();
        matches!(conditions.as_slice(), [condition] if some.contains(condition))
    }

    /// The last of some instructions, from the header on, that every iteration of a loop executes: none is executed
    /// more rarely.
    fn last_in_every_iteration(&self, paths: &Paths, index: usize, some: &BTreeSet<u64>) -> Option<u64> {
        let own = some.iter().copied().filter(|place| self.innermost.get(place) == Some(&index));
        let places: Vec<u64> = own.filter(|place| self.is_in_every_iteration(paths, index, *place)).collect();
        let Loop { header, members, .. } = &self.all[index];
        let is_last = |last: &u64| {
            let (mut seen, mut waiting) = (BTreeSet::new(), vec![*header]);
            while let Some(address) = waiting.pop() {
                if address != *last && members.contains(&address) && seen.insert(address) {
                    waiting.extend(&paths.points[&address].next);
                }
            }
            places.iter().all(|place| place == last || seen.contains(place))
        };
        places.iter().copied().find(is_last)
    }

    /// Whether every iteration of a loop executes a place: without it, only the loops inside have cycles.
    fn is_in_every_iteration(&self, paths: &Paths, index: usize, place: u64) -> bool {
        let mut rest = self.all[index].members.clone();
        rest.remove(&place);
        let inside: Vec<&Loop> = self.all.iter().filter(|inner| inner.parent == Some(index)).collect();
        cycles(paths, &rest).iter().all(|cycle| inside.iter().any(|inner| cycle.is_subset(&inner.members)))
    }
}

/// The predecessors of each instruction; `None` stands for calls.
fn entered(paths: &Paths) -> BTreeMap<u64, BTreeSet<Option<u64>>> {
    let mut entered: BTreeMap<u64, BTreeSet<Option<u64>>> = BTreeMap::new();
    for function in &paths.functions {
        entered.entry(*function).or_default().insert(None);
    }
    for (address, point) in &paths.points {
        for next in &point.next {
            entered.entry(*next).or_default().insert(Some(*address));
        }
    }
    entered
}

/// The strongly connected components of these instructions that contain a cycle (Tarjan, SIAM J. Comput. 1(2), 1972,
/// without recursion).
fn cycles(paths: &Paths, among: &BTreeSet<u64>) -> Vec<BTreeSet<u64>> {
    struct Visit {
        order: usize,
        lowest: usize,
        waiting: bool,
    }
    let mut visits: BTreeMap<u64, Visit> = BTreeMap::new();
    let mut component: Vec<u64> = Vec::new();
    let mut found = Vec::new();
    for root in among {
        let mut path: Vec<(u64, usize)> = Vec::new();
        if !visits.contains_key(root) {
            path.push((*root, 0));
        }
        while let Some((address, taken)) = path.last_mut() {
            let address = *address;
            if *taken == 0 && !visits.contains_key(&address) {
                let order = visits.len();
                visits.insert(address, Visit { order, lowest: order, waiting: true });
                component.push(address);
            }
            if let Some(next) = paths.points[&address].next.get(*taken).copied() {
                *taken += 1;
                match visits.get(&next) {
                    None if among.contains(&next) => path.push((next, 0)),
                    Some(visit) if visit.waiting => {
                        let order = visit.order;
                        let this = visits.get_mut(&address).expect("it is on the path");
                        this.lowest = this.lowest.min(order);
                    }
                    _ => {}
                }
                continue;
            }
            path.pop();
            let Visit { order, lowest, .. } = visits[&address];
            if let Some((before, _)) = path.last() {
                let before = visits.get_mut(before).expect("it is on the path");
                before.lowest = before.lowest.min(lowest);
            }
            if lowest == order {
                let start = component.iter().rposition(|member| *member == address).expect("it was pushed");
                let members: BTreeSet<u64> = component.drain(start..).collect();
                for member in &members {
                    visits.get_mut(member).expect("it was visited").waiting = false;
                }
                if members.len() > 1 || paths.points[&address].next.contains(&address) {
                    found.push(members);
                }
            }
        }
    }
    found
}
