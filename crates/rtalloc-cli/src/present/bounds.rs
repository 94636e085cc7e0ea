//! Bounds for the terminal: the table of a study, and paths with source lines.

use super::table::{Look, lines};
use super::verdict::wrapped;
use comfy_table::{Attribute, Cell, CellAlignment};
use pathbound::Assumption;
use rtalloc_lab::number;
use rtalloc_lab::result::bounds::{
    Answer, Bounded, Explored, OperationBounds, PathStep, Reached, SizeClasses, Study, SubjectBounds, Term,
};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The table of a study and its notes, with the obstacle to each missing bound if `reasons` is set.
#[must_use]
pub fn table(study: &Study, reasons: bool, look: Look) -> String {
    let observed = !study.observed_in.is_empty();
    let mut table = look.table();
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    let names = if study.of_file { ["\nfile", "\nfunction"] } else { ["\nallocator", "\noperation"] };
    let mut header = vec![Cell::new(names[0]), Cell::new(names[1]), right("shortest\npath")];
    if observed {
        header.extend([right("scenario\nmaximum"), right("observed\nmaximum")]);
    }
    header.push(right("static\nbound"));
    if study.core.as_ref().is_some_and(|core| core.mhz.is_some()) {
        header.push(right("static\nbound, us"));
    }
    if observed {
        header.push(right("\ngap"));
    }
    let declined = operations(study).any(|(_, operation)| matches!(operation.answer, Answer::Declined { .. }));
    if declined {
        header.push(Cell::new("\nno bound because of"));
    }
    table.set_header(header);
    for subject in &study.subjects {
        for (position, operation) in subject.operations.iter().enumerate() {
            table.add_row(row(study, subject, operation, position == 0));
        }
    }
    let mut text = lines(table, 2);
    for note in notes(study, reasons) {
        // Lists have one line per item.
        for (number, line) in note.split('\n').enumerate() {
            text.push_str(&wrapped(line, look.columns, if number == 0 { 0 } else { 2 }));
            text.push('\n');
        }
    }
    for subject in &study.classes {
        let measured = if subject.heap_bytes.is_empty() { "" } else { ", and the most measured" };
        let _ = writeln!(text, "\n{} by size class: static bounds{measured}", subject.subject);
        text.push_str(&by_class(subject, look));
        if let Some(read) = subject.read_instructions {
            let _ = writeln!(
                text,
                "To read a byte of an object through its handle: {read} instructions; through a pointer 2."
            );
        }
        if !subject.heap_bytes.is_empty() {
            let heaps: Vec<String> = subject.heap_bytes.iter().map(|bytes| number::bytes(*bytes)).collect();
            let note = format!(
                "measured in heaps of {}, fresh and used: one number if all are equal. -: did not occur, or no \
                 bound. An object of a page with one page-block is never moved. The two kinds of free are not \
                 distinguished if objects consist of pieces, because no move is visible.",
                heaps.join(" and ")
            );
            let _ = writeln!(text, "{}", wrapped(&note, look.columns, 0));
        }
    }
    text
}

fn by_class(subject: &SizeClasses, look: Look) -> String {
    let measured = !subject.heap_bytes.is_empty();
    let mut headings = vec!["\n\nclass", "\n\nblock"];
    for heading in ["allocate\n\nbound", "free\nnothing moves\nbound", "free\nan object moves\nbound"] {
        headings.push(heading);
        if measured {
            headings.push("\n\nmost");
        }
    }
    let formatted = |value: Option<u64>| value.map_or_else(|| "-".into(), number::grouped);
    let most = |counts: &[Option<u64>]| {
        if counts.windows(2).all(|pair| pair[0] == pair[1]) {
            formatted(counts.first().copied().flatten())
        } else {
            counts.iter().map(|count| formatted(*count)).collect::<Vec<_>>().join(", ")
        }
    };
    let rows = subject.classes.iter().map(|class| {
        let mut row = vec![class.number.to_string(), number::grouped(class.block_bytes)];
        for operation in [&class.allocate, &class.free, &class.free_moving] {
            row.push(formatted(operation.bound));
            if measured {
                row.push(most(&operation.most));
            }
        }
        row
    });
    super::table::table(&headings, 0, rows, look)
}

