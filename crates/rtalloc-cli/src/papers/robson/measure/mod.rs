//! Worst-case memory (Robson): the memory that adversaries make each allocator need, and the theoretical bounds.
//!
//! An adversary may have M live units, in requests of 1 to n units, and observes the addresses it receives
//! ([`heap_size`](rtalloc_lab::experiment::heap_size)). The allocator's `need` is the smallest heap in which none of its
//! requests is refused; both this heap and one that is smaller by one granule, in which a request is refused, were
//! tested.

#[cfg(test)]
mod tests;
pub mod theory;

use crate::papers::Scale;
use crate::papers::robson::claims;
use crate::papers::robson::result::{Adversary, Answer, Need, Robson, Row};
use rtalloc_lab::campaign::store::Kept;
use rtalloc_lab::campaign::{self, Task, Tasks};
use rtalloc_lab::experiment::heap_size::{Question, unit_of};
use rtalloc_lab::replay::isolate::Board;
use rtalloc_subjects::{SelectError, Subject, select};
use serde_json::Value;

/// The experiments and their parameters.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The allocators.
    pub subjects: Vec<&'static Subject>,
    /// Maximum live units.
    pub m: usize,
    /// The same for the comb, whose work is quadratic in the number of units.
    pub comb_m: usize,
    /// Largest request sizes: powers of two, at least 4, in ascending order.
    pub sizes: Vec<usize>,
}

/// The selected allocators, or all by default. Allocators with pages of their own are excluded: they have no heap that
/// could be too small.
///
/// # Errors
///
/// If a name is unknown.
pub fn selected(choice: &[String]) -> Result<Vec<&'static Subject>, SelectError> {
    let chosen = if choice.is_empty() { select(&["all"])? } else { select(choice)? };
    Ok(chosen.into_iter().filter(|subject| !subject.own_pages).collect())
}

/// The powers of two from 4 to `most`.
#[must_use]
pub fn sizes(most: usize) -> Vec<usize> {
    (2..=most.ilog2()).map(|power| 1 << power).collect()
}

impl Settings {
    /// The default settings at a scale.
    #[must_use]
    pub fn of(scale: Scale, subjects: Vec<&'static Subject>) -> Self {
        Self {
            subjects,
            m: scale.pick(1024, 4096, 16_384),
            comb_m: scale.pick(512, 1024, 2048),
            sizes: sizes(scale.pick(256, 1024, 1024)),
        }
    }

    fn m_of(&self, adversary: Adversary) -> usize {
        if adversary == Adversary::Comb { self.comb_m } else { self.m }
    }

    fn question(&self, task: usize) -> (&'static Subject, Adversary) {
        let adversaries = Adversary::ALL.len();
        (self.subjects[task / adversaries], Adversary::ALL[task % adversaries])
    }

    fn needs(&self, subject: &Subject, adversary: Adversary) -> Result<Vec<Need>, String> {
        let unit = unit_of(subject)?;
        let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
        let m = self.m_of(adversary);
        let question = |n: usize| Question { subject, unit, adversary, m, n };
        let is_within_reach = |n: usize| question(n).ample_bytes() as u64 <= subject.largest_heap_bytes();
        let served =
            |n: &&usize| unit.request_bytes(**n) <= subject.reach.request_bytes && **n <= m && is_within_reach(**n);
        let need = |n: &usize| {
            let need = question(*n).need()?;
            let guarantee = subject.about.guarantee.and_then(|guarantee| guarantee.bytes(page_bytes, unit, m, *n));
            Ok(Need { guaranteed_bytes: guarantee, ..need })
        };
        self.sizes.iter().filter(served).map(need).collect()
    }
}

impl Tasks for Settings {
    fn name(&self) -> &'static str {
        "robson"
    }

    fn tasks(&self) -> Vec<Task> {
        let task = |number| {
            let (subject, adversary) = self.question(number);
            let (m, sizes) = (self.m_of(adversary), &self.sizes);
            // 6 for a comb of 1024 units, whose work is quadratic; that of the others is linear in m.
            let seconds = if adversary == Adversary::Comb { (6 * m * m).div_ceil(1 << 20) } else { m.div_ceil(4096) };
            let key = format!("robson on={} adversary={} m={m} n={sizes:?}", subject.name, adversary.name());
            Task::counted(key, seconds as u64)
        };
        (0..self.subjects.len() * Adversary::ALL.len()).map(task).collect()
    }

    fn perform(&self, task: usize, _: &Board) -> Value {
        let (subject, adversary) = self.question(task);
        campaign::found(&self.needs(subject, adversary))
    }

    fn died(&self, _: usize, what: &str) -> Option<Value> {
        Some(campaign::found(&Result::<Vec<Need>, &str>::Err(what)))
    }
}

impl Settings {
    /// Combines the results of all tasks, in their order.
    pub(super) fn conclude(&self, kept: Vec<Kept>) -> anyhow::Result<Robson> {
        Ok(self.found(campaign::results(kept)?))
    }

    fn found(&self, answers: Vec<Result<Vec<Need>, String>>) -> Robson {
        let row = |(subject, answers): (&&'static Subject, &[Result<Vec<Need>, String>])| Row {
            subject: subject.name.into(),
            family: subject.family.into(),
            moves: subject.entries.handles.is_some(),
            guarantee: subject.about.guarantee.map(|guarantee| guarantee.formula()),
            answers: Adversary::ALL
                .into_iter()
                .zip(answers)
                .map(|(adversary, needs)| Answer { adversary, needs: needs.clone() })
                .collect(),
        };
        let mut found = Robson {
            m: self.m as u64,
            comb_m: self.comb_m as u64,
            sizes: self.sizes.iter().map(|n| *n as u64).collect(),
            laws: theory::laws(self.m, &self.sizes),
            rows: self.subjects.iter().zip(answers.chunks(Adversary::ALL.len())).map(row).collect(),
            claims: Vec::new(),
        };
        found.claims = claims::claims(&found);
        found
    }
}
