//! The thesis' claims, compared with our figures by rules that the claims state.
//!
//! Claims about boot and stable are judged on two recordings, because the thesis' own is not available: where they
//! disagree, the claim is not reproduced.

#[cfg(test)]
mod tests;

use crate::papers::claims::Verdict::{Confirmed, NotReproduced, Refuted};
use crate::papers::published::THESIS;
use crate::papers::sample::{Decided, Estimate, Sample, all, all_of};
use crate::papers::thesis::published::{ALLOCATORS, Space};
use crate::papers::thesis::result::{CLASS_BYTES, Claim, Costs, Granted, Measured, OnTrace, Opening, Part, Row};
use rtalloc_lab::result::schema::Distribution;

/// The thesis' four fastest allocators.
const FAST: [&str; 4] = ["regis1", "regis2", "sss", "reaps"];

/// The regions.
const REGIONS: [&str; 2] = ["regis1", "regis2"];

/// Values of F that differ by less than this, in per cent, count as equal.
const SAME_PERCENT: f64 = 0.1;

/// Figures of tables 7 and 8 that are compared: F and I of each allocator in each table.
const COMPARED: usize = 2 * 2 * ALLOCATORS.len();

/// H of Bitframe after it has taken a page for each chunk size.
const MOST_OF_TWO_PAGES: f64 = (2 * 16 * 1024 + 2048) as f64;

/// The reason for all claims about cycles.
const CYCLES: &str = "the thesis has cycles of an Atom, the minima of 1,000 replicas; we have ticks of a shared \
                      machine, whose counter is coarse for such short operations; see the claim on instructions";

/// The reason where recordings disagree.
const DIFFER: &str = "the recordings disagree, so it depends on the program; the thesis' recording is not published";

/// All claims.
#[must_use]
pub(super) fn claims(traces: &[OnTrace], sizes: &[Granted], pages: &[Opening]) -> Vec<Claim> {
    let mut recordings: Vec<&str> = traces.iter().filter_map(|trace| trace.load.recording.as_deref()).collect();
    recordings.dedup();
    let judge = Judge { traces, recordings };
    let mut claims = vec![of_65_bytes(sizes), judge.ninety_percent(), judge.free_of_sss()];
    claims.extend(judge.longest(pages));
    for measure in [Measure::Ticks, Measure::Instructions] {
        let coarse = matches!(measure, Measure::Ticks);
        claims.extend([judge.order(measure), judge.steadiness(measure)].map(|one| one.not_comparable(coarse, CYCLES)));
    }
    claims.push(judge.buddy_is_slower());
    for part in [Part::Uniform, Part::Small] {
        claims.extend(ALLOCATORS.map(|(name, _)| judge.synthetic(part, name)));
    }
    claims.push(judge.lowest());
    claims.extend(judge.lowest_on_small());
    claims.extend([judge.regions_waste_most(true), judge.regions_waste_most(false)]);
    claims.extend([judge.erratic(), judge.paged_on_small_heaps(), judge.constant_heap()]);
    claims.extend([judge.smaller_wastes_more(), judge.buddy_wastes_more(), judge.most_waste_is_elsewhere()]);
    claims.extend([judge.most_overhead(true), judge.most_overhead(false)]);
    claims.extend([judge.overhead_of_reaps(), judge.least_overhead(), judge.inside_tlsf()]);
    claims.extend(judge.proposals());
    claims
}

/// The ways to measure operations.
#[derive(Clone, Copy)]
enum Measure {
    Ticks,
    Instructions,
}

impl Measure {
    const fn name(self) -> &'static str {
        match self {
            Self::Ticks => "ticks",
            Self::Instructions => "instructions",
        }
    }

    fn of(self, row: &Row) -> Option<&Costs> {
        match self {
            Self::Ticks => row.ticks.as_ref()?.as_ref().ok(),
            Self::Instructions => Some(&row.ours.as_ref().ok()?.instructions),
        }
    }
}

fn space(part: Part, name: &str) -> Option<Space> {
    THESIS.space(part.table(), name)
}

fn formatted(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.decimals$}"))
}

fn percent(fraction: Option<f64>) -> String {
    formatted(fraction.map(|fraction| 100.0 * fraction), 1)
}

/// A figure of ours, as a fraction, and the published one, in per cent.
type Figure = (fn(&Measured) -> Sample, fn(Space) -> f64);

