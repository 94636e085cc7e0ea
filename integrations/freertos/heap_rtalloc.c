// The heap of FreeRTOS on rtalloc: build this file instead of heap_4.c or heap_5.c. README.md has the settings.
//
// pvPortMalloc(), vPortFree() and the counts are O(1). Each critical section has one operation of rtalloc and a few
// counts: no loop, no copy and no clearing of memory is inside. Only the
// first request has loops: it makes the heap.
//
// Licence: MIT OR Apache-2.0.

#include <string.h>

#include <rtalloc.h>

// As in every heap of FreeRTOS: this file calls the kernel, not the wrappers of a port with a memory protection unit.
#define MPU_WRAPPERS_INCLUDED_FROM_API_FILE
#include "FreeRTOS.h"
#include "task.h"
#undef MPU_WRAPPERS_INCLUDED_FROM_API_FILE

#if (configSUPPORT_DYNAMIC_ALLOCATION == 0)
    #error "configSUPPORT_DYNAMIC_ALLOCATION is 0: leave this file out"
#endif
#ifndef configHEAP_CLEAR_MEMORY_ON_FREE
    #define configHEAP_CLEAR_MEMORY_ON_FREE 0
#endif
// 1: the program defines the memory by vPortDefineHeapRegions(), as with heap_5.
#ifndef configRTALLOC_REGIONS
    #define configRTALLOC_REGIONS 0
#endif
// 1: operations suspend the scheduler instead, as in heap_4. xTaskResumeAll() masks interrupts for its own work.
#ifndef configRTALLOC_SUSPEND_SCHEDULER
    #define configRTALLOC_SUSPEND_SCHEDULER 0
#endif
// Called in the critical section with the `rt_misuse` of a block that is not live.
#ifndef configRTALLOC_MISUSE
    #define configRTALLOC_MISUSE(pxMisuse) configASSERT((pxMisuse) == NULL)
#endif

#if (configRTALLOC_SUSPEND_SCHEDULER == 1)
    #define heapENTER() vTaskSuspendAll()
    #define heapEXIT() ((void)xTaskResumeAll())
#else
    #define heapENTER() taskENTER_CRITICAL()
    #define heapEXIT() taskEXIT_CRITICAL()
#endif

// heapCALL(verb, (arguments)) calls rt_HEAP_verb of rtalloc.h.
#ifdef configRTALLOC_HEAP
    #define heapJOINED(xHeap, verb) rt_##xHeap##_##verb
    #define heapNAMED(xHeap, verb) heapJOINED(xHeap, verb)
    #define heapCALL(verb, arguments) heapNAMED(configRTALLOC_HEAP, verb) arguments
    #define heapHEADER_BYTES (heapCALL(contract, ())->header_bytes)
