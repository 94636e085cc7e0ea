//! The C library's `malloc`, replaced: a library to be preloaded into programs as they are.
//!
//! ```text
//! LD_PRELOAD=librtalloc_malloc.so  RTALLOC=arenas  RTALLOC_HEAP=256M  RTALLOC_FIXED=1  RTALLOC_MLOCK=1  program
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | [`family`] | the functions that programs call, and the short way of each |
//! | [`long`] | the long way of each |
//! | [`seat`] | who is calling, and the moments in which nobody is |
//! | [`regions`] | where memory comes from, and who owns an address |
//! | [`direct`] | large blocks that are mappings of their own |
//! | [`kinds`] | the allocators that can be asked for |
//! | [`settings`] | what the environment asks for |
//! | [`report`], [`tally`] | what the heap says of itself |
//! | [`ring`] | the flight recorder's file |
//! | [`life`] | when the library is loaded, around a fork, when a thread or the process ends |
//!
//! # The short way
//!
//! `malloc` and `free` of a thread that has a seat, in its own arena: the thread's word, the seat's two flags, and the operation of TLSF
//! as the laboratory measures it, inlined. No lock, no atomic instruction beyond plain loads and stores, no call by an address.
//!
//! # What a program may rely on
//!
//! - *Alignment* is 16 bytes at least, whatever the size. A request of no bytes is served. A request that is refused is answered with
//!   null and ENOMEM; one that is served, and `free`, leave `errno` alone.
//! - *Fork.* The child of a process with any number of threads may allocate, free and start threads: the fork waits until nobody is in the
//!   midst of an operation ([`seat::pause`]).
//! - *Threads* come and go; what they leave is used by those that come after them.
//! - *Signal handlers.* POSIX forbids them to allocate. One that interrupts its thread in the midst of an operation of the arenas and
//!   allocates works in the last slot all the same; under a lock, or inside the last slot, it is refused, and what it frees is lost.
//! - *Misuse* that the heap notices is said on standard error, and ends the program (`RTALLOC_MISUSE`).
//!
//! - *Debugging.* `RTALLOC=guarded` tells misuse apart, `RTALLOC_FAIL` refuses requests, `RTALLOC_RING` records operations ([`settings`]).
//!
//! For the GNU C library, on x86-64 and aarch64. Programs that are linked statically, or run with more rights than their user's, load no
//! other malloc.
//!
//! # Building
//!
//! With `panic=abort` this is a library without `std`: `cargo build -p rtalloc-malloc --profile c`. A workspace build, where the
//! profile says `panic=unwind`, links `std` for its panic runtime alone and is otherwise the same.

#![cfg_attr(panic = "abort", no_std)]

pub mod direct;
pub mod family;
pub mod kinds;
pub mod libc;
pub mod life;
pub mod lock;
pub mod long;
pub mod misuse;
pub mod regions;
pub mod report;
pub mod ring;
pub mod seat;
pub mod settings;
#[path = "../../rtalloc-preload/src/system.rs"]
pub mod system;
pub mod tally;
pub mod tell;
#[path = "../../rtalloc-preload/src/thread.rs"]
pub mod thread;

/// There is nothing to unwind and nobody to tell: an allocator that lost its way ends the process.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}
