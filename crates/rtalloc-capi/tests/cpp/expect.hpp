/// @file Shared by the tests in C++: expectations that end the program with a message.
#ifndef EXPECT_HPP
#define EXPECT_HPP

#include <rtalloc.hpp>

#include <cstdio>
#include <cstdlib>

/// Ends the program if the condition does not hold.
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                               \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

/// Ends the program if the expression does not throw this.
#define EXPECT_THROW(expression, type)                                                                                 \
    do {                                                                                                               \
        bool thrown = false;                                                                                           \
        try {                                                                                                          \
            static_cast<void>(expression);                                                                             \
        } catch (const type&) {                                                                                        \
            thrown = true;                                                                                             \
        }                                                                                                              \
        if (!thrown) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: throws no %s: %s\n", __FILE__, __LINE__, #type, #expression);                 \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (false)

/// Live blocks of a heap.
template <class Heap> std::size_t live_blocks(const Heap& heap) {
    std::size_t live = 0;
    heap.walk([&](const rt_block& block) { live += block.is_free ? 0 : 1; });
    return live;
}

#endif
