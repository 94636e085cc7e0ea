//! The catalogue for the terminal: a table of allocators, and the full summary of one.

use super::table::Look;
use super::verdict::wrapped;
use comfy_table::{Attribute, Cell, CellAlignment};
use rtalloc_lab::number;
use rtalloc_lab::result::catalogue::{Operation, Summary};
use rtalloc_lab::result::schema::Origin;
use std::fmt::Write as _;

/// Maximum useful width in columns.
pub const WIDEST: usize = 150;

/// A column of the table.
struct Column {
    heading: &'static str,
    text: fn(&Summary) -> String,
    alignment: CellAlignment,
    /// On a narrow terminal, columns with the highest number are dropped first.
    dispensable: u8,
}

const COLUMNS: [Column; 11] = [
    Column { heading: "\nallocator", text: name, alignment: CellAlignment::Left, dispensable: 0 },
    Column { heading: "\npolicy", text: policy, alignment: CellAlignment::Left, dispensable: 3 },
    Column { heading: "\npaper", text: paper, alignment: CellAlignment::Left, dispensable: 4 },
    Column {
        heading: "cost\nallocate",
        text: |summary| cost(summary, 0),
        alignment: CellAlignment::Left,
        dispensable: 0,
    },
    Column { heading: "\nfree", text: |summary| cost(summary, 2), alignment: CellAlignment::Left, dispensable: 0 },
    Column { heading: "\nrealloc", text: |summary| cost(summary, 3), alignment: CellAlignment::Left, dispensable: 5 },
    Column {
        heading: "bound\nalloc",
        text: |summary| bound(summary, 0),
        alignment: CellAlignment::Right,
        dispensable: 0,
    },
    Column { heading: "\nfree", text: |summary| bound(summary, 2), alignment: CellAlignment::Right, dispensable: 0 },
    Column { heading: "read,\ninstr", text: read, alignment: CellAlignment::Right, dispensable: 2 },
    Column { heading: "header,\ngranule", text: bytes, alignment: CellAlignment::Right, dispensable: 1 },
    Column { heading: "largest\nrequest", text: largest, alignment: CellAlignment::Right, dispensable: 0 },
];

fn name(summary: &Summary) -> String {
    format!("{}{}", summary.name, if summary.in_dozen { " *" } else { "" })
}

/// The policy in at most 20 characters; the summary has the full text.
fn policy(summary: &Summary) -> String {
    if summary.policy.chars().count() <= 20 {
        return summary.policy.clone();
    }
    summary.policy.chars().take(19).chain(['…']).collect()
}

/// The paper without title and sections: `Puaut 2002`.
fn paper(summary: &Summary) -> String {
    match summary.origin {
        Origin::Ours => {
            let first = summary.source.split([';', ',']).next().unwrap_or_default();
            first.trim_start_matches("the ").replace(['(', ')'], "")
        }
        Origin::Peer => "crate".into(),
        Origin::System => "-".into(),
    }
}

fn cost(summary: &Summary, operation: usize) -> String {
    match summary.operations[operation].cost.as_deref() {
        Some("unbounded") => "no bound".into(),
        Some(cost) => cost.into(),
        None => "-".into(),
    }
}

fn bound(summary: &Summary, operation: usize) -> String {
    summary.operations[operation].bound.map_or_else(|| "-".into(), number::grouped)
}

fn read(summary: &Summary) -> String {
    summary.blocks.read_instructions.map_or_else(|| "-".into(), number::grouped)
}

fn bytes(summary: &Summary) -> String {
    match (summary.blocks.header_bytes, summary.blocks.granule_bytes) {
        (Some(header), Some(granule)) => format!("{header}, {granule}"),
        _ => "-".into(),
    }
}

fn largest(summary: &Summary) -> String {
    summary.blocks.largest_request_bytes.map_or_else(|| "heap".into(), number::bytes)
}

/// The table: one line per allocator, grouped by family.
#[must_use]
pub fn table(summaries: &[Summary], look: Look) -> String {
    let mut columns: Vec<&Column> = COLUMNS.iter().collect();
    let mut left_out = Vec::new();
    let table = loop {
        let table = build(summaries, &columns, look);
        let width = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let most = columns.iter().map(|column| column.dispensable).max().unwrap_or(0);
        if width <= look.columns || most == 0 {
            break table;
        }
        if let Some(at) = columns.iter().position(|column| column.dispensable == most) {
            left_out.push(columns.remove(at).heading.trim().replace('\n', " "));
        }
    };
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for note in notes(summaries, &left_out) {
        text.push_str(&wrapped(&note, look.columns, 0));
        text.push('\n');
    }
    text
}

