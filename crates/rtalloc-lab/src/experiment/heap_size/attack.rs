//! A search for programs that make an allocator need much memory: a beam of programs that read addresses, then
//! evolution.
//!
//! A [`Program`] is a list of parts, each of which looks at the addresses of what is live: requests of one size until
//! no more may be live; frees that keep gaps small, or keep one object in each aligned block, or every other object;
//! and a round of a few steps that is repeated. Sizes are stated relative to the largest request, so a program found
//! with few live units is also played with many.
//!
//! Its score is the highest end of a block in ample memory. Nothing in the search is specific to an allocator, and the
//! same seed gives the same programs on every machine.

use super::adversary::sieve;
use super::game::{Game, Id, Over, unit_of};
use super::need::{Question, smallest};
use super::sizes::each_in_a_process;
use crate::replay::isolate::{Board, Progress};
use crate::result::heap_size::{Adversary, Attack, Attacks, Found, Named, Witness};
use crate::workload::random::Random;
use rtalloc_subjects::{Heap, Region, Subject, Unit};
use std::time::Duration;

/// A size: the largest request divided by a power of two, or a power of two; and a unit less or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    is_from_largest: bool,
    log2: u32,
    more: i8,
}

impl Size {
    fn units(self, n: usize) -> usize {
        let base = if self.is_from_largest { n >> self.log2 } else { 1_usize << self.log2 };
        base.saturating_add_signed(isize::from(self.more)).clamp(1, n)
    }

    fn any(random: &mut Random, n: usize) -> Self {
        let log2 = random.below(u64::from(n.ilog2()) + 1) as u32;
        Self { is_from_largest: random.below(2) == 0, log2, more: random.below(3) as i8 - 1 }
    }

    /// All sizes up to n, each once.
    fn all(n: usize) -> Vec<Self> {
        let mut sizes: Vec<Self> = Vec::new();
        for log2 in 0..=n.ilog2() {
            for more in [-1, 0, 1] {
                let size = Self { is_from_largest: false, log2, more };
                if sizes.iter().all(|known| known.units(n) != size.units(n)) {
                    sizes.push(size);
                }
            }
        }
        sizes
    }
}

/// A step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Requests an object, and remembers it; what was remembered there before stays live.
    Take { size: Size, place: usize },
    /// Frees the object remembered there, if there is one.
    Give { place: usize },
}

/// Objects that a round remembers.
const PLACES: usize = 3;

/// A part of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    /// Requests one size until no more may be live.
    Fill(Size),
    /// Frees as much as possible such that no gap is as large as the size.
    Thin(Size),
    /// Frees all but one object in each aligned block of the size.
    OneOfEach(Size),
    /// Frees every other object, in address order.
    Halve,
    /// Steps that are repeated until no more may be live. What is remembered at the beginning was live before.
    Round(Vec<Step>),
}

/// Most parts of a program, and steps of a round.
const MOST_PARTS: usize = 24;
const MOST_STEPS: usize = 10;
/// Repetitions of a round: each either leaves an object behind or changes nothing that a later one would not.
const MOST_ROUNDS: usize = 1 << 15;

/// A program that reads addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    parts: Vec<Part>,
}

impl Program {
    /// Performs it, and finally requests the largest object.
    #[must_use]
    pub fn play(&self, game: &mut Game<'_, '_>, n: usize) -> Over {
        for part in &self.parts {
            if let Err(Over::Refused) = part.play(game, n) {
                return Over::Refused;
            }
        }
        match n.min(game.left()) {
            0 => Over::Spent,
            units => game.take(units).err().unwrap_or(Over::Spent),
        }
    }

    fn any(random: &mut Random, n: usize) -> Self {
        let parts = 1 + random.below(6);
        Self { parts: (0..parts).map(|_| Part::any(random, n)).collect() }
    }

    fn changed(&self, random: &mut Random, n: usize, other: &Self) -> Self {
        let mut parts = self.parts.clone();
        for _ in 0..=random.below(3) {
            let place = random.below(parts.len() as u64 + 1) as usize;
            match random.below(5) {
                0 => parts.insert(place, Part::any(random, n)),
                1 if place < parts.len() => drop(parts.remove(place)),
                // The rest of another program.
                2 if place < other.parts.len() => {
                    parts.truncate(place);
                    parts.extend_from_slice(&other.parts[place..]);
                }
                _ if place < parts.len() => parts[place].change(random, n),
                _ => {}
            }
        }
        parts.truncate(MOST_PARTS);
        Self { parts }
    }
}

