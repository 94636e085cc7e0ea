//! Instructions of a read: through a pointer, a handle, an abstract address.

use pathbound::counter::{Counter, Record, executed};
use pathbound::graph::{Graph, NeverReturns};
use pathbound::image::Process;
use rtalloc::CompactFit;
use rtalloc::HandleAllocator as _;
use rtalloc::compact_fit::{CompactFitConfig, PaperLadder};
use rtalloc_subjects::{Heap, ReadEntry, Region, Subject};
use std::ffi::c_void;
use std::mem::MaybeUninit;

/// Instructions to read a byte of an object, for subjects with handles, where instructions can be counted.
#[must_use]
pub fn read_instructions(subject: &Subject) -> Option<u64> {
    subject.entries.handles?;
    let process = Process::shared().ok()?;
    counted_read(&process, Some(subject)).ok()
}

/// Reads a byte of a block that has an address.
///
/// # Safety
///
/// The block is live and longer than the offset.
#[inline(never)]
pub unsafe extern "C-unwind" fn read_plainly(_context: *mut c_void, block: *mut u8, offset: usize) -> u8 {
    // SAFETY: the block is live and longer than the offset.
    unsafe { block.add(offset).read() }
}

/// Instructions of a read through a pointer, or through a handle of a subject whose objects move.
///
/// # Errors
///
/// Why they cannot be counted.
pub fn counted_read(process: &Process, subject: Option<&Subject>) -> Result<u64, String> {
    const OBJECT_BYTES: usize = 100;
    let text = |error: &dyn std::error::Error| error.to_string();
    let Some((subject, handles)) = subject.and_then(|subject| Some((subject, subject.entries.handles?))) else {
        let object = [7_u8; OBJECT_BYTES];
        return count_call(process, read_plainly as *const () as usize as u64, |entry| {
            // SAFETY: the copy of a function is called as the function is.
            let read = unsafe { std::mem::transmute::<*const c_void, ReadEntry>(entry) };
            // SAFETY: the object is longer than the offset.
            unsafe { read(std::ptr::null_mut(), object.as_ptr().cast_mut(), 70) };
        });
    };
    const BYTES: usize = 1 << 20;
    let mut region = Region::new(BYTES, false).map_err(|error| text(&error))?;
    let heap = Heap::new(subject, &mut region, BYTES).map_err(|error| text(&error))?;
    // SAFETY: the heap is live.
    let block = unsafe { (heap.entries.allocate)(heap.context, OBJECT_BYTES, heap.entries.natural_align_bytes) };
    if block.is_null() {
        return Err("refused a request".into());
    }
    count_call(process, handles.read as usize as u64, |entry| {
        // SAFETY: the copy of a function is called as the function is.
        let read = unsafe { std::mem::transmute::<*const c_void, ReadEntry>(entry) };
        // SAFETY: the object is live and longer than the offset.
        unsafe { read(heap.context, block, 70) };
    })
}

/// Instructions of a call of a function, through a counting copy; the call is repeated if it reaches code that the copy
/// lacks.
///
/// # Errors
///
/// Why it cannot be counted.
pub fn count_call(process: &Process, function: u64, mut call: impl FnMut(*const c_void)) -> Result<u64, String> {
    /// Calls, each with the code that computed jumps of the calls before it led to.
    const ROUNDS: usize = 24;
    let mut roots = vec![function];
    for _ in 0..ROUNDS {
        let graph =
            Graph::explore_to_count(process, &roots, &NeverReturns::default()).map_err(|error| error.to_string())?;
        let counter = Counter::new(process, &graph, Record::Count).map_err(|error| error.to_string())?;
        let entry = counter.entry(function).ok_or("no code")?;
        let before = executed();
        call(entry);
        let count = executed() - before;
        if !counter.departures().is_empty() {
            return Err("instructions were reached that cannot be executed in a copy".into());
        }
        let missed = counter.misses();
        if missed.is_empty() {
            return Ok(count);
        }
        roots.extend(missed);
    }
    Err("not all code that computed jumps lead to was found".into())
}

/// Instructions to read a byte of an object through its abstract address, of the moving implementation.
///
/// # Errors
///
/// Why they cannot be counted.
pub fn abstract_read(process: &Process) -> Result<u64, String> {
    let mut memory = vec![MaybeUninit::new(0); 1 << 20];
    let mut heap: CompactFit<'_, PaperLadder> =
        CompactFit::new(&mut memory, CompactFitConfig::default()).map_err(|error| error.to_string())?;
    let handle = heap.allocate(100).map_err(|error| error.to_string())?;
    let place = heap.abstract_address(handle).map_err(|error| error.to_string())?;
    count_call(process, read_indirectly as *const () as usize as u64, |entry| {
        // SAFETY: the copy of a function is called as the function is.
        let read = unsafe { std::mem::transmute::<*const c_void, ReadEntry>(entry) };
        // SAFETY: the object is live and longer than the offset; its memory was zero before.
        unsafe { read(std::ptr::null_mut(), place.as_ptr().cast(), 70) };
    })
}

/// Reads a byte of an object whose address is stored at `place`.
#[inline(never)]
unsafe extern "C-unwind" fn read_indirectly(_context: *mut c_void, place: *mut u8, offset: usize) -> u8 {
    // SAFETY: `place` holds the address of a live object that is longer than the offset.
    unsafe { place.cast::<*const u8>().read().add(offset).read() }
}
