// The memory of LVGL 9 on rtalloc: add this file to the program, and set LV_USE_STDLIB_MALLOC to LV_STDLIB_CUSTOM in
// lv_conf.h. README.md has the settings.
//
// lv_malloc and lv_free are O(1), and lv_realloc but for a copy if the block moves, which is made without the lock.
//
// Licence: MIT OR Apache-2.0.

#include "lvgl.h"

#if LV_USE_STDLIB_MALLOC != LV_STDLIB_CUSTOM
    #error "LV_USE_STDLIB_MALLOC is not LV_STDLIB_CUSTOM: leave this file out"
#endif

#include "src/osal/lv_os_private.h"
#include "src/stdlib/lv_mem_private.h"

#include <rtalloc.h>

// Bytes of LVGL's heap.
#ifndef RTALLOC_LV_BYTES
    #define RTALLOC_LV_BYTES (64 * 1024)
#endif
// Bytes of the largest pool that lv_mem_add_pool() adds later, if it is larger than the heap.
#ifndef RTALLOC_LV_POOL_BYTES
    #define RTALLOC_LV_POOL_BYTES 0
#endif

// The address of the heap's memory; without it, the memory is here.
#ifdef RTALLOC_LV_ADDRESS
    #define MEMORY ((void *)(RTALLOC_LV_ADDRESS))
#else
static unsigned char memory[RTALLOC_LV_BYTES] LV_ATTRIBUTE_LARGE_RAM_ARRAY;
    #define MEMORY ((void *)memory)
#endif

#if LV_USE_OS
static lv_mutex_t mutex;
    #define LOCK() lv_mutex_lock(&mutex)
    #define UNLOCK() lv_mutex_unlock(&mutex)
#else
    #define LOCK() ((void)0)
    #define UNLOCK() ((void)0)
#endif

// NULL while LVGL is not initialised.
static rt_tlsf *heap;

// The declaration of what LVGL has no function for.
size_t lv_mem_largest(void);

void lv_mem_init(void) {
    const rt_heap_config config = {.max_region_bytes = RTALLOC_LV_POOL_BYTES};
#if LV_USE_OS
    lv_mutex_init(&mutex);
#endif
    if (rt_tlsf_init_with(MEMORY, RTALLOC_LV_BYTES, &config, &heap) != RT_OK)
        LV_LOG_ERROR("RTALLOC_LV_BYTES is too small");
}

void lv_mem_deinit(void) {
    heap = NULL;
#if LV_USE_OS
    lv_mutex_delete(&mutex);
#endif
}

// A pool must have a higher address than the heap.
lv_mem_pool_t lv_mem_add_pool(void *mem, size_t bytes) {
    rt_region region = 0;
    LOCK();
    const rt_error error = rt_tlsf_add_region(heap, mem, bytes, &region);
    UNLOCK();
    if (error != RT_OK) {
        LV_LOG_WARN("no pool at %p: %s", mem, rt_strerror(error));
        return NULL;
    }
    return (lv_mem_pool_t)region;
}

void lv_mem_remove_pool(lv_mem_pool_t pool) {
    LOCK();
    const rt_error error = rt_tlsf_remove_region(heap, (rt_region)pool);
    UNLOCK();
    if (error != RT_OK)
        LV_LOG_WARN("the pool is not removed: %s", rt_strerror(error));
}

void *lv_malloc_core(size_t size) {
    LOCK();
    void *block = rt_tlsf_malloc(heap, size);
    UNLOCK();
    return block;
}

void lv_free_core(void *p) {
    LOCK();
    rt_tlsf_free(heap, p);
    UNLOCK();
}

void *lv_realloc_core(void *p, size_t new_size) {
    if (p == NULL)
        return lv_malloc_core(new_size);
    LOCK();
    const rt_error error = rt_tlsf_realloc_in_place(heap, p, new_size);
    UNLOCK();
    if (error != RT_ERROR_NOT_IN_PLACE)
        return error == RT_OK ? p : NULL;
    void *block = lv_malloc_core(new_size);
    if (block != NULL) {
        // The size needs no lock: while a block is live, only a flag of its tag changes, by an atomic store.
        lv_memcpy(block, p, rt_tlsf_usable_size(heap, p));
        lv_free_core(p);
    }
    return block;
}

static void count(const rt_block *block, void *context) {
    lv_mem_monitor_t *monitor = context;
    monitor->total_size += block->size_bytes;
    if (block->is_free) {
        monitor->free_cnt++;
        monitor->free_size += block->size_bytes;
    } else {
        monitor->used_cnt++;
    }
}

// `free_biggest_size` is the largest request that succeeds now. O(blocks).
void lv_mem_monitor_core(lv_mem_monitor_t *mon_p) {
    rt_stats stats = {0};
    LOCK();
    (void)rt_tlsf_walk(heap, count, mon_p);
    (void)rt_tlsf_stats(heap, &stats);
    UNLOCK();
    mon_p->free_biggest_size = stats.largest_free_bytes;
    mon_p->max_used = stats.peak_live_bytes;
    if (mon_p->total_size != 0)
        mon_p->used_pct = (uint8_t)(100 - (uint64_t)mon_p->free_size * 100 / mon_p->total_size);
    if (mon_p->free_size != 0)
        mon_p->frag_pct = (uint8_t)(100 - (uint64_t)mon_p->free_biggest_size * 100 / mon_p->free_size);
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t lv_mem_largest(void) {
    LOCK();
    const size_t largest = rt_tlsf_largest(heap);
    UNLOCK();
    return largest;
}

lv_result_t lv_mem_test_core(void) {
    rt_corruption where = {0};
    LOCK();
    const rt_error error = rt_tlsf_check(heap, &where);
    UNLOCK();
    if (error == RT_OK)
        return LV_RESULT_OK;
    LV_LOG_WARN("at %p: %s", where.address, error == RT_ERROR_CORRUPTION ? where.invariant : rt_strerror(error));
    return LV_RESULT_INVALID;
}
