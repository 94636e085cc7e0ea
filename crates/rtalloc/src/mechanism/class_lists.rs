//! Simple segregated storage: blocks of fixed sizes, one free list per size class, no splitting and no coalescing.
//!
//! A block keeps its class permanently. The free blocks of a class form a singly linked LIFO list. If the list is
//! empty, a block is cut from unused memory by advancing a mark (the papers' pointer bumping). A [`ClassMap`] maps
//! requests to classes; allocators of this kind differ only in that map.
//!
//! ```text
//! control    [first][top][end][mark of each small class][list head of each class]
//! memory     [block][block][block] ... | not yet cut |
//!                                      ^ top         ^ end
//! block      [header][payload ...........]     the payload is aligned, the header precedes it
//! free block [header][next][.............]
//! header     [class][class, complemented]      live: the halves are complements; free: they are equal
//! ```
//!
//! A class with blocks smaller than a *chunk* cuts them from a chunk that holds this class only; larger blocks are cut
//! from the memory directly, in whole chunks. The memory is therefore a walkable row of chunks and larger blocks.
//!
//! Half of the header is the papers' reference to the class. The other half detects a double free, and nearly every
//! overwritten header, with one test.

use crate::contract::{AllocError, Block, Coalescing, Contract, Corruption, Cost, Mechanism, MisuseKind};
use crate::mechanism::memory::{Memory, Offset};
use crate::mechanism::policy_heap::{Policy, Served};
use crate::mechanism::sealed::Sealed;
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;
use crate::region::round_up;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// The end of a list. The control structure is at this offset, so no block is.
const NULL: Offset = Offset::BASE;

/// How requests map to classes. Classes count from 0, and their sizes ascend.
///
/// Sizes are of whole blocks, headers included.
pub trait ClassMap<W: Width>: Sealed + Copy + core::fmt::Debug + 'static {
    /// Sizes and addresses are multiples of this, and every payload is aligned to it. It holds a header and a link.
    const GRANULE: usize;
    /// Memory is cut in multiples of this. A class of smaller blocks cuts them from one chunk of its own at a time.
    const CHUNK: usize;
    /// Number of classes with blocks smaller than a chunk: the small classes.
    const SMALL_CLASSES: usize;
    /// Largest number of classes, below the largest value of half a word.
    const MAX_CLASSES: usize;
    /// The first payload is aligned to this, and so is the payload of every block that is at least as large.
    const ALIGN: usize;
    /// The facts that follow from the map.
    const CONTRACT: Contract;

    /// The options of the map.
    type Config: Copy + Default + core::fmt::Debug;

    /// The map with these options.
    fn new(config: Self::Config) -> Self;
    /// Number of classes, at least one.
    fn classes(&self) -> usize {
        Self::MAX_CLASSES
    }
    /// The class that serves a block request of `need` bytes, which is at least the header and one byte, and at most
    /// the size of the last class.
    fn class_for(&self, need: usize) -> Class;
    /// Size of the blocks of a class: a multiple of the granule, whatever the number of the class.
    fn size(&self, class: Class) -> usize;
    /// Whether the map can be one that was made.
    fn is_intact(&self) -> bool {
        true
    }
}

/// The facts common to every map.
pub(crate) const fn class_contract<W: Width, M: ClassMap<W>>() -> Contract {
    Contract {
        name: "",
        source: "",
        policy: "",
        mechanism: Mechanism::SegregatedFit,
        granule_bytes: M::GRANULE,
        header_bytes: W::BYTES,
        alignment_bytes: M::GRANULE,
        min_block_bytes: M::GRANULE,
        splitting_threshold_bytes: 0,
        max_span_bytes: W::MAX,
        largest_request_bytes: usize::MAX,
        largest_alignment_bytes: M::ALIGN,
        page_bytes: if M::SMALL_CLASSES > 0 { M::CHUNK } else { 0 },
        coarsest_bytes: 0,
        allocate: Cost::Constant,
        deallocate: Cost::Constant,
        reallocate: Cost::Constant,
        coalescing: Coalescing::Never,
        grows_in_place: false,
        shrinks_in_place: false,
        detects_double_free: true,
        detects_stale_pointers: true,
        detects_overwritten_tags: true,
        largest_is_exact: true,
        largest_covers_smaller: false,
    }
}

