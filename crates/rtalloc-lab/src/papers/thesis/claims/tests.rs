//! Tests of the rules with the published figures and with others.

use super::*;
use crate::papers::thesis::result::{Facts, Load, Moment, Openings};

fn distribution(max: u64, mean: u64, deviation: u64) -> Distribution {
    let std = deviation as f64;
    Distribution { count: 1, mean: mean as f64, std, max, min: mean, ..Distribution::default() }
}

/// The published figures of `figures_of`, under another allocator's name.
fn row(part: Part, name: &str, figures_of: &str) -> Row {
    let space = space(part, figures_of).expect("published");
    let cycles = cycles(part, figures_of).or(cycles(Part::Boot, figures_of)).expect("published");
    let figures = Figures {
        high_water_bytes: space.used_bytes as f64,
        live_bytes: space.live_bytes as f64,
        fragmentation: space.fragmentation_percent / 100.0,
        overhead: space.overhead_percent / 100.0,
    };
    let free = match figures_of {
        "sss" => distribution(48, 48, cycles.deviation.free),
        _ => distribution(cycles.max.free, cycles.mean.free, cycles.deviation.free),
    };
    let malloc = distribution(cycles.max.malloc, cycles.mean.malloc, cycles.deviation.malloc);
    let costs = Costs { malloc, free };
    let moment = Moment { live_bytes: 97, internal_bytes: 3, ..Moment::default() };
    let ours = Measured {
        cut: figures,
        prefix: figures,
        operations: 1.0,
        completed: 1,
        instructions: costs.clone(),
        prefix_instructions: costs.clone(),
        timeline: vec![moment],
    };
    Row { name: name.into(), ours: Ok(ours), ticks: Some(Ok(costs)) }
}

/// The thesis' figures, rotated: every allocator has those of another one.
fn published(shift: usize) -> Vec<OnTrace> {
    let trace = |part: Part| OnTrace {
        load: Load { part, recording: part.is_recorded().then(|| "theirs".into()) },
        facts: Facts { mallocs: 10, classes: [&[9][..], &[0; 62], &[1]].concat(), ..Facts::default() },
        prefix_operations: 1,
        rows: (0..7).map(|at| row(part, ALLOCATORS[at].0, ALLOCATORS[(at + shift) % 7].0)).collect(),
    };
    Part::ALL.map(trace).into()
}

fn others(granted: u64, small: u64) -> ([Granted; 1], [Opening; 1]) {
    let bytes = (1..=512_u64).map(|size| if size == 65 { granted } else { size.next_multiple_of(8) }).collect();
    let counts = Openings { small, small_again: 100, large: small, large_again: 100, free_last: 100 };
    ([Granted { name: "bframe".into(), bytes: Ok(bytes) }], [Opening { name: "bframe".into(), counts: Ok(counts) }])
}

fn judged(traces: &[OnTrace], (sizes, pages): &([Granted; 1], [Opening; 1])) -> Vec<(String, Option<bool>)> {
    claims(traces, sizes, pages).into_iter().map(|claim| (claim.claim, claim.verdict.holds())).collect()
}

/// The claims on which the thesis contradicts itself, and those it did not measure.
const CONTRADICTED: [&str; 3] = [
    "6.10, theirs: binary buddies take longer",
    "6.9, theirs: regis1 and regis2 have the two highest F",
    "6.9: tlsf has the highest I (uniform",
];

#[test]
fn the_published_figures_pass_the_rules_but_where_the_thesis_contradicts_itself() {
    let claims = judged(&published(0), &others(128, 300));
    assert!(claims.len() > 20, "{}", claims.len());
    for (claim, confirmed) in &claims {
        let expected = if CONTRADICTED.iter().any(|start| claim.starts_with(start)) {
            Some(false)
        } else if claim.starts_with("5.8") {
            None
        } else {
            Some(true)
        };
        assert_eq!(*confirmed, expected, "{claim}");
    }
}

#[test]
fn figures_that_say_otherwise_refute() {
    let shifts: Vec<_> = [2, 3, 5].map(|shift| judged(&published(shift), &others(72, 200))).into();
    let unshifted = judged(&published(0), &others(128, 300));
    for (place, (claim, _)) in unshifted.iter().enumerate() {
        // These figures are independent of the allocator's identity.
        let same = ["5.8", "6.1:", "6.9: tlsf loses", "6.9: small blocks increase"];
        if !same.iter().any(|start| claim.starts_with(start)) {
            assert!(shifts.iter().any(|claims| claims[place].1 == Some(false)), "{claim}");
        }
    }
    let mut traces = published(0);
    for trace in &mut traces {
        trace.facts.classes = [&[95][..], &[0; 62], &[5]].concat();
        trace.facts.mallocs = 100;
        for row in &mut trace.rows {
            let ours = row.ours.as_mut().expect("published");
            ours.timeline[0].internal_bytes = 20;
            ours.cut.fragmentation = if trace.load.part == Part::Small { 0.1 } else { 0.2 };
        }
    }
    let claims = judged(&traces, &others(128, 300));
    for start in ["6.1:", "6.9: tlsf loses", "6.9: small blocks increase"] {
        let own = claims.iter().find(|(claim, _)| claim.starts_with(start)).expect("a claim");
        assert_eq!(own.1, Some(false), "{start}");
    }
}

#[test]
fn proposals_are_held_against_the_base() {
    let mut traces = published(0);
    for trace in &mut traces {
        for (name, factor) in [("bframe, crossing", 1.1), ("bframe, 4 chunks", 1.2)] {
            let mut variant = row(trace.load.part, name, "bframe");
            variant.ours.as_mut().expect("published").prefix.fragmentation *= factor;
            trace.rows.push(variant);
        }
    }
    let claims = judged(&traces, &others(128, 300));
    let of = |words: &str| claims.iter().find(|(claim, _)| claim.contains(words)).expect("a claim").1;
    assert_eq!(
        (of("at most 4 chunks"), of("cross frames"), of("both together")),
        (Some(false), Some(true), Some(false))
    );
}

#[test]
fn nothing_is_judged_without_figures() {
    let claims = claims(&[], &[], &[]);
    assert!(claims.len() > 10 && claims.iter().all(|claim| claim.verdict.holds().is_none()), "{claims:?}");
}
