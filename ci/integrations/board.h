// The board mps2-an386 as QEMU emulates it: start, output and a count of instructions.

#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

// Prints a NUL-terminated text.
void board_print(const char *text);

// Ends the program with a status.
_Noreturn void board_exit(int status);

// The count of a timer that counts down, in units of 40 ns. QEMU runs with `-icount shift=10`: an instruction takes
// 1,024 ns.
#define BOARD_TIMER (*(volatile uint32_t *)0x40000004)

// Starts that timer.
void board_start_timer(void);

// Instructions between two counts.
static inline unsigned board_instructions(uint32_t before, uint32_t after) {
    return (unsigned)(((uint64_t)(before - after) * 40 + 512) / 1024);
}

#endif
