/* Commits one misuse on one heap, in its own process, and prints the result.
 *
 *     misuse HEAP MISUSE
 *
 * prints one line:
 *
 *     reported KIND        the hook was called
 *     refused              the request returned NULL and changed nothing
 *     checked              only rt_X_check detects it
 *     harmless             no report and no harm: every byte of the heap was allocated again, none twice
 *     damaged              no report, but a live block was overwritten or allocated again, or a block outside the region
 *                          was returned
 *
 * followed by ", damaged" or ", checked" if the heap did not survive the reported misuse. The caller detects the end by
 * a signal. "misuse" alone lists the misuses, and the heaps that check a freed block: of the others nothing is known
 * after a misuse.
 *
 * With PRELOADED defined, it misuses malloc of any library, which then reports by itself. The only heap is "malloc".
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGION_BYTES = 64 * 1024, SIZE = 48, MOST = 8192, KEPT = 0x22 };

#ifdef PRELOADED

typedef enum { RT_OK } rt_error;
typedef struct {
    const void *address;
} rt_corruption;

#include <malloc.h>

static void *program_init(void *region, size_t bytes) {
    (void)bytes;
    return region;
}

static void *program_get(void *program, size_t size) {
    (void)program;
    return malloc(size);
}

static void *program_get_zeros(void *program, size_t count, size_t size) {
    (void)program;
    return calloc(count, size);
}

static void *program_resize(void *program, void *block, size_t size) {
    (void)program;
    return realloc(block, size);
}

static void program_give(void *program, void *block) {
    (void)program;
    free(block);
}

static size_t program_usable(const void *program, const void *block) {
    (void)program;
    return malloc_usable_size((void *)block);
}

static rt_error program_check(const void *program, rt_corruption *where) {
    (void)program;
    (void)where;
    return RT_OK;
}

typedef struct {
    const char *name;
    void *(*init)(void *region, size_t bytes);
    void *(*get)(void *heap, size_t size);
    void *(*get_zeros)(void *heap, size_t count, size_t size);
    void *(*resize)(void *heap, void *block, size_t size);
    void (*give)(void *heap, void *block);
    size_t (*usable)(const void *heap, const void *block);
    rt_error (*check)(const void *heap, rt_corruption *where);
} heap_type;

static const heap_type types[] = {
    {"malloc", program_init, program_get, program_get_zeros, program_resize, program_give, program_usable, program_check},
};

static bool is_checked(const heap_type *one) {
    (void)one;
    return true;
}

#else

#include "heap_types.h"

static bool is_checked(const heap_type *one) {
    return one->contract() == NULL || one->contract()->detects_double_free;
}

#endif

static _Alignas(64) unsigned char here[REGION_BYTES];

static const heap_type *type;
static void *heap;
static bool reported;
static const char *kind;

#ifndef PRELOADED
static void hook(const rt_misuse *misuse) {
    if (!reported) {
        kind = rt_misuse_name(misuse->kind);
    }
    reported = true;
}
#endif

/* Live blocks around the misused block, which must stay intact. */
static unsigned char *kept[3];

static unsigned char *allocated(size_t size) {
    unsigned char *block = type->get(heap, size);
    if (block == NULL) {
        fputs("the heap is too small for this test\n", stderr);
        exit(2);
    }
    return block;
}

/* Three live blocks, with the misused block between them. */
static unsigned char *victim(void) {
    kept[0] = allocated(SIZE);
    unsigned char *block = allocated(SIZE);
    kept[1] = allocated(SIZE);
    kept[2] = allocated(SIZE);
    for (size_t place = 0; place < 3; place++) {
        memset(kept[place], KEPT, SIZE);
    }
    memset(block, 0x11, SIZE);
    return block;
}

static void free_twice(void) {
    unsigned char *block = victim();
    type->give(heap, block);
    type->give(heap, block);
}

/* Its neighbour is free, too, and may have coalesced with it. */
static void free_twice_later(void) {
    unsigned char *block = victim();
    unsigned char *neighbour = kept[1];
    kept[1] = NULL;
    type->give(heap, block);
    type->give(heap, neighbour);
    type->give(heap, block);
}

/* A live block was freed, whether or not it is allocated again before this program ends. */
static bool lost;

/* Its memory now belongs to another block. */
static void free_twice_after_reuse(void) {
    unsigned char *block = victim();
    type->give(heap, block);
    kept[1] = allocated(SIZE);
    for (int more = 0; kept[1] != block && more < 64; more++) {
        kept[1] = allocated(SIZE);
    }
    memset(kept[1], KEPT, SIZE);
    type->give(heap, block);
    lost = kept[1] == block && !reported;
}

static void free_an_invalid_pointer(void) {
    static _Alignas(16) unsigned char variable[64];
    victim();
    type->give(heap, variable + 16);
}

static void free_the_interior(void) {
    unsigned char *block = victim();
    type->give(heap, block + 16);
}

#ifndef PRELOADED
static _Alignas(64) unsigned char elsewhere[REGION_BYTES];

static void free_in_another_heap(void) {
    void *other = type->init(elsewhere, sizeof elsewhere);
    if (other == NULL) {
        exit(2);
    }
    type->give(heap, type->get(other, SIZE));
}
#endif

static void free_what_was_resized_away(void) {
    unsigned char *block = victim();
    unsigned char *moved = type->resize(heap, block, 10 * SIZE);
    if (moved == NULL || moved == block) {
        fputs("the block stayed\n", stderr);
        exit(2);
    }
    type->give(heap, block);
}

