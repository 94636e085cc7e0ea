//! One word per thread in *initial-exec* thread-local storage.
//!
//! A shared library normally reaches its thread-local variables through `__tls_get_addr`, which may call malloc: inside
//! malloc, that recurses. In the initial-exec model the variable is at a fixed offset from the thread pointer, and
//! reading it takes two instructions. Stable Rust cannot request that model, so the variable is defined and accessed in
//! assembly. A preloaded library is loaded at program start, so the static TLS block always has room for it.

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
#[inline(always)]
#[must_use]
pub fn word() -> u64 {
    let word;
    // SAFETY: reads the eight bytes defined above, at the initial-exec offset from the GOT. They exist as long as the
    // thread.
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
#[inline(always)]
pub fn set_word(word: u64) {
    // SAFETY: writes the eight bytes defined above, which are this thread's. No reference to them exists.
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
#[inline(always)]
#[must_use]
pub fn word() -> u64 {
    let word;
    // SAFETY: reads the eight bytes defined above, at the initial-exec offset from the GOT. They exist as long as the
    // thread.
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
#[inline(always)]
pub fn set_word(word: u64) {
    // SAFETY: writes the eight bytes defined above, which are this thread's. No reference to them exists.
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

/// The thread pointer: unique among the live threads of the process, and never 0.
#[inline(always)]
#[must_use]
pub fn identity() -> usize {
    let pointer;
    // SAFETY: reads a register, or on x86-64 the word at the thread pointer, which is its own address.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the thread-local word is accessed in assembly, written for x86-64 and aarch64");
