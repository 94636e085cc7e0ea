//! A figure as a file of its own, for every viewer.
//!
//! Within a page, the style sheet colours a figure's classes. Viewers other than browsers know no variables of CSS, and
//! some no CSS at all: here, each shape also has the colours of the light theme as attributes. A style sheet has
//! priority over attributes, so browsers get the dark theme and the halo of the texts from a short one.

use super::super::palette::Style;
use std::collections::BTreeMap;

const SHEET: &str = include_str!("../report.css");

/// What a class is painted with.
struct Paint {
    /// `stroke` or `fill`.
    attribute: &'static str,
    light: String,
    dark: String,
    /// The dash pattern of its polylines.
    dash: Option<String>,
}

/// A figure as a separate file; `styles` are those of its allocators.
#[must_use]
pub fn standalone(figure: &str, styles: &[Style]) -> String {
    let mut dark = BTreeMap::new();
    let mut text = String::with_capacity(2 * figure.len());
    let mut rest = figure;
    while let Some(at) = rest.find("class=\"") {
        let tag = rest[..at].rfind('<').map_or("", |start| &rest[start..at]);
        let start = at + "class=\"".len();
        let end = rest[start..].find('"').map_or(rest.len(), |length| start + length + 1);
        let class = rest[start..end].trim_end_matches('"');
        text.push_str(&rest[..end]);
        if let Some(Paint { attribute, light, dark: at_night, dash }) = paint(class, styles) {
            text.push_str(&format!(" {attribute}=\"{light}\""));
            if let Some(dash) = dash.filter(|_| tag.starts_with("<polyline")) {
                text.push_str(&format!(" stroke-dasharray=\"{dash}\""));
            }
            dark.insert(class, format!(".{class}{{{attribute}:{at_night}}}"));
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    let [page, page_dark] = variable("page");
    let dark: String = dark.into_values().collect();
    let css = format!(
        "@supports(paint-order:stroke){{text{{paint-order:stroke;stroke:{page};\
         stroke-width:3px}}}}@media screen and (prefers-color-scheme:dark){{.page{{fill:{page_dark}}}\
         text{{stroke:{page_dark}}}{dark}}}"
    );
    let attributes = "xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui,DejaVu Sans,Liberation Sans,\
                      sans-serif\" stroke-linejoin=\"round\"";
    let text = text.replacen("<svg ", &format!("<svg {attributes} "), 1);
    let background =
        format!("><style>{css}</style><rect class=\"page\" width=\"100%\" height=\"100%\" fill=\"{page}\"/>");
    text.replacen('>', &background, 1)
}

/// The paint of a class; `None` for those without one.
fn paint(class: &str, styles: &[Style]) -> Option<Paint> {
    let (role, number) = class.split_at_checked(1)?;
    if let Some(style) = number.parse().ok().and_then(|number: usize| styles.get(number)) {
        let attribute = match role {
            "s" => "stroke",
            "f" => "fill",
            _ => return None,
        };
        let dash = (style.dash != "none").then(|| style.dash.to_owned());
        return Some(Paint { attribute, light: style.light.clone(), dark: style.dark.clone(), dash });
    }
    let (attribute, value) = declaration(&format!(".{class}"))?;
    let attribute = if attribute == "stroke" { "stroke" } else { "fill" };
    let [light, dark] = variable(value.strip_prefix("var(--")?.strip_suffix(')')?);
    let dash = declaration(&format!("polyline.{class}")).map(|(_, dash)| dash.to_owned());
    Some(Paint { attribute, light: light.into(), dark: dark.into(), dash })
}

/// The only declaration of a selector in the report's style sheet: property and value.
fn declaration(selector: &str) -> Option<(&'static str, &'static str)> {
    let rule =
        SHEET.split('}').map(str::trim_start).find_map(|rule| rule.strip_prefix(selector)?.strip_prefix(" { "))?;
    let (property, value) = rule.split_once(": ")?;
    Some((property, value.trim_end().trim_end_matches(';')))
}

/// The values of a variable of the report's style sheet: on a light page, and on a dark one.
fn variable(name: &str) -> [&'static str; 2] {
    let mark = format!("--{name}: ");
    let mut values = SHEET.split(mark.as_str()).skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
    [(); 2].map(|()| values.next().expect("a variable of both themes"))
}

#[cfg(test)]
mod tests {
    use super::super::super::palette;
    use super::super::super::summary::named;
    use super::super::canvas::{Anchor, Ink, sheet};
    use super::*;

    #[test]
    fn every_shape_has_its_colour_without_a_style_sheet() {
        let styles = palette::of(&[named("tlsf", "tlsf"), named("half-fit", "half-fit")]);
        let inks =
            [Ink::Text, Ink::Faint, Ink::Grid, Ink::Live, Ink::Chosen, Ink::Bad, Ink::Allocator(0), Ink::Allocator(1)];
        let figure = sheet(100, 50, 2, "class=\"f0\" is <text>", |canvas| {
            for ink in inks {
                canvas.text("a", (5, 5), Anchor::Left, 12, ink)?;
                canvas.line(vec![(0, 0), (10, 10), (20, 0)], 2, ink)?;
            }
            canvas.tooltips((1, "half-fit"), ["x", "y"], [((0, 0), 1.0, 1.0)]);
            Ok(())
        })
        .expect("drawn");
        let svg = standalone(&figure, &styles);
        let (head, shapes) = svg.split_once("</style>").expect("a style sheet");
        assert!(!svg.contains("var("), "{svg}");
        for (element, attribute) in [("<text ", "fill=\"#"), ("<polyline ", "stroke=\"#"), ("<rect ", "fill=\"#")] {
            let elements: Vec<&str> =
                shapes.split(element).skip(1).map(|rest| &rest[..rest.find('>').unwrap()]).collect();
            assert_eq!(elements.len(), if element == "<rect " { 1 } else { inks.len() }, "{element}");
            assert!(elements.iter().all(|shape| shape.contains(attribute)), "{elements:?}");
        }
        assert_eq!(shapes.matches("stroke-dasharray").count(), 2, "half-fit and the selected allocator: {shapes}");
        // Each colour has its counterpart on a dark page.
        let (_, dark) = head.split_once("prefers-color-scheme:dark").expect("a dark theme");
        for class in ["f0", "s1", "ink-grid-s", "ink-bad-f", "page"] {
            assert!(dark.contains(&format!(".{class}{{")), "{class}: {dark}");
        }
        let [light, dark] = variable("page");
        assert_eq!((light, dark), ("#fcfcfa", "#14181c"));
    }
}
