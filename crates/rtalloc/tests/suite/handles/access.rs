//! Bytes and boxes: reads return what was written, in a heap with dirty memory.

use super::SmallPages;
use crate::memory::Buffer;
use rtalloc::compact_fit::{CompactFit, CompactFitNonMoving};
use rtalloc::contract::{AccessError, Handle, HandleAllocator, HandleError};
use rtalloc::handles::{AbstractPointer, Arraylets, Boxes, Bytes, DisjointError};
use std::cell::Cell;
use std::rc::Rc;

const HEAP_BYTES: usize = 1 << 16;

/// New objects, and the bytes by which an object grows, are zero whatever the memory held before.
fn zeros_are_zeros<H: HandleAllocator<'static>>() {
    let buffer = Buffer::new(HEAP_BYTES);
    // SAFETY: the heap is not used after this function; the buffer outlives it.
    let mut heap =
        Bytes::<H>::new(unsafe { buffer.region(0, HEAP_BYTES) }, H::Config::default()).expect("large enough");
    for size_bytes in [1, 100, 900, 5_000] {
        if size_bytes > H::CONTRACT.largest_request_bytes {
            continue;
        }
        let handle = heap.insert(&vec![0xEE; size_bytes]).expect("there is room");
        heap.free(handle).expect("live");
        let handle = heap.allocate(size_bytes).expect("there is room");
        let content =
            |heap: &Bytes<'static, H>| heap.pieces(handle).expect("live").flatten().copied().collect::<Vec<u8>>();
        assert_eq!(content(&heap), vec![0; size_bytes]);
        heap.write_at(handle, &vec![7; size_bytes]).expect("within the object");
        for (to_bytes, kept_bytes) in
            [(size_bytes.div_ceil(2), size_bytes.div_ceil(2)), (size_bytes, size_bytes.div_ceil(2))]
        {
            heap.resize(handle, to_bytes).expect("there is room");
            let expected = [vec![7; kept_bytes], vec![0; to_bytes - kept_bytes]].concat();
            assert_eq!(content(&heap), expected, "{size_bytes} bytes resized to {to_bytes}");
        }
        at_any_offset(&mut heap, handle, size_bytes);
        heap.free(handle).expect("live");
    }
    assert_eq!(heap.heap().check(), Ok(()));
}

/// Reads and writes at any offset and length access exactly those bytes; beyond the object they are refused.
fn at_any_offset<H: HandleAllocator<'static>>(heap: &mut Bytes<'static, H>, handle: Handle, size_bytes: usize) {
    let mut model: Vec<u8> = (0..size_bytes).map(|index| index as u8).collect();
    heap.write_at(handle, &model).expect("within the object");
    let step = size_bytes.div_ceil(23);
    for start in (0..=size_bytes).step_by(step) {
        for end in (start..=size_bytes).step_by(step) {
            let bytes: Vec<u8> = (start..end).map(|index| (index * 7 + end) as u8).collect();
            let pointer = AbstractPointer::from(handle) + start;
            heap.write_at(pointer, &bytes).expect("within the object");
            model[start..end].copy_from_slice(&bytes);
            let mut read = vec![0; end - start];
            heap.read_at(pointer, &mut read).expect("within the object");
            assert_eq!(read, bytes);
        }
        let mut whole = vec![0; size_bytes];
        heap.read_at(handle, &mut whole).expect("within the object");
        assert!(whole == model, "a write from {start} on reached other bytes");
    }
    let out = Err(AccessError::OutOfBounds { size_bytes });
    for (offset_bytes, len_bytes) in [(0, size_bytes + 1), (size_bytes, 1), (size_bytes + 1, 0), (usize::MAX, 1)] {
        let pointer = AbstractPointer::new(handle, offset_bytes);
        assert_eq!(heap.write_at(pointer, &vec![1; len_bytes]), out);
        assert_eq!(heap.read_at(pointer, &mut vec![1; len_bytes]), out);
    }
    assert_eq!(heap.read_at(AbstractPointer::from(handle) - 1 + 1, &mut [0]), Ok(()));
}