/// Names and values in decreasing order.
type Ranking = Vec<(&'static str, Estimate)>;

/// The ranking of all allocators; `None` if a value is missing.
fn ranked(of: impl Fn(&str) -> Option<Estimate>) -> Option<Ranking> {
    let mut all: Ranking = ALLOCATORS.iter().map(|(name, _)| Some((*name, of(name)?))).collect::<Option<_>>()?;
    all.sort_by(|one, other| other.1.value.total_cmp(&one.1.value));
    Some(all)
}

/// Whether these allocators have the highest values.
fn are_highest(names: &[&str], ranking: &Ranking) -> Option<bool> {
    extreme(names, ranking, |own, other| other.is_below(own))
}

/// Whether these allocators have the lowest values.
fn are_lowest(names: &[&str], ranking: &Ranking) -> Option<bool> {
    extreme(names, ranking, Estimate::is_below)
}

/// Whether each of these allocators passes a comparison with each of the others.
fn extreme(names: &[&str], ranking: &Ranking, of: impl Fn(&Estimate, &Estimate) -> Option<bool>) -> Option<bool> {
    let (own, others): (Ranking, Ranking) = ranking.iter().partition(|(name, _)| names.contains(name));
    all(own.iter().flat_map(|own| others.iter().map(|other| of(&own.1, &other.1))))
}

/// The first two of a ranking's entries.
fn two<'a>(mut entries: impl Iterator<Item = &'a (&'static str, Estimate)>) -> String {
    let mut next = || entries.next().map_or_else(|| "-".into(), |(name, value)| format!("{name} {}", value.words(1)));
    format!("{}, {}", next(), next())
}

fn highest_two(ranking: Option<&Ranking>) -> String {
    two(ranking.into_iter().flatten())
}

/// The two lowest values, the lowest first.
fn lowest_two(ranking: Option<&Ranking>) -> String {
    two(ranking.into_iter().flatten().rev())
}

impl OnTrace {
    /// A figure of an allocator in per cent. A recording is one trace, whose figure every run has; the synthetic traces
    /// are samples of seeds.
    fn percent(&self, name: &str, of: impl Fn(&Measured) -> Sample) -> Option<Estimate> {
        let sample = of(self.of(name)?);
        let own = if self.load.part.is_recorded() { Estimate::exact(sample.mean) } else { sample.estimate() };
        Some(own * 100.0)
    }
}

struct Judge<'a> {
    traces: &'a [OnTrace],
    recordings: Vec<&'a str>,
}

