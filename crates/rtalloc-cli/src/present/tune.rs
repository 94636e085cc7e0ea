//! Compact-fit's parameters derived from a trace: tables, and a figure.

use super::palette;
use super::plot::curves::{Panel, Spacing, Stroke, curves};
use super::plot::{PlotError, Selection, standalone};
use super::summary::{Standing, named};
use super::table::Look;
use super::table::table;
use super::verdict::wrapped;
use rtalloc_lab::number;
use rtalloc_lab::result::tune::{Choice, Tuning};
use std::fmt::Write as _;

/// Number of size classes drawn: those with the longest runs of frees.
const DRAWN: usize = 9;

/// All results, for the terminal.
#[must_use]
pub fn tables(tuning: &Tuning, look: Look) -> String {
    let name = super::printable(&tuning.trace);
    let mut text = format!("Compact-fit on {name}, {}\n", number::counted(tuning.events, "operation"));
    let _ = writeln!(text, "\nSize classes that it uses");
    text.push_str(&classes(tuning, look));
    let _ = writeln!(text, "\nChoices of max_nr_nf_pages: pages against moved objects; *: Pareto-optimal");
    let rows = tuning.choices.iter().map(|choice| {
        vec![
            if choice.on_front { format!("* {}", choice.name) } else { format!("  {}", choice.name) },
            number::grouped(choice.pages),
            number::bytes(choice.pages * tuning.page_bytes),
            format!("{:.1}", choice.mean_pages),
            number::grouped(choice.moves),
            number::bytes(choice.moved_bytes),
            limits(tuning, choice),
        ]
    });
    text.push_str(&table(
        &[
            "\nmax_nr_nf_pages",
            "pages\nat most",
            "\n",
            "\nin the mean",
            "\nmoves",
            "\nmoved",
            "classes with more than 1\n(number: limit)",
        ],
        1,
        rows,
        look,
    ));
    let _ = writeln!(
        text,
        "\nAbstract addresses: {} at once, in {}.",
        number::grouped(tuning.peak_objects),
        number::counted(tuning.entry_pages, "page")
    );
    if let Some(allocatable) = &tuning.allocatable {
        let _ = writeln!(
            text,
            "\nFurther allocatable objects in a heap of {} ({}): at the worst moment and at the end",
            number::bytes(allocatable.heap_bytes),
            number::counted(allocatable.pages, "page")
        );
        let mut headings = vec!["\nobject".to_string()];
        for (name, _) in allocatable.rows.first().map_or(&[][..], |row| &row.by_choice) {
            headings.extend([format!("{name}\nworst"), "\nend".into()]);
        }
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let rows = allocatable.rows.iter().map(|row| {
            let rooms = row.by_choice.iter().flat_map(|(_, room)| match room {
                Some((worst, end)) => [number::grouped(*worst), number::grouped(*end)],
                None => ["does not fit".into(), String::new()],
            });
            std::iter::once(format!("{} B", number::grouped(row.size))).chain(rooms).collect()
        });
        text.push_str(&table(&headings, 1, rows, look));
    }
    text.push('\n');
    for note in notes(tuning) {
        let _ = writeln!(text, "{}", wrapped(&note, look.columns, 0));
    }
    text
}

fn classes(tuning: &Tuning, look: Look) -> String {
    let headings = [
        "\nclass",
        "\nblock",
        "\nof a page",
        "\nallocations",
        "most\nlive",
        "longest run\nof frees",
        "enough\nnot-full",
        "moves\nat 1",
        "pages\nat 1",
        "\nenough",
    ];
    let rows = tuning.classes.iter().map(|class| {
        let mut row = vec![class.number.to_string()];
        let values = [
            class.block_bytes,
            class.blocks,
            class.allocations,
            class.peak_objects,
            class.peak_free_run,
            class.suffices,
            class.moves,
            class.compact_pages,
            class.loose_pages,
        ];
        row.extend(values.map(number::grouped));
        row
    });
    table(&headings, 0, rows, look)
}

