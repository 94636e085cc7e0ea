// The suite of the shared heaps.

#define _POSIX_C_SOURCE 200809L

#include "allocators.h"
#include "expect.h"
#include "suite.h"

#include <pthread.h>
#include <rtalloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

// The functions of a heap, with an untyped pointer.
typedef struct {
    const char *name;
    void *(*init)(void *, size_t, size_t);
    rt_error (*init_with)(void *, size_t, const rt_shared_config *, void **);
    size_t (*slots)(const void *);
    rt_error (*claim)(void *, size_t *);
    rt_error (*take)(void *, size_t);
    rt_error (*release)(void *, size_t);
    void *(*malloc)(void *, size_t, size_t);
    void *(*calloc)(void *, size_t, size_t, size_t);
    void *(*aligned_alloc)(void *, size_t, size_t, size_t);
    void *(*realloc)(void *, size_t, void *, size_t);
    void (*free)(void *, size_t, void *);
    rt_error (*allocate)(void *, size_t, size_t, size_t, void **);
    rt_error (*reallocate)(void *, size_t, void **, size_t, size_t);
    size_t (*reclaim)(void *, size_t, size_t);
    size_t (*usable_size)(const void *, size_t, const void *);
    size_t (*largest)(const void *, size_t);
    rt_error (*refusals)(const void *, rt_refusals *);
    rt_error (*walk)(const void *, rt_visitor, void *);
    rt_error (*check)(const void *, rt_corruption *);
    rt_error (*max_steps)(const void *, rt_operation, size_t, size_t, rt_steps *);
    const rt_shared_contract *(*contract)(void);
} allocator;

#define VERBS(X) \
    static void *X##_init(void *region, size_t bytes, size_t slots) { return rt_##X##_init(region, bytes, slots); } \
    static rt_error X##_init_with(void *region, size_t bytes, const rt_shared_config *config, void **heap) { \
        rt_##X *made = NULL; \
        rt_error error = rt_##X##_init_with(region, bytes, config, heap == NULL ? NULL : &made); \
        if (heap != NULL) *heap = made; \
        return error; \
    } \
    static size_t X##_slots(const void *heap) { return rt_##X##_slots(heap); } \
    static rt_error X##_claim(void *heap, size_t *slot) { return rt_##X##_claim(heap, slot); } \
    static rt_error X##_take(void *heap, size_t slot) { return rt_##X##_take(heap, slot); } \
    static rt_error X##_release(void *heap, size_t slot) { return rt_##X##_release(heap, slot); } \
    static void *X##_malloc(void *heap, size_t slot, size_t size) { return rt_##X##_malloc(heap, slot, size); } \
    static void *X##_calloc(void *heap, size_t slot, size_t count, size_t size) { \
        return rt_##X##_calloc(heap, slot, count, size); \
    } \
    static void *X##_aligned_alloc(void *heap, size_t slot, size_t align, size_t size) { \
        return rt_##X##_aligned_alloc(heap, slot, align, size); \
    } \
    static void *X##_realloc(void *heap, size_t slot, void *block, size_t size) { \
        return rt_##X##_realloc(heap, slot, block, size); \
    } \
    static void X##_free(void *heap, size_t slot, void *block) { rt_##X##_free(heap, slot, block); } \
    static rt_error X##_allocate(void *heap, size_t slot, size_t align, size_t size, void **block) { \
        return rt_##X##_allocate(heap, slot, align, size, block); \
    } \
    static rt_error X##_reallocate(void *heap, size_t slot, void **block, size_t align, size_t size) { \
        return rt_##X##_reallocate(heap, slot, block, align, size); \
    } \
    static size_t X##_reclaim(void *heap, size_t slot, size_t budget) { return rt_##X##_reclaim(heap, slot, budget); } \
    static size_t X##_usable_size(const void *heap, size_t slot, const void *block) { \
        return rt_##X##_usable_size(heap, slot, block); \
    } \
    static size_t X##_largest(const void *heap, size_t slot) { return rt_##X##_largest(heap, slot); } \
    static rt_error X##_refusals(const void *heap, rt_refusals *refusals) { return rt_##X##_refusals(heap, refusals); } \
    static rt_error X##_walk(const void *heap, rt_visitor visitor, void *context) { \
        return rt_##X##_walk(heap, visitor, context); \
    } \
    static rt_error X##_check(const void *heap, rt_corruption *where) { return rt_##X##_check(heap, where); } \
    static rt_error X##_max_steps(const void *heap, rt_operation operation, size_t align, size_t size, rt_steps *steps) { \
        return rt_##X##_max_steps(heap, operation, align, size, steps); \
    }

