//! Whether a heap of a real allocator serves every program of a small world, by breadth-first search.
//!
//! A state is the heap's fingerprint together with the address and requested units of every live object. From each
//! state the search tries every request that the world allows and every free. If no state refuses a request, no program
//! of the world is ever refused; otherwise the path to the first refusal is a shortest program that is.
//!
//! The fingerprint is the whole state of a heap as far as its behaviour depends on it; the library's test suite
//! verifies that for every allocator (`tests/suite/explore.rs`). States are told apart by 128 bits of a hash: with 10^8
//! states, two different ones have the same hash with a probability below 10^-22.

use super::world::World;
use crate::observe::tiny::Tiny;
use crate::result::heap_size::Step;
use rtalloc_subjects::Unit;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use xxhash_rust::xxh3::xxh3_128;

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No program of the world is refused.
    NeverRefuses,
    /// A shortest program whose last request is refused.
    Refuses(Vec<Step>),
    /// There are too many states.
    Unknown,
}

/// Most units of a world: an object and a move are stored in a byte.
pub const MOST_UNITS: usize = 127;
/// A move is the number of units that are requested, or this and the position of the object that is freed.
const GIVE: u8 = 128;

/// Searches a fresh heap, with at most `most_states` states. Returns the outcome and the states found.
#[must_use]
pub fn search(tiny: &Tiny<'_>, unit: Unit, world: &World, most_states: usize) -> (Outcome, usize) {
    assert!(world.largest() <= MOST_UNITS, "at most {MOST_UNITS} units");
    let mut search = Search::new(tiny, unit);
    let mut frontier = Frontier::default();
    search.find(&mut frontier, &[], 0, 0);
    let (mut number, mut live) = (0, Vec::new());
    while !frontier.words.is_empty() {
        let mut next = Frontier::default();
        let mut rest = &frontier.words[..];
        while !rest.is_empty() {
            rest = search.load(rest);
            let requests = search.requests(world);
            let frees = (0..search.live.len()).map(|position| GIVE + position as u8);
            for step in requests.into_iter().chain(frees) {
                if !search.perform(step, &mut live) {
                    let states = search.moves.len();
                    return (Outcome::Refuses(search.path(number, step)), states);
                }
                search.find(&mut next, &live, number, step);
            }
            number += 1;
            if search.moves.len() > most_states {
                return (Outcome::Unknown, search.moves.len());
            }
        }
        frontier = next;
    }
    (Outcome::NeverRefuses, search.moves.len())
}

/// A live object: its address, relative to the region, and its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Object(u64);

impl Object {
    fn new(offset: usize, units: usize) -> Self {
        Self((offset as u64) << 8 | units as u64)
    }

    fn offset(self) -> usize {
        (self.0 >> 8) as usize
    }

