//! Reading a trace, one chunk at a time.

use super::format::{
    ALIGNS, CHUNK_HEAD_BYTES, COLUMNS, Column, MAGIC, MAX_COLUMN_BYTES_PER_EVENT, MAX_COMPRESSION_GROWTH_BYTES,
    MAX_HEADER_BYTES, OP_ALLOCATE, OP_FREE, OP_REALLOCATE, OPS, SIZES, SLOTS, TAG_CHUNK, TAG_END, THREADS, TICKS,
    TOTALS_BYTES, unzigzag,
};
use super::ledger::Ledger;
use super::writer::totals_to_bytes;
use super::{CHUNK_EVENTS, Event, FORMAT_VERSION, Meta, Op, Totals, TraceError};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a trace and verifies it: checksums before anything is decoded, the rules of [`trace`](super) for every event,
/// the totals at the end. Returned events can index tables by slot and by thread without further checks.
pub struct Reader<R: Read> {
    source: Source<R>,
    decompressor: zstd::bulk::Decompressor<'static>,
    meta: Meta,
    ledger: Ledger,
    /// The compressed columns of the last chunk, and the columns one after another.
    pub(super) packed: Vec<u8>,
    pub(super) plain: Vec<u8>,
    last_slot: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// The end record was verified.
    Ended,
    /// An error was returned; nothing after it can be trusted.
    Failed,
}

impl Reader<File> {
    /// Opens the trace at `path` and reads its header.
    ///
    /// # Errors
    ///
    /// A file system error, or an invalid header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file_error = |source| TraceError::File { action: "open", path: path.to_path_buf(), source };
        let file = File::open(path).map_err(file_error)?;
        // Opening a directory succeeds; reading it would fail with a message that does not name it.
        if file.metadata().map_err(file_error)?.is_dir() {
            return Err(file_error(io::ErrorKind::IsADirectory.into()));
        }
        Self::new(file)
    }
}

