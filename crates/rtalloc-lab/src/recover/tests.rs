//! From a heap to its dump and back, and every way in which a dump can be invalid.

use super::*;
use crate::trace::{Event, Meta, Op, Origin, Reader, TickUnit, Writer};
use proptest::prelude::*;
use rtalloc::adapt::traced::layout::{self, HEAD_BYTES, at};
use rtalloc::adapt::{Traced, TracedConfig};
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::WithStats;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, Bitframe, FastFit, HalfFit, MultiRegion, QuickFit, Reaps,
    RegionAllocator, SingleRegion, Tlsf, WeightedBuddy,
};
use rtalloc_subjects::Region;
use std::io::Cursor;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;

/// Leaked memory for a heap, which begins `misalignment` bytes after a page boundary.
fn memory(len_bytes: usize, misalignment: usize) -> &'static mut [MaybeUninit<u8>] {
    let region = Box::leak(Box::new(Region::new(len_bytes + misalignment, false).expect("memory")));
    // SAFETY: the mapping is longer, zero-initialised, never unmapped, and not shared.
    unsafe { std::slice::from_raw_parts_mut(region.start().add(misalignment).cast(), len_bytes) }
}

fn traced<A: RegionAllocator<'static>>(len_bytes: usize, records: usize) -> Traced<'static, A> {
    let config = TracedConfig { records, heap: A::Config::default() };
    Traced::new(memory(len_bytes, 1234), config).expect("a region that is large enough")
}

/// The first `at_most` events of a trace that ships with the project.
fn shipped(name: &str, at_most: usize) -> Vec<Event> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name);
    let mut reader = Reader::open(path).expect("a trace of the project");
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    while events.len() < at_most && reader.next_chunk(&mut chunk).expect("whole") {
        events.append(&mut chunk);
    }
    events.truncate(at_most);
    events
}

/// Performs events on a heap, which may refuse some; returns the number of refusals.
fn perform<A: RegionAllocator<'static>>(heap: &mut A, events: &[Event]) -> usize {
    let mut blocks: Vec<Option<NonNull<u8>>> = Vec::new();
    let mut refused = 0;
    for event in events {
        match event.op {
            Op::Allocate { slot, size, align } => {
                let block = heap.allocate_bytes(size as usize, align as usize).ok();
                refused += usize::from(block.is_none());
                blocks.resize(blocks.len().max(slot as usize + 1), None);
                blocks[slot as usize] = block;
            }
            Op::Reallocate { slot, size, align } => {
                if let Some(block) = blocks[slot as usize] {
                    // SAFETY: the block is live.
                    match unsafe { heap.reallocate_bytes(block, size as usize, align as usize) } {
                        Ok(block) => blocks[slot as usize] = Some(block),
                        Err(_) => refused += 1,
                    }
                }
            }
            Op::Free { slot } => {
                if let Some(block) = blocks[slot as usize].take() {
                    // SAFETY: the block is live, and forgotten here.
                    unsafe { heap.deallocate(block) };
                }
            }
        }
    }
    refused
}

fn only(dump: &[u8]) -> Result<Ring, RecoverError> {
    let found = find(&mut Cursor::new(dump)).expect("readable");
    choose(found, None, dump.len() as u64).map(|(_, ring)| ring)
}

fn meta() -> Meta {
    let origin = Origin::Program { command: vec!["test".into()] };
    Meta {
        name: "test".into(),
        about: "test".into(),
        origin,
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    }
}

/// The trace of a ring.
fn trace(ring: &Ring, ticks: Ticks) -> (Vec<Event>, Findings) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &meta()).expect("written");
    let findings = convert(ring, ticks, &mut writer).expect("converted");
    writer.finish().expect("finished");
    let mut reader = Reader::new(file.as_slice()).expect("a trace");
    let (mut events, mut chunk) = (Vec::new(), Vec::new());
    while reader.next_chunk(&mut chunk).expect("whole") {
        events.append(&mut chunk);
    }
    (events, findings)
}

fn ops(events: &[Event]) -> Vec<Op> {
    events.iter().map(|event| event.op).collect()
}

