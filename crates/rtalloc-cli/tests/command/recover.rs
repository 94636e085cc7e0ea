//! `rtalloc recover` as a person meets it: the memory of a heap in a file, in every condition.

use super::{rtalloc_in, stderr, stdout};
use rtalloc::adapt::{Traced, TracedConfig};
use rtalloc::{HalfFit, RegionAllocator, Tlsf};
use std::mem::MaybeUninit;

/// Memory for a heap, initialised, so that all of it can be dumped.
fn memory() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::new(0); 1 << 18]
}

/// A whole region, as a debugger dumps it.
fn region(memory: &[MaybeUninit<u8>]) -> Vec<u8> {
    // SAFETY: `memory` initialised every byte, and heaps write initialised bytes only.
    memory.iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

/// A program: a queue of blocks of many sizes, some of which grow, under a clock.
fn work<'r, A: RegionAllocator<'r>>(heap: &mut Traced<'r, A>, rounds: u32) {
    let mut queue = std::collections::VecDeque::new();
    for round in 0..rounds {
        heap.mark(1000 * round);
        let size = 1 + (round as usize * 7919) % 1500;
        queue.push_back(heap.allocate_bytes(size, 16).expect("room"));
        if round % 5 == 0 {
            let block = queue.pop_back().expect("one");
            // SAFETY: the block is live.
            queue.push_back(unsafe { heap.reallocate_bytes(block, size + 400, 16) }.expect("room"));
        }
        if queue.len() > 20 {
            let block = queue.pop_front().expect("one");
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
        }
    }
}

fn config<C: Default>(records: usize) -> TracedConfig<C> {
    TracedConfig { records, heap: C::default() }
}

#[test]
fn a_dump_becomes_a_trace_and_the_same_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut memory = memory();
    let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config(2000)).unwrap();
    work(&mut heap, 500);
    assert!(heap.allocate_bytes(1 << 20, 8).is_err());
    std::fs::write(at.join("ring.bin"), heap.ring()).unwrap();
    std::fs::write(at.join("region.bin"), region(&memory)).unwrap();

    let said = stdout(rtalloc_in(at, "recover ring.bin --output it.rtrace --replay --summary it.json").success());
    for expected in [
        "ring.bin: a flight recorder of tlsf at byte 0\n",
        "  records     1,581 of room for 2,000; complete: from the heap's first operation on\n",
        "  operations  500 allocations, 100 reallocations, 480 frees; at most ",
        "  refused     1 request larger than the heap\n",
        "  marks       500\n",
        "  trace       it.rtrace: 1,080 events\n",
        "  replay      601 of 601 results are identical, including every address, on tlsf\n",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(at.join("it.json")).unwrap()).unwrap();
    assert_eq!((&summary["allocator"], &summary["is_complete"]), (&"tlsf".into(), &true.into()));
    assert_eq!((&summary["replayed"]["same"], &summary["totals"]["events"]), (&601.into(), &1080.into()));

    // The whole region shows the same, wherever in it the recorder is.
    let whole = stdout(rtalloc_in(at, "recover region.bin -o whole.rtrace").success());
    assert!(whole.contains("complete: from the heap's first operation on"), "{whole}");
    let inspected = stdout(rtalloc_in(at, "inspect it.rtrace").success());
    assert!(inspected.contains("rtalloc recover ring.bin"), "{inspected}");
    assert!(inspected.contains("the last 1,581 records of a heap of "), "{inspected}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(rtalloc_in(at, "inspect --json whole.rtrace").success())).unwrap();
    assert_eq!(json["totals"]["frees"], 480);
    // It is a trace as any other.
    rtalloc_in(at, "run it.rtrace --on tlsf,half-fit --probe space").success();
}

#[test]
fn overwritten_records_are_reported_and_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut memory = memory();
    let mut heap: Traced<'_, HalfFit<'_>> = Traced::new(&mut memory, config(100)).unwrap();
    work(&mut heap, 500);
    std::fs::write(at.join("ring.bin"), heap.ring()).unwrap();
    let said = stdout(rtalloc_in(at, "recover ring.bin -o last.rtrace --last 2").success());
    for expected in [
        "a flight recorder of half-fit at byte 0\n",
        "  records     100 of room for 100; 1,480 older ones were overwritten\n",
        ": frees of blocks from before the ring begins\n",
        "\nThe last 2 records; offsets from 0x",
        "  number 1578, allocate ",
        "  number 1579, free the block at 0x",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in:\n{said}");
    }
    rtalloc_in(at, "inspect last.rtrace").success();
    let refused = stderr(rtalloc_in(at, "recover ring.bin --replay").failure());
    assert!(refused.contains("cannot replay: the ring does not begin with the heap's first operation"), "{refused}");
}

