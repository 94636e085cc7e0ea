//! The two decoders, on all compressed encodings and on many of four bytes.

use super::work::Work;
use super::{RiscV, second};
use crate::arch::linked::Registers;
use crate::arch::tests::{Code, agree, random};
use crate::arch::{Arch, Core, Frame as _};

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

#[test]
fn decoders_agree_on_what_cores_distinguish() {
    let mut random = random();
    let halves = (0..=u16::MAX).filter(|half| half & 3 != 3).map(u32::from);
    let words: Vec<u32> = halves.chain((0..2_000_000).map(|_| random() | 3)).collect();
    let mut known = 0;
    for word in words {
        let code = word.to_le_bytes();
        // What one of them does not know has no cost.
        let (one, other) = (Work::of(&code), second::work(&code, 0));
        if let (Some(one), Some(other)) = (one, other) {
            assert_eq!(one, other, "{word:#x}: {:?}", second::text(false, &code, 0));
            known += 1;
        }
    }
    assert!(known > 380_000, "{known}");
}

#[test]
fn a_core_has_no_cycles_for_instructions_that_it_lacks() {
    let cycles = |core: &str, halves: &[u16]| {
        let bytes = halves.iter().chain(&[0x8082]).flat_map(|half| half.to_le_bytes()).collect();
        let code = Code { arch: Arch::RV32, bytes };
        let next = Code::START + 2 * halves.len() as u64;
        Core::find(core).expect("a core").cycles(&code, Code::START, Some(next), None).map(|cost| cost.most)
    };
    // sh1add a0,a0,a0
    let of_zba = ["serv", "picorv32", "ibex-small", "ibex-small-zb"].map(|core| cycles(core, &[0x2533, 0x20a5]));
    assert_eq!(of_zba, [None, None, None, Some(1)]);
    // c.addi a0,1; then mul a0,a0,a0; then add a0,a0,a0 before a compressed instruction.
    assert_eq!(["serv", "ibex-small"].map(|core| cycles(core, &[0x0505])), [None, Some(1)]);
    assert_eq!(["serv", "ibex-small"].map(|core| cycles(core, &[0x0533, 0x02a5])), [None, Some(3)]);
    assert_eq!(["serv", "ibex-small"].map(|core| cycles(core, &[0x0533, 0x00a5])), [None, Some(1)]);
}

/// Executes machine code up to its end; returns whether a return after it would go back to the caller.
fn goes_back<const WIDE: bool>(halves: &[u16]) -> bool {
    let bytes = halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    let code = Code { arch: if WIDE { Arch::RV64 } else { Arch::RV32 }, bytes };
    let (mut frame, mut at) = (Registers::<RiscV<WIDE>>::at_entry(), Code::START);
    while let Some(decoded) = code.arch.decode(&code, at) {
        let _ = frame.execute(&code, at, &mut ());
        at += u64::from(decoded.length);
    }
    assert_eq!(at, Code::START + 2 * halves.len() as u64);
    frame.is_level(&code, at)
}

/// The same after `c.addi sp,-16; c.swsp ra,12(sp)`.
fn goes_back_after_prologue(rest: &[u16]) -> bool {
    goes_back::<false>(&[&[0x1141, 0xc606], rest].concat())
}

#[test]
fn prologues_and_epilogues_restore_the_return_address() {
    assert!(goes_back::<false>(&[]));
    assert!(goes_back::<false>(&[0x1141, 0x0141])); // addi sp,-16; addi sp,16
    assert!(goes_back_after_prologue(&[0x2001, 0x40b2, 0x0141])); // jal; lw ra,12(sp); addi sp,16
    // A frame pointer: sp,-32; sw ra,28(sp); sw s0,24(sp); addi s0,sp,32; jal; addi sp,s0,-32; lw ...; addi sp,32
    let framed = [0x1101, 0xce06, 0xcc22, 0x1000, 0x2001, 0x0113, 0xfe04, 0x40f2, 0x4462, 0x6105];
    assert!(goes_back::<false>(&framed));
    // A large frame: lui t0,0x1; sub sp,sp,t0; lui t0,0x1; add sp,sp,t0
    assert!(goes_back::<false>(&[0x6285, 0x0133, 0x4051, 0x6285, 0x9116]));
    // addi sp,-16; sd ra,8(sp); jal; ld ra,8(sp); addi sp,16
    assert!(goes_back::<true>(&[0x1141, 0xe406, 0x00ef, 0x0000, 0x60a2, 0x0141]));
}

#[test]
fn a_lost_return_address_is_detected() {
    assert!(goes_back_after_prologue(&[0x40b2, 0x0141])); // lw ra,12(sp); addi sp,16
    assert!(!goes_back_after_prologue(&[0x40b2])); // without the stack pointer
    assert!(!goes_back_after_prologue(&[0x2001, 0x0141])); // without the return address
    assert!(!goes_back_after_prologue(&[0xc62a, 0x40b2, 0x0141])); // sw a0,12(sp): overwritten
    assert!(!goes_back_after_prologue(&[0x40a2, 0x0141])); // lw ra,8(sp): another word
    assert!(goes_back_after_prologue(&[0xc42a, 0x40b2, 0x0141])); // sw a0,8(sp): beside it
    assert!(!goes_back::<false>(&[0x8286, 0x2001, 0x8096])); // mv t0,ra; jal; mv ra,t0: t0 is volatile
    assert!(!goes_back::<true>(&[0x1141, 0xc606, 0x40b2, 0x0141])); // half of the return address
}
