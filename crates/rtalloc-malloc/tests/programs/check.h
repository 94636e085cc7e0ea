// Assertions and helpers of all test programs.
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { \
    fprintf(stderr, "%s:%d: failed: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); _exit(1); } } while (0)

// Hides a value from the compiler, which could otherwise remove calls of malloc.
static inline size_t hidden(size_t value) { __asm__ volatile("" : "+r"(value)); return value; }
static inline void *seen(void *block) { __asm__ volatile("" : "+r"(block) : : "memory"); return block; }

// Ends a process that is deadlocked. The time is long because processes also wait on a busy machine.
static inline void end_if_blocked(void) { alarm(600); }

static inline void fill(void *block, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++) ((unsigned char *)block)[i] = (unsigned char)(seed + i * 7);
}
static inline int holds(const void *block, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++) if (((const unsigned char *)block)[i] != (unsigned char)(seed + i * 7)) return 0;
    return 1;
}
#endif
