//! The functions that programs call, and the fast path of each.

use crate::output::{Line, STDERR};
use crate::report::{self, LargeFree, Survey};
use crate::slow_path::{self, ALIGN_BYTES};
use crate::state::STATE;
use crate::threads::{FastPath, ThreadState};
use crate::{direct, pages, setup};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::Slot;
use rtalloc::adapt::cached::Remains;
use rtalloc_sys::errno::{keeping_errno, set_errno};
use rtalloc_sys::libc::{self, EINVAL, ENOMEM};
use rtalloc_sys::page_bytes;

/// An operation of the calling thread on the fast path.
struct Operation {
    state: &'static ThreadState,
}

impl Operation {
    /// Begins one, if the thread has a state, is not inside an operation, and the gate is open.
    #[inline(always)]
    fn begin() -> Option<Operation> {
        let state = ThreadState::mine()?;
        // Constructed only after `enter` succeeded, because `drop` leaves.
        state.enter(&STATE.threads.gate).then(|| Operation { state })
    }

    #[inline(always)]
    fn fast_path(&mut self) -> &mut FastPath {
        // SAFETY: the state is this thread's, the thread is inside this operation, and `self` is borrowed exclusively.
        unsafe { self.state.fast_path() }
    }

    /// Allocates a block that the thread freed before, if there is one of this size.
    #[inline(always)]
    fn allocate_kept(&mut self, size: usize) -> Result<NonNull<u8>, Remains> {
        let fast = self.fast_path();
        if size >= fast.below_bytes {
            return Err(Remains::Everything);
        }
        // SAFETY: `below_bytes` is not 0, so the slot is initialised.
        unsafe { fast.slot.assume_init_mut() }.allocate_kept(size)
    }

    /// Frees a block if the thread keeps it for later requests; whether it is to look for pages to give back then.
    ///
    /// # Safety
    ///
    /// The block is null, or live and no longer used.
    #[inline(always)]
    unsafe fn keep(&mut self, block: *mut u8) -> Result<bool, Remains> {
        let fast = self.fast_path();
        if fast.span_bytes == 0 {
            return Err(Remains::Everything);
        }
        // SAFETY: `span_bytes` is not 0, so the slot is initialised. It frees only blocks of its own; null is not one.
        let bytes = unsafe { fast.slot.assume_init_mut().keep(block) }?;
        Ok(fast.counts_freed(bytes))
    }

    /// Counts bytes that were freed, and gives pages back where enough were.
    #[inline(always)]
    fn end_free(mut self, bytes: usize) {
        if self.fast_path().counts_freed(bytes) {
            give_back(self);
        }
    }
}

impl Drop for Operation {
    #[inline(always)]
    fn drop(&mut self) {
        self.state.leave();
    }
}

/// Allocates at least one byte in the thread's slot.
#[inline(always)]
fn allocate_fast(size: usize, align: usize) -> Option<NonNull<u8>> {
    let mut operation = Operation::begin()?;
    let fast = operation.fast_path();
    if size >= fast.below_bytes {
        return None;
    }
    // SAFETY: `below_bytes` is not 0, so the slot is initialised.
    unsafe { fast.slot.assume_init_mut() }.allocate_bytes(size, align).ok()
}

/// Allocates, or returns null and sets `errno`. Not inlined: what the thread's lists serve saves no registers.
#[inline(never)]
fn allocate(size: usize, align: usize) -> *mut c_void {
    // A request of 0 bytes is served like one of 1 byte: each result is a block of its own.
    let size = size.max(1);
    match allocate_fast(size, align) {
        Some(block) => block.as_ptr().cast(),
        None => allocate_slow(size, align),
    }
}

/// As [`allocate`], at the alignment of all blocks, after the thread's lists.
#[inline(never)]
fn allocate_past_lists(mut operation: Operation, size: usize) -> *mut c_void {
    let size = size.max(1);
    // SAFETY: the lists are those of the slot, which is therefore initialised.
    let served = unsafe { operation.fast_path().slot.assume_init_mut() }.allocate_past_lists(size);
    drop(operation);
    match served {
        Ok(block) => block.as_ptr().cast(),
        Err(_) => allocate_slow(size, ALIGN_BYTES),
    }
}

