//! Determines the cost class of measured points.
//!
//! Since counts are exact, the rule is purely arithmetic:
//!
//! 1. *Constant*: no heap in the larger half of the sizes costs more than the costliest in the smaller half.
//! 2. Otherwise *a + b x*, with x = log2 H, n (free blocks) or H, b > 0, if the line of least relative error is within
//!    [`TOLERANCE`] of every point. The lowest class for which this holds is the class of the points; if n and H are
//!    proportional, they cannot be distinguished, and the stated class is used.
//!
//! If an operation has several recipes, each with its own curve, it has the highest class among them: quick-fit's
//! allocate is flat as long as splitting a page costs most, and linear once searching the pages costs most.

use crate::result::costs::{Class, Finding, Fit, Point};

/// The largest relative deviation of a point from its class: levels are integers, and logarithms are not.
const TOLERANCE: f64 = 0.1;
/// The minimum number of sizes for a decision: any two points lie on a line.
const FEWEST: usize = 4;

/// Compares the curves of an operation's recipes with its stated class.
#[must_use]
pub fn find(recipes: &[Vec<Point>], stated: Class) -> Finding {
    if recipes.is_empty() || recipes.iter().any(|points| points.len() < FEWEST) {
        return Finding::TooFew;
    }
    let rank = |class: Class| class.min(Class::LinearInFreeBlocks);
    let mut highest: Option<Vec<Fit>> = None;
    for points in recipes {
        let fits: Vec<Fit> = Class::ALL.into_iter().filter_map(|class| fit(points, class)).collect();
        let Some(lowest) = fits.first() else { return Finding::Unfit };
        // Of two curves of one class, the one that ends higher.
        let order = |fit: &Fit| (rank(fit.class), (fit.base + fit.step) as u64);
        if highest.as_ref().is_none_or(|highest| order(&highest[0]) < order(lowest)) {
            highest = Some(fits);
        }
    }
    let Some(fits) = highest else { return Finding::TooFew };
    let lowest = fits[0];
    match fits.iter().find(|fit| fit.class == stated) {
        Some(fit) if rank(lowest.class) == rank(stated) => Finding::AsStated(*fit),
        _ if rank(lowest.class) < rank(stated) => Finding::Better(lowest),
        _ => Finding::Worse(lowest),
    }
}

/// The fit of the points to a class, or `None` if they do not have it.
fn fit(points: &[Point], class: Class) -> Option<Fit> {
    if class == Class::Constant {
        let (small, large) = points.split_at(points.len() / 2);
        let most = |points: &[Point]| points.iter().map(|point| point.instructions).max();
        let base = most(small).filter(|small| Some(*small) >= most(large))?;
        let least = points.iter().map(|point| point.instructions).min().unwrap_or(base);
        let residual = share(base as f64 - least as f64, base as f64);
        return Some(Fit { class, base: base as f64, step: 0.0, residual });
    }
    let places: Vec<(f64, f64)> =
        points.iter().map(|point| (abscissa(point, class), point.instructions as f64)).collect();
    let (base, step) = line(&places)?;
    let residual = places.iter().map(|(x, y)| share(base + step * x - y, *y)).fold(0.0, f64::max);
    (step > 0.0 && residual < TOLERANCE).then_some(Fit { class, base, step, residual })
}

fn abscissa(point: &Point, class: Class) -> f64 {
    match class {
        Class::Constant => 0.0,
        Class::Logarithmic => (point.heap_bytes as f64).log2(),
        Class::LinearInFreeBlocks => point.free_blocks as f64,
        Class::LinearInRegion => point.heap_bytes as f64,
    }
}

fn share(distance: f64, of: f64) -> f64 {
    distance.abs() / of.max(1.0)
}

