//! Tables I and II: the instructions of the steps of TLSF's malloc and free.
//!
//! The paper's steps are functions; so are ours, but the compiler inlines them. Every executed instruction is
//! attributed to the innermost function of `STEPS` according to the debug information, and otherwise to [`REST`], as
//! are instructions that an operation executes repeatedly (none in a release build, where no function is called twice).
//! An optimiser merges and moves instructions across functions, so the parts are less precise than their sum, which is
//! exact.

use super::bands::load;
use crate::papers::tlsf::result::{REST, Steps};
use pathbound::counter::{Record, executed};
use pathbound::image::{Image as _, Process, Source};
use rtalloc_lab::probe::Counted;
use rtalloc_lab::replay::{Observer, Replay};
use rtalloc_subjects::{Heap, Region, Subject, one};
use std::collections::{BTreeMap, HashMap};

/// Our functions (file and name) and the paper's steps. Ours look up the next block when they check whether the block
/// to be freed is live.
const STEPS: [(&str, &str, &str); 10] = [
    ("size_class.rs", "below_for", "mapping_search"),
    ("bitmap.rs", "find", "find_suitable_block"),
    ("segregated.rs", "take", "remove_head"),
    ("boundary_tag/mod.rs", "hand_out", "split"),
    ("size_class.rs", "class_of", "mapping_insert"),
    ("segregated.rs", "insert", "insert_block"),
    ("boundary_tag/tags.rs", "next_to", "next_physical"),
    ("boundary_tag/tags.rs", "free_prev", "prev_physical"),
    ("segregated.rs", "remove", "remove_block"),
    ("boundary_tag/mod.rs", "set_tags", "merge"),
];

/// The step of an instruction, given its functions from the innermost outwards.
fn step(sources: &[Source]) -> &'static str {
    let is = |source: &Source, file: &str, function: &str| {
        source.file.ends_with(file) && source.function.as_deref().is_some_and(|name| bare(name) == function)
    };
    let of = |source: &Source| STEPS.iter().find(|(file, function, _)| is(source, file, function));
    sources.iter().find_map(of).map_or(REST, |(.., step)| step)
}

/// The name of a function without its path and types, both of which are optional in debug information.
fn bare(name: &str) -> String {
    let mut depth = 0;
    let mut plain = String::new();
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            letter if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain.trim_end_matches("::").rsplit("::").next().unwrap_or_default().into()
}

/// Replays figure 6's load.
///
/// # Errors
///
/// If the replay failed, with a message.
pub fn steps(process: &Process, name: &str, seed: u64, mallocs: u64) -> Result<Steps, String> {
    let subject = one(name).map_err(|error| error.to_string())?;
    let events = load(seed, mallocs)?;
    let counted = Counted::new(process, subject, &[], Record::Coverage).map_err(|error| error.to_string())?;
    let mut region = Region::new(super::POOL_BYTES as usize, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(&Subject { entries: counted.entries(), ..*subject }, &mut region, super::POOL_BYTES as usize)
        .map_err(|refusal| refusal.to_string())?;
    let mut watch = Watch { process, counted: &counted, steps: Steps::default(), known: HashMap::new() };
    Replay::new().perform(&heap, &events, false, &mut watch).map_err(|fault| fault.to_string())?;
    if !counted.counter().misses().is_empty() {
        return Err("an instruction was executed outside the steps, so they do not add up".into());
    }
    Ok(watch.steps)
}

struct Watch<'a> {
    process: &'a Process,
    counted: &'a Counted,
    steps: Steps,
    /// The steps of instructions seen before.
    known: HashMap<u64, &'static str>,
}

impl Watch<'_> {
    /// Performs an operation and records the instructions of each step.
    fn note<R>(&mut self, malloc: bool, operation: impl FnOnce() -> R) -> R {
        self.counted.counter().clear_coverage();
        let before = executed();
        let done = operation();
        let instructions = executed() - before;
        let covered = self.counted.counter().covered();
        let mut each: BTreeMap<&str, u64> = BTreeMap::new();
        if let again @ 1.. = instructions - covered.len() as u64 {
            each.insert(REST, again);
        }
        for address in covered {
            let step = *self.known.entry(address).or_insert_with(|| step(&self.process.source(address)));
            *each.entry(step).or_default() += 1;
        }
        let steps = if malloc { &mut self.steps.malloc } else { &mut self.steps.free };
        for (step, instructions) in each {
            *steps.entry(step.into()).or_default().entry(instructions).or_default() += 1;
        }
        done
    }
}

impl Observer for Watch<'_> {
    unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
        let entry = heap.entries.allocate_at(align);
        // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
        self.note(true, || unsafe { entry(heap.context, size, align) })
    }

    unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context belongs to these entry points, and the block is live with this size and alignment.
        self.note(false, || unsafe { (heap.entries.deallocate)(heap.context, block, size, align) });
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn functions_are_known_by_their_own_names() {
        let names = ["take<a::B<c::D>, e::F>", "<a::B<C> as d::Index<E>>::take", "a::B<C>::take::<D>", "take"];
        assert!(names.into_iter().all(|name| bare(name) == "take"), "{:?}", names.map(bare));
    }

    #[test]
    fn an_instruction_belongs_to_its_innermost_step() {
        let source =
            |file: &str, function: &str| Source { file: file.into(), line: 1, function: Some(function.into()) };
        let shift = source("/rustc/core/src/num/mod.rs", "core::num::ilog2");
        let search = source("rtalloc/src/mechanism/size_class.rs", "<rtalloc::SizeClasses<5>>::below_for");
        let split = source("rtalloc/src/mechanism/boundary_tag/mod.rs", "rtalloc::TagHeap<I, W>::hand_out");
        assert_eq!(step(&[shift.clone(), search.clone(), split.clone()]), "mapping_search");
        assert_eq!(step(&[split, search]), "split");
        assert_eq!(step(&[source("rtalloc/src/mechanism/bitmap.rs", "below_for"), shift]), REST);
        assert_eq!(step(&[]), REST);
    }

    /// The steps that a build contains depend on its optimizer: moving a function, or merging two identical ones,
    /// changes the functions named in the debug information. `ci/steps.sh` checks for all steps in the release build,
    /// whose figures are published.
    #[test]
    fn steps_add_up_to_what_operations_execute() {
        let process = Process::shared().expect("this process");
        let Steps { malloc, free } = steps(&process, "tlsf", 1, 1500).expect("seen");
        let whole = super::super::bands::bands(&process, "tlsf", 1, 1500).expect("seen");
        for (steps, is_malloc) in [(malloc, true), (free, false)] {
            let of_steps: u64 =
                steps.values().flatten().map(|(instructions, operations)| instructions * operations).sum();
            let executed = whole.iter().filter(|seen| seen.kind.is_malloc() == is_malloc).map(|seen| seen.instructions);
            assert_eq!(of_steps, executed.sum::<u64>(), "{steps:?}");
            let known = |step: &str| step == REST || STEPS.iter().any(|(.., name)| *name == step);
            assert!(steps.len() > 1 && steps.keys().all(|step| known(step)), "{steps:?}");
        }
    }
}
