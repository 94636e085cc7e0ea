//! The paper's claims and our goals, evaluated by rules that are printed with them.

use super::measure::rejections::may_reject;
use super::measure::{ARENAS, TREE, is_a_peer};
use crate::papers::claims::Verdict::{self, Confirmed, Refuted};
use crate::papers::published::WAIT_FREE;
use crate::papers::wait_free::published::{ALLOCATORS, Column};
use crate::papers::wait_free::result::{
    Case, Cell, Claim, Facts, Figures, Load, Memory, StepRow, WaitFree, What, is_missing,
};

/// "Far below": maximum ratio.
const FAR_BELOW: f64 = 0.5;
/// "Comparable": maximum factor.
const COMPARABLE: f64 = 2.0;
/// Threads of the published figures, each with a core of its own. With fewer threads, contention differs, and ticks are
/// not judged.
const PUBLISHED_THREADS: u32 = 16;
/// The reason for claims about the ticks of fewer threads.
const FEW: &str = "the paper has 16 threads on 16 cores; fewer threads contend less, and the largest of their ticks \
                   are disturbances of the machine, with one thread as well";
/// Number of threads for which claims are evaluated: the maximum with one processor per thread.
fn threads(found: &WaitFree) -> Option<u32> {
    let threads = found.cells.iter().map(|cell| cell.threads);
    threads.filter(|threads| found.setting.is_comparable(*threads)).max()
}

/// Figures that may be judged; those of an incomplete case may not.
fn figures<'a>(found: &'a WaitFree, subject: &str, case: Case) -> Option<&'a Figures> {
    measured(found, subject, case).filter(|figures| figures.ticks.count > 0 && !figures.unfinished)
}

fn measured<'a>(found: &'a WaitFree, subject: &str, case: Case) -> Option<&'a Figures> {
    let threads = threads(found)?;
    let is_it = |cell: &&Cell| cell.subject == subject && cell.case == case && cell.threads == threads;
    found.cells.iter().find(is_it)?.outcome.as_ref().ok()
}

/// Figures of both allocators for every case that both have; `None` if a case is missing.
fn pairs<'a>(found: &'a WaitFree, first: &str, second: &str) -> Option<Vec<(Case, &'a Figures, &'a Figures)>> {
    Case::ALL
        .into_iter()
        .map(|case| Some((case, figures(found, first, case)?, figures(found, second, case)?)))
        .collect()
}

fn formatted<'a>(
    pairs: &Option<Vec<(Case, &'a Figures, &'a Figures)>>,
    text: impl Fn(&'a Figures, &'a Figures) -> String,
) -> String {
    pairs.as_ref().map_or_else(
        || "figures are missing".into(),
        |pairs| {
            let texts = pairs.iter().map(|(case, first, second)| format!("{} {}", case.name(), text(first, second)));
            texts.collect::<Vec<_>>().join(", ")
        },
    )
}

