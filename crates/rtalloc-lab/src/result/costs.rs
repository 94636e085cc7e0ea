//! The schema of cost classes: worst-case costs in heaps of many sizes, and the resulting class.

use super::schema::SubjectFacts;
use serde::{Deserialize, Serialize};

/// Worst-case costs over heap sizes, of many allocators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Lengths of the regions in bytes, increasing.
    pub heap_bytes: Vec<u64>,
    /// One entry per allocator, in table order.
    pub subjects: Vec<SubjectCosts>,
    /// Duration of the measurement.
    pub seconds: f64,
}

/// The worst-case costs of an allocator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubjectCosts {
    /// The allocator.
    pub subject: SubjectFacts,
    /// By operation.
    pub operations: Vec<OperationCosts>,
    /// What could not be measured, with the reasons.
    pub troubles: Vec<String>,
}

/// The worst-case cost of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCosts {
    /// Which: "allocate", "deallocate", "reallocate".
    pub operation: String,
    /// The class that the allocator's contract states.
    pub stated: Class,
    /// One point for each heap size at which a recipe could be performed.
    pub points: Vec<Point>,
    /// Whether the points agree with the stated class.
    pub finding: Finding,
}

/// The costliest recipe in a heap of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Length of the region in bytes.
    pub heap_bytes: u64,
    /// Free blocks before the operation.
    pub free_blocks: u64,
    /// Instructions of the operation.
    pub instructions: u64,
    /// The recipe.
    pub recipe: String,
}

/// Cost classes in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Does not grow.
    Constant,
    /// a + b log2 H.
    Logarithmic,
    /// a + b n, n the free blocks.
    LinearInFreeBlocks,
    /// a + b H.
    LinearInRegion,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Constant, Self::Logarithmic, Self::LinearInFreeBlocks, Self::LinearInRegion];

    /// In O-notation; n is the number of free blocks, H the region's size.
    #[must_use]
    pub const fn notation(self) -> &'static str {
        match self {
            Self::Constant => "O(1)",
            Self::Logarithmic => "O(log H)",
            Self::LinearInFreeBlocks => "O(n)",
            Self::LinearInRegion => "O(H)",
        }
    }
}

/// The fit of the points to a class: base + step x, where x is log2 H, n or H.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The class.
    pub class: Class,
    /// Instructions at x = 0.
    pub base: f64,
    /// Instructions per unit of x; 0 for a constant.
    pub step: f64,
    /// The largest relative deviation of a point.
    pub residual: f64,
}

/// The comparison of the points with a stated class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Finding {
    /// They have the stated class, and no lower one.
    AsStated(Fit),
    /// They have a lower class: the contract is too pessimistic, or no recipe reaches the stated class.
    Better(Fit),
    /// They have a higher class: the contract is wrong.
    Worse(Fit),
    /// They fit no class.
    Unfit,
    /// There are too few points.
    TooFew,
}
