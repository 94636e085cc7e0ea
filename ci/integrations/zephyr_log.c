// The lines of the book that print the operations of a Zephyr heap, without the system: its listeners are called as
// lib/heap/heap.c calls them. The last line has the counts that the imported trace must have.

#include <zephyr/kernel.h>
#include <zephyr/sys/heap_listener.h>

#include <stdio.h>

struct k_heap _system_heap;
static struct heap_listener *listeners[2];

void heap_log_start(void);

void heap_listener_register(struct heap_listener *listener) {
    listeners[listener->is_free] = listener;
}

static void notify(int is_free, uintptr_t block, size_t bytes) {
    struct heap_listener *listener = listeners[is_free];
    if (listener->heap_id == (uintptr_t)&_system_heap.heap)
        listener->callback(listener->heap_id, (void *)block, bytes);
}

int main(void) {
    heap_log_start();
    notify(0, 0x20000100, 28);
    notify(0, 0x20000120, 60);
    // In place, smaller, then larger.
    notify(0, 0x20000120, 28);
    notify(1, 0x20000120, 60);
    notify(0, 0x20000120, 44);
    notify(1, 0x20000120, 28);
    // To another place.
    notify(0, 0x20000200, 92);
    notify(1, 0x20000100, 28);
    notify(1, 0x20000120, 44);
    printf("counts: 3 2\n");
    return 0;
}
