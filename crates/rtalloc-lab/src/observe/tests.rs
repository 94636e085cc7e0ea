//! The drivers use every subject correctly; the arrangements they claim are those of the heaps.

use super::directed::{self, Case, ListState, Neighbour};
use super::explore::{self, Explored, Scope};
use super::{Meter, Script, Stage, scenario, search};
use crate::replay::{self, Observer, Replay};
use crate::tier::is_full;
use crate::trace::{Event, Op};
use rtalloc::contract::Block;
use rtalloc::mechanism::size_class::{Classes, TwoLevelClasses};
use rtalloc::mechanism::word::Offset32;
use rtalloc_subjects::{Heap, Region, Subject, all, select};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Counts nothing: for tests that need no counts.
struct Nothing;

impl Meter for Nothing {
    fn executed(&self) -> u64 {
        0
    }
    fn covered(&self) -> usize {
        0
    }
}

fn subject(name: &str) -> &'static Subject {
    select(&[name]).expect("a subject")[0]
}

fn with_region() -> impl Iterator<Item = &'static Subject> {
    all().iter().filter(|subject| !subject.own_pages)
}

#[test]
fn every_driver_uses_every_subject_correctly() {
    for subject in with_region().filter(|subject| subject.about.in_dozen || is_full()) {
        let mut stage = Stage::new(subject, &Nothing).expect("memory").verifying();
        let mut scenarios = 0;
        scenario::drive(&mut stage, 64 << 10, |_, _| scenarios += 1)
            .unwrap_or_else(|error| panic!("{}: {error}", subject.name));
        assert_eq!(scenarios, scenario::of(subject).count(), "{}", subject.name);
        directed::drive(&mut stage, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
        search::drive(&mut stage, 200_000, |_| {}).unwrap_or_else(|error| panic!("{}: {error}", subject.name));
    }
}

#[test]
fn subjects_with_their_own_pages_are_declined() {
    let system = Stage::new(subject("system"), &Nothing);
    assert!(system.is_err_and(|error| error.to_string().contains("system")));
    let peer = explore::drive(subject("rlsf"), &Nothing, &Scope::of_suite(&contract("tlsf")), |_| {});
    assert!(peer.is_err_and(|error| error.to_string().contains("rlsf")));
}

fn contract(name: &str) -> rtalloc::contract::Contract {
    subject(name).view.expect("ours").contract
}

/// The library's test suite explores the same scope with the types themselves and pins the same numbers.
#[test]
fn exploration_agrees_with_the_suite() {
    for (name, states, transitions, depth) in
        [("tlsf", 22_854, 657_425, 11), ("half-fit", 23_310, 667_175, 11), ("first-fit-address", 9434, 270_535, 11)]
    {
        let scope = Scope::of_suite(&contract(name));
        let explored = explore::drive(subject(name), &Nothing, &scope, |_| {}).expect("ours");
        assert_eq!(explored, Explored { states, transitions, depth, complete: true }, "{name}");
    }
}

/// More requests at a large alignment do not lead to further states.
#[test]
fn exploration_with_alignments_is_pinned() {
    for (name, states, transitions) in [("tlsf", 22_854, 918_677), ("half-fit", 23_310, 935_875)] {
        let scope = Scope::aligned(&contract(name));
        let explored = explore::drive(subject(name), &Nothing, &scope, |_| {}).expect("ours");
        assert_eq!(explored, Explored { states, transitions, depth: 11, complete: true }, "{name}");
    }
}

/// Requests and refusals are the same in every run, also on another region.
#[test]
fn every_run_is_the_same() {
    for name in ["tlsf", "talc", "dlmalloc"] {
        let [first, second] = [(); 2].map(|()| {
            let mut stage = Stage::new(subject(name), &Nothing).expect("memory");
            let mut digest = DefaultHasher::new();
            let searched = search::drive(&mut stage, 50_000, |observation| observation.to_string().hash(&mut digest));
            (searched.expect("a correct allocator"), digest.finish())
        });
        assert_eq!(first, second, "{name}");
    }
}

/// The results of a script's operations.
#[derive(Default)]
struct Outcomes {
    addresses: HashMap<u64, usize>,
    refused: u64,
}

impl Observer for Outcomes {
    fn granted(&mut self, _heap: &Heap<'_>, index: u64, block: &replay::Block, _old_size: Option<usize>) {
        self.addresses.insert(index, block.address);
    }
    fn refused(&mut self, _index: u64, _beyond_reach: bool) {
        self.refused += 1;
    }
}

/// The blocks of a heap after `events`, in order, and the results of the events.
fn blocks_after(subject: &Subject, region: &mut Region, events: &[Event]) -> (Vec<Block>, Outcomes) {
    let heap = Heap::new(subject, region, directed::HEAP_BYTES).expect("large enough");
    let mut outcomes = Outcomes::default();
    Replay::new().run::<false, _>(&heap, events, &mut outcomes).expect("a correct allocator");
    let mut blocks = Vec::new();
    // SAFETY: the context is that of the live heap.
    unsafe { (subject.view.expect("ours").walk)(heap.context, &mut |block| blocks.push(block)) };
    (blocks, outcomes)
}

fn class(block: &Block) -> usize {
    TwoLevelClasses::<5>::class_of::<Offset32>(block.size_bytes).number()
}

/// Asserts that the list of a free block is in the given state.
fn assert_list_state(case: &Case, blocks: &[Block], block: &Block, list_state: ListState) {
    let others = || blocks.iter().filter(|other| other.free && other.address != block.address);
    let in_list = others().filter(|other| class(other) == class(block)).count();
    let in_range = others().filter(|other| other.size_bytes.ilog2() == block.size_bytes.ilog2()).count();
    let is_so = match list_state {
        ListState::Alone => in_range == 0,
        ListState::Older | ListState::Younger => in_list >= 1,
        ListState::Both => in_list >= 2,
        ListState::Range => in_range > in_list,
    };
    assert!(is_so, "{case}: {block:?} is not {list_state} among {blocks:?}");
}

fn is_of(block: &Block, size: usize) -> bool {
    block.free && (size..size + 16).contains(&block.usable_bytes)
}

fn assert_neighbour(case: &Case, blocks: &[Block], at: Option<usize>, said: Neighbour) {
    let block = at.and_then(|at| blocks.get(at));
    match said {
        Neighbour::Live => assert!(block.is_some_and(|block| !block.free), "{case}: {blocks:?}"),
        // Nothing before, or the rest of the heap after.
        Neighbour::Edge => {
            assert!(block.is_none_or(|block| block.free && at == Some(blocks.len() - 1)), "{case}: {blocks:?}");
        }
        Neighbour::Free { size, .. } => assert!(block.is_some_and(|block| is_of(block, size)), "{case}: {blocks:?}"),
    }
}

/// Inspects TLSF's heap before and after the last operation of every case.
#[test]
fn cases_match_their_description() {
    let subject = subject("tlsf-exact");
    let mut region = Region::new(directed::HEAP_BYTES, false).expect("memory");
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    directed::each(&mut |case: &Case, script: &Script| -> Result<(), ()> {
        let mut saw = |what: &'static str, is_so: bool| *seen.entry(what).or_default() += usize::from(is_so);
        let (last, preparation) = script.events().split_last().expect("operations");
        let (before, prepared) = blocks_after(subject, &mut region, preparation);
        let (after, outcomes) = blocks_after(subject, &mut region, script.events());
        let served = outcomes.addresses.get(&(preparation.len() as u64)).copied();
        let is_refused = outcomes.refused > prepared.refused;
        // The block of the last operation, and its slot.
        let own = match last.op {
            Op::Free { slot } | Op::Reallocate { slot, .. } => {
                preparation.iter().position(|event| matches!(event.op, Op::Allocate { slot: made, .. } if made == slot))
            }
            Op::Allocate { .. } => None,
        };
        let own = own.map(|index| prepared.addresses[&(index as u64)]);
        let at = own.and_then(|own| before.iter().position(|block| block.address == own));
        let at_of = |blocks: &[Block], address: usize| blocks.iter().position(|block| block.address == address);
        if let Case::Deallocate { place, .. } | Case::Reallocate { place, .. } = *case {
            let at = at.expect("a live block");
            // Alignment leaves a gap before the block, which merges with a free block there.
            if !place.is_aligned() {
                assert_neighbour(case, &before, at.checked_sub(1), place.before);
            } else if let Some(size) = place.before.free_size() {
                assert!(before[at - 1].free && before[at - 1].usable_bytes >= size, "{case}: {before:?}");
            }
            assert_neighbour(case, &before, Some(at + 1), place.after);
        }
        match *case {
            Case::Deallocate { place, merged } => {
                let at = at.expect("a live block");
                let became = after
                    .iter()
                    .find(|block| block.free && block.address + block.size_bytes > before[at].address)
                    .expect("a free block");
                let has_others =
                    |neighbour| matches!(neighbour, Neighbour::Free { list_state, .. } if list_state != ListState::Alone);
                if merged != ListState::Alone || !(has_others(place.before) || has_others(place.after)) {
                    assert_list_state(case, &after, became, merged);
                }
                let mut isolated = 0;
                for (at, neighbour) in [(at.wrapping_sub(1), place.before), (at + 1, place.after)] {
                    if let Neighbour::Free { list_state, .. } = neighbour
                        && (merged == ListState::Alone || list_state != ListState::Alone)
                    {
                        assert_list_state(case, &before, &before[at], list_state);
                        let leaf = |block: &&Block| block.free && class(block) / 64 == class(&before[at]) / 64;
                        isolated += usize::from(before.iter().filter(leaf).count() == 1);
                    }
                }
                let leaf = |block: &&Block| block.free && class(block) / 64 == class(became) / 64;
                saw("freed, each alone in its word of bits", isolated == 2 && after.iter().filter(leaf).count() == 1);
            }
            Case::Allocate { hole: Some((size, list_state)), rest, full, .. } => {
                let hole = before.iter().find(|block| is_of(block, size)).expect("a hole");
                if rest == ListState::Alone {
                    assert_list_state(case, &before, hole, list_state);
                }
                let rest_of_heap = before.last().expect("blocks");
                assert_eq!(full, !rest_of_heap.free || rest_of_heap.usable_bytes < size, "{case}: {before:?}");
                // A search that begins at the next class's boundary may miss the hole.
                let Some(served) = served else {
                    assert!(full && is_refused, "{case}");
                    return Ok(());
                };
                let found = &before[at_of(&before, served).expect("a free block")];
                let left = &after[at_of(&after, served).expect("a live block") + 1];
                if is_of(found, size) && left.free {
                    // The smallest block is alone in its power-of-two range.
                    if list_state == ListState::Alone && (rest != ListState::Range || left.size_bytes > 16) {
                        assert_list_state(case, &after, left, rest);
                    }
                    saw("allocated, with a rest", true);
                }
                saw("allocated, the whole block", is_of(found, size) && !left.free);
            }
            Case::AllocateAligned { hole: Some((size, _)), .. } => {
                assert!(before.iter().any(|block| is_of(block, size)), "{case}: {before:?}");
                let at = at_of(&after, served.expect("room")).expect("a live block");
                let (gap, rest) = (after[at - 1].free, after[at + 1].free);
                saw("aligned, gap and rest", gap && rest);
                saw("aligned, gap alone", gap && !rest);
                saw("aligned, rest alone", !gap && rest);
            }
            Case::Reallocate { place, new, .. } => {
                let kept = served == own;
                let next_was_free = place.after.free_size().is_some();
                saw("reallocated, shrunk with a live next block", kept && new < place.own && !next_was_free);
                saw("reallocated, shrunk with a free next block", kept && new < place.own && next_was_free);
                saw("reallocated, grown in place", kept && new > place.own);
                saw("reallocated, moved", served.is_some() && !kept);
                saw("reallocated, refused", is_refused);
            }
            Case::Refused { full, .. } => {
                saw("refused, full", full && is_refused);
                saw("refused, impossible", !full && is_refused);
            }
            Case::Allocate { hole: None, .. } | Case::AllocateAligned { hole: None, .. } => {
                assert!(served.is_some(), "{case}");
            }
        }
        Ok(())
    })
    .expect("no error");
    println!("{seen:#?}");
    assert!(seen.len() == 13 && seen.values().all(|&times| times >= 50), "{seen:#?}");
}
