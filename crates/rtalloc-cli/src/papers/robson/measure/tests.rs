use super::*;
use crate::papers::robson::result::Claim;
use rtalloc_lab::experiment::heap_size::adversary::sieve;
use rtalloc_lab::experiment::heap_size::{Game, Over, Played};
use rtalloc_subjects::{Guarantee, Unit};
use rtalloc_subjects::{Region, one};

/// Units at the ends of a heap that are unavailable for blocks.
const ENDS: f64 = 4.0;

fn question(name: &str, adversary: Adversary, m: usize, n: usize) -> Question<'static> {
    let subject = one(name).expect("a subject");
    Question { subject, unit: unit_of(subject).expect("a unit"), adversary, m, n }
}

/// The memory needed, after verifying that it suffices and that one granule less does not.
fn need(question: Question<'_>) -> Need {
    let what = format!("{} {} n = {}", question.subject.name, question.adversary.name(), question.n);
    let need = question.need().expect(&what);
    let mut region = Region::new(question.ample_bytes(), false).expect("memory");
    let bytes = (need.needed_bytes + need.control_bytes) as usize;
    let mut over = |bytes| question.play(&mut region, bytes).map(|Played { over, .. }| over);
    assert_eq!(over(bytes), Some(Over::Spent), "{what}: {need:?}");
    match over(bytes - need.granule_bytes as usize) {
        Some(over) => assert_eq!(over, Over::Refused, "{what}: {need:?}"),
        // The smallest possible heap, control structure included: in ample memory the adversary did not use as much.
        None => assert!(need.ample_bytes < need.needed_bytes + need.control_bytes, "{what}: no smaller heap: {need:?}"),
    }
    need
}

fn units(need: &Need) -> f64 {
    need.needed_bytes as f64 / need.unit_bytes as f64
}

#[test]
fn the_lower_bound_is_that_of_the_literature() {
    let ratio = |n| theory::lower_bound(1024, n) / 1024.0;
    assert_eq!([16, 64, 256].map(|n| (ratio(n) * 1000.0).round()), [2985.0, 3938.0, 4751.0]);
}

#[test]
fn units_are_blocks_that_lie_side_by_side() {
    let unit = |name| unit_of(one(name).expect("a subject")).expect("a unit");
    assert_eq!(unit("tlsf"), Unit { bytes: 16, header_bytes: 4 });
    assert_eq!(unit("binary-buddy"), Unit { bytes: 16, header_bytes: 0 });
    assert_eq!(unit("tlsf").request_bytes(3), 44);
}

#[test]
fn allocators_that_round_nothing_need_exactly_the_lower_bound() {
    for name in ["first-fit", "first-fit-address", "best-fit", "half-fit", "tlsf"] {
        for n in [4, 16] {
            let need = need(question(name, Adversary::Powers, 128, n));
            let bound = theory::lower_bound(128, n);
            assert!((bound..=bound + ENDS).contains(&units(&need)), "{name} n = {n}: {} of {bound}", units(&need));
        }
    }
}

/// Every adversary against every allocator with a guarantee.
#[test]
fn adversaries_stay_below_guarantees_and_make_smaller_heaps_fail() {
    for subject in selected(&[]).expect("all") {
        let Some(guarantee) = subject.about.guarantee else { continue };
        let page_bytes = subject.view.map_or(0, |view| view.contract.page_bytes);
        for adversary in Adversary::ALL {
            let question = question(subject.name, adversary, 64, 8);
            let need = need(question);
            let Some(bytes) = guarantee.bytes(page_bytes, question.unit, question.m, question.n) else { continue };
            let allowed = bytes as f64 / need.unit_bytes as f64 + ENDS;
            assert!(units(&need) <= allowed, "{} {}: {need:?}, {bytes} bytes", subject.name, adversary.name());
        }
    }
}

#[test]
fn a_comb_leads_best_fit_far_beyond_what_first_fit_and_buddies_ever_need() {
    for name in ["best-fit", "tree-best-fit", "tlsf"] {
        let need = need(question(name, Adversary::Comb, 160, 16));
        let used = need.ample_bytes as f64 / need.unit_bytes as f64;
        assert!(used >= theory::comb(160, 16), "{name}: {need:?}");
        assert!(units(&need) >= ((160 - 5 * 16) * (16 - 2)) as f64, "{name}: {need:?}");
    }
    for name in ["first-fit-address", "half-fit", "binary-buddy"] {
        let need = need(question(name, Adversary::Comb, 160, 16));
        assert!(need.ratio() < 2.0, "{name}: {need:?}");
    }
}

