//! Board support: startup, a timer interrupt, critical sections, and output through the debugger.

use core::arch::{asm, global_asm};
use core::fmt::{self, Write};
use critical_section::{Impl, RawRestoreState, set_impl};

// Initialises .bss and .data, and enables the floating-point unit.
global_asm!(
    ".section .vectors, \"a\"",
    ".word _stack_top",
    ".word reset",
    ".rept 13", // NMI to PendSV: faults end here.
    ".word fault",
    ".endr",
    ".word tick",
    ".section .text.reset, \"ax\"",
    ".global reset",
    ".thumb_func",
    "reset:",
    "ldr r0, =_bss",
    "ldr r1, =_bss_end",
    "movs r2, #0",
    "0: cmp r0, r1",
    "beq 1f",
    "str r2, [r0], #4",
    "b 0b",
    "1: ldr r0, =_data",
    "ldr r1, =_data_end",
    "ldr r3, =_data_source",
    "2: cmp r0, r1",
    "beq 3f",
    "ldr r2, [r3], #4",
    "str r2, [r0], #4",
    "b 2b",
    "3: ldr r0, =0xE000ED88",
    "ldr r1, [r0]",
    "orr r1, r1, #0xF00000",
    "str r1, [r0]",
    "dsb",
    "isb",
    "bl start",
    ".thumb_func",
    "fault:",
    "bl stopped_by_fault",
);

/// The critical section of the core: interrupts off.
struct Interrupts;
set_impl!(Interrupts);

// SAFETY: on one core, nothing else runs while interrupts are off.
unsafe impl Impl for Interrupts {
    unsafe fn acquire() -> RawRestoreState {
        let mask: usize;
        // SAFETY: reads the interrupt mask, then disables interrupts.
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

/// 0 in the main program, 1 in an interrupt. Interrupts of this board have one priority, so none interrupts another.
pub fn level() -> usize {
    let exception: usize;
    // SAFETY: reads a register; accesses no memory.
    unsafe { asm!("mrs {}, IPSR", out(reg) exception, options(nomem, nostack, preserves_flags)) };
    usize::from(exception != 0)
}

/// Starts a timer that interrupts every `cycles` cycles.
pub fn start_ticks(cycles: u32) {
    const CONTROL: *mut u32 = 0xE000_E010 as *mut u32;
    // SAFETY: these are the registers of the system timer: reload, current value, control.
    unsafe {
        CONTROL.add(1).write_volatile(cycles - 1);
        CONTROL.add(2).write_volatile(0);
        CONTROL.write_volatile(7);
    }
}

/// A semihosting call.
///
/// # Safety
///
/// `argument` must be what the operation expects.
unsafe fn debugger(operation: usize, argument: usize) {
    // SAFETY: the caller passes the argument that the operation expects; the debugger changes only r0.
    unsafe { asm!("bkpt 0xAB", inout("r0") operation => _, in("r1") argument, options(nostack)) };
}

/// Prints through the debugger.
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The debugger expects a terminating zero.
        for part in text.as_bytes().chunks(63) {
            let mut line = [0_u8; 64];
            line[..part.len()].copy_from_slice(part);
            // SAFETY: operation 4 prints a zero-terminated string, which the buffer holds.
            unsafe { debugger(4, line.as_ptr().addr()) };
        }
        Ok(())
    }
}

/// Ends the program.
pub fn stop(success: bool) -> ! {
    // SAFETY: operation 24 ends the program; its argument is the reason: application exit or runtime error.
    unsafe { debugger(24, if success { 0x2_0026 } else { 0x2_0023 }) };
    loop {
        core::hint::spin_loop();
    }
}

#[unsafe(no_mangle)]
extern "C" fn stopped_by_fault() -> ! {
    panic!("a fault of the processor");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    // A failure to print cannot be reported.
    let _ = writeln!(Console, "{info}");
    stop(false)
}
