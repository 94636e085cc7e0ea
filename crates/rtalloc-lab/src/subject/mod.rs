//! The allocators under test: ours, and the peers published as crates.
//!
//! A [`Subject`] is facts plus a way to make a [`Heap`]. A heap is a context pointer and four entry points with the
//! C calling convention, called through a pointer for everyone alike ([`Entries`]): what is measured is one indirect
//! call into the allocator, compiled into one function per operation, which is what a program that links it calls.
//!
//! To add an allocator: implement [`adapter::Target`] (ours: nothing, `adapter::Ours` does), and add a line to the
//! table in this file.

pub(crate) mod adapter;
pub(crate) mod alone;
mod card;
pub(crate) mod compact_fit;
mod counted;
pub(crate) mod handles;
mod notes;
mod paged;
mod peers;
mod region;
pub mod shared;

use crate::result::schema::{Origin, SubjectFacts};
use pathbound::image::Process;
use rtalloc::bitmapped::bitframe::{
    BITFRAME_PAGE, Bitframe, Bitframe4, Bitframe16, BitframeCrossing, BitframeEager, Lazy,
};
use rtalloc::contract::{Block, Contract};
use rtalloc::mechanism::frame::Frames;
use rtalloc::mechanism::scrutiny::Thorough;
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::tally::Untallied;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, ClassRegions, DoubleBuddy, FastFit, FibonacciBuddy, FirstFit,
    HalfFit, Kingsley, LeftmostFastFit, LifoNextFit, NextFit, QuickFit, Reaps, SimpleSegregated, SingleRegion,
    ThesisBuddy, Tlsf, TreeBestFit, WeightedBuddy,
};
use std::ffi::c_void;
use std::sync::OnceLock;

pub use adapter::{Ours, Target};
pub use card::{card, control};
pub use counted::{CountError, Counted};
pub use handles::Handles;
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
    /// Allocates at [`natural_align_bytes`](Self::natural_align_bytes), C's `malloc`: a constant for the compiler.
    pub allocate: AllocateEntry,
    /// Allocates at a larger alignment, C's `aligned_alloc`.
    pub allocate_aligned: AllocateEntry,
    /// Deallocates.
    pub deallocate: DeallocateEntry,
    /// Reallocates.
    pub reallocate: ReallocateEntry,
    /// Tells granted sizes; never measured. `None`: the requested size.
    pub granted: Option<GrantedEntry>,
    /// Alignment that every block has without being asked, at most [`NATURAL_ALIGN_BYTES`]: less than that where the
    /// allocator's quantum is smaller. A trace's own alignment is asked for where it is larger.
    pub natural_align_bytes: usize,
    /// Where objects move: blocks are handles' bits instead of addresses. Never counted.
    pub handles: Option<Handles>,
}

impl Entries {
    /// The entry point that serves requests at `align` bytes.
    #[inline(always)]
    #[must_use]
    pub fn allocate_at(&self, align: usize) -> AllocateEntry {
        if self.is_natural(align) { self.allocate } else { self.allocate_aligned }
    }

    /// Whether every block is aligned to `align` bytes without being asked.
    #[inline(always)]
    #[must_use]
    pub fn is_natural(&self, align: usize) -> bool {
        align <= self.natural_align_bytes
    }
}

/// What an allocator serves at the most, however large its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Largest request, in bytes.
    pub request_bytes: usize,
    /// Largest alignment, in bytes.
    pub alignment_bytes: usize,
}

impl Reach {
    /// The region alone decides.
    pub const UNLIMITED: Self = Self { request_bytes: usize::MAX, alignment_bytes: usize::MAX };

    /// Whether a request is one that no heap of this allocator serves.
    #[inline(always)]
    #[must_use]
    pub fn is_beyond(&self, size: usize, align: usize) -> bool {
        size > self.request_bytes || align > self.alignment_bytes
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
    /// What it never serves.
    pub reach: Reach,
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
        let limit = |bytes: usize| (bytes != usize::MAX).then_some(bytes as u64);
        SubjectFacts {
            name: self.name.into(),
            origin: self.origin,
            family: self.family.into(),
            cost: self.cost.into(),
            largest_request_bytes: limit(self.reach.request_bytes),
            largest_alignment_bytes: limit(self.reach.alignment_bytes),
            read_instructions: self.read_instructions(),
        }
    }
}

