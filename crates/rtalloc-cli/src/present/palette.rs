//! The style of each allocator in every figure: one hue per family, one tone, dash pattern and marker per member, so
//! that no two allocators differ by colour alone. The tables of subjects determine the style, independent of the other
//! allocators in a figure.

use super::shared_heaps;
use super::summary::Standing;
use rtalloc_lab::result::schema::Origin;
use rtalloc_subjects::shared;

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square with horizontal and vertical sides.
    Square,
    /// A square rotated by 45 degrees.
    Diamond,
    /// A triangle pointing up.
    Up,
    /// A triangle pointing down.
    Down,
    /// A cross.
    Cross,
    /// A plus.
    Plus,
}

const MARKERS: [Marker; 7] =
    [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down, Marker::Cross, Marker::Plus];

/// Dash patterns by member of a family; our allocators also have thick lines.
const DASHES: [&str; 7] = ["none", "7 3", "2 2", "9 3 2 3", "4 4", "12 4", "14 3 2 3 2 3"];

/// Hue in degrees, saturation in per cent, and the darkening in per cent that gives it the same perceived lightness as
/// the others.
type Hue = (i16, u8, u8);

/// The hue of each family, in every figure. The first hues are distinguishable with common forms of colour blindness
/// (after Okabe and Ito); allocators that take their pages from the system are grey.
const FAMILIES: [(&str, Hue); 9] = [
    ("segregated", (208, 90, 0)),
    ("sequential", (22, 90, 2)),
    ("buddy", (164, 90, 9)),
    ("indexed", (322, 58, 0)),
    ("regional", (42, 92, 8)),
    ("bitmapped", (262, 50, 0)),
    ("compacting", (92, 60, 7)),
    (LOCKED, (354, 68, 0)),
    ("hybrid", (220, 10, 0)),
];

/// The family of allocators with a lock, whatever the underlying allocator.
pub(super) const LOCKED: &str = "locked";

/// Hue offsets of a family's members, in degrees: less than half of the distance between families.
const SHADES: [i16; 6] = [0, 8, -8, 14, -12, 4];

/// Lightness in per cent by member of a family, on a light and on a dark background.
const TONES: [(u8, u8); 4] = [(37, 62), (48, 76), (26, 52), (43, 70)];

/// The style of one allocator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// CSS colour on a light background.
    pub light: String,
    /// CSS colour on a dark background.
    pub dark: String,
    /// CSS dash pattern of its lines.
    pub dash: &'static str,
    /// Shape of its points.
    pub marker: Marker,
    /// Width of its lines: wider for our allocators.
    pub line_width: u32,
}

/// The styles of all allocators, by index into `standings`. A listed subject always has the same style; if a list
/// contains it several times under several labels, the further ones are styled as additional members of its family.
#[must_use]
pub fn of(standings: &[Standing]) -> Vec<Style> {
    let mut taken: Vec<(&str, usize)> = Vec::new();
    let mut strangers: Vec<&str> = Vec::new();
    standings
        .iter()
        .map(|standing| {
            let family = standing.subject.family.as_str();
            let known = FAMILIES.iter().position(|(known, _)| *known == family);
            let place = known.unwrap_or_else(|| {
                strangers.iter().position(|known| *known == family).unwrap_or_else(|| {
                    strangers.push(family);
                    strangers.len() - 1
                })
            });
            let members = members(family);
            let own = members.iter().position(|name| *name == standing.identity);
            let free = |member: &usize| !taken.contains(&(family, *member));
            let member = own.filter(free).or_else(|| (members.len()..).find(free)).unwrap_or(0);
            taken.push((family, member));
            style(place, member, standing.subject.origin == Origin::Ours)
        })
        .collect()
}

/// Names of a family in the tables of subjects.
fn members(family: &str) -> Vec<&'static str> {
    let alone = rtalloc_subjects::all().iter().filter(|subject| subject.family == family).map(|subject| subject.name);
    let shared = shared::all().iter().filter(|subject| shared_heaps::family(subject.name, subject.lock) == family);
    let mut names: Vec<&str> = alone.collect();
    for subject in shared {
        if !names.contains(&subject.name) {
            names.push(subject.name);
        }
    }
    names
}

