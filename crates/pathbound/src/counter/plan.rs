//! Which blocks and edges set a mark, and what the marks mean.
//!
//! Every block sets a mark. An edge sets its own mark if there are other edges out of its block and other ways into the
//! next block. The marks of the blocks imply all other edges.

use super::Coverage;
use crate::graph::{Block, Graph};
use std::collections::{BTreeMap, BTreeSet};

/// The numbers of marks. They are assigned block by block, so that those of a range of blocks are a range.
#[derive(Debug, Default)]
pub struct Plan {
    blocks: Vec<Marked>,
    /// From the last instruction of a block to the first of another.
    edges: BTreeMap<(u64, u64), Edge>,
}

/// A block.
#[derive(Debug)]
struct Marked {
    instructions: Vec<u64>,
    /// The number of its mark; those of its edges follow.
    mark: usize,
}

/// An edge.
#[derive(Clone, Copy, Debug)]
struct Edge {
    /// The mark that is set if the edge is taken.
    mark: usize,
    /// Whether the mark is for the edge alone.
    own: bool,
}

impl Plan {
    /// Plans the marks of a graph's blocks. If there are `computed` jumps, any block may be entered by one.
    pub fn new(graph: &Graph, blocks: &[Block], computed: bool) -> Self {
        let first: BTreeSet<u64> = blocks.iter().map(|block| block.instructions[0]).collect();
        let ways: Vec<(u64, BTreeSet<u64>)> = blocks
            .iter()
            .filter_map(|block| block.instructions.last())
            .map(|last| (*last, graph.successors(*last).filter(|next| first.contains(next)).collect()))
            .collect();
        let mut entered: BTreeMap<u64, usize> = graph.functions().map(|function| (function, 1)).collect();
        for next in ways.iter().flat_map(|(_, ways)| ways) {
            *entered.entry(*next).or_default() += 1;
        }
        let (mut numbered, mut own, mut implied, mut marks) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (block, (last, ways)) in blocks.iter().zip(&ways) {
            let mark = marks;
            marks += 1;
            numbered.push(Marked { instructions: block.instructions.clone(), mark });
            for next in ways {
                if ways.len() == 1 {
                    own.push(((*last, *next), Edge { mark, own: false }));
                } else if entered[next] == 1 && !computed {
                    implied.push((*last, *next));
                } else {
                    own.push(((*last, *next), Edge { mark: marks, own: true }));
                    marks += 1;
                }
            }
        }
        let of: BTreeMap<u64, usize> = numbered.iter().map(|block| (block.instructions[0], block.mark)).collect();
        let implied = implied.into_iter().map(|(from, to)| ((from, to), Edge { mark: of[&to], own: false }));
        let edges = implied.chain(own).collect();
        Self { blocks: numbered, edges }
    }

    /// The number of a block's mark; for the index after the last block, the number of all marks.
    pub fn of_block(&self, block: usize) -> usize {
        let all = || self.edges.values().map(|edge| edge.mark).chain(self.blocks.last().map(|last| last.mark)).max();
        self.blocks.get(block).map_or_else(|| all().map_or(0, |mark| mark + 1), |block| block.mark)
    }

    /// The number of an edge's own mark, if it has one.
    pub fn of_edge(&self, from: u64, to: u64) -> Option<usize> {
        self.edges.get(&(from, to)).filter(|edge| edge.own).map(|edge| edge.mark)
    }

    /// Instructions of the marked blocks.
    pub fn instructions(&self, coverage: &Coverage) -> BTreeSet<u64> {
        let marked = self.blocks.iter().filter(|block| coverage.has(block.mark));
        marked.flat_map(|block| &block.instructions).copied().collect()
    }

    /// Edges between blocks that were taken according to the marks.
    pub fn edges(&self, coverage: &Coverage) -> BTreeSet<(u64, u64)> {
        self.edges.iter().filter(|(_, edge)| coverage.has(edge.mark)).map(|(edge, _)| *edge).collect()
    }
}
