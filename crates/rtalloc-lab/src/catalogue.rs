//! The summary of a subject in the catalogue: its contract, its note, and the proved bounds of its code.

use crate::analysis::loop_bounds::Marked;
use crate::analysis::{Analysis, proved};
use crate::observe;
use crate::probe::reads::{counted_read, read_instructions};
use crate::result::catalogue::{Blocks, Control, OnProcessor, Operation, Summary};
use crate::result::schema::SubjectFacts;
use crate::result::targets::Elsewhere;
use pathbound::Facts;
use rtalloc::contract::Contract;
use rtalloc_subjects::{Heap, NATURAL_ALIGN_BYTES, Peer, Region, Subject};

/// Heap sizes for which a summary gives the control structure.
pub const HEAP_BYTES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

/// The facts of a subject, as stored in results.
#[must_use]
pub fn facts(subject: &Subject) -> SubjectFacts {
    SubjectFacts {
        name: subject.name.into(),
        origin: subject.origin,
        family: subject.family.into(),
        cost: subject.cost.into(),
        largest_request_bytes: limit(subject.reach.request_bytes),
        largest_alignment_bytes: limit(subject.reach.alignment_bytes),
        read_instructions: read_instructions(subject),
    }
}

/// The summary of a subject.
#[must_use]
pub fn summary(analysis: &Analysis, subject: &Subject) -> Summary {
    let about = &subject.about;
    let contract = subject.view.as_ref().map(|view| &view.contract);
    let cost_of = |operation| match (operation, contract, &about.peer) {
        (observe::Operation::Allocate | observe::Operation::AllocateAligned, ..) => Some(subject.cost.to_string()),
        (observe::Operation::Deallocate, Some(contract), _) => Some(contract.deallocate.notation().into()),
        (observe::Operation::Reallocate, Some(contract), _) => Some(contract.reallocate.notation().into()),
        (observe::Operation::Deallocate, None, Some(peer)) => peer.deallocate.map(String::from),
        _ => None,
    };
    let operations = observe::Operation::ALL.map(|operation| {
        let entry = analysis.entry(subject, operation);
        let marked = Marked::new(analysis, subject, operation).ok().flatten();
        // Loops without a marker in the source: the reason comes from trying to bound them.
        let both = |marked: &Marked<'_>| Some((marked.bound().ok()?, marked.formula().ok()?));
        let (bound, formula) = marked.as_ref().and_then(both).unwrap_or((None, None));
        let bound = match (bound, &formula) {
            (Some(bound), _) => Ok(bound.most),
            (None, Some(_)) => Err(None),
            (None, None) => proved(analysis.file(), entry, &Facts::default(), analysis.calls_without_report())
                .map(|bound| bound.most)
                .map_err(|why| Some(why.brief())),
        };
        Operation {
            name: operation.name().into(),
            cost: cost_of(operation),
            no_bound_because: bound.as_ref().err().cloned().flatten(),
            bound: bound.ok(),
            formula: formula.map(|formula| formula.to_string()),
        }
    });
    let (source, policy) = match (contract, &about.peer) {
        (Some(contract), _) => (contract.source, contract.policy),
        (None, Some(peer)) => (peer.source, peer.policy),
        (None, None) => ("", ""),
    };
    Summary {
        name: subject.name.into(),
        origin: subject.origin,
        family: subject.family.into(),
        in_dozen: about.in_dozen,
        idea: about.summary.into(),
        source: source.into(),
        policy: policy.into(),
        operations: operations.into(),
        elsewhere: elsewhere(subject),
        blocks: Blocks {
            read_instructions: match subject.entries.handles {
                Some(_) => read_instructions(subject),
                None => counted_read(analysis.process(), None).ok(),
            },
            ..contract.map_or_else(|| blocks_of_peer(about.peer.as_ref()), blocks)
        },
        control: if subject.own_pages { Vec::new() } else { controls(subject) },
        does_not: contract.map_or_else(|| does_not_as_a_peer(subject), does_not),
        wins: about.wins.into(),
        loses: about.loses.into(),
        options: about.options.into(),
    }
}

fn elsewhere(subject: &Subject) -> Vec<OnProcessor> {
    let of = |one: &Elsewhere| {
        let bounds = one.bounds.get(subject.name)?.clone();
        Some(OnProcessor { name: one.name.clone(), unit: one.unit.clone(), bounds })
    };
    Elsewhere::all().iter().filter_map(of).collect()
}

