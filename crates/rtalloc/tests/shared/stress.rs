//! Operating-system threads that perform random operations as fast as they can.

use crate::subject::{Subject, Table};
use crate::tier::Tiers;
use crate::watch;
use crate::world::{User, World};
use std::sync::Barrier;

/// Operations of each thread.
const ACTS: Tiers<usize> = Tiers { daily: 20_000, full: 100_000 };
const THREADS: usize = 4;

fn storm(table: &'static Table, len_bytes: usize, sizes: &'static [usize]) {
    let capacity = World::new(table, len_bytes, THREADS).capacity(THREADS, sizes[0]);
    let world = World::new(table, len_bytes, THREADS);
    let barrier = Barrier::new(THREADS);
    let longest = std::thread::scope(|scope| {
        let run = |number| {
            let (world, barrier) = (&world, &barrier);
            move || {
                let mut user = User::new(world, number, 0xACE);
                barrier.wait();
                for _ in 0..ACTS.now() {
                    user.act(sizes);
                    // No user keeps all memory.
                    while user.mine.len() > 64 {
                        let live = user.mine.swap_remove(0);
                        user.free(live);
                    }
                }
                watch::longest()
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(run(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("the user finishes")).max()
    });
    world.close(THREADS, sizes[0], capacity);
    println!("{}: {THREADS} threads, {} acts each, at most {longest:?} steps", table.name, ACTS.now());
}

/// With little memory.
pub fn short_of_memory(subject: &'static Subject) {
    storm(subject.watched, subject.small_bytes, subject.sizes);
}

/// With memory to spare, without counting steps.
pub fn with_memory_to_spare(subject: &'static Subject) {
    storm(subject.bare, subject.large_bytes, subject.sizes);
}

/// Threads come and go: each takes a slot that another left, and frees the blocks it finds.
pub fn threads_come_and_go(subject: &'static Subject) {
    let capacity = World::new(subject.bare, subject.large_bytes, THREADS).capacity(THREADS, subject.sizes[0]);
    let world = World::new(subject.bare, subject.large_bytes, THREADS);
    for generation in 0..ACTS.now() as u64 / 2_000 {
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let world = &world;
                scope.spawn(move || {
                    let mut user = User::new(world, number, generation);
                    (0..50).for_each(|_| user.act(subject.sizes));
                });
            }
        });
    }
    world.close(THREADS, subject.sizes[0], capacity);
}
