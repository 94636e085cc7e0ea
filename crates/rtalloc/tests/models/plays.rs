//! What a few threads do to any shared heap. Each play is one execution; the scene tells who may own what.

use crate::scene;
use rtalloc::contract::{Operation, Refusals, SharedAllocator, SharedError, Slot};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Who plays: a heap, and what is asked of it.
pub trait Cast: 'static {
    /// The heap.
    type Heap: SharedAllocator<'static> + 'static;
    /// Length of its region.
    const REGION_BYTES: usize;
    /// What is asked for.
    const SIZE_BYTES: usize;
    /// What is asked for where blocks of two sizes meet.
    const LARGE_BYTES: usize;
    /// Whether only the owner of a word's memory stores to it.
    const STORES_ARE_ORDERED: bool = false;
    /// How it is made.
    fn config() -> <Self::Heap as SharedAllocator<'static>>::Config;
}

/// A heap in its scene.
pub struct Set<H> {
    heap: Arc<H>,
    refused: Arc<Mutex<Refusals>>,
    fresh: Vec<(usize, usize, bool)>,
    fresh_largest: usize,
}

/// A block that somebody has.
#[derive(Clone, Copy)]
pub struct Owned {
    pointer: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: whoever has the value has the block.
unsafe impl Send for Owned {}

/// The heap as slot `number` has it.
pub struct User<H> {
    heap: Arc<H>,
    refused: Arc<Mutex<Refusals>>,
    number: usize,
}

impl<H: SharedAllocator<'static> + 'static> Set<H> {
    /// A fresh heap, not shared yet.
    pub fn new(config: H::Config) -> Self {
        let mut heap = H::new(scene::region(), config).expect("a region that is large enough");
        let fresh = blocks(&mut heap);
        let fresh_largest = heap.largest_allocatable();
        Set { heap: Arc::new(heap), refused: Arc::default(), fresh, fresh_largest }
    }

    /// What was refused before the play does not count.
    fn forget_refusals(&self) {
        *self.refused.lock().expect("nobody panicked") = self.heap.refusals();
    }

    /// The heap in the hands of a slot.
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

    /// All threads are gone: the heap is sound; and when what they left is freed, it is as good as new.
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
        assert_eq!(heap.refusals(), *self.refused.lock().expect("nobody panicked"), "refusals, as counted and as told");
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
        let most = self.heap.most_steps(Operation::Allocate { size_bytes, align_bytes: 1 });
        // SAFETY: each number is one thread's at a time in these plays, or numbers are hints.
        let mut slot = unsafe { self.heap.slot(self.number) };
        let answer = scene::measured(most, || slot.allocate_bytes(size_bytes, 1));
        let pointer = answer.inspect_err(|&error| self.note(error))?;
        scene::own(pointer, size_bytes);
        Ok(Owned { pointer, size_bytes })
    }

    /// Notes a refusal.
    fn note(&self, error: SharedError) {
        let mut refused = self.refused.lock().expect("nobody panicked");
        match error {
            SharedError::Request(_) => refused.request += 1,
            SharedError::Exhausted => refused.exhausted += 1,
            SharedError::Contended => refused.contended += 1,
            SharedError::Pending => refused.pending += 1,
        }
    }

    /// Frees within the promised steps.
    pub fn free(&mut self, block: Owned) {
        let most = self.heap.most_steps(Operation::Deallocate { size_bytes: block.size_bytes, align_bytes: 1 });
        scene::disown(block.pointer, block.size_bytes);
        // SAFETY: as above; the block is live, and this was its last use.
        scene::measured(most, || unsafe { self.heap.slot(self.number).deallocate(block.pointer) });
    }

    /// Resizes a block within the promised steps, or leaves it as it is.
    pub fn resize(&mut self, block: Owned, size_bytes: usize) -> Owned {
        let old_bytes = block.size_bytes;
        let most = self.heap.most_steps(Operation::Reallocate { old_bytes, size_bytes, align_bytes: 1 });
        scene::disown(block.pointer, old_bytes);
        // SAFETY: as above; the block is live.
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

    /// Takes back what others freed.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        let most = self.heap.most_steps(Operation::Reclaim { budget });
        // SAFETY: as above.
        scene::measured(most, || unsafe { self.heap.slot(self.number).reclaim(budget) })
    }
}

/// Two threads allocate and free what they got.
pub fn each_its_own<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let other = set.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
    });
    let mut user = set.user(0);
    if let Ok(block) = user.allocate(C::SIZE_BYTES) {
        user.free(block);
    }
    drop(user);
    other.join().expect("a thread that ends");
    set.close([]);
}

/// One thread allocates a large block and frees it, another a small one.
pub fn large_and_small<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let other = set.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::LARGE_BYTES) {
            user.free(block);
        }
    });
    let mut user = set.user(0);
    if let Ok(block) = user.allocate(C::SIZE_BYTES) {
        user.free(block);
    }
    drop(user);
    other.join().expect("a thread that ends");
    set.close([]);
}

