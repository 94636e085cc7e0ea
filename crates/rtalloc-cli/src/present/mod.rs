//! Tables, plots and the report: the presentation of results.
//!
//! Everything here is computed from a [`Run`](rtalloc_lab::result::schema::Run) alone, so that earlier measurements can be
//! displayed again.

pub mod advice;
pub mod bounds;
pub mod campaign;
pub mod catalogue;
pub mod code;
pub mod comparison;
pub mod costs;
pub mod csv;
pub mod headroom;
pub mod heap_size;
pub mod interleave;
pub mod metric;
pub(crate) mod page;
pub mod palette;
pub mod plot;
pub mod report;
pub(crate) mod shared_heaps;
pub mod summary;
pub mod table;
pub mod threads;
pub mod tune;
pub mod verdict;

#[cfg(test)]
mod fixture;

pub use csv::csv;
pub use page::measured;
pub use verdict::verdict;

/// Sanitises text from a trace for the terminal: a crafted file must not inject escape sequences.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_file_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\u{fffd}[2Jb\u{fffd}c");
    }

    #[test]
    fn neither_tables_nor_verdict_pass_control_characters_on() {
        let mut run = fixture::usual();
        for result in &mut run.traces {
            result.trace.name = format!("\u{1b}]0;{}\u{7}", result.trace.name);
            result.trace.about = "two\nlines\u{9b}31m".into();
        }
        let look = table::Look { columns: 140, colour: false };
        for text in [table::Tables::new(look).whole(&run), verdict(&run).text(100)] {
            assert!(text.contains("\u{fffd}]0;gcc\u{fffd}"), "{text}");
            assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
            assert!(!text.contains("two\nlines"), "{text}");
        }
    }
}
