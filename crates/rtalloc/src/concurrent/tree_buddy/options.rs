//! What the paper's further work (section 5) and more can change, each chosen by type.
//!
//! | constant | what changes | it costs |
//! |---|---|---|
//! | [`READS_FIRST`](Options::READS_FIRST) | a subtree is sought by loads, and only the way to it is written | a load per node visited; a search that finds nothing is made twice unless the root says at once that there is nothing |
//! | [`LAZY`](Options::LAZY) | a freed subtree's inner counters are not reset | out of band nothing; in band up to one read-modify-write and two stores for every node that a search opens |
//! | [`ROTATED`](Options::ROTATED) | slots go different ways from the root, so they meet less | memory is used all over the region |
//! | [`WATCHED`](Options::WATCHED) | a refusal tells an exhausted heap from a contended one | two read-modify-writes per operation, on one word that all users share |
//!
//! A type of one's own combines them:
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

/// What a [`TreeBuddy`](super::TreeBuddy) does beyond the paper's algorithm: nothing by default.
pub trait Options: Copy + Debug + Send + Sync + 'static {
    /// Names of the heap in the two layouts, [`OutOfBand`](super::OutOfBand) first.
    const NAMES: [&'static str; 2];
    /// The tree is searched by loads before a counter is written; out of band only. In band, a counter below one that nothing was
    /// taken from may be somebody's memory already: to load it would race with the owner's writes.
    const READS_FIRST: bool = false;
    /// Counters inside a freed subtree are reset when a search goes there, or not at all where nobody could write them.
    const LAZY: bool = false;
    /// Which child is tried first depends on the slot's number: bit 0 decides below the root, bit 1 one level further down,
    /// and so on.
    const ROTATED: bool = false;
    /// Operations under way are counted, so that a refusal without any beside it is told from the others.
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
    /// The paper's algorithm as it is.
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
