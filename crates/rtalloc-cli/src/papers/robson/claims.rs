//! Theoretical bounds, compared with the results of the adversaries.
//!
//! Some units at the ends of a heap are unavailable for blocks: markers, alignment losses. Comparisons with an upper
//! bound allow [`ENDS`] such units; lower bounds are compared exactly.

use super::measure::theory::{comb, lower_bound, refuted_of_half_fit, teeth};
use crate::papers::claims::Verdict::{Confirmed, Refuted};
use crate::papers::robson::result::{Adversary, Claim, Need, Robson, Row};

/// Unavailable units at the ends of a heap.
const ENDS: f64 = 4.0;

pub(super) fn claims(found: &Robson) -> Vec<Claim> {
    let mut claims = lower_bounds(found);
    claims.extend(exactly(found));
    claims.extend(guarantees(found));
    claims.extend(buddies(found));
    claims.extend(combs(found));
    claims.extend(ranking(found));
    claims.extend(moving(found));
    claims
}

/// The needs of a row against an adversary.
fn needs(row: &Row, adversary: Adversary) -> impl Iterator<Item = &Need> {
    row.answers
        .iter()
        .filter(move |answer| answer.adversary == adversary)
        .flat_map(|answer| answer.needs.iter().flatten())
}

/// Whether all results of a row are available.
fn is_whole(row: &Row) -> bool {
    row.answers.iter().all(|answer| answer.needs.is_ok())
}

/// The verdict on a statement about all elements: one counterexample refutes it, but if results are missing, it is not
/// confirmed.
fn verdict(all: impl IntoIterator<Item = bool>, nothing_is_missing: bool) -> Option<bool> {
    let (mut any, mut hold) = (false, true);
    for holds in all {
        (any, hold) = (true, hold && holds);
    }
    if hold { (any && nothing_is_missing).then_some(true) } else { Some(false) }
}

fn units(need: &Need) -> f64 {
    need.needed_bytes as f64 / need.unit_bytes as f64
}

fn bound(need: &Need) -> f64 {
    lower_bound(need.m as usize, need.n as usize)
}

/// One claim per family: Robson's program makes every non-moving allocator need what theory states.
fn lower_bounds(found: &Robson) -> Vec<Claim> {
    let mut families: Vec<&str> = found.rows.iter().filter(|row| !row.moves).map(|row| row.family.as_str()).collect();
    families.sort_unstable();
    families.dedup();
    let claim = |family: &str| {
        let members = || found.rows.iter().filter(|row| row.family == family && !row.moves);
        let all: Vec<(&Row, &Need)> =
            members().flat_map(|row| needs(row, Adversary::Powers).map(move |need| (row, need))).collect();
        let least = all
            .iter()
            .min_by(|(_, one), (_, other)| (units(one) / bound(one)).total_cmp(&(units(other) / bound(other))));
        let mut answers = members().flat_map(|row| &row.answers);
        let are_whole = answers.all(|answer| answer.adversary != Adversary::Powers || answer.needs.is_ok());
        let figures = least.map_or_else(
            || "-".into(),
            |(row, need)| {
                format!(
                    "the least is {:.3} times the bound, {} with n = {}: {:.3} M",
                    units(need) / bound(need),
                    row.subject,
                    need.n,
                    need.ratio()
                )
            },
        );
        Claim::new(
            format!(
                "{family} ({}): no allocator needs less than M(\u{bd} log2 n + 1) - n + 1 units against Robson's \
                 program, for any n",
                members().count()
            ),
            verdict(all.iter().map(|(_, need)| units(need) >= bound(need)), are_whole),
            figures,
        )
        .because(Confirmed, "Robson proved it for every allocator that moves nothing (1971)")
    };
    families.into_iter().map(claim).collect()
}

/// Allocators without rounding losses need no more than that.
fn exactly(found: &Robson) -> Option<Claim> {
    const NAMES: [&str; 4] = ["first-fit", "best-fit", "half-fit", "tlsf"];
    const SIZES: [u64; 3] = [16, 64, 256];
    let rows: Vec<&Row> = NAMES.iter().filter_map(|name| found.rows.iter().find(|row| row.subject == *name)).collect();
    let known: Vec<&Need> =
        rows.iter().flat_map(|row| SIZES.iter().filter_map(|n| row.need(Adversary::Powers, *n))).collect();
    let figures = rows.iter().map(|row| {
        let ratios: Vec<String> =
            SIZES.iter().filter_map(|n| Some(format!("{:.3}", row.need(Adversary::Powers, *n)?.ratio()))).collect();
        format!("{} {}", row.subject, ratios.join(", "))
    });
    let law: Vec<String> =
        SIZES.iter().map(|n| format!("{:.3}", lower_bound(found.m as usize, *n as usize) / found.m as f64)).collect();
    (!rows.is_empty()).then(|| {
        Claim::new(
            "first-fit, best-fit, half-fit and TLSF need exactly that, with n = 16, 64 and 256 (at most 1 % of M more)",
            (known.len() == NAMES.len() * SIZES.len())
                .then(|| known.iter().all(|need| units(need) - bound(need) <= 0.01 * need.m as f64)),
            format!("the bound {}; {}", law.join(", "), figures.collect::<Vec<_>>().join("; ")),
        )
        .because(Confirmed, "none of them rounds these sizes, and each fills the gaps that the program leaves first")
    })
}

