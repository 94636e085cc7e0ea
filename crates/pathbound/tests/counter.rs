//! Compares the counter with known counts, with an independent witness, and with the results of the originals.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

#[path = "counter/examined.rs"]
mod examined;
#[path = "counter/fixtures.rs"]
mod fixtures;
#[path = "counter/subjects.rs"]
mod subjects;
#[path = "../../rtalloc/tests/tier/mod.rs"]
mod tier;
#[path = "counter/witness.rs"]
mod witness;

use fixtures::*;
use pathbound::counter::{Counter, Coverage, Record, executed};
use pathbound::graph::NeverReturns;
use pathbound::{Graph, Process};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;
use tier::Tiers;

/// The type of all functions in these tests.
type Function = unsafe extern "C" fn(u64, u64, u64) -> u64;

fn address(function: Function) -> u64 {
    function as *const c_void as u64
}

/// Functions with their copy, and the parameters to make a larger one.
struct Copied {
    process: Process,
    entries: Vec<u64>,
    record: Record,
    graph: Arc<Graph>,
    counter: Counter,
}

impl Copied {
    fn new(functions: &[Function], record: Record) -> Self {
        let process = Process::current().expect("this process");
        let entries: Vec<u64> = functions.iter().map(|function| address(*function)).collect();
        let graph = Graph::explore_to_count(&process, &entries, &NeverReturns::default()).expect("code");
        let counter = Counter::new(&process, &graph, record).expect("a counter");
        Self { process, entries, record, graph, counter }
    }

    /// Calls the copy; returns the result, and the instructions executed.
    ///
    /// # Safety
    ///
    /// The arguments are valid for the function.
    unsafe fn call(&self, function: Function, arguments: [u64; 3]) -> (u64, u64) {
        let copy = self.counter.entry(address(function)).expect("the function is in the graph");
        // SAFETY: the copy has the signature of the function, and `self.counter` is alive.
        let copy: Function = unsafe { std::mem::transmute(copy) };
        let before = executed();
        // SAFETY: the copy accepts what the function accepts, and the caller passes valid arguments.
        let result = unsafe { copy(arguments[0], arguments[1], arguments[2]) };
        (result, executed() - before)
    }

    /// Runs until nothing is missed, each time with the missed code in the graph. Returns how often it was remade.
    fn settle<T>(&mut self, run: impl Fn(&Self) -> T) -> usize {
        for round in 0..100 {
            let _ = run(self);
            let misses = self.counter.misses();
            if misses.is_empty() {
                assert_eq!(self.counter.departures(), BTreeSet::new());
                return round;
            }
            assert!(misses.iter().all(|miss| !self.entries.contains(miss)), "{misses:x?}");
            self.entries.extend(misses);
            self.graph = Graph::explore_to_count(&self.process, &self.entries, &NeverReturns::default()).expect("code");
            self.counter = Counter::new(&self.process, &self.graph, self.record).expect("a counter");
        }
        panic!("no end of misses");
    }
}

/// Calls the original and the copy, which must have the same results and the given counts, in both modes.
fn check(function: Function, cases: &[([u64; 3], u64)]) {
    for record in [Record::Count, Record::Coverage] {
        let mut copied = Copied::new(&[function], record);
        let calls = |copied: &Copied| {
            // SAFETY: the cases are valid arguments of the function.
            cases.iter().map(|(arguments, _)| unsafe { copied.call(function, *arguments) }).collect::<Vec<_>>()
        };
        copied.settle(calls);
        // SAFETY: the cases are valid arguments of the function.
        let expected = cases
            .iter()
            .map(|(arguments, count)| unsafe { (function(arguments[0], arguments[1], arguments[2]), *count) });
        assert_eq!(calls(&copied), expected.collect::<Vec<_>>(), "{record:?}");
    }
}

#[test]
fn straight_code_and_branches() {
    check(pbc_straight, &[([1, 2, 3], 3)]);
    check(pbc_diamond, &[([1, 1, 0], 5), ([1, 2, 0], 6)]);
    check(pbc_flags, &[([1, 2, 0], 4), ([2, 2, 0], 5), ([3, 2, 0], 5)]);
    check(pbc_long, &[([1, 0, 0], 302)]);
    check(pbc_overlap, &[([7, 0, 0], 6), ([7, 1, 0], 6)]);
}