SHARED_ALLOCATORS(VERBS)

#define LINE(X) \
    { #X, X##_init, X##_init_with, X##_slots, X##_claim, X##_take, X##_release, X##_malloc, X##_calloc, \
      X##_aligned_alloc, X##_realloc, X##_free, X##_allocate, X##_reallocate, X##_reclaim, X##_usable_size, X##_largest, \
      X##_refusals, X##_walk, X##_check, X##_max_steps, rt_##X##_contract },

static const allocator allocators[] = { SHARED_ALLOCATORS(LINE) };

enum { HEAP_BYTES = 1 << 20, THREADS = 4, MAILBOXES = 16, ROUNDS = 20000 };
static unsigned char memory[HEAP_BYTES];

// Blocks in transit between threads.
static _Atomic(unsigned char *) mailboxes[MAILBOXES];

typedef struct {
    const allocator *a;
    void *heap;
} work;

// Allocates and writes blocks, and passes them to another thread, which reads and frees them.
static void *at_work(void *argument) {
    const work *job = argument;
    const allocator *a = job->a;
    size_t slot = 0, moved = 0;
    uint64_t state = 0;
    EXPECT(a->claim(job->heap, &slot) == RT_OK);
    state = (uint64_t) slot * 977 + (uintptr_t) &state;
    for (size_t round = 0; round < ROUNDS; round++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t size = 8 + (size_t) (state >> 33) % 300;
        unsigned char *block = a->malloc(job->heap, slot, size);
        if (block != NULL) memset(block, (int) size % 251, size);
        if (block != NULL) memcpy(block, &size, sizeof size);
        block = atomic_exchange(&mailboxes[(state >> 50) % MAILBOXES], block);
        if (block == NULL) continue;
        moved++;
        memcpy(&size, block, sizeof size);
        for (size_t at = sizeof size; at < size; at++) EXPECT(block[at] == size % 251);
        a->free(job->heap, slot, block);
    }
    EXPECT(moved > ROUNDS / 2);
    EXPECT(a->release(job->heap, slot) == RT_OK);
    return NULL;
}

static void threads_free_what_others_allocated(const allocator *a) {
    pthread_t threads[THREADS];
    work job = { a, a->init(memory + 5, HEAP_BYTES - 5, THREADS) };
    EXPECT(job.heap != NULL);
    for (size_t number = 0; number < THREADS; number++) {
        EXPECT(pthread_create(&threads[number], NULL, at_work, &job) == 0);
    }
    for (size_t number = 0; number < THREADS; number++) EXPECT(pthread_join(threads[number], NULL) == 0);
    EXPECT(a->check(job.heap, NULL) == RT_OK);
    for (size_t number = 0; number < MAILBOXES; number++) a->free(job.heap, 0, atomic_exchange(&mailboxes[number], NULL));
    for (size_t slot = 0; slot < THREADS; slot++) {
        while (a->reclaim(job.heap, slot, 64) > 0) { }
    }
    EXPECT(a->check(job.heap, NULL) == RT_OK);
}

static void visit(const rt_block *block, void *context) { *(size_t *) context += !block->is_free; }

static void the_functions_of_one_slot(const allocator *a) {
    size_t slot = 99, live = 0;
    void *heap = a->init(memory, HEAP_BYTES, 2), *place = NULL;
    const rt_shared_contract *contract = a->contract();
    EXPECT(heap != NULL && strlen(contract->single_user.name) > 4);
    if (contract->slots_are_exclusive) {
        EXPECT(a->slots(heap) == 2);
        EXPECT(a->take(heap, 1) == RT_OK && a->take(heap, 1) == RT_ERROR_SLOT && a->take(heap, 2) == RT_ERROR_SLOT);
        EXPECT(a->claim(heap, &slot) == RT_OK && slot == 0);
        size_t none = 77;
        EXPECT(a->claim(heap, &none) == RT_ERROR_SLOT && none == 77);
        EXPECT(a->release(heap, 1) == RT_OK && a->claim(heap, &none) == RT_OK && none == 1);
        EXPECT(a->release(heap, 2) == RT_ERROR_SLOT && a->malloc(heap, 2, 16) == NULL);
        EXPECT(a->allocate(heap, 2, 16, 16, &place) == RT_ERROR_SLOT && a->largest(heap, 2) == 0);
    } else {
        EXPECT(a->slots(heap) == SIZE_MAX && a->claim(heap, &slot) == RT_OK && a->take(heap, 5) == RT_OK);
    }
    size_t largest = a->largest(heap, slot);
    EXPECT(largest > 1000);
    unsigned char *block = a->malloc(heap, slot, 100), *zeros = a->calloc(heap, slot, 10, 30);
    EXPECT(block != NULL && zeros != NULL && a->usable_size(heap, slot, block) >= 100);
    for (size_t at = 0; at < 300; at++) EXPECT(zeros[at] == 0);
    memset(block, 7, 100);
    block = a->realloc(heap, slot, block, 5000);
    EXPECT(block != NULL && block[99] == 7);
    EXPECT(a->realloc(heap, slot, block, SIZE_MAX) == NULL && a->realloc(heap, slot, block, 0) == NULL);
    EXPECT(a->calloc(heap, slot, SIZE_MAX, 2) == NULL && a->malloc(heap, slot, 0) == NULL);
    unsigned char *aligned = a->aligned_alloc(heap, slot, 512, 40);
    EXPECT((uintptr_t) aligned % 512 == 0 && aligned != NULL);
    EXPECT(a->allocate(heap, slot, 16, 0, &place) == RT_ERROR_ZERO_SIZE);
    EXPECT(a->allocate(heap, slot, 3, 16, &place) == RT_ERROR_ALIGNMENT);
    EXPECT(a->allocate(heap, slot, 16, SIZE_MAX, &place) == RT_ERROR_TOO_LARGE && place == NULL);
    EXPECT(a->reallocate(heap, slot, &place, 64, 64) == RT_OK && place != NULL);
    void *before = place;
    EXPECT(a->reallocate(heap, slot, &place, 16, SIZE_MAX) == RT_ERROR_TOO_LARGE && place == before);
    EXPECT(a->walk(heap, visit, &live) == RT_OK && live == 4);
    rt_refusals refusals;
    EXPECT(a->refusals(heap, &refusals) == RT_OK && refusals.request >= 8 && refusals.exhausted == 0);
    // Until the heap is exhausted: a refusal, and the reason.
    rt_error error = RT_OK;
    for (size_t count = 0; error == RT_OK; count++) {
        EXPECT(count < HEAP_BYTES);
        error = a->allocate(heap, slot, 8, 3000, &place);
    }
    EXPECT(error == RT_ERROR_EXHAUSTED || (error == RT_ERROR_CONTENDED && !contract->exhaustion_is_certain));
    EXPECT(a->refusals(heap, &refusals) == RT_OK && refusals.exhausted + refusals.contended == 1);
    rt_steps steps = { 0, 0, 0 };
    EXPECT(a->max_steps(heap, RT_OPERATION_MALLOC, 0, 100, &steps) == RT_OK && steps.loads + steps.read_modify_writes > 0);
    EXPECT(a->max_steps(heap, RT_OPERATION_REALLOC_IN_PLACE, 16, 100, &steps) == RT_ERROR_UNBOUNDED);
    EXPECT(a->max_steps(heap, RT_OPERATION_FREE, 16, 100, &steps) == RT_OK && steps.loads + steps.read_modify_writes > 0);
    EXPECT(a->check(heap, NULL) == RT_OK);
    a->free(heap, slot, block);
    a->free(heap, slot, NULL);
    EXPECT(a->check(heap, NULL) == RT_OK);
}

static unsigned times_reported;
static void note(const rt_misuse *misuse) { times_reported += misuse->address != NULL; }

static void mistakes_are_refused(const allocator *a) {
    void *heap = a->init(memory, HEAP_BYTES, 1), *made = memory;
    size_t slot = 0;
    rt_shared_config config = { 0, 0, 0 };
    EXPECT(heap != NULL && a->claim(heap, &slot) == RT_OK);
    EXPECT(a->init(memory, HEAP_BYTES, 0) == NULL && a->init(NULL, HEAP_BYTES, 1) == NULL && a->init(memory, 32, 1) == NULL);
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &made) == RT_ERROR_CONFIGURATION && made == NULL);
    EXPECT(a->init_with(memory, SIZE_MAX, NULL, &made) == RT_ERROR_OVERFLOW);
    config.slots = 1;
    config.reclaim_budget = 7;
    rt_error of_arenas = strcmp(a->name, "arenas") == 0 ? RT_OK : RT_ERROR_CONFIGURATION;
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &made) == of_arenas);
    config.reclaim_budget = 0;
    config.chunk_bytes = 4096;
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &made) == of_arenas);
    config.chunk_bytes = 4097;
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &made) == RT_ERROR_CONFIGURATION);
    EXPECT(a->claim(NULL, &slot) == RT_ERROR_NULL && a->claim(heap, NULL) == RT_ERROR_NULL && a->slots(NULL) == 0);
    EXPECT(a->take(NULL, 0) == RT_ERROR_NULL && a->release(NULL, 0) == RT_ERROR_NULL);
    EXPECT(a->malloc(NULL, 0, 16) == NULL && a->realloc(NULL, 0, memory, 16) == NULL && a->reclaim(NULL, 0, 1) == 0);
    EXPECT(a->allocate(heap, 0, 16, 16, NULL) == RT_ERROR_NULL && a->allocate(NULL, 0, 16, 16, &made) == RT_ERROR_NULL);
    EXPECT(a->refusals(heap, NULL) == RT_ERROR_NULL && a->walk(heap, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->check(NULL, NULL) == RT_ERROR_NULL && a->largest(NULL, 0) == 0 && a->usable_size(heap, 0, NULL) == 0);
    a->free(NULL, 0, memory);

    heap = a->init(memory, HEAP_BYTES, 1);
    EXPECT(a->claim(heap, &slot) == RT_OK);
    times_reported = 0;
    rt_set_misuse_hook(note);
    void *block = a->malloc(heap, slot, 100);
    a->free(heap, slot, block);
    EXPECT(times_reported == 0);
    a->free(heap, slot, block);
    EXPECT(times_reported == 1);
    a->free(heap, slot, &config);
    EXPECT(times_reported == 2);
    rt_set_misuse_hook(NULL);
    EXPECT(a->check(heap, NULL) == RT_OK);
}

