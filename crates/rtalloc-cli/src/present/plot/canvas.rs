//! An SVG canvas, and the scales that map values to its coordinates.
//!
//! Colours are not part of the drawing: every shape has a class (`sK`, `fK` for allocator K, `ink-...` for the rest),
//! and the report's style sheet defines its appearance on a light, a dark or a printed page.

use super::super::palette::Marker;
use plotters::prelude::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle};

/// A position in pixels from the upper left corner.
pub type Point = (i32, i32);

/// Drawing failed: out of memory, or a bug in this module.
#[derive(Debug, thiserror::Error)]
#[error("a figure could not be drawn: {0}")]
pub struct PlotError(String);

/// The ink of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// The colour of allocator K.
    Allocator(usize),
    /// Titles.
    Text,
    /// Axis numbers and notes.
    Faint,
    /// Grid lines.
    Grid,
    /// Live memory.
    Live,
    /// The selected allocator.
    Chosen,
    /// What must not happen.
    Bad,
}

impl Ink {
    /// The placeholder colour that represents this ink in the SVG backend, replaced by a class afterwards.
    fn key(self) -> RGBColor {
        #[allow(clippy::cast_possible_truncation)] // 65,536 allocators
        match self {
            Self::Allocator(index) => RGBColor(0x0A, (index >> 8) as u8, index as u8),
            Self::Text => RGBColor(0x0B, 0, 0),
            Self::Faint => RGBColor(0x0B, 0, 1),
            Self::Grid => RGBColor(0x0B, 0, 2),
            Self::Live => RGBColor(0x0B, 0, 3),
            Self::Chosen => RGBColor(0x0B, 0, 4),
            Self::Bad => RGBColor(0x0B, 0, 5),
        }
    }

    /// The style-sheet class of a stroke or a fill in this ink.
    fn class(self, stroke: bool) -> String {
        let role = if stroke { "s" } else { "f" };
        match self {
            Self::Allocator(index) => format!("{role}{index}"),
            Self::Text => format!("ink-text-{role}"),
            Self::Faint => format!("ink-faint-{role}"),
            Self::Grid => format!("ink-grid-{role}"),
            Self::Live => format!("ink-live-{role}"),
            Self::Chosen => format!("ink-chosen-{role}"),
            Self::Bad => format!("ink-bad-{role}"),
        }
    }
}

/// The position of a text relative to its point; vertically, it is always centred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The point is the text's left end.
    Left,
    /// The point is the text's middle.
    Middle,
    /// The point is the text's right end.
    Right,
}

/// A canvas being drawn.
pub struct Canvas<'a> {
    backend: SVGBackend<'a>,
    /// Tooltips of positions, as elements.
    tips: String,
}

/// The tooltip values of a position: along x, along y.
pub type Tooltip = (Point, f64, f64);

