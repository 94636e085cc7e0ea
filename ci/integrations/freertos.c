// The kernel of FreeRTOS on integrations/freertos/heap_rtalloc.c: tasks that pass blocks to each other, tasks that come
// and go, then the exercise, misuse and the statistics.

#include "board.h"
#include "exercise.h"

#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"

#include <stdio.h>
#include <string.h>

#include <rtalloc.h>

// Those of heap_rtalloc.c that FreeRTOS does not declare.
void *pvPortRealloc(void *block, size_t size);
size_t xPortGetLargestAllocatableSize(void);

enum { WORKERS = 3, ROUNDS = 300 };

static QueueHandle_t queues[WORKERS];
static volatile int done, children;
static size_t traced_bytes;
static int traced_blocks, misuses, refusals;

static void fail(const char *file, int line) {
    char text[120];
    snprintf(text, sizeof text, "%s:%d failed\n", file, line);
    board_print(text);
    board_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__))

void failed_assertion(const char *file, int line) {
    fail(file, line);
}

void misused(void) {
    misuses++;
}

void vApplicationMallocFailedHook(void) {
    refusals++;
}

// Called in the heap's critical section.
void trace_allocation(void *block, size_t bytes) {
    EXPECT((block == NULL) == (bytes == 0));
    traced_bytes += bytes;
    traced_blocks += block != NULL;
}

void trace_free(void *block, size_t bytes) {
    EXPECT(block != NULL && bytes != 0);
    traced_bytes -= bytes;
    traced_blocks--;
}

#if (configAPPLICATION_ALLOCATED_HEAP == 1)
uint8_t ucHeap[configTOTAL_HEAP_SIZE];
#endif
#if (configRTALLOC_REGIONS == 1)
static uint8_t memory[400000];
// The first is smaller than the others, and one begins at an odd address.
static const HeapRegion_t regions[] = {
    {memory, 8000}, {memory + 10001, 200000}, {memory + 250000, 150000}, {NULL, 0},
};
#endif

static void give_memory(void) {
#if (configRTALLOC_REGIONS == 1)
    vPortDefineHeapRegions(regions);
#else
    vPortInitialiseBlocks();
#endif
}

static unsigned next(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void child(void *unused) {
    (void)unused;
    taskENTER_CRITICAL();
    children++;
    taskEXIT_CRITICAL();
    vTaskDelete(NULL);
}

// A block begins with its size, and is filled with the low byte of it.
static void verify(unsigned char *block) {
    size_t size;
    memcpy(&size, block, sizeof size);
    EXPECT(size >= sizeof size && size <= 400);
    for (size_t at = sizeof size; at < size; at++)
        EXPECT(block[at] == (unsigned char)size);
}

static void worker(void *argument) {
    const size_t self = (size_t)argument;
    unsigned state = 77 + (unsigned)self;
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = sizeof size + next(&state) % 390;
        unsigned char *block = pvPortMalloc(size);
        EXPECT(block != NULL);
        memset(block, (int)(size & 255), size);
        if (round % 3 == 0) {
            const size_t resized = sizeof size + next(&state) % 390;
            block = pvPortRealloc(block, resized);
            EXPECT(block != NULL);
            for (size_t at = 0; at < (size < resized ? size : resized); at++)
                EXPECT(block[at] == (unsigned char)size);
            memset(block, (int)(resized & 255), resized);
            size = resized;
        }
        memcpy(block, &size, sizeof size);
        // Another task frees it.
        if (xQueueSend(queues[next(&state) % WORKERS], &block, 0) != pdTRUE) {
            verify(block);
            vPortFree(block);
        }
        while (xQueueReceive(queues[self], &block, 0) == pdTRUE) {
            verify(block);
            vPortFree(block);
        }
        // The idle task frees the memory of tasks that ended.
        while (xPortGetFreeHeapSize() < 16000)
            vTaskDelay(1);
        if (round % 16 == 0)
            EXPECT(xTaskCreate(child, "child", configMINIMAL_STACK_SIZE, NULL, 1, NULL) == pdPASS);
        if (round % 8 == 0)
            vTaskDelay(1);
        else if (round % 4 == 0)
            taskYIELD();
    }
    taskENTER_CRITICAL();
    done++;
    taskEXIT_CRITICAL();
    vTaskDelete(NULL);
}

