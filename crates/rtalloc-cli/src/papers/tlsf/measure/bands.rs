//! Figure 6: the instructions of every malloc and free of TLSF by kind of operation, which the neighbouring blocks
//! determine.

use crate::papers::tlsf::result::{Kind, Octave, Seen};
use pathbound::counter::executed;
use pathbound::image::Process;
use rtalloc::contract::Block;
use rtalloc_lab::probe::counting;
use rtalloc_lab::replay::{Observer, Replay};
use rtalloc_lab::trace::Event;
use rtalloc_lab::workload::Model;
use rtalloc_subjects::{Heap, Region, Subject, View, one};

/// The paper's pool, in bytes.
const POOL_BYTES: usize = 16 << 20;

/// The paper's small requests, in bytes.
const SMALL_BYTES: usize = 128;

/// The operations of a random load: sizes log-uniform in 16 B to 4 KiB, 400 live blocks, of which a random one is
/// replaced repeatedly.
///
/// # Errors
///
/// If the load failed, with a message.
pub fn bands(process: &Process, name: &str, seed: u64, mallocs: u64) -> Result<Vec<Seen>, String> {
    let (subject, view) = viewed(name)?;
    let events = load(seed, mallocs)?;
    counting(process, subject, |entries| {
        let mut region = Region::new(POOL_BYTES, false).map_err(|error| error.to_string())?;
        let heap = Heap::new(&Subject { entries, ..*subject }, &mut region, POOL_BYTES)
            .map_err(|refusal| refusal.to_string())?;
        let mut watch = Watch { view, seen: Vec::new(), numbers: [0; 2] };
        Replay::new().perform(&heap, &events, false, &mut watch).map_err(|fault| fault.to_string())?;
        Ok(watch.seen)
    })
}

/// The load of [`bands`].
///
/// # Errors
///
/// If the load failed, with a message.
pub(super) fn load(seed: u64, mallocs: u64) -> Result<Vec<Event>, String> {
    let model = Model::parse(&format!("loguniform --min 16 --max 4096 --live 400 --mallocs {mallocs}"));
    let mut events = Vec::new();
    model.expect("words of ours").generate(seed, &mut events).map_err(|error| error.to_string())?;
    Ok(events)
}

/// A subject whose heaps can be inspected.
fn viewed(name: &str) -> Result<(&'static Subject, View), String> {
    let subject = one(name).map_err(|error| error.to_string())?;
    let view = subject.view.ok_or_else(|| format!("the blocks of {name} cannot be walked"))?;
    Ok((subject, view))
}

/// The TLSF list that holds free blocks of a size, for J = 5 and a granule of 16 bytes: below 2^5 granules one list per
/// size, above that 2^5 lists between powers of two.
fn list_of(block_bytes: usize) -> (u32, usize) {
    const GRANULE_BYTES: usize = 16;
    const J: u32 = 5;
    let octave = block_bytes.max(1).ilog2();
    if block_bytes < GRANULE_BYTES << J {
        (0, block_bytes / GRANULE_BYTES)
    } else {
        (octave, block_bytes >> (octave - J))
    }
}

struct Watch {
    view: View,
    seen: Vec<Seen>,
    /// Mallocs and frees so far.
    numbers: [u64; 2],
}

impl Watch {
    fn blocks(&self, heap: &Heap<'_>) -> Vec<Block> {
        let mut blocks = Vec::new();
        // SAFETY: the context belongs to a live heap.
        unsafe { (self.view.walk)(heap.context, &mut |block| blocks.push(block)) };
        blocks
    }

    fn see(&mut self, kind: Kind, size: usize, instructions: u64) {
        let number = &mut self.numbers[usize::from(!kind.is_malloc())];
        self.seen.push(Seen { index: *number, kind, small: size < SMALL_BYTES, instructions });
        *number += 1;
    }
}

