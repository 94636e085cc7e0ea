//! The paper's claims, compared with our figures. Every claim states its rule.

use super::measure::watch::moments;
use super::measure::{ABSTRACT, BACK_REFERENCE, PAGE, POINTER};
use crate::papers::compact_fit::published::{PEERS, formatted as formatted_moments};
use crate::papers::compact_fit::result::{Claim, CompactFit, Counts, Promise};
use crate::papers::published::COMPACT_FIT;

/// Whether counts are independent of the object's size: the maxima of the larger and the smaller half of the sizes
/// differ by at most a tenth.
fn is_constant(counts: &Counts) -> bool {
    let mut sizes: Vec<u32> = counts.operations.iter().map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    let middle = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    let most = |large: bool| {
        counts
            .operations
            .iter()
            .filter(|(size, _)| (*size >= middle) == large)
            .map(|(_, count)| *count)
            .max()
            .unwrap_or(0)
    };
    let (large, small) = (f64::from(most(true)), f64::from(most(false)));
    large <= 1.1 * small && small <= 1.1 * large
}

/// Whether counts increase linearly with the object's size, with a fit that explains nine tenths of their variance.
fn is_linear(counts: &Counts) -> bool {
    counts.per_byte > 0.0 && counts.explained >= 0.9
}

/// Whether all counts of objects of similar size (within an eighth) are within a tenth of their mean.
fn is_step(counts: &Counts) -> bool {
    let mut by_class: std::collections::BTreeMap<u32, Vec<f64>> = std::collections::BTreeMap::new();
    for (size, count) in &counts.operations {
        by_class.entry((f64::from(*size).ln() / 1.125_f64.ln()) as u32).or_default().push(f64::from(*count));
    }
    by_class.values().all(|counts| {
        let (mean, deviation) = moments(counts.iter().copied());
        deviation <= mean / 10.0
    })
}

