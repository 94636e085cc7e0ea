// The kernel of FreeRTOS on its own heap_4, which prints its operations with the lines of the book. The last line has
// the counts that the imported trace must have.

#include "board.h"

#include "FreeRTOS.h"
#include "queue.h"
#include "task.h"

#include <stdio.h>
#include <stdlib.h>

void vApplicationMallocFailedHook(void) {}

static void child(void *unused) {
    (void)unused;
    vTaskDelete(NULL);
}

static void work(void *unused) {
    void *blocks[16] = {NULL};
    unsigned state = 1;
    HeapStats_t stats;
    char text[120];
    (void)unused;
    QueueHandle_t queue = xQueueCreate(8, 20);
    for (int round = 0; round < 500; round++) {
        state = state * 1664525 + 1013904223;
        void **block = &blocks[state >> 28];
        vPortFree(*block);
        *block = pvPortMalloc(1 + (state >> 12) % 900);
        if (round % 100 == 0)
            (void)xTaskCreate(child, "child", configMINIMAL_STACK_SIZE, NULL, 2, NULL);
    }
    vQueueDelete(queue);
    // A request that no heap serves.
    if (pvPortMalloc(configTOTAL_HEAP_SIZE) != NULL)
        board_exit(1);
    vTaskDelay(2);
    vPortGetHeapStats(&stats);
    snprintf(text, sizeof text, "counts: %u %u\n", (unsigned)stats.xNumberOfSuccessfulAllocations,
             (unsigned)stats.xNumberOfSuccessfulFrees);
    board_print(text);
    board_exit(0);
}

int main(void) {
    if (xTaskCreate(work, "work", 4 * configMINIMAL_STACK_SIZE, NULL, 1, NULL) != pdPASS)
        return 1;
    vTaskStartScheduler();
    return 1;
}
