//! The experiments of the Compact-fit paper: tables and figures.

use crate::papers::chapter::{Chapter, Figure, Section};
use crate::papers::compact_fit::published::formatted;
use crate::papers::compact_fit::result::{CompactFit, Counts, Panel, Series};
use crate::papers::published::COMPACT_FIT;
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use crate::present::plot::curves::{Panel as Drawn, Spacing, Stroke};
use rtalloc_lab::number;

/// The paper's chapter.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &CompactFit) -> Result<Chapter, PlotError> {
    let of_figure = |number: &str, title: &str, about: String, cumulative: bool| -> Result<Section, PlotError> {
        let panels: Vec<&Panel> = found.panels.iter().filter(|panel| panel.figure.starts_with(number)).collect();
        let tables = panels.iter().map(|panel| (format!("Figure {}, {}", panel.figure, panel.what), of_panel(panel)));
        Ok(Section {
            title: title.into(),
            about,
            tables: tables.collect(),
            figures: operations(number, &panels, cumulative)?.into_iter().collect(),
        })
    };
    let plain = |title: &str, about: &str, table: Tabled| Section {
        title: title.into(),
        about: about.into(),
        tables: vec![(String::new(), table)],
        figures: Vec::new(),
    };
    let heap = number::bytes(found.heap_bytes);
    let (incremental, rate_monotonic) = (&COMPACT_FIT.section_5_2, &COMPACT_FIT.section_5_3);
    let sections = vec![
        of_figure(
            "6",
            "Figure 6: incremental load",
            format!(
                "Objects of 8, 12, 16, ... B, 7 MiB in total; every second one is freed (6b, 6c); those are allocated \
                 again (6a). Executed instructions, each allocator in the smallest heap that holds all objects, which \
                 is just full as in the paper. Its text gives {} for CFM's malloc and {} for its free with partial \
                 compaction.",
                formatted(incremental.allocate),
                formatted(incremental.free_partial)
            ),
            false,
        )?,
        of_figure(
            "7",
            "Figure 7: rate-monotonic load",
            format!(
                "Five periodic tasks, two with short-lived small objects and three with long-lived large ones, in a \
                 heap of {heap}; the figures are cumulative over the operations. The paper's text gives {} for CFM's \
                 malloc and {} for its free with partial compaction.",
                formatted(rate_monotonic.allocate),
                formatted(rate_monotonic.free_partial)
            ),
            true,
        )?,
        Section {
            title: "Figure 8: allocatable objects after fragmentation".into(),
            about: format!(
                "A heap of {} is filled with objects of 20 to 100 B and a fifth is freed at random. The figure counts \
                 the further objects that can be allocated, in a separate heap for each size. CFM 3: at most three \
                 not-full pages for each size class.",
                number::bytes(found.fragmentation.heap_bytes)
            ),
            tables: vec![(String::new(), room(found))],
            figures: more(found)?.into_iter().collect(),
        },
        plain(
            "Section 5.2: block-frames",
            "Free with full compaction by block-frame size, incremental load: mean instructions. Frames here are \
             powers of two.",
            frames(found),
        ),
        plain(
            "Section 3.5: a dereference",
            "Instructions to read a byte of an object, including the function's return.",
            dereferences(found),
        ),
        plain("Sections 3.1 and 3.2: memory overhead", "", overhead(found)),
        plain("Section 6: initialising a heap", "Instructions, by the size of the heap.", initialisation(found)),
        plain("Section 6: the paper's further work", "What has become of it here.", further_work()),
        plain(
            "Section 3.4: proposition 1",
            "A free moves nothing while n_f < max_nr_nf_pages - 1. Frees of a pseudo-random history of one size class \
             to which this applies, and those that moved an object nevertheless. With 2 pages, also the history that \
             refutes it (errata).",
            promises(found),
        ),
    ];
    Ok(Chapter {
        id: "compact-fit",
        title: "Compact-fit (2008): a compacting real-time memory management system".into(),
        claims: found.claims.clone(),
        sections,
        notes: notes(found),
        errata: errata(),
    })
}