#[test]
fn a_real_program_is_recovered_operation_by_operation_with_the_same_addresses() {
    for (name, at_most) in
        [("lame-decode.rtrace", usize::MAX), ("espeak-speech.rtrace", usize::MAX), ("sqlite-shop.rtrace", 30_000)]
    {
        let events = shipped(name, at_most);
        let mut heap = traced::<Tlsf<'static>>(64 << 20, events.len());
        assert_eq!(perform(&mut heap, &events), 0, "{name}: the heap is too small for this test");
        let ring = only(heap.ring()).expect("a ring");
        assert!(ring.is_complete());
        assert_eq!((ring.count, ring.name.as_str(), ring.bits), (events.len() as u64, "tlsf", 64));
        let (recovered, findings) = trace(&ring, Ticks::Marks);
        assert_eq!(findings, Findings::default(), "{name}");
        assert!(ops(&recovered) == ops(&events), "{name}: other operations");
        assert!(recovered.iter().enumerate().all(|(index, event)| event.tick == index as u64));
        let replayed = replay(&ring).expect("the laboratory's own");
        let asked = events.iter().filter(|event| !matches!(event.op, Op::Free { .. })).count() as u64;
        assert_eq!((replayed.compared, replayed.same, replayed.difference), (asked, asked, None), "{name}");
    }
}

/// Heaps so small that requests are refused, of any allocator, are reproduced with the same addresses and refusals.
fn comes_back<A: RegionAllocator<'static>>() {
    let name = A::CONTRACT.name;
    for len_bytes in [200 << 10, (1 << 20) + 712] {
        let events = crate::replay::tests::random_events(4000, 7);
        let mut heap = traced::<A>(len_bytes, 4000);
        let refused = perform(&mut heap, &events);
        let ring = only(heap.ring()).expect("a ring");
        let replayed = replay(&ring).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(replayed.difference, None, "{name}");
        assert_eq!(replayed.compared, replayed.same);
        let (_, findings) = trace(&ring, Ticks::Records);
        let reported: u64 = findings.refused.iter().map(|refused| refused.count).sum();
        assert_eq!(reported, refused as u64, "{name}");
        assert!(replayed.compared > 1000, "{name}: {replayed:?}");
    }
}

#[test]
fn every_family_is_replayed_with_the_same_addresses() {
    comes_back::<Tlsf<'static>>();
    comes_back::<Tlsf<'static, 5, Exact>>();
    comes_back::<HalfFit<'static>>();
    comes_back::<AddressOrderedFirstFit<'static>>();
    comes_back::<BestFit<'static>>();
    comes_back::<FastFit<'static>>();
    comes_back::<QuickFit<'static>>();
    comes_back::<BinaryBuddy<'static>>();
    comes_back::<WeightedBuddy<'static>>();
    comes_back::<Bitframe<'static>>();
    comes_back::<SingleRegion<'static>>();
    comes_back::<Reaps<'static>>();
}

#[test]
fn a_heap_with_statistics_is_the_one_without_behind_them() {
    comes_back::<Tlsf<'static, 5, RoundUp, Offset32, WithStats>>();
    comes_back::<AddressOrderedFirstFit<'static, Offset32, WithStats>>();
}

#[test]
fn another_heap_of_the_name_is_refused_with_the_reason() {
    let mut heap = traced::<Tlsf<'static, 2>>(1 << 20, 100);
    heap.mark(1);
    let error = replay(&only(heap.ring()).expect("a ring")).expect_err("not the laboratory's").to_string();
    assert!(error.contains("does not begin like the laboratory's tlsf"), "{error}");
    let mut sketch = Sketch::of(heap.ring());
    sketch.name = "unknown-fit".into();
    let error = replay(&only(&sketch.bytes()).expect("a ring")).expect_err("unknown").to_string();
    assert!(error.starts_with("the laboratory has no allocator \"unknown-fit\""), "{error}");
}