/// The style of a member of a family of the given size; no two members share both colour and dash pattern, or both
/// colour and marker.
fn style(family: usize, member: usize, ours: bool) -> Style {
    let (hue, saturation, darker) = FAMILIES[family % FAMILIES.len()].1;
    let hue = (hue + SHADES[member % SHADES.len()]).rem_euclid(360);
    let (light, dark) = TONES[member % TONES.len()];
    Style {
        light: hexadecimal((hue, saturation, light - darker)),
        dark: hexadecimal((hue, saturation, dark - darker)),
        dash: DASHES[member % DASHES.len()],
        marker: MARKERS[(member + 2 * family) % MARKERS.len()],
        line_width: if ours { 2 } else { 1 },
    }
}

/// A colour of hue in degrees, saturation and lightness in per cent, in the notation that every viewer reads.
fn hexadecimal((hue, saturation, lightness): (i16, u8, u8)) -> String {
    let (saturation, lightness) = (f64::from(saturation) / 100.0, f64::from(lightness) / 100.0);
    let reach = saturation * lightness.min(1.0 - lightness);
    let channel = |offset: f64| {
        let k = (offset + f64::from(hue) / 30.0) % 12.0;
        let value = lightness - reach * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 255
        let byte = (value * 255.0).round() as u8;
        byte
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

/// The CSS rules for a figure's colours: the classes `sK` and `fK` set stroke and fill to the colour of allocator K.
#[must_use]
pub fn css(styles: &[Style]) -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut rules = String::new();
    for (index, style) in styles.iter().enumerate() {
        light.push_str(&format!("--a{index}:{};", style.light));
        dark.push_str(&format!("--a{index}:{};", style.dark));
        rules.push_str(&format!(".s{index}{{stroke:var(--a{index})}}.f{index}{{fill:var(--a{index})}}"));
        rules.push_str(&format!(".c{index}{{color:var(--a{index})}}"));
        rules.push_str(&format!("polyline.s{index}{{stroke-dasharray:{}}}", style.dash));
        rules.push_str(&format!(
            "[data-focus=\"{index}\"] .plot .s{index},[data-focus=\"{index}\"] .plot .f{index}{{opacity:1}}"
        ));
    }
    format!(
        ":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\
         [data-focus] .plot [class^=s],[data-focus] .plot [class^=f]{{opacity:.12}}{rules}"
    )
}

#[cfg(test)]
mod tests {
    use super::super::summary::named;
    use super::super::{fixture, summary};
    use super::*;

    #[test]
    fn no_two_allocators_differ_by_colour_alone() {
        let standings = summary::all(&fixture::usual());
        distinct(&standings);
        let everybody: Vec<Standing> = rtalloc_subjects::all().iter().map(|one| named(one.name, one.name)).collect();
        distinct(&everybody);
        // One of them with many labels.
        let labels: Vec<String> = (1..=9).map(|pages| format!("CFM {pages}")).collect();
        distinct(&labels.iter().map(|label| named(label, "compact-fit-paper")).collect::<Vec<_>>());
    }

    #[test]
    fn colours_are_those_of_their_hue() {
        for (colour, expected) in [
            ((0, 100, 50), "#ff0000"),
            ((120, 100, 25), "#008000"),
            ((240, 100, 50), "#0000ff"),
            ((60, 100, 50), "#ffff00"),
            ((300, 50, 75), "#df9fdf"),
            ((30, 0, 100), "#ffffff"),
        ] {
            assert_eq!(hexadecimal(colour), expected);
        }
    }

    #[test]
    fn an_allocator_looks_the_same_whoever_is_beside_it() {
        let many = of(&[named("system", "system"), named("TLSF", "tlsf"), named("half-fit", "half-fit")]);
        let few = of(&[named("tlsf", "tlsf")]);
        assert_eq!(many[1], few[0]);
        assert_ne!(many[1], many[2]);
        let families: Vec<&str> = rtalloc_subjects::all().iter().map(|subject| subject.family).collect();
        for family in families {
            assert!(FAMILIES.iter().any(|(known, _)| *known == family), "{family} has no hue");
        }
    }

    fn distinct(standings: &[Standing]) {
        let styles = of(standings);
        for (index, style) in styles.iter().enumerate() {
            for other in &styles[..index] {
                assert_ne!((&style.light, style.marker), (&other.light, other.marker));
                let same_family_line = (&style.light, style.dash) == (&other.light, other.dash);
                assert!(!same_family_line, "{style:?} {other:?}");
            }
        }
    }
}
