//! Compact-fit: objects that move, so that memory stays predictable.

// Until the first variant uses them.
#![allow(dead_code)]

mod classes;
mod free_list;
pub mod ladder;
mod page;

pub use ladder::{DefaultLadder, Framed, Geometric, Ladder, PaperLadder, SizeClass};
