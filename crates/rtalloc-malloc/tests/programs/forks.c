// A process forks while its other threads allocate and free; every child allocates, frees and starts threads.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { WORKERS = 4, FORKS = 15 };
static _Atomic int stop;
static _Atomic(void *) passed[WORKERS];

static void *worker(void *seed) {
    unsigned random = (unsigned)(uintptr_t)seed;
    char *blocks[64] = {0};
    while (!stop) {
        random = random * 1664525 + 1013904223;
        unsigned at = random >> 26;
        free(blocks[at]);
        size_t size = 1 + (random >> 8) % 3000;
        CHECK((blocks[at] = seen(malloc(size))));
        blocks[at][0] = 1;
        blocks[at][size - 1] = 2;
        // Passes the block to the next thread, which frees it: a remote free.
        if ((random & 0xff00) == 0) free(atomic_exchange(&passed[(random >> 16) % WORKERS], seen(malloc(80))));
    }
    for (int i = 0; i < 64; i++) free(blocks[i]);
    return NULL;
}

static void *in_child(void *unused) {
    (void)unused;
    for (int i = 1; i < 300; i++) { char *block = seen(malloc(i * 11)); CHECK(block); memset(block, i, i * 11); free(block); }
    return NULL;
}

static void child(char **kept) {
    end_if_blocked();
    // Among other things, it prints whether all heaps are whole.
    malloc_stats();
    // All of the parent's blocks are intact, and the child may free them, whichever thread allocated them.
    for (int i = 0; i < 200; i++) CHECK(holds(kept[i], 150, (unsigned)i));
    for (int i = 0; i < 200; i++) free(kept[i]);
    for (int i = 0; i < WORKERS; i++) free(atomic_exchange(&passed[i], NULL));
    char *blocks[3000];
    for (int i = 0; i < 3000; i++) { CHECK((blocks[i] = seen(malloc(20 + i)))); fill(blocks[i], 20 + i, (unsigned)i); }
    for (int i = 0; i < 3000; i++) CHECK(holds(blocks[i], 20 + i, (unsigned)i));
    for (int i = 0; i < 3000; i++) free(blocks[i]);
    // Threads of the child reuse the slots of the parent's threads.
    pthread_t threads[2 * WORKERS];
    for (int i = 0; i < 2 * WORKERS; i++) CHECK(!pthread_create(&threads[i], NULL, in_child, NULL));
    for (int i = 0; i < 2 * WORKERS; i++) CHECK(!pthread_join(threads[i], NULL));
    // The child forks too.
    pid_t grandchild = fork();
    CHECK(grandchild >= 0);
    if (!grandchild) { free(seen(malloc(1000))); _exit(0); }
    int status;
    CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0);
    _exit(0);
}

int main(void) {
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) CHECK(!pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)(i + 1)));
    char *kept[200];
    for (int i = 0; i < 200; i++) { CHECK((kept[i] = seen(malloc(150)))); fill(kept[i], 150, (unsigned)i); }
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (!pid) child(kept);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    stop = 1;
    for (int i = 0; i < WORKERS; i++) CHECK(!pthread_join(threads[i], NULL));
    puts("passed");
    return 0;
}