fn frames(found: &CompactFit) -> Tabled {
    let rows = found.frames.iter().map(|frame| {
        let name =
            frame.frame_bytes.map_or_else(|| "moving".into(), |bytes| format!("non-moving, frames of {bytes} B"));
        vec![name, frame.ours.as_ref().map_or_else(|_| "-".into(), |mean| format!("{mean:.1}"))]
    });
    Tabled::new(&["implementation", "mean"], 1, rows)
}

fn dereferences(found: &CompactFit) -> Tabled {
    let rows = found.dereference.iter().map(|row| {
        vec![
            row.through.clone(),
            row.published.map_or_else(|| "-".into(), |published| published.to_string()),
            row.ours.as_ref().map_or_else(|_| "-".into(), u64::to_string),
        ]
    });
    Tabled::new(&["through", "paper", "ours"], 1, rows)
}

fn overhead(found: &CompactFit) -> Tabled {
    let text = |value: f64, unit: &str| {
        if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.2} {unit}") }
    };
    let rows = found.overhead.iter().map(|row| {
        vec![
            row.what.clone(),
            text(row.published, &row.unit),
            row.ours.map_or_else(|| "-".into(), |ours| text(ours, &row.unit)),
        ]
    });
    Tabled::new(&["of the moving implementation", "paper", "ours"], 1, rows)
}

fn initialisation(found: &CompactFit) -> Tabled {
    let heaps: Vec<u64> = found
        .initialisation
        .iter()
        .find_map(|row| row.ours.as_ref().ok())
        .map(|counts| counts.iter().map(|(bytes, _)| *bytes).collect())
        .unwrap_or_default();
    let headings: Vec<String> =
        std::iter::once("allocator".to_string()).chain(heaps.iter().map(|bytes| number::bytes(*bytes))).collect();
    let rows = found.initialisation.iter().map(|row| {
        let counts: Vec<String> = match &row.ours {
            Ok(counts) => counts.iter().map(|(_, count)| number::grouped(*count)).collect(),
            Err(_) => vec!["-".into(); heaps.len()],
        };
        std::iter::once(row.subject.clone()).chain(counts).collect()
    });
    Tabled::new(&headings, 1, rows)
}

fn promises(found: &CompactFit) -> Tabled {
    let columns =
        ["not-full\npages", "frees with n_f\n< pages - 1", "\nthat move", "frees with n_f\n< pages - 2", "\nthat move"];
    let rows = found.promises.iter().flatten().map(|promise| {
        let (frees, moved) = promise.with_one_less;
        [promise.not_full_pages, promise.frees, promise.moved, frees, moved].map(number::grouped).to_vec()
    });
    Tabled::new(&columns, 0, rows)
}

/// The further work that the paper names, and where it is here.
fn further_work() -> Tabled {
    let rows = [
        ("objects larger than a page: arraylets", "handles::arraylet: an object in pieces, each of a page or less"),
        ("abstract addresses from pages, on demand", "compact_fit: entries are in pages that are taken when needed"),
        ("concurrency", "concurrent::compact_fit: an instance for each slot, objects that any thread pins"),
        ("program analysis for the bounds of partial compaction", "rtalloc tune: from a recording of the program"),
        ("allocatability analysis", "compact_fit::guarantee and rtalloc size: pages for limits of live objects"),
        ("translation of C programs to abstract pointers", "not done: handles are types of Rust, C and C++"),
    ];
    Tabled::new(&["the paper's", "here"], 2, rows.into_iter().map(|(theirs, here)| vec![theirs.into(), here.into()]))
}

