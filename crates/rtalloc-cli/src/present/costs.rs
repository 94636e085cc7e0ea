//! Cost classes for the terminal, and as a separate figure.

use super::palette;
use super::plot::{self, PlotError, Selection};
use super::summary::Standing;
use super::table::{Look, lines};
use super::verdict::wrapped;
use comfy_table::{Attribute, Cell, CellAlignment, Color};
use rtalloc_lab::number;
use rtalloc_lab::result::costs::{Class, Costs, Finding, Fit, OperationCosts, Point};

/// The table of cost classes and its notes.
#[must_use]
pub fn table(costs: &Costs, look: Look) -> String {
    // Of the intermediate sizes, the smallest is dropped first.
    let mut heaps = costs.heap_bytes.clone();
    let mut text = loop {
        let text = of_heaps(costs, &heaps, look);
        let width = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if width <= look.columns || heaps.len() <= 2 {
            break text;
        }
        heaps.remove(1);
    };
    let left_out: Vec<String> =
        costs.heap_bytes.iter().filter(|bytes| !heaps.contains(bytes)).map(|bytes| heap(*bytes)).collect();
    for note in notes(costs, &left_out) {
        text.push_str(&wrapped(&note, look.columns, 0));
        text.push('\n');
    }
    text
}

/// The table with columns for only these heap sizes.
fn of_heaps(costs: &Costs, heaps: &[u64], look: Look) -> String {
    let mut table = look.table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut header = ["\nallocator", "\noperation", "\nstated", "\nfound"].map(Cell::new).to_vec();
    header.extend(heaps.iter().map(|bytes| right(format!("heap of\n{}", heap(*bytes)))));
    header.push(right("n in the\nlargest".into()));
    table.set_header(header);
    for subject in &costs.subjects {
        for (position, operation) in subject.operations.iter().enumerate() {
            let name = if position == 0 { subject.subject.name.as_str() } else { "" };
            let mut found = Cell::new(formatted(operation));
            if !matches!(operation.finding, Finding::AsStated(_)) {
                found = found.fg(Color::Yellow).add_attribute(Attribute::Bold);
            }
            let stated = Cell::new(operation.stated.notation());
            let mut row = vec![Cell::new(name), Cell::new(&operation.operation), stated, found];
            let shown = |bytes: u64, figure: fn(&Point) -> u64| {
                let point = operation.points.iter().find(|point| point.heap_bytes == bytes);
                right(point.map_or_else(|| "-".into(), |point| number::grouped(figure(point))))
            };
            row.extend(heaps.iter().map(|bytes| shown(*bytes, |point| point.instructions)));
            row.extend(heaps.last().map(|bytes| shown(*bytes, |point| point.free_blocks)));
            table.add_row(row);
        }
    }
    lines(table, 1)
}

/// The result, in a column's width.
fn formatted(operation: &OperationCosts) -> String {
    match &operation.finding {
        Finding::AsStated(fit) => formula(fit),
        Finding::Better(fit) => format!("better: {}", formula(fit)),
        Finding::Worse(fit) => format!("WORSE: {}", formula(fit)),
        Finding::Unfit => "NO CLASS".into(),
        Finding::TooFew => "too few sizes".into(),
    }
}

/// `33 + 4 n`.
fn formula(fit: &Fit) -> String {
    let variable = match fit.class {
        Class::Constant => return format!("at most {:.0}", fit.base),
        Class::Logarithmic => "log2 H",
        Class::LinearInFreeBlocks => "n",
        Class::LinearInRegion => {
            // Per page of memory: the slope per byte would be unreadably small.
            return sum(fit.base, fit.step * 4096.0, "H/4K");
        }
    };
    sum(fit.base, fit.step, variable)
}

/// A line with positive slope; a negative intercept comes last.
fn sum(base: f64, step: f64, variable: &str) -> String {
    if base < -0.5 {
        format!("{step:.2} {variable} - {:.0}", -base)
    } else {
        format!("{:.0} + {step:.2} {variable}", base.abs())
    }
}

