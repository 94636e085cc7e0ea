//! Checks the counter against an independent reference: another process that single-steps the same operations by
//! `ptrace`.
//!
//! The counts of every operation must be equal, and every step of the reference must be an edge of the copied and
//! bounded graph.

use crate::probe::Counted;
use crate::replay::isolate::{Child, SharedMemory};
use crate::replay::tests::{random_events, within};
use crate::replay::{NoObserver, Observer, Replay};
use crate::tier::Tiers;
use crate::trace::Event;
use nix::sys::ptrace;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use pathbound::arch::Transfer;
use pathbound::arch::x86_64::{LONGEST_INSTRUCTION_BYTES, decode};
use pathbound::counter::{Record, executed};
use pathbound::graph::{Callee, Flow, Graph};
use pathbound::image::Process;
use rtalloc_subjects::{Heap, Region, Subject, all, select};
use std::arch::asm;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const HEAP_BYTES: usize = 1 << 20;
/// Maximum number of operations.
const OPERATIONS: Tiers<usize> = Tiers { daily: 75, full: 3_000 };

/// A third of them if each may search the heap: single-stepping is some thousand times slower than executing.
fn operations(subject: &Subject) -> usize {
    let searches = !subject.cost.starts_with("O(1)") && !subject.cost.starts_with("O(log");
    OPERATIONS.now() / if searches { 3 } else { 1 }
}

/// Counts every operation, into preallocated memory.
struct Counting<'a> {
    counts: &'a [AtomicU64],
    next: usize,
}

impl Counting<'_> {
    unsafe fn call(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        let before = executed();
        // SAFETY: every entry point takes up to five words; the caller guarantees that these are valid.
        let result = unsafe {
            let entry: extern "C" fn(usize, usize, usize, usize, usize) -> usize = std::mem::transmute(entry);
            let [first, second, third, fourth, fifth] = arguments;
            entry(first, second, third, fourth, fifth)
        };
        self.counts[self.next].store(executed() - before, Ordering::Relaxed);
        self.next += 1;
        result
    }
}

/// Stops at a breakpoint right before the call of every operation, for the reference process.
struct Announced;

impl Announced {
    unsafe fn call(&mut self, entry: *const c_void, arguments: [usize; 5]) -> usize {
        let result: usize;
        // SAFETY: the caller guarantees the call; the reference process handles the breakpoint.
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
                // SAFETY: the context belongs to these entry points, and the size and alignment are valid.
                unsafe { self.call(heap.entries.allocate_at(align) as *const c_void, arguments) as *mut u8 }
            }

            unsafe fn deallocate(&mut self, heap: &Heap<'_>, block: *mut u8, size: usize, align: usize) {
                let arguments = [heap.context as usize, block as usize, size, align, 0];
                // SAFETY: the context belongs to these entry points, and the block is live with this size and
                // alignment.
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
                // SAFETY: the context belongs to these entry points, and the block is live with this size and
                // alignment.
                unsafe { self.call(heap.entries.reallocate as *const c_void, arguments) as *mut u8 }
            }
        }
    };
}

observe_through_call!(Counting<'_>);
observe_through_call!(Announced);

fn replay(subject: &Subject, events: &[Event], observer: &mut impl Observer) {
    let mut region = Region::new(HEAP_BYTES, true).expect("a region");
    let heap = Heap::new(subject, &mut region, HEAP_BYTES).expect("a heap");
    Replay::new().run::<true, _>(&heap, events, observer).expect("a correct allocator");
}

/// A copy of the subject's code that includes every target of its computed jumps in this replay.
fn complete(process: &Process, subject: &Subject, events: &[Event]) -> Counted {
    let mut further: Vec<u64> = Vec::new();
    for _ in 0..24 {
        let counted = Counted::new(process, subject, &further, Record::Count).expect("a counter");
        let child = Child::spawn(|_| {
            replay(&Subject { entries: counted.entries(), ..*subject }, events, &mut NoObserver);
            (counted.counter().misses(), counted.counter().departures())
        });
        let result = child.expect("fork").wait(Duration::from_secs(120));
        let (missed, departures): (BTreeSet<u64>, BTreeSet<u64>) = result.expect("code that was not found");
        assert!(departures.is_empty(), "{}: {departures:x?} cannot be executed in a copy", subject.name);
        if missed.is_empty() {
            return counted;
        }
        further.extend(missed);
    }
    panic!("{}: further code was not found: {further:x?}", subject.name);
}

/// Forks a process that replays and exits. Until then it does not allocate, and neither does this process between two
/// calls: a subject that serves the whole process must be in the same state both times.
fn forked(subject: &Subject, events: &[Event], observer: &mut impl Observer, traced: bool) -> Pid {
    // SAFETY: the child uses only what this thread owns, and leaves with `_exit`.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if traced {
                    ptrace::traceme().expect("being traced");
                    raise(Signal::SIGSTOP).expect("stopping");
                }
                replay(subject, events, observer);
            }));
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
    }
}

/// The counts of every operation by the copy and by the reference, and the pairs of consecutive instructions that the
/// reference executed.
fn both(subject: &Subject, counted: &Counted, events: &[Event]) -> (Vec<u64>, Vec<u64>, BTreeSet<(u64, u64)>) {
    let shared = SharedMemory::new(1 + OPERATIONS.now()).expect("shared memory");
    let mut counting = Counting { counts: shared.words(), next: 0 };
    let counting_child = forked(&Subject { entries: counted.entries(), ..*subject }, events, &mut counting, false);
    let traced_child = forked(subject, events, &mut Announced, true);
    assert_eq!(waitpid(counting_child, None), Ok(WaitStatus::Exited(counting_child, 0)));
    let (witnessed, steps) = witness(traced_child);
    let words = shared.words().iter().map(|word| word.load(Ordering::Relaxed));
    let counts = words.take_while(|count| *count > 0).collect();
    (counts, witnessed, steps)
}

