//! Figures 6 to 9 of the TLSF paper as SVG.

use crate::papers::chapter::Figure;
use crate::papers::published::TLSF;
use crate::papers::tlsf::published::Tlsf as Paper;
use crate::papers::tlsf::result::{Found, Kind, Moment, Profile, SHOWN, SIZE_BIN_BYTES, Seen, Tlsf, Unit};
use crate::present::palette;
use crate::present::plot::canvas::{Anchor, Canvas, Ink, Scale, sheet};
use crate::present::plot::curves::{LIVE, Panel, Spacing, Stroke};
use crate::present::plot::{PlotError, WIDTH};
use crate::present::summary::Standing;
use crate::present::summary::named;
use rtalloc_lab::number;
use rtalloc_lab::result::schema::Distribution;
use std::collections::BTreeSet;

const LEFT: i32 = 70;
const RIGHT: i32 = 790;
/// Room above each panel, for its title.
const HEAD: i32 = 44;
/// Room below each panel, for its axis.
const FOOT: i32 = 46;

fn figure(name: &str, heading: &str, sentences: &str, svg: String, standings: Vec<Standing>) -> Vec<Figure> {
    vec![Figure { name: name.into(), caption: (heading.into(), sentences.into()), svg, standings }]
}

/// A panel's position on the sheet.
#[derive(Clone, Copy)]
struct Frame {
    top: i32,
    bottom: i32,
}

impl Frame {
    /// The panel with this number; all panels have the same height.
    fn nth(number: i32, height: i32) -> Self {
        let top = HEAD + number * (HEAD + height + FOOT);
        Self { top, bottom: top + height }
    }

    /// Draws title, grid and labels.
    fn draw(self, canvas: &mut Canvas<'_>, titles: [&str; 3], x: &Scale, y: &Scale) -> Result<(), PlotError> {
        let Self { top, bottom } = self;
        let [title, along_x, along_y] = titles;
        canvas.text(title, (LEFT, top - 24), Anchor::Left, 14, Ink::Text)?;
        canvas.text(along_y, (LEFT, top - 8), Anchor::Left, 11, Ink::Faint)?;
        for tick in y.ticks(30) {
            canvas.edge((LEFT, y.at(tick)), (RIGHT, y.at(tick)), 1, Ink::Grid)?;
            canvas.text(&short(tick), (LEFT - 8, y.at(tick)), Anchor::Right, 11, Ink::Faint)?;
        }
        for tick in x.ticks(60) {
            canvas.edge((x.at(tick), top), (x.at(tick), bottom), 1, Ink::Grid)?;
            canvas.text(&number::tick(tick), (x.at(tick), bottom + 13), Anchor::Middle, 11, Ink::Faint)?;
        }
        canvas.text(along_x, ((LEFT + RIGHT) / 2, bottom + 30), Anchor::Middle, 12, Ink::Text)
    }
}

/// A value on an axis, with one decimal if it is small.
fn short(value: f64) -> String {
    if value != 0.0 && value < 10.0 && value.fract() != 0.0 { format!("{value:.1}") } else { number::compact(value) }
}

fn full_height(panels: i32, height: i32) -> u32 {
    (panels * (HEAD + height + FOOT) + 8).unsigned_abs()
}

/// Figure 6: the instructions of every operation over its number, coloured by kind.
pub(super) fn bands(seen: &[Seen]) -> Result<Vec<Figure>, PlotError> {
    const HEIGHT: i32 = 260;
    let standings: Vec<Standing> = Kind::ALL.iter().map(|kind| named(kind.name(), kind.name())).collect();
    let description = "TLSF 2008, figure 6: instructions of malloc and free under a random load";
    let svg = sheet(WIDTH, full_height(2, HEIGHT), Kind::ALL.len(), description, |canvas| {
        for (number, malloc) in [(0, true), (1, false)] {
            let own = || seen.iter().filter(|seen| seen.kind.is_malloc() == malloc);
            let frame = Frame::nth(number, HEIGHT);
            let last = own().map(|seen| seen.index + 1).max().unwrap_or(1);
            let (least, most) = own()
                .fold((u64::MAX, 1), |(least, most), seen| (least.min(seen.instructions), most.max(seen.instructions)));
            let x = Scale::linear((0.0, last as f64), (LEFT, RIGHT));
            let y = Scale::linear((0.9 * least.min(most) as f64, 1.05 * most as f64), (frame.bottom, frame.top));
            let name = if malloc { "malloc" } else { "free" };
            let title = format!("Figure 6: bands of {name}");
            frame.draw(canvas, [&title, &format!("number of the {name}"), "instructions"], &x, &y)?;
            for (index, kind) in Kind::ALL.into_iter().enumerate().filter(|(_, kind)| kind.is_malloc() == malloc) {
                // Coincident points are drawn once.
                let at = |seen: &Seen| (x.at(seen.index as f64), y.at(seen.instructions as f64));
                let places: BTreeSet<(i32, i32)> = own().filter(|seen| seen.kind == kind).map(at).collect();
                for (x, y) in places {
                    canvas.bar((x - 1, y - 1), (x + 1, y + 1), 0.55, Ink::Allocator(index))?;
                }
                let formatted =
                    own().filter(|seen| seen.kind == kind).map(|seen| (seen.index as f64, seen.instructions as f64));
                let formatted = formatted.map(|(along, value)| ((x.at(along), y.at(value)), along, value));
                canvas.tooltips((index, kind.name()), [&format!("number of the {name}"), "instructions"], formatted);
                #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // six kinds
                let row = frame.top + 12 + 34 * (index as i32 % 3);
                canvas.bar((RIGHT + 14, row - 5), (RIGHT + 24, row + 5), 1.0, Ink::Allocator(index))?;
                canvas.text(kind.name(), (RIGHT + 30, row), Anchor::Left, 11, Ink::Text)?;
                let counts = own().filter(|seen| seen.kind == kind).map(|seen| seen.instructions);
                if let Some((least, most)) = counts.clone().min().zip(counts.max()) {
                    let range = |least, most| {
                        if least == most { format!("{least}") } else { format!("{least} to {most}") }
                    };
                    let bands = TLSF.figure_6.malloc.iter().chain(&TLSF.figure_6.free);
                    let published = bands.into_iter().find(|band| band.kind == kind);
                    let published = published.map_or_else(String::new, |band| {
                        let [least, most] = band.range;
                        format!("; paper {}", range(least, most))
                    });
                    let range = range(least, most) + &published;
                    canvas.text(&range, (RIGHT + 30, row + 14), Anchor::Left, 11, Ink::Faint)?;
                }
            }
        }
        Ok(())
    })?;
    let sentences = "Every point is an operation. The colour shows what it did, as determined from the neighbouring \
                     blocks.";
    Ok(figure("figure-6", "Bands of instructions.", sentences, svg, standings))
}

