//! The concurrent Compact-fit, whose users have handles: schedules, a user who stands still at every step, and signals, while objects
//! are moved, pinned and freed.
//!
//! An object holds one byte all over, which its handle tells. Whoever pins it finds nothing else, however often it was moved meanwhile.

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
/// Moves of 16 bytes: one of an object is many operations long.
type Heap = SharedCompactFit<'static, 16, Ladder, Watched>;
type Hand<'w> = CompactFitSlot<'w, 'static, 16, Ladder, Watched>;

/// Bytes of most objects, eight on a page; and of others.
const BYTES: usize = 100;
const SIZES: [usize; 4] = [BYTES, BYTES, 28, 300];
/// Pages of each slot, and of them full when users begin.
const PAGES: usize = 6;
const FULL: usize = 3;
/// Objects that a slot may have.
const OBJECTS: usize = 48;

thread_local! {
    /// Moves that were under way when somebody pinned the object.
    static ENDED: Cell<usize> = const { Cell::new(0) };
}

/// What an object holds.
fn content(handle: Handle) -> u8 {
    handle.to_bits().get() as u8 ^ 0x5A
}

/// A heap, and what users have for each other.
struct World {
    heap: Heap,
    /// Objects that anybody may read, and whoever takes them out may free.
    board: Mutex<Vec<Handle>>,
    refused: Mutex<Refusals>,
}

impl World {
    /// A fresh heap in a region of this thread.
    fn new(users: usize) -> Self {
        let len_bytes = Heap::region_bytes(users, OBJECTS, PAGES);
        let memory = world::memory(len_bytes);
        // SAFETY: the memory is this long; the worlds before this one are gone, or stand still for ever.
        let region = unsafe {
            memory.write_bytes(0xA5, len_bytes);
            std::slice::from_raw_parts_mut(memory.as_ptr(), len_bytes)
        };
        let config = SharedCompactFitConfig { slots: users, objects: OBJECTS, ..SharedCompactFitConfig::default() };
        let heap = watch::undisturbed(|| Heap::new(region, config)).expect("a region that is long enough");
        World { heap, board: Mutex::default(), refused: Mutex::default() }
    }

    /// The same, with full pages of everybody's, which are on the board: as soon as two of them have lost an object, others are moved.
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

    /// Objects of a whole page, for which a fresh heap of so many users has room.
    fn capacity(users: usize) -> usize {
        watch::undisturbed(|| World::new(users).room(users))
    }

    fn room(&self, users: usize) -> usize {
        let room = |number| {
            let mut hand = self.heap.claim(number).expect("nobody has it");
            (0..).take_while(|_| hand.allocate(Heap::LARGEST_BYTES).is_ok()).count()
        };
        (0..users).map(room).sum()
    }

    /// All users are gone: what they left is as it should be, and when it is freed the heap has the room it began with.
    fn close(mut self, users: usize, capacity: usize) {
        watch::undisturbed(|| {
            assert_eq!(
                self.heap.refusals(),
                *self.refused.lock().expect("nobody panicked"),
                "refusals, counted and told"
            );
            self.heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
            let mut first = User::new(&self, 0, 0);
            let left = std::mem::take(&mut *self.board.lock().expect("nobody panicked"));
            for handle in left {
                assert!(first.visit(handle), "{handle:?} is live");
                first.free(handle);
            }
            drop(first);
            for number in 0..users {
                let mut hand = self.heap.claim(number).expect("nobody has it any more");
                while hand.reclaim(usize::MAX) != 0 {}
                while hand.compact(1 << 12) != 0 {}
                assert!(!hand.owes(), "slot {number}: nothing is pinned, and something is owed");
            }
            self.heap.check().unwrap_or_else(|corruption| panic!("{corruption:?}"));
            assert_eq!(self.room(users), capacity, "what a fresh heap has room for, and this one");
        });
    }
}

