//! The experiments of the Compact-fit paper for the terminal, and their figures as SVG.

use super::claims::claims;
use super::number;
use super::palette;
use super::plot::curves::{Panel as Drawn, Spacing, curves};
use super::plot::{Cast, PlotError, standalone};
use super::standing::Standing;
use super::table::Look;
use crate::result::compact_fit::{CompactFit, Counts, Panel, Series};
use crate::result::schema::{Origin, SubjectFacts};
use crate::subject;
use comfy_table::{Cell, CellAlignment};
use std::fmt::Write as _;

/// Everything for the terminal.
#[must_use]
pub fn tables(found: &CompactFit, look: Look) -> String {
    let heap = number::bytes(found.heap_bytes);
    let mut text = format!("Compact-fit 2008, figures 6 and 7: executed instructions in a heap of {heap}\n");
    for panel in &found.panels {
        let _ = writeln!(text, "\nFigure {}, {}", panel.figure, panel.what);
        text.push_str(&of_panel(panel, look));
    }
    let fragmentation = &found.fragmentation;
    let _ = writeln!(
        text,
        "\nFigure 8: more objects for which a heap of {} has room, filled with 20 to 100 B, a fifth freed at random",
        number::bytes(fragmentation.heap_bytes)
    );
    text.push_str(&room(found, look));
    let _ =
        writeln!(text, "\nTo read a byte of an object: instructions, the return of the function that does it included");
    let rows = found.dereference.iter().map(|row| {
        vec![
            row.through.clone(),
            row.published.map_or_else(|| "-".into(), |published| published.to_string()),
            row.ours.as_ref().map_or_else(|_| "-".into(), u64::to_string),
        ]
    });
    text.push_str(&table(&["through", "paper", "ours"], 1, rows, look));
    let _ = writeln!(text, "\nTo make a heap: instructions");
    let bytes: Vec<String> = found
        .initialisation
        .iter()
        .find_map(|row| row.ours.as_ref().ok())
        .map(|counts| counts.iter().map(|(bytes, _)| number::bytes(*bytes)).collect())
        .unwrap_or_default();
    let headings: Vec<&str> = std::iter::once("allocator").chain(bytes.iter().map(String::as_str)).collect();
    let rows = found.initialisation.iter().map(|row| {
        let counts = row.ours.iter().flatten().map(|(_, count)| number::grouped(*count));
        std::iter::once(row.subject.clone()).chain(counts).collect()
    });
    text.push_str(&table(&headings, 1, rows, look));
    let _ = writeln!(text, "\nWhat memory it costs");
    let rows = found.overhead.iter().map(|row| vec![row.what.clone(), row.published.clone(), row.ours.clone()]);
    text.push_str(&table(&["", "paper", "ours"], 1, rows, look));
    let _ = writeln!(text, "\nFree with full compaction by block-frame, incremental: instructions in the mean");
    let rows = found.frames.iter().map(|frame| {
        let name =
            frame.frame_bytes.map_or_else(|| "moving".into(), |bytes| format!("non-moving, frames of {bytes} B"));
        vec![name, frame.ours.as_ref().map_or_else(|_| "-".into(), |mean| format!("{mean:.1}"))]
    });
    text.push_str(&table(&["implementation", "mean"], 1, rows, look));
    text.push_str(&claims(&found.claims, &notes(found), look));
    text
}

const COLUMNS: [&str; 11] = [
    "\npaper",
    "\nours",
    "mean\npaper",
    "\nours",
    "deviation\npaper",
    "\nours",
    "\nleast",
    "\nmost",
    "\nper byte",
    "line\nexplains",
    "\nmoves",
];

