//! White-box tests of the arenas: one side interrupted by the other at every step, and which misuse is found.

extern crate std;
use super::remote_queue::PendingBits;
use super::*;
use crate::adapt::{Global, Memory, Numbered};
use crate::concurrent::atomics::{Listener, Rmw, Step, WithListener};
use crate::contract::{Claim, Misuse};
use crate::hook::set_misuse_hook;
use std::boxed::Box;
use std::cell::RefCell;
use std::sync::Once;
use std::{vec, vec::Vec};

type Heap = Arenas<'static, Tlsf<'static>, WithListener<Script>>;
type User<'h> = Claim<'h, 'static, Heap>;

/// An action before a step of an operation; steps are numbered from 0.
struct Interruption<'a> {
    step: usize,
    act: Box<dyn FnOnce() + 'a>,
}

std::thread_local! {
    static STEPS: Cell<Steps> = const { Cell::new(Steps { read_modify_writes: 0, loads: 0, stores: 0 }) };
    static SCRIPT: RefCell<Vec<Interruption<'static>>> = const { RefCell::new(Vec::new()) };
}

/// Counts steps, and runs the actions of the script before them.
#[derive(Clone, Copy, Default)]
struct Script;

// SAFETY: a panic fails the test, and the heap is not used after it.
unsafe impl Listener for Script {
    fn before(step: Step) {
        let steps = STEPS.get();
        let due = SCRIPT.with_borrow_mut(|script| script.pop_if(|next| next.step == steps.total()));
        if let Some(Interruption { act, .. }) = due {
            // Steps of the action are not counted for the operation, and later actions do not interrupt this one.
            let later = SCRIPT.take();
            act();
            SCRIPT.set(later);
        }
        let one = match step {
            Step::Load => Steps { loads: 1, ..Steps::default() },
            Step::Store => Steps { stores: 1, ..Steps::default() },
            Step::Modify(Rmw::Add | Rmw::And | Rmw::Or | Rmw::Swap) | Step::CompareExchange => {
                Steps { read_modify_writes: 1, ..Steps::default() }
            }
        };
        STEPS.set(steps + one);
    }
}

/// Runs an operation, interrupted before the steps of the script, in order; returns its own steps.
fn steps_of(script: Vec<Interruption<'_>>, operation: impl FnOnce()) -> Steps {
    let mut script = script;
    script.reverse();
    // SAFETY: the rest of the script is dropped before this returns.
    SCRIPT.set(unsafe { core::mem::transmute::<Vec<Interruption<'_>>, Vec<Interruption<'static>>>(script) });
    STEPS.set(Steps::default());
    operation();
    SCRIPT.set(Vec::new());
    STEPS.get()
}

fn config(slots: usize) -> ArenasConfig<crate::TagConfig> {
    ArenasConfig { slots, ..Default::default() }
}

/// A heap in memory that is never freed.
fn heap(len_bytes: usize, config: ArenasConfig<crate::TagConfig>) -> Heap {
    Heap::new(vec![MaybeUninit::new(0xA5_u8); len_bytes].leak(), config).unwrap()
}

fn state(heap: &mut Heap) -> Vec<usize> {
    heap.check().unwrap();
    let mut words = vec![];
    heap.fingerprint(&mut |word| words.push(word));
    words
}

/// Frees a block through a slot, whichever slot owns it.
fn free(user: &mut User<'_>, block: NonNull<u8>) {
    // SAFETY: the tests free live blocks, or misuse the heap on purpose.
    unsafe { user.deallocate(block) }
}

fn blocks<const COUNT: usize>(user: &mut User<'_>) -> [NonNull<u8>; COUNT] {
    [(); COUNT].map(|()| user.allocate_bytes(100, 8).unwrap())
}

