//! Incremental compaction: the pending classes, and the move in progress.
//!
//! The heap ([`Stepwise`]) decides which object is moved, how its bytes are copied and how its new address is
//! published. If no other thread uses its objects during a move, it takes the first object and updates its entry. If
//! others may use objects at any time, it takes one that is not in use, and discards the copy if a user appears.
//!
//! A class is *pending* while it has more not-full pages than allowed. A move takes an object of the first not-full
//! page of a pending class to the first free page-block of the last one, which is reserved for it:
//!
//! ```text
//! first page  [....][oooooooooooo][....]        the object, read and written here until the copy is complete
//!                    |||||||
//! last page   [xxxx][ccccccc-----][xxxx]        c: copied      the page-block counts as used, but no entry leads to it
//! ```

use super::classes::{self, Block, PageBlocks, address_of};
use super::free_list::NONE;
use super::ladder::Ladder;
use super::page::{self, Directory, Header, header_of};
use crate::contract::{Corruption, LoopBound, loop_bound};
use crate::mechanism::bits::first_set;
use core::num::NonZeroUsize;

/// Number of words with one bit for every class.
const WORDS: usize = 128 / usize::BITS as usize;

/// The pending classes, and the move in progress.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// The set of pending classes: those with more not-full pages than allowed.
    pending: [usize; WORDS],
    /// Class of the object that is being moved, or [`NONE`].
    class: u32,
    /// Bytes of its page-block copied so far.
    copied: u32,
    /// Numbers of the pages and page-blocks that it moves between.
    from_page: u32,
    to_page: u32,
    from_block: u16,
    to_block: u16,
    /// Not 0 if the object was written since its move began: moving another object of the page may be better.
    was_written: u32,
}

/// A heap that compacts incrementally.
///
/// # Safety
///
/// As [`PageBlocks`]. [`steps`](Self::steps) is their address, where they are initialised when the heap is made.
pub(crate) unsafe trait Stepwise: PageBlocks {
    /// Address of the steps.
    fn steps(self) -> *mut Steps;

    /// Chooses the next object to move, of a pending class: a used page-block that is not on the last not-full page.
    /// `None` if there is none, or none was found yet.
    ///
    /// # Safety
    ///
    /// The heap is initialised, and no move is in progress.
    unsafe fn choose(self) -> Option<(usize, Block)>;

    /// Copies a part of an object.
    ///
    /// # Safety
    ///
    /// This many bytes, a multiple of 4, are readable at `from` and writable at `to`, and the two do not overlap.
    unsafe fn copy(from: usize, to: usize, bytes: usize);

    /// Publishes the complete copy: the object's entry leads to it from now on. False if the object stays where it is,
    /// because it was used meanwhile.
    ///
    /// # Safety
    ///
    /// The object that is being moved was copied to the page-block of `bytes` at `target`, whose number is `number`.
    unsafe fn publish(self, bytes: usize, target: usize, number: usize) -> bool;
}

/// Address of the heap's steps.
#[inline(always)]
fn steps<B: Stepwise>(blocks: B) -> *mut Steps {
    blocks.steps()
}

/// Initialises the steps: nothing is pending.
///
/// # Safety
///
/// The directory was planned in a region that the caller owns.
pub(crate) unsafe fn begin<B: Stepwise>(blocks: B) {
    let none = Steps {
        pending: [0; WORDS],
        class: NONE,
        copied: 0,
        from_page: 0,
        to_page: 0,
        from_block: 0,
        to_block: 0,
        was_written: 0,
    };
    // SAFETY: the steps lie in the region, which the caller owns.
    unsafe { steps(blocks).write(none) }
}

impl Steps {
    /// The place of the object that is being moved.
    #[inline(always)]
    fn from<L: Ladder, X>(&self, directory: Directory<L, X>) -> Block {
        Block { header: directory.header(self.from_page as usize), number: self.from_block.into() }
    }

    /// Its new place.
    #[inline(always)]
    fn to<L: Ladder, X>(&self, directory: Directory<L, X>) -> Block {
        Block { header: directory.header(self.to_page as usize), number: self.to_block.into() }
    }
}