// Any slot of arenas may have any part of the region, and memory that one frees is another's at once, except for what
// waits to be reclaimed.
static void arenas_have_no_shares(void) {
    enum { LONG_BYTES = HEAP_BYTES / 4 * 3, SMALL_BYTES = 1000 };
    subject = "arenas without shares";
    rt_arenas *heap = rt_arenas_init(memory, HEAP_BYTES, THREADS);
    for (size_t slot = 0; slot < THREADS; slot++) EXPECT(rt_arenas_take(heap, slot) == RT_OK);
    EXPECT(rt_arenas_largest(heap, 3) >= LONG_BYTES);
    unsigned char *block = rt_arenas_malloc(heap, 3, LONG_BYTES);
    EXPECT(block != NULL && rt_arenas_largest(heap, 0) < LONG_BYTES);
    block[LONG_BYTES - 1] = 1;
    void *place = NULL;
    EXPECT(rt_arenas_allocate(heap, 1, 16, LONG_BYTES, &place) == RT_ERROR_EXHAUSTED && place == NULL);
    rt_arenas_free(heap, 0, block);
    block = rt_arenas_malloc(heap, 1, LONG_BYTES);
    EXPECT(block != NULL);
    rt_arenas_free(heap, 1, block);

    // Small blocks of one slot, which another frees, and their owner reclaims.
    size_t count = 0;
    void *list = NULL;
    for (void **small = NULL; (small = rt_arenas_malloc(heap, 0, SMALL_BYTES)) != NULL; count++) {
        *small = list;
        list = small;
    }
    EXPECT(count * SMALL_BYTES > LONG_BYTES && rt_arenas_largest(heap, 2) < LONG_BYTES);
    for (void *next = NULL; list != NULL; list = next) {
        memcpy(&next, list, sizeof next);
        rt_arenas_free(heap, 2, list);
    }
    EXPECT(rt_arenas_largest(heap, 2) < LONG_BYTES);
    EXPECT(rt_arenas_reclaim(heap, 0, count + 1) == count && rt_arenas_largest(heap, 2) >= LONG_BYTES);
    EXPECT(rt_arenas_check(heap, NULL) == RT_OK);

    // More chunks: more steps, and higher bounds where they are known. The budget counts in allocations.
    rt_shared_config config = { THREADS, 0, 0 };
    rt_steps by_default, steps;
    uint64_t bounds[2] = { rt_arenas_bound(heap, RT_OPERATION_MALLOC), rt_arenas_bound(heap, RT_OPERATION_FREE) };
    EXPECT((bounds[0] == 0) == (bounds[1] == 0) && rt_arenas_bound(NULL, RT_OPERATION_FREE) == 0);
    // As docs/SHARED-HEAPS.md states them.
    EXPECT(bounds[0] == 0 || (bounds[0] == 1085 && bounds[1] == 120));
    EXPECT(bounds[0] == 0 || rt_arenas_bound(heap, RT_OPERATION_ALIGNED_ALLOC) == 1251);
    EXPECT(rt_arenas_max_steps(heap, RT_OPERATION_MALLOC, 0, SMALL_BYTES, &by_default) == RT_OK);
    config.chunk_bytes = HEAP_BYTES / 1024;
    EXPECT(rt_arenas_init_with(memory, HEAP_BYTES, &config, &heap) == RT_OK);
    EXPECT(rt_arenas_max_steps(heap, RT_OPERATION_MALLOC, 0, SMALL_BYTES, &steps) == RT_OK && steps.loads > by_default.loads);
    EXPECT(bounds[0] == 0 || rt_arenas_bound(heap, RT_OPERATION_MALLOC) > bounds[0]);
    EXPECT(bounds[1] == 0 || rt_arenas_bound(heap, RT_OPERATION_FREE) > bounds[1]);
    config.chunk_bytes = 0;
    config.reclaim_budget = 9;
    EXPECT(rt_arenas_init_with(memory, HEAP_BYTES, &config, &heap) == RT_OK);
    EXPECT(bounds[0] == 0 || rt_arenas_bound(heap, RT_OPERATION_MALLOC) > bounds[0]);
    EXPECT(rt_arenas_bound(heap, RT_OPERATION_FREE) == bounds[1]);
    config.reclaim_budget = 5000;
    EXPECT(rt_arenas_init_with(memory, HEAP_BYTES, &config, &heap) == RT_OK);
    EXPECT(rt_arenas_bound(heap, RT_OPERATION_MALLOC) == 0);
    config.reclaim_budget = 0;
    config.slots = 65;
    EXPECT(rt_arenas_init_with(memory, HEAP_BYTES, &config, &heap) == RT_OK);
    EXPECT(rt_arenas_bound(heap, RT_OPERATION_FREE) == 0);
    config.slots = THREADS;
    config.chunk_bytes = 64;
    EXPECT(rt_arenas_init_with(memory, HEAP_BYTES, &config, &heap) == RT_ERROR_CONFIGURATION && heap == NULL);
}

