// One test case for each value of argv[1].
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

static void *early;
__attribute__((constructor(101))) static void before_main(void) { early = malloc(123); if (early) memset(early, 7, 123); }
__attribute__((destructor(101))) static void after_main(void) { free(early); free(seen(malloc(50))); }
static __thread char local[5000];

static _Atomic size_t interruptions;
static void interrupted(int signal) {
    (void)signal;
    // POSIX forbids it, but real programs do it.
    char *block = seen(malloc(100));
    if (block) { memset(block, 1, 100); free(block); interruptions++; }
}

static void signals(void) {
    struct sigaction action = {.sa_handler = interrupted};
    CHECK(!sigaction(SIGALRM, &action, NULL));
    struct itimerval often = {{0, 200}, {0, 200}};
    CHECK(!setitimer(ITIMER_REAL, &often, NULL));
    char *blocks[100] = {0};
    for (int i = 0; interruptions < 500; i++) {
        free(blocks[i % 100]);
        CHECK((blocks[i % 100] = seen(malloc(10 + i % 3000))));
        fill(blocks[i % 100], 10, (unsigned)i);
        CHECK(holds(blocks[i % 100], 10, (unsigned)i));
    }
    struct itimerval never = {0};
    CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

static _Atomic int signals_end;
static void *interrupted_thread(void *unused) {
    while (!signals_end) { char *block = seen(malloc(20000)); CHECK(block); memset(block, 1, 20000); free(block); }
    return unused;
}

// Handlers of two threads that interrupt operations wait for no lock that the other's operation owns.
static void signals_in_threads(void) {
    struct sigaction action = {.sa_handler = interrupted};
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(!pthread_create(&threads[i], NULL, interrupted_thread, NULL));
    size_t seen_before = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2000; i++) { CHECK(!pthread_kill(threads[i % 2], SIGUSR1)); usleep(20); }
        // Some handlers are refused; all are only if both threads wait for ever.
        for (int tenths = 0; interruptions == seen_before; tenths++) { CHECK(tenths < 100); pthread_kill(threads[tenths % 2], SIGUSR1); usleep(100000); }
        seen_before = interruptions;
    }
    signals_end = 1;
    for (int i = 0; i < 2; i++) CHECK(!pthread_join(threads[i], NULL));
}

// Allocates blocks of all sizes until memory is exhausted, frees them, and repeats that with the same number of blocks.
static size_t until_none(size_t size, char **blocks, size_t most) {
    size_t count = 0;
    while (count < most) {
        errno = 0;
        char *block = seen(malloc(size));
        if (!block) { CHECK(errno == ENOMEM); break; }
        block[0] = block[size - 1] = 1;
        blocks[count++] = block;
    }
    return count;
}

static void exhaustion(void) {
    static char *blocks[1 << 20];
    size_t first = 0;
    for (int turn = 0; turn < 3; turn++) {
        size_t count = until_none(1000, blocks, 1 << 20);
        if (!turn) first = count;
        CHECK(count && count < 1 << 20 && count == first);
        for (size_t i = 0; i < count; i++) free(blocks[i]);
    }
    CHECK(!seen(malloc((size_t)1 << 40)) && errno == ENOMEM);
    printf("%zu\n", first * 1000);
}

// Threads exhaust memory repeatedly while the process forks and calls mallinfo2.
static _Atomic int stop;
static void *greedy(void *unused) {
    (void)unused;
    char **blocks = calloc(1 << 12, sizeof *blocks);
    while (blocks && !stop) {
        size_t count = until_none(5000, blocks, 1 << 12);
        for (size_t i = 0; i < count; i++) free(blocks[i]);
    }
    free(blocks);
    return NULL;
}
static void scarcity(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, greedy, NULL));
    end_if_blocked();
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid) { free(seen(malloc(100))); _exit(0); }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        CHECK(mallinfo2().arena);
        malloc_trim(0);
    }
    stop = 1;
    for (int i = 0; i < 4; i++) CHECK(!pthread_join(threads[i], NULL));
}

