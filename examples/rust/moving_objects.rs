//! Objects that move: Compact-fit closes the gaps that frees leave, so the memory used depends only on the live
//! objects.
//!
//! `cargo run -p rtalloc --example moving_objects`

use core::mem::MaybeUninit;
use rtalloc::CompactFit;
use rtalloc::compact_fit::guarantee::MovingLimits;
use rtalloc::handles::{Boxes, Bytes, TypedHandle};

/// Messages that are live at a time, and the bytes of each.
const MESSAGES: usize = 200;
const BYTES: usize = 400;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    bytes()?;
    values()
}

/// Handles name byte objects, wherever they move.
fn bytes() -> Result<(), Box<dyn core::error::Error>> {
    // This number of pages suffices for any order of allocations and frees.
    let limits = <MovingLimits>::NONE.and(MESSAGES, BYTES)?;
    let pages = limits.pages() + limits.entry_pages();
    println!("pages that always suffice: {pages}");
    let mut memory = vec![MaybeUninit::uninit(); <CompactFit<'_>>::region_bytes(pages)];
    let mut heap: Bytes<'_, CompactFit<'_>> = Bytes::new(&mut memory, Default::default())?;

    // Repeatedly free every second message and allocate others: in other heaps this leaves holes.
    let mut live = Vec::new();
    for round in 0..100_u8 {
        while live.len() < MESSAGES {
            let message = heap.insert(&[round; BYTES])?;
            live.push((message, round));
        }
        for index in (0..MESSAGES).rev().step_by(2) {
            let (message, _) = live.swap_remove(index);
            heap.free(message)?;
        }
    }
    for &(message, round) in &live {
        assert_eq!(heap.get(message)?, [round; BYTES], "it moved, with its bytes");
    }
    println!("messages alive and unharmed: {}", live.len());

    // A stale handle is an error and never returns another object's bytes.
    let (message, _) = live.swap_remove(0);
    heap.free(message)?;
    println!("an old handle: {}", heap.get(message).expect_err("it was freed"));
    Ok(())
}

/// A list of typed values that are linked by handles.
fn values() -> Result<(), Box<dyn core::error::Error>> {
    struct Node<'id> {
        value: u32,
        next: Option<TypedHandle<'id, Node<'id>>>,
    }
    let mut memory = vec![MaybeUninit::uninit(); 256 << 10];
    let sum = Boxes::<CompactFit<'_>>::scope(&mut memory, Default::default(), |mut heap| {
        let mut list = None;
        for value in 1..=1000 {
            list = heap.insert(Node { value, next: list }).ok();
        }
        let mut sum = 0;
        while let Some(node) = list.and_then(|handle| heap.remove(handle).ok()) {
            sum += node.value;
            list = node.next;
        }
        sum
    })?;
    println!("sum of the list: {sum}");
    Ok(())
}
