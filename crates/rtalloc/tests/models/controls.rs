//! Explorations, and ordering mutation tests: weakening the memory order of any one access must make a model fail.
//!
//! The accesses are not listed: they are those met while the models were explored. If no model notices the weakening of
//! one, its order is not needed, or a model is missing.

use crate::mutants::{ChangedStep, Mutant};
use crate::scenarios::Fixture;
use crate::scene::{self, NewWord};
use crate::tier::Tiers;
use rtalloc::concurrent::atomics::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::atomic::Ordering;

/// Most switches of thread in one execution.
const MAX_BRANCHES: usize = 20_000;

/// An access in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    file: &'static str,
    line: u32,
    column: u32,
    kind: &'static str,
}

impl Site {
    /// The access of a step at a source location.
    pub fn of(location: &'static Location<'static>, step: Step) -> Self {
        let kind = match step {
            Step::Load => "load",
            Step::Store => "store",
            Step::CompareExchange => "compare-and-swap",
            Step::Modify(rtalloc::concurrent::atomics::Rmw::Add) => "add",
            Step::Modify(rtalloc::concurrent::atomics::Rmw::And) => "and",
            Step::Modify(rtalloc::concurrent::atomics::Rmw::Or) => "or",
            Step::Modify(rtalloc::concurrent::atomics::Rmw::Swap) => "swap",
        };
        Site { file: location.file(), line: location.line(), column: location.column(), kind }
    }

    /// Whether the access is on this line of a file, given by the end of its path.
    pub fn is_at(self, file: &str, line: u32) -> bool {
        self.line == line && self.file.ends_with(file)
    }

    /// The source line of the access.
    fn line(self) -> String {
        // Paths begin at the workspace, tests run in the crate.
        let path = std::path::Path::new("../..").join(self.file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().nth(self.line as usize - 1).unwrap_or_default().to_string()
    }

    /// The halves of an order that apply to this access.
    pub fn halves(self, order: Ordering) -> impl Iterator<Item = Half> {
        let acquires = matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst) && self.kind != "store";
        let releases = matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst) && self.kind != "load";
        [acquires.then_some(Half::Acquire), releases.then_some(Half::Release)].into_iter().flatten()
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.rsplit_once("src/").map_or(self.file, |(_, file)| file);
        write!(f, "{} {file}:{}:{}", self.kind, self.line, self.column)
    }
}

/// Half of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// What follows the read sees what preceded the write that was read.
    Acquire,
    /// What preceded the write is seen by a thread that reads it.
    Release,
}

/// What is changed in an exploration.
#[derive(Clone, Copy, Debug)]
pub enum Mutation {
    /// The order of an access.
    Order(Control),
    /// A step of the algorithm.
    Step(ChangedStep),
}

/// A mutation: an access without half of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    site: Site,
    half: Half,
}

impl Control {
    /// The order of an access under this mutation.
    pub fn weaken(self, site: Site, order: Ordering) -> Ordering {
        if site != self.site {
            return order;
        }
        let kept: Vec<Half> = site.halves(order).filter(|&half| half != self.half).collect();
        match kept.as_slice() {
            [] => Ordering::Relaxed,
            [Half::Acquire] => Ordering::Acquire,
            [Half::Release] => Ordering::Release,
            _ => Ordering::AcqRel,
        }
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} without {:?}", self.site, self.half)
    }
}

/// What loom explores.
#[derive(Clone)]
pub struct Model {
    /// Its name, for messages.
    pub name: &'static str,
    /// Length of the heap's region.
    pub region_bytes: usize,
    /// Most preemptions in one execution; `None`: all executions there are.
    pub preemptions: Option<usize>,
    /// Whether only the owner of a word's memory stores to it.
    pub stores_are_ordered: bool,
    /// One execution; it begins with [`scene::region`].
    pub execution: fn(),
}

impl Model {
    /// A scenario with a fixture, in all executions.
    pub fn of<C: Fixture>(name: &'static str, execution: fn()) -> Self {
        Model {
            name,
            region_bytes: C::REGION_BYTES,
            preemptions: None,
            stores_are_ordered: C::STORES_ARE_ORDERED,
            execution,
        }
    }

    /// Bounds the preemptions in the daily tier. The full tier explores all executions.
    pub fn fewer(self, preemptions: usize) -> Self {
        Model { preemptions: Tiers { daily: Some(preemptions), full: None }.now(), ..self }
    }

    /// Bounds the preemptions in both tiers.
    pub fn within(self, daily: usize, full: usize) -> Self {
        Model { preemptions: Some(Tiers { daily, full }.now()), ..self }
    }
}

