// A heap for each component, so that none can exhaust another's memory, each with a suitable allocator.
//
//     cc -std=c11 several_heaps.c -lrtalloc

#include <rtalloc.h>
#include <stdio.h>

static unsigned char control_memory[8 * 1024];
static unsigned char network_memory[32 * 1024];
static unsigned char log_memory[4 * 1024];

int main(void) {
    // Few instructions; little fragmentation; a fixed budget for the log.
    rt_half_fit *control = rt_half_fit_init(control_memory, sizeof control_memory);
    rt_tlsf *network = rt_tlsf_init(network_memory, sizeof network_memory);
    rt_tlsf *log = rt_tlsf_init(log_memory, sizeof log_memory);
    if (control == NULL || network == NULL || log == NULL) return 1;

    size_t lines = 0;
    while (rt_tlsf_malloc(log, 80) != NULL) ++lines;
    printf("the log took more than 30 lines: %s\n", lines > 30 ? "yes" : "no");

    void *command = rt_half_fit_malloc(control, 200);
    void *packet = rt_tlsf_aligned_alloc(network, 64, 1500);
    printf("the others are unharmed: %s\n", command != NULL && packet != NULL ? "yes" : "no");
    printf("the packet is aligned: %s\n", (uintptr_t)packet % 64 == 0 ? "yes" : "no");
    rt_half_fit_free(control, command);
    rt_tlsf_free(network, packet);

    // A heap can add a region if it was initialised for one: with 32-bit tags, at a higher address.
    static unsigned char spare[20 * 1024];
    const rt_heap_config config = {.max_region_bytes = 16 * 1024};
    rt_tlsf *grown = NULL;
    if (rt_tlsf_init_with(spare, 4 * 1024, &config, &grown) != RT_OK) return 1;
    void *large = rt_tlsf_malloc(grown, 10 * 1024);
    printf("10 KiB in 4 KiB: %s\n", large == NULL ? "refused" : "granted");
    rt_region region;
    rt_error added = rt_tlsf_add_region(grown, spare + 4 * 1024, 16 * 1024, &region);
    large = rt_tlsf_malloc(grown, 10 * 1024);
    printf("with 16 KiB more, %s: %s\n", rt_strerror(added), large == NULL ? "refused" : "granted");
    rt_tlsf_free(grown, large);
    printf("given back: %s\n", rt_strerror(rt_tlsf_remove_region(grown, region)));
    return 0;
}
