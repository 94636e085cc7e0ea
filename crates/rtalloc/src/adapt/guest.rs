//! A heap as the global allocator of a program with one thread, where every instruction is paid for.
//!
//! # Idea
//!
//! Rust's callers pass the size of a block when they free it. So a freed block of fewer than [`LISTS`] granules goes to
//! the list of that size; its header is not read. The next request of that size takes it from there. Other requests,
//! and those that find their list empty, go to the inner heap, for which the blocks in the lists stay live. When the
//! inner heap refuses, all lists are emptied into it, where neighbours coalesce, and it is asked again.
//!
//! ```text
//! list of 2 granules -> [block] -> [block]
//! list of 3 granules                           none: the inner heap allocates
//! above 64 granules                            the inner heap allocates and frees
//! ```
//!
//! The lists are those of ptmalloc's cache for each thread (glibc's *tcache*), as in [`Cached`](super::Cached), here
//! without a limit of their length and without any check.
//!
//! # Costs
//!
//! A dozen instructions where a list serves the operation. The worst case is a request that the inner heap refuses: it
//! frees every block of the lists. So there is no bound: this heap is for programs that pay for the sum of their
//! instructions, such as the guests of zero-knowledge virtual machines. Misuse is undefined behaviour, as with
//! [`Unchecked`], with which the inner heap should validate.
//!
//! Memory: a word for each list, in the value. Blocks in the lists do not coalesce until memory is short: in a large
//! region, the heap grows to the sum of what each size needed at most; in a smaller one, to that region. So the length
//! of the region limits the memory that is touched.
//!
//! # Figures
//!
//! Instructions on RV32IM, of an allocation / of a free, each the mean over a whole trace: of this crate's allocators
//! and of the global allocator of embedded-alloc 0.7, in a region of 1.3 times the largest sum of live sizes (M), heap
//! value included. *Refused*: a request of the trace fails there. *Bump* never frees: it executes the fewest
//! instructions, and needs the memory in brackets. *Of embedded-alloc's*: `Guest`'s instructions for all allocations
//! and frees as a share of embedded-alloc's in the same region, or where that refuses, in one of 128 MiB.
//!
//! <!-- ci/zkvm.sh -->
//! | trace | M | embedded-alloc's TLSF | bump | `Tlsf` | `UncheckedTlsf` | half-fit, unchecked | `Guest` | of embedded-alloc's |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `cc1-interpreter` | 5,707 KB | 195 / 134 | 13 / 1 (11.9 M) | 105 / 81 | 105 / 69 | 78 / 55 | 32 / 16 | 0.14 |
//! | `espeak-speech` | 873 KB | 208 / 135 | 13 / 1 (4.3 M) | 100 / 76 | 100 / 64 | refused | 95 / 30 | 0.37 |
//! | `gstreamer-ogg` | 1,885 KB | 202 / 131 | 13 / 1 (7.3 M) | 107 / 80 | 107 / 67 | 79 / 52 | 92 / 21 | 0.35 |
//! | `lame-decode` | 461 KB | 211 / 147 | 13 / 1 (2.1 M) | 93 / 76 | 93 / 64 | 82 / 62 | 78 / 42 | 0.34 |
//! | `lua-entities` | 584 KB | 203 / 127 | 13 / 1 (30.1 M) | 106 / 77 | 106 / 65 | 78 / 53 | 19 / 12 | 0.09 |
//! | `mosquitto-broker` | 327 KB | 188 / 125 | 13 / 1 (6.3 M) | 99 / 78 | 99 / 65 | 77 / 54 | 38 / 12 | 0.16 |
//! | `sqlite-shop` | 2,190 KB | 178 / 120 | 13 / 1 (13.6 M) | 95 / 78 | 95 / 66 | refused | 39 / 24 | 0.21 |
//! | `p2` | 319 KB | 202 / 119 | 13 / 1 (79.4 M) | 110 / 83 | 110 / 69 | 83 / 56 | 112 / 58 | 0.53 |
//! | `small` | 396 KB | refused | 13 / 1 (2.2 M) | 100 / 68 | 100 / 56 | refused | 83 / 12 | 0.37 |
//! | `steady` | 537 KB | 165 / 100 | 13 / 1 (9.9 M) | 94 / 72 | 94 / 59 | refused | 41 / 12 | 0.21 |
//! | made in 128 MiB |  | 99 | 4 | 13,959 | 13,994 | 587 | 13,996 |  |
//!
//! rustc 1.95.0 (59807616e 2026-04-14).
//! Measured 2026-11-29 at 63c65289 by `ci/zkvm.sh --update`.
//! <!-- end -->
//!
//! On `p2`, half-fit without validation executes fewer instructions than `Guest`, for an allocation and for a free.
//! There, the lists save nothing for an allocation: 112 instructions, where their inner heap alone takes 110. `Guest`
//! stays the recommendation: on the five other traces that both serve, its two means have a smaller sum, and half-fit
//! refuses a request of four of the ten traces in 1.3 M. A program for which half-fit suffices should count both.
//!
//! The recordings are those of 64-bit programs, so pointers in their objects have twice their size here. Reallocations
//! are performed, but they are neither in the means nor in the share, because most of their instructions copy. Nor is
//! the making of the heap, in the last row: a heap is made once. TLSF's control structure takes more instructions in a
//! larger region (`J` of 3 needs a fourth of them).

