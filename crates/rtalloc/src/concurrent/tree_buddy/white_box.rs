//! The paper's figures, its worst case, the effect of each option, and interleavings that break a weaker algorithm.

extern crate std;

use super::shape::{Node, leaves, nodes};
use super::*;
use crate::concurrent::atomics::{Listener, Step, WithListener};
use crate::hook::set_misuse_hook;
use core::cell::{Cell, RefCell};
use std::boxed::Box;
use std::vec::Vec;

/// An operation to run before a step: the number of steps until then, and the operation.
type Interlude = (usize, Box<dyn FnOnce()>);

std::thread_local! {
    static TAKEN: Cell<Steps> = const { Cell::new(Steps { read_modify_writes: 0, loads: 0, stores: 0 }) };
    static INTERLUDE: RefCell<Option<Interlude>> = const { RefCell::new(None) };
    static REPORTS: RefCell<Vec<MisuseKind>> = const { RefCell::new(Vec::new()) };
}

/// Counts this thread's steps, and runs another operation first where a test asks for it.
#[derive(Clone, Copy, Debug, Default)]
struct Scripted;

// SAFETY: a panic fails the test, and the heap is not used after it.
unsafe impl Listener for Scripted {
    fn before(step: Step) {
        let due = INTERLUDE.with_borrow_mut(|interlude| match interlude {
            Some((0, _)) => interlude.take(),
            Some((to_go, _)) => {
                *to_go -= 1;
                None
            }
            None => None,
        });
        if let Some((_, run)) = due {
            let own = TAKEN.get();
            run();
            TAKEN.set(own);
        }
        let mut steps = TAKEN.get();
        match step {
            Step::Load => steps.loads += 1,
            Step::Store => steps.stores += 1,
            Step::Modify(_) | Step::CompareExchange => steps.read_modify_writes += 1,
        }
        TAKEN.set(steps);
    }
}

type Heap<L = OutOfBand, O = Faithful, const NODE: usize = 64> = TreeBuddy<'static, NODE, L, O, WithListener<Scripted>>;

/// A heap of exactly this depth, in memory that is never freed.
fn heap<L: Layout, O: Options, const NODE: usize>(depth: u32) -> &'static mut Heap<L, O, NODE> {
    let aside_bytes = if L::IN_BAND { 0 } else { round_up(5 * nodes(depth), NODE).unwrap() };
    let len_bytes = size_of::<Control<Native>>() + aside_bytes + NODE * nodes(depth);
    let memory = std::vec![MaybeUninit::new(0xA5_u8); len_bytes + NODE + 64].leak();
    let offset = memory.as_ptr().align_offset(NODE.max(64));
    let made = Heap::<L, O, NODE>::new(&mut memory[offset..offset + len_bytes], ()).unwrap();
    assert_eq!(made.tree.depth(), depth);
    Box::leak(Box::new(made))
}

impl<L: Layout, O: Options, const NODE: usize> Heap<L, O, NODE> {
    fn user(&self, number: usize) -> TreeSlot<'_, NODE, L, O, WithListener<Scripted>> {
        // SAFETY: a slot's number is only a hint.
        unsafe { self.slot(number) }
    }

    /// Bytes of the largest request that a block of a height serves.
    fn bytes(height: u32) -> usize {
        nodes(height) * NODE - L::HEADER_BYTES - L::FOOTER_BYTES
    }

    /// Allocates a block of a height.
    fn take_height(&self, height: u32) -> Result<NonNull<u8>, SharedError> {
        self.user(0).allocate_bytes(Self::bytes(height), 1)
    }

    fn free(&self, block: NonNull<u8>) {
        // SAFETY: the block is live, or a test frees it again on purpose.
        unsafe { self.user(0).deallocate(block) }
    }

    /// All leaves, in address order.
    fn take_leaves(&self) -> Vec<NonNull<u8>> {
        (0..leaves(self.tree.depth())).map(|_| self.take_height(1).unwrap()).collect()
    }

    /// The counter of a node as it is in memory.
    fn counter(&self, at: usize) -> isize {
        // SAFETY: every node has a counter.
        let word = unsafe { L::counter(self.tree.control().place, NODE, at).read() };
        Tree::<NODE, L, O, WithListener<Scripted>>::count(word)
    }

    /// The counters of all nodes of a height, from left to right.
    fn level(&self, height: u32) -> Vec<isize> {
        let depth = self.tree.depth();
        let is_here = |&at: &usize| Node::containing(depth, at, height).is_some_and(|node| node.at == at);
        (0..nodes(depth)).filter(is_here).map(|at| self.counter(at)).collect()
    }
}

