//! A heap, the users who share it, and the books kept beside it: who owns which granule, what was refused, what is in
//! the hands of nobody.

use crate::pattern::Pattern;
use crate::subject::{Heap, HeapSlot, Table};
use crate::watch;
use rtalloc::contract::{Operation, Refusals, SharedError, Steps};
use std::alloc::{Layout, alloc};
use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Ownership is watched by so many bytes.
const GRANULE_BYTES: usize = 8;
/// Regions begin at a multiple of this, so that what depends on addresses is the same in every run.
const ALIGN_BYTES: usize = 1 << 16;
/// What fresh memory holds.
const FRESH: u8 = 0xA5;
/// Bytes behind the region that nobody may touch.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xC3;

/// A block that somebody has.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Where it is.
    pub pointer: NonNull<u8>,
    /// What was asked.
    pub size_bytes: usize,
    /// At a multiple of what.
    pub align_bytes: usize,
    /// What may be used.
    pub usable_bytes: usize,
    /// What is written in it.
    pub pattern: u64,
}

// SAFETY: whoever has the value has the block.
unsafe impl Send for Live {}

/// Numbers that look random, the same in every run.
#[derive(Clone, Copy, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Who owns each granule of a region: 0 for nobody.
pub struct Books {
    start: usize,
    owners: Box<[AtomicU32]>,
}

impl Books {
    /// Books for a region in which nobody owns anything.
    pub fn new(start: usize, len_bytes: usize) -> Self {
        Books { start, owners: (0..len_bytes.div_ceil(GRANULE_BYTES)).map(|_| AtomicU32::new(0)).collect() }
    }

    fn granules(&self, pointer: NonNull<u8>, len_bytes: usize) -> &[AtomicU32] {
        let offset = pointer.addr().get().wrapping_sub(self.start);
        let granules = offset / GRANULE_BYTES..(offset.saturating_add(len_bytes)).div_ceil(GRANULE_BYTES);
        self.owners.get(granules).unwrap_or_else(|| panic!("{pointer:?} and {len_bytes} bytes are outside the region"))
    }

    /// `user` has a block now, and nobody else any of its granules.
    pub fn own(&self, pointer: NonNull<u8>, len_bytes: usize, user: usize) {
        for owner in self.granules(pointer, len_bytes) {
            let other = owner.swap(user as u32 + 1, Ordering::Relaxed);
            assert!(other == 0, "{pointer:?}, given to user {user}, is user {}'s", other.wrapping_sub(1));
        }
    }

    /// The block goes back.
    pub fn disown(&self, pointer: NonNull<u8>, len_bytes: usize) {
        for owner in self.granules(pointer, len_bytes) {
            assert!(owner.swap(0, Ordering::Relaxed) != 0, "{pointer:?} is freed, and was nobody's");
        }
    }
}

/// A heap and what is known about it.
pub struct World {
    /// The heap.
    pub heap: Heap,
    /// Who owns what.
    pub books: Books,
    /// Blocks on their way from one user to another.
    pub parcels: Mutex<Vec<Live>>,
    refused: Mutex<Refusals>,
    memory: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: a heap is shared by its contract, and the pointer is only used while nobody else uses the world.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

thread_local! {
    /// Memory for a region of each length. A user whom nobody lets go on for ever keeps pointers into it: it is not given back.
    static MEMORY: RefCell<HashMap<usize, NonNull<u8>>> = RefCell::default();
}

/// Memory for a region, with a guard behind it: the same whenever this thread asks, so that it has one world of a length at a
/// time.
pub fn memory(len_bytes: usize) -> NonNull<u8> {
    let fresh = || {
        let layout = Layout::from_size_align(len_bytes + GUARD_BYTES, ALIGN_BYTES).expect("a small layout");
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc(layout) }).expect("memory for a heap")
    };
    MEMORY.with_borrow_mut(|memory| *memory.entry(len_bytes).or_insert_with(fresh))
}

impl World {
    /// A fresh heap in a region of this thread.
    pub fn new(table: &'static Table, len_bytes: usize, users: usize) -> Arc<Self> {
        let memory = memory(len_bytes);
        // SAFETY: the memory is this long, and the worlds before this one are gone, or stand still for ever.
        unsafe { Self::at(table, memory, len_bytes, users) }
    }