/// Traces a process to its end.
fn witness(child: Pid) -> (Vec<u64>, BTreeSet<(u64, u64)>) {
    assert_eq!(waitpid(child, None), Ok(WaitStatus::Stopped(child, Signal::SIGSTOP)));
    let (mut counts, mut steps) = (Vec::new(), BTreeSet::new());
    loop {
        ptrace::cont(child, None).expect("continue");
        match waitpid(child, None).expect("a change") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => counts.push(count_call(child, &mut steps)),
            WaitStatus::Exited(_, 0) => return (counts, steps),
            other => panic!("the traced process failed: {other:?}"),
        }
    }
}

/// Single-steps a process that stopped right before a call until the call has returned.
fn count_call(child: Pid, steps: &mut BTreeSet<(u64, u64)>) -> u64 {
    let step = || {
        ptrace::step(child, None).expect("a step");
        assert_eq!(waitpid(child, None), Ok(WaitStatus::Stopped(child, Signal::SIGTRAP)));
        let registers = ptrace::getregs(child).expect("registers");
        (registers.rip, registers.rsp)
    };
    let (mut place, stack) = step();
    let return_address = ptrace::read(child, stack as *mut c_void).expect("the return address") as u64;
    let mut count = 0;
    loop {
        let (next, next_stack) = step();
        // A repeated instruction traps at every repetition, and counts once, when it is done.
        if next != place || !is_repeated(place) {
            count += 1;
            steps.insert((place, next));
        }
        if next == return_address && next_stack == stack + 8 {
            return count;
        }
        place = next;
    }
}

fn is_repeated(place: u64) -> bool {
    // SAFETY: the traced process was forked from this one, so its code is here too; the page after an instruction at a
    // page's end may be unmapped, so only bytes of the instruction's own page are read; a truncated instruction is not
    // a `rep`.
    let code = unsafe {
        let left = 4096 - place as usize % 4096;
        std::slice::from_raw_parts(place as *const u8, left.min(LONGEST_INSTRUCTION_BYTES))
    };
    decode(code, place).is_some_and(|decoded| decoded.transfer == Transfer::Repeat)
}

/// Whether the graph has this edge.
fn is_edge(graph: &Graph, from: u64, to: u64) -> bool {
    let Some(node) = graph.node(from) else { return false };
    match &node.flow {
        Flow::Call(Callee::Function(callee)) | Flow::Tail(Callee::Function(callee)) => to == *callee,
        // A return to an unknown caller, or a computed jump.
        Flow::Return | Flow::Call(Callee::Unknown(_)) | Flow::Tail(Callee::Unknown(_)) | Flow::Unknown(_) => true,
        _ => graph.successors(from).any(|next| next == to),
    }
}

fn agrees(subject: &Subject) {
    let name = subject.name;
    let events = within(subject.reach, random_events(operations(subject), 7));
    let process = Process::shared().expect("this process");
    let counted = complete(&process, subject, &events);
    let (counts, witnessed, steps) = both(subject, &counted, &events);
    let graph = counted.graph();
    assert!(counts.len() > events.len() * 9 / 10 && counts.iter().all(|count| *count >= 5), "{counts:?}");
    let differences: Vec<(usize, u64, u64)> = counts
        .iter()
        .zip(&witnessed)
        .enumerate()
        .filter_map(|(operation, (counted, seen))| (counted != seen).then_some((operation, *counted, *seen)))
        .collect();
    assert!(
        differences.is_empty() && counts.len() == witnessed.len(),
        "{name}: {} of {} counts differ: (operation, counted, witnessed) {:?}",
        differences.len(),
        counts.len(),
        &differences[..differences.len().min(5)]
    );
    let outside: Vec<_> = steps.iter().filter(|(from, to)| !is_edge(graph, *from, *to)).collect();
    assert!(outside.is_empty(), "{name}: steps outside the graph: {outside:x?}");
}

/// Environment variable that names the subject in a process that cross-checks nothing else.
const ALONE: &str = "TESTS_CROSSCHECK_ALONE";

/// Cross-checks in a separate process: an allocator that serves the whole process must not be used by other threads,
/// and must not return pages after a timeout, because a traced process runs longer.
fn agrees_alone(name: &str) {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "probe::crosscheck::the_subject_of_the_environment_agrees",
            "--exact",
            "--test-threads=1",
            "--nocapture",
        ])
        .env(ALONE, name)
        .env("MIMALLOC_PURGE_DELAY", "-1")
        .env("_RJEM_MALLOC_CONF", "dirty_decay_ms:-1,muzzy_decay_ms:-1,experimental_tcache_gc:false")
        .output()
        .expect("this program again");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// The table is divided among the tests, so that they run in parallel.
const SHARES: usize = 4;

fn share_agrees(share: usize) {
    for subject in all().iter().skip(share).step_by(SHARES) {
        if subject.own_pages { agrees_alone(subject.name) } else { agrees(subject) }
    }
}

#[test]
fn the_first_share_agrees() {
    share_agrees(0);
}

#[test]
fn the_second_share_agrees() {
    share_agrees(1);
}

#[test]
fn the_third_share_agrees() {
    share_agrees(2);
}

#[test]
fn the_fourth_share_agrees() {
    share_agrees(3);
}

/// Does nothing except in the process that [`agrees_alone`] starts.
#[test]
fn the_subject_of_the_environment_agrees() {
    if let Ok(name) = std::env::var(ALONE) {
        agrees(select(&[name]).expect("a subject")[0]);
    }
}
