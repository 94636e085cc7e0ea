//! Options, chosen by type: the paper's further work (section 5), and more.
//!
//! | constant | what changes | cost |
//! |---|---|---|
//! | [`READS_FIRST`](Options::READS_FIRST) | a subtree is searched by loads, and only the path to it is written | a load per node visited; a failed search is repeated unless the root shows at once that nothing is free |
//! | [`LAZY`](Options::LAZY) | a freed subtree's inner counters are not reset | out of band nothing; in band up to one read-modify-write and two stores for every node that a search opens |
//! | [`ROTATED`](Options::ROTATED) | slots take different paths from the root, so they collide less | memory is used all over the region |
//! | [`WATCHED`](Options::WATCHED) | a refusal distinguishes an exhausted heap from a contended one | two read-modify-writes per operation, on one word that all users share |
//!
//! A user's type can combine them:
//!
//! ```
//! use rtalloc::concurrent::tree_buddy::{Options, OutOfBand, TreeBuddy};
//!
//! #[derive(Clone, Copy, Debug)]
//! struct Quick;
//!
//! impl Options for Quick {
//!     const NAMES: [&'static str; 2] = ["tree-buddy-quick", "tree-buddy-quick-in-band"];
//!     const LAZY: bool = true;
//!     const ROTATED: bool = true;
//! }
//!
//! type Heap<'r> = TreeBuddy<'r, 64, OutOfBand, Quick>;
//! ```

use core::fmt::Debug;

/// Options of a [`TreeBuddy`](super::TreeBuddy) beyond the paper's algorithm. All are off by default.
pub trait Options: Copy + Debug + Send + Sync + 'static {
    /// Names of the heap in the two layouts, [`OutOfBand`](super::OutOfBand) first.
    const NAMES: [&'static str; 2];
    /// The tree is searched by loads before a counter is written; out of band only. In band, a node below one whose
    /// counter was not decremented may already be a user's memory: loading it would race with writes.
    const READS_FIRST: bool = false;
    /// Counters inside a freed subtree are reset when a search enters it, or never where users cannot write them.
    const LAZY: bool = false;
    /// Which child is tried first depends on the slot's number: bit 0 decides at the root, bit 1 one level down, ....
    const ROTATED: bool = false;
    /// Operations under way are counted, to distinguish a refusal without concurrent operations.
    const WATCHED: bool = false;
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident, [$out:literal, $in_band:literal] $(, $option:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Options for $name {
            const NAMES: [&'static str; 2] = [$out, $in_band];
            $(const $option: bool = true;)*
        }
    )*};
}

options! {
    /// The unmodified algorithm of the paper.
    Faithful, ["tree-buddy", "tree-buddy-in-band"];
    /// [`Options::READS_FIRST`] alone.
    ReadsFirst, ["tree-buddy-reads-first", "tree-buddy-reads-first-in-band"], READS_FIRST;
    /// [`Options::LAZY`] alone.
    Lazy, ["tree-buddy-lazy", "tree-buddy-lazy-in-band"], LAZY;
    /// [`Options::ROTATED`] alone.
    Rotated, ["tree-buddy-rotated", "tree-buddy-rotated-in-band"], ROTATED;
    /// [`Options::WATCHED`] alone.
    Watched, ["tree-buddy-watched", "tree-buddy-watched-in-band"], WATCHED;
    /// All of them.
    Everything, ["tree-buddy-everything", "tree-buddy-everything-in-band"], READS_FIRST, LAZY, ROTATED, WATCHED;
}
