use super::exact::{Outcome, search};
use super::world::{UnitLimit, World};
use super::{Question, unit_of};
use crate::observe::tiny::Tiny;
use crate::result::heap_size::{Adversary, Step};
use rtalloc::buddy::binary::LargestBlocks;
use rtalloc::limits::Limit;
use rtalloc_subjects::{AllocateEntry, DeallocateEntry, Entries, Guarantee, Made, Region, Subject, Unit, View, one};
use std::ffi::c_void;
use std::ptr::null_mut;

const STATES: usize = 200_000;

/// Searches a heap with at least `units` units.
fn outcome(subject: &Subject, units: usize, world: &World) -> Outcome {
    let (view, unit) = (subject.view.expect("a view"), unit_of(subject).expect("a unit"));
    let mut region = Region::new(1 << 20, false).expect("memory");
    let bytes = Tiny::region_bytes(subject, view, &mut region, units * unit.bytes, 1).expect("a region");
    let tiny = Tiny::new(subject, view, &mut region, bytes).expect("a heap");
    search(&tiny, unit, world, STATES).0
}

#[test]
fn half_fit_needs_more_than_any_fit_promises_and_the_program_is_found() {
    let world = World::Live { m: 4, least: 1, n: 3 };
    let half_fit = one("half-fit").expect("a subject");
    let Outcome::Refuses(steps) = outcome(half_fit, 7, &world) else { panic!("7 units suffice") };
    assert_eq!(outcome(half_fit, 8, &world), Outcome::NeverRefuses);
    let unit = Unit { bytes: 1, header_bytes: 0 };
    assert_eq!(Guarantee::AnyFit.bytes(0, unit, 4, 3), Some(6));
    // Its last request is refused, all others are served.
    let requests = steps.iter().filter(|step| matches!(step, Step::Take(_))).count();
    assert!(matches!(steps.last(), Some(Step::Take(_))) && requests >= 2, "{steps:?}");
}

/// Without address order, first-fit needs more than address order promises.
#[test]
fn the_order_of_frees_is_no_address_order() {
    let subject = one("first-fit").expect("a subject");
    let unit = unit_of(subject).expect("a unit");
    let need = Question { subject, unit, adversary: Adversary::March, m: 128, n: 16 }.need().expect("a need");
    assert!(Some(need.needed_bytes) > Guarantee::FirstFit.bytes(0, unit, 128, 16), "{need:?}");
}

/// Every program within limits is served by the blocks that the theorem of the binary buddy asks for.
#[test]
fn a_buddy_refuses_nothing_within_limits() {
    let limit = |objects, smallest, largest| UnitLimit { objects, smallest, largest };
    let programs = [
        vec![limit(2, 1, 1), limit(1, 2, 2)],
        vec![limit(3, 1, 2)],
        vec![limit(2, 1, 1), limit(1, 1, 4)],
        vec![limit(4, 1, 1), limit(2, 2, 2), limit(1, 4, 4)],
        vec![limit(2, 1, 2), limit(1, 3, 4)],
        vec![limit(3, 2, 2), limit(2, 3, 4)],
    ];
    let subject = one("binary-buddy").expect("a subject");
    let (view, unit) = (subject.view.expect("a view"), unit_of(subject).expect("a unit"));
    let mut region = Region::new(1 << 20, false).expect("memory");
    for limits in programs {
        let in_units: Vec<Limit> =
            limits.iter().map(|limit| Limit::between(limit.objects, limit.smallest, limit.largest)).collect();
        let world = World::Limits(limits);
        let largest = world.largest().next_power_of_two();
        let levels = 0..=largest.ilog2();
        let and = |blocks: LargestBlocks, log2| blocks.and(&[&in_units], (1_usize << log2) >> 1, 1_usize << log2);
        let blocks = levels.fold(LargestBlocks::NONE, and).count();
        // The smallest heap with so many aligned blocks; the next smaller ones are tried for the mutants' sake.
        let mut is_refused = false;
        for bytes in (64..).step_by(8) {
            let Ok(tiny) = Tiny::new(subject, view, &mut region, bytes) else { continue };
            let mut found = 0;
            tiny.walk(&mut |block| found += block.size_bytes / (largest * unit.bytes));
            let (outcome, states) = search(&tiny, unit, &world, STATES);
            is_refused |= matches!(outcome, Outcome::Refuses(_));
            if found >= blocks {
                assert_eq!(outcome, Outcome::NeverRefuses, "{in_units:?} in {blocks} of {largest}: {states} states");
                break;
            }
        }
        assert!(is_refused, "{in_units:?}: no smaller heap refuses");
    }
}

/// Allocators that break an assumption of their proof: their formula does not hold for them.
mod broken {
    use super::*;
    use rtalloc_subjects::region_allocators;
    use std::cell::Cell;

    /// At the start of the region.
    #[repr(C)]
    struct Late {
        inner: *mut c_void,
        pending: *mut u8,
        bytes: usize,
    }

