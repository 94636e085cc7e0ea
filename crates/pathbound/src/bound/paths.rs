//! The paths of a graph that return, which a bound covers, and what it leaves out.

use crate::decline::{Decline, Site};
use crate::graph::{Callee, Flow, Graph, NeverReturns, Node, Obstacle};
use crate::image::Image;
use crate::unit::{Cost, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// An instruction on a path that returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// The successors in the same function, without duplicates.
    pub next: Vec<u64>,
    /// The function of the graph that is called, if any.
    pub callee: Option<u64>,
    /// What it costs itself, for each successor; where the function is left, one cost.
    costs: Vec<Cost>,
}

impl Point {
    /// Whether the function is left from here, by a return or a tail call.
    pub fn leaves(&self) -> bool {
        self.next.is_empty()
    }

    /// What it costs itself if a successor follows, or, for `None`, where the function is left.
    pub fn cost(&self, next: Option<u64>) -> Cost {
        self.costs[next.map_or(0, |next| self.next.iter().position(|one| *one == next).expect("a successor"))]
    }
}

/// The paths that begin at an entry, avoid some instructions and return.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    /// The entry.
    pub entry: u64,
    /// The instructions on them.
    pub points: BTreeMap<u64, Point>,
    /// Instructions that branch off these paths and never return, with all that follows them.
    pub dead: BTreeSet<u64>,
    /// The functions on them, callees before callers.
    pub functions: Vec<u64>,
    /// The first instruction whose cost is not known.
    pub unpriced: Option<u64>,
}

impl Paths {
    /// The paths that avoid these instructions. There may be none, and the entry is then dead or avoided.
    ///
    /// # Errors
    ///
    /// [`Decline::Recursion`], and [`Decline::Disagreement`] if a function returns but never does so in the graph.
    pub fn new(
        image: &dyn Image,
        graph: &Graph,
        entry: u64,
        avoid: &BTreeSet<u64>,
        unit: Unit,
    ) -> Result<Self, Decline> {
        let returning = returning(graph, entry, avoid)?;
        let mut points = points(graph, entry, &returning);
        let mut unpriced = None;
        for (address, point) in &mut points {
            let ways: Vec<Option<u64>> = match (point.callee, point.next.as_slice()) {
                (Some(callee), next) => vec![Some(callee); next.len().max(1)],
                (None, []) => vec![None],
                (None, next) => next.iter().copied().map(Some).collect(),
            };
            let costs: Option<Vec<Cost>> = ways.iter().map(|next| unit.cost(image, *address, *next)).collect();
            point.costs = costs.unwrap_or_else(|| {
                unpriced = unpriced.or(Some(*address));
                vec![Cost { least: 0, most: 0 }; ways.len()]
            });
        }
        let dead = dead(graph, entry, &points, &returning, avoid);
        let mut paths = Self { entry, points, dead, functions: Vec::new(), unpriced };
        if paths.points.contains_key(&entry) {
            paths.functions = paths.callees_first(image)?;
        }
        Ok(paths)
    }

    /// Whether any path returns.
    pub fn exist(&self) -> bool {
        self.points.contains_key(&self.entry)
    }

    /// The instructions of a function that are on these paths.
    pub fn body(&self, function: u64) -> BTreeSet<u64> {
        let mut body = BTreeSet::new();
        let mut waiting = vec![function];
        while let Some(address) = waiting.pop() {
            if body.insert(address) {
                waiting.extend(&self.points[&address].next);
            }
        }
        body
    }

    /// The first instruction on these paths that cannot be bounded.
    pub fn obstacle(&self, graph: &Graph) -> Option<(u64, Obstacle)> {
        self.points.keys().find_map(|address| Some((*address, graph.obstacle(*address)?)))
    }

