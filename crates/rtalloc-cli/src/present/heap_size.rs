//! Heap sizes for the terminal: the exact smallest heaps of small worlds, and the heaps of a program within limits.

use super::code::{Wanted, code};
use super::table::{Look, lines, table};
use super::verdict::wrapped;
use comfy_table::{Cell, CellAlignment};
use rtalloc_lab::number;
use rtalloc_lab::result::heap_size::{
    ANY, Attack, Attacks, Exact, ExactCell, ExactRow, LimitFacts, MayBeLive, Size, Sizes,
};
use rtalloc_subjects::{Guarantee, Subject, one};
use std::fmt::Write as _;

/// The exact heaps of all worlds: a table for each allocator.
#[must_use]
pub fn exact(exact: &Exact, look: Look) -> String {
    let mut text = wrapped(
        "The exact smallest heap, in units, that refuses no program with at most M units live and requests of 1 to \
         n; a unit is the smallest block, its header included. >= where a heap has too many states: all smaller \
         heaps refuse some program.",
        look.columns,
        0,
    );
    text.push_str("\n\n");
    for row in &exact.rows {
        text.push_str(&of_row(row, exact, look));
        text.push('\n');
    }
    let states = number::grouped(exact.most_states as u64);
    let note = format!(
        "Breadth-first search of at most {states} states of each heap, with the allocator's own code (METHODOLOGY.md)."
    );
    text.push_str(&wrapped(&note, look.columns, 0));
    text.push('\n');
    text
}

fn of_row(row: &ExactRow, exact: &Exact, look: Look) -> String {
    let mut text = match row.subject.as_str() {
        ANY => format!("{ANY} that moves nothing: the game of two players\n"),
        name if row.page_bytes > 0 => format!("{name}: units of {} B, pages of {} B\n", row.unit_bytes, row.page_bytes),
        name => format!("{name}: units of {} B, {} of them header\n", row.unit_bytes, row.header_bytes),
    };
    if row.cells.is_empty() {
        text.push_str("no world has few enough states\n");
        return text;
    }
    let mut table = look.table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let most_m = row.cells.iter().map(|cell| cell.m).max().unwrap_or(0);
    let mut header = vec![right("M".into())];
    header.extend((2..=most_m).map(|m| right(m.to_string())));
    table.set_header(header);
    for n in 2..=exact.n {
        let of_world = |m: usize| row.cells.iter().find(|cell| cell.n == n && cell.m == m);
        if (2..=most_m).all(|m| of_world(m).is_none()) {
            continue;
        }
        let shown = |m: usize| right(of_world(m).map_or_else(String::new, |cell| units(row, cell)));
        let mut line = vec![right(format!("n = {n}"))];
        line.extend((2..=most_m).map(shown));
        table.add_row(line);
    }
    text.push_str(&lines(table, 1));
    if let Some(guarantee) = &row.guarantee {
        text.push_str(&wrapped(&held(row, guarantee), look.columns, 0));
        text.push('\n');
    }
    text
}

/// The heap of a world in units.
fn units(row: &ExactRow, cell: &ExactCell) -> String {
    let mut text = if cell.is_exact { String::new() } else { ">=".into() };
    let _ = write!(text, "{}", cell.block_bytes.div_ceil(row.unit_bytes));
    text
}

/// How the guarantee compares with the exact heaps: of the worlds that were decided, and with the refuted heaps of the
/// others.
fn held(row: &ExactRow, guarantee: &str) -> String {
    let promised = |cell: &ExactCell| cell.guaranteed_bytes.map(|bytes| bytes as f64 / cell.block_bytes as f64);
    let decided: Vec<f64> = row.cells.iter().filter(|cell| cell.is_exact).filter_map(promised).collect();
    let broken = row.cells.iter().filter_map(promised).filter(|ratio| *ratio < 1.0).count();
    let (least, most) =
        decided.iter().fold((f64::MAX, 0_f64), |(least, most), ratio| (least.min(*ratio), most.max(*ratio)));
    match (decided.len(), broken) {
        (_, 1..) => format!("guaranteed: {guarantee}; REFUTED in {broken} worlds"),
        (0, 0) => format!("guaranteed: {guarantee}; no world decided"),
        (worlds, 0) => format!(
            "guaranteed: {guarantee}; {least:.2} to {most:.2} times the exact heap in all {worlds} decided worlds"
        ),
    }
}

