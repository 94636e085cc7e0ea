//! Fields of instructions.

/// Bits `low` to `high` of a word.
pub(super) const fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

/// One bit of a word.
pub(super) const fn bit(word: u32, place: u32) -> bool {
    word >> place & 1 == 1
}

/// The lowest bits of a word as a signed number.
pub(super) const fn signed(word: u32, bits: u32) -> i64 {
    ((word << (32 - bits)).cast_signed() >> (32 - bits)) as i64
}