fn build(summaries: &[Summary], columns: &[&Column], look: Look) -> String {
    let mut table = look.table();
    table.set_header(columns.iter().map(|column| Cell::new(column.heading).set_alignment(column.alignment)));
    for (origin, title) in [(Origin::Ours, "ours"), (Origin::Peer, "peers"), (Origin::System, "this machine")] {
        let of_origin = || summaries.iter().filter(|summary| summary.origin == origin);
        let mut families: Vec<&str> = Vec::new();
        for summary in of_origin() {
            if !families.contains(&summary.family.as_str()) {
                families.push(&summary.family);
            }
        }
        for family in families {
            table.add_row(vec![Cell::new(format!("{title}, {family}")).add_attribute(Attribute::Bold)]);
            for summary in of_origin().filter(|summary| summary.family == family) {
                let cells = columns.iter().enumerate().map(|(place, column)| {
                    let indent = if place == 0 { " " } else { "" };
                    Cell::new(format!("{indent}{}", (column.text)(summary))).set_alignment(column.alignment)
                });
                table.add_row(cells);
            }
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.to_string()
}

fn notes(summaries: &[Summary], left_out: &[String]) -> Vec<String> {
    let mut notes = vec![
        "cost: the class its contract, or a peer's author, states; H: the heap's size, n: its free blocks. bound: the \
         most x86-64 instructions, proved from this program's code, in a heap of 16 MiB; -: none, `rtalloc allocators \
         NAME` explains why. largest request: the limit in any heap; heap: depends on the heap. read: instructions to \
         read a byte of a block, through its handle if it has no pointer. header, granule: bytes."
            .to_string(),
    ];
    if summaries.iter().any(|summary| summary.in_dozen) {
        notes.push("*: one of the twelve that `rtalloc` shows by default.".into());
    }
    notes.push("`rtalloc allocators NAME` describes one in full.".into());
    if !left_out.is_empty() {
        notes.push(format!("Omitted because the terminal is too narrow: {}.", left_out.join(", ")));
    }
    notes
}

/// Column at which the values of a summary start.
const MARGIN: usize = 22;

/// All known properties of an allocator.
#[must_use]
pub fn summary(summary: &Summary, look: Look) -> String {
    let mut page = Page { text: String::new(), columns: look.columns.min(100) };
    let title = if look.colour {
        console::style(&summary.name).bold().force_styling(true).to_string()
    } else {
        summary.name.clone()
    };
    let _ = writeln!(page.text, "{title}");
    page.paragraph(&summary.idea);
    page.gap();
    let whose = match summary.origin {
        Origin::Ours => "ours",
        Origin::Peer => "a published crate",
        Origin::System => "this machine's",
    };
    page.fact(
        "family",
        &format!("{}, {whose}{}", summary.family, if summary.in_dozen { "; one of the default twelve" } else { "" }),
    );
    page.fact("policy", &summary.policy);
    page.fact("from", &summary.source);
    page.gap();
    let _ = writeln!(page.text, "  {:<20}{:<12}static bound, x86-64 instructions", "operation", "cost");
    for operation in &summary.operations {
        page.operation(operation);
    }
    page.gap();
    if !summary.elsewhere.is_empty() {
        elsewhere(summary, &mut page);
        page.gap();
    }
    blocks(summary, &mut page);
    page.gap();
    page.list("does not", &summary.does_not);
    page.fact("strengths", &summary.wins);
    page.fact("weaknesses", &summary.loses);
    page.fact("options", if summary.options.is_empty() { "none" } else { &summary.options });
    page.text
}

/// The committed bounds on other processors.
fn elsewhere(summary: &Summary, page: &mut Page) {
    let operations = || summary.operations.iter().map(|operation| operation.name.as_str()).take(3);
    let row = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        cells.fold(format!("  {name:<32}"), |line, cell| format!("{line}{cell:>18}")).trim_end().to_owned()
    };
    let mut headings = operations().map(str::to_owned);
    let _ = writeln!(page.text, "{}", row("static bound elsewhere", &mut headings));
    for one in &summary.elsewhere {
        let bound = |operation| one.bounds.get(operation).copied().map_or_else(|| "-".into(), number::grouped);
        let name = format!("{}, {}s", one.name, one.unit);
        let _ = writeln!(page.text, "{}", row(&name, &mut operations().map(bound)));
    }
    page.paragraph(
        "Committed. -: not in the table. Cycles of Cortex-M are from the manuals, not validated. `rtalloc bound --target \
         NAME` says for which code, and under which conditions.",
    );
}

fn blocks(summary: &Summary, page: &mut Page) {
    let blocks = &summary.blocks;
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "not known".into(), exactly);
    let heap_decides = |bytes: Option<u64>| bytes.map_or_else(|| "depends on the heap".into(), exactly);
    page.fact(
        "header",
        &match blocks.header_bytes {
            Some(0) => "none".into(),
            Some(bytes) => format!("{} before every live block", exactly(bytes)),
            None => "not known".into(),
        },
    );
    page.fact(
        "block sizes",
        &match blocks.granule_bytes {
            Some(granule) => format!("multiples of {}, at least {}", exactly(granule), bytes(blocks.smallest_bytes)),
            None => "not known".into(),
        },
    );
    if let Some(page_bytes) = blocks.page_bytes {
        page.fact("pages", &exactly(page_bytes));
    }
    page.fact(
        "alignment",
        &format!(
            "{} by default; limit: {}",
            exactly(blocks.alignment_bytes),
            heap_decides(blocks.largest_alignment_bytes)
        ),
    );
    if let Some(read) = blocks.read_instructions {
        page.fact("to read a byte", &number::counted(read, "instruction"));
    }
    page.fact("largest request", &heap_decides(blocks.largest_request_bytes));
    if let Some(span) = blocks.max_span_bytes {
        page.fact("largest heap", &exactly(span));
    }
    page.fact("free blocks merge", blocks.coalescing.as_deref().unwrap_or("not known"));
    if summary.control.is_empty() {
        page.fact("control structure", "in pages it takes from the system");
    } else {
        let of = |control: &rtalloc_lab::result::catalogue::Control| {
            let heap = number::bytes(control.heap_bytes).replace(".00", "").replace(".0", "");
            match control.control_bytes {
                Some(bytes) => format!("{} in a heap of {heap}", exactly(bytes)),
                None => format!("no heap of {heap}"),
            }
        };
        page.fact("control structure", &summary.control.iter().map(of).collect::<Vec<_>>().join(", "));
    }
}

