//! A page of results: one self-contained HTML file that loads no external resources.

use super::palette::{self, Style};
use super::table::Look;
use super::table::table;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Environment;

/// A document with the styles of its figures; `links` has the ids and titles of its sections.
pub(crate) fn page(title: &str, heading: &str, styles: &[Style], links: &[(String, String)], body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // A content security policy that forbids external resources.
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(include_str!("report.css"))) (PreEscaped(palette::css(styles))) }
            }
            body {
                h1 { (heading) }
                nav { @for (id, words) in links { a href={ "#" (id) } { (words) } } }
                main { (body) }
                script { (PreEscaped(include_str!("report.js"))) }
            }
        }
    };
    page.into_string()
}

/// A figure that scrolls horizontally on narrow screens; empty if there is no figure.
pub(crate) fn figure(svg: Option<&str>, caption: &Markup) -> Markup {
    html! {
        @if let Some(svg) = svg {
            figure {
                div.scroll { (PreEscaped(svg)) }
                figcaption { (caption) }
            }
        }
    }
}

/// The name of an allocator as the first cell of a row, in its colour.
pub(crate) fn name_cell(index: usize, name: &str) -> Markup {
    html! { th scope="row" class={ "c" (index) } data-allocator=(index) data-v=(name) { (name) } }
}

/// A table for both the terminal and a page.
pub(crate) struct Tabled {
    /// Headings of one or two lines.
    pub(crate) headings: Vec<String>,
    /// Number of leading text columns.
    pub(crate) words: usize,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Tabled {
    pub(crate) fn new<S: AsRef<str>>(headings: &[S], words: usize, rows: impl Iterator<Item = Vec<String>>) -> Self {
        Self { headings: headings.iter().map(|heading| heading.as_ref().into()).collect(), words, rows: rows.collect() }
    }

    pub(crate) fn text(&self, look: Look) -> String {
        let headings: Vec<&str> = self.headings.iter().map(String::as_str).collect();
        table(&headings, self.words, self.rows.iter().cloned(), look)
    }

    /// A name of an allocator in the first column has its colour. Empty first cells repeat the name above, since rows
    /// can be sorted.
    pub(crate) fn html(&self, index: &dyn Fn(&str) -> Option<usize>) -> Markup {
        let mut rows = self.rows.clone();
        for place in 1..rows.len() {
            if rows[place].first().is_some_and(String::is_empty) {
                rows[place][0] = rows[place - 1][0].clone();
            }
        }
        html! {
            div.scroll {
                table {
                    thead {
                        tr {
                            @for (column, heading) in self.headings.iter().enumerate() {
                                th.left[column < self.words] {
                                    @for (line, text) in heading.trim_start().lines().enumerate() {
                                        @if line > 0 { br; }
                                        (text)
                                    }
                                }
                            }
                        }
                    }
                    tbody {
                        @for row in &rows {
                            tr {
                                @for (column, text) in row.iter().enumerate() {
                                    @match (column, index(text)) {
                                        (0, Some(index)) => (name_cell(index, text)),
                                        (0, None) => th.what[is_long(text)] scope="row" data-v=(text) { (text) },
                                        _ => td.left[column < self.words].what[is_long(text)] data-v=[sorted_by(text)] { (text) },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Whether a cell's text has several lines.
fn is_long(text: &str) -> bool {
    text.chars().count() > 24
}

/// The sort key of a cell: numbers by value, whatever text follows them.
fn sorted_by(text: &str) -> Option<String> {
    if text.is_empty() || text == "-" {
        return None;
    }
    let number = text.split(' ').next().unwrap_or(text).replace(',', "");
    Some(if number.parse::<f64>().is_ok() { number } else { text.into() })
}

/// The time of the measurement, and the version of the code.
#[must_use]
pub fn measured(environment: &Environment) -> String {
    format!("Measured {} by rtalloc {}.", number::date(environment.unix_time), environment.rtalloc)
}

/// The program, and the machines that performed timings; if there are several, only the first one in full.
pub(crate) fn environments(all: &[Environment]) -> Markup {
    html! {
        @if let [first, others @ ..] = all {
            (environment(first))
            @if !others.is_empty() {
                p { "Timed on several machines; one table has times of different machines:" }
                ul {
                    @for each in all { li { (processor(each)) ", " (each.kernel) } }
                }
            }
        }
    }
}

fn processor(environment: &Environment) -> String {
    format!("{}, {}", environment.cpu, number::counted(environment.cores as u64, "core"))
}

/// The machine and the program.
pub(crate) fn environment(environment: &Environment) -> Markup {
    #[allow(clippy::cast_precision_loss)] // shown with three decimals
    let gigahertz = environment.tsc_hz as f64 / 1e9;
    let rows = [
        ("rtalloc", environment.rtalloc.clone()),
        ("processor", processor(environment)),
        ("kernel", environment.kernel.clone()),
        ("compiler", environment.rustc.clone()),
        ("binary", environment.binary.clone()),
        ("time-stamp counter", format!("{gigahertz:.3} GHz")),
        ("empty measurement", format!("{} (subtracted)", number::counted(environment.timer_overhead_ticks, "tick"))),
        ("smallest step", number::counted(environment.timer_step_ticks, "tick")),
        ("measured", number::date(environment.unix_time)),
    ];
    html! {
        section id="environment" {
            h2 { "Environment" }
            table.environment {
                tbody {
                    @for (name, value) in &rows { tr { th scope="row" { (name) } td { (value) } } }
                }
            }
        }
    }
}
