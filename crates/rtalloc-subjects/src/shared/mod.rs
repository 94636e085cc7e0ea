//! The allocators for several threads: ours, any sequential one under a lock, and the peers that multithreaded programs
//! commonly use.
//!
//! The calling convention is that of all subjects ([`Entries`]), so a measured operation is one indirect call. Its
//! context is not the heap but a *user context*, which belongs to one thread: the heap's slot of that thread, and
//! counts of its refused requests.
//!
//! ```text
//! SharedSubject --make--> SharedHeap --join(number)--> User (one per thread) --entries--> allocate, deallocate, reallocate
//! ```
//!
//! To add one: implement [`SharedTarget`] (ours: [`Tuned`], one line), and add a line to the table in this file.

mod adapter;
mod lock;
mod peers;

use crate::adapter::{Made, Release};
use crate::steps::Counting;
use crate::{Entries, Origin, Reach, Refusal, Region, WalkEntry};
use rtalloc::concurrent::PooledArenas;
use rtalloc::concurrent::atomics::WithListener;
use rtalloc::concurrent::bitmap_buddy::BitmapBuddy;
use rtalloc::concurrent::tree_buddy::{self, TreeBuddy};
use rtalloc::contract::{Block, Operation, Progress, SharedError, Steps};
use rtalloc::segregated::{HalfFit, Tlsf};
use std::ffi::c_void;
use std::marker::PhantomData;

pub use adapter::{SharedTarget, Tuned};
pub use lock::{Ceiling, Inheriting, Lock, Mutex, Spin, Ticket};

/// Prefix of the error of a peer that is not installed.
pub const NOT_INSTALLED: &str = "not installed";

/// Verifies the heap of a context.
type Check = unsafe fn(*mut c_void) -> Result<(), String>;

/// An allocator for several threads that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct SharedSubject {
    /// Name for `--on`.
    pub name: &'static str,
    /// Its origin.
    pub origin: Origin,
    /// Its synchronisation: "none", or the kind of lock.
    pub lock: Option<&'static str>,
    /// The sequential allocator of ours under the lock.
    pub guards: Option<UnderLock>,
    /// The progress guarantees of allocate and deallocate stated by its author; `None` if there are none.
    pub progress: Option<(Progress, Progress)>,
    /// The reasons for which it may refuse a request, in the contract's words.
    pub refuses: &'static [&'static str],
    /// The allocator of which it is an option, and with which it is measured; `None` if it is independent.
    pub option_of: Option<&'static str>,
    /// Whether it takes its own pages from the system; then its heap cannot be limited and has no utilisation.
    pub own_pages: bool,
    /// Its entry points, whose context is a [`User`]'s.
    pub entries: Entries,
    /// The requests it never serves.
    pub reach: Reach,
    /// The same allocator with every access to a shared word reported to [`crate::steps`].
    pub stepped: Option<&'static SharedSubject>,
    ready: fn() -> Result<(), String>,
    make: unsafe fn(*mut u8, usize, usize) -> Result<Made, String>,
    release: Release,
    join: unsafe fn(*mut c_void, usize) -> Option<*mut c_void>,
    leave: unsafe fn(*mut c_void, usize, *mut c_void),
    reclaim: unsafe fn(*mut c_void, usize) -> usize,
    check: Option<Check>,
    walk: Option<WalkEntry>,
    max_steps: Option<unsafe fn(*mut c_void, Operation) -> Option<Steps>>,
}

/// One of our sequential allocators under a lock.
#[derive(Clone, Copy, Debug)]
pub struct UnderLock {
    /// Name of its contract.
    pub heap: &'static str,
    /// Its operations under the lock, and nothing else.
    pub entries: Entries,
}

impl SharedSubject {
    /// Whether a thread like the calling one can use it: a lock may need a priority, a peer its library.
    ///
    /// # Errors
    ///
    /// The reason why it cannot.
    pub fn ready(&self) -> Result<(), String> {
        (self.ready)()
    }
}

/// A user's refused requests, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Refused {
    /// The request itself: no heap of this kind serves it.
    pub request: u64,
    /// No free block was large enough.
    pub exhausted: u64,
    /// No block was found during concurrent operations: a retry may find one.
    pub contended: u64,
    /// Blocks that other threads freed are not reclaimed yet: a retry continues to reclaim.
    pub pending: u64,
}