#[cold]
#[inline(never)]
fn allocate_slow(size: usize, align: usize) -> *mut c_void {
    match keeping_errno(|| slow_path::allocate(size, align)) {
        Some(served) => served.block.as_ptr().cast(),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> *mut c_void {
    set_errno(ENOMEM);
    null_mut()
}

/// Whether a block is in the region of the fast path.
#[inline(always)]
fn is_in_region(fast: &FastPath, block: NonNull<u8>) -> bool {
    block.addr().get().wrapping_sub(fast.start) < fast.span_bytes
}

/// `malloc` of the C standard. A size of 0 is served like one of 1.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    if let Some(mut operation) = Operation::begin() {
        match operation.allocate_kept(size) {
            Ok(block) => return block.as_ptr().cast(),
            Err(Remains::Heap) => return allocate_past_lists(operation, size),
            Err(Remains::Everything) => {}
        }
    }
    allocate(size, ALIGN_BYTES)
}

/// `free` of the C standard; leaves `errno` alone.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the block is null, or live, and the caller gives it up. An address in a piece of the slot is not null.
    unsafe {
        if let Some(mut operation) = Operation::begin() {
            match operation.keep(block.cast()) {
                Ok(false) => return,
                Ok(true) => return give_back(operation),
                Err(Remains::Heap) => return deallocate_past_lists(operation, NonNull::new_unchecked(block.cast())),
                Err(Remains::Everything) => {}
            }
        }
        deallocate(block.cast());
    }
}

/// Gives pages back at the end of an operation.
#[cold]
#[inline(never)]
fn give_back(operation: Operation) {
    // SAFETY: the thread is inside the operation, and has a slot.
    unsafe { pages::give_back(operation.state) };
}

/// Frees a block, if it is not null. Not inlined: what the thread's lists keep saves no registers.
///
/// # Safety
///
/// The block is null, or live and no longer used.
#[inline(never)]
unsafe fn deallocate(block: *mut u8) {
    let Some(block) = NonNull::new(block) else { return };
    if let Some(mut operation) = Operation::begin() {
        let fast = operation.fast_path();
        if is_in_region(fast, block) {
            // SAFETY: `span_bytes` is not 0, so the slot is initialised. The block is of its heap, and the caller gives
            // it up.
            let bytes = unsafe { fast.slot.assume_init_mut().deallocate_counted(block) };
            return operation.end_free(bytes);
        }
    }
    // SAFETY: the block is live, and the caller gives it up.
    unsafe { free_slow(block) }
}

/// As [`deallocate`], after the thread's lists.
///
/// # Safety
///
/// As there, and the block is of the thread's slot.
#[inline(never)]
unsafe fn deallocate_past_lists(mut operation: Operation, block: NonNull<u8>) {
    // SAFETY: the lists are those of the slot, which is therefore initialised. The caller gives the block up.
    let bytes = unsafe { operation.fast_path().slot.assume_init_mut().deallocate_past_lists(block) };
    operation.end_free(bytes);
}

#[cold]
#[inline(never)]
unsafe fn free_slow(block: NonNull<u8>) {
    // SAFETY: the block is live, and the caller of `free` gives it up.
    keeping_errno(|| unsafe { slow_path::deallocate(block) });
}

/// `free_sized` of C23. The size is not needed.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the block is null or live, and the caller gives it up.
    unsafe { free(block) }
}

/// `free_aligned_sized` of C23. Alignment and size are not needed.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the block is null or live, and the caller gives it up.
    unsafe { free(block) }
}

/// `calloc` of the C standard. A product beyond the address space is refused with ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else { return no_memory() };
    let size = size.max(1);
    match allocate_fast(size, ALIGN_BYTES) {
        Some(block) => {
            // SAFETY: the block has `size` bytes, of arenas, which are not in a file.
            unsafe { pages::zero(block, size) };
            block.as_ptr().cast()
        }
        None => calloc_slow(size),
    }
}

#[cold]
#[inline(never)]
fn calloc_slow(size: usize) -> *mut c_void {
    let Some(served) = keeping_errno(|| slow_path::allocate(size, ALIGN_BYTES)) else { return no_memory() };
    if !served.is_zero {
        // SAFETY: the block has `size` bytes.
        unsafe { served.block.write_bytes(0, size) };
    }
    served.block.as_ptr().cast()
}