/// A user: a slot, objects nobody else knows of, and at most one that it keeps pinned.
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
        let hand = ManuallyDrop::new(world.heap.claim(number).expect("nobody has it"));
        let random = Random(seed ^ (number as u64) << 32);
        User { world, hand, mine: Vec::new(), pinned: None, random, refused: Refusals::default() }
    }

    fn pin(&self, handle: Handle) -> Result<Guard<'w, Watched>, PinError> {
        let heap = &self.world.heap;
        let (answer, changes) = watch::measured(Some(heap.most_steps(Operation::Pin)), || {
            (heap.pin(handle), watch::ledger().taken.read_modify_writes)
        });
        // The second change ended a move.
        ENDED.set(ENDED.get() + usize::from(answer.is_ok() && changes > 1));
        answer
    }

    fn unpin(&self, guard: Guard<'w, Watched>) {
        watch::measured(Some(self.world.heap.most_steps(Operation::Unpin)), || drop(guard));
    }

    /// The object kept pinned is what it was, and is pinned no more.
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
        let most = self.world.heap.most_steps(Operation::Allocate);
        let answer = watch::measured(Some(most), || self.hand.allocate(size_bytes));
        match answer {
            Ok(handle) => {
                let guard = self.pin(handle).expect("live, and nobody else's");
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

    /// Frees an object, whosever it is.
    fn free(&mut self, handle: Handle) {
        let most = self.world.heap.most_steps(Operation::Deallocate);
        let answer = watch::measured(Some(most), || self.hand.deallocate(handle));
        assert_eq!(answer, Ok(()), "{handle:?} was live");
    }

    /// Reads an object, if it is live; keeps it pinned or not. Whether it was.
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

    /// Something of the board: what is there stays there, unless it is taken.
    fn of_board(&mut self, is_taken: bool) -> Option<Handle> {
        let mut board = self.world.board.lock().expect("nobody panicked");
        let at = self.random.below(board.len().max(1));
        if is_taken && !board.is_empty() { Some(board.swap_remove(at)) } else { board.get(at).copied() }
    }

    /// Something.
    fn act(&mut self) {
        match self.random.below(12) {
            0..=2 => {
                let size_bytes = SIZES[self.random.below(SIZES.len())];
                let _ = self.allocate(size_bytes);
            }
            3 => {
                let oldest = self.mine.pop();
                self.world.board.lock().expect("nobody panicked").extend(oldest);
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
                let most = self.world.heap.most_steps(Operation::Reclaim { budget });
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
        // A user who stands still for ever has what it had.
        if std::thread::panicking() {
            return;
        }
        self.let_go();
        self.world.board.lock().expect("nobody panicked").append(&mut self.mine);
        let mut refused = self.world.refused.lock().expect("nobody panicked");
        refused.request += self.refused.request;
        refused.exhausted += self.refused.exhausted;
        refused.contended += self.refused.contended;
        refused.pending += self.refused.pending;
        drop(refused);
        // SAFETY: it is not used any more.
        unsafe { ManuallyDrop::drop(&mut self.hand) };
    }
}

/// Users who do this and that, under a scheduler.
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
        threads.into_iter().for_each(|thread| thread.join().expect("a user who ends"));
        schedules::end();
        Arc::into_inner(world).expect("the users are gone").close(users, capacity);
    });
    let (ended, longest) = (ENDED.take(), watch::longest());
    println!(
        "compact-fit: {users} users, {name}: {executions} schedules, {ended} moves ended by pins, at most {longest} steps"
    );
    assert!(ended > 0, "nobody pinned an object that was being moved");
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

/// Users beside the one who stands still, and what each of them does at least.
const OTHERS: usize = 3;

/// What the victim does: everything a user can do, while an object of its own is half moved.
fn script(user: &mut User<'_>, [first, second, foreign]: [Handle; 3]) {
    // Two pages that are not full: the last one's objects are moved to the first, 16 bytes at a time.
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

/// One execution: the victim stops after so many steps. Whether it did.
fn stalled(after: usize, seed: u64) -> bool {
    let [finished, served] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let counts = (finished.clone(), served.clone());
    let stands = stalls::standing(after, seed, move || {
        let world = World::furnished(OTHERS + 1);
        let given: [Handle; 3] = {
            let mut board = world.board.lock().expect("nobody panicked");
            // Of two pages of the victim's, and of somebody else's.
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
            other.join().expect("a user who ends");
            finished.fetch_add(1, Ordering::Relaxed);
        }
        victim.join().expect("a user who ends, unless it stands");
    });
    let (finished, served) = counts;
    let [finished, served] = [finished, served].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(
        (finished, served),
        (OTHERS, OTHERS),
        "users who ended, and were served, while one stood after {after} steps"
    );
    stands
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
    println!(
        "compact-fit: {places} places to stand still, {executions} executions, at most {} steps",
        watch::longest()
    );
}

#[cfg(target_os = "linux")]
mod signals {
    //! A handler, which has a slot of its own, allocates, pins and frees while the thread that it interrupts is in an operation.

    use super::*;
    use crate::interrupts;
    use std::num::NonZeroU64;
    use std::sync::atomic::AtomicPtr;

    /// Slots of the thread and of the handler.
    const THREAD: usize = 0;
    const HANDLER: usize = 1;

    static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
    /// An object on its way from the thread to the handler or back.
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
        // SAFETY: the world is there as long as signals come.
        let world = unsafe { &*WORLD.load(Ordering::Acquire) };
        // None of this is a step of the operation that was interrupted.
        watch::measured(None, || {
            let mut hand = world.heap.claim(HANDLER).expect("nobody else has it");
            exchange(&world.heap, &mut hand);
            // What is shown is live for as long as this runs, whatever the thread is doing with it.
            if let Some(handle) = NonZeroU64::new(SHOWN[count % SHOWN.len()].load(Ordering::Acquire)) {
                look(&world.heap, Handle::from_bits(handle));
                READ.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// The object holds what it should. The handler asks the system for no memory.
    fn look(heap: &Heap, handle: Handle) {
        let guard = watch::measured(Some(heap.most_steps(Operation::Pin)), || heap.pin(handle)).expect("a live object");
        let mut bytes = [0; BYTES];
        guard.read(0, &mut bytes).expect("inside");
        assert_eq!(bytes, [content(handle); BYTES], "what a handler sees");
        watch::measured(Some(heap.most_steps(Operation::Unpin)), || drop(guard));
    }

    fn free(heap: &Heap, hand: &mut Hand<'_>, handle: Handle) {
        let answer = watch::measured(Some(heap.most_steps(Operation::Deallocate)), || hand.deallocate(handle));
        answer.expect("a live object");
    }

    /// A new object with its content, if there is room.
    fn new(heap: &Heap, hand: &mut Hand<'_>) -> Option<Handle> {
        let handle = watch::measured(Some(heap.most_steps(Operation::Allocate)), || hand.allocate(BYTES)).ok()?;
        heap.pin(handle).expect("live").write(0, &[content(handle); BYTES]).expect("inside");
        Some(handle)
    }

    /// Takes the object out of the parcel, looks at it and frees it, and puts a new one in its place: as the handler, or the thread.
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
        let most = heap.most_steps(Operation::Reclaim { budget: 1 });
        watch::measured(Some(most), || hand.reclaim(1));
    }

    /// The thread's acts, which [`SHOWN`] objects survive or not.
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

    /// Calls `run` with what the thread does, while signals may come.
    fn interrupted(begin: fn(), run: impl FnOnce(&mut dyn FnMut()), end: fn()) {
        let capacity = World::capacity(2);
        let world = Arc::new(World::new(2));
        WORLD.store(Arc::as_ptr(&world).cast_mut(), Ordering::Release);
        interrupts::install(on_signal);
        let mut hand = world.heap.claim(THREAD).expect("nobody has it");
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
        *world.refused.lock().expect("nobody panicked") = world.heap.refusals();
        Arc::into_inner(world).expect("nobody else has it").close(2, capacity);
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
