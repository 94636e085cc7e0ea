//! Tests of the rules with the published figures and with others.

use super::*;
use crate::papers::thesis::result::{Facts, Load, Moment, Openings, Summary};

fn distribution(max: u64, mean: u64, deviation: u64) -> Distribution {
    let std = deviation as f64;
    Distribution { count: 1, mean: mean as f64, std, max, min: mean, ..Distribution::default() }
}

/// The published figures of `figures_of`, under another allocator's name.
fn row(part: Part, name: &str, figures_of: &str) -> Row {
    let space = space(part, figures_of).expect("published");
    // Seeds that hardly differ.
    let sample = |percent: f64| Sample::published(20, [percent / 100.0, 1e-6, 0.0, 0.0]);
    let summary = Summary {
        high_water_bytes: space.used_bytes as f64,
        live_bytes: space.live_bytes as f64,
        fragmentation: sample(space.fragmentation_percent),
        overhead: sample(space.overhead_percent),
    };
    let own = |operation| {
        let cycles = THESIS.cycles(part, figures_of, operation);
        cycles.or_else(|| THESIS.cycles(Part::Boot, figures_of, operation)).expect("published")
    };
    let [malloc, mut free] = ["malloc", "free"].map(|operation| {
        let [max, mean, deviation] = own(operation);
        distribution(max, mean, deviation)
    });
    if figures_of == "sss" {
        free = distribution(48, 48, own("free")[2]);
    }
    let costs = Costs { malloc, free };
    let moment = Moment { live_bytes: 97, internal_bytes: 3, ..Moment::default() };
    let ours = Measured {
        cut: summary,
        prefix: summary,
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

/// Sizes and first operations: `small` instructions above the published maxima, which are at most 216.
fn others(granted: u64, small: u64) -> ([Granted; 1], Vec<Opening>) {
    let bytes = (1..=512_u64).map(|size| if size == 65 { granted } else { size.next_multiple_of(8) }).collect();
    let counts =
        Openings { small, small_again: 100, large: small, large_again: 100, free_last: small, returned: small };
    let opening = |(name, _): (&str, &str)| Opening { name: name.into(), counts: Ok(counts) };
    ([Granted { name: "bframe".into(), bytes: Ok(bytes) }], ALLOCATORS.map(opening).into())
}

fn judged(traces: &[OnTrace], (sizes, pages): &([Granted; 1], Vec<Opening>)) -> Vec<(String, Option<bool>)> {
    claims(traces, sizes, pages).into_iter().map(|claim| (claim.claim, claim.verdict.holds())).collect()
}

/// The claims on which the thesis contradicts itself, and those it did not measure.
const CONTRADICTED: [&str; 4] = [
    "6.10: binary buddies have a higher worst case",
    "6.9: regis1 and regis2 have the two highest F (boot",
    "6.9: except in regis1 and regis2, most waste",
    "6.9: tlsf has the highest I (uniform",
];

/// Claims that our programs or our machine cannot decide.
fn is_not_comparable(claim: &str) -> bool {
    claim.contains("of ticks") || claim.contains("more ticks") || claim.contains("3 %") || claim.contains("is constant")
}

#[test]
fn the_published_figures_pass_the_rules_but_where_the_thesis_contradicts_itself() {
    let claims = judged(&published(0), &others(128, 1000));
    assert!(claims.len() > 20, "{}", claims.len());
    for (claim, confirmed) in &claims {
        let expected = if CONTRADICTED.iter().any(|start| claim.starts_with(start)) {
            Some(false)
        } else if claim.starts_with("5.8") || is_not_comparable(claim) {
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
    let unshifted = judged(&published(0), &others(128, 1000));
    for (place, (claim, _)) in unshifted.iter().enumerate() {
        // These figures are independent of the allocator's identity.
        let same = ["5.8", "6.1:", "6.9: small blocks increase"];
        if claim.starts_with("table ") {
            assert!(shifts.iter().any(|claims| claims[place].1.is_none()), "{claim}");
        } else if !same.iter().any(|start| claim.starts_with(start)) && !is_not_comparable(claim) {
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
            ours.cut.fragmentation.mean = if trace.load.part == Part::Small { 0.1 } else { 0.2 };
        }
    }
    let claims = judged(&traces, &others(128, 1000));
    for start in ["6.1:", "6.9: small blocks increase"] {
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
            variant.ours.as_mut().expect("published").prefix.fragmentation.mean *= factor;
            trace.rows.push(variant);
        }
    }
    let claims = judged(&traces, &others(128, 1000));
    let of = |words: &str| claims.iter().find(|(claim, _)| claim.contains(words)).expect("a claim").1;
    assert_eq!(
        (of("limiting sequences"), of("may cross frames"), of("crossing together")),
        (Some(false), Some(true), Some(false))
    );
}

/// Seeds that differ more than the allocators decide nothing; nor do two seeds.
#[test]
fn means_whose_intervals_overlap_decide_nothing() {
    let start = "6.9: tlsf has the highest I (uniform";
    let verdict = |change: fn(&mut Sample)| {
        let mut traces = published(0);
        for row in traces.iter_mut().flat_map(|trace| &mut trace.rows) {
            change(&mut row.ours.as_mut().expect("published").cut.overhead);
        }
        let claims = judged(&traces, &others(128, 1000));
        claims.into_iter().find(|(claim, _)| claim.starts_with(start)).expect("a claim").1
    };
    assert_eq!(verdict(|_| ()), Some(false));
    assert_eq!(verdict(|sample| sample.deviation = 1.0), None);
    assert_eq!(verdict(|sample| sample.count = 2), None);
}

/// Two recordings that disagree decide nothing; two that agree do.
#[test]
fn recordings_that_disagree_decide_nothing() {
    let of = |shift: usize, recording: &str| -> Vec<OnTrace> {
        let mut traces = published(shift);
        traces.retain(|trace| trace.load.part.is_recorded());
        traces.iter_mut().for_each(|trace| trace.load.recording = Some(recording.into()));
        traces
    };
    let verdict = |traces: &[OnTrace]| {
        let claims = claims(traces, &[], &[]);
        claims.into_iter().find(|claim| claim.claim.starts_with("6.9: tlsf has the lowest F")).expect("a claim").verdict
    };
    assert_eq!(verdict(&[of(0, "one"), of(0, "two")].concat()), Confirmed);
    assert_eq!(verdict(&[of(2, "one"), of(2, "two")].concat()), Refuted);
    assert_eq!(verdict(&[of(0, "one"), of(2, "two")].concat()), crate::papers::claims::Verdict::NotReproduced);
}

#[test]
fn nothing_is_judged_without_figures() {
    let claims = claims(&[], &[], &[]);
    assert!(claims.len() > 10 && claims.iter().all(|claim| claim.verdict.holds().is_none()), "{claims:?}");
}
