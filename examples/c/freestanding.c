// A program without a C library: only this file and librtalloc.a are linked.
//
//     gcc -std=c11 -O1 -ffreestanding -nostdlib -static freestanding.c librtalloc.a -Wl,--gc-sections
//
// The exit status is 0 on success. Linux on x86-64.

#include <rtalloc.h>

static unsigned char memory[64 * 1024];

static _Noreturn void leave(int status) {
    for (;;) __asm__ volatile("syscall" : : "a"(60L), "D"((long) status) : "rcx", "r11", "memory");
}

// At entry, the stack pointer is not aligned as functions expect.
__attribute__((force_align_arg_pointer)) void _start(void) {
    rt_tlsf *heap = rt_tlsf_init(memory, sizeof memory);
    unsigned char *block = rt_tlsf_calloc(heap, 10, 10);
    if (block == NULL || block[99] != 0) leave(1);
    block[99] = 42;
    unsigned char *fence = rt_tlsf_malloc(heap, 10);
    // The block has to move.
    unsigned char *longer = rt_tlsf_realloc(heap, block, 4000);
    if (longer == NULL || longer == block || longer[99] != 42) leave(2);
    rt_tlsf_free(heap, fence);
    rt_tlsf_free(heap, longer);
    leave(rt_tlsf_check(heap, NULL) == RT_OK ? 0 : 3);
}