/// The paper's claims, compared with our figures. Every claim states its rule.
pub(super) fn claims(found: &CompactFit) -> Vec<Claim> {
    let series = |figure: &str, name: &str| {
        let panel = found.panels.iter().find(|panel| panel.figure == figure)?;
        panel.series.iter().find(|series| series.published_as == name)?.ours.as_ref().ok()
    };
    let about = |counts: Option<&Counts>| {
        counts.map_or_else(|| "-".into(), |counts| format!("{:.2} \u{b1} {:.2}", counts.mean, counts.deviation))
    };
    let mean = |figure: &str, name: &str| series(figure, name).map(|counts| counts.mean);
    let formatted = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.1}"));
    let (incremental, rate_monotonic) = (&COMPACT_FIT.section_5_2, &COMPACT_FIT.section_5_3);
    let mut claims = Vec::new();
    const CONSTANT: &str =
        "the maxima over the larger half of the sizes and over the smaller half differ by at most a tenth";
    const LINEAR: &str = "a line fitted to the size explains nine tenths of the variance";

    let spread = |name: &str| series("6a", name).map(|counts| counts.deviation / counts.mean);
    // In a heap that is not full, the first gap always suffices: nothing is searched, so the load cannot confirm claims
    // about searches.
    let searches = spread("First-fit").is_some_and(|first| first > 0.0);
    claims.push(Claim::new(
        "6a: first-fit and best-fit allocate highly unpredictably (deviations above half the mean), DL more \
         predictably (below theirs; only where first-fit searches, in a heap that is just full)",
        spread("First-fit")
            .zip(spread("Best-fit"))
            .zip(spread("DL"))
            .filter(|_| searches)
            .map(|((first, best), dl)| first.min(best) > 0.5 && dl < first.min(best)),
        ["First-fit", "Best-fit", "DL"].map(|name| format!("{name} {}", about(series("6a", name)))).join(", "),
    ));
    for (figure, published, load) in
        [("6a", incremental.allocate, "incremental"), ("7a", rate_monotonic.allocate, "rate-monotonic")]
    {
        let ours = series(figure, "CFM");
        claims.push(Claim::new(
            format!("{figure}: allocate with CFM is constant, {load} ({CONSTANT})"),
            ours.map(is_constant),
            format!("{} published; {} ours", formatted_moments(published), about(ours)),
        ));
        let ours = series(figure, "CFNM");
        claims.push(Claim::new(
            format!("{figure}: allocate with CFNM is linear in the object, {load} ({LINEAR})"),
            ours.map(is_linear),
            format!("{:.2} instructions per byte ours", ours.map_or(f64::NAN, |counts| counts.per_byte)),
        ));
        let order = |names: [&str; 7]| -> Option<[f64; 7]> {
            let means: Option<Vec<f64>> = names.iter().map(|name| mean(figure, name)).collect();
            means?.try_into().ok()
        };
        let means = order(["Half-fit", "TLSF", "CFM", "DL", "First-fit", "Best-fit", "CFNM"]);
        let named = [
            ("half-fit", "Half-fit"),
            ("TLSF", "TLSF"),
            ("CFM", "CFM"),
            ("DL", "DL"),
            ("first-fit", "First-fit"),
            ("best-fit", "Best-fit"),
        ];
        let figures =
            named.map(|(name, published_as)| format!("{name} {}", formatted(mean(figure, published_as)))).join(", ");
        let (words, judged) = if figure == "6a" {
            (
                "half-fit and TLSF allocate with fewer instructions than CFM, CFM about as DL (within a factor of two), and first-fit and \
                 best-fit need more (only where first-fit searches)",
                means.filter(|_| searches).map(|[half, tlsf, cfm, dl, first, best, _]| {
                    half.max(tlsf) < cfm && (0.5..=2.0).contains(&(cfm / dl)) && cfm.max(dl) < first.min(best)
                }),
            )
        } else {
            (
                "CFM allocates with fewer instructions than DL, and with more than half-fit and TLSF",
                means.map(|[half, tlsf, cfm, dl, ..]| half.max(tlsf) < cfm && cfm < dl),
            )
        };
        claims.push(Claim::new(format!("{figure}: in the mean, {words}"), judged, figures));
    }
    let peers = PEERS.map(|(name, _)| name);
    let all = peers.iter().map(|name| series("6b", name).map(is_constant)).try_fold(true, |all, one| Some(all & one?));
    claims.push(Claim::new(
        format!("6b: every allocator but Compact-fit frees in constant time ({CONSTANT})"),
        all,
        peers
            .map(|name| {
                let but =
                    if series("6b", name).is_some_and(|counts| !is_constant(counts)) { ", which is not" } else { "" };
                format!("{name} {}{but}", formatted(mean("6b", name)))
            })
            .join(", "),
    ));
    let ours = series("6b", "CFM");
    claims.push(Claim::new(
        format!("6b: free with full compaction is linear in the object with CFM ({LINEAR})"),
        ours.map(is_linear),
        ours.map_or_else(
            || "-".into(),
            |counts| {
                let operations = counts.operations.len();
                format!(
                    "{:.3} instructions per byte, {} of {operations} frees move an object",
                    counts.per_byte,
                    counts.moves.unwrap_or(0)
                )
            },
        ),
    ));
    for (figure, full, published) in [
        ("6c", "6b", incremental.free_partial),
        ("7c", "7b", rate_monotonic.free_partial),
        ("7c*", "7b*", rate_monotonic.free_partial),
    ] {
        let ours = series(figure, "CFM");
        let something_to_move = series(full, "CFM").is_some_and(|counts| counts.moves.is_some_and(|moves| moves > 0));
        claims.push(Claim::new(
            format!(
                "{figure}: free with partial compaction is constant with CFM and moves nothing ({CONSTANT}; only where full compaction moves \
                 something, {full})"
            ),
            ours.map(|counts| is_constant(counts) && counts.moves == Some(0))
                .filter(|holds| something_to_move || !holds),
            format!(
                "{} published; {} ours, {} moves",
                formatted_moments(published),
                about(ours),
                ours.and_then(|counts| counts.moves).map_or_else(|| "-".into(), |moves| moves.to_string())
            ),
        ));
    }
    let ours = series("6c", "CFNM");
    claims.push(Claim::new(
        format!(
            "6c: free is linear in the object with CFNM always ({LINEAR}), a step for each size class (deviation within a class at most a tenth)"
        ),
        ours.map(|counts| is_linear(counts) && is_step(counts)),
        format!("{} ours", about(ours)),
    ));
    for figure in ["7b", "7b*"] {
        let ours = series(figure, "CFM");
        claims.push(Claim::new(
            format!(
                "{figure}: with full compaction about the first {} frees move objects, and none after that (some do, \
                 and none in the second half of the run)",
                rate_monotonic.compacting_frees
            ),
            ours.map(|counts| counts.last_move.is_some_and(|last| last as usize <= counts.operations.len() / 2)),
            ours.map_or_else(
                || "-".into(),
                |counts| {
                    let last = counts.last_move.map(|last| format!(", the last in free {last}"));
                    format!(
                        "{} of {} frees move an object{}",
                        counts.moves.unwrap_or(0),
                        counts.operations.len(),
                        last.unwrap_or_default()
                    )
                },
            ),
        ));
    }
    claims.push(Claim::new(
        "7b: all frees together take fewer instructions with CFM than with DL, including full compaction",
        mean("7b", "CFM").zip(mean("7b", "DL")).map(|(ours, dl)| ours < dl),
        format!("means: CFM {}, DL {}", formatted(mean("7b", "CFM")), formatted(mean("7b", "DL"))),
    ));
    let ours = series("7b", "CFNM");
    claims.push(Claim::new(
        format!("7b: free is linear in the object with CFNM although nothing is compacted ({LINEAR})"),
        ours.map(is_linear),
        ours.map_or_else(
            || "-".into(),
            |counts| {
                format!("{:.3} instructions per byte, {:.0} % explained", counts.per_byte, 100.0 * counts.explained)
            },
        ),
    ));
    let best = series("7a", "Best-fit");
    claims.push(Claim::new(
        "7a: best-fit allocates highly unpredictably (deviation above half the mean)",
        best.map(|counts| counts.deviation > 0.5 * counts.mean),
        format!("{} ours", about(best)),
    ));
    let frame =
        |bytes: Option<u64>| found.frames.iter().find(|frame| frame.frame_bytes == bytes)?.ours.as_ref().ok().copied();
    let moving = frame(None);
    let fewer = |bytes: u64| Some(frame(Some(bytes))? < moving?);
    let known: Vec<u64> = found.frames.iter().filter_map(|frame| frame.frame_bytes).collect();
    let least = known.iter().copied().find(|bytes| fewer(*bytes) == Some(true));
    let judged: Option<Vec<bool>> =
        known.iter().map(|bytes| Some(fewer(*bytes)? == (*bytes >= incremental.faster_frames_bytes))).collect();
    claims.push(Claim::new(
        format!(
            "CFNM frees with fewer instructions than CFM with full compaction from block-frames of {} B on (means of 6b)",
            incremental.faster_frames_bytes
        ),
        judged.filter(|judged| !judged.is_empty()).map(|judged| judged.into_iter().all(|agrees| agrees)),
        least.map_or_else(|| "never, ours".into(), |least| format!("from {least} B on, ours")),
    ));
    let room = |label: &str| found.fragmentation.rows.iter().find(|row| row.label == label)?.ours.as_ref().ok();
    let above = |label: &str| {
        let (ours, tlsf) = (room(label)?, room("TLSF")?);
        Some(ours.more.iter().zip(&tlsf.more).filter(|(ours, tlsf)| ours >= tlsf).count())
    };
    let sizes = found.fragmentation.sizes.len();
    let counts: Option<Vec<usize>> = (1..=9).map(|pages| above(&format!("CFM {pages}"))).collect();
    claims.push(Claim::new(
        "8: with 1 to 9 not-full pages CFM has room for at least as many objects as TLSF, of every size",
        counts.as_ref().map(|counts| counts.iter().all(|count| *count == sizes)),
        counts.map_or_else(
            || "-".into(),
            |counts| {
                let list: Vec<String> = counts.iter().map(usize::to_string).collect();
                let few = found.fragmentation.sizes.iter().enumerate().filter(|(at, _)| {
                    let ours = (1..=9).filter_map(|pages| Some(room(&format!("CFM {pages}"))?.more[*at]));
                    room("TLSF").is_some_and(|tlsf| ours.into_iter().any(|more| more < tlsf.more[*at]))
                });
                let largest = few.map(|(_, size)| *size).max();
                let below = largest.map_or_else(String::new, |size| format!("; less room only up to {size} B"));
                format!("of {sizes} sizes, CFM 1 to 9: {}{below}", list.join(", "))
            },
        ),
    ));
    let read = |through: &str| found.dereference.iter().find(|row| row.through == through)?.ours.as_ref().ok().copied();
    let more = |through: &str| Some(read(through)? as i64 - read(POINTER)? as i64);
    let kinds = [ABSTRACT, "a handle, CFNM", "a handle, CFM"].map(more);
    let published = COMPACT_FIT.section_3_5;
    let theirs = [published.moving_more, published.non_moving_more[0]].map(|count| count as i64);
    claims.push(Claim::new(
        format!(
            "a dereference takes {} instruction more than a pointer with CFM, and {} with CFNM",
            theirs[0], theirs[1]
        ),
        kinds[0].zip(kinds[1]).map(|(moving, non_moving)| [moving, non_moving] == theirs),
        {
            let [moving, non_moving, handle] =
                kinds.map(|more| more.map_or_else(|| "-".into(), |more| more.to_string()));
            format!("ours: {moving} and {non_moving} more, and {handle} through a checked handle of CFM")
        },
    ));
    let constant = found.initialisation.iter().map(|row| {
        let counts = row.ours.as_ref().ok()?;
        Some(counts.iter().all(|(_, count)| *count == counts[0].1))
    });
    claims.push(Claim::new(
        "a heap is initialised in constant time (the same count for 64 KB and for 1 GB)",
        constant.clone().try_fold(true, |all, one| Some(all & one?)),
        found
            .initialisation
            .iter()
            .filter_map(|row| {
                let counts: Vec<String> = row.ours.as_ref().ok()?.iter().map(|(_, count)| count.to_string()).collect();
                Some(format!("{} {}", row.subject, counts.join(" and ")))
            })
            .collect::<Vec<_>>()
            .join(", "),
    ));
    for (what, words) in [
        (PAGE, "a page of 16 KB has at most 78 B of metadata"),
        (BACK_REFERENCE, "a back reference takes at most 12.5 % of a page-block, in the smallest"),
    ] {
        let row = found.overhead.iter().find(|row| row.what == what);
        claims.push(Claim::new(
            words,
            row.and_then(|row| Some(row.ours? <= row.published)),
            row.and_then(|row| row.ours.map(|ours| format!("{ours:.1} {} ours", row.unit)))
                .unwrap_or_else(|| "-".into()),
        ));
    }
    let promises: Option<Vec<Promise>> = found.promises.iter().map(|promise| promise.as_ref().ok().copied()).collect();
    let promises = promises.filter(|promises| promises.iter().any(|promise| promise.frees > 0));
    claims.push(Claim::new(
        "proposition 1: a free moves nothing while n_f < max_nr_nf_pages - 1 (the history of the errata, and pseudo-random ones of a class, 1 \
         to 9 not-full pages)",
        promises.as_ref().map(|promises| promises.iter().all(|promise| promise.moved == 0)),
        promises.map_or_else(
            || "-".into(),
            |promises| {
                let sum = |of: fn(&Promise) -> u64| promises.iter().map(of).sum::<u64>();
                format!(
                    "{} of {} frees move an object; while n_f < max_nr_nf_pages - 2, {} of {}",
                    sum(|promise| promise.moved),
                    sum(|promise| promise.frees),
                    sum(|promise| promise.with_one_less.1),
                    sum(|promise| promise.with_one_less.0)
                )
            },
        ),
    ));
    claims
}

