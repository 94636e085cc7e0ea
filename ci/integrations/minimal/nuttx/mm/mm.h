// What integrations/nuttx/ needs of NuttX's header of this name.

#ifndef NUTTX_MM_H
#define NUTTX_MM_H

#include <stdbool.h>
#include <stddef.h>

struct mm_heap_s;
struct mallinfo;

struct mm_heap_s *mm_initialize(const char *name, void *start, size_t size);
void mm_uninitialize(struct mm_heap_s *heap);
void mm_addregion(struct mm_heap_s *heap, void *start, size_t size);
void *mm_malloc(struct mm_heap_s *heap, size_t size);
void *mm_zalloc(struct mm_heap_s *heap, size_t size);
void *mm_calloc(struct mm_heap_s *heap, size_t count, size_t size);
void *mm_memalign(struct mm_heap_s *heap, size_t alignment, size_t size);
void *mm_realloc(struct mm_heap_s *heap, void *block, size_t size);
void mm_free(struct mm_heap_s *heap, void *block);
size_t mm_malloc_size(struct mm_heap_s *heap, void *block);
bool mm_heapmember(struct mm_heap_s *heap, void *address);
struct mallinfo mm_mallinfo(struct mm_heap_s *heap);
size_t mm_largest(struct mm_heap_s *heap);

#endif