#[test]
fn loops() {
    check(pbc_loop, &[([1, 0, 0], 5), ([1000, 0, 0], 3002)]);
    check(pbc_nested, &[([1, 1, 0], 8), ([5, 7, 0], 2 + 5 * (3 + 3 * 7))]);
    check(pbc_loop_instruction, &[([0, 0, 0], 4), ([1, 0, 0], 5), ([300, 0, 0], 304)]);
}

#[test]
fn calls_tail_calls_and_recursion() {
    check(pbc_calls, &[([1, 2, 3], 7)]);
    check(pbc_calls_in_loop, &[([1, 2, 3], 10), ([10, 2, 3], 64)]);
    check(pbc_tail, &[([1, 2, 3], 5)]);
    check(pbc_factorial, &[([1, 0, 0], 4), ([5, 0, 0], 9 * 4 + 4), ([20, 0, 0], 9 * 19 + 4)]);
    check(pbc_asserts, &[([3, 0, 0], 4)]);
}

#[test]
fn a_repeated_instruction_and_a_system_call_count_one() {
    let mut bytes = [0_u8; 1000];
    let source = [7_u8; 1000];
    let start = bytes.as_mut_ptr() as u64;
    check(pbc_fill, &[([start, 1, 0x55], 6), ([start, 1000, 0xaa], 6)]);
    check(pbc_copy, &[([start, source.as_ptr() as u64, 0], 4), ([start, source.as_ptr() as u64, 1000], 4)]);
    assert_eq!(bytes, source);
    check(pbc_syscall, &[([0; 3], 3)]);
}

#[test]
fn flags_survive_block_boundaries() {
    let copied = Copied::new(&[pbc_carry], Record::Count);
    for length in [1, 2, 5] {
        for value in [0, 1, u64::MAX] {
            let (mut left, right) = (vec![u64::MAX; length], vec![value; length]);
            let mut expected = left.clone();
            // SAFETY: the arguments are two arrays of `length` words, and `length`.
            let (carry, count, original) = unsafe {
                let arguments = [left.as_mut_ptr() as u64, right.as_ptr() as u64, length as u64];
                let (carry, count) = copied.call(pbc_carry, arguments);
                (carry, count, pbc_carry(expected.as_mut_ptr() as u64, arguments[1], arguments[2]))
            };
            assert_eq!((carry, left, count), (original, expected, 4 + 5 * length as u64));
        }
    }
    // Overflow, sign, zero, carry, parity and auxiliary carry. How many of the jumps are taken does not matter.
    let sums = [0, 1, 15, 127, 128, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1];
    let pairs: Vec<[u64; 3]> = sums.iter().flat_map(|one| sums.map(|other| [*one, other, 0])).collect();
    for function in [pbc_all_flags as Function, pbc_flags_over_dispatch] {
        let mut copied = Copied::new(&[function], Record::Coverage);
        // SAFETY: the functions accept any words.
        copied.settle(|copied| unsafe { copied.call(function, [1, 2, 3]) });
        for pair in &pairs {
            // SAFETY: the functions accept any words.
            let (result, original) = unsafe { (copied.call(function, *pair).0, function(pair[0], pair[1], pair[2])) };
            assert_eq!(result, original, "{pair:?}");
        }
    }
    let cases: Vec<_> = pairs.iter().map(|pair| (*pair, 8)).collect();
    check(pbc_flags_over_dispatch, &cases);
}

#[test]
fn registers_and_the_red_zone_survive_block_boundaries_and_dispatches() {
    let cases: Vec<[u64; 3]> = (0..64).map(|i: u64| [i, i * i + 3, i.wrapping_mul(0x1234_5678_9abc_def1)]).collect();
    for function in [pbc_registers as Function, pbc_red_zone] {
        for record in [Record::Count, Record::Coverage] {
            let mut copied = Copied::new(&[function], record);
            // SAFETY: the functions accept any words.
            copied.settle(|copied| cases.iter().map(|case| unsafe { copied.call(function, *case) }.0).max());
            for case in &cases {
                // SAFETY: the functions accept any words.
                let (result, original) =
                    unsafe { (copied.call(function, *case).0, function(case[0], case[1], case[2])) };
                assert_eq!(result, original, "{case:?}");
            }
        }
    }
}