    /// Calls of functions that never return, and traps, that branch off these paths; and, apart, the functions that a
    /// user states not to be called.
    pub fn never_returning(&self, image: &dyn Image, graph: &Graph) -> (Vec<(String, Site)>, BTreeSet<String>) {
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<u64> = self.points.keys().flat_map(|address| graph.successors(*address)).collect();
        waiting.extend(self.points.keys().copied());
        while let Some(address) = waiting.pop() {
            if (self.dead.contains(&address) || self.points.contains_key(&address)) && seen.insert(address) {
                waiting.extend(graph.successors(address));
            }
        }
        let mut not_called = BTreeSet::new();
        let ends = seen.intersection(&self.dead).filter_map(|address| {
            let name = match &graph.node(*address)?.flow {
                Flow::Call(Callee::NeverReturns { name, stated, .. })
                | Flow::Tail(Callee::NeverReturns { name, stated, .. }) => {
                    if *stated {
                        not_called.insert(NeverReturns::short(name).to_owned());
                        return None;
                    }
                    name.clone()
                }
                Flow::Call(Callee::Function(function)) | Flow::Tail(Callee::Function(function))
                    if self.dead.contains(function) =>
                {
                    if let Some(stated) = stated_ends(graph, *function) {
                        not_called.extend(stated);
                        return None;
                    }
                    image.symbol(*function).map_or_else(|| format!("{function:#x}"), |symbol| symbol.name)
                }
                Flow::Stop => "trap".to_owned(),
                _ => return None,
            };
            Some((name, Site::of(image, *address)))
        });
        (ends.collect(), not_called)
    }

    /// The functions, callees before callers.
    fn callees_first(&self, image: &dyn Image) -> Result<Vec<u64>, Decline> {
        let mut order = Vec::new();
        let mut done = BTreeSet::new();
        // The active functions, each with its calls that are still to be followed, from the highest address down.
        let mut calling = vec![(self.entry, self.calls(self.entry))];
        while let Some((function, calls)) = calling.last_mut() {
            let function = *function;
            match calls.pop() {
                Some((_, callee)) if done.contains(&callee) => {}
                Some((site, callee)) if calling.iter().any(|(function, _)| *function == callee) => {
                    return Err(Decline::Recursion(Site::of(image, site)));
                }
                Some((_, callee)) => calling.push((callee, self.calls(callee))),
                None => {
                    calling.pop();
                    done.insert(function);
                    order.push(function);
                }
            }
        }
        Ok(order)
    }

    /// The calls in a function: call site and callee.
    fn calls(&self, function: u64) -> Vec<(u64, u64)> {
        let body = self.body(function);
        body.into_iter().filter_map(|address| Some((address, self.points[&address].callee?))).collect()
    }
}

/// The functions stated not to be called in which every path of a function ends; `None` if one ends otherwise.
fn stated_ends(graph: &Graph, function: u64) -> Option<BTreeSet<String>> {
    let (mut before, mut ends): (BTreeMap<u64, Vec<u64>>, _) = (BTreeMap::new(), Vec::new());
    let (mut seen, mut waiting, mut stated) = (BTreeSet::new(), vec![function], BTreeSet::new());
    while let Some(address) = waiting.pop() {
        if !seen.insert(address) {
            continue;
        }
        let node = graph.node(address)?;
        match &node.flow {
            Flow::Call(Callee::NeverReturns { name, stated: true, .. })
            | Flow::Tail(Callee::NeverReturns { name, stated: true, .. }) => {
                stated.insert(NeverReturns::short(name).to_owned());
                ends.push(address);
            }
            Flow::Call(Callee::NeverReturns { .. } | Callee::Unknown(_))
            | Flow::Tail(Callee::NeverReturns { .. } | Callee::Unknown(_))
            | Flow::Stop
            | Flow::Unknown(_) => return None,
            _ => {}
        }
        for next in graph.successors(address).chain(node.callee()) {
            before.entry(next).or_default().push(address);
            waiting.push(next);
        }
    }
    // From everywhere in the function such an end can be reached: there is no endless loop.
    let mut ending = BTreeSet::new();
    while let Some(address) = ends.pop() {
        if ending.insert(address) {
            ends.extend(before.remove(&address).into_iter().flatten());
        }
    }
    (ending == seen).then_some(stated)
}