/// `realloc` of the C standard. With size 0 it frees the block and returns null, as the C library's does.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = NonNull::new(block.cast::<u8>()) else { return malloc(size) };
    if size == 0 {
        // SAFETY: the block is live, and the caller gives it up.
        unsafe { free(block) };
        return null_mut();
    }
    if let Some(mut operation) = Operation::begin() {
        let fast = operation.fast_path();
        if size < fast.below_bytes && is_in_region(fast, old) {
            // SAFETY: `below_bytes` is not 0, so the slot is initialised. The block is live and of its heap.
            let moved = unsafe { fast.slot.assume_init_mut().reallocate_bytes(old, size, ALIGN_BYTES) };
            if let Ok(block) = moved {
                return block.as_ptr().cast();
            }
        }
    }
    // SAFETY: the block is live: if the fast path refused the request, the block is unchanged.
    unsafe { realloc_slow(old, size) }
}

#[cold]
#[inline(never)]
unsafe fn realloc_slow(block: NonNull<u8>, size: usize) -> *mut c_void {
    // SAFETY: the block is live, and the caller of `realloc` gives it up if the result is a block.
    match keeping_errno(|| unsafe { slow_path::reallocate(block, size) }) {
        Some(block) => block.as_ptr().cast(),
        None => no_memory(),
    }
}

/// `reallocarray`: `realloc` with a product that must not overflow.
///
/// # Safety
///
/// As `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the block is null or live, and the caller may reallocate it.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => no_memory(),
    }
}

/// `aligned_alloc` of the C standard: EINVAL if the alignment is not a power of two. The size need not be a multiple of
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(EINVAL);
        return null_mut();
    }
    allocate(size, align.max(ALIGN_BYTES))
}

/// `memalign`: rounds the alignment up to a power of two, as the C library does.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.max(ALIGN_BYTES).checked_next_power_of_two() {
        Some(align) => allocate(size, align),
        None => {
            set_errno(EINVAL);
            null_mut()
        }
    }
}

/// `posix_memalign`, which returns an error number and leaves `errno` alone. When it fails it leaves `place` alone too.
///
/// # Safety
///
/// As in POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let block = keeping_errno(|| allocate(size, align.max(ALIGN_BYTES)));
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: POSIX requires `place` to be valid for the result.
    unsafe { place.write(block) };
    0
}

/// `valloc`: page-aligned.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(size, page_bytes())
}

/// `pvalloc`: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page_bytes();
    match size.max(1).checked_next_multiple_of(page) {
        Some(bytes) => allocate(bytes, page),
        None => no_memory(),
    }
}

/// `malloc_usable_size`: 0 for null.
///
/// # Safety
///
/// The block is live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return 0 };
    if let Some(mut operation) = Operation::begin() {
        let fast = operation.fast_path();
        if is_in_region(fast, block) {
            // SAFETY: `span_bytes` is not 0, so the slot is initialised. The block is live and of its heap.
            return unsafe { fast.slot.assume_init_ref().usable_size(block) };
        }
    }
    // SAFETY: the block is live.
    keeping_errno(|| unsafe { slow_path::usable_size(block) })
}

/// `malloc_trim`: processes the remote frees of every slot, empties its lists of freed blocks, and returns whole pages
/// of free blocks to the system, except `pad` bytes of them. 1 if there were any, never if memory is locked. All threads
/// wait meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    keeping_errno(|| {
        if !setup::ready() {
            return 0;
        }
        slow_path::reclaim(usize::MAX);
        c_int::from(pages::trim(pad))
    })
}

/// `struct mallinfo2`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallocInfo2 {
    /// Bytes of blocks in regions, without pages that were never touched.
    pub arena: usize,
    /// Free blocks.
    pub ordblks: usize,
    /// Fast bins; always 0.
    pub smblks: usize,
    /// Direct blocks.
    pub hblks: usize,
    /// Bytes of direct blocks.
    pub hblkhd: usize,
    /// Unused.
    pub usmblks: usize,
    /// Fast bins; always 0.
    pub fsmblks: usize,
    /// Bytes of live blocks in regions.
    pub uordblks: usize,
    /// Bytes of free blocks, without pages that were never touched.
    pub fordblks: usize,
    /// Bytes that could be returned to the system: those of free blocks.
    pub keepcost: usize,
}