const COLUMNS: [&str; 12] = [
    "\npaper",
    "\nours",
    "\nheap",
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

fn of_panel(panel: &Panel) -> Tabled {
    let frees = panel.series.iter().any(|series| series.ours.as_ref().is_ok_and(|ours| ours.moves.is_some()));
    let columns = if frees { &COLUMNS[..] } else { &COLUMNS[..COLUMNS.len() - 1] };
    let rows = panel.series.iter().map(|series| {
        let mut row = of_series(series);
        row.truncate(columns.len());
        row
    });
    Tabled::new(columns, 2, rows)
}

fn of_series(series: &Series) -> Vec<String> {
    let published =
        |value: fn((f64, f64)) -> f64| series.published.map_or_else(String::new, |both| format!("{:.2}", value(both)));
    let ours = |text: &dyn Fn(&Counts) -> String| series.ours.as_ref().map_or_else(|_| "-".into(), text);
    vec![
        series.published_as.clone(),
        series.subject.clone(),
        number::bytes(series.heap_bytes),
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

/// Selects a few of the sizes.
fn room(found: &CompactFit) -> Tabled {
    const SHOWN: [u64; 8] = [20, 60, 250, 1000, 2000, 4000, 8000, 16_000];
    let sizes = &found.fragmentation.sizes;
    let nearest = |wanted: u64| (0..sizes.len()).min_by_key(|at| sizes[*at].abs_diff(wanted)).unwrap_or(0);
    let shown = SHOWN.map(nearest);
    let mut headings = vec!["\nallocator".to_string(), "objects\nwhen full".into(), "\nbytes".into()];
    headings.extend(shown.map(|at| format!("more of\n{} B", number::grouped(sizes[at]))));
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
    Tabled::new(&headings, 1, rows)
}

fn notes(found: &CompactFit) -> Vec<String> {
    let mut notes = vec![
        "paper: instructions of a 32-bit machine, single-stepped. ours: executed x86-64 instructions.".into(),
        "Chosen here, since the paper does not specify them: the tasks of figure 7, found by a search by what the \
         paper reports of them (period, holding time, bytes, objects per job): (22, 131, 177-302, 17) (49, 329, \
         96-266, 24) (281, 5620, 200-713, 3) (155, 3100, 864-893, 17) (131, 2620, 918-949, 5); geometrically spaced \
         sizes in figure 8. CFNM frees as in listing 5, frame by frame; the library's returns all frames of an object \
         at once."
            .into(),
        "per byte: slope of the least-squares line in instructions per byte of the object; line explains: the share of \
         the variance that it accounts for. Both are over the operations that moved an object, if any did. moves: \
         frees that moved another object, detected by dereferencing all."
            .into(),
    ];
    for panel in &found.panels {
        for series in &panel.series {
            match &series.ours {
                Err(what) => notes.push(format!("{}, {}: {what}.", panel.figure, series.published_as)),
                Ok(counts) if counts.refused > 0 && panel.figure == "6a" => notes.push(format!(
                    "6a, {}: {} of the later requests are refused, because its gaps are divided.",
                    series.published_as,
                    number::grouped(counts.refused)
                )),
                Ok(_) => {}
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

/// Errors and omissions of the paper.
fn errata() -> Vec<String> {
    let paper = *COMPACT_FIT;
    let (pages, incremental, rate_monotonic) = (&paper.section_3_1, &paper.section_5_2, &paper.section_5_3);
    #[allow(clippy::cast_precision_loss)] // shown
    let share = pages.administration_bytes as f64 / (pages.page_kilobytes << 10) as f64 * 100.0;
    vec![
        format!(
            "Sections 5.2 and 5.3 give {} for CFM's malloc under the incremental load and {} under the rate-monotonic \
             one, although the loads have nothing in common: one figure is probably a copy of the other.",
            formatted(incremental.allocate),
            formatted(rate_monotonic.allocate)
        ),
        format!(
            "Section 3.1: {} B of a page of {} KB are said to be less than {} %. They are {share:.3} %.",
            pages.administration_bytes, pages.page_kilobytes, pages.administration_percent
        ),
        format!(
            "Section 5.3 has {} size classes. Equation 1 with f = 1/8 gives 53 from {} B up to a page of {} KB; the \
             paper does not say which of them are left out. Here the classes are the first 45, in multiples of 4 B, \
             and the page.",
            rate_monotonic.classes, pages.smallest_page_block_bytes, pages.page_kilobytes
        ),
        "Section 3.4: proposition 1 does not hold with the order of not-full pages that the same section prescribes \
         (more than half full to the end of the list, others to the front): a page that drops to half full moves to \
         the front, and the allocations that decrement n_f fill another page. Not-full pages are at most n_f + 2, not \
         n_f + 1; with one page less in the condition, the proposition holds."
            .into(),
        format!(
            "Section 1 has {} additional indirections for a dereference in the non-moving implementation; of the {} \
             additional instructions in section 3.5, {} is a dereference and {} are arithmetic and moves.",
            paper.section_1.non_moving_indirections,
            paper.section_3_5.non_moving_more[0],
            paper.section_3_5.non_moving_more[1],
            paper.section_3_5.non_moving_more[2]
        ),
        format!(
            "Section 5.2 finds the non-moving free faster from block-frames of {} B on. Offsets are divided by the \
             size of a frame (listing 6), so {} B, which is not a power of two, would need a division in each \
             dereference, which {} instructions can hardly contain; and the page-blocks of the paper's classes are not \
             multiples of it. Here frames are powers of two: 64 B and 128 B stand for it.",
            incremental.faster_frames_bytes, incremental.faster_frames_bytes, paper.section_3_5.non_moving
        ),
        "Not specified: periods, holding times, sizes and numbers of objects of the five tasks of figure 7, and its \
         number of operations; the heap of the other allocators in figures 6 and 7; the sizes of figure 8 between 20 \
         and 16,000 B; whether 7 MB are 7 or 7.34 million bytes; mean and deviation of any allocator but CFM."
            .into(),
        "Section 5.4: what figure 8 compares depends on how many objects each allocator held when its heap was full, \
         which differs by allocator and is not reported; freeing a fifth of a larger number leaves more room."
            .into(),
    ]
}

/// Figure 6 or 7.
fn operations(number: &str, panels: &[&Panel], cumulative: bool) -> Result<Option<Figure>, PlotError> {
    let Some(first) = panels.first() else { return Ok(None) };
    let names: Vec<(&str, &str)> =
        first.series.iter().map(|series| (series.published_as.as_str(), series.subject.as_str())).collect();
    let drawn: Vec<Drawn> = panels.iter().map(|panel| of_operations(panel, cumulative)).collect();
    let heading = format!("Figure {number}: instructions of every operation");
    let sentences = if cumulative {
        "Cumulative over the operations, as in the paper: a straight line is constant time. Dashed: the published mean \
         of CFM."
    } else {
        "The x axis has the operations in order, which is that of the objects' sizes. Points: each operation. Dashed: \
         the published mean of CFM."
    };
    let description = format!("Compact-fit 2008, figure {number}: instructions of every operation");
    Figure::of_curves(&format!("figure-{number}"), (&heading, sentences), &drawn, &names, &description)
}

/// Figure 8.
fn more(found: &CompactFit) -> Result<Option<Figure>, PlotError> {
    let rows = &found.fragmentation.rows;
    let names: Vec<(&str, &str)> = rows.iter().map(|row| (row.label.as_str(), row.subject.as_str())).collect();
    #[allow(clippy::cast_precision_loss)] // drawn
    let curve = |left: &crate::papers::compact_fit::result::Left| {
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
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    };
    let caption = (
        "Figure 8: objects that can be allocated after a fifth was freed",
        "If no object can be allocated, the curve is at the lower edge.",
    );
    Figure::of_curves(
        "figure-8",
        caption,
        &[drawn],
        &names,
        "Compact-fit 2008, figure 8: objects that can be allocated",
    )
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
    // The published mean: constant, or its sum.
    #[allow(clippy::cast_precision_loss)] // drawn
    let published = (0..).zip(&panel.series).filter_map(|(index, series)| {
        let (mean, _) = series.published?;
        let count = series.ours.as_ref().ok()?.operations.len() as f64;
        Some((index, vec![(1.0, mean), (count, if cumulative { count * mean } else { mean })]))
    });
    Drawn {
        title: format!("Figure {}, {}", panel.figure, panel.what),
        x: ("operations".into(), Spacing::Even),
        y: if cumulative {
            ("instructions of all operations so far".into(), Spacing::Even)
        } else {
            ("instructions".into(), Spacing::Logarithmic)
        },
        curves: curves.collect(),
        // Neighbours of figure 6 are different objects, some of whose frees move another and some not.
        stroke: if cumulative { Stroke::Marked } else { Stroke::Points },
        published: published.collect(),
        marks: Vec::new(),
    }
}