#[test]
fn a_wrapped_ring_is_a_trace_of_the_last_operations() {
    let events = crate::replay::tests::random_events(3000, 3);
    for records in [1, 2, 100, 2999] {
        let mut heap = traced::<Tlsf<'static>>(4 << 20, records);
        assert_eq!(perform(&mut heap, &events), 0);
        let ring = only(heap.ring()).expect("a ring");
        assert_eq!((ring.entries.len(), ring.count), (records, 3000));
        assert_eq!(ring.overwritten(), 3000 - records as u64);
        assert_eq!(ring.entries[0].number, 3000 - records as u64);
        // Operations of the last events on blocks from before, by their slots.
        let (mut young, mut old_frees, mut old_reallocations) = (std::collections::HashSet::new(), 0, 0);
        for event in &events[3000 - records..] {
            match event.op {
                Op::Allocate { slot, .. } => drop(young.insert(slot)),
                Op::Free { slot } => old_frees += u64::from(!young.remove(&slot)),
                Op::Reallocate { slot, .. } => old_reallocations += u64::from(young.insert(slot)),
            }
        }
        let (recovered, findings) = trace(&ring, Ticks::Marks);
        assert_eq!((findings.older_frees, findings.older_reallocations), (old_frees, old_reallocations));
        assert_eq!(findings.misuses + findings.missed_frees, 0);
        assert_eq!(recovered.len() as u64, records as u64 - old_frees);
        let error = replay(&ring).expect_err("the beginning is missing").to_string();
        assert!(error.contains(&format!("({} were overwritten since)", 3000 - records)), "{error}");
    }
}

#[test]
fn misuse_is_reported_and_replayed_as_the_heap_handled_it() {
    let mut heap = traced::<Tlsf<'static>>(1 << 16, 100);
    let [first, second] = [100, 200].map(|size| heap.allocate_bytes(size, 8).expect("room"));
    // SAFETY: both are live. What follows violates the contract on purpose: the second one is free, which the heap
    // detects.
    unsafe {
        heap.deallocate(second);
        heap.deallocate(second);
        assert!(heap.reallocate_bytes(second, 5, 1).is_err());
        heap.deallocate(first);
    }
    assert!(heap.allocate_bytes(64, 64).is_ok());
    let ring = only(heap.ring()).expect("a ring");
    let (recovered, findings) = trace(&ring, Ticks::Marks);
    assert_eq!(findings.misuses, 2);
    let misuse = findings.first_misuse.expect("one");
    assert_eq!((misuse.number, misuse.kind), (3, Kind::Deallocate));
    assert_eq!(findings.refused, [Refused { outcome: Outcome::Misused, count: 1 }]);
    assert_eq!(recovered.len(), 5);
    let replayed = replay(&ring).expect("the laboratory's own");
    assert_eq!((replayed.compared, replayed.same, replayed.misuses), (3, 3, 2));
}

#[test]
fn marks_are_a_clock_that_may_run_over() {
    let mut heap = traced::<Tlsf<'static>>(1 << 16, 100);
    for mark in [u32::MAX - 1, u32::MAX, 5, 5, 100] {
        heap.mark(mark);
        assert!(heap.allocate_bytes(8, 8).is_ok());
    }
    let ring = only(heap.ring()).expect("a ring");
    let ticks = |ticks| trace(&ring, ticks).0.iter().map(|event| event.tick).collect::<Vec<u64>>();
    let last = u64::from(u32::MAX);
    assert_eq!(ticks(Ticks::Marks), [last - 1, last, last + 6, last + 6, last + 101]);
    assert_eq!(ticks(Ticks::Records), [1, 3, 5, 7, 9]);
    assert_eq!(trace(&ring, Ticks::Marks).1.marks, 5);
}

#[test]
fn a_replay_ends_where_another_region_was_added() {
    let mut heap = traced::<Tlsf<'static>>(1 << 17, 100);
    assert!(heap.allocate_bytes(8, 8).is_ok());
    // After the heap's own region, or too far away for its tags.
    let added = heap.add_region(memory(4096, 0)).is_ok();
    assert!(heap.allocate_bytes(8, 8).is_ok());
    let ring = only(heap.ring()).expect("a ring");
    let replayed = replay(&ring).expect("the laboratory's own");
    let expected = if added { (1, Some(1)) } else { (2, None) };
    assert_eq!((replayed.same, replayed.region_added), expected);
    let mut sketch = Sketch::of(heap.ring());
    sketch.set(1, [what(layout::kind::ADD_REGION, layout::outcome::DONE, 0, 1), 1 << 20, 4096, 0]);
    let ring = only(&sketch.bytes()).expect("a ring");
    assert_eq!(replay(&ring).expect("the laboratory's own").region_added, Some(1));
    assert_eq!(trace(&ring, Ticks::Marks).1.regions, 1);
}