    /// A fresh heap in this memory.
    ///
    /// # Safety
    ///
    /// The memory is `len_bytes` long and a guard's length more; nobody uses it as long as the world is there.
    pub unsafe fn at(table: &'static Table, memory: NonNull<u8>, len_bytes: usize, users: usize) -> Arc<Self> {
        // SAFETY: the caller's promise.
        let region: &'static mut [MaybeUninit<u8>] = unsafe {
            memory.write_bytes(FRESH, len_bytes);
            memory.add(len_bytes).write_bytes(GUARD, GUARD_BYTES);
            std::slice::from_raw_parts_mut(memory.as_ptr().cast(), len_bytes)
        };
        let heap = watch::undisturbed(|| Heap::new(table, region, users)).expect("a region that is large enough");
        let books = Books::new(memory.addr().get(), len_bytes);
        Arc::new(World { heap, books, parcels: Mutex::default(), refused: Mutex::default(), memory, len_bytes })
    }

    /// The bytes of the heap.
    ///
    /// # Safety
    ///
    /// Nobody is at work.
    #[cfg(target_pointer_width = "64")]
    pub unsafe fn image(&self) -> Vec<u8> {
        // SAFETY: the memory is initialised, and nobody writes it.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len_bytes) }.to_vec()
    }

    /// Takes the heap back to what it was when the image was made.
    ///
    /// # Safety
    ///
    /// Nobody is at work.
    #[cfg(target_pointer_width = "64")]
    pub unsafe fn restore(&self, image: &[u8]) {
        // SAFETY: both are `len_bytes` long and apart; nobody else uses the memory.
        unsafe { self.memory.copy_from_nonoverlapping(NonNull::from(image).cast(), self.len_bytes) }
    }

    /// Refusals that no [`User`] was told.
    pub fn tell(&self, refusals: Refusals) {
        let mut refused = self.refused.lock().expect("nobody panicked");
        refused.request += refusals.request;
        refused.exhausted += refusals.exhausted;
        refused.contended += refusals.contended;
        refused.pending += refusals.pending;
    }

    /// What a fresh heap of this kind can hold: its largest request, and for each user the number of blocks of a size.
    pub fn capacity(self: Arc<Self>, users: usize, size_bytes: usize) -> (usize, usize) {
        watch::undisturbed(|| {
            let world = Arc::new(Arc::into_inner(self).expect("nobody else is there"));
            // SAFETY: nobody is at work.
            let largest_bytes = unsafe { world.heap.largest_allocatable() };
            let mut blocks = 0;
            for number in 0..users {
                let mut user = User::new(&world, number, 0);
                while user.allocate(size_bytes, 1).is_ok() {
                    blocks += 1;
                }
            }
            (largest_bytes, blocks)
        })
    }

    /// All users are gone: what they left is freed, and the heap is sound, and has the capacity it had when it was fresh.
    pub fn close(self: Arc<Self>, users: usize, size_bytes: usize, capacity: (usize, usize)) {
        watch::undisturbed(|| {
            let left = std::mem::take(&mut *self.parcels.lock().unwrap_or_else(PoisonError::into_inner));
            let mut first = User::new(&self, 0, 0);
            left.into_iter().for_each(|live| first.free(live));
            drop(first);
            for number in 0..users {
                let mut user = User::new(&self, number, 0);
                while user.reclaim(usize::MAX) != 0 {}
            }
            let world = Arc::into_inner(self).expect("the users are gone");
            // SAFETY: nobody is at work.
            unsafe { world.heap.check() }.unwrap_or_else(|corruption| panic!("{corruption:?}"));
            assert_eq!(
                world.heap.refusals(),
                *world.refused.lock().expect("nobody panicked"),
                "refusals, counted and told"
            );
            assert!(
                world.books.owners.iter().all(|owner| owner.load(Ordering::Relaxed) == 0),
                "somebody owns a granule"
            );
            // SAFETY: the guard is initialised and part of the memory.
            let guard = unsafe { std::slice::from_raw_parts(world.memory.add(world.len_bytes).as_ptr(), GUARD_BYTES) };
            assert!(guard.iter().all(|&byte| byte == GUARD), "a byte behind the region was written");
            assert_eq!(Arc::new(world).capacity(users, size_bytes), capacity, "what a fresh heap holds, and this one");
        });
    }
}

/// A user of a heap: a slot, what it has, and what it knows.
pub struct User {
    world: Arc<World>,
    /// The slot.
    pub number: usize,
    /// Its blocks.
    pub mine: Vec<Live>,
    /// What it decides by.
    pub random: Random,
    refused: Refusals,
}

impl User {
    /// Takes a slot.
    pub fn new(world: &Arc<World>, number: usize, seed: u64) -> Self {
        assert!(world.heap.take(number), "slot {number} is somebody's");
        let random = Random(seed ^ (number as u64) << 32);
        User { world: world.clone(), number, mine: Vec::new(), random, refused: Refusals::default() }
    }

    fn slot(&self) -> HeapSlot {
        // SAFETY: `new` took the slot, and operations of a user follow each other.
        unsafe { self.world.heap.slot(self.number) }
    }

    fn most(&self, operation: Operation) -> Option<Steps> {
        watch::undisturbed(|| self.world.heap.most_steps(operation))
    }

    fn refuse(&mut self, error: SharedError) {
        match error {
            SharedError::Request(_) => self.refused.request += 1,
            SharedError::Exhausted => self.refused.exhausted += 1,
            SharedError::Contended => self.refused.contended += 1,
            SharedError::Pending => self.refused.pending += 1,
        }
    }