static void growth(void) {
    // Allocates far more than the first region in small blocks, then frees them.
    size_t count = (size_t)200 << 10;
    char **blocks = malloc(count * sizeof *blocks);
    CHECK(blocks);
    for (size_t i = 0; i < count; i++) { CHECK((blocks[i] = seen(malloc(500)))); fill(blocks[i], 20, (unsigned)i); }
    for (size_t i = 0; i < count; i++) { CHECK(holds(blocks[i], 20, (unsigned)i)); free(blocks[i]); }
    free(blocks);
}

static int status_kib(const char *field) {
    char line[200];
    int value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof line, file)) if (!strncmp(line, field, strlen(field))) value = atoi(line + strlen(field));
    fclose(file);
    return value;
}

// Allocates and frees blocks until a guarded heap reuses quarantined ones.
static void flush(void) {
    for (int i = 0; i < 2000; i++) free(seen(malloc(64)));
}

// Prints which of a hundred requests are refused, and checks the errno of each.
static void requests(void) {
    char answers[101] = {0};
    void *blocks[100];
    for (int i = 0; i < 100; i++) {
        errno = 0;
        blocks[i] = seen(i % 2 ? malloc(1000) : calloc(10, 100));
        answers[i] = blocks[i] ? '.' : 'x';
        CHECK(blocks[i] || errno == ENOMEM);
    }
    for (int i = 0; i < 100; i++) free(blocks[i]);
    answers[100] = '\n';
    CHECK(write(1, answers, 101) == 101);
}

static void killed(void) {
    for (int i = 0; i < 1000; i++) free(seen(malloc(1000 + i)));
    seen(malloc(4321));
    raise(SIGKILL);
}

// A child allocates more than the first region of a heap with one slot has: 1 GiB.
static void child_grows(void) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) {
        for (int i = 0; i < 20000; i++) CHECK(seen(malloc(60000)));
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

// Forks without address space for a copy of the ring's pages: the child must end before it touches its parent's heap.
static void forks_without_memory(void) {
    char *kept = seen(malloc(1000));
    fill(kept, 1000, 1);
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages;
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = pages * (unsigned long)sysconf(_SC_PAGESIZE) + 4096;
    CHECK(!setrlimit(RLIMIT_AS, &limit));
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (!pid) _exit(0);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 127);
    CHECK(holds(kept, 1000, 1));
    for (int i = 0; i < 100; i++) free(seen(malloc(100 + i)));
    free(kept);
}

// Large blocks that the system cannot resize: a part has other advice (as numpy does), or the alignment is wide.
static void resizing(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mib = (size_t)1 << 20;
    for (int wide = 0; wide < 2; wide++) {
        char *block = seen(wide ? aligned_alloc(64 * mib, 40 * mib) : malloc(40 * mib));
        CHECK(block);
        if (!wide) CHECK(!madvise(block + (page - (uintptr_t)block % page) % page, 20 * mib, MADV_DONTFORK));
        for (size_t at = 0; at < 40 * mib; at += mib) fill(block + at, 100, (unsigned)at);
        size_t sizes[] = {100 * mib, 60 * mib, 200 * mib, 40 * mib};
        for (int i = 0; i < 4; i++) {
            errno = 0;
            CHECK((block = seen(realloc(block, sizes[i]))) && errno == 0 && malloc_usable_size(block) >= sizes[i]);
            block[sizes[i] - 1] = 1;
            for (size_t at = 0; at < 40 * mib; at += mib) CHECK(holds(block + at, 100, (unsigned)at));
        }
        free(block);
    }
    CHECK(mallinfo2().hblks == 0);
}

static void *frees_little(void *unused) {
    (void)unused;
    static char *blocks[1000];
    for (int i = 0; i < 1000; i++) { CHECK((blocks[i] = seen(malloc(6000)))); memset(blocks[i], 1, 6000); }
    for (int i = 0; i < 1000; i++) free(seen(blocks[i]));
    return NULL;
}

