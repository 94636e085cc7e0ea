//! How each allocator looks in every figure: one hue per family, one tone, dash and marker per member, so that no two
//! allocators differ by colour alone.

use super::standing::Standing;
use crate::result::schema::Origin;

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square on its side.
    Square,
    /// A square on its tip.
    Diamond,
    /// A triangle on its side.
    Up,
    /// A triangle on its tip.
    Down,
    /// A cross.
    Cross,
    /// A plus.
    Plus,
}

const MARKERS: [Marker; 7] =
    [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down, Marker::Cross, Marker::Plus];

/// Dash patterns by member of a family; ours are solid and thick besides.
const DASHES: [&str; 6] = ["none", "7 3", "2 2", "9 3 2 3", "4 4", "12 4"];

/// Hue in degrees, saturation in per cent, and by how many per cent it is darkened to look as light as the others; in
/// the order families appear. Hues that the usual kinds of colour blindness keep apart (after Okabe and Ito), and a
/// grey.
const HUES: [(i16, u8, u8); 8] =
    [(208, 90, 0), (22, 90, 2), (164, 90, 9), (322, 58, 0), (42, 92, 8), (262, 50, 0), (188, 80, 8), (220, 10, 0)];

/// By how many degrees the members of a family stray from its hue.
const SHADES: [i16; 6] = [0, 18, -14, 30, -24, 10];

/// Lightness in per cent by member of a family, on a light and on a dark ground.
const TONES: [(u8, u8); 4] = [(37, 62), (48, 76), (26, 52), (43, 70)];

/// One allocator's looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Style {
    /// CSS colour on a light ground.
    pub light: String,
    /// CSS colour on a dark ground.
    pub dark: String,
    /// CSS dash pattern of its lines.
    pub dash: &'static str,
    /// Shape of its points.
    pub marker: Marker,
    /// Width of its lines: ours stand out.
    pub line_width: u32,
}

/// The looks of every allocator, by index into `standings`.
#[must_use]
pub fn of(standings: &[Standing]) -> Vec<Style> {
    let mut families: Vec<(&str, usize)> = Vec::new();
    standings
        .iter()
        .enumerate()
        .map(|(index, standing)| {
            let family = standing.subject.family.as_str();
            let position = families.iter().position(|(known, _)| *known == family).unwrap_or_else(|| {
                families.push((family, 0));
                families.len() - 1
            });
            let member = families[position].1;
            families[position].1 += 1;
            let (hue, saturation, darker) = HUES[position % HUES.len()];
            let hue = (hue + SHADES[member % SHADES.len()]).rem_euclid(360);
            let (light, dark) = TONES[member % TONES.len()];
            let ours = standing.subject.origin == Origin::Ours;
            Style {
                light: format!("hsl({hue} {saturation}% {}%)", light - darker),
                dark: format!("hsl({hue} {saturation}% {}%)", dark - darker),
                dash: DASHES[member % DASHES.len()],
                marker: MARKERS[index % MARKERS.len()],
                line_width: if ours { 2 } else { 1 },
            }
        })
        .collect()
}

/// The rules that give every class of a figure its colour: `sK` strokes and `fK` fills in the colour of allocator K.
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
    use super::super::{fixture, standing};
    use super::*;

    #[test]
    fn no_two_allocators_differ_by_colour_alone() {
        let standings = standing::all(&fixture::usual());
        let styles = of(&standings);
        for (index, style) in styles.iter().enumerate() {
            for other in &styles[..index] {
                assert_ne!((&style.light, style.marker), (&other.light, other.marker));
                let same_family_line = (&style.light, style.dash) == (&other.light, other.dash);
                assert!(!same_family_line, "{style:?} {other:?}");
            }
        }
    }
}
