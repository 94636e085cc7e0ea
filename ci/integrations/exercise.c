// The exercise of exercise.h, which needs no C library.

#include "exercise.h"

#include <stdint.h>

enum { BLOCKS = 64, OPERATIONS = 5000 };

#define EXPECT(condition) \
    do { \
        if (!(condition)) \
            return __LINE__; \
    } while (0)

// What the heap should hold.
struct block {
    unsigned char *start;
    size_t size;
    unsigned char fill;
};

static void fill(const struct block *block, size_t from) {
    for (size_t at = from; at < block->size; at++)
        block->start[at] = (unsigned char)(block->fill + at);
}

static int is_filled(const struct block *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at++)
        if (block->start[at] != (unsigned char)(block->fill + at))
            return 0;
    return 1;
}

static uint32_t random_number(void) {
    // Xorshift (Marsaglia 2003).
    static uint32_t state = 1;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

// No two blocks overlap, because each keeps its own pattern.
static int random_operations(const struct heap *heap) {
    static struct block blocks[BLOCKS];
    for (int count = 0; count < OPERATIONS; count++) {
        struct block *block = &blocks[random_number() % BLOCKS];
        const size_t size = 1 + random_number() % (random_number() % 8 == 0 ? 900 : 120);
        if (block->start == NULL) {
            const int is_aligned = heap->aligned != NULL && random_number() % 4 == 0;
            const size_t align = is_aligned ? (size_t)16 << random_number() % 3 : 0;
            const int is_zeroed = !is_aligned && heap->zeroed != NULL && random_number() % 4 == 0;
            if (is_zeroed)
                block->start = heap->zeroed(size, 1);
            else
                block->start = is_aligned ? heap->aligned(align, size) : heap->allocate(size);
            EXPECT(block->start != NULL);
            EXPECT((uintptr_t)block->start % (align != 0 ? align : heap->align) == 0);
            for (size_t at = 0; is_zeroed && at < size; at++)
                EXPECT(block->start[at] == 0);
            block->size = size;
            block->fill = (unsigned char)random_number();
            fill(block, 0);
        } else if (heap->resize != NULL && random_number() % 3 == 0) {
            const size_t kept = size < block->size ? size : block->size;
            block->start = heap->resize(block->start, size);
            EXPECT(block->start != NULL && (uintptr_t)block->start % heap->align == 0);
            EXPECT(is_filled(block, kept));
            block->size = size;
            fill(block, kept);
        } else {
            EXPECT(is_filled(block, block->size));
            heap->release(block->start);
            block->start = NULL;
        }
    }
    for (int at = 0; at < BLOCKS; at++) {
        if (blocks[at].start != NULL) {
            EXPECT(is_filled(&blocks[at], blocks[at].size));
            heap->release(blocks[at].start);
            blocks[at].start = NULL;
        }
    }
    return 0;
}

// The largest request that succeeds is the one reported, and no larger one succeeds.
static int largest(const struct heap *heap) {
    const size_t most = heap->largest();
    void *block;
    EXPECT(most > 0);
    EXPECT(heap->allocate(most + heap->slack + 1) == NULL);
    block = heap->allocate(most);
    EXPECT(block != NULL);
    heap->release(block);
    EXPECT(heap->largest() == most);
    return 0;
}

int exercise(const struct heap *heap) {
    const size_t most = heap->largest(), free_bytes = heap->free_bytes();
    int failed;

    // Nothing happens.
    heap->release(NULL);
    if (heap->has_empty_blocks) {
        void *empty = heap->allocate(0);
        EXPECT(empty != NULL);
        heap->release(empty);
    } else {
        EXPECT(heap->allocate(0) == NULL);
    }
    // No heap serves these.
    EXPECT(heap->allocate(SIZE_MAX) == NULL);
    EXPECT(heap->allocate(SIZE_MAX / 2) == NULL);
    if (heap->zeroed != NULL) {
        EXPECT(heap->zeroed(SIZE_MAX / 4 + 2, 4) == NULL);
        EXPECT(heap->zeroed(SIZE_MAX, SIZE_MAX) == NULL);
    }
    EXPECT(heap->free_bytes() == free_bytes);

    failed = random_operations(heap);
    if (failed != 0)
        return failed;
    EXPECT(heap->free_bytes() == free_bytes && heap->largest() == most);
    failed = largest(heap);
    if (failed != 0)
        return failed;

    // Every second block of a full heap is freed: many bytes are free, but in small pieces.
    void **taken = NULL;
    size_t count = 0;
    for (;;) {
        void **block = heap->allocate(48);
        if (block == NULL)
            break;
        EXPECT(heap->largest() <= heap->free_bytes());
        *block = taken;
        taken = block;
        count++;
    }
    EXPECT(count > 100 && heap->largest() < 48);
    if (heap->resize != NULL) {
        // A refused resize keeps the block.
        void **before = *taken;
        EXPECT(heap->resize(taken, most + heap->slack + 1) == NULL);
        EXPECT(*taken == before);
    }
    for (void **block = taken; block != NULL && *block != NULL; block = *block) {
        void **next = *block;
        *block = *next;
        heap->release(next);
    }
    EXPECT(heap->free_bytes() > 20 * count && heap->largest() < 128);
    EXPECT(heap->largest() + heap->slack >= 48);
    failed = largest(heap);
    if (failed != 0)
        return failed;

    // All memory is one block again.
    while (taken != NULL) {
        void **next = *taken;
        heap->release(taken);
        taken = next;
    }
    EXPECT(heap->free_bytes() == free_bytes && heap->largest() == most);
    return 0;
}