fn exactly(bytes: u64) -> String {
    format!("{} B", number::grouped(bytes))
}

struct Page {
    text: String,
    columns: usize,
}

impl Page {
    fn gap(&mut self) {
        self.text.push('\n');
    }

    fn paragraph(&mut self, text: &str) {
        for line in wrapped(text, self.columns.saturating_sub(2), 0).lines() {
            let _ = writeln!(self.text, "  {line}");
        }
    }

    /// A name and its value, wrapped with a hanging indent.
    fn fact(&mut self, name: &str, value: &str) {
        let wrapped = wrapped(value, self.columns.saturating_sub(MARGIN), 0);
        for (place, line) in wrapped.lines().enumerate() {
            let _ = writeln!(self.text, "  {:<20}{line}", if place == 0 { name } else { "" });
        }
    }

    fn list(&mut self, name: &str, values: &[String]) {
        for (place, value) in values.iter().enumerate() {
            self.fact(if place == 0 { name } else { "" }, value);
        }
    }

    fn operation(&mut self, operation: &Operation) {
        let bound = match (operation.bound, &operation.formula, &operation.no_bound_because) {
            (Some(bound), Some(formula), _) => {
                format!("{} in a heap of 16 MiB: {formula}", number::grouped(bound))
            }
            (Some(bound), None, _) => number::grouped(bound),
            (None, Some(formula), _) => formula.clone(),
            (None, None, Some(why)) => format!("none: {why}"),
            (None, None, None) => "none".into(),
        };
        let cost = operation.cost.as_deref().unwrap_or("not known");
        let _ = writeln!(self.text, "  {:<20}{cost:<12}{bound}", operation.name);
    }
}
