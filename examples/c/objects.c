// Objects that move: handles name them, so memory can be compacted and depends on what is live, not on history.

#include <rtalloc.h>
#include <stdio.h>
#include <string.h>

enum { OBJECTS = 1000 };
static unsigned char memory[1 << 20];

int main(void) {
    rt_compact_fit *heap = rt_compact_fit_init(memory, sizeof memory);
    rt_handle handles[OBJECTS];
    char name[32];
    for (int number = 0; number < OBJECTS; number++) {
        int length = snprintf(name, sizeof name, "object %d", number);
        if (rt_compact_fit_allocate(heap, 200, &handles[number]) != RT_OK) return 1;
        if (rt_compact_fit_write(heap, handles[number], 0, name, (size_t) length + 1) != RT_OK) return 1;
    }
    for (int number = 0; number < OBJECTS; number++) {
        // The others move into the gaps.
        if (number % 100 != 42 && rt_compact_fit_free(heap, handles[number]) != RT_OK) return 1;
    }
    for (int number = 42; number < OBJECTS; number += 100) {
        void *place = NULL;
        // Valid until the next operation of this heap.
        if (rt_compact_fit_get(heap, handles[number], &place) != RT_OK) return 1;
        printf("%s\n", (const char *) place);
    }
    // A stale handle is an error and never names another object.
    printf("handle 7: %s\n", rt_strerror(rt_compact_fit_free(heap, handles[7])));
    return 0;
}
