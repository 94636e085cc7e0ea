//! The history rule (the paper's 3.4.2): a single user could have done what several did without a refusal, in an order
//! in which no operation precedes one that had ended when it began.

use crate::schedules;
use crate::subject::Subject;
use crate::tier::Tiers;
use crate::world::{User, World};
use shuttle::scheduler::RandomScheduler;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const SCHEDULES: Tiers<usize> = Tiers { daily: 300, full: 2_000 };
const USERS: usize = 3;

/// An operation and its times.
#[derive(Clone, Copy, Debug)]
struct Event {
    begun: usize,
    done: usize,
    user: usize,
    act: Act,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Allocated a block of a size, identified by a number.
    Allocate(usize, usize),
    /// Freed the block of that number.
    Free(usize),
}

/// Whether one user after the other can do the rest of a history; `blocks` are the live ones, by number.
fn is_possible(world: &World, rest: &mut Vec<Event>, blocks: &mut Vec<(usize, NonNull<u8>)>) -> bool {
    if rest.is_empty() {
        return true;
    }
    let first_done = rest.iter().map(|event| event.done).min().expect("not empty");
    for index in 0..rest.len() {
        if rest[index].begun > first_done {
            continue;
        }
        // SAFETY: no operation is running.
        let image = unsafe { world.image() };
        let event = rest.swap_remove(index);
        // SAFETY: no operation is running, so no other caller has the slot.
        let mut slot = unsafe { world.heap.slot(event.user) };
        let known = blocks.clone();
        let is_done = match event.act {
            Act::Allocate(size_bytes, number) => {
                let answer = slot.allocate_bytes(size_bytes, 1);
                blocks.extend(answer.ok().map(|pointer| (number, pointer)));
                answer.is_ok()
            }
            Act::Free(number) => {
                let at = blocks.iter().position(|&(other, _)| other == number);
                if let Some(at) = at {
                    let (_, pointer) = blocks.swap_remove(at);
                    // SAFETY: the block is live in this history.
                    unsafe { slot.deallocate(pointer) };
                }
                at.is_some()
            }
        };
        let is_possible = is_done && is_possible(world, rest, blocks);
        rest.push(event);
        let last = rest.len() - 1;
        rest.swap(index, last);
        *blocks = known;
        // SAFETY: no operation is running, and the image is of this world.
        unsafe { world.restore(&image) };
        if is_possible {
            return true;
        }
    }
    false
}

/// Histories of three users who allocate and free.
pub fn without_refusal(subject: &'static Subject) {
    let judged = Arc::new(AtomicUsize::new(0));
    let count = judged.clone();
    let seeds = AtomicUsize::new(0);
    let executions = schedules::run(RandomScheduler::new_from_seed(0x415, SCHEDULES.now()), move || {
        let seed = seeds.fetch_add(1, Ordering::Relaxed) as u64;
        let world = World::new(subject.watched, subject.small_bytes, USERS);
        // SAFETY: no operation is running.
        let fresh = unsafe { world.image() };
        let history = Arc::new(Mutex::new(Vec::new()));
        let clock = Arc::new(AtomicUsize::new(0));
        schedules::begin(schedules::switch);
        let threads: Vec<_> = (0..USERS)
            .map(|number| {
                let (world, history, clock) = (Arc::clone(&world), history.clone(), clock.clone());
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, seed);
                    let now = || clock.fetch_add(1, Ordering::Relaxed);
                    for turn in 0..3 {
                        let size_bytes = subject.sizes[user.random.below(subject.sizes.len())];
                        let begun = now();
                        let name = number * 10 + turn;
                        let (live, is_freed) = (user.allocate(size_bytes, 1), user.random.below(2) == 0);
                        let Ok(live) = live else { return };
                        let allocate = Act::Allocate(size_bytes, name);
                        let event = Event { begun, done: now(), user: number, act: allocate };
                        history.lock().expect("no thread panicked").push(event);
                        if !is_freed {
                            user.mine.push(live);
                            continue;
                        }
                        let begun = now();
                        user.free(live);
                        let event = Event { begun, done: now(), user: number, act: Act::Free(name) };
                        history.lock().expect("no thread panicked").push(event);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the user finishes"));
        schedules::end();
        if world.heap.refusals() != Default::default() {
            return;
        }
        judged.fetch_add(1, Ordering::Relaxed);
        let mut events = history.lock().expect("no thread panicked").clone();
        // Tries the order of their ends first, which obeys the rule.
        events.sort_by_key(|event| event.done);
        // SAFETY: the users are gone.
        unsafe { world.restore(&fresh) };
        assert!(is_possible(&world, &mut events, &mut Vec::new()), "no single user could have done {events:#?}");
    });
    let judged = count.load(Ordering::Relaxed);
    println!("{}: {judged} histories without refusal of {executions}", subject.name());
    assert!(judged > executions / 20, "{judged} histories of {executions}: nearly all had refusals");
}