// Allocates and frees so many blocks of 256 KiB in each round; 0 ends.
static void *frees_in_rounds(void *rounds) {
    static char *blocks[200];
    for (const int *round = rounds; *round != 0; round++) {
        for (int i = 0; i < *round; i++) { CHECK((blocks[i] = seen(malloc(262000)))); memset(blocks[i], 1, 262000); }
        for (int i = 0; i < *round; i++) free(seen(blocks[i]));
    }
    return NULL;
}

static void in_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, run, argument) && !pthread_join(thread, NULL));
}

// Prints the KiB in memory before and after threads that free less than what makes them give pages back: one, ten that
// follow each other at once, and one after a pause. Then the same for a thread that frees 30 MiB after it kept pages,
// and one that follows at once, keeps 32 MiB when it looks, and frees 2 MiB more.
static void ends(void) {
    static const int threads[] = {1, 10, 1};
    for (int group = 0; group < 3; group++) {
        if (group == 2) usleep(300000);
        printf("%d", status_kib("VmRSS:"));
        for (int i = 0; i < threads[group]; i++) in_thread(frees_little, NULL);
        printf(" %d\n", status_kib("VmRSS:"));
    }
    static int first[] = {33, 33, 118, 0}, second[] = {33, 33, 130, 128, 8, 0};
    printf("%d", status_kib("VmRSS:"));
    in_thread(frees_in_rounds, first);
    in_thread(frees_in_rounds, second);
    printf(" %d\n", status_kib("VmRSS:"));
}

static long minor_faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_minflt;
}

// Prints the KiB in memory at a peak and after it, eight times. Live blocks keep what was written; errno stays.
static void peaks(void) {
    enum { SIZE = 4000, COUNT = 50000 };
    static char *blocks[COUNT];
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            CHECK((blocks[i] = seen(malloc(SIZE))));
            if (i % 10000) memset(blocks[i], 1, SIZE); else fill(blocks[i], SIZE, (unsigned)i);
        }
        int full = status_kib("VmRSS:");
        errno = 77;
        for (size_t i = 0; i < COUNT; i++) if (i % 10000) free(seen(blocks[i]));
        CHECK(errno == 77);
        printf("%d %d\n", full, status_kib("VmRSS:"));
        for (size_t i = 0; i < COUNT; i += 10000) { CHECK(holds(blocks[i], SIZE, (unsigned)i)); free(blocks[i]); }
    }
    // Memory that was used before and is zero nevertheless, the bytes around whole pages too.
    for (size_t size = 100 << 10; size < 20 << 20; size += size / 4 + 4321) {
        char *used = seen(malloc(size)), *below = seen(malloc(100));
        memset(used, 1, size);
        free(used);
        char *zero = seen(calloc(size, 1));
        CHECK(zero && below);
        for (size_t i = 0; i < size; i++) CHECK(zero[i] == 0);
        free(zero);
        free(below);
    }
    // Large blocks that are never touched need no memory.
    int before = status_kib("VmRSS:");
    enum { HUGE = 16 << 20, MIDDLE = 300 << 10, COUNT_OF_MIDDLE = 400 };
    char *untouched[8], *middle[COUNT_OF_MIDDLE];
    for (int i = 0; i < 8; i++) { CHECK((untouched[i] = seen(calloc(1, HUGE)))); CHECK(untouched[i][12345678] == 0); }
    for (int i = 0; i < COUNT_OF_MIDDLE; i++) { CHECK((middle[i] = seen(calloc(1, MIDDLE)))); CHECK(middle[i][200000] == 0); }
    printf("%d %d\n", before, status_kib("VmRSS:"));
    for (int i = 0; i < 8; i++) free(seen(untouched[i]));
    for (int i = 0; i < COUNT_OF_MIDDLE; i++) free(seen(middle[i]));
    // A block that is used in part, again and again, keeps the pages that are used.
    malloc_trim(0);
    long faults = minor_faults();
    for (int round = 0; round < 1000; round++) {
        char *part = seen(calloc(1, MIDDLE));
        CHECK(part);
        for (int i = 0; i < MIDDLE / 4; i += 1000) { CHECK(part[i] == 0); part[i] = 1; }
        free(part);
    }
    faults = minor_faults() - faults;
    if (faults > 2000) { printf("%ld page faults\n", faults); exit(1); }
}

