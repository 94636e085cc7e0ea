//! Circular doubly linked lists with dummy heads: nodes in the footers of pages, heads in the control structure.
//!
//! ```text
//! head <--> page <--> page <--> page      empty: head <-.
//!   ^------------------------------^               ^-----'
//! ```
//!
//! A dummy head is a node without a page, so linking and unlinking need no tests. Nodes are identified by their
//! addresses. While a ring changes, no reference may cover its head, because the links of pages lead to it.

use crate::contract::Corruption;

/// A node.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Address of the previous node; its `next` is this one.
    pub prev: usize,
    /// Address of the next node; its `prev` is this one.
    pub next: usize,
}

#[inline(always)]
fn at(node: usize) -> *mut Node {
    core::ptr::with_exposed_provenance_mut(node)
}

/// Makes the head of an empty ring.
///
/// # Safety
///
/// The caller owns the bytes of a node at `head`, aligned.
#[inline(always)]
pub unsafe fn begin(head: usize) {
    // SAFETY: the caller owns the bytes of a node at `head`, aligned.
    unsafe { at(head).write(Node { prev: head, next: head }) }
}

/// The node after `node`; after the last node, the head.
///
/// # Safety
///
/// `node` is in a ring, or its head.
#[inline(always)]
pub unsafe fn next(node: usize) -> usize {
    // SAFETY: `node` is in a ring or its head, so it is initialised.
    unsafe { (*at(node)).next }
}

/// The node before `node`; before the first node, the head.
///
/// # Safety
///
/// `node` is in a ring, or its head.
#[inline(always)]
pub unsafe fn prev(node: usize) -> usize {
    // SAFETY: `node` is in a ring or its head, so it is initialised.
    unsafe { (*at(node)).prev }
}

/// Links `new` in after `node`.
///
/// # Safety
///
/// `node` is in a ring or its head; the caller owns the bytes of a node at `new`, which is in no ring.
#[inline(always)]
pub unsafe fn insert_after(node: usize, new: usize) {
    // SAFETY: `node` is in a ring, whose links lead to nodes of it; the caller owns `new`.
    unsafe {
        let after = (*at(node)).next;
        at(new).write(Node { prev: node, next: after });
        (*at(after)).prev = new;
        (*at(node)).next = new;
    }
}

/// Takes `node` out of its ring; its own links keep their values, which have no meaning.
///
/// # Safety
///
/// `node` is in a ring, and is not its head.
#[inline(always)]
pub unsafe fn remove(node: usize) {
    // SAFETY: `node` is in a ring, whose links lead to nodes of it.
    unsafe {
        let Node { prev, next } = at(node).read();
        (*at(prev)).next = next;
        (*at(next)).prev = prev;
    }
}

/// Verifies the ring of `head`, following only links that `is_node` accepts, and calls `visit` with every node except
/// the head; returns their number.
///
/// # Errors
///
/// An invalid link, a link whose opposite does not match, more nodes than `limit`, or an error of `visit`.
///
/// # Safety
///
/// `head` is a head, and wherever `is_node` accepts an address, the bytes of a node are readable.
pub unsafe fn check(
    head: usize,
    limit: usize,
    is_node: &dyn Fn(usize) -> bool,
    visit: &mut dyn FnMut(usize) -> Result<(), Corruption>,
) -> Result<usize, Corruption> {
    let mut node = head;
    let mut count = 0;
    loop {
        // SAFETY: the node is the head, or `is_node` accepted it.
        let next = unsafe { (*at(node)).next };
        if next != head && !is_node(next) {
            return Err(Corruption { invariant: "a ring's links lead to nodes", address: node });
        }
        // SAFETY: `next` is the head, or `is_node` accepted it.
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
            insert_after(head, a);
            insert_after(head, b);
            insert_after(a, c);
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
        // SAFETY: the memory outlives the test; only links to `a` and `b` are followed.
        unsafe {
            let found = || check(head, 2, &|node| node == a || node == b, &mut |_| Ok(())).unwrap_err().invariant;
            begin(head);
            insert_after(head, a);
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
