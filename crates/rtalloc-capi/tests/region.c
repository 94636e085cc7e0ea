// The suite of the region heaps: runs every test for every heap.

#include "allocators.h"
#include "expect.h"
#include "suite.h"

#include <rtalloc.h>
#include <stdalign.h>
#include <stdint.h>
#include <string.h>

// The functions of a heap, with an untyped pointer.
typedef struct {
    const char *name;
    void *(*init)(void *, size_t);
    rt_error (*init_with)(void *, size_t, const rt_heap_config *, void **);
    void *(*malloc)(void *, size_t);
    void *(*calloc)(void *, size_t, size_t);
    void *(*aligned_alloc)(void *, size_t, size_t);
    void *(*realloc)(void *, void *, size_t);
    void (*free)(void *, void *);
    rt_error (*allocate)(void *, size_t, size_t, void **);
    rt_error (*reallocate)(void *, void **, size_t, size_t);
    rt_error (*realloc_in_place)(void *, void *, size_t);
    size_t (*usable_size)(const void *, const void *);
    size_t (*largest)(const void *);
    rt_error (*stats)(const void *, rt_stats *);
    rt_error (*walk)(const void *, rt_visitor, void *);
    rt_error (*check)(const void *, rt_corruption *);
    const rt_contract *(*contract)(void);
    uint64_t (*bound)(rt_operation);
} allocator;

#define INIT_WITH(X) \
    static rt_error X##_init_with(void *region, size_t bytes, const rt_heap_config *config, void **heap) { \
        rt_##X *made = NULL; \
        rt_error error = rt_##X##_init_with(region, bytes, config, heap == NULL ? NULL : &made); \
        if (heap != NULL) *heap = made; \
        return error; \
    }

// Heaps with their own configurations, here the default; tests/debug.c uses others.
#define DEBUG_INIT_WITH(X) \
    static rt_error X##_init_with(void *region, size_t bytes, const rt_heap_config *config, void **heap) { \
        rt_##X *made = NULL; \
        rt_error error = rt_##X##_init_with(region, bytes, NULL, heap == NULL ? NULL : &made); \
        (void) config; \
        if (heap != NULL) *heap = made; \
        return error; \
    }

#define VERBS(X) \
    static void *X##_init(void *region, size_t bytes) { return rt_##X##_init(region, bytes); } \
    static void *X##_malloc(void *heap, size_t size) { return rt_##X##_malloc(heap, size); } \
    static void *X##_calloc(void *heap, size_t count, size_t size) { return rt_##X##_calloc(heap, count, size); } \
    static void *X##_aligned_alloc(void *heap, size_t align, size_t size) { \
        return rt_##X##_aligned_alloc(heap, align, size); \
    } \
    static void *X##_realloc(void *heap, void *block, size_t size) { return rt_##X##_realloc(heap, block, size); } \
    static void X##_free(void *heap, void *block) { rt_##X##_free(heap, block); } \
    static rt_error X##_allocate(void *heap, size_t align, size_t size, void **block) { \
        return rt_##X##_allocate(heap, align, size, block); \
    } \
    static rt_error X##_reallocate(void *heap, void **block, size_t align, size_t size) { \
        return rt_##X##_reallocate(heap, block, align, size); \
    } \
    static rt_error X##_realloc_in_place(void *heap, void *block, size_t size) { \
        return rt_##X##_realloc_in_place(heap, block, size); \
    } \
    static size_t X##_usable_size(const void *heap, const void *block) { return rt_##X##_usable_size(heap, block); } \
    static size_t X##_largest(const void *heap) { return rt_##X##_largest(heap); } \
    static rt_error X##_stats(const void *heap, rt_stats *stats) { return rt_##X##_stats(heap, stats); } \
    static rt_error X##_walk(const void *heap, rt_visitor visitor, void *context) { \
        return rt_##X##_walk(heap, visitor, context); \
    } \
    static rt_error X##_check(const void *heap, rt_corruption *where) { return rt_##X##_check(heap, where); }