#[test]
fn every_step_of_a_free_survives_its_owner() {
    let mut longest = Steps::default();
    let bound = heap(1 << 16, config(2)).max_steps(Operation::Deallocate { size_bytes: 100, align_bytes: 8 }).unwrap();
    for queued_before in 0..3 {
        for reclaim_budget in 1..4 {
            for step in 0..6 {
                let mut heap = heap(1 << 14, config(2));
                let fresh = state(&mut heap);
                {
                    let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
                    let [first, second, third] = blocks(&mut owner);
                    [first, second][..queued_before].iter().for_each(|&block| free(&mut other, block));
                    let act = Box::new(|| {
                        let taken = owner.reclaim(reclaim_budget);
                        assert!(taken <= queued_before + 1);
                    });
                    let steps = steps_of(vec![Interruption { step, act }], || free(&mut other, third));
                    assert!(steps.within(bound), "{steps:?}");
                    longest.read_modify_writes = longest.read_modify_writes.max(steps.read_modify_writes);
                    longest.loads = longest.loads.max(steps.loads);
                    longest.stores = longest.stores.max(steps.stores);
                    [first, second][queued_before..].iter().for_each(|&block| free(&mut other, block));
                    // Before the first step, between any two, after the last: no block is lost.
                    owner.reclaim(9);
                }
                assert_eq!(fresh, state(&mut heap), "{queued_before} queued, {reclaim_budget} taken at step {step}");
            }
        }
    }
    assert_eq!(longest, bound, "the bound is reached");
}

#[test]
fn every_step_of_taking_back_survives_two_producers() {
    let mut longest = 0;
    for budget in 1..5 {
        for first_step in 0..14 {
            for second_step in first_step..14 {
                let mut heap = heap(1 << 14, config(3));
                let fresh = state(&mut heap);
                {
                    let [mut owner, mut left, mut right] = [0, 1, 2].map(|slot| heap.claim(slot).unwrap());
                    let [a, b, c, d, e] = blocks(&mut owner);
                    free(&mut left, a);
                    let bound = heap.max_steps(Operation::Reclaim { budget }).unwrap();
                    let mut taken = 0;
                    let left = core::cell::RefCell::new(left);
                    let script = vec![
                        Interruption {
                            step: first_step,
                            act: Box::new(|| [b, c].into_iter().for_each(|block| free(&mut left.borrow_mut(), block))),
                        },
                        Interruption {
                            step: second_step,
                            act: Box::new(|| {
                                free(&mut left.borrow_mut(), d);
                                free(&mut right, e);
                            }),
                        },
                    ];
                    let steps = steps_of(script, || taken = owner.reclaim(budget));
                    assert!(steps.within(bound), "{steps:?} for {taken} of {budget}");
                    assert!((1..=budget).contains(&taken));
                    longest = longest.max(steps.total());
                    // Frees that came too late, or never, are found afterwards.
                    let mut left = left.into_inner();
                    let late = owner.reclaim(9) + taken;
                    if late < 5 {
                        let missing = [b, c, d, e];
                        let unsent = if steps.total() <= first_step { &missing[..] } else { &missing[2..] };
                        assert_eq!(late + unsent.len(), 5, "at {first_step} and {second_step}");
                        unsent.iter().for_each(|&block| free(&mut left, block));
                        assert_eq!(owner.reclaim(9), unsent.len());
                    }
                }
                assert_eq!(fresh, state(&mut heap), "{budget} taken back, frees at {first_step} and {second_step}");
            }
        }
    }
    assert!(longest >= 10, "the script interrupts as many steps as there are: {longest}");
}

#[test]
fn producers_that_share_a_bit_are_all_found() {
    const PRODUCERS: usize = 5;
    type Shares = PendingBits<WithListener<Script>, 2>;
    for step in 0..16 {
        for late in 0..PRODUCERS {
            let links: [Link<WithListener<Script>>; 2 * PRODUCERS] = Default::default();
            let boxes: [RemoteQueue<WithListener<Script>>; PRODUCERS] = Default::default();
            let pending_bits = Shares::new();
            let send = |number: usize| {
                let producer = number % PRODUCERS;
                // SAFETY: there is no other user of this producer, and each free is pushed once.
                let put = unsafe { boxes[producer].push(QueuedFree::new(number as u32 + 1).unwrap(), &links[number]) };
                if put == Pushed::First {
                    pending_bits.set(producer);
                }
            };
            (0..PRODUCERS).for_each(send);
            let mut seen = vec![];
            let mut rounds = 0;
            let act = Box::new(|| send(PRODUCERS + late));
            let bound = collect_steps(PRODUCERS, 2);
            let mut script = vec![Interruption { step, act }];
            while pending_bits.any() || !script.is_empty() {
                let mut top = None;
                let steps = steps_of(core::mem::take(&mut script), || {
                    // SAFETY: there is one owner.
                    top = unsafe { pending_bits.collect(PRODUCERS, |at| &boxes[at]) }
                });
                assert!(steps.within(bound), "{steps:?}");
                while let Some(queued) = top {
                    seen.push(queued.get() as usize - 1);
                    top = links[queued.get() as usize - 1].next();
                }
                rounds += 1;
                assert!(rounds < 12, "pending bits without queued frees");
            }
            seen.sort_unstable();
            let is_sent = seen.len() > PRODUCERS;
            let all: Vec<usize> = (0..PRODUCERS).chain(is_sent.then_some(PRODUCERS + late)).collect();
            assert_eq!(seen, all, "late free of {late} at step {step}");
        }
    }
}

