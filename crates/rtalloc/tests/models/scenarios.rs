//! What a few threads do, for any shared heap. Each scenario is one execution; the scene checks who owns which memory.

use crate::scene;
use rtalloc::contract::{MisuseKind, Operation, Refusals, SharedAllocator, SharedError, Slot};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// A heap and the sizes that the scenarios request.
pub trait Fixture: 'static {
    /// The heap.
    type Heap: SharedAllocator<'static> + 'static;
    /// Length of its region.
    const REGION_BYTES: usize;
    /// The usual request.
    const SIZE_BYTES: usize;
    /// The larger request, in scenarios with two sizes.
    const LARGE_BYTES: usize;
    /// Whether only the owner of a word's memory stores to it.
    const STORES_ARE_ORDERED: bool = false;
    /// The heap's configuration.
    fn config() -> <Self::Heap as SharedAllocator<'static>>::Config;
}

/// A heap in its scene.
pub struct TestHeap<H> {
    heap: Arc<H>,
    refused: Arc<Mutex<Refusals>>,
    fresh: Vec<(usize, usize, bool)>,
    fresh_largest: usize,
}

/// A block with an owner.
#[derive(Clone, Copy)]
pub struct Owned {
    pointer: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: the value is the only handle to the block, so sending it sends the block.
unsafe impl Send for Owned {}

/// The heap, used through slot `number`.
pub struct User<H> {
    heap: Arc<H>,
    refused: Arc<Mutex<Refusals>>,
    number: usize,
}

impl<H: SharedAllocator<'static> + 'static> TestHeap<H> {
    /// A fresh heap, not shared yet.
    pub fn new(config: H::Config) -> Self {
        let mut heap = H::new(scene::region(), config).expect("a region that is large enough");
        let fresh = blocks(&mut heap);
        let fresh_largest = heap.largest_allocatable();
        TestHeap { heap: Arc::new(heap), refused: Arc::default(), fresh, fresh_largest }
    }

    /// Ignores what was refused before the threads start.
    fn forget_refusals(&self) {
        *self.refused.lock().expect("no thread panicked") = self.heap.refusals();
    }

    /// A user of slot `number`.
    pub fn user(&self, number: usize) -> User<H> {
        User { heap: self.heap.clone(), refused: self.refused.clone(), number }
    }

    /// A thread that uses the heap as a slot.
    pub fn thread<R: 'static>(
        &self,
        number: usize,
        run: impl FnOnce(User<H>) -> R + 'static,
    ) -> loom::thread::JoinHandle<R> {
        let user = self.user(number);
        loom::thread::spawn(move || run(user))
    }

    /// All threads are done: the heap passes its check, and once the blocks they left are freed, it is as good as new.
    pub fn close(mut self, left: impl IntoIterator<Item = Owned>) {
        if scene::is_void() {
            return;
        }
        scene::gather();
        let heap = Arc::get_mut(&mut self.heap).expect("the threads are gone");
        heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
        let mut user = self.user(0);
        for block in left {
            user.free(block);
        }
        drop(user);
        if H::CONTRACT.slots_are_exclusive {
            for number in 0..self.heap.slots() {
                while self.user(number).reclaim(usize::MAX) != 0 {}
            }
        }
        let mut heap = Arc::into_inner(self.heap).expect("the threads are gone");
        heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
        assert_eq!(
            heap.refusals(),
            *self.refused.lock().expect("no thread panicked"),
            "refusals, as the heap counted them and as its users did"
        );
        assert_eq!(heap.largest_allocatable(), self.fresh_largest, "free memory was lost");
        assert_eq!(blocks(&mut heap), self.fresh, "an empty heap has the blocks of a fresh one");
    }
}

/// Addresses and sizes of all blocks, and whether they are free.
fn blocks<H: SharedAllocator<'static>>(heap: &mut H) -> Vec<(usize, usize, bool)> {
    let mut blocks = Vec::new();
    heap.walk(&mut |block| blocks.push((block.address, block.size_bytes, block.free)));
    blocks
}

impl<H: SharedAllocator<'static> + 'static> User<H> {
    /// Allocates within the promised steps.
    pub fn allocate(&mut self, size_bytes: usize) -> Result<Owned, SharedError> {
        let most = self.heap.max_steps(Operation::Allocate { size_bytes, align_bytes: 1 });
        // SAFETY: one thread at a time uses each number in these scenarios, or numbers are hints.
        let mut slot = unsafe { self.heap.slot(self.number) };
        let answer = scene::measured(most, || slot.allocate_bytes(size_bytes, 1));
        let pointer = answer.inspect_err(|&error| self.note(error))?;
        scene::own(pointer, size_bytes);
        Ok(Owned { pointer, size_bytes })
    }

