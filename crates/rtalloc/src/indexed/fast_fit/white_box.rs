//! White-box tests of fast-fit: the shapes of its tree.

extern crate std;
use super::*;
use crate::contract::RegionAllocator;
use crate::mechanism::damage::{flip_every_bit, use_up};
use crate::mechanism::word::Offset16;
use core::mem::MaybeUninit;
use std::vec::Vec;

/// A heap with holes of these sizes at ascending addresses and otherwise full, and the addresses of the holes.
fn holes<A: RegionAllocator<'static>>(sizes: &[usize]) -> (A, Vec<NonNull<u8>>) {
    let bytes = sizes.iter().sum::<usize>() + 48 * sizes.len() + 1000;
    // Zeroed, so that no tags of an earlier test's heap are in it: they would be as valid as this heap's.
    let memory = std::vec![MaybeUninit::new(0); bytes].leak();
    let mut heap = A::new(memory, A::Config::default()).unwrap();
    let mut holes = Vec::new();
    for &size in sizes {
        holes.push(heap.allocate_bytes(size, 1).unwrap());
        heap.allocate_bytes(1, 1).unwrap();
    }
    heap.allocate_bytes(heap.largest_allocatable(), 1).unwrap();
    (heap, holes)
}

/// Frees blocks in this order.
fn free<'a, A: RegionAllocator<'static>>(heap: &mut A, blocks: impl IntoIterator<Item = &'a NonNull<u8>>) {
    for &block in blocks {
        // SAFETY: the block is live.
        unsafe { heap.deallocate(block) };
    }
    assert_eq!(heap.check(), Ok(()));
}

/// Number of nodes on the longest path of the tree, computed from the links in the fingerprint.
fn depth<A: RegionAllocator<'static>>(heap: &A) -> usize {
    let mut words = Vec::new();
    heap.fingerprint(&mut |word| words.push(word));
    let mut words = words.into_iter();
    let root = words.next().unwrap();
    let mut base = None;
    let mut children = std::collections::HashMap::new();
    while let (Some(address), Some(size)) = (words.next(), words.next()) {
        let base = *base.get_or_insert(address - Offset32::GRANULE);
        if size & 1 != 0 {
            children.insert(address - base, [words.next().unwrap(), words.next().unwrap()]);
        }
    }
    let mut level = std::vec![root];
    let mut depth = 0;
    while !level.is_empty() {
        depth += 1;
        level = level.iter().flat_map(|node| children[node]).filter(|&child| child != NULL.bytes()).collect();
    }
    depth
}

#[test]
fn damage_of_the_policy_is_found_and_not_followed() {
    type Policy = Fast<BetterFit, Offset32>;
    let all = 0..size_of::<Policy>();
    flip_every_bit::<FastFit<'static>>(1 << 14, all.end, &[all], use_up);
}