void test_shared_allocators(void) {
    size_t number = 0;
    for (; number < sizeof allocators / sizeof allocators[0]; number++) {
        subject = allocators[number].name;
        the_functions_of_one_slot(&allocators[number]);
        mistakes_are_refused(&allocators[number]);
        threads_free_what_others_allocated(&allocators[number]);
    }
    arenas_have_no_shares();
    printf("%zu shared heaps\n", number);
}

// Objects in transit between threads.
static _Atomic(rt_handle) handles[MAILBOXES];

// Allocates and writes objects, and passes them to another thread, which pins, reads and frees them.
static void *with_objects(void *argument) {
    rt_shared_compact_fit *heap = argument;
    size_t slot = 0, moved = 0;
    uint64_t state = 0;
    unsigned char buffer[300];
    EXPECT(rt_shared_compact_fit_claim(heap, &slot) == RT_OK);
    state = (uint64_t) slot * 977 + (uintptr_t) &state;
    for (size_t round = 0; round < ROUNDS; round++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t size = 1 + (size_t) (state >> 33) % sizeof buffer;
        rt_handle handle = 0;
        rt_pin pin;
        if (rt_shared_compact_fit_allocate(heap, slot, size, &handle) == RT_OK) {
            EXPECT(rt_shared_compact_fit_pin(heap, handle, &pin) == RT_OK && pin.size_bytes == size);
            memset(buffer, (int) size % 251, size);
            EXPECT(rt_shared_compact_fit_write(&pin, 0, buffer, size) == RT_OK);
            EXPECT(rt_shared_compact_fit_unpin(&pin) == RT_OK);
        }
        handle = atomic_exchange(&handles[(state >> 50) % MAILBOXES], handle);
        if (handle == 0) continue;
        moved++;
        EXPECT(rt_shared_compact_fit_pin(heap, handle, &pin) == RT_OK);
        EXPECT(rt_shared_compact_fit_free(heap, slot, handle) == RT_OK);
        size = pin.size_bytes;
        EXPECT(rt_shared_compact_fit_read(&pin, 0, buffer, size) == RT_OK);
        for (size_t at = 0; at < size; at++) EXPECT(buffer[at] == size % 251);
        EXPECT(rt_shared_compact_fit_unpin(&pin) == RT_OK);
        EXPECT(rt_shared_compact_fit_pin(heap, handle, &pin) == RT_ERROR_STALE_HANDLE);
    }
    EXPECT(moved > ROUNDS / 2);
    EXPECT(rt_shared_compact_fit_release(heap, slot) == RT_OK);
    return NULL;
}

