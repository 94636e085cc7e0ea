//! Bounds by size class, for allocators whose free may copy an object, and the observed maxima of each class in heaps
//! of two sizes, fresh and used.

use crate::analysis::Analysis;
use crate::analysis::loop_bounds::ByClass;
use crate::observe::Operation;
use crate::probe::Counted;
use crate::probe::reads::read_instructions;
use crate::replay::{Block, Observer, Replay};
use crate::result::bounds::{ClassBounds, ClassOperation, SizeClasses};
use crate::trace::{Event, Op};
use crate::workload::random::Random;
use pathbound::counter::{Record, executed};
use rtalloc_subjects::{Handles, Heap, Region, Subject};
use std::collections::HashMap;
use std::ffi::c_void;

/// Sizes of the measured heaps, in bytes.
const HEAPS: [usize; 2] = [1 << 20, 64 << 20];

/// The bounds and, if `measuring`, the observed maxima; `None` for allocators without such classes.
#[must_use]
pub fn of_subject(analysis: &Analysis, subject: &Subject, measuring: bool) -> Option<SizeClasses> {
    let (blocks, handles) = (subject.about.page_blocks?(), subject.entries.handles?);
    let allocate = ByClass::new(analysis, subject, Operation::Allocate)?;
    let free = ByClass::new(analysis, subject, Operation::Deallocate)?;
    let page = subject.view?.contract.page_bytes;
    let counted = measuring.then(|| Counted::new(analysis.process(), subject, &[], Record::Count).ok()).flatten();
    let classes = (1..).zip(blocks).map(|(number, block)| {
        let seen: Vec<Seen> = match &counted {
            Some(counted) => {
                HEAPS.iter().map(|bytes| measured(subject, counted, handles, *bytes, block, page)).collect()
            }
            None => Vec::new(),
        };
        let of = |bound: Option<u64>, most: fn(&Seen) -> Option<u64>| ClassOperation {
            bound,
            most: seen.iter().map(most).collect(),
        };
        let block = block as u64;
        ClassBounds {
            number,
            block_bytes: block,
            allocate: of(allocate.bound(block), |seen| seen.allocate),
            free: of(free.without_moving(block), |seen| seen.free),
            free_moving: of(free.bound(block), |seen| seen.moving),
        }
    });
    let classes = classes.collect();
    let heap_bytes = if counted.is_some() { HEAPS.map(|bytes| bytes as u64).to_vec() } else { Vec::new() };
    let read_instructions = read_instructions(subject);
    Some(SizeClasses { subject: subject.name.into(), read_instructions, heap_bytes, classes })
}

/// The maxima of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    allocate: Option<u64>,
    free: Option<u64>,
    moving: Option<u64>,
}

/// Object sizes that belong to this class for every ladder, with or without a back reference.
fn sizes(block: usize) -> std::ops::RangeInclusive<usize> {
    (block - block / 9 + 1).min(block - 4)..=block - 4
}

/// The histories of a class: pages filled, then freed in order and in reverse, every second object first; then random
/// allocations and frees, interleaved with objects of other classes.
fn histories(block: usize, page: usize) -> Vec<Vec<Event>> {
    let (size, blocks) = (*sizes(block).start() as u64, (page / block) as u32);
    let allocate = |slot: u32, size: u64| Op::Allocate { slot, size, align: 1 };
    let count = 3 * blocks + 1;
    let filled: Vec<Op> = (0..count).map(|slot| allocate(slot, size)).collect();
    let orders: [Vec<u32>; 3] = [
        (0..count).collect(),
        (0..count).rev().collect(),
        (0..count).step_by(2).chain((1..count).step_by(2)).collect(),
    ];
    let mut histories: Vec<Vec<Op>> = orders
        .into_iter()
        .map(|order| filled.iter().copied().chain(order.into_iter().map(|slot| Op::Free { slot })).collect())
        .collect();
    let mut random = Random::new(block as u64);
    let mut live: Vec<u32> = Vec::new();
    let mut worn = Vec::new();
    for slot in 0..1500 {
        let other = random.below(4) == 0;
        worn.push(if other {
            Op::Allocate { slot, size: 1 + random.below(2000), align: 1 }
        } else {
            allocate(slot, size)
        });
        live.push(slot);
        while live.len() as u64 > 40 + u64::from(blocks.min(200)) || random.below(3) == 0 && !live.is_empty() {
            let index = random.below(live.len() as u64) as usize;
            worn.push(Op::Free { slot: live.swap_remove(index) });
        }
    }
    histories.push(worn);
    let events = |ops: Vec<Op>| ops.into_iter().map(|op| Event { tick: 0, thread: 0, op }).collect();
    histories.into_iter().map(events).collect()
}