use crate::contract::{InitError, RegionAllocator};
use crate::mechanism::segregated::RoundUp;
use crate::mechanism::stats::NoStats;
use crate::mechanism::validation::Unchecked;
use crate::mechanism::word::Offset32;
use crate::segregated::tlsf::Tlsf;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};

/// TLSF without checks and statistics.
pub type UncheckedTlsf = Tlsf<'static, 5, RoundUp, Offset32, NoStats, Unchecked>;

/// Lists, by granules of the blocks, header included: one for each number of granules below this. The first is empty.
pub const LISTS: usize = 65;

/// The region allocator `H` as the global allocator of a program with one thread; see the [module](self).
///
/// ```no_run
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::Guest;
///
/// // SAFETY: this program has one thread, and no interrupts.
/// #[global_allocator]
/// static HEAP: Guest = unsafe { Guest::new() };
///
/// static mut MEMORY: [MaybeUninit<u8>; 1 << 20] = [MaybeUninit::uninit(); 1 << 20];
///
/// fn main() {
///     // SAFETY: the memory is borrowed once.
///     HEAP.init(unsafe { &mut *(&raw mut MEMORY) }).expect("enough memory");
///     assert_eq!(vec![1; 100].len(), 100);
/// }
/// ```
pub struct Guest<H = UncheckedTlsf> {
    /// The first block of each list, or null. The first word of each block in a list is the next one. Every block in
    /// list `n` is live in the heap, and has at least `n` granules.
    lists: UnsafeCell<[*mut u8; LISTS]>,
    /// `None` before [`init`](Self::init).
    heap: UnsafeCell<Option<H>>,
}

// SAFETY: the user of `new` promises that there is one thread.
unsafe impl<H> Sync for Guest<H> {}
// SAFETY: as above.
unsafe impl<H> Send for Guest<H> {}

impl<H> Guest<H> {
    /// A heap without memory, which refuses every request.
    ///
    /// # Safety
    ///
    /// As long as the value is in use, one thread uses it, and nothing that interrupts this thread does.
    pub const unsafe fn new() -> Self {
        Guest { lists: UnsafeCell::new([null_mut(); LISTS]), heap: UnsafeCell::new(None) }
    }
}

