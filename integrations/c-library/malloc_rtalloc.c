// malloc of newlib and picolibc on rtalloc: link this file, and the C library's own malloc is left out. README.md has
// the settings.
//
// malloc, free and their like are O(1), and calloc and realloc but for clearing and copying, which they do without the
// lock. The lock is newlib's __malloc_lock() or picolibc's __LIBC_LOCK(): a program with threads defines them as for
// the own malloc.
//
// Licence: MIT OR Apache-2.0.

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rtalloc.h>

// The memory: RTALLOC_HEAP_BYTES bytes of this file, or what is between two symbols of the linker script.
#ifdef RTALLOC_HEAP_BYTES
static unsigned char memory[RTALLOC_HEAP_BYTES] __attribute__((aligned(8)));
#define MEMORY memory
#define MEMORY_END (memory + sizeof memory)
#define IS_SMALL (RTALLOC_HEAP_BYTES <= 65535)
#else
#ifndef RTALLOC_HEAP_START
#define RTALLOC_HEAP_START __heap_start
#define RTALLOC_HEAP_END __heap_end
#endif
extern unsigned char RTALLOC_HEAP_START[], RTALLOC_HEAP_END[];
#define MEMORY RTALLOC_HEAP_START
#define MEMORY_END RTALLOC_HEAP_END
#define IS_SMALL 0
#endif

// CALL(verb, (arguments)) calls rt_HEAP_verb of rtalloc.h. IS_SMALL is a constant: one heap is linked.
#define CALL(verb, arguments) (IS_SMALL ? rt_tlsf_small_##verb arguments : rt_tlsf_##verb arguments)

#ifdef __PICOLIBC__
#include <sys/lock.h>
#define PARAMETERS(...) (__VA_ARGS__)
#define NO_PARAMETERS (void)
#define NAME(name) name
#define OWN(name, argument) name(argument)
#define LOCK() __LIBC_LOCK()
#define UNLOCK() __LIBC_UNLOCK()
#define FAIL(number) (errno = (number))
#else
#include <reent.h>
#define PARAMETERS(...) (struct _reent *reent, __VA_ARGS__)
#define NO_PARAMETERS (struct _reent *reent)
#define NAME(name) _##name##_r
#define OWN(name, argument) _##name##_r(reent, argument)
#define LOCK() __malloc_lock(reent)
#define UNLOCK() __malloc_unlock(reent)
#define FAIL(number) (__errno_r(reent) = (number))
#ifndef __errno_r
#define __errno_r(reent) ((reent)->_errno)
#endif
#endif

// NULL before the first request. Accessed with the lock.
static void *heap;

// Not inlined: the bound of malloc is that of a heap that has been made, and this function has loops.
__attribute__((noinline)) static void make_heap(void) {
    void *made = NULL;
    (void)CALL(init_with, (MEMORY, (size_t)(MEMORY_END - MEMORY), NULL, (void *)&made));
    heap = made;
}

// With the lock held. A request for 0 bytes gets a block of its own, as in the C library.
static void *allocate(size_t align, size_t size) {
    if (heap == NULL)
        make_heap();
    size += size == 0;
    return align == 0 ? CALL(malloc, (heap, size)) : CALL(aligned_alloc, (heap, align, size));
}

void *NAME(malloc) PARAMETERS(size_t size) {
    LOCK();
    void *block = allocate(0, size);
    UNLOCK();
    if (block == NULL)
        FAIL(ENOMEM);
    return block;
}

// An alignment must be a power of two.
void *NAME(memalign) PARAMETERS(size_t align, size_t size) {
    LOCK();
    void *block = allocate(align == 0 ? 1 : align, size);
    UNLOCK();
    if (block == NULL)
        FAIL(align & (align - 1) ? EINVAL : ENOMEM);
    return block;
}

void *NAME(calloc) PARAMETERS(size_t count, size_t size) {
    // A product that overflows is a request that no heap can serve.
    const size_t bytes = size != 0 && count > SIZE_MAX / size ? SIZE_MAX : count * size;
    LOCK();
    void *block = allocate(0, bytes);
    UNLOCK();
    if (block == NULL)
        FAIL(ENOMEM);
    else
        memset(block, 0, bytes);
    return block;
}

void NAME(free) PARAMETERS(void *block) {
    if (block == NULL)
        return;
    LOCK();
    CALL(free, (heap, block));
    UNLOCK();
}

