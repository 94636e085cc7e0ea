// sys_heap of Zephyr on rtalloc, in the place of lib/heap/heap.c and its like. README.md has how. Not yet run on the
// system: compiled against a minimal header, and tested without the system.
//
// As in Zephyr, the caller has the lock. Allocation and free are O(1), and so is reallocation but for a copy if the
// block moves.
//
// Licence: MIT OR Apache-2.0.

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <zephyr/sys/printk.h>
#include <zephyr/sys/sys_heap.h>

#include <rtalloc.h>

// At the start of the heap's memory.
struct z_heap {
    rt_tlsf *heap;
    // The bytes of the free block of an empty heap, header included.
    size_t capacity;
    size_t max_allocated_bytes;
};

// The header before each block.
#define HEADER_BYTES 4

static void add_free(const rt_block *block, void *context) {
    *(size_t *)context += block->is_free ? block->size_bytes : 0;
}

// If the memory is too small, every request is refused.
void sys_heap_init(struct sys_heap *heap, void *mem, size_t bytes) {
    const size_t gap = (size_t)(-(uintptr_t)mem % _Alignof(struct z_heap));
    heap->heap = NULL;
    if (bytes < gap + sizeof(struct z_heap))
        return;
    struct z_heap *made = (struct z_heap *)((unsigned char *)mem + gap);
    memset(made, 0, sizeof *made);
    made->heap = rt_tlsf_init(made + 1, bytes - gap - sizeof *made);
    rt_tlsf_walk(made->heap, add_free, &made->capacity);
    heap->heap = made->heap == NULL ? NULL : made;
}

static rt_tlsf *of(struct sys_heap *heap) {
    return heap->heap == NULL ? NULL : heap->heap->heap;
}

static size_t allocated_bytes(struct sys_heap *heap) {
    rt_stats stats = {0};
    rt_tlsf_stats(of(heap), &stats);
    return stats.live_bytes + stats.live_blocks * HEADER_BYTES;
}

static void *counted(struct sys_heap *heap, void *block) {
    if (block != NULL) {
        const size_t now = allocated_bytes(heap);
        if (now > heap->heap->max_allocated_bytes)
            heap->heap->max_allocated_bytes = now;
    }
    return block;
}

void *sys_heap_alloc(struct sys_heap *heap, size_t bytes) {
    return counted(heap, rt_tlsf_malloc(of(heap), bytes));
}

// Newer versions of Zephyr have it, for callers that need a function of this type. Declared here for the others.
void *sys_heap_noalign_alloc(struct sys_heap *heap, size_t align, size_t bytes);
void *sys_heap_noalign_alloc(struct sys_heap *heap, size_t align, size_t bytes) {
    (void)align;
    return sys_heap_alloc(heap, bytes);
}

// An alignment with a second bit asks for a block that is that much before a multiple of the alignment; it is refused.
void *sys_heap_aligned_alloc(struct sys_heap *heap, size_t align, size_t bytes) {
    return align == 0 ? sys_heap_alloc(heap, bytes) : counted(heap, rt_tlsf_aligned_alloc(of(heap), align, bytes));
}

void sys_heap_free(struct sys_heap *heap, void *mem) {
    rt_tlsf_free(of(heap), mem);
}

void *sys_heap_aligned_realloc(struct sys_heap *heap, void *ptr, size_t align, size_t bytes) {
    if (ptr != NULL && bytes == 0) {
        sys_heap_free(heap, ptr);
        return NULL;
    }
    if (align == 0)
        return counted(heap, rt_tlsf_realloc(of(heap), ptr, bytes));
    return rt_tlsf_reallocate(of(heap), &ptr, align, bytes) == RT_OK ? counted(heap, ptr) : NULL;
}

// A macro in some versions of Zephyr.
#ifndef sys_heap_realloc
void *sys_heap_realloc(struct sys_heap *heap, void *ptr, size_t bytes) {
    return sys_heap_aligned_realloc(heap, ptr, 0, bytes);
}
#endif

size_t sys_heap_usable_size(struct sys_heap *heap, void *mem) {
    return rt_tlsf_usable_size(of(heap), mem);
}

bool sys_heap_validate(struct sys_heap *heap) {
    return rt_tlsf_check(of(heap), NULL) == RT_OK;
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t sys_heap_largest(struct sys_heap *heap) {
    return rt_tlsf_largest(of(heap));
}

int sys_heap_runtime_stats_get(struct sys_heap *heap, struct sys_memory_stats *stats) {
    if (heap == NULL || heap->heap == NULL || stats == NULL)
        return -EINVAL;
    stats->allocated_bytes = allocated_bytes(heap);
    stats->free_bytes = heap->heap->capacity - stats->allocated_bytes;
    stats->max_allocated_bytes = heap->heap->max_allocated_bytes;
    return 0;
}

int sys_heap_runtime_stats_reset_max(struct sys_heap *heap) {
    if (heap == NULL || heap->heap == NULL)
        return -EINVAL;
    heap->heap->max_allocated_bytes = allocated_bytes(heap);
    return 0;
}

static void print(const rt_block *block, void *context) {
    (void)context;
    printk("%p: %zu bytes, %s\n", (void *)block->address, block->usable_bytes, block->is_free ? "free" : "live");
}

void sys_heap_print_info(struct sys_heap *heap, bool dump_chunks) {
    struct sys_memory_stats stats = {0};
    (void)sys_heap_runtime_stats_get(heap, &stats);
    if (dump_chunks)
        rt_tlsf_walk(of(heap), print, NULL);
    printk("free: %zu, live: %zu, most: %zu, largest request: %zu\n", stats.free_bytes, stats.allocated_bytes,
           stats.max_allocated_bytes, sys_heap_largest(heap));
}