impl Part {
    fn play(&self, game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
        match self {
            Self::Fill(size) => game.take_all(size.units(n)),
            Self::Thin(size) => {
                sieve::thin(game, size.units(n) - 1);
                Ok(())
            }
            Self::OneOfEach(size) => {
                let block = game.bytes(size.units(n));
                sieve::one_of_each(game, |at| at.div_euclid(block));
                Ok(())
            }
            Self::Halve => {
                for placed in game.placed().into_iter().step_by(2) {
                    game.give(placed.id);
                }
                Ok(())
            }
            Self::Round(steps) => {
                let mut places: [Option<Id>; PLACES] = [None; PLACES];
                let mut live = game.left();
                for _ in 0..MOST_ROUNDS {
                    for step in steps {
                        match *step {
                            Step::Take { size, place } => places[place] = Some(game.take(size.units(n))?),
                            Step::Give { place } => {
                                if let Some(id) = places[place].take() {
                                    game.give(id);
                                }
                            }
                        }
                    }
                    // The first round may leave more behind than the others.
                    if game.left() >= live {
                        break;
                    }
                    live = game.left();
                }
                Ok(())
            }
        }
    }

    fn any(random: &mut Random, n: usize) -> Self {
        match random.below(8) {
            0 | 1 => Self::Fill(Size::any(random, n)),
            2 => Self::Thin(Size::any(random, n)),
            3 => Self::OneOfEach(Size::any(random, n)),
            4 => Self::Halve,
            _ => {
                let steps = 2 + random.below(MOST_STEPS as u64 - 2);
                Self::Round((0..steps).map(|_| Step::any(random, n)).collect())
            }
        }
    }

    fn change(&mut self, random: &mut Random, n: usize) {
        match self {
            Self::Fill(size) | Self::Thin(size) | Self::OneOfEach(size) => *size = Size::any(random, n),
            Self::Halve => *self = Self::any(random, n),
            Self::Round(steps) => {
                let place = random.below(steps.len() as u64) as usize;
                match random.below(4) {
                    0 if steps.len() < MOST_STEPS => steps.insert(place, Step::any(random, n)),
                    1 if steps.len() > 1 => drop(steps.remove(place)),
                    2 => {
                        let other = random.below(steps.len() as u64) as usize;
                        steps.swap(place, other);
                    }
                    _ => steps[place] = Step::any(random, n),
                }
            }
        }
    }
}

impl Step {
    fn any(random: &mut Random, n: usize) -> Self {
        let place = random.below(PLACES as u64) as usize;
        if random.below(5) < 3 { Self::Take { size: Size::any(random, n), place } } else { Self::Give { place } }
    }
}

/// What is attacked.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The allocator.
    pub subject: &'a Subject,
    /// Its unit.
    pub unit: Unit,
    /// Most live units.
    pub m: usize,
    /// Largest request, in units.
    pub n: usize,
}

impl Target<'_> {
    /// The bytes of a region that no program is refused in, unless the allocator has pages.
    #[must_use]
    pub fn ample_bytes(&self) -> usize {
        let page_units = self.subject.view.map_or(0, |view| view.contract.page_bytes).div_ceil(self.unit.bytes);
        let units = (self.m + 2) * (2 * self.n).max(page_units);
        (units * self.unit.bytes + (1 << 20)).next_multiple_of(4096)
    }

    /// The highest end of a block in ample memory, in bytes; 0 for a program that is refused.
    fn score(&self, region: &mut Region, program: &Program) -> i64 {
        let Ok(heap) = Heap::new(self.subject, region, region.len()) else { return 0 };
        let mut game = Game::new(&heap, self.unit, self.m);
        match program.play(&mut game, self.n) {
            Over::Spent => game.highest_bytes,
            Over::Refused => 0,
        }
    }
}

/// Programs kept between two generations, and of a beam.
const KEPT: usize = 24;
/// Scale of the search: most live units, and the largest request.
const SMALL: (usize, usize) = (160, 16);

