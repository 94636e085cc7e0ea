//! The schema of cost classes: what worst cases cost in heaps of many sizes, and which class that is.

use super::schema::SubjectFacts;
use serde::{Deserialize, Serialize};

/// Worst cases over heap sizes, of many allocators.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// Lengths of the regions in bytes, increasing.
    pub heap_bytes: Vec<u64>,
    /// One entry per allocator, in table order.
    pub subjects: Vec<SubjectCosts>,
    /// Time that measuring took.
    pub seconds: f64,
}

/// The worst cases of an allocator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubjectCosts {
    /// Who.
    pub subject: SubjectFacts,
    /// By operation.
    pub operations: Vec<OperationCosts>,
    /// What could not be measured, and why.
    pub troubles: Vec<String>,
}

/// The worst case of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationCosts {
    /// Which: "allocate", "deallocate", "reallocate".
    pub operation: String,
    /// The class that the allocator's contract states.
    pub stated: Class,
    /// One point for each heap size in which a recipe could be performed.
    pub points: Vec<Point>,
    /// What the points say of the stated class.
    pub finding: Finding,
}

/// The costliest recipe in a heap of one size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Length of the region in bytes.
    pub heap_bytes: u64,
    /// Free blocks in front of the operation.
    pub free_blocks: u64,
    /// Instructions of the operation.
    pub instructions: u64,
    /// The recipe.
    pub recipe: String,
}

/// Cost classes, from the least on.
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

/// Points as a class has them: base + step x, x being log2 H, n or H.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// The class.
    pub class: Class,
    /// Instructions at x = 0.
    pub base: f64,
    /// Instructions for each step of x; 0 where nothing grows.
    pub step: f64,
    /// The largest distance of a point, as a share of the point.
    pub residual: f64,
}

/// What points say of a stated class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Finding {
    /// They have the stated class, and no lower one.
    AsStated(Fit),
    /// They have a lower class: either the contract is too modest, or no recipe reaches what it states.
    Better(Fit),
    /// They have a higher class: the contract is wrong.
    Worse(Fit),
    /// They have no class at all.
    Unfit,
    /// There are too few of them.
    TooFew,
}