    /// Notes a refusal.
    fn note(&self, error: SharedError) {
        let mut refused = self.refused.lock().expect("no thread panicked");
        match error {
            SharedError::Request(_) => refused.request += 1,
            SharedError::Exhausted => refused.exhausted += 1,
            SharedError::Contended => refused.contended += 1,
            SharedError::Pending => refused.pending += 1,
        }
    }

    /// Frees within the promised steps.
    pub fn free(&mut self, block: Owned) {
        scene::disown(block.pointer, block.size_bytes);
        self.deallocate(block);
    }

    /// The same for a block that this user does not own.
    fn deallocate(&mut self, block: Owned) {
        let most = self.heap.max_steps(Operation::Deallocate { size_bytes: block.size_bytes, align_bytes: 1 });
        // SAFETY: the slot as in `allocate`; the block is live and no longer used, or the heap reports misuse.
        scene::measured(most, || unsafe { self.heap.slot(self.number).deallocate(block.pointer) });
    }

    /// Resizes a block within the promised steps, or leaves it unchanged.
    pub fn resize(&mut self, block: Owned, size_bytes: usize) -> Owned {
        let old_bytes = block.size_bytes;
        let most = self.heap.max_steps(Operation::Reallocate { old_bytes, size_bytes, align_bytes: 1 });
        scene::disown(block.pointer, old_bytes);
        // SAFETY: the slot as in `allocate`; the block is live.
        let answer = scene::measured(most, || unsafe {
            self.heap.slot(self.number).reallocate_bytes(block.pointer, size_bytes, 1)
        });
        let resized = match answer {
            Ok(pointer) => Owned { pointer, size_bytes },
            Err(error) => {
                self.note(error);
                block
            }
        };
        scene::own(resized.pointer, resized.size_bytes);
        resized
    }

    /// Reclaims blocks that other threads freed.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        let most = self.heap.max_steps(Operation::Reclaim { budget });
        // SAFETY: the slot as in `allocate`.
        scene::measured(most, || unsafe { self.heap.slot(self.number).reclaim(budget) })
    }
}

/// Two threads each allocate a block and free it.
pub fn each_its_own<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
    });
    let mut user = test.user(0);
    if let Ok(block) = user.allocate(C::SIZE_BYTES) {
        user.free(block);
    }
    drop(user);
    other.join().expect("the thread ends");
    test.close([]);
}

/// One thread allocates a large block and frees it, another a small one.
pub fn large_and_small<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::LARGE_BYTES) {
            user.free(block);
        }
    });
    let mut user = test.user(0);
    if let Ok(block) = user.allocate(C::SIZE_BYTES) {
        user.free(block);
    }
    drop(user);
    other.join().expect("the thread ends");
    test.close([]);
}

/// As [`large_and_small`], where the thread with the small block has another one.
pub fn large_and_second<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let first = user.allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    let other = test.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::LARGE_BYTES) {
            user.free(block);
        }
    });
    if let Ok(block) = user.allocate(C::SIZE_BYTES) {
        user.free(block);
    }
    user.free(first);
    drop(user);
    other.join().expect("the thread ends");
    test.close([]);
}

/// One block is left in the heap when three threads begin: one frees another block, two allocate.
pub fn one_frees<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let block = user.allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    let others = [1, 2].map(|number| test.thread(number, |mut user| user.allocate(C::SIZE_BYTES).ok()));
    user.free(block);
    drop(user);
    let left = others.map(|other| other.join().expect("the thread ends"));
    test.close(left.into_iter().flatten());
}

/// A block is free at every moment: where exhaustion is certain, no request may report it.
pub fn one_is_left<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let mut all: Vec<Owned> = std::iter::from_fn(|| user.allocate(C::SIZE_BYTES).ok()).collect();
    user.free(all.pop().expect("a fresh heap has room"));
    let first = all.remove(0);
    let other = test.thread(1, |mut user| user.allocate(C::SIZE_BYTES));
    // Frees a distant block before taking the free one, at which a slot other than the first begins its search.
    user.free(first);
    drop(user);
    let mine = test.user(2).allocate(C::SIZE_BYTES);
    let yours = other.join().expect("the thread ends");
    for answer in [&mine, &yours] {
        let is_reported = matches!(answer, Err(SharedError::Exhausted));
        assert!(
            scene::is_void() || !is_reported || !C::Heap::CONTRACT.exhaustion_is_certain,
            "reported exhaustion while a block was free all the time"
        );
    }
    test.close(all.into_iter().chain([mine, yours].into_iter().flatten()));
}