/// The policy of a heap of class lists. Offsets count from the end of this struct, where the marks and heads begin.
#[derive(Debug)]
pub struct ClassLists<M, W> {
    /// Offset of the first payload.
    first: Offset,
    /// Offset of the payload that is cut next: a whole number of chunks after `first`.
    top: Offset,
    /// Offset of the payload after the last possible block: a whole number of chunks after `first`, at least one.
    end: Offset,
    /// Classes whose blocks fit the heap, at least one.
    classes: usize,
    /// The largest request, which the last of them serves.
    limit_bytes: usize,
    map: M,
    width: PhantomData<W>,
}

impl<M, W> Sealed for ClassLists<M, W> {}

impl<M: ClassMap<W>, W: Width> ClassLists<M, W> {
    const HEADER: usize = W::BYTES;
    /// Bits of half a header.
    const HALF: u32 = W::BITS / 2;
    /// Half a header of ones.
    const ONES: usize = (1 << Self::HALF) - 1;
    /// The heads follow the marks.
    const HEADS: Offset = Offset::new(M::SMALL_CLASSES * W::BYTES);

    const VALID: () = {
        assert!(M::GRANULE.is_power_of_two() && M::GRANULE >= 2 * W::BYTES, "a block holds a header and a link");
        assert!(M::CHUNK.is_power_of_two() && M::CHUNK >= M::GRANULE, "a chunk is a power of two of granules");
        assert!(M::ALIGN.is_power_of_two() && M::ALIGN >= M::GRANULE && M::ALIGN <= M::CHUNK);
        assert!(M::MAX_CLASSES >= 1 && M::MAX_CLASSES <= Self::ONES, "half a header names a class");
    };

    /// The header of a live block.
    #[inline(always)]
    fn live(class: Class) -> usize {
        class.number() | (class.number() ^ Self::ONES) << Self::HALF
    }

    /// The header of a free block.
    #[inline(always)]
    fn free(class: Class) -> usize {
        class.number() | class.number() << Self::HALF
    }

    /// The class in a header.
    #[inline(always)]
    fn class_in(header: usize) -> Class {
        Class::new(header & Self::ONES)
    }

    /// Whether the blocks of a class have the size of a chunk or more.
    #[inline(always)]
    fn is_large(class: Class) -> bool {
        class.number() >= M::SMALL_CLASSES
    }

    /// The first `count` classes.
    #[inline(always)]
    fn first_classes(count: usize) -> impl DoubleEndedIterator<Item = Class> {
        (0..count).map(Class::new)
    }

    /// The bits in which the halves of a header differ: none or all in a valid header.
    #[inline(always)]
    fn difference(header: usize) -> usize {
        (header ^ header >> Self::HALF) & Self::ONES
    }

    /// The words after the policy, from which offsets count.
    #[inline(always)]
    fn memory(&self) -> Memory<W> {
        Memory::new(NonNull::from(self).cast::<Self>().map_addr(|at| at.saturating_add(size_of::<Self>())).cast())
    }

    /// Offset of the head of a class.
    #[inline(always)]
    fn head(class: Class) -> Offset {
        Self::HEADS.up(class.number() * W::BYTES)
    }

    /// Offset of the mark of a small class.
    #[inline(always)]
    fn mark(class: Class) -> Offset {
        Offset::new(class.number() * W::BYTES)
    }

    /// Bytes of marks and heads for this number of classes.
    fn words_bytes(classes: usize) -> usize {
        (M::SMALL_CLASSES + classes) * W::BYTES
    }

    /// Addresses of the first payload and of the end of the last block, for this number of classes; `None` if the
    /// largest block, or a chunk, does not fit.
    fn layout(map: M, start: usize, end: usize, classes: usize) -> Option<(usize, usize)> {
        let first = round_up(start.checked_add(Self::words_bytes(classes) + Self::HEADER)?, M::ALIGN)?;
        let room = (end.checked_add(Self::HEADER)?.checked_sub(first)?) & !(M::CHUNK - 1);
        (room >= map.size(Class::new(classes - 1)).max(M::CHUNK)).then_some((first, first + room))
    }

    /// Whether the current chunk is used up, or the class has none yet.
    #[inline(always)]
    fn is_used_up(&self, mark: Offset) -> bool {
        mark.bytes_from(self.first) & (M::CHUNK - 1) == 0
    }

    /// Cuts `bytes`, in whole chunks, from the unused memory.
    #[inline(always)]
    fn bump(&mut self, bytes: usize) -> Result<Offset, AllocError> {
        let block = self.top;
        if self.end.bytes_from(block) < bytes {
            return Err(AllocError::Exhausted);
        }
        self.top = block.up(bytes);
        Ok(block)
    }

