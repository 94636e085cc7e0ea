//! The functions that programs call, and the short way of each.

use crate::regions::{self, ALIGN_BYTES};
use crate::report::{self, Survey};
use crate::seat::{Seat, Short};
use crate::system::{INVALID, NO_MEMORY};
use crate::tell::{STDERR, keeping_errno, set_errno};
use crate::{direct, libc, long};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use core::ptr::{NonNull, null_mut};
use rtalloc::Slot;

/// The short way, while the calling thread is on it.
struct OnTheWay {
    seat: &'static Seat,
}

impl OnTheWay {
    /// Enters it, if the thread may.
    #[inline(always)]
    fn enter() -> Option<OnTheWay> {
        let seat = Seat::mine()?;
        // Not made before it is known: whoever drops it, leaves.
        seat.enter().then(|| OnTheWay { seat })
    }

    /// What there is.
    #[inline(always)]
    fn short(&mut self) -> &mut Short {
        // SAFETY: the seat is this thread's, and it has entered.
        unsafe { self.seat.short() }
    }
}

impl Drop for OnTheWay {
    #[inline(always)]
    fn drop(&mut self) {
        self.seat.leave();
    }
}

/// Allocates at least one byte on the short way.
#[inline(always)]
fn allocate_short(size: usize, align: usize) -> Option<NonNull<u8>> {
    let mut way = OnTheWay::enter()?;
    let short = way.short();
    if size >= short.below_bytes {
        return None;
    }
    // SAFETY: there is a slot where there are requests for it.
    unsafe { short.slot.assume_init_mut() }.allocate_bytes(size, align).ok()
}

/// Allocates, or answers null and says why.
#[inline(always)]
fn allocate(size: usize, align: usize) -> *mut c_void {
    // A request of no bytes is served as one of one byte: each is a block of its own.
    let size = size.max(1);
    match allocate_short(size, align) {
        Some(block) => block.as_ptr().cast(),
        None => allocate_long(size, align),
    }
}

#[cold]
#[inline(never)]
fn allocate_long(size: usize, align: usize) -> *mut c_void {
    match keeping_errno(|| long::allocate(size, align)) {
        Some(served) => served.block.as_ptr().cast(),
        None => no_memory(),
    }
}

#[cold]
fn no_memory() -> *mut c_void {
    set_errno(NO_MEMORY);
    null_mut()
}

/// Whether a block is of the region on the short way.
#[inline(always)]
fn is_near(short: &Short, block: NonNull<u8>) -> bool {
    block.addr().get().wrapping_sub(short.start) < short.span_bytes
}

/// `malloc` of the C standard. A size of 0 is served like one of 1.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size, ALIGN_BYTES)
}

/// `free` of the C standard; leaves `errno` alone.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    let Some(block) = NonNull::new(block.cast()) else { return };
    if let Some(mut way) = OnTheWay::enter() {
        let short = way.short();
        if is_near(short, block) {
            // SAFETY: there is a slot where there is a region; the block is the caller's.
            return unsafe { short.slot.assume_init_mut().deallocate(block) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { free_long(block) }
}

#[cold]
#[inline(never)]
unsafe fn free_long(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    keeping_errno(|| unsafe { long::deallocate(block) });
}

/// `free_sized` of C23. The size is not needed.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(block) }
}

/// `free_aligned_sized` of C23. Alignment and size are not needed.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the caller's promise.
    unsafe { free(block) }
}

/// `calloc` of the C standard. A product beyond the address space is refused with ENOMEM.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else { return no_memory() };
    let size = size.max(1);
    match allocate_short(size, ALIGN_BYTES) {
        Some(block) => {
            // SAFETY: the block has so many bytes.
            unsafe { block.write_bytes(0, size) };
            block.as_ptr().cast()
        }
        None => calloc_long(size),
    }
}

#[cold]
#[inline(never)]
fn calloc_long(size: usize) -> *mut c_void {
    let Some(served) = keeping_errno(|| long::allocate(size, ALIGN_BYTES)) else { return no_memory() };
    if !served.is_zero {
        // SAFETY: the block has so many bytes.
        unsafe { served.block.write_bytes(0, size) };
    }
    served.block.as_ptr().cast()
}

/// `realloc` of the C standard; of no bytes it frees the block and answers null, as the C library's does.
///
/// # Safety
///
/// As in the C standard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    let Some(old) = NonNull::new(block.cast::<u8>()) else { return malloc(size) };
    if size == 0 {
        // SAFETY: the caller's promise, here and below.
        unsafe { free(block) };
        return null_mut();
    }
    if let Some(mut way) = OnTheWay::enter() {
        let short = way.short();
        if size < short.below_bytes && is_near(short, old) {
            // SAFETY: as above; there is a slot where there are requests for it.
            let moved = unsafe { short.slot.assume_init_mut().reallocate_bytes(old, size, ALIGN_BYTES) };
            if let Ok(block) = moved {
                return block.as_ptr().cast();
            }
        }
    }
    // SAFETY: as above: what the short way refused is live and unchanged.
    unsafe { realloc_long(old, size) }
}

#[cold]
#[inline(never)]
unsafe fn realloc_long(block: NonNull<u8>, size: usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    match keeping_errno(|| unsafe { long::reallocate(block, size) }) {
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
        // SAFETY: the caller's promise.
        Some(bytes) => unsafe { realloc(block, bytes) },
        None => no_memory(),
    }
}

/// `aligned_alloc` of the C standard: EINVAL for an alignment that is no power of two. The size need not be a multiple of it.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        set_errno(INVALID);
        return null_mut();
    }
    allocate(size, align.max(ALIGN_BYTES))
}

