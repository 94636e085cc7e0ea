//! The whole format: round trips, and the detection of damage.

use super::*;
use crate::trace::format::{CHUNK_HEAD_BYTES, MAX_HEADER_BYTES};
use proptest::prelude::*;
use std::io::Read;

fn meta() -> Meta {
    Meta {
        name: "test".into(),
        about: "made by a test".into(),
        origin: Origin::Model {
            model: "test".into(),
            seed: 1,
            random: "none".into(),
            parameters: [("mallocs".to_string(), "3".to_string())].into(),
        },
        tick_unit: TickUnit::Logical,
        created_unix_seconds: None,
        incomplete: None,
    }
}

fn write(events: &[Event]) -> (Vec<u8>, Totals) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &meta()).unwrap();
    for event in events {
        writer.push(event).unwrap();
    }
    let totals = writer.finish().unwrap();
    (file, totals)
}

fn read(file: impl Read) -> Result<(Meta, Vec<Event>, Totals), TraceError> {
    let mut reader = Reader::new(file)?;
    let (mut all, mut chunk) = (Vec::new(), Vec::new());
    while reader.next_chunk(&mut chunk)? {
        assert!(!chunk.is_empty() && chunk.len() <= CHUNK_EVENTS);
        all.append(&mut chunk);
    }
    assert!(!reader.next_chunk(&mut chunk)?, "the end stays the end");
    Ok((reader.meta().clone(), all, reader.totals().unwrap().clone()))
}

/// Events that obey the rules, derived from arbitrary numbers; slots are used in any order that a trace permits.
fn obey(steps: &[(u8, u64, u8, u8, u32)]) -> Vec<Event> {
    let (mut free, mut live): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    let (mut tick, mut threads) = (0u64, 0u32);
    let mut events = Vec::new();
    for &(kind, size, align, advance, choice) in steps {
        tick += u64::from(advance) * u64::from(choice);
        let thread = choice % (threads + 1).min(5);
        threads = threads.max(thread + 1);
        let size = (size >> (size % 60)).clamp(1, MAX_SIZE_BYTES >> 12);
        let align = 1 << (align % 32);
        let op = if kind % 5 < 2 || live.is_empty() {
            let fresh = (free.len() + live.len()) as u32;
            let slot = match choice as usize % (free.len() + 1) {
                place if place < free.len() => free.swap_remove(place),
                _ => fresh,
            };
            live.push(slot);
            Op::Allocate { slot, size, align }
        } else {
            let place = choice as usize % live.len();
            if kind % 5 < 4 {
                let slot = live.swap_remove(place);
                free.push(slot);
                Op::Free { slot }
            } else {
                Op::Reallocate { slot: live[place], size, align }
            }
        };
        events.push(Event { tick, thread, op });
    }
    events
}

