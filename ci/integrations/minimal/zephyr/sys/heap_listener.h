// What zephyr_log.c needs of Zephyr's header of this name.

#ifndef MINIMAL_HEAP_LISTENER_H
#define MINIMAL_HEAP_LISTENER_H

#include <stddef.h>
#include <stdint.h>

struct heap_listener {
    uintptr_t heap_id;
    int is_free;
    void (*callback)(uintptr_t heap, void *block, size_t bytes);
};

void heap_listener_register(struct heap_listener *listener);

#define HEAP_ID_FROM_POINTER(heap) ((uintptr_t)(heap))
#define HEAP_LISTENER_ALLOC_DEFINE(name, id, function) struct heap_listener name = {id, 0, function}
#define HEAP_LISTENER_FREE_DEFINE(name, id, function) struct heap_listener name = {id, 1, function}

#endif
