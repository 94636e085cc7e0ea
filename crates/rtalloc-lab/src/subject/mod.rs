//! The allocators under test: ours, and the peers published as crates.
//!
//! A [`Subject`] is facts plus a way to make a [`Heap`]. A heap is a context pointer and four entry points with the
//! C calling convention, called through a pointer for everyone alike ([`Entries`]): what is measured is one indirect
//! call into the allocator, compiled into one function per operation, which is what a program that links it calls.
//!
//! To add an allocator: implement [`adapter::Target`] (ours: nothing, `adapter::Ours` does), and add a line to the
//! table in this file.

pub(crate) mod adapter;
mod counted;
mod paged;
mod peers;
mod region;

use crate::result::schema::{Origin, SubjectFacts};
use rtalloc::contract::{Block, Contract};
use rtalloc::mechanism::scrutiny::Thorough;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::tally::Untallied;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{AddressOrderedFirstFit, BestFit, FirstFit, HalfFit, Tlsf};
use std::ffi::c_void;

pub use adapter::{Ours, Target};
pub use counted::{CountError, Counted};
pub use region::Region;

/// Alignment of every block that asks for no larger one, as of C's `malloc` on 64-bit machines, in bytes.
pub const NATURAL_ALIGN_BYTES: usize = 16;

/// `allocate(context, size, align)`: the block, or null where the request is refused. The entry point for natural
/// alignment takes the third argument as well and does not look at it.
pub type AllocateEntry = unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut u8;
/// `deallocate(context, block, size, align)`: gives a block back.
pub type DeallocateEntry = unsafe extern "C" fn(*mut c_void, *mut u8, usize, usize);
/// `reallocate(context, block, old_size, align, new_size)`: the block, or null where the request is refused and the
/// old block lives on.
pub type ReallocateEntry = unsafe extern "C" fn(*mut c_void, *mut u8, usize, usize, usize) -> *mut u8;
/// `granted(context, block, size, align)`: bytes a live block occupies from its address on, where that is more than
/// was requested and the allocator tells.
pub type GrantedEntry = unsafe fn(*mut c_void, *mut u8, usize, usize) -> usize;

/// `fingerprint(context, word)`: emits the heap's abstract state, as [`rtalloc::RegionAllocator::fingerprint`].
pub type FingerprintEntry = unsafe fn(*mut c_void, &mut dyn FnMut(usize));
/// `walk(context, visitor)`: shows every block, as [`rtalloc::RegionAllocator::walk`].
pub type WalkEntry = unsafe fn(*mut c_void, &mut dyn FnMut(Block));

/// How to look at the state of a heap that keeps all of it in its region, so that a copy of the region's bytes, put
/// back, is the heap as it was.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The facts of its blocks.
    pub contract: Contract,
    /// Emits the abstract state.
    pub fingerprint: FingerprintEntry,
    /// Shows the blocks.
    pub walk: WalkEntry,
}

/// The functions a replay calls.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    /// Allocates at [`NATURAL_ALIGN_BYTES`], C's `malloc`: a constant for the compiler.
    pub allocate: AllocateEntry,
    /// Allocates at a larger alignment, C's `aligned_alloc`.
    pub allocate_aligned: AllocateEntry,
    /// Deallocates.
    pub deallocate: DeallocateEntry,
    /// Reallocates.
    pub reallocate: ReallocateEntry,
    /// Tells granted sizes; never measured. `None`: the requested size.
    pub granted: Option<GrantedEntry>,
}

impl Entries {
    /// The entry point that serves requests at `align` bytes.
    #[inline(always)]
    #[must_use]
    pub fn allocate_at(&self, align: usize) -> AllocateEntry {
        if align <= NATURAL_ALIGN_BYTES { self.allocate } else { self.allocate_aligned }
    }
}

