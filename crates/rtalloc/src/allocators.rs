//! The table of the library's region allocators: one entry each. The C library, the test without std, the laboratory,
//! the test suite and the tables of the documentation are generated from it.

/// Calls `$callback` with every region allocator. Types with a tag width have `$width` (the buddies always
/// `Offset32`); all but `tlsf_no_stats` have the statistics `$stats`.
///
/// An entry has the algorithm in a sentence, the name in identifiers and in commands, the type, and abilities that no
/// contract states: `regions` if further regions can be added, `serves_again` if any freed block serves the same
/// request again, `limits` if the type has `region_bytes_for`, `limits_for_sizes` if that takes sizes. Then follows where it is exposed, in this order, each
/// part optional:
///
/// - `c`: the name of the type in C, and after `by` that of its configuration if it has one of its own.
/// - `laboratory`: the fields of its `About`, which only `rtalloc-subjects` interprets, with that crate's names.
#[doc(hidden)]
#[rustfmt::skip] // It would move the continued strings at every run.
#[macro_export]
macro_rules! region_allocators {
    ($callback:ident, $width:ty, $stats:ty) => {
        $callback! {
            /// TLSF: two levels of size classes with a bitmap each; a request is rounded up to a class whose every
            /// block is large enough. The allocator to start with.
            tlsf, "tlsf": $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats,
            >, [regions, serves_again] {
                c: rt_tlsf,
                laboratory: {
                    wins: "the default choice: constant time with a low bound, and the memory of best-fit",
                    loses: "half-fit executes fewer instructions; allocators of one size, or of pages of one class, \
                            fewer still",
                    options: "J (1 to 6), 2^J classes per power of two; RoundUp or Exact split; width of the tags \
                              (Offset16, Offset32, Wide), statistics (WithStats), validation (Unchecked, OwnTag, Basic, Full)",
                    in_dozen: true,
                    ..TLSF
                },
            }
            /// TLSF without statistics: a few instructions fewer per operation.
            tlsf_no_stats, "tlsf-no-stats": $crate::Tlsf<'static>, [regions, serves_again] {
                c: rt_tlsf_no_stats,
            }
            /// TLSF that splits to the requested size instead of the rounded one.
            tlsf_exact, "tlsf-exact": $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::Exact, $width, $stats,
            >, [regions] {
                c: rt_tlsf_exact,
                laboratory: {
                    wins: "less internal fragmentation than the paper's split",
                    loses: "a freed block may be too small for the class of the same request, so a steady load can \
                            keep splitting",
                    ..TLSF
                },
            }
            /// TLSF for heaps of at most 65,535 bytes (one byte less than 64 KiB; more is refused): eight classes per
            /// power of two, two bytes of header.
            tlsf_small, "tlsf-small": $crate::Tlsf<
                'static, 3, $crate::mechanism::segregated::RoundUp, $crate::mechanism::word::Offset16, $stats,
            >, [regions, serves_again] {
                c: rt_tlsf_small,
                laboratory: {
                    wins: "in a heap of 4 KiB a control structure of 182 bytes where TLSF has 628; half its header; blocks of 8 bytes",
                    loses: "heaps of at most 65,535 bytes, blocks aligned to 8; seldom detects a byte written before a block; up \
                            to a ninth of a block is lost to fewer classes, instead of a thirty-third",
                    options: "its type is Tlsf<3, RoundUp, Offset16>",
                    guarantee: Some(Guarantee::GoodFit(8)),
                    ..TLSF
                },
            }
            /// TLSF that checks nothing when a block is freed or resized: misuse is undefined behaviour.
            tlsf_unchecked, "tlsf-unchecked": $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats,
                $crate::mechanism::validation::Unchecked,
            >, [regions, serves_again] {
                c: rt_tlsf_unchecked,
                laboratory: {
                    wins: "the instructions of the checks, which docs/MISUSE.md lists",
                    loses: "a double free or a foreign pointer damages the heap, and nothing reports it",
                    ..TLSF
                },
            }
            /// TLSF that checks only the address of a block that is freed or resized, and its own header: an overwritten
            /// tag goes unnoticed.
            tlsf_own_tag, "tlsf-own-tag": $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats,
                $crate::mechanism::validation::OwnTag,
            >, [regions, serves_again] {
                c: rt_tlsf_own_tag,
                laboratory: {
                    wins: "reports a double free, until the memory is allocated again, and a foreign pointer, in fewer \
                           instructions than tlsf outside x86-64",
                    loses: "an overwritten tag damages the heap, and nothing reports it",
                    ..TLSF
                },
            }
            /// TLSF that seals headers and validates every tag around a block that is freed or allocated.
            tlsf_full_validation, "tlsf-full-validation": $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats,
                $crate::mechanism::validation::Full,
            >, [regions, serves_again] {
                c: rt_tlsf_full_validation,
                laboratory: {
                    wins: "reports every one-byte overrun in heaps below 16 MiB; a stale pointer until its memory is \
                           allocated again",
                    loses: "more instructions per operation than tlsf: docs/MISUSE.md has them for each processor",
                    ..TLSF
                },
            }
            /// Half-fit: one list and one bit per power of two; a request is served from the first range whose every
            /// block is large enough.
            half_fit, "half-fit": $crate::HalfFit<
                'static, $crate::mechanism::segregated::Exact, $width, $stats,
            >, [regions] {
                c: rt_half_fit,
                laboratory: {
                    wins: "lower bounds than TLSF, and the smallest control structure of the constant-time allocators for \
                           any size",
                    loses: "a block never serves a request in its own power of two, so an adversary makes it need \
                            nearly n times M",
                    options: TAGGED,
                    worst_cases: WorstCases::HalfFit,
                    guarantee: Some(Guarantee::HalfFit { is_rounded: false }),
                    in_dozen: true,
                    ..About::NOTHING
                },
            }
            /// Half-fit whose blocks are powers of two, header included, so that a request is refused only if no free
            /// block is as large as its block.
            half_fit_rounded, "half-fit-rounded": $crate::HalfFit<
                'static, $crate::mechanism::segregated::RoundUp, $width, $stats,
            >, [regions, serves_again] {
                laboratory: {
                    wins: "a freed block serves the same request again, and attacks make it need less than half-fit",
                    loses: "up to half of every block is lost",
                    options: TAGGED,
                    worst_cases: WorstCases::HalfFit,
                    guarantee: Some(Guarantee::HalfFit { is_rounded: true }),
                    ..About::NOTHING
                },
            }
            /// Quick-fit: lists of one size each, filled by cutting pages; pages are found by next-fit and given back
            /// when empty.
            quick_fit, "quick-fit": $crate::QuickFit<
                'static, 4096, { $crate::mechanism::page::QUANTUM }, $stats,
            >, [serves_again] {
                c: rt_quick_fit,
                laboratory: {
                    wins: "a few instructions where a freed block serves the next request of its size while another \
                           block of its page is live",
                    loses: "an empty class cuts a whole page at once; a program that alternates around the last block \
                            of a page cuts and releases it every time",
                    options: "the page size",
                    worst_cases: WorstCases::QuickFit,
                    ..About::NOTHING
                },
            }
            /// Simple segregated storage: a list per size class, filled by cutting blocks off unused memory; a header
            /// holds the class. Requests of at most 1,020 bytes.
            simple_segregated, "simple-segregated": $crate::SimpleSegregated<
                'static, { 2 * size_of::<usize>() }, 64, $width, $stats,
            >, [serves_again, limits] {
                c: rt_simple_segregated,
                laboratory: {
                    wins: "one of the lowest bounds of all, and constant time",
                    loses: "a block serves its class forever: memory of sizes no longer requested is lost",
                    options: "quantum and largest size of the classes",
                    guarantee: Some(Guarantee::EveryClass),
                    region_for: Some(<$crate::SimpleSegregated<'static>>::region_bytes_for_modes),
                    ..CARVING
                },
            }
            /// Kingsley's allocator: a list per power of two, never coalesced.
            kingsley, "kingsley": $crate::Kingsley<'static, 4096, $width, $stats>, [serves_again, limits] {
                c: rt_kingsley,
                laboratory: {
                    wins: "a handful of instructions for any size",
                    loses: "up to half of every block is lost, and memory of one size never serves another",
                    guarantee: Some(Guarantee::PowerClasses),
                    region_for: Some(<$crate::Kingsley<'static>>::region_bytes_for_modes),
                    ..CARVING
                },
            }
            /// Pools: simple segregated storage with up to sixteen sizes of the user's choice; by default powers of two.
            pools, "pools": $crate::Pools<'static, $width, $stats>, [serves_again, limits_for_sizes] {
                c: rt_pools by rt_pools_config,
                laboratory: {
                    wins: "a guaranteed region little larger than what is live, where the numbers of objects are known, \
                           and constant time",
                    loses: "memory of one size never serves another",
                    options: "the sizes (PoolSizes)",
                    guarantee: Some(Guarantee::PowerClasses),
                    region_for: Some(pools::region_bytes_for),
                    sizes_for: Some(pools::sizes_for),
                    ..CARVING
                },
            }
            /// First-fit: one list, freed blocks at its head; the first block that is large enough is split.
            first_fit, "first-fit": $crate::FirstFit<'static, $width, $stats>, [regions, serves_again] {
                c: rt_first_fit,
                laboratory: {
                    wins: "few instructions on average, and a constant-time deallocate",
                    loses: "the search has no bound other than the heap's size",
                    ..LIST
                },
            }
            /// First-fit with a list in address order; the first block that is large enough is split.
            first_fit_address, "first-fit-address": $crate::AddressOrderedFirstFit<
                'static, $width, $stats,
            >, [regions, serves_again] {
                c: rt_first_fit_address,
                laboratory: {
                    wins: "the least memory in the worst case: M(1 + ⌈log2 n⌉)",
                    loses: "both operations walk the list",
                    worst_cases: WorstCases::AddressOrdered,
                    guarantee: Some(Guarantee::FirstFit),
                    ..LIST
                },
            }
            /// Next-fit: one list, searched from where the last search ended.
            next_fit, "next-fit": $crate::NextFit<'static, $width, $stats>, [regions, serves_again] {
                c: rt_next_fit,
                laboratory: {
                    wins: "shorter searches than first-fit's on most loads",
                    loses: "it cuts every large block in turn: more memory than first-fit, and the same unbounded \
                            search",
                    worst_cases: WorstCases::AddressOrdered,
                    ..LIST
                },
            }
            /// Next-fit over a list in the order of frees instead of addresses.
            next_fit_lifo, "next-fit-lifo": $crate::LifoNextFit<'static, $width, $stats>, [regions, serves_again] {
                c: rt_next_fit_lifo,
                laboratory: {
                    wins: "a constant-time deallocate",
                    loses: "neighbours in memory are not neighbours in the list, so blocks of one kind scatter",
                    ..LIST
                },
            }
            /// Best-fit: one list; the smallest block that is large enough, found by a search of the whole list, is
            /// split.
            best_fit, "best-fit": $crate::BestFit<'static, $width, $stats>, [regions, serves_again] {
                c: rt_best_fit,
                laboratory: {
                    wins: "the least memory on most programs",
                    loses: "every allocate walks the list",
                    in_dozen: true,
                    ..LIST
                },
            }
            /// Best-fit with free blocks in a self-adjusting (splay) tree by size, blocks of one size in a list.
            tree_best_fit, "tree-best-fit": $crate::TreeBestFit<'static, $width, $stats>, [regions, serves_again] {
                c: rt_tree_best_fit,
                laboratory: {
                    wins: "best-fit's memory at a logarithmic cost on average",
                    loses: "a single operation may walk a degenerate tree from end to end",
                    worst_cases: WorstCases::SplayTree,
                    in_dozen: true,
                    guarantee: None,
                    ..LIST
                },
            }
            /// Fast-fit: a Cartesian tree of free blocks: by address from left to right, by size from root to leaf; no
            /// boundary tags.
            fast_fit, "fast-fit": $crate::FastFit<'static, $width, $stats>, [serves_again] {
                c: rt_fast_fit,
                laboratory: {
                    wins: "no tag at the end of blocks, and short trees on average",
                    loses: "operations are linear in the depth of the tree, which has no bound",
                    ..CARTESIAN_TREE
                },
            }
            /// Fast-fit that takes the block of the lowest address that is large enough.
            fast_fit_leftmost, "fast-fit-leftmost": $crate::LeftmostFastFit<'static, $width, $stats>, [serves_again] {
                c: rt_fast_fit_leftmost,
                laboratory: {
                    wins: "live blocks stay at the low end, as with address-ordered first-fit",
                    loses: "deeper descents than better fit",
                    guarantee: Some(Guarantee::FirstFit),
                    ..CARTESIAN_TREE
                },
            }
            /// Binary buddy: blocks are halves of halves of the heap; an exclusive or finds the buddy of a freed block.
            binary_buddy, "binary-buddy": $crate::BinaryBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, [limits] {
                c: rt_binary_buddy,
                laboratory: {
                    wins: "any size in logarithmic time, natural alignment at no cost, and a guarantee against \
                           fragmentation",
                    loses: "requests are rounded up to powers of two: a quarter of the memory on average",
                    options: "the smallest block",
                    guarantee: Some(Guarantee::BinaryBuddy),
                    region_for: Some(<$crate::BinaryBuddy<'static>>::region_bytes_for_modes),
                    loop_limits: buddies::<
                        $crate::buddy::binary::Binary<16, { $crate::buddy::binary::UNLIMITED }>,
                        $crate::mechanism::buddy::SideTable,
                    >(),
                    in_dozen: true,
                    ..BUDDIES
                },
            }
            /// Fibonacci buddy: block sizes are Fibonacci numbers; a count in the block distinguishes left from right,
            /// so no search is needed.
            fibonacci_buddy, "fibonacci-buddy": $crate::FibonacciBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, [] {
                c: rt_fibonacci_buddy,
                laboratory: {
                    wins: "sizes closer to each other than powers of two: less internal fragmentation",
                    loses: "the remainders of splits have sizes that are rarely requested",
                    loop_limits: buddies::<
                        $crate::buddy::fibonacci::Fibonacci<16>,
                        $crate::mechanism::buddy::Headers,
                    >(),
                    ..BUDDIES
                },
            }
            /// Weighted buddy: blocks of 2^k and 3 * 2^k smallest blocks.
            weighted_buddy, "weighted-buddy": $crate::WeightedBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, [] {
                c: rt_weighted_buddy,
                laboratory: {
                    wins: "twice as many sizes as a binary buddy",
                    loses: "more external fragmentation; a block's buddy depends on how it was split",
                    loop_limits: buddies::<$crate::buddy::weighted::Weighted<16>, $crate::mechanism::buddy::Headers>(),
                    ..BUDDIES
                },
            }
            /// Double buddy: two binary buddies side by side, of 2^k and of 3 * 2^k smallest blocks.
            double_buddy, "double-buddy": $crate::DoubleBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, [] {
                c: rt_double_buddy,
                laboratory: {
                    wins: "less internal fragmentation than a binary buddy",
                    loses: "memory of one half never serves the other",
                    loop_limits: buddies::<$crate::buddy::double::Double<16>, $crate::mechanism::buddy::SideTable>(),
                    ..BUDDIES
                },
            }
            /// Bitframe: pages of chunks with a bit each in frames of 8; tables find room for a block of a given number
            /// of chunks in a frame. Requests of at most 1 KiB.
            bitframe, "bitframe": $crate::Bitframe<
                'static, $crate::mechanism::frame::Frames<8, 8, 0>, $crate::bitmapped::bitframe::Lazy,
                { $crate::bitmapped::bitframe::BITFRAME_PAGE }, { $crate::mechanism::page::QUANTUM }, 2, $stats,
            >, [] {
                c: rt_bitframe,
                laboratory: {
                    wins: "blocks of any number of chunks in one page without headers, in constant time",
                    loses: "more instructions than lists; a sequence cannot cross the end of its frame",
                    options: "page size, chunk sizes, width of a frame, longest sequence, sequences across frames, \
                              eager initialisation",
                    in_dozen: true,
                    ..BITFRAMES
                },
            }
            /// Regis1: blocks are cut off one page in the order of the requests; a page is free when the count of its
            /// live blocks is zero.
            regis1, "regis1": $crate::SingleRegion<'static, 1024, { $crate::mechanism::page::QUANTUM }, $stats>, [] {
                c: rt_regis1,
                laboratory: {
                    wins: "next to no bookkeeping, and the least code",
                    loses: "one live block keeps its page: memory grows with the longest lifetime in every page",
                    options: "page size and quantum",
                    ..PAGES
                },
            }
            /// Regis2: regis1 with a page for every size class.
            regis2, "regis2": $crate::ClassRegions<
                'static, 1024, { $crate::mechanism::page::QUANTUM }, 64, $stats,
            >, [] {
                c: rt_regis2,
                laboratory: {
                    wins: "blocks of one size die together more often than blocks of all sizes",
                    loses: "as regis1, and a page in use for every size",
                    options: "page size, quantum and largest size of the classes",
                    ..PAGES
                },
            }
            /// Reaps: pages of one class each: cut first, then a free list; an empty page is given back; no header.
            reaps, "reaps": $crate::Reaps<
                'static, 1024, { $crate::mechanism::page::QUANTUM }, 64, $stats,
            >, [serves_again] {
                c: rt_reaps,
                laboratory: {
                    wins: "no header, constant time, pages that serve any class again: the least memory with many \
                           small blocks",
                    loses: "a page of its own for the only block of a size",
                    options: "page size, quantum and largest size of the classes",
                    in_dozen: true,
                    ..PAGES
                },
            }
        }
    };
}
