//! Derives Compact-fit's parameters from a trace: the program analysis that the paper leaves as future work (section
//! 6).
//!
//! Size classes are independent except for the shared pool of pages. So each class is modelled alone, for each
//! max_nr_nf_pages under consideration, by the rules of section 3.4 and the library's order of page-blocks: the objects
//! moved and the number of pages after each operation. A test compares the model with the allocator.
//!
//! The limit that avoids all moves needs no search: with an unlimited number of not-full pages, the maximum after any
//! free is the smallest limit that never triggers a move. Proposition 1's bound (the maximum number of frees without an
//! allocation, plus one), plus one more for the order of pages by half (see the library's `classes`), is never smaller.

use crate::result::tune::{Allocatable, Choice, Class, Room, Tuning};
use crate::trace::{Event, Op};
use rtalloc::compact_fit::Ladder;
use std::collections::BTreeMap;

/// The layout parameters of the allocator that the model needs.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes of a page-block, by class.
    pub classes: Vec<usize>,
    /// Bytes of a page-block that the object cannot use.
    pub reference_bytes: usize,
    /// Abstract addresses per page.
    pub entries: usize,
}

impl Shape {
    /// The layout of the moving implementation with a ladder: a back reference of four bytes, and an abstract address
    /// of two words.
    #[must_use]
    pub fn moving<L: Ladder>() -> Self {
        let classes = L::TABLE[..L::CLASSES].iter().map(|class| class.block_bytes as usize).collect();
        Self { page_bytes: L::PAGE, classes, reference_bytes: 4, entries: L::PAGE / 16 }
    }

    /// The class of an object; `None` if it is larger than a page.
    #[must_use]
    pub fn class_of(&self, size: u64) -> Option<usize> {
        let bytes = size + self.reference_bytes as u64;
        let class = self.classes.partition_point(|block| (*block as u64) < bytes);
        (class < self.classes.len()).then_some(class)
    }

    /// Page-blocks of a page.
    #[must_use]
    pub fn blocks(&self, class: usize) -> usize {
        self.page_bytes / self.classes[class]
    }
}

/// The events of a class: at each operation, the object in a slot is allocated or freed.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u32,
    slot: u32,
    comes: bool,
}

/// The trace, split by class.
struct Split {
    steps: Vec<Vec<Step>>,
    /// Change in the number of objects, by operation.
    events: u32,
    slots: u32,
    beyond_reach: u64,
}

