//! Puaut's tables and figures, published and ours side by side.

mod errata;
mod figures;

use crate::papers::chapter::{Chapter, Section};
use crate::papers::puaut::result::{Load, Ours, Puaut, Row, charges, published_charges, published_gap, share};
use crate::papers::published::PUAUT;
use crate::present::page::Tabled;
use crate::present::plot::PlotError;
use rtalloc_lab::number;
use rtalloc_lab::result::costs::Class;
use rtalloc_lab::result::schema::Distribution;

/// The paper's chapter.
///
/// # Errors
///
/// See [`PlotError`].
pub fn chapter(found: &Puaut) -> Result<Chapter, PlotError> {
    let heap = number::bytes(found.heap_bytes);
    let section = |title: &str, about: String, table: Tabled, figures| Section {
        title: title.into(),
        about,
        tables: vec![(String::new(), table)],
        figures,
    };
    let sections = vec![
        section(
            "Table 1: the allocators",
            "Blocks in bytes. The list of free blocks is longest where smallest blocks are alternately free and live."
                .into(),
            allocators(found),
            Vec::new(),
        ),
        section(
            "Table 2 and figure 1: malloc",
            format!(
                "Worst: the observed maximum. Scenario: the worst case that the paper describes, in a heap of {heap}; \
                 the paper calls it analytical. Ratio: our instructions per cycle of the paper."
            ),
            allocations(found),
            figures::costs(found)?.into_iter().collect(),
        ),
        section(
            "Figure 2: worst malloc as a multiple of the mean",
            String::new(),
            ratios(found),
            figures::ratios(found)?.into_iter().collect(),
        ),
        section(
            "Figure 3: share of a program's time spent in malloc, by the cost assumed for each malloc",
            gaps(found),
            shares(found),
            figures::shares(found)?.into_iter().collect(),
        ),
        section(
            "Table 3: free",
            "As table 2. The paper has no mean of free; ours is in the table of the three numbers.".into(),
            frees(found),
            Vec::new(),
        ),
        section(
            "Mean, maxima and bound",
            "Ours, in instructions: the mean of the MEAN model, the observed maximum of both loads, the scenario \
             maximum, and the static bound in a heap of 16 MiB, which the paper does not have. Class: cost class of \
             all worst-case recipes over the heaps of figure 4."
                .into(),
            numbers(found),
            Vec::new(),
        ),
        section(
            "Figure 4: the worst malloc by heap size",
            "The paper draws expected curves; these are counted. At each size the costliest recipe for the allocator \
             is shown."
                .into(),
            growth(found),
            figures::growth(found)?.into_iter().collect(),
        ),
    ];
    Ok(Chapter {
        id: "puaut",
        title: "Puaut (2002): real-time performance of dynamic memory allocation algorithms".into(),
        claims: found.claims.clone(),
        sections,
        notes: notes(found),
        errata: errata::errata(),
    })
}

const MISSING: &str = "-";

fn allocators(found: &Puaut) -> Tabled {
    let columns = [
        "\npaper",
        "\nours",
        "least block\npaper",
        "\nours",
        "threshold\npaper",
        "\nours",
        "longest list\npaper",
        "\nours",
    ];
    let rows = found.rows.iter().map(|row| {
        let blocks = PUAUT.table_1.rows[&row.published_as];
        let ours = rtalloc_subjects::one(&row.subject).ok().and_then(|subject| subject.view);
        let threshold = ours.map(|view| view.contract.splitting_threshold_bytes);
        let ours = ours.map(|view| view.contract.min_block_bytes as u64);
        let longest = |least: u64| number::grouped(found.heap_bytes / (2 * least));
        vec![
            row.published_as.clone(),
            row.subject.clone(),
            blocks.minimum_bytes.to_string(),
            ours.map_or_else(|| MISSING.into(), |bytes| bytes.to_string()),
            blocks.threshold_bytes.map_or_else(String::new, |bytes| bytes.to_string()),
            threshold.filter(|_| blocks.threshold_bytes.is_some()).map_or_else(String::new, |bytes| bytes.to_string()),
            longest(blocks.minimum_bytes),
            ours.map_or_else(|| MISSING.into(), longest),
        ]
    });
    Tabled::new(&columns, 2, rows)
}

