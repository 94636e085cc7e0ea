// What integrations/zephyr/ needs of Zephyr's header of this name.

#include <stdio.h>
#define printk printf
