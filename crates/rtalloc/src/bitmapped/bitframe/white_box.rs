//! White-box tests of what the thesis states explicitly.

extern crate std;
use super::page::NO_CLASS;
use super::*;
use crate::contract::RegionAllocator;
use crate::mechanism::damage::{flip_every_bit, use_up};
use core::ptr::NonNull;
use std::{vec, vec::Vec};

/// The thesis' parameters: quantum 8, pages of 16 KB.
type Thesis<'r, F = Frames<8, 8, 0>, const SIZES: usize = 2> = Bitframe<'r, F, Lazy, BITFRAME_PAGE, 8, SIZES>;
type ThesisPage<F = Frames<8, 8, 0>, const SIZES: usize = 2> = Page<F, BITFRAME_PAGE, 8, SIZES>;

/// Calls a test with memory for this many pages of 16 KB.
fn with_memory(pages: usize, test: impl FnOnce(&mut [core::mem::MaybeUninit<u8>])) {
    test(&mut vec![core::mem::MaybeUninit::new(0); (pages + 1) * BITFRAME_PAGE + 4096]);
}

/// The page that contains a block.
fn page_of<F: Shape, const SIZES: usize>(block: NonNull<u8>) -> ThesisPage<F, SIZES> {
    Page::at(pages::Page::of(block.addr().get()))
}

/// 5.4: sixteen size classes of 8 to 512 bytes; 5.7: a request of 65 bytes takes two chunks of 64.
#[test]
fn sizes_are_the_thesis_classes() {
    with_memory(2, |memory| {
        let mut heap: Thesis<'_> = Bitframe::new(memory, ()).unwrap();
        for size_bytes in 1..=512usize {
            let block = heap.allocate_bytes(size_bytes, 1).unwrap();
            let class_bytes = size_bytes.next_multiple_of(if size_bytes <= 64 { 8 } else { 64 });
            // SAFETY: the block is live until it is freed here.
            unsafe {
                assert_eq!(heap.usable_size(block), class_bytes);
                heap.deallocate(block);
            }
        }
        let worst = heap.allocate_bytes(65, 1).unwrap();
        // SAFETY: the block is live.
        assert_eq!(unsafe { heap.usable_size(worst) }, 128);
        assert_eq!(heap.allocate_bytes(513, 1), Err(AllocError::TooLarge));
    });
}

#[test]
fn damage_of_the_policy_is_found_and_not_followed() {
    type Policy = BitframePolicy<Frames<8, 8, 0>, Lazy, BITFRAME_PAGE, 8, 2>;
    let (bits, first) = (core::mem::offset_of!(Policy, class_bits), core::mem::offset_of!(Policy, pool));
    let found = [bits, first].map(|field| field..field + size_of::<usize>());
    flip_every_bit::<Thesis<'static>>(6 * BITFRAME_PAGE, size_of::<Policy>(), &found, use_up);
}

/// 5.2 and 6.2: frames of 4 bytes for 8 chunks; with chunks of 8, 8-bit links can number a page of at most 16 KB.
#[test]
fn frames_and_pages_have_the_thesis_sizes() {
    assert_eq!(size_of::<page::Frame<u8>>(), 4);
    assert_eq!((ThesisPage::<Frames<8, 8, 0>>::frames(0), ThesisPage::<Frames<8, 8, 0>>::frames(1)), (240, 31));
}

/// Figures 12 and 13: a block sets its bits and one termination bit. The frame moves to the list of its longest
/// remaining sequence, and the page to the class of its longest sequence.
#[test]
fn blocks_mark_their_chunks_and_move_their_frame() {
    with_memory(1, |memory| {
        let mut heap: Thesis<'_> = Bitframe::new(memory, ()).unwrap();
        let three = heap.allocate_bytes(24, 1).unwrap();
        let two = heap.allocate_bytes(16, 1).unwrap();
        let page = page_of::<Frames<8, 8, 0>, 2>(three);
        assert_eq!((three.addr().get(), two.addr().get()), (page.start, page.start + 24));
        // SAFETY: the page is in use, and has two initialised frames: the one with blocks, and an empty one.
        unsafe {
            assert_eq!((page.bits(8), page.ends(8)), (0b0001_1111, 0b0001_0100));
            assert_eq!((*page.frame(2)).next, 8, "three chunks are left");
            assert_eq!((*page.frame(7)).next, 9, "the next frame is whole");
            assert_eq!(((*page.footer()).head_bits, (*page.footer()).class), (0b1000_0100, 7));
            assert_eq!(((*page.footer()).started, (*page.footer()).occupied), (2, 1));
            heap.deallocate(three);
            assert_eq!((page.bits(8), page.ends(8)), (0b0001_1000, 0b0001_0000));
            assert_eq!((*page.footer()).head_bits, 0b1000_0100, "three before and three after");
            assert_eq!(heap.allocate_bytes(24, 1), Ok(three));
            heap.deallocate(three);
            heap.deallocate(two);
            assert_eq!((*page.footer()).chunk_log2, 0, "an empty page is returned");
        }
        assert_eq!(heap.check(), Ok(()));
    });
}