/// Updates whether a class is pending.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn note<B: Stepwise>(blocks: B, class: usize) {
    let record = blocks.directory().record(class);
    // SAFETY: the heap is initialised, so the class has a record and a bit.
    unsafe {
        let is_pending = (*record).not_full > (*record).max_not_full;
        let word = (&raw mut (*steps(blocks)).pending).cast::<usize>().add(class / usize::BITS as usize);
        let bit = 1usize.wrapping_shl(class as u32);
        word.write(if is_pending { word.read() | bit } else { word.read() & !bit });
    }
}

/// The first pending class.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
unsafe fn first_pending<B: Stepwise>(blocks: B) -> Option<usize> {
    // SAFETY: the heap is initialised, and so are its steps.
    let pending = unsafe { (*steps(blocks)).pending };
    let mut first = None;
    for (index, &word) in pending.iter().enumerate().rev() {
        loop_bound!(LoopBound::Fixed(4));
        if let Some(word) = NonZeroUsize::new(word) {
            first = Some(index * usize::BITS as usize + first_set(word) as usize);
        }
    }
    first
}

/// The first pending class from a class on.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn pending_from<B: Stepwise>(blocks: B, class: usize) -> Option<usize> {
    // SAFETY: the heap is initialised, and so are its steps.
    let pending = unsafe { (*steps(blocks)).pending };
    let (row, first) = (class / usize::BITS as usize, usize::MAX.wrapping_shl(class as u32));
    let mut found = None;
    for (index, &word) in pending.iter().enumerate().rev() {
        loop_bound!(LoopBound::Fixed(4));
        let mask = if index == row { first } else { usize::MAX };
        if let Some(word) = NonZeroUsize::new(word & mask)
            && index >= row
        {
            found = Some(index * usize::BITS as usize + first_set(word) as usize);
        }
    }
    found
}

/// Number of pending classes.
///
/// # Safety
///
/// The heap is initialised.
pub(crate) unsafe fn pending_count<B: Stepwise>(blocks: B) -> u32 {
    // SAFETY: the heap is initialised, and so are its steps.
    unsafe { (*steps(blocks)).pending }.iter().map(|word| word.count_ones()).sum()
}

/// The page-block of the object that is being moved.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn under_way<B: Stepwise>(blocks: B) -> Option<Block> {
    // SAFETY: the heap is initialised, and so are its steps.
    unsafe {
        let steps = &*steps(blocks);
        (steps.class != NONE).then(|| steps.from(blocks.directory()))
    }
}

/// Copies at most `budget_bytes`, in multiples of 16, of one object; returns the number of bytes.
///
/// # Safety
///
/// The heap is initialised.
///
/// # Time
///
/// Linear in the budget, and in one page-block.
#[inline(always)]
pub(crate) unsafe fn pay<B: Stepwise>(blocks: B, budget_bytes: usize) -> usize {
    let steps = steps(blocks);
    // SAFETY: the heap is initialised; `choose` returns an object, and its new page-block is reserved.
    unsafe {
        if (*steps).class == NONE {
            let Some((class, from)) = blocks.choose() else { return 0 };
            begin_move(blocks, class, from);
        } else if (*steps).was_written != 0 {
            choose_another(blocks);
        }
        let class = (*steps).class as usize;
        let bytes = B::Ladder::size_class(class).block_bytes as usize;
        let (from, to) = ((*steps).from(blocks.directory()), (*steps).to(blocks.directory()));
        let copied = (*steps).copied as usize;
        let rest = bytes.wrapping_sub(copied);
        let piece = if budget_bytes < rest { budget_bytes & !15 } else { rest };
        let (source, target) = (address_of(blocks.directory(), bytes, from), address_of(blocks.directory(), bytes, to));
        B::copy(source.wrapping_add(copied), target.wrapping_add(copied), piece);
        (*steps).copied = copied.wrapping_add(piece) as u32;
        if piece == rest {
            (*steps).class = NONE;
            let left = if blocks.publish(bytes, target, to.number) { from } else { to };
            classes::give(blocks, class, left, false);
            note(blocks, class);
        }
        piece
    }
}

/// The first object of the first not-full page of the first pending class.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn first_object<B: Stepwise>(blocks: B) -> Option<(usize, Block)> {
    // SAFETY: a pending class has at least two not-full pages, each with an object.
    unsafe {
        let class = first_pending(blocks)?;
        let header = header_of((*blocks.directory().record(class)).head.next);
        Some((class, Block { header, number: page::used_block(header, B::Ladder::size_class(class)) }))
    }
}

