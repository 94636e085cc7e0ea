//! Finding and taking a free run: in the slot's last word, in the lists, on the levels above, and at last everywhere.

use super::layout::{level_of, place_of, unit_log2, word_of};
use super::shape::{Shape, all, first_from, longest_run, ones, runs};
use super::{BitmapSlot, tag};
use crate::concurrent::atomics::Atomics;
use crate::contract::{LoopBound, loop_bound};
use crate::mechanism::bits::{computed, first_set, floor_log2};
use core::num::NonZeroUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// How many listed words of a level are tried before another level is asked.
pub(super) const TRIES: usize = 8;

/// The result of examining a word.
enum Look {
    /// A run of it, which begins at this bit of the level, now belongs to the caller.
    Taken(usize),
    /// There was a run, but another operation changed the word before it was taken.
    Lost,
    /// There is no such run.
    Empty,
}

/// Why nothing was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// At some moment no free block would have served.
    Exhausted,
    /// Other operations were under way.
    Contended,
}

impl<const LEAF: usize, A: Atomics, S: Shape> BitmapSlot<'_, LEAF, A, S> {
    /// Takes a block of `leaves` leaves, at most `2^order`, at a multiple of `2^order`, and writes its bytes.
    ///
    /// # Errors
    ///
    /// Why no block was found.
    #[inline(always)]
    pub(super) fn take(self, order: usize, leaves: usize) -> Result<usize, Missed> {
        let level = level_of::<S>(order);
        let run = order - level * S::FAN_LOG2 as usize;
        // A block that ends inside a bit of its level opens that bit: not on this path.
        if leaves & Self::within(level) == 0 {
            // SAFETY: the level is one of the heap's, and so is the word of it that the slot served.
            let look = unsafe {
                let word = self.control.served(self.number, level).load(Relaxed);
                self.look(level, word, run, leaves >> unit_log2::<S>(level))
            };
            if let Look::Taken(bit) = look {
                let leaf = bit << unit_log2::<S>(level);
                self.write_tag(leaf, leaves);
                return Ok(leaf);
            }
        }
        self.search(level, run, leaves)
    }

    /// The mask that reduces a number of leaves modulo the leaves of a bit of a level.
    #[inline(always)]
    pub(super) const fn within(level: usize) -> usize {
        (1usize.wrapping_shl(unit_log2::<S>(level))) - 1
    }

    /// Examines one word, and takes the first `count` bits of its first run of `2^run`.
    ///
    /// # Safety
    ///
    /// The word is one of the level's; the count is from one to the run's length.
    #[inline(always)]
    unsafe fn look(self, level: usize, word: usize, run: usize, count: usize) -> Look {
        // SAFETY: the word is one of the level's.
        let cell = unsafe { self.control.word(level, word) };
        let value = cell.load(Relaxed);
        let Some(places) = NonZeroUsize::new(runs::<S>(value, run)) else { return Look::Empty };
        let place = first_set(places) as usize;
        // Acquire: accesses to the memory before it was freed and merged come first.
        let is_taken = if count == 1 {
            // Testing that bit alone, as a value, is one instruction on every machine that has one. For any other
            // question a compiler would generate a loop on x86-64.
            let bit = 1usize.wrapping_shl(place as u32);
            computed((cell.fetch_and(!bit, Acquire) & bit) as u64) != 0
        } else {
            let mask = ones::<S>(count).wrapping_shl(place as u32);
            cell.compare_exchange(value, value & !mask, Acquire).is_ok()
        };
        if is_taken { Look::Taken(word << S::FAN_LOG2 | place) } else { Look::Lost }
    }

    /// Takes a block anywhere.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    #[cold]
    #[inline(never)]
    fn search(self, level: usize, run: usize, leaves: usize) -> Result<usize, Missed> {
        let mut search = Search { is_marked: false, stale: Stale { level: 0, list: 0, node: 0, words: 0 } };
        let mut number = level;
        while number <= self.control.top {
            loop_bound!(LoopBound::BitmapLevels);
            let (run, count) = Self::sought(number, level, run, leaves);
            if leaves & Self::within(number) != 0 && !search.is_marked {
                // A bit of this level would be opened, and so of all above.
                search.is_marked = true;
                self.begin();
            }
            // SAFETY: the level is one of the heap's.
            if let Some(bit) = unsafe { self.search_level(number, run, count, &mut search.stale) } {
                return Ok(self.occupy(number, bit, leaves, &search));
            }
            number += 1;
        }
        self.search_everywhere(level, run, leaves, &search)
    }

    /// The run of a level that holds a block that is a run of `level`, and how many bits of it the block takes.
    #[inline(always)]
    fn sought(number: usize, level: usize, run: usize, leaves: usize) -> (usize, usize) {
        let count = (leaves + Self::within(number)) >> unit_log2::<S>(number);
        (if number == level { run } else { 0 }, count)
    }

    /// Searches the word the slot served last, then the listed words. Listed words without a run are recorded once.
    ///
    /// # Safety
    ///
    /// The level is one of the heap's.
    #[inline(always)]
    unsafe fn search_level(self, level: usize, run: usize, count: usize, stale: &mut Stale) -> Option<usize> {
        // SAFETY: served and listed words are words of the level.
        unsafe {
            if level == self.control.top {
                return self.search_top(run, count);
            }
            let served = self.control.served(self.number, level).load(Relaxed);
            if let Look::Taken(bit) = self.look(level, served, run, count) {
                return Some(bit);
            }
            let (mut list, mut tries) = (run, 0);
            while list < S::FAN_LOG2 as usize && tries < TRIES {
                loop_bound!(LoopBound::Fixed(6));
                let (node, mut value) = self.named(level, list);
                let mut empty = 0;
                while tries < TRIES {
                    loop_bound!(LoopBound::Fixed(8));
                    let Some(names) = NonZeroUsize::new(value) else { break };
                    let place = first_from(names, self.start());
                    value &= !(1 << place);
                    tries += 1;
                    match self.look(level, node << S::FAN_LOG2 | place, run, count) {
                        Look::Taken(bit) => return Some(bit),
                        Look::Lost => {}
                        Look::Empty => empty |= 1 << place,
                    }
                }
                if empty != 0 && stale.words == 0 {
                    *stale = Stale { level, list, node, words: empty };
                }
                list += 1;
            }
            None
        }
    }

    /// Where in a node a slot starts, so that concurrent searches find different words.
    #[inline(always)]
    fn start(self) -> usize {
        ((self.number & self.control.line_mask) << S::FAN_LOG2) >> self.control.line_mask.count_ones()
    }

    /// Searches the highest level, from the word on that the slot served last.
    ///
    /// # Safety
    ///
    /// The heap is initialised.
    #[inline(always)]
    unsafe fn search_top(self, run: usize, count: usize) -> Option<usize> {
        let level = self.control.top;
        // SAFETY: served words are words of the level, and so are those that follow, wrapping around.
        unsafe {
            let root = self.control.level(level);
            let mut word = self.control.served(self.number, level).load(Relaxed);
            let mut iteration = 0;
            while iteration < root.words {
                loop_bound!(LoopBound::Fixed(3));
                if let Look::Taken(bit) = self.look(level, word, run, count) {
                    return Some(bit);
                }
                word = if word + 1 == root.first + root.words { root.first } else { word + 1 };
                iteration += 1;
            }
            None
        }
    }

    /// Examines every word that could have a run, once.
    ///
    /// # Errors
    ///
    /// As [`take`](Self::take).
    fn search_everywhere(self, level: usize, run: usize, leaves: usize, search: &Search) -> Result<usize, Missed> {
        // The slot's own begun operation does not count as another's.
        let ended = self.ended();
        let mut is_lost = false;
        // SAFETY: the level is one of the heap's.
        let (mut word, mut after) = unsafe { self.control.level(level) }.range();
        let (mut number, (mut seeks, mut count)) = (level, Self::sought(level, level, run, leaves));
        loop {
            loop_bound!(LoopBound::Words);
            // Kept as one loop over the words of all levels, so that one number bounds it: knowing what is constant
            // within a level, the compiler would make two of it.
            [number, word, after, seeks, count] =
                [number, word, after, seeks, count].map(|value| computed(value as u64) as usize);
            // SAFETY: the word is one of the level's.
            match unsafe { self.look(number, word, seeks, count) } {
                Look::Taken(bit) => return Ok(self.occupy(number, bit, leaves, search)),
                Look::Lost => is_lost = true,
                Look::Empty => {}
            }
            word += 1;
            if word == after {
                if number == self.control.top {
                    break;
                }
                number += 1;
                (seeks, count) = Self::sought(number, level, run, leaves);
                // SAFETY: the level is one of the heap's.
                (word, after) = unsafe { self.control.level(number) }.range();
            }
        }
        // No operation that ended meanwhile is missing in either sum, and none is under way.
        let is_alone = self.begun().wrapping_sub(usize::from(search.is_marked)) == ended;
        if search.is_marked {
            self.end();
        }
        Err(if is_alone && !is_lost { Missed::Exhausted } else { Missed::Contended })
    }

    /// The number of operations ended, on all lines.
    fn ended(self) -> usize {
        let mut sum = 0usize;
        for line in 0..=self.control.line_mask {
            loop_bound!(LoopBound::Slots);
            // Acquire: the scan that follows sees what those operations made free.
            // SAFETY: every line exists.
            sum = sum.wrapping_add(unsafe { self.control.line(line) }.ended.load(Acquire));
        }
        sum
    }

    /// The number of operations begun, on all lines.
    fn begun(self) -> usize {
        let mut sum = 0usize;
        for line in 0..=self.control.line_mask {
            loop_bound!(LoopBound::Slots);
            // Release: an operation that begins after this changes no word before the scan read it. A load could return
            // an older number.
            // SAFETY: every line exists.
            sum = sum.wrapping_add(unsafe { self.control.line(line) }.begun.fetch_add(0, Release));
        }
        sum
    }

    /// Counts the start of an operation that makes memory free, or moves it to another level.
    #[inline(always)]
    pub(super) fn begin(self) {
        // Acquire: a scan that does not count this operation has read every word before this operation changes one.
        // SAFETY: every slot has a line.
        unsafe { self.control.line(self.number) }.begun.fetch_add(1, Acquire);
    }

    /// Counts the end of that operation.
    #[inline(always)]
    pub(super) fn end(self) {
        // Release: a scan that counts this operation sees what it made free.
        // SAFETY: every slot has a line.
        unsafe { self.control.line(self.number) }.ended.fetch_add(1, Release);
    }

    /// Makes a block of bits taken on a level: opens the bit in which it ends, writes its bytes, records the word.
    #[inline(always)]
    fn occupy(self, level: usize, bit: usize, leaves: usize, search: &Search) -> usize {
        let leaf = bit << unit_log2::<S>(level);
        // SAFETY: the bits of the block belong to this slot, and the word is one of the level's.
        unsafe {
            self.open(level, leaf, leaves);
            self.control.served(self.number, level).store(word_of::<S>(bit), Relaxed);
        }
        if search.is_marked {
            self.end();
        }
        self.write_tag(leaf, leaves);
        self.tidy(&search.stale);
        leaf
    }

    /// Unlists words that were listed and had nothing. Only a successful search does so: a refusal changes nothing.
    #[inline(always)]
    fn tidy(self, stale: &Stale) {
        let mut words = stale.words;
        while let Some(word) = NonZeroUsize::new(words) {
            loop_bound!(LoopBound::Fixed(8));
            let place = first_set(word) as usize;
            // SAFETY: the list contained the word.
            unsafe { self.unlist(stale.level, stale.list, stale.level + 1, stale.node << S::FAN_LOG2 | place) };
            words &= words - 1;
        }
    }

    /// Opens the bit of a level in which a block ends: the rest becomes free, in as few bits as possible.
    ///
    /// ```text
    /// level 2   taken 1                   [        1        ]
    /// level 1   set                       [0][1][1][1][1]...
    /// level 0   set                       [0 0 0 1 1 1 ...]     a block of three leaves
    /// ```
    ///
    /// # Safety
    ///
    /// The bit belongs to the caller, and is closed. The block's leaves end inside it.
    pub(super) unsafe fn open(self, level: usize, leaf: usize, leaves: usize) {
        let last = leaf + leaves - 1;
        let mut above = level;
        while above > 0 && leaves & Self::within(above) != 0 {
            loop_bound!(LoopBound::Fixed(5));
            let number = above - 1;
            let needed = ((leaves & Self::within(above)) + Self::within(number)) >> unit_log2::<S>(number);
            let word = last >> unit_log2::<S>(above);
            // SAFETY: the words below a bit belong to its owner, and are empty.
            unsafe {
                if let Some(free) = NonZeroUsize::new(all::<S>() & !ones::<S>(needed)) {
                    // Release: accesses before the memory was freed, which taking the bit above acquired, come before
                    // those of the next owner. Acquire: an unlisting of the word while it was empty is seen, so that it
                    // is listed again. A plain store could become visible after the unlisting operation's second look,
                    // and itself miss the unlisting.
                    self.control.word(number, word).swap(free.get(), AcqRel);
                    self.list(number, longest_run::<S>(free), number + 1, word);
                }
                self.control.served(self.number, number).store(word, Relaxed);
            }
            above = number;
        }
    }

    /// Writes the bytes of a block.
    #[inline(always)]
    pub(super) fn write_tag(self, leaf: usize, leaves: usize) {
        // SAFETY: a block has at least one leaf, and belongs to the caller; a trimmed one has a leaf for every byte.
        unsafe {
            let order = floor_log2(NonZeroUsize::new_unchecked(leaves)) as usize;
            if S::TRIMS && leaves & (leaves - 1) != 0 {
                self.control.tag(leaf).store(tag::first(order, tag::TRIMMED), Relaxed);
                let mut digit = 0;
                while digit < tag::digits(order) {
                    loop_bound!(LoopBound::Fixed(6));
                    self.control.tag(leaf + 1 + digit).store(tag::digit(leaves, digit), Relaxed);
                    digit += 1;
                }
            } else {
                self.control.tag(leaf).store(tag::first(order, 0), Relaxed);
            }
        }
    }

    /// The first node of a list that is not empty, and its value; zeros if the list is empty.
    ///
    /// # Safety
    ///
    /// The level is below the highest; the list is one of its lists.
    #[inline(always)]
    unsafe fn named(self, level: usize, list: usize) -> (usize, usize) {
        let top = self.control.top;
        // SAFETY: a bit of a node stands for a word of the level, or for a node below.
        unsafe {
            let root = self.control.level(top);
            let (mut node, mut value) = (root.first, None);
            while node < root.first + root.words {
                loop_bound!(LoopBound::Fixed(3));
                value = NonZeroUsize::new(self.control.node(level, list, top, node).load(Relaxed));
                if value.is_some() {
                    break;
                }
                node += 1;
            }
            let Some(mut value) = value else { return (0, 0) };
            let mut above = top;
            while above > level + 1 {
                loop_bound!(LoopBound::Fixed(5));
                node = node << S::FAN_LOG2 | first_from(value, self.start());
                above -= 1;
                value = match NonZeroUsize::new(self.control.node(level, list, above, node).load(Relaxed)) {
                    Some(value) => value,
                    // Another operation is about to unlist the node, or was.
                    None => {
                        self.unlist(level, list, above + 1, node);
                        return (0, 0);
                    }
                };
            }
            (node, value.get())
        }
    }

    /// Lists a word of a level, or a node: sets its bit on every level above, up to where it is set already.
    ///
    /// # Safety
    ///
    /// The level has the list; `below` is a word or a node of level `above - 1`.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn list(self, level: usize, list: usize, above: usize, below: usize) {
        let (mut above, mut below) = (above, below);
        while above <= self.control.top {
            loop_bound!(LoopBound::Fixed(5));
            let bit = 1 << place_of::<S>(below);
            // SAFETY: there is a node above every word and every node but the highest.
            let node = unsafe { self.control.node(level, list, above, word_of::<S>(below)) };
            if node.load(Relaxed) & bit != 0 {
                return;
            }
            // Acquire: an operation that found this node empty cleared its bit above earlier; it is seen and set again.
            node.fetch_or(bit, Acquire);
            below = word_of::<S>(below);
            above += 1;
        }
    }

    /// Unlists a word of a level, or a node, that was found empty; and lists it again if it is not empty now.
    ///
    /// # Safety
    ///
    /// As [`list`](Self::list).
    #[cold]
    unsafe fn unlist(self, level: usize, list: usize, above: usize, below: usize) {
        let (mut above, mut below) = (above, below);
        while above <= self.control.top {
            loop_bound!(LoopBound::Fixed(5));
            let bit = 1 << place_of::<S>(below);
            // SAFETY: there is a node above every word and every node but the highest.
            unsafe {
                let node = self.control.node(level, list, above, word_of::<S>(below));
                node.fetch_and(!bit, Relaxed);
                // Release: an operation that adds to the word or node after this sees its bit cleared, and sets it.
                if above == level + 1 {
                    let now = self.control.word(level, below).fetch_add(0, Release);
                    if let Some(now) = NonZeroUsize::new(now) {
                        self.list(level, longest_run::<S>(now), above, below);
                    }
                } else if self.control.node(level, list, above - 1, below).fetch_add(0, Release) != 0 {
                    return self.list(level, list, above, below);
                }
                if node.load(Relaxed) != 0 {
                    return;
                }
            }
            below = word_of::<S>(below);
            above += 1;
        }
    }
}

/// The state of a search.
struct Search {
    /// It counted its begin, because it may open a bit.
    is_marked: bool,
    stale: Stale,
}

/// Listed words that have nothing.
struct Stale {
    level: usize,
    list: usize,
    node: usize,
    /// Which of the words that the node lists.
    words: usize,
}