/// A few hundred bytes of trace with every kind of operation.
fn small() -> Vec<Event> {
    let at = |tick, thread, op| Event { tick, thread, op };
    vec![
        at(3, 0, Op::Allocate { slot: 0, size: 24, align: 16 }),
        at(3, 1, Op::Allocate { slot: 1, size: 70_000, align: 4096 }),
        at(900, 0, Op::Reallocate { slot: 0, size: 48, align: 16 }),
        at(901, 1, Op::Free { slot: 0 }),
        at(1_000_000, 0, Op::Allocate { slot: 0, size: 1, align: 1 }),
        at(1_000_001, 0, Op::Free { slot: 1 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn events_survive_a_round_trip(
        steps in prop::collection::vec(any::<(u8, u64, u8, u8, u32)>(), 0..3000),
    ) {
        let events = obey(&steps);
        let (file, totals) = write(&events);
        let (read_meta, read_events, read_totals) = read(file.as_slice()).unwrap();
        prop_assert_eq!(read_meta, meta());
        prop_assert_eq!(read_totals, totals);
        prop_assert!(read_events == events);
    }

    #[test]
    fn arbitrary_bytes_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(bytes.as_slice()).is_err());
        // The same after a valid header, where records are expected.
        let (file, _) = write(&[]);
        let mut crafted = file[..file.len() - 85].to_vec();
        crafted.extend_from_slice(&bytes);
        prop_assert!(read(crafted.as_slice()).is_err());
    }
}

proptest! {
    // About one case in twenty is accepted.
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Contents that a writer never produces, with correct lengths and checksum: refused, or accepted as valid.
    #[test]
    fn arbitrary_columns_are_refused_or_obey_the_rules(
        count in 1u32..12,
        ops in prop::collection::vec(0u8..4, 0..12),
        slots in prop::collection::vec(0u8..3, 0..12),
        sizes in prop::collection::vec(any::<u8>(), 0..24),
        aligns in prop::collection::vec(0u8..34, 0..12),
        ticks in prop::collection::vec(any::<u8>(), 0..24),
        threads in prop::collection::vec(0u8..4, 0..12),
        fit in any::<bool>(),
    ) {
        let (mut ops, mut slots, mut sizes, mut aligns, mut ticks, mut threads) = (ops, slots, sizes, aligns, ticks, threads);
        if fit {
            // Columns of exactly the right length, so that some are accepted.
            let requests = ops.iter().filter(|&&op| op != 1).count();
            slots.resize(ops.len(), 0);
            for (column, length) in [(&mut sizes, requests), (&mut aligns, requests), (&mut ticks, ops.len())] {
                column.resize(length, 3);
                column.iter_mut().for_each(|byte| *byte &= 0x7f);
            }
            threads = vec![0, ops.len() as u8];
            for op in &mut ops {
                *op %= 3;
            }
        }
        let count = if fit { (ops.len() as u32).max(1) } else { count };
        let file = crafted(|file| append_chunk(file, count, [&ops, &slots, &sizes, &aligns, &ticks, &threads]));
        let mut events = Vec::new();
        if Reader::new(file.as_slice()).unwrap().next_chunk(&mut events).is_ok() {
            prop_assert_eq!(read(write(&events).0.as_slice()).unwrap().1, events);
        } else {
            prop_assert!(events.is_empty());
        }
    }
}

#[test]
fn chunks_end_at_their_limit_and_readers_may_give_little_at_a_time() {
    struct Drip<'a>(&'a [u8]);
    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(self.0.len()).min(7);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }
    for count in [CHUNK_EVENTS - 1, CHUNK_EVENTS, CHUNK_EVENTS + 1, 2 * CHUNK_EVENTS] {
        let events: Vec<Event> = (0..count as u64)
            .map(|index| {
                let op = match index % 2 {
                    0 => Op::Allocate { slot: 0, size: index + 1, align: 8 },
                    _ => Op::Free { slot: 0 },
                };
                Event { tick: index * 3, thread: 0, op }
            })
            .collect();
        let (file, _) = write(&events);
        assert!(read(Drip(&file)).unwrap().1 == events);
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut chunk = Vec::new();
        let mut chunks = 0;
        while reader.next_chunk(&mut chunk).unwrap() {
            assert!(reader.totals().is_none());
            chunks += 1;
        }
        assert_eq!(chunks, count.div_ceil(CHUNK_EVENTS));
    }
}

#[test]
fn a_file_cut_anywhere_is_refused_with_its_length() {
    let (file, _) = write(&small());
    for length in 0..file.len() {
        let error = read(&file[..length]).unwrap_err();
        match error {
            TraceError::Foreign { offset: 0, .. } if length == 0 => {}
            TraceError::Truncated { offset, .. } => assert_eq!(offset, length as u64, "{error}"),
            _ => panic!("cut at {length}: {error}"),
        }
        assert!(error.to_string().contains(&format!("byte {length}")), "{error}");
    }
}

