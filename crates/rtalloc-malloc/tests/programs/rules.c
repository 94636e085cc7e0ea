// What the C standard, POSIX and the C library's manual require of each function.
#include "check.h"

// Older C libraries do not declare these.
__attribute__((weak)) void free_sized(void *, size_t);
__attribute__((weak)) void free_aligned_sized(void *, size_t, size_t);

static void sizes(void) {
    for (size_t size = 0; size < 5000; size += size < 300 ? 1 : 97) {
        errno = 77;
        unsigned char *block = seen(malloc(hidden(size)));
        CHECK(block && errno == 77);
        CHECK((uintptr_t)block % 16 == 0);
        CHECK(malloc_usable_size(block) >= size && malloc_usable_size(block) >= 1);
        fill(block, malloc_usable_size(block), (unsigned)size);
        CHECK(holds(block, malloc_usable_size(block), (unsigned)size));
        free(block);
        CHECK(errno == 77);
    }
    void *one = seen(malloc(hidden(0))), *other = seen(malloc(hidden(0)));
    CHECK(one && other && one != other);
    free(one);
    free(other);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
}

static void refusals(void) {
    size_t too_large[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2 + 1, (size_t)PTRDIFF_MAX};
    for (int i = 0; i < 4; i++) {
        size_t size = hidden(too_large[i]);
        errno = 0;
        CHECK(!seen(malloc(size)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(calloc(size, 1)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(aligned_alloc(64, size)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(memalign(64, size)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(valloc(size)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(pvalloc(size)) && errno == ENOMEM);
        char *block = seen(malloc(100));
        fill(block, 100, 5);
        errno = 0;
        CHECK(!seen(realloc(block, size)) && errno == ENOMEM);
        errno = 0;
        CHECK(!seen(reallocarray(block, size, 1)) && errno == ENOMEM);
        CHECK(holds(block, 100, 5));
        free(block);
        void *place = (void *)0x55;
        errno = 33;
        CHECK(posix_memalign(&place, 64, size) == ENOMEM && place == (void *)0x55 && errno == 33);
    }
    // Products that overflow, some of them to a small number.
    size_t half = hidden((size_t)1 << 32);
    errno = 0;
    CHECK(!seen(calloc(half, half)) && errno == ENOMEM);
    errno = 0;
    CHECK(!seen(calloc(half, half + 1)) && errno == ENOMEM);
    errno = 0;
    CHECK(!seen(calloc(hidden(SIZE_MAX), 2)) && errno == ENOMEM);
    void *block = seen(malloc(10));
    errno = 0;
    CHECK(!seen(reallocarray(block, half, half + 1)) && errno == ENOMEM);
    free(block);
    CHECK((block = seen(calloc(0, hidden(5)))));
    free(block);
    CHECK((block = seen(calloc(hidden(5), 0))));
    free(block);
}

static void zeros(void) {
    // Reused memory, and memory fresh from the system.
    for (size_t size = 1; size < (size_t)100 << 20; size = size * 3 + 1) {
        unsigned char *block = seen(malloc(size));
        CHECK(block);
        memset(block, 0xa5, size < 1 << 20 ? size : 1 << 20);
        free(block);
        block = seen(calloc(size, 1));
        CHECK(block);
        for (size_t i = 0; i < size; i += size < 1 << 20 ? 1 : 511) CHECK(block[i] == 0);
        free(block);
    }
}

static void alignments(void) {
    for (size_t align = 1; align <= (size_t)1 << 27; align *= 2) {
        for (size_t size = 0; size < 3000; size = size * 2 + 7) {
            char *block = seen(memalign(align, size));
            CHECK(block && (uintptr_t)block % align == 0 && (uintptr_t)block % 16 == 0);
            fill(block, size, 3);
            CHECK(malloc_usable_size(block) >= size);
            CHECK((block = seen(realloc(block, size + 500))) && (uintptr_t)block % 16 == 0 && holds(block, size, 3));
            free(block);
            block = seen(aligned_alloc(align, hidden(size)));
            CHECK(block && (uintptr_t)block % align == 0);
            free_aligned_sized(block, align, size);
            void *place = NULL;
            int error = posix_memalign(&place, align, size);
            CHECK(error == (align < sizeof(void *) ? EINVAL : 0));
            CHECK(error || (place && (uintptr_t)place % align == 0));
            free(place);
        }
    }
    // Alignments that are not powers of two.
    void *place = (void *)0x55;
    size_t odd[] = {0, 3, 24, 48, 1000, SIZE_MAX};
    for (int i = 0; i < 6; i++) {
        CHECK(posix_memalign(&place, hidden(odd[i]), 10) == EINVAL && place == (void *)0x55);
        errno = 0;
        CHECK(!seen(aligned_alloc(hidden(odd[i]), 10)) && errno == EINVAL);
    }
    CHECK(posix_memalign(&place, hidden(4), 10) == EINVAL);
    // memalign rounds them up.
    void *block = seen(memalign(hidden(48), 10));
    CHECK(block && (uintptr_t)block % 64 == 0);
    free(block);
    errno = 0;
    CHECK(!seen(memalign(hidden(SIZE_MAX), 10)) && errno == EINVAL);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK((block = seen(valloc(hidden(10)))) && (uintptr_t)block % page == 0);
    free(block);
    CHECK((block = seen(pvalloc(hidden(page + 1)))) && (uintptr_t)block % page == 0 && malloc_usable_size(block) >= 2 * page);
    free(block);
    CHECK((block = seen(pvalloc(hidden(0)))) && malloc_usable_size(block) >= page);
    free_sized(block, 0);
}

static void resizing(void) {
    char *block = seen(realloc(NULL, hidden(40)));
    CHECK(block);
    CHECK(!seen(realloc(block, hidden(0))));
    CHECK((block = seen(realloc(NULL, hidden(0)))));
    free(block);
    // All sizes up and down, in regions and direct, sometimes with a block after it.
    size_t size = 1;
    CHECK((block = seen(malloc(size))));
    fill(block, size, 9);
    void *neighbour = NULL;
    for (int turn = 0; turn < 60; turn++) {
        size_t next = turn < 30 ? size + size / 2 + turn + 1 : size / 2 + 1;
        if (next > (size_t)150 << 20) next = (size_t)150 << 20;
        if (turn % 3 == 0) { free(neighbour); neighbour = seen(malloc(100)); }
        errno = 77;
        char *moved = seen(realloc(block, next));
        CHECK(moved && errno == 77 && (uintptr_t)moved % 16 == 0 && malloc_usable_size(moved) >= next);
        size_t kept = size < next ? size : next;
        CHECK(holds(moved, kept < 70000 ? kept : 70000, 9));
        fill(moved, next < 70000 ? next : 70000, 9);
        moved[next - 1] = moved[next - 1];
        block = moved;
        size = next;
    }
    free(block);
    free(neighbour);
}

static void answers(void) {
    struct mallinfo2 before = mallinfo2();
    char *block = seen(malloc(100000)), *large = seen(malloc((size_t)64 << 20));
    struct mallinfo2 after = mallinfo2();
    CHECK(block && large);
    if (before.arena) {
        size_t more = after.uordblks + after.hblkhd - before.uordblks - before.hblkhd;
        CHECK(more >= 100000 + ((size_t)64 << 20) && more < 200000 + ((size_t)128 << 20));
        CHECK(after.uordblks + after.fordblks <= after.arena + after.hblkhd);
    }
    free(block);
    free(large);
    CHECK(mallinfo2().uordblks == before.uordblks && mallinfo2().hblkhd == before.hblkhd);
    // Untouched reserved memory counts neither as obtained nor as free.
    CHECK(after.arena < (size_t)1 << 30 && after.fordblks < (size_t)1 << 30 && after.uordblks + after.fordblks <= after.arena);
    CHECK(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    CHECK(mallopt(M_MMAP_THRESHOLD, -1) == 0);
    // Options without effect here are accepted, because programs check the result.
    const int options[] = {M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_CHECK_ACTION, M_PERTURB,
        M_ARENA_TEST, M_ARENA_MAX};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) CHECK(mallopt(options[i], 1) == 1);
    CHECK(mallopt(-9999, 5) == 0);
    // The same pages are not returned twice, and live blocks keep their content.
    char *kept[64];
    for (int i = 0; i < 64; i++) { CHECK((kept[i] = seen(malloc(50000)))); fill(kept[i], 50000, (unsigned)i); }
    for (int i = 0; i < 64; i += 2) free(kept[i]);
    malloc_trim(0);
    for (int i = 1; i < 64; i += 2) { CHECK(holds(kept[i], 50000, (unsigned)i)); free(kept[i]); }
    char text[2000] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    CHECK(stream && malloc_info(0, stream) == 0 && malloc_info(1, stream) == EINVAL);
    fclose(stream);
    CHECK(strstr(text, "<malloc version=\"1\">") && strstr(text, "</malloc>"));
}

int main(void) {
    sizes();
    refusals();
    zeros();
    alignments();
    resizing();
    answers();
    puts("passed");
    return 0;
}
