// The heaps of rtalloc.h by kind, each as X(name). Written by tests/header.rs.
#ifndef ALLOCATORS_H
#define ALLOCATORS_H

#define REGION_ALLOCATORS(X)                                                                                           \
    X(tlsf)                                                                                                            \
    X(tlsf_no_stats)                                                                                                   \
    X(tlsf_exact)                                                                                                      \
    X(tlsf_small)                                                                                                      \
    X(tlsf_unchecked)                                                                                                  \
    X(tlsf_own_tag)                                                                                                    \
    X(tlsf_full_validation)                                                                                            \
    X(half_fit)                                                                                                        \
    X(quick_fit)                                                                                                       \
    X(simple_segregated)                                                                                               \
    X(kingsley)                                                                                                        \
    X(first_fit)                                                                                                       \
    X(first_fit_address)                                                                                               \
    X(next_fit)                                                                                                        \
    X(next_fit_lifo)                                                                                                   \
    X(best_fit)                                                                                                        \
    X(tree_best_fit)                                                                                                   \
    X(fast_fit)                                                                                                        \
    X(fast_fit_leftmost)                                                                                               \
    X(binary_buddy)                                                                                                    \
    X(fibonacci_buddy)                                                                                                 \
    X(weighted_buddy)                                                                                                  \
    X(double_buddy)                                                                                                    \
    X(bitframe)                                                                                                        \
    X(regis1)                                                                                                          \
    X(regis2)                                                                                                          \
    X(reaps)

// Heaps with further regions.
#define MULTI_REGION_ALLOCATORS(X)                                                                                     \
    X(tlsf)                                                                                                            \
    X(tlsf_no_stats)                                                                                                   \
    X(tlsf_exact)                                                                                                      \
    X(tlsf_small)                                                                                                      \
    X(tlsf_unchecked)                                                                                                  \
    X(tlsf_own_tag)                                                                                                    \
    X(tlsf_full_validation)                                                                                            \
    X(half_fit)                                                                                                        \
    X(first_fit)                                                                                                       \
    X(first_fit_address)                                                                                               \
    X(next_fit)                                                                                                        \
    X(next_fit_lifo)                                                                                                   \
    X(best_fit)                                                                                                        \
    X(tree_best_fit)

// TLSF with adapters for debugging, each with its own configuration.
#define DEBUG_ALLOCATORS(X)                                                                                            \
    X(pools)                                                                                                           \
    X(guarded_tlsf)                                                                                                    \
    X(failing_tlsf)                                                                                                    \
    X(quota_tlsf)                                                                                                      \
    X(traced_tlsf)                                                                                                     \
    X(debug_tlsf)

#define HANDLE_ALLOCATORS(X)                                                                                           \
    X(compact_fit)                                                                                                     \
    X(compact_fit_iota)                                                                                                \
    X(compact_fit_non_moving)

#define SHARED_ALLOCATORS(X)                                                                                           \
    X(arenas)                                                                                                          \
    X(bitmap_buddy)                                                                                                    \
    X(tree_buddy)

#endif