REGION_ALLOCATORS(INIT_WITH)
REGION_ALLOCATORS(VERBS)
DEBUG_ALLOCATORS(DEBUG_INIT_WITH)
DEBUG_ALLOCATORS(VERBS)

#define LINE(X) \
    { #X, X##_init, X##_init_with, X##_malloc, X##_calloc, X##_aligned_alloc, X##_realloc, X##_free, X##_allocate, \
      X##_reallocate, X##_realloc_in_place, X##_usable_size, X##_largest, X##_stats, X##_walk, X##_check, \
      rt_##X##_contract, rt_##X##_bound },

static const allocator allocators[] = { REGION_ALLOCATORS(LINE) DEBUG_ALLOCATORS(LINE) };

// Memory of the heaps, which begin at an odd address.
enum { HEAP_BYTES = 256 * 1024, MAX_BLOCKS = 4096 };
static unsigned char memory[HEAP_BYTES + 1];
static void *const region = memory + 1;

// The block with a number, and its content.
typedef struct {
    unsigned char *address;
    size_t size;
} live;
static live blocks[MAX_BLOCKS];

// Sizes of all classes, up to the largest request.
static size_t size_of(size_t number, size_t largest) {
    size_t size = 1 + number * 37 % 500;
    return size < largest ? size : largest;
}

static void fill(const live *block, size_t number) { memset(block->address, (int) (number % 251), block->size); }

static bool holds(const live *block, size_t number, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) {
        if (block->address[at] != (unsigned char) (number % 251)) return false;
    }
    return true;
}

// Bytes of a heap: as many as are within reach of its tags.
static size_t heap_bytes(const rt_contract *contract) {
    return HEAP_BYTES < contract->max_span_bytes ? HEAP_BYTES : contract->max_span_bytes;
}

static bool is_in_region(const void *block) {
    uintptr_t address = (uintptr_t) block, start = (uintptr_t) region;
    return start <= address && address < start + HEAP_BYTES;
}

// The last misuse passed to the hook, and the number of calls.
static rt_misuse last_report;
static unsigned reports;
static void note(const rt_misuse *misuse) {
    last_report = *misuse;
    reports++;
}

// Counts the blocks of a walk.
typedef struct {
    size_t live_blocks, live_bytes, all_bytes;
    uintptr_t last;
    bool in_order;
} tour;
static void visit(const rt_block *block, void *context) {
    tour *seen = context;
    seen->in_order &= (uintptr_t) block->address > seen->last;
    seen->last = (uintptr_t) block->address;
    seen->all_bytes += block->size_bytes;
    if (!block->is_free) {
        seen->live_blocks++;
        seen->live_bytes += block->usable_bytes;
    }
}
static tour toured(const allocator *a, const void *heap) {
    tour seen = { 0, 0, 0, 0, true };
    EXPECT(a->walk(heap, visit, &seen) == RT_OK);
    return seen;
}

static void *made(const allocator *a) {
    void *heap = a->init(region, heap_bytes(a->contract()));
    EXPECT(heap != NULL);
    EXPECT(a->check(heap, NULL) == RT_OK);
    return heap;
}

static bool is_for_debugging(const allocator *a) {
#define IS(X) || strcmp(a->name, #X) == 0
    return false DEBUG_ALLOCATORS(IS);
}

static bool takes_regions(const char *name) {
#define IS_NAMED(X) || strcmp(name, #X) == 0
    return false MULTI_REGION_ALLOCATORS(IS_NAMED);
}

// Whether a block grows into the free block after it: all heaps with boundary tags, except behind guards.
static bool grows(const allocator *a) {
    return takes_regions(a->name) || strcmp(a->name, "fast_fit") == 0 || strcmp(a->name, "quota_tlsf") == 0
        || strcmp(a->name, "failing_tlsf") == 0 || strcmp(a->name, "traced_tlsf") == 0;
}

