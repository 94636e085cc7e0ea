//! Step bounds hold for blocks of every alignment that are resized in place in every way, which random sizes seldom do.
//! [`watch`](crate::watch) checks every operation against its bound at each step.

use crate::subject::Subject;
use crate::world::{Live, User, World};

/// Alone in the heap, a block of each alignment grows as far as it can, shrinks, grows again, and is freed.
pub fn resized_in_place(subject: &'static Subject) {
    const MOST_BYTES: usize = 0x8000;
    let len_bytes = subject.large_bytes.min(MOST_BYTES);
    let world = World::new(subject.watched, len_bytes, 1);
    let mut user = User::new(&world, 0, 1);
    for align_log2 in 0..usize::BITS {
        let align_bytes = 1 << align_log2;
        for first_bytes in [1, align_bytes / 2 + 1, align_bytes] {
            let Ok(mut live) = user.allocate(first_bytes, align_bytes) else { continue };
            for cut_bytes in [64, 1] {
                live = grown(&mut user, live, len_bytes);
                live = user.resize(live, live.size_bytes / 2 + 1);
                live = user.resize(live, cut_bytes);
            }
            user.free(live);
        }
    }
}

/// Grows a block as far as it can: by half, then by ever smaller steps.
fn grown(user: &mut User, mut live: Live, most_bytes: usize) -> Live {
    let mut more_bytes = most_bytes;
    while more_bytes >= 16 {
        let before = live.size_bytes;
        live = user.resize(live, before + more_bytes);
        if live.size_bytes == before {
            more_bytes /= 2;
        }
    }
    live
}
