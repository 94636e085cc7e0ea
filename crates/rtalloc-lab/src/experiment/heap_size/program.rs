//! Programs that a heap refuses, as traces.

use crate::result::heap_size::{Step, Witness};
use crate::trace::{Event, Meta, Op, Origin, TickUnit, Writer};
use rtalloc_subjects::Unit;
use std::collections::BTreeMap;
use std::path::Path;

/// Writes the witness of a world as a trace. Its last request is refused in the witness's region.
///
/// # Errors
///
/// The file cannot be written.
pub fn write(subject: &str, unit: Unit, world: &str, witness: &Witness, path: &Path) -> anyhow::Result<()> {
    let units = witness.block_bytes / unit.bytes;
    let parameters = [("allocator", subject.to_string()), ("world", world.to_string())];
    let meta = Meta {
        name: format!("{subject}-witness"),
        about: format!("a program within {world} that a {units}-unit heap of {subject} refuses"),
        origin: Origin::Model {
            model: "size".into(),
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
    Ok(())
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
