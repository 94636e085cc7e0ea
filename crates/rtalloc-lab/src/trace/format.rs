//! The file layout: constants, and the variable-length numbers of the columns.
//!
//! `docs/TRACE-FORMAT.md` is the specification; [`Writer`](super::Writer) and [`Reader`](super::Reader) follow it.

/// First bytes of every trace: not ASCII at first, so that no text file looks like one.
pub(crate) const MAGIC: [u8; 8] = *b"\x89rtrace\n";

/// Version of the format this program writes and reads.
pub const FORMAT_VERSION: u32 = 1;

/// Largest number of events in a chunk.
pub const CHUNK_EVENTS: usize = 65_536;

/// Largest requested size of an event, in bytes: the maximum of a `Layout` on a 64-bit machine.
pub const MAX_SIZE_BYTES: u64 = i64::MAX as u64;

/// Largest number of slots of a trace. Limits the memory that a crafted file can make its reader allocate to half a
/// gigabyte.
pub const MAX_SLOTS: u32 = 1 << 25;

/// Largest number of threads of a trace.
pub const MAX_THREADS: u32 = 1 << 20;

/// Largest header in bytes; real ones have a few hundred.
pub(super) const MAX_HEADER_BYTES: u32 = 1 << 20;

/// Record tag of a chunk.
pub(super) const TAG_CHUNK: u8 = b'C';

/// Record tag of the end.
pub(super) const TAG_END: u8 = b'E';

/// Columns of a chunk, in file order.
pub(super) const COLUMNS: usize = 6;

/// Column of the kinds of operation, one byte each.
pub(super) const OPS: usize = 0;
/// Column of the slots.
pub(super) const SLOTS: usize = 1;
/// Column of the sizes.
pub(super) const SIZES: usize = 2;
/// Column of the alignments' exponents, one byte each.
pub(super) const ALIGNS: usize = 3;
/// Column of the tick differences.
pub(super) const TICKS: usize = 4;
/// Column of the threads, as runs.
pub(super) const THREADS: usize = 5;

/// Most bytes an event can take in each column: a varint of 64 bits takes 10, of 33 bits 5, a thread run 5 + 3.
pub(super) const MAX_COLUMN_BYTES_PER_EVENT: [u32; COLUMNS] = [1, 5, 10, 1, 10, 8];

/// Operation byte of an allocation.
pub(super) const OP_ALLOCATE: u8 = 0;
/// Operation byte of a free.
pub(super) const OP_FREE: u8 = 1;
/// Operation byte of a reallocation.
pub(super) const OP_REALLOCATE: u8 = 2;

/// Bytes of a chunk record before its compressed columns: tag, events, column lengths, compressed length.
pub(super) const CHUNK_HEAD_BYTES: usize = 1 + 4 + 4 * COLUMNS + 4;

/// Bytes of the totals in the end record: ten numbers of 8 bytes.
pub(super) const TOTALS_BYTES: usize = 10 * 8;

/// Bytes by which the compressed form may exceed the columns' length (zstd stores incompressible data verbatim, with a
/// few bytes per 128 KiB block and a frame header).
pub(super) const MAX_COMPRESSION_GROWTH_BYTES: u32 = 4096;

/// Appends `value` as a varint: seven bits a byte, least significant first, the top bit set on all but the last.
#[inline]
pub(super) fn put_varint(column: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        column.push(value as u8 | 0x80);
        value >>= 7;
    }
    column.push(value as u8);
}

/// Maps small numbers of either sign to small numbers: 0, -1, 1, -2, ... to 0, 1, 2, 3, ...
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// A column being read.
pub(super) struct Column<'a> {
    bytes: &'a [u8],
}

impl<'a> Column<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next byte, or `None` at the end.
    #[inline]
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// The next varint, or `None` where the column ends inside it or it exceeds 64 bits.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        let mut shift = 7;
        loop {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift > 63 || (shift == 63 && bits > 1) {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// Whether everything was read.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varints_and_zigzag_survive_a_round_trip(values in prop::collection::vec(any::<i64>(), 0..50)) {
            let mut bytes = Vec::new();
            for &value in &values {
                put_varint(&mut bytes, zigzag(value));
                prop_assert_eq!(unzigzag(zigzag(value)), value);
            }
            let mut column = Column::new(&bytes);
            for &value in &values {
                prop_assert_eq!(column.varint().map(unzigzag), Some(value));
            }
            prop_assert!(column.is_empty());
            prop_assert_eq!(column.varint(), None);
        }
    }

    #[test]
    fn a_varint_beyond_64_bits_is_refused() {
        let mut bytes = vec![0xff; 9];
        bytes.push(0x01);
        assert_eq!(Column::new(&bytes).varint(), Some(u64::MAX));
        bytes[9] = 0x02;
        assert_eq!(Column::new(&bytes).varint(), None);
        bytes[9] = 0x81;
        bytes.push(0);
        assert_eq!(Column::new(&bytes).varint(), None);
    }

    #[test]
    fn small_magnitudes_have_small_codes() {
        assert_eq!([0, -1, 1, -2, 2].map(zigzag), [0, 1, 2, 3, 4]);
        assert_eq!(zigzag(i64::MIN), u64::MAX);
    }
}