fn notes(costs: &Costs, left_out: &[String]) -> Vec<String> {
    let mut notes = vec![
        "Executed x86-64 instructions of one call, the costliest of the allocator's worst-case recipes in a heap of that \
         size (`rtalloc generate worst:ALLOCATOR` writes them). Counted exactly."
            .into(),
        "stated: by the allocator's contract; n is the number of free blocks before the operation, H the size of the \
         heap. found: the lowest class whose curve is within a tenth of every point (METHODOLOGY.md)."
            .into(),
    ];
    for subject in &costs.subjects {
        for operation in &subject.operations {
            let mut recipes: Vec<&str> = operation.points.iter().map(|point| point.recipe.as_str()).collect();
            recipes.dedup();
            let disagrees = !matches!(operation.finding, Finding::AsStated(_));
            if disagrees && !recipes.is_empty() {
                let name = &subject.subject.name;
                notes.push(format!("{name} {}: costliest recipe: {}.", operation.operation, recipes.join("; ")));
            }
        }
        notes.extend(subject.troubles.iter().map(|trouble| format!("{}: {trouble}.", subject.subject.name)));
    }
    if !left_out.is_empty() {
        notes.push(format!("Omitted because the terminal is too narrow: heap of {}.", left_out.join(", ")));
    }
    notes.push(format!("Measured in {:.0} s.", costs.seconds));
    notes
}

/// `64 KiB`, without decimals.
fn heap(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
}

/// The figure as a separate file; `None` if nothing was measured.
///
/// # Errors
///
/// See [`PlotError`].
pub fn svg(costs: &Costs) -> Result<Option<String>, PlotError> {
    let standings: Vec<Standing> = costs.subjects.iter().map(|costs| Standing::of(costs.subject.clone())).collect();
    let styles = palette::of(&standings);
    let Some(figure) = plot::costs(costs, Selection { standings: &standings, styles: &styles })? else {
        return Ok(None);
    };
    Ok(Some(plot::standalone(&figure, &styles)))
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use rtalloc_lab::result::costs::SubjectCosts;

    fn costs() -> Costs {
        let heap_bytes = vec![64 << 10, 1 << 20, 16 << 20];
        let operation = |stated, finding, count: fn(u64) -> u64| OperationCosts {
            operation: "allocate".into(),
            stated,
            points: heap_bytes
                .iter()
                .map(|heap| Point {
                    heap_bytes: *heap,
                    free_blocks: *heap / 32,
                    instructions: count(*heap),
                    recipe: "alternating".into(),
                })
                .collect(),
            finding,
        };
        let fit = |class, base, step| Fit { class, base, step, residual: 0.0 };
        let linear = fit(Class::LinearInFreeBlocks, 33.0, 4.0);
        let subjects = [
            ("tlsf", operation(Class::Constant, Finding::AsStated(fit(Class::Constant, 88.0, 0.0)), |_| 88)),
            ("first-fit", operation(Class::LinearInFreeBlocks, Finding::AsStated(linear), |heap| 33 + heap / 8)),
            ("best-fit", operation(Class::Constant, Finding::Worse(linear), |heap| 30 + heap / 8)),
        ];
        let subjects = subjects.map(|(name, operation)| {
            let profile = fixture::SELECTION.iter().find(|profile| profile.0 == name).expect("in the selection");
            let subject = fixture::cell(profile, 1 << 20).subject;
            SubjectCosts { subject, operations: vec![operation], troubles: Vec::new() }
        });
        Costs { heap_bytes, subjects: subjects.into(), seconds: 1.0 }
    }

    #[test]
    fn the_table_says_what_was_stated_and_what_was_found() {
        let text = table(&costs(), Look { columns: 120, colour: false });
        for line in
            ["at most 88", "33 + 4.00 n", "WORSE: 33 + 4.00 n", "best-fit allocate: costliest recipe: alternating"]
        {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(
            !text.contains("first-fit allocate:") && text.contains("16 MiB") && text.contains("2,097,185"),
            "{text}"
        );
    }

    #[test]
    fn no_formula_begins_with_less_than_nothing() {
        let formula = |base, step| super::formula(&Fit { class: Class::LinearInFreeBlocks, base, step, residual: 0.0 });
        assert_eq!(formula(-44.4, 3.25), "3.25 n - 44");
        assert_eq!(formula(-0.2, 3.25), "0 + 3.25 n");
        assert_eq!(formula(33.0, 4.0), "33 + 4.00 n");
    }

    #[test]
    fn sizes_in_between_leave_a_narrow_table() {
        let narrow = table(&costs(), Look { columns: 70, colour: false });
        assert!(narrow.contains("Omitted because the terminal is too narrow: heap of 1 MiB."), "{narrow}");
        assert!(!table(&costs(), Look { columns: 120, colour: false }).contains("Omitted because"));
        assert!(narrow.contains("524,288"), "n in the largest heap: {narrow}");
    }

    #[test]
    fn the_figure_stands_alone() {
        let svg = svg(&costs()).expect("drawn").expect("points");
        assert!(svg.starts_with("<svg xmlns=") && svg.contains("<style>") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 3, "a curve each");
        assert!(["tlsf", "first-fit", "64 KiB", "allocate: instructions"].iter().all(|text| svg.contains(text)));
        assert_eq!(super::svg(&Costs::default()).expect("drawn"), None);
    }
}