#[test]
fn no_changed_byte_goes_unnoticed() {
    let (file, _) = write(&small());
    for place in 0..file.len() {
        for flip in 1..=255 {
            let mut damaged = file.clone();
            damaged[place] ^= flip;
            let error = read(damaged.as_slice()).expect_err("a changed byte was read as if nothing had happened");
            assert!(error.to_string().contains("byte "), "{error}");
        }
    }
}

#[test]
fn no_lost_inserted_or_exchanged_piece_goes_unnoticed() {
    let steps: Vec<_> = (0..2 * CHUNK_EVENTS as u64).map(|i| (0, i, 4, 1, 1)).collect();
    let (file, _) = write(&obey(&steps));
    let header = write(&[]).0.len() - 85;
    let chunk_length = |start: usize| {
        let place = start + CHUNK_HEAD_BYTES - 4;
        let packed = u32::from_le_bytes(file[place..place + 4].try_into().unwrap()) as usize;
        CHUNK_HEAD_BYTES + packed + 4
    };
    let second = header + chunk_length(header);
    let end = second + chunk_length(second);
    assert_eq!(end + 85, file.len());
    let (head, first, second, end) = (&file[..header], &file[header..second], &file[second..end], &file[end..]);
    assert!(read([head, first, second, end].concat().as_slice()).is_ok());
    for pieces in [
        vec![head, second, first, end],
        vec![head, first, end],
        vec![head, second, end],
        vec![head, end],
        vec![head, first, first, end],
        vec![head, first, second, second, end],
        vec![head, first, second, end, end],
        vec![head, first, second, end, b"\n"],
        vec![head, head, first, second, end],
    ] {
        assert!(read(pieces.concat().as_slice()).is_err());
    }
}

#[test]
fn foreign_files_are_distinguished_from_damaged_ones() {
    let foreign = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(foreign(b"").contains("the file is empty"));
    for other in
        [&b"\x7fELF\x02\x01\x01\0\0\0\0\0"[..], b"# a text\n", b"\x89PNG\r\n\x1a\n", b"\x28\xb5\x2f\xfd\0\0\0\0\0"]
    {
        let message = foreign(other);
        assert!(message.contains("not an rtalloc trace") && message.contains("at byte"), "{message}");
    }
    assert!(foreign(b"\x89rtra").contains("cut off at byte 5"));
}

#[test]
fn another_version_is_named() {
    let (mut file, _) = write(&small());
    file[8] = 7;
    let message = read(file.as_slice()).unwrap_err().to_string();
    assert!(message.contains("version 7 at byte 8"), "{message}");
}

/// A file with correct checksums and invalid contents, which can only be crafted.
fn crafted(records: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let (empty, _) = write(&[]);
    let mut file = empty[..empty.len() - 85].to_vec();
    records(&mut file);
    file
}

/// Appends a chunk with a correct checksum.
fn append_chunk(file: &mut Vec<u8>, events: u32, columns: [&[u8]; 6]) {
    let mut covered = crc32fast::Hasher::new();
    covered.update(&file[..file.len() - 4]);
    let mut record = vec![b'C'];
    record.extend_from_slice(&events.to_le_bytes());
    for column in columns {
        record.extend_from_slice(&(column.len() as u32).to_le_bytes());
    }
    let packed = zstd::bulk::compress(&columns.concat(), 3).unwrap();
    record.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    record.extend_from_slice(&packed);
    covered.update(&record);
    file.extend_from_slice(&record);
    file.extend_from_slice(&covered.finalize().to_le_bytes());
}

