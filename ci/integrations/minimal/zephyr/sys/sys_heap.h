// What integrations/zephyr/ needs of Zephyr's header of this name.

#ifndef SYS_HEAP_H
#define SYS_HEAP_H

#include <stdbool.h>
#include <stddef.h>

struct z_heap;

struct sys_heap {
    struct z_heap *heap;
    void *init_mem;
    size_t init_bytes;
};

struct sys_memory_stats {
    size_t free_bytes, allocated_bytes, max_allocated_bytes;
};

void sys_heap_init(struct sys_heap *heap, void *memory, size_t bytes);
void *sys_heap_alloc(struct sys_heap *heap, size_t bytes);
void *sys_heap_aligned_alloc(struct sys_heap *heap, size_t align, size_t bytes);
void *sys_heap_aligned_realloc(struct sys_heap *heap, void *block, size_t align, size_t bytes);
void *sys_heap_noalign_alloc(struct sys_heap *heap, size_t align, size_t bytes);
void *sys_heap_realloc(struct sys_heap *heap, void *block, size_t bytes);
void sys_heap_free(struct sys_heap *heap, void *block);
size_t sys_heap_usable_size(struct sys_heap *heap, void *block);
bool sys_heap_validate(struct sys_heap *heap);
int sys_heap_runtime_stats_get(struct sys_heap *heap, struct sys_memory_stats *stats);
int sys_heap_runtime_stats_reset_max(struct sys_heap *heap);
void sys_heap_print_info(struct sys_heap *heap, bool dump_chunks);
size_t sys_heap_largest(struct sys_heap *heap);

#endif
