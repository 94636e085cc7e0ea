//! Steps under adversarial schedules for the terminal.

use super::table::Look;
use super::table::table;
use super::verdict::wrapped;
use rtalloc_lab::number;
use rtalloc_lab::result::interleave::{Explored, Interleaved, OperationSteps};
use std::fmt::Write as _;

/// One table per allocator, and notes on all of them.
#[must_use]
pub fn tables(found: &Interleaved, look: Look) -> String {
    let head = format!(
        "Steps of an operation, {} at a time, {} schedules of each adversary on each load ({}), seed {}",
        number::counted(found.threads as u64, "thread"),
        number::grouped(found.schedules_each as u64),
        found.loads.join(", "),
        found.seed
    );
    let mut text = wrapped(&head, look.columns, 0) + "\n";
    for allocator in &found.allocators {
        text.push('\n');
        text.push_str(&of_allocator(allocator, look));
    }
    text.push('\n');
    for note in NOTES {
        let _ = writeln!(text, "{}", wrapped(note, look.columns, 0));
    }
    text
}

const NOTES: [&str; 3] = [
    "A step is an access to a word that other threads may access too: a read-modify-write (rmw), a load or a store. \
     Maximum of each kind over all operations, not necessarily in the same one, / its published bound. total: maximum \
     steps of any single operation; alone: the same without concurrency; by: the adversary that found it.",
    "refused: for any reason. contended: refused while others were active. spurious: refused, but served when repeated \
     immediately without concurrency.",
    "Schedules interleave threads at their steps, with sequentially consistent memory. The model checkers of the \
     library's tests cover weaker memory orderings.",
];

fn of_allocator(allocator: &Explored, look: Look) -> String {
    let head = format!(
        "{}: allocate {}, free {}; heap of {}, {} schedules, {} scheduling choices",
        allocator.name,
        allocator.allocate,
        allocator.deallocate,
        number::bytes(allocator.heap_bytes),
        number::grouped(allocator.schedules),
        number::grouped(allocator.decisions)
    );
    let mut text = wrapped(&head, look.columns, 0) + "\n";
    let headings = [
        "\noperation",
        "\nbytes",
        "\ncalls",
        "most / bound\nrmw",
        "\nloads",
        "\nstores",
        "\ntotal",
        "\nalone",
        "\nby",
        "refused\nall",
        "con-\ntended",
        "spu-\nrious",
    ];
    let mut last = "";
    let rows = allocator.operations.iter().map(|operation| {
        let first = operation.operation != last;
        last = &operation.operation;
        row(operation, first)
    });
    text.push_str(&table(&headings, 1, rows, look));
    if let Some(fault) = &allocator.fault {
        let _ = writeln!(text, "{}", wrapped(&format!("Wrong: {fault}."), look.columns, 2));
    }
    text
}

fn row(operation: &OperationSteps, first: bool) -> Vec<String> {
    let beside = |most: u64, bound: Option<u64>| match bound {
        Some(bound) => format!("{} / {}", number::grouped(most), number::grouped(bound)),
        None => format!("{} / -", number::grouped(most)),
    };
    let (most, bound) = (operation.most, operation.bound);
    let (least, largest) = operation.sizes;
    vec![
        if first { operation.operation.clone() } else { String::new() },
        match (least, largest) {
            (0, 0) => "any".into(),
            _ if least == largest => least.to_string(),
            _ => format!("{least}..{largest}"),
        },
        number::compact(operation.calls as f64),
        beside(most.read_modify_writes, bound.map(|bound| bound.read_modify_writes)),
        beside(most.loads, bound.map(|bound| bound.loads)),
        beside(most.stores, bound.map(|bound| bound.stores)),
        number::grouped(operation.most_total),
        number::grouped(operation.alone_total),
        operation.found_by.clone(),
        number::compact(operation.refused.total() as f64),
        number::compact(operation.refused.contended as f64),
        number::compact(operation.spurious as f64),
    ]
}