    /// Cuts a block of a class whose list is empty.
    ///
    /// ```text
    /// a class of a chunk or more:  ... |top not yet cut ...      ->  ... [block]|top ...
    /// a small class:               chunk [block][block]|mark ... ->  chunk [block][block][block]|mark ...
    /// ```
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run, and `class` is one of the heap's.
    #[inline(always)]
    unsafe fn cut(&mut self, class: Class) -> Result<Offset, AllocError> {
        let size = self.map.size(class);
        if Self::is_large(class) {
            return self.bump(size);
        }
        let memory = self.memory();
        // SAFETY: `begin` initialised the marks.
        unsafe {
            let mut block = memory.load_link(Self::mark(class));
            if self.is_used_up(block) {
                block = self.bump(M::CHUNK)?;
            }
            memory.store_link(Self::mark(class), block.up(size));
            Ok(block)
        }
    }

    /// Offset and class of the live block at an address.
    ///
    /// # Errors
    ///
    /// The misuse that the address or the header shows.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    #[inline(always)]
    unsafe fn live_block(&self, address: usize) -> Result<(Offset, Class), MisuseKind> {
        let block = self.memory().offset(address);
        // The bits below the granule rotate to the top: one comparison for alignment and both bounds.
        let log2 = M::GRANULE.ilog2();
        if block.bytes_from(self.first).rotate_right(log2) >= self.top.bytes_from(self.first) >> log2 {
            return Err(MisuseKind::ForeignPointer);
        }
        // SAFETY: everything between the first payload and the top belongs to the heap, with its headers.
        let header = unsafe { self.memory().load(block.down(Self::HEADER)) };
        match Self::difference(header) {
            difference if difference == Self::ONES => Ok((block, Self::class_in(header))),
            0 => Err(MisuseKind::DoubleFree),
            _ => Err(MisuseKind::ContradictoryTags),
        }
    }

    /// Calls `visit` with offset, size and header of every block from the first to the top. The header is `None` for
    /// the uncut rest of a chunk.
    ///
    /// # Errors
    ///
    /// The first block whose header contains no valid class, or that ends after the top.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run.
    unsafe fn blocks(
        &self,
        visit: &mut dyn FnMut(Offset, usize, Option<usize>) -> Result<(), Corruption>,
    ) -> Result<(), Corruption> {
        let memory = self.memory();
        let broken = |invariant, block| Err(Corruption { invariant, address: memory.address(block) });
        let mut block = self.first;
        // The end of the current chunk, and the mark of its class if this is the chunk the class cuts from.
        let (mut chunk_end, mut mark) = (block, NULL);
        while block < self.top {
            if block == mark {
                visit(block, chunk_end.bytes_from(block), None)?;
                block = chunk_end;
                continue;
            }
            // SAFETY: a chunk begins with a block, and every block below the mark was cut, so there is a header.
            let header = unsafe { memory.load(block.down(Self::HEADER)) };
            let class = Self::class_in(header);
            if class.number() >= self.classes {
                return broken("a block's header names a class", block);
            }
            let size = self.map.size(class);
            if block >= chunk_end && !Self::is_large(class) {
                chunk_end = block.up(M::CHUNK);
                // SAFETY: `begin` initialised the marks.
                let present = unsafe { memory.load_link(Self::mark(class)) };
                mark = if present > block && present < chunk_end { present } else { NULL };
            }
            let end = if Self::is_large(class) { self.top } else { chunk_end };
            if size < M::GRANULE || size > end.bytes_from(block) || (block < chunk_end && Self::is_large(class)) {
                return broken("a block ends within its chunk, or below the top", block);
            }
            visit(block, size, Some(header))?;
            block = block.up(size);
        }
        Ok(())
    }

    /// Verifies the list of a class and calls `visit` with every block of it. It follows only links to possible blocks.
    ///
    /// # Errors
    ///
    /// An invalid link, a block that is not free or of another class, or more blocks than `most`.
    ///
    /// # Safety
    ///
    /// [`begin`](Policy::begin) has run, and `class` is one of the heap's.
    unsafe fn check_list(&self, class: Class, most: usize, visit: &mut dyn FnMut(Offset)) -> Result<(), Corruption> {
        let memory = self.memory();
        let mut node = Self::head(class);
        for _ in 0..=most {
            // SAFETY: the node is the head, or a place of a block between the first and the top, which was checked.
            let block = unsafe { memory.load_link(node) };
            if block == NULL {
                return Ok(());
            }
            let is_place =
                (self.first..self.top).contains(&block) && block.bytes_from(self.first).is_multiple_of(M::GRANULE);
            // SAFETY: read only if `block` is a possible block, whose header is the heap's.
            if !is_place || unsafe { memory.load(block.down(Self::HEADER)) } != Self::free(class) {
                let invariant = "a free list leads to free blocks of its class";
                return Err(Corruption { invariant, address: memory.address(node) });
            }
            visit(block);
            node = block;
        }
        Err(Corruption { invariant: "a free list holds each free block once", address: memory.address(node) })
    }
}

