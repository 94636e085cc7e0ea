// LVGL 9 on integrations/lvgl/lv_mem_rtalloc.c: screens of widgets that are rendered, change and go, then the exercise,
// pools, and LVGL's end.

#include "board.h"
#include "exercise.h"

#include "lvgl.h"
#include "src/osal/lv_os_private.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rtalloc.h>

size_t lv_mem_largest(void);

enum { WIDTH = 320, HEIGHT = 240 };

// LVGL's heap, and after it what becomes a pool.
unsigned char lvgl_memory[RTALLOC_LV_BYTES + 3 * 32768];
static int misuses;
static unsigned pixels;

static void fail(int line) {
    printf("lvgl.c:%d failed\n", line);
    board_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__))

static void misused(const rt_misuse *misuse) {
    (void)misuse;
    misuses++;
}

static lv_mem_monitor_t monitor(void) {
    lv_mem_monitor_t found;
    lv_mem_monitor(&found);
    EXPECT(found.free_biggest_size == lv_mem_largest());
    return found;
}

static size_t free_bytes(void) {
    return monitor().free_size;
}

static void flush(lv_display_t *display, const lv_area_t *area, uint8_t *map) {
    (void)map;
    pixels += (unsigned)lv_area_get_size(area);
    lv_display_flush_ready(display);
}

static void run(int times) {
    for (int time = 0; time < times; time++) {
        lv_tick_inc(20);
        lv_timer_handler();
    }
}

// A screen of widgets of many kinds, whose texts grow and shrink.
static void screen(unsigned number) {
    lv_obj_t *old = lv_screen_active(), *new = lv_obj_create(NULL);
    EXPECT(new != NULL);
    lv_screen_load(new);
    lv_obj_delete(old);
    lv_obj_t *tabs = lv_tabview_create(new);
    lv_obj_t *tab = lv_tabview_add_tab(tabs, "one"), *other = lv_tabview_add_tab(tabs, "two");
    lv_obj_t *list = lv_list_create(tab), *label = NULL;
    for (unsigned at = 0; at < 5 + number % 4; at++) {
        char text[64];
        snprintf(text, sizeof text, "entry %u of the list on screen %u", at, number);
        label = lv_list_add_text(list, text);
    }
    lv_obj_t *area = lv_textarea_create(other), *chart = lv_chart_create(other), *table = lv_table_create(other);
    lv_chart_series_t *series = lv_chart_add_series(chart, lv_palette_main(LV_PALETTE_RED), LV_CHART_AXIS_PRIMARY_Y);
    lv_chart_set_point_count(chart, 20 + number % 30);
    for (unsigned at = 0; at < 60; at++) {
        lv_chart_set_next_value(chart, series, (int32_t)(at * number % 100));
        lv_textarea_add_text(area, "text ");
        lv_label_set_text_fmt(label, "%.*s", (int)(at % 40), "a text that becomes longer and shorter again");
        lv_table_set_cell_value_fmt(table, at % 6, at % 3, "%u", at * number);
        if (at % 20 == 0)
            run(1);
    }
    lv_tabview_set_active(tabs, 1, LV_ANIM_ON);
    run(5);
    EXPECT(lv_mem_test() == LV_RESULT_OK);
}

// The linker replaces LVGL's functions by these. Blocks are copied without the lock.
static int is_watched, held, copies;
lv_result_t __real_lv_mutex_lock(lv_mutex_t *mutex);
lv_result_t __real_lv_mutex_unlock(lv_mutex_t *mutex);
void *__real_lv_memcpy(void *to, const void *from, size_t bytes);
lv_result_t __wrap_lv_mutex_lock(lv_mutex_t *mutex);
lv_result_t __wrap_lv_mutex_lock(lv_mutex_t *mutex) {
    held += is_watched;
    return __real_lv_mutex_lock(mutex);
}
lv_result_t __wrap_lv_mutex_unlock(lv_mutex_t *mutex);
lv_result_t __wrap_lv_mutex_unlock(lv_mutex_t *mutex) {
    held -= is_watched;
    return __real_lv_mutex_unlock(mutex);
}
void *__wrap_lv_memcpy(void *to, const void *from, size_t bytes);
void *__wrap_lv_memcpy(void *to, const void *from, size_t bytes) {
    EXPECT(!is_watched || held == 0);
    copies += is_watched;
    return __real_lv_memcpy(to, from, bytes);
}

// A pool that does not touch the heap.
static void pools(void) {
    const lv_mem_monitor_t before = monitor();
    unsigned char *higher = lvgl_memory + RTALLOC_LV_BYTES + 32768;
    lv_mem_pool_t pool = lv_mem_add_pool(higher, 32768);
    EXPECT(pool != NULL && monitor().free_size > before.free_size + 32000);
    EXPECT(lv_mem_add_pool(higher + 100, 1000) == NULL);
    lv_mem_remove_pool(pool);
    EXPECT(monitor().free_size == before.free_size && monitor().total_size == before.total_size);
}

static void show(unsigned screens) {
    static uint8_t buffer[WIDTH * 40 * 2];
    lv_init();
    const lv_mem_monitor_t before = monitor();
    lv_display_t *display = lv_display_create(WIDTH, HEIGHT);
    lv_display_set_flush_cb(display, flush);
    lv_display_set_buffers(display, buffer, NULL, sizeof buffer, LV_DISPLAY_RENDER_MODE_PARTIAL);
    // The first screen fills caches that stay.
    screen(0);
    screen(1);
    const size_t settled = monitor().used_cnt;
    for (unsigned number = 2; number < screens; number++)
        screen(number);
    screen(1);
    const lv_mem_monitor_t after = monitor();
    EXPECT(after.used_cnt <= settled + 8 && after.used_cnt > before.used_cnt);
    EXPECT(after.max_used > 10000 && misuses == 0);
    lv_display_delete(display);
    pools();
    const struct heap heap = {
        .allocate = lv_malloc,
        .resize = lv_realloc,
        .release = lv_free,
        .largest = lv_mem_largest,
        .free_bytes = free_bytes,
        .align = _Alignof(max_align_t),
        .has_empty_blocks = 1,
    };
    is_watched = 1;
    const int line = exercise(&heap);
    is_watched = 0;
    EXPECT(copies > 100 && held == 0);
    if (line != 0)
        printf("exercise.c:%d failed\n", line);
    EXPECT(line == 0 && misuses == 0);
    lv_deinit();
}

int main(void) {
    rt_set_misuse_hook(misused);
    show(30);
    // LVGL starts again.
    show(4);
    lv_init();
    void *block = lv_malloc(100), *zeroed = lv_calloc(10, 10);
    for (int at = 0; at < 100; at++)
        EXPECT(((unsigned char *)zeroed)[at] == 0);
    lv_free(block);
    lv_free(block);
    EXPECT(misuses == 1 && lv_mem_test() == LV_RESULT_OK);
    EXPECT(lv_realloc((void *)8, 50) == NULL && lv_realloc((void *)8, 500) == NULL && misuses == 3);
    // An overwritten tag is found.
    memset(zeroed, 255, 120);
    EXPECT(lv_mem_test() == LV_RESULT_INVALID);
    printf("screens: 34, pixels: %u, largest request: %zu\n", pixels, lv_mem_largest());
    return 0;
}
