//! The loops of a graph, nested, and the facts that bound them.
//!
//! A loop is a set of instructions each of which leads to every other, as large as can be. It must have one *header*, the
//! instruction through which it is entered. Without the header, what still leads around are the loops inside it.

use super::Turning;
use super::paths::Paths;
use crate::decline::{Decline, Site};
use crate::facts::{LoopFact, Place};
use crate::image::{Image, Source};
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
    /// The instruction that is executed at most `at_most` times for each entry. Every way around the loop passes it or
    /// is a way around a loop inside.
    pub place: u64,
    /// How often.
    pub at_most: u64,
}

/// The loops of a graph.
#[derive(Clone, Debug, Default)]
pub(super) struct Loops {
    /// Outer loops before those inside them.
    all: Vec<Loop>,
    /// The innermost loop of each instruction that is in one.
    innermost: BTreeMap<u64, usize>,
}

impl Loops {
    /// Finds the loops and bounds each of them.
    ///
    /// # Errors
    ///
    /// [`Decline::IrreducibleLoop`], [`Decline::UselessFact`], [`Decline::UnboundedLoop`].
    pub fn new(image: &dyn Image, paths: &Paths, facts: &[LoopFact]) -> Result<Self, Decline> {
        let mut loops = Self::found(image, paths)?;
        loops.apply(image, paths, facts)?;
        Ok(loops)
    }

    /// Finds the loops; what bounds them is not known yet.
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

    /// The loops as facts can be said of them.
    pub fn turning(&self, paths: &Paths) -> Vec<Turning> {
        let turning = |(index, found): (usize, &Loop)| {
            let own = |address: &&u64| self.innermost.get(*address) == Some(&index);
            let place = self.last_on_every_way_around(paths, index, &found.members).unwrap_or(found.header);
            Turning {
                header: found.header,
                place,
                once_more: place == found.header,
                own: found.members.iter().filter(own).copied().collect(),
                around: found.parent,
            }
        };
        self.iter().map(turning).collect()
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

    /// The loops that are entered by going to an instruction, from another or by a call.
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
        // By loop: how often, and what; apart those said of an address and those said of a line.
        let mut exact: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        let mut by_line: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for fact in facts {
            let meant = fact.place.find(image, paths.points.keys().copied());
            let indices = self.innermost_of(&meant);
            if indices.is_empty() {
                return Err(Decline::UselessFact(fact.place.clone()));
            }
            for index in indices {
                match fact.place {
                    Place::Address(place) if self.is_on_every_way_around(paths, index, place) => {
                        let bound = exact.entry(index).or_insert((fact.at_most, place));
                        *bound = (*bound).min((fact.at_most, place));
                    }
                    Place::Address(_) => {}
                    Place::Line { .. } => {
                        // Where the loop is left between the header and the line, the header is executed once more.
                        let last = self.last_on_every_way_around(paths, index, &meant);
                        let fact = last.map_or((fact.at_most.saturating_add(1), self.all[index].header), |place| {
                            (fact.at_most, place)
                        });
                        let bound = by_line.entry(index).or_insert(fact);
                        *bound = (*bound).max(fact);
                    }
                }
            }
        }
        for index in 0..self.all.len() {
            let Some((at_most, place)) = exact.get(&index).or_else(|| by_line.get(&index)) else {
                let place = self.place_to_count(image, paths, index);
                return Err(Decline::UnboundedLoop(Site::of(image, self.all[index].header), place));
            };
            (self.all[index].at_most, self.all[index].place) = (*at_most, *place);
        }
        Ok(())
    }

    /// The innermost loops that have instructions of these.
    fn innermost_of(&self, some: &BTreeSet<u64>) -> BTreeSet<usize> {
        let mut indices: BTreeSet<usize> =
            some.iter().filter_map(|address| self.innermost.get(address).copied()).collect();
        for index in indices.clone() {
            let outer: Vec<usize> = self.around(self.all[index].header).map(|(outer, _)| outer).skip(1).collect();
            indices.retain(|index| !outer.contains(index));
        }
        indices
    }

    /// Where to count the turns of a loop: the last instruction of its own that every turn passes, which a loop that tests
    /// first executes as often as its body. By the source line, if a fact about that means this instruction, too.
    fn place_to_count(&self, image: &dyn Image, paths: &Paths, index: usize) -> Place {
        let last = self.last_on_every_way_around(paths, index, &self.all[index].members);
        let last = last.unwrap_or(self.all[index].header);
        let line = Source::named(&image.source(last)).map(|source| {
            let file = source.file.rsplit('/').next().unwrap_or_default().to_owned();
            Place::Line { file, line: source.line }
        });
        line.filter(|line| {
            let meant = line.find(image, paths.points.keys().copied());
            self.innermost_of(&meant) == BTreeSet::from([index])
                && self.last_on_every_way_around(paths, index, &meant) == Some(last)
        })
        .unwrap_or(Place::Address(last))
    }

    /// Of some instructions the last that every way around a loop passes, counted from the header: none of the others is
    /// executed more rarely.
    fn last_on_every_way_around(&self, paths: &Paths, index: usize, some: &BTreeSet<u64>) -> Option<u64> {
        let own = some.iter().copied().filter(|place| self.innermost.get(place) == Some(&index));
        let places: Vec<u64> = own.filter(|place| self.is_on_every_way_around(paths, index, *place)).collect();
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

    /// Whether without a place only the loops inside a loop lead around.
    fn is_on_every_way_around(&self, paths: &Paths, index: usize, place: u64) -> bool {
        let mut rest = self.all[index].members.clone();
        rest.remove(&place);
        let inside: Vec<&Loop> = self.all.iter().filter(|inner| inner.parent == Some(index)).collect();
        cycles(paths, &rest).iter().all(|cycle| inside.iter().any(|inner| cycle.is_subset(&inner.members)))
    }
}

/// From where each instruction is reached; `None` stands for calls.
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

/// The largest sets, of these instructions, in which each leads to every other and to itself (Tarjan, SIAM J. Comput. 1(2),
/// 1972, without recursion).
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
