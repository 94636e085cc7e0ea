//! The experiments of Puaut (2002): worst case and mean of seven allocators, the effect of either on a program's time,
//! and the growth of the worst case with the heap.
//!
//! The paper's *analytical* figures come from a measured scenario and are not bounds: first- and best-fit's frees were
//! observed above them. So there are three separate columns here: the [scenario], the observed maximum, and the static
//! bound. The paper's figures are cycles of a Pentium 90, ours are executed instructions. Everything is counted and
//! nothing is timed, so all tasks may run in parallel.

use crate::papers::Scale;
use crate::papers::puaut::claims;
use crate::papers::puaut::published::ALLOCATORS;
use crate::papers::puaut::result::{Ours, Puaut, Row};
use crate::papers::published::{Both, PUAUT};
use pathbound::counter::{Record, executed};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::catalogue;
use rtalloc_lab::experiment::costs::of_subject;
use rtalloc_lab::observe::scenario::{self, Recipe};
use rtalloc_lab::observe::{self, Count, Observation, Stage};
use rtalloc_lab::probe::{Counted, Counts};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_lab::replay::{Block, Observer, Replay};
use rtalloc_lab::result::costs::SubjectCosts;
use rtalloc_lab::result::schema::Distribution;
use rtalloc_lab::shipped;
use rtalloc_lab::trace::{Event, Op};
use rtalloc_lab::workload::Model;
use rtalloc_subjects::{Heap, Region, Subject, one};
use serde_json::Value;

/// The paper's heap, in bytes (section 3.4).
pub const HEAP_BYTES: usize = 4 << 20;

/// Heaps of figure 4, each twice the previous one: the smallest, and the upper limit.
pub const GROWTH_BYTES: (usize, usize) = (64 << 10, 64 << 20);

/// Default seed of the MEAN model.
pub const SEED: u64 = 1;

/// The experiments and their inputs.
pub struct Experiments<'a> {
    /// The machine code whose instructions are counted.
    pub analysis: &'a Analysis,
    /// The trace that replaces mpg123's; today's mpg123 makes no allocation per frame.
    pub decoder: Vec<Event>,
    /// Seed of the MEAN model.
    pub seed: u64,
    /// The largest heap of figure 4, in bytes.
    pub most_heap_bytes: usize,
}

impl<'a> Experiments<'a> {
    /// Experiments at a scale, with the shipped trace of a decoder.
    ///
    /// # Errors
    ///
    /// If the binary was built without the trace, or the system has no room for temporary files.
    pub fn new(analysis: &'a Analysis, seed: u64, scale: Scale) -> anyhow::Result<Self> {
        let (_, most) = GROWTH_BYTES;
        let decoder = shipped::events("lame-decode")?;
        Ok(Self { analysis, decoder, seed, most_heap_bytes: scale.pick(most / 4, most, most) })
    }
}

/// Tasks 0 to 6: the tables of one allocator; 7 to 13: its worst cases over heap sizes.
impl Tasks for Experiments<'_> {
    fn name(&self) -> &'static str {
        "puaut"
    }

    fn tasks(&self) -> Vec<Task> {
        let tables = ALLOCATORS.map(|(_, name)| Task::counted(format!("puaut on={name} seed={}", self.seed), 4));
        let growth = ALLOCATORS.map(|(_, name)| {
            let key = format!("puaut growth on={name} up-to={}", self.most_heap_bytes);
            Task::counted(key, (SECONDS_OF_GROWTH * self.most_heap_bytes / GROWTH_BYTES.1) as u64)
        });
        tables.into_iter().chain(growth).collect()
    }

    fn perform(&self, task: usize, _: &Board) -> Value {
        let subject = one(ALLOCATORS[task % ALLOCATORS.len()].1).expect("an allocator of ours");
        if task >= ALLOCATORS.len() {
            return campaign::found(&of_subject(self.analysis.process(), subject, &self.heaps()));
        }
        let mut model = Vec::new();
        Model::by_name("mean").expect("a model").generate(self.seed, &mut model).expect("into memory");
        campaign::found(&ours(self.analysis, subject, &model, &self.decoder))
    }

    fn died(&self, task: usize, what: &str) -> Option<Value> {
        let of_tables = || campaign::found(&Result::<Ours, &str>::Err(what));
        let growth = |name: &str| SubjectCosts {
            subject: catalogue::facts(one(name).expect("an allocator of ours")),
            operations: Vec::new(),
            troubles: vec![what.into()],
        };
        let place = task.checked_sub(ALLOCATORS.len());
        Some(place.map_or_else(of_tables, |place| campaign::found(&growth(ALLOCATORS[place].1))))
    }
}

impl Experiments<'_> {
    /// Combines the results of all tasks, in their order.
    pub(super) fn conclude(&self, mut kept: Vec<Kept>) -> anyhow::Result<Puaut> {
        let growth: Vec<SubjectCosts> = campaign::results(kept.split_off(ALLOCATORS.len()))?;
        let ours: Vec<Result<Ours, String>> = campaign::results(kept)?;
        let each = ALLOCATORS.into_iter().zip(ours).zip(growth);
        let rows = each.map(|((names, ours), growth)| row(names, ours, growth)).collect();
        let decoder_gap_ns = gap(&self.decoder);
        let mut found = Puaut { heap_bytes: HEAP_BYTES as u64, decoder_gap_ns, rows, claims: Vec::new() };
        found.claims = claims::claims(&found);
        Ok(found)
    }
}

impl Experiments<'_> {
    fn heaps(&self) -> Vec<usize> {
        let heaps = std::iter::successors(Some(GROWTH_BYTES.0), |bytes| Some(2 * bytes));
        heaps.take_while(|bytes| *bytes <= self.most_heap_bytes).collect()
    }
}