/// What the worst programs make every allocator need.
#[must_use]
pub fn attacks(attacks: &Attacks, look: Look) -> String {
    let Attacks { m, n, programs, .. } = attacks;
    let heading = format!(
        "The smallest heap that the worst programs leave, with at most M = {} live units and requests of 1 to {n}, \
         divided by M; a unit is the smallest block, its header included.",
        number::grouped(*m as u64)
    );
    let mut text = wrapped(&heading, look.columns, 0);
    text.push('\n');
    let (known, others): (Vec<&Attack>, Vec<&Attack>) = attacks.rows.iter().partition(|row| row.trouble.is_none());
    let row = |row: &&Attack| {
        let ratio = |bytes: Option<u64>| {
            bytes.map_or_else(
                || "-".into(),
                |bytes| format!("{:.2}", bytes as f64 / (row.unit_bytes * *m as u64) as f64),
            )
        };
        let gap = row.guaranteed_bytes.zip(row.worst());
        vec![
            row.subject.clone(),
            row.named.as_ref().map_or_else(|| "-".into(), |named| named.adversary.clone()),
            ratio(row.named.as_ref().map(|named| named.block_bytes)),
            ratio(row.found.as_ref().map(|found| found.block_bytes)),
            ratio(row.guaranteed_bytes),
            gap.map_or_else(|| "-".into(), |(guaranteed, worst)| format!("{:.2}", guaranteed as f64 / worst as f64)),
        ]
    };
    let headings = ["\nallocator", "\nadversary", "named\n/ M", "found\n/ M", "guaranteed\n/ M", "guaranteed\n/ worst"];
    text.push_str(&table(&headings, 2, known.iter().map(row), look));
    let mut notes = vec![format!(
        "named: the worst of nine adversaries. found: the worst of a beam search and of {} programs of an evolution, \
         against the allocator's own code; the same on every machine. guaranteed: docs/guarantees/.",
        number::grouped(*programs as u64)
    )];
    notes.extend(left_out(others.iter().map(|row| (&row.subject, &row.trouble))));
    for note in notes {
        text.push_str(&wrapped(&note, look.columns, 0));
        text.push('\n');
    }
    text
}

/// The heaps of a program within limits: a row for each allocator, and the lines to paste.
#[must_use]
pub fn sizes(sizes: &Sizes, look: Look) -> String {
    let limits: Vec<String> = sizes.limits.iter().map(stated).collect();
    let mut text = wrapped(&format!("Live at the same time, at most: {}.", limits.join(", ")), look.columns, 0);
    text.push('\n');
    let has_recording = sizes.rows.iter().any(|row| row.measured_bytes.is_some());
    let mut table = look.table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut header = vec![Cell::new("\nallocator"), Cell::new("\ncost")];
    if has_recording {
        header.push(right("recording\nB".into()));
    }
    header.extend(["forced\nB", "guaranteed\nB"].map(|text| right(text.into())));
    header.push(Cell::new("\ntheorem"));
    header.extend(["allocate\ninstr", "free\ninstr"].map(|text| right(text.into())));
    table.set_header(header);
    let number = |value: Option<u64>| right(value.map_or_else(|| "-".into(), number::grouped));
    let (served, others): (Vec<&Size>, Vec<&Size>) = sizes.rows.iter().partition(|row| row.trouble.is_none());
    for row in &served {
        let mut line = vec![Cell::new(&row.subject), Cell::new(&row.cost)];
        if has_recording {
            line.push(number(row.measured_bytes));
        }
        line.push(number(row.forced.as_ref().map(|forced| forced.region_bytes)));
        line.push(number(row.guaranteed_bytes));
        line.push(Cell::new(stated_theorem(
            &row.subject,
            row.theorem.as_deref(),
            row.guaranteed_bytes,
            "not for these sizes",
        )));
        line.extend([number(row.allocate_bound), number(row.deallocate_bound)]);
        table.add_row(line);
    }
    text.push_str(&lines(table, 1));
    let mut notes = vec![
        "All sizes are those of a region, control structure included, wherever it starts. forced: a lower bound; a \
         program within the limits is refused in a region 16 bytes smaller, at the start of a page, or no heap fits \
         there. guaranteed: an upper bound; in this region, or any larger one up to its largest heap, no request \
         within the limits is refused, whatever their order (docs/guarantees/). The true need is between the two. \
         Blocks must not be resized: allocate, copy and free instead."
            .to_string(),
        "For 64-bit targets. On 32-bit ones the smallest block has 8 bytes, not 16, and the region can be larger: \
         use the constant expression in Rust."
            .into(),
        "instr: static bounds in x86-64 instructions, in a heap of 16 MiB where they depend on its size. -: no \
         constant; or, of sizes, none found."
            .into(),
    ];
    if has_recording {
        let recording = "recording: a region that serves this recording, found to 1/256 of its live memory; another \
                         run may need more.";
        notes.push(recording.into());
    }
    notes.extend(left_out(others.iter().map(|row| (&row.subject, &row.trouble))));
    for note in notes {
        text.push_str(&wrapped(&note, look.columns, 0));
        text.push('\n');
    }
    let guaranteed = served.iter().find_map(|row| Some((row, row.guaranteed_bytes?)));
    if let Some((row, region_bytes)) = guaranteed {
        let wanted = Wanted {
            subject: &row.subject,
            region_bytes,
            pools: &row.pools,
            limits: &sizes.limits,
            is_given: false,
            slots: 1,
        };
        if let Some(code) = code(wanted) {
            text.push_str(&format!("\n{}\n\n{}", row.subject, code.text()));
        }
    }
    text
}

