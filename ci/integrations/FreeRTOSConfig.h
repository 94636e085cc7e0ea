// The configuration of FreeRTOS for the tests: its port for POSIX, and the one for a Cortex-M4.

#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

#include <stddef.h>

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configCPU_CLOCK_HZ 25000000
#define configTICK_RATE_HZ 100
#define configMAX_PRIORITIES 4
#define configMINIMAL_STACK_SIZE 256
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configUSE_IDLE_HOOK 0
#define configUSE_TICK_HOOK 0
#define configUSE_MALLOC_FAILED_HOOK 1
#define configUSE_MUTEXES 1
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configSUPPORT_STATIC_ALLOCATION 0
#define INCLUDE_vTaskDelete 1
#define INCLUDE_vTaskDelay 1
// As many programs have it: a cast, which the preprocessor cannot evaluate.
#ifndef HEAP_BYTES
#define HEAP_BYTES 65535
#endif
#define configTOTAL_HEAP_SIZE ((size_t)(HEAP_BYTES))

#ifdef __arm__
#define configPRIO_BITS 3
#define configKERNEL_INTERRUPT_PRIORITY (7 << (8 - configPRIO_BITS))
#define configMAX_SYSCALL_INTERRUPT_PRIORITY (2 << (8 - configPRIO_BITS))
#define vPortSVCHandler vPortSVCHandler
#define configCHECK_HANDLER_INSTALLATION 0
#endif

// The lines of the book that print the heap's operations.
#ifdef HEAP_LOG
#include "heap_log.h"
// figures.c measures without the following, as products are shipped.
#elif !defined(FIGURES)
void failed_assertion(const char *file, int line);
#define configASSERT(condition) ((condition) ? (void)0 : failed_assertion(__FILE__, __LINE__))
void misused(void);
#define configRTALLOC_MISUSE(misuse) misused()
void trace_allocation(void *block, size_t bytes);
void trace_free(void *block, size_t bytes);
#define traceMALLOC(block, bytes) trace_allocation(block, bytes)
#define traceFREE(block, bytes) trace_free(block, bytes)
#endif

#endif
