//! The concurrent Compact-fit, whose users have handles: schedules, a user that stops at each of its steps, and
//! signals, while objects are moved, pinned and freed.
//!
//! Every byte of an object has the same value, derived from its handle. A user that pins it finds no other, however
//! often it moved.

use crate::schedules::{self, ACTS, DEPTH, SCHEDULES};
use crate::stalls::{self, ORDERS};
use crate::watch::{self, Watched};
use crate::world::{self, Random};
use rtalloc::compact_fit::Geometric;
use rtalloc::concurrent::compact_fit::{CompactFitSlot, Guard, Operation, PinError};
use rtalloc::contract::{Handle, HandleError, Refusals, SharedError};
use rtalloc::{SharedCompactFit, SharedCompactFitConfig};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Pages of 1 KiB.
type Ladder = Geometric<1024, 32, 8>;
/// Moves of 16 bytes: moving an object takes many operations.
type Heap = SharedCompactFit<'static, 16, Ladder, Watched>;
type Hand<'w> = CompactFitSlot<'w, 'static, 16, Ladder, Watched>;

/// Bytes of most objects, eight on a page; and of others.
const BYTES: usize = 100;
const SIZES: [usize; 4] = [BYTES, BYTES, 28, 300];
/// Pages of each slot, and how many are full when users begin.
const PAGES: usize = 6;
const FULL: usize = 3;
/// Objects that a slot may have.
const OBJECTS: usize = 48;

thread_local! {
    /// Moves in progress when a user pinned the object.
    static ENDED: Cell<usize> = const { Cell::new(0) };
}

/// The byte that fills an object.
fn content(handle: Handle) -> u8 {
    handle.to_bits().get() as u8 ^ 0x5A
}

/// A heap and the objects that its users share.
struct World {
    heap: Heap,
    /// Objects that every user may read. A user that removes one may free it.
    board: Mutex<Vec<Handle>>,
    refused: Mutex<Refusals>,
}

impl World {
    /// A fresh heap in a region of this thread.
    fn new(users: usize) -> Self {
        let len_bytes = Heap::region_bytes(users, OBJECTS, PAGES);
        let memory = world::memory(len_bytes);
        // SAFETY: the memory is this long; users of earlier worlds have finished or are stopped for good.
        let region = unsafe {
            memory.write_bytes(0xA5, len_bytes);
            std::slice::from_raw_parts_mut(memory.as_ptr(), len_bytes)
        };
        let config = SharedCompactFitConfig { slots: users, objects: OBJECTS, ..SharedCompactFitConfig::default() };
        let heap = watch::undisturbed(|| Heap::new(region, config)).expect("a region that is long enough");
        World { heap, board: Mutex::default(), refused: Mutex::default() }
    }

    /// The same, with full pages of every user on the board: once two of them have lost an object, others move.
    fn furnished(users: usize) -> Arc<Self> {
        let world = World::new(users);
        watch::undisturbed(|| {
            for number in 0..users {
                let mut user = User::new(&world, number, 0);
                (0..FULL * 8).for_each(|_| assert!(user.allocate(BYTES).is_ok(), "there is room"));
            }
        });
        Arc::new(world)
    }

    /// How many objects of a whole page a fresh heap of `users` holds.
    fn capacity(users: usize) -> usize {
        watch::undisturbed(|| World::new(users).room(users))
    }

    fn room(&self, users: usize) -> usize {
        let room = |number| {
            let mut hand = self.heap.claim(number).expect("the slot is free");
            (0..).take_while(|_| hand.allocate(Heap::LARGEST_BYTES).is_ok()).count()
        };
        (0..users).map(room).sum()
    }

