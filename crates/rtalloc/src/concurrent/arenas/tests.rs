//! White-box tests of the arenas.

extern crate std;
use super::*;
use std::{vec, vec::Vec};

type Heap = Arenas<'static>;

fn heap(slots: usize, len_bytes: usize) -> Heap {
    let memory = vec![MaybeUninit::new(0xA5_u8); len_bytes].leak();
    Heap::new(memory, ArenasConfig { slots, ..Default::default() }).unwrap()
}

#[test]
fn blocks_of_another_slot_come_back_to_their_owner() {
    let mut heap = heap(2, 1 << 16);
    let fresh: Vec<usize> = {
        let mut words = vec![];
        heap.fingerprint(&mut |word| words.push(word));
        words
    };
    {
        let mut owner = heap.claim(0).unwrap();
        let mut other = heap.claim(1).unwrap();
        let blocks: Vec<_> = (0..10).map(|number| owner.allocate_bytes(100 + number, 8).unwrap()).collect();
        for block in blocks {
            unsafe { other.deallocate(block) };
        }
        assert_eq!(owner.reclaim(3), 3);
        assert_eq!(owner.reclaim(30), 7);
        assert_eq!(owner.reclaim(30), 0);
    }
    heap.check().unwrap();
    let now: Vec<usize> = {
        let mut words = vec![];
        heap.fingerprint(&mut |word| words.push(word));
        words
    };
    assert_eq!(fresh, now);
}
