//! Compares the model of a core with an execution on its RTL, for ci/cycles.sh.
//!
//! Usage: `cycles CORE PROGRAM TRACE [FUNCTION]...`. The trace is that of ci/cycles/bench.cpp. A core may spend an
//! instruction's cycles before or after it retires, but for plain arithmetic only before. So every stretch between two
//! instructions of plain arithmetic must take exactly the cycles of the model. The cycles of a call of a function are
//! those of its instructions, from the first one to the return. Prints counts as JSON.

use pathbound::{Core, ElfFile, Image as _, Unit};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Instructions whose cycles pass before they retire.
const PLAIN: [&str; 12] = ["add", "addi", "li", "mv", "and", "andi", "or", "ori", "xor", "xori", "sub", "lui"];

/// An instruction that retired.
#[derive(Clone, Copy)]
struct Retired {
    cycle: u32,
    address: u32,
    next: u32,
    operand: u32,
}

/// The calls of a function.
#[derive(Serialize)]
struct Calls {
    number: u64,
    least: i64,
    most: i64,
}

#[derive(Default, Serialize)]
struct Compared {
    instructions: u64,
    stretches: u64,
    /// Those of merged functions once.
    calls: u64,
    functions: BTreeMap<String, Calls>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match compare(&arguments) {
        Ok(compared) => {
            println!("{}", serde_json::to_string(&compared).expect("numbers and names"));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &[String]) -> Result<Compared, String> {
    let [core, program, trace, functions @ ..] = arguments else {
        return Err("usage: cycles CORE PROGRAM TRACE [FUNCTION]...".to_owned());
    };
    let Unit::Cycles(core) = Unit::try_from(core.clone())? else { return Err("that is not a core".to_owned()) };
    let file = ElfFile::open(program.as_ref()).map_err(|error| error.to_string())?;
    let bytes = std::fs::read(trace).map_err(|error| format!("{trace}: {error}"))?;
    let word = |chunk: &[u8], index: usize| u32::from_le_bytes(chunk[4 * index..][..4].try_into().expect("four bytes"));
    let retired = bytes.chunks_exact(20).map(|chunk| Retired {
        cycle: word(chunk, 0),
        address: word(chunk, 1),
        next: word(chunk, 2),
        operand: word(chunk, 4),
    });
    let retired: Vec<Retired> = retired.collect();
    let continues = retired.windows(2).all(|pair| pair[0].next == pair[1].address);
    if !bytes.len().is_multiple_of(20) || retired.len() < 2 || !continues {
        return Err(format!("{trace} is cut short or has gaps"));
    }
    let costs = costs(core, &file, &retired)?;
    let mut compared = stretches(&file, &retired, &costs)?;
    if compared.instructions * 10 < costs.len() as u64 * 9 {
        return Err(format!("{trace}: only {} of {} instructions were compared", compared.instructions, costs.len()));
    }
    let mut counted = BTreeSet::new();
    for name in functions {
        let symbol = file.find(name).into_iter().next().ok_or_else(|| format!("{program} has no function {name}"))?;
        if let Some(calls) = calls(symbol.address, &retired, &costs) {
            compared.calls += if counted.insert(symbol.address) { calls.number } else { 0 };
            compared.functions.insert(name.clone(), calls);
        }
    }
    Ok(compared)
}

/// The cycles of each instruction but the last, by the model.
fn costs(core: Core, file: &ElfFile, retired: &[Retired]) -> Result<Vec<i64>, String> {
    let mut known: BTreeMap<(u32, u32), i64> = BTreeMap::new();
    let costs = retired[..retired.len() - 1].iter().map(|one| {
        let key = (one.address, one.next);
        if let Some(cost) = known.get(&key) {
            return Ok(*cost);
        }
        let of = |operand| core.cycles(file, one.address.into(), Some(one.next.into()), operand);
        let cost = of(Some(one.operand)).filter(|cost| cost.least == cost.most);
        let cost = cost.ok_or_else(|| format!("the model does not give the cycles at {:#x}", one.address))?.most;
        if of(None).is_some_and(|any| any.least == any.most) {
            known.insert(key, cost);
        }
        Ok(cost)
    });
    costs.collect()
}

/// Compares every stretch between two instructions of plain arithmetic.
fn stretches(file: &ElfFile, retired: &[Retired], costs: &[i64]) -> Result<Compared, String> {
    let mut plain: BTreeMap<u32, bool> = BTreeMap::new();
    let mut is_plain = |address: u32| {
        *plain.entry(address).or_insert_with(|| {
            let text = file.arch().text(file, address.into()).unwrap_or_default();
            PLAIN.contains(&text.split_whitespace().next().unwrap_or_default())
        })
    };
    let mut compared = Compared::default();
    let mut begin: Option<(usize, i64)> = None;
    for (index, cost) in costs.iter().enumerate() {
        begin = begin.map(|(begin, sum)| (begin, sum + cost));
        if !is_plain(retired[index].address) {
            continue;
        }
        if let Some((begin, sum)) = begin {
            let (from, to) = (retired[begin], retired[index]);
            if i64::from(to.cycle.wrapping_sub(from.cycle)) != sum {
                let path = retired[begin..=index].iter().map(|one| format!(" {:#x}", one.address)).collect::<String>();
                return Err(format!(
                    "{} cycles by the RTL, {sum} by the model:{path}",
                    to.cycle.wrapping_sub(from.cycle)
                ));
            }
            compared.instructions += (index - begin) as u64;
            compared.stretches += 1;
        }
        begin = Some((index, 0));
    }
    Ok(compared)
}

/// The cycles of the calls of a function.
fn calls(entry: u64, retired: &[Retired], costs: &[i64]) -> Option<Calls> {
    let mut all: Option<Calls> = None;
    let mut current: Option<(u32, i64)> = None;
    for (before, (one, cost)) in retired.iter().zip(retired[1..].iter().zip(&costs[1..])) {
        if current.is_none() && u64::from(one.address) == entry {
            current = Some((before.address, 0));
        }
        let Some((call, sum)) = &mut current else { continue };
        *sum += cost;
        // The instruction after a call of two or four bytes.
        if one.next == *call + 2 || one.next == *call + 4 {
            let calls = all.get_or_insert(Calls { number: 0, least: *sum, most: *sum });
            calls.number += 1;
            calls.least = calls.least.min(*sum);
            calls.most = calls.most.max(*sum);
            current = None;
        }
    }
    all
}
