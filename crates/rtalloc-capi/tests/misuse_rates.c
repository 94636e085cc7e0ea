/* Commits random misuses on random states of a heap, and counts the outcomes.
 *
 *     misuse_rates HEAP TRIALS
 *
 * prints one line for each misuse:
 *
 *     MISUSE: TRIALS REPORTED CRASHED OVERLAPPED CHECKED UNSEEN
 *
 * and before them, as 0 or 1, the guarantees of its contract:
 *
 *     promises: DOUBLE_FREE STALE_POINTERS OVERWRITTEN_TAGS
 *
 * Each trial creates a heap, brings it into a random state, commits the misuse, and continues to use the heap like an
 * unaware program: 200 requests and frees, then a free of everything. The first of these outcomes counts:
 *
 *     reported     the hook was called
 *     crashed      a signal inside the allocator, or it did not return
 *     overlapped   it allocated memory that is already live or outside its region
 *     checked      none of these, but rt_X_check detected it, immediately after the misuse or at the end
 *     unseen       none of these
 *
 * A misuse that is impossible in the heap (for example, no free block ever follows a live one) has no trials. The
 * generator has a fixed seed and the region a fixed address, so every run has the same counts. "misuse_rates" alone
 * lists the heaps.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "heap_types.h"

enum { REGION_BYTES = 64 * 1024, MOST = 160, STEPS = 200, LARGEST = 600, HANG_MICROSECONDS = 10000 };

/* The region, in the middle of inaccessible memory that 32-bit offsets cannot leave; with 32-bit pointers, of less. */
#if UINTPTR_MAX > UINT32_MAX
static unsigned char *const reserve = (unsigned char *)(uintptr_t)0x100000000000;
static const size_t reserve_bytes = (size_t)16 << 30;
#else
static unsigned char *const reserve = (unsigned char *)(uintptr_t)0x40000000;
static const size_t reserve_bytes = (size_t)1 << 28;
#endif
static unsigned char *region;
/* Another heap of the same type, for foreign blocks. */
static unsigned char *elsewhere;

static uint64_t state;

/* The next number of a generator by Steele, Lea and Flood (SplitMix64, 2014). */
static uint64_t drawn(void) {
    uint64_t word = state += 0x9E3779B97F4A7C15u;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
    word = (word ^ word >> 27) * 0x94D049BB133111EBu;
    return word ^ word >> 31;
}

static size_t below(size_t bound) { return (size_t)(drawn() % bound); }

static const heap_type *type;
static void *heap;
static volatile sig_atomic_t reported;

static void hook(const rt_misuse *misuse) {
    (void)misuse;
    reported = 1;
}

typedef struct {
    unsigned char *at;
    size_t bytes;
} extent;

/* The live blocks: the owner map. */
static extent live[MOST];
static size_t count;
static bool overlapped;

static bool is_owned(const unsigned char *from, size_t bytes) {
    for (size_t place = 0; place < count; place++) {
        if (from < live[place].at + live[place].bytes && live[place].at < from + bytes) {
            return true;
        }
    }
    return false;
}

/* Fills a block with typical data: zeros, small numbers, text, addresses, noise. */
static void use(extent block) {
    uint64_t kind = drawn() % 5;
    for (size_t at = 0; at < block.bytes; at += 8) {
        uint64_t word = 0;
        switch (kind) {
        case 1: word = drawn() % 64; break;
        case 2: word = (drawn() & 0x0F0F0F0F0F0F0F0Fu) + 0x6161616161616161u; break;
        case 3: word = (uint64_t)(uintptr_t)region + (drawn() % REGION_BYTES & ~(uint64_t)7); break;
        case 4: word = drawn(); break;
        default: break;
        }
        memcpy(block.at + at, &word, block.bytes - at < 8 ? block.bytes - at : 8);
    }
}

static void allocate(void) {
    size_t size = 1 + below(below(4) == 0 ? LARGEST : 100);
    unsigned char *at = count < MOST ? type->get(heap, size) : NULL;
    if (at == NULL || reported) {
        return;
    }
    bool is_inside = at >= region && at + size <= region + REGION_BYTES;
    if (!is_inside || is_owned(at, size)) {
        overlapped = true;
        return;
    }
    /* A damaged size allows more, but the program uses only the requested size. */
    size_t usable = type->usable(heap, at);
    if (usable < size || at + usable > region + REGION_BYTES || is_owned(at, usable)) {
        usable = size;
    }
    live[count] = (extent){at, usable};
    use(live[count++]);
}

static void give_back(size_t place) {
    unsigned char *at = live[place].at;
    live[place] = live[--count];
    type->give(heap, at);
}

static bool is_over(void) { return reported || overlapped; }

static void step(void) {
    if (count == 0 || below(9) < 5) {
        allocate();
    } else {
        give_back(below(count));
    }
}

