// Data structures and functions of ROS 2's rcutils on integrations/ros2/rcutils_rtalloc.c, threads, and the exercise.

#include "board.h"
#include "exercise.h"

#include <errno.h>
#include <pthread.h>
#include <rcutils/allocator.h>
#include <rcutils/error_handling.h>
#include <rcutils/format_string.h>
#include <rcutils/split.h>
#include <rcutils/strdup.h>
#include <rcutils/types.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <rtalloc.h>

rcutils_allocator_t rtalloc_rcutils_allocator(void *region, size_t bytes);
size_t rtalloc_rcutils_largest(const rcutils_allocator_t *allocator);
rt_error rtalloc_rcutils_stats(const rcutils_allocator_t *allocator, rt_stats *stats);

static char memory[1 << 20];
static rcutils_allocator_t allocator;
static int misuses;

static void fail(int line) {
    printf("ros2.c:%d failed\n", line);
    board_exit(1);
}

#define EXPECT(condition) ((condition) ? (void)0 : fail(__LINE__))

// Called by an operation of the heap, which must have the mutex: the first member of the state.
static void misused(const rt_misuse *misuse) {
    (void)misuse;
    EXPECT(pthread_mutex_trylock(allocator.state) == EBUSY);
    misuses++;
}

static size_t live_bytes(void) {
    rt_stats stats;
    EXPECT(rtalloc_rcutils_stats(&allocator, &stats) == RT_OK);
    EXPECT(stats.largest_free_bytes == rtalloc_rcutils_largest(&allocator));
    return stats.live_bytes;
}

static void *allocate(size_t size) { return allocator.allocate(size, allocator.state); }
static void *zeroed(size_t count, size_t size) { return allocator.zero_allocate(count, size, allocator.state); }
static void *resize(void *block, size_t size) { return allocator.reallocate(block, size, allocator.state); }
static void release(void *block) { allocator.deallocate(block, allocator.state); }
static size_t largest(void) { return rtalloc_rcutils_largest(&allocator); }
static size_t free_bytes(void) { return sizeof memory - live_bytes(); }

static void use_rcutils(void) {
    char key[32], value[64];
    rcutils_string_map_t map = rcutils_get_zero_initialized_string_map();
    EXPECT(rcutils_string_map_init(&map, 0, allocator) == RCUTILS_RET_OK);
    for (int at = 0; at < 300; at++) {
        snprintf(key, sizeof key, "/namespace/key_%d", at);
        snprintf(value, sizeof value, "the value of number %d", at * at);
        EXPECT(rcutils_string_map_set(&map, key, value) == RCUTILS_RET_OK);
    }
    EXPECT(strcmp(rcutils_string_map_get(&map, "/namespace/key_17"), "the value of number 289") == 0);
    EXPECT(rcutils_string_map_unset(&map, "/namespace/key_17") == RCUTILS_RET_OK);
    EXPECT(live_bytes() > 300 * 30);

    rcutils_array_list_t list = rcutils_get_zero_initialized_array_list();
    EXPECT(rcutils_array_list_init(&list, 2, sizeof(int), &allocator) == RCUTILS_RET_OK);
    for (int at = 0; at < 1000; at++)
        EXPECT(rcutils_array_list_add(&list, &at) == RCUTILS_RET_OK);
    int read = 0;
    EXPECT(rcutils_array_list_get(&list, 999, &read) == RCUTILS_RET_OK && read == 999);

    rcutils_hash_map_t hash_map = rcutils_get_zero_initialized_hash_map();
    EXPECT(rcutils_hash_map_init(&hash_map, 2, sizeof(char *), sizeof(int), rcutils_hash_map_string_hash_func,
                                 rcutils_hash_map_string_cmp_func, &allocator) == RCUTILS_RET_OK);
    static const char *const names[] = {"odometry", "scan", "tf", "cmd_vel", "joint_states"};
    for (int at = 0; at < 5; at++)
        EXPECT(rcutils_hash_map_set(&hash_map, &names[at], &at) == RCUTILS_RET_OK);
    EXPECT(rcutils_hash_map_get(&hash_map, &names[3], &read) == RCUTILS_RET_OK && read == 3);

    rcutils_string_array_t parts = rcutils_get_zero_initialized_string_array();
    EXPECT(rcutils_split("/a/topic/of/some/depth", '/', allocator, &parts) == RCUTILS_RET_OK && parts.size == 5);
    EXPECT(strcmp(parts.data[1], "topic") == 0);
    char *copy = rcutils_strdup("a text", allocator);
    char *formatted = rcutils_format_string(allocator, "%d and %s", 5, copy);
    EXPECT(copy != NULL && formatted != NULL && strcmp(formatted, "5 and a text") == 0);
    rcutils_char_array_t text = rcutils_get_zero_initialized_char_array();
    EXPECT(rcutils_char_array_init(&text, 0, &allocator) == RCUTILS_RET_OK);
    for (int at = 0; at < 200; at++)
        EXPECT(rcutils_char_array_strcat(&text, "growing ") == RCUTILS_RET_OK);
    EXPECT(strlen(text.buffer) == 1600);

    release(copy);
    release(formatted);
    EXPECT(rcutils_char_array_fini(&text) == RCUTILS_RET_OK);
    EXPECT(rcutils_string_array_fini(&parts) == RCUTILS_RET_OK);
    EXPECT(rcutils_hash_map_fini(&hash_map) == RCUTILS_RET_OK);
    EXPECT(rcutils_array_list_fini(&list) == RCUTILS_RET_OK);
    EXPECT(rcutils_string_map_fini(&map) == RCUTILS_RET_OK);
}