/// All instructions that are reached from an entry, through calls too.
fn reached(graph: &Graph, entry: u64) -> Result<BTreeSet<u64>, Decline> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![entry];
    while let Some(address) = waiting.pop() {
        if reached.insert(address) {
            let Some(node) = graph.node(address) else {
                return Err(Decline::Disagreement(format!(
                    "the graph leads to {address:#x}, which it does not contain"
                )));
            };
            waiting.extend(graph.successors(address).chain(node.callee()));
        }
    }
    Ok(reached)
}

/// The instructions from which a return may be reached. Unknown flow may return and is not left out.
fn returning(graph: &Graph, entry: u64, avoid: &BTreeSet<u64>) -> Result<BTreeSet<u64>, Decline> {
    let reached = reached(graph, entry)?;
    let mut users: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (address, node) in graph.nodes().filter(|(address, _)| reached.contains(address)) {
        for used in graph.successors(address).chain(node.callee()) {
            users.entry(used).or_default().push(address);
        }
    }
    let mut returning = BTreeSet::new();
    let mut waiting: Vec<u64> = reached.into_iter().collect();
    while let Some(address) = waiting.pop() {
        if !avoid.contains(&address) && !returning.contains(&address) && returns(graph, address, &returning)? {
            returning.insert(address);
            waiting.extend(users.get(&address).into_iter().flatten());
        }
    }
    Ok(returning)
}

/// Whether an instruction may lead to a return, given some that do.
fn returns(graph: &Graph, address: u64, returning: &BTreeSet<u64>) -> Result<bool, Decline> {
    if graph.goes_elsewhere(address) {
        return Ok(true);
    }
    let goes_on = || graph.escapes(address) || graph.successors(address).any(|next| returning.contains(&next));
    Ok(match graph.node(address).map(|node| &node.flow) {
        Some(Flow::Return | Flow::Unknown(_) | Flow::Tail(Callee::Unknown(_))) => true,
        Some(Flow::Next | Flow::NextPast(_) | Flow::Jump(_) | Flow::Branch(_) | Flow::Call(Callee::Unknown(_))) => {
            goes_on()
        }
        Some(Flow::Call(Callee::Function(function)) | Flow::Tail(Callee::Function(function))) => {
            let comes_back = returning.contains(function);
            if comes_back && !graph.returns(*function) {
                return Err(Decline::Disagreement(format!(
                    "{function:#x} has a path to a return, but never returns in the graph"
                )));
            }
            comes_back && (goes_on() || matches!(graph.node(address).map(|node| &node.flow), Some(Flow::Tail(_))))
        }
        Some(Flow::Stop | Flow::Call(Callee::NeverReturns { .. }) | Flow::Tail(Callee::NeverReturns { .. })) | None => {
            false
        }
    })
}

/// The instructions on paths that return.
fn points(graph: &Graph, entry: u64, returning: &BTreeSet<u64>) -> BTreeMap<u64, Point> {
    let mut points = BTreeMap::new();
    let mut waiting = vec![entry];
    while let Some(address) = waiting.pop() {
        if !returning.contains(&address) || points.contains_key(&address) {
            continue;
        }
        let mut next: Vec<u64> = graph.successors(address).filter(|next| returning.contains(next)).collect();
        next.dedup();
        let callee = graph.node(address).and_then(Node::callee).filter(|callee| returning.contains(callee));
        waiting.extend(next.iter().copied().chain(callee));
        points.insert(address, Point { next, callee, costs: Vec::new() });
    }
    points
}

/// The instructions that branch off the paths and never return, with all that follows them and is not avoided.
fn dead(
    graph: &Graph,
    entry: u64,
    points: &BTreeMap<u64, Point>,
    returning: &BTreeSet<u64>,
    avoid: &BTreeSet<u64>,
) -> BTreeSet<u64> {
    let mut dead = BTreeSet::new();
    let mut waiting: Vec<u64> = points.keys().flat_map(|address| graph.successors(*address)).collect();
    waiting.push(entry);
    while let Some(address) = waiting.pop() {
        if returning.contains(&address) || avoid.contains(&address) || !dead.insert(address) {
            continue;
        }
        waiting.extend(graph.successors(address));
        let called = graph.node(address).and_then(Node::callee);
        waiting.extend(called.filter(|function| !returning.contains(function)));
    }
    dead
}
