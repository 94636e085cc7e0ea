//! Writing a trace, one event at a time.

use super::format::{
    ALIGNS, CHUNK_HEAD_BYTES, COLUMNS, MAGIC, MAX_HEADER_BYTES, OP_ALLOCATE, OP_FREE, OP_REALLOCATE, OPS, SIZES, SLOTS,
    TAG_CHUNK, TAG_END, THREADS, TICKS, TOTALS_BYTES, put_varint, zigzag,
};
use super::ledger::Ledger;
use super::{CHUNK_EVENTS, Event, FORMAT_VERSION, Meta, Op, Totals, TraceError};
use crate::draft::Draft;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Compression level: zstd's default, the fastest that still finds the repetition of programs' requests.
const COMPRESSION_LEVEL: i32 = 3;

/// Writes a trace.
///
/// A trace is valid only once [`finish`](Writer::finish) has returned. A writer made by [`create`](Writer::create) and
/// dropped before leaves no file.
pub struct Writer<W: Write> {
    output: W,
    offset: u64,
    checksum: crc32fast::Hasher,
    compressor: zstd::bulk::Compressor<'static>,
    ledger: Ledger,
    columns: [Vec<u8>; COLUMNS],
    /// All columns of a chunk, one after another, and their compressed form.
    plain: Vec<u8>,
    packed: Vec<u8>,
    chunk_events: usize,
    last_slot: u32,
    /// The thread run being extended: thread, events.
    run: (u32, u32),
    /// The file that becomes the trace, and its path as given.
    draft: Option<(Draft, PathBuf)>,
}

impl Writer<BufWriter<File>> {
    /// Starts a trace that appears at `path` when it is finished, replacing an existing file; the target of a symbolic
    /// link is replaced, not the link. A device or a pipe is written to directly.
    ///
    /// Until then the file has no name: a killed process leaves nothing behind.
    ///
    /// # Errors
    ///
    /// A file system error.
    pub fn create(path: impl AsRef<Path>, meta: &Meta) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let file_error = |source| TraceError::File { action: "create", path: path.to_path_buf(), source };
        let draft = Draft::create(path).map_err(file_error)?;
        let mut writer = Writer::new(BufWriter::new(draft.file().map_err(file_error)?), meta)?;
        writer.draft = Some((draft, path.to_path_buf()));
        Ok(writer)
    }
}

impl<W: Write> Writer<W> {
    /// Starts a trace on `output` (`&mut Vec<u8>` for one in memory).
    ///
    /// # Errors
    ///
    /// An error of `output`.
    pub fn new(output: W, meta: &Meta) -> Result<Self, TraceError> {
        let io = |source| TraceError::Io { offset: 0, source };
        let mut writer = Writer {
            output,
            offset: 0,
            checksum: crc32fast::Hasher::new(),
            compressor: zstd::bulk::Compressor::new(COMPRESSION_LEVEL).map_err(io)?,
            ledger: Ledger::default(),
            columns: Default::default(),
            plain: Vec::new(),
            packed: Vec::new(),
            chunk_events: 0,
            last_slot: 0,
            run: (0, 0),
            draft: None,
        };
        let header = serde_json::to_vec(meta).map_err(|error| io(error.into()))?;
        let header_bytes = u32::try_from(header.len()).unwrap_or(u32::MAX);
        if header_bytes > MAX_HEADER_BYTES {
            return Err(TraceError::Invalid {
                offset: 0,
                what: format!("its description takes {} bytes, more than {MAX_HEADER_BYTES}", header.len()),
            });
        }
        writer.put(&MAGIC)?;
        writer.put(&FORMAT_VERSION.to_le_bytes())?;
        writer.put(&header_bytes.to_le_bytes())?;
        writer.put(&header)?;
        writer.put_checksum()?;
        Ok(writer)
    }

