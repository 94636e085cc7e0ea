//! Combinations of what an operation finds, built one by one.
//!
//! What an operation of a segregated fit executes depends on a few things: which neighbours are free, whether a block
//! that is taken out of its list was the last of the list, or of its power-of-two range, whether the list it is put in
//! was empty, whether a remainder is large enough to be a block. Each [`Case`] arranges them on a fresh heap and ends
//! with the operation it is about:
//!
//! ```text
//! company's blocks and fences ...  [fence][free 208][own 5008][free 1104][fence] rest of the heap
//! ```
//!
//! Everything is said in requested sizes, so the cases are the same for every allocator; how its lists divide sizes
//! they do not know. So sizes are spread over many powers of two, four apart at least where two blocks are not meant to
//! meet; blocks that shall be in one list are asked for with one size or made by the same steps; and remainders are
//! computed for headers of up to 16 bytes, which every size leaves room for.

use super::script::Slot;
use super::{Meter, Observation, ObserveError, Script, Stage};
use rtalloc_subjects::NATURAL_ALIGN_BYTES;
use std::fmt;

/// Bytes of every heap.
pub const HEAP_BYTES: usize = 1 << 20;

/// Sizes of blocks in bytes: the smallest, one that many allocators keep an exact list for, the lower end of two-level
/// classes, and large ones. All are 16 more than a multiple of 32, so that with a header of 16 bytes or less
/// they fill whole granules of 16 and of 32.
const SIZES: [usize; 6] = [16, 208, 1104, 5008, 20_016, 70_032];
/// Room for a header and rounding.
const HEADER_BYTES: usize = 16;
/// Sizes of requests in bytes: those of blocks, and some that are no class's boundary.
const REQUESTS: [usize; 12] = [1, 16, 200, 208, 1000, 1104, 2000, 5008, 9000, 20_016, 50_000, 70_032];
/// Large alignments in bytes.
const ALIGNS: [usize; 5] = [32, 64, 256, 4096, 1 << 14];

/// Which other free blocks there are when a block is in its list, or is put there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// None is prepared: alone in its list and its power-of-two range.
    Alone,
    /// One of the same size, freed before it.
    Older,
    /// One of the same size, freed after it.
    Younger,
    /// Both.
    Both,
    /// One of another size in the same power-of-two range, freed before it.
    Range,
}

impl Company {
    /// For a block that stands in a list.
    const LISTED: [Self; 5] = [Self::Alone, Self::Older, Self::Younger, Self::Both, Self::Range];
    /// For a block that comes into being: what is freed after it does not exist.
    const NEW: [Self; 3] = [Self::Alone, Self::Older, Self::Range];
}

impl fmt::Display for Company {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "alone",
            Self::Older => "in a list with an older one",
            Self::Younger => "in a list with a younger one",
            Self::Both => "in a list between two",
            Self::Range => "in a range with another",
        })
    }
}

/// What is beside a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// A live block.
    Live,
    /// Nothing: the block is the heap's first, or the last one before the rest of the heap.
    Edge,
    /// A free block.
    Free {
        /// Its requested size.
        size: usize,
        /// Who is in its list.
        company: Company,
    },
}

impl Neighbour {
    /// Requested size, if free.
    pub(super) fn free_size(self) -> Option<usize> {
        match self {
            Self::Free { size, .. } => Some(size),
            Self::Live | Self::Edge => None,
        }
    }
}

impl fmt::Display for Neighbour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("a live block"),
            Self::Edge => f.write_str("the heap's edge"),
            Self::Free { size, company } => write!(f, "a free block of {size} B ({company})"),
        }
    }
}

/// A block between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In front of it.
    pub before: Neighbour,
    /// Its requested size.
    pub own: usize,
    /// Its requested alignment.
    pub align: usize,
    /// Behind it.
    pub after: Neighbour,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B between {} and {}", self.own, self.before, self.after)
    }
}

/// A free block to be found; `None`: the rest of the heap.
type Hole = Option<(usize, Company)>;

