//! Programs that a heap refuses, as traces.

use crate::result::heap_size::{ExactCell, ExactRow, Step};
use crate::trace::{Event, Meta, Op, Origin, TickUnit, Writer};
use anyhow::Context as _;
use rtalloc_subjects::Unit;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the witness of a world as a trace; returns the bytes of the region in which its last request is refused.
///
/// # Errors
///
/// There is no witness, or the file cannot be written.
pub fn write(row: &ExactRow, cell: &ExactCell, path: &Path) -> anyhow::Result<usize> {
    let witness = cell.witness.as_ref().context("this world has no witness")?;
    let unit = Unit { bytes: row.unit_bytes, header_bytes: row.header_bytes };
    let units = witness.block_bytes / unit.bytes;
    let parameters = [("allocator", row.subject.clone()), ("M", cell.m.to_string()), ("n", cell.n.to_string())];
    let meta = Meta {
        name: format!("{}-witness", row.subject),
        about: format!(
            "a shortest program within M = {} and n = {} that a {units}-unit heap of {} refuses",
            cell.m, cell.n, row.subject
        ),
        origin: Origin::Model {
            model: "size --exact".into(),
            seed: 0,
            random: "none".into(),
            parameters: BTreeMap::from(parameters.map(|(name, value)| (name.into(), value))),
        },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    };
    let mut writer = Writer::create(path, &meta)?;
    for (tick, op) in ops(&witness.steps, unit).into_iter().enumerate() {
        writer.push(&Event { tick: tick as u64, thread: 0, op })?;
    }
    writer.finish()?;
    Ok(witness.region_bytes)
}

/// The operations of a program. The slot freed last is the first to be reused.
fn ops(steps: &[Step], unit: Unit) -> Vec<Op> {
    let (mut slots, mut free, mut used) = (Vec::new(), Vec::new(), 0);
    let op = |step: &Step| match *step {
        Step::Take(units) => {
            let slot = free.pop().unwrap_or_else(|| {
                used += 1;
                used - 1
            });
            slots.push(slot);
            Op::Allocate { slot, size: unit.request_bytes(units) as u64, align: 1 }
        }
        Step::Give(number) => {
            free.push(slots[number]);
            Op::Free { slot: slots[number] }
        }
    };
    steps.iter().map(op).collect()
}
