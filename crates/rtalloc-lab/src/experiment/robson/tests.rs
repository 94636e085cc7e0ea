use super::need::Played;
use super::*;
use crate::result::robson::Claim;
use crate::subject::{Region, one};
use game::Over;

/// Units at the ends of a heap that are no blocks.
const ENDS: f64 = 4.0;

fn question(name: &str, adversary: Adversary, m: usize, n: usize) -> Question<'static> {
    let subject = one(name).expect("a subject");
    Question { subject, unit: Unit::of(subject).expect("a unit"), adversary, m, n }
}

/// What is needed, having seen that it suffices and that a granule less does not.
fn need(question: Question<'_>) -> Need {
    let what = format!("{} {} n = {}", question.subject.name, question.adversary.name(), question.n);
    let need = question.need().expect(&what);
    let mut region = Region::new(question.ample_bytes(), false).expect("memory");
    let bytes = (need.needed_bytes + need.control_bytes) as usize;
    let mut over = |bytes| question.play(&mut region, bytes).map(|Played { over, .. }| over);
    assert_eq!(over(bytes), Some(Over::Spent), "{what}: {need:?}");
    match over(bytes - need.granule_bytes as usize) {
        Some(over) => assert_eq!(over, Over::Refused, "{what}: {need:?}"),
        // The smallest heap there is, control included: in ample memory the adversary did not come to use as much.
        None => assert!(need.ample_bytes < need.needed_bytes + need.control_bytes, "{what}: no smaller heap: {need:?}"),
    }
    need
}

fn units(need: &Need) -> f64 {
    need.needed_bytes as f64 / need.unit_bytes as f64
}

#[test]
fn the_lower_bound_is_that_of_the_literature() {
    let ratio = |n| theory::lower_bound(1024, n) / 1024.0;
    assert_eq!([16, 64, 256].map(|n| (ratio(n) * 1000.0).round()), [2985.0, 3938.0, 4751.0]);
}

#[test]
fn units_are_blocks_that_lie_side_by_side() {
    let unit = |name| Unit::of(one(name).expect("a subject")).expect("a unit");
    assert_eq!(unit("tlsf"), Unit { bytes: 16, header_bytes: 4 });
    assert_eq!(unit("binary-buddy"), Unit { bytes: 16, header_bytes: 0 });
    assert_eq!(unit("simple-segregated-8").bytes, 8);
    assert_eq!(unit("tlsf").request_bytes(3), 44);
}

#[test]
fn robsons_program_needs_the_lower_bound_and_no_more_of_those_who_round_nothing() {
    for name in ["first-fit", "first-fit-address", "best-fit", "half-fit", "tlsf"] {
        for n in [4, 16] {
            let need = need(question(name, Adversary::Powers, 128, n));
            let bound = theory::lower_bound(128, n);
            assert!((bound..=bound + ENDS).contains(&units(&need)), "{name} n = {n}: {} of {bound}", units(&need));
        }
    }
}

/// Every adversary against everybody with a guarantee.
#[test]
fn adversaries_stay_below_guarantees_and_make_smaller_heaps_fail() {
    for subject in cast(&[]).expect("all") {
        let Some(guarantee) = Guarantee::of(subject) else { continue };
        for adversary in Adversary::ALL {
            let question = question(subject.name, adversary, 64, 8);
            let need = need(question);
            let Some(bytes) = guarantee.bytes(question.unit, question.m, question.n) else { continue };
            let allowed = bytes as f64 / need.unit_bytes as f64 + ENDS;
            assert!(units(&need) <= allowed, "{} {}: {need:?}, {bytes} bytes", subject.name, adversary.name());
        }
    }
}

