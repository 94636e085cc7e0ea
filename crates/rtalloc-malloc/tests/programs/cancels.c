// Cancels threads inside malloc, free, mallinfo2 or malloc_stats, none of which may be a cancellation point: a thread
// that ended inside one would leave a lock locked, or its thread state busy.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { ROUNDS = 10, WORKERS = 4, MORE_THREADS = 24 };
static _Atomic int stop;

static void *allocates(void *unused) {
    while (!stop) free(seen(malloc(100)));
    return unused;
}

static void *asks(void *unused) {
    while (!stop) mallinfo2();
    return unused;
}

static void *writes(void *unused) {
    while (!stop) malloc_stats();
    return unused;
}

static pthread_t started(void *(*run)(void *)) {
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, run, NULL));
    return thread;
}

// Stops all threads and checks that none was cancelled.
static void ended(const pthread_t *threads, int count) {
    stop = 1;
    for (int i = 0; i < count; i++) {
        void *result;
        CHECK(!pthread_join(threads[i], &result));
        CHECK(result != PTHREAD_CANCELED);
    }
    stop = 0;
}

int main(void) {
    // A long time: only a deadlock must exceed it.
    alarm(240);
    // Cancels a thread that walks or writes while the others allocate.
    void *(*const cancelled[])(void *) = {asks, writes};
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[WORKERS + 1];
        for (int i = 0; i < WORKERS; i++) threads[i] = started(allocates);
        threads[WORKERS] = started(cancelled[round % 2]);
        usleep(20000);
        CHECK(!pthread_cancel(threads[WORKERS]));
        usleep(50000);
        ended(threads, WORKERS + 1);
        free(seen(malloc(10)));
    }
    // Cancels more threads than there are slots, which wait for each other.
    pthread_t more[MORE_THREADS];
    for (int i = 0; i < MORE_THREADS; i++) more[i] = started(allocates);
    usleep(50000);
    for (int i = 0; i < MORE_THREADS; i++) CHECK(!pthread_cancel(more[i]));
    usleep(200000);
    ended(more, MORE_THREADS);
    free(seen(malloc(10)));
    // A fork takes every lock.
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) { free(seen(malloc(10))); _exit(0); }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("passed");
    return 0;
}