#else
    // A constant: only the code of one heap is linked.
    #if (configRTALLOC_REGIONS == 1)
        #define heapIS_SMALL 0
    #else
        #define heapIS_SMALL (configTOTAL_HEAP_SIZE <= 65535)
    #endif
    #define heapCALL(verb, arguments) \
        (heapIS_SMALL ? rt_tlsf_small_##verb arguments : rt_tlsf_no_stats_##verb arguments)
    // Of their contracts, which need not be linked then.
    #define heapHEADER_BYTES ((size_t)(heapIS_SMALL ? 2 : 4))
#endif
// Both heaps align every block to this.
#define heapALIGNMENT 8

#if (configRTALLOC_REGIONS == 0)
    #if (configAPPLICATION_ALLOCATED_HEAP == 1)
extern uint8_t ucHeap[configTOTAL_HEAP_SIZE];
    #else
PRIVILEGED_DATA static uint8_t ucHeap[configTOTAL_HEAP_SIZE];
    #endif
#endif

// NULL before it has memory.
PRIVILEGED_DATA static void *pvHeap = NULL;
// The memory is between these addresses, with gaps if there are several regions.
PRIVILEGED_DATA static uint8_t *pucLowest = NULL, *pucEnd = NULL;
// The bytes of all free blocks, headers included, now and at the fewest.
PRIVILEGED_DATA static size_t xFreeBytes = 0, xMinimumEverFreeBytes = 0;
PRIVILEGED_DATA static size_t xSuccessfulAllocations = 0, xSuccessfulFrees = 0, xMisuses = 0;

static void prvMisuse(const rt_misuse *pxMisuse) {
    (void)pxMisuse;
    xMisuses++;
    configRTALLOC_MISUSE(pxMisuse);
}

// Counts a block in the HeapStats_t at `pvStats` if it is free.
static void prvCountFree(const rt_block *pxBlock, void *pvStats) {
    HeapStats_t *pxStats = pvStats;
    if (pxBlock->is_free) {
        pxStats->xNumberOfFreeBlocks++;
        pxStats->xAvailableHeapSpaceInBytes += pxBlock->size_bytes;
        if (pxBlock->usable_bytes < pxStats->xSizeOfSmallestFreeBlockInBytes)
            pxStats->xSizeOfSmallestFreeBlockInBytes = pxBlock->usable_bytes;
    }
}

// Passes all blocks to prvCountFree().
static void prvWalk(HeapStats_t *pxStats) {
    memset(pxStats, 0, sizeof *pxStats);
    pxStats->xSizeOfSmallestFreeBlockInBytes = SIZE_MAX;
    (void)heapCALL(walk, (pvHeap, prvCountFree, pxStats));
}

// The heap has memory: starts the counts.
static void prvStart(uint8_t *pucStart, uint8_t *pucAfter) {
    HeapStats_t xStats;
    prvWalk(&xStats);
    pucLowest = pucStart;
    pucEnd = pucAfter;
    xFreeBytes = xMinimumEverFreeBytes = xStats.xAvailableHeapSpaceInBytes;
    rt_set_misuse_hook(prvMisuse);
}

// The bytes that a live block takes, header included; 0 for an address outside the memory, which is not read.
static size_t prvTaken(const uint8_t *pucBlock) {
    if (pucBlock < pucLowest || pucBlock >= pucEnd)
        return 0;
    return heapCALL(usable_size, (pvHeap, pucBlock)) + heapHEADER_BYTES;
}

// Counts and traces a new block. In the critical section.
static inline void prvCountAllocation(void *pv) {
    size_t xBytes = 0;
    if (pv != NULL) {
        xBytes = prvTaken(pv);
        xFreeBytes -= xBytes;
        if (xFreeBytes < xMinimumEverFreeBytes)
            xMinimumEverFreeBytes = xFreeBytes;
        xSuccessfulAllocations++;
    }
    (void)xBytes;
    traceMALLOC(pv, xBytes);
}

#if (configHEAP_CLEAR_MEMORY_ON_FREE == 1)
// Checks the tags of a block. Returns its usable bytes, or 0 if it is not live, which is reported. In the critical
// section.
static size_t prvCheck(void *pv) {
    const size_t xBefore = prvTaken(pv);
    // A block that keeps its size is live. Any size will do for one that is not.
    size_t xBytes = xBefore - heapHEADER_BYTES;
    if (xBefore <= heapHEADER_BYTES || xBytes > (size_t)(pucEnd - (uint8_t *)pv))
        xBytes = 1;
    if (heapCALL(realloc, (pvHeap, pv, xBytes)) == NULL)
        return 0;
    xBytes = prvTaken(pv);
    if (xBytes != xBefore) {
        // It has taken the free bytes after it, which are too few to be split off: a gap for alignment.
        traceFREE(pv, xBefore);
        xFreeBytes -= xBytes - xBefore;
        if (xFreeBytes < xMinimumEverFreeBytes)
            xMinimumEverFreeBytes = xFreeBytes;
        traceMALLOC(pv, xBytes);
    }
    return xBytes - heapHEADER_BYTES;
}
#endif

// Allocates a block of the port's alignment. In the critical section.
static void *prvAllocate(size_t xWantedSize) {
    void *pv;
#if (portBYTE_ALIGNMENT > heapALIGNMENT)
    pv = heapCALL(aligned_alloc, (pvHeap, portBYTE_ALIGNMENT, xWantedSize));
#else
    pv = heapCALL(malloc, (pvHeap, xWantedSize));
#endif
    prvCountAllocation(pv);
    return pv;
}

// After an allocation and the critical section.
static void *prvAllocated(void *pv) {
#if (configUSE_MALLOC_FAILED_HOOK == 1)
    if (pv == NULL)
        vApplicationMallocFailedHook();
#endif
    return pv;
}

#if (configRTALLOC_REGIONS == 1)

void vPortInitialiseBlocks(void) {
}

void vPortDefineHeapRegions(const HeapRegion_t *const pxHeapRegions) {
    // The control structure, in the first region, is sized for the largest one.
    rt_heap_config xConfig = {.max_region_bytes = 0};
    const HeapRegion_t *pxRegion = pxHeapRegions;
    void *pvMade = NULL;
    rt_error xError;

    configASSERT(pvHeap == NULL);
    for (; pxRegion->xSizeInBytes > 0; pxRegion++)
        if (pxRegion != pxHeapRegions && pxRegion->xSizeInBytes > xConfig.max_region_bytes)
            xConfig.max_region_bytes = pxRegion->xSizeInBytes;
    pxRegion = pxHeapRegions;
    xError = heapCALL(init_with, (pxRegion->pucStartAddress, pxRegion->xSizeInBytes, &xConfig, (void *)&pvMade));
    pvHeap = pvMade;
    for (pxRegion++; xError == RT_OK && pxRegion->xSizeInBytes > 0; pxRegion++) {
        // In address order, as in heap_5: the last region has the highest address.
        configASSERT(pxRegion->pucStartAddress > pxRegion[-1].pucStartAddress);
        xError = heapCALL(add_region, (pvHeap, pxRegion->pucStartAddress, pxRegion->xSizeInBytes, NULL));
    }
    configASSERT(xError == RT_OK);
    if (pvHeap != NULL)
        prvStart(pxHeapRegions->pucStartAddress, pxRegion[-1].pucStartAddress + pxRegion[-1].xSizeInBytes);
}

#else

void vPortInitialiseBlocks(void) {
    heapENTER();
    if (pvHeap == NULL) {
        void *pvMade = NULL;
        (void)heapCALL(init_with, (ucHeap, configTOTAL_HEAP_SIZE, NULL, (void *)&pvMade));
        configASSERT(pvMade != NULL);
        pvHeap = pvMade;
        if (pvHeap != NULL)
            prvStart(ucHeap, ucHeap + configTOTAL_HEAP_SIZE);
    }
    heapEXIT();
}

#endif

void *pvPortMalloc(size_t xWantedSize) {
    void *pv;
    if (pvHeap == NULL)
        vPortInitialiseBlocks();
    heapENTER();
    pv = prvAllocate(xWantedSize);
    heapEXIT();
    return prvAllocated(pv);
}

void *pvPortCalloc(size_t xNum, size_t xSize) {
    // A product that overflows is a request that no heap can serve.
    const size_t xBytes = xSize != 0 && xNum > SIZE_MAX / xSize ? SIZE_MAX : xNum * xSize;
    void *pv = pvPortMalloc(xBytes);
    if (pv != NULL)
        memset(pv, 0, xBytes);
    return pv;
}

void vPortFree(void *pv) {
    size_t xBytes, xMisusesBefore;
    if (pv == NULL || pvHeap == NULL)
        return;
#if (configHEAP_CLEAR_MEMORY_ON_FREE == 1)
    heapENTER();
    xMisusesBefore = xMisuses;
    xBytes = prvCheck(pv);
    heapEXIT();
    if (xMisuses != xMisusesBefore)
        return;
    memset(pv, 0, xBytes);
#endif
    heapENTER();
    xMisusesBefore = xMisuses;
    xBytes = prvTaken(pv);
    heapCALL(free, (pvHeap, pv));
    if (xMisuses == xMisusesBefore) {
        traceFREE(pv, xBytes);
        xFreeBytes += xBytes;
        xSuccessfulFrees++;
    }
    heapEXIT();
}

// Resizes a block, and keeps its content up to the smaller size. NULL if there is no memory, or if `pv` is not a live
// block: nothing changes then. A `pv` of NULL allocates; a size of 0 frees the block and returns NULL.
// A block that must move is copied outside the critical section: nothing else may write it meanwhile.
void *pvPortRealloc(void *pv, size_t xWantedSize) {
    size_t xBytes;
    rt_error xError;
    void *pvMoved;
    if (pv == NULL)
        return pvPortMalloc(xWantedSize);
    if (xWantedSize == 0) {
        vPortFree(pv);
        return NULL;
    }
    heapENTER();
    xBytes = prvTaken(pv);
    xError = heapCALL(realloc_in_place, (pvHeap, pv, xWantedSize));
    if (xError == RT_OK) {
        traceFREE(pv, xBytes);
        xFreeBytes += xBytes;
        xSuccessfulFrees++;
        prvCountAllocation(pv);
    }
    heapEXIT();
    if (xError != RT_ERROR_NOT_IN_PLACE)
        return xError == RT_OK ? pv : NULL;
    pvMoved = pvPortMalloc(xWantedSize);
    if (pvMoved != NULL) {
        memcpy(pvMoved, pv, xBytes - heapHEADER_BYTES);
        vPortFree(pv);
    }
    return pvMoved;
}

size_t xPortGetFreeHeapSize(void) {
    return xFreeBytes;
}

size_t xPortGetMinimumEverFreeHeapSize(void) {
    return xMinimumEverFreeBytes;
}

void xPortResetHeapMinimumEverFreeHeapSize(void) {
    heapENTER();
    xMinimumEverFreeBytes = xFreeBytes;
    heapEXIT();
}

// The largest request that succeeds now; 0 if none does. O(1). Exact if portBYTE_ALIGNMENT is at most 8, otherwise at
// most two alignments too small.
size_t xPortGetLargestAllocatableSize(void) {
    size_t xLargest;
    heapENTER();
    xLargest = heapCALL(largest, (pvHeap));
    heapEXIT();
#if (portBYTE_ALIGNMENT > heapALIGNMENT)
    xLargest -= xLargest < 2 * portBYTE_ALIGNMENT ? xLargest : 2 * portBYTE_ALIGNMENT;
#endif
    return xLargest;
}

// The largest free block is the largest request that succeeds now. The smallest block and the number of blocks take a
// walk, O(blocks), with the scheduler suspended and interrupts on.
void vPortGetHeapStats(HeapStats_t *pxHeapStats) {
    vTaskSuspendAll();
    prvWalk(pxHeapStats);
    pxHeapStats->xSizeOfLargestFreeBlockInBytes = xPortGetLargestAllocatableSize();
    pxHeapStats->xMinimumEverFreeBytesRemaining = xMinimumEverFreeBytes;
    pxHeapStats->xNumberOfSuccessfulAllocations = xSuccessfulAllocations;
    pxHeapStats->xNumberOfSuccessfulFrees = xSuccessfulFrees;
    (void)xTaskResumeAll();
}

void vPortHeapResetState(void) {
    pvHeap = NULL;
    pucLowest = pucEnd = NULL;
    xFreeBytes = xMinimumEverFreeBytes = 0;
    xSuccessfulAllocations = xSuccessfulFrees = xMisuses = 0;
}
