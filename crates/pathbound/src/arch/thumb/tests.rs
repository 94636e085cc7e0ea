//! The two decoders, on all encodings of two bytes and on many of four, alone and in if-then blocks.

use super::cores::Version;
use super::{decode, second};
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
    for (version, kinds) in [(Version::Armv6M, 15), (Version::Armv7M, 22)] {
        let mut random = random();
        let wide = [0xf000, 0xf380, 0xf3ef, 0xf3bf, 0xf3af, 0xfa80, 0xfb80];
        let pairs = (0..800_000).map(|_| {
            let (word, any) = (random(), 0xe800 + random() as u16 % 0x1800);
            let first = *wide.get(word as usize >> 16 & 15).unwrap_or(&any);
            let near_special = first != any && random() & 1 == 0;
            let second = if near_special { 0x8000 | word as u16 & 0x7fff } else { word as u16 };
            [first + (first != any) as u16 * (word >> 24) as u16 % 16, second]
        });
        let (mut known, mut disputed) = (BTreeMap::new(), Vec::new());
        for halves in (0..0xe800).map(|half| [half, NOP]).chain(pairs) {
            let code = Code { arch: Arch::THUMB, bytes: bytes(&halves) };
            // What one of them does not know has no cost.
            let one = decode::single(&code, Code::START).and_then(|_| version.kind(&code.bytes));
            let other = second::kind(&code, Code::START, version);
            if let (Some(one), Some(other)) = (one, other) {
                assert_eq!(one, other, "{halves:x?}: {:?}", second::text(&code, Code::START));
                *known.entry(format!("{one:?}").split('(').next().map(str::to_owned)).or_insert(0) += 1;
            } else if halves[0] < 0xe800 && one.is_some() {
                disputed.push(halves[0]);
            }
        }
        assert_eq!(disputed, [0; 0], "{disputed:x?}");
        assert!(known.len() == kinds && known.values().all(|instructions| *instructions >= 2), "{known:?}");
    }
}

/// The least and most cycles of the instruction at the beginning, if the one at an address is next.
fn cycles(core: &Core, halves: &[u16], next: Option<u64>) -> Option<(i64, i64)> {
    cycles_at(core, halves, 0, next)
}

/// The same of the instruction at an offset.
fn cycles_at(core: &Core, halves: &[u16], offset: u64, next: Option<u64>) -> Option<(i64, i64)> {
    let code = Code { arch: Arch::THUMB, bytes: bytes(&[halves, &[NOP; 8]].concat()) };
    let by =
        |decoder| core.cycles_by(decoder, &code, Code::START + offset, next, None).map(|cost| (cost.least, cost.most));
    assert_eq!(by(Decoder::First), by(Decoder::Second), "{halves:x?}");
    by(Decoder::First)
}