/// One claim per guarantee, but for allocators whose heaps hold none of the games.
fn guarantees(found: &Robson) -> Vec<Claim> {
    let mut formulas: Vec<&String> = Vec::new();
    let is_played =
        |row: &&Row| row.answers.iter().any(|answer| answer.needs.as_ref().map_or(true, |needs| !needs.is_empty()));
    for formula in found.rows.iter().filter(is_played).filter_map(|row| row.guarantee.as_ref()) {
        if !formulas.contains(&formula) {
            formulas.push(formula);
        }
    }
    let claim = |formula: &String| {
        let members: Vec<&Row> = found.rows.iter().filter(|row| row.guarantee.as_ref() == Some(formula)).collect();
        let judged = |row: &'_ Row| -> Vec<(Adversary, Need, f64)> {
            let all = row
                .answers
                .iter()
                .flat_map(|answer| answer.needs.iter().flatten().map(|need| (answer.adversary, *need)));
            all.filter_map(|(adversary, need)| {
                let allowed = need.guaranteed_bytes? as f64 + ENDS * need.unit_bytes as f64;
                Some((adversary, need, need.needed_bytes as f64 / allowed))
            })
            .collect()
        };
        let formatted = members.iter().filter_map(|row| {
            let (adversary, need, _) = judged(row).into_iter().max_by(|one, other| one.2.total_cmp(&other.2))?;
            let guaranteed = need.guaranteed().unwrap_or(0.0);
            Some(format!(
                "{} {:.2} of {guaranteed:.2} M ({}, n = {})",
                row.subject,
                need.ratio(),
                adversary.name(),
                need.n
            ))
        });
        let formatted: Vec<String> = formatted.collect();
        let all: Vec<f64> = members.iter().flat_map(|row| judged(row)).map(|(.., share)| share).collect();
        Claim::new(
            format!(
                "{formula}: none of these adversaries makes {} need more (but for {ENDS} units at the ends of the \
                 heap)",
                members.iter().map(|row| row.subject.as_str()).collect::<Vec<_>>().join(", ")
            ),
            verdict(all.iter().map(|share| *share <= 1.0), members.iter().all(|row| is_whole(row))),
            if formatted.is_empty() { "-".into() } else { format!("closest: {}", formatted.join("; ")) },
        )
        .because(Confirmed, "a theorem on the allocator as implemented (docs/guarantees)")
    };
    formulas.into_iter().map(claim).collect()
}

/// Without rounding, the binary buddy needs only half of its guarantee.
fn buddies(found: &Robson) -> Option<Claim> {
    let row = found.rows.iter().find(|row| row.subject == "binary-buddy")?;
    let share = |need: &Need| {
        let allowed = need.m as f64 * (1.0 + (need.n as f64).log2()) + need.n as f64 + ENDS;
        units(need) / allowed
    };
    let most = needs(row, Adversary::Powers).max_by(|one, other| share(one).total_cmp(&share(other)));
    Some(
        Claim::new(
            format!(
                "requests that are powers of two: Robson's program does not make the binary buddy need more than M(1 + \
             log2 n) + n - 1 (but for {ENDS} units at the ends of the heap)"
            ),
            most.map(|need| share(need) <= 1.0),
            most.map_or_else(
                || "-".into(),
                |need| {
                    format!("closest: {:.2} of {:.2} M with n = {}", need.ratio(), need.ratio() / share(need), need.n)
                },
            ),
        )
        .because(Confirmed, "without rounding, a buddy loses what is free between blocks alone"),
    )
}

