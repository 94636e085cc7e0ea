//! The memory guarantee: how many pages a program can ever need, whatever it allocates and frees in whatever order.
//!
//! A program is described by its live objects at any one time: a number of objects of each size ([`Limits`]), one of
//! several such descriptions ([`pages_of_modes`]), or a number of bytes in objects of a range of sizes
//! ([`pages_of_bytes`]). With the pages computed here, no sequence of allocations and frees within the description is
//! ever refused.
//!
//! | variant | requirement | region |
//! |---|---|---|
//! | [`CompactFit`](super::CompactFit), with [`MovingLimits`] | pages, and [pages of entries](MovingLimits::entry_pages) | [`CompactFit::region_bytes`](super::CompactFit::region_bytes) |
//! | [`CompactFitNonMoving`](super::CompactFitNonMoving), with [`NonMovingLimits`] | virtual pages, and [block-frames](NonMovingLimits::frames) | [`CompactFitNonMoving::region_bytes`](super::CompactFitNonMoving::region_bytes) |
//!
//! # Derivation
//!
//! Size class i has `B` page-blocks per page, `l` live objects now, at most `m` not-full pages (`max_nr_nf_pages`,
//! section 3.4), and at most `h` live objects at any time so far. A page of the class holds at least one object;
//! otherwise it would have been returned. A not-full page holds at least one and at most `B - 1` objects; a full page
//! holds `B`.
//!
//! **From the live objects.** With `n <= m` not-full and `f` full pages, `n + f·B <= l`. One more not-full page costs
//! one object, and at most one full page; so the number of pages is largest when as many as possible are not full:
//!
//! ```text
//! pages(l, m) = n + floor((l - n) / B),   n = min(l, m)            not-full   n · [o...........]
//!                                                                   full       f · [oooooooooooo]
//! ```
//!
//! History does not occur in this formula. That is the guarantee of Compact-fit. No allocator that does not move
//! objects can give it: for these, `m` is unlimited, and `l` objects may keep `l` pages.
//!
//! **From the peak of live objects.** A page is taken for a class only when all its pages are full. These are at most
//! `(h - 1) / B`, because the requested object is one of the `h`. Nothing else adds a page to a class:
//!
//! ```text
//! pages <= ceil(h / B)                                              whatever m is
//! ```
//!
//! So with a separate limit for each class, compaction saves nothing, and [`Limits::pages`] does not depend on `m`. It
//! saves where classes share memory: when one class no longer needs it and another one does. There both bounds hold,
//! and the smaller one counts.
//!
//! **Which requests can be refused.** Only a request that needs a page when all are in use. It needs a page only if all
//! pages of its class are full. After it is served, the class has one page more, and both bounds hold for this state
//! with the new object counted. So if the pages suffice for every state within the description, no request within it is
//! refused.
//!
//! **Bytes.** If the program is described only by its live bytes, class i costs at least `s` bytes per object, the
//! smallest request that it serves. A not-full page costs `s` bytes, and there are at most `m` of them (none if `B` =
//! 1); a full page costs `B·s`. Every page counts the same, so the largest number of pages results from buying the
//! cheapest ones first.
//!
//! **Ranges of sizes.** If the program may choose the size of an object ([`Limit`]), the objects of one limit can be in
//! many classes, each with a page of its own. At most `min(h, m)` pages of a class are not full. An object of class i
//! fills `1 / B` of a full page, and no class that its limit reaches has a smaller `B` than that of the largest request,
//! so full pages are at most `c / B` for the `c` objects of a limit; or, as above, the live bytes over the cheapest full
//! page. This bound and the one from the peaks of the classes both hold.
//!
//! **Entries and frames.** The moving variant takes a page of entries only when all entries of its pages are used:
//! `ceil(h / E)` pages for at most `h` live objects at any time, with `E` entries per page. Block-frames serve every
//! class alike: their number is the peak that the objects have at any one time.
//!
//! # Not included
//!
//! - **A resize** is an allocation followed by a free: the description must allow both sizes to be live at the same
//!   time.
//! - **Pending compaction** ([`pending_bytes`](crate::HandleAllocator::pending_bytes)): a class with pending compaction
//!   has more than `m` not-full pages, so only the bound by the peak of live objects holds, with one object more in
//!   each class: a move in progress holds a second page-block, while the class may take a page.
//! - **Entries whose generations are used up**, each after at least 2^31 objects: a few bytes are lost permanently.

