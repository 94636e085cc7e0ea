// A heap in an array: allocate, resize, query statistics, and receive reports of misuse.

#include <inttypes.h>
#include <rtalloc.h>
#include <stdio.h>
#include <string.h>

static unsigned char memory[64 * 1024];

static void on_misuse(const rt_misuse *misuse) {
    // Firmware stops here. This program continues, and the heap stays usable.
    printf("misuse seen by %s\n", misuse->allocator);
}

int main(void) {
    rt_set_misuse_hook(on_misuse);

    rt_tlsf *heap = NULL;
    rt_error error = rt_tlsf_init_with(memory, sizeof memory, NULL, &heap);
    if (error != RT_OK) {
        fprintf(stderr, "no heap: %s\n", rt_strerror(error));
        return 1;
    }

    char *words = rt_tlsf_malloc(heap, 32);
    if (words == NULL) return 1;
    strcpy(words, "in bounded time");
    char *longer = rt_tlsf_realloc(heap, words, 1000);
    if (longer == NULL) return 1;
    words = longer;
    printf("%s\n", words);

    // A refusal returns the reason and changes nothing.
    void *block = NULL;
    error = rt_tlsf_allocate(heap, 16, sizeof memory, &block);
    printf("a block of the whole memory: %s\n", rt_strerror(error));

    rt_stats stats;
    rt_tlsf_stats(heap, &stats);
    printf("%zu bytes live in %zu block, at most %zu ever\n", stats.live_bytes, stats.live_blocks, stats.peak_live_bytes);

    rt_tlsf_free(heap, words);
    rt_tlsf_free(heap, words);
    printf("the heap is %s\n", rt_tlsf_check(heap, NULL) == RT_OK ? "whole" : "damaged");

    uint64_t bound = rt_tlsf_bound(RT_OPERATION_MALLOC);
    if (bound != 0) printf("malloc executes at most %" PRIu64 " instructions\n", bound);
    return 0;
}