/// The theorem behind a figure, and whether it is cited without its proof; `without` if it gives none.
fn stated_theorem(subject: &str, theorem: Option<&str>, figure: Option<u64>, without: &str) -> String {
    let is_cited = || one(subject).is_ok_and(|subject| subject.about.guarantee == Some(Guarantee::FirstFit));
    match (theorem, figure) {
        (Some(theorem), Some(_)) if is_cited() => format!("{theorem} (cited)"),
        (Some(theorem), Some(_)) => theorem.into(),
        (Some(_), None) => without.into(),
        (None, _) => "no guarantee known".into(),
    }
}

/// The allocators without figures, and why.
fn left_out<'a>(rows: impl Iterator<Item = (&'a String, &'a Option<String>)>) -> Option<String> {
    let row =
        |(name, trouble): (&String, &Option<String>)| format!("{name}: {}", trouble.as_deref().unwrap_or("no figures"));
    let rows: Vec<String> = rows.map(row).collect();
    (!rows.is_empty()).then(|| format!("Left out: {}.", rows.join("; ")))
}

/// A limit in words.
pub(super) fn stated(limit: &LimitFacts) -> String {
    let amount = match (limit.objects, limit.live_bytes) {
        (Some(objects), _) => number::grouped(objects as u64),
        (None, bytes) => format!("{} B in requests", number::grouped(bytes.unwrap_or(0) as u64)),
    };
    match (limit.smallest_bytes, limit.largest_bytes) {
        (1, largest) => format!("{amount} of up to {largest} B"),
        (smallest, largest) if smallest == largest => format!("{amount} of {largest} B"),
        (smallest, largest) => format!("{amount} of {smallest} to {largest} B"),
    }
}

/// What may be live in a region.
#[must_use]
pub fn may_be_live(may: &MayBeLive, look: Look) -> String {
    let MayBeLive { heap_bytes, smallest_bytes, largest_bytes, rows } = may;
    let heading = format!(
        "Region of {} B, requests of {smallest_bytes} to {largest_bytes} B: the most requested bytes that may be \
         live at the same time if no request is ever to be refused. Blocks must not be resized: allocate, copy and \
         free instead.",
        number::grouped(*heap_bytes)
    );
    let mut text = wrapped(&heading, look.columns, 0);
    text.push('\n');
    let mut table = look.table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    table.set_header(vec![
        Cell::new("allocator"),
        right("live B".into()),
        right("% of region".into()),
        Cell::new("theorem"),
    ]);
    for row in rows {
        let largest = one(&row.subject).map_or(u64::MAX, Subject::largest_heap_bytes);
        let without = if largest < *heap_bytes {
            format!("its heaps have at most {} B", number::grouped(largest))
        } else {
            "not for these sizes in this region".into()
        };
        let theorem = stated_theorem(&row.subject, row.theorem.as_deref(), row.live_bytes, &without);
        let share = row.live_bytes.map(|live| format!("{:.1}", 100.0 * live as f64 / *heap_bytes as f64));
        table.add_row(vec![
            Cell::new(&row.subject),
            right(row.live_bytes.map_or_else(|| "-".into(), number::grouped)),
            right(share.unwrap_or_else(|| "-".into())),
            Cell::new(theorem),
        ]);
    }
    text.push_str(&lines(table, 1));
    for row in rows.iter().filter(|row| !row.pools.is_empty()) {
        let sizes: Vec<String> = row.pools.iter().copied().map(number::grouped).collect();
        text.push_str(&wrapped(&format!("{}: of {} B.", row.subject, sizes.join("; ")), look.columns, 0));
        text.push('\n');
    }
    text
}