    /// All users are gone: the objects they left are intact, and once they are freed the heap has its initial capacity.
    fn close(mut self, users: usize, capacity: usize) {
        watch::undisturbed(|| {
            assert_eq!(
                self.heap.refusals(),
                *self.refused.lock().expect("no thread panicked"),
                "refusals, as the heap and its users counted them"
            );
            self.heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
            let mut first = User::new(&self, 0, 0);
            let left = std::mem::take(&mut *self.board.lock().expect("no thread panicked"));
            for handle in left {
                assert!(first.visit(handle), "{handle:?} is live");
                first.free(handle);
            }
            drop(first);
            for number in 0..users {
                let mut hand = self.heap.claim(number).expect("the slot is free again");
                while hand.reclaim(usize::MAX) != 0 {}
                while hand.compact(1 << 12) != 0 {}
                assert!(!hand.has_pending_compaction(), "slot {number}: nothing is pinned, but compaction is pending");
            }
            self.heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
            assert_eq!(self.room(users), capacity, "capacity of this heap, and of a fresh one");
        });
    }
}

/// A user: a slot, objects of its own, and at most one that it keeps pinned.
struct User<'w> {
    world: &'w World,
    hand: ManuallyDrop<Hand<'w>>,
    mine: Vec<Handle>,
    pinned: Option<ManuallyDrop<Guard<'w, Watched>>>,
    random: Random,
    refused: Refusals,
}

impl<'w> User<'w> {
    fn new(world: &'w World, number: usize, seed: u64) -> Self {
        let hand = ManuallyDrop::new(world.heap.claim(number).expect("the slot is free"));
        let random = Random(seed ^ (number as u64) << 32);
        User { world, hand, mine: Vec::new(), pinned: None, random, refused: Refusals::default() }
    }

    fn pin(&self, handle: Handle) -> Result<Guard<'w, Watched>, PinError> {
        let heap = &self.world.heap;
        let (answer, changes) = watch::measured(Some(heap.max_steps(Operation::Pin)), || {
            (heap.pin(handle), watch::ledger().taken.read_modify_writes)
        });
        // The second RMW ended a move.
        ENDED.set(ENDED.get() + usize::from(answer.is_ok() && changes > 1));
        answer
    }

    fn unpin(&self, guard: Guard<'w, Watched>) {
        watch::measured(Some(self.world.heap.max_steps(Operation::Unpin)), || drop(guard));
    }

    /// Verifies and unpins the object kept pinned.
    fn let_go(&mut self) {
        if let Some(guard) = self.pinned.take() {
            let guard = ManuallyDrop::into_inner(guard);
            let mut bytes = vec![0; guard.size_bytes()];
            guard.read(0, &mut bytes).expect("inside");
            assert!(bytes.iter().all(|&byte| byte == bytes[0]), "a pinned object changed: {bytes:?}");
            self.unpin(guard);
        }
    }

    fn allocate(&mut self, size_bytes: usize) -> Result<Handle, SharedError> {
        let most = self.world.heap.max_steps(Operation::Allocate);
        let answer = watch::measured(Some(most), || self.hand.allocate(size_bytes));
        match answer {
            Ok(handle) => {
                let guard = self.pin(handle).expect("live, and this user's own");
                assert_eq!(guard.size_bytes(), size_bytes);
                guard.write(0, &vec![content(handle); size_bytes]).expect("inside");
                self.unpin(guard);
                self.mine.push(handle);
            }
            Err(SharedError::Request(_)) => self.refused.request += 1,
            Err(SharedError::Exhausted) => self.refused.exhausted += 1,
            Err(SharedError::Contended) => self.refused.contended += 1,
            Err(SharedError::Pending) => self.refused.pending += 1,
        }
        answer
    }

    /// Frees an object of any user.
    fn free(&mut self, handle: Handle) {
        let most = self.world.heap.max_steps(Operation::Deallocate);
        let answer = watch::measured(Some(most), || self.hand.deallocate(handle));
        assert_eq!(answer, Ok(()), "{handle:?} was live");
    }

    /// Reads an object if it is live, and perhaps keeps it pinned. Returns whether it was live.
    fn visit(&mut self, handle: Handle) -> bool {
        let guard = match self.pin(handle) {
            Ok(guard) => guard,
            Err(error) => {
                assert_eq!(error, PinError::Handle(HandleError::Stale));
                return false;
            }
        };
        let mut bytes = vec![0; guard.size_bytes()];
        guard.read(0, &mut bytes).expect("inside");
        assert!(bytes.iter().all(|&byte| byte == content(handle)), "{handle:?} holds {bytes:?}");
        if self.pinned.is_none() && self.random.below(2) == 0 {
            self.pinned = Some(ManuallyDrop::new(guard));
        } else {
            self.unpin(guard);
        }
        true
    }

    /// A random object on the board, removed from it if `is_taken`.
    fn of_board(&mut self, is_taken: bool) -> Option<Handle> {
        let mut board = self.world.board.lock().expect("no thread panicked");
        let at = self.random.below(board.len().max(1));
        if is_taken && !board.is_empty() { Some(board.swap_remove(at)) } else { board.get(at).copied() }
    }

    /// Performs a random operation.
    fn act(&mut self) {
        match self.random.below(12) {
            0..=2 => {
                let size_bytes = SIZES[self.random.below(SIZES.len())];
                let _ = self.allocate(size_bytes);
            }
            3 => {
                let oldest = self.mine.pop();
                self.world.board.lock().expect("no thread panicked").extend(oldest);
            }
            4..=6 => {
                if let Some(handle) = self.of_board(true) {
                    self.free(handle);
                }
            }
            7..=8 => {
                if let Some(handle) = self.of_board(false) {
                    self.visit(handle);
                }
            }
            9 => self.let_go(),
            10 => {
                let budget = self.random.below(4);
                let most = self.world.heap.max_steps(Operation::Reclaim { budget });
                watch::measured(Some(most), || self.hand.reclaim(budget));
            }
            _ => {
                self.hand.compact(64);
            }
        }
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // A user that is stopped for good keeps what it has.
        if std::thread::panicking() {
            return;
        }
        self.let_go();
        self.world.board.lock().expect("no thread panicked").append(&mut self.mine);
        let mut refused = self.world.refused.lock().expect("no thread panicked");
        refused.request += self.refused.request;
        refused.exhausted += self.refused.exhausted;
        refused.contended += self.refused.contended;
        refused.pending += self.refused.pending;
        drop(refused);
        // SAFETY: the user no longer uses the slot.
        unsafe { ManuallyDrop::drop(&mut self.hand) };
    }
}