static void make_heap(size_t steps) {
    heap = type->init(region, REGION_BYTES);
    if (heap == NULL) {
        fprintf(stderr, "%s: no heap\n", type->name);
        exit(2);
    }
    count = 0;
    while (steps-- > 0) {
        step();
    }
}

/* The kind of block that follows another in the heap. */
typedef struct {
    const unsigned char *after;
    const unsigned char *next;
    bool is_free;
} neighbour;

static void find_next(const rt_block *block, void *context) {
    neighbour *found = context;
    const unsigned char *at = block->address;
    if (at > found->after && (found->next == NULL || at < found->next)) {
        found->next = at;
        found->is_free = block->is_free;
    }
}

static bool is_followed(size_t place, bool by_free) {
    neighbour found = {live[place].at, NULL, false};
    type->walk(heap, find_next, &found);
    return found.next != NULL && found.is_free == by_free;
}

/* Bytes that differ from the present ones. */
static bool spoil(unsigned char *from, size_t bytes) {
    if (from < region || from + bytes > region + REGION_BYTES) {
        return false;
    }
    unsigned char before[8];
    memcpy(before, from, bytes);
    while (memcmp(before, from, bytes) == 0) {
        uint64_t word = drawn();
        memcpy(from, &word, bytes);
    }
    return true;
}

/* In half of the trials the damaged block is freed next, in the others at its usual time. */
static bool damaged(size_t place, bool was_written) {
    if (was_written && below(2) == 0) {
        give_back(place);
    }
    return was_written;
}

/* A random live block before a block of this kind; MOST if there is none. */
static size_t victim_before(bool free) {
    size_t first = count == 0 ? 0 : below(count);
    for (size_t turn = 0; turn < count; turn++) {
        if (is_followed((first + turn) % count, free)) {
            return (first + turn) % count;
        }
    }
    return MOST;
}

static rt_corruption where;
static bool checked;

static void check_now(void) { checked = checked || type->check(heap, &where) != RT_OK; }

static bool overrun(bool by_free) {
    size_t place = victim_before(by_free);
    if (place == MOST || !spoil(live[place].at + live[place].bytes, 1)) {
        return false;
    }
    check_now();
    return damaged(place, true);
}

static bool overrun_live(void) { return overrun(false); }

static bool overrun_free(void) { return overrun(true); }

static bool underrun(void) {
    size_t place = below(count);
    if (!spoil(live[place].at - 1, 1)) {
        return false;
    }
    check_now();
    return damaged(place, true);
}

/* The element of an array of 64-bit words that does not fit, or fits only partially. */
static bool overrun_by_a_word(void) {
    size_t place = below(count);
    uintptr_t end = (uintptr_t)(live[place].at + live[place].bytes);
    if (!spoil((unsigned char *)(end & ~(uintptr_t)7), 8)) {
        return false;
    }
    check_now();
    return damaged(place, true);
}

static bool free_twice(void) {
    size_t place = below(count);
    extent block = live[place];
    give_back(place);
    for (size_t left = below(8); left > 0; left--) {
        step();
    }
    if (is_owned(block.at - 1, block.bytes + 1)) {
        return false;
    }
    type->give(heap, block.at);
    return true;
}

/* A word of a block that was freed; the memory may have become a part of a larger free block. */
static bool write_after_free(void) {
    size_t place = below(count);
    extent block = live[place];
    size_t word = block.bytes < 8 ? 0 : below(block.bytes / 8);
    give_back(place);
    for (size_t left = below(8); left > 0; left--) {
        step();
    }
    if (block.bytes < 8 || is_owned(block.at - 1, block.bytes + 1) || !spoil(block.at + 8 * word, 8)) {
        return false;
    }
    check_now();
    return true;
}

static bool free_the_interior(void) {
    size_t place = below(count);
    if (live[place].bytes < 9) {
        return false;
    }
    type->give(heap, live[place].at + 8 * (1 + below((live[place].bytes - 1) / 8)));
    return true;
}

static bool free_of_another_heap(void) {
    void *other = type->init(elsewhere, REGION_BYTES);
    unsigned char *foreign = NULL;
    for (size_t left = 1 + below(20); left > 0; left--) {
        unsigned char *block = type->get(other, 1 + below(100));
        foreign = block == NULL ? foreign : block;
    }
    type->give(heap, foreign);
    return true;
}