static void tasks(void) {
    const size_t free_bytes = xPortGetFreeHeapSize(), largest = xPortGetLargestAllocatableSize();
    unsigned char *block;
    for (size_t at = 0; at < WORKERS; at++)
        EXPECT((queues[at] = xQueueCreate(8, sizeof(void *))) != NULL);
    for (size_t at = 0; at < WORKERS; at++)
        EXPECT(xTaskCreate(worker, "worker", configMINIMAL_STACK_SIZE, (void *)at, 2, NULL) == pdPASS);
    while (done < WORKERS)
        vTaskDelay(1);
    for (size_t at = 0; at < WORKERS; at++) {
        while (xQueueReceive(queues[at], &block, 0) == pdTRUE) {
            verify(block);
            vPortFree(block);
        }
        vQueueDelete(queues[at]);
    }
    // The idle task frees what the deleted tasks had.
    for (int wait = 0; wait < 100 && xPortGetFreeHeapSize() != free_bytes; wait++)
        vTaskDelay(1);
    EXPECT(children == WORKERS * ((ROUNDS + 15) / 16));
    EXPECT(xPortGetFreeHeapSize() == free_bytes && xPortGetLargestAllocatableSize() == largest);
}

static void misuse(void) {
    static unsigned char foreign[64];
    const size_t free_bytes = xPortGetFreeHeapSize();
    const int blocks = traced_blocks;
    void *block = pvPortMalloc(100), *after = pvPortMalloc(100);
    misuses = 0;
    vPortFree(block);
    // A block that is free already, and an address where none begins.
    vPortFree(block);
    vPortFree(foreign + 32);
    EXPECT(misuses == 2);
    EXPECT(pvPortRealloc(block, 10) == NULL && pvPortRealloc(block, 500) == NULL && misuses == 4);
    EXPECT(pvPortRealloc(foreign + 32, 500) == NULL && misuses == 5);
    // The middle of a live block, and a block whose memory coalesced with that before it.
    vPortFree((unsigned char *)after + 4);
    EXPECT(misuses == 6);
    vPortFree(after);
    vPortFree(after);
    EXPECT(misuses == 7);
    // Statistics count none of this.
    EXPECT(xPortGetFreeHeapSize() == free_bytes && traced_blocks == blocks);
}

