//! A heap in a static as the global allocator of firmware: TLSF, with interrupts off during an operation.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::asm;
use core::ptr::null_mut;
use critical_section::{Impl, RawRestoreState, set_impl};
use rtalloc::Tlsf;
use rtalloc::adapt::{AnySlot, Global, Locked, Masked, Memory};

/// The interrupts of a Cortex-M core.
struct Interrupts;
set_impl!(Interrupts);

// SAFETY: on one core nothing else runs while interrupts are off.
unsafe impl Impl for Interrupts {
    unsafe fn acquire() -> RawRestoreState {
        let mask: usize;
        // SAFETY: reads the mask, then sets it.
        unsafe { asm!("mrs {}, PRIMASK", "cpsid i", out(reg) mask) };
        mask & 1 == 0
    }

    unsafe fn release(were_on: RawRestoreState) {
        if were_on {
            // SAFETY: interrupts were on when the critical section began.
            unsafe { asm!("cpsie i") };
        }
    }
}

static MEMORY: Memory<{ 32 << 10 }> = Memory::new();
static HEAP: Global<Locked<'static, Tlsf<'static>, Masked>, AnySlot> = Global::new(&MEMORY, AnySlot);

/// `malloc`.
#[unsafe(no_mangle)]
pub extern "C" fn masked_allocate(size: usize) -> *mut u8 {
    match Layout::from_size_align(size, super::NATURAL_ALIGN_BYTES) {
        // SAFETY: a request for nothing is refused.
        Ok(layout) => unsafe { HEAP.alloc(layout) },
        Err(_) => null_mut(),
    }
}

/// `free`.
///
/// # Safety
///
/// As `GlobalAlloc::dealloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn masked_deallocate(block: *mut u8) {
    // SAFETY: `block` is a live block of `HEAP`, which ignores the layout.
    unsafe { HEAP.dealloc(block, Layout::new::<u8>()) }
}

/// `realloc`.
///
/// # Safety
///
/// As `GlobalAlloc::realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn masked_reallocate(block: *mut u8, old_size: usize, size: usize) -> *mut u8 {
    match Layout::from_size_align(old_size, super::NATURAL_ALIGN_BYTES) {
        // SAFETY: `block` is a live block of `HEAP`, allocated with this layout.
        Ok(layout) => unsafe { HEAP.realloc(block, layout, size) },
        Err(_) => null_mut(),
    }
}
