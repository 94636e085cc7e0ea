//! Bit searches: the processor's instruction where one exists, loop-free software elsewhere.
//!
//! For the most significant bit, the software finds the highest byte that is not zero, with two tests on 32 bits, and
//! looks its logarithm up in a table of 256 bytes. For the least significant bit, it sets all bits below it, multiplies
//! by a number that spreads these words, and looks the index up in a table of a byte for each bit (after E. Cole and
//! M. Dickinson in S. E. Anderson's *Bit Twiddling Hacks*). That saves instructions; some small cores multiply in 32
//! cycles. Processors without a multiplication clear the other bits and search as for the most significant one. The
//! binary search of the TLSF paper's appendix A has five tests.

use core::num::{NonZeroU64, NonZeroUsize};

/// Whether the target has an instruction that counts leading or trailing zeros. Armv6-M is the only Arm without one. It
/// is also the only Arm without atomic read-modify-write, which is the `cfg` used to detect it.
const HAS_INSTRUCTION: bool = cfg!(any(
    target_arch = "x86",
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "arm", target_has_atomic = "32"),
    all(any(target_arch = "riscv32", target_arch = "riscv64"), target_feature = "zbb"),
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "s390x",
    target_arch = "wasm32",
));

/// Whether a target without such an instruction is known to multiply in one.
const HAS_MULTIPLICATION: bool =
    cfg!(any(target_arch = "arm", all(any(target_arch = "riscv32", target_arch = "riscv64"), target_feature = "m"),));

/// Index of the most significant set bit: floor(log2(value)); `fls` in the papers.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub fn floor_log2(value: NonZeroUsize) -> u32 {
    if HAS_INSTRUCTION { value.ilog2() } else { software_floor_log2(value.get()) }
}

/// As [`floor_log2`], in the register of its operand. `bsr` leaves its destination unchanged if the operand is zero, so
/// it depends on the old value of that register: a load by the previous operation, maybe, which missed the cache.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub fn floor_log2_in_place(value: NonZeroUsize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(target_feature = "lzcnt"), not(miri)))]
    {
        let mut word = value.get();
        // SAFETY: the instruction reads and writes only its operands; the index of a bit is less than their number.
        unsafe {
            core::arch::asm!("bsr {word}, {word}", word = inout(reg) word, options(pure, nomem, nostack));
            core::hint::assert_unchecked(word < u64::BITS as usize);
        }
        word
    }
    #[cfg(any(not(target_arch = "x86_64"), target_feature = "lzcnt", miri))]
    {
        floor_log2(value) as usize
    }
}

/// Index of the least significant set bit; `ffs` in the papers.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub fn first_set(value: NonZeroUsize) -> u32 {
    if HAS_INSTRUCTION { value.trailing_zeros() } else { software_first_set(value.get(), HAS_MULTIPLICATION) }
}

/// [`first_set`] of 64 bits, independent of the machine word.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub fn first_set_of_64(value: NonZeroU64) -> u32 {
    match NonZeroUsize::new(value.get() as usize) {
        Some(low) => first_set(low),
        // SAFETY: the value is not zero and its lower half is, so its upper half is not. A 64-bit `usize` takes the
        // first arm.
        None => usize::BITS + first_set(unsafe { NonZeroUsize::new_unchecked((value.get() >> 32) as usize) }),
    }
}

/// `word` with bit `index` (modulo the word width) set.
///
/// # Time
///
/// Constant. On x86-64, `bts` takes the index in any register; a shift needs its count in `cl`.
#[inline(always)]
pub fn with_bit(word: usize, index: usize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut word = word;
        // SAFETY: the instruction reads and writes only its operands.
        unsafe {
            core::arch::asm!("bts {word}, {index}", word = inout(reg) word, index = in(reg) index, options(pure, nomem, nostack));
        }
        word
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        word | 1usize.wrapping_shl(index as u32)
    }
}