fn row(study: &Study, subject: &SubjectBounds, operation: &OperationBounds, first: bool) -> Vec<Cell> {
    let observed = !study.observed_in.is_empty();
    let number = |value: Option<u64>| {
        Cell::new(value.map_or_else(|| "-".into(), number::grouped)).set_alignment(CellAlignment::Right)
    };
    let seen = operation.observed.as_ref().map(|seen| seen.instructions);
    let scenario = operation.scenario.as_ref().map(|seen| seen.instructions);
    let bounded = match &operation.answer {
        Answer::Bounded(bounded) => Some(bounded),
        Answer::Declined { .. } => None,
    };
    let name = if first { subject.subject.as_str() } else { "" };
    let mut row = vec![Cell::new(name), Cell::new(&operation.operation), number(bounded.map(|bounded| bounded.fewest))];
    if observed {
        row.extend([number(scenario), number(seen)]);
    }
    row.push(match bounded {
        Some(bounded) => number(Some(bounded.most)).add_attribute(Attribute::Bold),
        None => number(None),
    });
    if let Some(core) = study.core.as_ref().filter(|core| core.mhz.is_some()) {
        let time = bounded.and_then(|bounded| core.microseconds(bounded.most));
        row.push(Cell::new(time.unwrap_or_else(|| "-".into())).set_alignment(CellAlignment::Right));
    }
    if observed {
        // An observation in a larger heap than that of the bound says nothing about the gap.
        row.push(number(bounded.zip(seen.max(scenario)).and_then(|(bounded, most)| bounded.most.checked_sub(most))));
    }
    if let Answer::Declined { brief, .. } = &operation.answer {
        row.push(Cell::new(brief));
    }
    row
}

fn operations(study: &Study) -> impl Iterator<Item = (&SubjectBounds, &OperationBounds)> {
    study.subjects.iter().flat_map(|subject| subject.operations.iter().map(move |operation| (subject, operation)))
}

