/* Commits every misuse of objects on every handle heap, and prints the result:
 *
 *     HEAP: MISUSE: the text of the error
 *
 * Then it verifies the heap and reads an object that was not misused. "damaged" follows the error if either fails.
 */
#include "allocators.h"
#include <rtalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { REGION_BYTES = 1024 * 1024, SIZE = 48 };

static _Alignas(64) unsigned char here[REGION_BYTES];
static _Alignas(64) unsigned char elsewhere[REGION_BYTES];

typedef struct {
    const char *name;
    void *(*init)(void *region, size_t bytes);
    rt_error (*get)(void *heap, size_t size, rt_handle *handle);
    rt_error (*give)(void *heap, rt_handle handle);
    rt_error (*read)(const void *heap, rt_handle handle, size_t offset, void *buffer, size_t bytes);
    rt_error (*write)(void *heap, rt_handle handle, size_t offset, const void *buffer, size_t bytes);
    rt_error (*check)(const void *heap, rt_corruption *where);
} heap_type;

#define HEAP(X)                                                                                                        \
    static void *X##_init(void *region, size_t bytes) { return rt_##X##_init(region, bytes); }                        \
    static rt_error X##_get(void *heap, size_t size, rt_handle *handle) {                                              \
        return rt_##X##_allocate(heap, size, handle);                                                                  \
    }                                                                                                                  \
    static rt_error X##_give(void *heap, rt_handle handle) { return rt_##X##_free(heap, handle); }                     \
    static rt_error X##_read(const void *heap, rt_handle handle, size_t offset, void *buffer, size_t bytes) {          \
        return rt_##X##_read(heap, handle, offset, buffer, bytes);                                                     \
    }                                                                                                                  \
    static rt_error X##_write(void *heap, rt_handle handle, size_t offset, const void *buffer, size_t bytes) {         \
        return rt_##X##_write(heap, handle, offset, buffer, bytes);                                                    \
    }                                                                                                                  \
    static rt_error X##_check(const void *heap, rt_corruption *where) { return rt_##X##_check(heap, where); }
HANDLE_ALLOCATORS(HEAP)

static const heap_type types[] = {
#define ROW(X) {#X, X##_init, X##_get, X##_give, X##_read, X##_write, X##_check},
    HANDLE_ALLOCATORS(ROW)
};

static rt_error free_twice(const heap_type *type, void *heap, rt_handle object) {
    rt_error first = type->give(heap, object);
    return first == RT_OK ? type->give(heap, object) : first;
}

static rt_error free_twice_after_reuse(const heap_type *type, void *heap, rt_handle object) {
    rt_handle next;
    type->give(heap, object);
    type->get(heap, SIZE, &next);
    return type->give(heap, object);
}

static rt_error read_after_free(const heap_type *type, void *heap, rt_handle object) {
    unsigned char byte;
    type->give(heap, object);
    return type->read(heap, object, 0, &byte, 1);
}

static rt_error write_after(const heap_type *type, void *heap, rt_handle object) {
    return type->write(heap, object, SIZE, "", 1);
}

static rt_error write_around(const heap_type *type, void *heap, rt_handle object) {
    return type->write(heap, object, SIZE_MAX, "", 2);
}

/* That heap has more live objects than this one ever had. */
static rt_error free_in_another_heap(const heap_type *type, void *heap, rt_handle object) {
    void *other = type->init(elsewhere, sizeof elsewhere);
    (void)object;
    for (size_t place = 0; place < 100; place++) {
        type->get(other, SIZE, &object);
    }
    return type->give(heap, object);
}

static rt_error free_an_invalid_handle(const heap_type *type, void *heap, rt_handle object) {
    memset(&object, 0xA5, sizeof object);
    return type->give(heap, object);
}

static rt_error ask_for_too_much(const heap_type *type, void *heap, rt_handle object) {
    return type->get(heap, SIZE_MAX, &object);
}

static const struct {
    const char *name;
    rt_error (*commit)(const heap_type *type, void *heap, rt_handle object);
} misuses[] = {
    {"double free", free_twice},
    {"double free, its memory live again", free_twice_after_reuse},
    {"free of another heap's handle", free_in_another_heap},
    {"free of an invalid handle", free_an_invalid_handle},
    {"overrun by one", write_after},
    {"offset that overflows", write_around},
    {"read after free", read_after_free},
    {"size that overflows", ask_for_too_much},
};

int main(void) {
    for (size_t kind = 0; kind < sizeof types / sizeof types[0]; kind++) {
        const heap_type *type = &types[kind];
        for (size_t misuse = 0; misuse < sizeof misuses / sizeof misuses[0]; misuse++) {
            void *heap = type->init(here, sizeof here);
            rt_handle kept, object;
            unsigned char pattern[SIZE], now[SIZE] = {0};
            rt_corruption where;

            memset(pattern, 0x22, sizeof pattern);
            if (heap == NULL || type->get(heap, SIZE, &kept) != RT_OK || type->get(heap, SIZE, &object) != RT_OK ||
                type->write(heap, kept, 0, pattern, SIZE) != RT_OK) {
                fprintf(stderr, "%s: no heap or objects\n", type->name);
                return 2;
            }
            rt_error answer = misuses[misuse].commit(type, heap, object);
            int whole = type->check(heap, &where) == RT_OK && type->read(heap, kept, 0, now, SIZE) == RT_OK &&
                        memcmp(pattern, now, SIZE) == 0;
            printf("%s: %s: %s%s\n", type->name, misuses[misuse].name, rt_strerror(answer), whole ? "" : ", damaged");
        }
    }
    return 0;
}
