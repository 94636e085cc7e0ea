//! The Compact-fit paper (2008). Its figures 6 to 8 are curves; these are the numbers that its text tells.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Its peers in its order: name there and here.
pub const PEERS: [(&str, &str); 5] = [
    ("First-fit", "first-fit"),
    ("Best-fit", "best-fit"),
    ("DL", "dlmalloc"),
    ("Half-fit", "half-fit"),
    ("TLSF", "tlsf"),
];

/// Its figures.
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
    /// Another's compaction.
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
    /// Indirections of a dereference with the non-moving implementation, more than with a pointer.
    pub non_moving_indirections: u64,
}

/// Section 3.1.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// A page.
    pub page_kilobytes: u64,
    /// What a page keeps for itself.
    pub administration_bytes: u64,
    /// The same in per cent of a page, as the paper says.
    pub administration_percent: f64,
    /// Lines and columns of a page's bits.
    pub bitmap: [u64; 2],
    /// Page-blocks of a page at most.
    pub page_blocks: u64,
    /// Bits that tell whether a line has a bit set.
    pub further_bits: u64,
    /// The smallest page-block.
    pub smallest_page_block_bytes: u64,
    /// f: by how much of it a page-block is smaller than the next one.
    pub growth: f64,
}

/// Section 3.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageBlocks {
    /// The reference to the abstract address: of a page-block at most, in per cent.
    pub back_reference_percent: f64,
}

/// Section 3.5: instructions of a dereference, the addition of an offset included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dereference {
    /// Of a pointer.
    pub pointer: u64,
    /// Of an abstract pointer of the moving implementation.
    pub moving: u64,
    /// Of the non-moving implementation.
    pub non_moving: u64,
    /// More than of a pointer, moving.
    pub moving_more: u64,
    /// The same, non-moving; of these, dereferences; of these, calculation.
    pub non_moving_more: [u64; 3],
}

/// Section 4.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metronome {
    /// Compaction, in per cent of a collection's time.
    pub metronome_percent: f64,
}

/// Mean and standard deviation, in instructions.
pub type Moments = (f64, f64);

/// Section 5.2.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incremental {
    /// Bytes of the first object, by how many the next one is larger, and megabytes of all of them.
    pub load: [u64; 3],
    /// Malloc of the moving implementation.
    pub allocate: Moments,
    /// Its free with partial compaction.
    pub free_partial: Moments,
    /// Block-frames of the non-moving implementation.
    pub block_frame_bytes: u64,
    /// The smallest block-frames with which it frees faster than the moving one.
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
    /// The frees during which there is compaction.
    pub compacting_frees: u64,
    /// Free of the moving implementation with partial compaction.
    pub free_partial: Moments,
    /// Size-classes.
    pub classes: u64,
    /// Not-full pages in figure 7c by size-classes, in the paper's words.
    pub not_full_pages: BTreeMap<String, u64>,
}

/// Section 5.4.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fragmentation {
    /// Smallest and largest object that the heap is filled with.
    pub object_bytes: [u64; 2],
    /// How many of them are freed, in per cent.
    pub freed_percent: u64,
    /// Smallest and largest object that is allocated then.
    pub tried_bytes: [u64; 2],
    /// Not-full pages at most.
    pub not_full_pages: u64,
}

/// Mean and deviation in words.
#[must_use]
pub fn told((mean, deviation): Moments) -> String {
    format!("{mean:.2} \u{b1} {deviation:.2}")
}