impl<H: RegionAllocator<'static>> Guest<H> {
    const GRANULE: usize = H::CONTRACT.granule_bytes;
    const HEADER: usize = H::CONTRACT.header_bytes;

    const VALID: () = {
        assert!(H::CONTRACT.min_block_bytes - Self::HEADER >= size_of::<*mut u8>(), "a free block has a link");
        assert!(Self::HEADER != 0 && Self::GRANULE.is_power_of_two(), "the inner heap has blocks with a header");
        assert!(H::CONTRACT.alignment_bytes >= Self::GRANULE, "a list serves alignments up to the granule");
        assert!(H::CONTRACT.alignment_bytes >= align_of::<*mut u8>(), "a link is aligned");
    };

    /// Gives the heap its memory.
    ///
    /// # Errors
    ///
    /// As [`RegionAllocator::new`], and if the heap has memory already: the region is lost then.
    ///
    /// # Time
    ///
    /// That of the inner heap's initialisation.
    pub fn init(&self, region: &'static mut [MaybeUninit<u8>]) -> Result<(), InitError>
    where
        H::Config: Default,
    {
        let () = Self::VALID;
        // SAFETY: one thread uses the value, and no other reference to the heap is in use.
        let heap = unsafe { &mut *self.heap.get() };
        if heap.is_some() {
            return Err(InitError::Configuration { what: "a heap without memory" });
        }
        *heap = Some(H::new(region, Default::default())?);
        Ok(())
    }

    /// The list of a layout's blocks, if there is one.
    #[inline(always)]
    fn list(&self, layout: Layout) -> Option<*mut *mut u8> {
        // The size is at most `isize::MAX`: no overflow.
        let granules = (layout.size() + (Self::HEADER + Self::GRANULE - 1)) / Self::GRANULE;
        let has_list = granules < LISTS && layout.align() <= Self::GRANULE;
        // SAFETY: the number is one of a list.
        has_list.then(|| unsafe { self.lists.get().cast::<*mut u8>().add(granules) })
    }

    /// Allocates from the inner heap what a list has not.
    #[inline(never)]
    fn allocate(&self, size_bytes: usize, align_bytes: usize) -> *mut u8 {
        self.ask(|heap| heap.allocate_bytes(size_bytes, align_bytes).ok())
    }

    /// Allocates a block for a list that is empty: as large as any block of that list.
    #[inline(never)]
    fn allocate_listed(&self, size_bytes: usize) -> *mut u8 {
        let block_bytes = (size_bytes + (Self::HEADER + Self::GRANULE - 1)) & !(Self::GRANULE - 1);
        self.ask(|heap| heap.allocate_bytes(block_bytes - Self::HEADER, 1).ok())
    }

    /// Requests something of the inner heap, again with empty lists if it refuses.
    #[inline(always)]
    fn ask(&self, request: impl Fn(&mut H) -> Option<NonNull<u8>>) -> *mut u8 {
        // SAFETY: one thread uses the value, and no other reference to the heap is in use.
        let Some(heap) = (unsafe { (*self.heap.get()).as_mut() }) else { return null_mut() };
        let block = request(heap).or_else(|| {
            core::hint::cold_path();
            self.empty_lists(heap);
            request(heap)
        });
        block.map_or(null_mut(), NonNull::as_ptr)
    }

    /// Frees every block of the lists.
    #[cold]
    #[inline(never)]
    fn empty_lists(&self, heap: &mut H) {
        // SAFETY: one thread uses the value, and no other reference to the lists is in use. Blocks in the lists are
        // live in the heap, and begin with the next one.
        unsafe {
            // Loop bound: the blocks in the lists.
            for first in &mut *self.lists.get() {
                while let Some(block) = NonNull::new(*first) {
                    *first = block.cast::<*mut u8>().read();
                    heap.deallocate(block);
                }
            }
        }
    }

    /// Frees a block that no list takes.
    ///
    /// # Safety
    ///
    /// As [`GlobalAlloc::dealloc`].
    #[inline(never)]
    unsafe fn deallocate(&self, block: *mut u8) {
        // SAFETY: one thread uses the value, and no other reference to the heap is in use. The caller guarantees a live
        // block, so there is a heap.
        unsafe { (*self.heap.get()).as_mut().unwrap_unchecked().deallocate(NonNull::new_unchecked(block)) }
    }
}

// SAFETY: blocks are the inner heap's, live there until they are freed there. One in a list is in one list once, and
// is as large as any request for which the list is used.
unsafe impl<H: RegionAllocator<'static>> GlobalAlloc for Guest<H> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(first) = self.list(layout) else { return self.allocate(layout.size(), layout.align()) };
        // SAFETY: one thread uses the value. A block in a list begins with the next one.
        unsafe {
            let block = *first;
            if block.is_null() {
                return self.allocate_listed(layout.size());
            }
            *first = block.cast::<*mut u8>().read();
            block
        }
    }

    #[inline(always)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: one thread uses the value. The caller guarantees a live block of this layout, which has room for a
        // link.
        unsafe {
            let Some(first) = self.list(layout) else { return self.deallocate(block) };
            block.cast::<*mut u8>().write(*first);
            *first = block;
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size_bytes: usize) -> *mut u8 {
        // SAFETY: the caller guarantees that the size is legal at this alignment, and a live block of the old layout.
        // Both blocks are as long as the copy.
        unsafe {
            let new = Layout::from_size_align_unchecked(size_bytes, layout.align());
            match (self.list(layout), self.list(new)) {
                (Some(old), Some(new)) if old == new => block,
                (None, None) => self
                    .ask(|heap| heap.reallocate_bytes(NonNull::new_unchecked(block), size_bytes, layout.align()).ok()),
                _ => {
                    let moved = self.alloc(new);
                    if !moved.is_null() {
                        core::ptr::copy_nonoverlapping(block, moved, size_bytes.min(layout.size()));
                        self.dealloc(block, layout);
                    }
                    moved
                }
            }
        }
    }
}

