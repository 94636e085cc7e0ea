//! What a contract does not say of an allocator: the idea in a sentence, when to take it and when not, what can be chosen.
//! Of peers, which have no contract, what their documentation and code say.

use rtalloc::contract::{Coalescing, Cost};

/// What is to be said of a subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    /// The subject's name.
    pub name: &'static str,
    /// The algorithm in a sentence.
    pub idea: &'static str,
    /// When to take it.
    pub wins: &'static str,
    /// When not to.
    pub loses: &'static str,
    /// What can be chosen; empty where nothing can.
    pub options: &'static str,
    /// What is known of a peer.
    pub peer: Option<Peer>,
}

/// What is known of an allocator without a contract; `None` where nobody says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub source: &'static str,
    pub policy: &'static str,
    pub deallocate: Option<&'static str>,
    pub header_bytes: Option<usize>,
    pub granule_bytes: Option<usize>,
    pub smallest_bytes: Option<usize>,
    pub coalescing: Option<Coalescing>,
}

/// The note of a subject.
pub(super) fn of(name: &str) -> &'static Note {
    NOTES.iter().find(|note| note.name == name).expect("a test verifies that every subject has a note")
}

/// A note of one of ours.
const fn note(
    name: &'static str,
    idea: &'static str,
    wins: &'static str,
    loses: &'static str,
    options: &'static str,
) -> Note {
    Note { name, idea, wins, loses, options, peer: None }
}

const NEIGHBOURS: Option<Coalescing> = Some(Coalescing::Neighbours);
const LINEAR: Option<&str> = Some(Cost::LinearInFreeBlocks.notation());
const CONSTANT: Option<&str> = Some(Cost::Constant.notation());

/// Options of every allocator with boundary tags.
const TAGGED: &str =
    "width of the tags (Offset16, Offset32, Wide), statistics (Tallied), thorough tests of the tags (Thorough)";