/// Static bound of an operation in a heap of so many bytes, in instructions; `None` if there is none.
#[must_use]
pub fn bound_in(
    analysis: &Analysis,
    subject: &Subject,
    operation: observe::Operation,
    heap_bytes: usize,
) -> Option<u64> {
    let bound = match Marked::new(analysis, subject, operation).ok()? {
        Some(marked) => marked.in_heap(heap_bytes).ok()??,
        None => {
            let entry = analysis.entry(subject, operation);
            proved(analysis.file(), entry, &Facts::default(), analysis.calls_without_report()).ok()?
        }
    };
    Some(bound.most)
}

fn limit(bytes: usize) -> Option<u64> {
    (bytes != usize::MAX).then_some(bytes as u64)
}

fn blocks(contract: &Contract) -> Blocks {
    Blocks {
        header_bytes: Some(contract.header_bytes as u64),
        granule_bytes: Some(contract.granule_bytes as u64),
        smallest_bytes: Some(contract.min_block_bytes as u64),
        alignment_bytes: contract.alignment_bytes as u64,
        largest_request_bytes: limit(contract.largest_request_bytes),
        largest_alignment_bytes: limit(contract.largest_alignment_bytes),
        // Half of the address space or more is not a limit either.
        max_span_bytes: limit(contract.max_span_bytes).filter(|bytes| *bytes < 1 << 47),
        page_bytes: (contract.page_bytes > 0).then_some(contract.page_bytes as u64),
        coalescing: Some(contract.coalescing.name().into()),
        ..Blocks::default()
    }
}

fn blocks_of_peer(peer: Option<&Peer>) -> Blocks {
    let bytes = |of: fn(&Peer) -> Option<usize>| peer.and_then(of).map(|bytes| bytes as u64);
    Blocks {
        header_bytes: bytes(|peer| peer.header_bytes),
        granule_bytes: bytes(|peer| peer.granule_bytes),
        smallest_bytes: bytes(|peer| peer.smallest_bytes),
        alignment_bytes: NATURAL_ALIGN_BYTES as u64,
        coalescing: peer.and_then(|peer| peer.coalescing).map(|coalescing| coalescing.name().into()),
        ..Blocks::default()
    }
}

/// The control structures of heaps in regions of common sizes, or the largest that it takes.
fn controls(subject: &Subject) -> Vec<Control> {
    let mut sizes: Vec<u64> = HEAP_BYTES.iter().map(|bytes| *bytes.min(&subject.largest_heap_bytes())).collect();
    sizes.dedup();
    sizes.into_iter().map(|bytes| control(subject, bytes)).collect()
}

/// The control structure of a heap in a region of the given size.
pub fn control(subject: &Subject, heap_bytes: u64) -> Control {
    let region = Region::new(heap_bytes as usize, false).ok();
    let control_bytes = region.and_then(|mut region| {
        let heap = Heap::new(subject, &mut region, heap_bytes as usize).ok()?;
        Some(heap.control_bytes() as u64)
    });
    Control { heap_bytes, control_bytes }
}

/// What the contract of one of our allocators leaves out, as text.
fn does_not(contract: &Contract) -> Vec<String> {
    use rtalloc::contract::Coalescing;
    let mut lines = Vec::new();
    let mut say = |applies: bool, what: &str| {
        if applies {
            lines.push(what.to_string());
        }
    };
    say(contract.coalescing == Coalescing::Never, "coalesce free blocks: a block serves its size forever");
    say(
        contract.coalescing == Coalescing::Pages,
        "coalesce free neighbours; only a page whose blocks are all free serves another size",
    );
    say(contract.coalescing == Coalescing::Buddies, "coalesce free neighbours that are not buddies");
    say(!contract.largest_covers_smaller, "guarantee that a smaller request is served whenever a larger one is");
    say(!contract.largest_is_exact, "report its largest free block exactly: largest_allocatable is a lower bound");
    say(!contract.grows_in_place, "grow a block in place into its free neighbour");
    say(!contract.shrinks_in_place, "free the end of a block that shrinks");
    say(!contract.detects_double_free, "detect every double free");
    say(
        contract.detects_double_free && !contract.detects_stale_pointers,
        "detect a double free at any later time: only until its neighbourhood has changed",
    );
    say(!contract.detects_overwritten_tags, "detect every overwritten tag");
    if let Some(bytes) = limit(contract.largest_request_bytes) {
        lines.push(format!("serve requests of more than {bytes} bytes"));
    }
    if let Some(bytes) = limit(contract.largest_alignment_bytes) {
        lines.push(format!("serve alignments above {bytes} bytes"));
    }
    lines
}

fn does_not_as_a_peer(subject: &Subject) -> Vec<String> {
    let mut lines = vec!["state a contract: facts not listed here are unknown".to_string()];
    if subject.own_pages {
        lines.push("stay within memory it is given: it takes pages from the system".into());
    }
    lines
}
