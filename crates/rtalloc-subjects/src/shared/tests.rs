use super::*;
use std::sync::Barrier;

const BYTES: usize = 4 << 20;

/// Threads allocate, mark, pass every second block to the next thread, verify the marks and free; no blocks overlap.
#[test]
fn every_subject_serves_threads() {
    const USERS: usize = 3;
    for subject in ALL {
        if subject.ready().is_err() {
            continue;
        }
        let mut region = Region::new(BYTES, false).expect("memory");
        let mut heap = SharedHeap::new(subject, &mut region, BYTES, USERS).expect(subject.name);
        let boxes: Vec<std::sync::Mutex<Vec<(usize, usize)>>> = (0..USERS).map(|_| Vec::new().into()).collect();
        let barrier = Barrier::new(USERS);
        std::thread::scope(|scope| {
            for number in 0..USERS {
                let mut user = heap.join(number).expect("a place");
                let (boxes, barrier) = (&boxes, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for round in 0..200_usize {
                        let mut live = Vec::new();
                        for index in 0..16 {
                            let size = 8 + (round * 37 + index * 101 + number * 13) % 900;
                            let block = user.allocate(size, 8);
                            if !block.is_null() {
                                // SAFETY: the block is this thread's.
                                unsafe { block.write_bytes(number as u8 + 1, size) };
                                live.push((block as usize, size));
                            }
                        }
                        for (index, (block, size)) in live.into_iter().enumerate() {
                            // SAFETY: live, and marked only by this thread.
                            let bytes = unsafe { std::slice::from_raw_parts(block as *const u8, size) };
                            assert!(bytes.iter().all(|byte| *byte == number as u8 + 1), "{}", user.heap.subject.name);
                            if index % 2 == 0 {
                                boxes[(number + 1) % USERS].lock().expect("no panic").push((block, size));
                            } else {
                                // SAFETY: live, and not used again.
                                unsafe { user.deallocate(block as *mut u8, size, 8) };
                            }
                        }
                        for (block, size) in std::mem::take(&mut *boxes[number].lock().expect("no panic")) {
                            // SAFETY: live, and passed to this thread.
                            unsafe { user.deallocate(block as *mut u8, size, 8) };
                        }
                    }
                });
            }
        });
        heap.check().expect(subject.name);
    }
}

#[test]
fn a_refusal_is_counted_with_its_kind() {
    let mut region = Region::new(BYTES, false).expect("memory");
    let heap = SharedHeap::new(one("tlsf-spin").expect("ours"), &mut region, BYTES, 1).expect("room");
    let mut user = heap.join(0).expect("a place");
    assert!(!user.allocate(BYTES / 2, 16).is_null());
    assert_eq!(user.refused().total(), 0);
    assert!(user.allocate(BYTES / 2, 16).is_null(), "the other half is not whole");
    assert_eq!(user.refused(), Refused { exhausted: 1, ..Refused::default() });
    assert_eq!(user.last_refusal(), Some(SharedError::Exhausted));
    assert!(user.allocate(BYTES, 16).is_null(), "more than the heap ever had");
    assert_eq!(user.refused(), Refused { exhausted: 1, request: 1, ..Refused::default() });
    assert!(!user.allocate(BYTES / 4, 16).is_null());
    assert_eq!(user.refused().total(), 2);
}

#[test]
fn names_are_unique_and_chosen_like_all_others() {
    let mut names = names();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let chosen = |choice: &[&str]| -> Vec<&str> {
        select(choice).expect("a valid choice").iter().map(|subject| subject.name).collect()
    };
    assert_eq!(chosen(&[]).len(), ALL.len());
    assert_eq!(chosen(&["system", "tlsf-spin"]), ["tlsf-spin", "system"], "table order");
    assert_eq!(chosen(&["-system"]).len(), ALL.len() - 1);
    assert!(select(&["tlsf-spim"]).unwrap_err().to_string().contains("tlsf-spin"));
}
