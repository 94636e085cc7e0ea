//! Concurrent Compact-fit with real threads: owners allocate, free and compact; readers read objects that move, and
//! free them.

use rtalloc::compact_fit::Geometric;
use rtalloc::concurrent::compact_fit::PinError;
use rtalloc::contract::{Handle, HandleError};
use rtalloc::{SharedCompactFit, SharedCompactFitConfig};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Pages of 1 KiB and moves of 16 bytes: moving an object takes many operations.
type Heap<'r> = SharedCompactFit<'r, 16, Geometric<1024, 32, 8>>;

const SLOTS: usize = 3;
const ROUNDS: usize = 60_000;

/// Fills an object: its number in the first word, then a byte derived from it.
fn fill(heap: &Heap<'_>, handle: Handle, number: u32) {
    let guard = heap.pin(handle).expect("live");
    guard.write(0, &number.to_ne_bytes()).expect("inside");
    guard.write(4, &vec![number as u8 ^ 0x5A; guard.size_bytes() - 4]).expect("inside");
}

/// Reads an object, if it is live, and verifies its content.
fn verify(heap: &Heap<'_>, handle: Handle) -> bool {
    let guard = match heap.pin(handle) {
        Ok(guard) => guard,
        Err(PinError::Handle(HandleError::Stale)) => return false,
        Err(error) => panic!("{error}"),
    };
    let mut bytes = vec![0; guard.size_bytes()];
    guard.read(0, &mut bytes).expect("inside");
    let number = u32::from_ne_bytes(bytes[..4].try_into().expect("four bytes"));
    assert!(bytes[4..].iter().all(|&byte| byte == number as u8 ^ 0x5A), "object {number}: {bytes:?}");
    true
}

fn random(seed: usize) -> impl FnMut(usize) -> usize {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

#[test]
fn objects_are_whole_while_they_move() {
    let config = SharedCompactFitConfig { slots: SLOTS, objects: 400, ..Default::default() };
    let mut memory = vec![0; Heap::region_bytes(SLOTS, 400, 120)];
    let mut heap = Heap::new(&mut memory, config).expect("a region that is long enough");
    // Objects that every thread may read and free. A handle is removed before its object is freed, but others may still
    // have it.
    let board: Mutex<Vec<Handle>> = Mutex::default();
    let (seen, late, moved) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for slot in 0..SLOTS {
            let (heap, board, seen, late, moved) = (&heap, &board, &seen, &late, &moved);
            scope.spawn(move || {
                let mut hand = heap.claim(slot).expect("the slot is free");
                let mut next = random(slot + 1);
                // Handles that this thread has read; some of their objects are gone.
                let mut past = Vec::new();
                for round in 0..ROUNDS {
                    let handle = {
                        let mut board = board.lock().expect("no thread panicked");
                        let (len, at) = (board.len(), next(usize::MAX >> 1));
                        match next(8) {
                            _ if len == 0 => None,
                            0..2 if len > 100 => Some((board.swap_remove(at % len), true)),
                            2..5 => Some((board[at % len], false)),
                            5 if !past.is_empty() => Some((past.swap_remove(at % past.len()), false)),
                            _ => None,
                        }
                    };
                    match handle {
                        Some((handle, true)) => {
                            assert!(verify(heap, handle));
                            hand.deallocate(handle).expect("live");
                            assert_eq!(hand.deallocate(handle), Err(HandleError::Stale));
                        }
                        Some((handle, false)) => {
                            past.push(handle);
                            past.truncate(1000);
                            let counter = if verify(heap, handle) { seen } else { late };
                            counter.fetch_add(1, Ordering::Relaxed);
                        }
                        None => {
                            if let Ok(handle) = hand.allocate([28, 100, 200][next(3)]) {
                                fill(heap, handle, (slot * ROUNDS + round) as u32);
                                let mut board = board.lock().expect("no thread panicked");
                                board.push(handle);
                                let oldest = (board.len() > 600).then(|| board.swap_remove(0));
                                drop(board);
                                if let Some(oldest) = oldest {
                                    hand.deallocate(oldest).expect("live");
                                }
                            }
                        }
                    }
                    if next(50) == 0 {
                        moved.fetch_add(hand.compact(512), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let left = board.into_inner().expect("no thread panicked");
    {
        let mut hand = heap.claim(0).expect("the slot is free again");
        for handle in left {
            assert!(verify(&heap, handle));
            hand.deallocate(handle).expect("live");
        }
    }
    for slot in 0..SLOTS {
        let mut hand = heap.claim(slot).expect("the slot is free again");
        while hand.reclaim(100) != 0 {}
        hand.compact(1 << 20);
        assert!(!hand.has_pending_compaction());
        // As good as new: every page serves the largest object.
        let whole = (0..).take_while(|_| hand.allocate(1020).is_ok()).count();
        assert!(whole >= 120, "{whole} pages");
    }
    heap.check().expect("an intact heap");
    let (seen, late, moved) = (seen.into_inner(), late.into_inner(), moved.into_inner());
    println!("{seen} reads, {late} of what was freed meanwhile, {moved} bytes moved in idle time");
    assert!(seen > ROUNDS / 2 && late > 0 && moved > 1000, "{seen} reads, {late} late, {moved} bytes");
}