/// Figure 7: request sizes of table III's task set.
pub(super) fn sizes(bins: &[(u64, f64)]) -> Result<Vec<Figure>, PlotError> {
    const HEIGHT: i32 = 260;
    let standings = vec![named("requests", "requests")];
    let description = "TLSF 2008, figure 7: sizes that the task set of table III requests";
    let svg = sheet(WIDTH, full_height(1, HEIGHT), 1, description, |canvas| {
        let frame = Frame::nth(0, HEIGHT);
        let last = bins.last().map_or(1, |(bin, _)| bin + SIZE_BIN_BYTES);
        let most = bins.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let x = Scale::linear((0.0, 1.02 * last as f64), (LEFT, RIGHT));
        let y = Scale::linear((0.0, 1.05 * most), (frame.bottom, frame.top));
        let along_y = "requests in a thousand, per 250 bytes";
        frame.draw(canvas, ["Figure 7: sizes requested by the task set of table III", "bytes", along_y], &x, &y)?;
        for (bin, share) in bins {
            let (from, to) = (x.at(*bin as f64), x.at((bin + SIZE_BIN_BYTES) as f64));
            canvas.bar((from, y.at(*share)), (to.max(from + 1), frame.bottom), 0.85, Ink::Allocator(0))?;
        }
        let middle = |bin: u64| x.at((bin + SIZE_BIN_BYTES / 2) as f64);
        let formatted = bins.iter().map(|(bin, share)| ((middle(*bin), y.at(*share)), *bin as f64, *share));
        canvas.tooltips((0, "requests"), ["bytes, from", "of a thousand"], formatted);
        Ok(())
    })?;
    let sentences = "One peak for each task: sizes are Normal around its mean request.";
    Ok(figure("figure-7", "Requested sizes.", sentences, svg, standings))
}

/// The paper's allocators among the subjects, with the styles that figures 8 and 9 share.
fn of_the_paper(found: &Tlsf) -> Vec<&str> {
    found.settings.subjects.iter().map(String::as_str).filter(|name| Paper::name_of(name).is_some()).collect()
}

