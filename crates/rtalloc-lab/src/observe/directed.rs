//! Combinations of the circumstances of an operation, built one by one.
//!
//! The path that an operation of a segregated fit executes depends on a few circumstances: which neighbours are free,
//! whether a block that is unlinked was the last of its list, or of its power-of-two range, whether the list it is
//! linked into was empty, whether a remainder is large enough to be a block. Each [`Case`] arranges them on a fresh
//! heap and ends with the operation under test:
//!
//! ```text
//! other blocks and fences ...      [fence][free 208][own 5008][free 1104][fence] rest of the heap
//! ```
//!
//! All sizes are requested sizes, so the cases are the same for every allocator; they do not depend on how its lists
//! divide sizes. Hence sizes are spread over many powers of two, at least four apart where two blocks must not share a
//! list; blocks that must share a list are requested with one size or made by the same steps; and remainders are
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
/// Sizes of requests in bytes: those of blocks, and some that are not class boundaries.
const REQUESTS: [usize; 12] = [1, 16, 200, 208, 1000, 1104, 2000, 5008, 9000, 20_016, 50_000, 70_032];
/// Large alignments in bytes.
const ALIGNS: [usize; 5] = [32, 64, 256, 4096, 1 << 14];

/// Which other free blocks are in a block's list or power-of-two range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListState {
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

impl ListState {
    /// For a block that is in a list.
    const LISTED: [Self; 5] = [Self::Alone, Self::Older, Self::Younger, Self::Both, Self::Range];
    /// For a block that is created: nothing is freed after it.
    const NEW: [Self; 3] = [Self::Alone, Self::Older, Self::Range];
}

impl fmt::Display for ListState {
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

/// What is next to a block.
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
        /// The other blocks of its list.
        list_state: ListState,
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
            Self::Free { size, list_state } => write!(f, "a free block of {size} B ({list_state})"),
        }
    }
}

/// A block between two neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Before it.
    pub before: Neighbour,
    /// Its requested size.
    pub own: usize,
    /// Its requested alignment.
    pub align: usize,
    /// After it.
    pub after: Neighbour,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B between {} and {}", self.own, self.before, self.after)
    }
}

/// A free block that serves the request; `None`: the rest of the heap.
type Hole = Option<(usize, ListState)>;

/// A test case: the arrangement, and the operation that is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// A free.
    Deallocate {
        /// The block and its neighbours.
        place: Place,
        /// The other blocks in the list of the merged block.
        merged: ListState,
    },
    /// An allocation.
    Allocate {
        /// The free block that serves it.
        hole: Hole,
        /// Requested size.
        request: usize,
        /// The other blocks in the list of the remainder.
        rest: ListState,
        /// Whether the rest of the heap is live.
        full: bool,
    },
    /// An allocation at a large alignment.
    AllocateAligned {
        /// Bytes of a live block before the free one, which shift it.
        pad: usize,
        /// The free block that serves it.
        hole: Hole,
        /// Requested size.
        request: usize,
        /// Requested alignment.
        align: usize,
        /// Size of a free block that may be in the list of the alignment gap; 0: none.
        gap: usize,
        /// The other blocks in the list of the remainder.
        rest: ListState,
    },
    /// A reallocation.
    Reallocate {
        /// The block and its neighbours.
        place: Place,
        /// Requested size.
        new: usize,
        /// The other blocks in the list of the remainder.
        rest: ListState,
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
            Self::Deallocate { place, merged } => write!(f, "{place}; the merged block: {merged}"),
            Self::Allocate { hole, rest, full, .. } => {
                write_hole(f, hole)?;
                write!(f, "; the remainder: {rest}{}", if full { "; everything else live" } else { "" })
            }
            Self::AllocateAligned { pad, hole, gap, rest, .. } => {
                write_hole(f, hole)?;
                write!(f, " after {pad} live B; the remainder: {rest}, with a free block of {gap} B")
            }
            Self::Reallocate { place, rest, .. } => write!(f, "{place}; the remainder: {rest}"),
            Self::Refused { full, .. } => f.write_str(if full { "a full heap" } else { "an empty heap" }),
        }
    }
}

fn write_hole(f: &mut fmt::Formatter<'_>, hole: Hole) -> fmt::Result {
    match hole {
        Some((size, list_state)) => write!(f, "from a free block of {size} B ({list_state})"),
        None => f.write_str("from the rest of the heap"),
    }
}