/// An allocator that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name as `--on` takes it.
    pub name: &'static str,
    /// Whose it is.
    pub origin: Origin,
    /// Family of the field's taxonomy.
    pub family: &'static str,
    /// Cost class of allocate as its author states it.
    pub cost: &'static str,
    /// Whether it takes its own pages from the system; then it has no heap size and no space figures.
    pub own_pages: bool,
    /// Its entry points.
    pub entries: Entries,
    /// Makes a heap; see [`Heap::new`].
    pub make: adapter::Make,
    /// Frees what `make` put outside the region.
    pub release: adapter::Release,
    /// How to look at its heaps; `None` where control structures lie outside the region.
    pub view: Option<View>,
}

impl Subject {
    /// The facts as results carry them.
    #[must_use]
    pub fn facts(&self) -> SubjectFacts {
        SubjectFacts { name: self.name.into(), origin: self.origin, family: self.family.into(), cost: self.cost.into() }
    }
}

/// A heap that was refused: the region does not suffice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no heap of {region_bytes} bytes: {reason}")]
pub struct Refusal {
    /// Size of the region.
    pub region_bytes: usize,
    /// The allocator's answer.
    pub reason: String,
}

/// A live heap in a part of a region.
#[derive(Debug)]
pub struct Heap<'region> {
    /// The functions to call, with `context`.
    pub entries: Entries,
    /// First argument of every entry point.
    pub context: *mut c_void,
    /// First address blocks may have; 0 where the subject takes its own pages.
    pub start: usize,
    /// One past the last address of the region; `usize::MAX` where the subject takes its own pages.
    pub end: usize,
    /// Address of the region the heap lives in.
    pub region_start: usize,
    /// Bytes of control structure that the subject keeps outside the region, in our memory.
    pub outside_bytes: usize,
    release: adapter::Release,
    region: std::marker::PhantomData<&'region mut Region>,
}

impl<'region> Heap<'region> {
    /// Makes a heap of `subject` in the first `bytes` bytes of `region`; a subject with its own pages ignores both.
    ///
    /// # Errors
    ///
    /// [`Refusal`] where the region is too small for its control structure.
    pub fn new(subject: &Subject, region: &'region mut Region, bytes: usize) -> Result<Self, Refusal> {
        let bytes = bytes.min(region.len());
        let base = region.start();
        // SAFETY: `base..base + bytes` is mapped memory that this heap borrows exclusively for as long as it lives.
        let made = unsafe { (subject.make)(base, bytes) }.map_err(|reason| Refusal { region_bytes: bytes, reason })?;
        let region_start = base as usize;
        let (start, end) =
            if subject.own_pages { (0, usize::MAX) } else { (made.first_block_address, region_start + bytes) };
        Ok(Self {
            entries: subject.entries,
            context: made.context,
            start,
            end,
            region_start,
            outside_bytes: made.outside_bytes,
            release: subject.release,
            region: std::marker::PhantomData,
        })
    }

    /// Bytes of control structure, inside the region and outside.
    #[must_use]
    pub fn control_bytes(&self) -> usize {
        self.start.saturating_sub(self.region_start) + self.outside_bytes
    }
}

impl Drop for Heap<'_> {
    fn drop(&mut self) {
        // SAFETY: `context` came from the `make` that belongs to this `release`, and nobody calls the heap any more.
        unsafe { (self.release)(self.context) };
    }
}

/// Every subject, in table order.
#[must_use]
pub fn all() -> &'static [Subject] {
    ALL
}

use Origin::{Peer, System};