/// The programs that score best against the target, each with its largest request, the best first, of about `programs`
/// that are tried. They are found against the same allocator with few live units, and ranked with all of them, and with
/// every power of two up to n as the largest request.
///
/// # Errors
///
/// If memory is exhausted.
pub fn search(target: &Target<'_>, programs: usize, seed: u64) -> Result<Vec<(Program, usize)>, String> {
    let small = Target { m: target.m.min(SMALL.0), n: target.n.min(SMALL.1), ..*target };
    let mut region = Region::new(small.ample_bytes(), false).map_err(|error| error.to_string())?;
    let mut score = |program: &Program| small.score(&mut region, program);
    let mut best = beam(small.n, &mut score);
    let mut random = Random::new(seed);
    while best.len() < 2 * KEPT {
        let program = Program::any(&mut random, small.n);
        best.push((score(&program), program));
    }
    for _ in 0..programs {
        let parent = |random: &mut Random, best: &[(i64, Program)]| {
            // The better of two.
            let places = [(); 2].map(|()| random.below(best.len() as u64) as usize);
            places[0].min(places[1])
        };
        let (one, other) = (parent(&mut random, &best), parent(&mut random, &best));
        let child = if random.below(20) == 0 {
            Program::any(&mut random, small.n)
        } else {
            best[one].1.changed(&mut random, small.n, &best[other].1)
        };
        let found = score(&child);
        // A program that is as good replaces the older one; equal ones are not kept twice.
        if found < best[best.len() - 1].0 || best.iter().any(|(_, known)| *known == child) {
            continue;
        }
        let place = best.partition_point(|(known, _)| *known > found);
        best.insert(place, (found, child));
        best.truncate(2 * KEPT);
    }
    let mut region = Region::new(target.ample_bytes(), false).map_err(|error| error.to_string())?;
    let mut ranked: Vec<(i64, Program, usize)> = Vec::new();
    for (_, program) in best.into_iter().take(KEPT) {
        for n in powers(target.n) {
            ranked.push((Target { n, ..*target }.score(&mut region, &program), program.clone(), n));
        }
    }
    ranked.sort_by_key(|(score, ..)| std::cmp::Reverse(*score));
    Ok(ranked.into_iter().map(|(_, program, n)| (program, n)).collect())
}

/// The largest requests of programs: a program that may request n units may request fewer.
fn powers(n: usize) -> impl Iterator<Item = usize> {
    (2..=n.ilog2()).map(|log2| 1_usize << log2)
}

/// Programs of fills and frees, extended by the best parts one after the other.
fn beam(n: usize, score: &mut dyn FnMut(&Program) -> i64) -> Vec<(i64, Program)> {
    let sizes = Size::all(n);
    let fills = || sizes.iter().map(|size| Part::Fill(*size));
    let frees = || {
        let thin = sizes.iter().map(|size| Part::Thin(*size));
        thin.chain(sizes.iter().map(|size| Part::OneOfEach(*size))).chain([Part::Halve])
    };
    let mut beam: Vec<(i64, Program)> = vec![(0, Program::default())];
    let mut best: Vec<(i64, Program)> = Vec::new();
    for _ in 0..=n.ilog2() + 1 {
        let mut longer: Vec<(i64, Program)> = Vec::new();
        for (_, program) in &beam {
            for free in frees() {
                for fill in fills() {
                    let mut program = program.clone();
                    program.parts.extend([free.clone(), fill]);
                    longer.push((score(&program), program));
                }
            }
        }
        longer.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        longer.truncate(KEPT);
        best.extend_from_slice(&longer);
        beam = longer;
    }
    best.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    best.truncate(KEPT);
    best
}

/// Granularity of regions.
const GRANULE_BYTES: usize = 16;
/// Programs of which the needed region is determined.
const FINALISTS: usize = 4;

/// What the worst program of a search makes an allocator need: the smallest region that it leaves, the program, and its
/// largest request.
///
/// # Errors
///
/// If memory is exhausted.
pub fn worst(target: &Target<'_>, programs: usize, seed: u64) -> Result<Option<(usize, Program, usize)>, String> {
    let ample = target.ample_bytes();
    let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
    let mut worst: Option<(usize, Program, usize)> = None;
    for (program, n) in search(target, programs, seed)?.into_iter().take(FINALISTS) {
        let mut suffices = |bytes: usize| {
            let heap = Heap::new(target.subject, &mut region, bytes).ok()?;
            let over = program.play(&mut Game::new(&heap, target.unit, target.m), n);
            (over == Over::Spent).then_some(())
        };
        if suffices(ample).is_none() {
            continue;
        }
        let guess = (4 * target.m * target.unit.bytes).min(ample).next_multiple_of(GRANULE_BYTES);
        let (bytes, ()) = smallest(guess, GRANULE_BYTES, (ample, ()), suffices);
        if worst.as_ref().is_none_or(|(most, ..)| bytes > *most) {
            worst = Some((bytes, program, n));
        }
    }
    Ok(worst)
}