fn of_panel(panel: &Panel, look: Look) -> String {
    let frees = panel.series.iter().any(|series| series.ours.as_ref().is_ok_and(|ours| ours.moves.is_some()));
    let columns = if frees { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let rows = panel.series.iter().map(|series| {
        let mut row = of_series(series);
        row.truncate(columns.len());
        row
    });
    table(columns, 2, rows, look)
}

fn of_series(series: &Series) -> Vec<String> {
    let published =
        |value: fn((f64, f64)) -> f64| series.published.map_or_else(String::new, |both| format!("{:.2}", value(both)));
    let ours = |text: &dyn Fn(&Counts) -> String| series.ours.as_ref().map_or_else(|_| "-".into(), text);
    vec![
        series.published_as.clone(),
        series.subject.clone(),
        published(|both| both.0),
        ours(&|counts| format!("{:.2}", counts.mean)),
        published(|both| both.1),
        ours(&|counts| format!("{:.2}", counts.deviation)),
        ours(&|counts| number::grouped(counts.least)),
        ours(&|counts| number::grouped(counts.most)),
        ours(&|counts| format!("{:.3}", counts.per_byte)),
        ours(&|counts| format!("{:.0} %", counts.explained * 100.0)),
        ours(&|counts| counts.moves.map_or_else(String::new, number::grouped)),
    ]
}

/// A few of the sizes.
fn room(found: &CompactFit, look: Look) -> String {
    const SHOWN: [u64; 8] = [20, 60, 250, 1000, 2000, 4000, 8000, 16_000];
    let sizes = &found.fragmentation.sizes;
    let nearest = |wanted: u64| (0..sizes.len()).min_by_key(|at| sizes[*at].abs_diff(wanted)).unwrap_or(0);
    let shown = SHOWN.map(nearest);
    let mut headings = vec!["\nallocator".to_string(), "objects\nwhen full".into(), "\nbytes".into()];
    headings.extend(shown.map(|at| format!("more of\n{} B", number::grouped(sizes[at]))));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let rows = found.fragmentation.rows.iter().map(|row| {
        let mut texts = vec![row.label.clone()];
        match &row.ours {
            Ok(left) => {
                texts.push(number::grouped(left.objects));
                texts.push(number::grouped(left.live_bytes));
                texts.extend(shown.map(|at| number::grouped(left.more[at])));
            }
            Err(_) => texts.extend(vec!["-".to_string(); headings.len() - 1]),
        }
        texts
    });
    table(&headings, 1, rows, look)
}

/// A table whose first columns are names.
pub(super) fn table(headings: &[&str], names: usize, rows: impl Iterator<Item = Vec<String>>, look: Look) -> String {
    let cell = |(place, text): (usize, String)| {
        Cell::new(text).set_alignment(if place < names { CellAlignment::Left } else { CellAlignment::Right })
    };
    let mut table = look.table();
    table.set_header(headings.iter().map(|text| (*text).to_string()).enumerate().map(cell));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(cell));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn notes(found: &CompactFit) -> Vec<String> {
    let mut notes = vec![
        "paper: instructions of a 32-bit machine, stepped; its allocate is told as 169.61 \u{b1} 8.63 for figure 6a and for figure 7a \
         alike, although the loads differ: one of the two is likely a copy of the other."
            .into(),
        "Chosen here, since the paper does not tell: a heap in which no allocator fails; the tasks (period, hold, bytes, objects a job) \
         (10, 20, 24-100, 4) (15, 30, 32-200, 3) (40, 400, 228-428, 3) (60, 600, 380-1000, 2) (100, 1000, 788-1272, 2); a geometric \
         ladder of sizes in figure 8."
            .into(),
        "*: with our tasks few size classes ever fill a page, so that nothing has to be moved; with many times as many objects some \
         does. The paper tells neither."
            .into(),
        "per byte: by how many instructions the line of least squares climbs for a byte of the object; line explains: the share of the \
         variance that it accounts for; of the operations that moved an object, where any did. moves: frees that moved another object, seen by dereferencing all."
            .into(),
    ];
    for panel in &found.panels {
        for series in &panel.series {
            if let Err(what) = &series.ours {
                notes.push(format!("{}, {}: {what}.", panel.figure, series.published_as));
            }
        }
    }
    for row in &found.fragmentation.rows {
        if let Err(what) = &row.ours {
            notes.push(format!("8, {}: {what}.", row.label));
        }
    }
    let others = found.dereference.iter().map(|row| (&row.through, row.ours.as_ref().err()));
    let others = others.chain(found.initialisation.iter().map(|row| (&row.subject, row.ours.as_ref().err())));
    for (name, what) in others {
        if let Some(what) = what {
            notes.push(format!("{name}: {what}."));
        }
    }
    for frame in &found.frames {
        if let Err(what) = &frame.ours {
            notes.push(format!("frames of {:?} B: {what}.", frame.frame_bytes));
        }
    }
    notes
}

/// Figures 6, 7 and 8 as files: name and content.
///
/// # Errors
///
/// See [`PlotError`].
pub fn figures(found: &CompactFit) -> Result<Vec<(String, String)>, PlotError> {
    let mut files = Vec::new();
    for (figure, cumulative) in [("6", false), ("7", true)] {
        let panels: Vec<&Panel> = found.panels.iter().filter(|panel| panel.figure.starts_with(figure)).collect();
        let Some(first) = panels.first() else { continue };
        let names: Vec<(&str, &str)> =
            first.series.iter().map(|series| (series.published_as.as_str(), series.subject.as_str())).collect();
        let drawn: Vec<Drawn> = panels.iter().map(|panel| of_operations(panel, cumulative)).collect();
        let description = format!("Compact-fit 2008, figure {figure}: instructions of every operation");
        files.extend(file(&format!("figure-{figure}.svg"), &drawn, &names, &description)?);
    }
    let rows = &found.fragmentation.rows;
    let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.label.as_str(), row.subject.as_str())).collect();
    #[allow(clippy::cast_precision_loss)] // drawn
    let curve = |left: &crate::result::compact_fit::Left| {
        found.fragmentation.sizes.iter().zip(&left.more).map(|(size, more)| (*size as f64, *more as f64)).collect()
    };
    let drawn = Drawn {
        title: "Figure 8: objects that can be allocated after a fifth was freed".into(),
        x: ("size of the objects in bytes".into(), Spacing::Logarithmic),
        y: ("objects".into(), Spacing::Logarithmic),
        curves: (0..)
            .zip(rows)
            .map(|(index, row)| (index, row.ours.as_ref().map_or_else(|_| Vec::new(), curve)))
            .collect(),
        marked: true,
    };
    files.extend(file("figure-8.svg", &[drawn], &names, "Compact-fit 2008, figure 8: objects that can be allocated")?);
    Ok(files)
}

