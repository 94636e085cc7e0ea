//! Reallocation in a tag heap: in place if the neighbours allow, otherwise by moving.

use super::{Header, LiveBlock, Named, TagHeap};
use crate::contract::{AllocError, RegionAllocator, ResizeInPlace};
use crate::mechanism::stats::StatsPolicy;
use crate::mechanism::validation::Validation;
use crate::mechanism::word::Width;
use core::ptr::NonNull;

impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> TagHeap<'r, I, W, T, G> {
    /// See [`RegionAllocator::reallocate_bytes`].
    ///
    /// ```text
    /// shrink  [live 96][live] -> [live 32][free 64][live]      the tail joins a free next block
    /// grow    [live 32][free 96] -> [live 64][free 64]
    /// ```
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(never)]
    pub(super) unsafe fn resize(
        &mut self,
        pointer: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller guarantees a block of this heap. Old and new block are disjoint, and both are at least as
        // long as the copy.
        unsafe {
            let Some(usable_bytes) = self.try_in_place(pointer, size_bytes, align_bytes)? else { return Ok(pointer) };
            let moved = self.serve(size_bytes, align_bytes)?;
            core::ptr::copy_nonoverlapping(pointer.as_ptr(), moved.as_ptr(), size_bytes.min(usable_bytes));
            self.deallocate(pointer);
            Ok(moved)
        }
    }

    /// Resizes a block if its neighbours allow; otherwise returns its usable bytes.
    ///
    /// # Safety
    ///
    /// As [`RegionAllocator::reallocate_bytes`].
    #[inline(always)]
    unsafe fn try_in_place(
        &mut self,
        pointer: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<Option<usize>, AllocError> {
        let address = pointer.addr().get();
        if !align_bytes.is_power_of_two() {
            return Err(self.by_value().refuse(AllocError::Alignment));
        }
        if self.is_unservable(size_bytes) {
            return Err(self.by_value().refuse_size(size_bytes));
        }
        let live @ LiveBlock { size, next_header, .. } = self.checked(address)?;
        let last = Self::last_byte(size_bytes);
        let is_aligned = address & (align_bytes - 1) == 0;
        let next_free = if next_header.is_live() { 0 } else { next_header.free_size() };
        if !is_aligned || last >= size + next_free {
            return Ok(Some(size - W::BYTES));
        }
        // SAFETY: the tags are those of a live block, so the next header is a tag.
        unsafe { self.fit_in_place(live, next_free, last) };
        Ok(None)
    }

    /// The live block at an address, if all tags around it agree; reports it otherwise.
    #[inline(always)]
    fn checked(&mut self, address: usize) -> Result<LiveBlock<W, G>, AllocError> {
        self.live_block(address, usize::MAX, false).ok_or_else(|| {
            self.by_value().report_misuse(address);
            self.by_value().refuse(AllocError::Misused)
        })
    }

    /// Resizes a live block in place so that its last byte is `last`; the rest becomes or stays free.
    ///
    /// # Safety
    ///
    /// `next_free` is the size of the free block after the live one, or 0; together they have that byte.
    unsafe fn fit_in_place(&mut self, live: LiveBlock<W, G>, next_free: usize, last: usize) {
        let memory = self.memory();
        let LiveBlock { block, size, follows_free, .. } = live;
        let all = size + next_free;
        let granted = I::granted(last).min(all);
        let rest = all - granted;
        // A tail that joins the next free block need not be large enough to be split off.
        let joins_next = I::MIN_REST > I::MIN_BLOCK && next_free != 0 && rest > next_free;
        if rest == next_free || (next_free == 0 && !Self::is_rest(rest)) {
            return;
        }
        // SAFETY: the block and the free block after it belong to the heap; the split lies on a granule between them.
        unsafe {
            let end = block.up(all);
            let mut place = I::NOWHERE;
            let mut summary = I::load(memory);
            if next_free != 0 {
                place = I::remove(memory, &mut summary, block.up(size));
            }
            let new_size = if joins_next || Self::is_rest(rest) {
                self.set_flag(end, self.header(end).with_prev_free(true));
                self.make_free(&mut summary, block.up(granted), block.up(granted + rest), rest, place);
                granted
            } else {
                self.set_flag(end, self.header(end).with_prev_free(false));
                all
            };
            I::store(memory, summary);
            self.set_header(block, Header::live(new_size, follows_free));
            (*self.front()).stats.block_freed(size, W::BYTES);
            self.count_allocated(block, new_size);
        }
    }
}

// SAFETY: a block takes the free block after it, or a part of it, which leaves the index.
unsafe impl<'r, I: Named<W>, W: Width, T: StatsPolicy, G: Validation> ResizeInPlace<'r> for TagHeap<'r, I, W, T, G> {
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<bool, AllocError> {
        // The size is beyond every block's, but the address must be that of a live one.
        if self.is_unservable(size_bytes) && size_bytes != 0 {
            return self.checked(block.addr().get()).map(|_| false);
        }
        // SAFETY: the caller guarantees a block of this heap.
        unsafe { self.try_in_place(block, size_bytes, align_bytes) }.map(|unfit| unfit.is_none())
    }
}
