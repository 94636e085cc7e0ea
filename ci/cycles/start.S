# Entry of the programs that ci/cycles/link.sh links: calls `program`, then stores to the address that ends the
# simulation. The memory is zero at first, so .bss needs no loop.
    .section .text.start, "ax"
    .globl _start
_start:
    la sp, stack_end
    call program
    sw zero, -4(zero)
0:  j 0b
