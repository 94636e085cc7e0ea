//! Single cores without compare-and-swap: an RMW is a load, an operation and a store with interrupts off.
//!
//! On such a core the users of a heap are the main program and interrupt levels, or tasks that an interrupt switches.
//! Loads and stores are ordinary ones. An RMW is one piece of assembly, which turns interrupts off and then restores
//! the mask that it found, so it may itself run with interrupts off:
//!
//! ```text
//! Armv6-M                      RV32 without A
//! mrs   mask, PRIMASK          csrrci mask, mstatus, 8
//! cpsid i                      lw     old, 0(cell)
//! ldr   old, [cell]            bne    old, current, 2f
//! cmp   old, current           sw     new, 0(cell)
//! bne   2f                  2: andi   mask, mask, 8
//! str   new, [cell]            csrs   mstatus, mask
//! 2: msr PRIMASK, mask
//! ```
//!
//! An interrupt waits for at most [`MASKED_INSTRUCTIONS`], whatever the heap does: its searches and the sequential
//! heaps of its slots run with interrupts as they were. `ci/firmware.sh` compares this number with the machine code of
//! a program for each of the two, and runs it with nested interrupts.

use super::{Atomics, Native, Rmw, Word};
use core::arch::asm;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::{self, Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

/// Most instructions that an RMW executes with interrupts off, including the one that restores the mask.
pub const MASKED_INSTRUCTIONS: usize = 5;

/// A program's promise that its heaps are used on one core. The program implements it for a type of its own.
///
/// # Safety
///
/// All code that uses a heap with [`InterruptMasking<Self>`](InterruptMasking)
///
/// - runs on the same core: an RP2040, for example, has two;
/// - can write the interrupt mask: it runs in privileged mode on Armv6-M, where other code's writes are ignored, and in
///   machine mode on RISC-V;
/// - waits while interrupts are off: it is not called by handlers of faults or of non-maskable interrupts.
pub unsafe trait SingleCore: Copy + Default + Send + Sync + 'static {}

/// RMWs with interrupts off, for heaps on a core without compare-and-swap (Armv6-M, RV32 without A). Only there does
/// it exist.
///
/// Types of such heaps name it: `PooledArenas<'static, Tlsf<'static>, InterruptMasking<Board>>`, where `Board`
/// implements [`SingleCore`]. `ci/preemption/src/main.rs` is such a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterruptMasking<C: SingleCore>(PhantomData<C>);

/// Keeps the compiler from moving accesses across an ordered one. Handlers on the same core observe what it executes in
/// program order.
#[inline(always)]
fn ordered(order: Ordering) {
    if order != Relaxed {
        compiler_fence(SeqCst);
    }
}

/// The assembly of the parts.
#[rustfmt::skip] // It would take three lines for each.
#[cfg(not(target_arch = "riscv32"))]
macro_rules! code {
    (mask) => { "mrs {mask}, PRIMASK\ncpsid i" };
    (load byte) => { "ldrb {old}, [{cell}]" };
    (load word) => { "ldr {old}, [{cell}]" };
    (Add) => { "adds {new}, {new}, {old}" };
    (And) => { "ands {new}, {old}" };
    (Or) => { "orrs {new}, {old}" };
    (Swap) => { "" };
    (compare) => { "cmp {old}, {current}\nbne 2f" };
    (store byte) => { "strb {new}, [{cell}]" };
    (store word) => { "str {new}, [{cell}]" };
    (restore) => { "2: msr PRIMASK, {mask}" };
}

/// The assembly of the parts.
#[rustfmt::skip] // It would take three lines for each.
#[cfg(target_arch = "riscv32")]
macro_rules! code {
    (mask) => { "csrrci {mask}, mstatus, 8" };
    (load byte) => { "lbu {old}, 0({cell})" };
    (load word) => { "lw {old}, 0({cell})" };
    (Add) => { "add {new}, {new}, {old}" };
    (And) => { "and {new}, {new}, {old}" };
    (Or) => { "or {new}, {new}, {old}" };
    (Swap) => { "" };
    (compare) => { "bne {old}, {current}, 2f" };
    (store byte) => { "sb {new}, 0({cell})" };
    (store word) => { "sw {new}, 0({cell})" };
    (restore) => { "2: andi {mask}, {mask}, 8\ncsrs mstatus, {mask}" };
}

/// An RMW of the word `cell`, a byte or a word of the processor; the result is its previous value.
///
/// # Safety
///
/// As [`Atomics::load`]. The mask is that of the caller's core again afterwards.
macro_rules! masked {
    ($width:ident, $cell:expr, $operation:ident, $new:expr $(, current = $current:expr)?) => {{
        let old: usize;
        // No option says that memory is left alone, so the compiler moves no access across it, whatever the order.
        asm!(
            code!(mask),
            code!(load $width),
            code!($operation),
            code!(store $width),
            code!(restore),
            mask = out(reg) _,
            cell = in(reg) $cell,
            old = out(reg) old,
            new = inout(reg) $new => _,
            $(current = in(reg) $current,)?
            options(nostack),
        );
        old
    }};
}

// SAFETY: loads and stores are those of `Native`, and the compiler keeps them where an order asks for it. No other user
// of the word executes between the load and the store of an RMW: by the promise of `SingleCore`, each is on this core
// and waits while interrupts are off.
unsafe impl<C: SingleCore> Atomics for InterruptMasking<C> {
    #[inline(always)]
    unsafe fn load<W: Word>(cell: *mut W, order: Ordering) -> W {
        ordered(order);
        // SAFETY: `cell` is valid and aligned, by the contract of `Atomics::load`.
        let word = unsafe { Native::load(cell, Relaxed) };
        ordered(order);
        word
    }

    #[inline(always)]
    unsafe fn store<W: Word>(cell: *mut W, value: W, order: Ordering) {
        ordered(order);
        // SAFETY: `cell` is valid and aligned, by the contract of `Atomics::load`.
        unsafe { Native::store(cell, value, Relaxed) };
        ordered(order);
    }

    #[inline(always)]
    unsafe fn modify<W: Word>(cell: *mut W, rmw: Rmw, operand: W, _: Ordering) -> W {
        let new = operand.widen();
        // SAFETY: `cell` is valid and aligned, by the contract of `Atomics::load`, and has the width of the accesses.
        W::narrow(unsafe {
            match (size_of::<W>(), rmw) {
                (1, Rmw::Add) => masked!(byte, cell, Add, new),
                (1, Rmw::And) => masked!(byte, cell, And, new),
                (1, Rmw::Or) => masked!(byte, cell, Or, new),
                (1, Rmw::Swap) => masked!(byte, cell, Swap, new),
                (_, Rmw::Add) => masked!(word, cell, Add, new),
                (_, Rmw::And) => masked!(word, cell, And, new),
                (_, Rmw::Or) => masked!(word, cell, Or, new),
                (_, Rmw::Swap) => masked!(word, cell, Swap, new),
            }
        })
    }

    #[inline(always)]
    unsafe fn compare_exchange<W: Word>(cell: *mut W, current: W, new: W, _: Ordering) -> Result<W, W> {
        // SAFETY: as for `modify`.
        let old = W::narrow(unsafe {
            match size_of::<W>() {
                1 => masked!(byte, cell, compare, new.widen(), current = current.widen()),
                _ => masked!(word, cell, compare, new.widen(), current = current.widen()),
            }
        });
        if old == current { Ok(old) } else { Err(old) }
    }
}
