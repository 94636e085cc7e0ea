//! The Compact-fit paper (2008). Its figures 6 to 8 are curves; these are the numbers that its text states.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Its peers in the paper's order: name in the paper and here.
pub const PEERS: [(&str, &str); 5] = [
    ("First-fit", "first-fit"),
    ("Best-fit", "best-fit"),
    ("DL", "dlmalloc"),
    ("Half-fit", "half-fit"),
    ("TLSF", "tlsf"),
];

/// The published figures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactFit {
    /// Authors, title and year.
    pub paper: String,
    /// The introduction.
    pub section_1: Introduction,
    /// Pages.
    pub section_3_1: Pages,
    /// Page-blocks of the moving implementation.
    pub section_3_2: PageBlocks,
    /// Dereferences.
    pub section_3_5: Dereference,
    /// Compaction in another system.
    pub section_4_2: Metronome,
    /// The incremental experiment, figure 6.
    pub section_5_2: Incremental,
    /// The rate-monotonic experiment, figure 7.
    pub section_5_3: RateMonotonic,
    /// The experiment on fragmentation, figure 8.
    pub section_5_4: Fragmentation,
}

/// Section 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Introduction {
    /// Additional indirections of a dereference with the non-moving implementation, compared with a pointer.
    pub non_moving_indirections: u64,
}

/// Section 3.1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// A page.
    pub page_kilobytes: u64,
    /// Overhead of a page.
    pub administration_bytes: u64,
    /// The same in per cent of a page, as stated by the paper.
    pub administration_percent: f64,
    /// Rows and columns of a page's bitmap.
    pub bitmap: [u64; 2],
    /// Maximum page-blocks per page.
    pub page_blocks: u64,
    /// Summary bits: whether a row has a bit set.
    pub further_bits: u64,
    /// The smallest page-block.
    pub smallest_page_block_bytes: u64,
    /// f: the relative difference between a page-block and the next larger one.
    pub growth: f64,
}

/// Section 3.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageBlocks {
    /// The reference to the abstract address: maximum share of a page-block, in per cent.
    pub back_reference_percent: f64,
}

/// Section 3.5: instructions of a dereference, including the addition of an offset.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dereference {
    /// Through a pointer.
    pub pointer: u64,
    /// Through an abstract pointer of the moving implementation.
    pub moving: u64,
    /// In the non-moving implementation.
    pub non_moving: u64,
    /// Additional instructions compared with a pointer, moving.
    pub moving_more: u64,
    /// The same, non-moving; of these, dereferences; of these, address computation.
    pub non_moving_more: [u64; 3],
}

/// Section 4.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metronome {
    /// Compaction, in per cent of the collection time.
    pub metronome_percent: f64,
}

/// Mean and standard deviation, in instructions.
pub type Moments = (f64, f64);

/// Section 5.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incremental {
    /// Bytes of the first object, increment per object, and megabytes of all objects.
    pub load: [u64; 3],
    /// Malloc of the moving implementation.
    pub allocate: Moments,
    /// Its free with partial compaction.
    pub free_partial: Moments,
    /// Block-frame sizes of the non-moving implementation.
    pub block_frame_bytes: u64,
    /// The smallest block-frames with which its free is faster than the moving one's.
    pub faster_frames_bytes: u64,
}

/// Section 5.3.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateMonotonic {
    /// Tasks.
    pub tasks: u64,
    /// Malloc of the moving implementation.
    pub allocate: Moments,
    /// The frees that compact.
    pub compacting_frees: u64,
    /// Free of the moving implementation with partial compaction.
    pub free_partial: Moments,
    /// Number of size-classes.
    pub classes: u64,
    /// Not-full pages in figure 7c by size-class, in the paper's words.
    pub not_full_pages: BTreeMap<String, u64>,
}

/// Section 5.4.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragmentation {
    /// Smallest and largest object that fills the heap.
    pub object_bytes: [u64; 2],
    /// Share of them that is freed, in per cent.
    pub freed_percent: u64,
    /// Smallest and largest object allocated afterwards.
    pub tried_bytes: [u64; 2],
    /// Maximum number of not-full pages.
    pub not_full_pages: u64,
}

/// Mean and deviation as text.
#[must_use]
pub fn formatted((mean, deviation): Moments) -> String {
    format!("{mean:.2} \u{b1} {deviation:.2}")
}
