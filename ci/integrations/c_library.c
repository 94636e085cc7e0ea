// newlib or picolibc on integrations/c-library/malloc_rtalloc.c: the exercise, the functions that it does not know, and
// functions of the C library that allocate.

#include "board.h"
#include "exercise.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rtalloc.h>

size_t malloc_largest(void);
int posix_memalign(void **place, size_t align, size_t size);

static int misuses, locks, held;

#ifdef __PICOLIBC__
#include <sys/lock.h>
struct __lock { int unused; };
struct __lock __lock___libc_recursive_mutex;
void __retarget_lock_acquire_recursive(_LOCK_T lock) {
    (void)lock;
    locks++;
    held++;
}
void __retarget_lock_release_recursive(_LOCK_T lock) {
    (void)lock;
    held--;
}
#else
#include <reent.h>
void __malloc_lock(struct _reent *reent) {
    (void)reent;
    locks++;
    held++;
}
void __malloc_unlock(struct _reent *reent) {
    (void)reent;
    held--;
}
#endif

static void print_failure(int line) {
    held = 0;
    char text[80];
    snprintf(text, sizeof text, "c_library.c:%d failed\n", line);
    board_print(text);
    board_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : print_failure(__LINE__))

// The linker replaces memcpy by this one. Blocks are copied without the lock.
static int copies;
void *__real_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_memcpy(void *to, const void *from, size_t bytes) {
    EXPECT(held == 0);
    copies++;
    return __real_memcpy(to, from, bytes);
}

// Called by an operation of the heap, which must have the lock.
static void misused(const rt_misuse *misuse) {
    (void)misuse;
    EXPECT(held == 1);
    misuses++;
}

static size_t free_bytes(void) {
    return (size_t)mallinfo().fordblks;
}

static int ascending(const void *one, const void *other) {
    return *(const int *)one - *(const int *)other;
}

int main(void) {
    const struct heap heap = {
        .allocate = malloc,
        .zeroed = calloc,
        .resize = realloc,
        .aligned = memalign,
        .release = free,
        .largest = malloc_largest,
        .free_bytes = free_bytes,
        .align = 8,
        .has_empty_blocks = 1,
    };
    rt_set_misuse_hook(misused);
    free(NULL);
    const int line = exercise(&heap);
    char text[120];
    snprintf(text, sizeof text, "exercise.c:%d failed\n", line);
    if (line != 0)
        board_print(text);
    EXPECT(line == 0 && misuses == 0 && copies > 100);

    // Refusals set errno.
    errno = 0;
    EXPECT(malloc(SIZE_MAX / 2) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(calloc(SIZE_MAX, 2) == NULL && errno == ENOMEM);
    errno = 0;
    EXPECT(memalign(48, 8) == NULL && errno == EINVAL);
    errno = 0;
    void *block = malloc(10);
    EXPECT(realloc(block, SIZE_MAX / 2) == NULL && errno == ENOMEM);
    EXPECT(malloc_usable_size(block) >= 10 && malloc_usable_size(block) < 32);
    EXPECT(realloc(block, 0) == NULL);
    // Freed: a second free is misuse.
    EXPECT(misuses == 0);
    free(block);
    EXPECT(realloc(block, 20) == NULL && realloc(block, 500) == NULL && misuses == 3);
    EXPECT(realloc((void *)8, 20) == NULL && realloc((void *)8, 500) == NULL && misuses == 5);

    void *aligned = aligned_alloc(256, 100);
    EXPECT(aligned != NULL && (uintptr_t)aligned % 256 == 0);
    free(aligned);
    EXPECT(posix_memalign(&aligned, 128, 100) == 0 && (uintptr_t)aligned % 128 == 0);
    free(aligned);
    EXPECT(posix_memalign(&aligned, 3, 100) == EINVAL && posix_memalign(&aligned, 8, SIZE_MAX / 2) == ENOMEM);

    // What the C library allocates for itself comes from the heap.
    const size_t before = free_bytes();
    char *copy = strdup("a text that takes more than a hundred bytes, so that a count of bytes in the heap shows that "
                        "it is there and nowhere else");
    EXPECT(copy != NULL && free_bytes() + strlen(copy) < before);
    free(copy);
    int numbers[200];
    for (int at = 0; at < 200; at++)
        numbers[at] = (at * 7919) % 200;
    qsort(numbers, 200, sizeof numbers[0], ascending);
    for (int at = 0; at < 200; at++)
        EXPECT(numbers[at] == at);
    EXPECT(free_bytes() == before);
    const struct mallinfo info = mallinfo();
    EXPECT((size_t)info.keepcost == malloc_largest());
    EXPECT((size_t)info.uordblks + (size_t)info.fordblks == (size_t)info.arena);
    EXPECT(mallopt(M_TRIM_THRESHOLD, 1) == 0);

    EXPECT(locks > 5000 && held == 0);
    snprintf(text, sizeof text, "locks: %d, free bytes: %u, largest request: %u\n", locks, (unsigned)before,
             (unsigned)malloc_largest());
    board_print(text);
    return 0;
}