impl Refused {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.request + self.exhausted + self.contended + self.pending
    }

    /// Counts a refusal.
    pub fn note(&mut self, error: SharedError) {
        match error {
            SharedError::Request(_) => self.request += 1,
            SharedError::Exhausted => self.exhausted += 1,
            SharedError::Contended => self.contended += 1,
            SharedError::Pending => self.pending += 1,
        }
    }
}

impl std::ops::AddAssign for Refused {
    fn add_assign(&mut self, other: Self) {
        self.request += other.request;
        self.exhausted += other.exhausted;
        self.contended += other.contended;
        self.pending += other.pending;
    }
}

/// The first field of every user context, independent of its slot type.
#[derive(Debug, Default)]
struct Count {
    refused: Refused,
    last: Option<SharedError>,
}

/// A live heap in a part of a region, for several threads.
#[derive(Debug)]
pub struct SharedHeap<'region> {
    subject: &'static SharedSubject,
    heap: *mut c_void,
    /// First address blocks may have; 0 where the subject takes its own pages.
    pub start: usize,
    /// One past the last address of the region; `usize::MAX` where the subject takes its own pages.
    pub end: usize,
    region: PhantomData<&'region mut Region>,
}

// SAFETY: a shared heap is for concurrent use; methods that are not take `&mut self`.
unsafe impl Sync for SharedHeap<'_> {}
// SAFETY: a shared heap is for concurrent use, so it may also move to another thread.
unsafe impl Send for SharedHeap<'_> {}

impl<'region> SharedHeap<'region> {
    /// Creates a heap for at most `users` concurrent threads, in the first `bytes` bytes of `region`; a subject with
    /// its own pages ignores the region.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where the region is too small for its control structure, or the subject cannot be used here.
    pub fn new(
        subject: &'static SharedSubject,
        region: &'region mut Region,
        bytes: usize,
        users: usize,
    ) -> Result<Self, Refusal> {
        Self::within(subject, region, 0, bytes, users)
    }

    /// As [`new`](Self::new), in the `bytes` bytes from `offset` on.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn within(
        subject: &'static SharedSubject,
        region: &'region mut Region,
        offset: usize,
        bytes: usize,
        users: usize,
    ) -> Result<Self, Refusal> {
        let offset = offset.min(region.len());
        let bytes = bytes.min(region.len() - offset);
        let base = region.start().wrapping_add(offset);
        // SAFETY: `base..base + bytes` is mapped memory that this heap borrows exclusively for as long as it lives.
        let made = unsafe { (subject.make)(base, bytes, users.max(1)) }
            .map_err(|reason| Refusal { region_bytes: bytes, reason })?;
        let end = if subject.own_pages { usize::MAX } else { base as usize + bytes };
        Ok(Self { subject, heap: made.context, start: made.first_block_address, end, region: PhantomData })
    }

    /// The heap's allocator.
    #[must_use]
    pub fn subject(&self) -> &'static SharedSubject {
        self.subject
    }

    /// The operations for one thread. `number` is below the number of users the heap was created for, and unique to
    /// each user; `None` if it is in use already.
    #[must_use]
    pub fn join(&self, number: usize) -> Option<User<'_>> {
        // SAFETY: the heap came from `make`.
        let context = unsafe { (self.subject.join)(self.heap, number) }?;
        Some(User { entries: self.subject.entries, context, number, heap: self })
    }

    /// Verifies the heap, if supported. There are no users: the heap is borrowed exclusively.
    ///
    /// # Errors
    ///
    /// A description of the broken invariant.
    pub fn check(&mut self) -> Result<(), String> {
        // SAFETY: the heap came from `make`, and no operation is in progress.
        self.subject.check.map_or(Ok(()), |check| unsafe { check(self.heap) })
    }

    /// Visits every block; returns `false` if the subject does not support it.
    pub fn walk(&mut self, visitor: &mut dyn FnMut(Block)) -> bool {
        // SAFETY: the heap came from `make`, and no operation is in progress.
        self.subject.walk.map(|walk| unsafe { walk(self.heap, visitor) }).is_some()
    }

    /// Maximum number of steps of an operation, if the allocator publishes it.
    #[must_use]
    pub fn max_steps(&self, operation: Operation) -> Option<Steps> {
        // SAFETY: the heap came from `make`.
        self.subject.max_steps.and_then(|most| unsafe { most(self.heap, operation) })
    }
}

impl Drop for SharedHeap<'_> {
    fn drop(&mut self) {
        // SAFETY: the heap came from the `make` that belongs to this `release`, and is not used any more.
        unsafe { (self.subject.release)(self.heap) };
    }
}