/// `memalign`: an alignment that is no power of two is raised to the next one, as the C library does.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.max(ALIGN_BYTES).checked_next_power_of_two() {
        Some(align) => allocate(size, align),
        None => {
            set_errno(INVALID);
            null_mut()
        }
    }
}

/// `posix_memalign`, which answers with an error number and leaves `errno` and, when it fails, the place alone.
///
/// # Safety
///
/// As in POSIX.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return INVALID;
    }
    let block = keeping_errno(|| allocate(size, align.max(ALIGN_BYTES)));
    if block.is_null() {
        return NO_MEMORY;
    }
    // SAFETY: POSIX has the caller give a valid place for the result.
    unsafe { place.write(block) };
    0
}

/// `valloc`: page-aligned.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(size, regions::page_bytes())
}

/// `pvalloc`: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = regions::page_bytes();
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
    if let Some(mut way) = OnTheWay::enter() {
        let short = way.short();
        if is_near(short, block) {
            // SAFETY: there is a slot where there is a region; the block is live.
            return unsafe { short.slot.assume_init_ref().usable_size(block) };
        }
    }
    // SAFETY: the caller's promise.
    keeping_errno(|| unsafe { long::usable_size(block) })
}

/// `malloc_trim`: takes back what others freed of the caller's blocks, and gives whole pages in free blocks back to the system, but for
/// `pad` bytes of them. 1 if there were any. All threads wait meanwhile. Where memory is locked there are none.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(pad: usize) -> c_int {
    keeping_errno(|| {
        if !regions::ready() {
            return 0;
        }
        long::reclaim(usize::MAX);
        c_int::from(report::trim(pad))
    })
}

/// `struct mallinfo2`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallocInfo2 {
    /// Bytes of regions.
    pub arena: usize,
    /// Free blocks.
    pub ordblks: usize,
    /// Fast bins: none here.
    pub smblks: usize,
    /// Direct blocks.
    pub hblks: usize,
    /// Bytes of direct blocks.
    pub hblkhd: usize,
    /// Unused.
    pub usmblks: usize,
    /// Fast bins: none here.
    pub fsmblks: usize,
    /// Bytes of live blocks in regions.
    pub uordblks: usize,
    /// Bytes of free blocks.
    pub fordblks: usize,
    /// Bytes that could be given back: those of free blocks.
    pub keepcost: usize,
}

/// `struct mallinfo`, whose numbers are too small for much of what they tell.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MallocInfo {
    fields: [c_int; 10],
}

/// What all regions show while everybody waits.
fn survey() -> Survey {
    keeping_errno(|| {
        if !regions::ready() || !crate::seat::pause() {
            return Survey::default();
        }
        // SAFETY: the process is paused.
        let survey = unsafe { report::survey() };
        crate::seat::resume();
        survey
    })
}

/// `mallinfo2`. Walks every region, while all threads wait.
#[unsafe(no_mangle)]
pub extern "C" fn mallinfo2() -> MallocInfo2 {
    let survey = survey();
    let (mapped, _, blocks) = direct::tallies();
    MallocInfo2 {
        arena: survey.region_bytes,
        ordblks: survey.free_blocks,
        hblks: blocks,
        hblkhd: mapped,
        uordblks: survey.live_bytes,
        fordblks: survey.free_bytes,
        keepcost: survey.free_bytes,
        ..MallocInfo2::default()
    }
}

/// `mallinfo`, as [`mallinfo2`]; what does not fit is the largest number that does.
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
const DIRECT_FROM: c_int = -3;

/// `mallopt`: 1 for `M_MMAP_THRESHOLD`, from what size on a request is a mapping of its own, for threads that begin after it; 0 for
/// everything else, which has no meaning here.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    match (parameter, usize::try_from(value)) {
        (DIRECT_FROM, Ok(bytes)) if regions::ready() => {
            direct::set_from_bytes(bytes);
            1
        }
        _ => 0,
    }
}

/// `malloc_stats`: the report, to standard error, now.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_stats() {
    keeping_errno(|| {
        if regions::ready() {
            report::write_report(STDERR);
        }
    });
}

/// Text of a bounded length, for a stream.
struct Line {
    bytes: [u8; 512],
    filled: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // One byte stays zero.
        let end = self.filled + text.len();
        let place = self.bytes.get_mut(self.filled..end).filter(|_| end < 512).ok_or(core::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.filled = end;
        Ok(())
    }
}

/// `malloc_info`: the same as [`mallinfo2`] as XML.
///
/// # Safety
///
/// `stream` is an open stream of the C library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut c_void) -> c_int {
    if options != 0 {
        return INVALID;
    }
    let all = mallinfo2();
    let mut line = Line { bytes: [0; 512], filled: 0 };
    let written = writeln!(
        line,
        "<malloc version=\"1\">\n<total type=\"free\" count=\"{}\" size=\"{}\"/>\n<total type=\"mmap\" count=\"{}\" size=\"{}\"/>\n\
         <system type=\"current\" size=\"{}\"/>\n<live size=\"{}\"/>\n</malloc>",
        all.ordblks, all.fordblks, all.hblks, all.hblkhd, all.arena, all.uordblks
    );
    // SAFETY: the text ends with a zero, and the caller promises the stream.
    let put = unsafe { libc::fputs(line.bytes.as_ptr().cast::<c_char>(), stream) };
    if written.is_ok() && put >= 0 { 0 } else { -1 }
}
