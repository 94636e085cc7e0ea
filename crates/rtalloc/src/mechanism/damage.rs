//! Damage for white-box tests: flips the bits of a policy's own fields, one at a time.

extern crate std;
use crate::contract::RegionAllocator;
use crate::region::round_up;
use core::mem::MaybeUninit;
use core::ops::Range;

/// Makes a heap without statistics in zeroed memory, lets `fill` use it, and flips every bit of the first
/// `policy_bytes` of its policy. `check` must stay within the heap, and must report each flipped bit that lies in one
/// of the ranges `found`.
pub(crate) fn flip_every_bit<A: RegionAllocator<'static>>(
    memory_bytes: usize,
    policy_bytes: usize,
    found: &[Range<usize>],
    fill: impl FnOnce(&mut A),
) {
    let memory = std::vec![MaybeUninit::new(0_u8); memory_bytes].leak();
    let policy = round_up(memory.as_mut_ptr().expose_provenance(), align_of::<usize>()).unwrap();
    let mut heap = A::new(memory, A::Config::default()).unwrap();
    fill(&mut heap);
    assert_eq!(heap.check(), Ok(()));
    for offset in 0..policy_bytes {
        let byte: *mut u8 = core::ptr::with_exposed_provenance_mut(policy + offset);
        for bit in 0..8 {
            // SAFETY: the byte is the policy's, in leaked memory; its value is restored.
            let answer = unsafe {
                let whole = byte.read();
                byte.write(whole ^ 1 << bit);
                let answer = heap.check();
                byte.write(whole);
                answer
            };
            let must_be_found = found.iter().any(|range| range.contains(&offset));
            assert!(answer.is_err() || !must_be_found, "bit {bit} of byte {offset} of {}", A::CONTRACT.name);
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

/// Takes blocks of mixed sizes and frees every third one.
pub(crate) fn use_up<'r, A: RegionAllocator<'r>>(heap: &mut A) {
    let blocks: std::vec::Vec<_> =
        (0..40).map_while(|number| heap.allocate_bytes(1 + number * 37 % 300, 1).ok()).collect();
    // SAFETY: the blocks are live.
    blocks.iter().step_by(3).for_each(|&block| unsafe { heap.deallocate(block) });
}
