use super::*;
use crate::papers::claims::Verdict;
use crate::papers::published::WAIT_FREE;

use crate::papers::wait_free::chapter::chapter;
use crate::papers::wait_free::result::{Figures, Interval};
use crate::present::table::Look;
use rtalloc_lab::result::schema::{Distribution, Environment};
use rtalloc_subjects::shared::NOT_INSTALLED;

fn noted(processors: u32, priority: Result<u32, String>) -> Kept {
    Kept {
        key: String::new(),
        experiment: "wait-free".into(),
        environment: Environment::here(Clock { overhead_ticks: 0, step_ticks: 1 }),
        finished_unix: 0,
        seconds: 1.0,
        timed: true,
        result: json!(Noted { processors, priority, found: Value::Null }),
    }
}

#[test]
fn the_fewest_processors_and_the_lowest_priority_count() {
    let of = |kept: &[Kept]| circumstances(kept).expect("results");
    let alike = of(&[noted(2, Ok(99)), noted(2, Ok(99))]);
    assert_eq!((alike.processors, alike.priority, alike.unlike.len()), (2, Ok(99), 0));
    let unlike = of(&[noted(16, Ok(99)), noted(2, Err("not permitted".into())), noted(16, Ok(99))]);
    assert_eq!((unlike.processors, unlike.priority), (2, Err("not permitted".into())));
    assert!(unlike.unlike.len() == 2 && unlike.unlike[0].starts_with("2 results: 16 of"), "{:?}", unlike.unlike);
}

/// The figures of the paper's own allocator and of locked TLSF in figure 10.
fn published() -> WaitFree {
    let cell = |(at, case): (usize, Case)| {
        let column = WAIT_FREE.figure_10.column(at, case);
        let ticks = Distribution {
            count: 1,
            min: column.min as u64,
            p50: column.median as u64,
            max: column.max as u64,
            mean: column.mean,
            std: column.cv * column.mean,
            ..Distribution::default()
        };
        let figures = Figures {
            ticks,
            mean: Interval { mean: column.mean, half: 0.0 },
            utilisation: column.utilisation.map(|mean| Interval { mean, half: 0.0 }),
            refused: rtalloc_subjects::shared::Refused::default(),
            spurious: None,
            unfinished: false,
        };
        Cell { subject: ALLOCATORS[at].1.into(), case, threads: 16, outcome: Ok(figures) }
    };
    let setting = Setting {
        heap_bytes: HEAP_BYTES as u64,
        processors: 16,
        priority: Ok(99),
        unlike: Vec::new(),
        pairs: PAIRS,
        repetitions: (1, 1),
    };
    WaitFree {
        environment: noted(16, Ok(99)).environment,
        setting,
        subjects: Vec::new(),
        cells: [0, 1, 2].into_iter().flat_map(|at| Case::ALL.map(|case| (at, case))).map(cell).collect(),
        steps: Vec::new(),
        local: None,
        scaling: Vec::new(),
        drift: Vec::new(),
        claims: Vec::new(),
        targets: Vec::new(),
        seconds: 0.0,
    }
}

/// All except those on steps, for which the paper publishes no measurement.
const OF_FIGURE_10: usize = 7;

#[test]
fn the_published_figures_pass_the_rules() {
    for claim in &claims::of_the_paper(&published())[..OF_FIGURE_10] {
        assert_eq!(claim.verdict.holds(), Some(true), "{}: {}", claim.claim, claim.figures);
    }
}

/// Two threads contend less than sixteen: their ticks neither confirm nor refute; memory does.
#[test]
fn ticks_of_fewer_threads_than_the_papers_are_not_judged() {
    let mut found = published();
    found.setting.processors = 2;
    found.cells.iter_mut().for_each(|cell| cell.threads = 2);
    let verdicts: Vec<Option<bool>> =
        claims::of_the_paper(&found)[..OF_FIGURE_10].iter().map(|claim| claim.verdict.holds()).collect();
    assert_eq!(verdicts, [None, None, None, None, None, Some(true), Some(true)]);
}

#[test]
fn a_peer_that_is_not_installed_is_named_in_its_rows_and_in_its_claim() {
    let mut found = published();
    for cell in found.cells.iter_mut().filter(|cell| cell.subject == ALLOCATORS[2].1) {
        cell.outcome = Err(format!("{NOT_INSTALLED}: no library"));
    }
    let claims = claims::of_the_paper(&found);
    let own = claims.iter().find(|claim| claim.claim.contains("(atops)")).expect("a claim");
    assert!(own.verdict == Verdict::NotReproduced && own.reason().contains("is not installed"), "{own:?}");
    let text = chapter(&found).expect("drawn").text(Look { columns: 120, colour: false });
    assert_eq!(text.matches("atomic-ops (not installed)").count(), Case::ALL.len(), "{text}");
}

#[test]
fn what_was_cut_short_is_not_judged() {
    let mut found = published();
    for cell in &mut found.cells {
        if let Ok(figures) = &mut cell.outcome {
            figures.unfinished = true;
        }
    }
    let claims = claims::of_the_paper(&found);
    // Section 3.6 is about the paper's pseudo-code, which is explored here.
    let judged: Vec<&str> =
        claims.iter().filter(|claim| claim.verdict.holds().is_some()).map(|claim| claim.claim.as_str()).collect();
    assert!(judged.len() == 1 && judged[0].starts_with("3.6: "), "{judged:?}");
}

/// A result truncated by a shorter limit must not be reused for a longer run.
#[test]
fn runs_of_different_scale_share_no_results() {
    let keys = [Scale::Quick, Scale::Usual, Scale::Full].map(|scale| {
        let settings = Settings::of(scale, rtalloc_subjects::shared::select::<&str>(&[]).expect("all"));
        settings.tasks().into_iter().map(|task| task.key).collect::<Vec<String>>()
    });
    let mut all: Vec<&String> = keys.iter().flatten().collect();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert!(count > 0 && all.len() == count);
}
