//! Every execution of concurrent allocations by the paper's pseudo-code (figure 3), step by step: whether one of them
//! may be rejected (section 3.6).
//!
//! A request is where its next atomic step is; it holds leaves in all nodes above. So its place says what it holds, the
//! places of all requests determine all counters, and a few million states are all that there are.

use std::collections::HashSet;

/// The next step of a request, or its end. Nodes are numbered as in a heap: the children of n are 2n and 2n + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// Decrements the node's counter, if it is large enough.
    Enter(usize),
    /// Gives back what it took from the node's counter.
    Undo(usize),
    /// Has the node.
    Done(usize),
    /// Was rejected.
    Rejected,
}

impl Place {
    /// The nodes whose counters the request has decremented: all above its next step, or that node too.
    fn holds(self, node: usize) -> bool {
        let lowest = match self {
            Self::Enter(next) => next / 2,
            Self::Undo(next) | Self::Done(next) => next,
            Self::Rejected => 0,
        };
        std::iter::successors(Some(lowest), |node| Some(node / 2)).take_while(|node| *node > 0).any(|held| held == node)
    }

    /// The next step after a node failed: its sibling, or its parent fails too.
    fn after_failure(node: usize) -> Self {
        match node {
            1 => Self::Rejected,
            left if left % 2 == 0 => Self::Enter(left + 1),
            right => Self::Undo(right / 2),
        }
    }

    /// The place after the next step of a request of `size`, where the node's counter is `left` and its subtree has
    /// `leaves`; `None` at the end.
    fn step(self, size: usize, counter: impl Fn(usize) -> usize, leaves: impl Fn(usize) -> usize) -> Option<Self> {
        match self {
            Self::Enter(node) if counter(node) < size => Some(Self::after_failure(node)),
            Self::Enter(node) if leaves(node) == size => Some(Self::Done(node)),
            Self::Enter(node) => Some(Self::Enter(2 * node)),
            Self::Undo(node) => Some(Self::after_failure(node)),
            Self::Done(_) | Self::Rejected => None,
        }
    }
}

/// Which of these concurrent requests (powers of two of leaves) may be rejected in an empty tree of `leaves`, and the
/// number of states that there are.
pub(in crate::papers::wait_free) fn may_reject<const N: usize>(leaves: usize, sizes: [usize; N]) -> ([bool; N], usize) {
    explored(leaves, sizes, [Place::Enter(1); N])
}

/// The same from these places on.
fn explored<const N: usize>(leaves: usize, sizes: [usize; N], first: [Place; N]) -> ([bool; N], usize) {
    let of_node = |node: usize| leaves >> node.ilog2();
    let (mut seen, mut open, mut rejects) = (HashSet::from([first]), vec![first], [false; N]);
    while let Some(places) = open.pop() {
        let counter = |node: usize| {
            let held = places.iter().zip(sizes).filter(|(place, _)| place.holds(node)).map(|(_, size)| size);
            of_node(node) - held.sum::<usize>()
        };
        for (at, size) in sizes.into_iter().enumerate() {
            let Some(next) = places[at].step(size, counter, of_node) else { continue };
            rejects[at] |= next == Place::Rejected;
            let mut after = places;
            after[at] = next;
            if seen.insert(after) {
                open.push(after);
            }
        }
    }
    (rejects, seen.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 9: a leaf of each half is in use. The request of two leaves is rejected in any order; that of one leaf is
    /// served before it and after it, but may be rejected meanwhile.
    #[test]
    fn the_papers_example_is_rejected() {
        let (rejects, _) =
            explored(4, [1, 1, 2, 1], [Place::Done(4), Place::Done(6), Place::Enter(1), Place::Enter(1)]);
        assert_eq!(rejects, [false, false, true, true]);
        for (two, one) in [(Place::Rejected, Place::Enter(1)), (Place::Enter(1), Place::Done(5))] {
            let (rejects, _) = explored(4, [1, 1, 2, 1], [Place::Done(4), Place::Done(6), two, one]);
            assert!(!rejects[3], "one after the other");
        }
        assert_eq!(may_reject(4, [2, 2]).0, [false; 2]);
        assert_eq!(may_reject(4, [4, 1]).0, [true; 2], "too much");
    }

    #[test]
    fn one_request_visits_what_it_must() {
        let (rejects, states) = may_reject(8, [1]);
        // The root, a node of each level, and the end.
        assert_eq!((rejects, states), ([false], 5));
    }
}