/// `word` with bit `index` (modulo the word width) cleared; see [`with_bit`].
///
/// # Time
///
/// Constant.
#[inline(always)]
pub fn without_bit(word: usize, index: usize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut word = word;
        // SAFETY: the instruction reads and writes only its operands.
        unsafe {
            core::arch::asm!("btr {word}, {index}", word = inout(reg) word, index = in(reg) index, options(pure, nomem, nostack));
        }
        word
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        word & !1usize.wrapping_shl(index as u32)
    }
}

/// All bits except that of `index`, modulo the word width, and the index.
///
/// # Time
///
/// Constant. On x86-64, what is computed from the returned index is computed after the rotation, in the register in
/// which that needs its count.
#[inline(always)]
pub fn all_but(index: usize) -> (usize, usize) {
    let word = !1_usize;
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let (mut word, mut index) = (word, index);
        // SAFETY: the instruction reads and writes only its operands.
        unsafe {
            core::arch::asm!("rol {word}, cl", word = inout(reg) word, inout("rcx") index, options(pure, nomem, nostack));
        }
        (word, index)
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        (word.rotate_left(index as u32), index)
    }
}

/// Returns `word` unchanged, as a value the compiler cannot see through: later tests use it directly and are not
/// rewritten in terms of its inputs, which would take registers.
///
/// # Time
///
/// Constant: no instruction.
#[inline(always)]
pub fn computed(word: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut word = word;
        // SAFETY: the template is a comment and emits no instruction.
        unsafe {
            core::arch::asm!("/* {word} */", word = inout(reg) word, options(pure, nomem, nostack, preserves_flags));
        }
        word
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        word
    }
}

/// The sum of two words and a constant, wrapping. On x86-64 it is one instruction. Compilers make two of it, because some
/// processors take a cycle longer for an address with three parts.
macro_rules! sum_with {
    ($one:expr, $other:expr, $constant:expr) => {{
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let sum: usize;
            // SAFETY: the instruction reads and writes only its operands.
            unsafe {
                core::arch::asm!("lea {sum}, [{one} + {other} + {constant}]", sum = lateout(reg) sum, one = in(reg) $one, other = in(reg) $other, constant = const $constant, options(pure, nomem, nostack, preserves_flags));
            }
            sum
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        {
            usize::wrapping_add($one, $other).wrapping_add_signed($constant)
        }
    }};
}
pub(crate) use sum_with;

/// Returns the address of an array unchanged. On Arm, whose loads take an index or a constant but not both, the compiler
/// then computes it once instead of a constant for each access.
///
/// # Time
///
/// Constant: no instruction.
#[inline(always)]
pub fn array_at(address: usize) -> usize {
    #[cfg(all(target_arch = "arm", not(miri)))]
    {
        let mut address = address;
        // SAFETY: the template is a comment and emits no instruction.
        unsafe {
            core::arch::asm!("/* {address} */", address = inout(reg) address, options(pure, nomem, nostack, preserves_flags));
        }
        address
    }
    #[cfg(any(not(target_arch = "arm"), miri))]
    {
        address
    }
}

/// `floor(log2(value))` without a loop, by the highest byte that is not zero.
fn software_floor_log2(value: usize) -> u32 {
    // Two tests for 32 bits, three for 64.
    if usize::BITS > 32 && value >> (usize::BITS / 2) != 0 {
        return usize::BITS / 2 + of_32_bits(value >> (usize::BITS / 2));
    }
    of_32_bits(value)
}

#[inline(always)]
fn of_32_bits(value: usize) -> u32 {
    let log2 = if value >> 16 == 0 {
        if value >> 8 == 0 { of_byte::<0>(value) } else { of_byte::<8>(value >> 8) }
    } else if value >> 24 == 0 {
        of_byte::<16>(value >> 16)
    } else {
        of_byte::<24>(value >> 24)
    };
    // SAFETY: the value has 32 bits. Shifts by the logarithm need no mask.
    unsafe { core::hint::assert_unchecked(log2 < 32) };
    log2 as u32
}