/// Figure 8: cycles of malloc in profile 1, on the paper's axis; values beyond it are pooled in the end bins.
pub(super) fn cycles(found: &Tlsf) -> Result<Vec<Figure>, PlotError> {
    const HEIGHT: i32 = 130;
    /// The axis, in cycles; its last bin includes all larger values.
    const AXIS: (u64, u64) = (0, 600);
    /// Cycles per bin.
    const BIN: u64 = 3;
    let names = of_the_paper(found);
    let standings: Vec<Standing> = names.iter().map(|name| named(name, name)).collect();
    let styles = palette::of(&standings);
    let of = |name: &str| -> Option<&Distribution> {
        let pool = found.pools.iter().find(|pool| {
            pool.subject == name && pool.profile == Profile::P1 && pool.holding == found.settings.holding
        })?;
        pool.ticks.as_ref().map(|costs| &costs.malloc)
    };
    let description = "TLSF 2008, figure 8: distribution of the cycles of malloc in profile 1";
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // four
    let svg = sheet(WIDTH, full_height(names.len() as i32, HEIGHT), names.len(), description, |canvas| {
        for (index, name) in names.iter().enumerate() {
            let frame = Frame::nth(index as i32, HEIGHT);
            let mut bins = std::collections::BTreeMap::<u64, u64>::new();
            let empty = Distribution::default();
            let own = of(name).unwrap_or(&empty);
            for (value, samples) in &own.histogram {
                *bins.entry((*value).min(AXIS.1 - 1) / BIN * BIN).or_default() += samples;
            }
            let share = |samples: u64| 100.0 * samples as f64 / own.count.max(1) as f64;
            let most = bins.values().map(|samples| share(*samples)).fold(0.0, f64::max);
            let x = Scale::linear((AXIS.0 as f64, AXIS.1 as f64), (LEFT, RIGHT));
            let y = Scale::linear((0.0, 1.05 * most), (frame.bottom, frame.top));
            let title = format!("Figure 8: cycles of malloc in profile 1, {name}");
            frame.draw(canvas, [&title, "ticks", "% of mallocs, per 3 ticks"], &x, &y)?;
            for (bin, samples) in &bins {
                let (from, to) = (x.at(*bin as f64), x.at((bin + BIN) as f64));
                let height = y.at(share(*samples)).min(frame.bottom - 1);
                canvas.bar((from, height), (to, frame.bottom), 0.85, Ink::Allocator(index))?;
            }
            let formatted = bins
                .iter()
                .map(|(bin, samples)| ((x.at(*bin as f64), y.at(share(*samples))), *bin as f64, share(*samples)));
            canvas.tooltips((index, name), ["ticks, from", "% of mallocs"], formatted);
            canvas.marker((RIGHT + 18, frame.top + 12), 4, styles[index].marker, true, Ink::Allocator(index))?;
            canvas.text(name, (RIGHT + 30, frame.top + 12), Anchor::Left, 12, Ink::Allocator(index))?;
            let beyond = own.histogram.iter().filter(|(value, _)| *value >= AXIS.1).map(|(_, samples)| samples).sum();
            let [mean, _, most, _] = Paper::name_of(name).map_or([0.0; 4], |known| TLSF.table_4.malloc[known][0]);
            let notes = [
                format!("paper: {mean:.0}, most {most:.0} cycles"),
                format!("median {}, p99 {}", number::grouped(own.p50), number::grouped(own.p99)),
                format!("{:.3} % at 599 or more", share(beyond)),
            ];
            for (row, note) in (1..).zip(notes) {
                canvas.text(&note, (RIGHT + 30, frame.top + 12 + 16 * row), Anchor::Left, 11, Ink::Faint)?;
            }
        }
        Ok(())
    })?;
    let sentences = "The paper's axis: longer durations are pooled at its end. Ticks are of the time-stamp counter.";
    Ok(figure("figure-8", "Cycles of malloc in profile 1.", sentences, svg, standings))
}

/// Figure 9: live and used memory in profile 3.
pub(super) fn memory(found: &Tlsf) -> Result<Vec<Figure>, PlotError> {
    let timelines: Vec<(&str, &[Moment], u64)> = found
        .cells
        .iter()
        .filter_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Timeline(load), Ok(Found::Timeline(moments))) => {
                Some((load.subject.as_str(), moments.as_slice(), load.mallocs))
            }
            _ => None,
        })
        .collect();
    let Some((_, first, mallocs)) = timelines.first() else { return Ok(Vec::new()) };
    let mut names = vec![(LIVE, LIVE)];
    names.extend(timelines.iter().map(|(name, ..)| (*name, *name)));
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let panel = |title: String, from: u64, until: u64| {
        let within = |moment: &&Moment| (from..until).contains(&moment.malloc);
        let curve = |moments: &[Moment], bytes: fn(&Moment) -> u64| {
            moments.iter().filter(within).map(|moment| ((moment.malloc - from) as f64, kib(bytes(moment)))).collect()
        };
        let mut curves: Vec<(usize, Vec<(f64, f64)>)> = vec![(0, curve(first, |moment| moment.live_bytes))];
        let used = timelines.iter().map(|(_, moments, _)| curve(moments, |moment| moment.used_bytes));
        curves.extend((1..).zip(used));
        Panel {
            title,
            x: (
                if from == 0 { "mallocs".into() } else { format!("mallocs after the first {}", number::grouped(from)) },
                Spacing::Even,
            ),
            y: ("KiB, live and used so far".into(), Spacing::Even),
            curves,
            stroke: Stroke::Lines,
            published: Vec::new(),
            marks: Vec::new(),
        }
    };
    let last = mallocs.saturating_sub(SHOWN.1);
    let panels = [
        panel(
            format!("Figure 9: memory in profile 3, the first {} mallocs", number::grouped(SHOWN.0.min(*mallocs))),
            0,
            SHOWN.0,
        ),
        panel(
            format!("Figure 9: the last {} of {}", number::grouped(mallocs - last), number::grouped(*mallocs)),
            last,
            *mallocs,
        ),
    ];
    let sentences = "Shaded: live memory. Lines: maximum memory used so far by each allocator.";
    let description = "TLSF 2008, figure 9: live and used memory in profile 3";
    let drawn = Figure::of_curves("figure-9", ("Memory in profile 3.", sentences), &panels, &names, description)?;
    Ok(drawn.into_iter().collect())
}
