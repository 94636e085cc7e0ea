//! Threads of the operating system who do this and that, as fast as they can.

use crate::watch;
use crate::world::{Family, User, World};
use rtalloc::contract::SharedAllocator;
use std::sync::Barrier;

/// What each thread does.
const ACTS: usize = if cfg!(debug_assertions) { 20_000 } else { 400_000 };
const THREADS: usize = 4;

fn storm<H: SharedAllocator<'static> + 'static>(len_bytes: usize, config: H::Config, sizes: &'static [usize]) {
    let capacity = World::<H>::new(len_bytes, config).capacity(THREADS, sizes[0]);
    let world = World::<H>::new(len_bytes, config);
    let barrier = Barrier::new(THREADS);
    let longest = std::thread::scope(|scope| {
        let run = |number| {
            let (world, barrier) = (&world, &barrier);
            move || {
                let mut user = User::new(world, number, 0xACE);
                barrier.wait();
                for _ in 0..ACTS {
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
        threads.into_iter().map(|thread| thread.join().expect("a user who ends")).max()
    });
    world.close(THREADS, sizes[0], capacity);
    println!("{}: {THREADS} threads, {ACTS} acts each, at most {longest:?} steps", H::CONTRACT.alone.name);
}

/// Where memory is short.
pub fn short_of_memory<F: Family>() {
    storm::<F::Watched>(F::SMALL_BYTES, F::config(THREADS), F::SIZES);
}

/// Where it is not, and nobody counts steps.
pub fn with_memory_to_spare<F: Family>() {
    storm::<F::Bare>(F::LARGE_BYTES, F::config(THREADS), F::SIZES);
}

/// Threads come and go: each takes a slot that somebody left, and frees what it finds.
pub fn threads_come_and_go<F: Family>() {
    let capacity = World::<F::Bare>::new(F::LARGE_BYTES, F::config(THREADS)).capacity(THREADS, F::SIZES[0]);
    let world = World::<F::Bare>::new(F::LARGE_BYTES, F::config(THREADS));
    for generation in 0..ACTS as u64 / 2_000 {
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let world = &world;
                scope.spawn(move || {
                    let mut user = User::new(world, number, generation);
                    (0..50).for_each(|_| user.act(F::SIZES));
                });
            }
        });
    }
    world.close(THREADS, F::SIZES[0], capacity);
}
