// The mm heap of NuttX on rtalloc, in the place of mm/mm_heap/. README.md has how. Not yet run on the system: compiled
// against a minimal header, and tested without the system.
//
// Allocation and free are O(1), with the heap's mutex held; so is reallocation but for a copy if the block moves, which
// is made without the mutex.
//
// Licence: MIT OR Apache-2.0.

#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include <nuttx/mm/mm.h>
#include <nuttx/mutex.h>

#include <rtalloc.h>

// Bytes of the largest region that mm_addregion() adds to a heap later, if it is larger than the heap.
#ifndef RTALLOC_MM_REGION_BYTES
#define RTALLOC_MM_REGION_BYTES 0
#endif

// At the start of the heap's memory.
struct mm_heap_s {
    mutex_t mutex;
    rt_tlsf *heap;
    unsigned char *start, *end;
};

struct mm_heap_s *mm_initialize(const char *name, void *heap_start, size_t heap_size) {
    const size_t gap = (size_t)(-(uintptr_t)heap_start % _Alignof(struct mm_heap_s));
    (void)name;
    if (heap_size < gap + sizeof(struct mm_heap_s))
        return NULL;
    struct mm_heap_s *heap = (struct mm_heap_s *)((unsigned char *)heap_start + gap);
    const rt_heap_config config = {.max_region_bytes = RTALLOC_MM_REGION_BYTES};
    if (rt_tlsf_init_with(heap + 1, heap_size - gap - sizeof *heap, &config, &heap->heap) != RT_OK)
        return NULL;
    nxmutex_init(&heap->mutex);
    heap->start = heap_start;
    heap->end = heap->start + heap_size;
    return heap;
}

void mm_uninitialize(struct mm_heap_s *heap) {
    nxmutex_destroy(&heap->mutex);
}

// The region must have a higher address than the heap, and be no larger than was planned. Any other is not used, which
// NuttX has no way to report.
void mm_addregion(struct mm_heap_s *heap, void *heapstart, size_t heapsize) {
    nxmutex_lock(&heap->mutex);
    if (rt_tlsf_add_region(heap->heap, heapstart, heapsize, NULL) == RT_OK) {
        if ((unsigned char *)heapstart + heapsize > heap->end)
            heap->end = (unsigned char *)heapstart + heapsize;
    }
    nxmutex_unlock(&heap->mutex);
}

void *mm_malloc(struct mm_heap_s *heap, size_t size) {
    nxmutex_lock(&heap->mutex);
    void *block = rt_tlsf_malloc(heap->heap, size + (size == 0));
    nxmutex_unlock(&heap->mutex);
    return block;
}

void mm_free(struct mm_heap_s *heap, void *mem) {
    if (mem == NULL)
        return;
    nxmutex_lock(&heap->mutex);
    rt_tlsf_free(heap->heap, mem);
    nxmutex_unlock(&heap->mutex);
}

void *mm_realloc(struct mm_heap_s *heap, void *oldmem, size_t size) {
    if (oldmem == NULL)
        return mm_malloc(heap, size);
    if (size == 0) {
        mm_free(heap, oldmem);
        return NULL;
    }
    nxmutex_lock(&heap->mutex);
    const rt_error error = rt_tlsf_realloc_in_place(heap->heap, oldmem, size);
    nxmutex_unlock(&heap->mutex);
    if (error != RT_ERROR_NOT_IN_PLACE)
        return error == RT_OK ? oldmem : NULL;
    void *block = mm_malloc(heap, size);
    if (block != NULL) {
        // The size needs no lock: while a block is live, only a flag of its tag changes, by an atomic store.
        memcpy(block, oldmem, rt_tlsf_usable_size(heap->heap, oldmem));
        mm_free(heap, oldmem);
    }
    return block;
}

void *mm_zalloc(struct mm_heap_s *heap, size_t size) {
    void *block = mm_malloc(heap, size);
    if (block != NULL)
        memset(block, 0, size);
    return block;
}

void *mm_calloc(struct mm_heap_s *heap, size_t n, size_t elem_size) {
    // A product that overflows is a request that no heap can serve.
    return mm_zalloc(heap, elem_size != 0 && n > SIZE_MAX / elem_size ? SIZE_MAX : n * elem_size);
}

void *mm_memalign(struct mm_heap_s *heap, size_t alignment, size_t size) {
    nxmutex_lock(&heap->mutex);
    void *block = rt_tlsf_aligned_alloc(heap->heap, alignment, size + (size == 0));
    nxmutex_unlock(&heap->mutex);
    return block;
}

size_t mm_malloc_size(struct mm_heap_s *heap, void *mem) {
    return rt_tlsf_usable_size(heap->heap, mem);
}

// Whether an address is between the lowest and the highest region.
bool mm_heapmember(struct mm_heap_s *heap, void *mem) {
    return (unsigned char *)mem >= heap->start && (unsigned char *)mem < heap->end;
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t mm_largest(struct mm_heap_s *heap) {
    nxmutex_lock(&heap->mutex);
    const size_t largest = rt_tlsf_largest(heap->heap);
    nxmutex_unlock(&heap->mutex);
    return largest;
}

static void count(const rt_block *block, void *context) {
    struct mallinfo *info = context;
    if (block->is_free) {
        info->ordblks++;
        info->fordblks += (int)block->size_bytes;
    } else {
        info->aordblks++;
        info->uordblks += (int)block->size_bytes;
    }
}

// `mxordblk` is the largest request that succeeds now. The rest takes O(blocks).
struct mallinfo mm_mallinfo(struct mm_heap_s *heap) {
    struct mallinfo info;
    memset(&info, 0, sizeof info);
    nxmutex_lock(&heap->mutex);
    rt_tlsf_walk(heap->heap, count, &info);
    info.mxordblk = (int)rt_tlsf_largest(heap->heap);
    nxmutex_unlock(&heap->mutex);
    info.arena = info.fordblks + info.uordblks;
    return info;
}