/// An unaligned link, written over a free block, is not followed.
#[test]
fn a_link_off_the_granule_is_a_contradiction() {
    let (mut heap, blocks) = holes::<FastFit<'static>>(&[60, 60, 60]);
    free(&mut heap, &blocks[..1]);
    let link: *mut u32 = core::ptr::with_exposed_provenance_mut(blocks[0].addr().get() + Offset32::BYTES);
    // SAFETY: the block is free, so it begins with links; the old value is restored. The others are live.
    unsafe {
        let whole = link.read();
        link.write(101);
        assert!(heap.check().is_err());
        heap.deallocate(blocks[2]);
        assert_eq!(heap.usable_size(blocks[2]), 60, "nothing is freed where the tree is damaged");
        link.write(whole);
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn the_patterns_of_the_module_make_the_tree_a_path() {
    let equal = [60; 100];
    let (mut heap, blocks) = holes::<FastFit<'static>>(&equal);
    free(&mut heap, &blocks);
    assert_eq!(depth(&heap), 100, "equal sizes, ascending addresses");
    let (mut heap, blocks) = holes::<FastFit<'static>>(&equal);
    free(&mut heap, blocks.iter().rev());
    assert_eq!(depth(&heap), 100, "equal sizes, descending addresses");
    let (mut heap, blocks) = holes::<FastFit<'static>>(&equal);
    let mut middle_first: Vec<_> = (0..100).collect();
    middle_first.sort_by_key(|index: &usize| index.reverse_bits());
    free(&mut heap, middle_first.iter().map(|&index| &blocks[index]));
    assert!(depth(&heap) < 20, "equal sizes, every middle before its ends: {}", depth(&heap));

    let rising: Vec<usize> = (1..=60).map(|number| 16 * number + 12).collect();
    let valley: Vec<usize> = (0..60).map(|index: usize| 16 * (2 * index.abs_diff(30) + index / 30) + 28).collect();
    for sizes in [&rising, &rising.iter().rev().copied().collect(), &valley] {
        let (mut heap, blocks) = holes::<FastFit<'static>>(sizes);
        let mut order: Vec<_> = (0..60).collect();
        order.sort_by_key(|index| index * 37 % 60);
        free(&mut heap, order.iter().map(|&index| &blocks[index]));
        assert_eq!(depth(&heap), 60, "{sizes:?}");
    }
}

#[test]
fn better_fit_goes_to_the_smaller_child_that_is_large_enough() {
    //           (300)
    //          /     \
    //      (200)     (100)
    //      /   \         \
    //   (60)   (120)     (80)
    let (mut heap, blocks) = holes::<FastFit<'static>>(&[60, 200, 120, 300, 100, 80]);
    free(&mut heap, &blocks);
    // 70: to (100) rather than (200), then to (80).
    assert_eq!(heap.allocate_bytes(70, 1), Ok(blocks[5]));
    // 110: (100) is too small, so to (200), then to (120).
    assert_eq!(heap.allocate_bytes(110, 1), Ok(blocks[2]));
    // 60: to (100), not to the exact fit under (200).
    assert_eq!(heap.allocate_bytes(60, 1), Ok(blocks[4]));
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn leftmost_fit_is_address_ordered_first_fit() {
    let memory = std::vec![MaybeUninit::new(0); 1 << 14].leak();
    let mut heap: LeftmostFastFit<'_> = LeftmostFastFit::new(memory, ()).unwrap();
    let mut live: Vec<NonNull<u8>> = Vec::new();
    let mut random = 1usize;
    for _ in 0..20_000 {
        random = random.wrapping_mul(0x5851_F42D).wrapping_add(0x1405_7B7E) & 0x7FFF_FFFF;
        let number = random >> 8;
        if number.is_multiple_of(2) && !live.is_empty() {
            let block = live.swap_remove(number / 2 % live.len());
            // SAFETY: the block is live.
            unsafe { heap.deallocate(block) };
            continue;
        }
        let size = 1 + number % 300;
        let mut first = None;
        heap.walk(&mut |block| {
            if block.free && block.usable_bytes >= size && first.is_none() {
                first = Some(block.address);
            }
        });
        let block = heap.allocate_bytes(size, 1).ok();
        assert_eq!(block.map(|block| block.addr().get()), first);
        live.extend(block);
    }
    assert_eq!(heap.check(), Ok(()));
}

/// A size has no second copy: a wrong size that leads to another block cannot be detected.
#[test]
fn check_reports_flipped_bits_of_links_and_sizes_that_lead_to_no_block() {
    let (mut heap, blocks) = holes::<FastFit<'static>>(&[60, 200, 120, 300, 100, 80]);
    free(&mut heap, &blocks);
    let mut walked = Vec::new();
    heap.walk(&mut |block| walked.push(block));
    let mut words = std::vec![(walked[0].address - 8, None)];
    for block in &walked {
        words.push((block.address - 4, Some(block)));
        if block.free {
            words.extend([(block.address, None), (block.address + 4, None)]);
        }
    }
    let end = walked[walked.len() - 1].address + walked[walked.len() - 1].size_bytes;
    for (address, header_of) in words {
        for bit in 0..32 {
            let leads_to_a_block = header_of.is_some_and(|block| {
                let place = block.address.wrapping_add(block.size_bytes ^ 1 << bit);
                place == end || walked.iter().any(|other| other.address == place)
            });
            if leads_to_a_block {
                continue;
            }
            let word = core::ptr::with_exposed_provenance_mut::<u32>(address);
            // SAFETY: the word lies in the heap's memory, and no other reference to it is in use.
            let flip = || unsafe { word.write(word.read() ^ 1 << bit) };
            flip();
            assert!(heap.check().is_err(), "bit {bit} of {address:#x}");
            flip();
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn the_smallest_blocks_are_the_documented_ones() {
    assert_eq!(FastFit::<Offset16>::CONTRACT.min_block_bytes, 8);
    #[cfg(target_pointer_width = "64")]
    {
        use crate::mechanism::word::Wide;
        assert_eq!(FastFit::<Offset32>::CONTRACT.min_block_bytes, 16);
        assert_eq!(FastFit::<Wide>::CONTRACT.min_block_bytes, 32);
    }
}
