//! One word per thread in *initial-exec* thread-local storage.
//!
//! A shared library's thread-local variables are normally reached through `__tls_get_addr`, which may grow a table with
//! malloc: inside malloc that is a recursion. In the initial-exec model the variable is at a fixed distance from the thread
//! pointer and reading it is two instructions. The compiler offers no stable way to ask for that model in a library, so the
//! variable is defined and reached in assembly. A library that is preloaded is there at program start and
//! therefore always gets its place in the static block.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".globl rtalloc_record_thread",
    ".hidden rtalloc_record_thread",
    ".type rtalloc_record_thread, @object",
    ".size rtalloc_record_thread, 8",
    "rtalloc_record_thread:",
    ".zero 8",
    ".popsection",
);

/// This thread's word; 0 in a new thread.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn word() -> u64 {
    let word;
    // SAFETY: reads the eight bytes defined above, at the initial-exec offset that the linker put into the GOT; every
    // thread has them from its first instruction to its last.
    unsafe {
        asm!(
            "mov {word}, qword ptr [rip + rtalloc_record_thread@GOTTPOFF]",
            "mov {word}, qword ptr fs:[{word}]",
            word = out(reg) word,
            options(nostack, readonly, preserves_flags)
        );
    }
    word
}

/// Sets this thread's word.
#[cfg(target_arch = "x86_64")]
pub fn set_word(word: u64) {
    // SAFETY: writes the eight bytes defined above, which belong to this thread and of which no reference exists.
    unsafe {
        asm!(
            "mov {at}, qword ptr [rip + rtalloc_record_thread@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {word}",
            at = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags)
        );
    }
}

/// This thread's word; 0 in a new thread.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn word() -> u64 {
    let word;
    // SAFETY: reads the eight bytes defined above, at the initial-exec offset that the linker put into the GOT; every
    // thread has them from its first instruction to its last.
    unsafe {
        asm!(
            "mrs {pointer}, tpidr_el0",
            "adrp {word}, :gottprel:rtalloc_record_thread",
            "ldr {word}, [{word}, :gottprel_lo12:rtalloc_record_thread]",
            "ldr {word}, [{pointer}, {word}]",
            pointer = out(reg) _,
            word = out(reg) word,
            options(nostack, readonly, preserves_flags)
        );
    }
    word
}

/// Sets this thread's word.
#[cfg(target_arch = "aarch64")]
pub fn set_word(word: u64) {
    // SAFETY: writes the eight bytes defined above, which belong to this thread and of which no reference exists.
    unsafe {
        asm!(
            "mrs {pointer}, tpidr_el0",
            "adrp {at}, :gottprel:rtalloc_record_thread",
            "ldr {at}, [{at}, :gottprel_lo12:rtalloc_record_thread]",
            "str {word}, [{pointer}, {at}]",
            pointer = out(reg) _,
            at = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the recorder reaches its thread-local word in assembly, written for x86-64 and aarch64");
