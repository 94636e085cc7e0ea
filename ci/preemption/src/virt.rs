//! QEMU's RISC-V board `virt` in machine mode. It has one timer: an interrupt of the main program has the lower level,
//! one of its handler the higher.

use core::arch::{asm, global_asm};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

// The handler's frame has what calls do not preserve, and what nested interrupts overwrite.
global_asm!(
    ".section .text.reset, \"ax\"",
    ".global reset",
    "reset:",
    "la sp, _stack_top",
    "la t0, trap",
    "csrw mtvec, t0",
    "li t0, 128", // The timer's interrupts.
    "csrw mie, t0",
    "call start",
    ".balign 4",
    "trap:",
    "addi sp, sp, -80",
    "sw ra, 0(sp)",
    "sw t0, 4(sp)",
    "sw t1, 8(sp)",
    "sw t2, 12(sp)",
    "sw t3, 16(sp)",
    "sw t4, 20(sp)",
    "sw t5, 24(sp)",
    "sw t6, 28(sp)",
    "sw a0, 32(sp)",
    "sw a1, 36(sp)",
    "sw a2, 40(sp)",
    "sw a3, 44(sp)",
    "sw a4, 48(sp)",
    "sw a5, 52(sp)",
    "sw a6, 56(sp)",
    "sw a7, 60(sp)",
    "csrr t0, mepc",
    "sw t0, 64(sp)",
    "csrr t0, mstatus",
    "sw t0, 68(sp)",
    "csrr a0, mcause",
    "call trapped",
    "lw t0, 64(sp)",
    "csrw mepc, t0",
    "lw t0, 68(sp)",
    "csrw mstatus, t0",
    "lw ra, 0(sp)",
    "lw t0, 4(sp)",
    "lw t1, 8(sp)",
    "lw t2, 12(sp)",
    "lw t3, 16(sp)",
    "lw t4, 20(sp)",
    "lw t5, 24(sp)",
    "lw t6, 28(sp)",
    "lw a0, 32(sp)",
    "lw a1, 36(sp)",
    "lw a2, 40(sp)",
    "lw a3, 44(sp)",
    "lw a4, 48(sp)",
    "lw a5, 52(sp)",
    "lw a6, 56(sp)",
    "lw a7, 60(sp)",
    "addi sp, sp, 80",
    "mret",
);

/// The timer: the time at which it interrupts, and the time, of which the high words are 0 as long as this runs.
const WHEN: *mut u32 = 0x0200_4000 as *mut u32;
const NOW: *const u32 = 0x0200_BFF8 as *const u32;
const TIMER_CAUSE: usize = 0x8000_0007;

/// See [`level`].
static LEVEL: AtomicUsize = AtomicUsize::new(0);
/// How long the last interrupt wanted the next one to wait.
static TICKS: AtomicU32 = AtomicU32::new(500);

/// The next interrupt, after ticks of 100 ns; `None` for never.
fn set_timer(ticks: Option<u32>) {
    // SAFETY: these are the registers of the timer.
    unsafe {
        if let Some(ticks) = ticks {
            WHEN.write_volatile(NOW.read_volatile().wrapping_add(ticks));
        }
        WHEN.add(1).write_volatile(if ticks.is_some() { 0 } else { u32::MAX });
    }
}

/// Operations of the main program.
pub const OPERATIONS: usize = 40_000;
/// An interrupt returns within as many ticks.
pub const MOST_TICKS: usize = 1 << 8;

/// The level that runs.
pub fn level() -> usize {
    LEVEL.load(Relaxed)
}

pub fn start_interrupts() {
    set_timer(Some(500));
    // SAFETY: turns interrupts on; the handler is installed.
    unsafe { asm!("csrsi mstatus, 8") };
}

/// Interrupts may begin again only by `start_interrupts`.
pub fn stop_interrupts() {
    // SAFETY: turns interrupts off.
    unsafe { asm!("csrci mstatus, 8") };
    set_timer(None);
}

#[unsafe(no_mangle)]
extern "C" fn trapped(cause: usize) {
    assert!(cause == TIMER_CAUSE, "a fault of the processor");
    let level = LEVEL.load(Relaxed) + 1;
    LEVEL.store(level, Relaxed);
    let ticks = if level + 1 < super::LEVELS {
        set_timer(Some(TICKS.load(Relaxed)));
        // SAFETY: the frame has what an interrupt overwrites.
        unsafe { asm!("csrsi mstatus, 8") };
        let ticks = super::interrupt(level);
        // SAFETY: restores the state at the start of the handler.
        unsafe { asm!("csrci mstatus, 8") };
        ticks
    } else {
        set_timer(None);
        super::interrupt(level)
    };
    LEVEL.store(level - 1, Relaxed);
    TICKS.store(ticks, Relaxed);
    set_timer(Some(ticks));
}
