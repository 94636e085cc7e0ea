//! An independent count: another process executes the calls, and this one single-steps it with `ptrace`.

use super::Function;
use iced_x86::{Decoder, DecoderOptions};
use std::arch::asm;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Calls a function, after a breakpoint at which the witness takes over.
///
/// # Safety
///
/// The arguments are valid for the function.
pub unsafe fn announced(function: Function, arguments: [u64; 3]) -> u64 {
    let result;
    // SAFETY: the caller guarantees valid arguments, and the assembly declares what a C call clobbers.
    unsafe {
        asm!(
            "int3",
            "call rax",
            inlateout("rax") function as *const c_void as u64 => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            clobber_abi("C"),
        );
    }
    result
}

/// Instructions of each call that `calls` announces.
pub fn count(calls: impl FnOnce()) -> Vec<u64> {
    trace(calls).iter().map(|call| call.len() as u64).collect()
}

/// Addresses of the instructions of each call that `calls` announces, in order of execution.
pub fn trace(calls: impl FnOnce()) -> Vec<Vec<u64>> {
    // SAFETY: the child uses only what this thread owns, and ends by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: `PTRACE_TRACEME` ignores its pointers; `raise` takes a valid signal.
            unsafe {
                assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<c_void>(), null_mut::<c_void>()), 0);
                libc::raise(libc::SIGSTOP);
            }
            calls();
        }));
        // SAFETY: `_exit` has no preconditions.
        unsafe { libc::_exit(i32::from(done.is_err())) }
    }
    let traced = Traced(child);
    assert_eq!(traced.wait(), Some(libc::SIGSTOP));
    let mut traces = Vec::new();
    loop {
        traced.resume(libc::PTRACE_CONT);
        match traced.wait() {
            Some(libc::SIGTRAP) => traces.push(traced.trace_call()),
            None => return traces,
            Some(signal) => panic!("the traced process got signal {signal}"),
        }
    }
}

struct Traced(libc::pid_t);

impl Traced {
    /// The signal that stopped the process; `None` if it ended without failure.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` is a local variable, valid for writes.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        assert!(libc::WIFSTOPPED(status) || (libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0), "{status:#x}");
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    fn resume(&self, how: libc::c_uint) {
        self.resume_with(how, 0);
    }

    fn resume_with(&self, how: libc::c_uint, signal: i32) {
        // SAFETY: the request takes a number as data; the process is a stopped child of this one.
        assert_eq!(unsafe { libc::ptrace(how, self.0, null_mut::<c_void>(), signal as *mut c_void) }, 0);
    }

    /// Executes an instruction. Returns the instruction and stack pointers after it.
    fn step(&self) -> (u64, u64) {
        self.resume(libc::PTRACE_SINGLESTEP);
        // Other signals are the process's own: it has handlers for them.
        while let Some(signal) = self.wait().filter(|signal| *signal != libc::SIGTRAP) {
            self.resume_with(libc::PTRACE_SINGLESTEP, signal);
        }
        // SAFETY: the structure is plain integers, for which zero is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the request writes a `user_regs_struct` to the pointer, which points to one; the child is stopped.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, null_mut::<c_void>(), &raw mut registers) }, 0);
        (registers.rip, registers.rsp)
    }

    fn word(&self, address: u64) -> u64 {
        // SAFETY: the request reads the memory of the traced process only, which is a stopped child of this one.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, address as *mut c_void, null_mut::<c_void>()) }
            .cast_unsigned()
    }

    /// Whether a repeated string instruction is at an address.
    fn is_repeated(&self, address: u64) -> bool {
        let bytes = [self.word(address), self.word(address + 8)].map(u64::to_le_bytes).concat();
        let instruction = Decoder::new(64, &bytes, DecoderOptions::NONE).decode();
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    }

    /// Traces from right before a call to right after it.
    fn trace_call(&self) -> Vec<u64> {
        let (mut place, stack) = self.step();
        let back = self.word(stack);
        let mut executed = Vec::new();
        loop {
            if executed.last() != Some(&place) || !self.is_repeated(place) {
                executed.push(place);
            }
            let (next, next_stack) = self.step();
            if next == back && next_stack == stack + 8 {
                return executed;
            }
            place = next;
        }
    }
}
