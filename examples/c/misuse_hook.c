// Misuse is reported to a hook and the heap stays intact; a check finds overwritten memory.
//
//     cc -std=c11 misuse_hook.c -lrtalloc

#include <rtalloc.h>
#include <stdio.h>
#include <string.h>

static const char *const KINDS[] = {"a foreign pointer", "a double free", "tags that contradict each other"};

// Firmware stops here. The hook must not use the heap that reports.
static void report(const rt_misuse *misuse) {
    printf("%s reports %s\n", misuse->allocator, KINDS[misuse->kind]);
}

int main(void) {
    static unsigned char memory[8 * 1024];
    rt_set_misuse_hook(report);
    rt_tlsf *heap = rt_tlsf_init(memory, sizeof memory);

    char *block = rt_tlsf_malloc(heap, 100);
    rt_tlsf_free(heap, block);
    rt_tlsf_free(heap, block);
    static _Alignas(16) char elsewhere[16];
    rt_tlsf_free(heap, elsewhere);
    printf("still whole: %s\n", rt_strerror(rt_tlsf_check(heap, NULL)));

    // A write after a block overwrites the tag of the next block.
    char *first = rt_tlsf_malloc(heap, 100);
    char *second = rt_tlsf_malloc(heap, 100);
    memset(second - rt_tlsf_contract()->header_bytes, 0xFF, rt_tlsf_contract()->header_bytes);
    rt_tlsf_free(heap, first);
    rt_corruption where;
    printf("a check: %s\n", rt_strerror(rt_tlsf_check(heap, &where)));
    return 0;
}