use super::ladder::{DefaultLadder, Framed, Ladder, MAX_CLASSES};
use super::moving;
use crate::contract::AllocError;
use crate::limits::{Limit, largest_bytes, most_objects};
use core::fmt;
use core::marker::PhantomData;

/// Largest number of pages in use of a class with `live` live objects, of which at most `max_not_full_pages` (at least
/// 1) are not full, whatever happened before: `pages(l, m)` in the [derivation](self).
///
/// # Time
///
/// Constant.
pub const fn pages_of_class(live: usize, blocks_per_page: usize, max_not_full_pages: usize) -> usize {
    let not_full = if live < max_not_full_pages { live } else { max_not_full_pages };
    not_full + (live - not_full) / blocks_per_page
}

/// The largest number of live objects of a program, per size class of the ladder `L`; the heap adds `EXTRA` bytes to
/// each object.
///
/// ```
/// use core::mem::MaybeUninit;
/// use rtalloc::compact_fit::guarantee::MovingLimits;
/// use rtalloc::compact_fit::ladder::DefaultLadder;
/// use rtalloc::{CompactFit, HandleAllocator};
///
/// // Never more than 1,000 messages of 100 bytes and 20 buffers of 5,000.
/// let limits = MovingLimits::<DefaultLadder>::NONE.and(1000, 100)?.and(20, 5000)?;
/// // With pages of 16 KiB, 7 hold the messages, and 3 of the buffers fit into one.
/// assert_eq!(limits.pages(), 7 + 7);
///
/// // With the page of their entries: a region in which nothing that the program asks for is ever refused.
/// let pages = limits.pages() + limits.entry_pages();
/// let mut memory = vec![MaybeUninit::uninit(); <CompactFit>::region_bytes(pages)];
/// let mut heap = <CompactFit>::new(&mut memory, Default::default())?;
/// for _ in 0..1000 {
///     heap.allocate(100)?;
/// }
/// for _ in 0..20 {
///     heap.allocate(5000)?;
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Limits<L, const EXTRA: usize = 0> {
    /// Objects of each class.
    objects: [usize; MAX_CLASSES],
    ladder: PhantomData<L>,
}

impl<L, const EXTRA: usize> Clone for Limits<L, EXTRA> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, const EXTRA: usize> Copy for Limits<L, EXTRA> {}

impl<L: Ladder, const EXTRA: usize> fmt::Debug for Limits<L, EXTRA> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let classes = L::TABLE.iter().zip(self.objects).filter(|&(_, objects)| objects != 0);
        f.debug_map().entries(classes.map(|(class, objects)| (class.block_bytes, objects))).finish()
    }
}

impl<L: Ladder, const EXTRA: usize> Limits<L, EXTRA> {
    /// A program without objects.
    pub const NONE: Self = Limits { objects: [0; MAX_CLASSES], ladder: PhantomData };

    /// The same program with `objects` more live objects of `size_bytes` bytes.
    ///
    /// # Errors
    ///
    /// The error with which a heap refuses such a request: [`AllocError::ZeroSize`] or [`AllocError::TooLarge`].
    pub fn and(mut self, objects: usize, size_bytes: usize) -> Result<Self, AllocError> {
        let class = Self::class_of(size_bytes)?;
        if let Some(count) = self.objects.get_mut(class) {
            *count = count.saturating_add(objects);
        }
        Ok(self)
    }

    /// The class that serves a request.
    fn class_of(size_bytes: usize) -> Result<usize, AllocError> {
        match size_bytes {
            0 => Err(AllocError::ZeroSize),
            _ if size_bytes > L::PAGE.saturating_sub(EXTRA) => Err(AllocError::TooLarge),
            // SAFETY: the sum is from 1 to a page.
            _ => Ok(unsafe { L::class_of(size_bytes + EXTRA) }),
        }
    }

    /// The smallest request that a class serves.
    fn smallest_of(class: usize) -> usize {
        let below = class.checked_sub(1).and_then(|below| L::TABLE.get(below)).map_or(0, |below| below.block_bytes);
        (below as usize + 1).saturating_sub(EXTRA).max(1)
    }

