//! Synthetic runs for tests: deterministic, with the structure of real ones.

use rtalloc_lab::result::schema::{
    Cell, Curve, Distribution, Environment, Instructions, Origin, Outcome, Run, Space, SubjectFacts, Time, TraceFacts,
    TraceResult,
};

/// A subject: its name, origin, family and cost; typical and worst instructions; heap needed / M.
pub type Profile = (&'static str, Origin, &'static str, &'static str, u64, u64, f64);

/// A selection of subjects like a real one.
pub const SELECTION: [Profile; 12] = [
    ("tlsf", Origin::Ours, "two-level segregated", "O(1)", 70, 131, 1.12),
    ("tlsf-exact", Origin::Ours, "two-level segregated", "O(1)", 68, 133, 1.14),
    ("half-fit", Origin::Ours, "segregated", "O(1)", 60, 104, 1.61),
    ("first-fit", Origin::Ours, "sequential", "O(n)", 80, 9400, 1.10),
    ("best-fit", Origin::Ours, "sequential", "O(n)", 300, 22_100, 1.07),
    ("rlsf", Origin::Peer, "two-level segregated", "O(1)", 95, 180, 1.15),
    ("talc", Origin::Peer, "segregated", "O(n)", 110, 900, 1.09),
    ("dlmalloc", Origin::Peer, "segregated", "unbounded", 90, 3400, 1.08),
    ("buddy-system", Origin::Peer, "buddy", "O(log n)", 210, 4100, 1.95),
    ("linked-list", Origin::Peer, "sequential", "O(n)", 800, 180_000, 1.20),
    ("mimalloc", Origin::Peer, "segregated", "unbounded", 40, 8800, 0.0),
    ("system", Origin::System, "segregated", "unbounded", 60, 5100, 0.0),
];

/// A distribution that decays from `typical` to one sample at `worst`.
pub fn distribution(typical: u64, worst: u64, count: u64) -> Distribution {
    let mut histogram = Vec::new();
    let mut left = count.saturating_sub(1);
    let steps = 24;
    for step in 0..steps {
        let value = typical + (worst - typical) * step * step / (steps * steps);
        let share = if step + 1 == steps { left } else { (left * 2 / 3).max(left.min(1)) };
        if share > 0 && histogram.last().is_none_or(|(last, _)| *last < value) {
            histogram.push((value, share));
            left -= share;
        }
    }
    if let Some(first) = histogram.first_mut() {
        first.1 += left;
    }
    histogram.push((worst, 1));
    let mean = histogram.iter().map(|(value, samples)| (value * samples) as f64).sum::<f64>() / count as f64;
    Distribution {
        count,
        min: typical,
        mean,
        std: (worst - typical) as f64 / 10.0,
        p50: typical,
        p99: typical + (worst - typical) / 4,
        p999: typical + (worst - typical) / 2,
        max: worst,
        histogram,
    }
}

/// A completed cell with every probe, from a profile.
pub fn cell(profile: &Profile, peak_live_bytes: u64) -> Cell {
    let (name, origin, family, cost, typical, worst, heap) = *profile;
    let factor = if heap > 0.0 { heap } else { 1.3 };
    let top = (peak_live_bytes as f64 * (factor - 0.02)) as u64;
    Cell {
        subject: SubjectFacts {
            name: name.into(),
            origin,
            family: family.into(),
            cost: cost.into(),
            largest_request_bytes: None,
            largest_alignment_bytes: None,
            read_instructions: None,
        },
        heap_bytes: (heap > 0.0).then_some(peak_live_bytes * 8),
        outcome: Outcome::Completed,
        time: Some(Time {
            replicas: 3,
            allocate: distribution(typical / 2, worst * 3, 100_000),
            free: distribution(typical / 3, worst * 2, 95_000),
            reallocate: Distribution::default(),
        }),
        instructions: Some(Instructions {
            allocate: distribution(typical, worst, 1100),
            free: distribution(typical - typical / 5, worst - worst / 5, 900),
            reallocate: Distribution::default(),
            most: [worst, 0, worst - worst / 5, 0],
            ..Instructions::default()
        }),
        space: (heap > 0.0).then(|| Space {
            high_water_bytes: top,
            high_water_with_control_bytes: top + 4096,
            peak_live_bytes,
            fragmentation: factor - 1.02,
            smallest_heap_bytes: Some((peak_live_bytes as f64 * heap) as u64),
            used: Curve { points: (0..100).map(|step| (step * 2000, top * (step + 1).min(80) / 80)).collect() },
        }),
    }
}

/// A trace with results for `selection`.
pub fn trace(name: &str, peak_live_bytes: u64, selection: &[Profile]) -> TraceResult {
    TraceResult {
        trace: TraceFacts {
            name: name.into(),
            about: format!("the program {name}, recorded"),
            allocations: 104_000,
            frees: 95_000,
            reallocations: 1000,
            threads: 1,
            peak_live_bytes,
            peak_live_blocks: peak_live_bytes / 50,
            largest_request_bytes: 65_536,
            live: Curve {
                points: (0..120)
                    .map(|step: u64| (step * 1667, peak_live_bytes * (step + 1).min(240 - 2 * step) / 81))
                    .map(|(at, live)| (at, live.min(peak_live_bytes)))
                    .collect(),
            },
        },
        cells: selection.iter().map(|profile| cell(profile, peak_live_bytes)).collect(),
    }
}

/// A run with the given traces.
pub fn run(traces: Vec<TraceResult>) -> Run {
    Run {
        costs: None,
        environment: Environment {
            rtalloc: "0.1.0".into(),
            cpu: "A processor of 2.0 GHz".into(),
            cores: 2,
            kernel: "6.1.0".into(),
            rustc: "rustc 1.95.0".into(),
            binary: "crc32:00c0ffee".into(),
            tsc_hz: 2_000_000_000,
            timer_overhead_ticks: 40,
            timer_step_ticks: 2,
            unix_time: 1_772_373_900,
        },
        traces,
    }
}

/// Three traces with all subjects, with one failure, one timeout and one broken cell.
pub fn usual() -> Run {
    let mut run = run(vec![
        trace("lua", 498_000, &SELECTION),
        trace("lame", 461_000, &SELECTION),
        trace("gcc", 3_200_000, &SELECTION),
    ]);
    // The cost of sequential fits grows with the heap.
    for (result, divisor) in run.traces.iter_mut().zip([4, 6, 1]) {
        for (cell, profile) in result.cells.iter_mut().zip(&SELECTION) {
            if profile.2 == "sequential" {
                let worst = profile.5 / divisor;
                if let Some(instructions) = &mut cell.instructions {
                    instructions.allocate = distribution(profile.4, worst, 1100);
                    instructions.free = distribution(profile.4, worst.min(800).max(profile.4), 900);
                }
            }
        }
    }
    run.traces[0].cells[8].outcome = Outcome::Failures { failed: 3, first: 91_234, beyond_reach: 0 };
    if let Some(space) = &mut run.traces[0].cells[8].space {
        space.smallest_heap_bytes = None;
    }
    run.traces[2].cells[9].outcome = Outcome::TimedOut { at: 150_000 };
    let broken = &mut run.traces[1].cells[10];
    broken.outcome = Outcome::Broken { what: "killed by signal 11 (SIGSEGV) in allocate".into() };
    broken.time = None;
    broken.instructions = None;
    run
}