impl<R: Read> Reader<R> {
    /// Reads the header of a trace from `input`, which needs no buffering: a chunk takes four reads.
    ///
    /// # Errors
    ///
    /// An error of `input`, or an invalid header.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut source = Source { input, offset: 0, checksum: crc32fast::Hasher::new() };
        let meta = source.header()?;
        let decompressor =
            zstd::bulk::Decompressor::new().map_err(|error| TraceError::Io { offset: source.offset, source: error })?;
        Ok(Self {
            source,
            decompressor,
            meta,
            ledger: Ledger::default(),
            packed: Vec::new(),
            plain: Vec::new(),
            last_slot: 0,
            state: State::Reading,
        })
    }

    /// The trace's metadata.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Verified sums of the whole trace; `None` before [`next_chunk`](Self::next_chunk) has returned `false`.
    #[must_use]
    pub fn totals(&self) -> Option<&Totals> {
        (self.state == State::Ended).then(|| self.ledger.totals())
    }

    /// Bytes of the file read so far, for progress.
    #[must_use]
    pub fn offset_bytes(&self) -> u64 {
        self.source.offset
    }

    /// Replaces the contents of `events` by the next chunk, between 1 and [`CHUNK_EVENTS`] events. At the end of the
    /// trace, once its totals are verified, returns `false` and leaves `events` empty.
    ///
    /// # Errors
    ///
    /// What is wrong and at which byte; then `events` is empty and every further call fails too.
    pub fn next_chunk(&mut self, events: &mut Vec<Event>) -> Result<bool, TraceError> {
        events.clear();
        let outcome = match self.state {
            State::Reading => self.next_record(events),
            State::Ended => Ok(false),
            State::Failed => Err(TraceError::Stopped { offset: self.source.offset }),
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => self.state = State::Ended,
            Err(_) => {
                self.state = State::Failed;
                events.clear();
            }
        }
        outcome
    }

    fn next_record(&mut self, events: &mut Vec<Event>) -> Result<bool, TraceError> {
        let start = self.source.offset;
        let mut tag = [0];
        self.source.take(&mut tag, "records (its end record is missing)")?;
        match tag[0] {
            TAG_CHUNK => self.chunk(start, events).map(|()| true),
            TAG_END => self.end(start).map(|()| false),
            other => Err(TraceError::Invalid {
                offset: start,
                what: format!("a record of the unknown kind {other:#04x}; the file is damaged"),
            }),
        }
    }

    fn chunk(&mut self, start: u64, events: &mut Vec<Event>) -> Result<(), TraceError> {
        let invalid = |what: &str| TraceError::Invalid { offset: start, what: what.to_string() };
        let mut head = [0; CHUNK_HEAD_BYTES - 1];
        self.source.take(&mut head, "chunk")?;
        let mut fields = head.chunks_exact(4).map(|field| u32::from_le_bytes([field[0], field[1], field[2], field[3]]));
        let mut field = || fields.next().expect("the head's length is that of its fields");
        let count = field();
        let column_bytes: [u32; COLUMNS] = std::array::from_fn(|_| field());
        let packed_bytes = field();

        // Lengths are checked first, so that a damaged file cannot cause a large allocation. No overflow: at most
        // 65,536 events of 35 bytes.
        if count == 0 || count as usize > CHUNK_EVENTS {
            return Err(invalid("a chunk of impossible length"));
        }
        if column_bytes.iter().zip(MAX_COLUMN_BYTES_PER_EVENT).any(|(&bytes, most)| bytes > most * count) {
            return Err(invalid("a chunk with a column of impossible length"));
        }
        let plain_bytes: u32 = column_bytes.iter().sum();
        if packed_bytes > plain_bytes + MAX_COMPRESSION_GROWTH_BYTES {
            return Err(invalid("a chunk of impossible compressed length"));
        }

        self.packed.resize(packed_bytes as usize, 0);
        self.source.take(&mut self.packed, "chunk")?;
        self.source.verify_checksum(start, "chunk")?;

        self.plain.clear();
        self.plain.reserve(plain_bytes as usize);
        let unpacked = self.decompressor.decompress_to_buffer(&self.packed, &mut self.plain);
        if unpacked.is_err() || self.plain.len() != plain_bytes as usize {
            return Err(invalid("a chunk that does not decompress to the length it announces"));
        }
        self.decode(start, count, column_bytes, events)
    }

    /// Decodes the columns in `self.plain` into events and applies each to the ledger.
    fn decode(
        &mut self,
        start: u64,
        count: u32,
        column_bytes: [u32; COLUMNS],
        events: &mut Vec<Event>,
    ) -> Result<(), TraceError> {
        let invalid = |what: &str| TraceError::Invalid { offset: start, what: what.to_string() };
        let mut rest = self.plain.as_slice();
        let mut columns = column_bytes.map(|bytes| {
            let (column, behind) = rest.split_at(bytes as usize);
            rest = behind;
            Column::new(column)
        });
        let short = || invalid("a column that ends too early");
        let (mut thread, mut run) = (0, 0);
        events.reserve(count as usize);
        for _ in 0..count {
            if run == 0 {
                let number = columns[THREADS].varint().ok_or_else(short)?;
                thread = u32::try_from(number).map_err(|_| invalid("a thread number beyond 32 bits"))?;
                run = columns[THREADS].varint().ok_or_else(short)?;
                if run == 0 {
                    return Err(invalid("a thread run of no events"));
                }
            }
            run -= 1;

            let kind = columns[OPS].byte().ok_or_else(short)?;
            let guess = if kind == OP_ALLOCATE { self.ledger.expected_slot() } else { self.last_slot };
            let difference = unzigzag(columns[SLOTS].varint().ok_or_else(short)?);
            let slot = i64::from(guess)
                .checked_add(difference)
                .and_then(|slot| u32::try_from(slot).ok())
                .ok_or_else(|| invalid("a slot beyond 32 bits"))?;
            let mut request = || {
                let size = columns[SIZES].varint()?;
                let exponent = columns[ALIGNS].byte()?;
                Some((size, 1u32.checked_shl(u32::from(exponent)).unwrap_or(0)))
            };
            let op = match kind {
                OP_ALLOCATE => request().map(|(size, align)| Op::Allocate { slot, size, align }).ok_or_else(short)?,
                OP_FREE => Op::Free { slot },
                OP_REALLOCATE => {
                    request().map(|(size, align)| Op::Reallocate { slot, size, align }).ok_or_else(short)?
                }
                _ => return Err(invalid("an operation of an unknown kind")),
            };
            let tick = columns[TICKS]
                .varint()
                .ok_or_else(short)?
                .checked_add(self.ledger.last_tick())
                .ok_or_else(|| invalid("a tick beyond 64 bits"))?;

            let event = Event { tick, thread, op };
            self.ledger.book(&event).map_err(|violation| TraceError::Rule {
                event: self.ledger.totals().events,
                violation,
                offset: Some(start),
            })?;
            self.last_slot = slot;
            events.push(event);
        }
        if run != 0 || !columns.iter().all(Column::is_empty) {
            return Err(invalid("a chunk with more in its columns than events"));
        }
        Ok(())
    }

    fn end(&mut self, start: u64) -> Result<(), TraceError> {
        let mut announced = [0; TOTALS_BYTES];
        self.source.take(&mut announced, "end record")?;
        self.source.verify_checksum(start, "end record")?;
        if announced != totals_to_bytes(self.ledger.totals()) {
            return Err(TraceError::Invalid {
                offset: start,
                what: "the totals of its end record are not those of its events".into(),
            });
        }
        let offset = self.source.offset;
        if self.source.fill(&mut [0])? != 0 {
            return Err(TraceError::Invalid { offset, what: "more bytes follow the end record".into() });
        }
        Ok(())
    }
}