/// The paper's claims about figure 10 and about its bounds.
pub(super) fn of_the_paper(found: &WaitFree) -> Vec<Claim> {
    let locked = ALLOCATORS[1].1;
    // For every case, the paper's allocator and locked TLSF.
    let published = |figure: &dyn Fn(Column, Column) -> String| {
        let column = |at: usize, case: Case| WAIT_FREE.figure_10.column(at, case);
        Case::ALL.map(|case| format!("{} {}", case.name(), figure(column(0, case), column(1, case)))).join(", ")
    };
    let both = pairs(found, TREE, locked);
    let mut claims = Vec::new();
    let contended = threads(found).is_some_and(|threads| threads >= PUBLISHED_THREADS);
    let of = threads(found).map_or_else(String::new, |threads| format!(" ({threads} threads)"));
    type Theirs<'a> = &'a dyn Fn(Column, Column) -> String;
    type Ours<'a> = &'a dyn Fn(&Figures, &Figures) -> String;
    // A claim about ticks in every case, with figures of the paper's allocator and locked TLSF.
    let ticks = |claim: &str, test: &dyn Fn(&Figures, &Figures) -> bool, theirs: Theirs<'_>, ours: Ours<'_>| {
        Claim::new(
            format!("{claim}{of}"),
            both.as_ref().map(|pairs| pairs.iter().all(|(_, ours, other)| test(ours, other))),
            format!("published {}; ours {}", published(theirs), formatted(&both, ours)),
        )
        .not_comparable(!contended, FEW)
    };
    claims.push(ticks(
        "its coefficient of variation is far below locked TLSF's: at most half in every case",
        &|ours, other| ours.cv() <= FAR_BELOW * other.cv(),
        &|ours, other| format!("{:.2} against {:.2}", ours.cv, other.cv),
        &|ours, other| format!("{:.2} against {:.2}", ours.cv(), other.cv()),
    ));
    claims.push(ticks(
        "its maximum is 8 to 20 times below locked TLSF's: at least 8 in every case",
        &|ours, other| other.ticks.max as f64 >= 8.0 * ours.ticks.max as f64,
        &|ours, other| format!("{:.1}", other.max / ours.max),
        &|ours, other| format!("{:.1}", other.ticks.max as f64 / ours.ticks.max.max(1) as f64),
    ));
    let median = |ours: &Figures, other: &Figures| ours.ticks.p50.max(1) as f64 / other.ticks.p50.max(1) as f64;
    claims.push(ticks(
        "its median is comparable to locked TLSF's: within a factor of 2 in every case",
        &|ours, other| (1.0 / COMPARABLE..=COMPARABLE).contains(&median(ours, other)),
        &|ours, other| format!("{:.2}", ours.median / other.median),
        &|ours, other| format!("{:.2}", median(ours, other)),
    ));
    claims.push(ticks(
        "its average is below locked TLSF's in every case",
        &|ours, other| ours.ticks.mean < other.ticks.mean,
        &|ours, other| format!("{:.2}", ours.mean / other.mean),
        &|ours, other| format!("{:.2}", ours.ticks.mean / other.ticks.mean),
    ));
    claims.push(of_atops(found, contended));
    let used = |name: &str, case: Case| figures(found, name, case)?.utilisation.map(|share| share.mean);
    let shares: Option<Vec<(f64, f64)>> =
        [Case::I, Case::III].into_iter().map(|case| Some((used(TREE, case)?, used(locked, case)?))).collect();
    claims.push(
        Claim::new(
            format!("its utilisation is below TLSF's in cases I and III{of}"),
            shares.as_ref().map(|shares| shares.iter().all(|(ours, other)| ours < other)),
            shares.map_or_else(
                || "figures are missing".into(),
                |shares| {
                    let against =
                        |(ours, other): (f64, f64)| format!("{:.2} % against {:.2} %", 100.0 * ours, 100.0 * other);
                    let list = |shares: Vec<(f64, f64)>| shares.into_iter().map(against).collect::<Vec<_>>().join(", ");
                    let published = Case::ALL.into_iter().filter_map(|case| {
                        let share = |at: usize| WAIT_FREE.figure_10.column(at, case).utilisation;
                        Some((share(0)?, share(1)?))
                    });
                    format!("published {}; ours {}", list(published.collect()), list(shares))
                },
            ),
        )
        .because(Confirmed, "subtrees are powers of two of nodes; a size that fits none loses up to half"),
    );
    claims.push(utilisation(found));
    let nodes = found.setting.heap_bytes / 64;
    let worst = row(found, TREE, What::AllocateWorst);
    // Each visited node costs two atomic RMWs: one that takes and one that gives back.
    let writes = worst.map(|row| row.observed[0]);
    claims.push(Claim::new(
        "allocate visits at most as many nodes as the heap has (equation 1)",
        writes.map(|writes| writes.div_ceil(2) <= nodes),
        writes.map_or_else(
            || "not counted".into(),
            |writes| {
                format!(
                    "{writes} read-modify-writes, two for each node visited: at most {} of {nodes}, where every second \
                     leaf is free",
                    writes.div_ceil(2)
                )
            },
        ),
    ).because(Confirmed, "each node is visited once, taken and given back"));
    let free = row(found, TREE, What::FreeLarge);
    let subtree = nodes / 4;
    let allowed = subtree + u64::from(nodes.max(1).ilog2()) + 1;
    claims.push(
        Claim::new(
            "free takes at most as many steps as the subtree has nodes, plus one for each level (section 3.3)",
            free.map(|row| row.observed[0] + row.observed[2] <= allowed),
            free.map_or_else(
                || "not counted".into(),
                |row| format!("{} writes for a subtree of {subtree} nodes", row.observed[0] + row.observed[2]),
            ),
        )
        .because(Confirmed, "it writes the counters of its subtree and of its path once"),
    );
    claims.push(of_rejections());
    claims
}

/// Figure 10: utilisation.
fn utilisation(found: &WaitFree) -> Claim {
    let known = [Case::I, Case::III].map(|case| {
        let published = WAIT_FREE.figure_10.column(0, case).utilisation?;
        Some((published, figures(found, TREE, case)?.utilisation?.mean))
    });
    let [Some(first), Some(third)] = known else {
        return Claim::new("figure 10: its utilisation in cases I and III is as published (within a tenth)", None, "-");
    };
    let is_near = |(published, ours): (f64, f64)| (ours - published).abs() <= published / 10.0;
    let text =
        |(published, ours): (f64, f64)| format!("{:.2} % published, {:.2} % ours", 100.0 * published, 100.0 * ours);
    Claim::new(
        "figure 10: its utilisation in cases I and III is as published (within a tenth)",
        Some(is_near(first) && is_near(third)),
        format!("I {}; III {}", text(first), text(third)),
    )
    .because(
        Confirmed,
        "with its 12 bytes in each block, 948 B take fifteen nodes, and the sizes of III as many as in the paper",
    )
}

