//! The two decoders, on all encodings of two bytes and on many of four, alone and in if-then blocks.

use super::cores::Kind;
use super::second;
use crate::arch::tests::{Code, agree, random};
use crate::arch::{Arch, Core, Decoder};
use std::collections::BTreeMap;

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
fn decoders_agree_on_what_cores_distinguish() {
    let mut random = random();
    let wide = [0xf000, 0xf380, 0xf3ef, 0xf3bf];
    let pairs = (0..400_000).map(|_| {
        let (word, any) = (random(), 0xe800 + random() as u16 % 0x1800);
        let first = *wide.get(word as usize >> 16 & 7).unwrap_or(&any);
        let near_special = first != any && random() & 1 == 0;
        let second = if near_special { 0x8000 | word as u16 & 0x0f7f } else { word as u16 };
        [first + (first != any) as u16 * (word >> 24) as u16 % 16, second]
    });
    let (mut known, mut disputed) = (BTreeMap::new(), Vec::new());
    for halves in (0..0xe800).map(|half| [half, NOP]).chain(pairs) {
        let code = Code { arch: Arch::THUMB, bytes: bytes(&halves) };
        // What one of them does not know has no cost. The second decoder also reads what Armv6-M lacks.
        let (one, other) = (Kind::of(&code.bytes), second::kind(&code, Code::START).map(|(kind, _)| kind));
        if let (Some(one), Some(other)) = (one, other) {
            assert_eq!(one, other, "{halves:x?}: {:?}", second::text(&code, Code::START));
            *known.entry(format!("{one:?}").split('(').next().map(str::to_owned)).or_insert(0) += 1;
        } else if halves[0] < 0xe800 && one.is_some() {
            disputed.push(halves[0]);
        }
    }
    assert_eq!(disputed, [0; 0], "{disputed:x?}");
    assert!(known.len() == 9 && known.values().all(|instructions| *instructions >= 60), "{known:?}");
}

/// The manuals' tables, by instructions of their groups, with the cycles of Cortex-M0 and Cortex-M0+.
#[test]
fn cores_take_the_cycles_of_their_manuals() {
    let rows: [(&str, &[u16], u64, [i64; 2]); 41] = [
        ("adds r0, r0, r1", &[0x1840], 2, [1, 1]),
        ("movs r0, #1", &[0x2001], 2, [1, 1]),
        ("mov r8, r0", &[0x4680], 2, [1, 1]),
        ("mov pc, r0", &[0x4687], 8, [3, 2]),
        ("add r8, r0", &[0x4480], 2, [1, 1]),
        ("add pc, r0", &[0x4487], 8, [3, 2]),
        ("add sp, #8", &[0xb002], 2, [1, 1]),
        ("add r0, sp, #0", &[0xa800], 2, [1, 1]),
        ("adr r0, #0", &[0xa000], 2, [1, 1]),
        ("cmp r0, #1", &[0x2801], 2, [1, 1]),
        ("tst r0, r1", &[0x4208], 2, [1, 1]),
        ("lsls r0, r1, #1", &[0x0048], 2, [1, 1]),
        ("rors r0, r1", &[0x41c8], 2, [1, 1]),
        ("muls r0, r1, r0", &[0x4348], 2, [1, 1]),
        ("ldrsh r0, [r1, r2]", &[0x5e88], 2, [2, 2]),
        ("ldrb r0, [r1]", &[0x7808], 2, [2, 2]),
        ("ldr r0, [sp]", &[0x9800], 2, [2, 2]),
        ("strh r0, [r1]", &[0x8008], 2, [2, 2]),
        ("stm r0!, {r1, r2}", &[0xc006], 2, [3, 3]),
        ("push {r4}", &[0xb410], 2, [2, 2]),
        ("sxtb r0, r1", &[0xb248], 2, [1, 1]),
        ("revsh r0, r1", &[0xbac8], 2, [1, 1]),
        ("sev", &[0xbf40], 2, [1, 1]),
        ("blx r3", &[0x4798], 8, [3, 2]),
        ("ldr r0, [r1]", &[0x6808], 2, [2, 2]),
        ("strb r0, [r1, r2]", &[0x5488], 2, [2, 2]),
        ("ldr r0, [pc, #0]", &[0x4800], 2, [2, 2]),
        ("push {r4, r5, r6, r7, lr}", &[0xb5f0], 2, [6, 6]),
        ("pop {r4, r5}", &[0xbc30], 2, [3, 3]),
        ("ldm r0!, {r1, r2, r3}", &[0xc80e], 2, [4, 4]),
        ("beq, not taken", &[0xd002], 2, [1, 1]),
        ("beq, taken", &[0xd002], 8, [3, 2]),
        ("b", &[0xe002], 8, [3, 2]),
        ("bl", &[0xf000, 0xf800], 4, [4, 3]),
        ("mrs r0, primask", &[0xf3ef, 0x8010], 4, [4, 3]),
        ("msr primask, r0", &[0xf380, 0x8810], 4, [4, 3]),
        ("dsb", &[0xf3bf, 0x8f4f], 4, [4, 3]),
        ("dmb", &[0xf3bf, 0x8f5f], 4, [4, 3]),
        ("isb", &[0xf3bf, 0x8f6f], 4, [4, 3]),
        ("cpsid i", &[0xb672], 2, [1, 1]),
        ("nop", &[0xbf00], 2, [1, 1]),
    ];
    let cores = ["cortex-m0", "cortex-m0+"].map(|name| Core::find(name).expect("a core"));
    let cycles = |core: &Core, halves: &[u16], next: Option<u64>| {
        let code = Code { arch: Arch::THUMB, bytes: bytes(&[halves, &[NOP; 8]].concat()) };
        let by = |decoder| core.0.cost(decoder, &code, Code::START, next, None).map(|cost| (cost.least, cost.most));
        assert_eq!(by(Decoder::First), by(Decoder::Second), "{halves:x?}");
        by(Decoder::First)
    };
    for (text, halves, next, expected) in rows {
        let found = cores.each_ref().map(|core| cycles(core, halves, Some(Code::START + next)));
        // The single-cycle port of Cortex-M0+.
        let least = [0, i64::from(text.starts_with("ldr") || text.starts_with("str"))];
        let expected = [0, 1].map(|core: usize| Some((expected[core] - least[core], expected[core])));
        assert_eq!(found, expected, "{text}");
    }
    // `bx lr`, `pop {r4, pc}`; then `it`, `udiv`, `cbz`, `msr basepri`, which Armv6-M lacks, and `wfi`, which waits.
    assert_eq!(cores.each_ref().map(|core| cycles(core, &[0x4770], None)), [Some((3, 3)), Some((2, 2))]);
    assert_eq!(cores.each_ref().map(|core| cycles(core, &[0xbd10], None)), [Some((6, 6)), Some((5, 5))]);
    for halves in [&[0xbf08][..], &[0xfbb0, 0xf0f1], &[0xb100], &[0xf380, 0x8811], &[0xbf30]] {
        let next = Some(Code::START + 2 * halves.len() as u64);
        assert_eq!(cycles(&cores[0], halves, next), None, "{halves:x?}");
    }
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
