// An rcutils_allocator_t of ROS 2 on rtalloc: copy this file into a package. README.md has the declarations to copy.
//
// Any thread may use the allocator. Its mutex has priority inheritance, and is held for O(1): no memory is copied or
// cleared meanwhile.
//
// Licence: MIT OR Apache-2.0.

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <rcutils/allocator.h>
#include <stdint.h>
#include <string.h>

#include <rtalloc.h>

// Declared here, because there is no header.
rcutils_allocator_t rtalloc_rcutils_allocator(void *region, size_t bytes);
size_t rtalloc_rcutils_largest(const rcutils_allocator_t *allocator);
rt_error rtalloc_rcutils_stats(const rcutils_allocator_t *allocator, rt_stats *stats);

// At the start of the region.
struct state {
    pthread_mutex_t mutex;
    rt_tlsf *heap;
};

static struct state *lock(void *state) {
    struct state *locked = state;
    pthread_mutex_lock(&locked->mutex);
    return locked;
}

static void unlock(struct state *locked) {
    pthread_mutex_unlock(&locked->mutex);
}

// As malloc, a request for 0 bytes gets a block: functions of rcutils take NULL for exhaustion.
static void *allocate(size_t size, void *state) {
    struct state *locked = lock(state);
    void *block = rt_tlsf_malloc(locked->heap, size + (size == 0));
    unlock(locked);
    return block;
}

static void deallocate(void *block, void *state) {
    struct state *locked = lock(state);
    rt_tlsf_free(locked->heap, block);
    unlock(locked);
}

// As realloc: 0 bytes free the block.
static void *reallocate(void *block, size_t size, void *state) {
    if (block == NULL)
        return allocate(size, state);
    if (size == 0) {
        deallocate(block, state);
        return NULL;
    }
    struct state *locked = lock(state);
    const rt_error error = rt_tlsf_realloc_in_place(locked->heap, block, size);
    unlock(locked);
    if (error != RT_ERROR_NOT_IN_PLACE)
        return error == RT_OK ? block : NULL;
    void *moved = allocate(size, state);
    if (moved != NULL) {
        // The size needs no lock: while a block is live, only a flag of its tag changes, by an atomic store.
        memcpy(moved, block, rt_tlsf_usable_size(locked->heap, block));
        deallocate(block, state);
    }
    return moved;
}

static void *zero_allocate(size_t count, size_t size, void *state) {
    // A product that overflows is a request that no heap can serve.
    const size_t bytes = size != 0 && count > SIZE_MAX / size ? SIZE_MAX : count * size;
    void *block = allocate(bytes, state);
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

// Makes an allocator of a region, which must be writable and used by nothing else as long as the allocator or a copy of
// it is. If the region is too small, the allocator is zero-initialised, and rcutils_allocator_is_valid() is false.
rcutils_allocator_t rtalloc_rcutils_allocator(void *region, size_t bytes) {
    rcutils_allocator_t none = {NULL, NULL, NULL, NULL, NULL};
    const size_t gap = (size_t)(-(uintptr_t)region % _Alignof(struct state));
    if (region == NULL || bytes < gap + sizeof(struct state))
        return none;
    struct state *state = (struct state *)((unsigned char *)region + gap);
    state->heap = rt_tlsf_init(state + 1, bytes - gap - sizeof *state);
    if (state->heap == NULL)
        return none;
    pthread_mutexattr_t attributes;
    if (pthread_mutexattr_init(&attributes) != 0)
        return none;
    const int failed = pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) != 0 ||
        pthread_mutex_init(&state->mutex, &attributes) != 0;
    pthread_mutexattr_destroy(&attributes);
    if (failed)
        return none;
    rcutils_allocator_t allocator = {allocate, deallocate, reallocate, zero_allocate, state};
    return allocator;
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t rtalloc_rcutils_largest(const rcutils_allocator_t *allocator) {
    struct state *locked = lock(allocator->state);
    const size_t largest = rt_tlsf_largest(locked->heap);
    unlock(locked);
    return largest;
}

// Stores the heap's statistics, with the largest request that succeeds now. O(1).
rt_error rtalloc_rcutils_stats(const rcutils_allocator_t *allocator, rt_stats *stats) {
    struct state *locked = lock(allocator->state);
    const rt_error error = rt_tlsf_stats(locked->heap, stats);
    unlock(locked);
    return error;
}