#[test]
fn another_address_is_found() {
    let mut heap = traced::<Tlsf<'static>>(1 << 16, 100);
    for _ in 0..10 {
        assert!(heap.allocate_bytes(100, 8).is_ok());
    }
    let mut sketch = Sketch::of(heap.ring());
    sketch.records[6][1] += 16;
    let ring = only(&sketch.bytes()).expect("a ring");
    let replayed = replay(&ring).expect("the laboratory's own");
    assert_eq!((replayed.compared, replayed.same), (7, 6));
    let difference = replayed.difference.expect("one");
    assert_eq!(difference.recorded.number, 6);
    assert_eq!(difference.now, Some(difference.recorded.address - 16));
}

/// The first word of a record.
fn what(kind: usize, outcome: usize, align_log2: usize, number: u64) -> u64 {
    let low = kind | outcome << layout::OUTCOME_SHIFT | align_log2 << layout::ALIGN_SHIFT;
    low as u64 | number << layout::NUMBER_SHIFT
}

/// A ring to be encoded, for any machine.
#[derive(Clone, Debug)]
struct Sketch {
    word_bytes: usize,
    is_big_endian: bool,
    name: String,
    length: u64,
    first_block: u64,
    fresh: u64,
    base: u64,
    next: u64,
    count: u64,
    /// By place.
    records: Vec<[u64; 4]>,
}

impl Sketch {
    /// Decodes a ring of this machine.
    fn of(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
        let places = word(at::PLACES) as usize;
        let records = (0..places).map(|place| [0, 8, 16, 24].map(|word_at| word(HEAD_BYTES + 32 * place + word_at)));
        Sketch {
            word_bytes: 8,
            is_big_endian: false,
            name: "tlsf".into(),
            length: word(at::LENGTH),
            first_block: word(at::FIRST_BLOCK),
            fresh: word(at::FRESH),
            base: word(at::BASE),
            next: word(at::NEXT),
            count: word(at::COUNT),
            records: records.collect(),
        }
    }

    /// A ring with these records, the first of which are the oldest.
    fn with(word_bytes: usize, is_big_endian: bool, places: usize, records: &[[u64; 4]]) -> Self {
        let mut sketch = Sketch {
            word_bytes,
            is_big_endian,
            name: "tlsf".into(),
            length: 4096,
            first_block: 512,
            fresh: 1,
            base: 0x2000_0100,
            next: 0,
            count: 0,
            records: vec![[0; 4]; places],
        };
        for record in records {
            sketch.set(sketch.count, *record);
            sketch.count += 1;
            sketch.next = sketch.count % places as u64;
        }
        sketch
    }

    fn set(&mut self, number: u64, record: [u64; 4]) {
        let place = number as usize % self.records.len();
        self.records[place] = record;
    }

    fn bytes(&self) -> Vec<u8> {
        let put = |bytes: &mut Vec<u8>, value: u64, width: usize| {
            let little = value.to_le_bytes()[..width].to_vec();
            bytes.extend(if self.is_big_endian { little.into_iter().rev().collect() } else { little });
        };
        let word = |bytes: &mut Vec<u8>, value: u64| {
            put(bytes, value, self.word_bytes);
            bytes.extend(vec![0; 8 - self.word_bytes]);
        };
        let mut bytes = layout::MAGIC.to_vec();
        bytes.extend([layout::VERSION, self.word_bytes as u8]);
        put(&mut bytes, layout::BYTE_ORDER.into(), 2);
        put(&mut bytes, HEAD_BYTES as u64, 4);
        let mut name = self.name.clone().into_bytes();
        name.resize(layout::NAME_BYTES, 0);
        bytes.extend(name);
        word(&mut bytes, self.length);
        word(&mut bytes, self.first_block);
        put(&mut bytes, self.fresh, 8);
        word(&mut bytes, self.base);
        word(&mut bytes, self.records.len() as u64);
        word(&mut bytes, self.base + 64);
        let checksum = layout::hash(&bytes);
        put(&mut bytes, checksum, 8);
        word(&mut bytes, self.next);
        put(&mut bytes, self.count, 8);
        assert_eq!(bytes.len(), HEAD_BYTES);
        for value in self.records.iter().flatten() {
            put(&mut bytes, *value, self.word_bytes);
        }
        bytes
    }
}

