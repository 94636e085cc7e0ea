//! A heap, the users that share it, and a record of the owner of each granule, of refusals, and of blocks in transit.

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

/// Ownership is recorded per granule of this many bytes.
const GRANULE_BYTES: usize = 8;
/// Regions begin at a multiple of this, so that what depends on addresses is the same in every run.
const ALIGN_BYTES: usize = 1 << 16;
/// What fresh memory holds.
const FRESH: u8 = 0xA5;
/// Bytes after the region, which must not change.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xC3;

/// A block with an owner.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Where it is.
    pub pointer: NonNull<u8>,
    /// Requested bytes.
    pub size_bytes: usize,
    /// Requested alignment.
    pub align_bytes: usize,
    /// Usable bytes.
    pub usable_bytes: usize,
    /// The pattern written in it.
    pub pattern: u64,
}

// SAFETY: the value is the only handle to the block, so sending it sends the block.
unsafe impl Send for Live {}

/// Pseudo-random numbers, the same in every run.
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

/// The owner of each granule of a region; 0 for none.
pub struct Books {
    start: usize,
    owners: Box<[AtomicU32]>,
}

impl Books {
    /// A record for a region without owners.
    pub fn new(start: usize, len_bytes: usize) -> Self {
        Books { start, owners: (0..len_bytes.div_ceil(GRANULE_BYTES)).map(|_| AtomicU32::new(0)).collect() }
    }

    fn granules(&self, pointer: NonNull<u8>, len_bytes: usize) -> &[AtomicU32] {
        let offset = pointer.addr().get().wrapping_sub(self.start);
        let granules = offset / GRANULE_BYTES..(offset.saturating_add(len_bytes)).div_ceil(GRANULE_BYTES);
        self.owners.get(granules).unwrap_or_else(|| panic!("{pointer:?} and {len_bytes} bytes are outside the region"))
    }

    /// Records `user` as the owner of a block; fails if a granule of it has an owner.
    pub fn own(&self, pointer: NonNull<u8>, len_bytes: usize, user: usize) {
        for owner in self.granules(pointer, len_bytes) {
            let other = owner.swap(user as u32 + 1, Ordering::Relaxed);
            assert!(other == 0, "{pointer:?}, allocated by user {user}, belongs to user {}", other.wrapping_sub(1));
        }
    }

    /// Records that the block has no owner.
    pub fn disown(&self, pointer: NonNull<u8>, len_bytes: usize) {
        for owner in self.granules(pointer, len_bytes) {
            assert!(owner.swap(0, Ordering::Relaxed) != 0, "{pointer:?} is freed, but had no owner");
        }
    }
}

/// A heap and the record of it.
pub struct World {
    /// The heap.
    pub heap: Heap,
    /// The owners.
    pub books: Books,
    /// Blocks in transit from one user to another.
    pub parcels: Mutex<Vec<Live>>,
    refused: Mutex<Refusals>,
    memory: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: the heap is shared by its contract, and the pointer is only used while the world has no other user.
unsafe impl Send for World {}
// SAFETY: the heap is shared by its contract, and the pointer is only used while the world has no other user.
unsafe impl Sync for World {}

thread_local! {
    /// Memory for a region of each length. It is never freed, because a user that was stopped for good keeps pointers
    /// into it.
    static MEMORY: RefCell<HashMap<usize, NonNull<u8>>> = RefCell::default();
}

/// Memory for a region, with a guard after it. A thread always gets the same, so it has one world of each length at a
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
        // SAFETY: the memory is this long; users of earlier worlds have finished or are stopped for good.
        unsafe { Self::at(table, memory, len_bytes, users) }
    }

    /// A fresh heap in this memory.
    ///
    /// # Safety
    ///
    /// The memory is `len_bytes` and a guard long, and has no other user while the world exists.
    pub unsafe fn at(table: &'static Table, memory: NonNull<u8>, len_bytes: usize, users: usize) -> Arc<Self> {
        // SAFETY: the memory is long enough and has no other user, as the caller guarantees.
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
    /// No operation is running.
    #[cfg(target_pointer_width = "64")]
    pub unsafe fn image(&self) -> Vec<u8> {
        // SAFETY: the memory is initialised, and no operation writes it.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len_bytes) }.to_vec()
    }

    /// Restores the heap from an image.
    ///
    /// # Safety
    ///
    /// No operation is running.
    #[cfg(target_pointer_width = "64")]
    pub unsafe fn restore(&self, image: &[u8]) {
        // SAFETY: both are `len_bytes` long and do not overlap; no operation uses the memory.
        unsafe { self.memory.copy_from_nonoverlapping(NonNull::from(image).cast(), self.len_bytes) }
    }

    /// Adds refusals that no [`User`] counted.
    pub fn add_refusals(&self, refusals: Refusals) {
        let mut refused = self.refused.lock().expect("no thread panicked");
        refused.request += refusals.request;
        refused.exhausted += refusals.exhausted;
        refused.contended += refusals.contended;
        refused.pending += refusals.pending;
    }

    /// The capacity of a fresh heap: its largest request, and how many blocks of a size its users can have.
    pub fn capacity(self: Arc<Self>, users: usize, size_bytes: usize) -> (usize, usize) {
        watch::undisturbed(|| {
            let world = Arc::new(Arc::into_inner(self).expect("no other user"));
            // SAFETY: no operation is running.
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

    /// Closes a world whose users are gone: frees what they left. The heap must pass its check and have the capacity of
    /// a fresh one.
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
            // SAFETY: no operation is running.
            unsafe { world.heap.check() }.unwrap_or_else(|corruption| panic!("{corruption:?}"));
            assert_eq!(
                world.heap.refusals(),
                *world.refused.lock().expect("no thread panicked"),
                "refusals, as the heap and its users counted them"
            );
            assert!(
                world.books.owners.iter().all(|owner| owner.load(Ordering::Relaxed) == 0),
                "a granule still has an owner"
            );
            // SAFETY: the guard is initialised and part of the memory.
            let guard = unsafe { std::slice::from_raw_parts(world.memory.add(world.len_bytes).as_ptr(), GUARD_BYTES) };
            assert!(guard.iter().all(|&byte| byte == GUARD), "a byte after the region was written");
            assert_eq!(
                Arc::new(world).capacity(users, size_bytes),
                capacity,
                "capacity of this heap, and of a fresh one"
            );
        });
    }
}