static bool has_stats(const allocator *a) { return strcmp(a->name, "tlsf_no_stats") != 0; }

static size_t failures(const allocator *a, const void *heap) {
    rt_stats stats;
    (void) a->stats(heap, &stats);
    return stats.failures;
}

static void a_heap_is_filled_and_emptied(const allocator *a) {
    void *heap = made(a);
    const rt_contract *contract = a->contract();
    size_t first_largest = a->largest(heap), count = 0;
    EXPECT(first_largest > 0);
    for (; count < MAX_BLOCKS; count++) {
        live *block = &blocks[count];
        block->size = size_of(count, first_largest);
        block->address = a->malloc(heap, block->size);
        if (block->address == NULL) break;
        size_t natural = contract->alignment_bytes < alignof(max_align_t) ? contract->alignment_bytes : alignof(max_align_t);
        EXPECT((uintptr_t) block->address % natural == 0);
        EXPECT(is_in_region(block->address) && is_in_region(block->address + block->size - 1));
        EXPECT(a->usable_size(heap, block->address) >= block->size);
        fill(block, count);
    }
    EXPECT(count >= 50);
    // A refusal changes nothing; a request of the guaranteed size succeeds.
    void *untouched = &count;
    rt_error refused = a->allocate(heap, 1, HEAP_BYTES / 2 < contract->largest_request_bytes
        ? HEAP_BYTES / 2 : contract->largest_request_bytes, &untouched);
    EXPECT(refused == RT_OK || refused == RT_ERROR_EXHAUSTED || refused == RT_ERROR_TOO_LARGE);
    if (refused == RT_OK) a->free(heap, untouched);
    else EXPECT(untouched == &count);
    EXPECT(a->check(heap, NULL) == RT_OK);

    tour seen = toured(a, heap);
    EXPECT(seen.in_order && seen.live_blocks == count && seen.all_bytes <= HEAP_BYTES);
    rt_stats stats;
    if (has_stats(a)) {
        EXPECT(a->stats(heap, &stats) == RT_OK);
        EXPECT(stats.live_blocks == count && stats.live_bytes == seen.live_bytes);
        EXPECT(stats.high_water_bytes > 0 && stats.high_water_bytes <= HEAP_BYTES && stats.failures >= 1);
    } else {
        EXPECT(a->stats(heap, &stats) == RT_ERROR_NO_STATS && stats.live_blocks == 0);
    }
    EXPECT(stats.largest_free_bytes == a->largest(heap));

    // Every other block first, so that free memory lies between live blocks.
    for (size_t number = 0; number < count; number += 2) {
        EXPECT(holds(&blocks[number], number, blocks[number].size));
        a->free(heap, blocks[number].address);
    }
    EXPECT(a->check(heap, NULL) == RT_OK);
    size_t largest = a->largest(heap);
    if (largest > 0) {
        void *block = a->aligned_alloc(heap, contract->alignment_bytes, largest);
        EXPECT(block != NULL);
        a->free(heap, block);
    }
    for (size_t number = 1; number < count; number += 2) {
        EXPECT(holds(&blocks[number], number, blocks[number].size));
        a->free(heap, blocks[number].address);
    }
    EXPECT(a->check(heap, NULL) == RT_OK);
    EXPECT(toured(a, heap).live_blocks == 0);
    if (has_stats(a)) {
        EXPECT(a->stats(heap, &stats) == RT_OK && stats.live_blocks == 0 && stats.live_bytes == 0);
        EXPECT(stats.peak_live_bytes >= seen.live_bytes);
    }
    if (contract->coalescing != RT_COALESCING_NEVER) {
        EXPECT(a->malloc(heap, first_largest) != NULL);
    }
}