#[test]
fn computed_jumps_calls_and_returns_are_counted() {
    check(pbc_computed_calls, &[([1, 2, 3], 10 + 3 * 3)]);
    check(pbc_switch, &[([0, 0, 0], 6), ([1, 0, 0], 6), ([2, 0, 0], 6), ([3, 0, 0], 6), ([4, 0, 0], 4)]);
    check(pbc_return_to_function, &[([1, 2, 3], 6)]);
    check(pbc_jump_back, &[([1, 2, 3], 3)]);
    check(pbc_calls_jump_back, &[([1, 2, 3], 8)]);
}

#[test]
fn a_target_outside_the_graph_is_reported_once() {
    let mut copied = Copied::new(&[pbc_switch], Record::Count);
    // SAFETY: the function accepts any words.
    unsafe {
        // The jump is counted, the two instructions at its target are not.
        assert_eq!(copied.call(pbc_switch, [2, 0, 0]), (12, 4));
        assert_eq!(copied.counter.misses().len(), 1);
        assert_eq!(copied.call(pbc_switch, [9, 0, 0]), (99, 4));
        assert_eq!(copied.counter.misses().len(), 1);
        assert_eq!(copied.settle(|copied| copied.call(pbc_switch, [2, 0, 0])), 1);
        assert_eq!(copied.call(pbc_switch, [2, 0, 0]), (12, 6));
        copied.settle(|copied| (0..5).map(|case| copied.call(pbc_switch, [case, 0, 0]).0).max());
        assert_eq!(copied.call(pbc_switch, [3, 0, 0]), (13, 6));
    }
}

#[test]
fn an_instruction_that_cannot_be_copied_is_reported_when_it_is_reached() {
    let copied = Copied::new(&[pbc_departs], Record::Count);
    // SAFETY: the function accepts any words.
    unsafe {
        assert_eq!(copied.call(pbc_departs, [5, 0, 0]), (5, 4));
        assert_eq!(copied.counter.departures(), BTreeSet::new());
    }
    // The copy can only be left there on a machine with transactions.
    if std::arch::is_x86_feature_detected!("rtm") {
        // SAFETY: the function accepts any words, and the machine supports the instruction.
        unsafe { copied.call(pbc_departs, [5, 1, 0]) };
        assert_eq!(copied.counter.departures().len(), 1);
    }
}

#[test]
fn each_thread_has_its_own_count() {
    let copied = &Copied::new(&[pbc_nested, pbc_factorial], Record::Count);
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            scope.spawn(move || {
                for round in 1..20_000 {
                    let (outer, inner) = (round % 7 + 1, thread);
                    // SAFETY: the functions accept positive numbers.
                    unsafe {
                        let expected = (outer * inner, 2 + outer * (3 + 3 * inner));
                        assert_eq!(copied.call(pbc_nested, [outer, inner, 0]), expected);
                        assert_eq!(copied.call(pbc_factorial, [thread, 0, 0]).1, 9 * (thread - 1) + 4);
                    }
                }
            });
        }
    });
}

#[test]
fn counts_add_up_across_counters() {
    let start = executed();
    for _ in 0..3 {
        let copied = Copied::new(&[pbc_straight], Record::Count);
        // SAFETY: the function accepts any words.
        unsafe { copied.call(pbc_straight, [1, 2, 3]) };
    }
    assert_eq!(executed() - start, 9);
}

#[test]
fn only_functions_of_the_graph_have_an_entry() {
    let copied = Copied::new(&[pbc_calls], Record::Count);
    assert!(copied.counter.entry(address(pbc_calls)).is_some());
    assert!(copied.counter.entry(address(pbc_straight)).is_some());
    assert_eq!(copied.counter.entry(address(pbc_calls) + 1), None);
    assert_eq!(copied.counter.entry(address(pbc_loop)), None);
}

