// What board.c is for programs of this machine.

#include "board.h"

#include <stdio.h>
#include <unistd.h>

void board_print(const char *text) {
    fputs(text, stdout);
    fflush(stdout);
}

// Without the handlers of exit: a thread of the kernel may call this.
_Noreturn void board_exit(int status) {
    fflush(stdout);
    _exit(status);
}
