//! From a program's operations to each form of log and back, and every way in which a log can be damaged.

use super::*;
use crate::trace::{Cause, Event, Meta, Op, Origin, Reader, SlotTable, TickUnit, Totals, Writer};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Allocate {
        address: u64,
        size: u64,
    },
    Free {
        address: u64,
        size: u64,
    },
    /// In place.
    Resize {
        address: u64,
        old: u64,
        new: u64,
    },
}

/// A program on a heap with first fit, so that addresses are used again; derived from arbitrary numbers.
fn program(steps: &[(u8, u16, u16)], resizes: bool) -> Vec<Did> {
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    let room = |live: &BTreeMap<u64, u64>, size: u64| {
        let mut address = 0x2000_0000;
        for (start, bytes) in live {
            if address + size <= *start {
                break;
            }
            address = (start + bytes).next_multiple_of(8);
        }
        address
    };
    let mut done = Vec::new();
    for &(kind, size, choice) in steps {
        let size = u64::from(size % 300) + 1;
        let place = live.keys().copied().nth(usize::from(choice) % live.len().max(1));
        match (kind % 5, place) {
            (0 | 1, Some(address)) => {
                let size = live.remove(&address).unwrap();
                done.push(Did::Free { address, size });
            }
            (2, Some(address)) if resizes => {
                let old = live.remove(&address).unwrap();
                let is_free = live.range(address..).next().is_none_or(|(next, _)| address + size <= *next);
                let new = if is_free { size } else { old };
                live.insert(address, new);
                done.push(Did::Resize { address, old, new });
            }
            _ => {
                let address = room(&live, size);
                live.insert(address, size);
                done.push(Did::Allocate { address, size });
            }
        }
    }
    done
}

/// The operations that a trace of the program must have.
fn expected(program: &[Did], align: u32) -> Vec<Op> {
    let mut slots = SlotTable::new();
    let op = |did: &Did| match *did {
        Did::Allocate { address, size } => Op::Allocate { slot: slots.allocate(address).unwrap(), size, align },
        Did::Free { address, .. } => Op::Free { slot: slots.free(address).unwrap() },
        Did::Resize { address, new, .. } => Op::Reallocate { slot: slots.get(address).unwrap(), size: new, align },
    };
    program.iter().map(op).collect()
}

fn freertos(program: &[Did], numbered: bool) -> String {
    let mut text = String::new();
    for (number, did) in program.iter().enumerate() {
        let number = if numbered { format!(", {number}") } else { String::new() };
        let _ = match did {
            Did::Allocate { address, size } => writeln!(text, "traceMALLOC({address:#x}, {size}{number})"),
            Did::Free { address, size } => writeln!(text, "traceFREE({address:#x}, {size}{number})"),
            Did::Resize { .. } => unreachable!("FreeRTOS has none"),
        };
    }
    text
}

fn zephyr(program: &[Did]) -> String {
    let (mut text, mut number) = (String::new(), 0);
    let mut line = |name: &str, address: u64, size: u64| {
        let _ = writeln!(text, "{name}(0x20001a40, {address:#x}, {size}, {number})");
        number += 1;
    };
    for did in program {
        match *did {
            Did::Allocate { address, size } => line("heap_alloc", address, size),
            Did::Free { address, size } => line("heap_free", address, size),
            Did::Resize { address, old, new } => {
                line("heap_alloc", address, new);
                line("heap_free", address, old);
            }
        }
    }
    text
}

fn host(program: &[Did]) -> String {
    let mut text = String::from("Parse trace from 'heap.svdat'...\n");
    for did in program {
        let _ = match did {
            Did::Allocate { address, size } => {
                writeln!(
                    text,
                    "[0.002] HEAP: Allocated {size} bytes @ {address:#x} from task \"a\" on core 0 by:\n/m.c:4"
                )
            }
            Did::Free { address, .. } => {
                writeln!(text, "[0.003] HEAP: Freed bytes @ {address:#x} from task \"a\" on core 0 by:\n/m.c:5\n")
            }
            Did::Resize { .. } => unreachable!("it has none"),
        };
    }
    text
}