/// Draws a figure and returns it as an `svg` element for inclusion in HTML.
///
/// # Errors
///
/// See [`PlotError`].
pub fn sheet(
    width: u32,
    height: u32,
    allocators: usize,
    description: &str,
    draw: impl FnOnce(&mut Canvas<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    let tips = {
        let mut canvas = Canvas { backend: SVGBackend::with_string(&mut svg, (width, height)), tips: String::new() };
        draw(&mut canvas)?;
        canvas.backend.present().map_err(refused)?;
        canvas.tips
    };
    Ok(finished(&svg, allocators, description).replacen("</svg>", &format!("{tips}</svg>"), 1))
}

/// The same figure with allocator K renumbered to `places[K]`, for pages whose figures share the allocators.
#[must_use]
pub fn renumbered(svg: &str, places: &[usize]) -> String {
    let mut text = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find("class=\"") {
        let (before, class) = rest.split_at(at + "class=\"".len());
        text.push_str(before);
        let end = class.find('"').unwrap_or(class.len());
        let (name, behind) = class.split_at(end);
        let place = name.get(1..).and_then(|number| places.get(number.parse::<usize>().ok()?));
        match (name.chars().next(), place) {
            (Some(role @ ('s' | 'f' | 'v')), Some(place)) => text.push_str(&format!("{role}{place}")),
            _ => text.push_str(name),
        }
        rest = behind;
    }
    text.push_str(rest);
    text
}

/// Replaces placeholder colours with classes, and removes attributes that the style sheet or HTML implies.
fn finished(svg: &str, allocators: usize, description: &str) -> String {
    let mut text = svg
        .replace(" xmlns=\"http://www.w3.org/2000/svg\"", "")
        .replace(" opacity=\"1\"", "")
        .replace(" font-family=\"sans-serif\"", "")
        .replace(" stroke=\"none\"", "")
        .replace(" stroke-width=\"1\"", "")
        .replace(" \"", "\"")
        .replace("\n</text>", "</text>");
    let others = [Ink::Text, Ink::Faint, Ink::Grid, Ink::Live, Ink::Chosen, Ink::Bad];
    for ink in (0..allocators).map(Ink::Allocator).chain(others) {
        let RGBColor(red, green, blue) = ink.key();
        for (attribute, stroke) in [("stroke", true), ("fill", false)] {
            let key = format!("{attribute}=\"#{red:02X}{green:02X}{blue:02X}\"");
            text = text.replace(&key, &format!("class=\"{}\"", ink.class(stroke)));
        }
    }
    let label = maud::html!((description)).into_string();
    text.replacen("<svg", &format!("<svg class=\"plot\" role=\"img\" aria-label=\"{label}\""), 1)
}

/// Converts an error of the backend.
fn refused(error: impl std::fmt::Display) -> PlotError {
    PlotError(error.to_string())
}

impl Canvas<'_> {
    fn stroke(ink: Ink, width: u32) -> ShapeStyle {
        ShapeStyle { color: ink.key().to_rgba(), filled: false, stroke_width: width }
    }

    fn fill(ink: Ink, opacity: f64) -> ShapeStyle {
        ShapeStyle { color: RGBAColor(ink.key().0, ink.key().1, ink.key().2, opacity), filled: true, stroke_width: 0 }
    }

    /// Writes `text` at `at`, `size` pixels high.
    ///
    /// # Errors
    ///
    /// See [`PlotError`]; the same applies to every shape below.
    pub fn text(&mut self, text: &str, at: Point, anchor: Anchor, size: u32, ink: Ink) -> Result<(), PlotError> {
        let horizontal = match anchor {
            Anchor::Left => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::Right => HPos::Right,
        };
        let key = ink.key();
        let style = TextStyle::from(("sans-serif", f64::from(size) * 1.24, FontStyle::Normal))
            .color(&key)
            .pos(Pos::new(horizontal, VPos::Center));
        self.backend.draw_text(text, &style, at).map_err(refused)
    }

    /// A line or polyline.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn line(&mut self, points: Vec<Point>, width: u32, ink: Ink) -> Result<(), PlotError> {
        self.backend.draw_path(points, &Self::stroke(ink, width)).map_err(refused)
    }

    /// A filled area.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn area(&mut self, points: Vec<Point>, opacity: f64, ink: Ink) -> Result<(), PlotError> {
        self.backend.fill_polygon(points, &Self::fill(ink, opacity)).map_err(refused)
    }

    /// A filled rectangle between two corners.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn bar(&mut self, from: Point, to: Point, opacity: f64, ink: Ink) -> Result<(), PlotError> {
        self.backend.draw_rect(from, to, &Self::fill(ink, opacity), true).map_err(refused)
    }

    /// A circle outline.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn ring(&mut self, at: Point, radius: u32, ink: Ink) -> Result<(), PlotError> {
        self.backend.draw_circle(at, radius, &Self::stroke(ink, 2), false).map_err(refused)
    }

    /// A marker in an allocator's shape, filled or hollow.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn marker(&mut self, at: Point, radius: u8, shape: Marker, filled: bool, ink: Ink) -> Result<(), PlotError> {
        let (x, y) = at;
        let r = i32::from(radius);
        let outline = match shape {
            Marker::Circle if filled => {
                return self.backend.draw_circle(at, radius.into(), &Self::fill(ink, 1.0), true).map_err(refused);
            }
            Marker::Circle => return self.ring(at, radius.into(), ink),
            Marker::Square => vec![(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
            Marker::Diamond => vec![(x, y - r - 1), (x + r + 1, y), (x, y + r + 1), (x - r - 1, y)],
            Marker::Up => vec![(x, y - r), (x + r + 1, y + r), (x - r - 1, y + r)],
            Marker::Down => vec![(x, y + r), (x + r + 1, y - r), (x - r - 1, y - r)],
            Marker::Cross => {
                self.edge((x - r, y - r), (x + r, y + r), 2, ink)?;
                return self.edge((x - r, y + r), (x + r, y - r), 2, ink);
            }
            Marker::Plus => {
                self.edge((x - r, y), (x + r, y), 2, ink)?;
                return self.edge((x, y - r), (x, y + r), 2, ink);
            }
        };
        if filled {
            self.area(outline, 1.0, ink)
        } else {
            // Edge by edge, since a polyline would get the allocator's dash pattern.
            let next = outline.iter().cycle().skip(1);
            outline.iter().zip(next).try_for_each(|(from, to)| self.edge(*from, *to, 2, ink))
        }
    }

    /// Adds tooltips at positions of allocator `index`, for pointers on a page. `axes` are the quantities along x and
    /// y. Of positions that a pointer cannot distinguish, the first one and those at the ends are kept.
    pub fn tooltips(&mut self, whose: (usize, &str), axes: [&str; 2], places: impl IntoIterator<Item = Tooltip>) {
        const APART: i32 = 14;
        let mut kept: Vec<Tooltip> = Vec::new();
        let mut last = None;
        for place in places {
            let near = |other: &Tooltip| (place.0.0 - other.0.0).abs().max((place.0.1 - other.0.1).abs()) < APART;
            if !kept.last().is_some_and(near) {
                kept.push(place);
            }
            last = Some(place);
        }
        if last.is_some_and(|last| kept.last() != Some(&last)) {
            kept.extend(last);
        }
        if kept.is_empty() {
            return;
        }
        let at: Vec<String> = kept
            .iter()
            .map(|((x, y), along_x, along_y)| format!("{x} {y} {} {}", brief(*along_x), brief(*along_y)))
            .collect();
        let (index, name) = whose;
        let [x, y] = axes;
        self.tips.push_str(
            &maud::html! { g class={ "v" (index) } data-name=(name) data-x=(x) data-y=(y) data-at=(at.join(";")) {} }
                .into_string(),
        );
    }

    /// A straight line that is never dashed.
    ///
    /// # Errors
    ///
    /// See [`Canvas::text`].
    pub fn edge(&mut self, from: Point, to: Point, width: u32, ink: Ink) -> Result<(), PlotError> {
        self.backend.draw_line(from, to, &Self::stroke(ink, width)).map_err(refused)
    }
}