    /// Appends an event.
    ///
    /// # Errors
    ///
    /// [`TraceError::Rule`] if the event breaks a rule of [`trace`](super); then nothing was appended and the writer
    /// remains usable. Otherwise an error of the output.
    pub fn push(&mut self, event: &Event) -> Result<(), TraceError> {
        let expected_slot = self.ledger.expected_slot();
        let last_tick = self.ledger.last_tick();
        self.ledger.book(event).map_err(|violation| TraceError::Rule {
            event: self.ledger.totals().events,
            violation,
            offset: None,
        })?;

        let (kind, slot, guess, request) = match event.op {
            Op::Allocate { slot, size, align } => (OP_ALLOCATE, slot, expected_slot, Some((size, align))),
            Op::Free { slot } => (OP_FREE, slot, self.last_slot, None),
            Op::Reallocate { slot, size, align } => (OP_REALLOCATE, slot, self.last_slot, Some((size, align))),
        };
        self.columns[OPS].push(kind);
        put_varint(&mut self.columns[SLOTS], zigzag(i64::from(slot) - i64::from(guess)));
        if let Some((size, align)) = request {
            put_varint(&mut self.columns[SIZES], size);
            self.columns[ALIGNS].push(align.trailing_zeros() as u8);
        }
        put_varint(&mut self.columns[TICKS], event.tick - last_tick);
        if event.thread != self.run.0 {
            self.end_run();
            self.run.0 = event.thread;
        }
        self.run.1 += 1;
        self.last_slot = slot;
        self.chunk_events += 1;
        if self.chunk_events == CHUNK_EVENTS { self.end_chunk() } else { Ok(()) }
    }

    /// Totals of the events so far.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        self.ledger.totals()
    }

    /// Ends the trace; a file gets its final name.
    ///
    /// # Errors
    ///
    /// An error of the output or of the file system; then there is no trace.
    pub fn finish(mut self) -> Result<Totals, TraceError> {
        self.end_chunk()?;
        let totals = self.ledger.totals().clone();
        self.put(&[TAG_END])?;
        self.put(&totals_to_bytes(&totals))?;
        self.put_checksum()?;
        self.output.flush().map_err(|source| TraceError::Io { offset: self.offset, source })?;
        if let Some((draft, path)) = self.draft {
            draft.commit().map_err(|source| TraceError::File { action: "write", path, source })?;
        }
        Ok(totals)
    }

    fn end_run(&mut self) {
        let (thread, events) = self.run;
        if events > 0 {
            put_varint(&mut self.columns[THREADS], u64::from(thread));
            put_varint(&mut self.columns[THREADS], u64::from(events));
        }
        self.run.1 = 0;
    }

    fn end_chunk(&mut self) -> Result<(), TraceError> {
        if self.chunk_events == 0 {
            return Ok(());
        }
        self.end_run();
        let mut head = Vec::with_capacity(CHUNK_HEAD_BYTES);
        head.push(TAG_CHUNK);
        head.extend_from_slice(&(self.chunk_events as u32).to_le_bytes());
        self.plain.clear();
        for column in &mut self.columns {
            head.extend_from_slice(&(column.len() as u32).to_le_bytes());
            self.plain.append(column);
        }
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
        self.compressor
            .compress_to_buffer(&self.plain, &mut self.packed)
            .map_err(|source| TraceError::Io { offset: self.offset, source })?;
        head.extend_from_slice(&(self.packed.len() as u32).to_le_bytes());
        self.put(&head)?;
        let packed = std::mem::take(&mut self.packed);
        self.put(&packed)?;
        self.packed = packed;
        self.put_checksum()?;
        self.chunk_events = 0;
        Ok(())
    }

    /// Writes bytes that are covered by checksums.
    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.checksum.update(bytes);
        self.put_raw(bytes)
    }

    /// Writes the checksum of all bytes so far except the earlier checksums: including one would reset the CRC to a
    /// constant, and the chain would not depend on earlier bytes.
    fn put_checksum(&mut self) -> Result<(), TraceError> {
        let checksum = self.checksum.clone().finalize();
        self.put_raw(&checksum.to_le_bytes())
    }

    fn put_raw(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.output.write_all(bytes).map_err(|source| TraceError::Io { offset: self.offset, source })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// The totals in the format of the end record.
pub(super) fn totals_to_bytes(totals: &Totals) -> [u8; TOTALS_BYTES] {
    let Totals {
        events,
        allocations,
        frees,
        reallocations,
        threads,
        slots,
        peak_live_bytes,
        peak_live_blocks,
        largest_request_bytes,
        requested_bytes,
    } = *totals;
    let fields = [
        events,
        allocations,
        frees,
        reallocations,
        u64::from(threads),
        u64::from(slots),
        peak_live_bytes,
        peak_live_blocks,
        largest_request_bytes,
        requested_bytes,
    ];
    let mut bytes = [0; TOTALS_BYTES];
    for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    bytes
}
