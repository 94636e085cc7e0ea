//! The two decoders, on all compressed encodings and on many of four bytes.

use crate::arch::Arch;
use crate::arch::tests::{agree, random};

#[test]
fn decoders_agree_on_all_compressed_instructions() {
    for (arch, known) in [(Arch::RV32, 34_000), (Arch::RV64, 38_000)] {
        let agreed = (0..=u16::MAX).filter(|half| half & 3 != 3).filter(|half| {
            let [low, high] = half.to_le_bytes();
            agree(arch, &[low, high, 0, 0], 0)
        });
        let agreed = agreed.count();
        assert!(agreed > known, "{}: {agreed}", arch.name());
    }
}

#[test]
fn decoders_agree_on_words_and_pairs() {
    let mut random = random();
    for arch in [Arch::RV32, Arch::RV64] {
        let known = (0..400_000).filter(|_| agree(arch, &(random() | 3).to_le_bytes(), 0)).count();
        assert!(known > 100_000, "{}: {known}", arch.name());
        // `auipc` and `jalr`, of the same register or of another.
        for number in 0..20_000 {
            let (link, registers) = (number & 1, random());
            let upper = registers >> 5 & 31;
            let other = if number & 2 == 0 { upper } else { registers >> 10 & 31 };
            let first = random() & 0xffff_f000 | upper << 7 | 0x17;
            let second = random() & 0xfff0_0000 | other << 15 | link << 7 | 0x67;
            assert!(agree(arch, &[first.to_le_bytes(), second.to_le_bytes()].concat(), 4));
        }
    }
}
