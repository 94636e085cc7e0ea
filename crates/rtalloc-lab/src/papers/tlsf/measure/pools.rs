//! Combines all task sets of a profile: the basis of the paper's tables IV to VI.

use crate::papers::tlsf::result::{Cell, Costs, Found, Load, Pool, Profile, Run, Unit, Variants};
use crate::probe::Counts;
use crate::workload::Holding;

/// One pool for each reading, profile and allocator that was run, in the order of the cells.
#[must_use]
pub fn pools(cells: &[Cell]) -> Vec<Pool> {
    let mut keys: Vec<(Holding, Profile, &str)> = Vec::new();
    for cell in cells {
        if let Unit::Run(load) = &cell.unit {
            let key = key(load);
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
    }
    keys.into_iter().map(|key| pool(cells, key)).collect()
}

fn key(load: &Load) -> (Holding, Profile, &str) {
    (load.holding, load.profile, &load.subject)
}

fn pool(cells: &[Cell], wanted: (Holding, Profile, &str)) -> Pool {
    let (holding, profile, subject) = wanted;
    let runs: Vec<(&Load, &Run, f64)> = cells
        .iter()
        .filter_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Run(load), Ok(Found::Run(run))) if key(load) == wanted => Some((load, run, cell.seconds)),
            _ => None,
        })
        .collect();
    let times: Vec<&Costs> = cells
        .iter()
        .filter_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Time { load, .. }, Ok(Found::Time(costs))) if key(load) == wanted => Some(costs),
            _ => None,
        })
        .collect();
    let counts: Vec<&Costs> = runs.iter().map(|(_, run, _)| &run.instructions).collect();
    let variants: [fn(&Variants) -> f64; 4] =
        [|all| all.mean, |all| all.at_peak_live, |all| all.at_peak_used, |all| all.of_peaks];
    let variant = |of: fn(&Variants) -> f64| {
        four(&runs.iter().map(|(_, run, _)| of(&run.space.fragmentation)).collect::<Vec<f64>>())
    };
    Pool {
        subject: subject.into(),
        profile,
        holding,
        sets: runs.len() as u64,
        mallocs: runs.iter().map(|(load, ..)| load.mallocs).sum(),
        instructions: together(&counts),
        ticks: (!times.is_empty()).then(|| together(&times)),
        timed_sets: times.len() as u64,
        fragmentation: variants.map(variant),
        refused: runs.iter().map(|(_, run, _)| run.refused).sum(),
        seconds: runs.iter().map(|(.., seconds)| seconds).sum(),
    }
}

fn together(costs: &[&Costs]) -> Costs {
    let (mut malloc, mut free) = (Counts::default(), Counts::default());
    for costs in costs {
        malloc.merge(&costs.malloc.histogram);
        free.merge(&costs.free.histogram);
    }
    Costs { malloc: malloc.distribution(), free: free.distribution() }
}

/// Mean, population standard deviation, maximum, minimum.
fn four(values: &[f64]) -> [f64; 4] {
    if values.is_empty() {
        return [0.0; 4];
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    [mean, variance.sqrt(), most, least]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::tlsf::result::Space;
    use crate::result::schema::Distribution;

    fn cell(set: u64, value: u64, f: f64) -> Cell {
        let distribution = || Distribution { histogram: vec![(value, 2)], ..Distribution::default() };
        let costs = Costs { malloc: distribution(), free: distribution() };
        let load = Load {
            profile: Profile::P1,
            holding: Holding::Fit,
            set,
            mallocs: 2,
            pool_bytes: 1 << 20,
            subject: "tlsf".into(),
        };
        let fragmentation = Variants { mean: 0.0, at_peak_live: 0.0, at_peak_used: 0.0, of_peaks: f };
        let run = Run { instructions: costs, space: Space { fragmentation, ..Space::default() }, refused: 1 };
        Cell { unit: Unit::Run(load), found: Ok(Found::Run(run)), seconds: 0.5 }
    }

    #[test]
    fn sets_of_a_profile_are_one_pool() {
        let mut cells = vec![cell(1, 100, 0.1), cell(2, 120, 0.3)];
        cells.push(Cell { found: Err("it crashed".into()), ..cell(3, 100, 0.1) });
        let pools = pools(&cells);
        let [pool] = pools.as_slice() else { panic!("{pools:?}") };
        assert_eq!((pool.sets, pool.mallocs, pool.refused, pool.seconds), (2, 4, 2, 1.0));
        let malloc = &pool.instructions.malloc;
        assert_eq!((malloc.count, malloc.mean, malloc.std, malloc.max, malloc.min), (4, 110.0, 10.0, 120, 100));
        let [mean, deviation, most, least] = pool.fragmentation[3];
        assert!((mean - 0.2).abs() < 1e-12 && (deviation - 0.1).abs() < 1e-12 && most == 0.3 && least == 0.1);
        assert!(pool.ticks.is_none());
    }
}