#[cfg(test)]
mod tests {
    use super::super::measure::watch::of_operations as counted;
    use super::*;

    /// If full compaction moves nothing, the absence of moves with partial compaction confirms nothing; a move still
    /// refutes.
    #[test]
    fn a_load_that_cannot_tell_is_not_judged() {
        let counts = |operations: &[(u32, u32)], moves| Counts { moves: Some(moves), ..counted(operations) };
        let even = [(8, 50), (16, 50), (24, 50)];
        let varying = [(8, 50), (16, 500), (24, 50)];
        let found = |full: u64, partial: u64, first: &[(u32, u32)]| {
            let panel = |figure: &str, series: Vec<(&str, Counts)>| crate::papers::compact_fit::result::Panel {
                figure: figure.into(),
                what: String::new(),
                series: series
                    .into_iter()
                    .map(|(name, counts)| crate::papers::compact_fit::result::Series {
                        published_as: name.into(),
                        subject: name.into(),
                        published: None,
                        ours: Ok(counts),
                    })
                    .collect(),
            };
            let searching = ["First-fit", "Best-fit"].map(|name| (name, counts(first, 0)));
            CompactFit {
                panels: vec![
                    panel("6a", searching.into_iter().chain([("DL", counts(&even, 0))]).collect()),
                    panel("7b", vec![("CFM", counts(&even, full))]),
                    panel("7c", vec![("CFM", counts(&even, partial))]),
                ],
                heap_bytes: 0,
                fragmentation: crate::papers::compact_fit::result::Fragmentation {
                    heap_bytes: 0,
                    sizes: Vec::new(),
                    rows: Vec::new(),
                },
                dereference: Vec::new(),
                initialisation: Vec::new(),
                overhead: Vec::new(),
                frames: Vec::new(),
                promises: Vec::new(),
                claims: Vec::new(),
            }
        };
        let of = |found: &CompactFit, start: &str| {
            claims(found).into_iter().find(|claim| claim.claim.starts_with(start)).expect(start).verdict.holds()
        };
        const SEVEN: &str = "7c: free with partial";
        assert_eq!(
            [(0, 0), (3, 0), (0, 1)].map(|(full, partial)| of(&found(full, partial, &even), SEVEN)),
            [None, Some(true), Some(false)]
        );
        assert_eq!([&even, &varying].map(|first| of(&found(1, 0, first), "6a: first-fit")), [None, Some(true)]);
    }

    #[test]
    fn rules_tell_constant_from_linear_and_steps() {
        let constant: Vec<(u32, u32)> = (1..500).map(|size| (8 * size, 80 + size % 7)).collect();
        assert!(is_constant(&counted(&constant)) && !is_linear(&counted(&constant)));
        let linear: Vec<(u32, u32)> = (1..500).map(|size| (8 * size, 80 + 2 * size)).collect();
        assert!(is_linear(&counted(&linear)) && !is_constant(&counted(&linear)));
        assert!(is_step(&counted(&linear)));
        let falling: Vec<(u32, u32)> = (1..500).map(|size| (8 * size, 2000 - 2 * size)).collect();
        assert!(!is_constant(&counted(&falling)) && !is_linear(&counted(&falling)));
        let mixed: Vec<(u32, u32)> =
            (1..500).map(|size| (8 * size, if size % 2 == 0 { 80 } else { 80 + 2 * size })).collect();
        assert!(!is_step(&counted(&mixed)) && !is_linear(&counted(&mixed)));
        let even = counted(&[(8, 10), (16, 10)]);
        assert!((even.deviation, even.explained) == (0.0, 0.0) && is_constant(&even));
    }
}
