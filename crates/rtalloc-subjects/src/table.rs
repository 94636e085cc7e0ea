//! The table of subjects: the region allocators of the library, from its own table; then those that have their entry
//! here, and the peers.

use crate::ablations::{Bitframe4, Bitframe8, Bitframe16, BitframeCrossing, BitframeEager, ThesisBuddy, ThesisSizes};
use crate::adapter::{AsDefault, configured, ours};
use crate::compact_fit::{NotFull, page_blocks, region_bytes_for};
use crate::one_slot::{self, OneSlot};
use crate::{About, Guarantee, LoopLimits, Subject, WorstCases, global, handles, peers, pools};
use rtalloc::adapt::SingleUser;
use rtalloc::compact_fit::{DefaultLadder, Framed, PaperLadder};
use rtalloc::concurrent::PooledArenas;
use rtalloc::concurrent::bitmap_buddy::BitmapBuddy;
use rtalloc::concurrent::tree_buddy::{InBand, TreeBuddy};
use rtalloc::contract::RegionAllocator as _;
use rtalloc::mechanism::buddy::{Buddies, Headers, Placement, System};
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::mechanism::word::Offset32;
use rtalloc::{CompactFit, CompactFitNonMoving, Tlsf};
use std::sync::LazyLock;

/// Every subject, in the order of tables.
///
/// The default command of the laboratory shows the entries of the dozen: few enough for one table and one minute. Of
/// most families the best known of ours, none of them with handles; of the peers those that users would choose instead: the best published TLSF, the two
/// general allocators without an operating system, the one that is fastest on average, and the system's.
#[must_use]
pub fn all() -> &'static [Subject] {
    static ALL: LazyLock<Vec<Subject>> =
        LazyLock::new(|| [REGION_ALLOCATORS.concat().as_slice(), OTHERS, peers::ALL].concat());
    &ALL
}

/// The region allocators of the library's table, without the variants that only papers compare.
#[must_use]
pub fn region_allocators() -> &'static [Subject] {
    let variants = OTHERS.len() + peers::ALL.len();
    &all()[..all().len() - variants]
}

/// Options of every allocator with boundary tags.
const TAGGED: &str =
    "width of the tags (Offset16, Offset32, Wide), statistics (WithStats), validation (Unchecked, OwnTag, Basic, Full)";

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