/// If n - 1 and n - 2 units are in one class, it uses a larger step.
#[test]
fn a_comb_finds_the_classes_of_tlsf() {
    let need = need(question("tlsf", Adversary::Comb, 700, 128));
    assert!(need.ratio() > 8.0, "{need:?}");
}

#[test]
fn a_march_leads_next_fit_to_the_end_of_any_heap() {
    let need = need(question("next-fit", Adversary::March, 128, 16));
    assert!(units(&need) >= (16 * (128 - 16)) as f64, "{need:?}");
}

/// The bound stated in o1heap's documentation for half-fit does not hold for the half-fit here.
#[test]
fn teeth_lead_half_fit_beyond_the_formula_that_was_printed_once() {
    for n in [16, 32] {
        let need = need(question("half-fit", Adversary::Teeth, 16 * n, n));
        assert!(units(&need) >= theory::teeth(16 * n, n), "n = {n}: {need:?}");
        assert!(units(&need) > theory::refuted_of_half_fit(16 * n, n) as f64 + ENDS, "n = {n}: {need:?}");
    }
}

/// The figures in the documents: M, n, and the least memory needed, divided by M.
#[test]
fn teeth_lead_half_fit_to_all_but_n_times_m() {
    for (m, n, least) in [(1024, 16, 15.5), (1841, 256, 184.8), (16_384, 256, 248.0)] {
        let need = need(question("half-fit", Adversary::Teeth, m, n));
        let guaranteed = Guarantee::HalfFit { is_rounded: false }
            .bytes(0, Unit { bytes: 1, header_bytes: 0 }, m, n)
            .expect("any n") as f64;
        assert!(need.ratio() >= least, "M = {m}, n = {n}: {need:?}");
        assert!(units(&need) <= guaranteed + ENDS, "M = {m}, n = {n}: {need:?}");
    }
}

/// The worked example formerly in the book: M = 1,841, n = 257, and a heap of 2M(1 + ceil(log2 n)) + 4 units.
#[test]
fn half_fit_refuses_in_the_heap_of_the_worked_example_with_a_quarter_of_m_live() {
    use core::mem::MaybeUninit;
    use rtalloc::{HalfFit, RegionAllocator};
    const UNIT: usize = 16;
    const HEAP_BYTES: usize = (2 * 1841 * (1 + 9) + 4) * UNIT;
    assert_eq!(HEAP_BYTES, 589_184);
    let mut region = vec![MaybeUninit::<u8>::uninit(); HEAP_BYTES + <HalfFit<'static>>::control_bytes(HEAP_BYTES)];
    let mut heap: HalfFit<'_> = HalfFit::new(&mut region, Default::default()).expect("a heap");
    let (mut live, mut most_live) = (0, 0);
    let mut take = |heap: &mut HalfFit<'_>, units: usize, live: &mut usize| {
        let block = heap.allocate_bytes(units * UNIT - 4, 8).ok()?;
        *live += units;
        most_live = most_live.max(*live);
        Some(block)
    };
    let mut refused = None;
    let mut gap = take(&mut heap, 255, &mut live).expect("an empty heap");
    while refused.is_none() {
        let mut round = || {
            let [first, second] = [129, 129].map(|units| take(&mut heap, units, &mut live).ok_or(units));
            let (first, second) = (first?, second?);
            // SAFETY: a live block of this heap, not used again.
            unsafe { heap.deallocate(first) };
            live -= 129;
            take(&mut heap, 1, &mut live).ok_or(1_usize)?;
            // SAFETY: live blocks of this heap, not used again.
            unsafe {
                heap.deallocate(gap);
                heap.deallocate(second);
            }
            live -= 255 + 129;
            gap = take(&mut heap, 255, &mut live).ok_or(255_usize)?;
            Ok::<(), usize>(())
        };
        refused = round().err();
    }
    assert_eq!(heap.check(), Ok(()));
    assert_eq!((refused, live, most_live), (Some(129), 397, 654), "of 1,841 units");
}