    fn receive(&mut self, pointer: NonNull<u8>, size_bytes: usize, align_bytes: usize) -> Live {
        // SAFETY: the block is live.
        let usable_bytes = watch::undisturbed(|| unsafe { self.slot().usable_size(pointer) });
        assert!(usable_bytes >= size_bytes, "{usable_bytes} usable bytes of {size_bytes} asked for");
        assert!(pointer.addr().get().is_multiple_of(align_bytes), "{pointer:?} for an alignment of {align_bytes}");
        self.world.books.own(pointer, usable_bytes, self.number);
        let live = Live { pointer, size_bytes, align_bytes, usable_bytes, pattern: self.random.next() };
        // SAFETY: the block is this user's.
        unsafe { Pattern(live.pattern).write(pointer, usable_bytes) };
        live
    }

    /// Fails unless a block holds what was written to it.
    pub fn verify(&self, live: Live) {
        // SAFETY: the block is this user's.
        let is_kept = unsafe { Pattern(live.pattern).is_at(live.pointer, live.usable_bytes) };
        assert!(is_kept, "the content of {live:x?} changed");
    }

    /// Allocates a block, which the caller keeps.
    pub fn allocate(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Live, SharedError> {
        let most = self.most(Operation::Allocate { size_bytes, align_bytes });
        let answer = watch::measured(most, || self.slot().allocate_bytes(size_bytes, align_bytes));
        match answer {
            Ok(pointer) => Ok(self.receive(pointer, size_bytes, align_bytes)),
            Err(error) => {
                self.refuse(error);
                Err(error)
            }
        }
    }

    /// Frees a block, whoever allocated it.
    pub fn free(&mut self, live: Live) {
        self.verify(live);
        self.world.books.disown(live.pointer, live.usable_bytes);
        let Live { size_bytes, align_bytes, .. } = live;
        let most = self.most(Operation::Deallocate { size_bytes, align_bytes });
        // SAFETY: the block is live, and this was its last use.
        watch::measured(most, || unsafe { self.slot().deallocate(live.pointer) });
    }

    /// Takes back what others freed.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        let most = self.most(Operation::Reclaim { budget });
        watch::measured(most, || self.slot().reclaim(budget))
    }

    /// Resizes a block, or leaves it as it is.
    pub fn resize(&mut self, live: Live, size_bytes: usize) -> Live {
        self.verify(live);
        let Live { align_bytes, .. } = live;
        let most = self.most(Operation::Reallocate { old_bytes: live.size_bytes, size_bytes, align_bytes });
        // What stays the block's content until the answer is known is this user's; what is not, is nobody's.
        self.world.books.disown(live.pointer, live.usable_bytes);
        let answer = watch::measured(most, || {
            // SAFETY: the block is this user's.
            unsafe { self.slot().reallocate_bytes(live.pointer, size_bytes, align_bytes) }
        });
        match answer {
            Ok(pointer) => {
                // SAFETY: the block is live. The content survives up to the smaller of the two sizes.
                let is_kept = unsafe { Pattern(live.pattern).is_at(pointer, live.size_bytes.min(size_bytes) & !7) };
                assert!(is_kept, "the content of {live:x?} was not moved");
                self.receive(pointer, size_bytes, align_bytes)
            }
            Err(error) => {
                self.refuse(error);
                self.world.books.own(live.pointer, live.usable_bytes, self.number);
                self.verify(live);
                live
            }
        }
    }

    /// One of its blocks, no longer its.
    fn any(&mut self) -> Option<Live> {
        (!self.mine.is_empty()).then(|| {
            let index = self.random.below(self.mine.len());
            self.mine.swap_remove(index)
        })
    }

    /// Something.
    pub fn act(&mut self, sizes: &[usize]) {
        let size_bytes = sizes[self.random.below(sizes.len())];
        match self.random.below(12) {
            0..=4 => {
                let align_bytes = if self.random.below(4) == 0 { 32 } else { 1 };
                let answer = self.allocate(size_bytes, align_bytes);
                self.mine.extend(answer.ok());
            }
            5..=6 => {
                if let Some(live) = self.any() {
                    self.free(live);
                }
            }
            7..=8 => {
                if let Some(live) = self.any() {
                    self.world.parcels.lock().expect("nobody panicked").push(live);
                }
            }
            9 => {
                let parcel = self.world.parcels.lock().expect("nobody panicked").pop();
                if let Some(live) = parcel {
                    self.free(live);
                }
            }
            10 => {
                if let Some(live) = self.any() {
                    let live = self.resize(live, size_bytes);
                    self.mine.push(live);
                }
            }
            _ => {
                let budget = self.random.below(4);
                assert!(self.reclaim(budget) <= budget, "more was taken back than asked for");
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.world.parcels.lock().expect("nobody panicked").append(&mut self.mine);
        self.world.tell(self.refused);
        // SAFETY: `new` took the slot, and it is not used any more.
        unsafe { self.world.heap.release(self.number) }
    }
}