/// Seed of the search.
const SEED: u64 = 1974;
/// Limit of the processor time of an allocator.
const LIMIT: Duration = Duration::from_secs(3600);

/// The worst of the named adversaries and of a search, for every allocator. The calling process should be
/// single-threaded: it forks.
///
/// # Errors
///
/// If the system cannot create a process.
pub fn measure(
    subjects: &[&'static Subject],
    (m, n): (usize, usize),
    programs: usize,
    progress: &mut dyn FnMut(Progress<'_>),
) -> anyhow::Result<Attacks> {
    let mut rows = Vec::new();
    let work = |subject: &'static Subject, _: &Board| attack(subject, m, n, programs);
    each_in_a_process(subjects, LIMIT, &work, progress, |subject, found| {
        rows.push(found.map_err(|death| death.to_string()).flatten().unwrap_or_else(|trouble| Attack {
            subject: subject.name.into(),
            trouble: Some(trouble),
            ..Attack::default()
        }));
    })?;
    // In sixteenths of a unit: the units differ.
    let worst = |row: &Attack| 16 * row.worst().unwrap_or(0) / row.unit_bytes.max(1);
    rows.sort_by_key(|row| (row.trouble.is_some(), worst(row), row.subject.clone()));
    Ok(Attacks { m, n, programs, rows })
}

fn attack(subject: &'static Subject, m: usize, n: usize, programs: usize) -> Result<Attack, String> {
    let unit = unit_of(subject)?;
    let target = Target { subject, unit, m, n };
    let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
    if unit.request_bytes(n) > subject.reach.request_bytes {
        return Err(format!("serves at most {} B", subject.reach.request_bytes));
    }
    let largest = subject.largest_heap_bytes();
    if target.ample_bytes() as u64 > largest {
        return Err(format!("its heaps have at most {largest} B"));
    }
    let mut row = Attack {
        subject: subject.name.into(),
        unit_bytes: unit.bytes as u64,
        guaranteed_bytes: subject.about.guarantee.and_then(|guarantee| guarantee.bytes(page_bytes, unit, m, n)),
        ..Attack::default()
    };
    for adversary in Adversary::ALL {
        let mut questions: Vec<Question<'_>> = powers(n).map(|n| Question { subject, unit, adversary, m, n }).collect();
        // The comb's work is quadratic: only the one that uses most in ample memory is made as small as possible.
        if adversary == Adversary::Comb {
            questions.sort_by_cached_key(|question| std::cmp::Reverse(question.used_bytes().unwrap_or(0)));
            questions.truncate(1);
        }
        for question in questions {
            if let Ok(need) = question.need()
                && row.named.as_ref().is_none_or(|named| need.needed_bytes > named.block_bytes)
            {
                row.named = Some(Named { block_bytes: need.needed_bytes, adversary: adversary.name().into() });
            }
        }
    }
    if let Some((region_bytes, program, n)) = worst(&target, programs, SEED)? {
        let mut region = Region::new(region_bytes, false).map_err(|error| error.to_string())?;
        let block_bytes = {
            let heap = Heap::new(subject, &mut region, region_bytes).map_err(|error| error.to_string())?;
            heap.end - heap.start
        };
        let smaller = region_bytes - GRANULE_BYTES;
        let heap = Heap::new(subject, &mut region, smaller).map_err(|error| error.to_string())?;
        let mut game = Game::logged(&heap, unit, m);
        // A heap for which the program is just too large, so that its last request is refused.
        let over = program.play(&mut game, n);
        let steps = game.log.take().filter(|_| over == Over::Refused).ok_or("the worst program is not repeatable")?;
        row.found = Some(Found {
            block_bytes: block_bytes as u64,
            witness: Witness { region_bytes: smaller, block_bytes: heap.end - heap.start, steps },
        });
    }
    Ok(row)
}
