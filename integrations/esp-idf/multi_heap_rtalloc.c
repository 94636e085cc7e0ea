// multi_heap of ESP-IDF on rtalloc, in the place of components/heap/multi_heap.c. README.md has how. Not yet run on the
// system: compiled against a minimal header, and tested without the system.
//
// Allocation and free are O(1), with the heap's lock held; so is reallocation but for a copy if the block moves, which
// is made without the lock.
//
// Licence: MIT OR Apache-2.0.

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <multi_heap.h>
#include <multi_heap_platform.h>

#include <rtalloc.h>

// At the start of the heap's memory.
struct multi_heap_info {
    void *lock;
    rt_tlsf *heap;
    // The bytes of the free block of an empty heap, header included.
    size_t capacity;
    size_t minimum_free_bytes;
};

// The header before each block.
#define HEADER_BYTES 4

#define LOCK(heap) MULTI_HEAP_LOCK((heap)->lock)
#define UNLOCK(heap) MULTI_HEAP_UNLOCK((heap)->lock)

static size_t free_bytes(multi_heap_handle_t heap) {
    rt_stats stats;
    rt_tlsf_stats(heap->heap, &stats);
    return heap->capacity - stats.live_bytes - stats.live_blocks * HEADER_BYTES;
}

static void *counted(multi_heap_handle_t heap, void *block) {
    const size_t now = free_bytes(heap);
    if (now < heap->minimum_free_bytes)
        heap->minimum_free_bytes = now;
    return block;
}

static void add_free(const rt_block *block, void *context) {
    *(size_t *)context += block->is_free ? block->size_bytes : 0;
}

multi_heap_handle_t multi_heap_register(void *start, size_t size) {
    const size_t gap = (size_t)(-(uintptr_t)start % _Alignof(struct multi_heap_info));
    if (start == NULL || size < gap + sizeof(struct multi_heap_info))
        return NULL;
    multi_heap_handle_t heap = (multi_heap_handle_t)((unsigned char *)start + gap);
    heap->heap = rt_tlsf_init(heap + 1, size - gap - sizeof *heap);
    if (heap->heap == NULL)
        return NULL;
    heap->lock = NULL;
    heap->capacity = 0;
    rt_tlsf_walk(heap->heap, add_free, &heap->capacity);
    heap->minimum_free_bytes = heap->capacity;
    return heap;
}

void multi_heap_set_lock(multi_heap_handle_t heap, void *lock) {
    heap->lock = lock;
}

void *multi_heap_malloc(multi_heap_handle_t heap, size_t size) {
    if (heap == NULL)
        return NULL;
    LOCK(heap);
    void *block = counted(heap, rt_tlsf_malloc(heap->heap, size));
    UNLOCK(heap);
    return block;
}

void *multi_heap_aligned_alloc(multi_heap_handle_t heap, size_t size, size_t alignment) {
    if (heap == NULL)
        return NULL;
    LOCK(heap);
    void *block = counted(heap, rt_tlsf_aligned_alloc(heap->heap, alignment, size));
    UNLOCK(heap);
    return block;
}

// heap_caps_aligned_alloc() calls it. A block of rtalloc cannot have its alignment at an offset: only 0 is served.
void *multi_heap_aligned_alloc_offs(multi_heap_handle_t heap, size_t size, size_t alignment, size_t offset) {
    return offset == 0 ? multi_heap_aligned_alloc(heap, size, alignment) : NULL;
}

void multi_heap_free(multi_heap_handle_t heap, void *p) {
    if (heap == NULL || p == NULL)
        return;
    LOCK(heap);
    rt_tlsf_free(heap->heap, p);
    UNLOCK(heap);
}

void multi_heap_aligned_free(multi_heap_handle_t heap, void *p) {
    multi_heap_free(heap, p);
}

void *multi_heap_realloc(multi_heap_handle_t heap, void *p, size_t size) {
    if (heap == NULL)
        return NULL;
    if (p != NULL && size == 0) {
        multi_heap_free(heap, p);
        return NULL;
    }
    if (p == NULL)
        return multi_heap_malloc(heap, size);
    LOCK(heap);
    const rt_error error = rt_tlsf_realloc_in_place(heap->heap, p, size);
    (void)counted(heap, p);
    UNLOCK(heap);
    if (error != RT_ERROR_NOT_IN_PLACE)
        return error == RT_OK ? p : NULL;
    void *block = multi_heap_malloc(heap, size);
    if (block != NULL) {
        // The size needs no lock: while a block is live, only a flag of its tag changes, by an atomic store.
        memcpy(block, p, rt_tlsf_usable_size(heap->heap, p));
        multi_heap_free(heap, p);
    }
    return block;
}

