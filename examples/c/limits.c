// A heap that never refuses: how many objects of each size are live at most gives its region.
//
//     cc -std=c11 limits.c -lrtalloc

#include <rtalloc.h>
#include <stdint.h>
#include <stdio.h>

enum { MESSAGES = 64, PACKETS = 8, ROUNDS = 100000 };

// Messages of up to 200 bytes, packets of up to 1,500, and one image of up to 4,096.
static const rt_limit LIMITS[] = {
    {.objects = MESSAGES, .largest_bytes = 200},
    {.objects = PACKETS, .largest_bytes = 1500},
    {.objects = 1, .largest_bytes = 4096},
};
enum { COUNT = sizeof LIMITS / sizeof LIMITS[0] };

// A pool for each of these sizes.
static const rt_pools_config SIZES = {.largest_bytes = {200, 1500, 4096}};

static unsigned char memory[33 * 1024];

int main(void) {
    const size_t needed_bytes = rt_pools_region_bytes_for(&SIZES, LIMITS, COUNT);
    printf("33 KiB are enough: %s\n", needed_bytes <= sizeof memory ? "yes" : "no");
    if (needed_bytes > sizeof memory) return 1;
    rt_pools *heap;
    if (rt_pools_init_with(memory, needed_bytes, &SIZES, &heap) != RT_OK) return 1;

    void *live[MESSAGES + PACKETS + 1] = {0};
    uint32_t random = 1;
    size_t refused = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        random = random * 1664525u + 1013904223u;
        const size_t index = (random >> 8) % (sizeof live / sizeof live[0]);
        const size_t largest = index < MESSAGES ? 200 : index < MESSAGES + PACKETS ? 1500 : 4096;
        rt_pools_free(heap, live[index]);
        random = random * 1664525u + 1013904223u;
        live[index] = rt_pools_malloc(heap, 1 + (random >> 8) % largest);
        refused += live[index] == NULL;
    }
    printf("refused: %zu\n", refused);

    const rt_limit nothing_set = {.largest_bytes = 200};
    printf("a limit without a number: %s\n",
           rt_pools_region_bytes_for(&SIZES, &nothing_set, 1) == SIZE_MAX ? "no region" : "a region");
    return 0;
}