/// The bound in bytes, `a k + 2 l n M' (ceil(log2 n') + 1) / (l + n)` with M' = ceil(M / l), n' = ceil(n / l), k = M' -
/// n' + 1, is 2.67 M for the sizes l and 2l alone. Blocks of l that remain live leave gaps that half-fit uses neither
/// for l nor, later, for 2l.
#[test]
fn two_sizes_alone_refute_the_form_in_bytes() {
    const UNITS: usize = 257;
    const OBJECTS: usize = 256;
    let subject = one("half-fit").expect("a subject");
    let unit = unit_of(subject).expect("a unit");
    let (l, header) = (unit.request_bytes(UNITS), unit.header_bytes);
    let n = unit.request_bytes(2 * UNITS);
    let promised = header * (OBJECTS - 2 + 1) + (2 * l * n * OBJECTS * 2).div_ceil(l + n);
    let mut region = Region::new(promised * 2, false).expect("memory");
    let mut play = |area_bytes: usize| {
        let control = rtalloc_subjects::Heap::new(subject, &mut region, area_bytes).expect("a heap").control_bytes();
        let heap = rtalloc_subjects::Heap::new(subject, &mut region, area_bytes + control).expect("a heap");
        let mut game = Game::new(&heap, unit, OBJECTS * UNITS);
        let sizes = [(UNITS, 511); 12].into_iter().chain([(2 * UNITS, 1023); 12]);
        let over = sieve::rounds(&mut game, sizes).err().unwrap_or(Over::Spent);
        (over, game.highest_bytes as f64 / (OBJECTS * l) as f64, 1.0 - game.left() as f64 / (OBJECTS * UNITS) as f64)
    };
    let ample = play(promised * 3 / 2);
    assert_eq!(ample.0, Over::Spent);
    assert!(ample.1 > 2.95, "{ample:?}");
    assert_eq!(play(promised).0, Over::Refused);
}

/// Blocks of n shrunk in place to one unit are teeth n apart in any allocator; guarantees by powers of two assume that
/// blocks are not shrunk in place.
#[test]
fn shrinking_in_place_voids_the_guarantees_by_powers_of_two() {
    use core::mem::MaybeUninit;
    use rtalloc::{AddressOrderedFirstFit, BinaryBuddy, RegionAllocator};
    const UNIT: usize = 16;
    const M: usize = 64;
    const N: usize = 16;
    /// Live units when a request is refused.
    fn live_at_refusal<'r, A: RegionAllocator<'r>>(mut heap: A, header_bytes: usize) -> usize {
        let bytes = |units: usize| units * UNIT - header_bytes;
        let mut live = 0;
        // The next block is allocated before one shrinks, so that the freed space is followed by it.
        let mut last = heap.allocate_bytes(bytes(N), 8).expect("an empty heap");
        while let Ok(next) = heap.allocate_bytes(bytes(N), 8) {
            // SAFETY: the block is live and belongs to this heap.
            let shrunk = unsafe { heap.reallocate_bytes(last, bytes(1), 8) };
            assert_eq!(shrunk, Ok(last), "it stays");
            (last, live) = (next, live + 1);
        }
        live + N
    }
    let mut region = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let heap_bytes = M * (1 + 4) * UNIT + 64;
    let length = heap_bytes + <AddressOrderedFirstFit<'static>>::control_bytes(heap_bytes);
    let heap = <AddressOrderedFirstFit<'_>>::new(&mut region[..length], Default::default()).expect("a heap");
    let refused_with = live_at_refusal(heap, 4) + N;
    assert!(refused_with <= M, "{refused_with}");
    let length = (M * (1 + 4) + N) * (UNIT + 1) + 1024;
    let heap = <BinaryBuddy<'_>>::new(&mut region[..length], ()).expect("a heap");
    let refused_with = live_at_refusal(heap, 0) + N;
    assert!(refused_with <= M, "{refused_with}");
}