/// Performs every case, and passes every operation to `sink`, including the preparing ones. Returns their number.
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

/// Visits every case with its operations; the last one is the operation under test.
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

/// Live, at the edge, and free with some sizes and list states.
fn neighbours<'a>(sizes: &'a [usize], list_states: &'a [ListState]) -> impl Iterator<Item = Neighbour> + 'a {
    let free =
        sizes.iter().flat_map(|&size| list_states.iter().map(move |&list_state| Neighbour::Free { size, list_state }));
    [Neighbour::Live, Neighbour::Edge].into_iter().chain(free)
}

fn deallocations<E>(visit: &mut impl FnMut(Case) -> Result<(), E>) -> Result<(), E> {
    let sizes = &SIZES[..5];
    for before in neighbours(sizes, &ListState::LISTED) {
        for after in neighbours(sizes, &ListState::LISTED) {
            // Two of one size would be in the same list.
            if before.free_size().is_some() && before.free_size() == after.free_size() {
                continue;
            }
            for own in SIZES {
                for merged in ListState::NEW {
                    // A block that merges with the rest of the heap has a size that cannot be prepared.
                    if after != Neighbour::Edge || merged == ListState::Alone {
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
        visit(Case::Allocate { hole: None, request, rest: ListState::Alone, full: false })?;
    }
    for size in SIZES {
        // In addition: the whole block, and all but a remainder that is too small for a block, or the smallest.
        let requests = REQUESTS.into_iter().chain([size - 15, size.saturating_sub(32), size.saturating_sub(64)]);
        for request in requests.filter(|request| (1..=size).contains(request)) {
            for list_state in ListState::LISTED {
                for rest in ListState::NEW {
                    for full in [false, true] {
                        visit(Case::Allocate { hole: Some((size, list_state)), request, rest, full })?;
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
                let holes = more
                    .into_iter()
                    .flat_map(|more| ListState::LISTED.map(|list_state| Some((request + more, list_state))));
                for hole in holes.chain([None]) {
                    for gap in [0, 1, align / 2 - 15, align - 31] {
                        for rest in if hole.is_some() { &ListState::NEW[..] } else { &[ListState::Alone] } {
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
    for before in neighbours(&[208, 5008], &[ListState::Alone, ListState::Older]) {
        for after in
            neighbours(&SIZES[..4], &[ListState::Alone, ListState::Older, ListState::Younger, ListState::Range])
        {
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
                        for rest in ListState::NEW {
                            // The other cases differ in the remainder, which does not depend on alignment.
                            if rest == ListState::Alone || (!place.is_aligned() && !place.is_isolated()) {
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

/// The other blocks in a block's list.
#[derive(Clone, Copy)]
struct ListMates {
    older: Option<Slot>,
    younger: Option<Slot>,
}

impl ListMates {
    const NONE: Self = Self { older: None, younger: None };

    /// Allocates the other blocks of the list of a block that is requested with `size`.
    fn prepare(script: &mut Script, size: usize, list_state: ListState) -> Self {
        let mut block = |wanted: bool| wanted.then(|| script.fenced(size));
        match list_state {
            ListState::Alone => Self::NONE,
            ListState::Older => Self { older: block(true), younger: None },
            ListState::Younger => Self { older: None, younger: block(true) },
            ListState::Both => Self { older: block(true), younger: block(true) },
            ListState::Range => Self { older: Some(script.fenced(other_in_range(size))), younger: None },
        }
    }

    fn of_neighbour(script: &mut Script, neighbour: Neighbour) -> Self {
        match neighbour {
            Neighbour::Free { size, list_state } => Self::prepare(script, size, list_state),
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

/// Requested size of the remainder of a block of `size` bytes after serving a request, if there is one.
fn left_by(size: usize, request: usize) -> Option<usize> {
    let whole = request / HEADER_BYTES * HEADER_BYTES + HEADER_BYTES;
    size.checked_sub(whole).map(|left| left.max(1))
}

/// The blocks of a place, allocated.
struct Placed {
    before: Option<Slot>,
    own: Slot,
    after: Option<Slot>,
    companions: [ListMates; 2],
}

impl Placed {
    /// Frees the neighbours and the other blocks of their lists, in the order that the list state requires.
    fn open(&self, script: &mut Script) {
        deallocate_all(script, self.companions.map(|companions| companions.older));
        deallocate_all(script, [self.before, self.after]);
        deallocate_all(script, self.companions.map(|companions| companions.younger));
    }
}

impl Place {
    /// Allocates the place and the other blocks of its lists; `others` allocates the remaining blocks, away from the
    /// edges.
    fn write<T>(self, script: &mut Script, others: impl FnOnce(&mut Script) -> T) -> (Placed, T) {
        let row = if self.before == Neighbour::Edge {
            Some(self.row(script))
        } else {
            script.fence();
            None
        };
        let companions = [self.before, self.after].map(|neighbour| ListMates::of_neighbour(script, neighbour));
        let others = others(script);
        let (before, own, after) = row.unwrap_or_else(|| self.row(script));
        (Placed { before, own, after, companions }, others)
    }

    /// The block and its neighbours, in address order.
    fn row(self, script: &mut Script) -> (Option<Slot>, Slot, Option<Slot>) {
        let before = self.before.free_size().map(|size| script.allocate(size));
        let own = script.allocate_aligned(self.own, self.align);
        let after = self.after.free_size().map(|size| script.allocate(size));
        if self.after != Neighbour::Edge {
            // Too large for the gap that alignment may have left before the block.
            script.allocate(if self.is_aligned() { self.align } else { 1 });
        }
        (before, own, after)
    }

    /// Whether the block has a large alignment, so that there may be a gap before it.
    pub(super) const fn is_aligned(self) -> bool {
        self.align > NATURAL_ALIGN_BYTES
    }

    /// Whether the place is possible: an alignment gap serves every request small enough for it, and lies before the
    /// block.
    fn is_possible(self) -> bool {
        let fits_gap = self.after.free_size().is_some_and(|size| size < self.align);
        !self.is_aligned() || (self.before != Neighbour::Edge && !fits_gap)
    }

    /// Whether the block is the only one, so that its list has no others.
    const fn is_isolated(self) -> bool {
        matches!((self.before, self.after), (Neighbour::Edge, Neighbour::Edge))
    }

    /// Requested size of a block as large as the neighbours and the block together.
    fn merged_size(self) -> usize {
        let neighbours = [self.before, self.after].into_iter().filter_map(Neighbour::free_size);
        self.own + neighbours.map(|size| size + HEADER_BYTES).sum::<usize>()
    }

    /// Sizes for a reallocation: smaller, the same, into the next block with a remainder and without, into the previous
    /// one, beyond both, and beyond the heap.
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
    /// Writes the operations to a script.
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
                    left.map_or(ListMates::NONE, |left| ListMates::prepare(script, left, rest))
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

/// The other block in the list of a merged block: an equal one, made by the same steps, or one block of about its size.
enum Twin {
    None,
    Block(Slot),
    Row(Option<Slot>, Slot, Option<Slot>),
}

impl Twin {
    fn write(script: &mut Script, place: Place, list_state: ListState) -> Self {
        match list_state {
            ListState::Range => Self::Block(script.fenced(other_in_range(place.merged_size()))),
            ListState::Older => {
                let (before, own, after) = place.row(script);
                Self::Row(before, own, after)
            }
            ListState::Alone | ListState::Younger | ListState::Both => Self::None,
        }
    }

    fn open(&self, script: &mut Script) {
        match *self {
            Self::None => {}
            Self::Block(slot) => script.deallocate(slot),
            Self::Row(before, own, after) => deallocate_all(script, [before, after, Some(own)]),
        }
    }
}

/// A free block that serves a request, with the others in its list and in that of its remainder; allocated.
struct Found {
    hole: Option<Slot>,
    companions: ListMates,
    rest: ListMates,
}

impl Found {
    fn write(script: &mut Script, hole: Hole, request: usize, rest: ListState, pad: Option<usize>) -> Self {
        let mut found = Self { hole: None, companions: ListMates::NONE, rest: ListMates::NONE };
        if let Some((size, list_state)) = hole {
            found.companions = ListMates::prepare(script, size, list_state);
            if let Some(left) = left_by(size, request) {
                found.rest = ListMates::prepare(script, left, rest);
            }
        }
        if let Some(pad) = pad {
            script.allocate(pad);
        }
        found.hole = hole.map(|(size, _)| script.fenced(size));
        found
    }

    /// Frees all of them, in the order that the list state requires.
    fn open(&self, script: &mut Script) {
        deallocate_all(script, [self.rest.older, self.companions.older, self.hole, self.companions.younger]);
    }
}
