//! Compaction in steps: what is owed, and the one move under way.
//!
//! Which object is moved, how its bytes are copied, and how those who look for it are told, is for the heap to say
//! ([`Stepwise`]): one whose objects are used by nobody meanwhile takes the first, and tells its entry; one whose objects others
//! may use at any time takes one that nobody uses, and gives its copy up if somebody came.
//!
//! A class owes while it has more not-full pages than it may have. A move takes an object of the first not-full page of a class
//! that owes to the first free page-block of the last one, which is reserved for it:
//!
//! ```text
//! first page  [....][oooooooooooo][....]        the object, read and written here until the copy is complete
//!                    |||||||
//! last page   [xxxx][ccccccc-----][xxxx]        c: copied      the page-block counts as used, and no entry leads to it
//! ```

use super::classes::{self, Block, PageBlocks, address_of};
use super::free_list::NONE;
use super::ladder::Ladder;
use super::page::{self, Directory, Header, header_of};
use crate::contract::Corruption;
use crate::mechanism::bits::first_set;
use core::num::NonZeroUsize;

/// Words with a bit for every class.
const WORDS: usize = 128 / usize::BITS as usize;

/// What is owed, and the move under way.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    /// The classes that owe: a bit for each with more not-full pages than it may have.
    owing: [usize; WORDS],
    /// Class of the object under way, or [`NONE`].
    class: u32,
    /// Bytes of its page-block that were copied.
    copied: u32,
    /// Numbers of the pages and page-blocks it moves between.
    from_page: u32,
    to_page: u32,
    from_block: u16,
    to_block: u16,
    /// Not 0 if the object was written since its move began: another one of the page may be moved better.
    was_written: u32,
}

/// A heap that compacts in steps.
///
/// # Safety
///
/// As [`PageBlocks`]. [`steps`](Self::steps) is where they are, initialised once the heap has begun.
pub(crate) unsafe trait Stepwise: PageBlocks {
    /// Where the steps are.
    fn steps(self) -> *mut Steps;

    /// Chooses the object that is moved next, of a class that owes: a used page-block that is not on the last not-full page. `None`
    /// if there is none, or none was found yet.
    ///
    /// # Safety
    ///
    /// The heap has begun, and no move is under way.
    unsafe fn choose(self) -> Option<(usize, Block)>;

    /// Copies a piece of an object.
    ///
    /// # Safety
    ///
    /// So many bytes, a multiple of 4, are readable at `from` and writable at `to`, and the two do not overlap.
    unsafe fn copy(from: usize, to: usize, bytes: usize);

    /// The copy is complete: whoever looks for the object finds it there from now on. False if the object stays where it is,
    /// because it was used meanwhile.
    ///
    /// # Safety
    ///
    /// The object under way was copied to the page-block of `bytes` at `target`, whose number is `number`.
    unsafe fn publish(self, bytes: usize, target: usize, number: usize) -> bool;
}

/// Where the heap's steps are.
#[inline(always)]
fn steps<B: Stepwise>(blocks: B) -> *mut Steps {
    blocks.steps()
}