static void statistics(void) {
    HeapStats_t before, after;
    void *block[3];
    vPortGetHeapStats(&before);
    for (int at = 0; at < 3; at++)
        EXPECT((block[at] = pvPortMalloc(200)) != NULL);
    vPortFree(block[1]);
    vPortGetHeapStats(&after);
#if (portBYTE_ALIGNMENT == 8)
    // There are no gaps for alignment.
    EXPECT(after.xNumberOfFreeBlocks == before.xNumberOfFreeBlocks + 1);
    EXPECT(after.xSizeOfSmallestFreeBlockInBytes >= 200 && after.xSizeOfSmallestFreeBlockInBytes < 256);
#endif
    EXPECT(after.xNumberOfSuccessfulAllocations == before.xNumberOfSuccessfulAllocations + 3);
    EXPECT(after.xNumberOfSuccessfulFrees == before.xNumberOfSuccessfulFrees + 1);
    EXPECT(after.xAvailableHeapSpaceInBytes == xPortGetFreeHeapSize());
    EXPECT(after.xAvailableHeapSpaceInBytes < before.xAvailableHeapSpaceInBytes - 400);
    EXPECT(after.xSizeOfLargestFreeBlockInBytes == xPortGetLargestAllocatableSize());
    EXPECT(after.xMinimumEverFreeBytesRemaining == xPortGetMinimumEverFreeHeapSize());
    // It was exhausted.
    EXPECT(xPortGetMinimumEverFreeHeapSize() < 3000);
    vPortFree(block[0]);
    vPortFree(block[2]);
    vPortGetHeapStats(&after);
    EXPECT(after.xNumberOfFreeBlocks == before.xNumberOfFreeBlocks);
    EXPECT(after.xAvailableHeapSpaceInBytes == before.xAvailableHeapSpaceInBytes);
    xPortResetHeapMinimumEverFreeHeapSize();
    EXPECT(xPortGetMinimumEverFreeHeapSize() == xPortGetFreeHeapSize());
    block[0] = pvPortMalloc(1000);
    vPortFree(block[0]);
    EXPECT(xPortGetMinimumEverFreeHeapSize() + 1000 <= xPortGetFreeHeapSize());
#if (configHEAP_CLEAR_MEMORY_ON_FREE == 1)
    // The links of the free block are where its first bytes were.
    unsigned char *secret = pvPortMalloc(100);
    memset(secret, 77, 100);
    vPortFree(secret);
    for (int at = 16; at < 80; at++)
        EXPECT(secret[at] == 0);
#endif
    // A block grows where it is if there is no other room, and may then take everything.
    block[0] = pvPortMalloc(64);
    const size_t rest = xPortGetLargestAllocatableSize();
    block[1] = pvPortMalloc(rest);
    memset(block[0], 5, 64);
    block[2] = pvPortRealloc(block[1], rest - 500);
    EXPECT(block[2] == block[1]);
    block[2] = pvPortRealloc(block[1], rest - 8);
    EXPECT(block[2] == block[1]);
    vPortFree(block[1]);
    EXPECT(pvPortRealloc(block[0], 0) == NULL);
    EXPECT(xPortGetFreeHeapSize() == before.xAvailableHeapSpaceInBytes);
}

static void judge(void *unused) {
    const struct heap heap = {
        .allocate = pvPortMalloc,
        .zeroed = pvPortCalloc,
        .resize = pvPortRealloc,
        .release = vPortFree,
        .largest = xPortGetLargestAllocatableSize,
        .free_bytes = xPortGetFreeHeapSize,
        .align = portBYTE_ALIGNMENT,
        .slack = portBYTE_ALIGNMENT > 8 ? 4 * portBYTE_ALIGNMENT : 0,
    };
    char text[120];
    (void)unused;
    tasks();
    EXPECT(refusals == 0);
    const int line = exercise(&heap);
    snprintf(text, sizeof text, "exercise.c:%d failed\n", line);
    if (line != 0)
        board_print(text);
    EXPECT(line == 0 && misuses == 0);
    EXPECT(refusals >= 7);
    statistics();
    misuse();
    snprintf(text, sizeof text, "tasks: %d, free bytes: %u, largest request: %u\n", WORKERS + children + 1,
             (unsigned)xPortGetFreeHeapSize(), (unsigned)xPortGetLargestAllocatableSize());
    board_print(text);
    board_exit(0);
}

int main(void) {
    // Before there is memory.
    vPortFree(NULL);
    EXPECT(xPortGetFreeHeapSize() == 0 && xPortGetLargestAllocatableSize() == 0);
    give_memory();
    const size_t fresh = xPortGetFreeHeapSize();
    EXPECT(fresh > 8000 && xPortGetMinimumEverFreeHeapSize() == fresh);
    EXPECT(pvPortMalloc(1000) != NULL && xPortGetFreeHeapSize() < fresh - 1000);
    EXPECT(traced_bytes == fresh - xPortGetFreeHeapSize());
    vPortHeapResetState();
    traced_bytes = 0;
    traced_blocks = 0;
    give_memory();
    EXPECT(xPortGetFreeHeapSize() == fresh);
    EXPECT(xTaskCreate(judge, "judge", 4 * configMINIMAL_STACK_SIZE, NULL, 1, NULL) == pdPASS);
    vTaskStartScheduler();
    return 1;
}
