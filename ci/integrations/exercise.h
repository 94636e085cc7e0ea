// What every heap of the folder integrations/ must do, whatever its interface.

#ifndef EXERCISE_H
#define EXERCISE_H

#include <stddef.h>

// A heap, as seen through an interface. A NULL function is one that the interface lacks.
struct heap {
    void *(*allocate)(size_t size);
    void *(*zeroed)(size_t count, size_t size);
    void *(*resize)(void *block, size_t size);
    void *(*aligned)(size_t align, size_t size);
    void (*release)(void *block);
    // The largest request that succeeds now.
    size_t (*largest)(void);
    // The bytes of all free blocks.
    size_t (*free_bytes)(void);
    // Blocks have this alignment.
    size_t align;
    // What a request for 0 bytes returns: whether it is a block, as some interfaces require.
    int has_empty_blocks;
    // A request may succeed that is up to this many bytes above the largest one reported.
    size_t slack;
};

// Random operations whose blocks are filled and verified, NULL and empty requests, products that overflow, exhaustion
// and recovery. Returns the line of its source where it failed, or 0. The heap is empty before, except for what stays
// live, and afterwards.
int exercise(const struct heap *heap);

#endif