/// Users that perform random operations under a scheduler.
fn users_under(scheduler: impl Scheduler + 'static, users: usize, name: &str) {
    let capacity = World::capacity(users);
    let seeds = AtomicU64::new(0);
    let executions = schedules::run(scheduler, move || {
        let seed = seeds.fetch_add(1, Ordering::Relaxed);
        let world = World::furnished(users);
        schedules::begin(schedules::switch);
        let threads: Vec<_> = (0..users)
            .map(|number| {
                let world = Arc::clone(&world);
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, seed);
                    (0..ACTS).for_each(|_| user.act());
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("the user finishes"));
        schedules::end();
        Arc::into_inner(world).expect("the users are gone").close(users, capacity);
    });
    let (ended, longest) = (ENDED.take(), watch::longest());
    println!(
        "compact-fit: {users} users, {name}: {executions} schedules, {ended} moves ended by pins, at most {longest} steps"
    );
    assert!(ended > 0, "no user pinned an object that was being moved");
}

#[test]
fn schedules_at_random() {
    users_under(RandomScheduler::new_from_seed(0x5EED, SCHEDULES.now() / 2), 4, "random");
}

#[test]
fn schedules_by_priorities() {
    users_under(PctScheduler::new_from_seed(0x5EED, DEPTH, SCHEDULES.now() / 2), 4, "PCT");
    users_under(PctScheduler::new_from_seed(0x5EED, DEPTH, SCHEDULES.now() / 10), 8, "PCT");
}

/// Users besides the one that stops, and the least operations of each.
const OTHERS: usize = 3;

/// The victim performs every kind of operation while an object of its own is half moved.
fn script(user: &mut User<'_>, [first, second, foreign]: [Handle; 3]) {
    // Two pages that are not full: objects move from the last to the first, 16 bytes at a time.
    user.free(first);
    user.free(second);
    let _ = user.allocate(28);
    user.visit(foreign);
    user.free(foreign);
    let _ = user.allocate(BYTES);
    user.let_go();
    while let Some(handle) = user.mine.pop() {
        user.free(handle);
    }
    user.hand.compact(64);
    user.hand.reclaim(2);
    assert!(user.allocate(usize::MAX / 2).is_err(), "no heap has memory for that");
}

