//! An independent count: another process executes the calls, and this one steps it through them by `ptrace`.

use super::Function;
use iced_x86::{Decoder, DecoderOptions};
use std::arch::asm;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Calls a function; right before, at a breakpoint, the witness takes over.
///
/// # Safety
///
/// The function may be called so.
pub unsafe fn announced(function: Function, arguments: [u64; 3]) -> u64 {
    let result;
    // SAFETY: the caller vouches for the call.
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
    // SAFETY: the child uses what this thread owns, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // SAFETY: plain system calls.
            unsafe {
                assert_eq!(libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<c_void>(), null_mut::<c_void>()), 0);
                libc::raise(libc::SIGSTOP);
            }
            calls();
        }));
        // SAFETY: ends the process at once.
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
    /// The signal the process stopped by; `None` if it has ended well.
    fn wait(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: the status is this function's.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        assert!(libc::WIFSTOPPED(status) || (libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0), "{status:#x}");
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    fn resume(&self, how: libc::c_uint) {
        // SAFETY: the process is a stopped child of this one.
        assert_eq!(unsafe { libc::ptrace(how, self.0, null_mut::<c_void>(), null_mut::<c_void>()) }, 0);
    }

    /// Executes an instruction; where the process is then: its instruction and stack pointers.
    fn step(&self) -> (u64, u64) {
        self.resume(libc::PTRACE_SINGLESTEP);
        assert_eq!(self.wait(), Some(libc::SIGTRAP));
        // SAFETY: the structure is plain data.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the process is a stopped child of this one; the structure is what the request asks for.
        assert_eq!(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.0, null_mut::<c_void>(), &raw mut registers) }, 0);
        (registers.rip, registers.rsp)
    }

    fn word(&self, address: u64) -> u64 {
        // SAFETY: the process is a stopped child of this one.
        unsafe { libc::ptrace(libc::PTRACE_PEEKDATA, self.0, address as *mut c_void, null_mut::<c_void>()) }
            .cast_unsigned()
    }

    /// Whether a repeated string instruction is at an address.
    fn is_repeated(&self, address: u64) -> bool {
        let bytes = [self.word(address), self.word(address + 8)].map(u64::to_le_bytes).concat();
        let instruction = Decoder::new(64, &bytes, DecoderOptions::NONE).decode();
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
    }

    /// From right before a call to right behind it.
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
