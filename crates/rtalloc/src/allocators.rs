//! The region allocators that the C library, the replaced malloc and the test without std instantiate.

/// Calls a macro with every allocator, with tags of `$width` and statistics `$stats`.
///
/// An entry has the summary, the name of the type in C, the part of its functions' names, the type, the cost classes of
/// allocate, deallocate and reallocate, and `regions` if further regions can be added. Where the replaced malloc has
/// it, `=>` precedes its name there, and whether initialising a heap takes little time and touches little memory,
/// however large its region is. The replaced malloc has no allocators that serve only small requests.
#[doc(hidden)]
#[macro_export]
macro_rules! region_allocators {
    ($callback:ident, $width:ty, $stats:ty) => {
        $callback! {
            /// TLSF: two levels of size-class lists, no search. The allocator to start with.
            rt_tlsf, tlsf: $crate::Tlsf<'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats>,
                "O(1)" "O(1)" "O(1)", regions => "tlsf" starts_small: true;
            /// TLSF without statistics: a few instructions fewer per operation.
            rt_tlsf_no_stats, tlsf_no_stats: $crate::Tlsf<'static>, "O(1)" "O(1)" "O(1)", regions;
            /// TLSF that grants the requested size instead of the size of the class.
            rt_tlsf_exact, tlsf_exact: $crate::Tlsf<'static, 5, $crate::mechanism::segregated::Exact, $width, $stats>,
                "O(1)" "O(1)" "O(1)", regions => "tlsf-exact" starts_small: true;
            /// TLSF that validates every related tag when a block is freed.
            rt_tlsf_full_validation, tlsf_full_validation: $crate::Tlsf<
                'static, 5, $crate::mechanism::segregated::RoundUp, $width, $stats, $crate::mechanism::validation::Full,
            >, "O(1)" "O(1)" "O(1)", regions;
            /// Half-fit: a list for each power of two. Fewer instructions than TLSF but more memory: up to n times the
            /// live memory, where n is the largest request in smallest blocks, rounded up to a power of two.
            rt_half_fit, half_fit: $crate::HalfFit<'static, $width, $stats>,
                "O(1)" "O(1)" "O(1)", regions => "half-fit" starts_small: true;
            /// Quick-fit: pages divided into blocks of powers of two.
            rt_quick_fit, quick_fit: $crate::QuickFit<'static, 4096, { $crate::mechanism::page::QUANTUM }, $stats>,
                "O(H)" "O(1)" "O(H)" => "quick-fit" starts_small: false;
            /// Simple segregated storage: a list for each size. Requests of at most 1,020 bytes.
            rt_simple_segregated, simple_segregated: $crate::SimpleSegregated<
                'static, { 2 * size_of::<usize>() }, 64, $width, $stats,
            >, "O(1)" "O(1)" "O(1)";
            /// Kingsley's allocator: powers of two, no coalescing.
            rt_kingsley, kingsley: $crate::Kingsley<'static, 4096, $width, $stats>,
                "O(1)" "O(1)" "O(1)" => "kingsley" starts_small: true;
            /// First-fit with a LIFO free list.
            rt_first_fit, first_fit: $crate::FirstFit<'static, $width, $stats>,
                "O(n)" "O(1)" "O(n)", regions => "first-fit" starts_small: true;
            /// First-fit with an address-ordered free list: least memory in the worst case.
            rt_first_fit_address, first_fit_address: $crate::AddressOrderedFirstFit<'static, $width, $stats>,
                "O(n)" "O(n)" "O(n)", regions => "first-fit-address" starts_small: true;
            /// Next-fit with an address-ordered free list.
            rt_next_fit, next_fit: $crate::NextFit<'static, $width, $stats>,
                "O(n)" "O(n)" "O(n)", regions => "next-fit" starts_small: true;
            /// Next-fit with a LIFO free list.
            rt_next_fit_lifo, next_fit_lifo: $crate::LifoNextFit<'static, $width, $stats>,
                "O(n)" "O(1)" "O(n)", regions => "next-fit-lifo" starts_small: true;
            /// Best-fit with a free list.
            rt_best_fit, best_fit: $crate::BestFit<'static, $width, $stats>,
                "O(n)" "O(1)" "O(n)", regions => "best-fit" starts_small: true;
            /// Best-fit with a self-adjusting tree.
            rt_tree_best_fit, tree_best_fit: $crate::TreeBestFit<'static, $width, $stats>,
                "O(n)" "O(n)" "O(n)", regions => "tree-best-fit" starts_small: true;
            /// Fast-fit: a Cartesian tree ordered by address and size.
            rt_fast_fit, fast_fit: $crate::FastFit<'static, $width, $stats>,
                "O(n)" "O(n)" "O(n)" => "fast-fit" starts_small: true;
            /// Fast-fit that takes the block at the lowest address.
            rt_fast_fit_leftmost, fast_fit_leftmost: $crate::LeftmostFastFit<'static, $width, $stats>,
                "O(n)" "O(n)" "O(n)" => "fast-fit-leftmost" starts_small: true;
            /// Binary buddy.
            rt_binary_buddy, binary_buddy: $crate::BinaryBuddy<'static, $crate::mechanism::word::Offset32, $stats>,
                "O(log H)" "O(log H)" "O(log H)" => "binary-buddy" starts_small: false;
            /// Fibonacci buddy.
            rt_fibonacci_buddy, fibonacci_buddy: $crate::FibonacciBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, "O(log H)" "O(log H)" "O(log H)" => "fibonacci-buddy" starts_small: false;
            /// Weighted buddy.
            rt_weighted_buddy, weighted_buddy: $crate::WeightedBuddy<
                'static, $crate::mechanism::word::Offset32, $stats,
            >, "O(log H)" "O(log H)" "O(log H)" => "weighted-buddy" starts_small: false;
            /// Double buddy.
            rt_double_buddy, double_buddy: $crate::DoubleBuddy<'static, $crate::mechanism::word::Offset32, $stats>,
                "O(log H)" "O(log H)" "O(log H)" => "double-buddy" starts_small: false;
            /// Bitframe: a bit for each chunk. Requests of at most 1 KiB.
            rt_bitframe, bitframe: $crate::Bitframe<
                'static, $crate::mechanism::frame::Frames<8, 8, 0>, $crate::bitmapped::bitframe::Lazy,
                { $crate::bitmapped::bitframe::BITFRAME_PAGE }, { $crate::mechanism::page::QUANTUM }, 2, $stats,
            >, "O(1)" "O(1)" "O(1)";
            /// Regis1: allocates sequentially from pages, and frees a page when all of its blocks are free.
            rt_regis1, regis1: $crate::SingleRegion<'static, 1024, { $crate::mechanism::page::QUANTUM }, $stats>,
                "O(1)" "O(1)" "O(1)";
            /// Regis2: as regis1, with separate pages for each size.
            rt_regis2, regis2: $crate::ClassRegions<'static, 1024, { $crate::mechanism::page::QUANTUM }, 64, $stats>,
                "O(1)" "O(1)" "O(1)";
            /// Reaps: pages of blocks of one size, without headers.
            rt_reaps, reaps: $crate::Reaps<'static, 1024, { $crate::mechanism::page::QUANTUM }, 64, $stats>,
                "O(1)" "O(1)" "O(1)";
        }
    };
}
