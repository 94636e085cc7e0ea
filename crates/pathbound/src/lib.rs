//! Machine code in, instruction counts out: certified static bounds and exact counts of any function.
//!
//! ```text
//! ELF file | running process -> image -> graph -> bound -> certificate -> check
//!                                          |                               ^
//!                                          +----> counter                  | decodes on its own
//! ```
//!
//! - [`image`]: where code comes from: an [ELF file](image::ElfFile) or this [process](image::Process).
//! - [`graph`]: the control flow of an entry point and of everything it calls, one node per instruction.
//! - [`bound`](mod@bound): the most and the fewest instructions between the entry and its return, the path that has them, and
//!   what had to be assumed. It declines what it cannot bound, and says where and why.
//! - [`certificate`]: what convinces somebody who does not trust the solver. [`check`](mod@check) is that somebody.
//! - [`counter`]: a copy of the code that counts its own instructions, at native speed, every one.
//!
//! The unit is the executed instruction, never time. x86-64 is the architecture there is; what depends on it is in
//! [`arch`] and in [`counter`].

pub mod arch;
pub mod bound;
pub mod certificate;
pub mod check;
pub mod counter;
pub mod decline;
pub mod facts;
pub mod graph;
pub mod image;

pub use bound::{Bound, bound};
pub use certificate::Certificate;
pub use check::check;
pub use decline::{Decline, Site};
pub use facts::Facts;
pub use graph::Graph;
pub use image::{ElfFile, Image, Process};