/// What is arranged, and the operation that is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A free.
    Deallocate {
        /// The block and its neighbours.
        place: Place,
        /// Who is in the list of the block that comes of it.
        merged: Company,
    },
    /// An allocation.
    Allocate {
        /// The free block that serves it.
        hole: Hole,
        /// Requested size.
        request: usize,
        /// Who is in the list of what the block leaves.
        rest: Company,
        /// Whether the rest of the heap is live.
        full: bool,
    },
    /// An allocation at a large alignment.
    AllocateAligned {
        /// Bytes of a live block in front of the free one, which shift it.
        pad: usize,
        /// The free block that serves it.
        hole: Hole,
        /// Requested size.
        request: usize,
        /// Requested alignment.
        align: usize,
        /// A free block of this size that may be in the list of the gap; 0: none.
        gap: usize,
        /// Who is in the list of what the block leaves.
        rest: Company,
    },
    /// A reallocation.
    Reallocate {
        /// The block and its neighbours.
        place: Place,
        /// Requested size.
        new: usize,
        /// Who is in the list of what the block leaves.
        rest: Company,
    },
    /// A request that no heap, or no full heap, can serve.
    Refused {
        /// Whether everything is live.
        full: bool,
        /// Size of the block that is to be reallocated, if it is not an allocation.
        own: Option<usize>,
        /// Requested size.
        request: usize,
        /// Requested alignment.
        align: usize,
    },
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Deallocate { place, merged } => write!(f, "{place}; what they become: {merged}"),
            Self::Allocate { hole, rest, full, .. } => {
                write_hole(f, hole)?;
                write!(f, "; what it leaves: {rest}{}", if full { "; all else live" } else { "" })
            }
            Self::AllocateAligned { pad, hole, gap, rest, .. } => {
                write_hole(f, hole)?;
                write!(f, " behind {pad} live B; what it leaves: {rest}, beside a free block of {gap} B")
            }
            Self::Reallocate { place, rest, .. } => write!(f, "{place}; what it leaves: {rest}"),
            Self::Refused { full, .. } => f.write_str(if full { "a full heap" } else { "an empty heap" }),
        }
    }
}

fn write_hole(f: &mut fmt::Formatter<'_>, hole: Hole) -> fmt::Result {
    match hole {
        Some((size, company)) => write!(f, "from a free block of {size} B ({company})"),
        None => f.write_str("from the rest of the heap"),
    }
}

/// Performs every case, and hands every operation to `sink`, those that prepare included. Returns their number.
///
/// # Errors
///
/// [`ObserveError::Refusal`] and [`ObserveError::Fault`].
pub fn drive<M: Meter>(stage: &mut Stage<'_, M>, mut sink: impl FnMut(&Observation<'_>)) -> Result<u64, ObserveError> {
    let mut operations = 0;
    each(&mut |case, script| {
        operations += script.events().len() as u64;
        stage.perform(HEAP_BYTES, script, case, &mut sink)
    })?;
    Ok(operations)
}

/// Visits every case with its operations; the last one is what the case is about.
pub(super) fn each<E>(visit: &mut impl FnMut(&Case, &Script) -> Result<(), E>) -> Result<(), E> {
    let mut script = Script::new();
    let mut visit = |case: Case| {
        script.clear();
        case.write(&mut script);
        visit(&case, &script)
    };
    deallocations(&mut visit)?;
    allocations(&mut visit)?;
    aligned_allocations(&mut visit)?;
    reallocations(&mut visit)?;
    refusals(&mut visit)
}

/// Live, at the edge, and free of some sizes in some company.
fn neighbours<'a>(sizes: &'a [usize], companies: &'a [Company]) -> impl Iterator<Item = Neighbour> + 'a {
    let free = sizes.iter().flat_map(|&size| companies.iter().map(move |&company| Neighbour::Free { size, company }));
    [Neighbour::Live, Neighbour::Edge].into_iter().chain(free)
}

