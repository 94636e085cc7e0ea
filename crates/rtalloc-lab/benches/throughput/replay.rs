//! The measured loop, which the library under test and the benchmark have in common.

/// One operation in eight bytes, so that reading the list disturbs the caches as little as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Operation {
    /// Which block.
    pub slot: u32,
    /// Bytes to allocate, or 0 to free the block.
    pub size: u32,
}

/// A block and its size.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Slot {
    /// The block.
    pub block: *mut u8,
    /// Its bytes, as requested.
    pub size: usize,
}

/// Operations between two readings of the time-stamp counter.
pub const CHUNK: usize = 2048;

/// Performs `operations`, and writes the time-stamp counter's ticks for each chunk of them. Returns whether every
/// request was served.
#[inline(always)]
pub fn replay(
    operations: &[Operation],
    slots: &mut [Slot],
    ticks: &mut [u64],
    mut allocate: impl FnMut(usize) -> *mut u8,
    mut free: impl FnMut(*mut u8, usize),
) -> bool {
    for (chunk, ticks) in operations.chunks(CHUNK).zip(ticks) {
        // SAFETY: every x86-64 processor has the instruction.
        let begin = unsafe { core::arch::x86_64::_rdtsc() };
        for operation in chunk {
            let slot = &mut slots[operation.slot as usize];
            if operation.size != 0 {
                let block = allocate(operation.size as usize);
                if block.is_null() {
                    return false;
                }
                *slot = Slot { block, size: operation.size as usize };
            } else {
                free(slot.block, slot.size);
            }
        }
        // SAFETY: as above.
        *ticks = unsafe { core::arch::x86_64::_rdtsc() } - begin;
    }
    true
}
