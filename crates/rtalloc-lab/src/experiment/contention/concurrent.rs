//! Continuously running threads: throughput with local frees and with remote frees, and memory over time.

use super::cases::SIZE;
use super::crew::Crew;
use crate::probe::cycles::{Clock, empty_ticks, ticks};
use crate::result::contention::{Load, Local, LocalLoad, Memory, Throughput};
use crate::trace::Op;
use crate::workload::Model;
use rtalloc_subjects::Region;
use rtalloc_subjects::shared::{SharedHeap, SharedSubject, User, alone, one};
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Queue length in blocks from one thread to the other.
const RING: usize = 256;
/// Maximum lead of one thread in blocks while memory is measured: all other blocks of a ring are live.
const LEAD: usize = 16;
/// Number of attempts before a waiting thread yields.
const PATIENCE: u32 = 64;
/// Points of a memory curve.
const POINTS: u64 = 200;

/// The amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Bytes of the heap.
    pub heap_bytes: usize,
    /// Bytes of the region that has such a heap.
    pub region_bytes: usize,
    /// Allocations per round.
    pub allocations: u64,
    /// Maximum number of rounds.
    pub rounds: usize,
    /// Remote frees per drift measurement.
    pub frees: u64,
    /// When to stop.
    pub end: Instant,
}

/// An operation of the mix: slot, and bytes to allocate, or 0 to free.
type Step = (u32, u32);

/// The mix: the TLSF paper's third profile, followed by frees of all live blocks.
struct Mix {
    steps: Vec<Step>,
    slots: usize,
}

impl Mix {
    fn new(allocations: u64) -> Self {
        let model = Model::parse(&format!("p3 --mallocs {allocations}")).expect("words of ours");
        let mut events = Vec::new();
        model.generate(1, &mut events).expect("a vector takes every event");
        let mut sizes: Vec<u32> = Vec::new();
        let mut steps = Vec::new();
        for event in &events {
            let (slot, size) = match event.op {
                Op::Allocate { slot, size, .. } => (slot, size as u32),
                Op::Free { slot } => (slot, 0),
                Op::Reallocate { .. } => continue,
            };
            if slot as usize >= sizes.len() {
                sizes.resize(slot as usize + 1, 0);
            }
            sizes[slot as usize] = size;
            steps.push((slot, size));
        }
        let live = (0..).zip(&sizes).filter(|(_, size)| **size > 0).map(|(slot, _)| (slot, 0));
        steps.extend(live);
        Self { steps, slots: sizes.len() }
    }

    fn sizes(&self) -> impl Iterator<Item = usize> + Clone {
        self.steps.iter().filter(|(_, size)| *size > 0).map(|(_, size)| *size as usize)
    }

    /// Performs the mix once.
    #[inline(always)]
    fn perform(&self, user: &mut User<'_>, slots: &mut [(*mut u8, usize)]) {
        for (slot, size) in &self.steps {
            let place = &mut slots[*slot as usize];
            if *size > 0 {
                *place = (user.allocate(*size as usize, 1), *size as usize);
            } else if !place.0.is_null() {
                // SAFETY: the block is live, and not used again.
                unsafe { user.deallocate(place.0, place.1, 1) };
                place.0 = null_mut();
            }
        }
    }
}

/// Blocks in transit.
struct Ring {
    blocks: Vec<AtomicPtr<u8>>,
}

impl Ring {
    fn new() -> Self {
        Self { blocks: (0..RING).map(|_| AtomicPtr::new(null_mut())).collect() }
    }

    fn place(&self, number: u64) -> &AtomicPtr<u8> {
        &self.blocks[number as usize % RING]
    }

    fn send(&self, number: u64, block: *mut u8) {
        let place = self.place(number);
        wait(|| place.load(Ordering::Acquire).is_null().then_some(()));
        place.store(block, Ordering::Release);
    }

    fn receive(&self, number: u64) -> *mut u8 {
        let place = self.place(number);
        let block = wait(|| Some(place.load(Ordering::Acquire)).filter(|block| !block.is_null()));
        place.store(null_mut(), Ordering::Release);
        block
    }
}

