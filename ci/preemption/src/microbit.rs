//! A micro:bit, with a Cortex-M0: the system timer has the lower interrupt priority, TIMER0 the higher.

use core::arch::{asm, global_asm};

global_asm!(
    ".section .vectors, \"a\"",
    ".word _stack_top",
    ".word reset",
    ".rept 13", // NMI to PendSV: faults end here.
    ".word fault",
    ".endr",
    ".word low",
    ".rept 8",
    ".word fault",
    ".endr",
    ".word high", // TIMER0, interrupt 8.
    ".rept 23",
    ".word fault",
    ".endr",
    ".section .text.reset, \"ax\"",
    ".global reset",
    ".thumb_func",
    "reset:",
    "ldr r0, =_bss",
    "ldr r1, =_bss_end",
    "movs r2, #0",
    "0: cmp r0, r1",
    "beq 1f",
    "stm r0!, {{r2}}",
    "b 0b",
    "1: bl start",
    ".thumb_func",
    "fault:",
    "bl stopped_by_fault",
);

/// The system timer: control, reload, current value.
const SYSTEM_TIMER: *mut u32 = 0xE000_E010 as *mut u32;
const TIMER0: usize = 0x4000_8000;
const TIMER0_INTERRUPT: u32 = 8;

/// Writes a register of TIMER0.
fn set_timer0(register: usize, value: u32) {
    // SAFETY: the callers write documented values to registers of a device that touches no memory.
    unsafe { ((TIMER0 + register) as *mut u32).write_volatile(value) }
}

/// The next interrupt of the higher level, after ticks of 62.5 ns.
fn set_high(ticks: u32) {
    set_timer0(0x140, 0); // The event of the last comparison.
    set_timer0(0x00C, 1); // Count from 0
    set_timer0(0x540, ticks); // to this
    set_timer0(0x000, 1); // and start.
}

/// The same for the lower level.
fn set_low(ticks: u32) {
    // SAFETY: these are the registers of the system timer.
    unsafe {
        SYSTEM_TIMER.add(1).write_volatile(ticks);
        SYSTEM_TIMER.add(2).write_volatile(0);
        SYSTEM_TIMER.write_volatile(7);
    }
}

/// Operations of the main program.
pub const OPERATIONS: usize = 5_000;
/// An interrupt returns within as many ticks.
pub const MOST_TICKS: usize = 1 << 10;

/// The level that runs.
pub fn level() -> usize {
    let exception: usize;
    // SAFETY: reads the number of the exception that is handled, 0 in the main program.
    unsafe { asm!("mrs {}, IPSR", out(reg) exception, options(nomem, nostack, preserves_flags)) };
    match exception {
        0 => 0,
        15 => 1,
        _ => 2,
    }
}

pub fn start_interrupts() {
    set_timer0(0x508, 3); // 32 bits
    set_timer0(0x510, 0); // at 16 MHz
    set_timer0(0x304, 1 << 16); // with an interrupt after the first comparison.
    // SAFETY: these are the priority of the system timer, the lowest, the priority of TIMER0, the highest, and the
    // interrupts that are on.
    unsafe {
        (0xE000_ED20 as *mut u32).write_volatile(0xC0 << 24);
        (0xE000_E408 as *mut u32).write_volatile(0);
        (0xE000_E100 as *mut u32).write_volatile(1 << TIMER0_INTERRUPT);
    }
    set_low(500);
    set_high(1_000);
}

/// Interrupts may begin again only by `start_interrupts`.
pub fn stop_interrupts() {
    set_timer0(0x004, 1);
    set_timer0(0x308, 1 << 16);
    // SAFETY: these turn the system timer and the interrupt of TIMER0 off, and withdraw both if they are pending.
    unsafe {
        SYSTEM_TIMER.write_volatile(0);
        (0xE000_E180 as *mut u32).write_volatile(1 << TIMER0_INTERRUPT);
        (0xE000_ED04 as *mut u32).write_volatile(1 << 25);
        (0xE000_E280 as *mut u32).write_volatile(1 << TIMER0_INTERRUPT);
    }
}

#[unsafe(no_mangle)]
extern "C" fn low() {
    // SAFETY: this turns the system timer off.
    unsafe { SYSTEM_TIMER.write_volatile(0) };
    set_low(super::interrupt(1));
}

#[unsafe(no_mangle)]
extern "C" fn high() {
    set_timer0(0x004, 1);
    set_high(super::interrupt(2));
}

#[unsafe(no_mangle)]
extern "C" fn stopped_by_fault() -> ! {
    panic!("a fault of the processor");
}
