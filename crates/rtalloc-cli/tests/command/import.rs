//! `rtalloc import` as a person meets it: logs of boards in every condition.

use super::{rtalloc_in, stderr, stdout};
use std::path::Path;

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

const UART: &str = "I (312) boot: ready
traceMALLOC(0x20001000, 104, 0)
traceMALLOC(0x20001070, 40, 1)
traceFREE(0x20001000, 104, 2)
traceMALLOC(0x200010a0, 5
traceFREE(0x20001070, 40, 4)
traceMALLOC(0x0, 0, 5)
";

#[test]
fn a_log_becomes_a_trace_and_everything_left_out_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(at, "uart.log", UART);
    let said = stdout(rtalloc_in(at, "import uart.log -o it.rtrace --summary it.json").success());
    let expected = "uart.log: a log of FreeRTOS
  lines       2 to 7
  other text  1 line
  operations  2 allocations, 0 reallocations, 2 frees; at most 144 B in 2 blocks live at once
  MISSING     1 operation, by the numbers of the lines
  DAMAGED     line 5, left out
  refused     1 request that returned null, left out; in line 7
  trace       it.rtrace: 4 events
";
    assert_eq!(said, expected);
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(at.join("it.json")).unwrap()).unwrap();
    assert_eq!((&summary["format"], &summary["missing_by_number"]), (&"freertos".into(), &1.into()));
    assert_eq!((&summary["totals"]["events"], &summary["incomplete"]["cause"]), (&4.into(), &"log-lines".into()));
    assert_eq!(summary["findings"]["refused"]["first_line"], 7);

    let inspected = stdout(rtalloc_in(at, "inspect it.rtrace").success());
    assert!(inspected.starts_with("uart: lines 2 to 7 of a log of FreeRTOS\n"), "{inspected}");
    assert!(inspected.contains("recorded from     rtalloc import uart.log\n"), "{inspected}");
    let incomplete = "INCOMPLETE        the log is not complete; 1 operation is missing\n";
    assert!(inspected.contains(incomplete), "{inspected}");
    rtalloc_in(at, "run it.rtrace --on tlsf --probe space").success();
}

#[test]
fn a_part_and_a_heap_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let line = |heap: u32, number: u32| format!("heap_alloc({heap:#x}, {:#x}, 28, {number})\n", heap + 64 * number);
    let text: String =
        [(0x1000, 0), (0x5000, 1), (0x1000, 2), (0x1000, 0), (0x1000, 1)].map(|(heap, n)| line(heap, n)).concat();
    write(at, "z.log", &text);
    let said = stdout(rtalloc_in(at, "import z.log -o z.rtrace").success());
    for expected in [
        "  parts       2, which are starts of the program; --part chooses\n",
        "              1: lines 1 to 3, 3 operations, imported\n",
        "              2: lines 4 to 5, 2 operations\n",
        "  heaps       0x1000 (2 operations), 0x5000 (1 operation); all in one trace, --heap imports one\n",
        "  numbers     complete: no line is missing\n",
        "  trace       z.rtrace: 3 events\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    let said = stdout(rtalloc_in(at, "import z.log -o z.rtrace --heap 0x5000").success());
    assert!(said.contains("; imported: 0x5000\n") && said.contains("z.rtrace: 1 event\n"), "{said}");
    let said = stdout(rtalloc_in(at, "import z.log -o z.rtrace --part 2").success());
    assert!(
        said.contains("2: lines 4 to 5, 2 operations, imported\n") && said.contains("z.rtrace: 2 events\n"),
        "{said}"
    );
    for part in ["0", "3"] {
        let refused = stderr(rtalloc_in(at, &format!("import z.log -o z.rtrace --part {part}")).failure());
        assert_eq!(refused, format!("rtalloc: --part {part}: z.log has parts 1 to 2\n"));
    }
    write(at, "uart.log", UART);
    let refused =
        |arguments: &str| stderr(rtalloc_in(at, &format!("import uart.log -o u.rtrace {arguments}")).failure());
    assert_eq!(refused("--part 2"), "rtalloc: --part 2: uart.log has 1 part: leave --part out\n");
    assert_eq!(
        refused("--heap 0x1"),
        "rtalloc: --heap 0x1: a log of FreeRTOS has no names of heaps: leave --heap out\n"
    );
}