/// The manuals' tables, by instructions of their groups, with the cycles of Cortex-M3 and Cortex-M4: where the tables
/// have a range or the load/store timings add to them, the most.
#[test]
fn larger_cores_take_the_cycles_of_their_manuals() {
    let rows: [(&str, &[u16], u64, [i64; 2]); 47] = [
        ("adds r0, r0, r1", &[0x1840], 2, [1, 1]),
        ("add.w r0, r1, r2, lsl #3", &[0xeb01, 0x00c2], 4, [1, 1]),
        ("add.w r0, r1, #1", &[0xf101, 0x0001], 4, [1, 1]),
        ("movw r0, #1", &[0xf240, 0x0001], 4, [1, 1]),
        ("movt r0, #1", &[0xf2c0, 0x0001], 4, [1, 1]),
        ("cmp.w r0, #1", &[0xf1b0, 0x0f01], 4, [1, 1]),
        ("mov pc, r0", &[0x4687], 8, [4, 4]),
        ("muls r0, r1, r0", &[0x4348], 2, [1, 1]),
        ("mul r0, r1, r2", &[0xfb01, 0xf002], 4, [1, 1]),
        ("mla r0, r1, r2, r3", &[0xfb01, 0x3002], 4, [2, 1]),
        ("mls r0, r1, r2, r3", &[0xfb01, 0x3012], 4, [2, 1]),
        ("umull r0, r1, r2, r3", &[0xfba2, 0x0103], 4, [5, 1]),
        ("smlal r0, r1, r2, r3", &[0xfbc2, 0x0103], 4, [7, 1]),
        ("udiv r0, r1, r2", &[0xfbb1, 0xf0f2], 4, [12, 12]),
        ("ssat r0, #8, r1", &[0xf301, 0x0007], 4, [1, 1]),
        ("ubfx r0, r1, #2, #3", &[0xf3c1, 0x0082], 4, [1, 1]),
        ("bfi r0, r1, #2, #3", &[0xf361, 0x0084], 4, [1, 1]),
        ("clz r0, r1", &[0xfab1, 0xf081], 4, [1, 1]),
        ("rbit r0, r1", &[0xfa91, 0xf0a1], 4, [1, 1]),
        ("lsl.w r0, r1, r2", &[0xfa01, 0xf002], 4, [1, 1]),
        ("uxtb.w r0, r1", &[0xfa5f, 0xf081], 4, [1, 1]),
        ("ldr r0, [r1]", &[0x6808], 2, [4, 4]),
        ("ldr.w r0, [r1, r2, lsl #2]", &[0xf851, 0x0022], 4, [4, 4]),
        ("ldr.w r0, [pc, #4]", &[0xf8df, 0x0004], 4, [3, 3]),
        ("str.w r0, [r1, #4]!", &[0xf841, 0x0f04], 4, [3, 3]),
        ("strb.w r0, [r1, #400]", &[0xf881, 0x0190], 4, [3, 3]),
        ("ldrd r0, r1, [r2]", &[0xe9d2, 0x0100], 4, [6, 6]),
        ("strd r0, r1, [r2, #8]", &[0xe9c2, 0x0102], 4, [4, 4]),
        ("ldrex r0, [r1]", &[0xe851, 0x0f00], 4, [4, 4]),
        ("strex r0, r1, [r2]", &[0xe842, 0x1000], 4, [3, 3]),
        ("clrex", &[0xf3bf, 0x8f2f], 4, [1, 1]),
        ("push.w {r4, r8, lr}", &[0xe92d, 0x4110], 4, [5, 5]),
        ("ldm.w r0, {r4, r8}", &[0xe890, 0x0110], 4, [6, 6]),
        ("pop.w {r4, r8}", &[0xe8bd, 0x0110], 4, [4, 4]),
        ("pop.w {r4, r8, pc}", &[0xe8bd, 0x8110], 8, [11, 11]),
        ("ldr pc, [r0]", &[0xf8d0, 0xf000], 8, [7, 7]),
        ("tbb [r0, r1]", &[0xe8d0, 0xf001], 8, [8, 8]),
        ("b.w", &[0xf000, 0xb802], 8, [4, 4]),
        ("beq.w, not taken", &[0xf000, 0x8002], 4, [1, 1]),
        ("beq.w, taken", &[0xf000, 0x8002], 8, [4, 4]),
        ("cbz, not taken", &[0xb110], 2, [1, 1]),
        ("cbz, taken", &[0xb110], 8, [4, 4]),
        ("bl", &[0xf000, 0xf800], 4, [4, 4]),
        ("mrs r0, basepri", &[0xf3ef, 0x8011], 4, [2, 2]),
        ("cpsid i", &[0xb672], 2, [2, 2]),
        ("nop.w", &[0xf3af, 0x8000], 4, [1, 1]),
        ("it eq", &[0xbf08], 2, [1, 1]),
    ];
    let cores = ["cortex-m3", "cortex-m4"].map(|name| Core::find(name).expect("a core"));
    for (text, halves, next, expected) in rows {
        let most = cores.each_ref().map(|core| cycles(core, halves, Some(Code::START + next)).map(|(_, most)| most));
        // The second half of an instruction of four bytes may lie in another word.
        let expected = expected.map(|most| Some(most + i64::from(halves.len() == 2)));
        assert_eq!(most, expected, "{text}");
    }
    // `qadd16` is of Armv7E-M. Barriers have no limit; the floating-point unit and `wfi` are not in the model.
    assert_eq!(
        cores.each_ref().map(|core| cycles(core, &[0xfa91, 0xf012], Some(Code::START + 4))),
        [None, Some((1, 2))]
    );
    for halves in [&[0xf3bf, 0x8f4f][..], &[0xee30, 0x0a01], &[0xbf30]] {
        assert_eq!(cycles(&cores[1], halves, Some(Code::START + 2 * halves.len() as u64)), None, "{halves:x?}");
    }
    // `it eq; bxeq lr`: the failed branch counts as the taken one.
    let block = [0xbf08, 0x4770];
    assert_eq!(cycles_at(&cores[0], &block, 2, Some(Code::START + 4)), Some((1, 4)));
    assert_eq!(cycles_at(&cores[0], &block, 3, None), Some((1, 4)));
    assert_eq!(cycles(&cores[0], &block, Some(Code::START + 3)), Some((0, 1)));
}

/// Words of code that are touched, two more where code may be requested in vain, and words that are loaded.
#[test]
fn wait_states_delay_every_request() {
    let rows: [(&[u16], u64, i64); 10] = [
        // `ldr r0, [r1]`: perhaps a constant; `str r0, [r1]`.
        (&[0x6808], 0, 4),
        (&[0x6008], 0, 1),
        (&[0x1840], 0, 1),
        (&[0xeb01, 0x00c2], 0, 1),
        (&[NOP, 0xeb01, 0x00c2], 2, 2),
        (&[0xd002], 0, 3),
        (&[0x4770], 0, 3),
        (&[NOP, 0xf000, 0xb802], 2, 4),
        (&[0x4800], 0, 4),
        (&[0xe8df, 0xf001], 0, 6),
    ];
    assert!(Core::find("ibex-small").is_some_and(|core| core.with_wait_states(1).is_err()));
    let fast = Core::find("cortex-m4").expect("a core");
    let slow = fast.with_wait_states(5).expect("a model with wait states");
    assert_eq!(Core::find(&slow.to_string()), Some(slow));
    assert!(slow.conditions().contains("5 wait states") && !fast.conditions().contains('{'));
    for (halves, offset, waits) in rows {
        let next = Some(Code::START + 2 * halves.len() as u64).filter(|_| halves != [0x4770]);
        let [one, other] = [fast, slow].map(|core| cycles_at(&core, halves, offset, next));
        let (one, other) = (one.expect("cycles"), other.expect("cycles"));
        assert_eq!((other.0 - one.0, other.1 - one.1), (0, 5 * waits), "{halves:x?}");
    }
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