fn wait<T>(mut ready: impl FnMut() -> Option<T>) -> T {
    let mut tries = 0;
    loop {
        if let Some(ready) = ready() {
            return ready;
        }
        tries += 1;
        if tries % PATIENCE == 0 {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// The first, second and third quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len().max(1) - 1) as f64 * share).round() as usize).copied();
    [0.25, 0.5, 0.75].map(|share| at(share).unwrap_or(0.0))
}

/// Throughput with each number of threads, alternating.
///
/// # Errors
///
/// No memory for the heap, or an allocator that does not support that many threads, as text.
pub fn throughput(
    subject: &'static SharedSubject,
    crew: &Crew,
    clock_hz: u64,
    threads: &[usize],
    plan: &Plan,
) -> Result<Vec<Throughput>, String> {
    let mix = Mix::new(plan.allocations);
    let bytes = plan.region_bytes;
    let mut region = Region::new(bytes, !subject.own_pages).map_err(|error| error.to_string())?;
    let mut loads: Vec<(Load, usize)> = threads.iter().map(|threads| (Load::Mix, *threads)).collect();
    loads.extend(threads.iter().filter(|threads| **threads > 1).map(|threads| (Load::Remote, threads / 2 * 2)));
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); loads.len()];
    let mut refused = vec![0; loads.len()];
    for round in 0..plan.rounds {
        if round > 0 && Instant::now() >= plan.end {
            break;
        }
        for (place, (load, threads)) in loads.iter().enumerate() {
            let heap = SharedHeap::new(subject, &mut region, bytes, *threads).map_err(|refusal| refusal.to_string())?;
            let users: Option<Vec<User<'_>>> = (0..*threads).map(|number| heap.join(number)).collect();
            let users = users.ok_or("it does not support that many threads")?;
            let (operations, missed, spans) = match load {
                Load::Mix => own(crew, users, &mix),
                Load::Remote => remote(crew, users, &mix, plan.allocations),
            };
            refused[place] += missed;
            let (begun, ended) =
                spans.iter().fold((u64::MAX, 0), |(first, last), (begun, ended)| (first.min(*begun), last.max(*ended)));
            let seconds = ended.saturating_sub(begun).max(1) as f64 / clock_hz as f64;
            rates[place].push(operations as f64 / seconds);
        }
    }
    let single = rates[0].clone();
    let rows = loads.iter().zip(rates).zip(refused).map(|(((load, threads), rates), refused)| {
        let ratios = rates.iter().zip(&single).map(|(rate, single)| rate / single).collect();
        Throughput {
            load: *load,
            threads: *threads as u32,
            operations_per_second: quartiles(rates)[1],
            speed_up: (*load == Load::Mix && *threads > 1 && loads[0].1 == 1).then(|| quartiles(ratios)),
            refused,
        }
    });
    Ok(rows.collect())
}

/// The results of a round: operations, refusals, and the start and end times of each thread.
type Round = (u64, u64, Vec<(u64, u64)>);

fn own(crew: &Crew, users: Vec<User<'_>>, mix: &Mix) -> Round {
    let logs = crew.perform(users, |mut user, barrier: &Barrier| {
        let mut slots = vec![(null_mut(), 0); mix.slots];
        barrier.wait();
        let begun = ticks();
        mix.perform(&mut user, &mut slots);
        (user.refused().total(), (begun, ticks()))
    });
    let operations = mix.steps.len() as u64 * logs.len() as u64;
    (operations, logs.iter().map(|log| log.0).sum(), logs.into_iter().map(|log| log.1).collect())
}

fn remote(crew: &Crew, users: Vec<User<'_>>, mix: &Mix, blocks: u64) -> Round {
    let rings: Vec<Ring> = (0..users.len() / 2).map(|_| Ring::new()).collect();
    let pairs = rings.len() as u64;
    let logs = crew.perform(users, |mut user, barrier: &Barrier| {
        let number = user.number();
        let ring = &rings[number / 2];
        let mut sizes = mix.sizes().cycle();
        barrier.wait();
        let begun = ticks();
        let mut next = || sizes.next().unwrap_or(SIZE);
        for number_of_block in 0..blocks {
            if number.is_multiple_of(2) {
                let size = next();
                ring.send(number_of_block, wait(|| Some(user.allocate(size, 1)).filter(|block| !block.is_null())));
            } else {
                let size = next();
                // SAFETY: the block is live, was handed over, and is not used again.
                unsafe { user.deallocate(ring.receive(number_of_block), size, 1) };
            }
        }
        (user.refused().total(), (begun, ticks()))
    });
    (2 * blocks * pairs, logs.iter().map(|log| log.0).sum(), logs.into_iter().map(|log| log.1).collect())
}

