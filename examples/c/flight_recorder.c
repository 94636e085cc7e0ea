// A heap that records its last operations in its own region, for a dump after a fault in the field.
//
//     cc -std=c11 flight_recorder.c -lrtalloc && ./a.out dump.bin && rtalloc recover dump.bin

#include <inttypes.h>
#include <rtalloc.h>
#include <stdio.h>

enum { RECORDS = 64, BLOCKS = 10 };
static unsigned char memory[64 * 1024];

int main(int count, char **arguments) {
    rt_traced_tlsf *heap = NULL;
    const rt_traced_tlsf_config config = {.records = RECORDS};
    if (rt_traced_tlsf_init_with(memory, sizeof memory, &config, &heap) != RT_OK) return 1;

    void *blocks[BLOCKS] = {0};
    for (uint32_t frame = 0; frame < 100; ++frame) {
        // A mark, for orientation in the dump.
        rt_traced_tlsf_mark(heap, frame);
        rt_traced_tlsf_free(heap, blocks[frame % BLOCKS]);
        blocks[frame % BLOCKS] = rt_traced_tlsf_malloc(heap, 16 + frame % 7 * 40);
    }
    printf("written down: %" PRIu64 ", of which the last %d are in the region\n", rt_traced_tlsf_recorded(heap), RECORDS);

    // In the field a debugger reads the ring, or all of memory. This program writes it to a file.
    const void *ring = NULL;
    size_t bytes = 0;
    if (rt_traced_tlsf_ring(heap, &ring, &bytes) != RT_OK) return 1;
    printf("the ring takes less than 4 KiB: %s\n", bytes < 4096 ? "yes" : "no");
    if (count > 1) {
        FILE *file = fopen(arguments[1], "wb");
        if (file == NULL) return 1;
        const size_t written = fwrite(ring, 1, bytes, file);
        if (fclose(file) != 0 || written != bytes) return 1;
    }
    return 0;
}