/// A small block comes and goes, then the whole heap, then a small block, while another thread allocates a small one.
pub fn small_and_whole<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |mut user| user.allocate(C::SIZE_BYTES).ok());
    let mut user = test.user(0);
    for size_bytes in [C::SIZE_BYTES, test.fresh_largest, C::SIZE_BYTES] {
        if let Ok(block) = user.allocate(size_bytes) {
            user.free(block);
        }
    }
    drop(user);
    let left = other.join().expect("the thread ends");
    test.close(left);
}

/// A thread frees a block and wants the whole heap, while another allocates a small block and frees it.
pub fn whole_after_small<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let block = user.allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    let other = test.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
    });
    user.free(block);
    let whole = user.allocate(test.fresh_largest).ok();
    drop(user);
    other.join().expect("the thread ends");
    test.close(whole);
}

/// A thread frees a large block and the one in its remainder, and allocates a large block again: the remainder is as
/// before. Meanwhile another thread searches that remainder while nothing is free there, and finds a small block
/// elsewhere.
pub fn left_again<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let large = user.allocate(C::LARGE_BYTES).expect("a fresh heap has room");
    let left = user.allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    drop(user);
    let other = test.thread(0, move |mut user| {
        user.free(left);
        user.free(large);
        user.allocate(C::LARGE_BYTES).ok()
    });
    let small = test.user(1).allocate(C::SIZE_BYTES).ok();
    let large = other.join().expect("the thread ends");
    test.close([small, large].into_iter().flatten());
}

/// A thread frees the last of `COUNT` blocks, while another allocates one more.
pub fn last_is_freed<C: Fixture, const COUNT: usize>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let mut all = [(); COUNT].map(|()| Some(user.allocate(C::SIZE_BYTES).expect("a fresh heap has room")));
    let last = all[COUNT - 1].take().expect("it was allocated");
    let other = test.thread(1, move |mut user| user.free(last));
    let more = user.allocate(C::SIZE_BYTES).ok();
    drop(user);
    other.join().expect("the thread ends");
    test.close(all.into_iter().chain([more]).flatten());
}

/// A thread frees the block after one that another thread grows.
pub fn grows<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let [block, next] = [(); 2].map(|()| user.allocate(C::SIZE_BYTES).expect("a fresh heap has room"));
    let other = test.thread(1, move |mut user| user.free(next));
    let block = user.resize(block, C::LARGE_BYTES);
    drop(user);
    other.join().expect("the thread ends");
    test.close([block]);
}

thread_local! {
    /// Double frees that the heap reported; loom's threads all run on one thread of the operating system.
    static DOUBLE_FREES: Cell<usize> = const { Cell::new(0) };
}

/// Two threads free the same block, and no thread allocates: the heap reports one of them.
pub fn two_free<C: Fixture>() {
    rtalloc::hook::set_misuse_hook(Some(|misuse| {
        DOUBLE_FREES.set(DOUBLE_FREES.get() + usize::from(misuse.kind == MisuseKind::DoubleFree));
    }));
    DOUBLE_FREES.set(0);
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let block = user.allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    scene::disown(block.pointer, block.size_bytes);
    let other = test.thread(1, move |mut user| user.deallocate(block));
    user.deallocate(block);
    drop(user);
    other.join().expect("the thread ends");
    assert!(scene::is_void() || DOUBLE_FREES.get() == 1, "{} of two frees were reported", DOUBLE_FREES.get());
    test.close([]);
}

/// The whole heap comes and goes, then a small block comes, while another thread allocates a small one.
pub fn small_after_whole<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |mut user| user.allocate(C::SIZE_BYTES).ok());
    let mut user = test.user(0);
    if let Ok(block) = user.allocate(test.fresh_largest) {
        user.free(block);
    }
    let mine = user.allocate(C::SIZE_BYTES).ok();
    drop(user);
    let yours = other.join().expect("the thread ends");
    test.close([mine, yours].into_iter().flatten());
}

/// Every other block of a full heap is free: one thread requests a larger block, another frees the rest and takes the
/// whole heap.
pub fn search_in_vain<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut user = test.user(0);
    let all: Vec<Owned> = std::iter::from_fn(|| user.allocate(C::SIZE_BYTES).ok()).collect();
    let (odd, even): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(index, _)| index % 2 == 1);
    odd.into_iter().for_each(|(_, block)| user.free(block));
    let other = test.thread(1, |mut user| user.allocate(C::LARGE_BYTES).ok());
    even.into_iter().for_each(|(_, block)| user.free(block));
    if let Ok(block) = user.allocate(test.fresh_largest) {
        user.free(block);
    }
    drop(user);
    let left = other.join().expect("the thread ends");
    test.close(left);
}

