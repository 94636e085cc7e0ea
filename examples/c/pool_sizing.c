// How large must the region be? Run the worst known workload in a region that is large enough, read the high-water
// mark, and test the result: run it again in a region of exactly that size.
//
//     cc -std=c11 pool_sizing.c -lrtalloc

#include <rtalloc.h>
#include <stdint.h>
#include <stdio.h>

enum { MESSAGES = 200, ROUNDS = 5000 };

// The workload: allocates and frees messages of 16 to 400 bytes.
static size_t refused_of_workload(rt_tlsf *heap) {
    void *live[MESSAGES] = {0};
    uint32_t random = 1;
    size_t refused = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        random = random * 1664525u + 1013904223u;
        const size_t index = (random >> 8) % MESSAGES;
        rt_tlsf_free(heap, live[index]);
        live[index] = rt_tlsf_malloc(heap, 16 + (random >> 16) % 385);
        refused += live[index] == NULL;
    }
    for (int index = 0; index < MESSAGES; ++index) rt_tlsf_free(heap, live[index]);
    return refused;
}

// The first block of a walk: the control structure lies before it.
static void remember_first(const rt_block *block, void *context) {
    uintptr_t *first = context;
    const uintptr_t start = (uintptr_t)block->address - block->front_bytes;
    if (*first == 0) *first = start;
}

int main(void) {
    static _Alignas(64) unsigned char generous[256 * 1024];
    static _Alignas(64) unsigned char tight[256 * 1024];

    rt_tlsf *heap = rt_tlsf_init(generous, sizeof generous);
    printf("refused in 256 KiB: %zu\n", refused_of_workload(heap));
    rt_stats stats;
    rt_tlsf_stats(heap, &stats);
    uintptr_t first = 0;
    rt_tlsf_walk(heap, remember_first, &first);
    const size_t control_bytes = (size_t)(first - (uintptr_t)generous);
    // The region must hold the control structure, the blocks, and a tag that ends them.
    const size_t needed_bytes = control_bytes + stats.high_water_bytes + 64;
    printf("needed: less than 64 KiB: %s, more than the peak: %s\n", needed_bytes < 64 * 1024 ? "yes" : "no",
           needed_bytes > stats.peak_live_bytes ? "yes" : "no");

    heap = rt_tlsf_init(tight, needed_bytes);
    printf("refused in what is needed: %zu\n", refused_of_workload(heap));
    heap = rt_tlsf_init(tight, needed_bytes * 3 / 4);
    printf("refused in three quarters of it: %s\n", refused_of_workload(heap) > 0 ? "some" : "none");
    return 0;
}
