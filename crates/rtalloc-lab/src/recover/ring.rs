//! Parses a ring from its bytes.

use crate::number::counted;
use rtalloc::adapt::traced::layout::{
    self, ALIGN_SHIFT, BYTE_ORDER, HEAD_BYTES, MAGIC, NUMBER_SHIFT, OUTCOME_SHIFT, RECORD_WORDS, VERSION, at, kind,
    outcome,
};
use serde::Serialize;

/// A problem of something that begins like a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A later layout.
    #[error("its layout is version {0}, not {VERSION}; read it with the rtalloc that wrote it")]
    Version(u8),
    /// The head contradicts its checksum.
    #[error(
        "its head is damaged: it was overwritten, or the heap was still being initialised; only its beginning is valid"
    )]
    Head,
    /// The head is intact, but no recorder writes such a head.
    #[error("its head has impossible content: {0}")]
    Impossible(&'static str),
    /// The dump is truncated.
    #[error("the dump ends {} too early; dump at least {needed} bytes from there on", counted(*.missing, "byte"))]
    Truncated {
        /// Bytes of head and ring.
        needed: u64,
        /// Bytes of them that are not there.
        missing: u64,
    },
    /// Every record is unreadable.
    #[error("all records of its ring ({0}) are damaged: they were overwritten")]
    Records(u64),
}

/// The number of a record: operations and marks are numbered from 0, in chronological order.
pub type Number = u64;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Allocate a block.
    Allocate,
    /// Free a block.
    Deallocate,
    /// Resize a block.
    Reallocate,
    /// No request: a number written by the user.
    Mark,
    /// Add another region.
    AddRegion,
    /// Remove a region.
    RemoveRegion,
}

impl Kind {
    /// The operation's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Allocate => "allocate",
            Kind::Deallocate => "deallocate",
            Kind::Reallocate => "reallocate",
            Kind::Mark => "mark",
            Kind::AddRegion => "add a region",
            Kind::RemoveRegion => "remove a region",
        }
    }
}

/// How the operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Not yet finished.
    UnderWay,
    /// Success.
    Done,
    /// Refused: zero bytes.
    ZeroSize,
    /// Refused: the alignment.
    Alignment,
    /// Refused: more than the heap could ever serve.
    TooLarge,
    /// Refused: no free block is large enough.
    Exhausted,
    /// Refused until a compaction is done.
    Pending,
    /// Refused: the block was not live.
    Misused,
    /// Refused: the quota is used up.
    Quota,
    /// Refused on purpose.
    Injected,
}

impl Outcome {
    /// The outcome as text that follows a number of refused requests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Outcome::UnderWay => "under way",
            Outcome::Done => "done",
            Outcome::ZeroSize => "of zero bytes",
            Outcome::Alignment => "for their alignment",
            Outcome::TooLarge => "larger than the heap",
            Outcome::Exhausted => "as no free block was large enough",
            Outcome::Pending => "until a compaction is done",
            Outcome::Misused => "as the block was not live",
            Outcome::Quota => "as the quota was used up",
            Outcome::Injected => "on purpose",
        }
    }
}

/// An operation. Addresses are offsets from the first byte of the heap's region, modulo the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number.
    pub number: Number,
    /// The request.
    pub kind: Kind,
    /// How it ended.
    pub outcome: Outcome,
    /// Trailing zero bits of the alignment: its binary logarithm, unless it was refused.
    pub align_log2: u8,
    /// The block that was returned or freed.
    pub address: u64,
    /// The size, or a mark's number.
    pub size: u64,
    /// The block that was resized.
    pub from: u64,
}

impl Entry {
    /// The alignment in bytes.
    #[must_use]
    pub fn align(&self) -> u64 {
        1 << self.align_log2.min(63)
    }

    /// Whether a request was refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.outcome > Outcome::Done
    }
}

/// How numbers are encoded in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writing {
    word_bytes: usize,
    is_big_endian: bool,
}

impl Writing {
    /// The number in the first bytes; if there are fewer, in all of them.
    fn number(self, bytes: &[u8], width: usize) -> u64 {
        let bytes = &bytes[..width.min(bytes.len())];
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        if self.is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
    }

    fn word(self, bytes: &[u8]) -> u64 {
        self.number(bytes, self.word_bytes)
    }

    fn record_bytes(self) -> usize {
        RECORD_WORDS * self.word_bytes
    }
}

