//! Imports the logs that systems print of their own heaps: from text to a trace.
//!
//! ```text
//! text -> Log::parse -> the parts of one format -> convert -> trace
//! ```
//!
//! The format is recognised from the text. A log comes from a serial line, so anything may be in it: other text, lines
//! cut short, lines lost, several starts of the board. What cannot be used is counted with the line where it is first
//! found; nothing is left out without a count.
//!
//! | format | an operation |
//! |---|---|
//! | FreeRTOS | `traceMALLOC(ADDRESS, SIZE[, NUMBER])`, `traceFREE(ADDRESS, SIZE[, NUMBER])` |
//! | Zephyr | `heap_alloc(HEAP, ADDRESS, SIZE[, NUMBER])`, `heap_free(HEAP, ADDRESS, SIZE[, NUMBER])` |
//! | ESP-IDF's dump | `SIZE bytes (@ ADDRESS[, MEMORY]) allocated CPU N ccount CYCLES ...`, `freed by ...` |
//! | ESP-IDF's host | `HEAP: Allocated SIZE bytes @ ADDRESS ...`, `HEAP: Freed bytes @ ADDRESS ...` |
//!
//! Addresses are hexadecimal. Sizes are decimal, or hexadecimal after `0x`. Numbers count the lines of a run, from 0.

mod convert;
mod parse;
#[cfg(test)]
mod tests;

pub use convert::{Findings, Noted, convert, incomplete};
pub use parse::{Dump, Entry, Format, Log, Mode, Part, Step};

use crate::number::grouped;

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No text at all.
    #[error("the log is empty")]
    Empty,
    /// A trace.
    #[error("it is a trace already; `rtalloc inspect` describes it")]
    IsTrace,
    /// No text.
    #[error("it is binary data, not a log; `rtalloc recover` reads a dump of memory")]
    Binary,
    /// Text without an operation.
    #[error(
        "{} of a known form: traceMALLOC(ADDRESS, SIZE), heap_alloc(HEAP, ADDRESS, SIZE), or those of ESP-IDF's heap \
         trace; the chapter \"Measuring your program\" of the book has code that prints them{}",
        match lines {
            1 => "its one line of text is not".into(),
            lines => format!("none of its {} lines of text is", grouped(*lines)),
        },
        damaged.map_or_else(String::new, |line| format!("; line {line} begins like one, and cannot be read"))
    )]
    Nothing {
        /// Its lines of text.
        lines: u64,
        /// The first line with the beginning of an operation.
        damaged: Option<u64>,
    },
    /// Operations of more than one format.
    #[error("it has lines of {}; cut it, and import each part alone", .0.join(" and of "))]
    Several(Vec<String>),
}