    fn units(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

/// States to continue from: for each a word with the number of live objects and of changed words of memory, the live
/// objects, and the changed words, each with its index.
#[derive(Debug, Default)]
struct Frontier {
    words: Vec<u64>,
}

/// The words of a heap's memory, of which there is a whole number.
fn words_of(memory: &[u8]) -> &[[u8; 4]] {
    memory.as_chunks().0
}

struct Search<'t, 'r> {
    tiny: &'t Tiny<'r>,
    unit: Unit,
    fresh: Vec<u8>,
    known: HashSet<u128, BuildHasherDefault<Identity>>,
    /// For each state in the order found, the state before it and the move that led from there.
    parents: Vec<u32>,
    moves: Vec<u8>,
    /// Memory and live objects, in address order, of the state that is expanded.
    memory: Vec<u8>,
    changed: Vec<usize>,
    live: Vec<Object>,
    bytes: Vec<u8>,
}

impl<'t, 'r> Search<'t, 'r> {
    fn new(tiny: &'t Tiny<'r>, unit: Unit) -> Self {
        let fresh = tiny.memory().to_vec();
        Self {
            tiny,
            unit,
            memory: fresh.clone(),
            fresh,
            known: HashSet::default(),
            parents: Vec::new(),
            moves: Vec::new(),
            changed: Vec::new(),
            live: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The requests that a world allows in the state that is expanded.
    fn requests(&self, world: &World) -> Vec<u8> {
        let is_allowed = |units: &usize| {
            let mut live: Vec<usize> = self.live.iter().map(|object| object.units()).chain([*units]).collect();
            world.allows(&mut live)
        };
        (1..=world.largest()).filter(is_allowed).map(|units| units as u8).collect()
    }

    /// Makes the first state of the frontier the one to expand; returns the others.
    fn load<'f>(&mut self, frontier: &'f [u64]) -> &'f [u64] {
        let (memory, fresh) = (self.memory.as_chunks_mut().0, words_of(&self.fresh));
        for index in self.changed.drain(..) {
            memory[index] = fresh[index];
        }
        let (objects, rest) = frontier[1..].split_at((frontier[0] >> 32) as usize);
        let (changes, rest) = rest.split_at((frontier[0] & 0xffff_ffff) as usize);
        self.live.clear();
        self.live.extend(objects.iter().map(|&object| Object(object)));
        for &change in changes {
            let index = (change >> 32) as usize;
            memory[index] = (change as u32).to_le_bytes();
            self.changed.push(index);
        }
        rest
    }

    /// Performs a move in the state that is expanded. Returns whether the request was served, and leaves in `live` the
    /// objects that are live afterwards.
    fn perform(&self, step: u8, live: &mut Vec<Object>) -> bool {
        self.tiny.restore(&self.memory);
        let (entries, context) = (&self.tiny.heap.entries, self.tiny.heap.context);
        live.clear();
        live.extend_from_slice(&self.live);
        if step < GIVE {
            let units = usize::from(step);
            let bytes = self.unit.request_bytes(units);
            // SAFETY: the heap is live, and at least one byte is requested at its natural alignment.
            let block = unsafe { (entries.allocate)(context, bytes, entries.natural_align_bytes) };
            if block.is_null() {
                return false;
            }
            let object = Object::new(block as usize - self.tiny.heap.region_start, units);
            let position = live.partition_point(|other| *other < object);
            live.insert(position, object);
        } else {
            let object = live.remove(usize::from(step - GIVE));
            let block = (self.tiny.heap.region_start + object.offset()) as *mut u8;
            let bytes = self.unit.request_bytes(object.units());
            // SAFETY: the block is live in this state, and was requested with this size and alignment.
            unsafe { (entries.deallocate)(context, block, bytes, entries.natural_align_bytes) };
        }
        true
    }

    /// Adds the heap's state to the frontier unless it is known.
    fn find(&mut self, frontier: &mut Frontier, live: &[Object], parent: usize, step: u8) {
        let Self { bytes, tiny, .. } = self;
        bytes.clear();
        tiny.fingerprint(&mut |word| bytes.extend_from_slice(&word.to_le_bytes()));
        // Objects come after all words of the fingerprint, their number last: no two lists are the same bytes.
        for object in live {
            bytes.extend_from_slice(&object.0.to_le_bytes());
        }
        bytes.extend_from_slice(&live.len().to_le_bytes());
        if !self.known.insert(xxh3_128(&self.bytes)) {
            return;
        }
        self.parents.push(u32::try_from(parent).expect("fewer than 2^32 states"));
        self.moves.push(step);
        let begin = frontier.words.len();
        frontier.words.push(0);
        frontier.words.extend(live.iter().map(|object| object.0));
        let (memory, fresh) = (words_of(self.tiny.memory()), words_of(&self.fresh));
        for index in 0..fresh.len() {
            if memory[index] != fresh[index] {
                frontier.words.push((index as u64) << 32 | u64::from(u32::from_le_bytes(memory[index])));
            }
        }
        let changes = frontier.words.len() - begin - 1 - live.len();
        frontier.words[begin] = (live.len() as u64) << 32 | changes as u64;
    }

    /// The moves from the fresh heap to a state and the one after it. Objects get numbers in the order of their
    /// requests, so the moves are performed again.
    fn path(&mut self, number: usize, last: u8) -> Vec<Step> {
        let mut moves = vec![last];
        let mut at = number;
        while at > 0 {
            moves.push(self.moves[at]);
            at = self.parents[at] as usize;
        }
        moves.reverse();
        self.memory.copy_from_slice(&self.fresh);
        self.live.clear();
        let mut numbers: Vec<(Object, usize)> = Vec::new();
        let (mut steps, mut live, mut requests) = (Vec::new(), Vec::new(), 0);
        for step in moves {
            self.perform(step, &mut live);
            if step < GIVE {
                steps.push(Step::Take(usize::from(step)));
                let placed = live.iter().find(|object| !self.live.contains(object));
                numbers.extend(placed.map(|object| (*object, requests)));
                requests += 1;
            } else {
                let object = self.live[usize::from(step - GIVE)];
                let position = numbers.iter().position(|(other, _)| *other == object).expect("a live object");
                steps.push(Step::Give(numbers.swap_remove(position).1));
            }
            self.live.clone_from(&live);
            self.memory.copy_from_slice(self.tiny.memory());
        }
        steps
    }
}

/// The lower half of a hash is hash enough.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u128");
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}
