//! The byte of a leaf: whether a block begins there, and its length.
//!
//! ```text
//! bit       7      6         5        4..0
//!         [live][trimmed][parity][floor(log2(leaves))]    of a block's first leaf
//!         [ 0  ][parity ][ six bits of the leaves    ]    of the leaves after it, if the block is trimmed
//! ```
//!
//! A block of a power of two of leaves has the first byte alone. A trimmed one has at least three leaves, whose bytes
//! hold its length: they belong to the block, and none can be mistaken for the byte of a block's first leaf. Any single
//! flipped bit is detected: the parity of a byte is then odd, or the live bit is clear.

/// A block begins at the leaf, and is live.
pub(super) const LIVE: u8 = 1 << 7;
/// The length of the block is in the bytes of its next leaves.
pub(super) const TRIMMED: u8 = 1 << 6;
const PARITY: u8 = 1 << 5;
const ORDER: u8 = PARITY - 1;
/// Bits of the length in a byte after the first.
const DIGIT_BITS: usize = 6;
const DIGIT: u8 = (1 << DIGIT_BITS) - 1;
const DIGIT_PARITY: u8 = 1 << DIGIT_BITS;
/// No block begins at the leaf.
pub(super) const NONE: u8 = 0;

/// The largest order that fits a byte.
pub(super) const LAST_ORDER: usize = ORDER as usize;

/// Whether an odd number of bits is set.
#[inline(always)]
const fn is_odd(byte: u8) -> bool {
    // The parity of each number below sixteen.
    0x6996 >> ((byte ^ byte >> 4) & 15) & 1 != 0
}

/// The byte of the first leaf of a block of `2^order` leaves, or of more, less than twice that, if it is trimmed.
#[inline(always)]
pub(super) const fn first(order: usize, trimmed: u8) -> u8 {
    let byte = LIVE | trimmed | order as u8;
    if is_odd(byte) { byte | PARITY } else { byte }
}

/// The order in the byte of a live block's first leaf; `None` if [`first`] does not produce this byte.
#[inline(always)]
pub(super) const fn order(byte: u8) -> Option<usize> {
    if is_odd(byte) || byte & LIVE == 0 { None } else { Some((byte & ORDER) as usize) }
}

/// How many bytes after the first hold the length of a trimmed block of that order.
#[inline(always)]
pub(super) const fn digits(order: usize) -> usize {
    order / DIGIT_BITS + 1
}

/// Byte number `digit` after the first, for a block of this many leaves.
#[inline(always)]
pub(super) const fn digit(leaves: usize, digit: usize) -> u8 {
    let byte = (leaves >> (digit * DIGIT_BITS)) as u8 & DIGIT;
    if is_odd(byte) { byte | DIGIT_PARITY } else { byte }
}

/// The part of the length in byte number `digit` after the first; `None` if [`digit`] does not produce this byte.
#[inline(always)]
pub(super) const fn value(byte: u8, digit: usize) -> Option<usize> {
    if is_odd(byte) || byte & LIVE != 0 { None } else { Some(((byte & DIGIT) as usize) << (digit * DIGIT_BITS)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_encoded_and_every_flipped_bit_detected() {
        for leaves in (1..5000_usize).chain([1 << 20, (1 << 31) - 1, 0x5555_5555]) {
            let floor = leaves.ilog2() as usize;
            let trimmed = if leaves.is_power_of_two() { 0 } else { TRIMMED };
            let byte = first(floor, trimmed);
            assert_eq!(order(byte), Some(floor));
            assert!((0..8).all(|bit| order(byte ^ 1 << bit).is_none()), "{leaves}");
            if trimmed != 0 {
                assert!(digits(floor) < leaves, "{leaves} leaves have room for their number");
                let read: usize = (0..digits(floor)).map(|number| value(digit(leaves, number), number).unwrap()).sum();
                assert_eq!(read, leaves);
                for number in 0..digits(floor) {
                    assert!((0..8).all(|bit| value(digit(leaves, number) ^ 1 << bit, number).is_none()));
                    assert_eq!(order(digit(leaves, number)), None);
                }
            }
        }
    }
}