/// Rows of three lines: published, ours, and their ratio.
fn compared<const N: usize>(
    found: &Puaut,
    headings: [&str; N],
    published: impl Fn(&Row) -> [f64; N],
    ours: impl Fn(&Ours) -> [f64; N],
) -> Tabled {
    let columns: Vec<&str> = ["\nallocator", "\n"].into_iter().chain(headings).collect();
    let rows = found.rows.iter().flat_map(|row| {
        let theirs = published(row);
        let own = row.ours.as_ref().ok().map(&ours);
        let line = |name: &str, of: &str, values: Option<[f64; N]>, text: &dyn Fn(f64) -> String| {
            let cells = (0..N).map(|at| values.map_or_else(|| MISSING.into(), |values| text(values[at])));
            [name.to_string(), of.to_string()].into_iter().chain(cells).collect::<Vec<String>>()
        };
        let ratios = own.map(|own| std::array::from_fn(|at| own[at] / theirs[at]));
        [
            line(&row.subject, "paper, cycles", Some(theirs), &whole),
            line("", "ours, instructions", own, &whole),
            line("", "ratio", ratios, &ratio),
        ]
    });
    Tabled::new(&columns, 2, rows)
}

fn allocations(found: &Puaut) -> Tabled {
    let headings = ["decoder\nworst", "\nmean", "MEAN model\nworst", "\nmean", "\nscenario"];
    let published = |row: &Row| {
        let [decoder, model] = Load::ALL.map(|load| published_charges(&row.allocate, load));
        [decoder[1], decoder[0], model[1], model[0], model[2]]
    };
    let ours = |ours: &Ours| {
        let [decoder, model] = Load::ALL.map(|load| charges(ours, load));
        [decoder[1], decoder[0], model[1], model[0], model[2]]
    };
    compared(found, headings, published, ours)
}

#[allow(clippy::cast_precision_loss)] // shown
fn frees(found: &Puaut) -> Tabled {
    let headings = ["decoder\nworst", "MEAN model\nworst", "\nscenario"];
    let published =
        |row: &Row| [row.free.decoder_worst, row.free.model_worst, row.free.scenario].map(|count| count as f64);
    let ours = |ours: &Ours| [ours.decoder.free.max, ours.model.free.max, ours.scenario.free].map(|count| count as f64);
    compared(found, headings, published, ours)
}

/// Published figure and ours for both loads, observed and scenario.
fn of_loads(found: &Puaut, figure: impl Fn(&Puaut, [f64; 3], Load, bool) -> [String; 2]) -> Vec<Vec<String>> {
    let rows = found.rows.iter().map(|row| {
        let cells = Load::ALL.into_iter().flat_map(|load| {
            let published = figure(found, published_charges(&row.allocate, load), load, true);
            let missing = || [MISSING.to_string(), MISSING.to_string()];
            let own =
                row.ours.as_ref().map_or_else(|_| missing(), |ours| figure(found, charges(ours, load), load, false));
            published.into_iter().zip(own).flat_map(|(published, own)| [published, own])
        });
        std::iter::once(row.subject.clone()).chain(cells).collect()
    });
    rows.collect()
}

fn ratios(found: &Puaut) -> Tabled {
    let columns = [
        "\n\nallocator",
        "decoder\nobserved\npaper",
        "\n\nours",
        "\nscenario\npaper",
        "\n\nours",
        "MEAN model\nobserved\npaper",
        "\n\nours",
        "\nscenario\npaper",
        "\n\nours",
    ];
    let rows = of_loads(found, |_, [mean, worst, scenario], _, _| [ratio(worst / mean), ratio(scenario / mean)]);
    Tabled::new(&columns, 1, rows.into_iter())
}

/// Time shares in per cent for each cost that a malloc may be charged.
fn of_gap(found: &Puaut, charges: [f64; 3], load: Load, published: bool) -> [f64; 3] {
    let gap = if published { published_gap(load) } else { found.gap(load) };
    charges.map(|charge| 100.0 * share(charge, gap))
}

fn shares(found: &Puaut) -> Tabled {
    let columns =
        ["\nallocator", "\n", "decoder\nmean", "\nworst", "\nscenario", "MEAN model\nmean", "\nworst", "\nscenario"];
    let rows = found.rows.iter().flat_map(|row| {
        let line = |name: &str, of: &str, values: Option<Vec<f64>>| {
            let cells: Vec<String> = values.map_or_else(
                || vec![MISSING.into(); 6],
                |values| values.into_iter().map(|share| format!("{share:.2}")).collect(),
            );
            [name.to_string(), of.to_string()].into_iter().chain(cells).collect::<Vec<String>>()
        };
        let published =
            Load::ALL.into_iter().flat_map(|load| of_gap(found, published_charges(&row.allocate, load), load, true));
        let own = row.ours.as_ref().ok().map(|ours| {
            Load::ALL.into_iter().flat_map(|load| of_gap(found, charges(ours, load), load, false)).collect()
        });
        [line(&row.subject, "paper, %", Some(published.collect())), line("", "ours, %", own)]
    });
    Tabled::new(&columns, 2, rows)
}