/// The meaning of the table's numbers, and their assumptions.
fn notes(study: &Study, reasons: bool) -> Vec<String> {
    let counted = match &study.core {
        Some(core) => format!("{} Callees are included (METHODOLOGY.md).", core.assumed()),
        None => format!(
            "Executed {} instructions of one call, from the entry point to its return, callees included; not a time \
             (METHODOLOGY.md).",
            study.instruction_set
        ),
    };
    let mut notes = vec![
        format!("{counted} Code of {}, SHA-256 of the binary {}.", study.rustc, study.sha256),
        "static bound: proved from the machine code, with a checked proof: no call that returns takes more. shortest \
         path: none takes fewer."
            .into(),
    ];
    if !study.observed_in.is_empty() {
        notes.push(format!(
            "observed maximum: of any operation performed in {}, except scenarios. scenario maximum: of the worst case \
             that a paper describes. gap: bound less the larger of scenario and observed.",
            study.observed_in.join("; ")
        ));
    }
    let explored: Vec<String> = study
        .subjects
        .iter()
        .filter_map(|subject| {
            let Explored { states, transitions } = subject.explored?;
            let (states, tried) = (number::grouped(states as u64), number::grouped(transitions as u64));
            Some(format!("{}: {states} ({tried})", subject.subject))
        })
        .collect();
    if !explored.is_empty() {
        notes.push(format!("States explored (operations tried in them): {}.", explored.join(", ")));
    }
    for subject in &study.subjects {
        notes.extend(subject.unobserved.iter().map(|why| format!("{}: {why}.", subject.subject)));
    }
    if reasons {
        notes.extend(declines(study));
    } else if operations(study).any(|(_, operation)| matches!(operation.answer, Answer::Declined { .. })) {
        notes.push("--explain shows the obstacles to a bound and how to remove them.".into());
    }
    let bounds = || {
        operations(study).filter_map(|(_, operation)| match &operation.answer {
            Answer::Bounded(bounded) => Some(bounded),
            Answer::Declined { .. } => None,
        })
    };
    let not_called: BTreeSet<&str> = bounds().flat_map(|bounded| &bounded.not_called).map(String::as_str).collect();
    notes.extend(assumptions(bounds().flat_map(|bounded| &bounded.assumptions).copied().collect(), not_called));
    for (subject, operation) in operations(study) {
        let Answer::Bounded(bounded) = &operation.answer else { continue };
        let name = format!("{} {}", subject.subject, operation.operation);
        if let Some(formula) = &operation.formula {
            // "256 pieces of 64 bytes"
            let plural = |unit: &str| match unit.split_once(' ').filter(|_| unit.starts_with("piece")) {
                Some((piece, of)) => format!("{piece}s {of}"),
                None => format!("{unit}s"),
            };
            let formatted = |term: &Term| Some(format!("{} {}", term.iterations?, plural(&term.unit)));
            let iterations: Vec<String> = formula.terms.iter().filter_map(formatted).collect();
            notes.push(format!(
                "{name}: {formula}; in a heap of 16 MiB at most {}: {}.",
                iterations.join(", "),
                bounded.most
            ));
        } else if !bounded.facts.is_empty() {
            notes.push(format!("{name} assumes: {}.", bounded.facts.join("; ")));
        }
        if !operation.holds.is_empty() {
            let holds: Vec<String> = operation.holds.iter().map(|(lock, most)| format!("{lock} {most}")).collect();
            notes.push(format!("{name} under a lock, with this bound on the lock hold time: {}.", holds.join(", ")));
        }
        if let Some(most) = operation.one_attempt {
            notes.push(format!("{name} without contention, in one attempt: {most}."));
        }
        if !bounded.never_returning.is_empty() {
            notes.push(format!(
                "{name} may call a function that never returns: {}. No bound includes the instructions executed then.",
                bounded.never_returning.join(", ")
            ));
        }
    }
    notes
}

/// The assumptions of the bounds, in one sentence, with the functions stated not to be called; `None` if there are no
/// bounds.
#[must_use]
pub fn assumptions(assumed: BTreeSet<Assumption>, not_called: BTreeSet<&str>) -> Option<String> {
    let names = not_called.into_iter().collect::<Vec<_>>().join(", ");
    let text = |one: Assumption| match one {
        Assumption::NotCalled => format!("{} ({names})", one.text()),
        _ => one.text().to_string(),
    };
    let texts: Vec<String> = assumed.into_iter().map(text).collect();
    (!texts.is_empty()).then(|| format!("Assumed (METHODOLOGY.md): {}.", texts.join("; ")))
}

/// The obstacle to each missing bound. Entry points of one subject often share the same obstacle.
fn declines(study: &Study) -> Vec<String> {
    let mut notes = Vec::new();
    for subject in &study.subjects {
        let mut declined: Vec<(&str, Vec<&str>)> = Vec::new();
        for operation in &subject.operations {
            if let Answer::Declined { why, .. } = &operation.answer {
                match declined.iter_mut().find(|(known, _)| known == why) {
                    Some((_, operations)) => operations.push(&operation.operation),
                    None => declined.push((why, vec![&operation.operation])),
                }
            }
        }
        for (why, operations) in declined {
            notes.push(format!("No bound for {} {}: {why}.", subject.subject, operations.join(", ")));
        }
    }
    notes
}