#[test]
fn bytes_of_whole_objects() {
    zeros_are_zeros::<CompactFit<'static, SmallPages>>();
}

#[test]
fn bytes_of_block_frames() {
    zeros_are_zeros::<CompactFitNonMoving<'static, SmallPages, 64>>();
}

#[test]
fn bytes_of_arraylets() {
    zeros_are_zeros::<Arraylets<'static, CompactFit<'static, SmallPages>>>();
    zeros_are_zeros::<Arraylets<'static, CompactFitNonMoving<'static, SmallPages, 32>>>();
}

/// Several objects can be written at a time, unless two handles name the same object or one is stale.
#[test]
fn many_are_different() {
    let buffer = Buffer::new(HEAP_BYTES);
    // SAFETY: the heap is not used after this function; the buffer outlives it.
    let region = unsafe { buffer.region(0, HEAP_BYTES) };
    let mut heap = Bytes::<CompactFit<'static, SmallPages>>::new(region, Default::default()).expect("large enough");
    let [a, b, c] = [1, 2, 3].map(|byte| heap.insert(&[byte; 9]).expect("there is room"));
    let [first, second] = heap.get_many_mut([c, a]).expect("different objects");
    std::mem::swap(&mut first[0], &mut second[0]);
    assert_eq!(
        (heap.get(a).expect("live")[..2].to_vec(), heap.get(c).expect("live")[..2].to_vec()),
        (vec![3, 1], vec![1, 3])
    );
    assert_eq!(heap.get_many_mut([a, b, a]), Err(DisjointError::Same));
    heap.free(b).expect("live");
    assert_eq!(heap.get_many_mut([a, b]), Err(DisjointError::Access(HandleError::Stale.into())));
}

/// Values are dropped once, by the caller that removes them; a value is written through shared references while the
/// heap compacts.
#[test]
fn boxes_hold_values() {
    let buffer = Buffer::new(HEAP_BYTES);
    // SAFETY: the heap is not used after this function; the buffer outlives it.
    let region = unsafe { buffer.region(0, HEAP_BYTES) };
    type InSteps = CompactFit<'static, SmallPages, rtalloc::mechanism::stats::NoStats, 16>;
    let count = Rc::new(());
    Boxes::<InSteps>::scope(region, Default::default(), |mut heap| {
        let nothing = heap.insert(()).expect("there is room");
        assert_eq!(heap.remove(nothing), Ok(()));
        let mut boxes: Vec<_> = (0..200_u64)
            .map(|number| {
                (number, heap.insert((Cell::new(number), Rc::clone(&count), [number; 9])).expect("there is room"))
            })
            .collect();
        assert_eq!(Rc::strong_count(&count), 201);
        let mut is_pending = false;
        for round in 0..150 {
            let (number, handle) = boxes.swap_remove(round * 31 % boxes.len());
            let (cell, _, numbers) = heap.remove(handle).expect("live");
            assert_eq!((cell.get(), numbers), (number, [number; 9]));
            assert_eq!(heap.remove(handle).map(|_| ()), Err(HandleError::Stale));
            is_pending |= heap.pending_bytes() > 0;
            for (number, handle) in &mut boxes {
                let (cell, _, numbers) = heap.borrow(*handle).expect("live");
                assert_eq!((cell.get(), numbers), (*number, &[numbers[0]; 9]));
                if number.is_multiple_of(3) {
                    cell.set(*number);
                }
            }
            heap.compact(16);
            assert_eq!(heap.check(), Ok(()));
        }
        assert!(is_pending, "nothing moved");
        let (first, last) = (boxes[0], boxes[boxes.len() - 1]);
        let [one, other] = heap.borrow_many_mut([first.1, last.1]).expect("different values");
        std::mem::swap(one, other);
        assert_eq!(heap.borrow(first.1).expect("live").0.get(), last.0);
        assert!(heap.borrow_many_mut([first.1, first.1]).is_err());
        for (_, handle) in boxes {
            heap.remove(handle).expect("live");
        }
    })
    .expect("large enough");
    assert_eq!(Rc::strong_count(&count), 1);
}