#[test]
fn coverage_is_exactly_the_executed_blocks_and_edges() {
    let copied = Copied::new(&[pbc_diamond], Record::Coverage);
    let start = address(pbc_diamond);
    // cmp: 3 bytes, je: 2, mov: 5, jmp: 2, mov: 5, nop: 1, ret.
    let [cmp, je, one, jump, two, nop, ret] = [0, 3, 5, 10, 12, 17, 18].map(|offset| start + offset);
    // SAFETY: the function accepts any words.
    unsafe {
        assert_eq!((copied.counter.covered(), copied.counter.covered_edges()), (BTreeSet::new(), BTreeSet::new()));
        copied.call(pbc_diamond, [1, 1, 0]);
        assert_eq!(copied.counter.covered(), BTreeSet::from([cmp, je, two, nop, ret]));
        assert_eq!(copied.counter.covered_edges(), BTreeSet::from([(je, two), (two, nop)]));
        let mut equal = Coverage::default();
        copied.counter.coverage(&mut equal);

        copied.counter.clear_coverage();
        assert_eq!(copied.counter.covered(), BTreeSet::new());
        copied.call(pbc_diamond, [1, 2, 0]);
        assert_eq!(copied.counter.covered(), BTreeSet::from([cmp, je, one, jump, nop, ret]));
        assert_eq!(copied.counter.covered_edges(), BTreeSet::from([(je, one), (jump, nop)]));

        let mut both = Coverage::default();
        copied.counter.coverage(&mut both);
        assert_ne!(both, equal);
        both.merge(&equal);
        assert_eq!(copied.counter.instructions(&both), BTreeSet::from([cmp, je, one, jump, two, nop, ret]));
        assert_eq!(copied.counter.edges(&both).len(), 4);
    }
}

unsafe extern "C" {
    /// The C library's, which has one parameter and ignores the others.
    fn imaxabs(value: u64, _: u64, _: u64) -> u64;
}

#[test]
fn each_object_of_the_process_has_its_own_marks() {
    let copied = Copied::new(&[pbc_diamond, imaxabs], Record::Coverage);
    for function in [pbc_diamond as Function, imaxabs] {
        let alone = Copied::new(&[function], Record::Coverage);
        copied.counter.clear_coverage();
        // SAFETY: the functions accept any words.
        unsafe {
            copied.call(function, [1, 1, 0]);
            alone.call(function, [1, 1, 0]);
        }
        assert!(alone.counter.covered().contains(&address(function)));
        assert_eq!(copied.counter.covered(), alone.counter.covered());
    }
}

#[test]
fn critical_edges_have_their_own_marks() {
    // xor: 2 bytes, inc: 3, dec: 3, jnz: 2, ret.
    let copied = Copied::new(&[pbc_loop], Record::Coverage);
    let [xor, inc, jnz, ret] = [0, 2, 8, 10].map(|offset| address(pbc_loop) + offset);
    // SAFETY: the function accepts any positive number.
    unsafe { copied.call(pbc_loop, [1, 0, 0]) };
    assert_eq!(copied.counter.covered_edges(), BTreeSet::from([(xor, inc), (jnz, ret)]));
    // SAFETY: the function accepts any positive number.
    unsafe { copied.call(pbc_loop, [2, 0, 0]) };
    assert_eq!(copied.counter.covered_edges(), BTreeSet::from([(xor, inc), (jnz, inc), (jnz, ret)]));

    let copied = Copied::new(&[pbc_loop_instruction], Record::Coverage);
    // mov: 3 bytes, lea: 4, jrcxz: 2, loop: 2, ret.
    let [jrcxz, again, ret] = [7, 9, 11].map(|offset| address(pbc_loop_instruction) + offset);
    let edges = |rounds| {
        copied.counter.clear_coverage();
        // SAFETY: the function accepts any number.
        unsafe { copied.call(pbc_loop_instruction, [rounds, 0, 0]) };
        copied.counter.covered_edges()
    };
    assert_eq!(edges(0), BTreeSet::from([(jrcxz, ret)]));
    assert_eq!(edges(1), BTreeSet::from([(jrcxz, again), (again, ret)]));
    assert_eq!(edges(2), BTreeSet::from([(jrcxz, again), (again, again), (again, ret)]));
}