/// Figure 10: starvation of Michael's allocator where memory runs out.
fn of_atops(found: &WaitFree, contended: bool) -> Claim {
    let subject = ALLOCATORS[2].1;
    let claim = "Michael's allocator (atops) starves in cases III and IV: its maximum and coefficient of variation are \
                 the highest of the three";
    let all: Option<Vec<bool>> = [Case::III, Case::IV]
        .into_iter()
        .map(|case| {
            let atops = figures(found, subject, case)?;
            let others = [figures(found, TREE, case)?, figures(found, ALLOCATORS[1].1, case)?];
            let is_above = |other: &&Figures| atops.ticks.max > other.ticks.max && atops.cv() > other.cv();
            Some(others.iter().all(is_above))
        })
        .collect();
    let text = [Case::III, Case::IV].map(|case| {
        let ours = figures(found, subject, case);
        let ours = ours.map_or_else(|| "-".into(), |ours| format!("{} and {:.2}", ours.ticks.max, ours.cv()));
        let published = WAIT_FREE.figure_10.column(2, case);
        format!("{} {:.1e} and {:.1} published, {ours} ours", case.name(), published.max, published.cv)
    });
    let is_missing = found.cells.iter().any(|cell| cell.subject == subject && is_missing(&cell.outcome));
    let claim = Claim::new(claim, all.map(|all| all.iter().all(|holds| *holds)), text.join("; "));
    if is_missing {
        claim.because(
            Verdict::NotReproduced,
            "atomic_ops is not installed here: Debian's package libatomic-ops-dev has it",
        )
    } else {
        claim.not_comparable(!contended, FEW)
    }
}

/// Section 3.6: no request of figure 9 is rejected in a tree of twice the size.
fn of_rejections() -> Claim {
    let (rejects, states) = may_reject(8, [1, 1, 2, 1]);
    let rejects = rejects.contains(&true);
    Claim::new(
        "3.6: in a tree of 8 leaves, no execution rejects one of the requests of sizes 1, 1, 2 and 1 (every execution \
         of figure 3's pseudo-code)",
        Some(!rejects),
        format!("{states} states from an empty tree, {} a rejection", if rejects { "some with" } else { "none with" }),
    )
    .because(Confirmed, "while one request looks into a subtree that is too small, the other half has room")
    .because(
        Refuted,
        "requests that look into one half hold leaves of the root meanwhile, and a request of two finds neither half \
         with two free leaves in one subtree",
    )
}

fn row<'a>(found: &'a WaitFree, subject: &str, what: What) -> Option<&'a StepRow> {
    let stepped = found.steps.iter().find(|stepped| stepped.subject == subject)?;
    stepped.rows.as_ref().ok()?.iter().find(|row| row.what == what)
}