impl Split {
    fn of(events: &[Event], shape: &Shape) -> Self {
        let mut steps: Vec<Vec<Step>> = vec![Vec::new(); shape.classes.len()];
        let mut live: Vec<Option<usize>> = Vec::new();
        let mut beyond_reach = 0;
        for (at, event) in (0..).zip(events) {
            match event.op {
                Op::Allocate { slot, size, .. } => {
                    live.resize(live.len().max(slot as usize + 1), None);
                    let class = shape.class_of(size);
                    live[slot as usize] = class;
                    match class {
                        Some(class) => steps[class].push(Step { at, slot, comes: true }),
                        None => beyond_reach += 1,
                    }
                }
                Op::Free { slot } => {
                    if let Some(class) = live[slot as usize].take() {
                        steps[class].push(Step { at, slot, comes: false });
                    }
                }
                Op::Reallocate { slot, size, .. } => {
                    // A refused reallocation leaves the object unchanged, and so does one within a class.
                    let Some(old) = live[slot as usize] else { continue };
                    match shape.class_of(size) {
                        None => beyond_reach += 1,
                        Some(class) if class != old => {
                            steps[class].push(Step { at, slot, comes: true });
                            steps[old].push(Step { at, slot, comes: false });
                            live[slot as usize] = Some(class);
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        Self { steps, events: events.len() as u32, slots: live.len() as u32, beyond_reach }
    }
}

/// The results of a class for one max_nr_nf_pages.
#[derive(Clone, Debug, Default)]
struct ClassResult {
    moves: u64,
    /// Operations that changed the number of pages, and the change.
    pages: Vec<(u32, i32)>,
    peak_pages: u64,
    /// Maximum number of not-full pages after a free.
    max_not_full: u64,
    /// Pages in use, summed over the operations.
    area: i64,
}

/// A page of the model.
#[derive(Clone, Debug)]
struct Page {
    /// The object in each page-block, or [`VACANT`].
    objects: Vec<u32>,
    used: usize,
    /// For a not-full page: its neighbours in the ring.
    next: usize,
    prev: usize,
}

const VACANT: u32 = u32::MAX;
/// The head of the ring: a page without page-blocks.
const HEAD: usize = 0;

/// A size class as described in section 3.4.
struct Model {
    blocks: usize,
    most: u64,
    pages: Vec<Page>,
    pool: Vec<usize>,
    not_full: u64,
    /// Page and page-block of every object, by slot.
    places: Vec<(usize, usize)>,
    result: ClassResult,
    count: i64,
}

impl Model {
    fn new(blocks: usize, most: u64, slots: u32) -> Self {
        let head = Page { objects: Vec::new(), used: 0, next: HEAD, prev: HEAD };
        Self {
            blocks,
            most,
            pages: vec![head],
            pool: Vec::new(),
            not_full: 0,
            places: vec![(HEAD, 0); slots as usize],
            result: ClassResult::default(),
            count: 0,
        }
    }

    fn insert_after(&mut self, place: usize, page: usize) {
        let next = self.pages[place].next;
        (self.pages[page].prev, self.pages[page].next) = (place, next);
        self.pages[place].next = page;
        self.pages[next].prev = page;
    }

    fn unlink(&mut self, page: usize) {
        let (prev, next) = (self.pages[page].prev, self.pages[page].next);
        self.pages[prev].next = next;
        self.pages[next].prev = prev;
    }

    fn counted(&mut self, at: u32, change: i32) {
        self.result.pages.push((at, change));
        self.count += i64::from(change);
        self.result.peak_pages = self.result.peak_pages.max(self.count as u64);
    }

    fn come(&mut self, at: u32, slot: u32) {
        let mut page = self.pages[HEAD].prev;
        if page == HEAD {
            page = self.pool.pop().unwrap_or_else(|| {
                self.pages.push(Page { objects: vec![VACANT; self.blocks], used: 0, next: HEAD, prev: HEAD });
                self.pages.len() - 1
            });
            self.insert_after(HEAD, page);
            self.not_full += 1;
            self.counted(at, 1);
        }
        let block = self.pages[page].objects.iter().position(|object| *object == VACANT).expect("not full");
        self.pages[page].objects[block] = slot;
        self.pages[page].used += 1;
        self.places[slot as usize] = (page, block);
        if self.pages[page].used == self.blocks {
            self.unlink(page);
            self.not_full -= 1;
        }
    }

    fn go(&mut self, at: u32, slot: u32) {
        let (page, block) = self.places[slot as usize];
        let was_full = self.pages[page].used == self.blocks;
        if was_full && self.not_full >= self.most && self.blocks > 1 {
            let first = self.pages[HEAD].next;
            let from = self.pages[first].objects.iter().position(|object| *object != VACANT).expect("no empty page");
            let moved = self.pages[first].objects[from];
            self.pages[page].objects[block] = moved;
            self.places[moved as usize] = (page, block);
            self.result.moves += 1;
            self.vacate(at, first, from, false);
            return;
        }
        self.vacate(at, page, block, was_full);
        self.result.max_not_full = self.result.max_not_full.max(self.not_full);
    }

    /// Frees a page-block.
    fn vacate(&mut self, at: u32, page: usize, block: usize, was_full: bool) {
        self.pages[page].objects[block] = VACANT;
        self.pages[page].used -= 1;
        let (used, half) = (self.pages[page].used, self.blocks / 2);
        if used == 0 {
            if !was_full {
                self.unlink(page);
                self.not_full -= 1;
            }
            self.pool.push(page);
            self.counted(at, -1);
        } else if was_full {
            self.not_full += 1;
            let place = if used <= half { HEAD } else { self.pages[HEAD].prev };
            self.insert_after(place, page);
        } else if used == half {
            self.unlink(page);
            self.insert_after(HEAD, page);
        }
    }
}

fn class_result(steps: &[Step], blocks: usize, most: u64, slots: u32, events: u32) -> ClassResult {
    let mut model = Model::new(blocks, most, slots);
    for step in steps {
        if step.comes {
            model.come(step.at, step.slot);
        } else {
            model.go(step.at, step.slot);
        }
    }
    let mut result = model.result;
    result.area = result.pages.iter().map(|(at, change)| i64::from(*change) * i64::from(events - at)).sum();
    result
}

/// A class of the trace with its timelines, by max_nr_nf_pages.
struct Studied {
    class: usize,
    results: BTreeMap<u64, ClassResult>,
    suffices: u64,
}

/// The limits to try: all small ones, then increasingly sparse ones, up to the one that avoids all moves.
fn tried(suffices: u64) -> Vec<u64> {
    let mut tried: Vec<u64> = (1..=suffices.min(4)).collect();
    let mut last = 4;
    while last < suffices {
        last = (last + last / 2).min(suffices);
        tried.push(last);
    }
    tried
}

/// Number of points in a class's curve of frees without an allocation.
const CURVE_POINTS: u32 = 400;

/// Analyses a trace.
#[must_use]
pub fn analyse(
    name: &str,
    events: &[Event],
    shape: &Shape,
    room: Option<(&[u64], u64, u64)>,
    progress: &mut dyn FnMut(u64, u64),
) -> Tuning {
    let split = Split::of(events, shape);
    let used: Vec<usize> = (0..shape.classes.len()).filter(|class| !split.steps[*class].is_empty()).collect();
    let mut studied = Vec::new();
    let mut classes = Vec::new();
    for (done, class) in used.iter().copied().enumerate() {
        progress(done as u64, used.len() as u64);
        let (steps, blocks) = (&split.steps[class], shape.blocks(class));
        let loose = class_result(steps, blocks, u64::MAX, split.slots, split.events);
        let suffices = loose.max_not_full.max(1);
        let mut results: BTreeMap<u64, ClassResult> = tried(suffices)
            .into_iter()
            .map(|most| (most, class_result(steps, blocks, most, split.slots, split.events)))
            .collect();
        results.insert(suffices, loose);
        let (peak_objects, free_run) = runs(steps, split.events);
        classes.push(Class {
            number: class as u32 + 1,
            block_bytes: shape.classes[class] as u64,
            blocks: blocks as u64,
            allocations: steps.iter().filter(|step| step.comes).count() as u64,
            peak_objects,
            peak_free_run: free_run.iter().map(|(_, run)| *run).max().unwrap_or(0),
            free_run,
            suffices,
            moves: results[&1].moves,
            compact_pages: results[&1].peak_pages,
            loose_pages: results[&suffices].peak_pages,
        });
        studied.push(Studied { class, results, suffices });
    }
    let (peak_objects, entry_pages) = entries(&split, shape);
    let mut choices = chosen(&studied, &entry_pages, shape);
    mark_front(&mut choices);
    let allocatable = room.map(|(sizes, heap_bytes, pages)| {
        let rows = sizes.iter().map(|size| {
            let by_choice = choices
                .iter()
                .filter(|choice| choice.name == COMPACT || choice.name == LOOSE)
                .map(|choice| (choice.name.clone(), fits(*size, pages, choice, &studied, &split, &entry_pages, shape)));
            Room { size: *size, by_choice: by_choice.collect() }
        });
        Allocatable { heap_bytes, pages, rows: rows.collect() }
    });
    Tuning {
        trace: name.into(),
        events: events.len() as u64,
        beyond_reach: split.beyond_reach,
        page_bytes: shape.page_bytes as u64,
        peak_objects,
        entry_pages: u64::from(entry_pages.last().copied().unwrap_or(0)),
        classes,
        choices,
        allocatable,
    }
}

/// Name of the choice with full compaction.
pub const COMPACT: &str = "1 each";
/// Name of the choice that moves nothing.
pub const LOOSE: &str = "enough for each class";

/// Maximum number of live objects of a class, and its frees without an allocation since (n_f): the maximum in each
/// interval.
fn runs(steps: &[Step], events: u32) -> (u64, Vec<(u64, u64)>) {
    let width = events.div_ceil(CURVE_POINTS).max(1);
    let (mut live, mut peak, mut run) = (0_u64, 0, 0_u64);
    let mut curve: Vec<(u64, u64)> = Vec::new();
    for step in steps {
        if step.comes {
            live += 1;
            peak = peak.max(live);
            run = run.saturating_sub(1);
        } else {
            live -= 1;
            run += 1;
        }
        let stretch = u64::from(step.at / width * width);
        match curve.last_mut() {
            Some((at, most)) if *at == stretch => *most = run.max(*most),
            _ => curve.push((stretch, run)),
        }
    }
    (peak, curve)
}

/// Maximum number of live objects, and the pages of abstract addresses by operation: the running maximum.
fn entries(split: &Split, shape: &Shape) -> (u64, Vec<u32>) {
    let mut change = vec![0_i64; split.events as usize];
    for step in split.steps.iter().flatten() {
        change[step.at as usize] += if step.comes { 1 } else { -1 };
    }
    let (mut live, mut peak) = (0_i64, 0_i64);
    let pages = change.into_iter().map(|change| {
        live += change;
        peak = peak.max(live);
        (peak as usize).div_ceil(shape.entries) as u32
    });
    let pages = pages.collect();
    (peak as u64, pages)
}

/// The results of a limit for each class.
fn choice(name: String, most: Vec<u64>, studied: &[Studied], entry_pages: &[u32], shape: &Shape) -> Choice {
    let results = || studied.iter().zip(&most).map(|(one, most)| (one, &one.results[most]));
    let in_use = in_use(results().map(|(_, result)| result), entry_pages);
    let pages = in_use.iter().copied().max().unwrap_or(0);
    let mean_pages = in_use.iter().sum::<i64>() as f64 / in_use.len().max(1) as f64;
    Choice {
        name,
        moves: results().map(|(_, result)| result.moves).sum(),
        moved_bytes: results().map(|(one, result)| result.moves * shape.classes[one.class] as u64).sum(),
        pages: pages as u64,
        mean_pages,
        on_front: false,
        most,
    }
}

/// Pages in use after each operation, including those of abstract addresses.
fn in_use<'a>(results: impl Iterator<Item = &'a ClassResult>, entry_pages: &[u32]) -> Vec<i64> {
    let mut pages = vec![0_i64; entry_pages.len()];
    for (at, change) in results.flat_map(|result| &result.pages) {
        pages[*at as usize] += i64::from(*change);
    }
    let mut sum = 0;
    for (pages, entries) in pages.iter_mut().zip(entry_pages) {
        sum += *pages;
        *pages = sum + i64::from(*entries);
    }
    pages
}

/// Candidate choices: one limit for all classes; then, starting from full compaction, a greedy sequence that raises the
/// limit of one class at a time, always the one that saves the most moved bytes per additional page on average.
fn chosen(studied: &[Studied], entry_pages: &[u32], shape: &Shape) -> Vec<Choice> {
    let make = |name: String, most: Vec<u64>| choice(name, most, studied, entry_pages, shape);
    let at_most = |most: u64| -> Vec<u64> {
        // The nearest lower limit that was tried: the timeline is the same once the limit avoids all moves.
        studied.iter().map(|one| *one.results.range(..=most).next_back().expect("1 was tried").0).collect()
    };
    let all: Vec<u64> = studied.iter().map(|one| one.suffices).collect();
    let largest = all.iter().copied().max().unwrap_or(1);
    let mut choices = vec![make(COMPACT.into(), at_most(1))];
    choices.extend((2..=9).take_while(|most| *most < largest).map(|most| make(format!("{most} each"), at_most(most))));
    let mut most = at_most(1);
    // Each step evaluates a whole trace, so the stride is larger if classes have many limits.
    let steps: usize = studied.iter().map(|one| one.results.len() - 1).sum();
    let stride = steps.div_ceil(60).max(1);
    for step in 1..=steps {
        let gain = |index: usize| {
            let one: &Studied = &studied[index];
            let now = &one.results[&most[index]];
            let (next, then) = one.results.range(most[index] + 1..).next()?;
            let saved = (now.moves.saturating_sub(then.moves) * shape.classes[one.class] as u64) as f64;
            let pages = (then.area - now.area).max(0) as f64 / entry_pages.len() as f64;
            Some((saved / (0.01 + pages), index, *next))
        };
        let best = (0..studied.len()).filter_map(gain).max_by(|left, right| left.0.total_cmp(&right.0));
        let Some((_, index, next)) = best else { break };
        most[index] = next;
        if step % stride == 0 && step < steps {
            choices.push(make(format!("step {step}"), most.clone()));
        }
    }
    choices.push(make(LOOSE.into(), all));
    choices
}

/// Whether a choice is lower in some figure and not higher in any other.
fn beats(one: &Choice, other: &Choice) -> bool {
    let of = |choice: &Choice| (choice.pages, choice.mean_pages, choice.moved_bytes);
    of(one) != of(other)
        && one.pages <= other.pages
        && one.mean_pages <= other.mean_pages
        && one.moved_bytes <= other.moved_bytes
}

/// Marks the Pareto-optimal choices, removes greedy steps that are dominated, and sorts by number of pages.
fn mark_front(choices: &mut Vec<Choice>) {
    let all = choices.clone();
    for choice in choices.iter_mut() {
        choice.on_front = !all.iter().any(|other| beats(other, choice));
    }
    choices.retain(|choice| choice.on_front || !choice.name.starts_with("step"));
    choices.sort_by(|left, right| {
        left.mean_pages.total_cmp(&right.mean_pages).then(left.moved_bytes.cmp(&right.moved_bytes))
    });
    // Of equal choices, prefers a named one.
    let is_named = |choice: &Choice| !choice.name.starts_with("step");
    let same = |one: &Choice, other: &Choice| {
        (one.pages, one.mean_pages, one.moved_bytes) == (other.pages, other.mean_pages, other.moved_bytes)
    };
    let named: Vec<Choice> = choices.iter().filter(|choice| is_named(choice)).cloned().collect();
    choices.retain(|choice| is_named(choice) || !named.iter().any(|other| same(other, choice)));
    choices.dedup_by(|next, first| !is_named(next) && !is_named(first) && same(next, first));
    thin(choices);
}

/// Thins out the greedy steps to a small number.
fn thin(choices: &mut Vec<Choice>) {
    const MOST: usize = 24;
    let steps = choices.iter().filter(|choice| choice.name.starts_with("step")).count();
    let stride = steps.div_ceil(MOST - 12).max(1);
    let mut seen = 0;
    choices.retain(|choice| {
        seen += usize::from(choice.name.starts_with("step"));
        !choice.name.starts_with("step") || seen % stride == 0
    });
}

/// The number of further objects of a size that fit, at the worst moment and at the end; `None` if the trace does not
/// fit.
fn fits(
    size: u64,
    pages: u64,
    choice: &Choice,
    studied: &[Studied],
    split: &Split,
    entry_pages: &[u32],
    shape: &Shape,
) -> Option<(u64, u64)> {
    let Some(class) = shape.class_of(size) else { return Some((0, 0)) };
    let blocks = shape.blocks(class) as i64;
    let results = || studied.iter().zip(&choice.most).map(|(one, most)| &one.results[most]);
    let used = in_use(results(), entry_pages);
    let own = studied.iter().position(|one| one.class == class);
    let mut own_pages = vec![0_i64; used.len()];
    if let Some(index) = own {
        own_pages = in_use(std::iter::once(&studied[index].results[&choice.most[index]]), &vec![0; used.len()]);
    }
    let (mut live, mut own_live) = (vec![0_i64; used.len()], vec![0_i64; used.len()]);
    for (of, steps) in split.steps.iter().enumerate() {
        for step in steps {
            let change = if step.comes { 1 } else { -1 };
            live[step.at as usize] += change;
            if of == class {
                own_live[step.at as usize] += change;
            }
        }
    }
    let (mut objects, mut own_objects) = (0, 0);
    let mut worst = None;
    let mut last = None;
    for at in 0..used.len() {
        objects += live[at];
        own_objects += own_live[at];
        let free = pages as i64 - used[at];
        if free < 0 {
            return None;
        }
        let holes = own_pages[at] * blocks - own_objects;
        let addresses = i64::from(entry_pages[at]) * shape.entries as i64 - objects;
        let room = more(free, holes, blocks, addresses, shape.entries as i64);
        worst = Some(worst.map_or(room, |worst: i64| worst.min(room)));
        last = Some(room);
    }
    Some((worst.unwrap_or(0) as u64, last.unwrap_or(0) as u64))
}

/// The maximum number of objects for which free pages, free page-blocks in pages of their class, and abstract addresses
/// suffice.
fn more(free: i64, holes: i64, blocks: i64, addresses: i64, entries: i64) -> i64 {
    let suffices = |count: i64| {
        let new = |missing: i64, of_page: i64| (missing.max(0) + of_page - 1) / of_page;
        new(count - holes, blocks) + new(count - addresses, entries) <= free
    };
    let (mut fits, mut fails) = (0, holes + free * blocks + 1);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        if suffices(middle) { fits = middle } else { fails = middle }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::tests::random_events;
    use crate::replay::{Block, Observer, Replay};
    use rtalloc::CompactFit;
    use rtalloc::compact_fit::DefaultLadder;
    use rtalloc_subjects::compact_fit::NotFull;
    use rtalloc_subjects::{About, Heap, Region, Subject, handles};
    use std::collections::HashMap;

    /// Counts the frees that moved an object, by comparing the addresses of all objects.
    struct Moves<'a> {
        heap: &'a Heap<'a>,
        places: HashMap<usize, (usize, usize)>,
        moves: u64,
    }

    impl Moves<'_> {
        fn place(&self, block: usize) -> usize {
            self.heap.pieces(block, 1).next().expect("a piece").0
        }

        /// Counts a move of any object except `but`, which was itself reallocated or freed.
        fn look(&mut self, but: usize) {
            let moved: Vec<usize> = self
                .places
                .iter()
                .filter(|(block, (place, _))| **block != but && self.place(**block) != *place)
                .map(|(block, _)| *block)
                .collect();
            assert!(moved.len() <= 1, "no operation moves two");
            self.moves += moved.len() as u64;
            for block in moved {
                let place = self.place(block);
                self.places.get_mut(&block).expect("known").0 = place;
            }
        }
    }

    impl Observer for Moves<'_> {
        fn granted(&mut self, _: &Heap<'_>, _: u64, block: &Block, old_size: Option<usize>) {
            if old_size.is_some() {
                self.look(block.address);
            }
            self.places.insert(block.address, (self.place(block.address), block.size));
        }

        fn freed(&mut self, _: u64, block: &Block) {
            self.places.remove(&block.address);
            self.look(0);
        }
    }

    fn moves(subject: &Subject, events: &[Event]) -> u64 {
        const BYTES: usize = 16 << 20;
        let mut region = Region::new(BYTES, false).expect("a region");
        let heap = Heap::new(subject, &mut region, BYTES).expect("a heap");
        let mut watch = Moves { heap: &heap, places: HashMap::new(), moves: 0 };
        let mut replay = Replay::new();
        replay.run::<true, _>(&heap, events, &mut watch).expect("no fault");
        assert_eq!(replay.refused(), replay.beyond_reach());
        watch.moves
    }

    /// Many objects of few sizes, so that classes have several pages.
    fn events() -> Vec<Event> {
        let mut events = random_events(6000, 5);
        for event in &mut events {
            match &mut event.op {
                Op::Allocate { size, align, .. } => (*size, *align) = (900 + *size % 4 * 1700, 1),
                Op::Reallocate { size, .. } => *size = 900 + *size % 4 * 1700,
                Op::Free { .. } => {}
            }
        }
        events
    }

    #[test]
    fn the_model_moves_what_the_allocator_moves() {
        let (events, shape) = (events(), Shape::moving::<DefaultLadder>());
        let tuning = analyse("test", &events, &shape, None, &mut |_, _| {});
        let of = |most: u64| {
            let split = Split::of(&events, &shape);
            let results = (0..shape.classes.len())
                .map(|class| class_result(&split.steps[class], shape.blocks(class), most, split.slots, split.events));
            results.map(|result| result.moves).sum::<u64>()
        };
        let real = [
            handles::subject::<CompactFit<'static>, NotFull<1>>("one", About::NOTHING),
            handles::subject::<CompactFit<'static>, NotFull<2>>("two", About::NOTHING),
            handles::subject::<CompactFit<'static>, NotFull<5>>("five", About::NOTHING),
            handles::subject::<CompactFit<'static>, NotFull<1000>>("many", About::NOTHING),
        ]
        .map(|subject| moves(&subject, &events));
        assert_eq!(real, [1, 2, 5, 1000].map(of));
        assert!(real[0] > real[1] && real[1] > real[2] && real[3] == 0, "{real:?}");
        assert_eq!(tuning.choices.iter().find(|choice| choice.name == COMPACT).expect("always").moves, real[0]);
    }

    #[test]
    fn what_suffices_moves_nothing_and_one_less_does() {
        let (events, shape) = (events(), Shape::moving::<DefaultLadder>());
        let split = Split::of(&events, &shape);
        let tuning = analyse("test", &events, &shape, None, &mut |_, _| {});
        assert!(tuning.classes.iter().any(|class| class.suffices > 2), "{:?}", tuning.classes);
        for class in &tuning.classes {
            assert!(class.suffices <= class.peak_free_run + 2, "Proposition 1: {class:?}");
            let moves = |most: u64| {
                let index = class.number as usize - 1;
                class_result(&split.steps[index], shape.blocks(index), most, split.slots, split.events).moves
            };
            assert_eq!(moves(class.suffices), 0);
            assert!(class.suffices == 1 || moves(class.suffices - 1) > 0, "{class:?}");
        }
        let loose = tuning.choices.iter().find(|choice| choice.name == LOOSE).expect("always");
        assert!(loose.moves == 0 && loose.on_front, "{loose:?}");
        let front: Vec<&Choice> = tuning.choices.iter().filter(|choice| choice.on_front).collect();
        assert!(front.iter().all(|one| !front.iter().any(|other| beats(other, one))) && front.len() > 2, "{front:?}");
    }

    /// After the trace, exactly as many objects are served as predicted.
    #[test]
    fn as_many_objects_fit_as_reported() {
        const BYTES: usize = 8 << 20;
        let (events, shape) = (events(), Shape::moving::<DefaultLadder>());
        let subject = handles::subject::<CompactFit<'static>, NotFull<1>>("compact-fit", About::NOTHING);
        let sizes = [20, 1000, 4096, 16_000];
        let mut region = Region::new(BYTES, false).expect("a region");
        let pages = {
            let heap = Heap::new(&subject, &mut region, BYTES).expect("a heap");
            ((BYTES - heap.control_bytes()) / shape.page_bytes) as u64
        };
        let tuning = analyse("test", &events, &shape, Some((&sizes, BYTES as u64, pages)), &mut |_, _| {});
        for row in tuning.allocatable.expect("asked for").rows {
            let heap = Heap::new(&subject, &mut region, BYTES).expect("a heap");
            Replay::new().run::<true, _>(&heap, &events, &mut crate::replay::NoObserver).expect("no fault");
            let mut count = 0;
            // SAFETY: the heap is live, and the size is that of a valid `Layout`.
            while !unsafe { (heap.entries.allocate)(heap.context, row.size as usize, heap.entries.natural_align_bytes) }
                .is_null()
            {
                count += 1;
            }
            let (_, room) = row.by_choice.iter().find(|(name, _)| name == COMPACT).expect("always");
            let (worst, end) = room.expect("it fits");
            assert_eq!(end, count, "{} B", row.size);
            assert!(worst <= end);
        }
    }

    #[test]
    fn few_limits_are_tried_and_the_last_one_is() {
        assert_eq!(tried(1), [1]);
        assert_eq!(tried(3), [1, 2, 3]);
        assert_eq!(tried(11), [1, 2, 3, 4, 6, 9, 11]);
        assert!(tried(10_000).len() < 25);
    }
}
