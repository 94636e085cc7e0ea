//! White-box tests.

extern crate std;

use super::*;
use std::vec::Vec;

/// Histories of pseudo-random operations, every object's bytes and the invariants verified.
fn survives<const IOTA: usize>(pages: usize, most_not_full: u32, largest: usize, rounds: usize, seed: u64) {
    type Heap<'r, const IOTA: usize> = CompactFit<'r, DefaultLadder, Untallied, IOTA>;
    let mut memory = std::vec![MaybeUninit::new(0xC5_u8); Heap::<IOTA>::region_bytes(pages)];
    let mut heap: Heap<'_, IOTA> =
        CompactFit::new(&mut memory, CompactFitConfig::with_most_not_full(most_not_full)).unwrap();
    assert_eq!(heap.pages(), pages);
    let mut live: Vec<(Handle, usize, u8)> = Vec::new();
    let mut dead: Vec<Handle> = Vec::new();
    let mut random = seed;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (random >> 33) as usize % below
    };
    let fill = |heap: &Heap<'_, IOTA>, handle, from, to, stamp| {
        if from < to {
            let (place, contiguous) = heap.locate_to_write(handle, from).unwrap();
            assert!(contiguous >= to - from);
            // SAFETY: the object has so many bytes there.
            unsafe { place.write_bytes(stamp, to - from) };
        }
    };
    let holds = |heap: &Heap<'_, IOTA>, handle, size: usize, stamp: u8| {
        let (place, contiguous) = heap.locate(handle, 0).unwrap();
        assert_eq!(contiguous, size);
        // SAFETY: the object was filled.
        assert!(unsafe { core::slice::from_raw_parts(place.as_ptr(), size) }.iter().all(|&byte| byte == stamp));
    };
    for round in 0..rounds {
        // Waves, so that classes fill and empty.
        let grows = round / 200 % 2 == 0;
        match next(10) {
            0..=6 if grows => allocate_one(&mut heap, &mut live, largest, round, &mut next, &fill),
            7..=9 if !grows => allocate_one(&mut heap, &mut live, largest, round, &mut next, &fill),
            7 => {
                if let Some(index) = (!live.is_empty()).then(|| next(live.len())) {
                    let (handle, old, stamp) = live[index];
                    let size = 1 + next(largest);
                    if heap.resize(handle, size).is_ok() {
                        fill(&heap, handle, old, size, stamp);
                        live[index].1 = size;
                    }
                }
            }
            _ if !live.is_empty() => {
                let (handle, size, stamp) = live.swap_remove(next(live.len()));
                holds(&heap, handle, size, stamp);
                heap.free(handle).unwrap();
                assert_eq!(heap.free(handle), Err(HandleError::Stale));
                dead.push(handle);
            }
            _ => {}
        }
        assert_eq!(heap.check(), Ok(()), "round {round}");
        if round % 16 == 0 {
            live.iter().for_each(|&(handle, size, stamp)| holds(&heap, handle, size, stamp));
            assert!(dead.iter().all(|&handle| heap.size(handle) == Err(HandleError::Stale)));
            let promised = heap.largest_allocatable();
            if promised != 0 && next(8) == 0 {
                let handle = heap.allocate(promised).unwrap();
                fill(&heap, handle, 0, promised, 7);
                live.push((handle, promised, 7));
            }
        }
    }
    for (handle, size, stamp) in live {
        holds(&heap, handle, size, stamp);
        heap.free(handle).unwrap();
        assert_eq!(heap.check(), Ok(()));
    }
    heap.compact(usize::MAX);
    assert_eq!((heap.owed_bytes(), heap.fragmentation()), (0, Fragmentation::default()));
}

type Fill<'f, const IOTA: usize> =
    dyn Fn(&CompactFit<'_, DefaultLadder, Untallied, IOTA>, Handle, usize, usize, u8) + 'f;

fn allocate_one<const IOTA: usize>(
    heap: &mut CompactFit<'_, DefaultLadder, Untallied, IOTA>,
    live: &mut Vec<(Handle, usize, u8)>,
    largest: usize,
    round: usize,
    next: &mut dyn FnMut(usize) -> usize,
    fill: &Fill<'_, IOTA>,
) {
    let size = 1 + next(largest);
    let stamp = round as u8;
    if let Ok(handle) = heap.allocate(size) {
        fill(heap, handle, 0, size, stamp);
        live.push((handle, size, stamp));
    }
}

#[test]
fn objects_keep_their_bytes_and_invariants_hold() {
    for (seed, largest) in [(1, 60), (2, 4000), (3, 16000)] {
        survives::<AT_ONCE>(12, 1, largest, 2000, seed);
        survives::<AT_ONCE>(12, 3, largest, 2000, seed);
        survives::<16>(12, 1, largest, 2000, seed);
        survives::<4096>(12, 2, largest, 2000, seed);
    }
}
