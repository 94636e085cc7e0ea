// The functions of integrations/esp-idf, zephyr and nuttx, without these systems: the exercise, and what it does not
// know.

#include "board.h"
#include "exercise.h"

#include <multi_heap.h>
#include <zephyr/sys/sys_heap.h>
#include <nuttx/mm/mm.h>
#include <nuttx/mutex.h>

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rtalloc.h>

// Each heap begins at an odd address, and nothing around it changes.
enum { BYTES = 100000 };
static unsigned char memory[3][BYTES + 64];
static int misuses;
// The lock of the heap that is exercised: how often it is held.
static const int *held;

static void fail(int line) {
    printf("systems.c:%d failed\n", line);
    board_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__))

// The linker replaces memcpy by this one. Blocks are copied without the lock.
static int copies;
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    EXPECT(held == NULL || *held == 0);
    copies++;
    return __real_memcpy(to, from, bytes);
}

static void misused(const rt_misuse *misuse) {
    (void)misuse;
    misuses++;
}

static void exercised(const struct heap *heap, const int *lock) {
    held = lock;
    copies = 0;
    const int line = exercise(heap);
    if (line != 0)
        printf("exercise.c:%d failed\n", line);
    EXPECT(line == 0 && misuses == 0);
    void *block = heap->allocate(100);
    heap->release(block);
    heap->release(block);
    EXPECT(misuses == 1);
    block = heap->allocate(100);
    EXPECT(heap->resize(block, 0) == NULL);
    heap->release(block);
    EXPECT(misuses == 2);
    EXPECT(lock == NULL || copies > 100);
    // A block grows where it is if it can, without a copy.
    block = heap->allocate(100);
    void *after = heap->allocate(100), *last = heap->allocate(100);
    copies = 0;
    heap->release(after);
    EXPECT(heap->resize(block, 150) == block && copies == 0);
    void *moved = heap->resize(block, 500);
    EXPECT(moved != NULL && moved != block && (lock == NULL || copies == 1));
    // What is not a live block is reported once, and not copied.
    copies = 0;
    EXPECT(heap->resize(block, 50) == NULL && heap->resize(block, 1000) == NULL && misuses == 4);
    EXPECT(heap->resize((void *)8, 50) == NULL && heap->resize((void *)8, 1000) == NULL && misuses == 6);
    EXPECT(copies == 0);
    heap->release(moved);
    heap->release(last);
    misuses = 0;
    held = NULL;
}

static multi_heap_handle_t multi;
static void *multi_allocate(size_t size) { return multi_heap_malloc(multi, size); }
static void *multi_resize(void *block, size_t size) { return multi_heap_realloc(multi, block, size); }
static void *multi_aligned(size_t align, size_t size) { return multi_heap_aligned_alloc(multi, size, align); }
static void multi_release(void *block) { multi_heap_free(multi, block); }
static size_t multi_largest(void) { return multi_heap_largest(multi); }
static size_t multi_free(void) { return multi_heap_free_size(multi); }

static bool first_only(void *block, size_t size, int used, void *user_data) {
    (void)block;
    (void)size;
    (void)used;
    ++*(int *)user_data;
    return false;
}

static void esp_idf(unsigned char *start) {
    int lock = 0, visits = 0;
    multi_heap_info_t info;
    EXPECT(multi_heap_register(start, 20) == NULL && multi_heap_malloc(NULL, 1) == NULL);
    multi = multi_heap_register(start, BYTES);
    EXPECT(multi != NULL);
    multi_heap_set_lock(multi, &lock);
    exercised(&(struct heap){.allocate = multi_allocate, .resize = multi_resize, .aligned = multi_aligned,
        .release = multi_release, .largest = multi_largest, .free_bytes = multi_free,
        .align = _Alignof(max_align_t)}, &lock);
    void *block[3];
    for (int at = 0; at < 3; at++)
        block[at] = multi_heap_malloc(multi, 100);
    multi_heap_free(multi, block[1]);
    multi_heap_get_info(multi, &info);
    EXPECT(info.free_blocks == 2 && info.allocated_blocks == 2 && info.total_blocks == 4);
    EXPECT(info.largest_free_block == multi_largest() && info.total_free_bytes == multi_free());
    const size_t minimum = multi_heap_reset_minimum_free_bytes(multi);
    EXPECT(minimum == info.minimum_free_bytes && multi_heap_minimum_free_size(multi) == multi_free());
    multi_heap_restore_minimum_free_bytes(multi, multi_free() + 1);
    EXPECT(multi_heap_minimum_free_size(multi) == multi_free());
    multi_heap_restore_minimum_free_bytes(multi, minimum);
    EXPECT(info.minimum_free_bytes == multi_heap_minimum_free_size(multi) && info.minimum_free_bytes < 3000);
    EXPECT(multi_heap_get_allocated_size(multi, block[0]) >= 100 && multi_heap_check(multi, true));
    multi_heap_walk(multi, first_only, &visits);
    EXPECT(visits == 1 && lock == 0);
    void *aligned = multi_heap_aligned_alloc_offs(multi, 100, 256, 0);
    EXPECT(aligned != NULL && (uintptr_t)aligned % 256 == 0);
    multi_heap_free(multi, aligned);
    EXPECT(multi_heap_aligned_alloc_offs(multi, 100, 256, 8) == NULL);
    memset(block[0], 255, 120);
    EXPECT(!multi_heap_check(multi, false));
}

