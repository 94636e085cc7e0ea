//! Pages: a big bag of pages (BIBOP), each of which holds blocks of one kind and records the kind itself.
//!
//! The room is divided into pages of one size, a power of two, at multiples of it. The page of a block is its address
//! with the low bits cleared, so no block has a header (Steele 1977; the Bitframe thesis, 2012, section 3.3.1). A
//! page's bookkeeping is at its end: its first block is then as aligned as the page, and blocks whose size is a
//! multiple of 2^a are aligned to 2^a:
//!
//! ```text
//! page at 0x..400:  [block][block][block] ... [block][ rest ][.... footer]   up to 0x..7ff
//!                   ^ 0x..400                                 ^ PAGE - BYTES
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`pool`] | the pages: taken and returned in constant time, identified by one comparison |
//! | [`ring`] | circular doubly linked lists of pages, with dummy heads |
//! | [`marks`] | one bit for every quantum of a page |
//! | [`quanta`] | size classes one quantum apart, and their alignment |

pub mod marks;
pub mod pool;
pub mod quanta;
pub mod ring;

pub use marks::{Marks, Quantum};
pub use pool::{Footer, Page, Pages, Pool};
pub use quanta::{QUANTUM, Quanta};

use crate::contract::{Coalescing, Contract, Cost, Mechanism};

/// The facts common to allocators without headers, with pages of `page_bytes` and blocks that are multiples of
/// `quantum_bytes`, a power of two.
pub const fn page_contract(page_bytes: usize, quantum_bytes: usize) -> Contract {
    Contract {
        name: "",
        source: "",
        policy: "",
        mechanism: Mechanism::Regional,
        granule_bytes: quantum_bytes,
        header_bytes: 0,
        alignment_bytes: quantum_bytes,
        min_block_bytes: quantum_bytes,
        splitting_threshold_bytes: 0,
        max_span_bytes: usize::MAX,
        largest_request_bytes: usize::MAX,
        largest_alignment_bytes: usize::MAX,
        page_bytes,
        coarsest_bytes: 0,
        allocate: Cost::Constant,
        deallocate: Cost::Constant,
        reallocate: Cost::Constant,
        coalescing: Coalescing::Pages,
        grows_in_place: false,
        shrinks_in_place: false,
        detects_double_free: true,
        detects_stale_pointers: true,
        // There are no tags: a block is followed by another block, or by the page's footer.
        detects_overwritten_tags: false,
        largest_is_exact: true,
        // The blocks of a page serve only requests of its class.
        largest_covers_smaller: false,
    }
}
