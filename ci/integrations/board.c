// The board mps2-an386 as QEMU emulates it.

#include "board.h"

#include <stddef.h>

extern unsigned char data_start[], data_end[], bss_start[], bss_end[];
extern const unsigned char data_load[], stack_top[];
int main(void);

// Calls the host through semihosting, as Arm specifies it.
static int host(int operation, const void *argument) {
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void board_print(const char *text) {
    host(0x04, text);
}

_Noreturn void board_exit(int status) {
    // "The application ended", with its status.
    const uint32_t reason[2] = {0x20026, (uint32_t)status};
    for (;;)
        host(0x20, reason);
}

void board_start_timer(void) {
    // Its reload value, its count, and its control register.
    *(volatile uint32_t *)0x40000008 = UINT32_MAX;
    BOARD_TIMER = UINT32_MAX;
    *(volatile uint32_t *)0x40000000 = 1;
}

static _Noreturn void fault(void) {
    board_print("a fault of the processor\n");
    board_exit(1);
}

_Noreturn void reset(void) {
    // Access to the floating-point unit.
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20;
    __asm__ volatile("dsb\n isb");
    for (ptrdiff_t at = 0; at < data_end - data_start; at++)
        ((volatile unsigned char *)data_start)[at] = data_load[at];
    for (volatile unsigned char *at = bss_start; at < bss_end; at++)
        *at = 0;
    board_exit(main());
}

// A program with an operating system has these.
void __attribute__((weak)) vPortSVCHandler(void) { fault(); }
void __attribute__((weak)) xPortPendSVHandler(void) { fault(); }
void __attribute__((weak)) xPortSysTickHandler(void) { fault(); }

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, reset, fault, fault, fault, fault, fault, NULL, NULL, NULL, NULL, vPortSVCHandler, fault, NULL,
    xPortPendSVHandler, xPortSysTickHandler,
};
