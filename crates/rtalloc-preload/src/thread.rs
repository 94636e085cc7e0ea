//! One word per thread in *initial-exec* thread-local storage.
//!
//! A shared library's thread-local variables are normally reached through `__tls_get_addr`, which may grow a table with
//! malloc: inside malloc that is a recursion. In the initial-exec model the variable is at a fixed distance from the thread
//! pointer and reading it is two instructions. The compiler offers no stable way to ask for that model in a library, so the
//! variable is defined and reached in assembly. A library that is preloaded is there at program start and
//! therefore always gets its place in the static block.
//!
//! This file is part of two libraries, the recorder and the allocator of `rtalloc-malloc`, each of which has a word of its own.

use core::arch::{asm, global_asm};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".p2align 3",
    ".globl rtalloc_thread_word",
    ".hidden rtalloc_thread_word",
    ".type rtalloc_thread_word, @object",
    ".size rtalloc_thread_word, 8",
    "rtalloc_thread_word:",
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
            "mov {word}, qword ptr [rip + rtalloc_thread_word@GOTTPOFF]",
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
            "mov {at}, qword ptr [rip + rtalloc_thread_word@GOTTPOFF]",
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
            "adrp {word}, :gottprel:rtalloc_thread_word",
            "ldr {word}, [{word}, :gottprel_lo12:rtalloc_thread_word]",
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
            "adrp {at}, :gottprel:rtalloc_thread_word",
            "ldr {at}, [{at}, :gottprel_lo12:rtalloc_thread_word]",
            "str {word}, [{pointer}, {at}]",
            pointer = out(reg) _,
            at = out(reg) _,
            word = in(reg) word,
            options(nostack, preserves_flags)
        );
    }
}

/// A number that no other thread of the process has while this one lives: its thread pointer. Never 0.
#[must_use]
pub fn identity() -> usize {
    let pointer;
    // SAFETY: reads a register, or the word that holds its own address at the thread pointer.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("preloaded libraries reach their thread-local word in assembly, written for x86-64 and aarch64");