/// `struct mallinfo`, whose fields are too small for large heaps.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallocInfo {
    fields: [c_int; 10],
}

/// A survey of all regions in a pause, and bytes of free blocks that are not in memory.
fn survey() -> (Survey, usize) {
    keeping_errno(|| {
        if !setup::ready() || !STATE.threads.pause() {
            return (Survey::default(), 0);
        }
        // SAFETY: the process is paused.
        let (survey, large) = unsafe { (report::survey(), LargeFree::find()) };
        STATE.threads.resume();
        // After the pause, because the system calls take long. A block may have been allocated meanwhile.
        (survey, large.untouched_bytes().min(survey.free_bytes))
    })
}

/// `mallinfo2`. Walks every region while all threads wait. Pages of large free blocks that are not in memory do not
/// count, because untouched address space costs nothing. Finding them takes milliseconds if much is reserved; no thread
/// waits for that.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallocInfo2 {
    let (survey, untouched) = survey();
    let free_bytes = survey.free_bytes - untouched;
    MallocInfo2 {
        arena: survey.block_bytes - untouched,
        ordblks: survey.free_blocks,
        hblks: STATE.direct.count.load(Relaxed),
        hblkhd: STATE.direct.mapped_bytes.load(Relaxed),
        uordblks: survey.live_bytes,
        fordblks: free_bytes,
        keepcost: free_bytes,
        ..MallocInfo2::default()
    }
}

/// `mallinfo`, as [`mallinfo2`]; a value that does not fit is the largest that does.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo() -> MallocInfo {
    let all = mallinfo2();
    let wide = [
        all.arena,
        all.ordblks,
        all.smblks,
        all.hblks,
        all.hblkhd,
        all.usmblks,
        all.fsmblks,
        all.uordblks,
        all.fordblks,
        all.keepcost,
    ];
    MallocInfo { fields: wide.map(|value| c_int::try_from(value).unwrap_or(c_int::MAX)) }
}

/// `M_MMAP_THRESHOLD`
const M_MMAP_THRESHOLD: c_int = -3;

/// The other options of the GNU C library: `M_MXFAST`, `M_NLBLKS`, `M_GRAIN`, `M_KEEP`, and from `M_TRIM_THRESHOLD`
/// down to `M_ARENA_MAX`.
const IGNORED: [c_int; 11] = [1, 2, 3, 4, -1, -2, -4, -5, -6, -7, -8];

/// `mallopt`: 1 for `M_MMAP_THRESHOLD`, the smallest size of a direct block, which applies to threads that start later;
/// 1 for the other options of the GNU C library, which have no effect here; 0 for an unknown option.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    match (parameter, usize::try_from(value)) {
        (M_MMAP_THRESHOLD, Ok(bytes)) if setup::ready() => {
            direct::set_from_bytes(bytes);
            1
        }
        _ => c_int::from(IGNORED.contains(&parameter)),
    }
}

/// `malloc_stats`: writes the report to standard error.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    keeping_errno(|| {
        if setup::ready() {
            report::write_report(STDERR);
        }
    });
}

/// `malloc_info`: the same as [`mallinfo2`] as XML.
///
/// # Safety
///
/// `stream` is an open stream of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        return EINVAL;
    }
    let all = mallinfo2();
    let mut line = Line::<512>::new();
    let written = writeln!(
        line,
        "<malloc version=\"1\">\n\
         <total type=\"free\" count=\"{}\" size=\"{}\"/>\n<total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n<live size=\"{}\"/>\n</malloc>",
        all.ordblks, all.fordblks, all.hblks, all.hblkhd, all.arena, all.uordblks
    );
    // SAFETY: the text ends with a zero, and the caller guarantees an open stream.
    let put = unsafe { libc::fputs(line.as_ptr().cast::<c_char>(), stream) };
    if written.is_ok() && put >= 0 { 0 } else { -1 }
}