/// Runs one execution in which the victim stops after `after` steps; returns whether it did.
fn stalled(after: usize, seed: u64) -> bool {
    let [finished, served] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = (finished.clone(), served.clone());
    let is_stopped = stalls::stops_at(after, seed, move || {
        let world = World::furnished(OTHERS + 1);
        let given: [Handle; 3] = {
            let mut board = world.board.lock().expect("no thread panicked");
            // From two pages of the victim, and from another user's.
            [3 * 8, 8, 0].map(|at| board.remove(at))
        };
        schedules::begin(stalls::step);
        let victim = {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || script(&mut User::new(&world, 0, seed), [given[2], given[1], given[0]]))
        };
        let others: Vec<_> = (1..=OTHERS)
            .map(|number| {
                let (world, served) = (Arc::clone(&world), served.clone());
                shuttle::thread::spawn(move || {
                    let mut user = User::new(&world, number, seed);
                    (0..ACTS).for_each(|_| user.act());
                    let is_served = (0..ACTS).any(|_| user.allocate(BYTES).is_ok());
                    served.fetch_add(usize::from(is_served), Ordering::Relaxed);
                })
            })
            .collect();
        for other in others {
            other.join().expect("the user finishes");
            finished.fetch_add(1, Ordering::Relaxed);
        }
        victim.join().expect("the user finishes, unless it is stopped");
    });
    let (finished, served) = counts;
    let [finished, served] = [finished, served].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(
        (finished, served),
        (OTHERS, OTHERS),
        "users that finished, and were served, while one was stopped after {after} steps"
    );
    is_stopped
}

#[test]
fn stalled_at_every_step() {
    let (mut places, mut executions) = (0, 0);
    for seed in 0..ORDERS.now() {
        let after = (0..).find(|&after| !stalled(after, seed)).expect("a script that ends");
        executions += after + 1;
        places = places.max(after);
    }
    assert!(places > 0, "the victim makes no step");
    println!("compact-fit: {places} steps to stop at, {executions} executions, at most {} steps", watch::longest());
}

#[cfg(target_os = "linux")]
mod signals {
    //! A handler with its own slot allocates, pins and frees while the thread that it interrupts is in an operation.

    use super::*;
    use crate::interrupts;
    use std::num::NonZeroU64;
    use std::sync::atomic::AtomicPtr;

    /// Slots of the thread and of the handler.
    const THREAD: usize = 0;
    const HANDLER: usize = 1;

    static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
    /// An object in transit between the thread and the handler.
    static PARCEL: AtomicU64 = AtomicU64::new(0);
    /// Objects of the thread that the handler reads.
    static SHOWN: [AtomicU64; 12] = [const { AtomicU64::new(0) }; 12];
    static SIGNALS: AtomicUsize = AtomicUsize::new(0);
    static SERVED: AtomicUsize = AtomicUsize::new(0);
    static READ: AtomicUsize = AtomicUsize::new(0);

    fn taken(place: &AtomicU64) -> Option<Handle> {
        NonZeroU64::new(place.swap(0, Ordering::AcqRel)).map(Handle::from_bits)
    }

    fn put(place: &AtomicU64, handle: Handle) -> Option<Handle> {
        NonZeroU64::new(place.swap(handle.to_bits().get(), Ordering::AcqRel)).map(Handle::from_bits)
    }