/// Time in seconds for the worst cases of one allocator in heaps up to the largest.
const SECONDS_OF_GROWTH: usize = 20;

/// An allocator by its names in the paper and here.
pub(super) fn row((published_as, name): (&str, &str), ours: Result<Ours, String>, growth: SubjectCosts) -> Row {
    Row {
        published_as: published_as.into(),
        subject: name.into(),
        allocate: PUAUT.table_2.rows[published_as],
        free: PUAUT.table_3.rows[published_as],
        ours,
        growth,
    }
}

/// Mean time between two allocations, in the trace's ticks; `None` if it has no times.
fn gap(events: &[Event]) -> Option<f64> {
    let ticks = || events.iter().filter(|event| matches!(event.op, Op::Allocate { .. })).map(|event| event.tick);
    let (first, last) = ticks().next().zip(ticks().next_back())?;
    (last > first).then(|| (last - first) as f64 / (ticks().count() - 1) as f64)
}

fn ours(analysis: &Analysis, subject: &Subject, model: &[Event], decoder: &[Event]) -> Result<Ours, String> {
    let counted = Counted::new(analysis.process(), subject, &[], Record::Count).map_err(|error| error.to_string())?;
    let scenarios = scenarios(subject, &counted)?;
    let worst = |operation: observe::Operation| {
        scenarios.iter().filter(|(other, _)| *other == operation).map(|(_, count)| *count).max().unwrap_or(0)
    };
    let bound = |operation| analysis.limit_in_heap(subject, operation);
    Ok(Ours {
        decoder: replayed(subject, &counted, decoder)?,
        model: replayed(subject, &counted, model)?,
        scenario: Both { malloc: worst(observe::Operation::Allocate), free: worst(observe::Operation::Deallocate) },
        bound: Both { malloc: bound(observe::Operation::Allocate), free: bound(observe::Operation::Deallocate) },
    })
}

/// The paper's scenarios in the paper's heap.
fn scenarios(subject: &Subject, counted: &Counted) -> Result<Vec<(observe::Operation, u64)>, String> {
    let mut stage = Stage::with_room(subject, &Count, HEAP_BYTES).map_err(|error| error.to_string())?;
    let mut counts = Vec::new();
    for scenario in scenario::of(subject).filter(|scenario| scenario.recipe == Recipe::Paper) {
        let performed = stage.rehearse(scenario, HEAP_BYTES).and_then(|script| {
            let mut sink = |observation: &Observation<'_>| counts.push((scenario.operation, observation.instructions));
            stage.perform_last(HEAP_BYTES, &script, counted.entries(), scenario, |_| {}, &mut sink)
        });
        performed.map_err(|error| error.to_string())?;
    }
    Ok(counts)
}

/// Counts every operation of a trace.
fn replayed(subject: &Subject, counted: &Counted, events: &[Event]) -> Result<Both<Distribution>, String> {
    let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
    let mut heap = Heap::new(subject, &mut region, HEAP_BYTES).map_err(|error| error.to_string())?;
    heap.entries = counted.entries();
    let mut seen = Seen::default();
    let mut replay = Replay::new();
    replay.perform(&heap, events, false, &mut seen).map_err(|fault| fault.to_string())?;
    match replay.refused() {
        0 => Ok(Both { malloc: seen.allocate.distribution(), free: seen.free.distribution() }),
        refused => Err(format!("refused {refused} requests")),
    }
}

/// Instruction counts of every operation of a replay.
#[derive(Default)]
struct Seen {
    allocate: Counts,
    free: Counts,
    before: u64,
}

impl Observer for Seen {
    fn before(&mut self, _: u64) {
        self.before = executed();
    }

    fn granted(&mut self, _: &Heap<'_>, _: u64, _: &Block, old_size: Option<usize>) {
        if old_size.is_none() {
            self.allocate.add(executed() - self.before);
        }
    }

    fn freed(&mut self, _: u64, _: &Block) {
        self.free.add(executed() - self.before);
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_of_first_fit_in_their_order() {
        let analysis = Analysis::of_this_program().expect("this program");
        let mut model = Vec::new();
        Model::parse("mean --mallocs 3000").expect("a model").generate(1, &mut model).expect("into memory");
        let subject = one("first-fit").expect("a subject");
        let ours = ours(&analysis, subject, &model, &model[..500]).expect("measured");
        assert!(ours.model.malloc.mean < ours.model.malloc.max as f64);
        // The number of instructions per search step depends on the compiler.
        assert!(100 * ours.observed().malloc < ours.scenario.malloc, "{ours:?}");
        assert!(ours.decoder.malloc.mean > 10.0 && ours.bound.malloc.is_none(), "{ours:?}");
    }

    #[test]
    fn the_decoders_gap_is_the_mean_time_between_its_allocations() {
        let at = |tick, op| Event { tick, thread: 0, op };
        let allocate = |slot| Op::Allocate { slot, size: 8, align: 8 };
        let events = [at(5, allocate(0)), at(9, Op::Free { slot: 0 }), at(10, allocate(0)), at(25, allocate(1))];
        assert_eq!(gap(&events), Some(10.0));
        assert_eq!(gap(&events[..2]), None);
    }

    #[test]
    fn heaps_of_figure_4_double() {
        let analysis = Analysis::of_this_program().expect("this program");
        let of = |most_heap_bytes| {
            Experiments { analysis: &analysis, decoder: Vec::new(), seed: 1, most_heap_bytes }.heaps()
        };
        assert_eq!(of(GROWTH_BYTES.1).len(), 11);
        assert_eq!(of(256 << 10), [64 << 10, 128 << 10, 256 << 10]);
    }
}
