//! A refusal gives the right reason.

use crate::subject::Subject;
use crate::world::{User, World};
use rtalloc::contract::SharedError;

/// With one user, a refused request could not have been served, and a heap that can be certain says so; freed memory
/// can be allocated again.
pub fn alone(subject: &'static Subject) {
    let world = World::new(subject.watched, subject.small_bytes, 1);
    let mut user = User::new(&world, 0, 1);
    // What a heap that is not certain answers.
    let uncertain =
        if subject.contract.exhaustion_is_certain { SharedError::Exhausted } else { SharedError::Contended };
    let mut held = Vec::new();
    for turn in 0..400 {
        let size_bytes = subject.sizes[user.random.below(subject.sizes.len())];
        if turn % 3 == 2 && !held.is_empty() {
            let index = user.random.below(held.len());
            user.free(held.swap_remove(index));
            continue;
        }
        match user.allocate(size_bytes, 1) {
            Ok(live) => held.push(live),
            Err(error) if error == SharedError::Exhausted || error == uncertain => {
                // SAFETY: no operation is running.
                let largest_bytes = unsafe { world.heap.largest_allocatable() };
                assert!(largest_bytes < size_bytes, "{error}: {size_bytes} bytes, but {largest_bytes} are allocatable");
            }
            // There is no other user to contend with or to wait for.
            Err(error) => panic!("{size_bytes} bytes: {error}"),
        }
    }
    held.into_iter().for_each(|live| user.free(live));
}

/// The owner gets blocks that another user freed, after a bounded number of refusals as pending.
pub fn freed_by_another(subject: &'static Subject) {
    let world = World::new(subject.watched, subject.small_bytes, 2);
    let (mut owner, mut other) = (User::new(&world, 0, 1), User::new(&world, 1, 1));
    let size_bytes = subject.sizes[0];
    for _ in 0..50 {
        let mut held: Vec<_> = std::iter::from_fn(|| owner.allocate(size_bytes, 1).ok()).collect();
        let count = held.len();
        assert!(count > 0, "a heap serves");
        let live = held.swap_remove(owner.random.below(count));
        other.free(live);
        let answer = owner.allocate(size_bytes, 1);
        held.push(answer.unwrap_or_else(|error| panic!("{error}, although a block was freed")));
        // All of them; every refusal in between is `Pending`.
        held.into_iter().for_each(|live| other.free(live));
        let mut refused = 0;
        let mut again = Vec::new();
        while again.len() < count {
            match owner.allocate(size_bytes, 1) {
                Ok(live) => again.push(live),
                Err(SharedError::Pending) if refused < count => refused += 1,
                Err(error) => panic!("{error}, after {} of {count} blocks and {refused} refusals", again.len()),
            }
        }
        again.into_iter().for_each(|live| owner.free(live));
    }
}

/// The same for a request that many of the freed blocks must coalesce for: until it is served, every refusal is
/// pending, also while the owner has collected frees but not processed them.
pub fn larger_than_freed(subject: &'static Subject) {
    let world = World::new(subject.watched, subject.small_bytes, 2);
    let (mut owner, mut other) = (User::new(&world, 0, 1), User::new(&world, 1, 1));
    let [smallest, largest] =
        [subject.sizes.iter().min(), subject.sizes.iter().max()].map(|size| *size.expect("sizes"));
    let held: Vec<_> = std::iter::from_fn(|| owner.allocate(smallest, 1).ok()).collect();
    let count = held.len();
    held.into_iter().for_each(|live| other.free(live));
    for refused in 0.. {
        match owner.allocate(largest, 1) {
            Ok(live) => {
                owner.free(live);
                return;
            }
            Err(SharedError::Pending) if refused < count => {}
            Err(error) => panic!("{error}, after {refused} refusals, although all of {count} blocks were freed"),
        }
    }
}