/// One block is left in the heap when three threads begin: one frees another block, two allocate.
pub fn one_frees<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let block = user.allocate(C::SIZE_BYTES).expect("a fresh heap serves");
    let others = [1, 2].map(|number| set.thread(number, |mut user| user.allocate(C::SIZE_BYTES).ok()));
    user.free(block);
    drop(user);
    let left = others.map(|other| other.join().expect("a thread that ends"));
    set.close(left.into_iter().flatten());
}

/// There is a free block at every moment: where exhaustion is certain, nobody may be told of it.
pub fn one_is_left<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let mut all: Vec<Owned> = std::iter::from_fn(|| user.allocate(C::SIZE_BYTES).ok()).collect();
    user.free(all.pop().expect("a fresh heap serves"));
    let first = all.remove(0);
    let other = set.thread(1, |mut user| user.allocate(C::SIZE_BYTES));
    // A block far away is freed before the free one is taken, which another slot than the first begins with.
    user.free(first);
    drop(user);
    let mine = set.user(2).allocate(C::SIZE_BYTES);
    let yours = other.join().expect("a thread that ends");
    for answer in [&mine, &yours] {
        let is_told = matches!(answer, Err(SharedError::Exhausted));
        assert!(
            scene::is_void() || !is_told || !C::Heap::CONTRACT.exhaustion_is_certain,
            "exhausted, while a block was free all the time"
        );
    }
    set.close(all.into_iter().chain([mine, yours].into_iter().flatten()));
}

/// A small block comes and goes, then the whole heap, then a small block, while another thread allocates a small one.
pub fn small_and_whole<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let other = set.thread(1, |mut user| user.allocate(C::SIZE_BYTES).ok());
    let mut user = set.user(0);
    for size_bytes in [C::SIZE_BYTES, set.fresh_largest, C::SIZE_BYTES] {
        if let Ok(block) = user.allocate(size_bytes) {
            user.free(block);
        }
    }
    drop(user);
    let left = other.join().expect("a thread that ends");
    set.close(left);
}

/// A thread frees a block and wants the whole heap, while another allocates a small block and frees it.
pub fn whole_after_small<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let block = user.allocate(C::SIZE_BYTES).expect("a fresh heap serves");
    let other = set.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
    });
    user.free(block);
    let whole = user.allocate(set.fresh_largest).ok();
    drop(user);
    other.join().expect("a thread that ends");
    set.close(whole);
}

/// A large block and what was left of its memory are freed, and a large block is allocated again: what is left is as before. In
/// the meantime, when nothing is left, somebody looks there in vain, and finds a small block elsewhere.
pub fn left_again<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let large = user.allocate(C::LARGE_BYTES).expect("a fresh heap serves");
    let left = user.allocate(C::SIZE_BYTES).expect("a fresh heap serves");
    drop(user);
    let other = set.thread(0, move |mut user| {
        user.free(left);
        user.free(large);
        user.allocate(C::LARGE_BYTES).ok()
    });
    let small = set.user(1).allocate(C::SIZE_BYTES).ok();
    let large = other.join().expect("a thread that ends");
    set.close([small, large].into_iter().flatten());
}

/// A thread frees the last of `COUNT` blocks, while another allocates one more.
pub fn last_is_freed<C: Cast, const COUNT: usize>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let mut all = [(); COUNT].map(|()| Some(user.allocate(C::SIZE_BYTES).expect("a fresh heap serves")));
    let last = all[COUNT - 1].take().expect("it was allocated");
    let other = set.thread(1, move |mut user| user.free(last));
    let more = user.allocate(C::SIZE_BYTES).ok();
    drop(user);
    other.join().expect("a thread that ends");
    set.close(all.into_iter().chain([more]).flatten());
}

/// A thread frees the block behind one that another makes larger.
pub fn grows<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let [block, next] = [(); 2].map(|()| user.allocate(C::SIZE_BYTES).expect("a fresh heap serves"));
    let other = set.thread(1, move |mut user| user.free(next));
    let block = user.resize(block, C::LARGE_BYTES);
    drop(user);
    other.join().expect("a thread that ends");
    set.close([block]);
}

/// The whole heap comes and goes, then a small block comes, while another thread allocates a small one.
pub fn small_after_whole<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let other = set.thread(1, |mut user| user.allocate(C::SIZE_BYTES).ok());
    let mut user = set.user(0);
    if let Ok(block) = user.allocate(set.fresh_largest) {
        user.free(block);
    }
    let mine = user.allocate(C::SIZE_BYTES).ok();
    drop(user);
    let yours = other.join().expect("a thread that ends");
    set.close([mine, yours].into_iter().flatten());
}