/// The content of a ring's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    writing: Writing,
    name: String,
    length: u64,
    first_block: u64,
    fresh: u64,
    base: u64,
    places: u64,
    next: u64,
    count: u64,
}

impl Head {
    /// Reads a head. The bytes begin with the signature; they may be truncated.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Problem> {
        if let Some(&version) = bytes.get(at::VERSION)
            && version != VERSION
        {
            return Err(Problem::Version(version));
        }
        let Some(bytes) = bytes.get(..HEAD_BYTES) else {
            let missing = HEAD_BYTES.saturating_sub(bytes.len()) as u64;
            return Err(Problem::Truncated { needed: HEAD_BYTES as u64, missing });
        };
        let is_big_endian = match [bytes[at::BYTE_ORDER], bytes[at::BYTE_ORDER + 1]] {
            order if order == BYTE_ORDER.to_be_bytes() => true,
            order if order == BYTE_ORDER.to_le_bytes() => false,
            _ => return Err(Problem::Head),
        };
        let writing = Writing { word_bytes: usize::from(bytes[at::WORD_BYTES]), is_big_endian };
        let long = |at: usize| writing.number(&bytes[at..], 8);
        if !bytes.starts_with(&MAGIC) || long(at::CHECKSUM) != layout::hash(&bytes[..at::CHECKSUM]) {
            return Err(Problem::Head);
        }
        if !matches!(writing.word_bytes, 4 | 8) {
            return Err(Problem::Impossible("its machine words have neither 4 nor 8 bytes"));
        }
        if writing.number(&bytes[at::HEAD_BYTES..], 4) != HEAD_BYTES as u64 {
            return Err(Problem::Impossible("its head has the wrong length"));
        }
        let word = |at: usize| writing.word(&bytes[at..]);
        let name = bytes[at::NAME..][..layout::NAME_BYTES].split(|&byte| byte == 0).next().unwrap_or_default();
        let head = Head {
            writing,
            name: String::from_utf8_lossy(name).chars().filter(|letter| !letter.is_control()).collect(),
            length: word(at::LENGTH),
            first_block: word(at::FIRST_BLOCK),
            fresh: long(at::FRESH),
            base: word(at::BASE),
            places: word(at::PLACES),
            next: word(at::NEXT),
            count: long(at::COUNT),
        };
        head.verify()?;
        Ok(head)
    }

    fn verify(&self) -> Result<(), Problem> {
        if self.places < 2 || self.ring_bytes().is_none() {
            return Err(Problem::Impossible("the ring has too many places"));
        }
        if self.next >= self.places {
            return Err(Problem::Impossible("the next place is outside the ring"));
        }
        // Between two stores of an operation the next place is one ahead.
        let expected = [self.count, self.count.wrapping_add(1)].map(|count| count % self.places);
        if !expected.contains(&self.next) {
            return Err(Problem::Impossible("the next place and the number of records contradict each other"));
        }
        Ok(())
    }

    /// Bytes of head and ring, if they fit an address space.
    fn ring_bytes(&self) -> Option<u64> {
        let records = self.places.checked_mul(self.writing.record_bytes() as u64)?;
        records.checked_add(HEAD_BYTES as u64).filter(|&bytes| i64::try_from(bytes).is_ok())
    }

    /// Bytes of head and ring.
    pub(super) fn needed(&self) -> u64 {
        self.ring_bytes().unwrap_or(u64::MAX)
    }
}

/// A ring that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    /// Name of the allocator, from its contract.
    pub name: String,
    /// Bits of a machine word: 32 or 64.
    pub bits: u32,
    /// Whether the most significant byte comes first.
    pub is_big_endian: bool,
    /// Address of the first byte of the heap's region.
    pub base: u64,
    /// Length of the heap's region.
    pub length: u64,
    /// Offset of the heap's first block from the region's start.
    pub first_block: u64,
    /// Hash of the fresh heap's blocks ([`layout::Fresh`]).
    pub fresh: u64,
    /// Operations that the ring keeps.
    pub capacity: u64,
    /// Total number of operations and marks recorded.
    pub count: u64,
    /// The records in the ring, in order.
    pub entries: Vec<Entry>,
    /// The operation in progress.
    pub under_way: Option<Entry>,
    /// Number of records that cannot be read.
    pub damaged: u64,
    /// Number of the first damaged record.
    pub first_damaged: Option<Number>,
}

