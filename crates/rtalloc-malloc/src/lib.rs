//! The C library's `malloc`, replaced: a library that is preloaded into unmodified programs.
//!
//! ```text
//! LD_PRELOAD=librtalloc_malloc.so  RTALLOC=arenas  RTALLOC_HEAP=256M  RTALLOC_FIXED=1  RTALLOC_MLOCK=1  program
//! ```
//!
//! | layer | contents |
//! |---|---|
//! | `lock`, `output`, `mapping` | the lock, text output, memory from the system |
//! | `path` | names of files |
//! | `settings` | the environment |
//! | `region_table`, `threads` | parts of the state: owners of addresses; thread states and pauses |
//! | `counters` | a part of the state: counters for the report |
//! | `state` | the one static, `state::STATE` |
//! | `kinds` | the allocators, each as a table of functions |
//! | `misuse`, `direct`, `ring`, `pages` | reactions to misuse; large blocks; the recorder's file; pages given back |
//! | `regions`, `fork` | adds regions; handlers around `fork` |
//! | `worker`, `setup` | the slot of the calling thread; the first allocation |
//! | `slow_path`, `report` | the slow path of every operation; the report |
//! | `entry`, `process` | the functions that programs call, and their fast paths; load and unload |
//!
//! A module uses only modules of the rows above its own; `tests/layers.rs` verifies that.
//!
//! # The fast path
//!
//! `malloc` and `free` of a thread with a slot, in the memory that its heap has: the thread-local word, two flags, the
//! chunk's owner for `free`, and a list of freed blocks or TLSF. No lock, no atomic instruction other than plain loads
//! and stores, no indirect call.
//!
//! # Guarantees
//!
//! - *Alignment* is at least 16 bytes for every size. A request of 0 bytes is served. A refused request returns null
//!   with ENOMEM; a successful one, and `free`, leave `errno` alone.
//! - *Fork.* The child of a process with any number of threads may allocate, free and start threads: the fork waits
//!   until no thread is inside an operation (`threads`).
//! - *Threads* may start and end; later threads use the memory of ended ones.
//! - *Signal handlers.* POSIX forbids them to allocate. A handler that interrupts its thread inside an operation of the
//!   arenas allocates from the last slot. Under a lock, or inside the last slot, its requests are refused, and the
//!   blocks it frees are lost.
//! - *Misuse* that the heap detects is printed to standard error and ends the program (`RTALLOC_MISUSE`).
//! - *Debugging.* `RTALLOC=guarded` distinguishes kinds of misuse, `RTALLOC_FAIL` makes requests fail, `RTALLOC_RING`
//!   records operations (`settings`).
//!
//! For the GNU C library, on x86-64. The code for aarch64 has no recorded results. Statically linked programs, and
//! programs that run with more rights than their user, do not load the library.
//!
//! # Building
//!
//! With `panic=abort` this is a library without `std`: `cargo build -p rtalloc-malloc --profile c`. A workspace build
//! has `panic=unwind`: it links `std` for its panic runtime alone and is otherwise the same.

#![cfg_attr(panic = "abort", no_std)]

mod counters;
mod direct;
mod entry;
mod fork;
mod kinds;
mod lock;
mod mapping;
mod misuse;
mod output;
mod pages;
mod path;
mod process;
mod region_table;
mod regions;
mod report;
mod ring;
mod settings;
mod setup;
mod slow_path;
mod state;
mod threads;
mod worker;

/// Ends the process. There is nothing to unwind.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: `abort` has no precondition.
    unsafe { rtalloc_sys::libc::abort() }
}