impl<'a> Judge<'a> {
    /// A trace, with its recording if it is a part of one.
    fn trace(&self, part: Part, recording: &str) -> Option<&'a OnTrace> {
        self.traces.iter().find(|trace| {
            trace.load.part == part && (!part.is_recorded() || trace.load.recording.as_deref() == Some(recording))
        })
    }

    fn cost(
        &self,
        measure: Measure,
        (part, recording): (Part, &str),
        name: &str,
        value: impl Fn(&Costs) -> f64,
    ) -> Option<f64> {
        let row = self.trace(part, recording)?.rows.iter().find(|row| row.name == name)?;
        measure.of(row).filter(|costs| costs.malloc.count > 0).map(value)
    }

    fn measured(&self, part: Part, recording: &str, name: &str) -> Option<&'a Measured> {
        self.trace(part, recording)?.of(name)
    }

    /// F in per cent.
    fn waste(&self, part: Part, recording: &str, name: &str) -> Option<Estimate> {
        self.trace(part, recording)?.percent(name, |ours| ours.cut.fragmentation)
    }

    /// A claim about the recorded traces, judged on each recording: refuted only if it is on all of them.
    fn of_recordings(&self, claim: impl Into<String>, judged: impl Fn(&str) -> (Decided, String)) -> Claim {
        let judged: Vec<(Decided, String)> = self.recordings.iter().map(|recording| judged(recording)).collect();
        let figures =
            self.recordings.iter().zip(&judged).map(|(recording, (_, figures))| format!("{recording}: {figures}"));
        let figures = figures.collect::<Vec<_>>().join(". ");
        let figures = if figures.is_empty() { "-".into() } else { figures };
        let rules = judged.into_iter().map(|(holds, _)| holds).collect::<Option<Vec<_>>>();
        let differ = rules.as_ref().is_some_and(|rules| rules.iter().any(|rule| *rule != rules[0]));
        let holds = rules.and_then(|rules| rules.first().map(|first| first.filter(|_| !differ)));
        let claim = Claim::decided(claim, holds, figures);
        if differ { claim.because(NotReproduced, DIFFER) } else { claim }
    }

    /// The traces of a recording and the synthetic ones.
    fn with(&self, recording: &str) -> impl Iterator<Item = &'a OnTrace> {
        let is_of = |trace: &&OnTrace| trace.load.recording.as_deref().is_none_or(|known| known == recording);
        self.traces.iter().filter(is_of).collect::<Vec<_>>().into_iter()
    }

    /// Section 6.7: the order of the means.
    fn order(&self, measure: Measure) -> Claim {
        let claim = format!(
            "6.7: bbuddy, tlsf and bframe take more {0} than regis1, regis2, sss and reaps, and bframe the most \
             (means, malloc and free, boot and stable)",
            measure.name()
        );
        self.of_recordings(claim, |recording| self.order_on(measure, recording)).because(
            Confirmed,
            "the four take a block from a list or a page; bbuddy, tlsf and bframe also search, split and merge",
        )
    }

    fn order_on(&self, measure: Measure, recording: &str) -> (Decided, String) {
        let mut all = Some(true);
        let mut figures = Vec::new();
        for part in [Part::Boot, Part::Stable] {
            for (operation, of) in Costs::SIDES {
                let mean = |name: &str| self.cost(measure, (part, recording), name, |costs| of(costs).mean);
                let fast: Option<Vec<f64>> = FAST.iter().map(|name| mean(name)).collect();
                let fast = fast.map(|fast| fast.into_iter().fold(0.0, f64::max));
                let own = [fast, mean("bbuddy"), mean("tlsf"), mean("bframe")];
                let known = own.iter().copied().collect::<Option<Vec<f64>>>();
                let holds = known.map(|own| own[0] < own[1].min(own[2]) && own[1].max(own[2]) < own[3]);
                all = all.zip(holds).map(|(all, holds)| all && holds);
                let published = |name: &str| THESIS.cycles(part, name, operation).map(|[_, mean, _]| mean);
                let theirs = [FAST.iter().filter_map(|name| published(name)).max()]
                    .into_iter()
                    .chain(["bbuddy", "tlsf", "bframe"].map(published));
                let theirs: Vec<String> = theirs.map(|value| formatted(value.map(|value| value as f64), 0)).collect();
                let ours: Vec<String> = own.iter().map(|value| formatted(*value, 1)).collect();
                figures.push(format!("{} {operation} {} and {}", part.name(), theirs.join("/"), ours.join("/")));
            }
        }
        let figures = figures.join("; ");
        let unit = measure.name();
        (all.map(Some), format!("most of the four/bbuddy/tlsf/bframe, cycles published and {unit} ours: {figures}"))
    }

    /// Tables 3 and 4: the allocators with the largest deviation.
    fn steadiness(&self, measure: Measure) -> Claim {
        let claim = format!(
            "6.7: the standard deviation of {} is highest with tlsf, which the thesis believes is caused by the cache \
             (malloc and free, boot and stable; tlsf 47 to 57 cycles, the next 20 and 24 published)",
            measure.name()
        );
        let judged = |recording: &str| {
            let mut highest = Vec::new();
            let mut figures = Vec::new();
            for part in [Part::Boot, Part::Stable] {
                for (operation, of) in Costs::SIDES {
                    let deviation = |name: &str| self.cost(measure, (part, recording), name, |costs| of(costs).std);
                    let ranking = ranked(|name| deviation(name).map(Estimate::exact));
                    highest.push(ranking.as_ref().map(|ranking| are_highest(&["tlsf"], ranking)));
                    figures.push(format!("{} {operation} {}", part.name(), highest_two(ranking.as_ref())));
                }
            }
            (all_of(highest), format!("our two highest, {}: {}", measure.name(), figures.join("; ")))
        };
        self.of_recordings(claim, judged).because(
            Refuted,
            "instructions do not show the cache, to which the thesis attributes it; bbuddy's splits and merges vary \
                 most",
        )
    }

    /// Section 6.10: worst cases.
    fn buddy_is_slower(&self) -> Claim {
        let judged = |recording: &str| {
            let mut all = Some(true);
            let mut figures = Vec::new();
            for part in [Part::Boot, Part::Stable] {
                for (operation, of) in Costs::SIDES {
                    let most = |name: &str| {
                        self.cost(Measure::Instructions, (part, recording), name, |costs| of(costs).max as f64)
                    };
                    let both = most("bbuddy").zip(most("tlsf"));
                    all = all.zip(both).map(|(all, (buddy, tlsf))| all && buddy > tlsf);
                    let ours = both.map_or_else(|| "-".into(), |(buddy, tlsf)| format!("{buddy:.0} and {tlsf:.0}"));
                    figures.push(format!("{} {operation} {ours}", part.name()));
                }
            }
            (all.map(Some), format!("instructions of bbuddy and tlsf, ours: {}", figures.join(", ")))
        };
        self.of_recordings(
            "6.10: binary buddies have a higher worst case than TLSF in all cases (maximum instructions, malloc and \
             free, boot and stable; 444/312 and 240/312, 264/660 and 432/396 cycles in tables 3 and 4)",
            judged,
        )
        .because(
            Confirmed,
            "bbuddy splits and merges at several levels, tlsf at most once and twice; in tables 3 and 4 the maximum of \
             bbuddy is higher in two of the four cases",
        )
    }

    /// Section 6.3: a free without a branch.
    fn free_of_sss(&self) -> Claim {
        let all: Option<Vec<&Distribution>> =
            self.traces.iter().map(|trace| Some(&trace.of("sss")?.instructions.free)).collect();
        let range = all.filter(|all| !all.is_empty()).map(|all| {
            let least = all.iter().map(|one| one.min).min().unwrap_or(0);
            (least, all.iter().map(|one| one.max).max().unwrap_or(0))
        });
        Claim::new(
            "6.3: free of sss always executes the same number of instructions (on every trace)",
            range.map(|(least, most)| least == most),
            range.map_or_else(
                || "-".into(),
                |(least, most)| {
                    let range = if least == most { least.to_string() } else { format!("{least} to {most}") };
                    format!("48 cycles published, 60 and 216 at most; {range} instructions ours")
                },
            ),
        )
        .because(Confirmed, "it has no branch")
    }

    /// Tables 7 and 8: F and I of an allocator. The thesis has one trace of each kind, so its values are compared with
    /// the range of ours. The ranges hold together, since one of 28 that hold alone would reject a true value in every
    /// fourth run.
    fn synthetic(&self, part: Part, name: &str) -> Claim {
        let published = space(part, name);
        let judged = published.zip(self.measured(part, "", name)).map(|(published, ours)| {
            [
                ("F", published.fragmentation_percent, ours.cut.fragmentation.times(100.0)),
                ("I", published.overhead_percent, ours.cut.overhead.times(100.0)),
            ]
        });
        let holds =
            judged.map(|judged| judged.iter().all(|(_, published, ours)| ours.may_include(*published, COMPARED)));
        let few = judged.is_some_and(|judged| judged[0].2.reach(COMPARED).is_infinite());
        let figures = judged.into_iter().flatten().map(|(what, published, ours)| {
            format!(
                "{what} {published:.2} % published, {:.2} % ours (range \u{b1} {:.2})",
                ours.mean,
                ours.reach(COMPARED)
            )
        });
        let figures = figures.collect::<Vec<_>>().join("; ");
        Claim::new(
            format!(
                "table {}, {}: {name} has the published F and I (in the range of our traces; all {COMPARED} ranges \
                 hold together in 99 % of cases)",
                part.table(),
                part.name()
            ),
            holds,
            if figures.is_empty() { "-".into() } else { figures },
        )
        .because(Confirmed, "the same algorithm with the same bookkeeping, on traces of the same distribution")
        .not_reproduced(few, "too few seeds have no range")
        .not_reproduced(
            holds == Some(false),
            "tried: bookkeeping as published, and the number of allocations that fits M; the thesis omits its \
             generator, the number of allocations and details of the control structures",
        )
    }

    /// Tables 5 and 6: the least fragmentation.
    fn lowest(&self) -> Claim {
        let judged = |recording: &str| {
            let mut lowest = Vec::new();
            let mut figures = Vec::new();
            for part in [Part::Boot, Part::Stable] {
                let ranking = ranked(|name| self.waste(part, recording, name));
                lowest.push(ranking.as_ref().map(|ranking| are_lowest(&["tlsf"], ranking)));
                let published = space(part, "tlsf").map(|space| space.fragmentation_percent);
                figures.push(format!(
                    "{} tlsf {} % published, our two lowest {} %",
                    part.name(),
                    formatted(published, 1),
                    lowest_two(ranking.as_ref())
                ));
            }
            (all_of(lowest), figures.join("; "))
        };
        self.of_recordings("6.9: tlsf has the lowest F (boot and stable)", judged)
    }

    /// Table 8: the least fragmentation for small blocks.
    fn lowest_on_small(&self) -> Vec<Claim> {
        let judged = |what: &str, of: fn(&Measured) -> Sample| {
            let trace = self.trace(Part::Small, "");
            let ranking = trace.and_then(|trace| ranked(|name| trace.percent(name, of)));
            Claim::decided(
                format!("6.9: reaps has the lowest F on small ({what})"),
                ranking.as_ref().map(|ranking| are_lowest(&["reaps"], ranking)),
                format!("18.7 % published; our two lowest {} %", lowest_two(ranking.as_ref())),
            )
            .because(Confirmed, "a page of small blocks has 28 bytes of bookkeeping and no headers")
        };
        vec![
            judged("each up to its first failure", |ours| ours.cut.fragmentation),
            judged("equal prefix", |ours| ours.prefix.fragmentation),
        ]
    }

    /// The two highest values of a figure in two parts, published and ours, and whether ours are those of these
    /// allocators.
    fn highest(
        &self,
        (parts, recording): ([Part; 2], &str),
        (of, published_of): Figure,
        names: &[&str],
    ) -> (Decided, String) {
        let mut highest = Vec::new();
        let mut figures = Vec::new();
        for part in parts {
            let ranking = ranked(|name| self.trace(part, recording)?.percent(name, of));
            highest.push(ranking.as_ref().map(|ranking| are_highest(names, ranking)));
            let published = ranked(|name| space(part, name).map(published_of).map(Estimate::exact));
            figures.push(format!(
                "{} {} % published, {} % ours",
                part.name(),
                highest_two(published.as_ref()),
                highest_two(ranking.as_ref())
            ));
        }
        (all_of(highest), figures.join("; "))
    }

    /// Tables 5 to 8: the most fragmentation.
    fn regions_waste_most(&self, is_recorded: bool) -> Claim {
        let judged = |parts: [Part; 2], recording: &str| {
            self.highest(
                (parts, recording),
                (|ours| ours.cut.fragmentation, |there| there.fragmentation_percent),
                &REGIONS,
            )
        };
        if is_recorded {
            self.of_recordings(
                "6.9: regis1 and regis2 have the two highest F (boot and stable, where table 6 contradicts it)",
                |recording| judged([Part::Boot, Part::Stable], recording),
            )
        } else {
            let (holds, figures) = judged([Part::Uniform, Part::Small], "");
            Claim::decided("6.9: regis1 and regis2 have the two highest F (uniform and small)", holds, figures)
        }
        .because(Confirmed, "a page of a region returns only when its last block dies")
    }

    /// The variation of an allocator's F over the four traces: the highest divided by the lowest.
    fn spread(&self, recording: &str, name: &str) -> Option<Estimate> {
        let mut all: Vec<Estimate> =
            Part::ALL.iter().map(|part| self.waste(*part, recording, name)).collect::<Option<_>>()?;
        all.sort_by(|one, other| one.value.total_cmp(&other.value));
        Some(*all.last()? / Estimate { value: all[0].value.max(0.01), ..all[0] })
    }

    /// Tables 5 to 8 together: the least predictable F.
    fn erratic(&self) -> Claim {
        let published = ranked(|name| {
            let all: Option<Vec<f64>> =
                Part::ALL.iter().map(|part| space(*part, name).map(|space| space.fragmentation_percent)).collect();
            let all = all?;
            let most = all.iter().copied().fold(0.0, f64::max);
            Some(Estimate::exact(most / all.iter().copied().fold(f64::MAX, f64::min)))
        });
        let judged = |recording: &str| {
            let ranking = ranked(|name| self.spread(recording, name));
            let is_twice = |own: &Estimate, other: &Estimate| (*other * 2.0).is_below(own);
            (
                ranking.as_ref().map(|ranking| extreme(&["sss"], ranking, is_twice)),
                format!(
                    "{} times published; {} times ours",
                    highest_two(published.as_ref()),
                    highest_two(ranking.as_ref())
                ),
            )
        };
        self.of_recordings(
            "6.9: sss is the most unpredictable (its highest F over its lowest, on the four traces, is twice that of \
             any other)",
            judged,
        )
    }

    /// Section 6.9: large pages on small heaps.
    fn paged_on_small_heaps(&self) -> Claim {
        const NAMES: [&str; 2] = ["bframe", "reaps"];
        let judged = |recording: &str| {
            let of = |name: &'static str| {
                let each: Option<Vec<Estimate>> =
                    Part::ALL.iter().map(|part| self.waste(*part, recording, name)).collect();
                each.map(|each| (name, each))
            };
            let both: Option<Vec<(&str, Vec<Estimate>)>> = NAMES.into_iter().map(of).collect();
            let figures = both.iter().flatten().map(|(name, each)| {
                let each: Vec<String> =
                    Part::ALL.iter().zip(each).map(|(part, one)| format!("{} {}", part.name(), one.words(1))).collect();
                format!("{name} {}", each.join(", "))
            });
            let figures = figures.collect::<Vec<_>>().join("; ");
            let is_higher = |(_, each): &(&str, Vec<Estimate>)| {
                let (real, synthetic): (Vec<_>, Vec<_>) =
                    Part::ALL.iter().zip(each).partition(|(part, _)| part.is_recorded());
                all(real.iter().flat_map(|real| synthetic.iter().map(|synthetic| synthetic.1.is_below(real.1))))
            };
            (
                both.as_ref().map(|both| all(both.iter().map(is_higher))),
                format!(
                    "F in %: {figures} ours; bframe at least 99.8 and at most 36.5, reaps 117.4 and 21.2 published"
                ),
            )
        };
        self.of_recordings("6.9: F of bframe and reaps is higher on boot and stable than on uniform and small", judged)
    }

    /// Tables 5 and 6: bframe's heap does not grow.
    fn constant_heap(&self) -> Claim {
        let used = |bytes: f64| format!("{:.0} KiB", bytes / 1024.0);
        let judged = |recording: &str| {
            let of = |part| self.measured(part, recording, "bframe").map(|ours| ours.cut.high_water_bytes);
            let both = of(Part::Boot).zip(of(Part::Stable));
            (
                both.map(|(boot, stable)| Some(boot.max(stable) <= MOST_OF_TWO_PAGES)),
                both.map_or_else(|| "-".into(), |(boot, stable)| format!("{} and {} ours", used(boot), used(stable))),
            )
        };
        self.of_recordings(
            "6.9: the heap of bframe is constant on boot and stable, which never need another page (H is at most two \
             pages of 16 KiB, one of each chunk size, and 2 KiB; 33,428 B published)",
            judged,
        )
        .not_comparable(true, "their program needs two pages; three of our four traces need more")
    }

    /// Tables 7 and 8.
    fn smaller_wastes_more(&self) -> Claim {
        let mut rises = Vec::new();
        let mut figures = Vec::new();
        for (name, _) in ALLOCATORS {
            let both = self.waste(Part::Uniform, "", name).zip(self.waste(Part::Small, "", name));
            rises.push(both.map(
                |(uniform, small)| {
                    if name == "reaps" { small.is_below(&uniform) } else { uniform.is_below(&small) }
                },
            ));
            figures.push(both.map_or_else(
                || format!("{name} -"),
                |(uniform, small)| format!("{name} {} to {}", uniform.words(1), small.words(1)),
            ));
        }
        Claim::decided(
            "6.9: small blocks increase F in all allocators but reaps (from uniform to small)",
            all_of(rises),
            format!("agrees with tables 7 and 8; {} % ours", figures.join(", ")),
        )
        .because(
            Confirmed,
            "headers and footers are a larger share of small blocks; reaps has no headers and reuses single blocks",
        )
    }

    /// Section 6.10.
    fn buddy_wastes_more(&self) -> Claim {
        let mut above = Vec::new();
        let mut figures = Vec::new();
        for trace in self.traces {
            let of = |name: &str| trace.percent(name, |ours| ours.cut.fragmentation);
            let both = of("bbuddy").zip(of("tlsf"));
            above.push(both.map(|(buddy, tlsf)| tlsf.is_below(&buddy)));
            let words = |(buddy, tlsf): (Estimate, Estimate)| format!("{} and {}", buddy.words(1), tlsf.words(1));
            figures.push(format!("{} {}", trace.load.name(), both.map_or_else(|| "-".into(), words)));
        }
        Claim::decided(
            "6.10: binary buddies have a higher F than TLSF in all cases (on every trace)",
            all_of(above),
            format!("agrees with tables 5 to 8, closest 53.5 and 51.8 %; {} % ours", figures.join("; ")),
        )
        .because(Confirmed, "powers of two with headers of 16 bytes")
    }

    /// Section 6.9: where waste comes from.
    fn most_waste_is_elsewhere(&self) -> Claim {
        const OTHERS: [&str; 5] = ["bbuddy", "bframe", "reaps", "sss", "tlsf"];
        let half = Estimate::exact(50.0);
        let mut below = Vec::new();
        let mut figures = Vec::new();
        for trace in self.traces {
            let of = |name: &'static str| Some((name, trace.percent(name, |ours| ours.cut.overhead)?));
            let own: Option<Vec<(&str, Estimate)>> = OTHERS.into_iter().map(of).collect();
            below.push(own.as_ref().map(|own| all(own.iter().map(|(_, share)| share.is_below(&half)))));
            let above = own.unwrap_or_default().into_iter().filter(|(_, share)| share.value >= half.value);
            let above: Vec<String> = above.map(|(name, share)| format!("{name} {}", share.words(1))).collect();
            if !above.is_empty() {
                figures.push(format!("{} {}", trace.load.name(), above.join(", ")));
            }
        }
        Claim::decided(
            "6.9: except in regis1 and regis2, most waste is neither internal fragmentation nor overhead (I alone is \
             below 50 % on every trace)",
            all_of(below),
            format!(
                "tlsf 83.7, 84.6, 53.3 and 63.1 %, sss 62.9 and 67.6 % published; of ours, 50 % or more: {}",
                if figures.is_empty() { "none".into() } else { figures.join("; ") }
            ),
        )
        .because(
            Refuted,
            "tables 5 to 8 contradict it: headers and control structure are most of tlsf's waste on \
                           every trace, as here",
        )
    }

    /// Tables 5 to 8: the largest bookkeeping.
    fn most_overhead(&self, is_recorded: bool) -> Claim {
        let judged = |parts: [Part; 2], recording: &str| {
            let figure: Figure = (|ours| ours.cut.overhead, |there| there.overhead_percent);
            self.highest((parts, recording), figure, &["tlsf"])
        };
        if is_recorded {
            self.of_recordings("6.9: tlsf has the highest I (boot and stable)", |recording| {
                judged([Part::Boot, Part::Stable], recording)
            })
            .because(
                Confirmed,
                "it wastes little else, so that headers of 8 bytes and the control structure are most of the waste",
            )
        } else {
            let (holds, figures) = judged([Part::Uniform, Part::Small], "");
            Claim::decided(
                "6.9: tlsf has the highest I (uniform and small, where tables 7 and 8 have sss above it)",
                holds,
                figures,
            )
            .because(Refuted, "sss has headers of 8 bytes too, and less other waste on traces whose heap only grows")
        }
    }

    fn overhead_of_reaps(&self) -> Claim {
        let judged = |recording: &str| {
            let own: Option<Vec<Estimate>> =
                self.with(recording).map(|trace| trace.percent("reaps", |ours| ours.cut.overhead)).collect();
            let most = own.iter().flatten().max_by(|one, other| one.value.total_cmp(&other.value));
            let figures = format!("at most {} % ours", most.map_or_else(|| "-".into(), |most| most.words(1)));
            let limit = Estimate::exact(20.0);
            (all_of(own.into_iter().flatten().map(|share| Some(share.is_below(&limit)))), figures)
        };
        self.of_recordings("6.9: I of reaps is below 20 % on every trace (17.5 % at most published)", judged)
            .because(Confirmed, "a page of 1,024 bytes has a footer of 28")
            .because(
                Refuted,
                "with thousands of live blocks of a class, pages are nearly full and footers are most of a small waste",
            )
    }

    fn least_overhead(&self) -> Claim {
        let mut lowest = Vec::new();
        let mut figures = Vec::new();
        for trace in self.traces {
            let ranking = ranked(|name| trace.percent(name, |ours| ours.cut.overhead));
            lowest.push(ranking.as_ref().map(|ranking| are_lowest(&REGIONS, ranking)));
            figures.push(format!("{} {}", trace.load.name(), lowest_two(ranking.as_ref())));
        }
        Claim::decided(
            "6.9: regis1 and regis2 have the two lowest I (on every trace)",
            all_of(lowest),
            format!("0.5 to 2.3 % published; our two lowest in %: {}", figures.join("; ")),
        )
        .because(Confirmed, "the footer of a page is one counter, or a counter and a class")
    }

    /// Section 6.9: 3 % internal fragmentation of TLSF's blocks.
    fn inside_tlsf(&self) -> Claim {
        let share = |trace: &OnTrace| {
            let timeline = &trace.of("tlsf")?.timeline;
            let (lost, granted) = timeline.iter().fold((0, 0), |(lost, granted), moment| {
                (lost + moment.internal_bytes, granted + moment.internal_bytes + moment.live_bytes)
            });
            (granted > 0).then(|| lost as f64 / granted as f64)
        };
        let recorded = self.traces.iter().filter(|trace| trace.load.part.is_recorded());
        let all: Option<Vec<f64>> = recorded.map(share).collect();
        let all = all.filter(|all| !all.is_empty());
        Claim::new(
            "6.9: tlsf loses roughly 3 % inside its blocks (2 to 4 % of the granted bytes, mean over boot and over \
             stable)",
            all.as_ref().map(|all| all.iter().all(|share| (0.02..=0.04).contains(share))),
            format!(
                "granules of 8 B, as there; {} % ours",
                all.map_or_else(
                    || "-".into(),
                    |all| all.iter().map(|share| percent(Some(*share))).collect::<Vec<_>>().join(", ")
                )
            ),
        )
        .because(Confirmed, "a request is rounded up to eight bytes")
        .not_comparable(
            true,
            "the loss depends on the sizes that a program requests; more of ours are multiples of eight",
        )
    }

    /// Section 6.3: the longest operations, by its manual analysis: the first malloc in an empty heap, or one that
    /// takes a page, and the free that empties the heap again.
    fn longest(&self, pages: &[Opening]) -> Vec<Claim> {
        let judged = |(names, claim, of_free): (&[&str], &str, bool)| {
            let mut all = Some(true);
            let mut figures = Vec::new();
            for name in names {
                let found = pages.iter().find(|opening| opening.name == *name);
                let scenario = found.and_then(|opening| opening.counts.as_ref().ok()).map(|counts| {
                    let first = counts.small.max(counts.large);
                    let has_pages = !["bbuddy", "tlsf"].contains(name);
                    match (of_free, has_pages) {
                        (true, _) => counts.free_last,
                        (false, true) => first.max(counts.returned),
                        (false, false) => first,
                    }
                });
                let most = |costs: &Costs| if of_free { costs.free.max } else { costs.malloc.max };
                let seen: Option<Vec<u64>> =
                    self.traces.iter().map(|trace| Some(most(&trace.of(name)?.instructions))).collect();
                let seen = seen.and_then(|seen| seen.into_iter().max());
                all = all.zip(scenario.zip(seen)).map(|(all, (scenario, seen))| all && scenario >= seen);
                let text = |count: Option<u64>| count.map_or_else(|| "-".into(), |count| count.to_string());
                figures.push(format!("{name} {}, at most {} on the traces", text(scenario), text(seen)));
            }
            Claim::new(
                format!("6.3: {claim} (no operation on any trace executes more instructions)"),
                all,
                format!("not in the thesis' figures; ours: {}", figures.join("; ")),
            )
        };
        const USED_HEAP: &str = "in a used heap, each of the five splits or merges also writes the links of another \
                                 block in its list, which the empty heap does not have";
        vec![
            judged((&["bbuddy"], "malloc of bbuddy takes longest for the smallest request in an empty heap", false))
                .because(Refuted, USED_HEAP),
            judged((&["bbuddy"], "free of bbuddy takes longest when blocks merge at every level", true))
                .because(Refuted, USED_HEAP),
            judged((&["tlsf"], "malloc of tlsf takes longest for a small request of one large block", false))
                .because(Confirmed, "it finds and splits the block, and puts back the rest"),
            judged((&["tlsf"], "free of tlsf takes longest when two neighbours merge", true)).because(
                Confirmed,
                "here each neighbour is also the only block of its list and of its power of two, which takes longest \
                 (section 6.1 of the TLSF paper)",
            ),
            judged((
                &["regis1", "regis2", "reaps"],
                "malloc of regis1, regis2 and reaps takes longest when it takes a page",
                false,
            ))
            .because(Confirmed, "the page's footer is written besides"),
            judged((&["regis1", "regis2"], "free of regis1 and regis2 takes longest when it returns a page", true))
                .because(Confirmed, "the page enters the list of free ones"),
            judged((&["reaps"], "free of reaps takes longest when it returns a page", true)).because(
                Refuted,
                "a free in a full page, which puts the page back into its class's list, takes \
                                   longer",
            ),
            judged((&["bframe"], "malloc of bframe takes longest when it takes a page", false))
                .because(Confirmed, "it initialises the page's tables"),
        ]
    }

    /// Section 6.1: the definition of *small*.
    fn ninety_percent(&self) -> Claim {
        let share = self.trace(Part::Small, "").filter(|trace| trace.facts.mallocs > 0).map(|trace| {
            let small: u64 = trace.facts.classes[..(64 / CLASS_BYTES) as usize].iter().sum();
            small as f64 / trace.facts.mallocs as f64
        });
        Claim::new(
            "6.1: a standard deviation of 19.455 puts 90 % of small's requests under 64 bytes (89 to 91 % of the \
             requests have at most 64)",
            share.map(|share| (0.89..=0.91).contains(&share)),
            format!("P(X < 64) = 95.0 % for Normal(32, 19.455): 90 % lie between 0 and 64; {} % ours", percent(share)),
        )
        .because(
            Refuted,
            "with this deviation 90 % of the values lie between 0 and 64; another 5 % lie below 0, so 95 \
                           % are under 64",
        )
    }

    /// Section 5.8: proposals to reduce Bitframe's fragmentation.
    fn proposals(&self) -> Vec<Claim> {
        let judged = |(base, name, what): (&str, &str, &str)| {
            let mut changes = Vec::new();
            let mut figures = Vec::new();
            for trace in self.traces {
                let of = |name: &str| trace.of(name).map(|ours| 100.0 * ours.prefix.fragmentation.mean);
                let both = of(base).zip(of(name));
                changes.push(both.map(|(base, other)| other - base));
                let formatted = both.map_or_else(|| "-".into(), |(base, other)| format!("{base:.1} to {other:.1}"));
                figures.push(format!("{} {formatted}", trace.load.name()));
            }
            let changes: Option<Vec<f64>> = changes.into_iter().collect();
            let changes = changes.filter(|changes| !changes.is_empty());
            let is_better = |changes: Vec<f64>| {
                changes.iter().all(|change| *change < SAME_PERCENT)
                    && changes.iter().any(|change| *change < -SAME_PERCENT)
            };
            Claim::new(
                format!(
                    "5.8: {what} (F at the equal prefix is lower on some trace and higher on none, by at least 0.1 \
                     percentage points)"
                ),
                changes.map(is_better),
                format!("not measured there; {} % ours", figures.join("; ")),
            )
            .because(
                Refuted,
                "a third size of chunks needs pages of its own, and longer requests lose more to larger chunks than \
                 shorter sequences gain",
            )
            .because(Confirmed, "no chunk is lost at the end of a frame")
        };
        [
            ("bframe", "bframe, 4 chunks", "limiting sequences to 4 chunks reduces the fragmentation of bframe"),
            (
                "bframe, 4 chunks",
                "bframe, crossing",
                "with that limit, sequences that may cross frames have less fragmentation than those that may not",
            ),
            ("bframe", "bframe, crossing", "the limit and crossing together reduce the fragmentation of bframe"),
        ]
        .map(judged)
        .into()
    }
}

/// Sections 5.7 and 6.3: the worst-case request.
fn of_65_bytes(sizes: &[Granted]) -> Claim {
    let bframe = sizes.iter().find(|granted| granted.name == "bframe");
    let worst = bframe.and_then(|granted| granted.worst(8));
    let least = bframe.and_then(|granted| granted.worst(1));
    let formatted = |found: Option<(u64, u64)>| {
        found.map_or_else(
            || "-".into(),
            |(request, granted)| {
                let lost = 100.0 * (granted - request) as f64 / granted as f64;
                format!("{request} B in {granted} B, {lost:.1} % lost")
            },
        )
    };
    Claim::new(
        "5.7: 65 bytes are a worst case of bframe's internal fragmentation (they lose the largest share of a block, of \
         requests of at least one quantum, 8 bytes)",
        worst.map(|(request, _)| request == 65),
        format!("roughly 50 % published; {} ours; below one quantum {}", formatted(worst), formatted(least)),
    )
    .because(Confirmed, "requests above 64 bytes use chunks of 64 bytes, so 65 bytes take two of them")
}
