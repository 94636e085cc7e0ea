//! The exact smallest heaps of all small worlds: a process for each allocator and each largest request.

use super::exact::{self, Outcome};
use super::world::World;
use super::{any_allocator, unit_of};
use crate::observe::tiny::Tiny;
use crate::replay::isolate::{Child, Job, Progress, decode, run_all};
use crate::result::heap_size::{ANY, Exact, ExactCell, ExactRow, Witness};
use rtalloc_subjects::{Region, Subject};
use std::time::Duration;

pub use super::exact::MOST_UNITS;

/// Bytes of the region: more than the heaps of small worlds.
const REGION_BYTES: usize = 1 << 20;

/// Limit of the processor time of a process. A search ends at its limit of states, long before.
const LIMIT: Duration = Duration::from_secs(24 * 3600);
/// A position of the game of two players takes a bit, and a state of an allocator about a hundred bytes.
const POSITIONS_PER_STATE: u64 = 16;

/// The exact smallest heaps in all worlds of at most `m` live units and requests of at most `n`: of the allocators
/// given and, if `any` is set, of the best that an allocator could do. At most `most_states` states are explored of a
/// heap. The calling process should be single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process, or if a search ends without a result.
pub fn measure(
    subjects: &[&'static Subject],
    any: bool,
    m: usize,
    n: usize,
    most_states: usize,
    progress: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<Exact> {
    let columns: Vec<(Option<&'static Subject>, usize)> = any
        .then_some(None)
        .into_iter()
        .chain(subjects.iter().copied().map(Some))
        .flat_map(|subject| (2..=n.min(m)).map(move |largest| (subject, largest)))
        .collect();
    let spawn = |subject: Option<&'static Subject>, largest: usize| {
        move || {
            Child::spawn(|_| match subject {
                None => Ok(any_column(largest, m, most_states as u64 * POSITIONS_PER_STATE)),
                Some(subject) => column(subject, largest, m, most_states),
            })
        }
    };
    let jobs =
        columns.iter().map(|(subject, largest)| Job { spawn: Box::new(spawn(*subject, *largest)), limit: LIMIT });
    let mut found: Vec<Result<Vec<ExactCell>, String>> = vec![Ok(Vec::new()); columns.len()];
    let (mut done, total) = (0, columns.len() as u64);
    progress(Progress { done, total, last: "" });
    let width = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(jobs.collect(), width, |number, result| {
        let name = columns[number].0.map_or(ANY, |subject| subject.name);
        found[number] = decode(result).unwrap_or_else(|death| Err(death.to_string()));
        done += 1;
        progress(Progress { done, total, last: name });
    })?;
    let mut found = found.into_iter();
    let mut rows = Vec::new();
    for subject in any.then_some(None).into_iter().chain(subjects.iter().copied().map(Some)) {
        let columns: Result<Vec<Vec<ExactCell>>, String> = found.by_ref().take(n.min(m) - 1).collect();
        let name = subject.map_or(ANY, |subject| subject.name);
        let cells = columns.map_err(|error| anyhow::anyhow!("{name}: {error}"))?.concat();
        rows.push(row(subject, cells)?);
    }
    Ok(Exact { m, n, most_states, rows })
}

fn row(subject: Option<&'static Subject>, cells: Vec<ExactCell>) -> anyhow::Result<ExactRow> {
    let Some(subject) = subject else {
        let (unit_bytes, header_bytes, page_bytes) = (1, 0, 0);
        return Ok(ExactRow { subject: ANY.into(), unit_bytes, header_bytes, page_bytes, guarantee: None, cells });
    };
    let unit = unit_of(subject).map_err(|error| anyhow::anyhow!("{}: {error}", subject.name))?;
    Ok(ExactRow {
        subject: subject.name.into(),
        unit_bytes: unit.bytes,
        header_bytes: unit.header_bytes,
        page_bytes: subject.view.map_or(0, |view| view.contract.page_bytes),
        guarantee: subject.about.guarantee.map(|guarantee| guarantee.formula()),
        cells,
    })
}

/// The worlds of the best that an allocator could do, as [`column()`].
fn any_column(n: usize, most_m: usize, most_positions: u64) -> Vec<ExactCell> {
    let mut cells: Vec<ExactCell> = Vec::new();
    for m in n..=most_m {
        let least = cells.last().map_or(0, |cell| cell.block_bytes);
        let Some(found) = any_allocator::smallest_heap(m, n, least, most_positions) else { break };
        cells.push(ExactCell {
            m,
            n,
            block_bytes: found.cells,
            is_exact: true,
            states: found.positions as usize,
            witness: None,
            guaranteed_bytes: None,
        });
    }
    cells
}

/// The worlds of an allocator with requests of at most n units and at most M live, M from n on up to `most_m`; it ends
/// at the first world with more than `most_states` states.
///
/// A heap that serves every program of a world serves those of a smaller world. So the search for the smallest heap of
/// a world begins with that of the world before.
///
/// # Errors
///
/// If the allocator's state cannot be read, or if it has no unit.
pub fn column(subject: &Subject, n: usize, most_m: usize, most_states: usize) -> Result<Vec<ExactCell>, String> {
    let view = subject.view.ok_or("its state cannot be read")?;
    let unit = unit_of(subject)?;
    let mut region = Region::new(REGION_BYTES, false).map_err(|error| error.to_string())?;
    let mut cells: Vec<ExactCell> = Vec::new();
    if unit.request_bytes(n) > subject.reach.request_bytes {
        return Ok(cells);
    }
    let (mut block_bytes, mut region_bytes) = (0, 1);
    for m in n..=most_m {
        let (mut witness, mut wanted) = (None, block_bytes.max(m * unit.bytes));
        let (is_exact, states) = loop {
            let Some(bytes) = Tiny::region_bytes(subject, view, &mut region, wanted, region_bytes) else {
                return Ok(cells);
            };
            region_bytes = bytes;
            let tiny = Tiny::new(subject, view, &mut region, bytes).map_err(|error| error.to_string())?;
            block_bytes = tiny.block_bytes();
            let (outcome, states) = exact::search(&tiny, unit, &World::Live { m, least: 1, n }, most_states);
            let Outcome::Refuses(steps) = outcome else { break (outcome == Outcome::NeverRefuses, states) };
            witness = Some(Witness { region_bytes, block_bytes, steps });
            wanted = block_bytes + 1;
        };
        let guaranteed_bytes =
            subject.about.guarantee.and_then(|guarantee| guarantee.bytes(view.contract.page_bytes, unit, m, n));
        cells.push(ExactCell { m, n, block_bytes, is_exact, states, witness, guaranteed_bytes });
        if !is_exact {
            break;
        }
    }
    Ok(cells)
}
