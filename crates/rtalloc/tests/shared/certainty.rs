//! Where exhaustion is certain, no request reports it while a block is free.
//!
//! What that means depends on whom free memory serves. Where users share all memory, a free block serves any of them.
//! Where slots are exclusive, a run of chunks in the pool does, and a queued free serves the slot that owns the block.

use crate::schedules;
use crate::subject::Subject;
use crate::tier::Tiers;
use crate::world::{Live, Random, User, World};
use rtalloc::contract::SharedError;
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::sync::{Arc, Mutex};

const SCHEDULES: Tiers<usize> = Tiers { daily: 500, full: 4_000 };
const USERS: usize = 3;
/// Heaps with exclusive slots: a region whose pool has several words, so that a search is not one step.
const REGION_BYTES: usize = 0x1_0000;

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

/// Fills the heap with blocks of one chunk each, which no slot owns.
fn fill(world: &Arc<World>, chunk_bytes: usize) -> Vec<Live> {
    let mut first = User::new(world, 0, 1);
    let all: Vec<_> = std::iter::from_fn(|| first.allocate(chunk_bytes, 1).ok()).collect();
    assert!(4 * all.len() * chunk_bytes >= 3 * REGION_BYTES, "{} blocks of a chunk each", all.len());
    all
}

/// Answers that a search gave.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    served: usize,
    contended: usize,
    pending: usize,
}

impl Answers {
    /// Counts an answer, which must not be exhaustion, and returns the block.
    fn count(&mut self, answer: Result<Live, SharedError>) -> Option<Live> {
        match answer {
            Ok(live) => {
                self.served += 1;
                return Some(live);
            }
            Err(SharedError::Contended) => self.contended += 1,
            Err(SharedError::Pending) => self.pending += 1,
            Err(error) => panic!("{error}, while memory was free for this user all the time"),
        }
        None
    }
}

/// One chunk is free, in the pool's last word; searches begin at the first. A user frees a chunk there and then takes
/// the other, where a block of its own grows; and back again. So a chunk is free whenever another user searches.
fn a_chunk_is_free(
    subject: &'static Subject,
    scheduler: impl Scheduler + 'static,
    total: &Arc<Mutex<Answers>>,
) -> usize {
    let total = total.clone();
    schedules::run(scheduler, move || {
        let world = World::new(subject.watched, REGION_BYTES, 2);
        let chunk_bytes = subject.contract.single_user.page_bytes;
        let mut all = fill(&world, chunk_bytes);
        all.sort_by_key(|live| live.pointer);
        let mut first = User::new(&world, 0, 1);
        first.free(all.pop().expect("many blocks"));
        drop(first);
        let (mut before, mut low) = (all.pop().expect("many blocks"), all.remove(0));
        schedules::begin(schedules::switch);
        let mover = {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || {
                let mut user = User::new(&world, 1, 1);
                for _ in 0..3 {
                    user.free(low);
                    before = user.resize(before, 2 * chunk_bytes);
                    before = user.resize(before, chunk_bytes);
                    let Ok(again) = user.allocate(chunk_bytes, 1) else { break };
                    low = again;
                }
            })
        };
        let mut user = User::new(&world, 0, 1);
        for _ in 0..4 {
            let answer = user.allocate(chunk_bytes, 1);
            let served = total.lock().expect("no thread panicked").count(answer);
            served.into_iter().for_each(|live| user.free(live));
        }
        mover.join().expect("the user finishes");
        schedules::end();
    })
}

/// One chunk is left in the pool. Every other user frees a block of the first, which is queued, and then takes that
/// chunk: so a chunk is in the pool or a free is queued whenever the first searches.
fn a_free_is_queued(
    subject: &'static Subject,
    scheduler: impl Scheduler + 'static,
    total: &Arc<Mutex<Answers>>,
) -> usize {
    let total = total.clone();
    schedules::run(scheduler, move || {
        let world = World::new(subject.watched, REGION_BYTES, USERS);
        let chunk_bytes = subject.contract.single_user.page_bytes;
        // Has a chunk for itself, in a piece: there is room for what a piece loses.
        let size_bytes = chunk_bytes - chunk_bytes / 8;
        let mut owner = User::new(&world, 0, 1);
        let queued: Vec<_> =
            (1..USERS).map(|_| owner.allocate(size_bytes, 1).expect("a fresh heap has room")).collect();
        drop(owner);
        let one = fill(&world, chunk_bytes).pop().expect("many blocks");
        User::new(&world, 0, 1).free(one);
        schedules::begin(schedules::switch);
        let others: Vec<_> = (1..)
            .zip(queued)
            .map(|(number, live)| {
                let world = Arc::clone(&world);
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, 1);
                    user.free(live);
                    let taken = user.allocate(chunk_bytes, 1);
                    user.mine.extend(taken);
                })
            })
            .collect();
        let mut owner = User::new(&world, 0, 1);
        let answer = owner.allocate(size_bytes, 1);
        owner.mine.extend(total.lock().expect("no thread panicked").count(answer));
        others.into_iter().for_each(|other| other.join().expect("the user finishes"));
        schedules::end();
    })
}

/// For every heap that promises it.
pub fn exhaustion_is_certain(subject: &'static Subject) {
    let contract = subject.contract;
    let name = contract.single_user.name;
    if !contract.exhaustion_is_certain {
        println!("{name}: does not promise it");
        return;
    }
    let random = || RandomScheduler::new_from_seed(0x5EED, SCHEDULES.now());
    let priorities = || PctScheduler::new_from_seed(0x5EED, 3, SCHEDULES.now());
    if !contract.slots_are_exclusive {
        let executions = enough_for_all(subject, random()) + enough_for_all(subject, priorities());
        println!("{name}: never exhausted in {executions} schedules");
        return;
    }
    let chunks = Arc::default();
    let executions = a_chunk_is_free(subject, random(), &chunks) + a_chunk_is_free(subject, priorities(), &chunks);
    let queued = Arc::default();
    let executions =
        executions + a_free_is_queued(subject, random(), &queued) + a_free_is_queued(subject, priorities(), &queued);
    let [chunks, queued] = [chunks, queued].map(|answers| *answers.lock().expect("no thread panicked"));
    println!("{name}: never exhausted in {executions} schedules; a chunk is free: {chunks:?}; or queued: {queued:?}");
    // Otherwise no search came close to the wrong answer.
    assert!(chunks.served > 0 && chunks.contended > 0, "a chunk is free: {chunks:?}");
    assert!(queued.served > 0 && queued.pending > 0, "a free is queued: {queued:?}");
}