/* Writes bytes that differ from the present ones. */
static void spoil(unsigned char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at++) {
        from[at] ^= 0x5A;
    }
}

/* After the requested size; blocks are often larger. */
static void write_after_the_request(void) {
    unsigned char *block = victim();
    unsigned char *short_one = allocated(SIZE - 7);
    spoil(short_one + SIZE - 7, 1);
    type->give(heap, short_one);
    type->give(heap, block);
}

/* After the usable size. */
static void write_after_the_block(void) {
    unsigned char *block = victim();
    spoil(block + type->usable(heap, block), 1);
    type->give(heap, block);
}

static void write_before_the_block(void) {
    unsigned char *block = victim();
    spoil(block - 1, 1);
    type->give(heap, block);
}

static void write_what_was_freed(void) {
    unsigned char *block = victim();
    type->give(heap, block);
    spoil(block, 16);
}

static bool refused;

static void ask_for_too_much(void) {
    unsigned char *block = victim();
    refused = type->get(heap, SIZE_MAX) == NULL && type->get(heap, SIZE_MAX - 15) == NULL &&
              type->get_zeros(heap, SIZE_MAX / 2 + 2, 2) == NULL && type->resize(heap, block, SIZE_MAX - 1) == NULL &&
              block[0] == 0x11;
    type->give(heap, block);
}

static const struct {
    const char *name;
    void (*commit)(void);
} misuses[] = {
    {"double free", free_twice},
    {"double free, its neighbour freed between", free_twice_later},
    {"double free, its memory live again", free_twice_after_reuse},
    {"free of what realloc moved", free_what_was_resized_away},
    {"free of another variable", free_an_invalid_pointer},
#ifndef PRELOADED
    {"free of another heap's block", free_in_another_heap},
#endif
    {"free of an interior pointer", free_the_interior},
    {"overrun by one, of the request", write_after_the_request},
    {"overrun by one, of the block", write_after_the_block},
    {"underrun by one", write_before_the_block},
    {"write after free", write_what_was_freed},
    {"size that overflows", ask_for_too_much},
};

typedef struct {
    unsigned char *at;
    size_t bytes;
} extent;

static int by_address(const void *one, const void *other) {
    const unsigned char *left = ((const extent *)one)->at;
    const unsigned char *right = ((const extent *)other)->at;
    return (left > right) - (left < right);
}

/* Checks the live blocks, allocates all free memory, and checks that no block overlaps another or lies outside the
 * region. */
static bool is_whole(void) {
    static extent live[MOST];
    size_t count = 0;
    for (size_t place = 0; place < 3; place++) {
        if (kept[place] != NULL) {
            for (size_t at = 0; at < SIZE; at++) {
                if (kept[place][at] != KEPT) {
                    return false;
                }
            }
            live[count++] = (extent){kept[place], SIZE};
        }
    }
    for (size_t size = 512; size >= 16; size /= 2) {
        unsigned char *block;
        while (count < MOST && (block = type->get(heap, size)) != NULL) {
#ifndef PRELOADED
            if (block < here || block + size > here + sizeof here) {
                return false;
            }
#endif
            live[count++] = (extent){block, size};
        }
    }
    qsort(live, count, sizeof live[0], by_address);
    for (size_t place = 1; place < count; place++) {
        if (live[place - 1].at + live[place - 1].bytes > live[place].at) {
            return false;
        }
    }
#ifdef PRELOADED
    return true;
#else
    return count < MOST;
#endif
}

int main(int count, char **words) {
    size_t misuse = 0;
    if (count == 1) {
        for (size_t place = 0; place < sizeof types / sizeof types[0]; place++) {
            if (is_checked(&types[place])) {
                printf("heap %s\n", types[place].name);
            }
        }
        for (size_t place = 0; place < sizeof misuses / sizeof misuses[0]; place++) {
            printf("misuse %s\n", misuses[place].name);
        }
        return 0;
    }
    for (size_t place = 0; place < sizeof types / sizeof types[0]; place++) {
        if (count == 3 && strcmp(words[1], types[place].name) == 0) {
            type = &types[place];
        }
    }
    while (misuse < sizeof misuses / sizeof misuses[0] && count == 3 && strcmp(words[2], misuses[misuse].name) != 0) {
        misuse++;
    }
    if (type == NULL || misuse == sizeof misuses / sizeof misuses[0]) {
        fputs("usage: misuse [HEAP MISUSE]; without arguments it lists both\n", stderr);
        return 2;
    }

    heap = type->init(here, sizeof here);
    if (heap == NULL) {
        fputs("no heap\n", stderr);
        return 2;
    }
#ifndef PRELOADED
    rt_set_misuse_hook(hook);
#endif
    misuses[misuse].commit();

    rt_corruption where;
    rt_error found = type->check(heap, &where);
    bool is_immediate = reported;
    bool whole = found != RT_OK || (is_whole() && !lost);
    const char *separator = "";
    if (is_immediate || reported) {
        /* Detected by is_whole: late, but detected. */
        printf("reported %s%s", kind, is_immediate ? "" : ", later");
        separator = ", ";
    } else if (refused) {
        printf("refused");
        separator = ", ";
    }
    if (found != RT_OK) {
        printf("%schecked", separator);
    } else if (!whole) {
        printf("%sdamaged", separator);
    } else if (*separator == '\0') {
        printf("harmless");
    }
    putchar('\n');
    return 0;
}