/// The steps of an operation, and its outcome.
fn steps_of<R>(operation: impl FnOnce() -> R) -> (R, Steps) {
    TAKEN.set(Steps::default());
    let outcome = operation();
    (outcome, TAKEN.get())
}

/// Runs `first`, and `other` before step number `before` of `first`, counted from 0.
fn interleaved<R>(before: usize, other: impl FnOnce() + 'static, first: impl FnOnce() -> R) -> R {
    INTERLUDE.set(Some((before, Box::new(other))));
    let outcome = first();
    assert!(INTERLUDE.take().is_none(), "the first operation ended before its step {before}");
    outcome
}

/// Misuse reported on this thread during an operation.
fn reports_of(operation: impl FnOnce()) -> Vec<MisuseKind> {
    set_misuse_hook(Some(|misuse| REPORTS.with_borrow_mut(|reports| reports.push(misuse.kind))));
    REPORTS.take();
    operation();
    REPORTS.take()
}

fn rmws(count: usize) -> Steps {
    Steps { read_modify_writes: count, ..Steps::default() }
}

#[test]
fn figure_1_the_initial_state() {
    let heap = heap::<OutOfBand, Faithful, 64>(5);
    for height in 1..=5 {
        assert_eq!(heap.level(height), std::vec![leaves(height) as isize; 1 << (5 - height)]);
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn figure_2_six_allocations() {
    let heap = heap::<OutOfBand, Faithful, 64>(5);
    let first: Vec<_> = (0..4).map(|_| heap.take_height(1).unwrap()).collect();
    for height in [3, 1, 1, 2, 3] {
        heap.take_height(height).unwrap();
    }
    [0, 1, 3].iter().for_each(|&index| heap.free(first[index]));
    assert_eq!(heap.level(5), [3]);
    assert_eq!(heap.level(4), [3, 0]);
    assert_eq!(heap.level(3), [3, 0, 0, 0]);
    assert_eq!(heap.level(2)[..2], [2, 1]);
    assert_eq!(heap.level(2)[4..6], [0, 0]);
    assert_eq!(heap.level(1)[..4], [1, 1, 0, 1]);
    assert_eq!(heap.level(1)[8..10], [0, 0]);
    assert_eq!(heap.check(), Ok(()));
    let mut live = 0;
    heap.walk(&mut |block| live += usize::from(!block.free));
    assert_eq!(live, 6);
}

#[test]
fn figure_5_post_order() {
    let heap = heap::<OutOfBand, Faithful, 64>(4);
    let counters: Vec<isize> = (0..15).map(|at| heap.counter(at)).collect();
    assert_eq!(counters, [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]);
}

#[test]
fn figure_7_three_nodes_in_band() {
    let heap = heap::<InBand, Faithful, 64>(4);
    let block = heap.take_height(2).unwrap();
    let header_bytes = 2 * size_of::<usize>();
    // SAFETY: the block is live, and its header and footer are the heap's memory.
    unsafe {
        assert_eq!(heap.user(0).usable_size(block), 3 * 64 - header_bytes - 8);
        let start = block.sub(header_bytes);
        assert_eq!(start.cast::<u8>().as_ptr().addr(), heap.tree.control().place.nodes);
        assert_eq!(start.cast::<u32>().read() & 0x1F, 2, "the height, in the word before the payload");
        block.write_bytes(0xFF, 3 * 64 - header_bytes - 8);
        assert_eq!(start.add(3 * 64 - 4).cast::<u32>().read(), 0, "the counter is the last word");
        assert_eq!(heap.check(), Ok(()));
        let canary = start.add(3 * 64 - 8).cast::<u32>();
        canary.write(!canary.read());
        assert!(heap.check().is_err());
        assert_eq!(reports_of(|| heap.free(block)), [MisuseKind::ContradictoryTags]);
        canary.write(!canary.read());
    }
    assert_eq!(reports_of(|| heap.free(block)), []);
    assert_eq!(heap.check(), Ok(()));
}

/// Every second leaf is free: there is no free subtree of height 2, but every counter says that there is.
fn fragment<L: Layout, O: Options, const NODE: usize>(heap: &Heap<L, O, NODE>) -> Vec<NonNull<u8>> {
    let blocks = heap.take_leaves();
    blocks.iter().skip(1).step_by(2).for_each(|&block| heap.free(block));
    blocks.into_iter().step_by(2).collect()
}

#[test]
fn figure_8_the_worst_case_is_sequential() {
    for depth in 2..=12 {
        let heap = heap::<OutOfBand, Faithful, 64>(depth);
        fragment(heap);
        let (outcome, steps) = steps_of(|| heap.take_height(2));
        assert_eq!(outcome, Err(SharedError::Contended));
        // 2(2^(d-k+1) - 1) of the search, and the count of refusals.
        assert_eq!(steps, rmws(2 * ((1 << (depth - 1)) - 1) + 1), "depth {depth}");
        let size_bytes = Heap::<OutOfBand, Faithful, 64>::bytes(2);
        let most = heap.max_steps(Operation::Allocate { size_bytes, align_bytes: 1 }).unwrap();
        assert_eq!(most, Steps { stores: 1, ..steps });
        assert_eq!(heap.refusals(), Refusals { contended: 1, ..Refusals::default() });
    }
}

#[test]
fn the_published_worst_case_of_64_mib() {
    let heap = heap::<OutOfBand, Faithful, 64>(20);
    let most = heap.max_steps(Operation::Allocate { size_bytes: 65, align_bytes: 1 }).unwrap();
    assert_eq!(most.read_modify_writes, 1_048_574 + 1);
    fragment(heap);
    assert_eq!(steps_of(|| heap.take_height(2)).1.read_modify_writes, 1_048_574 + 1);
}

/// Fig. 9: in either order of the two requests, that of size 1 is served. Interleaved, both fail.
#[test]
fn figure_9_a_failure_that_no_order_explains() {
    let made = || {
        let heap: &Heap = heap(3);
        let blocks = heap.take_leaves();
        [1, 3].iter().for_each(|&index| heap.free(blocks[index]));
        heap
    };
    let heap = made();
    assert_eq!(heap.take_height(2), Err(SharedError::Contended));
    assert!(heap.take_height(1).is_ok());
    let heap = made();
    assert!(heap.take_height(1).is_ok());
    assert_eq!(heap.take_height(2), Err(SharedError::Contended));
    // The request of size 2 has reserved the root; that of size 1 finds nothing there.
    let heap = made();
    let other = move || assert_eq!(heap.take_height(1), Err(SharedError::Contended));
    assert_eq!(interleaved(1, other, || heap.take_height(2)), Err(SharedError::Contended));
    assert_eq!(heap.refusals().contended, 2);
    assert!(heap.take_height(1).is_ok());
}

/// Between the two halves of a decrement that fails, the counter is too small.
#[test]
fn a_window_of_the_decrement_fails_others() {
    let heap: &Heap = heap(3);
    let first = heap.take_height(1).unwrap();
    // A request for the whole tree takes 4 from 3: until it returns them, no search finds the free leaves.
    let other = move || assert_eq!(heap.take_height(1), Err(SharedError::Contended));
    assert_eq!(interleaved(1, other, || heap.take_height(3)), Err(SharedError::Contended));
    heap.free(first);
    assert!(heap.take_height(3).is_ok());
}

/// A block that is freed in a part that the search has already visited is not found.
#[test]
fn a_free_in_a_visited_part_is_missed() {
    let heap: &Heap = heap(3);
    let blocks = heap.take_leaves();
    [1, 3].iter().for_each(|&index| heap.free(blocks[index]));
    // Reserved: the root, the left half; the left pair was found short. Then its other leaf is freed.
    let first = blocks[0];
    let outcome = interleaved(4, move || heap.free(first), || heap.take_height(2));
    assert_eq!(outcome, Err(SharedError::Contended));
    assert!(heap.take_height(2).is_ok());
}

/// Trap 1: a negative counter is not a large one.
#[test]
fn an_underflown_counter_hands_nothing_out() {
    let heap: &Heap = heap(1);
    let only = heap.take_height(1).unwrap();
    let other = move || {
        assert_eq!(heap.counter(0), -1);
        assert_eq!(heap.take_height(1), Err(SharedError::Contended));
    };
    assert_eq!(interleaved(1, other, || heap.take_height(1)), Err(SharedError::Contended));
    heap.free(only);
    assert_eq!(heap.counter(0), 1);
}

/// Trap 5: two concurrent frees of one block. The tags cannot detect it; the counter does.
#[test]
fn racing_frees_of_one_block_are_seen() {
    let heap: &Heap = heap(3);
    let block = heap.take_height(1).unwrap();
    // The first has read the tag.
    let reports = reports_of(|| interleaved(1, move || heap.free(block), || heap.free(block)));
    assert_eq!(reports, [MisuseKind::ContradictoryTags]);
    assert_eq!(heap.tree.check(), Ok(()));
}

#[test]
fn limits_are_one_less_two_to_the_minus_height() {
    for depth in 1..=10 {
        for height in 1..=depth {
            let heap: &Heap = heap(depth);
            let mut used = 0;
            while heap.take_height(height).is_ok() {
                used += nodes(height);
            }
            assert_eq!(used, nodes(height) << (depth - height));
            // (2^k - 1) 2^(d-k) of 2^d: 1 - 2^-k. For single nodes that is half.
            assert_eq!(used << height, nodes(height) << depth);
        }
    }
}

/// A free takes the published steps: 2^k - 2 stores and d - k + 1 read-modify-writes, besides the tag's load and store.
#[test]
fn a_free_takes_its_published_steps() {
    for depth in 1..=8 {
        for height in 1..=depth {
            let on_the_way = (depth - height + 1) as usize;
            let faithful: &Heap = heap(depth);
            let block = faithful.take_height(height).unwrap();
            let steps = steps_of(|| faithful.free(block)).1;
            let stores = (1 << height) - 2 + 1;
            assert_eq!(steps, Steps { read_modify_writes: on_the_way, loads: 1, stores });
            let operation = Operation::Deallocate { size_bytes: nodes(height) * 64, align_bytes: 1 };
            assert_eq!(Some(steps), faithful.max_steps(operation));

            let lazy: &Heap<OutOfBand, Lazy> = heap(depth);
            let block = lazy.take_height(height).unwrap();
            let steps = steps_of(|| lazy.free(block)).1;
            assert_eq!(steps, Steps { read_modify_writes: on_the_way, loads: 1, stores: 1 });
            assert_eq!(Some(steps), lazy.max_steps(operation));

            let lazy: &Heap<InBand, Lazy> = heap(depth);
            let block = lazy.take_height(height).unwrap();
            let steps = steps_of(|| lazy.free(block)).1;
            let loads = 3 + usize::from(height > 1);
            assert_eq!(steps, Steps { read_modify_writes: on_the_way, loads, stores: 1 });
            let size_bytes = Heap::<InBand, Lazy>::bytes(height);
            assert_eq!(Some(steps), lazy.max_steps(Operation::Deallocate { size_bytes, align_bytes: 1 }));
        }
    }
}

#[test]
fn reading_first_writes_the_way_alone() {
    let heap: &Heap<OutOfBand, ReadsFirst> = heap(6);
    let live = fragment(heap);
    let (left, right) = (live[14], live[15]);
    heap.free(left);
    // The 7 pairs before it were read, and their ancestors; d - k + 1 counters were written.
    let (found, steps) = steps_of(|| heap.take_height(2));
    assert_eq!(found, Ok(left));
    assert_eq!(steps.read_modify_writes, 6 - 2 + 1);
    assert!(steps.loads > 15);
    // Nothing is free: one search by loads, and one confirmation.
    heap.take_leaves_left();
    let (refused, steps) = steps_of(|| heap.take_height(1));
    assert_eq!(refused, Err(SharedError::Contended));
    assert_eq!(steps, Steps { read_modify_writes: 2, loads: 1, stores: 0 });
    heap.free(right);
    assert_eq!(heap.take_height(1), Ok(right));
}

impl<L: Layout, O: Options, const NODE: usize> Heap<L, O, NODE> {
    /// Takes leaves until there is none.
    fn take_leaves_left(&self) {
        while self.take_height(1).is_ok() {}
    }
}

/// A subtree found by loads may be gone when it is written: then the tree is searched like the paper does.
#[test]
fn a_subtree_found_by_loads_may_be_gone() {
    let heap: &Heap<OutOfBand, ReadsFirst> = heap(4);
    // The leftmost leaf is found by 4 loads, and taken by another operation.
    let other = move || assert!(heap.take_height(1).is_ok());
    let taken = interleaved(4, other, || heap.take_height(1)).unwrap();
    assert_eq!(taken.addr().get(), heap.tree.begin(1));
    // All but one leaf: the root still has enough, the path does not.
    heap.take_leaves_left();
    heap.free(taken);
    let other = move || assert_eq!(heap.take_height(1), Ok(taken));
    assert_eq!(interleaved(4, other, || heap.take_height(1)), Err(SharedError::Contended));
}

/// In band, a search opens each node it passes, once; a search that arrives meanwhile passes by.
#[test]
fn a_lazy_tree_is_opened_once() {
    let heap: &Heap<InBand, Lazy> = heap(4);
    let whole = heap.take_height(4).unwrap();
    // SAFETY: the block is live, and its usable size is not exceeded.
    unsafe { whole.write_bytes(0xEE, heap.user(0).usable_size(whole)) };
    heap.free(whole);
    // Root, pair of pairs, pair: each reserved and opened by one more RMW and two stores; the leaf: tag and canary.
    let (_, steps) = steps_of(|| heap.take_height(1).unwrap());
    assert_eq!(steps, Steps { read_modify_writes: 4 + 3, loads: 0, stores: 2 * 3 + 2 });
    // The leaf beside it: the first one was tried and failed.
    let (_, steps) = steps_of(|| heap.take_height(1).unwrap());
    assert_eq!(steps, Steps { read_modify_writes: 4 + 2, loads: 0, stores: 2 });
}

#[test]
fn a_closed_tree_is_passed_by() {
    let heap: &Heap<InBand, Lazy> = heap(3);
    // The first search has reserved one leaf of the root and not yet initialised its children.
    let other = move || assert_eq!(heap.take_height(1), Err(SharedError::Contended));
    assert!(interleaved(1, other, || heap.take_height(1)).is_ok());
    assert!(heap.take_height(1).is_ok());
    assert_eq!(heap.tree.check(), Ok(()));
}

#[test]
fn slots_go_different_ways() {
    let heap: &Heap<OutOfBand, Rotated> = heap(4);
    // Bit 0 of the slot's number decides at the root, bit 1 below it, bit 2 below that.
    let firsts = [0, 8, 4, 12, 2, 10, 6, 14].map(|way| Node::root(4).towards(way).towards(way).towards(way).at);
    for (slot, at) in firsts.into_iter().enumerate() {
        let block = heap.user(slot).allocate_bytes(64, 1).unwrap();
        assert_eq!(block.addr().get(), heap.tree.begin(at), "slot {slot}");
    }
    let steps = steps_of(|| assert!(heap.user(3).allocate_bytes(64, 1).is_err())).1;
    assert_eq!(steps, rmws(3));
}

#[test]
fn watched_refusals_are_distinguished() {
    let heap: &Heap<OutOfBand, Watched> = heap(3);
    let blocks = heap.take_leaves();
    let (refused, steps) = steps_of(|| heap.take_height(1));
    assert_eq!(refused, Err(SharedError::Exhausted));
    assert_eq!(steps, rmws(2 + 2 + 1));
    let last = blocks[3];
    // Another operation frees a block and completes before the search ends.
    let outcome = interleaved(2, move || heap.free(last), || heap.take_height(1));
    assert_eq!(outcome, Err(SharedError::Contended));
    assert_eq!(heap.take_height(1), Ok(last));
    // A search fails while a free is under way.
    let other = move || assert_eq!(heap.take_height(1), Err(SharedError::Contended));
    interleaved(3, other, || heap.free(last));
    assert_eq!(heap.refusals(), Refusals { exhausted: 1, contended: 2, ..Refusals::default() });
}

/// Trap 6: a left child grows into its parent if its sibling is free; a right child moves.
#[test]
fn left_children_grow() {
    let heap: &Heap = heap(4);
    let (left, right) = (heap.take_height(1).unwrap(), heap.take_height(1).unwrap());
    // SAFETY: the blocks are live.
    unsafe {
        let moved = heap.user(0).reallocate_bytes(right, 192, 1).unwrap();
        assert_ne!(moved, right);
        let (grown, steps) = steps_of(|| heap.user(0).reallocate_bytes(left, 192, 1));
        assert_eq!(grown, Ok(left));
        // The counters of the root, of the left half, of the pair.
        assert_eq!(steps.read_modify_writes, 3);
        // The sibling is allocated: the root and the left half have enough, and get it back.
        let (other, steps) = steps_of(|| heap.user(0).reallocate_bytes(left, 448, 1));
        assert_ne!(other, Ok(left));
        assert!(steps.read_modify_writes > 4);
        heap.free(moved);
        let whole = other.unwrap();
        assert_eq!(heap.user(0).usable_size(whole), 448);
        let kept = heap.user(0).reallocate_bytes(whole, 1, 1).unwrap();
        assert_eq!((kept, heap.user(0).usable_size(kept)), (whole, 64));
        assert_eq!(heap.level(3), [4, 3]);
    }
}

#[test]
fn the_depth_is_the_largest_that_fits() {
    let memory = std::vec![MaybeUninit::new(0_u8); 1 << 16].leak();
    let offset = memory.as_ptr().align_offset(64);
    for len_bytes in (200..1 << 14).step_by(37) {
        let Ok(heap) =
            TreeBuddy::<'_, 64, OutOfBand, Faithful, Native>::new(&mut memory[offset..offset + len_bytes], ())
        else {
            continue;
        };
        let depth = heap.tree.depth();
        let needed_bytes = |depth: u32| 64 + round_up(5 * nodes(depth), 64).unwrap() + 64 * nodes(depth);
        assert!(needed_bytes(depth) <= len_bytes && len_bytes < needed_bytes(depth + 1), "{len_bytes} bytes");
    }
    assert_eq!(heap::<OutOfBand, Faithful, 64>(9).max_users(), i32::MAX as usize >> 8);
}

/// Every bit of the control structure, of every counter and of every tag is flipped: the check finds it.
#[test]
fn every_flipped_bit_is_found() {
    let heap: &mut Heap<OutOfBand, Watched, 16> = heap(5);
    let blocks: Vec<_> = [1, 3, 2, 1].map(|height| heap.take_height(height).unwrap()).into();
    heap.user(0).allocate_bytes(20, 64).unwrap();
    heap.free(blocks[2]);
    assert_eq!(heap.check(), Ok(()));
    let place = heap.tree.control().place;
    let written_once = heap.tree.control.addr().get()..heap.tree.control().depth_address() + size_of::<usize>();
    let aside = place.counters..place.counters + 5 * place.count;
    for address in written_once.chain(aside) {
        let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(address);
        for bit in 0..8 {
            // SAFETY: the byte is in the heap's region, and is restored.
            let answer = unsafe {
                let whole = byte.read();
                byte.write(whole ^ 1 << bit);
                let answer = heap.check();
                byte.write(whole);
                answer
            };
            assert!(answer.is_err(), "bit {bit} of byte {address:#x}");
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

impl<A: Atomics> Control<A> {
    fn depth_address(&self) -> usize {
        core::ptr::from_ref(&self.depth).addr()
    }
}