fn deallocations<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    let sizes = &SIZES[..5];
    for before in neighbours(sizes, &Company::LISTED) {
        for after in neighbours(sizes, &Company::LISTED) {
            // Two of one size would keep each other company.
            if before.free_size().is_some() && before.free_size() == after.free_size() {
                continue;
            }
            for own in SIZES {
                for merged in Company::NEW {
                    // What merges with the rest of the heap is of no size that could be prepared.
                    if after != Neighbour::Edge || merged == Company::Alone {
                        let place = Place { before, own, align: NATURAL_ALIGN_BYTES, after };
                        visit(Case::Deallocate { place, merged })?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn allocations<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    for request in REQUESTS {
        visit(Case::Allocate { hole: None, request, rest: Company::Alone, full: false })?;
    }
    for size in SIZES {
        // Besides: all of the block, and all but a remainder that is no block, or the smallest.
        let requests = REQUESTS.into_iter().chain([size - 15, size.saturating_sub(32), size.saturating_sub(64)]);
        for request in requests.filter(|request| (1..=size).contains(request)) {
            for company in Company::LISTED {
                for rest in Company::NEW {
                    for full in [false, true] {
                        visit(Case::Allocate { hole: Some((size, company)), request, rest, full })?;
                    }
                }
            }
        }
    }
    Ok(())
}

fn aligned_allocations<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    for align in ALIGNS {
        for request in [1, 208, 1100, 5008, 20_016] {
            for pad in [1, 33, align / 2 + 1, align - 15] {
                let more = [align / 2, align - 16, align, align + 16, align + 48, 2 * align, 4 * align + request];
                let holes =
                    more.into_iter().flat_map(|more| Company::LISTED.map(|company| Some((request + more, company))));
                for hole in holes.chain([None]) {
                    for gap in [0, 1, align / 2 - 15, align - 31] {
                        for rest in if hole.is_some() { &Company::NEW[..] } else { &[Company::Alone] } {
                            visit(Case::AllocateAligned { pad, hole, request, align, gap, rest: *rest })?;
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn reallocations<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    for before in neighbours(&[208, 5008], &[Company::Alone, Company::Older]) {
        for after in neighbours(&SIZES[..4], &[Company::Alone, Company::Older, Company::Younger, Company::Range]) {
            if before.free_size().is_some() && before.free_size() == after.free_size() {
                continue;
            }
            for own in &SIZES[..5] {
                for align in [NATURAL_ALIGN_BYTES, 256] {
                    let place = Place { before, own: *own, align, after };
                    if !place.is_possible() {
                        continue;
                    }
                    for new in place.new_sizes() {
                        for rest in Company::NEW {
                            // The others differ in what becomes of the rest, which has nothing to do with alignment.
                            if rest == Company::Alone || (!place.is_aligned() && !place.is_lonely()) {
                                visit(Case::Reallocate { place, new, rest })?;
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn refusals<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    let aligns = || [NATURAL_ALIGN_BYTES].into_iter().chain(ALIGNS).chain([HEAP_BYTES / 2, 4 * HEAP_BYTES]);
    let impossible = [HEAP_BYTES / 2, HEAP_BYTES, 2 * HEAP_BYTES, 1 << 40];
    for (full, requests) in [(false, &impossible[..]), (true, &impossible[..]), (true, &REQUESTS[..])] {
        for &request in requests {
            for align in aligns() {
                visit(Case::Refused { full, own: None, request, align })?;
            }
            for own in SIZES {
                for align in [NATURAL_ALIGN_BYTES, 64] {
                    visit(Case::Refused { full, own: Some(own), request, align })?;
                }
            }
        }
    }
    for align in aligns() {
        visit(Case::Refused { full: false, own: None, request: 1, align })?;
    }
    Ok(())
}

/// Blocks that keep another one company.
#[derive(Clone, Copy)]
struct Companions {
    older: Option<Slot>,
    younger: Option<Slot>,
}

impl Companions {
    const NONE: Self = Self { older: None, younger: None };

    /// Allocates company for a block that is asked for with `size`.
    fn invite(script: &mut Script, size: usize, company: Company) -> Self {
        let mut block = |wanted: bool| wanted.then(|| script.fenced(size));
        match company {
            Company::Alone => Self::NONE,
            Company::Older => Self { older: block(true), younger: None },
            Company::Younger => Self { older: None, younger: block(true) },
            Company::Both => Self { older: block(true), younger: block(true) },
            Company::Range => Self { older: Some(script.fenced(other_in_range(size))), younger: None },
        }
    }

    fn of_neighbour(script: &mut Script, neighbour: Neighbour) -> Self {
        match neighbour {
            Neighbour::Free { size, company } => Self::invite(script, size, company),
            Neighbour::Live | Neighbour::Edge => Self::NONE,
        }
    }
}

fn deallocate_all(script: &mut Script, slots: impl IntoIterator<Item = Option<Slot>>) {
    for slot in slots.into_iter().flatten() {
        script.deallocate(slot);
    }
}

/// A size whose block is in the power-of-two range of `size`'s, about an eighth larger or smaller.
fn other_in_range(size: usize) -> usize {
    let block = (size + HEADER_BYTES).next_multiple_of(HEADER_BYTES);
    let step = (block / 8).next_multiple_of(HEADER_BYTES);
    let other = if (block + step).ilog2() == block.ilog2() { block + step } else { block - step };
    other - HEADER_BYTES
}

/// Requested size of the block that remains of one of `size` bytes when a request is served from it, if one
/// does.
fn left_by(size: usize, request: usize) -> Option<usize> {
    let whole = request / HEADER_BYTES * HEADER_BYTES + HEADER_BYTES;
    size.checked_sub(whole).map(|left| left.max(1))
}

/// The blocks of a place, allocated.
struct Placed {
    before: Option<Slot>,
    own: Slot,
    after: Option<Slot>,
    companions: [Companions; 2],
}

impl Placed {
    /// Frees the neighbours and their company, in the order that the company asks for.
    fn open(&self, script: &mut Script) {
        deallocate_all(script, self.companions.map(|companions| companions.older));
        deallocate_all(script, [self.before, self.after]);
        deallocate_all(script, self.companions.map(|companions| companions.younger));
    }
}

impl Place {
    /// Allocates the place and its company; `others` allocates what else there is, away from the edges.
    fn write<T>(self, script: &mut Script, others: impl FnOnce(&mut Script) -> T) -> (Placed, T) {
        let row = if self.before == Neighbour::Edge {
            Some(self.row(script))
        } else {
            script.fence();
            None
        };
        let companions = [self.before, self.after].map(|neighbour| Companions::of_neighbour(script, neighbour));
        let others = others(script);
        let (before, own, after) = row.unwrap_or_else(|| self.row(script));
        (Placed { before, own, after, companions }, others)
    }

    /// The block and its neighbours, one behind the other.
    fn row(self, script: &mut Script) -> (Option<Slot>, Slot, Option<Slot>) {
        let before = self.before.free_size().map(|size| script.allocate(size));
        let own = script.allocate_aligned(self.own, self.align);
        let after = self.after.free_size().map(|size| script.allocate(size));
        if self.after != Neighbour::Edge {
            // Too large for the gap that alignment may have left in front of the block.
            script.allocate(if self.is_aligned() { self.align } else { 1 });
        }
        (before, own, after)
    }

    /// Whether the block has a large alignment, so that there may be a gap in front of it.
    pub(super) const fn is_aligned(self) -> bool {
        self.align > NATURAL_ALIGN_BYTES
    }

    /// Whether what is said of the place can be so: a gap that alignment leaves takes whatever is small enough for it,
    /// and is in front of the block.
    fn is_possible(self) -> bool {
        let fits_gap = self.after.free_size().is_some_and(|size| size < self.align);
        !self.is_aligned() || (self.before != Neighbour::Edge && !fits_gap)
    }

    /// Whether the block is the only one, so that there can be no company.
    const fn is_lonely(self) -> bool {
        matches!((self.before, self.after), (Neighbour::Edge, Neighbour::Edge))
    }

    /// Requested size of a block as large as the neighbours and the block together.
    fn merged_size(self) -> usize {
        let neighbours = [self.before, self.after].into_iter().filter_map(Neighbour::free_size);
        self.own + neighbours.map(|size| size + HEADER_BYTES).sum::<usize>()
    }

    /// Sizes for a reallocation: smaller, the same, into the next block with a rest and without, into the previous one,
    /// beyond both, and beyond the heap.
    fn new_sizes(self) -> Vec<usize> {
        let own = self.own;
        let after = self.after.free_size().map_or(0, |size| size + HEADER_BYTES);
        let mut sizes = vec![
            1,
            own / 2,
            own.saturating_sub(32),
            own - 15,
            own,
            own + 16,
            (own + after).saturating_sub(32),
            own + after,
            own + after + 1,
            self.merged_size(),
            3 * self.merged_size() + 100,
            HEAP_BYTES,
        ];
        sizes.sort_unstable();
        sizes.dedup();
        sizes.retain(|&size| size != 0);
        sizes
    }
}

impl Case {
    /// Writes down the operations.
    fn write(self, script: &mut Script) {
        match self {
            Self::Deallocate { place, merged } => {
                let (placed, twin) = place.write(script, |script| Twin::write(script, place, merged));
                twin.open(script);
                placed.open(script);
                script.deallocate(placed.own);
            }
            Self::Allocate { hole, request, rest, full } => {
                script.fence();
                let found = Found::write(script, hole, request, rest, None);
                if full {
                    script.fill(HEAP_BYTES);
                }
                found.open(script);
                script.allocate(request);
            }
            Self::AllocateAligned { pad, hole, request, align, gap, rest } => {
                script.fence();
                let beside = (gap != 0).then(|| script.fenced(gap));
                let found = Found::write(script, hole, request, rest, Some(pad));
                deallocate_all(script, [beside]);
                found.open(script);
                script.allocate_aligned(request, align);
            }
            Self::Reallocate { place, new, rest } => {
                let all = place.own + place.after.free_size().map_or(0, |size| size + HEADER_BYTES);
                let left = left_by(all, new);
                let (placed, companions) = place.write(script, |script| {
                    left.map_or(Companions::NONE, |left| Companions::invite(script, left, rest))
                });
                deallocate_all(script, [companions.older]);
                placed.open(script);
                script.reallocate(placed.own, new);
            }
            Self::Refused { full, own, request, align } => {
                let own = own.map(|own| script.allocate_aligned(own, align));
                if full {
                    script.fill(HEAP_BYTES);
                }
                match own {
                    Some(own) => script.reallocate(own, request),
                    None => {
                        script.allocate_aligned(request, align);
                    }
                }
            }
        }
    }
}

/// What keeps a merged block company: its like, made by the same steps, or one block of about its size.
enum Twin {
    Nobody,
    Block(Slot),
    Row(Option<Slot>, Slot, Option<Slot>),
}

impl Twin {
    fn write(script: &mut Script, place: Place, company: Company) -> Self {
        match company {
            Company::Range => Self::Block(script.fenced(other_in_range(place.merged_size()))),
            Company::Older => {
                let (before, own, after) = place.row(script);
                Self::Row(before, own, after)
            }
            Company::Alone | Company::Younger | Company::Both => Self::Nobody,
        }
    }

    fn open(&self, script: &mut Script) {
        match *self {
            Self::Nobody => {}
            Self::Block(slot) => script.deallocate(slot),
            Self::Row(before, own, after) => deallocate_all(script, [before, after, Some(own)]),
        }
    }
}

/// A free block to be found, and who is in its list and in that of its remainder; allocated.
struct Found {
    hole: Option<Slot>,
    companions: Companions,
    rest: Companions,
}

impl Found {
    fn write(script: &mut Script, hole: Hole, request: usize, rest: Company, pad: Option<usize>) -> Self {
        let mut found = Self { hole: None, companions: Companions::NONE, rest: Companions::NONE };
        if let Some((size, company)) = hole {
            found.companions = Companions::invite(script, size, company);
            if let Some(left) = left_by(size, request) {
                found.rest = Companions::invite(script, left, rest);
            }
        }
        if let Some(pad) = pad {
            script.allocate(pad);
        }
        found.hole = hole.map(|(size, _)| script.fenced(size));
        found
    }

    /// Frees all of it, in the order that the company asks for.
    fn open(&self, script: &mut Script) {
        deallocate_all(script, [self.rest.older, self.companions.older, self.hole, self.companions.younger]);
    }
}