/// An entry point's longest path by instruction, with the observations of each.
#[must_use]
pub fn explanation(subject: &SubjectBounds, operation: &OperationBounds, in_cycles: bool) -> String {
    let unit = if in_cycles { "cycles" } else { "instructions" };
    let mut text = format!("{} {}", subject.subject, operation.operation);
    match &operation.answer {
        Answer::Declined { why, .. } => {
            let _ = writeln!(text, ": no bound: {why}");
        }
        Answer::Bounded(bounded) => {
            let _ = writeln!(text, ": at most {} {unit}, at least {}", bounded.most, bounded.fewest);
        }
    }
    for (what, seen) in [("scenario", &operation.scenario), ("observed", &operation.observed)] {
        if let Some(seen) = seen {
            let _ = writeln!(text, "  {what} maximum {}: {}", number::grouped(seen.instructions), seen.circumstance);
        }
    }
    if !operation.observed_by.is_empty() {
        let by: Vec<String> =
            operation.observed_by.iter().map(|(what, most)| format!("{what} {}", number::grouped(*most))).collect();
        let _ = writeln!(text, "  maximum by driver: {}", by.join(", "));
    }
    if let Answer::Bounded(bounded) = &operation.answer {
        path(&mut text, bounded, in_cycles);
    }
    text
}

fn path(text: &mut String, bounded: &Bounded, in_cycles: bool) {
    text.push_str(&reasons(bounded));
    let widest = bounded.path.iter().map(|step| step.source.chars().count()).max().unwrap_or(0);
    let loops = bounded.path.iter().any(|step| step.executions != 1);
    for step in &bounded.path {
        let mark = match step.reached {
            None | Some(Reached::Yes) => ' ',
            Some(Reached::Elsewhere | Reached::NeverWith { .. }) => '~',
            Some(Reached::Never) => '!',
        };
        let indent = "  ".repeat(step.depth as usize);
        let times = if loops { format!("{:>8} x ", number::grouped(step.executions)) } else { String::new() };
        let cycles = if in_cycles { format!("{:>15}  ", number::counted(step.cost, "cycle")) } else { String::new() };
        let (address, source) = (step.address, &step.source);
        let _ = writeln!(text, "  {mark} {times}{cycles}{address:>8x}  {source:widest$}  {indent}{}", step.text);
    }
}