impl<H> fmt::Debug for Guest<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: one thread uses the value.
        f.debug_struct("Guest").field("has_memory", &unsafe { (*self.heap.get()).is_some() }).finish()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::HalfFit;
    use crate::mechanism::segregated::Exact;
    use std::{vec, vec::Vec};

    /// A live block, and the byte that fills it.
    struct Live(*mut u8, Layout, u8);

    impl Live {
        fn assert_whole(&self, bytes: usize) {
            // SAFETY: the block is live, and was filled.
            let content = unsafe { core::slice::from_raw_parts(self.0, bytes) };
            assert!(content.iter().all(|byte| *byte == self.2), "a block changed");
        }

        fn fill(&self) {
            // SAFETY: the block is live.
            unsafe { self.0.write_bytes(self.2, self.1.size()) }
        }
    }

    fn xorshift(state: &mut u32) -> usize {
        *state ^= *state << 13;
        *state ^= *state >> 17;
        *state ^= *state << 5;
        *state as usize
    }

    /// Random operations in a region that is too small for some of them: blocks keep their content, are aligned and do
    /// not overlap; with everything freed and the lists empty, the heap is as good as new.
    fn random<H: RegionAllocator<'static, Config: Default>>() {
        // SAFETY: one thread uses it.
        let guest: Guest<H> = unsafe { Guest::new() };
        // SAFETY: a legal layout.
        assert!(unsafe { guest.alloc(Layout::new::<u64>()) }.is_null(), "a block without memory");
        guest.init(vec![MaybeUninit::uninit(); 1 << 16].leak()).expect("a region for a heap");
        assert!(guest.init(vec![MaybeUninit::uninit(); 1 << 16].leak()).is_err(), "made twice");
        // SAFETY: one thread uses it.
        let inner = || unsafe { (*guest.heap.get()).as_mut() }.expect("made above");
        let fresh = inner().largest_allocatable();
        let (mut state, mut refused, mut live) = (12_345, 0, Vec::<Live>::new());
        for _ in 0..40_000 {
            let word = xorshift(&mut state);
            let align = 1 << [0, 2, 3, 3, 3, 3, 4, 6][word & 7];
            let size = 1 + (xorshift(&mut state) >> 8) % (16 << (word >> 3 & 7));
            let layout = Layout::from_size_align(size, align).expect("a legal layout");
            let chosen = if live.is_empty() { 0 } else { (word >> 8) % live.len() };
            // SAFETY: layouts are legal, and blocks are live with theirs.
            unsafe {
                match (word >> 6) % 8 {
                    0..4 => {
                        let block = Live(guest.alloc(layout), layout, word as u8);
                        if block.0.is_null() {
                            refused += 1;
                            continue;
                        }
                        block.fill();
                        live.push(block);
                    }
                    4 if !live.is_empty() => {
                        let Live(block, old, byte) = live[chosen];
                        let moved = guest.realloc(block, old, size);
                        if moved.is_null() {
                            refused += 1;
                            continue;
                        }
                        let new = Layout::from_size_align(size, old.align()).expect("a legal layout");
                        live[chosen] = Live(moved, new, byte);
                        live[chosen].assert_whole(size.min(old.size()));
                        live[chosen].fill();
                    }
                    _ if !live.is_empty() => {
                        let block = live.swap_remove(chosen);
                        block.assert_whole(block.1.size());
                        guest.dealloc(block.0, block.1);
                    }
                    _ => {}
                }
            }
            assert!(live.last().is_none_or(|one| one.0.addr().is_multiple_of(one.1.align())), "not aligned");
        }
        assert!(refused > 100, "the region is never short");
        for block in live {
            block.assert_whole(block.1.size());
            // SAFETY: the block is live.
            unsafe { guest.dealloc(block.0, block.1) };
        }
        guest.empty_lists(inner());
        assert_eq!(inner().check(), Ok(()));
        assert_eq!(inner().largest_allocatable(), fresh);
    }

    #[test]
    fn blocks_are_kept_and_memory_comes_back() {
        random::<UncheckedTlsf>();
        random::<Tlsf<'static>>();
        random::<HalfFit<'static, Exact, Offset32, NoStats, Unchecked>>();
    }

    #[test]
    fn freed_block_serves_its_size_again() {
        // SAFETY: one thread uses it.
        let guest: Guest = unsafe { Guest::new() };
        guest.init(vec![MaybeUninit::uninit(); 1 << 14].leak()).expect("a region for a heap");
        let layout = |size| Layout::from_size_align(size, 8).expect("a legal layout");
        // SAFETY: layouts are legal, and blocks are live with theirs.
        unsafe {
            let blocks = [guest.alloc(layout(40)), guest.alloc(layout(40))];
            guest.dealloc(blocks[0], layout(40));
            guest.dealloc(blocks[1], layout(40));
            assert_ne!(guest.alloc(layout(400)), blocks[0]);
            assert_eq!([guest.alloc(layout(40)), guest.alloc(layout(40))], [blocks[1], blocks[0]]);
        }
    }
}