/* Creates a new heap in the region and frees a block of the old heap that is not a block of the new one. */
static bool free_of_the_heap_before(void) {
    static extent old[MOST];
    size_t old_count = count;
    memcpy(old, live, sizeof old);
    make_heap(below(2) * below(60));
    for (size_t turn = 0; turn < old_count; turn++) {
        unsigned char *stale = old[turn].at;
        bool is_live = false;
        for (size_t place = 0; place < count; place++) {
            is_live = is_live || live[place].at == stale;
        }
        if (!is_live) {
            type->give(heap, stale);
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name;
    bool (*commit)(void);
} misuses[] = {
    {"one byte after the end, next block live", overrun_live},
    {"one byte after the end, next block free", overrun_free},
    {"one byte before the block", underrun},
    {"the word at the end", overrun_by_a_word},
    {"double free, memory not reused", free_twice},
    {"pointer into a block", free_the_interior},
    {"block of another heap", free_of_another_heap},
    {"block of the region's previous heap", free_of_the_heap_before},
    {"write after free, memory not reused", write_after_free},
};

enum outcome { REPORTED, CRASHED, OVERLAPPED, CHECKED, UNSEEN, OUTCOMES };

static sigjmp_buf out_of_it;

static void crashed(int signal_number) { siglongjmp(out_of_it, signal_number); }

static void patience(long microseconds) {
    struct itimerval timer = {{0, 0}, {0, microseconds}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

static enum outcome after_the_misuse(void) {
    for (size_t left = STEPS; left > 0 && !is_over(); left--) {
        step();
    }
    while (count > 0 && !is_over()) {
        give_back(below(count));
    }
    if (!is_over()) {
        check_now();
    }
    return reported ? REPORTED : overlapped ? OVERLAPPED : checked ? CHECKED : UNSEEN;
}

/* The outcome of one misuse; OUTCOMES if it is impossible in the state of the heap. */
static enum outcome trial(size_t misuse) {
    memset(region, 0, REGION_BYTES);
    memset(elsewhere, 0, REGION_BYTES);
    reported = 0;
    overlapped = checked = false;
    make_heap(40 + below(120));
    if (is_over() || type->check(heap, &where) != RT_OK) {
        fprintf(stderr, "%s: broken before the misuse\n", type->name);
        exit(2);
    }
    if (count == 0) {
        return OUTCOMES;
    }
    volatile bool is_committed = true;
    if (sigsetjmp(out_of_it, 1) != 0) {
        return reported ? REPORTED : CRASHED;
    }
    patience(HANG_MICROSECONDS);
    is_committed = misuses[misuse].commit();
    enum outcome outcome = is_committed ? after_the_misuse() : OUTCOMES;
    patience(0);
    return outcome;
}

static void catch_signals(void) {
    static unsigned char stack[64 * 1024];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_flags = SA_ONSTACK};
    action.sa_handler = crashed;
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGVTALRM};
    for (size_t place = 0; place < sizeof signals / sizeof signals[0]; place++) {
        sigaction(signals[place], &action, NULL);
    }
}

int main(int words_count, char **words) {
    const size_t type_count = sizeof types / sizeof types[0];
    if (words_count == 1) {
        for (size_t place = 0; place < type_count; place++) {
            printf("%s\n", types[place].name);
        }
        return 0;
    }
    for (size_t place = 0; place < type_count; place++) {
        if (words_count == 3 && strcmp(words[1], types[place].name) == 0) {
            type = &types[place];
        }
    }
    if (type == NULL) {
        fputs("usage: misuse_rates [HEAP TRIALS]; without arguments it lists the heaps\n", stderr);
        return 2;
    }
    size_t trials = strtoul(words[2], NULL, 10);

    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    if (mmap(reserve, reserve_bytes, PROT_NONE, flags, -1, 0) != reserve) {
        fputs("the addresses that the experiment needs are taken\n", stderr);
        return 2;
    }
    region = reserve + reserve_bytes / 2;
    elsewhere = region + 16 * REGION_BYTES;
    if (mprotect(region, REGION_BYTES, PROT_READ | PROT_WRITE) != 0 ||
        mprotect(elsewhere, REGION_BYTES, PROT_READ | PROT_WRITE) != 0) {
        return 2;
    }
    catch_signals();
    rt_set_misuse_hook(hook);
    const rt_contract *contract = type->contract();
    if (contract != NULL) {
        printf("promises: %d %d %d\n", contract->detects_double_free, contract->detects_stale_pointers,
               contract->detects_overwritten_tags);
    }
    for (size_t misuse = 0; misuse < sizeof misuses / sizeof misuses[0]; misuse++) {
        size_t counts[OUTCOMES + 1] = {0};
        /* If the misuse is impossible in a state, another seed is tried. */
        for (uint64_t number = 0; number < 8 * (uint64_t)trials; number++) {
            state = (uint64_t)misuse << 32 | number;
            counts[trial(misuse)]++;
            if (number + 1 - counts[OUTCOMES] == trials) {
                break;
            }
        }
        size_t done = 0;
        for (size_t outcome = 0; outcome < OUTCOMES; outcome++) {
            done += counts[outcome];
        }
        printf("%s: %zu %zu %zu %zu %zu %zu\n", misuses[misuse].name, done, counts[REPORTED], counts[CRASHED],
               counts[OVERLAPPED], counts[CHECKED], counts[UNSEEN]);
    }
    return 0;
}
