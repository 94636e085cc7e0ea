// What the lines of the book need of ESP-IDF's header of this name.

#ifndef MINIMAL_ESP_HEAP_TRACE_H
#define MINIMAL_ESP_HEAP_TRACE_H

#include <stddef.h>

typedef struct {
    void *address;
    size_t size;
} heap_trace_record_t;

typedef enum { HEAP_TRACE_ALL, HEAP_TRACE_LEAKS } heap_trace_mode_t;

int heap_trace_init_standalone(heap_trace_record_t *records, size_t count);
int heap_trace_start(heap_trace_mode_t mode);
int heap_trace_stop(void);
void heap_trace_dump(void);

#endif