    /// The number of every class, page-blocks per page, bytes of a page-block, and objects.
    fn classes(&self) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let classes = L::TABLE.iter().zip(self.objects).take(L::CLASSES).enumerate();
        classes.map(|(number, (class, objects))| (number, class.blocks.into(), class.block_bytes as usize, objects))
    }

    /// Live objects of all classes: the number of abstract addresses ever needed.
    ///
    /// # Time
    ///
    /// Linear in the classes; so are the functions below.
    pub fn objects(&self) -> usize {
        sum(self.classes().map(|(.., objects)| objects))
    }

    /// Bytes of the page-blocks of all these objects.
    pub fn block_bytes(&self) -> usize {
        sum(self.classes().map(|(_, _, block_bytes, objects)| objects.saturating_mul(block_bytes)))
    }

    /// Pages ever needed if each class has its own limit: the sum of `ceil(h / B)`, however many pages may be not full.
    /// With one page fewer, a program that reaches all limits at once is refused.
    pub fn pages(&self) -> usize {
        sum(self.classes().map(|(_, blocks, _, objects)| objects.div_ceil(blocks)))
    }

    /// Largest number of pages in use with these live objects, whatever was live before, if class `i` may have
    /// `max_not_full_pages(i)` not-full pages.
    pub fn pages_after_any_history(&self, max_not_full_pages: impl Fn(usize) -> usize) -> usize {
        let pages = |(class, blocks, _, objects)| pages_of_class(objects, blocks, max_not_full_pages(class).max(1));
        sum(self.classes().map(pages))
    }
}

/// The sum, saturating at `usize::MAX`: an impossible requirement must not look small.
fn sum(numbers: impl Iterator<Item = usize>) -> usize {
    numbers.fold(0, usize::saturating_add)
}

/// The limits of a program in a heap that moves its objects: the heap uses the last 4 bytes of each page-block.
pub type MovingLimits<L = DefaultLadder> = Limits<L, { moving::BACK_BYTES }>;

impl<L: Ladder> MovingLimits<L> {
    /// Pages of entries ever needed, in addition to the pages of objects.
    pub fn entry_pages(&self) -> usize {
        entry_pages::<L>(self.objects())
    }
}

/// Pages of entries that a moving heap on the ladder `L` ever needs for at most `objects` live objects at any time.
pub const fn entry_pages<L: Ladder>(objects: usize) -> usize {
    objects.div_ceil(L::PAGE / moving::ENTRY_BYTES)
}

/// The limits of a program in a heap whose objects are in block-frames of `FRAME` bytes.
pub type NonMovingLimits<L = DefaultLadder, const FRAME: usize = 32> = Limits<Framed<L, FRAME>>;

impl<L: Ladder, const FRAME: usize> NonMovingLimits<L, FRAME> {
    /// Block-frames ever needed: those of all page-blocks.
    pub fn frames(&self) -> usize {
        self.block_bytes() / FRAME
    }
}

/// Pages ever needed by a program that is at any time within one of these limits, for example the modes of a system.
/// Class `i` may have `max_not_full_pages(i)` not-full pages.
///
/// # Time
///
/// Linear in the classes times the square of the modes.
pub fn pages_of_modes<L: Ladder, const EXTRA: usize>(
    modes: &[Limits<L, EXTRA>],
    max_not_full_pages: impl Fn(usize) -> usize,
) -> usize {
    let most_ever = |class: usize| modes.iter().filter_map(|mode| mode.objects.get(class)).max().copied().unwrap_or(0);
    let pages = |(class, blocks, _, objects)| {
        let now = pages_of_class(objects, blocks, max_not_full_pages(class).max(1));
        now.min(most_ever(class).div_ceil(blocks))
    };
    modes.iter().map(|mode| sum(mode.classes().map(pages))).max().unwrap_or(0)
}