#[test]
fn the_local_pair_takes_one_load() {
    let heap = heap(1 << 14, config(2));
    let mut user = heap.claim(0).unwrap();
    let mut block = None;
    let steps = steps_of(vec![], || block = user.allocate_bytes(100, 8).ok());
    assert_eq!(steps, Steps { loads: 1, ..Steps::default() });
    assert_eq!(steps_of(vec![], || free(&mut user, block.unwrap())), Steps::default());
}

#[test]
fn an_allocation_takes_back_as_many_blocks_as_configured() {
    let heap = heap(1 << 16, ArenasConfig { reclaim_budget: 3, ..config(2) });
    let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    blocks::<10>(&mut owner).into_iter().for_each(|block| free(&mut other, block));
    let bound = heap.max_steps(Operation::Allocate { size_bytes: 1, align_bytes: 1 }).unwrap();
    let steps = steps_of(vec![], || assert!(owner.allocate_bytes(1, 1).is_ok()));
    assert!(steps.within(bound), "{steps:?}");
    assert_eq!(owner.reclaim(usize::MAX), 7);
}

/// Producers that share a bit: one sets the bit for a free that was collected before. The bit leads to nothing, and
/// does not hide the free of another producer.
#[test]
fn a_pending_bit_set_late_hides_no_free() {
    let slots = usize::BITS as usize + 2;
    let mut heap = heap(1 << 19, config(slots));
    let fresh = state(&mut heap);
    {
        let mut owner = heap.claim(1).unwrap();
        let [sample, first, second, third] = blocks::<4>(&mut owner);
        let mut other = heap.claim(9).unwrap();
        let undisturbed = steps_of(vec![], || free(&mut other, sample)).total();
        assert_eq!(owner.reclaim(1), 1);
        free(&mut heap.claim(0).unwrap(), first);
        // The other producer of bit 0 is stopped between its push and setting the bit, the last step of a free.
        let mut late = heap.claim(slots - 2).unwrap();
        let act = Box::new(|| {
            assert_eq!(owner.reclaim(1), 1, "the free by slot 0");
            assert_eq!(owner.reclaim(1), 1, "the free that shares its bit, whose bit is not set yet");
            free(&mut heap.claim(5).unwrap(), third);
        });
        steps_of(vec![Interruption { step: undisturbed - 1, act }], || free(&mut late, second));
        assert_eq!(owner.reclaim(2), 1, "after the bit that was set late");
        assert_eq!(owner.reclaim(2), 0);
    }
    assert_eq!(fresh, state(&mut heap));
}

#[test]
fn nonexistent_slots_have_no_arena() {
    let mut heap = heap(1 << 16, config(2));
    for slot in [2, 3, usize::MAX] {
        assert_eq!(heap.largest_allocatable_by(slot), 0);
        heap.walk_by(slot, &mut |block| panic!("{block:?}"));
    }
}

#[test]
fn bounds_of_unlimited_budgets_saturate() {
    let heap =
        heap(1 << 16, ArenasConfig { reclaim_budget: usize::MAX, reclaim_budget_on_miss: usize::MAX, ..config(2) });
    let bound = heap.max_steps(Operation::Allocate { size_bytes: 1, align_bytes: 1 }).unwrap();
    assert_eq!((bound.read_modify_writes, bound.total()), (usize::MAX, usize::MAX));
}

