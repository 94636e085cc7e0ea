//! The schema of Puaut's tables and figures, published figures and ours side by side.

pub use crate::papers::claims::Claim;
use crate::papers::puaut::published;
use crate::papers::published::{Both, PUAUT};
use rtalloc_lab::result::costs::{Class, Finding, OperationCosts, Point, SubjectCosts};
use rtalloc_lab::result::schema::Distribution;
use serde::{Deserialize, Serialize};

/// The results of all experiments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Puaut {
    /// Bytes of the heap.
    pub heap_bytes: u64,
    /// Mean time between two allocations of the decoder, in nanoseconds; `None` if its trace has no times.
    pub decoder_gap_ns: Option<f64>,
    /// One row per allocator, in the paper's order.
    pub rows: Vec<Row>,
    /// The paper's claims, and whether our figures confirm them.
    pub claims: Vec<Claim>,
}

/// An allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Name in the paper.
    pub published_as: String,
    /// Name here.
    pub subject: String,
    /// As published in table 2, in cycles.
    pub allocate: published::Allocate,
    /// As published in table 3, in cycles.
    pub free: published::Free,
    /// Our figures, or an error message.
    pub ours: Result<Ours, String>,
    /// Its worst cases over heap sizes: figure 4.
    pub growth: SubjectCosts,
}

/// Our figures, in instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ours {
    /// In the decoder's trace.
    pub decoder: Both<Distribution>,
    /// In the MEAN model.
    pub model: Both<Distribution>,
    /// In the paper's worst-case scenario.
    pub scenario: Both<u64>,
    /// Static bound in a heap of 16 MiB; `None` if a search makes it useless.
    pub bound: Both<Option<u64>>,
}

impl Ours {
    /// The observed maximum over both loads.
    #[must_use]
    pub fn observed(&self) -> Both<u64> {
        let most = |of: fn(&Both<Distribution>) -> u64| of(&self.decoder).max(of(&self.model));
        Both { malloc: most(|both| both.malloc.max), free: most(|both| both.free.max) }
    }
}

impl Row {
    fn costs(&self, operation: &str) -> Option<&OperationCosts> {
        self.growth.operations.iter().find(|costs| costs.operation == operation)
    }

    /// The worst allocation by heap size.
    #[must_use]
    pub fn growth(&self) -> &[Point] {
        self.costs("allocate").map_or(&[], |costs| &costs.points)
    }

    /// The classes of the worst cases over heap sizes.
    #[must_use]
    pub fn class(&self) -> Both<Option<Class>> {
        let class = |operation| match self.costs(operation)?.finding {
            Finding::AsStated(fit) | Finding::Better(fit) | Finding::Worse(fit) => Some(fit.class),
            Finding::Unfit | Finding::TooFew => None,
        };
        Both { malloc: class("allocate"), free: class("deallocate") }
    }
}

/// A workload of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// mpg123 in the paper, another decoder here.
    Decoder,
    /// The MEAN model.
    Model,
}

impl Load {
    /// Both workloads.
    pub const ALL: [Self; 2] = [Self::Decoder, Self::Model];
}

/// The costs that an allocation may be charged: the mean, the observed maximum, the worst-case scenario.
pub type Charges = [f64; 3];

/// As published, in cycles.
#[must_use]
pub fn published_charges(row: &published::Allocate, load: Load) -> Charges {
    let (mean, worst) = match load {
        Load::Decoder => (row.decoder_mean, row.decoder_worst),
        Load::Model => (row.model_mean, row.model_worst),
    };
    [mean as f64, worst as f64, row.scenario as f64]
}

/// Our figures, in instructions.
#[must_use]
pub fn charges(ours: &Ours, load: Load) -> Charges {
    let own = match load {
        Load::Decoder => &ours.decoder.malloc,
        Load::Model => &ours.model.malloc,
    };
    [own.mean, own.max as f64, ours.scenario.malloc as f64]
}

impl Puaut {
    /// The decoder's computation between two allocations, in nanoseconds: as recorded, or the paper's time.
    #[must_use]
    pub fn decoder_gap(&self) -> f64 {
        self.decoder_gap_ns.unwrap_or(PUAUT.section_3.decoder.inter_arrival_ms * 1e6)
    }

    /// A load's computation between two allocations here, in instructions. Decoder: one per nanosecond if its time is
    /// recorded. Model: the paper's cycles in proportion to the allocators' mean mallocs, so that these take the same
    /// share of the time as in the paper, 1.5 %.
    #[must_use]
    pub fn gap(&self, load: Load) -> f64 {
        match load {
            Load::Decoder => self.decoder_gap(),
            Load::Model => {
                let known = self.rows.iter().filter_map(|row| Some((row, row.ours.as_ref().ok()?)));
                let (published, ours) = known.fold((0.0, 0.0), |(published, ours), (row, own)| {
                    (published + row.allocate.model_mean as f64, ours + own.model.malloc.mean)
                });
                published_gap(load) * if published > 0.0 { ours / published } else { 1.0 }
            }
        }
    }
}

/// The same in the paper, in cycles.
#[must_use]
pub fn published_gap(load: Load) -> f64 {
    let setting = &PUAUT.section_3;
    match load {
        Load::Decoder => setting.decoder.inter_arrival_ms * 1e3 * setting.megahertz as f64,
        Load::Model => setting.model.inter_arrival_cycles as f64,
    }
}

/// The share of a program's time spent in allocations if each is charged this cost.
#[must_use]
pub fn share(charge: f64, gap: f64) -> f64 {
    charge / (gap + charge)
}