/// A dump, in the form of different versions.
fn dump(program: &[Did], version: u8) -> String {
    let mut records: Vec<(u64, u64, bool)> = Vec::new();
    for did in program {
        match *did {
            Did::Allocate { address, size } => records.push((address, size, false)),
            Did::Free { address, .. } => {
                records.iter_mut().rev().find(|record| record.0 == address).unwrap().2 = true;
            }
            Did::Resize { .. } => unreachable!("it is a free and an allocation"),
        }
    }
    let count = records.len();
    let frees = records.iter().filter(|record| record.2).count();
    let live: u64 = records.iter().filter(|record| !record.2).map(|record| record.1).sum();
    let mut text = match version {
        0 => format!("{count} allocations trace (9999 entry buffer)\n"),
        _ => format!("====== Heap Trace: {count} records (9999 capacity) ======\n"),
    };
    for (place, (address, size, freed)) in records.iter().enumerate() {
        let cycles = 0xffff_fff0_u32.wrapping_add(place as u32 * 400) & !3;
        let memory = if version == 0 { "" } else { ", Internal" };
        let _ = write!(text, "{size:6} bytes (@ {address:#x}{memory}) allocated CPU 0 ccount 0x{cycles:08x}");
        text.push_str(match (version, freed) {
            (2, true) => " freed\n",
            (2, false) => "\n",
            (_, true) => " caller 0x400d276d:0x400d27c1\n0x400d276d: leak at ./blink.c:27\n\nfreed by 0x400d27ff:0x0\n",
            (_, false) => " caller 0x400d276d:0x400d27c1\n",
        });
    }
    let _ = match version {
        0 => writeln!(
            text,
            "{live} bytes alive in trace ({}/{count} allocations)\ntotal allocations {count} total frees {frees}",
            count - frees
        ),
        _ => writeln!(
            text,
            "====== Heap Trace Summary ======\nMode: Heap Trace All\n{live} bytes alive in trace ({}/{count} \
             allocations)\nrecords: {count} (9999 capacity, {count} high water mark)\ntotal allocations: \
             {count}\ntotal frees: {frees}\n================================",
            count - frees
        ),
    };
    text
}

fn meta() -> Meta {
    Meta {
        name: "test".into(),
        about: "made by a test".into(),
        origin: Origin::Program { command: vec!["test".into()] },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    }
}

/// Imports a part and reads the trace back.
fn traced(log: &Log, part: usize, heap: Option<usize>) -> (Vec<Event>, Findings, Totals) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &meta()).unwrap();
    let findings = convert(log, &log.parts[part], heap, &mut writer).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    while reader.next_chunk(&mut chunk).unwrap() {
        events.append(&mut chunk);
    }
    (events, findings, reader.totals().unwrap().clone())
}

fn ops(events: &[Event]) -> Vec<Op> {
    events.iter().map(|event| event.op).collect()
}