/// A value with as many digits as can be read off a figure; integers with all digits.
fn brief(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 1000.0 {
        return format!("{value:.0}");
    }
    format!("{value:.3}")
}

/// A scale that maps values from `low` to `high` to pixels from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    start: i32,
    end: i32,
    logarithmic: bool,
}

impl Scale {
    /// A linear scale.
    #[must_use]
    pub fn linear((low, high): (f64, f64), (start, end): (i32, i32)) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, start, end, logarithmic: false }
    }

    /// A logarithmic scale. Values must be positive.
    #[must_use]
    pub fn logarithmic((low, high): (f64, f64), (start, end): (i32, i32)) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        Self { low, high: if high > low { high } else { low * 10.0 }, start, end, logarithmic: true }
    }

    /// The position of a value, clamped to the ends.
    #[must_use]
    pub fn at(&self, value: f64) -> i32 {
        let value = value.clamp(self.low, self.high);
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        #[allow(clippy::cast_possible_truncation)] // within the sheet
        let offset = (share * f64::from(self.end - self.start)).round() as i32;
        self.start + offset
    }

    /// Whether a value is beyond the upper end.
    #[must_use]
    pub fn is_beyond(&self, value: f64) -> bool {
        value > self.high
    }

    /// Round values to label, at least `gap` pixels apart.
    #[must_use]
    pub fn ticks(&self, gap: i32) -> Vec<f64> {
        if self.logarithmic { self.logarithmic_ticks(gap) } else { self.linear_ticks(gap) }
    }

    /// As [`Scale::ticks`], with values that are round in units of `unit`.
    #[must_use]
    pub fn ticks_in(&self, unit: f64, gap: i32) -> Vec<f64> {
        let scaled = Self { low: self.low / unit, high: self.high / unit, ..*self };
        scaled.ticks(gap).into_iter().map(|tick| tick * unit).collect()
    }

    fn linear_ticks(&self, gap: i32) -> Vec<f64> {
        let length = f64::from((self.end - self.start).abs());
        let step = nice_step((self.high - self.low) * f64::from(gap) / length);
        let first = (self.low / step).ceil();
        (0..200)
            .map(|index| (first + f64::from(index)) * step)
            .take_while(|value| *value <= self.high * 1.000_1)
            .collect()
    }

    fn logarithmic_ticks(&self, gap: i32) -> Vec<f64> {
        // The densest of these that keeps the gap; a scale of less than a decade may need linear ticks.
        const LADDERS: [&[f64]; 5] = [
            &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
            &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[1.0, 2.0, 5.0],
            &[1.0],
        ];
        #[allow(clippy::cast_possible_truncation)] // exponents of two digits
        let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
        let candidates = |ladder: &[f64]| -> Vec<f64> {
            decades
                .clone()
                .flat_map(|decade| ladder.iter().map(move |rung| rung * 10_f64.powi(decade)))
                .filter(|value| (self.low * 0.999..=self.high * 1.001).contains(value))
                .collect()
        };
        let roomy = |ticks: &[f64]| ticks.windows(2).all(|pair| (self.at(pair[1]) - self.at(pair[0])).abs() >= gap);
        let mut ticks: Vec<f64> = LADDERS
            .iter()
            .map(|ladder| candidates(ladder))
            .find(|ticks| roomy(ticks))
            .unwrap_or_else(|| candidates(&[1.0]));
        while !roomy(&ticks) {
            ticks = ticks.into_iter().step_by(2).collect();
        }
        ticks
    }
}

