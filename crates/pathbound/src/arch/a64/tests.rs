//! The two decoders, on many instructions of every group.

use crate::arch::Arch;
use crate::arch::tests::{agree, random};

#[test]
fn decoders_agree() {
    let mut random = random();
    let mut agreed = [0; 16];
    for number in 0..1_600_000 {
        let group = number % 16;
        let word = random() & !(15 << 25) | group << 25;
        agreed[group as usize] += u32::from(agree(Arch::A64, &word.to_le_bytes(), 0));
    }
    for group in [4, 5, 6, 8, 9, 10, 11, 12, 13, 14] {
        assert!(agreed[group] > 9_000, "{group}: {agreed:?}");
    }
}

/// Branches of registers and exceptions have many fixed bits.
#[test]
fn decoders_agree_on_rare_transfers() {
    for word in [0xd61f_0000_u32, 0xd63f_0000, 0xd65f_0000] {
        for register in 0..32 {
            assert!(agree(Arch::A64, &(word | register << 5).to_le_bytes(), 0));
        }
    }
    for word in [0xd400_0001_u32, 0xd400_0002, 0xd400_0003, 0xd420_0000, 0xd440_0000, 0xd69f_03e0, 0, 1] {
        assert!(agree(Arch::A64, &word.to_le_bytes(), 0), "{word:#x}");
    }
}