/// Pages ever needed by a program with at most `live_bytes` live bytes at any time, in objects of
/// `smallest_bytes..=largest_bytes` requested bytes each; the heap adds `EXTRA` bytes to each. Class `i` may have
/// `max_not_full_pages(i)` not-full pages.
///
/// # Errors
///
/// The error with which a heap refuses requests of these sizes; [`AllocError::ZeroSize`] also for an empty range.
///
/// # Time
///
/// Linear in the classes.
pub fn pages_of_bytes<L: Ladder, const EXTRA: usize>(
    live_bytes: usize,
    smallest_bytes: usize,
    largest_bytes: usize,
    max_not_full_pages: impl Fn(usize) -> usize,
) -> Result<usize, AllocError> {
    let first = Limits::<L, EXTRA>::class_of(smallest_bytes)?;
    let last = Limits::<L, EXTRA>::class_of(largest_bytes)?;
    let cheapest = |class: usize| Limits::<L, EXTRA>::smallest_of(class).max(smallest_bytes);
    let classes =
        || (first..=last).filter_map(|class| Some((class, usize::from(L::TABLE.get(class)?.blocks), cheapest(class))));
    let full_page_bytes = classes().map(|(_, blocks, bytes)| blocks * bytes).min().ok_or(AllocError::ZeroSize)?;
    let (mut pages, mut rest_bytes) = (0, live_bytes);
    // The cost of an object increases with the class, so the first classes are the cheapest.
    for (class, blocks, bytes) in classes().filter(|&(_, blocks, bytes)| blocks > 1 && bytes < full_page_bytes) {
        let ever = (live_bytes / bytes).div_ceil(blocks);
        let not_full = max_not_full_pages(class).max(1).min(ever).min(rest_bytes / bytes);
        pages += not_full;
        rest_bytes -= not_full * bytes;
    }
    Ok(pages + rest_bytes / full_page_bytes)
}