/// The smallest of 1, 2, 5 x 10^k that is at least `least`.
fn nice_step(least: f64) -> f64 {
    let magnitude = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|rung| rung * magnitude)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(magnitude * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_apart_and_inside() {
        assert_eq!(Scale::linear((0.0, 103.0), (0, 500)).ticks(100), [0.0, 50.0, 100.0]);
        assert_eq!(Scale::logarithmic((30.0, 30_000.0), (0, 300)).ticks(90), [100.0, 1000.0, 10_000.0]);
        assert_eq!(Scale::logarithmic((1.05, 2.1), (0, 400)).ticks(60), [1.2, 1.5, 2.0]);
        for high in [1.2_f64, 7.0, 99.0, 1e5, 1e12] {
            let scale = Scale::logarithmic((1.0, high), (0, 400));
            let ticks = scale.ticks(50);
            assert!(!ticks.is_empty(), "{high}");
            assert!(ticks.windows(2).all(|pair| scale.at(pair[1]) - scale.at(pair[0]) >= 50), "{high}: {ticks:?}");
        }
    }

    #[test]
    fn scales_keep_to_the_sheet() {
        let upwards = Scale::linear((0.0, 10.0), (100, 0));
        assert_eq!((upwards.at(0.0), upwards.at(10.0), upwards.at(99.0), upwards.at(-5.0)), (100, 0, 0, 100));
        assert!(upwards.is_beyond(11.0));
        assert_eq!(Scale::linear((3.0, 3.0), (0, 10)).at(3.0), 0);
        assert_eq!(Scale::logarithmic((0.0, 0.0), (0, 10)).at(0.0), 0);
    }

    #[test]
    fn inks_become_classes_and_texts_are_escaped() {
        let svg = sheet(100, 50, 12, "a <b> \"c\"", |canvas| {
            canvas.text("x < y & z", (5, 5), Anchor::Left, 12, Ink::Allocator(11))?;
            canvas.line(vec![(0, 0), (10, 10)], 2, Ink::Allocator(3))?;
            canvas.marker((20, 20), 4, Marker::Square, false, Ink::Allocator(0))
        })
        .expect("drawn");
        assert!(svg.starts_with("<svg class=\"plot\" role=\"img\" aria-label=\"a &lt;b&gt; &quot;c&quot;\""), "{svg}");
        assert!(svg.contains("class=\"f11\">") || svg.contains("class=\"f11\""), "{svg}");
        assert!(svg.contains("x &lt; y &amp; z</text>"), "{svg}");
        assert!(svg.contains("class=\"s3\"") && svg.contains("<line class=\"s0\""), "{svg}");
        assert!(!svg.contains("#0") && !svg.contains("http"), "{svg}");
        let again = renumbered(&svg, &(100..112).collect::<Vec<_>>());
        assert!(again.contains("class=\"f111\"") && again.contains("class=\"s103\""), "{again}");
        assert_eq!(again.matches("class=").count(), svg.matches("class=").count());
    }

    #[test]
    fn a_point_has_one_tooltip_and_the_ends_are_kept() {
        let svg = sheet(100, 50, 2, "values", |canvas| {
            let places = [((0, 0), 1.0, 0.25), ((3, 3), 2.0, 3.0), ((50, 3), 2.5, 1e6), ((52, 3), 7.0, 8.0)];
            canvas.tooltips((1, "a<b"), ["bytes", "ticks"], places);
            canvas.tooltips((0, "unknown"), ["bytes", "ticks"], []);
            Ok(())
        })
        .expect("drawn");
        let tips = "<g class=\"v1\" data-name=\"a&lt;b\" data-x=\"bytes\" data-y=\"ticks\" \
                    data-at=\"0 0 1 0.250;50 3 2.500 1000000;52 3 7 8\"></g></svg>";
        assert!(svg.contains(tips) && !svg.contains("unknown"), "{svg}");
    }
}