static void *sleeper(void *unused) { (void)unused; pause(); return NULL; }

// Prints how many threads with stacks of 8 MiB start in a limited address space.
static void stacks(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    int threads = 0;
    CHECK(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, (size_t)8 << 20));
    while (threads < 100 && !pthread_create(&thread, &attributes, sleeper, NULL)) threads++;
    printf("%d\n", threads);
    fflush(stdout);
    _exit(0);
}

// Closes standard error, as the core utilities do to see whether everything was written; another file may then get its
// descriptor.
static void close_stderr(void) { fclose(stderr); }
static void use_every_descriptor(void) {
    for (int file = 2; file < 2000; file++) dup2(1, file);
}

int main(int count, char **words) {
    local[0] = 1;
    const char *word = count > 1 ? words[1] : "";
    // This request may fail on purpose.
    CHECK(!strcmp(word, "requests") || (early && ((char *)early)[122] == 7));
    if (!strcmp(word, "signals")) signals();
    else if (!strcmp(word, "exhaustion")) exhaustion();
    else if (!strcmp(word, "scarcity")) scarcity();
    else if (!strcmp(word, "growth")) growth();
    else if (!strcmp(word, "locked")) printf("%d\n", status_kib("VmLck:"));
    else if (!strcmp(word, "address space")) printf("%d\n", status_kib("VmPeak:"));
    else if (!strcmp(word, "signals in threads")) signals_in_threads();
    else if (!strcmp(word, "double free")) { char *block = seen(malloc(100)); free(block); free(seen(block)); }
    else if (!strcmp(word, "foreign")) free(seen(local + 16));
    else if (!strcmp(word, "interior")) { char *block = seen(malloc(100)); free(seen(block + 16)); }
    else if (!strcmp(word, "misaligned")) { char *block = seen(malloc(100)); free(seen(block + 3)); }
    else if (!strcmp(word, "direct twice")) { char *block = seen(malloc((size_t)64 << 20)); free(block); free(seen(block)); }
    else if (!strcmp(word, "direct interior")) { char *block = seen(malloc((size_t)64 << 20)); free(seen(block + 64)); }
    else if (!strcmp(word, "overrun")) { char *block = seen(malloc(13)); block[13] = 1; free(seen(block)); }
    else if (!strcmp(word, "underrun")) { char *block = seen(malloc(13)); block[-1] ^= 1; free(seen(block)); }
    else if (!strcmp(word, "overrun, kept")) { char *block = seen(malloc(13)); block[13] = 1; seen(block); }
    else if (!strcmp(word, "use after free")) { char *block = seen(malloc(100)); free(block); ((char *)seen(block))[50] = 1; flush(); }
    else if (!strcmp(word, "requests")) requests();
    else if (!strcmp(word, "forks without memory")) forks_without_memory();
    else if (!strcmp(word, "child grows")) { child_grows(); killed(); }
    else if (!strcmp(word, "killed")) killed();
    else if (!strcmp(word, "resizing")) resizing();
    else if (!strcmp(word, "peaks")) peaks();
    else if (!strcmp(word, "ends")) ends();
    else if (!strcmp(word, "stacks")) stacks();
    else if (!strcmp(word, "closed")) CHECK(!atexit(close_stderr));
    else if (!strcmp(word, "used")) CHECK(!atexit(use_every_descriptor));
    else if (!strcmp(word, "overrun, closed")) { CHECK(!atexit(close_stderr)); char *block = seen(malloc(13)); block[13] = 1; seen(block); }
    else CHECK(!strcmp(word, "nothing"));
    puts("passed");
    return 0;
}
