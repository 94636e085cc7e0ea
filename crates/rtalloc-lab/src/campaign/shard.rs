//! Slices of a campaign for several machines.

use super::Task;
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// Slice K of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Shard = Shard { number: 1, of: 1 };

    /// The tasks of this slice, in their order. Every task is in exactly one slice, deterministically: in order of
    /// decreasing duration, each goes to the slice with the smallest load so far.
    #[must_use]
    pub fn of<T>(self, tasks: Vec<T>, task: impl Fn(&T) -> &Task) -> Vec<T> {
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|number| {
            let task = task(&tasks[*number]);
            (Reverse(task.seconds), task.key.clone())
        });
        let mut loads = vec![0; self.of];
        let mut mine = vec![false; tasks.len()];
        for number in order {
            let (slice, load) =
                loads.iter_mut().enumerate().min_by_key(|(slice, load)| (**load, *slice)).expect("at least one slice");
            *load += task(&tasks[number]).seconds;
            mine[number] = slice + 1 == self.number;
        }
        tasks.into_iter().zip(mine).filter_map(|(task, mine)| mine.then_some(task)).collect()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a slice: K/N with 1 <= K <= N <= 100000, for example 3/8");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard = Self { number: number.parse().map_err(|_| wrong())?, of: of.parse().map_err(|_| wrong())? };
        if (1..=shard.of).contains(&shard.number) && shard.of <= 100_000 { Ok(shard) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Vec<Task> {
        (0..100).map(|number| Task::counted(format!("task {number}"), 1 + number * number % 17)).collect()
    }

    #[test]
    fn every_task_is_in_one_slice() {
        for of in [1, 2, 3, 7, 150] {
            let mut all: Vec<Task> =
                (1..=of).flat_map(|number| Shard { number, of }.of(tasks(), |task| task)).collect();
            all.sort_by_key(|task| task.key.clone());
            let mut expected = tasks();
            expected.sort_by_key(|task| task.key.clone());
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn slices_take_about_as_long_and_keep_the_order() {
        let seconds = |tasks: &[Task]| tasks.iter().map(|task| task.seconds).sum::<u64>();
        for number in 1..=4 {
            let mine = Shard { number, of: 4 }.of(tasks(), |task| task);
            assert!(seconds(&mine).abs_diff(seconds(&tasks()) / 4) <= 17);
            let places: Vec<usize> =
                mine.iter().map(|task| tasks().iter().position(|other| other == task).expect("one of them")).collect();
            assert!(places.is_sorted());
        }
    }

    #[test]
    fn invalid_slices_are_refused() {
        assert_eq!("3/8".parse(), Ok(Shard { number: 3, of: 8 }));
        for wrong in ["", "3", "0/8", "9/8", "3/0", "-1/2", "1/2/3", "a/b", "1/100001"] {
            assert!(wrong.parse::<Shard>().expect_err("refused").contains("K/N"), "{wrong}");
        }
    }
}