/// Two threads request more than any heap has.
pub fn both_are_refused<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |mut user| user.allocate(usize::MAX / 2).map(|_| ()));
    let mine = test.user(0).allocate(usize::MAX / 2).map(|_| ());
    let yours = other.join().expect("the thread ends");
    assert!(mine.is_err() && yours.is_err(), "a request that no heap has memory for");
    test.close([]);
}

/// Two threads free blocks of a third, which reclaims them and allocates meanwhile.
pub fn others_free<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut owner = test.user(0);
    let [first, second, third] = [(); 3].map(|()| owner.allocate(C::SIZE_BYTES).expect("a fresh heap has room"));
    let one = test.thread(1, move |mut user| {
        user.free(first);
        user.free(second);
    });
    let other = test.thread(2, move |mut user| user.free(third));
    let mut left = Vec::new();
    left.extend(owner.allocate(C::SIZE_BYTES).ok());
    owner.reclaim(1);
    left.extend(owner.allocate(C::SIZE_BYTES).ok());
    drop(owner);
    one.join().expect("the thread ends");
    other.join().expect("the thread ends");
    test.close(left);
}

/// A thread frees two blocks of another, which reclaims them and allocates meanwhile.
pub fn one_frees_twice<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let mut owner = test.user(0);
    let [first, second] = [(); 2].map(|()| owner.allocate(C::SIZE_BYTES).expect("a fresh heap has room"));
    let other = test.thread(1, move |mut user| {
        user.free(first);
        user.free(second);
    });
    owner.reclaim(2);
    let again = owner.allocate(C::SIZE_BYTES).ok();
    drop(owner);
    other.join().expect("the thread ends");
    test.close(again);
}

/// A thread releases its slot; another may adopt it, with the blocks freed to it meanwhile.
pub fn slot_is_adopted<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    assert!(test.heap.take(1), "the slot is free");
    scene::share();
    let block = test.user(1).allocate(C::SIZE_BYTES).expect("a fresh heap has room");
    let leaves = test.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
        // SAFETY: this thread owns slot 1, taken above, and no longer uses it.
        unsafe { user.heap.release(1) };
    });
    let adopts = test.thread(1, |mut user| {
        if !user.heap.take(1) {
            return None;
        }
        user.reclaim(1);
        let block = user.allocate(C::SIZE_BYTES).ok();
        // SAFETY: this thread owns slot 1, taken above, and no longer uses it.
        unsafe { user.heap.release(1) };
        block
    });
    test.user(0).free(block);
    leaves.join().expect("the thread ends");
    let left = adopts.join().expect("the thread ends");
    test.close(left);
}

/// Two threads want the same slot: one gets it.
pub fn slot_is_taken_once<C: Fixture>() {
    let test = TestHeap::<C::Heap>::new(C::config());
    scene::share();
    let other = test.thread(1, |user| user.heap.take(1));
    let is_mine = test.user(1).heap.take(1);
    let is_yours = other.join().expect("the thread ends");
    assert!(is_mine != is_yours, "a slot has one user");
    // SAFETY: one of the threads took the slot, and neither uses it.
    unsafe { test.heap.release(1) };
    test.close([]);
}

/// The heap is full. Another thread frees a block, then sets a flag: a thread that sees the flag is not refused for
/// exhaustion.
pub fn freed_is_known<C: Fixture>() {
    freed_is_known_by::<C>(Ordering::Release, Ordering::Acquire);
}

/// The same with a flag that orders nothing, as a clock would: the last look at what waits reads the latest value.
pub fn freed_is_known_at_once<C: Fixture>() {
    freed_is_known_by::<C>(Ordering::Relaxed, Ordering::Relaxed);
}

fn freed_is_known_by<C: Fixture>(set: Ordering, see: Ordering) {
    let test = TestHeap::<C::Heap>::new(C::config());
    let mut owner = test.user(0);
    let mut all: Vec<Owned> = std::iter::from_fn(|| owner.allocate(C::SIZE_BYTES).ok()).collect();
    test.forget_refusals();
    scene::share();
    all.iter().for_each(|block| scene::own(block.pointer, block.size_bytes));
    let freed = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let block = all.pop().expect("a fresh heap has room");
    let other = test.thread(1, {
        let freed = freed.clone();
        move |mut user| {
            user.free(block);
            freed.store(true, set);
        }
    });
    let is_seen = freed.load(see);
    let answer = owner.allocate(C::SIZE_BYTES);
    if is_seen && !scene::is_void() {
        assert!(!matches!(answer, Err(SharedError::Exhausted)), "reported exhaustion after a block was freed");
    }
    drop(owner);
    other.join().expect("the thread ends");
    test.close(all.into_iter().chain(answer));
}