/// Explores a model: the number of executions, or what failed.
pub fn explore(model: &Model, mutation: Option<Mutation>) -> Result<usize, String> {
    loop {
        scene::reset(model.name, model.region_bytes, model.stores_are_ordered, mutation);
        let mut builder = loom::model::Builder::new();
        builder.max_branches = MAX_BRANCHES;
        builder.preemption_bound = model.preemptions;
        let execution = model.execution;
        match quietly(|| catch_unwind(AssertUnwindSafe(|| builder.check(execution)))) {
            Ok(()) => return Ok(scene::explored().0),
            Err(payload) if payload.is::<NewWord>() => {}
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_string()));
                let text = text.unwrap_or_else(|| "a panic without a message".to_string());
                return Err(format!("execution {}: {text}", scene::explored().0));
            }
        }
    }
}

/// Runs something that may fail by intent, without printing the panic.
fn quietly<R>(run: impl FnOnce() -> R) -> R {
    use std::cell::Cell;
    use std::sync::Once;
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    QUIET.set(true);
    let answer = run();
    QUIET.set(false);
    answer
}

/// Explores the models of an allocator, then again without each half of each order that they met: at least one model
/// must fail each time.
pub fn verify(allocator: &str, models: &[Model]) {
    verify_but(allocator, models, &[]);
}

/// The same, except for orders that loom cannot test, each given by a part of its line and the half: no model may
/// notice those.
pub fn verify_but(allocator: &str, models: &[Model], beyond: &[(&str, Half)]) {
    let mut ordered: BTreeMap<(Site, Half), Vec<&Model>> = BTreeMap::new();
    for model in models {
        let executions = explore(model, None).unwrap_or_else(|text| panic!("{allocator}, {}: {text}", model.name));
        let (_, longest) = scene::explored();
        let bound = model.preemptions.map_or("all".to_string(), |most| format!("{most} preemptions"));
        println!("{allocator}: {}: {executions} executions ({bound}), at most {longest} steps", model.name);
        scene::ordered().into_iter().for_each(|order| ordered.entry(order).or_default().push(model));
    }
    assert!(!ordered.is_empty(), "{allocator}: no access orders anything");
    let mut unnoticed = Vec::new();
    let mut met = BTreeSet::new();
    for ((site, half), concerned) in ordered {
        let control = Control { site, half };
        let noticed = concerned
            .into_iter()
            .find_map(|model| explore(model, Some(Mutation::Order(control))).err().map(|text| (model, text)));
        match noticed {
            Some((model, text)) => {
                println!("{allocator}: control: {control}: fails {}, {}", model.name, first_line(&text));
            }
            None => match beyond.iter().find(|&&(part, of)| of == half && site.line().contains(part)) {
                Some(&(part, _)) => {
                    println!("{allocator}: control: {control}: loom cannot test it");
                    met.insert((part, half));
                }
                None => unnoticed.push(control.to_string()),
            },
        }
    }
    let stale: Vec<_> = beyond.iter().filter(|order| !met.contains(*order)).collect();
    assert!(stale.is_empty(), "{allocator}: loom can test these, or they are gone: {stale:?}");
    assert!(unnoticed.is_empty(), "{allocator}: no model notices\n{}", unnoticed.join("\n"));
}

/// Fails unless a model fails.
pub fn refute(fault: &str, models: &[Model]) {
    let failed = models.iter().find_map(|model| explore(model, None).err().map(|text| (model.name, text)));
    let (model, text) = failed.unwrap_or_else(|| panic!("no model notices: {fault}"));
    println!("fault: {fault}: fails {model}, {}", first_line(&text));
}

/// Explores each mutant in the model that is named for it, which must fail; with one preemption more than the model
/// has: between the two steps that were one.
pub fn refute_mutants(allocator: &str, models: &[Model], mutants: &[Mutant]) {
    let mut survivors = Vec::new();
    for mutant in mutants {
        let model = models.iter().find(|model| model.name == mutant.model).expect("a model of this name");
        let model = Model { preemptions: model.preemptions.map(|most| most + 1), ..model.clone() };
        match explore(&model, Some(Mutation::Step(mutant.step()))) {
            Ok(executions) => {
                survivors.push(format!("{}: survives {executions} executions of {}", mutant.fault, model.name));
            }
            Err(text) => println!("{allocator}: mutant: {}: fails {}, {}", mutant.fault, model.name, first_line(&text)),
        }
    }
    assert!(survivors.is_empty(), "{allocator}: no model notices\n{}", survivors.join("\n"));
    println!("{allocator}: {} logic mutants, all killed", mutants.len());
}

/// The first line of a message that is not empty.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}