static void cleared_memory_is_zero(const allocator *a) {
    memset(memory, 0xA5, sizeof memory);
    void *heap = made(a);
    unsigned char *block = a->calloc(heap, 7, 13);
    EXPECT(block != NULL);
    for (size_t at = 0; at < 7 * 13; at++) EXPECT(block[at] == 0);
    memset(block, 0xFF, 7 * 13);
    a->free(heap, block);
    block = a->calloc(heap, 13, 7);
    for (size_t at = 0; at < 7 * 13; at++) EXPECT(block[at] == 0);
    a->free(heap, block);
    // Products that overflow, one to a small number.
    EXPECT(a->calloc(heap, SIZE_MAX, 2) == NULL);
    EXPECT(a->calloc(heap, SIZE_MAX / 16 + 2, 16) == NULL);
    EXPECT(a->calloc(heap, 0, 16) == NULL && a->calloc(heap, 16, 0) == NULL);
    EXPECT(a->check(heap, NULL) == RT_OK && toured(a, heap).live_blocks == 0);
}

static void impossible_requests_say_why(const allocator *a) {
    void *heap = made(a);
    void *block = &block;
    EXPECT(a->malloc(heap, 0) == NULL);
    EXPECT(a->allocate(heap, 16, 0, &block) == RT_ERROR_ZERO_SIZE);
    EXPECT(a->allocate(heap, 3, 16, &block) == RT_ERROR_ALIGNMENT);
    EXPECT(a->allocate(heap, 0, 16, &block) == RT_ERROR_ALIGNMENT);
    EXPECT(a->allocate(heap, 16, SIZE_MAX, &block) == RT_ERROR_TOO_LARGE);
    EXPECT(a->allocate(heap, 16, SIZE_MAX / 2, &block) == RT_ERROR_TOO_LARGE);
    EXPECT(a->aligned_alloc(heap, 3, 16) == NULL && a->malloc(heap, SIZE_MAX) == NULL);
    EXPECT(block == &block);
    size_t most = a->contract()->largest_alignment_bytes;
    for (size_t align = 1; align <= 4096; align *= 2) {
        rt_error error = a->allocate(heap, align, 24, &block);
        EXPECT(align <= most ? error == RT_OK : error == RT_ERROR_ALIGNMENT);
        if (error == RT_OK) EXPECT((uintptr_t) block % align == 0);
    }
    EXPECT(a->check(heap, NULL) == RT_OK);
}

static void resized_blocks_keep_their_content(const allocator *a) {
    void *heap = made(a);
    size_t largest = a->largest(heap), align = a->contract()->alignment_bytes;
    live block = { a->realloc(heap, NULL, 24), 24 };
    EXPECT(block.address != NULL);
    fill(&block, 7);
    // Another block in between makes some blocks move.
    void *fence = a->malloc(heap, 16);
    for (size_t size = 48; size <= 768 && size <= largest / 2; size *= 2) {
        unsigned char *moved = a->realloc(heap, block.address, size);
        EXPECT(moved != NULL);
        block.address = moved;
        EXPECT(holds(&block, 7, size / 2));
        block.size = size;
        fill(&block, 7);
    }
    // Refused: the block is unchanged.
    void *place = block.address;
    EXPECT(a->realloc(heap, block.address, 0) == NULL);
    EXPECT(a->realloc(heap, block.address, SIZE_MAX) == NULL);
    EXPECT(a->reallocate(heap, &place, align, 0) == RT_ERROR_ZERO_SIZE);
    EXPECT(a->reallocate(heap, &place, align, SIZE_MAX) == RT_ERROR_TOO_LARGE);
    EXPECT(a->reallocate(heap, &place, 5, 16) == RT_ERROR_ALIGNMENT);
    EXPECT(place == block.address && holds(&block, 7, block.size));
    EXPECT(a->reallocate(heap, &place, align, 20) == RT_OK);
    block.address = place;
    EXPECT(holds(&block, 7, 20) && a->usable_size(heap, place) >= 20);
    a->free(heap, place);
    place = NULL;
    EXPECT(a->reallocate(heap, &place, align, 20) == RT_OK && place != NULL);
    a->free(heap, place);
    a->free(heap, fence);
    EXPECT(a->check(heap, NULL) == RT_OK && toured(a, heap).live_blocks == 0);
}

