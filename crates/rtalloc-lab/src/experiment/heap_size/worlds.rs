//! The exact smallest heaps of all small worlds of an allocator.

use super::exact::{self, Outcome};
use super::unit_of;
use crate::observe::tiny::Tiny;
use crate::result::heap_size::{ExactCell, Witness};
use rtalloc_subjects::{Region, Subject};

/// Bytes of the region: more than the heaps of small worlds.
const REGION_BYTES: usize = 1 << 20;

/// The worlds of an allocator with requests of at most n units and at most M live, M from n on up to `most_m`; it ends
/// at the first world with more than `most_states` states.
///
/// A heap that serves every program of a world serves those of a smaller world. So the search for the smallest heap of
/// a world begins with that of the world before.
///
/// # Errors
///
/// If the allocator's state cannot be read, or if it has no unit.
pub fn column(
    subject: &Subject,
    n: usize,
    most_m: usize,
    most_states: usize,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<ExactCell>, String> {
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
            let (outcome, states) = exact::search(&tiny, unit, m, n, most_states);
            progress(states);
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