static void *thread(void *argument) {
    unsigned random = 1 + (unsigned)(size_t)argument;
    unsigned char *blocks[32] = {NULL};
    size_t sizes[32];
    for (int count = 0; count < 400000; count++) {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        const unsigned at = random % 32;
        if (blocks[at] == NULL) {
            sizes[at] = 1 + (random >> 8) % 300;
            blocks[at] = allocate(sizes[at]);
            EXPECT(blocks[at] != NULL);
            memset(blocks[at], (int)at, sizes[at]);
        } else {
            EXPECT(blocks[at][0] == at && blocks[at][sizes[at] - 1] == at);
            if (random >> 29 == 0) {
                sizes[at] = 1 + (random >> 8) % 300;
                blocks[at] = resize(blocks[at], sizes[at]);
                EXPECT(blocks[at] != NULL);
                memset(blocks[at], (int)at, sizes[at]);
            } else {
                release(blocks[at]);
                blocks[at] = NULL;
            }
        }
    }
    for (int at = 0; at < 32; at++)
        release(blocks[at]);
    return NULL;
}

int main(void) {
    const struct heap heap = {
        .allocate = allocate,
        .zeroed = zeroed,
        .resize = resize,
        .release = release,
        .largest = largest,
        .free_bytes = free_bytes,
        .align = _Alignof(max_align_t),
        .has_empty_blocks = 1,
    };
    rt_set_misuse_hook(misused);
    allocator = rtalloc_rcutils_allocator(memory, 50);
    EXPECT(!rcutils_allocator_is_valid(&allocator));
    // The region begins at an odd address.
    allocator = rtalloc_rcutils_allocator(memory + 3, sizeof memory - 3);
    EXPECT(rcutils_allocator_is_valid(&allocator));

    const size_t most = largest();
    use_rcutils();
    EXPECT(live_bytes() == 0 && largest() == most);
    const int line = exercise(&heap);
    if (line != 0)
        printf("exercise.c:%d failed\n", line);
    EXPECT(line == 0 && live_bytes() == 0);

    pthread_t threads[4];
    for (size_t at = 0; at < 4; at++)
        EXPECT(pthread_create(&threads[at], NULL, thread, (void *)at) == 0);
    for (size_t at = 0; at < 4; at++)
        pthread_join(threads[at], NULL);
    EXPECT(live_bytes() == 0 && largest() == most && misuses == 0);

    // Functions of rcutils report exhaustion, and leave nothing behind.
    allocator = rtalloc_rcutils_allocator(memory, 8192);
    rcutils_string_map_t map = rcutils_get_zero_initialized_string_map();
    EXPECT(rcutils_string_map_init(&map, 0, allocator) == RCUTILS_RET_OK);
    rcutils_ret_t answer = RCUTILS_RET_OK;
    for (int at = 0; at < 1000 && answer == RCUTILS_RET_OK; at++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", at);
        answer = rcutils_string_map_set(&map, key, "a value of some length");
        rcutils_reset_error();
    }
    EXPECT(answer == RCUTILS_RET_BAD_ALLOC);
    EXPECT(rcutils_string_map_fini(&map) == RCUTILS_RET_OK && live_bytes() == 0);

    void *block = allocate(100);
    EXPECT(resize(block, 0) == NULL && misuses == 0);
    release(block);
    EXPECT(misuses == 1);
    // A block that is not live does not grow, and its content is not copied.
    void *after = allocate(100);
    block = allocate(100);
    release(after);
    EXPECT(resize(after, 50) == NULL && resize(after, 500) == NULL && misuses == 3);
    EXPECT(resize((void *)8, 50) == NULL && resize((void *)8, 500) == NULL && misuses == 5);
    // A refusal is counted once.
    rt_stats before, refused;
    EXPECT(rtalloc_rcutils_stats(&allocator, &before) == RT_OK && resize(block, 8000) == NULL);
    EXPECT(rtalloc_rcutils_stats(&allocator, &refused) == RT_OK && refused.failures == before.failures + 1);
    release(block);
    EXPECT(live_bytes() == 0);
    printf("threads: 4, largest request of 8 KiB: %zu\n", largest());
    return 0;
}
