//! Mechanisms shared by several allocators. Each has one home here; an allocator is a policy of a few lines on top.
//!
//! | module | what it is |
//! |---|---|
//! | [`word`] | the width of tags and links: 16, 32 bits or a whole `usize` |
//! | [`memory`] | a heap's memory as words at offsets from one base |
//! | [`boundary_tag`] | blocks with boundary tags: split, coalesce, resize, regions, walk, check |
//! | [`policy_heap`] | a heap with its control structure at the start of the region, generic over the policy for the rest |
//! | [`buddy`] | blocks that split into two buddies: split, merge, tags in a side table or in headers, any system of sizes |
//! | [`free_list`] | doubly linked lists without a head or a tail case, and the one-list index |
//! | [`page`] | pages that hold blocks of one kind, and their bookkeeping |
//! | [`size_class`] | class numbers, and maps from block sizes to classes |
//! | [`bitmap`] | which classes have a free block |
//! | [`segregated`] | the index of one list per class |
//! | [`class_lists`] | blocks of fixed sizes in one list per size, never split or coalesced |
//! | [`tree`] | trees of free blocks: by size, and by address and size at once |
//! | [`validation`] | how strictly tags are checked before a block is freed |
//! | [`stats`] | running statistics, or none |
//! | [`frame`] | bitframes: one bit per chunk, and the longest free run of chunks |
//! | [`bits`] | bit searches |

pub(crate) mod sealed {
    /// Prevents implementations outside this crate: unsafe code relies on what the implementations return.
    pub trait Sealed {}
}

pub mod bitmap;
pub mod bits;
pub mod boundary_tag;
pub mod buddy;
pub mod class_lists;
#[cfg(test)]
pub(crate) mod damage;
pub mod frame;
pub mod free_list;
pub mod memory;
pub mod page;
pub(crate) mod pair_result;
pub mod policy_heap;
pub mod segregated;
pub mod size_class;
pub mod stats;
pub mod tree;
pub mod validation;
pub mod word;