#[test]
fn pending_is_not_exhausted() {
    let heap = heap(1 << 14, ArenasConfig { reclaim_budget: 1, reclaim_budget_on_miss: 4, ..config(2) });
    let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
    let all: Vec<_> = core::iter::from_fn(|| owner.allocate_bytes(200, 8).ok()).collect();
    assert!(all.len() > 20);
    assert_eq!(owner.allocate_bytes(200, 8), Err(SharedError::Exhausted));
    all.iter().for_each(|&block| free(&mut other, block));
    let whole = 200 * all.len();
    let bound = heap.max_steps(Operation::Allocate { size_bytes: whole, align_bytes: 1 }).unwrap();
    let mut refused = 0;
    loop {
        let mut answer = Err(SharedError::Contended);
        let steps = steps_of(vec![], || answer = owner.allocate_bytes(whole, 1));
        assert!(steps.within(bound), "{steps:?}");
        match answer {
            Ok(block) => break free(&mut owner, block),
            Err(error) => assert_eq!(error, SharedError::Pending),
        }
        refused += 1;
    }
    // Each refusal took back one block on its way in and four on the miss.
    assert_eq!(refused, all.len().div_ceil(5) - 1);
    assert_eq!(owner.allocate_bytes(1 << 14, 1), Err(SharedError::Request(AllocError::TooLarge)));
    assert_eq!(owner.allocate_bytes(1, 3), Err(SharedError::Request(AllocError::Alignment)));
    // The one that ended the filling, and the one asserted after it.
    let refusals = heap.refusals();
    assert_eq!(refusals, Refusals { request: 2, exhausted: 2, contended: 0, pending: refused });
}

#[test]
fn a_slot_passes_on_its_arena_its_chain_and_its_queued_frees() {
    let mut heap = heap(1 << 14, config(2));
    let fresh = state(&mut heap);
    {
        let mut other = heap.claim(1).unwrap();
        let mut owner = heap.claim(0).unwrap();
        assert!(heap.claim(0).is_none() && heap.claim_any().is_none() && heap.claim(2).is_none());
        let [kept, a, b, c, d] = blocks(&mut owner);
        [a, b, c].into_iter().for_each(|block| free(&mut other, block));
        assert_eq!(owner.reclaim(1), 1);
        free(&mut other, d);
        drop(owner);
        // Blocks that are freed meanwhile wait for the next user.
        let mut next = heap.claim_any().unwrap();
        assert_eq!(next.number(), 0);
        assert_eq!(next.reclaim(9), 3);
        free(&mut next, kept);
    }
    assert_eq!(fresh, state(&mut heap));
}

#[test]
fn a_block_of_another_slot_is_resized_by_copying() {
    let mut heap = heap(1 << 14, config(2));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let [block] = blocks(&mut owner);
        // SAFETY: the block is live, here and below.
        unsafe {
            assert_eq!(other.usable_size(block), owner.usable_size(block));
            block.write_bytes(0x5A, 100);
            assert_eq!(other.reallocate_bytes(block, 60, 8), Ok(block), "a block that shrinks by less than half stays");
            assert_eq!(other.reallocate_bytes(block, 0, 8), Err(SharedError::Request(AllocError::ZeroSize)));
            assert_eq!(other.reallocate_bytes(block, 40, 3), Err(SharedError::Request(AllocError::Alignment)));
            assert_eq!(other.reallocate_bytes(block, 1 << 14, 8), Err(SharedError::Request(AllocError::TooLarge)));
            let moved = other.reallocate_bytes(block, 300, 8).unwrap();
            assert!(other.is_own(moved.addr().get()) && !owner.is_own(moved.addr().get()));
            assert!(core::slice::from_raw_parts(moved.as_ptr(), 100).iter().all(|&byte| byte == 0x5A));
            assert_eq!(owner.reclaim(9), 1, "the old block was queued");
            free(&mut owner, moved);
            assert_eq!(other.reclaim(9), 1);
        }
    }
    assert_eq!(fresh, state(&mut heap));
}

