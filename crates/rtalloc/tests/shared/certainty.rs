//! Where exhaustion is certain, no request reports it while a block is free.

use crate::schedules;
use crate::subject::Subject;
use crate::tier::Tiers;
use crate::world::{Random, User, World};
use rtalloc::contract::SharedError;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::Arc;

const SCHEDULES: Tiers<usize> = Tiers { daily: 500, full: 4_000 };
const USERS: usize = 3;

/// A block is free for every user at every moment, so no request may report exhaustion.
fn enough_for_all(subject: &'static Subject, scheduler: impl Scheduler + 'static) -> usize {
    schedules::run(scheduler, || {
        let world = World::new(subject.watched, subject.small_bytes, USERS);
        let size_bytes = subject.sizes[0];
        let mut first = User::new(&world, 0, 1);
        let mut held: Vec<_> = std::iter::from_fn(|| first.allocate(size_bytes, 1).ok()).collect();
        assert!(held.len() >= USERS, "a block for every user");
        for _ in 0..USERS {
            let index = first.random.below(held.len());
            let live = held.swap_remove(index);
            first.free(live);
        }
        first.mine = held;
        drop(first);
        schedules::begin(schedules::switch);
        let threads: Vec<_> = (0..USERS)
            .map(|number| {
                let world = Arc::clone(&world);
                shuttle::thread::spawn(move || {
                    let mut random = Random(number as u64);
                    for _ in 0..4 {
                        // Slots are hints: a user that begins each search at another place sees the changes of others.
                        let mut user = User::new(&world, random.below(8), 1);
                        match user.allocate(size_bytes, 1) {
                            Ok(live) => user.free(live),
                            Err(SharedError::Exhausted) => {
                                panic!("reported exhaustion while a block was free all the time")
                            }
                            Err(_) => {}
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the user finishes"));
        schedules::end();
    })
}

/// For heaps whose users share all memory.
pub fn exhaustion_is_certain(subject: &'static Subject) {
    let contract = subject.contract;
    if !contract.exhaustion_is_certain || contract.slots_are_exclusive {
        return;
    }
    let executions = enough_for_all(subject, RandomScheduler::new_from_seed(0x5EED, SCHEDULES.now()))
        + enough_for_all(subject, PctScheduler::new_from_seed(0x5EED, 3, SCHEDULES.now()));
    println!("{}: never exhausted in {executions} schedules", contract.single_user.name);
}