static void blocks_are_resized_in_place(const allocator *a) {
    void *heap = made(a);
    live block = { a->malloc(heap, 100), 100 }, next = { a->malloc(heap, 100), 100 };
    unsigned char *fence = a->malloc(heap, 16);
    EXPECT(block.address != NULL && next.address != NULL && fence != NULL);
    fill(&block, 7);
    fill(&next, 9);
    // Within the usable bytes every block stays, and has them.
    size_t usable = a->usable_size(heap, block.address), most = usable, failed = failures(a, heap);
    EXPECT(a->realloc_in_place(heap, block.address, usable) == RT_OK);
    EXPECT(a->usable_size(heap, block.address) >= usable && holds(&block, 7, 100) && holds(&next, 9, 100));
    EXPECT(a->realloc_in_place(heap, block.address, SIZE_MAX) == RT_ERROR_NOT_IN_PLACE);
    EXPECT(a->realloc_in_place(heap, block.address, SIZE_MAX / 2) == RT_ERROR_NOT_IN_PLACE);
    EXPECT(a->realloc_in_place(heap, block.address, HEAP_BYTES - 1) == RT_ERROR_NOT_IN_PLACE);
    // Not counted as failures: 0 bytes are.
    EXPECT(failures(a, heap) == failed);
    EXPECT(a->realloc_in_place(heap, block.address, 0) == RT_ERROR_ZERO_SIZE);
    EXPECT(failures(a, heap) == failed + has_stats(a));
    // Refused or not, nothing is lost, and the block has every size up to the largest that was not refused.
    a->free(heap, next.address);
    for (size_t size = 1; size <= 400; size++) {
        size_t before = a->usable_size(heap, block.address);
        rt_error error = a->realloc_in_place(heap, block.address, size);
        EXPECT(error == RT_OK || (error == RT_ERROR_NOT_IN_PLACE && size > before));
        size_t now = a->usable_size(heap, block.address);
        EXPECT(error == RT_OK ? now >= size : now == before);
        if (error == RT_OK) {
            EXPECT(block.address + size <= fence || block.address > fence);
            EXPECT(size == 1 || block.address[size - 2] == (unsigned char) (size - 1));
            block.address[size - 1] = (unsigned char) size;
            most = size;
        }
        EXPECT(a->check(heap, NULL) == RT_OK);
    }
    EXPECT(most >= 1 && (!grows(a) || most >= 200));
    for (size_t size = most; size > 0; size--) {
        EXPECT(a->realloc_in_place(heap, block.address, size) == RT_OK);
        EXPECT(block.address[size - 1] == (unsigned char) size && a->usable_size(heap, block.address) >= size);
        EXPECT(a->check(heap, NULL) == RT_OK);
    }
    EXPECT(toured(a, heap).live_blocks == 2);
    a->free(heap, block.address);
    a->free(heap, fence);
    EXPECT(a->check(heap, NULL) == RT_OK && toured(a, heap).live_blocks == 0);
}