/// The bytes of the file, with their offset and checksum.
struct Source<R> {
    input: R,
    offset: u64,
    checksum: crc32fast::Hasher,
}

impl<R: Read> Source<R> {
    /// Reads the parts before the first chunk.
    fn header(&mut self) -> Result<Meta, TraceError> {
        let mut magic = [0; MAGIC.len()];
        let found = self.fill(&mut magic)?;
        if found == 0 {
            return Err(TraceError::Foreign { offset: 0, what: "the file is empty" });
        }
        if let Some(offset) = (0..found).find(|&place| magic[place] != MAGIC[place]) {
            return Err(TraceError::Foreign { offset: offset as u64, what: "the signature is another" });
        }
        if found < MAGIC.len() {
            return Err(TraceError::Truncated { offset: self.offset, part: "signature" });
        }
        self.checksum.update(&magic);

        let version_offset = self.offset;
        let version = self.take_u32("header")?;
        if version != FORMAT_VERSION {
            return Err(TraceError::Version { offset: version_offset, found: version });
        }
        let length_offset = self.offset;
        let length = self.take_u32("header")?;
        if length > MAX_HEADER_BYTES {
            return Err(TraceError::Invalid {
                offset: length_offset,
                what: format!("a header of {length} bytes, more than {MAX_HEADER_BYTES}"),
            });
        }
        let mut json = vec![0; length as usize];
        self.take(&mut json, "header")?;
        self.verify_checksum(0, "header")?;
        serde_json::from_slice(&json).map_err(|error| TraceError::Invalid {
            offset: length_offset + 4,
            what: format!("its description is not readable: {error}"),
        })
    }

    fn take_u32(&mut self, part: &'static str) -> Result<u32, TraceError> {
        let mut bytes = [0; 4];
        self.take(&mut bytes, part)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Reads bytes that are covered by checksums.
    fn take(&mut self, bytes: &mut [u8], part: &'static str) -> Result<(), TraceError> {
        if self.fill(bytes)? < bytes.len() {
            return Err(TraceError::Truncated { offset: self.offset, part });
        }
        self.checksum.update(bytes);
        Ok(())
    }

    /// Reads a checksum and compares it with that of all bytes read so far; `start` is where `part` begins.
    fn verify_checksum(&mut self, start: u64, part: &'static str) -> Result<(), TraceError> {
        let mut bytes = [0; 4];
        if self.fill(&mut bytes)? < bytes.len() {
            return Err(TraceError::Truncated { offset: self.offset, part });
        }
        if u32::from_le_bytes(bytes) != self.checksum.clone().finalize() {
            return Err(TraceError::Checksum { offset: start, part });
        }
        Ok(())
    }

    /// Reads until `bytes` is full or the file ends; returns the number of bytes read.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.input.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    self.offset += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { offset: self.offset, source }),
            }
        }
        Ok(filled)
    }
}
