//! Circular doubly linked lists with dummy heads: nodes in the footers of pages, heads in the control structure.
//!
//! ```text
//! head <--> page <--> page <--> page      empty: head <-.
//!   ^------------------------------^               ^-----'
//! ```
//!
//! A dummy head is a node without a page, so that linking and unlinking test for nothing. Nodes are named by their addresses.
//! The heads must not lie in a structure that a reference covers while the ring is changed, because pages lead to them.

use crate::contract::Corruption;

/// A node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Address of the node in front; its `next` is this one.
    pub prev: usize,
    /// Address of the node behind; its `prev` is this one.
    pub next: usize,
}

#[inline(always)]
fn at(node: usize) -> *mut Node {
    core::ptr::with_exposed_provenance_mut(node)
}

/// Makes a head whose ring is empty.
///
/// # Safety
///
/// A node's bytes at `head` are the caller's, aligned.
#[inline(always)]
pub unsafe fn begin(head: usize) {
    // SAFETY: the caller's promise.
    unsafe { at(head).write(Node { prev: head, next: head }) }
}

/// The node behind `node`, which is the head again at the ring's end.
///
/// # Safety
///
/// `node` is in a ring, or its head.
#[inline(always)]
pub unsafe fn next(node: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*at(node)).next }
}

/// The node in front of `node`, which is the head again at the ring's start.
///
/// # Safety
///
/// `node` is in a ring, or its head.
#[inline(always)]
pub unsafe fn prev(node: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*at(node)).prev }
}

/// Links `new` in behind `node`.
///
/// # Safety
///
/// `node` is in a ring or its head; a node's bytes at `new` are the caller's, and in no ring.
#[inline(always)]
pub unsafe fn insert_behind(node: usize, new: usize) {
    // SAFETY: links of a ring lead to nodes of it.
    unsafe {
        let after = (*at(node)).next;
        at(new).write(Node { prev: node, next: after });
        (*at(after)).prev = new;
        (*at(node)).next = new;
    }
}

/// Takes `node` out of its ring; its own links stay as they are and mean nothing.
///
/// # Safety
///
/// `node` is in a ring, and no head.
#[inline(always)]
pub unsafe fn remove(node: usize) {
    // SAFETY: links of a ring lead to nodes of it.
    unsafe {
        let Node { prev, next } = at(node).read();
        (*at(prev)).next = next;
        (*at(next)).prev = prev;
    }
}

/// Verifies the ring of `head`, following no link that `is_node` does not allow, and calls `visit` with every node but the
/// head; returns their number.
///
/// # Errors
///
/// A link that leads nowhere or not back, more nodes than `limit` (a ring that does not come back), or what `visit` finds.
///
/// # Safety
///
/// `head` is a head, and a node's bytes are readable wherever `is_node` says so.
pub unsafe fn check(
    head: usize,
    limit: usize,
    is_node: &dyn Fn(usize) -> bool,
    visit: &mut dyn FnMut(usize) -> Result<(), Corruption>,
) -> Result<usize, Corruption> {
    let mut node = head;
    let mut count = 0;
    loop {
        // SAFETY: the node is the head, or `is_node` said yes.
        let next = unsafe { (*at(node)).next };
        if next != head && !is_node(next) {
            return Err(Corruption { invariant: "a ring's links lead to nodes", address: node });
        }
        // SAFETY: as above.
        if unsafe { (*at(next)).prev } != node {
            return Err(Corruption { invariant: "a ring's links lead back", address: next });
        }
        if next == head {
            return Ok(count);
        }
        count += 1;
        if count > limit {
            return Err(Corruption { invariant: "a ring holds each node once", address: head });
        }
        visit(next)?;
        node = next;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn nodes_come_and_go_anywhere() {
        let mut memory = vec![Node { prev: 1, next: 1 }; 4];
        let start = memory.as_mut_ptr().expose_provenance();
        let nodes: Vec<usize> = (0..4).map(|index| start + index * size_of::<Node>()).collect();
        let [head, a, b, c] = nodes[..] else { unreachable!() };
        let ring = || {
            let mut seen = Vec::new();
            let mut visit = |node| {
                seen.push(node);
                Ok(())
            };
            // SAFETY: the memory outlives the test.
            let count = unsafe { check(head, 3, &|node| nodes[1..].contains(&node), &mut visit) };
            assert_eq!(count, Ok(seen.len()));
            seen
        };
        // SAFETY: the memory outlives the test, and nodes are linked once.
        unsafe {
            begin(head);
            assert_eq!((ring(), next(head)), (vec![], head));
            insert_behind(head, a);
            insert_behind(head, b);
            insert_behind(a, c);
            assert_eq!((ring(), next(head)), (vec![b, a, c], b));
            remove(a);
            assert_eq!(ring(), [b, c]);
            remove(b);
            remove(c);
            assert_eq!(ring(), []);
        }
    }

    #[test]
    fn damage_is_found_and_not_followed() {
        let mut memory = vec![Node { prev: 1, next: 1 }; 3];
        let start = memory.as_mut_ptr().expose_provenance();
        let [head, a, b] = [0, 1, 2].map(|index| start + index * size_of::<Node>());
        // SAFETY: the memory outlives the test; links are followed where nodes are.
        unsafe {
            let found = || check(head, 2, &|node| node == a || node == b, &mut |_| Ok(())).unwrap_err().invariant;
            begin(head);
            insert_behind(head, a);
            (*at(a)).next = 8;
            assert_eq!(found(), "a ring's links lead to nodes");
            (*at(a)).next = b;
            assert_eq!(found(), "a ring's links lead back");
            (*at(b)).write_ring(a, a);
            assert_eq!(found(), "a ring's links lead back");
        }
    }

    impl Node {
        fn write_ring(&mut self, prev: usize, next: usize) {
            *self = Node { prev, next };
        }
    }
}