/// Begins to move an object of a class.
///
/// # Safety
///
/// The class is pending, the object is on a not-full page other than the last, and no move is in progress.
#[inline(always)]
unsafe fn begin_move<B: Stepwise>(blocks: B, class: usize, from: Block) {
    // SAFETY: the class is pending and has at least two not-full pages; `from` is used, and not on the last one.
    unsafe {
        // The class has a not-full page, so no page is opened.
        let Some(to) = classes::take(blocks, class) else { return };
        let steps = steps(blocks);
        (*steps).class = class as u32;
        (*steps).copied = 0;
        (*steps).from_page = (*from.header).page;
        (*steps).from_block = from.number as u16;
        (*steps).to_page = (*to.header).page;
        (*steps).to_block = to.number as u16;
        (*steps).was_written = 0;
        note(blocks, class);
    }
}

/// Replaces an object that was written during its move by the next object of the page.
///
/// # Safety
///
/// A move is in progress.
#[inline(always)]
unsafe fn choose_another<B: Stepwise>(blocks: B) {
    let steps = steps(blocks);
    // SAFETY: a move is in progress, so the page has at least the object that is being moved.
    unsafe {
        let from = (*steps).from(blocks.directory());
        let size_class = B::Ladder::size_class((*steps).class as usize);
        (*steps).from_block = page::used_block_after(from.header, from.number, size_class) as u16;
        (*steps).was_written = 0;
    }
}

/// Whether the object in a page-block is being moved.
#[inline(always)]
unsafe fn is_under_way<B: Stepwise>(blocks: B, block: Block) -> bool {
    // SAFETY: the callers pass a page-block, whose header is initialised; the steps are initialised.
    unsafe {
        let steps = &*steps(blocks);
        steps.class != NONE && steps.from_page == (*block.header).page && usize::from(steps.from_block) == block.number
    }
}

/// Cancels the move of the object in a page-block, if it is being moved, and frees the reserved page-block.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn drop_move_of<B: Stepwise>(blocks: B, block: Block) {
    // SAFETY: the heap is initialised; a reserved page-block is a used one of the class.
    unsafe {
        if is_under_way(blocks, block) {
            let steps = steps(blocks);
            let class = (*steps).class as usize;
            (*steps).class = NONE;
            classes::give(blocks, class, (*steps).to(blocks.directory()), false);
            note(blocks, class);
        }
    }
}

/// Restarts the move of the object in a page-block, if it is being moved.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(crate) unsafe fn restart_move_of<B: Stepwise>(blocks: B, block: Block) {
    // SAFETY: the heap is initialised, and so are its steps.
    unsafe {
        if is_under_way(blocks, block) {
            (*steps(blocks)).copied = 0;
            (*steps(blocks)).was_written = 1;
        }
    }
}

/// The page-block that is reserved for the object that is being moved.
///
/// # Safety
///
/// The heap is initialised.
pub(crate) unsafe fn reserved<B: Stepwise>(blocks: B) -> Option<Block> {
    // SAFETY: the heap is initialised, and so are its steps.
    unsafe {
        let steps = steps(blocks).read();
        (steps.class != NONE).then(|| steps.to(blocks.directory()))
    }
}

/// Whether compaction is pending.
///
/// # Safety
///
/// The heap is initialised.
///
/// # Time
///
/// Constant.
pub(crate) unsafe fn is_pending<B: Stepwise>(blocks: B) -> bool {
    // SAFETY: the heap is initialised, and so are its steps.
    unsafe { (*steps(blocks)).class != NONE || first_pending(blocks).is_some() }
}

