//! Figures 1 to 4.

use super::of_gap;
use crate::papers::chapter::Figure;
use crate::papers::puaut::result::{Load, Puaut, charges, published_charges};
use crate::present::palette;
use crate::present::plot::curves::{Panel as Curves, Spacing, Stroke};
use crate::present::plot::marks::{Panel, marks};
use crate::present::plot::{PlotError, Selection};
use crate::present::summary::Standing;
use crate::present::summary::named;

fn standings(found: &Puaut) -> Vec<Standing> {
    found.rows.iter().map(|row| named(&row.subject, &row.subject)).collect()
}

/// The loads as panel titles.
const LOADS: [&str; 2] = ["decoder", "MEAN model"];

/// The costs assumed for each malloc.
const CHARGES: [&str; 3] = ["mean", "most observed", "scenario"];

fn figure(name: &str, caption: (&str, &str), svg: String, standings: Vec<Standing>) -> Figure {
    Figure { name: name.into(), caption: (caption.0.into(), caption.1.into()), svg, standings }
}

/// Figure 1.
pub(super) fn costs(found: &Puaut) -> Result<Option<Figure>, PlotError> {
    let standings = standings(found);
    let styles = palette::of(&standings);
    let panels = of_loads(found, |charges, _, _| charges.to_vec());
    let selection = Selection { standings: &standings, styles: &styles };
    let svg = marks(&panels, &CHARGES, selection, "Puaut 2002, figure 1: mean and worst-case malloc")?;
    let caption = (
        "Figure 1: mean and worst-case malloc",
        "Grey: the paper's cycles of a Pentium 90 without caches, the most observed from table 2. In colour: our \
         instructions. Compare the order of the allocators and the distances between marks, not their places.",
    );
    Ok(svg.map(|svg| figure("figure-1", caption, svg, standings)))
}

/// Two panels, one per load, for figures based on charges.
fn of_loads(found: &Puaut, of: impl Fn([f64; 3], Load, bool) -> Vec<f64>) -> Vec<Panel> {
    let panel = |(load, title): (Load, &str)| Panel {
        title: title.into(),
        rows: found
            .rows
            .iter()
            .map(|row| {
                let published = of(published_charges(&row.allocate, load), load, true);
                let own = row.ours.as_ref().ok().map(|ours| of(charges(ours, load), load, false));
                [Some(published), own]
            })
            .collect(),
    };
    Load::ALL.into_iter().zip(LOADS).map(panel).collect()
}

/// Figure 2.
pub(super) fn ratios(found: &Puaut) -> Result<Option<Figure>, PlotError> {
    let standings = standings(found);
    let styles = palette::of(&standings);
    let panels = of_loads(found, |[mean, observed, scenario], _, _| vec![observed / mean, scenario / mean]);
    let names = ["most observed / mean", "scenario / mean"];
    let selection = Selection { standings: &standings, styles: &styles };
    let svg = marks(&panels, &names, selection, "Puaut 2002, figure 2: worst malloc over mean malloc")?;
    let caption = (
        "Figure 2: worst malloc as a multiple of the mean",
        "The paper has separate panels for observed maximum and scenario.",
    );
    Ok(svg.map(|svg| figure("figure-2", caption, svg, standings)))
}

/// Figure 3.
pub(super) fn shares(found: &Puaut) -> Result<Option<Figure>, PlotError> {
    let standings = standings(found);
    let styles = palette::of(&standings);
    let panels = of_loads(found, |charges, load, published| of_gap(found, charges, load, published).to_vec());
    let selection = Selection { standings: &standings, styles: &styles };
    let svg =
        marks(&panels, &CHARGES, selection, "Puaut 2002, figure 3: share of the time spent in malloc, in per cent")?;
    let caption =
        ("Figure 3: share of a program's time spent in malloc, in per cent", "By the cost assumed for each malloc.");
    Ok(svg.map(|svg| figure("figure-3", caption, svg, standings)))
}

/// Figure 4.
pub(super) fn growth(found: &Puaut) -> Result<Option<Figure>, PlotError> {
    let names: Vec<(&str, &str)> = found.rows.iter().map(|row| (row.subject.as_str(), row.subject.as_str())).collect();
    #[allow(clippy::cast_precision_loss)] // drawn
    let curve = |row: &crate::papers::puaut::result::Row| {
        row.growth().iter().map(|point| ((point.heap_bytes >> 10) as f64, point.instructions as f64)).collect()
    };
    let panel = Curves {
        title: "Figure 4: the worst malloc by heap size".into(),
        x: ("KiB of heap".into(), Spacing::Logarithmic),
        y: ("instructions".into(), Spacing::Logarithmic),
        curves: found.rows.iter().map(curve).enumerate().collect(),
        stroke: Stroke::Marked,
        published: Vec::new(),
        marks: Vec::new(),
    };
    let caption = (
        "Figure 4: the worst malloc by heap size",
        "Counted; the paper draws expected curves. Building fast-fit's recipe takes quadratic time, so it has fewer \
         free blocks than a large heap could hold.",
    );
    Figure::of_curves("figure-4", caption, &[panel], &names, "Puaut 2002, figure 4: worst malloc by heap size")
}
