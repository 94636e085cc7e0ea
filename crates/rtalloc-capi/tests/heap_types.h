// The region heaps and shared heaps of rtalloc.h as tables of functions.
#ifndef HEAP_TYPES_H
#define HEAP_TYPES_H

#include "allocators.h"
#include <rtalloc.h>

/* Heaps whose tags do not reach as far use a part of the region. */
#define HEAP(X)                                                                                                        \
    static void *X##_init(void *region, size_t bytes) {                                                                \
        size_t most = rt_##X##_contract()->max_span_bytes;                                                             \
        return rt_##X##_init(region, bytes < most ? bytes : most);                                                     \
    }                                                                                                                  \
    static void *X##_get(void *heap, size_t size) { return rt_##X##_malloc(heap, size); }                              \
    static void *X##_get_zeros(void *heap, size_t count, size_t size) { return rt_##X##_calloc(heap, count, size); }   \
    static void *X##_resize(void *heap, void *block, size_t size) { return rt_##X##_realloc(heap, block, size); }      \
    static void X##_give(void *heap, void *block) { rt_##X##_free(heap, block); }                                      \
    static size_t X##_usable(const void *heap, const void *block) { return rt_##X##_usable_size(heap, block); }        \
    static rt_error X##_check(const void *heap, rt_corruption *where) { return rt_##X##_check(heap, where); }          \
    static rt_error X##_walk(const void *heap, rt_visitor visitor, void *context) {                                    \
        return rt_##X##_walk(heap, visitor, context);                                                                  \
    }                                                                                                                  \
    static const rt_contract *X##_contract(void) { return rt_##X##_contract(); }
REGION_ALLOCATORS(HEAP)
DEBUG_ALLOCATORS(HEAP)

/* Shared heaps: one of two slots performs all operations. */
#define SHARED(X)                                                                                                      \
    static size_t X##_slot;                                                                                            \
    static void *X##_init(void *region, size_t bytes) {                                                                \
        rt_##X *made = rt_##X##_init(region, bytes, 2);                                                                \
        return made != NULL && rt_##X##_claim(made, &X##_slot) == RT_OK ? made : NULL;                                 \
    }                                                                                                                  \
    static void *X##_get(void *shared, size_t size) { return rt_##X##_malloc(shared, X##_slot, size); }                \
    static void *X##_get_zeros(void *shared, size_t count, size_t size) {                                              \
        return rt_##X##_calloc(shared, X##_slot, count, size);                                                         \
    }                                                                                                                  \
    static void *X##_resize(void *shared, void *block, size_t size) {                                                  \
        return rt_##X##_realloc(shared, X##_slot, block, size);                                                        \
    }                                                                                                                  \
    static void X##_give(void *shared, void *block) { rt_##X##_free(shared, X##_slot, block); }                        \
    static size_t X##_usable(const void *shared, const void *block) {                                                  \
        return rt_##X##_usable_size(shared, X##_slot, block);                                                          \
    }                                                                                                                  \
    static rt_error X##_check(const void *shared, rt_corruption *where) { return rt_##X##_check(shared, where); }      \
    static rt_error X##_walk(const void *shared, rt_visitor visitor, void *context) {                                  \
        return rt_##X##_walk(shared, visitor, context);                                                                \
    }                                                                                                                  \
    static const rt_contract *X##_contract(void) { return NULL; }
SHARED_ALLOCATORS(SHARED)

typedef struct {
    const char *name;
    void *(*init)(void *region, size_t bytes);
    void *(*get)(void *heap, size_t size);
    void *(*get_zeros)(void *heap, size_t count, size_t size);
    void *(*resize)(void *heap, void *block, size_t size);
    void (*give)(void *heap, void *block);
    size_t (*usable)(const void *heap, const void *block);
    rt_error (*check)(const void *heap, rt_corruption *where);
    rt_error (*walk)(const void *heap, rt_visitor visitor, void *context);
    /* NULL for a shared heap. */
    const rt_contract *(*contract)(void);
} heap_type;

static const heap_type types[] = {
#define ROW(X)                                                                                                         \
    {#X, X##_init, X##_get, X##_get_zeros, X##_resize, X##_give, X##_usable, X##_check, X##_walk,                      \
     X##_contract},
    REGION_ALLOCATORS(ROW) SHARED_ALLOCATORS(ROW) DEBUG_ALLOCATORS(ROW)
};

#endif
