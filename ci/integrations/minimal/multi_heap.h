// What integrations/esp-idf/ needs of ESP-IDF's header of this name.

#ifndef MULTI_HEAP_H
#define MULTI_HEAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct multi_heap_info *multi_heap_handle_t;

typedef struct {
    size_t total_free_bytes, total_allocated_bytes, largest_free_block, minimum_free_bytes;
    size_t allocated_blocks, free_blocks, total_blocks;
} multi_heap_info_t;

typedef bool (*multi_heap_walker_cb_t)(void *block, size_t size, int used, void *user_data);

multi_heap_handle_t multi_heap_register(void *start, size_t size);
void multi_heap_set_lock(multi_heap_handle_t heap, void *lock);
void *multi_heap_malloc(multi_heap_handle_t heap, size_t size);
void *multi_heap_aligned_alloc(multi_heap_handle_t heap, size_t size, size_t alignment);
void *multi_heap_realloc(multi_heap_handle_t heap, void *block, size_t size);
void *multi_heap_aligned_alloc_offs(multi_heap_handle_t heap, size_t size, size_t alignment, size_t offset);
void multi_heap_free(multi_heap_handle_t heap, void *block);
void multi_heap_aligned_free(multi_heap_handle_t heap, void *block);
size_t multi_heap_get_allocated_size(multi_heap_handle_t heap, void *block);
size_t multi_heap_free_size(multi_heap_handle_t heap);
size_t multi_heap_minimum_free_size(multi_heap_handle_t heap);
size_t multi_heap_reset_minimum_free_bytes(multi_heap_handle_t heap);
void multi_heap_restore_minimum_free_bytes(multi_heap_handle_t heap, const size_t minimum);
void multi_heap_get_info(multi_heap_handle_t heap, multi_heap_info_t *info);
bool multi_heap_check(multi_heap_handle_t heap, bool print_errors);
void multi_heap_walk(multi_heap_handle_t heap, multi_heap_walker_cb_t walker, void *user_data);
void multi_heap_dump(multi_heap_handle_t heap);
size_t multi_heap_largest(multi_heap_handle_t heap);

#endif