impl Subject {
    /// Instructions to read a byte of an object, where objects have handles and instructions can be counted.
    #[must_use]
    pub fn read_instructions(&self) -> Option<u64> {
        static PROCESS: OnceLock<Option<Process>> = OnceLock::new();
        self.entries.handles?;
        handles::counted_read(PROCESS.get_or_init(|| Process::current().ok()).as_ref()?, Some(self)).ok()
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
    /// What the subject never serves.
    pub reach: Reach,
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
        Self::within(subject, region, 0, bytes)
    }

    /// Makes a heap of `subject` in the `bytes` bytes of `region` from `offset` on, or as many as there are. Peers take regions that
    /// begin with a page.
    ///
    /// # Errors
    ///
    /// As [`Heap::new`].
    pub fn within(
        subject: &Subject,
        region: &'region mut Region,
        offset: usize,
        bytes: usize,
    ) -> Result<Self, Refusal> {
        let offset = offset.min(region.len());
        let bytes = bytes.min(region.len() - offset);
        if subject.origin != Origin::Ours && !offset.is_multiple_of(4096) {
            return Err(Refusal { region_bytes: bytes, reason: "the region does not begin with a page".into() });
        }
        let base = region.start().wrapping_add(offset);
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
            reach: subject.reach,
            release: subject.release,
            region: std::marker::PhantomData,
        })
    }

    /// The contiguous pieces of a live block, where they are now: address and length, in the order of its bytes.
    pub fn pieces(&self, block: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (context, handles) = (self.context, self.entries.handles);
        let piece = handles.map_or(usize::MAX, |handles| handles.piece_bytes);
        (0..size.div_ceil(piece)).map(move |index| {
            let offset = index * piece;
            let address = handles.map_or(block, |handles| {
                // SAFETY: the block is live, and longer than the offset.
                unsafe { (handles.dereference)(context, block as *mut u8, offset) as usize }
            });
            (address, piece.min(size - offset))
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

/// What the main job shows: few enough for one table and one minute, and every decision one might take among them. Of each
/// family the best known: TLSF and half-fit for constant time, best-fit for memory, ... Of the peers those that people
/// would otherwise take: the best published TLSF, the two general allocators without an operating system, the one
/// that is fastest on average, and what every program has already.
const DOZEN: [&str; 12] = [
    "tlsf",
    "half-fit",
    "best-fit",
    "tree-best-fit",
    "binary-buddy",
    "bitframe",
    "reaps",
    "rlsf",
    "talc",
    "dlmalloc",
    "mimalloc",
    "system",
];

static ALL: &[Subject] = &[
    adapter::ours::<Tlsf<'static>>("tlsf"),
    adapter::ours::<Tlsf<'static, 5, Exact>>("tlsf-exact"),
    adapter::ours::<Tlsf<'static, 5, RoundUp, Offset32, Untallied, Thorough>>("tlsf-thorough"),
    adapter::ours::<HalfFit<'static>>("half-fit"),
    adapter::ours::<QuickFit<'static>>("quick-fit"),
    adapter::ours::<SimpleSegregated<'static>>("simple-segregated"),
    adapter::ours::<SimpleSegregated<'static, 8, 65>>("simple-segregated-8"),
    adapter::ours::<Kingsley<'static>>("kingsley"),
    adapter::ours::<FirstFit<'static>>("first-fit"),
    adapter::ours::<AddressOrderedFirstFit<'static>>("first-fit-address"),
    adapter::ours::<NextFit<'static>>("next-fit"),
    adapter::ours::<LifoNextFit<'static>>("next-fit-lifo"),
    adapter::ours::<BestFit<'static>>("best-fit"),
    adapter::ours::<TreeBestFit<'static>>("tree-best-fit"),
    adapter::ours::<FastFit<'static>>("fast-fit"),
    adapter::ours::<LeftmostFastFit<'static>>("fast-fit-leftmost"),
    adapter::ours::<BinaryBuddy<'static>>("binary-buddy"),
    adapter::ours::<ThesisBuddy<'static>>("bbuddy"),
    adapter::ours::<FibonacciBuddy<'static>>("fibonacci-buddy"),
    adapter::ours::<WeightedBuddy<'static>>("weighted-buddy"),
    adapter::ours::<DoubleBuddy<'static>>("double-buddy"),
    adapter::ours::<Bitframe<'static>>("bitframe"),
    adapter::ours::<Bitframe<'static, Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, 8>>("bitframe-8"),
    adapter::ours::<BitframeEager<'static>>("bitframe-eager"),
    adapter::ours::<Bitframe16<'static>>("bitframe-16"),
    adapter::ours::<Bitframe4<'static>>("bitframe-4"),
    adapter::ours::<BitframeCrossing<'static>>("bitframe-crossing"),
    adapter::ours::<SingleRegion<'static>>("regis1"),
    adapter::ours::<SingleRegion<'static, 1024, 8>>("regis1-8"),
    adapter::ours::<ClassRegions<'static>>("regis2"),
    adapter::ours::<ClassRegions<'static, 1024, 8>>("regis2-8"),
    adapter::ours::<Reaps<'static>>("reaps"),
    adapter::ours::<Reaps<'static, 1024, 8>>("reaps-8"),
    compact_fit::NAMED[0],
    compact_fit::NAMED[1],
    compact_fit::NAMED[2],
    compact_fit::NAMED[3],
    compact_fit::NAMED[4],
    compact_fit::NAMED[5],
    alone::NAMED[0],
    alone::NAMED[1],
    alone::NAMED[2],
    alone::NAMED[3],
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
    #[error("there is no allocator {name:?}; {}", instead(name))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// The name is that of a group where one allocator is wanted.
    #[error("{name:?} is a group; name one allocator: {}", members(name))]
    Group {
        /// What was asked for.
        name: String,
    },
    /// Everything chosen was excluded again.
    #[error("the choice of allocators is empty; {}", instead(""))]
    Empty,
}

/// The names of a group.
fn members(group: &str) -> String {
    let members: Vec<&str> = ALL.iter().filter(|subject| subject.is_named(group)).map(|subject| subject.name).collect();
    members.join(", ")
}

/// Names to choose from: those like `name`, or where to find them.
fn instead(name: &str) -> String {
    let similar = similar(name);
    if similar.is_empty() {
        "`rtalloc allocators` lists them".into()
    } else {
        format!("did you mean {}? `rtalloc allocators` lists all", similar.join(" or "))
    }
}

/// The names and groups that `name` may have been meant for: at most two letters away, or a part of it, the nearest first. Case does
/// not matter, nor do hyphens, underscores and spaces.
#[must_use]
pub fn similar(name: &str) -> Vec<&'static str> {
    let letters = |text: &str| text.replace(['-', '_', ' '], "").to_lowercase();
    let name = letters(name);
    if name.is_empty() {
        return Vec::new();
    }
    let mut near: Vec<(usize, &str)> = names()
        .into_iter()
        .chain(groups())
        .filter_map(|known| {
            let plain = letters(known);
            let distance = distance(&name, &plain);
            let part = name.len() >= 3 && (plain.contains(&name) || name.contains(&plain));
            (part || distance <= 2.min(plain.len() / 2)).then_some((distance, known))
        })
        .collect();
    near.sort_unstable();
    near.truncate(4);
    near.into_iter().map(|(_, known)| known).collect()
}

/// Letters to change, insert, remove or swap with their neighbour to make one word of the other.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut rows = vec![vec![0; right.len() + 1]; left.len() + 1];
    for (at, row) in rows.iter_mut().enumerate() {
        row[0] = at;
    }
    rows[0] = (0..=right.len()).collect();
    for i in 1..=left.len() {
        for j in 1..=right.len() {
            let changed = rows[i - 1][j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[left.len()][right.len()]
}

fn names() -> Vec<&'static str> {
    ALL.iter().map(|subject| subject.name).collect()
}

/// Groups by origin, and the chosen dozen.
const GROUPS: [&str; 4] = ["all", "ours", "peers", "dozen"];

/// Every group: those by origin, the dozen, and the families of the field's taxonomy.
#[must_use]
pub fn groups() -> Vec<&'static str> {
    let mut families: Vec<&str> = ALL.iter().map(|subject| subject.family).collect();
    families.sort_unstable();
    families.dedup();
    GROUPS.into_iter().chain(families).collect()
}

impl Subject {
    /// Whether `word` names this subject or a group it is in.
    fn is_named(&self, word: &str) -> bool {
        match word {
            "all" => true,
            "ours" => self.origin == Origin::Ours,
            "peers" => self.origin != Origin::Ours,
            "dozen" => DOZEN.contains(&self.name),
            _ => self.name == word || self.family == word,
        }
    }
}

/// Chooses subjects by their names and [`groups`]; a leading `-` excludes. A choice that starts with an exclusion starts
/// from all. The result is in table order.
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
        let mut known = GROUPS.contains(&name);
        for (subject, chosen) in ALL.iter().zip(&mut chosen) {
            if subject.is_named(name) {
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

/// The subject of this name.
///
/// # Errors
///
/// [`SelectError`]: an unknown name, or a group's.
pub fn one(name: &str) -> Result<&'static Subject, SelectError> {
    if let Some(subject) = ALL.iter().find(|subject| subject.name == name) {
        return Ok(subject);
    }
    let known = groups().contains(&name);
    let name = name.to_string();
    Err(if known { SelectError::Group { name } } else { SelectError::Unknown { name } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_group() {
        assert_eq!(one("tlsf").map(|subject| subject.name), Ok("tlsf"));
        let group = one("hybrid").unwrap_err().to_string();
        assert!(group.starts_with("\"hybrid\" is a group; name one allocator: dlmalloc, "), "{group}");
        assert_eq!(one("-tlsf").unwrap_err(), SelectError::Unknown { name: "-tlsf".into() });
    }

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
        assert!(names(&["sequential"]).contains(&"first-fit") && names(&["sequential"]).contains(&"linked-list"));
        assert_eq!(select(&["talc", "-talc"]).unwrap_err(), SelectError::Empty);
        let message = select(&["quetzalcoatl"]).unwrap_err().to_string();
        assert_eq!(message, "there is no allocator \"quetzalcoatl\"; `rtalloc allocators` lists them");
    }

    #[test]
    fn a_misspelt_name_is_recognised() {
        let message = select(&["tlfs"]).unwrap_err().to_string();
        assert!(message.contains("\"tlfs\"; did you mean tlsf"), "{message}");
        assert_eq!(similar("dlmaloc"), ["dlmalloc"]);
        assert_eq!(similar("best_fit").first(), Some(&"best-fit"));
        assert_eq!(similar("Tree Best Fit").first(), Some(&"tree-best-fit"));
        assert_eq!(similar("TLSF").first(), Some(&"tlsf"));
        assert_eq!(similar("HALFFIT").first(), Some(&"half-fit"));
        assert!(similar("zzzzzzzz").is_empty());
        assert_eq!((distance("tlsf", "tlsf"), distance("tlfs", "tlsf"), distance("", "abc")), (0, 1, 3));
    }

    #[test]
    fn names_are_unique_and_no_groups() {
        let mut names = names();
        names.extend(groups());
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_dozen_are_twelve_of_every_family_we_have() {
        let dozen = select(&["dozen"]).expect("twelve");
        assert_eq!(dozen.len(), DOZEN.len());
        let families = |of: &[&Subject]| -> std::collections::BTreeSet<&str> {
            of.iter().filter(|subject| subject.origin == Origin::Ours).map(|subject| subject.family).collect()
        };
        // Whose objects have handles takes nobody's place in a program as it is.
        let pointers: Vec<&Subject> = ALL.iter().filter(|subject| subject.entries.handles.is_none()).collect();
        assert_eq!(families(&dozen), families(&pointers));
    }
}
