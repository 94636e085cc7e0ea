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
//! - [`bound`](mod@bound): the most and the fewest instructions between the entry and its return, the path that has
//!   them, and the assumptions. Code that cannot be bounded is declined, with the place and the reason.
//! - [`certificate`]: a proof that needs no trust in the solver. [`check`](mod@check) verifies it.
//! - [`counter`]: a copy of the code that counts every instruction it executes, at nearly native speed.
//!
//! ```
//! use pathbound::counter::{Counter, Record, executed};
//! use pathbound::graph::NeverReturns;
//! use pathbound::image::{ElfFile, Image, Process};
//! use pathbound::{Certificate, Facts, Graph, bound, check};
//!
//! #[unsafe(no_mangle)]
//! extern "C" fn larger(a: u64, b: u64) -> u64 {
//!     if a > b { a } else { b }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
//! #     return Ok(());
//! # }
//! # assert_eq!(larger(1, 2), 2);
//! // What it can execute at most, proved from the file...
//! let file = ElfFile::open("/proc/self/exe".as_ref())?;
//! let entry = file.find("larger")[0].address;
//! let graph = Graph::explore(&file, &[entry], &NeverReturns::default())?;
//! let bound = bound(&file, &graph, entry, &Facts::default())?;
//! let certificate = Certificate::of(&bound, file.provenance());
//! assert_eq!(check(&certificate, &file, file.provenance())?.most, bound.most);
//!
//! // ... and what it executes, counted by a copy of its code in this process.
//! let process = Process::current()?;
//! let original = larger as *const () as u64;
//! let graph = Graph::explore_to_count(&process, &[original], &NeverReturns::default())?;
//! let counter = Counter::new(&process, &graph, Record::Count)?;
//! let copy = counter.entry(original).expect("it is in the graph");
//! // SAFETY: the copy has the signature of `larger`, and `counter` is still alive.
//! let copy = unsafe { std::mem::transmute::<*const std::ffi::c_void, extern "C" fn(u64, u64) -> u64>(copy) };
//! let before = executed();
//! assert_eq!(copy(3, 2), 3);
//! assert!((bound.least..=bound.most).contains(&(executed() - before)));
//! # Ok(())
//! # }
//! ```
//!
//! The unit is the executed instruction or, for some [cores](Core), the cycle. The instruction sets are those in
//! [`Arch::ALL`]; the code that depends on one is in [`arch`], and in [`counter`], which supports x86-64 only.

mod address;
pub mod arch;
pub mod assumption;
pub mod bound;
pub mod certificate;
pub mod check;
pub mod counter;
pub mod decline;
pub mod facts;
pub mod graph;
pub mod image;
mod second_decoder;
pub mod unit;

pub use arch::{Arch, Core};
pub use assumption::Assumption;
pub use bound::{Bound, bound, bound_in, loops};
pub use certificate::Certificate;
pub use check::check;
pub use decline::{Decline, Site};
pub use facts::Facts;
pub use graph::Graph;
pub use image::{ElfFile, Image, Process};
pub use unit::Unit;