/// The limits of a choice, if not all are 1.
fn limits(tuning: &Tuning, choice: &Choice) -> String {
    const SHOWN: usize = 6;
    let above: Vec<String> = tuning
        .classes
        .iter()
        .zip(&choice.most)
        .filter(|(_, most)| **most > 1)
        .map(|(class, most)| format!("{}: {most}", class.number))
        .collect();
    let more = above.len().saturating_sub(SHOWN);
    let shown = above[..above.len().min(SHOWN)].join(", ");
    if more == 0 { shown } else { format!("{shown}, {more} more") }
}

fn notes(tuning: &Tuning) -> Vec<String> {
    let mut notes = vec![
        "longest run of frees: the maximum of n_f (section 3.4), frees without an allocation since. enough: the \
         smallest max_nr_nf_pages with which nothing is ever moved; Proposition 1 states the longest run plus 1, but \
         with its order of half-full pages, plus 2 is needed. pages: the maximum at a time; pages of abstract \
         addresses are counted as if none were returned."
            .into(),
        "each: the same limit for all classes, but never more than enough for a class. step: starting with 1 each, one \
         class at a time was given another page, where a page saves the most moves."
            .into(),
    ];
    if tuning.beyond_reach > 0 {
        notes.push(format!(
            "{} larger than a page of {}: refused, and omitted here.",
            number::counted(tuning.beyond_reach, "request"),
            number::bytes(tuning.page_bytes)
        ));
    }
    notes
}

/// The figure: frees without an allocation over time, and the choices.
///
/// # Errors
///
/// See [`PlotError`].
pub fn figure(tuning: &Tuning) -> Result<Option<String>, PlotError> {
    let mut longest: Vec<&rtalloc_lab::result::tune::Class> = tuning.classes.iter().collect();
    longest.sort_by_key(|class| std::cmp::Reverse(class.peak_free_run));
    longest.truncate(DRAWN);
    let labels: Vec<String> =
        longest.iter().map(|class| format!("class {} ({} B)", class.number, class.block_bytes)).collect();
    let mut names: Vec<(&str, &str)> = labels.iter().map(|label| (label.as_str(), "")).collect();
    names.extend([("*: Pareto-optimal", ""), ("same for all", "")]);
    #[allow(clippy::cast_precision_loss)] // drawn
    let runs = Panel {
        title: "Frees of a size class without an allocation since (n_f), maximum of each interval".into(),
        x: ("operations of the trace".into(), Spacing::Even),
        y: ("frees".into(), Spacing::Even),
        curves: longest
            .iter()
            .enumerate()
            .map(|(index, class)| (index, class.free_run.iter().map(|(at, run)| (*at as f64, *run as f64)).collect()))
            .collect(),
        stroke: Stroke::Lines,
        published: Vec::new(),
        marks: Vec::new(),
    };
    #[allow(clippy::cast_precision_loss)] // drawn
    let points = |wanted: &dyn Fn(&Choice) -> bool| -> Vec<(f64, f64)> {
        let chosen = tuning.choices.iter().filter(|choice| wanted(choice));
        chosen
            .map(|choice| (choice.mean_pages * tuning.page_bytes as f64 / 1024.0, choice.moved_bytes as f64 / 1024.0))
            .collect()
    };
    let front = Panel {
        title: "Memory against compaction: choices of max_nr_nf_pages".into(),
        x: ("KiB in pages, in the mean".into(), Spacing::Even),
        y: ("KiB moved".into(), Spacing::Even),
        curves: vec![
            (longest.len(), points(&|choice| choice.on_front)),
            (longest.len() + 1, points(&|choice| choice.name.ends_with("each"))),
        ],
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    };
    let description = "Runs of frees by size class, and memory against compaction";
    let standings: Vec<Standing> = names.iter().map(|(label, name)| named(label, name)).collect();
    let styles = palette::of(&standings);
    let drawn = curves(&[runs, front], Selection { standings: &standings, styles: &styles }, description)?;
    Ok(drawn.map(|drawn| standalone(&drawn, &styles)))
}