fn measured(subject: &Subject, counted: &Counted, handles: Handles, bytes: usize, block: usize, page: usize) -> Seen {
    let mut seen = Seen::default();
    let Ok(mut region) = Region::new(bytes, false) else { return seen };
    for events in histories(block, page) {
        let Ok(mut heap) = Heap::new(subject, &mut region, bytes) else { return seen };
        heap.entries = counted.entries();
        let class = sizes(block);
        let mut watch = Watch { handles, context: heap.context, class, seen, before: 0, places: HashMap::new() };
        if Replay::new().run::<false, _>(&heap, &events, &mut watch).is_err() {
            return Seen::default();
        }
        seen = watch.seen;
    }
    seen
}

/// Records the maxima of the objects of a class.
struct Watch {
    handles: Handles,
    context: *mut c_void,
    /// Sizes of the class's objects.
    class: std::ops::RangeInclusive<usize>,
    seen: Seen,
    before: u64,
    /// Addresses of all objects.
    places: HashMap<usize, usize>,
}

impl Watch {
    fn place(&self, block: usize) -> usize {
        // SAFETY: the block is live.
        unsafe { (self.handles.dereference)(self.context, block as *mut u8, 0) as usize }
    }
}

impl Observer for Watch {
    fn before(&mut self, _: u64) {
        self.before = executed();
    }

    fn granted(&mut self, _: &Heap<'_>, _: u64, block: &Block, _: Option<usize>) {
        let count = executed() - self.before;
        if self.class.contains(&block.size) {
            self.seen.allocate = self.seen.allocate.max(Some(count));
        }
        self.places.insert(block.address, self.place(block.address));
    }

    fn freed(&mut self, _: u64, block: &Block) {
        let count = executed() - self.before;
        self.places.remove(&block.address);
        let is_watched = self.class.contains(&block.size);
        if self.handles.piece_bytes != usize::MAX {
            // An object's pieces stay in place, so a move cannot be observed.
            if is_watched {
                self.seen.moving = self.seen.moving.max(Some(count));
            }
            return;
        }
        let moved = self.places.iter().find(|(block, place)| self.place(**block) != **place).map(|(block, _)| *block);
        match moved {
            Some(block) => {
                let place = self.place(block);
                self.places.insert(block, place);
                if is_watched {
                    self.seen.moving = self.seen.moving.max(Some(count));
                }
            }
            None if !is_watched => {}
            None => self.seen.free = self.seen.free.max(Some(count)),
        }
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;
    use crate::tier::Tiers;

    #[test]
    fn no_class_exceeds_its_bounds_and_nothing_depends_on_the_heap() {
        let analysis = Analysis::of_this_program().expect("this program");
        let names: Tiers<&[&str]> = Tiers {
            daily: &["compact-fit-paper", "compact-fit-non-moving"],
            full: &["compact-fit", "compact-fit-paper", "compact-fit-non-moving"],
        };
        for name in names.now().iter().copied() {
            let found = of_subject(&analysis, rtalloc_subjects::one(name).expect("a subject"), true).expect("classes");
            for class in &found.classes {
                for operation in [&class.allocate, &class.free, &class.free_moving] {
                    let bound = operation.bound;
                    assert!(
                        operation.most.iter().flatten().all(|most| bound.is_some_and(|bound| *most <= bound)),
                        "{class:?}"
                    );
                    assert!(operation.most.windows(2).all(|pair| pair[0] == pair[1]), "{class:?}");
                }
                if name != "compact-fit-non-moving" {
                    assert_eq!(class.free_moving.most[0].is_some(), class.block_bytes * 2 <= 16_384, "{class:?}");
                    assert!(class.free.bound < class.free_moving.bound, "{class:?}");
                }
            }
        }
    }
}