/// A user of a heap: a slot, its blocks and its refusals.
pub struct User {
    world: Arc<World>,
    /// The slot.
    pub number: usize,
    /// Its blocks.
    pub mine: Vec<Live>,
    /// Decides what it does.
    pub random: Random,
    refused: Refusals,
}

impl User {
    /// Takes a slot.
    pub fn new(world: &Arc<World>, number: usize, seed: u64) -> Self {
        assert!(world.heap.take(number), "slot {number} is taken");
        let random = Random(seed ^ (number as u64) << 32);
        User { world: world.clone(), number, mine: Vec::new(), random, refused: Refusals::default() }
    }

    fn slot(&self) -> HeapSlot {
        // SAFETY: `new` took the slot, and operations of a user follow each other.
        unsafe { self.world.heap.slot(self.number) }
    }

    fn most(&self, operation: Operation) -> Option<Steps> {
        watch::undisturbed(|| self.world.heap.max_steps(operation))
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
        assert!(usable_bytes >= size_bytes, "{usable_bytes} usable bytes for a request of {size_bytes}");
        assert!(pointer.addr().get().is_multiple_of(align_bytes), "{pointer:?} for an alignment of {align_bytes}");
        self.world.books.own(pointer, usable_bytes, self.number);
        let live = Live { pointer, size_bytes, align_bytes, usable_bytes, pattern: self.random.next() };
        // SAFETY: this user owns the block.
        unsafe { Pattern(live.pattern).write(pointer, usable_bytes) };
        live
    }

    /// Fails unless a block holds what was written to it.
    pub fn verify(&self, live: Live) {
        // SAFETY: this user owns the block.
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

    /// Frees a block of any user.
    pub fn free(&mut self, live: Live) {
        self.verify(live);
        self.world.books.disown(live.pointer, live.usable_bytes);
        let Live { size_bytes, align_bytes, .. } = live;
        let most = self.most(Operation::Deallocate { size_bytes, align_bytes });
        // SAFETY: the block is live, and this was its last use.
        watch::measured(most, || unsafe { self.slot().deallocate(live.pointer) });
    }

    /// Reclaims blocks that other users freed.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        let most = self.most(Operation::Reclaim { budget });
        watch::measured(most, || self.slot().reclaim(budget))
    }

    /// Resizes a block, or leaves it unchanged.
    pub fn resize(&mut self, live: Live, size_bytes: usize) -> Live {
        self.verify(live);
        let Live { align_bytes, .. } = live;
        let most = self.most(Operation::Reallocate { old_bytes: live.size_bytes, size_bytes, align_bytes });
        // During the operation, the record shows no owner.
        self.world.books.disown(live.pointer, live.usable_bytes);
        let answer = watch::measured(most, || {
            // SAFETY: this user owns the block.
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

    /// Removes a random one of its blocks.
    fn any(&mut self) -> Option<Live> {
        (!self.mine.is_empty()).then(|| {
            let index = self.random.below(self.mine.len());
            self.mine.swap_remove(index)
        })
    }

    /// Performs a random operation.
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
                    self.world.parcels.lock().expect("no thread panicked").push(live);
                }
            }
            9 => {
                let parcel = self.world.parcels.lock().expect("no thread panicked").pop();
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
                assert!(self.reclaim(budget) <= budget, "reclaimed more than the budget");
            }
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.world.parcels.lock().expect("no thread panicked").append(&mut self.mine);
        self.world.add_refusals(self.refused);
        // SAFETY: `new` took the slot, and the user no longer uses it.
        unsafe { self.world.heap.release(self.number) }
    }
}
