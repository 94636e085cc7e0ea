// The suite of the handle heaps.

#include "allocators.h"
#include "expect.h"
#include "suite.h"

#include <rtalloc.h>
#include <stdint.h>
#include <string.h>

// The functions of a heap, with an untyped pointer.
typedef struct {
    const char *name;
    void *(*init)(void *, size_t);
    rt_error (*init_with)(void *, size_t, const rt_compact_fit_config *, void **);
    rt_error (*allocate)(void *, size_t, rt_handle *);
    rt_error (*free)(void *, rt_handle);
    rt_error (*resize)(void *, rt_handle, size_t);
    rt_error (*size)(const void *, rt_handle, size_t *);
    rt_error (*locate)(void *, rt_handle, size_t, void **, size_t *);
    rt_error (*read)(const void *, rt_handle, size_t, void *, size_t);
    rt_error (*write)(void *, rt_handle, size_t, const void *, size_t);
    size_t (*pending_bytes)(const void *);
    size_t (*step)(void *, size_t);
    size_t (*largest)(const void *);
    rt_error (*stats)(const void *, rt_stats *);
    rt_error (*fragmentation)(const void *, rt_fragmentation *);
    rt_error (*walk)(const void *, rt_object_visitor, void *);
    rt_error (*check)(const void *, rt_corruption *);
    const rt_contract *(*contract)(void);
} allocator;

#define VERBS(X) \
    static void *X##_init(void *region, size_t bytes) { return rt_##X##_init(region, bytes); } \
    static rt_error X##_init_with(void *region, size_t bytes, const rt_compact_fit_config *config, void **heap) { \
        rt_##X *made = NULL; \
        rt_error error = rt_##X##_init_with(region, bytes, config, heap == NULL ? NULL : &made); \
        if (heap != NULL) *heap = made; \
        return error; \
    } \
    static rt_error X##_allocate(void *heap, size_t size, rt_handle *handle) { \
        return rt_##X##_allocate(heap, size, handle); \
    } \
    static rt_error X##_free(void *heap, rt_handle handle) { return rt_##X##_free(heap, handle); } \
    static rt_error X##_resize(void *heap, rt_handle handle, size_t size) { return rt_##X##_resize(heap, handle, size); } \
    static rt_error X##_size(const void *heap, rt_handle handle, size_t *size) { \
        return rt_##X##_size(heap, handle, size); \
    } \
    static rt_error X##_locate(void *heap, rt_handle handle, size_t offset, void **place, size_t *piece) { \
        return rt_##X##_locate(heap, handle, offset, place, piece); \
    } \
    static rt_error X##_read(const void *heap, rt_handle handle, size_t offset, void *buffer, size_t bytes) { \
        return rt_##X##_read(heap, handle, offset, buffer, bytes); \
    } \
    static rt_error X##_write(void *heap, rt_handle handle, size_t offset, const void *buffer, size_t bytes) { \
        return rt_##X##_write(heap, handle, offset, buffer, bytes); \
    } \
    static size_t X##_pending_bytes(const void *heap) { return rt_##X##_pending_bytes(heap); } \
    static size_t X##_step(void *heap, size_t budget) { return rt_##X##_step(heap, budget); } \
    static size_t X##_largest(const void *heap) { return rt_##X##_largest(heap); } \
    static rt_error X##_stats(const void *heap, rt_stats *stats) { return rt_##X##_stats(heap, stats); } \
    static rt_error X##_fragmentation(const void *heap, rt_fragmentation *lost) { \
        return rt_##X##_fragmentation(heap, lost); \
    } \
    static rt_error X##_walk(const void *heap, rt_object_visitor visitor, void *context) { \
        return rt_##X##_walk(heap, visitor, context); \
    } \
    static rt_error X##_check(const void *heap, rt_corruption *where) { return rt_##X##_check(heap, where); }

HANDLE_ALLOCATORS(VERBS)