/// Pages ever needed by a program that is at any time within the limits of one of several modes, whatever the sizes
/// that it chooses; the heap adds `EXTRA` bytes to each object, and each class may have `max_not_full_pages` not-full
/// pages. `None` if a request is larger than a page. Where sizes are known, [`pages_of_modes`] can be closer for several
/// modes.
///
/// # Time
///
/// Linear in the classes, times the limits.
pub fn pages_within<L: Ladder, const EXTRA: usize>(modes: &[&[Limit]], max_not_full_pages: usize) -> Option<usize> {
    let most_bytes = largest_bytes(modes);
    if most_bytes == 0 {
        return Some(0);
    }
    let last = Limits::<L, EXTRA>::class_of(most_bytes).ok()?;
    // Of every class that may have objects: page-blocks per page, smallest and largest request.
    let classes = || {
        L::TABLE.iter().enumerate().take(last + 1).filter_map(|(number, class)| {
            let largest = (class.block_bytes as usize).checked_sub(EXTRA)?;
            Some((usize::from(class.blocks), Limits::<L, EXTRA>::smallest_of(number), largest))
        })
    };
    let peaks = sum(classes().map(|(blocks, from, to)| most_objects(modes, from, to).div_ceil(blocks)));
    let of_mode = |mode: &&[Limit]| {
        let not_full = sum(classes()
            .filter(|(blocks, ..)| *blocks > 1)
            .map(|(_, from, to)| most_objects(&[mode], from, to).min(max_not_full_pages.max(1))));
        let full = |limit: &Limit| {
            let reached = || classes().filter(|(_, from, to)| limit.most_objects(*from, *to) > 0);
            let fewest = reached().map(|(blocks, ..)| blocks).min()?;
            let cheapest = reached().map(|(blocks, from, _)| blocks * from.max(limit.smallest_bytes())).min()?;
            Some(limit.most_objects(1, usize::MAX).div_ceil(fewest).min(limit.live_bytes().div_ceil(cheapest)))
        };
        not_full.saturating_add(sum(mode.iter().filter_map(full)))
    };
    Some(modes.iter().map(of_mode).max().unwrap_or(0).min(peaks))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::compact_fit::{CompactFit, CompactFitConfig, CompactFitNonMoving, Geometric};
    use crate::contract::{Handle, HandleAllocator};
    use crate::mechanism::stats::NoStats;
    use core::mem::MaybeUninit;
    use std::{vec, vec::Vec};

    /// 1 KB pages; classes from 32 bytes on.
    type Small = Geometric<1024, 32, 16>;
    type Moving<'r> = CompactFit<'r, Small>;
    type NonMoving<'r> = CompactFitNonMoving<'r, Small>;

    /// A heap with its objects, by size and in order of allocation.
    struct Program<A> {
        heap: A,
        live: Vec<(usize, Vec<Handle>)>,
    }

    impl<'r, A: HandleAllocator<'r>> Program<A> {
        fn new(memory: &'r mut [MaybeUninit<u8>], config: impl Into<A::Config>) -> Self {
            Program { heap: A::new(memory, config.into()).unwrap(), live: vec![] }
        }

        fn allocate(&mut self, size_bytes: usize) -> Result<(), AllocError> {
            let handle = self.heap.allocate(size_bytes)?;
            match self.live.iter_mut().find(|(size, _)| *size == size_bytes) {
                Some((_, handles)) => handles.push(handle),
                None => self.live.push((size_bytes, vec![handle])),
            }
            Ok(())
        }

        fn free(&mut self, size_bytes: usize, index: usize) {
            let (_, handles) = self.live.iter_mut().find(|(size, _)| *size == size_bytes).unwrap();
            self.heap.free(handles.remove(index)).unwrap();
        }

        fn count(&self, size_bytes: usize) -> usize {
            self.live.iter().find(|(size, _)| *size == size_bytes).map_or(0, |(_, handles)| handles.len())
        }

        /// The limits that the live objects just reach.
        fn limits<L: Ladder, const EXTRA: usize>(&self) -> Limits<L, EXTRA> {
            let add =
                |limits: Limits<L, EXTRA>, (size, handles): &(usize, Vec<Handle>)| limits.and(handles.len(), *size);
            self.live.iter().try_fold(Limits::NONE, add).unwrap()
        }

        /// Allocates objects of one size, and frees them until this many pages have one each.
        fn scatter(&mut self, size_bytes: usize, blocks: usize, pages: usize) -> Result<(), AllocError> {
            (0..blocks * (pages - 1) + 1).try_for_each(|_| self.allocate(size_bytes))?;
            for page in 0..pages - 1 {
                (1..blocks).for_each(|_| self.free(size_bytes, page));
            }
            Ok(())
        }

        /// Allocates and frees at random within a limit for each size, in waves, so that classes fill and run dry.
        fn live_within(&mut self, held: &[(usize, usize)], steps: usize, state: &mut u64) {
            for step in 0..steps {
                let (size, most) = held[random(state, held.len())];
                let rises = (step / 500 + size).is_multiple_of(2);
                let count = self.count(size);
                if random(state, 8) < if rises { 6 } else { 2 } {
                    if count < most {
                        self.allocate(size).unwrap();
                    }
                } else if count != 0 {
                    self.free(size, random(state, count));
                }
            }
            assert_eq!(self.heap.check(), Ok(()));
        }

        /// Allocates up to the limits. An error if a request is refused.
        fn fill(&mut self, held: &[(usize, usize)]) -> Result<(), AllocError> {
            held.iter().try_for_each(|&(size, most)| (self.count(size)..most).try_for_each(|_| self.allocate(size)))
        }
    }

    fn random(state: &mut u64, bound: usize) -> usize {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) as usize % bound
    }

    fn blocks_of(size_bytes: usize) -> usize {
        Small::TABLE[MovingLimits::<Small>::class_of(size_bytes).unwrap()].blocks.into()
    }

    fn limits_of<L: Ladder, const EXTRA: usize>(held: &[(usize, usize)]) -> Limits<L, EXTRA> {
        held.iter().try_fold(Limits::NONE, |limits, &(size, most)| limits.and(most, size)).unwrap()
    }

    fn memory(bytes: usize) -> Vec<MaybeUninit<u8>> {
        vec![MaybeUninit::uninit(); bytes]
    }

    /// Sizes, and the number of objects of each.
    const HELD: [(usize, usize); 6] = [(20, 70), (100, 25), (200, 9), (333, 7), (700, 3), (1000, 2)];

    #[test]
    fn limits_by_class_suffice_and_one_page_less_does_not() {
        let limits: MovingLimits<Small> = limits_of(&HELD);
        let pages = limits.pages() + limits.entry_pages();
        for (mut seed, not_full) in [(1, 1), (2, 2), (3, 7), (4, u32::MAX)] {
            let mut memory = memory(Moving::region_bytes(pages));
            let mut program = Program::<Moving<'_>>::new(&mut memory, CompactFitConfig::with_max_not_full(not_full));
            program.live_within(&HELD, 6000, &mut seed);
            assert_eq!(program.fill(&HELD), Ok(()));
        }
        let mut memory = memory(Moving::region_bytes(pages - 1));
        let mut program = Program::<Moving<'_>>::new(&mut memory, CompactFitConfig::default());
        assert_eq!((program.heap.pages(), program.fill(&HELD)), (pages - 1, Err(AllocError::Exhausted)));
    }

    #[test]
    fn limits_by_class_suffice_for_block_frames_and_one_page_less_does_not() {
        let limits: NonMovingLimits<Small> = limits_of(&HELD);
        for (mut seed, not_full) in [(1, 1), (2, 2), (3, 7), (4, u32::MAX)] {
            let mut memory = memory(NonMoving::region_bytes(limits.pages(), limits.frames()));
            let mut program = Program::<NonMoving<'_>>::new(&mut memory, CompactFitConfig::with_max_not_full(not_full));
            program.live_within(&HELD, 6000, &mut seed);
            assert_eq!(program.fill(&HELD), Ok(()));
        }
        let one_page_of_frames_less = limits.frames() - NonMoving::FRAMES_PER_PAGE;
        for (pages, frames) in [(limits.pages() - 1, limits.frames()), (limits.pages(), one_page_of_frames_less)] {
            let mut memory = memory(NonMoving::region_bytes(pages, frames));
            // The bytes reserved for aligning other regions must not be used.
            let spare = memory.as_ptr().align_offset(32);
            let end = memory.len() - (31 - spare);
            let mut program = Program::<NonMoving<'_>>::new(&mut memory[..end], CompactFitConfig::default());
            assert_eq!(program.fill(&HELD), Err(AllocError::Exhausted), "{pages} pages, {frames} frames");
        }
    }

    /// With incremental compaction, one object more in each class suffices, however much is pending.
    #[test]
    fn limits_by_class_suffice_while_compaction_is_pending() {
        type Stepwise<'r> = CompactFit<'r, Small, NoStats, 16>;
        let held = HELD.map(|(size, most)| (size, most + 1));
        let limits: MovingLimits<Small> = limits_of(&held);
        for (mut seed, not_full) in [(1, 1), (2, 1), (3, 2), (4, 3)] {
            let mut memory = memory(Stepwise::region_bytes(limits.pages() + limits.entry_pages()));
            let config = CompactFitConfig::with_max_not_full(not_full);
            let mut program = Program::<Stepwise<'_>>::new(&mut memory, config);
            program.live_within(&HELD, 6000, &mut seed);
            assert_eq!(program.fill(&HELD), Ok(()));
        }
    }

    /// The adversary for bytes: every class keeps as many not-full pages as allowed, with one smallest object each. The
    /// remaining bytes go into full pages of the class with the cheapest pages. Returns the number of pages kept.
    fn attack(
        program: &mut Program<Moving<'_>>,
        live_bytes: usize,
        sizes: &[usize],
        not_full: usize,
    ) -> Result<usize, AllocError> {
        let full = |size: usize| size * blocks_of(size);
        let best = sizes.iter().copied().min_by_key(|&size| full(size)).unwrap();
        let (mut rest, mut pages) = (live_bytes, 0);
        for &size in sizes.iter().filter(|&&size| blocks_of(size) > 1 && size < full(best)) {
            // The objects to be freed count towards the live bytes until they are freed.
            let is_payable = |count: &usize| (blocks_of(size) * (count - 1) + 1) * size <= rest;
            let Some(count) = (1..=not_full).rev().find(is_payable) else { continue };
            program.scatter(size, blocks_of(size), count)?;
            rest -= count * size;
            pages += count;
        }
        for _ in 0..rest / full(best) {
            (0..blocks_of(best)).try_for_each(|_| program.allocate(best))?;
            pages += 1;
        }
        Ok(pages)
    }

    #[test]
    fn bytes_suffice_and_the_adversary_needs_every_page() {
        const LIVE: usize = 12_000;
        let (smallest, largest) = (20, 500);
        let classes =
            MovingLimits::<Small>::class_of(smallest).unwrap()..=MovingLimits::<Small>::class_of(largest).unwrap();
        let sizes: Vec<_> = classes.map(|class| MovingLimits::<Small>::smallest_of(class).max(smallest)).collect();
        for not_full in 1..=4 {
            let pages = pages_of_bytes::<Small, { moving::BACK_BYTES }>(LIVE, smallest, largest, |_| not_full).unwrap();
            let config = CompactFitConfig::with_max_not_full(not_full as u32);
            let mut memory_that_suffices = memory(Moving::region_bytes(pages + entry_pages::<Small>(LIVE / smallest)));
            let mut program = Program::<Moving<'_>>::new(&mut memory_that_suffices, config);
            assert_eq!(attack(&mut program, LIVE, &sizes, not_full), Ok(pages), "{not_full} not-full pages");
            assert_eq!(program.heap.check(), Ok(()));
            let live = program.limits::<Small, { moving::BACK_BYTES }>();
            assert_eq!(live.pages_after_any_history(|_| not_full), pages);
            // Entries need pages of their own: those for the peak of live objects.
            let entries = live.entry_pages();
            let mut memory_that_does_not = memory(Moving::region_bytes(pages + entries - 1));
            let mut program = Program::<Moving<'_>>::new(&mut memory_that_does_not, config);
            assert_eq!(attack(&mut program, LIVE, &sizes, not_full), Err(AllocError::Exhausted));
        }
    }

    #[test]
    fn random_programs_within_bytes_are_never_refused() {
        const LIVE: usize = 6_000;
        let (smallest, largest) = (10, 900);
        for not_full in [1, 3] {
            let pages = pages_of_bytes::<Small, { moving::BACK_BYTES }>(LIVE, smallest, largest, |_| not_full).unwrap();
            let entries = entry_pages::<Small>(LIVE / smallest);
            for seed in 1..=4 {
                let mut memory = memory(Moving::region_bytes(pages + entries));
                let config = CompactFitConfig::with_max_not_full(not_full as u32);
                let mut heap = Moving::new(&mut memory, config).unwrap();
                let (mut live, mut live_bytes, mut state) = (vec![], 0, seed);
                for step in 0..8000 {
                    // Sizes of a few classes at a time, so that one class takes over the pages of another.
                    let size = smallest + (step / 400 * 97 + random(&mut state, 60)) % (largest - smallest + 1);
                    while live_bytes + size > LIVE || (!live.is_empty() && random(&mut state, 3) == 0) {
                        let (handle, size) = live.swap_remove(random(&mut state, live.len()));
                        heap.free(handle).unwrap();
                        live_bytes -= size;
                    }
                    live.push((heap.allocate(size).unwrap(), size));
                    live_bytes += size;
                }
                assert_eq!(heap.check(), Ok(()));
            }
        }
    }

    fn pages_for(modes: &[&[Limit]], not_full: usize) -> usize {
        pages_within::<Small, { moving::BACK_BYTES }>(modes, not_full).expect("no request is larger than a page")
    }

    #[test]
    fn random_programs_within_ranges_are_never_refused() {
        let mut state = 11;
        for round in 0..60 {
            let not_full = 1 + random(&mut state, 3);
            let mut any = |most: usize| 1 + random(&mut state, most);
            let stated: Vec<(usize, usize, usize)> = (0..any(3))
                .map(|_| {
                    let largest = any(1000);
                    (any(40), any(largest), largest)
                })
                .collect();
            let limits: Vec<Limit> =
                stated.iter().map(|&(objects, from, to)| Limit::between(objects, from, to)).collect();
            let pages = pages_for(&[&limits], not_full);
            let entries = entry_pages::<Small>(stated.iter().map(|(objects, ..)| objects).sum());
            let mut memory = memory(Moving::region_bytes(pages + entries));
            let mut heap = Moving::new(&mut memory, CompactFitConfig::with_max_not_full(not_full as u32)).unwrap();
            let mut live: Vec<(usize, usize, Handle)> = vec![];
            for step in 0..2000 {
                let number = random(&mut state, stated.len());
                let (objects, from, to) = stated[number];
                if live.iter().filter(|(of, ..)| *of == number).count() == objects {
                    // In turn all objects but one of each size, or a random one.
                    let is_thinned = step % 100 < 10;
                    let mut kept: Vec<usize> = vec![];
                    live.retain(|&(of, size, handle)| {
                        let is_first = !kept.contains(&(size / 8));
                        kept.push(size / 8);
                        let is_kept = of != number || if is_thinned { is_first } else { random(&mut state, 4) > 0 };
                        if !is_kept {
                            heap.free(handle).unwrap();
                        }
                        is_kept
                    });
                    continue;
                }
                let size = from + random(&mut state, to - from + 1);
                let handle = heap.allocate(size).unwrap_or_else(|error| panic!("{error}: round {round}, {stated:?}"));
                live.push((number, size, handle));
            }
            assert_eq!(heap.check(), Ok(()));
        }
    }

    /// Known sizes give the same pages as [`Limits`], and sizes that the program chooses up to these give more: an
    /// object in each class has a page of its own.
    #[test]
    fn ranges_need_more_than_known_sizes() {
        let known: MovingLimits<Small> = limits_of(&[(200, 8), (500, 4)]);
        assert_eq!(pages_for(&[&[Limit::of(8, 200), Limit::of(4, 500)]], 1), known.pages());
        let chosen = [Limit::up_to(8, 200), Limit::up_to(4, 500)];
        let pages = pages_for(&[&chosen], 1);
        assert!(pages > known.pages());
        let one_in_each = |pages: usize| {
            let mut memory = memory(Moving::region_bytes(pages));
            let mut heap = Moving::new(&mut memory, CompactFitConfig::default()).unwrap();
            // At most eight of them are up to 200 bytes.
            [28, 40, 60, 80, 100, 130, 160, 200, 250, 300, 400, 500].iter().all(|size| heap.allocate(*size).is_ok())
        };
        assert!(one_in_each(pages + known.entry_pages()) && !one_in_each(known.pages() + known.entry_pages()));
        assert_eq!(pages_within::<Small, { moving::BACK_BYTES }>(&[&[Limit::up_to(1, 1021)]], 1), None);
        assert_eq!(pages_for(&[&[]], 1), 0);
    }

    #[test]
    fn modes_share_what_compaction_returns() {
        let modes = [[(40, 90), (60, 30), (300, 0)], [(40, 3), (60, 60), (300, 8)], [(40, 10), (60, 2), (300, 20)]];
        let limits: [MovingLimits<Small>; 3] = modes.map(|mode| limits_of(&mode));
        let by_themselves: MovingLimits<Small> = limits_of(&[(40, 90), (60, 60), (300, 20)]);
        let entries = entry_pages::<Small>(limits.iter().map(Limits::objects).max().unwrap());
        let mut fewest = limits.iter().map(Limits::pages).max().unwrap();
        for not_full in [1, 2, 3, usize::MAX] {
            let pages = pages_of_modes(&limits, |_| not_full);
            assert!(fewest <= pages && pages <= by_themselves.pages(), "more not-full pages need more pages");
            fewest = pages;
            for mut state in 1..=8 {
                let mut memory = memory(Moving::region_bytes(pages + entries));
                let config = CompactFitConfig::with_max_not_full(u32::try_from(not_full).unwrap_or(u32::MAX));
                let mut program = Program::<Moving<'_>>::new(&mut memory, config);
                for _ in 0..30 {
                    let mode = modes[random(&mut state, 3)];
                    for (size, most) in mode {
                        while program.count(size) > most {
                            program.free(size, random(&mut state, program.count(size)));
                        }
                    }
                    assert_eq!(program.fill(&mode), Ok(()));
                    program.live_within(&mode, 60, &mut state);
                }
            }
        }
        assert!(pages_of_modes(&limits, |_| 1) < by_themselves.pages());
    }

    /// An impossible requirement does not overflow to a small one, on any machine.
    #[test]
    fn limits_beyond_the_address_space_saturate() {
        let limits: MovingLimits<Small> = limits_of(&[(20, usize::MAX), (400, usize::MAX), (900, usize::MAX)]);
        assert_eq!((limits.objects(), limits.block_bytes()), (usize::MAX, usize::MAX));
        assert_eq!((limits.pages(), pages_of_modes(&[limits], |_| 1)), (usize::MAX, usize::MAX));
        assert_eq!(limits.pages_after_any_history(|_| usize::MAX), usize::MAX);
        assert_eq!(Moving::region_bytes(limits.pages()), usize::MAX);
        assert_eq!(Moving::region_bytes(usize::MAX / 1024), usize::MAX);
        assert_eq!(NonMoving::region_bytes(limits.pages(), 0), usize::MAX);
    }

    /// The bound from the live objects holds in every state, whatever the history.
    #[test]
    fn live_objects_alone_bound_the_pages() {
        for not_full in [1, 2, 5] {
            let mut memory = memory(1 << 16);
            let mut program =
                Program::<Moving<'_>>::new(&mut memory, CompactFitConfig::with_max_not_full(not_full as u32));
            let mut state = not_full as u64;
            for _ in 0..300 {
                program.live_within(&HELD, 10, &mut state);
                let lost = program.heap.fragmentation();
                let mut bytes = lost.size_external_bytes + lost.page_internal_bytes;
                program.heap.walk(&mut |object| bytes += object.page_block_bytes);
                let live = program.limits::<Small, { moving::BACK_BYTES }>();
                assert!(bytes / Small::PAGE <= live.pages_after_any_history(|_| not_full));
            }
        }
    }
}