// A size of 0 frees the block.
void *NAME(realloc) PARAMETERS(void *block, size_t size) {
    if (block == NULL)
        return OWN(malloc, size);
    if (size == 0) {
        OWN(free, block);
        return NULL;
    }
    LOCK();
    const rt_error error = CALL(realloc_in_place, (heap, block, size));
    UNLOCK();
    if (error == RT_OK)
        return block;
    void *moved = error == RT_ERROR_NOT_IN_PLACE ? OWN(malloc, size) : NULL;
    if (moved == NULL) {
        FAIL(ENOMEM);
        return NULL;
    }
    memcpy(moved, block, OWN(malloc_usable_size, block));
    OWN(free, block);
    return moved;
}

// Needs no lock: while a block is live, only a flag of its tag changes, by an atomic store.
size_t NAME(malloc_usable_size) PARAMETERS(void *block) {
#ifndef __PICOLIBC__
    (void)reent;
#endif
    return CALL(usable_size, (heap, block));
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t NAME(malloc_largest) NO_PARAMETERS {
    LOCK();
    if (heap == NULL)
        make_heap();
    const size_t largest = CALL(largest, (heap));
    UNLOCK();
    return largest;
}

static void count_free(const rt_block *block, void *context) {
    struct mallinfo *info = context;
    if (block->is_free) {
        info->ordblks++;
        info->fordblks += block->size_bytes;
    }
}

// `keepcost` is the largest request that succeeds now. O(blocks), with the lock held.
struct mallinfo NAME(mallinfo) NO_PARAMETERS {
    struct mallinfo info = {0};
    LOCK();
    if (heap == NULL)
        make_heap();
    (void)CALL(walk, (heap, count_free, &info));
    info.arena = (size_t)(MEMORY_END - MEMORY);
    info.uordblks = info.arena - info.fordblks;
    info.keepcost = CALL(largest, (heap));
    UNLOCK();
    return info;
}

// newlib's aligned_alloc calls it, but newlib has none.
int posix_memalign(void **place, size_t align, size_t size) {
#ifndef __PICOLIBC__
    struct _reent *reent = _REENT;
#endif
    if (align < sizeof(void *) || (align & (align - 1)) != 0)
        return EINVAL;
    LOCK();
    void *block = allocate(align, size);
    UNLOCK();
    if (block == NULL)
        return ENOMEM;
    *place = block;
    return 0;
}

// Nothing can be set.
int NAME(mallopt) PARAMETERS(int parameter, int value) {
#ifndef __PICOLIBC__
    (void)reent;
#endif
    (void)parameter;
    (void)value;
    return 0;
}

#ifdef __PICOLIBC__

void *aligned_alloc(size_t align, size_t size) {
    return memalign(align, size);
}

void *valloc(size_t size) {
    return memalign(4096, size);
}

void *pvalloc(size_t size) {
    return memalign(4096, size > SIZE_MAX - 4095 ? SIZE_MAX : (size + 4095) & ~(size_t)4095);
}

void cfree(void *block) {
    free(block);
}

void malloc_stats(void) {
    const struct mallinfo info = mallinfo();
    printf("memory: %zu\nused: %zu\nfree: %zu\nlargest request: %zu\n", (size_t)info.arena, (size_t)info.uordblks,
           (size_t)info.fordblks, (size_t)info.keepcost);
}

#else

void *_valloc_r(struct _reent *reent, size_t size) {
    return _memalign_r(reent, 4096, size);
}

void *_pvalloc_r(struct _reent *reent, size_t size) {
    return _memalign_r(reent, 4096, size > SIZE_MAX - 4095 ? SIZE_MAX : (size + 4095) & ~(size_t)4095);
}

void cfree(void *block) {
    _free_r(_REENT, block);
}

// The memory is never returned.
int _malloc_trim_r(struct _reent *reent, size_t pad) {
    (void)reent;
    (void)pad;
    return 0;
}

// The largest request that succeeds now; 0 if none does. O(1).
size_t malloc_largest(void) {
    return _malloc_largest_r(_REENT);
}

void _malloc_stats_r(struct _reent *reent) {
    const struct mallinfo info = _mallinfo_r(reent);
    fprintf(stderr, "memory: %lu\nused: %lu\nfree: %lu\nlargest request: %lu\n", (unsigned long)info.arena,
            (unsigned long)info.uordblks, (unsigned long)info.fordblks, (unsigned long)info.keepcost);
}

#endif