static ALL: &[Subject] = &[
    adapter::ours::<Tlsf<'static>>("tlsf"),
    adapter::ours::<Tlsf<'static, 5, Exact>>("tlsf-exact"),
    adapter::ours::<Tlsf<'static, 5, RoundUp, Offset32, Untallied, Thorough>>("tlsf-thorough"),
    adapter::ours::<HalfFit<'static>>("half-fit"),
    adapter::ours::<FirstFit<'static>>("first-fit"),
    adapter::ours::<AddressOrderedFirstFit<'static>>("first-fit-address"),
    adapter::ours::<BestFit<'static>>("best-fit"),
    adapter::subject::<peers::Rlsf>("rlsf", Peer, "segregated", "O(1)"),
    adapter::subject::<peers::Talc>("talc", Peer, "segregated", "O(n)"),
    adapter::subject::<peers::Dlmalloc>("dlmalloc", Peer, "hybrid", "O(log n)"),
    adapter::subject::<peers::BuddySystem>("buddy-system", Peer, "buddy", "O(log n)"),
    adapter::subject::<peers::LinkedList>("linked-list", Peer, "sequential", "O(n)"),
    adapter::subject::<peers::GoodMemory>("good-memory", Peer, "segregated", "O(n)"),
    adapter::subject::<paged::Mimalloc>("mimalloc", Peer, "hybrid", "unbounded"),
    adapter::subject::<paged::Jemalloc>("jemalloc", Peer, "hybrid", "unbounded"),
    adapter::subject::<paged::SystemMalloc>("system", System, "hybrid", "unbounded"),
];

/// A choice of subjects that names one there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The name is none of a subject or group.
    #[error("there is no allocator {name:?}; there are: {}; and the groups ours, peers, all", names().join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// Everything chosen was excluded again.
    #[error("the choice of allocators is empty; choose from: {}; or ours, peers, all", names().join(", "))]
    Empty,
}

fn names() -> Vec<&'static str> {
    ALL.iter().map(|subject| subject.name).collect()
}

/// Chooses subjects by their names and the groups `ours`, `peers` (everybody else's) and `all`; a leading `-`
/// excludes. A choice that starts with an exclusion starts from all. The result is in table order.
///
/// # Errors
///
/// [`SelectError`]: an unknown name, or nothing left.
pub fn select<S: AsRef<str>>(choice: &[S]) -> Result<Vec<&'static Subject>, SelectError> {
    let starts_full = choice.first().is_none_or(|first| first.as_ref().starts_with('-'));
    let mut chosen = vec![starts_full; ALL.len()];
    for word in choice {
        let word = word.as_ref();
        let (name, include) = word.strip_prefix('-').map_or((word, true), |name| (name, false));
        let mut known = matches!(name, "all" | "ours" | "peers");
        for (subject, chosen) in ALL.iter().zip(&mut chosen) {
            let named = match name {
                "all" => true,
                "ours" => subject.origin == Origin::Ours,
                "peers" => subject.origin != Origin::Ours,
                _ => subject.name == name,
            };
            if named {
                known = true;
                *chosen = include;
            }
        }
        if !known {
            return Err(SelectError::Unknown { name: name.into() });
        }
    }
    let chosen: Vec<_> = ALL.iter().zip(chosen).filter_map(|(subject, chosen)| chosen.then_some(subject)).collect();
    if chosen.is_empty() { Err(SelectError::Empty) } else { Ok(chosen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_include_exclude_and_name_what_there_is() {
        let names = |choice: &[&str]| -> Vec<&str> {
            select(choice).expect("a valid choice").iter().map(|subject| subject.name).collect()
        };
        assert_eq!(names(&[]).len(), ALL.len());
        assert_eq!(names(&["talc", "rlsf"]), ["rlsf", "talc"], "table order");
        assert_eq!(names(&["-talc"]).len(), ALL.len() - 1);
        assert!(!names(&["all", "-talc"]).contains(&"talc"));
        assert!(names(&["peers"]).contains(&"system"));
        assert_eq!(select(&["talc", "-talc"]).unwrap_err(), SelectError::Empty);
        let message = select(&["tlfs"]).unwrap_err().to_string();
        assert!(message.contains("tlfs") && ALL.iter().all(|subject| message.contains(subject.name)), "{message}");
    }

    #[test]
    fn names_are_unique_and_no_groups() {
        let mut names = names();
        names.extend(["all", "ours", "peers"]);
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
