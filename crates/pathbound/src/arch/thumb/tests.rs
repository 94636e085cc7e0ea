//! The two decoders, on all encodings of two bytes and on many of four, alone and in if-then blocks.

use crate::arch::Arch;
use crate::arch::tests::{agree, random};

const NOP: u16 = 0xbf00;

fn bytes(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}

#[test]
fn decoders_agree_on_all_instructions_of_two_bytes() {
    let agreed = (0..0xe800).filter(|half| agree(Arch::THUMB, &bytes(&[*half, NOP, NOP, NOP, NOP]), 0)).count();
    assert!(agreed > 55_000, "{agreed}");
}

#[test]
fn decoders_agree_on_instructions_of_four_bytes() {
    let mut random = random();
    let agreed = (0..1_000_000).filter(|_| {
        let word = random();
        let first = 0xe800 + (word >> 16) as u16 % 0x1800;
        agree(Arch::THUMB, &bytes(&[first, word as u16, NOP]), 0)
    });
    let agreed = agreed.count();
    assert!(agreed > 200_000, "{agreed}");
}

#[test]
fn decoders_agree_in_if_then_blocks() {
    let mut random = random();
    // `it` with one to four instructions, the last of which returns, jumps, calls or adds.
    for number in 0..20_000 {
        let instructions = number % 4 + 1;
        let mut halves = vec![0xbf00 | (random() as u16 & 0xe0) | 8 >> (instructions - 1)];
        for _ in 1..instructions {
            halves.extend(if random() & 1 == 0 { &[0x1840][..] } else { &[0xeb00, 0x0001] });
        }
        let last = 2 * halves.len() as u64;
        halves.extend([&[0x4770][..], &[0xbd10], &[0xf000, 0xf800], &[0x4718], &[0x1840]][random() as usize % 5]);
        halves.push(NOP);
        let code = bytes(&halves);
        assert!((0..=last).step_by(2).filter(|at| agree(Arch::THUMB, &code, *at)).count() as u16 > instructions);
        if halves[last as usize / 2] != 0x1840 {
            assert!(agree(Arch::THUMB, &code, last | 1));
        }
    }
}
