// One heap for several threads, without a lock: each has a slot and frees what others allocated.

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <rtalloc.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 100000 };
static unsigned char memory[1 << 20];
static rt_arenas *heap;
static _Atomic(int *) handed_on;

static void *work(void *sum) {
    size_t slot = 0;
    if (rt_arenas_claim(heap, &slot) != RT_OK) return NULL;
    for (int round = 0; round < ROUNDS; round++) {
        int *number = rt_arenas_malloc(heap, slot, sizeof *number);
        if (number != NULL) *number = 1;
        number = atomic_exchange(&handed_on, number);
        if (number != NULL) atomic_fetch_add((atomic_long *) sum, *number);
        rt_arenas_free(heap, slot, number);
    }
    rt_arenas_release(heap, slot);
    return sum;
}

int main(void) {
    atomic_long sum = 0;
    pthread_t threads[THREADS];
    heap = rt_arenas_init(memory, sizeof memory, THREADS);
    if (heap == NULL) return 1;
    for (int number = 0; number < THREADS; number++) {
        if (pthread_create(&threads[number], NULL, work, &sum) != 0) return 1;
    }
    for (int number = 0; number < THREADS; number++) {
        void *done = NULL;
        if (pthread_join(threads[number], &done) != 0 || done == NULL) return 1;
    }
    sum += atomic_load(&handed_on) != NULL;
    printf("%ld blocks\n", (long) sum);
    return rt_arenas_check(heap, NULL) == RT_OK ? 0 : 1;
}