#[test]
fn another_address_fails() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut memory = memory();
    let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config(100)).unwrap();
    for _ in 0..10 {
        assert!(heap.allocate_bytes(100, 8).is_ok());
    }
    let mut ring = heap.ring().to_vec();
    // The address of the sixth record.
    let address = 128 + 5 * 4 * size_of::<usize>() + size_of::<usize>();
    ring[address] ^= 0x10;
    std::fs::write(at.join("ring.bin"), ring).unwrap();
    let said = stdout(rtalloc_in(at, "recover ring.bin --replay").failure());
    assert!(said.contains("5 results are identical on tlsf; the first difference:"), "{said}");
    assert!(said.contains("recorded: number 5, allocate 100 bytes at alignment 8: the block at 0x"), "{said}");
}

#[test]
fn a_heap_that_stopped_in_an_operation_says_in_which() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut memory = memory();
    let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config(100)).unwrap();
    let block = heap.allocate_bytes(100, 8).unwrap();
    // Firmware would trap here.
    rtalloc::hook::set_misuse_hook(Some(|misuse| panic!("{misuse}")));
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the block is live; then, not what the contract asks, it is free, which the heap sees.
        unsafe {
            heap.deallocate(block);
            heap.deallocate(block);
        }
    }));
    assert!(stopped.is_err());
    std::fs::write(at.join("region.bin"), region(&memory)).unwrap();
    let said = stdout(rtalloc_in(at, "recover region.bin").success());
    assert!(
        said.contains("  UNDER WAY   the machine stopped in the middle of number 2, free the block at 0x"),
        "{said}"
    );
    assert!(said.contains("  operations  1 allocation, 0 reallocations, 1 free; "), "{said}");
}

#[test]
fn several_recorders_are_listed_and_one_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut dump = Vec::new();
    for rounds in [3, 30] {
        let mut memory = memory();
        let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config(50)).unwrap();
        work(&mut heap, rounds);
        dump.extend(vec![0; 100]);
        dump.extend(heap.ring());
    }
    std::fs::write(at.join("core"), dump).unwrap();
    let said = stdout(rtalloc_in(at, "recover core").success());
    let second = 200 + 128 + 51 * 4 * size_of::<usize>();
    for expected in
        ["core: several flight recorders; choose one with --at\n", "  100         tlsf, 7 records, region of "]
    {
        assert!(said.contains(expected), "{said}");
    }
    let refused = stderr(rtalloc_in(at, "recover core -o it.rtrace").failure());
    assert!(
        refused.contains(&format!("choose one with --at: 100 (tlsf, 7 records), {second} (tlsf, 50 records)")),
        "{refused}"
    );
    rtalloc_in(at, &format!("recover core --at {second} -o it.rtrace")).success();
    let said = stdout(rtalloc_in(at, "recover core --at 0x64 --replay").success());
    assert!(said.contains("4 of 4 results are identical"), "{said}");
    let refused = stderr(rtalloc_in(at, "recover core --at 7").failure());
    assert!(refused.contains("no flight recorder at byte 7; there is one at 100 (tlsf, 7 records)"), "{refused}");
    let refused = stderr(rtalloc_in(at, "recover core --at 7up").failure());
    assert!(refused.contains("give an offset that `rtalloc recover DUMP` prints"), "{refused}");
}

#[test]
fn what_is_no_dump_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut memory = memory();
    let mut heap: Traced<'_, Tlsf<'_>> = Traced::new(&mut memory, config(50)).unwrap();
    work(&mut heap, 3);
    let ring = heap.ring();
    let mut damaged = ring.to_vec();
    damaged[60] ^= 1;
    let mut later = ring.to_vec();
    later[16] = 2;
    let cases: [(&str, &[u8], &str); 5] = [
        ("empty", b"", "no flight recorder in these 0 bytes; dump the whole region of a `Traced` heap"),
        ("text", b"a text", "no flight recorder in these 6 bytes"),
        (
            "short",
            &ring[..ring.len() - 1],
            "the flight recorder at byte 0 cannot be read: the dump ends 1 byte too early",
        ),
        ("damaged", &damaged, "the flight recorder at byte 0 cannot be read: its head is damaged"),
        ("later", &later, "its layout is version 2, not 1; read it with the rtalloc that wrote it"),
    ];
    for (name, bytes, expected) in cases {
        std::fs::write(at.join(name), bytes).unwrap();
        let said = stderr(rtalloc_in(at, &format!("recover {name} -o out.rtrace --replay")).failure());
        assert!(said.starts_with("rtalloc: ") && said.contains(expected), "{name}: {said}");
        assert!(!at.join("out.rtrace").exists(), "{name}");
    }
    let said = stderr(rtalloc_in(at, "recover nowhere").failure());
    assert!(said.starts_with("rtalloc: cannot open nowhere: No such file"), "{said}");
    let said = stderr(rtalloc_in(at, "recover .").failure());
    assert!(said.contains(". is a directory; name the file of the dump"), "{said}");
}
