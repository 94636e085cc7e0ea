// Instructions of a heap's operations, and what its memory serves. Prints a line: the mean and the most of allocations,
// the same of frees, those of a request and of a free in a fragmented heap. With CONTROL, an expression: the bytes that
// are not free at first, and the blocks of 100 bytes that all of the memory serves.
//
// ALLOCATE and RELEASE are the functions of the heap. With STUB they do nothing: a program to subtract.

#include "board.h"

#include <stddef.h>
#include <stdlib.h>

#ifdef FREERTOS
#include "FreeRTOS.h"
#include "task.h"
#if (configAPPLICATION_ALLOCATED_HEAP == 1)
uint8_t ucHeap[configTOTAL_HEAP_SIZE];
#endif
void vApplicationMallocFailedHook(void) {
}
#elif defined(LVGL)
#include "lvgl.h"
#include "src/core/lv_global.h"
// What its memory needs of LVGL.
lv_global_t lv_global;
#ifdef CONTROL
static size_t lvgl_free(void) {
    lv_mem_monitor_t monitor;
    lv_mem_monitor(&monitor);
    return monitor.free_size;
}
#endif
#else
#include <malloc.h>
// newlib's malloc gets memory from this.
extern unsigned char __heap_start[], __heap_end[];
void *_sbrk(ptrdiff_t bytes) {
    static unsigned char *next = __heap_start;
    if (bytes > __heap_end - next)
        return (void *)-1;
    next += bytes;
    return next - bytes;
}
#endif

#ifdef STUB
__attribute__((noinline)) void *ALLOCATE(size_t size) {
    __asm__ volatile("");
    (void)size;
    return NULL;
}
__attribute__((noinline)) void RELEASE(void *block) {
    __asm__ volatile("");
    (void)block;
}
#endif

static void print_number(unsigned number) {
    char text[12], *at = text + sizeof text - 1;
    *at = '\0';
    *--at = ' ';
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    board_print(at);
}

#ifndef CONTROL
enum { BLOCKS = 128, OPERATIONS = 20000 };

struct counts {
    unsigned sum, most, count;
};

static void add(struct counts *counts, unsigned count) {
    counts->sum += count;
    counts->count++;
    if (count > counts->most)
        counts->most = count;
}

static __attribute__((noinline)) void *nothing(void *argument) {
    __asm__ volatile("bx lr");
    return argument;
}

// Calls a function, and returns what the timer counts. The same instructions are around every call, and no interrupt
// comes between.
__attribute__((naked)) static uint32_t timed(void *(*call)(void *), void *argument, void **result) {
    __asm__ volatile("push {r4, r5, r6, lr}\n mov r4, r2\n mov r3, r0\n mov r0, r1\n ldr r6, =0x40000004\n cpsid i\n"
                     "ldr r5, [r6]\n blx r3\n ldr r6, [r6]\n cpsie i\n str r0, [r4]\n subs r0, r5, r6\n"
                     "pop {r4, r5, r6, pc}\n .ltorg");
    (void)call;
    (void)argument;
    (void)result;
}

// Instructions of a call, from its first to its return; counts them if there is a place.
static unsigned instructions(struct counts *counts, void *(*call)(void *), void *argument, void **result) {
    void *unused;
    // That of `nothing` is one.
    const unsigned count = board_instructions(timed(call, argument, result), timed(nothing, NULL, &unused)) + 1;
    if (counts != NULL)
        add(counts, count);
    return count;
}

static unsigned allocation(struct counts *counts, size_t size, void **result) {
    return instructions(counts, (void *(*)(void *))(uintptr_t)ALLOCATE, (void *)size, result);
}

static unsigned release(struct counts *counts, void *block) {
    void *unused;
    return instructions(counts, (void *(*)(void *))(uintptr_t)RELEASE, block, &unused);
}

// Random requests of 1 to 512 bytes, up to BLOCKS of them live: those of ci/embedded_alloc without its alignments.
static void operations(void) {
    static void *blocks[BLOCKS];
    static struct counts allocations, frees;
    uint32_t random = 1;
    for (int count = 0; count < OPERATIONS; count++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        void **block = &blocks[random % BLOCKS];
        if (*block == NULL) {
            const size_t size = 1 + (random >> 8) % 512;
            allocation(&allocations, size, block);
            if (*block == NULL) {
                board_print("refused");
                board_exit(1);
            }
        } else {
            release(&frees, *block);
            *block = NULL;
        }
    }
    for (int at = 0; at < BLOCKS; at++)
        if (blocks[at] != NULL)
            RELEASE(blocks[at]);
    print_number((allocations.sum + allocations.count / 2) / allocations.count);
    print_number(allocations.most);
    print_number((frees.sum + frees.count / 2) / frees.count);
    print_number(frees.most);
}

// Of the blocks that fill the memory every second is free. Only a search can find that none is large enough for a
// request, unless the heap knows.
static void fragmented(void) {
    void **taken = NULL, **block;
    while ((block = ALLOCATE(24)) != NULL) {
        *block = taken;
        taken = block;
    }
    for (block = taken; block != NULL && *block != NULL; block = *block) {
        void **next = *block;
        *block = *next;
        RELEASE(next);
    }
    void *refused;
    const unsigned request = allocation(NULL, 100, &refused), free_of_last = release(NULL, taken);
    if (refused != NULL)
        board_print("not fragmented ");
    print_number(request);
    print_number(free_of_last);
}

#endif

static void figures(void) {
    board_start_timer();
#if defined(LVGL) && !defined(STUB)
    lv_mem_init();
#endif
    // The first request makes the heap.
    RELEASE(ALLOCATE(1));
#ifdef CONTROL
    print_number(CONTROL);
    unsigned served = 0;
    while (ALLOCATE(100) != NULL)
        served++;
    print_number(served);
#else
    operations();
    fragmented();
#endif
    board_print("\n");
    board_exit(0);
}

#ifdef FREERTOS
static void task(void *unused) {
    (void)unused;
    figures();
}

int main(void) {
#ifdef CONTROL
    // The kernel allocates, too.
    figures();
#endif
    xTaskCreate(task, "figures", 512, NULL, 1, NULL);
    vTaskStartScheduler();
    return 1;
}
#else
int main(void) {
    figures();
}
#endif
