//! A complete binary tree in post-order: left subtree, right subtree, root.
//!
//! Every subtree is a contiguous run of nodes, and its root is the last of them (paper, 3.2.3 and Fig. 5):
//!
//! ```text
//!             6                 height 3: 4 leaves, 7 nodes
//!        2         5            height 2
//!      0   1     3   4          height 1
//!
//! [0 1 2][3 4 5] 6              left subtree, right subtree, root
//! ```

use crate::contract::{LoopBound, loop_bound};

/// Leaves under a node of a height.
#[inline(always)]
pub(super) const fn leaves(height: u32) -> usize {
    1 << (height - 1)
}

/// Nodes of a subtree of a height.
#[inline(always)]
pub(super) const fn nodes(height: u32) -> usize {
    (1 << height) - 1
}

/// A node, and the path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Its position in post-order.
    pub at: usize,
    /// 1 for a leaf.
    pub height: u32,
    /// Bit h is set if the path from the root to this node goes right at height h. Bits below the node's height, and
    /// from the root's height on, are ignored.
    pub way: usize,
}

impl Node {
    /// The root of a tree.
    #[inline(always)]
    pub fn root(depth: u32) -> Self {
        Node { at: nodes(depth) - 1, height: depth, way: 0 }
    }

    /// The first node of the subtree.
    #[inline(always)]
    pub fn first(self) -> usize {
        self.at + 1 - nodes(self.height)
    }

    /// Whether this is a right child.
    #[inline(always)]
    pub fn is_right(self) -> bool {
        self.way >> self.height & 1 != 0
    }

    /// The child on the side given by bit `height - 1` of `way`. The node is not a leaf.
    #[inline(always)]
    pub fn towards(self, way: usize) -> Self {
        let height = self.height - 1;
        let side = way & 1 << height;
        let at = if side == 0 { self.at - nodes(height) - 1 } else { self.at - 1 };
        Node { at, height, way: self.way & !(1 << height) | side }
    }

    /// The other child of the parent. The node is not the root.
    #[inline(always)]
    pub fn sibling(self) -> Self {
        let at = if self.is_right() { self.at - nodes(self.height) } else { self.at + nodes(self.height) };
        Node { at, way: self.way ^ 1 << self.height, ..self }
    }

    /// The parent. The node is not the root.
    #[inline(always)]
    pub fn parent(self) -> Self {
        let at = if self.is_right() { self.at + 1 } else { self.at + nodes(self.height) + 1 };
        Node { at, height: self.height + 1, ..self }
    }

    /// The node of a height whose subtree contains the node at a position; `None` if that node is higher.
    #[inline(always)]
    pub fn containing(depth: u32, place: usize, height: u32) -> Option<Self> {
        let mut node = Node::root(depth);
        while node.height > height {
            loop_bound!(LoopBound::Levels);
            if place == node.at {
                return None;
            }
            let left = node.towards(0);
            node = if place <= left.at { left } else { left.sibling() };
        }
        Some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nodes of a subtree, in post-order, by recursion.
    fn post_order(node: Node, visit: &mut dyn FnMut(Node)) {
        if node.height > 1 {
            post_order(node.towards(0), visit);
            post_order(node.towards(usize::MAX), visit);
        }
        visit(node);
    }

    #[test]
    fn positions_are_in_post_order() {
        for depth in 1..8 {
            let mut place = 0;
            post_order(Node::root(depth), &mut |node| {
                assert_eq!(node.at, place);
                place += 1;
                if node.height < depth {
                    let parent = node.parent();
                    assert_eq!(parent.towards(node.way), node);
                    assert_eq!(node.sibling(), parent.towards(!node.way));
                    assert_eq!(node.sibling().sibling(), node);
                }
                for inside in node.first()..=node.at {
                    assert_eq!(Node::containing(depth, inside, node.height), Some(node));
                }
                for above in node.height + 1..=depth {
                    let ancestor = Node::containing(depth, node.at, above).expect("an ancestor");
                    assert!(ancestor.first() <= node.first() && node.at < ancestor.at);
                    assert_eq!(Node::containing(depth, ancestor.at, node.height), None);
                }
            });
            assert_eq!(place, nodes(depth));
        }
    }
}