static void misuse_is_reported(const allocator *a) {
    void *heap = made(a);
    const rt_contract *contract = a->contract();
    void *block = a->malloc(heap, 40), *other = a->malloc(heap, 40);
    reports = 0;
    rt_set_misuse_hook(note);
    a->free(heap, NULL);
    EXPECT(reports == 0);
    a->free(heap, block);
    EXPECT(reports == 0);
    // A heap that does not detect it checks nothing.
    if (contract->detects_double_free) {
        a->free(heap, block);
        EXPECT(reports == 1 && last_report.address == block);
        EXPECT(last_report.kind == RT_MISUSE_DOUBLE_FREE || last_report.kind == RT_MISUSE_CONTRADICTORY_TAGS
            || last_report.kind == RT_MISUSE_FOREIGN_POINTER);
        // The name of an adapter ends with that of its inner heap, which may be the one that detects the misuse.
        EXPECT(strlen(last_report.allocator) > 2 && strstr(contract->name, last_report.allocator) != NULL);
        reports = 0;
        alignas(max_align_t) unsigned char foreign[64];
        a->free(heap, foreign);
        EXPECT(reports == 1 && last_report.kind == RT_MISUSE_FOREIGN_POINTER && last_report.address == foreign);
        void *place = foreign;
        EXPECT(a->reallocate(heap, &place, 1, 100) == RT_ERROR_MISUSED && place == foreign && reports == 2);
        a->free(heap, (unsigned char *) other + 1);
        EXPECT(reports == 3);
        // Of any size: a block that was freed, or is not one, or is not aligned.
        const size_t sizes[] = { 1, 40, 100, HEAP_BYTES / 2, SIZE_MAX };
        for (unsigned at = 0; at < 5; at++) {
            EXPECT(a->realloc_in_place(heap, block, sizes[at]) == RT_ERROR_MISUSED && last_report.address == block);
            EXPECT(a->realloc_in_place(heap, foreign, sizes[at]) == RT_ERROR_MISUSED);
            EXPECT(last_report.kind == RT_MISUSE_FOREIGN_POINTER && last_report.address == foreign);
            EXPECT(a->realloc_in_place(heap, (unsigned char *) other + 1, sizes[at]) == RT_ERROR_MISUSED);
            EXPECT(reports == 6 + 3 * at);
        }
        reports = 3;
        rt_set_misuse_hook(NULL);
        a->free(heap, foreign);
        EXPECT(reports == 3);
    } else {
        EXPECT(strcmp(a->name, "tlsf_unchecked") == 0);
    }
    rt_set_misuse_hook(NULL);
    a->free(heap, other);
    EXPECT(a->check(heap, NULL) == RT_OK && toured(a, heap).live_blocks == 0);
}

