//! Compact-fit: objects that move, so that memory stays predictable.
//!
//! Pages of one size belong to size classes; a class has at most a chosen number of pages that are not full, because an object
//! moves into the gap when another one leaves. What live objects there are decides how many pages are in use; what was
//! allocated and freed before does not (Craciunas, Kirsch, Payer, Sokolova, Stadler and Staudinger 2008).
//!
//! ```text
//! class 32 B   [xxxxxxxx] [xxxxxxxx] [xxx.....]            free: the object of a full page is replaced by one of the
//! class 48 B   [xxxxx] [xxx..]                             not-full page, which may become empty:
//! class 64 B   [xxxx]                                      [xxxxoxxx] <-- [..o.....] --> pool
//! pool         [        ] [        ] [        ] ...
//! ```
//!
//! # Words
//!
//! | | |
//! |---|---|
//! | object | what a program allocates; named by a [`Handle`](crate::contract::Handle), which stays good wherever the object is |
//! | page | equal parts of the region, 16 KiB in the default ladder: in the *pool* until a size class needs one, and again when empty |
//! | size class | the pages whose *page-blocks*, the places for one object each, have one size |
//! | not full | a page that has used page-blocks and free ones; *max_nr_nf_pages* is how many of them a class may have |
//! | entry | what a handle leads to: it says where the object is. Its number is the *abstract address* |
//! | block-frame | in the non-moving variant, the piece of memory of which objects are made, 32 B |
//! | to owe | to have moves still to do, where compaction goes in steps |
//!
//! # How to begin
//!
//! 1. Take [`CompactFit`]. Take [`CompactFitNonMoving`] where objects must not move, because a device has their addresses, and
//!    may be in pieces.
//! 2. Find out how many pages always suffice: [`guarantee`].
//!    Every size class that is used takes a page at least, and entries take another: in a small memory choose smaller pages, as below.
//! 3. Put the heap into what gives access by references: [`handles`](crate::handles).
//! 4. Where moving an object takes a free too long, allow more not-full pages ([`CompactFitConfig`]; the command `rtalloc tune
//!    compact-fit` finds numbers for a program), or move in steps of so many bytes ([`moving`]).
//!
//! For several threads, there is an instance for each of them: [`concurrent::compact_fit`](crate::concurrent::compact_fit).
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
//! | `page` | the directory: what every page knows about itself, and its two-dimensional bitmap |
//! | `classes` | not-full pages, rules 1 and 2, partial compaction |
//! | `steps` | compaction in steps: what is owed, and the one move under way |
//! | [`moving`] | the variant whose objects are contiguous, and are copied when they move |
//! | [`non_moving`] | the variant whose objects are in block-frames that stay where they are, and tables say where |
//! | [`guarantee`] | how many pages a program ever needs |

pub(crate) mod classes;
pub(crate) mod free_list;
pub mod guarantee;
pub mod ladder;
pub mod moving;
pub mod non_moving;
pub(crate) mod page;
pub(crate) mod steps;

pub use ladder::{DefaultLadder, Framed, Geometric, Ladder, PaperLadder, SizeClass};
pub use moving::{AT_ONCE, CompactFit};
pub use non_moving::{CompactFitNonMoving, NonMovingConfig};

/// How many pages of each size class may be not full: max_nr_nf_pages (section 3.4).
///
/// ```
/// use rtalloc::compact_fit::CompactFitConfig;
///
/// let config = CompactFitConfig::with_most_not_full(2).and_class(7, 3);
/// assert_eq!((config.most_not_full(0), config.most_not_full(7)), (2, 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactFitConfig {
    most_not_full: [u32; ladder::MOST_CLASSES],
}

impl CompactFitConfig {
    /// The same number for every class; 0 is taken for 1.
    pub const fn with_most_not_full(pages: u32) -> Self {
        let pages = if pages == 0 { 1 } else { pages };
        CompactFitConfig { most_not_full: [pages; ladder::MOST_CLASSES] }
    }

    /// Another number for one class; 0 is taken for 1. A class that no ladder has changes nothing.
    pub const fn and_class(mut self, class: usize, pages: u32) -> Self {
        if class < ladder::MOST_CLASSES {
            self.most_not_full[class] = if pages == 0 { 1 } else { pages };
        }
        self
    }

    /// The number for a class; 1 for a class that no ladder has.
    pub fn most_not_full(&self, class: usize) -> u32 {
        self.most_not_full.get(class).copied().unwrap_or(1)
    }
}

/// One not-full page for every class: always compact.
impl Default for CompactFitConfig {
    fn default() -> Self {
        Self::with_most_not_full(1)
    }
}
