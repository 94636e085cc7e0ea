//! The byte that a leaf has: whether a block begins there, and how long it is.
//!
//! ```text
//! bit       7      6         5        4..0
//!         [live][trimmed][parity][floor(log2(leaves))]    of a block's first leaf
//!         [ 0  ][parity ][ six bits of the leaves    ]    of those behind it, if the block is trimmed
//! ```
//!
//! A block of a power of two of leaves has the first byte alone. A trimmed one has three leaves at least, whose bytes tell
//! how many leaves it has: they are its own, and none of them can be taken for the byte of a block's first leaf. Any one
//! bit that is changed is noticed: the parity of a byte is then odd, or the live bit is gone.

/// A block begins at the leaf, and is live.
pub(super) const LIVE: u8 = 1 << 7;
/// How many leaves the block has is told by the bytes of its next leaves.
pub(super) const TRIMMED: u8 = 1 << 6;
const PARITY: u8 = 1 << 5;
const ORDER: u8 = PARITY - 1;
/// Bits of a number in a byte behind the first.
const DIGIT_BITS: usize = 6;
const DIGIT: u8 = (1 << DIGIT_BITS) - 1;
const DIGIT_PARITY: u8 = 1 << DIGIT_BITS;
/// No block begins at the leaf.
pub(super) const NONE: u8 = 0;

/// The largest order that a byte can tell.
pub(super) const LAST_ORDER: usize = ORDER as usize;

/// Whether an odd number of bits is set.
#[inline(always)]
const fn is_odd(byte: u8) -> bool {
    // The parity of each number below sixteen.
    0x6996 >> ((byte ^ byte >> 4) & 15) & 1 != 0
}

/// The byte of the first leaf of a block of `2^order` leaves, or of that many and some more if it is trimmed.
#[inline(always)]
pub(super) const fn first(order: usize, trimmed: u8) -> u8 {
    let byte = LIVE | trimmed | order as u8;
    if is_odd(byte) { byte | PARITY } else { byte }
}

/// The order that the byte of a live block's first leaf tells, or nothing if it is not as [`first`] makes one.
#[inline(always)]
pub(super) const fn order(byte: u8) -> Option<usize> {
    if is_odd(byte) || byte & LIVE == 0 { None } else { Some((byte & ORDER) as usize) }
}

/// How many bytes behind the first a trimmed block of that order has for its length.
#[inline(always)]
pub(super) const fn digits(order: usize) -> usize {
    order / DIGIT_BITS + 1
}

/// The byte number `digit` behind the first for a block of so many leaves.
#[inline(always)]
pub(super) const fn digit(leaves: usize, digit: usize) -> u8 {
    let byte = (leaves >> (digit * DIGIT_BITS)) as u8 & DIGIT;
    if is_odd(byte) { byte | DIGIT_PARITY } else { byte }
}

/// What the byte number `digit` behind the first adds to the number of leaves; nothing if it is not as [`digit`] makes one.
#[inline(always)]
pub(super) const fn value(byte: u8, digit: usize) -> Option<usize> {
    if is_odd(byte) || byte & LIVE != 0 { None } else { Some(((byte & DIGIT) as usize) << (digit * DIGIT_BITS)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_told_and_every_flipped_bit_noticed() {
        for leaves in (1..5000_usize).chain([1 << 20, (1 << 31) - 1, 0x5555_5555]) {
            let floor = leaves.ilog2() as usize;
            let trimmed = if leaves.is_power_of_two() { 0 } else { TRIMMED };
            let byte = first(floor, trimmed);
            assert_eq!(order(byte), Some(floor));
            assert!((0..8).all(|bit| order(byte ^ 1 << bit).is_none()), "{leaves}");
            if trimmed != 0 {
                assert!(digits(floor) < leaves, "{leaves} leaves have room for their number");
                let told: usize = (0..digits(floor)).map(|number| value(digit(leaves, number), number).unwrap()).sum();
                assert_eq!(told, leaves);
                for number in 0..digits(floor) {
                    assert!((0..8).all(|bit| value(digit(leaves, number) ^ 1 << bit, number).is_none()));
                    assert_eq!(order(digit(leaves, number)), None);
                }
            }
        }
    }
}