    extern "C" fn on_signal(_signal: libc::c_int) {
        let count = SIGNALS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the world exists as long as signals arrive.
        let world = unsafe { &*WORLD.load(Ordering::Acquire) };
        // None of this counts as a step of the interrupted operation.
        watch::measured(None, || {
            let mut hand = world.heap.claim(HANDLER).expect("no other user");
            exchange(&world.heap, &mut hand);
            // Shown objects stay live while this runs, whatever the thread does with them.
            if let Some(handle) = NonZeroU64::new(SHOWN[count % SHOWN.len()].load(Ordering::Acquire)) {
                look(&world.heap, Handle::from_bits(handle));
                READ.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Verifies an object. The handler does not allocate from the system.
    fn look(heap: &Heap, handle: Handle) {
        let guard = watch::measured(Some(heap.max_steps(Operation::Pin)), || heap.pin(handle)).expect("a live object");
        let mut bytes = [0; BYTES];
        guard.read(0, &mut bytes).expect("inside");
        assert_eq!(bytes, [content(handle); BYTES], "what a handler sees");
        watch::measured(Some(heap.max_steps(Operation::Unpin)), || drop(guard));
    }

    fn free(heap: &Heap, hand: &mut Hand<'_>, handle: Handle) {
        let answer = watch::measured(Some(heap.max_steps(Operation::Deallocate)), || hand.deallocate(handle));
        answer.expect("a live object");
    }

    /// Allocates an object and fills it, if there is room.
    fn new(heap: &Heap, hand: &mut Hand<'_>) -> Option<Handle> {
        let handle = watch::measured(Some(heap.max_steps(Operation::Allocate)), || hand.allocate(BYTES)).ok()?;
        heap.pin(handle).expect("live").write(0, &[content(handle); BYTES]).expect("inside");
        Some(handle)
    }

    /// Verifies and frees the object in the parcel and replaces it by a new one, as the handler or the thread.
    fn exchange(heap: &Heap, hand: &mut Hand<'_>) {
        if let Some(handle) = taken(&PARCEL) {
            look(heap, handle);
            free(heap, hand, handle);
        }
        if let Some(handle) = new(heap, hand) {
            SERVED.fetch_add(1, Ordering::Relaxed);
            if let Some(other) = put(&PARCEL, handle) {
                free(heap, hand, other);
            }
        }
        let most = heap.max_steps(Operation::Reclaim { budget: 1 });
        watch::measured(Some(most), || hand.reclaim(1));
    }

    /// One operation of the thread, which may replace a [`SHOWN`] object.
    fn act(heap: &Heap, hand: &mut Hand<'_>, random: &mut Random) {
        exchange(heap, hand);
        let place = &SHOWN[random.below(SHOWN.len())];
        if let Some(handle) = taken(place) {
            free(heap, hand, handle);
        }
        if let Some(handle) = new(heap, hand)
            && let Some(other) = put(place, handle)
        {
            free(heap, hand, other);
        }
        if random.below(8) == 0 {
            hand.compact(64);
        }
    }

    /// Calls `run` with the thread's operation, while signals may arrive.
    fn interrupted(begin: fn(), run: impl FnOnce(&mut dyn FnMut()), end: fn()) {
        let capacity = World::capacity(2);
        let world = Arc::new(World::new(2));
        WORLD.store(Arc::as_ptr(&world).cast_mut(), Ordering::Release);
        interrupts::install(on_signal);
        let mut hand = world.heap.claim(THREAD).expect("the slot is free");
        let mut random = Random(0xBE11);
        begin();
        run(&mut || act(&world.heap, &mut hand, &mut random));
        end();
        let [signals, served, read] = [&SIGNALS, &SERVED, &READ].map(|count| count.load(Ordering::Relaxed));
        println!("compact-fit: {signals} signals, {served} objects exchanged, {read} read by the handler");
        assert!(signals > 100 && served > 100 && read > 100, "{signals} signals, {served} objects, {read} read");
        for handle in SHOWN.iter().chain([&PARCEL]).filter_map(taken) {
            look(&world.heap, handle);
            free(&world.heap, &mut hand, handle);
        }
        drop(hand);
        *world.refused.lock().expect("no thread panicked") = world.heap.refusals();
        Arc::into_inner(world).expect("no other user").close(2, capacity);
    }

    #[test]
    fn signal_at_every_step() {
        crate::apart::run(concat!(module_path!(), "::signal_at_every_step"), || {
            let begin = || watch::at_every_step(Some(interrupts::raise), None);
            let end = || watch::at_every_step(None, None);
            interrupted(begin, |act| (0..interrupts::ACTS.now()).for_each(|_| act()), end);
        });
    }

    #[test]
    fn signal_at_any_time() {
        crate::apart::run(concat!(module_path!(), "::signal_at_any_time"), || {
            interrupted(|| (), |act| interrupts::timed(act), || ());
        });
    }
}
