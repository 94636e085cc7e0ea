//! Compact-fit: objects that move, so that memory consumption stays predictable.
//!
//! Pages of one size belong to size classes. A class has at most a chosen number of pages that are not full, because
//! when an object is freed, another one moves into its gap. The live objects determine the number of pages in use;
//! earlier allocations and frees do not (Craciunas, Kirsch, Payer, Sokolova, Stadler and Staudinger 2008).
//!
//! ```text
//! class 32 B   [xxxxxxxx] [xxxxxxxx] [xxx.....]            free: the object of a full page is replaced by one of the
//! class 48 B   [xxxxx] [xxx..]                             not-full page, which may become empty:
//! class 64 B   [xxxx]                                      [xxxxoxxx] <-- [..o.....] --> pool
//! pool         [        ] [        ] [        ] ...
//! ```
//!
//! # Terms
//!
//! | | |
//! |---|---|
//! | object | an allocation, identified by a [`Handle`](crate::contract::Handle), which stays valid when the object moves |
//! | page | one of the equal parts of the region, 16 KiB in the default ladder: in the *pool* until a size class needs it, and again when empty |
//! | size class | the pages whose *page-blocks*, the places for one object each, have one size |
//! | not full | a page with used and with free page-blocks; *max_nr_nf_pages* is the largest number of them in a class |
//! | entry | the place to which a handle leads; it has the object's address. Its number is the *abstract address* |
//! | block-frame | in the non-moving variant, the piece of memory of which objects are made, 32 B |
//! | pending compaction | moves that remain to be done, with incremental compaction |
//!
//! # Getting started
//!
//! 1. Use [`CompactFit`]. Use [`CompactFitNonMoving`] if objects must not move, because a device has their addresses,
//!    and need not be contiguous.
//! 2. Determine how many pages always suffice: [`guarantee`]. Every size class in use takes at least one page, and
//!    entries take another: for a small memory choose smaller pages, as below.
//! 3. Wrap the heap for access by references: [`handles`](crate::handles).
//! 4. If moving an object makes a free too slow, allow more not-full pages ([`CompactFitConfig`]; the command `rtalloc
//!    tune compact-fit` finds numbers for a program), or compact incrementally, a fixed number of bytes at a time
//!    ([`moving`]).
//!
//! For several threads, there is a variant with one instance per thread:
//! [`concurrent::compact_fit`](crate::concurrent::compact_fit).
//!
//! ```
//! use core::mem::MaybeUninit;
//! use rtalloc::compact_fit::Geometric;
//! use rtalloc::compact_fit::guarantee::MovingLimits;
//! use rtalloc::{CompactFit, HandleAllocator};
//!
//! /// Pages of 1 KiB, page-blocks from 32 bytes on, objects aligned to 8.
//! type Ladder = Geometric<1024, 32, 8>;
//! type Heap<'r> = CompactFit<'r, Ladder>;
//!
//! // At most 40 messages of 24 bytes, 10 of 100, and 2 buffers of 500.
//! const PAGES: usize = 7;
//! let limits = MovingLimits::<Ladder>::NONE.and(40, 24)?.and(10, 100)?.and(2, 500)?;
//! assert_eq!(limits.pages() + limits.entry_pages(), PAGES);
//!
//! let mut memory = [MaybeUninit::uninit(); Heap::region_bytes(PAGES)];
//! assert!(memory.len() < 10 * 1024);
//! let mut heap = Heap::new(&mut memory, Default::default())?;
//! let message = heap.allocate(24)?;
//! heap.free(message)?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Modules
//!
//! | module | what it is |
//! |---|---|
//! | [`ladder`] | the size classes, as a type |
//! | `free_list` | numbered resources that need no initialisation |
//! | `page` | the directory: the headers of all pages, with their two-dimensional bitmaps |
//! | `classes` | not-full pages, rules 1 and 2, partial compaction |
//! | `steps` | incremental compaction: what is pending, and the current move |
//! | [`moving`] | the variant with contiguous objects, which are copied when they move |
//! | [`non_moving`] | the variant with objects in block-frames that never move, located through tables |
//! | [`guarantee`] | how many pages a program ever needs |

pub(crate) mod classes;
pub(crate) mod free_list;
pub mod guarantee;
pub mod ladder;
pub mod moving;
pub mod non_moving;
pub(crate) mod page;
pub(crate) mod steps;

pub use ladder::{DefaultLadder, FrameByFrame, Framed, Geometric, Ladder, PaperLadder, SizeClass};
pub use moving::{AT_ONCE, CompactFit};
pub use non_moving::{CompactFitNonMoving, NonMovingConfig};

/// The largest number of not-full pages of each size class: max_nr_nf_pages (section 3.4).
///
/// ```
/// use rtalloc::compact_fit::CompactFitConfig;
///
/// let config = CompactFitConfig::with_max_not_full(2).with_class(7, 3);
/// assert_eq!((config.max_not_full(0), config.max_not_full(7)), (2, 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactFitConfig {
    max_not_full: [u32; ladder::MAX_CLASSES],
}

impl CompactFitConfig {
    /// The same number for every class; 0 counts as 1.
    pub const fn with_max_not_full(pages: u32) -> Self {
        let pages = if pages == 0 { 1 } else { pages };
        CompactFitConfig { max_not_full: [pages; ladder::MAX_CLASSES] }
    }

    /// Another number for one class; 0 counts as 1. A class that no ladder has is ignored.
    pub const fn with_class(mut self, class: usize, pages: u32) -> Self {
        if class < ladder::MAX_CLASSES {
            self.max_not_full[class] = if pages == 0 { 1 } else { pages };
        }
        self
    }

    /// The number for a class; 1 for a class that no ladder has.
    pub fn max_not_full(&self, class: usize) -> u32 {
        self.max_not_full.get(class).copied().unwrap_or(1)
    }
}

/// One not-full page for every class: always compact.
impl Default for CompactFitConfig {
    fn default() -> Self {
        Self::with_max_not_full(1)
    }
}
