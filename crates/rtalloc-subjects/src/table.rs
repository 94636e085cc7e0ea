//! The table: one entry per allocator.

use crate::ablations::{
    Bitframe4, Bitframe8, Bitframe16, BitframeCrossing, BitframeEager, ClassRegions8, Reaps8, SimpleSegregated8,
    SingleRegion8, ThesisBuddy, ThesisSizes,
};
use crate::adapter::{AsDefault, configured, ours};
use crate::compact_fit::{NotFull, page_blocks};
use crate::one_slot::{self, OneSlot};
use crate::{About, Guarantee, LoopLimits, Subject, WorstCases, handles, peers};
use rtalloc::adapt::SingleUser;
use rtalloc::buddy::binary::{Binary, UNLIMITED};
use rtalloc::buddy::double::Double;
use rtalloc::buddy::fibonacci::Fibonacci;
use rtalloc::buddy::weighted::Weighted;
use rtalloc::compact_fit::{DefaultLadder, Framed, PaperLadder};
use rtalloc::concurrent::arenas::Arenas;
use rtalloc::concurrent::bitmap_buddy::BitmapBuddy;
use rtalloc::concurrent::tree_buddy::{InBand, TreeBuddy};
use rtalloc::contract::RegionAllocator as _;
use rtalloc::mechanism::buddy::{Buddies, Headers, Placement, SideTable, System};
use rtalloc::mechanism::segregated::{Exact, RoundUp};
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::Full;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{
    AddressOrderedFirstFit, BestFit, BinaryBuddy, Bitframe, ClassRegions, CompactFit, CompactFitNonMoving, DoubleBuddy,
    FastFit, FibonacciBuddy, FirstFit, HalfFit, Kingsley, LeftmostFastFit, LifoNextFit, NextFit, QuickFit, Reaps,
    SimpleSegregated, SingleRegion, Tlsf, TreeBestFit, WeightedBuddy,
};

/// Every subject, in the order of tables.
#[must_use]
pub fn all() -> &'static [Subject] {
    ALL
}

/// Options of every allocator with boundary tags.
const TAGGED: &str = "width of the tags (Offset16, Offset32, Wide), statistics (WithStats), full validation (Full)";

/// Common facts of entries of one allocator with other parameters.
const TLSF: About = About {
    worst_cases: WorstCases::GoodFit,
    guarantee: Some(Guarantee::GoodFit(32)),
    options: "as tlsf",
    ..About::NOTHING
};
const LIST: About = About {
    worst_cases: WorstCases::Sequential,
    guarantee: Some(Guarantee::AnyFit),
    options: TAGGED,
    ..About::NOTHING
};
const CARTESIAN_TREE: About = About {
    worst_cases: WorstCases::CartesianTree,
    guarantee: Some(Guarantee::AnyFit),
    options: "width of the links",
    ..About::NOTHING
};
const CARVING: About = About { worst_cases: WorstCases::Carving, ..About::NOTHING };
const BUDDIES: About = About { worst_cases: WorstCases::Buddies, ..About::NOTHING };
const PAGES: About = About { worst_cases: WorstCases::Pages, guarantee: Some(Guarantee::Pages), ..About::NOTHING };
const BITFRAMES: About = About {
    worst_cases: WorstCases::Bitframes,
    guarantee: Some(Guarantee::Pages),
    options: "as bitframe",
    ..About::NOTHING
};
const COMPACTING: About = About {
    worst_cases: WorstCases::Compacting,
    options: "as compact-fit",
    page_blocks: Some(page_blocks::<DefaultLadder>),
    ..About::NOTHING
};