#[test]
fn one_is_singular_and_equal_lifetimes_are_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let log = "traceMALLOC(0x2000, 8, 0)
traceFREE(0x2000, 8, 1)
traceFREE(0x2000, 8, 2)
traceFREE(0x9000, 8, 3)
traceFREE((nil), 0, 4)
traceMALLOC(0x3000, 8, 5)
traceMALLOC(0x3000, 8, 6)
";
    write(at, "one.log", log);
    let said = stdout(rtalloc_in(at, "import one.log -o one.rtrace").success());
    for expected in [
        "  left out    1 free of a null address, which C permits; in line 5\n",
        "  left out    1 free of an unknown block, allocated before the log or in a lost line; in line 4\n",
        "  left out    1 free of a block that was free already; in line 3\n",
        "  added       1 free of a block in whose memory another block was allocated; in line 7\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    write(at, "two.log", &log.replace("traceFREE((nil), 0, 4)", "traceFREE(0xa000, 0, 4)"));
    let said = stdout(rtalloc_in(at, "import two.log -o two.rtrace").success());
    assert!(
        said.contains(
            "  left out    2 frees of unknown blocks, allocated before the log or in a lost line; the first in line 4\n"
        ),
        "{said}"
    );

    write(at, "plain.log", "traceMALLOC(0x2000, 8)\ntraceMALLOC(0x3000, 8)\ntraceFREE(0x2000, 8)\n");
    rtalloc_in(at, "import plain.log -o plain.rtrace").success();
    let lifetimes = |trace: &str| {
        let said = stdout(rtalloc_in(at, &format!("inspect {trace}.rtrace")).success());
        let (_, lifetimes) = said.split_once("Lifetimes").unwrap();
        ["in operations\n", "in ticks\n"].map(|title| lifetimes.matches(title).count())
    };
    assert_eq!(lifetimes("plain"), [1, 0]);
    // A line is missing between the two: the number of the line counts it.
    write(at, "gap.log", "traceMALLOC(0x2000, 8, 0)\ntraceMALLOC(0x3000, 8, 1)\ntraceFREE(0x2000, 8, 3)\n");
    rtalloc_in(at, "import gap.log -o gap.rtrace").success();
    assert_eq!(lifetimes("gap"), [1, 1]);
}

#[test]
fn a_dump_of_esp_idf_states_what_its_lines_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let text = "I (123) app: start
====== Heap Trace: 4 records (100 capacity) ======
    84 bytes (@ 0x3fca94d8, Internal) allocated CPU 0 ccount 0xf42ac374 caller 0x40376183:0x4037da9c
--- 0x40376183: heap_caps_malloc at C:/heap_caps.c:84

freed by 0x403839e4:0x42008096
    12 bytes (@ 0x3fca9530, Internal) allocated CPU 1 ccount 0x042ae93c caller 0x40376183:0x4037da9c
    84 bytes (@ 0x3fca94d8, Internal) allocated CPU 0 ccount 0x042ae93c caller 0x40376183:0x4037da9c
freed by 0x403839e4:0x42008096
    18 bytes (@ 0x3fcb9a38, Internal) allocated CPU 0Guru Meditation Error:
====== Heap Trace Summary ======
Mode: Heap Trace All
30 bytes alive in trace (2/4 allocations)
records: 4 (100 capacity, 4 high water mark)
total allocations: 4
total frees: 2
================================
";
    write(at, "esp.log", text);
    let said = stdout(rtalloc_in(at, "import esp.log -o esp.rtrace").success());
    for expected in [
        "esp.log: a log of ESP-IDF's heap_trace_dump\n",
        "  operations  3 allocations, 0 reallocations, 2 frees; at most 96 B in 2 blocks live at once\n",
        "  mode        all allocations\n",
        "  records     3 of 4; the others are lost, or left out by heap_trace_dump_caps\n",
        "  DIFFERENT   the dump states 30 live bytes, its lines have 12: some are lost\n",
        "  late        2 frees at an unknown time: in the trace as late as the addresses permit\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    let leaks =
        text.replace("freed by", "other").replace("Trace All", "Trace Leaks").replace("alive in", "'leaked' in");
    write(at, "leaks.log", &leaks);
    let said = stdout(rtalloc_in(at, "import leaks.log -o leaks.rtrace").success());
    assert!(said.contains("  mode        leaks: only the blocks that were still live, no program\n"), "{said}");
    let inspected = stdout(rtalloc_in(at, "inspect leaks.rtrace").success());
    assert!(
        inspected.contains("INCOMPLETE        the log holds only the blocks that were still live; 2 operations"),
        "{inspected}"
    );
}

#[test]
fn what_is_no_log_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(at, "empty.log", "");
    write(at, "text.log", "hello\nworld\n");
    write(at, "line.log", "hello\n");
    write(at, "cut.log", "hello\ntraceMALLOC(0x2000");
    write(at, "both.log", &format!("{UART}heap_alloc(0x1, 0x2000, 8)\n"));
    write(at, "uart.log", UART);
    rtalloc_in(at, "import uart.log -o uart.rtrace").success();
    std::fs::copy("/bin/true", at.join("binary.log")).unwrap();
    for (log, expected) in [
        ("empty.log", "the log is empty"),
        ("text.log", "none of its 2 lines of text is of a known form"),
        ("line.log", "its one line of text is not of a known form"),
        ("cut.log", "line 2 begins like one, and cannot be read"),
        ("both.log", "it has lines of FreeRTOS (first in line 2) and of Zephyr (first in line 8)"),
        ("binary.log", "`rtalloc recover` reads a dump of memory"),
        ("uart.rtrace", "it is a trace already"),
        ("nowhere.log", "No such file"),
        (".", "Is a directory"),
    ] {
        let refused = stderr(rtalloc_in(at, &format!("import {log} -o new.rtrace")).failure());
        assert!(refused.starts_with(&format!("rtalloc: cannot import {log}: ")), "{refused}");
        assert!(refused.contains(expected) && refused.lines().count() == 1, "{refused}");
        assert!(!at.join("new.rtrace").exists(), "{log}");
    }
    let refused = stderr(rtalloc_in(at, "inspect text.log").failure());
    assert!(refused.contains("not an rtalloc trace") && refused.contains("`rtalloc import`"), "{refused}");
}