/// The results of the combs.
fn combs(found: &Robson) -> [Claim; 3] {
    let reached = |names: &[&str], adversary: Adversary, sizes: [u64; 2], confirmed: &dyn Fn(&Need) -> bool| {
        let rows: Vec<&Row> = found.rows.iter().filter(|row| names.contains(&row.subject.as_str())).collect();
        let all: Vec<(&Row, &Need)> =
            rows.iter().flat_map(|row| sizes.iter().filter_map(|n| Some((*row, row.need(adversary, *n)?)))).collect();
        let formatted = |(row, need): &(&Row, &Need)| {
            let used = need.ample_bytes as f64 / (need.m * need.unit_bytes) as f64;
            format!("{} with n = {}: {used:.2} M used, {:.2} M needed", row.subject, need.n, need.ratio())
        };
        let figures: Vec<String> = all.iter().map(formatted).collect();
        let confirmed = (all.len() == names.len() * sizes.len()).then(|| all.iter().all(|(_, need)| confirmed(need)));
        (confirmed, if figures.is_empty() { "-".into() } else { figures.join("; ") })
    };
    let is_comb = |need: &Need| {
        let (m, n) = (need.m as f64, need.n as f64);
        let used = need.ample_bytes as f64 / need.unit_bytes as f64;
        used >= comb(need.m as usize, need.n as usize) && units(need) >= (m - 5.0 * n) * (n - 2.0)
    };
    let (best, best_figures) = reached(&["best-fit", "tree-best-fit", "tlsf"], Adversary::Comb, [16, 32], &is_comb);
    let is_march = |need: &Need| units(need) >= (need.n * (need.m - need.n)) as f64;
    let (next, next_figures) = reached(&["next-fit"], Adversary::March, [16, 64], &is_march);
    let are_teeth = |need: &Need| {
        let (m, n) = (need.m as usize, need.n as usize);
        units(need) >= teeth(m, n) && units(need) > refuted_of_half_fit(m, n) as f64 + ENDS
    };
    let (half, half_figures) = reached(&["half-fit"], Adversary::Teeth, [16, 64], &are_teeth);
    [
        Claim::new(
            "an adversary makes best-fit and TLSF use (M - 4n + 11)(n - 2) units of ample memory, and need at \
                    least (M - 5n)(n - 2), with n = 16 and 32",
            best,
            best_figures,
        )
        .because(
            Confirmed,
            "each request is served from a gap that fits it closely, and the rest serves nothing larger",
        ),
        Claim::new("an adversary makes next-fit need n(M - n) units, with n = 16 and 64", next, next_figures)
            .because(Confirmed, "its search goes on behind the gaps"),
        Claim::new(
            "an adversary makes half-fit need n(M - 2n) units, with n = 16 and 64: 2M(1 + \u{2308}log2 \
                    n\u{2309}), which o1heap's documentation states, does not suffice",
            half,
            half_figures,
        )
        .because(Confirmed, "a gap of n units or less serves no request of the same power of two"),
    ]
}

/// The allocator that is better on average is worse in the worst case.
fn ranking(found: &Robson) -> Option<Claim> {
    const N: u64 = 16;
    // The worst case is known only if all adversaries were run.
    let row = |name: &str| found.rows.iter().find(|row| row.subject == name && is_whole(row));
    let worst = |name: &str| Some(row(name)?.worst(N)?.1.ratio());
    let [best, tlsf, first, buddy, half] =
        ["best-fit", "tlsf", "first-fit-address", "binary-buddy", "half-fit"].map(worst);
    let formatted = |value: Option<f64>| value.map_or_else(|| "-".into(), |value: f64| format!("{value:.2}"));
    let least = best.zip(tlsf).map(|(best, tlsf)| best.min(tlsf));
    let most = [first, buddy].into_iter().try_fold(0.0, |most: f64, one| Some(most.max(one?)));
    found.sizes.contains(&N).then(|| {
        Claim::new(
            "the usual ranking is inverted: with n = 16, the worst-case need of best-fit and TLSF, which waste \
                least on real programs, is more than twice that of address-ordered first-fit and the binary buddy",
            least.zip(most).map(|(least, most)| least > 2.0 * most),
            format!(
                "best-fit {} M, TLSF {} M; first-fit in address order {} M, binary buddy {} M; half-fit {} M",
                formatted(best),
                formatted(tlsf),
                formatted(first),
                formatted(buddy),
                formatted(half)
            ),
        )
        .because(Confirmed, "what fits tightly leaves gaps that only the same size fills")
    })
}

/// Allocators that move objects are not subject to these bounds.
fn moving(found: &Robson) -> Option<Claim> {
    let rows: Vec<&Row> = found.rows.iter().filter(|row| row.moves).collect();
    let growth = |row: &Row| {
        let needs: Vec<&Need> = needs(row, Adversary::Powers).collect();
        let (first, last) = (needs.first()?, needs.last()?);
        Some((units(last) - units(first), bound(last) - bound(first), first.n, last.n))
    };
    let all: Option<Vec<(f64, f64, u64, u64)>> = rows.iter().map(|row| growth(row)).collect();
    let figures = rows.iter().zip(all.iter().flatten()).map(|(row, (grows, law, first, last))| {
        format!(
            "{} by {:.2} M from n = {first} to {last}, bound by {:.2} M",
            row.subject,
            grows / found.m as f64,
            law / found.m as f64
        )
    });
    (!rows.is_empty()).then(|| {
        Claim::new(
            "the lower bound does not apply to moving allocators: against Robson's program, Compact-fit's memory \
                grows more slowly with n than the lower bound of all others, although each class in use has a page",
            all.as_ref().map(|all| all.iter().all(|(grows, law, ..)| grows < law)),
            figures.collect::<Vec<_>>().join("; "),
        )
        .because(
            Refuted,
            "it has no fragmentation between pages, but a page for each class in use: with M as small as here, pages \
             of all classes grow faster with n than the bound",
        )
        .because(Confirmed, "objects move into the gaps")
    })
}
