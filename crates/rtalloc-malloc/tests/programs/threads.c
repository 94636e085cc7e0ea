// Thousands of threads that start and end, threads that free each other's blocks, and more threads than slots.
#include "check.h"
#include <pthread.h>

enum { CHURN = 3000, MANY_THREADS = 40, PASSED = 20000, RING = 256 };

static void *brief(void *seed) {
    char *blocks[20];
    unsigned number = (unsigned)(uintptr_t)seed;
    for (unsigned i = 0; i < 20; i++) {
        size_t size = 16 + (number * 31 + i * 97) % 5000;
        CHECK((blocks[i] = seen(malloc(size))));
        fill(blocks[i], size, number + i);
    }
    for (unsigned i = 0; i < 20; i++) CHECK(holds(blocks[i], 16 + (number * 31 + i * 97) % 5000, number + i));
    for (unsigned i = 1; i < 20; i++) free(blocks[i]);
    return blocks[0];
}

static pthread_key_t key;
static void last_words(void *block) {
    // A destructor that allocates and frees, as in real programs.
    free(block);
    void *another = seen(malloc(300));
    CHECK(another);
    free(another);
}

static void churn(void) {
    // Two threads at a time, whose blocks outlive them.
    for (int i = 0; i < CHURN; i++) {
        pthread_t one, other;
        void *first, *second;
        CHECK(!pthread_create(&one, NULL, brief, (void *)(uintptr_t)i));
        CHECK(!pthread_create(&other, NULL, brief, (void *)(uintptr_t)(i + 7)));
        CHECK(!pthread_join(one, &first) && !pthread_join(other, &second));
        CHECK(first != second && holds(first, 16, (unsigned)i) && holds(second, 16, (unsigned)i + 7));
        free(first);
        free(second);
    }
}

static pthread_barrier_t together;
static void *oversubscribed(void *seed) {
    pthread_setspecific(key, malloc(64));
    pthread_barrier_wait(&together);
    void *kept = NULL;
    for (int round = 0; round < 50; round++) {
        free(kept);
        kept = brief((void *)((uintptr_t)seed + round));
    }
    pthread_barrier_wait(&together);
    return kept;
}

static void oversubscribe(void) {
    pthread_t threads[MANY_THREADS];
    CHECK(!pthread_key_create(&key, last_words) && !pthread_barrier_init(&together, NULL, MANY_THREADS));
    for (int i = 0; i < MANY_THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, oversubscribed, (void *)(uintptr_t)(i * 1000)));
    for (int i = 0; i < MANY_THREADS; i++) {
        void *block;
        CHECK(!pthread_join(threads[i], &block));
        CHECK(holds(block, 16, (unsigned)(i * 1000 + 49)));
        free(block);
    }
}

static _Atomic(char *) ring[RING];
static void *producer(void *unused) {
    (void)unused;
    for (int i = 0; i < PASSED; i++) {
        char *block = seen(i % 5 ? malloc(200) : calloc(1, 70000));
        CHECK(block);
        fill(block, 200, (unsigned)i);
        while (ring[i % RING]) { }
        ring[i % RING] = block;
    }
    return NULL;
}
static void *consumer(void *unused) {
    (void)unused;
    for (int i = 0; i < PASSED; i++) {
        char *block;
        while (!(block = ring[i % RING])) { }
        ring[i % RING] = NULL;
        CHECK(holds(block, 200, (unsigned)i));
        // Resizes other threads' blocks too.
        if (i % 7 == 0) { CHECK((block = seen(realloc(block, 900)))); CHECK(holds(block, 200, (unsigned)i)); }
        CHECK(malloc_usable_size(block) >= 200);
        free(block);
    }
    return NULL;
}

int main(void) {
    churn();
    oversubscribe();
    pthread_t one, other;
    CHECK(!pthread_create(&one, NULL, producer, NULL) && !pthread_create(&other, NULL, consumer, NULL));
    CHECK(!pthread_join(one, NULL) && !pthread_join(other, NULL));
    // The memory was reused.
    struct mallinfo2 info = mallinfo2();
    CHECK(info.uordblks + info.hblkhd < (size_t)64 << 20);
    puts("passed");
    return 0;
}