void test_shared_compact_fit(void) {
    subject = "shared_compact_fit";
    rt_shared_compact_fit *heap = rt_shared_compact_fit_init(memory + 1, HEAP_BYTES - 1, 2), *made = NULL;
    size_t slot = 9, largest = rt_shared_compact_fit_largest_request();
    EXPECT(heap != NULL && rt_shared_compact_fit_slots(heap) == 2);
    EXPECT(rt_shared_compact_fit_take(heap, 1) == RT_OK && rt_shared_compact_fit_take(heap, 1) == RT_ERROR_SLOT);
    EXPECT(rt_shared_compact_fit_take(heap, 2) == RT_ERROR_SLOT);
    EXPECT(rt_shared_compact_fit_claim(heap, &slot) == RT_OK && slot == 0);
    EXPECT(rt_shared_compact_fit_claim(heap, &slot) == RT_ERROR_SLOT);
    EXPECT(rt_shared_compact_fit_release(heap, 1) == RT_OK && rt_shared_compact_fit_release(heap, 2) == RT_ERROR_SLOT);

    rt_handle handle = 0;
    EXPECT(rt_shared_compact_fit_allocate(heap, 0, 0, &handle) == RT_ERROR_ZERO_SIZE);
    EXPECT(rt_shared_compact_fit_allocate(heap, 0, largest + 1, &handle) == RT_ERROR_TOO_LARGE);
    EXPECT(rt_shared_compact_fit_allocate(heap, 2, 10, &handle) == RT_ERROR_SLOT);
    EXPECT(rt_shared_compact_fit_allocate(NULL, 0, 10, &handle) == RT_ERROR_NULL && handle == 0);
    EXPECT(rt_shared_compact_fit_allocate(heap, 0, largest, &handle) == RT_OK && handle != 0);
    rt_pin pin, other;
    EXPECT(rt_shared_compact_fit_pin(heap, handle, &pin) == RT_OK && pin.size_bytes == largest);
    EXPECT(rt_shared_compact_fit_pin(heap, handle, &other) == RT_OK && other.address == pin.address);
    unsigned char word[5] = { 1, 2, 3, 4, 5 }, back[5] = { 0 };
    EXPECT(rt_shared_compact_fit_write(&pin, largest - 5, word, 5) == RT_OK);
    EXPECT(rt_shared_compact_fit_read(&other, largest - 5, back, 5) == RT_OK && memcmp(word, back, 5) == 0);
    EXPECT(memcmp((unsigned char *) pin.address + largest - 5, word, 5) == 0);
    EXPECT(rt_shared_compact_fit_write(&pin, largest - 4, word, 5) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(rt_shared_compact_fit_read(&pin, SIZE_MAX, back, 2) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(rt_shared_compact_fit_read(&pin, 0, back, SIZE_MAX) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(rt_shared_compact_fit_read(&pin, 0, NULL, 1) == RT_ERROR_NULL);
    EXPECT(rt_shared_compact_fit_unpin(&other) == RT_OK && rt_shared_compact_fit_unpin(&other) == RT_ERROR_NULL);
    EXPECT(rt_shared_compact_fit_unpin(NULL) == RT_ERROR_NULL);
    // Freed while pinned: the object stays, and its handle is stale.
    EXPECT(rt_shared_compact_fit_free(heap, 0, handle) == RT_OK);
    EXPECT(rt_shared_compact_fit_free(heap, 0, handle) == RT_ERROR_STALE_HANDLE);
    EXPECT(rt_shared_compact_fit_free(heap, 0, 0) == RT_ERROR_FOREIGN_HANDLE);
    EXPECT(rt_shared_compact_fit_pin(heap, handle, &other) == RT_ERROR_STALE_HANDLE);
    EXPECT(rt_shared_compact_fit_read(&pin, largest - 5, back, 5) == RT_OK && memcmp(word, back, 5) == 0);
    EXPECT(rt_shared_compact_fit_unpin(&pin) == RT_OK);
    EXPECT(rt_shared_compact_fit_reclaim(heap, 0, 10) >= 1);
    EXPECT(!rt_shared_compact_fit_has_pending_compaction(heap, 0) && rt_shared_compact_fit_step(heap, 0, 1000) == 0);
    rt_refusals refusals;
    EXPECT(rt_shared_compact_fit_refusals(heap, &refusals) == RT_OK && refusals.request == 2);
    EXPECT(rt_shared_compact_fit_check(heap, NULL) == RT_OK && rt_shared_compact_fit_check(NULL, NULL) == RT_ERROR_NULL);

    rt_shared_objects_config config = { 0, 0, 0, 0, 0 };
    EXPECT(rt_shared_compact_fit_init_with(memory, HEAP_BYTES, &config, &made) == RT_ERROR_CONFIGURATION && made == NULL);
    EXPECT(rt_shared_compact_fit_init_with(memory, 64, NULL, &made) == RT_ERROR_REGION_TOO_SMALL);
    config.slots = THREADS;
    config.objects = 256;
    EXPECT(rt_shared_compact_fit_init_with(memory, HEAP_BYTES, &config, &made) == RT_OK);
    pthread_t threads[THREADS];
    for (size_t number = 0; number < THREADS; number++) {
        EXPECT(pthread_create(&threads[number], NULL, with_objects, made) == 0);
    }
    for (size_t number = 0; number < THREADS; number++) EXPECT(pthread_join(threads[number], NULL) == 0);
    EXPECT(rt_shared_compact_fit_check(made, NULL) == RT_OK);
    printf("shared objects\n");
}