pub(super) const NOTES: &[Note] = &[
    note(
        "tlsf",
        "Two levels of size classes with a bitmap each; a request is rounded up to a class whose every block is large enough.",
        "the one to begin with: constant time with a short bound, and memory at best-fit's level",
        "half-fit executes fewer instructions; allocators of one size, or of pages of one class, need fewer still",
        "J (1 to 6), 2^J classes per power of two; RoundUp or Exact split; width of the tags (Offset16, Offset32, Wide), \
         statistics (Tallied), thorough tests of the tags (Thorough)",
    ),
    note(
        "tlsf-exact",
        "TLSF that splits to the requested size instead of the rounded one.",
        "less memory lost inside blocks than with the paper's split",
        "a freed block may be too small for the class of the same request, so that a steady load can keep splitting",
        "as tlsf",
    ),
    note(
        "tlsf-thorough",
        "TLSF that tests every tag around a block when it is freed.",
        "overwritten tags and stale pointers are found before they spread",
        "some twenty instructions more per free",
        "as tlsf",
    ),
    note(
        "compact-fit",
        "Size classes of pages; when a free would leave a class with two pages that are not full, another object moves into the gap.",
        "memory that depends on what is live and not on what was: how many objects of each class live decides how many pages are used",
        "objects have handles, and an access goes through the heap; a free may copy an object of the class; one page for each class that \
         is used",
        "ladder of size classes and page size (Geometric), not-full pages of each class (CompactFitConfig), bytes moved at a time (IOTA), \
         statistics (Tallied)",
    ),
    note(
        "compact-fit-3",
        "Compact-fit with up to three not-full pages in each class.",
        "most frees that would move an object find room for one more not-full page instead",
        "up to two pages more in each class that is used",
        "as compact-fit",
    ),
    note(
        "compact-fit-9",
        "Compact-fit with up to nine not-full pages in each class.",
        "objects hardly ever move",
        "up to eight pages more in each class that is used",
        "as compact-fit",
    ),
    note(
        "compact-fit-iota",
        "Compact-fit that moves at most 256 bytes in an operation: a free leaves a gap, and the next operations fill it.",
        "no operation is as long as the copy of a large object",
        "every operation looks whether something is owed; until it is paid, a class has more not-full pages, and a request that would be \
         served later is refused",
        "as compact-fit",
    ),
    note(
        "compact-fit-non-moving",
        "Compact-fit on virtual pages: an object's block-frames stay where they are, and compaction changes the tables that say where.",
        "no byte is ever copied, so that a free is shorter than the copy of a large object, and hardware may keep addresses of frames",
        "every operation is linear in the object; an object is in pieces, and each access looks up its piece; 14 bytes for each frame",
        "ladder of size classes and page size (Geometric), bytes of a block-frame (FRAME), not-full pages of each class and pages in reserve \
         (NonMovingConfig), statistics",
    ),
    note(
        "compact-fit-paper",
        "Compact-fit with the paper's 46 size classes, whose blocks are multiples of 4 bytes.",
        "sizes a little closer to what was asked than with the default ladder",
        "objects are aligned to 4 bytes only",
        "as compact-fit",
    ),
    note(
        "arenas",
        "A TLSF heap for each slot; a block that another slot frees is mailed to its owner, who takes back a few when it allocates.",
        "several cores with deadlines: no operation waits for another's, and alone it costs what TLSF costs and a handful",
        "a slot may be exhausted beside an empty arena; mailboxes grow with the square of the slots",
        "slots, blocks taken back by an allocation and by one that finds nothing, any heap with boundary tags in the arenas",
    ),
    note(
        "bitmap-buddy",
        "Binary buddies whose free blocks are bits of a hierarchy of words; taking and giving back are steps on one word per level.",
        "several cores, one common memory: a free in logarithmic time, no word inside free memory",
        "an allocation from a heap that is nearly full looks at every word; blocks have 64 bytes at least",
        "size of a leaf, blocks trimmed to the leaves they need or whole powers of two, slots",
    ),
    note(
        "tree-buddy",
        "A counter of free leaves for every node of a tree; an allocation takes its leaves from each on its way, and gives them back.",
        "a published proof, and bounds that nobody's state and number of threads changes",
        "a request finds nothing only after every node; half of the nodes serve the smallest requests in vain",
        "size of a node, counters beside the nodes or in them, reading before writing, lazy resets, other ways for other slots, \
         certain refusals",
    ),
    note(
        "tree-buddy-in-band",
        "The tree buddy whose counters lie in the nodes, as the paper has them.",
        "less memory for bookkeeping than with counters and tags aside",
        "a block that is written past its end overwrites a counter; 24 bytes of every block serve nobody",
        "as tree-buddy",
    ),
    note(
        "half-fit",
        "One list and one bit per power of two; a request is served from the first range whose every block is large enough.",
        "the shortest bounds of the allocators with constant time that serve any size, and the smallest control structure",
        "a block never serves a request in its own power of two: up to twice the memory on mixed sizes",
        TAGGED,
    ),
    note(
        "first-fit",
        "One list, what is freed at its head; the first block that is large enough is split.",
        "few instructions on average, and a constant deallocate",
        "the search has no bound short of the heap's size",
        TAGGED,
    ),
    note(
        "first-fit-address",
        "One list in address order; the first block that is large enough is split.",
        "the least memory in the worst case: M (1 + log2 n)",
        "both operations walk the list",
        TAGGED,
    ),
    note(
        "next-fit",
        "One list, searched from where the last search ended.",
        "shorter searches than first-fit's on most loads",
        "it cuts every large block in turn: more memory than first-fit, and the same unbounded search",
        TAGGED,
    ),
    note(
        "next-fit-lifo",
        "next-fit over a list in the order of the frees instead of addresses.",
        "a constant deallocate",
        "neighbours in memory are not neighbours in the list, so that blocks of a kind scatter",
        TAGGED,
    ),
    note(
        "best-fit",
        "One list; the smallest block that is large enough, found by looking at all, is split.",
        "the least memory on most programs",
        "every allocate walks the list",
        TAGGED,
    ),
    note(
        "tree-best-fit",
        "Best-fit whose free blocks stand in a self-adjusting (splay) tree by size, blocks of one size in a list.",
        "best-fit's memory at a logarithmic cost on average",
        "a single operation may walk a degenerate tree from end to end",
        TAGGED,
    ),
    note(
        "fast-fit",
        "A Cartesian tree of free blocks: by address from left to right, by size from root to leaf; no boundary tags.",
        "no tag at the end of blocks, and short trees on average",
        "operations are linear in the depth of the tree, which nothing bounds",
        "width of the links",
    ),
    note(
        "fast-fit-leftmost",
        "fast-fit that takes the block of the lowest address that is large enough.",
        "live blocks stay at the low end, as with address-ordered first-fit",
        "deeper descents than better fit",
        "width of the links",
    ),
    note(
        "quick-fit",
        "Lists of one size each, filled by cutting pages; pages are found by next-fit and given back when they are empty.",
        "a few instructions where a freed block serves the next request of its size, while another block of its page is live",
        "a page is cut up whole when its class is empty; programs that straddle a page's last block cut and release it over and over",
        "the page size",
    ),
    note(
        "simple-segregated",
        "A list per size class, filled by cutting blocks off the end of what was used; a header says the class.",
        "the shortest code of all, and a constant time",
        "a block serves its class for ever: memory of sizes no longer asked for is lost",
        "quantum and largest size of the classes",
    ),
    note(
        "simple-segregated-8",
        "simple-segregated with the thesis' classes of 8 bytes.",
        "as simple-segregated, with the paper's classes",
        "as simple-segregated; blocks are aligned to 8 bytes only",
        "as simple-segregated",
    ),
    note(
        "kingsley",
        "A list per power of two, never coalesced.",
        "a handful of instructions, whatever the size",
        "up to half of every block is lost, and memory of one size never serves another",
        "",
    ),
    note(
        "binary-buddy",
        "Blocks are halves of halves of the heap; a freed block finds its buddy by one exclusive or.",
        "any size in logarithmic time, alignment for free, and a guarantee against fragmentation",
        "requests are rounded up to powers of two: a quarter of the memory on average",
        "the smallest block",
    ),
    note(
        "bbuddy",
        "The thesis' binary buddy: top blocks of 1024 bytes with a header of 16, so that five splits are the most.",
        "constant time for small blocks",
        "a request of 512 bytes takes 1024; headers of 16 bytes",
        "",
    ),
    note(
        "fibonacci-buddy",
        "A buddy system whose sizes are Fibonacci numbers; a count in the block tells left from right, so no search is needed.",
        "sizes closer to each other than powers of two: less memory lost inside blocks",
        "the remainders of splits have sizes that are asked for less often",
        "",
    ),
    note(
        "weighted-buddy",
        "A buddy system of sizes 2^k and 3 * 2^k.",
        "twice as many sizes as a binary buddy",
        "more external fragmentation; buddies of a block depend on how it was split",
        "",
    ),
    note(
        "double-buddy",
        "Two binary buddies side by side, of 2^k and of 3 * 2^k.",
        "less memory lost inside blocks than with a binary buddy",
        "memory of one half never serves the other",
        "",
    ),
    note(
        "regis1",
        "Blocks are cut off one page in the order of the requests; a page is free when a count of its live blocks is zero.",
        "next to no bookkeeping, and the shortest code beside simple segregated storage",
        "one live block keeps its page: memory grows with the longest lifetime in every page",
        "page size and quantum",
    ),
    note(
        "regis1-8",
        "regis1 with the thesis' quantum of 8 bytes.",
        "as regis1, with the paper's quantum",
        "as regis1; blocks are aligned to 8 bytes only",
        "as regis1",
    ),
    note(
        "regis2",
        "regis1 with a page for every size class.",
        "blocks of one size tend to die together more often than blocks of all sizes",
        "as regis1, and a page begun for every size",
        "page size, quantum and largest size of the classes",
    ),
    note(
        "regis2-8",
        "regis2 with the thesis' classes of 8 bytes.",
        "as regis2, with the paper's classes",
        "as regis2; blocks are aligned to 8 bytes only",
        "as regis2",
    ),
    note(
        "reaps",
        "Pages of one class each: first cut, then a list of what was freed; an empty page is given back; no header.",
        "no header, constant time, pages that serve any class again: least memory on many small blocks",
        "a page of its own for the only block of a size",
        "page size, quantum and largest size of the classes",
    ),
    note(
        "reaps-8",
        "reaps with the thesis' classes of 8 bytes.",
        "as reaps, with the paper's classes",
        "as reaps; blocks are aligned to 8 bytes only",
        "as reaps",
    ),
    note(
        "bitframe",
        "Pages of chunks with a bit each in frames of 8; tables say where a frame has room for a block of so many chunks.",
        "blocks of any number of chunks in one page without headers, in constant time",
        "more instructions than lists; a sequence ends at its frame",
        "page size, chunk sizes, width of a frame, longest sequence, sequences across frames, eager initialisation",
    ),
    note(
        "bitframe-8",
        "bitframe with the thesis' chunks of 8 and 64 bytes.",
        "as bitframe, with the paper's chunks",
        "as bitframe; blocks are aligned to 8 bytes only",
        "as bitframe",
    ),
    note(
        "bitframe-eager",
        "bitframe that initialises a page whole when it takes it, as the thesis describes it.",
        "allocations that take no page execute a little less",
        "the one that takes a page writes all of its frames",
        "as bitframe",
    ),
    note(
        "bitframe-16",
        "bitframe with frames of 16 chunks.",
        "fewer sequences end at a frame, so that longer ones find room",
        "larger tables",
        "as bitframe",
    ),
    note(
        "bitframe-4",
        "bitframe with sequences of at most 4 chunks, and a third size of chunks.",
        "a frame has room for two of the longest sequences",
        "more sizes of chunks, each with pages of its own",
        "as bitframe",
    ),
    note(
        "bitframe-crossing",
        "bitframe with sequences of at most 4 chunks that may cross from one frame into the next.",
        "no chunk is lost at the end of a frame",
        "the next frame is read and written too",
        "as bitframe",
    ),
    Note {
        name: "rlsf",
        idea: "TLSF, published; here with 28 first-level and 32 second-level classes.",
        wins: "constant time, well tested, no region's size to be known beforehand",
        loses: "headers of 16 bytes, blocks in multiples of 32",
        options: "number and kind of the classes",
        peer: Some(Peer {
            source: "the crate rlsf 0.2",
            policy: "good fit, exact split",
            deallocate: CONSTANT,
            header_bytes: Some(16),
            granule_bytes: Some(32),
            smallest_bytes: Some(32),
            coalescing: NEIGHBOURS,
        }),
    },
    Note {
        name: "talc",
        idea: "Bins of sizes with a bitmap; tags at the end of blocks.",
        wins: "fast and frugal on average",
        loses: "the search within a bin has no bound",
        options: "bins, a source of further memory",
        peer: Some(Peer {
            source: "the crate talc 5.1",
            policy: "first fit in a bin",
            deallocate: CONSTANT,
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: NEIGHBOURS,
        }),
    },
    Note {
        name: "dlmalloc",
        idea: "Doug Lea's allocator, the DL of the papers: small bins, trees of large blocks, a designated victim.",
        wins: "best-fit's memory, fast on average",
        loses: "no bound short of the heap's size",
        options: "",
        peer: Some(Peer {
            source: "the crate dlmalloc 0.2",
            policy: "best fit",
            deallocate: None,
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: NEIGHBOURS,
        }),
    },
    Note {
        name: "buddy-system",
        idea: "A binary buddy with a list per power of two.",
        wins: "a few lines that everybody knows",
        loses: "a free searches the list for the buddy: linear; every size is rounded up to a power of two",
        options: "largest order",
        peer: Some(Peer {
            source: "the crate buddy_system_allocator 0.13",
            policy: "binary buddy",
            deallocate: LINEAR,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Buddies),
        }),
    },
    Note {
        name: "linked-list",
        idea: "First-fit over one list in address order.",
        wins: "the simplest that coalesces",
        loses: "both operations walk the list",
        options: "",
        peer: Some(Peer {
            source: "the crate linked_list_allocator 0.10",
            policy: "first fit, address order",
            deallocate: LINEAR,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(16),
            coalescing: NEIGHBOURS,
        }),
    },
    Note {
        name: "good-memory",
        idea: "Small bins of one size, and one list of everything larger.",
        wins: "fast on small blocks",
        loses: "the list of larger blocks is searched",
        options: "number of small bins",
        peer: Some(Peer {
            source: "the crate good_memory_allocator 0.1",
            policy: "first fit in bins",
            deallocate: CONSTANT,
            header_bytes: Some(8),
            granule_bytes: Some(16),
            smallest_bytes: Some(32),
            coalescing: NEIGHBOURS,
        }),
    },
    Note {
        name: "mimalloc",
        idea: "Pages of one class with sharded lists of free blocks; memory from the system.",
        wins: "the fastest on average",
        loses: "takes pages from the system when it likes: neither time nor memory has a bound",
        options: "",
        peer: Some(Peer {
            source: "mimalloc (Leijen, Zorn and de Moura 2019), the crate libmimalloc-sys 0.1",
            policy: "class lists, sharded",
            deallocate: None,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Pages),
        }),
    },
    Note {
        name: "jemalloc",
        idea: "Slabs of one class with bitmaps, caches per thread; memory from the system.",
        wins: "little memory in long-running programs of many threads",
        loses: "takes pages from the system when it likes: neither time nor memory has a bound",
        options: "",
        peer: Some(Peer {
            source: "jemalloc (Evans 2006), the crate tikv-jemalloc-sys 0.7",
            policy: "class slabs",
            deallocate: None,
            header_bytes: Some(0),
            granule_bytes: Some(8),
            smallest_bytes: Some(8),
            coalescing: Some(Coalescing::Pages),
        }),
    },
    Note {
        name: "system",
        idea: "The C library's malloc.",
        wins: "it is there already",
        loses: "neither time nor memory has a bound",
        options: "",
        peer: Some(Peer {
            source: "the C library of this machine",
            policy: "as the C library does it",
            deallocate: None,
            header_bytes: None,
            granule_bytes: None,
            smallest_bytes: None,
            coalescing: None,
        }),
    },
];

#[cfg(test)]
mod tests {
    use super::super::{ALL, Origin};
    use super::*;

    #[test]
    fn every_subject_has_a_note_and_every_note_a_subject() {
        for subject in ALL {
            let note = of(subject.name);
            assert_eq!(note.peer.is_some(), subject.origin != Origin::Ours, "{}", subject.name);
        }
        for (place, note) in NOTES.iter().enumerate() {
            assert!(ALL.iter().any(|subject| subject.name == note.name), "{} is nobody's", note.name);
            assert!(NOTES[..place].iter().all(|other| other.name != note.name), "{} twice", note.name);
        }
    }
}