#define LINE(X) \
    { #X, X##_init, X##_init_with, X##_allocate, X##_free, X##_resize, X##_size, X##_locate, X##_read, X##_write, \
      X##_pending_bytes, X##_step, X##_largest, X##_stats, X##_fragmentation, X##_walk, X##_check, rt_##X##_contract },

static const allocator allocators[] = { HANDLE_ALLOCATORS(LINE) };

enum { HEAP_BYTES = 1 << 20, MOST_OBJECTS = 4096, BUFFER_BYTES = 600 };
static unsigned char memory[HEAP_BYTES];
static rt_handle objects[MOST_OBJECTS];

static size_t size_of(size_t number) { return 1 + number * 37 % (BUFFER_BYTES - 1); }

static void fill(const allocator *a, void *heap, size_t number, size_t bytes) {
    unsigned char buffer[BUFFER_BYTES];
    memset(buffer, (int) (number % 251), sizeof buffer);
    EXPECT(a->write(heap, objects[number], 0, buffer, bytes) == RT_OK);
}

static bool holds(const allocator *a, const void *heap, size_t number, size_t bytes) {
    unsigned char buffer[BUFFER_BYTES] = { 0 };
    if (a->read(heap, objects[number], 0, buffer, bytes) != RT_OK) return false;
    for (size_t at = 0; at < bytes; at++) {
        if (buffer[at] != (unsigned char) (number % 251)) return false;
    }
    return true;
}

static void count(const rt_object *object, void *context) {
    if (object->handle != 0 && object->address != NULL && object->usable_bytes >= object->size_bytes) ++*(size_t *) context;
}

static void objects_move_and_keep_their_content(const allocator *a) {
    void *heap = a->init(memory + 3, HEAP_BYTES - 3);
    EXPECT(heap != NULL && a->check(heap, NULL) == RT_OK);
    size_t made = 0, size = 0, seen = 0;
    for (; made < MOST_OBJECTS; made++) {
        rt_error error = a->allocate(heap, size_of(made), &objects[made]);
        if (error != RT_OK) {
            EXPECT(error == RT_ERROR_EXHAUSTED || error == RT_ERROR_PENDING);
            break;
        }
        fill(a, heap, made, size_of(made));
    }
    EXPECT(made > 1000);
    EXPECT(a->walk(heap, count, &seen) == RT_OK && seen == made);
    rt_stats stats;
    rt_fragmentation lost;
    EXPECT(a->stats(heap, &stats) == RT_OK && stats.live_blocks == made);
    EXPECT(a->fragmentation(heap, &lost) == RT_OK && lost.block_internal_bytes > 0);
    // Three of four objects are freed, which compacts pages.
    for (size_t number = 0; number < made; number++) {
        if (number % 4 != 0) EXPECT(a->free(heap, objects[number]) == RT_OK);
    }
    while (a->pending_bytes(heap) > 0) EXPECT(a->step(heap, 4096) > 0);
    EXPECT(a->check(heap, NULL) == RT_OK);
    for (size_t number = 0; number < made; number++) {
        if (number % 4 == 0) {
            EXPECT(holds(a, heap, number, size_of(number)));
            EXPECT(a->size(heap, objects[number], &size) == RT_OK && size == size_of(number));
        } else {
            EXPECT(a->free(heap, objects[number]) == RT_ERROR_STALE_HANDLE);
            EXPECT(a->size(heap, objects[number], &size) == RT_ERROR_STALE_HANDLE);
        }
    }
    // Freed memory serves other sizes: memory use does not depend on history.
    EXPECT(a->largest(heap) > BUFFER_BYTES);
    for (size_t number = 0; number < made; number += 4) {
        size_t before = size_of(number), after = number % 8 == 0 ? BUFFER_BYTES : 1;
        EXPECT(a->resize(heap, objects[number], after) == RT_OK);
        EXPECT(holds(a, heap, number, before < after ? before : after));
        EXPECT(a->free(heap, objects[number]) == RT_OK);
    }
    while (a->pending_bytes(heap) > 0) EXPECT(a->step(heap, 4096) > 0);
    seen = 0;
    EXPECT(a->walk(heap, count, &seen) == RT_OK && seen == 0 && a->check(heap, NULL) == RT_OK);
}

static void bad_handles_and_places_are_refused(const allocator *a) {
    void *heap = a->init(memory, HEAP_BYTES), *place = NULL;
    unsigned char buffer[64] = { 0 };
    rt_handle object = 0, none = 77;
    size_t size = 0, piece = 0;
    EXPECT(heap != NULL);
    EXPECT(a->allocate(heap, 0, &none) == RT_ERROR_ZERO_SIZE && a->allocate(heap, SIZE_MAX, &none) == RT_ERROR_TOO_LARGE);
    EXPECT(a->allocate(heap, a->contract()->largest_request_bytes + 1, &none) == RT_ERROR_TOO_LARGE && none == 77);
    EXPECT(a->allocate(heap, 100, &object) == RT_OK && object != 0);
    EXPECT(a->free(heap, 0) == RT_ERROR_FOREIGN_HANDLE && a->free(heap, UINT64_MAX) == RT_ERROR_FOREIGN_HANDLE);
    EXPECT(a->resize(heap, 0, 10) == RT_ERROR_FOREIGN_HANDLE && a->resize(heap, object, 0) == RT_ERROR_ZERO_SIZE);
    EXPECT(a->locate(heap, object, 99, &place, &piece) == RT_OK && place != NULL && piece == 1);
    EXPECT(a->locate(heap, object, 0, &place, NULL) == RT_OK);
    EXPECT(a->locate(heap, object, 101, &place, &piece) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(a->read(heap, object, 40, buffer, 60) == RT_OK && a->read(heap, object, 100, buffer, 0) == RT_OK);
    EXPECT(a->read(heap, object, 41, buffer, 60) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(a->write(heap, object, 101, buffer, 0) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(a->write(heap, object, SIZE_MAX, buffer, 2) == RT_ERROR_OUT_OF_RANGE);
    EXPECT(a->write(heap, object, 2, buffer, SIZE_MAX) == RT_ERROR_OUT_OF_RANGE);

    EXPECT(a->init(NULL, HEAP_BYTES) == NULL && a->init(memory, 16) == NULL);
    EXPECT(a->init_with(memory, HEAP_BYTES, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->allocate(NULL, 1, &none) == RT_ERROR_NULL && a->allocate(heap, 1, NULL) == RT_ERROR_NULL);
    EXPECT(a->free(NULL, object) == RT_ERROR_NULL && a->resize(NULL, object, 1) == RT_ERROR_NULL);
    EXPECT(a->size(NULL, object, &size) == RT_ERROR_NULL && a->size(heap, object, NULL) == RT_ERROR_NULL);
    EXPECT(a->locate(NULL, object, 0, &place, NULL) == RT_ERROR_NULL);
    EXPECT(a->locate(heap, object, 0, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->read(heap, object, 0, NULL, 1) == RT_ERROR_NULL && a->write(heap, object, 0, NULL, 1) == RT_ERROR_NULL);
    EXPECT(a->read(NULL, object, 0, buffer, 1) == RT_ERROR_NULL && a->write(NULL, object, 0, buffer, 1) == RT_ERROR_NULL);
    EXPECT(a->pending_bytes(NULL) == 0 && a->step(NULL, 1) == 0 && a->largest(NULL) == 0 && a->check(NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->stats(NULL, NULL) == RT_ERROR_NULL && a->fragmentation(heap, NULL) == RT_ERROR_NULL);
    EXPECT(a->walk(heap, NULL, NULL) == RT_ERROR_NULL);
    EXPECT(a->check(heap, NULL) == RT_OK);
}

static void configurations_are_judged(const allocator *a) {
    void *heap = NULL;
    uint32_t pages[3] = { 4, 5, 6 };
    rt_compact_fit_config config = { 2, pages, 3, 0 };
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &heap) == RT_OK && a->check(heap, NULL) == RT_OK);
    config.class_not_full = NULL;
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &heap) == RT_ERROR_CONFIGURATION && heap == NULL);
    config.classes = 0;
    config.reserved_pages = 1;
    bool is_moving = strcmp(a->name, "compact_fit_non_moving") != 0;
    EXPECT(a->init_with(memory, HEAP_BYTES, &config, &heap) == (is_moving ? RT_ERROR_CONFIGURATION : RT_OK));
    EXPECT(a->contract()->mechanism == RT_MECHANISM_COMPACT_FIT);
}

// A contiguous object lies entirely at its address.
static void a_whole_object_is_where_it_is(void) {
    subject = "compact_fit";
    rt_compact_fit *heap = rt_compact_fit_init(memory, HEAP_BYTES);
    rt_handle object = 0;
    void *place = NULL, *same = NULL;
    size_t piece = 0;
    EXPECT(rt_compact_fit_allocate(heap, 5000, &object) == RT_OK);
    EXPECT(rt_compact_fit_get(heap, object, &place) == RT_OK);
    memset(place, 42, 5000);
    unsigned char last = 0;
    EXPECT(rt_compact_fit_read(heap, object, 4999, &last, 1) == RT_OK && last == 42);
    EXPECT(rt_compact_fit_locate(heap, object, 0, &same, &piece) == RT_OK && same == place && piece == 5000);
    EXPECT(rt_compact_fit_free(heap, object) == RT_OK);
    EXPECT(rt_compact_fit_get(heap, object, &place) == RT_ERROR_STALE_HANDLE);
    EXPECT(rt_compact_fit_get(heap, object, NULL) == RT_ERROR_NULL);
}

void test_handle_allocators(void) {
    size_t number = 0;
    for (; number < sizeof allocators / sizeof allocators[0]; number++) {
        const allocator *a = &allocators[number];
        subject = a->name;
        objects_move_and_keep_their_content(a);
        bad_handles_and_places_are_refused(a);
        configurations_are_judged(a);
    }
    a_whole_object_is_where_it_is();
    printf("%zu handle heaps\n", number);
}