/// Defines [`REGION_ALLOCATORS`].
macro_rules! region_allocators {
    ($(
        $(#[doc = $summary:literal])*
        $name:ident, $command:literal: $heap:ty, [$($ability:ident),*] {
            $(c: $opaque:ident $(by $config:ident)?,)?
            $(laboratory: $about:tt,)?
        }
    )*) => {
        /// The region allocators of the library's table that have a part for the laboratory.
        const REGION_ALLOCATORS: &[&[Subject]] =
            &[$(region_allocators!($command, $heap, concat!($($summary),*), [$($opaque)?] $(, $about)?)),*];
    };
    ($command:literal, $heap:ty, $summary:expr, $opaque:tt) => { &[] };
    ($command:literal, $heap:ty, $summary:expr, [$($opaque:ident)?], { $($about:tt)* }) => {
        &[ours::<$heap>($command, About {
            summary: $summary.trim_ascii_start(),
            rust_type: stringify!($heap),
            c_type: concat!($(stringify!($opaque))?),
            $($about)*
        })]
    };
}

rtalloc::region_allocators!(region_allocators, rtalloc::mechanism::word::Offset32, rtalloc::mechanism::stats::NoStats);

/// Bytes by which a region must be larger in C, where every heap with a guarantee counts statistics in its control
/// structure: their size, a granule that the blocks may lose, and a class that the larger region may add.
pub const C_MORE_BYTES: usize = size_of::<WithStats>() + 24;

/// The allocators with an entry here: those whose objects have handles, shared ones with one user, and those that only
/// papers compare.
const OTHERS: &[Subject] = &[
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
            region_for: Some(region_bytes_for::<DefaultLadder, 1>),
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
            region_for: Some(region_bytes_for::<DefaultLadder, 3>),
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
            region_for: Some(region_bytes_for::<DefaultLadder, 9>),
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
            region_for: Some(region_bytes_for::<PaperLadder, 1>),
            page_blocks: Some(page_blocks::<PaperLadder>),
            ..COMPACTING
        },
    ),
    Subject {
        // The family of the heaps in the slots.
        family: <Tlsf<'static>>::CONTRACT.mechanism.name(),
        ..configured::<SingleUser<'static, PooledArenas<'static>>, OneSlot>(
            "pooled-arenas",
            About {
                summary: "A TLSF heap for each slot, whose memory comes from one pool of chunks and goes back when it is empty; large blocks \
                          are runs of chunks; a block freed by another slot is queued for its owner, which processes a few \
                          queued frees when it allocates.",
                wins: "several cores with deadlines: no operation of a slot waits for another, and any slot gets any request up to the \
                       longest run of free chunks",
                loses: "a small live block keeps its piece, up to 4 chunks; an allocation that takes chunks reads the pool's 8 words; queues grow with the \
                        square of the slots; no bound through Global or Joint with ThreadSlots",
                options: "slots, queued frees processed per allocation, bytes of a chunk, any heap with boundary tags",
                worst_cases: WorstCases::Pooled,
                loop_limits: one_slot::POOLED_ARENAS,
                ..About::NOTHING
            },
        )
    },
    Subject {
        family: <Tlsf<'static>>::CONTRACT.mechanism.name(),
        ..global::subject::<PooledArenas<'static>, OneSlot>(
            "pooled-arenas-global",
            About {
                summary: "Pooled arenas as the global allocator of a program that numbers its callers.",
                wins: "as pooled-arenas; no code of the program names the heap",
                loses: "each call asks whether the heap is made and for the caller's number; a contended request is repeated up to 16 times",
                options: "as pooled-arenas, and the source of numbers (CurrentSlot)",
                worst_cases: WorstCases::Pooled,
                loop_limits: one_slot::POOLED_ARENAS,
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
    use crate::{Heap, Origin, Region};
    use std::path::Path;

    #[test]
    fn every_entry_is_filled_in() {
        for subject in all() {
            let about = subject.about;
            for text in [about.summary, about.wins, about.loses] {
                assert!(!text.is_empty(), "{}", subject.name);
            }
            assert_eq!(about.peer.is_some(), subject.origin != Origin::Ours, "{}", subject.name);
            assert!(about.guarantee.is_none() || subject.origin == Origin::Ours, "{} is not ours", subject.name);
        }
    }

    /// Defines [`AS_IN_C`].
    macro_rules! as_in_c {
        ($(
            $(#[$summary:meta])*
            $name:ident, $command:literal: $heap:ty, [$($ability:ident),*] { $($exposed:tt)* }
        )*) => {
            /// The library's region allocators as in C.
            const AS_IN_C: &[Subject] = &[$(ours::<$heap>($command, About::NOTHING)),*];
        };
    }

    rtalloc::region_allocators!(as_in_c, Offset32, WithStats);

    /// Bytes of blocks in a fresh heap in `bytes` bytes from `start` on; 0 if they are too few.
    fn block_bytes(subject: &Subject, region: &mut Region, start: usize, bytes: usize) -> usize {
        let Ok(heap) = Heap::within(subject, region, start, bytes) else { return 0 };
        let (mut sum_bytes, walk) = (0, subject.view.expect("one of ours").walk);
        // SAFETY: the heap is live and of this subject.
        unsafe { walk(heap.context, &mut |block| sum_bytes += block.size_bytes) }
        sum_bytes
    }

    #[test]
    fn a_region_in_c_has_as_many_bytes_of_blocks() {
        let mut region = Region::new(160_000, false).expect("memory");
        let mut compared = 0;
        for subject in REGION_ALLOCATORS.concat() {
            let in_c = AS_IN_C.iter().find(|other| other.name == subject.name).expect("an entry");
            let most = subject.largest_heap_bytes() as usize;
            for bytes in (500..150_000_usize.min(most - C_MORE_BYTES)).step_by(983) {
                for start in [0, 1, 7, 8, 15, 16, 33, 63] {
                    let needed = block_bytes(&subject, &mut region, start, bytes);
                    let found = block_bytes(in_c, &mut region, start, bytes + C_MORE_BYTES);
                    assert!(found >= needed, "{}: {bytes} bytes from {start}: {found} < {needed}", subject.name);
                    compared += usize::from(needed > 0);
                }
            }
        }
        assert!(compared > 20_000, "{compared}");
    }

    /// The table in the documentation of the library; `UPDATE_ALLOCATORS=1` writes it.
    #[test]
    fn the_documentation_of_the_library_has_every_region_allocator() {
        const BEGIN: &str = "//! <!-- region allocators -->\n";
        const END: &str = "//! <!-- end of region allocators -->\n";
        let mut table = String::from(
            "//! | | type | allocate, deallocate | header | requests | wins | loses |\n//! |---|---|---|---|---|---|---|\n",
        );
        for subject in REGION_ALLOCATORS.concat() {
            let path = subject.about.rust_type.split('<').next().expect("a path");
            let name = path.rsplit(':').next().expect("a name").trim();
            let contract = subject.view.expect("one of ours").contract;
            let costs = [contract.allocate, contract.deallocate].map(rtalloc::contract::Cost::notation).join(", ");
            let requests = match contract.largest_request_bytes {
                usize::MAX => "any".to_string(),
                most => format!("at most {most} B"),
            };
            let facts = format!("[`{name}`] | {costs} | {} B | {requests}", contract.header_bytes);
            let About { wins, loses, .. } = subject.about;
            table += &format!("//! | `{}` | {facts} | {wins} | {loses} |\n", subject.name);
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rtalloc/src/lib.rs");
        let old = std::fs::read_to_string(&path).expect("the source of the library");
        let (before, rest) = old.split_once(BEGIN).expect("the begin of the table");
        let (_, after) = rest.split_once(END).expect("its end");
        let new = [before, BEGIN, &table, END, after].concat();
        if std::env::var_os("UPDATE_ALLOCATORS").is_some() {
            std::fs::write(&path, new).expect("a file that can be written");
        } else {
            assert!(old == new, "the table is old: UPDATE_ALLOCATORS=1 cargo test -p rtalloc-subjects --lib table");
        }
    }
}