/// Memory over remote frees, by two threads.
///
/// # Errors
///
/// As [`throughput`]; or an allocator that failed.
pub fn memory(subject: &'static SharedSubject, crew: &Crew, plan: &Plan) -> Result<Memory, String> {
    let bytes = plan.region_bytes;
    let mix = Mix::new(plan.allocations.min(20_000));
    let mut region = Region::new(bytes, false).map_err(|error| error.to_string())?;
    let mut heap = SharedHeap::new(subject, &mut region, bytes, 2).map_err(|refusal| refusal.to_string())?;
    let start = heap.start;
    let users: Option<Vec<User<'_>>> = (0..2).map(|number| heap.join(number)).collect();
    let users = users.ok_or("it does not support two threads")?;
    let (ring, freed) = (Ring::new(), AtomicU64::new(0));
    let sent = AtomicUsize::new(usize::MAX);
    let every = (plan.frees / POINTS).max(1);
    let logs = crew.perform(users, |mut user, barrier: &Barrier| {
        let allocates = user.number() == 0;
        let mut points = Vec::with_capacity(POINTS as usize + 1);
        let mut sizes = mix.sizes().cycle();
        let mut next = || sizes.next().unwrap_or(SIZE);
        barrier.wait();
        let mut most = 0;
        for number in 0..plan.frees {
            if allocates {
                let size = next();
                let block = wait(|| Some(user.allocate(size, 1)).filter(|block| !block.is_null()));
                most = most.max((block as usize + size).saturating_sub(start));
                ring.send(number, block);
                if (number + 1).is_multiple_of(every) {
                    let bytes = if subject.own_pages { resident_bytes() } else { std::mem::take(&mut most) };
                    points.push((number + 1, bytes as u64));
                    if Instant::now() >= plan.end {
                        sent.store(number as usize + 1, Ordering::Release);
                        break;
                    }
                }
            } else {
                let size = next();
                let place = ring.place(number);
                // All but a few blocks of a ring are live, so the memory used does not depend on which thread is ahead.
                let later = number + (RING - LEAD) as u64;
                let behind = ring.place(later);
                let block = wait(|| {
                    let last = (plan.frees as usize).min(sent.load(Ordering::Acquire)) as u64;
                    let block = place.load(Ordering::Acquire);
                    let filled = later >= last || !behind.load(Ordering::Acquire).is_null();
                    (number >= last || filled && !block.is_null()).then_some(block)
                });
                if block.is_null() {
                    break;
                }
                place.store(null_mut(), Ordering::Release);
                // SAFETY: the block is live, was handed over, and is not used again.
                unsafe { user.deallocate(block, size, 1) };
                freed.fetch_add(1, Ordering::Relaxed);
            }
        }
        (user.refused().total(), points)
    });
    heap.check()?;
    let refused = logs.iter().map(|log| log.0).sum();
    let points = logs.into_iter().next().map(|log| log.1).unwrap_or_default();
    let allocated = points.last().map_or(0, |point| point.0);
    let freed = freed.into_inner();
    if freed < allocated {
        return Err(format!("{} blocks of {allocated} were not freed", allocated - freed));
    }
    let of = if subject.own_pages { "resident pages of the process" } else { "end of the highest block" };
    Ok(Memory { of: of.into(), points, refused })
}

fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    pages.and_then(|text| text.split_whitespace().nth(1)?.parse::<usize>().ok()).map_or(0, |pages| pages * 4096)
}