impl Observer for Watch {
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let before = self.blocks(heap);
        let entry = heap.entries.allocate_at(align);
        let start = executed();
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        let address = unsafe { entry(heap.context, size, align) };
        let instructions = executed() - start;
        let taken = before.iter().find(|block| block.address == address as usize);
        if let Some(taken) = taken {
            let kept = self.blocks(heap).into_iter().find(|block| block.address == taken.address);
            let list = list_of(taken.size_bytes);
            let alike = before.iter().filter(|block| block.free && list_of(block.size_bytes) == list).count();
            let kind = match kept {
                Some(kept) if kept.size_bytes < taken.size_bytes => Kind::Split,
                _ if alike == 1 => Kind::ExactLast,
                _ => Kind::Exact,
            };
            self.see(kind, size, instructions);
        }
        address
    }

    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        let before = self.blocks(heap);
        let start = executed();
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        unsafe { (heap.entries.deallocate)(heap.context, block, size, align) };
        let instructions = executed() - start;
        if let Some(place) = before.iter().position(|other| other.address == block as usize) {
            let free = |place: Option<usize>| place.and_then(|place| before.get(place)).is_some_and(|block| block.free);
            let kind = match (free(place.checked_sub(1)), free(Some(place + 1))) {
                (false, false) => Kind::None,
                (true, true) => Kind::Two,
                _ => Kind::One,
            };
            self.see(kind, size, instructions);
        }
    }
}

/// Maximum internal fragmentation per request between powers of two from 512 B to 4 MiB: requests at and near all
/// boundaries of the 32 lists, each alone in an empty pool.
///
/// # Errors
///
/// If the measurement failed, with a message.
pub fn internal(name: &str) -> Result<Vec<Octave>, String> {
    const OCTAVES: std::ops::Range<u32> = 9..22;
    const LISTS: usize = 32;
    /// Maximum distance from a boundary: more than headers and granules.
    const BESIDE: usize = 32;
    let subject = one(name).map_err(|error| error.to_string())?;
    let mut region = Region::new(POOL_BYTES, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, POOL_BYTES).map_err(|refusal| refusal.to_string())?;
    let granted_entry = subject.entries.granted.ok_or_else(|| format!("{name} does not report granted sizes"))?;
    let align = subject.entries.natural_align_bytes;
    let granted = |size: usize| -> Result<usize, String> {
        // SAFETY: the heap is live, and the block is freed with the size and alignment it was requested with.
        unsafe {
            let block = (heap.entries.allocate)(heap.context, size, align);
            if block.is_null() {
                return Err(format!("{size} bytes were refused"));
            }
            let granted = granted_entry(heap.context, block, size, align);
            (heap.entries.deallocate)(heap.context, block, size, align);
            Ok(granted)
        }
    };
    let mut octaves = Vec::new();
    for octave in OCTAVES {
        let from = 1_usize << octave;
        let mut worst: Option<Octave> = None;
        for border in (0..LISTS).map(|list| from + (from / LISTS) * list) {
            for request in (border - BESIDE).max(from)..border + BESIDE {
                let found = Octave {
                    from_bytes: from as u64,
                    request_bytes: request as u64,
                    granted_bytes: granted(request)? as u64,
                };
                if worst.is_none_or(|worst| found.lost() > worst.lost()) {
                    worst = Some(found);
                }
            }
        }
        octaves.extend(worst);
    }
    Ok(octaves)
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn lists_are_as_wide_as_the_paper_says() {
        assert_eq!([16, 31, 32, 511].map(list_of), [(0, 1), (0, 1), (0, 2), (0, 31)]);
        assert_eq!([512, 527, 528].map(list_of), [(9, 32), (9, 32), (9, 33)]);
        assert_eq!([1024, 1055, 1056].map(list_of), [(10, 32), (10, 32), (10, 33)]);
    }

    #[test]
    fn every_operation_is_seen_and_merging_costs_more_than_not() {
        let process = Process::shared().expect("this process");
        let seen = bands(&process, "tlsf", 1, 1500).expect("seen");
        let mallocs = seen.iter().filter(|seen| seen.kind.is_malloc()).count();
        // All blocks are freed except the 400 that are live at the end.
        assert_eq!((mallocs, seen.len() - mallocs), (1500, 1100));
        let least = |kind: Kind| seen.iter().filter(|seen| seen.kind == kind).map(|seen| seen.instructions).min();
        assert!(Kind::ALL.into_iter().all(|kind| least(kind).is_some()), "{seen:?}");
        assert!(least(Kind::None) < least(Kind::One) && least(Kind::One) < least(Kind::Two));
        assert_eq!(bands(&process, "tlsf", 1, 1500).expect("seen"), seen);
    }

    #[test]
    fn exact_splits_lose_less_in_blocks() {
        let lost = |name: &str| {
            let octaves = internal(name).expect("measured");
            octaves.iter().map(Octave::lost).fold(0.0, f64::max)
        };
        assert!(lost("tlsf-exact") < lost("tlsf"));
    }
}
