// Tests of the heaps for debugging, of each adapter and of all together.

#include "allocators.h"
#include "expect.h"
#include "suite.h"

#include <rtalloc.h>
#include <stdint.h>
#include <string.h>

enum { HEAP_BYTES = 256 * 1024 };
static unsigned char memory[HEAP_BYTES];

static rt_misuse last_report;
static unsigned reports;
static void note(const rt_misuse *misuse) {
    last_report = *misuse;
    reports++;
}

// Whether the hook was called exactly once with this since the last call.
static bool is_reported(rt_misuse_kind kind, const void *address) {
    bool is_so = reports == 1 && last_report.kind == kind && last_report.address == address;
    if (!is_so) fprintf(stderr, "%u reports, the last one of kind %d\n", reports, (int) last_report.kind);
    reports = 0;
    return is_so;
}

// Guarded heaps distinguish every kind of misuse.
#define GUARDS(X) \
    static void X##_distinguishes_misuse(void) { \
        subject = #X; \
        rt_##X *heap = rt_##X##_init(memory, HEAP_BYTES); \
        EXPECT(heap != NULL); \
        reports = 0; \
        rt_set_misuse_hook(note); \
        unsigned char *block = rt_##X##_malloc(heap, 10); \
        EXPECT(block != NULL && rt_##X##_usable_size(heap, block) == 10); \
        for (int at = 0; at < 10; at++) EXPECT(block[at] == 0xA5); \
        unsigned char after = block[10], before = block[-1]; \
        block[10] = 0; \
        rt_corruption where; \
        EXPECT(rt_##X##_check(heap, &where) == RT_ERROR_CORRUPTION && where.address == block); \
        rt_##X##_free(heap, block); \
        EXPECT(is_reported(RT_MISUSE_OVERRUN, block)); \
        block[10] = after; \
        block[-1] = (unsigned char) ~before; \
        rt_##X##_free(heap, block); \
        EXPECT(is_reported(RT_MISUSE_UNDERRUN, block)); \
        block[-1] = before; \
        rt_##X##_free(heap, block + 4); \
        EXPECT(is_reported(RT_MISUSE_INTERIOR_POINTER, block + 4)); \
        rt_##X##_free(heap, block); \
        EXPECT(reports == 0 && rt_##X##_quarantined(heap) == 1); \
        rt_##X##_free(heap, block); \
        EXPECT(is_reported(RT_MISUSE_DOUBLE_FREE, block)); \
        block[3] = 'x'; \
        EXPECT(rt_##X##_check(heap, NULL) == RT_ERROR_CORRUPTION); \
        EXPECT(rt_##X##_flush(heap) == RT_OK && is_reported(RT_MISUSE_USE_AFTER_FREE, block)); \
        EXPECT(rt_##X##_quarantined(heap) == 0 && rt_##X##_flush(NULL) == RT_ERROR_NULL); \
        rt_##X *other = rt_##X##_init(memory + HEAP_BYTES / 2, HEAP_BYTES / 2); \
        heap = rt_##X##_init(memory, HEAP_BYTES / 2); \
        block = rt_##X##_malloc(other, 100); \
        rt_##X##_free(heap, block); \
        EXPECT(is_reported(RT_MISUSE_WRONG_HEAP, block)); \
        rt_##X##_free(heap, &where); \
        EXPECT(is_reported(RT_MISUSE_FOREIGN_POINTER, &where)); \
        rt_##X##_free(other, block); \
        EXPECT(reports == 0 && rt_##X##_check(heap, NULL) == RT_OK && rt_##X##_check(other, NULL) == RT_OK); \
        rt_set_misuse_hook(NULL); \
    }

GUARDS(guarded_tlsf)
GUARDS(debug_tlsf)

// Planned requests fail, and no others.
#define FAILS(X) \
    static void X##_fails_on_purpose(void) { \
        subject = #X; \
        rt_##X *heap = rt_##X##_init(memory, HEAP_BYTES); \
        rt_failures failures = { RT_FAILURES_NTH, 2, 0, 0 }; \
        void *first = NULL, *second = NULL; \
        EXPECT(rt_##X##_requests(heap) == 0 && rt_##X##_last_failed(heap) == 0); \
        EXPECT(rt_##X##_arm(heap, &failures) == RT_OK); \
        EXPECT(rt_##X##_allocate(heap, 8, 100, &first) == RT_OK); \
        EXPECT(rt_##X##_allocate(heap, 8, 100, &second) == RT_ERROR_INJECTED && second == NULL); \
        EXPECT(rt_##X##_malloc(heap, 100) != NULL); \
        EXPECT(rt_##X##_requests(heap) == 3 && rt_##X##_failed(heap) == 1 && rt_##X##_last_failed(heap) == 2); \
        failures.plan = RT_FAILURES_FROM; \
        failures.number = 1; \
        EXPECT(rt_##X##_arm(heap, &failures) == RT_OK); \
        EXPECT(rt_##X##_malloc(heap, 1) == NULL && rt_##X##_realloc(heap, first, 5000) == NULL); \
        EXPECT(rt_##X##_calloc(heap, 1, 1) == NULL && rt_##X##_failed(heap) == 3); \
        failures.plan = (rt_failure_plan) 77; \
        EXPECT(rt_##X##_arm(heap, &failures) == RT_ERROR_CONFIGURATION && rt_##X##_failed(heap) == 3); \
        failures.plan = RT_FAILURES_SHARE; \
        failures.chance = UINT32_MAX / 4; \
        failures.seed = 42; \
        EXPECT(rt_##X##_arm(heap, &failures) == RT_OK); \
        for (int number = 0; number < 400; number++) rt_##X##_free(heap, rt_##X##_malloc(heap, 50)); \
        EXPECT(rt_##X##_requests(heap) == 400 && rt_##X##_failed(heap) > 60 && rt_##X##_failed(heap) < 140); \
        failures.plan = RT_FAILURES_NEVER; \
        EXPECT(rt_##X##_arm(heap, &failures) == RT_OK && rt_##X##_malloc(heap, 50) != NULL); \
        EXPECT(rt_##X##_arm(heap, NULL) == RT_ERROR_NULL && rt_##X##_arm(NULL, &failures) == RT_ERROR_NULL); \
        EXPECT(rt_##X##_check(heap, NULL) == RT_OK); \
    }

FAILS(failing_tlsf)
FAILS(debug_tlsf)

// Each component is limited by its own limits.
#define RATIONS(X) \
    static void X##_keeps_components_apart(void) { \
        subject = #X; \
        rt_##X *heap = rt_##X##_init(memory, HEAP_BYTES); \
        rt_quota_limits limits = { 2000, 6, 0 }, found; \
        rt_quota_use used; \
        size_t before = 9, whose = 9; \
        void *block = NULL; \
        EXPECT(rt_##X##_set_limits(heap, 1, &limits) == RT_OK); \
        EXPECT(rt_##X##_set_limits(heap, RT_COMPONENTS, &limits) == RT_ERROR_OUT_OF_RANGE); \
        EXPECT(rt_##X##_limits(heap, 1, &found) == RT_OK && memcmp(&found, &limits, sizeof found) == 0); \
        EXPECT(rt_##X##_last_refusal(heap, &whose) == RT_QUOTA_NONE && whose == 9); \
        EXPECT(rt_##X##_enter(heap, 1, &before) == RT_OK && before == 0 && rt_##X##_component(heap) == 1); \
        EXPECT(rt_##X##_enter(heap, RT_COMPONENTS, &before) == RT_ERROR_OUT_OF_RANGE && rt_##X##_component(heap) == 1); \
        EXPECT(rt_##X##_allocate(heap, 8, 1500, &block) == RT_OK); \
        EXPECT(rt_##X##_malloc(heap, 1500) == NULL); \
        EXPECT(rt_##X##_last_refusal(heap, &whose) == RT_QUOTA_LIVE_BYTES && whose == 1); \
        EXPECT(rt_##X##_enter(heap, 2, NULL) == RT_OK && rt_##X##_malloc(heap, 1500) != NULL); \
        rt_##X##_free(heap, block); \
        EXPECT(rt_##X##_used(heap, 2, &used) == RT_OK && used.live_bytes >= 1500 && used.refused_live_bytes == 0); \
        EXPECT(rt_##X##_enter(heap, 1, NULL) == RT_OK); \
        for (int number = 0; number < 20; number++) block = rt_##X##_malloc(heap, 16); \
        EXPECT(block == NULL && rt_##X##_last_refusal(heap, NULL) == RT_QUOTA_OPERATIONS); \
        EXPECT(rt_##X##_used(heap, 1, &used) == RT_OK && used.operations >= 6 && used.refused_operations > 10); \
        EXPECT(rt_##X##_allocate(heap, 8, 16, &block) == RT_ERROR_QUOTA); \
        limits.live_bytes = 0; \
        EXPECT(rt_##X##_set_limits(heap, 1, &limits) == RT_OK && rt_##X##_malloc(heap, 16) == NULL); \
        EXPECT(rt_##X##_begin_period(heap) == RT_OK && rt_##X##_malloc(heap, 16) != NULL); \
        EXPECT(!rt_##X##_tick(heap, 1000)); \
        EXPECT(rt_##X##_used(heap, RT_COMPONENTS, &used) == RT_ERROR_OUT_OF_RANGE); \
        EXPECT(rt_##X##_enter(NULL, 0, NULL) == RT_ERROR_NULL && rt_##X##_used(heap, 0, NULL) == RT_ERROR_NULL); \
        EXPECT(rt_##X##_check(heap, NULL) == RT_OK); \
    }

RATIONS(quota_tlsf)
RATIONS(debug_tlsf)

// The ring contains the last operations.
#define RECORDS(X) \
    static void X##_records(void) { \
        subject = #X; \
        rt_##X *heap = rt_##X##_init(memory, HEAP_BYTES); \
        const void *start = NULL; \
        size_t bytes = 0; \
        EXPECT(rt_##X##_recorded(heap) == 0); \
        void *block = rt_##X##_malloc(heap, 100); \
        EXPECT(rt_##X##_mark(heap, 77) == RT_OK && rt_##X##_recorded(heap) == 2); \
        rt_##X##_free(heap, block); \
        EXPECT(rt_##X##_ring(heap, &start, &bytes) == RT_OK); \
        EXPECT(bytes == 128 + 257 * 4 * sizeof(size_t) && memcmp(start, "\x89rtalloc-ring\r\n", 16) == 0); \
        EXPECT((const unsigned char *) start >= memory && (const unsigned char *) start + bytes <= memory + HEAP_BYTES); \
        EXPECT(rt_##X##_ring(heap, NULL, &bytes) == RT_ERROR_NULL && rt_##X##_ring(NULL, &start, &bytes) == RT_ERROR_NULL); \
        EXPECT(rt_##X##_mark(NULL, 1) == RT_ERROR_NULL && rt_##X##_recorded(NULL) == 0); \
    }

RECORDS(traced_tlsf)
RECORDS(debug_tlsf)

static void configurations_are_judged(void) {
    subject = "configurations";
    rt_guarded_tlsf_config guarded = { 0, 12345 };
    rt_guarded_tlsf *guarded_heap = NULL;
    EXPECT(rt_guarded_tlsf_init_with(memory, HEAP_BYTES, &guarded, &guarded_heap) == RT_OK);
    rt_guarded_tlsf_free(guarded_heap, rt_guarded_tlsf_malloc(guarded_heap, 10));
    EXPECT(rt_guarded_tlsf_quarantined(guarded_heap) == 0);

    rt_failing_tlsf_config failing = { { RT_FAILURES_EVERY_NTH, 3, 0, 0 }, HEAP_BYTES / 2 };
    rt_failing_tlsf *failing_heap = NULL;
    EXPECT(rt_failing_tlsf_init_with(memory, HEAP_BYTES / 4, &failing, &failing_heap) == RT_OK);
    EXPECT(rt_failing_tlsf_add_region(failing_heap, memory, HEAP_BYTES / 8, NULL) == RT_ERROR_OVERLAP);
    EXPECT(rt_failing_tlsf_add_region(failing_heap, memory + HEAP_BYTES / 2, HEAP_BYTES / 2, NULL) == RT_OK);
    EXPECT(rt_failing_tlsf_malloc(failing_heap, 1) != NULL && rt_failing_tlsf_malloc(failing_heap, HEAP_BYTES / 3) != NULL);
    EXPECT(rt_failing_tlsf_malloc(failing_heap, 1) == NULL);
    failing.failures.plan = (rt_failure_plan) 5;
    EXPECT(rt_failing_tlsf_init_with(memory, HEAP_BYTES, &failing, &failing_heap) == RT_ERROR_CONFIGURATION);

    rt_quota_limits limits[2] = { { 0, 0, 0 }, { 100, 0, 0 } };
    rt_quota_tlsf_config quota = { limits, 2, 50 };
    rt_quota_tlsf *quota_heap = NULL;
    EXPECT(rt_quota_tlsf_init_with(memory, HEAP_BYTES, &quota, &quota_heap) == RT_OK);
    EXPECT(rt_quota_tlsf_malloc(quota_heap, 101) != NULL && rt_quota_tlsf_enter(quota_heap, 1, NULL) == RT_OK);
    EXPECT(rt_quota_tlsf_malloc(quota_heap, 101) == NULL && rt_quota_tlsf_malloc(quota_heap, 100) != NULL);
    EXPECT(!rt_quota_tlsf_tick(quota_heap, 49) && rt_quota_tlsf_tick(quota_heap, 50) && !rt_quota_tlsf_tick(quota_heap, 51));
    quota.components = RT_COMPONENTS + 1;
    EXPECT(rt_quota_tlsf_init_with(memory, HEAP_BYTES, &quota, &quota_heap) == RT_ERROR_CONFIGURATION);
    quota.components = 1;
    quota.limits = NULL;
    EXPECT(rt_quota_tlsf_init_with(memory, HEAP_BYTES, &quota, &quota_heap) == RT_ERROR_CONFIGURATION);

    rt_traced_tlsf_config traced = { 10, HEAP_BYTES / 2 };
    rt_traced_tlsf *traced_heap = NULL;
    const void *start = NULL;
    size_t bytes = 0;
    EXPECT(rt_traced_tlsf_init_with(memory, HEAP_BYTES / 4, &traced, &traced_heap) == RT_OK);
    EXPECT(rt_traced_tlsf_ring(traced_heap, &start, &bytes) == RT_OK && bytes == 128 + 11 * 4 * sizeof(size_t));
    EXPECT(rt_traced_tlsf_add_region(traced_heap, memory, HEAP_BYTES / 64, NULL) == RT_ERROR_OVERLAP);
    EXPECT(rt_traced_tlsf_add_region(traced_heap, memory + HEAP_BYTES / 2, HEAP_BYTES / 2, NULL) == RT_OK);
    EXPECT(rt_traced_tlsf_recorded(traced_heap) == 1);

    rt_debug_tlsf_config all = { 2, 0, { RT_FAILURES_NTH, 1, 0, 0 }, { limits, 2, 0 }, 10 };
    rt_debug_tlsf *debug_heap = NULL;
    EXPECT(rt_debug_tlsf_init_with(memory, HEAP_BYTES, &all, &debug_heap) == RT_OK);
    EXPECT(rt_debug_tlsf_malloc(debug_heap, 10) == NULL && rt_debug_tlsf_malloc(debug_heap, 10) != NULL);
    EXPECT(rt_debug_tlsf_failed(debug_heap) == 1 && rt_debug_tlsf_recorded(debug_heap) == 1);
    EXPECT(rt_debug_tlsf_enter(debug_heap, 1, NULL) == RT_OK && rt_debug_tlsf_malloc(debug_heap, 100) == NULL);
    EXPECT(rt_debug_tlsf_last_refusal(debug_heap, NULL) == RT_QUOTA_LIVE_BYTES);
    all.quota.components = 99;
    EXPECT(rt_debug_tlsf_init_with(memory, HEAP_BYTES, &all, &debug_heap) == RT_ERROR_CONFIGURATION && debug_heap == NULL);
}

// A block that is resized in place is a request like others; one that does not fit is not recorded.
static void resizes_in_place_are_requests(void) {
    subject = "resizes in place";
    rt_failing_tlsf *failing = rt_failing_tlsf_init(memory, HEAP_BYTES);
    rt_failures failures = { RT_FAILURES_NTH, 1, 0, 0 };
    void *block = rt_failing_tlsf_malloc(failing, 100);
    EXPECT(rt_failing_tlsf_arm(failing, &failures) == RT_OK);
    EXPECT(rt_failing_tlsf_realloc_in_place(failing, block, 50) == RT_OK && rt_failing_tlsf_requests(failing) == 0);
    EXPECT(rt_failing_tlsf_realloc_in_place(failing, block, 5000) == RT_ERROR_INJECTED);
    EXPECT(rt_failing_tlsf_realloc_in_place(failing, block, 5000) == RT_OK && rt_failing_tlsf_requests(failing) == 2);

    rt_quota_tlsf *quota = rt_quota_tlsf_init(memory, HEAP_BYTES);
    rt_quota_limits limits = { 150, 3, 0 };
    rt_quota_use used;
    block = rt_quota_tlsf_malloc(quota, 100);
    EXPECT(rt_quota_tlsf_set_limits(quota, 0, &limits) == RT_OK);
    EXPECT(rt_quota_tlsf_realloc_in_place(quota, block, 151) == RT_ERROR_QUOTA);
    EXPECT(rt_quota_tlsf_realloc_in_place(quota, block, 150) == RT_OK);
    EXPECT(rt_quota_tlsf_usable_size(quota, block) == 150);
    EXPECT(rt_quota_tlsf_used(quota, 0, &used) == RT_OK && used.live_bytes == 150 && used.operations == 2);
    limits.live_bytes = 0;
    EXPECT(rt_quota_tlsf_set_limits(quota, 0, &limits) == RT_OK && rt_quota_tlsf_malloc(quota, 100) != NULL);
    EXPECT(rt_quota_tlsf_realloc_in_place(quota, block, 20) == RT_ERROR_QUOTA);
    EXPECT(rt_quota_tlsf_begin_period(quota) == RT_OK);
    EXPECT(rt_quota_tlsf_realloc_in_place(quota, block, 5000) == RT_ERROR_NOT_IN_PLACE);
    EXPECT(rt_quota_tlsf_used(quota, 0, &used) == RT_OK && used.live_bytes == 250 && used.operations == 1);

    rt_traced_tlsf *traced = rt_traced_tlsf_init(memory, HEAP_BYTES);
    block = rt_traced_tlsf_malloc(traced, 100);
    EXPECT(rt_traced_tlsf_malloc(traced, 100) != NULL);
    EXPECT(rt_traced_tlsf_realloc_in_place(traced, block, 5000) == RT_ERROR_NOT_IN_PLACE);
    EXPECT(rt_traced_tlsf_recorded(traced) == 2);
    EXPECT(rt_traced_tlsf_realloc_in_place(traced, block, 50) == RT_OK && rt_traced_tlsf_recorded(traced) == 3);
}

void test_debug_heaps(void) {
    guarded_tlsf_distinguishes_misuse();
    debug_tlsf_distinguishes_misuse();
    failing_tlsf_fails_on_purpose();
    debug_tlsf_fails_on_purpose();
    quota_tlsf_keeps_components_apart();
    debug_tlsf_keeps_components_apart();
    traced_tlsf_records();
    debug_tlsf_records();
    configurations_are_judged();
    resizes_in_place_are_requests();
    printf("heaps for debugging\n");
}