    const BYTES: usize = 64;

    thread_local! {
        /// The allocator inside the mutant.
        static INNER: Cell<Option<&'static Subject>> = const { Cell::new(None) };
    }

    fn inner() -> &'static Subject {
        INNER.get().expect("a mutant")
    }

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let Some(rest) = bytes.checked_sub(BYTES) else { return Err("too small".into()) };
        // SAFETY: the rest of the region is as exclusive as the whole.
        let made = unsafe { (inner().make)(region.wrapping_add(BYTES), rest) }?;
        // SAFETY: the region begins with room for this.
        unsafe { region.cast::<Late>().write(Late { inner: made.context, pending: null_mut(), bytes: 0 }) };
        Ok(Made { context: region.cast(), ..made })
    }

    unsafe extern "C-unwind" fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the context came from `make`; the guarantees are passed on.
        unsafe { (inner().entries.allocate)((*context.cast::<Late>()).inner, size, align) }
    }

    /// The last of as many blocks as there are: the largest block is divided although a smaller one suffices.
    unsafe extern "C-unwind" fn allocate_last(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        let mut blocks = Vec::new();
        // SAFETY: the context came from `make`; all blocks but the last are live, and no longer used.
        unsafe {
            loop {
                let block = allocate(context, size, align);
                if block.is_null() {
                    break;
                }
                blocks.push(block);
            }
            let last = blocks.pop().unwrap_or(null_mut());
            for block in blocks.into_iter().rev() {
                free_at_once(context, block, size, align);
            }
            last
        }
    }

    unsafe extern "C-unwind" fn free_at_once(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context came from `make`; the guarantees are passed on.
        unsafe { (inner().entries.deallocate)((*context.cast::<Late>()).inner, block, size, align) }
    }

    /// A block is freed when the next one is.
    unsafe extern "C-unwind" fn free_late(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context came from `make`; the pending block is live in the inner heap.
        unsafe {
            let late = context.cast::<Late>();
            if !(*late).pending.is_null() {
                (inner().entries.deallocate)((*late).inner, (*late).pending, (*late).bytes, align);
            }
            ((*late).pending, (*late).bytes) = (block, size);
        }
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        // SAFETY: the context came from `make`.
        unsafe {
            (inner().view.expect("a view").fingerprint)((*context.cast::<Late>()).inner, word);
            word((*context.cast::<Late>()).pending as usize);
        }
    }

    unsafe fn walk(context: *mut c_void, visitor: &mut dyn FnMut(rtalloc::contract::Block)) {
        // SAFETY: the context came from `make`.
        unsafe { (inner().view.expect("a view").walk)((*context.cast::<Late>()).inner, visitor) }
    }

    unsafe fn release(_: *mut c_void) {}

    /// A mutant of an allocator, until the next call.
    fn mutant(of: &'static Subject, allocate: AllocateEntry, deallocate: DeallocateEntry) -> Subject {
        INNER.set(Some(of));
        Subject {
            make,
            release,
            entries: Entries { allocate, deallocate, ..of.entries },
            view: of.view.map(|view| View { fingerprint, walk, ..view }),
            ..*of
        }
    }

    /// Whether a heap of the guaranteed size refuses something in a small world.
    fn is_refuted(subject: &Subject, unit: Unit) -> bool {
        let worlds = (2..=6).flat_map(|m| (2..=m.min(4)).map(move |n| (m, n)));
        let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
        worlds.into_iter().any(|(m, n)| {
            let bytes = subject.about.guarantee.expect("a guarantee").bytes(page_bytes, unit, m, n);
            bytes.is_some_and(|bytes| {
                let units = bytes.div_ceil(unit.bytes as u64) as usize;
                matches!(outcome(subject, units, &World::Live { m, least: 1, n }), Outcome::Refuses(_))
            })
        })
    }

    #[test]
    fn a_buddy_that_divides_the_largest_block_needs_more_than_the_formula() {
        let buddy = one("binary-buddy").expect("a subject");
        let unit = unit_of(buddy).expect("a unit");
        assert!(is_refuted(&mutant(buddy, allocate_last, free_at_once), unit));
        assert!(!is_refuted(&mutant(buddy, allocate, free_at_once), unit), "the wrapper itself needs more");
    }

    /// Every allocator with a formula in units. In formulas of whole pages, a block more or less does not matter in small
    /// worlds.
    #[test]
    fn memory_that_is_freed_late_makes_formulas_false() {
        let in_units = |subject: &&Subject| {
            let has_pages = subject.view.is_some_and(|view| view.contract.page_bytes > 0);
            subject.about.guarantee.is_some() && !has_pages
        };
        let mut refuted = 0;
        for subject in region_allocators().iter().filter(in_units) {
            let unit = unit_of(subject).expect("a unit");
            assert!(is_refuted(&mutant(subject, allocate, free_late), unit), "{}", subject.name);
            refuted += 1;
        }
        assert!(refuted > 10, "{refuted} allocators");
    }
}