/// Why the observed maximum is below the bound: the parts of the path that were not executed, as runs of instructions.
fn reasons(bounded: &Bounded) -> String {
    let mut text = String::new();
    let mut runs: Vec<(&PathStep, u64)> = Vec::new();
    let mut last: Option<&Reached> = None;
    for step in &bounded.path {
        let reached = step.reached.as_ref().filter(|reached| **reached != Reached::Yes);
        match (reached, last) {
            (Some(now), Some(before)) if now == before => {
                if let Some(run) = runs.last_mut() {
                    run.1 += step.executions;
                }
            }
            (Some(_), _) => runs.push((step, step.executions)),
            (None, _) => {}
        }
        last = reached;
    }
    for (step, instructions) in runs {
        let why = match &step.reached {
            Some(Reached::Never) => "no performed operation executed them".to_string(),
            Some(Reached::NeverWith { other }) => {
                let source = bounded.path.iter().find(|step| step.address == *other).map_or("", |step| &step.source);
                format!(
                    "other operations executed them, but none also executed {other:#x} ({source}), as this path does"
                )
            }
            _ => "other operations executed them, but none executed all of this path".to_string(),
        };
        let _ = writeln!(
            text,
            "  {} from {:#x} ({}) on, not executed by the operation closest to this path: {why}",
            number::counted(instructions, "instruction"),
            step.address,
            step.source
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_lab::result::bounds::Seen;
    use std::collections::BTreeMap;

    fn step(address: u64, reached: Option<Reached>) -> PathStep {
        let text = "mov rax, rdi".into();
        PathStep { address, text, source: "src/list.rs:7".into(), executions: 1, cost: 1, depth: 0, reached }
    }

    fn study(observed: bool) -> Study {
        let path = vec![step(0x10, Some(Reached::Yes)), step(0x13, Some(Reached::NeverWith { other: 0x10 }))];
        let bounded = Bounded {
            most: 2,
            fewest: 1,
            assumptions: Assumption::ALL.into(),
            facts: vec!["src/list.rs:7 is executed at most 3 times each time its loop is entered".into()],
            never_returning: vec!["abort".into()],
            not_called: vec!["hook".into()],
            in_largest: None,
            path,
        };
        let seen =
            || observed.then(|| Seen { instructions: 1, circumstance: "allocate 16 B; operation 0 of: it".into() });
        let operation = |operation: &str, answer| OperationBounds {
            operation: operation.into(),
            answer,
            formula: None,
            holds: BTreeMap::from([("spin".to_string(), 9)]),
            one_attempt: Some(8),
            scenario: None,
            observed: seen(),
            observed_by: BTreeMap::new(),
        };
        let declined = Answer::Declined { brief: "loop".into(), why: "unbounded loop at 0x40 in find".into() };
        let subject = SubjectBounds {
            subject: "tlsf".into(),
            unobserved: None,
            explored: None,
            operations: vec![operation("allocate", Answer::Bounded(bounded)), operation("reallocate", declined)],
        };
        Study {
            rtalloc: "0".into(),
            rustc: "rustc 1".into(),
            sha256: "5a".into(),
            instruction_set: "RV32".into(),
            of_file: false,
            core: None,
            observed_in: if observed { vec!["a trace".into()] } else { Vec::new() },
            classes: Vec::new(),
            subjects: vec![subject],
        }
    }

    const LOOK: Look = Look { columns: 120, colour: false };

    /// The words of each line.
    fn lines(text: &str) -> Vec<Vec<&str>> {
        text.lines().map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn the_table_has_three_numbers_side_by_side_and_a_word_where_there_is_no_bound() {
        let text = table(&study(true), false, LOOK);
        let lines = lines(&text);
        assert!(lines.contains(&vec!["tlsf", "allocate", "1", "-", "1", "2", "1"]), "{text}");
        assert!(lines.contains(&vec!["reallocate", "-", "-", "1", "-", "-", "loop"]), "{text}");
        for note in [
            "in a trace",
            "SHA-256 of the binary 5a",
            "at most 3 times",
            "Assumed (METHODOLOGY.md): the file is loaded unchanged",
            "never returns: abort.",
            "or do not return (hook);",
            "--explain",
            "bound on the lock hold time: spin 9",
            "in one attempt: 8.",
        ] {
            assert!(text.contains(note), "{note}: {text}");
        }
        assert!(!text.contains("0x40"), "{text}");
        assert!(
            table(&study(true), true, LOOK).contains("No bound for tlsf reallocate: unbounded loop at 0x40 in find.")
        );
    }

    #[test]
    fn without_observations_nothing_is_said_of_them() {
        let text = table(&study(false), false, LOOK);
        assert!(lines(&text).contains(&vec!["tlsf", "allocate", "1", "2"]), "{text}");
        assert!(!text.contains("observed") && !text.contains("gap"), "{text}");
    }

    #[test]
    fn a_path_is_explained_instruction_by_instruction_with_what_stands_against_it() {
        let study = study(true);
        let subject = &study.subjects[0];
        let text = explanation(subject, &subject.operations[0], false);
        assert!(text.contains("tlsf allocate: at most 2 instructions, at least 1"), "{text}");
        assert!(text.contains("observed maximum 1: allocate 16 B; operation 0 of: it"), "{text}");
        assert!(text.contains("1 instruction from 0x13 (src/list.rs:7) on"), "{text}");
        assert!(text.contains("none also executed 0x10 (src/list.rs:7), as this path does"), "{text}");
        let marked: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with('~')).collect();
        assert_eq!(marked.len(), 1, "{text}");
        assert!(marked[0].contains("13") && marked[0].ends_with("mov rax, rdi"), "{text}");
        assert!(
            explanation(subject, &subject.operations[1], false)
                .starts_with("tlsf reallocate: no bound: unbounded loop")
        );
    }
}