/// *Exhausted* is certain: a free that was completed before the last look, after any step of the request, is either
/// taken back or answered with *pending*.
#[test]
fn a_free_before_the_last_look_is_not_overlooked() {
    let full = || {
        let heap = heap(1 << 14, config(2));
        let blocks: Vec<_> = {
            let mut owner = heap.claim(0).unwrap();
            std::iter::from_fn(|| owner.allocate_bytes(1000, 8).ok()).collect()
        };
        (heap, blocks)
    };
    let (heap, _) = full();
    let mut owner = heap.claim(0).unwrap();
    let mut answer = None;
    let steps = steps_of(vec![], || answer = Some(owner.allocate_bytes(1000, 8))).total();
    assert_eq!(answer, Some(Err(SharedError::Exhausted)));
    for step in 0..steps {
        let (heap, blocks) = full();
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let mut answer = None;
        let act = Box::new(|| free(&mut other, blocks[0]));
        steps_of(vec![Interruption { step, act }], || answer = Some(owner.allocate_bytes(1000, 8)));
        // The last step counts the refusal; the one before is the last look.
        let is_seen = step + 1 < steps;
        assert_eq!(answer != Some(Err(SharedError::Exhausted)), is_seen, "step {step} of {steps}: {answer:?}");
    }
}

/// Blocks that four slots have queued are more than a request takes back: it is *pending*, as often as needed.
#[test]
fn what_is_left_in_queues_is_pending() {
    let budgets = ArenasConfig { reclaim_budget: 1, reclaim_budget_on_miss: 1, ..config(5) };
    let heap = heap(5 << 12, budgets);
    let mut owner = heap.claim(0).unwrap();
    let blocks: Vec<_> = std::iter::from_fn(|| owner.allocate_bytes(200, 8).ok()).collect();
    for (slot, block) in (1..).zip(&blocks[4..8]) {
        free(&mut heap.claim(slot).unwrap(), *block);
    }
    // Two are taken back, whichever they are; what four neighbours leave is needed.
    assert_eq!(owner.allocate_bytes(800, 8), Err(SharedError::Pending));
    assert!(owner.allocate_bytes(800, 8).is_ok());
    assert_eq!(owner.allocate_bytes(800, 8), Err(SharedError::Exhausted));
}

std::thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// README's heap for firmware, with as many frees queued as fit: a request through the global allocator is one
/// operation of its slot, whose bound does not depend on how many these are.
#[test]
fn a_request_of_the_global_allocator_is_one_of_its_slot() {
    static MEMORY: Memory<{ 48 << 10 }> = Memory::new();
    // SAFETY: one thread uses the heap, and its number changes between operations.
    let numbered = unsafe { Numbered::new(|| NUMBER.get()) };
    let global: Global<Heap, Numbered> = Global::configured(&MEMORY, numbered, config(3));
    let bound = global.heap().unwrap().max_steps(Operation::Allocate { size_bytes: 12_000, align_bytes: 8 }).unwrap();
    let mut small: Vec<_> = std::iter::from_fn(|| global.allocate_bytes(12, 4).ok()).collect();
    assert!(small.len() > 900, "{}", small.len());
    NUMBER.set(1);
    // SAFETY: the blocks are live.
    small.drain(..).for_each(|block| unsafe { global.deallocate(block) });
    NUMBER.set(0);
    let mut requests = 0;
    loop {
        requests += 1;
        let mut answer = None;
        let steps = steps_of(vec![], || answer = Some(global.allocate_bytes(12_000, 8)));
        assert!(steps.within(bound), "request {requests}: {steps:?}, at most {bound:?}");
        match answer.unwrap() {
            Ok(_) => break,
            Err(error) => assert_eq!(error, SharedError::Pending),
        }
    }
    // Each took back as many as configured.
    assert!((10..40).contains(&requests), "{requests}");
}