/// The default command of the laboratory shows the entries of the dozen: few enough for one table and one minute. Of
/// each family the best known; of the peers those that users would choose instead: the best published TLSF, the two
/// general allocators without an operating system, the one that is fastest on average, and the system's.
static ALL: &[Subject] = &[
    ours::<Tlsf<'static>>(
        "tlsf",
        About {
            summary: "Two levels of size classes with a bitmap each; a request is rounded up to a class whose every block is large enough.",
            wins: "the default choice: constant time with a low bound, and the memory of best-fit",
            loses: "half-fit executes fewer instructions; allocators of one size, or of pages of one class, fewer still",
            options: "J (1 to 6), 2^J classes per power of two; RoundUp or Exact split; width of the tags (Offset16, Offset32, Wide), \
                      statistics (WithStats), full validation (Full)",
            in_dozen: true,
            ..TLSF
        },
    ),
    ours::<Tlsf<'static, 5, Exact>>(
        "tlsf-exact",
        About {
            summary: "TLSF that splits to the requested size instead of the rounded one.",
            wins: "less internal fragmentation than the paper's split",
            loses: "a freed block may be too small for the class of the same request, so a steady load can keep splitting",
            ..TLSF
        },
    ),
    ours::<Tlsf<'static, 5, RoundUp, Offset32, NoStats, Full>>(
        "tlsf-full-validation",
        About {
            summary: "TLSF that seals headers and validates every tag around a block that is freed or allocated.",
            wins: "reports every one-byte overrun in heaps below 16 MiB; a stale pointer until its memory is allocated again",
            loses: "at most 20 instructions more per request (24 if aligned), 27 per free, in the C library",
            ..TLSF
        },
    ),
    ours::<HalfFit<'static>>(
        "half-fit",
        About {
            summary: "One list and one bit per power of two; a request is served from the first range whose every block is large enough.",
            wins: "the lowest bounds of the constant-time allocators for any size, and the smallest control structure",
            loses: "a block never serves a request in its own power of two, so an adversary makes it need nearly n times M",
            options: TAGGED,
            worst_cases: WorstCases::HalfFit,
            guarantee: Some(Guarantee::HalfFit),
            in_dozen: true,
            ..About::NOTHING
        },
    ),
    ours::<QuickFit<'static>>(
        "quick-fit",
        About {
            summary: "Lists of one size each, filled by cutting pages; pages are found by next-fit and given back when empty.",
            wins: "a few instructions where a freed block serves the next request of its size while another block of its page is live",
            loses: "an empty class cuts a whole page at once; a program that alternates around the last block of a page cuts and releases it \
                    every time",
            options: "the page size",
            worst_cases: WorstCases::QuickFit,
            ..About::NOTHING
        },
    ),
    ours::<SimpleSegregated<'static>>(
        "simple-segregated",
        About {
            summary: "A list per size class, filled by cutting blocks off unused memory; a header holds the class.",
            wins: "the shortest code of all, and constant time",
            loses: "a block serves its class forever: memory of sizes no longer requested is lost",
            options: "quantum and largest size of the classes",
            guarantee: Some(Guarantee::EveryClass),
            ..CARVING
        },
    ),
    ours::<SimpleSegregated8>(
        "simple-segregated-8",
        About {
            summary: "simple-segregated with the thesis' classes of 8 bytes.",
            wins: "as simple-segregated, with the paper's classes",
            loses: "as simple-segregated; blocks are aligned to 8 bytes only",
            options: "as simple-segregated",
            guarantee: Some(Guarantee::EveryClass),
            ..CARVING
        },
    ),
    ours::<Kingsley<'static>>(
        "kingsley",
        About {
            summary: "A list per power of two, never coalesced.",
            wins: "a handful of instructions for any size",
            loses: "up to half of every block is lost, and memory of one size never serves another",
            guarantee: Some(Guarantee::PowerClasses),
            ..CARVING
        },
    ),
    ours::<FirstFit<'static>>(
        "first-fit",
        About {
            summary: "One list, freed blocks at its head; the first block that is large enough is split.",
            wins: "few instructions on average, and a constant-time deallocate",
            loses: "the search has no bound other than the heap's size",
            ..LIST
        },
    ),
    ours::<AddressOrderedFirstFit<'static>>(
        "first-fit-address",
        About {
            summary: "One list in address order; the first block that is large enough is split.",
            wins: "the least memory in the worst case: M(1 + ⌈log2 n⌉)",
            loses: "both operations walk the list",
            worst_cases: WorstCases::AddressOrdered,
            guarantee: Some(Guarantee::FirstFit),
            ..LIST
        },
    ),
    ours::<NextFit<'static>>(
        "next-fit",
        About {
            summary: "One list, searched from where the last search ended.",
            wins: "shorter searches than first-fit's on most loads",
            loses: "it cuts every large block in turn: more memory than first-fit, and the same unbounded search",
            worst_cases: WorstCases::AddressOrdered,
            ..LIST
        },
    ),
    ours::<LifoNextFit<'static>>(
        "next-fit-lifo",
        About {
            summary: "next-fit over a list in the order of frees instead of addresses.",
            wins: "a constant-time deallocate",
            loses: "neighbours in memory are not neighbours in the list, so blocks of one kind scatter",
            ..LIST
        },
    ),
    ours::<BestFit<'static>>(
        "best-fit",
        About {
            summary: "One list; the smallest block that is large enough, found by a search of the whole list, is split.",
            wins: "the least memory on most programs",
            loses: "every allocate walks the list",
            in_dozen: true,
            ..LIST
        },
    ),
    ours::<TreeBestFit<'static>>(
        "tree-best-fit",
        About {
            summary: "Best-fit with free blocks in a self-adjusting (splay) tree by size, blocks of one size in a list.",
            wins: "best-fit's memory at a logarithmic cost on average",
            loses: "a single operation may walk a degenerate tree from end to end",
            worst_cases: WorstCases::SplayTree,
            in_dozen: true,
            ..LIST
        },
    ),
    ours::<FastFit<'static>>(
        "fast-fit",
        About {
            summary: "A Cartesian tree of free blocks: by address from left to right, by size from root to leaf; no boundary tags.",
            wins: "no tag at the end of blocks, and short trees on average",
            loses: "operations are linear in the depth of the tree, which has no bound",
            ..CARTESIAN_TREE
        },
    ),
    ours::<LeftmostFastFit<'static>>(
        "fast-fit-leftmost",
        About {
            summary: "fast-fit that takes the block of the lowest address that is large enough.",
            wins: "live blocks stay at the low end, as with address-ordered first-fit",
            loses: "deeper descents than better fit",
            ..CARTESIAN_TREE
        },
    ),
    ours::<BinaryBuddy<'static>>(
        "binary-buddy",
        About {
            summary: "Blocks are halves of halves of the heap; an exclusive or finds the buddy of a freed block.",
            wins: "any size in logarithmic time, natural alignment at no cost, and a guarantee against fragmentation",
            loses: "requests are rounded up to powers of two: a quarter of the memory on average",
            options: "the smallest block",
            guarantee: Some(Guarantee::BinaryBuddy),
            loop_limits: buddies::<Binary<16, UNLIMITED>, SideTable>(),
            in_dozen: true,
            ..BUDDIES
        },
    ),
    ours::<ThesisBuddy>(
        "bbuddy",
        About {
            summary: "The thesis' binary buddy: top blocks of 1024 bytes with a header of 16, so at most five splits.",
            wins: "constant time for small blocks",
            loses: "a request of 512 bytes takes 1024; headers of 16 bytes",
            guarantee: Some(Guarantee::BinaryBuddy),
            loop_limits: buddies::<ThesisSizes, Headers<16>>(),
            ..BUDDIES
        },
    ),
    ours::<FibonacciBuddy<'static>>(
        "fibonacci-buddy",
        About {
            summary: "A buddy system whose sizes are Fibonacci numbers; a count in the block distinguishes left from right, so no search is needed.",
            wins: "sizes closer to each other than powers of two: less internal fragmentation",
            loses: "the remainders of splits have sizes that are rarely requested",
            loop_limits: buddies::<Fibonacci<16>, Headers>(),
            ..BUDDIES
        },
    ),
    ours::<WeightedBuddy<'static>>(
        "weighted-buddy",
        About {
            summary: "A buddy system of sizes 2^k and 3 * 2^k.",
            wins: "twice as many sizes as a binary buddy",
            loses: "more external fragmentation; a block's buddy depends on how it was split",
            loop_limits: buddies::<Weighted<16>, Headers>(),
            ..BUDDIES
        },
    ),
    ours::<DoubleBuddy<'static>>(
        "double-buddy",
        About {
            summary: "Two binary buddies side by side, of 2^k and of 3 * 2^k.",
            wins: "less internal fragmentation than a binary buddy",
            loses: "memory of one half never serves the other",
            loop_limits: buddies::<Double<16>, SideTable>(),
            ..BUDDIES
        },
    ),
    ours::<Bitframe<'static>>(
        "bitframe",
        About {
            summary: "Pages of chunks with a bit each in frames of 8; tables find room for a block of a given number of chunks in a frame.",
            wins: "blocks of any number of chunks in one page without headers, in constant time",
            loses: "more instructions than lists; a sequence cannot cross the end of its frame",
            options: "page size, chunk sizes, width of a frame, longest sequence, sequences across frames, eager initialisation",
            in_dozen: true,
            ..BITFRAMES
        },
    ),
    ours::<Bitframe8>(
        "bitframe-8",
        About {
            summary: "bitframe with the thesis' chunks of 8 and 64 bytes.",
            wins: "as bitframe, with the paper's chunks",
            loses: "as bitframe; blocks are aligned to 8 bytes only",
            ..BITFRAMES
        },
    ),
    ours::<BitframeEager>(
        "bitframe-eager",
        About {
            summary: "bitframe that initialises a whole page when it takes it, as the thesis describes.",
            wins: "allocations that take no page execute a little less",
            loses: "an allocation that takes a page writes all of its frames",
            ..BITFRAMES
        },
    ),
    ours::<Bitframe16>(
        "bitframe-16",
        About {
            summary: "bitframe with frames of 16 chunks.",
            wins: "fewer sequences end at a frame, so longer ones find room",
            loses: "larger tables",
            ..BITFRAMES
        },
    ),
    ours::<Bitframe4>(
        "bitframe-4",
        About {
            summary: "bitframe with sequences of at most 4 chunks, and a third size of chunks.",
            wins: "a frame has room for two of the longest sequences",
            loses: "more sizes of chunks, each with pages of its own",
            ..BITFRAMES
        },
    ),
    ours::<BitframeCrossing>(
        "bitframe-crossing",
        About {
            summary: "bitframe with sequences of at most 4 chunks that may cross from one frame into the next.",
            wins: "no chunk is lost at the end of a frame",
            loses: "the next frame is read and written too",
            ..BITFRAMES
        },
    ),
    ours::<SingleRegion<'static>>(
        "regis1",
        About {
            summary: "Blocks are cut off one page in the order of the requests; a page is free when the count of its live blocks is zero.",
            wins: "next to no bookkeeping, and the shortest code after simple segregated storage",
            loses: "one live block keeps its page: memory grows with the longest lifetime in every page",
            options: "page size and quantum",
            ..PAGES
        },
    ),
    ours::<SingleRegion8>(
        "regis1-8",
        About {
            summary: "regis1 with the thesis' quantum of 8 bytes.",
            wins: "as regis1, with the paper's quantum",
            loses: "as regis1; blocks are aligned to 8 bytes only",
            options: "as regis1",
            ..PAGES
        },
    ),
    ours::<ClassRegions<'static>>(
        "regis2",
        About {
            summary: "regis1 with a page for every size class.",
            wins: "blocks of one size die together more often than blocks of all sizes",
            loses: "as regis1, and a page in use for every size",
            options: "page size, quantum and largest size of the classes",
            ..PAGES
        },
    ),
    ours::<ClassRegions8>(
        "regis2-8",
        About {
            summary: "regis2 with the thesis' classes of 8 bytes.",
            wins: "as regis2, with the paper's classes",
            loses: "as regis2; blocks are aligned to 8 bytes only",
            options: "as regis2",
            ..PAGES
        },
    ),
    ours::<Reaps<'static>>(
        "reaps",
        About {
            summary: "Pages of one class each: cut first, then a free list; an empty page is given back; no header.",
            wins: "no header, constant time, pages that serve any class again: the least memory with many small blocks",
            loses: "a page of its own for the only block of a size",
            options: "page size, quantum and largest size of the classes",
            in_dozen: true,
            ..PAGES
        },
    ),
    ours::<Reaps8>(
        "reaps-8",
        About {
            summary: "reaps with the thesis' classes of 8 bytes.",
            wins: "as reaps, with the paper's classes",
            loses: "as reaps; blocks are aligned to 8 bytes only",
            options: "as reaps",
            ..PAGES
        },
    ),
    handles::subject::<CompactFit<'static>, AsDefault>(
        "compact-fit",
        About {
            summary: "Size classes of pages; when a free would leave a class with two not-full pages, another object moves into the gap.",
            wins: "memory depends on what is live, not on the past: the live objects of each class determine the number of pages",
            loses: "objects have handles, and every access goes through the heap; a free may copy an object of the class; a page for each \
                    class in use",
            options: "ladder of size classes and page size (Geometric), not-full pages of each class (CompactFitConfig), bytes moved per step \
                      (IOTA), statistics (WithStats)",
            guarantee: Some(Guarantee::CompactFit { not_full: 1, paper: false }),
            ..COMPACTING
        },
    ),
    handles::subject::<CompactFit<'static>, NotFull<3>>(
        "compact-fit-3",
        About {
            summary: "Compact-fit with up to three not-full pages in each class.",
            wins: "most frees that would move an object leave one more not-full page instead",
            loses: "up to two pages more in each class in use",
            guarantee: Some(Guarantee::CompactFit { not_full: 3, paper: false }),
            ..COMPACTING
        },
    ),
    handles::subject::<CompactFit<'static>, NotFull<9>>(
        "compact-fit-9",
        About {
            summary: "Compact-fit with up to nine not-full pages in each class.",
            wins: "objects hardly ever move",
            loses: "up to eight pages more in each class in use",
            guarantee: Some(Guarantee::CompactFit { not_full: 9, paper: false }),
            ..COMPACTING
        },
    ),
    handles::subject::<CompactFit<'static, DefaultLadder, NoStats, 256>, AsDefault>(
        "compact-fit-iota",
        About {
            summary: "Compact-fit with incremental compaction: an operation moves at most 256 bytes, and later operations finish the move.",
            wins: "no operation takes as long as the copy of a large object",
            loses: "every operation tests for pending compaction; until it is done, a class has more not-full pages, and a request may be \
                    refused that would be served later",
            ..COMPACTING
        },
    ),
    handles::subject::<CompactFitNonMoving<'static>, AsDefault>(
        "compact-fit-non-moving",
        About {
            summary: "Compact-fit on virtual pages: the block-frames of an object stay where they are, and compaction changes the block table.",
            wins: "no byte is ever copied, so a free takes less than the copy of a large object, and hardware may keep addresses of frames",
            loses: "every operation is linear in the object; an object is in pieces, and each access looks up its piece; 14 bytes per frame",
            options: "ladder of size classes and page size (Geometric), bytes of a block-frame (FRAME), not-full pages of each class and pages \
                      in reserve (NonMovingConfig), statistics",
            page_blocks: Some(page_blocks::<Framed<DefaultLadder, 32>>),
            ..COMPACTING
        },
    ),
    handles::subject::<CompactFit<'static, PaperLadder>, AsDefault>(
        "compact-fit-paper",
        About {
            summary: "Compact-fit with the paper's 46 size classes, whose blocks are multiples of 4 bytes.",
            wins: "sizes a little closer to the request than with the default ladder",
            loses: "objects are aligned to 4 bytes only",
            guarantee: Some(Guarantee::CompactFit { not_full: 1, paper: true }),
            page_blocks: Some(page_blocks::<PaperLadder>),
            ..COMPACTING
        },
    ),
    Subject {
        // The family of the heaps in the arenas.
        family: <Tlsf<'static>>::CONTRACT.mechanism.name(),
        ..configured::<SingleUser<'static, Arenas<'static>>, OneSlot>(
            "arenas",
            About {
                summary: "A TLSF heap for each slot; a block freed by another slot is queued for its owner, which processes a few queued frees \
                          when it allocates.",
                wins: "several cores with deadlines: no operation of a slot waits for another, and a single thread pays little more than TLSF",
                loses: "a slot may be exhausted while another arena is empty; queues grow with the square of the slots; no bound through \
                        Global or Joint",
                options: "slots, queued frees processed per allocation and per allocation that finds nothing, any heap with boundary tags in \
                          the arenas",
                worst_cases: WorstCases::GoodFit,
                loop_limits: one_slot::ARENAS,
                ..About::NOTHING
            },
        )
    },
    configured::<SingleUser<'static, BitmapBuddy<'static>>, OneSlot>(
        "bitmap-buddy",
        About {
            summary: "Binary buddies whose free blocks are bits of a hierarchy of words; each operation changes one word per level.",
            wins: "several cores, one shared region: a free in logarithmic time, no word inside free memory",
            loses: "an allocation from a nearly full heap reads every word; blocks have at least 64 bytes",
            options: "size of a leaf, blocks trimmed to the leaves they need or whole powers of two, slots",
            worst_cases: WorstCases::BitmapHierarchy,
            loop_limits: one_slot::BITMAP_BUDDY,
            ..About::NOTHING
        },
    ),
    ours::<SingleUser<'static, TreeBuddy<'static>>>(
        "tree-buddy",
        About {
            summary: "A counter of free leaves for every node of a tree; an allocation subtracts its leaves from each node on its path.",
            wins: "a published proof, and bounds that do not depend on the state or on the number of threads",
            loses: "a request fails only after a visit to every node; half of the nodes are visited in vain by the smallest requests",
            options: "size of a node, counters in a side table or in the nodes, reading before writing, lazy resets, other paths for other \
                      slots, definite refusals",
            worst_cases: WorstCases::CounterTree,
            loop_limits: one_slot::TREE_BUDDY,
            ..About::NOTHING
        },
    ),
    ours::<SingleUser<'static, TreeBuddy<'static, 64, InBand>>>(
        "tree-buddy-in-band",
        About {
            summary: "The tree buddy with its counters in the nodes, as in the paper.",
            wins: "less memory for bookkeeping than counters and tags in a side table",
            loses: "an overrun overwrites a counter; 24 bytes of every block cannot be used",
            options: "as tree-buddy",
            worst_cases: WorstCases::CounterTree,
            loop_limits: one_slot::TREE_BUDDY_IN_BAND,
            ..About::NOTHING
        },
    ),
    #[cfg(feature = "rlsf")]
    peers::rlsf::SUBJECT,
    #[cfg(feature = "talc")]
    peers::talc::SUBJECT,
    #[cfg(feature = "dlmalloc")]
    peers::dlmalloc::SUBJECT,
    #[cfg(feature = "buddy-system")]
    peers::buddy_system::SUBJECT,
    #[cfg(feature = "linked-list")]
    peers::linked_list::SUBJECT,
    #[cfg(feature = "good-memory")]
    peers::good_memory::SUBJECT,
    #[cfg(feature = "mimalloc")]
    peers::mimalloc::SUBJECT,
    #[cfg(feature = "jemalloc")]
    peers::jemalloc::SUBJECT,
    peers::system::SUBJECT,
];

/// The loop limits of a buddy system.
const fn buddies<S: System, P: Placement>() -> LoopLimits {
    LoopLimits {
        splits: Some(Buddies::<S, P, Offset32>::max_splits),
        merges: Some(Buddies::<S, P, Offset32>::max_merges),
        ..LoopLimits::NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    #[test]
    fn every_entry_is_filled_in() {
        for subject in ALL {
            let about = subject.about;
            for text in [about.summary, about.wins, about.loses] {
                assert!(!text.is_empty(), "{}", subject.name);
            }
            assert_eq!(about.peer.is_some(), subject.origin != Origin::Ours, "{}", subject.name);
            assert!(about.guarantee.is_none() || subject.origin == Origin::Ours, "{} is not ours", subject.name);
        }
    }
}