fn of_operations(panel: &Panel, cumulative: bool) -> Drawn {
    #[allow(clippy::cast_precision_loss)] // drawn
    let points = |counts: &Counts| {
        let mut sum = 0.0;
        let each = (1..).zip(&counts.operations).map(|(number, (_, count))| {
            sum += f64::from(*count);
            (f64::from(number), if cumulative { sum } else { f64::from(*count) })
        });
        each.collect::<Vec<(f64, f64)>>()
    };
    let curves = (0..)
        .zip(&panel.series)
        .map(|(index, series)| (index, series.ours.as_ref().map_or_else(|_| Vec::new(), points)));
    Drawn {
        title: format!("Figure {}, {}", panel.figure, panel.what),
        x: ("operations".into(), Spacing::Even),
        y: if cumulative {
            ("instructions of all operations so far".into(), Spacing::Even)
        } else {
            ("instructions".into(), Spacing::Logarithmic)
        },
        curves: curves.collect(),
        marked: true,
    }
}

/// A figure with the looks that allocators of these labels and names have.
pub(super) fn file(
    name: &str,
    panels: &[Drawn],
    names: &[(&str, &str)],
    description: &str,
) -> Result<Option<(String, String)>, PlotError> {
    let standings: Vec<Standing> = names.iter().map(|(label, name)| standing(label, name)).collect();
    let styles = palette::of(&standings);
    let figure = curves(panels, Cast { standings: &standings, styles: &styles }, description)?;
    Ok(figure.map(|figure| (name.to_string(), standalone(&figure, &styles))))
}

/// Who a curve is of, under the name that the figure gives it.
pub(super) fn standing(label: &str, name: &str) -> Standing {
    let known = subject::one(name).ok().map(subject::Subject::facts);
    let facts = known.unwrap_or_else(|| SubjectFacts {
        name: label.into(),
        origin: Origin::Ours,
        family: label.into(),
        cost: String::new(),
        largest_request_bytes: None,
        largest_alignment_bytes: None,
        read_instructions: None,
    });
    Standing {
        subject: SubjectFacts { name: label.into(), ..facts },
        worst: None,
        heap: None,
        growth: None,
        troubles: Vec::new(),
        own_pages: false,
        only_beyond_reach: false,
    }
}
