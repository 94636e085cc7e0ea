//! Tables 2 and 3 of Puaut (2002): the worst case of each of seven allocators beside its mean, as ratios, since hers are cycles of
//! a Pentium 90 and ours instructions.
//!
//! What she calls *analytical* is a measured scenario, not a bound: first- and best-fit's frees were observed above it. So there
//! are three columns here, the [scenario], the most observed in the MEAN model, and the static
//! bound, and none stands for another.

use super::costs::of_subject;
use crate::analysis::{Analysis, proved};
use crate::observe;
use crate::observe::scenario::{self, Recipe};
use crate::observe::{Meter, Observation, Stage};
use crate::replay::{Block, Observer, Replay};
use crate::result::costs::{Class, Finding, SubjectCosts};
use crate::result::puaut::{Claim, Operation, Ours, Puaut, Published, Row};
use crate::subject::{Counted, Heap, Region, Subject, select};
use crate::trace::Event;
use crate::turns;
use crate::workload::Model;
use pathbound::Facts;
use pathbound::counter::{Record, executed};
use pathbound::graph::NeverReturns;

/// The paper's heap, in bytes (section 3.4).
pub const HEAP_BYTES: usize = 4 << 20;

/// Heaps over which classes are found: the larger ones are `rtalloc costs`'s.
const CLASS_HEAPS: [usize; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

const fn published(decoder_mean: u64, model_mean: u64, allocate_worst: u64, free_worst: u64) -> Published {
    Published { decoder_mean, model_mean, allocate_worst, free_worst }
}

/// Tables 2 and 3: name there and here, in cycles.
const PUBLISHED: [(&str, &str, Published); 7] = [
    ("first-fit", "first-fit", published(6239, 6394, 115_014_229, 11_011)),
    ("best-fit", "best-fit", published(6954, 7109, 117_573_562, 11_660)),
    ("btree-best-fit", "tree-best-fit", published(8854, 8937, 10_414, 403_299)),
    ("fast-fit", "fast-fit", published(6067, 6161, 256_382, 1_478_499)),
    ("quick-fit", "quick-fit", published(10_805, 6075, 481_267, 207_609)),
    ("buddy-bin", "binary-buddy", published(7299, 8345, 57_827, 65_739)),
    ("buddy-fibo", "fibonacci-buddy", published(10_624, 9655, 47_320, 55_341)),
];

/// Measures both tables. `decoder` is the trace that stands for mpg123's, which today makes no allocation for a frame.
#[must_use]
pub fn measure(analysis: &Analysis, decoder: &[Event], seed: u64, progress: &mut dyn FnMut(u64, u64)) -> Puaut {
    let mut model = Vec::new();
    Model::by_name("mean").expect("a model").generate(seed, &mut model).expect("into memory");
    let mut rows = Vec::new();
    for (done, (published_as, name, published)) in PUBLISHED.iter().enumerate() {
        progress(done as u64, PUBLISHED.len() as u64);
        let ours = match select(&[*name]) {
            Ok(subject) => ours(analysis, subject[0], &model, decoder),
            Err(error) => Err(error.to_string()),
        };
        rows.push(Row { published_as: (*published_as).into(), subject: (*name).into(), published: *published, ours });
    }
    let claims = claims(&rows);
    Puaut { heap_bytes: HEAP_BYTES as u64, rows, claims }
}

fn ours(analysis: &Analysis, subject: &Subject, model: &[Event], decoder: &[Event]) -> Result<Ours, String> {
    let counted = Counted::new(analysis.process(), subject, &[], Record::Count).map_err(|error| error.to_string())?;
    let counts = replayed(subject, &counted, model)?;
    let decoder = replayed(subject, &counted, decoder)?;
    let classes = of_subject(analysis.process(), subject, &CLASS_HEAPS);
    let scenarios = scenarios(subject, &counted)?;
    let operation = |operation: observe::Operation, counts: &Sum| Operation {
        mean: counts.mean(),
        observed: counts.most,
        scenario: scenarios.iter().filter(|(other, _)| *other == operation).map(|(_, count)| *count).max().unwrap_or(0),
        bound: bound(analysis, subject, operation),
        class: class(&classes, operation),
    };
    Ok(Ours {
        allocate: operation(observe::Operation::Allocate, &counts.allocate),
        free: operation(observe::Operation::Deallocate, &counts.free),
        decoder_mean: decoder.allocate.mean(),
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

fn class(costs: &SubjectCosts, operation: observe::Operation) -> Option<Class> {
    let found = costs.operations.iter().find(|costs| costs.operation == operation.name())?;
    match found.finding {
        Finding::AsStated(fit) | Finding::Better(fit) | Finding::Worse(fit) => Some(fit.class),
        Finding::Unfit | Finding::TooFew => None,
    }
}

/// The static bound in a heap of 16 MiB.
pub(super) fn bound(analysis: &Analysis, subject: &Subject, operation: observe::Operation) -> Option<u64> {
    match turns::told(analysis, subject, operation) {
        Ok(Some(told)) => told.bound.map(|bound| bound.instructions),
        _ => {
            let entry = analysis.entry(subject, operation);
            let bound = proved(analysis.file(), entry, &Facts::default(), &NeverReturns::default());
            bound.ok().map(|bound| bound.instructions)
        }
    }
}

/// Counts every operation of a trace.
fn replayed(subject: &Subject, counted: &Counted, events: &[Event]) -> Result<Sums, String> {
    let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
    let mut heap = Heap::new(subject, &mut region, HEAP_BYTES).map_err(|error| error.to_string())?;
    heap.entries = counted.entries();
    let mut sums = Sums::default();
    let mut replay = Replay::new();
    replay.run::<false, _>(&heap, events, &mut sums).map_err(|fault| fault.to_string())?;
    match replay.refused() {
        0 => Ok(sums),
        refused => Err(format!("refused {refused} requests")),
    }
}

#[derive(Default)]
struct Sum {
    instructions: u64,
    operations: u64,
    most: u64,
}

impl Sum {
    fn add(&mut self, instructions: u64) {
        self.instructions += instructions;
        self.operations += 1;
        self.most = self.most.max(instructions);
    }

    fn mean(&self) -> f64 {
        self.instructions as f64 / self.operations.max(1) as f64
    }
}

/// What the operations of a replay count.
#[derive(Default)]
struct Sums {
    allocate: Sum,
    free: Sum,
    before: u64,
}

impl Observer for Sums {
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

/// Reads what entry points count.
pub(super) struct Count;

impl Meter for Count {
    fn executed(&self) -> u64 {
        executed()
    }

    fn covered(&self) -> usize {
        0
    }
}

/// The paper's claims, held against our figures.
fn claims(rows: &[Row]) -> Vec<Claim> {
    let of = |name: &str| rows.iter().find(|row| row.subject == name).and_then(|row| row.ours.as_ref().ok());
    let ratio = |name: &str| of(name).map(|ours| ours.allocate.scenario as f64 / ours.allocate.mean);
    let told = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let all = |names: &[&str], test: &dyn Fn(&Ours) -> bool| -> Option<bool> {
        names.iter().map(|name| of(name).map(test)).try_fold(true, |all, one| Some(all & one?))
    };
    let linear = |class: Option<Class>| class.is_some_and(|class| class >= Class::LinearInFreeBlocks);
    let sequential = ["first-fit", "best-fit"];
    let indexed = ["tree-best-fit", "fast-fit"];
    let buddies = ["binary-buddy", "fibonacci-buddy"];
    let mut claims = Vec::new();
    let mut claim = |claim: &str, confirmed: Option<bool>, figures: String| {
        claims.push(Claim { claim: claim.into(), confirmed, figures });
    };
    let worst = |ours: &Ours| ours.allocate.scenario as f64 / ours.allocate.mean;
    claim(
        "sequential fits: the worst allocate is 10,000 times the mean and more, and linear in the heap",
        all(&sequential, &|ours| worst(ours) >= 1e4 && linear(ours.allocate.class)),
        format!("17,988 and 16,539 published; {} and {} ours", told(ratio("first-fit")), told(ratio("best-fit"))),
    );
    let class_of = |name: &str, free: bool| {
        let class = of(name).and_then(|ours| if free { ours.free.class } else { ours.allocate.class });
        class.map_or("-", Class::notation)
    };
    claim(
        "sequential fits: free is constant",
        all(&sequential, &|ours| ours.free.class == Some(Class::Constant)),
        format!("{} and {}", class_of("first-fit", true), class_of("best-fit", true)),
    );
    claim(
        "indexed fits: free is linear in the free blocks",
        all(&indexed, &|ours| linear(ours.free.class)),
        format!("{} and {}", class_of("tree-best-fit", true), class_of("fast-fit", true)),
    );
    claim(
        "tree best-fit: allocate is linear, as section 3.1.1 says, where table 2's 10,414 is not",
        all(&["tree-best-fit"], &|ours| linear(ours.allocate.class)),
        format!("1.2 times the mean published; {} times ours", told(ratio("tree-best-fit"))),
    );
    claim(
        "buddies: the worst allocate is around seven times the mean (we accept 4.5 to 8.5), and logarithmic in the heap",
        all(&buddies, &|ours| (4.5..8.5).contains(&worst(ours)) && ours.allocate.class == Some(Class::Logarithmic)),
        format!("6.9 and 4.9 published; {} and {} ours", told(ratio("binary-buddy")), told(ratio("fibonacci-buddy"))),
    );
    let thrash = of("quick-fit").map(|ours| ours.decoder_mean / ours.allocate.mean);
    claim(
        "quick-fit: its mean in a decoder is far above that in the MEAN model",
        thrash.map(|ratio| ratio > 1.5),
        format!("1.8 times published; {} times ours", told(thrash)),
    );
    claims
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::experiment::costs;

    #[test]
    fn three_numbers_of_first_fit_in_their_order() {
        let analysis = Analysis::of_this_program().expect("this program");
        let mut model = Vec::new();
        Model::parse("mean --mallocs 3000").expect("a model").generate(1, &mut model).expect("into memory");
        let ours =
            ours(&analysis, select(&["first-fit"]).expect("a subject")[0], &model, &model[..500]).expect("measured");
        assert!(ours.allocate.mean < ours.allocate.observed as f64);
        assert!(1000 * ours.allocate.observed < ours.allocate.scenario, "{ours:?}");
        assert_eq!((ours.allocate.class, ours.free.class), (Some(Class::LinearInFreeBlocks), Some(Class::Constant)));
        assert!(ours.decoder_mean > 10.0 && ours.allocate.bound.is_none(), "{ours:?}");
    }

    #[test]
    fn a_claim_without_figures_is_neither_confirmed_nor_refuted() {
        let row = |(published_as, name, published): (&str, &str, Published)| Row {
            published_as: published_as.into(),
            subject: name.into(),
            published,
            ours: Err("it does not run".into()),
        };
        let claims = claims(&PUBLISHED.map(row));
        assert!(claims.len() == 6 && claims.iter().all(|claim| claim.confirmed.is_none()), "{claims:?}");
    }

    #[test]
    fn heaps_reach_the_papers() {
        assert_eq!(CLASS_HEAPS.last(), Some(&HEAP_BYTES));
        assert!(CLASS_HEAPS.iter().all(|bytes| costs::HEAP_BYTES.contains(bytes)));
    }
}
