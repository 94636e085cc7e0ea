// LVGL's configuration for the tests. What is not set has LVGL's default.

#ifndef LV_CONF_H
#define LV_CONF_H

#include <stdint.h>

#ifdef FIGURES
#define LV_USE_OS LV_OS_NONE
#else
#define LV_USE_STDLIB_MALLOC LV_STDLIB_CUSTOM
// Memory of lvgl.c, of which the heap is the first part.
extern unsigned char lvgl_memory[];
#define RTALLOC_LV_ADDRESS lvgl_memory
#define RTALLOC_LV_BYTES (256 * 1024)
#define LV_USE_OS LV_OS_PTHREAD
#endif
#define LV_COLOR_DEPTH 16
#define LV_DRAW_SW_COMPLEX 1
#define LV_USE_LOG 0
#define LV_BUILD_EXAMPLES 0
#define LV_BUILD_DEMOS 0

#endif
