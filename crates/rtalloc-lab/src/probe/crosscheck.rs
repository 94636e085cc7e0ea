//! The stepper against an independent witness: another process that single-steps the same operations by `ptrace`.

use super::step::Stepper;
use super::step::decode::{Instruction, decode};
use crate::replay::isolate::Child;
use crate::replay::tests::random_events;
use crate::replay::{Observer, Replay};
use crate::subject::{Heap, Region, Subject, select};
use crate::trace::Event;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::arch::asm;
use std::ffi::c_void;
use std::time::Duration;

const HEAP_BYTES: usize = 1 << 20;

/// Steps through every operation by the trap flag.
struct Stepped {
    stepper: Stepper,
    counts: Vec<u64>,
}

impl Stepped {
    unsafe fn call(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        // SAFETY: the caller's promise.
        let (result, count) = unsafe { self.stepper.call(entry, arguments) };
        self.counts.push(count);
        result
    }
}

/// Stops at a breakpoint right before the call of every operation, for the witness.
struct Announced;

impl Announced {
    unsafe fn call(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        let result: usize;
        // SAFETY: the caller vouches for the call; the witness takes the breakpoint.
        unsafe {
            asm!(
                "int3",
                "call rax",
                inlateout("rax") entry => result,
                in("rdi") arguments[0],
                in("rsi") arguments[1],
                in("rdx") arguments[2],
                in("rcx") arguments[3],
                in("r8") arguments[4],
                clobber_abi("C"),
            );
        }
        result
    }
}

macro_rules! observe_through_call {
    ($observer:ty) => {
        impl Observer for $observer {
            unsafe fn allocate(&mut self, heap: &Heap<'_>, size: usize, align: usize) -> *mut u8 {
                let arguments = [heap.context as usize, size, align, 0, 0];
                // SAFETY: the caller's promise; the entry points and the context belong together.
                unsafe { self.call(heap.entries.allocate_at(align) as *const c_void, arguments) as *mut u8 }
            }

            unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
                let arguments = [heap.context as usize, block as usize, size, align, 0];
                // SAFETY: the caller's promise; the entry points and the context belong together.
                unsafe { self.call(heap.entries.deallocate as *const c_void, arguments) };
            }

            unsafe fn reallocate(
                &mut self,
                heap: &Heap<'_>,
                block: *mut u8,
                old: usize,
                align: usize,
                new: usize,
            ) -> *mut u8 {
                let arguments = [heap.context as usize, block as usize, old, align, new];
                // SAFETY: the caller's promise; the entry points and the context belong together.
                unsafe { self.call(heap.entries.reallocate as *const c_void, arguments) as *mut u8 }
            }
        }
    };
}

observe_through_call!(Stepped);
observe_through_call!(Announced);

fn replay(subject: &Subject, events: &[Event], observer: &mut impl Observer) {
    let mut region = Region::new(HEAP_BYTES, true).expect("a region");
    let heap = Heap::new(subject, &mut region, HEAP_BYTES).expect("a heap");
    Replay::new().run::<true, _>(&heap, events, observer).expect("a correct allocator");
}

fn counted_by_stepping(subject: &Subject, events: &[Event]) -> Vec<u64> {
    let child = Child::spawn(|_| {
        let mut stepped = Stepped { stepper: Stepper::new().expect("single-stepping"), counts: Vec::new() };
        replay(subject, events, &mut stepped);
        stepped.counts
    });
    child.expect("fork").wait(Duration::from_secs(120)).expect("counts")
}

fn counted_by_the_witness(subject: &Subject, events: &[Event]) -> Vec<u64> {
    // SAFETY: the child uses what this thread owns and leaves with `_exit`.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Child => {
            let announced = std::panic::catch_unwind(|| {
                ptrace::traceme().expect("being traced");
                raise(Signal::SIGSTOP).expect("stopping");
                replay(subject, events, &mut Announced);
            });
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(announced.is_err())) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Stopped(child, Signal::SIGSTOP)));
            let mut counts = Vec::new();
            loop {
                ptrace::cont(child, None).expect("going on");
                match waitpid(child, None).expect("a change") {
                    WaitStatus::Stopped(_, Signal::SIGTRAP) => counts.push(count_call(child)),
                    WaitStatus::Exited(_, 0) => return counts,
                    other => panic!("the traced process ended badly: {other:?}"),
                }
            }
        }
    }
}

/// Single-steps a process that stopped right before a call until the call has returned.
fn count_call(child: Pid) -> u64 {
    let step = || {
        ptrace::step(child, None).expect("a step");
        assert_eq!(waitpid(child, None), Ok(WaitStatus::Stopped(child, Signal::SIGTRAP)));
        let registers = ptrace::getregs(child).expect("registers");
        (registers.rip, registers.rsp)
    };
    let (mut place, stack) = step();
    let return_address = ptrace::read(child, stack as *mut c_void).expect("the return address") as u64;
    let (mut count, mut last) = (0, 0);
    loop {
        if place != last || !is_repeated(child, place) {
            count += 1;
        }
        last = place;
        let (next, next_stack) = step();
        if next == return_address && next_stack == stack + 8 {
            return count;
        }
        place = next;
    }
}

fn is_repeated(child: Pid, place: u64) -> bool {
    let mut bytes = [0; 16];
    for (offset, word) in bytes.chunks_exact_mut(8).enumerate() {
        let address = (place + 8 * offset as u64) as *mut c_void;
        word.copy_from_slice(&ptrace::read(child, address).expect("code").to_ne_bytes());
    }
    // SAFETY: no instruction is longer than 15 bytes.
    let instruction = unsafe { decode(bytes.as_ptr()) };
    matches!(instruction, Instruction::Repeated | Instruction::RepeatedCopy { .. })
}

#[test]
fn stepping_and_tracing_count_the_same_in_every_operation() {
    let events = random_events(400, 7);
    for subject in select(&["tlsf", "rlsf", "talc", "dlmalloc"]).expect("subjects") {
        let stepped = counted_by_stepping(subject, &events);
        assert_eq!(stepped.len(), events.len(), "{}", subject.name);
        assert!(stepped.iter().all(|count| (5..100_000).contains(count)), "{}: {stepped:?}", subject.name);
        assert_eq!(stepped, counted_by_the_witness(subject, &events), "{}", subject.name);
    }
}
