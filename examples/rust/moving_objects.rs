//! Objects that move: Compact-fit closes the gaps that frees leave, so that live objects alone decide how much memory is used.
//!
//! `cargo run -p rtalloc --example moving_objects`

use core::mem::MaybeUninit;
use rtalloc::CompactFit;
use rtalloc::compact_fit::guarantee::MovingLimits;
use rtalloc::handles::{Boxes, Bytes, TypedHandle};

/// Messages alive at a time, and bytes of each.
const MESSAGES: usize = 200;
const BYTES: usize = 400;

fn main() -> Result<(), Box<dyn core::error::Error>> {
    bytes()?;
    values()
}

/// Handles name objects of bytes, wherever those move.
fn bytes() -> Result<(), Box<dyn core::error::Error>> {
    // So many pages always suffice, in whatever order messages come and go.
    let limits = <MovingLimits>::NONE.and(MESSAGES, BYTES)?;
    let pages = limits.pages() + limits.entry_pages();
    println!("pages that always suffice: {pages}");
    let mut memory = vec![MaybeUninit::uninit(); <CompactFit<'_>>::region_bytes(pages)];
    let mut heap: Bytes<'_, CompactFit<'_>> = Bytes::new(&mut memory, Default::default())?;

    // Every second message goes, again and again, and others come: in other heaps that makes holes.
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

    // An old handle is an error, never another object's bytes.
    let (message, _) = live.swap_remove(0);
    heap.free(message)?;
    println!("an old handle: {}", heap.get(message).expect_err("it was freed"));
    Ok(())
}

/// A list of typed values, whose links are handles.
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