/// Number of blocks of a size in a page of 16 KB.
fn blocks_in_a_page<F: Shape, const SIZES: usize>(size_bytes: usize) -> usize {
    let mut count = 0;
    with_memory(1, |memory| {
        let mut heap: Thesis<'_, F, SIZES> = Bitframe::new(memory, ()).unwrap();
        let first = page_of::<F, SIZES>(heap.allocate_bytes(size_bytes, 1).unwrap());
        count = 1;
        while heap.allocate_bytes(size_bytes, 1).is_ok_and(|block| page_of::<F, SIZES>(block).start == first.start) {
            count += 1;
        }
        assert_eq!(heap.check(), Ok(()));
    });
    count
}

/// 5.7: a page of M frames holds M blocks of 5 chunks. Frames of 16 hold three each. With at most 4 chunks, 40 bytes
/// are two chunks of 32, of which a frame holds four. A frame holds two blocks of 3 chunks; if they cross frames, the
/// page holds as many as there is room for.
#[test]
fn what_the_proposals_change() {
    let frames = ThesisPage::<Frames<8, 8, 0>>::frames(0);
    assert_eq!(blocks_in_a_page::<Frames<8, 8, 0>, 2>(40), frames);
    let frames = ThesisPage::<Frames<16, 16, 0>>::frames(0);
    assert_eq!((frames, blocks_in_a_page::<Frames<16, 16, 0>, 2>(40)), (121, 3 * 121));
    let frames = ThesisPage::<Frames<8, 4, 0>, 3>::frames(1);
    assert_eq!(blocks_in_a_page::<Frames<8, 4, 0>, 3>(40), 4 * frames);
    let frames = ThesisPage::<Frames<8, 4, 0>, 3>::frames(0);
    assert_eq!(blocks_in_a_page::<Frames<8, 4, 0>, 3>(24), 2 * frames);
    let frames = ThesisPage::<Frames<8, 4, 3>, 3>::frames(0);
    assert_eq!(blocks_in_a_page::<Frames<8, 4, 3>, 3>(24), 8 * frames / 3);
}

/// Lazy pages write a frame on demand, eager pages all at once; both return the same blocks.
#[test]
fn lazy_pages_start_frames_as_they_are_needed() {
    type Hasty<'r> = Bitframe<'r, Frames<8, 8, 0>, Eager, BITFRAME_PAGE, 8, 2>;
    with_memory(1, |memory| {
        let mut heap: Thesis<'_> = Bitframe::new(memory, ()).unwrap();
        let block = heap.allocate_bytes(8, 1).unwrap();
        // SAFETY: the page is in use.
        assert_eq!(unsafe { (*page_of::<Frames<8, 8, 0>, 2>(block).footer()).started }, 2);
    });
    with_memory(1, |memory| {
        let mut heap: Hasty<'_> = Bitframe::new(memory, ()).unwrap();
        let block = heap.allocate_bytes(8, 1).unwrap();
        // SAFETY: the page is in use.
        assert_eq!(unsafe { (*page_of::<Frames<8, 8, 0>, 2>(block).footer()).started }, 240);
    });
}

/// A request whose chunk size has no page left is served with larger chunks; a full page is in no ring.
#[test]
fn larger_chunks_serve_when_no_page_is_left() {
    with_memory(1, |memory| {
        // The shortest accepted region holds one page.
        let most_bytes = memory.len();
        let mut lengths = (0..most_bytes).step_by(64);
        let len_bytes = lengths.find(|&len_bytes| <Thesis<'_>>::new(&mut memory[..len_bytes], ()).is_ok()).unwrap();
        let mut heap: Thesis<'_> = Bitframe::new(&mut memory[..len_bytes], ()).unwrap();
        let large = heap.allocate_bytes(512, 1).unwrap();
        let mut blocks: Vec<NonNull<u8>> = vec![];
        while let Ok(block) = heap.allocate_bytes(1, 1) {
            blocks.push(block);
        }
        // SAFETY: the blocks are live.
        unsafe {
            let last = blocks[blocks.len() - 1];
            assert_eq!(heap.usable_size(last), 64);
            assert_eq!((*page_of::<Frames<8, 8, 0>, 2>(last).footer()).class, NO_CLASS);
            assert_eq!(heap.largest_allocatable(), 0);
            heap.deallocate(large);
        }
        assert_eq!(heap.largest_allocatable(), 512);
        assert_eq!(heap.check(), Ok(()));
    });
}

/// A block is the aligned part of a longer sequence: the chunks around it stay free.
#[test]
fn alignments_take_no_more_than_the_block() {
    with_memory(1, |memory| {
        let mut heap: Thesis<'_, Frames<8, 4, 3>, 3> = Bitframe::new(memory, ()).unwrap();
        let first = heap.allocate_bytes(8, 1).unwrap();
        let aligned = heap.allocate_bytes(8, 16).unwrap();
        assert!(aligned.addr().get().is_multiple_of(16));
        assert_eq!(aligned.addr().get(), first.addr().get() + 16);
        let mut free = vec![];
        heap.walk(&mut |block| free.extend(block.free.then_some((block.address, block.size_bytes))));
        assert_eq!(free[0], (first.addr().get() + 8, 8));
        assert_eq!(heap.check(), Ok(()));
    });
}
