// What zephyr_log.c needs of Zephyr's header of this name.

#ifndef MINIMAL_KERNEL_H
#define MINIMAL_KERNEL_H

#include <zephyr/sys/sys_heap.h>

struct k_heap {
    struct sys_heap heap;
};

#endif