/// One thread's access to a heap.
#[derive(Debug)]
pub struct User<'heap> {
    /// The functions to call, with `context`.
    pub entries: Entries,
    /// First argument of every entry point: this thread's context.
    pub context: *mut c_void,
    number: usize,
    heap: &'heap SharedHeap<'heap>,
}

// SAFETY: a user context belongs to one thread at a time, which may be any thread.
unsafe impl Send for User<'_> {}

impl User<'_> {
    /// This user's number.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Allocates; null if refused.
    #[inline(always)]
    pub fn allocate(&mut self, size: usize, align: usize) -> *mut u8 {
        // SAFETY: the context is this user's, and the borrow is exclusive.
        unsafe { (self.entries.allocate_at(align))(self.context, size, align) }
    }

    /// Deallocates a block of any user.
    ///
    /// # Safety
    ///
    /// `block` is live in this heap and was last requested with this size and alignment.
    #[inline(always)]
    pub unsafe fn deallocate(&mut self, block: *mut u8, size: usize, align: usize) {
        // SAFETY: the context is this user's, and the block is live with this size and alignment.
        unsafe { (self.entries.deallocate)(self.context, block, size, align) }
    }

    /// Reclaims at most `budget` blocks that other threads freed; returns their number.
    pub fn reclaim(&mut self, budget: usize) -> usize {
        // SAFETY: the context is this user's.
        unsafe { (self.heap.subject.reclaim)(self.context, budget) }
    }

    /// This user's refused requests so far.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.count().refused
    }

    /// The reason for the last refusal.
    #[must_use]
    pub fn last_refusal(&self) -> Option<SharedError> {
        self.count().last
    }

    fn count(&self) -> &Count {
        // SAFETY: every user context begins with its count.
        unsafe { &*self.context.cast::<Count>() }
    }
}

impl Drop for User<'_> {
    fn drop(&mut self) {
        // SAFETY: the context came from `join`, and is not used again.
        unsafe { (self.heap.subject.leave)(self.heap.heap, self.number, self.context) };
    }
}

/// Every shared subject, in table order.
#[must_use]
pub fn all() -> &'static [SharedSubject] {
    ALL
}

static POOLED_ARENAS_STEPPED: SharedSubject =
    adapter::together::<PooledArenas<'static, Tlsf<'static>, WithListener<Counting>>>("pooled-arenas", None);

static BITMAP_BUDDY_STEPPED: SharedSubject =
    adapter::together::<BitmapBuddy<'static, 64, WithListener<Counting>>>("bitmap-buddy", None);

/// A tree buddy and the same with reported steps; the others are options of the first.
macro_rules! tree {
    ($name:literal, $node:literal, $layout:ty, $options:ty, $option_of:expr) => {{
        static STEPPED: SharedSubject =
            adapter::together::<TreeBuddy<'static, $node, $layout, $options, WithListener<Counting>>>($name, None);
        SharedSubject {
            option_of: $option_of,
            ..refusing(
                &["exhausted", "contended"],
                adapter::together::<TreeBuddy<'static, $node, $layout, $options>>($name, Some(&STEPPED)),
            )
        }
    }};
}

/// A subject with the reasons why it refuses requests that a larger heap would serve.
const fn refusing(refuses: &'static [&'static str], subject: SharedSubject) -> SharedSubject {
    SharedSubject { refuses, ..subject }
}

