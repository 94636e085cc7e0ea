//! The schema of the largest request that succeeds over a trace.

use serde::{Deserialize, Serialize};

/// All results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headroom {
    /// Name of the allocator.
    pub allocator: String,
    /// Bytes of the heap's region.
    pub heap_bytes: u64,
    /// Operations from one query to the next; 1 if the largest request is known after every operation.
    pub stride: u64,
    /// Whether a larger request than the stated one is refused; if not, the stated one is a lower bound.
    pub is_exact: bool,
    /// Intervals of the trace, in order.
    pub points: Vec<Point>,
    /// Number of queries.
    pub queries: u64,
    /// Queries at which the largest request that succeeds was less than the largest one that follows.
    pub below: u64,
    /// The first of them.
    pub first: Option<Shortfall>,
    /// Refused requests.
    pub refused: u64,
    /// Those of them that no heap of this allocator serves.
    pub beyond_reach: u64,
    /// The first refused request that a larger heap could serve.
    pub refusal: Option<Refused>,
}

/// An interval of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    /// Index of the first operation that was queried.
    pub operation: u64,
    /// The largest request that succeeds: the least of the interval, in bytes.
    pub succeeds_bytes: u64,
    /// The largest request that follows its first operation, in bytes, without those that no heap of this allocator
    /// serves; 0 if none follows.
    pub follows_bytes: u64,
    /// Queries of the interval at which the first falls below the second: at the query before, it was not less.
    pub falls: u64,
    /// Refused requests of the interval.
    pub refused: u64,
}

/// A query whose answer is less than the largest request that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Index of the operation before the query.
    pub operation: u64,
    /// The largest request that succeeds, in bytes.
    pub succeeds_bytes: u64,
    /// Bytes in all free blocks; `None` where the allocator does not list them.
    pub free_bytes: Option<u64>,
    /// The largest request that follows, in bytes.
    pub follows_bytes: u64,
    /// Index of the first operation that requests it.
    pub request: u64,
    /// Whether it is a reallocation, which may grow where it is.
    pub is_reallocation: bool,
    /// Whether it was served; `None` if it was not performed, because its block had been refused before.
    pub is_served: Option<bool>,
}

/// A refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Index of the operation.
    pub operation: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Its alignment, in bytes, where it is more than that of every block.
    pub align_bytes: Option<u64>,
    /// The last query before it at which a request of this size would have succeeded: the index of the operation before
    /// the query. `None` if there is none, or if free memory is tied to sizes, so that the query does not tell.
    pub last_fit: Option<u64>,
}