/// Upper bound of the bytes to be moved until no class is pending.
///
/// For one page too many, a class must move the objects of its first page or fill the gaps of its last one, whichever
/// are fewer. Each further page takes at most half of a page's objects, because either the first page is at most half
/// full or the last one more than half.
///
/// A move in progress started on the first page, which has one object fewer when it is complete. If other pages became
/// first meanwhile, this page may then be first again; if it became full, there is one not-full page more:
///
/// ```text
/// [..oo] [xxx:]  ->  allocated and freed  ->  [xxoo] [xxxo] [x.xx]  ->  complete  ->  [xx.o] [xxxo] [x.xx]
/// ```
///
/// # Safety
///
/// The heap is initialised.
///
/// # Time
///
/// Constant.
pub(crate) unsafe fn pending_bytes<B: Stepwise>(blocks: B) -> usize {
    let mut bytes = 0;
    // SAFETY: the heap is initialised; a pending class has at least two not-full pages.
    unsafe {
        let steps = steps(blocks).read();
        for class in 0..B::Ladder::CLASSES {
            let record = blocks.directory().record(class);
            let size_class = B::Ladder::size_class(class);
            let left = (steps.class as usize == class).then(|| steps.from(blocks.directory()).header);
            let more = left.is_some_and(|header| (*header).state.free_rows == 0);
            let not_full = (*record).not_full.wrapping_add(more.into());
            let surplus = not_full.saturating_sub((*record).max_not_full) as usize;
            if surplus != 0 {
                let (first, last) = (header_of((*record).head.next), header_of((*record).head.prev));
                let of_one = match left {
                    Some(header) if header != first => size_class.half,
                    _ => {
                        let gaps = size_class.blocks.wrapping_sub((*last).state.used);
                        (*first).state.used.wrapping_sub(left.is_some().into()).min(gaps)
                    }
                };
                let objects = usize::from(of_one) + (surplus - 1) * usize::from(size_class.half);
                bytes += objects * size_class.block_bytes as usize;
            }
        }
        if steps.class != NONE {
            bytes += B::Ladder::size_class(steps.class as usize).block_bytes as usize - steps.copied as usize;
        }
    }
    bytes
}

/// Verifies the set of pending classes and the move in progress.
///
/// # Errors
///
/// The first [`Corruption`].
///
/// # Safety
///
/// The heap is initialised; its pages and classes are verified.
pub(crate) unsafe fn check<B: Stepwise>(blocks: B) -> Result<(), Corruption> {
    let broken = |invariant| Err(Corruption { invariant, address: steps(blocks).addr() });
    // SAFETY: the heap is initialised, and only headers of pages that have been taken are read.
    unsafe {
        let steps = steps(blocks).read();
        for class in 0..WORDS * usize::BITS as usize {
            let is_pending = class < B::Ladder::CLASSES && {
                let record = blocks.directory().record(class);
                (*record).not_full > (*record).max_not_full
            };
            if (steps.pending[class / usize::BITS as usize] >> (class % usize::BITS as usize) & 1 != 0) != is_pending {
                return broken("the classes that owe are those with too many not-full pages");
            }
        }
        if steps.class == NONE {
            return Ok(());
        }
        let class = steps.class as usize;
        let fresh = (*blocks.directory().pool()).list.fresh;
        if class >= B::Ladder::CLASSES
            || steps.from_page >= fresh
            || steps.to_page >= fresh
            || steps.from_page == steps.to_page
        {
            return broken("an object moves from one page to another");
        }
        let size_class = B::Ladder::size_class(class);
        for block in [steps.from(blocks.directory()), steps.to(blocks.directory())] {
            let header: *mut Header = block.header;
            if usize::from((*header).state.class) != class
                || block.number >= size_class.blocks.into()
                || !page::is_used(header, block.number)
            {
                return broken("an object moves between used page-blocks of its class");
            }
        }
        if steps.copied >= size_class.block_bytes || !steps.copied.is_multiple_of(16) || steps.was_written > 1 {
            return broken("a move under way is not complete");
        }
    }
    Ok(())
}

/// Emits the move in progress.
///
/// # Safety
///
/// The heap is initialised.
pub(crate) unsafe fn fingerprint<B: Stepwise>(blocks: B, word: &mut dyn FnMut(usize)) {
    // SAFETY: the heap is initialised, and so are its steps.
    let steps = unsafe { steps(blocks).read() };
    if steps.class == NONE {
        word(usize::MAX);
        return;
    }
    for number in [steps.class, steps.copied, steps.from_page, steps.to_page, steps.was_written] {
        word(number as usize);
    }
    word(steps.from_block.into());
    word(steps.to_block.into());
}