#[test]
fn a_block_of_another_slot_that_shrinks_gives_its_memory_back() {
    let mut heap = heap(1 << 20, config(2));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let mut records = vec![];
        // One slot makes records in large buffers, and another one keeps what they need.
        while let Ok(buffer) = owner.allocate_bytes(4096, 8) {
            // SAFETY: the block is live, with 4,096 bytes; the record is one with 16.
            unsafe {
                buffer.write_bytes(records.len() as u8, 4096);
                match other.reallocate_bytes(buffer, 16, 8) {
                    Ok(record) => records.push(record),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(records.len() > 10_000, "{} records in half a megabyte", records.len());
        for (index, record) in records.into_iter().enumerate() {
            // SAFETY: the record has 16 bytes.
            assert_eq!(unsafe { record.cast::<[u8; 16]>().read() }, [index as u8; 16]);
            free(&mut other, record);
        }
        owner.reclaim(usize::MAX);
        other.reclaim(usize::MAX);
    }
    assert_eq!(fresh, state(&mut heap));
}

std::thread_local! {
    static REPORTS: RefCell<Vec<Misuse>> = const { RefCell::new(Vec::new()) };
}

/// The misuse reported on this thread since the last call.
fn reports() -> Vec<(MisuseKind, usize)> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| set_misuse_hook(Some(|misuse| REPORTS.with_borrow_mut(|reports| reports.push(*misuse)))));
    REPORTS.take().into_iter().map(|misuse| (misuse.kind, misuse.address)).collect()
}

#[test]
fn misuse_by_another_slot_is_found_as_far_as_it_can_be() {
    let mut heap = heap(1 << 14, config(2));
    let fresh = state(&mut heap);
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        let [a, b, c, d] = blocks(&mut owner);
        let at = |block: NonNull<u8>| block.addr().get();
        assert_eq!(reports(), []);
        // Foreign pointers: outside of the region, in the control structure, off the grid.
        let control = heap.control.addr().get();
        for address in
            [16, usize::MAX & !15, control, control + 64, at(a) + size_of::<usize>(), heap.view().plan().arenas + 16]
        {
            free(&mut other, NonNull::new(core::ptr::without_provenance_mut(address)).unwrap());
            assert_eq!(reports(), [(MisuseKind::ForeignPointer, address)]);
        }
        // Twice, one after the other.
        free(&mut other, a);
        free(&mut other, a);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // By the owner in between: the block is not live when the queued free is processed.
        free(&mut owner, a);
        assert_eq!(owner.reclaim(9), 1);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // After the block was taken back.
        free(&mut other, a);
        assert_eq!(reports(), [(MisuseKind::DoubleFree, at(a))]);
        // A link that was overwritten: the queued frees after it are lost, and nothing else.
        free(&mut other, b);
        free(&mut other, c);
        // SAFETY: a deliberate misuse, which the heap detects.
        unsafe { c.cast::<u32>().write(u32::MAX) };
        assert_eq!(owner.reclaim(9), 1);
        assert_eq!(reports(), [(MisuseKind::ContradictoryTags, at(c))]);
        [b, c, d].into_iter().for_each(|block| free(&mut owner, block));
        assert_eq!(reports(), []);
        // SAFETY: a deliberate misuse, which the heap detects.
        let answer = unsafe { other.reallocate_bytes(a, 300, 8) };
        assert_eq!(answer, Err(SharedError::Request(AllocError::Misused)));
        assert_eq!(reports().len(), 1);
    }
    assert_eq!(fresh, state(&mut heap));
}

#[test]
fn configurations_and_regions_are_validated() {
    let refused = |config| Heap::new(&mut [], config).unwrap_err();
    for config in [
        config(0),
        ArenasConfig { reclaim_budget: 0, ..config(1) },
        ArenasConfig { reclaim_budget_on_miss: 0, ..config(1) },
    ] {
        assert!(matches!(refused(config), InitError::Configuration { .. }));
    }
    assert_eq!(refused(config(usize::MAX)), InitError::TooSmall { needed_bytes: usize::MAX });
    for slots in [1, 2, 3, 7, 65] {
        let InitError::TooSmall { needed_bytes } = refused(config(slots)) else { panic!() };
        let memory = vec![MaybeUninit::new(0_u8); needed_bytes + 128].leak();
        for offset in [0, 1, 17, 64, 127] {
            // SAFETY: the heap before is gone, and the memory is never freed.
            let region = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().add(offset), needed_bytes) };
            let mut heap = Heap::new(region, config(slots)).unwrap();
            assert_eq!(heap.slots(), slots);
            heap.check().unwrap();
            assert!((0..slots).all(|slot| heap.largest_allocatable_by(slot) != 0));
        }
    }
}