static ALL: &[SharedSubject] = &[
    refusing(
        &["exhausted", "contended", "pending"],
        adapter::together::<PooledArenas<'static>>("pooled-arenas", Some(&POOLED_ARENAS_STEPPED)),
    ),
    refusing(
        &["exhausted", "contended"],
        adapter::together::<BitmapBuddy<'static>>("bitmap-buddy", Some(&BITMAP_BUDDY_STEPPED)),
    ),
    tree!("tree-buddy", 64, tree_buddy::OutOfBand, tree_buddy::Faithful, None),
    tree!("tree-buddy-in-band", 64, tree_buddy::InBand, tree_buddy::Faithful, Some("tree-buddy")),
    tree!("tree-buddy-32", 32, tree_buddy::OutOfBand, tree_buddy::Faithful, Some("tree-buddy")),
    tree!("tree-buddy-128", 128, tree_buddy::OutOfBand, tree_buddy::Faithful, Some("tree-buddy")),
    tree!("tree-buddy-reads-first", 64, tree_buddy::OutOfBand, tree_buddy::ReadsFirst, Some("tree-buddy")),
    tree!("tree-buddy-lazy", 64, tree_buddy::OutOfBand, tree_buddy::Lazy, Some("tree-buddy")),
    tree!("tree-buddy-rotated", 64, tree_buddy::OutOfBand, tree_buddy::Rotated, Some("tree-buddy")),
    tree!("tree-buddy-watched", 64, tree_buddy::OutOfBand, tree_buddy::Watched, Some("tree-buddy")),
    tree!("tree-buddy-everything", 64, tree_buddy::OutOfBand, tree_buddy::Everything, Some("tree-buddy")),
    adapter::locked::<Tlsf<'static>, Spin>("tlsf-spin"),
    adapter::locked::<Tlsf<'static>, Ticket>("tlsf-ticket"),
    adapter::locked::<Tlsf<'static>, Mutex>("tlsf-mutex"),
    adapter::locked::<Tlsf<'static>, Inheriting>("tlsf-pi"),
    adapter::locked::<Tlsf<'static>, Ceiling>("tlsf-ceiling"),
    adapter::locked::<HalfFit<'static>, Spin>("half-fit-spin"),
    #[cfg(feature = "rlsf")]
    adapter::under::<crate::peers::rlsf::Rlsf, Spin>("rlsf-spin", Origin::Peer),
    #[cfg(feature = "talc")]
    adapter::under::<crate::peers::talc::Talc, Spin>("talc-spin", Origin::Peer),
    #[cfg(feature = "buddy-system")]
    adapter::under::<crate::peers::buddy_system::BuddySystem, Spin>("buddy-system-spin", Origin::Peer),
    #[cfg(feature = "mimalloc")]
    adapter::paged::<crate::peers::mimalloc::Mimalloc>("mimalloc", Origin::Peer),
    #[cfg(feature = "jemalloc")]
    adapter::paged::<crate::peers::jemalloc::Jemalloc>("jemalloc", Origin::Peer),
    adapter::paged::<peers::AtomicOps>("atomic-ops", Origin::Peer),
    adapter::paged::<crate::peers::system::SystemMalloc>("system", Origin::System),
];

static ALONE: SharedSubject = adapter::under::<crate::Ours<Tlsf<'static>>, lock::NoLock>("tlsf-alone", Origin::Ours);

/// TLSF for one user without a lock, which creates no heap for more: the baseline for the costs of sharing.
#[must_use]
pub fn alone() -> &'static SharedSubject {
    &ALONE
}

/// A selection with an unknown shared subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shared allocator {name:?}; choose from {}", names().join(", "))]
pub struct Unknown {
    /// The given name.
    pub name: String,
}

/// Names and groups: `all`, `ours`, `peers`, and `options` for the variants of one allocator.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ["all", "ours", "peers", "options"].into_iter().chain(ALL.iter().map(|subject| subject.name)).collect()
}

/// Selects by names and groups; a leading `-` excludes, and a selection that starts with an exclusion starts from all.
/// In table order.
///
/// # Errors
///
/// [`Unknown`].
pub fn select<S: AsRef<str>>(choice: &[S]) -> Result<Vec<&'static SharedSubject>, Unknown> {
    let starts_full = choice.first().is_none_or(|first| first.as_ref().starts_with('-'));
    let mut chosen = vec![starts_full; ALL.len()];
    for word in choice {
        let word = word.as_ref();
        let (name, include) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        if !names().contains(&name) {
            return Err(Unknown { name: name.into() });
        }
        for (subject, chosen) in ALL.iter().zip(&mut chosen) {
            let meant = match name {
                "all" => true,
                "ours" => subject.origin == Origin::Ours,
                "peers" => subject.origin != Origin::Ours,
                "options" => subject.option_of.is_some(),
                _ => subject.name == name,
            };
            *chosen = if meant { include } else { *chosen };
        }
    }
    Ok(ALL.iter().zip(chosen).filter_map(|(subject, chosen)| chosen.then_some(subject)).collect())
}

/// The shared subject of this name.
///
/// # Errors
///
/// [`Unknown`].
pub fn one(name: &str) -> Result<&'static SharedSubject, Unknown> {
    ALL.iter().find(|subject| subject.name == name).ok_or_else(|| Unknown { name: name.into() })
}

#[cfg(test)]
mod tests;