/// The line a + b x with the least sum of squared relative errors in y; `None` if all x are equal.
fn line(places: &[(f64, f64)]) -> Option<(f64, f64)> {
    let weighted = || places.iter().map(|(x, y)| (x, y, 1.0 / (y * y).max(1.0)));
    let weight: f64 = weighted().map(|(_, _, w)| w).sum();
    let x_mean = weighted().map(|(x, _, w)| w * x).sum::<f64>() / weight;
    let y_mean = weighted().map(|(_, y, w)| w * y).sum::<f64>() / weight;
    let spread: f64 = weighted().map(|(x, _, w)| w * (x - x_mean) * (x - x_mean)).sum();
    let common: f64 = weighted().map(|(x, y, w)| w * (x - x_mean) * (y - y_mean)).sum();
    let step = common / spread;
    step.is_finite().then_some((y_mean - step * x_mean, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points in heaps of 64 KiB to 64 MiB; the numbers of free blocks and instructions are functions of the heap size.
    fn points(free: impl Fn(u64) -> u64, instructions: impl Fn(u64) -> u64) -> Vec<Point> {
        let sizes = (16..=26).step_by(2).map(|power| 1_u64 << power);
        let point = |heap_bytes| Point {
            heap_bytes,
            free_blocks: free(heap_bytes),
            instructions: instructions(heap_bytes),
            recipe: String::new(),
        };
        sizes.map(point).collect()
    }

    fn levels(heap: u64) -> u64 {
        u64::from(heap.ilog2()) - 4
    }

    #[test]
    fn each_class_is_recognised_and_held_against_what_is_stated() {
        let one = |_: u64| 1;
        let half = |heap: u64| heap / 32;
        let root = |heap: u64| heap.isqrt();
        let cases: [(Vec<Point>, Class); 6] = [
            (points(one, |_| 88), Class::Constant),
            (points(one, |heap| 88 - heap % 3), Class::Constant),
            (points(one, |heap| 40 + 11 * levels(heap)), Class::Logarithmic),
            (points(half, |heap| 30 + 4 * half(heap)), Class::LinearInFreeBlocks),
            (points(root, |heap| 30 + 9 * root(heap)), Class::LinearInFreeBlocks),
            (points(one, |heap| 2500 + 3 * (heap / 4096)), Class::LinearInRegion),
        ];
        for (points, class) in cases {
            for stated in Class::ALL {
                let finding = find(std::slice::from_ref(&points), stated);
                let both_linear = class >= Class::LinearInFreeBlocks && stated >= Class::LinearInFreeBlocks;
                match finding {
                    Finding::AsStated(fit) => {
                        assert!(fit.class == stated && (stated == class || both_linear), "{fit:?}")
                    }
                    Finding::Better(fit) => assert!(fit.class == class && class < stated, "{fit:?} {stated:?}"),
                    Finding::Worse(fit) => {
                        assert!(fit.class == class && (class > stated || both_linear), "{fit:?} {stated:?}")
                    }
                    Finding::Unfit | Finding::TooFew => panic!("{class:?} {stated:?} {finding:?}"),
                }
                assert_eq!(stated == class, matches!(finding, Finding::AsStated(_)) && (stated == class), "{stated:?}");
            }
        }
    }

    #[test]
    fn a_list_that_grows_with_the_heap_is_linear_in_both() {
        let points = points(|heap| heap / 32, |heap| 30 + heap / 8);
        for stated in [Class::LinearInFreeBlocks, Class::LinearInRegion] {
            assert!(
                matches!(find(std::slice::from_ref(&points), stated), Finding::AsStated(fit) if fit.class == stated)
            );
        }
    }

    #[test]
    fn an_operation_has_the_highest_class_of_its_recipes() {
        let split = points(|_| 1, |_| 2500);
        let search = points(|_| 1, |heap| 30 + 6 * (heap / 8192));
        for recipes in [[split.clone(), search.clone()], [search.clone(), split.clone()]] {
            let finding = find(&recipes, Class::LinearInRegion);
            assert!(matches!(finding, Finding::AsStated(fit) if (fit.base - 30.0).abs() < 0.5), "{finding:?}");
            assert!(matches!(find(&recipes, Class::Constant), Finding::Worse(_)));
        }
        assert!(matches!(find(&[split], Class::LinearInRegion), Finding::Better(_)));
        assert_eq!(find(&[search, points(|_| 1, |heap| heap.isqrt())], Class::LinearInRegion), Finding::Unfit);
    }

    #[test]
    fn what_grows_otherwise_has_no_class() {
        let squared = points(|_| 1, |heap| (heap >> 16) * (heap >> 16));
        assert_eq!(find(&[squared], Class::LinearInRegion), Finding::Unfit);
        let rooted = points(|_| 1, |heap| heap.isqrt());
        assert_eq!(find(&[rooted[..3].to_vec()], Class::Logarithmic), Finding::TooFew);
        assert_eq!(find(&[rooted], Class::Logarithmic), Finding::Unfit);
        assert_eq!(find(&[], Class::Logarithmic), Finding::TooFew);
    }

    #[test]
    fn the_line_is_found() {
        let points = points(|heap| heap / 32, |heap| 33 + 4 * (heap / 32));
        let Finding::AsStated(fit) = find(&[points], Class::LinearInFreeBlocks) else { panic!("it is") };
        assert!((fit.base - 33.0).abs() < 0.01 && (fit.step - 4.0).abs() < 1e-6 && fit.residual < 1e-6, "{fit:?}");
    }
}