#[test]
fn a_comb_leads_best_fit_far_beyond_what_first_fit_and_buddies_ever_need() {
    for name in ["best-fit", "tree-best-fit", "tlsf"] {
        let need = need(question(name, Adversary::Comb, 160, 16));
        let used = need.ample_bytes as f64 / need.unit_bytes as f64;
        assert!(used >= theory::comb(160, 16), "{name}: {need:?}");
        assert!(units(&need) >= ((160 - 5 * 16) * (16 - 2)) as f64, "{name}: {need:?}");
    }
    for name in ["first-fit-address", "half-fit", "binary-buddy"] {
        let need = need(question(name, Adversary::Comb, 160, 16));
        assert!(need.ratio() < 2.0, "{name}: {need:?}");
    }
}

/// Where n - 1 and n - 2 units are of one class, it takes a larger step.
#[test]
fn a_comb_finds_the_classes_of_tlsf() {
    let need = need(question("tlsf", Adversary::Comb, 700, 128));
    assert!(need.ratio() > 8.0, "{need:?}");
}

#[test]
fn a_march_leads_next_fit_to_the_end_of_any_heap() {
    let need = need(question("next-fit", Adversary::March, 128, 16));
    assert!(units(&need) >= (16 * (128 - 16)) as f64, "{need:?}");
}

#[test]
fn claims_without_figures_are_neither_confirmed_nor_refuted() {
    let settings = Settings { subjects: cast(&[]).expect("all"), m: 64, comb_m: 64, sizes: vec![4, 16, 32, 64, 256] };
    let nothing = |_| {
        let result = campaign::found(&Result::<Vec<Need>, &str>::Err("it did not run"));
        serde_json::from_value::<Result<Vec<Need>, String>>(result).expect("a result")
    };
    let found = settings.found((0..settings.tasks().len()).map(nothing).collect());
    assert!(found.claims.len() > 15, "{}", found.claims.len());
    assert!(found.claims.iter().all(|Claim { confirmed, .. }| confirmed.is_none()), "{:?}", found.claims);
}

/// What failed might have told otherwise.
#[test]
fn who_did_not_run_makes_confirmation_impossible_and_not_refutation() {
    let subjects = cast(&[]).expect("all");
    let settings = Settings { subjects, m: 1024, comb_m: 1024, sizes: vec![16] };
    let need = |needed_units: u64| Need {
        n: 16,
        m: 1024,
        unit_bytes: 16,
        header_bytes: 0,
        needed_bytes: 16 * needed_units,
        control_bytes: 0,
        granule_bytes: 16,
        ample_bytes: 16 * needed_units,
        served: 1,
        games: 1,
        guaranteed_bytes: Some(16 * 4096),
    };
    let tasks = settings.tasks().len();
    let judged = |units: u64, failed: bool| {
        let failed_at = |task: usize| failed && task.is_multiple_of(Adversary::ALL.len());
        let answer = |task: usize| if failed_at(task) { Err("it did not run".into()) } else { Ok(vec![need(units)]) };
        // Of every family one is left that did.
        let mut families: Vec<&str> = Vec::new();
        let answers = (0..tasks).map(|task| {
            let family = settings.question(task).0.family;
            if failed_at(task) && !families.contains(&family) {
                families.push(family);
                return Ok(vec![need(units)]);
            }
            answer(task)
        });
        settings.found(answers.collect()).claims
    };
    let of = |claims: &[Claim], text: &str| -> Vec<Option<bool>> {
        claims.iter().filter(|claim| claim.claim.contains(text)).map(|claim| claim.confirmed).collect()
    };
    let texts = ["nobody needs less", "suffices for"];
    for (text, units) in texts.into_iter().zip([1024, 8192]) {
        let (whole, partly) = (of(&judged(4000, false), text), of(&judged(4000, true), text));
        assert!(whole.iter().all(|confirmed| *confirmed == Some(true)), "{text}: {whole:?}");
        assert!(partly.contains(&None) && !partly.contains(&Some(false)), "{text}: {partly:?}");
        let refuted = of(&judged(units, true), text);
        assert!(refuted.contains(&Some(false)) && !refuted.contains(&Some(true)), "{text}: {refuted:?}");
    }
}