static void missing_pointers_are_refused(const allocator *a) {
    void *heap = made(a), *block = NULL;
    rt_stats stats;
    EXPECT(a->init(NULL, 4096) == NULL);
    EXPECT(a->init_with(NULL, 4096, NULL, &block) == RT_ERROR_NULL && block == NULL);
    EXPECT(a->init_with(region, 4096, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->malloc(NULL, 16) == NULL && a->calloc(NULL, 16, 1) == NULL && a->aligned_alloc(NULL, 16, 16) == NULL);
    EXPECT(a->realloc(NULL, NULL, 16) == NULL && a->realloc(NULL, &stats, 16) == NULL);
    EXPECT(a->allocate(NULL, 16, 16, &block) == RT_ERROR_NULL && a->allocate(heap, 16, 16, NULL) == RT_ERROR_NULL);
    EXPECT(a->reallocate(NULL, &block, 16, 16) == RT_ERROR_NULL && a->reallocate(heap, NULL, 16, 16) == RT_ERROR_NULL);
    EXPECT(a->realloc_in_place(NULL, &stats, 16) == RT_ERROR_NULL);
    EXPECT(a->realloc_in_place(heap, NULL, 16) == RT_ERROR_NULL && failures(a, heap) == 0);
    a->free(NULL, &stats);
    EXPECT(a->usable_size(NULL, &stats) == 0 && a->usable_size(heap, NULL) == 0 && a->largest(NULL) == 0);
    EXPECT(a->stats(NULL, &stats) == RT_ERROR_NULL && a->stats(heap, NULL) == RT_ERROR_NULL);
    EXPECT(a->walk(NULL, visit, NULL) == RT_ERROR_NULL && a->walk(heap, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->check(NULL, NULL) == RT_ERROR_NULL);
    EXPECT(toured(a, heap).live_blocks == 0);
}

static void regions_are_judged(const allocator *a, bool takes_regions) {
    void *heap = memory;
    EXPECT(a->init_with(region, 8, NULL, &heap) == RT_ERROR_REGION_TOO_SMALL && heap == NULL);
    EXPECT(a->init_with(region, 0, NULL, &heap) == RT_ERROR_REGION_TOO_SMALL);
    EXPECT(a->init_with(region, SIZE_MAX, NULL, &heap) == RT_ERROR_OVERFLOW);
    EXPECT(a->init_with(region, (size_t) 0 - (uintptr_t) region, NULL, &heap) == RT_ERROR_OVERFLOW);
    size_t bytes_of_heap = heap_bytes(a->contract());
    rt_heap_config config = { bytes_of_heap };
    if (!is_for_debugging(a)) {
        EXPECT(a->init_with(region, bytes_of_heap, &config, &heap) == (takes_regions ? RT_OK : RT_ERROR_CONFIGURATION));
    }
    config.max_region_bytes = 0;
    EXPECT(a->init_with(region, bytes_of_heap, &config, &heap) == RT_OK && heap != NULL);
    if (bytes_of_heap < HEAP_BYTES) {
        EXPECT(a->init_with(region, bytes_of_heap + 1, NULL, &heap) == RT_ERROR_OUT_OF_REACH && heap == NULL);
    }
    // The smallest regions, with any alignment.
    size_t least = 0;
    for (size_t bytes = 1; bytes < 70000 && least == 0; bytes += 1 + bytes / 64) {
        if (a->init(region, bytes) != NULL) least = bytes;
    }
    EXPECT(least > 0);
    for (size_t shift = 0; shift < 16; shift++) {
        heap = a->init(memory + shift, least + 64);
        EXPECT(heap != NULL && a->check(heap, NULL) == RT_OK);
    }
}

static void contracts_are_whole(const allocator *a) {
    const rt_contract *contract = a->contract();
    EXPECT(contract == a->contract() && strlen(contract->name) > 2 && strlen(contract->source) > 4);
    EXPECT(strlen(contract->policy) > 2 && strlen(contract->name) < RT_NAME_BYTES);
    EXPECT(contract->granule_bytes > 0 && contract->alignment_bytes >= 8 && contract->min_block_bytes > 0);
    const rt_operation operations[] = { RT_OPERATION_MALLOC, RT_OPERATION_ALIGNED_ALLOC, RT_OPERATION_FREE };
    for (size_t at = 0; at < 3; at++) {
        rt_cost cost = operations[at] == RT_OPERATION_FREE ? contract->deallocate : contract->allocate;
        uint64_t bound = a->bound(operations[at]);
        EXPECT(bound == 0 || (cost == RT_COST_CONSTANT && bound < 10000));
    }
    // Bounded also where realloc is not O(1): in place no heap searches.
    EXPECT(a->bound(RT_OPERATION_REALLOC_IN_PLACE) < 10000);
    EXPECT(a->bound((rt_operation) 99) == 0);
}

// Overwrites the header of a block, if the contract guarantees detection.
static void corruption_is_found(const allocator *a) {
    void *heap = made(a);
    const rt_contract *contract = a->contract();
    if (contract->header_bytes == 0) return;
    unsigned char *first = a->malloc(heap, 40), *second = a->malloc(heap, 40);
    EXPECT(first != NULL && second != NULL);
    memset(second - contract->header_bytes, 0xFF, contract->header_bytes);
    rt_corruption where;
    memset(&where, 0, sizeof where);
    EXPECT(a->check(heap, &where) == RT_ERROR_CORRUPTION);
    EXPECT(strlen(where.invariant) > 4 && strlen(where.invariant) < RT_TEXT_BYTES);
    EXPECT(a->check(heap, NULL) == RT_ERROR_CORRUPTION);
}

#define ADD_AND_REMOVE_REGIONS(X) \
    static void X##_add_and_remove_regions(void) { \
        const size_t bytes = heap_bytes(rt_##X##_contract()) & ~(size_t) 63; \
        rt_##X *heap = NULL; \
        rt_heap_config config = { bytes / 2 }; \
        rt_region added = 0; \
        void *second = memory + bytes / 2, *block = NULL; \
        subject = #X; \
        EXPECT(rt_##X##_init_with(memory, bytes / 8, &config, &heap) == RT_OK); \
        EXPECT(rt_##X##_malloc(heap, bytes / 5) == NULL); \
        EXPECT(rt_##X##_add_region(NULL, second, bytes / 2, &added) == RT_ERROR_NULL); \
        EXPECT(rt_##X##_add_region(heap, NULL, bytes / 2, &added) == RT_ERROR_NULL); \
        EXPECT(rt_##X##_add_region(heap, second, SIZE_MAX, &added) == RT_ERROR_OVERFLOW); \
        EXPECT(rt_##X##_add_region(heap, second, 8, &added) == RT_ERROR_REGION_TOO_SMALL); \
        EXPECT(rt_##X##_add_region(heap, memory, bytes / 8, &added) == RT_ERROR_OVERLAP); \
        EXPECT(rt_##X##_add_region(heap, memory + bytes / 16, bytes / 32, &added) == RT_ERROR_OVERLAP); \
        EXPECT(rt_##X##_add_region(heap, memory + bytes / 16, bytes / 8, &added) == RT_ERROR_OVERLAP); \
        EXPECT(rt_##X##_add_region(heap, second, bytes / 2, &added) == RT_OK); \
        block = rt_##X##_malloc(heap, bytes / 5); \
        EXPECT((uintptr_t) block > (uintptr_t) second); \
        EXPECT(rt_##X##_remove_region(heap, added) == RT_ERROR_IN_USE); \
        EXPECT(rt_##X##_remove_region(heap, added + 1) == RT_ERROR_NOT_REMOVABLE); \
        EXPECT(rt_##X##_remove_region(heap, 0) == RT_ERROR_NOT_REMOVABLE); \
        EXPECT(rt_##X##_remove_region(NULL, added) == RT_ERROR_NULL); \
        rt_##X##_free(heap, block); \
        EXPECT(rt_##X##_check(heap, NULL) == RT_OK); \
        EXPECT(rt_##X##_remove_region(heap, added) == RT_OK); \
        EXPECT(rt_##X##_malloc(heap, bytes / 5) == NULL && rt_##X##_check(heap, NULL) == RT_OK); \
        EXPECT(rt_##X##_add_region(heap, second, bytes / 2, NULL) == RT_OK); \
        EXPECT(rt_##X##_add_region(heap, second, bytes / 2, NULL) == RT_ERROR_OVERLAP); \
        EXPECT(rt_##X##_add_region(heap, (char *) second + 64, bytes / 4, NULL) == RT_ERROR_OVERLAP); \
        EXPECT(rt_##X##_malloc(heap, bytes / 5) != NULL); \
    }

MULTI_REGION_ALLOCATORS(ADD_AND_REMOVE_REGIONS)

void test_region_allocators(void) {
    size_t count = sizeof allocators / sizeof allocators[0];
    for (size_t number = 0; number < count; number++) {
        const allocator *a = &allocators[number];
        subject = a->name;
        contracts_are_whole(a);
        missing_pointers_are_refused(a);
        regions_are_judged(a, takes_regions(a->name));
        a_heap_is_filled_and_emptied(a);
        cleared_memory_is_zero(a);
        impossible_requests_say_why(a);
        resized_blocks_keep_their_content(a);
        blocks_are_resized_in_place(a);
        misuse_is_reported(a);
        corruption_is_found(a);
    }
#define COME_AND_GO(X) X##_add_and_remove_regions();
    MULTI_REGION_ALLOCATORS(COME_AND_GO)
    printf("%zu region heaps\n", count);
}