#[test]
fn a_crafted_chunk_cannot_break_the_rules() {
    let one = |columns: [&[u8]; 6]| {
        let file = crafted(|file| append_chunk(file, 1, columns));
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut events = vec![Event { tick: 0, thread: 0, op: Op::Free { slot: 0 } }];
        let outcome = reader.next_chunk(&mut events);
        if outcome.is_err() {
            assert!(events.is_empty());
            assert!(matches!(reader.next_chunk(&mut events), Err(TraceError::Stopped { .. })));
        }
        outcome.map_err(|error| error.to_string())
    };
    // Columns: op, slot, size, alignment exponent, tick, thread and run.
    assert_eq!(one([&[0], &[0], &[8], &[4], &[0], &[0, 1]]), Ok(true));
    for (columns, complaint) in [
        ([&[3][..], &[0], &[8], &[4], &[0], &[0, 1]], "unknown kind"),
        ([&[0], &[4], &[8], &[4], &[0], &[0, 1]], "slot 2 is allocated although the smallest"),
        ([&[0], &[1], &[8], &[4], &[0], &[0, 1]], "slot beyond 32 bits"),
        ([&[1], &[0], &[], &[], &[0], &[0, 1]], "slot 0 is freed although it is not live"),
        ([&[2], &[0], &[8], &[4], &[0], &[0, 1]], "slot 0 is reallocated although"),
        ([&[0], &[0], &[0], &[4], &[0], &[0, 1]], "size 0"),
        ([&[0], &[0], &[8], &[32], &[0], &[0, 1]], "alignment 0"),
        ([&[0], &[0], &[8], &[4], &[0], &[1, 1]], "thread 1 comes first"),
        ([&[0], &[0], &[8], &[4], &[0], &[0, 0]], "thread run of no events"),
        ([&[0], &[0], &[8], &[4], &[0], &[0, 2]], "more in its columns"),
        ([&[0], &[0, 0], &[8], &[4], &[0], &[0, 1]], "more in its columns"),
        ([&[], &[0], &[8], &[4], &[0], &[0, 1]], "ends too early"),
        ([&[0], &[], &[8], &[4], &[0], &[0, 1]], "ends too early"),
        ([&[0], &[0], &[], &[4], &[0], &[0, 1]], "ends too early"),
        ([&[0], &[0], &[8], &[], &[0], &[0, 1]], "ends too early"),
        ([&[0], &[0], &[8], &[4], &[], &[0, 1]], "ends too early"),
        ([&[0], &[0], &[8], &[4], &[0], &[]], "ends too early"),
        ([&[0, 0], &[0], &[8], &[4], &[0], &[0, 1]], "impossible length"),
    ] {
        let message = one(columns).unwrap_err();
        assert!(message.contains(complaint), "{complaint}: {message}");
    }
}

#[test]
fn length_fields_of_a_crafted_file_reserve_nothing() {
    let chunk = |events: u32, column: u32, packed: u32| {
        let file = crafted(|file| {
            file.push(b'C');
            file.extend_from_slice(&events.to_le_bytes());
            for _ in 0..6 {
                file.extend_from_slice(&column.to_le_bytes());
            }
            file.extend_from_slice(&packed.to_le_bytes());
        });
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let message = reader.next_chunk(&mut Vec::new()).unwrap_err().to_string();
        assert!(reader.packed.capacity() < 4096 * 2 && reader.plain.capacity() == 0);
        message
    };
    assert!(chunk(0, 0, 0).contains("impossible length"));
    assert!(chunk(u32::MAX, 1, 1).contains("impossible length"));
    assert!(chunk(1, u32::MAX, 1).contains("column of impossible length"));
    assert!(chunk(1, 1, u32::MAX).contains("impossible compressed length"));

    let (mut file, _) = write(&[]);
    file[12..16].copy_from_slice(&(MAX_HEADER_BYTES + 1).to_le_bytes());
    assert!(read(file.as_slice()).unwrap_err().to_string().contains("header of 1048577 bytes"));
}