/// Allocate 24 bytes at 0x210, aligned to 16; free them; a refused request; numbered from 0.
fn three_records() -> [[u64; 4]; 3] {
    use layout::{kind, outcome};
    [
        [what(kind::ALLOCATE, outcome::DONE, 4, 0), 0x210, 24, 0],
        [what(kind::DEALLOCATE, outcome::DONE, 0, 1), 0x210, 0, 0],
        [what(kind::ALLOCATE, outcome::EXHAUSTED, 3, 2), 0, 5000, 0],
    ]
}

#[test]
fn a_ring_of_this_machine_equals_its_sketch() {
    let mut heap = traced::<Tlsf<'static>>(1 << 16, 7);
    for _ in 0..20 {
        assert!(heap.allocate_bytes(8, 8).is_ok());
    }
    assert_eq!(only(&Sketch::of(heap.ring()).bytes()).expect("a ring"), only(heap.ring()).expect("a ring"));
}

#[test]
fn rings_of_every_machine_are_read() {
    for (word_bytes, is_big_endian) in [(4, false), (4, true), (8, false), (8, true)] {
        let ring = only(&Sketch::with(word_bytes, is_big_endian, 5, &three_records()).bytes()).expect("a ring");
        assert_eq!((ring.bits, ring.is_big_endian), (8 * word_bytes as u32, is_big_endian));
        assert_eq!((ring.base, ring.length, ring.capacity, ring.count), (0x2000_0100, 4096, 4, 3));
        assert!(ring.is_complete() && ring.under_way.is_none());
        let (events, findings) = trace(&ring, Ticks::Marks);
        let expected = [Op::Allocate { slot: 0, size: 24, align: 16 }, Op::Free { slot: 0 }];
        assert_eq!(ops(&events), expected);
        assert_eq!(findings.refused, [Refused { outcome: Outcome::Exhausted, count: 1 }]);
        match replay(&ring).expect_err("no such heap") {
            RecoverError::OtherMachine { bits } => assert_eq!((bits, word_bytes), (32, 4)),
            RecoverError::OtherHeap { .. } => assert_eq!(word_bytes, 8),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn the_operation_under_way_is_reported_and_an_old_record_is_not_one() {
    use layout::{kind, outcome};
    for word_bytes in [4, 8] {
        let mut sketch = Sketch::with(word_bytes, false, 3, &three_records());
        let under_way = what(kind::REALLOCATE, outcome::UNDER_WAY, 3, 3);
        sketch.set(3, [under_way, 0, 77, 0x400]);
        let ring = only(&sketch.bytes()).expect("a ring");
        let entry = ring.under_way.expect("under way");
        assert_eq!((entry.number, entry.kind, entry.size, entry.from), (3, Kind::Reallocate, 77, 0x400));
        // The oldest record was overwritten by it.
        assert_eq!(ring.entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!((ring.overwritten(), ring.damaged), (1, 0));
        // Of an earlier lap, or done and not yet counted.
        for first in [what(kind::REALLOCATE, outcome::UNDER_WAY, 3, 0), what(kind::REALLOCATE, outcome::DONE, 3, 3)] {
            sketch.set(3, [first, 0x400, 77, 0x400]);
            assert_eq!(only(&sketch.bytes()).expect("a ring").under_way, None);
        }
        // Between the last two stores the next place is one ahead.
        sketch.next = (sketch.next + 1) % 3;
        assert_eq!(only(&sketch.bytes()).expect("a ring").entries.len(), 2);
        sketch.next = (sketch.next + 1) % 3;
        let error = only(&sketch.bytes()).expect_err("two further").to_string();
        assert!(error.contains("contradict each other"), "{error}");
    }
}

#[test]
fn a_damaged_record_is_omitted_and_reported() {
    use layout::{kind, outcome};
    let good = three_records();
    let bad = [
        [0, 0, 0, 0],
        [what(9, outcome::DONE, 0, 1), 0x210, 0, 0],
        [what(kind::DEALLOCATE, 10, 0, 1), 0x210, 0, 0],
        [what(kind::DEALLOCATE, outcome::EXHAUSTED, 0, 1), 0x210, 0, 0],
        [what(kind::DEALLOCATE, outcome::UNDER_WAY, 0, 1), 0x210, 0, 0],
        [what(kind::DEALLOCATE, outcome::DONE, 0, 2), 0x210, 0, 0],
        [what(kind::ALLOCATE, outcome::DONE, 64, 1), 0x210, 8, 0],
        [what(kind::ALLOCATE, outcome::DONE, 4, 1), 0x210, 0, 0],
    ];
    for record in bad {
        for word_bytes in [4, 8] {
            let mut sketch = Sketch::with(word_bytes, false, 10, &good);
            sketch.set(1, record);
            let ring = only(&sketch.bytes()).expect("a ring");
            assert_eq!((ring.damaged, ring.first_damaged, ring.entries.len()), (1, Some(1), 2), "{record:x?}");
            let error = replay(&ring).expect_err("not complete").to_string();
            assert!(error.contains("1 record damaged"), "{error}");
            // Allocated again, although its free cannot be read.
            sketch.set(2, [what(kind::ALLOCATE, outcome::DONE, 4, 2), 0x210, 8, 0]);
            let (events, findings) = trace(&only(&sketch.bytes()).expect("a ring"), Ticks::Marks);
            assert_eq!((events.len(), findings.missed_frees), (3, 1));
        }
    }
    let mut sketch = Sketch::with(8, false, 10, &good);
    sketch.records = vec![[u64::MAX; 4]; 10];
    let error = only(&sketch.bytes()).expect_err("nothing left").to_string();
    assert!(error.ends_with("all records of its ring (3) are damaged: they were overwritten"), "{error}");
}

#[test]
fn a_ring_is_found_wherever_it_begins() {
    let ring = Sketch::with(4, true, 5, &three_records()).bytes();
    // Before the end of the search window, at it, and across it.
    let window = 1 << 20;
    for offset in [0, 1, 63, window - 16, window - 15, window - 7, window - 1, window, window + 1, 2 * window - 30] {
        let mut dump = vec![layout::MAGIC[0]; offset];
        dump.extend(&ring);
        dump.extend(vec![0x5A; 100]);
        let found = find(&mut Cursor::new(&dump)).expect("readable");
        assert_eq!(found.iter().map(|found| found.offset).collect::<Vec<_>>(), [offset as u64]);
        assert!(found[0].ring.is_ok());
    }
}

#[test]
fn one_of_several_is_chosen() {
    let ring = Sketch::with(8, false, 5, &three_records()).bytes();
    let mut dump = layout::MAGIC.to_vec();
    dump.extend([0; 200]);
    dump.extend(&ring);
    // The signature alone, such as a program's constant, does not prevent the only ring from being read.
    assert!(only(&dump).is_ok());
    dump.extend(&ring);
    let error = only(&dump).expect_err("two").to_string();
    let expected = format!("choose one with --at: 216 (tlsf, 3 records), {} (tlsf, 3 records)", 216 + ring.len());
    assert!(error.contains(&expected), "{error}");
    let chosen = |at: u64| choose(find(&mut Cursor::new(&dump)).expect("readable"), Some(at), dump.len() as u64);
    assert_eq!(chosen(216).expect("there").0, 216);
    assert!(matches!(chosen(0), Err(RecoverError::Unreadable { offset: 0, problem: Problem::Version(0) })));
    let error = chosen(5).expect_err("not there").to_string();
    assert!(error.starts_with("no flight recorder at byte 5; there is one at 216 "), "{error}");
}

#[test]
fn no_truncated_ring_is_accepted() {
    let ring = Sketch::with(4, false, 5, &three_records()).bytes();
    for length in 0..ring.len() {
        match only(&ring[..length]).expect_err("cut off") {
            RecoverError::Nothing { bytes } => assert!(length < 16 && bytes == length as u64),
            RecoverError::Unreadable { problem: Problem::Truncated { needed, missing }, .. } => {
                assert_eq!(needed - missing, length as u64);
            }
            other => panic!("{length} bytes: {other}"),
        }
    }
    assert!(only(&ring).is_ok());
}

#[test]
fn every_changed_byte_of_the_head_is_noticed() {
    let good = Sketch::with(8, false, 5, &three_records()).bytes();
    let whole = only(&good).expect("a ring");
    for position in 0..good.len() {
        for mask in [1, 0x80, 0xFF] {
            let mut bytes = good.clone();
            bytes[position] ^= mask;
            match only(&bytes) {
                Err(_) => assert!(position < HEAD_BYTES),
                // Numbers of records that are consistent with the place, or a record that is damaged or has other
                // numbers.
                Ok(ring) => {
                    assert!(position >= at::NEXT, "byte {position}");
                    let unused = HEAD_BYTES + 3 * 32;
                    assert!(position >= unused || ring != whole, "byte {position}");
                }
            }
        }
    }
}

/// Exercises everything that is found: nothing may panic.
fn use_all(dump: &[u8]) {
    for found in find(&mut Cursor::new(dump)).expect("readable") {
        let Ok(ring) = found.ring else { continue };
        let mut writer = Writer::new(std::io::sink(), &meta()).expect("written");
        for ticks in [Ticks::Marks, Ticks::Records] {
            let _ = convert(&ring, ticks, &mut writer);
        }
        let _ = replay(&ring);
    }
}

/// Records that are likely to be accepted.
fn any_record() -> impl Strategy<Value = [u64; 4]> {
    let offset = || prop_oneof![4 => (0_u64..40).prop_map(|granule| 0x2D0 + 16 * granule), 1 => any::<u64>()];
    let size = prop_oneof![4 => 0_u64..600, 1 => any::<u64>()];
    (0_usize..8, prop_oneof![3 => Just(1_usize), 1 => 0_usize..9], 0_usize..66, offset(), size, offset())
        .prop_map(|(kind, outcome, align, address, size, from)| [what(kind, outcome, align, 0), address, size, from])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(
        rest in prop::collection::vec(any::<u8>(), 0..400),
        good in 0_usize..=HEAD_BYTES,
        repeat in 1_usize..3,
    ) {
        let head = Sketch::with(8, false, 5, &three_records()).bytes();
        let mut dump = head[..good].to_vec();
        dump.extend(rest);
        use_all(&dump.repeat(repeat));
    }

    #[test]
    fn any_head_with_a_good_checksum_is_survived(
        (word_bytes, is_big_endian) in prop_oneof![Just((4, false)), Just((4, true)), Just((8, false)), Just((8, true))],
        numbers in prop::array::uniform6(prop_oneof![any::<u64>(), 0_u64..10, Just(u64::MAX)]),
        places in 0_usize..6,
    ) {
        let [length, first_block, fresh, base, next, count] = numbers;
        let mut sketch = Sketch::with(word_bytes, is_big_endian, 5, &three_records());
        sketch.records.truncate(places);
        // A base that the sketch can calculate with.
        let base = base >> 1;
        // Limited to what a test may map and touch.
        let length = length % (1 << 20);
        use_all(&Sketch { length, first_block, fresh, base, next, count, ..sketch }.bytes());
    }

    #[test]
    fn any_records_are_survived(records in prop::collection::vec(any_record(), 1..60), places in 2_usize..70) {
        let heap = traced::<Tlsf<'static>>(1 << 14, 1);
        let like = Sketch::of(heap.ring());
        let numbered: Vec<[u64; 4]> = records
            .iter()
            .enumerate()
            .map(|(number, &[what, address, size, from])| {
                [what | (number as u64) << layout::NUMBER_SHIFT, address, size, from]
            })
            .collect();
        let sketch = Sketch::with(8, false, places, &numbered);
        let Sketch { length, first_block, fresh, base, .. } = like;
        use_all(&Sketch { length, first_block, fresh, base, ..sketch }.bytes());
    }
}
