//! Prints the counts.

use crate::compare::{Function, Oracle};
use crate::object::Verdict;
use pathbound::Decline;
use pathbound::graph::Obstacle;
use std::collections::BTreeMap;

/// The outcomes for some functions.
#[derive(Default)]
struct Counts {
    functions: usize,
    /// Compared without facts, and with measured ones.
    bounded: usize,
    with_facts: usize,
    /// Bounded, but no execution returned.
    unseen: usize,
    declined: usize,
    not_tried: usize,
    executions: u64,
    /// Functions with an execution that has as many instructions as the bound.
    reached: usize,
}

impl Counts {
    fn of(functions: &[&Function]) -> Self {
        let mut counts = Self { functions: functions.len(), ..Self::default() };
        for function in functions {
            counts.executions += u64::from(function.compared);
            match &function.verdict {
                Verdict::Bounded { .. } if function.compared == 0 => counts.unseen += 1,
                Verdict::Bounded { most, .. } => {
                    counts.bounded += 1;
                    counts.reached += usize::from(*most == function.most_seen);
                }
                Verdict::Looping { .. } if function.compared > 0 => counts.with_facts += 1,
                Verdict::Looping { .. } | Verdict::Declined(_) | Verdict::Defect(_) => counts.declined += 1,
                Verdict::NotTried => counts.not_tried += 1,
            }
        }
        counts
    }
}

/// Why a function was not compared.
fn reason(function: &Function) -> Option<String> {
    Some(match &function.verdict {
        Verdict::Declined(Decline::Obstacle(Obstacle::ExternalCall(_), _)) => {
            "calls a function of another file, or an indirect one".to_owned()
        }
        Verdict::Declined(Decline::IrreducibleLoop(_)) => "loop with several entries".to_owned(),
        Verdict::Declined(decline) => decline.brief(),
        Verdict::Defect(_) => "defect".to_owned(),
        Verdict::Looping { .. } if function.compared == 0 => match &function.declined_with_facts {
            Some(reason) => format!("loop, with measured facts: {reason}"),
            None => {
                "loop without an execution to measure it in: none returned, or only after too many steps".to_owned()
            }
        },
        Verdict::Bounded { .. } | Verdict::Looping { .. } | Verdict::NotTried => return None,
    })
}

pub fn print(oracle: &Oracle) {
    println!(
        "\n| group | functions | bounded | with measured facts | no return seen | declined | too large to try | executions | bound reached |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let row = |name: &str, counts: &Counts| {
        println!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} |",
            counts.functions,
            counts.bounded,
            counts.with_facts,
            counts.unseen,
            counts.declined,
            counts.not_tried,
            counts.executions,
            counts.reached,
        );
    };
    for (group, functions) in oracle.groups() {
        row(group, &Counts::of(&functions));
    }
    let all: Vec<&Function> = oracle.functions.iter().collect();
    row("all", &Counts::of(&all));

    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for function in &oracle.functions {
        if let Some(reason) = reason(function) {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    let mut reasons: Vec<(usize, String)> = reasons.into_iter().map(|(reason, count)| (count, reason)).collect();
    reasons.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    println!("\n| functions | reason why there is no bound |\n|---|---|");
    reasons.iter().for_each(|(count, reason)| println!("| {count} | {reason} |"));
    println!(
        "\n{} runs, {} steps, {} runs failed, {} violations",
        oracle.runs,
        oracle.steps,
        oracle.failed_runs.len(),
        oracle.violations,
    );
}