/// Our goals.
pub(super) fn of_ours(found: &WaitFree) -> Vec<Claim> {
    let mut claims = Vec::new();
    let local = found.local.as_ref().and_then(|local| local.as_ref().ok());
    claims.push(
        Claim::new(
            "pooled arenas, a single thread: within 10 % of single-threaded TLSF in mean ticks, with every load",
            local.map(|local| local.loads.iter().all(|load| load.ratio[1] <= 1.1)),
            local.map_or_else(
                || "not measured".into(),
                |local| {
                    let texts = local.loads.iter().map(|load| format!("{}: {:.2}", load.what, load.ratio[1]));
                    texts.collect::<Vec<_>>().join("; ")
                },
            ),
        )
        .because(Confirmed, "a slot uses its own TLSF heap without a lock")
        .because(Refuted, "the queue of remote frees is looked at in each malloc"),
    );
    let remote = row(found, ARENAS, What::FreeRemote);
    claims.push(
        Claim::new(
            "pooled arenas: a remote free takes at most 3 read-modify-writes",
            remote.map(|row| row.observed[0] <= 3 && row.bound.is_none_or(|bound| bound[0] <= 3)),
            remote.map_or_else(
                || "not counted".into(),
                |row| {
                    let bound = row.bound.map_or_else(|| "none".into(), |bound| bound[0].to_string());
                    format!("at most {} observed, published bound {bound}", row.observed[0])
                },
            ),
        )
        .because(Confirmed, "an exchange and a store that cannot fail"),
    );
    for (what, of) in [
        (
            "pooled arenas: a 99.9th percentile below every peer's in cases I to IV",
            (|figures| figures.ticks.p999 as f64) as Of,
        ),
        ("pooled arenas: a coefficient of variation below every peer's in cases I to IV", Figures::cv as Of),
        (
            "pooled arenas: a standard deviation below every peer's in cases I to IV (the coefficient of variation without \
             the mean, which puts a fast allocator at a disadvantage)",
            (|figures| figures.ticks.std) as Of,
        ),
    ] {
        let (confirmed, figures) = below_every_peer(found, of);
        claims.push(Claim::new(what, confirmed, figures).because(
            Refuted,
            "of two processors: an allocator that takes blocks from a cache of the thread is shorter still, and a \
             disturbance of microseconds is a large multiple of a short mean",
        )
        .because(Confirmed, "a slot never waits for another"));
    }
    let speed_up = |subject: &str| {
        let scaling = found.scaling.iter().find(|scaling| scaling.subject == subject)?;
        let rows = scaling.outcome.as_ref().ok()?;
        rows.iter().find(|row| row.load == Load::Mix && row.threads == 2)?.speed_up
    };
    claims.push(
        Claim::new(
            "pooled arenas: 2 threads have at least 1.9 times the throughput of one",
            speed_up(ARENAS).map(|[_, median, _]| median >= 1.9),
            speed_up(ARENAS).map_or_else(
                || "not measured".into(),
                |[low, median, high]| format!("{median:.2} times, quartiles {low:.2} and {high:.2}"),
            ),
        )
        .because(Confirmed, "slots share nothing but queues of remote frees")
        .because(Refuted, "the two processors share what the machine does besides"),
    );
    let drift = found.drift.iter().find(|drift| drift.subject == ARENAS).and_then(|drift| drift.outcome.as_ref().ok());
    claims.push(Claim::new(
        "pooled arenas: memory stays bounded when every free is remote (the last half of the frees needs at most 1.25 times \
         as much as the first tenth)",
        drift.map(|memory| memory.growth() <= Memory::STEADY),
        drift.map_or_else(
            || "not measured".into(),
            |memory| {
                let frees = memory.points.last().map_or(0, |point| point.0);
                format!("{:.3} times after {frees} remote frees", memory.growth())
            },
        ),
    ).because(Confirmed, "a queued block is freed by the owner when it allocates"));
    let bounded: Vec<(&str, Option<bool>)> = found
        .steps
        .iter()
        .flat_map(|stepped| stepped.rows.iter().flatten().map(|row| (stepped.subject.as_str(), row.within())))
        .collect();
    let broken: Vec<&str> =
        bounded.iter().filter(|(_, within)| *within == Some(false)).map(|(subject, _)| *subject).collect();
    claims.push(
        Claim::new(
            "no operation takes more steps than its published bound",
            (!bounded.is_empty()).then_some(broken.is_empty()),
            if broken.is_empty() { format!("{} rows of steps", bounded.len()) } else { broken.join(", ") },
        )
        .because(Confirmed, "the bounds are of the code, and steps are counted by it"),
    );
    claims
}

fn show(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

type Of = fn(&Figures) -> f64;

/// Whether the figure of pooled arenas is below every peer's in every case, with the exceptions.
fn below_every_peer(found: &WaitFree, of: Of) -> (Option<bool>, String) {
    let peers: Vec<&Facts> = found.subjects.iter().filter(|facts| is_a_peer(facts)).collect();
    let (mut beaten_by, mut compared, mut beaten, mut cut_short) = (Vec::new(), 0, 0, 0);
    for case in Case::ALL {
        let Some(ours) = figures(found, ARENAS, case) else { return (None, "not measured".into()) };
        let others: Vec<(&str, f64)> =
            peers.iter().filter_map(|peer| Some((peer.name.as_str(), of(figures(found, &peer.name, case)?)))).collect();
        compared += others.len();
        let is_cut = |peer: &&&Facts| measured(found, &peer.name, case).is_some_and(|figures| figures.unfinished);
        cut_short += peers.iter().filter(is_cut).count();
        let below: Vec<String> = others
            .iter()
            .filter(|(_, other)| *other <= of(ours))
            .map(|(name, other)| format!("{name} {}", show(*other)))
            .collect();
        beaten += below.len();
        if !below.is_empty() {
            beaten_by.push(format!("{}: {} against {}", case.name(), show(of(ours)), below.join(", ")));
        }
    }
    let text = format!("below in {} of {compared} comparisons", compared - beaten);
    let text = if beaten == 0 { text } else { format!("{text}; not in {}", beaten_by.join("; ")) };
    let text = if cut_short == 0 { text } else { format!("{text}; {cut_short} were cut short") };
    // An incomplete case might be below.
    let is_known = compared > 0 && (beaten > 0 || cut_short == 0);
    (is_known.then_some(beaten == 0), text)
}
