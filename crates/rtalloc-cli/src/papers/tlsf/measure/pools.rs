//! Combines all task sets of a profile: the basis of the paper's tables IV to VI.

use crate::papers::published::Both;
use crate::papers::sample::Sample;
use crate::papers::tlsf::result::{Cell, Costs, Found, Load, Pool, Profile, Runs, Unit, Variants};
use rtalloc_lab::probe::Counts;
use rtalloc_lab::workload::Holding;

/// One pool for each reading, profile and allocator that was run, in the order of the cells.
#[must_use]
pub fn pools(cells: &[Cell]) -> Vec<Pool> {
    let mut keys: Vec<(Holding, Profile, &str)> = Vec::new();
    for cell in cells {
        if let Unit::Run { load, .. } = &cell.unit {
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
    let found: Vec<(u64, &Runs, f64)> = cells
        .iter()
        .filter_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Run { load, .. }, Ok(Found::Run(runs))) if key(load) == wanted => {
                Some((load.mallocs, runs, cell.seconds))
            }
            _ => None,
        })
        .collect();
    let runs = || found.iter().flat_map(|(_, runs, _)| &runs.each);
    let times: Vec<&Costs> = cells
        .iter()
        .filter_map(|cell| match (&cell.unit, &cell.found) {
            (Unit::Time { load, .. }, Ok(Found::Time(costs))) if key(load) == wanted => Some(costs),
            _ => None,
        })
        .collect();
    let counts: Vec<&Costs> = found.iter().map(|(_, runs, _)| &runs.instructions).collect();
    let variants: [fn(&Variants) -> f64; 4] =
        [|all| all.mean, |all| all.at_peak_live, |all| all.at_peak_used, |all| all.of_peaks];
    Pool {
        subject: subject.into(),
        profile,
        holding,
        sets: runs().count() as u64,
        mallocs: found.iter().map(|(mallocs, runs, _)| mallocs * runs.each.len() as u64).sum(),
        instructions: together(&counts),
        mean_instructions: Both {
            malloc: Sample::of(runs().map(|run| run.instructions.malloc)),
            free: Sample::of(runs().map(|run| run.instructions.free)),
        },
        ticks: (!times.is_empty()).then(|| together(&times)),
        timed_sets: times.len() as u64,
        fragmentation: variants.map(|of| Sample::of(runs().map(|run| of(&run.space.fragmentation)))),
        each: runs().map(|run| run.space.fragmentation.of_peaks).collect(),
        refused: runs().map(|run| run.refused).sum(),
        seconds: found.iter().map(|(.., seconds)| seconds).sum(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::tlsf::result::{Run, Space};
    use rtalloc_lab::result::schema::Distribution;

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
        let instructions = Both { malloc: value as f64, free: 0.0 };
        let run = Run { instructions, space: Space { fragmentation, ..Space::default() }, refused: 1 };
        let found = Ok(Found::Run(Runs { instructions: costs, each: vec![run] }));
        Cell { unit: Unit::Run { load, sets: 1 }, found, seconds: 0.5 }
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
        assert_eq!(pool.fragmentation[3], Sample::of([0.1, 0.3]));
        assert_eq!(pool.mean_instructions.malloc, Sample::of([100.0, 120.0]));
        assert!(pool.ticks.is_none());
    }
}