size_t multi_heap_get_allocated_size(multi_heap_handle_t heap, void *p) {
    return rt_tlsf_usable_size(heap->heap, p);
}

size_t multi_heap_free_size(multi_heap_handle_t heap) {
    if (heap == NULL)
        return 0;
    LOCK(heap);
    const size_t bytes = free_bytes(heap);
    UNLOCK(heap);
    return bytes;
}

size_t multi_heap_minimum_free_size(multi_heap_handle_t heap) {
    return heap == NULL ? 0 : heap->minimum_free_bytes;
}

// Starts the minimum again, and returns what it was.
size_t multi_heap_reset_minimum_free_bytes(multi_heap_handle_t heap) {
    LOCK(heap);
    const size_t before = heap->minimum_free_bytes;
    heap->minimum_free_bytes = free_bytes(heap);
    UNLOCK(heap);
    return before;
}

// Stores an earlier minimum, unless there was a smaller one since.
void multi_heap_restore_minimum_free_bytes(multi_heap_handle_t heap, const size_t new_minimum_free_bytes_value) {
    LOCK(heap);
    if (new_minimum_free_bytes_value < heap->minimum_free_bytes)
        heap->minimum_free_bytes = new_minimum_free_bytes_value;
    UNLOCK(heap);
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t multi_heap_largest(multi_heap_handle_t heap) {
    if (heap == NULL)
        return 0;
    LOCK(heap);
    const size_t largest = rt_tlsf_largest(heap->heap);
    UNLOCK(heap);
    return largest;
}

static void count_free(const rt_block *block, void *context) {
    ((multi_heap_info_t *)context)->free_blocks += block->is_free;
}

// `largest_free_block` is the largest request that succeeds now. The number of free blocks takes O(blocks).
void multi_heap_get_info(multi_heap_handle_t heap, multi_heap_info_t *info) {
    rt_stats stats;
    memset(info, 0, sizeof *info);
    if (heap == NULL)
        return;
    LOCK(heap);
    rt_tlsf_stats(heap->heap, &stats);
    rt_tlsf_walk(heap->heap, count_free, info);
    info->total_free_bytes = free_bytes(heap);
    info->minimum_free_bytes = heap->minimum_free_bytes;
    UNLOCK(heap);
    info->total_allocated_bytes = stats.live_bytes;
    info->largest_free_block = stats.largest_free_bytes;
    info->allocated_blocks = stats.live_blocks;
    info->total_blocks = info->allocated_blocks + info->free_blocks;
}

bool multi_heap_check(multi_heap_handle_t heap, bool print_errors) {
    rt_corruption where;
    LOCK(heap);
    const rt_error error = rt_tlsf_check(heap->heap, &where);
    UNLOCK(heap);
    if (error != RT_OK && print_errors)
        MULTI_HEAP_STDERR_PRINTF("heap %p, at %p: %s\n", (void *)heap, where.address, where.invariant);
    return error == RT_OK;
}

struct walk {
    multi_heap_walker_cb_t function;
    void *user_data;
    bool goes_on;
};

static void pass(const rt_block *block, void *context) {
    struct walk *walk = context;
    if (walk->goes_on)
        walk->goes_on = walk->function((void *)block->address, block->usable_bytes, !block->is_free, walk->user_data);
}

void multi_heap_walk(multi_heap_handle_t heap, multi_heap_walker_cb_t walker_func, void *user_data) {
    struct walk walk = {walker_func, user_data, true};
    LOCK(heap);
    rt_tlsf_walk(heap->heap, pass, &walk);
    UNLOCK(heap);
}

static bool print(void *ptr, size_t size, int used, void *user_data) {
    (void)user_data;
    // The lock is held: the functions of stdio could wait. That of the ROM knows no %zu.
    MULTI_HEAP_PRINTF("%p: %u bytes, %s\n", ptr, (unsigned)size, used ? "live" : "free");
    return true;
}

void multi_heap_dump(multi_heap_handle_t heap) {
    multi_heap_walk(heap, print, NULL);
}