fn gaps(found: &Puaut) -> String {
    let [decoder, model] = Load::ALL.map(|load| whole(published_gap(load)));
    let recorded = found.decoder_gap_ns.map_or_else(
        || "the paper's 0.8 ms, since the trace has no times".to_string(),
        |gap| format!("{} ns, as recorded", whole(gap)),
    );
    format!(
        "Share = c / (g + c), where c is the assumed cost of a malloc and g the time that the program computes between \
         two mallocs. Paper: g is {decoder} cycles for the decoder (0.8 ms at 90 MHz) and {model} cycles for the MEAN \
         model. Ours: {recorded}, counted as one instruction each, for the decoder; {} \
         instructions for the model, with which the mean mallocs of the seven take the same share as in the paper.",
        whole(found.gap(Load::Model))
    )
}

const NUMBERS: [&str; 11] = [
    "\nallocator",
    "malloc\nmean",
    "\nobserved",
    "\nscenario",
    "\nbound",
    "\nclass",
    "free\nmean",
    "\nobserved",
    "\nscenario",
    "\nbound",
    "\nclass",
];

fn numbers(found: &Puaut) -> Tabled {
    let rows = found.rows.iter().map(|row| {
        let class = row.class();
        let of = |mean: &Distribution, observed: u64, scenario: u64, bound: Option<u64>, class: Option<Class>| {
            [
                format!("{:.1}", mean.mean),
                number::grouped(observed),
                number::grouped(scenario),
                bound.map_or_else(|| MISSING.into(), number::grouped),
                class.map_or(MISSING, Class::notation).into(),
            ]
        };
        let cells: Vec<String> = match &row.ours {
            Ok(ours) => {
                let (model, observed, scenario, bound) = (&ours.model, ours.observed(), ours.scenario, ours.bound);
                let malloc = of(&model.malloc, observed.malloc, scenario.malloc, bound.malloc, class.malloc);
                let free = of(&model.free, observed.free, scenario.free, bound.free, class.free);
                malloc.into_iter().chain(free).collect()
            }
            Err(_) => vec![MISSING.into(); NUMBERS.len() - 1],
        };
        std::iter::once(row.subject.clone()).chain(cells).collect()
    });
    Tabled::new(&NUMBERS, 1, rows)
}

fn growth(found: &Puaut) -> Tabled {
    let mut heaps: Vec<u64> =
        found.rows.iter().flat_map(|row| row.growth().iter().map(|point| point.heap_bytes)).collect();
    heaps.sort_unstable();
    heaps.dedup();
    // Every second one, in decreasing order; the figure shows the others.
    let shown: Vec<u64> = heaps.into_iter().rev().step_by(2).collect::<Vec<_>>().into_iter().rev().collect();
    let columns: Vec<String> =
        std::iter::once("allocator".to_string()).chain(shown.iter().map(|heap| number::bytes(*heap))).collect();
    let rows = found.rows.iter().map(|row| {
        let at = |heap: &u64| row.growth().iter().find(|point| point.heap_bytes == *heap);
        let cell = |heap| at(heap).map_or_else(|| MISSING.into(), |point| number::grouped(point.instructions));
        std::iter::once(row.subject.clone()).chain(shown.iter().map(cell)).collect()
    });
    Tabled::new(&columns, 1, rows)
}

fn whole(value: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts
    let value = value.round() as u64;
    number::grouped(value)
}

/// Three digits suffice for a ratio.
fn ratio(value: f64) -> String {
    match value {
        value if !value.is_finite() => MISSING.into(),
        value if value >= 999.5 => whole(value),
        value if value >= 9.95 => format!("{value:.1}"),
        value if value >= 0.01 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

fn notes(found: &Puaut) -> Vec<String> {
    let mut notes = vec![
        "paper: cycles of a Pentium 90 with caches, branch prediction and superscalar execution disabled. ours: \
         executed instructions. Decoder: mpg123 there; lame --decode here, which also allocates for every frame; all \
         operations of 30 s of audio are replayed, including those at program start. MEAN model: 100,000 mallocs; the \
         paper does not give their number."
            .into(),
        "bound: static, in a heap of 16 MiB; -: a search; `rtalloc bound` prints its cost per free block.".into(),
        "Inserting into fast-fit's tree walks it, so building the worst tree takes quadratic time. Its recipe \
         therefore has fewer free blocks than the heap could hold, increasingly so in larger heaps: its curve in \
         figure 4 is below its worst case, which is linear in the heap, as in the smallest heaps. The tree by size has \
         one node per size, so its worst case is linear in the number of different sizes, which grows with the square \
         root of the heap."
            .into(),
    ];
    for row in &found.rows {
        if let Err(what) = &row.ours {
            notes.push(format!("{}: {what}.", row.subject));
        }
        notes.extend(row.growth.troubles.iter().map(|trouble| format!("{}, figure 4: {trouble}.", row.subject)));
    }
    notes
}