fn parsed(text: &str) -> Log {
    Log::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

/// A log without anything to report.
fn flawless(text: &str, program: &[Did]) {
    let log = parsed(text);
    assert_eq!(log.parts.len(), 1);
    let (events, findings, _) = traced(&log, 0, None);
    assert_eq!(ops(&events), expected(program, log.format.align()), "{text}");
    assert_eq!(findings, Findings::default());
    assert_eq!((log.parts[0].damaged, incomplete(&log, &log.parts[0], &findings)), (0, None));
}

fn steps() -> impl Strategy<Value = Vec<(u8, u16, u16)>> {
    prop::collection::vec(any::<(u8, u16, u16)>(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_gives_the_operations_of_the_program(steps in steps(), numbered: bool) {
        let plain = program(&steps, false);
        flawless(&freertos(&plain, numbered), &plain);
        // Other text, before, after and between, and the line ends of a terminal.
        let noisy = freertos(&plain, numbered).replace("trace", "\x1b[0;32mI (17) heap: trace").replace('\n', "\x1b[0m\r\nhello\r\n");
        flawless(&noisy, &plain);
        flawless(&host(&plain), &plain);
        let resized = program(&steps, true);
        flawless(&zephyr(&resized), &resized);
    }

    #[test]
    fn a_dump_gives_the_allocations_and_frees_as_late_as_possible(steps in steps(), version in 0..3_u8) {
        let program = program(&steps, false);
        prop_assume!(program.iter().any(|did| matches!(did, Did::Allocate { .. })));
        let log = parsed(&dump(&program, version));
        let (events, findings, totals) = traced(&log, 0, None);
        prop_assert_eq!(incomplete(&log, &log.parts[0], &findings), None);
        let sizes = |op: &Op| match op { Op::Allocate { size, .. } => Some(*size), _ => None };
        let truth = expected(&program, 4);
        let imported = ops(&events);
        prop_assert_eq!(
            imported.iter().filter_map(sizes).collect::<Vec<_>>(),
            truth.iter().filter_map(sizes).collect::<Vec<_>>()
        );
        let frees = |ops: &[Op]| ops.iter().filter(|op| matches!(op, Op::Free { .. })).count() as u64;
        prop_assert_eq!((frees(&imported), findings.late_frees), (frees(&truth), frees(&truth)));
        // Live memory before each allocation is never less than in the program.
        let live = |ops: &[Op]| {
            let (mut blocks, mut bytes, mut curve) = (BTreeMap::new(), 0, Vec::new());
            for op in ops {
                match *op {
                    Op::Allocate { slot, size, .. } => {
                        bytes += size;
                        blocks.insert(slot, size);
                        curve.push(bytes);
                    }
                    Op::Free { slot } => bytes -= blocks.remove(&slot).unwrap(),
                    Op::Reallocate { .. } => unreachable!(),
                }
            }
            (curve, bytes)
        };
        let ((imported, imported_end), (truth, truth_end)) = (live(&imported), live(&truth));
        prop_assert!(imported.iter().zip(&truth).all(|(imported, truth)| imported >= truth));
        prop_assert_eq!(imported_end, truth_end);
        // One record in 400 cycles, across the end of the counter.
        prop_assert_eq!(events.last().unwrap().tick, 400 * (totals.allocations - 1));
    }

    #[test]
    fn lost_lines_are_counted_by_their_numbers(steps in steps(), lost in prop::collection::vec(any::<bool>(), 120)) {
        let program = program(&steps, false);
        let text = freertos(&program, true);
        let kept: Vec<&str> = text.lines().zip(&lost).filter(|(_, lost)| !**lost).map(|(line, _)| line).collect();
        prop_assume!(!kept.is_empty());
        let last = kept.last().and_then(|line| text.lines().position(|each| each == *line)).unwrap();
        let log = parsed(&kept.join("\n"));
        prop_assert_eq!(log.parts.len(), 1);
        let missing = (last + 1 - kept.len()) as u64;
        prop_assert_eq!((log.parts[0].missing, log.parts[0].damaged), (Some(missing), 0));
        let (events, findings, _) = traced(&log, 0, None);
        // Each line is an event or is counted, and each event is a line or an added free.
        let left_out = findings.unknown_frees.count + findings.repeated_frees.count;
        let added = findings.missed_frees.count;
        prop_assert_eq!(events.len() as u64 + left_out, kept.len() as u64 + added);
        let cause = incomplete(&log, &log.parts[0], &findings).map(|it| (it.cause, it.missing));
        prop_assert_eq!(cause, (missing > 0).then_some((Cause::LogLines, Some(missing))));
        if missing == 0 {
            prop_assert_eq!(left_out + added, 0);
        }
    }

    #[test]
    fn lost_characters_give_a_trace_and_a_count(
        steps in steps(),
        lost in prop::collection::vec(any::<prop::sample::Index>(), 1..40),
        form in 0..5_u8,
    ) {
        let program = program(&steps, form == 1);
        let mut text = match form {
            0 => freertos(&program, true),
            1 => zephyr(&program),
            2 => host(&program),
            _ => dump(&program, form - 2),
        };
        for index in lost {
            if !text.is_empty() {
                text.remove(index.index(text.len()));
            }
        }
        let Ok(log) = Log::parse(text.as_bytes()) else { return Ok(()) };
        let mut entries = 0;
        for part in 0..log.parts.len() {
            // The reader refuses a trace that breaks a rule.
            let (events, findings, _) = traced(&log, part, None);
            let Findings { refused, null_frees, unknown_frees, repeated_frees, missed_frees, late_frees, .. } = findings;
            let resizes = events.iter().filter(|event| matches!(event.op, Op::Reallocate { .. })).count() as u64;
            let counted = refused.count + null_frees.count + unknown_frees.count + repeated_frees.count;
            let lines = log.parts[part].entries.len() as u64;
            prop_assert_eq!(
                events.len() as u64 + resizes + counted,
                lines + missed_frees.count + late_frees
            );
            entries += lines + log.parts[part].damaged;
        }
        // Every beginning of an operation that survived is an entry or damaged.
        let beginnings = match form {
            0 => text.matches("traceMALLOC").count() + text.matches("traceFREE").count(),
            1 => text.matches("heap_alloc").count() + text.matches("heap_free").count(),
            2 => text.lines().filter(|line| line.contains("HEAP: Allocated") || line.contains("HEAP: Freed")).count(),
            _ => text.matches("(@ ").count(),
        };
        prop_assert!(entries >= beginnings as u64, "{entries} of {beginnings}:\n{text}");
    }

    #[test]
    fn anything_is_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pieces in prop::collection::vec(0..18_usize, 0..60),
    ) {
        let _ = Log::parse(&bytes);
        const PIECES: [&str; 18] = [
            "traceMALLOC", "traceFREE", "heap_alloc", "(", ")", ", ", "0x20", "ffffffffffffffff", "9223372036854775807",
            "0", "\n", " bytes (@ ", " allocated CPU ", " ccount 0x", "freed by ", "(nil)", "HEAP: Allocated ", "ü",
        ];
        let text: String = pieces.iter().map(|piece| PIECES[*piece]).collect();
        if let Ok(log) = Log::parse(text.as_bytes()) {
            for part in 0..log.parts.len() {
                traced(&log, part, None);
            }
        }
    }
}

#[test]
fn lines_that_contradict_others_are_counted_where_they_first_do() {
    let text = "boot\n\
        traceMALLOC(0x20001000, 104, 0)\n\
        [12:00] <inf> traceMALLOC(0x20001080, 40, 1)\n\
        traceMALLOC(0x20001100, 8, 2)traceFREE(0x20001000, 104, 3)\n\
        traceMALLOC(0x200010\n\
        traceMALLOC((nil), 0, 5)\n\
        traceFREE(0x20001100, 9, 6)\n\
        traceFREE(0x20001100, 8, 7)\n\
        traceFREE(0x20009999, 8, 8)\n\
        traceMALLOC(20001078, 16, 9)\n\
        traceMALLOC(0x30000000, 0, 10)\n\
        notatraceFREE(0x20001078, 16)\n";
    let log = parsed(text);
    assert_eq!((log.format, log.parts.len(), log.other_lines), (Format::Freertos, 1, 2));
    let part = &log.parts[0];
    assert_eq!((part.first_line, part.last_line, part.damaged, part.first_damaged), (2, 11, 1, Some(5)));
    assert_eq!(part.missing, Some(1), "that of the damaged line");
    let (events, findings, totals) = traced(&log, 0, None);
    let once = |first_line| Noted { count: 1, first_line };
    let expected = Findings {
        refused: once(6),
        zero_sized: once(11),
        null_frees: Noted::default(),
        unknown_frees: once(9),
        repeated_frees: once(8),
        missed_frees: once(10),
        other_sizes: once(7),
        late_frees: 0,
        other_heaps: 0,
    };
    assert_eq!(findings, expected);
    assert_eq!((totals.allocations, totals.frees, events.len()), (5, 3, 8));
    assert_eq!(totals.peak_live_bytes, 104 + 40 + 8);
}

#[test]
fn a_free_of_null_lacks_no_block() {
    let log = parsed("traceMALLOC(0x2000, 8)\ntraceFREE((nil), 0)\ntraceFREE(0x0, 0)\ntraceFREE(0x2000, 8)\n");
    let (events, findings, _) = traced(&log, 0, None);
    let expected = Findings { null_frees: Noted { count: 2, first_line: 2 }, ..Findings::default() };
    assert_eq!((events.len(), incomplete(&log, &log.parts[0], &findings)), (2, None));
    assert_eq!(findings, expected);
}

#[test]
fn a_block_at_the_end_of_the_address_space_is_one_of_its_own() {
    let last = "traceMALLOC(0xffffffffffffffff, 8)\n";
    let log = parsed(&format!("traceMALLOC(0xfffffffffffffff8, 7)\n{last}{last}traceFREE(0xfffffffffffffff8, 7)\n"));
    let (events, findings, totals) = traced(&log, 0, None);
    assert_eq!((totals.allocations, totals.frees, events.len()), (3, 2, 5));
    assert_eq!(findings, Findings { missed_frees: Noted { count: 1, first_line: 3 }, ..Findings::default() });
}

#[test]
fn each_start_of_the_board_is_a_part() {
    let line = |number: u32| format!("traceMALLOC({:#x}, 8, {number})\n", 0x1000 + 16 * (number % 4096));
    let run = |numbers: &[u32]| numbers.iter().map(|number| line(*number)).collect::<String>();
    let log = parsed(&run(&[0, 1, 2, 3, 0, 1, 2, 0, 2, 3]));
    let parts: Vec<_> = log.parts.iter().map(|part| (part.first_line, part.entries.len(), part.missing)).collect();
    assert_eq!(parts, [(1, 4, Some(0)), (5, 3, Some(0)), (8, 3, Some(1))]);
    assert_eq!(log.longest(), 0);
    assert_eq!(parsed(&run(&[0, 1, 0, 1])).longest(), 1, "of equals, the last");
    // A digit that is lost, or damaged, is no start, and no gap.
    for (numbers, damaged) in [
        (&[8, 9, 1, 11, 12][..], 3),
        (&[8, 9, 0, 11, 12], 3),
        (&[8, 9, 910, 11, 12], 3),
        (&[8, 9, 9, 11, 12], 3),
        (&[808, 9, 10, 11, 12], 1),
    ] {
        let log = parsed(&run(numbers));
        let part = &log.parts[0];
        assert_eq!((log.parts.len(), part.entries.len()), (1, 4), "{numbers:?}");
        assert_eq!((part.damaged, part.first_damaged), (1, Some(damaged)), "{numbers:?}");
        let before = if damaged == 1 { 9 } else { 8 };
        assert_eq!(part.missing, Some(before + u64::from(damaged != 1)), "{numbers:?}");
    }
    // No number follows a damaged line at the end of a run.
    for (text, missing) in [
        (run(&[0, 1]) + "traceFREE(0x1000, 8", vec![Some(1)]),
        (run(&[0, 1, 7]), vec![Some(5)]),
        (run(&[0, 1, 1]), vec![Some(1)]),
        (run(&[0, 1]) + "traceFREE(0x1000, 8)\n", vec![Some(1)]),
        (run(&[0, 1]) + "traceFREE(0x10\n" + &run(&[0, 1, 2]), vec![Some(1), Some(0)]),
        (run(&[0]) + "traceFREE(0x10\n" + &run(&[2, 3]), vec![Some(1)]),
    ] {
        let log = parsed(&text);
        let found: Vec<_> = log.parts.iter().map(|part| part.missing).collect();
        assert_eq!(found, missing, "{text}");
        let lacks = incomplete(&log, &log.parts[0], &Findings::default());
        assert_eq!(lacks.and_then(|it| it.missing), missing[0], "{text}");
    }
    // The log begins late, and the numbers wrap around.
    let log = parsed(&run(&[u32::MAX - 1, u32::MAX, 0, 1]));
    assert_eq!((log.parts.len(), log.parts[0].entries.len()), (1, 4));
}

#[test]
fn the_heaps_of_a_log_are_told_apart() {
    let text = "heap_alloc(0x2000, 0x3000, 8, 0)\nheap_alloc(0x2800, 0x4000, 16, 1)\nk_heap_alloc(0x2000, 0x1, 1)\n\
        heap_free(0x2000, 0x3000, 8, 2)\nheap_alloc(0x2800, 0x4000, 24, 3)\nheap_free(0x2000, 0x9000, 8, 4)\n\
        heap_free(0x2800, 0x4000, 16, 5)\n";
    let log = parsed(text);
    assert_eq!(log.heaps, ["0x2000", "0x2800"]);
    let (events, findings, totals) = traced(&log, 0, None);
    assert_eq!((events.len(), totals.allocations, findings.other_heaps), (6, 3, 0), "not adjacent: no reallocation");
    assert_eq!((findings.missed_frees.count, findings.other_sizes.count), (1, 1));
    let (events, findings, totals) = traced(&log, 0, Some(1));
    assert_eq!((events.len(), findings.other_heaps), (2, 3));
    assert_eq!((totals.allocations, totals.reallocations, findings.missed_frees.count), (1, 1, 0));
}

#[test]
fn a_dump_states_what_it_lacks() {
    let begin = "====== Heap Trace: 2 records (2 capacity) ======\n";
    let record =
        |address: &str| format!("    84 bytes (@ {address}, Internal) allocated CPU 0 ccount 0x042ac374 caller \n");
    let end = |mode: &str, bytes: &str, allocations: u32, frees: u32| {
        format!(
            "====== Heap Trace Summary ======\nMode: Heap Trace {mode}\n{bytes} in trace (2/2 allocations)\ntotal \
             allocations: {allocations}\ntotal frees: {frees}\n"
        )
    };
    let both = record("0x3fca94d8") + &record("0x3fca9530");
    let overflow = "(NB: Internal Buffer has overflowed, so trace data is incomplete.)\n";
    for (text, cause, missing) in [
        (format!("{begin}{both}{}", end("All", "168 bytes alive", 2, 0)), None, None),
        (format!("{begin}{both}{}", end("All", "168 bytes alive", 2, 5)), None, None),
        (format!("{begin}{both}{}{overflow}", end("All", "168 bytes alive", 9, 1)), Some(Cause::Overwritten), None),
        (format!("{begin}{both}{}", end("Leaks", "168 bytes 'leaked'", 7, 5)), Some(Cause::LiveOnly), Some(10)),
        (format!("{begin}{both}"), Some(Cause::LogLines), None),
        (
            format!("{begin}{}{}", record("0x3fca94d8"), end("All", "168 bytes alive", 2, 0)),
            Some(Cause::LogLines),
            None,
        ),
        (format!("{begin}{both}{}", end("Leaks", "168 bytes 'leaked'", 2, 0)), None, None),
        (format!("{begin}{}", record("0x3fca94d8")), Some(Cause::LogLines), None),
    ] {
        let log = parsed(&text);
        let (_, findings, _) = traced(&log, 0, None);
        let lacks = incomplete(&log, &log.parts[0], &findings);
        assert_eq!((lacks.as_ref().map(|it| it.cause), lacks.and_then(|it| it.missing)), (cause, missing), "{text}");
    }
    // A line that says "freed by" belongs to the record before it, and to no other.
    let cut = format!(
        "{begin}{}    18 bytes (@ 0x3fcb9a38, Internal) allocated CPU 0Guru\nfreed by 0x1:0x0\n",
        record("0x3fca94d8")
    );
    let log = parsed(&cut);
    assert_eq!((log.parts[0].entries[0].is_freed(), log.parts[0].damaged), (false, 2));
    // Each dump is a part, and one of nothing is empty.
    let log = parsed(&format!("{begin}{both}{}{begin}{}", end("All", "168 bytes alive", 2, 0), record("0x3fca94d8")));
    assert_eq!(log.parts.iter().map(|part| part.entries.len()).collect::<Vec<_>>(), [2, 1]);
    let log = parsed("====== Heap Trace: 0 records (2 capacity) ======\n");
    assert!(traced(&log, 0, None).0.is_empty());
}

#[test]
fn two_cycle_counters_make_one_clock() {
    let line = |processor: u32, cycles: u32, place: u32| {
        let address = 0x3000 + 64 * place;
        format!("8 bytes (@ {address:#x}) allocated CPU {processor} ccount 0x{cycles:08x} caller 0x4:0x5\n")
    };
    let readings = [(0, 0xffff_ff00), (1, 0x1000), (0, 0x0000_0100), (0, 0x0000_00f0), (1, 0x1800), (0, 0x0000_0200)];
    let text: String = readings.iter().zip(0..).map(|(&(cpu, cycles), place)| line(cpu, cycles, place)).collect();
    let log = parsed(&format!("6 allocations trace (100 entry buffer)\n{text}"));
    let (events, ..) = traced(&log, 0, None);
    let ticks: Vec<u64> = events.iter().map(|event| event.tick).collect();
    assert_eq!(ticks, [0, 0, 0x200, 0x200, 0x800, 0x800]);
}

#[test]
fn what_is_no_log_is_refused_with_what_it_is() {
    let refused = |bytes: &[u8]| Log::parse(bytes).expect_err("no log").to_string();
    assert_eq!(refused(b""), "the log is empty");
    assert_eq!(refused(b"\n \r\n"), "the log is empty");
    assert!(refused(b"hello\nworld\n").starts_with("none of its 2 lines of text is of a known form"));
    assert!(refused(b"hello\n").starts_with("its one line of text is not of a known form"));
    assert!(refused(b"hello\ntraceMALLOC(0x20\n").ends_with("line 2 begins like one, and cannot be read"));
    assert!(refused(b"\x7fELF\0\0").contains("rtalloc recover"));
    assert!(refused(b"\x89rtrace\n\x01").contains("rtalloc inspect"));
    let both = refused(b"traceMALLOC(0x20, 8)\n8 bytes (@ 0x30) allocated CPU 0 ccount 0x00000001 caller \n");
    assert!(both.contains("FreeRTOS (first in line 1) and of ESP-IDF's heap_trace_dump (first in line 2)"), "{both}");
    // As PowerShell redirects it.
    let wide: Vec<u8> = "\u{feff}traceMALLOC(0x20, 8)\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(Log::parse(&wide).expect("a log").parts[0].entries.len(), 1);
}