/// A hash of an offset. The sum of the hashes identifies a set of offsets.
fn mixed(offset: Offset) -> u64 {
    let mixed = (offset.bytes() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

// SAFETY: a block is cut from memory that no block covered, and leaves its list when it is handed out. Its payload ends
// where the header of the next block begins.
unsafe impl<M: ClassMap<W>, W: Width> Policy for ClassLists<M, W> {
    type Config = M::Config;

    const CONTRACT: Contract = M::CONTRACT;

    fn plan(start: usize, end: usize, config: M::Config) -> Option<Self> {
        const { Self::VALID };
        let map = M::new(config);
        let mut classes = 1;
        while classes < map.classes() && Self::layout(map, start, end, classes + 1).is_some() {
            classes += 1;
        }
        let (first, end) = Self::layout(map, start, end, classes)?;
        let (first, end) = (Offset::new(first - start), Offset::new(end - start));
        let limit_bytes = map.size(Class::new(classes - 1)) - Self::HEADER;
        Some(ClassLists { first, top: first, end, classes, limit_bytes, map, width: PhantomData })
    }

    fn needed_bytes(config: M::Config) -> usize {
        Self::words_bytes(1) + M::ALIGN - 1 + M::new(config).size(Class::new(0)).max(M::CHUNK)
    }

    unsafe fn begin(&mut self) {
        let memory = self.memory();
        for class in Self::first_classes(M::SMALL_CLASSES) {
            // SAFETY: the marks follow the policy, in its room. `first` stands for a used-up chunk.
            unsafe { memory.store_link(Self::mark(class), self.first) };
        }
        for class in Self::first_classes(self.classes) {
            // SAFETY: the heads follow the marks, in the policy's room.
            unsafe { memory.store_link(Self::head(class), NULL) };
        }
    }

    #[inline(always)]
    fn limit(&self) -> usize {
        self.limit_bytes
    }

    #[inline(always)]
    fn origin(&self) -> usize {
        self.memory().address(self.first.down(Self::HEADER))
    }

    #[inline(always)]
    unsafe fn take(&mut self, size_bytes: usize, align_bytes: usize) -> Result<Served, AllocError> {
        let need = size_bytes + Self::HEADER;
        // Blocks at least as large as the alignment are aligned to it, because of where they are cut.
        let class = self.map.class_for(if M::ALIGN > M::GRANULE { need.max(align_bytes) } else { need });
        let memory = self.memory();
        // SAFETY: the request is within the limit, so the heap has the class. A head is a free block or `NULL`.
        unsafe {
            let mut block = memory.load_link(Self::head(class));
            if block == NULL {
                block = self.cut(class)?;
            } else {
                memory.store_link(Self::head(class), memory.load_link(block));
            }
            memory.store(block.down(Self::HEADER), Self::live(class));
            Ok(Served { address: memory.address(block), usable_bytes: self.map.size(class) - Self::HEADER })
        }
    }

    #[inline(always)]
    unsafe fn release(&mut self, address: usize) -> Result<usize, MisuseKind> {
        let memory = self.memory();
        // SAFETY: `begin` has run, and `live_block` found the block live, so its words become the heap's.
        unsafe {
            let (block, class) = self.live_block(address)?;
            memory.store_link(block, memory.load_link(Self::head(class)));
            memory.store_link(Self::head(class), block);
            memory.store(block.down(Self::HEADER), Self::free(class));
            Ok(self.map.size(class) - Self::HEADER)
        }
    }

    #[inline(always)]
    unsafe fn find(&self, address: usize) -> Result<usize, MisuseKind> {
        // SAFETY: `begin` has run, which the caller guarantees.
        unsafe { self.live_block(address) }.map(|(_, class)| self.map.size(class) - Self::HEADER)
    }

    unsafe fn largest(&self) -> usize {
        let memory = self.memory();
        for class in Self::first_classes(self.classes).rev() {
            let size = self.map.size(class);
            // SAFETY: `begin` initialised the heads and the marks.
            let is_served = unsafe {
                memory.load_link(Self::head(class)) != NULL
                    || self.end.bytes_from(self.top) >= size.max(M::CHUNK)
                    || (!Self::is_large(class) && !self.is_used_up(memory.load_link(Self::mark(class))))
            };
            if is_served {
                return size.saturating_sub(Self::HEADER);
            }
        }
        0
    }

    unsafe fn walk(&self, visit: &mut dyn FnMut(Block)) {
        let memory = self.memory();
        let mut show = |block: Offset, size_bytes: usize, header: Option<usize>| {
            visit(Block {
                address: memory.address(block),
                front_bytes: Self::HEADER,
                size_bytes,
                usable_bytes: size_bytes - Self::HEADER,
                free: header.is_none_or(|header| Self::difference(header) != Self::ONES),
            });
            Ok(())
        };
        // SAFETY: `begin` has run, which the caller guarantees.
        if unsafe { self.blocks(&mut show) }.is_ok() && self.top < self.end {
            let _ = show(self.top, self.end.bytes_from(self.top), None);
        }
    }

    unsafe fn check(&self) -> Result<(), Corruption> {
        let memory = self.memory();
        let broken = |invariant, block| Err(Corruption { invariant, address: memory.address(block) });
        let are_chunks = |offset: Offset| offset.bytes_from(self.first).is_multiple_of(M::CHUNK);
        if !self.map.is_intact() || self.classes > self.map.classes() {
            return broken("the sizes of classes ascend", self.first);
        }
        if self.top < self.first || self.top > self.end || !are_chunks(self.top) || !are_chunks(self.end) {
            return broken("the top is between the first block and the end", self.first);
        }
        for class in Self::first_classes(M::SMALL_CLASSES) {
            // SAFETY: `begin` initialised the marks.
            let mark = unsafe { memory.load_link(Self::mark(class)) };
            if mark < self.first || mark > self.top || !mark.bytes_from(self.first).is_multiple_of(self.map.size(class))
            {
                return broken("a mark is where a block of its class can begin", Self::mark(class));
            }
            let start = mark.down(mark.bytes_from(self.first) & (M::CHUNK - 1));
            // SAFETY: a chunk in use begins with a block, which has a header.
            if !self.is_used_up(mark) && Self::class_in(unsafe { memory.load(start.down(Self::HEADER)) }) != class {
                return broken("a mark is in a chunk of its class", Self::mark(class));
            }
        }
        // The free blocks and the blocks in lists: equal numbers, and equal sums of hashes.
        let (mut free_blocks, mut sum) = (0usize, 0u64);
        let mut chunk_class = Class::new(0);
        let mut judge = |block: Offset, _: usize, header: Option<usize>| {
            let Some(header) = header else { return Ok(()) };
            let class = Self::class_in(header);
            if are_chunks(block) {
                chunk_class = class;
            }
            if class != chunk_class {
                return broken("the blocks of a chunk have one class", block);
            }
            match Self::difference(header) {
                0 => {
                    free_blocks += 1;
                    sum = sum.wrapping_add(mixed(block));
                }
                difference if difference != Self::ONES => {
                    return broken("the halves of a header are equal or complements", block);
                }
                _ => {}
            }
            Ok(())
        };
        // SAFETY: `begin` has run, and `check_list` verifies each block before it follows its link.
        unsafe {
            self.blocks(&mut judge)?;
            let (mut listed, mut listed_sum) = (0, 0u64);
            for class in Self::first_classes(self.classes) {
                self.check_list(class, free_blocks, &mut |block| {
                    listed += 1;
                    listed_sum = listed_sum.wrapping_add(mixed(block));
                })?;
            }
            if (listed, listed_sum) != (free_blocks, sum) {
                return broken("every free block is in the list of its class", self.first);
            }
        }
        Ok(())
    }

    unsafe fn fingerprint(&self, word: &mut dyn FnMut(usize)) {
        let memory = self.memory();
        word(self.top.bytes());
        // SAFETY: `begin` has run, and links lead to free blocks.
        unsafe {
            let _ = self.blocks(&mut |_, size, header| {
                word(header.unwrap_or(size));
                Ok(())
            });
            for class in Self::first_classes(self.classes) {
                let mut block = memory.load_link(Self::head(class));
                while block != NULL {
                    word(block.bytes());
                    block = memory.load_link(block);
                }
                word(NULL.bytes());
            }
        }
    }
}