static struct sys_heap sys;
static void *sys_allocate(size_t size) { return sys_heap_alloc(&sys, size); }
static void *sys_resize(void *block, size_t size) { return sys_heap_realloc(&sys, block, size); }
static void *sys_aligned(size_t align, size_t size) { return sys_heap_aligned_alloc(&sys, align, size); }
static void sys_release(void *block) { sys_heap_free(&sys, block); }
static size_t sys_largest(void) { return sys_heap_largest(&sys); }
static size_t sys_free(void) {
    struct sys_memory_stats stats;
    EXPECT(sys_heap_runtime_stats_get(&sys, &stats) == 0);
    return stats.free_bytes;
}

static void zephyr(unsigned char *start) {
    struct sys_memory_stats stats;
    sys_heap_init(&sys, start, 20);
    EXPECT(sys_heap_alloc(&sys, 1) == NULL && sys_heap_largest(&sys) == 0);
    EXPECT(sys_heap_runtime_stats_get(&sys, &stats) == -EINVAL && sys_heap_runtime_stats_reset_max(&sys) == -EINVAL);
    sys_heap_init(&sys, start, BYTES);
    exercised(&(struct heap){.allocate = sys_allocate, .resize = sys_resize, .aligned = sys_aligned,
        .release = sys_release, .largest = sys_largest, .free_bytes = sys_free, .align = _Alignof(max_align_t)},
        NULL);
    EXPECT(sys_heap_runtime_stats_get(&sys, &stats) == 0);
    EXPECT(stats.allocated_bytes == 0 && stats.max_allocated_bytes > 90000);
    EXPECT(sys_heap_runtime_stats_reset_max(&sys) == 0);
    void *block = sys_heap_alloc(&sys, 100);
    EXPECT(sys_heap_usable_size(&sys, block) >= 100);
    EXPECT(sys_heap_runtime_stats_get(&sys, &stats) == 0);
    EXPECT(stats.allocated_bytes == stats.max_allocated_bytes && stats.allocated_bytes < 130);
    EXPECT(sys_heap_aligned_alloc(&sys, 64 + 8, 10) == NULL);
    block = sys_heap_aligned_realloc(&sys, block, 256, 300);
    EXPECT(block != NULL && (uintptr_t)block % 256 == 0);
    EXPECT(sys_heap_validate(&sys));
    memset(block, 255, 320);
    EXPECT(!sys_heap_validate(&sys));
}

static struct mm_heap_s *mm;
static void *mm_allocate(size_t size) { return mm_malloc(mm, size); }
static void *mm_zeroed(size_t count, size_t size) { return mm_calloc(mm, count, size); }
static void *mm_resize(void *block, size_t size) { return mm_realloc(mm, block, size); }
static void *mm_aligned(size_t align, size_t size) { return mm_memalign(mm, align, size); }
static void mm_release(void *block) { mm_free(mm, block); }
static size_t mm_most(void) { return mm_largest(mm); }
static size_t mm_free_bytes(void) {
    const struct mallinfo info = mm_mallinfo(mm);
    EXPECT((size_t)info.mxordblk == mm_largest(mm));
    EXPECT(info.arena == info.uordblks + info.fordblks);
    return (size_t)info.fordblks;
}

static void nuttx(unsigned char *start) {
    EXPECT(mm_initialize("heap", start, 20) == NULL);
    mm = mm_initialize("heap", start, BYTES / 2);
    EXPECT(mm != NULL);
    exercised(&(struct heap){.allocate = mm_allocate, .zeroed = mm_zeroed, .resize = mm_resize, .aligned = mm_aligned,
        .release = mm_release, .largest = mm_most, .free_bytes = mm_free_bytes,
        .align = _Alignof(max_align_t), .has_empty_blocks = 1}, &((mutex_t *)mm)->is_locked);
    const size_t before = mm_free_bytes();
    EXPECT(!mm_heapmember(mm, start + BYTES - 1));
    // Larger than was planned, then not.
    mm_addregion(mm, start + BYTES / 2, BYTES / 2);
    EXPECT(mm_free_bytes() == before && !mm_heapmember(mm, start + BYTES - 1));
    mm_addregion(mm, start + BYTES / 2 + 5000, BYTES / 2 - 5000);
    EXPECT(mm_free_bytes() > before + BYTES / 2 - 5100 && mm_heapmember(mm, start + BYTES - 1));
    void *block = mm_malloc(mm, 100);
    EXPECT(mm_heapmember(mm, block) && mm_malloc_size(mm, block) >= 100);
    mm_free(mm, block);
    mm_uninitialize(mm);
}

int main(void) {
    rt_set_misuse_hook(misused);
    memset(memory, 77, sizeof memory);
    esp_idf(memory[0] + 3);
    zephyr(memory[1] + 5);
    nuttx(memory[2] + 1);
    for (int heap = 0; heap < 3; heap++) {
        const int start = (int[]){3, 5, 1}[heap];
        for (int at = 0; at < start; at++)
            EXPECT(memory[heap][at] == 77);
        for (int at = start + BYTES; at < BYTES + 64; at++)
            EXPECT(memory[heap][at] == 77);
    }
    printf("largest requests: %zu, %zu, %zu\n", multi_largest(), sys_largest(), mm_most());
    return 0;
}