#[test]
fn a_chunk_that_decompresses_to_more_than_it_says_is_refused() {
    let file = crafted(|file| {
        let start = file.len();
        append_chunk(file, 1, [&[0], &[0], &[8], &[4], &[0], &[0, 1]]);
        // Replaces the compressed columns by a bomb, and corrects length and checksum.
        let bomb = zstd::bulk::compress(&vec![0; 1 << 24], 3).unwrap();
        let mut record = file[start..start + CHUNK_HEAD_BYTES - 4].to_vec();
        record.extend_from_slice(&(bomb.len() as u32).to_le_bytes());
        record.extend_from_slice(&bomb);
        file.truncate(start);
        let mut covered = crc32fast::Hasher::new();
        covered.update(&file[..start - 4]);
        covered.update(&record);
        file.extend_from_slice(&record);
        file.extend_from_slice(&covered.finalize().to_le_bytes());
    });
    let message = read(file.as_slice()).unwrap_err().to_string();
    assert!(message.contains("does not decompress"), "{message}");
}

#[test]
fn wrong_totals_are_detected_despite_a_correct_checksum() {
    let (mut file, _) = write(&small());
    let end = file.len() - 85;
    file[end + 1] += 1;
    // The checksum covers everything but the earlier checksums: the header's and the chunk's.
    let header = write(&[]).0.len() - 85;
    let mut covered = crc32fast::Hasher::new();
    covered.update(&file[..header - 4]);
    covered.update(&file[header..end - 4]);
    covered.update(&file[end..end + 81]);
    let place = file.len() - 4;
    file[place..].copy_from_slice(&covered.finalize().to_le_bytes());
    let message = read(file.as_slice()).unwrap_err().to_string();
    assert!(message.contains("totals"), "{message}");
}

#[test]
fn a_refused_event_is_named_and_the_writer_goes_on() {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &meta()).unwrap();
    writer.push(&small()[0]).unwrap();
    let error = writer.push(&Event { tick: 9, thread: 0, op: Op::Free { slot: 3 } }).unwrap_err();
    assert_eq!(error.to_string(), "event 1 breaks the rules of a trace: slot 3 is freed although it is not live");
    for event in &small()[1..] {
        writer.push(event).unwrap();
    }
    let totals = writer.finish().unwrap();
    let (_, events, read_totals) = read(file.as_slice()).unwrap();
    assert_eq!((events, &read_totals), (small(), &totals));
    let expected = Totals {
        events: 6,
        allocations: 3,
        frees: 2,
        reallocations: 1,
        threads: 2,
        slots: 2,
        peak_live_bytes: 70_048,
        peak_live_blocks: 2,
        largest_request_bytes: 70_000,
        requested_bytes: 24 + 70_000 + 48 + 1,
    };
    assert_eq!(totals, expected);
}

#[test]
fn a_file_appears_only_when_it_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.trace");
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();

    let mut writer = Writer::create(&path, &meta()).unwrap();
    writer.push(&small()[0]).unwrap();
    assert_eq!(entries(), 0, "until then it has no name");
    drop(writer);
    assert_eq!(entries(), 0);

    std::fs::write(&path, "something older").unwrap();
    let mut writer = Writer::create(&path, &meta()).unwrap();
    for event in small() {
        writer.push(&event).unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"something older");
    let totals = writer.finish().unwrap();
    assert_eq!(entries(), 1);
    let mut reader = Reader::open(&path).unwrap();
    while reader.next_chunk(&mut Vec::new()).unwrap() {}
    assert_eq!(reader.totals(), Some(&totals));

    // A device or pipe is not replaced, and a link stays a link.
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("a.trace", &link).unwrap();
    Writer::create(&link, &meta()).unwrap().finish().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(!Reader::open(&path).unwrap().next_chunk(&mut Vec::new()).unwrap());
    Writer::create("/dev/null", &meta()).unwrap().finish().unwrap();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
    let message = Writer::create(folder.path(), &meta()).err().unwrap().to_string();
    assert!(message.starts_with("cannot create") && message.contains("directory"), "{message}");

    let message = Writer::create(folder.path().join("no/such/folder"), &meta()).err().unwrap().to_string();
    assert!(message.starts_with("cannot create"), "{message}");
    let message = Reader::open(folder.path()).err().unwrap().to_string();
    assert!(message.starts_with("cannot open") && message.contains("directory"), "{message}");
}