/// Every other block of a full heap is free: a thread seeks a larger one, another frees the rest and takes it all.
pub fn search_in_vain<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut user = set.user(0);
    let all: Vec<Owned> = std::iter::from_fn(|| user.allocate(C::SIZE_BYTES).ok()).collect();
    let (odd, even): (Vec<_>, Vec<_>) = all.into_iter().enumerate().partition(|(index, _)| index % 2 == 1);
    odd.into_iter().for_each(|(_, block)| user.free(block));
    let other = set.thread(1, |mut user| user.allocate(C::LARGE_BYTES).ok());
    even.into_iter().for_each(|(_, block)| user.free(block));
    if let Ok(block) = user.allocate(set.fresh_largest) {
        user.free(block);
    }
    drop(user);
    let left = other.join().expect("a thread that ends");
    set.close(left);
}

/// Two threads ask for what no heap has.
pub fn both_are_refused<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let other = set.thread(1, |mut user| user.allocate(usize::MAX / 2).map(|_| ()));
    let mine = set.user(0).allocate(usize::MAX / 2).map(|_| ());
    let yours = other.join().expect("a thread that ends");
    assert!(mine.is_err() && yours.is_err(), "a request that no heap has memory for");
    set.close([]);
}

/// Two threads free blocks of a third, which takes them back and allocates meanwhile.
pub fn others_free<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut owner = set.user(0);
    let [first, second, third] = [(); 3].map(|()| owner.allocate(C::SIZE_BYTES).expect("a fresh heap serves"));
    let one = set.thread(1, move |mut user| {
        user.free(first);
        user.free(second);
    });
    let other = set.thread(2, move |mut user| user.free(third));
    let mut left = Vec::new();
    left.extend(owner.allocate(C::SIZE_BYTES).ok());
    owner.reclaim(1);
    left.extend(owner.allocate(C::SIZE_BYTES).ok());
    drop(owner);
    one.join().expect("a thread that ends");
    other.join().expect("a thread that ends");
    set.close(left);
}

/// A thread frees two blocks of another, one after the other, which takes them back and allocates meanwhile.
pub fn one_frees_twice<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    scene::share();
    let mut owner = set.user(0);
    let [first, second] = [(); 2].map(|()| owner.allocate(C::SIZE_BYTES).expect("a fresh heap serves"));
    let other = set.thread(1, move |mut user| {
        user.free(first);
        user.free(second);
    });
    owner.reclaim(2);
    let again = owner.allocate(C::SIZE_BYTES).ok();
    drop(owner);
    other.join().expect("a thread that ends");
    set.close(again);
}

/// A thread gives its slot back; another may adopt it, with what was freed to it meanwhile.
pub fn slot_is_adopted<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    assert!(set.heap.take(1), "nobody has the slot");
    scene::share();
    let block = set.user(1).allocate(C::SIZE_BYTES).expect("a fresh heap serves");
    let leaves = set.thread(1, |mut user| {
        if let Ok(block) = user.allocate(C::SIZE_BYTES) {
            user.free(block);
        }
        // SAFETY: taken above, and not used any more.
        unsafe { user.heap.release(1) };
    });
    let adopts = set.thread(1, |mut user| {
        if !user.heap.take(1) {
            return None;
        }
        user.reclaim(1);
        let block = user.allocate(C::SIZE_BYTES).ok();
        // SAFETY: taken just now, and not used any more.
        unsafe { user.heap.release(1) };
        block
    });
    set.user(0).free(block);
    leaves.join().expect("a thread that ends");
    let left = adopts.join().expect("a thread that ends");
    set.close(left);
}

/// A heap is full; another thread frees a block, and says so. Who hears it is not told that memory is exhausted.
pub fn freed_is_known<C: Cast>() {
    let set = Set::<C::Heap>::new(C::config());
    let mut owner = set.user(0);
    let mut all: Vec<Owned> = std::iter::from_fn(|| owner.allocate(C::SIZE_BYTES).ok()).collect();
    set.forget_refusals();
    scene::share();
    all.iter().for_each(|block| scene::own(block.pointer, block.size_bytes));
    let said = Arc::new(loom::sync::atomic::AtomicBool::new(false));
    let block = all.pop().expect("a fresh heap serves");
    let other = set.thread(1, {
        let said = said.clone();
        move |mut user| {
            user.free(block);
            said.store(true, Ordering::Release);
        }
    });
    let has_heard = said.load(Ordering::Acquire);
    let answer = owner.allocate(C::SIZE_BYTES);
    if has_heard && !scene::is_void() {
        assert!(!matches!(answer, Err(SharedError::Exhausted)), "exhausted, after a block was freed");
    }
    drop(owner);
    other.join().expect("a thread that ends");
    set.close(all.into_iter().chain(answer));
}