/// Flips every bit before the arenas, one at a time, while frees are queued. Checking never faults, and finds every
/// overwrite that it must find.
#[test]
fn check_finds_overwrites() {
    let mut heap = heap(1 << 13, config(2));
    {
        let (mut owner, mut other) = (heap.claim(0).unwrap(), heap.claim(1).unwrap());
        blocks::<4>(&mut owner).into_iter().for_each(|block| free(&mut other, block));
        assert_eq!(owner.reclaim(1), 1);
        let block = owner.allocate_bytes(10, 8).unwrap();
        free(&mut other, block);
    }
    heap.check().unwrap();
    let plan = *heap.view().plan();
    let control = heap.control.addr().get();
    // SAFETY: there is a first slot.
    let place = unsafe { heap.view().place(0) }.addr().get();
    let seal = core::mem::offset_of!(Own<Tlsf<'static>>, seal);
    let own = core::mem::offset_of!(Own<Tlsf<'static>>, first)..seal + size_of::<usize>();
    let must_be_found = |address: usize| {
        let of_plan = address.wrapping_sub(control);
        let of_place = address.wrapping_sub(place);
        let is_number =
            [core::mem::offset_of!(Plan, reclaim_budget), core::mem::offset_of!(Plan, reclaim_budget_on_miss)]
                .into_iter()
                .any(|at| (at..at + size_of::<usize>()).contains(&of_plan));
        of_plan < size_of::<Plan>() && !is_number || own.contains(&of_place)
    };
    for address in control..plan.arenas {
        let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
        for bit in 0..8 {
            // SAFETY: the byte is in the heap's region, and its value is restored.
            let answer = unsafe {
                let whole = byte.read();
                byte.write(whole ^ 1 << bit);
                let answer = heap.check();
                byte.write(whole);
                answer
            };
            assert!(answer.is_err() || !must_be_found(address), "bit {bit} of byte {}", address - control);
        }
    }
    heap.check().unwrap();
}

#[test]
fn threads_free_each_others_blocks() {
    const THREADS: usize = 3;
    let mut heap: Arenas<'static> = Arenas::new(vec![MaybeUninit::new(0_u8); 1 << 18].leak(), config(THREADS)).unwrap();
    let mut fresh = vec![];
    heap.fingerprint(&mut |word| fresh.push(word));
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::channel::<usize>()).unzip();
    std::thread::scope(|scope| {
        for (number, receiver) in receivers.into_iter().enumerate() {
            let (heap, senders) = (&heap, senders.clone());
            scope.spawn(move || {
                let mut user = heap.claim_any().unwrap();
                let mut random = 88_172_645_463_325_252 ^ number as u64;
                let free = |user: &mut Claim<'_, 'static, Arenas<'static>>, address: usize| {
                    let block: NonNull<u8> = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
                    // SAFETY: the block is live, and holds its own address.
                    unsafe {
                        assert_eq!(block.cast::<usize>().read(), address);
                        user.deallocate(block);
                    }
                };
                for round in 0..20_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    if let Ok(block) = user.allocate_bytes(8 + (random % 200) as usize, 8) {
                        // SAFETY: the block is as large as its address.
                        unsafe { block.cast::<usize>().write(block.addr().get()) };
                        senders[(random / 256) as usize % THREADS].send(block.as_ptr().expose_provenance()).unwrap();
                    }
                    while let Ok(address) = receiver.try_recv() {
                        free(&mut user, address);
                    }
                    if round % 1000 == 999 {
                        user.reclaim(100);
                    }
                }
                drop(senders);
                receiver.iter().for_each(|address| free(&mut user, address));
            });
        }
        drop(senders);
    });
    heap.check().unwrap();
    for slot in 0..THREADS {
        heap.claim(slot).unwrap().reclaim(usize::MAX);
    }
    let mut now = vec![];
    heap.fingerprint(&mut |word| now.push(word));
    assert_eq!(fresh, now);
}