/// Begins without a debt.
///
/// # Safety
///
/// The directory was planned in a region that is the caller's.
pub(crate) unsafe fn begin<B: Stepwise>(blocks: B) {
    let none = Steps {
        owing: [0; WORDS],
        class: NONE,
        copied: 0,
        from_page: 0,
        to_page: 0,
        from_block: 0,
        to_block: 0,
        was_written: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { steps(blocks).write(none) }
}

impl Steps {
    /// Where the object under way is.
    #[inline(always)]
    fn from<L: Ladder, X>(&self, directory: Directory<L, X>) -> Block {
        Block { header: directory.header(self.from_page as usize), number: self.from_block.into() }
    }

    /// Where it will be.
    #[inline(always)]
    fn to<L: Ladder, X>(&self, directory: Directory<L, X>) -> Block {
        Block { header: directory.header(self.to_page as usize), number: self.to_block.into() }
    }
}

/// Writes down whether a class owes.
///
/// # Safety
///
/// The heap has begun.
#[inline(always)]
pub(crate) unsafe fn note<B: Stepwise>(blocks: B, class: usize) {
    let record = blocks.directory().record(class);
    // SAFETY: the class has a record, and a bit.
    unsafe {
        let owes = (*record).not_full > (*record).most_not_full;
        let word = (&raw mut (*steps(blocks)).owing).cast::<usize>().add(class / usize::BITS as usize);
        let bit = 1usize.wrapping_shl(class as u32);
        word.write(if owes { word.read() | bit } else { word.read() & !bit });
    }
}

/// The first class that owes.
///
/// # Safety
///
/// The heap has begun.
#[inline(always)]
unsafe fn first_owing<B: Stepwise>(blocks: B) -> Option<usize> {
    // SAFETY: the words are initialised.
    let owing = unsafe { (*steps(blocks)).owing };
    let mut first = None;
    // turns: 4
    for (index, &word) in owing.iter().enumerate().rev() {
        if let Some(word) = NonZeroUsize::new(word) {
            first = Some(index * usize::BITS as usize + first_set(word) as usize);
        }
    }
    first
}

/// The first class that owes, from a class on.
///
/// # Safety
///
/// The heap has begun.
#[cfg(target_has_atomic = "ptr")]
#[inline(always)]
pub(crate) unsafe fn owing_from<B: Stepwise>(blocks: B, class: usize) -> Option<usize> {
    // SAFETY: the words are initialised.
    let owing = unsafe { (*steps(blocks)).owing };
    let (row, first) = (class / usize::BITS as usize, usize::MAX.wrapping_shl(class as u32));
    let mut found = None;
    // turns: 4
    for (index, &word) in owing.iter().enumerate().rev() {
        let mask = if index == row { first } else { usize::MAX };
        if let Some(word) = NonZeroUsize::new(word & mask)
            && index >= row
        {
            found = Some(index * usize::BITS as usize + first_set(word) as usize);
        }
    }
    found
}

/// How many classes owe.
///
/// # Safety
///
/// The heap has begun.
#[cfg(target_has_atomic = "ptr")]
pub(crate) unsafe fn owing_count<B: Stepwise>(blocks: B) -> u32 {
    // SAFETY: the words are initialised.
    unsafe { (*steps(blocks)).owing }.iter().map(|word| word.count_ones()).sum()
}

/// The page-block that the object under way is in.
///
/// # Safety
///
/// The heap has begun.
#[cfg(target_has_atomic = "ptr")]
#[inline(always)]
pub(crate) unsafe fn under_way<B: Stepwise>(blocks: B) -> Option<Block> {
    // SAFETY: the steps are initialised.
    unsafe {
        let steps = &*steps(blocks);
        (steps.class != NONE).then(|| steps.from(blocks.directory()))
    }
}

/// Moves at most `budget_bytes`, in whole 16, of one object, and returns how many.
///
/// # Safety
///
/// The heap has begun.
///
/// # Time
///
/// Linear in the budget, and in one page-block.
#[inline(always)]
pub(crate) unsafe fn pay<B: Stepwise>(blocks: B, budget_bytes: usize) -> usize {
    let steps = steps(blocks);
    // SAFETY: the heap has begun; the object under way is one, and its new page-block is reserved.
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

/// The first object of the first not-full page of the first class that owes.
///
/// # Safety
///
/// The heap has begun.
#[inline(always)]
pub(crate) unsafe fn first_object<B: Stepwise>(blocks: B) -> Option<(usize, Block)> {
    // SAFETY: a class that owes has two not-full pages at least; each has an object.
    unsafe {
        let class = first_owing(blocks)?;
        let header = header_of((*blocks.directory().record(class)).head.next);
        Some((class, Block { header, number: page::used_block(header, B::Ladder::size_class(class)) }))
    }
}

/// Begins the move of an object of a class.
///
/// # Safety
///
/// The class owes, the object is on a not-full page other than the last, and no move is under way.
#[inline(always)]
unsafe fn begin_move<B: Stepwise>(blocks: B, class: usize, from: Block) {
    // SAFETY: the caller's promise.
    unsafe {
        // The class has a not-full page, so that no page is opened.
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

/// Chooses the next object of the page for the move under way, in place of one that was written.
///
/// # Safety
///
/// A move is under way.
#[inline(always)]
unsafe fn choose_another<B: Stepwise>(blocks: B) {
    let steps = steps(blocks);
    // SAFETY: the page of the object under way has that object at least.
    unsafe {
        let from = (*steps).from(blocks.directory());
        let size_class = B::Ladder::size_class((*steps).class as usize);
        (*steps).from_block = page::used_block_behind(from.header, from.number, size_class) as u16;
        (*steps).was_written = 0;
    }
}

/// Whether the object under way is in a page-block.
#[inline(always)]
unsafe fn is_under_way<B: Stepwise>(blocks: B, block: Block) -> bool {
    // SAFETY: the caller says that the block is one.
    unsafe {
        let steps = &*steps(blocks);
        steps.class != NONE && steps.from_page == (*block.header).page && usize::from(steps.from_block) == block.number
    }
}

/// Ends the move of the object in a page-block, if it is under way: the page-block that was reserved is free again.
///
/// # Safety
///
/// The heap has begun.
#[inline(always)]
pub(crate) unsafe fn drop_move_of<B: Stepwise>(blocks: B, block: Block) {
    // SAFETY: the page-block that is reserved is a used one of the class.
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

/// Begins the move of the object in a page-block anew, if it is under way.
///
/// # Safety
///
/// The heap has begun.
#[inline(always)]
pub(crate) unsafe fn restart_move_of<B: Stepwise>(blocks: B, block: Block) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_under_way(blocks, block) {
            (*steps(blocks)).copied = 0;
            (*steps(blocks)).was_written = 1;
        }
    }
}

/// The page-block that is reserved for the object under way.
///
/// # Safety
///
/// The heap has begun.
pub(crate) unsafe fn reserved<B: Stepwise>(blocks: B) -> Option<Block> {
    // SAFETY: the steps are initialised.
    unsafe {
        let steps = steps(blocks).read();
        (steps.class != NONE).then(|| steps.to(blocks.directory()))
    }
}

/// Whether anything has to be moved.
///
/// # Safety
///
/// The heap has begun.
///
/// # Time
///
/// Constant.
pub(crate) unsafe fn owes<B: Stepwise>(blocks: B) -> bool {
    // SAFETY: the steps are initialised.
    unsafe { (*steps(blocks)).class != NONE || first_owing(blocks).is_some() }
}

/// Bytes that have to be moved until no class owes, at most.
///
/// A class with one page too many owes the objects of its first page or the gaps of its last one, whichever are fewer; every
/// further page is half of a page's objects at most, because either the first page is at most half full or the last
/// one more than half.
///
/// A move under way is begun from the first page, which has one object fewer when it is complete. Where others came to be
/// first meanwhile, this one may be first again then; and where it became full, there is one not-full page more:
///
/// ```text
/// [..oo] [xxx:]  ->  allocated and freed  ->  [xxoo] [xxxo] [x.xx]  ->  complete  ->  [xx.o] [xxxo] [x.xx]
/// ```
///
/// # Safety
///
/// The heap has begun.
///
/// # Time
///
/// Constant.
pub(crate) unsafe fn owed_bytes<B: Stepwise>(blocks: B) -> usize {
    let mut owed = 0;
    // SAFETY: a class that owes has two not-full pages at least.
    unsafe {
        let steps = steps(blocks).read();
        for class in 0..B::Ladder::CLASSES {
            let record = blocks.directory().record(class);
            let size_class = B::Ladder::size_class(class);
            let left = (steps.class as usize == class).then(|| steps.from(blocks.directory()).header);
            let more = left.is_some_and(|header| (*header).state.free_rows == 0);
            let not_full = (*record).not_full.wrapping_add(more.into());
            let surplus = not_full.saturating_sub((*record).most_not_full) as usize;
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
                owed += objects * size_class.block_bytes as usize;
            }
        }
        if steps.class != NONE {
            owed += B::Ladder::size_class(steps.class as usize).block_bytes as usize - steps.copied as usize;
        }
    }
    owed
}

/// Verifies that the classes that owe are known, and that the move under way is one.
///
/// # Errors
///
/// The first [`Corruption`].
///
/// # Safety
///
/// The heap has begun; its pages and classes are verified.
pub(crate) unsafe fn check<B: Stepwise>(blocks: B) -> Result<(), Corruption> {
    let broken = |invariant| Err(Corruption { invariant, address: steps(blocks).addr() });
    // SAFETY: headers are read of pages that were taken.
    unsafe {
        let steps = steps(blocks).read();
        for class in 0..WORDS * usize::BITS as usize {
            let owes = class < B::Ladder::CLASSES && {
                let record = blocks.directory().record(class);
                (*record).not_full > (*record).most_not_full
            };
            if (steps.owing[class / usize::BITS as usize] >> (class % usize::BITS as usize) & 1 != 0) != owes {
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

/// Emits the move under way.
///
/// # Safety
///
/// The heap has begun.
pub(crate) unsafe fn fingerprint<B: Stepwise>(blocks: B, word: &mut dyn FnMut(usize)) {
    // SAFETY: the steps are initialised.
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