#[test]
fn a_jump_through_a_table_is_not_an_edge_of_a_branch() {
    // Only the table leads to its blocks. Entering them by a computed jump must not count as an edge.
    let mut copied = Copied::new(&[pbc_switch], Record::Coverage);
    // SAFETY: the function accepts any words.
    unsafe {
        copied.settle(|copied| (0..5).map(|case| copied.call(pbc_switch, [case, 0, 0]).0).max());
        copied.counter.clear_coverage();
        copied.call(pbc_switch, [1, 0, 0]);
        let ja = address(pbc_switch) + 4;
        assert_eq!(copied.counter.covered_edges(), BTreeSet::from([(ja, ja + 2)]));
    }
}

/// Compares, for each input, the count of the copy with the witness's, and the effects of the copy with the original's.
fn compare(function: Function, inputs: &[Vec<u64>], parameter: u64) {
    // Single-stepping takes nearly all of the time.
    let inputs = &inputs[..inputs.len() / Tiers { daily: 8, full: 1 }.now()];
    // Counts may depend on the address of the words, so it is the same in both processes.
    let place = RefCell::new([0_u64; 64]);
    let put = |input: &[u64]| {
        let mut place = place.borrow_mut();
        place[..input.len()].copy_from_slice(input);
        [place.as_mut_ptr() as u64, input.len() as u64, parameter]
    };
    // SAFETY: `put` returns an array with its length, and a word, which the subjects accept.
    let original = |input: &[u64]| unsafe {
        let [data, length, parameter] = put(input);
        (function(data, length, parameter), *place.borrow())
    };
    // What a subject initialises at its first call is not counted.
    original(&inputs[0]);
    let witnessed = witness::count(|| {
        for input in inputs {
            // SAFETY: `put` returns valid arguments of the subject.
            unsafe { witness::announced(function, put(input)) };
        }
    });
    let run = |copied: &Copied| -> Vec<u64> {
        let counted = inputs.iter().map(|input| {
            let expected = original(input);
            // SAFETY: `put` returns valid arguments of the subject.
            let (result, count) = unsafe { copied.call(function, put(input)) };
            assert_eq!((result, *place.borrow()), expected);
            count
        });
        counted.collect()
    };
    for record in [Record::Count, Record::Coverage] {
        let mut copied = Copied::new(&[function], record);
        copied.settle(run);
        assert_eq!(run(&copied), witnessed, "{record:?}");
        for (from, to) in copied.counter.covered_edges() {
            assert!(copied.graph.successors(from).any(|next| next == to));
        }
        let covered = copied.counter.covered();
        assert_eq!(covered.is_empty(), record == Record::Count);
        assert!(covered.iter().all(|address| copied.graph.node(*address).is_some()));
    }
    assert!(witnessed.iter().collect::<BTreeSet<_>>().len() > 5, "the counts do not depend on the inputs");
}

#[test]
fn sorting_agrees_with_the_witness() {
    compare(subjects::sort, &subjects::inputs(400, 24), 0);
}

#[test]
fn searching_a_tree_agrees_with_the_witness() {
    compare(subjects::search, &subjects::inputs(1000, 4), 0);
}

#[test]
fn hashing_agrees_with_the_witness() {
    compare(subjects::hash, &subjects::inputs(300, 8), 12345);
}

#[test]
fn copying_and_comparing_in_the_c_library_agrees_with_the_witness() {
    compare(subjects::move_and_compare, &subjects::inputs(1000, 60), 3);
}

#[test]
fn sorting_in_the_c_library_with_a_callback_agrees_with_the_witness() {
    compare(subjects::c_sort, &subjects::inputs(300, 24), 0);
}

#[test]
fn formatting_agrees_with_the_witness() {
    compare(subjects::format, &subjects::inputs(200, 4), 0);
}