/// The guarantees about gaps assume that when a request is refused, no free block is as large as the rounded request,
/// and no two free blocks are adjacent.
#[test]
fn a_refusal_means_that_no_gap_is_large_enough() {
    for subject in selected(&[]).expect("all") {
        let rounded: fn(usize) -> usize = match subject.about.guarantee {
            Some(Guarantee::AnyFit) => |units| units,
            Some(Guarantee::GoodFit(32)) => |units| units + units.div_ceil(32),
            Some(Guarantee::HalfFit { .. }) => usize::next_power_of_two,
            _ => continue,
        };
        let unit = unit_of(subject).expect("a unit");
        let view = subject.view.expect("of ours");
        let mut region = Region::new(1 << 16, false).expect("memory");
        let heap = rtalloc_subjects::Heap::new(subject, &mut region, 1 << 16).expect("a heap");
        let mut game = Game::new(&heap, unit, usize::MAX);
        let (mut state, mut live, mut refusals) = (1_u64, Vec::new(), 0);
        let mut dice = |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % sides
        };
        for step in 0..40_000 {
            let units = 1 + dice(if step / 1000 % 2 == 0 { 12 } else { 100 });
            match game.take(units) {
                Ok(id) => live.push(id),
                Err(Over::Spent) => unreachable!("no limit"),
                Err(Over::Refused) => {
                    refusals += 1;
                    let (mut before, mut blocks) = (false, 0);
                    // SAFETY: the heap is live and no other reference to it exists.
                    unsafe {
                        (view.walk)(heap.context, &mut |block: rtalloc::contract::Block| {
                            assert!(!(before && block.free), "{}: two free blocks side by side", subject.name);
                            let gap = if block.free { block.size_bytes / unit.bytes } else { 0 };
                            assert!(gap < rounded(units), "{}: {units} refused beside a gap of {gap}", subject.name);
                            (before, blocks) = (block.free, blocks + 1);
                        });
                    }
                    assert!(blocks > 1, "{}", subject.name);
                    (0..=live.len() / 3).for_each(|_| game.give(live.swap_remove(dice(live.len()))));
                }
            }
        }
        assert!(refusals > 100, "{}: {refusals}", subject.name);
    }
}

#[test]
fn claims_without_figures_are_neither_confirmed_nor_refuted() {
    let settings =
        Settings { subjects: selected(&[]).expect("all"), m: 64, comb_m: 64, sizes: vec![4, 16, 32, 64, 256] };
    let nothing = |_| {
        let result = campaign::found(&Result::<Vec<Need>, &str>::Err("it did not run"));
        serde_json::from_value::<Result<Vec<Need>, String>>(result).expect("a result")
    };
    let found = settings.found((0..settings.tasks().len()).map(nothing).collect());
    assert!(found.claims.len() > 15, "{}", found.claims.len());
    assert!(found.claims.iter().all(|claim: &Claim| claim.verdict.holds().is_none()), "{:?}", found.claims);
}

/// A missing result might have been a counterexample.
#[test]
fn an_allocator_that_did_not_run_prevents_confirmation_but_not_refutation() {
    let subjects = selected(&[]).expect("all");
    let settings = Settings { subjects, m: 1024, comb_m: 1024, sizes: vec![16] };
    let need = |needed_units: u64| Need {
        n: 16,
        m: 1024,
        unit_bytes: 16,
        header_bytes: 0,
        needed_bytes: 16 * needed_units,
        control_bytes: 0,
        granule_bytes: 16,
        ample_bytes: 16 * needed_units,
        served: 1,
        games: 1,
        guaranteed_bytes: Some(16 * 4096),
    };
    let tasks = settings.tasks().len();
    let judged = |units: u64, failed: bool| {
        let failed_at = |task: usize| failed && task.is_multiple_of(Adversary::ALL.len());
        let answer = |task: usize| if failed_at(task) { Err("it did not run".into()) } else { Ok(vec![need(units)]) };
        // One successful allocator per family remains.
        let mut families: Vec<&str> = Vec::new();
        let answers = (0..tasks).map(|task| {
            let family = settings.question(task).0.family;
            if failed_at(task) && !families.contains(&family) {
                families.push(family);
                return Ok(vec![need(units)]);
            }
            answer(task)
        });
        settings.found(answers.collect()).claims
    };
    let of = |claims: &[Claim], text: &str| -> Vec<Option<bool>> {
        claims.iter().filter(|claim| claim.claim.contains(text)).map(|claim| claim.verdict.holds()).collect()
    };
    let texts = ["no allocator needs less", "none of these adversaries makes"];
    for (text, units) in texts.into_iter().zip([1024, 8192]) {
        let (whole, partly) = (of(&judged(4000, false), text), of(&judged(4000, true), text));
        assert!(whole.iter().all(|confirmed| *confirmed == Some(true)), "{text}: {whole:?}");
        assert!(partly.contains(&None) && !partly.contains(&Some(false)), "{text}: {partly:?}");
        let refuted = of(&judged(units, true), text);
        assert!(refuted.contains(&Some(false)) && !refuted.contains(&Some(true)), "{text}: {refuted:?}");
    }
}