impl Ring {
    /// Reads a ring from the bytes that begin with its head, which was read already.
    pub(super) fn read(head: &Head, bytes: &[u8]) -> Result<Self, Problem> {
        let needed = head.needed();
        if (bytes.len() as u64) < needed {
            return Err(Problem::Truncated { needed, missing: needed - bytes.len() as u64 });
        }
        let writing = head.writing;
        let record = |number: Number, is_under_way: bool| {
            let place = (number % head.places) as usize;
            let bytes = &bytes[HEAD_BYTES + place * writing.record_bytes()..];
            entry(writing, bytes, number).filter(|entry| (entry.outcome == Outcome::UnderWay) == is_under_way)
        };
        let capacity = head.places - 1;
        let first = head.count.saturating_sub(capacity);
        let mut entries = Vec::new();
        let mut first_damaged = None;
        for number in first..head.count {
            match record(number, false) {
                Some(entry) => entries.push(entry),
                None => {
                    first_damaged.get_or_insert(number);
                }
            }
        }
        let damaged = head.count - first - entries.len() as u64;
        if damaged > 0 && entries.is_empty() {
            return Err(Problem::Records(damaged));
        }
        Ok(Ring {
            name: head.name.clone(),
            bits: 8 * writing.word_bytes as u32,
            is_big_endian: writing.is_big_endian,
            base: head.base,
            length: head.length,
            first_block: head.first_block,
            fresh: head.fresh,
            capacity,
            count: head.count,
            entries,
            // Otherwise the next place holds the oldest record, or half of another.
            under_way: record(head.count, true),
            damaged,
            first_damaged,
        })
    }

    /// Number of records that were overwritten by later ones.
    #[must_use]
    pub fn overwritten(&self) -> u64 {
        self.count.saturating_sub(self.capacity)
    }

    /// Whether every operation of the heap is present, from its first on.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.overwritten() == 0 && self.damaged == 0
    }
}

/// Reads a record, if there is one of this number.
fn entry(writing: Writing, bytes: &[u8], number: Number) -> Option<Entry> {
    let mut words = bytes.chunks(writing.word_bytes).map(|word| writing.word(word));
    let mut word = || words.next().unwrap_or_default();
    let (what, address, size, from) = (word(), word(), word(), word());
    let number_bits = 8 * writing.word_bytes as u32 - NUMBER_SHIFT;
    if (what >> NUMBER_SHIFT ^ number) & ((1 << number_bits) - 1) != 0 {
        return None;
    }
    let byte = |shift: u32| (what >> shift & 0xFF) as usize;
    let kind = match byte(0) {
        kind::ALLOCATE => Kind::Allocate,
        kind::DEALLOCATE => Kind::Deallocate,
        kind::REALLOCATE => Kind::Reallocate,
        kind::MARK => Kind::Mark,
        kind::ADD_REGION => Kind::AddRegion,
        kind::REMOVE_REGION => Kind::RemoveRegion,
        _ => return None,
    };
    let outcome = match byte(OUTCOME_SHIFT) {
        outcome::UNDER_WAY => Outcome::UnderWay,
        outcome::DONE => Outcome::Done,
        outcome::ZERO_SIZE => Outcome::ZeroSize,
        outcome::ALIGNMENT => Outcome::Alignment,
        outcome::TOO_LARGE => Outcome::TooLarge,
        outcome::EXHAUSTED => Outcome::Exhausted,
        outcome::PENDING => Outcome::Pending,
        outcome::MISUSED => Outcome::Misused,
        outcome::QUOTA => Outcome::Quota,
        outcome::INJECTED => Outcome::Injected,
        _ => return None,
    };
    let align_log2 = byte(ALIGN_SHIFT) as u8;
    let entry = Entry { number, kind, outcome, align_log2, address, size, from };
    is_possible(&entry, writing).then_some(entry)
}

/// Whether a recorder can write such a record.
fn is_possible(entry: &Entry, writing: Writing) -> bool {
    let asks = matches!(entry.kind, Kind::Allocate | Kind::Reallocate);
    let bits = 8 * writing.word_bytes as u8;
    match entry.outcome {
        Outcome::UnderWay => true,
        // A block has at least a byte and at most half of the address space, at an alignment that is a power of two.
        Outcome::Done if asks => (1..1 << (bits - 1)).contains(&entry.size) && entry.align_log2 < bits,
        Outcome::Done => true,
        // Only requests are refused.
        _ => asks,
    }
}