/// A single thread with the heap of this name and with a sequential one, alternating.
///
/// # Errors
///
/// An unknown name, or as [`throughput`].
pub fn local(name: &str, crew: &Crew, clock: Clock, plan: &Plan) -> Result<Local, String> {
    let subjects = [one(name).map_err(|unknown| unknown.to_string())?, alone()];
    let mix = Mix::new(plan.allocations);
    let regions = [(); 2].map(|()| Region::new(plan.heap_bytes, true).map_err(|error| error.to_string()));
    let [mut first, mut second] = regions;
    let heaps = [
        SharedHeap::new(subjects[0], first.as_mut().map_err(|error| error.clone())?, plan.heap_bytes, 1),
        SharedHeap::new(subjects[1], second.as_mut().map_err(|error| error.clone())?, plan.heap_bytes, 1),
    ];
    let [first, second] = &heaps;
    let (first, second) = (first.as_ref().map_err(ToString::to_string)?, second.as_ref().map_err(ToString::to_string)?);
    let join = |heap: &'static str| format!("{heap} does not support any user");
    let users =
        [first.join(0).ok_or_else(|| join(subjects[0].name))?, second.join(0).ok_or_else(|| join(subjects[1].name))?];
    let logs = crew.perform(vec![users], |mut users, _| {
        let mut slots = vec![(null_mut(), 0); mix.slots];
        let mut loads: [[Vec<f64>; 2]; 3] = std::array::from_fn(|_| [Vec::new(), Vec::new()]);
        for round in 0..plan.rounds {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for who in order {
                let user = &mut users[who];
                let begun = ticks();
                for _ in 0..plan.allocations {
                    let block = user.allocate(SIZE, 1);
                    // SAFETY: the block is live (a heap with one block is never full), and not used again.
                    unsafe { user.deallocate(block, SIZE, 1) };
                }
                loads[0][who].push((ticks() - begun) as f64 / (2 * plan.allocations) as f64);
            }
            for who in order {
                let begun = ticks();
                mix.perform(&mut users[who], &mut slots);
                loads[1][who].push((ticks() - begun) as f64 / mix.steps.len() as f64);
            }
            let timer = empty_ticks(1000).max(clock.overhead_ticks);
            for who in order {
                let total = timed(&mix, &mut users[who], &mut slots, timer);
                loads[2][who].push(total as f64 / mix.steps.len() as f64);
            }
            if round > 2 && Instant::now() >= plan.end {
                break;
            }
        }
        loads
    });
    let [pair, mixed, timed] = logs.into_iter().next().ok_or("no thread")?;
    let row = |what: &str, [first, second]: [Vec<f64>; 2]| LocalLoad {
        what: what.into(),
        rounds: first.len() as u64,
        ratio: quartiles(first.iter().zip(&second).map(|(first, second)| first / second).collect()),
        ticks: [quartiles(first)[1], quartiles(second)[1]],
    };
    let loads = vec![
        row("allocate and free 948 B, untimed", pair),
        row("the mix, untimed", mixed),
        row("the mix, every operation timed", timed),
    ];
    Ok(Local { subject: subjects[0].name.into(), against: subjects[1].name.into(), loads })
}

/// The total ticks of all operations of the mix.
fn timed(mix: &Mix, user: &mut User<'_>, slots: &mut [(*mut u8, usize)], timer: u64) -> u64 {
    let mut total = 0;
    for (slot, size) in &mix.steps {
        let place = &mut slots[*slot as usize];
        if *size > 0 {
            let begun = ticks();
            let block = user.allocate(*size as usize, 1);
            total += (ticks() - begun).saturating_sub(timer);
            *place = (block, *size as usize);
        } else if !place.0.is_null() {
            let begun = ticks();
            // SAFETY: the block is live, and not used again.
            unsafe { user.deallocate(place.0, place.1, 1) };
            total += (ticks() - begun).saturating_sub(timer);
            place.0 = null_mut();
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn plan() -> Plan {
        let end = Instant::now() + Duration::from_secs(60);
        Plan { heap_bytes: 8 << 20, region_bytes: 8 << 20, allocations: 2000, rounds: 2, frees: 20_000, end }
    }

    #[test]
    fn the_mix_frees_all_that_it_allocates() {
        let mix = Mix::new(1000);
        let allocations = mix.steps.iter().filter(|(_, size)| *size > 0).count();
        assert_eq!((allocations, mix.steps.len(), mix.sizes().count()), (1000, 2000, 1000));
    }

    #[test]
    fn quartiles_are_values_of_theirs() {
        assert_eq!(quartiles(vec![5.0, 1.0, 3.0, 2.0, 4.0]), [2.0, 3.0, 4.0]);
        assert_eq!(quartiles(Vec::new()), [0.0; 3]);
    }

    #[test]
    fn every_load_is_measured_with_every_number_of_threads() {
        let crew = Crew::without_priority();
        let rows = throughput(one("tlsf-mutex").expect("ours"), &crew, 1_000_000_000, &[1, 2], &plan());
        let rows = rows.expect("measured");
        let what: Vec<(Load, u32)> = rows.iter().map(|row| (row.load, row.threads)).collect();
        assert_eq!(what, [(Load::Mix, 1), (Load::Mix, 2), (Load::Remote, 2)]);
        assert!(rows.iter().all(|row| row.operations_per_second > 1000.0 && row.refused == 0));
        assert!(rows[0].speed_up.is_none() && rows[1].speed_up.is_some());
    }

    #[test]
    fn memory_over_remote_frees_does_not_grow_under_a_lock() {
        let crew = Crew::without_priority();
        let memory = memory(one("tlsf-mutex").expect("ours"), &crew, &plan()).expect("measured");
        assert_eq!(memory.points.len(), 200);
        assert_eq!(memory.points.last().map(|point| point.0), Some(20_000));
        assert!(memory.growth() <= Memory::STEADY && memory.points.iter().all(|point| point.1 > 10_000), "{memory:?}");
    }
}