/// `BELOW + floor(log2(byte))`, in code of its own for each byte of a word: merged, the code would take both numbers
/// from conditional moves, which some processors have only as branches.
#[inline(always)]
fn of_byte<const BELOW: usize>(byte: usize) -> usize {
    // SAFETY: the caller shifted or tested all bits above the byte away.
    unsafe { core::hint::assert_unchecked(byte < 256) };
    let log2 = OF_BYTE[byte] as usize + BELOW;
    #[cfg(all(any(target_arch = "arm", target_arch = "riscv32", target_arch = "riscv64"), not(miri)))]
    {
        let mut log2 = log2;
        // SAFETY: the template is a comment and emits no instruction.
        unsafe {
            core::arch::asm!("/* {log2} {below} */", log2 = inout(reg) log2, below = const BELOW, options(nomem, nostack, preserves_flags));
        }
        log2
    }
    #[cfg(any(not(any(target_arch = "arm", target_arch = "riscv32", target_arch = "riscv64")), miri))]
    log2
}

/// `floor(log2(byte))`.
const OF_BYTE: [u8; 256] = {
    let mut of_byte = [0; 256];
    let mut byte = 1_usize;
    while byte < 256 {
        of_byte[byte] = byte.ilog2() as u8;
        byte += 1;
    }
    of_byte
};

/// The index of the least significant set bit without a loop.
fn software_first_set(value: usize, multiplies: bool) -> u32 {
    if multiplies {
        last_of_ones(value ^ value.wrapping_sub(1))
    } else {
        software_floor_log2(value & value.wrapping_neg())
    }
}

/// The top log2(bits of a word) bits of the product of this number and 2^k - 1 differ for every k.
const SPREAD: usize = if usize::BITS == 64 { 0x03F6_EAF2_CD27_1461_u64 as usize } else { 0x07C4_ACDD };

/// The index of the most significant bit of 2^k - 1, k > 0, by its product with [`SPREAD`].
const LAST: [u8; usize::BITS as usize] = {
    let mut last = [u8::MAX; usize::BITS as usize];
    let mut index = 0;
    while index < usize::BITS {
        let place = spread(usize::MAX >> (usize::BITS - 1 - index));
        assert!(last[place] == u8::MAX, "two words have the same place");
        last[place] = index as u8;
        index += 1;
    }
    last
};

const fn spread(ones: usize) -> usize {
    ones.wrapping_mul(SPREAD) >> (usize::BITS - usize::BITS.ilog2())
}

const fn last_of_ones(ones: usize) -> u32 {
    let last = LAST[spread(ones)] as u32;
    // SAFETY: the table holds the indices of a word's bits. Shifts by them need no mask.
    unsafe { core::hint::assert_unchecked(last < usize::BITS) };
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_of_64_bits_is_found_in_either_half() {
        for bit in 0..64 {
            for value in [1u64 << bit, 1 << bit | 1 << 63, u64::MAX << bit] {
                assert_eq!(first_set_of_64(NonZeroU64::new(value).unwrap()), bit, "{value:#x}");
            }
        }
    }

    #[test]
    fn software_agrees_with_the_instruction_at_every_power_of_two() {
        for bit in 0..usize::BITS {
            let power = 1usize << bit;
            for value in [power, power | 1, power + power / 2, power | (power - 1)] {
                assert_eq!(software_floor_log2(value), value.ilog2(), "{value:#x}");
                let log2 = floor_log2_in_place(NonZeroUsize::new(value).unwrap());
                assert_eq!(log2, value.ilog2() as usize, "{value:#x}");
                for multiplies in [false, true] {
                    assert_eq!(software_first_set(value, multiplies), value.trailing_zeros(), "{value:#x}");
                }
            }
        }
    }
}
